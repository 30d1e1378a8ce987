//! Tables, and indices that say of what they are.
//!
//! A place in a list is a number like any other: that of a label, looked up among kinds, compiles and finds something else. A
//! [`TableIndex`] is made by a [`Table`] alone, so what it names is there, and looking it up cannot fail. One that names nothing
//! is a mistake in the program, and panics. A number becomes an index only where the table has such an entry.
//!
//! ```
//! use event::Table;
//!
//! struct Fruit(&'static str);
//!
//! let mut fruits: Table<Fruit> = Table::default();
//! let pear = fruits.push(Fruit("pear"));
//! // What else is known of each fruit lies in a table of its own, under the same indices.
//! let lengths = fruits.map(|fruit| fruit.0.len());
//! assert_eq!((fruits[pear].0, lengths[pear]), ("pear", 4));
//! ```

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// Most entries of a table.
const ENTRIES_MAX: usize = u32::MAX as usize;

/// The index of an entry among the `T`s of a [`Table`].
pub struct TableIndex<T> {
    number: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> TableIndex<T> {
    /// An index of a table's entry; a table has no more than [`ENTRIES_MAX`].
    #[inline]
    fn new(number: usize) -> TableIndex<T> {
        TableIndex { number: number as u32, of: PhantomData }
    }

    /// Returns the number of entries before it.
    #[inline]
    pub fn get(self) -> usize {
        self.number as usize
    }
}

impl<T> Clone for TableIndex<T> {
    #[inline]
    fn clone(&self) -> TableIndex<T> {
        *self
    }
}

impl<T> Copy for TableIndex<T> {}

impl<T> PartialEq for TableIndex<T> {
    #[inline]
    fn eq(&self, other: &TableIndex<T>) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for TableIndex<T> {}

impl<T> PartialOrd for TableIndex<T> {
    fn partial_cmp(&self, other: &TableIndex<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for TableIndex<T> {
    #[inline]
    fn cmp(&self, other: &TableIndex<T>) -> std::cmp::Ordering {
        self.number.cmp(&other.number)
    }
}

impl<T> Hash for TableIndex<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl<T> fmt::Debug for TableIndex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// Entries in order, each found by its [`TableIndex`]: the `T`s themselves, or something else about each of them.
pub struct Table<T, V = T> {
    values: Vec<V>,
    of: PhantomData<fn() -> T>,
}

impl<T, V> Table<T, V> {
    /// Adds an entry behind the others.
    ///
    /// # Panics
    /// If there are 2^32 already.
    pub fn push(&mut self, value: V) -> TableIndex<T> {
        assert!(self.values.len() < ENTRIES_MAX, "a table has at most {ENTRIES_MAX} entries");
        self.values.push(value);
        TableIndex::new(self.values.len() - 1)
    }

    /// Takes the entries behind the first `count` away. Indices of those name nothing any more.
    pub fn truncate(&mut self, count: usize) {
        self.values.truncate(count);
    }

    /// Returns the number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns true if there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The entries in order.
    #[inline]
    pub fn as_slice(&self) -> &[V] {
        &self.values
    }

    /// The entries in order.
    #[inline]
    pub fn iter(&self) -> std::slice::Iter<'_, V> {
        self.values.iter()
    }

    /// The entries in order, to be changed.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, V> {
        self.values.iter_mut()
    }

    /// The index of the entry that has so many before it; `None` if there are not so many.
    #[inline]
    pub fn index(&self, number: usize) -> Option<TableIndex<T>> {
        (number < self.values.len()).then(|| TableIndex::new(number))
    }

    /// The indices of all entries, in order.
    pub fn indices(&self) -> impl ExactSizeIterator<Item = TableIndex<T>> + use<T, V> {
        (0..self.values.len()).map(TableIndex::new)
    }

    /// The entries in order, each with its index.
    pub fn entries(&self) -> impl Iterator<Item = (TableIndex<T>, &V)> {
        self.indices().zip(&self.values)
    }

    /// The index of the first entry that is meant.
    pub fn position(&self, is_meant: impl FnMut(&V) -> bool) -> Option<TableIndex<T>> {
        self.values.iter().position(is_meant).map(TableIndex::new)
    }

    /// A table with something about each entry, under the same indices.
    pub fn map<W>(&self, about: impl FnMut(&V) -> W) -> Table<T, W> {
        self.values.iter().map(about).collect()
    }
}

impl<T, V> Index<TableIndex<T>> for Table<T, V> {
    type Output = V;

    #[inline]
    fn index(&self, index: TableIndex<T>) -> &V {
        &self.values[index.get()]
    }
}

impl<T, V> IndexMut<TableIndex<T>> for Table<T, V> {
    #[inline]
    fn index_mut(&mut self, index: TableIndex<T>) -> &mut V {
        &mut self.values[index.get()]
    }
}

impl<T, V> Default for Table<T, V> {
    fn default() -> Table<T, V> {
        Table { values: Vec::new(), of: PhantomData }
    }
}

impl<T, V: Clone> Clone for Table<T, V> {
    fn clone(&self) -> Table<T, V> {
        Table { values: self.values.clone(), of: PhantomData }
    }
}

impl<T, V: fmt::Debug> fmt::Debug for Table<T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.values.fmt(f)
    }
}

impl<T, V> FromIterator<V> for Table<T, V> {
    fn from_iter<I: IntoIterator<Item = V>>(values: I) -> Table<T, V> {
        Table::from(Vec::from_iter(values))
    }
}

impl<T, V> From<Vec<V>> for Table<T, V> {
    fn from(values: Vec<V>) -> Table<T, V> {
        assert!(values.len() <= ENTRIES_MAX, "a table has at most {ENTRIES_MAX} entries");
        Table { values, of: PhantomData }
    }
}

impl<'a, T, V> IntoIterator for &'a Table<T, V> {
    type Item = &'a V;
    type IntoIter = std::slice::Iter<'a, V>;

    fn into_iter(self) -> std::slice::Iter<'a, V> {
        self.values.iter()
    }
}

impl<'a, T, V> IntoIterator for &'a mut Table<T, V> {
    type Item = &'a mut V;
    type IntoIter = std::slice::IterMut<'a, V>;

    fn into_iter(self) -> std::slice::IterMut<'a, V> {
        self.values.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_finds_what_it_was_made_for() {
        let mut names: Table<String> = Table::default();
        let (one, two) = (names.push("one".to_owned()), names.push("two".to_owned()));
        assert_eq!((&*names[one], &*names[two], two.get(), names.len()), ("one", "two", 1, 2));
        assert_eq!(names.position(|name| name == "two"), Some(two));
        assert_eq!(names.position(|name| name == "three"), None);
        assert_eq!((names.index(1), names.index(2)), (Some(two), None));
        assert!(names.indices().eq([one, two]) && one < two);
        let lengths: Table<String, usize> = names.map(String::len);
        assert!(lengths.entries().eq([(one, &3), (two, &3)]));
        names[two].push('!');
        assert_eq!(names.as_slice(), ["one", "two!"]);
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn an_index_that_names_nothing_is_a_mistake() {
        let mut names: Table<&str> = Table::default();
        let one = names.push("one");
        names.truncate(0);
        let _ = names[one];
    }
}

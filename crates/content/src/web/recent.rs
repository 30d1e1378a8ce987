//! Results that were made of texts a moment ago. Requests have most of what they say in common with those before: the same programs ask
//! for the same pages, from the same ones. What only the text decides is then made once.
//!
//! A table has a fixed number of places, the text's hash says which one, and who comes later takes it: a stranger who sends new
//! texts makes work as without a table, and never more memory.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex};

use hashbrown::DefaultHashBuilder;

/// Places of a table.
const PLACES: usize = 1024;
/// Longest text that is remembered.
const TEXT_BYTES_MAX: usize = 512;

/// A place of a table: a text, and what was made of it.
type RecentPlace<T> = Mutex<Option<(Box<str>, Arc<T>)>>;

/// Results by the text that they were made of.
pub(crate) struct RecentResults<T> {
    places: Box<[RecentPlace<T>]>,
    hasher: DefaultHashBuilder,
}

impl<T> Default for RecentResults<T> {
    fn default() -> RecentResults<T> {
        let places = (0..PLACES).map(|_| Mutex::new(None)).collect();
        RecentResults { places, hasher: DefaultHashBuilder::default() }
    }
}

impl<T> fmt::Debug for RecentResults<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecentResults({PLACES} places)")
    }
}

impl<T> RecentResults<T> {
    /// Returns what is made of a text, which must depend on nothing else. Nobody waits: a place at which another thread is
    /// counts as empty.
    pub(crate) fn get(&self, text: &str, make: impl FnOnce(&str) -> T) -> Arc<T> {
        let number = usize::try_from(self.hasher.hash_one(text) % PLACES as u64).unwrap_or(0);
        let Some(place) = self.places.get(number).filter(|_| text.len() <= TEXT_BYTES_MAX) else {
            return Arc::new(make(text));
        };
        if let Ok(known) = place.try_lock()
            && let Some((of, result)) = &*known
            && **of == *text
        {
            return Arc::clone(result);
        }
        let result = Arc::new(make(text));
        if let Ok(mut known) = place.try_lock() {
            *known = Some((text.into(), Arc::clone(&result)));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_text_gives_its_own_result_however_many_there_are() {
        let (table, made) = (RecentResults::default(), Cell::new(0usize));
        let get = |text: &str| {
            let result = table.get(text, |text| {
                made.set(made.get() + 1);
                text.to_owned()
            });
            assert_eq!(*result, text);
        };
        let count = PLACES * 4;
        for round in 0..2 {
            for number in 0..count {
                get(&number.to_string());
                get(&number.to_string());
            }
            assert!(made.get() <= count * (round + 1), "the second of two is remembered");
        }
        assert!(made.get() > count, "more than there are places are not");
        let (before, long) = (made.get(), "x".repeat(TEXT_BYTES_MAX + 1));
        get(&long);
        get(&long);
        assert_eq!(made.get(), before + 2);
    }

    #[test]
    fn a_place_that_is_taken_counts_as_empty() {
        let table = RecentResults::default();
        let held: Vec<_> = table.places.iter().map(|place| place.lock().unwrap()).collect();
        assert_eq!(*table.get("a", str::len), 1);
        drop(held);
        assert_eq!(*table.get("a", str::len), 1);
    }
}

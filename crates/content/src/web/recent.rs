//! Results that were made of texts a moment ago. Requests have most of what they say in common with those before: the same programs ask
//! for the same pages, from the same ones. What only the text decides is then made once.
//!
//! A table has a fixed number of places, the text's hash says which pair of them is a text's, and who comes later takes that of the two
//! which was asked for longer ago: a stranger who sends new texts makes work as without a table, and never more memory.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex};

use hashbrown::DefaultHashBuilder;

/// Places of a table. A site has thousands of pages: with a quarter of the places, one in six requests finds its page forgotten.
const PLACES: usize = 4096;
/// Places that a text can be in. With one, two that are often asked for can push each other out for ever.
const WAYS: usize = 2;
/// Longest text that is remembered.
const TEXT_BYTES_MAX: usize = 512;

/// The places of a text: texts, and what was made of them, the latest first.
type RecentPlaces<T> = Mutex<[Option<(Box<str>, Arc<T>)>; WAYS]>;

/// Results by the text that they were made of.
pub(crate) struct RecentResults<T> {
    places: Box<[RecentPlaces<T>]>,
    hasher: DefaultHashBuilder,
}

impl<T> Default for RecentResults<T> {
    fn default() -> RecentResults<T> {
        let places = (0..PLACES / WAYS).map(|_| Mutex::new([const { None }; WAYS])).collect();
        RecentResults { places, hasher: DefaultHashBuilder::default() }
    }
}

impl<T> fmt::Debug for RecentResults<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecentResults({PLACES} places)")
    }
}

impl<T> RecentResults<T> {
    /// Returns what is made of a text, which must depend on nothing else. Nobody waits: places at which another thread is
    /// count as empty.
    pub(crate) fn get(&self, text: &str, make: impl FnOnce(&str) -> T) -> Arc<T> {
        let number = usize::try_from(self.hasher.hash_one(text) % (PLACES / WAYS) as u64).unwrap_or(0);
        let Some(places) = self.places.get(number).filter(|_| text.len() <= TEXT_BYTES_MAX) else {
            return Arc::new(make(text));
        };
        if let Ok(mut known) = places.try_lock()
            && let Some(at) =
                known.iter().position(|place| place.as_ref().is_some_and(|(of, _)| **of == *text))
        {
            known[..=at].rotate_right(1);
            if let Some((_, result)) = &known[0] {
                return Arc::clone(result);
            }
        }
        let result = Arc::new(make(text));
        if let Ok(mut known) = places.try_lock() {
            known.rotate_right(1);
            known[0] = Some((text.into(), Arc::clone(&result)));
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
    fn a_text_that_is_asked_for_again_stays() {
        let (table, made) = (RecentResults::default(), Cell::new(0usize));
        let get = |text: &str| {
            table.get(text, |_| made.set(made.get() + 1));
        };
        get("often");
        for number in 0..PLACES * 2 {
            get(&number.to_string());
            let before = made.get();
            get("often");
            assert_eq!(made.get(), before, "only the other place of its pair is taken");
        }
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

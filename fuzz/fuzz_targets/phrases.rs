//! Files of phrases, and a search for what they hold.
#![no_main]

use content::text::obfuscation::normalise;
use content::text::phrase::{PhraseSet, parse};
use event::Time;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, &str, &str)| {
    let (words, file, text) = input;
    let classes = ["a".to_owned(), "b".to_owned()];
    match parse(file, &classes) {
        Ok(entries) => {
            let count = entries.len();
            let set = PhraseSet::new(entries, classes.len(), words).unwrap();
            let found = set.search([normalise(text).as_str(), normalise(file).as_str()], Time::EPOCH);
            assert!(set.len() <= count && found.count() <= set.len());
        }
        Err(error) => assert!(file.get(error.range).is_some()),
    }
});

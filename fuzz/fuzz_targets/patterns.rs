//! Lists of patterns for requests, and a search for what they hold.
#![no_main]

use content::web::pattern::PatternList;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (file, text) = input;
    match PatternList::parse(file) {
        Ok(list) => {
            list.matches(text);
            list.matches(&file.to_lowercase());
        }
        Err(error) => assert!(file.get(error.range).is_some()),
    }
});

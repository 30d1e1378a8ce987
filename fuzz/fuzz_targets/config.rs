//! Any text is a configuration: it compiles, or every problem points into it.
#![no_main]

use engine::{Config, Overrides, Plan};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let config = Config::from_text("fuzz.toml", text, &Overrides::default());
    if let Err(problems) = Plan::compile(&config) {
        assert!(!problems.is_empty());
        assert!(problems.to_string().lines().count() >= problems.list().len());
    }
});

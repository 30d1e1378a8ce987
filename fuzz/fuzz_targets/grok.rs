//! Any text is a grok pattern that compiles or an error; one that compiles reads any text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logs::grok::GrokLibrary;

fuzz_target!(|raw: &[u8]| {
    let text = String::from_utf8_lossy(raw);
    if text.len() > 2048 {
        return;
    }
    let (patterns, line) = text.split_once("\n---\n").unwrap_or((&text, ""));
    let (library, expression) = patterns.rsplit_once('\n').unwrap_or(("", patterns));
    let mut known = GrokLibrary::new();
    known.add_file(library);
    if let Ok(pattern) = known.compile(expression) {
        let fields = pattern.fields().count();
        assert!(pattern.read(line).is_none_or(|read| read.len() == fields));
    }
});

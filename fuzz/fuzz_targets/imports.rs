//! Any text is lines of other filters' files, each of which is an entry or none; any bytes are a message that has ids; any
//! text between marks is a test text at most where one stands.
#![no_main]

use content::mail::multimap::{self, MultimapKey};
use content::mail::spamassassin::{self, BackupLine};
use content::mail::test_pattern::TestPattern;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|raw: &[u8]| {
    let ids = spamassassin::message_ids(raw);
    assert!((1..=3).contains(&ids.len()) && ids[0].ends_with("@sa_generated") && ids[0].len() == 53);
    let text = String::from_utf8_lossy(raw);
    assert!(TestPattern::find(&text).is_none() || text.contains("GTUBE"));
    for line in text.lines() {
        if let Ok(Some(entry)) = multimap::line(line) {
            let (MultimapKey::Text(key) | MultimapKey::Pattern { pattern: key, .. }) = &entry.key;
            assert!(!key.is_empty() && key.len() <= line.len());
            assert!(entry.weight.is_none_or(f64::is_finite));
        }
        if let Some(BackupLine::Seen { id, .. }) = spamassassin::line(line) {
            assert!(line.contains(id));
        }
    }
});

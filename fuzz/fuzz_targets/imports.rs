//! Any text is lines of other filters' files, each of which is an entry or none, and of what they know of senders; any bytes are
//! a message that has ids; any text between marks is a test text at most where one stands.
#![no_main]

use content::mail::multimap::{self, MultimapKey};
use content::mail::sender_history::{self, HistoryLine, HistoryReader, HistorySource, SenderIdentity};
use content::mail::spamassassin::{self, BackupLine};
use content::mail::test_pattern::TestPattern;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|raw: &[u8]| {
    let ids = spamassassin::message_ids(raw);
    assert!((1..=3).contains(&ids.len()) && ids[0].ends_with("@sa_generated") && ids[0].len() == 53);
    let text = String::from_utf8_lossy(raw);
    assert!(TestPattern::find(&text).is_none() || text.contains("GTUBE"));
    for source in [HistorySource::TxRep, HistorySource::Awl, HistorySource::Rspamd] {
        let mut reader = HistoryReader::new(source, sender_history::RSPAMD_PREFIX);
        for line in text.lines() {
            if let Ok(HistoryLine::Record(record)) = reader.line(line) {
                assert!((1..=sender_history::COUNT_MAX).contains(&record.count) && record.mean.is_finite());
                if let SenderIdentity::Address(address) = &record.sender {
                    assert!(address.contains('@') && address.len() <= line.len());
                }
            }
        }
    }
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

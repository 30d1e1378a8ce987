//! Any bytes are a mail: a feedback report or none, and what is attached to it lies within bounds.
#![no_main]

use content::mail::arf;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|raw: &[u8]| {
    if let Some(report) = arf::read(raw) {
        assert!(report.envelope.recipients.len() <= 100);
        assert!(report.original.is_none_or(|original| original.bytes().len() <= raw.len()));
    }
    let attached = arf::attached(raw);
    assert!(attached.len() <= 16 && attached.iter().map(|one| one.len()).sum::<usize>() <= raw.len());
});

//! Text in obfuscation, and the contact data in it.
#![no_main]

use content::text;
use content::text::language::{ScriptCounts, language};
use content::text::obfuscation::{self, ObfuscationCounts};
use content::text::{fingerprint, phone, wallet};
use content::web::{deobfuscation, messenger};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|written: &str| {
    let plain = text::plain(written);
    assert!(plain.len() <= 64 * written.len());
    let once = text::normalise(written);
    assert_eq!(text::normalise(&once), once);
    let undone = obfuscation::deobfuscate(&plain);
    if undone.leet_words + undone.spaced_words + undone.closed_gaps == 0 {
        assert_eq!(undone.text, plain);
    }
    let mut obfuscation = ObfuscationCounts::default();
    obfuscation.count(written);
    assert!(obfuscation.characters() <= 2 * written.chars().count());
    phone::find(&plain, |phone| assert!(phone::DIGITS.contains(&phone.digits.len())));
    deobfuscation::find(&plain, |_| {});
    messenger::find(&plain, |handle| assert!(handle.contains(':')));
    wallet::find(written, |wallet| assert!(wallet.contains(':')));
    language(written);
    ScriptCounts::of(written).foreign_share();
    let normalised = obfuscation::normalise(written);
    fingerprint::fingerprints(&normalised);
    let skeleton = fingerprint::skeleton(&normalised);
    assert!([0, fingerprint::SHORT_BANDS].contains(&fingerprint::short_fingerprints(&skeleton).len()));
    fingerprint::template(&skeleton);
});

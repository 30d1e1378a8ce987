//! Text in disguise, and the contact data in it.
#![no_main]

use content::disguise::{self, Disguise};
use content::language::{Scripts, language};
use content::{fingerprint, phone, reveal, text, wallet};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|written: &str| {
    let plain = text::plain(written);
    assert!(plain.len() <= 64 * written.len());
    let once = text::normalise(written);
    assert_eq!(text::normalise(&once), once);
    let undone = disguise::undo(&plain);
    if undone.leet_words + undone.spaced_words == 0 {
        assert_eq!(undone.text, plain);
    }
    let mut disguise = Disguise::default();
    disguise.count(written);
    assert!(disguise.characters() <= 2 * written.chars().count());
    phone::find(&plain, |phone| assert!(phone::DIGITS.contains(&phone.digits.len())));
    reveal::find(&plain, |_| {});
    reveal::handles(&plain, |handle| assert!(handle.contains(':')));
    wallet::find(written, |wallet| assert!(wallet.contains(':')));
    language(written);
    Scripts::of(written).foreign_share();
    fingerprint::fingerprints(&disguise::normalise(written));
});

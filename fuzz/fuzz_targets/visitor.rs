//! Any bytes are a solved challenge, a pass, a template: all refused unless they were signed here, and no template is read that
//! could not be filled.
#![no_main]

use event::{Secret, Time};
use gate::keyring::{Keyring, SigningPurpose};
use gate::page_template::PageTemplate;
use gate::pass::{Pass, PassMethod};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let keys = Keyring::new(Secret::new([7; Secret::BYTES]));
    let now = Time(1_790_000_000_000_000);
    assert!(gate::challenge::open(&keys, bytes, now).is_err());
    let encoded = data_encoding::BASE64.encode(bytes);
    assert!(gate::challenge::open(&keys, encoded.as_bytes(), now).is_err());
    // A pass with some of its characters exchanged is none, and neither is any other text.
    let pass =
        Pass { method: PassMethod::Work, id: 1, issued: now, lifetime: event::Span::hours(1), bound: 5 };
    let mut text = pass.sign(&keys, SigningPurpose::Pass).into_bytes();
    let whole = text.clone();
    assert_eq!(Pass::open(&keys, SigningPurpose::Pass, bytes, 5, now).is_ok(), bytes == whole);
    for pair in bytes.chunks_exact(2).take(8) {
        let at = usize::from(pair[0]) % text.len();
        text[at] = pair[1];
    }
    assert_eq!(Pass::open(&keys, SigningPurpose::Pass, &text, 5, now).is_ok(), text == whole);
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(template) = PageTemplate::read(text)
    {
        let mut page = String::new();
        template.fill(&mut page, |_, page| page.push('x'));
        assert!(page.len() <= text.len());
    }
});

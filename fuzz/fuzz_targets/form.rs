//! Any text is a token that was issued here, and then the only one that says what it says, or is refused; any name is bait of two
//! days or none.
#![no_main]

use event::{Secret, Span, Time};
use gate::bait::{BaitNames, HeldBait, is_like_bait};
use gate::form::{FormRefusal, FormTerms, FormToken, TOKEN_CHARS_MAX, is_form_name};
use gate::keyring::Keyring;
use libfuzzer_sys::fuzz_target;

const NOW: Time = Time(1_790_000_000_000_000);

fuzz_target!(|bytes: &[u8]| {
    let keys = Keyring::new(Secret::new([7; Secret::BYTES]));
    match FormToken::open(&keys, "site", bytes, NOW) {
        Ok(token) => {
            assert!(bytes.len() <= TOKEN_CHARS_MAX && is_form_name(&token.name));
            assert_eq!(token.sign(&keys, "site").as_deref().map(str::as_bytes), Some(bytes));
            assert_eq!(FormToken::open(&keys, "other", bytes, NOW), Err(FormRefusal::Forged));
            assert!(token.age(NOW) >= 0.0);
            let terms = FormTerms { expected: Some(""), visitor: token.visitor, lifetime: Span::days(8) };
            assert_eq!(token.check(&terms, NOW), Err(FormRefusal::OtherForm));
        }
        Err(refusal) => assert!(matches!(refusal, FormRefusal::Forged | FormRefusal::Expired)),
    }
    let name = String::from_utf8_lossy(bytes);
    let held = HeldBait::at(&keys, "site", NOW);
    if held.has_field(&name) || held.has_link(&name) {
        assert!(is_like_bait(&name));
    }
    assert!(BaitNames::of(&keys, "site", NOW).fields.iter().all(|name| is_like_bait(name)));
    // Whatever a form is called.
    let token = FormToken { id: 1, issued: NOW, visitor: 2, name: name.into_owned() };
    let text = token.sign(&keys, "site");
    assert_eq!(text.is_some(), is_form_name(&token.name));
    if let Some(text) = text {
        assert_eq!(FormToken::open(&keys, "site", text.as_bytes(), NOW), Ok(token));
    }
});

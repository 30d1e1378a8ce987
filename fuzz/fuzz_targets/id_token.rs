//! No text is an ID token of a provider whose key signed nothing, and no bytes that are no key set are one.
#![no_main]

use access::{IdTokenPolicy, KeySet};
use libfuzzer_sys::fuzz_target;

/// The key of RFC 8037, A.2.
const KEYS: &[u8] =
    br#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

fuzz_target!(|bytes: &[u8]| {
    let mut sets = vec![KeySet::read(KEYS).unwrap()];
    sets.extend(KeySet::read(bytes).ok());
    let policy = IdTokenPolicy { issuer: "i", client: "c", nonce: "n", now: event::Time(0) };
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert!(policy.verify(text, &sets[0]).is_err());
        let signed = format!("eyJhbGciOiJFZERTQSJ9.{text}");
        assert!(sets.iter().all(|keys| policy.verify(&signed, keys).is_err()));
    }
});

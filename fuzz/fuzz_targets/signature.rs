//! Any bytes are fields of signatures, directories of keys and lists of networks, or errors; and nothing of it verifies.
#![no_main]

use event::{Span, Time};
use gate::robot::published_networks;
use gate::signature::{
    FieldSource, KeyDirectory, SignaturePolicy, SignedRequest, VerificationKey, read_signatures,
    signature_agent,
};
use libfuzzer_sys::fuzz_target;

/// Fields, one a line.
struct Fields<'a>(Vec<(&'a [u8], &'a [u8])>);

impl FieldSource for Fields<'_> {
    fn values(&self, name: &str) -> Vec<&[u8]> {
        self.0.iter().filter(|(own, _)| *own == name.as_bytes()).map(|(_, value)| *value).collect()
    }
}

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| {
        let at = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..at], &line[at + 1..]))
    });
    let fields = Fields(lines.collect());
    let request = SignedRequest {
        method: "GET",
        scheme: "https",
        authority: "example.org",
        path: "/path",
        query: Some("a=b&c=%20"),
        fields: &fields,
    };
    let key = VerificationKey::secret(b"0123456789abcdef").unwrap();
    let policy = SignaturePolicy {
        covered: &[],
        age_max: Span::days(36500),
        has_expiry: false,
        has_nonce: false,
        skew: Span::days(36500),
    };
    for signature in read_signatures(&fields).unwrap_or_default() {
        let _ = signature_agent(&request, &signature);
        let verified = policy.verify(&request, &signature, &key, Time(0));
        assert!(verified.is_err(), "{verified:?}");
    }
    let _ = KeyDirectory::read(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = published_networks(text);
    }
});

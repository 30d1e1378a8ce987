//! Any bytes are the value of an `Authentication-Results` field, and a message that has one: read without a panic
//! and within bounds.
#![no_main]

use std::sync::LazyLock;

use content::budget::{Budget, Cancellation};
use content::mail::authentication::{
    self, AuthColumns, AuthenticationTrust, PROPERTIES_MAX, RESULTS_MAX, WORD_BYTES_MAX,
};
use content::mail::message::{self, EnvelopeColumns, MailColumns};
use event::{Schema, SchemaBuilder};
use libfuzzer_sys::fuzz_target;

static COLUMNS: LazyLock<(Schema, EnvelopeColumns, MailColumns, AuthColumns)> = LazyLock::new(|| {
    let mut builder = SchemaBuilder::default();
    let envelope = EnvelopeColumns::register(&mut builder).unwrap();
    let mail = MailColumns::register(&mut builder).unwrap();
    let auth = AuthColumns::register(&mut builder).unwrap();
    (builder.finish(), envelope, mail, auth)
});

fuzz_target!(|raw: &[u8]| {
    let text = String::from_utf8_lossy(raw);
    let results = authentication::parse(&text);
    let set = authentication::parse_arc(&text).map(|(_, results)| results);
    for results in results.iter().chain(&set) {
        assert!(results.results.len() <= RESULTS_MAX);
        for own in &results.results {
            assert!(own.properties.len() <= PROPERTIES_MAX && !own.method.is_empty());
            assert!(own.comment.len() <= WORD_BYTES_MAX && own.result.len() <= WORD_BYTES_MAX);
        }
    }
    let (schema, envelope, mail, auth) = &*COLUMNS;
    let trust = AuthenticationTrust {
        servers: vec!["mx.example.net".into()],
        received: 1,
        sealers: vec!["example.org".into()],
    };
    let mut row = schema.empty_row();
    let budget = Budget::of_message(raw.len(), &Cancellation::default());
    message::features(raw, &budget, envelope, mail, &mut row);
    authentication::features(raw, &trust, mail, auth, &mut row);
    row.set(auth.arc, "pass");
    authentication::arc_features(raw, &trust, auth, &mut row);
});

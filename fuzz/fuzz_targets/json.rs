//! Any bytes are JSON: they are an event whose fields have their columns' types, or an error of bounded length.
#![no_main]

use std::sync::LazyLock;

use content::json;
use content::mail::message::{EnvelopeColumns, MailColumns};
use event::{Schema, SchemaBuilder};
use libfuzzer_sys::fuzz_target;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let mut builder = SchemaBuilder::default();
    EnvelopeColumns::register(&mut builder).unwrap();
    MailColumns::register(&mut builder).unwrap();
    builder.finish()
});

fuzz_target!(|bytes: &[u8]| match json::event(bytes, &SCHEMA) {
    Ok(parsed) => {
        for (name, value) in &parsed.event.fields {
            let slot = SCHEMA.slot(name).unwrap();
            assert_eq!(value.type_of(), SCHEMA.column(slot).kind);
        }
    }
    Err(error) => assert!(error.to_string().len() < 1_000),
});

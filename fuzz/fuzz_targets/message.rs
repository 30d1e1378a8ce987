//! Any bytes are a message: its envelope, time, facts and pieces are read without a panic and within bounds.
#![no_main]

use std::sync::LazyLock;

use content::budget::{Budget, Cancellation};
use content::mail::message::{self, Envelope, EnvelopeColumns, MailColumns};
use content::network::PrefixLengths;
use content::piece::{Normalisation, PIECES_MAX, pieces};
use event::{Schema, SchemaBuilder};
use libfuzzer_sys::fuzz_target;

static COLUMNS: LazyLock<(Schema, EnvelopeColumns, MailColumns)> = LazyLock::new(|| {
    let mut builder = SchemaBuilder::default();
    let envelope = EnvelopeColumns::register(&mut builder).unwrap();
    let mail = MailColumns::register(&mut builder).unwrap();
    (builder.finish(), envelope, mail)
});

fuzz_target!(|raw: &[u8]| {
    let (schema, envelope, mail) = &*COLUMNS;
    let _ = message::time(raw);
    let event = message::event(raw, Envelope::from_headers(raw));
    let mut row = schema.empty_row();
    for (name, value) in event.fields {
        row.set(schema.slot(&name).unwrap(), value);
    }
    message::envelope_features(envelope, PrefixLengths::default(), &mut row);
    let budget = Budget::of_message(raw.len(), &Cancellation::default());
    message::features(raw, &budget, envelope, mail, &mut row);
    for value in row.values().iter().flatten() {
        for how in Normalisation::ALL {
            let mut count = 0;
            pieces(value, how, &mut |piece| {
                assert!(!piece.is_empty());
                count += 1;
            });
            assert!(count <= PIECES_MAX);
        }
    }
});

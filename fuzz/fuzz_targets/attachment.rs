//! Any bytes are an attached file: it is looked into within bounds. The first byte chooses how it is declared.
#![no_main]

use std::sync::LazyLock;

use content::budget::{Budget, Cancellation};
use content::mail::message::{self, EnvelopeColumns, ITEMS_MAX, MailColumns};
use event::{Schema, SchemaBuilder, Value};
use libfuzzer_sys::fuzz_target;

static COLUMNS: LazyLock<(Schema, EnvelopeColumns, MailColumns)> = LazyLock::new(|| {
    let mut builder = SchemaBuilder::default();
    let envelope = EnvelopeColumns::register(&mut builder).unwrap();
    let mail = MailColumns::register(&mut builder).unwrap();
    (builder.finish(), envelope, mail)
});

const DECLARED: [&str; 4] = [
    "application/octet-stream; name=a.zip",
    "application/pdf; name=a.pdf",
    "text/html",
    "application/ms-tnef; name=winmail.dat",
];

fuzz_target!(|input: &[u8]| {
    let Some((first, content)) = input.split_first() else { return };
    let (schema, envelope, mail) = &*COLUMNS;
    let kind = DECLARED[usize::from(*first) % DECLARED.len()];
    let mut raw = format!("Content-Type: {kind}\nContent-Transfer-Encoding: binary\n\n").into_bytes();
    raw.extend_from_slice(content);
    let mut row = schema.empty_row();
    let budget = Budget::of_message(raw.len(), &Cancellation::default());
    message::features(&raw, &budget, envelope, mail, &mut row);
    for slot in [mail.attachment_kinds, mail.archive_names, mail.attachment_pieces, mail.attachment_links] {
        let count = row.get(slot).and_then(Value::as_list).map_or(0, |items| items.len());
        assert!(count <= ITEMS_MAX);
    }
});

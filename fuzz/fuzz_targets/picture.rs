//! Any bytes are an attached picture: it is looked through for QR codes within the message's budget, and nothing panics. The
//! first byte chooses how it is declared, and whether it lies in a PDF.
#![no_main]

use std::sync::LazyLock;

use content::budget::{Budget, Cancellation, STEPS_A_BYTE, STEPS_MIN};
use content::mail::message::{self, EnvelopeColumns, ITEMS_MAX, MailColumns};
use event::{Schema, SchemaBuilder, Value};
use libfuzzer_sys::fuzz_target;

static COLUMNS: LazyLock<(Schema, EnvelopeColumns, MailColumns)> = LazyLock::new(|| {
    let mut builder = SchemaBuilder::default();
    let envelope = EnvelopeColumns::register(&mut builder).unwrap();
    let mail = MailColumns::register(&mut builder).unwrap();
    (builder.finish(), envelope, mail)
});

/// The beginnings that are put before the bytes.
const BEFORE: [&[u8]; 6] = [
    b"",
    b"%PDF-1.4 <</Subtype/Image/Filter/DCTDecode>>stream\n",
    b"%PDF-1.4 <</Subtype/Image/Width 64/Height 64/BitsPerComponent 8>>stream\n",
    b"%PDF-1.4 <</Subtype/Image/Width 99/Height 60/BitsPerComponent 1/Predictor 15/Filter/FlateDecode>>stream\n",
    b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x40\0\0\0\x40\x08\x06\0\0\x01\0\0\0\0\x7f\xff\xff\xffIDAT\x78\x01\x01",
    b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x40\0\0\0\x40\x01\0\0\0\0\0\0\0\0\x7f\xff\xff\xffIDAT\x78\x01\x01",
];

fuzz_target!(|input: &[u8]| {
    let Some((first, content)) = input.split_first() else { return };
    let (schema, envelope, mail) = &*COLUMNS;
    let mut raw =
        b"Content-Type: application/octet-stream; name=a\nContent-Transfer-Encoding: binary\n\n".to_vec();
    raw.extend_from_slice(BEFORE[usize::from(*first) % BEFORE.len()]);
    raw.extend_from_slice(content);
    let mut row = schema.empty_row();
    let budget = Budget::of_message(raw.len(), &Cancellation::default());
    message::features(&raw, &budget, envelope, mail, &mut row);
    assert!(budget.spent() <= STEPS_MIN + STEPS_A_BYTE * raw.len() as u64);
    let links = row.get(mail.qr_links).and_then(Value::as_list).map_or(0, |items| items.len());
    assert!(links <= ITEMS_MAX);
});

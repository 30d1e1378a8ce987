//! Values of a key of several fields, written and read back.
#![no_main]

use content::composite::{pieces, text, values};
use content::piece::Normalisation;
use event::Value;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, Vec<&str>)| {
    let (written, parts) = input;
    for count in 1..4 {
        if let Some(read) = values(written, count) {
            assert_eq!(read.len(), count);
        }
    }
    let parts = &parts[..parts.len().min(8)];
    let read = values(&text(parts), parts.len());
    assert!(
        parts.is_empty() || read.is_some_and(|read| read.iter().zip(parts).all(|(read, part)| read == part))
    );
    let given: Vec<Value> = parts.iter().map(|part| Value::from(*part)).collect();
    pieces(given.iter().map(|value| (Some(value), Normalisation::Exact)), &mut |piece| {
        assert_eq!(piece, text(parts))
    });
});

//! Any bytes are a line: it is an event with features, or an error that points into it.
#![no_main]

use std::sync::LazyLock;

use content::network::PrefixLengths;
use content::web::access_log::{self, HttpColumns};
use content::web::pattern::RequestPatterns;
use event::{Schema, SchemaBuilder};
use libfuzzer_sys::fuzz_target;

static COLUMNS: LazyLock<(Schema, HttpColumns)> = LazyLock::new(|| {
    let mut builder = SchemaBuilder::default();
    let columns = HttpColumns::register(&mut builder).unwrap();
    (builder.finish(), columns)
});

fuzz_target!(|line: &[u8]| {
    let (schema, columns) = &*COLUMNS;
    let patterns = RequestPatterns::default();
    match access_log::event(line) {
        Ok(event) => {
            assert!(event.time.is_some());
            let mut row = schema.empty_row();
            for (name, value) in event.fields {
                row.set(schema.slot(&name).unwrap(), value);
            }
            access_log::features(columns, PrefixLengths::default(), &patterns, &mut row);
        }
        Err(error) => assert!(error.at <= line.len()),
    }
});

//! Any bytes are a line: it is an event with features, or an error that points into it; and so it is in any format, which the
//! bytes before the first line end are, or are not.
#![no_main]

use std::sync::LazyLock;

use content::network::PrefixLengths;
use content::web::access_log::{self, HttpColumns};
use content::web::log_format::AccessLogFormat;
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
    let mut parts = line.splitn(2, |byte| *byte == b'\n');
    let format = String::from_utf8_lossy(parts.next().unwrap_or_default());
    let rest = parts.next().unwrap_or_default();
    match AccessLogFormat::new(&format, |name| name.len() % 2 == 0) {
        Ok(format) => match format.event(rest) {
            Ok(event) => assert!(event.time.is_some()),
            Err(error) => assert!(error.at <= rest.len()),
        },
        Err(error) => assert!(error.at <= format.len()),
    }
});

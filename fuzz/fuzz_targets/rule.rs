//! Any text is a condition: it compiles against the facts of messages, or every diagnostic points into it.
#![no_main]

use std::sync::LazyLock;

use content::message::{EnvelopeColumns, MailColumns};
use event::{Schema, SchemaBuilder, Slot, Type};
use judge::{Names, ReadingRequest, Scope, ScopeError};
use libfuzzer_sys::fuzz_target;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let mut builder = SchemaBuilder::default();
    EnvelopeColumns::register(&mut builder).unwrap();
    MailColumns::register(&mut builder).unwrap();
    builder.finish()
});

struct AnyReading;

impl Scope for AnyReading {
    fn fact(&self, name: &str) -> Option<(Slot, Type)> {
        let slot = SCHEMA.slot(name)?;
        Some((slot, SCHEMA.column(slot).kind))
    }
    fn reading(&mut self, _: &ReadingRequest<'_>) -> Result<Slot, ScopeError> {
        Ok(Slot(9_999))
    }
    fn is_kind(&self, name: &str) -> bool {
        matches!(name, "from" | "link" | "user")
    }
    fn is_track(&self, kind: &str) -> bool {
        kind == "user"
    }
    fn is_distinct(&self, name: &str) -> bool {
        name == "rcpts"
    }
    fn names(&self, _: Names) -> Vec<String> {
        vec!["from".to_owned(), "rcpts".to_owned()]
    }
}

fuzz_target!(|source: &str| match judge::compile(source, &mut AnyReading) {
    Ok(condition) => {
        let _ = condition.evaluate(&SCHEMA.empty_row());
    }
    Err(diagnostics) => {
        for diagnostic in diagnostics {
            assert!(diagnostic.range.end <= source.len());
            let _ = diagnostic.render(source);
        }
    }
});

//! Conditions and verdicts as tables: source and row in, text out.

mod diagnostics;
mod differential;
mod oracle;
mod semantics;
mod verdicts;

use event::{Column, Facts, Schema, SchemaBuilder, Slot, Span, Time, Type, Value};

use crate::{Names, ReadingRequest, Scope, ScopeError, TrackValue};

const FACTS: [(&str, Type); 13] = [
    ("event.time", Type::Time),
    ("mail.date", Type::Time),
    ("mail.subject", Type::String),
    ("mail.from", Type::String),
    ("mail.links", Type::List),
    ("mail.body", Type::Bytes),
    ("mail.reply", Type::Bool),
    ("mail.size", Type::Integer),
    ("mail.parts", Type::Integer),
    ("mail.html", Type::Float),
    ("mail.caps", Type::Float),
    ("conn.ip", Type::Ip),
    ("ip", Type::Ip),
];
const KINDS: [&str; 5] = ["from", "ip", "link_domain", "subject", "user"];
/// The kind with a track.
const TRACK: &str = "user";
const COUNTERS: [&str; 4] = ["seen", "spam", "ham", "complaint"];

/// A scope over the facts above, which adds a column for every reading.
struct TestScope {
    schema: SchemaBuilder,
}

impl TestScope {
    fn new() -> TestScope {
        let mut schema = SchemaBuilder::default();
        for (name, kind) in FACTS {
            let column = Column { name: name.into(), kind, doc: String::new(), journalled: true };
            schema.add(column).unwrap();
        }
        TestScope { schema }
    }

    fn schema(&self) -> &Schema {
        self.schema.schema()
    }

    /// A row with these columns filled, by name.
    fn row(&self, values: &[(&str, Value)]) -> Facts {
        let mut row = self.schema().empty_row();
        for (name, value) in values {
            row.set(self.schema().slot(name).unwrap_or_else(|| panic!("no column {name}")), value.clone());
        }
        row
    }
}

impl Scope for TestScope {
    fn fact(&self, name: &str) -> Option<(Slot, Type)> {
        FACTS.iter().find(|(fact, _)| *fact == name)?;
        let slot = self.schema().slot(name)?;
        Some((slot, self.schema().column(slot).kind))
    }

    fn reading(&mut self, request: &ReadingRequest<'_>) -> Result<Slot, ScopeError> {
        let (counters, window) = match request {
            ReadingRequest::Count { counter, window, .. } => (vec![*counter], *window),
            ReadingRequest::Ratio { numerator, denominator, .. } => {
                ([&numerator.counters[..], &denominator.counters].concat(), numerator.window)
            }
            ReadingRequest::Distinct { window, .. } => (vec![], Some(*window)),
            ReadingRequest::Track { value: TrackValue::Decayed(half_life), .. }
                if *half_life != Span::hours(1) =>
            {
                return Err(ScopeError::Window("the track keeps the half-life 1h".to_owned()));
            }
            ReadingRequest::Track { .. } => (vec![], None),
            ReadingRequest::LastAge { kind: "subject" } => {
                return Err(ScopeError::Unavailable(
                    "`subject` does not keep when it was last seen".to_owned(),
                ));
            }
            ReadingRequest::FirstAge { .. } | ReadingRequest::LastAge { .. } => (vec![], None),
        };
        if let Some(unknown) = counters.iter().find(|counter| !COUNTERS.contains(counter)) {
            let known = COUNTERS.map(str::to_owned).to_vec();
            return Err(ScopeError::Counter { name: (*unknown).to_owned(), known });
        }
        if window.is_some_and(|window| window > Span::days(14)) {
            return Err(ScopeError::Window("the longest window kept is 14d".to_owned()));
        }
        let name = request.to_string();
        if let Some(slot) = self.schema().slot(&name) {
            return Ok(slot);
        }
        let column = Column { name, kind: request.column_type(), doc: String::new(), journalled: true };
        self.schema.add(column).map_err(|error| ScopeError::Unavailable(error.to_string()))
    }

    fn is_kind(&self, name: &str) -> bool {
        KINDS.contains(&name)
    }

    fn is_track(&self, kind: &str) -> bool {
        kind == TRACK
    }

    fn is_distinct(&self, name: &str) -> bool {
        name == "rcpts"
    }

    fn names(&self, of: Names) -> Vec<String> {
        match of {
            Names::Fact => FACTS.iter().map(|(name, _)| (*name).to_owned()).collect(),
            Names::Kind => KINDS.map(str::to_owned).to_vec(),
            Names::Distinct => vec!["rcpts".to_owned()],
        }
    }
}

/// A mail, quite full.
fn mail(scope: &TestScope) -> Facts {
    scope.row(&[
        ("event.time", Value::from(Time::from_seconds(1_000_000))),
        ("mail.date", Value::from(Time::from_seconds(1_000_000 - 7200))),
        ("mail.subject", Value::from("Cheap Äpfel")),
        ("mail.from", Value::from("ann@example.org")),
        ("mail.links", Value::from(vec!["a.example".to_owned(), "b.example".to_owned()])),
        ("mail.body", Value::Bytes(Box::new([1, 2, 3]))),
        ("mail.reply", Value::from(true)),
        ("mail.size", Value::from(7i64)),
        ("mail.parts", Value::from(2i64)),
        ("mail.html", Value::from(0.5)),
        ("conn.ip", Value::Ip("192.0.2.7".parse().unwrap())),
    ])
}

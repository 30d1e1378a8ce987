//! Conditions and verdicts as tables: source and row in, text out.

mod diagnostics;
mod differential;
mod effects;
mod findings;
mod library;
mod models;
mod near;
mod oracle;
mod semantics;
mod sets;
mod text_patterns;
mod verdicts;

use std::sync::Arc;

use event::{Column, Facts, Schema, SchemaBuilder, Slot, Span, Time, Type, Value};

use crate::syntax::{self, SyntaxKind, SyntaxNode};
use crate::{
    AggregateFunction, Condition, Constant, Diagnostic, Library, LibrarySource, LookupTable, Mode,
    NameCategory, ReadingRequest, Scope, ScopeError, Set, SetType,
};

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
/// The kind with an aggregate.
const AGGREGATE: &str = "user";
const COUNTERS: [&str; 4] = ["seen", "spam", "ham", "complaint"];

/// The labels of addresses, and how long they hold.
const LABELS: [(&str, Span); 2] = [("scanner", Span::days(7)), ("vpn", Span::days(30))];

/// Models, all of which say the same.
const MODELS: [(&str, Mode); 3] = [("spam", Mode::Enforce), ("trial", Mode::Shadow), ("resting", Mode::Off)];

/// Names and values of constants, as conditions write them.
const CONSTANTS: [(&str, &str); 5] =
    [("bulk", "1000"), ("share", "0.5"), ("window", "'1h'"), ("greeting", "'a'"), ("small", "[3, 7]")];
const EXPRESSIONS: [(&str, &str); 4] = [
    ("is_bulk", "seen_lately > bulk"),
    ("seen_lately", "from.seen(window)"),
    ("spam_share", "from.spam('1d') / from.seen('1d')"),
    ("fresh", "age(mail.date) < duration('1s') || greeting == mail.subject"),
];
const SETS: [(&str, SetType, &[&str]); 5] = [
    ("words", SetType::String, &["a", "ab", "é"]),
    ("hosts", SetType::Domain, &["example", "b.test", "b"]),
    ("sizes", SetType::Integer, &["-1", "2", "7"]),
    ("nets", SetType::Ip, &["192.0.2.0/24", "2001:db8::/32"]),
    ("nothing", SetType::String, &[]),
];

const TABLES: [(&str, SetType, &str); 3] = [
    ("colours", SetType::String, "a,red\nab,green\n7,seven\n"),
    ("owners", SetType::Domain, "example.org,ann\nsub.example.org,bob\n"),
    ("places", SetType::Ip, "192.0.2.0/24,home\n192.0.2.128/25,away\n"),
];

/// Returns the library of what conditions of tests may name beside the scope's facts.
fn library(scope: &mut TestScope) -> Library {
    fn constant(node: &SyntaxNode) -> Constant {
        match &node.kind {
            SyntaxKind::Integer(integer) => Constant::Integer(*integer),
            SyntaxKind::Float(float) => Constant::Float(*float),
            SyntaxKind::Text(text) => Constant::String(text.clone()),
            SyntaxKind::List(items) => Constant::List(items.iter().map(constant).collect()),
            other => panic!("{other:?} is no constant"),
        }
    }
    let set = |kind, entries: &[&str]| Arc::new(Set::new(kind, entries.iter().copied()).unwrap());
    let source = LibrarySource {
        constants: CONSTANTS
            .map(|(name, text)| (name.to_owned(), constant(&syntax::parse(text).unwrap().0)))
            .to_vec(),
        expressions: EXPRESSIONS.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec(),
        sets: SETS.map(|(name, kind, entries)| (name.to_owned(), set(kind, entries))).to_vec(),
        tables: TABLES
            .map(|(name, kind, text)| {
                (name.to_owned(), Arc::new(LookupTable::read(kind, ',', text).unwrap()))
            })
            .to_vec(),
    };
    let (library, problems) = Library::compile(source, scope);
    assert_eq!(problems, []);
    library
}

/// Compiles a condition beside that library.
fn compile(source: &str, scope: &mut TestScope) -> Result<Condition, Vec<Diagnostic>> {
    let library = library(scope);
    crate::compile(source, &library, scope)
}

/// A scope over the facts above, which adds a column for every reading.
struct TestScope {
    /// The bytes that regular expressions may still take, where they are bounded.
    regex_bytes: Option<usize>,
    is_over: bool,
    schema: SchemaBuilder,
}

impl TestScope {
    fn new() -> TestScope {
        let mut schema = SchemaBuilder::default();
        for (name, kind) in FACTS {
            let column = Column { name: name.into(), kind, doc: String::new(), journalled: true };
            schema.add(column).unwrap();
        }
        let doc = String::new();
        schema
            .add(Column { name: "model('spam')".into(), kind: Type::Float, doc, journalled: true })
            .unwrap();
        TestScope { schema, regex_bytes: None, is_over: false }
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
    fn regex_bytes(&mut self) -> Option<&mut usize> {
        self.regex_bytes.as_mut()
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

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
            ReadingRequest::Buckets { counter, window, .. } => (vec![*counter], Some(*window)),
            ReadingRequest::Distinct { window, .. } => (vec![], Some(*window)),
            ReadingRequest::Last { name: "country" } => (vec![], None),
            ReadingRequest::Last { name } => {
                return Err(ScopeError::Unavailable(format!("no last value is called `{name}`")));
            }
            ReadingRequest::New { .. } | ReadingRequest::Reputation { name: "account", .. } => (vec![], None),
            ReadingRequest::Reputation { name, .. } => {
                return Err(ScopeError::Unavailable(format!("there is no reputation `{name}`")));
            }
            ReadingRequest::Limit { .. } => (vec![], None),
            ReadingRequest::Aggregate { value: AggregateFunction::Decayed(half_life), .. }
                if *half_life != Span::hours(1) =>
            {
                return Err(ScopeError::Window("the aggregate keeps the half-life 1h".to_owned()));
            }
            ReadingRequest::Aggregate { .. } => (vec![], None),
            ReadingRequest::LastAge { kind: "subject" } => {
                return Err(ScopeError::Unavailable(
                    "`subject` does not keep when it was last seen".to_owned(),
                ));
            }
            ReadingRequest::FirstAge { .. } | ReadingRequest::LastAge { .. } => (vec![], None),
            ReadingRequest::Marked { kind, label } => {
                self.label(kind, label)?;
                (vec![], None)
            }
            ReadingRequest::Estimated(of) => {
                self.reading(of)?;
                (vec![], None)
            }
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

    fn is_aggregate(&self, kind: &str) -> bool {
        kind == AGGREGATE
    }

    fn is_distinct(&self, name: &str) -> bool {
        name == "rcpts"
    }

    fn model(&self, name: &str) -> Option<(Slot, Mode)> {
        let mode = MODELS.iter().find(|(known, _)| *known == name)?.1;
        Some((self.schema().slot("model('spam')")?, mode))
    }

    fn text_function(&self, name: &str) -> Option<crate::TextFunction> {
        // What an address has behind its sign, in letters that show who wrote them.
        (name == "domain").then_some(|text| Some(text.split_once('@')?.1.to_ascii_uppercase().into()))
    }

    fn takes_values(&self, kind: &str) -> Result<u8, ScopeError> {
        assert_eq!(kind, AGGREGATE);
        Ok(0)
    }

    fn counter(&self, kind: &str, counter: &str) -> Result<(), ScopeError> {
        if kind == AGGREGATE {
            return Err(ScopeError::Unavailable("`user` has an aggregate and no counters".to_owned()));
        }
        if COUNTERS.contains(&counter) {
            return Ok(());
        }
        Err(ScopeError::Counter { name: counter.to_owned(), known: COUNTERS.map(str::to_owned).to_vec() })
    }

    fn label(&self, kind: &str, label: &str) -> Result<Span, ScopeError> {
        let known = if kind == "ip" { &LABELS[..] } else { &[] };
        known.iter().find(|(name, _)| *name == label).map(|(_, keep)| *keep).ok_or_else(|| {
            ScopeError::Label {
                name: label.to_owned(),
                known: known.iter().map(|(name, _)| (*name).to_owned()).collect(),
            }
        })
    }

    fn names(&self, of: NameCategory) -> Vec<String> {
        match of {
            NameCategory::Fact => FACTS.iter().map(|(name, _)| (*name).to_owned()).collect(),
            NameCategory::Kind => KINDS.map(str::to_owned).to_vec(),
            NameCategory::Distinct => vec!["rcpts".to_owned()],
            NameCategory::Model => MODELS.map(|(name, _)| name.to_owned()).to_vec(),
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

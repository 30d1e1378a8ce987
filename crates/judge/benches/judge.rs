//! Cost of judging: nanoseconds a condition, microseconds a set of 300 rules.
//!
//! `cargo bench -p tollhouse-judge`. Plain timing of many rounds, the best of several: no statistics are
//! needed to see whether a condition takes ten nanoseconds or a hundred. Under `cargo test --benches` it runs
//! small.

use std::hint::black_box;
use std::time::Instant;

use event::{Column, Facts, Schema, SchemaBuilder, Slot, Type, Value};
use judge::{
    Action, Band, Bands, Condition, Evaluation, Library, NameCategory, ReadingRequest, RuleSet,
    RuleSetSource, RuleSource, Scope, ScopeError,
};

struct BenchScope(SchemaBuilder);

const FACTS: [(&str, Type); 9] = [
    ("event.time", Type::Time),
    ("mail.subject", Type::String),
    ("mail.from", Type::String),
    ("mail.links", Type::List),
    ("a", Type::Integer),
    ("b", Type::Integer),
    ("c", Type::Integer),
    ("mail.html", Type::Float),
    ("mail.caps", Type::Float),
];

impl BenchScope {
    fn new() -> BenchScope {
        let mut builder = SchemaBuilder::default();
        for (name, kind) in FACTS {
            let column = Column { name: name.to_owned(), kind, doc: String::new(), journalled: true };
            builder.add(column).expect("names differ");
        }
        BenchScope(builder)
    }
}

impl Scope for BenchScope {
    fn fact(&self, name: &str) -> Option<(Slot, Type)> {
        let slot = self.0.schema().slot(name)?;
        Some((slot, self.0.schema().column(slot).kind))
    }

    fn reading(&mut self, request: &ReadingRequest<'_>) -> Result<Slot, ScopeError> {
        let name = request.to_string();
        if let Some(slot) = self.0.schema().slot(&name) {
            return Ok(slot);
        }
        let column = Column { name, kind: request.column_type(), doc: String::new(), journalled: true };
        self.0.add(column).map_err(|error| ScopeError::Unavailable(error.to_string()))
    }

    fn is_kind(&self, name: &str) -> bool {
        matches!(name, "from" | "subject" | "link")
    }

    fn is_aggregate(&self, _: &str) -> bool {
        false
    }

    fn is_distinct(&self, _: &str) -> bool {
        false
    }

    fn names(&self, _: NameCategory) -> Vec<String> {
        Vec::new()
    }
}

fn row(schema: &Schema) -> Facts {
    let mut row = schema.empty_row();
    for (column, slot) in schema.columns().iter().zip(0..) {
        let value = match (column.name.as_str(), column.kind) {
            ("mail.subject", _) => Value::from("Re: your invoice of last week is attached"),
            (_, Type::String) => Value::from("ann@mail.example.org"),
            (_, Type::Integer) => Value::from(i64::from(slot) + 20),
            (_, Type::Float) => Value::from(0.995),
            (_, Type::List) => Value::from(vec!["a.example".to_owned(), "b.example".to_owned()]),
            (_, kind) => Value::from("2026-05-17T10:05:03Z").coerce(kind).unwrap_or(Value::Bool(true)),
        };
        row.set(Slot(slot), value);
    }
    row
}

/// Seconds that one call takes: the best of some runs.
fn best(rounds: u32, mut call: impl FnMut()) -> f64 {
    let run = |call: &mut dyn FnMut()| {
        let start = Instant::now();
        for _ in 0..rounds {
            call();
        }
        start.elapsed().as_secs_f64() / f64::from(rounds)
    };
    (0..7).map(|_| run(&mut call)).fold(f64::INFINITY, f64::min)
}

fn main() {
    let small = !std::env::args().any(|arg| arg == "--bench");
    let (rounds, sets) = if small { (10, 2) } else { (2_000_000, 20_000) };
    let conditions = [
        "a > 10 && b / c > 0.99",
        "a > 10 && mail.html / mail.caps > 0.99",
        "a > 1000 && b / c > 0.99",
        "from.seen('1h') > 10 && ratio(from.spam('1d'), from.seen('1d'), 20) >= 0.99",
        "subject.first_age() < duration('1d') || mail.caps.or(0.0) > 0.5",
        "mail.from in ['ann@example.org', 'bob@example.org', 'eve@example.org', 'ann@mail.example.org']",
        "mail.subject.contains('attached')",
        "mail.subject.matches('(?i)invoice.*attached')",
        "'b.example' in mail.links",
    ];
    println!("{:>9}  {:>5}  condition", "ns", "cost");
    for source in conditions {
        let mut scope = BenchScope::new();
        let condition: Condition =
            judge::compile(source, &Library::default(), &mut scope).expect("the condition is right");
        let row = row(scope.0.schema());
        let seconds = best(rounds, || {
            black_box(black_box(&condition).fires(black_box(&row)));
        });
        println!("{:>9.1}  {:>5}  {source}", seconds * 1e9, condition.cost());
    }

    for (what, threshold) in [("none of which fire", 1_000_000), ("of which 15 fire", 0)] {
        let mut scope = BenchScope::new();
        let rules = (0..300).map(|index| {
            let bound = if index % 20 == 0 { threshold + 1 } else { 1_000_000 };
            let when = match index % 5 {
                0 => format!("from.seen('{}m') > {bound} && b / c > 0.9", index + 1),
                1 => format!("ratio(link.spam('{}m'), link.seen('14d'), 20) >= 1.5", index + 1),
                2 => format!(
                    "subject.seen('{}m') > {bound} && subject.first_age() < duration('1d')",
                    index + 1
                ),
                3 => format!("mail.from.endsWith('@{index}.example')"),
                _ => format!("mail.html > 0.5 && a + {index} > 1000000 && mail.subject.contains('cheap')"),
            };
            RuleSource { name: format!("rule{index}"), when, score: 1.0, ..RuleSource::default() }
        });
        let rules: Vec<RuleSource> = rules.collect();
        let bands = Bands::new(vec![Band { at: 5.0, action: Action::Reject }]).expect("one band ascends");
        let source = RuleSetSource { rules, bands, ..RuleSetSource::default() };
        let set = RuleSet::compile(source, &mut scope).expect("the rules are right");
        let row = row(scope.0.schema());
        let mut outcome = Evaluation::default();
        set.evaluate(&row, &mut outcome);
        let fired = outcome.fired().len();
        let seconds = best(sets, || {
            black_box(&set).evaluate(black_box(&row), &mut outcome);
            black_box(&outcome);
        });
        println!("{:>9.2}  µs for 300 rules, {what} ({fired})", seconds * 1e6);
        let seconds = best(sets, || {
            black_box(judge::judge(black_box(&set), black_box(&row)));
        });
        println!("{:>9.2}  µs for the same with a verdict", seconds * 1e6);
        if fired > 0 {
            let seconds = best(sets, || {
                let mut verdict = judge::judge(black_box(&set), black_box(&row));
                set.explain(&mut verdict, &row);
                black_box(verdict);
            });
            println!("{:>9.2}  µs for the same with reasons explained", seconds * 1e6);
        }
    }
    let source = conditions[3];
    let seconds = best(sets / 2, || {
        black_box(judge::compile(source, &Library::default(), &mut BenchScope::new()).is_ok());
    });
    println!("{:>9.2}  µs to compile `{source}`", seconds * 1e6);
}

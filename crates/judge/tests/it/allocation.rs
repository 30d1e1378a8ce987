//! Judging allocates nothing: counted by an allocator that counts.

use event::{Column, Schema, SchemaBuilder, Slot, Span, Time, Type, Value};
use judge::{
    Constant, Evaluation, GroupSource, Library, LibrarySource, LookupTable, Mode, NameCategory,
    ReadingRequest, RuleSet, RuleSetSource, RuleSource, Scope, ScopeError, Set, SetType,
};

const FACTS: [(&str, Type); 9] = [
    ("event.time", Type::Time),
    ("subject", Type::String),
    ("host", Type::String),
    ("hosts", Type::List),
    ("ip", Type::Ip),
    ("a", Type::Integer),
    ("b", Type::Integer),
    ("share", Type::Float),
    ("flag", Type::Bool),
];

/// Every reading is there, of the kind `from`.
struct AnyScope(SchemaBuilder);

impl Scope for AnyScope {
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
        name == "from"
    }
    fn is_aggregate(&self, _: &str) -> bool {
        false
    }
    fn is_distinct(&self, name: &str) -> bool {
        name == "rcpts"
    }
    fn label(&self, _: &str, _: &str) -> Result<Span, ScopeError> {
        Ok(Span::days(7))
    }
    fn names(&self, _: NameCategory) -> Vec<String> {
        Vec::new()
    }
}

fn value(column: &Column, turn: i64) -> Value {
    match column.kind {
        Type::String => Value::from("www.Example.org".repeat(1 + turn as usize)),
        Type::Integer => Value::from(turn * 700),
        Type::Float => Value::from(0.25 * turn as f64),
        Type::Bool => Value::from(turn % 2 == 0),
        Type::Time => Value::Time(Time::from_seconds(1_780_000_000 + turn * 40_000)),
        Type::Ip => Value::Ip([192, 0, 2, turn as u8].into()),
        Type::Bytes => Value::Bytes(Box::new([1, 2, 3])),
        Type::List => Value::from(vec!["a.example".to_owned(), "b.test".to_owned()]),
    }
}

#[test]
fn judging_a_row_allocates_nothing() {
    let mut schema = SchemaBuilder::default();
    for (name, kind) in FACTS {
        schema.add(Column { name: name.to_owned(), kind, doc: String::new(), journalled: true }).unwrap();
    }
    let mut scope = AnyScope(schema);
    let set = |kind, entries: &[&str]| Set::new(kind, entries.iter().copied()).unwrap().into();
    let source = LibrarySource {
        constants: vec![("bulk".to_owned(), Constant::Integer(1000))],
        expressions: vec![("is_bulk".to_owned(), "from.seen('1h') > bulk".to_owned())],
        tables: vec![(
            "homes".to_owned(),
            LookupTable::read(SetType::Ip, ',', "192.0.2.0/24,home\n").unwrap().into(),
        )],
        sets: vec![
            ("domains".to_owned(), set(SetType::Domain, &["example.org", "b.test"])),
            ("words".to_owned(), set(SetType::String, &["x", "y"])),
            ("nets".to_owned(), set(SetType::Ip, &["192.0.2.0/30", "2001:db8::/32"])),
        ],
    };
    let (library, problems) = Library::compile(source, &mut scope);
    assert_eq!(problems, []);
    let conditions = [
        "a > 1000 && b / (a + 1) > 0.1 || share >= 0.5",
        "is_bulk && ratio(from.spam('1d'), from.seen('1d'), 20) > 0.5",
        "host in domains || host in words || sets.intersects(hosts, domains) || 'b.test' in hosts",
        "ip in nets || ip in ['10.0.0.0/8', '192.0.2.7'] || ip == '::1'",
        "subject.contains('Exa') && subject.startsWith('www') && subject.size() < 400",
        "subject.matches('(?i)example.*org')",
        "now.getHours('Europe/Berlin') < 12 || now.getDayOfWeek('America/New_York') in [0, 6] || now.getDate() == 3",
        "age(event.time) < duration('1d') && !from.marked('scanner') && !estimated(from.seen('1h'))",
        "rate(from.seen('1h'), '1m') > 10 || trend(from.seen('1h'), from.seen('7d'), 20) > 3",
        "rule('R0') && group('g') > 1 && (flag ? a : b).or(7) > 3 && has(share)",
        "distinct('rcpts', '1d') > 3",
        "lookup('homes', ip) == 'home' || ip in homes",
    ];
    let rules = conditions.iter().enumerate().map(|(index, when)| RuleSource {
        name: format!("R{index}"),
        when: (*when).to_owned(),
        score: 0.7,
        mode: if index % 3 == 2 { Mode::Shadow } else { Mode::Enforce },
        group: (index < 3).then(|| "g".to_owned()),
        expires: Some(Time::from_seconds(1_900_000_000)),
        effects: vec!["lift tag".to_owned(), "mark from as scanner for 1d".to_owned()],
        ..RuleSource::default()
    });
    let groups = vec![GroupSource { name: "g".to_owned(), cap: Some(1.2), ..GroupSource::default() }];
    let source = RuleSetSource { rules: rules.collect(), groups, library, ..RuleSetSource::default() };
    let set = RuleSet::compile(source, &mut scope).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let schema: Schema = scope.0.finish();
    let rows: Vec<_> = (0..6)
        .map(|turn| {
            let mut row = schema.empty_row();
            for (column, slot) in schema.columns().iter().zip(0..) {
                if turn > 0 {
                    row.set(Slot(slot), value(column, turn));
                }
            }
            row
        })
        .collect();
    let mut outcome = Evaluation::default();
    // The first round makes room, and the caches of regular expressions.
    rows.iter().for_each(|row| set.evaluate(row, &mut outcome));
    let mut fired = 0;
    let counted = allocation_counter::measure(|| {
        for row in &rows {
            set.evaluate(row, &mut outcome);
            fired += outcome.fired().len() + outcome.shadow().len();
        }
    });
    assert_eq!(counted.count_total, 0, "{counted:?}");
    assert!(fired > 20, "{fired} rules fired");
}

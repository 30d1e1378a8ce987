//! Any text is definitions and rules: they compile against the facts of messages, or every diagnostic points into
//! them; and laying a condition out changes nothing but its layout. Pieces between `\0` are in turn an expression's name and source, and a rule's condition and effect.
#![no_main]

use std::sync::LazyLock;

use content::mail::message::{EnvelopeColumns, MailColumns};
use event::{Schema, SchemaBuilder, Slot, Span, Type};
use judge::{
    Constant, Evaluation, GroupSource, Library, LibrarySource, Mode, NameCategory, ReadingRequest, RuleSet,
    RuleSetPart, RuleSetSource, RuleSource, Scope, ScopeError, Set, SetType,
};
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
    fn is_aggregate(&self, kind: &str) -> bool {
        kind == "user"
    }
    fn is_distinct(&self, name: &str) -> bool {
        name == "rcpts"
    }
    fn counter(&self, _: &str, _: &str) -> Result<(), ScopeError> {
        Ok(())
    }
    fn takes_values(&self, _: &str) -> Result<u8, ScopeError> {
        Ok(2)
    }
    fn label(&self, _: &str, _: &str) -> Result<Span, ScopeError> {
        Ok(Span::days(7))
    }
    fn names(&self, _: NameCategory) -> Vec<String> {
        vec!["from".to_owned(), "rcpts".to_owned()]
    }
}

fuzz_target!(|text: &str| {
    let mut pieces = text.split('\0');
    let mut sources = Vec::new();
    let mut rules: Vec<RuleSource> = Vec::new();
    while let Some(first) = pieces.next() {
        let second = pieces.next().unwrap_or_default();
        if first.starts_with(|c: char| c.is_ascii_alphabetic()) && first.len() < 5 {
            sources.push((first.to_owned(), second.to_owned()));
            continue;
        }
        let index = rules.len();
        rules.push(RuleSource {
            name: format!("R{index}"),
            when: first.to_owned(),
            score: index as f64 - 1.0,
            mode: [Mode::Enforce, Mode::Shadow, Mode::Off][index % 3],
            group: index.is_multiple_of(2).then(|| "g".to_owned()),
            effects: if second.is_empty() { Vec::new() } else { vec![second.to_owned()] },
            ..RuleSource::default()
        });
    }
    for rule in &rules {
        if let Ok(laid_out) = judge::format(&rule.when, 40) {
            assert_eq!(judge::format(&laid_out, 40).as_ref(), Ok(&laid_out));
            assert_eq!(judge::canonical(&laid_out), judge::canonical(&rule.when));
        }
    }
    let expressions = sources.clone();
    let set = |kind, entries: &[&str]| Set::new(kind, entries.iter().copied()).unwrap().into();
    let source = LibrarySource {
        constants: vec![
            ("limit".to_owned(), Constant::Integer(7)),
            ("week".to_owned(), Constant::String("7d".to_owned())),
        ],
        expressions,
        sets: vec![
            ("hosts".to_owned(), set(SetType::Domain, &["example"])),
            ("nets".to_owned(), set(SetType::Ip, &["::/0"])),
        ],
        tables: Vec::new(),
    };
    let (library, problems) = Library::compile(source, &mut AnyReading);
    for problem in problems {
        if let Some((_, source)) = sources.iter().find(|(name, _)| *name == problem.name) {
            assert!(problem.diagnostic.range.end <= source.len());
            let _ = problem.diagnostic.render(source);
        }
    }
    let groups = vec![GroupSource { name: "g".to_owned(), cap: Some(3.0), ..GroupSource::default() }];
    let source = RuleSetSource { rules: rules.clone(), groups, library, ..RuleSetSource::default() };
    match RuleSet::compile(source, &mut AnyReading) {
        Ok(set) => {
            let (mut outcome, row) = (Evaluation::default(), SCHEMA.empty_row());
            set.evaluate(&row, &mut outcome);
            assert!(outcome.score().is_finite());
            let verdict = set.verdict(&outcome);
            assert!(set.counted(&verdict).iter().all(|counted| counted.is_finite()));
            for miss in set.nearest(&verdict, &row, 8, |_| true) {
                assert!(!miss.parts.is_empty() && miss.score.is_finite());
            }
        }
        Err(problems) => {
            for problem in problems {
                let source = match problem.part {
                    RuleSetPart::When(index) => rules[index].when.as_str(),
                    RuleSetPart::Effect(index, number) => rules[index].effects[number].as_str(),
                    _ => "",
                };
                assert!(problem.diagnostic.range.end <= source.len());
                let _ = problem.diagnostic.render(source);
            }
        }
    }
});

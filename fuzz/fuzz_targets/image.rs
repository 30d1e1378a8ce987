//! Any answer of a cluster about a cell is an image of its form, or is refused; what is not refused is a cell of its form, and
//! nothing panics.
#![no_main]

use std::sync::LazyLock;

use cluster::remote::CellForm;
use cluster::wire::image;
use event::{Kind, Space, Span, Time};
use libfuzzer_sys::fuzz_target;
use stats::cell_export::CellDefinition;
use stats::{AggregateColumn, AggregateLayout, DecayWeight, Layout, Measure, Tier};

static FORMS: LazyLock<Vec<CellForm>> = LazyLock::new(|| {
    let tier = |width, buckets| Tier { width: Span(width), buckets };
    let windows = |counters: usize, tiers: &[Tier]| {
        let names = (0..counters).map(|number| number.to_string()).collect();
        Measure::Windows(Layout::new(names, tiers, Vec::new(), None).expect("a layout"))
    };
    let aggregate = |columns: &[AggregateColumn]| {
        Measure::Aggregate(AggregateLayout::new(columns.to_vec(), Span(1000)).expect("an aggregate"))
    };
    let decayed = |weight| AggregateColumn::Decayed { half_life: Span(1000), weight };
    let measures = [
        windows(3, &[tier(10, 4)]),
        windows(20, &[tier(1, 144), tier(60, 14)]),
        Measure::distinct(tier(60, 3), Vec::new()),
        Measure::once(Span(9)),
        aggregate(&[AggregateColumn::Count]),
        aggregate(&[
            AggregateColumn::Sum,
            AggregateColumn::Min,
            AggregateColumn::Max,
            decayed(DecayWeight::One),
            decayed(DecayWeight::Value),
        ]),
        Measure::approx(tier(100, 3), Vec::new(), 10),
        Measure::approx(tier(100, 3), Vec::new(), 14),
        Measure::evidence(Span(1000)),
        Measure::gcra(),
        Measure::last(Span(1000)),
    ];
    let form = |measure: Measure| {
        let (statistic, kind_name) = ("statistic".to_owned(), "kind".to_owned());
        let definition = CellDefinition { space: Space(1), kind: Kind(1), statistic, kind_name, measure };
        CellForm::new(definition).expect("a form")
    };
    measures.into_iter().map(form).collect()
});

fuzz_target!(|bytes: &[u8]| {
    // Which form, and then fields and values, each after its length.
    let Some((form, mut bytes)) = bytes.split_first() else { return };
    let form = &FORMS[usize::from(*form) % FORMS.len()];
    let mut texts = Vec::new();
    while let Some((length, rest)) = bytes.split_first() {
        let (text, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        texts.push(text);
        bytes = rest;
    }
    let fields = texts.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    if let Ok(Some(words)) = image::decode(form, fields) {
        let plan = &form.plan;
        assert!(plan.check(&words));
        let mut out = vec![0; plan.reading()];
        plan.read(&words, plan.last(&words).unwrap_or(Time(0)), &mut out);
    }
});

//! Any fact gives tokens within their bounds, and whatever was learned of them has a finite meaning.
#![no_main]

use content::text::classifier::{ClassifierScore, LEAN_MAX, TokenEvidence, of_each, step};
use content::text::tokenizer::{
    ITEMS_MAX, RAW_RUNS_MAX, RUNS_MAX, TokenView, Tokenization, WORDS_MAX, tokens,
};
use event::Value;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let items: Vec<String> = text.split('\n').map(str::to_owned).collect();
    for (value, cut) in [Tokenization::Text, Tokenization::Trait]
        .into_iter()
        .flat_map(|cut| [(Value::from(&*text), cut), (Value::from(items.clone()), cut)])
    {
        let mut count = 0;
        tokens("fact", Some(&value), cut, &mut |view, token| {
            assert!(token.starts_with("fact "));
            assert!((view == TokenView::Traits) == (cut == Tokenization::Trait));
            count += 1;
        });
        assert!(count <= WORDS_MAX + RUNS_MAX + RAW_RUNS_MAX + ITEMS_MAX);
    }
    let number = |at: usize| f64::from(bytes.get(at).copied().unwrap_or(0).cast_signed());
    let learned = |at: usize| TokenEvidence { bad: number(at), good: number(at + 1), weight: number(at + 2) };
    let all: Vec<TokenEvidence> = (1..bytes.len().min(300)).step_by(3).map(learned).collect();
    let (words, rest) = all.split_at(all.len() / 3);
    let said = ClassifierScore::of(learned(0), [words, &[], rest]);
    assert!(said.score.is_finite() && (0.0..=1.0).contains(&said.probability()));
    for is_bad in [true, false] {
        let leans = number(1).clamp(-LEAN_MAX, LEAN_MAX);
        let step = step(said.linear, is_bad, leans);
        assert!((leans + step).abs() <= LEAN_MAX + 1e-6);
        assert!(of_each(step, all.len()).abs() <= step.abs());
    }
});

//! Any bytes are a CatBoost model: it is refused, or scores and explains any row, alone as in a batch.
#![no_main]

use catboost::{FeatureColumn, FeatureKind, FeatureValue, Model, ModelScratch};
use libfuzzer_sys::fuzz_target;

const NUMBERS: [f32; 12] =
    [0.0, -1.0, 0.5, 1e9, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3.0, 17.0, 900.0, -0.0, 1e-30];
const WORDS: [&str; 12] = ["", "os-2", "-2", "0", "1", "Oslo", "a", "17", "b", "c", "d", "e"];

fuzz_target!(|bytes: &[u8]| {
    let Ok(model) = Model::from_bytes(bytes) else { return };
    let mut scratch = ModelScratch::default();
    let kinds: Vec<FeatureKind> = model.features().iter().map(|feature| feature.kind).collect();
    let columns = kinds.iter().map(|kind| match kind {
        FeatureKind::Numeric(_) => FeatureColumn::Numbers(&NUMBERS),
        FeatureKind::Categorical => FeatureColumn::Texts(&WORDS),
    });
    let mut batch = vec![0.0; NUMBERS.len() * model.dimension()];
    model.raw_batch(&columns.collect::<Vec<_>>(), &mut scratch, &mut batch).unwrap();
    for (row, batch) in batch.chunks(model.dimension()).enumerate() {
        let read = |feature: usize| match kinds[feature] {
            FeatureKind::Numeric(_) => FeatureValue::Number(NUMBERS[row]),
            FeatureKind::Categorical => FeatureValue::Text(WORDS[row]),
        };
        let raw = model.raw(read, &mut scratch).to_vec();
        assert!(raw.iter().zip(batch).all(|(raw, batch)| raw.to_bits() == batch.to_bits()));
        let mut probabilities = vec![0.0; model.classes().len()];
        model.probabilities(&raw, &mut probabilities);
        assert!(model.class(&raw).is_none_or(|class| class < model.classes().len()));
        if let Ok(parts) = model.contributions(read, &mut scratch) {
            assert_eq!(parts.len(), model.dimension() * (model.features().len() + 1));
        }
    }
});

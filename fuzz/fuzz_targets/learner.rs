//! Any bytes behind stored weights are examples: they are refused, or the learner goes on with them, and stays one that can be
//! stored. Any texts may be learned and forgotten, in any order.
#![no_main]

use std::sync::LazyLock;

use judge::{ExampleLabel, FeatureBuilder, FeatureSet, LinearLearner};
use libfuzzer_sys::fuzz_target;

/// Magic bytes, generator and weights: the examples follow.
static HEAD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = LinearLearner::default().encode();
    // Two classes, each with its count and no example.
    bytes.truncate(bytes.len() - 2 * 9);
    bytes
});

fuzz_target!(|bytes: &[u8]| {
    if let Ok(features) = FeatureSet::decode(bytes) {
        let mut again = Vec::new();
        features.encode(&mut again);
        assert_eq!(FeatureSet::decode(&again).as_ref(), Ok(&features));
    }
    let stored = [&HEAD[..], bytes].concat();
    let learner = LinearLearner::decode(&stored).unwrap_or_default();
    let mut builder = FeatureBuilder::default();
    for (number, example) in bytes.split(|byte| *byte == b'\n').enumerate().take(64) {
        let Some((kind, text)) = example.split_first() else { continue };
        builder.add_runs(u64::from(kind >> 2), &String::from_utf8_lossy(text));
        let features = builder.finish();
        let label = if kind & 1 == 0 { ExampleLabel::Good } else { ExampleLabel::Bad };
        match kind & 2 {
            0 => learner.learn(number as u64, &features, label),
            _ => learner.forget(number as u64 % 7, &features, label),
        }
        assert!(learner.log_odds(&features).is_none_or(|odds| (-9.0..=9.0).contains(&odds)));
    }
    assert!(LinearLearner::decode(&learner.encode()).is_ok());
});

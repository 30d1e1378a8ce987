//! Cost of learning an event by a linear model, and of judging one: microseconds.
//!
//! `cargo bench -p tollhouse-judge --bench learner -- SPAM HAM`, two directories of messages, of which the first 2,000 bytes of the
//! header and of the rest have a model each. Without directories, and under `cargo test --benches`, texts are made up.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use judge::{ExampleLabel, FeatureBuilder, FeatureSet, LinearLearner};

/// The number of bytes of a text that are learned.
const BYTES: usize = 2_000;

/// The two texts of an event.
type Texts = [String; 2];

fn start(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(BYTES)]).into_owned()
}

/// The messages of a directory, by name.
fn messages(directory: &str) -> Vec<Texts> {
    let entries =
        std::fs::read_dir(Path::new(directory)).unwrap_or_else(|error| panic!("{directory}: {error}"));
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let message = |path| {
        let bytes = std::fs::read(path).ok()?;
        let end = bytes.windows(2).position(|pair| pair == b"\n\n").unwrap_or(bytes.len());
        Some([start(&bytes[..end]), start(&bytes[end..])])
    };
    paths.iter().filter_map(message).collect()
}

/// Texts of words of which each class has some of its own.
fn made_up(class: usize, count: usize) -> Vec<Texts> {
    let mut state = class as u64 + 1;
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let own = if state >> 62 == 0 { 10_000 * (class as u64 + 1) } else { 0 };
        format!("{:x} ", ((state >> 40) % 3_000 + own) * 7_919)
    };
    let mut text = || (0..150).map(|_| word()).collect::<String>();
    (0..count).map(|_| [text(), text()]).collect()
}

fn features(builder: &mut FeatureBuilder, texts: &Texts) -> [FeatureSet; 2] {
    [0, 1].map(|source: usize| {
        builder.add_runs(source as u64 + 1, &texts[source]);
        builder.finish()
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_small = !arguments.iter().any(|argument| argument == "--bench");
    let directories: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let sets = match directories[..] {
        [spam, ham] => [messages(spam), messages(ham)],
        _ => [0, 1].map(|class| made_up(class, if is_small { 40 } else { 1_500 })),
    };
    let total: usize = sets.iter().map(Vec::len).sum();
    // By turns: of each class as large a share at any time.
    let share = |(class, at): (usize, usize)| (at as f64 + 0.5) / sets[class].len() as f64;
    let mut order: Vec<(usize, usize)> =
        (0..2).flat_map(|class| (0..sets[class].len()).map(move |at| (class, at))).collect();
    order.sort_by(|one, other| share(*one).total_cmp(&share(*other)));
    let mut builder = FeatureBuilder::default();
    let begun = Instant::now();
    let examples: Vec<(ExampleLabel, [FeatureSet; 2])> = order
        .iter()
        .map(|(class, at)| {
            let label = [ExampleLabel::Bad, ExampleLabel::Good][*class];
            (label, features(&mut builder, &sets[*class][*at]))
        })
        .collect();
    let micros = |begun: Instant| begun.elapsed().as_secs_f64() * 1e6 / total as f64;
    println!("{:>8.1} µs  features of an event", micros(begun));
    for _ in 0..3 {
        let learners: [LinearLearner; 2] = Default::default();
        let begun = Instant::now();
        for (event, (label, features)) in (0u64..).zip(&examples) {
            for (learner, features) in learners.iter().zip(features) {
                learner.learn(event, features, *label);
            }
        }
        println!("{:>8.1} µs  an event learned by both models, {total} events", micros(begun));
        let begun = Instant::now();
        let odds = examples.iter().flat_map(|(_, features)| learners.iter().zip(features));
        let odds: f64 = odds.filter_map(|(learner, features)| learner.log_odds(features)).sum();
        println!("{:>8.1} µs  judged by both", micros(begun));
        black_box(odds);
    }
}

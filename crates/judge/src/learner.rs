//! A linear model that learns online: hashed runs of four bytes, and a relaxed, bounded support vector machine.
//!
//! ```text
//! texts ─► FeatureSet ─► f = Σ w / √n ─► log-odds
//!                 └─ label ─► y·f < 1: a step, and the same step for 50 past examples of each class
//! ```
//!
//! Runs of four bytes as they stand, hashed to 2²⁰ weights and normalised by the root of their number, tell spam from ham at
//! least as well as words do (Goodman, Heckerman and Rounthwaite, "Stopping spam", 2005; Sculley and Wachman, "Relaxed Online
//! SVMs for Spam Filtering", SIGIR 2007). An example that is violated (y·f < 1) gets the dual weight that repairs it,
//! `a' = clip(a + 1 - y·f, 0, 1)`, and the weights move by `(a' - a)·y/√n`. The bound of 1 keeps wrong labels from
//! doing much: without it a few per cent of them ruin the model.
//!
//! Who learns one class and then the other would teach a plain online learner nothing but the last. So the learner keeps
//! 1,500 examples of each class, as hashes without any text, and repeats the step for some of both after each mistake:
//! neither order nor imbalance then matters much.
//!
//! The weights lie in the order in which their features were first learned, not in that of the hashes: what many events have lies
//! together, and so does what one event alone has. The hundred examples of a mistake then take half the time, which goes into
//! waiting for memory. A table says where each feature's weight lies.
//!
//! A model takes 8 MB, and some 3 KB for each example of a part of a message, 17 MB in all. Judging is a look at each feature's
//! weight; a mistake costs a hundred times that.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

/// The number of weights.
const WEIGHTS: usize = 1 << WEIGHT_BITS;
const WEIGHT_BITS: u32 = 20;
/// Examples of a class that are kept.
const EXAMPLES_MAX: usize = 1_500;
/// Examples of each class that are learned again after a mistake.
const REPLAYED: usize = 50;
/// Most of an example's dual weight, and the margin.
const BOUND: f32 = 1.0;
const MARGIN: f32 = 1.0;
/// Most features of an event.
const FEATURES_MAX: usize = 8_192;
/// Log-odds of a whole unit of the model's value: at its margin an event of the class is sure.
const ODDS: f64 = 6.0;
/// The value beyond which nothing is added: one that is sure says no more than this.
const VALUE_MAX: f64 = 1.5;
/// The start of a stored learner.
const MAGIC: &[u8; 8] = b"thlearn1";

/// The features of an event: different hashes, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureSet(Box<[u32]>);

/// The features of an example, in their order, by the places of their weights.
#[derive(Clone, Debug, PartialEq)]
struct PlacedFeatures(Box<[u32]>);

/// Gathers the features of an event.
#[derive(Debug, Default)]
pub struct FeatureBuilder {
    found: Vec<u32>,
    /// Room for sorting.
    sorted: Vec<u32>,
}

const _: () = assert!(WEIGHT_BITS.is_multiple_of(2), "features are sorted by halves");

impl FeatureBuilder {
    /// Adds the runs of four bytes of a text. Those of different sources are different features.
    pub fn add_runs(&mut self, source: u64, text: &str) {
        let seed = source.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let runs = text.as_bytes().windows(4).map(|run| {
            let run = u32::from_le_bytes([run[0], run[1], run[2], run[3]]);
            // Finalizer of SplitMix64 (Steele, Lea and Flood 2014).
            let mut hash = u64::from(run).wrapping_add(seed);
            hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            (hash >> (64 - WEIGHT_BITS)) as u32
        });
        self.found.extend(runs.take(2 * FEATURES_MAX));
    }

    /// Returns the features that were added, and forgets them.
    pub fn finish(&mut self) -> FeatureSet {
        self.sort();
        self.found.dedup();
        // Which ones are left out does not matter: hashes are spread evenly.
        self.found.truncate(FEATURES_MAX);
        let features = FeatureSet(self.found.as_slice().into());
        self.found.clear();
        features
    }

    /// Sorts what was found: by its lower half, then by its upper, which takes a third of the time of comparing.
    fn sort(&mut self) {
        const HALF: u32 = WEIGHT_BITS / 2;
        const PLACES: usize = 1 << HALF;
        if self.found.len() < PLACES {
            return self.found.sort_unstable();
        }
        self.sorted.clear();
        self.sorted.resize(self.found.len(), 0);
        for shift in [0, HALF] {
            let place = |feature: u32| (feature >> shift) as usize % PLACES;
            let mut starts = [0u32; PLACES];
            self.found.iter().for_each(|feature| starts[place(*feature)] += 1);
            let mut sum = 0;
            for start in &mut starts {
                sum += std::mem::replace(start, sum);
            }
            for feature in &self.found {
                let next = &mut starts[place(*feature)];
                self.sorted[*next as usize] = *feature;
                *next += 1;
            }
            std::mem::swap(&mut self.found, &mut self.sorted);
        }
    }
}

impl FeatureSet {
    /// The number of features.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds its bytes: the number of features, and the distance of each to the one before.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        put_varint(bytes, self.len() as u64);
        let mut before = 0;
        for feature in &self.0 {
            put_varint(bytes, u64::from(feature - before));
            before = *feature;
        }
    }

    /// Reads what [`FeatureSet::encode`] has written, and nothing else.
    ///
    /// # Errors
    /// If the bytes are no features.
    pub fn decode(bytes: &[u8]) -> Result<FeatureSet, LearnerFormatError> {
        let mut reader = ByteReader(bytes);
        let features = FeatureSet::read(&mut reader)?;
        if reader.0.is_empty() { Ok(features) } else { Err(LearnerFormatError) }
    }

    fn read(reader: &mut ByteReader<'_>) -> Result<FeatureSet, LearnerFormatError> {
        let mut features = Vec::new();
        let mut before = 0;
        for number in 0..reader.varint(FEATURES_MAX as u64)? {
            let step = reader.varint(WEIGHTS as u64)? as u32;
            before += step;
            if before as usize >= WEIGHTS || step == 0 && number > 0 {
                return Err(LearnerFormatError);
            }
            features.push(before);
        }
        Ok(FeatureSet(features.into()))
    }
}

/// Returns the factor by which each of so many features counts.
fn norm(features: usize) -> f32 {
    1.0 / (features.max(1) as f32).sqrt()
}

/// Returns the sum of what each of some features weighs. Always in the same order, to the last bit.
fn sum(features: &[u32], weight: impl Fn(u32) -> f32) -> f32 {
    // Eight sums, as each addition waits for the one before: three times as fast as one.
    let (eights, rest) = features.as_chunks::<8>();
    let mut sums = [0.0f32; 8];
    for eight in eights {
        sums.iter_mut().zip(eight).for_each(|(sum, feature)| *sum += weight(*feature));
    }
    let rest: f32 = rest.iter().map(|feature| weight(*feature)).sum();
    sums.iter().sum::<f32>() + rest
}

/// The label of an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExampleLabel {
    /// The event is good.
    Good,
    /// The event is bad.
    Bad,
}

impl ExampleLabel {
    const ALL: [ExampleLabel; 2] = [ExampleLabel::Good, ExampleLabel::Bad];

    fn sign(self) -> f32 {
        match self {
            ExampleLabel::Good => -1.0,
            ExampleLabel::Bad => 1.0,
        }
    }
}

/// An event that was learned.
#[derive(Clone, Debug, PartialEq)]
struct Example {
    event: u64,
    weight: f32,
    features: PlacedFeatures,
}

/// A stored learner that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is nothing that a learner has stored, or it is cut off")]
pub struct LearnerFormatError;

/// A model that many threads may ask while one learns.
#[derive(Debug)]
pub struct LinearLearner {
    /// The place of each feature's weight; [`UNPLACED`] for one that was never learned.
    places: Box<[AtomicU32]>,
    /// The bits of floats, place by place; that of [`UNPLACED`] stays zero. Whoever judges while they change sees some before and
    /// some after.
    weights: Box<[AtomicU32]>,
    /// The number of events that were learned of each class and not forgotten. Changed by who holds the trainer.
    learned: [AtomicU64; 2],
    trainer: Mutex<Reservoir>,
}

/// The place of what has no weight.
const UNPLACED: u32 = 0;

/// The examples of each class, and what only who learns may change.
#[derive(Debug, Default)]
struct Reservoir {
    examples: [Vec<Example>; 2],
    /// State of the generator that picks examples: the same examples give the same model.
    random: u64,
    /// The number of features that have a place: the last place that was given away.
    placed: u32,
}

impl Reservoir {
    fn below(&mut self, bound: usize) -> usize {
        // Multiplier and increment of Knuth's MMIX.
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.random) * bound as u128) >> 64) as usize
    }
}

impl Default for LinearLearner {
    fn default() -> LinearLearner {
        let zeros = |count: usize| (0..count).map(|_| AtomicU32::new(0)).collect();
        LinearLearner {
            places: zeros(WEIGHTS),
            weights: zeros(1 + WEIGHTS),
            learned: Default::default(),
            trainer: Mutex::new(Reservoir { random: 1, ..Reservoir::default() }),
        }
    }
}

impl LinearLearner {
    /// The log-odds that an event is bad, between -9 and 9; `None` as long as one class is unknown.
    pub fn log_odds(&self, features: &FeatureSet) -> Option<f64> {
        if features.is_empty() || self.learned().contains(&0) {
            return None;
        }
        let value = sum(&features.0, |feature| self.weight(feature)) * norm(features.len());
        Some(f64::from(value).clamp(-VALUE_MAX, VALUE_MAX) * ODDS)
    }

    /// The weight of a feature.
    fn weight(&self, feature: u32) -> f32 {
        self.weight_at(self.places[feature as usize].load(Ordering::Relaxed))
    }

    fn weight_at(&self, place: u32) -> f32 {
        f32::from_bits(self.weights[place as usize].load(Ordering::Relaxed))
    }

    /// The features of an example by their places, which those that are new are given.
    fn place(&self, trainer: &mut Reservoir, features: &FeatureSet) -> PlacedFeatures {
        let mut place = |feature: u32| {
            let known = &self.places[feature as usize];
            match known.load(Ordering::Relaxed) {
                UNPLACED => {
                    trainer.placed += 1;
                    known.store(trainer.placed, Ordering::Relaxed);
                    trainer.placed
                }
                place => place,
            }
        };
        PlacedFeatures(features.0.iter().map(|feature| place(*feature)).collect())
    }

    fn value(&self, features: &PlacedFeatures) -> f32 {
        sum(&features.0, |place| self.weight_at(place)) * norm(features.0.len())
    }

    /// Moves the value of an event by so much. Only ever called by who holds the trainer.
    fn shift(&self, features: &PlacedFeatures, by: f32) {
        let each = by * norm(features.0.len());
        for place in &features.0 {
            let weight = self.weight_at(*place) + each;
            self.weights[*place as usize].store(weight.to_bits(), Ordering::Relaxed);
        }
    }

    /// Repairs a violated example; returns its dual weight then.
    fn repair(&self, features: &PlacedFeatures, label: ExampleLabel, weight: f32) -> f32 {
        let margin = label.sign() * self.value(features);
        if margin >= MARGIN && weight <= 0.0 {
            return weight;
        }
        let repaired = (weight + 1.0 - margin).clamp(0.0, BOUND);
        // One that is at its bound stays there.
        if repaired != weight {
            self.shift(features, (repaired - weight) * label.sign());
        }
        repaired
    }

    /// Learns that an event, known by a hash of its name, is of a class. The caller forgets first what it taught before.
    pub fn learn(&self, event: u64, features: &FeatureSet, label: ExampleLabel) {
        if features.is_empty() {
            return;
        }
        let mut trainer = self.trainer.lock();
        let features = self.place(&mut trainer, features);
        let is_mistake = label.sign() * self.value(&features) < MARGIN;
        let weight = if is_mistake { self.repair(&features, label, 0.0) } else { 0.0 };
        let example = Example { event, weight, features };
        let class = label as usize;
        self.learned[class].fetch_add(1, Ordering::Relaxed);
        if trainer.examples[class].len() < EXAMPLES_MAX {
            trainer.examples[class].push(example);
        } else {
            let place = trainer.below(EXAMPLES_MAX);
            trainer.examples[class][place] = example;
        }
        for number in 0..if is_mistake { 2 * REPLAYED } else { 0 } {
            let label = ExampleLabel::ALL[number % 2];
            let count = trainer.examples[label as usize].len();
            if count == 0 {
                continue;
            }
            let place = trainer.below(count);
            let example = &mut trainer.examples[label as usize][place];
            example.weight = self.repair(&example.features, label, example.weight);
        }
    }

    /// Forgets what an event has taught: as far as its example is kept what that added, else a step that leaves the model
    /// undecided on the event, which is not exact.
    pub fn forget(&self, event: u64, features: &FeatureSet, label: ExampleLabel) {
        let mut trainer = self.trainer.lock();
        let class = label as usize;
        let left = self.learned[class].load(Ordering::Relaxed).saturating_sub(1);
        self.learned[class].store(left, Ordering::Relaxed);
        let features = self.place(&mut trainer, features);
        let examples = &mut trainer.examples[class];
        let taken = match examples.iter().position(|example| example.event == event) {
            Some(place) => examples.swap_remove(place).weight,
            None => (label.sign() * self.value(&features)).clamp(0.0, BOUND),
        };
        self.shift(&features, -taken * label.sign());
    }

    /// Returns whether an event is among the examples of a class that are kept.
    pub fn holds(&self, event: u64, label: ExampleLabel) -> bool {
        self.trainer.lock().examples[label as usize].iter().any(|example| example.event == event)
    }

    /// Returns whether an event was certainly not learned as of a class: it is not among the examples, which are all that was
    /// learned.
    pub fn lacks(&self, event: u64, label: ExampleLabel) -> bool {
        let trainer = self.trainer.lock();
        let examples = &trainer.examples[label as usize];
        examples.len() as u64 == self.learned()[label as usize]
            && examples.iter().all(|example| example.event != event)
    }

    /// Events that were learned of each class, good ones first.
    pub fn learned(&self) -> [u64; 2] {
        [0, 1].map(|class: usize| self.learned[class].load(Ordering::Relaxed))
    }

    /// The bytes of the learner: 4 MB, and some 3 KB for each example of a message.
    pub fn encode(&self) -> Vec<u8> {
        let trainer = self.trainer.lock();
        let mut bytes = Vec::with_capacity(8 * WEIGHTS);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&trainer.random.to_le_bytes());
        let mut by_place = vec![0u32; 1 + trainer.placed as usize];
        for (feature, place) in (0u32..).zip(&self.places) {
            bytes.extend_from_slice(&self.weight(feature).to_le_bytes());
            by_place[place.load(Ordering::Relaxed) as usize] = feature;
        }
        for (examples, learned) in trainer.examples.iter().zip(self.learned()) {
            bytes.extend_from_slice(&learned.to_le_bytes());
            put_varint(&mut bytes, examples.len() as u64);
            for Example { event, weight, features } in examples {
                bytes.extend_from_slice(&event.to_le_bytes());
                bytes.extend_from_slice(&weight.to_le_bytes());
                let features = features.0.iter().map(|place| by_place[*place as usize]);
                FeatureSet(features.collect()).encode(&mut bytes);
            }
        }
        bytes
    }

    /// Reads what [`LinearLearner::encode`] has written. Whatever the bytes, it takes no more memory than some times their
    /// number.
    ///
    /// # Errors
    /// If they are no learner.
    pub fn decode(bytes: &[u8]) -> Result<LinearLearner, LearnerFormatError> {
        let mut reader = ByteReader(bytes);
        if reader.take::<8>()? != *MAGIC {
            return Err(LearnerFormatError);
        }
        let random = u64::from_le_bytes(reader.take()?);
        let weights = reader.bytes(4 * WEIGHTS)?.as_chunks::<4>().0;
        if !weights.iter().all(|weight| f32::from_le_bytes(*weight).is_finite()) {
            return Err(LearnerFormatError);
        }
        let learner = LinearLearner::default();
        let mut trainer = Reservoir { random, ..Reservoir::default() };
        for class in [0, 1] {
            learner.learned[class].store(u64::from_le_bytes(reader.take()?), Ordering::Relaxed);
            let count = reader.varint(EXAMPLES_MAX as u64)?;
            for _ in 0..count {
                let event = u64::from_le_bytes(reader.take()?);
                let weight = f32::from_le_bytes(reader.take()?);
                if !(0.0..=BOUND).contains(&weight) {
                    return Err(LearnerFormatError);
                }
                let features = FeatureSet::read(&mut reader)?;
                let features = learner.place(&mut trainer, &features);
                trainer.examples[class].push(Example { event, weight, features });
            }
        }
        if !reader.0.is_empty() {
            return Err(LearnerFormatError);
        }
        // Those that no example has come behind the others.
        let rest = (0u32..).zip(weights).filter(|(_, weight)| **weight != [0; 4]).map(|(feature, _)| feature);
        learner.place(&mut trainer, &FeatureSet(rest.collect()));
        for (place, weight) in learner.places.iter().zip(weights) {
            let place = place.load(Ordering::Relaxed);
            if place != UNPLACED {
                learner.weights[place as usize].store(u32::from_le_bytes(*weight), Ordering::Relaxed);
            }
        }
        *learner.trainer.lock() = trainer;
        Ok(learner)
    }
}

impl PartialEq for LinearLearner {
    /// Compares all that is stored of them: where weights lie does not matter.
    fn eq(&self, other: &LinearLearner) -> bool {
        self.encode() == other.encode()
    }
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], LearnerFormatError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(LearnerFormatError)?;
        self.0 = rest;
        Ok(taken)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], LearnerFormatError> {
        self.bytes(N)?.try_into().map_err(|_| LearnerFormatError)
    }

    /// A number of at most so much.
    fn varint(&mut self, most: u64) -> Result<u64, LearnerFormatError> {
        let mut number = 0u64;
        for shift in (0..35).step_by(7) {
            let [byte] = self.take()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return if number <= most { Ok(number) } else { Err(LearnerFormatError) };
            }
        }
        Err(LearnerFormatError)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn features(text: &str) -> FeatureSet {
        let mut builder = FeatureBuilder::default();
        builder.add_runs(1, text);
        builder.finish()
    }

    /// A text of either class: words of its own among those that both have.
    fn text(label: ExampleLabel, number: usize) -> String {
        let own = match label {
            ExampleLabel::Bad => ["pills", "cheap", "winner", "casino"],
            ExampleLabel::Good => ["meeting", "patch", "review", "thanks"],
        };
        format!(
            "{} number {} of the {} at {}",
            own[number % 4],
            number * 7919,
            own[(number / 3) % 4],
            number % 11
        )
    }

    fn mistakes(learner: &LinearLearner) -> usize {
        let judged = (5_000..5_200).flat_map(|number| ExampleLabel::ALL.map(|label| (label, number)));
        let is_wrong = |(label, number): &(ExampleLabel, usize)| {
            let odds = learner.log_odds(&features(&text(*label, *number)));
            odds.is_none_or(|odds| odds * f64::from(label.sign()) <= 0.0)
        };
        judged.filter(is_wrong).count()
    }

    fn learn(learner: &LinearLearner, examples: impl IntoIterator<Item = (ExampleLabel, usize)>) {
        for (label, number) in examples {
            learner.learn(number as u64 * 2 + label as u64, &features(&text(label, number)), label);
        }
    }

    #[test]
    fn features_ascend_however_many() {
        for length in [0, 3, 4, 500, 1_030, 5_000, 40_000] {
            let mut random = Reservoir { random: 7, ..Reservoir::default() };
            let text: String = (0..length).map(|_| (b' ' + random.below(90) as u8) as char).collect();
            let mut builder = FeatureBuilder::default();
            builder.add_runs(1, &text);
            let mut expected = builder.found.clone();
            expected.sort_unstable();
            expected.dedup();
            expected.truncate(FEATURES_MAX);
            assert_eq!(builder.finish().0[..], expected, "{length}");
            assert!(builder.finish().is_empty(), "it has forgotten them");
        }
    }

    #[test]
    fn features_are_different_runs_of_bytes() {
        assert_eq!(features("abc").len(), 0);
        assert_eq!(features("abcdabcd").len(), 4, "abcd, bcda, cdab, dabc");
        assert_eq!(features("Abcd").len(), 1);
        assert_ne!(features("Abcd"), features("abcd"));
        let mut builder = FeatureBuilder::default();
        builder.add_runs(1, "abcd");
        builder.add_runs(2, "abcd");
        assert_eq!(builder.finish().len(), 2, "where it stands matters");
        assert_eq!(builder.finish(), FeatureSet::default());
        let long: String =
            (0..9_000u32).map(|number| format!("{:x} ", number.wrapping_mul(2_654_435_761))).collect();
        assert_eq!(features(&long).len(), FEATURES_MAX);
    }

    #[test]
    fn whatever_the_order_it_learns_the_same() {
        let both = |numbers: std::ops::Range<usize>| {
            numbers.flat_map(|number| ExampleLabel::ALL.map(|label| (label, number)))
        };
        let one =
            |label: ExampleLabel, numbers: std::ops::Range<usize>| numbers.map(move |number| (label, number));
        let turns = LinearLearner::default();
        learn(&turns, both(0..300));
        assert_eq!((turns.learned(), mistakes(&turns)), ([300, 300], 0));
        for [first, second] in
            [[ExampleLabel::Good, ExampleLabel::Bad], [ExampleLabel::Bad, ExampleLabel::Good]]
        {
            let blocks = LinearLearner::default();
            learn(&blocks, one(first, 0..300).chain(one(second, 0..300)));
            assert_eq!(mistakes(&blocks), 0, "{first:?} first");
            // A hundred times as many of one class.
            let uneven = LinearLearner::default();
            learn(&uneven, one(first, 0..1_000).chain(one(second, 0..10)));
            assert!(mistakes(&uneven) < 20, "{first:?} often: {}", mistakes(&uneven));
        }
    }

    #[test]
    fn one_class_says_nothing_and_wrong_labels_little() {
        let learner = LinearLearner::default();
        learn(&learner, (0..50).map(|number| (ExampleLabel::Bad, number)));
        assert_eq!(learner.log_odds(&features("cheap pills")), None);
        learn(&learner, (0..50).map(|number| (ExampleLabel::Good, number)));
        assert!(learner.log_odds(&features("cheap pills")).is_some_and(|odds| odds > 0.0));
        assert_eq!(learner.log_odds(&features("")), None);
        let other = |label| if label == ExampleLabel::Bad { ExampleLabel::Good } else { ExampleLabel::Bad };
        for number in 100..500usize {
            for label in ExampleLabel::ALL {
                let told = if number % 20 == 0 { other(label) } else { label };
                learner.learn(number as u64, &features(&text(label, number)), told);
            }
        }
        assert!(mistakes(&learner) < 10, "of 400 with 5 % of the labels wrong: {}", mistakes(&learner));
    }

    /// A learner without places: weights by feature, nothing left out.
    struct PlainLearner {
        weights: Vec<f32>,
        examples: [Vec<(u64, f32, FeatureSet)>; 2],
        random: Reservoir,
    }

    impl PlainLearner {
        fn learn(&mut self, event: u64, features: &FeatureSet, label: ExampleLabel) {
            let is_mistake = label.sign() * self.value(features) < 1.0;
            let weight = if is_mistake { self.repair(features, label, 0.0) } else { 0.0 };
            let (class, example) = (label as usize, (event, weight, features.clone()));
            if self.examples[class].len() < EXAMPLES_MAX {
                self.examples[class].push(example);
            } else {
                let place = self.random.below(EXAMPLES_MAX);
                self.examples[class][place] = example;
            }
            for number in 0..if is_mistake { 2 * REPLAYED } else { 0 } {
                let class = number % 2;
                if self.examples[class].is_empty() {
                    continue;
                }
                let place = self.random.below(self.examples[class].len());
                let (_, weight, features) = self.examples[class][place].clone();
                self.examples[class][place].1 = self.repair(&features, ExampleLabel::ALL[class], weight);
            }
        }

        fn forget(&mut self, event: u64, features: &FeatureSet, label: ExampleLabel) {
            let examples = &mut self.examples[label as usize];
            let taken = match examples.iter().position(|(other, ..)| *other == event) {
                Some(place) => examples.swap_remove(place).1,
                None => (label.sign() * self.value(features)).clamp(0.0, 1.0),
            };
            self.shift(features, -taken * label.sign());
        }

        fn value(&self, features: &FeatureSet) -> f32 {
            let weights: Vec<f32> =
                features.0.iter().map(|feature| self.weights[*feature as usize]).collect();
            let (eights, rest) = weights.as_chunks::<8>();
            let mut sums = [0.0f32; 8];
            eights.iter().flatten().enumerate().for_each(|(at, weight)| sums[at % 8] += weight);
            (sums.iter().sum::<f32>() + rest.iter().sum::<f32>()) * (1.0 / (features.len() as f32).sqrt())
        }

        fn repair(&mut self, features: &FeatureSet, label: ExampleLabel, weight: f32) -> f32 {
            let margin = label.sign() * self.value(features);
            if margin >= 1.0 && weight <= 0.0 {
                return weight;
            }
            let repaired = (weight + 1.0 - margin).clamp(0.0, 1.0);
            self.shift(features, (repaired - weight) * label.sign());
            repaired
        }

        fn shift(&mut self, features: &FeatureSet, by: f32) {
            let each = by * (1.0 / (features.len() as f32).sqrt());
            features.0.iter().for_each(|feature| self.weights[*feature as usize] += each);
        }
    }

    /// The places of weights, and the steps that are left out as they change nothing, are not to be seen in any bit.
    #[test]
    fn places_change_no_bit() {
        let mut learner = LinearLearner::default();
        let random = Reservoir { random: 1, ..Reservoir::default() };
        let mut plain = PlainLearner { weights: vec![0.0; WEIGHTS], examples: Default::default(), random };
        let mut dice = Reservoir { random: 99, ..Reservoir::default() };
        for number in 0..2_500usize {
            let label = ExampleLabel::ALL[usize::from(dice.below(100) < 20)];
            // Some are wrong, so that examples reach their bound.
            let like = ExampleLabel::ALL[usize::from((dice.below(100) < 5) != (label == ExampleLabel::Bad))];
            let features = features(&text(like, dice.below(3_000)));
            let event = number as u64;
            learner.learn(event, &features, label);
            plain.learn(event, &features, label);
            if dice.below(10) == 0 {
                learner.forget(event, &features, label);
                plain.forget(event, &features, label);
            }
            if number % 900 == 899 {
                learner = LinearLearner::decode(&learner.encode()).unwrap();
            }
        }
        let bits = |weight: f32| weight.to_bits();
        let differs = (0u32..)
            .zip(&plain.weights)
            .find(|(feature, weight)| bits(learner.weight(*feature)) != bits(**weight));
        assert_eq!(differs, None);
        assert!(plain.weights.iter().any(|weight| *weight != 0.0));
        let trainer = learner.trainer.lock();
        assert_eq!(trainer.random, plain.random.random);
        for (examples, plain) in trainer.examples.iter().zip(&plain.examples) {
            let weights = |(example, (event, weight, _)): (&Example, &(u64, f32, FeatureSet))| {
                (example.event, bits(example.weight)) == (*event, bits(*weight))
            };
            assert_eq!(examples.len(), plain.len());
            assert!(examples.iter().zip(plain).all(weights));
        }
        // Most examples came and went: what is in their places is of others.
        assert!(trainer.examples[0].len() > EXAMPLES_MAX - 100);
    }

    #[test]
    fn what_is_forgotten_is_gone() {
        let learner = LinearLearner::default();
        learn(&learner, [(ExampleLabel::Good, 1), (ExampleLabel::Bad, 1)]);
        let (before, odd) = (learner.encode(), features("a lottery that nobody knows"));
        learner.learn(77, &odd, ExampleLabel::Bad);
        assert!(learner.log_odds(&odd).is_some_and(|odds| odds > 1.0));
        learner.forget(77, &odd, ExampleLabel::Bad);
        assert!(learner.log_odds(&odd).is_some_and(|odds| odds.abs() < 1.0));
        assert_eq!((learner.learned(), learner.encode().len()), ([1, 1], before.len()));
        let lacking = |event| learner.lacks(event, ExampleLabel::Bad);
        assert_eq!([3, 77].map(lacking), [false, true], "the first is there, the last is forgotten");
        // An example that is kept no more: the model is left undecided on it.
        let known = features(&text(ExampleLabel::Bad, 1));
        learner.forget(4_711, &known, ExampleLabel::Bad);
        assert!(!lacking(77), "it has learned more, or less, than it keeps");
        assert!(sum(&known.0, |feature| learner.weight(feature)).abs() < 1e-2);
    }

    #[test]
    fn a_stored_learner_goes_on_where_it_was() {
        let learner = LinearLearner::default();
        learn(&learner, (0..200).flat_map(|number| ExampleLabel::ALL.map(|label| (label, number))));
        let bytes = learner.encode();
        let read = LinearLearner::decode(&bytes).unwrap();
        assert!(read == learner);
        for learner in [&learner, &read] {
            learn(learner, (200..300).map(|number| (ExampleLabel::Bad, number)));
        }
        assert!(read == learner, "also what it picks next");
        for length in [0, 7, 8, 100, 4 << 20, bytes.len() - 1] {
            assert!(LinearLearner::decode(&bytes[..length]).is_err(), "{length}");
        }
        assert!(LinearLearner::decode(&[&bytes[..], &[0]].concat()).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_bytes_are_too_odd(tail in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut bytes = LinearLearner::default().encode();
            bytes.truncate(16 + 4 * WEIGHTS);
            bytes.extend_from_slice(&tail);
            if let Ok(learner) = LinearLearner::decode(&bytes) {
                prop_assert!(LinearLearner::decode(&learner.encode()).is_ok_and(|again| again == learner));
            }
        }

        #[test]
        fn weights_stay_finite(examples in prop::collection::vec((0usize..30, any::<bool>(), any::<bool>()), 0..120)) {
            let learner = LinearLearner::default();
            for (number, is_bad, forgets) in examples {
                let label = if is_bad { ExampleLabel::Bad } else { ExampleLabel::Good };
                let features = features(&text(ExampleLabel::Good, number));
                match forgets {
                    true => learner.forget(number as u64, &features, label),
                    false => learner.learn(number as u64, &features, label),
                }
            }
            prop_assert!(LinearLearner::decode(&learner.encode()).is_ok());
        }
    }
}

//! Linear models that all nodes of a cluster share: one stream of training examples for each, in one order.
//!
//! ```text
//! taught here ─► log, before it is answered ─► waits ─► streams: behind the others ─► stream
//! stream ─► every node, this one included, learns each example in the stream's order ─► the same model everywhere
//!      └─► now and then one node, which has the lease, puts a snapshot beside it; examples before that are cut off
//! ```
//!
//! A learner is exact arithmetic on its examples in their order, so nodes that have learned the same part of a stream have the same
//! weights to the last bit. That is why examples are shared, and not averages of weights: these would follow neither counts nor labels,
//! and could not say which examples are in them.
//!
//! An example has an identity. One that is sent again, as after a kill or a lost answer, is in the stream once. A place in the stream
//! is a number and the identity of the example there, so a node notices when a failover has forgotten examples that it has learned; it
//! then begins with the snapshot again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use judge::{ExampleLabel, LinearLearner};
use parking_lot::Mutex;

use super::training_log::{ExampleQueue, TrainingExample};
use super::training_streams::{
    ExampleId, ExamplePage, ExamplePosition, ModelSnapshot, SharedExample, SnapshotStream, TrainingStreams,
};
use super::{LearnerName, LinearLearners, example_label};

/// The form of examples in a stream: one of a later release is not learned wrongly.
const EXAMPLE_FORM: u8 = 1;
/// The start of a snapshot.
const SNAPSHOT_MAGIC: &[u8; 8] = b"thmodel1";
/// Most examples and bytes that are sent at once.
const SENT_MAX: usize = 64;
const SENT_BYTES_MAX: usize = 512 << 10;
/// Most bytes of examples that wait, as they are in memory; what is taught beyond has the counts alone.
const WAITING_BYTES_MAX: usize = 48 << 20;
/// Bytes of waiting examples from which who teaches sends them, as in a command where nobody else does.
const WAITING_BYTES_MANY: usize = 8 << 20;
/// The number of times that a node asks for another snapshot while it can take none.
const ASKED_MAX: u32 = 3;
/// Rounds of one exchange of a model; what is left is for the next.
const ROUNDS_MAX: usize = 200;

/// The state of a model that nodes share, for people and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedModelState {
    /// The example of the stream up to which it has learned.
    pub version: u64,
    /// The last example of the stream, as it was last seen.
    pub head: u64,
    /// Examples that were taught here and are not known to be in the stream.
    pub waiting: u64,
    /// Examples that were taught here while too many waited: counts have them, the model has not.
    pub dropped: u64,
    /// The last example in the snapshot that it knows of.
    pub snapshot: u64,
}

/// The side of a node in the exchange of examples.
#[derive(Debug)]
pub(super) struct SharedModels {
    /// The sender of examples that are taught from now on.
    sender: u64,
    numbers: AtomicU64,
    models: Mutex<BTreeMap<LearnerName, SharedModel>>,
    /// Taken by the one that exchanges examples; nobody waits for it but who ends.
    exchanging: Mutex<()>,
    /// True if the last exchange failed.
    is_away: AtomicBool,
}

#[derive(Debug, Default)]
struct SharedModel {
    /// The place in the stream up to which the learner has learned.
    position: ExamplePosition,
    waiting: VecDeque<TrainingExample>,
    waiting_bytes: usize,
    state: SharedModelState,
    /// The last snapshot that could not be taken, by its lease, and how often another one was asked for since one could.
    refused: Option<u64>,
    asked: u32,
}

impl SharedModels {
    /// The side of a node whose learners are at these places, with the examples that it has logged and may not have sent.
    pub(super) fn new(
        positions: BTreeMap<LearnerName, ExamplePosition>,
        logged: Vec<TrainingExample>,
    ) -> Result<SharedModels, getrandom::Error> {
        let of = |(name, position): (LearnerName, ExamplePosition)| {
            let state = SharedModelState {
                version: position.number,
                head: position.number,
                ..SharedModelState::default()
            };
            (name, SharedModel { position, state, ..SharedModel::default() })
        };
        let mut models: BTreeMap<LearnerName, SharedModel> = positions.into_iter().map(of).collect();
        // A crash while learners were written leaves an example in two logs.
        let mut seen = BTreeSet::new();
        for example in logged.into_iter().filter(|example| seen.insert((example.learner, example.id))) {
            models.entry(example.learner).or_default().push(example);
        }
        Ok(SharedModels {
            // Zero is for examples that nobody shares.
            sender: getrandom::u64()?.max(1),
            numbers: AtomicU64::new(1),
            models: Mutex::new(models),
            exchanging: Mutex::default(),
            is_away: AtomicBool::new(false),
        })
    }

    fn next_id(&self) -> ExampleId {
        ExampleId { sender: self.sender, number: self.numbers.fetch_add(1, Ordering::Relaxed) }
    }

    /// Puts an example that is taught here behind those that wait, and into the log; returns false if too many wait.
    pub(super) fn wait(&self, example: &TrainingExample, queue: &mut ExampleQueue) -> bool {
        let mut models = self.models.lock();
        let waiting: usize = models.values().map(|model| model.waiting_bytes).sum();
        let model = models.entry(example.learner).or_default();
        if waiting > WAITING_BYTES_MAX {
            model.state.dropped += 1;
            return false;
        }
        let example = TrainingExample { id: self.next_id(), ..example.clone() };
        queue.push(&example);
        model.push(example);
        true
    }

    /// Returns true if so much waits that who teaches should send it, and the streams could be asked the last time.
    pub(super) fn is_crowded(&self) -> bool {
        let waiting = || self.models.lock().values().map(|model| model.waiting_bytes).sum::<usize>();
        !self.is_away.load(Ordering::Relaxed) && waiting() > WAITING_BYTES_MANY
    }

    /// Returns true if all that this node knows of is learned.
    pub(super) fn is_level(&self, name: LearnerName) -> bool {
        let models = self.models.lock();
        let is_level =
            |model: &SharedModel| model.waiting.is_empty() && model.state.version == model.state.head;
        !self.is_away.load(Ordering::Relaxed) && models.get(&name).is_some_and(is_level)
    }

    /// Puts all examples that wait into a log.
    pub(super) fn log_waiting(&self, queue: &mut ExampleQueue) {
        for example in self.models.lock().values().flat_map(|model| &model.waiting) {
            queue.push(example);
        }
    }

    /// The place of a learner in its stream.
    pub(super) fn position(&self, name: LearnerName) -> ExamplePosition {
        self.models.lock().get(&name).map(|model| model.position).unwrap_or_default()
    }

    /// The states of models.
    pub(super) fn states(&self) -> BTreeMap<LearnerName, SharedModelState> {
        self.models.lock().iter().map(|(name, model)| (*name, model.state.clone())).collect()
    }

    /// The first examples that wait, of one sender.
    fn first_waiting(&self, name: LearnerName) -> Vec<SharedExample> {
        let models = self.models.lock();
        let waiting = models.get(&name).map(|model| model.waiting.iter()).into_iter().flatten();
        let mut examples: Vec<SharedExample> = Vec::new();
        let mut bytes = 0;
        for example in waiting.take(SENT_MAX) {
            let content = encode(example);
            bytes += content.len();
            let is_other = examples.first().is_some_and(|first| first.id.sender != example.id.sender);
            if is_other || (bytes > SENT_BYTES_MAX && !examples.is_empty()) {
                break;
            }
            examples.push(SharedExample { id: example.id, bytes: content });
        }
        examples
    }

    /// Forgets examples that are in the stream.
    fn sent(&self, name: LearnerName, last: ExampleId) -> bool {
        let mut models = self.models.lock();
        let Some(model) = models.get_mut(&name) else { return false };
        let before = model.waiting.len();
        while let Some(example) = model.waiting.pop_front() {
            if example.id.sender != last.sender || example.id.number > last.number {
                model.waiting.push_front(example);
                break;
            }
            model.waiting_bytes = model.waiting_bytes.saturating_sub(size(&example));
        }
        model.state.waiting = model.waiting.len() as u64;
        model.waiting.len() < before
    }

    /// Notes what is known of a stream.
    fn note(&self, name: LearnerName, page: &ExamplePage) {
        let mut models = self.models.lock();
        let state = &mut models.entry(name).or_default().state;
        state.head = page.head;
        state.snapshot = page.snapshot.map_or(0, |snapshot| snapshot.position.number);
    }

    /// Returns true if another snapshot should be asked for: this one could not be taken twice, as it was not replaced in between, and
    /// those before it were not asked for in vain too often.
    fn should_ask(&self, name: LearnerName, snapshot: &ModelSnapshot, is_taken: bool) -> bool {
        let mut models = self.models.lock();
        let model = models.entry(name).or_default();
        if is_taken {
            (model.refused, model.asked) = (None, 0);
            return false;
        }
        let is_again = model.refused.replace(snapshot.lease) == Some(snapshot.lease);
        let asks = is_again && model.asked < ASKED_MAX;
        model.asked += u32::from(asks);
        asks
    }

    fn set_position(&self, name: LearnerName, position: ExamplePosition) {
        let mut models = self.models.lock();
        let model = models.entry(name).or_default();
        model.position = position;
        model.state.version = position.number;
        model.state.head = model.state.head.max(position.number);
    }
}

impl SharedModel {
    fn push(&mut self, example: TrainingExample) {
        self.waiting_bytes += size(&example);
        self.waiting.push_back(example);
        self.state.waiting = self.waiting.len() as u64;
    }
}

/// The memory of an example that waits.
fn size(example: &TrainingExample) -> usize {
    size_of::<TrainingExample>() + 4 * example.features.len()
}

fn encode(example: &TrainingExample) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + 2 * example.features.len());
    bytes.push(EXAMPLE_FORM);
    example.encode_content(&mut bytes);
    bytes
}

fn decode(learner: LearnerName, SharedExample { id, bytes }: &SharedExample) -> Option<TrainingExample> {
    match bytes.split_first()? {
        (&EXAMPLE_FORM, content) => TrainingExample::decode_content(learner, *id, content),
        _ => None,
    }
}

/// Learns an example of a stream. What it does depends on the learner and the example alone: an event that is learned already is not
/// learned twice, and of one whose nodes disagree the last example of the stream stands.
pub(super) fn learn_in_turn(learner: &LinearLearner, example: &TrainingExample) {
    let TrainingExample { event, before, now, features, .. } = example;
    let now = example_label(*now);
    if now.is_some_and(|label| learner.holds(*event, label)) {
        return;
    }
    let others = [ExampleLabel::Good, ExampleLabel::Bad].into_iter().filter(|label| Some(*label) != now);
    // What was taught before and is no example any more is taken back by a step.
    let held = others.clone().find(|label| learner.holds(*event, *label));
    let before = others.clone().find(|label| Some(*label) == example_label(*before));
    if let Some(label) = held.or(before) {
        learner.forget(*event, features, label);
    }
    if let Some(label) = now {
        learner.learn(*event, features, label);
    }
}

/// Writes a snapshot: the place in the stream, and the learner.
fn encode_snapshot(position: ExamplePosition, learner: &LinearLearner) -> Vec<u8> {
    let ExamplePosition { number, id } = position;
    let mut bytes = SNAPSHOT_MAGIC.to_vec();
    [number, id.sender, id.number].iter().for_each(|part| bytes.extend_from_slice(&part.to_le_bytes()));
    bytes.extend_from_slice(&learner.encode());
    disk::seal(&bytes)
}

/// Reads a snapshot of this place; `None` if it is damaged or another one.
fn decode_snapshot(bytes: &[u8], position: ExamplePosition) -> Option<LinearLearner> {
    let bytes = disk::unseal(bytes)?.strip_prefix(SNAPSHOT_MAGIC)?;
    let (head, learner) = bytes.split_first_chunk::<24>()?;
    let [number, sender, own] =
        [0, 8, 16].map(|at| head[at..].first_chunk().map(|part| u64::from_le_bytes(*part)));
    let found = ExamplePosition { number: number?, id: ExampleId { sender: sender?, number: own? } };
    (found == position).then(|| LinearLearner::decode(learner).ok())?
}

impl LinearLearners {
    /// Sends examples that wait, and learns what is in the streams of these learners, which people know by these texts. Blocks. Does nothing while it is done elsewhere.
    ///
    /// # Errors
    /// Says what went wrong with which model. The others are exchanged all the same.
    pub(crate) fn exchange(
        &self,
        streams: &dyn TrainingStreams,
        models: BTreeMap<LearnerName, String>,
    ) -> Result<(), String> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let Some(_alone) = shared.exchanging.try_lock() else { return Ok(()) };
        self.exchange_alone(shared, streams, models)
    }

    /// Exchanges examples once who does so now has ended.
    pub(crate) fn exchange_last(&self, streams: &dyn TrainingStreams) -> Result<(), String> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let _alone = shared.exchanging.lock();
        self.exchange_alone(shared, streams, BTreeMap::new())
    }

    fn exchange_alone(
        &self,
        shared: &SharedModels,
        streams: &dyn TrainingStreams,
        mut models: BTreeMap<LearnerName, String>,
    ) -> Result<(), String> {
        // Also what waits for models that are configured no more.
        for (name, _) in shared.models.lock().iter().filter(|(_, model)| !model.waiting.is_empty()) {
            models.entry(*name).or_insert_with(|| "a model without a classifier".to_owned());
        }
        let mut failed: Vec<String> = Vec::new();
        for (name, model) in models {
            if let Err(why) = self.exchange_one(shared, streams, name) {
                failed.push(format!("the linear model `{model}`: {why}"));
            }
        }
        shared.is_away.store(!failed.is_empty(), Ordering::Relaxed);
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }

    fn exchange_one(
        &self,
        shared: &SharedModels,
        streams: &dyn TrainingStreams,
        name: LearnerName,
    ) -> Result<(), String> {
        for _ in 0..ROUNDS_MAX {
            // First what others have said: a stream that was lost is begun again before anything is put into it.
            let page = streams.after(name.encode(), shared.position(name))?;
            shared.note(name, &page);
            let is_level = self.take_in(shared, streams, name, &page)?;
            let examples = shared.first_waiting(name);
            let Some(first) = examples.first() else {
                if is_level {
                    return self.put_snapshot_if_due(shared, streams, name, &page).map(|_| ());
                }
                continue;
            };
            let receipt = streams.append(name.encode(), shared.position(name).number, &examples)?;
            let is_sent = shared.sent(name, ExampleId { number: receipt.last, ..first.id });
            if receipt.is_full && is_level && !is_sent {
                let is_cut = self.put_snapshot_if_due(shared, streams, name, &page)?;
                if !is_cut {
                    let full = "the stream of its examples is full until a snapshot is written";
                    return Err(full.to_owned());
                }
            }
        }
        Ok(())
    }

    /// Learns a part of a stream; returns true if that is all there is.
    fn take_in(
        &self,
        shared: &SharedModels,
        streams: &dyn TrainingStreams,
        name: LearnerName,
        page: &ExamplePage,
    ) -> Result<bool, String> {
        let mut position = shared.position(name);
        let learner = self.learner(name);
        // Learned before this node shared it with others.
        let is_own = position.number == 0 && learner.learned() != [0, 0];
        if page.head == 0 && page.snapshot.is_none() && (is_own || position.number > 0) {
            return self.begin_stream(shared, streams, name, &learner);
        }
        if is_own || !page.follows {
            let Some(snapshot) = page.snapshot else {
                tracing::warn!(?name, "a linear model is learned anew from the examples that nodes share");
                self.replace(shared, name, Arc::default(), ExamplePosition::default());
                return Ok(page.head == 0);
            };
            let learner = self.load(shared, streams, name, &snapshot)?;
            if position.number > 0 || is_own {
                tracing::warn!(
                    ?name,
                    from = position.number,
                    to = snapshot.position.number,
                    "a linear model is taken over as nodes share it"
                );
            }
            self.replace(shared, name, Arc::new(learner), snapshot.position);
            return Ok(snapshot.position.number == page.head);
        }
        if page.examples.is_empty() && position.number < page.head {
            return Err(format!("example {} is missing in the stream", position.number + 1));
        }
        for example in &page.examples {
            let content = decode(name, example).ok_or_else(|| {
                format!("example {} of the stream cannot be read by this release", position.number + 1)
            })?;
            position = ExamplePosition { number: position.number + 1, id: example.id };
            let _quiet = self.files.as_ref().map(|files| files.log.queue.lock());
            learn_in_turn(&learner, &content);
            shared.set_position(name, position);
            self.is_changed.store(true, Ordering::Relaxed);
        }
        Ok(position.number >= page.head)
    }

    fn load(
        &self,
        shared: &SharedModels,
        streams: &dyn TrainingStreams,
        name: LearnerName,
        snapshot: &ModelSnapshot,
    ) -> Result<LinearLearner, String> {
        let content = streams.snapshot(name.encode(), snapshot)?;
        let learner = content.and_then(|content| decode_snapshot(&content, snapshot.position));
        if shared.should_ask(name, snapshot, learner.is_some()) {
            streams.ask_for_snapshot(name.encode())?;
        }
        learner.ok_or_else(|| {
            format!(
                "its snapshot of example {} is damaged, and is not taken; the next one mends it",
                snapshot.position.number
            )
        })
    }

    fn replace(
        &self,
        shared: &SharedModels,
        name: LearnerName,
        learner: Arc<LinearLearner>,
        position: ExamplePosition,
    ) {
        let _quiet = self.files.as_ref().map(|files| files.log.queue.lock());
        self.learners.write().insert(name, learner);
        shared.set_position(name, position);
        self.is_changed.store(true, Ordering::Relaxed);
    }

    /// Begins a stream that there is none of with what this node knows.
    fn begin_stream(
        &self,
        shared: &SharedModels,
        streams: &dyn TrainingStreams,
        name: LearnerName,
        learner: &LinearLearner,
    ) -> Result<bool, String> {
        let mut position = shared.position(name);
        if position.number == 0 {
            position = ExamplePosition { number: 1, id: shared.next_id() };
        }
        let begun = || "another node begins the stream of its examples".to_owned();
        let lease = streams.lease(name.encode())?.ok_or_else(begun)?;
        let content = encode_snapshot(position, learner);
        let stream = SnapshotStream::Begun { known: 0 };
        if streams.put_snapshot(name.encode(), lease, position, stream, &content)? {
            shared.set_position(name, position);
            self.is_changed.store(true, Ordering::Relaxed);
        }
        Ok(false)
    }

    /// Puts a snapshot in the place of the last if there are many examples behind that, and no other node does it;
    /// returns true if it is put.
    fn put_snapshot_if_due(
        &self,
        shared: &SharedModels,
        streams: &dyn TrainingStreams,
        name: LearnerName,
        page: &ExamplePage,
    ) -> Result<bool, String> {
        let bounds = streams.bounds();
        let position = shared.position(name);
        let behind = position.number - page.snapshot.map_or(0, |of| of.position.number).min(position.number);
        let is_due = behind >= bounds.snapshot_examples
            || (behind > 0 && page.bytes >= bounds.snapshot_bytes)
            || page.is_snapshot_wanted;
        if !is_due {
            return Ok(false);
        }
        let Some(lease) = streams.lease(name.encode())? else { return Ok(false) };
        let content = encode_snapshot(position, &self.learner(name));
        let kept = if page.bytes >= bounds.snapshot_bytes { 0 } else { bounds.kept };
        let stream = SnapshotStream::Continued { kept };
        streams.put_snapshot(name.encode(), lease, position, stream, &content)
    }

    /// Puts a learner in the place of the one that nodes share: streams begin anew with it.
    pub(super) fn publish(
        &self,
        shared: &SharedModels,
        streams: &dyn TrainingStreams,
        name: LearnerName,
        learner: Arc<LinearLearner>,
    ) -> Result<(), String> {
        let _alone = shared.exchanging.lock();
        self.exchange_one(shared, streams, name)?;
        let known = streams.after(name.encode(), shared.position(name))?.head;
        let position = ExamplePosition { number: known + 1, id: shared.next_id() };
        let busy = || "another node writes a snapshot of the model: try again in a minute".to_owned();
        let lease = streams.lease(name.encode())?.ok_or_else(busy)?;
        let content = encode_snapshot(position, &learner);
        let stream = SnapshotStream::Begun { known };
        if !streams.put_snapshot(name.encode(), lease, position, stream, &content)? {
            return Err("other nodes have taught the model meanwhile: try again".to_owned());
        }
        self.replace(shared, name, learner, position);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use judge::FeatureBuilder;
    use plan::{LinearView, TrainingLabel};
    use proptest::prelude::*;

    use super::*;

    const NAME: LearnerName = LearnerName { space: 3, classifier: 9, view: LinearView::Content };

    fn example(event: u64, text: &str, before: TrainingLabel, now: TrainingLabel) -> TrainingExample {
        let mut builder = FeatureBuilder::default();
        builder.add_runs(1, text);
        let id = ExampleId { sender: 5, number: event };
        TrainingExample { learner: NAME, id, event, before, now, features: builder.finish() }
    }

    /// An event is held as its last example says, and once, whatever that says of the time before.
    #[test]
    fn the_last_example_of_an_event_stands_once() {
        use TrainingLabel::{Bad, Forget, Good};
        let learner = LinearLearner::default();
        let held = || [ExampleLabel::Good, ExampleLabel::Bad].map(|label| learner.holds(1, label));
        for (before, now, expected, counted) in [
            (Forget, Bad, [false, true], [0, 1]),
            (Forget, Bad, [false, true], [0, 1]),
            (Forget, Good, [true, false], [1, 0]),
            (Bad, Good, [true, false], [1, 0]),
            (Good, Bad, [false, true], [0, 1]),
            (Good, Forget, [false, false], [0, 0]),
            (Bad, Good, [true, false], [1, 0]),
        ] {
            learn_in_turn(&learner, &example(1, "a text of some length", before, now));
            assert_eq!((held(), learner.learned()), (expected, counted), "{before:?} {now:?}");
        }
    }

    #[test]
    fn a_snapshot_is_read_as_it_was_written_and_at_its_place_only() {
        let learner = LinearLearner::default();
        for event in 0..20 {
            let label = if event % 2 == 0 { TrainingLabel::Bad } else { TrainingLabel::Good };
            learn_in_turn(
                &learner,
                &example(event, &format!("{event} of them"), TrainingLabel::Forget, label),
            );
        }
        let position = ExamplePosition { number: 20, id: ExampleId { sender: 5, number: 19 } };
        let bytes = encode_snapshot(position, &learner);
        assert!(decode_snapshot(&bytes, position).is_some_and(|read| read == learner));
        assert!(decode_snapshot(&bytes, ExamplePosition { number: 21, ..position }).is_none());
        assert!(
            decode_snapshot(&bytes, ExamplePosition { number: 20, ..ExamplePosition::default() }).is_none()
        );
        for at in [0, 8, 20, 40, 4 << 20, bytes.len() - 20, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            assert!(decode_snapshot(&changed, position).is_none(), "{at}");
            assert!(decode_snapshot(&bytes[..at], position).is_none(), "{at}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_an_example_of_a_stream_or_none(bytes in prop::collection::vec(any::<u8>(), 0..64), is_form: bool) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut().filter(|_| is_form) {
                *first = EXAMPLE_FORM;
            }
            let id = ExampleId { sender: 1, number: 2 };
            if let Some(example) = decode(NAME, &SharedExample { id, bytes: bytes.clone() }) {
                let again = SharedExample { id, bytes: encode(&example) };
                prop_assert_eq!(decode(NAME, &again), Some(example));
            }
            prop_assert!(decode_snapshot(&bytes, ExamplePosition::default()).is_none());
        }
    }
}

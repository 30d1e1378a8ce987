//! The log of training examples since the learners were last written.
//!
//! ```text
//! example ─► queue, in the order of learning ─► learners.N.log, before it is answered
//!                                                 └─ N: the learners as they were written for the Nth time
//! ```
//!
//! A log belongs to the learners that it follows. So a crash while these are written, before or after the new file is in
//! place, applies no example twice and leaves none out.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use disk::Device;
use disk::log::{FrameFormat, RollingLog, RollingLogFormat};
use judge::FeatureSet;
use parking_lot::Mutex;
use plan::TrainingLabel;

use super::LearnerName;
use super::training_streams::ExampleId;

/// Most bytes of an example: its head, and varints of three bytes.
const EXAMPLE_BYTES_MAX: u32 = 32 << 10;
static FORMAT: RollingLogFormat = RollingLogFormat {
    name: "learners",
    frame: FrameFormat {
        mark: *b"thls",
        is_plausible: |head| head.length <= EXAMPLE_BYTES_MAX,
        window: 256 << 10,
    },
};
/// Bytes of a log after which the learners are written anew at the next round of housekeeping: replaying them takes seconds.
pub(super) const LOG_BYTES_MAX: u64 = 64 << 20;
/// Bytes of a log after which whoever learns writes the learners.
pub(super) const LOG_BYTES_MOST: u64 = 4 * LOG_BYTES_MAX;

/// The change of what an event teaches a learner.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TrainingExample {
    pub(super) learner: LearnerName,
    /// The identity of an example that is shared with other nodes; all zero for one of this node alone.
    pub(super) id: ExampleId,
    pub(super) event: u64,
    pub(super) before: TrainingLabel,
    pub(super) now: TrainingLabel,
    pub(super) features: FeatureSet,
}

/// Examples that are not written, and the length of the log with them.
#[derive(Debug, Default)]
pub(super) struct ExampleQueue {
    pending: Vec<u8>,
    at: u64,
}

/// The log of a data directory.
#[derive(Debug)]
pub(super) struct TrainingLog {
    device: Arc<dyn Device>,
    /// Held while something is learned, so that examples are logged in the order in which they were learned.
    pub(super) queue: Mutex<ExampleQueue>,
    /// Held while the file is written, never while something is learned.
    file: Mutex<RollingLog>,
}

impl TrainingExample {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.learner.encode());
        bytes.extend_from_slice(&self.id.sender.to_le_bytes());
        bytes.extend_from_slice(&self.id.number.to_le_bytes());
        self.encode_content(bytes);
    }

    fn decode(bytes: &[u8]) -> Option<TrainingExample> {
        let (learner, rest) = bytes.split_first_chunk::<{ LearnerName::BYTES }>()?;
        let (sender, rest) = rest.split_first_chunk()?;
        let (number, content) = rest.split_first_chunk()?;
        let id = ExampleId { sender: u64::from_le_bytes(*sender), number: u64::from_le_bytes(*number) };
        TrainingExample::decode_content(LearnerName::decode(*learner)?, id, content)
    }

    /// Adds the bytes of all but its learner and identity.
    pub(super) fn encode_content(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.event.to_le_bytes());
        bytes.extend_from_slice(&[label_byte(self.before), label_byte(self.now)]);
        self.features.encode(bytes);
    }

    /// Reads what [`TrainingExample::encode_content`] has written.
    pub(super) fn decode_content(
        learner: LearnerName,
        id: ExampleId,
        bytes: &[u8],
    ) -> Option<TrainingExample> {
        let (head, features) = bytes.split_first_chunk::<10>()?;
        let [event @ .., before, now] = *head;
        Some(TrainingExample {
            learner,
            id,
            event: u64::from_le_bytes(event),
            before: label_of(before)?,
            now: label_of(now)?,
            features: FeatureSet::decode(features).ok()?,
        })
    }
}

fn label_byte(label: TrainingLabel) -> u8 {
    match label {
        TrainingLabel::Forget => 0,
        TrainingLabel::Good => 1,
        TrainingLabel::Bad => 2,
    }
}

fn label_of(byte: u8) -> Option<TrainingLabel> {
    [TrainingLabel::Forget, TrainingLabel::Good, TrainingLabel::Bad].get(usize::from(byte)).copied()
}

impl ExampleQueue {
    /// Puts an example behind the others.
    pub(super) fn push(&mut self, example: &TrainingExample) {
        let mut content = Vec::with_capacity(64 + 2 * example.features.len());
        example.encode(&mut content);
        let before = self.pending.len();
        FORMAT.frame(self.at, &content, &mut self.pending);
        self.at += (self.pending.len() - before) as u64;
    }
}

impl TrainingLog {
    /// The log behind the learners that were written so many times, and behind the logs that are there already.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn new(device: Arc<dyn Device>, number: u64) -> io::Result<TrainingLog> {
        let last = FORMAT.numbers(&*device)?.last().copied();
        let log = RollingLog::new(&FORMAT, number.max(last.map_or(0, |last| last + 1)));
        Ok(TrainingLog { device, queue: Mutex::default(), file: Mutex::new(log) })
    }

    /// Writes what was learned by now. Not synced: it outlives the process, and the system writes it within seconds.
    ///
    /// # Errors
    /// If it cannot be written. Examples are then not logged until the learners are written.
    pub(super) fn write(&self) -> io::Result<()> {
        let mut log = self.file.lock();
        let pending = std::mem::take(&mut self.queue.lock().pending);
        self.append(&mut log, &pending)
    }

    /// The bytes of the log.
    pub(super) fn bytes(&self) -> u64 {
        self.queue.lock().at
    }

    /// Begins the log of learners that are about to be written, as `encode` gives them while nothing is learned; answers their
    /// number and these. `encode` puts examples that are still needed into the new log.
    pub(super) fn turn(&self, encode: impl FnOnce(&mut ExampleQueue) -> Vec<u8>) -> (u64, Vec<u8>) {
        let mut log = self.file.lock();
        let (pending, learners) = {
            let mut queue = self.queue.lock();
            (std::mem::take(&mut *queue).pending, encode(&mut queue))
        };
        // If the learners cannot be written these still stand behind the old ones.
        if let Err(error) = self.append(&mut log, &pending) {
            tracing::warn!(%error, "the last training examples of linear models are not logged, and are in the next copy of these alone");
        }
        (log.turn(), learners)
    }

    /// Writes frames. Of a log that is behind the failure is known: it ends there, until the learners are written.
    fn append(&self, log: &mut RollingLog, pending: &[u8]) -> io::Result<()> {
        if log.is_behind() { Ok(()) } else { log.append(&*self.device, pending) }
    }

    /// Removes the logs of learners that were written fewer times: these have their examples.
    pub(super) fn forget_before(&self, number: u64) -> io::Result<()> {
        FORMAT.forget_before(&*self.device, number)
    }
}

/// The examples behind the learners that were written so many times.
#[derive(Debug, Default)]
pub(super) struct StoredExamples {
    pub(super) examples: Vec<TrainingExample>,
    /// Logs with examples that cannot be read, and how much that is. The others stand.
    pub(super) damaged: Vec<(PathBuf, String)>,
}

/// Reads the logs behind the learners that were written so many times.
pub(super) fn read(device: &dyn Device, number: u64) -> io::Result<StoredExamples> {
    let mut stored = StoredExamples::default();
    for number in FORMAT.numbers(device)?.into_iter().filter(|other| *other >= number) {
        let name = FORMAT.file_name(number);
        let lost = FORMAT.read(device.open(&name)?, 0, |content| {
            let example = TrainingExample::decode(content);
            let is_known = example.is_some();
            stored.examples.extend(example);
            is_known
        })?;
        if lost > 0 {
            let why = format!(
                "{lost} bytes of training examples are damaged; classifiers lack these until they are taught again"
            );
            stored.damaged.push((device.path(&name), why));
        }
    }
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use disk::MemoryDevice;
    use judge::FeatureBuilder;
    use plan::LinearView;
    use proptest::prelude::*;

    use super::*;

    fn example(event: u64, text: &str) -> TrainingExample {
        let mut builder = FeatureBuilder::default();
        builder.add_runs(1, text);
        let (before, now) = (TrainingLabel::Good, TrainingLabel::Bad);
        let learner = LearnerName { space: 7, classifier: 40, view: LinearView::Site };
        let id = ExampleId { sender: event ^ 9, number: event };
        TrainingExample { learner, id, event, before, now, features: builder.finish() }
    }

    fn log(device: &MemoryDevice, number: u64) -> TrainingLog {
        TrainingLog::new(Arc::new(device.clone()), number).unwrap()
    }

    fn written(examples: &[TrainingExample]) -> MemoryDevice {
        let device = MemoryDevice::new();
        let log = log(&device, 3);
        for example in examples {
            log.queue.lock().push(example);
            log.write().unwrap();
        }
        device
    }

    #[test]
    fn examples_are_read_in_order_behind_their_learners() {
        let device = MemoryDevice::new();
        let examples = [example(1, "cheap pills"), example(2, ""), example(u64::MAX, "meeting notes")];
        let log = log(&device, 3);
        log.queue.lock().push(&examples[0]);
        log.write().unwrap();
        log.queue.lock().push(&examples[1]);
        assert!(log.bytes() > 0);
        let turned = log.turn(|_| vec![9]);
        assert_eq!((turned, log.bytes()), ((4, vec![9]), 0));
        log.queue.lock().push(&examples[2]);
        log.write().unwrap();
        let read = |number| read(&device, number).unwrap();
        assert_eq!(read(3).examples, examples, "learners that are not in place yet");
        assert_eq!(read(4).examples, examples[2..]);
        assert_eq!((FORMAT.numbers(&device).unwrap(), read(5).examples.len()), (vec![3, 4], 0));
        log.forget_before(4).unwrap();
        assert_eq!(read(0).examples, examples[2..]);
        assert!(read(0).damaged.is_empty());
    }

    /// Whoever opens a directory writes no log that is there.
    #[test]
    fn a_log_that_is_there_stays_as_it_is() {
        let examples = [example(1, "cheap pills"), example(2, "meeting notes")];
        let device = written(&examples[..1]);
        let log = log(&device, 2);
        log.queue.lock().push(&examples[1]);
        log.write().unwrap();
        assert_eq!(FORMAT.numbers(&device).unwrap(), [3, 4]);
        assert_eq!(read(&device, 3).unwrap().examples, examples);
    }

    /// A write that fails ends the log; the learners that are written then have it all.
    #[test]
    fn a_log_that_cannot_be_written_ends_there() {
        let device = written(&[]);
        let log = log(&device, 3);
        let examples =
            [example(1, "cheap pills"), example(2, "lost"), example(3, "lost"), example(4, "notes")];
        log.queue.lock().push(&examples[0]);
        log.write().unwrap();
        device.fail_after(0);
        log.queue.lock().push(&examples[1]);
        log.write().unwrap_err();
        device.heal();
        log.queue.lock().push(&examples[2]);
        log.write().unwrap();
        assert_eq!(read(&device, 3).unwrap().examples, examples[..1], "nothing behind what is missing");
        assert_eq!(log.turn(|_| Vec::new()).0, 4);
        log.queue.lock().push(&examples[3]);
        log.write().unwrap();
        assert_eq!(read(&device, 4).unwrap().examples, examples[3..]);
        assert!(read(&device, 0).unwrap().damaged.is_empty(), "a torn end is no damage");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// A byte that is changed costs at most the example that it is in, and is told.
        #[test]
        fn a_damaged_example_is_told_and_the_others_stand(at in any::<prop::sample::Index>(), mask in 1u8..) {
            let examples: Vec<TrainingExample> =
                (0..5).map(|number| example(number, &"lorem ipsum dolor ".repeat(number as usize))).collect();
            let device = written(&examples);
            let blob = device.open(&FORMAT.file_name(3)).unwrap();
            let place = at.index(blob.size().unwrap() as usize) as u64;
            let mut byte = [0];
            blob.read_at(place, &mut byte).unwrap();
            blob.overwrite(place, &[byte[0] ^ mask]).unwrap();
            let found = read(&device, 3).unwrap();
            prop_assert_eq!(found.examples.len(), 4);
            prop_assert!(found.examples.iter().all(|example| examples.contains(example)));
            prop_assert_eq!(found.damaged.len(), 1);
        }

        #[test]
        fn any_bytes_are_an_example_or_none(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(example) = TrainingExample::decode(&bytes) {
                let mut again = Vec::new();
                example.encode(&mut again);
                prop_assert_eq!(TrainingExample::decode(&again), Some(example));
            }
        }
    }
}

//! The log of training examples since the learners were last written.
//!
//! ```text
//! example ─► queue, in the order of learning ─► learners.N.log, before it is answered
//!                                                 └─ N: the learners as they were written for the Nth time
//! ```
//!
//! A log belongs to the learners that it follows. So a crash while these are written, before or after the new file is in
//! place, applies no example twice and leaves none out.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use disk::log::{FrameDamage, FrameFormat, FrameHead, FramePiece, FrameReader};
use disk::{Device, FileDevice};
use judge::FeatureSet;
use parking_lot::Mutex;
use plan::TrainingLabel;

use super::LearnerName;
use super::training_streams::ExampleId;

/// The bytes that begin each example's frame.
const MARK: [u8; 4] = *b"thls";
/// Most bytes of an example: its head, and varints of three bytes.
const EXAMPLE_BYTES_MAX: u32 = 32 << 10;
const FORMAT: FrameFormat<0> =
    FrameFormat { mark: MARK, is_plausible: |head| head.length <= EXAMPLE_BYTES_MAX, window: 256 << 10 };
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

/// The log that is written.
#[derive(Debug)]
struct TrainingLogFile {
    /// The number of the learners that it follows.
    number: u64,
    /// Made when the first example comes.
    file: Option<File>,
    /// True if the log could not be written: it ends there, until the learners are written.
    is_cut: bool,
}

/// The log of a data directory.
#[derive(Debug)]
pub(super) struct TrainingLog {
    directory: PathBuf,
    /// Held while something is learned, so that examples are logged in the order in which they were learned.
    pub(super) queue: Mutex<ExampleQueue>,
    /// Held while the file is written, never while something is learned.
    file: Mutex<TrainingLogFile>,
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
        let head = FrameHead::<0>::of(self.at, [], &content);
        self.at = head.end();
        self.pending.extend_from_slice(&head.write(MARK));
        self.pending.extend_from_slice(&content);
    }
}

impl TrainingLog {
    /// The log behind the learners that were written so many times, and behind the logs that are there already.
    pub(super) fn new(directory: &Path, number: u64) -> TrainingLog {
        TrainingLog {
            directory: directory.to_owned(),
            queue: Mutex::default(),
            file: Mutex::new(TrainingLogFile { number, file: None, is_cut: false }),
        }
    }

    /// Writes what was learned by now. Not synced: it outlives the process, and the system writes it within seconds.
    ///
    /// # Errors
    /// If it cannot be written. Examples are then not logged until the learners are written.
    pub(super) fn write(&self) -> io::Result<()> {
        let mut log = self.file.lock();
        let pending = std::mem::take(&mut self.queue.lock().pending);
        log.append(&self.directory, &pending)
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
        if let Err(error) = log.append(&self.directory, &pending) {
            tracing::warn!(%error, "the last training examples of linear models are not logged, and are in the next copy of these alone");
        }
        *log = TrainingLogFile { number: log.number + 1, file: None, is_cut: false };
        (log.number, learners)
    }
}

impl TrainingLogFile {
    fn append(&mut self, directory: &Path, pending: &[u8]) -> io::Result<()> {
        if pending.is_empty() || self.is_cut {
            return Ok(());
        }
        let file = match self.file.take() {
            None => disk::create(&path(directory, self.number)),
            Some(file) => Ok(file),
        };
        let written = file.and_then(|mut file| {
            file.write_all(pending)?;
            Ok(file)
        });
        self.is_cut = written.is_err();
        self.file = Some(written?);
        Ok(())
    }
}

/// The name of the log behind the learners that were written so many times.
fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("learners.{number}.log"))
}

/// The numbers of the logs of a directory, ascending.
fn numbers(directory: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("learners.")?.strip_suffix(".log"));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The number of the last log of a directory.
pub(super) fn last(directory: &Path) -> io::Result<Option<u64>> {
    Ok(numbers(directory)?.last().copied())
}

/// Removes the logs of learners that were written fewer times: these have their examples.
pub(super) fn forget_before(directory: &Path, number: u64) -> io::Result<()> {
    for old in numbers(directory)?.into_iter().filter(|old| *old < number) {
        fs::remove_file(path(directory, old))?;
    }
    Ok(())
}

/// The examples behind the learners that were written so many times.
#[derive(Debug, Default)]
pub(super) struct StoredExamples {
    pub(super) examples: Vec<TrainingExample>,
    /// Logs with examples that cannot be read, and how much that is. The others stand.
    pub(super) damaged: Vec<(PathBuf, String)>,
}

/// Reads the logs behind the learners that were written so many times.
pub(super) fn read(directory: &Path, number: u64) -> io::Result<StoredExamples> {
    let mut stored = StoredExamples::default();
    let device = FileDevice::read_only(directory);
    for number in numbers(directory)?.into_iter().filter(|other| *other >= number) {
        let path = path(directory, number);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let blob = device.open(&name)?;
        let length = blob.size()?;
        let mut frames = FrameReader::new(blob, 0, length, &FORMAT);
        let mut lost = 0;
        while let Some(piece) = frames.next_frame()? {
            match piece {
                FramePiece::Sound((head, content)) => match TrainingExample::decode(&content) {
                    Some(example) => stored.examples.push(example),
                    None => lost += head.end() - head.at,
                },
                FramePiece::Damaged(damage) if damage.is_torn() => {}
                FramePiece::Damaged(FrameDamage { from, to, .. }) => lost += to - from,
            }
        }
        if lost > 0 {
            let why = format!(
                "{lost} bytes of training examples are damaged; classifiers lack these until they are taught again"
            );
            stored.damaged.push((path, why));
        }
    }
    Ok(stored)
}

#[cfg(test)]
mod tests {
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

    fn log(directory: &Path, examples: &[TrainingExample]) {
        let log = TrainingLog::new(directory, 3);
        for example in examples {
            log.queue.lock().push(example);
            log.write().unwrap();
        }
    }

    #[test]
    fn examples_are_read_in_order_behind_their_learners() {
        let directory = tempfile::tempdir().unwrap();
        let examples = [example(1, "cheap pills"), example(2, ""), example(u64::MAX, "meeting notes")];
        let log = TrainingLog::new(directory.path(), 3);
        log.queue.lock().push(&examples[0]);
        log.write().unwrap();
        log.queue.lock().push(&examples[1]);
        assert!(log.bytes() > 0);
        let turned = log.turn(|_| vec![9]);
        assert_eq!((turned, log.bytes()), ((4, vec![9]), 0));
        log.queue.lock().push(&examples[2]);
        log.write().unwrap();
        let read = |number| read(directory.path(), number).unwrap();
        assert_eq!(read(3).examples, examples, "learners that are not in place yet");
        assert_eq!(read(4).examples, examples[2..]);
        assert_eq!((last(directory.path()).unwrap(), read(5).examples.len()), (Some(4), 0));
        forget_before(directory.path(), 4).unwrap();
        assert_eq!(read(0).examples, examples[2..]);
        assert!(read(0).damaged.is_empty());
    }

    /// A log that is cut off anywhere is one of a killed process: it has the examples before, and is no damage.
    #[test]
    fn a_log_that_is_cut_off_has_what_was_whole() {
        let directory = tempfile::tempdir().unwrap();
        let examples = [example(1, "cheap pills and more"), example(2, "notes of a meeting")];
        log(directory.path(), &examples);
        let path = path(directory.path(), 3);
        let whole = fs::read(&path).unwrap();
        for length in 0..=whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let found = read(directory.path(), 3).unwrap();
            assert!(examples.starts_with(&found.examples), "{length}");
            assert!(found.damaged.is_empty(), "{length}: {:?}", found.damaged);
            assert_eq!(found.examples.len() == 2, length == whole.len(), "{length}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// A byte that is changed costs at most the example that it is in, and is told.
        #[test]
        fn a_damaged_example_is_told_and_the_others_stand(at in any::<prop::sample::Index>(), mask in 1u8..) {
            let directory = tempfile::tempdir().unwrap();
            let examples: Vec<TrainingExample> =
                (0..5).map(|number| example(number, &"lorem ipsum dolor ".repeat(number as usize))).collect();
            log(directory.path(), &examples);
            let path = path(directory.path(), 3);
            let mut bytes = fs::read(&path).unwrap();
            let place = at.index(bytes.len());
            bytes[place] ^= mask;
            fs::write(&path, bytes).unwrap();
            let found = read(directory.path(), 3).unwrap();
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

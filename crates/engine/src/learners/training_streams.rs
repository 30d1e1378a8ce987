//! The place where nodes share what linear models learn, as far as the engine knows of it.

/// The name of a linear model that nodes share, as bytes.
pub type SharedModelName = [u8; 5];

/// The identity of an example among those of all nodes and times: its sender's number, and its number there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExampleId {
    /// A number of the process that has sent it, drawn by lot.
    pub sender: u64,
    /// A number that is greater than those of the same sender before.
    pub number: u64,
}

/// A place in a stream of examples: all up to it are learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExamplePosition {
    /// The number of the example in the stream, from 1; 0 before the first.
    pub number: u64,
    /// The identity of the example, which tells where another one has its number by now.
    pub id: ExampleId,
}

/// An example on its way to other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedExample {
    /// Its identity.
    pub id: ExampleId,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The answer to examples that were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExampleReceipt {
    /// The greatest number of the sender in the stream, now or before: an example that comes twice is there once.
    pub last: u64,
    /// True if the stream has no room until a snapshot lets it be cut.
    pub is_full: bool,
    /// True if the stream is shorter than its sender knew it: nothing was taken.
    pub is_behind: bool,
}

/// The snapshot of a model that nodes share, without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelSnapshot {
    /// The last example that is in it.
    pub position: ExamplePosition,
    /// The lease under which it was written.
    pub lease: u64,
    /// The number of its pieces.
    pub pieces: u32,
}

/// A part of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExamplePage {
    /// The number of the last example.
    pub head: u64,
    /// The bytes of all examples that are kept.
    pub bytes: u64,
    /// The last snapshot.
    pub snapshot: Option<ModelSnapshot>,
    /// True if a node has found the last snapshot damaged.
    pub is_snapshot_wanted: bool,
    /// True if the place that was asked for is one of this stream, and nothing behind it was cut off.
    pub follows: bool,
    /// Examples behind the place, in order; not always all of them.
    pub examples: Vec<SharedExample>,
}

/// The stream that a snapshot belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotStream {
    /// A stream that goes on. So many examples stay in it before the snapshot.
    Continued {
        /// The number of examples.
        kept: u64,
    },
    /// A stream that begins with the snapshot, if the one that is there ends with this number.
    Begun {
        /// The number of the last example that is known.
        known: u64,
    },
}

/// Bounds of what nodes share of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainingBounds {
    /// Examples behind a snapshot after which the next is due.
    pub snapshot_examples: u64,
    /// Bytes of a stream from which a snapshot is due if there is any example behind the last.
    pub snapshot_bytes: u64,
    /// Examples that stay before a snapshot, for nodes that are a little behind.
    pub kept: u64,
}

impl TrainingBounds {
    /// The bounds that nodes have unless the streams say otherwise.
    pub const DEFAULT: TrainingBounds =
        TrainingBounds { snapshot_examples: 2_000, snapshot_bytes: 16 << 20, kept: 500 };
}

/// The place where nodes share what linear models learn: for each model a stream of examples, and a snapshot of the model that has
/// the first of them.
pub trait TrainingStreams: Send + Sync {
    /// Puts examples of one sender behind the others, but for those that are there. `known` is the length of the stream as the
    /// sender knows it. Blocks.
    ///
    /// # Errors
    /// Says why the streams cannot be asked: then the examples may be there all the same.
    fn append(
        &self,
        model: SharedModelName,
        known: u64,
        examples: &[SharedExample],
    ) -> Result<ExampleReceipt, String>;

    /// Returns what is behind a place. Blocks.
    ///
    /// # Errors
    /// Says why the streams cannot be asked.
    fn after(&self, model: SharedModelName, position: ExamplePosition) -> Result<ExamplePage, String>;

    /// Returns the content of a snapshot; `None` if a part of it is not there, or not any more. Blocks.
    ///
    /// # Errors
    /// Says why the streams cannot be asked.
    fn snapshot(&self, model: SharedModelName, of: &ModelSnapshot) -> Result<Option<Vec<u8>>, String>;

    /// Asks whichever node is level for another snapshot, as the last one is damaged. Blocks.
    ///
    /// # Errors
    /// Says why the streams cannot be asked.
    fn ask_for_snapshot(&self, model: SharedModelName) -> Result<(), String>;

    /// Takes the lease to write a snapshot of a model, which ends by itself after a while; `None` if another node has it. Blocks.
    ///
    /// # Errors
    /// Says why the streams cannot be asked.
    fn lease(&self, model: SharedModelName) -> Result<Option<u64>, String>;

    /// Puts a snapshot in the place of the last, cuts off examples that nobody needs, and gives back the lease. Returns false if the
    /// lease has ended, or the stream is another one by now. Blocks.
    ///
    /// # Errors
    /// Says why the streams cannot be asked.
    fn put_snapshot(
        &self,
        model: SharedModelName,
        lease: u64,
        position: ExamplePosition,
        stream: SnapshotStream,
        content: &[u8],
    ) -> Result<bool, String>;

    /// The bounds of what is shared.
    fn bounds(&self) -> TrainingBounds {
        TrainingBounds::DEFAULT
    }
}

//! Training examples of linear models that all nodes share, and snapshots of these models.
//!
//! ```text
//! #l model          the stream, a hash: head, base, bytes, origin, snapshot, wanted; and a number ─► identity (16 bytes) and example
//! #l model n        sender ─► its greatest number that was taken, and the head then
//! #l model l        the lease of who writes a snapshot: a number drawn by lot, which ends by itself
//! #l model s        lease and number of a piece ─► the piece of the snapshot that was written under this lease
//! ```
//!
//! Examples `base + 1` to `head` are there; `origin` is the identity of example `base`. All of a model lies in one slot, so that scripts put
//! an example into the stream and note its sender at once, and put a snapshot in place, cut the stream and give back the lease at once. A
//! piece is only ever removed by who has the lease. Only hashes and strings are used, as all engines have them.

use redis::{Cmd, Value, cmd};
use tokio::time::Instant;

use super::generation::AT;
use super::script::LuaScript;
use super::server_link::ConnectionClass;
use super::{WireClient, WireCore, number, only, unexpected};
use crate::remote::RemoteError;

/// Most examples and bytes of a stream.
const STREAM_EXAMPLES_MAX: u64 = 20_000;
const STREAM_BYTES_MAX: u64 = 64 << 20;
/// Most senders that are remembered.
const SENDERS_MAX: usize = 1_024;
/// Most examples and bytes of an answer.
const PAGE_EXAMPLES_MAX: usize = 256;
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Bytes of a piece of a snapshot, and most pieces: a model with all its examples takes 53 MB at the most.
const PIECE_BYTES: usize = 512 << 10;
const PIECES_MAX: u32 = 128;
/// Most examples that one call cuts off, and most such calls.
const CUT_MAX: usize = 1_000;
const CUTS_MAX: usize = 64;
/// Bytes of an identity.
const ID_BYTES: usize = 16;

/// A place in a stream: a number, and the identity of the example there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamPosition {
    /// The number of the example.
    pub number: u64,
    /// The sender of the example, and its number there.
    pub id: [u64; 2],
}

/// An example: the number of its sender's, and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamExample {
    /// The sender, and the example's number there.
    pub id: [u64; 2],
    /// The content.
    pub content: Vec<u8>,
}

/// The answer to examples that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamReceipt {
    /// The greatest number of the sender that was ever taken.
    pub last: u64,
    /// True if there was no room for more.
    pub is_full: bool,
    /// True if the stream is shorter than its sender knew it: nothing was taken.
    pub is_behind: bool,
}

/// A snapshot, without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotDescription {
    /// The last example that is in it.
    pub position: StreamPosition,
    /// The lease under which it was written.
    pub lease: u64,
    /// The number of its pieces.
    pub pieces: u32,
}

/// A part of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPage {
    /// The number of the last example.
    pub head: u64,
    /// The bytes of all examples.
    pub bytes: u64,
    /// The last snapshot.
    pub snapshot: Option<SnapshotDescription>,
    /// True if somebody has asked for another snapshot.
    pub is_snapshot_wanted: bool,
    /// True if the place that was asked for is one of this stream.
    pub follows: bool,
    /// Examples behind it.
    pub examples: Vec<StreamExample>,
}

/// The stream of a snapshot: one that goes on with so many examples before it, or one that begins with it in the place of one with so
/// many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamRange {
    /// The number of examples that stay.
    Kept(u64),
    /// The number of examples that are known.
    Instead(u64),
}

impl SnapshotDescription {
    /// The text in the stream.
    fn text(&self) -> String {
        let SnapshotDescription {
            position: StreamPosition { number, id: [sender, of_sender] },
            lease,
            pieces,
        } = self;
        format!("{number} {sender} {of_sender} {lease:016x} {pieces}")
    }

    fn parse(text: &str) -> Option<SnapshotDescription> {
        let mut words = text.split(' ');
        let mut word = || words.next();
        let description = SnapshotDescription {
            position: StreamPosition {
                number: word()?.parse().ok()?,
                id: [word()?.parse().ok()?, word()?.parse().ok()?],
            },
            lease: u64::from_str_radix(word()?, 16).ok()?,
            pieces: word()?.parse().ok()?,
        };
        (word().is_none() && description.pieces <= PIECES_MAX).then_some(description)
    }
}

fn id_bytes([sender, of_sender]: [u64; 2]) -> [u8; ID_BYTES] {
    let mut bytes = [0; ID_BYTES];
    bytes[..8].copy_from_slice(&sender.to_be_bytes());
    bytes[8..].copy_from_slice(&of_sender.to_be_bytes());
    bytes
}

/// The example that an entry of a stream is.
fn example(entry: &[u8]) -> Option<StreamExample> {
    let (sender, rest) = entry.split_first_chunk()?;
    let (of_sender, content) = rest.split_first_chunk()?;
    let id = [u64::from_be_bytes(*sender), u64::from_be_bytes(*of_sender)];
    Some(StreamExample { id, content: content.to_vec() })
}

/// The part of a stream that the script has answered.
fn page(value: &Value) -> Option<StreamPage> {
    let Value::Array(parts) = value else { return None };
    let [head, bytes, Value::BulkString(snapshot), Value::Int(wanted), Value::Int(follows), examples @ ..] =
        parts.as_slice()
    else {
        return None;
    };
    let snapshot = match snapshot.as_slice() {
        [] => None,
        text => Some(SnapshotDescription::parse(std::str::from_utf8(text).ok()?)?),
    };
    let read = |entry: &Value| match entry {
        Value::BulkString(entry) => example(entry),
        _ => None,
    };
    Some(StreamPage {
        head: number(head)?,
        bytes: number(bytes)?,
        snapshot,
        is_snapshot_wanted: *wanted == 1,
        follows: *follows == 1,
        examples: examples.iter().map(read).collect::<Option<_>>()?,
    })
}

impl WireClient {
    /// Puts examples of one sender behind those of a model, but for those that are there; `known` is the length of the stream as it is
    /// known.
    ///
    /// # Errors
    /// [`RemoteError`] if the cluster cannot be asked: then they may be there all the same.
    pub async fn append_examples(
        &self,
        model: [u8; 5],
        known: u64,
        examples: Vec<StreamExample>,
    ) -> Result<StreamReceipt, RemoteError> {
        let inner = self.inner.clone();
        only(
            self.on_runtime(1, async move { vec![inner.append_examples(model, known, &examples).await] })
                .await,
        )
    }

    /// Returns examples of a model behind a place.
    ///
    /// # Errors
    /// [`RemoteError`] if the cluster cannot be asked, and where the stream is none.
    pub async fn examples_after(
        &self,
        model: [u8; 5],
        position: StreamPosition,
    ) -> Result<StreamPage, RemoteError> {
        let inner = self.inner.clone();
        only(self.on_runtime(1, async move { vec![inner.examples_after(model, position).await] }).await)
    }

    /// Returns a snapshot; `None` if a piece of it is missing, as where there is another one by now.
    ///
    /// # Errors
    /// [`RemoteError`] if the cluster cannot be asked.
    pub async fn model_snapshot(
        &self,
        model: [u8; 5],
        of: SnapshotDescription,
    ) -> Result<Option<Vec<u8>>, RemoteError> {
        let inner = self.inner.clone();
        only(self.on_runtime(1, async move { vec![inner.model_snapshot(model, &of).await] }).await)
    }

    /// Asks whoever can for another snapshot.
    ///
    /// # Errors
    /// [`RemoteError`] if the cluster cannot be asked.
    pub async fn ask_for_model_snapshot(&self, model: [u8; 5]) -> Result<(), RemoteError> {
        let inner = self.inner.clone();
        let call = async move {
            let mut set = cmd("HSET");
            set.arg(inner.names.examples(model)).arg("wanted").arg(1);
            let asked = inner.one(ConnectionClass::Writes, set, inner.example_deadline()).await;
            vec![asked.map(|_| ())]
        };
        only(self.on_runtime(1, call).await)
    }

    /// Takes the lease to write a snapshot of a model for a while; `None` if somebody has it.
    ///
    /// # Errors
    /// [`RemoteError`] if the cluster cannot be asked.
    pub async fn lease_model(
        &self,
        model: [u8; 5],
        span: std::time::Duration,
    ) -> Result<Option<u64>, RemoteError> {
        let inner = self.inner.clone();
        only(self.on_runtime(1, async move { vec![inner.lease_model(model, span).await] }).await)
    }

    /// Puts a snapshot in the place of the last and gives back the lease; returns false if the lease has ended, or the stream is
    /// another one.
    ///
    /// # Errors
    /// [`RemoteError`] if the cluster cannot be asked, and if the snapshot is too large.
    pub async fn put_model_snapshot(
        &self,
        model: [u8; 5],
        lease: u64,
        position: StreamPosition,
        range: StreamRange,
        content: Vec<u8>,
    ) -> Result<bool, RemoteError> {
        let inner = self.inner.clone();
        let call =
            async move { vec![inner.put_model_snapshot(model, lease, position, range, &content).await] };
        only(self.on_runtime(1, call).await)
    }
}

impl WireCore {
    async fn append_examples(
        &self,
        model: [u8; 5],
        known: u64,
        examples: &[StreamExample],
    ) -> Result<StreamReceipt, RemoteError> {
        let Some([sender, _]) = examples.first().map(|example| example.id) else {
            return Ok(StreamReceipt { last: 0, is_full: false, is_behind: false });
        };
        let keys = [self.names.examples(model), self.names.example_senders(model)];
        let mut command = run(&self.scripts.teach, &keys);
        command.arg(format!("{sender:016x}")).arg(known);
        command.arg(STREAM_EXAMPLES_MAX).arg(STREAM_BYTES_MAX).arg(SENDERS_MAX);
        for StreamExample { id, content } in examples.iter().filter(|example| example.id[0] == sender) {
            command.arg(id[1]).arg([&id_bytes(*id)[..], content].concat());
        }
        match self.one(ConnectionClass::Writes, command, self.example_deadline()).await? {
            Value::Nil => Err(self.unconfirmed()),
            Value::Array(parts) => match parts.as_slice() {
                [Value::Int(last), Value::Int(full), Value::Int(behind)] => Ok(StreamReceipt {
                    last: u64::try_from(*last).unwrap_or_default(),
                    is_full: *full == 1,
                    is_behind: *behind == 1,
                }),
                _ => Err(unexpected(AT, "no answer of the script that takes examples")),
            },
            _ => Err(unexpected(AT, "no answer of the script that takes examples")),
        }
    }

    async fn examples_after(
        &self,
        model: [u8; 5],
        position: StreamPosition,
    ) -> Result<StreamPage, RemoteError> {
        let mut command = run(&self.scripts.examples, &[self.names.examples(model)]);
        command.arg(position.number).arg(&id_bytes(position.id)[..]);
        command.arg(PAGE_EXAMPLES_MAX).arg(PAGE_BYTES_MAX);
        let answer = self.one(ConnectionClass::Reads, command, self.example_deadline()).await?;
        page(&answer).ok_or_else(|| unexpected(AT, "the stream of a model's examples is damaged"))
    }

    async fn model_snapshot(
        &self,
        model: [u8; 5],
        of: &SnapshotDescription,
    ) -> Result<Option<Vec<u8>>, RemoteError> {
        let mut content = Vec::new();
        for piece in 0..of.pieces.min(PIECES_MAX) {
            let mut get = cmd("HGET");
            get.arg(self.names.model_pieces(model)).arg(piece_name(of.lease, piece));
            match self.one(ConnectionClass::Reads, get, self.example_deadline()).await? {
                Value::BulkString(bytes) if bytes.len() <= PIECE_BYTES => content.extend_from_slice(&bytes),
                _ => return Ok(None),
            }
        }
        Ok(Some(content))
    }

    async fn lease_model(
        &self,
        model: [u8; 5],
        span: std::time::Duration,
    ) -> Result<Option<u64>, RemoteError> {
        let lease = getrandom::u64().map_err(|error| unexpected(AT, &error.to_string()))?;
        let span = u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut set = cmd("SET");
        set.arg(self.names.model_lease(model)).arg(format!("{lease:016x}")).arg("NX").arg("PX").arg(span);
        match self.one(ConnectionClass::Writes, set, self.example_deadline()).await? {
            Value::Okay | Value::SimpleString(_) => Ok(Some(lease)),
            // Taken by another, or by this node without enough replicas: it ends by itself.
            Value::Nil => Ok(None),
            _ => Err(unexpected(AT, "no answer to SET")),
        }
    }

    async fn put_model_snapshot(
        &self,
        model: [u8; 5],
        lease: u64,
        position: StreamPosition,
        range: StreamRange,
        content: &[u8],
    ) -> Result<bool, RemoteError> {
        let pieces = u32::try_from(content.chunks(PIECE_BYTES).count()).unwrap_or(u32::MAX);
        if pieces > PIECES_MAX {
            return Err(unexpected(AT, "a model is too large to be shared"));
        }
        for (piece, bytes) in (0..).zip(content.chunks(PIECE_BYTES)) {
            let mut set = cmd("HSET");
            set.arg(self.names.model_pieces(model)).arg(piece_name(lease, piece)).arg(bytes);
            match self.one(ConnectionClass::Writes, set, self.example_deadline()).await? {
                Value::Int(_) => {}
                Value::Nil => return Err(self.unconfirmed()),
                _ => return Err(unexpected(AT, "no answer to HSET")),
            }
        }
        let description = SnapshotDescription { position, lease, pieces }.text();
        let keys =
            [self.names.examples(model), self.names.model_lease(model), self.names.model_pieces(model)];
        let (kept, known) = match range {
            StreamRange::Kept(kept) => (i64::try_from(kept).unwrap_or(i64::MAX), 0),
            StreamRange::Instead(known) => (-1, known),
        };
        for _ in 0..CUTS_MAX {
            let mut command = run(&self.scripts.publish, &keys);
            command.arg(format!("{lease:016x}")).arg(position.number).arg(&id_bytes(position.id)[..]);
            command.arg(&description).arg(kept).arg(known).arg(CUT_MAX);
            match self.one(ConnectionClass::Writes, command, self.example_deadline()).await? {
                Value::Int(0) => return Ok(false),
                Value::Int(1) => return Ok(true),
                Value::Int(2) => {}
                Value::Nil => return Err(self.unconfirmed()),
                _ => return Err(unexpected(AT, "no answer of the script that puts snapshots")),
            }
        }
        Ok(true)
    }

    fn example_deadline(&self) -> Instant {
        Instant::now() + self.settings.connect_within.max(super::REFRESH_WITHIN)
    }
}

fn piece_name(lease: u64, piece: u32) -> String {
    format!("{lease:016x} {piece}")
}

/// A call of a script with these keys; arguments follow.
fn run(script: &LuaScript, keys: &[Vec<u8>]) -> Cmd {
    let mut command = cmd("EVALSHA");
    command.arg(&script.sha).arg(keys.len());
    keys.iter().for_each(|key| {
        command.arg(key.as_slice());
    });
    command
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn descriptions_are_read_as_they_were_written_and_nothing_else() {
        let position = StreamPosition { number: 7, id: [u64::MAX, 3] };
        let description = SnapshotDescription { position, lease: 0xfeed, pieces: 26 };
        assert_eq!(SnapshotDescription::parse(&description.text()), Some(description));
        for bad in ["", "7", "7 1 2 x 3", "7 1 2 f 3 4", "7 1 2 f 129", "-7 1 2 f 3", "7 1 2 f "] {
            assert_eq!(SnapshotDescription::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// An answer of a server is a page or none, whatever it has.
        #[test]
        fn any_answer_is_a_page_or_none(texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8), follows: i64) {
            let mut parts: Vec<Value> = texts.iter().map(|text| Value::BulkString(text.clone())).collect();
            if parts.len() > 4 {
                parts[0] = Value::BulkString(b"9".to_vec());
                parts[1] = Value::BulkString(b"1".to_vec());
                parts[2] = Value::BulkString(Vec::new());
                parts[3] = Value::Int(follows);
                parts[4] = Value::Int(follows);
            }
            let long = texts.iter().skip(5).all(|text| text.len() >= ID_BYTES);
            prop_assert_eq!(page(&Value::Array(parts)).is_some(), texts.len() > 4 && long);
        }
    }
}

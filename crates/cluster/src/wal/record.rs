//! Records of the journal, as bytes. What is read may be anything.
//!
//! ```text
//! segment   magic "thwal004", a frame (see `disk::log`) for each record
//! record    1   form: its number (u32), words of its definition
//!           2   numbers: for each partition that of the latest batch
//!           3   intent: token, time, key of the mark, observations
//!           4   addition: tokens that have got their mark, tokens that have not, additions (see `additions`)
//!           5   checkpoint: what earlier segments say is in this one and later ones
//!           6   horizon: what expires at or before this time is gone
//! ```
//!
//! Fixed numbers are little-endian, all others LEB128, signed ones zigzag.

use std::io;

use disk::Blob;
use disk::log::{FrameFormat, FrameHead, FramePiece, FrameReader};
use event::{Key, Kind, Shingle, Space, Time};
use stats::bytes::{ByteReader, push_text, push_varint, push_zigzag};
use stats::limit::WindowTake;
use stats::{Addition, CounterSet, DedupeMark, Observation, ObserveRequest, Origin};

use super::additions::{
    WalAdditions, amounts, evidence, flow, option, push_amounts, push_evidence, push_flow, push_option,
    push_words, words,
};
use crate::remote::PartitionCount;

/// The bytes that a segment begins with.
pub(crate) const MAGIC: &[u8; 8] = b"thwal004";
/// Frames of records.
const FORMAT: FrameFormat<0> = FrameFormat {
    mark: [0xf5, 0x54, 0x48, 0x6b],
    // A payload is in memory as a whole.
    is_plausible: |frame| frame.length <= 1 << 30,
    window: 1 << 20,
};

/// The token of the one that claims a mark.
pub(crate) type ClaimToken = [u8; 16];

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WalRecord {
    Form(u32, Vec<u64>),
    Numbers(Vec<u64>),
    Intent(ClaimToken, ObserveRequest),
    Addition { had: Vec<ClaimToken>, refused: Vec<ClaimToken>, added: WalAdditions },
    Checkpoint,
    Horizon(Time),
}

impl WalRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            WalRecord::Form(form, words) => {
                bytes.push(1);
                bytes.extend_from_slice(&form.to_le_bytes());
                push_words(&mut bytes, words);
            }
            WalRecord::Numbers(numbers) => {
                bytes.push(2);
                push_varint(&mut bytes, numbers.len() as u64);
                numbers.iter().for_each(|number| push_varint(&mut bytes, *number));
            }
            WalRecord::Intent(token, request) => {
                bytes.push(3);
                bytes.extend_from_slice(token);
                push_request(&mut bytes, request);
            }
            WalRecord::Addition { had, refused, added } => {
                bytes.push(4);
                for tokens in [had, refused] {
                    push_varint(&mut bytes, tokens.len() as u64);
                    tokens.iter().for_each(|token| bytes.extend_from_slice(token));
                }
                bytes.extend_from_slice(added.bytes());
            }
            WalRecord::Checkpoint => bytes.push(5),
            WalRecord::Horizon(time) => {
                bytes.push(6);
                push_zigzag(&mut bytes, time.0);
            }
        }
        bytes
    }

    /// `None` for what is no record.
    pub(crate) fn decode(payload: &[u8]) -> Option<WalRecord> {
        let mut reader = ByteReader(payload);
        let [tag] = reader.array()?;
        let record = match tag {
            1 => WalRecord::Form(u32::from_le_bytes(reader.array()?), words(&mut reader)?),
            2 => {
                let count = usize::try_from(reader.varint()?).ok()?;
                if count > usize::from(PartitionCount::MAX) {
                    return None;
                }
                WalRecord::Numbers((0..count).map(|_| reader.varint()).collect::<Option<_>>()?)
            }
            3 => WalRecord::Intent(reader.array()?, request(&mut reader)?),
            4 => {
                let [had, refused] = [tokens(&mut reader)?, tokens(&mut reader)?];
                let added = WalAdditions::decode(std::mem::take(&mut reader.0))?;
                WalRecord::Addition { had, refused, added }
            }
            5 => WalRecord::Checkpoint,
            6 => WalRecord::Horizon(Time(reader.zigzag()?)),
            _ => return None,
        };
        reader.0.is_empty().then_some(record)
    }
}

/// Puts a record into a frame that begins at a place of its segment.
pub(crate) fn frame(payload: &[u8], at: u64, into: &mut Vec<u8>) {
    into.extend_from_slice(&FrameHead::of(at, [], payload).write(FORMAT.mark));
    into.extend_from_slice(payload);
}

/// The sound records of a segment, the bytes of its file, and of those that cannot be read though a sound record follows.
#[derive(Default)]
pub(crate) struct WalRecords {
    pub(crate) list: Vec<WalRecord>,
    pub(crate) bytes: u64,
    pub(crate) damaged: u64,
}

impl WalRecords {
    /// Reads a segment. What is not sound costs itself alone.
    pub(crate) fn read(blob: Box<dyn Blob>) -> io::Result<WalRecords> {
        let mut magic = [0; MAGIC.len()];
        disk::read_full(&*blob, 0, &mut magic)?;
        let bytes = blob.size()?;
        let at = if magic == *MAGIC { MAGIC.len() as u64 } else { 0 };
        let mut records = WalRecords { bytes, ..WalRecords::default() };
        let mut torn = 0;
        let mut frames = FrameReader::new(blob, at, bytes, &FORMAT);
        let mut from = at;
        while let Some(piece) = frames.next_frame()? {
            let record = match &piece {
                FramePiece::Sound((_, payload)) => WalRecord::decode(payload),
                FramePiece::Damaged(_) => None,
            };
            if let Some(record) = record {
                records.list.push(record);
                records.damaged += std::mem::take(&mut torn);
            } else {
                torn += frames.place() - from;
            }
            from = frames.place();
        }
        if torn > 0 {
            tracing::warn!(bytes = torn, "the end of a segment of the journal is torn");
        }
        if records.damaged > 0 {
            let bytes = records.damaged;
            tracing::error!(bytes, "a segment of the journal is damaged, and what was in there is lost");
        }
        Ok(records)
    }
}

fn tokens(reader: &mut ByteReader<'_>) -> Option<Vec<ClaimToken>> {
    let count = usize::try_from(reader.varint()?).ok()?;
    let bytes = reader.take(count.checked_mul(size_of::<ClaimToken>())?)?;
    Some(bytes.as_chunks().0.to_vec())
}

fn push_key(bytes: &mut Vec<u8>, key: &Key) {
    push_varint(bytes, u64::from(key.space.0));
    push_varint(bytes, u64::from(key.kind.0));
    bytes.extend_from_slice(&key.shingle.0.to_le_bytes());
}

fn key(reader: &mut ByteReader<'_>) -> Option<Key> {
    Some(Key {
        space: Space(u16::try_from(reader.varint()?).ok()?),
        kind: Kind(u16::try_from(reader.varint()?).ok()?),
        shingle: Shingle(u64::from_le_bytes(reader.array()?)),
    })
}

/// One with a mark.
fn push_request(bytes: &mut Vec<u8>, request: &ObserveRequest) {
    let once = request.once.unwrap_or(DedupeMark {
        key: Key { space: Space(0), kind: Kind(0), shingle: Shingle(0) },
        time: Time(0),
    });
    push_key(bytes, &once.key);
    push_zigzag(bytes, once.time.0);
    for Observation { key, time, add } in &request.observations {
        push_key(bytes, key);
        push_zigzag(bytes, time.0);
        match add {
            Addition::Nothing => bytes.push(0),
            Addition::Counters(amounts) => {
                bytes.push(if request.origin == Origin::Report { 9 } else { 1 });
                push_amounts(bytes, amounts);
            }
            Addition::Value(value) => {
                bytes.push(2);
                push_option(bytes, *value);
            }
            Addition::Evidence(evidence) => {
                bytes.push(3);
                push_evidence(bytes, evidence);
            }
            Addition::Take(take) => {
                bytes.push(4);
                bytes.push(u8::from(take.counts_all) | u8::from(take.interpolated) << 1);
                push_varint(bytes, take.cost);
                push_varint(bytes, take.limit);
            }
            Addition::GiveBack { amount, taken } => {
                bytes.push(5);
                push_varint(bytes, *amount);
                push_option(bytes, taken.map(|time| time.0));
            }
            Addition::Flow(flow) => {
                bytes.push(6);
                push_flow(bytes, flow);
            }
            Addition::Distinct { pair } => {
                bytes.push(7);
                bytes.extend_from_slice(&pair.0.to_le_bytes());
            }
            Addition::Lower(value) => {
                bytes.push(8);
                push_zigzag(bytes, *value);
            }
            Addition::Last(value) => {
                bytes.push(10);
                push_text(bytes, value);
            }
            Addition::Clear(counters) => {
                bytes.push(11);
                push_varint(bytes, counters.bits());
            }
        }
    }
}

fn request(reader: &mut ByteReader<'_>) -> Option<ObserveRequest> {
    let once = Some(DedupeMark { key: key(reader)?, time: Time(reader.zigzag()?) });
    let (mut observations, mut origin) = (Vec::new(), Origin::Event);
    while !reader.0.is_empty() {
        let (key, time) = (key(reader)?, Time(reader.zigzag()?));
        let [tag] = reader.array()?;
        let add = match tag {
            0 => Addition::Nothing,
            1 => Addition::Counters(amounts(reader)?),
            2 => Addition::Value(option(reader)?),
            3 => Addition::Evidence(evidence(reader)?),
            4 => {
                let [flags] = reader.array()?;
                let [cost, limit] = [reader.varint()?, reader.varint()?];
                Addition::Take(WindowTake {
                    cost,
                    limit,
                    counts_all: flags & 1 != 0,
                    interpolated: flags & 2 != 0,
                })
            }
            5 => Addition::GiveBack { amount: reader.varint()?, taken: option(reader)?.map(Time) },
            6 => Addition::Flow(flow(reader)?),
            7 => Addition::Distinct { pair: Shingle(u64::from_le_bytes(reader.array()?)) },
            8 => Addition::Lower(reader.zigzag()?),
            9 => {
                origin = Origin::Report;
                Addition::Counters(amounts(reader)?)
            }
            10 => Addition::Last(reader.text()?.into()),
            11 => Addition::Clear(CounterSet::from_bits(reader.varint()?)),
            _ => return None,
        };
        observations.push(Observation { key, time, add });
    }
    Some(ObserveRequest { once, origin, observations })
}

#[cfg(test)]
mod tests {
    use disk::{Device, MemoryDevice};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use stats::limit::GcraOperation;
    use stats::{CounterAmounts, Evidence};

    use super::super::additions::WalAddition;
    use super::*;
    use crate::cell::CellId;
    use crate::delta::CellOperation;
    use crate::remote::Partition;

    fn amounts() -> impl Strategy<Value = CounterAmounts> {
        vec((0u8..64, 1..u64::MAX), 0..4).prop_map(|amounts| amounts.into_iter().collect())
    }

    fn flow() -> impl Strategy<Value = GcraOperation> {
        let amounts = (any::<i64>(), any::<i64>(), any::<bool>(), 0..4);
        amounts.prop_map(|(cost, burst, counts_all, form)| match form {
            0 => GcraOperation::Take { cost, burst, counts_all },
            1 => GcraOperation::Back { cost },
            2 => GcraOperation::Set { ahead: cost },
            _ => GcraOperation::Add { cost },
        })
    }

    fn op() -> impl Strategy<Value = CellOperation> {
        let time = || any::<i64>().prop_map(Time);
        let evidence = any::<[i64; 3]>().prop_map(|[bad, good, weight]| Evidence { bad, good, weight });
        prop_oneof![
            (time(), amounts()).prop_map(|(time, amounts)| CellOperation::Counters(time, amounts)),
            (time(), any::<Option<i64>>(), 0..16u32)
                .prop_map(|(time, value, sightings)| CellOperation::Value { time, value, sightings }),
            (time(), evidence).prop_map(|(time, evidence)| CellOperation::Evidence(time, evidence)),
            (time(), any::<u64>()).prop_map(|(time, hash)| CellOperation::Hash(time, hash)),
            (time(), any::<u64>()).prop_map(|(time, pair)| CellOperation::Unique(time, Shingle(pair))),
            (time(), flow()).prop_map(|(time, flow)| CellOperation::Flow(time, flow)),
            vec(any::<u64>(), 0..9).prop_map(CellOperation::Words),
            Just(CellOperation::Begin),
        ]
    }

    fn key() -> impl Strategy<Value = Key> {
        any::<(u16, u16, u64)>().prop_map(|(space, kind, shingle)| Key {
            space: Space(space),
            kind: Kind(kind),
            shingle: Shingle(shingle),
        })
    }

    fn add() -> impl Strategy<Value = Addition> {
        prop_oneof![
            Just(Addition::Nothing),
            amounts().prop_map(Addition::Counters),
            any::<Option<i64>>().prop_map(Addition::Value),
            any::<[i64; 3]>().prop_map(|[bad, good, weight]| Addition::Evidence(Evidence {
                bad,
                good,
                weight
            })),
            any::<(u64, u64, bool, bool)>().prop_map(|(cost, limit, counts_all, interpolated)| {
                Addition::Take(WindowTake { cost, limit, counts_all, interpolated })
            }),
            any::<(u64, Option<i64>)>()
                .prop_map(|(amount, taken)| Addition::GiveBack { amount, taken: taken.map(Time) }),
            flow().prop_map(Addition::Flow),
            ".{0,9}".prop_map(|value| Addition::Last(value.into())),
            any::<u64>().prop_map(|pair| Addition::Distinct { pair: Shingle(pair) }),
            any::<u64>().prop_map(|counters| Addition::Clear(CounterSet::from_bits(counters))),
        ]
    }

    fn record() -> impl Strategy<Value = WalRecord> {
        let observation = (key(), any::<i64>(), add()).prop_map(|(key, time, add)| Observation {
            key,
            time: Time(time),
            add,
        });
        let request = (key(), any::<i64>(), vec(observation, 0..4)).prop_map(|(key, time, observations)| {
            ObserveRequest {
                once: Some(DedupeMark { key, time: Time(time) }),
                observations,
                ..ObserveRequest::default()
            }
        });
        let added = (any::<(u16, u64, u16, u16, u64, u32)>(), op()).prop_map(
            |((partition, number, space, kind, shingle, form), op)| WalAddition {
                partition: Partition(partition),
                number,
                cell: CellId { space, kind, shingle },
                form,
                op,
            },
        );
        prop_oneof![
            (any::<u32>(), vec(any::<u64>(), 0..5)).prop_map(|(form, words)| WalRecord::Form(form, words)),
            vec(any::<u64>(), 0..5).prop_map(WalRecord::Numbers),
            (any::<ClaimToken>(), request).prop_map(|(token, request)| WalRecord::Intent(token, request)),
            (vec(any::<ClaimToken>(), 0..3), vec(any::<ClaimToken>(), 0..3), vec(added, 0..5)).prop_map(
                |(had, refused, added)| {
                    let kept: WalAdditions = added.iter().cloned().collect();
                    assert_eq!(kept.iter().collect::<Vec<_>>(), added);
                    WalRecord::Addition { had, refused, added: kept }
                }
            ),
            Just(WalRecord::Checkpoint),
            any::<i64>().prop_map(|time| WalRecord::Horizon(Time(time))),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn records_read_back_and_nothing_else_is_one(record in record(), flip in any::<(usize, u8)>()) {
            let read = |bytes: &[u8]| {
                let device = MemoryDevice::new();
                device.write("wal", bytes);
                WalRecords::read(device.open("wal").unwrap()).unwrap().list
            };
            let mut bytes = Vec::new();
            frame(&record.encode(), 0, &mut bytes);
            let length = bytes.len();
            prop_assert_eq!(read(&bytes), [record]);
            prop_assert!(read(&bytes[..length - 1]).is_empty());
            let at = flip.0 % length;
            bytes[at] ^= flip.1.max(1);
            prop_assert!(read(&bytes).is_empty());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..200)) {
            if let Some(record) = WalRecord::decode(&bytes) {
                prop_assert!(WalRecord::decode(&record.encode()) == Some(record));
            }
        }
    }
}

//! Additions of a journal's record, as bytes. What is read may be anything.
//!
//! ```text
//! addition   its operation's kind (3 bits), 8 if it is of another batch than the one before
//!            where it is: partition, number of the batch
//!            number of its form among those that the record has named; if that is how many there are, a new one:
//!            space, kind, form (u32)
//!            shingle (u64), what its operation says; a time is told as what it is later than the one before
//! ```
//!
//! Batches of events have tens of thousands of additions, partition by partition, and of few forms.

use event::{Shingle, Time};
use stats::bytes::{ByteReader, push_varint, push_zigzag};
use stats::limit::GcraOperation;
use stats::{CellShape, CounterAmounts, Evidence};

use crate::cell::CellId;
use crate::delta::CellOperation;
use crate::remote::Partition;

/// The bit that says that a batch follows.
const NEW_BATCH: u8 = 8;

/// Additions to one cell, in a batch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WalAddition {
    pub(crate) partition: Partition,
    pub(crate) number: u64,
    pub(crate) cell: CellId,
    pub(crate) form: u32,
    pub(crate) op: CellOperation,
}

/// The space, kind and form that cells have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CellGroup {
    space: u16,
    kind: u16,
    form: u32,
}

/// The additions of a record, encoded as they come.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WalAdditions {
    bytes: Vec<u8>,
    groups: Vec<CellGroup>,
    /// Batches that one addition has and the one before it has not.
    batches: Vec<(Partition, u64)>,
    /// The last that was named.
    time: Time,
}

impl WalAdditions {
    pub(crate) fn push(
        &mut self,
        (partition, number): (Partition, u64),
        cell: CellId,
        form: u32,
        op: &CellOperation,
    ) {
        let batch = (partition, number);
        let is_new = self.batches.last() != Some(&batch);
        self.bytes.push(kind_of(op) | if is_new { NEW_BATCH } else { 0 });
        if is_new {
            self.batches.push(batch);
            push_varint(&mut self.bytes, u64::from(partition.0));
            push_varint(&mut self.bytes, number);
        }
        let group = CellGroup { space: cell.space, kind: cell.kind, form };
        let known = self.groups.iter().position(|known| *known == group);
        push_varint(&mut self.bytes, known.unwrap_or(self.groups.len()) as u64);
        if known.is_none() {
            self.groups.push(group);
            push_varint(&mut self.bytes, u64::from(group.space));
            push_varint(&mut self.bytes, u64::from(group.kind));
            self.bytes.extend_from_slice(&form.to_le_bytes());
        }
        self.bytes.extend_from_slice(&cell.shingle.to_le_bytes());
        push_op(&mut self.bytes, op, &mut self.time);
    }

    /// Reads additions that are all of some bytes; `None` if these are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<WalAdditions> {
        let mut reader = AdditionReader::new(bytes);
        while !reader.is_at_end() {
            reader.next()?;
        }
        let AdditionReader { groups, batches, time, .. } = reader;
        Some(WalAdditions { bytes: bytes.to_vec(), groups, batches, time })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = WalAddition> {
        AdditionReader::new(&self.bytes)
    }

    /// The batches, some maybe more than once.
    pub(crate) fn batches(&self) -> impl Iterator<Item = (Partition, u64)> {
        self.batches.iter().copied()
    }

    /// The forms, some maybe more than once.
    pub(crate) fn forms(&self) -> impl Iterator<Item = u32> {
        self.groups.iter().map(|group| group.form)
    }
}

impl FromIterator<WalAddition> for WalAdditions {
    fn from_iter<I: IntoIterator<Item = WalAddition>>(all: I) -> WalAdditions {
        let mut additions = WalAdditions::default();
        all.into_iter().for_each(|WalAddition { partition, number, cell, form, op }| {
            additions.push((partition, number), cell, form, &op);
        });
        additions
    }
}

/// Reads additions one after the other; ends where something is none.
struct AdditionReader<'a> {
    reader: ByteReader<'a>,
    groups: Vec<CellGroup>,
    batches: Vec<(Partition, u64)>,
    time: Time,
}

impl<'a> AdditionReader<'a> {
    fn new(bytes: &'a [u8]) -> AdditionReader<'a> {
        AdditionReader {
            reader: ByteReader(bytes),
            groups: Vec::new(),
            batches: Vec::new(),
            time: Time::default(),
        }
    }

    fn is_at_end(&self) -> bool {
        self.reader.0.is_empty()
    }
}

impl Iterator for AdditionReader<'_> {
    type Item = WalAddition;

    fn next(&mut self) -> Option<WalAddition> {
        let reader = &mut self.reader;
        let [head] = reader.array()?;
        if head & NEW_BATCH != 0 {
            self.batches.push((Partition(u16::try_from(reader.varint()?).ok()?), reader.varint()?));
        }
        let (partition, number) = *self.batches.last()?;
        let at = usize::try_from(reader.varint()?).ok()?;
        if at == self.groups.len() {
            self.groups.push(CellGroup {
                space: u16::try_from(reader.varint()?).ok()?,
                kind: u16::try_from(reader.varint()?).ok()?,
                form: u32::from_le_bytes(reader.array()?),
            });
        }
        let CellGroup { space, kind, form } = *self.groups.get(at)?;
        let shingle = u64::from_le_bytes(reader.array()?);
        let op = op(head & !NEW_BATCH, reader, &mut self.time)?;
        Some(WalAddition { partition, number, cell: CellId { space, kind, shingle }, form, op })
    }
}

fn kind_of(op: &CellOperation) -> u8 {
    match op {
        CellOperation::Counters(..) => 0,
        CellOperation::Value { .. } => 1,
        CellOperation::Evidence(..) => 2,
        CellOperation::Hash(..) => 3,
        CellOperation::Unique(..) => 4,
        CellOperation::Flow(..) => 5,
        CellOperation::Words(_) => 6,
        CellOperation::Begin => 7,
    }
}

fn push_op(bytes: &mut Vec<u8>, op: &CellOperation, last: &mut Time) {
    let mut begin = |time: Time| {
        push_zigzag(bytes, time.0.wrapping_sub(last.0));
        *last = time;
    };
    match op {
        CellOperation::Counters(time, amounts) => {
            begin(*time);
            push_amounts(bytes, amounts);
        }
        CellOperation::Value { time, value, sightings } => {
            begin(*time);
            push_option(bytes, *value);
            push_varint(bytes, u64::from(*sightings));
        }
        CellOperation::Evidence(time, evidence) => {
            begin(*time);
            push_evidence(bytes, evidence);
        }
        CellOperation::Hash(time, hash) => {
            begin(*time);
            bytes.extend_from_slice(&hash.to_le_bytes());
        }
        CellOperation::Unique(time, pair) => {
            begin(*time);
            bytes.extend_from_slice(&pair.0.to_le_bytes());
        }
        CellOperation::Flow(time, flow) => {
            begin(*time);
            push_flow(bytes, flow);
        }
        CellOperation::Words(words) => push_words(bytes, words),
        CellOperation::Begin => {}
    }
}

fn op(kind: u8, reader: &mut ByteReader<'_>, last: &mut Time) -> Option<CellOperation> {
    if kind == 6 {
        return words(reader).map(CellOperation::Words);
    }
    if kind == 7 {
        return Some(CellOperation::Begin);
    }
    let time = Time(last.0.wrapping_add(reader.zigzag()?));
    *last = time;
    Some(match kind {
        0 => CellOperation::Counters(time, amounts(reader)?),
        1 => {
            let value = option(reader)?;
            // A sketch counts to fifteen.
            let sightings =
                u32::try_from(reader.varint()?).ok().filter(|count| *count <= stats::Sketch::COUNT_MAX)?;
            CellOperation::Value { time, value, sightings }
        }
        2 => CellOperation::Evidence(time, evidence(reader)?),
        3 => CellOperation::Hash(time, u64::from_le_bytes(reader.array()?)),
        4 => CellOperation::Unique(time, Shingle(u64::from_le_bytes(reader.array()?))),
        5 => CellOperation::Flow(time, flow(reader)?),
        _ => return None,
    })
}

pub(super) fn push_words(bytes: &mut Vec<u8>, words: &[u64]) {
    push_varint(bytes, words.len() as u64);
    words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
}

pub(super) fn words(reader: &mut ByteReader<'_>) -> Option<Vec<u64>> {
    let count = usize::try_from(reader.varint()?).ok().filter(|count| *count <= CellShape::WORDS_MAX)?;
    let bytes = reader.take(8 * count)?;
    Some(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

pub(super) fn push_amounts(bytes: &mut Vec<u8>, amounts: &CounterAmounts) {
    push_varint(bytes, amounts.iter().count() as u64);
    for (counter, amount) in amounts.iter() {
        bytes.push(counter);
        push_varint(bytes, amount);
    }
}

pub(super) fn amounts(reader: &mut ByteReader<'_>) -> Option<CounterAmounts> {
    let mut amounts = CounterAmounts::default();
    for _ in 0..reader.varint()? {
        let [counter] = reader.array()?;
        amounts.push(counter, reader.varint()?);
    }
    Some(amounts)
}

pub(super) fn push_option(bytes: &mut Vec<u8>, value: Option<i64>) {
    bytes.push(u8::from(value.is_some()));
    if let Some(value) = value {
        push_zigzag(bytes, value);
    }
}

pub(super) fn option(reader: &mut ByteReader<'_>) -> Option<Option<i64>> {
    match reader.array()? {
        [0] => Some(None),
        [1] => reader.zigzag().map(Some),
        _ => None,
    }
}

pub(super) fn push_evidence(bytes: &mut Vec<u8>, Evidence { bad, good, weight }: &Evidence) {
    [bad, good, weight].into_iter().for_each(|value| push_zigzag(bytes, *value));
}

pub(super) fn evidence(reader: &mut ByteReader<'_>) -> Option<Evidence> {
    Some(Evidence { bad: reader.zigzag()?, good: reader.zigzag()?, weight: reader.zigzag()? })
}

pub(super) fn push_flow(bytes: &mut Vec<u8>, flow: &GcraOperation) {
    match *flow {
        GcraOperation::Take { cost, burst, counts_all } => {
            bytes.push(u8::from(counts_all));
            push_zigzag(bytes, cost);
            push_zigzag(bytes, burst);
        }
        GcraOperation::Back { cost } => {
            bytes.push(2);
            push_zigzag(bytes, cost);
        }
        GcraOperation::Set { ahead } => {
            bytes.push(3);
            push_zigzag(bytes, ahead);
        }
        GcraOperation::Add { cost } => {
            bytes.push(4);
            push_zigzag(bytes, cost);
        }
    }
}

pub(super) fn flow(reader: &mut ByteReader<'_>) -> Option<GcraOperation> {
    let [tag] = reader.array()?;
    let amount = reader.zigzag()?;
    Some(match tag {
        0 | 1 => GcraOperation::Take { cost: amount, burst: reader.zigzag()?, counts_all: tag == 1 },
        2 => GcraOperation::Back { cost: amount },
        3 => GcraOperation::Set { ahead: amount },
        4 => GcraOperation::Add { cost: amount },
        _ => return None,
    })
}

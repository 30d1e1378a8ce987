//! The bytes of records, field by field, for those who do not make a record of them: what looks at rows, and what turns
//! rows into columns and back. They are those of `postcard`, by which [`super::record`] makes and reads whole records;
//! `docs/internals/format.md` draws them.

use std::net::IpAddr;

use event::{Facts, Slot, Time, Value};
use judge::Action;
use serde::{Deserialize, Serialize};

use super::report::ReportRecord;
use crate::id::RecordId;

/// The number that precedes a value in its bytes: that of its variant.
pub(super) mod variant {
    pub(crate) const STRING: u8 = 0;
    pub(crate) const INTEGER: u8 = 1;
    pub(crate) const FLOAT: u8 = 2;
    pub(crate) const BOOL: u8 = 3;
    pub(crate) const TIME: u8 = 4;
    pub(crate) const IP: u8 = 5;
    pub(crate) const BYTES: u8 = 6;
    pub(crate) const LIST: u8 = 7;
}

/// The number that follows a record's id: that of its variant.
pub(super) const REPORT: u64 = 3;
/// A decision.
pub(super) const DECISION: u64 = 4;
/// A report that is no judgement.
pub(super) const SIGNAL: u64 = 5;

/// Reads the records of a block one after another.
#[derive(Clone, Copy)]
pub(super) struct RecordReader<'b> {
    /// The bytes that are still to be read.
    bytes: &'b [u8],
}

/// The beginning of a record.
#[derive(Debug)]
pub(super) enum RecordStart<'b> {
    /// A decision; its facts, keys, verdict and effects have to follow.
    Decision { head: DecisionHead<'b>, arrived: ArrivalInfo<'b> },
    /// A report, whole.
    Report(Box<ReportRecord>),
}

/// The parts of a decision's head beside those that a visitor wants to know.
#[derive(Debug)]
pub(super) struct ArrivalInfo<'b> {
    /// The caller's name for the event.
    pub(super) event_id: Option<&'b str>,
    pub(super) arrival: Time,
    pub(super) duplicate: bool,
}

/// A value whose content stays where it is.
pub(super) enum ValueRef<'b> {
    Text(&'b str),
    Integer(i64),
    Float(f64),
    Bool(bool),
    Time(Time),
    Ip(IpAddr),
    Bytes(&'b [u8]),
    /// A list of so many texts.
    List(u64, RecordReader<'b>),
}

/// The beginning of a decision, before its facts.
#[derive(Debug)]
pub struct DecisionHead<'b> {
    /// The decision.
    pub id: RecordId,
    /// The pipeline.
    pub pipeline: &'b str,
    /// Its version.
    pub version: &'b str,
    /// The time of the event.
    pub time: Time,
    /// The caller's name for the event, if it has one and the visitor wants it.
    pub event_id: Option<&'b str>,
}

/// Score, probability and action of a decision.
#[derive(Clone, Copy, Debug)]
pub struct DecisionOutcome {
    /// The score.
    pub score: f64,
    /// The probability that the event is bad; a visitor that does not want it may get none.
    pub probability: Option<f64>,
    /// The action.
    pub action: Action,
}

/// The bytes are not those of a record.
#[derive(Debug)]
pub(crate) struct RecordFormatError;

pub(super) type Result<T> = std::result::Result<T, RecordFormatError>;

impl<'b> RecordReader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> RecordReader<'b> {
        RecordReader { bytes }
    }

    /// Returns true if all was read.
    /// Returns the number of bytes that are still to be read.
    pub(super) fn bytes_left(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn start(&mut self) -> Result<(RecordId, RecordStart<'b>)> {
        let (id, kind) = (RecordId(self.varint()?), self.varint()?);
        let start = match kind {
            DECISION => {
                let (pipeline, version) = (self.text()?, self.text()?);
                let event_id = if self.flag()? { Some(self.text()?) } else { None };
                let time = self.time()?;
                let arrived = ArrivalInfo { event_id, arrival: self.time()?, duplicate: self.flag()? };
                let head = DecisionHead { id, pipeline, version, time, event_id };
                RecordStart::Decision { head, arrived }
            }
            REPORT => RecordStart::Report(Box::new(self.made()?)),
            SIGNAL => RecordStart::Report(Box::new(ReportRecord { signal: true, ..self.made()? })),
            _ => return Err(RecordFormatError),
        };
        Ok((id, start))
    }

    /// Passes over a record, and answers its id.
    pub(super) fn pass_record(&mut self) -> Result<RecordId> {
        let (id, start) = self.start()?;
        if let RecordStart::Decision { .. } = start {
            self.facts(&[], &mut Facts::default())?;
            self.verdict(|_, _| ())?;
            self.effects()?;
        }
        Ok(id)
    }

    /// Reads a decision's facts: `wanted` has for each in order the slot of `facts` that it is put in, if any.
    pub(super) fn facts(&mut self, wanted: &[Option<Slot>], facts: &mut Facts) -> Result<()> {
        for index in 0..self.varint()? {
            if !self.flag()? {
                continue;
            }
            match usize::try_from(index).ok().and_then(|index| wanted.get(index).copied().flatten()) {
                Some(slot) => facts.set(slot, self.made::<Value>()?),
                None => self.pass_value()?,
            }
        }
        Ok(())
    }

    /// Passes over the keys and reads the verdict; `fired` gets the names of rules, and whether they were in shadow.
    pub(super) fn verdict(&mut self, mut fired: impl FnMut(&'b str, bool)) -> Result<DecisionOutcome> {
        self.content()?;
        let (score, probability, action) = (self.float()?, self.float()?, self.made::<Action>()?);
        for shadow in [false, true] {
            for _ in 0..self.varint()? {
                fired(self.text()?, shadow);
                self.pass_reason()?;
            }
        }
        self.pass_next()?;
        Ok(DecisionOutcome { score, probability: Some(probability), action })
    }

    /// Returns the bytes that `pass` passes over.
    pub(super) fn passed(
        &mut self,
        pass: impl FnOnce(&mut RecordReader<'b>) -> Result<()>,
    ) -> Result<&'b [u8]> {
        let before = *self;
        pass(self)?;
        Ok(self.since(before))
    }

    /// Passes over what a reason has behind its rule: score, detail, and values.
    pub(super) fn pass_reason(&mut self) -> Result<()> {
        self.float()?;
        self.content()?;
        for _ in 0..self.varint()? {
            self.content()?;
            if self.flag()? {
                self.pass_value()?;
            }
        }
        Ok(())
    }

    /// Passes over the next band's action and its distance, if there is one.
    pub(super) fn pass_next(&mut self) -> Result<()> {
        if self.flag()? {
            self.varint()?;
            self.float()?;
        }
        Ok(())
    }

    /// Passes over effects.
    pub(super) fn effects(&mut self) -> Result<()> {
        self.made::<Vec<judge::Consequence>>().map(drop)
    }

    /// Passes over a value.
    pub(super) fn pass_value(&mut self) -> Result<()> {
        match self.byte()? {
            variant::STRING | variant::BYTES => drop(self.content()?),
            variant::INTEGER | variant::TIME => self.pass_varint()?,
            variant::FLOAT => drop(self.float()?),
            variant::BOOL => drop(self.flag()?),
            variant::IP => drop(self.ip()?),
            variant::LIST => {
                for _ in 0..self.varint()? {
                    self.content()?;
                }
            }
            _ => return Err(RecordFormatError),
        }
        Ok(())
    }

    /// Returns the bytes that were read since.
    pub(super) fn since(&self, before: RecordReader<'b>) -> &'b [u8] {
        &before.bytes[..before.bytes.len() - self.bytes.len()]
    }

    /// The next value; a list's items are passed over, and can be read from what it gives.
    #[inline]
    pub(super) fn value(&mut self) -> Result<ValueRef<'b>> {
        Ok(match self.byte()? {
            variant::STRING => ValueRef::Text(self.text()?),
            variant::INTEGER => ValueRef::Integer(self.time()?.0),
            variant::FLOAT => ValueRef::Float(self.float()?),
            variant::BOOL => ValueRef::Bool(self.flag()?),
            variant::TIME => ValueRef::Time(self.time()?),
            variant::IP => ValueRef::Ip(self.ip()?),
            variant::BYTES => ValueRef::Bytes(self.content()?),
            variant::LIST => {
                let count = self.varint()?;
                let items = *self;
                for _ in 0..count {
                    self.text()?;
                }
                ValueRef::List(count, items)
            }
            _ => return Err(RecordFormatError),
        })
    }

    fn ip(&mut self) -> Result<IpAddr> {
        Ok(match self.byte()? {
            0 => IpAddr::from(self.array::<4>()?),
            1 => IpAddr::from(self.array::<16>()?),
            _ => return Err(RecordFormatError),
        })
    }

    /// A value that is not passed over.
    pub(super) fn made<T: Deserialize<'b>>(&mut self) -> Result<T> {
        let (value, rest) = postcard::take_from_bytes(self.bytes).map_err(|_| RecordFormatError)?;
        self.bytes = rest;
        Ok(value)
    }

    fn part(&mut self, length: usize) -> Result<&'b [u8]> {
        let (part, rest) = self.bytes.split_at_checked(length).ok_or(RecordFormatError)?;
        self.bytes = rest;
        Ok(part)
    }

    /// Bytes behind their number.
    pub(super) fn content(&mut self) -> Result<&'b [u8]> {
        let length = self.varint()?;
        self.part(usize::try_from(length).map_err(|_| RecordFormatError)?)
    }

    pub(super) fn text(&mut self) -> Result<&'b str> {
        std::str::from_utf8(self.content()?).map_err(|_| RecordFormatError)
    }

    pub(super) fn float(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    pub(super) fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH]> {
        let (array, rest) = self.bytes.split_first_chunk().ok_or(RecordFormatError)?;
        self.bytes = rest;
        Ok(*array)
    }

    pub(super) fn flag(&mut self) -> Result<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(RecordFormatError),
        }
    }

    pub(super) fn time(&mut self) -> Result<Time> {
        let folded = self.varint()?;
        Ok(Time((folded >> 1) as i64 ^ -((folded & 1) as i64)))
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        let (byte, rest) = self.bytes.split_first().ok_or(RecordFormatError)?;
        self.bytes = rest;
        Ok(*byte)
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64> {
        // Lengths, counts and most variants.
        if let [byte @ (..0x80), rest @ ..] = self.bytes {
            self.bytes = rest;
            return Ok(u64::from(*byte));
        }
        self.long_varint()
    }

    /// One of eight bytes or fewer is read at once, and its parts of seven bits are moved together.
    #[inline]
    fn long_varint(&mut self) -> Result<u64> {
        if let Some((word, _)) = self.bytes.split_first_chunk::<8>() {
            let word = u64::from_le_bytes(*word);
            let ends = !word & GOES_ON;
            if ends != 0 {
                let bits = ends.trailing_zeros();
                self.bytes = &self.bytes[bits as usize / 8 + 1..];
                return Ok(joined(word & u64::MAX >> (63 - bits)));
            }
        }
        self.longest_varint()
    }

    #[cold]
    fn longest_varint(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(RecordFormatError)
    }

    /// Passes over a number: its last byte is found among eight at once.
    #[inline]
    fn pass_varint(&mut self) -> Result<()> {
        if let Some((word, rest)) = self.bytes.split_first_chunk::<8>() {
            let ends = !u64::from_le_bytes(*word) & GOES_ON;
            self.bytes = match (ends, rest) {
                // The longest has ten bytes.
                (0, [(..0x80), rest @ ..] | [_, (..0x80), rest @ ..]) => rest,
                (0, _) => return Err(RecordFormatError),
                _ => &self.bytes[ends.trailing_zeros() as usize / 8 + 1..],
            };
            return Ok(());
        }
        self.varint().map(drop)
    }
}

/// The bits that say of each byte of a number that another follows.
const GOES_ON: u64 = u64::from_le_bytes([0x80; 8]);

/// The low seven bits of each byte, one behind the other.
#[inline]
fn joined(word: u64) -> u64 {
    let word = word & !GOES_ON;
    let word = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let word = word & 0x0000_3fff_0000_3fff | (word & 0x3fff_0000_3fff_0000) >> 2;
    word & 0x0fff_ffff | (word & 0x0fff_ffff_0000_0000) >> 4
}

/// The opposite, of a number of at most 56 bits.
#[inline]
fn parted(number: u64) -> u64 {
    let word = number & 0x0fff_ffff | (number & 0x00ff_ffff_f000_0000) << 4;
    let word = word & 0x0000_3fff_0000_3fff | (word & 0x0fff_c000_0fff_c000) << 2;
    word & 0x007f_007f_007f_007f | (word & 0x3f80_3f80_3f80_3f80) << 1
}

/// A signed number so that those near zero are small.
#[inline]
fn folded(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

/// Puts a number there byte by byte.
#[cold]
fn put_longest(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// Writes the parts of records.
pub(super) trait RecordWrite {
    fn put_varint(&mut self, number: u64);

    /// At most eight bytes, and a number behind them.
    fn put_behind<const BYTES: usize>(&mut self, before: [u8; BYTES], number: u64);

    /// A time, or another signed number.
    fn put_signed(&mut self, number: i64);

    /// Text, or bytes.
    fn put_content(&mut self, content: &[u8]);

    /// Facts, missing ones included.
    fn put_facts(&mut self, facts: &Facts);

    /// Puts a value that has a shape of its own.
    fn put_made(&mut self, made: &impl Serialize);
}

impl RecordWrite for Vec<u8> {
    #[inline]
    fn put_varint(&mut self, number: u64) {
        match number {
            ..0x80 => self.push(number as u8),
            _ => self.put_behind([], number),
        }
    }

    #[inline]
    fn put_behind<const BYTES: usize>(&mut self, before: [u8; BYTES], number: u64) {
        const { assert!(BYTES <= 8) };
        if number >= 1 << 56 {
            self.extend_from_slice(&before);
            return put_longest(self, number);
        }
        // All bytes but the last say that another follows. What is behind it is taken off again: bytes of a fixed number are
        // copied without a call.
        let bytes = (u64::BITS - number.leading_zeros()).div_ceil(7).max(1);
        let word = parted(number) | GOES_ON & ((1 << (8 * (bytes - 1))) - 1);
        let mut all = [0; 16];
        all[..BYTES].copy_from_slice(&before);
        all[BYTES..BYTES + 8].copy_from_slice(&word.to_le_bytes());
        let length = self.len() + BYTES + bytes as usize;
        self.extend_from_slice(&all);
        self.truncate(length);
    }

    #[inline]
    fn put_signed(&mut self, number: i64) {
        self.put_varint(folded(number));
    }

    #[inline]
    fn put_content(&mut self, content: &[u8]) {
        self.put_varint(content.len() as u64);
        self.extend_from_slice(content);
    }

    fn put_facts(&mut self, facts: &Facts) {
        self.put_varint(facts.values().len() as u64);
        for value in facts.values() {
            let Some(value) = value else {
                self.push(0);
                continue;
            };
            match value {
                Value::Integer(integer) => self.put_behind([1, variant::INTEGER], folded(*integer)),
                Value::Time(time) => self.put_behind([1, variant::TIME], folded(time.0)),
                Value::String(text) => {
                    self.put_behind([1, variant::STRING], text.len() as u64);
                    self.extend_from_slice(text.as_bytes());
                }
                Value::Float(float) => {
                    let [a, b, c, d, e, f, g, h] = float.to_le_bytes();
                    self.extend_from_slice(&[1, variant::FLOAT, a, b, c, d, e, f, g, h]);
                }
                Value::Ip(IpAddr::V4(ip)) => {
                    let [a, b, c, d] = ip.octets();
                    self.extend_from_slice(&[1, variant::IP, 0, a, b, c, d]);
                }
                value => {
                    self.push(1);
                    self.put_made(value);
                }
            }
        }
    }

    fn put_made(&mut self, made: &impl Serialize) {
        let start = self.len();
        // Writing to a vector cannot fail, and no type here refuses to be written.
        if postcard::serialize_with_flavor(made, VecAppender(self)).is_err() {
            self.truncate(start);
        }
    }
}

/// A vector behind whose bytes more are written.
struct VecAppender<'a>(&'a mut Vec<u8>);

impl VecAppender<'_> {
    /// At most three bytes.
    #[inline]
    fn few(&mut self, data: &[u8]) -> postcard::Result<()> {
        match *data {
            [] => {}
            [a] => self.0.push(a),
            [a, b] => self.0.extend_from_slice(&[a, b]),
            [a, b, c] => self.0.extend_from_slice(&[a, b, c]),
            _ => self.0.extend_from_slice(data),
        }
        Ok(())
    }
}

impl postcard::ser_flavors::Flavor for VecAppender<'_> {
    type Output = ();

    /// Most of what comes are numbers of a few bytes, for which a copy of any length costs more than all else.
    #[inline]
    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        if let Some((eight, rest @ ([] | [_] | [_, _]))) = data.split_first_chunk::<8>() {
            self.0.extend_from_slice(eight);
            return self.few(rest);
        }
        match data.split_first_chunk::<4>() {
            None => self.few(data),
            Some((four, rest @ ([] | [_] | [_, _] | [_, _, _]))) => {
                self.0.extend_from_slice(four);
                self.few(rest)
            }
            Some(_) => {
                self.0.extend_from_slice(data);
                Ok(())
            }
        }
    }

    #[inline]
    fn try_push(&mut self, data: u8) -> postcard::Result<()> {
        self.0.push(data);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Record;
    use crate::samples::{report, row, value};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_are_read_as_they_were_written(
            values in prop::collection::vec(prop::option::of(value()), 0..12),
            wanted in prop::collection::vec(any::<bool>(), 12),
            report in report(),
        ) {
            let row = row(values);
            let mut bytes = Record::Decision(Box::new(row.clone())).encode(RecordId(9));
            bytes.extend(Record::Report(report.clone()).encode(RecordId(u64::MAX)));
            let mut reader = RecordReader::new(&bytes);
            let (id, start) = reader.start().unwrap();
            let RecordStart::Decision { head, .. } = start else { panic!("{start:?}") };
            prop_assert_eq!((id, head.pipeline, head.version, head.time), (RecordId(9), "mail", "0123", Time(-7)));
            let slots: Vec<Option<Slot>> =
                wanted.iter().zip(0..).map(|(wanted, slot)| wanted.then_some(Slot(slot))).collect();
            let mut facts = row.facts.clone();
            facts.clear_all();
            reader.facts(&slots, &mut facts).unwrap();
            for (slot, value) in row.facts.values().iter().enumerate() {
                prop_assert_eq!(&facts.values()[slot], &value.clone().filter(|_| wanted[slot]));
            }
            let mut fired = Vec::new();
            let decided = reader.verdict(|rule, shadow| fired.push((rule, shadow))).unwrap();
            prop_assert_eq!((decided.score, decided.action), (2.5, Action::ReviewAfter));
            prop_assert_eq!(fired, [("A", false), ("B", false), ("C", true)]);
            reader.effects().unwrap();
            let (id, start) = reader.start().unwrap();
            let is_right = matches!(&start, RecordStart::Report(read) if **read == report);
            prop_assert!(is_right && id == RecordId(u64::MAX), "{:?}", start);
            prop_assert!(reader.is_at_end());
        }

        #[test]
        fn numbers_are_passed_over_as_they_are_read(
            numbers in prop::collection::vec((any::<u64>(), 0u32..64).prop_map(|(number, by)| number >> by), 0..9),
            behind in prop::collection::vec(any::<u8>(), 0..12),
        ) {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|number| bytes.put_varint(*number));
            // As postcard writes them.
            let each: Vec<Vec<u8>> = numbers.iter().map(|number| postcard::to_stdvec(number).unwrap()).collect();
            prop_assert_eq!(&bytes, &each.concat());
            for (number, each) in numbers.iter().zip(&each) {
                let mut behind = vec![9];
                behind.put_behind([1, 2, 3], *number);
                prop_assert_eq!(behind, [&[9, 1, 2, 3], each.as_slice()].concat());
            }
            bytes.extend(&behind);
            let mut reader = RecordReader::new(&bytes);
            let mut passing = reader;
            for number in numbers {
                prop_assert_eq!(reader.varint().unwrap(), number);
                passing.pass_varint().unwrap();
                prop_assert_eq!(passing.bytes, reader.bytes);
            }
            // What nobody wrote is refused by both, or by neither.
            let (read, passed) = (reader.varint().is_ok(), passing.pass_varint().is_ok());
            prop_assert!(read == passed && (!read || passing.bytes == reader.bytes));
        }

        #[test]
        fn small_parts_are_written_as_they_are(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            let mut out = vec![7];
            postcard::ser_flavors::Flavor::try_extend(&mut VecAppender(&mut out), &bytes).unwrap();
            prop_assert_eq!(&out[1..], &bytes[..]);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), at: prop::sample::Index) {
            let mut mended = Record::Decision(Box::new(row(vec![Some(Value::Bool(true))]))).encode(RecordId(9));
            let at = at.index(mended.len());
            mended.splice(at.., bytes.iter().copied());
            for bytes in [bytes, mended] {
                let mut reader = RecordReader::new(&bytes);
                while let Ok((_, start)) = reader.start() {
                    let RecordStart::Decision { .. } = start else { continue };
                    if reader.facts(&[], &mut Facts::default()).is_err() || reader.verdict(|_, _| ()).is_err() {
                        break;
                    }
                }
            }
        }
    }
}

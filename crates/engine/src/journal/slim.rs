//! Reading of records for those who look at many rows and at little of each: nothing that is passed over is
//! allocated or made. [`Look`] is who looks, at either form of a segment; [`look`] reads rows, whose bytes are those of
//! [`super::record`], field by field.

use event::{Facts, Slot, Time, Value};
use judge::Action;
use serde::Deserialize;

use super::Report;
use crate::id::RecordId;

/// What a value is preceded by in its bytes: the number of its variant.
mod variant {
    pub(super) const STRING: u8 = 0;
    pub(super) const INTEGER: u8 = 1;
    pub(super) const FLOAT: u8 = 2;
    pub(super) const BOOL: u8 = 3;
    pub(super) const TIME: u8 = 4;
    pub(super) const IP: u8 = 5;
    pub(super) const BYTES: u8 = 6;
    pub(super) const LIST: u8 = 7;
}

/// Who looks at records, in their order.
pub(crate) trait Look<'w> {
    /// Of a version whose decisions come: for each fact in order the slot that its value is put in, if any; `None` to
    /// be told of nothing but where they are. Said before the first [`Look::decision`] of the version in a block.
    fn version(&mut self, pipeline: &str, version: &str) -> Option<&'w [Option<Slot>]>;

    /// A decision, and where its facts are put; `None` to pass over them and what was decided.
    fn decision(&mut self, head: &Head<'_>) -> Option<&mut Facts>;

    /// A rule that fired, after the facts.
    fn fired(&mut self, rule: &str, shadow: bool);

    /// What was decided, after the rules.
    fn decided(&mut self, decided: Decided);

    /// What was said of a decision: the class that labels it, `None` if what was said counts nothing or took back what
    /// had been said before.
    fn feedback(&mut self, id: RecordId, decision: RecordId, class: Option<&str>, time: Time);
}

/// Pipeline and version of the record before, and what is wanted of theirs.
type Last<'b, 'w> = Option<(&'b str, &'b str, Option<&'w [Option<Slot>]>)>;

/// Shows so many records to `look`.
pub(super) fn look<'w>(bytes: &[u8], count: u32, look: &mut dyn Look<'w>) -> Result<()> {
    let mut reader = Reader::new(bytes);
    let mut last: Last<'_, 'w> = None;
    for _ in 0..count {
        let (id, start) = reader.start()?;
        let (head, has_effects) = match start {
            Start::Decision { head, has_effects } => (head, has_effects),
            Start::Feedback { decision, class, time } => {
                look.feedback(id, decision, Some(class), time);
                continue;
            }
            Start::Report(report) => {
                look.feedback(id, report.decision, report.label(), report.time);
                continue;
            }
        };
        let wanted = match last {
            Some((pipeline, version, wanted)) if version == head.version && pipeline == head.pipeline => {
                wanted
            }
            _ => look.version(head.pipeline, head.version),
        };
        last = Some((head.pipeline, head.version, wanted));
        match look.decision(&head) {
            Some(facts) => {
                reader.facts(wanted.unwrap_or_default(), facts)?;
                let decided = reader.verdict(|rule, shadow| look.fired(rule, shadow))?;
                look.decided(decided);
            }
            None => {
                reader.facts(&[], &mut Facts::default())?;
                reader.verdict(|_, _| ())?;
            }
        }
        if has_effects {
            reader.effects()?;
        }
    }
    if reader.is_at_end() { Ok(()) } else { Err(Broken) }
}

/// Reads the records of a block one after another.
struct Reader<'b> {
    /// What is still to be read.
    bytes: &'b [u8],
}

/// The beginning of a record.
#[derive(Debug)]
enum Start<'b> {
    /// A decision; [`Reader::facts`] and [`Reader::verdict`] have to follow, and [`Reader::effects`] if there are any.
    Decision { head: Head<'b>, has_effects: bool },
    /// Feedback, whole.
    Feedback { decision: RecordId, class: &'b str, time: Time },
    /// The same of a named reporter.
    Report(Box<Report>),
}

/// What comes before a decision's facts.
#[derive(Debug)]
pub(crate) struct Head<'b> {
    pub(crate) id: RecordId,
    pub(crate) pipeline: &'b str,
    pub(crate) version: &'b str,
    pub(crate) time: Time,
}

/// What was decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided {
    pub(crate) score: f64,
    pub(crate) action: Action,
}

/// The bytes are not those of a record.
#[derive(Debug)]
pub(crate) struct Broken;

type Result<T> = std::result::Result<T, Broken>;

impl<'b> Reader<'b> {
    fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { bytes }
    }

    /// Whether all was read.
    fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    fn start(&mut self) -> Result<(RecordId, Start<'b>)> {
        let (id, kind) = (RecordId(self.varint()?), self.varint()?);
        let start = match kind {
            0 | 2 => {
                let (pipeline, version) = (self.text()?, self.text()?);
                if self.flag()? {
                    self.text()?;
                }
                let time = self.time()?;
                // Arrival, and whether it had been counted before.
                self.varint()?;
                self.flag()?;
                Start::Decision { head: Head { id, pipeline, version, time }, has_effects: kind == 2 }
            }
            1 => {
                let (decision, class) = (RecordId(self.varint()?), self.text()?);
                Start::Feedback { decision, class, time: self.time()? }
            }
            3 => Start::Report(Box::new(self.made()?)),
            _ => return Err(Broken),
        };
        Ok((id, start))
    }

    /// Reads a decision's facts: `wanted` has for each in order the slot of `facts` that it is put in, if any.
    fn facts(&mut self, wanted: &[Option<Slot>], facts: &mut Facts) -> Result<()> {
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
    fn verdict(&mut self, mut fired: impl FnMut(&'b str, bool)) -> Result<Decided> {
        for _ in 0..self.varint()? {
            // Kind, shingle, quality.
            self.varint()?;
            self.varint()?;
            self.varint()?;
            // First and last time.
            for _ in 0..2 {
                if self.flag()? {
                    self.varint()?;
                }
            }
            // Whether the pair was new, the number of counters, their sums.
            self.flag()?;
            self.byte()?;
            for _ in 0..self.varint()? {
                self.varint()?;
            }
        }
        let (score, action) = (self.float()?, self.made::<Action>()?);
        for shadow in [false, true] {
            for _ in 0..self.varint()? {
                fired(self.text()?, shadow);
                self.float()?;
                self.content()?;
                for _ in 0..self.varint()? {
                    self.content()?;
                    if self.flag()? {
                        self.pass_value()?;
                    }
                }
            }
        }
        if self.flag()? {
            // The next band's action and its distance.
            self.varint()?;
            self.float()?;
        }
        Ok(Decided { score, action })
    }

    /// Passes over effects.
    fn effects(&mut self) -> Result<()> {
        self.made::<Vec<judge::Consequence>>().map(drop)
    }

    fn pass_value(&mut self) -> Result<()> {
        match self.byte()? {
            variant::STRING | variant::BYTES => drop(self.content()?),
            variant::INTEGER | variant::TIME => drop(self.varint()?),
            variant::FLOAT => drop(self.float()?),
            variant::BOOL => drop(self.flag()?),
            variant::IP => match self.byte()? {
                0 => drop(self.part(4)?),
                1 => drop(self.part(16)?),
                _ => return Err(Broken),
            },
            variant::LIST => {
                for _ in 0..self.varint()? {
                    self.content()?;
                }
            }
            _ => return Err(Broken),
        }
        Ok(())
    }

    /// A value that is not passed over.
    fn made<T: Deserialize<'b>>(&mut self) -> Result<T> {
        let (value, rest) = postcard::take_from_bytes(self.bytes).map_err(|_| Broken)?;
        self.bytes = rest;
        Ok(value)
    }

    fn part(&mut self, length: usize) -> Result<&'b [u8]> {
        let (part, rest) = self.bytes.split_at_checked(length).ok_or(Broken)?;
        self.bytes = rest;
        Ok(part)
    }

    /// Bytes behind their number.
    fn content(&mut self) -> Result<&'b [u8]> {
        let length = self.varint()?;
        self.part(usize::try_from(length).map_err(|_| Broken)?)
    }

    fn text(&mut self) -> Result<&'b str> {
        std::str::from_utf8(self.content()?).map_err(|_| Broken)
    }

    fn float(&mut self) -> Result<f64> {
        let bytes = self.part(size_of::<f64>())?.try_into().map_err(|_| Broken)?;
        Ok(f64::from_le_bytes(bytes))
    }

    fn flag(&mut self) -> Result<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Broken),
        }
    }

    fn time(&mut self) -> Result<Time> {
        let folded = self.varint()?;
        Ok(Time((folded >> 1) as i64 ^ -((folded & 1) as i64)))
    }

    fn byte(&mut self) -> Result<u8> {
        let (byte, rest) = self.bytes.split_first().ok_or(Broken)?;
        self.bytes = rest;
        Ok(*byte)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::samples::{report, row, value};
    use crate::journal::{Feedback, Record};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_are_read_as_they_were_written(
            values in prop::collection::vec(prop::option::of(value()), 0..12),
            wanted in prop::collection::vec(any::<bool>(), 12),
            report in report(),
        ) {
            let row = row(values);
            let feedback = Feedback { decision: RecordId(3), class: "spam".to_owned(), time: Time(-1) };
            let mut bytes = Record::Decision(Box::new(row.clone())).encode(RecordId(9));
            bytes.extend(Record::Feedback(feedback).encode(RecordId(u64::MAX)));
            bytes.extend(Record::Report(report.clone()).encode(RecordId(7)));
            let mut reader = Reader::new(&bytes);
            let (id, start) = reader.start().unwrap();
            let Start::Decision { head, .. } = start else { panic!("{start:?}") };
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
            prop_assert_eq!((decided.score, decided.action), (2.5, Action::Review));
            prop_assert_eq!(fired, [("A", false), ("B", false), ("C", true)]);
            let (id, start) = reader.start().unwrap();
            let is_right = matches!(
                start, Start::Feedback { decision: RecordId(3), class: "spam", time: Time(-1) }
            );
            prop_assert!(is_right && id == RecordId(u64::MAX), "{:?}", start);
            let (id, start) = reader.start().unwrap();
            let is_right = matches!(&start, Start::Report(read) if **read == report);
            prop_assert!(is_right && id == RecordId(7), "{:?}", start);
            prop_assert!(reader.is_at_end());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), at: prop::sample::Index) {
            let mut mended = Record::Decision(Box::new(row(vec![Some(Value::Bool(true))]))).encode(RecordId(9));
            let at = at.index(mended.len());
            mended.splice(at.., bytes.iter().copied());
            for bytes in [bytes, mended] {
                let mut reader = Reader::new(&bytes);
                while let Ok((_, start)) = reader.start() {
                    let is_row = matches!(start, Start::Decision { .. });
                    if is_row && (reader.facts(&[], &mut Facts::default()).is_err() || reader.verdict(|_, _| ()).is_err()) {
                        break;
                    }
                }
            }
        }
    }
}

//! Details of decisions: what has no column of its own.

use crate::encoding::RecordReader;

/// The parts of a decision that have no column of their own, and their places in its bytes.
pub(super) struct DecisionDetail<'b> {
    /// Facts, missing ones included.
    pub(super) facts: u64,
    /// Facts without a column, rising, and their values.
    pub(super) extras: Vec<(u64, &'b [u8])>,
    pub(super) keys: &'b [u8],
    /// The number of rules that fired, enforced and in shadow, and all of them but their names.
    pub(super) reasons: [(u64, RecordReader<'b>); 2],
    pub(super) next: &'b [u8],
    pub(super) effects: &'b [u8],
}

impl<'b> DecisionDetail<'b> {
    /// The detail as rows have it.
    pub(super) fn read(bytes: &'b [u8]) -> Option<DecisionDetail<'b>> {
        let mut reader = RecordReader::new(bytes);
        let facts = reader.varint().ok().filter(|facts| *facts <= u64::from(u16::MAX))?;
        let mut extras = Vec::new();
        for _ in 0..reader.varint().ok()? {
            extras.push((reader.varint().ok()?, reader.passed(RecordReader::pass_value).ok()?));
        }
        let keys = reader.content().ok()?;
        let mut reasons = [(0, reader); 2];
        for of in &mut reasons {
            let count = reader.varint().ok()?;
            *of = (count, reader);
            for _ in 0..of.0 {
                reader.pass_reason().ok()?;
            }
        }
        let next = reader.passed(RecordReader::pass_next).ok()?;
        let effects = reader.passed(RecordReader::effects).ok()?;
        reader.is_at_end().then_some(DecisionDetail { facts, extras, keys, reasons, next, effects })
    }
}

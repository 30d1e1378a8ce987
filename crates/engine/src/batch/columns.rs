//! Events as columns, and the shingles of a column.

use std::borrow::Cow;
use std::net::IpAddr;

use content::composite::QuotedParts;
use content::network::{self, PrefixLengths};
use content::piece::{self, Normalisation};
use event::{Event, Facts, Secret, Shingle, Slot, Time, Type, Value, dotted};

use plan::KindPlan;

use crate::pipeline::observe::put;

/// Events, one a row: named columns of one length.
///
/// The column `id` is the caller's name for each event, `time` is when it happened, as in [`event::Event`]; any other is
/// the field of its name. What the pipeline has no field for is left out, and so is a value that does not fit.
#[derive(Debug, Default)]
pub struct EventBatch<'a> {
    /// The number of events.
    pub rows: usize,
    /// Names and columns. Of several of one name the last one counts.
    pub columns: Vec<(Cow<'a, str>, BatchColumn<'a>)>,
    /// The caller's name for the whole, if it has one: sent again, nothing of it counts twice.
    pub id: Option<String>,
}

/// A column: cells that rows take in order, or by a code.
#[derive(Debug)]
pub struct BatchColumn<'a> {
    /// The values; one for each row unless there are codes.
    pub cells: BatchCells<'a>,
    /// The index of each row's cell, where many rows share few values. One beyond the cells is no value.
    pub codes: Option<Vec<u32>>,
    /// True for each row that has a value; all have if there is no list.
    pub present: Option<Vec<bool>>,
}

/// The values of a column.
#[derive(Debug)]
pub enum BatchCells<'a> {
    /// Texts.
    Texts(Vec<&'a str>),
    /// Integers.
    Integers(Cow<'a, [i64]>),
    /// Integers of which some may be beyond the largest signed one.
    Unsigned(Cow<'a, [u64]>),
    /// Floats.
    Floats(Cow<'a, [f64]>),
    /// True or false.
    Bools(Vec<bool>),
    /// Microseconds since 1970.
    Times(Cow<'a, [i64]>),
    /// Addresses.
    Ips(Vec<IpAddr>),
    /// Values of any type, or none.
    Values(Vec<Option<Value>>),
}

impl BatchCells<'_> {
    /// Returns the number of cells.
    pub fn len(&self) -> usize {
        match self {
            BatchCells::Texts(cells) => cells.len(),
            BatchCells::Integers(cells) | BatchCells::Times(cells) => cells.len(),
            BatchCells::Unsigned(cells) => cells.len(),
            BatchCells::Floats(cells) => cells.len(),
            BatchCells::Bools(cells) => cells.len(),
            BatchCells::Ips(cells) => cells.len(),
            BatchCells::Values(cells) => cells.len(),
        }
    }

    /// Returns true if there are no cells.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn value(&self, at: usize) -> Option<Value> {
        match self {
            BatchCells::Texts(cells) => cells.get(at).map(|text| Value::from(*text)),
            BatchCells::Integers(cells) => cells.get(at).map(|integer| Value::Integer(*integer)),
            // As in JSON, where a number beyond the integers is text or nothing.
            BatchCells::Unsigned(cells) => cells.get(at).map(|integer| {
                i64::try_from(*integer).map_or_else(|_| Value::from(integer.to_string()), Value::Integer)
            }),
            BatchCells::Floats(cells) => cells.get(at).map(|float| Value::Float(*float)),
            BatchCells::Bools(cells) => cells.get(at).map(|truth| Value::Bool(*truth)),
            BatchCells::Times(cells) => cells.get(at).map(|micros| Value::Time(Time(*micros))),
            BatchCells::Ips(cells) => cells.get(at).map(|ip| Value::from(*ip)),
            BatchCells::Values(cells) => cells.get(at).cloned().flatten(),
        }
    }
}

impl<'a> BatchColumn<'a> {
    /// A column with a value in each row.
    pub fn full(cells: BatchCells<'a>) -> BatchColumn<'a> {
        BatchColumn { cells, codes: None, present: None }
    }

    /// The cell of a row.
    fn cell(&self, row: usize) -> Option<usize> {
        if self.present.as_ref().is_some_and(|present| !present.get(row).copied().unwrap_or(false)) {
            return None;
        }
        match &self.codes {
            Some(codes) => codes.get(row).map(|code| *code as usize),
            None => Some(row),
        }
    }

    /// Returns true if a row has a value.
    pub(crate) fn has(&self, row: usize) -> bool {
        self.cell(row).is_some_and(|cell| match &self.cells {
            BatchCells::Values(cells) => cells.get(cell).is_some_and(Option::is_some),
            cells => cell < cells.len(),
        })
    }

    /// The value of a row.
    pub(super) fn value(&self, row: usize) -> Option<Value> {
        self.cells.value(self.cell(row)?)
    }

    /// Fills the fact of a row, if it has a value that can be one of this type. A value that is of it already goes straight
    /// into the row: see [`crate::pipeline::observe`] on values that are moved.
    #[inline]
    pub(super) fn fill(&self, row: usize, wanted: Type, slot: Slot, facts: &mut Facts) {
        let Some(at) = self.cell(row) else { return };
        match (&self.cells, wanted) {
            (BatchCells::Integers(cells), Type::Integer) => put(facts, slot, cells.get(at).copied()),
            (BatchCells::Texts(cells), Type::String) => put(facts, slot, cells.get(at).copied()),
            (BatchCells::Ips(cells), Type::Ip) => put(facts, slot, cells.get(at).copied()),
            (BatchCells::Floats(cells), Type::Float) => put(facts, slot, cells.get(at).copied()),
            (BatchCells::Bools(cells), Type::Bool) => put(facts, slot, cells.get(at).copied()),
            (cells, wanted) => put(facts, slot, cells.value(at).and_then(|value| value.coerce(wanted))),
        }
    }

    /// The text of a row, without a copy where it is one.
    pub(super) fn text(&self, row: usize) -> Option<Cow<'_, str>> {
        match &self.cells {
            BatchCells::Texts(cells) => cells.get(self.cell(row)?).map(|text| Cow::Borrowed(*text)),
            _ => match self.value(row)?.coerce(Type::String)? {
                Value::String(text) => Some(Cow::Owned(text.into_string())),
                _ => None,
            },
        }
    }

    /// Spreads over the rows what their cells are made into, each cell once.
    fn spread<T: Copy + Default>(&self, rows: usize, of: Vec<Option<T>>) -> RowValues<T> {
        let mut spread = RowValues { values: Vec::with_capacity(rows), missing: None };
        for row in 0..rows {
            match self.cell(row).and_then(|cell| of.get(cell).copied().flatten()) {
                Some(value) => spread.values.push(value),
                None => spread.push_missing(rows),
            }
        }
        spread
    }

    /// Returns true if each row has the cell of its number, so that cells need not be spread.
    fn is_plain(&self) -> bool {
        self.codes.is_none() && self.present.is_none()
    }

    /// The times of the rows; what is no time is missing.
    pub(super) fn times(&self, rows: usize) -> RowValues<i64> {
        let time = |cell| match self.cells.value(cell)?.coerce(Type::Time)? {
            Value::Time(time) => Some(time.0),
            _ => None,
        };
        match &self.cells {
            BatchCells::Times(cells) if self.is_plain() && cells.len() >= rows => {
                RowValues { values: cells[..rows].to_vec(), missing: None }
            }
            cells => self.spread(rows, (0..cells.len()).map(time).collect()),
        }
    }

    /// The units of the rows for a kind's statistic, where the values are first brought to a type.
    pub(super) fn units(&self, rows: usize, wanted: Type, plan: &KindPlan) -> RowValues<i64> {
        let units = |cell| plan.units(&self.cells.value(cell)?.coerce(wanted)?);
        self.spread(rows, (0..self.cells.len()).map(units).collect())
    }

    /// The shingle of each row's only piece, where the value is first brought to a type. Each cell is hashed once,
    /// however many rows share it.
    pub(super) fn shingles(
        &self,
        rows: usize,
        wanted: Type,
        normalise: Normalisation,
        secret: &Secret,
    ) -> RowValues<Shingle> {
        let mut spread = RowValues { values: Vec::with_capacity(rows), missing: None };
        let exact = normalise == Normalisation::Exact;
        match &self.cells {
            BatchCells::Texts(cells) if exact && wanted == Type::String => {
                let hash = |text: &&str| {
                    let text = &text[..text.floor_char_boundary(piece::PIECE_BYTES_MAX)];
                    (!text.is_empty()).then(|| secret.shingle(text.as_bytes()))
                };
                if self.is_plain() && cells.len() >= rows {
                    cells[..rows].iter().for_each(|text| spread.push(hash(text), rows));
                    return spread;
                }
                self.spread(rows, cells.iter().map(hash).collect())
            }
            BatchCells::Integers(cells) if exact && matches!(wanted, Type::String | Type::Integer) => {
                let hash = |integer: &i64| Some(secret.shingle(DecimalDigits::of(*integer).as_bytes()));
                if self.is_plain() && cells.len() >= rows {
                    cells[..rows].iter().for_each(|integer| spread.push(hash(integer), rows));
                    return spread;
                }
                self.spread(rows, cells.iter().map(hash).collect())
            }
            BatchCells::Ips(cells) if exact && matches!(wanted, Type::String | Type::Ip) => {
                let hash = |ip: &IpAddr| {
                    Some(match ip.to_canonical() {
                        IpAddr::V4(ip) => {
                            let (text, length) = dotted(ip);
                            secret.shingle(&text[..length])
                        }
                        IpAddr::V6(ip) => secret.shingle(ip.to_string().as_bytes()),
                    })
                };
                self.spread(rows, cells.iter().map(hash).collect())
            }
            cells => {
                let hash = |cell| {
                    let mut shingle = None;
                    piece::pieces(&cells.value(cell)?.coerce(wanted)?, normalise, &mut |piece| {
                        shingle.get_or_insert_with(|| secret.shingle(piece.as_bytes()));
                    });
                    shingle
                };
                self.spread(rows, (0..cells.len()).map(hash).collect())
            }
        }
    }

    /// The parts that the cells give to pieces of several values, where they are first brought to a type; with prefixes those
    /// of the networks of addresses.
    pub(super) fn parts(
        &self,
        wanted: Type,
        normalise: Normalisation,
        prefixes: Option<PrefixLengths>,
    ) -> ColumnParts<'_, 'a> {
        let mut parts = QuotedParts::default();
        let value = |cell| self.cells.value(cell)?.coerce(if prefixes.is_some() { Type::Ip } else { wanted });
        for cell in 0..self.cells.len() {
            match (&self.cells, prefixes) {
                (BatchCells::Texts(cells), None)
                    if normalise == Normalisation::Exact && wanted == Type::String =>
                {
                    let text = cells[cell];
                    parts.push(&text[..text.floor_char_boundary(piece::PIECE_BYTES_MAX)]);
                }
                (_, Some(prefixes)) => match value(cell) {
                    Some(Value::Ip(ip)) => parts.push(&network::network(ip, prefixes)),
                    _ => parts.push(""),
                },
                (_, None) => {
                    let before = parts.len();
                    if let Some(value) = value(cell) {
                        piece::pieces(&value, normalise, &mut |piece| {
                            if parts.len() == before {
                                parts.push(piece);
                            }
                        });
                    }
                    if parts.len() == before {
                        parts.push("");
                    }
                }
            }
        }
        ColumnParts { column: self, parts }
    }

    /// The shingles of the networks of a column of addresses.
    pub(super) fn networks(
        &self,
        rows: usize,
        prefixes: PrefixLengths,
        secret: &Secret,
    ) -> RowValues<Shingle> {
        let hash = |cell| match self.cells.value(cell)?.coerce(Type::Ip)? {
            Value::Ip(ip) => Some(secret.shingle(network::network(ip, prefixes).as_bytes())),
            _ => None,
        };
        self.spread(rows, (0..self.cells.len()).map(hash).collect())
    }
}

/// The only piece of each cell of a column, as it stands in a piece of several values.
pub(super) struct ColumnParts<'c, 'a> {
    column: &'c BatchColumn<'a>,
    parts: QuotedParts,
}

impl ColumnParts<'_, '_> {
    /// The part of a row; `None` if it has none.
    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<&str> {
        self.parts.get(self.column.cell(row)?)
    }
}

/// A value for each row, or none.
#[derive(Clone, Debug)]
pub(super) struct RowValues<T> {
    /// The values; any value where a row has none.
    values: Vec<T>,
    /// Rows without a value, if there are any.
    missing: Option<Vec<bool>>,
}

impl<T: Copy + Default> RowValues<T> {
    /// No row has a value.
    pub(super) fn none(rows: usize) -> RowValues<T> {
        RowValues { values: vec![T::default(); rows], missing: Some(vec![true; rows]) }
    }

    /// Collects the value of each row.
    pub(super) fn of(values: impl Iterator<Item = Option<T>>, rows: usize) -> RowValues<T> {
        let mut spread = RowValues { values: Vec::with_capacity(rows), missing: None };
        values.for_each(|value| spread.push(value, rows));
        spread
    }

    fn push(&mut self, value: Option<T>, rows: usize) {
        match value {
            Some(value) => self.values.push(value),
            None => self.push_missing(rows),
        }
    }

    fn push_missing(&mut self, rows: usize) {
        self.miss(self.values.len(), rows);
        self.values.push(T::default());
    }

    fn miss(&mut self, row: usize, rows: usize) {
        if let Some(missing) = self.missing.get_or_insert_with(|| vec![false; rows]).get_mut(row) {
            *missing = true;
        }
    }

    /// Takes away the values of the rows that are not kept.
    pub(super) fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        let rows = self.values.len();
        (0..rows).filter(|row| !keep(*row)).for_each(|row| self.miss(row, rows));
    }

    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<T> {
        if self.missing.as_ref().is_some_and(|missing| missing.get(row).copied().unwrap_or(true)) {
            return None;
        }
        self.values.get(row).copied()
    }

    /// Returns the number of rows that have a value.
    pub(super) fn count(&self) -> usize {
        let missing = self.missing.iter().flatten().filter(|missing| **missing).count();
        self.values.len() - missing
    }
}

/// The decimal digits of an integer.
struct DecimalDigits {
    bytes: [u8; 24],
    length: usize,
}

impl DecimalDigits {
    /// Made in registers and written whole: a hash that reads eight bytes where single ones were just written waits until all
    /// stores before them are done.
    #[inline]
    fn of(integer: i64) -> DecimalDigits {
        const EIGHT: u64 = 100_000_000;
        const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);
        let rest = integer.unsigned_abs();
        if rest < EIGHT && integer >= 0 {
            let digits = eight(rest);
            // The first digit that is not 0, or the last one.
            let leading = (digits.trailing_zeros() / 8).min(7);
            return DecimalDigits::new([(digits | ZEROS) >> (leading * 8), 0, 0], 8 - leading as usize);
        }
        let mut words = [rest / EIGHT / EIGHT, rest / EIGHT % EIGHT, rest % EIGHT].map(eight);
        let leading = words.iter().position(|word| *word != 0).unwrap_or(2);
        let mut start = leading * 8 + (words[leading].trailing_zeros() as usize / 8).min(7);
        words.iter_mut().for_each(|word| *word |= ZEROS);
        if integer < 0 {
            start -= 1;
            let shift = start % 8 * 8;
            words[start / 8] = words[start / 8] & !(0xff << shift) | u64::from(b'-') << shift;
        }
        let word = |at: usize| words.get(start / 8 + at).copied().unwrap_or(0);
        let shift = (start % 8 * 8) as u32;
        let shifted = |at: usize| word(at) >> shift | word(at + 1).checked_shl(64 - shift).unwrap_or(0);
        DecimalDigits::new([0, 1, 2].map(shifted), 24 - start)
    }

    #[inline(always)]
    fn new(words: [u64; 3], length: usize) -> DecimalDigits {
        let mut bytes = [0; 24];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        DecimalDigits { bytes, length }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The digits of a number below a hundred million, one a byte, the first one lowest.
#[inline(always)]
fn eight(number: u64) -> u64 {
    // Four digits each in a half of the word, two each in a quarter, one in a byte: the quotient below, the rest above. For
    // numbers as small as these the products with rounded reciprocals have the quotients exactly.
    let fours = number / 10_000 + ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (twos - tens * 10) << 8
}

impl EventBatch<'_> {
    /// The columns of some events, of which each value keeps its type. Raw messages are not looked at.
    pub fn of_events(events: Vec<Event>) -> EventBatch<'static> {
        let rows = events.len();
        let mut columns: Vec<(String, Vec<Option<Value>>)> =
            vec![("id".to_owned(), vec![None; rows]), ("time".to_owned(), vec![None; rows])];
        let mut places = std::collections::HashMap::new();
        for (row, event) in events.into_iter().enumerate() {
            columns[0].1[row] = event.id.map(Value::from);
            columns[1].1[row] = event.time.map(Value::Time);
            for (name, value) in event.fields {
                let place = match places.get(&name) {
                    Some(place) => *place,
                    None => {
                        columns.push((name.clone().into_owned(), vec![None; rows]));
                        places.insert(name, columns.len() - 1);
                        columns.len() - 1
                    }
                };
                columns[place].1[row] = Some(value);
            }
        }
        let columns = columns
            .into_iter()
            .map(|(name, values)| (Cow::Owned(name), BatchColumn::full(BatchCells::Values(values))))
            .collect();
        EventBatch { rows, columns, id: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(cells: BatchCells<'_>) -> BatchColumn<'_> {
        BatchColumn::full(cells)
    }

    /// A column's keys are those of its values one by one, in any storage.
    #[track_caller]
    fn check(column: &BatchColumn<'_>, rows: usize, wanted: Type, normalise: Normalisation) {
        let secret = Secret::new([3; 16]);
        let found = column.shingles(rows, wanted, normalise, &secret);
        for row in 0..rows {
            let mut expected = None;
            if let Some(value) = column.value(row).and_then(|value| value.coerce(wanted)) {
                piece::pieces(&value, normalise, &mut |piece| {
                    expected = Some(secret.shingle(piece.as_bytes()))
                });
            }
            assert_eq!(found.get(row), expected, "row {row} of {column:?}");
        }
    }

    #[test]
    fn columns_are_hashed_as_their_values_are() {
        use Normalisation::{Exact, Host, Text};
        let texts = || BatchCells::Texts(vec!["a", "", "42", "192.0.2.7", "https://WWW.example.com/x"]);
        for wanted in [Type::String, Type::Integer, Type::Ip, Type::Time] {
            check(&column(texts()), 5, wanted, Exact);
        }
        check(&column(texts()), 5, Type::String, Text);
        check(&column(texts()), 5, Type::String, Host);
        let integers = || BatchCells::Integers(Cow::Owned(vec![0, -1, 7, i64::MIN, i64::MAX]));
        for wanted in [Type::String, Type::Integer, Type::Float, Type::Time, Type::Bool] {
            check(&column(integers()), 5, wanted, Exact);
        }
        check(&column(BatchCells::Unsigned(Cow::Owned(vec![1, u64::MAX]))), 2, Type::String, Exact);
        check(&column(BatchCells::Unsigned(Cow::Owned(vec![1, u64::MAX]))), 2, Type::Integer, Exact);
        check(&column(BatchCells::Floats(Cow::Owned(vec![0.5, f64::NAN]))), 2, Type::String, Exact);
        check(&column(BatchCells::Bools(vec![true, false])), 2, Type::String, Exact);
        check(&column(BatchCells::Times(Cow::Owned(vec![0, 1]))), 2, Type::Time, Exact);
        let ips = ["192.0.2.7", "::ffff:192.0.2.7", "2001:db8::1"].map(|ip| ip.parse().unwrap()).to_vec();
        check(&column(BatchCells::Ips(ips.clone())), 3, Type::Ip, Exact);
        check(&column(BatchCells::Ips(ips)), 3, Type::String, Exact);
        let coded = BatchColumn {
            cells: texts(),
            codes: Some(vec![4, 0, 9, 0]),
            present: Some(vec![true, true, true, false]),
        };
        check(&coded, 4, Type::String, Exact);
    }

    #[test]
    fn digits_are_those_of_the_integer() {
        let check =
            |integer: i64| assert_eq!(DecimalDigits::of(integer).as_bytes(), integer.to_string().as_bytes());
        for power in (0..=18).map(|digits| 10i64.pow(digits)) {
            for number in [power - 1, power, power + 1, 2 * (power / 2) + 7] {
                check(number);
                check(-number);
            }
        }
        [i64::MIN, i64::MIN + 1, i64::MAX].into_iter().for_each(check);
        for part in 0..10_000 {
            let around = [part, part * 10_000, part * 10_001, part * 100_000_000 + 9, part * 100_010_001];
            around.into_iter().for_each(check);
            let [first @ .., _, _, _, _] = eight(part as u64 * 10_001).to_le_bytes();
            let [_, _, _, _, last @ ..] = eight(part as u64).to_le_bytes();
            assert_eq!(first, last, "{part}");
        }
        let mut random = 1u64;
        for _ in 0..100_000 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            check(random.cast_signed() >> (random >> 58));
        }
    }

    #[test]
    fn rows_beyond_the_cells_have_no_value() {
        let secret = Secret::new([3; 16]);
        let short = column(BatchCells::Texts(vec!["a"]));
        let found = short.shingles(3, Type::String, Normalisation::Exact, &secret);
        assert_eq!((found.count(), found.get(0).is_some(), found.get(2)), (1, true, None));
        assert_eq!(column(BatchCells::Times(Cow::Owned(vec![5]))).times(2).get(1), None);
    }

    #[test]
    fn events_become_columns() {
        let mut one = Event { id: Some("a".into()), ..Event::default() };
        one.push("user", "ann");
        one.push("user", "bob");
        let mut other = Event { time: Some(Time(5)), ..Event::default() };
        other.push("size", 3i64);
        let batch = EventBatch::of_events(vec![one, other]);
        let value = |name: &str, row| {
            let column = batch.columns.iter().find(|(own, _)| own == name).unwrap();
            column.1.value(row)
        };
        assert_eq!((value("id", 0), value("id", 1)), (Some(Value::from("a")), None));
        assert_eq!((value("user", 0), value("user", 1)), (Some(Value::from("bob")), None));
        assert_eq!(
            (value("time", 1), value("size", 1)),
            (Some(Value::Time(Time(5))), Some(Value::Integer(3)))
        );
    }
}

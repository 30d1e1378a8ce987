//! The rows of a group that a visitor wants, found column by column.
//!
//! ```text
//! decisions ─► wanted versions ─► action, score, rules, name of the event, id ─► tests of facts ─► rows
//! ```
//!
//! A text lies in one place for all rows that have it by a dictionary, and is tested once for all of them. Where no row is left,
//! no further column is read.

use super::look::{ColumnsOfGroup, GroupVersions, SharedCursor};
use super::own;
use super::reader::ColumnEntry;
use crate::format::SegmentError;
use crate::id::RecordId;
use crate::visitor::{FactTest, RowQuery};

/// Bytes of texts of a column for which it is noted which were tested: dictionaries are shorter.
const NOTED_BYTES_MAX: usize = 256 << 10;

/// The rows of a group that are wanted.
pub(super) struct RowSelection {
    /// Rising.
    pub(super) rows: Vec<usize>,
}

impl RowSelection {
    /// Finds the decisions of a group that have what is asked for, as far as single columns tell.
    pub(super) fn of(
        columns: &mut ColumnsOfGroup<'_>,
        query: &RowQuery<'_>,
        versions: &GroupVersions<'_>,
    ) -> Result<RowSelection, SegmentError> {
        let of = |row: usize| versions.of(row).and_then(|number| versions.all.get(number));
        let is_wanted = |row: &usize| of(*row).is_some_and(|version| version.is_wanted);
        let all = 0..columns.group().rows as usize;
        let mut rows = RowSelection { rows: all.filter(is_wanted).collect() };
        rows.retain_by_verdict(columns, query)?;
        rows.retain_by_id(columns, query)?;
        // A fact may lie beside its column.
        if !columns.group().extras {
            rows.retain_by_facts(columns, versions)?;
        }
        Ok(rows)
    }

    fn retain_by_verdict(
        &mut self,
        columns: &mut ColumnsOfGroup<'_>,
        query: &RowQuery<'_>,
    ) -> Result<(), SegmentError> {
        if !query.actions.is_empty() {
            let mut has = |entry: ColumnEntry<'_>| Some(query.has_action(entry.text()?.parse().ok()?));
            self.retain(columns, &[own::ACTION], &mut has)?;
        }
        if query.score_from.is_some() || query.score_below.is_some() {
            self.retain(columns, &[own::SCORE], &mut |entry| Some(query.has_score(entry.float()?)))?;
        }
        if query.event_id.is_some() {
            self.retain(columns, &[own::EVENT_ID], &mut |entry| Some(query.has_event_id(entry.text())))?;
        }
        if query.rule.is_some() {
            let mut has = |entry: ColumnEntry<'_>| {
                entry.items().try_fold(false, |has, rule| Some(has || query.has_rule(rule?)))
            };
            self.retain(columns, &[own::RULES, own::SHADOW], &mut has)?;
        }
        Ok(())
    }

    fn retain_by_id(
        &mut self,
        columns: &mut ColumnsOfGroup<'_>,
        query: &RowQuery<'_>,
    ) -> Result<(), SegmentError> {
        let (first, last) = (columns.group().first, columns.group().last);
        if query.ids.contains(first) && query.ids.contains(last) {
            return Ok(());
        }
        let mut is_in =
            |entry: ColumnEntry<'_>| Some(query.ids.contains(entry.text()?.parse::<RecordId>().ok()?));
        self.retain(columns, &[own::ID], &mut is_in)
    }

    fn retain_by_facts(
        &mut self,
        columns: &mut ColumnsOfGroup<'_>,
        versions: &GroupVersions<'_>,
    ) -> Result<(), SegmentError> {
        for (number, version) in versions.all.iter().enumerate() {
            for test in version.tests {
                let of_version = self.rows.iter().filter(|row| versions.of(**row) == Some(number));
                let mut open = OpenRows::new(of_version);
                if open.0.is_empty() {
                    break;
                }
                for fact in test.facts() {
                    let column = version.column(*fact).map(|column| columns.whole(column)).transpose()?;
                    open.test_fact(column, &**test).ok_or_else(|| columns.damaged())?;
                }
                self.drop_open(&open);
            }
        }
        Ok(())
    }

    /// Keeps the rows of which one of these columns passes.
    fn retain(
        &mut self,
        columns: &mut ColumnsOfGroup<'_>,
        of: &[usize],
        passes: &mut dyn FnMut(ColumnEntry<'_>) -> Option<bool>,
    ) -> Result<(), SegmentError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut open = OpenRows::new(self.rows.iter());
        for column in of {
            let column = columns.whole(*column)?;
            open.test(Some(column), passes).ok_or_else(|| columns.damaged())?;
        }
        self.drop_open(&open);
        Ok(())
    }

    /// Drops those of tested rows of which nothing has passed.
    fn drop_open(&mut self, open: &OpenRows) {
        let mut open = open.0.iter().filter(|row| !row.has_passed).map(|row| row.number).peekable();
        self.rows.retain(|row| open.next_if_eq(row).is_none());
    }
}

/// The rows that a test is for, rising.
struct OpenRows(Vec<OpenRow>);

struct OpenRow {
    number: usize,
    has_passed: bool,
}

impl OpenRows {
    fn new<'r>(rows: impl Iterator<Item = &'r usize>) -> OpenRows {
        OpenRows(rows.map(|number| OpenRow { number: *number, has_passed: false }).collect())
    }

    /// Tests a fact of open rows, one by one only where nothing tells of all at once. `None` if a value is none of its type.
    fn test_fact(&mut self, column: Option<SharedCursor>, test: &dyn FactTest) -> Option<()> {
        let mut places = None;
        if let Some(column) = &column {
            if let Some(only) = test.only(column.kind()) {
                column.rows_with(only, &mut |row| self.pass(row));
                return Some(());
            }
            places = test.places_among(column.kind(), column.texts());
        }
        match places {
            None => self.test(column, &mut |entry| test.passes(&entry)),
            Some(places) if places.is_empty() => Some(()),
            Some(places) => self.test(column, &mut |entry| match entry.has_any_place(&places) {
                true => test.passes(&entry),
                false => Some(false),
            }),
        }
    }

    /// Notes that a row has passed, if it is among these.
    fn pass(&mut self, row: usize) {
        if let Ok(place) = self.0.binary_search_by_key(&row, |row| row.number) {
            self.0[place].has_passed = true;
        }
    }

    /// Tests a column's values of open rows; without a column all are missing. `None` if a value is none of its type.
    fn test(
        &mut self,
        mut column: Option<SharedCursor>,
        passes: &mut dyn FnMut(ColumnEntry<'_>) -> Option<bool>,
    ) -> Option<()> {
        let mut answers = AnswerMemo::new(column.as_ref().map_or(0, |column| column.texts().len()));
        let mut next = 0;
        for row in self.0.iter_mut().filter(|row| !row.has_passed) {
            let entry = match &mut column {
                Some(cursor) => {
                    cursor.pass(row.number - next);
                    cursor.next()
                }
                None => ColumnEntry::missing(),
            };
            next = row.number + 1;
            row.has_passed = answers.of(entry, passes)?;
        }
        Some(())
    }
}

/// The answers of a test to values of a column.
struct AnswerMemo {
    missing: Option<bool>,
    /// The answer to the value before, by the number that tells it.
    last: Option<(u64, bool)>,
    /// The answers to texts by a quarter of the place where each begins: in front of each are four bytes with its length.
    texts: Vec<Option<bool>>,
}

impl AnswerMemo {
    /// Makes one for a column whose texts take so many bytes.
    fn new(bytes: usize) -> AnswerMemo {
        let noted = if bytes <= NOTED_BYTES_MAX { bytes / 4 + 1 } else { 0 };
        AnswerMemo { missing: None, last: None, texts: vec![None; noted] }
    }

    fn of(
        &mut self,
        entry: ColumnEntry<'_>,
        passes: &mut dyn FnMut(ColumnEntry<'_>) -> Option<bool>,
    ) -> Option<bool> {
        if entry.is_missing() {
            if self.missing.is_none() {
                self.missing = Some(passes(entry)?);
            }
            return self.missing;
        }
        let Some(place) = entry.place() else { return passes(entry) };
        if let Some((last, answer)) = self.last
            && last == place
        {
            return Some(answer);
        }
        let noted = match entry.is_text() {
            true => usize::try_from(place / 4).ok().and_then(|place| self.texts.get_mut(place)),
            false => None,
        };
        let answer = match noted {
            Some(Some(answer)) => *answer,
            Some(noted) => *noted.insert(passes(entry)?),
            None => passes(entry)?,
        };
        self.last = Some((place, answer));
        Some(answer)
    }
}

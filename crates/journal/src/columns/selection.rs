//! The rows of a group that a visitor wants, found column by column.
//!
//! ```text
//! decisions ─► wanted versions ─► action, score, rules, name of the event, id ─► tests of facts ─► rows
//! ```
//!
//! A text lies in one place for all rows that have it by a dictionary, and is tested once for all of them. Where no row is left,
//! no further column is read.

use super::cursor::ColumnEntry;
use super::group_columns::{ColumnsOfGroup, SharedCursor};
use super::own;
use super::versions::GroupVersions;
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
        let all = 0..columns.group().rows as usize;
        let mut rows = RowSelection { rows: versions.rows(all, |_, version| version.is_wanted) };
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
                let mut open = OpenRows::new(versions.rows(self.rows.iter().copied(), |of, _| of == number));
                if open.rows.is_empty() {
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
        let mut open = OpenRows::new(self.rows.clone());
        for column in of {
            let column = columns.whole(*column)?;
            open.test(Some(column), passes).ok_or_else(|| columns.damaged())?;
        }
        self.drop_open(&open);
        Ok(())
    }

    /// Drops those of tested rows of which nothing has passed.
    fn drop_open(&mut self, open: &OpenRows) {
        let open = open.rows.iter().zip(&open.have_passed).filter(|(_, has_passed)| !**has_passed);
        let mut open = open.map(|(row, _)| *row).peekable();
        self.rows.retain(|row| open.next_if_eq(row).is_none());
    }
}

/// The rows that a test is for.
struct OpenRows {
    /// Rising.
    rows: Vec<usize>,
    /// The rows of which something has passed.
    have_passed: Vec<bool>,
}

impl OpenRows {
    fn new(rows: Vec<usize>) -> OpenRows {
        let have_passed = vec![false; rows.len()];
        OpenRows { rows, have_passed }
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
            Some(places) => match column.as_ref().and_then(|column| column.rows_around(&places)) {
                None => self.test(column, &mut |entry| match entry.has_any_place(&places) {
                    true => test.passes(&entry),
                    false => Some(false),
                }),
                Some(rows) => self.test_among(column, rows, &mut |entry| test.passes(&entry)),
            },
        }
    }

    /// Notes that a row has passed, if it is among these.
    fn pass(&mut self, row: usize) {
        if let Ok(place) = self.rows.binary_search(&row) {
            self.have_passed[place] = true;
        }
    }

    /// Tests a column's values of those of these rows that are open. `None` if a value is none of its type.
    fn test_among(
        &mut self,
        column: Option<SharedCursor>,
        rows: Vec<usize>,
        passes: &mut dyn FnMut(ColumnEntry<'_>) -> Option<bool>,
    ) -> Option<()> {
        let is_open = |row: &usize| self.rows.binary_search(row).is_ok_and(|place| !self.have_passed[place]);
        let mut among = OpenRows::new(rows.into_iter().filter(is_open).collect());
        among.test(column, passes)?;
        let passed = among.rows.iter().zip(&among.have_passed).filter(|(_, has_passed)| **has_passed);
        passed.for_each(|(row, _)| self.pass(*row));
        Some(())
    }

    /// Tests a column's values of open rows; without a column all are missing. `None` if a value is none of its type.
    fn test(
        &mut self,
        mut column: Option<SharedCursor>,
        passes: &mut dyn FnMut(ColumnEntry<'_>) -> Option<bool>,
    ) -> Option<()> {
        let mut answers = AnswerMemo::new(column.as_ref().map_or(0, |column| column.texts().len()));
        let mut next = 0;
        for (row, has_passed) in self.rows.iter().zip(&mut self.have_passed) {
            if *has_passed {
                continue;
            }
            let entry = match &mut column {
                Some(cursor) => {
                    cursor.pass(row - next);
                    cursor.next()
                }
                None => ColumnEntry::missing(),
            };
            next = row + 1;
            *has_passed = answers.of(entry, passes)?;
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

//! Shows the rows of a group to a visitor, and reads no more than that wants.

use std::ops::Range;
use std::sync::Arc;

use event::{Facts, Slot, Time, Value};
use judge::Action;

use super::kept_pages::{KeptPages, PageMemory};
use super::pages::DecodedChunk;
use super::reader::{BUDGET, ColumnCursor, ColumnEntry, ColumnarSegment, DecisionDetail, FEW};
use super::selection::RowSelection;
use super::{OWN, ReportDetail, RowGroup, own};
use crate::encoding::{DecisionHead, DecisionOutcome};
use crate::format::SegmentError;
use crate::id::RecordId;
use crate::keys;
use crate::record::counted;
use crate::visitor::{FactTest, RecordVisitor};

/// The number of a report's version: it has none.
const NO_VERSION: u32 = u32::MAX;

impl ColumnarSegment {
    /// Shows a group to `look`, and reads no more than that wants.
    pub(crate) fn look<'w>(
        &self,
        (number, read): (usize, &mut ReadColumns),
        look: &mut dyn RecordVisitor<'w>,
    ) -> Result<(), SegmentError> {
        let Some(mut columns) = self.columns_of(number, read) else { return Ok(()) };
        let group = columns.group;
        let versions = GroupVersions::read(&mut columns, look)?;
        let all = 0..group.rows as usize;
        let Some(query) = look.query() else {
            let mut cursors = RowCursors::open(&mut columns, all.clone(), &versions, look)?;
            let mut rows = all;
            return rows.try_for_each(|row| cursors.show(row, look)).ok_or_else(|| columns.damaged());
        };
        let rows = RowSelection::of(&mut columns, &query, &versions)?.rows;
        if rows.len() > FEW {
            return show_rows(&mut columns, all, &rows, &versions, look);
        }
        rows.iter().try_for_each(|row| show_rows(&mut columns, *row..row + 1, &[*row], &versions, look))
    }
}

/// Shows some rows of a part of a group, which is decoded for that.
fn show_rows<'w>(
    columns: &mut ColumnsOfGroup<'_>,
    part: Range<usize>,
    rows: &[usize],
    versions: &GroupVersions<'w>,
    look: &mut dyn RecordVisitor<'w>,
) -> Result<(), SegmentError> {
    let mut next = part.start;
    let mut cursors = RowCursors::open(columns, part, versions, look)?;
    for row in rows {
        cursors.pass(row - next);
        cursors.show(*row, look).ok_or_else(|| columns.damaged())?;
        next = row + 1;
    }
    Ok(())
}

/// The columns of a group that were read so far: who looks at a group and then takes records from it reads each once. A copy shares
/// their content.
#[derive(Clone, Debug)]
pub(crate) struct ReadColumns {
    budget: usize,
    /// The columns by their numbers, as far as one of them was read.
    columns: Vec<ReadColumn>,
}

/// A column, as far as it was read.
#[derive(Clone, Debug, Default)]
enum ReadColumn {
    #[default]
    Unread,
    /// The bytes that are stored, with those pages of which a row was read alone.
    Stored(Arc<Vec<u8>>, KeptPages),
    /// All of its rows.
    Decoded(Arc<DecodedChunk>),
}

impl ReadColumns {
    /// The bytes of one column as they are stored.
    #[cfg(test)]
    pub(super) fn of_stored(column: usize, bytes: Vec<u8>) -> ReadColumns {
        let mut read = ReadColumns::default();
        *read.column(column) = ReadColumn::Stored(Arc::new(bytes), KeptPages::default());
        read
    }

    /// Bytes that it takes up in memory, about.
    pub(super) fn bytes(&self) -> usize {
        let of = |column: &ReadColumn| match column {
            ReadColumn::Unread => 0,
            ReadColumn::Stored(bytes, kept) => bytes.len() + kept.memory(),
            ReadColumn::Decoded(chunk) => chunk.memory(),
        };
        self.columns.iter().map(of).sum()
    }

    fn column(&mut self, number: usize) -> &mut ReadColumn {
        if self.columns.len() <= number {
            self.columns.resize_with(number + 1, ReadColumn::default);
        }
        &mut self.columns[number]
    }

    /// Adds what others have read of the group.
    pub(super) fn add(&mut self, others: ReadColumns) {
        for (number, other) in others.columns.into_iter().enumerate() {
            let own = self.column(number);
            match (&mut *own, other) {
                (ReadColumn::Decoded(_), _) | (_, ReadColumn::Unread) => {}
                (ReadColumn::Stored(_, kept), ReadColumn::Stored(_, more)) => kept.add(more),
                (_, other) => *own = other,
            }
        }
    }

    /// Has as much memory again as at first, as what was read is at rest.
    pub(super) fn rest(&mut self) {
        self.budget = BUDGET;
    }
}

impl Default for ReadColumns {
    fn default() -> ReadColumns {
        ReadColumns { budget: BUDGET, columns: Vec::new() }
    }
}

/// The columns of a group.
pub(super) struct ColumnsOfGroup<'s> {
    segment: &'s ColumnarSegment,
    group: &'s RowGroup,
    read: &'s mut ReadColumns,
}

/// Goes through a column that others go through, too.
pub(super) type SharedCursor = ColumnCursor<Arc<DecodedChunk>>;

impl<'s> ColumnsOfGroup<'s> {
    pub(super) fn new(
        segment: &'s ColumnarSegment,
        group: &'s RowGroup,
        read: &'s mut ReadColumns,
    ) -> ColumnsOfGroup<'s> {
        ColumnsOfGroup { segment, group, read }
    }

    pub(super) fn group(&self) -> &'s RowGroup {
        self.group
    }

    pub(super) fn damaged(&self) -> SegmentError {
        SegmentError::Damaged(self.group.at)
    }

    /// Goes through all rows of a column.
    pub(super) fn whole(&mut self, column: usize) -> Result<SharedCursor, SegmentError> {
        self.cursor(column, 0..self.group.rows as usize)
    }

    /// Goes through some rows of a column. Only their pages are decoded, unless all were before.
    pub(super) fn cursor(&mut self, column: usize, rows: Range<usize>) -> Result<SharedCursor, SegmentError> {
        let kind = self.segment.kind(column);
        if let ReadColumn::Decoded(chunk) = self.read.column(column) {
            let mut cursor = ColumnCursor::of(kind, Arc::clone(chunk));
            cursor.pass(rows.start);
            return Ok(cursor);
        }
        let is_whole = rows.len() == self.group.rows as usize;
        let (segment, group) = (self.segment, self.group);
        let (stored, mut memory) = self.stored(column)?;
        let chunk = segment.decode(group, (column, stored), rows, &mut memory)?;
        let chunk = Arc::new(chunk);
        if is_whole {
            *self.read.column(column) = ReadColumn::Decoded(Arc::clone(&chunk));
        }
        Ok(ColumnCursor::of(kind, chunk))
    }

    /// The bytes of a column as they are stored, and the memory to decode them with.
    pub(super) fn stored(&mut self, column: usize) -> Result<(&[u8], PageMemory<'_>), SegmentError> {
        if !matches!(self.read.column(column), ReadColumn::Stored(..)) {
            let bytes = Arc::new(self.segment.column_bytes(self.group, column)?);
            *self.read.column(column) = ReadColumn::Stored(bytes, KeptPages::default());
        }
        let ReadColumns { budget, columns } = &mut *self.read;
        let Some(ReadColumn::Stored(stored, kept)) = columns.get_mut(column) else {
            unreachable!("it was put there");
        };
        Ok((stored, PageMemory { budget, kept }))
    }

    fn cursors<const N: usize>(
        &mut self,
        columns: [usize; N],
        rows: &Range<usize>,
    ) -> Result<[SharedCursor; N], SegmentError> {
        let cursors = columns.into_iter().map(|column| self.cursor(column, rows.clone()));
        let cursors = cursors.collect::<Result<Vec<_>, _>>()?;
        // There are as many as columns.
        cursors.try_into().map_err(|_| self.damaged())
    }

    fn cursor_if(
        &mut self,
        is_wanted: bool,
        column: usize,
        rows: &Range<usize>,
    ) -> Result<Option<SharedCursor>, SegmentError> {
        is_wanted.then(|| self.cursor(column, rows.clone())).transpose()
    }
}

/// The parts of a version's decisions that are wanted.
pub(super) struct VersionProjection<'w> {
    pipeline: String,
    version: String,
    pub(super) is_wanted: bool,
    /// The slot of each fact.
    facts: &'w [Option<Slot>],
    /// The slot of each column of facts.
    slots: Vec<Option<Slot>>,
    /// The column of each fact.
    columns: Vec<Option<u32>>,
    pub(super) tests: &'w [Box<dyn FactTest>],
}

impl<'w> VersionProjection<'w> {
    /// `None` for a layout that says what cannot be.
    fn new(
        (pipeline, version): (&str, &str),
        layout: &super::ColumnLayout,
        look: &mut dyn RecordVisitor<'w>,
    ) -> Option<VersionProjection<'w>> {
        let facts = look.version(pipeline, version);
        let columns = layout.version(version).map(|layout| layout.slots.clone()).unwrap_or_default();
        let mut slots = vec![None; layout.facts.len()];
        for (column, slot) in columns.iter().zip(facts.unwrap_or_default()) {
            if let Some(column) = column {
                *slots.get_mut(*column as usize)? = *slot;
            }
        }
        Some(VersionProjection {
            pipeline: pipeline.to_owned(),
            version: version.to_owned(),
            is_wanted: facts.is_some(),
            facts: facts.unwrap_or_default(),
            slots,
            columns,
            tests: look.tests(pipeline, version),
        })
    }

    fn is(&self, (pipeline, version): (&str, &str)) -> bool {
        self.version == version && self.pipeline == pipeline
    }

    fn slot(&self, column: usize) -> Option<Slot> {
        self.slots.get(column).copied().flatten()
    }

    /// The column of a fact among all of the file.
    pub(super) fn column(&self, fact: Slot) -> Option<usize> {
        let column = self.columns.get(usize::from(fact.0)).copied().flatten()?;
        Some(OWN.len() + column as usize)
    }

    fn set_extras(&self, detail: ColumnEntry<'_>, row: &mut Facts) -> Option<()> {
        let DecisionDetail { extras, .. } = DecisionDetail::read(detail.bytes()?)?;
        for (fact, value) in extras {
            let slot = usize::try_from(fact).ok().and_then(|fact| self.facts.get(fact).copied().flatten());
            if let Some(slot) = slot {
                row.set(slot, postcard::from_bytes::<Value>(value).ok()?);
            }
        }
        Some(())
    }
}

/// The versions of a group's decisions, and which row is of which.
pub(super) struct GroupVersions<'w> {
    pub(super) all: Vec<VersionProjection<'w>>,
    /// The number of each row's version, or the one of all rows; [`NO_VERSION`] of reports.
    of_rows: Vec<u32>,
}

impl<'w> GroupVersions<'w> {
    fn read(
        columns: &mut ColumnsOfGroup<'_>,
        look: &mut dyn RecordVisitor<'w>,
    ) -> Result<GroupVersions<'w>, SegmentError> {
        let rows = columns.group.rows as usize;
        let mut names = columns.cursors([own::WHAT, own::PIPELINE, own::VERSION], &(0..rows))?;
        let mut versions = GroupVersions { all: Vec::new(), of_rows: Vec::with_capacity(rows) };
        let layout = &columns.segment.index.layout;
        let mut before = None;
        let are_alike = names.iter().all(ColumnCursor::is_uniform);
        for _ in 0..if are_alike { rows.min(1) } else { rows } {
            let row = names.each_mut().map(ColumnCursor::next);
            // Neighbours are mostly of one version, and their names lie in one place.
            let places = row.map(|entry| entry.place());
            let number = match before {
                Some((same, number)) if same == places => number,
                _ => versions.number(row, layout, look).ok_or_else(|| columns.damaged())?,
            };
            before = Some((places, number));
            versions.of_rows.push(number);
        }
        Ok(versions)
    }

    /// The number of a row's version.
    fn of(&self, row: usize) -> Option<usize> {
        let number = match &self.of_rows[..] {
            [only] => *only,
            of_rows => *of_rows.get(row)?,
        };
        Some(number as usize)
    }

    /// The rows among these whose version is one that `is_wanted`.
    pub(super) fn rows(
        &self,
        rows: impl Iterator<Item = usize>,
        is_wanted: impl Fn(usize, &VersionProjection<'w>) -> bool,
    ) -> Vec<usize> {
        let has = |number: usize| self.all.get(number).is_some_and(|version| is_wanted(number, version));
        match &self.of_rows[..] {
            // Most groups have decisions of one version alone.
            [only] if has(*only as usize) => rows.collect(),
            [_] => Vec::new(),
            of_rows => rows.filter(|row| of_rows.get(*row).is_some_and(|of| has(*of as usize))).collect(),
        }
    }

    /// The number of a row's version, which is added if it is new.
    fn number(
        &mut self,
        [what, pipeline, version]: [ColumnEntry<'_>; 3],
        layout: &super::ColumnLayout,
        look: &mut dyn RecordVisitor<'w>,
    ) -> Option<u32> {
        if what.text().is_some_and(|what| super::REPORTS.contains(&what)) {
            return Some(NO_VERSION);
        }
        let names = (pipeline.text()?, version.text()?);
        let known = self.all.iter().position(|version| version.is(names));
        let number = match known {
            Some(number) => number,
            None => {
                self.all.push(VersionProjection::new(names, layout, look)?);
                self.all.len() - 1
            }
        };
        u32::try_from(number).ok()
    }
}

/// Goes through the columns of a group that a visitor wants.
struct RowCursors<'v, 'w> {
    versions: &'v GroupVersions<'w>,
    id: SharedCursor,
    time: SharedCursor,
    /// The columns of reports; not there if none is wanted.
    report: Option<[SharedCursor; 3]>,
    event_id: Option<SharedCursor>,
    verdict: Option<[SharedCursor; 4]>,
    probability: Option<SharedCursor>,
    detail: Option<SharedCursor>,
    has_extras: bool,
    wants_keys: bool,
    wants_signals: bool,
    /// The columns of facts that are read, each with its place among them.
    facts: Vec<(usize, SharedCursor)>,
}

impl<'v, 'w> RowCursors<'v, 'w> {
    fn open(
        columns: &mut ColumnsOfGroup<'_>,
        rows: Range<usize>,
        versions: &'v GroupVersions<'w>,
        look: &dyn RecordVisitor<'w>,
    ) -> Result<RowCursors<'v, 'w>, SegmentError> {
        let [id, time] = columns.cursors([own::ID, own::TIME], &rows)?;
        let report = match look.query() {
            None => Some(columns.cursors([own::WHAT, own::DECISION, own::CLASS], &rows)?),
            Some(_) => None,
        };
        let wants_signals =
            look.wants_signals() && report.as_ref().is_some_and(|[what, ..]| has_signals(what));
        let are_wanted = versions.all.iter().any(|version| version.is_wanted);
        let verdict = match are_wanted {
            true => Some(columns.cursors([own::SCORE, own::ACTION, own::RULES, own::SHADOW], &rows)?),
            false => None,
        };
        let (has_extras, wants_keys) = (are_wanted && columns.group.extras, are_wanted && look.wants_keys());
        let wants_detail = wants_signals || wants_keys || has_extras;
        let mut facts = Vec::new();
        for column in 0..columns.segment.index.layout.facts.len() {
            if versions.all.iter().any(|version| version.slot(column).is_some()) {
                facts.push((column, columns.cursor(OWN.len() + column, rows.clone())?));
            }
        }
        Ok(RowCursors {
            versions,
            id,
            time,
            report,
            event_id: columns.cursor_if(look.wants_event_ids(), own::EVENT_ID, &rows)?,
            verdict,
            probability: columns.cursor_if(
                are_wanted && look.wants_probabilities(),
                own::PROBABILITY,
                &rows,
            )?,
            detail: columns.cursor_if(wants_detail, own::DETAIL, &rows)?,
            has_extras,
            wants_keys,
            wants_signals,
            facts,
        })
    }

    /// Passes over so many rows.
    fn pass(&mut self, rows: usize) {
        let own = [&mut self.id, &mut self.time].into_iter();
        let own = own.chain(self.report.iter_mut().flatten()).chain(&mut self.event_id);
        let own = own.chain(self.verdict.iter_mut().flatten()).chain(&mut self.probability);
        own.chain(&mut self.detail).for_each(|cursor| cursor.pass(rows));
        self.facts.iter_mut().for_each(|(_, cursor)| cursor.pass(rows));
    }

    /// Shows the next row, which has this number. `None` if it is damaged.
    fn show(&mut self, row: usize, look: &mut dyn RecordVisitor<'w>) -> Option<()> {
        let id = self.id.next().text()?.parse().ok()?;
        let time = Time(self.time.next().integer()?);
        match self.versions.all.get(self.versions.of(row)?) {
            Some(version) => self.show_decision((id, time), version, look),
            None => self.show_report((id, time), look),
        }
    }

    fn show_report(&mut self, (id, time): (RecordId, Time), look: &mut dyn RecordVisitor<'w>) -> Option<()> {
        let own = self.event_id.iter_mut().chain(self.verdict.iter_mut().flatten());
        own.chain(&mut self.probability).for_each(|cursor| cursor.pass(1));
        self.facts.iter_mut().for_each(|(_, cursor)| cursor.pass(1));
        let detail = self.detail.as_mut().map(ColumnCursor::next);
        let [what, decision, class] = self.report.as_mut()?.each_mut().map(ColumnCursor::next);
        match what.text()? {
            super::REPORT => look.feedback(id, decision.text()?.parse().ok()?, class.text(), time),
            super::SIGNAL if self.wants_signals => {
                let decision = decision.text()?.parse().ok()?;
                let detail: ReportDetail = postcard::from_bytes(detail?.bytes()?).ok()?;
                let is_replacing = detail.replaced.is_some();
                if let Some(class) = counted(detail.class.as_deref(), detail.weight, is_replacing) {
                    look.signal(id, decision, class, time);
                }
            }
            _ => {}
        }
        Some(())
    }

    fn show_decision(
        &mut self,
        (id, time): (RecordId, Time),
        version: &VersionProjection<'w>,
        look: &mut dyn RecordVisitor<'w>,
    ) -> Option<()> {
        self.report.iter_mut().flatten().for_each(|cursor| cursor.pass(1));
        let event_id = self.event_id.as_mut().map(ColumnCursor::next);
        let verdict = self.verdict.as_mut().map(|of| of.each_mut().map(ColumnCursor::next));
        let probability = self.probability.as_mut().map(ColumnCursor::next);
        let detail = self.detail.as_mut().map(ColumnCursor::next);
        let event_id = event_id.and_then(|event_id| event_id.text());
        let head =
            DecisionHead { id, pipeline: &version.pipeline, version: &version.version, time, event_id };
        let Some(row) = look.decision(&head) else {
            self.facts.iter_mut().for_each(|(_, cursor)| cursor.pass(1));
            return Some(());
        };
        for (column, cursor) in &mut self.facts {
            let entry = cursor.next();
            if let Some(slot) = version.slot(*column).filter(|_| !entry.is_missing()) {
                row.set(slot, entry.value()??);
            }
        }
        if let Some(detail) = detail.filter(|_| self.has_extras) {
            version.set_extras(detail, row)?;
        }
        if let Some(detail) = detail.filter(|_| self.wants_keys) {
            let detail = DecisionDetail::read(detail.bytes()?)?;
            keys::names(detail.keys, |kind, shingle| look.key(kind, shingle)).ok()?;
        }
        let Some([score, action, rules, shadow]) = verdict else { return Some(()) };
        for (rules, is_shadow) in [(rules, false), (shadow, true)] {
            for rule in rules.items() {
                look.fired(rule?, is_shadow);
            }
        }
        let (score, action) = (score.float()?, action.text()?.parse::<Action>().ok()?);
        let probability = match probability {
            Some(probability) => Some(probability.float()?),
            None => None,
        };
        look.decided(DecisionOutcome { score, probability, action });
        Some(())
    }
}

/// Returns true if there is a signal among the rows of a column of what they are.
fn has_signals(what: &SharedCursor) -> bool {
    let mut what = what.clone();
    (0..what.rows_left()).any(|_| what.next().text() == Some(super::SIGNAL))
}

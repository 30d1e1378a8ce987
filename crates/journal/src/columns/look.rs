//! Shows the rows of a group to a visitor, and reads no more than that wants.

use std::ops::Range;

use event::Time;
use judge::Action;

use super::cursor::ColumnCursor;
use super::detail::DecisionDetail;
use super::group_columns::{ColumnsOfGroup, FEW, SharedCursor};
use super::read_columns::ReadColumns;
use super::reader::ColumnarSegment;
use super::selection::RowSelection;
use super::versions::{GroupVersions, VersionProjection};
use super::{OWN, ReportDetail, own};
use crate::encoding::{DecisionHead, DecisionOutcome};
use crate::format::SegmentError;
use crate::id::RecordId;
use crate::keys;
use crate::report::counted;
use crate::visitor::RecordVisitor;

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

//! Versions of a group's decisions, and what a visitor wants of each.

use event::{Facts, Slot, Value};

use super::cursor::{ColumnCursor, ColumnEntry};
use super::detail::DecisionDetail;
use super::group_columns::ColumnsOfGroup;
use super::{OWN, own};
use crate::format::SegmentError;
use crate::visitor::{FactTest, RecordVisitor};

/// The number of a report's version: it has none.
const NO_VERSION: u32 = u32::MAX;

/// The parts of a version's decisions that are wanted.
pub(super) struct VersionProjection<'w> {
    pub(super) pipeline: String,
    pub(super) version: String,
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

    pub(super) fn slot(&self, column: usize) -> Option<Slot> {
        self.slots.get(column).copied().flatten()
    }

    /// The column of a fact among all of the file.
    pub(super) fn column(&self, fact: Slot) -> Option<usize> {
        let column = self.columns.get(usize::from(fact.0)).copied().flatten()?;
        Some(OWN.len() + column as usize)
    }

    pub(super) fn set_extras(&self, detail: ColumnEntry<'_>, row: &mut Facts) -> Option<()> {
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
    pub(super) fn read(
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
    pub(super) fn of(&self, row: usize) -> Option<usize> {
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

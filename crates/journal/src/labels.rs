//! Labels of decisions: the last judgement that was said of each, read from the newest records backwards as far as somebody
//! wants to know them, and kept.
//!
//! What is said of a decision comes after it, so whoever has read all reports from an id on knows the labels of all decisions
//! from there on. A journal that is open adds what is appended.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use event::Time;
use parking_lot::Mutex;

use super::ranked::{RankedBlocks, ReadBudget};
use super::visitor::RecordVisitor;
use super::{JournalError, SkippedData};
use crate::id::{IdRange, RecordId};

/// Most decisions whose labels are kept, about 100 bytes each; beyond them those of the oldest are forgotten.
const LABELS_MAX: usize = 500_000;

/// The last word of feedback on each decision, of judgements or of signals.
#[derive(Debug, Default)]
pub(super) struct LabelIndex {
    of: BTreeMap<RecordId, (Time, RecordId, Option<Arc<str>>)>,
    classes: HashSet<Arc<str>>,
}

impl LabelIndex {
    /// The word of whoever spoke last; nobody's once it was taken back, or if it counts nothing.
    pub(super) fn add(&mut self, id: RecordId, decision: RecordId, class: Option<&str>, time: Time) {
        let class = class.map(|class| match self.classes.get(class) {
            Some(known) => Arc::clone(known),
            None => {
                let class: Arc<str> = class.into();
                self.classes.insert(Arc::clone(&class));
                class
            }
        });
        // Records that raced each other are not in the order in which they were said.
        let said = (time, id, class);
        self.of
            .entry(decision)
            .and_modify(|last| {
                if (last.0, last.1) < (said.0, said.1) {
                    *last = said.clone();
                }
            })
            .or_insert(said);
    }

    pub(super) fn of(&self, decision: RecordId) -> Option<(&Arc<str>, Time)> {
        let (time, _, class) = self.of.get(&decision)?;
        Some((class.as_ref()?, *time))
    }
}

/// The labels of decisions, as far as reports were read.
#[derive(Debug)]
pub struct DecisionLabels(Mutex<KnownLabels>);

#[derive(Debug)]
struct KnownLabels {
    index: LabelIndex,
    /// All reports with this id or a greater one are in the index.
    read_from: RecordId,
    /// Labels of decisions below this id were forgotten.
    kept_from: RecordId,
}

impl DecisionLabels {
    /// No labels yet; reports below this id are still to be read.
    pub(super) fn below(id: RecordId) -> DecisionLabels {
        let index = LabelIndex::default();
        DecisionLabels(Mutex::new(KnownLabels { index, read_from: id, kept_from: RecordId(0) }))
    }

    /// The smallest id from which on labels are known.
    pub fn known_from(&self) -> RecordId {
        let known = self.0.lock();
        known.read_from.max(known.kept_from)
    }

    /// The class of the last judgement of a decision, and when it was said, as far as it is known.
    pub fn of(&self, decision: RecordId) -> Option<(Arc<str>, Time)> {
        let known = self.0.lock();
        known.index.of(decision).map(|(class, time)| (Arc::clone(class), time))
    }

    /// Returns true if a decision from one id up to another has a label that is known.
    pub fn any(&self, first: RecordId, last: RecordId) -> bool {
        let known = self.0.lock();
        first <= last && known.index.of.range(first..=last).any(|(_, (_, _, class))| class.is_some())
    }

    /// Adds a judgement that was just appended.
    pub(super) fn note(&self, id: RecordId, decision: RecordId, class: Option<&str>, time: Time) {
        self.0.lock().add(&[(id, decision, class.map(str::to_owned), time)]);
    }

    /// Reads reports until the labels of all decisions from this id on are known, and returns true if they are.
    ///
    /// # Errors
    /// If a file cannot be read. Damaged parts are passed over.
    pub(super) fn read_down_to(
        &self,
        id: RecordId,
        budget: &mut ReadBudget<'_>,
        ranked: impl FnOnce(IdRange) -> Result<RankedBlocks, JournalError>,
    ) -> Result<bool, JournalError> {
        let (read_from, kept_from) = {
            let known = self.0.lock();
            (known.read_from, known.kept_from)
        };
        // They would be forgotten again.
        let wanted = id.max(kept_from);
        if wanted >= read_from {
            return Ok(kept_from <= id);
        }
        let mut blocks = ranked(IdRange { from: wanted, below: read_from })?;
        let mut skipped = SkippedData::default();
        while !budget.is_spent() {
            let Some(block) = blocks.next_block()? else {
                return Ok(self.reached(wanted, &[]) <= id);
            };
            let mut reports = ReportCollector::default();
            if block.may_have_reports() {
                budget.take(block.head.count);
                skipped.pass(block.look(&mut reports).map_err(|error| block.error(error)))?;
            } else {
                budget.take(1);
            }
            let next = blocks.greatest()?.map_or(wanted, |greatest| RecordId(greatest.0.saturating_add(1)));
            if self.reached(next.max(wanted), &reports.0) <= id {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl DecisionLabels {
    /// Adds reports, with which all from an id on are known, and returns from which id on labels are.
    fn reached(&self, id: RecordId, reports: &[LoggedReport]) -> RecordId {
        let mut known = self.0.lock();
        known.add(reports);
        known.read_from = known.read_from.min(id);
        known.read_from.max(known.kept_from)
    }
}

/// A report: its id, the decision, the class, and when it was said.
type LoggedReport = (RecordId, RecordId, Option<String>, Time);

impl KnownLabels {
    fn add(&mut self, reports: &[LoggedReport]) {
        for (id, decision, class, time) in reports {
            if *decision >= self.kept_from {
                self.index.add(*id, *decision, class.as_deref(), *time);
            }
        }
        while self.index.of.len() > LABELS_MAX {
            let Some((oldest, _)) = self.index.of.pop_first() else { break };
            self.kept_from = self.kept_from.max(RecordId(oldest.0.saturating_add(1)));
        }
    }
}

/// Collects the judgements of a block.
#[derive(Debug, Default)]
struct ReportCollector(Vec<LoggedReport>);

impl<'w> RecordVisitor<'w> for ReportCollector {
    fn feedback(&mut self, id: RecordId, decision: RecordId, class: Option<&str>, time: Time) {
        self.0.push((id, decision, class.map(str::to_owned), time));
    }
}

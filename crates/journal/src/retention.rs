//! Retention by pipeline: rows go out of segments that others keep.
//!
//! A segment mixes pipelines, and goes as a whole once it is older than all of them are kept. Before that, the rows of a pipeline
//! that is kept for a shorter time go out of it once the last of them in it is too old, so that each pipeline costs a segment one
//! rewriting. Feedback stays as long as its segment, unless it lies beside its decision.

use std::collections::{BTreeMap, HashSet};

use event::{Facts, Slot, Span, Time};

use super::encoding::{DecisionHead, DecisionOutcome};
use super::files::SegmentBlocks;
use super::record::Record;
use super::report::ReportRecord;
use super::rewriting::RewriteOutcome;
use super::visitor::RecordVisitor;
use super::{Journal, JournalError, SkippedData};
use crate::id::RecordId;

/// Segments that are looked through at once to find out whose rows they have.
const LOOKED_MAX: usize = 64;

impl Journal {
    /// Takes rows out of closed segments whose pipeline keeps them for a time of its own that has passed: each by its name.
    /// The others are kept as the journal is. A pipeline that keeps them longer has their segments kept as long. Answers how many
    /// rows went. Blocks; ended by closing the journal, and gone on with by the next call.
    ///
    /// # Errors
    /// What cannot be read or written.
    pub fn expire_pipelines(&self, kept: &[(String, Span)], now: Time) -> Result<u64, JournalError> {
        let stop: &dyn Fn() -> bool = &|| self.shared.state.lock().closing;
        let rest = self.shared.options.keep;
        let longest = kept.iter().map(|(_, keep)| *keep).max().filter(|longest| *longest > rest);
        self.shared.state.lock().keep_max = longest;
        if kept.is_empty() {
            return Ok(0);
        }
        let keep_of =
            |pipeline: &str| kept.iter().find(|(name, _)| name == pipeline).map_or(rest, |(_, keep)| *keep);
        let shortest = kept.iter().map(|(_, keep)| *keep).min().map_or(rest, |shortest| shortest.min(rest));
        let (mut gone, mut looked) = (0, 0);
        for first in self.closed_firsts(now - shortest) {
            let known = self
                .shared
                .state
                .lock()
                .segments
                .iter()
                .find(|it| it.first == first)
                .map(|it| it.pipelines.clone());
            let Some(known) = known else { continue };
            let arrivals = match known {
                Some(known) => known,
                None if looked >= LOOKED_MAX => continue,
                None => {
                    looked += 1;
                    let Some(arrivals) = self.arrivals(first, stop)? else { return Ok(gone) };
                    let mut state = self.shared.state.lock();
                    state
                        .segments
                        .iter_mut()
                        .filter(|it| it.first == first)
                        .for_each(|it| it.pipelines = Some(arrivals.clone()));
                    arrivals
                }
            };
            let due: HashSet<&str> = arrivals
                .iter()
                .filter(|(pipeline, arrival)| **arrival < now - keep_of(pipeline))
                .map(|(pipeline, _)| pipeline.as_str())
                .collect();
            // All of it: the segment goes as a whole, as soon as it may.
            let is_whole = due.len() == arrivals.len() && longest.is_none() && shortest >= rest;
            if due.is_empty() || is_whole {
                continue;
            }
            gone += match self.expire_rows(first, &due, stop)? {
                RewriteOutcome::Rewritten(rows) => rows,
                RewriteOutcome::Stopped => return Ok(gone),
                RewriteOutcome::Untouched => 0,
                RewriteOutcome::Damaged => {
                    tracing::warn!(segment = %first, "is damaged: rows of pipelines that are kept for a shorter time stay in it");
                    0
                }
            };
            let mut state = self.shared.state.lock();
            let segment = state.segments.iter_mut().filter(|it| it.first == first);
            segment.for_each(|it| {
                let mut left = arrivals.clone();
                left.retain(|pipeline, _| !due.contains(pipeline.as_str()));
                it.pipelines = Some(left);
            });
        }
        Ok(gone)
    }

    /// Closed segments that have rows which arrived before a time, oldest first.
    fn closed_firsts(&self, before: Time) -> Vec<RecordId> {
        let state = self.shared.state.lock();
        let Some((newest, closed)) = state.segments.split_last() else { return Vec::new() };
        let closed = closed.iter().chain(newest.summary.is_closed.then_some(newest));
        closed.filter(|it| it.summary.records > 0 && it.summary.from < before).map(|it| it.first).collect()
    }

    /// Returns the latest arrival of each pipeline's rows in a segment; `None` if it was ended.
    fn arrivals(
        &self,
        first: RecordId,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<BTreeMap<String, Time>>, JournalError> {
        let (mut arrivals, mut skipped) = (PipelineArrivals::default(), SkippedData::default());
        let Some(file) = self.shared.file_of(first) else { return Ok(Some(BTreeMap::new())) };
        for block in SegmentBlocks::open(&file, false)?.into_iter().flat_map(SegmentBlocks::forwards) {
            if let Some(block) = skipped.pass(block)? {
                skipped.pass(block.look(&mut arrivals).map_err(|error| block.error(error)))?;
            }
            if stop() {
                return Ok(None);
            }
        }
        Ok(Some(arrivals.latest))
    }

    /// Takes the rows of some pipelines out of a segment, with the feedback on them that is in it, too.
    fn expire_rows(
        &self,
        first: RecordId,
        due: &HashSet<&str>,
        stop: &dyn Fn() -> bool,
    ) -> Result<RewriteOutcome, JournalError> {
        let Some(file) = self.shared.file_of(first) else { return Ok(RewriteOutcome::Untouched) };
        let (mut decisions, mut skipped) = (HashSet::new(), SkippedData::default());
        for block in SegmentBlocks::open(&file, false)?.into_iter().flat_map(SegmentBlocks::forwards) {
            for (id, record) in skipped.records(block)? {
                if matches!(&record, Record::Decision(row) if due.contains(row.pipeline.as_str())) {
                    decisions.insert(id);
                }
            }
            if stop() {
                return Ok(RewriteOutcome::Stopped);
            }
        }
        let goes = |(id, record): &(RecordId, Record)| match record {
            Record::Decision(_) => decisions.contains(id),
            Record::Report(ReportRecord { decision, .. }) => decisions.contains(decision),
        };
        let outcome = self.shared.rewrite(first, &goes, stop);
        self.known.groups.forget();
        outcome
    }
}

/// The latest arrival of the rows of each pipeline.
#[derive(Default)]
struct PipelineArrivals {
    latest: BTreeMap<String, Time>,
}

impl<'w> RecordVisitor<'w> for PipelineArrivals {
    fn version(&mut self, _: &str, _: &str) -> Option<&'w [Option<Slot>]> {
        None
    }

    fn decision(&mut self, head: &DecisionHead<'_>) -> Option<&mut Facts> {
        let arrival = head.id.time();
        match self.latest.get_mut(head.pipeline) {
            Some(latest) => *latest = arrival.max(*latest),
            None => _ = self.latest.insert(head.pipeline.to_owned(), arrival),
        }
        None
    }

    fn fired(&mut self, _: &str, _: bool) {}

    fn decided(&mut self, _: DecisionOutcome) {}

    fn feedback(&mut self, _: RecordId, _: RecordId, _: Option<&str>, _: Time) {}
}

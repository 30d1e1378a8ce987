//! Backtests over the journal of an engine that is at work: a sample first, so that there is an answer at once, then all.
//!
//! Blocks are read as searches read them, with what is not written yet, one at a time. Nothing is locked meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use event::{Span, Time};
use journal::{Block, DecisionSource, IdRange, Journal, JournalError, RecordId, SkippedData};
use plan::Pipeline;

use super::{Backtest, BacktestQuery, BacktestReport, BacktestTally};
use crate::{DecisionLookupError, Engine};

/// Parts of a span of each of which a sample has some blocks.
const SAMPLE_PARTS: i64 = 16;
/// Rows of a part after which a sample takes no more blocks of it.
const SAMPLE_PART_ROWS: u64 = 2_000;
/// Rows of a sample after which it takes no more blocks.
const SAMPLE_ROWS: u64 = 50_000;

/// The progress of a backtest, for those who watch.
#[derive(Debug, Default)]
pub struct BacktestProgress {
    rows: AtomicU64,
    permille: AtomicU32,
}

impl BacktestProgress {
    /// Returns the number of rows that were judged so far.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Returns the share of the span that was gone through, of 1000.
    pub fn permille(&self) -> u32 {
        self.permille.load(Ordering::Relaxed)
    }
}

/// The parts of a sample in an order in which the first ones are spread over the whole, too.
fn spread() -> impl Iterator<Item = i64> {
    let bits = SAMPLE_PARTS.trailing_zeros();
    (0..SAMPLE_PARTS).map(move |part| part.reverse_bits() >> (i64::BITS - bits) & (SAMPLE_PARTS - 1))
}

impl Engine {
    /// A backtest of a pipeline over the versions that this engine's journal describes. Blocks.
    ///
    /// # Errors
    /// If there is no journal, or it cannot be read.
    pub fn backtest_of(
        &self,
        pipeline: Arc<Pipeline>,
        query: BacktestQuery,
    ) -> Result<Backtest, DecisionLookupError> {
        let journal = self.journal.as_ref().ok_or(DecisionLookupError::NoJournal)?;
        let descriptions = journal.archive()?.descriptions()?;
        Ok(Backtest::new(pipeline, query, &descriptions))
    }

    /// Judges a sample of the rows that a backtest asks for: the newest blocks of each of some parts of the span. Labels
    /// are those that are known without reading more. `None` once `is_over`, which is asked before each block. Blocks.
    ///
    /// # Errors
    /// If the journal cannot be read. Damaged parts are passed over.
    pub fn backtest_sample(
        &self,
        backtest: &Backtest,
        now: Time,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<BacktestReport>, DecisionLookupError> {
        let journal = self.journal.as_ref().ok_or(DecisionLookupError::NoJournal)?;
        let (from, to) = span_of(journal, backtest, now)?;
        let part = Span(((to - from).0 / SAMPLE_PARTS).max(1));
        let (mut tally, mut seen, mut skipped) = (backtest.tally(), BTreeSet::new(), SkippedData::default());
        for number in spread() {
            if tally.rows() >= SAMPLE_ROWS {
                break;
            }
            let start = from + Span(part.0.saturating_mul(number));
            // What was decided just now is in the last part.
            let is_last = number == SAMPLE_PARTS - 1 && backtest.question.to.is_none();
            let below = if is_last { IdRange::default().below } else { RecordId::first_of(start + part) };
            let ids = IdRange { from: RecordId::first_of(start), below };
            let mut blocks = journal.ranked(ids)?;
            let enough = tally.rows() + SAMPLE_PART_ROWS;
            while tally.rows() < enough
                && let Some(block) = next(&mut blocks, is_over)?
            {
                let Some(block) = block else { return Ok(None) };
                if !seen.insert((block.head.first, block.head.last)) {
                    continue;
                }
                let judged = backtest.judge(&block).map_err(|error| block.error(error));
                if let Some(mut judgement) = skipped.pass(judged)? {
                    judgement.label_by(journal.labels());
                    tally.add(judgement);
                }
            }
        }
        Ok(Some(report(journal, backtest, tally)?))
    }

    /// Judges all rows that a backtest asks for, the newest first. `None` once `is_over`, which is asked before each block: it
    /// may sleep, to leave the processor to others. Blocks, for long.
    ///
    /// # Errors
    /// If the journal cannot be read. Damaged parts are passed over, and returned.
    pub fn backtest(
        &self,
        backtest: &Backtest,
        now: Time,
        progress: &BacktestProgress,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<(BacktestReport, SkippedData)>, DecisionLookupError> {
        let journal = self.journal.as_ref().ok_or(DecisionLookupError::NoJournal)?;
        let (from, _) = span_of(journal, backtest, now)?;
        let first = RecordId::first_of(from);
        // What was said after the span counts, too: the last word stands.
        let mut blocks = journal.ranked(IdRange { from: first, ..IdRange::default() })?;
        let (mut tally, mut skipped) = (backtest.tally(), SkippedData::default());
        let all = (now - from).0.max(1) as f64;
        while let Some(block) = next(&mut blocks, is_over)? {
            let Some(block) = block else { return Ok(None) };
            let judged = backtest.judge(&block).map_err(|error| block.error(error));
            if let Some(mut judgement) = skipped.pass(judged)? {
                // What is said of earlier decisions is asked for by nobody.
                judgement.feedback.retain(|(decision, ..)| *decision >= first);
                tally.add(judgement);
            }
            progress.rows.store(tally.rows(), Ordering::Relaxed);
            let gone = (now - block.head.first.time()).0.max(0) as f64 / all;
            progress.permille.store((gone.min(1.0) * 1000.0) as u32, Ordering::Relaxed);
        }
        let passed = blocks.skipped();
        skipped.stretches += passed.stretches;
        skipped.bytes += passed.bytes;
        skipped.records += passed.records;
        progress.permille.store(1000, Ordering::Relaxed);
        Ok(Some((report(journal, backtest, tally)?, skipped)))
    }
}

/// The next block; `Some(None)` once it is over.
fn next(
    blocks: &mut journal::RankedBlocks,
    is_over: &dyn Fn() -> bool,
) -> Result<Option<Option<Block>>, JournalError> {
    if is_over() { Ok(Some(None)) } else { Ok(blocks.next_block()?.map(Some)) }
}

/// The time of the rows that a backtest asks for: from its begin, or that of the journal, to its end, or now.
fn span_of(journal: &Journal, backtest: &Backtest, now: Time) -> Result<(Time, Time), JournalError> {
    let from = match backtest.question.from {
        Some(from) => from,
        None => match journal.archive()?.oldest_first().find_map(Result::ok) {
            Some(block) => block.head.first.time(),
            None => now,
        },
    };
    Ok((from, backtest.question.to.unwrap_or(now).min(now).max(from)))
}

fn report(
    journal: &Journal,
    backtest: &Backtest,
    tally: BacktestTally,
) -> Result<BacktestReport, JournalError> {
    let mut known = journal.find_all(&tally.example_ids())?;
    Ok(tally.report_by(backtest, |id| known.remove(&id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_spread_from_its_first_parts_on() {
        let parts: Vec<i64> = spread().collect();
        assert_eq!(parts[..4], [0, 8, 4, 12]);
        let mut all = parts.clone();
        all.sort_unstable();
        assert_eq!(all, (0..SAMPLE_PARTS).collect::<Vec<_>>());
    }
}

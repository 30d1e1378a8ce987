//! The timeline of one key, and the hottest keys of a kind.

use event::{Key, Shingle, Span, Time, Value};
use journal::{JournalError, Record};
use plan::{KindPlan, Pipeline};
use stats::{LedgerError, ObserveRequest, Quality, Timeline};

use crate::error::{PieceError, UnknownName};
use crate::pipeline::keys;
use crate::{Engine, aggregate, find_kind};

/// Reasons for a key, or the keys of a kind, without readings.
#[derive(Debug, thiserror::Error)]
pub enum KeyStatisticsError {
    /// A kind or a counter that the pipeline does not have.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// No piece can be made of the value.
    #[error(transparent)]
    Piece(#[from] PieceError),
    /// Keys are ranked by a counter over a window, and the kind has none.
    #[error("the kind `{0}` has no counters over windows, by which its keys could be ranked")]
    NoCounters(String),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The journal, which names keys.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// The knowledge of one key.
#[derive(Clone, Debug)]
pub struct KeyTimeline {
    /// The piece as it is hashed.
    pub piece: String,
    /// Its hash.
    pub shingle: Shingle,
    /// Names of the counters that the buckets hold, in order.
    pub counters: Vec<String>,
    /// Trailing windows and, for each counter in order, what was counted in them.
    pub windows: Vec<(Span, Vec<u64>)>,
    /// The values that a track has beside first and last time: `count`, `sum`, `min`, `max`, `decayed_1h`.
    pub values: Vec<(String, Value)>,
    /// The trust that all this deserves. Estimated without a timeline is a key that is not admitted yet.
    pub quality: Quality,
    /// All that is kept; `None` for a key never seen, forgotten, or not admitted.
    pub timeline: Option<Timeline>,
}

/// The measure by which keys are ranked.
#[derive(Clone, Copy, Debug)]
pub struct Ranking<'a> {
    /// The kind of the keys.
    pub kind: &'a str,
    /// The counter.
    pub counter: &'a str,
    /// The trailing window.
    pub window: Span,
    /// Most keys that are wanted.
    pub limit: usize,
}

/// A key that is hot now.
#[derive(Clone, Debug)]
pub struct HotKey {
    /// The hashed piece.
    pub shingle: Shingle,
    /// The piece, if a recent row of the journal shows it.
    pub piece: Option<String>,
    /// Its count.
    pub count: u64,
}

impl Engine {
    /// All that is kept of the key of a value, and its trailing sums as of a time.
    pub async fn timeline(
        &self,
        pipeline: &Pipeline,
        kind: &str,
        value: &str,
        at: Time,
    ) -> Result<KeyTimeline, KeyStatisticsError> {
        let distinct = pipeline.distincts.iter().find(|distinct| distinct.name == kind);
        let (per, number, counters, windows, track) = match distinct {
            Some(plan) => {
                let per = &pipeline.kinds[plan.per];
                (per, plan.kind, vec![plan.name.clone()], &plan.windows, Vec::new())
            }
            None => {
                let plan = find_kind(pipeline, kind)?;
                (plan, plan.kind, plan.counters.as_slice().to_vec(), &plan.windows, plan.aggregate_names())
            }
        };
        let (piece, shingle) = self.piece(per, value)?;
        let key = Key { space: pipeline.space, kind: number, shingle };
        let timeline = self.ledger.timeline(key).await?;
        let peek = stats::Observation { key, time: at, add: stats::Addition::Nothing };
        let outcomes = self
            .ledger
            .observe(&[ObserveRequest { observations: vec![peek], ..ObserveRequest::default() }])
            .await?;
        let reading = outcomes.all().next().map(|reading| reading.to_reading()).unwrap_or_default();
        let sums = |window: usize| (0..counters.len()).map(|counter| reading.sum(window, counter)).collect();
        let windows = windows.iter().enumerate().map(|(index, window)| (*window, sums(index))).collect();
        let values = aggregate::values(&track, &reading);
        Ok(KeyTimeline { piece, shingle, counters, windows, values, quality: reading.quality, timeline })
    }

    pub(crate) fn piece(&self, plan: &KindPlan, value: &str) -> Result<(String, Shingle), PieceError> {
        let mut first = None;
        let lower = (plan.kind == plan::REPORTER).then(|| plan::reporter(value));
        let value = lower.as_deref().unwrap_or(value);
        plan.fields.pieces_of(value, &mut |piece| {
            first.get_or_insert_with(|| piece.to_owned());
        });
        let piece = first.ok_or_else(|| PieceError {
            kind: plan.name.clone(),
            value: value.to_owned(),
            fields: plan.fields.as_slice().len(),
        })?;
        let shingle = self.secret.shingle(piece.as_bytes());
        Ok((piece, shingle))
    }

    /// The keys of a kind with the largest counts in a trailing window; see [`Ledger::hottest`] for what it costs.
    /// Pieces are not stored with statistics: those that recent rows of the journal show are named.
    ///
    /// # Errors
    /// A kind or counter that the pipeline does not have, the ledger's and the journal's.
    pub async fn hottest(
        &self,
        pipeline: &Pipeline,
        Ranking { kind, counter, window, limit }: Ranking<'_>,
        now: Time,
        is_over: stats::CancellationCheck<'_>,
    ) -> Result<Vec<HotKey>, KeyStatisticsError> {
        let plan = find_kind(pipeline, kind)?;
        if plan.counters.is_empty() {
            return Err(KeyStatisticsError::NoCounters(plan.name.clone()));
        }
        let index = plan.counter(counter).ok_or_else(|| {
            let help = plan::expected(counter, plan.counters.iter().map(String::as_str));
            UnknownName { what: "counter", name: counter.to_owned(), help }
        })?;
        let hottest =
            self.ledger.hottest((pipeline.space, plan.kind), index, window, now, limit, is_over).await?;
        let mut hot: Vec<HotKey> = hottest
            .into_iter()
            .map(|(key, count)| HotKey { shingle: key.shingle, piece: None, count })
            .collect();
        if let Some(journal) = &self.journal {
            const ROWS: usize = 20_000;
            for (_, record) in journal.recent(ROWS)?.into_iter().rev() {
                if hot.iter().all(|hot| hot.piece.is_some()) {
                    break;
                }
                let Record::Decision(row) = record else { continue };
                // Rows of another version may have their facts in other slots.
                if row.version != pipeline.version {
                    continue;
                }
                let wanted = |shingle| hot.iter().any(|hot| hot.shingle == shingle && hot.piece.is_none());
                if !row.keys.iter().any(|key| key.kind == plan.kind && wanted(key.shingle)) {
                    continue;
                }
                keys::labels(pipeline, &self.secret, &row.facts, |other, shingle, piece| {
                    if other == plan.kind
                        && let Some(hot) = hot.iter_mut().find(|hot| hot.shingle == shingle)
                    {
                        hot.piece.get_or_insert_with(|| piece.to_owned());
                    }
                });
            }
        }
        Ok(hot)
    }
}

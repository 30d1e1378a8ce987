//! The keys with the worst or the best reputations lately.

use std::sync::Arc;

use event::{Key, Kind, Shingle, Span, Time};
use plan::{KindPlan, PartMeasure, Pipeline, ReputationFormula};
use stats::{
    Addition, CancellationCheck, HottestQuery, LedgerError, Observation, ObserveRequest, Origin, Reading,
};

use crate::Engine;
use crate::error::UnknownName;
use crate::key_timeline::KeyStatisticsError;
use crate::pipeline::reputation::{self, ExplainedReputation, KnownReadings, number_of};

/// Keys that each part of a reputation proposes: those of which it has counted most.
const PROPOSED: usize = 500;

/// The reputations that are wanted.
#[derive(Clone, Copy, Debug)]
pub struct ReputationRanking<'a> {
    /// The reputation.
    pub name: &'a str,
    /// True for the best, false for the worst.
    pub is_best: bool,
    /// Only keys of which something was counted within so long.
    pub within: Span,
    /// Most keys that are wanted.
    pub limit: usize,
}

/// A key among the worst or the best.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedReputation {
    /// The piece, if a recent row of the journal shows it.
    pub piece: Option<String>,
    /// Its reputation. What it inherits is known where the piece is.
    pub reputation: ExplainedReputation,
}

impl Engine {
    /// The keys with the worst or the best scores, among those of which the parts of the reputation have counted most within
    /// a half-life. Scores of 0 are left out. See [`stats::Ledger::hottest`] for what it costs.
    ///
    /// # Errors
    /// A reputation that the pipeline does not have, or none of whose parts is a counter or a distinct count; the ledger's and
    /// the journal's.
    pub async fn rank_reputations(
        &self,
        pipeline: &Arc<Pipeline>,
        asked: ReputationRanking<'_>,
        now: Time,
        is_over: CancellationCheck<'_>,
    ) -> Result<Vec<RankedReputation>, KeyStatisticsError> {
        let ReputationRanking { name, is_best, within, limit } = asked;
        let of_events = pipeline.reputations.iter().map(|plan| (&plan.formula, &pipeline.kinds[plan.of]));
        let of_reporters = pipeline.reports.iter().map(|reports| (&reports.standing, &reports.reporter));
        let all: Vec<(&ReputationFormula, &KindPlan)> = of_events.chain(of_reporters).collect();
        let (formula, kind) = *all.iter().find(|(formula, _)| formula.name == name).ok_or_else(|| {
            let help = plan::expected(name, all.iter().map(|(formula, _)| formula.name.as_str()));
            UnknownName { what: "reputation", name: name.to_owned(), help }
        })?;
        let mut queries = Vec::new();
        for part in &formula.parts {
            let (counter, windows) = match &part.measure {
                PartMeasure::Counter { counter, windows, .. } | PartMeasure::Report { counter, windows } => {
                    (counter.get(), windows)
                }
                PartMeasure::Distinct { windows, .. } => (0, windows),
                PartMeasure::Decayed { .. } => continue,
            };
            let (Ok(counter), Some(window)) = (u8::try_from(counter), windows.spans.first()) else {
                continue;
            };
            let (space, kind) = (pipeline.space, number_of(pipeline, part));
            queries.push(HottestQuery {
                space,
                kind,
                counter,
                window: *window,
                since: None,
                limit: PROPOSED,
            });
        }
        if queries.is_empty() {
            return Err(KeyStatisticsError::NoCounters(formula.name.clone()));
        }
        let found = self.ledger.hottest(&queries, now, is_over).await?;
        let mut proposed: Vec<Shingle> = found.into_iter().flatten().map(|(key, _)| key.shingle).collect();
        proposed.sort_unstable();
        proposed.dedup();
        let assessed = self.assess_keys(pipeline, formula, &proposed, now).await?;
        let lately = assessed.into_iter().filter(|(last, _)| last.is_some_and(|last| now - last <= within));
        let ranked = lately.map(|(_, reputation)| RankedReputation { piece: None, reputation });
        let mut ranked: Vec<RankedReputation> = ranked.collect();
        let rank = |ranked: &mut Vec<RankedReputation>| {
            ranked
                .retain(|one| if is_best { one.reputation.score > 0.0 } else { one.reputation.score < 0.0 });
            ranked.sort_by(|one, other| {
                let (one, other) = (&one.reputation, &other.reputation);
                let order = one.score.total_cmp(&other.score);
                if is_best { order.reverse() } else { order }.then(one.shingle.cmp(&other.shingle))
            });
            ranked.truncate(limit);
        };
        rank(&mut ranked);
        let shingles: Vec<Shingle> = ranked.iter().map(|one| one.reputation.shingle).collect();
        let pieces = self.pieces_of(pipeline, kind, &shingles)?;
        for (one, piece) in ranked.iter_mut().zip(pieces) {
            let Some(piece) = piece else { continue };
            let known = self.reputations(pipeline, &kind.name, &piece, now).await?;
            let is_same =
                |known: &ExplainedReputation| known.name == name && known.shingle == one.reputation.shingle;
            if let Some(known) = known.into_iter().find(is_same) {
                one.reputation = known;
            }
            one.piece = Some(piece);
        }
        rank(&mut ranked);
        Ok(ranked)
    }

    /// The reputations of keys by themselves, and when something was last counted of each.
    pub(crate) async fn assess_keys(
        &self,
        pipeline: &Pipeline,
        formula: &ReputationFormula,
        proposed: &[Shingle],
        now: Time,
    ) -> Result<Vec<(Option<Time>, ExplainedReputation)>, LedgerError> {
        let mut numbers: Vec<Kind> = formula.parts.iter().map(|part| number_of(pipeline, part)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let request = |shingle: &Shingle| {
            let key = |kind: &Kind| Key { space: pipeline.space, kind: *kind, shingle: *shingle };
            let look = |kind| Observation { key: key(kind), time: now, add: Addition::Nothing };
            let observations = numbers.iter().map(look).collect();
            ObserveRequest { once: None, origin: Origin::Look, observations }
        };
        let requests: Vec<ObserveRequest> = proposed.iter().map(request).collect();
        let outcomes = self.ledger.observe(&requests).await?;
        let mut assessed = Vec::new();
        for (at, shingle) in proposed.iter().enumerate() {
            let readings = numbers.iter().zip(outcomes.readings(at).iter());
            let readings: Vec<(Kind, Shingle, Reading)> =
                readings.map(|(kind, reading)| (*kind, *shingle, reading.to_reading())).collect();
            let last = readings.iter().filter_map(|(.., reading)| reading.last).max();
            let lookup =
                KnownReadings { pipeline, readings: &readings, place: reputation::place_of(pipeline) };
            let reputation = reputation::explain_one(pipeline, formula, &lookup, *shingle);
            assessed.extend(reputation.map(|reputation| (last, reputation)));
        }
        Ok(assessed)
    }
}

//! Keys that stand in the same decisions as a key: the accounts of a device, the addresses of an account.
//!
//! Statistics keep hashes, so this is read from the journal: the latest decisions on the key, and the pieces that their logged
//! facts make by the kinds of today.

use std::collections::HashMap;

use event::{Facts, Time};
use journal::{ReadBudget, SkippedData};
use plan::{KindPlan, Pipeline};

use crate::backtest::BacktestQuery;
use crate::pipeline::keys;
use crate::search::{DecisionFilter, DecisionQuery, DecisionSearchError, FactSelection, KeyChoice};
use crate::{Engine, find_kind, key_timeline};

/// Decisions on the key that are looked at, the latest.
pub const RELATED_DECISIONS: usize = 1000;
/// Keys that are told apart; of further ones nothing is counted.
const KEYS_MAX: usize = 20_000;
/// Bytes of a piece: a longer one is a text rather than a key.
const PIECE_BYTES_MAX: usize = 256;
/// Keys of one kind that are answered: more than people are shown, as those of several nodes are added.
const PER_KIND: usize = 100;

/// A key that shares decisions with another.
#[derive(Clone, Debug, PartialEq)]
pub struct RelatedKey {
    /// Its kind.
    pub kind: String,
    /// Its piece.
    pub piece: String,
    /// Decisions that both are in.
    pub decisions: u64,
    /// The number of them that were last judged good.
    pub good: u64,
    /// The number of them that were last judged bad.
    pub bad: u64,
    /// The time of the oldest and of the latest of them.
    pub first: Time,
    /// See `first`.
    pub last: Time,
}

/// The keys that share decisions with a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RelatedKeys {
    /// The piece of the key that was asked for.
    pub piece: String,
    /// Decisions on it that were looked at.
    pub decisions: u64,
    /// True if it is in older decisions, too, that were not looked at.
    pub is_partial: bool,
    /// The others, by kind in the order of the configuration, those first with which it shares most.
    pub keys: Vec<RelatedKey>,
    /// The data that was passed over because it is damaged.
    pub skipped: SkippedData,
}

impl Engine {
    /// The keys that share the latest decisions with a key of a pipeline. Keys of several fields are left out, as their parts
    /// are there. Blocks.
    ///
    /// # Errors
    /// A kind that there is not, a value that makes no key of it, and the journal's.
    pub fn related_keys(
        &self,
        pipeline: &Pipeline,
        key: KeyChoice,
        from: Option<Time>,
        budget: &mut ReadBudget<'_>,
    ) -> Result<RelatedKeys, DecisionSearchError> {
        let own = find_kind(pipeline, &key.kind)?;
        let (piece, _) = key_timeline::piece(own, &key.value, &self.secret)?;
        let single = || pipeline.kinds.iter().filter(|plan| plan.fields.as_slice().len() == 1);
        let names = single().flat_map(|plan| plan.fields.as_slice());
        let mut names: Vec<String> =
            names.map(|field| pipeline.schema.column(field.slot).name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        let query = DecisionQuery {
            filter: DecisionFilter {
                pipeline: Some(pipeline.name.clone()),
                from,
                key: Some(key),
                ..DecisionFilter::default()
            },
            facts: FactSelection::Named(names),
            below: None,
            above: None,
            limit: RELATED_DECISIONS,
        };
        let page = self.search_decisions(&query, budget)?;
        let sides = BacktestQuery::default();
        let mut tally = RelatedTally::default();
        let mut facts = Facts::from_values(vec![None; pipeline.schema.columns().len()]);
        for decision in &page.decisions {
            facts.clear_all();
            for (name, value) in &decision.facts {
                if let Some(slot) = pipeline.schema.slot(name) {
                    facts.set(slot, value.clone());
                }
            }
            let is_bad = decision.label.as_ref().and_then(|(class, _)| sides.is_bad(pipeline, class));
            for (place, plan) in single().enumerate() {
                tally.seen.clear();
                keys::pieces(plan, &facts, |found| {
                    let is_own = plan.kind == own.kind && found == piece;
                    if !is_own && !found.is_empty() && found.len() <= PIECE_BYTES_MAX {
                        tally.add(place, found, decision.time, is_bad);
                    }
                });
            }
        }
        Ok(RelatedKeys {
            piece,
            decisions: page.decisions.len() as u64,
            is_partial: page.next.is_some(),
            keys: tally.finish(&single().collect::<Vec<_>>()),
            skipped: page.skipped,
        })
    }
}

/// Decisions by the keys that are in them.
#[derive(Default)]
struct RelatedTally {
    keys: HashMap<(usize, Box<str>), RelatedKey>,
    /// Pieces of the kind that is looked at which the decision had already.
    seen: Vec<Box<str>>,
}

impl RelatedTally {
    fn add(&mut self, place: usize, piece: &str, time: Time, is_bad: Option<bool>) {
        if self.seen.iter().any(|seen| **seen == *piece) {
            return;
        }
        let piece: Box<str> = piece.into();
        self.seen.push(piece.clone());
        let is_full = self.keys.len() >= KEYS_MAX;
        let name = (place, piece);
        if is_full && !self.keys.contains_key(&name) {
            return;
        }
        let text = name.1.to_string();
        let key = self.keys.entry(name).or_insert_with(|| RelatedKey {
            kind: String::new(),
            piece: text,
            decisions: 0,
            good: 0,
            bad: 0,
            first: time,
            last: time,
        });
        key.decisions += 1;
        key.good += u64::from(is_bad == Some(false));
        key.bad += u64::from(is_bad == Some(true));
        key.first = key.first.min(time);
        key.last = key.last.max(time);
    }

    fn finish(self, kinds: &[&KindPlan]) -> Vec<RelatedKey> {
        let mut keys: Vec<(usize, RelatedKey)> =
            self.keys.into_iter().map(|((place, _), key)| (place, key)).collect();
        keys.sort_by(|(place, one), (other_place, other)| {
            let by_place = place.cmp(other_place).then(other.decisions.cmp(&one.decisions));
            by_place.then(other.last.cmp(&one.last)).then_with(|| one.piece.cmp(&other.piece))
        });
        let mut answered = vec![0; kinds.len()];
        keys.retain(|(place, _)| {
            answered[*place] += 1;
            answered[*place] <= PER_KIND
        });
        let named =
            keys.into_iter().map(|(place, key)| RelatedKey { kind: kinds[place].name.clone(), ..key });
        named.collect()
    }
}

//! Additions made to a cell here that are not known to be in the cluster.
//!
//! An [`CellOperation`] is an addition that no longer depends on what is there: what a take adds has been decided. Journals keep
//! these. A [`CellDelta`] is the sum of some, as it goes to the cluster and as readings of this node see it.

use event::{Shingle, Time};
use stats::limit::GcraOperation;
use stats::{CellPlan, CounterAmounts, Evidence, StatisticChange};

use crate::chain::ChainId;
use crate::remote::CellChange;

/// An addition to one cell that is decided.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CellOperation {
    /// Amounts to counters.
    Counters(Time, CounterAmounts),
    /// An event of an aggregate, and so many sightings before it that a sketch has counted.
    Value {
        time: Time,
        value: Option<i64>,
        sightings: u32,
    },
    Evidence(Time, Evidence),
    /// A value of an approximate distinct count.
    Hash(Time, u64),
    /// A value of an exact one, which this node has not seen before. The cluster decides.
    Unique(Time, Shingle),
    Flow(Time, GcraOperation),
    /// A cell that has seen what is added.
    Words(Vec<u64>),
    /// The content that was there before has expired.
    Begin,
}

impl CellOperation {
    /// The delta of a change; `None` if it changes nothing. One that merges, and has no shorter form, goes as a cell that
    /// has seen it.
    pub(crate) fn of(plan: &CellPlan, change: StatisticChange<'_>) -> Option<CellOperation> {
        Some(match change {
            // What lowers a value is no sum, and refused before.
            StatisticChange::Nothing | StatisticChange::Lower(_) => return None,
            StatisticChange::Counters(time, amounts, times) => {
                CellOperation::Counters(time, amounts.times(times).collect())
            }
            StatisticChange::Used(time, amount) => CellOperation::Counters(time, [(0, amount)].into()),
            StatisticChange::Value { time, value, sightings } => {
                CellOperation::Value { time, value, sightings }
            }
            StatisticChange::Evidence(time, evidence) => CellOperation::Evidence(time, evidence),
            StatisticChange::Hash(time, hash) => CellOperation::Hash(time, hash),
            StatisticChange::Unique(time, pair) => CellOperation::Unique(time, pair),
            StatisticChange::Flow(time, flow) => CellOperation::Flow(time, flow),
            change => {
                let mut words = Vec::new();
                plan.apply(&mut words, &change);
                CellOperation::Words(words)
            }
        })
    }
}

/// A sum of additions to one cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CellDelta {
    /// The cell that has seen what is merged.
    words: Vec<u64>,
    /// Apart, as most have none of it.
    rest: Option<Box<UnmergedDelta>>,
}

/// The part of a delta that no merging of cells adds.
#[derive(Clone, Debug, Default, PartialEq)]
struct UnmergedDelta {
    /// The cell that has seen what this node believes the uniques add. Of a pair it is the mark, which goes to the
    /// cluster with its owner.
    believed: Vec<u64>,
    /// The basis of what is believed: images of one chain, or none where they were of several or of none.
    basis: ChainId,
    uniques: Vec<(Time, Shingle)>,
    flows: Vec<(Time, GcraOperation)>,
    /// True if what was added before it has expired.
    begins: bool,
}

impl UnmergedDelta {
    const NONE: &'static UnmergedDelta = &UnmergedDelta {
        believed: Vec::new(),
        basis: ChainId::NONE,
        uniques: Vec::new(),
        flows: Vec::new(),
        begins: false,
    };

    /// Two additions in a row are one: from any moment `m`, the later of `m + cost` and `time + cost` twice over is the
    /// later of `m + both` and of a sum that is given by a time again. That time is rounded up to a microsecond.
    fn flow(&mut self, time: Time, flow: GcraOperation) {
        if let (GcraOperation::Add { cost }, Some((before, GcraOperation::Add { cost: earlier }))) =
            (flow, self.flows.last_mut())
        {
            *before = Time(before.0.max(time.0.saturating_sub(earlier.div_euclid(1000))));
            *earlier = earlier.saturating_add(cost);
            return;
        }
        self.flows.push((time, flow));
    }
}

impl CellDelta {
    fn rest(&self) -> &UnmergedDelta {
        self.rest.as_deref().unwrap_or(UnmergedDelta::NONE)
    }

    fn rest_mut(&mut self) -> &mut UnmergedDelta {
        self.rest.get_or_insert_default()
    }

    /// Returns the values that the cluster is asked to count.
    pub(crate) fn uniques(&self) -> &[(Time, Shingle)] {
        &self.rest().uniques
    }

    pub(crate) fn add(&mut self, plan: &CellPlan, op: &CellOperation) {
        match op {
            CellOperation::Counters(time, amounts) => plan.add(&mut self.words, *time, amounts.iter()),
            CellOperation::Value { time, value, sightings } => {
                (0..*sightings).for_each(|_| plan.add_value(&mut self.words, *time, None));
                plan.add_value(&mut self.words, *time, *value);
            }
            CellOperation::Evidence(time, evidence) => plan.add_evidence(&mut self.words, *time, *evidence),
            CellOperation::Hash(time, hash) => plan.add_hash(&mut self.words, *time, *hash),
            CellOperation::Unique(time, pair) => self.rest_mut().uniques.push((*time, *pair)),
            CellOperation::Flow(time, flow) => self.rest_mut().flow(*time, *flow),
            CellOperation::Words(words) => plan.merge(&mut self.words, words),
            CellOperation::Begin => {
                *self = CellDelta::default();
                self.rest_mut().begins = true;
            }
        }
    }

    /// Counts a value that the cluster is asked to count, or sets its mark: going by images of a chain.
    pub(crate) fn believe(&mut self, plan: &CellPlan, time: Time, basis: ChainId) {
        let rest = self.rest_mut();
        rest.basis = if rest.believed.is_empty() || rest.basis == basis { basis } else { ChainId::NONE };
        plan.add(&mut rest.believed, time, [(0, 1)]);
    }

    /// Takes in a value that is taken for one that was counted before.
    pub(crate) fn recall(&mut self, plan: &CellPlan, time: Time) {
        let rest = self.rest_mut();
        rest.basis = ChainId::NONE;
        plan.add(&mut rest.believed, time, []);
    }

    /// Returns true if an image of a chain, with this added, is what the cluster makes of it.
    pub(crate) fn is_certain(&self, link: ChainId) -> bool {
        self.rest().believed.is_empty() || self.rest().basis == link
    }

    /// Adds all of another that came after it, but for what is believed.
    pub(crate) fn append(&mut self, plan: &CellPlan, later: &CellDelta) {
        if later.rest().begins {
            *self = later.clone();
            return;
        }
        plan.merge(&mut self.words, &later.words);
        if let Some(later) = &later.rest {
            let rest = self.rest_mut();
            rest.uniques.extend_from_slice(&later.uniques);
            later.flows.iter().for_each(|(time, flow)| rest.flow(*time, *flow));
        }
    }

    /// Returns true if the cluster has nothing to do: of a pair, whose owner brings the mark.
    pub(crate) fn is_carried(&self) -> bool {
        self.words.is_empty() && self.rest().uniques.is_empty() && self.rest().flows.is_empty()
    }

    /// Makes a cell one that has seen this, too.
    pub(crate) fn show(&self, plan: &CellPlan, cell: &mut Vec<u64>) {
        for words in [&self.words, &self.rest().believed].into_iter().filter(|words| !words.is_empty()) {
            match cell.is_empty() {
                true => cell.extend_from_slice(words),
                false => plan.merge(cell, words),
            }
        }
        self.rest().flows.iter().for_each(|(time, flow)| plan.flow(cell, *time, flow));
    }

    /// Returns the delta as operations that add up to it.
    pub(crate) fn ops(&self) -> impl Iterator<Item = CellOperation> + '_ {
        let UnmergedDelta { begins, uniques, flows, .. } = self.rest();
        let begin = begins.then_some(CellOperation::Begin);
        let words = (!self.words.is_empty()).then(|| CellOperation::Words(self.words.clone()));
        let uniques = uniques.iter().map(|(time, pair)| CellOperation::Unique(*time, *pair));
        let flows = flows.iter().map(|(time, flow)| CellOperation::Flow(*time, *flow));
        begin.into_iter().chain(words).chain(uniques).chain(flows)
    }

    /// Returns the changes that happen to the cell in the cluster, in order.
    pub(crate) fn changes(&self, plan: &CellPlan) -> impl Iterator<Item = CellChange> + '_ {
        let is_seen = plan.times(&self.words).is_some();
        let merge = is_seen.then(|| CellChange::Merge(self.words.clone()));
        let UnmergedDelta { uniques, flows, .. } = self.rest();
        let uniques = uniques.iter().map(|(time, pair)| CellChange::Unique { pair: *pair, time: *time });
        let flows = flows.iter().map(|(now, flow)| CellChange::Flow { now: *now, flow: *flow });
        merge.into_iter().chain(uniques).chain(flows)
    }

    /// Its size in memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let of_rest = |rest: &UnmergedDelta| {
            size_of::<UnmergedDelta>()
                + 8 * rest.believed.capacity()
                + size_of::<(Time, Shingle)>() * rest.uniques.capacity()
                + size_of::<(Time, GcraOperation)>() * rest.flows.capacity()
        };
        size_of::<CellDelta>() + 8 * self.words.capacity() + self.rest.as_deref().map_or(0, of_rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stats::Measure;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn additions_to_a_bucket_are_one_but_for_a_microsecond(
            start in proptest::option::of(0i64..100_000_000),
            mut takes in proptest::collection::vec((0i64..100_000, 1i64..5_000_000), 1..9),
        ) {
            takes.sort_by_key(|(time, _)| *time);
            let plan = CellPlan::new(&Measure::gcra()).unwrap();
            let mut one_by_one = Vec::new();
            if let Some(start) = start {
                plan.flow(&mut one_by_one, Time(0), &GcraOperation::Add { cost: start + 1 });
            }
            let mut at_once = one_by_one.clone();
            let mut delta = CellDelta::default();
            for (time, cost) in takes {
                let flow = GcraOperation::Add { cost };
                plan.flow(&mut one_by_one, Time(time), &flow);
                delta.add(&plan, &CellOperation::Flow(Time(time), flow));
            }
            prop_assert_eq!(delta.rest().flows.len(), 1);
            delta.show(&plan, &mut at_once);
            let moment = |cell: &[u64]| {
                let mut out = [0];
                plan.read(cell, Time(0), &mut out);
                out[0].cast_signed()
            };
            let late = moment(&at_once) - moment(&one_by_one);
            prop_assert!((0..10_000).contains(&late), "{} ns", late);
        }
    }
}

//! Additions that are decided and not made yet, put into readings that were taken before them.
//!
//! Events of one batch are read at once, and judged one after the other. What the verdict on one of them adds is made
//! when all are judged; later events of the batch are to be judged by it all the same. So it is gathered here, in a cell
//! of its own for each key, and the reading of that cell is added to that of the key: a statistic is a monoid, and what
//! two cells have seen, one cell has. What a verdict clears is cleared in both.
//!
//! ```text
//! verdict ─► add(observations)                                 a hash insertion each
//! later   ─► apply(readings of its keys) ─► has one changed?   a hash look-up for each key of a kind that is there
//! ```
//!
//! Two things are not seen: the buckets of a series, whose sum-up does not tell them, and additions to a key that a
//! sketch keeps from having a cell, which the ledger does not make either. A decayed sum that is read as of before the last
//! addition has decayed a little less than it would in one cell.

use event::{Key, Kind, Shingle, Space, Time};
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::catalog::Catalog;
use crate::kind::windows::CounterSet;
use crate::kind::{Addition, CellPlan, ObservationContext, Origin};
use crate::ledger::{Observation, ObserveOutcomes, PackedReading, Quality};

/// The additions of verdicts that were not made yet, by key.
#[derive(Debug, Default)]
pub struct AdditionOverlay {
    kinds: Vec<OverlaidKind>,
}

/// The additions to keys of one kind.
#[derive(Debug)]
struct OverlaidKind {
    space: Space,
    kind: Kind,
    /// The operations on cells, once they are needed.
    plan: Option<CellPlan>,
    cells: HashMap<Shingle, OverlaidCell>,
}

/// The additions to one key.
#[derive(Debug, Default)]
struct OverlaidCell {
    /// Additions that are in no cell yet: most keys are not asked for again.
    waiting: SmallVec<[(Time, Addition); 1]>,
    words: Vec<u64>,
    /// The counters of which nothing counts any more that was added before all this.
    cleared: CounterSet,
}

impl AdditionOverlay {
    /// Returns true if nothing was added.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Takes in the additions of a verdict.
    pub fn add(&mut self, observations: &[Observation]) {
        let mut found = None;
        for Observation { key, time, add } in observations {
            if !add.adds() {
                continue;
            }
            let at = match found {
                Some((space, kind, at)) if (space, kind) == (key.space, key.kind) => at,
                _ => self.position(key.space, key.kind).unwrap_or_else(|| {
                    let (space, kind) = (key.space, key.kind);
                    self.kinds.push(OverlaidKind { space, kind, plan: None, cells: HashMap::new() });
                    self.kinds.len() - 1
                }),
            };
            found = Some((key.space, key.kind, at));
            self.kinds[at].cells.entry(key.shingle).or_default().waiting.push((*time, add.clone()));
        }
    }

    /// Adds to the readings of a request what was taken in for its keys, each given with its place among them and the time
    /// as of which it is read; answers whether any changed. Readings are of ledgers with this catalog.
    pub fn apply<'k>(
        &mut self,
        catalog: &Catalog,
        outcomes: &mut ObserveOutcomes,
        request: usize,
        keys: impl Iterator<Item = (usize, &'k Key)>,
        time: Time,
    ) -> bool {
        let (mut found, mut has_changed) = (None, false);
        for (at, key) in keys {
            let kind = match found {
                Some((space, kind, of)) if (space, kind) == (key.space, key.kind) => of,
                _ => self.position(key.space, key.kind),
            };
            found = Some((key.space, key.kind, kind));
            let Some(of) = kind.and_then(|at| self.kinds.get_mut(at)) else { continue };
            if let Some(cell) = of.cells.get_mut(&key.shingle) {
                has_changed |= cell.apply(catalog, &mut of.plan, key, outcomes, (request, at), time);
            }
        }
        has_changed
    }

    fn position(&self, space: Space, kind: Kind) -> Option<usize> {
        self.kinds.iter().position(|of| (of.space, of.kind) == (space, kind))
    }
}

impl OverlaidCell {
    fn apply(
        &mut self,
        catalog: &Catalog,
        plan: &mut Option<CellPlan>,
        key: &Key,
        outcomes: &mut ObserveOutcomes,
        (request, at): (usize, usize),
        time: Time,
    ) -> bool {
        let Some(statistic) = catalog.get(key.space, key.kind) else { return false };
        if plan.is_none() {
            *plan = CellPlan::new(&statistic.measure).ok();
        }
        let Some(plan) = plan else { return false };
        let place = outcomes.place(request, at);
        let ObserveOutcomes { readings, values: all, .. } = outcomes;
        let Some(brief) = place.and_then(|place| readings.get_mut(place)) else { return false };
        let has_cell = brief.first <= brief.last;
        if brief.quality == Quality::Missing || (!has_cell && brief.quality == Quality::Estimated) {
            return false;
        }
        if !has_cell && statistic.admit.is_some() {
            // The ledger makes no cell for a verdict, so what waits was added to none.
            self.waiting.clear();
        }
        for (time, add) in self.waiting.drain(..) {
            if let Addition::Clear(counters) = &add {
                self.cleared = self.cleared.with(*counters);
            }
            let last = plan.last(&self.words);
            let context =
                ObservationContext { time, last, values: &[], origin: Origin::Verdict, sightings: 0 };
            plan.apply(&mut self.words, &plan.change(&add, &context));
        }
        if has_cell && plan.times(&self.words).is_some() {
            // Buckets that are too old for the key's cell are too old for this one.
            plan.add(&mut self.words, Time(brief.last), std::iter::empty());
        }
        let width = plan.reading();
        let start = brief.start as usize;
        let known = all.get_mut(start..start + usize::from(brief.width));
        // A catalog that was changed meanwhile may read other windows.
        let mut known = known.filter(|known| known.len() == width);
        let has_cleared = known.as_mut().is_some_and(|known| plan.clear_reading(known, self.cleared));
        let Some((first, last)) = plan.times(&self.words) else { return has_cleared };
        let mut values: SmallVec<[u64; 16]> = SmallVec::from_elem(0, width);
        plan.read(&self.words, time, &mut values);
        if brief.width == 0 {
            *brief = PackedReading {
                start: all.len() as u32,
                width: width as u16,
                columns: plan.columns() as u8,
                ..*brief
            };
            brief.see(first, last);
            all.extend_from_slice(&values);
            return true;
        }
        let Some(known) = known else { return false };
        plan.add_reading(known, &values);
        brief.see(first, last);
        true
    }
}

impl PackedReading {
    /// Widens the times by those of another cell of the key.
    fn see(&mut self, first: Time, last: Time) {
        self.first = self.first.min(first.0);
        self.last = self.last.max(last.0);
    }
}

impl ObserveOutcomes {
    /// Returns the place of a request's reading among those of all.
    fn place(&self, request: usize, at: usize) -> Option<usize> {
        let start = match request.checked_sub(1) {
            Some(before) => self.requests.get(before)?.0 as usize,
            None => 0,
        };
        let end = self.requests.get(request)?.0 as usize;
        start.checked_add(at).filter(|place| *place < end)
    }
}

#[cfg(test)]
mod tests {
    use event::Span;

    use super::*;
    use crate::kind::windows::Layout;
    use crate::random::Random;
    use crate::{AggregateColumn, AggregateLayout, AggregateValue, DecayWeight, Measure, Tier};

    /// Two cells have what one cell has seen, and their readings say so together, at any time from the last event on.
    #[test]
    fn readings_of_two_cells_are_the_reading_of_one() {
        let tiers =
            [Tier { width: Span::minutes(1), buckets: 20 }, Tier { width: Span::hours(1), buckets: 30 }];
        let windows = [1, 7, 20, 60, 600, 1800].map(Span::minutes).to_vec();
        let counters = vec!["seen".to_owned(), "caught".to_owned()];
        let layout = Layout::new(counters, &tiers, windows, None).unwrap();
        let columns = vec![
            AggregateColumn::Count,
            AggregateColumn::Sum,
            AggregateColumn::Min,
            AggregateColumn::Max,
            AggregateColumn::Decayed { half_life: Span::hours(1), weight: DecayWeight::Value },
        ];
        let aggregate = AggregateLayout::new(columns, Span::days(30)).unwrap();
        for measure in [Measure::Windows(layout), Measure::Aggregate(aggregate)] {
            let plan = CellPlan::new(&measure).unwrap();
            for seed in 0..500 {
                let random = &mut Random::new(seed);
                let (mut both, mut parts) = (Vec::new(), [Vec::new(), Vec::new()]);
                let mut now = Time::from_seconds(1_780_000_000);
                for _ in 0..random.below(40) {
                    now = now + Span::seconds(*random.pick(&[0, 1, 40, 90, 1500, 9000]));
                    let add = match &measure {
                        Measure::Windows(_) => Addition::Counters(
                            [(random.below(2) as u8, 1 + random.below(9))].into_iter().collect(),
                        ),
                        _ => Addition::Value(Some(random.between(-9, 9))),
                    };
                    let context = ObservationContext {
                        time: now,
                        last: plan.last(&both),
                        values: &[],
                        origin: Origin::Event,
                        sightings: 0,
                    };
                    let change = plan.change(&add, &context);
                    plan.apply(&mut both, &change);
                    plan.apply(&mut parts[random.below(2) as usize], &change);
                }
                now = now + Span::seconds(random.between(0, 4000));
                let read = |words: &[u64]| {
                    let mut values = vec![0; plan.reading()];
                    plan.read(words, now, &mut values);
                    values
                };
                let mut found = read(&parts[0]);
                plan.add_reading(&mut found, &read(&parts[1]));
                let expected = read(&both);
                if let Measure::Aggregate(of) = &measure {
                    for ((found, expected), column) in found.iter().zip(&expected).zip(of.columns()) {
                        let (found, expected) = (column.value(*found), column.value(*expected));
                        match (found, expected) {
                            (AggregateValue::Real(found), AggregateValue::Real(expected)) => {
                                assert!((found - expected).abs() < 1e-9, "seed {seed}: {found} {expected}");
                            }
                            (found, expected) => assert_eq!(found, expected, "seed {seed}"),
                        }
                    }
                } else {
                    assert_eq!(found, expected, "seed {seed}");
                }
            }
        }
    }
}

//! The oracle: every event of every key in a list. Slow, and plain enough to be believed.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use crate::spec::{COUNTERS_MAX, StatisticSpec};

/// A key: its kind's place, and its number; with a value it is the mark of a pair of a distinct count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OracleKey {
    pub(crate) kind: usize,
    pub(crate) number: u64,
    pub(crate) value: Option<u64>,
}

/// A look at one key, and what is added to it.
#[derive(Clone)]
pub(crate) struct OracleObservation {
    pub(crate) kind: usize,
    pub(crate) number: u64,
    pub(crate) time: i64,
    pub(crate) add: OracleAddition,
}

#[derive(Clone)]
pub(crate) enum OracleAddition {
    Nothing,
    Counters(Vec<(u8, u64)>),
    Distinct(u64),
}

/// A request: its mark's number and time, and its looks.
#[derive(Clone)]
pub(crate) struct OracleRequest {
    pub(crate) mark: Option<(u64, i64)>,
    pub(crate) looks: Vec<OracleObservation>,
}

impl OracleRequest {
    pub(crate) fn adds(&self) -> bool {
        self.mark.is_some() || self.looks.iter().any(|look| !matches!(look.add, OracleAddition::Nothing))
    }
}

// Short, so that a failure's steps can be read: `1#6@1790000000000000[0+2,1+1]`.
impl fmt::Debug for OracleObservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}@{}", self.kind, self.number, self.time)?;
        match &self.add {
            OracleAddition::Nothing => f.write_str("?"),
            OracleAddition::Counters(amounts) => {
                let amounts: Vec<String> =
                    amounts.iter().map(|(counter, amount)| format!("{counter}+{amount}")).collect();
                write!(f, "[{}]", amounts.join(","))
            }
            OracleAddition::Distinct(value) => write!(f, "<-{value}"),
        }
    }
}

impl fmt::Debug for OracleRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((number, time)) = self.mark {
            write!(f, "once {number}@{time} ")?;
        }
        self.looks.fmt(f)
    }
}

/// The answer to a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OracleReading {
    pub(crate) missing: bool,
    pub(crate) first: Option<i64>,
    pub(crate) last: Option<i64>,
    pub(crate) fresh: bool,
    /// Windows by counters.
    pub(crate) sums: Vec<u64>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OracleOutcome {
    pub(crate) duplicate: bool,
    pub(crate) reads: Vec<OracleReading>,
}

/// All that is kept of a key: first, last, and buckets as (start, width, counts), coarse ones first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OracleTimeline {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) buckets: Vec<(i64, i64, Vec<u64>)>,
}

#[derive(Clone, Copy, Debug)]
struct OracleEvent {
    time: i64,
    amounts: [u64; COUNTERS_MAX],
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct LedgerOracle {
    kinds: Arc<Vec<StatisticSpec>>,
    cells: BTreeMap<OracleKey, Rc<Vec<OracleEvent>>>,
    /// The horizon: what expires at or before this is gone.
    horizon: i64,
}

impl LedgerOracle {
    pub(crate) fn new(kinds: Arc<Vec<StatisticSpec>>) -> LedgerOracle {
        LedgerOracle { kinds, cells: BTreeMap::new(), horizon: i64::MIN }
    }

    /// Lets go of what has expired by then.
    pub(crate) fn raise(&mut self, horizon: i64) {
        self.horizon = self.horizon.max(horizon);
        let (kinds, horizon) = (&self.kinds, self.horizon);
        self.cells.retain(|name, events| {
            events
                .iter()
                .map(|seen| seen.time)
                .max()
                .is_some_and(|last| kinds[name.kind].expires(last) > horizon)
        });
    }

    fn live(&mut self, name: OracleKey) -> &mut Rc<Vec<OracleEvent>> {
        let events = self.cells.entry(name).or_default();
        let last = events.iter().map(|seen| seen.time).max();
        if last.is_some_and(|last| self.kinds[name.kind].expires(last) <= self.horizon) {
            *events = Rc::default();
        }
        events
    }

    fn push(&mut self, name: OracleKey, time: i64, amounts: impl IntoIterator<Item = (u8, u64)>) {
        let mut seen = OracleEvent { time, amounts: [0; COUNTERS_MAX] };
        for (counter, amount) in amounts {
            let sum = &mut seen.amounts[usize::from(counter)];
            *sum = sum.saturating_add(amount);
        }
        Rc::make_mut(self.live(name)).push(seen);
    }

    /// The buckets that are kept, by tier (0 is fine) and number.
    fn kept(&mut self, name: OracleKey) -> BTreeMap<(usize, i64), [u64; COUNTERS_MAX]> {
        let kinds = self.kinds.clone();
        let (fine, coarse) = (kinds[name.kind].fine(), kinds[name.kind].coarse());
        let mut kept = BTreeMap::new();
        let events = self.live(name).clone();
        let Some(last) = events.iter().map(|seen| seen.time).max() else { return kept };
        let head = last.div_euclid(fine.width);
        for seen in events.iter() {
            let mut place = (0, seen.time.div_euclid(fine.width));
            if place.1 < head - fine.buckets {
                let Some(coarse) = coarse else { continue };
                place = (1, seen.time.div_euclid(coarse.width));
                if place.1 < last.div_euclid(coarse.width) - coarse.buckets {
                    continue;
                }
            }
            if seen.amounts.iter().any(|amount| *amount > 0) {
                add(kept.entry(place).or_insert([0; COUNTERS_MAX]), &seen.amounts);
            }
        }
        kept
    }

    fn read(&mut self, name: OracleKey, now: i64) -> OracleReading {
        let kinds = self.kinds.clone();
        let kind = &kinds[name.kind];
        let kept = self.kept(name);
        let mut sums = Vec::new();
        for sum in kind.sums() {
            let buckets = (now - sum.window).div_euclid(sum.width) + sum.skip..=now.div_euclid(sum.width);
            let mut total = [0; COUNTERS_MAX];
            for ((tier, bucket), amounts) in &kept {
                let width = if *tier == 0 { kind.fine().width } else { sum.width };
                let reached = sum.coarse || *tier == 0;
                if reached && buckets.contains(&(bucket * width).div_euclid(sum.width)) {
                    add(&mut total, amounts);
                }
            }
            sums.extend_from_slice(&total[..kind.counters()]);
        }
        let times = self.live(name).iter().map(|seen| seen.time);
        let (first, last) = (times.clone().min(), times.max());
        OracleReading { missing: false, first, last, fresh: false, sums }
    }

    /// Applies a request; answers what a ledger must answer.
    pub(crate) fn ask(&mut self, ask: &OracleRequest) -> OracleOutcome {
        self.ask_as(ask, None)
    }

    /// Applies a request as `ask` does, but for a duplicate if it is said to be one, and for none if it is said to be none.
    pub(crate) fn ask_as(&mut self, ask: &OracleRequest, duplicate_answered: Option<bool>) -> OracleOutcome {
        let mut duplicate = false;
        if let Some((number, time)) = ask.mark {
            let kind = self.kinds.len() - 1;
            let name = OracleKey { kind, number, value: None };
            let bucket = time.div_euclid(self.kinds[kind].fine().width);
            duplicate = self.kept(name).keys().any(|(_, marked)| marked.abs_diff(bucket) <= 1);
            duplicate = duplicate_answered.unwrap_or(duplicate);
            if !duplicate {
                self.push(name, time, [(0, 1)]);
            }
        }
        let reads = ask.looks.iter().map(|look| self.look(look, !duplicate)).collect();
        OracleOutcome { duplicate, reads }
    }

    fn look(&mut self, look: &OracleObservation, adds: bool) -> OracleReading {
        let name = OracleKey { kind: look.kind, number: look.number, value: None };
        let mut read = self.read(name, look.time);
        match &look.add {
            OracleAddition::Nothing => {}
            OracleAddition::Counters(amounts) => {
                if adds {
                    self.push(name, look.time, amounts.iter().copied());
                }
            }
            OracleAddition::Distinct(value) => {
                let pair = OracleKey { value: Some(*value), ..name };
                let tier = self.kinds[name.kind].fine();
                let bucket = look.time.div_euclid(tier.width);
                let head = self.live(pair).iter().map(|seen| seen.time.div_euclid(tier.width)).max();
                let forgotten = head.is_some_and(|head| bucket < head - tier.buckets);
                read.fresh = !forgotten && !self.kept(pair).contains_key(&(0, bucket));
                if adds {
                    if read.fresh {
                        self.push(pair, look.time, [(0, 1)]);
                    }
                    self.push(name, look.time, [(0, u64::from(read.fresh))]);
                }
            }
        }
        read
    }

    /// All that is kept of a key.
    pub(crate) fn line(&mut self, name: OracleKey) -> Option<OracleTimeline> {
        let kinds = self.kinds.clone();
        let kind = &kinds[name.kind];
        let kept = self.kept(name);
        let times = self.live(name).iter().map(|seen| seen.time);
        let (first, last) = (times.clone().min()?, times.max()?);
        let mut buckets = Vec::new();
        for tier in [1, 0] {
            let width = if tier == 0 { kind.fine() } else { kind.coarse().unwrap_or(kind.fine()) }.width;
            let of_tier = kept.iter().filter(|((of, _), _)| *of == tier);
            buckets.extend(
                of_tier.map(|((_, bucket), amounts)| {
                    (bucket * width, width, amounts[..kind.counters()].to_vec())
                }),
            );
        }
        Some(OracleTimeline { first, last, buckets })
    }

    /// All that can ever matter of it, pairs included: what is equal here stays equal.
    pub(crate) fn essence(&mut self) -> BTreeMap<OracleKey, OracleTimeline> {
        let names: Vec<OracleKey> = self.cells.keys().copied().collect();
        names.into_iter().filter_map(|name| Some((name, self.line(name)?))).collect()
    }

    /// The largest sums of a counter over one of the kind's windows, largest first.
    pub(crate) fn hottest(
        &mut self,
        kind: usize,
        window: usize,
        counter: usize,
        now: i64,
        limit: usize,
    ) -> Vec<u64> {
        let counters = self.kinds[kind].counters();
        let names: Vec<OracleKey> =
            self.cells.keys().filter(|name| name.kind == kind && name.value.is_none()).copied().collect();
        let mut sums: Vec<u64> =
            names.into_iter().map(|name| self.read(name, now).sums[window * counters + counter]).collect();
        sums.retain(|sum| *sum > 0);
        sums.sort_unstable_by(|a, b| b.cmp(a));
        sums.truncate(limit);
        sums
    }
}

fn add(sums: &mut [u64; COUNTERS_MAX], amounts: &[u64; COUNTERS_MAX]) {
    for (sum, amount) in sums.iter_mut().zip(amounts) {
        *sum = sum.saturating_add(*amount);
    }
}

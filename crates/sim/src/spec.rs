//! Specification of a simulated ledger in types of its own: the model must not share the ledger's mistakes.

use stats::random::Random;

/// Most counters of a kind.
pub(crate) const COUNTERS_MAX: usize = 3;

const SECOND: i64 = 1_000_000;

/// Buckets of one width in microseconds, and how many are kept beside the current one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TierSpec {
    pub(crate) width: i64,
    pub(crate) buckets: i64,
}

/// One kind's statistic.
#[derive(Clone, Debug)]
pub(crate) enum StatisticSpec {
    Windows {
        counters: usize,
        fine: TierSpec,
        coarse: Option<TierSpec>,
        windows: Vec<i64>,
        keep: Option<i64>,
    },
    Distinct {
        tier: TierSpec,
        windows: Vec<i64>,
    },
    Once {
        window: i64,
    },
}

/// A sum that readings carry: of which tier's buckets, from how long ago, and how many of the oldest are left out.
pub(crate) struct SumSpec {
    pub(crate) coarse: bool,
    pub(crate) width: i64,
    pub(crate) window: i64,
    pub(crate) skip: i64,
}

impl TierSpec {
    pub(crate) fn span(self) -> i64 {
        self.width * self.buckets
    }
}

impl StatisticSpec {
    pub(crate) fn counters(&self) -> usize {
        match self {
            StatisticSpec::Windows { counters, .. } => *counters,
            _ => 1,
        }
    }

    pub(crate) fn fine(&self) -> TierSpec {
        match self {
            StatisticSpec::Windows { fine, .. } => *fine,
            StatisticSpec::Distinct { tier, .. } => *tier,
            StatisticSpec::Once { window } => TierSpec { width: *window, buckets: 1 },
        }
    }

    pub(crate) fn coarse(&self) -> Option<TierSpec> {
        match self {
            StatisticSpec::Windows { coarse, .. } => *coarse,
            _ => None,
        }
    }

    /// The time after which a cell with this last event may go: no window reaches it, and `keep` is over.
    pub(crate) fn expires(&self, last: i64) -> i64 {
        let longest = self.coarse().unwrap_or(self.fine());
        let keep = match self {
            StatisticSpec::Windows { keep: Some(keep), .. } => *keep,
            _ => longest.span(),
        };
        let unreached = (last.div_euclid(longest.width) + 1) * longest.width + longest.span();
        unreached.max(last + keep)
    }

    pub(crate) fn sums(&self) -> Vec<SumSpec> {
        match self {
            StatisticSpec::Windows { fine, coarse, windows, .. } => windows
                .iter()
                .map(|window| match coarse {
                    Some(coarse) if fine.span() < *window => {
                        SumSpec { coarse: true, width: coarse.width, window: *window, skip: 0 }
                    }
                    _ => SumSpec { coarse: false, width: fine.width, window: *window, skip: 0 },
                })
                .collect(),
            // Whole periods, the current one among them.
            StatisticSpec::Distinct { tier, windows } => windows
                .iter()
                .map(|window| SumSpec { coarse: false, width: tier.width, window: *window, skip: 1 })
                .collect(),
            StatisticSpec::Once { .. } => Vec::new(),
        }
    }
}

/// Four kinds: two with windows, distinct values, marks of requests. Kinds are numbered by their place.
pub(crate) fn random_kinds(random: &mut Random) -> Vec<StatisticSpec> {
    let mut kinds: Vec<StatisticSpec> = (0..2).map(|_| random_windows(random)).collect();
    let tier = TierSpec { width: *random.pick(&[1, 10, 60]) * SECOND, buckets: random.between(1, 5) };
    let windows = (1..=tier.buckets + 1).filter(|_| random.one_in(2)).chain([1]);
    kinds.push(StatisticSpec::Distinct {
        tier,
        windows: windows.map(|periods| periods * tier.width).collect(),
    });
    kinds.push(StatisticSpec::Once { window: *random.pick(&[1, 60, 3600]) * SECOND });
    kinds
}

fn random_windows(random: &mut Random) -> StatisticSpec {
    let fine = TierSpec { width: *random.pick(&[1, 7, 10, 60]) * SECOND, buckets: random.between(1, 12) };
    let coarse = random.one_in(2).then(|| {
        let ratio = random.between(2, 10);
        let least = (fine.buckets + ratio - 1) / ratio;
        TierSpec { width: fine.width * ratio, buckets: least + random.between(0, 6) }
    });
    let longest = coarse.unwrap_or(fine);
    let mut windows = Vec::new();
    for _ in 0..random.below(4) {
        let tier = if random.one_in(2) { fine } else { longest };
        windows.push(random.between(tier.width, tier.span()));
    }
    let keep = random.one_in(3).then(|| longest.span() + random.between(0, 3600 * SECOND));
    let counters = random.between(1, COUNTERS_MAX as i64) as usize;
    // A window between the tiers, as long as no bucket of the coarse one, cannot be answered.
    windows.retain(|window| *window <= fine.span() || coarse.is_some_and(|coarse| coarse.width <= *window));
    StatisticSpec::Windows { counters, fine, coarse, windows, keep }
}

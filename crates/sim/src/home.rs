//! The one place that speaks to the ledger: from the model's terms to its own and back.

use std::fmt;
use std::sync::Arc;

use disk::MemoryDevice;
use event::{Key, Kind, Secret, Space, Span, Time};
use stats::{
    Catalog, CounterAmounts, DedupeMark, Durability, EmbeddedLedger, HottestQuery, Layout, Ledger,
    LedgerError, Measure, Observation, ObserveRequest, Options, Reading, Statistic,
};
use store::StoreError;

use crate::oracle::{OracleAddition, OracleKey, OracleOutcome, OracleReading, OracleRequest, OracleTimeline};
use crate::spec::{StatisticSpec, TierSpec};

const SPACE: Space = Space(1);

/// The promise that holds after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DurabilityPromise {
    /// All that was answered.
    Sync,
    /// All that was answered before the last flush; the interval itself never passes in a simulation.
    Interval,
    /// A state since the last close.
    None,
    /// Without a disk: nothing, and it never crashes.
    Memory,
}

/// The settings by which the ledger is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HomeSettings {
    pub(crate) promise: DurabilityPromise,
    pub(crate) memory_bytes: usize,
    pub(crate) segment_bytes: u32,
}

/// Reasons for a ledger without an answer.
#[derive(Clone, Debug)]
pub(crate) enum HomeRefusal {
    /// A write failed, now or before: it takes no more additions.
    Stopped(String),
    /// The disk has no room: it takes additions again when there is some.
    Full(String),
    /// Anything else.
    Other(String),
}

impl fmt::Display for HomeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HomeRefusal::Stopped(why) => write!(f, "stopped: {why}"),
            HomeRefusal::Full(why) => write!(f, "full: {why}"),
            HomeRefusal::Other(why) => write!(f, "refused: {why}"),
        }
    }
}

pub(crate) struct SimulatedHome {
    ledger: EmbeddedLedger,
    kinds: Arc<Vec<StatisticSpec>>,
    found_damage: bool,
}

impl SimulatedHome {
    pub(crate) fn open(
        device: &MemoryDevice,
        kinds: &Arc<Vec<StatisticSpec>>,
        settings: HomeSettings,
    ) -> Result<SimulatedHome, HomeRefusal> {
        let catalog = catalog(kinds);
        let durability = match settings.promise {
            DurabilityPromise::Memory => {
                let ledger = EmbeddedLedger::in_memory(catalog, 1 << 30).map_err(refused)?;
                return Ok(SimulatedHome { ledger, kinds: kinds.clone(), found_damage: false });
            }
            DurabilityPromise::Sync => Durability::Sync,
            DurabilityPromise::Interval => Durability::Interval(Span::days(1)),
            DurabilityPromise::None => Durability::None,
        };
        let HomeSettings { memory_bytes, segment_bytes, .. } = settings;
        let options = Options { memory_bytes, segment_bytes, durability };
        let (ledger, recovery) =
            EmbeddedLedger::open(Arc::new(device.clone()), catalog, options).map_err(refused)?;
        let found_damage = !recovery.losses.is_empty() || recovery.truncated_bytes > 0;
        Ok(SimulatedHome { ledger, kinds: kinds.clone(), found_damage })
    }

    pub(crate) fn observe(&self, asks: &[OracleRequest]) -> Result<Vec<OracleOutcome>, HomeRefusal> {
        let requests: Vec<ObserveRequest> = asks.iter().map(|ask| self.request(ask)).collect();
        let outcomes = pollster::block_on(self.ledger.observe(&requests)).map_err(refused)?;
        let told = outcomes.outcomes().zip(asks).map(|(outcome, ask)| OracleOutcome {
            duplicate: outcome.duplicate,
            reads: outcome
                .readings
                .iter()
                .zip(&ask.looks)
                .map(|(reading, look)| self.read(look.kind, reading))
                .collect(),
        });
        Ok(told.collect())
    }

    pub(crate) fn line(&self, name: OracleKey) -> Result<Option<OracleTimeline>, HomeRefusal> {
        let found = pollster::block_on(self.ledger.timeline(key(name.kind, name.number))).map_err(refused)?;
        Ok(found.map(|timeline| OracleTimeline {
            first: timeline.first.0,
            last: timeline.last.0,
            buckets: timeline
                .buckets
                .into_iter()
                .map(|bucket| (bucket.start.0, bucket.width.0, bucket.counts))
                .collect(),
        }))
    }

    /// The largest sums, largest first.
    pub(crate) fn hottest(
        &self,
        kind: usize,
        window: i64,
        counter: usize,
        now: i64,
        limit: usize,
    ) -> Result<Vec<u64>, HomeRefusal> {
        let Kind(number) = kind_number(kind);
        let (space, kind, window) = (SPACE, Kind(number), Span(window));
        let query = HottestQuery { space, kind, counter: counter as u8, window, since: None, limit };
        let asked = self.ledger.hottest(std::slice::from_ref(&query), Time(now), &|| false);
        let found = pollster::block_on(asked).map_err(refused)?;
        Ok(found.into_iter().flatten().map(|(_, sum)| sum).collect())
    }

    pub(crate) fn maintain(&self, now: i64) -> Result<(), HomeRefusal> {
        self.ledger.maintain(Time(now)).map_err(refused)
    }

    pub(crate) fn close(&self) -> Result<(), HomeRefusal> {
        self.ledger.close().map_err(refused)
    }

    /// Opening it found bytes that could not be read.
    pub(crate) fn found_damage(&self) -> bool {
        self.found_damage
    }

    fn request(&self, ask: &OracleRequest) -> ObserveRequest {
        let marks = self.kinds.len() - 1;
        let observations = ask.looks.iter().map(|look| {
            let key = key(look.kind, look.number);
            let add = match &look.add {
                OracleAddition::Nothing => stats::Addition::Nothing,
                OracleAddition::Counters(amounts) => {
                    stats::Addition::Counters(amounts.iter().copied().collect::<CounterAmounts>())
                }
                OracleAddition::Distinct(value) => {
                    let value = secret().shingle(&value.to_le_bytes());
                    stats::Addition::Distinct { pair: secret().pair(key.shingle, value) }
                }
            };
            Observation { key, time: Time(look.time), add }
        });
        ObserveRequest {
            once: ask.mark.map(|(number, time)| DedupeMark { key: key(marks, number), time: Time(time) }),
            observations: observations.collect(),
            ..ObserveRequest::default()
        }
    }

    fn read(&self, kind: usize, reading: &Reading) -> OracleReading {
        let (windows, counters) = (self.kinds[kind].sums().len(), self.kinds[kind].counters());
        let cells = (0..windows).flat_map(|window| (0..counters).map(move |counter| (window, counter)));
        OracleReading {
            missing: !reading.quality.is_counted(),
            first: reading.first.map(|time| time.0),
            last: reading.last.map(|time| time.0),
            fresh: reading.fresh,
            sums: cells.map(|(window, counter)| reading.sum(window, counter)).collect(),
        }
    }
}

fn refused(error: LedgerError) -> HomeRefusal {
    match error {
        LedgerError::Full { .. } | LedgerError::Store(StoreError::Full { .. }) => {
            HomeRefusal::Full(error.to_string())
        }
        LedgerError::Poisoned { .. } | LedgerError::Store(_) => HomeRefusal::Stopped(error.to_string()),
        _ => HomeRefusal::Other(error.to_string()),
    }
}

fn secret() -> Secret {
    Secret::new(*b"the same always!")
}

fn key(kind: usize, number: u64) -> Key {
    Key { space: SPACE, kind: kind_number(kind), shingle: secret().shingle(&number.to_le_bytes()) }
}

fn kind_number(kind: usize) -> Kind {
    Kind(kind as u16 + 1)
}

fn catalog(kinds: &[StatisticSpec]) -> Catalog {
    let tier = |tier: &TierSpec| stats::Tier { width: Span(tier.width), buckets: tier.buckets as u32 };
    let mut builder = Catalog::builder();
    for (place, kind) in kinds.iter().enumerate() {
        let measure = match kind {
            StatisticSpec::Windows { counters, fine, coarse, windows, keep } => {
                let names = (0..*counters).map(|counter| format!("c{counter}")).collect();
                let tiers: Vec<stats::Tier> = std::iter::once(fine).chain(coarse).map(tier).collect();
                let windows = windows.iter().copied().map(Span).collect();
                Measure::Windows(
                    Layout::new(names, &tiers, windows, keep.map(Span)).expect("specs are possible layouts"),
                )
            }
            StatisticSpec::Distinct { tier: of, windows } => {
                Measure::distinct(tier(of), windows.iter().copied().map(Span).collect())
            }
            StatisticSpec::Once { window } => Measure::once(Span(*window)),
        };
        let statistic = Statistic {
            name: format!("s{place}"),
            kind_name: format!("k{place}"),
            measure,
            admit: None,
            exact: false,
        };
        builder.add(SPACE, kind_number(place), statistic).expect("kinds have numbers of their own");
    }
    builder.build()
}

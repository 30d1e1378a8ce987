//! Tollhouse's embedded ledger. The only file that knows its interface.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use disk::FileDevice;
use event::{Key, Kind, Shingle, Space, Span, Time};
use stats::{
    Addition, AggregateColumn, AggregateLayout, Catalog, CatalogBuilder, CounterAmounts, Durability,
    EmbeddedLedger, Layout, Ledger, Measure, Observation, ObserveRequest, ReadingView, Tier,
};

use super::group::Background;
use crate::cell::Reading;
use crate::engine::{Engine, EngineOptions, Error};
use crate::workload::{Batch, Micros, Statistic};

const SPACE: Space = Space(1);
const KIND: Kind = Kind(1);
/// The server's interval of upkeep.
const UPKEEP: Duration = Duration::from_secs(10);

pub(crate) fn open(opening: EngineOptions<'_>) -> Result<Box<dyn Engine>, Error> {
    let device = Arc::new(FileDevice::open(opening.directory)?);
    let options = stats::Options {
        memory_bytes: usize::try_from(opening.memory_bytes)?,
        segment_bytes: store::log::LogOptions::SEGMENT_BYTES_MAX,
        durability: Durability::Interval(Span::seconds(1)),
    };
    let ledger = Arc::new(EmbeddedLedger::open(device, catalog(opening.statistic)?, options)?.0);
    let latest = Arc::new(AtomicI64::new(i64::MIN));
    let (maintained, now) = (ledger.clone(), latest.clone());
    let maintenance = Background::every(UPKEEP, move || match now.load(Ordering::Relaxed) {
        i64::MIN => Ok(()),
        now => Ok(maintained.maintain(Time(now))?),
    });
    Ok(Box::new(Tollhouse {
        ledger,
        latest,
        maintenance,
        statistic: opening.statistic,
        requests: Vec::new(),
    }))
}

fn catalog(statistic: Statistic) -> Result<Catalog, Error> {
    let text = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let tier = |tier: &str| tier.parse::<Tier>();
    let measure = match statistic {
        Statistic::Fixed => Measure::Aggregate(AggregateLayout::new(
            vec![AggregateColumn::First, AggregateColumn::Last, AggregateColumn::Count],
            Span::days(30),
        )?),
        Statistic::Windowed => Measure::Windows(Layout::new(
            text(&["seen", "spam", "ham", "complaint", "pardon", "read"]),
            &[tier("10m x 144")?, tier("1d x 14")?],
            vec![Span::hours(1), Span::days(1), Span::days(14)],
            None,
        )?),
    };
    let mut builder = CatalogBuilder::default();
    let statistic = stats::Statistic {
        name: "measured".to_owned(),
        kind_name: "key".to_owned(),
        measure,
        admit: None,
        exact: false,
    };
    builder.add(SPACE, KIND, statistic)?;
    Ok(builder.build())
}

struct Tollhouse {
    ledger: Arc<EmbeddedLedger>,
    latest: Arc<AtomicI64>,
    maintenance: Background,
    statistic: Statistic,
    requests: Vec<ObserveRequest>,
}

fn key(key: u64) -> Key {
    Key { space: SPACE, kind: KIND, shingle: Shingle(key) }
}

impl Tollhouse {
    fn reading(&self, answer: ReadingView<'_>) -> Reading {
        let time = |time: Option<Time>| time.map_or(0, |time| time.0.cast_unsigned());
        match self.statistic {
            Statistic::Fixed => Reading::fixed([time(answer.first()), time(answer.last()), answer.sum(0, 2)]),
            Statistic::Windowed => Reading::windowed(std::array::from_fn(|at| answer.sum(at / 6, at % 6))),
        }
    }
}

impl Engine for Tollhouse {
    fn observe(&mut self, batch: &Batch) -> Result<u64, Error> {
        let fixed = self.statistic == Statistic::Fixed;
        self.requests.resize_with(batch.times.len(), ObserveRequest::default);
        for (request, (time, keys, counters)) in self.requests.iter_mut().zip(batch.events()) {
            request.observations.clear();
            request.observations.extend(keys.iter().zip(counters).map(|(shingle, counter)| Observation {
                key: key(*shingle),
                time: Time(time),
                add: if fixed {
                    Addition::Value(None)
                } else {
                    Addition::Counters(CounterAmounts::from([(*counter, 1)]))
                },
            }));
        }
        let outcomes = pollster::block_on(self.ledger.observe(&self.requests))?;
        self.latest.store(batch.times.last().copied().unwrap_or(i64::MIN), Ordering::Relaxed);
        Ok(outcomes.all().map(|answer| std::hint::black_box(self.reading(answer)).counted()).sum())
    }

    fn read(&mut self, keys: &[u64], time: Micros) -> Result<Vec<Reading>, Error> {
        let look =
            |shingle: &u64| Observation { key: key(*shingle), time: Time(time), add: Addition::Nothing };
        let requests: Vec<ObserveRequest> = keys
            .chunks(ObserveRequest::OBSERVATIONS_MAX)
            .map(|keys| ObserveRequest {
                observations: keys.iter().map(look).collect(),
                ..ObserveRequest::default()
            })
            .collect();
        let outcomes = pollster::block_on(self.ledger.observe(&requests))?;
        Ok(outcomes.all().map(|answer| self.reading(answer)).collect())
    }

    fn settle(&mut self) -> Result<(), Error> {
        let latest = self.latest.load(Ordering::Relaxed);
        Ok(self.ledger.maintain(Time(latest))?)
    }

    fn memory_bytes(&mut self) -> Result<Option<u64>, Error> {
        let census = self.ledger.census();
        Ok(Some(census.memory_bytes))
    }

    fn close(mut self: Box<Self>) -> Result<(), Error> {
        self.maintenance.stop()?;
        Ok(self.ledger.close()?)
    }
}

//! Two years of each preset's statistics, a few new keys a day: memory and disk level off.

use std::sync::Arc;

use disk::MemoryDevice;
use event::{Key, Secret, Span, Time};
use plan::{Config, Overrides, Plan};
use stats::limit::GcraOperation;
use stats::{
    Addition, Catalog, CounterAmounts, DedupeMark, Durability, EmbeddedLedger, Evidence, Ledger, Measure,
    Observation, ObserveRequest,
};

const START: Time = Time::from_seconds(1_700_000_000);
const EACH: u64 = 3;
const DAYS: u64 = 728;

/// The events of a day: of each kind some keys that were never seen before.
fn day(catalog: &Catalog, secret: &Secret, day: u64, time: Time) -> Vec<ObserveRequest> {
    let mut requests = Vec::new();
    for (space, kind, statistic) in catalog.iter() {
        // What is kept for longer than a year has not levelled off by then.
        let keep = match &statistic.measure {
            Measure::Aggregate(aggregate) => aggregate.keep(),
            Measure::Evidence(form) => form.keep,
            Measure::Last(form) => form.keep,
            Measure::Windows(layout) => Span(layout.shape().expires(time).0 - time.0),
            _ => Span::ZERO,
        };
        if keep > Span::days(250) {
            continue;
        }
        for number in 0..EACH {
            let shingle = secret.shingle(&(day * EACH + number).to_le_bytes());
            let key = Key { space, kind, shingle };
            let add = match &statistic.measure {
                Measure::Windows(_) => Addition::Counters(CounterAmounts::from([(0, 1)])),
                Measure::Aggregate(_) => Addition::Value(Some(time.0)),
                Measure::Distinct(_) | Measure::Approx(_) => {
                    Addition::Distinct { pair: secret.pair(shingle, secret.shingle(b"value")) }
                }
                Measure::Evidence(_) => Addition::Evidence(Evidence { bad: 1, ..Evidence::default() }),
                Measure::Last(_) => Addition::Last("value".into()),
                Measure::Gcra(_) => {
                    Addition::Flow(GcraOperation::Take { cost: 1, burst: 10, counts_all: false })
                }
                Measure::Once(_) => {
                    requests.push(ObserveRequest {
                        once: Some(DedupeMark { key, time }),
                        observations: Vec::new(),
                        ..ObserveRequest::default()
                    });
                    continue;
                }
            };
            requests.push(ObserveRequest {
                observations: vec![Observation { key, time, add }],
                ..ObserveRequest::default()
            });
        }
    }
    requests
}

#[test]
fn two_years_of_each_preset_level_off() {
    let secret = Secret::new([5; 16]);
    for preset in plan::preset::ALL {
        // Sketches have what memory they are given, however few keys there are: here hardly any.
        let flags = vec![("ledger.memory".to_owned(), "1MiB".to_owned())];
        let overrides = Overrides { flags, ..Overrides::default() };
        let plan = Plan::compile(&Config::from_preset(preset.name, &overrides));
        let catalog = plan.unwrap_or_else(|problems| panic!("{problems}")).catalog;
        let device = MemoryDevice::new();
        let options =
            stats::Options { memory_bytes: 16 << 20, segment_bytes: 64 << 10, durability: Durability::None };
        let ledger = EmbeddedLedger::open(Arc::new(device), catalog.clone(), options).unwrap().0;
        // The most of a quarter: keys, bytes of the directory, bytes of files.
        let mut quarters = [[0; 3]; 8];
        for number in 0..DAYS {
            let time = START + Span::days(number as i64);
            for _ in 0..2 {
                // What comes once stays with the sketch in front, where there is one.
                pollster::block_on(ledger.observe(&day(&catalog, &secret, number, time))).unwrap();
                ledger.maintain(time).unwrap();
            }
            let census = ledger.census();
            let now = [census.keys, census.directory_bytes, census.disk_bytes];
            for (most, now) in quarters[number as usize / 91].iter_mut().zip(now) {
                *most = now.max(*most);
            }
        }
        println!("{}: {quarters:?}", preset.name);
        let [.., before_last, last] = quarters;
        // The index has hundreds of tables of a few keys each, of which now and then one doubles, more seldom with each quarter:
        // in the first year by a tenth. Merges run beside the rest. An eighth is allowed for both.
        for (before, after) in before_last.into_iter().zip(last) {
            assert!(after * 8 <= before * 9, "{}: {quarters:?}", preset.name);
        }
        let made = DAYS * EACH * catalog.iter().count() as u64;
        assert!(last[0] * 2 < made, "{}: of {made} keys {quarters:?}", preset.name);
    }
}

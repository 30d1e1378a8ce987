//! Measures the embedded ledger: `cargo run --release -p tollhouse-stats --example measure -- [keys] [durability]`.
//!
//! Every key is counted once and then once more, in requests of twelve keys, 5,000 requests a batch.

use std::sync::Arc;
use std::time::Instant;

use event::{Key, Kind, Secret, Space, Span, Time};
use stats::{
    Add, Amounts, Catalog, Embedded, Layout, Ledger, Measure, Observation, Options, Request, Statistic,
};
use store::{FileDevice, Store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let keys: u64 = arguments.next().map_or(Ok(1_000_000), |keys| keys.parse())?;
    let durability = arguments.next().as_deref().unwrap_or("1s").parse()?;

    let counters = ["seen", "spam", "ham", "complaint", "pardon", "read"].map(str::to_owned).to_vec();
    let tiers = ["10m x 144".parse()?, "1d x 14".parse()?];
    let layout = Layout::new(counters, &tiers, vec![Span::hours(1), Span::days(1), Span::days(14)], None)?;
    let mut catalog = Catalog::builder();
    let measure = Measure::Windows(layout);
    let statistic = Statistic { name: "mass".to_owned(), kind_name: "from".to_owned(), measure };
    catalog.add(Space(0), Kind(1), statistic)?;

    let directory = tempfile::tempdir()?;
    let (store, _) = Store::open(Arc::new(FileDevice::open(directory.path())?), store::Options::default())?;
    let ledger = Embedded::open(store, catalog.build(), Options { memory_bytes: 1 << 30, durability })?;
    let secret = Secret::new([1; Secret::BYTES]);
    let time = Time::from_seconds(1_790_000_000);
    for round in ["first", "again"] {
        let start = Instant::now();
        for batch in 0..keys.div_ceil(60_000) {
            let numbers: Vec<u64> = (batch * 60_000..((batch + 1) * 60_000).min(keys)).collect();
            let requests: Vec<Request> = numbers
                .chunks(12)
                .map(|numbers| {
                    let observation = |number: &u64| Observation {
                        key: Key {
                            space: Space(0),
                            kind: Kind(1),
                            shingle: secret.shingle(&number.to_le_bytes()),
                        },
                        time,
                        add: Add::Counters(Amounts::from([(0, 1)])),
                    };
                    Request { once: None, observations: numbers.iter().map(observation).collect() }
                })
                .collect();
            pollster::block_on(ledger.observe(&requests))?;
        }
        let seconds = start.elapsed().as_secs_f64();
        let census = ledger.census();
        println!(
            "{round}: {:.0} observations/s; {} bytes of memory a cell, {} flushes",
            keys as f64 / seconds,
            census.memory_bytes / census.cells.max(1),
            census.flushes
        );
    }
    let start = Instant::now();
    ledger.maintain(time)?;
    ledger.close()?;
    let census = ledger.census();
    println!(
        "closed in {:.2} s: {} bytes of directory and {} of files a key",
        start.elapsed().as_secs_f64(),
        census.directory_bytes / census.disk_keys.max(1),
        census.disk_bytes / census.disk_keys.max(1)
    );
    drop(ledger);
    let start = Instant::now();
    let (_, recovery) =
        Store::open(Arc::new(FileDevice::open(directory.path())?), store::Options::default())?;
    println!("opened in {:.2} s: {} records", start.elapsed().as_secs_f64(), recovery.records);
    Ok(())
}

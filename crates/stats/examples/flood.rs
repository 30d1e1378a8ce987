//! A flood of keys, each new: what memory the process takes meanwhile, and what 200 live limits say behind it.
//!
//! `cargo run --release -p tollhouse-stats --example flood -- MILLIONS MIB [DIRECTORY]`

use std::path::Path;
use std::sync::Arc;

use event::{Key, Kind, Secret, Space, Span, Time};
use stats::limit::WindowTake;
use stats::{
    Addition, Catalog, CounterAmounts, Durability, EmbeddedLedger, Layout, Ledger, Measure, Observation,
    ObserveRequest, Options, Statistic,
};

const SPACE: Space = Space(1);
const FLOODED: Kind = Kind(1);
const LIMIT: Kind = Kind(2);

fn catalog() -> Catalog {
    let statistic = |name: &str, measure| Statistic {
        name: name.to_owned(),
        kind_name: name.to_owned(),
        measure,
        admit: None,
        exact: false,
    };
    let tiers = ["1m x 120", "1h x 168"].map(|tier| tier.parse().expect("a tier"));
    let windows = vec![Span::minutes(1), Span::hours(1), Span::days(1)];
    let flooded =
        Layout::new(vec!["seen".to_owned(), "bad".to_owned()], &tiers, windows, None).expect("a layout");
    let limit = Measure::limit(Span::hours(1), 60).expect("a limit");
    let mut builder = Catalog::builder();
    builder.add(SPACE, FLOODED, statistic("flooded", Measure::Windows(flooded))).expect("a kind");
    builder.add(SPACE, LIMIT, statistic("limit", limit)).expect("another kind");
    builder.build()
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0) << 10
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = || args.next().and_then(|text| text.parse::<u64>().ok());
    let (Some(millions), Some(mib)) = (number(), number()) else { panic!("flood MILLIONS MIB [DIRECTORY]") };
    let directory = args.next().map_or_else(|| std::env::temp_dir().join("tollhouse-flood"), Into::into);
    let device = disk::FileDevice::open(Path::new(&directory)).expect("a directory");
    let options = Options {
        memory_bytes: (mib as usize) << 20,
        segment_bytes: 64 << 20,
        durability: Durability::Interval(Span::seconds(1)),
    };
    let (ledger, _) = EmbeddedLedger::open(Arc::new(device), catalog(), options).expect("a ledger");
    let secret = Secret::new(*b"the same always!");
    let key = |kind, number: u64| Key { space: SPACE, kind, shingle: secret.shingle(&number.to_le_bytes()) };
    let observe = |observations| {
        let requests = [ObserveRequest { observations, ..ObserveRequest::default() }];
        pollster::block_on(ledger.observe(&requests)).expect("an answer")
    };
    let start = Time::from_seconds(1_800_000_000);
    let take = || {
        let take = WindowTake { cost: 1, limit: 1_000, counts_all: false, interpolated: false };
        let of = |number| Observation { key: key(LIMIT, number), time: start, add: Addition::Take(take) };
        observe((0..200).map(of).collect()).all().map(|reading| reading.sum(0, 0)).collect::<Vec<u64>>()
    };
    let mut most = 0;
    println!(
        "million keys | resident MB | times the budget | MB by the ledger | keys kept | unplaced | limits right"
    );
    for million in 0..=millions {
        let used = take();
        let right = used.iter().filter(|used| **used == million).count();
        most = most.max(resident());
        if million % 5 == 0 || million < 5 {
            let (census, resident) = (ledger.census(), resident());
            println!(
                "{million} | {} | {:.2} | {} | {} | {} | {right} of 200",
                resident / 1_000_000,
                resident as f64 / ((mib << 20) as f64),
                census.memory_bytes / 1_000_000,
                census.keys,
                census.unplaced
            );
        }
        for batch in (0..if million < millions { 1_000_000 } else { 0 }).step_by(4_000) {
            let first = (million + 1) * 1_000_000 + batch;
            let seen = |number| Observation {
                key: key(FLOODED, number),
                time: start,
                add: Addition::Counters(CounterAmounts::from([(0, 1)])),
            };
            observe((first..first + 4_000).map(seen).collect());
        }
        ledger.maintain(start).expect("maintenance");
    }
    println!("most: {} MB, {:.2} times the budget", most / 1_000_000, most as f64 / ((mib << 20) as f64));
    ledger.close().expect("it is written");
    std::fs::remove_dir_all(directory).expect("it can be removed");
}

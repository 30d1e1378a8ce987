//! Cost of a journal's rows: bytes on disk, and the time to judge them anew, as rows and as columns.
//!
//! `cargo bench -p tollhouse-engine --bench journal -- DIR` takes a copy of the journal of a data directory of the
//! preset `mail` in which no segment has become columns; without one it takes the bundled samples, again and again.
//! Under `cargo test --benches` it runs small.

use std::path::Path;
use std::time::{Duration, Instant};

use engine::backtest::{Backtest, BacktestQuery};
use engine::{Directory, Engine};
use event::{Event, Span, Time};
use journal::{Journal, JournalArchive, Options, Record, RecordId, ReportRecord};
use plan::{Config, Overrides, Plan};
use stats::Durability;

const NOW: Time = Time::from_seconds(1_700_000_000);

/// Judges all rows of a journal on this thread until the time is up; rows a second.
fn judged(journal: &Path, backtest: &Backtest, least: Duration) -> f64 {
    let (started, mut rows) = (Instant::now(), 0);
    while rows == 0 || started.elapsed() < least {
        let archive = JournalArchive::open(journal).expect("the journal can be read");
        let mut tally = backtest.tally();
        for block in archive.newest_first() {
            tally.add(backtest.judge(&block.expect("a block")).expect("a whole block"));
        }
        rows += tally.report(backtest, &archive).rows;
    }
    rows as f64 / started.elapsed().as_secs_f64()
}

/// Segments of rows from the bundled samples.
fn make(journal: &Path, rounds: usize) {
    let parent = tempfile::tempdir().expect("a temporary directory");
    let preset = plan::preset::find("mail").expect("a preset");
    let directory = Directory::create(&parent.path().join("data"), &[preset]).expect("a data directory");
    let plan = Plan::compile(&Config::from_preset("mail", &Overrides::default())).expect("a preset");
    let engine = Engine::open(&directory, plan).expect("an engine");
    let samples = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpora/mail.mbox"));
    let samples = String::from_utf8_lossy(&samples.expect("the samples")).into_owned();
    for round in 0..rounds {
        for raw in samples.split("\nFrom ") {
            let raw = raw.split_once('\n').map_or("", |(_, message)| message);
            let raw = format!("X-Round: {round}\n{raw}").into_bytes();
            let event = Event { time: Some(NOW), raw: Some(raw.into()), ..Event::default() };
            let prepared = engine.prepare(&engine.plan().pipelines[0], event, NOW);
            pollster::block_on(engine.decide(vec![prepared]));
        }
    }
    engine.close().expect("it closes");
    copy(&directory.journal_path(), journal);
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a journal") {
        let path = entry.expect("an entry").path();
        assert!(path.extension().is_none_or(|it| it != "parquet"), "a segment is by columns already");
        let name = path.file_name().expect("a name");
        std::fs::copy(&path, to.join(name)).expect("a copy");
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let least = if is_bench { Duration::from_secs(3) } else { Duration::ZERO };
    let parent = tempfile::tempdir().expect("a temporary directory");
    let journal = parent.path();
    match arguments.iter().find(|argument| !argument.starts_with('-')) {
        Some(directory) => copy(&Path::new(directory).join("journal"), journal),
        None => make(journal, if is_bench { 200 } else { 1 }),
    }
    let plan = Plan::compile(&Config::from_preset("mail", &Overrides::default())).expect("a preset");
    let archive = JournalArchive::open(journal).expect("the journal can be read");
    let descriptions = archive.descriptions().expect("descriptions");
    let backtest = Backtest::new(plan.pipelines[0].clone(), BacktestQuery::default(), &descriptions);
    let (mut rows, mut newest) = (0, 0);
    for block in archive.oldest_first() {
        let head = block.expect("a block").head;
        (rows, newest) = (rows + u64::from(head.count), newest.max(head.last.0));
    }
    let before = archive.bytes();
    let of_rows = judged(journal, &backtest, least);

    let limits = Options { segment: 1, rotate: Span::days(1), keep: Span::days(1), keep_bytes: u64::MAX };
    let open = Journal::open(journal, limits, Durability::None, 7).expect("the journal opens");
    let said = ReportRecord::judgement(RecordId(newest), "spam", NOW);
    let record = (RecordId(newest + 1), NOW, Record::Report(said));
    pollster::block_on(open.append(&[record])).expect("it is written");
    let started = Instant::now();
    open.sync().expect("it is synced");
    open.settle();
    let converted = started.elapsed().as_secs_f64();
    let census = open.census();
    assert_eq!(census.columnar + 1, census.segments);
    let id = archive.oldest_first().next().expect("a block").expect("a whole block").head.first;
    let started = Instant::now();
    assert!(open.find(id).expect("it is read").is_some());
    let found = started.elapsed().as_secs_f64();
    drop(open);
    let after = JournalArchive::open(journal).expect("the journal can be read").bytes();
    let of_columns = judged(journal, &backtest, least);

    let each = |bytes: u64| bytes as f64 / rows as f64;
    println!("{rows} records: {:.0} bytes each as rows, {:.0} by columns", each(before), each(after));
    println!("{:.0} records a second become columns, each compared", rows as f64 / converted);
    println!("one is found in {:.1} ms", found * 1e3);
    println!(
        "judged anew, a second and core: {of_rows:.0} as rows, {of_columns:.0} by columns, {:.2} times as many",
        of_columns / of_rows
    );
}

//! Servers with the module, and requests to them.

use std::path::Path;

use cells::TableForm;
use cells::request::{CellPlace, RequestWriter};
use event::{Kind, Shingle, Space, Span, Time};
use redis::{Cmd, Connection, Value, cmd};
use stats::cell_export::CellDefinition;
use stats::limit::{GcraOperation, WindowTake};
use stats::{
    Addition, AggregateColumn, AggregateLayout, CellPlan, DecayWeight, Evidence, Layout, Measure,
    StatisticChange,
};
use tempfile::TempDir;

use crate::servers::{Server, are_there, module};

pub(crate) const NOW: i64 = 1_750_000_000_000_000;
pub(crate) const TABLES: [&str; 3] = ["table 1", "table 2", "table 3"];

/// A server with the module, which no cluster has; `None` and why on standard output where there can be none.
pub(crate) fn server(options: &[&str]) -> Option<(Server, TempDir)> {
    if !are_there() {
        return None;
    }
    let Some(module) = module() else {
        println!(
            "skipped: tests of the module in a server: it is built for systems with shared objects only"
        );
        return None;
    };
    let directory = TempDir::new().unwrap();
    let path = module.display().to_string();
    let mut all = vec!["--cluster-enabled", "no", "--enable-debug-command", "yes", "--loadmodule", &path];
    // What comes after the path would be taken for the module's arguments.
    all.splice(0..0, options.iter().copied());
    let server = Server::start(Path::new("redis-server"), directory.path().join("0"), &all);
    Some((server, directory))
}

pub(crate) fn connect(server: &Server) -> Connection {
    redis::Client::open(format!("redis://{}/", server.address())).unwrap().get_connection().unwrap()
}

/// The numbers of the generator SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

pub(crate) fn measures() -> Vec<Measure> {
    let windows = |counters: &[&str], tiers: &[&str]| {
        let tiers: Vec<_> = tiers.iter().map(|tier| tier.parse().unwrap()).collect();
        let counters = counters.iter().map(|counter| (*counter).to_owned()).collect();
        Measure::Windows(Layout::new(counters, &tiers, Vec::new(), None).unwrap())
    };
    let decayed = AggregateColumn::Decayed { half_life: Span::minutes(1), weight: DecayWeight::Value };
    let columns = vec![AggregateColumn::Count, AggregateColumn::Sum, AggregateColumn::Max, decayed];
    vec![
        windows(&["seen"], &["10s x 6"]),
        windows(&["seen", "spam"], &["10s x 6", "1m x 5"]),
        Measure::Aggregate(AggregateLayout::new(columns, Span::minutes(30)).unwrap()),
        Measure::approx("1m x 3".parse().unwrap(), Vec::new(), 10),
        Measure::evidence(Span::minutes(10)),
        Measure::last(Span::minutes(10)),
        Measure::distinct("1m x 2".parse().unwrap(), Vec::new()),
        Measure::gcra(),
        Measure::limit(Span::minutes(1), 10).unwrap(),
        Measure::once(Span::minutes(1)),
    ]
}

pub(crate) fn field(kind: usize, measure: &Measure) -> Vec<u8> {
    let definition = CellDefinition {
        space: Space(3),
        kind: Kind(kind as u16),
        statistic: "statistic".to_owned(),
        kind_name: format!("kind {kind}"),
        measure: measure.clone(),
    };
    TableForm::field_of(definition.id(), &definition)
}

/// Words of one event.
fn words(measure: &Measure, plan: &CellPlan, time: Time, random: &mut Random) -> Vec<u64> {
    let mut words = Vec::new();
    match measure {
        Measure::Aggregate(_) => plan.add_value(&mut words, time, Some(random.below(900) as i64)),
        Measure::Evidence(_) => plan.add_evidence(&mut words, time, Evidence { bad: 3, good: -1, weight: 2 }),
        Measure::Last(_) => plan.apply(&mut words, &StatisticChange::Last(time, "value")),
        Measure::Approx(_) => (0..40).for_each(|_| plan.add_hash(&mut words, time, random.below(u64::MAX))),
        _ => plan.add(&mut words, time, [(0, 1 + random.below(3))]),
    }
    words
}

/// A command with its keys, for the server's clock.
pub(crate) fn call(name: &str, keys: &[&str], request: &[u8]) -> Cmd {
    let mut call = cmd(name);
    keys.iter().for_each(|key| {
        call.arg(key);
    });
    call.arg(0).arg(request);
    call
}

/// Does so many batches, rounds and claims of all kinds, beginning with a number.
pub(crate) fn work(connection: &mut Connection, random: &mut Random, numbers: std::ops::Range<u64>) {
    let measures = measures();
    let plans: Vec<CellPlan> = measures.iter().map(|measure| CellPlan::new(measure).unwrap()).collect();
    let keys = |first: &[&'static str]| [first, &TABLES].concat();
    for number in numbers {
        let now = Time(NOW + number as i64 * 7_000_000);
        let horizon = now - Span::minutes(5);
        let mut batch = RequestWriter::write((number, number - 1), &[7; 16], horizon, 10_000_000);
        let mut round = RequestWriter::take(number, horizon, 10_000_000);
        let mut claims = RequestWriter::default();
        for (kind, measure) in measures.iter().enumerate() {
            batch.form(&field(kind, measure));
            round.form(&field(kind, measure));
        }
        claims.form(&field(9, &measures[9]));
        for _ in 0..60 {
            let (kind, table) = (random.below(10) as usize, random.below(3) as u16);
            let shingle = Shingle(random.below(400) << 40);
            let place =
                |first: u16| CellPlace { form: kind as u16, is_pair: false, table: first + table, shingle };
            match &measures[kind] {
                Measure::Distinct(_) => {
                    let pair = Shingle(shingle.0 | random.below(5) << 8);
                    batch.unique(place(2), (pair, 2 + table), now);
                }
                Measure::Gcra(_) => batch.flow(place(2), now, GcraOperation::Add { cost: 5_000_000 }),
                Measure::Once(_) => {
                    let token = [random.below(3) as u8; 16];
                    claims.claim(CellPlace { form: 0, ..place(0) }, now, &token);
                }
                measure if measure.is_limit() => {
                    let take = WindowTake { cost: 1, limit: 3, counts_all: false, interpolated: false };
                    round.ask(place(1), now, [Some(Span::minutes(1)), None], &Addition::Take(take));
                }
                measure => batch.merge(place(2), &words(measure, &plans[kind], now, random)),
            }
        }
        let answer: Value =
            call("TOLLHOUSE.WRITE", &keys(&["number", "writer"]), &batch.finish()).query(connection).unwrap();
        assert!(matches!(&answer, Value::Array(parts) if parts[0] == Value::Int(0)), "{answer:?}");
        let answer: Value =
            call("TOLLHOUSE.TAKE", &keys(&["round"]), &round.finish()).query(connection).unwrap();
        assert!(matches!(answer, Value::BulkString(_)), "{answer:?}");
        let answer: Value = call("TOLLHOUSE.CLAIM", &TABLES, &claims.finish()).query(connection).unwrap();
        assert!(matches!(answer, Value::Array(_)), "{answer:?}");
    }
}

/// Adds thousands of keys a batch to tables, one beside the other in memory: half of them go to tables that are to be let go.
pub(crate) fn fill(connection: &mut Connection, random: &mut Random, numbers: std::ops::Range<u64>) {
    let measures = measures();
    let plan = CellPlan::new(&measures[1]).unwrap();
    let keys = ["number", "writer", "table 1", "let go 1", "table 2", "let go 2"];
    for number in numbers {
        let now = Time(NOW + number as i64 * 7_000_000);
        let mut batch =
            RequestWriter::write((number, number - 1), &[7; 16], now - Span::hours(1), 10_000_000);
        batch.form(&field(1, &measures[1]));
        for _ in 0..2000 {
            let shingle = Shingle(random.below(u64::MAX));
            let table = 2 + random.below(4) as u16;
            let place = CellPlace { form: 0, is_pair: false, table, shingle };
            batch.merge(place, &words(&measures[1], &plan, now, random));
        }
        let answer: Value = call("TOLLHOUSE.WRITE", &keys, &batch.finish()).query(connection).unwrap();
        assert!(matches!(&answer, Value::Array(parts) if parts[0] == Value::Int(0)), "{answer:?}");
    }
}

pub(crate) fn digest(connection: &mut Connection) -> String {
    cmd("DEBUG").arg("DIGEST").query(connection).unwrap()
}

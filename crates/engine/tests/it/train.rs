//! The whole circle of a model, on real mail: decide, tell, export, train, load in shadow, compare, enforce.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use engine::backtest::{Backtest, BacktestQuery, BacktestReport};
use engine::{Decision, Directory, Engine};
use journal::{
    JournalArchive,
    export::{self, ExportFilter},
};
use judge::Action;
use plan::{Config, Overrides, Plan};

use crate::corpora;
use crate::tables::{is_set, label, labelled_mail, python};

fn directory(parent: &Path, name: &str) -> Directory {
    Directory::create(&parent.join(name), &[plan::preset::find("mail").unwrap()]).unwrap()
}

/// Says what CatBoost says of each row of a table, in order, and what Tollhouse had said.
const COMPARE: &str = "
import sys, catboost, pandas
table = pandas.read_parquet(sys.argv[1])
model = catboost.CatBoostClassifier().load_model(sys.argv[2])
taken = table[model.feature_names_].copy()
for name in taken.columns:
    category = name in sys.argv[3:]
    taken[name] = taken[name].fillna('').astype(str) if category else taken[name].astype('float64')
for ours, theirs in zip(table['model.spam'], model.predict_proba(taken)[:, 1]):
    print(repr(float(ours)), repr(float(theirs)))
";

fn run(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    said
}

/// Returns what CatBoost says of every row of an engine's journal, which is what the engine had said.
fn compared(python: &Path, engine: &Engine, parent: &Path) -> Vec<f64> {
    let table = parent.join("judged.parquet");
    let journal = engine.journal().unwrap();
    let rows =
        export::parquet(&journal.archive().unwrap(), &ExportFilter::default(), File::create(&table).unwrap())
            .unwrap()
            .rows;
    let mut compare = Command::new(python);
    compare.args(["-c", COMPARE]).arg(&table).arg(parent.join("spam.cbm"));
    let said = run(compare.args(["client.helo", "mail.from_domain"]));
    let number = |text: &str| text.parse::<f64>().unwrap();
    let pairs = said.lines().map(|line| line.split_once(' ').unwrap());
    let pairs: Vec<_> = pairs.map(|(ours, theirs)| (number(ours), number(theirs))).collect();
    assert_eq!(pairs.len() as u64, rows);
    for (ours, theirs) in &pairs {
        assert!((ours - theirs).abs() <= 1e-6 * theirs.abs(), "{ours} is not {theirs}");
    }
    pairs.into_iter().map(|(_, theirs)| theirs).collect()
}

fn config(parent: &Path, mode: &str) -> Config {
    let text = format!(
        "preset = \"mail\"\n\
         [[model]]\nname = \"spam\"\nfile = \"spam.cbm\"\nmode = \"{mode}\"\n\
         [[rule]]\nname = \"MODEL_SPAM\"\nwhen = \"model('spam') > 0.5\"\nscore = 100.0\nmode = \"{mode}\"\n"
    );
    let path = parent.join(format!("{mode}.toml"));
    std::fs::write(&path, text).unwrap();
    Config::load(&path, &Overrides::default())
}

fn plan(config: &Config) -> Plan {
    Plan::compile(config).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Decides all mail with a plan, each message behind the one before it.
fn decide(directory: &Directory, plan: Plan) -> (Engine, Vec<Decision>) {
    let engine = Engine::open(directory, plan).unwrap();
    let mut decisions = Vec::new();
    for (_, raw) in corpora::mbox() {
        let prepared = corpora::prepare_mail(&engine, &raw);
        decisions.extend(pollster::block_on(engine.decide(vec![prepared])));
    }
    (engine, decisions)
}

fn backtest(directory: &Directory, plan: &Plan) -> BacktestReport {
    let archive = JournalArchive::open(&directory.journal_path()).unwrap();
    let pipeline = std::sync::Arc::clone(&plan.pipelines[0]);
    let backtest = Backtest::new(pipeline, BacktestQuery::default(), &archive.descriptions().unwrap());
    let mut tally = backtest.tally();
    for block in archive.newest_first() {
        tally.add(backtest.judge(&block.unwrap()).unwrap());
    }
    tally.report(&backtest, &archive)
}

#[test]
fn the_circle_closes() {
    let Some(python) = python("a model is trained on an export") else { return };
    let parent = tempfile::tempdir().unwrap();
    let at = |name: &str| parent.path().join(name);

    // Decide and tell.
    let first = directory(parent.path(), "first");
    let (engine, before, labelled) = labelled_mail(&first);
    let journal = engine.journal().unwrap();

    // Export and train.
    let filter = ExportFilter { labelled: true, ..ExportFilter::default() };
    let rows =
        export::parquet(&journal.archive().unwrap(), &filter, File::create(at("table.parquet")).unwrap())
            .unwrap()
            .rows;
    assert_eq!(rows, labelled as u64);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/train/train.py");
    let mut train = Command::new(&python);
    train.arg(script).arg(at("table.parquet")).arg("--model").arg(at("spam.cbm"));
    train.arg("--report").arg(at("report.json"));
    train.args(["--categorical", "client.helo", "--categorical", "mail.from_domain", "--iterations", "60"]);
    run(&mut train);
    let report = std::fs::read(at("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let count = |name: &str| report[name].as_u64().unwrap();
    let later = report["rows"]["later"].as_u64().unwrap();
    assert_eq!(report["rows"]["earlier"].as_u64().unwrap() + later, rows);
    let cells = ["true_positives", "false_positives", "false_negatives", "true_negatives"];
    assert_eq!(cells.map(count).iter().sum::<u64>(), later);
    assert!(report["auc"].as_f64().is_some_and(|auc| (0.0..=1.0).contains(&auc)), "{report}");
    assert!(report["split"].as_str() > report["from"].as_str(), "{report}");
    assert!(!report["features"].as_array().unwrap().is_empty());

    // In shadow nothing changes.
    let second = directory(parent.path(), "second");
    let (shadowed, in_shadow) = decide(&second, plan(&config(parent.path(), "shadow")));
    let verdict = |decision: &Decision| (decision.verdict.score, decision.verdict.action);
    assert!(before.iter().map(verdict).eq(in_shadow.iter().map(verdict)));

    // What the model says is what CatBoost says, on every row.
    let said = compared(&python, &shadowed, parent.path());
    let fires: Vec<bool> = said.iter().map(|said| *said > 0.5).collect();
    assert!(fires.contains(&true) && fires.contains(&false));
    let in_shadow = in_shadow.iter().map(|it| it.verdict.shadow.iter().any(|it| it.rule == "MODEL_SPAM"));
    assert!(in_shadow.eq(fires.iter().copied()));

    // Compared with the first journal, that never knew the model.
    let enforce = plan(&config(parent.path(), "enforce"));
    let tried = backtest(&first, &enforce);
    assert!(tried.not_logged.is_empty(), "{:?}", tried.not_logged);
    let caught = |spam: bool| {
        let mail = corpora::mbox();
        let labels: Vec<_> = mail.iter().map(|(name, _)| label(name)).collect();
        let meant = labels.iter().zip(&fires).zip(&before);
        meant
            .filter(|((label, fires), decision)| {
                **label == Some(if spam { "spam" } else { "ham" })
                    && (**fires || decision.verdict.action != Action::Accept)
            })
            .count() as u64
    };
    let counts = tried.quality.after.counts;
    assert_eq!((counts.true_positives, counts.false_positives), (caught(true), caught(false)));
    let rule = tried.rules.iter().find(|rule| rule.rule == "MODEL_SPAM").unwrap();
    assert_eq!(rule.after, fires.iter().filter(|fires| **fires).count() as u64);

    // In force it rejects what it is sure of. What it rejects counts as spam, so later readings are others.
    let third = directory(parent.path(), "third");
    let (engine, enforced) = decide(&third, enforce);
    let said = compared(&python, &engine, parent.path());
    let by_score = enforced.iter().zip(&said).filter(|(decision, _)| !is_set(&decision.verdict));
    for (decision, said) in by_score {
        assert_eq!(decision.verdict.action == Action::Reject, *said > 0.5, "{said}: {:?}", decision.verdict);
    }
    assert!(enforced.iter().zip(&before).any(|(now, then)| now.verdict.action != then.verdict.action));
}

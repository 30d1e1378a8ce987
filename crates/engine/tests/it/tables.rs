//! Exported tables are read as they are by what people train and ask with.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use engine::{Directory, Engine};
use event::Time;
use journal::export::{self, ExportFilter};
use judge::{Effect, Verdict};

use crate::corpora;

/// Returns the label that a sample's source gives it.
pub(crate) fn label(name: &str) -> Option<&'static str> {
    if name.contains("/spam/") {
        return Some("spam");
    }
    name.contains("/nice/").then_some("ham")
}

/// Judges the mail corpus into a directory, and says of each sample what its source says that it is. The samples
/// that were labelled are counted.
pub(crate) fn labelled_mail(directory: &Directory) -> (Engine, Vec<engine::Decision>, usize) {
    let config = plan::Config::load(&directory.config_path(), &plan::Overrides::default());
    let engine = Engine::open(directory, plan::Plan::compile(&config).unwrap()).unwrap();
    let mail = corpora::mbox();
    let mut decisions = Vec::new();
    for (_, raw) in &mail {
        let prepared = corpora::prepare_mail(&engine, raw);
        decisions.extend(pollster::block_on(engine.decide(vec![prepared])));
    }
    let mut labelled = 0;
    for ((name, _), decision) in mail.iter().zip(&decisions) {
        if let Some(class) = label(name) {
            pollster::block_on(engine.feedback(decision.id, class, Time::from_seconds(1_780_000_000)))
                .unwrap();
            labelled += 1;
        }
    }
    assert!(labelled > 20, "{labelled}");
    (engine, decisions, labelled)
}

/// Returns true if a rule has set the action, whatever the score.
pub(crate) fn is_set(verdict: &Verdict) -> bool {
    verdict.effects.iter().any(|due| matches!(due.effect, Effect::Set(_) | Effect::SetUnless { .. }))
}

/// A Python with what reads tables, and what trains on them.
pub(crate) fn python(purpose: &str) -> Option<PathBuf> {
    crate::python::python("python", &["catboost==1.2.10", "pandas", "pyarrow", "polars", "duckdb"], purpose)
}

#[test]
fn the_usual_libraries_read_them() {
    let Some(python) = python("exported tables are read") else { return };
    let parent = tempfile::tempdir().unwrap();
    let preset = plan::preset::find("mail").unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[preset]).unwrap();
    let (engine, decisions, labelled) = labelled_mail(&directory);
    let journal = engine.journal().unwrap();
    let file = |name: &str| File::create(parent.path().join(name)).unwrap();
    export::parquet(&journal.archive().unwrap(), &ExportFilter::default(), file("table.parquet")).unwrap();
    export::ndjson(&journal.archive().unwrap(), &ExportFilter::default(), &mut file("table.ndjson")).unwrap();
    let rotated = crate::columns::RotatedJournal::new(|_, _| ());
    std::fs::copy(rotated.columns(), parent.path().join("segment.parquet")).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tables.py");
    let ran = Command::new(&python)
        .arg(script)
        .arg(parent.path())
        .args([decisions.len().to_string(), labelled.to_string()])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{told}{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(told.lines().count(), 5, "each library reads or is missing: {told}");
    print!("{told}");
}

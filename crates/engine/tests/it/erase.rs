//! Erasure of one subject's data, and of nobody else's.

use std::collections::HashSet;

use engine::{Directory, Engine, ErasureReport};
use event::Time;
use journal::verify;
use plan::{Config, Overrides, Plan};

use crate::tables::labelled_mail;

fn plan(directory: &Directory) -> Plan {
    Plan::compile(&Config::load(&directory.config_path(), &Overrides::default())).unwrap()
}

/// Returns what is kept of the keys of a kind's values.
fn known(engine: &Engine, kind: &str, values: &[String]) -> Vec<Option<stats::Timeline>> {
    let pipeline = &engine.plan().pipelines[0];
    let timeline = |value: &String| {
        let timeline = engine.timeline(pipeline, kind, value, Time::from_seconds(1_780_000_000));
        pollster::block_on(timeline).unwrap().timeline
    };
    values.iter().map(timeline).collect()
}

#[test]
fn one_subject_goes_and_all_else_stays() {
    let parent = tempfile::tempdir().unwrap();
    let preset = plan::preset::find("mail").unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[preset]).unwrap();
    let (engine, decisions, labelled) = labelled_mail(&directory);
    // Whoever wrote most, and everybody else.
    let mut senders: Vec<(String, Vec<journal::RecordId>)> = Vec::new();
    for decision in &decisions {
        let explained = engine.explain(decision.id).unwrap();
        let from = explained.keys.iter().find(|key| key.kind == "from").and_then(|key| key.piece.clone());
        let Some(from) = from else { continue };
        match senders.iter_mut().find(|(name, _)| *name == from) {
            Some((_, ids)) => ids.push(decision.id),
            None => senders.push((from, vec![decision.id])),
        }
    }
    senders.sort_by_key(|(_, ids)| ids.len());
    let (subject, _) = senders.pop().unwrap();
    let others: Vec<String> = senders.into_iter().map(|(name, _)| name).collect();
    let secret = directory.secret().unwrap();
    let in_force = engine.plan();
    let kind = in_force.pipelines[0].kinds.iter().find(|kind| kind.name == "from").unwrap();
    let shingles: HashSet<_> = kind.shingles(&subject, &secret).into_iter().collect();
    let (concerned, rest): (Vec<_>, Vec<_>) = decisions
        .iter()
        .map(|decision| decision.id)
        .partition(|id| engine.explain(*id).unwrap().keys.iter().any(|key| shingles.contains(&key.shingle)));
    assert!(concerned.len() > 3 && rest.len() > 50);
    let before = known(&engine, "from", &others);
    assert!(before.iter().filter(|timeline| timeline.is_some()).count() > 10);
    assert!(known(&engine, "from", std::slice::from_ref(&subject))[0].is_some());
    drop(engine);

    let erase = |pretend| directory.erase(&plan(&directory), &shingles, pretend, &mut |_| ()).unwrap();
    let pretended = erase(true);
    let erased = erase(false);
    assert_eq!(pretended, erased, "nothing was changed before");
    assert_eq!(erased.records.decisions, concerned.len() as u64);
    assert!(erased.keys > 0 && erased.records.feedback > 0, "{erased:?}");
    assert_eq!(erase(false), ErasureReport::default(), "all is gone");

    let found = verify(&directory.journal_path(), None, &mut |_, _| ()).unwrap();
    assert!(found.is_sound(), "{found:?}");
    let all = (decisions.len() + labelled) as u64;
    assert_eq!(found.records, all - erased.records.decisions - erased.records.feedback);
    let engine = Engine::open(&directory, plan(&directory)).unwrap();
    assert!(concerned.iter().all(|id| engine.explain(*id).is_err()));
    assert!(rest.iter().all(|id| engine.explain(*id).is_ok()));
    assert_eq!(known(&engine, "from", &[subject]), [None]);
    assert_eq!(known(&engine, "from", &others), before);
    let halves = std::fs::read_dir(directory.path())
        .unwrap()
        .chain(std::fs::read_dir(directory.journal_path()).unwrap());
    let halves =
        halves.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|it| it == "half"));
    assert_eq!(halves.count(), 0);
}

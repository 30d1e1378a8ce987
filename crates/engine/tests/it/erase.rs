//! Erasure of one subject's data, and of nobody else's.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};

use engine::{
    Directory, Engine, ErasureFailure, ErasureOutcome, ErasureProgress, ErasureReport, SnapshotErasure,
};
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

    let erase = |pretend| directory.erase(Some(&plan(&directory)), &shingles, pretend, &|| false).unwrap();
    let pretended = erase(true);
    let erased = erase(false);
    assert_eq!(pretended, erased, "nothing was changed before");
    assert_eq!(erased.records.decisions, concerned.len() as u64);
    assert!(erased.statistics.keys > 0 && erased.records.feedback > 0, "{erased:?}");
    assert_eq!(erase(false), ErasureReport::default(), "all is gone");

    let found = verify(&directory.journal_path(), None, &mut |_, _| ()).unwrap();
    assert!(found.is_sound(), "{found:?}");
    let all = (decisions.len() + labelled) as u64;
    assert_eq!(found.records, all - erased.records.decisions - erased.records.feedback);
    // An engine that runs has half-written files at times.
    let halves = std::fs::read_dir(directory.path())
        .unwrap()
        .chain(std::fs::read_dir(directory.journal_path()).unwrap());
    let halves =
        halves.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|it| it == "half"));
    assert_eq!(halves.count(), 0);
    let engine = Engine::open(&directory, plan(&directory)).unwrap();
    assert!(concerned.iter().all(|id| engine.explain(*id).is_err()));
    assert!(rest.iter().all(|id| engine.explain(*id).is_ok()));
    assert_eq!(known(&engine, "from", &[subject]), [None]);
    assert_eq!(known(&engine, "from", &others), before);
}

#[test]
fn one_subject_goes_while_the_engine_runs() {
    let parent = tempfile::tempdir().unwrap();
    let preset = plan::preset::find("mail").unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[preset]).unwrap();
    let (engine, decisions, _) = labelled_mail(&directory);
    let pieces = |id| {
        let explained = engine.explain(id).unwrap();
        explained.keys.into_iter().filter(|key| key.kind == "from").filter_map(|key| key.piece).next()
    };
    let senders: Vec<Option<String>> = decisions.iter().map(|decision| pieces(decision.id)).collect();
    let subject = senders.iter().flatten().next().unwrap().clone();
    let mut others: Vec<String> =
        senders.iter().flatten().filter(|name| **name != subject).cloned().collect();
    others.sort();
    others.dedup();
    let in_force = engine.plan();
    let now = Time::from_seconds(1_780_000_000);
    let order =
        |value: &str| engine.erasure_order(&in_force.pipelines[0], [("from", value)].into_iter(), "ann", now);
    assert!(matches!(order(""), Err(ErasureFailure::Piece(_))));
    let order = order(&subject).unwrap();
    let shingles: HashSet<_> = order.keys.iter().map(|(_, shingle)| *shingle).collect();
    let has = |id| engine.explain(id).unwrap().keys.iter().any(|key| shingles.contains(&key.shingle));
    let (concerned, rest): (Vec<_>, Vec<_>) =
        decisions.iter().map(|decision| decision.id).partition(|id| has(*id));
    let before = known(&engine, "from", &others);
    let progress = ErasureProgress::default();
    let erase = |pretend| pollster::block_on(engine.erase(&order, pretend, &progress, &|| false)).unwrap();

    let pretended = erase(true);
    assert_eq!(pretended.records.decisions, concerned.len() as u64);
    assert!(concerned.iter().all(|id| engine.explain(*id).is_ok()), "nothing was changed");
    engine.note_erasure(&order).unwrap();
    let ended = pollster::block_on(engine.erase(&order, false, &progress, &|| true));
    assert!(matches!(ended, Err(ErasureFailure::Ended)), "{ended:?}");
    assert_eq!(engine.pending_erasure().unwrap(), Some(order.clone()), "it goes on at the next start");
    let erased = erase(false);
    assert_eq!(engine.pending_erasure().unwrap(), None);
    assert_eq!((erased.records, erased.damaged), (pretended.records, 0));
    assert!(erased.statistics.keys > 0 && erased.statistics.keys == pretended.statistics.keys, "{erased:?}");
    assert_eq!(erase(false), ErasureOutcome::default(), "all is gone");
    let check = |engine: &Engine| {
        assert!(concerned.iter().all(|id| engine.explain(*id).is_err()));
        assert!(rest.iter().all(|id| engine.explain(*id).is_ok()));
        assert_eq!(known(engine, "from", std::slice::from_ref(&subject)), [None]);
        assert_eq!(known(engine, "from", &others), before);
    };
    check(&engine);
    engine.close().unwrap();
    drop(engine);
    let verified = verify(&directory.journal_path(), None, &mut |_, _| ()).unwrap();
    assert!(verified.is_sound(), "{verified:?}");
    // No image in any file comes back.
    check(&Engine::open(&directory, plan(&directory)).unwrap());
}

#[test]
fn a_subject_goes_from_snapshots_and_not_from_what_they_share_with_the_directory() {
    let parent = tempfile::tempdir().unwrap();
    let preset = plan::preset::find("mail").unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[preset]).unwrap();
    let (engine, decisions, _) = labelled_mail(&directory);
    let keys = engine.explain(decisions[0].id).unwrap().keys;
    let shingles: HashSet<_> = keys.iter().filter(|key| key.kind == "from").map(|key| key.shingle).collect();
    engine.close().unwrap();
    drop(engine);
    let path = directory.snapshots_path().join("copy");
    directory.snapshot(&path).unwrap();
    let copy = Directory::open(&path).unwrap();
    let there = |of: &Directory| of.erase(None, &shingles, true, &|| false).unwrap();
    let before = there(&directory);
    assert!(before.records.decisions > 0 && there(&copy) == before, "{before:?}");

    let erase =
        |is_over: stats::CancellationCheck<'_>| directory.erase_snapshots(&shingles, is_over).unwrap();
    // Stopped in the middle of it, which is no fault of the snapshot.
    let asked = AtomicU32::new(0);
    let ended = erase(&|| asked.fetch_add(1, Ordering::Relaxed) > 0);
    assert_eq!(ended, SnapshotErasure { is_ended: true, ..SnapshotErasure::default() });
    let in_use = Engine::open(&copy, plan(&copy)).unwrap();
    let left = erase(&|| false);
    assert!(left.erased == 0 && left.left[0].0 == "copy" && left.left[0].1.contains("in use"), "{left:?}");
    drop(in_use);
    assert_eq!(erase(&|| false), SnapshotErasure { erased: 1, ..SnapshotErasure::default() });
    assert_eq!(there(&copy), ErasureReport::default());
    assert_eq!(there(&directory), before);
    for of in [&directory, &copy] {
        let verified = of.verify(None, &mut |_, _, _| ()).unwrap();
        assert!(verified.journal.is_sound(), "{verified:?}");
    }
}

#[test]
fn bans_and_keys_of_several_fields_go_with_their_subject() {
    const CONFIG: &str = "
[[field]]
name = \"user\"
type = \"string\"
[[field]]
name = \"phone\"
type = \"string\"
[[kind]]
name = \"user\"
of = \"user\"
[[kind]]
name = \"phone\"
of = \"phone\"
[[kind]]
name = \"both\"
of = [\"user\", \"phone\"]
[[statistic]]
name = \"events\"
keys = [\"user\", \"phone\", \"both\"]
counts = [\"seen\"]
windows = [\"1h x 24\"]
[[distinct]]
name = \"phones\"
per = \"user\"
of = \"phone\"
window = \"1d\"
[[distinct]]
name = \"users\"
per = \"phone\"
of = \"user\"
window = \"1d\"
[[label]]
name = \"blocked\"
of = \"user\"
keep = \"30d\"
decision = \"ban\"
[[rule]]
name = \"ALL\"
when = \"distinct('phones', '1d') > 100 || distinct('users', '1d') > 100 || user.seen('1h') > 100 || phone.seen('1h') > 100 || both.seen('1h') > 100\"
score = 1
";
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    std::fs::write(directory.config_path(), CONFIG).unwrap();
    let engine = Engine::open(&directory, plan(&directory)).unwrap();
    let in_force = engine.plan();
    let pipeline = &in_force.pipelines[0];
    let now = Time::from_seconds(1_780_000_000);
    for (user, phone) in [("ann", "1"), ("ann", "2"), ("bob", "2"), ("bob", "3")] {
        let text = format!("{{\"user\": \"{user}\", \"phone\": \"{phone}\"}}");
        let (event, _) = engine.read_json(pipeline, text.as_bytes(), now).unwrap();
        let prepared = engine.prepare(pipeline, event, now);
        pollster::block_on(engine.decide(vec![prepared]));
    }
    for user in ["ann", "bob"] {
        let lasts = event::Span::days(1);
        pollster::block_on(engine.mark(pipeline, "user", "blocked", user, (lasts, None), now)).unwrap();
    }
    let order = engine.erasure_order(pipeline, [("user", "ann")].into_iter(), "ann", now).unwrap();
    let progress = ErasureProgress::default();
    let erased = pollster::block_on(engine.erase(&order, false, &progress, &|| false)).unwrap();
    // Her counter, her count of phones, her label; the two keys with her phones.
    assert_eq!(erased.statistics.keys, 5, "{erased:?}");
    assert_eq!(erased.statistics.marks, 4, "as owner and as value");
    assert_eq!((erased.records.decisions, erased.bans), (2, 1));
    assert_eq!(known(&engine, "user", &["ann".to_owned()]), [None]);
    assert!(known(&engine, "user", &["bob".to_owned()])[0].is_some());
    assert!(known(&engine, "phone", &["1".to_owned()])[0].is_some(), "phones are others' too");
    let labels = std::fs::read_to_string(directory.path().join("labels.ndjson")).unwrap();
    assert!(!labels.contains("ann") && labels.contains("bob"), "{labels}");
}

//! Data directories that released formats wrote are read for ever. One is added with each new format, and none is
//! ever written anew.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{Directory, Engine, Explanation};
use event::{Span, Value};

use crate::pipeline::{NOW, decide_at, event, plan};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// What the fixture's writer did. Never change it: it tells what the stored bytes must mean.
fn write(path: &Path) {
    let directory = Directory::create(path, &[]).unwrap();
    let engine = Engine::open(&directory, plan()).unwrap();
    for minute in 0..300 {
        let mail = format!("user{}@example.org", minute % 7);
        decide_at(&engine, event("192.0.2.1", &mail), NOW + Span::minutes(10 * minute));
    }
    let mut named = event("2001:db8::1", "z@example.org");
    named.id = Some("order-1".to_owned());
    let id = decide_at(&engine, named, NOW + Span::days(3)).id;
    pollster::block_on(engine.feedback(id, "spam", NOW + Span::days(3))).unwrap();
    engine.close().unwrap();
}

#[test]
fn format_1() {
    let stored = fixture("data-1");
    if !stored.exists() && std::env::var_os("UPDATE").is_some() {
        write(&stored);
    }
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    copy(&stored, &path);
    std::fs::set_permissions(path.join("secret"), std::fs::Permissions::from_mode(0o600)).unwrap();

    let engine = Engine::open(&Directory::open(&path).unwrap(), plan()).unwrap();
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let timeline = |kind: &str, value: &str| {
        pollster::block_on(engine.timeline(&pipeline, kind, value, NOW)).unwrap().timeline
    };
    let ip = timeline("ip", "192.0.2.1").unwrap();
    assert_eq!((ip.first, ip.last), (NOW, NOW + Span::minutes(2990)));
    assert_eq!(ip.buckets.iter().map(|bucket| bucket.counts[0]).sum::<u64>(), 300);
    assert!(ip.buckets.iter().any(|bucket| bucket.width == Span::days(1)), "some were folded into days");
    let mails = timeline("mails", "192.0.2.1").unwrap();
    assert_eq!(
        mails.buckets.iter().map(|bucket| bucket.counts[0]).collect::<Vec<_>>(),
        [7, 1],
        "the day before and the last minutes"
    );
    let mail = timeline("mail", "z@example.org").unwrap();
    assert_eq!(mail.buckets[0].counts, [1, 0, 1], "seen once, and complained about");

    let records = engine.journal().unwrap().recent(1000).unwrap();
    assert_eq!(records.len(), 302);
    let Explanation { facts, keys, event_id, verdict, .. } = engine.explain(records[300].0).unwrap();
    assert_eq!(event_id.as_deref(), Some("order-1"));
    assert!(
        facts.contains(&(
            "user.ip".to_owned(),
            Value::from("2001:db8::1".parse::<std::net::IpAddr>().unwrap())
        ))
    );
    assert!(facts.contains(&("user.ip_net".to_owned(), Value::from("2001:db8::/64"))));
    assert!(keys.iter().any(|key| key.kind == "mail" && key.piece.as_deref() == Some("z@example.org")));
    assert_eq!(verdict.unwrap().shadow[0].rule, "WATCHED");
    // The event's mark is still there.
    let mut again = event("2001:db8::1", "z@example.org");
    again.id = Some("order-1".to_owned());
    assert!(decide_at(&engine, again, NOW + Span::days(3)).duplicate);
}

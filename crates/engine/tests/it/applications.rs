//! Presets for applications over the corpora that are made for them: how much abuse they act upon and when, and how few
//! honest sessions they meet. `scripts/applications` measures the same on corpora of other seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::Arc;

use flate2::read::GzDecoder;
use judge::Action;

use crate::corpora::{corpus, engine};

/// The actions on events of one session or campaign.
#[derive(Default)]
struct Session {
    actor: String,
    is_honest: bool,
    events: u32,
    acted_on: u32,
    /// The first event that was acted on, counted from one.
    first: Option<u32>,
}

fn unpacked(name: &str) -> String {
    let mut text = String::new();
    GzDecoder::new(corpus(&format!("applications/{name}.gz")).as_slice()).read_to_string(&mut text).unwrap();
    text
}

/// Judges a preset's corpus, one event after the other, and returns its sessions.
fn judged(preset: &str) -> BTreeMap<String, Session> {
    let engine = engine(preset);
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let (events, truths) = (unpacked(&format!("{preset}.ndjson")), unpacked(&format!("{preset}.truth")));
    assert_eq!(events.lines().count(), truths.lines().count(), "{preset}: an event has one truth");
    let mut sessions: BTreeMap<String, Session> = BTreeMap::new();
    for (event, truth) in events.lines().zip(truths.lines()) {
        let parsed = content::json::event(event.as_bytes(), &pipeline.schema).unwrap();
        assert_eq!(parsed.ignored, 0, "{preset} does not know {:?}", parsed.unknown);
        let arrival = parsed.event.time.unwrap();
        let prepared = engine.prepare(&pipeline, parsed.event, arrival);
        let verdict = pollster::block_on(engine.decide(vec![prepared])).remove(0).verdict;
        let [side, actor, session] = truth.split('\t').collect::<Vec<_>>()[..] else { panic!("{truth}") };
        let session = sessions.entry(session.to_owned()).or_default();
        session.actor = actor.to_owned();
        session.is_honest = side == "honest";
        session.events += 1;
        if verdict.action != Action::Accept {
            session.acted_on += 1;
            session.first.get_or_insert(session.events);
        }
    }
    sessions
}

/// The bounds that a preset must keep on its corpus.
struct Bounds {
    preset: &'static str,
    /// The most honest sessions that meet any action but `accept`.
    met_max: usize,
    /// The smallest share of abusive events that are acted upon.
    recall_min: f64,
    /// Kinds of abuse, each with the latest event at which the first action on every campaign of it comes.
    found_by: &'static [(&'static str, u32)],
    /// Kinds of abuse that are not seen: if one is, this is no longer the truth.
    not_seen: &'static [&'static str],
}

fn check(bounds: &Bounds) {
    let preset = bounds.preset;
    let sessions = judged(preset);
    let of = |is_honest: bool| sessions.values().filter(move |session| session.is_honest == is_honest);
    let honest = of(true).count();
    let met: Vec<&str> =
        of(true).filter(|session| session.first.is_some()).map(|one| one.actor.as_str()).collect();
    let events: u32 = of(false).map(|session| session.events).sum();
    let acted_on: u32 = of(false).map(|session| session.acted_on).sum();
    let recall = f64::from(acted_on) / f64::from(events);
    let crowds: BTreeSet<&str> = of(true).map(|session| session.actor.as_str()).collect();
    println!(
        "{preset}: {} of {honest} honest sessions of {} crowds met, recall {recall:.3}",
        met.len(),
        crowds.len()
    );
    for session in of(false) {
        println!(
            "  {}: {} of {} events, first {:?}",
            session.actor, session.acted_on, session.events, session.first
        );
    }
    assert!(honest > 1_000 && crowds.len() >= 9, "{preset}: {honest} honest sessions of {crowds:?}");
    assert!(met.len() <= bounds.met_max, "{preset}: {met:?} of {honest} honest sessions are met");
    assert!(recall >= bounds.recall_min, "{preset}: recall {recall:.3}");
    for (actor, latest) in bounds.found_by {
        let campaigns: Vec<&Session> = of(false).filter(|session| session.actor == *actor).collect();
        assert!(!campaigns.is_empty(), "{preset}: the corpus has no `{actor}`");
        for campaign in campaigns {
            assert!(
                campaign.first.is_some_and(|first| first <= *latest),
                "{preset}, {actor}: {:?}",
                campaign.first
            );
        }
    }
    for actor in bounds.not_seen {
        assert!(
            sessions.values().any(|session| session.actor == *actor),
            "{preset}: the corpus has no `{actor}`"
        );
        assert!(
            of(false).all(|session| session.actor != *actor || session.first.is_none()),
            "{preset} sees `{actor}`"
        );
    }
}

#[test]
fn log_ins() {
    check(&Bounds {
        preset: "login",
        met_max: 2,
        recall_min: 0.8,
        found_by: &[
            ("stuffing, one address", 12),
            ("stuffing, forty addresses", 60),
            ("spraying, one address", 12),
            ("guessing, forty addresses, slowly", 12),
            ("guessing, one address", 25),
            ("enumeration, one address", 12),
            ("takeover, far, soon after the owner", 1),
            ("takeover, far, by a customer", 1),
        ],
        not_seen: &["takeover, near"],
    });
}

#[test]
fn comments() {
    check(&Bounds {
        preset: "comments",
        met_max: 1,
        recall_min: 0.66,
        found_by: &[
            ("one text, one account", 8),
            ("one text, fifteen accounts", 8),
            ("spun texts, thirty accounts", 20),
            ("messenger instead of links", 3),
            ("obfuscated messenger", 3),
            ("one text, other names and words", 12),
            ("one device, many accounts", 12),
            ("flood of one place", 26),
        ],
        not_seen: &["own texts, aged accounts"],
    });
}

#[test]
fn sign_ups() {
    check(&Bounds {
        preset: "signup",
        met_max: 1,
        recall_min: 0.62,
        found_by: &[
            ("script, one address", 12),
            ("one device, new addresses", 20),
            ("disposable domains", 20),
            ("own new domains", 20),
            ("counted addresses", 12),
            ("tags of one mailbox", 12),
            ("few networks", 12),
            ("names below a new domain", 12),
        ],
        not_seen: &["by hand, homes nearby"],
    });
}

#[test]
fn requests() {
    check(&Bounds {
        preset: "api",
        met_max: 1,
        recall_min: 0.6,
        found_by: &[
            ("leaked key", 40),
            ("scraping, one key, fast", 120),
            ("enumeration, one address", 30),
            ("enumeration, thirty addresses", 30),
            ("guessing keys, one address", 15),
            ("many free keys, one address", 60),
        ],
        not_seen: &[],
    });
}

#[test]
fn payments() {
    check(&Bounds {
        preset: "payment",
        met_max: 1,
        recall_min: 0.75,
        found_by: &[
            ("card testing, one address", 10),
            ("card testing, one device, proxies", 12),
            ("numbers of one issuer, proxies", 12),
            ("taken account", 1),
        ],
        not_seen: &["cashing, near, once", "card testing, slow, baskets as usual"],
    });
}

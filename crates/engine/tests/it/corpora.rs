//! Each preset compiles and judges its corpus as recorded. `UPDATE=1` records anew: look at the difference.

use std::fmt::Write;
use std::sync::Arc;

use content::mail::message::{self, Envelope};
use engine::{Decision, Engine, PreparedEvent};
use event::{Secret, Span, Time};
use plan::{Config, Overrides, Plan};

/// A secret that is always the same, and with it what is estimated of keys.
pub(crate) const SECRET: Secret = Secret::new([7; Secret::BYTES]);

pub(crate) fn engine(preset: &str) -> Engine {
    let config = Config::from_preset(preset, &Overrides::default());
    let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
    Engine::ephemeral_with(plan, SECRET).unwrap()
}

pub(crate) fn corpus(name: &str) -> Vec<u8> {
    let path = format!("{}/../../corpora/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The messages of an mboxrd file with the word behind `From `.
pub(crate) fn mbox() -> Vec<(String, Vec<u8>)> {
    let mut messages: Vec<(String, Vec<u8>)> = Vec::new();
    for line in corpus("mail.mbox").split_inclusive(|byte| *byte == b'\n') {
        if let Some(rest) = line.strip_prefix(b"From ") {
            let name = rest.split(|byte| *byte == b' ').next().unwrap_or_default();
            messages.push((String::from_utf8_lossy(name).into_owned(), Vec::new()));
        } else if let Some((_, message)) = messages.last_mut() {
            let quoted = line.iter().take_while(|byte| **byte == b'>').count();
            let unquote = quoted > 0 && line[quoted..].starts_with(b"From ");
            message.extend_from_slice(&line[usize::from(unquote)..]);
        }
    }
    messages
}

fn decide(engine: &Engine, prepared: PreparedEvent) -> Decision {
    pollster::block_on(engine.decide(vec![prepared])).remove(0)
}

pub(crate) fn prepare_mail(engine: &Engine, raw: &[u8]) -> PreparedEvent {
    let time = message::time(raw).unwrap_or(Time::from_seconds(1_700_000_000));
    let mut event = message::event(raw.to_vec(), Envelope::from_headers(raw));
    event.time = Some(time);
    engine.prepare(&engine.plan().pipelines[0], event, time)
}

fn line(out: &mut String, name: &str, decision: &Decision) {
    let rules: Vec<&str> = decision.verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect();
    writeln!(out, "{name} {} {:.2} {}", decision.verdict.action, decision.verdict.score, rules.join(","))
        .unwrap();
}

#[track_caller]
fn check(name: &str, found: &str) {
    let path = format!("{}/../../corpora/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let changed = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    if let Some((found, expected)) = changed {
        panic!("corpora/{name} says\n  {expected}\nand the preset\n  {found}\nUPDATE=1 records it anew");
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "corpora/{name} has other samples");
}

#[test]
fn mail() {
    let engine = engine("mail");
    let mut found = String::new();
    for (name, raw) in mbox() {
        line(&mut found, &name, &decide(&engine, prepare_mail(&engine, &raw)));
    }
    check("mail.expected", &found);
}

/// Nobody here has written to the senders of the corpus, so it is judged as by the preset that is extended.
#[test]
fn mail_that_comes_in() {
    let engine = engine("mail-incoming");
    let mut found = String::new();
    for (name, raw) in mbox() {
        line(&mut found, &name, &decide(&engine, prepare_mail(&engine, &raw)));
    }
    check("mail.expected", &found);
}

#[test]
fn mail_that_goes_out() {
    let engine = engine("mail-outgoing");
    let mut found = String::new();
    for (name, raw) in mbox() {
        line(&mut found, &name, &decide(&engine, prepare_mail(&engine, &raw)));
    }
    check("mail-outgoing.expected", &found);
}

/// Both ways count in one space: who was written to is known when he answers, and what was judged of a link on the way in
/// is known on the way out.
#[test]
fn mail_in_and_out_share_what_they_know() {
    let parent = tempfile::tempdir().unwrap();
    let presets = ["mail-incoming", "mail-outgoing"].map(|name| plan::preset::find(name).unwrap());
    let directory = engine::Directory::create(&parent.path().join("data"), &presets).unwrap();
    let config = Config::load(&directory.config_path(), &Overrides::default());
    let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
    let engine = Engine::open(&directory, plan).unwrap();
    let now = Time::from_seconds(1_700_000_000);
    let message = |from: &str, to: &str| {
        format!(
            "From: {from}\nTo: {to}\nSubject: Lunch\nDate: Tue, 14 Nov 2023 22:13:20 +0000\n\
             Message-ID: <1@x.example>\n\nSee you at https://menu.example/today\n"
        )
    };
    let judge = |pipeline: &str, from: &str, to: &str| {
        let event = message::event(
            message(from, to).into_bytes(),
            Envelope {
                sender: Some(from.to_owned()),
                recipients: vec![to.to_owned()],
                user: Some("ann".to_owned()),
                ..Envelope::default()
            },
        );
        let pipeline = Arc::clone(engine.plan().pipeline(Some(pipeline)).unwrap());
        decide(&engine, engine.prepare(&pipeline, event, now))
    };
    let fired =
        |decision: &Decision, rule: &str| decision.verdict.reasons.iter().any(|reason| reason.rule == rule);
    let before = judge("mail-incoming", "bob@far.example", "ann@here.example");
    assert!(!fired(&before, "CORRESPONDENT"));
    judge("mail-outgoing", "ann@here.example", "bob@far.example");
    let after = judge("mail-incoming", "bob@far.example", "ann@here.example");
    assert!(fired(&after, "CORRESPONDENT"), "{:?}", after.verdict.reasons);
    let seen = pollster::block_on(engine.timeline(
        engine.plan().pipeline(Some("mail-outgoing")).unwrap(),
        "link_domain",
        "menu.example",
        now,
    ));
    let seen = seen.unwrap().timeline.unwrap().buckets[0].counts[0];
    assert_eq!(seen, 3, "links of both ways");
}

#[test]
fn web() {
    let engine = engine("web");
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let mut found = String::new();
    for (number, text) in corpus("web.log").split(|byte| *byte == b'\n').enumerate() {
        if text.is_empty() {
            continue;
        }
        let event = content::web::access_log::event(text)
            .unwrap_or_else(|error| panic!("line {}: {error}", number + 1));
        let arrival = event.time.unwrap();
        let decision = decide(&engine, engine.prepare(&pipeline, event, arrival));
        line(&mut found, &(number + 1).to_string(), &decision);
    }
    check("web.expected", &found);
}

/// The events come late and twice, as trackers send them; an event that comes twice is counted once.
#[test]
fn analytics() {
    let engine = engine("analytics");
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let (mut found, mut duplicates) = (String::new(), 0);
    for text in corpus("analytics.ndjson").split(|byte| *byte == b'\n').filter(|text| !text.is_empty()) {
        let event = content::json::event(text, &pipeline.schema).unwrap().event;
        let (id, arrival) = (event.id.clone().unwrap(), event.time.unwrap() + Span::hours(1));
        let decision = decide(&engine, engine.prepare(&pipeline, event, arrival));
        duplicates += u32::from(decision.duplicate);
        line(&mut found, &id, &decision);
    }
    check("analytics.expected", &found);
    assert!(duplicates > 0, "the corpus has events that come twice");
    // The honest ones are numbered first.
    let refused = found.lines().filter(|line| !line.contains(" accept ") && !line.contains(" review_after "));
    let number = |line: &str| line.split(' ').next().and_then(|id| id[1..].parse::<u32>().ok());
    let honest = corpus("analytics.ndjson");
    let honest = String::from_utf8_lossy(&honest);
    let made_up = ["farm", "u901", "u902", "u903"].map(|user| format!("\"user\": \"{user}"));
    for refused in refused {
        let id = format!("\"id\": \"e{}\"", number(refused).unwrap());
        let event = honest.lines().find(|line| line.contains(&id)).unwrap();
        assert!(made_up.iter().any(|user| event.contains(user)), "{refused}: {event}");
    }
}

#[test]
fn the_presets_are_as_large_as_promised() {
    for (preset, kinds, rules) in [
        ("mail", 24, 25),
        ("web", 8, 12),
        ("mail-incoming", 25, 26),
        ("mail-outgoing", 26, 33),
        ("analytics", 12, 12),
        ("login", 12, 15),
        ("comments", 11, 16),
        ("signup", 9, 14),
        ("api", 8, 12),
        ("payment", 8, 15),
    ] {
        let engine = engine(preset);
        let pipeline = &engine.plan().pipelines[0];
        assert!(pipeline.kinds.len() >= kinds, "{preset}: {} kinds", pipeline.kinds.len());
        let rules_there = pipeline.rules.rules();
        assert!(rules_there.len() >= rules, "{preset}: {} rules", rules_there.len());
        assert!(
            rules_there.iter().all(|rule| !rule.description.is_empty()),
            "{preset}: a rule is not described"
        );
    }
}

#[test]
fn every_odd_message_is_judged() {
    let engine = engine("mail");
    for set in ["mail/mime", "mail/edge-rspamd", "mail/edge-spamassassin"] {
        let Some(folder) = ::corpora::folder(set) else { continue };
        let messages = ::corpora::files(&folder);
        assert!(messages.len() > 60, "{} messages in {set}", messages.len());
        for path in messages {
            let decision = decide(&engine, prepare_mail(&engine, &std::fs::read(&path).unwrap()));
            assert!(decision.verdict.score.is_finite(), "{}", path.display());
        }
    }
}

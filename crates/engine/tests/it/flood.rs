//! Whoever makes up everything anew each time leaves no more keys in a preset's statistics than somebody who does not.

use std::sync::Arc;

use engine::{Directory, Engine};
use event::{Event, Span, Time};
use plan::{Config, Overrides, Plan};

use crate::corpora::{engine, prepare_mail};

const START: Time = Time::from_seconds(1_800_000_000);

/// Decides on so many events, made by number, and returns the keys that are kept then.
fn keys(engine: &Engine, numbers: std::ops::Range<u64>, make: &dyn Fn(u64) -> Event) -> u64 {
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let numbers: Vec<u64> = numbers.collect();
    for part in numbers.chunks(200) {
        let prepared = part.iter().map(|number| {
            let time = START + Span::seconds(*number as i64 / 50);
            engine.prepare(&pipeline, make(*number), time)
        });
        pollster::block_on(engine.decide(prepared.collect()));
    }
    engine.census().keys
}

/// The keys after a first share of a flood and after all of it: of what was made up anew next to none came to stay.
fn levels_off(preset: &str, make: &dyn Fn(u64) -> Event) {
    let engine = engine(preset);
    let first = keys(&engine, 0..1_000, make);
    let all = keys(&engine, 1_000..6_000, make);
    // One key in a hundred events: what a sketch takes for another.
    assert!(all < first + 50, "{preset}: {first} keys after 1000 events, {all} after 6000");
}

#[test]
fn paths_and_agents_that_come_once_are_not_kept() {
    levels_off("web", &|number| {
        let line = format!(
            "192.0.2.{} - u{number} [17/May/2026:09:00:00 +0000] \"GET /p{number}?q{number}=1 HTTP/1.1\" 404 900 \
             \"http://host{number}.example/\" \"agent{number}/1.0\"",
            number % 20
        );
        let mut event = content::web::access_log::event(line.as_bytes()).unwrap();
        event.time = None;
        event
    });
}

#[test]
fn users_devices_and_pages_that_come_once_are_not_kept() {
    levels_off("analytics", &|number| {
        let mut event = Event::default();
        event.push("ip", format!("192.0.2.{}", number % 20));
        for name in ["user", "device", "session", "agent", "screen", "locale", "campaign", "site", "page"] {
            event.push(name, format!("{name}{number}"));
        }
        event
    });
}

/// Strangers choose these; accounts that exist, places and cards' issuers are the application's.
#[test]
fn what_strangers_make_up_for_an_application_is_not_kept() {
    type Names = &'static [&'static str];
    type Fields = &'static [(&'static str, &'static str)];
    let presets: [(&str, Names, Fields); 5] = [
        ("login", &["user", "device", "agent", "password"], &[("result", "unknown_user"), ("country", "DE")]),
        ("comments", &["device", "agent", "text"], &[("user", "ann"), ("place", "bikes")]),
        ("signup", &["email", "name", "phone", "device", "agent"], &[]),
        ("api", &["key", "agent", "object"], &[("endpoint", "/v1/orders")]),
        ("payment", &["user", "device", "card", "agent"], &[("issuer", "400012"), ("result", "declined")]),
    ];
    for (preset, made_up, fixed) in presets {
        levels_off(preset, &|number| {
            let mut event = Event::default();
            event.push("ip", format!("192.0.2.{}", number % 20));
            for name in made_up {
                event.push(*name, format!("{name}-of-stranger{number}@example{number}.org"));
            }
            for (name, value) in fixed {
                event.push(*name, *value);
            }
            event
        });
    }
}

#[test]
fn subjects_senders_and_links_that_come_once_are_not_kept() {
    let engine = engine("mail");
    let flood = |numbers: std::ops::Range<u64>| {
        for number in numbers {
            let raw = format!(
                "From: N{number} <a{number}@d{number}.example>\r\nTo: <b{number}@example.org>\r\n\
                 Subject: s{number} of word{number}\r\nMessage-ID: <{number}@h{number}.example>\r\n\
                 X-Mailer: m{number}\r\n\r\nCall +49 170 {:07}, see http://l{number}.example/{number}\r\n",
                number * 7919 % 10_000_000
            );
            let prepared = prepare_mail(&engine, raw.as_bytes());
            pollster::block_on(engine.decide(vec![prepared]));
        }
        engine.census().keys
    };
    let (first, all) = (flood(0..300), flood(300..1_500));
    assert!(all < first + 100, "{first} keys after 300 messages, {all} after 1500");
}

#[test]
fn a_directory_of_keys_that_is_nearly_full_is_said() {
    let text = "name = \"p\"\nspace = 7\n[[field]]\nname = \"user\"\ntype = \"string\"\n\
                [[kind]]\nname = \"user\"\nof = \"user\"\n\
                [[statistic]]\nname = \"counts\"\nkeys = [\"user\"]\ncounts = [\"seen\"]\nwindows = [\"1h x 24\"]\n\
                [observe]\nadd = [\"seen\"]\n[ledger]\nmemory = \"1MiB\"\n";
    let config = Config::from_text("p.toml", text, &Overrides::default());
    let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let engine = Engine::open(&directory, plan).unwrap();
    let is_stated = || {
        engine.maintain(None).unwrap();
        engine.health().list().into_iter().find(|condition| condition.name == "ledger-directory")
    };
    let user = |number: u64| {
        let mut event = Event::default();
        event.push("user", format!("user{number}"));
        event
    };
    keys(&engine, 0..1_000, &user);
    assert_eq!(is_stated(), None);
    let mut number = 1_000;
    while engine.census().unplaced == 0 && number < 400_000 {
        keys(&engine, number..number + 4_000, &user);
        number += 4_000;
    }
    let condition = is_stated().unwrap_or_else(|| panic!("{:?} after {number}", engine.census()));
    assert_eq!(condition.impact, engine::Impact::Degraded);
    assert!(condition.detail.contains("raise `memory` of [ledger]"), "{}", condition.detail);
}

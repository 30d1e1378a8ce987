//! The reputations of the preset for mail that comes in: how much is refused by its envelope, before its body, and whose.
//!
//! People report one spam of five and answer one message of twenty, an hour later; where they have programs that tell, half of what
//! they want is read. `cargo test -p tollhouse-engine --test it mail_reputation -- --nocapture` prints the shares.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use content::mail::message::{self, Envelope};
use engine::{Directory, Engine};
use event::{Span, Time};
use judge::Action;
use plan::{Config, Overrides, Plan};

/// A message of somebody.
struct StreamMessage {
    time: Time,
    envelope: Envelope,
    raw: Vec<u8>,
    actor: &'static str,
    is_spam: bool,
}

/// The tally of an actor's messages.
#[derive(Clone, Copy, Debug, Default)]
struct ActorTally {
    messages: u32,
    /// Messages refused by the envelope alone.
    refused: u32,
    /// Messages of clients that were trusted when the envelope came.
    trusted: u32,
    /// Messages refused with their body.
    refused_later: u32,
}

impl ActorTally {
    fn share(self) -> f64 {
        f64::from(self.refused) / f64::from(self.messages.max(1))
    }
}

/// A number that is spread evenly, of a place.
fn spread(at: usize) -> u64 {
    let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
}

/// A word of three thousand, with a blank behind it; digits would be read as one.
fn word(number: u64) -> String {
    let syllable = |shift: u32| {
        ["ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "zu"]
            [(number >> shift) as usize % 15]
    };
    format!("{}{}{} ", syllable(0), syllable(8), syllable(16))
}

/// Judges messages in their order by the envelope, and those that pass with their body, and reports some.
fn run(messages: &[StreamMessage], programs_tell: bool) -> BTreeMap<&'static str, ActorTally> {
    let parent = tempfile::tempdir().unwrap();
    let preset = plan::preset::find("mail-incoming").unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[preset]).unwrap();
    let config = Config::load(&directory.config_path(), &Overrides::default());
    let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
    let engine = Engine::open(&directory, plan).unwrap();
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let mut tallies: BTreeMap<&'static str, ActorTally> = BTreeMap::new();
    let mut due: VecDeque<(Time, journal::RecordId, &str)> = VecDeque::new();
    for (at, message) in messages.iter().enumerate() {
        while let Some((_, id, class)) = due.pop_front_if(|(time, ..)| *time <= message.time) {
            pollster::block_on(engine.feedback(id, class, message.time)).unwrap();
        }
        let tally = tallies.entry(message.actor).or_default();
        tally.messages += 1;
        let prepare = |event| engine.prepare(&pipeline, event, message.time);
        let envelope = message::envelope_event(message.envelope.clone());
        let verdict = pollster::block_on(engine.consult(prepare(envelope.clone()))).unwrap();
        tally.trusted += u32::from(verdict.reasons.iter().any(|reason| reason.rule == "CLIENT_TRUSTED"));
        let decision = if verdict.action == Action::Reject {
            tally.refused += 1;
            pollster::block_on(engine.decide(vec![prepare(envelope)])).remove(0)
        } else {
            let event = message::event(message.raw.clone(), message.envelope.clone());
            let decision = pollster::block_on(engine.decide(vec![prepare(event)])).remove(0);
            tally.refused_later += u32::from(decision.verdict.action == Action::Reject);
            decision
        };
        let class = match (message.is_spam, spread(at)) {
            // Nobody sees what was refused.
            _ if decision.verdict.action == Action::Reject => continue,
            (true, number) if number.is_multiple_of(5) => "spam",
            (false, number) if number.is_multiple_of(20) => "reply",
            (false, number) if programs_tell && number.is_multiple_of(2) => "read",
            _ => continue,
        };
        due.push_back((message.time + Span::hours(1), decision.id, class));
    }
    println!("{:<12} {:>8} {:>15} {:>10} {:>10}", "actor", "messages", "refused unread", "trusted", "later");
    for (actor, tally) in &tallies {
        let percent = |count: u32| 100.0 * f64::from(count) / f64::from(tally.messages.max(1));
        println!(
            "{actor:<12} {:>8} {:>14.1} % {:>8.1} % {:>8.1} %",
            tally.messages,
            percent(tally.refused),
            percent(tally.trusted),
            percent(tally.refused_later)
        );
    }
    tallies
}

const DAYS: usize = 10;

/// Ten days of mail: honest crowds and abusers, each from its own addresses.
fn made_up() -> Vec<StreamMessage> {
    /// An actor: messages a day, how many addresses it has, how many in a thousand messages are spam, its days.
    type Actor = (&'static str, usize, usize, u64, std::ops::Range<usize>);
    let actors: [Actor; 7] = [
        // A provider of many people, some of whom are taken over.
        ("provider", 100, 1, 10, 0..DAYS),
        // A lesser one with a worse week.
        ("host", 40, 1, 80, 0..DAYS),
        ("office", 20, 1, 0, 0..DAYS),
        ("list", 30, 1, 0, 0..DAYS),
        ("spammer", 50, 1, 1000, 2..7),
        ("snowshoe", 80, 40, 1000, 1..8),
        ("botnet", 40, 1_000_000, 1000, 0..DAYS),
    ];
    let mut messages = Vec::new();
    for (number, (actor, a_day, addresses, per_mille, days)) in actors.into_iter().enumerate() {
        for day in days {
            for turn in 0..a_day {
                let at = (number * DAYS + day) * 1000 + turn;
                let random = spread(at);
                let is_spam = random % 1000 < per_mille;
                let address = match addresses {
                    1 => Ipv4Addr::new(198, 18, number as u8, 25),
                    40 => Ipv4Addr::new(203, 0, 113, (random % 40) as u8),
                    _ => Ipv4Addr::from_bits(0x1800_0000 + (spread(at + 7) & 0x07ff_ffff) as u32),
                };
                let words: String = (0..40).map(|place| word(spread(at * 64 + place))).collect();
                let from = format!("u{}@{actor}.example", random % 25);
                let raw = format!(
                    "From: <{from}>\r\nTo: <ann@here.example>\r\nSubject: {}\r\nMessage-ID: <{at}@{actor}.example>\r\n\
                     Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n\r\n{words}\r\n",
                    &words[..20]
                );
                let envelope = Envelope {
                    client_ip: Some(address.into()),
                    helo: Some(format!("mx.{actor}.example")),
                    sender: Some(from),
                    recipients: vec!["ann@here.example".to_owned()],
                    user: None,
                };
                let time = Time::from_seconds(1_700_000_000)
                    + Span::days(day as i64)
                    + Span::seconds((turn * 86_400 / a_day) as i64);
                messages.push(StreamMessage { time, envelope, raw: raw.into_bytes(), actor, is_spam });
            }
        }
    }
    messages.sort_by_key(|message| message.time);
    messages
}

#[test]
fn an_abusers_mail_is_refused_unread_and_a_crowds_is_not() {
    let messages = made_up();
    for programs_tell in [true, false] {
        println!("people's programs tell what was read: {programs_tell}");
        let tallies = run(&messages, programs_tell);
        for honest in ["provider", "host", "office", "list"] {
            assert_eq!(tallies[honest].refused, 0, "{honest}: {:?}", tallies[honest]);
        }
        assert!(tallies["spammer"].share() > 0.5, "{:?}", tallies["spammer"]);
        assert_eq!(tallies["botnet"].refused, 0, "nothing is known of an address that comes once");
    }
}

/// The forwarders of the mailbox's owner: a site takes the client from what they say, as it does of its own relays.
const FORWARDERS: [&str; 2] = ["dogma.slashnull.org", "webnote.net"];

/// The envelope of a message as it was handed to the first of the forwarders.
fn forwarded_envelope(raw: &[u8]) -> Envelope {
    let text = String::from_utf8_lossy(raw);
    let header = text.split_once("\n\n").map_or(&*text, |(header, _)| header);
    let mut left = String::new();
    let mut is_dropped = false;
    for line in header.lines() {
        if !line.starts_with([' ', '\t']) {
            is_dropped = FORWARDERS.iter().any(|host| line.starts_with(&format!("Received: from {host}")));
        }
        if !is_dropped {
            left += line;
            left += "\n";
        }
    }
    Envelope::from_headers((left + "\n").as_bytes())
}

#[test]
fn real_mail() {
    let Some(folder) = ::corpora::folder("mail/corpus") else { return };
    let mut messages = Vec::new();
    for (class, is_spam) in [("ham", false), ("spam", true)] {
        for path in ::corpora::files(&folder.join(class)) {
            let raw = std::fs::read(&path).unwrap();
            let Some(time) = message::time(&raw) else { continue };
            let envelope = forwarded_envelope(&raw);
            if envelope.client_ip.is_some() {
                messages.push(StreamMessage { time, envelope, raw, actor: class, is_spam });
            }
        }
    }
    messages.sort_by_key(|message| message.time);
    let tallies = run(&messages, true);
    assert_eq!(tallies["ham"].refused, 0, "{tallies:?}");
}

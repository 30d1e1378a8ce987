//! Each rule of the presets for mail has messages in `corpora/rules.txt` that fire it and that just do not, read, counted
//! and judged by the whole engine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use content::budget::Cancellation;
use content::mail::message::{self, Envelope};
use engine::{Directory, Engine, PreparedEvent};
use event::{Span, Time, Value};
use plan::{Config, Overrides, Pipeline, Plan, preset};

use crate::corpora::SECRET;
use judge::{Mode, Verdict};

/// The arrival of the judged message: 2026-05-17T10:00:00Z.
const NOW: Time = Time::from_seconds(1_779_012_000);
const PRESETS: [&str; 3] = ["mail", "mail-incoming", "mail-outgoing"];
/// GTUBE without its first letter.
const GTUBE: &str = "JS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";

/// A section: what it adds to the message that all begin with.
#[derive(Clone, Debug, Default)]
struct Section {
    /// Words behind `@NAME`, each as often as it is there.
    directives: BTreeMap<String, Vec<String>>,
    /// Fields by name; one without a value is left out.
    fields: Vec<(String, String)>,
    body: Option<String>,
}

impl Section {
    fn read(text: &str) -> Section {
        let mut section = Section::default();
        let only_body = text.strip_prefix('\n').map(|body| ("", body));
        let (head, body) = only_body.or_else(|| text.split_once("\n\n")).unwrap_or((text, ""));
        section.body = Some(body.trim_end().to_owned()).filter(|body| !body.is_empty());
        for line in head.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(directive) = line.strip_prefix('@') {
                let (name, words) = directive.split_once(' ').unwrap_or((directive, ""));
                section.directives.entry(name.to_owned()).or_default().push(words.to_owned());
            } else if let Some(more) = line.strip_prefix([' ', '\t']) {
                let (_, value) = section.fields.last_mut().unwrap();
                *value += &format!("\n {more}");
            } else {
                let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no field: {line}"));
                section.fields.push((name.to_owned(), value.trim_start().to_owned()));
            }
        }
        section
    }

    /// Returns what this one says, and of the other what this one does not say anew.
    fn over(&self, other: &Section) -> Section {
        let mut section = other.clone();
        for (name, lines) in &self.directives {
            section.directives.insert(name.clone(), lines.clone());
        }
        for (name, value) in &self.fields {
            match section.fields.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
                Some((_, known)) => known.clone_from(value),
                None => section.fields.push((name.clone(), value.clone())),
            }
        }
        section.body = self.body.clone().or(section.body);
        section
    }

    fn one(&self, name: &str) -> Option<&str> {
        self.directives.get(name)?.first().map(String::as_str)
    }

    /// The message, and its envelope.
    fn message(&self, fill: &dyn Fn(&str) -> String) -> (Vec<u8>, Envelope) {
        let mut raw = String::new();
        let parts = self.directives.get("file").map(Vec::as_slice).unwrap_or_default();
        for (name, value) in self.fields.iter().filter(|(_, value)| !value.is_empty()) {
            if parts.is_empty() || !name.to_ascii_lowercase().starts_with("content-") {
                writeln!(raw, "{name}: {}", fill(value)).unwrap();
            }
        }
        let body = fill(self.body.as_deref().unwrap_or_default());
        if parts.is_empty() {
            write!(raw, "\n{body}\n").unwrap();
        } else {
            let kind = self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("Content-Type"));
            let kind = kind.map_or("text/plain", |(_, value)| value.as_str());
            write!(
                raw,
                "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"=_b\"\n\n--=_b\nContent-Type: {kind}\n\n{body}\n"
            )
            .unwrap();
            for part in parts {
                let [name, kind, content] = part.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                    panic!("@file {part}")
                };
                write!(
                    raw,
                    "--=_b\nContent-Type: {kind}\nContent-Disposition: attachment; filename*=utf-8''{name}\n\
                     Content-Transfer-Encoding: base64\n\n{}\n",
                    base64(&file(&fill(content)))
                )
                .unwrap();
            }
            raw += "--=_b--\n";
        }
        let list = |name: &str| {
            let text = fill(self.one(name).unwrap_or_default());
            text.split(", ").filter(|item| !item.is_empty()).flat_map(ranged).collect::<Vec<_>>()
        };
        let text = |name: &str| self.one(name).map(fill).filter(|text| !text.is_empty());
        let envelope = Envelope {
            client_ip: text("ip").map(|ip| ip.parse().unwrap()),
            helo: text("helo"),
            sender: text("sender"),
            recipients: list("rcpt"),
            user: text("user"),
        };
        (raw.into_bytes(), envelope)
    }
}

/// `r[1-3]@x` as three addresses.
fn ranged(item: &str) -> Vec<String> {
    let Some((before, rest)) = item.split_once('[') else { return vec![item.to_owned()] };
    let (range, after) = rest.split_once(']').unwrap();
    let (first, last) = range.split_once('-').unwrap();
    let (first, last): (u32, u32) = (first.parse().unwrap(), last.parse().unwrap());
    (first..=last).map(|number| format!("{before}{number}{after}")).collect()
}

/// A file's content: `zip NAME=CONTENT ; …`, the same encrypted or with another name in its directory, `exe`, `noise BYTES`, `qr TEXT`
/// (a picture of a code), `cfb NAME TEXT` (a compound file), or text.
fn file(content: &str) -> Vec<u8> {
    let (word, rest) = content.split_once(' ').unwrap_or((content, ""));
    match word {
        "zip" | "zip-encrypted" | "zip-renamed" => {
            let files: Vec<(&str, Vec<u8>)> = rest
                .split(" ; ")
                .map(|entry| entry.split_once('=').unwrap())
                .map(|(name, content)| (name, file(content)))
                .collect();
            zip(&files, word)
        }
        "noise" => {
            let mut state = 1u64;
            let byte = |_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state.to_le_bytes()[7]
            };
            (0..rest.parse().unwrap()).map(byte).collect()
        }
        "qr" => corpora::qr_png(rest),
        "exe" => [b"MZ".as_slice(), &[0; 100]].concat(),
        "cfb" => {
            let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
            let mut slot: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let length = u16::try_from(slot.len() + 2).unwrap();
            slot.resize(128, 0);
            slot[64..66].copy_from_slice(&length.to_le_bytes());
            slot[66] = 1;
            let mut head = vec![0xD0, 0xCF, 0x11, 0xE0, 0xA1, 0xB1, 0x1A, 0xE1];
            head.resize(512, 0);
            [head.as_slice(), &slot, text.as_bytes()].concat()
        }
        _ => content.replace("\\n", "\n").into_bytes(),
    }
}

/// Files as they are in a ZIP archive, whose checksums nobody looks at.
fn zip(files: &[(&str, Vec<u8>)], how: &str) -> Vec<u8> {
    let flags = [u8::from(how == "zip-encrypted"), 0];
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in files {
        let offset = u32::try_from(out.len()).unwrap().to_le_bytes();
        let size = u32::try_from(content.len()).unwrap().to_le_bytes();
        let header = |name: &str| {
            let length = u16::try_from(name.len()).unwrap().to_le_bytes();
            [&flags[..], &[0; 10], &size, &size, &length, &[0, 0]].concat()
        };
        out.extend([b"PK\x03\x04\x14\0", header(name).as_slice(), name.as_bytes(), content].concat());
        let name = if how == "zip-renamed" { "other.txt" } else { name };
        directory.extend(
            [b"PK\x01\x02\x14\0\x14\0", header(name).as_slice(), &[0; 10], &offset, name.as_bytes()].concat(),
        );
    }
    let count = u16::try_from(files.len()).unwrap().to_le_bytes();
    let (size, offset) =
        [directory.len(), out.len()].map(|length| u32::try_from(length).unwrap().to_le_bytes()).into();
    out.extend(directory);
    out.extend([b"PK\x05\x06\0\0\0\0".as_slice(), &count, &count, &size, &offset, &[0, 0]].concat());
    out
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word =
            three.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..4 {
            let sextet = (word >> (18 - 6 * digit)) as usize & 63;
            text.push(if digit > three.len() { '=' } else { char::from(DIGITS[sextet]) });
        }
        if text.len() % 77 == 76 {
            text.push('\n');
        }
    }
    text
}

/// `\u{200b}` as the character.
fn unescaped(text: &str) -> String {
    let mut parts = text.split("\\u{");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_once('}').unwrap();
        plain.push(u32::from_str_radix(digits, 16).ok().and_then(char::from_u32).unwrap());
        plain += rest;
    }
    plain
}

/// Returns true if a verdict is as a section says.
fn holds(expected: RuleExpectation, rule: &str, verdict: &Verdict) -> bool {
    let fires = || verdict.reasons.iter().any(|reason| reason.rule == rule);
    match expected {
        RuleExpectation::Fires => fires(),
        RuleExpectation::Not => !fires(),
        RuleExpectation::Accepted => verdict.score < TAGGED,
        RuleExpectation::Tagged => verdict.score >= TAGGED,
    }
}

/// Judges a section's message, after what came before it.
fn judged(engine: &Engine, section: &Section, case: usize) -> Verdict {
    let plan = engine.plan();
    let named =
        |name: &str| Arc::clone(plan.pipeline(Some(name)).unwrap_or_else(|| panic!("no pipeline {name}")));
    let pipeline = section.one("preset").map_or_else(|| Arc::clone(&plan.pipelines[0]), named);
    let prepare = |pipeline: &Arc<Pipeline>,
                   section: &Section,
                   number: usize,
                   class: &str,
                   time: Time|
     -> PreparedEvent {
        let fill = |text: &str| {
            let text = text.replace("{id}", &case.to_string()).replace("{n}", &number.to_string());
            let text = text.replace("{class}", class);
            let text = ["X", "Y"].iter().fold(text, |text, letter| {
                text.replace(&format!("{{gtube {letter}}}"), &format!("{letter}{GTUBE}"))
            });
            unescaped(&text)
        };
        let (raw, envelope) = section.message(&fill);
        let mut event = message::event(raw, envelope);
        event.time = Some(time);
        let mut read = engine.read(pipeline, event, time, &Cancellation::default());
        for fact in section.directives.get("fact").into_iter().flatten() {
            let (name, value) = fact.split_once(" = ").unwrap();
            let slot = pipeline.schema.slot(name).unwrap_or_else(|| panic!("no fact {name}"));
            read.set(slot, value_of(value));
        }
        engine.key(read)
    };
    // Of each, `COUNT EVERY` and what else it needs, by time.
    for (what, lines) in
        section.directives.iter().filter(|(name, _)| ["before", "learn", "sent"].contains(&name.as_str()))
    {
        for line in lines {
            let mut words = line.split(' ');
            let count: i64 = words.next().unwrap().parse().unwrap();
            let every: Span = words.next().unwrap().parse().unwrap();
            let class = words.next().unwrap_or_default();
            for number in (1..=count).rev() {
                let time = Time(NOW.0 - every.0 * number);
                let number = usize::try_from(number).unwrap();
                match what.as_str() {
                    "learn" => {
                        let prepared = prepare(&pipeline, section, number, class, time);
                        let id = format!("{class} {number}");
                        pollster::block_on(engine.learn(prepared, &id, class)).unwrap();
                    }
                    "sent" => {
                        // What people here wrote to the message's author.
                        let mut sent = section.clone();
                        sent.directives.insert("rcpt".to_owned(), vec!["ann{id}@s{id}.example".to_owned()]);
                        let prepared = prepare(&named("mail-outgoing"), &sent, number, class, time);
                        pollster::block_on(engine.decide(vec![prepared]));
                    }
                    _ => {
                        let prepared = prepare(&pipeline, section, number, class, time);
                        pollster::block_on(engine.decide(vec![prepared]));
                    }
                }
            }
        }
    }
    let prepared = prepare(&pipeline, section, 0, section.one("as").unwrap_or_default(), NOW);
    pollster::block_on(engine.decide(vec![prepared])).remove(0).verdict
}

fn value_of(text: &str) -> Value {
    match serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}")) {
        serde_json::Value::Bool(is) => Value::from(is),
        serde_json::Value::String(text) => Value::from(text),
        serde_json::Value::Array(items) => {
            Value::from(items.iter().map(|item| item.as_str().unwrap().to_owned()).collect::<Vec<_>>())
        }
        other => panic!("{other}"),
    }
}

/// An engine that has judged nothing yet. Ways in and out share what they know only where they are of one directory.
fn engine(preset: &str, sections: &Section, parent: &std::path::Path) -> Engine {
    let overrides = Overrides::default();
    if sections.directives.contains_key("sent") {
        let presets = ["mail-incoming", "mail-outgoing"].map(|name| preset::find(name).unwrap());
        let directory = Directory::create(&parent.join("data"), &presets).unwrap();
        std::fs::write(parent.join("data/secret"), format!("{}\n", SECRET.to_hex())).unwrap();
        let plan = Plan::compile(&Config::load(&directory.config_path(), &overrides));
        return Engine::open(&directory, plan.unwrap_or_else(|problems| panic!("{problems}"))).unwrap();
    }
    let plan = Plan::compile(&Config::from_preset(preset, &overrides));
    Engine::ephemeral_with(plan.unwrap_or_else(|problems| panic!("{problems}")), SECRET).unwrap()
}

/// The words behind a section's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleExpectation {
    Fires,
    Not,
    Accepted,
    Tagged,
}

/// The score from which the preset tags a message.
const TAGGED: f64 = 4.0;

/// The sections: the rule, or the name of a whole message, what is expected, and what the message is like.
fn sections() -> Vec<(String, RuleExpectation, Section)> {
    let path = format!("{}/../../corpora/rules.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut parts = text.split("\n== ");
    parts.next();
    let base = parts
        .next()
        .and_then(|part| part.strip_prefix("every message\n"))
        .expect("`== every message` comes first");
    let base = Section::read(base);
    let mut sections: Vec<(String, RuleExpectation, Section)> = Vec::new();
    for part in parts {
        let (title, text) = part.split_once('\n').unwrap_or((part, ""));
        let (rule, word) = title.split_once(' ').unwrap_or_else(|| panic!("== {title}"));
        let is = match word {
            "fires" => RuleExpectation::Fires,
            "not" => RuleExpectation::Not,
            "accepted" => RuleExpectation::Accepted,
            "tagged" => RuleExpectation::Tagged,
            other => panic!("== {rule} {other}: expected `fires`, `not`, `accepted` or `tagged`"),
        };
        // What does not fire differs from what does by what it says.
        let is_like = |known: &str, of: RuleExpectation| {
            known == rule && of == RuleExpectation::Fires && is == RuleExpectation::Not
        };
        let like = sections.iter().rfind(|(known, of, _)| is_like(known, *of));
        let section = Section::read(text).over(like.map_or(&base, |(_, _, section)| section));
        sections.push((rule.to_owned(), is, section));
    }
    sections
}

#[test]
fn every_rule_has_messages_that_fire_it_and_that_do_not() {
    let sections = sections();
    let mut wrong = Vec::new();
    let mut seen: BTreeMap<&str, BTreeSet<bool>> = BTreeMap::new();
    let engines: BTreeMap<&str, Engine> =
        PRESETS.into_iter().map(|name| (name, engine(name, &Section::default(), "".as_ref()))).collect();
    let home = |rule: &str| {
        let has = |name: &&&str| engines[**name].plan().pipelines[0].rules.rule(rule).is_some();
        PRESETS.iter().find(has).copied().unwrap_or_else(|| panic!("no preset has a rule {rule}"))
    };
    for (case, (rule, expected, section)) in sections.iter().enumerate() {
        let is_whole = matches!(expected, RuleExpectation::Accepted | RuleExpectation::Tagged);
        if !is_whole {
            seen.entry(rule).or_default().insert(*expected == RuleExpectation::Fires);
        }
        let preset = if is_whole { PRESETS[0] } else { home(rule) };
        let parent = tempfile::tempdir().unwrap();
        let has_past = ["before", "learn", "sent"].iter().any(|name| section.directives.contains_key(*name));
        // Who has no past may share an engine with others.
        let own = has_past.then(|| engine(preset, section, parent.path()));
        // Whole messages are the first of their senders.
        let own = own.or_else(|| is_whole.then(|| engine(preset, section, parent.path())));
        let verdict = judged(own.as_ref().unwrap_or(&engines[preset]), section, case);
        if !holds(*expected, rule, &verdict) {
            let fired: Vec<String> =
                verdict.reasons.iter().map(|reason| format!("{} {:+}", reason.rule, reason.score)).collect();
            wrong.push(format!("{rule} is not {expected:?}: {:.2} {}", verdict.score, fired.join(", ")));
        }
    }
    for (preset, engine) in &engines {
        for rule in engine.plan().pipelines[0].rules.rules() {
            let both = seen.get(rule.name.as_str()).is_some_and(|seen| seen.len() == 2);
            if rule.mode != Mode::Off && !both {
                wrong.push(format!("{preset} has {}, of which corpora/rules.txt lacks a message", rule.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} sections:\n{}", wrong.len(), sections.len(), wrong.join("\n"));
}

#[test]
fn the_documented_marks_of_phishing_are_there() {
    let document = include_str!("../../../../docs/guides/phishing.md");
    let block = document.split_once("\n```toml\n").and_then(|(_, rest)| rest.split("\n```").next()).unwrap();
    let parent = tempfile::tempdir().unwrap();
    std::fs::write(parent.path().join("free-hosts.txt"), "pages.example\n").unwrap();
    let path = parent.path().join("main.toml");
    std::fs::write(&path, block).unwrap();
    let plan = Plan::compile(&Config::load(&path, &Overrides::default()));
    let plan = plan.unwrap_or_else(|problems| panic!("{problems}"));
    let pipeline = &plan.pipelines[0];
    let preset = preset::find("mail").unwrap().text;
    // A definition of one's own stands for the preset's, and leaves out its tests, but not those of other rules.
    for (own, is_refused) in [
        ("[constants]\nasks_for_login = 'geef me je wachtwoord'\n", false),
        ("[[rule]]\nname = \"SHOUTING\"\nwhen = \"mail.upper_share > 0.1\"\n", false),
        ("[[rule]]\nname = \"SVG_RUNS\"\nwhen = \"!mail.svg_script\"\n", true),
    ] {
        std::fs::write(&path, format!("preset = \"mail\"\n{own}")).unwrap();
        let compiled = Plan::compile(&Config::load(&path, &Overrides::default()));
        assert_eq!(compiled.is_err(), is_refused, "{own}");
    }
    // What the table names in code: facts, rules in capitals, and lists.
    let rows = document.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| mark"));
    let named: Vec<&str> = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect();
    assert!(named.len() > 40, "{named:?}");
    for name in named {
        let is_there = pipeline.schema.slot(name).is_some()
            || pipeline.rules.rule(name).is_some()
            || preset.contains(&format!("name = \"{name}\"\ntype = "))
            || preset.contains(&format!("\n{name} = '''"));
        assert!(is_there, "{name}");
    }
}

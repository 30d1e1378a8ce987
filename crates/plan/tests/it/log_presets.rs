//! Presets of programs' logs: each line of `corpora/logs` says what it is labelled with, and no text of a stranger's says who
//! somebody else is.

use std::collections::BTreeSet;
use std::path::Path;

use event::{Event, Time};
use jiff::tz::TimeZone;
use logs::log_stream::{LogSettings, LogStream, StreamLine};
use plan::preset::{self, Preset};
use plan::{Config, Overrides, Plan};

/// The address that injected text names.
const INJECTED: &str = "203.0.113.66";
/// Texts of strangers in the corpora beside names of accounts: paths, agents, names of clients, senders.
const STRANGERS: [&str; 4] = ["/index.php", "Mozilla/5.0", "helo.example", "sender@example.org"];

/// The present of the tests: 2026-11-26.
pub(crate) fn now() -> Time {
    "2026-11-26T12:00:00Z".parse().expect("time")
}

/// Presets of programs.
pub(crate) fn programs() -> impl Iterator<Item = &'static Preset> {
    preset::LOGS.iter().filter(|preset| preset.extends.is_some())
}

/// The settings by which a preset reads a log.
pub(crate) fn settings(name: &str) -> LogSettings {
    let plan = Plan::compile(&Config::from_preset(name, &Overrides::default()));
    let plan = plan.unwrap_or_else(|problems| panic!("{name}: {problems}"));
    plan.pipelines[0].log().expect("log").clone()
}

/// A text of an event.
pub(crate) fn text(event: &Event, name: &str) -> String {
    event.get(name).map(ToString::to_string).unwrap_or_default()
}

/// The meaning of a line as labels have it: `failure`, address and account, or `-`.
pub(crate) fn meaning(stream: &mut LogStream, line: &str) -> (String, Option<Event>) {
    let StreamLine::Event(event) = stream.read(line.as_bytes(), now()) else { return ("-".to_owned(), None) };
    let is = |name: &str| !text(&event, name).is_empty();
    let what = match (is("failure"), is("success")) {
        (true, false) => "failure",
        (false, true) => "success",
        _ => "neither",
    };
    let shown = [what.to_owned(), text(&event, "log.ip"), text(&event, "log.user")];
    (shown.join(" ").trim_end().to_owned(), Some(*event))
}

/// A file of labelled lines.
struct LogLabels {
    lines: Vec<(String, String)>,
    /// True if what strangers write is escaped in the log, as in strings of JSON.
    is_escaped: bool,
    has_injection: bool,
}

fn labels(name: &str) -> LogLabels {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpora/logs"));
    let path = folder.join(format!("{name}.txt"));
    let content =
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = content.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (label, line) = line.split_once('\t').unwrap_or_else(|| panic!("{name}: no tab in {line}"));
        (label.to_owned(), line.to_owned())
    });
    let says = |word: &str| content.lines().any(|line| line.starts_with('#') && line.contains(word));
    LogLabels { lines: lines.collect(), is_escaped: says("escaped"), has_injection: says("injection") }
}

#[test]
fn lines_say_what_they_are_labelled_with() {
    let mut wrong = Vec::new();
    let mut spaces = BTreeSet::new();
    for preset in programs() {
        let name = preset.name;
        let plan = Plan::compile(&Config::from_preset(name, &Overrides::default()));
        let plan = plan.unwrap_or_else(|problems| panic!("{name}: {problems}"));
        assert_eq!(plan.pipelines[0].name, name);
        assert!(spaces.insert(plan.pipelines[0].space), "{name} counts in the space of another");
        let source = preset.source();
        let main = format!("preset = \"{name}\"\n{source}");
        let whole = Plan::compile(&Config::from_text("main", &main, &Overrides::default()));
        let whole = whole.unwrap_or_else(|problems| panic!("{name}: {problems}"));
        assert_eq!(whole.node.sources.len(), 1, "{name}");

        let settings = settings(name);
        let reader = settings.reader().expect("reader");
        assert_eq!(reader.backtracking_count(), 0, "{name}: patterns take linear time");
        let mut stream = settings.open(TimeZone::UTC).expect("stream");
        let mut used = BTreeSet::new();
        let log = labels(name);
        for (label, line) in &log.lines {
            let (meaning, event) = meaning(&mut stream, line);
            if let Some(event) = event {
                let is_dated = ["2026", "Feb 25"].iter().any(|date| line.contains(date));
                let time = event.time.expect("time").to_string();
                if is_dated && !time.starts_with("2026-02-25T") {
                    wrong.push(format!("{name}: at {time}: {line}"));
                }
                used.insert(text(&event, "log.pattern"));
            }
            if meaning != *label {
                wrong.push(format!("{name}: `{meaning}` instead of `{label}`: {line}"));
            }
        }
        let has = |start: &str| log.lines.iter().any(|(label, _)| label.starts_with(start));
        assert!(has("failure ") && has("-") && log.has_injection, "{name}: lines of each kind");
        for (index, pattern) in settings.patterns.patterns.iter().enumerate() {
            // One that only joins lines is no event.
            if !pattern.contains("NOFAIL") && !used.contains(&(index + 1).to_string()) {
                wrong.push(format!("{name}: no line for {pattern}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns a line with another text in the place of a whole word, wherever that stands.
fn replaced(line: &str, word: &str, by: &str) -> String {
    let is_part = |character: Option<char>| character.is_some_and(|character| character.is_alphanumeric());
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(word) {
        let end = at + word.len();
        let is_whole = !is_part(rest[..at].chars().next_back()) && !is_part(rest[end..].chars().next());
        out.push_str(&rest[..at]);
        out.push_str(if is_whole { by } else { word });
        rest = &rest[end..];
    }
    out + rest
}

#[test]
fn no_text_of_a_stranger_names_another_address() {
    let mut wrong = Vec::new();
    let mut tried = 0;
    for preset in programs() {
        let log = labels(preset.name);
        let mut stream = settings(preset.name).open(TimeZone::UTC).expect("stream");
        let said: Vec<(&str, &str, &str)> = log
            .lines
            .iter()
            .filter_map(|(label, line)| {
                let mut words = label.splitn(3, ' ');
                (words.next() != Some("-")).then_some(())?;
                Some((words.next()?, words.next().unwrap_or_default(), line.as_str()))
            })
            .filter(|(address, ..)| !address.is_empty())
            .collect();
        let payloads: BTreeSet<String> = said
            .iter()
            .flat_map(|(address, _, line)| {
                let line = line.replace(address, INJECTED);
                let content = line.split_once(": ").map(|(_, content)| content.to_owned());
                [Some(line.clone()), content].into_iter().flatten().flat_map(|content| {
                    ["", "x ", "x\" ", "x' ", "x> ", "x] ", "x, "].map(|before| format!("{before}{content}"))
                })
            })
            .collect();
        for (address, user, line) in &said {
            if line.contains(INJECTED) {
                continue;
            }
            for word in STRANGERS.into_iter().chain([*user]) {
                if word.is_empty() || !line.contains(word) {
                    continue;
                }
                for payload in &payloads {
                    let payload = match log.is_escaped {
                        true if line.starts_with('<') => {
                            payload.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
                        }
                        true => payload.replace('\\', "\\\\").replace('"', "\\\""),
                        false => payload.clone(),
                    };
                    let line = replaced(line, word, &payload);
                    tried += 1;
                    if let Some(event) = meaning(&mut stream, &line).1 {
                        let found = text(&event, "log.ip");
                        if found != *address {
                            wrong.push(format!("{}: {found} instead of {address}: {line}", preset.name));
                        }
                    }
                }
            }
        }
    }
    println!("{tried} lines");
    assert!(tried > 1_000, "{tried}");
    wrong.truncate(40);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

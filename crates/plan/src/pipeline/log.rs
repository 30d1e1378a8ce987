//! Patterns by which the lines of a log are read: `[log]`.

use std::collections::BTreeSet;

use data_encoding::HEXLOWER;
use logs::date_detector::DateDetector;
use logs::fail2ban::tag;
use logs::line_pattern::LinePattern;
use logs::log_reader::{LogPatterns, grok_library};
use logs::log_record::{LogFieldMap, LogLineFormat};
use logs::log_stream::{LogEnvelope, LogSettings, zone};
use logs::python_regex::LineAnchors;
use sha2::{Digest, Sha256};

use crate::config::{ConfigOrigin, ConfigProblems, ConfigView, Document, grok_key};
use crate::entries;

/// Most patterns of a pipeline.
const PATTERNS_MAX: usize = 5_000;
/// Most grok patterns of a pipeline, each of which may become large.
const GROK_MAX: usize = 500;
/// Most files of grok patterns.
const GROK_FILES_MAX: usize = 16;

/// The section, if it says how lines are read.
fn section(document: &Document) -> Option<ConfigView<'_>> {
    let reads = |view: &ConfigView<'_>| {
        let is_record = view.str("format").is_some_and(|format| format != LogLineFormat::Text.name());
        view.is_given("patterns") || view.is_given("grok") || is_record
    };
    document.section("log").filter(reads)
}

/// Returns the part of a pipeline's version that comes from the files of grok patterns, one line each.
pub(super) fn canonical(document: &Document) -> String {
    let Some(view) = section(document) else { return String::new() };
    let digest = |(file, _): (&str, &ConfigOrigin)| {
        let source = document.list_file(&grok_key(file))?;
        let digest: String = HEXLOWER.encode(&Sha256::digest(source.text.as_bytes()));
        Some(format!("log.grok_files.{file}.digest = \"{digest}\"\n"))
    };
    view.strings("grok_files").into_iter().filter_map(digest).collect()
}

/// Compiles the patterns of a pipeline. One that is wrong is told of, with its place, and left out.
pub(super) fn compile(document: &Document, problems: &mut ConfigProblems) -> LogSettings {
    let mut settings = LogSettings::default();
    let Some(view) = section(document) else {
        let help =
            "add [log] with `patterns`, `grok` or a `format`, or let `tollhouse import fail2ban` write \
                    it"
            .to_owned();
        let origin = document.top();
        problems.add(origin.origin("input"), "a log is read by patterns, and there are none", Some(help));
        return settings;
    };
    let lines = view.integer("lines").and_then(|lines| usize::try_from(lines).ok()).unwrap_or(1);
    let anchors = if lines > 1 { LineAnchors::Lines } else { LineAnchors::Text };
    let mut groups = BTreeSet::new();
    let mut check =
        |text: &str, origin: &ConfigOrigin, anchors: LineAnchors, problems: &mut ConfigProblems| {
            match LinePattern::new(&tag::groups(text), anchors) {
                Ok(pattern) => {
                    groups.extend(pattern.names().iter().map(|(_, name)| name.to_string()));
                    true
                }
                Err(error) => {
                    let help = "patterns are regular expressions of Python's".to_owned();
                    problems.add(origin, error.to_string(), Some(help));
                    false
                }
            }
        };
    let mut taken = |key: &str, anchors: LineAnchors, problems: &mut ConfigProblems| -> Vec<String> {
        let texts = view.strings(key);
        if texts.len() > PATTERNS_MAX {
            problems.add(view.origin(key), format!("more than {PATTERNS_MAX} patterns"), None);
        }
        let texts = texts.into_iter().take(PATTERNS_MAX);
        texts
            .filter(|(text, origin)| check(text, origin, anchors, problems))
            .map(|(text, _)| text.to_owned())
            .collect()
    };
    let patterns = taken("patterns", anchors, problems);
    let ignored = taken("ignored", LineAnchors::Text, problems);
    let prefix = view.str("prefix").filter(|prefix| !prefix.is_empty());
    let prefix = prefix.filter(|prefix| check(prefix, view.origin("prefix"), LineAnchors::Text, problems));
    let (grok, grok_files) = grok(document, view, &mut groups, problems);
    settings.format = view.str("format").and_then(LogLineFormat::named).unwrap_or_default();
    if let Some(map) = view.table("map") {
        let names = LogFieldMap::NAMES.into_iter().filter_map(|meaning| Some((meaning, map.str(meaning)?)));
        settings.map = LogFieldMap::new(names);
        if settings.format == LogLineFormat::Text {
            let help = "add `format = \"json\"` or `format = \"logfmt\"`, or leave it out".to_owned();
            problems.add(view.origin("map"), "lines of text have no fields for `map`", Some(help));
        }
    }
    let says_who = settings.map.ip.is_some() || settings.map.id.is_some() || settings.map.host.is_some();
    if settings.format != LogLineFormat::Text && patterns.is_empty() && grok.is_empty() && !says_who {
        let help = "name the field: `map = { ip = \"remote_addr\" }`".to_owned();
        problems.add(view.origin("format"), "nothing says whom a record is about", Some(help));
    }
    let mut dates = Vec::new();
    for (date, origin) in view.strings("dates") {
        match DateDetector::new(&[date]) {
            Ok(_) => dates.push(date.to_owned()),
            Err(error) => problems.add(origin, error.to_string(), None),
        }
    }
    let zone_name = view.str("zone").filter(|zone| !zone.is_empty());
    if let Some(name) = zone_name
        && zone(name).is_none()
    {
        let help = "write a name such as `Europe/Berlin`, or an offset such as `UTC+0200`".to_owned();
        problems.add(view.origin("zone"), format!("there is no time zone `{name}`"), Some(help));
    }
    let fields = entries(document, "field", problems);
    let is_record = settings.format != LogLineFormat::Text;
    let own = fields.iter().filter(|view| view.str("value").is_none()).filter_map(|view| view.str("name"));
    settings.fields = own.filter(|name| is_record || groups.contains(*name)).map(str::to_owned).collect();
    let prefix = prefix.map(str::to_owned);
    settings.patterns = LogPatterns { prefix, patterns, grok, grok_files, ignored, dates, lines };
    settings.envelope = view.str("envelope").and_then(LogEnvelope::named).unwrap_or_default();
    settings.zone = zone_name.map(str::to_owned);
    settings
}

/// The grok patterns that compile, and the texts of the files whose patterns they use.
fn grok(
    document: &Document,
    view: ConfigView<'_>,
    groups: &mut BTreeSet<String>,
    problems: &mut ConfigProblems,
) -> (Vec<String>, Vec<String>) {
    let (texts, files) = (view.strings("grok"), view.strings("grok_files"));
    for (key, count, most) in [("grok", texts.len(), GROK_MAX), ("grok_files", files.len(), GROK_FILES_MAX)] {
        if count > most {
            problems.add(view.origin(key), format!("more than {most} entries"), None);
        }
    }
    let files = files.into_iter().take(GROK_FILES_MAX);
    let files: Vec<String> =
        files.filter_map(|(file, _)| Some(document.list_file(&grok_key(file))?.text.clone())).collect();
    let library = grok_library(files.iter().map(String::as_str));
    let mut patterns = Vec::new();
    for (text, origin) in texts.into_iter().take(GROK_MAX) {
        match library.compile(text) {
            Ok(pattern) => {
                groups.extend(pattern.fields().map(str::to_owned));
                patterns.push(text.to_owned());
            }
            Err(error) => {
                let help =
                    "own patterns are named in files of `grok_files`: a name and a pattern in each line";
                problems.add(origin, error.to_string(), Some(help.to_owned()));
            }
        }
    }
    (patterns, files)
}

/// Refuses patterns for a pipeline that reads no log: whoever names one believes that it does something.
pub(super) fn refuse(document: &Document, problems: &mut ConfigProblems) {
    let Some(view) = section(document) else { return };
    let key = ["patterns", "grok", "format"].into_iter().find(|key| view.is_given(key)).unwrap_or("patterns");
    let help = "leave it out, or write `input = \"log\"` at the top".to_owned();
    problems.add(view.origin(key), "lines are read by [log] in logs only", Some(help));
}

#[cfg(test)]
mod tests {
    use logs::log_reader::LogPatterns;
    use logs::log_record::LogLineFormat;

    use crate::{Config, Overrides, Plan};

    fn compiled(log: &str, fields: &str) -> Result<logs::log_stream::LogSettings, String> {
        let text = format!("name = \"door\"\ninput = \"log\"\n\n[log]\n{log}\n{fields}");
        let plan = Plan::compile(&Config::from_text("door.toml", &text, &Overrides::default()));
        plan.map(|plan| plan.pipelines[0].log().expect("settings").clone())
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn grok_and_records_are_read_from_the_configuration() {
        let fields = "[[field]]\nname = \"door\"\ntype = \"string\"\n[[field]]\nname = \"a.b\"\ntype = \"integer\"\n\
                      [[field]]\nname = \"derived\"\ntype = \"string\"\nvalue = \"door\"\n";
        let grok = compiled("grok = ['^%{IP:ip} %{WORD:door}$']", fields).expect("grok");
        assert_eq!(
            (grok.patterns.grok.len(), grok.fields, grok.format),
            (1, vec!["door".to_owned()], LogLineFormat::Text)
        );
        let json =
            compiled("format = \"json\"\nmap = { ip = \"a.ip\", text = \"msg\" }", fields).expect("json");
        assert_eq!(
            (json.format, json.fields),
            (LogLineFormat::Json, vec!["door".to_owned(), "a.b".to_owned()])
        );
        assert_eq!((json.map.ip.as_deref(), json.map.text.as_deref()), (Some("a.ip"), Some("msg")));
        assert_eq!(json.patterns, LogPatterns { lines: 1, ..LogPatterns::default() });
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_place() {
        let check = |log: &str, expected: &str| {
            let problems = compiled(log, "").expect_err(log);
            assert!(problems.contains(expected) && problems.contains("door.toml:5"), "{log}: {problems}");
        };
        check("grok = ['^%{NOBODY:ip}$']", "there is no pattern `NOBODY`");
        check("grok = ['(']", "a group is not closed");
        check("grok_files = [\"none.grok\"]\ngrok = ['x']", "`none.grok` cannot be found");
        check("format = \"json\"", "nothing says whom a record is about");
        check("map = { ip = \"a\" }\npatterns = ['<HOST>']", "lines of text have no fields");
        check("format = \"xml\"", "xml");
        let none = compiled("prefix = 'x'", "").expect_err("no patterns");
        assert!(none.contains("there are none"), "{none}");
        let text = "name = \"web\"\ninput = \"json\"\n[log]\ngrok = ['x']\n";
        let problems = Plan::compile(&Config::from_text("web.toml", text, &Overrides::default())).err();
        let problems = problems.map(|problems| problems.to_string()).unwrap_or_default();
        assert!(problems.contains("web.toml:4"), "{problems}");
    }
}

//! fail2ban's own test logs, judged by its filters as Debian ships them: each line with what its label says of it.
//!
//! A label stands before its line: `# failJSON: { "time": "2005-01-23T21:59:59", "match": true , "host": "192.0.2.1" }`;
//! options of the filter before the lines that they are for: `# filterOptions: [{}, {"mode": "aggressive"}]`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use event::Time;
use jiff::tz::TimeZone;
use logs::date::DateContext;
use logs::fail2ban::Fail2banFiles;
use logs::fail2ban::filter::Fail2banFilter;
use logs::log_reader::{LineReading, LogLineReader, LogLineState};
use serde_json::{Map, Value};

/// The zone and the present of fail2ban's tests.
const ZONE: &str = "CET-01CEST-02,M3.5.0,M10.5.0";
const NOW: i64 = 1_124_013_600;
/// The share of labelled lines that must be judged as their labels say.
const SHARE_MIN: f64 = 0.95;

/// The folder that `scripts/mail-clients` has unpacked Debian's package into, or the root if it is installed.
fn package() -> Option<PathBuf> {
    let unpacked = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("mail-clients");
    let is_whole = |root: &PathBuf| {
        tests(root).join("files/logs/sshd").exists() && root.join("etc/fail2ban/filter.d/sshd.conf").exists()
    };
    [unpacked, PathBuf::from("/")].into_iter().find(is_whole)
}

fn tests(root: &Path) -> PathBuf {
    root.join("usr/lib/python3/dist-packages/fail2ban/tests")
}

fn read_files(folder: &Path) -> Fail2banFiles {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder.join("filter.d")).expect("filter.d") {
        let entry = entry.expect("entry");
        let name = entry.file_name().into_string().expect("name");
        if let Ok(text) = std::fs::read_to_string(entry.path()) {
            files.insert(format!("filter.d/{name}"), text);
        }
    }
    Fail2banFiles(files)
}

/// A filter under one set of options, with what it remembers of the log.
struct FilterUnderTest {
    reader: LogLineReader,
    state: LogLineState,
    is_journal: bool,
    prefix: String,
    mode: String,
}

fn filter(
    files: &Fail2banFiles,
    name: &str,
    options: &Map<String, Value>,
) -> Result<FilterUnderTest, String> {
    let given = options
        .iter()
        .filter(|(name, _)| !name.starts_with("test."))
        .map(|(name, value)| (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect();
    let filter =
        Fail2banFilter::read(files, name, &given, &BTreeMap::new()).map_err(|problem| problem.to_string())?;
    for problem in &filter.problems {
        println!("not taken: {problem}");
    }
    let is_journal = options.get("logtype").and_then(Value::as_str) == Some("journal");
    let prefix = options.get("test.prefix-line").and_then(Value::as_str).unwrap_or("").to_owned();
    let mode = options.get("mode").and_then(Value::as_str).unwrap_or("").to_owned();
    let reader = LogLineReader::new(&filter.patterns).map_err(|error| error.to_string())?;
    Ok(FilterUnderTest { reader, state: LogLineState::default(), is_journal, prefix, mode })
}

/// Counts of lines.
#[derive(Default)]
struct Tally {
    labelled: usize,
    labelled_right: usize,
    other: usize,
    other_right: usize,
    /// Labelled lines whose every label, names of users among them, is right.
    all_right: usize,
    wrong: Vec<String>,
}

/// Returns true if a label is for a filter: conditions are of its name or mode.
fn is_meant(condition: &str, name: &str, mode: &str) -> bool {
    match condition.split_whitespace().collect::<Vec<_>>()[..] {
        ["name", "==", text] => text == format!("'{name}'"),
        ["opts.get('mode')", "==", text] => text == format!("'{mode}'"),
        ["opts.get('mode')", "!=", text] => text != format!("'{mode}'"),
        _ => panic!("{condition}"),
    }
}

/// Judges a line under all options; says what is wrong.
fn judge(
    name: &str,
    filters: &mut [&mut FilterUnderTest],
    line: &str,
    label: &Map<String, Value>,
) -> (Result<(), String>, bool) {
    let context = DateContext { now: Time::from_seconds(NOW), zone: TimeZone::posix(ZONE).expect("zone") };
    let mut wrong = Ok(());
    let mut is_all_right = true;
    for filter in filters {
        if let Some(condition) = label.get("constraint").and_then(Value::as_str)
            && !is_meant(condition, name, &filter.mode)
        {
            continue;
        }
        let date = filter.is_journal.then_some(context.now);
        let text = if filter.is_journal { format!("{}{line}", filter.prefix) } else { line.to_owned() };
        let reading = filter.reader.read(&text, date, &context, &mut filter.state);
        let expected = label.get("match").and_then(Value::as_bool).unwrap_or(false);
        let event = match (reading, expected) {
            (LineReading::Event(event), true) => event,
            (LineReading::Event(event), false) => {
                wrong = Err(format!("matched by pattern {} for {}", event.pattern, event.id));
                continue;
            }
            (other, true) => {
                wrong = Err(format!("not matched: {other:?}"));
                continue;
            }
            (_, false) => continue,
        };
        if let Some(host) = label.get("host").and_then(Value::as_str)
            && host != event.id
        {
            wrong = Err(format!("host {} instead of {host}", event.id));
        }
        if let Some(time) = label.get("time").and_then(Value::as_str) {
            let civil = jiff::civil::DateTime::strptime("%Y-%m-%dT%H:%M:%S%.f", time).expect(time);
            let expected = civil.to_zoned(context.zone.clone()).expect("zoned").timestamp().as_microsecond();
            // Labels are of whole seconds, as fail2ban's times are.
            let second = event.time.0 - event.time.0.rem_euclid(1_000_000);
            if expected != event.time.0 && expected != second {
                wrong = Err(format!("time {} instead of {}", event.time, Time(expected)));
            }
        }
        for (name, value) in label {
            if matches!(
                name.as_str(),
                "time" | "match" | "desc" | "constraint" | "host" | "attempts" | "users" | "ip"
            ) {
                continue;
            }
            let field = event.fields.get(name.as_str()).map(String::as_str);
            let expected = value.as_str();
            if field != expected {
                println!("{name}: {field:?} instead of {expected:?} in: {line}");
                is_all_right = false;
            }
        }
    }
    let is_right = wrong.is_ok();
    (wrong, is_all_right && is_right)
}

fn judge_file(files: &Fail2banFiles, logs: &Path, name: &str, tally: &mut Tally) {
    let mut filters: BTreeMap<String, FilterUnderTest> = BTreeMap::new();
    let mut current: Vec<String> = Vec::new();
    let mut paths = vec![name.to_owned()];
    let mut index = 0;
    while let Some(path) = paths.get(index).cloned() {
        index += 1;
        let bytes = std::fs::read(logs.join(&path)).expect("log");
        let text = String::from_utf8_lossy(&bytes);
        let mut common = Map::new();
        let mut is_left_out = false;
        let mut lines = text.split('\n').enumerate();
        while let Some((number, line)) = lines.next() {
            let mut label = Map::new();
            let mut judged = line;
            let comment = line.strip_prefix('#').map(|rest| rest.trim_start_matches('#').trim_start());
            let directive = comment.and_then(|comment| comment.split_once(':'));
            match directive {
                Some(("failJSON", value)) => {
                    let Ok(value) = serde_json::from_str(value) else { panic!("{path}:{}", number + 1) };
                    label = value;
                    judged = lines.next().map_or("", |(_, line)| line);
                }
                Some(("fileOptions", value)) => {
                    common = serde_json::from_str(value).expect("options");
                    continue;
                }
                Some(("filterOptions", value)) => {
                    let value: Value = serde_json::from_str(value).expect("options");
                    let list = match value {
                        Value::Array(list) => list,
                        one => vec![one],
                    };
                    current.clear();
                    is_left_out = false;
                    for options in list {
                        let mut options_here = common.clone();
                        options_here.extend(options.as_object().cloned().unwrap_or_default());
                        if let Some(condition) = options_here.get("test.condition").and_then(Value::as_str) {
                            is_left_out = condition != format!("name=='{name}'");
                        }
                        let key = Value::Object(options_here.clone()).to_string();
                        filters
                            .entry(key.clone())
                            .or_insert_with(|| filter(files, name, &options_here).expect("filter"));
                        current.push(key);
                    }
                    continue;
                }
                Some(("addFILE", value)) => {
                    paths.push(serde_json::from_str(value).expect("name"));
                    continue;
                }
                _ if line.starts_with('#') || line.trim().is_empty() => continue,
                _ => {}
            }
            if is_left_out {
                continue;
            }
            if current.is_empty() {
                filters.insert("{}".to_owned(), filter(files, name, &Map::new()).expect("filter"));
                current.push("{}".to_owned());
            }
            let mut chosen: Vec<&mut FilterUnderTest> = filters
                .iter_mut()
                .filter(|(key, _)| current.contains(key))
                .map(|(_, filter)| filter)
                .collect();
            let (result, is_all_right) = judge(name, &mut chosen, judged.trim_end_matches('\r'), &label);
            if label.is_empty() {
                tally.other += 1;
                tally.other_right += usize::from(result.is_ok());
            } else {
                tally.labelled += 1;
                tally.labelled_right += usize::from(result.is_ok());
                tally.all_right += usize::from(is_all_right);
            }
            if let Err(reason) = result {
                tally.wrong.push(format!("{name} ({path}:{}): {reason}\n    {judged}", number + 1));
            }
        }
    }
}

#[test]
fn labelled_lines_are_judged_as_their_labels_say() {
    let Some(root) = package() else {
        println!(
            "skipped: labelled lines of fail2ban: its package is not installed, and scripts/mail-clients has not unpacked it"
        );
        return;
    };
    let mut tally = Tally::default();
    let mut filters = 0;
    for (folder, only) in [(root.join("etc/fail2ban"), ""), (tests(&root).join("config"), "zzz-")] {
        let mut files = read_files(&folder);
        // Filters of the tests include those of the package, by the way to them in its sources.
        for text in files.0.values_mut() {
            *text = text.replace("../../../../../../../config/filter.d/", "");
        }
        for (path, text) in read_files(&root.join("etc/fail2ban")).0 {
            files.0.entry(path).or_insert(text);
        }
        let names: Vec<String> = read_files(&folder).0.into_keys().collect();
        for path in names {
            let Some(name) = path.strip_prefix("filter.d/").and_then(|name| name.strip_suffix(".conf"))
            else {
                continue;
            };
            let logs = tests(&root).join("files/logs");
            if name.ends_with("common") || !name.starts_with(only) || !logs.join(name).is_file() {
                continue;
            }
            filters += 1;
            judge_file(&files, &logs, name, &mut tally);
        }
    }
    for wrong in &tally.wrong {
        println!("{wrong}");
    }
    let share = tally.labelled_right as f64 / tally.labelled as f64;
    println!(
        "{filters} filters: {} of {} labelled lines as their labels say ({:.2} %), {} with every field; {} of {} other lines",
        tally.labelled_right,
        tally.labelled,
        100.0 * share,
        tally.all_right,
        tally.other_right,
        tally.other
    );
    assert!(share >= SHARE_MIN, "{share}");
    assert!(tally.labelled > 500, "{}", tally.labelled);
}

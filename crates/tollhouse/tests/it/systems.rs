//! The published systems as configurations: `examples/systems`. A line of a script is a request, and what its answer must have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::Value;

use crate::program::{Data, Server, run};

/// A line of a script. `examples/systems/README.md` says what its members do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// The heading of the page under which the capability stands.
    shows: Option<String>,
    get: Option<String>,
    post: Option<String>,
    put: Option<String>,
    delete: Option<String>,
    #[serde(default)]
    send: Value,
    /// The number of requests, one after the other; the last one's answer is looked at.
    #[serde(default = "once")]
    repeat: usize,
    /// One request of so many lines.
    lines: Option<usize>,
    /// One request of so many rows, in Arrow columns.
    rows: Option<usize>,
    #[serde(default)]
    keep: BTreeMap<String, String>,
    #[serde(default = "success")]
    status: u16,
    #[serde(default)]
    expect: BTreeMap<String, Value>,
    /// The node ends, and starts again: `restart`, or `move` to another directory by a snapshot.
    node: Option<String>,
}

fn once() -> usize {
    1
}

fn success() -> u16 {
    200
}

/// A node with an example's configuration, and what its script has kept so far.
struct Stage {
    data: Data,
    folder: PathBuf,
    server: Option<Server>,
    agent: ureq::Agent,
    kept: BTreeMap<String, String>,
    /// The middle of the ten minutes before these, so that no bucket ends while a script runs.
    time: i64,
}

fn folder(system: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/systems").join(system)
}

impl Stage {
    fn new(system: &str) -> Stage {
        let data = Data::new(&["web"]);
        for file in std::fs::read_dir(folder(system)).unwrap() {
            let file = file.unwrap().path();
            let name = file.file_name().unwrap();
            if name != "README.md" && name != "script.ndjson" {
                std::fs::copy(&file, data.path().join(name)).unwrap();
            }
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        let folder = data.path();
        Stage {
            server: Some(Server::start(&folder, &[])),
            data,
            folder,
            agent: ureq::Agent::config_builder().http_status_as_error(false).build().into(),
            kept: BTreeMap::new(),
            time: now / 600 * 600 - 300,
        }
    }

    /// The text with the values of its `{names}`: `{n}`, what was kept, and times as in `{t-3d}`.
    fn fill(&self, text: &str, n: usize) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            filled.push_str(before);
            rest = after;
            let Some((name, behind)) = after.split_once('}') else {
                filled.push('{');
                continue;
            };
            let value = match name {
                "n" => Some(n.to_string()),
                _ if self.kept.contains_key(name) => self.kept.get(name).cloned(),
                _ => name.strip_prefix('t').and_then(seconds).map(|offset| {
                    let time = jiff::Timestamp::from_second(self.time + offset).unwrap();
                    time.to_string()
                }),
            };
            match value {
                Some(value) => {
                    filled.push_str(&value);
                    rest = behind;
                }
                None => filled.push('{'),
            }
        }
        filled + rest
    }

    fn fill_all(&self, value: &Value, n: usize) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text, n)),
            Value::Array(items) => items.iter().map(|item| self.fill_all(item, n)).collect(),
            Value::Object(members) => {
                members.iter().map(|(name, member)| (self.fill(name, n), self.fill_all(member, n))).collect()
            }
            other => other.clone(),
        }
    }

    fn request(&self, method: &str, path: &str, content_type: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
        let url = format!("{}{path}", self.server.as_ref().unwrap().url);
        let request = ureq::http::Request::builder().method(method).uri(url);
        let answer = if body.is_empty() {
            self.agent.run(request.body(()).unwrap())
        } else {
            self.agent.run(request.header("Content-Type", content_type).body(body).unwrap())
        };
        let mut answer = answer.unwrap();
        (answer.status().as_u16(), answer.body_mut().with_config().limit(1 << 28).read_to_vec().unwrap())
    }

    /// Takes a step; an error says what was not as the script expects.
    fn take(&mut self, step: &Step) -> Result<(), String> {
        match step.node.as_deref() {
            None => {}
            Some("restart") => self.restart(),
            Some("move") => self.move_away(),
            Some(other) => return Err(format!("`node` is `restart` or `move`, and not `{other}`")),
        }
        let paths = [("GET", &step.get), ("POST", &step.post), ("PUT", &step.put), ("DELETE", &step.delete)];
        let Some((method, path)) = paths.iter().find_map(|(method, path)| Some((method, path.as_ref()?)))
        else {
            return step.node.as_ref().map(drop).ok_or("a line has no request".to_owned());
        };
        let mut answer = Value::Null;
        for n in 0..step.repeat {
            let many = |count| (0..count).map(|n| self.fill_all(&step.send, n));
            let (content_type, body) = match (step.lines, step.rows) {
                (Some(count), _) => {
                    let lines: Vec<String> = many(count).map(|event| event.to_string()).collect();
                    ("application/x-ndjson", lines.join("\n").into_bytes())
                }
                (None, Some(count)) => (ARROW, columns(&many(count).collect::<Vec<Value>>())),
                (None, None) if step.send.is_null() => ("", Vec::new()),
                (None, None) => ("application/json", self.fill_all(&step.send, n).to_string().into_bytes()),
            };
            let (status, bytes) = self.request(method, &self.fill(path, n), content_type, body);
            let text = String::from_utf8_lossy(&bytes);
            if n + 1 == step.repeat && status != step.status {
                return Err(format!("status {status} in place of {}: {text}", step.status));
            }
            answer = match (step.lines, step.rows) {
                (Some(_), _) => {
                    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect()
                }
                (None, Some(_)) => objects(&bytes),
                (None, None) => {
                    serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.into_owned()))
                }
            };
        }
        for (name, path) in &step.keep {
            let value = find(&answer, path).ok_or(format!("{path} is not there"))?;
            self.kept.insert(name.clone(), value.as_str().map_or(value.to_string(), str::to_owned));
        }
        for (path, expected) in &step.expect {
            let found = find(&answer, &self.fill(path, 0));
            if !is_as_expected(found, expected) {
                let found = found.map_or("nothing".to_owned(), Value::to_string);
                let answer: String = answer.to_string().chars().take(2_000).collect();
                return Err(format!("{path} is {found}, and not {expected}: {answer}"));
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        assert_eq!(self.server.take().unwrap().end(Signal::TERM), Some(0));
    }

    fn restart(&mut self) {
        self.end();
        self.server = Some(Server::start(&self.folder, &[]));
    }

    /// The node's data go to another directory by a snapshot, as to another machine.
    fn move_away(&mut self) {
        let (status, answer) = self.request("POST", "/v1/snapshots", "", Vec::new());
        assert_eq!(status, 201);
        let name = serde_json::from_slice::<Value>(&answer).unwrap()["name"].as_str().unwrap().to_owned();
        self.end();
        let snapshot = self.folder.join("snapshots").join(name);
        let moved = self.data.path().with_file_name("moved");
        run([Path::new("restore"), &snapshot, Path::new("--data"), &moved], "").expect(0);
        self.folder = moved;
        self.server = Some(Server::start(&self.folder, &[]));
    }
}

const ARROW: &str = "application/vnd.apache.arrow.stream";

/// Events as an Arrow IPC stream: a column for each of their members, of texts or integers.
fn columns(events: &[Value]) -> Vec<u8> {
    let column = |(name, value): (&String, &Value)| {
        let cells = events.iter().map(|event| &event[name]);
        let column: ArrayRef = if value.is_string() {
            Arc::new(StringArray::from_iter_values(cells.map(|cell| cell.as_str().unwrap())))
        } else {
            Arc::new(Int64Array::from_iter_values(cells.map(|cell| cell.as_i64().unwrap())))
        };
        (name.clone(), column)
    };
    let columns: Vec<(String, ArrayRef)> = events[0].as_object().unwrap().iter().map(column).collect();
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut stream = Vec::new();
    let mut writer = StreamWriter::try_new(&mut stream, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    stream
}

/// The rows of an Arrow IPC stream as objects, with those columns that are counts or texts.
fn objects(stream: &[u8]) -> Value {
    let cell = |array: &ArrayRef, row| -> Option<Value> {
        let count = array.as_primitive_opt::<UInt64Type>().map(|counts| counts.value(row).into());
        count.or_else(|| Some(array.as_string_opt::<i32>()?.value(row).into()))
    };
    let batches = StreamReader::try_new(stream, None).unwrap().map(Result::unwrap);
    let objects = batches.flat_map(|batch| {
        let row = |row| {
            let columns = batch.schema_ref().fields().iter().zip(batch.columns());
            let cells = columns.filter(|(_, array)| !array.is_null(row));
            cells.filter_map(|(field, array)| Some((field.name().clone(), cell(array, row)?))).collect()
        };
        (0..batch.num_rows()).map(row).collect::<Vec<Value>>()
    });
    objects.collect()
}

/// Seconds of an offset such as `-3d` or `+40m`.
fn seconds(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    text[..text.len() - 1].parse::<i64>().ok().map(|number| number * unit)
}

/// The value at a path such as `/keys/kind=from/counts/seen/1d`: `kind=from` is the item whose `kind` is `from`.
fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/').skip(1).try_fold(value, |value, part| match (value, part.split_once('=')) {
        (Value::Array(items), Some((member, wanted))) => items.iter().find(|item| item[member] == wanted),
        (Value::Array(items), None) => items.get(part.parse::<usize>().ok()?),
        _ => value.get(part),
    })
}

/// Numbers are compared as such; `null` is what is not there, `{"min": …, "max": …}` a range, `{"contains": …}` a part.
fn is_as_expected(found: Option<&Value>, expected: &Value) -> bool {
    match (found, expected) {
        (None | Some(Value::Null), Value::Null) => true,
        (Some(Value::Number(found)), Value::Number(expected)) => found.as_f64() == expected.as_f64(),
        (Some(found), Value::Object(bounds)) if bounds.contains_key("contains") => match found {
            Value::String(text) => bounds["contains"].as_str().is_some_and(|part| text.contains(part)),
            Value::Array(items) => items.contains(&bounds["contains"]),
            _ => false,
        },
        (Some(Value::Number(found)), Value::Object(bounds)) => {
            let found = found.as_f64().unwrap();
            let bound = |name: &str| bounds.get(name).and_then(Value::as_f64);
            bound("min").is_none_or(|least| found >= least) && bound("max").is_none_or(|most| found <= most)
        }
        (Some(found), expected) => found == expected,
        (None, _) => false,
    }
}

/// Every line's answer is as expected, and every capability of the page has a line that can fail.
fn check(system: &str) {
    let page = std::fs::read_to_string(folder(system).join("README.md")).unwrap();
    let script = std::fs::read_to_string(folder(system).join("script.ndjson")).unwrap();
    let mut stage = Stage::new(system);
    let mut shown = BTreeSet::new();
    for (number, line) in script.lines().enumerate() {
        let step: Step =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{system}:{}: {error}", number + 1));
        if let Err(problem) = stage.take(&step) {
            panic!("{system}:{}: {line}\n{problem}", number + 1);
        }
        if let Some(heading) = step.shows {
            assert!(
                !step.expect.is_empty() || step.status != 200,
                "{system}:{}: nothing is expected",
                number + 1
            );
            shown.insert(heading);
        }
    }
    stage.end();
    let headings: BTreeSet<String> =
        page.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_owned).collect();
    assert_eq!(headings, shown, "{system}: headings of README.md beside what the script shows");
}

#[test]
fn a_shingler() {
    check("shingler");
}

#[test]
fn a_rate_limiter() {
    check("rate-limiter");
}

#[test]
fn an_antifraud_server() {
    check("antifraud");
}

#[test]
fn an_antispam_service() {
    check("antispam");
}

#[test]
fn reputations() {
    check("reputation");
}

//! Decisions and feedback that a server sends to Kafka and to NATS, though it is killed and the broker is away. The brokers are
//! those of the tests of `follow`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::follow::line;
use crate::program::{Data, Server};

/// The durability by which decisions are on disk before they are answered.
const SYNC: [&str; 2] = ["--set", "ledger.durability=sync"];
/// The time to wait for what must come, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(120);

/// The messages of a broker by their ids: each with its key, where it has one, and how often it was sent.
type Messages = BTreeMap<String, (Option<String>, Value, u32)>;

fn append(path: &Path, text: &str) {
    File::options().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn data_with(sinks: &str) -> Data {
    let data = Data::new(&["web"]);
    append(&data.path().join("tollhouse.toml"), &format!("\n{sinks}\n"));
    data
}

fn get(server: &Server, path: &str) -> String {
    ureq::get(format!("{}{path}", server.url)).call().unwrap().body_mut().read_to_string().unwrap()
}

fn status(server: &Server, number: usize) -> Value {
    let all: Value = serde_json::from_str(&get(server, "/v1/sinks")).unwrap();
    all["sinks"][number].clone()
}

#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Has so many events decided, and a word said of the last one; the ids of the decisions.
fn decide(server: &Server, count: i64) -> Vec<String> {
    let decide = |number: i64| {
        let url = format!("{}/v1/decide?pipeline=web", server.url);
        let sent = ureq::post(url).content_type("text/plain").send(line(number % 60, &format!("p{number}")));
        let answer = sent.unwrap().body_mut().read_to_string().unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["id"].as_str().unwrap().to_owned()
    };
    let ids: Vec<String> = (0..count).map(decide).collect();
    let word = json!({"id": ids.last(), "class": "bad"}).to_string();
    let said = ureq::post(format!("{}/v1/feedback", server.url)).content_type("application/json").send(word);
    assert_eq!(said.unwrap().status(), 200);
    ids
}

/// Adds a message to those that came before, of which one with the same id must say the same.
fn add(messages: &mut Messages, id: String, key: Option<String>, body: &[u8]) {
    let body: Value = serde_json::from_slice(body).unwrap();
    assert_eq!(body["id"], id.as_str());
    let known = messages.entry(id).or_insert_with(|| (key.clone(), body.clone(), 0));
    assert_eq!((&known.0, &known.1), (&key, &body), "two messages of one id");
    known.2 += 1;
}

/// Checks that a broker has all decisions and the words that were said of them.
fn check(messages: &Messages, decisions: &[String], words: usize) {
    let of = |kind: &'static str| messages.values().filter(move |(_, body, _)| body["type"] == kind);
    let sent: BTreeSet<&str> = of("decision").map(|(_, body, _)| body["id"].as_str().unwrap()).collect();
    let missing: Vec<&String> = decisions.iter().filter(|id| !sent.contains(id.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?} of {} decisions are missing", decisions.len());
    assert_eq!(of("feedback").count(), words);
    for (key, body, _) in messages.values() {
        let decision = if body["type"] == "decision" { &body["id"] } else { &body["decision"] };
        assert!(key.as_deref().is_none_or(|key| decision == key), "{key:?} {body}");
        assert_eq!(body["schema"], 1);
    }
    let (_, some, _) = of("decision").next().unwrap();
    assert_eq!((&some["pipeline"], &some["duplicate"]), (&"web".into(), &false.into()), "{some}");
    assert!(some["facts"].is_object() && some["action"].is_string() && some["time"].is_string(), "{some}");
}

/// Waits until a broker has so many decisions and words.
#[track_caller]
fn wait_for(server: &Server, messages: impl Fn() -> Messages, decisions: usize, words: usize) {
    let started = Instant::now();
    loop {
        let found = messages();
        let count = |kind: &str| found.values().filter(|(_, body, _)| body["type"] == kind).count();
        let counts = (count("decision"), count("feedback"));
        if counts == (decisions, words) {
            return;
        }
        assert!(
            started.elapsed() < PATIENCE,
            "{counts:?}, not {decisions} decisions and {words} words; {}\n{}",
            status(server, 0),
            server.said()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Kills the server and takes the broker away while decisions are made, and checks that the broker has all of them in the end.
fn survives(sink: &str, mut broker: impl FnMut(bool), messages: impl Fn() -> Messages) {
    let data = data_with(sink);
    let mut server = Server::start(&data.path(), &SYNC);
    let (mut ids, mut words) = (decide(&server, 30), 1);
    wait_for(&server, &messages, 30, 1);
    for round in 0..3 {
        if round == 1 {
            broker(false);
        }
        ids.extend(decide(&server, 20));
        words += 1;
        if round == 1 {
            wait_until("the fault", || status(&server, 0)["state"] == "failing");
            assert!(status(&server, 0)["lag"].as_u64() > Some(0), "{}", status(&server, 0));
        }
        let url = server.url.clone();
        server.end(Signal::KILL);
        if round == 1 {
            broker(true);
        }
        server = Server::start_again(&data.path(), &url, &SYNC);
        ids.extend(decide(&server, 5));
        words += 1;
    }
    wait_for(&server, &messages, ids.len(), words);
    check(&messages(), &ids, words);
    wait_until("no lag", || status(&server, 0)["lag"] == 0);
    let told = status(&server, 0);
    assert_eq!(
        (&told["state"], &told["gaps"], &told["name"]),
        (&"sending".into(), &0.into(), &"bus".into()),
        "{told}"
    );
    let metrics = get(&server, "/metrics");
    assert!(metrics.contains("tollhouse_sink_lag_records{sink=\"bus\"} 0"), "{metrics}");
    // What was sent and kept does not come again; what was decided at the end of a server comes before that ends.
    ids.extend(decide(&server, 3));
    assert_eq!(server.end(Signal::TERM), Some(0));
    check(&messages(), &ids, words + 1);
    let before: u32 = messages().values().map(|(_, _, times)| times).sum();
    let server = Server::start(&data.path(), &SYNC);
    ids.extend(decide(&server, 1));
    wait_for(&server, &messages, ids.len(), words + 2);
    assert_eq!(messages().values().map(|(_, _, times)| times).sum::<u32>(), before + 2);
    // Without positions a sink begins as a new one does, and a server says that they are missing.
    assert_eq!(server.end(Signal::TERM), Some(0));
    fs::remove_file(data.path().join("sinks.json")).unwrap();
    let server = Server::start(&data.path(), &SYNC);
    assert!(get(&server, "/readyz").contains("sinks.json"), "{}", get(&server, "/readyz"));
    ids.extend(decide(&server, 1));
    wait_for(&server, &messages, ids.len(), words + 3);
}

#[cfg(feature = "kafka")]
mod kafka {
    use krafka::testing::FakeBroker;
    use tokio::runtime::Runtime;

    use super::*;

    const TOPIC: &str = "decisions";

    fn sink(broker: &FakeBroker, more: &str) -> String {
        let address = broker.bootstrap_servers();
        format!(
            "[[sink]]\nname = \"bus\"\nkafka = {{ brokers = [\"{address}\"], topic = \"{TOPIC}\"{more} }}"
        )
    }

    fn messages(broker: &FakeBroker) -> Messages {
        let mut messages = Messages::new();
        for record in broker.all_records(TOPIC).unwrap() {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let id = record.headers.iter().find(|header| header.0 == "id").unwrap();
            let id = text(id.1.as_ref().unwrap());
            add(&mut messages, id, record.key.as_deref().map(text), record.value.as_deref().unwrap());
        }
        messages
    }

    fn broker(runtime: &Runtime) -> FakeBroker {
        let broker = runtime.block_on(FakeBroker::start()).unwrap();
        assert!(broker.create_topic(TOPIC, 3));
        broker
    }

    #[test]
    fn a_topic_gets_all_though_the_server_is_killed_and_the_broker_away() {
        let runtime = Runtime::new().unwrap();
        let broker = broker(&runtime);
        let turn = |is_there| if is_there { broker.restart(0) } else { broker.crash(0) };
        survives(&sink(&broker, ""), turn, || messages(&broker));
    }

    #[test]
    fn a_new_sink_begins_with_the_oldest_if_it_is_asked_to() {
        let runtime = Runtime::new().unwrap();
        let broker = broker(&runtime);
        let data = Data::new(&["web"]);
        let server = Server::start(&data.path(), &SYNC);
        let ids = decide(&server, 10);
        assert_eq!(server.end(Signal::TERM), Some(0));
        append(&data.path().join("tollhouse.toml"), &format!("\n{}\n", sink(&broker, "")));
        append(
            &data.path().join("tollhouse.toml"),
            "start = \"oldest\"\nwhat = [\"decisions\"]\nfacts = false\n",
        );
        let _server = Server::start(&data.path(), &SYNC);
        wait_until("all messages", || messages(&broker).len() == ids.len());
        let found = messages(&broker);
        assert!(ids.iter().all(|id| found[id].1["facts"].is_null()), "{found:?}");
    }
}

mod nats {
    use super::*;
    use crate::nats::Broker;

    #[test]
    fn a_stream_gets_all_though_the_server_is_killed_and_the_broker_away() {
        let Some(broker) = Broker::open() else { return };
        broker.make_stream();
        let url = broker.url();
        let sink =
            format!("[[sink]]\nname = \"bus\"\nnats = {{ servers = [\"{url}\"], subject = \"logs.a\" }}");
        let broker = std::cell::RefCell::new(broker);
        let turn = |is_there: bool| {
            if is_there { broker.borrow_mut().begin_again() } else { broker.borrow_mut().end() }
        };
        let messages = || {
            let mut messages = Messages::new();
            for (id, body) in broker.borrow().stored() {
                add(&mut messages, id, None, &body);
            }
            messages
        };
        survives(&sink, turn, messages);
    }
}

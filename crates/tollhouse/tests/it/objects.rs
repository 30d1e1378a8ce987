//! Decisions of two nodes in one place, and commands that read them there.

#![cfg(feature = "object-store")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json as object};

#[cfg(feature = "cluster")]
use crate::cluster::{node_with, wait_for_states};
use crate::moto_server::Moto;
#[cfg(feature = "cluster")]
use crate::program::run;
use crate::program::{Data, Server, corpus};
#[cfg(feature = "cluster")]
use crate::servers::Cluster;
#[cfg(feature = "cluster")]
use crate::shared_faults::Bucket;

/// A figure of a server's metrics.
pub(crate) fn metric(server: &Server, name: &str) -> Option<u64> {
    let text =
        ureq::get(format!("{}/metrics", server.url)).call().unwrap().into_body().read_to_string().unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("tollhouse_{name} ")))?;
    line.rsplit(' ').next()?.parse::<f64>().ok().map(|value| value as u64)
}

/// Waits until something comes true.
#[track_caller]
fn wait(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a server has uploaded all that it has, in so many segments or more.
#[track_caller]
fn wait_for_uploads(server: &Server, segments: u64) {
    wait("all is uploaded", || {
        metric(server, "journal_pending_bytes") == Some(0)
            && metric(server, "journal_uploads_total") >= Some(segments)
            && metric(server, "journal_upload_waiting") == Some(0)
    });
}

/// Sends a request; returns the status and the answer.
fn call(server: &Server, path: &str, body: Option<(&str, &str)>) -> (u16, String) {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let url = format!("{}{path}", server.url);
    let answer = match body {
        None => agent.get(url).call(),
        Some((kind, body)) => agent.post(url).content_type(kind).send(body),
    };
    let mut answer = answer.unwrap();
    (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
}

/// Sends a request; returns the status and the object that is the answer.
fn ask(server: &Server, path: &str, body: Option<&Value>) -> (u16, Value) {
    let body = body.map(Value::to_string);
    let (status, text) = call(server, path, body.as_deref().map(|body| ("application/json", body)));
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}")))
}

/// Decides on a request of an address; returns the decision's id.
fn decide(server: &Server, path: &str) -> String {
    let event =
        object!({"client.ip": "203.0.113.9", "http.path": path, "http.method": "GET", "http.status": 200});
    let (status, decision) = ask(server, "/v1/decide?pipeline=web&durability=sync", Some(&event));
    assert_eq!(status, 200, "{decision}");
    decision["id"].as_str().unwrap().to_owned()
}

fn explained(server: &Server, id: &str) -> (u16, Value) {
    ask(server, &format!("/v1/decisions/{id}"), None)
}

/// The part of an explanation that was decided.
fn decided(explanation: &Value) -> Vec<&Value> {
    let members =
        ["id", "pipeline", "version", "time", "facts", "keys", "score", "action", "reasons", "closest"];
    members.iter().map(|name| &explanation[name]).collect()
}

/// Complains of a decision; returns the status and the answer.
fn complain(server: &Server, id: &str) -> (u16, Value) {
    let complaint = object!({"id": id, "class": "complaint", "by": "ann@example.org"});
    ask(server, "/v1/feedback", Some(&complaint))
}

/// Complains of decisions together; returns the line of each.
fn complain_of_all(server: &Server, ids: &[&str]) -> Vec<Value> {
    let line =
        |id: &&str| format!("{}\n", object!({"id": id, "class": "complaint", "by": "ann@example.org"}));
    let lines: String = ids.iter().map(line).collect();
    let (status, text) = call(server, "/v1/feedback/batch", Some(("application/x-ndjson", &lines)));
    assert_eq!(status, 200, "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The complaints that are counted of the address.
fn complaints(server: &Server) -> u64 {
    let asked = object!({"pipeline": "web", "keys": [{"kind": "ip", "value": "203.0.113.9"}]});
    let (status, answer) = ask(server, "/v1/readings", Some(&asked));
    assert_eq!(status, 200, "{answer}");
    let windows = answer["keys"][0]["windows"].as_array().unwrap().iter();
    windows.filter_map(|window| window["counts"]["complaint"].as_u64()).max().unwrap_or(0)
}

fn detail(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["detail"].as_str().unwrap_or_default())
}

#[cfg(feature = "cluster")]
#[test]
fn a_node_that_is_lost_with_its_disk_is_answered_for_by_another() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let bucket = Bucket::new();
    let (addresses, environment) = (vec![cluster.servers[0].address()], bucket.environment());
    let (first, one) = node_with("web", &addresses, None, &environment);
    let (second, two) = node_with("web", &addresses, Some(&first), &environment);
    wait_for_states(&one, &["here", "ready"]);
    let ids: Vec<String> = ["/a", "/b", "/c"].iter().map(|path| decide(&two, path)).collect();
    let before: Vec<(u16, Value)> = ids.iter().map(|id| explained(&two, id)).collect();
    let (status, said) = complain(&two, &ids[0]);
    assert_eq!((status, &said["duplicate"]), (200, &false.into()), "{said}");
    wait_for_uploads(&two, 1);
    // What is decided last is nowhere else.
    bucket.take_away();
    let lost = decide(&two, "/lost");
    two.end(Signal::KILL);
    drop(second);
    bucket.bring_back();

    for (id, before) in ids.iter().zip(&before) {
        let (status, explanation) = explained(&one, id);
        assert_eq!((status, decided(&explanation)), (200, decided(&before.1)), "{explanation}");
    }
    assert_eq!(call(&one, &format!("/console/decisions/{}", ids[0]), None).0, 200);
    let shown = run(["explain", "--json", "--server", &one.url, &ids[0]], "").expect(0).json().remove(0);
    assert_eq!(decided(&shown), decided(&before[0].1));
    let answer = explained(&one, &lost);
    let (status, why) = detail(&answer);
    assert_eq!(status, 503, "{why}");
    for part in ["node 2", &bucket.url(), "does not have it either", "upload_every"] {
        assert!(why.contains(part), "{part}: {why}");
    }

    // What its node has counted counts once, and so does what is said again.
    let is_duplicate = |(status, said): (u16, Value)| {
        assert_eq!(status, 200, "{said}");
        said["duplicate"].as_bool().unwrap()
    };
    assert!(is_duplicate(complain(&one, &ids[0])));
    assert!(!is_duplicate(complain(&one, &ids[1])));
    assert!(is_duplicate(complain(&one, &ids[1])));
    assert_eq!(detail(&complain(&one, &lost)).0, 503);
    let nobodys = "1m8bng5f00009";
    let lines = complain_of_all(&one, &[&ids[1], &lost, &ids[2], nobodys, "none", &ids[2]]);
    let told: Vec<(u64, bool)> = lines
        .iter()
        .map(|line| (line["error"]["status"].as_u64().unwrap_or(200), line["duplicate"] == true))
        .collect();
    let expected = [(200, true), (503, false), (200, false), (404, false), (400, false), (200, true)];
    assert_eq!(told, expected, "{lines:?}");
    assert!(lines[1]["error"]["detail"].as_str().unwrap().contains(&bucket.url()), "{}", lines[1]);
    wait("three complaints are counted", || {
        let counted = complaints(&one);
        assert!(counted <= 3, "{counted}");
        counted == 3
    });

    // Nor does it matter that nobody knows the node any more.
    wait_for_states(&one, &["here", "away"]);
    run(["nodes", "forget", "2", "--server", &one.url], "").expect(0);
    assert_eq!(explained(&one, &ids[0]).0, 200);
    assert!(is_duplicate(complain(&one, &ids[2])));
    let answer = explained(&one, &lost);
    let (status, why) = detail(&answer);
    assert!(status == 404 && why.contains(&bucket.url()), "{status} {why}");
    // What cannot be asked has not said that it has nothing.
    bucket.take_away();
    let answer = explained(&one, &ids[0]);
    let (status, why) = detail(&answer);
    assert!(
        status == 503 && why.contains("cannot be asked") && why.contains(&bucket.url()),
        "{status} {why}"
    );
    assert_eq!(detail(&complain(&one, &ids[0])).0, 503);
    bucket.bring_back();
    assert_eq!(explained(&one, &ids[0]).0, 200);
}

#[test]
fn a_node_answers_for_what_its_journal_no_longer_keeps() {
    let parent = tempfile::tempdir().unwrap();
    let place = parent.path().join("bucket");
    std::fs::create_dir(&place).unwrap();
    let url = format!("file://{}", place.display());
    let upload = [format!("--set=journal.upload={url}"), "--set=journal.upload_every=1s".to_owned()];
    let mut settings: Vec<&str> = upload.iter().map(String::as_str).collect();
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &settings);
    let old = decide(&server, "/old");
    let before = explained(&server, &old).1;
    wait_for_uploads(&server, 1);
    decide(&server, "/new");
    wait_for_uploads(&server, 2);
    assert_eq!(server.end(Signal::TERM), Some(0));

    settings.push("--set=journal.keep=1s");
    let server = Server::start(&data.path(), &settings);
    wait("the journal has it no more", || data.run(&["explain", &old], "").code != 0);
    let (status, explanation) = explained(&server, &old);
    assert_eq!((status, decided(&explanation)), (200, decided(&before)), "{explanation}");
    for duplicate in [false, true] {
        let (status, said) = complain(&server, &old);
        assert_eq!((status, &said["duplicate"]), (200, &duplicate.into()), "{said}");
    }
    assert_eq!(complain_of_all(&server, &[&old])[0]["duplicate"], true);
    assert_eq!(complaints(&server), 1);
    let answer = explained(&server, "1m8bng5f00009");
    let (status, why) = detail(&answer);
    assert!(status == 404 && why.contains(&url), "{status} {why}");

    // A node that does not share its statistics explains it, and counts nothing of it.
    let other = Data::new(&["web"]);
    std::fs::copy(data.path().join("secret"), other.path().join("secret")).unwrap();
    let other = Server::start(&other.path(), &settings);
    let (status, explanation) = explained(&other, &old);
    assert_eq!((status, decided(&explanation)), (200, decided(&before)), "{explanation}");
    let answer = complain(&other, &old);
    let (status, why) = detail(&answer);
    assert!(status == 422 && why.contains("does not share its statistics"), "{status} {why}");
    assert_eq!(complain_of_all(&other, &[&old])[0]["error"]["status"], 422);
    assert_eq!(complaints(&other), 0);
}

#[test]
fn the_decisions_of_two_nodes_are_read_together() {
    let parent = tempfile::tempdir().unwrap();
    let place = |name: &str| {
        let place = parent.path().join(name);
        std::fs::create_dir(&place).unwrap();
        format!("file://{}", place.display())
    };
    are_read_together(&place("bucket"), &place("empty"));
}

#[test]
fn the_decisions_of_two_nodes_are_read_together_from_a_server() {
    const INSIDE: &str = "TOLLHOUSE_TEST_JOURNALS";
    if std::env::var_os(INSIDE).is_some() {
        return are_read_together("s3://tollhouse/some/where", "s3://tollhouse/empty");
    }
    let Some(moto) = Moto::start() else { return };
    moto.run_again("objects::the_decisions_of_two_nodes_are_read_together_from_a_server", INSIDE);
}

fn ids_of<'a>(rows: impl IntoIterator<Item = &'a Value>) -> BTreeSet<&'a str> {
    rows.into_iter().map(|row| row["id"].as_str().unwrap()).collect()
}

fn are_read_together(url: &str, empty: &str) {
    let settings = [format!("--set=journal.upload={url}"), "--set=journal.upload_every=1s".to_owned()];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let [one, other] = [Data::new(&["mail"]), Data::new(&["mail"])];
    // Nodes of one system have one secret.
    std::fs::copy(one.path().join("secret"), other.path().join("secret")).unwrap();
    let mut ids: Vec<String> = Vec::new();
    for (data, count) in [(&one, 3), (&other, 2)] {
        let server = Server::start(&data.path(), &settings);
        let messages = std::fs::read(corpus("mail.mbox")).unwrap();
        let messages = String::from_utf8_lossy(&messages);
        let messages = messages.split("\nFrom ").skip(1).filter_map(|it| it.split_once('\n')).take(count);
        for (_, message) in messages {
            let answer = ureq::post(format!("{}/v1/decide", server.url))
                .header("content-type", "message/rfc822")
                .send(message)
                .unwrap();
            let answer: Value = serde_json::from_str(&answer.into_body().read_to_string().unwrap()).unwrap();
            ids.push(answer["id"].as_str().unwrap().to_owned());
        }
        let report = format!("{}/v1/feedback", server.url);
        let body = serde_json::json!({ "id": ids.last().unwrap(), "class": "spam" }).to_string();
        ureq::post(report).header("content-type", "application/json").send(&body).unwrap();
        wait_for_uploads(&server, 1);
        assert_eq!(metric(&server, "journal_upload_lag_seconds"), Some(0));
        assert_eq!(server.end(Signal::TERM), Some(0));
    }
    let rows = one.run(&["export", "--journal", url], "").expect(0).json();
    assert_eq!(ids_of(&rows), ids.iter().map(String::as_str).collect());
    let labelled = rows.iter().filter(|row| row["label"] == "spam").count();
    assert_eq!(labelled, 2);
    for id in &ids {
        let told = one.run(&["explain", "--journal", url, "--json", id], "").expect(0).json().remove(0);
        assert_eq!(told["id"], id.as_str());
        assert!(told["facts"].as_object().is_some_and(|facts| facts.len() > 10), "{told}");
    }
    let missing = one.run(&["explain", "--journal", url, "0000000000000"], "").expect(2);
    assert!(missing.stderr.contains("no node has uploaded the decision"), "{}", missing.stderr);
    let report = one.run(&["backtest", "--journal", url, "--json"], "").expect(0).json().remove(0);
    assert_eq!((report["rows"].as_u64(), report["labelled"].as_u64()), (Some(5), Some(2)), "{report}");
    // What is erased is gone from there, whichever node has decided it.
    let from = rows[0]["mail.from"].as_str().unwrap();
    one.run(&["erase", "--key", &format!("from={from}"), "--journal", url], "").expect(0);
    let left = one.run(&["export", "--journal", url], "").expect(0).json();
    let others = rows.iter().filter(|row| row["mail.from"] != from);
    assert_eq!(ids_of(&left), ids_of(others));
    // Where nothing is.
    let empty = one.run(&["export", "--journal", empty], "").expect(2);
    assert!(empty.stderr.contains("no node has uploaded anything"), "{}", empty.stderr);
}

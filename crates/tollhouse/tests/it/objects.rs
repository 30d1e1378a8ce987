//! Decisions of two nodes in one place, and commands that read them there.

#![cfg(feature = "object-store")]

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::program::{Data, Server, corpus};

/// A figure of a server's metrics.
pub(crate) fn metric(server: &Server, name: &str) -> Option<u64> {
    let text =
        ureq::get(format!("{}/metrics", server.url)).call().unwrap().into_body().read_to_string().unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("tollhouse_{name} ")))?;
    line.rsplit(' ').next()?.parse::<f64>().ok().map(|value| value as u64)
}

#[test]
fn the_decisions_of_two_nodes_are_read_together() {
    let parent = tempfile::tempdir().unwrap();
    let place = parent.path().join("bucket");
    std::fs::create_dir(&place).unwrap();
    let url = format!("file://{}", place.display());
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
        let start = Instant::now();
        let is_done = || {
            metric(&server, "journal_pending_bytes") == Some(0)
                && metric(&server, "journal_uploads_total") > Some(0)
                && metric(&server, "journal_upload_waiting") == Some(0)
        };
        while !is_done() {
            assert!(start.elapsed() < Duration::from_secs(120), "{}", server.said());
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(metric(&server, "journal_upload_lag_seconds"), Some(0));
        assert_eq!(server.end(Signal::TERM), Some(0));
    }
    let rows = one.run(&["export", "--journal", &url], "").expect(0).json();
    let mut found: Vec<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    found.sort_unstable();
    ids.sort_unstable();
    assert_eq!(found, ids);
    let labelled = rows.iter().filter(|row| row["label"] == "spam").count();
    assert_eq!(labelled, 2);
    for id in &ids {
        let told = one.run(&["explain", "--journal", &url, "--json", id], "").expect(0).json().remove(0);
        assert_eq!(told["id"], id.as_str());
        assert!(told["facts"].as_object().is_some_and(|facts| facts.len() > 10), "{told}");
    }
    let missing = one.run(&["explain", "--journal", &url, "0000000000000"], "").expect(2);
    assert!(missing.stderr.contains("no node has uploaded the decision"), "{}", missing.stderr);
    let report = one.run(&["backtest", "--journal", &url, "--json"], "").expect(0).json().remove(0);
    assert_eq!((report["rows"].as_u64(), report["labelled"].as_u64()), (Some(5), Some(2)), "{report}");
    // Where nothing is.
    let empty = parent.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let empty = one.run(&["export", "--journal", &format!("file://{}", empty.display())], "").expect(2);
    assert!(empty.stderr.contains("no node has uploaded anything"), "{}", empty.stderr);
}

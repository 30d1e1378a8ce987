//! A machine's clock that is wrong for a while, by `libfaketime`.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::program::{Data, Server, run_with};

/// Debian's package `faketime` has it, in a directory of the machine's kind.
pub(crate) fn library() -> Option<String> {
    let directories = std::fs::read_dir("/usr/lib").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found = directories.map(|path| path.join("faketime/libfaketime.so.1"));
    let found = found.find(|path| path.exists()).map(|path| path.display().to_string());
    if found.is_none() {
        println!("skipped: a clock that is wrong for a while: Debian's package `faketime` is not installed");
    }
    found
}

/// Returns the environment of a process whose clock is off by what is in a file, which can be written anew while it runs.
pub(crate) fn environment(library: &str, file: &Path) -> Vec<(String, String)> {
    let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    vec![
        of("LD_PRELOAD", library),
        of("FAKETIME_TIMESTAMP_FILE", &file.display().to_string()),
        of("FAKETIME_NO_CACHE", "1"),
        of("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ]
}

fn data() -> Data {
    let data = Data::new(&["web"]);
    let path = data.path().join("tollhouse.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let limit =
        "\n[[limit]]\nname = \"few\"\nkey = [\"user\"]\ncount = 5\nper = \"2s\"\ncounts = \"allowed\"\n";
    std::fs::write(&path, text + limit).unwrap();
    data
}

/// The status of so many takes, one after the other.
fn take(server: &Server, agent: &ureq::Agent, count: usize) -> Vec<u16> {
    let url = format!("{}/v1/limits/few/take", server.url);
    let one = |_| {
        let answer = agent.post(&url).header("content-type", "application/json");
        answer.send("{\"key\": {\"user\": \"ann\"}}").unwrap().status().as_u16()
    };
    (0..count).map(one).collect()
}

fn decide(server: &Server, agent: &ureq::Agent) {
    let url = format!("{}/v1/decide?pipeline=web", server.url);
    let body = r#"{"client.ip":"192.0.2.9","http.path":"/x","http.method":"GET","http.status":200}"#;
    let answer = agent.post(&url).header("content-type", "application/json").send(body).unwrap();
    assert_eq!(answer.status().as_u16(), 200);
}

/// Returns true if `/readyz` lists the condition.
fn doubts(server: &Server, agent: &ureq::Agent) -> bool {
    let text = agent.get(format!("{}/readyz", server.url)).call().unwrap();
    text.into_body().read_to_string().unwrap().contains("clock-jump")
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("it does not come to be that {what}");
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().into()
}

#[test]
fn a_clock_that_is_ahead_for_some_seconds_costs_nothing() {
    let Some(library) = library() else { return };
    let (data, agent) = (data(), agent());
    let clock = data.path().parent().unwrap().join("clock");
    std::fs::write(&clock, "+0").unwrap();
    let server = Server::start_in(&data.path(), &environment(&library, &clock), &[]);
    (0..20).for_each(|_| decide(&server, &agent));
    assert!(!doubts(&server, &agent));
    std::fs::write(&clock, "+400d").unwrap();
    until("the jump is noticed", || doubts(&server, &agent));
    (0..20).for_each(|_| decide(&server, &agent));
    assert!(take(&server, &agent, 6).contains(&429), "limits hold meanwhile");
    std::fs::write(&clock, "+0").unwrap();
    until("the clock is believed again", || !doubts(&server, &agent));
    until("the limit is open again", || take(&server, &agent, 1) == [200]);
    decide(&server, &agent);
    assert_eq!(server.end(Signal::TERM), Some(0));
    let rows = data.run(&["export", "--format", "ndjson"], "").expect(0).stdout;
    assert_eq!(rows.lines().count(), 41, "the journal is there");
    data.run(&["verify"], "").expect(0);
}

#[test]
fn what_a_clock_has_left_in_the_future_is_named_and_let_go_of() {
    let Some(library) = library() else { return };
    let (data, agent) = (data(), agent());
    let clock = data.path().parent().unwrap().join("clock");
    // Wrong from the beginning: there is nothing yet that it could be compared with.
    std::fs::write(&clock, "+400d").unwrap();
    let ahead = environment(&library, &clock);
    let server = Server::start_in(&data.path(), &ahead, &[]);
    decide(&server, &agent);
    assert!(take(&server, &agent, 8).contains(&429));
    assert_eq!(server.end(Signal::TERM), Some(0));
    let said = |ran: &crate::program::Ran| {
        let line: Value = serde_json::from_str(ran.stdout.lines().next().unwrap()).unwrap();
        line["damage"].to_string()
    };
    let found = data.run(&["verify", "--json"], "").expect(1);
    assert!(said(&found).contains("keys had their newest event up to 57 weeks ahead"), "{}", said(&found));
    let path = data.path();
    let args = ["verify", "--json", "--data", path.to_str().unwrap()];
    let by_the_clock = run_with(&ahead, &args).expect(0);
    assert_eq!(said(&by_the_clock), "[]", "by a clock that is ahead itself nothing is");
    let repaired = data.run(&["verify", "--repair", "--json"], "").expect(0);
    assert_eq!(said(&repaired), "[]");
    assert!(repaired.stderr.contains("keys were let go of"), "{}", repaired.stderr);
    data.run(&["verify"], "").expect(0);
    let server = Server::start(&data.path(), &[]);
    assert_eq!(take(&server, &agent, 1), [200], "the limit is open");
    assert_eq!(server.end(Signal::TERM), Some(0));
}

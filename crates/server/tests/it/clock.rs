//! A wall clock that jumps, under a server: nothing is lost by it, and it is told.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::Directory;
use event::{Span, Time};
use serde_json::Value;
use server::{Clock, ClockSource};

use crate::harness::{JSON, NOW, TestServer, configure, directory, start_by};

/// Clocks that a test sets.
#[derive(Clone, Default)]
struct Clocks(Arc<Mutex<(Time, Span)>>);

impl ClockSource for Clocks {
    fn wall(&self) -> Time {
        self.both().0
    }

    fn passed(&self) -> Span {
        self.both().1
    }

    fn both(&self) -> (Time, Span) {
        *self.0.lock().unwrap()
    }
}

impl Clocks {
    fn set(&self, wall: Time, passed: Span) {
        *self.0.lock().unwrap() = (wall, passed);
    }

    fn start(&self, directory: &Directory) -> TestServer {
        let clocks = self.clone();
        let settings = [("journal.keep", "1d"), ("ledger.durability", "sync")];
        start_by(directory, &settings, |engine| Clock::of(clocks, engine.newest_decision()))
    }
}

/// The detail of the condition, if it stands.
fn doubt(server: &TestServer) -> Option<String> {
    let answer = server.get("/readyz");
    assert_eq!(answer.status, 200, "{}", answer.body);
    let answer = answer.json();
    let conditions = answer["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["name"] == "clock-jump")?;
    Some(found["detail"].as_str().unwrap().to_owned())
}

/// Waits until the server has looked at its clocks and doubts them, or does not.
fn wait(server: &TestServer, is_doubtful: bool) -> String {
    loop {
        let doubt = doubt(server);
        if doubt.is_some() == is_doubtful {
            return doubt.unwrap_or_default();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn take(server: &TestServer, user: &str) -> (bool, Time) {
    let body = format!("{{\"key\": {{\"user\": \"{user}\"}}}}");
    let answer = server.post("/v1/limits/api/take", &[JSON], &body).json();
    let state = if answer["limits"].is_array() { &answer } else { &answer["answer"] };
    let time: Time = state["time"].as_str().unwrap().parse().unwrap();
    (state["allowed"].as_bool().unwrap(), time)
}

fn decide(server: &TestServer) -> Value {
    server.post("/v1/decide", &[crate::harness::MAIL], crate::harness::MESSAGE).json()
}

fn journal(path: &Path) -> Vec<String> {
    let files = std::fs::read_dir(path.join("journal")).unwrap();
    let mut names: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const LIMIT: &str =
    "\n[[limit]]\nname = \"api\"\nkey = [\"user\"]\ncount = 3\nper = \"1m\"\ncounts = \"allowed\"\n";

#[test]
fn a_wall_clock_that_jumps_moves_nothing_and_is_told() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    configure(&directory, LIMIT);
    let clocks = Clocks::default();
    clocks.set(NOW, Span::hours(5));
    let server = clocks.start(&directory);
    assert_eq!(doubt(&server), None);
    let mut seconds = 0;
    for (jump, text) in [
        (Span::days(400), "400d ahead of the time that has passed"),
        (Span(-NOW.0 - Span::days(1).0), "behind the time"),
    ] {
        let now = NOW + Span::seconds(seconds);
        let passed = |by: i64| Span(Span::hours(5).0 + Span::seconds(seconds + by).0);
        for allowed in [true, true, true, false] {
            assert_eq!(take(&server, "ann"), (allowed, now));
        }
        let before = decide(&server);
        clocks.set(now + jump, passed(0));
        let told = wait(&server, true);
        assert!(told.contains(text), "{told}");
        assert!(server.get("/metrics").body.contains("tollhouse_condition{name=\"clock-jump\""));
        // Time goes on as it passes.
        assert_eq!(take(&server, "ann"), (false, now), "{told}");
        assert_eq!(take(&server, "bob"), (true, now), "{told}");
        assert_eq!(decide(&server)["time"], before["time"]);
        assert!(server.get("/").header("date").is_some(), "{told}");
        let id = before["id"].as_str().unwrap();
        assert_eq!(server.get(&format!("/v1/decisions/{id}")).status, 200);
        // It is right again.
        clocks.set(now + Span::seconds(62), passed(62));
        wait(&server, false);
        assert_eq!(take(&server, "ann"), (true, now + Span::seconds(62)));
        seconds += 200;
        clocks.set(NOW + Span::seconds(seconds), Span(Span::hours(5).0 + Span::seconds(seconds).0));
    }
    server.stop();
}

#[test]
fn a_server_that_starts_with_a_wrong_clock_deletes_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let directory = directory(&path);
    configure(&directory, LIMIT);
    let clocks = Clocks::default();
    clocks.set(NOW, Span::ZERO);
    // Several segments, of which all but the last are closed.
    for _ in 0..3 {
        let server = clocks.start(&directory);
        decide(&server);
        server.stop();
    }
    let before = journal(&path);
    for days in [40_000, -40_000] {
        // In time that passes nothing is known of how long it was switched off.
        clocks.set(NOW + Span::days(days), Span::ZERO);
        let server = clocks.start(&directory);
        let told = wait(&server, true);
        assert!(told.contains("the newest decision on disk"), "{told}");
        assert!(server.get("/").header("date").is_some());
        assert!(take(&server, "ann").0);
        server.stop();
        let after = journal(&path);
        assert!(before.iter().all(|name| after.contains(name)), "{before:?} {after:?}");
    }
    // One that is not corrected for long enough is believed.
    clocks.set(NOW + Span::days(40_000), Span::ZERO);
    let server = clocks.start(&directory);
    wait(&server, true);
    clocks.set(NOW + Span::days(40_000) + server::STEADY, server::STEADY);
    wait(&server, false);
    assert_eq!(take(&server, "bob"), (true, NOW + Span::days(40_000) + server::STEADY));
    server.stop();
}

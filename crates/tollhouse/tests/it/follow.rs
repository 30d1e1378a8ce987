//! A log that grows, is rotated and truncated, to a server that may be away.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{Data, Server, run};

fn line(second: u32, path: &str) -> String {
    format!(
        "192.0.2.7 - - [17/May/2026:09:59:{second:02} +0000] \"GET /{path} HTTP/1.1\" 200 1 \"-\" \"Mozilla/5.0\"\n"
    )
}

fn append(path: &Path, text: &str) {
    File::options().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// How often the address was seen on that day.
fn seen(server: &Server) -> u64 {
    let ran = run(["stats", "--json", "ip", "192.0.2.7", "--server", &server.url], "");
    let known = ran.expect(0).json();
    let tiers = known[0]["tiers"].as_array().cloned().unwrap_or_default();
    let buckets = tiers.iter().flat_map(|tier| tier["buckets"].as_array().cloned().unwrap_or_default());
    buckets.map(|bucket| bucket["counts"]["seen"].as_u64().unwrap_or(0)).sum()
}

#[track_caller]
fn wait(server: &Server, count: u64) {
    let started = Instant::now();
    loop {
        let found = seen(server);
        if found == count {
            return;
        }
        assert!(
            started.elapsed() < Duration::from_secs(60) && found < count,
            "{found} were seen, not {count}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn follow(server: &Server, log: &Path, position: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tollhouse"))
        .args(["follow", "--server", &server.url, "--position"])
        .args([position, log])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn end(mut child: Child, signal: Signal) {
    kill_process(Pid::from_child(&child), signal).unwrap();
    child.wait().unwrap();
}

#[test]
fn rotations_and_restarts_lose_and_repeat_nothing() {
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let parent = tempfile::tempdir().unwrap();
    let (log, position) = (parent.path().join("access.log"), parent.path().join("position"));
    append(&log, &(line(1, "a") + &line(2, "b")));
    let child = follow(&server, &log, &position);
    wait(&server, 2);
    append(&log, &line(3, "c"));
    wait(&server, 3);
    // Renamed away, with a last line that comes late.
    let rotated = parent.path().join("access.log.1");
    fs::rename(&log, &rotated).unwrap();
    append(&rotated, &line(4, "d"));
    append(&log, &line(5, "e"));
    wait(&server, 5);
    // Killed, and rotated while nobody looks.
    end(child, Signal::KILL);
    append(&log, &line(6, "f"));
    fs::rename(&log, &rotated).unwrap();
    append(&log, &line(7, "g"));
    let child = follow(&server, &log, &position);
    wait(&server, 7);
    // Truncated, as `copytruncate` does it.
    fs::write(&log, line(8, "h")).unwrap();
    wait(&server, 8);
    end(child, Signal::TERM);
    // A position that was lost: all that is in the file is sent again, and counts once.
    fs::remove_file(&position).unwrap();
    let position = position.to_str().unwrap();
    let log = log.to_str().unwrap();
    run(["follow", "--once", "--server", &server.url, "--position", position, log], "").expect(0);
    assert_eq!(seen(&server), 8);
}

#[test]
fn pipes_and_json_logs_are_followed() {
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let caddy = r#"{"ts":1779011990.5,"request":{"client_ip":"192.0.2.7","proto":"HTTP/2.0","method":"GET","host":"a.example","uri":"/.env","headers":{"User-Agent":["curl/8.0"]}},"size":1,"status":404}"#;
    let ran = run(["follow", "--json", "--server", &server.url, "-"], &format!("{caddy}\nnothing\n"));
    let ran = ran.expect(0);
    let decisions = ran.json();
    assert_eq!(decisions.len(), 1, "{}", ran.stdout);
    assert!(decisions[0]["reasons"].to_string().contains("PROBE"), "{}", ran.stdout);
    assert!(ran.stderr.contains("1 events, 1 lines that were none"), "{}", ran.stderr);
    assert_eq!(seen(&server), 1);
}

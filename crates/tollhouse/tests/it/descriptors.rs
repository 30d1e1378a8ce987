//! A server with few file descriptors, of which connections that say nothing want all.

use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;

use crate::program::{Data, Server};

/// Descriptors of the server.
const FILES: u32 = 64;
/// Connections of the stranger.
const IDLE: usize = 128;

/// Decides on so many requests of new addresses, and returns the status.
fn decide(server: &Server, agent: &ureq::Agent, from: usize) -> u16 {
    let line = |number: usize| {
        let [a, b, c, _] = (number as u32).to_le_bytes();
        format!(
            "{{\"client.ip\": \"10.{c}.{b}.{a}\", \"http.path\": \"/{number}\", \"http.method\": \"GET\"}}\n"
        )
    };
    let lines: String = (from..from + 500).map(line).collect();
    let url = format!("{}/v1/decide/batch?pipeline=web", server.url);
    let answer = agent.post(&url).header("content-type", "application/x-ndjson").send(lines);
    let answer = answer.unwrap();
    assert!(!answer.into_body().read_to_string().unwrap().contains("\"error\""), "from {from}");
    200
}

#[test]
fn idle_connections_cost_files_nothing() {
    let data = Data::new(&["web"]);
    // Every batch needs new files.
    let tiny =
        ["ledger.durability=sync", "ledger.segment=1MiB", "journal.segment=64KiB", "ledger.memory=64MiB"];
    let tiny: Vec<&str> = tiny.iter().flat_map(|setting| ["--set", setting]).collect();
    let server = Server::start_with_files(&data.path(), FILES, &tiny);
    let agent: ureq::Agent = ureq::Agent::config_builder().max_idle_connections(1).build().into();
    let segments = || {
        let names = std::fs::read_dir(data.path().join("journal")).unwrap();
        names.filter(|name| name.as_ref().unwrap().file_name() != "LOCK").count()
    };
    assert_eq!(decide(&server, &agent, 0), 200);
    let (address, before) = (server.url.strip_prefix("http://").unwrap().parse().unwrap(), segments());
    // More than the server may have; those beyond its share are closed by it, or wait in the system's queue.
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
    let idle: Vec<TcpStream> = (0..IDLE).filter_map(connect).collect();
    assert!(!idle.is_empty());
    for round in 1..20 {
        assert_eq!(decide(&server, &agent, 500 * round), 200);
    }
    assert!(segments() > before, "the test is about new segments");
    drop(idle);
    // Connections that are gone are noticed soon.
    while agent.get(format!("{}/readyz", server.url)).call().is_err() {
        sleep(Duration::from_millis(20));
    }
    assert_eq!(decide(&server, &agent, 10_000), 200);
    assert!(!server.said().contains("Too many open files"), "{}", server.said());
    assert_eq!(server.end(Signal::TERM), Some(0));
}

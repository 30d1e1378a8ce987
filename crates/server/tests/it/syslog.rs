//! Syslog within TLS, and who may send it.

use std::io::Write;
use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::authority::TestAuthority;
use crate::clients::fed;
use crate::harness::{PROBE, TestServer, with_server};

/// The first source, as the server tells it.
fn status(running: &TestServer) -> Value {
    running.get("/v1/sources").json()["sources"][0].clone()
}

#[track_caller]
fn wait_for(running: &TestServer, name: &str, count: u64) {
    let started = Instant::now();
    while status(running)[name] != count {
        assert!(started.elapsed() < Duration::from_secs(120), "{name} is not {count}: {}", status(running));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn messages_come_within_tls() {
    let there = Command::new("openssl").arg("version").output();
    if !there.is_ok_and(|output| output.status.success()) {
        println!("skipped: syslog within TLS: openssl is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let authority = TestAuthority::new(directory.path(), "authority");
    let tls = authority.setting("server", &format!(", client_ca = {:?}", authority.path));
    let [certificate, key] = authority.issue("client");
    let settings = [
        ("source.s.syslog", "tls://127.0.0.1:0"),
        ("source.s.tls", tls.as_str()),
        ("source.s.pipeline", "web"),
    ];
    with_server(&settings, |running| {
        let message = format!("<190>host nginx: {PROBE}");
        let send = |more: &[&str], text: &str| {
            let mut command = Command::new("openssl");
            command.args([
                "s_client",
                "-quiet",
                "-connect",
                running.listener("s"),
                "-CAfile",
                &authority.path,
            ]);
            // It ends once its input has.
            fed(command.args(["-no_ign_eof"]).args(more), text);
        };
        send(&["-cert", &certificate, "-key", &key], &format!("{message}\n{} {message}", message.len()));
        wait_for(running, "events", 2);
        // Who shows no certificate is not heard, nor is who speaks no TLS.
        send(&[], &format!("{message}\n"));
        running.connect_to("s").write_all(format!("{message}\n").as_bytes()).unwrap();
        send(&["-cert", &certificate, "-key", &key], &format!("{message}\n"));
        wait_for(running, "events", 3);
    });
}

#[test]
fn strangers_are_not_heard() {
    let message = format!("<190>host nginx: {PROBE}");
    for scheme in ["udp", "tcp"] {
        let address = format!("{scheme}://127.0.0.1:0");
        let own = [("source.s.syslog", address.as_str()), ("source.s.pipeline", "web")];
        for (clients, expected) in [("[\"192.0.2.0/24\"]", 0), ("[\"127.0.0.0/8\"]", 1)] {
            with_server(&[&own[..], &[("source.s.clients", clients)]].concat(), |running| {
                if scheme == "udp" {
                    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                    socket.send_to(message.as_bytes(), running.listener("s")).unwrap();
                } else {
                    // One that is closed on cannot be written to.
                    let _ = running.connect_to("s").write_all(format!("{message}\n").as_bytes());
                }
                let started = Instant::now();
                let refused = || {
                    let metrics = running.get("/metrics").body;
                    metrics.contains("listener=\"s\",reason=\"foreign-client\"} 1")
                };
                while expected == 0 && !refused() {
                    assert!(started.elapsed() < Duration::from_secs(120), "nobody was refused");
                    std::thread::sleep(Duration::from_millis(10));
                }
                wait_for(running, "events", expected);
            });
        }
    }
}

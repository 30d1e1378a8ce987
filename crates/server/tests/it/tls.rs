//! TLS of listeners, asked by clients of others, and by some that do not behave.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::authority::TestAuthority;
use crate::clients::{Program, fed};
use crate::harness::{MESSAGE, TestServer, with_server};

/// Returns true if a program is there.
fn has(program: &str, version: &str) -> bool {
    let there = Command::new(program).arg(version).stdin(Stdio::null()).output();
    let there = there.is_ok_and(|output| output.status.success());
    if !there {
        println!("skipped: TLS with {program}: it is not installed");
    }
    there
}

/// Runs a test against a server with HTTPS, whose certificate an authority vouches for.
fn with_https(more: &str, settings: &[(&str, &str)], test: impl FnOnce(&TestServer, &TestAuthority)) {
    let directory = tempfile::tempdir().unwrap();
    let authority = TestAuthority::new(directory.path(), "authority");
    let tls = authority.setting("server", more);
    let own = [("server.tls", tls.as_str())];
    with_server(&[&own[..], settings].concat(), |running| test(running, &authority));
}

/// Asks by curl; answers with its exit code, and what it said.
fn curl(arguments: &[&str]) -> (i32, String) {
    let ran = Command::new("curl").args(["-sS", "--max-time", "60"]).args(arguments).output().unwrap();
    let told = [ran.stdout, ran.stderr].concat();
    (ran.status.code().unwrap_or(-1), String::from_utf8_lossy(&told).into_owned())
}

/// The exit codes of curl for a handshake that failed, however it learnt of it.
const REFUSED: [i32; 4] = [35, 52, 56, 98];

#[test]
fn curl_is_served_by_the_versions_that_are_safe() {
    if !has("curl", "--version") {
        return;
    }
    let table = [
        ("", &["--tlsv1.3"][..], Some("HTTP/1.1 200")),
        ("", &["--tls-max", "1.2"], Some("HTTP/1.1 200")),
        ("", &["--http2"], Some("HTTP/1.1 200")),
        ("", &["--http1.0"], Some("HTTP/1.")),
        // OpenSSL has to be asked to try it at all.
        ("", &["--tlsv1.0", "--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0"], None),
        (", minimum = \"1.3\"", &["--tlsv1.3"], Some("HTTP/1.1 200")),
        (", minimum = \"1.3\"", &["--tls-max", "1.2"], None),
    ];
    for (more, arguments, expected) in table {
        with_https(more, &[], |running, authority| {
            let url = format!("https://{}/readyz", running.address);
            let (code, told) = curl(&[&["-i", "--cacert", &authority.path][..], arguments, &[&url]].concat());
            match expected {
                Some(head) => assert!(code == 0 && told.starts_with(head), "{arguments:?} {code}: {told}"),
                None => assert!(REFUSED.contains(&code), "{arguments:?} {code}: {told}"),
            }
        });
    }
    with_https("", &[], |running, authority| {
        let url = format!("https://{}/readyz", running.address);
        // Who does not know the authority is not asked to believe it.
        assert_eq!(curl(&[&url]).0, 60);
        // What is sent without TLS is no request, and a body of some length comes and goes whole.
        assert_ne!(curl(&[&url.replace("https", "http")]).0, 0);
        let decide = format!("https://{}/v1/decide", running.address);
        let (code, told) = curl(&[
            "--cacert",
            &authority.path,
            "-H",
            "content-type: message/rfc822",
            "--data-binary",
            &format!("{MESSAGE}{}", "They are long.\r\n".repeat(7_000)),
            &decide,
        ]);
        assert!(code == 0 && told.contains("\"action\":\"accept\""), "{code}: {told}");
        let url = format!("https://{}/metrics", running.address);
        let metrics = curl(&["--cacert", &authority.path, &url]).1;
        for part in [
            "tollhouse_tls_handshakes_total{listener=\"http\",result=\"1.3\"} ",
            "tollhouse_tls_handshakes_total{listener=\"http\",result=\"failed\"} 2\n",
            "tollhouse_tls_certificate_expiration_timestamp_seconds{listener=\"http\"} 67090118400\n",
        ] {
            assert!(metrics.contains(part), "no {part}: {metrics}");
        }
    });
}

#[test]
fn curl_is_asked_for_a_certificate() {
    if !has("curl", "--version") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let [known, foreign] = ["clients", "others"].map(|name| TestAuthority::new(directory.path(), name));
    let [known_certificate, foreign_certificate] = [known.issue("ann"), foreign.issue("eve")];
    let table = [
        ("required", Some(&known_certificate), true),
        ("required", Some(&foreign_certificate), false),
        ("required", None, false),
        ("optional", Some(&known_certificate), true),
        ("optional", Some(&foreign_certificate), false),
        ("optional", None, true),
    ];
    for kind in ["required", "optional"] {
        let more = format!(", client_ca = {:?}, client_certificates = \"{kind}\"", known.path);
        with_https(&more, &[], |running, authority| {
            let url = format!("https://{}/readyz", running.address);
            for (_, shown, is_served) in table.iter().filter(|(of, ..)| *of == kind) {
                for version in ["1.2", "1.3"] {
                    let mut arguments = vec!["--cacert", &authority.path, "--tls-max", version, &url];
                    if let Some([certificate, key]) = shown {
                        arguments.extend(["--cert", certificate, "--key", key]);
                    }
                    let (code, told) = curl(&arguments);
                    assert_eq!(code == 0, *is_served, "{kind} {shown:?} {version}: {code} {told}");
                    assert!(code == 0 || REFUSED.contains(&code), "{code} {told}");
                }
            }
        });
    }
}

/// A revoked certificate is refused, from the moment at which the list that names it was read.
#[test]
fn revoked_certificates_of_clients_are_refused() {
    if !has("curl", "--version") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let authority = TestAuthority::new(directory.path(), "clients");
    let [ann, eve] = [("ann", 17), ("eve", 18)].map(|(name, serial)| authority.issue_numbered(name, serial));
    let list = authority.revoke(&[18]);
    let more = format!(", client_ca = {:?}, client_crl = {list:?}", authority.path);
    with_https(&more, &[], |running, own| {
        let url = format!("https://{}/readyz", running.address);
        let check = |[certificate, key]: &[String; 2], is_served: bool| {
            for version in ["1.2", "1.3"] {
                let arguments =
                    ["--cacert", &own.path, "--tls-max", version, "--cert", certificate, "--key", key, &url];
                let (code, told) = curl(&arguments);
                assert_eq!(code == 0, is_served, "{certificate} {version}: {code} {told}");
                assert!(code == 0 || REFUSED.contains(&code), "{code} {told}");
            }
        };
        check(&ann, true);
        check(&eve, false);
        authority.revoke(&[17, 18]);
        running.certificates.renew();
        check(&ann, false);
        // A list that cannot be used leaves the one before in use.
        std::fs::write(&list, "no list").unwrap();
        running.certificates.renew();
        check(&ann, false);
        authority.revoke(&[]);
        running.certificates.renew();
        check(&ann, true);
        check(&eve, true);
    });
}

#[test]
fn openssl_sees_what_is_shown() {
    if !has("openssl", "version") {
        return;
    }
    let grpc = [("listener.b.protocol", "grpc"), ("listener.b.listen", "127.0.0.1:0")];
    with_https("", &grpc, |running, authority| {
        let tls = authority.setting("server", "");
        let settings = [("listener.b.tls", tls.as_str())];
        with_server(&[&grpc[..], &settings].concat(), |streams| {
            let table = [
                (running.address.to_string(), "h2,http/1.1", Some("ALPN protocol: http/1.1")),
                (running.address.to_string(), "h2", None),
                (streams.listener("b").to_owned(), "http/1.1,h2", Some("ALPN protocol: h2")),
                (streams.listener("b").to_owned(), "http/1.1", None),
            ];
            for (address, names, expected) in table {
                let mut command = Command::new("openssl");
                command.args(["s_client", "-connect", &address, "-alpn", names, "-CAfile", &authority.path]);
                let told = fed(&mut command, "");
                let text = String::from_utf8_lossy(&told.stdout).into_owned();
                match expected {
                    Some(line) => assert!(
                        text.contains(line) && text.contains("Verify return code: 0 (ok)"),
                        "{names}: {text}"
                    ),
                    None => assert!(!told.status.success(), "{names}: {text}"),
                }
            }
            // HTTP/2 of another make, which finds that it is answered by gRPC.
            if has("curl", "--version") {
                let url = format!("https://{}/x.Y/Z", streams.listener("b"));
                let (code, told) = curl(&[
                    "-i",
                    "--http2",
                    "--cacert",
                    &authority.path,
                    "-H",
                    "content-type: application/grpc",
                    "-d",
                    "",
                    &url,
                ]);
                assert!(
                    code == 0 && told.starts_with("HTTP/2 200") && told.contains("grpc-status: 12"),
                    "{code}: {told}"
                );
            }
        });
    });
}

#[test]
fn redis_cli_speaks_tls() {
    if !has("redis-cli", "--version") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let authority = TestAuthority::new(directory.path(), "authority");
    let tls = authority.setting("server", "");
    let settings =
        [("listener.m.protocol", "resp"), ("listener.m.listen", "127.0.0.1:0"), ("listener.m.tls", &tls)];
    with_server(&settings, |server| {
        let (host, port) = server.listener("m").rsplit_once(':').unwrap();
        let ask = |own: &[&str], arguments: &[&str]| {
            let mut command = Command::new("redis-cli");
            let ran = command.args(["-h", host, "-p", port]).args(own).args(arguments).output().unwrap();
            (ran.status.success(), String::from_utf8_lossy(&ran.stdout).into_owned())
        };
        let own = ["--tls", "--cacert", &authority.path];
        assert_eq!(ask(&own, &["PING"]), (true, "PONG\n".to_owned()));
        assert_eq!(ask(&own, &["CL.THROTTLE", "a", "15", "30", "60"]).1, "0\n16\n15\n-1\n2\n");
        assert!(!ask(&["--tls"], &["PING"]).0, "the authority is not known");
        assert!(!ask(&[], &["PING"]).1.contains("PONG"), "this is no plain text");
    });
}

#[test]
fn spamc_speaks_tls() {
    let Some(spamc) = Program::find("spamc") else { return };
    let help = fed(spamc.command().arg("--help"), "");
    if !String::from_utf8_lossy(&[help.stdout, help.stderr].concat()).contains("-S") {
        println!("skipped: spamc -S, this spamc was built without it");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let authority = TestAuthority::new(directory.path(), "authority");
    let tls = authority.setting("server", "");
    let settings =
        [("listener.m.protocol", "spamc"), ("listener.m.listen", "127.0.0.1:0"), ("listener.m.tls", &tls)];
    with_server(&settings, |server| {
        let (host, port) = server.listener("m").rsplit_once(':').unwrap();
        let ran = fed(spamc.command().args(["-d", host, "-p", port, "-S", "-c"]), MESSAGE);
        let told = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(ran.status.success() && told.contains('/') && !told.starts_with("0/0"), "{told}");
    });
}

/// Returns a client that trusts an authority.
fn agent(authority: &TestAuthority, idle: usize) -> Agent {
    let root = Certificate::from_pem(&std::fs::read(&authority.path).unwrap()).unwrap();
    let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&[root])).build();
    Agent::config_builder().tls_config(tls).max_idle_connections(idle).build().into()
}

#[test]
fn certificates_are_renewed_and_no_request_is_lost() {
    with_https("", &[], |running, authority| {
        let url = format!("https://{}/readyz", running.address);
        let (is_over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            // On kept connections, and on one each.
            for idle in [1, 1, 0, 0] {
                let (agent, url, is_over, asked) = (agent(authority, idle), &url, &is_over, &asked);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        assert_eq!(agent.get(url).call().unwrap().status(), 200);
                        asked.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for round in 1..=20 {
                authority.issue("server");
                running.certificates.renew();
                let enough = asked.load(Ordering::Relaxed) + 8;
                while asked.load(Ordering::Relaxed) < enough {
                    std::thread::sleep(Duration::from_millis(1));
                }
                if round % 5 == 0 {
                    let metrics = agent(authority, 0).get(url.replace("readyz", "metrics")).call().unwrap();
                    let metrics = metrics.into_body().read_to_string().unwrap();
                    let counted =
                        format!("tollhouse_tls_reloads_total{{listener=\"http\",result=\"ok\"}} {round}\n");
                    assert!(metrics.contains(&counted), "no {counted}");
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        // One that cannot be used leaves the last one in use, and is said.
        std::fs::write(authority.issue("other")[0].replace("other.pem", "server.key"), "no key\n").unwrap();
        running.certificates.renew();
        let mut agent = Some(agent(authority, 0));
        let ask = |agent: &mut Option<Agent>, path: &str| {
            let answer = agent.as_ref().unwrap().get(url.replace("/readyz", path)).call().unwrap();
            answer.into_body().read_to_string().unwrap()
        };
        let metrics = ask(&mut agent, "/metrics");
        assert!(metrics.contains("tollhouse_tls_reloads_total{listener=\"http\",result=\"failed\"} 1\n"));
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while !ask(&mut agent, "/readyz").contains("server.key: no private key is in it") {
            assert!(std::time::Instant::now() < deadline, "{}", ask(&mut agent, "/readyz"));
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

/// Reads to the end; true if the other side has ended within a minute.
fn is_ended(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let read = stream.read_to_end(&mut Vec::new());
    read.is_ok_and(|_| true) || matches!(stream.take_error(), Ok(None) if !is_waiting(stream))
}

fn is_waiting(stream: &mut TcpStream) -> bool {
    let read = stream.read(&mut [0]);
    read.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

#[test]
fn who_stalls_holds_nobody_up() {
    let hello = {
        // The first record of a client that is real.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let authority = TestAuthority::new(directory.path(), "authority");
        let url = format!("https://{}", listener.local_addr().unwrap());
        let asked = std::thread::spawn(move || agent(&authority, 0).get(url).call().is_err());
        let (mut stream, _) = listener.accept().unwrap();
        let mut record = vec![0; 5];
        stream.read_exact(&mut record).unwrap();
        record.resize(5 + usize::from(u16::from_be_bytes([record[3], record[4]])), 0);
        stream.read_exact(&mut record[5..]).unwrap();
        drop(stream);
        assert!(asked.join().unwrap());
        record
    };
    let settings = [("server.connections_max", "64"), ("server.timeout", "2s")];
    with_https("", &settings, |running, authority| {
        let garbage: [&[u8]; 5] = [
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\xff\xff",
            b"\x16\x03\x01\x00\x05\x01\x00\xff\xff\xff\x00",
            &[0; 4096],
            &[0xff; 4096],
        ];
        for bytes in garbage {
            let mut stream = running.connect();
            // It may be closed while it still sends.
            let _ = stream.write_all(bytes);
            assert!(is_ended(&mut stream), "{bytes:?}");
        }
        // More than may be in their handshakes, and each at another place of it.
        let mut stalled: Vec<TcpStream> = (0..32)
            .map(|at| {
                let mut stream = running.connect();
                let _ = stream.write_all(&hello[..hello.len() * at / 32]);
                stream
            })
            .collect();
        // Places for others are there once those have run out of time, and connections that are open have them anyhow.
        let kept = agent(authority, 1);
        let url = |path: &str| format!("https://{}{path}", running.address);
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while kept.get(url("/readyz")).call().is_err() {
            assert!(std::time::Instant::now() < deadline, "nobody is served any more");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(stalled.iter_mut().all(is_ended), "a handshake has no end");
        let page = || kept.get(url("/metrics")).call().unwrap().into_body().read_to_string().unwrap();
        // A connection is given up after its socket is closed.
        while !page().contains("tollhouse_http_connections 1\n") {
            assert!(std::time::Instant::now() < deadline, "a connection is never given up");
            std::thread::sleep(Duration::from_millis(10));
        }
        let metrics = page();
        let count = |result: &str| -> u64 {
            let line = format!("tollhouse_tls_handshakes_total{{listener=\"http\",result=\"{result}\"}} ");
            let count = metrics.lines().find_map(|text| text.strip_prefix(&line));
            count.map_or(0, |count| count.parse().unwrap())
        };
        // A quarter of the connections had places; the others were closed at once, as some of the client that came then were.
        let (crowded, late) = (count("crowded"), count("timeout"));
        assert!(crowded >= 1 && late >= 1 && crowded + late >= 32, "{crowded} {late}");
        assert_eq!(count("failed"), 5, "{metrics}");
    });
}

#[test]
fn monitoring_serves_health_and_metrics_alone() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Arc::new(TestAuthority::new(directory.path(), "authority"));
    let tls = authority.setting("server", "");
    let settings = [
        ("server.tokens", "[\"0123456789abcdef\"]"),
        ("listener.plain.protocol", "monitoring"),
        ("listener.plain.listen", "127.0.0.1:0"),
        ("listener.safe.protocol", "monitoring"),
        ("listener.safe.listen", "127.0.0.1:0"),
        ("listener.safe.tls", &tls),
    ];
    with_server(&settings, |running| {
        assert_eq!(running.get("/metrics").status, 401, "HTTP wants a token");
        let ask = |line: &str, host: &str| {
            let request = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            String::from_utf8(running.exchange("plain", request.as_bytes())).unwrap()
        };
        let table = [
            ("GET /healthz", "a.example", "200 OK", "\"status\":\"ok\""),
            ("GET /readyz", "a.example", "200 OK", "\"status\":\"ok\""),
            ("HEAD /readyz", "a.example", "200 OK", ""),
            ("GET /metrics", "localhost", "200 OK", "# EOF"),
            ("GET /metrics", "rebound.example", "403 Forbidden", "urn:tollhouse:problem:forbidden"),
            ("GET /v1/pipelines", "localhost", "404 Not Found", "urn:tollhouse:problem:not-found"),
            ("POST /v1/decide", "localhost", "404 Not Found", ""),
            (
                "POST /metrics",
                "localhost",
                "405 Method Not Allowed",
                "urn:tollhouse:problem:method-not-allowed",
            ),
        ];
        for (line, host, status, part) in table {
            let answer = ask(line, host);
            let head = format!("HTTP/1.1 {status}\r\n");
            assert!(answer.starts_with(&head) && answer.contains(part), "{line} {host}: {answer}");
        }
        // A second request in the body of a first is none.
        let two = "GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 33\r\n\r\nGET /readyz HTTP/1.1\r\nHost: a\r\n\r\n";
        let answers = String::from_utf8(running.exchange("plain", two.as_bytes())).unwrap();
        assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{answers}");
        let url = format!("https://{}/metrics", running.listener("safe"));
        let page = agent(&authority, 0).get(url).call().unwrap().into_body().read_to_string().unwrap();
        assert!(page.contains("tollhouse_listener_connections{listener=\"safe\"} 1\n"), "{page}");
    });
}

//! `serve` and what is left when it ends, well or not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::follow::Ends;
use crate::program::{Data, MESSAGE, Server, command, run};

/// Decisions that a server answered are all there after it ended so.
fn check(args: &[&str], signal: Signal, code: Option<i32>) {
    let data = Data::new(&["mail"]);
    let server = Server::start(&data.path(), args);
    let ids: Vec<String> = (0..5)
        .map(|_| {
            let ran = run(["check", "--json", "-", "--server", &server.url], MESSAGE).expect(0);
            ran.json()[0]["id"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(server.end(signal), code);
    for id in &ids {
        data.run(&["explain", id], "").expect(0);
    }
    let known = data.run(&["stats", "--json", "from", "cheap@example.com"], "").expect(0).json().remove(0);
    assert_eq!(known["tiers"][0]["buckets"][0]["counts"]["seen"], 5, "{known}");
}

#[test]
fn sigterm_keeps_everything() {
    check(&[], Signal::TERM, Some(0));
}

#[test]
fn sigint_keeps_everything() {
    check(&[], Signal::INT, Some(0));
}

#[test]
fn a_killed_server_keeps_what_it_answered() {
    check(&["--set", "ledger.durability=sync"], Signal::KILL, None);
}

#[test]
fn ten_times_the_load_loses_nothing_that_was_acknowledged() {
    let args = ["bench", "overload", "--seconds", "2", "--places", "4", "--json"];
    let measured = run(args, "").expect(0).json().remove(0);
    let number = |name: &str| measured[name].as_u64().unwrap_or_else(|| panic!("{name}: {measured}"));
    assert_eq!((number("lost"), number("lost_counts")), (0, 0), "{measured}");
    assert!(number("acknowledged") > 0 && number("counted") >= number("acknowledged"), "{measured}");
    assert!(number("shed") > 0, "{measured}");
    assert_eq!(
        (number("other"), number("after_shed")),
        (0, 0),
        "answers are clear, and it recovers: {measured}"
    );
}

#[test]
fn no_server_listens_openly_without_a_token() {
    let data = Data::new(&["mail"]);
    let ran = data.run(&["serve", "--listen", "0.0.0.0:0"], "").expect(2);
    assert!(ran.stderr.contains("no token"), "{}", ran.stderr);
}

#[test]
fn a_token_is_wanted_and_given() {
    let data = Data::new(&["mail"]);
    let token = "0123456789abcdef";
    let server = Server::start(&data.path(), &["--set", &format!("server.tokens=[\"{token}\"]")]);
    run(["check", "-", "--server", &server.url], MESSAGE).expect(2);
    run(["check", "-", "--server", &server.url, "--token", token], MESSAGE).expect(0);
}

#[test]
fn nobody_there_is_said() {
    let ran = run(["check", "-", "--server", "http://127.0.0.1:1"], MESSAGE).expect(2);
    assert!(ran.stderr.contains("is a server running there?"), "{}", ran.stderr);
    let ran = run(["check", "-", "--server", "ftp://127.0.0.1"], MESSAGE).expect(2);
    assert!(ran.stderr.contains("http://127.0.0.1:8377"), "{}", ran.stderr);
}

#[test]
fn the_demo_shows_what_it_learned_and_five_verdicts_and_ends() {
    let ran = run(["demo", "--once"], "").expect(0);
    assert_eq!(ran.stdout.matches("  score ").count(), 6, "{}", ran.stdout);
    for part in [
        "  mail ",
        "  web ",
        "happened",
        "spam, untrained",
        "spam, trained",
        "ham, untrained",
        "ham, trained",
    ] {
        assert!(ran.stdout.contains(part), "{part} is missing in {}", ran.stdout);
    }
    // Of how many messages, each time; and who was taught finds more.
    let recall = |name: &str| {
        let line =
            ran.stdout.lines().find(|line| line.trim_start().starts_with(&format!("{name} "))).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "on").unwrap();
        assert!(words[at + 2] == "of" && line.contains(" ham (false positives "), "{line}");
        (words[at + 1].parse::<u32>().unwrap(), words[at + 3].parse::<u32>().unwrap())
    };
    let (untrained, trained) = (recall("untrained"), recall("trained"));
    assert!(trained.0 > untrained.0 && trained.1 == untrained.1, "{}", ran.stdout);
    assert!(ran.stdout.contains("learned"), "what the classifier knows: {}", ran.stdout);
}

/// The commands that are printed are pasted.
#[test]
fn each_command_that_the_demo_prints_works() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("skipped: the commands that the demo prints work: curl is not installed");
        return;
    }
    let mut demo = Ends(command(&["demo".as_ref()]).spawn().unwrap());
    let said = BufReader::new(demo.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = said.take_while(|line| !line.starts_with("Ctrl-C")).collect();
    let commands: Vec<&str> = said.iter().filter_map(|line| line.strip_prefix("  ")).collect();
    let of = |word: &str| commands.iter().filter(|line| line.contains(word)).count();
    assert!(
        of(" top ") == 2 && of(" stats ") == 1 && of(" explain ") == 1 && of("curl -s ") == 6,
        "{said:?}"
    );
    for line in commands {
        let ran = Command::new("sh").args(["-c", line]).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success() && err.is_empty(), "{line}: {out}{err}");
        // Nothing is empty, and nothing an error that curl takes for an answer.
        assert!(
            out.lines().count() > 0 && !out.starts_with("{\"type\":\"urn:tollhouse:problem"),
            "{line}: {out}"
        );
        let knows = |part: &str| assert!(out.contains(part), "{line}: {out}");
        match line {
            line if line.contains(" top ") => assert!(out.lines().count() > 3, "{line}: {out}"),
            line if line.contains(" stats ") => knows("seen"),
            line if line.contains(" explain ") => knows("happened"),
            line if line.contains("/v1/timeline") => knows("\"first\""),
            line if line.contains("/v1/decide") => knows("\"action\""),
            line if line.contains("/v1/decisions") => knows("\"facts\""),
            _ => {}
        }
    }
    kill_process(Pid::from_child(&demo.0), Signal::INT).unwrap();
    assert_eq!(demo.0.wait().unwrap().code(), Some(0));
}

/// Nobody is in the way of its end, or a client in the middle of a request.
#[test]
fn the_demo_ends_and_leaves_nothing_behind() {
    for (unfinished, code) in [(false, 0), (true, 130)] {
        let temporary = tempfile::tempdir().unwrap();
        let left =
            || temporary.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        let mut demo = Ends(command(&["demo".as_ref()]).env("TMPDIR", temporary.path()).spawn().unwrap());
        let mut said = BufReader::new(demo.0.stderr.take().unwrap()).lines().map(Result::unwrap);
        let goes_on = said.find(|line| line.starts_with("The server goes on at ")).unwrap();
        let (_, address) = goes_on.split_once("http://").unwrap();
        let mut client = TcpStream::connect(address.split_once(';').unwrap().0).unwrap();
        // The server has heard from it: a connection without a request would have a while for its first.
        client.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut heard = [0; 15];
        client.read_exact(&mut heard).unwrap();
        assert_eq!(heard, *b"HTTP/1.1 200 OK");
        let _unfinished = unfinished.then(|| {
            let mut client = TcpStream::connect(client.peer_addr().unwrap()).unwrap();
            let head =
                ["POST /v1/decide HTTP/1.1", "Host: localhost", "Content-Type: message/rfc822"].join("\r\n");
            let more = "\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n";
            client.write_all((head + more).as_bytes()).unwrap();
            let mut heard = [0; 21];
            client.read_exact(&mut heard).unwrap();
            assert_eq!(heard, *b"HTTP/1.1 100 Continue");
            client
        });
        assert_eq!(left().len(), 1);
        kill_process(Pid::from_child(&demo.0), Signal::INT).unwrap();
        let ended = demo.0.wait().unwrap();
        assert_eq!(ended.code(), Some(code), "{:?}", said.collect::<Vec<_>>());
        assert!(left().is_empty(), "{:?}", left());
    }
}

#[test]
fn each_mail_has_a_line_in_the_log() {
    let data = Data::new(&["mail"]);
    let socket = data.path().join("rspamd");
    let listen = format!("listener.r.listen=unix:{}", socket.display());
    let server = Server::start(&data.path(), &["--set", "listener.r.protocol=rspamd", "--set", &listen]);
    let mut stream = UnixStream::connect(&socket).unwrap();
    let length = MESSAGE.len();
    let head = format!(
        "POST /checkv2 HTTP/1.0\r\nIP: 192.0.2.7\r\nFrom: ann@example.org\r\nRcpt: bob@example.net\r\n\
         Queue-Id: 4XyZ\r\nContent-Length: {length}\r\n\r\n{MESSAGE}"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(" 200 "), "{answer}");
    let line = loop {
        let said = server.said();
        if let Some(line) = said.lines().find(|line| line.contains("answered")) {
            break line.to_owned();
        }
        sleep(Duration::from_millis(10));
    };
    for part in [
        "listener=\"r\"",
        "queue_id=\"4XyZ/",
        "client=\"192.0.2.7\"",
        "from=\"ann@example.org\"",
        "to=\"bob@example.net\"",
        "action=tag",
        "reply=\"tag\"",
        "LINK_TO_ADDRESS(",
        " ms=",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

/// Waits until a server has written so many lines of decisions, and returns all of them.
fn decision_lines(server: &Server, count: usize) -> Vec<String> {
    let begun = std::time::Instant::now();
    loop {
        let said = server.said();
        let lines: Vec<String> =
            said.lines().filter(|line| line.contains(" decided ")).map(str::to_owned).collect();
        if lines.len() >= count {
            return lines;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{said}");
        sleep(Duration::from_millis(20));
    }
}

/// Posts JSON to a server, and reads the answer to its end.
fn post_json(server: &Server, url: &str, body: &str) -> String {
    let address = server.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {url} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer
}

#[test]
fn each_decision_is_a_line_of_the_log_where_that_is_wanted() {
    let event = r#"{"id": "a\n2026 decided id=b", "ip": "192.0.2.7", "user": "ann\" action=accept"}"#;
    let data = Data::new(&["analytics"]);
    let server = Server::start(&data.path(), &["--set", "node.log_decisions=all"]);
    post_json(&server, "/v1/decide", event);
    post_json(&server, "/v1/batch/decide", &format!("[{event}]"));
    let lines = decision_lines(&server, 2);
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in lines {
        for part in [
            "listener=\"http\" pipeline=\"analytics\" id=",
            "event_id=\"a 2026 decided id=b\" address=\"192.0.2.7\" from=\"ann\\\" action=accept\"",
            " action=accept score=",
            " rules=\"",
            " ms=",
        ] {
            assert!(line.contains(part), "no {part}: {line}");
        }
    }
    assert_eq!(server.end(Signal::TERM), Some(0));
    // Without the setting there is none, and `acted` passes over what is accepted.
    for mode in ["off", "acted"] {
        let server = Server::start(&data.path(), &["--set", &format!("node.log_decisions={mode}")]);
        post_json(&server, "/v1/decide", event);
        assert!(decision_lines(&server, 0).is_empty(), "{mode}: {}", server.said());
        assert_eq!(server.end(Signal::TERM), Some(0));
    }
}

/// A program that reads JSON lines finds the link for the first visit among them.
#[test]
fn the_link_of_the_first_visit_is_in_a_log_of_json() {
    let data = Data::new(&["mail"]);
    let path = data.path();
    let args =
        ["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--set", "server.require_token=true"];
    let args: Vec<&std::ffi::OsStr> = args.iter().map(std::ffi::OsStr::new).collect();
    let mut child =
        command(&[&args[..], &[std::ffi::OsStr::new("--data"), path.as_os_str()]].concat()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut found = None;
    for line in lines.map_while(Result::ok) {
        let line: serde_json::Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let told = line["fields"]["message"].as_str().unwrap_or_default();
        if told.contains("first administrator") {
            found = line["fields"]["url"].as_str().map(str::to_owned);
            break;
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    let url = found.expect("the log has the link");
    assert!(url.starts_with("http://127.0.0.1:") && url.contains("/console/first?key="), "{url}");
}

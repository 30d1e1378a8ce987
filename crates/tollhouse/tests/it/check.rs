//! `check`, `learn` and `replay`.

use serde_json::Value;

use crate::program::{Data, MESSAGE, Server, corpus, run, run_into_head};

fn score(object: &Value) -> f64 {
    object["score"].as_f64().unwrap()
}

fn names(object: &Value) -> Vec<&str> {
    object["reasons"].as_array().unwrap().iter().map(|reason| reason["name"].as_str().unwrap()).collect()
}

#[test]
fn a_message_is_judged_offline() {
    let ran = run(["check", "--json", "-"], MESSAGE).expect(0);
    let objects = ran.json();
    let [object] = objects.as_slice() else { panic!("{}", ran.stdout) };
    assert_eq!(object["file"], "-");
    assert_eq!(object["id"].as_str().unwrap().len(), 13);
    assert_eq!(object["pipeline"], "mail");
    assert_eq!(object["action"], "tag");
    let sum: f64 = object["reasons"].as_array().unwrap().iter().map(score).sum();
    assert!((score(object) - sum).abs() < 1e-6, "the score is the sum of its reasons: {object}");
    assert!(names(object).contains(&"LINK_TO_ADDRESS"), "{object}");
    for reason in object["reasons"].as_array().unwrap() {
        assert!(!reason["detail"].as_str().unwrap().is_empty(), "{reason}");
    }
    assert!(ran.stderr.contains("1 messages in"), "{}", ran.stderr);
}

#[test]
fn people_get_lines_without_colours_in_a_pipe() {
    let ran = run(["check", "-"], MESSAGE).expect(0);
    assert!(ran.stdout.starts_with("tag"), "{}", ran.stdout);
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'));
}

#[test]
fn results_do_not_depend_on_threads() {
    let check = |threads: &str| {
        let mail = corpus("mail.mbox");
        run(["check", "--json", "--message-time", "--threads", threads, &mail], "").expect(0).stdout
    };
    let one = check("1");
    assert!(one.lines().count() > 200);
    assert_eq!(one, check("2"));
    assert_eq!(one, check("7"));
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let ran = run_into_head(&["check", "--json", &corpus("mail.mbox"), &corpus("mail.mbox")]).expect(0);
    assert_eq!(ran.json().len(), 1);
    assert_eq!(ran.stderr, "");
}

#[test]
fn what_cannot_be_read_is_passed_over() {
    let data = Data::new(&["mail"]);
    let (good, none) = (data.file("good.eml", MESSAGE), data.file("none.eml", ""));
    std::fs::remove_file(&none).unwrap();
    let ran = run(["check", "--json", &none, &good], "").expect(1);
    assert_eq!(ran.json().len(), 1);
    assert!(ran.stderr.contains("none.eml: No such file"), "{}", ran.stderr);
}

#[test]
fn what_was_learned_changes_the_score() {
    let data = Data::new(&["mail"]);
    let check = || data.run(&["check", "--json", "-"], MESSAGE).expect(0).json().remove(0);
    let before = check();
    let learned = data.run(&["learn", "--class", "spam", "--json", "-"], MESSAGE).expect(0).json().remove(0);
    assert_eq!(learned["duplicate"], false);
    assert!(learned["keys"].as_u64().unwrap() > 5, "{learned}");
    let after = check();
    assert!(names(&after).contains(&"SAID_SPAM_SENDER"), "{after}");
    assert!(score(&after) > score(&before) + 1.0, "{before} {after}");
    let again = data.run(&["learn", "--class", "spam", "--json", "-"], MESSAGE).expect(0).json().remove(0);
    assert_eq!((&again["duplicate"], &again["keys"]), (&true.into(), &0.into()));

    let unknown = data.run(&["learn", "--class", "spma", "-"], MESSAGE).expect(2);
    assert!(unknown.stderr.contains("did you mean `spam`?"), "{}", unknown.stderr);
}

/// Requests of one address that looks for weak places.
fn probes(count: usize) -> String {
    let line = |n: usize| {
        format!(
            "192.0.2.7 - - [17/May/2026:10:00:{n:02} +0000] \"GET /wp-login.php?{n} HTTP/1.1\" 404 10 \"-\" \"-\"\n"
        )
    };
    (0..count).map(line).collect()
}

#[test]
fn a_log_is_replayed_at_its_own_times() {
    let ran = run(["replay", "--json", "--all", "-"], &(probes(3) + "no log line\n")).expect(1);
    let objects = ran.json();
    assert_eq!(objects.len(), 3);
    assert_eq!(objects[0]["line"], 1);
    assert_eq!(objects[0]["time"], "2026-05-17T10:00:00Z");
    assert!(names(&objects[0]).contains(&"PROBE"), "{}", objects[0]);
    assert!(ran.stderr.contains("line 4: expected"), "{}", ran.stderr);
    assert!(ran.stderr.contains("3 events in"), "{}", ran.stderr);
}

#[test]
fn only_what_is_not_accepted_is_printed() {
    let event = |method: &str, agent: &str| {
        format!(
            "{{\"time\": \"2026-05-17T10:00:00Z\", \"client\": {{\"ip\": \"192.0.2.7\"}}, \"http\": {{\"method\": \"{method}\", \"path\": \"/\", \"agent\": \"{agent}\"}}}}\n"
        )
    };
    let events = event("GET", "Mozilla/5.0") + &event("AGGREGATE", "");
    let ran = run(["replay", "--json", "-"], &events).expect(0);
    let lines: Vec<u64> = ran.json().iter().map(|object| object["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [2], "{}", ran.stderr);
}

#[test]
fn a_server_gives_the_same_answers() {
    let (data, alone) = (Data::new(&["mail", "web"]), Data::new(&["mail", "web"]));
    let server = Server::start(&data.path(), &[]);
    let stable = |objects: Vec<Value>| -> Vec<(Value, Value, Value)> {
        objects.into_iter().map(|o| (o["action"].clone(), o["score"].clone(), o["reasons"].clone())).collect()
    };
    let check = ["check", "--json", "--message-time", "-"];
    let remote = run(check.iter().copied().chain(["--server", &server.url]), MESSAGE).expect(0);
    assert_eq!(stable(remote.json()), stable(alone.run(&check, MESSAGE).expect(0).json()));

    let learn = ["learn", "--class", "spam", "--json", "-"];
    let remote = run(learn.iter().copied().chain(["--server", &server.url]), MESSAGE).expect(0);
    assert_eq!(remote.json(), alone.run(&learn, MESSAGE).expect(0).json());

    let replay = ["replay", "--json", "--all", "--pipeline", "web", "-"];
    let lines = probes(3);
    let remote = run(replay.iter().copied().chain(["--server", &server.url]), &lines).expect(0);
    assert_eq!(remote.json().len(), 3);

    let id = remote.json()[0]["id"].as_str().unwrap().to_owned();
    let explained = run(["explain", "--json", &id, "--server", &server.url], "").expect(0).json().remove(0);
    assert_eq!(explained["facts"]["client.ip"], "192.0.2.7");
    run(["check", "-", "--server", &server.url], MESSAGE).expect(0);
    let top = run(["top", "--json", "from", "--server", &server.url], "").expect(0).json().remove(0);
    assert_eq!(top["keys"][0]["piece"], "cheap@example.com");
    assert_eq!(top["keys"][0]["count"], 1, "what happened months ago is not in the window of an hour");

    let locked = data.run(&check, MESSAGE).expect(2);
    assert!(
        locked.stderr.contains("in use by another process") && locked.stderr.contains("--server"),
        "{}",
        locked.stderr
    );
}

/// Answers questions of type TXT and A over UDP from these records, until the test ends.
fn name_server(records: &'static [(&'static str, u16, &'static [u8])]) -> std::net::SocketAddr {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let question = &buffer[..length];
            let (mut name, mut at) = (String::new(), 12);
            while question[at] != 0 {
                let label = &question[at + 1..at + 1 + usize::from(question[at])];
                name += &format!("{}.", String::from_utf8_lossy(label).to_lowercase());
                at += 1 + label.len();
            }
            let kind = u16::from_be_bytes([question[at + 1], question[at + 2]]);
            let found = records.iter().find(|(known, of, _)| format!("{known}.") == name && *of == kind);
            let mut answer = [&question[..2], &[0x81, if found.is_some() { 0x80 } else { 0x83 }]].concat();
            answer.extend([0, 1, 0, u8::from(found.is_some()), 0, 0, 0, 0]);
            answer.extend_from_slice(&question[12..at + 5]);
            if let Some((_, _, data)) = found {
                answer.extend([0xC0, 12]);
                answer.extend(kind.to_be_bytes());
                answer.extend([0, 1, 0, 0, 0, 60]);
                answer.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
                answer.extend_from_slice(data);
            }
            let _ = socket.send_to(&answer, from);
        }
    });
    address
}

#[test]
fn name_service_is_asked_where_it_is_wanted() {
    let resolver = name_server(&[
        ("example.com", 16, b"\x18v=spf1 ip4:45.0.1.9 ~all"),
        ("9.1.0.45.zen.example", 1, &[127, 0, 0, 2]),
    ]);
    let message = format!(
        "Return-Path: <cheap@example.com>\r\nReceived: from a (a [45.0.1.9]) by mx; Sun, 17 May 2026 10:00:00 +0000\r\n{MESSAGE}"
    );
    let config = tempfile::NamedTempFile::new().unwrap();
    let list = "[[dnsbl]]\nname = \"zen\"\nzone = \"zen.example\"\nof = [\"client.ip\"]\n";
    std::fs::write(config.path(), format!("preset = \"mail\"\n{list}")).unwrap();
    let config = config.path().display().to_string();
    let resolvers = format!("dns.resolvers=[\"{resolver}\"]");
    let check = |more: &[&str]| {
        let all = [&["check", "--json", "--config", &config, "--set", &resolvers], more, &["-"]].concat();
        run(all, &message).expect(0).json().remove(0)
    };
    let asked = check(&["--dns"]);
    for rule in ["DNSBL_CLIENT", "NO_REVERSE_NAME"] {
        assert!(names(&asked).contains(&rule), "{rule}: {asked}");
    }
    let not = check(&[]);
    assert!(!names(&not).contains(&"DNSBL_CLIENT"), "{not}");
    let refused = run(["check", "--dns", "-"], &message).expect(2);
    assert!(refused.stderr.contains("no resolvers are configured"), "{}", refused.stderr);
}

#[test]
fn nothing_is_cut_in_a_pipe() {
    let data = Data::new(&["mail"]);
    let server = Server::start(&data.path(), &[]);
    let subject = ["word"; 60].join(" ");
    let message = format!("From: ann@example.org\r\nSubject: {subject}\r\n\r\ntext\r\n");
    let checked = run(["check", "--json", "-", "--server", &server.url], &message).expect(0).json();
    let id = checked[0]["id"].as_str().unwrap();
    let explained = run(["explain", id, "--server", &server.url], "").expect(0).stdout;
    assert!(explained.lines().any(|line| line.ends_with(&subject)), "{explained}");
}

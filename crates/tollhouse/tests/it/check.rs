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
    let events = event("GET", "Mozilla/5.0") + &event("TRACK", "");
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

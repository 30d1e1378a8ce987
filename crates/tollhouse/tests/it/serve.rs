//! `serve` and what is left when it ends, well or not.

use rustix::process::Signal;

use crate::program::{Data, MESSAGE, Server, run};

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
fn the_demo_shows_five_verdicts_and_ends() {
    let ran = run(["demo", "--once"], "").expect(0);
    assert_eq!(ran.stdout.matches("  score ").count(), 5, "{}", ran.stdout);
    for part in ["  mail ", "  web ", "spam", "ham", "happened"] {
        assert!(ran.stdout.contains(part), "{part} is missing in {}", ran.stdout);
    }
}

//! Changes of a node's rules from the command line.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::program::{Data, MESSAGE, Server, run};

/// Every message is refused.
const ALL: &str = "[[rule]]\nname = \"ALL\"\nwhen = \"true\"\nscore = 0\neffects = [\"set reject\"]\n";

fn action(server: &Server) -> String {
    let ran = run(["check", "--json", "-", "--server", &server.url], MESSAGE).expect(0);
    ran.json()[0]["action"].as_str().unwrap().to_owned()
}

fn ask(server: &Server, args: &[&str]) -> Value {
    let args: Vec<&str> =
        ["rules"].iter().chain(args).copied().chain(["--json", "--server", &server.url]).collect();
    run(args, "").expect(0).json().remove(0)
}

#[test]
fn rules_are_posted_compared_promoted_and_gone_back_from() {
    let data = Data::new(&["mail"]);
    let file = data.file("new.toml", ALL);
    let bad = data.file("bad.toml", "[[rule]]\nname = \"ALL\"\nwhen = \"mail.sice > 1\"\nscore = 1\n");
    let server = Server::start(&data.path(), &[]);
    let before = ask(&server, &["versions"])["version"].as_str().unwrap().to_owned();
    let accepted = action(&server);
    assert_ne!(accepted, "reject");

    let refused = run(["rules", "post", &bad, "--server", &server.url], "").expect(1);
    assert!(
        refused.stderr.contains("posted rules:3:9: error: `ALL`: unknown name `mail.sice`"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("did you mean `mail.size`?"), "{}", refused.stderr);

    ask(&server, &["post", &file, "--candidate"]);
    assert_eq!(action(&server), accepted);
    let compared = ask(&server, &["compare"]);
    assert_eq!((&compared["disagreements"], &compared["rate"]), (&1.into(), &1.0.into()), "{compared}");
    let shown = run(["rules", "compare", "--server", &server.url], "").expect(0).stdout;
    assert!(shown.contains(&format!("{accepted} → reject")) && shown.contains(" ALL]"), "{shown}");
    let of_server = ["--server", &server.url];
    let tried = run(["backtest", "--candidate", "--json"].into_iter().chain(of_server), "")
        .expect(0)
        .json()
        .remove(0);
    assert_eq!((&tried["state"], &tried["report"]["changed"]), (&"done".into(), &2.into()), "{tried}");
    let tried =
        run(["backtest", "--rules", &file, "--last", "1h"].into_iter().chain(of_server), "").expect(0).stdout;
    assert!(tried.contains("→ reject") && tried.contains("+ALL"), "{tried}");
    run(["backtest", "--rules", &bad].into_iter().chain(of_server), "").expect(2);
    run(["backtest", "--replay"].into_iter().chain(of_server), "").expect(2);
    let shown =
        run(["rules", "show", "candidate", "--against", &before].into_iter().chain(of_server), "").expect(0);
    assert!(shown.stdout.contains("+name = \"ALL\""), "{shown:?}");
    let decides = ask(&server, &["canary", "--share", "1"]);
    assert_eq!(decides["changes"][0]["canary"]["share"], 1.0, "{decides}");
    assert_eq!(action(&server), "reject");
    let shown = run(["rules", "compare", "--server", &server.url], "").expect(0).stdout;
    assert!(shown.contains("decides for 100 % of the events"), "{shown}");
    run(["rules", "canary", "--share", "7"].into_iter().chain(of_server), "").expect(2);
    ask(&server, &["canary", "--share", "0"]);
    assert_eq!(action(&server), accepted);
    ask(&server, &["drop"]);
    run(["rules", "compare"].into_iter().chain(of_server), "").expect(2);
    ask(&server, &["post", &file, "--candidate"]);
    assert!(ask(&server, &["names"])["names"].as_array().unwrap().len() > 50);
    let promoted = ask(&server, &["promote"]);
    assert_eq!(promoted["changes"][0]["added"], serde_json::json!(["rule.ALL"]));
    assert_eq!(action(&server), "reject");

    ask(&server, &["rollback", &before]);
    // What the canary decided, and what it decided once it was promoted.
    let impact = ask(&server, &["impact", "ALL", "--last", "1h"]);
    assert_eq!((&impact["hits"], &impact["alone"]), (&2.into(), &2.into()), "{impact}");
    assert_eq!(impact["decisions"][0]["without"], *accepted, "{impact}");
    // The preset's own counts of what was refused cannot be taken back.
    for corrected in [0, 2] {
        let ran = run(["rules", "correct", "ALL", "--last", "1h", "--json"].into_iter().chain(of_server), "");
        let done = ran.json().remove(0);
        assert_eq!(
            (&done["state"], &done["impact"]["corrected"]),
            (&"done".into(), &corrected.into()),
            "{done}"
        );
    }
    assert_eq!(action(&server), accepted);
    assert_eq!(server.end(Signal::TERM), Some(0));

    // Without a server all is as it was left.
    let shown = data.run(&["rules", "versions"], "").expect(0);
    assert!(shown.stdout.lines().next().unwrap().starts_with(&before), "{}", shown.stdout);
    assert!(shown.stdout.contains("in force") && shown.stderr.contains("a kept version"), "{shown:?}");
    let posted = data.run(&["rules", "post", &file], "").expect(0).stdout;
    assert!(posted.contains(&before) && posted.contains("rule.ALL"), "{posted}");
    let ran = data.run(&["check", "--json", "-"], MESSAGE).expect(0);
    assert_eq!(ran.json()[0]["action"], "reject");
    data.run(&["rules", "post", &bad], "").expect(1);
    data.run(&["rules", "rollback", "zzzz"], "").expect(2);
    data.run(&["rules", "promote"], "").expect(2);
}

#[test]
fn sighup_takes_over_what_files_say() {
    let data = Data::new(&["mail"]);
    let server = Server::start(&data.path(), &["--set", "node.watch=off"]);
    let before = ask(&server, &["versions"])["version"].clone();
    let config = data.path().join("tollhouse.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}\n{ALL}")).unwrap();
    assert_ne!(action(&server), "reject");
    server.signal(Signal::HUP);
    let started = Instant::now();
    while ask(&server, &["versions"])["version"] == before {
        assert!(started.elapsed() < Duration::from_secs(60), "nothing happened");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(action(&server), "reject");
    std::fs::write(&config, &text).unwrap();
    assert_eq!(ask(&server, &["reload"])["changes"][0]["after"], before);
}

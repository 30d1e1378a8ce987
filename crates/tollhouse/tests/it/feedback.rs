//! Labels of past decisions, one by one and as files; and folders of mail of which a server refuses one.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::program::{Data, MESSAGE, Server, run};

/// Decisions on so many messages, in the order of their numbers.
fn decided(data: &Data, count: usize) -> Vec<String> {
    let line = |at| {
        format!(
            "From a@example.com Thu Oct  3 20:04:09 1991\n{}\r\n",
            MESSAGE.replace("<1@", &format!("<{at}@"))
        )
    };
    let mbox = data.file("mail.mbox", &(0..count).map(line).collect::<String>());
    let ran = data.run(&["check", "--json", &mbox], "").expect(0);
    ran.json().iter().map(|decision| decision["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn labels_are_said_one_by_one_and_by_files() {
    let data = Data::new(&["mail"]);
    let ids = decided(&data, 5);
    let labels = || {
        let rows = data.run(&["export"], "").expect(0).json();
        rows.iter().map(|row| row["label"].as_str().unwrap_or("-").to_owned()).collect::<Vec<_>>()
    };
    let ran = data.run(&["feedback", &ids[0], "spam", "--json"], "").expect(0);
    let told = ran.json();
    assert_eq!((&told[0]["class"], &told[0]["standing"]), (&json!("spam"), &json!("operator")));
    let file = data.file("labels.csv", &format!("label,id\nham,{}\nspma,{}\nspam,nothing\n", ids[1], ids[2]));
    let ran = data.run(&["feedback", "--file", &file], "").expect(1);
    assert!(ran.stderr.contains("line 3: there is no feedback class `spma`"), "{}", ran.stderr);
    assert!(ran.stderr.contains("line 4: expected a decision id"), "{}", ran.stderr);
    assert!(ran.stderr.contains("1 labels accepted, 0 of them known before, 2 refused"), "{}", ran.stderr);
    // The same by a server.
    let server = Server::start(&data.path(), &[]);
    let lines = format!(
        "{{\"id\":\"{}\",\"class\":\"spam\",\"by\":\"ann\"}}\n{{\"id\":\"{}\",\"class\":\"ham\"}}\n{{\"id\":\"0000000000000\",\"class\":\"ham\"}}\n",
        ids[2], ids[1]
    );
    let ran = run(["feedback", "--server", &server.url, "--json", "-f", "-"], &lines).expect(1);
    let told = ran.json();
    assert_eq!(
        (told.len(), &told[0]["standing"], &told[1]["duplicate"]),
        (2, &json!("unknown"), &json!(true))
    );
    assert!(ran.stderr.contains("line 3: there is no decision 0000000000000"), "{}", ran.stderr);
    run(["feedback", "--server", &server.url, &ids[3], "ham", "--by", "bob"], "").expect(0);
    assert_eq!(server.end(Signal::TERM), Some(0));
    let mut known = labels();
    known.sort_unstable();
    assert_eq!(known, ["-", "ham", "ham", "spam", "spam"]);
}

#[test]
fn one_mail_that_a_server_refuses_is_named_and_the_rest_is_learned() {
    let data = Data::new(&["mail"]);
    let server = Server::start(&data.path(), &["--set", "server.body_max=1MiB"]);
    let folder = tempfile::tempdir().unwrap();
    for at in 0..4 {
        let filler = if at == 1 { "x".repeat(76) + "\r\n" } else { String::new() };
        let message = MESSAGE.replace("<1@", &format!("<{at}@")) + &filler.repeat(40_000);
        fs::write(folder.path().join(format!("{at}.eml")), message).unwrap();
    }
    let path = folder.path().to_str().unwrap();
    let ran = run(["learn", "--class", "spam", "--server", &server.url, path], "").expect(1);
    assert!(ran.stderr.contains("1.eml: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("3 messages learned as spam, 0 of them known before"), "{}", ran.stderr);
}

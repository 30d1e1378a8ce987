//! Tokens and the audit log at the command line.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::json;

use crate::program::{Data, Ran, Server, run};

/// The files of the audit log of a data directory, in their order.
fn audit_files(data: &Data) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(data.path().join("audit"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "ndjson"))
        .collect();
    files.sort();
    files
}

fn actions(ran: &Ran) -> Vec<String> {
    ran.json().iter().map(|entry| entry["action"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn tokens_are_made_shown_once_and_audited() {
    let data = Data::new(&["web"]);
    let made =
        data.run(&["token", "add", "site", "--scope", "decide,teach", "--expires", "90d"], "").expect(0);
    let token = made.stdout.trim();
    assert!(
        token.starts_with("toll_") && token.len() == 48 && made.stdout.lines().count() == 1,
        "{}",
        made.stdout
    );
    let again = data.run(&["token", "add", "site", "--scope", "decide"], "").expect(2);
    assert!(again.stderr.contains("there is a token `site` already"), "{}", again.stderr);
    let wrong = data.run(&["token", "add", "x", "--scope", "root"], "").expect(2);
    assert!(wrong.stderr.contains("`root` is no scope; there are: decide, teach"), "{}", wrong.stderr);
    let rotated = data.run(&["token", "rotate", "site", "--json"], "").expect(0).json();
    assert_ne!(rotated[0]["token"], token);
    let listed = data.run(&["token", "list", "--json"], "").expect(0);
    assert!(!listed.stdout.contains("toll_"), "{}", listed.stdout);
    let listed = listed.json();
    assert_eq!((&listed[0]["scopes"], &listed[0]["secrets"]), (&json!(["decide", "teach"]), &json!(2)));
    let table = data.run(&["token", "list"], "").expect(0).stdout;
    assert!(
        table.contains("site") && table.contains("never used") && table.contains("two secrets"),
        "{table}"
    );
    data.run(&["token", "remove", "site"], "").expect(0);
    data.run(&["token", "remove", "site"], "").expect(2);
    let log = data.run(&["audit", "--json"], "").expect(0);
    assert_eq!(actions(&log), ["audit.segment", "token.add", "token.rotate", "token.remove"]);
    assert!(log.json()[1]["by"].as_str().unwrap().contains("uid "), "{}", log.stdout);
    assert_eq!(log.json()[1]["detail"]["scopes"], "decide,teach");
}

#[test]
fn a_killed_server_loses_no_entry_and_a_changed_log_is_found() {
    let data = Data::new(&["web"]);
    let token = data.run(&["token", "add", "ann", "--scope", "rules,administer,read"], "").expect(0);
    let token = token.stdout.trim().to_owned();
    let server = Server::start(&data.path(), &[]);
    let lift = |number: usize| {
        let url = format!("{}/v1/bans?value=192.0.2.{number}", server.url);
        ureq::delete(&url).header("authorization", format!("Bearer {token}")).call().unwrap()
    };
    (0..20).for_each(|number| drop(lift(number)));
    let asked = run(
        ["audit", "--action", "ban", "--limit", "3", "--json", "--server", &server.url, "--token", &token],
        "",
    );
    let asked = asked.expect(0);
    assert_eq!(asked.json().len(), 3);
    let numbers: Vec<u64> = asked.json().iter().map(|entry| entry["number"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted(), "the latest, in the order in which they came: {numbers:?}");
    let verified =
        run(["audit", "--verify", "--json", "--server", &server.url, "--token", &token], "").expect(0).json();
    assert_eq!((&verified[0]["sound"], &verified[0]["fault_count"]), (&json!(true), &json!(0)));
    let noted =
        format!("{}:{}", verified[0]["head"]["number"], verified[0]["head"]["chain"].as_str().unwrap());
    run(["audit", "--verify", "--expect", &noted, "--server", &server.url, "--token", &token], "").expect(0);
    let forged = format!("3:{}", "ab".repeat(32));
    run(["audit", "--verify", "--expect", &forged, "--server", &server.url, "--token", &token], "").expect(1);
    let refused = run(["audit", "--server", &server.url, "--token", "wrong"], "").expect(2);
    assert!(refused.stderr.contains("not accepted"), "{}", refused.stderr);
    server.end(Signal::KILL);
    let log = data.run(&["audit", "--action", "ban.lift", "--json"], "").expect(0).json();
    assert_eq!(log.len(), 20, "each was written before it was answered");
    assert!(log.iter().all(|entry| entry["by"] == "ann" && entry["from"] == "127.0.0.1"), "{log:?}");
    let sound = data.run(&["audit", "--verify", "--json"], "").expect(0).json();
    assert_eq!((&sound[0]["sound"], &sound[0]["torn"]), (&json!(true), &json!(false)));
    let head = format!("{}:{}", sound[0]["head"]["number"], sound[0]["head"]["chain"].as_str().unwrap());
    data.run(&["audit", "--verify", "--expect", &head], "").expect(0);

    // A torn end is mended by the next writer; a changed line is found for good.
    let file = audit_files(&data).pop().unwrap();
    let whole = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{whole}{{\"number\":99,\"ti")).unwrap();
    let torn = data.run(&["audit", "--verify"], "").expect(0);
    assert!(torn.stderr.contains("not whole"), "{}", torn.stderr);
    data.run(&["token", "remove", "ann"], "").expect(0);
    data.run(&["audit", "--verify", "--expect", &head], "").expect(0);
    assert_eq!(actions(&data.run(&["audit", "--json", "--limit", "1"], "").expect(0)), ["token.remove"]);
    let changed = std::fs::read_to_string(&file).unwrap().replace("192.0.2.7\"", "192.0.2.8\"");
    std::fs::write(&file, changed).unwrap();
    let found = data.run(&["audit", "--verify"], "").expect(1);
    assert!(found.stdout.contains("it was changed, or a line before it"), "{}", found.stdout);
}

#[test]
fn snapshots_are_listed() {
    let data = Data::new(&["web"]);
    assert_eq!(data.run(&["snapshot", "--list", "--json"], "").expect(0).stdout, "");
    let server = Server::start(&data.path(), &[]);
    let name = run(["snapshot", "--server", &server.url], "").expect(0).stdout.trim().to_owned();
    let listed = run(["snapshot", "--list", "--json", "--server", &server.url], "").expect(0).json();
    assert_eq!((listed.len(), listed[0]["name"].as_str()), (1, Some(name.as_str())));
    assert!(listed[0]["bytes"].as_u64() > Some(0) && listed[0]["time"].is_string(), "{listed:?}");
    server.end(Signal::TERM);
    let text = data.run(&["snapshot", "--list"], "").expect(0).stdout;
    assert!(text.starts_with(&name) && text.lines().count() == 1, "{text}");
    data.run(&["snapshot", "--list", "elsewhere"], "").expect(2);
}

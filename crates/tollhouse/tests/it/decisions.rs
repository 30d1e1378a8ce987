//! Search in past decisions at the command line, held against the export of the same journal.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{Data, MESSAGE, Server, corpus, run};

#[test]
fn the_decisions_of_a_corpus_are_found_as_its_export_has_them() {
    let data = Data::new(&["mail", "web"]);
    data.run(&["replay", "--pipeline", "web", &corpus("web.log")], "").expect(0);
    data.run(&["check", &corpus("mail.mbox")], "").expect(0);
    let mut rows = data.run(&["export"], "").expect(0).json();
    rows.reverse();
    assert!(rows.len() > 300, "{}", rows.len());
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let check = |args: &[&str], fits: &dyn Fn(&Value) -> bool, some: bool| {
        let all = [&["decisions", "--json", "--limit", "1000000"][..], args].concat();
        let found = data.run(&all, "").expect(0).json();
        let found: Vec<&str> = found.iter().map(|row| row["id"].as_str().unwrap()).collect();
        let wanted: Vec<&str> =
            rows.iter().filter(|row| fits(row)).map(|row| row["id"].as_str().unwrap()).collect();
        assert_eq!(found, wanted, "{args:?}");
        assert_eq!(found.is_empty(), !some, "{args:?}");
    };
    check(&[], &|_| true, true);
    check(&["--pipeline", "mail"], &|row| row["pipeline"] == "mail", true);
    check(&["--action", "reject,tag"], &|row| row["action"] == "reject" || row["action"] == "tag", true);
    check(
        &["--score-from", "3", "--score-below", "7.5"],
        &|row| row["score"].as_f64().is_some_and(|score| (3.0..7.5).contains(&score)),
        true,
    );
    // An export has enforced rules alone, as JSON text.
    let rule = rows.iter().find_map(|row| {
        let rules: Vec<String> = serde_json::from_str(&text(row, "rules")).ok()?;
        rules.first().cloned()
    });
    let rule = rule.unwrap();
    check(&["--rule", &rule], &|row| text(row, "rules").contains(&format!("\"{rule}\"")), true);
    check(
        &["--text", "PHP", "--pipeline", "web"],
        &|row| {
            let texts = row.as_object().unwrap().iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
            let mut texts = texts.filter_map(|(_, value)| value.as_str());
            row["pipeline"] == "web" && texts.any(|text| text.to_lowercase().contains("php"))
        },
        true,
    );
    check(
        &["--where", "http.status >= 400 && http.path.contains('php')"],
        &|row| {
            row["http.status"].as_i64().is_some_and(|status| status >= 400)
                && text(row, "http.path").contains("php")
        },
        true,
    );
    let ip = rows.iter().find(|row| row["pipeline"] == "web").map(|row| text(row, "client.ip")).unwrap();
    check(&["--kind", "ip", "--value", &ip, "--pipeline", "web"], &|row| text(row, "client.ip") == ip, true);
    check(&["--labelled"], &|_| false, false);
    let id = text(&rows[3], "id");
    data.run(&["feedback", &id, "spam"], "").expect(0);
    check(&["--label", "spam"], &|row| row["id"] == id.as_str(), true);

    let table = data.run(&["decisions", "--limit", "5", "--facts", "http.path"], "").expect(0);
    assert_eq!(table.stdout.lines().count(), 5, "{}", table.stdout);
    assert!(table.stderr.contains("there are more"), "{}", table.stderr);
    let made = data.run(&["decisions", "--pipeline", "web", "--summary", "--json"], "").expect(0).json();
    let decisions: u64 = made[0]["decisions"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(decisions as usize, rows.iter().filter(|row| row["pipeline"] == "web").count());
    let page = data.run(&["decisions", "--pipeline", "web", "--summary", "--line", "reject=1"], "").expect(0);
    assert!(page.stdout.contains("reject from 1 instead of"), "{}", page.stdout);
    data.run(&["decisions", "--where", "http.statu > 1"], "").expect(2);
    let csv = ["decisions", "--pipeline", "web", "--csv", "--facts", "http.path,http.status", "--limit", "7"];
    let csv = data.run(&csv, "").expect(0).stdout;
    let head = "id,event_id,pipeline,version,time,action,score,probability,rules,shadow,label,http.path,http.status\r\n";
    assert!(csv.starts_with(head), "{csv}");
    assert_eq!(csv.lines().count(), 8, "{csv}");
    data.run(&["decisions", "--csv", "--facts", "*"], "").expect(2);
}

#[test]
fn what_strangers_sent_is_no_formula_in_csv() {
    let data = Data::new(&["web"]);
    let line =
        r#"192.0.2.7 - - [17/May/2026:09:00:00 +0000] "GET / HTTP/1.1" 200 10 "-" "=cmd|' /C calc'!A0""#;
    data.run(&["replay", "--pipeline", "web", "-"], line).expect(0);
    let csv = data.run(&["decisions", "--csv", "--facts", "http.agent"], "").expect(0).stdout;
    assert!(csv.contains(",\"'=cmd|"), "{csv}");
}

/// Columns of an export that are no facts.
const OWN: [&str; 12] = [
    "id",
    "pipeline",
    "version",
    "rules_version",
    "preset",
    "preset_version",
    "models",
    "event_id",
    "action",
    "rules",
    "effects",
    "label",
];

#[test]
fn decisions_of_a_server_are_followed() {
    let data = Data::new(&["mail"]);
    let server = Server::start(&data.path(), &[]);
    let decide = || {
        let checked = run(["check", "--json", "-", "--server", &server.url], MESSAGE).expect(0);
        checked.json()[0]["id"].as_str().unwrap().to_owned()
    };
    let first = decide();
    let mut follow = Command::new(env!("CARGO_BIN_EXE_tollhouse"))
        .args(["decisions", "--follow", "--json", "--server", &server.url])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut next = || {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        line["id"].as_str().unwrap().to_owned()
    };
    assert_eq!(next(), first);
    let later = [decide(), decide()];
    assert_eq!([next(), next()], later);
    kill_process(Pid::from_child(&follow), Signal::INT).unwrap();
    assert_eq!(follow.wait().unwrap().code(), Some(130));
    let listed = run(["decisions", "--json", "--server", &server.url], "").expect(0).json();
    assert_eq!(listed.len(), 3);
    assert_eq!(server.end(Signal::TERM), Some(0));
}

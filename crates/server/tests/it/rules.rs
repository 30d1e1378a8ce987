//! Rules changed while events are judged.

use std::collections::HashMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{JSON, TestServer, check_problem, directory, start, with_server};

const TOML: &str = "Content-Type: application/toml";

/// A pipeline of JSON objects: one counter and one rule.
const CONFIG: &str = r#"
name = "hits"
[[field]]
name = "ip"
type = "ip"
[[field]]
name = "size"
type = "integer"
[[kind]]
name = "ip"
of = "ip"
[[statistic]]
name = "counts"
keys = ["ip"]
counts = ["seen"]
windows = ["1m x 60", "1h x 48"]
[[rule]]
name = "LARGE"
when = "size > 10"
score = 1
[[rule]]
name = "MANY"
when = "ip.seen('1h') >= 1000000"
score = 1
[[band]]
at = 1.0
action = "reject"
[node]
watch = "off"
"#;

/// Rules that say the contrary.
const SMALL: &str = "[[rule]]\nname = \"LARGE\"\nwhen = \"size <= 10\"\n";

fn with_hits(config: &str, test: impl FnOnce(&engine::Directory, &TestServer)) {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    fs::write(directory.config_path(), config).unwrap();
    let running = start(&directory, &[]);
    test(&directory, &running);
    running.stop();
}

fn decide(running: &TestServer, size: i64) -> Value {
    let answer = running.post("/v1/decide", &[JSON], &format!("{{\"ip\":\"192.0.2.1\",\"size\":{size}}}"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

fn action(running: &TestServer, size: i64) -> String {
    decide(running, size)["action"].as_str().unwrap().to_owned()
}

#[track_caller]
fn changed(running: &TestServer, url: &str, body: &str) -> Value {
    let header = if body.starts_with('{') { JSON } else { TOML };
    let answer = running.post(url, &[header], body);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

fn version(running: &TestServer) -> String {
    running.get("/v1/rules").json()["version"].as_str().unwrap().to_owned()
}

#[test]
fn posted_rules_are_in_force_at_once_and_after_a_restart() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    fs::write(directory.config_path(), CONFIG).unwrap();
    let running = start(&directory, &[]);
    let before = version(&running);
    assert_eq!((action(&running, 11), action(&running, 1)), ("reject".to_owned(), "accept".to_owned()));

    let dry = changed(&running, "/v1/rules?dry_run=true", SMALL);
    assert_eq!(dry["changes"][0]["changed"], serde_json::json!(["rule.LARGE"]), "{dry}");
    assert_eq!((dry["dry_run"].as_bool(), version(&running)), (Some(true), before.clone()));

    let done = changed(&running, "/v1/rules", SMALL);
    let after = done["changes"][0]["after"].as_str().unwrap().to_owned();
    assert_eq!(done["changes"][0]["before"], before.as_str());
    assert_eq!(
        (dry["changes"][0]["after"].as_str(), version(&running)),
        (Some(after.as_str()), after.clone())
    );
    let decision = decide(&running, 1);
    assert_eq!((&decision["action"], &decision["version"]), (&"reject".into(), &after.as_str().into()));
    let logged = running.get(&format!("/v1/decisions/{}", decision["id"].as_str().unwrap())).json();
    assert_eq!(logged["version"], after.as_str());
    assert!(running.get("/metrics").body.contains(&format!("version=\"{after}\"")));
    running.stop();

    let running = start(&directory, &[]);
    assert_eq!((version(&running), action(&running, 1)), (after, "reject".to_owned()));
    // An empty text takes it away.
    changed(&running, "/v1/rules", "\n");
    assert_eq!((version(&running), action(&running, 1)), (before, "accept".to_owned()));
    running.stop();
}

#[test]
fn a_bad_set_is_refused_whole_and_the_old_stays() {
    with_hits(CONFIG, |directory, running| {
        let before = version(running);
        let bad = "[[rule]]\nname = \"LARGE\"\nwhen = \"size <= 10\"\n[[rule]]\nname = \"A\"\nwhen = \"sise > 1\"\nscore = 1\n\
            [[rule]]\nname = \"B\"\nwhen = \"ip.sen('1h') > 1\"\nscore = 1\n";
        let answer = running.post("/v1/rules", &[TOML], bad);
        check_problem(&answer, 422, "invalid-rules", "unknown name `sise`");
        let told = answer.json();
        let told: Vec<String> = told["problems"]
            .as_array()
            .unwrap()
            .iter()
            .map(|problem| {
                format!(
                    "{}:{}:{}: {}",
                    problem["file"].as_str().unwrap(),
                    problem["line"],
                    problem["column"],
                    problem["message"].as_str().unwrap()
                )
            })
            .collect();
        assert_eq!(
            told,
            ["posted rules:6:9: `A`: unknown name `sise`", "posted rules:10:12: `B`: unknown counter `sen`"]
        );
        let help = answer.json()["problems"][1]["help"].as_str().unwrap().to_owned();
        assert!(help.contains("did you mean `seen`?"), "{help}");
        assert_eq!((version(running), action(running, 11)), (before.clone(), "reject".to_owned()));

        let refused = |body: &str, detail: &str| {
            check_problem(&running.post("/v1/rules", &[TOML], body), 422, "invalid-rules", detail);
        };
        refused("[server]\nlisten = \"127.0.0.1:1\"\n", "[server] belongs to the node");
        refused("name = \"other\"\n", "`name` says what the pipeline is");
        refused("[[set]]\nname = \"s\"\ntype = \"string\"\nfile = \"/etc/passwd\"\n", "cannot name a file");
        refused("[[model]]\nname = \"m\"\nfile = \"../m.cbm\"\n", "cannot name a file");
        refused("[[rule]\n", "");
        refused(
            "[[statistic]]\nname = \"counts\"\ncounts = [\"seen\", \"more\"]\n",
            "cannot change while it is counted",
        );
        check_problem(&running.post("/v1/rules?pipeline=none", &[TOML], SMALL), 400, "unknown-name", "none");
        assert_eq!(running.ask("POST", "/v1/rules", &[TOML], b"\xff").status, 400);

        // The same for files that are read again.
        fs::write(directory.config_path(), CONFIG.replace("size > 10", "sise > 10")).unwrap();
        let answer = running.post("/v1/rules/reload", &[], "");
        check_problem(&answer, 422, "invalid-rules", "unknown name `sise`");
        assert_eq!(answer.json()["problems"][0]["file"], "tollhouse.toml");
        assert_eq!((version(running), action(running, 11)), (before, "reject".to_owned()));
        let page = running.get("/metrics").body;
        assert!(page.contains("tollhouse_rules_reloads_total{result=\"refused\"} 8"), "{page}");
    });
}

#[test]
fn tokens_are_wanted_of_those_who_change_rules() {
    with_server(&[("server.tokens", "[\"0123456789abcdef\"]")], |running| {
        for url in
            ["/v1/rules", "/v1/rules/reload", "/v1/rules/rollback", "/v1/rules/promote", "/v1/rules/canary"]
        {
            check_problem(&running.post(url, &[TOML], SMALL), 401, "unauthorized", "");
        }
    });
}

#[test]
fn new_rules_count_what_they_need_from_then_on() {
    with_hits(CONFIG, |_, running| {
        for _ in 0..3 {
            decide(running, 1);
        }
        // A window that nobody asked for, and a kind that nobody counted.
        let text = "[[kind]]\nname = \"size\"\nof = \"size\"\n\
            [[statistic]]\nname = \"sizes\"\nkeys = [\"size\"]\ncounts = [\"seen\"]\nwindows = [\"1m x 60\"]\n\
            [[rule]]\nname = \"AGAIN\"\nwhen = \"size.seen('10m') == 1 && ip.seen('10m') >= 3\"\nscore = 5\n";
        let done = changed(running, "/v1/rules", text);
        assert_eq!(done["changes"][0]["counted"], serde_json::json!(["size"]), "{done}");
        let fired = |decision: &Value| {
            let reasons = decision["reasons"].as_array().unwrap();
            reasons.iter().any(|reason| reason["name"] == "AGAIN")
        };
        let scored: Vec<bool> = (0..3).map(|_| fired(&decide(running, 1))).collect();
        assert_eq!(scored, [false, true, false], "the address was counted before, the size from now on");
    });
}

#[test]
fn changes_under_load_lose_no_event_and_mix_no_versions() {
    const THREADS: usize = 3;
    const CHANGES: usize = 12;
    with_hits(CONFIG, |_, running| {
        // What is said of a large event, by version.
        let known = Mutex::new(HashMap::from([(version(running), "reject")]));
        let stop = AtomicBool::new(false);
        let decided: u64 = thread::scope(|scope| {
            let worker = || {
                let mut decided = 0;
                let lines: String = (0..20).map(|_| "{\"ip\":\"192.0.2.1\",\"size\":11}\n").collect();
                while !stop.load(Ordering::Relaxed) {
                    let answer =
                        running.post("/v1/decide/batch", &["Content-Type: application/x-ndjson"], &lines);
                    assert_eq!(answer.status, 200);
                    for line in answer.body.lines() {
                        let line: Value = serde_json::from_str(line).unwrap();
                        let version = line["version"].as_str().unwrap();
                        let expected = known.lock().unwrap().get(version).copied();
                        let expected = expected.unwrap_or_else(|| panic!("the version {version} never was"));
                        assert_eq!(line["action"], expected, "{line}");
                        decided += 1;
                    }
                }
                decided
            };
            let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(worker)).collect();
            for change in 0..CHANGES {
                // A window more each time, so that statistics change under way, too.
                let window = 2 * change + 1;
                let mut text = format!(
                    "[[rule]]\nname = \"W\"\nwhen = \"ip.seen('{window}m') > 1\"\nscore = 0\nmode = \"shadow\"\n"
                );
                let said = if change % 2 == 0 { "accept" } else { "reject" };
                if said == "accept" {
                    text += SMALL;
                }
                let dry = changed(running, "/v1/rules?dry_run=true", &text);
                let version = dry["changes"][0]["after"].as_str().unwrap().to_owned();
                known.lock().unwrap().insert(version.clone(), said);
                changed(running, "/v1/rules", &text);
                assert_eq!(decide(running, 11)["version"], version.as_str(), "in force at once");
            }
            stop.store(true, Ordering::Relaxed);
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert!(decided > 0);
        let known = running.get("/v1/timeline?kind=ip&value=192.0.2.1").json();
        let seen: u64 = known["tiers"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|tier| tier["buckets"].as_array().unwrap())
            .map(|bucket| bucket["counts"]["seen"].as_u64().unwrap())
            .sum();
        assert_eq!(seen, decided + CHANGES as u64, "every event was counted once");
    });
}

#[test]
fn a_version_is_gone_back_to_until_files_or_posts_say_otherwise() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let list = directory.path().join("list.txt");
    let with_list = format!(
        "{CONFIG}[[set]]\nname = \"odd\"\ntype = \"integer\"\nfile = \"list.txt\"\n\
        [[rule]]\nname = \"ODD\"\nwhen = \"size in odd\"\nscore = 1\n"
    );
    fs::write(&list, "3\n").unwrap();
    fs::write(directory.config_path(), &with_list).unwrap();
    let running = start(&directory, &[]);
    let first = version(&running);
    assert_eq!((action(&running, 3), action(&running, 5)), ("reject".to_owned(), "accept".to_owned()));
    // The list is part of the version.
    fs::write(&list, "5\n").unwrap();
    let done = changed(&running, "/v1/rules/reload", "");
    assert_eq!(done["changes"].as_array().unwrap().len(), 1, "{done}");
    let second = version(&running);
    assert_ne!(first, second);
    assert_eq!((action(&running, 3), action(&running, 5)), ("accept".to_owned(), "reject".to_owned()));

    // By as much of the version as tells it apart; whatever has become of the files.
    fs::write(directory.config_path(), format!("{with_list}[[rule")).unwrap();
    let back = changed(&running, "/v1/rules/rollback", &format!("{{\"version\":\"{}\"}}", &first[..6]));
    assert_eq!(
        (back["changes"][0]["after"].as_str(), version(&running)),
        (Some(first.as_str()), first.clone())
    );
    assert_eq!((action(&running, 3), action(&running, 5)), ("reject".to_owned(), "accept".to_owned()));
    let info = running.get("/v1/rules").json();
    let listed: Vec<&str> =
        info["versions"].as_array().unwrap().iter().map(|it| it["version"].as_str().unwrap()).collect();
    assert_eq!(
        (info["back"].as_bool(), listed),
        (Some(true), vec![first.as_str(), second.as_str()]),
        "{info}"
    );
    running.stop();

    // Mended as they were when it was gone back: the version stays, also after a restart.
    fs::write(directory.config_path(), &with_list).unwrap();
    let running = start(&directory, &[]);
    // They were broken then and are not now, so they speak.
    assert_eq!(version(&running), second);
    changed(&running, "/v1/rules/rollback", &format!("{{\"version\":\"{first}\"}}"));
    running.stop();
    let running = start(&directory, &[]);
    assert_eq!((version(&running), action(&running, 3)), (first.clone(), "reject".to_owned()));
    assert!(changed(&running, "/v1/rules/reload", "")["changes"].as_array().unwrap().is_empty());
    fs::write(&list, "7\n").unwrap();
    changed(&running, "/v1/rules/reload", "");
    assert_eq!((action(&running, 3), action(&running, 7)), ("accept".to_owned(), "reject".to_owned()));
    changed(&running, "/v1/rules/rollback", &format!("{{\"version\":\"{first}\"}}"));
    changed(&running, "/v1/rules", "[[rule]]\nname = \"ODD\"\nscore = 0\n");
    assert_eq!(action(&running, 7), "accept");
    assert_eq!(running.get("/v1/rules").json()["back"], false);
    let answer = running.post("/v1/rules/rollback", &[JSON], "{\"version\":\"ffff\"}");
    check_problem(&answer, 422, "not-applicable", "`ffff` is no version of `hits` that is kept");
    running.stop();
}

#[test]
fn files_that_change_are_taken_over_by_themselves() {
    let watched = CONFIG.replace("watch = \"off\"", "watch = \"100ms\"");
    with_hits(&watched, |directory, running| {
        let before = version(running);
        let until = |done: &dyn Fn() -> bool| {
            let started = Instant::now();
            while !done() {
                assert!(started.elapsed() < Duration::from_secs(60), "nothing happened");
                thread::sleep(Duration::from_millis(20));
            }
        };
        fs::write(directory.config_path(), watched.replace("size > 10", "sise > 10")).unwrap();
        until(&|| {
            running.get("/metrics").body.contains("tollhouse_rules_reloads_total{result=\"refused\"} 1")
        });
        assert_eq!(version(running), before);
        // Replaced, as editors do it.
        let new = directory.path().join("new.toml");
        fs::write(&new, watched.replace("size > 10", "size > 20")).unwrap();
        fs::rename(&new, directory.config_path()).unwrap();
        until(&|| version(running) != before);
        assert_eq!((action(running, 11), action(running, 21)), ("accept".to_owned(), "reject".to_owned()));
        // Settings of the node wait for a restart.
        let text = format!("{}[server]\nbatch_max = 7\n", watched.replace("size > 10", "size > 20"));
        fs::write(directory.config_path(), text).unwrap();
        let told = changed(running, "/v1/rules/reload", "");
        assert_eq!(told["restart"], serde_json::json!(["[server]"]), "{told}");
    });
}

#[test]
fn a_candidate_is_judged_beside_and_changes_nothing() {
    let config = format!(
        "{CONFIG}[[label]]\nname = \"odd\"\nof = \"ip\"\nkeep = \"7d\"\n\
        [[rule]]\nname = \"MARKED\"\nwhen = \"ip.marked('odd')\"\nscore = 0\n"
    );
    with_hits(&config, |_, running| {
        check_problem(&running.get("/v1/rules/comparison"), 404, "not-found", "no candidate");
        check_problem(&running.post("/v1/rules/promote", &[], ""), 422, "not-applicable", "no candidate");
        let before = version(running);
        let text = "[[rule]]\nname = \"LARGE\"\nwhen = \"size > 5\"\neffects = [\"mark ip as odd for 1d\", \"set quarantine\"]\n\
            [[rule]]\nname = \"ZERO\"\nwhen = \"size == 0\"\nscore = 0.5\n";
        let done = changed(running, "/v1/rules?candidate=true", text);
        let candidate = done["changes"][0]["candidate"].as_str().unwrap().to_owned();
        assert_eq!(
            (version(running), &done["changes"][0]["after"]),
            (before.clone(), &before.as_str().into())
        );
        for size in [11, 7, 7, 7, 1, 0] {
            let decision = decide(running, size);
            assert_eq!(decision["action"], if size > 10 { "reject" } else { "accept" });
            assert_eq!(decision["version"], before.as_str());
            assert!(
                !decision.to_string().contains("MARKED"),
                "the candidate has marked something: {decision}"
            );
        }
        let told = running.get("/v1/rules/comparison").json();
        let of = |name: &str| told[name].as_u64().unwrap();
        assert_eq!((of("events"), of("disagreements"), of("rescored")), (6, 4, 1), "{told}");
        assert_eq!(
            told["actions"],
            serde_json::json!({"accept": {"accept": 2, "quarantine": 3}, "reject": {"quarantine": 1}})
        );
        assert_eq!(
            (&told["version"], &told["candidate"]),
            (&before.as_str().into(), &candidate.as_str().into())
        );
        let examples = told["examples"].as_array().unwrap();
        assert_eq!(examples.len(), 4);
        assert_eq!(
            examples[3]["enforced"],
            serde_json::json!({"action": "reject", "score": 1.0, "rules": ["LARGE"]})
        );
        assert_eq!(
            examples[0]["candidate"],
            serde_json::json!({"action": "quarantine", "score": 1.0, "rules": ["LARGE"]})
        );
        let logged = running.get(&format!("/v1/decisions/{}", examples[0]["id"].as_str().unwrap()));
        assert_eq!(logged.json()["facts"]["size"], 7, "{}", logged.body);
        let page = running.get("/metrics").body;
        let counted = "tollhouse_candidate_disagreements_total{pipeline=\"hits\",enforced=\"accept\",candidate=\"quarantine\"} 3";
        assert!(page.contains(counted) && page.contains("role=\"candidate\""), "{page}");

        // What nobody fills is named, and what is counted is not a candidate's to change.
        let refused = |body: &str, detail: &str| {
            check_problem(
                &running.post("/v1/rules?candidate=true", &[TOML], body),
                422,
                "invalid-rules",
                detail,
            );
        };
        refused(
            "[[rule]]\nname = \"A\"\nwhen = \"ip.seen('30m') > 1\"\nscore = 1\n",
            "the pipeline does not fill `ip.seen('30m')`",
        );
        refused("[[kind]]\nname = \"size\"\nof = \"size\"\n", "changes what is counted");
        assert_eq!(running.get("/v1/rules").json()["candidate"], candidate.as_str());

        let done = changed(running, "/v1/rules/promote", "");
        assert_eq!(done["changes"][0]["after"], candidate.as_str(), "it is what was compared");
        assert_eq!(action(running, 7), "quarantine");
        assert!(decide(running, 1).to_string().contains("MARKED"), "now it marks");
        check_problem(&running.get("/v1/rules/comparison"), 404, "not-found", "no candidate");
    });
}

#[test]
fn a_canary_decides_and_says_so() {
    with_hits(CONFIG, |_, running| {
        let canary = |body: &str| running.post("/v1/rules/canary", &[JSON], body);
        check_problem(&canary("{\"share\": 0.5}"), 422, "not-applicable", "no candidate");
        let done = changed(running, "/v1/rules?candidate=true", SMALL);
        let candidate = done["changes"][0]["candidate"].as_str().unwrap().to_owned();
        for (body, detail) in [
            ("{}", "one of them is missing"),
            ("{\"share\": 1.5}", "1.5 is not from 0 to 1"),
            ("{\"share\": -1}", "-1 is not from 0 to 1"),
            ("{\"nodes\": [1]}", "there is no node 1"),
        ] {
            check_problem(&canary(body), 400, "invalid-parameter", detail);
        }
        let before = version(running);
        let done = changed(running, "/v1/rules/canary", "{\"share\": 1.0}");
        assert_eq!(done["changes"][0]["canary"], serde_json::json!({"share": 1.0}), "{done}");
        assert_eq!(running.get("/v1/rules").json()["canary"]["share"], 1.0);
        let decision = decide(running, 1);
        assert_eq!(
            (&decision["action"], &decision["version"]),
            (&"reject".into(), &candidate.as_str().into())
        );
        assert_eq!(version(running), before, "what is in force is as it was");
        let explained = running.get(&format!("/v1/decisions/{}", decision["id"].as_str().unwrap())).json();
        assert_eq!(explained["version"], candidate.as_str(), "{explained}");
        assert!(explained["reasons"].to_string().contains("DECIDED_BY_CANDIDATE"), "{explained}");
        let told = running.get("/v1/rules/comparison").json();
        assert_eq!(
            (&told["decided"], &told["actions"]),
            (&1.into(), &serde_json::json!({"accept": {"reject": 1}})),
            "{told}"
        );
        let page = running.get("/metrics").body;
        for counted in [
            "tollhouse_canary_decisions_total{pipeline=\"hits\"} 1",
            "tollhouse_candidate_disagreements_total{pipeline=\"hits\",enforced=\"accept\",candidate=\"reject\"} 1",
        ] {
            assert!(page.contains(counted), "{counted}: {page}");
        }
        changed(running, "/v1/rules/canary", "{\"share\": 0}");
        assert_eq!((action(running, 1), version(running)), ("accept".to_owned(), before.clone()));
        changed(running, "/v1/rules/canary", "{\"share\": 1}");
        assert_eq!(action(running, 1), "reject");
        changed(running, "/v1/rules?candidate=true", "");
        assert_eq!(action(running, 1), "accept", "dropped");
    });
}

#[test]
fn a_file_can_be_the_candidate() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    fs::write(directory.config_path(), format!("candidate = \"next.toml\"\n{CONFIG}")).unwrap();
    fs::write(directory.path().join("next.toml"), SMALL).unwrap();
    let running = start(&directory, &[]);
    let plain = version(&running);
    action(&running, 1);
    assert_eq!(running.get("/v1/rules/comparison").json()["disagreements"], 1);
    // What goes on being compared is not begun anew by a change of something else.
    assert!(changed(&running, "/v1/rules/reload", "")["changes"].as_array().unwrap().is_empty());
    assert_eq!(running.get("/v1/rules/comparison").json()["disagreements"], 1);
    fs::write(directory.path().join("next.toml"), "").unwrap();
    changed(&running, "/v1/rules/reload", "");
    action(&running, 1);
    let told = running.get("/v1/rules/comparison").json();
    assert_eq!((&told["disagreements"], &told["version"]), (&0.into(), &plain.as_str().into()));
    running.stop();
}

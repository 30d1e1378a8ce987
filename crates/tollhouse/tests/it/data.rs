//! Data directories and what is kept in them.

use std::fs;

use crate::program::{Data, MESSAGE, corpus, run};

#[test]
fn a_data_directory_is_made_once() {
    let data = Data::new(&["mail", "web"]);
    let secret = fs::read(data.path().join("secret")).unwrap();
    let again = data.run(&["init"], "").expect(2);
    assert!(again.stderr.contains("already is a data directory"), "{}", again.stderr);
    assert_eq!(fs::read(data.path().join("secret")).unwrap(), secret);
}

#[test]
fn nothing_starts_without_the_secret() {
    let data = Data::new(&["mail"]);
    fs::remove_file(data.path().join("secret")).unwrap();
    for args in [["serve", "--listen", "127.0.0.1:0"].as_slice(), &["check", "-"]] {
        let ran = data.run(args, MESSAGE).expect(2);
        assert!(ran.stderr.contains("is no data directory"), "{}", ran.stderr);
    }
}

#[test]
fn a_decision_is_explained_after_a_restart() {
    let data = Data::new(&["mail"]);
    let decided = data.run(&["check", "--json", "-"], MESSAGE).expect(0).json().remove(0);
    let id = decided["id"].as_str().unwrap();
    let explained = data.run(&["explain", "--json", id], "").expect(0).json().remove(0);
    for member in ["id", "action", "score", "reasons", "version", "time"] {
        assert_eq!(explained[member], decided[member], "{member}");
    }
    assert_eq!(explained["facts"]["mail.from"], "cheap@example.com");
    assert!(explained["keys"].as_array().unwrap().iter().any(|key| key["piece"] == "cheap@example.com"));

    let drawn = data.run(&["explain", id], "").expect(0).stdout;
    for part in ["tag", "LINK_TO_ADDRESS", "quarantine at", "cheap@example.com", "mail.link_ip_host"] {
        assert!(drawn.contains(part), "{part} is missing in {drawn}");
    }
    let unknown = data.run(&["explain", "0000000000000"], "").expect(2);
    assert!(unknown.stderr.contains("there is no decision"), "{}", unknown.stderr);
    data.run(&["explain", "not-an-id"], "").expect(2);
}

#[test]
fn what_events_bring_does_not_reach_the_terminal_raw() {
    let data = Data::new(&["mail"]);
    let message = MESSAGE.replace("BUY THIS NOW", "BUY =?utf-8?q?=1B]0;gone=07_=E2=80=AE?= NOW");
    let decided = data.run(&["check", "--json", "-"], &message).expect(0).json().remove(0);
    let drawn = data.run(&["explain", decided["id"].as_str().unwrap()], "").expect(0).stdout;
    assert!(drawn.contains("]0;gone") && drawn.contains("\\u{202e}"), "{drawn}");
    assert!(!drawn.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{drawn}");
}

#[test]
fn statistics_are_shown() {
    let data = Data::new(&["mail"]);
    for _ in 0..3 {
        data.run(&["check", "-"], MESSAGE).expect(0);
    }
    let object = data.run(&["stats", "--json", "from", "Cheap@EXAMPLE.com"], "").expect(0).json().remove(0);
    assert_eq!(object["piece"], "cheap@example.com");
    let seen: u64 = object["tiers"][0]["buckets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bucket| bucket["counts"]["seen"].as_u64().unwrap())
        .sum();
    assert_eq!(seen, 3);
    let drawn = data.run(&["stats", "from", "cheap@example.com"], "").expect(0).stdout;
    assert!(drawn.contains("seen") && drawn.contains('█'), "{drawn}");
    let never = data.run(&["stats", "from", "nobody@example.com"], "").expect(0).stdout;
    assert!(never.contains("nothing is known"), "{never}");
    let unknown = data.run(&["stats", "form", "x"], "").expect(2);
    assert!(unknown.stderr.contains("did you mean `from`?"), "{}", unknown.stderr);

    let years_ago = ["--from", "2001-01-01", "--to", "2001-01-02"];
    let args = [&["stats", "--json", "from", "cheap@example.com"][..], &years_ago].concat();
    assert_eq!(data.run(&args, "").expect(0).json().remove(0)["tiers"], serde_json::json!([]));
    let args = ["stats", "from", "cheap@example.com", "--from", "2001-01-02", "--to", "2001-01-02"];
    assert!(data.run(&args, "").expect(2).stderr.contains("--to is not after --from"));
}

#[test]
fn many_keys_are_read_at_once() {
    let data = Data::new(&["mail"]);
    for _ in 0..3 {
        data.run(&["check", "-"], MESSAGE).expect(0);
    }
    let asked = "from  Cheap@EXAMPLE.com\n\nfrom nobody@example.com\nsubject no such thing\n";
    let told = data.run(&["stats", "--json", "--keys", "-"], asked).expect(0).json().remove(0);
    let keys = told["keys"].as_array().unwrap();
    let pieces: Vec<_> = keys.iter().map(|key| key["piece"].as_str().unwrap()).collect();
    assert_eq!(pieces[..2], ["cheap@example.com", "nobody@example.com"]);
    assert_eq!((keys.len(), &keys[1]["first"]), (3, &serde_json::Value::Null));
    let one = data.run(&["stats", "--json", "from", "cheap@example.com"], "").expect(0).json().remove(0);
    assert_eq!((&keys[0]["windows"], &keys[0]["last"]), (&one["windows"], &one["last"]));
    let drawn = data.run(&["stats", "--keys", "-"], asked).expect(0).stdout;
    assert!(drawn.contains("cheap@example.com") && drawn.contains("never seen"), "{drawn}");
    let wrong = data.run(&["stats", "--keys", "-"], "from a@example.com\nfrom\n").expect(2);
    assert!(wrong.stderr.contains("-:2: expected a kind, a blank and a value"), "{}", wrong.stderr);
    let wrong = data.run(&["stats", "--keys", "-"], "from a@example.com\nform b\n").expect(2);
    assert!(wrong.stderr.contains("keys[1]: "), "{}", wrong.stderr);
    data.run(&["stats", "--keys", "-", "from", "a@example.com"], "").expect(2);
}

#[test]
fn the_hottest_keys_are_shown() {
    let data = Data::new(&["mail", "web"]);
    data.run(&["replay", "--pipeline", "web", &corpus("web.log")], "").expect(0);
    let args = ["top", "--json", "ip", "--pipeline", "web", "--window", "1d", "--at", "2025-06-10T08:40:00Z"];
    let top = data.run(&args, "").expect(0).json().remove(0);
    let shape =
        ["pipeline", "kind", "counter", "window"].map(|member| top[member].as_str().unwrap().to_owned());
    assert_eq!(shape, ["web", "ip", "seen", "1d"]);
    let counts: Vec<u64> =
        top["keys"].as_array().unwrap().iter().map(|key| key["count"].as_u64().unwrap()).collect();
    assert!(!counts.is_empty() && counts.is_sorted_by(|a, b| a >= b), "{top}");
    assert_eq!(top["keys"][0]["piece"], "127.0.0.1");
    let unknown = data.run(&["top", "ip", "--pipeline", "web", "--window", "400d"], "").expect(2);
    assert!(unknown.stderr.contains("400d"), "{}", unknown.stderr);
}

#[test]
fn decisions_are_exported() {
    let data = Data::new(&["mail"]);
    let mail = corpus("mail.mbox");
    let count = data.run(&["check", "--json", "--message-time", &mail], "").expect(0).json().len();
    let rows = data.run(&["export"], "").expect(0).json();
    assert_eq!(rows.len(), count);
    assert!(rows.iter().all(|row| row["id"].is_string() && row["action"].is_string()), "{}", rows[0]);
    let later = data.run(&["export", "--from", "2020-01-01"], "").expect(0).json();
    assert!(!later.is_empty() && later.len() < count);

    let out = data.file("rows.parquet", "");
    fs::remove_file(&out).unwrap();
    data.run(&["export", "--format", "parquet", "-o", &out], "").expect(0);
    assert!(fs::read(&out).unwrap().starts_with(b"PAR1"));
    let kept = data.run(&["export", "-o", &out], "").expect(2);
    assert!(kept.stderr.contains("exists"), "{}", kept.stderr);
}

#[test]
fn a_configuration_is_checked() {
    let data = Data::new(&["mail"]);
    let config = data.path().join("tollhouse.toml");
    let fine = run(["config", "check", config.to_str().unwrap()], "").expect(0);
    assert_eq!(fine.stdout, "");
    let bad = data.file("bad.toml", "preset = \"mail\"\nsapce = 3\n\n[server]\nbody_max = \"huge\"\n");
    let ran = run(["config", "check", &bad], "").expect(1);
    assert!(ran.stderr.contains(&format!("{bad}:2:1: error: unknown key `sapce`")), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("{bad}:5:12: error: ")), "{}", ran.stderr);
    let problems = run(["config", "check", "--json", &bad], "").expect(1).json();
    let places: Vec<(u64, u64)> =
        problems.iter().map(|p| (p["line"].as_u64().unwrap(), p["column"].as_u64().unwrap())).collect();
    assert_eq!(places, [(2, 1), (5, 12)]);
    let rule = "preset = \"mail\"\n\n[[rule]]\nname = \"X\"\nwhen = \"mail.szie > 3\"\nscore = 1\n";
    let rule = data.file("rule.toml", rule);
    let ran = run(["config", "check", &rule], "").expect(1);
    assert!(ran.stderr.contains(&format!("{rule}:5:9: error: ")), "{}", ran.stderr);
    assert!(ran.stderr.contains("`mail.size`"), "{}", ran.stderr);
    // To a command that wanted to work by it, the same is an error of its environment.
    run(["check", "--config", &bad, "-"], MESSAGE).expect(2);
}

#[test]
fn effective_values_name_their_origin() {
    let data = Data::new(&["mail"]);
    let args = ["config", "check", "--effective", "--json", "--set", "ledger.durability=sync"];
    let values = data.run(&args, "").expect(0).json();
    let origin = |path: &str| {
        let value = values.iter().find(|value| value["path"] == path).unwrap_or_else(|| panic!("{path}"));
        value["origin"].as_str().unwrap().split(' ').next().unwrap().to_owned()
    };
    assert_eq!(origin("ledger.durability"), "flag");
    assert_eq!(origin("server.listen"), "file");
    assert_eq!(origin("server.body_max"), "default");
    assert_eq!(origin("band.tag.at"), "preset");
}

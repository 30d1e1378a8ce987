//! A server that is killed again and again has what it promised. `KILLS=100 cargo test -p tollhouse --test it kills` kills
//! each hundred times.

use rustix::process::Signal;

use crate::program::{Data, Server, run};

/// Decisions whose answers came.
fn decided(server: &Server, count: usize, agent: &ureq::Agent) -> Vec<String> {
    let url = format!("{}/v1/decide?pipeline=web", server.url);
    let body = r#"{"client.ip":"192.0.2.9","http.path":"/x","http.method":"GET","http.status":200}"#;
    let decide = |_| {
        let answer = agent.post(&url).header("Content-Type", "application/json").send(body).unwrap();
        let answer: serde_json::Value =
            serde_json::from_str(&answer.into_body().read_to_string().unwrap()).unwrap();
        answer["id"].as_str().unwrap().to_owned()
    };
    (0..count).map(decide).collect()
}

/// Waits until nothing of the journal waits to be written.
fn settled(server: &Server, agent: &ureq::Agent) {
    let waits = || {
        let text = agent.get(format!("{}/metrics", server.url)).call().unwrap();
        let text = text.into_body().read_to_string().unwrap();
        let line = text.lines().find(|line| line.starts_with("tollhouse_journal_pending_bytes")).unwrap();
        !line.ends_with(" 0")
    };
    while waits() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// After each kill all that was promised is there, nothing is damaged, and what is lost is the end of what was answered.
fn check(durability: &str) {
    let kills = std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(3);
    let data = Data::new(&["web"]);
    let set = format!("ledger.durability={durability}");
    let mut rounds: Vec<(usize, Vec<String>)> = Vec::new();
    for round in 0..kills {
        let server = Server::start(&data.path(), &["--set", &set, "--set", "journal.segment=64KiB"]);
        let agent = ureq::Agent::new_with_defaults();
        let mut ids = decided(&server, 20 + round % 30, &agent);
        if durability != "sync" {
            settled(&server, &agent);
        }
        let promised = ids.len();
        ids.extend(decided(&server, 1 + round % 7, &agent));
        let promised = if durability == "sync" { ids.len() } else { promised };
        rounds.push((promised, ids));
        assert_eq!(server.end(Signal::KILL), None);
    }
    data.run(&["verify"], "").expect(0);
    let rows = data.run(&["export", "--format", "ndjson"], "").expect(0).stdout;
    for (promised, ids) in rounds {
        let is_there = |id: &String| rows.contains(&format!("\"id\":\"{id}\""));
        let kept = ids.iter().take_while(|id| is_there(id)).count();
        assert!(kept >= promised, "{durability}: {kept} of {promised} promised decisions");
        assert!(!ids[kept..].iter().any(is_there), "{durability}: one was lost in the middle");
    }
}

#[test]
fn with_sync_nothing_that_was_answered_is_lost() {
    check("sync");
}

#[test]
fn with_an_interval_nothing_older_is_lost() {
    check("1s");
}

/// The linear model's log-odds of a text, which is decided for it; the decision's id.
fn odds(server: &Server, text: &str, agent: &ureq::Agent) -> (Option<f64>, String) {
    let body =
        serde_json::json!({"user": "ann", "ip": "192.0.2.9", "place": "thread", "text": text}).to_string();
    let url = format!("{}/v1/decide?pipeline=comments", server.url);
    let answer = agent.post(&url).header("Content-Type", "application/json").send(body).unwrap();
    let answer: serde_json::Value =
        serde_json::from_str(&answer.into_body().read_to_string().unwrap()).unwrap();
    let id = answer["id"].as_str().unwrap().to_owned();
    let told = agent.get(format!("{}/v1/decisions/{id}", server.url)).call().unwrap();
    let told: serde_json::Value = serde_json::from_str(&told.into_body().read_to_string().unwrap()).unwrap();
    (told["facts"]["learned.linear"].as_f64(), id)
}

/// A linear model knows each example that was answered after every kill, and learns none twice.
#[test]
fn a_linear_model_knows_every_example_that_was_answered() {
    let data = Data::new(&["comments"]);
    let start = || Server::start(&data.path(), &["--set", "ledger.durability=sync"]);
    let texts = [
        ("spam", "Cheap pills and a casino bonus for you at pills.example"),
        ("ham", "Thank you for the patch, I have read it and it works here"),
    ];
    let probe = "A casino bonus of cheap pills, thank you";
    let mut known = None;
    for round in 0..4 {
        let server = start();
        let agent = ureq::Agent::new_with_defaults();
        assert_eq!(odds(&server, probe, &agent).0, known, "round {round}");
        for (class, text) in texts {
            let (_, id) = odds(&server, &format!("{text} {round}"), &agent);
            let url = format!("{}/v1/feedback", server.url);
            let body = serde_json::json!({"id": id, "class": class}).to_string();
            agent.post(&url).header("Content-Type", "application/json").send(body).unwrap();
        }
        let before = known;
        known = odds(&server, probe, &agent).0;
        assert!(known.is_some() && known != before, "round {round}: {known:?}");
        assert_eq!(server.end(Signal::KILL), None);
    }
    data.run(&["verify"], "").expect(0);

    // Models that are lost are made anew of the decisions that were judged.
    for entry in std::fs::read_dir(data.path()).unwrap().map(|entry| entry.unwrap()) {
        if entry.file_name().to_string_lossy().starts_with("learners.") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    let made = data.run(&["learn", "--from-journal", "--json"], "").expect(0).stdout;
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    assert_eq!(made["examples"], serde_json::json!({"good": 4, "bad": 4}), "{made}");
    assert_eq!((&made["adopt"], &made["undescribed"]), (&true.into(), &0.into()), "{made}");
    let server = start();
    let agent = ureq::Agent::new_with_defaults();
    assert!(odds(&server, texts[0].1, &agent).0.unwrap() > 1.0);

    // A running server makes them, too: shown first, then used, and killed at once.
    let asked = ["learn", "--from-journal", "--server", &server.url];
    let shown = run([&asked[..], &["--dry-run"]].concat(), "").expect(0).stdout;
    assert!(shown.contains("good, taken for bad") && shown.contains("0 of 2"), "{shown}");
    let made = run([&asked[..], &["--json"]].concat(), "").expect(0).stdout;
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    assert_eq!((&made["adopt"], &made["examples"]), (&true.into(), &made["known"]), "{made}");
    let known = odds(&server, probe, &agent).0;
    assert_eq!(server.end(Signal::KILL), None);
    let server = start();
    assert_eq!(odds(&server, probe, &agent).0, known);
}

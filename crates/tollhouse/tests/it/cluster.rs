//! Statistics that move from a data directory into a cluster, and nodes that go on with them there.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::program::{Data, Server, run};
use crate::servers::Cluster;

/// Log lines of the last minutes, in which few addresses ask for many paths.
fn log(lines: std::ops::Range<usize>) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    lines
        .map(|number| {
            let time = event::Time::from_seconds(now.cast_signed() - 600 + number as i64).to_string();
            let [year, month, day, clock] = [&time[..4], &time[5..7], &time[8..10], &time[11..19]];
            let month = months[month.parse::<usize>().unwrap() - 1];
            format!(
                "192.0.2.{} - - [{day}/{month}/{year}:{clock} +0000] \"GET /{} HTTP/1.1\" {} 1 \"-\" \"curl/8\"\n",
                number * number % 7 + number / 100 * 20,
                number % 13,
                [200, 404][number % 2],
            )
        })
        .collect()
}

/// Returns the decisions on each line, but for the names of the decisions.
fn decided(server: &Server, lines: &str) -> Vec<Value> {
    let sent = ureq::post(format!("{}/v1/decide/batch", server.url)).content_type("text/plain").send(lines);
    let text = sent.unwrap().body_mut().read_to_string().unwrap();
    let decision = |line: &str| {
        let mut decision: Value = serde_json::from_str(line).unwrap();
        decision.as_object_mut().unwrap().remove("id");
        decision
    };
    text.lines().map(decision).collect()
}

fn counts(ran: &Value) -> [u64; 3] {
    ["same", "created", "changed"].map(|name| ran[name].as_u64().unwrap())
}

#[test]
fn statistics_move_into_a_cluster_while_they_are_counted() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let old = Data::new(&["web"]);
    let server = Server::start(&old.path(), &[]);
    assert_eq!(decided(&server, &log(0..300)).len(), 300);
    run(["snapshot", "--server", &server.url], "").expect(0);
    assert_eq!(decided(&server, &log(300..400)).len(), 100);

    let new = Data::new(&["web"]);
    fs::copy(old.path().join("secret"), new.path().join("secret")).unwrap();
    let address = cluster.servers[0].address();
    let config = new.path().join("tollhouse.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}\n[cluster]\nnodes = [\"{address}\"]\n")).unwrap();

    let snapshots: Vec<_> = fs::read_dir(old.path().join("snapshots")).unwrap().collect();
    let snapshot = snapshots[0].as_ref().unwrap().path();
    let first = export(&snapshot, &old.file("first.ndjson.zst", ""));
    let [same, created, changed] = counts(&new.run(&["import", "--json", &first], "").expect(0).json()[0]);
    assert!(same == 0 && created > 50 && changed == 0, "{same} {created} {changed}");
    let compared = new.run(&["import", "--json", "--compare", &first], "").expect(0);
    assert_eq!(counts(&compared.json()[0]), [created, 0, 0]);

    assert_eq!(server.end(Signal::TERM), Some(0));
    let last = export(&old.path(), &old.file("last.ndjson.zst", ""));
    let compared = new.run(&["import", "--json", "--compare", &last], "").expect(1);
    let [_, missing, otherwise] = counts(&compared.json()[0]);
    assert!(missing > 0 && otherwise > 0, "{missing} {otherwise}");
    let imported = new.run(&["import", "--json", &last], "").expect(0);
    assert_eq!(counts(&imported.json()[0])[1..], [missing, otherwise]);
    new.run(&["import", "--compare", &last], "").expect(0);

    // And back: what leaves the cluster is what came there, and enters a data directory as such.
    let back = export(&new.path(), &new.file("back.ndjson.zst", ""));
    let third = Data::new(&["web"]);
    fs::copy(old.path().join("secret"), third.path().join("secret")).unwrap();
    third.run(&["import", &back], "").expect(0);
    let all = cells(&old.path());
    assert!(all.len() as u64 > created, "{}", all.len());
    for path in [new.path(), third.path()] {
        assert!(cells(&path) == all, "{}", path.display());
    }

    // Both go on alike.
    let [one, other] = [Server::start(&old.path(), &[]), Server::start(&new.path(), &[])];
    // The same lines: their times are told from the clock.
    let more = log(400..600);
    let [expected, found] = [&one, &other].map(|server| decided(server, &more));
    assert_eq!(found, expected);
    let fired = expected.iter().filter(|one| one["reasons"].as_array().is_some_and(|all| !all.is_empty()));
    assert!(fired.count() > 10, "little was judged by what had moved");
    assert_eq!(other.end(Signal::TERM), Some(0));

    // What the node had is in the cluster; one with another secret is not let in.
    let stranger = Data::new(&["web"]);
    fs::copy(&config, stranger.path().join("tollhouse.toml")).unwrap();
    let refused = stranger.run(&["stats", "ip", "192.0.2.1"], "");
    assert!(refused.code != 0 && refused.stderr.contains("secret"), "{}", refused.stderr);
}

/// The lines of all cells, sorted.
fn cells(data: &Path) -> Vec<String> {
    let text = run(["export", "--ledger", "--data", &data.display().to_string()], "").expect(0).stdout;
    let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
    assert!(lines.pop().is_some_and(|end| end.contains("\"end\":true")));
    lines.sort_unstable();
    lines
}

#[test]
fn a_subject_is_erased_in_a_cluster() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let data = Data::new(&["web"]);
    let config = data.path().join("tollhouse.toml");
    let text = fs::read_to_string(&config).unwrap();
    let address = cluster.servers[0].address();
    fs::write(&config, format!("{text}\n[cluster]\nnodes = [\"{address}\"]\n")).unwrap();
    let erase = |more: &[&str]| {
        let ran = data.run(&[&["erase", "--json", "--key", "ip=192.0.2.1"], more].concat(), "");
        ran.expect(0).json().remove(0)
    };
    assert_eq!(erase(&[])["keys"], 0, "nobody knows it yet");
    let server = Server::start(&data.path(), &[]);
    assert_eq!(decided(&server, &log(0..100)).len(), 100);
    let busy = data.run(&["erase", "--key", "ip=192.0.2.1"], "");
    assert!(busy.code == 2 && busy.stderr.contains("in use"), "{}", busy.stderr);
    let ask = |more: &[&str]| {
        let args = ["erase", "--json", "--key", "ip=192.0.2.2", "--server", &server.url];
        run(args.into_iter().chain(more.iter().copied()), "").expect(0).json().remove(0)
    };
    let would = ask(&["--dry-run"]);
    assert!(would["statistics"].as_u64().unwrap() > 0 && would["decisions"].as_u64().unwrap() > 0, "{would}");
    let gone = ask(&[]);
    assert_eq!([&gone["statistics"], &gone["decisions"]], [&would["statistics"], &would["decisions"]]);
    let again = ask(&[]);
    assert_eq!([&again["statistics"], &again["decisions"]], [&Value::from(0), &Value::from(0)]);
    assert_eq!(server.end(Signal::TERM), Some(0));

    let before = cells(&data.path());
    let there = erase(&["--dry-run"]);
    assert!(there["keys"].as_u64().unwrap() > 0 && there["decisions"].as_u64().unwrap() > 0, "{there}");
    assert_eq!(cells(&data.path()), before);
    let gone = erase(&[]);
    assert_eq!([&gone["keys"], &gone["decisions"]], [&there["keys"], &there["decisions"]]);
    let after = cells(&data.path());
    assert_eq!(after.len() as u64, before.len() as u64 - there["keys"].as_u64().unwrap());
    assert!(after.iter().all(|line| before.binary_search(line).is_ok()), "others stay as they were");
    let again = erase(&[]);
    assert_eq!([&again["keys"], &again["decisions"]], [&Value::from(0), &Value::from(0)]);
}

/// Exports into a file that is not there yet.
fn export(data: &Path, file: &str) -> String {
    fs::remove_file(file).unwrap();
    run(["export", "--ledger", "-o", file, "--data", &data.display().to_string()], "").expect(0);
    file.to_owned()
}

/// Starts a node of a cluster, with a secret that all share.
fn node(address: &str, like: Option<&Data>) -> (Data, Server) {
    node_of("web", address, like)
}

/// Starts a node with a preset.
fn node_of(preset: &str, address: &str, like: Option<&Data>) -> (Data, Server) {
    let data = Data::new(&[preset]);
    if let Some(other) = like {
        fs::copy(other.path().join("secret"), data.path().join("secret")).unwrap();
    }
    let config = data.path().join("tollhouse.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}\n[cluster]\nnodes = [\"{address}\"]\n")).unwrap();
    let server = Server::start(&data.path(), &[]);
    (data, server)
}

/// Sends a request; returns the status and the answer.
fn call(server: &Server, path: &str, body: Option<(&str, &str)>) -> (u16, String) {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let url = format!("{}{path}", server.url);
    let answer = match body {
        None => agent.get(url).call(),
        Some((kind, body)) => agent.post(url).content_type(kind).send(body),
    };
    let mut answer = answer.unwrap();
    (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

/// Waits until a node sees all nodes in these states, by number.
fn wait_for_states(server: &Server, expected: &[&str]) {
    let seen = || {
        let nodes = json(&call(server, "/v1/nodes", None).1);
        let states =
            nodes["nodes"].as_array().unwrap().iter().map(|node| node["state"].as_str().unwrap().to_owned());
        states.collect::<Vec<_>>()
    };
    for _ in 0..600 {
        if seen() == expected {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("expected {expected:?}: {:?}", seen());
}

#[test]
fn any_node_answers_for_the_decisions_of_all() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let address = cluster.servers[0].address();
    let (first, one) = node(&address, None);
    let (_second, two) = node(&address, Some(&first));
    let (third, three) = node(&address, Some(&first));
    wait_for_states(&one, &["here", "ready", "ready"]);
    wait_for_states(&two, &["ready", "here", "ready"]);
    wait_for_states(&three, &["ready", "ready", "here"]);
    let shown = run(["nodes", "--server", &two.url], "").expect(0).stdout;
    assert_eq!(
        shown.lines().filter(|line| line.contains("ready") || line.contains("here")).count(),
        3,
        "{shown}"
    );

    let line = log(0..1);
    let decide = |server: &Server| {
        let (status, text) = call(server, "/v1/decide?durability=sync", Some(("text/plain", &line)));
        assert_eq!(status, 200, "{text}");
        json(&text)["id"].as_str().unwrap().to_owned()
    };
    let nodes = [&one, &two, &three];
    let ids: Vec<Vec<String>> = nodes.iter().map(|server| (0..3).map(|_| decide(server)).collect()).collect();
    let all: std::collections::BTreeSet<&String> = ids.iter().flatten().collect();
    assert_eq!(all.len(), 9, "each decision has a name of its own: {ids:?}");
    for (of, own) in ids.iter().enumerate() {
        let expected = call(nodes[of], &format!("/v1/decisions/{}", own[0]), None);
        assert_eq!(expected.0, 200, "{}", expected.1);
        for server in nodes {
            let (status, text) = call(server, &format!("/v1/decisions/{}", own[0]), None);
            assert_eq!((status, json(&text)), (200, json(&expected.1)), "of node {}", of + 1);
        }
    }

    // Feedback reaches the decision, whichever node hears it, and counts once.
    let say = |server: &Server, id: &str| {
        let feedback = serde_json::json!({"id": id, "class": "bad", "by": "ann@example.org"}).to_string();
        let (status, text) = call(server, "/v1/feedback", Some(("application/json", &feedback)));
        assert_eq!(status, 200, "{text}");
        json(&text)
    };
    let said = say(&two, &ids[0][0]);
    assert!(said["keys"].as_u64().unwrap() > 0 && said["duplicate"] == false, "{said}");
    for server in nodes {
        assert_eq!(say(server, &ids[0][0])["duplicate"], true);
    }
    let nobodys = "1m8bng5f00009";
    let lines: String = [&ids[0][1], &ids[1][1], nobodys, "none", &ids[2][1], &ids[0][2]]
        .iter()
        .map(|id| format!("{}\n", serde_json::json!({"id": id, "class": "bad"})))
        .collect();
    let (status, text) = call(&two, "/v1/feedback/batch", Some(("application/x-ndjson", &lines)));
    assert_eq!(status, 200, "{text}");
    let outcomes: Vec<Value> = text.lines().map(json).collect();
    let told: Vec<bool> = outcomes.iter().map(|line| line.get("error").is_none()).collect();
    assert_eq!(told, [true, true, false, false, true, true], "{text}");
    assert_eq!((&outcomes[2]["line"], &outcomes[2]["error"]["status"]), (&3.into(), &404.into()), "{text}");
    assert_eq!(outcomes[5]["id"], ids[0][2].as_str());

    // What a node has that is away is not gone, and the others say so.
    let number = three.url.clone();
    three.end(Signal::KILL);
    wait_for_states(&two, &["ready", "here", "away"]);
    run(["nodes", "--server", &two.url], "").expect(1);
    let (status, text) = call(&two, &format!("/v1/decisions/{}", ids[2][0]), None);
    assert!(status == 503 && json(&text)["detail"].as_str().unwrap().contains("node 3"), "{status} {text}");
    let (status, text) = call(&two, &format!("/v1/decisions/{nobodys}"), None);
    assert_eq!(status, 404, "{text}");
    let three = Server::start(&third.path(), &[]);
    assert_ne!(three.url, number, "it has another port");
    wait_for_states(&one, &["here", "ready", "ready"]);
    wait_for_states(&two, &["ready", "here", "ready"]);
    let (status, text) = call(&two, &format!("/v1/decisions/{}", ids[2][0]), None);
    assert_eq!(status, 200, "{text}");
    assert_eq!(say(&one, &ids[2][2])["duplicate"], false);

    // A request is no node's because it says so.
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let forged = format!("n=1, t=0, d={}, s={}", "0".repeat(64), "0".repeat(32));
    for field in ["", "n=1", &forged] {
        let answer =
            agent.get(format!("{}/v1/pipelines", two.url)).header("Tollhouse-Node", field).call().unwrap();
        assert_eq!(answer.status(), 401, "{field}");
    }
}

#[test]
fn rules_that_are_posted_to_one_node_hold_on_all() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let address = cluster.servers[0].address();
    let (first, one) = node(&address, None);
    let (_second, two) = node(&address, Some(&first));
    let (third, three) = node(&address, Some(&first));
    wait_for_states(&one, &["here", "ready", "ready"]);
    wait_for_states(&two, &["ready", "here", "ready"]);
    let post = |server: &Server, name: &str| {
        let rule = format!("[[rule]]\nname = \"{name}\"\nwhen = \"true\"\nscore = 0.5\n");
        let (status, text) = call(server, "/v1/rules", Some(("application/toml", &rule)));
        (status, json(&text))
    };
    let has = |server: &Server, name: &str| call(server, "/v1/pipelines", None).1.contains(name);

    // The answer comes once it is in force on all of them.
    let (status, answer) = post(&two, "POSTED_FIRST");
    assert!(status == 200 && answer.get("behind").is_none(), "{status} {answer}");
    for server in [&one, &two, &three] {
        assert!(has(server, "POSTED_FIRST"), "{}", server.url);
    }
    // The others' entries are read at the next beat.
    let agree = || run(["nodes", "--server", &one.url], "").code == 0;
    assert!((0..300).any(|_| agree() || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        false
    }));

    // A node that is away is named, and has it before it serves again.
    three.end(Signal::KILL);
    wait_for_states(&one, &["here", "ready", "away"]);
    let (status, answer) = post(&one, "POSTED_LATER");
    let behind = answer["behind"].as_array().unwrap_or_else(|| panic!("{status} {answer}"));
    assert!(behind.len() == 1 && behind[0].as_str().unwrap().starts_with("3 ("), "{answer}");
    assert!(has(&two, "POSTED_LATER"), "{}", call(&two, "/v1/rules", None).1);
    assert!(!has(&two, "POSTED_FIRST"), "{}", call(&two, "/v1/pipelines", None).1);
    let three = Server::start(&third.path(), &[]);
    assert!(has(&three, "POSTED_LATER") && !has(&three, "POSTED_FIRST"));

    // What is wrong is refused, and heard of nowhere.
    let (status, _) = post(&three, "not a name!");
    assert_eq!(status, 422);
    let wrong = "[[rule]]\nname = \"W\"\nwhen = \"nothing_of_this_name > 1\"\nscore = 1\n";
    assert_eq!(call(&three, "/v1/rules", Some(("application/toml", wrong))).0, 422);
    let (status, answer) = post(&one, "POSTED_LAST");
    assert!(status == 200 && answer.get("behind").is_none(), "{status} {answer}");
    assert!(has(&three, "POSTED_LAST"));
}

/// A message of either class.
fn message(number: usize) -> String {
    let [subject, body] = match number % 2 {
        0 => ["Cheap pills", "Order our cheap pills now, casino bonus for every winner"],
        _ => ["Meeting notes", "Thanks for the review of the patch, the notes of our meeting are attached"],
    };
    format!(
        "From: a{number}@example.org\r\nTo: b@example.net\r\nSubject: {subject} {number}\r\n\r\n{body}, number {}.\r\n",
        number * 7919
    )
}

/// The lesson up to which each linear model of a node has learned; `None` while it lacks any.
fn models(server: &Server) -> Option<Vec<u64>> {
    let nodes = json(&call(server, "/v1/nodes", None).1);
    let nodes = nodes["nodes"].as_array().unwrap();
    let own = nodes.iter().find(|node| node["state"] == "here")?["models"].as_object()?.clone();
    let level = own.values().all(|model| model["lag"] == 0 && model["waiting"] == 0);
    level.then(|| own.values().map(|model| model["version"].as_u64().unwrap()).collect())
}

fn wait_for_models(servers: &[&Server], expected: u64) {
    for _ in 0..600 {
        let is_so = |server: &&Server| {
            models(server).is_some_and(|own| own.iter().all(|version| *version == expected))
        };
        if servers.iter().all(is_so) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("expected {expected}: {:?}", servers.iter().map(|server| models(server)).collect::<Vec<_>>());
}

#[test]
fn nodes_have_the_same_linear_models_whoever_is_taught_or_killed() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let address = cluster.servers[0].address();
    let (first, one) = node_of("mail", &address, None);
    let (second, two) = node_of("mail", &address, Some(&first));
    let teach = |server: &Server, numbers: std::ops::Range<usize>| {
        for number in numbers {
            let path = format!("/v1/learn?class={}", ["spam", "ham"][number % 2]);
            let (status, text) = call(server, &path, Some(("message/rfc822", &message(number))));
            assert_eq!(status, 200, "{text}");
        }
    };
    let linear = |server: &Server, number: usize| {
        let answer = call(server, "/v1/peek", Some(("message/rfc822", &message(number)))).1;
        let facts = json(&answer)["facts"].clone();
        let found = ["learned.linear", "learned.site"].map(|name| facts[name].as_f64());
        assert!(found[0].is_some(), "{answer}");
        found
    };
    for turn in 0..5 {
        teach(&one, 4 * turn..4 * turn + 2);
        teach(&two, 4 * turn + 2..4 * turn + 4);
    }
    wait_for_models(&[&one, &two], 20);
    for number in 100..104 {
        assert_eq!(linear(&one, number), linear(&two, number));
        assert_eq!(linear(&one, number)[0].unwrap() > 0.0, number % 2 == 0);
    }
    // Killed right after it has answered.
    teach(&two, 20..24);
    two.end(Signal::KILL);
    teach(&one, 24..26);
    let two = Server::start(&second.path(), &[]);
    wait_for_models(&[&one, &two], 26);
    // One that comes later has all of it before it serves.
    let (_third, three) = node_of("mail", &address, Some(&first));
    let known = models(&three);
    assert!(known.as_ref().is_some_and(|own| own.iter().all(|version| *version == 26)), "{known:?}");
    for number in 100..104 {
        assert_eq!(linear(&one, number), linear(&three, number));
        assert_eq!(linear(&one, number), linear(&two, number));
    }
    let shown = run(["nodes", "--server", &three.url], "").stdout;
    assert!(shown.contains("mail/learned.linear") && shown.contains("26"), "{shown}");
    let (_, page) = call(&three, "/metrics", None);
    let version = page
        .lines()
        .find(|line| line.starts_with("tollhouse_shared_model_version{model=\"mail/learned.linear\"}"));
    assert!(version.is_some_and(|line| line.ends_with(" 26")), "{version:?}");
}

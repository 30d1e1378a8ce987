//! Statistics that move from a data directory into a cluster, and nodes that go on with them there.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use crate::program::{Data, Server, run};
use crate::servers::Cluster;
use crate::tls::HostAuthority;

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

#[test]
fn all_nodes_of_a_cluster_erase_what_they_decided() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let address = cluster.servers[0].address();
    let (first, one) = node(&address, None);
    let (_second, two) = node(&address, Some(&first));
    let (third, three) = node(&address, Some(&first));
    wait_for_states(&one, &["here", "ready", "ready"]);
    wait_for_states(&two, &["ready", "here", "ready"]);
    let decide = |server: &Server, line: usize| {
        let lines = log(line..line + 1);
        let (status, text) = call(server, "/v1/decide?durability=sync", Some(("text/plain", &lines)));
        assert_eq!(status, 200, "{text}");
        json(&text)["id"].as_str().unwrap().to_owned()
    };
    // The second line is of 192.0.2.1, and the first of somebody else.
    let erased = [&one, &two, &three].map(|server| decide(server, 1));
    let kept = [&one, &two].map(|server| decide(server, 0));
    assert_eq!(three.end(Signal::KILL), None);

    let order = ["erase", "--json", "--key", "ip=192.0.2.1", "--server", &one.url];
    let done = run(order, "").expect(1).json().remove(0);
    let reported = |name: &str| done[name].as_array().map_or(0, Vec::len);
    assert_eq!([reported("asked"), reported("missing")], [1, 1], "the third node is gone: {done}");
    assert_eq!(done["decisions"], 1, "{done}");
    // What another node decided goes when that node has come to it; the proof is in its own log.
    let is_there = |server: &Server, id: &str| call(server, &format!("/v1/decisions/{id}"), None).0 == 200;
    let proof = ["audit", "--action", "erase.done", "--json", "--server", &two.url];
    wait_until("the second node's proof", || !run(proof, "").expect(0).json().is_empty());
    for server in [&one, &two] {
        assert_eq!([0, 1].map(|at| is_there(server, &erased[at])), [false, false]);
        assert_eq!([0, 1].map(|at| is_there(server, &kept[at])), [true, true]);
    }

    // The third one comes back at another address, and is asked as soon as others know that.
    let three = Server::start(&third.path(), &[]);
    assert!(is_there(&three, &erased[2]));
    wait_until("an order that misses no node", || run(order, "").code == 0);
    wait_until("the erasure of the node that came back", || !is_there(&three, &erased[2]));
}

/// Exports into a file that is not there yet.
fn export(data: &Path, file: &str) -> String {
    fs::remove_file(file).unwrap();
    run(["export", "--ledger", "-o", file, "--data", &data.display().to_string()], "").expect(0);
    file.to_owned()
}

/// Starts a node of a cluster, with a secret that all share.
fn node(address: &str, like: Option<&Data>) -> (Data, Server) {
    node_with("web", &[address.to_owned()], like, &[])
}

/// Starts a node with a preset.
fn node_of(preset: &str, address: &str, like: Option<&Data>) -> (Data, Server) {
    node_with(preset, &[address.to_owned()], like, &[])
}

/// Starts a node over these servers, with more in its environment. With several servers what is written has a replica.
pub(crate) fn node_with(
    preset: &str,
    addresses: &[String],
    like: Option<&Data>,
    environment: &[(String, String)],
) -> (Data, Server) {
    let data = node_data(preset, addresses, like, "");
    let server = Server::start_in(&data.path(), environment, &[]);
    (data, server)
}

/// Makes the directory of a node, with more in its configuration.
fn node_data(preset: &str, addresses: &[String], like: Option<&Data>, more: &str) -> Data {
    let data = Data::new(&[preset]);
    if let Some(other) = like {
        fs::copy(other.path().join("secret"), data.path().join("secret")).unwrap();
    }
    let config = data.path().join("tollhouse.toml");
    let text = fs::read_to_string(&config).unwrap();
    let replicas = usize::from(addresses.len() > 1);
    let cluster = format!("[cluster]\nnodes = {addresses:?}\nreplicas = {replicas}\n");
    fs::write(&config, format!("{text}\n{cluster}\n{more}")).unwrap();
    data
}

/// Sends a request; returns the status and the answer.
pub(crate) fn call(server: &Server, path: &str, body: Option<(&str, &str)>) -> (u16, String) {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let url = format!("{}{path}", server.url);
    let answer = match body {
        None => agent.get(url).call(),
        Some((kind, body)) => agent.post(url).content_type(kind).send(body),
    };
    let mut answer = answer.unwrap();
    (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

/// Waits until a node sees all nodes in these states, by number.
pub(crate) fn wait_for_states(server: &Server, expected: &[&str]) {
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

/// Asks until all nodes have answered: on a machine that does much else one may be late. Returns the status, the answer, and
/// whether it was asked more than once.
fn ask_all(server: &Server, path: &str, body: Option<(&str, &str)>) -> (u16, String, bool) {
    for round in 0..120 {
        let (status, text) = call(server, path, body);
        let is_late = ["does not answer", "\"absent\":[", "These nodes do not answer"]
            .iter()
            .any(|late| text.contains(late));
        if !is_late {
            return (status, text, round > 0);
        }
        std::thread::sleep(std::time::Duration::from_millis(250));
    }
    panic!("{path}: not all nodes answer within half a minute");
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
        let expected = ask_all(nodes[of], &format!("/v1/decisions/{}", own[0]), None);
        assert_eq!(expected.0, 200, "{}", expected.1);
        for server in nodes {
            let (status, text, _) = ask_all(server, &format!("/v1/decisions/{}", own[0]), None);
            assert_eq!((status, json(&text)), (200, json(&expected.1)), "of node {}", of + 1);
            let (status, page, _) = ask_all(server, &format!("/console/decisions/{}", own[0]), None);
            assert_eq!(status, 200, "of node {}: {page}", of + 1);
        }
    }

    // A search finds those of all, on whichever node, each on one page.
    let search = |server: &Server, limit: usize| {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let (status, text, _) = ask_all(server, &format!("/v1/decisions?limit={limit}{after}"), None);
            let page = json(&text);
            assert!(status == 200 && page.get("absent").is_none(), "{text}");
            let ids = page["decisions"].as_array().unwrap().iter();
            found.extend(ids.map(|decision| decision["id"].as_str().unwrap().to_owned()));
            let Some(next) = page["next"].as_str() else { return found };
            after = format!("&after={next}");
        }
    };
    let newest_first: Vec<String> = all.iter().rev().map(|id| (*id).clone()).collect();
    for (server, limit) in [(&one, 2), (&two, 1), (&three, 1000)] {
        assert_eq!(search(server, limit), newest_first, "{limit}");
    }
    for server in nodes {
        let ask = |path: &str| {
            let (status, text, _) = ask_all(server, path, None);
            assert_eq!(status, 200, "{path} {text}");
            text
        };
        let sums = json(&ask("/v1/decisions/statistics"));
        let fit = &sums["decisions"];
        let count = |side: &str| fit[side].as_u64().unwrap();
        assert_eq!(count("good") + count("bad") + count("unjudged"), 9, "{sums}");
        let series = json(&ask("/v1/counts"));
        let buckets = series["buckets"].as_array().unwrap();
        let counted: u64 = buckets.iter().map(|bucket| bucket["decisions"].as_u64().unwrap()).sum();
        assert!(counted == 9 && series.get("absent").is_none(), "{series}");
        let exported = ask("/v1/decisions/export?format=ndjson&facts=http.path");
        let exported = exported.lines().map(json).map(|one| one["id"].as_str().unwrap().to_owned());
        assert_eq!(exported.collect::<Vec<_>>(), newest_first);
        let common = json(&ask("/v1/decisions/common"));
        assert_eq!((&common["decisions"], common.get("absent")), (&serde_json::json!(9), None), "{common}");
        // Of each node's three decisions, on one address with one path.
        let related = json(&ask("/v1/keys/related?kind=ip&value=192.0.2.0"));
        let shared = related["keys"].as_array().unwrap().iter().map(|key| key["decisions"].as_u64().unwrap());
        assert_eq!((&related["decisions"], shared.max()), (&serde_json::json!(9), Some(9)), "{related}");
        let impact = json(&ask("/v1/rules/impact?rule=TOOL"));
        assert_eq!((&impact["hits"], impact.get("absent")), (&serde_json::json!(9), None), "{impact}");
        let listed = impact["decisions"].as_array().unwrap().iter();
        let mut listed: Vec<String> = listed.map(|hit| hit["id"].as_str().unwrap().to_owned()).collect();
        listed.sort_unstable_by(|one, other| other.cmp(one));
        assert_eq!(listed, newest_first, "{impact}");
        assert_eq!(json(&ask("/v1/anomalies"))["anomalies"], serde_json::json!([]));
        // The console lists what the route lists.
        let shown = ask("/console/decisions?q=&action=");
        assert!(all.iter().all(|id| shown.contains(*id)), "{shown}");
    }

    // Feedback reaches the decision, whichever node hears it, and counts once.
    let say = |server: &Server, id: &str| {
        let feedback = serde_json::json!({"id": id, "class": "bad", "by": "ann@example.org"}).to_string();
        let (status, text, again) = ask_all(server, "/v1/feedback", Some(("application/json", &feedback)));
        assert_eq!(status, 200, "{text}");
        (json(&text), again)
    };
    // What was said again, as its answer came late, may have counted the first time.
    let (said, again) = say(&two, &ids[0][0]);
    assert!(said["keys"].as_u64().unwrap() > 0 && (again || said["duplicate"] == false), "{said}");
    for server in nodes {
        assert_eq!(say(server, &ids[0][0]).0["duplicate"], true);
    }
    let nobodys = "1m8bng5f00009";
    let lines: String = [&ids[0][1], &ids[1][1], nobodys, "none", &ids[2][1], &ids[0][2]]
        .iter()
        .map(|id| format!("{}\n", serde_json::json!({"id": id, "class": "bad"})))
        .collect();
    let (status, text, _) = ask_all(&two, "/v1/feedback/batch", Some(("application/x-ndjson", &lines)));
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
    // On a busy machine others are late, too, and a page ends where a node has looked no further.
    let without_third = |path: &str| {
        for _ in 0..120 {
            let answer = json(&call(&two, path, None).1);
            let absent: Vec<&str> =
                answer["absent"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            assert!(absent.iter().any(|name| name.starts_with("3 (")), "{answer}");
            if absent.len() == 1 {
                return answer;
            }
            std::thread::sleep(std::time::Duration::from_millis(250));
        }
        panic!("{path}: the other node does not answer within half a minute");
    };
    let (mut found, mut after) = (0, String::new());
    loop {
        let page = without_third(&format!("/v1/decisions?limit=100{after}"));
        found += page["decisions"].as_array().unwrap().len();
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(found, 6);
    for path in ["/v1/counts", "/v1/decisions/statistics", "/v1/anomalies"] {
        without_third(path);
    }
    assert_eq!(without_third("/v1/keys/related?kind=ip&value=192.0.2.0")["decisions"], 6);
    assert_eq!(without_third("/v1/rules/impact?rule=TOOL")["hits"], 6);
    let shown = call(&two, "/console/decisions", None).1;
    assert!(shown.contains("These nodes do not answer"), "{shown}");
    let (status, text) = call(&two, "/v1/decisions/export", None);
    assert!(status == 503 && json(&text)["detail"].as_str().unwrap().contains("node 3"), "{status} {text}");
    let three = Server::start(&third.path(), &[]);
    assert_ne!(three.url, number, "it has another port");
    wait_for_states(&one, &["here", "ready", "ready"]);
    wait_for_states(&two, &["ready", "here", "ready"]);
    let (status, text, _) = ask_all(&two, &format!("/v1/decisions/{}", ids[2][0]), None);
    assert_eq!(status, 200, "{text}");
    let (said, again) = say(&one, &ids[2][2]);
    assert!(again || said["duplicate"] == false, "{said}");

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

    // A canary decides where it is to, and all know of it.
    let refuse = "[[rule]]\nname = \"ALL\"\nwhen = \"true\"\nscore = 0\neffects = [\"set reject\"]\n";
    for (server, path, kind, body) in [
        (&three, "/v1/rules?candidate=true", "application/toml", refuse),
        (&one, "/v1/rules/canary", "application/json", "{\"nodes\": [2]}"),
    ] {
        let (status, text) = call(server, path, Some((kind, body)));
        assert!(status == 200 && json(&text).get("behind").is_none(), "{status} {text}");
    }
    for (server, decides) in [(&one, false), (&two, true), (&three, false)] {
        let rules = json(&call(server, "/v1/rules", None).1);
        assert_eq!(rules["canary"], serde_json::json!({"share": 1.0, "nodes": [2]}), "{rules}");
        let (status, checked) = call(server, "/v1/check", Some(("text/plain", &log(0..1))));
        assert_eq!((status, checked.contains("\"action\":\"reject\"")), (200, decides), "{checked}");
    }
    // They compare what all of them have decided.
    for server in [&one, &two, &two, &three] {
        let (status, text) = call(server, "/v1/decide", Some(("text/plain", &log(0..1))));
        assert_eq!(status, 200, "{text}");
    }
    for server in [&one, &two, &three] {
        let (status, text, _) = ask_all(server, "/v1/rules/comparison?pipeline=web", None);
        let compared = json(&text);
        assert_eq!(
            (status, &compared["events"], &compared["decided"]),
            (200, &4.into(), &2.into()),
            "{text}"
        );
        assert_eq!((&compared["disagreements"], &compared["rate"]), (&4.into(), &1.0.into()), "{text}");
        let newest: Vec<&str> = compared["examples"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["time"].as_str().unwrap())
            .collect();
        assert!(newest.len() == 4 && newest.is_sorted_by(|one, other| one >= other), "{text}");
        assert_eq!(compared["actions"].as_object().map(|of| of.len()), Some(1), "{text}");
    }
    let dropped = run(["rules", "drop", "--server", &three.url], "").expect(0).stdout;
    assert!(dropped.contains("candidate none"), "{dropped}");
    for server in [&one, &two, &three] {
        assert!(json(&call(server, "/v1/rules", None).1).get("canary").is_none());
    }
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

/// The example up to which each linear model of a node has learned; `None` while it lacks any.
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

/// An invented message to somebody, who decides whether it is wanted: one wants notes of meetings, the other pills.
fn message_to(recipient: &str, number: usize) -> String {
    format!("Delivered-To: {recipient}\r\n{}", message(number))
}

#[test]
fn a_linear_model_of_each_recipient_is_the_same_on_all_nodes() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let addresses = [cluster.servers[0].address()];
    let mine = "[[classifier]]\nname = \"mine\"\nper = \"recipient\"\nof = [\"mail.subject\"]\n\
                runs = [\"mail.source_start\"]\nbad = [\"spam\"]\ngood = [\"ham\"]\n";
    let first = node_data("mail", &addresses, None, mine);
    let second = node_data("mail", &addresses, Some(&first), mine);
    let [one, two] = [&first, &second].map(|data| Server::start(&data.path(), &[]));
    let tastes = ["ann@example.net", "bob@example.net"];
    let nodes = [&one, &two];
    for number in 0..40 {
        for (person, recipient) in tastes.into_iter().enumerate() {
            let class = ["spam", "ham"][(number + person) % 2];
            // Each is taught by the other node than the last time.
            let server = nodes[(number / 2 + person) % 2];
            let taught = message_to(recipient, number);
            let (status, text) = call(
                server,
                &format!("/v1/learn?class={class}&envelope=headers"),
                Some(("message/rfc822", &taught)),
            );
            assert_eq!(status, 200, "{text}");
        }
    }
    wait_for_models(&nodes, 80);
    let linear = |server: &Server, recipient: &str, number: usize| {
        let message = message_to(recipient, number);
        let answer = call(server, "/v1/peek?envelope=headers", Some(("message/rfc822", &message))).1;
        json(&answer)["facts"]["mine.linear"].as_f64().unwrap_or_else(|| panic!("{answer}"))
    };
    for number in 100..104 {
        for (person, recipient) in tastes.into_iter().enumerate() {
            let known = linear(&one, recipient, number);
            assert_eq!(known, linear(&two, recipient, number));
            assert_eq!(known > 0.0, (number + person) % 2 == 0, "{recipient}: {known}");
        }
    }
}

/// Waits until something is so, for a while that is long enough for a loaded machine.
#[track_caller]
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed().as_secs() < 90, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// Sends a request with a method of its own and a JSON body; returns the status and the answer.
fn send(server: &Server, method: &str, path: &str, body: &str) -> (u16, Value) {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", server.url));
    let request = request.header("content-type", "application/json").body(body.to_owned()).unwrap();
    let mut answer = agent.run(request).unwrap();
    (answer.status().as_u16(), json(&answer.body_mut().read_to_string().unwrap()))
}

/// The values on a node's ban list.
pub(crate) fn banned(server: &Server) -> Vec<String> {
    let page = json(&call(server, "/v1/bans/search?limit=1000", None).1);
    let bans = page["bans"].as_array().unwrap_or_else(|| panic!("{page}"));
    let mut values: Vec<String> = bans.iter().map(|ban| ban["value"].as_str().unwrap().to_owned()).collect();
    values.sort();
    values
}

pub(crate) fn ban(server: &Server, value: &str, lasts: &str) -> Value {
    let body = serde_json::json!({"kind": "ip", "label": LABEL, "value": value, "for": lasts}).to_string();
    let (status, answer) = send(server, "POST", "/v1/bans", &body);
    assert_eq!(status, 200, "{answer}");
    answer
}

pub(crate) fn lift(server: &Server, value: &str) -> Value {
    let (status, answer) = send(server, "DELETE", &format!("/v1/bans?value={value}"), "");
    assert_eq!(status, 200, "{answer}");
    answer
}

/// Returns true if a node's rules see the label of an address.
fn is_seen(server: &Server, address: &str) -> bool {
    let line =
        format!("{address} - - [18/May/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"curl/8\"\n");
    let (status, text) = call(server, "/v1/check", Some(("text/plain", &line)));
    assert_eq!(status, 200, "{text}");
    text.contains("SEEN_BANNED")
}

#[test]
fn bans_hold_on_all_nodes_and_are_lifted_on_all() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let address = cluster.servers[0].address();
    let (first, one) = node(&address, None);
    let (_second, two) = node(&address, Some(&first));
    wait_for_states(&one, &["here", "ready"]);
    wait_for_states(&two, &["ready", "here"]);
    post_label(&one);

    // By hand, an address and a network: others hear of it, and their rules.
    let answer = ban(&one, "192.0.2.1", "1h");
    assert_eq!(answer.get("unshared"), None, "{answer}");
    ban(&two, "198.51.100.0/24", "1h");
    for server in [&one, &two] {
        wait_until("both bans", || banned(server) == ["192.0.2.1", "198.51.100.0/24"]);
        wait_until("the rule sees the address", || is_seen(server, "192.0.2.1"));
        assert!(is_seen(server, "198.51.100.7") && !is_seen(server, "192.0.2.2"));
    }
    let of_crowdsec = call(&two, "/crowdsec/v1/decisions?ip=192.0.2.1", None).1;
    assert!(of_crowdsec.contains("192.0.2.1"), "{of_crowdsec}");

    // Lifted on the other node: it is so on all, for rules, too, though the cluster's statistics still have the mark.
    assert_eq!(lift(&two, "192.0.2.1")["lifted"], 1);
    for server in [&one, &two] {
        wait_until("the lift", || banned(server) == ["198.51.100.0/24"]);
        assert!(!is_seen(server, "192.0.2.1"));
    }
    // Put on again, for less time than it had: that holds.
    ban(&one, "192.0.2.1", "30m");
    wait_until("again", || banned(&two).len() == 2 && is_seen(&two, "192.0.2.1"));
    let until = |server: &Server| json(&call(server, "/v1/bans?ip=192.0.2.1", None).1)[0]["until"].clone();
    assert_eq!(until(&one), until(&two));

    // What stands in the cluster cannot be read there.
    let there = cluster.servers[0].cli(&["--no-raw", "EVAL", SHARED, "0"]);
    assert!(there.contains("changes:") && !there.contains("192.0.2") && !there.contains("198.51"), "{there}");

    // A node that comes anew or was away has all before it serves.
    lift(&one, "198.51.100.0/24");
    let path = first.path();
    assert_eq!(one.end(Signal::KILL), None);
    ban(&two, "203.0.113.1", "1h");
    lift(&two, "192.0.2.1");
    let (_third, three) = node(&address, Some(&first));
    let one = Server::start(&path, &[]);
    for server in [&one, &three] {
        assert_eq!(banned(server), ["203.0.113.1"], "{}", server.url);
    }
    // Of what a rule does others hear as well; a short ban ends everywhere by itself.
    ban(&three, "203.0.113.2", "2s");
    wait_until("a short ban", || banned(&one).len() == 2 || banned(&one) == ["203.0.113.1"]);
    for server in [&one, &two, &three] {
        wait_until("its end", || banned(server) == ["203.0.113.1"]);
    }
}

/// The label of which bouncers are told.
const LABEL: &str = "scanner";

pub(crate) fn label_text() -> String {
    format!(
        "[[label]]\nname = \"{LABEL}\"\nof = \"ip\"\nkeep = \"7d\"\ndecision = \"ban\"\n\
         [[rule]]\nname = \"SEEN_BANNED\"\nwhen = \"ip.marked('{LABEL}')\"\nscore = 1\n"
    )
}

/// Posts the label, and a rule that sees it, to a node; they hold on all that are there then.
pub(crate) fn post_label(server: &Server) {
    let (status, text) = call(server, "/v1/rules", Some(("application/toml", &label_text())));
    assert!(status == 200 && json(&text).get("behind").is_none(), "{status} {text}");
}
/// Says how large the list of changes is, and shows it.
const SHARED: &str = "local all = 'changes:' for _, key in ipairs(redis.call('KEYS', '*')) do \
    if string.find(key, '#cv', 1, true) then for _, text in ipairs(redis.call('HGETALL', key)) do all = all .. text end end end \
    return all";

#[test]
fn bans_made_while_the_cluster_is_away_hold_and_are_shared_later() {
    let Some(mut cluster) = Cluster::single(&[]) else { return };
    let address = cluster.servers[0].address();
    let (first, one) = node(&address, None);
    let (_second, two) = node(&address, Some(&first));
    wait_for_states(&one, &["here", "ready"]);
    wait_for_states(&two, &["ready", "here"]);
    post_label(&one);
    ban(&one, "192.0.2.1", "1h");
    ban(&one, "192.0.2.2", "1h");
    wait_until("both", || banned(&two).len() == 2);
    cluster.servers[0].signal("STOP");
    let answer = lift(&two, "192.0.2.1");
    assert_eq!((&answer["lifted"], &answer["unshared"]), (&1.into(), &true.into()), "{answer}");
    assert_eq!((banned(&one).len(), banned(&two)), (2, vec!["192.0.2.2".to_owned()]));
    cluster.servers[0].signal("CONT");
    wait_until("what was lifted meanwhile", || banned(&one) == ["192.0.2.2"]);
    ban(&two, "192.0.2.3", "1h");
    wait_until("one more", || banned(&one) == ["192.0.2.2", "192.0.2.3"]);

    // All that the cluster knew is lost: nodes say it again.
    let gone = "for _, key in ipairs(redis.call('KEYS', '*')) do if string.find(key, '#c', 1, true) then redis.call('DEL', key) end end";
    cluster.servers[0].cli(&["EVAL", gone, "0"]);
    ban(&one, "192.0.2.4", "1h");
    let all = ["192.0.2.2", "192.0.2.3", "192.0.2.4"];
    wait_until("all of them", || banned(&one) == all && banned(&two) == all);
    let (_third, three) = node(&address, Some(&first));
    wait_until("and on a new one", || banned(&three) == all);
}

#[test]
fn exceptions_of_limits_hold_on_all_nodes() {
    let Some(mut cluster) = Cluster::single(&[]) else { return };
    let address = cluster.servers[0].address();
    let limit = "\n[[limit]]\nname = \"invites\"\nkey = [\"user\"]\ncount = 2\nper = \"1d\"\n";
    let start = |data: &Data| {
        let config = data.path().join("tollhouse.toml");
        let text = fs::read_to_string(&config).unwrap();
        if !text.contains("invites") {
            fs::write(&config, format!("{text}{limit}")).unwrap();
        }
        Server::start(&data.path(), &[])
    };
    let (first, one) = node(&address, None);
    one.end(Signal::TERM);
    let one = start(&first);
    let (second, two) = node(&address, Some(&first));
    two.end(Signal::TERM);
    let two = start(&second);
    let put = |server: &Server, body: &str| send(server, "PUT", "/v1/limits/invites/overrides", body);
    let overrides = |server: &Server| {
        json(&call(server, "/v1/limits/invites/overrides", None).1)["overrides"].as_array().unwrap().clone()
    };
    let (status, answer) = put(&one, r#"{"key": {"user": "ann"}, "count": 50}"#);
    assert_eq!(status, 200, "{answer}");
    wait_until("an override", || overrides(&two).len() == 1);
    assert_eq!(overrides(&one), overrides(&two));
    let take = |server: &Server, user: &str| {
        let body = serde_json::json!({"key": {"user": user}, "cost": 10}).to_string();
        send(server, "POST", "/v1/limits/invites/take", &body).1
    };
    assert_eq!((&take(&two, "ann")["allowed"], &take(&two, "bob")["allowed"]), (&true.into(), &false.into()));
    // The later stands, and one that says nothing takes it away, everywhere and after a restart.
    put(&two, r#"{"key": {"user": "ann"}, "count": 70}"#);
    put(&two, r#"{"key": {"user": "bob"}, "exempt": true}"#);
    wait_until("two", || overrides(&one).len() == 2 && overrides(&one)[0]["count"] == 70);
    assert_eq!(two.end(Signal::TERM), Some(0));
    put(&one, r#"{"key": {"user": "ann"}}"#);
    put(&one, r#"{"key": {"user": "eve"}, "exempt": true}"#);
    let two = start(&second);
    let users = |server: &Server| {
        let mut users: Vec<String> =
            overrides(server).iter().map(|one| one["key"]["user"].as_str().unwrap().to_owned()).collect();
        users.sort();
        users
    };
    assert_eq!(
        (users(&one), users(&two)),
        (vec!["bob".into(), "eve".into()], vec!["bob".into(), "eve".into()])
    );
    // While the cluster is away it is not said that one is in force. What came of it is the same on all nodes.
    cluster.servers[0].signal("STOP");
    let (status, answer) = put(&one, r#"{"key": {"user": "eve"}, "count": 1}"#);
    cluster.servers[0].signal("CONT");
    assert_eq!(status, 503, "{answer}");
    let (status, answer) = put(&two, r#"{"key": {"user": "eve"}, "count": 3}"#);
    assert_eq!(status, 200, "{answer}");
    let counts =
        |server: &Server| overrides(server).iter().map(|one| one["count"].clone()).collect::<Vec<_>>();
    wait_until("the later one", || counts(&one) == counts(&two) && counts(&one).contains(&3.into()));
}

#[test]
fn a_node_that_is_gone_for_good_is_forgotten() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let address = cluster.servers[0].address();
    let (first, one) = node(&address, None);
    let (second, two) = node(&address, Some(&first));
    wait_for_states(&one, &["here", "ready"]);
    let forget = |number: &str| run(["nodes", "forget", number, "--server", &one.url], "");
    for (number, why) in [("2", "is there"), ("1", "is there"), ("9", "no node 9"), ("5000", "no number")] {
        let refused = forget(number);
        assert!(refused.code != 0 && refused.stderr.contains(why), "{number}: {}", refused.stderr);
    }
    two.end(Signal::KILL);
    wait_for_states(&one, &["here", "away"]);
    let rule = |name: &str| {
        let rule = format!("[[rule]]\nname = \"{name}\"\nwhen = \"true\"\nscore = 0.5\n");
        json(&call(&one, "/v1/rules", Some(("application/toml", &rule))).1)
    };
    assert_eq!(rule("NAMED")["behind"].as_array().map(Vec::len), Some(1));
    forget("2").expect(0);
    wait_for_states(&one, &["here"]);
    assert_eq!(rule("UNNAMED").get("behind"), None);
    run(["nodes", "--server", &one.url], "").expect(0);
    // Its number is nobody else's, and its own when it comes back.
    let (_third, three) = node(&address, Some(&first));
    let two = Server::start(&second.path(), &[]);
    wait_for_states(&one, &["here", "ready", "ready"]);
    wait_for_states(&two, &["ready", "here", "ready"]);
    wait_for_states(&three, &["ready", "ready", "here"]);
}

#[test]
fn reviews_of_all_nodes_are_worked_off_on_any() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let address = cluster.servers[0].address();
    let (first, one) = node(&address, None);
    let (_second, two) = node(&address, Some(&first));
    wait_for_states(&one, &["here", "ready"]);
    wait_for_states(&two, &["ready", "here"]);
    let rule = "[[rule]]\nname = \"LOOK\"\nwhen = \"true\"\nscore = 0.0\neffects = [\"set review_before\"]\n";
    let (status, text) = call(&one, "/v1/rules", Some(("application/toml", rule)));
    assert!(status == 200 && json(&text).get("behind").is_none(), "{status} {text}");
    let decide = |server: &Server, at: usize| {
        let (status, text) =
            call(server, "/v1/decide?durability=sync", Some(("text/plain", &log(at..at + 1))));
        assert!(status == 200 && text.contains("review_before"), "{text}");
        json(&text)["id"].as_str().unwrap().to_owned()
    };
    let ids: Vec<String> = (0..7).map(|at| decide([&one, &two][at % 2], at)).collect();
    // Each on one page, the oldest first, whichever node lists them.
    let list = |server: &Server, limit: usize| {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let (status, text) = call(server, &format!("/v1/reviews?limit={limit}{after}"), None);
            let page = json(&text);
            assert!(status == 200 && page.get("absent").is_none() && page.get("places").is_none(), "{text}");
            let ids = page["reviews"].as_array().unwrap().iter();
            found.extend(ids.map(|review| review["id"].as_str().unwrap().to_owned()));
            let Some(next) = page["next"].as_str() else { return found };
            after = format!("&after={next}");
        }
    };
    let mut oldest_first = ids.clone();
    oldest_first.sort();
    for (server, limit) in [(&one, 2), (&two, 3), (&one, 500)] {
        assert_eq!(list(server, limit), oldest_first, "{limit}");
    }
    // What is said of one goes to the node that has it; what that refuses is refused here.
    let say = |server: &Server, id: &str, step: &str, body: &str| {
        send(server, "POST", &format!("/v1/reviews/{id}/{step}"), body)
    };
    let (status, claimed) = say(&two, &ids[0], "claim", r#"{"by": "ann"}"#);
    assert_eq!((status, &claimed["state"]), (200, &"claimed".into()), "{claimed}");
    let (status, refused) = say(&one, &ids[0], "claim", r#"{"by": "bob"}"#);
    assert_eq!(status, 409, "{refused}");
    let (status, other) = say(&two, &ids[0], "claim", r#"{"by": "bob"}"#);
    assert_eq!((status, &other["detail"]), (409, &refused["detail"]), "{other}");
    let (status, decided) = say(&two, &ids[0], "decide", r#"{"by": "ann", "verdict": "refuse"}"#);
    assert_eq!(status, 200, "{decided}");
    let shown = json(&call(&two, &format!("/v1/reviews/{}", ids[0]), None).1);
    assert_eq!(shown, json(&call(&one, &format!("/v1/reviews/{}", ids[0]), None).1));
    assert_eq!(list(&two, 500), oldest_first.iter().filter(|id| **id != ids[0]).cloned().collect::<Vec<_>>());
    // Reviewers are compared over the reviews of all nodes.
    let (status, decided) = say(&one, &ids[1], "decide", r#"{"by": "ann", "verdict": "publish"}"#);
    assert_eq!(status, 200, "{decided}");
    let agreement = |server: &Server| json(&call(server, "/v1/reviews/agreement", None).1);
    for server in [&one, &two] {
        let found = agreement(server);
        assert_eq!((&found["publish"], &found["refuse"]), (&1.into(), &1.into()), "{found}");
        let ann = &found["reviewers"][0];
        assert!(ann["by"] == "ann" && ann["votes"] == 2 && ann["median_seconds"].is_f64(), "{found}");
        assert!(ann.get("times").is_none() && found.get("absent").is_none(), "{found}");
    }
    // Of a node that is away the others say so.
    one.end(Signal::KILL);
    let found = agreement(&two);
    assert!(found["absent"][0].as_str().unwrap().starts_with("1 (") && found["reviews"] == 1, "{found}");
    let page = json(&call(&two, "/v1/reviews", None).1);
    assert!(page["absent"][0].as_str().unwrap().starts_with("1 ("), "{page}");
    assert_eq!(say(&two, &ids[2], "claim", r#"{"by": "ann"}"#).0, 503);
}

#[test]
fn nodes_ask_each_other_over_tls_with_certificates_of_their_own() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let address = cluster.servers[0].address();
    let [first, second] = [Data::new(&["web"]), Data::new(&["web"])];
    fs::copy(first.path().join("secret"), second.path().join("secret")).unwrap();
    let path = |name: &str| first.file("unused", "").replace("unused", name);
    let [sites, nodes] = ["sites", "nodes"].map(|name| HostAuthority::new(&first, name));
    let [site_ca, node_ca] = [path("sites.ca"), path("nodes.ca")];
    let start = |data: &Data, auth: &str, peers: &str| {
        sites.issue(&data.path(), "server");
        nodes.issue(&data.path(), "node");
        let config = data.path().join("tollhouse.toml");
        let text = fs::read_to_string(&config).unwrap();
        let tls = format!("certificate = \"server.pem\", key = \"server.key\", client_ca = \"{node_ca}\"");
        let tls = format!("[server]\ntls = {{ {tls}, client_certificates = \"{auth}\" }}\n");
        let cluster = format!("[cluster]\nnodes = [\"{address}\"]\n{peers}");
        fs::write(&config, format!("{}\n{cluster}", text.replace("[server]\n", &tls))).unwrap();
        Server::start(&data.path(), &[])
    };
    let one = start(&first, "required", "");
    let pem = |name: &str| fs::read(first.path().join(name)).unwrap();
    let own = ClientCert::new_with_certs(
        &[Certificate::from_pem(&pem("node.pem")).unwrap()],
        PrivateKey::from_pem(&pem("node.key")).unwrap(),
    );
    let authority = Certificate::from_pem(&fs::read(&site_ca).unwrap()).unwrap();
    let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&[authority])).client_cert(Some(own));
    let agent = ureq::Agent::config_builder().tls_config(tls.build()).http_status_as_error(false).build();
    let agent = ureq::Agent::from(agent);
    let url = format!("{}/v1/decide?durability=sync", one.url);
    let decided = agent.post(url).content_type("text/plain").send(log(0..1)).unwrap();
    let id = json(&decided.into_body().read_to_string().unwrap())["id"].as_str().unwrap().to_owned();
    let explained = |server: &Server| {
        let began = std::time::Instant::now();
        loop {
            let answer = agent.get(format!("{}/v1/decisions/{id}", server.url)).call().unwrap();
            let (status, text) = (answer.status().as_u16(), answer.into_body().read_to_string().unwrap());
            // A node that has just begun has not heard of the others.
            if status == 200 || began.elapsed().as_secs() > 5 {
                return (status, text);
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    };
    // Its `client_ca` vouches for no listener.
    let two = start(&second, "optional", "");
    let (status, text) = explained(&two);
    assert_eq!(status, 503, "{text}");
    assert_eq!(two.end(Signal::TERM), Some(0));
    let config = second.path().join("tollhouse.toml");
    let shown =
        format!("peer_ca = \"{site_ca}\"\npeer_certificate = \"node.pem\"\npeer_key = \"node.key\"\n");
    fs::write(&config, fs::read_to_string(&config).unwrap() + &shown).unwrap();
    let two = Server::start(&second.path(), &[]);
    let (status, text) = explained(&two);
    assert_eq!(status, 200, "{text}");
    assert_eq!(json(&text)["id"], id.as_str());
}

/// A mail that reports another as unwanted, from a provider.
fn complaint(reported: &str) -> String {
    format!(
        "From: fbl@provider.example\nContent-Type: multipart/report; report-type=feedback-report; boundary=b\n\n\
         --b\nContent-Type: message/feedback-report\n\nFeedback-Type: abuse\nVersion: 1\n\n\
         --b\nContent-Type: message/rfc822\n\n{reported}\n--b--\n"
    )
}

#[test]
fn a_mail_report_reaches_the_decision_of_another_node_once() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let address = [cluster.servers[0].address()];
    let port = crate::ports::free_port();
    let listener =
        format!("[[listener]]\nname = \"spamc\"\nprotocol = \"spamc\"\nlisten = \"127.0.0.1:{port}\"\n");
    let first = node_data("mail", &address, None, &listener);
    // Else the decision may be lost with the process.
    let one = Server::start(&first.path(), &["--set", "ledger.durability=sync"]);
    let (_second, two) = node_of("mail", &address[0], Some(&first));
    wait_for_states(&two, &["ready", "here"]);
    let process = |message: &str| {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let request = format!("PROCESS SPAMC/1.5\r\nContent-length: {}\r\n\r\n{message}", message.len());
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    let message =
        "From: Ann <ann@example.org>\r\nTo: bob@example.net\r\nSubject: An offer\r\n\r\nBuy now.\r\n";
    let stored = process(message);
    let signed_id =
        stored.lines().find_map(|line| line.strip_prefix("X-Tollhouse-Id: ")).expect("a signed id");
    let id = signed_id.trim().split_once('-').unwrap().0;
    let report = |server: &Server| {
        let url = format!("{}/v1/report?pipeline=mail", server.url);
        let request = ureq::http::Request::post(url).header("content-type", "message/rfc822");
        let request =
            request.header("tollhouse-user", "fbl@provider.example").body(complaint(&stored)).unwrap();
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut answer = agent.run(request).unwrap();
        (answer.status().as_u16(), json(&answer.body_mut().read_to_string().unwrap()))
    };
    // The node that did not decide hands it on, and the one that did knows it then.
    let (status, said) = report(&two);
    assert_eq!((status, &said["feedback"][0]["id"]), (200, &id.into()), "{said}");
    assert_eq!(
        (&said["class"], &said["feedback"][0]["duplicate"]),
        (&"complaint".into(), &false.into()),
        "{said}"
    );
    for server in [&one, &two] {
        let (status, said) = report(server);
        let outcome = &said["feedback"][0];
        assert_eq!(
            (status, &outcome["id"], &outcome["duplicate"]),
            (200, &id.into(), &true.into()),
            "{said}"
        );
    }
    let complaints = |server: &Server| -> u64 {
        let known = json(&call(server, "/v1/timeline?kind=from&value=ann@example.org", None).1);
        let tiers = known["tiers"].as_array().cloned().unwrap_or_default();
        let buckets = tiers.iter().filter_map(|tier| tier["buckets"].as_array()).flatten();
        buckets.filter_map(|bucket| bucket["counts"]["complaint"].as_u64()).sum()
    };
    for server in [&one, &two] {
        wait_until("one complaint", || complaints(server) == 1);
    }
    // Of a decision whose node is away nothing else is learned instead: the report is to be sent again.
    one.end(Signal::KILL);
    let (status, said) = report(&two);
    assert_eq!(status, 503, "{said}");
    let _again = Server::start(&first.path(), &[]);
    wait_until("the node again", || report(&two).0 == 200);
    assert_eq!(complaints(&two), 1);
}

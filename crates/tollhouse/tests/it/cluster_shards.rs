//! Nodes over a cluster of which one shard does not answer: what lives on the others goes on, each event is counted once in the
//! end, and `/readyz` says what is the matter.

use std::fs;

use serde_json::{Value, json as object};

use crate::cluster::{call, json, wait_until};
use crate::program::{Data, Server};
use crate::servers::Cluster;

/// Posts of users, refused where statistics cannot be had.
const POSTS: &str = r#"
name = "posts"
input = "json"
on_error = "closed"

[time]
dedupe = "1d"

[[field]]
name = "user"
type = "string"

[[kind]]
name = "user"
of = "user"

[[statistic]]
name = "counts"
keys = ["user"]
counts = ["seen"]
windows = ["10m x 144"]

[[rule]]
name = "KNOWN"
when = "user.seen('1h') > 0"
score = 1.0
"#;

/// The number of users; the events of the first half have ids.
const USERS: usize = 60;
const NAMED: usize = USERS / 2;

fn node(address: &str, like: Option<&Data>, more: &str) -> (Data, Server) {
    let data = Data::new(&["web"]);
    if let Some(other) = like {
        fs::copy(other.path().join("secret"), data.path().join("secret")).unwrap();
    }
    let times = "flush = \"200ms\"\nfresh = \"100ms\"\nstale = \"200ms\"\n";
    let cluster = format!("[cluster]\nnodes = [\"{address}\"]\n{times}{more}\n");
    fs::write(data.path().join("tollhouse.toml"), format!("{POSTS}\n{cluster}")).unwrap();
    let server = Server::start(&data.path(), &[]);
    (data, server)
}

/// An event of a user, with an id if its user is one of the first half.
fn event(user: usize, round: &str) -> Value {
    let mut event = object!({"user": format!("user{user}")});
    if user < NAMED {
        event["id"] = format!("{round}{user}").into();
    }
    event
}

/// Sends an event of each user in one request; returns an answer for each.
fn batch(server: &Server, path: &str, round: &str) -> Vec<Value> {
    let lines: String = (0..USERS).map(|user| format!("{}\n", event(user, round))).collect();
    let (status, text) = call(server, path, Some(("application/x-ndjson", &lines)));
    assert_eq!(status, 200, "{text}");
    let answers: Vec<Value> = text.lines().map(json).collect();
    assert_eq!(answers.len(), USERS, "{text}");
    answers
}

fn names(decision: &Value) -> Vec<&str> {
    decision["reasons"].as_array().unwrap().iter().filter_map(|reason| reason["name"].as_str()).collect()
}

/// Returns how many events of each user are counted, as a node knows it; `None` where it cannot be had.
fn counts(server: &Server) -> Option<Vec<u64>> {
    let count = |user: usize| {
        let (status, text) = call(server, &format!("/v1/timeline?kind=user&value=user{user}"), None);
        let tiers = (status == 200).then(|| json(&text)["tiers"].as_array().cloned().unwrap_or_default())?;
        let buckets = tiers.iter().filter_map(|tier| tier["buckets"].as_array()).flatten();
        Some(buckets.filter_map(|bucket| bucket["counts"]["seen"].as_u64()).sum())
    };
    (0..USERS).map(count).collect()
}

/// Returns the status of `/readyz`, and its text.
fn ready(server: &Server) -> (u16, String) {
    call(server, "/readyz", None)
}

/// The place of a master that has none of the registers that nodes share.
fn plain_master(cluster: &Cluster) -> usize {
    let has_registers = |at: &usize| cluster.servers[*at].cli(&["--scan", "--pattern", "*#e"]).contains("#e");
    cluster.masters().into_iter().find(|at| !has_registers(at)).expect("two of three have none")
}

#[test]
fn events_fail_one_by_one_while_a_shard_is_away_and_count_once() {
    let Some(mut cluster) = Cluster::unreplicated() else { return };
    let address = cluster.servers[0].address();
    let (first, one) = node(&address, None, "");
    let (_second, two) = node(&address, Some(&first), "unready = \"some\"");
    let known = batch(&one, "/v1/decide/batch", "first");
    assert!(known.iter().all(|decision| decision["action"] == "accept" && names(decision).is_empty()));
    wait_until("the first events on the other node", || counts(&two) == Some(vec![1; USERS]));
    assert_eq!((ready(&one).0, ready(&two).0), (200, 200));
    // What was read just now may still be answered, and is no longer.
    let stopped = plain_master(&cluster);
    cluster.servers[stopped].signal("STOP");
    wait_until("the condition", || ready(&one).1.contains("cluster-unreachable"));

    let decided = batch(&one, "/v1/decide/batch", "second");
    // By whether they have an id, and whether they were judged by what is known of the user.
    let mut seen = [[0; 2]; 2];
    for (user, decision) in decided.iter().enumerate() {
        let is_refused = decision["action"] == "throttle";
        let is_uncounted = decision["uncounted"] == true;
        assert_eq!(names(decision).contains(&"LEDGER_UNAVAILABLE"), is_refused, "{decision}");
        assert!(user < NAMED || !is_uncounted, "what has no id is counted at once: {decision}");
        assert!(is_refused || names(decision) == ["KNOWN"], "{decision}");
        assert!(!is_uncounted || is_refused, "{decision}");
        seen[usize::from(user < NAMED)][usize::from(is_refused)] += 1;
    }
    assert!(seen.iter().flatten().all(|count| *count > 2), "some of each: {seen:?}");
    let uncounted = decided.iter().filter(|decision| decision["uncounted"] == true).count();
    assert!((3..NAMED).contains(&uncounted), "{uncounted}");

    let mut outcomes = [0; 2];
    for user in 0..USERS {
        let body = event(user, "third").to_string();
        let (status, text) = call(&one, "/v1/decide", Some(("application/json", &body)));
        let decision = json(&text);
        assert_eq!(status, 200, "{text}");
        assert!(user < NAMED || decision.get("uncounted").is_none(), "{text}");
        outcomes[usize::from(decision["action"] == "throttle")] += 1;
    }
    assert!(outcomes.iter().all(|count| *count > 5), "{outcomes:?}");

    let observed = batch(&one, "/v1/batch/observe", "fourth");
    let is_uncounted = |user: &usize| observed[*user]["uncounted"] == true;
    assert!((NAMED..USERS).all(|user| !is_uncounted(&user)), "{observed:?}");
    assert!((3..NAMED).contains(&(0..NAMED).filter(is_uncounted).count()), "{observed:?}");
    // Who waits for the disk forgets the events then, so all of them are to be counted.
    let lines: String = (0..NAMED).map(|user| format!("{}\n", event(user, "fourth"))).collect();
    let (status, text) =
        call(&one, "/v1/batch/observe?durability=sync", Some(("application/x-ndjson", &lines)));
    assert_eq!(status, 503, "{text}");

    // Both say so; one of them is not to be sent requests.
    let (status, text) = ready(&one);
    assert!(status == 200 && json(&text)["status"] == "degraded", "{text}");
    assert!(text.contains(&cluster.servers[stopped].address()) && text.contains("1 of 3 shards"), "{text}");
    wait_until("the other node", || ready(&two).0 == 503);
    let shown = |server: &Server| json(&call(server, "/v1/nodes", None).1)["nodes"].clone();
    wait_until("the nodes", || shown(&one)[1]["state"] == "unready");
    for node in shown(&one).as_array().unwrap() {
        assert!(node["conditions"].to_string().contains("cluster-unreachable"), "{node}");
    }

    cluster.servers[stopped].signal("CONT");
    wait_until("both are well", || ready(&one).0 == 200 && ready(&two).0 == 200);
    wait_until("no condition", || !ready(&one).1.contains("cluster-unreachable"));
    for server in [&one, &two] {
        wait_until("each event once", || counts(server) == Some(vec![4; USERS]));
    }
    // What is sent again is known.
    for round in ["second", "third", "fourth"] {
        let again = batch(&two, "/v1/decide/batch", round);
        assert!(again[..NAMED].iter().all(|decision| decision["duplicate"] == true), "{round}: {again:?}");
    }
    let expected: Vec<u64> = (0..USERS).map(|user| if user < NAMED { 4 } else { 7 }).collect();
    for server in [&one, &two] {
        wait_until("each event once, still", || counts(server) == Some(expected.clone()));
    }
}

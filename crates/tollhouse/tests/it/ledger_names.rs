//! Names of what is counted, and the numbers that they keep.

use std::ffi::OsStr;
use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use crate::program::{Data, Server, command};
use crate::servers::Cluster;

const SITE: &str = "name = \"site\"\n[[field]]\nname = \"user\"\ntype = \"string\"\n";

/// A configuration that counts these kinds.
fn site(kinds: &[&str]) -> String {
    let mut text = SITE.to_owned();
    for kind in kinds {
        text += &format!("[[kind]]\nname = \"{kind}\"\nof = \"user\"\n");
    }
    text + &format!(
        "[[statistic]]\nname = \"counts\"\nkeys = {kinds:?}\ncounts = [\"seen\"]\nwindows = [\"1h x 48\"]\n\
         [server]\nlisten = \"127.0.0.1:0\"\n[ledger]\ndurability = \"sync\"\n"
    )
}

/// Names and numbers, as the command lists them.
fn names(data: &Data) -> Vec<(String, u64)> {
    let listed = data.run(&["ledger", "names", "--json"], "").expect(0).json();
    listed
        .iter()
        .map(|line| (line["name"].as_str().unwrap().to_owned(), line["number"].as_u64().unwrap()))
        .collect()
}

fn decide(server: &Server) {
    let sent = ureq::post(format!("{}/v1/decide", server.url))
        .header("Content-Type", "application/json")
        .send(r#"{"user":"ann"}"#);
    assert_eq!(sent.unwrap().status(), 200);
}

fn seen(data: &Data, kind: &str) -> u64 {
    let shown = data.run(&["stats", kind, "ann", "--json"], "").expect(0).json();
    let buckets = |tier: &serde_json::Value| tier["buckets"].as_array().cloned().unwrap_or_default();
    let tiers = shown[0]["tiers"].as_array().unwrap();
    tiers.iter().flat_map(buckets).map(|bucket| bucket["counts"]["seen"].as_u64().unwrap()).sum()
}

#[test]
fn a_name_is_changed_with_what_was_counted_of_it() {
    let data = Data::new(&[]);
    let config = data.path().join("tollhouse.toml");
    fs::write(&config, site(&["user", "other"])).unwrap();
    let server = Server::start(&data.path(), &[]);
    decide(&server);
    let running = data.run(&["ledger", "names", "--rename", "user", "account"], "").expect(2);
    assert!(running.stderr.contains("stop the server"), "{}", running.stderr);
    assert_eq!(server.end(Signal::TERM), Some(0));
    let listed = data.run(&["ledger", "names"], "").expect(0);
    assert_eq!(listed.stdout, "1/kind/user 1\n1/kind/other 2\n");
    data.run(&["ledger", "names", "--rename", "user", "account"], "").expect(0);
    let gone = data.run(&["ledger", "names", "--rename", "user", "account"], "").expect(2);
    assert!(gone.stderr.contains("no name in the registry is `user`"), "{}", gone.stderr);
    data.run(&["ledger", "names", "--drop", "kind/other"], "").expect(0);
    fs::write(&config, site(&["other", "account"])).unwrap();
    let server = Server::start(&data.path(), &[]);
    decide(&server);
    assert_eq!(server.end(Signal::TERM), Some(0));
    let numbers =
        [("account", 1), ("other", 2), ("other", 3)].map(|(name, number)| (name.to_owned(), number));
    assert_eq!(names(&data), numbers);
    assert_eq!([seen(&data, "account"), seen(&data, "other")], [2, 1]);
}

/// However a start ends that meets new names, a number stays the number of its name.
#[test]
fn numbers_stay_whenever_a_start_is_killed() {
    let kills = std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(8u64);
    let data = Data::new(&[]);
    let config = data.path().join("tollhouse.toml");
    let mut known: Vec<(String, u64)> = Vec::new();
    for round in 0..kills {
        let kinds: Vec<String> = (0..=round).rev().map(|number| format!("k{number}")).collect();
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        fs::write(&config, site(&kinds)).unwrap();
        let mut serve = command(&["serve", "--data"].map(OsStr::new)).arg(data.path()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(round * 31 % 200));
        serve.kill().unwrap();
        serve.wait().unwrap();
        let listed = names(&data);
        assert!(known.iter().all(|name| listed.contains(name)), "{known:?} {listed:?}");
        known = listed;
    }
    let server = Server::start(&data.path(), &[]);
    decide(&server);
    assert_eq!(server.end(Signal::TERM), Some(0));
    let listed = names(&data);
    assert!(known.iter().all(|name| listed.contains(name)) && listed.len() == kills as usize, "{listed:?}");
    data.run(&["verify"], "").expect(0);
}

/// Two nodes that meet the same new names at once, in another order, count under the same numbers.
#[test]
fn nodes_that_start_at_once_agree() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let home =
        format!("[cluster]\nreplicas = 0\nnodes = [\"{}\"]\n\n[ledger]\n", cluster.servers[0].address());
    let nodes = [&["user", "ip", "other"][..], &["other", "late", "ip", "user"]].map(|kinds| {
        let data = Data::new(&[]);
        fs::write(data.path().join("tollhouse.toml"), site(kinds).replace("[ledger]\n", &home)).unwrap();
        data
    });
    fs::copy(nodes[0].path().join("secret"), nodes[1].path().join("secret")).unwrap();
    std::thread::scope(|scope| {
        for data in &nodes {
            scope.spawn(|| {
                let server = Server::start(&data.path(), &[]);
                decide(&server);
                assert_eq!(server.end(Signal::TERM), Some(0));
            });
        }
    });
    // Whoever was first does not know the names of the other yet.
    for data in nodes.iter().rev().chain(&nodes) {
        data.run(&["stats", "user", "ann"], "").expect(0);
    }
    let [one, other] = [&nodes[0], &nodes[1]].map(names);
    assert_eq!(one, other);
    assert_eq!(one.len(), 4);
    let counted = ["user", "ip", "other", "late"].map(|kind| seen(&nodes[1], kind));
    assert_eq!(counted, [2, 2, 2, 1]);
    let shared = nodes[0].run(&["ledger", "names", "--drop", "late"], "").expect(2);
    assert!(shared.stderr.contains("names that nodes share"), "{}", shared.stderr);
}

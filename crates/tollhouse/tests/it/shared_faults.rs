//! Bans and rules of three nodes over six servers, with faults: all nodes agree in the end, and what was answered holds.
//!
//! `cargo test -p tollhouse --test it -- --nocapture shared_faults` prints the table; `FAULT_ROUNDS=4` makes it four times as long.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::clock;
use crate::cluster::{ban, banned, call, json, lift, node_with, post_label, wait_for_states, wait_until};
use crate::program::{Data, Server};
use crate::servers::Cluster;

#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    NodeKilled,
    NodePaused,
    MasterKilled,
    MasterPaused,
    AllPaused,
}

const FAULTS: [(Fault, &str); 6] = [
    (Fault::None, "none"),
    (Fault::NodeKilled, "a node is killed, and comes back"),
    (Fault::NodePaused, "a node is paused for a second"),
    (Fault::MasterPaused, "the list's master is paused for a second"),
    (Fault::AllPaused, "all servers are paused for a second"),
    (Fault::MasterKilled, "the list's master is killed, and its replica takes over"),
];

/// The place of the master that has the list of changes.
fn list_master(cluster: &Cluster) -> usize {
    let has_list = |at: &usize| cluster.servers[*at].cli(&["--scan", "--pattern", "*#cv"]).contains("#cv");
    cluster.masters().into_iter().find(has_list).expect("somebody has the list")
}

fn versions(server: &Server) -> Vec<String> {
    let pipelines = json(&call(server, "/v1/pipelines", None).1);
    let of = |pipeline: &serde_json::Value| pipeline["version"].as_str().unwrap().to_owned();
    pipelines["pipelines"].as_array().unwrap().iter().map(of).collect()
}

fn rule(number: usize) -> String {
    format!(
        "[[rule]]\nname = \"RULE_{number}\"\nwhen = \"true\"\nscore = 0.1\n{}",
        crate::cluster::label_text()
    )
}

#[test]
fn bans_and_rules_outlive_faults_of_nodes_and_servers() {
    let Some(mut cluster) = Cluster::start() else { return };
    let rounds = std::env::var("FAULT_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    let ahead = Data::new(&["web"]);
    let ahead = ahead.file("ahead", "+5s");
    // The third node's clock is five seconds ahead, where that can be had.
    let environment = clock::library()
        .map(|library| clock::environment(&library, std::path::Path::new(&ahead)))
        .unwrap_or_default();
    let addresses = cluster.addresses();
    let (first, one) = node_with("web", &addresses, None, &[]);
    let (_second, two) = node_with("web", &addresses, Some(&first), &[]);
    let (third, mut three) = node_with("web", &addresses, Some(&first), &environment);
    wait_for_states(&one, &["here", "ready", "ready"]);
    wait_for_states(&two, &["ready", "here", "ready"]);
    wait_for_states(&three, &["ready", "ready", "here"]);
    post_label(&one);
    let mut expected = BTreeSet::new();
    ban(&three, "192.0.2.200", "2h");
    ban(&one, "192.0.2.201", "2h");
    expected.extend(["192.0.2.200".to_owned(), "192.0.2.201".to_owned()]);
    println!("| fault | agreed after healing |\n|---|---|");
    for (run, (fault, name)) in (0..rounds).flat_map(|_| FAULTS).enumerate() {
        let agree = |three: &Server, expected: &BTreeSet<String>| {
            let bans: Vec<String> = expected.iter().cloned().collect();
            [&one, &two, three].into_iter().all(|server| banned(server) == bans)
                && versions(&one) == versions(&two)
                && versions(&one) == versions(three)
        };
        wait_until("all agree before", || agree(&three, &expected));
        let last = format!("192.0.2.{}", 200 + run);
        let (now, later) = (format!("192.0.2.{}", 202 + run), format!("198.51.100.{run}"));
        let master = list_master(&cluster);
        match fault {
            Fault::None => {}
            Fault::NodeKilled => three.signal(Signal::KILL),
            Fault::NodePaused => three.signal(Signal::STOP),
            Fault::MasterKilled => cluster.servers[master].signal("KILL"),
            Fault::MasterPaused => cluster.servers[master].signal("STOP"),
            Fault::AllPaused => cluster.servers.iter_mut().for_each(|server| server.signal("STOP")),
        }
        let begun = Instant::now();
        ban(&one, &now, "2h");
        lift(&two, &last);
        ban(&two, &later, "2h");
        lift(&two, &later);
        expected.remove(&last);
        expected.insert(now);
        let posted = call(&two, "/v1/rules", Some(("application/toml", &rule(run)))).0;
        std::thread::sleep(Duration::from_secs(1).saturating_sub(begun.elapsed()));
        match fault {
            Fault::None => {}
            // Without it the new master has no replica that could confirm what is written.
            Fault::MasterKilled => {
                wait_until("a replica takes over", || cluster.masters().len() == 3);
                cluster.servers[master].again();
                cluster.settle();
            }
            Fault::NodeKilled => three = Server::start_in(&third.path(), &environment, &[]),
            Fault::NodePaused => three.signal(Signal::CONT),
            Fault::MasterPaused => cluster.servers[master].signal("CONT"),
            Fault::AllPaused => cluster.servers.iter_mut().for_each(|server| server.signal("CONT")),
        }
        let healed = Instant::now();
        if posted != 200 {
            let again = || call(&two, "/v1/rules", Some(("application/toml", &rule(run)))).0 == 200;
            wait_until("a rule can be posted again", again);
        }
        let has = |server: &Server| call(server, "/v1/pipelines", None).1.contains(&format!("RULE_{run}"));
        wait_until(name, || agree(&three, &expected) && [&one, &two, &three].into_iter().all(has));
        println!("| {name} | {:.1} s |", healed.elapsed().as_secs_f64());
    }
}

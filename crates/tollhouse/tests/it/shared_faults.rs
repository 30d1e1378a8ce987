//! Three nodes over six servers and a bucket, with faults under load: bans and rules are the same on all nodes in the end, each
//! decision that was answered is explained by every node and lies in the bucket once, and each judgement counts once.
//!
//! `cargo test -p tollhouse --test it -- --nocapture shared_faults` prints the table; `FAULT_ROUNDS=4` makes it four times as long.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json as object};

use crate::clock;
use crate::cluster::{ban, banned, call, json, lift, node_with, post_label, wait_for_states, wait_until};
use crate::objects::metric;
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
    BucketAway,
}

const FAULTS: [(Fault, &str); 7] = [
    (Fault::None, "none"),
    (Fault::NodeKilled, "a node is killed, and comes back"),
    (Fault::NodePaused, "a node is paused for a second"),
    (Fault::MasterPaused, "the list's master is paused for a second"),
    (Fault::AllPaused, "all servers are paused for a second"),
    (Fault::BucketAway, "the bucket is away for a second"),
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

/// Requests to three nodes while faults come and go, and what was answered to them.
struct Traffic {
    ended: AtomicBool,
    /// Addresses of the nodes: one that comes back has another port.
    urls: Mutex<[String; 3]>,
    /// The decisions that were answered, which are durable then, and have not been looked for.
    decided: Mutex<Vec<String>>,
    /// The decisions that somebody complained of, and whether a node has confirmed it.
    judged: Mutex<BTreeMap<String, bool>>,
}

/// The number of addresses that ask for pages.
const VISITORS: usize = 20;

fn visitor(number: usize) -> String {
    format!("203.0.113.{}", number % VISITORS)
}

/// Posts with a bound; returns the answer if it is a success.
fn post(url: &str, path: &str, kind: &str, body: &str) -> Option<Value> {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(20))).build().into();
    let mut answer = agent.post(format!("{url}{path}")).content_type(kind).send(body).ok()?;
    serde_json::from_str(&answer.body_mut().read_to_string().ok()?).ok()
}

impl Traffic {
    fn new(nodes: [&Server; 3]) -> Traffic {
        Traffic {
            ended: AtomicBool::new(false),
            urls: Mutex::new(nodes.map(|node| node.url.clone())),
            decided: Mutex::default(),
            judged: Mutex::default(),
        }
    }

    fn url(&self, node: usize) -> String {
        self.urls.lock().unwrap()[node % 3].clone()
    }

    /// Complains of a decision to a node, which may be of another.
    fn complain(&self, node: usize, id: &str) -> bool {
        self.judged.lock().unwrap().entry(id.to_owned()).or_insert(false);
        // Of what one reporter says in a day only so much counts.
        let by = format!("{id}@example.org");
        let complaint = object!({"id": id, "class": "complaint", "by": by}).to_string();
        let is_heard = post(&self.url(node), "/v1/feedback", "application/json", &complaint).is_some();
        if is_heard {
            self.judged.lock().unwrap().insert(id.to_owned(), true);
        }
        is_heard
    }

    /// Asks a node for decisions, and complains of every third to the next node, until the end.
    fn run(&self, node: usize) {
        for number in 0.. {
            if self.ended.load(Ordering::Relaxed) {
                return;
            }
            let event = object!({
                "client.ip": visitor(number), "http.path": "/", "http.method": "GET", "http.status": 200,
            });
            let path = "/v1/decide?pipeline=web&durability=sync";
            if let Some(answer) = post(&self.url(node), path, "application/json", &event.to_string()) {
                let id = answer["id"].as_str().unwrap().to_owned();
                self.decided.lock().unwrap().push(id.clone());
                if number % 3 == 0 {
                    self.complain(node + 1, &id);
                }
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Repeats each complaint that no node has confirmed, to the first.
    fn repeat_complaints(&self) {
        let open: Vec<String> = {
            let judged = self.judged.lock().unwrap();
            judged.iter().filter(|(_, is_heard)| !**is_heard).map(|(id, _)| id.clone()).collect()
        };
        for id in open {
            wait_until("a complaint is heard", || self.complain(0, &id));
        }
    }
}

/// Requests that go on until this is dropped.
struct Load {
    traffic: Arc<Traffic>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn begin(traffic: &Arc<Traffic>) -> Load {
        traffic.ended.store(false, Ordering::Relaxed);
        let begin = |node| {
            let traffic = Arc::clone(traffic);
            std::thread::spawn(move || traffic.run(node))
        };
        Load { traffic: Arc::clone(traffic), threads: (0..3).map(begin).collect() }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.traffic.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// The complaints that a node has counted of all visitors.
fn complaints(server: &Server) -> u64 {
    let keys: Vec<Value> =
        (0..VISITORS).map(|number| object!({"kind": "ip", "value": visitor(number)})).collect();
    let asked = object!({"pipeline": "web", "keys": keys}).to_string();
    let Some(answer) = post(&server.url, "/v1/readings", "application/json", &asked) else { return 0 };
    let of = |key: &Value| {
        let windows = key["windows"].as_array().unwrap().iter();
        windows.filter_map(|window| window["counts"]["complaint"].as_u64()).max().unwrap_or(0)
    };
    answer["keys"].as_array().unwrap().iter().map(of).sum()
}

/// A directory that nodes upload to, and that can be taken away for a while.
pub(crate) struct Bucket {
    parent: tempfile::TempDir,
}

impl Bucket {
    pub(crate) fn new() -> Bucket {
        let bucket = Bucket { parent: tempfile::tempdir().unwrap() };
        fs::create_dir(bucket.place()).unwrap();
        bucket
    }

    fn place(&self) -> std::path::PathBuf {
        self.parent.path().join("bucket")
    }

    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.place().display())
    }

    /// Puts a file in the directory's place, so that nobody makes it anew.
    pub(crate) fn take_away(&self) {
        fs::rename(self.place(), self.parent.path().join("away")).unwrap();
        fs::write(self.place(), "").unwrap();
    }

    pub(crate) fn bring_back(&self) {
        fs::remove_file(self.place()).unwrap();
        fs::rename(self.parent.path().join("away"), self.place()).unwrap();
    }

    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let of = |name: &str, value: String| (name.to_owned(), value);
        vec![
            of("TOLLHOUSE_JOURNAL_UPLOAD", self.url()),
            of("TOLLHOUSE_JOURNAL_UPLOAD_EVERY", "1s".to_owned()),
        ]
    }
}

#[test]
fn what_was_answered_outlives_faults_of_nodes_servers_and_bucket() {
    let Some(mut cluster) = Cluster::start() else { return };
    let rounds = std::env::var("FAULT_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    let bucket = Bucket::new();
    let ahead = Data::new(&["web"]);
    let ahead = ahead.file("ahead", "+5s");
    let usual = bucket.environment();
    // The third node's clock is five seconds ahead, where that can be had.
    let mut environment = clock::library()
        .map(|library| clock::environment(&library, std::path::Path::new(&ahead)))
        .unwrap_or_default();
    environment.extend(usual.clone());
    let addresses = cluster.addresses();
    let (first, one) = node_with("web", &addresses, None, &usual);
    let (_second, two) = node_with("web", &addresses, Some(&first), &usual);
    let (third, mut three) = node_with("web", &addresses, Some(&first), &environment);
    wait_for_states(&one, &["here", "ready", "ready"]);
    wait_for_states(&two, &["ready", "here", "ready"]);
    wait_for_states(&three, &["ready", "ready", "here"]);
    post_label(&one);
    let mut expected = BTreeSet::new();
    ban(&three, "192.0.2.200", "2h");
    ban(&one, "192.0.2.201", "2h");
    expected.extend(["192.0.2.200".to_owned(), "192.0.2.201".to_owned()]);
    println!("| fault | agreed after healing | decisions explained | complaints |\n|---|---|---|---|");
    let traffic = Arc::new(Traffic::new([&one, &two, &three]));
    let mut answered = Vec::new();
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
        let load = Load::begin(&traffic);
        match fault {
            Fault::None => {}
            Fault::NodeKilled => three.signal(Signal::KILL),
            Fault::NodePaused => three.signal(Signal::STOP),
            Fault::MasterKilled => cluster.servers[master].signal("KILL"),
            Fault::MasterPaused => cluster.servers[master].signal("STOP"),
            Fault::AllPaused => cluster.servers.iter_mut().for_each(|server| server.signal("STOP")),
            Fault::BucketAway => bucket.take_away(),
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
            Fault::NodeKilled => {
                three = Server::start_in(&third.path(), &environment, &[]);
                traffic.urls.lock().unwrap()[2] = three.url.clone();
            }
            Fault::NodePaused => three.signal(Signal::CONT),
            Fault::MasterPaused => cluster.servers[master].signal("CONT"),
            Fault::AllPaused => cluster.servers.iter_mut().for_each(|server| server.signal("CONT")),
            Fault::BucketAway => bucket.bring_back(),
        }
        let healed = Instant::now();
        if posted != 200 {
            let again = || call(&two, "/v1/rules", Some(("application/toml", &rule(run)))).0 == 200;
            wait_until("a rule can be posted again", again);
        }
        let has = |server: &Server| call(server, "/v1/pipelines", None).1.contains(&format!("RULE_{run}"));
        wait_until(name, || agree(&three, &expected) && [&one, &two, &three].into_iter().all(has));
        let agreed = healed.elapsed();
        drop(load);
        traffic.repeat_complaints();
        let decided = std::mem::take(&mut *traffic.decided.lock().unwrap());
        for (number, id) in decided.iter().enumerate() {
            // A long run asks every node for each decision, a short one the nodes in turn.
            let asked = if rounds > 1 { 3 } else { 1 };
            for server in [&one, &two, &three].into_iter().cycle().skip(number % 3).take(asked) {
                let is_explained = || call(server, &format!("/v1/decisions/{id}"), None).0 == 200;
                wait_until("a decision is explained", is_explained);
            }
        }
        assert!(!decided.is_empty());
        let judged = traffic.judged.lock().unwrap().len() as u64;
        for (number, server) in [&one, &two, &three].into_iter().enumerate() {
            wait_until(&format!("node {} has {judged} complaints", number + 1), || {
                let counted = complaints(server);
                assert!(counted <= judged, "{counted} of {judged} complaints: some count twice");
                counted == judged
            });
        }
        println!("| {name} | {:.1} s | {} | {judged} |", agreed.as_secs_f64(), decided.len());
        answered.extend(decided);
    }
    for server in [&one, &two, &three] {
        wait_until("all is uploaded", || {
            metric(server, "journal_pending_bytes") == Some(0)
                && metric(server, "journal_upload_waiting") == Some(0)
        });
    }
    let rows = first.run(&["export", "--journal", &bucket.url()], "").expect(0).json();
    let mut uploaded: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &rows {
        *uploaded.entry(row["id"].as_str().unwrap()).or_default() += 1;
    }
    let wrong = answered.iter().filter(|id| uploaded.get(id.as_str()) != Some(&1));
    assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&String>::new(), "each decision lies in the bucket once");
}

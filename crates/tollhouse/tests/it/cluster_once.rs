//! Things that count once among all nodes of a cluster: of the same solution, signature or form at two nodes at the same time, one is the
//! first. A pass that was earned at one node holds at the other.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;

use altcha::{Challenge, Payload, SolveChallengeOptions, solve_challenge};
use data_encoding::BASE64;
use serde_json::{Value, json as object};

use crate::cluster::{call, json, wait_for_states};
use crate::program::{Data, Server};
use crate::servers::Cluster;

/// A site that admits signed requests of one application, and the nodes' own configuration.
const SITE: &str = r#"
name = "site"
input = "access-log"
on_error = "closed"

[[rule]]
name = "UNSIGNED"
when = "!app.verified.or(false)"
score = 5.0

[[band]]
at = 5.0
action = "reject"

[node]
pipelines = ["posts.toml"]

[[limit]]
name = "forms"
key = ["form.id"]
count = 1
per = "12h"
exact = true

[[forward_auth]]
name = "site"
pipeline = "site"

[[application]]
name = "shop"
hosts = ["www.example.org"]

[[application.versions]]
version = "1"
secret = "a secret that is long enough"
"#;

/// An application that takes each form once.
const POSTS: &str = r#"
name = "posts"
space = 31
input = "json"
on_error = "closed"

[[field]]
name = "user"
type = "string"

[form]
visitor = ["user"]

[challenge]
cost = "1"
algorithm = "sha-256"
visitor = ["user"]
pass_bound_to = ["user"]

[[rule]]
name = "NO_FORM"
when = "!form.opened && !pass.valid.or(false)"
score = 5.0

[[rule]]
name = "SENT_AGAIN"
when = "over('forms')"
score = 5.0

[[band]]
at = 5.0
action = "reject"
"#;

/// The number of times that both nodes are asked at once.
const ROUNDS: usize = 8;

fn node(address: &str, like: Option<&Data>) -> (Data, Server) {
    let data = Data::new(&["web"]);
    if let Some(other) = like {
        fs::copy(other.path().join("secret"), data.path().join("secret")).unwrap();
    }
    let cluster = format!("[cluster]\nnodes = [\"{address}\"]\n");
    fs::write(data.path().join("tollhouse.toml"), format!("{SITE}\n{cluster}")).unwrap();
    fs::write(data.path().join("posts.toml"), POSTS).unwrap();
    let server = Server::start(&data.path(), &[]);
    (data, server)
}

fn ask(server: &Server, path: &str, body: &Value) -> Value {
    let (status, text) = call(server, path, Some(("application/json", &body.to_string())));
    assert_eq!(status, 200, "{path}: {text}");
    json(&text)
}

/// Asks both nodes the same at the same time, and returns their answers.
fn at_once<A: Send>(servers: [&Server; 2], asked: impl Fn(&Server) -> A + Sync) -> [A; 2] {
    let barrier = Barrier::new(2);
    let (asked, barrier) = (&asked, &barrier);
    std::thread::scope(|threads| {
        servers
            .map(|server| {
                threads.spawn(move || {
                    barrier.wait();
                    asked(server)
                })
            })
            .map(|thread| thread.join().unwrap())
    })
}

/// The solution of a challenge that a node issues for a user.
fn solved(server: &Server, user: &str) -> String {
    let issued = ask(server, "/v1/challenges?pipeline=posts", &object!({"user": user}));
    let challenge: Challenge = serde_json::from_value(issued).unwrap();
    let solution = solve_challenge(SolveChallengeOptions::new(&challenge)).unwrap().unwrap();
    BASE64.encode(&serde_json::to_vec(&Payload { challenge, solution }).unwrap())
}

#[test]
fn solutions_forms_and_signatures_count_once_on_all_nodes() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let address = cluster.servers[0].address();
    let (first, one) = node(&address, None);
    let (_second, two) = node(&address, Some(&first));
    wait_for_states(&one, &["here", "ready"]);
    wait_for_states(&two, &["ready", "here"]);
    let both = [&one, &two];

    for round in 0..ROUNDS {
        let (here, there) = (both[round % 2], both[(round + 1) % 2]);
        let user = format!("user{round}");

        // One solution, issued by either.
        let payload = solved(here, &user);
        let body = object!({"payload": payload, "event": {"user": user}});
        let outcomes = at_once(both, |server| ask(server, "/v1/challenges/verify?pipeline=posts", &body));
        let passes: Vec<&str> = outcomes.iter().filter_map(|it| it["pass"]["token"].as_str()).collect();
        let used = outcomes.iter().filter(|outcome| outcome["refused"] == "used").count();
        assert_eq!((passes.len(), used), (1, 1), "{outcomes:?}");

        // The pass holds at both, for this user alone.
        for server in both {
            let shown = |user: &str| {
                let event = object!({"user": user, "pass.token": passes[0]});
                ask(server, "/v1/decide?pipeline=posts", &event)["action"].clone()
            };
            assert_eq!((shown(&user), shown("other")), ("accept".into(), "reject".into()), "{}", server.url);
        }

        // One form that was opened at one node and is sent to both.
        let opened = ask(here, "/v1/forms?pipeline=posts&form=post", &object!({"user": user}));
        let event = object!({"user": user, "form.token": opened["token"], "form.expected": "post"});
        let decisions = at_once(both, |server| ask(server, "/v1/decide?pipeline=posts", &event));
        let reasons: Vec<&str> =
            decisions.iter().filter_map(|it| it["reasons"][0]["name"].as_str()).collect();
        let accepted = decisions.iter().filter(|decision| decision["action"] == "accept").count();
        assert_eq!((accepted, reasons), (1, vec!["SENT_AGAIN"]), "{decisions:?}");
        assert_eq!(ask(there, "/v1/decide?pipeline=posts", &event)["action"], "reject");
    }

    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: signatures at two nodes: python3 is not installed");
        return;
    }
    for _ in 0..ROUNDS {
        let signature = signed();
        let statuses = at_once(both, |server| {
            let mut request = ureq::get(format!("{}/v1/auth/site", server.url))
                .config()
                .http_status_as_error(false)
                .build()
                .header("X-Forwarded-For", "192.0.2.7")
                .header("X-Forwarded-Host", "www.example.org")
                .header("X-Forwarded-Uri", "/orders");
            for (name, value) in &signature {
                request = request.header(name, value);
            }
            request.call().unwrap().status().as_u16()
        });
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    }
}

/// The header fields of a request that the application signs now.
fn signed() -> BTreeMap<String, String> {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/signed-requests/tollhouse_sign.py");
    let ran = Command::new("python3")
        .arg(script)
        .args(["GET", "https://www.example.org/orders", "shop/1"])
        .env("TOLLHOUSE_SECRET", "a secret that is long enough")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let said = String::from_utf8(ran.stdout).unwrap();
    let fields = said.lines().filter_map(|line| line.split_once(": "));
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

//! Reputations over HTTP and on the command line, wherever statistics live.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::program::{Data, Server, run};

/// The forum of the guide.
fn forum() -> String {
    let guide = include_str!("../../../../docs/guides/reputation.md");
    let block = guide.split("\n```toml\n").nth(1).and_then(|rest| rest.split("\n```").next()).unwrap();
    let more = "[[field]]\nname = \"abuse\"\ntype = \"bool\"\n[[rule]]\nname = \"ABUSE\"\nwhen = \"abuse\"\nscore = 9\n";
    format!("name = \"forum\"\n{block}\n{more}\n[[band]]\nat = 5.0\naction = \"reject\"\n")
}

fn node(more: &str) -> (Data, Server) {
    let data = Data::new(&["web"]);
    fs::write(data.path().join("tollhouse.toml"), format!("{}{more}", forum())).unwrap();
    let server = Server::start(&data.path(), &[]);
    (data, server)
}

fn post(server: &Server, path: &str, body: &Value) -> Value {
    let sent = ureq::post(format!("{}{path}", server.url)).content_type("application/json");
    let text = sent.send(body.to_string()).unwrap().body_mut().read_to_string().unwrap();
    serde_json::from_str(&text).unwrap()
}

fn event(user: &str, ip: &str) -> Value {
    json!({ "user": user, "ip": ip, "abuse": user == "eve" })
}

/// Posts, complaints and likes.
fn live(server: &Server) {
    for number in 0..40 {
        let (user, ip) = [("eve", "192.0.2.1"), ("ann", "192.0.2.2"), ("bob", "198.51.100.3")][number % 3];
        let decided = post(server, "/v1/decide", &event(user, ip));
        let class = match (user, number) {
            ("eve", 0) => "complaint",
            ("ann", _) => "liked",
            _ => continue,
        };
        post(server, "/v1/feedback", &json!({ "id": decided["id"], "class": class }));
    }
}

/// The reputations that an event would see, but for the hashes of keys.
fn seen(server: &Server, user: &str, ip: &str) -> Value {
    let mut seen = post(server, "/v1/peek", &event(user, ip))["reputations"].take();
    for reputation in seen.as_array_mut().unwrap() {
        reputation.as_object_mut().unwrap().remove("shingle");
    }
    seen
}

const LOOKS: [(&str, &str); 5] = [
    ("eve", "192.0.2.1"),
    ("ann", "192.0.2.2"),
    ("bob", "198.51.100.3"),
    ("new", "192.0.2.9"),
    ("new", "203.0.113.9"),
];

#[test]
fn reputations_are_explained() {
    let (_data, server) = node("");
    live(&server);
    let looked = seen(&server, "eve", "192.0.2.1");
    let of = |name: &str| looked.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone();
    assert_eq!(of("address")["grade"], "suspicious");
    let parts: Vec<_> =
        of("address")["reasons"].as_array().unwrap().iter().map(|it| it["part"].clone()).collect();
    assert_eq!(parts, ["ip.complaint", "ip.refused", "network"]);
    let id = post(&server, "/v1/decide", &event("eve", "192.0.2.1"))["id"].as_str().unwrap().to_owned();
    let explained = run(["explain", &id, "--json", "--server", &server.url], "").expect(0).json().remove(0);
    let mut logged = explained["reputations"].clone();
    logged
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .for_each(|it| _ = it.as_object_mut().unwrap().remove("shingle"));
    assert_eq!(logged, looked, "what was logged says what was seen before");
    let told = run(["explain", &id, "--server", &server.url], "").expect(0).stdout;
    assert!(told.contains("reputation address is suspicious"), "{told}");
    let told = run(["stats", "ip", "192.0.2.1", "--server", &server.url], "").expect(0).stdout;
    assert!(told.contains("reputation address is suspicious") && told.contains("ip.complaint"), "{told}");
    let top = |more: &[&str]| {
        let args = ["top", "--reputation", "address", "--server", &server.url];
        run(args.into_iter().chain(more.iter().copied()), "").expect(0)
    };
    let worst = top(&["--json"]).json().remove(0);
    assert_eq!((&worst["order"], worst["keys"].as_array().unwrap().len()), (&json!("worst"), 1), "{worst}");
    assert_eq!(
        (&worst["keys"][0]["piece"], &worst["keys"][0]["grade"]),
        (&json!("192.0.2.1"), &json!("suspicious"))
    );
    assert_eq!(worst["keys"][0]["score"], of("address")["score"], "with what it inherits");
    let drawn = top(&["--best"]).stdout;
    assert!(drawn.contains("192.0.2.2") && drawn.contains("best of the last 1h"), "{drawn}");
    run(["top", "--best", "ip", "--server", &server.url], "").expect(2);
    assert_eq!(server.end(Signal::TERM), Some(0));
}

#[cfg(feature = "cluster")]
#[test]
fn reputations_are_the_same_in_a_cluster() {
    let Some(cluster) = crate::servers::Cluster::single(&[]) else { return };
    let (_alone, alone) = node("");
    let (_many, many) = node(&format!("[cluster]\nnodes = [\"{}\"]\n", cluster.servers[0].address()));
    live(&alone);
    live(&many);
    for (user, ip) in LOOKS {
        assert_eq!(seen(&many, user, ip), seen(&alone, user, ip), "{user} {ip}");
    }
    assert_eq!(seen(&alone, "new", "203.0.113.9")[0]["grade"], "unknown");
    for server in [alone, many] {
        assert_eq!(server.end(Signal::TERM), Some(0));
    }
}

//! The queue of reviews at the command line, and after a kill.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::program::{Data, Ran, Server, run};

/// The configuration that docs/guides/review.md begins with.
fn guide() -> &'static str {
    let page = include_str!("../../../../docs/guides/review.md");
    page.split("\n```toml\n").nth(1).and_then(|rest| rest.split("\n```").next()).unwrap()
}

/// Posts with a link, and answers the decision's id.
fn post(server: &Server, number: usize) -> String {
    let event = json!({"user": format!("u{number}"), "link": format!("https://{number}.example/"), "followers": number});
    let url = format!("{}/v1/decide", server.url);
    let sent = ureq::post(&url).header("content-type", "application/json").send(event.to_string());
    let decided: Value = serde_json::from_str(&sent.unwrap().body_mut().read_to_string().unwrap()).unwrap();
    assert_eq!(decided["action"], "review_after", "{decided}");
    decided["id"].as_str().unwrap().to_owned()
}

#[test]
fn reviews_are_worked_through_and_outlive_a_kill() {
    let data = Data::new(&["web"]);
    std::fs::write(data.path().join("tollhouse.toml"), guide()).unwrap();
    let server = Server::start(&data.path(), &[]);
    let url = server.url.clone();
    let reviews =
        |args: &[&str]| -> Ran { run(["reviews"].iter().chain(args).chain(&["--server", &url]), "") };
    let ids: Vec<String> = (1..5).map(|number| post(&server, number)).collect();
    let listed = |args: &[&str]| -> Vec<String> {
        let all = [&["list", "--json"][..], args].concat();
        let text = |review: &Value| review["id"].as_str().unwrap().to_owned();
        reviews(&all).expect(0).json().iter().map(text).collect()
    };
    assert_eq!(listed(&[]), ids);
    assert_eq!(listed(&["--sort", "exposed", "--limit", "1"]), ids[3..]);
    assert_eq!(listed(&["--kind", "link", "--value", "https://2.example/"]), ids[1..2]);
    let table = reviews(&["list"]).expect(0).stdout;
    assert!(table.lines().count() == 4 && table.contains("FIRST_LINK"), "{table}");

    reviews(&["claim", &ids[0], "--by", "ann"]).expect(0);
    let refused = reviews(&["decide", &ids[0], "refuse", "--by", "bob"]).expect(2);
    assert!(refused.stderr.contains("ann works on it until"), "{}", refused.stderr);
    reviews(&["release", &ids[0], "--by", "ann"]).expect(0);
    reviews(&["escalate", &ids[0], "Is this satire?", "--by", "ann"]).expect(0);
    reviews(&["comment", &ids[0], "I wrote to her.", "--by", "bob"]).expect(0);
    let shown = reviews(&["show", &ids[0]]).expect(0).stdout;
    for part in ["escalated by ann: Is this satire?", "bob: I wrote to her.", "FIRST_LINK"] {
        assert!(shown.contains(part), "{shown}");
    }
    let decided = reviews(&["decide", &ids[1], "refuse", "--by", "bob", "--json"]).expect(0).json();
    assert_eq!(
        (&decided[0]["review"]["verdict"], &decided[0]["feedback"]["class"]),
        (&json!("refuse"), &json!("spam"))
    );
    let alike = ["alike", "link", "https://3.example/", "publish", "--by", "bob"];
    let dry = reviews(&[&alike[..], &["--dry-run"]].concat()).expect(0);
    assert!(dry.stderr.contains("1 reviews would be decided"), "{}", dry.stderr);
    reviews(&alike).expect(0);
    reviews(&["decide", &ids[1], "maybe", "--by", "bob"]).expect(2);
    let agreed = reviews(&["agreement", "--pipeline", "posts"]).expect(0).stdout;
    for part in
        ["2 decided reviews: 1 published, 1 refused, 0 by a lead, 2 in time", "bob", "2 votes", "2 agreed"]
    {
        assert!(agreed.contains(part), "{part}: {agreed}");
    }
    assert_eq!(reviews(&["agreement", "--json"]).expect(0).json()[0]["reviewers"][0]["votes"], 2);
    reviews(&["agreement", "--pipeline", "other"]).expect(2);

    // Nothing is closed: what was answered is there all the same.
    server.end(Signal::KILL);
    let server = Server::start_again(&data.path(), &url, &[]);
    assert_eq!(listed(&[]), [ids[0].clone(), ids[3].clone()]);
    assert_eq!(listed(&["--state", "decided"]), ids[1..3]);
    assert_eq!(
        reviews(&["show", &ids[0], "--json"]).expect(0).json()[0]["comments"][0]["text"],
        "I wrote to her."
    );
    drop(server);
}

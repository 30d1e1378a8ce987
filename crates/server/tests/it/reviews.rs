//! The queue of reviews over HTTP, with the configuration of the guide.

use engine::Directory;
use serde_json::{Value, json};

use crate::harness::{Answer, JSON, SetClock, TestServer, check_problem, start_by};

/// The configuration that docs/guides/review.md begins with.
fn guide() -> &'static str {
    let page = include_str!("../../../../docs/guides/review.md");
    page.split("\n```toml\n").nth(1).and_then(|rest| rest.split("\n```").next()).unwrap()
}

struct Board {
    _parent: tempfile::TempDir,
    directory: Directory,
    clock: SetClock,
}

impl Board {
    fn new(more: &str) -> Board {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
        std::fs::write(directory.config_path(), guide().to_owned() + "\n" + more).unwrap();
        Board { _parent: parent, directory, clock: SetClock::default() }
    }

    fn start(&self, settings: &[(&str, &str)]) -> TestServer {
        start_by(&self.directory, settings, |_| self.clock.clock())
    }
}

fn with_board(settings: &[(&str, &str)], test: impl FnOnce(&TestServer, &SetClock)) {
    let board = Board::new("");
    let running = board.start(settings);
    test(&running, &board.clock);
    running.stop();
}

/// Posts, and answers the decision's id and action.
fn post(server: &TestServer, user: &str, link: Option<&str>, followers: i64) -> (String, String) {
    let mut event = json!({"user": user, "followers": followers});
    if let Some(link) = link {
        event["link"] = link.into();
    }
    let decided = server.post("/v1/decide", &[JSON], &event.to_string());
    assert_eq!(decided.status, 200, "{}", decided.body);
    let text = |name: &str| decided.json()[name].as_str().unwrap().to_owned();
    (text("id"), text("action"))
}

fn review(server: &TestServer, id: &str) -> Value {
    let answer = server.get(&format!("/v1/reviews/{id}"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

fn say(server: &TestServer, id: &str, what: &str, body: Value) -> Answer {
    server.post(&format!("/v1/reviews/{id}/{what}"), &[JSON], &body.to_string())
}

fn decide(server: &TestServer, id: &str, by: &str, verdict: &str) -> Answer {
    say(server, id, "decide", json!({"by": by, "verdict": verdict}))
}

/// The ids of a list, page by page.
fn list(server: &TestServer, query: &str) -> Vec<String> {
    let (mut ids, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/reviews?limit=2{query}{after}"));
        assert_eq!(page.status, 200, "{}", page.body);
        let page = page.json();
        ids.extend(
            page["reviews"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return ids,
        }
    }
}

fn metric(server: &TestServer, name: &str) -> f64 {
    let page = server.get("/metrics").body;
    let line = page.lines().find(|line| line.starts_with(name) && line[name.len()..].starts_with(' '));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("no {name} in {page}"))
}

#[test]
fn newcomers_posts_beyond_three_a_day_are_held() {
    with_board(&[], |server, clock| {
        let day: Vec<String> = (0..5).map(|_| post(server, "ann", None, 1).1).collect();
        assert_eq!(day, ["accept", "accept", "accept", "review_before", "review_before"]);
        assert_eq!(post(server, "bob", None, 1).1, "accept", "each has a quota of his own");
        let held = list(server, "");
        assert_eq!(held.len(), 2);
        let item = review(server, &held[0]);
        assert_eq!((&item["state"], &item["rules"]), (&json!("open"), &json!(["QUOTA"])), "{item}");
        // What reviewers let through makes a newcomer known, who has no quota.
        for number in 0..8 {
            clock.set(100_000 * (number + 1));
            let ids: Vec<(String, String)> = (0..4).map(|_| post(server, "ann", None, 1)).collect();
            let Some((id, _)) = ids.iter().find(|(_, action)| action == "review_before") else { break };
            let decided = decide(server, id, "mod", "publish").json();
            assert_eq!(decided["feedback"]["class"], "ham", "{decided}");
        }
        clock.set(1_000_000);
        assert_eq!((0..6).filter(|_| post(server, "ann", None, 1).1 != "accept").count(), 0);
        // A newcomer is still one.
        assert_eq!((0..6).filter(|_| post(server, "cid", None, 1).1 != "accept").count(), 3);
    });
}

#[test]
fn a_review_is_claimed_decided_and_told() {
    with_board(&[], |server, clock| {
        let (id, action) = post(server, "ann", Some("https://a.example/"), 7);
        assert_eq!(action, "review_after");
        let item = review(server, &id);
        assert_eq!(
            (&item["state"], &item["exposure"], item.get("verdict")),
            (&json!("open"), &json!(7.0), None)
        );
        let claim = |by: &str| say(server, &id, "claim", json!({"by": by}));
        assert_eq!(claim("Ann").json()["claim"]["by"], "ann");
        check_problem(&claim("bob"), 409, "conflict", "ann works on it until");
        check_problem(&decide(server, &id, "bob", "publish"), 409, "conflict", "ann works on it");
        assert_eq!(list(server, "&state=claimed"), [id.as_str()]);
        clock.set(601);
        assert_eq!(review(server, &id)["state"], "open", "the time of the claim is over");
        assert_eq!(claim("bob").status, 200);
        assert_eq!(say(server, &id, "release", json!({"by": "bob"})).json()["state"], "open");
        check_problem(
            &say(server, &id, "release", json!({"by": "bob"})),
            409,
            "conflict",
            "is not claimed by bob",
        );
        let comment = |text: &str| say(server, &id, "comment", json!({"by": "bob", "text": text}));
        assert_eq!(comment("Odd.").json()["comments"][0]["text"], "Odd.");
        check_problem(&comment(" "), 400, "invalid-parameter", "is empty");
        check_problem(&comment(&"x".repeat(1001)), 400, "invalid-parameter", "more than 1000 bytes");

        let said = decide(server, &id, "bob", "refuse").json();
        assert_eq!(
            (&said["review"]["state"], &said["review"]["verdict"]),
            (&json!("decided"), &json!("refuse"))
        );
        assert_eq!(
            (&said["duplicate"], &said["feedback"]["class"]),
            (&json!(false), &json!("spam")),
            "{said}"
        );
        let again = decide(server, &id, "bob", "refuse").json();
        assert_eq!(
            (&again["duplicate"], &again["feedback"]["duplicate"]),
            (&json!(true), &json!(true)),
            "{again}"
        );
        check_problem(&decide(server, &id, "cid", "publish"), 409, "conflict", "decided already: refuse");
        let spam = server.get("/v1/timeline?kind=link&value=https://a.example/").json();
        assert_eq!(spam["windows"][0]["counts"]["spam"], 1, "{spam}");
        assert_eq!((list(server, "").len(), list(server, "&state=decided").len()), (0, 1));
        assert_eq!(metric(server, "tollhouse_reviews{state=\"decided\"}"), 1.0);
        let decided =
            "tollhouse_reviews_decided_total{pipeline=\"posts\",verdict=\"refuse\",in_time=\"yes\"}";
        assert_eq!(metric(server, decided), 1.0);

        // The service level.
        post(server, "dan", Some("https://b.example/"), 1);
        clock.set(601 + 5 * 3600);
        assert_eq!(metric(server, "tollhouse_reviews_oldest_seconds"), 18_000.0);
        assert_eq!(metric(server, "tollhouse_reviews_overdue"), 1.0);
    });
}

#[test]
fn two_reviewers_agree_or_a_lead_decides() {
    let settings = [("review.agreement", "2"), ("review.leads", "[\"Lea\"]")];
    with_board(&settings, |server, _| {
        let new = |number: usize| post(server, "ann", Some(&format!("https://{number}.example/")), 1).0;
        let (agreed, disputed) = (new(1), new(2));
        assert_eq!(decide(server, &agreed, "ann", "publish").json()["review"]["state"], "open");
        let again = decide(server, &agreed, "ANN", "publish").json();
        assert_eq!(
            (&again["duplicate"], &again["review"]["state"]),
            (&json!(true), &json!("open")),
            "one person"
        );
        check_problem(
            &say(server, &agreed, "claim", json!({"by": "ann"})),
            409,
            "conflict",
            "another reviewer",
        );
        assert_eq!(decide(server, &agreed, "bob", "publish").json()["review"]["verdict"], "publish");

        decide(server, &disputed, "ann", "publish");
        let disputed_review = decide(server, &disputed, "bob", "refuse").json()["review"].clone();
        assert_eq!(disputed_review["state"], "escalated", "{disputed_review}");
        assert_eq!(disputed_review["escalation"]["why"], "reviewers disagree");
        check_problem(
            &decide(server, &disputed, "cid", "refuse"),
            409,
            "conflict",
            "only those whom `leads`",
        );
        assert_eq!(list(server, "&state=escalated"), [disputed.as_str()]);
        assert_eq!(decide(server, &disputed, "lea", "refuse").json()["review"]["verdict"], "refuse");
        let compared = |agreed: &str| {
            metric(
                server,
                &format!("tollhouse_reviews_compared_total{{pipeline=\"posts\",agreed=\"{agreed}\"}}"),
            )
        };
        assert_eq!((compared("yes"), compared("no")), (2.0, 2.0));
    });
}

#[test]
fn all_posts_with_a_link_are_decided_as_one() {
    // A link is looked at as long as nobody has judged it.
    let rule =
        "[[rule]]\nname = \"LINK\"\nwhen = \"has(link)\"\nscore = 0.0\neffects = [\"set review_after\"]\n";
    let board = Board::new(rule);
    let server = board.start(&[]);
    let link = "https://cash.example/";
    let posts: Vec<String> =
        (0..5).map(|number| post(&server, &format!("u{number}"), Some(link), number).0).collect();
    let other = post(&server, "ann", Some("https://fine.example/"), 9).0;
    let shared = review(&server, &posts[0]);
    let of_link = shared["keys"].as_array().unwrap().iter().find(|key| key["kind"] == "link").unwrap();
    assert_eq!(of_link["waiting"], 5, "{shared}");
    let query = "&kind=link&value=https://cash.example/";
    assert_eq!(list(&server, query), posts);
    let exposed: Vec<String> = posts.iter().rev().cloned().collect();
    assert_eq!(list(&server, &format!("{query}&sort=exposed")), exposed);
    assert_eq!(list(&server, "&sort=exposed")[0], other);

    let alike = |more: Value| {
        let mut body = json!({"kind": "link", "value": link, "verdict": "refuse", "by": "mod"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post("/v1/reviews/decide", &[JSON], &body.to_string())
    };
    say(&server, &posts[1], "claim", json!({"by": "bob"}));
    let dry = alike(json!({"dry_run": true})).json();
    assert_eq!((dry["reviews"].as_array().unwrap().len(), &dry["more"]), (4, &json!(false)), "{dry}");
    assert_eq!(list(&server, query), posts, "a dry run decides nothing");
    let first = alike(json!({"limit": 2})).json();
    assert_eq!((first["reviews"].as_array().unwrap().len(), &first["more"]), (2, &json!(true)), "{first}");
    let rest = alike(json!({})).json();
    assert_eq!((rest["reviews"].as_array().unwrap().len(), &rest["more"]), (2, &json!(false)), "{rest}");
    assert_eq!(rest["passed_over"][0]["id"], posts[1].as_str(), "{rest}");
    assert_eq!(list(&server, query), [posts[1].as_str()]);
    assert_eq!(list(&server, "").len(), 2, "the other link's is untouched");
    let spam = server.get("/v1/timeline?kind=link&value=https://cash.example/").json();
    assert_eq!(spam["windows"][0]["counts"]["spam"], 4, "{spam}");
    check_problem(&alike(json!({"kind": "lnik"})), 400, "unknown-name", "there is no kind `lnik`");
    check_problem(&alike(json!({"limit": 1001})), 400, "invalid-parameter", "limit: expected 1 to 1000");
    check_problem(&alike(json!({"class": "ham"})), 400, "unknown-name", "that says `refuse`");
    server.stop();
}

#[test]
fn what_was_published_meanwhile_is_decided_with_the_reviews() {
    // Accepted with the link, before anybody looked at what has it.
    let rule = "[[rule]]\nname = \"MANY\"\nwhen = \"followers >= 100\"\nscore = 0.0\neffects = [\"set review_before\"]\n\
                [[rule]]\nname = \"SOME\"\nwhen = \"followers == 50\"\nscore = 0.0\neffects = [\"set tag\"]\n";
    let board = Board::new(rule);
    let server = board.start(&[]);
    let link = "https://cash.example/";
    let (first_link, action) = post(&server, "u0", Some(link), 1);
    assert_eq!(action, "review_after");
    let accepted: Vec<String> = (1..5)
        .map(|number| {
            board.clock.set(number);
            // What is only marked is read by all, too.
            let (followers, passes) = if number == 3 { (50, "tag") } else { (1, "accept") };
            let (id, action) = post(&server, &format!("u{number}"), Some(link), followers);
            assert_eq!(action, passes);
            id
        })
        .collect();
    post(&server, "ann", Some("https://fine.example/"), 1);
    assert_eq!(post(&server, "bob", Some("https://fine.example/"), 1).1, "accept");
    let (held, action) = post(&server, "eve", Some(link), 100);
    assert_eq!(action, "review_before");
    let alike = |more: Value| {
        let mut body = json!({"kind": "link", "value": link, "verdict": "refuse", "by": "mod"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = server.post("/v1/reviews/decide", &[JSON], &body.to_string());
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    };
    let ids = |outcome: &Value| -> Vec<String> {
        let events = outcome["published"].as_array().unwrap().iter();
        events.map(|event| event["id"].as_str().unwrap().to_owned()).collect()
    };
    let newest_first: Vec<String> = accepted.iter().rev().cloned().collect();
    let spam = || {
        let found = server.get("/v1/timeline?kind=link&value=https://cash.example/").json();
        found["windows"][0]["counts"]["spam"].as_u64().unwrap_or(0)
    };
    let reviews = |outcome: &Value| -> Vec<String> {
        let reviews = outcome["reviews"].as_array().unwrap().iter();
        reviews.map(|review| review["id"].as_str().unwrap().to_owned()).collect()
    };
    let waiting = vec![first_link, held];
    let dry = alike(json!({"dry_run": true, "published": true}));
    assert_eq!((ids(&dry), reviews(&dry)), (newest_first.clone(), waiting.clone()), "{dry}");
    assert_eq!((spam(), &dry["more"]), (0, &json!(false)), "a dry run says nothing");

    // Without it nothing but the queue is decided.
    let queue = alike(json!({}));
    assert_eq!((queue.get("published"), reviews(&queue), spam()), (None, waiting, 2), "{queue}");
    // The newest first, and the rest when it is said again; each counts once.
    let first = alike(json!({"published": true, "limit": 3}));
    assert_eq!(
        (ids(&first), &first["more"], spam()),
        (newest_first[..3].to_vec(), &json!(true), 5),
        "{first}"
    );
    let rest = alike(json!({"published": true}));
    assert_eq!((ids(&rest), &rest["more"], spam()), (newest_first[3..].to_vec(), &json!(false), 6), "{rest}");
    let none = alike(json!({"published": true}));
    assert_eq!((ids(&none), &none["passed_over"], spam()), (Vec::new(), &json!([]), 6), "{none}");
    // Who changes the verdict changes it on all of them.
    let changed = alike(json!({"published": true, "verdict": "publish"}));
    assert_eq!((ids(&changed), spam()), (newest_first, 2), "{changed}");
    server.stop();
}

#[test]
fn a_restart_keeps_the_queue() {
    let board = Board::new("");
    let server = board.start(&[]);
    let ids: Vec<String> = (0..3)
        .map(|number| post(&server, "ann", Some(&format!("https://{number}.example/")), number).0)
        .collect();
    decide(&server, &ids[0], "mod", "publish");
    say(&server, &ids[1], "escalate", json!({"by": "mod", "text": "Is this satire?"}));
    let before: Vec<Value> = ids.iter().map(|id| review(&server, id)).collect();
    server.stop();
    let server = board.start(&[]);
    let after: Vec<Value> = ids.iter().map(|id| review(&server, id)).collect();
    assert_eq!(after, before);
    server.stop();
}

#[test]
fn what_makes_no_sense_is_refused() {
    with_board(&[], |server, _| {
        let (id, _) = post(server, "ann", Some("https://a.example/"), 1);
        let get = |query: &str| server.get(&format!("/v1/reviews{query}"));
        check_problem(&get("?state=opne"), 400, "invalid-parameter", "state: expected one of open, claimed");
        check_problem(
            &get("?sort=newest"),
            400,
            "invalid-parameter",
            "sort: expected one of oldest, exposed",
        );
        check_problem(
            &get("?action=reject"),
            400,
            "invalid-parameter",
            "action: expected one of review_before",
        );
        check_problem(&get("?limit=501"), 400, "invalid-parameter", "limit: expected 1 to 500");
        check_problem(&get("?limit=0"), 400, "invalid-parameter", "limit: expected 1 to 500");
        check_problem(&get("?after=x"), 400, "invalid-parameter", "after: expected `next`");
        check_problem(&get("?kind=link"), 400, "invalid-parameter", "expected both or neither");
        check_problem(&get("?pipeline=other"), 400, "unknown-name", "there is no pipeline `other`");
        check_problem(&get("?what=1"), 400, "invalid-parameter", "unknown field `what`");
        check_problem(&get("/0000000000000"), 404, "not-found", "there is no review of 0000000000000");
        check_problem(&get("/x"), 400, "invalid-parameter", "expected a decision id");
        check_problem(&decide(server, &id, " ", "publish"), 400, "invalid-parameter", "by: expected a name");
        check_problem(
            &decide(server, &id, &"b".repeat(257), "publish"),
            400,
            "invalid-parameter",
            "by: expected",
        );
        check_problem(&decide(server, &id, "ann", "maybe"), 400, "invalid-body", "verdict: unknown");
        check_problem(
            &decide(server, "0000000000000", "ann", "publish"),
            404,
            "not-found",
            "there is no review",
        );
        let wrong = say(server, &id, "decide", json!({"by": "ann", "verdict": "publish", "class": "spam"}));
        check_problem(
            &wrong,
            400,
            "unknown-name",
            "`spam` is no feedback class of `posts` that says `publish`",
        );
        assert_eq!(review(server, &id)["votes"], json!([]), "nothing of it was taken");
        let accepted = post(server, "bob", None, 1).0;
        check_problem(&get(&format!("/{accepted}")), 404, "not-found", "there is no review");
    });
}

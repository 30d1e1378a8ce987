//! The console's queue of reviews: what it shows, each thing that a reviewer does, decisions alike, and agreement.

use access::{Role, StoredPassword, UserFile};
use engine::Directory;
use serde_json::{Value, json};

use crate::console::{FORM, check_page, enter, form, hostile, secret, url_encoded};
use crate::harness::{Answer, JSON, NOW, TestServer, start};

const BOARD: &str = "
name = \"board\"
input = \"json\"

[[field]]
name = \"user\"
type = \"string\"

[[field]]
name = \"text\"
type = \"string\"

[[field]]
name = \"link\"
type = \"string\"

[[kind]]
name = \"author\"
of = \"user\"

[[kind]]
name = \"link\"
of = \"link\"

[[statistic]]
name = \"posts\"
keys = [\"author\", \"link\"]
counts = [\"seen\", \"spam\", \"ham\"]
windows = [\"1h x 24\"]

[[rule]]
name = \"HELD\"
description = \"<b>A person</b> looks at \u{202e}it\"
when = \"text != ''\"
score = 1
effects = [\"set review_before\"]

[feedback]
spam = [\"spam\"]
ham = [\"ham\"]

[reports]
bad = [\"spam\"]
good = [\"ham\"]
";
const LINK: &str = "https://cash.example/";
const LONG: &str =
    "a long text with many words that says what somebody wants to sell to everybody who reads it <i>now</i>";

fn with_board(more: &str, test: impl FnOnce(&TestServer, &Directory)) {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    std::fs::write(directory.config_path(), format!("{BOARD}{more}")).unwrap();
    let server = start(&directory, &[]);
    test(&server, &directory);
    server.stop();
}

/// Posts, and answers the decision's id.
fn post(server: &TestServer, user: &str, text: &str, link: &str) -> String {
    let event = json!({"user": user, "text": text, "link": link}).to_string();
    let answer = server.post("/v1/decide", &[JSON], &event);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["id"].as_str().unwrap().to_owned()
}

fn review(server: &TestServer, id: &str) -> Value {
    server.get(&format!("/v1/reviews/{id}")).json()
}

/// Sends a form of the queue as somebody.
fn act(server: &TestServer, own: &str, id: &str, step: &str, more: &[(&str, &str)]) -> Answer {
    let fields = [&[("secret", own), ("next", "/console/reviews?by=bob")], more].concat();
    server.post(&format!("/console/reviews/{id}/{step}"), &[FORM], &form(&fields))
}

fn leads_to(answer: &Answer) -> &str {
    assert_eq!(answer.status, 303, "{}", answer.body);
    answer.header("location").unwrap()
}

#[test]
fn the_queue_shows_events_and_takes_all_that_reviewers_do() {
    with_board("", |server, _| {
        let ids: Vec<String> = (0..3).map(|n| post(server, &format!("<u>{n}"), LONG, LINK)).collect();
        let id = &ids[0];
        let answer = server.get("/console/reviews?by=bob&sort=oldest");
        let says = [
            id.as_str(),
            "&lt;b&gt;A person&lt;/b&gt; looks at ⟨202E⟩it",
            "to everybody who reads it &lt;i&gt;now&lt;/i&gt;",
            "&lt;u&gt;0",
            "3 wait",
            "/console/reviews/alike?pipeline=board&amp;kind=link&amp;value=https%3A%2F%2Fcash.example%2F",
            "data-key=\"p\"",
            "data-key=\"x\"",
            "data-key=\"c\"",
            "data-key=\"e\"",
            "data-key=\"m\"",
            "data-key=\"a\"",
        ];
        let own = secret(check_page(&answer, 200, &says));
        assert!(!answer.body.contains("/release\""), "nothing is claimed");
        let unnamed = server.get("/console/reviews");
        check_page(&unnamed, 200, &["Set your name to decide."]);
        assert!(!unnamed.body.contains("/decide\""), "nobody in particular does nothing");

        let by = ("by", " Bob ");
        assert_eq!(
            leads_to(&act(server, &own, id, "claim", &[by])),
            "/console/reviews?by=bob&done=claimed&n=0"
        );
        assert_eq!(review(server, id)["claim"]["by"], "bob");
        check_page(&server.get("/console/reviews?by=BOB"), 200, &["/release\"", "Claimed by"]);
        check_page(&act(server, &own, id, "claim", &[("by", "eve")]), 409, &["bob works on it until"]);
        leads_to(&act(server, &own, id, "release", &[by]));
        assert_eq!(review(server, id)["state"], "open");
        for text in hostile().iter().map(|text| text.chars().take(200).collect::<String>()) {
            assert!(
                leads_to(&act(server, &own, id, "comment", &[by, ("text", &text)])).contains("commented")
            );
        }
        let why = "<b>Satire?</b>\u{202e}";
        assert!(
            leads_to(&act(server, &own, id, "escalate", &[by, ("text", why)])).contains("done=escalated")
        );
        assert_eq!(review(server, id)["escalation"]["why"], why);
        let shown = ["&lt;b&gt;Satire?&lt;/b&gt;⟨202E⟩", "&lt;script&gt;alert(1)&lt;/script&gt;"];
        for page in [format!("/console/reviews/{id}?by=bob"), "/console/reviews?state=escalated".to_owned()] {
            check_page(&server.get(&page), 200, &shown);
        }
        for (step, more, status) in [
            ("escalate", vec![by], 400),
            ("comment", vec![by, ("text", " ")], 400),
            ("comment", vec![("text", "x")], 400),
            ("decide", vec![by], 400),
            ("decide", vec![by, ("verdict", "maybe")], 400),
            ("promote", vec![by], 404),
        ] {
            check_page(&act(server, &own, &ids[1], step, &more), status, &["<main"]);
        }
        let too_long = "x".repeat(1001);
        check_page(
            &act(server, &own, &ids[1], "comment", &[by, ("text", &too_long)]),
            400,
            &["more than 1000"],
        );
        check_page(&act(server, "wrong", &ids[1], "claim", &[by]), 403, &["not one of yours"]);
        check_page(&act(server, &own, "0000000000001", "claim", &[by]), 404, &["<main"]);
        check_page(&server.get("/console/reviews/0000000000001"), 404, &["<main"]);
        check_page(&server.get("/console/reviews/%3Cb%3E"), 400, &["<main"]);
        assert_eq!(review(server, &ids[1])["state"], "open", "nothing of it was done");
        let list = |query: &str| server.get(&format!("/console/reviews?{query}"));
        check_page(&list("rule=HELD&pipeline=board"), 200, &[&ids[2]]);
        check_page(&list("rule=OTHER"), 200, &["Nothing waits for review."]);
        check_page(&list("pipeline=other"), 400, &["there is no pipeline"]);
    });
}

#[test]
fn one_goes_from_review_to_review() {
    with_board("", |server, _| {
        let ids: Vec<String> =
            (0..3).map(|n| post(server, "ann", LONG, &format!("https://{n}.example/"))).collect();
        let page = format!("/console/reviews/{}?sort=oldest&by=bob", ids[1]);
        let answer = server.get(&page);
        let says = [
            "data-row",
            "Held for review",
            "Shared with others",
            "https://1.example/",
            "data-key=\"n\"",
            "HELD",
        ];
        let own = secret(check_page(&answer, 200, &says));
        let next = format!("/console/reviews/next?id={}&sort=oldest&by=bob", ids[1]);
        assert!(answer.body.contains(&next.replace('&', "&amp;")), "{}", answer.body);
        let vote = |id: &str| {
            let next = format!("/console/reviews/next?id={id}&sort=oldest&by=bob");
            let fields = [("secret", own.as_str()), ("by", "bob"), ("verdict", "refuse"), ("next", &next)];
            let voted = server.post(&format!("/console/reviews/{id}/decide"), &[FORM], &form(&fields));
            leads_to(&server.get(leads_to(&voted))).to_owned()
        };
        // Behind it, then from the beginning, then none is left.
        assert_eq!(
            vote(&ids[1]),
            format!("/console/reviews/{}?sort=oldest&by=bob&done=reviewed&n=0", ids[2])
        );
        assert_eq!(
            vote(&ids[2]),
            format!("/console/reviews/{}?sort=oldest&by=bob&done=reviewed&n=0", ids[0])
        );
        let claimed = server.post(&format!("/v1/reviews/{}/claim", ids[0]), &[JSON], "{\"by\": \"eve\"}");
        assert_eq!(claimed.status, 200);
        let none = server.get("/console/reviews/next?by=bob&done=%3Cb%3E");
        assert_eq!(leads_to(&none), "/console/reviews?by=bob", "another works on it");
        assert!(leads_to(&server.get("/console/reviews/next?by=eve&state=decided")).contains(&ids[0]));
        check_page(&server.get(&format!("/console/reviews/{}", ids[1])), 200, &["Decided:", "refuse"]);
        assert_eq!(review(server, &ids[1])["votes"][0]["by"], "bob");
        let spam = server.get("/v1/timeline?kind=link&value=https://1.example/").json();
        assert_eq!(spam["tiers"][0]["buckets"][0]["counts"]["spam"], 1, "{spam}");
    });
}

#[test]
fn all_that_share_a_key_are_decided_alike() {
    with_board("", |server, _| {
        let ids: Vec<String> = (0..4).map(|n| post(server, &format!("u{n}"), LONG, LINK)).collect();
        let other = post(server, "ann", LONG, "https://fine.example/");
        let accepted = post(server, "fay", "", LINK);
        server.post(&format!("/v1/reviews/{}/claim", ids[2]), &[JSON], "{\"by\": \"eve\"}");
        let at = |more: &[(&str, &str)]| {
            let key = [("pipeline", "board"), ("kind", "link"), ("value", LINK), ("review", &ids[0])];
            format!("/console/reviews/alike?{}", url_encoded(&[&key, more].concat()))
        };
        check_page(&server.get(&at(&[])), 200, &["Your name as a reviewer"]);
        let answer = server.get(&at(&[("by", "bob")]));
        let says =
            ["Refuse all 3 reviews", &ids[0], &ids[1], &ids[3], "Passed over", "eve works on it until"];
        let own = secret(check_page(&answer, 200, &says));
        assert!(!answer.body.contains(&other) && !answer.body.contains(&accepted));
        let with_accepted = ["Refuse all 4, with the accepted ones", "Only reviews", &ids[0], &accepted];
        check_page(&server.get(&at(&[("by", "bob"), ("published", "true")])), 200, &with_accepted);
        check_page(
            &server.get(&at(&[("by", "bob"), ("verdict", "publish")])),
            200,
            &["Publish all 3 reviews"],
        );
        assert_eq!(review(server, &ids[0])["state"], "open", "looking decides nothing");
        let key = [("secret", own.as_str()), ("pipeline", "board"), ("kind", "link"), ("value", LINK)];
        let decide = |more: &[(&str, &str)]| {
            server.post("/console/reviews/alike", &[FORM], &form(&[&key[..], more].concat()))
        };
        check_page(&decide(&[("verdict", "refuse")]), 400, &["expected a name"]);
        check_page(&decide(&[("verdict", "refuse"), ("by", "bob"), ("kind", "lnik")]), 400, &["<main"]);
        let done = decide(&[("verdict", "refuse"), ("by", "bob")]);
        check_page(
            &done,
            200,
            &["refuse: your vote was taken on 3 reviews.", &ids[3], "eve works on it until"],
        );
        let states: Vec<Value> = ids.iter().map(|id| review(server, id)["state"].clone()).collect();
        assert_eq!(states, ["decided", "decided", "claimed", "decided"]);
        assert_eq!(review(server, &other)["state"], "open");
        let done = decide(&[("verdict", "refuse"), ("by", "bob"), ("published", "true")]);
        check_page(&done, 200, &["Accepted without a review", &accepted]);
        let judged = server.get(&format!("/v1/decisions?kind=link&value={LINK}&action=accept")).json();
        assert_eq!(judged["decisions"][0]["label"], "spam", "{judged}");
        check_page(&server.get(&at(&[("by", "bob")])), 200, &["No review waits for your vote on this."]);
        for text in hostile().iter().map(|text| text.chars().take(500).collect::<String>()) {
            let answer = server.get(&at(&[("by", &text[..text.floor_char_boundary(200)])]));
            check_page(&answer, answer.status, &["<main"]);
            let key =
                url_encoded(&[("pipeline", "board"), ("kind", "link"), ("value", &text), ("by", "bob")]);
            let answer = server.get(&format!("/console/reviews/alike?{key}"));
            check_page(&answer, answer.status, &["<main"]);
        }
    });
}

#[test]
fn agreement_is_counted_and_shown() {
    with_board("[review]\nagreement = 2\nleads = [\"lea\"]\n", |server, _| {
        check_page(&server.get("/console/reviews/agreement"), 200, &["No review is decided yet."]);
        let vote = |id: &str, by: &str, verdict: &str| {
            let body = json!({"by": by, "verdict": verdict}).to_string();
            let answer = server.post(&format!("/v1/reviews/{id}/decide"), &[JSON], &body);
            assert_eq!(answer.status, 200, "{}", answer.body);
        };
        let eve = "<script>eve</script>\u{202e}";
        // Two the same, one on which a lead decides, in both directions.
        let votes =
            [["publish", "publish"], ["refuse", "refuse"], ["publish", "refuse"], ["publish", "publish"]];
        for (number, [of_ann, of_eve]) in votes.into_iter().enumerate() {
            let id = post(server, &format!("u{number}"), LONG, LINK);
            vote(&id, "ann", of_ann);
            vote(&id, eve, of_eve);
            if of_ann != of_eve {
                vote(&id, "lea", "refuse");
            }
        }
        post(server, "ann", LONG, LINK);
        let found = server.get("/v1/reviews/agreement").json();
        let counts = |names: [&str; 5]| names.map(|name| found[name].as_u64().unwrap());
        assert_eq!(
            counts(["reviews", "publish", "refuse", "escalated", "in_time"]),
            [4, 2, 2, 1, 4],
            "{found}"
        );
        let reviewers: Vec<(&str, u64, u64)> = found["reviewers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|of| {
                (
                    of["by"].as_str().unwrap(),
                    of["votes"].as_u64().unwrap(),
                    of["overturned"].as_u64().unwrap(),
                )
            })
            .collect();
        assert_eq!(reviewers, [(eve, 4, 0), ("ann", 4, 1), ("lea", 1, 0)]);
        let pair = &found["pairs"][0];
        // Observed 3/4; by chance 3/4 * 2/4 + 1/4 * 2/4 = 1/2; so (3/4 - 1/2) / (1/2).
        assert_eq!(
            (&pair["shared"], &pair["agreement"], &pair["kappa"]),
            (&json!(4), &json!(0.75), &json!(0.5))
        );
        let of_lea = found["pairs"].as_array().unwrap().iter().filter(|pair| pair["shared"] == 1);
        assert_eq!(of_lea.filter(|pair| pair["kappa"].is_null()).count(), 1, "both refuse: {found}");
        let unequal = &found["unequal"][0];
        assert_eq!(
            (&unequal["kind"], &unequal["publish"], &unequal["refuse"]),
            (&json!("link"), &json!(2), &json!(2))
        );
        assert_eq!(
            found["rule_sets"],
            json!([{"pipeline": "board", "rules": ["HELD"], "publish": 2, "refuse": 2}])
        );
        assert_eq!(found["partial"], false);
        assert_eq!(server.get("/v1/reviews/agreement?pipeline=board").json(), found);
        assert_eq!(server.get("/v1/reviews/agreement?pipeline=other").status, 400);
        assert_eq!(server.get("/v1/reviews/agreement?what=1").status, 400);
        let says = [
            "&lt;script&gt;eve&lt;/script&gt;⟨202E⟩",
            "0.5",
            "none",
            "https://cash.example/",
            unequal["refused"].as_str().unwrap(),
            unequal["published"].as_str().unwrap(),
            "25 %",
        ];
        check_page(&server.get("/console/reviews/agreement"), 200, &says);
        check_page(&server.get("/console/reviews?state=decided"), 200, &["Decided:"]);
    });
}

#[test]
fn who_has_logged_in_reviews_by_that_name() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    std::fs::write(directory.config_path(), BOARD).unwrap();
    let token = "[server]\ntokens = [\"correct-horse-battery\"]\n";
    std::fs::write(directory.config_path(), format!("{BOARD}\n{token}")).unwrap();
    let people = UserFile::in_directory(directory.path());
    let password = "correct horse battery";
    for (name, role) in [("Ann", Role::Reviewer), ("Vic", Role::Viewer)] {
        let stored = StoredPassword::of(password).unwrap();
        people.change(|store| store.add(name, role, stored, NOW)).unwrap();
    }
    let server = start(&directory, &[]);
    let bearer = "Authorization: Bearer correct-horse-battery";
    let event = json!({"user": "u", "text": LONG, "link": LINK}).to_string();
    let decided = server.post("/v1/decide", &[bearer, JSON], &event).json();
    let id = decided["id"].as_str().unwrap();
    let log_in = |fields: &[(&str, &str)]| {
        enter(&server, "/console/login", fields).unwrap_or_else(|answer| panic!("{}", answer.body))
    };
    let of = |name: &str| log_in(&[("name", name), ("password", password)]);
    let (ann, vic) = (of("Ann"), of("Vic"));
    let get = |cookie: &str, page: &str| server.ask("GET", page, &[cookie], b"");
    let page = get(&ann, "/console/reviews?by=eve");
    let own = secret(check_page(
        &page,
        200,
        &["You review as", "Ann", "to everybody who reads it", "data-key=\"p\""],
    ));
    assert!(!page.body.contains("name=\"by\"") && !page.body.contains("\"eve\""), "{}", page.body);
    // Who may not read what events say sees none of it, and does nothing.
    for at in ["/console/reviews".to_owned(), format!("/console/reviews/{id}")] {
        let page = get(&vic, &at);
        check_page(&page, 200, &[id, "HELD"]);
        for hidden in ["to everybody who reads it", LINK, "/decide\"", "/escalate\""] {
            assert!(!page.body.contains(hidden), "{hidden} is in {}", page.body);
        }
    }
    let send = |cookie: &str, own: &str, step: &str, more: &[(&str, &str)]| {
        let fields = form(&[&[("secret", own)], more].concat());
        server.ask("POST", &format!("/console/reviews/{step}"), &[cookie, FORM], fields.as_bytes())
    };
    let key = [("pipeline", "board"), ("kind", "link"), ("value", LINK), ("verdict", "refuse")];
    let vics = secret(&get(&vic, "/console/").body);
    check_page(&send(&vic, &vics, &format!("{id}/claim"), &[("by", "Ann")]), 403, &["You may not do this."]);
    check_page(&send(&vic, &vics, "alike", &key), 403, &["You may not do this."]);
    check_page(&get(&vic, &format!("/console/reviews/alike?{}", url_encoded(&key))), 403, &["You may not"]);
    check_page(&get(&vic, "/console/reviews/agreement"), 200, &["No review is decided yet."]);
    check_page(
        &get(&ann, &format!("/console/reviews/alike?{}", url_encoded(&key))),
        200,
        &["Refuse the one review"],
    );

    let voted = send(&ann, &own, &format!("{id}/decide"), &[("by", "eve"), ("verdict", "refuse")]);
    assert_eq!(voted.status, 303, "{}", voted.body);
    let review = server.ask("GET", &format!("/v1/reviews/{id}"), &[bearer], b"").json();
    assert_eq!(review["votes"][0]["by"], "ann", "and not who the form names");
    // With a token one says who one is.
    let token = log_in(&[("token", "correct-horse-battery")]);
    check_page(&get(&token, "/console/reviews"), 200, &["Your name as a reviewer"]);
    let audit = server.ask("GET", "/v1/audit?action=content.read&by=Ann", &[bearer], b"").json();
    let entries = audit["entries"].as_array().unwrap();
    assert!(entries.iter().any(|entry| entry["detail"]["id"] == id), "{audit}");
    let audit = server.ask("GET", "/v1/audit?action=content.read&by=Vic", &[bearer], b"").json();
    assert_eq!(audit["entries"], json!([]), "nothing was shown");
    server.stop();
}

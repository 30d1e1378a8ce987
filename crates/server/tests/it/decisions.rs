//! Search in past decisions over HTTP.

use std::io::{BufRead, BufReader, Write};

use engine::Directory;
use serde_json::{Value, json};

use crate::harness::{JSON, TestServer, check_problem, start};

/// A node with the configuration of the interface's examples, and some decisions.
fn with_posts(test: impl FnOnce(&TestServer, &[String])) {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let config = directory.config_path();
    std::fs::write(&config, include_str!("../openapi/node.toml")).unwrap();
    std::fs::write(config.with_file_name("gate.toml"), "preset = \"gate\"\n").unwrap();
    std::fs::write(config.with_file_name("mail.toml"), "preset = \"mail\"\n").unwrap();
    let server = start(&directory, &[]);
    let ids: Vec<String> = (0..30)
        .map(|number| {
            let mut event = json!({"id": format!("post-{number}"), "user": format!("u{}", number % 3), "followers": number});
            if number % 5 == 0 {
                event["link"] = format!("https://{number}.example/").into();
            }
            let decided = server.post("/v1/decide", &[JSON], &event.to_string());
            assert_eq!(decided.status, 200, "{}", decided.body);
            decided.json()["id"].as_str().unwrap().to_owned()
        })
        .collect();
    test(&server, &ids);
    server.stop();
}

fn search(server: &TestServer, query: &str) -> Value {
    let answer = server.get(&format!("/v1/decisions{query}"));
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    answer.json()
}

fn ids(page: &Value) -> Vec<&str> {
    page["decisions"].as_array().unwrap().iter().map(|listed| listed["id"].as_str().unwrap()).collect()
}

#[test]
fn decisions_are_listed_newest_first_page_by_page() {
    with_posts(|server, made| {
        let newest: Vec<&str> = made.iter().rev().map(String::as_str).collect();
        let all = search(server, "");
        assert_eq!(ids(&all), newest, "{all}");
        assert_eq!((&all["next"], &all["partial"]), (&Value::Null, &Value::Null), "{all}");
        assert_eq!(all["looked_at"], 30);
        let listed = &all["decisions"][4];
        assert_eq!((&listed["event_id"], &listed["action"]), (&json!("post-25"), &json!("review_after")));
        assert_eq!(listed["rules"], json!([{"name": "FIRST_LINK", "score": 1.0}]));

        let (mut pages, mut after) = (Vec::new(), String::new());
        loop {
            let page = search(server, &format!("?limit=7{after}"));
            pages.extend(ids(&page).into_iter().map(str::to_owned));
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        assert_eq!(pages, newest);
        let newer = search(server, &format!("?since={}", made[27]));
        assert_eq!(ids(&newer), newest[..2]);
    });
}

#[test]
fn decisions_are_found_by_what_is_known_of_them() {
    with_posts(|server, made| {
        let check = |query: &str, numbers: &[usize]| {
            let page = search(server, query);
            let wanted: Vec<&str> = numbers.iter().map(|number| made[*number].as_str()).collect();
            assert_eq!(ids(&page), wanted, "{query}: {page}");
        };
        check("?rule=FIRST_LINK", &[25, 20, 15, 10, 5, 0]);
        check("?action=review_after,reject&limit=2", &[25, 20]);
        check("?kind=author&value=u1&where=followers%20%3E%2015", &[28, 25, 22, 19, 16]);
        check("?text=15.EXAMPLE", &[15]);
        check("?event_id=post-9", &[9]);
        check("?score_from=0.5&pipeline=posts&limit=1", &[25]);
        check("?score_below=0.5&kind=author&value=u0&where=followers%20%3C%209", &[6, 3]);
        check("?from=2026-05-17T10:00:01Z", &[]);
        check("?labelled=true", &[]);
        let said = json!({"id": made[3], "class": "spam"}).to_string();
        assert_eq!(server.post("/v1/feedback", &[JSON], &said).status, 200);
        check("?labelled=true", &[3]);
        check("?label=spam", &[3]);
        check("?label=ham", &[]);
        check("?labelled=false&where=followers%20%3C%205", &[4, 2, 1, 0]);
        let shown = search(server, "?label=spam&facts=user,followers,link");
        assert_eq!(shown["decisions"][0]["facts"], json!({"user": "u0", "followers": 3}), "{shown}");
        assert_eq!(shown["decisions"][0]["label"], "spam");
        let shown = search(server, "?event_id=post-5&facts=*");
        assert_eq!(shown["decisions"][0]["facts"]["link"], "https://5.example/");
    });
}

#[test]
fn what_cannot_be_searched_for_is_a_problem() {
    with_posts(|server, _| {
        let check = |query: &str, problem: &str, says: &str| {
            let answer = server.get(&format!("/v1/decisions?{query}"));
            check_problem(&answer, 400, problem, says);
        };
        check("rul=A", "invalid-parameter", "there is no parameter `rul`");
        check("limit=0", "invalid-parameter", "limit: expected 1 to 1000");
        check("limit=x", "invalid-parameter", "query");
        check("action=refuse", "invalid-parameter", "action: ");
        check("from=yesterday", "invalid-parameter", "from: ");
        check("from=2026-05-17T10:00:00Z&to=2026-05-17T10:00:00Z", "invalid-parameter", "not after");
        check("kind=author", "invalid-parameter", "both or neither");
        check("kind=autor&value=u1", "unknown-name", "there is no kind `autor`");
        check("pipeline=pots", "unknown-name", "pots");
        check("where=folowers%20%3E%201", "invalid-parameter", "where: ");
        check("after=here", "invalid-parameter", "after: expected a decision id");
        check("label=spam&labelled=false", "invalid-parameter", "no label");
    });
}

#[test]
fn decisions_tell_what_they_have_in_common_and_others_have_not() {
    with_posts(|server, _| {
        for number in 0..12 {
            let post = json!({"id": format!("wave-{number}"), "user": format!("w{number}"), "link": "wave.example", "followers": 3});
            assert_eq!(server.post("/v1/decide", &[JSON], &post.to_string()).status, 200);
        }
        let found = server.get("/v1/decisions/common?text=wave.ex").json();
        assert_eq!((&found["decisions"], &found["others"]), (&json!(12), &json!(30)), "{found}");
        let fact = |name: &str| {
            let facts = found["facts"].as_array().unwrap();
            facts
                .iter()
                .find(|fact| fact["fact"] == name)
                .unwrap_or_else(|| panic!("{name}: {found}"))
                .clone()
        };
        let link = fact("link");
        assert_eq!(
            (&link["value"], &link["count"], &link["before"]),
            (&json!("wave.example"), &json!(12), &json!(0))
        );
        assert_eq!(link["condition"], "link == 'wave.example'");
        let facts = found["facts"].as_array().unwrap();
        assert!(facts.iter().all(|fact| fact["fact"] != "user"), "no two share it: {found}");
        for fact in facts {
            // What is told of it is what a search for its condition finds.
            let condition = fact["condition"]
                .as_str()
                .unwrap()
                .replace('&', "%26")
                .replace(' ', "%20")
                .replace('=', "%3D");
            let page = search(server, &format!("?text=wave.ex&where={condition}&limit=100"));
            assert_eq!(json!(ids(&page).len()), fact["count"], "{fact}");
        }
        let none = server.get("/v1/decisions/common?text=nothing+has+this").json();
        assert_eq!((&none["decisions"], &none["facts"]), (&json!(0), &json!([])));
        check_problem(
            &server.get("/v1/decisions/common?limit=3"),
            400,
            "invalid-parameter",
            "there is no parameter",
        );
    });
}

#[test]
fn an_event_can_be_checked_without_a_trace() {
    with_posts(|server, made| {
        let event =
            json!({"id": "new", "user": "u1", "followers": 3, "link": "https://new.example/"}).to_string();
        let checked = server.post("/v1/check", &[JSON], &event);
        assert_eq!(checked.status, 200, "{}", checked.body);
        let checked = checked.json();
        assert_eq!(
            (&checked["action"], &checked["score"]),
            (&json!("review_after"), &json!(1.0)),
            "{checked}"
        );
        assert_eq!(checked["reasons"][0]["name"], "FIRST_LINK");
        assert!(checked["rules"]["FIRST_LINK"].is_string(), "{checked}");
        assert_eq!(checked["id"], Value::Null);
        assert_eq!(server.post("/v1/check", &[JSON], &event).json(), checked, "nothing was counted");
        assert_eq!(ids(&search(server, "?limit=1")), [made[29].as_str()], "nothing was logged");
        let decided = server.post("/v1/decide", &[JSON], &event).json();
        for member in ["action", "score", "probability", "reasons", "shadow", "next"] {
            assert_eq!(decided[member], checked[member], "{member}");
        }
    });
}

/// The next event of a stream: its name and data.
fn next_event(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> (String, String) {
    let (mut name, mut data) = (String::new(), String::new());
    for line in lines {
        let line = line.unwrap();
        match line.split_once(": ") {
            Some(("event", text)) => name = text.to_owned(),
            Some(("data", text)) => data = text.to_owned(),
            _ if line.is_empty() && !name.is_empty() => return (name, data),
            _ => {}
        }
    }
    panic!("the stream has ended");
}

#[test]
fn decisions_are_streamed_as_they_are_made() {
    with_posts(|server, _| {
        let watch = |query: &str| {
            let mut stream = server.connect();
            let head = format!("GET /v1/decisions/stream?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            let mut lines = BufReader::new(stream).lines();
            let first: Vec<String> =
                lines.by_ref().map(Result::unwrap).take_while(|line| !line.starts_with(": ")).collect();
            assert_eq!(first[0], "HTTP/1.1 200 OK", "{first:?}");
            lines
        };
        let mut all = watch("facts=user");
        let mut some = watch("kind=author&value=ann&where=followers%20%3E%202&rule=FIRST_LINK");
        let decide = |user: &str, followers: i64| {
            let link = format!("https://{user}.{followers}.example/");
            let event = json!({"user": user, "followers": followers, "link": link}).to_string();
            server.post("/v1/decide", &[JSON], &event).json()["id"].as_str().unwrap().to_owned()
        };
        let made = [decide("bob", 9), decide("ann", 1), decide("ann", 7)];
        for id in &made {
            let (name, data) = next_event(&mut all);
            let data: Value = serde_json::from_str(&data).unwrap();
            assert_eq!((name.as_str(), data["id"].as_str()), ("decision", Some(id.as_str())));
            assert!(data["facts"]["user"].is_string(), "{data}");
        }
        let (_, data) = next_event(&mut some);
        assert_eq!(serde_json::from_str::<Value>(&data).unwrap()["id"], made[2].as_str());

        let others: Vec<_> = (0..14).map(|_| watch("")).collect();
        let refused = server.get("/v1/decisions/stream");
        check_problem(&refused, 503, "overloaded", "16 watch decisions already");
        drop(others);
        let refused = server.get("/v1/decisions/stream?label=spam");
        check_problem(&refused, 400, "invalid-parameter", "not for decisions as they are made");
    });
}

#[test]
fn decisions_come_to_statistics_and_counts() {
    with_posts(|server, made| {
        for (number, class) in [(0, "spam"), (5, "ham"), (1, "ham")] {
            let said = json!({"id": made[number], "class": class}).to_string();
            assert_eq!(server.post("/v1/feedback", &[JSON], &said).status, 200);
        }
        let answer = server.get("/v1/decisions/statistics?line=reject&at=0.5&bin=1");
        assert_eq!(answer.status, 200, "{}", answer.body);
        let came = answer.json();
        assert_eq!(came["decisions"], json!({"good": 2, "bad": 1, "unjudged": 27}), "{came}");
        assert_eq!(came["actions"], json!({"accept": 24, "review_after": 6}));
        assert_eq!(came["labels"], json!({"ham": 2, "spam": 1}));
        let rule = &came["rules"][0];
        assert_eq!((&rule["rule"], &rule["precision"]), (&json!("FIRST_LINK"), &json!(0.5)));
        assert_eq!(rule["enforced"], json!({"good": 1, "bad": 1, "unjudged": 4}));
        assert_eq!(rule["alone"], rule["enforced"]);
        assert_eq!(came["moved"]["between"], rule["enforced"], "{came}");
        assert_eq!(
            came["scores"][1],
            json!({"from": 1.0, "decisions": {"good": 1, "bad": 1, "unjudged": 4}})
        );
        let check = |url: &str, says: &str| check_problem(&server.get(url), 400, "invalid-parameter", says);
        check("/v1/decisions/statistics?line=reject", "line, at: expected both or neither");
        check("/v1/decisions/statistics?line=shadow&at=1", "no band");
        check("/v1/decisions/statistics?bin=0", "bin: ");

        let came = server.get("/v1/counts?rules=FIRST_LINK").json();
        assert_eq!(came["width"], "1m", "{came}");
        let bucket = &came["buckets"][0];
        assert_eq!(
            (&bucket["decisions"], &bucket["rules"]),
            (&json!(30), &json!({"FIRST_LINK": 6})),
            "{came}"
        );
        assert_eq!(bucket["labels"], json!({"ham": 2, "spam": 1}));
        let came = server.get("/v1/counts?width=2h&to=2026-05-17T12:00:00Z").json();
        assert_eq!(came["buckets"][0]["start"], "2026-05-17T10:00:00Z", "{came}");
        check("/v1/counts?width=7m", "width: ");
        check("/v1/counts?from=2026-01-01T00:00:00Z", "more than 3000 buckets");
    });
}

//! Forms and bait: what a page is given and what comes back, what is tried against it, and refusals that nobody notices.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use engine::Directory;
use plan::preset;
use serde_json::{Value, json};

use crate::harness::{
    Answer, JSON, JSON_LINES, LOG, NOW, SetClock, TestServer, answer, check_problem, directory, start_by,
};
use crate::proxies::shown;

const PAGE: &str = include_str!("../../../../docs/guides/forms.md");

/// A site whose forms are seen from without, with bait, and an application of another name.
const SITE: &str = r#"
input = "access-log"

[[field]]
name = "browser"
type = "string"
value = "http.agent_family.or('')"

[form]
visitor = ["client.net", "browser"]

[bait]
prefix = "/old/"
parameters = ["sessid"]

[[kind]]
name = "ip"
of = "client.ip"

[[kind]]
name = "getter"
of = "client.ip"
when = "http.method == 'GET'"

[[statistic]]
name = "gets"
keys = ["getter"]
counts = ["opened"]
windows = ["10m x 144"]

[[label]]
name = "silent"
of = "ip"
keep = "7d"

[[rule]]
name = "NAIVE"
when = "http.method == 'POST' && getter.opened('1d') == 0"
score = 0.0

[[rule]]
name = "BAIT"
when = "has(bait.taken)"
score = 0
effects = ["mark ip as 'silent' for 7d", "set shadow"]

[[rule]]
name = "ATTACK"
when = "http.path == '/attack'"
score = 9.0

[[rule]]
name = "SILENCED"
when = "ip.marked('silent')"
score = 0
effects = ["set shadow"]

[[band]]
at = 5.0
action = "reject"
"#;

const MAIN: &str = r#"
[[forward_auth]]
name = "site"
pipeline = "site"
"#;

/// The `toml` block of the guide that begins so.
fn settings(begins: &str) -> String {
    shown(PAGE, "toml", begins).to_owned()
}

/// The gate of the guide that answers in the application's place, before a proxy that hands answers on and before nginx.
fn quiet_gates() -> String {
    let gate = settings("[[forward_auth]]").replace("pipeline = \"gate\"", "pipeline = \"site\"");
    let named = |name: &str| gate.replace("name = \"site\"", &format!("name = \"{name}\""));
    let nginx = named("quiet_nginx").replace("# refuse", "refuse");
    assert!(nginx.contains("\nrefuse = 403"), "{nginx}");
    named("quiet") + "\n" + &nginx
}

/// Runs a test with the guest book of the guide, and with a site.
fn with_forms(test: impl FnOnce(&TestServer, &SetClock)) {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let path = directory.config_path();
    let config = std::fs::read_to_string(&path).unwrap();
    let named = config.replace(
        "pipelines = [\"web.toml\"]",
        "pipelines = [\"guestbook.toml\", \"site.toml\", \"other.toml\"]",
    );
    assert_ne!(named, config);
    std::fs::write(&path, named + MAIN + &quiet_gates()).unwrap();
    let folder = path.parent().unwrap();
    let guestbook = settings("input = \"json\"");
    let site = format!("{}\n{}", SITE, settings("[constants]"));
    // Tables of TOML stand once.
    for (name, space, text) in [("guestbook", 31, &guestbook), ("other", 32, &guestbook), ("site", 33, &site)]
    {
        let text = format!("name = \"{name}\"\nspace = {space}\n{text}");
        std::fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    }
    let clock = SetClock::default();
    let running = start_by(&directory, &[], |_| clock.clock());
    test(&running, &clock);
    running.stop();
}

fn decide(server: &TestServer, pipeline: &str, event: &Value) -> Value {
    let answer = server.post(&format!("/v1/decide?pipeline={pipeline}"), &[JSON], &event.to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

fn reasons(decision: &Value) -> Vec<&str> {
    let reasons = decision["reasons"].as_array().into_iter().flatten();
    reasons.map(|reason| reason["name"].as_str().unwrap()).collect()
}

/// The facts of an event that is only looked at.
fn facts(server: &TestServer, pipeline: &str, event: &Value) -> Value {
    let answer = server.post(&format!("/v1/peek?pipeline={pipeline}"), &[JSON], &event.to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["facts"].clone()
}

fn token(server: &TestServer, pipeline: &str, form: &str, event: &Value) -> String {
    let url = format!("/v1/forms?pipeline={pipeline}&form={form}");
    let answer = server.post(&url, &[JSON], &event.to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.json()["seconds"], 43_200);
    answer.json()["token"].as_str().unwrap().to_owned()
}

const ANN: &str = "192.0.2.7";

#[test]
fn the_life_of_a_form_is_known() {
    with_forms(|server, clock| {
        let sent = token(server, "guestbook", "sign", &json!({"ip": ANN}));
        clock.set(25);
        let event = json!({"ip": ANN, "text": "hello", "form.token": sent, "form.expected": "sign"});
        let seen = facts(server, "guestbook", &event);
        assert_eq!(
            (&seen["form.opened"], &seen["form.age"], &seen["form.name"], &seen["form.token"]),
            (&json!(true), &json!(25.0), &json!("sign"), &Value::Null),
            "{seen}"
        );
        let id = seen["form.id"].as_str().unwrap();
        assert_ne!(
            facts(
                server,
                "guestbook",
                &json!({"ip": ANN, "form.token": token(server, "guestbook", "sign", &json!({"ip": ANN}))})
            )["form.id"],
            id
        );
        // How often it was sent.
        let actions: Vec<Value> =
            (0..5).map(|_| decide(server, "guestbook", &event)["action"].clone()).collect();
        assert_eq!(actions, ["accept", "accept", "accept", "reject", "reject"]);
        // How long it took.
        let quick = token(server, "guestbook", "sign", &json!({"ip": ANN}));
        clock.set(26);
        let decision = decide(server, "guestbook", &json!({"ip": ANN, "form.token": quick}));
        assert_eq!(reasons(&decision), ["TOO_FAST"]);
        let id = decision["id"].as_str().unwrap();
        let explained = server.get(&format!("/v1/decisions/{id}")).json();
        assert_eq!(explained["facts"]["form.age"], json!(1.0), "{explained}");
        assert!(!explained.to_string().contains(&quick), "tokens are not kept");
        // A post without the page.
        let without = decide(server, "guestbook", &json!({"ip": ANN, "text": "hello"}));
        assert_eq!((&without["action"], reasons(&without)), (&json!("reject"), vec!["NO_FORM"]));
        // Lines and columns are judged alike.
        let lines = format!("{event}\n{}\n", json!({"ip": ANN}));
        let batch = server.post("/v1/decide/batch?pipeline=guestbook", &[JSON_LINES], &lines);
        let found: Vec<&str> = batch.body.lines().collect();
        assert!(found[0].contains("SENT_AGAIN") && found[1].contains("NO_FORM"), "{}", batch.body);
        let columns = server.post("/v1/batch/decide?pipeline=guestbook", &[JSON_LINES], &lines);
        let found: Vec<&str> = columns.body.lines().collect();
        assert!(found[0].contains("SENT_AGAIN") && found[1].contains("NO_FORM"), "{}", columns.body);
        let metrics = server.get("/metrics").body;
        for line in [
            "tollhouse_forms_issued_total{pipeline=\"guestbook\"} 3",
            "tollhouse_forms_sent_total{pipeline=\"guestbook\",outcome=\"opened\"}",
        ] {
            assert!(metrics.contains(line), "{line}: {metrics}");
        }
    });
}

/// Attacks on tokens, each with the reason for which it is refused.
#[test]
fn what_is_tried_against_tokens_is_refused() {
    with_forms(|server, clock| {
        let check = |what: &str, event: Value, refused: Value| {
            let seen = facts(server, "guestbook", &event);
            assert_eq!(
                (&seen["form.opened"], &seen["form.refused"]),
                (&json!(false), &refused),
                "{what}: {seen}"
            );
            assert!(reasons(&decide(server, "guestbook", &event)).contains(&"NO_FORM"), "{what}");
        };
        let event = |token: &Value| json!({"ip": ANN, "form.token": token});
        let ours = token(server, "guestbook", "sign", &json!({"ip": ANN}));
        check("nothing", json!({"ip": ANN}), Value::Null);
        check("an empty field", event(&json!("")), Value::Null);
        check("the fact itself", json!({"ip": ANN, "form.opened": true, "form.age": 9.0}), Value::Null);
        let list = event(&json!([ours, ours])).to_string();
        let refused = server.post("/v1/decide?pipeline=guestbook", &[JSON], &list);
        check_problem(&refused, 422, "invalid-event", "form.token");
        check("any text", event(&json!("x".repeat(70))), json!("forged"));
        check("a long text", event(&json!("A".repeat(60_000))), json!("forged"));
        check("cut", event(&json!(&ours[1..])), json!("forged"));
        check("two in one", event(&json!(format!("{ours}{ours}"))), json!("forged"));
        let last = ours.len() - 4;
        let changed = format!(
            "{}{}{}",
            &ours[..last],
            if ours.as_bytes()[last] == b'A' { 'B' } else { 'A' },
            &ours[last + 1..]
        );
        check("changed", event(&json!(changed)), json!("forged"));
        let other = token(server, "other", "sign", &json!({"ip": ANN}));
        check("of another pipeline", event(&json!(other)), json!("forged"));
        let log = json!({"client.ip": ANN});
        check("of a site", event(&json!(token(server, "site", "sign", &log))), json!("forged"));
        let moved = json!({"ip": "198.51.100.1", "form.token": ours});
        check("by another visitor", moved, json!("other_visitor"));
        let elsewhere = json!({"ip": ANN, "form.token": ours, "form.expected": "sign-up"});
        check("for another form", elsewhere, json!("other_form"));
        // A refused one is still counted under its id, and the visitor that it is for can send it.
        assert_eq!(facts(server, "guestbook", &event(&json!(ours)))["form.opened"], json!(true));
        clock.set(12 * 3600);
        check("late", event(&json!(ours)), json!("expired"));
        clock.set(90 * 86_400);
        check("very late", event(&json!(ours)), json!("expired"));
        let metrics = server.get("/metrics").body;
        for outcome in ["forged", "expired", "other_visitor", "other_form"] {
            let line = format!("tollhouse_forms_sent_total{{pipeline=\"guestbook\",outcome=\"{outcome}\"}}");
            assert!(metrics.contains(&line), "{line}: {metrics}");
        }
    });
}

/// Facts that are derived from others tell a visitor as well as those that an event brings.
#[test]
fn visitors_are_told_by_derived_fields() {
    with_forms(|server, _| {
        let event = |ip: &str, agent: &str| json!({"client.ip": ip, "http.agent": agent});
        let sent = token(server, "site", "sign", &event(ANN, "Firefox/150.0"));
        let check = |ip: &str, agent: &str, refused: Value| {
            let mut event = event(ip, agent);
            event["form.token"] = json!(sent);
            let seen = facts(server, "site", &event);
            assert_eq!(
                (&seen["form.opened"], &seen["form.refused"]),
                (&json!(refused.is_null()), &refused),
                "{seen}"
            );
        };
        check("192.0.2.99", "Firefox/151.0", Value::Null);
        check("198.51.100.1", "Firefox/150.0", json!("other_visitor"));
        check(ANN, "curl/8.0", json!("other_visitor"));
    });
}

/// The module `forms` over both presets: bait is refused silently on the device that took it, also at its next form, and nobody else is.
#[test]
fn presets_have_forms_and_bait_by_a_module() {
    let parent = tempfile::tempdir().unwrap();
    let presets: Vec<_> = ["signup", "comments"].into_iter().filter_map(preset::find).collect();
    let directory = Directory::create(&parent.path().join("data"), &presets).unwrap();
    let folder = directory.config_path().parent().unwrap().to_owned();
    let mut switched = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Some(text) = std::fs::read_to_string(&path).ok().filter(|text| text.contains("\npreset = \""))
        else {
            continue;
        };
        std::fs::write(&path, text.replacen("\npreset = ", "\nmodules = [\"forms\"]\npreset = ", 1)).unwrap();
        switched += 1;
    }
    assert_eq!(switched, 2);
    let clock = SetClock::default();
    let server = start_by(&directory, &[], |_| clock.clock());
    let own = [
        ("signup", json!({"email": "ann@example.org", "name": "Ann"})),
        ("comments", json!({"user": "ann", "joined": "2020-01-01T00:00:00Z", "text": "I like it."})),
    ];
    for (begin, (pipeline, own)) in (0..).step_by(1000).zip(own) {
        clock.set(begin);
        let baits = server.get(&format!("/v1/baits?pipeline={pipeline}")).json();
        let trap = baits["fields"][0]["name"].as_str().unwrap();
        let sent = |device: Value, token: Value, fields: &[&str]| {
            let mut event = own.clone();
            event["ip"] = json!("192.0.2.7");
            event["bait.fields"] = json!(fields);
            for (name, value) in [("device", device), ("form.token", token)] {
                if !value.is_null() {
                    event[name] = value;
                }
            }
            let decision = decide(&server, pipeline, &event);
            let mine = ["NO_FORM", "FORM_FAST", "FORM_AGAIN", "BAIT", "BAITED"];
            let found = reasons(&decision).into_iter().filter(|name| mine.contains(name)).map(str::to_owned);
            let action = decision["action"].as_str().unwrap().to_owned();
            (action, found.collect::<Vec<_>>())
        };
        let opened = |seconds: i64| {
            let token = json!(token(&server, pipeline, "post", &json!({})));
            clock.set(begin + seconds);
            token
        };
        let check = |found: (String, Vec<String>), action: &str, rules: &[&str]| {
            assert_eq!(found.0, action, "{pipeline}: {found:?}");
            assert_eq!(found.1, rules, "{pipeline}");
        };
        check(sent(json!("a"), opened(30), &["text"]), "accept", &[]);
        check(sent(json!("a"), opened(31), &["text"]), "accept", &["FORM_FAST"]);
        let doubted = if pipeline == "signup" { "challenge" } else { "review_after" };
        check(sent(json!("b"), Value::Null, &["text"]), doubted, &["NO_FORM"]);
        // Silently, from the form with bait on; nobody else behind this address.
        check(sent(json!("c"), opened(60), &["text", trap]), "shadow", &["BAIT"]);
        check(sent(json!("c"), opened(90), &["text"]), "shadow", &["BAITED"]);
        check(sent(json!("d"), opened(120), &["text"]), "accept", &[]);
        check(sent(Value::Null, opened(150), &["text"]), "shadow", &["BAITED"]);
        // One page, saved and sent again and again.
        let saved = opened(200);
        let again: Vec<_> =
            (0..5).map(|number| sent(json!(format!("e{number}")), saved.clone(), &[])).collect();
        assert!(again[0].1.is_empty() && again[4].1 == ["FORM_AGAIN"], "{pipeline}: {again:?}");
    }
    server.stop();
}

#[test]
fn names_and_pipelines_are_checked() {
    with_forms(|server, _| {
        for form in ["", "a%20b", "a/b", &"a".repeat(33)] {
            let url = format!("/v1/forms?pipeline=guestbook&form={form}");
            check_problem(
                &server.post(&url, &[JSON], "{\"ip\": \"192.0.2.7\"}"),
                400,
                "invalid-parameter",
                "is no name",
            );
        }
        check_problem(
            &server.post("/v1/forms", &[JSON], "{}"),
            400,
            "invalid-parameter",
            "`mail` has no forms",
        );
        check_problem(&server.get("/v1/baits"), 400, "invalid-parameter", "`mail` has no bait");
        assert_eq!(server.get("/v1/baits?pipeline=nowhere").status, 400);
    });
}

fn line(seconds: i64, ip: &str, request: &str) -> String {
    let time = jiff::Timestamp::from_microsecond(NOW.0 + seconds * 1_000_000).unwrap();
    let time = time.strftime("%d/%b/%Y:%H:%M:%S +0000");
    format!("{ip} - - [{time}] \"{request} HTTP/1.1\" 200 10 \"-\" \"Firefox/150.0\"")
}

/// The question of a proxy about a request.
fn gate(server: &TestServer, ip: &str, method: &str, uri: &str) -> Answer {
    let fields = [
        format!("X-Forwarded-For: {ip}"),
        format!("X-Forwarded-Method: {method}"),
        format!("X-Forwarded-Uri: {uri}"),
    ];
    server.ask("GET", "/v1/auth/site", &fields.each_ref().map(String::as_str), b"")
}

/// A form whose page was never opened, by the log and by the proxy's questions alone; also where page and form come in one batch.
#[test]
fn a_post_without_the_page_is_known_without_tokens() {
    with_forms(|server, _| {
        let lines = [
            line(0, "192.0.2.1", "GET /guestbook"),
            line(9, "192.0.2.1", "POST /guestbook/sign"),
            line(10, "192.0.2.2", "POST /guestbook/sign"),
            line(11, "192.0.2.3", "GET /guestbook/sign"),
            line(12, "192.0.2.3", "POST /guestbook/sign"),
            line(13, "192.0.2.4", "POST /other"),
        ];
        let batch = server.post("/v1/decide/batch?pipeline=site", &[LOG], &lines.join("\n"));
        let caught: Vec<bool> =
            batch.body.lines().map(|line| line.contains("\"POST_WITHOUT_FORM\"")).collect();
        assert_eq!(caught, [false, false, true, false, true, false], "{}", batch.body);
        // A kind with a condition has no key in what the condition leaves out: its reading is missing there.
        assert!(!batch.body.contains("NAIVE"), "{}", batch.body);
        assert_eq!(gate(server, "192.0.2.8", "POST", "/guestbook/sign").status, 403);
        assert_eq!(gate(server, "192.0.2.9", "GET", "//guestbook?a=b").status, 200);
        assert_eq!(gate(server, "192.0.2.9", "POST", "/guestbook/sign").status, 200);
    });
}

fn baits(server: &TestServer, pipeline: &str) -> Value {
    server.get(&format!("/v1/baits?pipeline={pipeline}")).json()
}

fn name(bait: &Value) -> String {
    bait["name"].as_str().unwrap().to_owned()
}

#[test]
fn bait_is_hidden_from_people_and_taken_by_programs() {
    with_forms(|server, clock| {
        let bait = baits(server, "guestbook");
        assert_eq!(
            (&bait["parameters"], &bait["seconds"]),
            (&json!(["homepage_v1"]), &json!(14 * 3600)),
            "{bait}"
        );
        for field in bait["fields"].as_array().unwrap() {
            let html = field["html"].as_str().unwrap();
            let named = format!("name=\"{}\"", name(field));
            for part in [
                named.as_str(),
                "aria-hidden=\"true\"",
                "tabindex=\"-1\"",
                "autocomplete=\"off\"",
                "<label for=",
            ] {
                assert!(html.contains(part), "{part}: {html}");
            }
            // Policies for content forbid styles in attributes.
            assert!(!html.contains("style="), "{html}");
            let class = html.split('"').nth(1).unwrap();
            assert!(bait["css"].as_str().unwrap().starts_with(&format!(".{class} {{")), "{bait}");
        }
        let site = baits(server, "site");
        for link in site["links"].as_array().unwrap() {
            let html = link["html"].as_str().unwrap();
            for part in
                ["rel=\"nofollow\"", " hidden ", "aria-hidden=\"true\"", "tabindex=\"-1\"", "href=\"/old/"]
            {
                assert!(html.contains(part), "{part}: {html}");
            }
        }
        assert_eq!(site["robots"], "User-agent: *\nDisallow: /old/\n");

        let field = name(&bait["fields"][0]);
        let taken = |fields: Value| {
            let seen = facts(server, "guestbook", &json!({"ip": ANN, "bait.fields": fields}));
            assert_eq!(seen["bait.fields"], Value::Null, "{seen}");
            (seen["bait.taken"].clone(), seen["bait.name"].clone())
        };
        assert_eq!(taken(json!(["text", field])), (json!("field"), json!(field)));
        assert_eq!(taken(json!(["homepage_v1", "text"])), (json!("parameter"), json!("homepage_v1")));
        assert_eq!(taken(json!(["homepage_v1", field])), (json!("field"), json!(field)));
        let (link, foreign) = (name(&bait["links"][0]), name(&baits(server, "other")["fields"][0]));
        assert!(link.starts_with("/more/"), "{link}");
        let guessed = format!("{}bdfghj", &field[..field.len() - 6]);
        for not in [json!(["text", "token"]), json!([]), json!([foreign]), json!([guessed]), json!([link])] {
            assert_eq!(taken(not.clone()), (Value::Null, Value::Null), "{not}");
        }
        let path = facts(server, "guestbook", &json!({"ip": ANN, "bait.path": link}));
        assert_eq!(path["bait.taken"], json!("link"));
        assert_eq!(
            facts(server, "guestbook", &json!({"ip": ANN, "bait.taken": "link"}))["bait.taken"],
            Value::Null
        );

        // By the log and at the gate.
        let (link, field) = (name(&site["links"][1]), name(&site["fields"][1]));
        let seen = |request: &str| {
            let answer = server.post("/v1/peek?pipeline=site", &[LOG], &line(0, ANN, request));
            answer.json()["facts"]["bait.taken"].clone()
        };
        assert_eq!(seen(&format!("GET {link}")), "link");
        assert_eq!(seen(&format!("GET //old/./{}/?a=b", &link[5..])), "link");
        assert_eq!(seen(&format!("GET /search?q=a&{field}=b")), "field");
        assert_eq!(seen("GET /search?q=a&sessid=7"), "parameter");
        for not in [
            "GET /old/",
            "GET /old/a",
            &format!("GET {}bdfghj", &link[..link.len() - 6]),
            &format!("GET {}", &link[4..]),
        ] {
            assert_eq!(seen(not), Value::Null, "{not}");
        }
        assert_eq!(gate(server, ANN, "GET", &link).header("tollhouse-silent"), Some("1"));

        // Today's names hold tomorrow, and no longer.
        clock.set(14 * 3600);
        assert_ne!(baits(server, "site"), site);
        clock.set(38 * 3600 - 1);
        assert_eq!(seen(&format!("GET {link}")), "link");
        clock.set(38 * 3600);
        assert_eq!(seen(&format!("GET {link}")), Value::Null);
        let metrics = server.get("/metrics").body;
        assert!(metrics.contains("tollhouse_bait_taken_total{pipeline=\"site\",bait=\"link\"}"), "{metrics}");
    });
}

/// The head of an answer without the time.
fn head(answer: &Answer) -> Vec<String> {
    let lines = answer.head.lines().map(str::to_ascii_lowercase);
    lines.filter(|line| !line.starts_with("date:")).collect()
}

#[test]
fn a_silent_refusal_looks_like_success_and_lasts() {
    with_forms(|server, clock| {
        let link = name(&baits(server, "site")["links"][0]);
        let (abuser, honest) = ("198.51.100.1", "198.51.100.2");
        assert_eq!(gate(server, abuser, "GET", "/").header("tollhouse-silent"), None);
        assert_eq!(gate(server, abuser, "GET", &link).header("tollhouse-silent"), Some("1"));
        let days = |days: i64| days * 86_400;
        // Whatever the score is, and whatever is sent: the same until the label ends.
        for seconds in [1, 60, 3600, days(1), days(3), days(7) - 1] {
            clock.set(seconds);
            for (method, uri) in
                [("GET", "/"), ("POST", "/guestbook/sign"), ("GET", "/attack"), ("GET", "/guestbook")]
            {
                let refused = gate(server, abuser, method, uri);
                let accepted = gate(server, honest, "GET", "/");
                assert_eq!((refused.status, accepted.status), (200, 200), "{seconds} {uri}");
                assert_eq!(refused.body.len(), accepted.body.len());
                let mut expected = head(&accepted);
                let silent: Vec<String> =
                    head(&refused).into_iter().filter(|line| *line != "tollhouse-silent: 1").collect();
                assert_eq!(head(&refused).len(), silent.len() + 1, "{seconds} {uri}: {}", refused.head);
                expected.sort();
                let mut silent = silent;
                silent.sort();
                assert_eq!(silent, expected);
            }
        }
        assert_eq!(gate(server, honest, "GET", "/attack").status, 403);
        clock.set(days(7));
        let after = gate(server, abuser, "GET", "/");
        assert_eq!((after.status, after.header("tollhouse-silent")), (200, None));

        // The same for applications: one status and the same fields, the action alone differs.
        let token = token(server, "guestbook", "sign", &json!({"ip": ANN}));
        clock.set(days(7) + 10);
        let field = name(&baits(server, "guestbook")["fields"][0]);
        let ask = |fields: Value, ip: &str| {
            let event = json!({"ip": ip, "form.token": token, "bait.fields": fields}).to_string();
            server.post("/v1/decide?pipeline=guestbook", &[JSON], &event)
        };
        let accepted = ask(json!(["text"]), ANN);
        let refused = ask(json!(["text", field]), ANN);
        let without_length = |answer: &Answer| {
            let lines = head(answer).into_iter().filter(|line| !line.starts_with("content-length:"));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(without_length(&accepted), without_length(&refused));
        assert_eq!(
            (accepted.json()["action"].clone(), refused.json()["action"].clone()),
            (json!("accept"), json!("shadow"))
        );
        // Also by what would be rejected.
        let later = ask(json!([]), ANN).json();
        assert_eq!(later["action"], "shadow", "{later}");
        let worse = decide(server, "guestbook", &json!({"ip": ANN}));
        assert_eq!(
            (&worse["action"], reasons(&worse).contains(&"NO_FORM")),
            (&json!("shadow"), true),
            "{worse}"
        );
    });
}

/// A process that is killed when it is dropped.
struct KilledProcess(Child);

impl Drop for KilledProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a request from an address of the loopback.
fn talk(from: Ipv4Addr, port: u16, request: &str, body: &str) -> Answer {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(([127, 0, 0, 1], port).into()).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!(
        "{request} HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream: TcpStream = stream;
    stream.write_all(head.as_bytes()).unwrap();
    answer(&mut stream)
}

/// The guest book of the guide, asked by somebody who writes, and by a program.
#[test]
fn the_guest_book_of_the_guide_keeps_bait_takers_to_themselves() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: the guide's guest book: python3 is not installed");
        return;
    }
    with_forms(|server, clock| {
        let program = shown(PAGE, "python", "import html");
        let mut command = Command::new("python3");
        let url = format!("http://{}", server.address);
        command.args(["-c", program, &url]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut book = KilledProcess(command.spawn().unwrap());
        let mut said = String::new();
        BufReader::new(book.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let port: u16 = said.trim().trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
        let page = |from| talk(from, port, "GET /", "").body;
        let between = |page: &str, before: &str| {
            page.split_once(before).unwrap().1.split('"').next().unwrap().to_owned()
        };
        let (ann, eve) = (Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3));
        let post = |from, bait: bool, token: &str, text: &str| {
            let field = between(&page(from), "<label for=\"");
            let bait = if bait { format!("&{field}=cheap") } else { format!("&{field}=") };
            let begun = Instant::now();
            let back = talk(from, port, "POST /", &format!("token={token}&text={text}{bait}"));
            assert!(begun.elapsed() >= Duration::from_millis(290));
            assert_eq!((back.status, back.header("location")), (303, Some("/")), "{}", back.head);
            (head(&back), back.body)
        };
        let token = |from| between(&page(from), "name=\"token\" value=\"");
        let (anns, eves) = (token(ann), token(eve));
        clock.set(20);
        let told = post(ann, false, &anns, "hello");
        assert_eq!(post(eve, true, &eves, "buy-this"), told);
        // Without bait the next day, with a new page: the same.
        clock.set(86_400);
        let again = token(eve);
        clock.set(86_420);
        assert_eq!(post(eve, false, &again, "buy-more"), told);
        // Without the page: refused, and nobody sees it.
        assert_eq!(post(Ipv4Addr::new(127, 0, 0, 4), false, "", "no-page"), told);
        let (of_ann, of_eve) = (page(ann), page(eve));
        for (text, seen) in [
            ("hello", (true, true)),
            ("buy-this", (false, true)),
            ("buy-more", (false, true)),
            ("no-page", (false, false)),
        ] {
            assert_eq!((of_ann.contains(text), of_eve.contains(text)), seen, "{text}: {of_ann}");
        }
    });
}

/// The gate answers in the application's place what a silenced visitor would change, by the lines of the guide: to a proxy that
/// hands answers on at once, and to one that knows 403 only by a step. Neither answer says who gave it.
#[test]
fn the_gate_answers_silenced_visitors_itself() {
    with_forms(|server, _| {
        let link = name(&baits(server, "site")["links"][0]);
        let (abuser, honest) = ("198.51.100.1", "198.51.100.2");
        assert_eq!(gate(server, abuser, "GET", &link).header("tollhouse-silent"), Some("1"));
        let ask = |gate: &str, ip: &str, method: &str, more: &[&str]| {
            let fields = [
                format!("X-Forwarded-For: {ip}"),
                format!("X-Forwarded-Method: {method}"),
                "X-Forwarded-Uri: /other".to_owned(),
            ];
            let fields: Vec<&str> = fields.iter().map(String::as_str).chain(more.iter().copied()).collect();
            server.ask("GET", gate, &fields, b"")
        };
        let of_application = |answer: &Answer| {
            assert_eq!(answer.header("location"), Some("/guestbook"), "{}", answer.head);
            let mut head = head(answer);
            head.retain(|line| !line.starts_with("location:") && !line.starts_with("connection:"));
            assert_eq!(
                (&*head, &*answer.body),
                (&["http/1.1 303 see other", "content-length: 0"].map(str::to_owned)[..], "")
            );
        };
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let begun = Instant::now();
            of_application(&ask("/v1/auth/quiet", abuser, method, &[]));
            assert!(begun.elapsed() >= Duration::from_millis(18));
            let refused = ask("/v1/auth/quiet_nginx", abuser, method, &[]);
            let told = refused.header("tollhouse-status").map(str::to_owned);
            assert_eq!((refused.status, told.as_deref()), (403, Some("303")), "{}", refused.head);
            let begun = Instant::now();
            of_application(&ask(
                "/v1/gate/quiet_nginx/challenge",
                abuser,
                method,
                &["Tollhouse-Status: 303"],
            ));
            assert!(begun.elapsed() >= Duration::from_millis(18));
        }
        for gate in ["/v1/auth/quiet", "/v1/auth/quiet_nginx"] {
            for (ip, method, silent) in [(abuser, "GET", Some("1")), (honest, "POST", None)] {
                let passes = ask(gate, ip, method, &[]);
                assert_eq!(
                    (passes.status, passes.header("tollhouse-silent")),
                    (200, silent),
                    "{gate} {method}"
                );
            }
        }
        // A step answers so only where the gate has said that it does.
        for (gate, status) in
            [("quiet_nginx", "302"), ("quiet_nginx", "200"), ("quiet", "303"), ("site", "303")]
        {
            let field = format!("Tollhouse-Status: {status}");
            let step = ask(&format!("/v1/gate/{gate}/challenge"), abuser, "POST", &[&field]);
            assert_eq!(step.status, 404, "{gate} {status}: {}", step.head);
        }
    });
}

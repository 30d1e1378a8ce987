//! Challenges: in front of a site, step by step as a browser goes, and for applications; and what is tried against them.

use std::path::Path;
use std::sync::Mutex;

use altcha::{Challenge, Payload, SolveChallengeOptions, solve_challenge};
use data_encoding::BASE64;
use engine::Directory;
use serde_json::{Value, json};

use crate::harness::{Answer, JSON, SetClock, TestServer, check_problem, directory, start_by};

/// A gate that asks everybody who shows no pass, and an application that asks for more after each failure.
pub(crate) const GATE: &str = r#"
name = "gate"
space = 30
input = "access-log"

[[kind]]
name = "ip"
of = "client.ip"

[[kind]]
name = "pass"
of = "pass.id"

[[statistic]]
name = "asked"
keys = ["ip", "pass"]
counts = ["seen", "asked", "solved", "failed"]
windows = ["1m x 60"]
readings = ["1h"]

[[distinct]]
name = "pass_nets"
per = "pass"
of = "client.net"
window = "1h x 24"
method = "exact"

[observe]
add = ["seen"]

[settle]
asked = ["challenge"]

[feedback]
solved = ["solved"]
failed = ["failed"]

[challenge]
cost = "16"
doublings = "ip.asked('1h') - ip.solved('1h')"
wait = "5s"

[[rule]]
name = "NO_PASS"
when = "!pass.valid.or(false)"
score = 5.0

[[rule]]
name = "SHARED_PASS"
when = "distinct('pass_nets', '1d') >= 3"
score = 5.0

[[band]]
at = 5.0
action = "challenge"
"#;

const APP: &str = r#"
name = "app"
space = 31
input = "json"

[[field]]
name = "user"
type = "string"

[challenge]
cost = "1"
algorithm = "argon2id"
visitor = ["user"]
pass_bound_to = ["user"]

[[rule]]
name = "NEWCOMER"
when = "!pass.valid.or(false) && challenge.result.or('') != 'solved'"
score = 5.0

[[band]]
at = 5.0
action = "challenge"
"#;

const MAIN: &str = r#"
[[forward_auth]]
name = "site"
pipeline = "gate"
contact = "owner@example.org"
"#;

fn with_gate(test: impl FnOnce(&TestServer, &SetClock)) {
    with_gate_of(GATE, MAIN, |server, clock, _| test(server, clock));
}

/// Returns a data directory with this gate, the application, and these lines of the main file.
pub(crate) fn gate_directory(path: &Path, gate: &str, main: &str) -> Directory {
    let directory: Directory = directory(path);
    let path = directory.config_path();
    let config = std::fs::read_to_string(&path).unwrap();
    let named = config.replace("pipelines = [\"web.toml\"]", "pipelines = [\"gate.toml\", \"app.toml\"]");
    assert_ne!(named, config);
    std::fs::write(&path, named + main).unwrap();
    let folder = path.parent().unwrap();
    std::fs::write(folder.join("gate.toml"), gate).unwrap();
    std::fs::write(folder.join("app.toml"), APP).unwrap();
    directory
}

/// Runs a test against a server with this gate and these lines of the main file.
pub(crate) fn with_gate_of(gate: &str, main: &str, test: impl FnOnce(&TestServer, &SetClock, &Directory)) {
    let parent = tempfile::tempdir().unwrap();
    let directory = gate_directory(&parent.path().join("data"), gate, main);
    let clock = SetClock::default();
    let running = start_by(&directory, &[], |_| clock.clock());
    test(&running, &clock, &directory);
    running.stop();
}

/// Somebody who asks for pages through a proxy.
#[derive(Clone, Copy)]
struct Visitor {
    ip: &'static str,
    host: &'static str,
    agent: &'static str,
    accept: &'static str,
}

const ANN: Visitor =
    Visitor { ip: "192.0.2.7", host: "example.org", agent: "Firefox/150.0", accept: "text/html,*/*;q=0.8" };

impl Visitor {
    fn ask(self, server: &TestServer, method: &str, url: &str, more: &[&str], body: &[u8]) -> Answer {
        let fields = [
            format!("X-Forwarded-For: {}", self.ip),
            format!("X-Forwarded-Host: {}", self.host),
            format!("User-Agent: {}", self.agent),
            format!("Accept: {}", self.accept),
        ];
        let fields: Vec<&str> = fields.iter().map(String::as_str).chain(more.iter().copied()).collect();
        server.ask(method, url, &fields, body)
    }

    /// Asks for a page, as a proxy asks about it.
    fn page(self, server: &TestServer, path: &str, cookie: &str) -> Answer {
        let (uri, cookie) = (format!("X-Forwarded-Uri: {path}"), format!("Cookie: a=b; {cookie}"));
        self.ask(server, "GET", "/v1/auth/site", &[&uri, &cookie], b"")
    }

    /// Sends a solution as the page does.
    fn verify(self, server: &TestServer, payload: &str, back: &str) -> Answer {
        let form = format!("altcha={}&return={back}", payload.replace('+', "%2B").replace('=', "%3D"));
        let kind = "Content-Type: application/x-www-form-urlencoded";
        self.ask(server, "POST", "/v1/gate/site/verify", &[kind], form.as_bytes())
    }

    /// Solves what is asked for a page, and returns the cookie.
    fn earn(self, server: &TestServer) -> String {
        let back = self.verify(server, &solved(&challenge(&self.page(server, "/a", ""))), "/a");
        pass_of(&back).expect("a pass")
    }
}

/// The challenge that an answer hands on in its field.
#[track_caller]
pub(crate) fn handed(answer: &Answer) -> Value {
    let field =
        answer.header("tollhouse-challenge").unwrap_or_else(|| panic!("no challenge: {}", answer.head));
    serde_json::from_slice(&BASE64.decode(field.as_bytes()).unwrap()).unwrap()
}

#[track_caller]
pub(crate) fn challenge(answer: &Answer) -> String {
    handed(answer)["challenge"].as_str().unwrap().to_owned()
}

fn payload(challenge: &str) -> Payload {
    let challenge: Challenge = serde_json::from_str(challenge).unwrap();
    let solution = solve_challenge(SolveChallengeOptions::new(&challenge)).unwrap().unwrap();
    Payload { challenge, solution }
}

fn encoded(payload: &Payload) -> String {
    BASE64.encode(&serde_json::to_vec(payload).unwrap())
}

/// The solution of a challenge, as a client sends it.
pub(crate) fn solved(challenge: &str) -> String {
    encoded(&payload(challenge))
}

/// The units of work of a challenge.
fn units(challenge: &str) -> u64 {
    let parameters = serde_json::from_str::<Challenge>(challenge).unwrap().parameters;
    u64::from(parameters.cost) * 16u64.pow(parameters.key_prefix.len() as u32) / 1000
}

/// The pass that an answer sets as a cookie, as it is sent back.
pub(crate) fn pass_of(answer: &Answer) -> Option<String> {
    let cookie = answer.header("set-cookie").filter(|cookie| cookie.starts_with("tollhouse-pass="))?;
    Some(cookie.split(';').next().unwrap().to_owned())
}

#[test]
fn a_browser_is_asked_once_and_comes_back_to_its_page() {
    with_gate(|server, clock| {
        let asked = ANN.page(server, "//shop?a=b", "");
        assert_eq!((asked.status, asked.header("cache-control")), (401, Some("no-store")), "{}", asked.head);
        assert!(asked.header("content-security-policy").unwrap().contains("default-src 'none'"));
        for text in ["owner@example.org", "example.org", "/.//shop?a=b", "/.tollhouse/verify"] {
            assert!(asked.body.contains(text), "{text}: {}", asked.body);
        }
        let back = ANN.verify(server, &solved(&challenge(&asked)), "//shop%3Fa=b");
        assert_eq!((back.status, back.header("location")), (303, Some("/.//shop?a=b")), "{}", back.head);
        let cookie = back.header("set-cookie").unwrap();
        assert!(cookie.ends_with("Path=/; Max-Age=43200; HttpOnly; SameSite=Lax"), "{cookie}");
        let pass = pass_of(&back).unwrap();
        // For hours, also from another network; by the same browser of another version.
        let elsewhere = Visitor { ip: "2001:db8::1", agent: "Firefox/151.0", ..ANN };
        clock.set(11 * 3600);
        assert_eq!([ANN, elsewhere].map(|ann| ann.page(server, "/b", &pass).status), [200, 200]);
        // Whoever copied it to another browser or site is asked.
        for other in [Visitor { agent: "curl/8.0", ..ANN }, Visitor { host: "example.com", ..ANN }] {
            assert_eq!(other.page(server, "/b", &pass).status, 401);
        }
        clock.set(13 * 3600);
        let late = ANN.page(server, "/b", &pass);
        assert_eq!((late.status, handed(&late)["cause"].as_str()), (401, Some("expired")));
        let metrics = server.get("/metrics").body;
        assert!(
            metrics.contains(
                "tollhouse_challenges_shown_total{pipeline=\"gate\",rule=\"NO_PASS\",outcome=\"solved\"} 1"
            ),
            "{metrics}"
        );
    });
}

#[test]
fn programs_are_told_in_json_and_each_failure_doubles_the_work() {
    with_gate(|server, _| {
        let program = Visitor { accept: "*/*", ..ANN };
        let first = program.page(server, "/api", "");
        assert_eq!((first.status, first.header("content-type")), (401, Some("application/problem+json")));
        let mut costs = vec![units(&challenge(&first))];
        costs.extend((0..3).map(|_| units(&challenge(&program.page(server, "/api", "")))));
        assert!(costs.windows(2).all(|pair| pair[1] >= pair[0] * 19 / 10), "{costs:?}");
        // Solving forgives.
        let (before, asked) = (costs[3], program.page(server, "/api", ""));
        assert!(pass_of(&program.verify(server, &solved(&challenge(&asked)), "/api")).is_some());
        let after = units(&challenge(&program.page(server, "/api", "")));
        assert!(after < before * 3, "{after} after {before}");
        let explained =
            server.get(&format!("/v1/decisions/{}", handed(&asked)["id"].as_str().unwrap())).json();
        assert!(explained["facts"]["challenge.cost"].as_f64().unwrap() >= 250.0, "{explained}");
        let tally = &explained["challenge"];
        assert_eq!(
            (&tally["rule"], &tally["issued"], &tally["solved"], &tally["unsolved"]),
            (&json!("NO_PASS"), &json!(6), &json!(1), &json!(0)),
            "{tally}"
        );
        assert_eq!(tally["units"], explained["facts"]["challenge.cost"]);
        assert!(tally["mean_seconds"].as_f64().is_some(), "{tally}");
    });
}

/// The decision that asked is at hand as long as its node runs, and in the journal after that.
#[test]
fn a_solution_counts_the_same_before_and_after_a_restart() {
    let program = Visitor { accept: "*/*", ..ANN };
    let next = |restarts: bool, is_right: bool| {
        let parent = tempfile::tempdir().unwrap();
        let directory = gate_directory(&parent.path().join("data"), GATE, MAIN);
        let clock = SetClock::default();
        let mut running = start_by(&directory, &[], |_| clock.clock());
        let asked: Vec<String> = (0..4).map(|_| challenge(&program.page(&running, "/api", ""))).collect();
        if restarts {
            running.stop();
            running = start_by(&directory, &[], |_| clock.clock());
        }
        let mut solution = payload(&asked[3]);
        solution.solution.counter += u32::from(!is_right);
        let earned = pass_of(&program.verify(&running, &encoded(&solution), "/api"));
        assert_eq!(earned.is_some(), is_right, "restarts: {restarts}");
        let next = handed(&program.page(&running, "/api", ""));
        let next = running.get(&format!("/v1/decisions/{}", next["id"].as_str().unwrap())).json();
        running.stop();
        (next["facts"]["challenge.cost"].to_string(), next["keys"][0]["counts"].to_string())
    };
    let [right, wrong] = [true, false].map(|is_right| {
        let [at_hand, sought] = [false, true].map(|restarts| next(restarts, is_right));
        assert_eq!(at_hand, sought, "right: {is_right}");
        at_hand
    });
    assert_ne!(right.0, wrong.0);
    assert!(right.1.contains("asked") && right.1 != wrong.1, "{right:?} {wrong:?}");
}

/// Solutions that are no use, each with the outcome that is counted for it.
#[test]
fn what_is_tried_against_challenges_is_refused() {
    with_gate(|server, clock| {
        let refused = |name: &str, visitor: Visitor, payload: &str, outcome: &str| {
            let count = || {
                let metrics = server.get("/metrics").body;
                let lines = metrics.lines().filter(|line| {
                    line.starts_with("tollhouse_challenges_shown_total")
                        && line.contains(&format!("outcome=\"{outcome}\""))
                });
                lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>()
            };
            let before = count();
            let back = visitor.verify(server, payload, "/a");
            let status = if matches!(outcome, "expired" | "used") { 410 } else { 403 };
            assert_eq!(
                (back.status, back.header("set-cookie"), count()),
                (status, None, before + 1),
                "{name}: {}",
                back.head
            );
        };
        let fresh = || challenge(&ANN.page(server, "/a", ""));
        let once = solved(&fresh());
        assert!(pass_of(&ANN.verify(server, &once, "/a")).is_some());
        refused("replayed", ANN, &once, "used");
        refused("nothing", ANN, "", "unreadable");
        refused("no base64", ANN, "!!!", "unreadable");
        refused("long", ANN, &"A".repeat(8000), "unreadable");
        let moved = solved(&fresh());
        refused("by another network", Visitor { ip: "198.51.100.1", ..ANN }, &moved, "other_visitor");
        refused("on another site", Visitor { host: "example.com", ..ANN }, &moved, "other_visitor");
        assert!(pass_of(&ANN.verify(server, &moved, "/a")).is_some(), "nobody else used it up");
        let mut unsolved = payload(&fresh());
        unsolved.solution.counter += 1;
        refused("not solved", ANN, &encoded(&unsolved), "unsolved");
        unsolved.solution.counter -= 1;
        refused("solved after a wrong try", ANN, &encoded(&unsolved), "used");
        let mut cheaper = payload(&fresh());
        cheaper.challenge.parameters.key_prefix.clear();
        refused("made cheaper", ANN, &encoded(&cheaper), "forged");
        let app = server.post("/v1/challenges?pipeline=app", &[JSON], "{\"user\": \"ann\"}").json();
        refused("for something else", ANN, &solved(&app.to_string()), "other_purpose");
        let late = solved(&fresh());
        clock.set(601);
        refused("late", ANN, &late, "expired");
        // Many at the same time: one is the first.
        let parallel = solved(&fresh());
        let passes = Mutex::new(0);
        std::thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| {
                    if pass_of(&ANN.verify(server, &parallel, "/a")).is_some() {
                        *passes.lock().unwrap() += 1;
                    }
                });
            }
        });
        assert_eq!(passes.into_inner().unwrap(), 1);
        for forged in ["", "tollhouse-pass=x", &format!("tollhouse-pass={}", "A".repeat(62))] {
            assert_eq!(ANN.page(server, "/a", forged).status, 401, "{forged}");
        }
    });
}

#[test]
fn a_pass_that_is_shared_is_seen() {
    with_gate(|server, _| {
        let pass = ANN.earn(server);
        let from = |ip: &'static str| Visitor { ip, ..ANN }.page(server, "/a", &pass).status;
        let statuses =
            ["192.0.2.7", "198.51.100.1", "198.51.100.2", "203.0.113.5", "192.0.2.9", "203.0.113.6"]
                .map(from);
        // The event itself is no reading of its own, so the third network is seen by the one after.
        assert_eq!(statuses, [200, 200, 200, 200, 401, 401]);
    });
}

#[test]
fn who_runs_no_scripts_waits_and_renders() {
    with_gate(|server, clock| {
        let place = |path: &str| handed(&ANN.page(server, path, ""))["waiting"].as_str().unwrap().to_owned();
        let mark = |place: &str| {
            let marked = ANN.ask(server, "GET", &format!("/v1/gate/site/mark?place={place}"), &[], b"");
            assert_eq!((marked.status, marked.header("content-type")), (200, Some("image/gif")));
            marked.header("set-cookie").map(|cookie| format!("Cookie: {}", cookie.split(';').next().unwrap()))
        };
        let go_on = |visitor: Visitor, place: &str, cookie: &str| {
            visitor.ask(
                server,
                "GET",
                &format!("/v1/gate/site/continue?place={place}&return=/c"),
                &[cookie],
                b"",
            )
        };
        let first = place("/c");
        let page = ANN.page(server, "/c?d=e", "").body;
        assert!(
            page.contains("<meta http-equiv=\"refresh\" content=\"5;url=/.tollhouse/continue?place="),
            "{page}"
        );
        let cookie = mark(&first).unwrap();
        let refused = |back: Answer, why: &str| {
            assert_eq!((back.status, pass_of(&back)), (403, None), "{why}");
            assert!(
                back.body.contains("href=\"/c\"") && !back.body.contains("refresh"),
                "{why}: {}",
                back.body
            );
        };
        refused(go_on(ANN, &first, &cookie), "too early");
        clock.set(6);
        refused(go_on(ANN, &first, "A: b"), "without the picture");
        refused(go_on(Visitor { ip: "203.0.113.1", ..ANN }, &first, &cookie), "somebody else");
        refused(go_on(ANN, &place("/c"), &cookie), "the picture of another page");
        let passed = go_on(ANN, &first, &cookie);
        assert_eq!((passed.status, passed.header("location")), (303, Some("/c")));
        assert!(passed.header("set-cookie").unwrap().contains("Max-Age=7200"), "{}", passed.head);
        assert_eq!(ANN.page(server, "/c", &pass_of(&passed).unwrap()).status, 200);
        refused(go_on(ANN, &first, &cookie), "again");
        assert_eq!(mark("x"), None, "no place");
        clock.set(3600);
        refused(go_on(ANN, &first, &cookie), "long after");
    });
}

#[test]
fn proxies_with_pages_of_their_own_show_it_by_another_question() {
    with_gate(|server, _| {
        let asked = Visitor { accept: "*/*", ..ANN }.page(server, "/d", "");
        let field = format!("Tollhouse-Challenge: {}", asked.header("tollhouse-challenge").unwrap());
        let more =
            [field.as_str(), "X-Original-URI: /d?e=f", "X-Original-Method: POST", "Accept-Language: fr"];
        let page = ANN.ask(server, "GET", "/v1/gate/site/challenge", &more, b"");
        assert_eq!((page.status, page.header("content-language")), (401, Some("fr")), "{}", page.head);
        assert!(page.body.contains("/d?e=f") && page.body.contains("\"form\":true"), "{}", page.body);
        check_problem(
            &ANN.ask(server, "GET", "/v1/gate/site/challenge", &[], b""),
            404,
            "not-found",
            "no challenge to show",
        );
        check_problem(
            &ANN.ask(server, "GET", "/v1/gate/site/verify", &[], b""),
            405,
            "method-not-allowed",
            "GET verify",
        );
        check_problem(
            &ANN.ask(server, "GET", "/v1/gate/nowhere/mark", &[], b""),
            404,
            "not-found",
            "no [[forward_auth]]",
        );
        check_problem(
            &ANN.ask(server, "GET", "/v1/gate/site/other", &[], b""),
            404,
            "not-found",
            "no step `other`",
        );
        // A program gets the problem, and what is throttled its status.
        let program = Visitor { accept: "*/*", ..ANN };
        let told = program.ask(server, "GET", "/v1/gate/site/challenge", &more, b"");
        assert_eq!((told.status, told.header("content-type")), (401, Some("application/problem+json")));
        assert_eq!(handed(&told), handed(&asked));
        let more = [&more[..], &["Tollhouse-Status: 429"]].concat();
        for visitor in [ANN, program] {
            assert_eq!(visitor.ask(server, "GET", "/v1/gate/site/challenge", &more, b"").status, 429);
        }
        let large = vec![b'a'; 20_000];
        check_problem(&ANN.ask(server, "POST", "/v1/gate/site/verify", &[], &large), 413, "too-large", "16");
    });
}

#[test]
fn applications_hand_challenges_on() {
    with_gate(|server, _| {
        let decide =
            |event: Value| server.post("/v1/decide?pipeline=app", &[JSON], &event.to_string()).json();
        let first = decide(json!({"user": "ann"}));
        assert_eq!(
            (&first["action"], &first["challenge"]["parameters"]["algorithm"]),
            (&json!("challenge"), &json!("ARGON2ID"))
        );
        let solution = solved(&first["challenge"].to_string());
        let other = decide(json!({"user": "bob", "challenge.solution": solution}));
        assert_eq!((&other["action"], &other["pass"]), (&json!("challenge"), &Value::Null), "{other}");
        let second = decide(json!({"user": "ann", "challenge.solution": solution}));
        assert_eq!(second["action"], json!("accept"), "{second}");
        let token = second["pass"]["token"].as_str().unwrap();
        assert_eq!(decide(json!({"user": "ann", "pass.token": token}))["action"], json!("accept"));
        assert_eq!(decide(json!({"user": "bob", "pass.token": token}))["action"], json!("challenge"));
        assert_eq!(
            decide(json!({"user": "ann", "challenge.solution": solution}))["action"],
            json!("challenge")
        );
        // The same without a decision.
        let asked = server.post("/v1/challenges?pipeline=app", &[JSON], "{\"user\": \"eve\"}").json();
        let verify = |body: Value| {
            server.post("/v1/challenges/verify?pipeline=app", &[JSON], &body.to_string()).json()
        };
        let mine = json!({"payload": solved(&asked.to_string()), "event": {"user": "eve"}});
        let verified = verify(mine.clone());
        assert_eq!(
            (&verified["solved"], &verified["pass"]["seconds"]),
            (&json!(true), &json!(43200)),
            "{verified}"
        );
        assert_eq!(verify(mine), json!({"solved": false, "refused": "used"}));
        let none = server.post("/v1/challenges", &[JSON], "{}");
        check_problem(&none, 400, "invalid-parameter", "the pipeline `mail` has no challenges");
    });
}

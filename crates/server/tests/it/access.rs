//! Access: scopes of routes, pipelines of tokens, content that is withheld, tokens that change while the node runs, and the audit
//! log.

use std::path::Path;
use std::time::{Duration, Instant};

use access::audit::{AuditPlace, AuditQuery, AuditRecord};
use access::{AccessScope, NewToken, Role, ScopeSet, StoredPassword, TokenFile, TokenSecret, UserFile};
use engine::Directory;
use event::Span;
use serde_json::{Value, json};

use crate::harness::{
    Answer, JSON, LOG, MAIL, MESSAGE, NOW, PROBE, SetClock, TestServer, check_problem, configure, directory,
    start, start_by,
};
use crate::node::ROUTES;

/// A configured token of each scope, called as its scope.
fn tokens_of_scopes() -> String {
    let token = |scope: &AccessScope| {
        format!(
            "[[token]]\nname = \"{scope}\"\nsecret = \"{}\"\nscopes = [\"{scope}\"]\n",
            secret(scope.word())
        )
    };
    AccessScope::ALL.iter().map(token).collect()
}

fn secret(name: &str) -> String {
    format!("a-long-secret-of-{name}")
}

fn bearer(name: &str) -> String {
    format!("Authorization: Bearer {}", secret(name))
}

fn with_tokens(more: &str, test: impl FnOnce(&TestServer, &Directory)) {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    configure(&directory, &format!("{}{more}", tokens_of_scopes()));
    let running = start(&directory, &[]);
    test(&running, &directory);
    running.stop();
}

#[test]
fn every_route_asks_for_its_scope_and_for_no_other() {
    with_tokens("", |server, _| {
        let description = server.ask("GET", "/openapi.json", &[&bearer("read")], b"").json();
        let mut seen = 0;
        for (method, path) in ROUTES {
            let operation = &description["paths"][path][method];
            assert!(operation["x-unlisted"].is_null(), "{method} {path} is in no table of access");
            let security = operation["security"].as_array().unwrap();
            let url = path.replace("{name}", "x").replace("{id}", "x").replace("{step}", "verify");
            // A stream that is begun has no end; a filter that it does not know begins none.
            let url = if path == "/v1/decisions/stream" { format!("{url}?of=nothing") } else { url };
            let ask = |name: &str| server.ask(&method.to_uppercase(), &url, &[&bearer(name), JSON], b"{}");
            let Some(needed) = security.first() else {
                assert_ne!(server.ask(&method.to_uppercase(), &url, &[], b"").status, 401, "{path} is open");
                continue;
            };
            assert_eq!(
                server.ask(&method.to_uppercase(), &url, &[], b"").status,
                401,
                "{path} needs a token"
            );
            for scope in AccessScope::ALL {
                let is_enough = needed["token"].as_array().unwrap().iter().all(|word| word == scope.word());
                let answer = ask(scope.word());
                if is_enough {
                    assert!(![401, 403].contains(&answer.status), "{method} {path} {scope}: {}", answer.body);
                } else {
                    let lacks = format!(
                        "the token `{scope}` lacks the scope `{}`",
                        needed["token"][0].as_str().unwrap()
                    );
                    check_problem(&answer, 403, "missing-scope", &lacks);
                }
                seen += 1;
            }
        }
        assert!(seen > 300, "{seen}");
        let page = server.ask("GET", "/metrics", &[&bearer("read")], b"").body;
        assert!(
            page.contains("tollhouse_refused_tokens_total{listener=\"http\",reason=\"scope\"}"),
            "{page}"
        );
        assert!(
            !page.contains("tollhouse_wrong_tokens_total{"),
            "a token without a scope is no guess: {page}"
        );
    });
}

#[test]
fn a_token_of_a_pipeline_is_for_no_other() {
    let limited = format!(
        "[[token]]\nname = \"web\"\nsecret = \"{}\"\nscopes = [\"decide\", \"read\", \"teach\", \"enforce\", \"rules\"]\npipelines = [\"web\"]\n",
        secret("web")
    );
    with_tokens(&limited, |server, _| {
        let token = bearer("web");
        let other = "is not for the pipeline `mail`";
        let ask = |method: &str, url: &str, media: &str, body: &str| {
            server.ask(method, url, &[&token, media], body.as_bytes())
        };
        let own = ask("POST", "/v1/decide?pipeline=web", LOG, PROBE);
        assert_eq!(own.status, 200, "{}", own.body);
        let foreign =
            server.ask("POST", "/v1/decide?pipeline=mail", &[&bearer("decide"), MAIL], MESSAGE.as_bytes());
        let (own, foreign) = (own.json()["id"].clone(), foreign.json()["id"].clone());
        let explain = |id: &Value| ask("GET", &format!("/v1/decisions/{}", id.as_str().unwrap()), JSON, "");
        assert_eq!(explain(&own).status, 200);
        check_problem(&explain(&foreign), 403, "missing-scope", other);
        let say =
            |id: &Value| ask("POST", "/v1/feedback", JSON, &json!({"id": id, "class": "bad"}).to_string());
        check_problem(&say(&foreign), 403, "missing-scope", other);
        assert_ne!(say(&own).status, 403);
        for (method, url, media, body) in [
            // The default pipeline is `mail`.
            ("POST", "/v1/decide", MAIL, MESSAGE),
            ("POST", "/v1/decide?pipeline=mail", MAIL, MESSAGE),
            ("POST", "/v1/peek", MAIL, MESSAGE),
            ("POST", "/v1/rules?pipeline=mail", JSON, ""),
            ("GET", "/v1/rules", JSON, ""),
            ("GET", "/v1/top?kind=ip", JSON, ""),
            ("GET", "/v1/timeline?kind=ip&value=192.0.2.1", JSON, ""),
            ("POST", "/v1/rules/rollback", JSON, "{\"version\": \"x\"}"),
            (
                "POST",
                "/v1/bans",
                JSON,
                "{\"kind\": \"ip\", \"label\": \"x\", \"value\": \"192.0.2.1\", \"for\": \"1h\"}",
            ),
            ("POST", "/v1/readings", JSON, "{\"keys\": [{\"kind\": \"ip\", \"value\": \"192.0.2.1\"}]}"),
            ("GET", "/v1/bans?ip=192.0.2.1&pipeline=mail", JSON, ""),
            ("GET", "/v1/reviews?pipeline=mail", JSON, ""),
            ("GET", "/v1/counts", JSON, ""),
            ("GET", "/v1/counts?pipeline=mail", JSON, ""),
            ("GET", "/v1/decisions/statistics?pipeline=mail", JSON, ""),
            ("GET", "/v1/keys?pipeline=mail&value=192.0.2.1", JSON, ""),
        ] {
            check_problem(&ask(method, url, media, body), 403, "missing-scope", other);
        }
        let all = "this is about all of them";
        for url in [
            "/v1/bans?ip=192.0.2.1",
            "/v1/bans/search",
            "/v1/reviews",
            "/v1/limits",
            "/v1/decisions/statistics",
            "/v1/keys?value=192.0.2.1",
            "/v1/nodes",
            "/metrics",
            "/crowdsec/v1/decisions",
        ] {
            check_problem(&ask("GET", url, JSON, ""), 403, "missing-scope", all);
        }
        check_problem(&ask("DELETE", "/v1/bans?value=192.0.2.1", JSON, ""), 403, "missing-scope", all);
        let pipelines = ask("GET", "/v1/pipelines", JSON, "").json();
        let names: Vec<&Value> =
            pipelines["pipelines"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["web"]);
        for url in ["/v1/reviews", "/v1/counts", "/v1/decisions/statistics"] {
            assert_eq!(ask("GET", &format!("{url}?pipeline=web"), JSON, "").status, 200, "{url}");
        }
        // What is chosen by what events say is for who may read that.
        for choice in ["text=curl", "where=size(http.path)%20%3E%201"] {
            let url = format!("/v1/decisions/statistics?pipeline=web&{choice}");
            check_problem(&ask("GET", &url, JSON, ""), 403, "missing-scope", "`read-content`");
        }
    });
}

/// The entries of the audit log of a data directory, each once its chain holds.
fn audited(directory: &Directory, action: &str) -> Vec<AuditRecord> {
    let place = AuditPlace::directory(directory.audit_path());
    let verified = place.verify(None, &|| true).unwrap();
    assert!(verified.faults.is_empty(), "{verified:?}");
    let query = AuditQuery { action: Some(action.to_owned()), limit: 1000, ..AuditQuery::default() };
    place.read(&query, &|| true).unwrap().records
}

#[test]
fn content_is_for_its_scope_and_each_look_is_audited() {
    let reader = format!(
        "[[token]]\nname = \"ann\"\nsecret = \"{}\"\nscopes = [\"read\", \"read-content\"]\n",
        secret("ann")
    );
    with_tokens(&reader, |server, directory| {
        let decided =
            server.ask("POST", "/v1/decide?pipeline=mail", &[&bearer("decide"), MAIL], MESSAGE.as_bytes());
        let id = decided.json()["id"].as_str().unwrap().to_owned();
        let explain = |name: &str| server.ask("GET", &format!("/v1/decisions/{id}"), &[&bearer(name)], b"");
        let without = explain("read");
        assert_eq!(without.status, 200);
        for text in ["minutes", "ann@", "example.org", "example.net", "Bob", "bob"] {
            assert!(!without.body.contains(text), "{text}: {}", without.body);
        }
        let withheld = without.json();
        let names = withheld["withheld"].as_array().unwrap();
        assert!(names.iter().any(|name| name == "mail.subject"), "{names:?}");
        assert!(
            withheld["facts"]["mail.size"].is_number() || withheld["facts"].as_object().unwrap().len() > 5
        );
        assert!(
            withheld["keys"]
                .as_array()
                .unwrap()
                .iter()
                .all(|key| key["piece"].is_null() && !key["shingle"].is_null())
        );
        assert_eq!(audited(directory, "content"), [], "nothing was shown");
        let with = explain("ann");
        assert!(
            with.body.contains("The minutes of Monday") && with.json()["withheld"].is_null(),
            "{}",
            with.body
        );
        let looks = audited(directory, "content");
        assert_eq!(looks.len(), 1, "{looks:?}");
        let look = &looks[0].entry;
        assert_eq!((look.by.as_str(), look.action.as_str(), look.status), ("ann", "content.read", 200));
        assert_eq!((look.detail["id"].as_str(), look.detail["pipeline"].as_str()), (id.as_str(), "mail"));
        let top = |name: &str| server.ask("GET", "/v1/top?kind=from", &[&bearer(name)], b"").body;
        assert!(!top("read").contains("piece"), "{}", top("read"));
    });
}

#[test]
fn who_did_what_is_in_the_audit_log_before_it_is_answered() {
    with_tokens("", |server, directory| {
        let ask = |name: &str, method: &str, url: &str, body: &str| {
            server.ask(method, url, &[&bearer(name), JSON], body.as_bytes())
        };
        let rule = "[[rule]]\nname = \"NEW\"\nwhen = \"true\"\nscore = 1\n";
        let posted = server.ask("POST", "/v1/rules?pipeline=web", &[&bearer("rules")], rule.as_bytes());
        assert_eq!(posted.status, 200, "{}", posted.body);
        let entry = |action: &str| audited(directory, action).pop().unwrap().entry;
        let post = entry("rules.post");
        assert_eq!((post.by.as_str(), post.from.as_deref(), post.status), ("rules", Some("127.0.0.1"), 200));
        assert_eq!((post.detail["pipeline"].as_str(), post.detail["dry_run"].as_str()), ("web", "false"));
        assert!(post.detail["version of web"].contains(" -> "), "{post:?}");
        // A refused change is named, too.
        assert_eq!(
            server.ask("POST", "/v1/rules?pipeline=web", &[&bearer("rules")], b"nonsense").status,
            422
        );
        assert_eq!(entry("rules.post").status, 422);
        assert_eq!(ask("rules", "DELETE", "/v1/bans?value=192.0.2.9", "").status, 200);
        assert_eq!(entry("ban.lift").detail["value"], "192.0.2.9");
        assert_eq!(
            ask("teach", "POST", "/v1/feedback", "{\"id\": \"1krtp1p800000\", \"class\": \"spam\"}").status,
            404
        );
        assert_eq!(entry("feedback").detail["id"], "1krtp1p800000");
        assert_eq!(ask("administer", "POST", "/v1/snapshots", "").status, 201);
        assert_eq!(entry("snapshot").by, "administer");
        let page = ask("administer", "GET", "/v1/audit?action=rules&limit=1", "").json();
        assert_eq!(page["entries"].as_array().unwrap().len(), 1, "{page}");
        let next = page["next"].as_u64().unwrap();
        let page = ask("administer", "GET", &format!("/v1/audit?action=rules&after={next}"), "").json();
        assert_eq!(
            (page["entries"][0]["status"].as_u64(), page["next"].as_u64()),
            (Some(422), None),
            "{page}"
        );
        assert_eq!(audited(directory, "audit.read").len(), 2);
        check_problem(
            &ask("administer", "GET", "/v1/audit?since=yesterday", ""),
            400,
            "invalid-parameter",
            "since",
        );
    });
}

#[test]
fn what_cannot_be_audited_is_not_done() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    std::fs::write(directory.audit_path(), "in the way").unwrap();
    let server = start(&directory, &[]);
    let refused = server.ask("DELETE", "/v1/bans?value=192.0.2.9", &[], b"");
    check_problem(&refused, 503, "unavailable", "the audit log cannot be written");
    assert_eq!(server.post("/v1/decide?pipeline=web", &[LOG], PROBE).status, 200, "events are decided on");
    let ready = server.get("/readyz").json();
    let names: Vec<&Value> = ready["conditions"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert!(names.iter().any(|name| *name == "audit-failing"), "{ready}");
    server.stop();
}

/// Asks until the answer has this status.
pub(crate) fn until(status: u16, mut ask: impl FnMut() -> Answer) -> Answer {
    let begun = Instant::now();
    loop {
        let answer = ask();
        if answer.status == status {
            return answer;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{} is not {status}: {}",
            answer.status,
            answer.body
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn new(name: &str, scopes: &str) -> NewToken {
    NewToken {
        name: name.to_owned(),
        scopes: scopes.parse::<ScopeSet>().unwrap(),
        pipelines: Vec::new(),
        expires: None,
    }
}

#[test]
fn a_running_node_sees_tokens_come_and_go() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let server = start(&directory, &[]);
    assert_eq!(server.get("/v1/pipelines").status, 200, "without tokens this host may ask");
    let file = TokenFile::in_directory(directory.path());
    let ask =
        |token: &str| server.ask("GET", "/v1/pipelines", &[&format!("Authorization: Bearer {token}")], b"");
    let first = TokenSecret::generate().unwrap();
    file.change(|store| store.add(new("site", "read,administer"), first.digest(), NOW, "root")).unwrap();
    until(401, || server.get("/v1/pipelines"));
    assert_eq!(ask(first.text()).status, 200);
    let second = TokenSecret::generate().unwrap();
    file.change(|store| store.rotate("site", second.digest(), Span::hours(1), None, NOW, "root")).unwrap();
    until(200, || ask(second.text()));
    assert_eq!(ask(first.text()).status, 200, "two hold at a time");
    let listed = server.ask("GET", "/v1/tokens", &[&format!("X-Api-Key: {}", second.text())], b"").json();
    assert_eq!(
        (&listed["tokens"][0]["name"], &listed["tokens"][0]["secrets"]),
        (&json!("site"), &json!(2)),
        "{listed}"
    );
    assert!(listed["tokens"][0]["used"].is_string() && !listed.to_string().contains("toll_"), "{listed}");
    let third = TokenSecret::generate().unwrap();
    file.change(|store| store.rotate("site", third.digest(), Span::ZERO, None, NOW, "root")).unwrap();
    until(200, || ask(third.text()));
    assert_eq!((ask(first.text()).status, ask(second.text()).status), (401, 401));
    // The last one goes, and the node is no more open than before.
    file.change(|store| store.remove("site", NOW, "root")).unwrap();
    until(401, || ask(third.text()));
    assert_eq!(server.get("/v1/pipelines").status, 401);
    let actions: Vec<String> =
        audited(&directory, "token").iter().map(|one| one.entry.action.clone()).collect();
    assert_eq!(actions, ["token.add", "token.rotate", "token.rotate", "token.remove"]);
    server.stop();
    // What was done without a server is in the log of the next, and once.
    let fourth = TokenSecret::generate().unwrap();
    file.change(|store| store.add(new("other", "read"), fourth.digest(), NOW, "root")).unwrap();
    for _ in 0..2 {
        let server = start(&directory, &[]);
        let header = format!("Authorization: Bearer {}", fourth.text());
        assert_eq!(server.ask("GET", "/v1/pipelines", &[&header], b"").status, 200);
        server.stop();
    }
    assert_eq!(audited(&directory, "token").len(), 5);
    assert_eq!(file.uses()["other"], NOW);
}

#[test]
fn a_token_that_no_longer_holds_is_told_so_and_is_no_guess() {
    let expired = format!(
        "[[token]]\nname = \"old\"\nsecret = \"{}\"\nscopes = [\"read\"]\nexpires = \"2026-05-17T10:00:00Z\"\n",
        secret("old")
    );
    with_tokens(&expired, |server, _| {
        let answer = server.ask("GET", "/v1/pipelines", &[&bearer("old")], b"");
        check_problem(&answer, 401, "unauthorized", "the token `old` no longer holds");
        let page = server.ask("GET", "/metrics", &[&bearer("read")], b"").body;
        assert!(
            page.contains("tollhouse_refused_tokens_total{listener=\"http\",reason=\"expired\"} 1"),
            "{page}"
        );
        assert!(!page.contains("tollhouse_wrong_tokens_total{"), "{page}");
    });
}

#[test]
fn plain_tokens_have_the_scopes_that_are_set() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let settings =
        [("server.tokens", "[\"a-token-of-some-length\"]"), ("server.token_scopes", "[\"decide\"]")];
    let server = start(&directory, &settings);
    let plain = ["Authorization: Bearer a-token-of-some-length", LOG];
    assert_eq!(server.post("/v1/decide?pipeline=web", &plain, PROBE).status, 200);
    let refused = server.ask("GET", "/v1/pipelines", &plain, b"");
    check_problem(&refused, 403, "missing-scope", "the token `server.tokens.1` lacks the scope `read`");
    server.stop();
}

#[test]
fn a_damaged_file_of_tokens_opens_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let path: &Path = &directory.path().join(TokenFile::NAME);
    std::fs::write(path, "{}").unwrap();
    let server = start(&directory, &[]);
    assert_eq!(server.get("/v1/pipelines").status, 401);
    let ready = server.get("/readyz").json();
    assert!(ready.to_string().contains("tokens-unread"), "{ready}");
    server.stop();
}

#[test]
fn people_begin_sessions_that_have_the_scopes_of_their_role() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let people = UserFile::in_directory(directory.path());
    let password = "correct horse battery";
    let add = |name: &str, role: Role| {
        let stored = StoredPassword::of(password).unwrap();
        people.change(|store| store.add(name, role, stored, NOW)).unwrap();
    };
    add("ann", Role::Reviewer);
    let clock = SetClock::default();
    let server = start_by(&directory, &[], |_| clock.clock());
    assert_eq!(server.get("/v1/pipelines").status, 401, "where there are people, nobody else may ask");
    let begin = |name: &str, password: &str| {
        server.post("/v1/sessions", &[JSON], &json!({"name": name, "password": password}).to_string())
    };
    for (name, wrong) in [("ann", "correct horse batterz"), ("bob", password)] {
        check_problem(&begin(name, wrong), 401, "unauthorized", "the name or the password is wrong");
    }
    check_problem(&begin(&"x".repeat(5000), ""), 413, "too-large", "4096 bytes");
    let begun = begin("ann", password);
    assert_eq!(begun.status, 201, "{}", begun.body);
    let (session, id) = (begun.json(), begun.json()["id"].as_str().unwrap().to_owned());
    assert_eq!((&session["user"], &session["role"]), (&json!("ann"), &json!("reviewer")));
    let header = format!("Authorization: Bearer {}", session["token"].as_str().unwrap());
    let ask = |method: &str, url: &str| server.ask(method, url, &[&header], b"");
    assert_eq!(ask("GET", "/v1/pipelines").status, 200);
    check_problem(
        &ask("POST", "/v1/rules/reload"),
        403,
        "missing-scope",
        "the token `ann` lacks the scope `rules`",
    );
    check_problem(&ask("GET", "/v1/sessions"), 403, "missing-scope", "administer");
    // Silence ends it.
    clock.set(29 * 60);
    assert_eq!(ask("GET", "/v1/pipelines").status, 200);
    clock.set(58 * 60);
    assert_eq!(ask("GET", "/v1/pipelines").status, 200, "it was used meanwhile");
    clock.set(89 * 60);
    assert_eq!(ask("GET", "/v1/pipelines").status, 401);
    assert_eq!(ask("DELETE", &format!("/v1/sessions/{id}")).status, 401);
    // One's own can be ended, and a changed role ends all.
    let again = begin("ann", password).json();
    let other = format!("Authorization: Bearer {}", again["token"].as_str().unwrap());
    let ended =
        server.ask("DELETE", &format!("/v1/sessions/{}", again["id"].as_str().unwrap()), &[&other], b"");
    assert_eq!(ended.status, 204, "{}", ended.body);
    assert_eq!(server.ask("GET", "/v1/pipelines", &[&other], b"").status, 401);
    let third = begin("ann", password).json();
    let third = format!("Authorization: Bearer {}", third["token"].as_str().unwrap());
    assert_eq!(server.ask("GET", "/v1/pipelines", &[&third], b"").status, 200);
    people.change(|store| store.change("ann", Some(Role::Administrator), None)).unwrap();
    until(401, || server.ask("GET", "/v1/pipelines", &[&third], b""));
    let root = begin("ann", password).json();
    let root = format!("Authorization: Bearer {}", root["token"].as_str().unwrap());
    let listed = server.ask("GET", "/v1/sessions", &[&root], b"").json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1, "{listed}");
    assert!(!listed.to_string().contains("session_"), "{listed}");
    let entries = audited(&directory, "session");
    let actions: Vec<(&str, &str)> =
        entries.iter().map(|one| (one.entry.action.as_str(), one.entry.by.as_str())).collect();
    assert_eq!(actions.iter().filter(|one| **one == ("session.begin", "ann")).count(), 4, "{actions:?}");
    assert!(actions.contains(&("session.end", "ann")), "{actions:?}");
    server.stop();
}

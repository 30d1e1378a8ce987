//! The section of settings over HTTP: access, the audit log, snapshots, nodes, sources; and what waits, on the first page.

use access::{Role, StoredPassword, UserFile};
use serde_json::{Value, json};

use crate::console::{FORM, attribute, check_page, directory, form, secret, tags, unchunked, url_encoded};
use crate::harness::{Answer, JSON, LOG, NOW, PROBE, TestServer, configure, start, with_server};

const ADMINISTRATION: [&str; 4] = [
    "/console/settings/access",
    "/console/settings/audit",
    "/console/settings/audit/export",
    "/console/settings/snapshots",
];
/// A value that turns text around, and has markup and a long word in it.
const HOSTILE: &str = "<script>alert(1)</script>\u{202e}\u{200b}";

/// Logs in by a token, and returns the header with the session's cookie.
fn enter(server: &TestServer, token: &str) -> String {
    let answer = server.post("/console/login", &[FORM], &form(&[("token", token)]));
    let cookie = answer.header("set-cookie").unwrap_or_else(|| panic!("{}", answer.body));
    format!("Cookie: {}", cookie.split(';').next().unwrap())
}

/// Sends a form.
fn send(server: &TestServer, cookie: &[&str], page: &str, fields: &[(&str, &str)]) -> Answer {
    server.ask("POST", page, &[cookie, &[FORM]].concat(), form(fields).as_bytes())
}

/// The entries of the audit log that fit.
fn audited(server: &TestServer, filter: &str) -> Vec<Value> {
    let page = server.get(&format!("/v1/audit?limit=1000&{filter}")).json();
    page["entries"].as_array().unwrap().clone()
}

#[test]
fn sessions_end_and_only_who_administers_sees_them() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let token = |name: &str, scopes: &str| {
        format!("[[token]]\nname = \"{name}\"\nsecret = \"a-long-secret-of-{name}\"\nscopes = [{scopes}]\n")
    };
    configure(
        &directory,
        &[token("reader", "\"read\""), token("admin", "\"read\", \"administer\"")].concat(),
    );
    let password = "correct horse battery";
    let stored = StoredPassword::of(password).unwrap();
    UserFile::in_directory(directory.path())
        .change(|store| store.add("ann", Role::Viewer, stored, NOW))
        .unwrap();
    let server = start(&directory, &[]);
    let (reader, admin) =
        (enter(&server, "a-long-secret-of-reader"), enter(&server, "a-long-secret-of-admin"));
    let ask = |cookie: &str, page: &str| server.ask("GET", page, &[cookie], b"");

    // Who only reads is led to what may be read.
    let begin = ask(&reader, "/console/settings");
    assert_eq!((begin.status, begin.header("location")), (303, Some("/console/settings/nodes")));
    let nodes = ask(&reader, "/console/settings/nodes");
    let nodes = check_page(&nodes, 200, &["/console/settings/sources", "this one"]);
    check_page(&ask(&reader, "/console/settings/sources"), 200, &["The node reads nothing by itself."]);
    for page in ADMINISTRATION {
        assert!(!nodes.contains(&format!("href=\"{page}\"")), "no tab leads to {page}");
        check_page(&ask(&reader, page), 403, &["You may not do this."]);
    }
    let own = secret(nodes);
    for (page, field) in [("access/end", "id"), ("snapshots/make", "x"), ("nodes/forget", "number")] {
        let page = format!("/console/settings/{page}");
        let sent = send(&server, &[&reader], &page, &[("secret", &own), (field, "1")]);
        check_page(&sent, 403, &["You may not do this."]);
    }

    // Who administers sees all, and ends the session of somebody.
    let login = json!({"name": "ann", "password": password}).to_string();
    let begun = server.post("/v1/sessions", &[JSON], &login).json();
    let (id, bearer) = (begun["id"].as_str().unwrap(), begun["token"].as_str().unwrap());
    let of_ann =
        || server.ask("GET", "/v1/pipelines", &[&format!("Authorization: Bearer {bearer}")], b"").status;
    assert_eq!(of_ann(), 200);
    let page = ask(&admin, "/console/settings/access");
    let tabs =
        ["audit", "snapshots", "nodes", "sources"].map(|tab| format!("href=\"/console/settings/{tab}\""));
    let page = check_page(&page, 200, &["reader", "read, administer", "ann", "viewer", id]);
    assert!(tabs.iter().all(|tab| page.contains(tab)), "{page}");
    assert!(!page.contains("a-long-secret-of"), "no secret is shown");
    let own = secret(page);
    let end = |secret: &str, id: &str| {
        send(&server, &[&admin], "/console/settings/access/end", &[("secret", secret), ("id", id)])
    };
    check_page(&end("forged", id), 403, &["This form is not one of yours"]);
    for foreign in ["", "nobody", HOSTILE, &"x".repeat(5000)] {
        check_page(&end(&own, foreign), 404, &["there is no such session"]);
    }
    assert_eq!(of_ann(), 200, "nothing has ended yet");
    let ended = end(&own, id);
    assert_eq!(
        (ended.status, ended.header("location")),
        (303, Some("/console/settings/access?done=session_ended&n=0"))
    );
    assert_eq!(of_ann(), 401);
    check_page(&ask(&admin, "/console/settings/access?done=session_ended"), 200, &["The session has ended."]);
    let admin = "X-Api-Key: a-long-secret-of-admin";
    let log =
        server.ask("GET", "/v1/audit?action=session.end&by=admin&order=newest&limit=1", &[admin], b"").json();
    let entry = &log["entries"][0];
    assert_eq!((&entry["detail"]["session"], &entry["detail"]["user"]), (&json!(id), &json!("ann")), "{log}");
    let refused = server.ask("GET", "/v1/audit?action=snapshot&by=reader", &[admin], b"").json();
    assert_eq!(refused["entries"][0]["status"], 403, "what was refused is there, too: {refused}");
    let refused = server.ask("GET", "/v1/audit?action=audit.read&by=reader", &[admin], b"").json();
    assert_eq!(refused["entries"].as_array().map(Vec::len), Some(2), "the page and the export: {refused}");
    server.stop();
}

#[test]
fn the_audit_log_is_looked_through_taken_along_and_verified() {
    with_server(&[], |server| {
        for number in 0..60 {
            let url = format!("/v1/bans?{}", url_encoded(&[("value", &format!("192.0.2.{number}"))]));
            assert_eq!(server.ask("DELETE", &url, &[], b"").status, 200);
        }
        let long = "Wort".repeat(200);
        for value in [HOSTILE, &long] {
            let url = format!("/v1/bans?{}", url_encoded(&[("value", value)]));
            server.ask("DELETE", &url, &[], b"");
        }
        assert_eq!(server.post("/v1/rules?pipeline=web", &[], "nonsense").status, 422);
        let page = server.get("/console/settings/audit");
        let says = [
            "&lt;script&gt;alert(1)&lt;/script&gt;⟨202E⟩⟨200B⟩",
            "ban.lift",
            "rules.post",
            "refused",
            "422",
            "127.0.0.1",
        ];
        let page = check_page(&page, 200, &says);
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
        assert!(
            at("rules.post") < at("192.0.2.59") && at("192.0.2.59") < at("192.0.2.58"),
            "the newest is first"
        );
        assert!(page.len() < 256 << 10 && !page.contains("192.0.2.1<"), "a page is bounded");
        // Looking is an entry, each time.
        assert_eq!(audited(server, "action=audit.read&by=local").len(), 1);
        check_page(&server.get("/console/settings/audit"), 200, &["audit.read"]);
        assert_eq!(audited(server, "action=audit.read").len(), 3);

        // Page by page, back to the first.
        let mut url = "/console/settings/audit?action=ban".to_owned();
        let mut seen = String::new();
        let mut pages = 0;
        loop {
            let answer = server.get(&url);
            let page = check_page(&answer, 200, &[]);
            assert!(!page.contains("rules.post</bdi>"), "only what was looked for: {page}");
            seen.push_str(page);
            pages += 1;
            let older =
                tags(page).filter_map(|tag| attribute(tag, "href")).find(|href| href.contains("before="));
            let Some(older) = older else { break };
            url = older.replace("&amp;", "&");
        }
        assert_eq!(pages, 2);
        assert!((0..60).all(|number| seen.matches(&format!(">192.0.2.{number}<")).count() == 1));
        for (query, status, says) in [
            ("by=nobody", 200, "There is no such entry."),
            ("since=2026-05-17T09:00", 200, "ban.lift"),
            ("since=2027-05-17", 200, "There is no such entry."),
            ("since=yesterday", 400, "since"),
            ("before=x", 400, "cannot be read"),
            ("before=1", 200, "There is no such entry."),
            ("verify=yes", 200, "The chain holds"),
        ] {
            check_page(&server.get(&format!("/console/settings/audit?{query}")), status, &[says]);
        }

        // As a file, the newest first, with the same choice.
        let file = server.get("/console/settings/audit/export?action=ban.lift");
        assert_eq!(file.header("content-type"), Some("application/x-ndjson"), "{}", file.head);
        assert_eq!(file.header("content-disposition"), Some("attachment; filename=\"audit.ndjson\""));
        let lines: Vec<Value> =
            unchunked(&file).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let numbers: Vec<u64> = lines.iter().map(|line| line["number"].as_u64().unwrap()).collect();
        assert_eq!(lines.len(), 62);
        assert!(numbers.is_sorted_by(|a, b| a > b) && lines.iter().all(|line| line["action"] == "ban.lift"));
        assert_eq!(lines[1]["detail"]["value"], HOSTILE, "a file has values as they are");
        let exports = audited(server, "action=audit.read");
        assert!(exports.iter().any(|entry| entry["detail"]["export"] == "audit.ndjson"), "{exports:?}");
        let first = unchunked(&server.get("/v1/audit/export?limit=2"));
        assert!(first.lines().count() == 2 && first.starts_with("{\"number\":1,"), "{first}");
        for wrong in ["limit=0", "limit=100001", "since=now", "order=up", "after=3"] {
            assert_eq!(
                server.get(&format!("/v1/audit/export?{wrong}")).problem(),
                "invalid-parameter",
                "{wrong}"
            );
        }
    });
}

#[test]
fn a_changed_line_of_the_audit_log_is_seen_on_its_page() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let server = start(&directory, &[]);
    for number in 0..3 {
        let url = format!("/v1/bans?value=192.0.2.{number}");
        assert_eq!(server.ask("DELETE", &url, &[], b"").status, 200);
    }
    let noted = server.get("/v1/audit/verification").json();
    assert_eq!((&noted["sound"], &noted["faults"]), (&json!(true), &json!([])));
    let head = format!("{}:{}", noted["head"]["number"], noted["head"]["chain"].as_str().unwrap());
    assert_eq!(server.get(&format!("/v1/audit/verification?expect={head}")).json()["sound"], true);
    assert_eq!(server.get("/v1/audit/verification?expect=7").problem(), "invalid-parameter");
    let files = std::fs::read_dir(directory.audit_path()).unwrap().map(|file| file.unwrap().path());
    let mut files = files.filter(|file| file.extension().is_some_and(|ending| ending == "ndjson"));
    let file = files.next().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("192.0.2.1\"", "192.0.2.9\"")).unwrap();
    let page = server.get("/console/settings/audit?verify=yes");
    let page = check_page(&page, 200, &["The chain does not hold at one place:", "it was changed"]);
    assert!(!page.contains("The chain holds"), "{page}");
    server.stop();
}

#[test]
fn a_log_that_cannot_be_written_is_not_shown() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    std::fs::write(directory.audit_path(), "in the way").unwrap();
    let server = start(&directory, &[]);
    assert_eq!(server.get("/console/settings/audit").status, 503, "nobody looks without leaving a trace");
    check_page(&server.get("/console/settings/nodes"), 200, &["this one"]);
    server.stop();
}

#[test]
fn a_snapshot_is_made_and_listed() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let server = start(&directory, &[]);
    let page = server.get("/console/settings/snapshots");
    let own = secret(check_page(&page, 200, &["There is none."]));
    let make = |secret: &str| send(&server, &[], "/console/settings/snapshots/make", &[("secret", secret)]);
    assert_eq!(make("").status, 403);
    assert_eq!(server.get("/v1/snapshots").json(), json!({"snapshots": []}));
    let made = make(&own);
    assert_eq!(
        made.header("location"),
        Some("/console/settings/snapshots?done=snapshot_made&n=0"),
        "{}",
        made.body
    );
    for name in [HOSTILE.replace('/', "|"), "20260517T100001Z.partial".to_owned()] {
        std::fs::create_dir(directory.snapshots_path().join(name)).unwrap();
    }
    let page = server.get("/console/settings/snapshots?done=snapshot_made");
    let says =
        ["The snapshot is made.", "20260517T100000Z", "2026-05-17 10:00:00", "&lt;script&gt;", "⟨202E⟩"];
    let page = check_page(&page, 200, &says);
    assert!(!page.contains(".partial"), "{page}");
    let listed = server.get("/v1/snapshots").json();
    let listed = listed["snapshots"].as_array().unwrap();
    let own = listed.iter().find(|one| one["name"] == "20260517T100000Z").unwrap();
    assert_eq!(own["time"], "2026-05-17T10:00:00Z");
    assert!(own["bytes"].as_u64() > Some(0) && listed.len() == 2, "{listed:?}");
    let log = audited(&server, "action=snapshot");
    let statuses: Vec<Option<u64>> = log.iter().map(|entry| entry["status"].as_u64()).collect();
    assert_eq!(statuses, [Some(403), Some(303)], "a form is named as its route is, also a refused one");
    assert_eq!(log[1]["detail"]["name"], "20260517T100000Z");
    server.stop();
}

#[test]
fn only_a_node_that_is_away_is_forgotten() {
    with_server(&[], |server| {
        let page = server.get("/console/settings/nodes");
        check_page(&page, 200, &["this one", "it shares nothing with others", env!("CARGO_PKG_VERSION")]);
        let own = secret(&server.get("/console/settings/snapshots").body);
        let forget = |number: &str| {
            send(server, &[], "/console/settings/nodes/forget", &[("secret", &own), ("number", number)])
        };
        for (number, status) in [("7", 404), ("", 400), ("-1", 400), ("99999999", 400), (HOSTILE, 400)] {
            check_page(&forget(number), status, &["<h1>"]);
        }
        let log = audited(server, "action=node.forget");
        assert_eq!((log.len(), &log[0]["detail"]["node"]), (5, &json!("7")), "{log:?}");
    });
}

#[test]
fn sources_and_what_waits_are_shown() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let file = parent.path().join("access.log");
    std::fs::write(&file, "").unwrap();
    let source =
        format!("\n[[source]]\nname = \"nginx\"\nfiles = ['{}']\npipeline = \"web\"\n", file.display());
    configure(&directory, &source);
    let server = start(&directory, &[]);
    check_page(
        &server.get("/console/settings/sources"),
        200,
        &["nginx", "files → web", "The node sends to no broker."],
    );
    let page = server.get("/console/");
    let says = [
        "What waits",
        "Requests that wait for a place",
        "href=\"/console/settings/sources#sources\"",
        "href=\"#storage\"",
        "No decision was asked for in the last 5 min.",
    ];
    let page = check_page(&page, 200, &says);
    assert!(!page.contains("take requests."), "there are no other nodes: {page}");
    assert_eq!(server.post("/v1/decide?pipeline=web", &[LOG], PROBE).status, 200);
    check_page(&server.get("/console/"), 200, &["half of those of the last 5 min; 99 % within"]);
    assert!(server.get("/metrics").body.contains("tollhouse_http_waiting{gate=\"searches\"} 0"));
    server.stop();
}

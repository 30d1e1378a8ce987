//! Pages of keys and decisions: what is allowed, noted and reset there, what is similar, and the way to a rule.

use serde_json::json;

use crate::console::{FORM, check_page, decide, directory, form, secret};
use crate::harness::{JSON, LOG, MAIL, TestServer, configure, start};

const KEY: &str = "/console/key?pipeline=web&kind=ip&value=192.0.2.7";
const HOSTILE: &str = "<script>alert(1)</script>\u{202e}\"'";

/// Sends a form of a page; the page that it leads to.
fn send(server: &TestServer, page: &str, action: &str, fields: &[(&str, &str)]) -> String {
    let own = secret(&server.get(page).body);
    let mut fields = fields.to_vec();
    fields.extend([("secret", own.as_str()), ("next", page)]);
    let answer = server.post(action, &[FORM], &form(&fields));
    assert_eq!(answer.status, 303, "{}", answer.body);
    let next = answer.header("location").unwrap().to_owned();
    assert!(next.starts_with(page), "{next}");
    server.get(&next).body
}

fn probe(server: &TestServer) -> String {
    let line = "192.0.2.7 - - [17/May/2026:09:59:30 +0000] \"GET /.env HTTP/1.1\" 404 10 \"-\" \"curl/8.0\"";
    decide(server, "web", LOG, line)
}

#[test]
fn a_key_is_allowed_noted_and_reset_on_its_page() {
    let parent = tempfile::tempdir().unwrap();
    let server = start(&directory(&parent.path().join("data")), &[]);
    let id = probe(&server);
    let ban = json!({"pipeline": "web", "kind": "ip", "label": "scanner", "value": "192.0.2.7", "for": "7d"});
    assert_eq!(server.post("/v1/bans", &[JSON], &ban.to_string()).status, 200);
    check_page(&server.get(KEY), 200, &["/console/bans/lift", "Reset", "Add the note"]);
    // Notes, with what nobody may run.
    let page = send(&server, KEY, "/console/notes/add", &[("value", "192.0.2.7"), ("text", HOSTILE)]);
    assert!(page.contains("The note is kept.") && page.contains("&lt;script&gt;alert(1)"), "{page}");
    check_page(&server.get(KEY), 200, &["⟨202E⟩"]);
    let time =
        server.get("/v1/notes?value=192.0.2.7").json()["notes"][0]["time"].as_str().unwrap().to_owned();
    check_page(&server.get("/console/keys?q=192.0.2.7"), 200, &["&lt;script&gt;"]);
    let page = send(&server, KEY, "/console/notes/remove", &[("value", "192.0.2.7"), ("time", &time)]);
    assert!(page.contains("The note is removed.") && !page.contains("&lt;script&gt;alert(1)"), "{page}");
    // The allow list, from the decision's page.
    let decision = format!("/console/decisions/{id}");
    let page = send(
        &server,
        &decision,
        "/console/allow/add",
        &[("value", "192.0.2.7"), ("why", HOSTILE), ("lasts", "7d")],
    );
    assert!(page.contains("Nothing bans it any more.") && page.contains("a posted entry"), "{page}");
    let page = check_page(&server.get(KEY), 200, &["a posted entry"]).to_owned();
    assert!(!page.contains("/console/bans/lift"), "its ban has ended: {page}");
    check_page(&server.get("/console/bans/allowed"), 200, &["192.0.2.7", "&lt;script&gt;", "⟨202E⟩"]);
    check_page(&server.get("/console/bans/allowed?q=nothing"), 200, &["No entry has this."]);
    let page = send(&server, KEY, "/console/allow/remove", &[("value", "192.0.2.7")]);
    assert!(page.contains("It is off the allow list") && !page.contains("a posted entry"), "{page}");
    // A reset asks whether one is sure.
    let key = [("pipeline", "web"), ("kind", "ip"), ("value", "192.0.2.7")];
    let page = send(&server, KEY, "/console/key/reset", &key);
    assert!(page.contains("Nothing was reset"), "{page}");
    let page = send(&server, KEY, "/console/key/reset", &[&key[..], &[("sure", "yes")]].concat());
    assert!(page.contains("is being erased"), "{page}");
    while server.get("/v1/erase").json()["state"] == "running" {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(server.get("/v1/erase").json()["state"], "done");
    check_page(&server.get(KEY), 200, &["never"]);
    server.stop();
}

/// Each form is taken of those alone who may.
#[test]
fn others_neither_allow_nor_note_nor_reset() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let token = |name: &str, scopes: &str| {
        format!("[[token]]\nname = \"{name}\"\nsecret = \"a-long-secret-of-{name}\"\nscopes = [{scopes}]\n")
    };
    let tokens = [
        token("reader", "\"read\""),
        token("teacher", "\"read\", \"teach\""),
        token("editor", "\"read\", \"enforce\", \"rules\""),
        token("admin", "\"read\", \"administer\""),
    ];
    configure(&directory, &tokens.concat());
    let server = start(&directory, &[]);
    for (name, notes, allows, resets) in [
        ("reader", false, false, false),
        ("teacher", true, false, false),
        ("editor", false, true, false),
        ("admin", false, false, true),
    ] {
        let token = format!("a-long-secret-of-{name}");
        let answer = server.post("/console/login", &[FORM], &form(&[("token", &token)]));
        let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap();
        let cookie = format!("Cookie: {cookie}");
        let page = server.ask("GET", KEY, &[&cookie], b"").body;
        let own = secret(&page);
        let may = |action: &str, fields: &[(&str, &str)]| {
            let mut fields = fields.to_vec();
            fields.push(("secret", &own));
            let answer = server.ask("POST", action, &[&cookie, FORM], form(&fields).as_bytes());
            assert!([303, 403].contains(&answer.status), "{name} {action}: {}", answer.body);
            assert_eq!(
                page.contains(&format!("action=\"{action}\"")),
                answer.status == 303,
                "{name} {action}"
            );
            answer.status == 303
        };
        assert_eq!(may("/console/notes/add", &[("value", "192.0.2.7"), ("text", "a")]), notes, "{name}");
        let entry = [("value", "198.51.100.1"), ("why", "a"), ("lasts", "")];
        assert_eq!(may("/console/allow/add", &entry), allows, "{name}");
        let key = [("pipeline", "web"), ("kind", "ip"), ("value", "192.0.2.7"), ("sure", "no")];
        assert_eq!(may("/console/key/reset", &key), resets, "{name}");
        let listed = server.ask("GET", "/console/bans/allowed", &[&cookie], b"").status;
        assert_eq!(listed, if allows { 200 } else { 403 }, "{name}");
    }
    server.stop();
}

#[test]
fn a_decision_leads_to_similar_ones_to_its_keys_over_time_and_to_a_rule() {
    let parent = tempfile::tempdir().unwrap();
    let server = start(&directory(&parent.path().join("data")), &[]);
    let text = "Dear friend, we have a wonderful offer for you today and would like you to look at our new shop where \
                everything is cheaper than you have ever seen, so come and see before all of it is gone again";
    let mail = |from: &str, words: &str| {
        let message =
            format!("From: {from}\r\nTo: bob@example.net\r\nSubject: {words}\r\n\r\n{text} {words}\r\n");
        decide(&server, "mail", MAIL, &message)
    };
    let first = mail("ann@example.org", "Monday");
    let alike = mail("eve@example.com", "Tuesday");
    let other = decide(
        &server,
        "mail",
        MAIL,
        "From: c@example.org\r\nSubject: No\r\n\r\nSomething else altogether, in few words.\r\n",
    );
    let found = server.get(&format!("/v1/decisions/{first}/similar?facts=mail.subject")).json();
    let ids: Vec<&str> = found["decisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["decision"]["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, [alike.as_str()], "{found}");
    assert!(
        found["decisions"][0]["shared"].as_u64() >= Some(1)
            && found["fingerprints"].as_u64() >= found["decisions"][0]["shared"].as_u64()
    );
    assert_eq!(found["decisions"][0]["decision"]["facts"]["mail.subject"], "Tuesday");
    assert_eq!(server.get(&format!("/v1/decisions/{other}/similar")).json()["decisions"], json!([]));
    for limit in ["0", "101", "x"] {
        assert_eq!(server.get(&format!("/v1/decisions/{first}/similar?limit={limit}")).status, 400);
    }
    let page = format!("/console/decisions/{first}");
    check_page(
        &server.get(&page),
        200,
        &["/similar", "Over time", "class=\"marked\"", "Write a rule from this", "mail.from"],
    );
    check_page(&server.get(&format!("{page}/similar")), 200, &[&alike, "fingerprints in common", "Tuesday"]);
    check_page(&server.get(&format!("/console/decisions/{other}/similar")), 200, &[]);
    // The way to a rule.
    let id = probe(&server);
    let page = check_page(&server.get(&format!("/console/decisions/{id}")), 200, &["http.path == '/.env'"])
        .to_owned();
    assert!(page.contains("client.ip == ip("), "{page}");
    let editor = server.get("/console/rules/edit?pipeline=web&when=http.path+%3D%3D+%27%2F.env%27");
    check_page(&editor, 200, &["when = &quot;http.path == '/.env'&quot;"]);
    server.stop();
}

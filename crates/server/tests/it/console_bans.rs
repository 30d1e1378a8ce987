//! Lists of bans, imported over HTTP and from the console.

use serde_json::json;

use crate::console::{FORM, UPLOAD, check_page, form, hostile, secret, upload, with_console};
use crate::harness::{TestServer, check_problem};

const TEXT: &str = "Content-Type: text/plain";

fn import(server: &TestServer, query: &str, list: &str) -> crate::harness::Answer {
    server.post(&format!("/v1/bans/import?pipeline=web&label=scanner&{query}"), &[TEXT], list)
}

fn is_banned(server: &TestServer, value: &str) -> bool {
    let found = server.get(&format!("/v1/bans/search?text={value}")).json();
    found["bans"].as_array().unwrap().iter().any(|ban| ban["value"] == value)
}

#[test]
fn a_list_is_banned_and_what_is_no_entry_is_named() {
    with_console(&[], |server| {
        let list = "192.0.2.9\nnobody\n203.0.113.0/24 ; remark\n127.0.0.1\n0.0.0.0/0\n";
        let answer = import(server, "for=7d&dry_run=true", list);
        assert_eq!(answer.status, 200, "{}", answer.body);
        let looked = answer.json();
        assert_eq!(
            (&looked["entries"], &looked["banned"], &looked["refused"]),
            (&json!(3), &json!(2), &json!(1))
        );
        assert_eq!((&looked["bad_lines"], &looked["bad"][0]["line"]), (&json!(2), &json!(2)));
        assert_eq!(looked["refusals"][0]["value"], "127.0.0.1");
        assert!(looked["refusals"][0]["detail"].as_str().unwrap().contains("this machine itself"));
        assert!(!is_banned(server, "192.0.2.9"), "a look bans nobody");
        let done = import(server, "for=7d", list).json();
        assert_eq!((&done["banned"], &done["passed"]), (&json!(2), &json!(3)));
        assert!(done.get("stopped").is_none() && done.get("unshared").is_none());
        assert!(is_banned(server, "192.0.2.9") && is_banned(server, "203.0.113.0/24"));
        // An entry's own time stands, and what was passed by is left.
        let ipset = "add bad 192.0.2.10 timeout 60\nadd bad 192.0.2.11\n";
        let done = import(server, "for=1h&from=1", ipset).json();
        assert_eq!((&done["entries"], &done["banned"], &done["passed"]), (&json!(2), &json!(1), &json!(2)));
        assert!(!is_banned(server, "192.0.2.10") && is_banned(server, "192.0.2.11"));
        import(server, "for=1h", ipset);
        let found = server.get("/v1/bans?ip=192.0.2.10").json();
        assert_eq!(found[0]["until"], "2026-05-17T10:01:00Z", "{found}");
        let audit = server.get("/v1/audit?action=ban.import").json();
        assert_eq!(audit["entries"][0]["detail"]["label"], "scanner", "{audit}");
        let check = |query: &str, list: &str, status: u16, word: &str, detail: &str| {
            check_problem(&import(server, query, list), status, word, detail);
        };
        check("for=soon", "", 400, "invalid-parameter", "for: ");
        check("for=1h&format=x", "", 400, "invalid-parameter", "format: expected one of: plain");
        check("for=1h&kind=none", "", 400, "unknown-name", "none");
        check("for=1h", "[{]", 400, "invalid-body", "cannot be read");
        check("for=1h", &"10.0.0.0-10.0.0.1\n".repeat(100_001), 413, "too-large", "more than 100000");
        assert_eq!(import(server, "for=1h", "").json()["entries"], 0);
    });
}

#[test]
fn thousands_of_entries_are_banned() {
    with_console(&[], |server| {
        let list: String =
            (0..2500).map(|number| format!("198.18.{}.{}\n", number / 250, number % 250)).collect();
        let done = import(server, "for=1d", &list).json();
        assert_eq!((&done["banned"], &done["passed"]), (&json!(2500), &json!(2500)), "{done}");
        assert_eq!(server.get("/v1/bans/search?limit=1").json()["all"], 2500);
        assert!(is_banned(server, "198.18.9.249"));
    });
}

#[test]
fn a_list_is_looked_at_and_imported_from_the_console() {
    with_console(&[], |server| {
        check_page(&server.get("/console/bans"), 200, &["/console/bans/import"]);
        let own =
            secret(check_page(&server.get("/console/bans/import"), 200, &["enctype", "scanner", "ipset"]));
        let target = json!(["web", "ip", "scanner"]).to_string();
        let send = |fields: &[(&str, &[u8])]| {
            let base: [(&str, &[u8]); 3] =
                [("secret", own.as_bytes()), ("target", target.as_bytes()), ("lasts", b"7d")];
            let mut all = base.to_vec();
            all.extend(fields);
            server.ask("POST", "/console/bans/import", &[UPLOAD], &upload(&all))
        };
        let list = "192.0.2.9\n<b>\u{202e}nobody</b>\n127.0.0.1\n".as_bytes();
        let says = [
            "Nothing has changed",
            "1 of 2 entries",
            "Refused: 1",
            "&lt;b&gt;⟨202E⟩nobody",
            "Line 2:",
            "192.0.2.9",
        ];
        check_page(&send(&[("text", list), ("do", b"preview")]), 200, &says);
        assert!(!is_banned(server, "192.0.2.9"));
        check_page(
            &send(&[("file", list), ("do", b"import")]),
            200,
            &["The list is imported", "1 of 2 entries"],
        );
        assert!(is_banned(server, "192.0.2.9"));
        // Larger than other forms may be.
        let long = "192.0.2.77\n".repeat(50_000);
        check_page(&send(&[("file", long.as_bytes()), ("do", b"preview")]), 200, &["50\u{202f}000 entries"]);
        check_page(&send(&[("text", b" \n"), ("do", b"import")]), 200, &["There is no list"]);
        check_page(&send(&[("text", b"[{]"), ("do", b"import")]), 200, &["The list was not taken"]);
        check_page(&send(&[("text", list), ("do", b"erase")]), 400, &["<main"]);
        for hostile in hostile() {
            let answer = send(&[("text", hostile.as_bytes()), ("do", b"preview")]);
            check_page(&answer, 200, &["<main"]);
            let answer = send(&[("text", list), ("do", b"preview"), ("format", hostile.as_bytes())]);
            check_page(&answer, 200, &["<main"]);
        }
        let foreign = upload(&[("secret", b"x"), ("target", target.as_bytes()), ("do", b"import")]);
        assert_eq!(server.ask("POST", "/console/bans/import", &[UPLOAD], &foreign).status, 403);
        let plain = form(&[("secret", &own), ("do", "import")]);
        assert_eq!(server.post("/console/bans/import", &[FORM], &plain).status, 415);
    });
}

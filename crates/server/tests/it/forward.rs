//! Questions of proxies before they hand a request on, in each proxy's form.

use std::io::Write;
use std::path::Path;

use engine::Directory;
use plan::{Config, Overrides, Plan};
use serde_json::{Value, json};

use crate::challenges::{GATE, gate_directory, handed};
use crate::harness::{Answer, TestServer, answer, check_problem, configure, directory, start};
use crate::limits::unfinished;
use crate::proxies::shown;
use crate::quotas::with_limits;

pub(crate) const SITE: &str = r#"
[[limit]]
name = "per_ip"
key = ["client.ip:network"]
count = 2
per = "1h"

[[limit]]
name = "quiet"
key = ["http.path", "client.ip"]
count = 1
per = "1h"
enforcement = "shadow_ban"

[[forward_auth]]
name = "site"
trusted_proxies = ["127.0.0.0/8", "10.0.0.0/8"]
limits = ["per_ip"]

[[forward_auth]]
name = "quiet"
limits = ["quiet"]

[[forward_auth]]
name = "judged"
pipeline = "web"
refuse = 403

[[forward_auth]]
name = "elsewhere"
trusted_proxies = ["192.0.2.0/24"]
limits = ["per_ip"]
"#;

fn ask(server: &TestServer, url: &str, headers: &[&str]) -> Answer {
    server.ask("GET", url, headers, b"")
}

/// The answer's field says that so much is left of the limit; when there is more of it hangs on the moment.
#[track_caller]
pub(crate) fn assert_left(answer: &Answer, limit: &str, left: u64) {
    let field = answer.header("ratelimit").unwrap_or_default();
    assert!(field.starts_with(&format!("\"{limit}\";r={left};t=")), "{}", answer.head);
}

/// The answer's field says to come again within the hour of the limits and the sub-window that was begun.
#[track_caller]
pub(crate) fn assert_later(answer: &Answer) {
    let later = answer.header("retry-after").and_then(|text| text.parse::<u64>().ok());
    assert!(later.is_some_and(|seconds| (1..=3660).contains(&seconds)), "{}", answer.head);
}

/// Checks the answer that is given where `per_ip` is used up.
#[track_caller]
pub(crate) fn assert_refused(answer: &Answer) {
    let kind = answer.header("content-type");
    assert_eq!((answer.status, kind), (429, Some("application/problem+json")), "{}", answer.head);
    assert_left(answer, "per_ip", 0);
    assert_later(answer);
}

#[test]
fn clients_are_told_apart_by_what_trusted_proxies_saw() {
    with_limits(SITE, |server| {
        let from = |list: &str| ask(server, "/v1/auth/site", &[&format!("X-Forwarded-For: {list}")]);
        let first = from("2001:db8::1, 10.0.0.1");
        assert_eq!((first.status, first.body.as_str()), (200, ""));
        assert_left(&first, "per_ip", 1);
        // The same network, whatever the client itself has put before; and a browser's own token is not ours.
        let mine = [
            "X-Forwarded-For: 198.51.100.1, 2001:db8::2",
            "Authorization: Bearer of-the-client",
            "Host: example.org",
        ];
        assert_eq!(ask(server, "/v1/auth/site", &mine).status, 200);
        let refused = from("203.0.113.9, 2001:db8::3");
        assert_refused(&refused);
        assert!(!refused.body.contains("per_ip"), "a client is told no more than that: {}", refused.body);
        assert_eq!(from("2001:db8:0:1::1").status, 200);

        check_problem(
            &ask(server, "/v1/auth/nowhere", &[]),
            404,
            "not-found",
            "no [[forward_auth]] `nowhere`",
        );
        check_problem(&ask(server, "/v1/auth/elsewhere", &[]), 403, "forbidden", "this address is no proxy");
    });
}

#[test]
fn a_silent_refusal_is_for_the_application_alone() {
    with_limits(SITE, |server| {
        // As Envoy asks, and as Traefik does.
        let envoy = || {
            ask(server, "/v1/auth/quiet/sign/up?a=b", &["X-Forwarded-For: 192.0.2.1", "Host: example.org"])
        };
        let first = envoy();
        let traefik = ask(
            server,
            "/v1/auth/quiet",
            &["X-Forwarded-For: 192.0.2.1", "X-Forwarded-Uri: /sign/up?c=d", "X-Forwarded-Method: POST"],
        );
        assert_eq!((first.status, first.header("tollhouse-silent")), (200, None));
        assert_eq!((traefik.status, traefik.header("tollhouse-silent")), (200, Some("1")));
        assert_left(&first, "quiet", 0);
        assert_left(&traefik, "quiet", 0);
        assert_eq!(
            ask(server, "/v1/auth/quiet/", &["X-Forwarded-For: 192.0.2.1"]).header("tollhouse-silent"),
            None
        );
    });
}

#[test]
fn a_pipeline_can_decide() {
    with_limits(SITE, |server| {
        let about = |path: &str| {
            ask(
                server,
                "/v1/auth/judged",
                &["X-Forwarded-For: 192.0.2.7", "User-Agent: curl/8.0", &format!("X-Original-URI: {path}")],
            )
        };
        assert_eq!(about("/").status, 200);
        let answers: Vec<u16> = (0..40).map(|number| about(&format!("/.env?{number}")).status).collect();
        let decided = server.get("/metrics").body;
        assert!(decided.contains("tollhouse_judge_verdicts_total{pipeline=\"web\""), "{decided}");
        assert!(answers.iter().all(|status| [200, 401, 403].contains(status)), "{answers:?}");
    });
}

const UNDECIDED: &str = r#"
[[limit]]
name = "strict"
key = ["client.ip"]
count = 1000
per = "1h"
on_error = "closed"

[[forward_auth]]
name = "closed"
limits = ["strict"]
refuse = 403
"#;

/// A node with one place, and segments of the journal that soon are full.
fn with_little(test: impl FnOnce(&TestServer, &Directory)) {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    configure(&directory, &format!("{SITE}{UNDECIDED}"));
    let settings = [("server.requests_max", "1"), ("journal.segment", "1KiB"), ("ledger.durability", "sync")];
    let running = start(&directory, &settings);
    test(&running, &directory);
}

#[test]
fn what_finds_no_place_is_answered_by_on_error() {
    with_little(|server, _| {
        let asked = |name: &str| ask(server, &format!("/v1/auth/{name}"), &["X-Forwarded-For: 192.0.2.7"]);
        let at_work = unfinished(server);
        assert_eq!((asked("judged").status, asked("site").status), (200, 200));
        let closed = asked("closed");
        assert_eq!((closed.status, closed.header("tollhouse-status")), (403, Some("429")), "{}", closed.body);
        assert_eq!(asked("nowhere").status, 503);
        assert!(server.get("/metrics").body.contains("tollhouse_forward_undecided_total 3"));
        drop(at_work);
    });
}

#[test]
fn what_cannot_be_logged_is_answered_by_on_error() {
    with_little(|server, directory| {
        std::fs::remove_dir_all(directory.journal_path()).unwrap();
        let asked =
            || ask(server, "/v1/auth/judged", &["X-Forwarded-For: 192.0.2.7", "X-Forwarded-Uri: /a"]).status;
        let failing = || server.get("/metrics").body.contains("tollhouse_journal_failures_total 1");
        let statuses: Vec<u16> = (0..200).map(|_| asked()).take_while(|_| !failing()).collect();
        assert!(statuses.len() < 200, "the journal never failed");
        assert_eq!((statuses.iter().all(|status| *status == 200), asked()), (true, 200));
        assert_ne!(server.get("/readyz").status, 200);
    });
}

/// Asks like nginx, about a target and an agent that a client sent as these bytes.
fn ask_raw(server: &TestServer, url: &str, target: &[u8], agent: &[u8]) -> u16 {
    let mut stream = server.connect();
    let head =
        format!("GET {url} HTTP/1.1\r\nHost: x.example\r\nConnection: close\r\nX-Forwarded-For: 192.0.2.7");
    let head = [head.as_bytes(), b"\r\nX-Forwarded-Uri: ", target, b"\r\nUser-Agent: ", agent, b"\r\n\r\n"];
    stream.write_all(&head.concat()).unwrap();
    answer(&mut stream).status
}

#[test]
fn no_spelling_escapes_a_limit_and_no_byte_a_rule() {
    let by_path = "[[limit]]\nname = \"logins\"\nkey = [\"http.path_normal\"]\ncount = 3\nper = \"1h\"\n\
                   [[forward_auth]]\nname = \"counted\"\nlimits = [\"logins\"]\n";
    with_limits(&format!("{SITE}{by_path}"), |server| {
        let counted = |target: &[u8]| ask_raw(server, "/v1/auth/counted", target, b"x");
        let spellings: [&[u8]; 9] = [
            b"/login?\xff",
            b"//login",
            b"/./login?<1>",
            b"/x/../login",
            b"/%6cogin",
            b"/login;x=1",
            b"\\login",
            b"/login#1",
            b"https://x.example/login",
        ];
        let statuses = spellings.map(counted);
        // A path that begins with no slash is none.
        assert_eq!(statuses, [200, 200, 200, 429, 429, 429, 403, 429, 429]);
        let behind = ask(server, "/v1/auth/counted/x%2F..%2Flogin?a", &["X-Forwarded-For: 192.0.2.7"]);
        assert_eq!(behind.status, 429);
        assert_eq!(counted(b"/login2"), 200);

        let judged = |target: &[u8], agent: &[u8]| ask_raw(server, "/v1/auth/judged", target, agent);
        let browser = b"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0".as_slice();
        assert_eq!(judged(b"/?q=1\xff", browser), 200);
        for (target, agent) in [
            (b"/?q=<script>".as_slice(), browser),
            (b"/?q=<script>\xff", browser),
            (b"/\xff?q=%3Cscript%3E", browser),
        ] {
            assert_ne!(judged(target, agent), 200, "{} {}", target.escape_ascii(), agent.escape_ascii());
        }
        assert_eq!(judged(b"\xff", browser), 403);
    });
}

/// Fields that the gate declares to see of requests, and where it takes it from.
const SEEN: &str = r#"
[[field]]
name = "version"
type = "string"

[[field]]
name = "theme"
type = "string"

[[field]]
name = "session"
type = "string"

[[field]]
name = "api_key"
type = "string"

[[field]]
name = "form"
type = "string"
content = "text"
journal = false

[[field]]
name = "form_hash"
type = "string"

[[table]]
name = "countries"
type = "ip"
file = "countries.tsv"

[[table]]
name = "systems"
type = "ip"
file = "systems.tsv"

[[field]]
name = "country"
type = "string"
value = "lookup('countries', client.ip)"

[[field]]
name = "as_number"
type = "integer"
value = "int(lookup('systems', client.ip))"
"#;

const SEES: &str = r#"
[[forward_auth]]
name = "seen"
pipeline = "gate"
body_max = "1KiB"

[forward_auth.fields]
version = "header X-Version"
theme = "cookie theme"
session = "hash cookie sid"
api_key = "hash header x-api-key"
form = "body"
form_hash = "hash body"

[[forward_auth]]
name = "blind"
pipeline = "gate"
"#;

/// Asks about a POST, with these bytes as header lines and body, and returns the facts of the decision.
#[track_caller]
fn facts(server: &TestServer, name: &str, headers: &[&[u8]], body: &[u8]) -> Value {
    let mut stream = server.connect();
    let head = format!(
        "POST /v1/auth/{name} HTTP/1.1\r\nHost: x.example\r\nConnection: close\r\nX-Forwarded-For: 192.0.2.7\r\n"
    );
    let mut bytes = head.into_bytes();
    for header in headers {
        bytes.extend([header, b"\r\n".as_slice()].concat());
    }
    if !body.is_empty() && !headers.iter().any(|header| header.starts_with(b"Transfer-Encoding")) {
        bytes.extend(format!("Content-Length: {}\r\n", body.len()).into_bytes());
    }
    bytes.extend(b"\r\n");
    bytes.extend(body);
    stream.write_all(&bytes).unwrap();
    let asked = answer(&mut stream);
    assert_eq!(asked.status, 401, "{}", asked.body);
    let id = handed(&asked)["id"].as_str().unwrap().to_owned();
    server.get(&format!("/v1/decisions/{id}")).json()["facts"].clone()
}

/// Returns true if a file below a folder has these bytes in it.
fn is_kept(folder: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => is_kept(&path, bytes),
            false => std::fs::read(path).unwrap().windows(bytes.len()).any(|part| part == bytes),
        }
    })
}

#[test]
fn what_is_named_of_a_request_is_seen_and_nothing_else() {
    let parent = tempfile::tempdir().unwrap();
    let directory = gate_directory(&parent.path().join("data"), &format!("{GATE}{SEEN}"), SEES);
    let folder = directory.config_path().parent().unwrap().to_owned();
    std::fs::write(folder.join("countries.tsv"), "192.0.2.0/24\tFR\n").unwrap();
    std::fs::write(folder.join("systems.tsv"), "192.0.2.0/24\t64496\n").unwrap();
    let server = start(&directory, &[]);
    let see = |headers: &[&[u8]], body: &[u8]| facts(&server, "seen", headers, body);
    let check = |headers: &[&[u8]], field: &str, expected: Value| {
        assert_eq!(see(headers, b"")[field], expected, "{:?}", headers.concat().escape_ascii().to_string());
    };
    check(&[b"X-VERSION: 7"], "version", json!("7"));
    check(&[b"X-Version: 7", b"X-Version: 8"], "version", json!("7"));
    check(&[b"X-Version: caf\xe9"], "version", json!("caf\u{e9}"));
    check(&[b"X-Version: caf\xc3\xa9"], "version", json!("caf\u{e9}"));
    check(&[b"X-Version: "], "version", Value::Null);
    check(&[b"X-Other: 7"], "version", Value::Null);
    for (length, is_seen) in [(4096, true), (4097, false)] {
        let long = [b"X-Version: ".as_slice(), &vec![b'a'; length]].concat();
        assert_eq!(see(&[&long], b"")["version"].is_string(), is_seen, "{length}");
    }
    check(&[b"Cookie: a=b; theme=dark; c=d"], "theme", json!("dark"));
    check(&[b"Cookie: theme=dark; theme=light", b"Cookie: theme=blue"], "theme", json!("dark"));
    check(&[b"Cookie: a=b", b"Cookie: theme=\"blue\""], "theme", json!("blue"));
    check(&[b"Cookie: themes=dark; Theme=dark; theme="], "theme", Value::Null);
    check(&[b"Cookie: theme=\xff"], "theme", Value::Null);

    // Hashes: of a value always the same, and of another field another.
    let secrets: [&[u8]; 2] = [b"Cookie: sid=Secret4711", b"X-Api-Key: Secret4711"];
    let first = see(&secrets, b"");
    let [session, key] = ["session", "api_key"].map(|field| first[field].as_str().unwrap().to_owned());
    assert!(session.len() == 16 && key.len() == 16 && session != key, "{first}");
    assert_eq!(see(&secrets, b"")["session"], json!(session));
    assert_ne!(see(&[b"Cookie: sid=Secret4712"], b"")["session"], json!(session));
    assert_eq!(see(&[], b"")["session"], Value::Null);

    // The body's first bytes.
    let text = "call 800 555 1239, see https://pills.example/ Secret4711";
    let seen = see(&[], text.as_bytes());
    assert!(seen["form.link_domains"].to_string().contains("pills.example"), "{seen}");
    assert_eq!((seen["form"].clone(), seen["form_hash"].as_str().unwrap().len()), (Value::Null, 16));
    let is_linked = |headers: &[&[u8]], body: &[u8]| !see(headers, body)["form.link_domains"].is_null();
    let far = format!("{}{text}", ".".repeat(1024));
    assert!(!is_linked(&[], far.as_bytes()), "it was not read so far");
    assert!(!is_linked(&[], b""));
    assert!(!is_linked(&[b"Content-Encoding: gzip"], text.as_bytes()));
    let chunks = format!("10\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n", &text[..16], text.len() - 16, &text[16..]);
    assert!(is_linked(&[b"Transfer-Encoding: chunked"], chunks.as_bytes()));
    let long = format!("{text}{}", ".".repeat(1 << 20));
    assert!(is_linked(&[], long.as_bytes()));
    // A sign that is cut in two, and what is no text at all.
    let cut = format!("{text}{}\u{e9}", ".".repeat(1023 - text.len()));
    let whole = format!("{text}{}", ".".repeat(1023 - text.len()));
    assert_eq!(see(&[], cut.as_bytes())["form_hash"], see(&[], whole.as_bytes())["form_hash"]);
    assert_eq!(see(&[], &[0xff; 9])["form_hash"].as_str().unwrap().len(), 16);

    // Where the proxy's word for the address is.
    assert_eq!((&first["country"], &first["as_number"]), (&json!("FR"), &json!(64496)));
    let blind = facts(&server, "blind", &secrets, text.as_bytes());
    for field in ["version", "session", "api_key", "form", "form_hash", "form.link_domains"] {
        assert_eq!(blind[field], Value::Null, "{field}");
    }
    for facts in [&first, &seen, &blind] {
        assert!(!facts.to_string().contains("Secret4711"), "{facts}");
    }
    server.stop();
    assert!(!is_kept(parent.path(), b"Secret4711"));
}

/// The problems of these `fields` of a gate that declares `known`, and `kept`, which the journal keeps.
fn check_fields(fields: &str, problem: &str) {
    let parent = tempfile::tempdir().unwrap();
    let gate = format!(
        "{GATE}\n[[field]]\nname = \"known\"\ntype = \"string\"\njournal = false\n[[field]]\nname = \"kept\"\ntype = \"string\"\n"
    );
    let main = format!("[[forward_auth]]\nname = \"seen\"\npipeline = \"gate\"\nfields = {fields}\n");
    let directory = gate_directory(&parent.path().join("data"), &gate, &main);
    let config = Config::load(&directory.config_path(), &Overrides::default());
    let found = Plan::compile(&config).err().map(|problems| problems.to_string()).unwrap_or_default();
    assert!(found.contains(problem) && found.is_empty() == problem.is_empty(), "{fields}: {found}");
}

#[test]
fn fields_that_cannot_be_are_refused() {
    check_fields("{ known = \"header x-a\", kept = \"hash body\" }", "");
    check_fields("{ known = \"body\" }", "");
    check_fields("{ kept = \"body\" }", "the body would be kept in the journal, as `kept`");
    check_fields("{ other = \"header x-a\" }", "the pipeline has no field `other`");
    for place in
        ["", "header", "header ", "header a b", "head x-a", "hash", "hash hash body", "body x", "cookie a;b"]
    {
        check_fields(&format!("{{ known = \"{place}\" }}"), "`known` is taken from nowhere");
    }
    check_fields("{ known = 7 }", "`known` is taken from nowhere");
    check_fields(&format!("{{ known = \"header {}\" }}", "a".repeat(65)), "`known` is taken from nowhere");
}

#[test]
fn the_pages_fields_are_taken() {
    let page = include_str!("../../../../docs/guides/challenges.md");
    let main = shown(page, "toml", "[[forward_auth]]\nname = \"site\"\npipeline = \"gate\"\n\n");
    let form = shown(page, "toml", "# gate.toml\n");
    let names = ["language", "session", "api_key", "platform"];
    let strings = names.map(|name| format!("\n[[field]]\nname = \"{name}\"\ntype = \"string\"\n")).concat();
    let parent = tempfile::tempdir().unwrap();
    let directory = gate_directory(&parent.path().join("data"), &format!("{GATE}{form}{strings}"), main);
    let config = Config::load(&directory.config_path(), &Overrides::default());
    let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
    let [site] = &plan.forwards[..] else { panic!("{:?}", plan.forwards) };
    assert_eq!((site.fields.len(), site.body_max), (5, 8 << 10));
}

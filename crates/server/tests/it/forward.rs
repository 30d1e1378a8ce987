//! Questions of proxies before they hand a request on, in each proxy's form.

use std::io::Write;

use engine::Directory;

use crate::harness::{Answer, Running, answer, check_problem, configure, directory, start};
use crate::limits::unfinished;
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

fn ask(server: &Running, url: &str, headers: &[&str]) -> Answer {
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
fn with_little(test: impl FnOnce(&Running, &Directory)) {
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
fn ask_raw(server: &Running, url: &str, target: &[u8], agent: &[u8]) -> u16 {
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

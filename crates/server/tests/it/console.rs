//! The console over HTTP: who gets in, what pages are made of, what forms do, and what strangers' values do to none of it.

use std::collections::BTreeSet;
use std::path::Path;

use access::{Role, StoredPassword, UserFile};
use engine::Directory;
use plan::preset;
use serde_json::{Value, json};
use stats::random::Random;

use crate::access::until;
use crate::harness::{
    Answer, JSON, LOG, MAIL, MESSAGE, NOW, PROBE, SetClock, TestServer, configure, start, start_by,
};

const TOKEN: &str = "correct-horse-battery";
const HTML: &str = "Accept: text/html,application/xhtml+xml,*/*;q=0.8";
pub(crate) const FORM: &str = "Content-Type: application/x-www-form-urlencoded";

const LABELS: &str = "
[[label]]
name = \"scanner\"
of = \"ip\"
keep = \"30d\"
decision = \"ban\"
";

const POSTS: &str = "
input = \"json\"

[[field]]
name = \"user\"
type = \"string\"

[[field]]
name = \"text\"
type = \"string\"

[[kind]]
name = \"author\"
of = \"user\"

[[statistic]]
name = \"posts\"
keys = [\"author\"]
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
";

pub(crate) fn directory(path: &Path) -> Directory {
    let presets: Vec<_> = ["mail", "web"].into_iter().filter_map(preset::find).collect();
    let directory = Directory::create(path, &presets).unwrap();
    let web = directory.config_path().with_file_name("web.toml");
    let text = std::fs::read_to_string(&web).unwrap_or_default();
    if text.is_empty() {
        configure(&directory, LABELS);
    } else {
        std::fs::write(&web, text + LABELS).unwrap();
    }
    directory
}

pub(crate) fn with_console(settings: &[(&str, &str)], test: impl FnOnce(&TestServer)) {
    let parent = tempfile::tempdir().unwrap();
    let running = start(&directory(&parent.path().join("data")), settings);
    test(&running);
    running.stop();
}

/// The tags of a page. In texts and attributes every bracket is escaped.
pub(crate) fn tags(page: &str) -> impl Iterator<Item = &str> {
    page.split('<').skip(1).filter_map(|part| part.split_once('>')).map(|(tag, _)| tag)
}

/// The value of an attribute of a tag.
pub(crate) fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

/// Checks that an answer is a page of which nothing is but what the console itself wrote.
pub(crate) fn check_page<'a>(answer: &'a Answer, status: u16, says: &[&str]) -> &'a str {
    let page = &answer.body;
    assert_eq!(answer.status, status, "{page}");
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let known = [
        "a",
        "aside",
        "b",
        "bdi",
        "body",
        "button",
        "circle",
        "code",
        "datalist",
        "dd",
        "del",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "figcaption",
        "figure",
        "form",
        "g",
        "h1",
        "h2",
        "h3",
        "head",
        "header",
        "html",
        "input",
        "ins",
        "kbd",
        "label",
        "li",
        "line",
        "link",
        "main",
        "mark",
        "meta",
        "nav",
        "ol",
        "option",
        "p",
        "path",
        "pre",
        "progress",
        "rect",
        "script",
        "section",
        "select",
        "span",
        "strong",
        "summary",
        "svg",
        "table",
        "tbody",
        "td",
        "text",
        "textarea",
        "tfoot",
        "th",
        "thead",
        "time",
        "title",
        "tr",
        "tspan",
        "ul",
        "!DOCTYPE",
    ];
    for tag in tags(page) {
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        assert!(known.contains(&name), "<{tag}>");
        let names = tag.split('"').step_by(2).flat_map(|part| part.split(' ').skip(1));
        for name in names.map(|part| part.trim_end_matches('=')) {
            assert!(!name.starts_with("on") && name != "style", "<{tag}>");
        }
        for name in ["src", "href", "action", "formaction"] {
            if let Some(url) = attribute(tag, name) {
                assert!((url.starts_with('/') && !url.starts_with("//")) || url.starts_with('#'), "<{tag}>");
            }
        }
        if name == "script" && !tag.starts_with('/') {
            assert!(attribute(tag, "src").unwrap().starts_with("/console/static/"), "<{tag}>");
        }
    }
    // An input has what was typed, as it was typed.
    let parts = page.split('<').filter_map(|part| part.split_once('>'));
    for (_, text) in parts.filter(|(tag, _)| !tag.starts_with("textarea")) {
        assert!(!text.contains(['\u{202e}', '\u{2066}', '\u{200b}', '\0']), "{text:?}");
    }
    for text in says {
        assert!(page.contains(text), "{text:?} is not in {page}");
    }
    page
}

/// The secret of a page's forms.
pub(crate) fn secret(page: &str) -> String {
    let field =
        tags(page).find(|tag| attribute(tag, "name") == Some("secret")).expect("a form with a secret");
    attribute(field, "value").unwrap().to_owned()
}

pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    url_encoded(fields)
}

pub(crate) fn url_encoded(fields: &[(&str, &str)]) -> String {
    let encode = |text: &str| -> String {
        text.bytes()
            .map(|byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            })
            .collect()
    };
    let pairs: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
    pairs.join("&")
}

pub(crate) fn decide(server: &TestServer, pipeline: &str, media: &str, body: &str) -> String {
    let answer = server.post(&format!("/v1/decide?pipeline={pipeline}"), &[media], body);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["id"].as_str().unwrap().to_owned()
}

const PAGES: [&str; 18] = [
    "/console/",
    "/console/decisions",
    "/console/decisions/common",
    "/console/keys",
    "/console/bans",
    "/console/bans/allowed",
    "/console/limits",
    "/console/rules",
    "/console/learners",
    "/console/reviews",
    "/console/reviews/agreement",
    "/console/rules/edit",
    "/console/settings",
    "/console/settings/access",
    "/console/settings/audit",
    "/console/settings/snapshots",
    "/console/settings/nodes",
    "/console/settings/sources",
];

#[test]
fn without_tokens_this_host_sees_every_page() {
    with_console(&[], |server| {
        let root = server.ask("GET", "/", &[HTML], b"");
        assert_eq!((root.status, root.header("location")), (303, Some("/console/")));
        assert!(server.get("/").body.starts_with("Tollhouse counts"), "programs get the list of URLs");
        for url in PAGES {
            let answer = server.get(url);
            let page = check_page(&answer, 200, &["<main"]);
            assert!(!page.contains("/console/logout"), "there is no session to end");
            for tag in tags(page).filter(|tag| tag.starts_with("script") || tag.starts_with("link")) {
                let url = attribute(tag, "src").or(attribute(tag, "href")).unwrap();
                let asset = server.get(url);
                assert_eq!(asset.status, 200, "{url}");
                assert!(asset.header("cache-control").unwrap().contains("immutable"));
            }
        }
        for (url, status) in
            [("/console/nowhere", 404), ("/console/static/0/style.css", 404), ("/console/decisions/x", 400)]
        {
            assert_eq!(server.get(url).status, status, "{url}");
        }
        check_page(&server.get("/console/decisions/0000000000001"), 404, &["There is nothing here"]);
        // A page of another site, or one whose name leads here.
        for headers in [["Host: evil.example"], ["Origin: http://evil.example"]] {
            assert_eq!(server.ask("GET", "/console/", &headers, b"").status, 403, "{headers:?}");
        }
    });
}

/// Logs in, and returns the header with the session's cookie.
fn log_in(server: &TestServer) -> String {
    let answer =
        server.post("/console/login", &[FORM], &form(&[("token", TOKEN), ("next", "/console/bans")]));
    assert_eq!((answer.status, answer.header("location")), (303, Some("/console/bans")), "{}", answer.body);
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
    format!("Cookie: {}", cookie.split(';').next().unwrap())
}

#[test]
fn a_token_opens_a_session_that_ends() {
    let parent = tempfile::tempdir().unwrap();
    let time = SetClock::default();
    let tokens = format!("[\"{TOKEN}\"]");
    let clock = time.clone();
    let server =
        start_by(&directory(&parent.path().join("data")), &[("server.tokens", &tokens)], |_| clock.clock());
    for url in PAGES.into_iter().chain(["/console/decisions/x", "/console/nowhere"]) {
        let answer = server.get(url);
        assert_eq!(answer.status, 303, "{url}");
        assert!(answer.header("location").unwrap().starts_with("/console/login?next=%2Fconsole%2F"), "{url}");
    }
    assert_eq!(server.ask("GET", "/", &[HTML], b"").header("location"), Some("/console/"));
    assert_eq!(server.get("/").status, 401);
    check_page(&server.get("/console/login?next=//evil.example"), 200, &["value=\"/console/\""]);
    for wrong in ["", "wrong", &"x".repeat(3000)] {
        let answer = server.post("/console/login", &[FORM], &form(&[("token", wrong)]));
        check_page(&answer, 403, &["This token is not accepted."]);
        assert_eq!(answer.header("set-cookie"), None);
    }
    assert_eq!(server.post("/console/login", &[FORM], &form(&[("token", &"x".repeat(5000))])).status, 413);
    let elsewhere =
        server.post("/console/login", &[FORM, "Sec-Fetch-Site: cross-site"], &form(&[("token", TOKEN)]));
    assert_eq!(elsewhere.status, 403);

    let cookie = log_in(&server);
    let page = server.ask("GET", "/console/bans", &[&cookie], b"");
    check_page(&page, 200, &["Nobody is banned.", "/console/logout"]);
    assert_eq!(
        server.ask("GET", "/v1/pipelines", &[&cookie], b"").status,
        401,
        "the interface for programs knows no cookies"
    );
    let twice = format!("{cookie}; {}", cookie.trim_start_matches("Cookie: "));
    assert_eq!(server.ask("GET", "/console/", &[&twice], b"").status, 303);
    time.set(29 * 60);
    assert_eq!(server.ask("GET", "/console/", &[&cookie], b"").status, 200);
    time.set(60 * 60);
    assert_eq!(server.ask("GET", "/console/", &[&cookie], b"").status, 303, "it was not used for too long");

    let cookie = log_in(&server);
    let page = server.ask("GET", "/console/", &[&cookie], b"");
    let out = server.ask(
        "POST",
        "/console/logout",
        &[&cookie, FORM],
        form(&[("secret", &secret(&page.body))]).as_bytes(),
    );
    assert_eq!((out.status, out.header("location")), (303, Some("/console/login")));
    assert_eq!(server.ask("GET", "/console/", &[&cookie], b"").status, 303);
    server.stop();
}

/// A session may what its token may, as long as that holds.
#[test]
fn a_session_may_what_its_token_may() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let token = |name: &str, more: &str| {
        format!("[[token]]\nname = \"{name}\"\nsecret = \"a-long-secret-of-{name}\"\n{more}\n")
    };
    let tokens = [
        token("reader", "scopes = [\"read\"]"),
        token("looker", "scopes = [\"read\", \"read-content\"]"),
        token("warden", "scopes = [\"read\", \"enforce\"]"),
        token("editor", "scopes = [\"read\", \"rules\"]"),
        token("admin", "scopes = [\"read\", \"administer\"]"),
        token("teacher", "scopes = [\"teach\"]"),
        token("limited", "scopes = [\"read\"]\npipelines = [\"web\"]"),
    ];
    let directory = directory(&path);
    configure(&directory, &tokens.concat());
    let server = start(&directory, &[]);
    let enter = |name: &str| {
        let token = format!("a-long-secret-of-{name}");
        let answer = server.post("/console/login", &[FORM], &form(&[("token", &token)]));
        let cookie = answer.header("set-cookie").map(|cookie| cookie.split(';').next().unwrap().to_owned());
        cookie.map(|cookie| format!("Cookie: {cookie}"))
    };
    let check = |name: &str, page: &str, status: u16| {
        let cookie = enter(name).unwrap_or_else(|| panic!("{name} may enter"));
        let answer = server.ask("GET", page, &[&cookie], b"");
        assert_eq!(answer.status, status, "{name} {page}: {}", answer.body);
        answer.body
    };
    for name in ["teacher", "limited", "nobody"] {
        assert_eq!(enter(name), None, "{name}");
    }
    for (name, bans, decisions, settings) in [
        ("reader", 403, 403, 303),
        ("looker", 403, 200, 303),
        ("warden", 200, 403, 303),
        ("editor", 403, 403, 303),
        ("admin", 403, 403, 200),
    ] {
        check(name, "/console/", 200);
        check(name, "/console/rules", 200);
        check(name, "/console/bans", bans);
        check(name, "/console/decisions", decisions);
        check(name, "/console/decisions/common", decisions);
        check(name, "/console/settings", settings);
        let cookie = enter(name).unwrap();
        let key = server.ask("GET", "/console/key?pipeline=web&kind=ip&value=192.0.2.7", &[&cookie], b"");
        assert_eq!(key.status, 200, "{name}: {}", key.body);
        assert_eq!(key.body.contains("action=\"/console/bans/add\""), name == "editor", "{name}");
        let target = json!(["ip", "scanner", "192.0.2.7"]).to_string();
        let own = [
            ("secret", secret(&key.body)),
            ("pipeline", "web".to_owned()),
            ("target", target),
            ("lasts", "1d".to_owned()),
        ];
        let own: Vec<(&str, &str)> = own.iter().map(|(field, value)| (*field, value.as_str())).collect();
        let answer = server.ask("POST", "/console/bans/add", &[&cookie, FORM], form(&own).as_bytes());
        assert_eq!(answer.status, if name == "editor" { 303 } else { 403 }, "{name}: {}", answer.body);
    }
    server.stop();
}

/// Sends a form that logs in or begins the first visit; the session's cookie, if it was accepted.
pub(crate) fn enter(server: &TestServer, page: &str, fields: &[(&str, &str)]) -> Result<String, Answer> {
    let answer = server.post(page, &[FORM], &form(fields));
    let cookie = answer.header("set-cookie").and_then(|cookie| cookie.split(';').next());
    cookie.map(|cookie| format!("Cookie: {cookie}")).ok_or(answer)
}

#[test]
fn people_log_in_and_out_and_may_what_their_role_may() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let people = UserFile::in_directory(directory.path());
    let password = "correct horse battery";
    for (name, role) in [("ann", Role::Viewer), ("eve", Role::Administrator)] {
        let stored = StoredPassword::of(password).unwrap();
        people.change(|store| store.add(name, role, stored, NOW)).unwrap();
    }
    let server = start(&directory, &[]);
    assert_eq!(server.first_visit, None, "somebody may log in");
    check_page(&server.get("/console/login"), 200, &["name=\"password\"", "With a token"]);
    for (name, wrong) in [("ann", "correct horse batterz"), ("bob", password), ("", ""), ("<b>", password)] {
        let refused = enter(&server, "/console/login", &[("name", name), ("password", wrong)]).unwrap_err();
        check_page(&refused, 403, &["This name or password is not accepted."]);
    }
    let log_in = |name: &str| {
        enter(&server, "/console/login", &[("name", name), ("password", password)])
            .unwrap_or_else(|answer| panic!("{}", answer.body))
    };
    let (ann, eve) = (log_in("ann"), log_in("eve"));
    let status = |cookie: &str, page: &str| server.ask("GET", page, &[cookie], b"").status;
    for (page, of_ann, of_eve) in
        [("/console/", 200, 200), ("/console/decisions", 403, 200), ("/console/settings/access", 403, 200)]
    {
        assert_eq!((status(&ann, page), status(&eve, page)), (of_ann, of_eve), "{page}");
    }
    // Who logs out leaves no session of the person behind.
    let page = server.ask("GET", "/console/", &[&eve], b"").body;
    let out = form(&[("secret", &secret(&page))]);
    assert_eq!(server.ask("POST", "/console/logout", &[&eve, FORM], out.as_bytes()).status, 303);
    assert_eq!(status(&eve, "/console/"), 303);
    let login = json!({"name": "eve", "password": password}).to_string();
    let token = server.post("/v1/sessions", &[JSON], &login).json()["token"].as_str().unwrap().to_owned();
    let bearer = format!("Authorization: Bearer {token}");
    let held = server.ask("GET", "/v1/sessions", &[&bearer], b"").json();
    let held_count = held["sessions"].as_array().unwrap().len();
    let held = held["sessions"].as_array().unwrap().iter().map(|one| one["user"].as_str().unwrap());
    assert_eq!(held.collect::<BTreeSet<_>>(), BTreeSet::from(["ann", "eve"]), "ann's is in the browser");
    assert_eq!(held_count, 2, "eve's of the browser has ended");
    // A changed role ends it.
    people.change(|store| store.change("ann", Some(Role::Editor), None)).unwrap();
    until(303, || server.ask("GET", "/console/", &[&ann], b""));
    let begun = server.ask("GET", "/v1/audit?action=session.begin&by=ann", &[&bearer], b"").json();
    assert_eq!(begun["entries"].as_array().map(Vec::len), Some(1), "{begun}");
    server.stop();
}

#[test]
fn the_first_visit_makes_an_administrator_once() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let required = [("server.require_token", "true")];
    let server = start(&directory, &required);
    let url = server.first_visit.clone().unwrap();
    let (_, path) = url.split_once(&server.address.to_string()).unwrap();
    let (_, key) = path.split_once("key=").unwrap();
    for wrong in ["/console/first", "/console/first?key=", &path[..path.len() - 1]] {
        check_page(&server.get(wrong), 403, &["This link was used, or it is too old."]);
    }
    check_page(&server.get(path), 200, &["The first administrator", key]);
    let password = "correct horse battery";
    let add = |key: &str, name: &str, password: &str| {
        enter(&server, "/console/first", &[("key", key), ("name", name), ("password", password)])
    };
    check_page(&add(&key[1..], "ann", password).unwrap_err(), 403, &["This link was used"]);
    // What is refused gives the link's owner another try, by a new key.
    let again = add(key, "ann", "short").unwrap_err();
    let page = check_page(&again, 400, &["at least 12 characters", "value=\"ann\""]);
    let tag = tags(page).find(|tag| attribute(tag, "name") == Some("key")).unwrap();
    let newer = attribute(tag, "value").unwrap();
    check_page(&add(key, "ann", password).unwrap_err(), 403, &["This link was used"]);
    let ann = add(newer, "ann", password).unwrap_or_else(|answer| panic!("{}", answer.body));
    assert_eq!(server.ask("GET", "/console/settings", &[&ann], b"").status, 200);
    check_page(&add(newer, "eve", password).unwrap_err(), 403, &["This link was used"]);
    server.stop();
    let people = UserFile::in_directory(directory.path()).read().unwrap().unwrap().users;
    let people: Vec<_> = people.iter().map(|user| (user.name.as_str(), user.role)).collect();
    assert_eq!(people, [("ann", Role::Administrator)]);
    let server = start(&directory, &required);
    assert_eq!(server.first_visit, None);
    server.stop();
    let audit = std::fs::read_dir(directory.audit_path()).unwrap();
    let audit = audit.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect::<Vec<_>>().concat();
    let audit = String::from_utf8_lossy(&audit).into_owned();
    assert!(audit.contains("\"user.add\"") && audit.contains("first-visit"), "{audit}");
}

#[test]
fn forms_change_something_for_their_viewer_alone() {
    with_console(&[], |server| {
        let bans = || server.get("/v1/bans?ip=192.0.2.7").json();
        let page = server.get("/console/key?pipeline=web&kind=ip&value=192.0.2.7");
        let own = secret(check_page(&page, 200, &["Ban", "192.0.2.7"]));
        let target = json!(["ip", "scanner", "192.0.2.7"]).to_string();
        let fields = |secret: &str| {
            let next = "/console/bans";
            form(&[
                ("secret", secret),
                ("pipeline", "web"),
                ("target", &target),
                ("lasts", "1d"),
                ("next", next),
            ])
        };
        let others: [(&[&str], &str); 6] = [
            (&[FORM], ""),
            (&[FORM], "forged"),
            (&[FORM, "Origin: http://evil.example"], &own),
            (&[FORM, "Origin: null"], &own),
            (&[FORM, "Sec-Fetch-Site: same-site"], &own),
            (&["Content-Type: text/plain"], &own),
        ];
        for (headers, secret) in others {
            let answer = server.post("/console/bans/add", headers, &fields(secret));
            assert!([403, 415].contains(&answer.status), "{headers:?} {secret}: {}", answer.status);
            assert_eq!(bans(), json!([]), "{headers:?} {secret}");
        }
        let origin = format!("Origin: http://{}", server.address);
        let answer = server.post("/console/bans/add", &[FORM, &origin], &fields(&own));
        assert_eq!(
            (answer.status, answer.header("location")),
            (303, Some("/console/bans?done=banned&n=0")),
            "{}",
            answer.body
        );
        assert_eq!(bans()[0]["value"], "192.0.2.7");
        check_page(
            &server.get("/console/bans?done=banned"),
            200,
            &["The ban holds.", "192.0.2.7", "scanner"],
        );
        check_page(&server.get("/console/bans?q=SCANN"), 200, &["192.0.2.7"]);
        check_page(&server.get("/console/bans?q=198"), 200, &["No ban has this"]);
        check_page(&server.get("/console/keys?q=192.0.2.7"), 200, &["scanner"]);
        let lift =
            |value: &str| form(&[("secret", &own), ("value", value), ("next", "https://evil.example/")]);
        let answer = server.post("/console/bans/lift", &[FORM], &lift("192.0.2.7"));
        assert_eq!(answer.header("location"), Some("/console/?done=lifted&n=1"), "it leads to no other site");
        assert_eq!(bans(), json!([]));
        // What cannot be done is said on a page.
        let own_address = json!(["ip", "scanner", "127.0.0.1"]).to_string();
        for target in [own_address.as_str(), "[]", "{", "[\"ip\",\"none\",\"192.0.2.7\"]"] {
            let fields = form(&[("secret", &own), ("pipeline", "web"), ("target", target), ("lasts", "1d")]);
            let answer = server.post("/console/bans/add", &[FORM], &fields);
            check_page(&answer, answer.status, &["To the first page"]);
            assert!((400..500).contains(&answer.status), "{target}");
        }
    });
}

#[test]
fn a_decision_is_explained_and_judged() {
    with_console(&[], |server| {
        let id = decide(server, "web", LOG, PROBE);
        let page = server.get(&format!("/console/decisions/{id}"));
        let says = [
            "because",
            "What made the score",
            "/.env",
            "/console/key?pipeline=web&amp;kind=ip&amp;value=192.0.2.7",
        ];
        check_page(&page, 200, &says);
        let found = server.get(&format!("/console/find?q=+{id}+"));
        assert_eq!(found.header("location"), Some(&*format!("/console/decisions/{id}")));
        let looked = server.get("/console/find?q=192.0.2.7");
        assert_eq!(looked.header("location"), Some("/console/keys?q=192.0.2.7"));
        check_page(
            &server.get("/console/keys?q=192.0.2.7"),
            200,
            &["kind=ip&amp;value=192.0.2.7", "web · ip"],
        );
        check_page(
            &server.get("/console/key?pipeline=web&kind=ip&value=192.0.2.7"),
            200,
            &["Over time", "svg"],
        );
        check_page(&server.get("/console/keys?pipeline=web&kind=ip"), 200, &["192.0.2.7"]);
        check_page(&server.get("/console/"), 200, &["Since the start"]);
        let address = format!("/console/decisions/{id}");
        check_page(&server.get("/console/decisions"), 200, &[&address, "192.0.2.7", "/.env"]);
        check_page(
            &server.get("/console/decisions?q=&pipeline=web&kind=ip&value=192.0.2.7&last=1h"),
            200,
            &[&address],
        );
        check_page(&server.get("/console/decisions?where=http.status+==+404"), 200, &[&address]);
        check_page(&server.get("/console/decisions?pipeline=mail"), 200, &["No decision fits."]);
        check_page(
            &server.get("/console/decisions?pipeline=web&where=no.such+==+1"),
            200,
            &["no.such", "role=\"alert\""],
        );
        check_page(&server.get("/console/decisions?action=none"), 200, &["role=\"alert\""]);
        let mail = decide(server, "mail", MAIL, MESSAGE);
        let page = server.get(&format!("/console/decisions/{mail}"));
        let own = secret(check_page(&page, 200, &["Was it right?", "example.org"]));
        let word = "<b>".repeat(40_000);
        let message = format!("From: {word} <a@b.example>\r\nSubject: {word}\r\n\r\n{word}\r\n");
        let long = decide(server, "mail", MAIL, &message);
        let page = server.get(&format!("/console/decisions/{long}"));
        assert!(check_page(&page, 200, &["&lt;b&gt;&lt;b&gt;"]).len() < 256 << 10);
        check_page(&server.get("/console/decisions"), 200, &["&lt;b&gt;&lt;b&gt;"]);
        let url = format!("/console/decisions/{mail}/feedback");
        let said = server.post(&url, &[FORM], &form(&[("secret", &own), ("class", "spam")]));
        assert_eq!(said.status, 303, "{}", said.body);
        check_page(&server.get(said.header("location").unwrap()), 200, &["Your feedback was taken in"]);
        let said = server.post(&url, &[FORM], &form(&[("secret", &own), ("class", "none")]));
        assert!(said.header("location").unwrap().contains("feedback_back"));
        let ids =
            [("secret", own.as_str()), ("id", &mail), ("id", &long), ("id", "forged"), ("class", "spam")];
        let together = server.post("/console/decisions/feedback", &[FORM], &form(&ids));
        check_page(&together, 200, &["taken in for 2 decisions.", "forged", "Undo"]);
        let forged =
            server.post("/console/decisions/feedback", &[FORM], &form(&[("id", &mail), ("class", "spam")]));
        assert_eq!(forged.status, 403);
        let said = server.post(&url, &[FORM], &form(&[("secret", &own), ("class", "no such class")]));
        check_page(&said, said.status, &["To the first page"]);
    });
}

/// Values of strangers: markup, signs that turn text, words without an end.
pub(crate) fn hostile() -> Vec<String> {
    let mut values: Vec<String> = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "'\"></a></td></table><iframe src=//evil.example>",
        "</title></style></script><!--",
        "{{7*7}}${7*7}#{7*7}<%= 7 %>",
        "javascript:alert(1)",
        "\u{202e}evil\u{2066}\u{200b}\u{feff}",
        "&lt;b&gt;&#60;b&#62;",
        "../../../../etc/passwd\r\nSet-Cookie: a=b",
    ]
    .map(str::to_owned)
    .into();
    values.push("W".repeat(65_000));
    values.push("<b>".repeat(21_000));
    values.push("\u{202e}\u{0301}".repeat(9_000));
    values
}

#[test]
fn what_strangers_send_stays_text() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    std::fs::write(directory.config_path(), POSTS).unwrap();
    let server = start(&directory, &[]);
    let own = secret(&server.get("/console/rules/edit").body);
    for (number, hostile) in hostile().iter().enumerate() {
        let event =
            json!({"id": hostile.chars().take(100).collect::<String>(), "user": hostile, "text": hostile});
        let answer = server.post("/v1/decide", &[JSON], &event.to_string());
        assert_eq!(answer.status, 200, "{number}: {}", answer.body);
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        let answer = server.get(&format!("/console/decisions/{id}"));
        let page =
            check_page(&answer, 200, &["Held for review", "&lt;b&gt;A person&lt;/b&gt; looks at ⟨202E⟩it"]);
        assert!(page.len() < 256 << 10, "{number}: {} bytes", page.len());
        let short: String = hostile.chars().take(1000).collect();
        for url in ["/console/keys", "/console/bans", "/console/find"] {
            let answer = server.get(&format!("{url}?{}", url_encoded(&[("q", &short)])));
            if answer.status != 303 {
                check_page(&answer, answer.status, &["<main"]);
            }
        }
        let key = url_encoded(&[("kind", "author"), ("value", &short)]);
        let answer = server.get(&format!("/console/key?{key}"));
        check_page(&answer, answer.status, &["<main"]);
        for (name, url) in [
            ("q", "/console/decisions"),
            ("where", "/console/decisions"),
            ("facts", "/console/decisions"),
            ("rule", "/console/decisions"),
            ("label", "/console/decisions"),
            ("after", "/console/decisions"),
            ("last", "/console/decisions"),
            ("done", "/console/"),
            ("rule", "/console/rules"),
            ("text", "/console/settings"),
            ("scope", "/console/settings"),
            ("by", "/console/settings/audit"),
            ("action", "/console/settings/audit"),
            ("since", "/console/settings/audit"),
            ("before", "/console/settings/audit"),
            ("verify", "/console/settings/audit"),
            ("done", "/console/settings/nodes"),
            ("q", "/console/rules"),
            ("pipeline", "/console/learners"),
            ("line", "/console/learners"),
            ("at", "/console/learners"),
            ("score_from", "/console/decisions"),
            ("pipeline", "/console/rules"),
            ("pipeline", "/console/rules/edit"),
            ("rule", "/console/rules/edit"),
            ("trial", "/console/rules/edit"),
            ("version", "/console/rules/version"),
            ("rule", "/console/rules/impact"),
            ("by", "/console/reviews"),
            ("state", "/console/reviews"),
            ("after", "/console/reviews"),
            ("sort", "/console/reviews"),
            ("rule", "/console/reviews"),
            ("pipeline", "/console/reviews"),
            ("id", "/console/reviews/next"),
            ("by", "/console/reviews/next"),
            ("kind", "/console/reviews/alike"),
            ("pipeline", "/console/reviews/agreement"),
            ("before", "/console/bans"),
            ("worst", "/console/keys"),
            ("name", "/console/limits/limit"),
            ("kind", "/console/keys"),
        ] {
            let answer = server.get(&format!("{url}?{}", url_encoded(&[(name, &short)])));
            if answer.status == 303 {
                assert!(answer.header("location").unwrap().starts_with("/console/reviews"), "{url} {name}");
                continue;
            }
            check_page(&answer, answer.status, &["<main"]);
            assert!(answer.status < 500, "{url} {name}: {}", answer.status);
        }
        for what in ["check", "try", "shadow", "enforce", ""] {
            let text = form(&[
                ("secret", &own),
                ("pipeline", "main"),
                ("text", &format!("[[rule]]\nname = \"HELD\"\nwhen = {short}")),
                ("do", what),
            ]);
            let answer = server.post("/console/rules/edit", &[FORM], &text);
            check_page(&answer, 200, &["nothing has changed", "<textarea"]);
        }
        let path: String = url_encoded(&[("", &short)]).trim_start_matches('=').to_owned();
        let answer = server.get(&format!("/console/decisions/{path}"));
        check_page(&answer, answer.status, &["<main"]);
        assert!((400..500).contains(&answer.status), "{number}");
    }
    check_page(&server.get("/console/keys?pipeline=main&kind=author"), 200, &[]);
    check_page(&server.get("/console/reviews?by=%3Cann%3E"), 200, &["&lt;ann&gt;", "Publish", "Refuse"]);
    check_page(&server.get("/console/rules"), 200, &["HELD", "&lt;b&gt;A person"]);
    server.stop();
}

/// A text of pieces that end or begin markup somewhere, and of any signs.
fn drawn(random: &mut Random) -> String {
    const PIECES: [&str; 24] = [
        "<",
        ">",
        "\"",
        "'",
        "&",
        "&#",
        "--",
        "<!--",
        "]]>",
        "</",
        "script",
        " onload=",
        " style=",
        "\u{202e}",
        "\u{2066}",
        "\u{200b}",
        "\0",
        "\r\n",
        "javascript:",
        "\\u003c",
        "%3C",
        "<svg/",
        "{",
        "=",
    ];
    let length = if random.one_in(10) { random.below(600) } else { random.below(40) };
    let piece = |random: &mut Random| match random.below(3) {
        0 => char::from_u32(random.below(0x11_0000) as u32).map(String::from).unwrap_or_default(),
        1 => char::from(random.below(128) as u8).to_string(),
        _ => (*random.pick(&PIECES)).to_owned(),
    };
    (0..length).map(|_| piece(random)).collect()
}

/// Texts that nobody has thought of: `TOLLHOUSE_ROUNDS` says how many, `TOLLHOUSE_SEED` from which on.
#[test]
fn any_text_of_strangers_stays_text() {
    let setting = |name: &str, usual| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let (rounds, first) = (setting("TOLLHOUSE_ROUNDS", 60), setting("TOLLHOUSE_SEED", 0));
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    std::fs::write(directory.config_path(), POSTS).unwrap();
    let server = start(&directory, &[]);
    let own = secret(&server.get("/console/rules/edit").body);
    for seed in first..first + rounds {
        let mut random = Random::new(seed);
        let [user, text, asked] = [(); 3].map(|()| drawn(&mut random));
        let answer = server.post("/v1/decide", &[JSON], &json!({"user": user, "text": text}).to_string());
        assert_eq!(answer.status, 200, "seed {seed}: {}", answer.body);
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        check_page(&server.get(&format!("/console/decisions/{id}")), 200, &[&id]);
        let key = url_encoded(&[("kind", "author"), ("value", &user)]);
        let pages = [
            format!("/console/key?{key}"),
            format!("/console/decisions?{key}&facts=user,text"),
            format!("/console/decisions?{}", url_encoded(&[("q", &asked)])),
            format!("/console/decisions?{}", url_encoded(&[("where", &format!("text == '{asked}'"))])),
            format!("/console/rules/edit?{}", url_encoded(&[("when", &asked)])),
            format!("/console/keys?{}", url_encoded(&[("q", &asked)])),
            format!("/console/bans?{}", url_encoded(&[("q", &asked)])),
        ];
        for url in pages {
            let answer = server.get(&url);
            check_page(&answer, answer.status, &["<main"]);
            assert!(answer.status < 500, "seed {seed} {url}: {}", answer.status);
        }
        let fields = [("secret", own.as_str()), ("pipeline", "main"), ("text", &text), ("do", "check")];
        let answer = server.post("/console/rules/edit", &[FORM], &form(&fields));
        check_page(&answer, answer.status, &["<main"]);
        assert!(answer.status < 500, "seed {seed}: {}", answer.status);
    }
    check_page(&server.get("/console/reviews?by=ann"), 200, &["HELD"]);
    check_page(&server.get("/console/keys?pipeline=main&kind=author"), 200, &[]);
    server.stop();
}

#[test]
fn a_review_is_decided() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    std::fs::write(directory.config_path(), POSTS).unwrap();
    let server = start(&directory, &[]);
    let answer = server.post("/v1/decide", &[JSON], &json!({"user": "ann", "text": "buy"}).to_string());
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    let page = server.get("/console/reviews?by=bob");
    let own = secret(check_page(&page, 200, &[&id, "HELD"]));
    let said = server.post(
        &format!("/console/reviews/{id}/decide"),
        &[FORM],
        &form(&[("secret", &own), ("by", "bob"), ("verdict", "refuse"), ("next", "/console/reviews?by=bob")]),
    );
    assert_eq!(said.header("location"), Some("/console/reviews?by=bob&done=reviewed&n=0"), "{}", said.body);
    assert_eq!(server.get(&format!("/v1/reviews/{id}")).json()["verdict"], Value::from("refuse"));
    check_page(&server.get("/console/reviews?by=bob"), 200, &["Nothing waits for review."]);
    check_page(&server.get("/console/reviews?state=decided"), 200, &[&id]);
    server.stop();
}

/// A form with a file, as browsers send it.
pub(crate) fn upload(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, content) in fields {
        let head =
            format!("--xyz\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"<b>\"\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--xyz--\r\n");
    body
}

pub(crate) const UPLOAD: &str = "Content-Type: multipart/form-data; boundary=xyz";

/// An event is checked without a trace, and taught.
#[test]
fn an_event_is_checked_and_taught() {
    with_console(&[], |server| {
        let page = server.get("/console/learners?pipeline=mail");
        let says =
            ["Lines and learners of mail", "It was taught nothing yet.", "Teach as spam", "mail.subject"];
        let own = secret(check_page(&page, 200, &says));
        let send = |headers: &[&str], fields: &[(&str, &[u8])]| {
            server.ask("POST", "/console/learners/check", headers, &upload(fields))
        };
        let mail = format!(
            "From: a@b.example\r\nSubject: <b>pills</b>\u{202e}\r\n\r\n{}\r\n",
            "pill ".repeat(400_000)
        );
        let own = own.as_bytes();
        let check: &[(&str, &[u8])] = &[
            ("secret", own),
            ("pipeline", b"mail"),
            ("text", b""),
            ("file", mail.as_bytes()),
            ("class", b""),
        ];
        let checked = send(&[UPLOAD], check);
        check_page(
            &checked,
            200,
            &["checked, without a trace", "&lt;b&gt;pills&lt;/b&gt;⟨202E⟩", "What made the score"],
        );
        check_page(&server.get("/console/decisions?pipeline=mail"), 200, &["No decision fits."]);
        let pasted: &[(&str, &[u8])] = &[
            ("secret", own),
            ("pipeline", b"mail"),
            ("text", b"Buy pills now"),
            ("file", b""),
            ("class", b""),
        ];
        check_page(&send(&[UPLOAD], pasted), 200, &["Buy pills now"]);
        let line: &[(&str, &[u8])] = &[("secret", own), ("pipeline", b"web"), ("text", PROBE.as_bytes())];
        check_page(&send(&[UPLOAD], line), 200, &["/.env"]);
        let learned = |class: &str| {
            let all = server.get("/v1/learners?pipeline=mail").json();
            all["classifiers"][0]["learned"][class].as_u64().unwrap()
        };
        assert_eq!(learned("bad"), 0);
        let teach: &[(&str, &[u8])] =
            &[("secret", own), ("pipeline", b"mail"), ("text", MESSAGE.as_bytes()), ("class", b"spam")];
        check_page(&send(&[UPLOAD], teach), 200, &["Taught as spam"]);
        assert_eq!((learned("bad"), learned("good")), (1, 0));
        check_page(&send(&[UPLOAD], teach), 200, &["You had said this before"]);
        assert_eq!(learned("bad"), 1);
        check_page(&server.get("/console/learners?pipeline=mail"), 200, &["<b>1</b> bad"]);
        // What is no such form, or is not its viewer's.
        let nothing: &[(&str, &[u8])] = &[("secret", own), ("pipeline", b"mail"), ("text", b" \r\n")];
        check_page(&send(&[UPLOAD], nothing), 400, &["There was nothing in the form"]);
        let forged: &[(&str, &[u8])] = &[("secret", b"x"), ("pipeline", b"mail"), ("text", b"a")];
        assert_eq!(send(&[UPLOAD], forged).status, 403);
        // Small ones: who refuses what is not read may close before all of it was sent.
        assert_eq!(send(&[UPLOAD, "Origin: http://evil.example"], line).status, 403);
        assert_eq!(send(&[FORM], line).status, 415);
        assert_eq!(server.ask("POST", "/console/learners/check", &[UPLOAD], b"--xyz").status, 400);
        let elsewhere: &[(&str, &[u8])] = &[("secret", own), ("pipeline", b"none"), ("text", b"a")];
        assert_eq!(send(&[UPLOAD], elsewhere).status, 400);
    });
}

/// Lines, what another line would change, and probabilities are made of judged decisions.
#[test]
fn lines_are_shown_with_what_came_of_them() {
    with_console(&[], |server| {
        for number in 0..12 {
            let message = format!("From: a{number}@b.example\r\nSubject: {number}\r\n\r\n{number}\r\n");
            let id = decide(server, "mail", MAIL, &message);
            let class = if number % 3 == 0 { "spam" } else { "ham" };
            let said = json!({"id": id, "class": class}).to_string();
            assert_eq!(server.post("/v1/feedback", &[JSON], &said).status, 200);
        }
        let made = server.get("/v1/decisions/statistics?pipeline=mail").json();
        let bins = made["probabilities"].as_array().unwrap();
        let sum = |side: &str| bins.iter().map(|bin| bin["decisions"][side].as_u64().unwrap()).sum::<u64>();
        assert_eq!((sum("good"), sum("bad"), sum("unjudged")), (8, 4, 0), "{made}");
        for bin in bins {
            let judged =
                bin["decisions"]["good"].as_f64().unwrap() + bin["decisions"]["bad"].as_f64().unwrap();
            let (from, to, expected) =
                (bin["from"].as_f64(), bin["to"].as_f64(), bin["expected"].as_f64().unwrap());
            assert!(
                judged * from.unwrap() - 1e-5 <= expected && expected <= judged * to.unwrap() + 1e-5,
                "{bin}"
            );
        }
        let says = [
            "12 decisions were looked at.",
            "8 were judged good and 4 bad.",
            "circle",
            "Do probabilities come true?",
        ];
        check_page(&server.get("/console/learners?pipeline=mail"), 200, &says);
        let learners = server.get("/v1/learners?pipeline=mail").json();
        let band = learners["bands"][0]["action"].as_str().unwrap();
        let moved = server.get(&format!("/console/learners?pipeline=mail&line={band}&at=1000"));
        check_page(&moved, 200, &["12 decisions would no longer reach", "score_below=1000"]);
        check_page(
            &server.get("/console/decisions?pipeline=mail&score_from=-1000&score_below=0,5&last=1d"),
            200,
            &["<main"],
        );
        check_page(&server.get("/console/learners?pipeline=mail&line=none&at=1"), 200, &["role=\"alert\""]);
    });
}

/// The content of an answer that came in chunks.
pub(crate) fn unchunked(answer: &Answer) -> String {
    let (mut content, mut rest) = (String::new(), answer.body.as_str());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        content.push_str(&after[..size]);
        rest = after[size..].strip_prefix("\r\n").unwrap_or_default();
    }
    content
}

/// Decisions that are seen are exported, and texts of strangers are no formulas.
#[test]
fn what_is_seen_is_exported() {
    with_console(&[], |server| {
        let message =
            "From: =1+1 <a@b.example>\r\nSubject: =HYPERLINK(\"http://evil.example\"), <b>\r\n\r\nhello\r\n";
        let id = decide(server, "mail", MAIL, message);
        decide(server, "web", LOG, PROBE);
        let page = server.get("/console/decisions?pipeline=mail");
        let says =
            ["/console/decisions/export?pipeline=mail", "format=csv", "format=parquet", "data-follow="];
        let page = check_page(&page, 200, &says);
        assert!(page.contains("Refresh"), "without scripts it is a link");
        let csv = server.get("/console/decisions/export?pipeline=mail&facts=mail.subject&format=csv");
        let media = csv.header("content-type");
        assert_eq!(
            (csv.status, media),
            (200, Some("text/csv; charset=utf-8; header=present")),
            "{}",
            csv.body
        );
        assert_eq!(csv.header("content-disposition"), Some("attachment; filename=\"decisions.csv\""));
        let content = unchunked(&csv);
        let lines: Vec<&str> = content.lines().collect();
        assert_eq!(lines.len(), 2, "{}", csv.body);
        assert!(
            lines[0].starts_with("id,event_id,pipeline,") && lines[0].ends_with(",mail.subject"),
            "{}",
            lines[0]
        );
        assert!(lines[1].starts_with(&id), "{}", lines[1]);
        assert!(lines[1].ends_with("\"'=HYPERLINK(\"\"http://evil.example\"\"), <b>\""), "{}", lines[1]);
        let lines = server.get("/v1/decisions/export?format=ndjson&facts=*&limit=1");
        assert_eq!(lines.status, 200, "{}", lines.body);
        let one: Value = serde_json::from_str(&unchunked(&lines)).unwrap();
        assert_eq!((&one["pipeline"], &one["facts"]["http.path"]), (&json!("web"), &json!("/.env")));
        let table = server.get("/console/decisions/export?pipeline=mail&facts=mail.subject&format=parquet");
        assert_eq!(
            (table.status, table.header("content-type")),
            (200, Some("application/vnd.apache.parquet"))
        );
        assert_eq!(table.header("content-disposition"), Some("attachment; filename=\"decisions.parquet\""));
        assert_eq!(table.body.matches("PAR1").count(), 2, "it begins and ends");
        assert_eq!(server.get("/v1/decisions/export?format=parquet&facts=*").status, 400);
        let many = server.get("/v1/decisions/export?limit=100000");
        assert_eq!(unchunked(&many).lines().count(), 3);
        for wrong in ["limit=0", "limit=100001", "facts=*", "format=xml", "format=csv&nothing=1", "where=("] {
            assert_eq!(server.get(&format!("/v1/decisions/export?{wrong}")).status, 400, "{wrong}");
        }
        check_page(&server.get("/console/decisions/export?action=none"), 400, &["To the first page"]);
    });
}

/// Searches that the configuration names are offered.
#[test]
fn saved_searches_are_offered() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let searches = "[[search]]\nname = \"probes\"\ndescription = \"<b>Probes</b> of today\"\npipeline = \"web\"\ntext = \".env\"\nlast = \"2d\"\n";
    configure(&directory, searches);
    let server = start(&directory, &[]);
    let id = decide(&server, "web", LOG, PROBE);
    let offered = "/console/decisions?last=2d&amp;pipeline=web&amp;q=.env";
    check_page(&server.get("/console/decisions"), 200, &["&lt;b&gt;Probes&lt;/b&gt; of today", offered]);
    let found = server.get("/console/decisions?pipeline=web&q=.env&last=2d");
    check_page(&found, 200, &[&id, "aria-current=\"true\"", "last 2d"]);
    // One that is saved from the page is offered beside it, until it is removed.
    let known =
        ["list=\"rules-known\"", "<datalist id=\"kinds-known\">", "value=\"ip\"", "data-of=\"fact reading\""];
    let page = server.get("/console/decisions?q=wp-login&score_from=1,5");
    let own = secret(check_page(&page, 200, &known));
    let send = |url: &str, fields: &[(&str, &str)]| {
        let mut all = vec![("secret", own.as_str())];
        all.extend(fields);
        server.post(url, &[FORM], &form(&all))
    };
    let name = "<b>Log</b>ins \u{202e}";
    let fields = [("name", name), ("ask.q", "wp-login"), ("ask.score_from", "1,5")];
    let answer = send("/console/decisions/save", &fields);
    let location = "/console/decisions?q=wp-login&score_from=1.5&done=search_saved&n=0";
    assert_eq!(answer.header("location"), Some(location), "{}", answer.body);
    let asks = json!({"text": "wp-login", "score_from": "1.5"});
    let listed = server.get("/v1/searches").json();
    assert_eq!((&listed["searches"][0]["configured"], &listed["searches"][1]["asks"]), (&json!(true), &asks));
    let offered = ["/console/decisions?score_from=1.5&amp;q=wp-login", "&lt;b&gt;Log&lt;/b&gt;ins ⟨202E⟩"];
    check_page(&server.get("/console/decisions"), 200, &offered);
    for (fields, status) in [
        (&[("name", "probes"), ("ask.q", "x")][..], 409),
        (&[("name", ""), ("ask.q", "x")], 400),
        (&[("name", "a"), ("ask.last", "soon")], 400),
        (&[("name", "a"), ("ask.pipeline", "none")], 400),
        (&[("name", "a"), ("ask.action", "refuse")], 400),
        (&[("name", "a"), ("ask.kind", "ip")], 400),
        (&[("name", "a"), ("ask.other", "x")], 400),
        (&[("name", "a"), ("ask.q", &"x".repeat(9000))], 400),
    ] {
        let answer = send("/console/decisions/save", fields);
        assert_eq!(answer.status, status, "{fields:?}: {}", answer.body);
    }
    let answer = send("/console/decisions/unsave", &[("name", name), ("next", "/console/decisions?q=a")]);
    assert_eq!(answer.header("location"), Some("/console/decisions?q=a&done=search_removed&n=0"));
    assert_eq!(server.get("/v1/searches").json()["searches"].as_array().unwrap().len(), 1);
    assert_eq!(send("/console/decisions/unsave", &[("name", "probes")]).status, 404);
    // They outlive a restart, and there is a bound.
    for number in 0..=200 {
        let body = json!({"name": format!("search {number:03}"), "asks": {"text": "a"}}).to_string();
        let answer = server.ask("PUT", "/v1/searches", &[JSON], body.as_bytes());
        assert_eq!(answer.status, if number < 200 { 200 } else { 503 }, "{number}: {}", answer.body);
    }
    server.stop();
    let server = start(&directory, &[]);
    assert_eq!(server.get("/v1/searches").json()["searches"].as_array().unwrap().len(), 201);
    server.stop();
}

/// Texts are shown as text, with the words that were learned.
#[test]
fn texts_are_previewed_as_text() {
    with_console(&[], |server| {
        for number in 0..6 {
            let spam = format!(
                "From: a{number}@b.example\r\nSubject: offer {number}\r\n\r\nCheap pills {number}\r\n"
            );
            let ham = spam.replace("Cheap pills", "The minutes").replace("offer", "meeting");
            for (class, message) in [("spam", spam), ("ham", ham)] {
                let learned =
                    server.post(&format!("/v1/learn?pipeline=mail&class={class}"), &[MAIL], &message);
                assert_eq!(learned.status, 200, "{}", learned.body);
            }
        }
        let message =
            "From: e@b.example\r\nSubject: offer\r\n\r\nCheap pills <img src=http://evil.example/a.gif>\r\n";
        let id = decide(server, "mail", MAIL, message);
        let says = ["Text of the event", "<mark class=\"bad\">", "&lt;img src=http://evil.example/a.gif&gt;"];
        check_page(&server.get(&format!("/console/decisions/{id}")), 200, &says);
    });
}

/// Keys that stand in the same decisions are shown on the page of a key.
#[test]
fn related_keys_are_shown() {
    let parent = tempfile::tempdir().unwrap();
    let directory =
        Directory::create(&parent.path().join("data"), &[preset::find("comments").unwrap()]).unwrap();
    let server = start(&directory, &[]);
    for (user, ip) in
        [("ann", "198.51.100.7"), ("<b>eve</b>\u{202e}", "198.51.100.7"), ("ann", "198.51.100.8")]
    {
        decide(&server, "comments", JSON, &json!({"user": user, "ip": ip, "text": "hello"}).to_string());
    }
    let related = server.get("/v1/keys/related?kind=ip&value=198.51.100.7").json();
    assert_eq!((&related["decisions"], &related["partial"]), (&json!(2), &Value::Null), "{related}");
    let users: Vec<&Value> =
        related["keys"].as_array().unwrap().iter().filter(|key| key["kind"] == "user").collect();
    assert_eq!(users.len(), 2, "{related}");
    assert!(users.iter().all(|key| key["decisions"] == 1), "{related}");
    let key = server.get("/console/key?pipeline=comments&kind=ip&value=198.51.100.7");
    check_page(
        &key,
        200,
        &["Related keys", "&lt;b&gt;eve&lt;/b&gt;⟨202E⟩", "class=\"related\"", "latest 2 decisions"],
    );
    let none = server.get("/v1/keys/related?kind=nobody&value=1");
    assert_eq!(none.status, 400, "{}", none.body);
    assert_eq!(server.get("/v1/keys/related?kind=ip&value=").status / 100, 4);
    server.stop();
}

/// A rule that fires unlike its past is named, with the decisions behind it.
#[test]
fn an_unusual_hour_is_named() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    std::fs::write(directory.config_path(), POSTS).unwrap();
    let time = SetClock::default();
    let clock = time.clone();
    let server = start_by(&directory, &[], |_| clock.clock());
    let hour = |ago: i64, plain: usize, held: usize| {
        time.set(-3600 * ago);
        let lines: Vec<String> = (0..plain + held)
            .map(|number| {
                json!({"user": format!("u{number}"), "text": if number < held { "buy" } else { "" }})
                    .to_string()
            })
            .collect();
        let answer =
            server.post("/v1/decide/batch", &["Content-Type: application/x-ndjson"], &lines.join("\n"));
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    for ago in (2..8).rev() {
        hour(ago, 95, 5);
    }
    time.set(0);
    let quiet = server.get("/v1/anomalies").json();
    let sorts = |found: &Value| -> Vec<String> {
        let found = found["anomalies"].as_array().unwrap().iter();
        found
            .map(|one| format!("{} {}", one["sort"].as_str().unwrap(), one["subject"].as_str().unwrap_or("")))
            .collect()
    };
    assert_eq!(sorts(&quiet), ["traffic "], "an hour without any decision");
    hour(0, 40, 60);
    time.set(30);
    assert_eq!(sorts(&server.get("/v1/anomalies").json()), ["traffic "], "it is looked for once a minute");
    time.set(61);
    let found = server.get("/v1/anomalies?pipeline=main").json();
    let named = sorts(&found);
    for wanted in ["rule HELD", "action review_before"] {
        assert!(named.iter().any(|one| one == wanted), "{wanted}: {found}");
    }
    let rule = found["anomalies"].as_array().unwrap().iter().find(|one| one["sort"] == "rule").unwrap();
    assert_eq!((&rule["seen"], &rule["search"]["rule"]), (&json!(60), &json!("HELD")));
    let from = rule["search"]["from"].as_str().unwrap();
    let behind = server.get(&format!("/v1/decisions?pipeline=main&rule=HELD&from={from}&limit=1000")).json();
    assert_eq!(behind["decisions"].as_array().unwrap().len(), 60);
    check_page(
        &server.get("/console/"),
        200,
        &["Unlike its past", "`HELD` fired for 60 of 100", "rule=HELD"],
    );
    assert_eq!(server.get("/v1/anomalies?pipeline=none").status, 404 - 4);
    server.stop();
}

#[test]
fn all_that_pages_load_is_small() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("console");
    let mut bytes = 0;
    for file in
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).filter(|file| file.is_file())
    {
        if file.extension().is_some_and(|extension| extension != "toml") {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            std::io::Write::write_all(&mut packed, &std::fs::read(file).unwrap()).unwrap();
            bytes += packed.finish().unwrap().len();
        }
    }
    assert!((1_000..300 << 10).contains(&bytes), "{bytes} bytes");
}

/// Scores that are fitted to what people said, looked at, and put into the editor.
#[test]
fn scores_are_fitted_and_previewed() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    std::fs::write(directory.config_path(), POSTS).unwrap();
    let server = start(&directory, &[]);
    let own = secret(check_page(&server.get("/console/learners"), 200, &["Fit scores to judgements"]));
    let ended = || {
        let fields =
            [("secret", own.as_str()), ("pipeline", "main"), ("span", "1h"), ("false_positive", "10")];
        let begun = server.post("/console/rules/fit", &[FORM], &form(&fields));
        assert_eq!(begun.status, 303, "{}", begun.body);
        let trial = begun.header("location").unwrap().split('#').next().unwrap().to_owned();
        loop {
            let page = server.get(&trial).body;
            if page.contains("data-state=\"done\"") {
                break (trial, page);
            }
        }
    };
    assert!(ended().1.contains("0 good and 0 bad events are judged"));
    for number in 0..60 {
        let event = json!({"user": "ann", "text": "hello"});
        let id = server.post("/v1/decide", &[JSON], &event.to_string()).json()["id"].clone();
        let said = json!({"id": id, "class": if number % 2 == 0 { "spam" } else { "ham" }});
        assert_eq!(server.post("/v1/feedback", &[JSON], &said.to_string()).status, 200);
    }
    let (trial, page) = ended();
    for text in
        ["Fitted scores", "Fitted to 30 good and 30 bad decisions:", "HELD", "Put them into the editor"]
    {
        assert!(page.contains(text), "{text:?} is not in {page}");
    }
    let scored = "[[rule]]\nname = &quot;HELD&quot;\nscore = ";
    assert!(!page.contains(scored), "what is in force is judged by");
    let taken = server.get(&format!("{trial}&fitted=true"));
    check_page(&taken, 200, &[scored]);
    let forged = form(&[("pipeline", "main"), ("span", "1h"), ("false_positive", "10")]);
    assert_eq!(server.post("/console/rules/fit", &[FORM], &forged).status / 100, 4);
    server.stop();
}

/// A text of rules that is checked, tried on the past, judged in shadow, enforced, and gone back from, by forms alone.
#[test]
fn rules_are_edited_tried_and_taken_back() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    std::fs::write(directory.config_path(), POSTS).unwrap();
    let server = start(&directory, &[]);
    for user in ["ann", "bob"] {
        let event = json!({"user": user, "text": "hello"});
        assert_eq!(server.post("/v1/decide", &[JSON], &event.to_string()).status, 200);
    }
    let first = server.get("/v1/rules").json()["version"].as_str().unwrap().to_owned();
    let page = server.get("/console/rules/edit?rule=HELD");
    let own = secret(check_page(
        &page,
        200,
        &["[[rule]]", "name = &quot;HELD&quot;", "Nothing is changed by that"],
    ));
    let send = |what: &str, text: &str| {
        let fields =
            [("secret", own.as_str()), ("pipeline", "main"), ("text", text), ("span", "1h"), ("do", what)];
        server.post("/console/rules/edit", &[FORM], &form(&fields))
    };
    let wrong = "[[rule]]\r\nname = \"HELD\"\r\nwhen = \"user == 'ann' && txt != ''\"\r\n";
    let answer = send("enforce", wrong);
    check_page(
        &answer,
        200,
        &["One mistake; nothing has changed", "data-line=\"3\"", "did you mean `text`?", "^</pre>"],
    );
    let right = wrong.replace("txt", "text");
    check_page(&send("check", &right), 200, &["Nothing is wrong with it. It would change:", "rule.HELD"]);
    let tried = send("try", &right);
    assert_eq!(tried.status, 303, "{}", tried.body);
    let trial = tried.header("location").unwrap().to_owned();
    let page = loop {
        let answer = server.get(trial.split('#').next().unwrap());
        let page = check_page(&answer, 200, &["user == 'ann'", "What would have been decided"]).to_owned();
        if page.contains("data-state=\"done\"") {
            break page;
        }
        assert!(page.contains("Look again"), "{page}");
    };
    for text in ["The decision that changes", "review before", "−<bdi class=\"value\">HELD</bdi>", "50 %"] {
        assert!(page.contains(text), "{text:?} is not in {page}");
    }
    assert_eq!(
        send("shadow", &right).header("location"),
        Some("/console/rules?pipeline=main&done=shadowed&n=0")
    );
    let candidate = server.get("/console/rules/version?version=candidate");
    check_page(&candidate, 200, &["<ins>+when", "<del>-when", "Enforce the candidate"]);
    check_page(&server.get("/console/rules/edit?candidate=true"), 200, &["user == 'ann'"]);
    assert_eq!(
        send("enforce", &right).header("location"),
        Some("/console/rules?pipeline=main&done=enforced&n=0")
    );
    let now = server.get("/v1/rules").json()["version"].as_str().unwrap().to_owned();
    check_page(
        &server.get(&format!("/console/rules/version?version={now}")),
        200,
        &["in force", "<ins>", &first],
    );
    let did = server.get("/console/rules/impact?rule=HELD&span=1h");
    check_page(&did, 200, &["What HELD did", "Take it back", "review before", "2 decisions, those first"]);
    let from = "2026-05-17T09:00:00Z";
    let order =
        form(&[("secret", &own), ("pipeline", "main"), ("rule", "HELD"), ("span", "1h"), ("from", from)]);
    let answer = server.post("/console/rules/correct", &[FORM], &order);
    assert!(answer.header("location").unwrap().ends_with("&done=correcting&n=0"), "{}", answer.body);
    while server.get("/v1/rules/corrections").json()["state"] == "running" {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    check_page(
        &server.get("/console/rules/impact?rule=HELD&span=1h"),
        200,
        &["taken back", "done · 2 · local"],
    );
    let back = form(&[("secret", &own), ("pipeline", "main"), ("version", &first)]);
    assert_eq!(server.post("/console/rules/rollback", &[FORM], &back).status, 303);
    assert_eq!(server.get("/v1/rules").json()["version"], first.as_str());
    assert_eq!(server.get("/console/rules/names").json()["names"][0]["of"], "fact");
    server.stop();
}

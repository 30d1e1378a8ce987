//! Commands that ask a server what its console shows: each says what the HTTP interface says.

use std::fs::File;
use std::io::Write;

use serde_json::{Value, json};

use crate::follow::line;
use crate::program::{Data, Ran, Server, run};

const CONFIG: &str = r#"
[[label]]
name = "crawler"
of = "ip"
keep = "30d"
decision = "ban"

[[limit]]
name = "signups"
key = ["ip", "device"]
count = 3
per = "1h"

[[limit.override]]
key = ["203.0.113.8", "monitoring"]
exempt = true
"#;

/// A data directory with more in its configuration.
fn data(more: &str) -> Data {
    let data = Data::new(&["web"]);
    let path = data.path().join("tollhouse.toml");
    let mut file = File::options().append(true).open(path).unwrap();
    file.write_all(more.as_bytes()).unwrap();
    data
}

/// The answer of a route.
fn answer(server: &Server, path: &str) -> Value {
    let mut answer = ureq::get(format!("{}{path}", server.url)).call().unwrap();
    serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap()
}

/// Runs a command on a server.
fn ask(server: &Server, args: &[&str]) -> Ran {
    run(args.iter().chain(&["--server", &server.url]), "")
}

/// The objects that a command prints.
#[track_caller]
fn objects(server: &Server, args: &[&str]) -> Vec<Value> {
    ask(server, &[args, &["--json"]].concat()).expect(0).json()
}

/// The output of a command for people.
#[track_caller]
fn text(server: &Server, args: &[&str], code: i32) -> String {
    ask(server, args).expect(code).stdout
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(text.contains(part), "no {part} in {text}"));
}

#[test]
fn bans_are_listed_put_on_and_lifted() {
    let data = data(CONFIG);
    let server = Server::start(&data.path(), &[]);
    assert_eq!(text(&server, &["bans"], 0), "nothing is banned\n");
    for value in ["192.0.2.1", "192.0.2.2", "198.51.100.7"] {
        let add = ["bans", "add", value, "--kind", "ip", "--label", "crawler", "--for", "4h"];
        has(&text(&server, &add, 0), &[value, "is banned until"]);
    }
    let add = [
        "bans",
        "add",
        "192.0.2.3",
        "--kind",
        "ip",
        "--label",
        "crawler",
        "--for",
        "1h",
        "--pipeline",
        "web",
    ];
    let made = objects(&server, &add);
    assert_eq!((made.len(), &made[0]["value"]), (1, &json!("192.0.2.3")));

    let page = answer(&server, "/v1/bans/search");
    assert_eq!(page["bans"].as_array().unwrap().len(), 4, "{page}");
    assert_eq!(json!(objects(&server, &["bans"])), page["bans"]);
    let page = answer(&server, "/v1/bans/search?text=198.51");
    assert_eq!(json!(objects(&server, &["bans", "198.51"])), page["bans"]);
    assert_eq!(objects(&server, &["bans", "--label", "other"]), [] as [Value; 0]);
    let shown = text(&server, &["bans", "192.0.2", "--type", "ban", "--pipeline", "web"], 0);
    has(&shown, &["value", "192.0.2.1", "192.0.2.2", "192.0.2.3", "crawler", "API"]);
    let cut = ask(&server, &["bans", "--limit", "2"]).expect(0);
    assert_eq!(cut.stdout.lines().count(), 3, "{}", cut.stdout);
    has(&cut.stderr, &["of 4 bans in all", "--limit"]);

    assert_eq!(
        json!(objects(&server, &["bans", "show", "192.0.2.1"])),
        answer(&server, "/v1/bans?ip=192.0.2.1")
    );
    has(&text(&server, &["bans", "show", "192.0.2.1"], 0), &["192.0.2.1", "crawler"]);
    assert_eq!(text(&server, &["bans", "show", "192.0.2.9"], 1), "nothing bans 192.0.2.9\n");

    assert_eq!(text(&server, &["bans", "lift", "192.0.2.1"], 0), "the ban on 192.0.2.1 is lifted\n");
    let lifted = ask(&server, &["bans", "lift", "192.0.2.2", "192.0.2.9", "--json"]).expect(1).json();
    let expected = [json!({"value": "192.0.2.2", "lifted": 1}), json!({"value": "192.0.2.9", "lifted": 0})];
    assert_eq!(lifted, expected);
    assert_eq!(text(&server, &["bans", "lift", "192.0.2.9"], 1), "nothing bans 192.0.2.9\n");
    assert_eq!(answer(&server, "/v1/bans/search")["bans"].as_array().unwrap().len(), 2);

    let unknown = ["bans", "add", "192.0.2.1", "--kind", "ip", "--label", "nothing", "--for", "4h"];
    has(&ask(&server, &unknown).expect(2).stderr, &["error", "nothing"]);
}

#[test]
fn limits_have_exceptions_and_keys_begin_anew() {
    let data = data(CONFIG);
    let server = Server::start(&data.path(), &[]);
    assert_eq!(json!(objects(&server, &["limits"])), answer(&server, "/v1/limits"));
    has(&text(&server, &["limits"], 0), &["signups", "ip, device", "1h", "sliding", "enforce"]);

    let key = ["--key", "ip=203.0.113.7", "--key", "device=till-1"];
    let except =
        |more: &[&'static str]| -> Vec<&str> { [&["limits", "except", "signups"][..], &key, more].concat() };
    let end = ["--count", "500", "--until", "2100-01-01T00:00:00Z"];
    has(
        &text(&server, &except(&end), 0),
        &["signups is 500 for device=till-1 ip=203.0.113.7 until 2100-01-01"],
    );
    let overrides = "/v1/limits/signups/overrides";
    let listed = objects(&server, &["limits", "exceptions", "signups"]);
    assert_eq!(listed, [answer(&server, overrides)]);
    assert_eq!(listed[0]["overrides"][0]["count"], 500);
    let shown = text(&server, &["limits", "exceptions", "signups"], 0);
    has(&shown, &["device=till-1", "500", "posted", "device=monitoring", "not limited", "configured"]);
    let exempt = objects(&server, &except(&["--exempt", "--for", "1h"]));
    assert_eq!(exempt, [answer(&server, overrides)]);
    assert_eq!(exempt[0]["overrides"][0]["exempt"], true);
    assert!(exempt[0]["overrides"][0]["until"].is_string(), "{exempt:?}");
    has(&text(&server, &except(&["--remove"]), 0), &["as for others"]);
    has(&text(&server, &except(&["--remove"]), 1), &["no posted exception"]);
    assert_eq!(answer(&server, overrides)["overrides"], json!([]));

    let body = json!({"key": {"ip": "203.0.113.7", "device": "till-1"}, "cost": 2}).to_string();
    let send = |call: &str| -> Value {
        let url = format!("{}/v1/limits/signups/{call}", server.url);
        let sent = ureq::post(&url).header("content-type", "application/json").send(&body);
        serde_json::from_str(&sent.unwrap().body_mut().read_to_string().unwrap()).unwrap()
    };
    assert_eq!(send("take")["limits"][0]["used"], 2);
    let reset = [&["limits", "reset", "signups"][..], &key].concat();
    let used = objects(&server, &[&reset[..], &["--used", "1"]].concat());
    assert_eq!(used[0]["limits"][0]["used"], 1, "{used:?}");
    has(&text(&server, &reset, 0), &["signups: 0 of 3 used by device=till-1 ip=203.0.113.7"]);
    assert_eq!(send("peek")["limits"][0]["used"], 0);

    for args in [
        &["limits", "exceptions", "sign"][..],
        &["limits", "except", "sign", "--key", "ip=203.0.113.7", "--exempt"],
        &["limits", "except", "sign", "--key", "ip=203.0.113.7", "--remove"],
        &["limits", "reset", "sign", "--key", "ip=203.0.113.7"],
    ] {
        has(&ask(&server, args).expect(2).stderr, &["there is no limit `sign`", "/v1/limits"]);
    }
    let part = ["limits", "reset", "signups", "--key", "ip=203.0.113.7"];
    has(&ask(&server, &part).expect(2).stderr, &["counts by `device`, which is not given"]);
    for args in [except(&[]), except(&["--count", "5", "--exempt"]), except(&["--remove", "--for", "1h"])] {
        ask(&server, &args).expect(2);
    }
}

#[test]
fn sessions_tokens_and_settings_are_shown_to_administrators() {
    let data = data(CONFIG);
    let token = data.run(&["token", "add", "root", "--scope", "administer"], "").expect(0);
    let token = token.stdout.trim().to_owned();
    let password = "correct horse battery";
    data.run(&["user", "add", "ann", "--role", "viewer", "--password-stdin"], password).expect(0);
    let server = Server::start(&data.path(), &[]);
    let answer = |path: &str| -> Value {
        let asked =
            ureq::get(format!("{}{path}", server.url)).header("authorization", format!("Bearer {token}"));
        serde_json::from_str(&asked.call().unwrap().body_mut().read_to_string().unwrap()).unwrap()
    };
    let ask = |args: &[&str]| ask(&server, &[args, &["--token", &token]].concat());

    assert_eq!(ask(&["sessions"]).expect(0).stdout, "nobody is logged in\n");
    let login = json!({"name": "ann", "password": password}).to_string();
    let begin = || {
        let begun =
            ureq::post(format!("{}/v1/sessions", server.url)).header("content-type", "application/json");
        assert_eq!(begun.send(&login).unwrap().status(), 201);
    };
    begin();
    begin();
    let listed = ask(&["sessions", "--json"]).expect(0).json();
    assert_eq!(json!(listed), answer("/v1/sessions")["sessions"]);
    has(&ask(&["sessions"]).expect(0).stdout, &["ann", "viewer", "127.0.0.1"]);
    let ids: Vec<&str> = listed.iter().map(|session| session["id"].as_str().unwrap()).collect();
    has(&ask(&["sessions", "end", ids[0]]).expect(0).stdout, &[ids[0], "is ended"]);
    let ended = ask(&["sessions", "end", ids[1], "--json"]).expect(0).json();
    assert_eq!(ended, [json!({"id": ids[1], "ended": true})]);
    assert_eq!(answer("/v1/sessions")["sessions"], json!([]));
    has(&ask(&["sessions", "end", ids[0]]).expect(2).stderr, &["there is no such session"]);

    let mut listed = ask(&["token", "list", "--json"]).expect(0).json();
    let mut told = answer("/v1/tokens")["tokens"].as_array().unwrap().clone();
    listed.iter_mut().chain(&mut told).for_each(|token| {
        // Each request is a use.
        token.as_object_mut().unwrap().remove("used");
    });
    assert_eq!(listed, told);
    assert_eq!((listed.len(), &listed[0]["name"]), (1, &json!("root")));
    has(&ask(&["token", "list"]).expect(0).stdout, &["root", "administer", "all pipelines", "used 2"]);

    let all = ask(&["settings", "--defaults", "--json"]).expect(0).json();
    assert_eq!(json!(all), answer("/v1/settings")["settings"]);
    let set = ask(&["settings", "--json"]).expect(0).json();
    assert!(!set.is_empty() && set.len() < all.len(), "{} of {}", set.len(), all.len());
    assert!(set.iter().all(|setting| setting["origin"] != "default"), "{set:?}");
    let some = ask(&["settings", "memory", "--scope", "node", "--defaults", "--json"]).expect(0).json();
    assert_eq!(json!(some), answer("/v1/settings?scope=node&text=memory")["settings"]);
    let shown = ask(&["settings", "memory", "--defaults"]).expect(0).stdout;
    has(&shown, &["# node", "ledger.memory = ", "# default"]);
    has(&ask(&["settings", "no-such"]).expect(0).stdout, &["nobody has set such a setting"]);
    has(&crate::server_commands::ask(&server, &["settings"]).expect(2).stderr, &["token"]);
}

#[test]
fn sources_and_sinks_are_shown_with_their_faults() {
    let plain = Data::new(&["web"]);
    let server = Server::start(&plain.path(), &[]);
    assert_eq!(text(&server, &["sources"], 0), "no [[source]] is configured\nno [[sink]] is configured\n");
    assert_eq!(objects(&server, &["sources"]), [] as [Value; 0]);
    drop(server);
    let logs = tempfile::tempdir().unwrap();
    std::fs::write(logs.path().join("a.log"), line(1, "a") + "no request\n").unwrap();
    let source = format!("\n[[source]]\nname = \"site\"\nfiles = ['{}/*.log']\n", logs.path().display());
    let data = data(&source);
    let server = Server::start(&data.path(), &[]);
    let source = || answer(&server, "/v1/sources")["sources"][0].clone();
    for _ in 0..1000 {
        let source = source();
        if source["bad"] == 1 && source["events"] == 1 && source["lag"] == 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let mut expected = source();
    expected["of"] = json!("source");
    assert_eq!(objects(&server, &["sources"]), [expected]);
    let shown = text(&server, &["sources"], 0);
    has(&shown, &["source", "site", "files", "web", "reading", "lag", "no event", "no [[sink]]"]);
}

#[test]
fn counts_common_facts_and_look_ups_are_those_of_the_server() {
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let paths = (0..12).map(|number| format!("page-{number}")).chain((0..12).map(|_| "wave".to_owned()));
    for (second, path) in paths.enumerate() {
        let url = format!("{}/v1/decide", server.url);
        let line = line(second.try_into().unwrap(), &path);
        let sent = ureq::post(&url).header("content-type", "text/plain").send(&line);
        assert_eq!(sent.unwrap().status(), 200);
    }

    // A minute may end between two requests, so both are of the same time.
    let day = ["--from", "2026-01-01T00:00:00Z", "--to", "2026-01-02T00:00:00Z", "--width", "1h"];
    let fixed = objects(&server, &[&["counts"][..], &day].concat());
    let route = "/v1/counts?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z&width=1h";
    assert_eq!(fixed, [answer(&server, route)]);
    let counts = objects(&server, &["counts", "--pipeline", "web", "--rules", "*"]);
    let sum = |buckets: &Value| -> u64 {
        buckets.as_array().unwrap().iter().map(|bucket| bucket["decisions"].as_u64().unwrap()).sum()
    };
    assert_eq!(sum(&counts[0]["buckets"]), 24, "{counts:?}");
    has(&text(&server, &["counts"], 0), &["24 decisions of web", "start", "decisions", "accept"]);
    has(&ask(&server, &["counts", "--width", "7m"]).expect(2).stderr, &["width"]);
    has(&ask(&server, &["counts", "--pipeline", "none"]).expect(2).stderr, &["none"]);

    let common = objects(&server, &["decisions", "--text", "wave", "--common"]);
    assert_eq!(common, [answer(&server, "/v1/decisions/common?text=wave")]);
    assert_eq!((&common[0]["decisions"], &common[0]["others"]), (&json!(12), &json!(12)));
    let shown = text(&server, &["decisions", "--text", "wave", "--common"], 0);
    has(&shown, &["12 decisions of web, and 12 before them", "http.path == '/wave'"]);
    has(&text(&server, &["decisions", "--text", "no-such", "--common"], 0), &["no decision fits"]);
    data.run(&["decisions", "--common"], "").expect(2);

    // Windows end now: what is counted is compared, and not when.
    let known = objects(&server, &["stats", "--lookup", "192.0.2.7"]).remove(0);
    let told = answer(&server, "/v1/keys?value=192.0.2.7");
    let kinds = |answer: &Value| -> Vec<Value> {
        let keys = answer["pipelines"][0]["keys"].as_array().unwrap();
        keys.iter().map(|key| json!([key["kind"], key["shingle"], key["first"], key["last"]])).collect()
    };
    assert!(kinds(&told).iter().any(|key| key[0] == "ip"), "{told}");
    assert_eq!(kinds(&known), kinds(&told));
    has(&text(&server, &["stats", "--lookup", "192.0.2.7"], 0), &["web", "ip", "192.0.2.7", "seen"]);
    has(&text(&server, &["stats", "--lookup", "192.0.2.99"], 0), &["nothing is counted of 192.0.2.99"]);
    server.end(rustix::process::Signal::TERM);
    let local = data.run(&["stats", "--lookup", "192.0.2.7", "--json"], "").expect(0).json();
    assert_eq!(kinds(&local[0]), kinds(&told), "files say the same");
}

//! The console in Chromium: each page, light and dark, on a phone and wide, by keyboard and without scripts.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use access::{Role, StoredPassword, UserFile};
use engine::{Directory, Engine};
use plan::preset;
use serde_json::json;
use server::Clock;
use stats::random::Random;

use crate::harness::{JSON, LOG, MAIL, NOW, SetClock, TestServer, configure, start, start_by};
use crate::{installing, npm};

const PURPOSE: &str = "the console in Chromium";
const TOKEN: &str = "correct-horse-battery";
const SENDER: &str = "win@cash.example";
/// The test text that is always refused.
const REFUSED: &str = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
const LABELS: &str = "
[[label]]
name = \"scanner\"
of = \"ip\"
keep = \"30d\"
decision = \"ban\"

[[limit]]
name = \"logins\"
description = \"Attempts to log in\"
key = [\"ip\"]
count = 10
per = \"10m\"
ban = { after = 1, within = \"10m\", for = \"1h\" }

[[limit.override]]
key = [\"192.0.2.200\"]
count = 100

[[source]]
name = \"nginx\"
files = [\"/nowhere/at/all/access.log\"]
pipeline = \"web\"
";

/// A server with mail, requests, posts and bans in it; and the addresses of its pages.
fn filled(path: &Path) -> (TestServer, serde_json::Value, String) {
    let presets: Vec<_> = ["web", "mail", "comments"].into_iter().filter_map(preset::find).collect();
    let directory = Directory::create(path, &presets).unwrap();
    configure(&directory, LABELS);
    let server = start(&directory, &[("review.agreement", "2")]);
    let decide = |pipeline: &str, media: &str, body: &str| {
        let answer = server.post(&format!("/v1/decide?pipeline={pipeline}"), &[media], body);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["id"].as_str().unwrap().to_owned()
    };
    let mut probe = String::new();
    for minute in 0..40 {
        for (client, request) in
            [("192.0.2.7", "GET /.env"), ("192.0.2.7", "GET /wp-login.php"), ("198.51.100.3", "GET /")]
        {
            let line = format!(
                "{client} - - [17/May/2026:09:{minute:02}:00 +0000] \"{request} HTTP/1.1\" 404 10 \"-\" \"<b>curl\u{202e}</b>/8.0\""
            );
            let id = decide("web", LOG, &line);
            if request != "GET /wp-login.php" {
                let class = if request == "GET /" { "pardon" } else { "complaint" };
                let said = json!({"id": id, "class": class}).to_string();
                assert_eq!(server.post("/v1/feedback", &[JSON], &said).status, 200);
            }
            if request == "GET /.env" {
                probe = id;
            }
        }
    }
    let long = "Wort".repeat(30_000);
    let mut mail = String::new();
    for (from, subject) in [
        ("Ann <ann@example.org>", "The minutes of Monday"),
        ("\"PayPal\" <win@cash.example>", "CHEAP PILLS!!! You have WON $1,000,000"),
        ("<script>alert(1)</script> <a@b.example>", "<img src=x onerror=alert(1)>\u{202e}"),
        ("Bob <bob@example.net>", &long),
    ] {
        let message = format!(
            "From: {from}\r\nTo: bob@example.net\r\nSubject: {subject}\r\n\r\n{subject} http://192.0.2.7/buy\r\n{}\r\n",
            if from.contains(SENDER) { REFUSED } else { "" }
        );
        mail = decide("mail", MAIL, &message);
    }
    let toml = "Content-Type: application/toml";
    let look = "[[rule]]\nname = \"LOOK\"\ndescription = \"A person looks at <b>it</b>\"\nwhen = \"text != ''\"\nscore = 0.0\neffects = [\"set review_before\"]\n";
    assert_eq!(server.post("/v1/rules?pipeline=comments", &[toml], look).status, 200);
    for user in ["ann", "bob", "<b>eve</b>"] {
        let post = json!({"user": user, "ip": "198.51.100.7", "text": format!("Buy now at http://cash.example {user}"), "exposure": 5});
        decide("comments", JSON, &post.to_string());
    }
    // What people look at: on two of them all have voted, on one of these a third decides.
    let vote = |id: &str, by: &str, verdict: &str| {
        let vote = json!({"by": by, "verdict": verdict}).to_string();
        assert_eq!(server.post(&format!("/v1/reviews/{id}/decide"), &[JSON], &vote).status, 200);
    };
    let mut posts = Vec::new();
    for number in 0..8 {
        let text = format!(
            "Number {number} of many posts, in which <i>somebody</i> says at length what is for sale at http://fine{}.example",
            number % 2
        );
        let post = json!({"user": format!("u{number}"), "ip": format!("203.0.113.{number}"), "text": text, "exposure": 100 - number});
        let id = decide("comments", JSON, &post.to_string());
        vote(&id, "<b>cid</b>", "publish");
        posts.push(id);
    }
    vote(&posts[0], "dan", "publish");
    vote(&posts[2], "dan", "refuse");
    vote(&posts[2], "lea", "refuse");
    for value in ["192.0.2.9", "192.0.2.7", "198.51.100.77", "2001:db8::7"] {
        let ban = json!({"pipeline": "web", "kind": "ip", "label": "scanner", "value": value, "for": "7d"});
        assert_eq!(server.post("/v1/bans", &[JSON], &ban.to_string()).status, 200);
    }
    for (value, text) in [
        ("192.0.2.7", "Asked about the ban <b>on the phone</b>\u{202e}"),
        ("192.0.2.7", "x".repeat(900).as_str()),
    ] {
        let note = json!({"value": value, "text": text}).to_string();
        assert_eq!(server.post("/v1/notes", &[JSON], &note).status, 200);
        let entry = json!({"value": "203.0.113.0/24", "why": text, "for": "30d"}).to_string();
        assert_eq!(server.post("/v1/allow", &[JSON], &entry).status, 200);
    }
    for (client, cost) in [("192.0.2.7", 11), ("198.51.100.3", 10), ("198.51.100.4", 8), ("2001:db8::7", 2)] {
        let taken = json!({"key": {"ip": client}, "cost": cost}).to_string();
        server.post("/v1/limits/logins/take", &[JSON], &taken);
    }
    for client in ["198.51.100.9", "<b>\u{202e}nobody</b>"] {
        let exception = json!({"key": {"ip": client}, "exempt": true}).to_string();
        let url = "/v1/limits/logins/overrides";
        assert_eq!(server.ask("PUT", url, &[JSON], exception.as_bytes()).status, 200);
    }
    let search =
        json!({"name": "<b>probes\u{202e}</b>", "asks": {"pipeline": "web", "text": ".env"}}).to_string();
    assert_eq!(server.ask("PUT", "/v1/searches", &[JSON], search.as_bytes()).status, 200);
    let version = server.get("/v1/rules?pipeline=web").json()["version"].as_str().unwrap().to_owned();
    let rules = "[[rule]]\nname = \"NEW\"\nwhen = \"http.status == 404\"\nscore = 20.0\n";
    assert_eq!(server.post("/v1/rules?pipeline=web", &[toml], rules).status, 200);
    let ended = |request: serde_json::Value| {
        let begun = server.post("/v1/backtests", &[JSON], &request.to_string()).json();
        let trial = format!("/console/rules/edit?pipeline=web&trial={}", begun["id"].as_str().unwrap());
        while !server.get(&trial).body.contains("data-state=\"done\"") {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        trial
    };
    let trial = ended(json!({"pipeline": "web", "rules": rules, "span": "30d"}));
    let fit = ended(json!({"pipeline": "web", "span": "30d", "fit": {}}));
    let shown = server.get(&fit).body;
    assert!(shown.contains("Fitted to 40 good and 40 bad decisions"), "{shown}");
    assert_eq!(server.post("/v1/snapshots", &[], "").status, 201);
    let decision = |id: &str| format!("/console/decisions/{id}");
    let pages = json!({
        "overview": "/console/",
        "decisions": "/console/decisions",
        "common": "/console/decisions/common?pipeline=web&where=http.status+%3D%3D+404",
        "search": "/console/decisions?pipeline=web&where=http.status+%3D%3D+404",
        "decision": decision(&probe),
        "mail": decision(&mail),
        "look-up": "/console/keys?q=192.0.2.7",
        "keys": "/console/keys?pipeline=web&kind=ip",
        "unknown": "/console/keys?q=203.0.113.250",
        "key": "/console/key?pipeline=web&kind=ip&value=192.0.2.7",
        "bans": "/console/bans",
        "allowed": "/console/bans/allowed",
        "similar": format!("{}/similar", decision(&mail)),
        "ban-import": "/console/bans/import",
        "limits": "/console/limits",
        "limit": "/console/limits/limit?name=logins&value=198.51.100.9",
        "rules": "/console/rules",
        "rule": "/console/rules?pipeline=mail&sort=score",
        "editor": "/console/rules/edit?pipeline=web&rule=PROBE",
        "trial": trial,
        "fit": fit,
        "fitted": format!("{fit}&fitted=true"),
        "impact": "/console/rules/impact?pipeline=web&rule=PROBE&span=30d",
        "version": format!("/console/rules/version?pipeline=web&version={version}"),
        "learners": "/console/learners?pipeline=mail",
        "line": "/console/learners?pipeline=mail&line=reject&at=3",
        "reviews": "/console/reviews?by=ann",
        "review": format!("/console/reviews/{}?by=lea", posts[7]),
        "decided": format!("/console/reviews/{}?by=lea", posts[2]),
        "alike": "/console/reviews/alike?pipeline=comments&kind=link_host&value=fine1.example&by=zoe",
        "agreement": "/console/reviews/agreement",
        "settings": "/console/settings",
        "access": "/console/settings/access",
        "audit": "/console/settings/audit?verify=yes",
        "snapshots": "/console/settings/snapshots",
        "nodes": "/console/settings/nodes",
        "sources": "/console/settings/sources",
        "defaults": "/console/settings?scope=web&defaults=yes&text=rule.PROBE",
    });
    (server, pages, probe)
}

/// A server at which a person of each role may log in, with a decision in it.
fn peopled(path: &Path) -> TestServer {
    let directory = Directory::create(path, &[preset::find("web").unwrap()]).unwrap();
    let people = UserFile::in_directory(directory.path());
    for role in Role::ALL {
        let stored = StoredPassword::of(TOKEN).unwrap();
        people.change(|store| store.add(role.word(), role, stored, NOW)).unwrap();
    }
    start_by(&directory, &[], |engine| {
        let line = request(1, &mut Random::new(7));
        let event = content::web::access_log::event(line.as_bytes()).unwrap();
        let prepared = engine.prepare(&engine.plan().pipelines[0], event, NOW);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(engine.decide(vec![prepared]));
        Clock::driven(|| NOW)
    })
}

/// A server at which a wave of requests of many addresses for one page began ten minutes ago, after two hours of others.
fn waved(path: &Path) -> TestServer {
    let directory = Directory::create(path, &[preset::find("web").unwrap()]).unwrap();
    let clock = SetClock::default();
    let server = start_by(&directory, &[], |_| clock.clock());
    let ask = |second: i64, client: &str, target: &str| {
        clock.set(second);
        let at =
            format!("17/May/2026:{:02}:{:02}:{:02} +0000", 10 + second / 3600, second / 60 % 60, second % 60);
        let line = format!("{client} - - [{at}] \"GET {target} HTTP/1.1\" 200 10 \"-\" \"Mozilla/5.0\"");
        let answer = server.post("/v1/decide?pipeline=web", &[LOG], &line);
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    for number in 0..120 {
        ask(number * 50, &format!("198.51.100.{}", number % 40), &format!("/shop/{}", number % 13));
    }
    for number in 0..120 {
        ask(
            6660 + number * 4,
            &format!("203.0.113.{}", number % 200),
            &format!("/gift-card-generator?n={number}"),
        );
    }
    clock.set(7200);
    server
}

/// Runs a program of cases in Chromium against servers: `TOLLHOUSE_PICTURES=folder` keeps pictures, `TOLLHOUSE_CASE=words` runs some
/// cases. Says why, and does nothing, where there is no browser.
fn drive(program: &str, servers: impl FnOnce() -> serde_json::Value) {
    let found =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|ran| ran.status.success());
    for program in ["chromium", "node", "npm"] {
        if !found(program) {
            println!("skipped: {PURPOSE}: {program} is not installed");
            return;
        }
    }
    let home = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let Some(packages) = npm::packages(home, &npm::CHALLENGE_PACKAGES, PURPOSE) else { return };
    let mut asked = servers();
    asked["chromium"] = "/usr/bin/chromium".into();
    asked["packages"] = packages.to_str().into();
    asked["pictures"] = std::env::var("TOLLHOUSE_PICTURES").ok().into();
    asked["only"] = std::env::var("TOLLHOUSE_CASE").ok().into();
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/console").join(program);
    let ran = Command::new("node").arg(driver).arg(asked.to_string()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    println!("{said}");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.lines().any(|line| line.starts_with("ok: ")));
}

/// Every page, with every action.
#[test]
fn the_console_works_in_a_browser() {
    let parent = tempfile::tempdir().unwrap();
    let mut running = Vec::new();
    drive("browser.mjs", || {
        let (server, pages, decision) = filled(&parent.path().join("open"));
        let web = [preset::find("web").unwrap()];
        let locked = Directory::create(&parent.path().join("locked"), &web).unwrap();
        let locked = start(&locked, &[("server.tokens", &format!("[\"{TOKEN}\"]"))]);
        let waved = waved(&parent.path().join("waved"));
        let peopled = peopled(&parent.path().join("peopled"));
        let asked = json!({
            "open": format!("http://{}", server.address),
            "locked": format!("http://{}", locked.address),
            "waved": format!("http://{}", waved.address),
            "peopled": format!("http://{}", peopled.address),
            "token": TOKEN,
            "blocked": "192.0.2.7",
            "pages": pages,
            "decision": decision,
        });
        running.extend([server, locked, waved, peopled]);
        asked
    });
    running.into_iter().for_each(TestServer::stop);
}

/// The libraries that pages load are what the pinned packages give, byte for byte.
#[test]
fn libraries_are_made_of_their_packages() {
    if let Some(why) = installing::refused() {
        return println!("skipped: the console's libraries: {why}");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/console-libraries");
    let ran = match Command::new(script).arg("--check").output() {
        Ok(ran) => ran,
        Err(error) => return println!("skipped: the console's libraries: {error}"),
    };
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(!said.contains("not what the packages give"), "{said}");
    if !ran.status.success() {
        println!("skipped: the console's libraries: {}", said.trim().lines().last().unwrap_or("no npm"));
    }
}

/// The decisions of the test with very many.
const MANY: u64 = 1_000_000;
/// The decisions of which one is of the rare address.
const RARE: u64 = MANY / 20;
/// The time between two decisions, so that all of them fill three days.
const STEP: u64 = 3 * 86_400_000_000 / MANY;

/// An access-log line: most are of one of 100,000 addresses, of which a few have much of the traffic; one in fifty is of a scanner.
fn request(number: u64, random: &mut Random) -> String {
    let place = |random: &mut Random, of: u64| {
        let share = random.unit();
        (share * share * share * of as f64) as u64
    };
    let at = NOW.0 / 1_000_000 - ((MANY - number) * STEP / 1_000_000) as i64;
    let seconds = at.rem_euclid(86_400);
    let day = 17 + (at.div_euclid(86_400) - NOW.0 / 86_400_000_000);
    let when =
        format!("{day:02}/May/2026:{:02}:{:02}:{:02} +0000", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let address = |number: u64| format!("{}.{}.{}.7", 11 + number % 150, number / 150 % 250, number / 37_500);
    if number % RARE == RARE / 2 {
        return format!(
            "203.0.113.77 - - [{when}] \"GET /zebra-quilt/invoice.pdf HTTP/1.1\" 200 10 \"-\" \"Mozilla/5.0\""
        );
    }
    if random.one_in(50) {
        let target =
            ["/.env", "/wp-login.php", "/.git/config", "/cgi-bin/test.cgi"][random.below(4) as usize];
        return format!(
            "{} - - [{when}] \"GET {target} HTTP/1.1\" 404 10 \"-\" \"curl/8.5.0\"",
            address(99_000 + random.below(300))
        );
    }
    format!(
        "{} - - [{when}] \"GET /shop/{}?page={} HTTP/1.1\" 200 4711 \"-\" \"Mozilla/5.0 Firefox/{}.0\"",
        address(place(random, 90_000)),
        place(random, 4000),
        random.below(50),
        100 + random.below(50)
    )
}

/// Makes very many decisions, read on one thread and decided on another.
fn make_many(engine: &Engine) {
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let (sender, read) = std::sync::mpsc::sync_channel(4);
    std::thread::scope(|scope| {
        let pipeline = &pipeline;
        scope.spawn(move || {
            let mut random = Random::new(7);
            for first in (0..MANY).step_by(500) {
                let prepared = (first..first + 500).map(|number| {
                    let event =
                        content::web::access_log::event(request(number, &mut random).as_bytes()).unwrap();
                    let arrival = event.time.unwrap();
                    engine.prepare(pipeline, event, arrival)
                });
                sender.send(prepared.collect::<Vec<_>>()).unwrap();
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for prepared in read {
            runtime.block_on(engine.decide(prepared));
        }
    });
}

/// Pages over a million decisions, found, paged through and judged again.
#[test]
#[ignore = "takes two processors for minutes: cargo test -p tollhouse-server --test it a_million -- --ignored"]
fn the_console_shows_a_million_decisions() {
    let parent = tempfile::tempdir().unwrap();
    let mut running = None;
    drive("million.mjs", || {
        let directory =
            Directory::create(&parent.path().join("many"), &[preset::find("web").unwrap()]).unwrap();
        let server = start_by(&directory, &[], |engine| {
            make_many(engine);
            Clock::driven(|| NOW)
        });
        let rare = json!({"address": "203.0.113.77", "text": "zebra-quilt", "path": "/zebra-quilt/invoice.pdf", "count": MANY / RARE});
        let asked = json!({"open": format!("http://{}", server.address), "all": MANY, "rare": rare});
        running = Some(server);
        asked
    });
    running.into_iter().for_each(TestServer::stop);
}

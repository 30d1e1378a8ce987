//! `explain`: one decision laid open, as it was logged.

use std::fs;

use serde_json::Value;

use crate::program::{Data, Server, corpus};

/// A pipeline with a group, a model, a rule in shadow, and rules that come close.
const CONFIG: &str = r#"
name = "orders"
input = "json"

[[field]]
name = "mail.size"
type = "float"
[[field]]
name = "mail.caps"
type = "float"
[[field]]
name = "conn.port"
type = "float"
[[field]]
name = "user"
type = "string"

[[kind]]
name = "user"
of = "user"

[[statistic]]
name = "counts"
keys = ["user"]
counts = ["seen"]
windows = ["1m x 60"]

[observe]
add = ["seen"]

[[model]]
name = "spam"
file = "numeric.cbm"

[[group]]
name = "shape"
cap = 3.0

[[rule]]
name = "LARGE"
when = "mail.size > 500.0"
score = 3.0
group = "shape"
description = "Larger than orders are"

[[rule]]
name = "CAPS"
when = "mail.caps > 1.0"
score = 1.5
group = "shape"

[[rule]]
name = "MODEL"
when = "model('spam') > 0.6"
score = 1.0
description = "The model says so"
effects = ["notify 'ops'"]

[[rule]]
name = "BUSY"
when = "user.seen('1h') >= 3 && conn.port == 1.0"
score = 2.0
description = "Many orders of one user"

[[rule]]
name = "PORT"
when = "conn.port in [25.0, 587.0] || mail.size < 1.0 && mail.caps < 0.0"
score = -0.5

[[rule]]
name = "TRIED"
when = "!(mail.size > 500.0)"
score = 9.0
mode = "shadow"

[[band]]
at = 3.5
action = "tag"
[[band]]
at = 5.0
action = "reject"
"#;

const EVENTS: &str = r#"{"time":"2026-05-17T10:00:00Z","id":"a","user":"ann","mail":{"size":10.0,"caps":0.5},"conn":{"port":1.0}}
{"time":"2026-05-17T10:00:01Z","id":"b","user":"ann","mail":{"size":707.48779296875,"caps":1.7997074127197266},"conn":{"port":1.0}}
"#;

fn data() -> (Data, String) {
    let data = Data::new(&["mail"]);
    fs::write(data.path().join("tollhouse.toml"), CONFIG).unwrap();
    fs::copy(corpus("model/numeric.cbm"), data.path().join("numeric.cbm")).unwrap();
    let decided = data.run(&["replay", "--all", "--json", "-"], EVENTS).expect(0).json();
    let id = decided[1]["id"].as_str().unwrap().to_owned();
    (data, id)
}

const GOLDEN: &str = "\
tag  score 4.0  orders  ID
  happened  2026-05-17T10:00:01Z
  arrived   2026-05-17T10:00:01Z
  event id  b
  version   VERSION
  next      reject at 1.0 more
  rules
     +3.0  LARGE  50 %  Larger than orders are
           mail.size = 707.48779296875; group shape counts 3 of 4.5
     +1.5  CAPS  25 %
           mail.caps = 1.7997074127197266; group shape counts 3 of 4.5
     +1.0  MODEL  25 %  The model says so
           model('spam') = 0.6286070194309001; notify \"ops\"

effects
  notify \"ops\"  MODEL

closest rules that did not fire
     +9.0  TRIED, in shadow  with it 4.0, tag
           true: mail.size > 500.0
           mail.size = 707.48779296875
     +2.0  BUSY  with it 6.0, reject
           false: user.seen('1h') >= 3
           user.seen('1h') = 1, conn.port = 1
     -0.5  PORT  with it 3.5, tag
           false: conn.port in [25.0, 587.0]
           conn.port = 1, mail.size = 707.48779296875, mail.caps = 1.7997074127197266

model spam gives 0.6286  raw +0.5262 from -0.0054
  +0.6275  mail.caps  1.7997074127197266
  -0.0881  mail.size  707.48779296875
  -0.0078  conn.port  1.0

keys, with what was known before
  user  ann  seen 1h 1; since 2026-05-17T10:00:00Z

facts
  conn.port      1.0
  event.arrival  2026-05-17T10:00:01Z
  event.time     2026-05-17T10:00:01Z
  mail.caps      1.7997074127197266
  mail.size      707.48779296875
  model.spam     0.6286070194309001
  user           ann
";

#[test]
fn a_decision_is_laid_open() {
    let (data, id) = data();
    let explained = data.run(&["explain", "--json", &id], "").expect(0).json().remove(0);
    let drawn = data.run(&["explain", &id], "").expect(0).stdout;
    let version = explained["version"].as_str().unwrap();
    assert_eq!(drawn.replace(&id, "ID").replace(version, "VERSION"), GOLDEN);

    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value}"));
    // The shares are the score.
    let shares = explained["shares"].as_object().unwrap();
    let counted: f64 = shares.values().map(|share| number(&share["counts"])).sum();
    assert!((counted - number(&explained["score"])).abs() < 1e-9, "{explained}");
    assert_eq!(shares["LARGE"], serde_json::json!({"counts": 2.0, "share": 0.5}));

    let told =
        serde_json::json!([{"rule": "MODEL", "effect": "notify \"ops\"", "verb": "notify", "whom": "ops"}]);
    assert_eq!(explained["effects"], told);

    let close = &explained["closest"][1];
    assert_eq!(
        (&close["name"], &close["score_with"], &close["action_with"]),
        (&"BUSY".into(), &6.0.into(), &"reject".into())
    );
    let missing = serde_json::json!([{"part": "user.seen('1h') >= 3", "was": false, "reached": 1.0 / 3.0}]);
    assert_eq!(close["missing"], missing);
    assert_eq!(close["values"]["user.seen('1h')"], 1);

    // The contributions are the raw value, and what CatBoost says they are.
    let model = &explained["models"][0];
    let contributions = model["contributions"].as_array().unwrap();
    let sum: f64 = contributions.iter().map(|one| number(&one["adds"])).sum();
    assert!(
        (sum + number(&model["expected"]) + number(&model["others"]) - number(&model["raw"])).abs() < 1e-9,
        "{model}"
    );
    let stored: Value =
        serde_json::from_str(&fs::read_to_string(corpus("model/numeric.expected")).unwrap()).unwrap();
    for one in contributions {
        let names = stored["names"].as_array().unwrap();
        let place = names.iter().position(|name| *name == one["feature"]).unwrap();
        let theirs = number(&stored["shap"][0][0][place]);
        assert!((number(&one["adds"]) - theirs).abs() < 1e-6, "{one} {theirs}");
    }
}

#[test]
fn what_was_logged_is_told_and_not_what_is_known_now() {
    let (data, id) = data();
    let before = data.run(&["explain", "--json", &id], "").expect(0).json().remove(0);
    data.run(&["replay", "-"], &EVENTS.replace("\"a\"", "\"c\"").replace("\"b\"", "\"d\"")).expect(0);
    assert_eq!(data.run(&["explain", "--json", &id], "").expect(0).json().remove(0), before);
    let server = Server::start(&data.path(), &[]);
    let run = ["explain", "--server", &server.url, "--json", &id];
    assert_eq!(crate::program::run(run, "").expect(0).json().remove(0), before);
    drop(server);

    // Rules of another version say nothing of it: it is explained by its own, for as long as that is kept.
    fs::write(data.path().join("tollhouse.toml"), CONFIG.replace("score = 2.0", "score = 2.5")).unwrap();
    assert_eq!(data.run(&["explain", "--json", &id], "").expect(0).json().remove(0), before);
    fs::remove_dir_all(data.path().join("rules")).unwrap();
    let later = data.run(&["explain", "--json", &id], "").expect(0).json().remove(0);
    let logged = |of: &Value| [of["reasons"].clone(), of["facts"].clone(), of["keys"].clone()];
    assert_eq!(logged(&later), logged(&before));
    assert!(later["closest"].is_null() && later["models"].is_null(), "{later}");
    assert_eq!(later["unknown"], "the configuration that decided is not at hand");
}

#[test]
fn a_limit_that_was_not_for_the_event_is_told_with_the_reason() {
    let data = Data::new(&["web"]);
    let path = data.path().join("tollhouse.toml");
    let limit = "
[[limit]]
name = \"failed_logins\"
key = [\"client.ip:network\"]
count = 1
per = \"10m\"
when = \"http.path_normal == '/login' && http.status == 401\"
[[rule]]
name = \"GUESSES_PASSWORDS\"
when = \"over('failed_logins')\"
score = 5
";
    fs::write(&path, fs::read_to_string(&path).unwrap() + limit).unwrap();
    let event = |path: &str, status: u16| {
        format!(
            "{{\"client.ip\":\"192.0.2.7\",\"http.path\":\"{path}\",\"http.status\":{status},\"htp.x\":1}}\n"
        )
    };
    let events = [event("/", 200), event("/login", 401), event("/login", 200), event("/login", 401)].concat();
    let ran = data.run(&["replay", "--all", "--json", "-"], &events).expect(0);
    let warning = "`htp.x` is no field of the pipeline `web`";
    assert!(
        ran.stderr.contains(&format!("line 3: {warning}")) && !ran.stderr.contains("line 4: "),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("4  have fields that the pipeline does not know"), "{}", ran.stderr);
    let decided = ran.json();
    assert!(decided[3]["warnings"][0].as_str().unwrap().starts_with(warning), "{}", decided[3]);
    let guesses: Vec<bool> =
        (0..4).map(|at| decided[at]["reasons"].to_string().contains("GUESSES_PASSWORDS")).collect();
    assert_eq!(guesses, [false, false, false, true]);
    let explained =
        |at: usize| data.run(&["explain", decided[at]["id"].as_str().unwrap()], "").expect(0).stdout;
    let told = explained(2);
    let part = "
limits that this event took nothing from
  failed_logins  when http.path_normal == '/login' && http.status == 401
           false: http.status == 401
";
    assert!(told.contains(part), "{told}");
    assert!(!explained(3).contains("took nothing"), "it took");
}

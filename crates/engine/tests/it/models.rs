//! Models beside rules: what they take, what they say, and what is refused.

use std::fs;
use std::path::{Path, PathBuf};

use engine::{Decision, Directory, Engine};
use event::{Event, Time, Value};
use judge::{Action, Mode};
use plan::{Config, Overrides, Plan, preset};
use serde_json::Value as Json;

const NOW: Time = Time::from_seconds(1_780_000_000);

/// Events as the models of the corpus were trained on.
const BASE: &str = r#"
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
name = "mail.city"
type = "string"
[[field]]
name = "user.plan"
type = "integer"
[[field]]
name = "user.os"
type = "string"
[[kind]]
name = "os"
of = "user.os"
[[statistic]]
name = "counts"
keys = ["os"]
counts = ["seen"]
windows = ["1m x 60"]
[[band]]
at = 1.0
action = "reject"
"#;

fn corpus(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpora/model").join(file)
}

/// A directory with a configuration and the models that it names.
struct Home(tempfile::TempDir);

impl Home {
    fn new(files: &[&str]) -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        for file in files {
            fs::copy(corpus(file), home.0.path().join(file)).unwrap();
        }
        home
    }

    fn compile(&self, text: &str) -> Result<Plan, String> {
        let path = self.0.path().join("test.toml");
        fs::write(&path, format!("{BASE}{text}")).unwrap();
        Plan::compile(&Config::load(&path, &Overrides::default())).map_err(|problems| problems.to_string())
    }

    #[track_caller]
    fn engine(&self, text: &str) -> Engine {
        Engine::ephemeral(self.compile(text).unwrap_or_else(|problems| panic!("{problems}"))).unwrap()
    }

    /// Returns what is wrong with a text, without the lines before it and without the directory.
    fn problems(&self, text: &str) -> String {
        let told = match self.compile(text) {
            Ok(plan) => plan.warnings.to_string(),
            Err(problems) => problems,
        };
        let start = BASE.lines().count();
        let directory = format!("{}/", self.0.path().display());
        let mut shown = String::from("\n");
        for line in told.replace(&directory, "").lines() {
            let head = line.strip_prefix("test.toml:").and_then(|rest| rest.split_once(':'));
            match head.and_then(|(number, rest)| Some((number.parse::<usize>().ok()?, rest))) {
                Some((number, rest)) => shown += &format!("{}:{rest}\n", number - start),
                // The numbers of lines are told by the heads.
                None => match line.split_once('|') {
                    Some((_, rest)) => shown += &format!("|{rest}\n"),
                    None => shown += &format!("{line}\n"),
                },
            }
        }
        shown
    }
}

/// The events of a model's corpus, and what CatBoost says of them.
struct ExpectedProbabilities {
    events: Vec<Event>,
    /// The probabilities of the classes, for each event.
    probability: Vec<Vec<f64>>,
}

fn expected(name: &str) -> ExpectedProbabilities {
    let file = corpus(name).with_extension("expected");
    let stored: Json = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let names = stored["names"].as_array().unwrap();
    let field = |(name, value): (&Json, &Json)| {
        let value = match value {
            Json::String(text) => Value::from(text.as_str()),
            Json::Number(number) if number.is_i64() => Value::from(number.as_i64().unwrap()),
            number => Value::from(number.as_f64()?),
        };
        Some((name.as_str().unwrap().to_owned().into(), value))
    };
    let event = |row: &Json| Event {
        time: Some(NOW),
        fields: names.iter().zip(row.as_array().unwrap()).filter_map(field).collect(),
        ..Event::default()
    };
    let floats = |said: &Json| said.as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect();
    ExpectedProbabilities {
        events: stored["rows"].as_array().unwrap().iter().map(event).collect(),
        probability: stored["probability"].as_array().unwrap().iter().map(floats).collect(),
    }
}

fn decide(engine: &Engine, events: &[Event]) -> Vec<Decision> {
    let pipeline = &engine.plan().pipelines[0];
    let prepared = events.iter().map(|event| engine.prepare(pipeline, event.clone(), NOW)).collect();
    pollster::block_on(engine.decide(prepared))
}

/// Returns what a reason of a rule saw under this name.
fn seen(decision: &Decision, name: &str) -> f64 {
    let reasons = decision.verdict.reasons.iter().chain(&decision.verdict.shadow);
    let value = reasons.flat_map(|reason| &reason.values).find(|(other, _)| other == name);
    match value {
        Some((_, Some(Value::Float(value)))) => *value,
        other => panic!("{name} is {other:?}"),
    }
}

#[track_caller]
fn assert_close(here: f64, there: f64) {
    assert!((here - there).abs() <= 1e-6 * there.abs(), "{here}, not {there}");
}

const READ: &str = r#"
[[rule]]
name = "READ"
when = "model('spam') >= 0.0"
score = 1
"#;

#[test]
fn a_model_says_in_the_engine_what_catboost_says() {
    for (name, file) in [
        ("numeric", "numeric.cbm"),
        ("nan_min", "nan_min.cbm"),
        ("combinations", "combinations.cbm"),
        ("combinations", "combinations.json"),
        ("ctr_types", "ctr_types.cbm"),
        ("one_hot", "one_hot.cbm"),
        ("lossguide", "lossguide.cbm"),
    ] {
        let home = Home::new(&[file]);
        let engine = home.engine(&format!("[[model]]\nname = \"spam\"\nfile = \"{file}\"\n{READ}"));
        let ExpectedProbabilities { events, probability } = expected(name);
        let decisions = decide(&engine, &events);
        assert_eq!(decisions.len(), probability.len());
        for (index, (decision, probability)) in decisions.iter().zip(&probability).enumerate() {
            assert_close(seen(decision, "model('spam')"), probability[1]);
            assert_eq!(decision.verdict.action, Action::Reject);
            // Alone as in a batch, to the last bit.
            let alone = decide(&engine, &events[index..=index]);
            assert_eq!(seen(&alone[0], "model('spam')"), seen(decision, "model('spam')"), "{file}, {index}");
        }
    }
}

#[test]
fn a_model_of_several_classes_says_something_of_each() {
    let home = Home::new(&["multiclass.cbm"]);
    let text = "[[model]]\nname = \"spam\"\nfile = \"multiclass.cbm\"\n\
        [[rule]]\nname = \"A\"\nscore = 1\n\
        when = \"model('spam.bulk') + model('spam.ham') + model('spam.spam') > 0.0\"\n";
    let engine = home.engine(text);
    let plan = engine.plan();
    let names: Vec<&str> = plan.pipelines[0].models[0].names().collect();
    assert_eq!(names, ["spam.bulk", "spam.ham", "spam.spam"]);
    let ExpectedProbabilities { events, probability } = expected("multiclass");
    for (decision, probability) in decide(&engine, &events).iter().zip(&probability) {
        for (class, probability) in ["bulk", "ham", "spam"].iter().zip(probability) {
            assert_close(seen(decision, &format!("model('spam.{class}')")), *probability);
        }
    }
}

#[test]
fn a_candidate_in_shadow_is_asked_beside_the_live_model() {
    let home = Home::new(&["numeric.cbm", "combinations.cbm", "nan_max.cbm"]);
    let engine = home.engine(
        r#"
[[model]]
name = "live"
file = "numeric.cbm"
[[model]]
name = "next"
file = "combinations.cbm"
mode = "shadow"
[[model]]
name = "resting"
file = "nan_max.cbm"
mode = "off"
[[rule]]
name = "LIVE"
when = "model('live') > 0.5"
score = 2
[[rule]]
name = "NEXT"
when = "model('next') > 0.5"
score = 2
mode = "shadow"
"#,
    );
    let modes: Vec<Mode> = engine.plan().pipelines[0].models.iter().map(|model| model.mode).collect();
    assert_eq!(modes, [Mode::Enforce, Mode::Shadow, Mode::Off]);
    let ExpectedProbabilities { events, probability } = expected("combinations");
    let mut fired = [0, 0];
    for (decision, probability) in decide(&engine, &events).iter().zip(&probability) {
        assert_eq!(!decision.verdict.shadow.is_empty(), probability[1] > 0.5);
        assert_eq!(decision.verdict.action == Action::Reject, !decision.verdict.reasons.is_empty());
        fired[0] += decision.verdict.reasons.len();
        fired[1] += decision.verdict.shadow.len();
    }
    assert!(fired[1] > 0 && fired[0] != fired[1], "the two models are of different minds: {fired:?}");
}

#[test]
fn what_models_say_is_journalled_and_explained() {
    let parent = tempfile::tempdir().unwrap();
    let presets: Vec<_> = preset::ALL.iter().take(1).collect();
    let directory = Directory::create(&parent.path().join("data"), &presets).unwrap();
    fs::copy(corpus("numeric.cbm"), directory.path().join("a.cbm")).unwrap();
    fs::copy(corpus("cross_entropy.cbm"), directory.path().join("b.cbm")).unwrap();
    let text = "[[model]]\nname = \"spam\"\nfile = \"a.cbm\"\n\
        [[model]]\nname = \"next\"\nfile = \"b.cbm\"\nmode = \"shadow\"\n";
    fs::write(directory.config_path(), format!("{BASE}{text}")).unwrap();
    let open = || {
        let plan = Plan::compile(&Config::load(&directory.config_path(), &Overrides::default()));
        Engine::open(&directory, plan.unwrap_or_else(|problems| panic!("{problems}"))).unwrap()
    };
    let engine = open();
    let ExpectedProbabilities { events, probability } = expected("numeric");
    let decisions = decide(&engine, &events);
    engine.close().unwrap();
    drop(engine);
    let engine = open();
    for (decision, probability) in decisions.iter().zip(&probability) {
        let explained = engine.explain(decision.id).unwrap();
        let fact = |name: &str| match explained.facts.iter().find(|(other, _)| other == name) {
            Some((_, Value::Float(value))) => *value,
            other => panic!("{other:?}"),
        };
        // No rule reads either: they are facts all the same, and a shadow's can be compared with the live one's.
        assert_close(fact("model.spam"), probability[1]);
        assert!((0.0..=1.0).contains(&fact("model.next")));
    }
}

#[test]
fn a_models_file_is_part_of_the_version() {
    let home = Home::new(&["numeric.cbm", "nan_max.cbm"]);
    let text = "[[model]]\nname = \"spam\"\nfile = \"numeric.cbm\"\n";
    let version = || home.compile(text).unwrap().pipelines[0].version.clone();
    let before = version();
    assert_eq!(version(), before);
    fs::copy(corpus("nan_max.cbm"), home.0.path().join("numeric.cbm")).unwrap();
    assert_ne!(version(), before, "the file has another content under its name");
}

#[test]
fn readings_are_features_by_name() {
    let home = Home::new(&[]);
    // The names of features stand in the model's text.
    let text = fs::read_to_string(corpus("numeric.json")).unwrap();
    assert!(text.contains("conn.port"));
    fs::write(home.0.path().join("model.json"), text.replace("conn.port", "os.seen('1h')")).unwrap();
    let engine = home.engine(&format!("[[model]]\nname = \"spam\"\nfile = \"model.json\"\n{READ}"));
    let ExpectedProbabilities { events, .. } = expected("numeric");
    let mut event = events[0].clone();
    event.push("user.os", "os-1");
    event.fields.retain(|(name, _)| name != "conn.port");
    let port = |port: i64| {
        let mut event = events[0].clone();
        event.fields.retain(|(name, _)| name != "conn.port");
        event.push("conn.port", port);
        event
    };
    let other = Home::new(&["numeric.cbm"]);
    let other = other.engine(&format!("[[model]]\nname = \"spam\"\nfile = \"numeric.cbm\"\n{READ}"));
    for before in 0..4 {
        // The reading is what was counted before the event.
        let here = seen(&decide(&engine, std::slice::from_ref(&event))[0], "model('spam')");
        let there = seen(&decide(&other, &[port(before)])[0], "model('spam')");
        assert_eq!(here, there, "{before} before");
    }
}

#[test]
fn an_event_cannot_bring_what_a_model_says() {
    let home = Home::new(&["numeric.cbm"]);
    let engine = home.engine(&format!("[[model]]\nname = \"spam\"\nfile = \"numeric.cbm\"\n{READ}"));
    let ExpectedProbabilities { mut events, probability } = expected("numeric");
    events[0].push("model.spam", 0.0);
    events[0].push("os.seen('1h')", 9i64);
    assert_close(seen(&decide(&engine, &events[..1])[0], "model('spam')"), probability[0][1]);
}

#[test]
fn a_rules_test_says_what_a_model_says() {
    let home = Home::new(&["numeric.cbm"]);
    let text = format!(
        "[[model]]\nname = \"spam\"\nfile = \"numeric.cbm\"\n{READ}\
         [[rule.test]]\nfacts = {{ \"model('spam')\" = 0.5 }}\nfires = true\n\
         [[rule.test]]\nfacts = {{ \"model('spam')\" = -0.5 }}\nfires = false\n"
    );
    home.engine(&text);
}

#[test]
fn a_model_that_asks_for_what_nobody_fills_is_refused() {
    let home = Home::new(&["numeric.cbm"]);
    let text = fs::read_to_string(corpus("numeric.json")).unwrap();
    let renamed = |name: &str| {
        fs::write(home.0.path().join("model.json"), text.replace("conn.port", name)).unwrap();
        home.problems("[[model]]\nname = \"spam\"\nfile = \"model.json\"\n")
    };
    assert_eq!(
        renamed("conn.prot"),
        "
3:8: error: model `spam`: feature `conn.prot`: nobody fills a fact of this name
| file = \"model.json\"
|        ^^^^^^^^^^^^ did you mean `conn.port`?
1 error
"
    );
    assert_eq!(
        renamed("os.seen('2h')"),
        "
3:8: error: model `spam`: feature `os.seen('2h')`: nobody fills a fact of this name
| file = \"model.json\"
|        ^^^^^^^^^^^^ no tier can answer the window 2h; possible are 1m to 1h
1 error
"
    );
    assert_eq!(
        renamed("os.sean('1h')"),
        "
3:8: error: model `spam`: feature `os.sean('1h')`: nobody fills a fact of this name
| file = \"model.json\"
|        ^^^^^^^^^^^^ unknown counter `sean`; did you mean `seen`?
1 error
"
    );
    assert_eq!(
        renamed("mail.city"),
        "
3:8: error: model `spam`: feature `mail.city`: the feature is numeric, and the fact of its name is of type string
| file = \"model.json\"
|        ^^^^^^^^^^^^ it takes a fact of type integer, float or bool
1 error
"
    );
    fs::write(home.0.path().join("model.json"), text.replace("conn.port", "model('first')")).unwrap();
    let told = home.problems(
        "[[model]]\nname = \"first\"\nfile = \"numeric.cbm\"\n[[model]]\nname = \"spam\"\nfile = \"model.json\"\n",
    );
    assert!(told.contains("a model takes nothing from another"), "{told}");
}

#[test]
fn a_file_that_is_no_model_is_refused() {
    let home = Home::new(&["text.cbm", "numeric.cbm"]);
    let model = |file: &str| home.problems(&format!("[[model]]\nname = \"spam\"\nfile = \"{file}\"\n"));
    assert!(
        model("absent.cbm").starts_with("\n3:8: error: cannot read absent.cbm: No such file"),
        "{}",
        model("absent.cbm")
    );
    assert!(model("test.toml").starts_with("\n3:8: error: model `spam`: "), "{}", model("test.toml"));
    assert!(model("text.cbm").contains("asks for text"), "{}", model("text.cbm"));
    let bytes = fs::read(corpus("numeric.cbm")).unwrap();
    fs::write(home.0.path().join("torn.cbm"), &bytes[..bytes.len() / 2]).unwrap();
    assert!(model("torn.cbm").starts_with("\n3:8: error: model `spam`: "), "{}", model("torn.cbm"));
    // A text that came from nowhere names no files.
    let text = "[[model]]\nname = \"spam\"\nfile = \"numeric.cbm\"\n";
    let config = Config::from_text("test.toml", &format!("{BASE}{text}"), &Overrides::default());
    let told = Plan::compile(&config).unwrap_err().to_string();
    assert!(told.contains("`numeric.cbm` cannot be found") && told.contains("not in a directory"), "{told}");
}

#[test]
fn models_are_named_once_and_rules_that_name_them_are_checked() {
    let home = Home::new(&["numeric.cbm"]);
    let model = "[[model]]\nname = \"spam\"\nfile = \"numeric.cbm\"\n";
    assert_eq!(
        home.problems(&format!("{model}{model}")),
        "
5:8: error: model `spam` is defined twice
| name = \"spam\"
|        ^^^^^^
1 error
"
    );
    let rule =
        |when: &str| home.problems(&format!("{model}[[rule]]\nname = \"A\"\nscore = 1\nwhen = \"{when}\"\n"));
    assert_eq!(
        rule("model('span') > 0.5"),
        "
7:15: error: `A`: there is no model `span`
| when = \"model('span') > 0.5\"
|               ^^^^^^ did you mean `spam`?
1 error
"
    );
    assert_eq!(
        rule("model.spam > 0.5"),
        "
7:9: error: `A`: unknown name `model.spam`
| when = \"model.spam > 0.5\"
|         ^^^^^^^^^^ write `model('spam')`
1 error
"
    );
}

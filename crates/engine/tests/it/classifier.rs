//! Classifiers: what teaches them, what takes it back, and what rules see of it.

use std::sync::Arc;

use engine::{Directory, Engine, FeedbackInput, FeedbackOutcome};
use event::{Event, Span, Value};
use journal::RecordId;
use plan::{Config, Overrides, Plan};

use crate::pipeline::NOW;

const CONFIG: &str = r#"
name = "comments"
space = 3

[[field]]
name = "text"
type = "string"

[[field]]
name = "user"
type = "string"

[[field]]
name = "alarm"
type = "bool"

[[kind]]
name = "user"
of = "user"

[[statistic]]
name = "counts"
keys = ["user"]
counts = ["seen", "complaint"]
windows = ["1h x 24"]

[feedback]
spam = ["complaint"]
ham = []
forget = []

[[classifier]]
name = "words"
of = ["text"]
forget = ["forget"]

[[classifier]]
name = "own"
of = ["text"]
per = "user"
forget = ["forget"]

[[classifier]]
name = "self_taught"
of = ["text"]
bad = []
good = ["ham"]
auto_bad_at = 5.0
auto_rules = 2
auto_per_hour = 4

[[rule]]
name = "WORDS"
when = "words.bad >= 3 && words.good >= 3 && words.probability > 0.8"
score = 4.0

[[rule]]
name = "ALARM"
when = "alarm"
score = 3.0

[[rule]]
name = "ALARM_TOO"
when = "alarm && text.size() > 0"
score = 3.0

[[rule]]
name = "SURE_OF_ITSELF"
when = "self_taught.probability > 0.6"
score = 9.0

[[band]]
at = 4.0
action = "review_after"
"#;

const BAD: [&str; 4] = [
    "Cheap pills shipped tonight, click the shop",
    "Win money now, click this cheap offer",
    "Pills and money, the shop with the cheap offer",
    "Click now for a cheap loan, money tonight",
];
const GOOD: [&str; 4] = [
    "Thanks for the recipe, the bread came out well",
    "I had the same problem with the garden last spring",
    "The second song of the album is my favourite",
    "Could you post the photographs of the garden",
];

fn plan() -> Plan {
    let config = Config::from_text("comments.toml", CONFIG, &Overrides::default());
    Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"))
}

fn comment(text: &str, user: &str) -> Event {
    let mut event = Event::default();
    event.push("text", text);
    event.push("user", user);
    event.push("alarm", false);
    event
}

fn decide(engine: &Engine, event: Event) -> engine::Decision {
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let prepared = engine.prepare(&pipeline, event, NOW);
    pollster::block_on(engine.decide(vec![prepared])).remove(0)
}

/// Returns what is known of a text without counting it.
fn facts(engine: &Engine, text: &str, user: &str) -> Vec<(String, Value)> {
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let prepared = engine.prepare(&pipeline, comment(text, user), NOW);
    pollster::block_on(engine.peek(prepared)).unwrap().facts
}

fn fact(engine: &Engine, name: &str, text: &str, user: &str) -> f64 {
    match facts(engine, text, user).into_iter().find(|(known, _)| known == name) {
        Some((_, Value::Float(float))) => float,
        Some((_, Value::Integer(integer))) => integer as f64,
        other => panic!("{name}: {other:?}"),
    }
}

fn learn(engine: &Engine, text: &str, class: &str) -> FeedbackOutcome {
    learn_as(engine, text, "anna", class)
}

fn learn_as(engine: &Engine, text: &str, user: &str, class: &str) -> FeedbackOutcome {
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let prepared = engine.prepare(&pipeline, comment(text, user), NOW);
    pollster::block_on(engine.learn(prepared, text, class)).unwrap()
}

fn taught() -> Engine {
    let engine = Engine::ephemeral(plan()).unwrap();
    for text in BAD {
        assert!(learn(&engine, text, "spam").tokens > 10);
    }
    for text in GOOD {
        assert!(learn(&engine, text, "ham").tokens > 10);
    }
    engine
}

/// All that classifiers say of some texts, to the last bit.
fn all_verdicts(engine: &Engine) -> Vec<(String, Value)> {
    let texts = BAD.iter().chain(&GOOD).chain(&["cheap money", "the garden", "something else"]);
    let said = texts.flat_map(|text| facts(engine, text, "anna"));
    said.filter(|(name, _)| name.starts_with("words.") || name.starts_with("own.")).collect()
}

#[test]
fn what_was_learned_is_said_and_judged_by() {
    let engine = taught();
    let said = |text: &str| fact(&engine, "words.probability", text, "anna");
    assert!(said("cheap money, click the shop tonight") > 0.8);
    assert!(said("thanks, the garden and the bread are my favourite") < 0.2);
    assert_eq!(said("zzzz"), 0.5, "nothing is known of it");
    assert_eq!([fact(&engine, "words.bad", "", "anna"), fact(&engine, "words.good", "", "anna")], [4.0, 4.0]);
    let verdict = decide(&engine, comment("cheap money, click the shop tonight", "bert")).verdict;
    assert!(verdict.reasons.iter().any(|reason| reason.rule == "WORDS"), "{verdict:?}");
}

#[test]
fn the_same_said_twice_counts_once_and_another_word_takes_its_place() {
    let engine = taught();
    let before = all_verdicts(&engine);
    let again = learn(&engine, BAD[0], "spam");
    assert_eq!((again.tokens, again.duplicate), (0, true));
    assert_eq!(all_verdicts(&engine), before);

    assert!(learn(&engine, BAD[0], "ham").tokens > 0);
    let turned = all_verdicts(&engine);
    assert_ne!(turned, before);
    assert_eq!([fact(&engine, "words.bad", "", "anna"), fact(&engine, "words.good", "", "anna")], [3.0, 5.0]);
    assert!(learn(&engine, BAD[0], "spam").tokens > 0);
    assert_eq!([fact(&engine, "words.bad", "", "anna"), fact(&engine, "words.good", "", "anna")], [4.0, 4.0]);
}

#[test]
fn what_is_forgotten_was_never_there() {
    let engine = Engine::ephemeral(plan()).unwrap();
    for text in &BAD[..2] {
        learn(&engine, text, "spam");
    }
    let before = all_verdicts(&engine);
    for (text, class) in [(GOOD[0], "ham"), (BAD[2], "spam"), (BAD[2], "ham"), (GOOD[1], "spam")] {
        assert!(learn(&engine, text, class).tokens > 0);
    }
    assert_ne!(all_verdicts(&engine), before);
    for text in [GOOD[1], BAD[2], GOOD[0]] {
        assert!(learn(&engine, text, "forget").tokens > 0);
        assert_eq!(learn(&engine, text, "forget").tokens, 0);
    }
    // Known are tokens that count for a class: none of those is left.
    assert_eq!(all_verdicts(&engine), before);
}

#[test]
fn reports_teach_as_far_as_they_count() {
    let text = format!("{CONFIG}\n[reports]\nbad = [\"spam\"]\ngood = [\"ham\"]\nper_day = 2\n");
    let config = Config::from_text("comments.toml", &text, &Overrides::default());
    let engine = Engine::ephemeral(Plan::compile(&config).unwrap_or_else(|error| panic!("{error}"))).unwrap();
    let say = |text: &str, class: &str, by: Option<&str>| {
        let pipeline = Arc::clone(&engine.plan().pipelines[0]);
        let prepared = engine.prepare(&pipeline, comment(text, "anna"), NOW);
        let outcome = pollster::block_on(engine.learn(prepared, text, FeedbackInput { class, by })).unwrap();
        let known = ["words.bad", "words.good"].map(|name| fact(&engine, name, "", "anna"));
        (outcome, known)
    };
    let (ann, bob) = (Some("ann"), Some("bob"));
    let (first, known) = say(BAD[0], "spam", ann);
    assert!(first.tokens > 10 && known == [1.0, 0.0], "{first:?} {known:?}");
    let (gone, known) = say(BAD[0], "none", ann);
    assert!(gone.tokens > 10 && known == [0.0, 0.0], "{gone:?} {known:?}");
    assert_eq!(say(BAD[0], "spam", ann).1, [1.0, 0.0]);
    let (limited, known) = say(BAD[1], "spam", ann);
    assert!(limited.limited && limited.tokens == 0 && known == [1.0, 0.0], "{limited:?} {known:?}");

    assert_eq!(say(BAD[0], "ham", None).1, [0.0, 1.0]);
    let (gone, known) = say(BAD[0], "none", ann);
    assert!(gone.tokens == 0 && known == [0.0, 1.0], "another word stands: {gone:?} {known:?}");
    assert_eq!(say(BAD[2], "spam", bob).1, [1.0, 1.0]);
    assert_eq!(say(BAD[2], "ham", None).1, [0.0, 2.0]);
    let (again, known) = say(BAD[2], "spam", bob);
    assert!(again.duplicate && known == [0.0, 2.0], "repeating undoes nothing: {again:?} {known:?}");
    let (forgotten, known) = say(BAD[2], "forget", bob);
    assert!(forgotten.tokens == 0 && known == [0.0, 2.0], "not bob's to forget: {forgotten:?} {known:?}");
    assert_eq!(say(BAD[2], "forget", None).1, [0.0, 1.0]);
}

#[test]
fn a_classifier_per_user_knows_what_that_user_said() {
    let engine = Engine::ephemeral(plan()).unwrap();
    for text in BAD {
        learn_as(&engine, text, "anna", "spam");
        learn_as(&engine, text, "bert", "ham");
    }
    for text in GOOD {
        learn_as(&engine, text, "anna", "ham");
        learn_as(&engine, text, "bert", "spam");
    }
    assert!(fact(&engine, "own.probability", "cheap money now", "anna") > 0.6);
    assert!(fact(&engine, "own.probability", "cheap money now", "bert") < 0.4);
    assert_eq!(fact(&engine, "own.bad", "cheap money now", "carl"), 0.0);
}

#[test]
fn feedback_on_a_decision_teaches_what_learning_does() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let engine = Engine::open(&directory, plan()).unwrap();
    let say = |id: RecordId, class: &str| pollster::block_on(engine.feedback(id, class, NOW)).unwrap();
    let bad: Vec<RecordId> = BAD.iter().map(|text| decide(&engine, comment(text, "anna")).id).collect();
    for id in &bad {
        assert!(say(*id, "spam").tokens > 10);
        assert!(say(*id, "spam").duplicate);
    }
    for text in GOOD {
        learn(&engine, text, "ham");
    }
    assert_eq!(all_verdicts(&engine), all_verdicts(&taught()));
    assert_eq!(learn(&engine, BAD[0], "spam").tokens, 0, "however it is said");

    let explained = engine.explain(bad[1]).unwrap().classifiers;
    assert_eq!(explained.len(), 3);
    assert!(explained[0].name == "words" && explained[0].probability > 0.5, "{explained:?}");
    let strongest = &explained[0].tokens[0];
    assert!(
        strongest.token.starts_with("text ") && strongest.bad > 0 && strongest.adds > 0.0,
        "{strongest:?}"
    );

    engine.close().unwrap();
    let before = all_verdicts(&engine);
    drop(engine);
    let engine = Engine::open(&directory, plan()).unwrap();
    assert_eq!(all_verdicts(&engine), before, "after a restart");
    assert!(pollster::block_on(engine.feedback(bad[0], "forget", NOW)).unwrap().tokens > 10);
    assert_eq!(fact(&engine, "words.bad", "", "anna"), 3.0);
}

#[test]
fn the_order_of_learning_turns_nothing_round_and_neither_do_unequal_classes() {
    let numbered =
        |text: &str, number: usize| format!("{text} {}", ["one", "two", "three", "four"][number % 4]);
    let orders: [Vec<(&str, usize)>; 3] = [
        [vec![("spam", 0); 40], vec![("ham", 0); 40]].concat(),
        [vec![("ham", 0); 40], vec![("spam", 0); 40]].concat(),
        [vec![("ham", 0); 3], vec![("spam", 0); 60]].concat(),
    ];
    for order in orders {
        let engine = Engine::ephemeral(plan()).unwrap();
        for (number, (class, _)) in order.iter().enumerate() {
            let texts = if *class == "spam" { BAD } else { GOOD };
            learn(&engine, &format!("{} {number}th", numbered(texts[number % 4], number / 4)), class);
        }
        let said = |text: &str| fact(&engine, "words.probability", text, "anna");
        assert!(said("click the cheap shop for money") > 0.5);
        assert!(said("the bread and the garden of last spring") < 0.5);
    }
}

#[test]
fn examples_at_once_add_up() {
    let engine = Arc::new(Engine::ephemeral(plan()).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for text in BAD {
                    learn(&engine, text, "spam");
                }
                for text in GOOD {
                    learn(&engine, text, "ham");
                }
            });
        }
    });
    assert_eq!([fact(&engine, "words.bad", "", "anna"), fact(&engine, "words.good", "", "anna")], [4.0, 4.0]);
}

#[test]
fn a_classifier_learns_from_rules_that_agree_but_not_from_its_own_word() {
    let engine = Engine::ephemeral(plan()).unwrap();
    let learned = |text: &str| {
        [fact(&engine, "self_taught.bad", text, "anna"), fact(&engine, "self_taught.good", text, "anna")]
    };
    let alarm = |text: &str| {
        let mut event = comment(text, "anna");
        event.fields.retain(|(name, _)| name != "alarm");
        event.push("alarm", true);
        decide(&engine, event)
    };
    decide(&engine, comment(BAD[0], "anna"));
    assert_eq!(learned(""), [0.0, 0.0], "nobody says anything");
    learn(&engine, BAD[0], "ham");
    alarm(BAD[0]);
    assert_eq!(learned(""), [0.0, 1.0], "what somebody has said stands");
    for text in [BAD[1], BAD[1], BAD[2], BAD[3], GOOD[0]] {
        alarm(text);
    }
    assert_eq!(learned(""), [2.0, 1.0], "four at most in an hour, of which two had been said before");
    learn(&engine, GOOD[1], "ham");
    let sure = decide(&engine, comment(&format!("{} {}", BAD[1], BAD[2]), "anna"));
    assert!(sure.verdict.reasons.iter().any(|reason| reason.rule == "SURE_OF_ITSELF"), "{sure:?}");
    assert_eq!(learned(""), [2.0, 2.0]);
}

#[test]
fn what_was_learned_long_ago_is_gone() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let engine = Engine::open(&directory, plan()).unwrap();
    learn(&engine, BAD[0], "spam");
    engine.maintain(Some(NOW + Span::days(100))).unwrap();
    assert_eq!(fact(&engine, "words.bad", "", "anna"), 1.0);
    engine.maintain(Some(NOW + Span::days(200))).unwrap();
    assert_eq!(fact(&engine, "words.bad", "", "anna"), 0.0);
}

#[test]
fn mistakes_are_told_with_their_mend() {
    let check = |from: &str, to: &str, expected: &str| {
        let text = CONFIG.replacen(from, to, 1);
        assert_ne!(text, CONFIG);
        let config = Config::from_text("comments.toml", &text, &Overrides::default());
        let problems = Plan::compile(&config).unwrap_err().to_string();
        assert!(problems.contains(expected), "{problems}");
    };
    check("of = [\"text\"]", "of = [\"txt\"]", "there is no fact `txt`");
    check("forget = [\"forget\"]", "forget = [\"forgot\"]", "[feedback] has no class `forgot`");
    check("per = \"user\"", "per = \"usr\"", "there is no kind `usr`");
    check("auto_bad_at = 5.0", "auto_bad_at = 5.0\nauto_good_at = 6.0", "what is good would be bad, too");
    check("name = \"words\"", "name = \"own\"", "`own` is defined twice");
}

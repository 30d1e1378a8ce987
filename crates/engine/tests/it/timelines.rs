//! Buckets of counters one by one, from the rule to the verdict.

use engine::{Decision, Engine, Proposal};
use event::{Event, Span, Time};
use plan::{Config, Overrides, Plan};

use crate::pipeline::decide_at;

const CONFIG: &str = r#"
name = "hits"

[[field]]
name = "user"
type = "string"

[[field]]
name = "bytes"
type = "integer"

[[kind]]
name = "user"
of = "user"

[[statistic]]
name = "hits"
keys = ["user"]
counts = ["seen", "sent"]
windows = ["10m x 144", "1d x 14"]
value = "bytes"
amounts = ["sent"]

[observe]
add = ["seen", "sent"]

[[rule]]
name = "BURST"
when = "max_bucket(user.sent('2h'), '10m') >= 300"
score = 1

[[rule]]
name = "NEVER_SLEEPS"
when = "empty_buckets(user.seen('20h'), '1h') == 0"
score = 1

[[rule]]
name = "CLOCK"
when = "dispersion(user.seen('2h'), '10m') < 0.2"
score = 1

[[rule]]
name = "DAYS"
when = "empty_buckets(user.seen('14d'), '1d') <= 12 && max_bucket(user.seen('14d'), '1d') > 70"
score = 1
"#;

/// Midnight, in UTC.
const DAY: Time = Time::from_seconds(1_700_006_400);

fn plan(text: &str) -> Result<Plan, String> {
    let config = Config::from_text("hits.toml", text, &Overrides::default());
    Plan::compile(&config).map_err(|problems| problems.to_string())
}

fn hit(user: &str, bytes: i64) -> Event {
    let mut event = Event::default();
    event.push("user", user);
    event.push("bytes", bytes);
    event
}

fn rules(decision: &Decision) -> Vec<&str> {
    decision.verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect()
}

#[test]
fn rules_see_how_events_are_spread() {
    let engine = Engine::ephemeral(plan(CONFIG).unwrap()).unwrap();
    // Five minutes apart, for a day.
    let robot = |minute: i64| decide_at(&engine, hit("robot", 10), DAY + Span::minutes(minute));
    for minute in (0..1440).step_by(5) {
        let decision = robot(minute);
        // Two in each bucket: as soon as eleven of twelve have them they are even enough.
        let expected: &[&str] = match minute {
            0..110 => &[],
            110..1200 => &["CLOCK"],
            _ => &["CLOCK", "NEVER_SLEEPS"],
        };
        assert_eq!(rules(&decision), expected, "minute {minute}");
    }
    // All in a burst, and not again until the next day.
    let person = |minute: i64, bytes| decide_at(&engine, hit("ann", bytes), DAY + Span::minutes(minute));
    assert!(rules(&person(10, 299)).is_empty());
    assert!(rules(&person(11, 1)).is_empty(), "299 until now");
    assert_eq!(rules(&person(12, 0)), ["BURST"]);
    assert_eq!(rules(&person(139, 0)), ["BURST"], "the bucket of the tenth minute is the last of twelve");
    assert!(rules(&person(140, 0)).is_empty());
    for day in [1, 2] {
        for second in 0..71 {
            person(day * 1440 + 600 + second / 60, 0);
        }
    }
    assert_eq!(rules(&person(3 * 1440 + 600, 0)), ["DAYS"]);
}

/// Ten seconds apart, or as people click.
#[test]
fn rules_see_how_long_intervals_are_and_how_regular() {
    let text = CONFIG.replacen("windows = [\"10m x 144\"", "windows = [\"1s x 144\"", 1);
    let (head, _) = text.split_once("[[rule]]").unwrap();
    let rules_of = "[[rule]]\nname = \"FAST\"\nscore = 1\nwhen = \"median_interval(user.seen('2m'), '1s') < duration('4s')\"\n\
        [[rule]]\nname = \"EVEN\"\nscore = 1\nwhen = \"user.seen('2m') >= 5 && interval_variation(user.seen('2m'), '1s') < 0.15\"\n";
    let engine = Engine::ephemeral(plan(&format!("{head}{rules_of}")).unwrap()).unwrap();
    let decide = |user: &str, seconds: i64| {
        let decision = decide_at(&engine, hit(user, 1), DAY + Span::seconds(seconds));
        rules(&decision).join(" ")
    };
    let told = |user: &str, times: &[i64]| -> Vec<String> {
        times.iter().map(|seconds| decide(user, *seconds)).collect()
    };
    assert_eq!(told("robot", &[0, 10, 20, 30, 41, 50, 60]), ["", "", "", "", "", "EVEN", "EVEN"]);
    assert_eq!(told("ann", &[0, 2, 31, 33, 35, 90, 91]), ["", "", "FAST", "", "FAST", "FAST", "FAST"]);
    let last = decide_at(&engine, hit("robot", 1), DAY + Span::seconds(70));
    let detail = &last.verdict.reasons[0].detail;
    assert_eq!(detail, "user.seen('2m') = 7, interval_variation(user.seen('2m'), '1s') = 0.058");
}

#[test]
fn reasons_show_what_was_read_of_buckets() {
    let all = "[[rule]]\nname = \"ALL\"\nscore = 0\nwhen = \"max_bucket(user.sent('2h'), '10m') < 500 && \
        empty_buckets(user.seen('20h'), '1h') < 30 && max_bucket(user.seen('14d'), '1d') < 9 && \
        dispersion(user.seen('2h'), '10m') < 2.0\"\n";
    let engine = Engine::ephemeral(plan(&format!("{CONFIG}\n{all}")).unwrap()).unwrap();
    let first = decide_at(&engine, hit("ann", 400), DAY);
    assert!(rules(&first).is_empty(), "nothing has no spread");
    let decision = decide_at(&engine, hit("ann", 1), DAY + Span::minutes(30));
    let details: Vec<&str> = decision.verdict.reasons.iter().map(|reason| reason.detail.as_str()).collect();
    assert_eq!(
        details,
        [
            "max_bucket(user.sent('2h'), '10m') = 400",
            "max_bucket(user.sent('2h'), '10m') = 400, empty_buckets(user.seen('20h'), '1h') = 20, \
             max_bucket(user.seen('14d'), '1d') = 1, dispersion(user.seen('2h'), '10m') = 0.9166666666666666"
        ]
    );
}

#[test]
fn what_no_tier_has_is_refused() {
    let check = |rule: &str, message: &str| {
        let old = "max_bucket(user.sent('2h'), '10m') >= 300";
        let found = plan(&CONFIG.replacen(old, rule, 1)).unwrap_err();
        assert!(found.contains(message), "{found}");
    };
    let of = "of 10m x 144 and 1d x 14 a bucket is a multiple, and all lie within it";
    check("max_bucket(user.sent('30m'), '5m') > 1", &format!("no tier has 6 whole buckets of 5m: {of}"));
    check("max_bucket(user.sent('24h'), '1h') > 1", &format!("no tier has 24 whole buckets of 1h: {of}"));
    check("max_bucket(user.sent('29h'), '10m') > 1", "174 buckets of 10m: 1 to 168 can be read");
    check("max_bucket(user.sen('2h'), '10m') > 1", "unknown counter `sen`");
    let aggregate = "\n[[kind]]\nname = \"karma\"\nof = \"user\"\n[[statistic]]\nname = \"karma\"\nkeys = [\"karma\"]\n\
        aggregate = [\"count\"]\nkeep = \"1d\"\n";
    let text = CONFIG.replacen(
        "max_bucket(user.sent('2h'), '10m') >= 300",
        "max_bucket(karma.count('2h'), '10m') > 1",
        1,
    );
    let found = plan(&(text + aggregate)).unwrap_err();
    assert!(found.contains("`max_bucket` takes counters, and `karma` has an aggregate"), "{found}");
}

#[test]
fn buckets_keep_their_place_when_rules_change() {
    let parent = tempfile::tempdir().unwrap();
    let directory = engine::Directory::create(&parent.path().join("data"), &[]).unwrap();
    std::fs::write(directory.config_path(), CONFIG).unwrap();
    let config = Config::load(&directory.config_path(), &Overrides::default());
    let engine = Engine::open(&directory, Plan::compile(&config).unwrap()).unwrap();
    decide_at(&engine, hit("ann", 400), DAY);
    let prepare = |bytes| engine.prepare(&engine.plan().pipelines[0], hit("ann", bytes), DAY);
    let early = prepare(1);
    let text = "[[rule]]\nname = \"BURST\"\nwhen = \"max_bucket(user.sent('1h'), '10m') >= 300 && user.seen('10m') > 0\"\n";
    engine.change(Proposal::Post { pipeline: "hits", text }, DAY, false).unwrap();
    let late = prepare(1);
    let decisions = pollster::block_on(engine.decide(vec![early, late]));
    let details: Vec<&str> =
        decisions.iter().map(|decision| decision.verdict.reasons[0].detail.as_str()).collect();
    assert_eq!(
        details,
        [
            "max_bucket(user.sent('2h'), '10m') = 400",
            "max_bucket(user.sent('1h'), '10m') = 401, user.seen('10m') = 2"
        ]
    );
}

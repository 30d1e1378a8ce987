//! Answers of limits, operation by operation.

use std::sync::{Arc, Mutex};

use content::budget::Cancellation;
use engine::batch::{BatchCells, BatchColumn, EventBatch};
use engine::limit::{LimitExceptionError, LimitKey, Take, TakeResult};
use engine::{Directory, Engine, LedgerHome, Proposal, UseResult};
use event::{Key, Kind, Span, Time};
use plan::limit::{LIMITS, LimitException, LimitPlan, USED_ONCE};
use plan::{Config, Overrides, Plan};
use pollster::block_on;
use stats::{
    Catalog, Ledger, LedgerCensus, LedgerError, LedgerFuture, Observation, ObserveOutcomes, ObserveRequest,
    Quality, ReadingHead, Timeline,
};

pub(crate) const START: Time = Time::from_seconds(1_800_000_000);

pub(crate) fn plan(text: &str) -> Plan {
    let config = Config::from_text("limits.toml", text, &Overrides::default());
    Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"))
}

pub(crate) fn engine(text: &str) -> Engine {
    Engine::ephemeral(plan(text)).unwrap()
}

fn limit(engine: &Engine, name: &str) -> LimitPlan {
    LimitPlan::clone(engine.plan().limit(name).unwrap())
}

fn user(engine: &Engine, limit: &LimitPlan, user: &str) -> LimitKey {
    engine.limit_key_of(limit, |_| Some(user)).unwrap()
}

/// Takes once from one limit.
fn take(engine: &Engine, limit: &LimitPlan, who: &str, cost: u64, now: Time) -> TakeResult {
    let take = Take { limit, key: user(engine, limit, who), cost };
    block_on(engine.take(&[take], now)).remove(0)
}

fn peek(engine: &Engine, limit: &LimitPlan, who: &str, cost: u64, now: Time) -> TakeResult {
    let take = Take { limit, key: user(engine, limit, who), cost };
    block_on(engine.peek_limits(&[take], now)).remove(0)
}

const SLIDING: &str = r#"
[[limit]]
name = "calls"
key = ["user"]
count = 3
per = "1m"
"#;

#[test]
fn a_sliding_limit_lets_its_count_through_and_says_when_there_is_more() {
    let engine = engine(SLIDING);
    let calls = limit(&engine, "calls");
    let at = |seconds: i64| START + Span::seconds(seconds);
    for (second, remaining) in [(0, 2), (1, 1), (10, 0)] {
        let taken = take(&engine, &calls, "ann", 1, at(second));
        assert!(taken.allowed && !taken.over && !taken.silent);
        assert_eq!((taken.remaining, taken.used), (remaining, 3 - remaining));
        assert_eq!(taken.reset_after, Span::seconds(61), "the sub-window of the take leaves last");
    }
    assert!(take(&engine, &calls, "bob", 1, at(10)).allowed, "keys are their own");
    // What is refused counts: the take of second 20 leaves in second 81, and three are before it.
    let refused = take(&engine, &calls, "ann", 1, at(20));
    assert!(!refused.allowed);
    assert_eq!((refused.remaining, refused.used, refused.charged), (0, 4, 1));
    assert_eq!(refused.retry_after, Some(Span::seconds(42)), "two of four must leave");
    assert!(!peek(&engine, &calls, "ann", 1, at(61)).allowed);
    assert!(peek(&engine, &calls, "ann", 1, at(62)).allowed);
    assert_eq!(take(&engine, &calls, "ann", 4, at(20)).retry_after, None, "never");
}

#[test]
fn what_is_refused_can_be_left_uncounted() {
    let engine = engine(&format!("{SLIDING}counts = \"allowed\"\n"));
    let calls = limit(&engine, "calls");
    for second in 0..30 {
        let taken = take(&engine, &calls, "ann", 1, START + Span::seconds(second));
        assert_eq!(taken.allowed, second < 3);
        assert_eq!(taken.charged, u64::from(second < 3));
    }
    assert!(take(&engine, &calls, "ann", 1, START + Span::seconds(61)).allowed);
}

#[test]
fn a_peek_takes_nothing_and_makes_nothing() {
    let engine = engine(SLIDING);
    let calls = limit(&engine, "calls");
    let before = engine.census().keys;
    for _ in 0..9 {
        assert_eq!(peek(&engine, &calls, "ann", 1, START).remaining, 3);
    }
    assert_eq!(engine.census().keys, before);
    take(&engine, &calls, "ann", 2, START);
    let look = peek(&engine, &calls, "ann", 2, START);
    assert_eq!((look.remaining, look.over, look.charged), (1, true, 0));
}

#[test]
fn what_was_taken_can_be_given_back_set_and_settled() {
    for mode in ["", "mode = \"gcra\"\nburst = 10\n", "windows = 1\n", "mode = \"interpolated\"\n"] {
        let text = SLIDING.replace("count = 3", "count = 10") + mode;
        let engine = engine(&text);
        let calls = limit(&engine, "calls");
        let with = |cost: u64| Take { limit: &calls, key: user(&engine, &calls, "ann"), cost };
        let used = |now: Time| peek(&engine, &calls, "ann", 0, now).used;
        let taken = take(&engine, &calls, "ann", 6, START);
        assert!(taken.allowed, "{mode}");
        block_on(engine.refund(with(2), Some(taken.time), START)).unwrap();
        assert_eq!(used(START), 4, "{mode}");
        block_on(engine.refund(with(100), None, START)).unwrap();
        assert_eq!(used(START), 0, "{mode}: no more than was used");
        block_on(engine.set_used(with(9), START)).unwrap();
        assert_eq!(used(START), 9, "{mode}");
        assert!(!take(&engine, &calls, "ann", 2, START).allowed, "{mode}");
        block_on(engine.reset_limit(&calls, user(&engine, &calls, "ann"), START)).unwrap();
        assert_eq!(used(START), 0, "{mode}");
        // Reserved for 5, and it came to 8, then to 1.
        let taken = take(&engine, &calls, "ann", 5, START);
        block_on(engine.settle(with(8), taken.charged, taken.time, START)).unwrap();
        assert_eq!(used(START), 8, "{mode}");
        block_on(engine.settle(with(1), 8, taken.time, START)).unwrap();
        assert_eq!(used(START), 1, "{mode}");
    }
}

#[test]
fn a_refund_is_never_a_credit() {
    let engine = engine(&SLIDING.replace("count = 3", "count = 10"));
    let calls = limit(&engine, "calls");
    let at = |seconds: i64| START + Span::seconds(seconds);
    take(&engine, &calls, "ann", 4, at(0));
    take(&engine, &calls, "ann", 4, at(30));
    let back = Take { limit: &calls, key: user(&engine, &calls, "ann"), cost: 4 };
    // Without its time the oldest is given back: what is left stays for as long as the newer one.
    block_on(engine.refund(back, None, at(40))).unwrap();
    assert_eq!(peek(&engine, &calls, "ann", 0, at(70)).used, 4);
    assert_eq!(peek(&engine, &calls, "ann", 0, at(92)).used, 0);
    assert_eq!(take(&engine, &calls, "ann", 10, at(92)).remaining, 0);
}

#[test]
fn limits_that_stand_together_are_taken_together() {
    let text = r#"
[[limit]]
name = "second"
key = ["user"]
count = 2
per = "1s"
counts = "allowed"
also = ["hour"]

[[limit]]
name = "hour"
key = ["user"]
count = 3
per = "1h"
counts = "allowed"
"#;
    let engine = engine(text);
    let (second, hour) = (limit(&engine, "second"), limit(&engine, "hour"));
    assert_eq!(second.also, ["hour"]);
    let both = |now: Time| {
        let takes = [&second, &hour].map(|limit| Take { limit, key: user(&engine, limit, "ann"), cost: 1 });
        block_on(engine.take(&takes, now))
    };
    let allowed = |taken: &[TakeResult]| taken.iter().all(|taken| taken.allowed);
    assert!(allowed(&both(START)) && allowed(&both(START)));
    let third = both(START);
    assert!(!third[0].allowed && third[1].allowed);
    assert_eq!((third[1].charged, third[1].remaining), (0, 1), "it was given back");
    assert_eq!(TakeResult::strictest(&third).unwrap().limit, second.name);
    let later = START + Span::seconds(5);
    assert!(allowed(&both(later)), "so there is one left in the hour");
    let last = both(later);
    assert!(last[0].allowed && !last[1].allowed);
    assert_eq!(TakeResult::strictest(&last).unwrap().limit, hour.name);
    assert_eq!(peek(&engine, &second, "ann", 0, later).used, 1);
}

#[test]
fn a_shadow_ban_shows_in_the_silent_flag_alone() {
    for mode in ["", "mode = \"gcra\"\n", "ban = { after = 1, within = \"1m\", for = \"1h\" }\n"] {
        let engine = engine(&format!("{SLIDING}enforcement = \"shadow_ban\"\n{mode}"));
        let calls = limit(&engine, "calls");
        let first = take(&engine, &calls, "bob", 1, START);
        assert!(first.allowed && !first.silent);
        let mut silent = 0;
        for _ in 0..9 {
            let taken = take(&engine, &calls, "ann", 1, START);
            silent += u64::from(taken.silent);
            assert_eq!(TakeResult { silent: false, ..taken }, first, "{mode}");
        }
        assert_eq!(silent, 6, "{mode}");
        assert!(!peek(&engine, &calls, "ann", 1, START).allowed, "a peek tells the operator");
    }
}

#[test]
fn observed_limits_tell_what_would_have_been_and_idle_ones_count_nothing() {
    let engine = engine(&format!("{SLIDING}enforcement = \"observe\"\n"));
    let calls = limit(&engine, "calls");
    let over = (0..5).map(|_| take(&engine, &calls, "ann", 1, START));
    let over: Vec<(bool, bool)> = over.map(|taken| (taken.allowed, taken.over)).collect();
    assert_eq!(over, [(true, false), (true, false), (true, false), (true, true), (true, true)]);

    let engine = self::engine(&format!("{SLIDING}enforcement = \"off\"\n"));
    let calls = limit(&engine, "calls");
    let before = engine.census().keys;
    assert!((0..9).all(|_| take(&engine, &calls, "ann", 1, START).allowed));
    assert_eq!(engine.census().keys, before);
}

#[test]
fn refusals_lead_to_a_ban_which_ends() {
    let text = format!("{SLIDING}ban = {{ after = 2, within = \"10m\", for = \"1h\" }}\n");
    let engine = engine(&text);
    let calls = limit(&engine, "calls");
    let at = |seconds: i64| START + Span::seconds(seconds);
    for _ in 0..3 {
        assert!(take(&engine, &calls, "ann", 1, at(0)).allowed);
    }
    assert_eq!(take(&engine, &calls, "ann", 1, at(0)).banned_until, None);
    let banned = take(&engine, &calls, "ann", 1, at(1));
    assert_eq!((banned.banned_until, banned.retry_after), (Some(at(3601)), Some(Span::hours(1))));
    let still = take(&engine, &calls, "ann", 1, at(3600));
    assert_eq!((still.allowed, still.retry_after), (false, Some(Span::seconds(1))));
    assert_eq!(still.remaining, 0);
    assert!(take(&engine, &calls, "ann", 1, at(3601)).allowed);
    // Banned again, and let go.
    for _ in 0..5 {
        take(&engine, &calls, "ann", 1, at(3602));
    }
    assert!(peek(&engine, &calls, "ann", 1, at(3602)).banned_until.is_some());
    block_on(engine.reset_limit(&calls, user(&engine, &calls, "ann"), at(3603))).unwrap();
    let free = peek(&engine, &calls, "ann", 1, at(3603));
    assert_eq!((free.allowed, free.banned_until, free.remaining), (true, None, 3));
}

#[test]
fn exceptions_of_the_configuration_and_posted_ones_end() {
    let until = START + Span::seconds(10);
    let text = format!(
        "{SLIDING}[[limit.override]]\nkey = [\"ann\"]\ncount = 5\n[[limit.override]]\nkey = [\"root\"]\nexempt = true\nuntil = \"{until}\"\n"
    );
    let engine = engine(&text);
    let calls = limit(&engine, "calls");
    assert_eq!(take(&engine, &calls, "ann", 1, START).quota, 5);
    let root = take(&engine, &calls, "root", 100, START);
    assert!(root.allowed && root.exempt && root.charged == 0);
    assert!(!take(&engine, &calls, "root", 100, until).allowed);
    let exception = |key: &[&str], count: Option<u64>| LimitException {
        limit: "calls".to_owned(),
        key: key.iter().map(|value| (*value).to_owned()).collect(),
        count,
        exempt: false,
        until: Some(until),
    };
    engine.post_exception(exception(&["ann"], Some(0)), START).unwrap();
    let none = take(&engine, &calls, "ann", 1, START);
    assert_eq!((none.allowed, none.quota, none.retry_after), (false, 0, None));
    assert_eq!(take(&engine, &calls, "ann", 1, until).quota, 5, "what was posted has ended");
    engine.post_exception(exception(&["ann"], None), START).unwrap();
    assert!(engine.posted_exceptions("calls").is_empty());
    let unfit = engine.post_exception(exception(&["ann", "bob"], Some(1)), START).unwrap_err();
    assert!(matches!(unfit, LimitExceptionError::Unfit(_)));
    assert_eq!(unfit.to_string(), "the key of `calls` has 1 values, and 2 were given");
}

#[test]
fn counts_and_exceptions_outlive_a_restart() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let text = format!(
        "{SLIDING}ban = {{ after = 1, within = \"10m\", for = \"1h\" }}\n[[limit]]\nname = \"bucket\"\nkey = [\"user\"]\ncount = 10\nper = \"1h\"\nmode = \"gcra\"\n"
    );
    {
        let engine = Engine::open(&directory, plan(&text)).unwrap();
        let (calls, bucket) = (limit(&engine, "calls"), limit(&engine, "bucket"));
        take(&engine, &calls, "ann", 2, START);
        take(&engine, &bucket, "ann", 7, START);
        for _ in 0..4 {
            take(&engine, &calls, "eve", 1, START);
        }
        let exception = LimitException {
            limit: "calls".to_owned(),
            key: vec!["bob".to_owned()],
            count: Some(1),
            exempt: false,
            until: None,
        };
        engine.post_exception(exception, START).unwrap();
        engine.close().unwrap();
    }
    let engine = Engine::open(&directory, plan(&text)).unwrap();
    let (calls, bucket) = (limit(&engine, "calls"), limit(&engine, "bucket"));
    assert_eq!(peek(&engine, &calls, "ann", 1, START).used, 2);
    assert_eq!(peek(&engine, &bucket, "ann", 1, START).used, 7);
    assert!(peek(&engine, &calls, "eve", 1, START).banned_until.is_some());
    assert_eq!(peek(&engine, &calls, "bob", 1, START).quota, 1);
}

#[test]
fn limits_of_other_formats_share_their_kinds_and_not_their_keys() {
    let engine = engine("");
    let window = LimitPlan::fixed("domain_key", 2, Span::minutes(1));
    let other = LimitPlan::fixed("other", 2, Span::minutes(1));
    let keys = [&window, &other].map(|limit| engine.limit_key(limit, &["value"]));
    assert_ne!(keys[0], keys[1]);
    let each = |now: Time| {
        let takes = [Take { limit: &window, key: keys[0], cost: 1 }; 3];
        let other = Take { limit: &other, key: keys[1], cost: 1 };
        block_on(engine.take_each(&[takes[0], takes[1], takes[2], other], now))
    };
    let told = |taken: Vec<TakeResult>| {
        taken.iter().map(|taken| (taken.allowed, taken.remaining)).collect::<Vec<_>>()
    };
    let noon = START + Span::seconds(30);
    assert_eq!(told(each(noon)), [(true, 1), (true, 0), (false, 0), (true, 1)]);
    let next = each(noon + Span::seconds(30));
    assert_eq!(next[0].reset_after, Span::minutes(1));
    assert_eq!(told(next), [(true, 1), (true, 0), (false, 0), (true, 1)], "a window later");

    // As redis-cell: `CL.THROTTLE user 15 30 60 1`.
    let bucket = LimitPlan::bucket("throttle", 30, Span::minutes(1), 16).unwrap();
    let key = engine.limit_key(&bucket, &["user"]);
    let taken = block_on(engine.take(&[Take { limit: &bucket, key, cost: 1 }], START)).remove(0);
    assert_eq!((taken.quota, taken.remaining, taken.reset_after), (16, 15, Span::seconds(2)));
    let taken = block_on(engine.take(&[Take { limit: &bucket, key, cost: 16 }], START)).remove(0);
    assert_eq!((taken.allowed, taken.remaining, taken.retry_after), (false, 15, Some(Span::seconds(2))));
}

#[test]
fn keys_are_normalised_as_their_fields_say() {
    let text = r#"
[[limit]]
name = "logins"
key = ["ip:network", "user"]
count = 1
per = "day"
zone = "Europe/Berlin"
"#;
    let engine = engine(text);
    let logins = limit(&engine, "logins");
    let key = |ip: &'static str, user: &'static str| {
        engine.limit_key_of(&logins, |field| Some(if field == "ip" { ip } else { user }))
    };
    assert_eq!(key("2001:db8::1", "ann"), key("2001:db8::ffff:0:2", "ann"));
    assert_ne!(key("2001:db8::1", "ann"), key("2001:db8:0:1::1", "ann"));
    assert_eq!(key("::ffff:192.0.2.1", "ann"), key("192.0.2.1", "ann"));
    assert_ne!(key("192.0.2.1", "ann"), key("192.0.2.2", "ann"));
    assert_ne!(key("192.0.2.1", "ann"), key("192.0.2.1", "Ann"));
    let missing = engine.limit_key_of(&logins, |_| None).unwrap_err();
    assert_eq!(missing.to_string(), "the limit `logins` counts by `ip`, which is not given");
    assert_eq!(key("", "ann").unwrap_err().to_string(), "`` is no value of `ip`");
}

const RULES: &str = r#"
name = "logins"
[[field]]
name = "ip"
type = "ip"
[[field]]
name = "names"
type = "list"
[[limit]]
name = "by_ip"
key = ["ip:network"]
count = 2
per = "1m"
[[limit]]
name = "by_name"
key = ["names", "ip"]
count = 100
per = "1m"
[[rule]]
name = "TOO_MANY"
when = "over('by_ip')"
score = 3
[[rule]]
name = "FEW_LEFT"
when = "remaining('by_name') < 99"
score = 1
[[band]]
at = 3
action = "throttle"
"#;

#[test]
fn rules_ask_limits_that_events_take_from() {
    let engine = engine(RULES);
    let plan = engine.plan();
    let pipeline = plan.pipeline(None).unwrap();
    let event = |ip: &str, names: &[&str]| {
        let mut event = event::Event { time: Some(START), ..event::Event::default() };
        event.push("ip", ip);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        event.push("names", names);
        engine.prepare(pipeline, event, START)
    };
    let fired = |ip: &str, names: &[&str]| {
        let decision = block_on(engine.decide(vec![event(ip, names)])).remove(0);
        decision.verdict.reasons.iter().map(|reason| reason.rule.clone()).collect::<Vec<_>>()
    };
    assert_eq!(fired("2001:db8::1", &["ann"]), [""; 0]);
    assert_eq!(fired("2001:db8::1", &["bob", "ann"]), ["FEW_LEFT"], "the strictest of several keys");
    let verdict = block_on(engine.consult(event("2001:db8::2", &["cid"]))).unwrap();
    assert_eq!(verdict.action.to_string(), "throttle", "a look takes nothing");
    assert_eq!(fired("2001:db8::3", &["cid"]), ["TOO_MANY"]);
    assert_eq!(fired("2001:db8:0:1::3", &["cid"]), [""; 0]);
    assert_eq!(fired("", &["cid"]), [""; 0], "without a key there is nothing to say");

    let refused = |when: &str| {
        let text = RULES.replace("over('by_ip')", when);
        let config = Config::from_text("limits.toml", &text, &Overrides::default());
        Plan::compile(&config).unwrap_err().to_string()
    };
    assert!(refused("over('by_pi')").contains("there is no limit `by_pi`"));
    assert!(refused("over(by_ip)").contains("a name in quotes belongs here"));
}

const LOGINS: &str = r#"
name = "site"
[[field]]
name = "ip"
type = "ip"
[[field]]
name = "path"
type = "string"
[[field]]
name = "failed"
type = "bool"
[[kind]]
name = "ip"
of = "ip"
[[statistic]]
name = "visits"
keys = ["ip"]
counts = ["seen"]
windows = ["1m x 60"]
[expressions]
login = "path == '/login'"
busy = "ip.seen('1h') > 5"
[[limit]]
name = "logins"
key = ["ip"]
count = 2
per = "1m"
when = "login && failed"
[[rule]]
name = "TOO_MANY"
when = "over('logins')"
score = 1
[[rule]]
name = "WITHIN"
when = "!over('logins')"
score = 1
[[rule]]
name = "LEFT"
when = "has(remaining('logins'))"
score = 1
"#;

/// Events of [`LOGINS`], and the rules that are to fire: only failed logins take, whatever comes between.
const VISITS: [(&str, Option<bool>, &[&str]); 8] = [
    ("/", Some(true), &["WITHIN"]),
    ("/login", Some(false), &["WITHIN"]),
    ("/login", Some(true), &["LEFT", "WITHIN"]),
    ("/", None, &["WITHIN"]),
    ("/login", Some(true), &["LEFT", "WITHIN"]),
    // Missing is not true.
    ("/login", None, &["WITHIN"]),
    ("/login", Some(true), &["LEFT", "TOO_MANY"]),
    ("/", Some(true), &["WITHIN"]),
];

fn visit(path: &str, failed: Option<bool>) -> event::Event {
    let mut event = event::Event { time: Some(START), ..event::Event::default() };
    event.push("ip", "192.0.2.1");
    event.push("path", path);
    if let Some(failed) = failed {
        event.push("failed", failed);
    }
    event
}

fn rules_of(decision: &engine::Decision) -> Vec<&str> {
    let mut rules: Vec<&str> = decision.verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect();
    rules.sort_unstable();
    rules
}

/// The problems and warnings of a configuration.
fn told(text: &str) -> String {
    let config = Config::from_text("limits.toml", text, &Overrides::default());
    match Plan::compile(&config) {
        Ok(plan) if plan.warnings.list().is_empty() => String::new(),
        Ok(plan) => plan.warnings.to_string(),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn an_event_for_which_the_condition_of_a_limit_does_not_hold_takes_nothing() {
    let together = engine(LOGINS);
    let apart = engine(LOGINS);
    let columns = engine(LOGINS);
    // A field that is cut into pieces makes rows of a batch.
    let rows = engine(&format!(
        "{LOGINS}[[kind]]\nname = \"path\"\nof = \"path\"\nnormalise = \"address\"\n[[distinct]]\nname = \"d\"\nper = \"path\"\nof = \"ip\"\nwindow = \"1h x 2\"\n"
    ));
    let pipeline = |engine: &Engine| Arc::clone(engine.plan().pipeline(None).unwrap());

    let prepared =
        VISITS.map(|(path, failed, _)| together.prepare(&pipeline(&together), visit(path, failed), START));
    let batch = || {
        let cells = |values: Vec<Option<event::Value>>| BatchColumn::full(BatchCells::Values(values));
        let paths = VISITS.iter().map(|(path, ..)| Some(event::Value::from(*path)));
        let failed = VISITS.iter().map(|(_, failed, _)| failed.map(event::Value::from));
        EventBatch {
            rows: VISITS.len(),
            columns: vec![
                ("ip".into(), cells(vec![Some(event::Value::from("192.0.2.1")); VISITS.len()])),
                ("path".into(), cells(paths.collect())),
                ("failed".into(), cells(failed.collect())),
            ],
            id: None,
        }
    };
    let of_batch = |engine: &Engine| {
        let (of, batch) = (pipeline(engine), batch());
        let prepared = engine.prepare_batch(&of, &batch, START, &Cancellation::default());
        block_on(engine.decide_batch(prepared.unwrap())).0
    };
    let one = |(path, failed, _): (&str, Option<bool>, _)| {
        let prepared = |engine: &Engine| engine.prepare(&pipeline(engine), visit(path, failed), START);
        block_on(apart.observe(prepared(&apart))).unwrap();
        block_on(apart.consult(prepared(&apart))).unwrap();
        block_on(apart.decide(vec![prepared(&apart)])).remove(0)
    };
    for (context, decisions) in [
        ("together", block_on(together.decide(prepared.into_iter().collect()))),
        ("apart, and counted and looked at before", VISITS.into_iter().map(one).collect()),
        ("by columns", of_batch(&columns)),
        ("by rows", of_batch(&rows)),
    ] {
        let found: Vec<Vec<&str>> = decisions.iter().map(rules_of).collect();
        assert_eq!(found, VISITS.map(|(.., rules)| rules.to_vec()), "{context}");
    }
    // By its name a limit is taken from whatever the event.
    let logins = limit(&together, "logins");
    assert_eq!(logins.when.as_deref(), Some("login && failed"));
    let key = together.limit_key_of(&logins, |_| Some("192.0.2.1")).unwrap();
    let taken = block_on(together.take(&[Take { limit: &logins, key, cost: 1 }], START));
    assert_eq!((taken[0].used, taken[0].allowed), (4, false));
}

#[test]
fn a_look_and_an_explanation_say_that_a_limit_does_not_apply_and_why() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let engine = Engine::open(&directory, plan(LOGINS)).unwrap();
    let pipeline = Arc::clone(engine.plan().pipeline(None).unwrap());
    let prepared = |path: &str, failed| engine.prepare(&pipeline, visit(path, failed), START);
    let unmet = |explained: &engine::Explanation| {
        let [logins] = explained.limits.as_slice() else { panic!("{:?}", explained.limits) };
        assert_eq!((logins.limit.as_str(), logins.when.as_str()), ("logins", "login && failed"));
        logins.unmet.iter().map(|part| (part.part.clone(), part.was)).collect::<Vec<_>>()
    };
    let decided = |path, failed| block_on(engine.decide(vec![prepared(path, failed)])).remove(0).id;
    for (path, failed, wanted) in [
        ("/login", Some(true), vec![]),
        ("/", Some(true), vec![("login".to_owned(), Some(false))]),
        ("/", None, vec![("login".to_owned(), Some(false)), ("failed".to_owned(), None)]),
    ] {
        assert_eq!(unmet(&block_on(engine.peek(prepared(path, failed))).unwrap()), wanted);
        assert_eq!(unmet(&engine.explain(decided(path, failed)).unwrap()), wanted);
    }
    assert!(block_on(engine.observe(prepared("/", None))).unwrap().limits.is_empty());
    // What was decided by another condition is explained by that one, or not at all.
    let before = decided("/", Some(true));
    let version = pipeline.version.clone();
    let other = plan(&LOGINS.replace("when = \"login && failed\"", "when = \"login\""));
    assert_ne!(other.pipelines[0].version, version);
    engine.close().unwrap();
    drop(engine);
    let engine = Engine::open(&directory, other).unwrap();
    assert!(engine.explain(before).unwrap().limits.is_empty());
}

#[test]
fn the_condition_of_a_limit_is_checked_where_it_stands() {
    let with = |when: &str| told(&LOGINS.replace("\"login && failed\"", &format!("{when:?}")));
    assert_eq!(told(LOGINS), "");
    assert_eq!(with("true"), "");
    let line = LOGINS.lines().position(|line| line.starts_with("when = \"login")).unwrap() + 1;
    for (when, part, message) in [
        ("path == '/login' && filed", "filed", "unknown name `filed`"),
        ("login && ip.seen('1h') > 5", "ip.seen", "`ip.seen('1h')` is not known yet"),
        ("login && busy", "busy", "`ip.seen('1h')` is not known yet"),
        ("over('logins')", "over", "`over('logins')` is not known yet"),
        ("model('m') > 0.5", "'m'", "there is no model `m`"),
        ("rule('LEFT')", "'LEFT'", "there are no rules to refer to here"),
        ("path", "path", "a condition is true or false, this is a string"),
        ("failed && !failed", "!failed", "this is never true"),
    ] {
        let found = with(when);
        let column = 9 + when.find(part).unwrap();
        let place = format!("limits.toml:{line}:{column}: error: `logins`, for events of `site`: ");
        assert!(found.contains(&place) && found.contains(message), "{when}: {found}");
    }
    // Only where an event is known there is a condition to ask.
    let unasked = LOGINS.replace("over('logins')", "failed").replace("has(remaining('logins'))", "failed");
    assert!(told(&unasked).contains("no rule asks for the limit `logins`"), "{}", told(&unasked));
    let forward = "[[limit]]\nname = \"x\"\nkey = [\"client.ip\"]\ncount = 1\nper = \"1m\"\nwhen = \"failed\"\n[[forward_auth]]\nname = \"site\"\nlimits = [\"x\"]\n";
    let found = told(&format!("{LOGINS}{forward}"));
    assert!(found.contains("`when` of the limit `x` has no meaning for a request"), "{found}");
}

#[test]
fn a_limit_that_takes_for_more_events_than_rules_mean_is_warned_of_with_the_line_to_write() {
    let base: String = LOGINS.split("[[rule]]").next().unwrap().replace("when = \"login && failed\"\n", "");
    let rule =
        |name: &str, when: &str| format!("[[rule]]\nname = \"{name}\"\nwhen = \"{when}\"\nscore = 1\n");
    let with = |rules: &[&str]| {
        let rules = rules.iter().enumerate().map(|(index, when)| rule(&format!("R{index}"), when));
        told(&format!("{base}{}", rules.collect::<String>()))
    };
    let line = base.lines().count() + 3;
    let found = with(&["login && over('logins') && (failed || path == '/')"]);
    assert!(
        found.contains(&format!(
            "limits.toml:{line}:18: warning: `R0`: every event takes from the limit `logins`, also where"
        )) && found.contains("add `when = \"login && (failed || path == '/')\"` to its [[limit]]"),
        "{found}"
    );
    let found = with(&["login && over('logins')", "failed && remaining('logins') < 1"]);
    assert!(found.contains("`when = \"(failed) || (login)\"`"), "{found}");
    for fine in [
        &["over('logins')"][..],
        // What is read of the statistics cannot be asked before.
        &["over('logins') && busy"],
        &["over('logins') || failed"],
        // The other rule needs it for all.
        &["login && over('logins')", "remaining('logins') < 1"],
    ] {
        assert_eq!(with(fine), "", "{fine:?}");
    }
    // Both lines that are offered are taken, and end it.
    for when in ["login", "true"] {
        let narrow = base.replace("per = \"1m\"\n", &format!("per = \"1m\"\nwhen = {when:?}\n"));
        assert_eq!(told(&format!("{narrow}{}", rule("R", "login && over('logins')"))), "");
    }
}

#[test]
fn the_documents_examples_are_what_they_say() {
    let page = include_str!("../../../../docs/guides/limits.md");
    let section = page.split("\n## In rules\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let blocks: Vec<&str> =
        section.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let [right, wrong, clears] = blocks.as_slice() else { panic!("{blocks:?}") };
    let shop = include_str!("../../../../examples/shop/signups.toml");
    let shop = |block: &str| told(&format!("{shop}\n{block}"));
    assert_eq!([shop(right), shop(&format!("{right}\n{clears}"))], ["", ""]);
    let warned = shop(wrong);
    let line = right.lines().find(|line| line.starts_with("when")).unwrap().split('#').next().unwrap().trim();
    assert!(warned.contains(&format!("add `{line}` to its [[limit]]")), "{warned}");
}

#[test]
fn what_is_wrong_with_a_limit_is_said_where_it_stands() {
    let problems = |text: &str| {
        let config = Config::from_text("limits.toml", text, &Overrides::default());
        Plan::compile(&config).unwrap_err().to_string()
    };
    let with = |more: &str| problems(&format!("{SLIDING}{more}"));
    let per = |per: &str| problems(&SLIDING.replace("1m", per));
    for (text, message) in [
        (with("mode = \"gcra\"\nburst = 1000000000000\n"), "the bucket takes more than 36500d to fill"),
        (
            problems(&format!("{}mode = \"gcra\"\n", SLIDING.replace("count = 3", "count = 60000000001"))),
            "the rate is zero, or more than one in a nanosecond",
        ),
        (with("burst = 3\n"), "`burst` has no meaning for a limit of mode `sliding`"),
        (with("zone = \"UTC\"\n"), "`zone` has no meaning for a limit of mode `sliding`"),
        (with("mode = \"interpolated\"\nwindows = 1\n"), "one sub-window has no share"),
        (with("mode = \"calendar\"\n"), "`1m` is no time of a limit"),
        (with("enforcement = \"shadow_ban\"\ncounts = \"allowed\"\n"), "a ban in the shadow counts all"),
        (with("also = [\"hour\"]\n"), "there is no other limit `hour`"),
        (with("[[limit.override]]\nkey = []\ncount = 1\n"), "the key of `calls` has 1 values"),
        (
            with("[[limit.override]]\nkey = [\"a\"]\n"),
            "the exception has neither `count` nor `exempt`, or both",
        ),
        (with(SLIDING), "limit `calls` is defined twice"),
        (per("10ms"), "`10ms` is no time of a limit"),
        (per("2y"), "`2y` is no time of a limit"),
        (
            problems(&format!("{}zone = \"Middle/Earth\"\n", SLIDING.replace("1m", "day"))),
            "there is no time zone `Middle/Earth`",
        ),
        (problems(&SLIDING.replace("\"user\"", "\"user:big\"")), "`user:big` is no field of a key"),
    ] {
        assert!(text.contains(message), "{text}");
    }
}

#[test]
fn when_counts_cannot_be_had_the_limit_says_what_happens() {
    for (on_error, allowed) in [("open", true), ("closed", false)] {
        let engine = engine(&format!("{SLIDING}on_error = \"{on_error}\"\n"));
        let calls = limit(&engine, "calls");
        take(&engine, &calls, "ann", 1, START);
        engine.close().unwrap();
        let taken = take(&engine, &calls, "ann", 1, START);
        assert_eq!((taken.allowed, taken.over, taken.charged), (allowed, !allowed, 0));
        assert_eq!(taken.quality, stats::Quality::Missing);
        let refund = Take { limit: &calls, key: user(&engine, &calls, "ann"), cost: 1 };
        assert!(block_on(engine.refund(refund, None, START)).is_err());
    }
}

#[test]
fn a_limit_changes_while_it_is_counted_but_not_what_is_kept_of_it() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let write = |text: &str| std::fs::write(directory.config_path(), text).unwrap();
    let load = || Plan::compile(&Config::load(&directory.config_path(), &Overrides::default())).unwrap();
    write(SLIDING);
    let engine = Engine::open(&directory, load()).unwrap();
    let before = limit(&engine, "calls");
    for _ in 0..4 {
        take(&engine, &before, "ann", 1, START);
    }
    write(&format!(
        "{}[[limit.override]]\nkey = [\"bob\"]\nexempt = true\n",
        SLIDING.replace("count = 3", "count = 9")
    ));
    engine.change(Proposal::Files, START, false).unwrap();
    let now = limit(&engine, "calls");
    assert_eq!(take(&engine, &now, "ann", 1, START).remaining, 4, "what was counted stays");
    assert!(take(&engine, &now, "bob", 100, START).exempt);
    write(&SLIDING.replace("1m", "1h"));
    let refused = engine.change(Proposal::Files, START, false).unwrap_err().to_string();
    assert!(refused.contains("cannot change while it is counted"), "{refused}");
    assert_eq!(take(&engine, &now, "ann", 1, START).remaining, 3);
    engine.close().unwrap();
}

/// A ledger elsewhere that knows nothing in time, and what it was asked.
struct Silent(Arc<Mutex<Vec<Observation>>>);

impl Ledger for Silent {
    fn observe_each<'a>(&'a self, requests: &'a [ObserveRequest]) -> LedgerFuture<'a, ObserveOutcomes> {
        let mut outcomes = ObserveOutcomes::blank(requests.iter().map(|request| request.observations.len()));
        let all: Vec<Observation> =
            requests.iter().flat_map(|request| request.observations.clone()).collect();
        for reading in 0..all.len() {
            outcomes.set_reading(
                reading,
                ReadingHead { quality: Quality::Missing, times: None, fresh: false, columns: 1 },
                &[],
            );
        }
        self.0.lock().unwrap().extend(all);
        Box::pin(async move { Ok(outcomes) })
    }

    fn timeline<'a>(&'a self, _: Key) -> LedgerFuture<'a, Option<Timeline>> {
        Box::pin(async { Ok(None) })
    }

    fn hottest<'a>(
        &'a self,
        queries: &'a [stats::HottestQuery],
        _: Time,
        _: stats::CancellationCheck<'a>,
    ) -> LedgerFuture<'a, Vec<Vec<(Key, u64)>>> {
        Box::pin(async { Ok(vec![Vec::new(); queries.len()]) })
    }

    fn erase<'a>(
        &'a self,
        _: &'a std::collections::HashSet<event::Shingle>,
        _: bool,
        _: stats::CancellationCheck<'a>,
    ) -> LedgerFuture<'a, stats::ErasedKeys> {
        Box::pin(async { Ok(stats::ErasedKeys::default()) })
    }

    fn set_catalog(&self, _: Catalog) -> Result<(), LedgerError> {
        Ok(())
    }

    fn maintain(&self, _: Time) -> Result<(), LedgerError> {
        Ok(())
    }

    fn sync(&self) -> LedgerFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> Result<(), LedgerError> {
        Ok(())
    }

    fn census(&self) -> LedgerCensus {
        LedgerCensus::default()
    }
}

#[test]
fn what_an_exact_limit_may_not_have_counted_is_not_given_back() {
    let parent = tempfile::TempDir::new().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let text = format!("{SLIDING}counts = \"allowed\"\nexact = true\nalso = [\"strict\"]\n{SLIDING}")
        .replacen("\"calls\"", "\"known\"", 1)
        .replacen("\"calls\"", "\"strict\"", 1);
    let plan = plan(&format!("{text}exact = true\non_error = \"closed\"\n"));
    let exact = |kind: u16| plan.catalog.get(LIMITS, Kind(kind)).unwrap().exact;
    assert!(exact(1) && exact(2) && exact(USED_ONCE.0));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let silent = Silent(asked.clone());
    let engine =
        Engine::open_over(&directory, plan, None, |_| Ok(LedgerHome::Elsewhere(Box::new(silent)))).unwrap();
    let limits = ["known", "strict"].map(|name| limit(&engine, name));
    let takes: Vec<Take<'_>> =
        limits.iter().map(|limit| Take { limit, key: user(&engine, limit, "ann"), cost: 1 }).collect();
    let taken = block_on(engine.take(&takes, START));
    for (taken, allowed) in taken.iter().zip([true, false]) {
        assert_eq!(
            (taken.quality, taken.charged, taken.allowed),
            (Quality::Missing, 0, allowed),
            "{taken:?}"
        );
    }
    assert_eq!(asked.lock().unwrap().len(), 2, "one refuses, and nothing of the other is given back");
    let used = block_on(engine.use_once("nonce", b"one", START + Span::minutes(1), START));
    assert_eq!(used, UseResult::Unknown);
}

/// Events that say that they are later or earlier than they arrive, by less and by more than windows and labels last.
#[test]
fn an_event_cannot_date_itself_out_of_a_limit_or_a_label() {
    const BANS: &str = r#"
[[kind]]
name = "ip"
of = "ip"
[[label]]
name = "bad"
of = "ip"
keep = "1h"
[[rule]]
name = "BANNED"
when = "ip.marked('bad')"
score = 0
[[rule]]
name = "BAN"
when = "'ban' in names"
score = 0
effects = ["mark ip as bad for 2m"]
"#;
    let text = format!("{RULES}{BANS}");
    for first in [0, 30, 120, 280, 900, -30, -90, -200, -4000] {
        for others in [0, 30, 120, 280, 900, -30, -90, -200, -4000] {
            let engine = engine(&text);
            let plan = engine.plan();
            let pipeline = plan.pipeline(None).unwrap();
            let fired = |names: &[&str], apart: i64| {
                let time = Some(START + Span::seconds(apart));
                let mut event = event::Event { time, ..event::Event::default() };
                event.push("ip", "192.0.2.1");
                let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
                event.push("names", names);
                let event = engine.prepare(pipeline, event, START);
                let decision = block_on(engine.decide(vec![event])).remove(0);
                let mut rules: Vec<String> =
                    decision.verdict.reasons.iter().map(|reason| reason.rule.clone()).collect();
                rules.sort();
                rules
            };
            let context = format!("{first} s and {others} s");
            assert_eq!(fired(&["ban"], first), ["BAN"], "{context}");
            assert_eq!(fired(&[], others), ["BANNED"], "{context}");
            for _ in 0..5 {
                assert_eq!(fired(&[], others), ["BANNED", "TOO_MANY"], "{context}");
            }
        }
    }
}

/// A row of those that are fullest: its values, what is used and may be, whether it is banned, and whether an exception stands.
type FullKey = (Option<Vec<String>>, u64, u64, bool, bool);

fn fullest(engine: &Engine, name: &str, count: usize, now: Time) -> Vec<FullKey> {
    let limits = [Arc::clone(engine.plan().limit(name).unwrap())];
    let mut fills = block_on(engine.fullest(&limits, count, now, &|| false)).unwrap();
    assert_eq!(fills.len(), 1);
    let row = |key: engine::FullestKey| {
        let state = key.state;
        (key.values, state.used, state.quota, state.banned_until.is_some(), key.has_exception)
    };
    fills.remove(0).keys.into_iter().map(row).collect()
}

#[test]
fn the_fullest_keys_are_found_whatever_way_is_counted() {
    for mode in [
        "per = \"1m\"",
        "per = \"1m\"\nmode = \"interpolated\"",
        "per = \"hour\"\nmode = \"calendar\"",
        "per = \"1m\"\nmode = \"gcra\"\nburst = 10",
    ] {
        let ban = "ban = { after = 3, within = \"10m\", for = \"2h\" }";
        let engine = engine(&format!(
            "[[limit]]\nname = \"calls\"\nkey = [\"user\"]\ncount = 10\n{mode}\ncounts = \"allowed\"\n{ban}\n\n\
             [[limit.override]]\nkey = [\"small\"]\ncount = 1\n\n[[limit.override]]\nkey = [\"free\"]\nexempt = true\n"
        ));
        let calls = limit(&engine, "calls");
        assert_eq!(fullest(&engine, "calls", 3, START), [], "{mode}");
        for (who, cost) in [("ann", 9), ("bob", 4), ("free", 7), ("small", 1), ("eve", 10)] {
            take(&engine, &calls, who, cost, START);
        }
        for number in 0..20 {
            take(&engine, &calls, &format!("other{number}"), 2, START);
        }
        for _ in 0..3 {
            take(&engine, &calls, "eve", 1, START);
        }
        let small = Some(vec!["small".to_owned()]);
        let expected = [
            (None, 10, 10, true, false),
            (small, 1, 1, false, true),
            (None, 9, 10, false, false),
            (None, 4, 10, false, false),
        ];
        assert_eq!(fullest(&engine, "calls", 4, START), expected, "{mode}");
        assert_eq!(fullest(&engine, "calls", 100, START).len(), 24, "{mode}");
        // A period later only the ban is left.
        let later = fullest(&engine, "calls", 100, START + Span::minutes(61));
        assert_eq!(later, [(None, 0, 10, true, false)], "{mode}");
        let limits = [Arc::clone(engine.plan().limit("calls").unwrap())];
        let stopped = block_on(engine.fullest(&limits, 3, START, &|| true));
        assert!(stopped.is_err(), "{mode}");
    }
}

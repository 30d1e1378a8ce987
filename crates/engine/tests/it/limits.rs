//! What limits answer, operation by operation.

use std::sync::{Arc, Mutex};

use engine::limit::{Exception, ExceptionError, LIMITS, LimitKey, LimitPlan, Take, Taken};
use engine::{Config, Directory, Engine, Home, Overrides, Plan, Proposal};
use event::{Key, Kind, Space, Span, Time};
use pollster::block_on;
use stats::{
    Answer, Catalog, Census, Ledger, LedgerError, Observation, Outcomes, Quality, Request, Timeline, Told,
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
fn take(engine: &Engine, limit: &LimitPlan, who: &str, cost: u64, now: Time) -> Taken {
    let take = Take { limit, key: user(engine, limit, who), cost };
    block_on(engine.take(&[take], now)).remove(0)
}

fn peek(engine: &Engine, limit: &LimitPlan, who: &str, cost: u64, now: Time) -> Taken {
    let take = Take { limit, key: user(engine, limit, who), cost };
    block_on(engine.peek_limits(&[take], now)).remove(0)
}

const SLIDING: &str = r#"
[[limit]]
name = "calls"
number = 1
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
number = 1
key = ["user"]
count = 2
per = "1s"
counts = "allowed"
also = ["hour"]

[[limit]]
name = "hour"
number = 2
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
    let allowed = |taken: &[Taken]| taken.iter().all(|taken| taken.allowed);
    assert!(allowed(&both(START)) && allowed(&both(START)));
    let third = both(START);
    assert!(!third[0].allowed && third[1].allowed);
    assert_eq!((third[1].charged, third[1].remaining), (0, 1), "it was given back");
    assert_eq!(Taken::strictest(&third).unwrap().limit, second.name);
    let later = START + Span::seconds(5);
    assert!(allowed(&both(later)), "so there is one left in the hour");
    let last = both(later);
    assert!(last[0].allowed && !last[1].allowed);
    assert_eq!(Taken::strictest(&last).unwrap().limit, hour.name);
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
            assert_eq!(Taken { silent: false, ..taken }, first, "{mode}");
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
    let exception = |key: &[&str], count: Option<u64>| Exception {
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
    assert!(matches!(unfit, ExceptionError::Unfit(_)));
    assert_eq!(unfit.to_string(), "the key of `calls` has 1 values, and 2 were given");
}

#[test]
fn counts_and_exceptions_outlive_a_restart() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let text = format!(
        "{SLIDING}ban = {{ after = 1, within = \"10m\", for = \"1h\" }}\n[[limit]]\nname = \"bucket\"\nnumber = 2\nkey = [\"user\"]\ncount = 10\nper = \"1h\"\nmode = \"gcra\"\n"
    );
    {
        let engine = Engine::open(&directory, plan(&text)).unwrap();
        let (calls, bucket) = (limit(&engine, "calls"), limit(&engine, "bucket"));
        take(&engine, &calls, "ann", 2, START);
        take(&engine, &bucket, "ann", 7, START);
        for _ in 0..4 {
            take(&engine, &calls, "eve", 1, START);
        }
        let exception = Exception {
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
    let told =
        |taken: Vec<Taken>| taken.iter().map(|taken| (taken.allowed, taken.remaining)).collect::<Vec<_>>();
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
number = 1
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
number = 1
key = ["ip:network"]
count = 2
per = "1m"
[[limit]]
name = "by_name"
number = 2
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
        event.fields.push(("ip".to_owned(), event::Value::from(ip)));
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        event.fields.push(("names".to_owned(), event::Value::from(names)));
        engine.prepare(pipeline, event, START)
    };
    let fired = |ip: &str, names: &[&str]| {
        let decision = block_on(engine.decide(vec![event(ip, names)])).unwrap().remove(0);
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
        (with("burst = 3\n"), "`burst` says nothing of a limit whose mode is `sliding`"),
        (with("zone = \"UTC\"\n"), "`zone` says nothing of a limit whose mode is `sliding`"),
        (with("mode = \"interpolated\"\nwindows = 1\n"), "one sub-window has no share"),
        (with("mode = \"calendar\"\n"), "`1m` is no time of a limit"),
        (with("enforcement = \"shadow_ban\"\ncounts = \"allowed\"\n"), "a ban in the shadow counts all"),
        (with("also = [\"hour\"]\n"), "there is no other limit `hour`"),
        (with("[[limit.override]]\nkey = []\ncount = 1\n"), "the key of `calls` has 1 values"),
        (with("[[limit.override]]\nkey = [\"a\"]\n"), "it is not said what is excepted"),
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
    fn observe<'a>(&'a self, requests: &'a [Request]) -> Answer<'a, Outcomes> {
        let mut outcomes = Outcomes::blank(requests.iter().map(|request| request.observations.len()));
        let all: Vec<Observation> =
            requests.iter().flat_map(|request| request.observations.clone()).collect();
        for reading in 0..all.len() {
            outcomes.tell(
                reading,
                Told { quality: Quality::Missing, times: None, fresh: false, columns: 1 },
                &[],
            );
        }
        self.0.lock().unwrap().extend(all);
        Box::pin(async move { Ok(outcomes) })
    }

    fn timeline<'a>(&'a self, _: Key) -> Answer<'a, Option<Timeline>> {
        Box::pin(async { Ok(None) })
    }

    fn hottest<'a>(
        &'a self,
        _: (Space, Kind),
        _: u8,
        _: Span,
        _: Time,
        _: usize,
        _: stats::IsOver<'a>,
    ) -> Answer<'a, Vec<(Key, u64)>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn set_catalog(&self, _: Catalog) -> Result<(), LedgerError> {
        Ok(())
    }

    fn maintain(&self, _: Time) -> Result<(), LedgerError> {
        Ok(())
    }

    fn sync(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> Result<(), LedgerError> {
        Ok(())
    }

    fn census(&self) -> Census {
        Census::default()
    }
}

#[test]
fn what_an_exact_limit_may_not_have_counted_is_not_given_back() {
    let parent = tempfile::TempDir::new().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let text = format!("{SLIDING}counts = \"allowed\"\nexact = true\nalso = [\"strict\"]\n{SLIDING}")
        .replacen("\"calls\"\nnumber = 1", "\"known\"\nnumber = 1", 1)
        .replacen("\"calls\"\nnumber = 1", "\"strict\"\nnumber = 2", 1);
    let plan = plan(&format!("{text}exact = true\non_error = \"closed\"\n"));
    let exact = |kind: u16| plan.catalog.get(LIMITS, Kind(kind)).unwrap().exact;
    assert!(exact(1) && exact(2));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let silent = Silent(asked.clone());
    let engine = Engine::open_over(&directory, plan, |_| Ok(Home::Elsewhere(Box::new(silent)))).unwrap();
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
}

/// Events that say that they are later or earlier than they arrive, by less and by more than windows and labels last.
#[test]
fn an_event_cannot_date_itself_out_of_a_limit_or_a_label() {
    const BANS: &str = r#"
[[kind]]
number = 1
name = "ip"
of = "ip"
[[label]]
name = "bad"
number = 2
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
                event.fields.push(("ip".to_owned(), event::Value::from("192.0.2.1")));
                let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
                event.fields.push(("names".to_owned(), event::Value::from(names)));
                let event = engine.prepare(pipeline, event, START);
                let decision = block_on(engine.decide(vec![event])).unwrap().remove(0);
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

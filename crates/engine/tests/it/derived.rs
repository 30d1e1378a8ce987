//! Fields that are derived from others, from the configuration to the verdict, and in journals that are judged anew.

use std::sync::Arc;

use engine::backtest::{Backtest, BacktestQuery, BacktestReport, Replay};
use engine::batch::{BatchCells, BatchColumn, EventBatch};
use engine::{Decision, Directory, Engine};
use event::{Event, Span};
use journal::JournalArchive;
use plan::{Config, Overrides, Plan};

use crate::pipeline::{NOW, decide_at};

const CONFIG: &str = r#"
name = "signups"

[[field]]
name = "email"
type = "string"

[[field]]
name = "forwarded"
type = "string"

[[field]]
name = "domain"
type = "string"
value = "registrable(email)"

[[field]]
name = "pattern"
type = "string"
value = "regex.replace(email.lower().split('@')[0], '[0-9]+', '0') + '@' + domain"

[[field]]
name = "client"
type = "ip"
value = "ip(forwarded.split(',')[0])"

[[field]]
name = "night"
type = "bool"
value = "now.getHours('Europe/Berlin') < 6 || domain in shady"

[[set]]
name = "shady"
type = "domain"
values = ["shady.example"]

[[kind]]
name = "pattern"
of = "pattern"

[[kind]]
name = "net"
of = "client_net"
when = "!night"

[[statistic]]
name = "counts"
keys = ["pattern", "net"]
counts = ["seen"]
windows = ["10m x 144"]

[[distinct]]
name = "patterns"
per = "net"
of = "pattern"
window = "1d"

[[rule]]
name = "PATTERN"
when = "pattern.seen('1h') >= 2 && domain == 'example.co.uk'"
score = 1

[[rule]]
name = "MANY"
when = "distinct('patterns', '1d') >= 2"
score = 1
"#;

fn plan(text: &str) -> Result<Plan, String> {
    let config = Config::from_text("signups.toml", text, &Overrides::default());
    Plan::compile(&config).map_err(|problems| problems.to_string())
}

fn signup(email: &str) -> Event {
    let mut event = Event::default();
    event.push("email", email);
    event.push("forwarded", "192.0.2.7, 10.0.0.1");
    event
}

fn rules(decision: &Decision) -> Vec<&str> {
    let mut rules: Vec<&str> = decision.verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect();
    rules.sort_unstable();
    rules
}

#[test]
fn they_are_counted_judged_logged_and_explained_like_others() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let engine = Engine::open(&directory, plan(CONFIG).unwrap()).unwrap();
    let at = |minutes: i64| NOW + Span::minutes(minutes);
    assert!(rules(&decide_at(&engine, signup("Ann1@mail.example.co.uk"), at(0))).is_empty());
    assert!(rules(&decide_at(&engine, signup("ann22@example.co.uk"), at(1))).is_empty());
    assert!(rules(&decide_at(&engine, signup("bob@example.org"), at(2))).is_empty());
    let last = decide_at(&engine, signup("ann333@www.example.co.uk"), at(3));
    assert_eq!(rules(&last), ["MANY", "PATTERN"]);
    let told = engine.explain(last.id).unwrap();
    let fact =
        |name: &str| told.facts.iter().find(|(own, _)| own == name).map(|(_, value)| value.to_string());
    assert_eq!(fact("domain").as_deref(), Some("example.co.uk"));
    assert_eq!(fact("pattern").as_deref(), Some("ann0@example.co.uk"));
    assert_eq!(fact("client").as_deref(), Some("192.0.2.7"));
    assert_eq!(fact("client_net").as_deref(), Some("192.0.2.0/24"));
    assert_eq!(fact("night").as_deref(), Some("false"));
    let verdict = told.verdict.unwrap();
    let reason = verdict.reasons.iter().find(|reason| reason.rule == "PATTERN").unwrap();
    assert_eq!(reason.detail, "pattern.seen('1h') = 2, domain = \"example.co.uk\"");

    // What is missing is missing on, and nobody brings what is derived.
    let mut odd = signup("nobody");
    odd.push("domain", "example.co.uk");
    odd.push("client", "203.0.113.9");
    odd.push("client_net", "203.0.113.0/24");
    let told = engine.explain(decide_at(&engine, odd, at(4)).id).unwrap();
    let fact =
        |name: &str| told.facts.iter().find(|(own, _)| own == name).map(|(_, value)| value.to_string());
    assert_eq!((fact("domain"), fact("pattern")), (None, None));
    assert_eq!(fact("client_net").as_deref(), Some("192.0.2.0/24"));
}

#[test]
fn a_batch_says_what_single_events_say() {
    let emails = ["a1@example.org", "a2@example.org", "nobody", "a3@mail.example.org", "b@shady.example"];
    let one_by_one = Engine::ephemeral(plan(CONFIG).unwrap()).unwrap();
    let expected: Vec<Vec<String>> = emails
        .iter()
        .map(|email| {
            let decision = decide_at(&one_by_one, signup(email), NOW);
            rules(&decision).into_iter().map(str::to_owned).collect()
        })
        .collect();
    let engine = Engine::ephemeral(plan(CONFIG).unwrap()).unwrap();
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let text = |texts: Vec<&'static str>| BatchColumn::full(BatchCells::Texts(texts));
    let batch = EventBatch {
        rows: emails.len(),
        columns: vec![
            ("email".into(), text(emails.to_vec())),
            ("forwarded".into(), text(vec!["192.0.2.7, 10.0.0.1"; emails.len()])),
        ],
        id: None,
    };
    let prepared = engine.prepare_batch(&pipeline, &batch, NOW, &Default::default()).unwrap();
    let (decisions, _) = pollster::block_on(engine.decide_batch(prepared));
    let found: Vec<Vec<String>> =
        decisions.iter().map(|decision| rules(decision).into_iter().map(str::to_owned).collect()).collect();
    assert_eq!(found, expected);
}

#[test]
fn limits_labels_and_last_values_have_them() {
    let more = r#"
        [[limit]]
        name = "per_domain"
        key = ["domain"]
        count = 2
        per = "1h"
        when = "!night"
        [[label]]
        name = "odd"
        of = "pattern"
        keep = "1d"
        [[last]]
        name = "last_domain"
        per = "net"
        of = "domain"
        keep = "1d"
        [[rule]]
        name = "OVER"
        when = "over('per_domain') && last('last_domain') == domain"
        score = 1
        effects = ["mark pattern as odd for 1h"]
        [[rule]]
        name = "ODD"
        when = "pattern.marked('odd')"
        score = 1
    "#;
    let engine = Engine::ephemeral(plan(&format!("{CONFIG}{more}")).unwrap()).unwrap();
    let decide = |email: &str, minute: i64| {
        let decision = decide_at(&engine, signup(email), NOW + Span::minutes(minute));
        rules(&decision).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(decide("a@example.org", 0).is_empty());
    assert!(decide("a@example.org", 1).is_empty());
    assert_eq!(decide("a@www.example.org", 2), ["OVER"]);
    assert_eq!(decide("a@example.org", 3), ["ODD", "OVER"]);
}

#[test]
fn of_mail_they_are_derived_from_what_the_message_shows() {
    let text = r#"
        name = "mail"
        input = "message"
        [[field]]
        name = "sender"
        type = "string"
        value = "registrable(mail.from)"
        [[field]]
        name = "subject_start"
        type = "string"
        value = "mail.subject.or('').substring(0, 5).lower()"
        [[kind]]
        name = "sender"
        of = "sender"
        [[statistic]]
        name = "counts"
        keys = ["sender"]
        counts = ["seen"]
        windows = ["1h x 24"]
        [[rule]]
        name = "AGAIN"
        when = "sender.seen('1h') > 0 && subject_start == 'cheap'"
        score = 1
    "#;
    let engine = Engine::ephemeral(plan(text).unwrap()).unwrap();
    let message = |from: &str| Event {
        raw: Some(format!("From: {from}\r\nSubject: CHEAP pills\r\n\r\nx\r\n").into_bytes().into()),
        ..Event::default()
    };
    assert!(rules(&decide_at(&engine, message("ann@a.example.org"), NOW)).is_empty());
    assert_eq!(rules(&decide_at(&engine, message("bob@b.example.org"), NOW)), ["AGAIN"]);
    assert!(rules(&decide_at(&engine, message("bob@example.com"), NOW)).is_empty());
}

#[test]
fn of_requests_they_are_derived_from_the_line() {
    let text = r#"
        preset = "web"
        [[field]]
        name = "area"
        type = "string"
        value = "http.path.split('/')[1]"
        [[rule]]
        name = "SHOP"
        when = "area == 'shop'"
        score = 1
    "#;
    let engine = Engine::ephemeral(plan(text).unwrap()).unwrap();
    let line = br#"192.0.2.7 - - [17/May/2026:10:05:03 +0000] "GET /shop/1 HTTP/1.1" 200 5 "-" "x""#;
    let event = content::web::access_log::event(line).unwrap();
    assert!(rules(&decide_at(&engine, event, NOW)).contains(&"SHOP"));
}

#[test]
fn what_cannot_be_derived_is_refused_with_its_place() {
    let check = |old: &str, new: &str, messages: &[&str]| {
        assert!(CONFIG.contains(old), "{old}");
        let found = plan(&CONFIG.replace(old, new)).unwrap_err();
        for message in messages {
            assert!(found.contains(message), "{found}");
        }
    };
    check(
        "registrable(email)",
        "registrable(emial)",
        &["unknown name `emial`", "`email`", "signups.toml:15:"],
    );
    check(
        "registrable(email)",
        "size(email)",
        &["the field is of type string, this is an integer", "string("],
    );
    check("registrable(email)", "domain", &["`domain` is derived from itself"]);
    check(
        "registrable(email)",
        "pattern.split('@')[1]",
        &["`domain` is derived before `pattern` is", "put the [[field]] `pattern` before it"],
    );
    check("registrable(email)", "email + string(net.seen('1h'))", &["unknown kind `net`"]);
    check("type = \"ip\"", "type = \"bytes\"", &["bytes are not derived"]);
    let costly = "domain(email) + ".repeat(20) + "''";
    check("registrable(email)", &costly, &["the condition costs more than 2000"]);
    let phrases = r#"
        name = "mail"
        input = "message"
        [[field]]
        name = "start"
        type = "string"
        value = "mail.subject.substring(0, 9)"
        [[phrases]]
        name = "words"
        classes = ["a"]
        files = []
        of = ["start"]
    "#;
    let found = plan(phrases).unwrap_err();
    assert!(found.contains("phrases are looked for before `start` is derived"), "{found}");
    let many: String = (0..257)
        .map(|i| format!("[[field]]\nname = \"f{i}\"\ntype = \"string\"\nvalue = \"email\"\n"))
        .collect();
    let found = plan(&format!("{CONFIG}\n{many}")).unwrap_err();
    assert!(found.contains("too many derived fields"), "{found}");
}

/// A journal of sign-ups.
fn logged(directory: &Directory) {
    let engine = Engine::open(directory, plan(CONFIG).unwrap()).unwrap();
    for (minute, email) in
        (0..).zip(["a1@example.co.uk", "a2@example.co.uk", "b@example.org", "a3@example.co.uk"])
    {
        decide_at(&engine, signup(email), NOW + Span::minutes(minute));
    }
    engine.close().unwrap();
}

fn judged(directory: &Directory, text: &str) -> BacktestReport {
    let archive = JournalArchive::open(&directory.journal_path()).unwrap();
    let pipeline = Arc::clone(&plan(text).unwrap().pipelines[0]);
    let backtest = Backtest::new(pipeline, BacktestQuery::default(), &archive.descriptions().unwrap());
    let mut tally = backtest.tally();
    for block in archive.newest_first() {
        tally.add(backtest.judge(&block.unwrap()).unwrap());
    }
    tally.report(&backtest, &archive)
}

fn replayed(directory: &Directory, text: &str) -> BacktestReport {
    let archive = JournalArchive::open(&directory.journal_path()).unwrap();
    let (plan, secret) = (plan(text).unwrap(), directory.secret().unwrap());
    let pipeline = Arc::clone(&plan.pipelines[0]);
    let descriptions = archive.descriptions().unwrap();
    let mut replay = Replay::new(&plan, pipeline, secret, BacktestQuery::default(), &descriptions).unwrap();
    archive.oldest_first().for_each(|block| replay.note(&block.unwrap()).unwrap());
    for block in archive.oldest_first() {
        pollster::block_on(replay.take(&block.unwrap())).unwrap();
    }
    let (backtest, tally) = replay.finish();
    tally.report(&backtest, &archive)
}

fn fired(report: &BacktestReport, rule: &str) -> u64 {
    report.rules.iter().find(|it| it.rule == rule).map_or(0, |it| it.after)
}

#[test]
fn a_journal_is_judged_by_the_new_definitions() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    logged(&directory);
    for report in [judged(&directory, CONFIG), replayed(&directory, CONFIG)] {
        assert_eq!((report.rows, report.changed, report.rescored), (4, 0, 0), "{report:?}");
        assert!(report.not_logged.is_empty(), "{report:?}");
    }
    // Another definition, and a field that nobody had when the events were decided.
    let other = CONFIG.replace("registrable(email)", "email.split('.')[-1]")
        + "\n[[field]]\nname = \"local\"\ntype = \"string\"\nvalue = \"email.split('@')[0]\"\n"
        + "[[rule]]\nname = \"ORG\"\nwhen = \"domain == 'org' && local == 'b'\"\nscore = 1\n";
    for report in [judged(&directory, &other), replayed(&directory, &other)] {
        assert_eq!((fired(&report, "ORG"), fired(&report, "PATTERN")), (1, 0), "{report:?}");
        assert!(report.not_logged.is_empty(), "{report:?}");
    }
    // Keys are made of what is derived now: all four have one pattern.
    let one =
        CONFIG.replace("regex.replace(email.lower().split('@')[0], '[0-9]+', '0') + '@' + domain", "'x'");
    let report = replayed(&directory, &one);
    assert_eq!(fired(&report, "PATTERN"), 1, "{report:?}");
    let three = one.replace("&& domain == 'example.co.uk'", "&& email != ''");
    assert_eq!(fired(&replayed(&directory, &three), "PATTERN"), 2);
}

#[test]
fn what_was_derived_from_a_text_that_is_not_kept_is_taken_as_it_was() {
    let text = r#"
        name = "mail"
        input = "message"
        [[field]]
        name = "greeting"
        type = "string"
        value = "mail.body_text.split(' ')[0]"
        [[field]]
        name = "short"
        type = "string"
        value = "greeting.substring(0, 2)"
        [[rule]]
        name = "DEAR"
        when = "greeting == 'dear' && short == 'de'"
        score = 1
    "#;
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let engine = Engine::open(&directory, plan(text).unwrap()).unwrap();
    let raw: Vec<u8> = b"From: a@example.org\r\n\r\nDear friend\r\n".to_vec();
    let decision = decide_at(&engine, Event { raw: Some(raw.into()), ..Event::default() }, NOW);
    assert_eq!(rules(&decision), ["DEAR"]);
    engine.close().unwrap();
    drop(engine);
    for report in [judged(&directory, text), replayed(&directory, text)] {
        assert_eq!((report.rows, report.changed), (1, 0), "{report:?}");
        assert_eq!(fired(&report, "DEAR"), 1, "{report:?}");
    }
    let longer = text.replace("substring(0, 2)", "substring(0, 3)").replace("'de'", "'dea'");
    assert_eq!(fired(&judged(&directory, &longer), "DEAR"), 1, "made of what was logged");
    let new = text.replace("greeting", "first");
    let report = judged(&directory, &new);
    assert_eq!(report.not_logged.len(), 1, "{report:?}");
    assert_eq!(fired(&report, "DEAR"), 0);
}

#[test]
fn the_documented_fields_compile() {
    let document = include_str!("../../../../docs/guides/fields.md");
    let blocks = document.split("\n```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let text = blocks.collect::<Vec<_>>().join("\n");
    let folder = tempfile::tempdir().unwrap();
    let owners = document.split("\n```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    std::fs::write(folder.path().join("owners.tsv"), owners).unwrap();
    std::fs::write(folder.path().join("providers.csv"), "mail.example,throwaway\n").unwrap();
    std::fs::write(folder.path().join("city.mmdb"), crate::network_databases::city()).unwrap();
    let path = folder.path().join("posts.toml");
    std::fs::write(&path, text).unwrap();
    let plan = Plan::compile(&Config::load(&path, &Overrides::default()));
    let plan = plan.unwrap_or_else(|problems| panic!("{problems}"));
    assert!(plan.warnings.is_empty(), "{}", plan.warnings);
    let engine = Engine::ephemeral(plan).unwrap();
    let mut event = Event::default();
    event.push("user", "Ann77");
    event.push("email", "Ann77@mail.example.co.uk");
    event.push("forwarded", "192.0.2.7, 10.0.0.1");
    let prepared = engine.prepare(&engine.plan().pipelines[0], event, NOW);
    let schema = &prepared.pipeline().schema;
    let fact = |name: &str| prepared.facts().get(schema.slot(name).unwrap()).map(ToString::to_string);
    assert_eq!(fact("email_domain").as_deref(), Some("example.co.uk"));
    assert_eq!(fact("name_pattern").as_deref(), Some("ann0"));
    assert_eq!(fact("client_net").as_deref(), Some("192.0.2.0/24"));
    assert_eq!(fact("owner").as_deref(), Some("hosting"));
    assert_eq!((fact("country").as_deref(), fact("place").as_deref()), (Some("DE"), Some("52.52,13.4")));
}

#[test]
fn time_and_id_come_from_any_field() {
    let text = r#"
        name = "requests"
        [time]
        field = "request.at"
        format = "epoch_ms"
        id = "request.number"
        [[field]]
        name = "request.at"
        type = "integer"
        [[field]]
        name = "request.number"
        type = "integer"
        [[field]]
        name = "early"
        type = "bool"
        value = "now.getHours() < 6"
        [[kind]]
        name = "early"
        of = "early"
        [[statistic]]
        name = "counts"
        keys = ["early"]
        counts = ["seen"]
        windows = ["1h x 24"]
    "#;
    let engine = Engine::ephemeral(plan(text).unwrap()).unwrap();
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let at = NOW.0 / 1_000 - 60_000;
    let json = |at: i64| format!(r#"{{"id": "x", "time": 5, "request": {{"at": {at}, "number": 7}}}}"#);
    let decide = |json: String| {
        let (event, _) = engine.read_json(&pipeline, json.as_bytes(), NOW).unwrap();
        decide_at(&engine, event, NOW)
    };
    let first = decide(json(at));
    assert_eq!((first.time, first.event_id.as_deref()), (NOW - Span::minutes(1), Some("7")));
    assert!(!first.duplicate);
    assert!(decide(json(at)).duplicate, "one number is counted once");
    assert_eq!(decide(r#"{"time": 1500000000}"#.to_owned()).time.seconds(), 1_500_000_000);

    let check = |old: &str, new: &str, message: &str| {
        assert!(text.contains(old), "{old}");
        let found = plan(&text.replace(old, new)).unwrap_err();
        assert!(found.contains(message), "{found}");
    };
    check("field = \"request.at\"", "field = \"requests.at\"", "events bring no field `requests.at`");
    check("field = \"request.at\"", "field = \"early\"", "events bring no field `early`");
    check("field = \"request.at\"", "", "`format` does nothing without `field`");
    check("\"epoch_ms\"", "\"%H:%M\"", "`%H:%M` is no format of times: it does not say date and time");
    check("\"epoch_ms\"", "\"epoch\"", "`epoch` is no format of times");
    check("\"epoch_ms\"", "\"%Q %d\"", "is no format of times");
    check("id = \"request.number\"", "id = \"event.time\"", "`event.time` is of type time");
}

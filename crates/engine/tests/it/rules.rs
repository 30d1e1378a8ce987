//! Effects of rules beside their scores, from the file to the statistics of later events.

use engine::{Decision, Engine};
use event::{Event, Span, Time, Value};
use judge::Action;
use plan::{Config, EffectPlan, LabelSpan, Overrides, Pipeline, Plan, ReadingColumn, ReadingSource};

const NOW: Time = Time::from_seconds(1_780_000_000);

/// A pipeline of JSON objects with addresses and paths; the text gives its rules.
const BASE: &str = r#"
[[field]]
name = "ip"
type = "ip"
[[field]]
name = "path"
type = "string"
[[field]]
name = "hosts"
type = "list"
[[kind]]
name = "ip"
of = "ip"
[[kind]]
name = "path"
of = "path"
[[statistic]]
name = "counts"
keys = ["ip"]
counts = ["seen", "caught"]
windows = ["1m x 60"]
[[statistic]]
name = "new"
keys = ["path"]
aggregate = ["count"]
keep = "30d"
admit = { after = 3, rotate = "3d", memory = "1MiB" }
[[label]]
name = "scanner"
of = "ip"
keep = "7d"
[[band]]
at = 5.0
action = "reject"
"#;

fn compile(text: &str) -> Result<Plan, String> {
    let config = Config::from_text("test.toml", &format!("{BASE}{text}"), &Overrides::default());
    Plan::compile(&config).map_err(|problems| problems.to_string())
}

#[track_caller]
fn engine(text: &str) -> Engine {
    Engine::ephemeral(compile(text).unwrap_or_else(|problems| panic!("{problems}"))).unwrap()
}

fn decide(engine: &Engine, ip: &str, path: &str, at: Time) -> Decision {
    let fields = vec![("ip".into(), Value::from(ip)), ("path".into(), Value::from(path))];
    let event = Event { time: Some(at), fields, ..Event::default() };
    let prepared = engine.prepare(&engine.plan().pipelines[0], event, at);
    pollster::block_on(engine.decide(vec![prepared])).remove(0)
}

fn fired(decision: &Decision) -> Vec<&str> {
    decision.verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect()
}

/// The line and the message of each problem, for those that are wrong with what follows [`BASE`].
fn problems(text: &str) -> Vec<String> {
    let start = BASE.lines().count();
    let told = match compile(text) {
        Ok(plan) => plan.warnings.to_string(),
        Err(problems) => problems,
    };
    let heads = told.lines().filter_map(|line| line.strip_prefix("test.toml:")).map(|head| {
        let (line, rest) = head.split_once(':').unwrap();
        format!("{}:{rest}", line.parse::<usize>().unwrap() - start)
    });
    heads.collect()
}

#[test]
fn a_label_is_seen_by_later_events_of_the_key_until_it_expires() {
    let engine = engine(
        r#"
[[rule]]
name = "PROBE"
when = "path == '/admin.php'"
score = 1
effects = ['mark ip as "scanner" for 1d']
[[rule]]
name = "KNOWN"
when = "ip.marked('scanner')"
score = 5
"#,
    );
    let told = |ip: &str, path: &str, at: Time| {
        let decision = decide(&engine, ip, path, at);
        (fired(&decision).join(" "), decision.verdict.action)
    };
    let (one, other) = ("192.0.2.1", "192.0.2.2");
    assert_eq!(told(one, "/", NOW), (String::new(), Action::Accept));
    assert_eq!(told(one, "/admin.php", NOW), ("PROBE".to_owned(), Action::Accept), "not of itself");
    assert_eq!(told(one, "/", NOW + Span::hours(1)), ("KNOWN".to_owned(), Action::Reject));
    assert_eq!(told(other, "/", NOW + Span::hours(1)), (String::new(), Action::Accept));
    assert_eq!(told(one, "/", NOW + Span::days(1)).0, "", "it holds for a day and no longer");
    // Whoever is marked again is marked for longer, in whatever order the marks come.
    told(other, "/admin.php", NOW + Span::hours(9));
    told(other, "/admin.php", NOW);
    assert_eq!(told(other, "/", NOW + Span::hours(32)).0, "KNOWN");
    assert_eq!(told(other, "/", NOW + Span::hours(33)).0, "");
    // An event without an address cannot have one that is marked.
    let event = Event { time: Some(NOW), ..Event::default() };
    let prepared = engine.prepare(&engine.plan().pipelines[0], event, NOW);
    let seen = pollster::block_on(engine.peek(prepared)).unwrap();
    assert!(seen.facts.iter().all(|(name, _)| name != "ip.marked('scanner')"), "{:?}", seen.facts);
}

#[test]
fn a_label_that_nobody_asks_for_is_not_looked_up_and_kept_all_the_same() {
    let engine = engine(
        "[[rule]]\nname = \"A\"\nwhen = \"true\"\nscore = 1\neffects = [\"mark ip as scanner for 1d\"]\n",
    );
    decide(&engine, "192.0.2.1", "/", NOW);
    assert_eq!(engine.census().cells, 2, "the address and its mark; the path waits to be admitted");
}

#[test]
fn effects_add_to_counters_once_however_many_rules_ask() {
    let engine = engine(
        r#"
[[rule]]
name = "A"
when = "path == '/a'"
score = 0
effects = ["add ip.caught by 5", "notify 'ops'"]
[[rule]]
name = "B"
when = "rule('A')"
score = 0
effects = ["add ip.caught"]
[[rule]]
name = "TRIAL"
when = "rule('A')"
score = 9
mode = "shadow"
effects = ["add ip.caught by 100", "set reject", "mark ip as scanner for 1d"]
[[rule]]
name = "CAUGHT"
when = "ip.caught('1h') == 6 && !ip.marked('scanner')"
score = 0
effects = ["set throttle"]
"#,
    );
    let first = decide(&engine, "192.0.2.1", "/a", NOW);
    assert_eq!((fired(&first), first.verdict.action), (vec!["A", "B"], Action::Accept));
    assert_eq!(first.verdict.shadow[0].rule, "TRIAL");
    assert_eq!(first.verdict.reasons[0].detail, "path = \"/a\"; add ip.caught by 5, notify \"ops\"");
    let second = decide(&engine, "192.0.2.1", "/", NOW);
    assert_eq!((fired(&second), second.verdict.action), (vec!["CAUGHT"], Action::Throttle));
}

#[test]
fn an_estimate_is_told_from_what_is_exact() {
    let engine = engine(
        "[[rule]]\nname = \"ESTIMATED\"\nwhen = \"estimated(path.count())\"\nscore = 1\n\
         [[rule]]\nname = \"EXACT\"\nwhen = \"!estimated(path.count()) && path.count() > 0\"\nscore = 1\n\
         [[rule]]\nname = \"COUNTED\"\nwhen = \"estimated(ip.seen('1h'))\"\nscore = 1\n",
    );
    let told: Vec<String> =
        (0..5).map(|_| fired(&decide(&engine, "192.0.2.1", "/", NOW)).join(" ")).collect();
    assert_eq!(told, ["", "ESTIMATED", "ESTIMATED", "EXACT", "EXACT"]);
}

#[test]
fn definitions_are_shared_and_a_file_changes_them_one_by_one() {
    let text = r#"
[constants]
limit = 2
probes = ["/a", "/b"]
[expressions]
busy = "ip.seen('1h') >= limit"
[[set]]
name = "friends"
type = "ip"
values = ["192.0.2.0/28"]
[[kind]]
name = "probe"
of = "path"
when = "path in probes && !(ip in friends)"
[[statistic]]
name = "probes"
keys = ["probe"]
counts = ["seen"]
windows = ["1m x 60"]
[[group]]
name = "odd"
cap = 1.5
[[rule]]
name = "BUSY"
when = "busy && !(ip in friends)"
score = 1
group = "odd"
owner = "ann"
expires = 2027-01-01T00:00:00Z
[[rule]]
name = "PROBE"
when = "path in probes"
score = 1
group = "odd"
"#;
    let engine = engine(text);
    let told = |ip: &str| {
        let decisions = [0, 1, 2].map(|_| decide(&engine, ip, "/a", NOW));
        decisions.map(|decision| decision.verdict.score)
    };
    assert_eq!(told("192.0.2.99"), [1.0, 1.0, 1.5]);
    assert_eq!(told("192.0.2.1"), [1.0, 1.0, 1.0]);
    let plan = engine.plan();
    let rule = plan.pipelines[0].rules.rule("BUSY").unwrap();
    assert_eq!((rule.owner.as_str(), rule.expires), ("ann", "2027-01-01T00:00:00Z".parse().ok()));
}

#[test]
fn sets_are_read_from_files_beside_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let main = format!(
        "{BASE}[[set]]\nname = \"bad\"\ntype = \"ip\"\nfile = \"bad.txt\"\n\
         [[set]]\nname = \"hosts_set\"\ntype = \"domain\"\nfile = \"hosts.txt\"\n\
         [[rule]]\nname = \"BAD\"\nwhen = \"ip in bad || sets.intersects(hosts, hosts_set)\"\nscore = 5\n"
    );
    write("main.toml", &main);
    write("hosts.txt", "# shared list\nevil.example\n\nbad.test # seen in May\n");
    let load = || Plan::compile(&Config::load(&folder.path().join("main.toml"), &Overrides::default()));

    let missing = load().unwrap_err().to_string();
    assert!(missing.contains("bad.txt"), "{missing}");
    write("bad.txt", "; drop\n192.0.2.0/24 ; SBL1\n2001:db8::/32\n192.0.2.300\n");
    let wrong = load().unwrap_err().to_string();
    assert!(wrong.contains("bad.txt:4:1: error: `192.0.2.300` is no address and no network"), "{wrong}");

    write("bad.txt", "; drop\n192.0.2.0/24 ; SBL1\n2001:db8::/32\n");
    let plan = load().unwrap();
    let version = plan.pipelines[0].version.clone();
    let engine = Engine::ephemeral(plan).unwrap();
    assert_eq!(fired(&decide(&engine, "192.0.2.77", "/", NOW)), ["BAD"]);
    assert_eq!(fired(&decide(&engine, "192.0.3.77", "/", NOW)), [""; 0]);
    let hosts = Value::from(vec!["x.org".to_owned(), "www.Evil.example".to_owned()]);
    let event = Event { time: Some(NOW), fields: vec![("hosts".into(), hosts)], ..Event::default() };
    let prepared = engine.prepare(&engine.plan().pipelines[0], event, NOW);
    assert_eq!(fired(&pollster::block_on(engine.decide(vec![prepared]))[0]), ["BAD"]);

    write("bad.txt", "192.0.3.0/24\n");
    assert_ne!(load().unwrap().pipelines[0].version, version, "what is in a file is part of the version");
}

#[test]
fn entries_of_sets_are_found_as_the_set_says() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let set = |how: &str, of: &str| {
        format!("[[set]]\nname = \"by_{how}\"\ntype = \"string\"\nmatch = \"{how}\"\n{of}\n")
    };
    let rule = |how: &str| {
        format!("[[rule]]\nname = \"{}\"\nwhen = \"path in by_{how}\"\nscore = 1\n", how.to_uppercase())
    };
    let ways = ["prefix", "suffix", "contains", "word", "regex"];
    let sets = [
        set("prefix", "values = [\"/admin\"]"),
        set("suffix", "values = [\".php\"]"),
        set("contains", "file = \"parts.txt\""),
        set("word", "values = [\"shell\"]"),
        set("regex", "values = ['^/[0-9]+$']"),
    ];
    let main = format!("{BASE}{}{}", sets.concat(), ways.map(rule).concat());
    write("main.toml", &main);
    write("parts.txt", "# parts of paths\n../\n/. \n");
    let load = || Plan::compile(&Config::load(&folder.path().join("main.toml"), &Overrides::default()));
    let engine = Engine::ephemeral(load().unwrap()).unwrap();
    for (path, expected) in [
        ("/admin/x.php", &["PREFIX", "SUFFIX"][..]),
        ("/a/../b", &["CONTAINS"]),
        ("/.env", &["CONTAINS"]),
        ("/shell", &["WORD"]),
        ("/shells", &[]),
        ("/123", &["REGEX"]),
        ("/123a", &[]),
    ] {
        let decision = decide(&engine, "192.0.2.77", path, NOW);
        let mut found = fired(&decision);
        found.sort_unstable();
        assert_eq!(found, expected, "{path}");
    }
    write("main.toml", &main.replace("'^/[0-9]+$'", "'^/[0-9+$'"));
    let wrong = load().unwrap_err().to_string();
    assert!(wrong.contains("main.toml:") && wrong.contains("no regular expression"), "{wrong}");
    write("main.toml", &main.replace("match = \"word\"", "match = \"words\""));
    let wrong = load().unwrap_err().to_string();
    assert!(wrong.contains("words"), "{wrong}");
    let domain = format!(
        "{BASE}[[set]]\nname = \"d\"\ntype = \"domain\"\nmatch = \"word\"\nvalues = [\"a.example\"]\n"
    );
    write("main.toml", &domain);
    let wrong = load().unwrap_err().to_string();
    assert!(wrong.contains("only strings"), "{wrong}");
}

#[test]
fn grok_patterns_are_read_from_files_beside_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "main.toml",
        "name = \"door\"\ninput = \"log\"\n[log]\ngrok = ['^%{DENIED} from %{IP:ip}$']\ngrok_files = [\"own.grok\"]\n",
    );
    let load = || Plan::compile(&Config::load(&folder.path().join("main.toml"), &Overrides::default()));
    let missing = load().unwrap_err().to_string();
    assert!(missing.contains("own.grok"), "{missing}");
    write("own.grok", "# ours\nDENIED denied|refused\n");
    let plan = load().unwrap();
    assert_eq!(plan.pipelines[0].log().unwrap().reader().unwrap().pattern_count(), 1);
    write("own.grok", "DENIED accepted\n");
    assert_ne!(
        load().unwrap().pipelines[0].version,
        plan.pipelines[0].version,
        "what is in a file is part of the version"
    );
    write("own.grok", "OTHER x\n");
    let unknown = load().unwrap_err().to_string();
    assert!(unknown.contains("main.toml:4") && unknown.contains("no pattern `DENIED`"), "{unknown}");
}

#[test]
fn a_rule_that_fails_its_test_is_refused() {
    let rule = "[[rule]]\nname = \"A\"\nwhen = \"ip.seen('1h') > 3 && path == '/'\"\nscore = 1\n";
    let test = |facts: &str, fires: bool| format!("[[rule.test]]\nfacts = {{ {facts} }}\nfires = {fires}\n");
    let right = test("\"ip.seen('60m')\" = 4, path = \"/\"", true);
    assert_eq!(problems(&format!("{rule}{right}")), [""; 0]);
    assert_eq!(
        problems(&format!("{rule}{right}{}", test("\"ip.seen('1h')\" = 4", true))),
        ["10:9: error: `A`: the test says that it fires, and its condition is missing: \
          ip.seen('1h') = 4, path is missing"]
    );
    assert_eq!(
        problems(&format!("{rule}{}", test("\"ip.sen('1h')\" = 4, ip = \"nowhere\"", true))),
        ["6:9: error: `ip.sen('1h')`: unknown counter `sen`", "6:9: error: `ip` cannot be `nowhere`"]
    );
    assert_eq!(
        problems(&format!("{rule}[[rule.test]]\nfact = {{}}\nfires = 1\n")),
        [
            "5:1: error: `test` has no `facts`",
            "6:1: error: unknown key `fact` in `test`",
            "7:9: error: `fires` cannot be 1"
        ]
    );
}

#[test]
fn mistakes_are_marked_where_they_stand() {
    let rule = "[[rule]]\nname = \"A\"\nscore = 1\n";
    let check = |text: &str, expected: &[&str]| assert_eq!(problems(text), expected, "{text}");
    check("[expressions]\nbusy = \"ip.sen('1h') > 3\"\n", &["2:12: error: `busy`: unknown counter `sen`"]);
    check("[expressions]\npath = \"true\"\n", &["2:1: error: `path` is a fact"]);
    check("[constants]\nip = 3\n", &["2:1: error: `ip` is a fact"]);
    check("[constants]\nlimit = { a = 1 }\n", &["2:9: error: `limit` is a table"]);
    check("[[set]]\nname = \"s\"\ntype = \"ip\"\n", &["1:1: error: set `s` has neither `values` nor `file`"]);
    check(
        "[[set]]\nname = \"s\"\ntype = \"integer\"\nvalues = [1, \"two\"]\n",
        &["4:14: error: `two` is no integer"],
    );
    check("[[set]]\nname = \"s\"\ntype = \"ip\"\nfile = \"x\"\n", &["4:8: error: `x` cannot be found"]);
    check(
        "[[group]]\nname = \"g\"\ncap = -1.0\n",
        &["2:8: error: the bounds of group `g` do not have 0 between them"],
    );
    check(
        &format!(
            "{rule}when = \"true\"\ngroup = \"g\"\neffects = [\"set tag\", \"mark ip as spam for 1d\"]\n"
        ),
        &["5:9: error: there is no group `g`", "6:35: error: unknown label `spam`"],
    );
    check(
        &format!("{rule}when = \"true\"\nexpires = \"soon\"\n"),
        &["5:11: error: `expires` cannot be \"soon\""],
    );
    check(
        &format!("{rule}when = \"rule('A')\"\n"),
        &["4:14: error: `A`: rules refer to each other in a circle: A → A"],
    );
    check(
        &format!("{rule}when = \"ip.caught('1h') / ip.seen('1h') > 0.5\"\n"),
        &[
            "4:27: warning: `A`: this may be zero: then the result is missing, and what depends on it does not hold",
        ],
    );
    check("[[label]]\nname = \"ip\"\nof = \"ip\"\nkeep = \"1d\"\n", &["2:8: error: `ip` is defined twice"]);
    check(
        &format!("{rule}when = \"true\"\neffects = [\"add path.count\"]\n"),
        &[
            "5:17: error: `path` has an aggregate and no counters: every event is added to it, and nothing else",
        ],
    );
    check(
        "[[statistic]]\nname = \"x\"\nkeys = []\ncounts = [\"marked\"]\nwindows = [\"1m x 3\"]\n",
        &["4:11: error: a counter cannot be called `marked`"],
    );
}

#[test]
fn many_warnings_hide_no_error() {
    let rule =
        |index: usize, when: &str| format!("[[rule]]\nname = \"R{index}\"\nscore = 1\nwhen = \"{when}\"\n");
    let text: String = (0..300).map(|index| rule(index, "1 / ip.seen('1h') > 0.5")).collect();
    assert_eq!(compile(&text).unwrap().warnings.list().len(), 200);
    let problems = compile(&format!("{text}{}", rule(300, "nix"))).unwrap_err();
    assert!(
        problems.contains("unknown name `nix`") && problems.ends_with("1 error, 200 warnings"),
        "{problems}"
    );
}

/// The configuration over which the documents' examples stand.
const SHOP: &str = include_str!("../../../../examples/shop/signups.toml");

#[test]
fn the_documented_configurations_compile() {
    let document = include_str!("../../../../docs/guides/rules.md");
    let blocks = document.split("\n```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let blocks: Vec<&str> = blocks.collect();
    assert!(blocks.len() >= 6, "{}", blocks.len());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("drop.txt"), "192.0.2.0/24\n").unwrap();
    // Those with fields of their own are whole.
    let (whole, parts): (Vec<&str>, Vec<&str>) = blocks.iter().partition(|block| block.contains("[[field]]"));
    assert_eq!(whole.len(), 1, "{whole:?}");
    // Each stands by itself, and all of them beside each other.
    let parts = parts.iter().map(|part| (*part).to_owned()).chain([parts.join("\n")]);
    let parts = parts.map(|part| format!("{SHOP}\n{part}"));
    for text in parts.chain(whole.into_iter().map(str::to_owned)) {
        let path = folder.path().join("main.toml");
        std::fs::write(&path, &text).unwrap();
        let plan = Plan::compile(&Config::load(&path, &Overrides::default()));
        let plan = plan.unwrap_or_else(|problems| panic!("{text}\n{problems}"));
        assert!(plan.warnings.is_empty(), "{text}\n{}", plan.warnings);
    }
}

#[test]
fn the_documented_statistics_compile() {
    let document = include_str!("../../../../docs/guides/statistics.md");
    let blocks = document.split("\n```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let text = blocks.collect::<Vec<_>>().join("\n");
    let plan = Plan::compile(&Config::from_text("test.toml", &text, &Overrides::default()));
    let plan = plan.unwrap_or_else(|problems| panic!("{problems}"));
    assert!(plan.warnings.is_empty(), "{}", plan.warnings);
}

#[test]
fn a_kind_of_which_nothing_is_kept_is_told_of_and_spoils_nothing() {
    let idle = "[[kind]]\nname = \"host\"\nof = \"hosts\"\n";
    assert_eq!(problems(idle), ["2:8: warning: nothing is kept of the kind `host`"]);
    let read = "[[rule]]\nname = \"A\"\nwhen = \"ip.seen('1h') == 0\"\nscore = 9\n";
    let engine_of = |text: &str| {
        let engine = engine(&format!("{text}{read}"));
        let event = |hosts: &[&str]| {
            let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
            let fields = vec![
                ("ip".into(), Value::from("192.0.2.1")),
                ("path".into(), Value::from("/")),
                ("hosts".into(), Value::from(hosts)),
            ];
            let event = Event { time: Some(NOW), fields, ..Event::default() };
            engine.prepare(&engine.plan().pipelines[0], event, NOW)
        };
        let decided = pollster::block_on(engine.decide(vec![event(&["a", "b"]), event(&["a"])]));
        decided.iter().map(|decision| fired(decision).len()).collect::<Vec<_>>()
    };
    // The second sees what the first has counted: the ledger was asked, and had no quarrel with the kind.
    assert_eq!(engine_of(idle), [1, 0]);
    // Its keys can have labels and own distinct values all the same.
    let owner = "[[label]]\nname = \"odd\"\nof = \"host\"\nkeep = \"7d\"\n\
        [[distinct]]\nname = \"paths\"\nper = \"host\"\nof = \"path\"\nwindow = \"1d\"\n\
        [[rule]]\nname = \"MARK\"\nwhen = \"ip.seen('1h') == 0\"\nscore = 0\neffects = [\"mark host as odd for 1d\"]\n\
        [[rule]]\nname = \"MARKED\"\nwhen = \"host.marked('odd')\"\nscore = 0\n\
        [[rule]]\nname = \"PATHS\"\nwhen = \"distinct('paths', '1d') > 0\"\nscore = 0\n";
    assert_eq!(problems(&format!("{idle}{owner}")), Vec::<String>::new());
    let engine = engine(&format!("{idle}{owner}"));
    let decide = || {
        let fields = vec![
            ("ip".into(), Value::from("192.0.2.1")),
            ("path".into(), Value::from("/")),
            ("hosts".into(), Value::from(vec!["a".to_owned()])),
        ];
        let event = Event { time: Some(NOW), fields, ..Event::default() };
        let prepared = engine.prepare(&engine.plan().pipelines[0], event, NOW);
        pollster::block_on(engine.decide(vec![prepared])).remove(0)
    };
    assert_eq!(fired(&decide()), ["MARK"]);
    assert_eq!(fired(&decide()), ["MARKED", "PATHS"]);
}

#[test]
fn a_plan_points_at_what_its_text_names() {
    let text = "[[label]]\nname = \"bot\"\nof = \"path\"\nkeep = \"7d\"\n\
        [[rule]]\nname = \"NONE\"\nwhen = \"ip.seen('1m') > ip.caught('1h')\"\nscore = 0\n\
        [[rule]]\nname = \"BOTH\"\nwhen = \"ip.caught('1h') > 2\"\nscore = 0\n\
        effects = [\"set tag\", \"mark path as bot for 1d\", \"add ip.caught by 5\"]\n";
    let plan = compile(text).unwrap();
    let Pipeline { rules, effects, kinds, labels, .. } = &*plan.pipelines[0];
    let of = |name: &str| &effects[rules.rules().position(|rule| rule.name == name).unwrap()][..];
    assert_eq!(of("NONE"), []);
    let [EffectPlan::Mark { label, lasts }, EffectPlan::Add { kind, counter, amount }] = *of("BOTH") else {
        panic!("{effects:?}");
    };
    assert_eq!(
        (&*labels[label].name, &*kinds[labels[label].of].name, lasts),
        ("bot", "path", LabelSpan { least: Span::days(1), most: Span::days(1) })
    );
    let counter = &kinds[kind].counters.as_slice()[usize::from(counter)];
    assert_eq!((&*kinds[kind].name, &**counter, amount), ("ip", "caught", 5));

    let presets = plan::preset::ALL.iter().map(|preset| format!("preset = \"{}\"\n", preset.name));
    for text in presets.chain([format!("{BASE}{text}")]) {
        let config = Config::from_text("test.toml", &text, &Overrides::default());
        let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
        for pipeline in &plan.pipelines {
            let mut counts = 0;
            for ReadingColumn { slot, source } in &pipeline.readings {
                let ReadingSource::Count { kind, counter, window } = source else { continue };
                let (name, kind) = (&pipeline.schema.column(*slot).name, &pipeline.kinds[*kind]);
                let (counter, window) = (&kind.counters[*counter], kind.windows[*window]);
                let all = format!("{}.{counter}()", kind.name);
                assert!(*name == all || *name == format!("{}.{counter}('{window}')", kind.name), "{name}");
                counts += 1;
            }
            assert!(counts > 0 || pipeline.kinds.iter().all(|kind| kind.counters.is_empty()), "{text}");
        }
    }
}

#[test]
fn a_label_that_holds_for_a_drawn_time_is_banned_as_long() {
    let engine = engine(
        "[[label]]\nname = \"bot\"\nof = \"ip\"\nkeep = \"7d\"\ndecision = \"ban\"\n\
         [[rule]]\nname = \"MARK\"\nwhen = \"ip.seen('1h') == 0\"\nscore = 0\n\
         effects = [\"mark ip as bot for 30m\", \"mark ip as bot for 20m to 40m\"]\n\
         [[rule]]\nname = \"MARKED\"\nwhen = \"ip.marked('bot')\"\nscore = 0\n",
    );
    let addresses: Vec<String> = (1..60).map(|last| format!("192.0.2.{last}")).collect();
    for address in &addresses {
        assert_eq!(fired(&decide(&engine, address, "/", NOW)), ["MARK"]);
    }
    let mut lengths = std::collections::BTreeSet::new();
    for ban in engine.ban_list().page(&mut engine.ban_list().held(NOW).new, NOW) {
        let length = ban.until - NOW;
        // Of two times the later one holds.
        assert!((Span::minutes(30)..=Span::minutes(40)).contains(&length), "{length}");
        assert_eq!(length.0 % 1_000_000, 0, "whole seconds");
        lengths.insert(length);
        let is_marked = |at: Time| fired(&decide(&engine, &ban.value, "/", at)).contains(&"MARKED");
        assert!(is_marked(ban.until - Span::seconds(1)), "{}", ban.value);
        assert!(!is_marked(ban.until), "{}", ban.value);
    }
    assert!(lengths.len() > 10, "{lengths:?}");
}

//! Sets of phrases: from files to facts, and new files while a node runs.

use std::fs;

use engine::{Decision, Directory, Engine, Proposal, ReloadError};
use event::{Event, Time, Value};
use plan::{Config, Overrides, Plan, preset};

const NOW: Time = Time::from_seconds(1_780_000_000);

const BASE: &str = r#"
name = "posts"
[[field]]
name = "text"
type = "string"
[[field]]
name = "tags"
type = "list"
[[kind]]
name = "tag"
of = "tags"
[[statistic]]
name = "counts"
keys = ["tag"]
counts = ["seen"]
windows = ["1h x 24"]
[[phrases]]
name = "known"
files = ["one.tsv", "two.tsv"]
classes = ["pharma", "money"]
of = ["text", "tags"]
[[rule]]
name = "PHARMA"
when = "phrases.known.pharma.count >= 1"
score = 2
[[rule]]
name = "HEAVY"
when = "phrases.known.weight >= 3.0 && 'money: quick cash' in phrases.known.matched"
score = 3
"#;

struct Home {
    _parent: tempfile::TempDir,
    directory: Directory,
}

impl Home {
    fn new(config: &str, one: &str, two: &str) -> Home {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[&preset::ALL[0]]).unwrap();
        fs::write(directory.config_path(), config).unwrap();
        let home = Home { _parent: parent, directory };
        home.write("one.tsv", one);
        home.write("two.tsv", two);
        home
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.directory.config_path().with_file_name(file), text).unwrap();
    }

    fn plan(&self) -> Result<Plan, String> {
        let config = Config::load(&self.directory.config_path(), &Overrides::default());
        Plan::compile(&config).map_err(|problems| problems.to_string())
    }

    fn open(&self) -> Engine {
        Engine::open(&self.directory, self.plan().unwrap()).unwrap()
    }
}

fn decide(engine: &Engine, text: &str, tags: &[&str], at: Time) -> Decision {
    let tags: Vec<String> = tags.iter().map(|&tag| tag.to_owned()).collect();
    let fields = vec![("text".into(), Value::from(text)), ("tags".into(), Value::from(tags))];
    let event = Event { time: Some(at), fields, ..Event::default() };
    let prepared = engine.prepare(&engine.plan().pipelines[0], event, at);
    pollster::block_on(engine.decide(vec![prepared])).remove(0)
}

fn fired(engine: &Engine, text: &str, tags: &[&str]) -> Vec<String> {
    decide(engine, text, tags, NOW).verdict.reasons.into_iter().map(|reason| reason.rule).collect()
}

const ONE: &str = "# class\tweight\tphrase\npharma\t2\tViagra\n";
const TWO: &str = "money\t1.5\tquick cash\nmoney\t9\told news\t2020-01-01\n";

#[test]
fn what_is_found_is_facts_that_rules_read() {
    let home = Home::new(BASE, ONE, TWO);
    let engine = home.open();
    assert_eq!(fired(&engine, "nothing of it", &[]), [] as [&str; 0]);
    assert_eq!(fired(&engine, "buy V.I.A.G.R.A now", &[]), ["PHARMA"]);
    assert_eq!(fired(&engine, "ｑｕｉｃｋ  cash", &["viagra"]), ["HEAVY", "PHARMA"]);
    assert_eq!(fired(&engine, "quick cash, old news", &[]), [] as [&str; 0], "what has expired adds nothing");
    let old = decide(&engine, "quick cash, old news", &[], Time::from_seconds(1_500_000_000));
    assert_eq!(old.verdict.reasons.len(), 1, "an old event finds what counted then");
}

#[test]
fn new_files_are_in_force_at_once_and_bad_ones_are_refused_whole() {
    let home = Home::new(BASE, ONE, TWO);
    let engine = home.open();
    let version = || engine.plan().pipelines[0].version.clone();
    let before = version();
    home.write("one.tsv", "pharma\t2\tcialis\n");
    engine.change(Proposal::Files, NOW, false).unwrap();
    assert_ne!(version(), before);
    assert_eq!(fired(&engine, "viagra", &[]), [] as [&str; 0]);
    assert_eq!(fired(&engine, "cialis", &[]), ["PHARMA"]);

    let good = version();
    home.write("one.tsv", "pharma\t2\tviagra\npills\t2\tmore pills\n");
    let Err(ReloadError::Problems(problems)) = engine.change(Proposal::Files, NOW, false) else {
        panic!("a class that is not configured")
    };
    let told = problems.to_string();
    assert!(told.contains("one.tsv:2:1") && told.contains("there is no class `pills`"), "{told}");
    assert_eq!(version(), good);
    assert_eq!(fired(&engine, "viagra cialis", &[]), ["PHARMA"], "the old phrases stay");

    home.write("one.tsv", ONE);
    engine.change(Proposal::Files, NOW, false).unwrap();
    assert_eq!(version(), before, "the version is a function of what the files say");
    engine.change(Proposal::Back { pipeline: "posts", version: &good }, NOW, false).unwrap();
    assert_eq!(fired(&engine, "cialis", &[]), ["PHARMA"], "a version that was kept has its phrases");
}

#[test]
fn mistakes_are_marked_where_they_stand() {
    let check = |from: &str, to: &str, wanted: &str| {
        let config = BASE.replace(from, to);
        assert_ne!(config, BASE);
        let told = Home::new(&config, ONE, TWO).plan().unwrap_err();
        assert!(told.contains(wanted), "{wanted}: {told}");
    };
    check("\"two.tsv\"", "\"three.tsv\"", "cannot read");
    check("[\"text\", \"tags\"]", "[\"texts\"]", "there is no fact `texts`");
    check("[\"text\", \"tags\"]", "[\"event.time\"]", "`event.time` is of type time");
    check("\"pharma\", \"money\"", "\"pharma-1\", \"money\"", "`pharma-1` is no name for a fact");
    check("[\"pharma\", \"money\"]", "[]", "have 0 classes");
    check("pharma.count", "phish.count", "phrases.known.phish.count");
    check("files = [\"one.tsv\", \"two.tsv\"]\n", "", "the phrases `known` have no entries");
    check("files = [", "lists = [\"phrases\"]\nfiles = [", "expected one of: mail-phrases");
    let lacks = "the list `mail-phrases`: there is no class `account`";
    check("files = [", "lists = [\"mail-phrases\"]\nfiles = [", lacks);
    let posted = "[[phrases]]\nname = \"known\"\nfiles = [\"/etc/passwd\"]\n";
    let home = Home::new(BASE, ONE, TWO);
    let engine = home.open();
    match engine.change(Proposal::Post { pipeline: "posts", text: posted }, NOW, false) {
        Err(ReloadError::Problems(problems)) => {
            let told = problems.to_string();
            assert!(told.contains("cannot name a file"), "{told}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn phrases_of_mail_are_found_each_and_stand_once() {
    let home = Home::new("preset = \"mail\"\n", "", "");
    let plan = home.plan().unwrap();
    let [common] = plan.pipelines[0].phrases.as_slice() else { panic!("one set") };
    let text = preset::list("mail-phrases").unwrap().text;
    let lines: Vec<&str> = text.lines().filter(|line| line.contains('\t')).collect();
    let mut seen = std::collections::HashMap::new();
    for line in &lines {
        let phrase = line.split('\t').nth(2).unwrap();
        let normalised = content::text::obfuscation::normalise(phrase);
        assert!(common.set.search([&*normalised], NOW).count() >= 1, "{phrase}");
        let known = seen.insert(normalised, phrase);
        assert_eq!(known, None, "{phrase} is written like it");
    }
    assert_eq!(common.set.len(), lines.len());
    // Own ones stand beside it, or in its place.
    for (lists, count) in [("", common.set.len() + 1), ("lists = []\n", 1)] {
        let own =
            format!("preset = \"mail\"\n[[phrases]]\nname = \"common\"\nfiles = [\"one.tsv\"]\n{lists}");
        let plan = Home::new(&own, "goods\t1\tpurple gnomes\n", "").plan().unwrap();
        assert_eq!(plan.pipelines[0].phrases[0].set.len(), count, "{own}");
    }
}

#[test]
fn the_documented_phrases_are_found() {
    let document = include_str!("../../../../docs/guides/phrases.md");
    let block =
        |fence: &str| document.split_once(fence).and_then(|(_, rest)| rest.split("\n```").next()).unwrap();
    let (config, file) = (block("\n```toml\n"), block("\n```\n# class").replacen('\t', "# class\t", 1));
    let parent = tempfile::tempdir().unwrap();
    fs::create_dir(parent.path().join("phrases")).unwrap();
    fs::write(parent.path().join("phrases/mail-en.tsv"), &file).unwrap();
    fs::write(
        parent.path().join("phrases/mail-ru.tsv"),
        "pharma\t1\t\u{43B}\u{435}\u{43A}\u{430}\u{440}\u{441}\u{442}\u{432}\u{43E}\n",
    )
    .unwrap();
    let path = parent.path().join("main.toml");
    fs::write(&path, format!("preset = \"mail\"\n{config}")).unwrap();
    let plan = Plan::compile(&Config::load(&path, &Overrides::default()));
    let plan = plan.unwrap_or_else(|problems| panic!("{problems}"));
    let phrases = plan.pipelines[0].phrases.iter().find(|phrases| phrases.name == "known").unwrap();
    assert_eq!(phrases.set.len(), 6);
    // What the page says of equal writings.
    let written = ["\u{41E}NLINE \u{440}harmacy", "onl1ne pharm@cy", "o n l i n e  p h a r m a c y"];
    for text in written.map(content::text::obfuscation::normalise) {
        assert_eq!(phrases.set.search([text.as_str()], NOW).count(), 1, "{text}");
    }
}

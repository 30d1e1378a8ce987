//! Counts survive changes of the configuration: each is found again by its name.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use engine::{
    Directory, Engine, EngineOpenError, ImportMode, LedgerHome, NumberAllotment, NumberError, Proposal,
    SharedRegistries, StatisticsSource,
};
use event::{Event, Space, Time};
use plan::limit::LIMITS;
use plan::{Config, Overrides, Plan};
use stats::{EmbeddedLedger, NumberRegistry, NumberedSection, RegisteredName};

use crate::pipeline::decide_at;
use crate::registries::LoneNode;

const NOW: Time = Time::from_seconds(1_700_000_000);

const FIELDS: &str = "space = 4\n[[field]]\nname = \"user\"\ntype = \"string\"\n[[field]]\nname = \"ip\"\ntype = \"ip\"\n\
    [[statistic]]\nname = \"counts\"\nkeys = [KINDS]\ncounts = [\"seen\"]\nwindows = [\"1h x 48\"]\n";

/// A configuration of these kinds, each with a rule that tells how often it was seen, in the order that they have here.
fn config(kinds: &[&str]) -> String {
    let keys: Vec<String> = kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
    let mut text = FIELDS.replace("KINDS", &keys.join(", "));
    for kind in kinds {
        let of = if *kind == "ip" { "ip" } else { "user" };
        text += &format!(
            "[[kind]]\nname = \"{kind}\"\nof = \"{of}\"\n\
             [[rule]]\nname = \"{kind}\"\nwhen = \"{kind}.seen('1h') < 1000\"\nscore = 1\n"
        );
    }
    text
}

struct Home {
    parent: tempfile::TempDir,
    directory: Directory,
}

impl Home {
    fn new(text: &str) -> Home {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
        let home = Home { parent, directory };
        home.write(text);
        home
    }

    fn write(&self, text: &str) {
        fs::write(self.directory.config_path(), text).unwrap();
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn plan(&self) -> Plan {
        let config = Config::load(&self.directory.config_path(), &Overrides::default());
        Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn open(&self) -> Engine {
        Engine::open(&self.directory, self.plan()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Opens the directory, sees an event, and returns what the rules have read before it.
    fn see(&self) -> Vec<String> {
        let engine = self.open();
        let seen = see(&engine);
        engine.close().unwrap();
        seen
    }

    fn number(&self, name: &str) -> Option<u16> {
        let name = RegisteredName { space: Space(4), section: NumberedSection::Kind, name: name.to_owned() };
        self.directory.numbers().unwrap().number(&name).map(|number| number.0)
    }
}

fn see(engine: &Engine) -> Vec<String> {
    let mut event = Event::default();
    event.push("user", "ann");
    event.push("ip", "192.0.2.1");
    let decision = decide_at(engine, event, NOW);
    let mut seen: Vec<String> = decision.verdict.reasons.iter().map(|reason| reason.detail.clone()).collect();
    seen.sort_unstable();
    seen
}

fn counts(of: &[(&str, u64)]) -> Vec<String> {
    of.iter().map(|(kind, count)| format!("{kind}.seen('1h') = {count}")).collect()
}

#[test]
fn the_order_of_names_means_nothing() {
    let home = Home::new(&config(&["ip", "user"]));
    assert_eq!(home.see(), counts(&[("ip", 0), ("user", 0)]));
    let before = fs::read(home.file("numbers.txt")).unwrap();
    assert!(disk::unseal(&before).is_some_and(|text| text == b"4 kind 1 ip\n4 kind 2 user"));
    home.write(&config(&["user", "ip"]));
    assert_eq!(home.see(), counts(&[("ip", 1), ("user", 1)]));
    home.write(&config(&["other", "user", "ip"]));
    assert_eq!(home.see(), counts(&[("ip", 2), ("other", 0), ("user", 2)]));
    assert_eq!((home.number("ip"), home.number("user"), home.number("other")), (Some(1), Some(2), Some(3)));
    // Commands compile without the registry, too: with numbers of their own, which are not heeded.
    assert_eq!(home.plan().numbers.iter().next().unwrap().1.name, "other");
}

#[test]
fn a_name_that_was_away_is_found_again() {
    let home = Home::new(&config(&["ip", "user"]));
    home.see();
    home.write(&config(&["user"]));
    assert_eq!(home.see(), counts(&[("user", 1)]));
    home.write(&config(&["new", "user"]));
    assert_eq!(home.see(), counts(&[("new", 0), ("user", 2)]));
    home.write(&config(&["new", "user", "ip"]));
    assert_eq!(home.see(), counts(&[("ip", 1), ("new", 1), ("user", 3)]));
    assert_eq!(home.number("new"), Some(3));
}

#[test]
fn a_name_that_is_changed_keeps_its_counts_and_one_that_is_dropped_does_not() {
    let home = Home::new(&config(&["ip", "user"]));
    home.see();
    let engine = home.open();
    let busy = home.directory.change_numbers(|_| Ok(())).unwrap_err();
    assert!(matches!(busy, EngineOpenError::Device(_)), "{busy}");
    engine.close().unwrap();
    drop(engine);
    let rename = |old: &str, new: &str| {
        home.directory.change_numbers(|registry| {
            let old = registry.find(old)?.clone();
            registry.rename(&old, new)
        })
    };
    rename("user", "account").unwrap();
    home.write(&config(&["account", "ip"]));
    assert_eq!(home.see(), counts(&[("account", 1), ("ip", 1)]));
    assert_eq!(home.see(), counts(&[("account", 2), ("ip", 2)]));
    assert!(rename("user", "other").unwrap_err().to_string().contains("no name in the registry is `user`"));
    assert!(rename("ip", "account").unwrap_err().to_string().contains("4/kind/account is there already"));
    let drop_name = |registry: &mut NumberRegistry| {
        let name = registry.find("kind/ip")?.clone();
        registry.drop_name(&name)
    };
    home.directory.change_numbers(drop_name).unwrap();
    assert_eq!(home.see(), counts(&[("account", 3), ("ip", 0)]));
    assert_eq!((home.number("account"), home.number("ip")), (Some(2), Some(3)));
}

#[test]
fn what_is_kept_in_another_form_needs_another_name() {
    let home = Home::new(&config(&["ip", "user"]));
    home.see();
    let aggregate = config(&["user"])
        + "[[kind]]\nname = \"ip\"\nof = \"ip\"\n[[statistic]]\nname = \"last\"\nkeys = [\"ip\"]\naggregate = [\"count\"]\nkeep = \"1d\"\n";
    home.write(&aggregate);
    let refused = Engine::open(&home.directory, home.plan()).err().unwrap().to_string();
    assert!(refused.contains("is stored as windows `counts` of `ip`"), "{refused}");
    assert!(refused.contains("`tollhouse ledger names --drop`"), "{refused}");
    home.directory
        .change_numbers(|registry| {
            let name = registry.find("ip")?.clone();
            registry.drop_name(&name)
        })
        .unwrap();
    assert_eq!(home.see(), counts(&[("user", 1)]));
    // A statistic's own name is none of what is stored.
    home.write(&config(&["user"]).replace("\"counts\"", "\"figures\""));
    assert_eq!(home.see(), counts(&[("user", 2)]));
}

/// A registry lost in a crash is made anew of the other, with the numbers in use.
#[test]
fn a_registry_is_made_anew_of_the_other() {
    let home = Home::new(&config(&["ip", "user"]));
    home.see();
    home.write(&config(&["new", "user", "ip"]));
    let sound = fs::read(home.file("numbers.txt")).unwrap();
    // The first of both was written, and nothing counted yet.
    let ahead = disk::seal(b"4 kind 1 ip\n4 kind 2 user\n4 kind 3 later\n");
    fs::write(home.file("numbers.txt"), &ahead).unwrap();
    assert!(home.directory.verify(None, &mut |_, _, _| ()).unwrap().is_sound());
    assert_eq!(home.see(), counts(&[("ip", 1), ("new", 0), ("user", 1)]));
    assert_eq!((home.number("later"), home.number("new")), (Some(3), Some(4)));
    assert_eq!(fs::read(home.file("numbers.txt")).unwrap(), fs::read(home.file("numbers.copy")).unwrap());
    for (name, left) in [("numbers.txt", None), ("numbers.copy", None), ("numbers.txt", Some(&sound[1..]))] {
        match left {
            Some(bytes) => fs::write(home.file(name), bytes).unwrap(),
            None => fs::remove_file(home.file(name)).unwrap(),
        }
        let found = home.directory.verify(None, &mut |_, _, _| ()).unwrap();
        assert!(found.settings.iter().any(|(path, _)| path.ends_with(name)), "{found:?}");
        let engine = home.open();
        let told = engine.health().list().into_iter().find(|it| it.name == "settings-damaged").unwrap();
        assert!(told.detail.contains(name), "{}", told.detail);
        engine.close().unwrap();
        drop(engine);
        assert!(home.directory.verify(None, &mut |_, _, _| ()).unwrap().is_sound());
        assert_eq!(fs::read(home.file("numbers.txt")).unwrap(), fs::read(home.file("numbers.copy")).unwrap());
    }
    assert_eq!(home.see(), counts(&[("ip", 2), ("new", 1), ("user", 2)]));
}

#[test]
fn without_a_registry_nothing_is_guessed() {
    let home = Home::new(&config(&["ip", "user"]));
    home.see();
    let whole = fs::read(home.file("numbers.txt")).unwrap();
    let damages: [&dyn Fn(&Path); 2] =
        [&|path| fs::write(path, "4 kind 1 ip\n").unwrap(), &|path| fs::remove_file(path).unwrap()];
    for damage in damages {
        for name in ["numbers.txt", "numbers.copy"] {
            damage(&home.file(name));
        }
        assert!(!home.directory.verify(None, &mut |_, _, _| ()).unwrap().is_sound());
        let refused = Engine::open(&home.directory, home.plan()).err().unwrap().to_string();
        assert!(refused.contains("/numbers.") && refused.contains("restore"), "{refused}");
    }
    fs::write(home.file("numbers.copy"), whole).unwrap();
    assert_eq!(home.see(), counts(&[("ip", 1), ("user", 1)]));
}

#[test]
fn a_change_while_it_runs_gives_new_names_numbers_for_good() {
    let home = Home::new(&config(&["ip", "user"]));
    let engine = home.open();
    see(&engine);
    home.write(&config(&["new", "user", "ip"]));
    engine.change(Proposal::Files, NOW, true).unwrap();
    assert_eq!(home.number("new"), None, "it was only tried");
    engine.change(Proposal::Files, NOW, false).unwrap();
    assert_eq!(home.number("new"), Some(3));
    assert_eq!(see(&engine), counts(&[("ip", 1), ("new", 0), ("user", 1)]));
    engine.close().unwrap();
    drop(engine);
    assert_eq!(home.see(), counts(&[("ip", 2), ("new", 1), ("user", 2)]));
}

#[test]
fn a_copy_has_its_numbers() {
    let home = Home::new(&config(&["ip", "user"]));
    let engine = home.open();
    see(&engine);
    engine.close().unwrap();
    drop(engine);
    let copy = home.parent.path().join("copy");
    home.directory.snapshot(&copy).unwrap();
    let restored =
        Directory::restore(&copy, &home.parent.path().join("restored"), &mut |_, _, _| ()).unwrap();
    fs::write(restored.config_path(), config(&["new", "user", "ip"])).unwrap();
    let plan = Plan::compile(&Config::load(&restored.config_path(), &Overrides::default())).unwrap();
    let engine = Engine::open(&restored, plan).unwrap();
    assert_eq!(see(&engine), counts(&[("ip", 1), ("new", 0), ("user", 1)]));
}

#[test]
fn an_export_is_taken_in_by_name() {
    let limits = "[[limit]]\nname = \"a\"\nkey = [\"user\"]\ncount = 5\nper = \"1h\"\nban = { after = 3, within = \"1h\", for = \"1h\" }\n";
    let from = Home::new(&(config(&["ip", "user"]) + limits));
    from.see();
    let to = Home::new(&(config(&["user", "new", "ip"]) + &limits.replace("\"a\"", "\"b\"") + limits));
    fs::copy(from.file("secret"), to.file("secret")).unwrap();
    let export = from.parent.path().join("export.ndjson");
    let mut own = from.directory.statistics().unwrap();
    from.directory.export_statistics_to(&mut own, &export, &mut |_| ()).unwrap();
    drop(own);
    for how in [ImportMode::Fresh, ImportMode::Merge { overlap: true }] {
        if how != ImportMode::Fresh {
            // The same export is added only once.
            let text = fs::read_to_string(&export).unwrap();
            let at = text.find("\"id\":\"").unwrap() + 6;
            let other = if text[at..].starts_with('0') { "1" } else { "0" };
            fs::write(&export, format!("{}{other}{}", &text[..at], &text[at + 1..])).unwrap();
        }
        to.directory
            .import_statistics(&to.plan_here(), StatisticsSource::File(&export), how, &mut |_| ())
            .unwrap();
    }
    assert_eq!(to.see(), counts(&[("ip", 2), ("new", 0), ("user", 2)]));
    let text = fs::read_to_string(&export).unwrap();
    fs::write(&export, text.replacen("\"4 kind 1 ip\",", "", 1)).unwrap();
    let how = ImportMode::Merge { overlap: true };
    let refused =
        to.directory.import_statistics(&to.plan_here(), StatisticsSource::File(&export), how, &mut |_| ());
    assert!(refused.unwrap_err().to_string().contains("kind 1 of space 4 is none of `names`"));
}

impl Home {
    /// The plan as commands have it.
    fn plan_here(&self) -> Plan {
        let config = Config::load(&self.directory.config_path(), &Overrides::default());
        Plan::compile_with(&config, &self.directory.numbers().unwrap()).unwrap()
    }
}

/// A place for numbers that can be away.
struct SharedNumbers(Mutex<Option<NumberRegistry>>);

impl NumberAllotment for &'static SharedNumbers {
    fn allot(&self, known: &NumberRegistry, wanted: &NumberRegistry) -> Result<NumberRegistry, String> {
        let mut registry = self.0.lock().unwrap();
        let there = registry.as_mut().ok_or("nobody is there")?;
        *there = there.restored(known);
        for (_, name) in wanted.iter().filter(|(_, name)| known.number(name).is_none()) {
            there.allot(name.clone()).unwrap();
        }
        Ok(there.clone())
    }
}

#[test]
fn nodes_that_share_numbers_ask_for_them() {
    let shared: &'static SharedNumbers =
        Box::leak(Box::new(SharedNumbers(Mutex::new(Some(NumberRegistry::default())))));
    let open = |home: &Home| {
        let ledger = |plan: &Plan| {
            let ledger = EmbeddedLedger::in_memory(plan.catalog.clone(), plan.node.ledger_memory)?;
            Ok(LedgerHome::Elsewhere(Box::new(ledger)))
        };
        Engine::open_over(
            &home.directory,
            home.plan(),
            Some(SharedRegistries { numbers: Box::new(shared), ..LoneNode::registries() }),
            ledger,
        )
    };
    let (one, other) = (Home::new(&config(&["ip", "user"])), Home::new(&config(&["user", "new", "ip"])));
    open(&one).unwrap();
    let engine = open(&other).unwrap();
    assert_eq!((other.number("ip"), other.number("user"), other.number("new")), (Some(1), Some(2), Some(3)));
    let there = shared.0.lock().unwrap().take();
    other.write(&config(&["late", "user", "new", "ip"]));
    let refused = engine.change(Proposal::Files, NOW, false).unwrap_err().to_string();
    assert!(refused.contains("cannot be asked: nobody is there"), "{refused}");
    assert_eq!(other.number("late"), None);
    assert_eq!(see(&engine), counts(&[("ip", 0), ("new", 0), ("user", 0)]), "the old rules stay");
    drop(engine);
    assert!(matches!(open(&other), Err(EngineOpenError::Numbers(NumberError::Shared(_)))));
    // A failover has lost what was given last: nodes that have counted by it say it again.
    let mut lost = NumberRegistry::default();
    lost.add_line("4 kind 1 ip").unwrap();
    *shared.0.lock().unwrap() = Some(lost.clone());
    open(&other).unwrap();
    assert_eq!(shared.0.lock().unwrap().as_ref().unwrap().iter().count(), 4);
    // Unless somebody else has the number by now.
    lost.add_line("4 kind 2 stranger").unwrap();
    *shared.0.lock().unwrap() = Some(lost);
    let refused = open(&other).err().unwrap().to_string();
    assert!(refused.contains("4/kind/user has the number 2 here, and not in the cluster"), "{refused}");
    *shared.0.lock().unwrap() = there;
    open(&other).unwrap();
}

#[test]
fn limits_have_numbers_of_their_own() {
    let limit =
        |name: &str| format!("[[limit]]\nname = \"{name}\"\nkey = [\"user\"]\ncount = 5\nper = \"1h\"\n");
    let home = Home::new(&(config(&["user"]) + &limit("a") + &limit("b")));
    home.see();
    home.write(&(limit("b") + &config(&["user"]) + &limit("c") + &limit("a")).replace("space = 4\n", ""));
    let engine = home.open();
    let numbers: Vec<u16> = ["a", "b", "c"].map(|name| engine.plan().limit(name).unwrap().kind.0).into();
    assert_eq!(numbers, [1, 2, 3]);
    let a = RegisteredName { space: LIMITS, section: NumberedSection::Limit, name: "a".to_owned() };
    assert_eq!(engine.plan().numbers.number(&a).unwrap().0, 1);
}

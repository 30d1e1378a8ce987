//! Sources that an installation of CrowdSec reads: `acquis.yaml`, `acquis.d`.

use crate::crowdsec::yaml::{self, DocumentNode};
use crate::crowdsec::{CrowdsecFiles, CrowdsecProblem};

/// A text of a file, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedText {
    /// The text.
    pub text: String,
    /// The line, from 1.
    pub line: usize,
}

/// A source of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrowdsecSource {
    /// Files, or patterns of their paths.
    pub files: Vec<PlacedText>,
    /// Matches of the journal, if it is read instead of files.
    pub journal: Option<Vec<PlacedText>>,
    /// Names of Docker's containers, if their logs are read instead.
    pub containers: Option<Vec<PlacedText>>,
    /// The `type` that parsers know it by.
    pub kind: String,
    /// The file that it stands in.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

impl CrowdsecSource {
    /// Returns what is not taken of the source, at a line of its file.
    pub fn problem(&self, line: usize, message: String) -> CrowdsecProblem {
        CrowdsecProblem { file: self.file.clone(), line, message }
    }
}

/// Settings that are taken.
const TAKEN: [&str; 6] = ["source", "filename", "filenames", "journalctl_filter", "container_name", "labels"];
/// Settings that change nothing about which lines are read.
const HARMLESS: [&str; 8] = [
    "check_interval",
    "name",
    "unique_id",
    "log_level",
    "poll_without_inotify",
    "force_inotify",
    "discovery_poll_enable",
    "discovery_poll_interval",
];

/// Reads which sources are followed.
pub fn sources(files: &CrowdsecFiles, problems: &mut Vec<CrowdsecProblem>) -> Vec<CrowdsecSource> {
    let mut sources = Vec::new();
    let paths = ["acquis.yaml", "acquis.yml"].into_iter().filter(|path| files.get(path).is_some());
    for path in paths.chain(files.yaml("acquis.d")) {
        match yaml::documents(path, files.get(path).unwrap_or_default()) {
            Ok(documents) => {
                sources.extend(documents.iter().filter_map(|document| source(path, document, problems)));
            }
            Err(problem) => problems.push(problem),
        }
    }
    sources
}

fn source(
    path: &str,
    document: &DocumentNode,
    problems: &mut Vec<CrowdsecProblem>,
) -> Option<CrowdsecSource> {
    let mut refuse = |line: usize, message: String| {
        problems.push(CrowdsecProblem { file: path.to_owned(), line, message });
    };
    let placed = |node: &DocumentNode| Some(PlacedText { text: node.text()?.to_owned(), line: node.line });
    let texts = |name: &str| -> Vec<PlacedText> {
        let single = document.get(name).and_then(placed).filter(|single| !single.text.is_empty());
        document.items_of(name).iter().filter_map(placed).chain(single).collect()
    };
    let mut paths = texts("filenames");
    paths.extend(texts("filename"));
    let containers = texts("container_name");
    let (journal, containers) = match document.text_of("source") {
        None | Some("file") if !paths.is_empty() => (None, None),
        Some("journalctl") => (Some(texts("journalctl_filter")), None),
        Some("docker") if !containers.is_empty() => (None, Some(containers)),
        kind => {
            refuse(document.line, format!("the source `{}` is not followed", kind.unwrap_or("file")));
            return None;
        }
    };
    for (name, node) in document.members() {
        if !TAKEN.contains(&name.as_str()) && !HARMLESS.contains(&name.as_str()) {
            refuse(node.line, format!("`{name}` is not taken"));
        }
    }
    let labels = document.get("labels");
    for (name, node) in labels.map_or(&[][..], DocumentNode::members) {
        if name != "type" {
            refuse(node.line, format!("the label `{name}` is not taken"));
        }
    }
    let kind = labels.and_then(|labels| labels.text_of("type"));
    if kind.is_none() {
        refuse(document.line, "there is no label `type`: lines are read as `syslog`".to_owned());
    }
    if (journal.is_some() || containers.is_some()) && !paths.is_empty() {
        refuse(document.line, "files beside the journal or containers are not read".to_owned());
        paths.clear();
    }
    let (kind, file) = (kind.unwrap_or("syslog").to_owned(), path.to_owned());
    Some(CrowdsecSource { files: paths, journal, containers, kind, file, line: document.line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_taken_is_named_with_its_line() {
        let text = "filenames:\n - /var/log/a.log\n - /var/log/b*.log\nexclude_regexps:\n - '^x'\nlog_level: info\n\
            labels:\n  type: nginx\n  zone: dmz\n---\nsource: journalctl\njournalctl_filter:\n - _SYSTEMD_UNIT=ssh.service\n---\n\
            filename: /var/log/c.log\nmode: cat\nlabels:\n  type: syslog\n---\nsource: kinesis\n---\nsource: docker\n\
            container_name:\n - web\ncontainer_name_regexp:\n - w.*\nlabels:\n  type: nginx\n";
        let files = CrowdsecFiles([("acquis.d/a.yaml".to_owned(), text.to_owned())].into());
        let mut problems = Vec::new();
        let sources = sources(&files, &mut problems);
        let shown: Vec<String> = sources
            .iter()
            .map(|source| {
                let texts = source.journal.as_ref().or(source.containers.as_ref()).unwrap_or(&source.files);
                let texts: Vec<String> = texts.iter().map(|it| format!("{}:{}", it.line, it.text)).collect();
                format!("{} {} {}", source.kind, source.journal.is_some(), texts.join(" "))
            })
            .collect();
        assert_eq!(
            shown,
            [
                "nginx false 2:/var/log/a.log 3:/var/log/b*.log",
                "syslog true 13:_SYSTEMD_UNIT=ssh.service",
                "syslog false 15:/var/log/c.log",
                "nginx false 24:web",
            ]
        );
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "acquis.d/a.yaml:5: `exclude_regexps` is not taken",
                "acquis.d/a.yaml:9: the label `zone` is not taken",
                "acquis.d/a.yaml:11: there is no label `type`: lines are read as `syslog`",
                "acquis.d/a.yaml:16: `mode` is not taken",
                "acquis.d/a.yaml:20: the source `kinesis` is not followed",
                "acquis.d/a.yaml:26: `container_name_regexp` is not taken",
            ]
        );
    }
}

//! Sources that an installation of CrowdSec reads: `acquis.yaml`, `acquis.d`.

use crate::crowdsec::yaml::{self, DocumentNode};
use crate::crowdsec::{CrowdsecFiles, CrowdsecProblem};

/// A source of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrowdsecSource {
    /// Files, or patterns of their paths.
    pub files: Vec<String>,
    /// Matches of the journal, if it is read instead of files.
    pub journal: Option<Vec<String>>,
    /// The `type` that parsers know it by.
    pub kind: String,
}

/// Reads which sources are followed.
pub fn sources(files: &CrowdsecFiles, problems: &mut Vec<CrowdsecProblem>) -> Vec<CrowdsecSource> {
    let mut sources = Vec::new();
    let paths = ["acquis.yaml", "acquis.yml"].into_iter().filter(|path| files.get(path).is_some());
    for path in paths.chain(files.yaml("acquis.d")) {
        let documents = match yaml::documents(path, files.get(path).unwrap_or_default()) {
            Ok(documents) => documents,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        for document in &documents {
            let kind = document.get("labels").and_then(|labels| labels.text_of("type"));
            let kind = kind.unwrap_or("syslog").to_owned();
            let texts = |name: &str| -> Vec<String> {
                document.items_of(name).iter().filter_map(DocumentNode::text).map(str::to_owned).collect()
            };
            let mut paths = texts("filenames");
            paths.extend(document.text_of("filename").map(str::to_owned));
            match document.text_of("source") {
                None | Some("file") if !paths.is_empty() => {
                    sources.push(CrowdsecSource { files: paths, journal: None, kind });
                }
                Some("journalctl") => sources.push(CrowdsecSource {
                    files: Vec::new(),
                    journal: Some(texts("journalctl_filter")),
                    kind,
                }),
                source => problems.push(CrowdsecProblem {
                    file: path.to_owned(),
                    line: document.line,
                    message: format!("the source `{}` is not followed", source.unwrap_or("file")),
                }),
            }
        }
    }
    sources
}

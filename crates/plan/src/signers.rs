//! Signers of requests: `[[application]]` and `[[key_directory]]` of the main file.

use std::net::IpAddr;
use std::sync::Arc;

use event::Span;
use gate::application::{Application, ApplicationVersion, VersionState};
use gate::signature::{DIRECTORY_PATH, KeyDirectory, VerificationKey};

use crate::config::{ConfigProblems, ConfigView, Document, expected, key_authority_key, key_directory_key};
use crate::entries;

/// The keys of somebody who signs requests of robots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDirectoryPlan {
    /// The name of the signer.
    pub name: String,
    /// The host that its requests name as theirs, in lower case; `None` if they name none.
    pub agent: Option<String>,
    /// The place of its keys.
    pub source: KeyDirectorySource,
}

/// The place of a signer's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyDirectorySource {
    /// A file, which was read.
    File(Arc<KeyDirectory>),
    /// A URL, from which they are fetched at intervals.
    Url {
        /// The URL.
        url: String,
        /// The interval.
        refresh: Span,
        /// Certificates in PEM of those who vouch for its host, instead of public authorities.
        authority: Option<Arc<str>>,
    },
}

/// Compiles the directories of keys.
pub(crate) fn key_directories(document: &Document, problems: &mut ConfigProblems) -> Vec<KeyDirectoryPlan> {
    let mut plans: Vec<KeyDirectoryPlan> = Vec::new();
    for view in entries(document, "key_directory", problems) {
        let Some(name) = view.str("name") else { continue };
        let agent = view.str("agent").map(|agent| {
            let host = agent.strip_prefix("https://").unwrap_or(agent);
            host.trim_end_matches('/').to_ascii_lowercase()
        });
        if let Some(agent) = &agent
            && (agent.is_empty()
                || !agent.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte)))
        {
            problems.add(view.origin("agent"), format!("`{agent}` is no host such as `robot.example`"), None);
        }
        if plans.iter().any(|other| other.agent == agent && agent.is_some()) {
            problems.add(view.origin("agent"), "another directory has the same `agent`", None);
        }
        if view.str("file").is_some() && view.str("url").is_some() {
            problems.add(view.origin("url"), "keys are in a file or fetched, not both", None);
        }
        let source = match (view.str("file"), view.str("url"), &agent) {
            (Some(_), _, _) => {
                // A file that could not be read was told of.
                let Some(source) = document.list_file(&key_directory_key(name)) else { continue };
                match KeyDirectory::read(source.text.as_bytes()) {
                    Ok(keys) => KeyDirectorySource::File(Arc::new(keys)),
                    Err(error) => {
                        problems.add(view.origin("file"), format!("the keys of `{name}`: {error}"), None);
                        continue;
                    }
                }
            }
            (None, Some(url), _) => fetched(document, &view, url.to_owned(), problems),
            (None, None, Some(agent)) => {
                fetched(document, &view, format!("https://{agent}{DIRECTORY_PATH}"), problems)
            }
            (None, None, None) => {
                let help = "add `file`, `url` or `agent`".to_owned();
                problems.add(view.origin("name"), format!("`{name}` has no keys"), Some(help));
                continue;
            }
        };
        plans.push(KeyDirectoryPlan { name: name.to_owned(), agent, source });
    }
    plans
}

fn fetched(
    document: &Document,
    view: &ConfigView<'_>,
    url: String,
    problems: &mut ConfigProblems,
) -> KeyDirectorySource {
    if !is_protected_url(&url) {
        let help =
            "expected `https://...`, or `http://` with a loopback address such as 127.0.0.1".to_owned();
        problems.add(view.origin("url"), format!("keys are not fetched from `{url}`"), Some(help));
    }
    // A file that could not be read was told of.
    let file = view.str("name").and_then(|name| document.list_file(&key_authority_key(name)));
    if let Some(file) = file.filter(|file| !file.text.contains("-----BEGIN CERTIFICATE-----")) {
        let help = "it is PEM, with `-----BEGIN CERTIFICATE-----`".to_owned();
        problems.add(view.origin("authority"), format!("{}: there is no certificate", file.name), Some(help));
    }
    KeyDirectorySource::Url {
        url,
        authority: file.map(|file| Arc::from(&*file.text)),
        refresh: view.span("refresh").unwrap_or(Span::hours(1)).max(Span::seconds(1)),
    }
}

/// Returns true if nobody on the way can change what is fetched from a URL: it is encrypted, or of this machine.
pub fn is_protected_url(url: &str) -> bool {
    let authority = |rest: &str| rest.split(['/', '?', '#']).next().unwrap_or_default().to_owned();
    if url.bytes().any(|byte| byte <= b' ' || byte >= 0x7F || byte == b'@') {
        return false;
    }
    if let Some(rest) = url.strip_prefix("https://") {
        return !authority(rest).is_empty();
    }
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let authority = authority(rest);
    let host = authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let host = host.map_or(authority.as_str(), |(host, _)| host).trim_matches(['[', ']']);
    host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Compiles the applications.
pub(crate) fn applications(document: &Document, problems: &mut ConfigProblems) -> Vec<Application> {
    let mut all = Vec::new();
    for view in entries(document, "application", problems) {
        let Some(name) = view.str("name") else { continue };
        let mut versions: Vec<ApplicationVersion> = Vec::new();
        for version in view.tables("versions") {
            let Some(of) = version.str("version") else { continue };
            if versions.iter().any(|other| other.name == of) {
                problems.add(version.origin("version"), format!("`{of}` is defined twice"), None);
            }
            let key = match (version.str("secret"), version.str("public_key")) {
                (Some(secret), None) => VerificationKey::secret(secret.as_bytes()),
                (None, Some(key)) => VerificationKey::ed25519(key),
                _ => {
                    let help = "add one of `secret` and `public_key`".to_owned();
                    problems.add(version.origin("version"), format!("`{of}` has not one key"), Some(help));
                    continue;
                }
            };
            let word = version.str("state").unwrap_or("active");
            let state = VersionState::WORDS.iter().find(|(_, known)| *known == word);
            let Some((state, _)) = state else {
                let help = expected(word, VersionState::WORDS.iter().map(|(_, known)| *known));
                problems.add(version.origin("state"), format!("`{word}` is no state"), Some(help));
                continue;
            };
            match key {
                Ok(key) => versions.push(ApplicationVersion { name: of.to_owned(), state: *state, key }),
                Err(error) => {
                    problems.add(version.origin("public_key"), format!("the key of `{of}`: {error}"), None)
                }
            }
        }
        all.push(Application {
            name: name.to_owned(),
            hosts: view.one_or_more("hosts").into_iter().map(|(host, _)| host.to_ascii_lowercase()).collect(),
            window: view.span("window").unwrap_or(Span::minutes(5)),
            skew: view.span("skew").unwrap_or(Span::minutes(1)),
            versions,
        });
    }
    all
}

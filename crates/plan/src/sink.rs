//! Sinks: brokers that decisions and feedback are sent to.

use std::collections::HashSet;
use std::path::PathBuf;

use crate::config::{ConfigProblems, ConfigView, Document};
use crate::tls::beside;

/// Most sinks of a node, and brokers of one.
const SINKS_MAX: usize = 20;
const BROKERS_MAX: usize = 100;
/// Bytes of a topic's name in Kafka, and of a subject.
const TOPIC_BYTES_MAX: usize = 249;
const SUBJECT_BYTES_MAX: usize = 255;
const KAFKA_PORT: u16 = 9092;

/// A broker that decisions and feedback are sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkPlan {
    /// Its name.
    pub name: String,
    /// The broker.
    pub target: SinkTarget,
    /// True if decisions are sent.
    pub decisions: bool,
    /// True if feedback is sent.
    pub feedback: bool,
    /// True if decisions are sent with their facts.
    pub facts: bool,
    /// True if a new sink begins with the oldest of the journal.
    pub from_oldest: bool,
}

/// The broker of a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkTarget {
    /// A topic of Kafka.
    Kafka {
        /// The brokers, as `host:port` with commas.
        brokers: String,
        /// The topic.
        topic: String,
        /// The protection of the connections.
        security: BrokerSecurity,
    },
    /// A subject of NATS JetStream.
    Nats {
        /// The addresses of the servers.
        servers: Vec<String>,
        /// The subject.
        subject: String,
        /// The stream that must keep it; `None` for any.
        stream: Option<String>,
        /// The protection of the connection.
        security: BrokerSecurity,
    },
}

impl SinkTarget {
    /// Returns the kind by name.
    pub fn kind(&self) -> &'static str {
        match self {
            SinkTarget::Kafka { .. } => "kafka",
            SinkTarget::Nats { .. } => "nats",
        }
    }

    /// Returns the topic or subject.
    pub fn address(&self) -> &str {
        match self {
            SinkTarget::Kafka { topic, .. } => topic,
            SinkTarget::Nats { subject, .. } => subject,
        }
    }
}

/// The settings of TLS, and the credentials, of connections to a broker: of those that are read, and those that are sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerSecurity {
    /// The user.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<String>,
    /// The mechanism of SASL by which Kafka is shown the user.
    pub mechanism: SaslMechanismName,
    /// The credentials file of a user of NATS.
    pub creds: Option<PathBuf>,
    /// True if TLS is asked for.
    pub tls: bool,
    /// The authorities that vouch for the broker, instead of the system's.
    pub ca: Option<PathBuf>,
    /// The certificate that the broker is shown, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A mechanism of SASL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SaslMechanismName {
    /// The password itself (RFC 4616).
    Plain,
    /// Salted challenge and response with SHA-256 (RFC 7677).
    ScramSha256,
    /// Salted challenge and response with SHA-512.
    #[default]
    ScramSha512,
}

impl SaslMechanismName {
    /// Returns the mechanism of a name, in any case.
    pub fn parse(text: &str) -> Option<SaslMechanismName> {
        Some(match text.to_ascii_lowercase().as_str() {
            "plain" => SaslMechanismName::Plain,
            "scram-sha-256" => SaslMechanismName::ScramSha256,
            "scram-sha-512" => SaslMechanismName::ScramSha512,
            _ => return None,
        })
    }
}

impl BrokerSecurity {
    /// Returns true if connections are to be TLS: whoever names an authority, or shows a certificate, means it.
    pub fn is_tls(&self) -> bool {
        self.tls || self.ca.is_some() || self.identity.is_some()
    }

    /// Returns the fault of settings for Kafka, if they have one.
    pub fn kafka_fault(&self) -> Option<&'static str> {
        match (&self.user, &self.password) {
            (Some(_), None) | (None, Some(_)) => Some("`user` and `password` belong together"),
            (Some(_), Some(_)) if self.mechanism == SaslMechanismName::Plain && !self.is_tls() => {
                Some("the mechanism `plain` shows the password to the network: it needs TLS")
            }
            _ => None,
        }
    }

    fn compile(view: &ConfigView<'_>, problems: &mut ConfigProblems) -> BrokerSecurity {
        let text = |key: &str| view.str(key).filter(|text| !text.is_empty()).map(str::to_owned);
        let path = |key: &str| text(key).map(|path| beside(view, key, &path));
        let identity = match (path("certificate"), path("key")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                problems.add(view.first_origin(), "`certificate` and `key` belong together", None);
                None
            }
        };
        BrokerSecurity {
            user: text("user"),
            password: text("password"),
            mechanism: view.str("mechanism").and_then(SaslMechanismName::parse).unwrap_or_default(),
            creds: path("creds"),
            tls: view.bool("tls").unwrap_or(false),
            ca: path("ca"),
            identity,
        }
    }
}

/// Returns the brokers of Kafka, each with its port, with commas.
///
/// # Errors
/// If one is no host with perhaps a port.
pub fn kafka_brokers<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Result<String, String> {
    let mut brokers = Vec::new();
    for host in hosts {
        let (name, port) = match host.rsplit_once(':') {
            // The colons of `[::1]` are no ports'.
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
            _ => (host, Some(KAFKA_PORT)),
        };
        match port {
            Some(port) if !name.is_empty() && !name.contains(['@', '/', ',']) => {
                brokers.push(format!("{name}:{port}"));
            }
            _ => return Err("a broker is a host and perhaps a port".to_owned()),
        }
    }
    if brokers.is_empty() { Err("no broker is named".to_owned()) } else { Ok(brokers.join(",")) }
}

/// Returns true for what may be the name of a topic of Kafka.
pub fn is_kafka_topic(topic: &str) -> bool {
    !topic.is_empty()
        && topic.len() <= TOPIC_BYTES_MAX
        && topic.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Returns true for what may be a subject that is published to: words between dots, without wildcards.
fn is_nats_subject(subject: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic() && !b"*>".contains(&byte))
    };
    subject.len() <= SUBJECT_BYTES_MAX && !subject.starts_with('$') && subject.split('.').all(is_word)
}

/// The sinks of the main file.
pub(super) fn compile(document: &Document, problems: &mut ConfigProblems) -> Vec<SinkPlan> {
    let mut found = Vec::new();
    let mut names = HashSet::new();
    for view in document.list("sink") {
        let Some(name) = view.str("name") else { continue };
        if !names.insert(name) {
            problems.add(view.origin("name"), format!("sink `{name}` is defined twice"), None);
        }
        if names.len() > SINKS_MAX {
            problems.add(view.origin("name"), format!("there are more than {SINKS_MAX} sinks"), None);
            break;
        }
        let Some(target) = target(&view, problems) else { continue };
        let what = view.strings("what");
        let sends = |word: &str| what.iter().any(|(one, _)| *one == word);
        if what.is_empty() {
            problems.add(view.origin("what"), "the sink sends nothing", None);
        }
        found.push(SinkPlan {
            name: name.to_owned(),
            target,
            decisions: sends("decisions"),
            feedback: sends("feedback"),
            facts: view.bool("facts").unwrap_or(true),
            from_oldest: view.str("start") == Some("oldest"),
        });
    }
    found
}

/// The broker; `None` where it is wrong.
fn target(view: &ConfigView<'_>, problems: &mut ConfigProblems) -> Option<SinkTarget> {
    const HELP: &str = "write kafka = { brokers = [\"10.0.0.5:9092\"], topic = \"decisions\" } or nats = { servers = [\"nats://10.0.0.5:4222\"], subject = \"decisions\" }";
    let (table, is_kafka) = match (view.table("kafka"), view.table("nats")) {
        (Some(kafka), None) => (kafka, true),
        (None, Some(nats)) => (nats, false),
        (None, None) => {
            problems.add(view.origin("name"), "the sink has no broker", Some(HELP.to_owned()));
            return None;
        }
        (Some(_), Some(_)) => {
            problems.add(view.origin("name"), "the sink has two brokers", Some(HELP.to_owned()));
            return None;
        }
    };
    let (hosts_key, name_key) = if is_kafka { ("brokers", "topic") } else { ("servers", "subject") };
    let origin = view.origin(if is_kafka { "kafka" } else { "nats" });
    let mut wrong = |why: String| {
        problems.add(origin, why, Some(HELP.to_owned()));
        None
    };
    let hosts: Vec<&str> = table.strings(hosts_key).into_iter().map(|(host, _)| host).collect();
    if hosts.is_empty() || hosts.len() > BROKERS_MAX {
        return wrong(format!("`{hosts_key}` are 1 to {BROKERS_MAX}"));
    }
    let Some(name) = table.str(name_key).map(str::to_owned) else {
        return wrong(format!("`{name_key}` is missing"));
    };
    if is_kafka {
        let brokers = match kafka_brokers(hosts) {
            Ok(brokers) => brokers,
            Err(why) => return wrong(why),
        };
        if !is_kafka_topic(&name) {
            return wrong("names of topics have letters, digits, `.`, `_` and `-`".to_owned());
        }
        let security = BrokerSecurity::compile(&table, problems);
        if let Some(why) = security.kafka_fault() {
            problems.add(origin, why, None);
        }
        return Some(SinkTarget::Kafka { brokers, topic: name, security });
    }
    if hosts.iter().any(|host| !host.starts_with("nats://") && !host.starts_with("tls://")) {
        return wrong("a server is `nats://HOST:PORT` or `tls://HOST:PORT`".to_owned());
    }
    if hosts.iter().any(|host| host.contains('@')) {
        return wrong("the user stands in `user` and `password`, not in an address".to_owned());
    }
    if !is_nats_subject(&name) {
        return wrong("a subject is words between dots, without wildcards".to_owned());
    }
    let security = BrokerSecurity::compile(&table, problems);
    let servers = hosts.into_iter().map(str::to_owned).collect();
    let stream = table.str("stream").map(str::to_owned);
    Some(SinkTarget::Nats { servers, subject: name, stream, security })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;
    use crate::config::{Config, Overrides};

    fn plan(more: &str) -> Result<Plan, String> {
        let text = format!("preset = \"web\"\n[[sink]]\nname = \"s\"\n{more}\n");
        let config = Config::from_text("t.toml", &text, &Overrides::default());
        Plan::compile(&config).map_err(|problems| problems.to_string())
    }

    #[test]
    fn sinks_have_one_broker() {
        let check = |more: &str, expected: &str| {
            let plan = plan(more).unwrap_or_else(|problems| panic!("{more}: {problems}"));
            let sink = &plan.node.sinks[0];
            let (hosts, security) = match &sink.target {
                SinkTarget::Kafka { brokers, security, .. } => (brokers.clone(), security),
                SinkTarget::Nats { servers, security, .. } => (servers.join(","), security),
            };
            let shown = format!(
                "{} {hosts} {} {} {} {} {} {}",
                sink.target.kind(),
                sink.target.address(),
                sink.decisions,
                sink.feedback,
                sink.facts,
                sink.from_oldest,
                security.is_tls(),
            );
            assert_eq!(shown, expected, "{more}");
        };
        check(
            "kafka = { brokers = ['a', '[::1]:1'], topic = 't' }",
            "kafka a:9092,[::1]:1 t true true true false false",
        );
        check(
            "kafka = { brokers = ['a:1'], topic = 't', ca = 'x.pem' }\nwhat = ['feedback']\nfacts = false",
            "kafka a:1 t false true false false true",
        );
        check(
            "nats = { servers = ['nats://a:4222'], subject = 'a.b' }\nstart = 'oldest'\nwhat = ['decisions']",
            "nats nats://a:4222 a.b true false true true false",
        );
    }

    #[test]
    fn sinks_that_are_wrong_are_told_of() {
        let check = |more: &str, expected: &str| {
            let found = plan(more).map(|_| ()).expect_err(more);
            assert!(found.contains(expected), "{more}: {found}");
        };
        let kafka = "kafka = { brokers = ['a:1'], topic = 't' }";
        check("", "the sink has no broker");
        check(
            &format!("{kafka}\nnats = {{ servers = ['nats://a'], subject = 's' }}"),
            "the sink has two brokers",
        );
        check("kafka = { topic = 't' }", "`brokers` are 1 to");
        check("kafka = { brokers = ['a:x'], topic = 't' }", "a broker is a host");
        check("kafka = { brokers = ['a'], topic = 'a/b' }", "names of topics");
        check("kafka = { brokers = ['a'] }", "`topic` is missing");
        check("kafka = { brokers = ['a'], topic = 't', user = 'u' }", "belong together");
        check("kafka = { brokers = ['a'], topic = 't', key = 'u' }", "belong together");
        check(
            "kafka = { brokers = ['a'], topic = 't', user = 'u', password = 'p', mechanism = 'plain' }",
            "it needs TLS",
        );
        check("nats = { servers = ['a'], subject = 's' }", "a server is");
        check("nats = { servers = ['nats://u:p@a'], subject = 's' }", "not in an address");
        check("nats = { servers = ['nats://a'], subject = 's.*' }", "without wildcards");
        check(&format!("{kafka}\nwhat = []"), "the sink sends nothing");
        check(&format!("{kafka}\nwhat = ['other']"), "other");
        check(&format!("{kafka}\n[[sink]]\nname = 's'\n{kafka}"), "defined twice");
    }
}

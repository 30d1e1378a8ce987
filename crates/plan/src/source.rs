//! Sources that a server reads by itself: files, the journal, senders of syslog.

use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use event::Span;
use judge::{Network, Networks};
use logs::csv::{CSV_COLUMNS_MAX, CsvColumns};
use logs::log_stream::{LogEnvelope, zone};
use sources::container_logs::{ContainerSelection, DOCKER_FOLDER, NAMES_MAX};
use sources::file_follower::FileStart;
use sources::journal_follower::{JournalSelection, UNIT_BYTES_MAX, UNITS_MAX};
use sources::path_pattern::PathPattern;

use crate::config::{ConfigProblems, ConfigView, Document, Endpoint, expected};
use crate::listener::{ListenerPlan, ProtocolPlan};
use crate::pipeline::PipelineInput;
use crate::pipeline::draft::PipelineDraft;
use crate::tls::{TlsPlan, beside};

/// Most sources of a node, and patterns of files of one.
const SOURCES_MAX: usize = 100;
const PATTERNS_MAX: usize = 100;

/// A source that a server reads.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcePlan {
    /// Its name.
    pub name: String,
    /// The place that lines come from.
    pub input: SourceInput,
    /// The name of the pipeline that judges.
    pub pipeline: String,
    /// The columns of lines of comma-separated values; `None` for what the pipeline reads.
    pub csv: Option<CsvColumns>,
    /// The zone of dates that name none, in place of that of the pipeline.
    pub zone: Option<String>,
    /// The envelope of lines that a pipeline's patterns read, in place of that of the pipeline.
    pub envelope: Option<LogEnvelope>,
    /// Parsers and scenarios of CrowdSec that lines go through, if they do.
    pub crowdsec: Option<CrowdsecPlan>,
}

/// Parsers and scenarios of CrowdSec that a source's lines go through: each overflow is an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrowdsecPlan {
    /// The folder of parsers and scenarios.
    pub directory: PathBuf,
    /// The folder of files that scenarios look into, if it is named.
    pub data_files: Option<PathBuf>,
    /// The type by which parsers know the lines.
    pub kind: String,
}

/// The place that lines of a source come from.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceInput {
    /// Growing files.
    Files {
        /// Patterns of paths.
        patterns: Vec<PathPattern>,
        /// The beginning of files that were not read before.
        start: FileStart,
    },
    /// Logs of Docker's containers.
    Docker {
        /// The containers.
        containers: ContainerSelection,
        /// The beginning of logs that were not read before.
        start: FileStart,
    },
    /// The journal of this machine.
    Journal(JournalSelection),
    /// Senders of syslog.
    Syslog(Box<SyslogPlan>),
}

impl SourceInput {
    /// Returns the kind by name.
    pub fn kind(&self) -> &'static str {
        match self {
            SourceInput::Files { .. } => "files",
            SourceInput::Docker { .. } => "docker",
            SourceInput::Journal(_) => "journald",
            SourceInput::Syslog(_) => "syslog",
        }
    }
}

/// A port that is sent lines.
#[derive(Clone, Debug, PartialEq)]
pub struct SyslogPlan {
    /// The way in which lines come.
    pub transport: SyslogTransport,
    /// The port; over UDP its address, and who may send there.
    pub listener: ListenerPlan,
    /// Lines a second of one address.
    pub rate_max: u32,
}

/// The way in which lines come to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyslogTransport {
    /// A line a datagram (RFC 5426).
    Udp,
    /// Lines or counted octets (RFC 6587).
    Tcp,
    /// Lines or counted octets within TLS (RFC 5425).
    Tls,
}

impl SyslogTransport {
    /// Returns the scheme of its addresses.
    pub fn scheme(self) -> &'static str {
        match self {
            SyslogTransport::Udp => "udp",
            SyslogTransport::Tcp => "tcp",
            SyslogTransport::Tls => "tls",
        }
    }

    fn address(text: &str) -> Option<(SyslogTransport, SocketAddr)> {
        let all = [SyslogTransport::Udp, SyslogTransport::Tcp, SyslogTransport::Tls];
        let (scheme, address) = text.split_once("://")?;
        let transport = all.into_iter().find(|transport| transport.scheme() == scheme)?;
        Some((transport, address.parse().ok()?))
    }
}

impl fmt::Display for SyslogPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.transport.scheme(), self.listener.listen)
    }
}

/// The sources of the main file, whose pipelines are among these.
pub(super) fn compile(
    document: &Document,
    drafts: &[PipelineDraft<'_>],
    listeners: &[ListenerPlan],
    problems: &mut ConfigProblems,
) -> Vec<SourcePlan> {
    let mut found: Vec<SourcePlan> = Vec::new();
    let mut names = HashSet::new();
    for view in document.list("source") {
        let Some(name) = view.str("name") else { continue };
        if !names.insert(name) {
            problems.add(view.origin("name"), format!("source `{name}` is defined twice"), None);
        }
        if names.len() > SOURCES_MAX {
            problems.add(view.origin("name"), format!("there are more than {SOURCES_MAX} sources"), None);
            break;
        }
        if listeners.iter().any(|listener| listener.name == name) {
            let what = format!("source `{name}` has the name of a listener");
            problems.add(view.origin("name"), what, Some("metrics are told apart by names".to_owned()));
        }
        let Some(input) = input(&view, name, problems) else { continue };
        if let SourceInput::Syslog(syslog) = &input {
            let is_free = matches!(syslog.listener.listen, Endpoint::Tcp(address) if address.port() == 0);
            let is_udp = syslog.transport == SyslogTransport::Udp;
            let is_taken = found.iter().any(|other| match &other.input {
                SourceInput::Syslog(other) => {
                    (other.transport == SyslogTransport::Udp) == is_udp
                        && other.listener.listen == syslog.listener.listen
                }
                _ => false,
            });
            let is_listened =
                !is_udp && listeners.iter().any(|listener| listener.listen == syslog.listener.listen);
            if !is_free && (is_taken || is_listened) {
                problems.add(view.origin("syslog"), format!("{syslog} is listened on twice"), None);
            }
        }
        let zone = checked_zone(&view, problems);
        let Some((pipeline, reads)) = pipeline(&view, drafts, problems) else { continue };
        let csv = csv(&view, reads, problems);
        let envelope = envelope(&view, reads, problems);
        let crowdsec = crowdsec(&view, reads, csv.is_some(), problems);
        found.push(SourcePlan { name: name.to_owned(), input, pipeline, csv, zone, envelope, crowdsec });
    }
    found
}

/// The place that lines come from; `None` where it is wrong.
fn input(view: &ConfigView<'_>, name: &str, problems: &mut ConfigProblems) -> Option<SourceInput> {
    let (files, journald, syslog) = (view.strings("files"), view.table("journald"), view.str("syslog"));
    let docker = view.table("docker");
    let given = [!files.is_empty(), docker.is_some(), journald.is_some(), syslog.is_some()];
    let given = given.into_iter().filter(|is_given| *is_given).count();
    if given != 1 {
        let help = "write files = [\"/var/log/nginx/*.log\"], docker = { containers = [\"web*\"] }, journald = { units = [\"ssh\"] } or syslog = \"udp://127.0.0.1:5514\"";
        let what = if given == 0 { "the source reads nothing" } else { "the source has several inputs" };
        problems.add(view.origin("name"), what, Some(help.to_owned()));
        return None;
    }
    let for_syslog = ["clients", "tls", "rate_max", "connections_max", "client_connections_max", "idle"];
    for key in for_syslog.into_iter().filter(|key| syslog.is_none() && view.is_given(key)) {
        let what = format!("`{key}` does nothing where there is no `syslog`");
        problems.add(view.origin(key), what, Some("leave it out".to_owned()));
    }
    let start = if view.str("start") == Some("end") { FileStart::End } else { FileStart::Beginning };
    if let Some(text) = syslog {
        return listener(view, name, text, problems).map(|syslog| SourceInput::Syslog(Box::new(syslog)));
    }
    if let Some(journald) = journald {
        let units = journald.strings("units");
        for (unit, origin) in &units {
            if unit.is_empty() || unit.len() > UNIT_BYTES_MAX || unit.chars().any(char::is_control) {
                problems.add(origin, "expected the name of a unit, such as `ssh`", None);
            }
        }
        if units.len() > UNITS_MAX {
            problems.add(journald.origin("units"), format!("there are more than {UNITS_MAX} units"), None);
        }
        let units = units.into_iter().map(|(unit, _)| unit.to_owned()).collect();
        return Some(SourceInput::Journal(JournalSelection { units, start, is_once: false }));
    }
    if let Some(docker) = docker {
        return containers(&docker, problems).map(|containers| SourceInput::Docker { containers, start });
    }
    if files.len() > PATTERNS_MAX {
        problems.add(view.origin("files"), format!("there are more than {PATTERNS_MAX} patterns"), None);
    }
    let mut patterns = Vec::new();
    for (text, origin) in files {
        let full = beside(view, "files", text);
        // Checked as it is written, so that an error shows what the user wrote.
        match PathPattern::new(text).and_then(|_| PathPattern::new(&full.to_string_lossy())) {
            Ok(pattern) => patterns.push(pattern),
            Err(error) => problems.add(origin, error.to_string(), None),
        }
    }
    Some(SourceInput::Files { patterns, start })
}

/// The containers whose logs are read.
fn containers(view: &ConfigView<'_>, problems: &mut ConfigProblems) -> Option<ContainerSelection> {
    let names = view.strings("containers");
    if names.len() > NAMES_MAX {
        let what = format!("there are more than {NAMES_MAX} names of containers");
        problems.add(view.origin("containers"), what, None);
    }
    let folder = view.str("directory").filter(|folder| !folder.is_empty());
    let folder =
        folder.map_or_else(|| PathBuf::from(DOCKER_FOLDER), |folder| beside(view, "directory", folder));
    for (name, origin) in &names {
        if let Err(error) = ContainerSelection::new(&folder, &[*name]) {
            problems.add(origin, error.to_string(), Some("write names such as `web*`".to_owned()));
        }
    }
    let names: Vec<&str> = names.into_iter().map(|(name, _)| name).collect();
    ContainerSelection::new(&folder, &names).ok()
}

/// A port that is sent lines.
fn listener(
    view: &ConfigView<'_>,
    name: &str,
    text: &str,
    problems: &mut ConfigProblems,
) -> Option<SyslogPlan> {
    let Some((transport, listen)) = SyslogTransport::address(text) else {
        let help =
            "expected udp://, tcp:// or tls:// with an address and a port, such as `udp://127.0.0.1:5514`";
        problems.add(
            view.origin("syslog"),
            format!("`{text}` is no address for syslog"),
            Some(help.to_owned()),
        );
        return None;
    };
    let clients = view.strings("clients").into_iter();
    let clients = Networks::new(clients.filter_map(|(network, _)| network.parse::<Network>().ok()));
    if !listen.ip().is_loopback() && clients.is_empty() {
        let message = format!("{listen} can be reached from outside and anybody may send there");
        let help = "add clients = [\"...\"] with the networks of those who may send, or listen on a loopback address";
        problems.add(view.origin("syslog"), message, Some(help.to_owned()));
    }
    let tls = TlsPlan::compile(view, problems);
    match (transport, &tls) {
        (SyslogTransport::Tls, None) if !view.is_given("tls") => {
            let help = "add tls = { certificate = \"...\", key = \"...\" }".to_owned();
            problems.add(view.origin("syslog"), "`tls://` has no certificate", Some(help));
        }
        (SyslogTransport::Udp | SyslogTransport::Tcp, Some(_)) => {
            let help = "write `tls://` in place of `tcp://`, or leave `tls` out".to_owned();
            problems.add(view.origin("tls"), format!("{}:// has no TLS", transport.scheme()), Some(help));
        }
        _ => {}
    }
    let count = |key: &str| usize::try_from(view.integer(key)?).ok();
    Some(SyslogPlan {
        transport,
        rate_max: u32::try_from(view.integer("rate_max")?).ok()?,
        listener: ListenerPlan {
            name: name.to_owned(),
            listen: Endpoint::Tcp(listen),
            mode: 0,
            clients,
            // Nobody waits for an answer.
            timeout: Span::ZERO,
            idle: view.span("idle")?,
            connections_max: count("connections_max")?,
            client_connections_max: count("client_connections_max")?,
            tls,
            settings: ProtocolPlan::Syslog,
        },
    })
}

fn checked_zone(view: &ConfigView<'_>, problems: &mut ConfigProblems) -> Option<String> {
    let name = view.str("zone").filter(|zone| !zone.is_empty())?;
    if zone(name).is_none() {
        let help = "write a name such as `Europe/Berlin`, or an offset such as `UTC+0200`".to_owned();
        problems.add(view.origin("zone"), format!("there is no time zone `{name}`"), Some(help));
    }
    Some(name.to_owned())
}

/// The envelope of lines that patterns read.
fn envelope(
    view: &ConfigView<'_>,
    reads: PipelineInput,
    problems: &mut ConfigProblems,
) -> Option<LogEnvelope> {
    let envelope = view.str("envelope").and_then(LogEnvelope::named)?;
    if reads != PipelineInput::Log {
        let help = "leave it out: access logs in containers are known by themselves".to_owned();
        let what = "`envelope` is for a pipeline with `input = \"log\"`";
        problems.add(view.origin("envelope"), what, Some(help));
    }
    Some(envelope)
}

/// The columns of comma-separated values.
fn csv(view: &ConfigView<'_>, reads: PipelineInput, problems: &mut ConfigProblems) -> Option<CsvColumns> {
    let columns = view.strings("columns");
    if view.str("format") != Some("csv") {
        for key in ["columns", "separator"].into_iter().filter(|key| view.is_given(key)) {
            let help = "add format = \"csv\", or leave it out".to_owned();
            problems.add(view.origin(key), format!("`{key}` is for `csv` alone"), Some(help));
        }
        return None;
    }
    if reads != PipelineInput::Json {
        let help =
            "name a pipeline with `input = \"json\"`, whose fields have the names of the columns".to_owned();
        problems.add(view.origin("format"), "`csv` makes events with fields", Some(help));
    }
    if columns.len() > CSV_COLUMNS_MAX {
        problems.add(view.origin("columns"), format!("there are more than {CSV_COLUMNS_MAX} columns"), None);
    }
    let separator = view.str("separator").unwrap_or(",").as_bytes();
    let &[separator] = separator else {
        problems.add(view.origin("separator"), "a separator is one character of ASCII", None);
        return None;
    };
    if matches!(separator, b'"' | b'\r' | b'\n') {
        problems.add(view.origin("separator"), "quotes and ends of lines separate no columns", None);
    }
    let names = columns.into_iter().map(|(name, _)| name.to_owned()).collect();
    Some(CsvColumns { names, separator })
}

/// The parsers and scenarios of CrowdSec that lines go through.
fn crowdsec(
    view: &ConfigView<'_>,
    reads: PipelineInput,
    is_csv: bool,
    problems: &mut ConfigProblems,
) -> Option<CrowdsecPlan> {
    let path = |key: &str| view.str(key).filter(|path| !path.is_empty()).map(|path| beside(view, key, path));
    let Some(directory) = path("crowdsec") else {
        for key in ["log_type", "data_files"].into_iter().filter(|key| view.is_given(key)) {
            let help = "add crowdsec = \"/etc/crowdsec\", or leave it out".to_owned();
            problems.add(view.origin(key), format!("`{key}` is for `crowdsec` alone"), Some(help));
        }
        return None;
    };
    if reads != PipelineInput::Json {
        let help = "name the pipeline that `tollhouse import crowdsec` writes: pipeline = \"crowdsec\"";
        let what = "`crowdsec` makes events with fields, for a pipeline with `input = \"json\"`";
        problems.add(view.origin("crowdsec"), what, Some(help.to_owned()));
    }
    if is_csv {
        let help = "leave `format` out: CrowdSec's parsers read the lines".to_owned();
        problems.add(view.origin("format"), "`csv` does not go with `crowdsec`", Some(help));
    }
    Some(CrowdsecPlan {
        directory,
        data_files: path("data_files"),
        kind: view.str("log_type").unwrap_or("syslog").to_owned(),
    })
}

/// The pipeline that a source names, or the first that reads logs, with its input.
fn pipeline(
    view: &ConfigView<'_>,
    drafts: &[PipelineDraft<'_>],
    problems: &mut ConfigProblems,
) -> Option<(String, PipelineInput)> {
    let of = |draft: &PipelineDraft<'_>| (draft.pipeline.name.clone(), draft.pipeline.input);
    let fitting = || drafts.iter().filter(|draft| draft.pipeline.input != PipelineInput::Message);
    let is_log = |draft: &&PipelineDraft<'_>| {
        matches!(draft.pipeline.input, PipelineInput::Log | PipelineInput::AccessLog)
    };
    match view.str("pipeline") {
        Some(name) => {
            let found = fitting().find(|draft| draft.pipeline.name == name).map(of);
            if found.is_none() {
                let message = format!("no pipeline that reads lines is called `{name}`");
                let names = fitting().map(|draft| draft.pipeline.name.as_str());
                problems.add(view.origin("pipeline"), message, Some(expected(name, names)));
            }
            found
        }
        None => {
            let found = fitting().find(is_log).map(of);
            if found.is_none() {
                let help =
                    "name one with `pipeline`, or add one such as the preset `web` to `pipelines` of [node]";
                problems.add(view.origin("name"), "no pipeline reads logs", Some(help.to_owned()));
            }
            found
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Overrides};
    use crate::{Plan, SourceInput};

    fn plan(more: &str) -> Result<Plan, String> {
        let text = format!("preset = \"web\"\n[[source]]\nname = \"s\"\n{more}\n");
        let config = Config::from_text("t.toml", &text, &Overrides::default());
        Plan::compile(&config).map_err(|problems| problems.to_string())
    }

    #[test]
    fn sources_have_one_input() {
        let check = |more: &str, expected: &str| {
            let plan = plan(more).unwrap_or_else(|problems| panic!("{more}: {problems}"));
            let source = &plan.node.sources[0];
            let shown = match &source.input {
                SourceInput::Files { patterns, start } => format!("{} {start:?}", patterns.len()),
                SourceInput::Docker { containers, start } => {
                    let names: Vec<&str> = containers.names().collect();
                    format!("{} {} {start:?}", containers.folder().display(), names.join(" "))
                }
                SourceInput::Journal(selection) => selection.units.join(" "),
                SourceInput::Syslog(syslog) => syslog.to_string(),
            };
            assert_eq!(format!("{} {}: {shown}", source.pipeline, source.input.kind()), expected, "{more}");
        };
        check("files = ['/var/log/*.log', '/a']", "web files: 2 Beginning");
        check("files = ['/a']\nstart = 'end'\nzone = 'UTC+0200'", "web files: 1 End");
        check(
            "docker = { containers = ['web*', '/shop'] }",
            "web docker: /var/lib/docker/containers web* shop Beginning",
        );
        check(
            "docker = { directory = '/srv/containers' }\nstart = 'end'",
            "web docker: /srv/containers  End",
        );
        check("journald = {}", "web journald: ");
        check("journald = { units = ['ssh', 'nginx'] }", "web journald: ssh nginx");
        check("syslog = 'udp://127.0.0.1:0'", "web syslog: udp://127.0.0.1:0");
        check("syslog = 'tcp://0.0.0.0:514'\nclients = ['192.0.2.0/24']", "web syslog: tcp://0.0.0.0:514");
        check(
            "syslog = 'tls://[::1]:6514'\ntls = { certificate = 'a.pem', key = 'a.key' }",
            "web syslog: tls://[::1]:6514",
        );
    }

    #[test]
    fn paths_are_relative_to_the_file_that_names_them() {
        let text = "preset = \"web\"\n[[source]]\nname = \"s\"\nfiles = [\"logs/*.log\", \"/a\"]\n";
        let config = Config::from_text("/etc/tollhouse/t.toml", text, &Overrides::default());
        let plan = Plan::compile(&config).map_err(|problems| problems.to_string()).unwrap();
        let SourceInput::Files { patterns, .. } = &plan.node.sources[0].input else { panic!("files") };
        let patterns: Vec<&str> = patterns.iter().map(|pattern| pattern.as_str()).collect();
        assert_eq!(patterns, ["/etc/tollhouse/logs/*.log", "/a"]);
    }

    #[test]
    fn sources_that_are_wrong_are_told_of() {
        let check = |more: &str, expected: &str| {
            let found = plan(more).map(|_| ()).expect_err(more);
            assert!(found.contains(expected), "{more}: {found}");
        };
        check("", "the source reads nothing");
        check("files = ['/a']\njournald = {}", "the source has several inputs");
        check("files = ['/a']\ndocker = {}", "the source has several inputs");
        check("docker = { containers = ['a/b'] }", "`a/b` is a path, and no name");
        check("files = ['/a/**/b']", "`**` is not known");
        check("files = ['/a']\nrate_max = 5", "`rate_max` does nothing where there is no `syslog`");
        check("files = ['/a']\nzone = 'Nowhere/X'", "there is no time zone");
        check("files = ['/a']\nenvelope = 'docker'", "`envelope` is for a pipeline with `input = \"log\"`");
        check("files = ['/a']\nformat = 'csv'", "`csv` makes events with fields");
        check("files = ['/a']\ncolumns = ['a']", "`columns` is for `csv` alone");
        check("files = ['/a']\npipeline = 'other'", "no pipeline that reads lines is called `other`");
        check("syslog = '127.0.0.1:514'", "is no address for syslog");
        check("syslog = 'udp://0.0.0.0:514'", "anybody may send there");
        check("syslog = 'tls://127.0.0.1:514'", "`tls://` has no certificate");
        check("syslog = 'udp://127.0.0.1:1'\ntls = { certificate = 'a', key = 'b' }", "udp:// has no TLS");
        check("journald = { units = [''] }", "expected the name of a unit");
        check("files = ['/a']\n[[source]]\nname = 's'\nfiles = ['/b']", "defined twice");
        check(
            "syslog = 'udp://127.0.0.1:9'\n[[source]]\nname = 't'\nsyslog = 'udp://127.0.0.1:9'",
            "is listened on twice",
        );
    }
}

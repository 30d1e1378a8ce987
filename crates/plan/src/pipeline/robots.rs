//! Robots that say who they are: their list, compiled, and the columns of what is known of a request's sender.

use std::net::IpAddr;

use content::web::domain::domain_to_ascii;
use data_encoding::HEXLOWER;
use event::{Facts, SchemaBuilder, Slot, Span, Type, Value};
use gate::robot::{DeclaredRobot, DeclaredRobots, published_networks};
use gate::signature::SignaturePolicy;
use judge::{Network, Networks};
use sha2::{Digest, Sha256};

use super::PipelineInput;
use crate::config::{ConfigProblems, Document, robot_key};
use crate::entries;

event::columns! {
    /// The columns of the robot that a request is of, or claims to be of.
    pub struct RobotColumns {
        claimed: String "bot.claimed" "Robot that the agent claims to be, of `[[robot]]`",
        verified: Bool "bot.verified" "The robot's signature, name or network was verified; false where none is claimed",
        operator: String "bot.operator" "Operator of the verified robot",
        method: String "bot.method" "Method of verification: `signature`, `network` or `name`",
        impostor: Bool "bot.impostor" "The request claims a robot that it is not. Missing while unknown",
        refused: String "bot.refused" "Reason why a robot's signature does not count, such as `expired`, `forged` or \
            `replayed`",
    }
}

event::columns! {
    /// The columns of the application that has signed a request.
    pub struct ApplicationColumns {
        name: String "app.name" "Application in the signature, if known",
        version: String "app.version" "Version in the signature, if known",
        verified: Bool "app.verified" "The signature counts; false without one",
        watched: Bool "app.watched" "The signature counts, and others may have its version's key",
        refused: String "app.refused" "Reason why the signature does not count, such as `retired`, `expired`, `forged` or \
            `replayed`",
    }
}

/// The robots that a pipeline knows.
#[derive(Debug)]
pub struct RobotsPlan {
    /// The columns of what is known of a request's sender.
    pub columns: RobotColumns,
    /// The hosts for which signatures hold.
    pub hosts: Vec<String>,
    /// The conditions of a signature.
    pub policy: SignaturePolicy,
    agent: Option<Slot>,
    client: Option<Slot>,
    robots: DeclaredRobots,
    /// The networks of each robot, if they are known.
    networks: Vec<Option<Networks>>,
    /// True if name service is asked.
    asks_names: bool,
}

/// The way in which a robot was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RobotProof {
    /// A signature.
    Signature,
    /// The networks that its operator publishes.
    Network,
    /// The name of its address, forward and back.
    Name,
}

impl RobotProof {
    fn name(self) -> &'static str {
        match self {
            RobotProof::Signature => "signature",
            RobotProof::Network => "network",
            RobotProof::Name => "name",
        }
    }
}

impl RobotsPlan {
    /// Returns the networks that operators of robots publish.
    pub(crate) fn published(&self) -> impl Iterator<Item = Network> {
        self.networks.iter().flatten().flat_map(Networks::ranges_within)
    }

    fn text<'f>(&self, facts: &'f Facts, slot: Option<Slot>) -> Option<&'f str> {
        facts.get(slot?).and_then(Value::as_str)
    }

    fn client(&self, facts: &Facts) -> Option<IpAddr> {
        match facts.get(self.client?) {
            Some(Value::Ip(ip)) => Some(ip.to_canonical()),
            _ => None,
        }
    }

    /// Fills what the request itself and the networks of robots say. What an event brings of a verified signature stays.
    pub fn fill(&self, facts: &mut Facts) {
        let columns = &self.columns;
        let is_signed = facts.get(columns.verified) == Some(&Value::Bool(true));
        let found = self.robots.claimed(self.text(facts, self.agent).unwrap_or_default());
        if !is_signed {
            facts.set(columns.verified, false);
        }
        let Some((robot, networks)) =
            found.and_then(|at| self.robots.as_slice().get(at).zip(self.networks.get(at)))
        else {
            facts.set(columns.impostor, false);
            return;
        };
        facts.set(columns.claimed, robot.name.as_str());
        let is_of_operator = self.text(facts, Some(columns.operator)) == Some(robot.operator.as_str());
        if is_signed && is_of_operator {
            facts.set(columns.impostor, false);
            return;
        }
        let Some(client) = self.client(facts) else { return };
        match networks {
            Some(networks) if networks.contain(client) => self.verify(facts, robot, RobotProof::Network),
            // Names may still be known, once they are looked up.
            _ if self.asks_names && !robot.domains.is_empty() => {}
            Some(_) => facts.set(columns.impostor, true),
            None => {}
        }
    }

    /// Returns the address whose names say if the request is of the robot that it claims; `None` if nothing is to be asked.
    pub fn question(&self, facts: &Facts) -> Option<IpAddr> {
        if !self.asks_names || facts.get(self.columns.impostor).is_some() {
            return None;
        }
        self.claim(facts).filter(|robot| !robot.domains.is_empty())?;
        self.client(facts)
    }

    /// Fills what the names of the address say, of which each was found forward and back; `None` if they could not be had.
    pub fn answer(&self, facts: &mut Facts, names: Option<&[String]>) {
        let (Some(names), Some(robot)) = (names, self.claim(facts)) else { return };
        if names.iter().any(|name| robot.has_name(name)) {
            self.verify(facts, robot, RobotProof::Name);
        } else {
            facts.set(self.columns.impostor, true);
        }
    }

    fn claim(&self, facts: &Facts) -> Option<&DeclaredRobot> {
        let name = self.text(facts, Some(self.columns.claimed))?;
        self.robots.as_slice().iter().find(|robot| robot.name == name)
    }

    fn verify(&self, facts: &mut Facts, robot: &DeclaredRobot, proof: RobotProof) {
        let columns = &self.columns;
        facts.set(columns.impostor, false);
        // A signature says more, even that of another operator: it passes this request on.
        if facts.get(columns.verified) != Some(&Value::Bool(true)) {
            facts.set(columns.verified, true);
            facts.set(columns.operator, robot.operator.as_str());
            facts.set(columns.method, proof.name());
        }
    }
}

/// Returns the part of a pipeline's version that comes from the files of networks, one line each.
pub(crate) fn canonical(document: &Document) -> String {
    let mut text = String::new();
    for view in document.list("robot") {
        let Some(name) = view.str("name") else { continue };
        for (file, _) in view.strings("files") {
            if let Some(source) = document.list_file(&robot_key(name, file)) {
                let digest: String = HEXLOWER.encode(&Sha256::digest(source.text.as_bytes()));
                text += &format!("robot.{name}.digest = \"{file} {digest}\"\n");
            }
        }
    }
    text
}

/// Compiles the robots of a pipeline and adds their columns; `None` if it does not speak of any.
pub(crate) fn compile(
    document: &Document,
    main: &Document,
    input: PipelineInput,
    builder: &mut SchemaBuilder,
    problems: &mut ConfigProblems,
) -> Option<RobotsPlan> {
    let section = document.section("robots");
    let views = entries(document, "robot", problems);
    // A kept version writes out the defaults of every section, so an empty one says nothing.
    let given = section.filter(|view| !view.strings("hosts").is_empty());
    let origin = given.map(|view| view.origin("hosts")).or_else(|| Some(views.first()?.first_origin()))?;
    if input == PipelineInput::Message {
        let help = "leave it out, or read requests: `input = \"access-log\"` or \"json\"".to_owned();
        problems.add(origin, "robots are looked for in requests only", Some(help));
        return None;
    }
    let typed = |name: &str, kind: Type| {
        let slot = builder.schema().slot(name)?;
        (builder.schema().column(slot).kind == kind).then_some(slot)
    };
    let (agent, client) = (typed("http.agent", Type::String), typed("client.ip", Type::Ip));
    for (name, found, kind) in [("http.agent", agent, "string"), ("client.ip", client, "ip")] {
        if found.is_none() {
            let message = format!("robots are known by `{name}`, which the pipeline does not have");
            let help = format!("declare it: [[field]] name = \"{name}\", type = \"{kind}\"");
            problems.add(origin, message, Some(help));
        }
    }
    let columns = RobotColumns::register(builder)
        .map_err(|error| problems.add(origin, format!("the facts of robots: {error}"), None))
        .ok()?;
    let (mut robots, mut networks) = (Vec::new(), Vec::new());
    for view in views {
        let Some(name) = view.str("name") else { continue };
        let words = |key: &str| view.strings(key).into_iter();
        let mut domains = Vec::new();
        for (text, origin) in words("domains") {
            let domain = domain_to_ascii(text.trim_start_matches('.'));
            if domain.contains('.') && domain.is_ascii() && !domain.contains([' ', '/', ':']) {
                domains.push(domain);
            } else {
                problems.add(origin, format!("`{text}` is no domain such as `googlebot.com`"), None);
            }
        }
        for (text, origin) in words("agents").filter(|(text, _)| text.trim().is_empty()) {
            problems.add(origin, format!("`{text}` is in every agent"), None);
        }
        let mut ranges: Option<Vec<Network>> = None;
        for (file, origin) in words("files") {
            let Some(source) = document.list_file(&robot_key(name, file)) else { continue };
            match published_networks(&source.text) {
                Ok(published) => {
                    ranges.get_or_insert_default().extend(published.into_iter().map(range));
                }
                Err(error) => problems.add(origin, format!("{file}: {error}"), None),
            }
        }
        robots.push(DeclaredRobot {
            name: name.to_owned(),
            operator: view.str("operator").filter(|text| !text.is_empty()).unwrap_or(name).to_owned(),
            agents: words("agents").map(|(text, _)| text.to_lowercase()).collect(),
            domains,
        });
        networks.push(ranges.map(Networks::new));
    }
    let robots = DeclaredRobots::new(robots)
        .map_err(|error| problems.add(origin, format!("the words of robots: {error}"), None))
        .ok()?;
    let span = |key: &str| section.and_then(|view| view.span(key)).unwrap_or(Span::ZERO);
    let dns = main.section("dns");
    Some(RobotsPlan {
        columns,
        hosts: section
            .map(|view| view.strings("hosts"))
            .unwrap_or_default()
            .into_iter()
            .map(|(host, _)| host.to_ascii_lowercase())
            .collect(),
        policy: SignaturePolicy {
            covered: &[&["@authority", "@target-uri"]],
            age_max: span("age_max"),
            has_expiry: true,
            has_nonce: section.and_then(|view| view.bool("nonce")).unwrap_or(true),
            skew: span("skew"),
        },
        agent,
        client,
        robots,
        networks,
        asks_names: dns.is_some_and(|view| !view.strings("resolvers").is_empty()),
    })
}

/// Returns the addresses of a network, by its bits; further bits of the address mean nothing.
fn range((address, bits): (IpAddr, u8)) -> Network {
    match address {
        IpAddr::V4(address) => {
            let hosts = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
            Network::V4(address.to_bits() & !hosts, address.to_bits() | hosts)
        }
        IpAddr::V6(address) => {
            let hosts = u128::MAX.checked_shr(bits.into()).unwrap_or(0);
            Network::V6(address.to_bits() & !hosts, address.to_bits() | hosts)
        }
    }
}

/// Adds the columns of applications, where the main file has any; `None` where it has none, or the pipeline reads messages.
pub(crate) fn application_columns(
    main: &Document,
    input: PipelineInput,
    builder: &mut SchemaBuilder,
    problems: &mut ConfigProblems,
) -> Option<ApplicationColumns> {
    let applications = main.list("application");
    let origin = applications.first()?.first_origin();
    if input == PipelineInput::Message {
        return None;
    }
    let columns = ApplicationColumns::register(builder);
    columns.map_err(|error| problems.add(origin, format!("the facts of applications: {error}"), None)).ok()
}

/// The facts of who is asking.
pub(crate) fn visitor_facts() -> event::Schema {
    let mut builder = SchemaBuilder::default();
    let mut register = || -> Result<(), event::ColumnError> {
        RobotColumns::register(&mut builder)?;
        ApplicationColumns::register(&mut builder)?;
        Ok(())
    };
    register().unwrap_or_else(|error| unreachable!("columns of who is asking: {error}"));
    builder.finish()
}

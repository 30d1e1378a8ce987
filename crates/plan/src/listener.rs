//! Listeners of mail servers, of clients of Redis, of Envoy and of senders of batches: where they listen, who may ask, and what they do on failures.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use event::Span;
use judge::{Action, Network, Networks};

use crate::config::{ConfigProblems, ConfigView, Document, Endpoint, expected, file_mode};
use crate::limit::LimitPlan;
use crate::pipeline::PipelineInput;
use crate::pipeline::draft::PipelineDraft;
use crate::tls::TlsPlan;

/// A listener of a protocol by which mail servers, clients of Redis, Envoy or senders of batches ask: what all have, and the
/// settings of its protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerPlan<S = ProtocolPlan> {
    /// Its name in the log and in metrics.
    pub name: String,
    /// The address to listen on.
    pub listen: Endpoint,
    /// Permissions of a unix socket.
    pub mode: u32,
    /// Hosts that may ask over TCP; where there are none, all that reach a loopback address may.
    pub clients: Networks,
    /// Time for one decision; streams of batches have none.
    pub timeout: Span,
    /// Time after which a silent connection is closed.
    pub idle: Span,
    /// Open connections.
    pub connections_max: usize,
    /// Open connections of one address.
    pub client_connections_max: usize,
    /// TLS, where the protocol has it.
    pub tls: Option<TlsPlan>,
    /// Settings of its protocol.
    pub settings: S,
}

impl<S> ListenerPlan<S> {
    /// Returns this listener with other settings of a protocol.
    pub fn with<T>(&self, settings: T) -> ListenerPlan<T> {
        ListenerPlan {
            name: self.name.clone(),
            listen: self.listen.clone(),
            mode: self.mode,
            clients: self.clients.clone(),
            timeout: self.timeout,
            idle: self.idle,
            connections_max: self.connections_max,
            client_connections_max: self.client_connections_max,
            tls: self.tls.clone(),
            settings,
        }
    }
}

/// A protocol with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum ProtocolPlan {
    /// Sendmail's mail filter protocol, which Postfix speaks, too.
    Milter(MilterPlan),
    /// Postfix's policy delegation.
    Policy(PolicyPlan),
    /// The HTTP interface of Rspamd.
    Rspamd(MailPlan),
    /// The protocol of SpamAssassin's `spamc`.
    Spamc(MailPlan),
    /// The protocol of Redis and its clients (RESP2 and RESP3).
    Resp(RespPlan),
    /// Envoy's rate limit service (gRPC), which has no settings of its own.
    Envoy,
    /// Streams of batches (gRPC).
    Grpc(BatchStreamPlan),
    /// Health and metrics over HTTP, and nothing else.
    Monitoring,
    /// Lines of a source.
    Syslog,
}

impl ProtocolPlan {
    /// Returns the protocol.
    pub fn protocol(&self) -> Protocol {
        match self {
            ProtocolPlan::Milter(_) => Protocol::Milter,
            ProtocolPlan::Policy(_) => Protocol::Policy,
            ProtocolPlan::Rspamd(_) => Protocol::Rspamd,
            ProtocolPlan::Spamc(_) => Protocol::Spamc,
            ProtocolPlan::Resp(_) => Protocol::Resp,
            ProtocolPlan::Envoy => Protocol::Envoy,
            ProtocolPlan::Grpc(_) => Protocol::Grpc,
            ProtocolPlan::Monitoring => Protocol::Monitoring,
            ProtocolPlan::Syslog => Protocol::Syslog,
        }
    }

    /// Returns the name of the pipeline that decides; Envoy's limits and monitoring need none.
    pub fn pipeline(&self) -> Option<&str> {
        match self {
            ProtocolPlan::Resp(resp) => Some(&resp.pipeline),
            ProtocolPlan::Grpc(grpc) => Some(&grpc.pipeline),
            mail => mail.mail().map(|mail| mail.pipeline.as_str()),
        }
    }

    /// Returns the settings of a protocol of mail servers.
    pub fn mail(&self) -> Option<&MailPlan> {
        match self {
            ProtocolPlan::Milter(MilterPlan { mail, .. })
            | ProtocolPlan::Policy(PolicyPlan { mail, .. })
            | ProtocolPlan::Rspamd(mail)
            | ProtocolPlan::Spamc(mail) => Some(mail),
            ProtocolPlan::Resp(_)
            | ProtocolPlan::Envoy
            | ProtocolPlan::Grpc(_)
            | ProtocolPlan::Monitoring
            | ProtocolPlan::Syslog => None,
        }
    }
}

/// Settings of a milter.
#[derive(Clone, Debug, PartialEq)]
pub struct MilterPlan {
    /// The settings that it shares with other protocols of mail servers.
    pub mail: MailPlan,
    /// True if envelopes are judged before their messages come.
    pub envelope_first: bool,
}

/// Settings of policy delegation.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyPlan {
    /// The settings that it shares with other protocols of mail servers.
    pub mail: MailPlan,
    /// The messages that are counted by their envelopes.
    pub counting: CountedEnvelopes,
}

/// Messages that are counted by their envelopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedEnvelopes {
    /// All messages: none is counted again when it comes.
    All,
    /// Messages that are refused: what passes is counted when it comes.
    Refused,
}

/// Settings that protocols of mail servers share.
#[derive(Clone, Debug, PartialEq)]
pub struct MailPlan {
    /// Name of the pipeline that decides; its input is [`PipelineInput::Message`].
    pub pipeline: String,
    /// Names of limits that envelopes take from.
    pub limits: Vec<String>,
    /// The handling of a message that could not be decided on.
    pub on_error: MailFailureMode,
    /// True if whoever may connect may also say what messages are, without a token.
    pub learn: bool,
    /// True if messages are given the signed id of their decision.
    pub writes_signed_id: bool,
    /// Bytes of a message that are kept.
    pub body_max: u64,
    /// True if a longer message is judged by its first part; else it is as if it could not be decided on.
    pub judges_first_part: bool,
    /// The part of a decision that mail servers are given.
    pub acting: MailEnforcement,
    /// The replies that mail servers are given for each action.
    pub replies: Replies,
    /// The mailbox that [`MailReply::Redirect`] delivers to.
    pub quarantine_to: Option<String>,
    /// The tag before the subject of messages that are delivered as spam.
    pub subject_tag: Option<String>,
    /// Text of a refusal, with `{id}` for the decision's id.
    pub reject_text: String,
    /// Text that asks to come again.
    pub defer_text: String,
}

/// Settings of a listener of Redis' clients.
#[derive(Clone, Debug, PartialEq)]
pub struct RespPlan {
    /// Name of the pipeline that decides.
    pub pipeline: String,
    /// The name that clients have to say with the password.
    pub user: String,
    /// The password that clients have to give first; without one nothing.
    pub password: Option<String>,
    /// True if whoever may connect may also say what events are, without the password.
    pub learn: bool,
    /// Bytes of a command.
    pub body_max: u64,
}

/// Settings of a listener of streams of batches.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchStreamPlan {
    /// Name of the pipeline that decides where a batch names none.
    pub pipeline: String,
}

/// The part of a decision that mail servers are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailEnforcement {
    /// All of it.
    Enforce,
    /// The part that header fields can carry; every message passes.
    Tag,
    /// Nothing: every message passes as it is.
    Nothing,
}

/// The handling of a message that a mail server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailReply {
    /// Deliver it; header fields say what was found.
    Pass,
    /// Deliver it; header fields call it spam.
    Tag,
    /// Hold it until somebody looks at it.
    Quarantine,
    /// Deliver it to the quarantine's mailbox instead.
    Redirect,
    /// Refuse it.
    Reject,
    /// Refuse it for now.
    Defer,
    /// Take it and deliver it to nobody.
    Discard,
}

impl MailReply {
    /// All replies, each with the word of configurations for it.
    const WORDS: [(MailReply, &str); 7] = [
        (MailReply::Pass, "pass"),
        (MailReply::Tag, "tag"),
        (MailReply::Quarantine, "quarantine"),
        (MailReply::Redirect, "redirect"),
        (MailReply::Reject, "reject"),
        (MailReply::Defer, "defer"),
        (MailReply::Discard, "discard"),
    ];

    /// Returns the name of the reply in configurations.
    pub fn name(self) -> &'static str {
        MailReply::WORDS.iter().find(|(reply, _)| *reply == self).map_or("", |(_, word)| word)
    }
}

/// The reply to each action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replies([MailReply; Action::ALL.len()]);

impl Default for Replies {
    fn default() -> Replies {
        Replies(Action::ALL.map(|action| match action {
            Action::Accept => MailReply::Pass,
            Action::Tag | Action::ReviewAfter | Action::Challenge => MailReply::Tag,
            Action::Quarantine | Action::ReviewBefore => MailReply::Quarantine,
            Action::Reject => MailReply::Reject,
            Action::Throttle => MailReply::Defer,
            Action::Shadow => MailReply::Discard,
        }))
    }
}

impl Replies {
    /// The reply to an action.
    pub fn of(&self, action: Action) -> MailReply {
        Action::ALL
            .iter()
            .zip(self.0)
            .find(|(known, _)| **known == action)
            .map_or(MailReply::Pass, |(_, reply)| reply)
    }
}

/// The protocol that is spoken on a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Sendmail's mail filter protocol, which Postfix speaks, too.
    Milter,
    /// Postfix's policy delegation.
    Policy,
    /// The HTTP interface of Rspamd.
    Rspamd,
    /// The protocol that SpamAssassin's `spamc` speaks.
    Spamc,
    /// The protocol that Redis and its clients speak (RESP2 and RESP3).
    Resp,
    /// Envoy's rate limit service (gRPC).
    Envoy,
    /// Streams of batches (gRPC).
    Grpc,
    /// Health and metrics over HTTP.
    Monitoring,
    /// Lines of a source (RFC 6587), which is no protocol of listeners.
    Syslog,
}

impl Protocol {
    /// All protocols of listeners.
    pub const ALL: [Protocol; 8] = [
        Protocol::Milter,
        Protocol::Policy,
        Protocol::Rspamd,
        Protocol::Spamc,
        Protocol::Resp,
        Protocol::Envoy,
        Protocol::Grpc,
        Protocol::Monitoring,
    ];

    /// Returns the name of the protocol in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Milter => "milter",
            Protocol::Policy => "policy",
            Protocol::Rspamd => "rspamd",
            Protocol::Spamc => "spamc",
            Protocol::Resp => "resp",
            Protocol::Envoy => "envoy",
            Protocol::Grpc => "grpc",
            Protocol::Monitoring => "monitoring",
            Protocol::Syslog => "syslog",
        }
    }

    /// Returns true if the protocol is about messages, so that its pipeline has to read them.
    pub fn is_mail(self) -> bool {
        match self {
            Protocol::Milter | Protocol::Policy | Protocol::Rspamd | Protocol::Spamc => true,
            Protocol::Resp | Protocol::Envoy | Protocol::Grpc | Protocol::Monitoring | Protocol::Syslog => {
                false
            }
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The handling of a message that could not be decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailFailureMode {
    /// The message passes.
    Open,
    /// Its client is asked to come again.
    Closed,
}

/// The fields that an envelope shows to limits. Recipients come one by one.
const ENVELOPE_FIELDS: [&str; 5] =
    ["client.ip", "client.helo", "client.user", "mail.sender", "mail.recipients"];

/// The listeners of the main file, whose pipelines are among these.
pub(super) fn compile(
    document: &Document,
    drafts: &[PipelineDraft<'_>],
    limits: &[Arc<LimitPlan>],
    problems: &mut ConfigProblems,
) -> Vec<ListenerPlan> {
    let mut listeners = Vec::new();
    let (mut names, mut endpoints) = (HashSet::new(), HashSet::new());
    for view in document.list("listener") {
        // What is absent here failed its check, and its listener is never used.
        let Some((name, listen)) = view.str("name").zip(view.str("listen")) else { continue };
        if !names.insert(name) {
            problems.add(view.origin("name"), format!("listener `{name}` is defined twice"), None);
        }
        let Ok(endpoint) = listen.parse::<Endpoint>() else { continue };
        let free_port = matches!(endpoint, Endpoint::Tcp(address) if address.port() == 0);
        if !endpoints.insert(endpoint.clone()) && !free_port {
            problems.add(view.origin("listen"), format!("two listeners have {endpoint}"), None);
        }
        let clients = view.strings("clients").into_iter();
        let clients = Networks::new(clients.filter_map(|(network, _)| network.parse::<Network>().ok()));
        if let Endpoint::Tcp(address) = endpoint
            && !address.ip().is_loopback()
            && clients.is_empty()
        {
            let message = format!("{address} can be reached from outside and anybody may ask there");
            let help = "add clients = [\"...\"] with the networks of those who may ask, or listen on a loopback address";
            problems.add(view.origin("listen"), message, Some(help.to_owned()));
        }
        check_texts(&view, problems);
        let about = Protocol::ALL.into_iter().find(|known| view.str("protocol") == Some(known.name()));
        let Some(about) = about else { continue };
        let Some(pipeline) = pipeline(&view, about, drafts, problems) else { continue };
        let limits = super::forward_auth::named(&view, limits, &ENVELOPE_FIELDS, "an envelope", problems);
        let Some(settings) = settings(&view, about, pipeline, limits) else { continue };
        let tls = TlsPlan::compile(&view, problems);
        listeners.extend(plan(&view, name, endpoint, clients, tls, settings));
    }
    listeners
}

/// The settings of a protocol; `None` where one is absent, which failed its check.
fn settings(
    view: &ConfigView<'_>,
    protocol: Protocol,
    pipeline: String,
    limits: Vec<String>,
) -> Option<ProtocolPlan> {
    let mail = |pipeline| {
        Some(MailPlan {
            pipeline,
            limits,
            on_error: if view.str("on_error")? == "closed" {
                MailFailureMode::Closed
            } else {
                MailFailureMode::Open
            },
            learn: view.bool("learn")?,
            writes_signed_id: view.bool("signed_id")?,
            body_max: view.size("body_max")?,
            judges_first_part: view.str("oversize")? == "judge",
            acting: match view.str("act")? {
                "enforce" => MailEnforcement::Enforce,
                "tag" => MailEnforcement::Tag,
                _ => MailEnforcement::Nothing,
            },
            replies: replies(view),
            quarantine_to: view.str("quarantine_to").map(str::to_owned),
            subject_tag: view
                .str("subject_tag")
                .map(|tag| tag.trim().to_owned())
                .filter(|tag| !tag.is_empty()),
            reject_text: view.str("reject_text")?.to_owned(),
            defer_text: view.str("defer_text")?.to_owned(),
        })
    };
    Some(match protocol {
        Protocol::Milter => ProtocolPlan::Milter(MilterPlan {
            mail: mail(pipeline)?,
            envelope_first: view.bool("envelope_first")?,
        }),
        Protocol::Policy => {
            let counts_all = view.str("counts")? == "always";
            let counting = if counts_all { CountedEnvelopes::All } else { CountedEnvelopes::Refused };
            ProtocolPlan::Policy(PolicyPlan { mail: mail(pipeline)?, counting })
        }
        Protocol::Rspamd => ProtocolPlan::Rspamd(mail(pipeline)?),
        Protocol::Spamc => ProtocolPlan::Spamc(mail(pipeline)?),
        Protocol::Resp => ProtocolPlan::Resp(RespPlan {
            pipeline,
            user: view.str("user")?.to_owned(),
            password: view.str("password").map(str::to_owned),
            learn: view.bool("learn")?,
            body_max: view.size("body_max")?,
        }),
        Protocol::Envoy => ProtocolPlan::Envoy,
        Protocol::Grpc => ProtocolPlan::Grpc(BatchStreamPlan { pipeline }),
        Protocol::Monitoring => ProtocolPlan::Monitoring,
        Protocol::Syslog => return None,
    })
}

fn plan(
    view: &ConfigView<'_>,
    name: &str,
    listen: Endpoint,
    clients: Networks,
    tls: Option<TlsPlan>,
    settings: ProtocolPlan,
) -> Option<ListenerPlan> {
    let count = |key: &str| usize::try_from(view.integer(key)?).ok();
    Some(ListenerPlan {
        name: name.to_owned(),
        listen,
        mode: file_mode(view.str("mode")?)?,
        clients,
        timeout: view.span("timeout")?,
        idle: view.span("idle")?,
        connections_max: count("connections_max")?,
        client_connections_max: count("client_connections_max")?,
        tls,
        settings,
    })
}

fn replies(view: &ConfigView<'_>) -> Replies {
    let mut replies = Replies::default();
    let Some(given) = view.table("replies") else { return replies };
    for (action, reply) in Action::ALL.iter().zip(&mut replies.0) {
        let word = given.str(action.name());
        let known = MailReply::WORDS.iter().find(|(_, known)| Some(*known) == word);
        *reply = known.map_or(*reply, |(known, _)| *known);
    }
    replies
}

/// Longest text that goes into an SMTP reply; lines have at most 512 bytes.
const TEXT_BYTES_MAX: usize = 200;

/// Longest tag before a subject.
const TAG_CHARS_MAX: usize = 40;

/// Checks that what goes into replies and envelopes is fit for them.
fn check_texts(view: &ConfigView<'_>, problems: &mut ConfigProblems) {
    for (key, class) in [("reject_text", "5."), ("defer_text", "4.")] {
        let Some(text) = view.str(key) else { continue };
        // Sendmail takes a per cent sign for the start of a placeholder.
        let plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'%');
        let status = text.split(' ').next().unwrap_or_default();
        let is_status = status.split('.').count() == 3
            && status.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if !plain || text.len() > TEXT_BYTES_MAX || !is_status || !status.starts_with(class) {
            let help = format!(
                "expected a status such as {class}7.1 and a text of printable ASCII without `%`, at most {TEXT_BYTES_MAX} bytes"
            );
            problems.add(view.origin(key), format!("`{key}` does not fit into a reply"), Some(help));
        }
    }
    if let Some(tag) = view.str("subject_tag")
        && (tag.chars().count() > TAG_CHARS_MAX || tag.chars().any(char::is_control))
    {
        let help = format!("expected one line of at most {TAG_CHARS_MAX} characters, such as \"[SPAM]\"");
        problems.add(
            view.origin("subject_tag"),
            "`subject_tag` does not fit into a subject".to_owned(),
            Some(help),
        );
    }
    if let Some(mailbox) = view.str("quarantine_to") {
        let plain = mailbox.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>,;\"".contains(&byte));
        if !plain || mailbox.len() > TEXT_BYTES_MAX || !mailbox.contains('@') {
            let help = "expected an address such as \"quarantine@example.org\"".to_owned();
            problems.add(
                view.origin("quarantine_to"),
                "`quarantine_to` is no address".to_owned(),
                Some(help),
            );
        }
    } else if let Some(given) = view.table("replies") {
        let to_mailbox = Action::ALL.iter().find(|action| given.str(action.name()) == Some("redirect"));
        if let Some(action) = to_mailbox {
            let help = "add quarantine_to = \"...\" with the quarantine's mailbox".to_owned();
            problems.add(given.origin(action.name()), "`redirect` has no address".to_owned(), Some(help));
        }
    }
}

/// The pipeline that a listener names, or the first that its protocol can ask: for mail one that reads messages.
fn pipeline(
    view: &ConfigView<'_>,
    protocol: Protocol,
    drafts: &[PipelineDraft<'_>],
    problems: &mut ConfigProblems,
) -> Option<String> {
    let fits =
        |draft: &&PipelineDraft<'_>| !protocol.is_mail() || draft.pipeline.input == PipelineInput::Message;
    let mut fitting = drafts.iter().filter(fits).map(|draft| draft.pipeline.name.as_str());
    let that_fits = if protocol.is_mail() { "pipeline that reads messages" } else { "pipeline" };
    match view.str("pipeline") {
        Some(name) if fitting.clone().any(|fitting| fitting == name) => Some(name.to_owned()),
        Some(name) => {
            let message = format!("no {that_fits} is called `{name}`");
            problems.add(view.origin("pipeline"), message, Some(expected(name, fitting)));
            None
        }
        None => fitting.next().map(str::to_owned).or_else(|| {
            let help = "add one, such as the preset `mail`, to `pipelines` of [node]".to_owned();
            problems.add(view.origin(""), "no pipeline reads messages".to_owned(), Some(help));
            None
        }),
    }
}

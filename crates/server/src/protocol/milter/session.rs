//! Commands of a mail server: the state of a conversation, apart from its socket.
//!
//! Nothing is decided before the message's end, unless envelopes are asked about. All other replies before it are "go on", so they
//! are left out where the mail server can do without: a message then costs one round trip.

use std::net::IpAddr;

use content::mail::message::{Envelope, RECIPIENTS_MAX};
use content::text::received;

use super::codec::{MilterCommand, MilterReply, NulStringIter, address_of, steps};
use crate::protocol::mail::answer::OWN_FIELDS;
use crate::protocol::mail::subject::SUBJECT_BYTES_MAX;

/// The versions that are spoken.
const VERSIONS: std::ops::RangeInclusive<u32> = 2..=6;
/// The steps that save replies, and tell how header fields were written.
const STEPS: u32 = steps::NO_REPLY_HEADER
    | steps::SKIP
    | steps::NO_REPLY_CONNECT
    | steps::NO_REPLY_HELO
    | steps::NO_REPLY_MAIL
    | steps::NO_REPLY_RCPT
    | steps::NO_REPLY_DATA
    | steps::NO_REPLY_UNKNOWN
    | steps::NO_REPLY_END_OF_HEADER
    | steps::NO_REPLY_BODY
    | steps::LEADING_BLANKS;
/// Longest text of an envelope that is kept; RFC 5321 allows paths of 256 bytes.
const TEXT_BYTES_MAX: usize = 1024;
/// Most fields of one of our names that are counted, and taken away.
const FORGED_MAX: u32 = 1000;

/// A command that does not belong where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MilterProtocolError {
    /// A version that nobody speaks any more.
    #[error("version {0} of the protocol")]
    Version(u32),
    /// A command before it was agreed what is spoken, or that agreement in the middle of something.
    #[error("a command out of order")]
    Order,
}

/// The step that a command asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MilterStep {
    /// The session gives no answer.
    Silent,
    /// The session gives this answer.
    Reply(MilterReply<'static>),
    /// More of the envelope is known, and a reply is waited for: see [`MilterSession::envelope`].
    Envelope(EnvelopeProgress),
    /// The message is whole: [`MilterSession::finish`] has what is known of it.
    Decide,
    /// The conversation is over.
    End,
}

/// The part of an envelope that is known since the last command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvelopeProgress {
    /// Client and sender.
    Sender,
    /// One more recipient, the last.
    Recipient,
    /// All of it: the message comes next.
    Whole,
}

/// The parts of envelopes on which replies hang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitedEnvelope {
    /// The sender, and each recipient.
    pub parts: bool,
    /// The whole of it.
    pub whole: bool,
}

/// The options that were agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiatedOptions {
    /// Version of the protocol.
    pub version: u32,
    /// The actions that may be taken on messages, bits of [`super::codec::actions`].
    pub actions: u32,
    /// Bits of [`steps`].
    pub steps: u32,
}

impl NegotiatedOptions {
    /// Returns whether all of these actions may be taken.
    pub fn may(&self, actions: u32) -> bool {
        self.actions & actions == actions
    }

    fn has(&self, step: u32) -> bool {
        self.steps & step != 0
    }

    /// "Go on", if that has to be said.
    fn go_on(&self, unless: u32) -> MilterStep {
        if self.has(unless) { MilterStep::Silent } else { MilterStep::Reply(MilterReply::Continue) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MilterStage {
    /// Between two messages.
    Between,
    Envelope,
    Header,
    Body,
}

/// The client of the SMTP connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SmtpClient {
    ip: Option<IpAddr>,
    helo: Option<String>,
    /// The name of the mail server's listener, and the mail server's own.
    daemon: Option<String>,
    host: Option<String>,
}

/// A message's way to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct MailTransaction {
    sender: Option<String>,
    recipients: Vec<String>,
    user: Option<String>,
    queue_id: Option<String>,
    forged: [u32; OWN_FIELDS.len()],
    subject: Option<Vec<u8>>,
}

/// The facts that are known of a message beside its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageContext {
    /// The envelope.
    pub envelope: Envelope,
    /// The mail server's name for the message.
    pub queue_id: Option<String>,
    /// The name of the mail server's listener.
    pub daemon: Option<String>,
    /// The mail server's name.
    pub host: Option<String>,
    /// The number of fields that it has of each of the names that we write.
    pub forged: [u32; OWN_FIELDS.len()],
    /// The value of its first `Subject`, or the start of it.
    pub subject: Option<Vec<u8>>,
}

/// A conversation.
#[derive(Debug)]
pub struct MilterSession {
    /// The actions that are wanted on messages.
    wanted: u32,
    waits: WaitedEnvelope,
    agreed: Option<NegotiatedOptions>,
    stage: MilterStage,
    client: SmtpClient,
    /// From macros that come before their MAIL.
    next: MailTransaction,
    message: MailTransaction,
}

impl MilterSession {
    /// A conversation in which these [`super::codec::actions`] are wanted, and in which replies hang on such parts of envelopes.
    pub fn new(wanted: u32, waits: WaitedEnvelope) -> MilterSession {
        MilterSession {
            wanted,
            waits,
            agreed: None,
            stage: MilterStage::Between,
            client: SmtpClient::default(),
            next: MailTransaction::default(),
            message: MailTransaction::default(),
        }
    }

    /// Returns what was agreed on.
    pub fn agreed(&self) -> Option<NegotiatedOptions> {
        self.agreed
    }

    /// Returns whether no message is under way.
    pub fn is_between(&self) -> bool {
        self.stage == MilterStage::Between
    }

    /// Takes in a command. The message's bytes go to `keep`, which says whether it wants more of them.
    ///
    /// # Errors
    /// If the command does not belong there. The conversation is over then.
    pub fn handle(
        &mut self,
        command: &MilterCommand<'_>,
        keep: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<MilterStep, MilterProtocolError> {
        let agreed = match (command, self.agreed) {
            (MilterCommand::OptNeg { version, actions, steps }, None) => {
                return self.agree(*version, *actions, *steps);
            }
            (MilterCommand::Quit, _) => return Ok(MilterStep::End),
            (MilterCommand::OptNeg { .. }, Some(_)) | (_, None) => return Err(MilterProtocolError::Order),
            (_, Some(agreed)) => agreed,
        };
        Ok(match command {
            MilterCommand::OptNeg { .. } | MilterCommand::Quit => MilterStep::End,
            MilterCommand::Macros { of, pairs } => {
                self.macros(*of, *pairs);
                MilterStep::Silent
            }
            MilterCommand::Connect { ip, .. } => {
                self.reset();
                self.client.ip = ip.or(self.client.ip);
                agreed.go_on(steps::NO_REPLY_CONNECT)
            }
            MilterCommand::Helo(name) => {
                self.client.helo = Some(text(name));
                agreed.go_on(steps::NO_REPLY_HELO)
            }
            MilterCommand::Mail(arguments) => {
                self.reset();
                self.message = std::mem::take(&mut self.next);
                self.message.sender = arguments.clone().next().map(text);
                self.stage = MilterStage::Envelope;
                if self.waits.parts {
                    return Ok(MilterStep::Envelope(EnvelopeProgress::Sender));
                }
                agreed.go_on(steps::NO_REPLY_MAIL)
            }
            MilterCommand::Rcpt(arguments) => {
                self.within(MilterStage::Envelope, MilterStage::Envelope)?;
                if self.message.recipients.len() < RECIPIENTS_MAX {
                    self.message.recipients.extend(arguments.clone().next().map(text));
                    if self.waits.parts {
                        return Ok(MilterStep::Envelope(EnvelopeProgress::Recipient));
                    }
                }
                agreed.go_on(steps::NO_REPLY_RCPT)
            }
            MilterCommand::Data if self.waits.whole && self.stage == MilterStage::Envelope => {
                MilterStep::Envelope(EnvelopeProgress::Whole)
            }
            MilterCommand::Data => agreed.go_on(steps::NO_REPLY_DATA),
            MilterCommand::Header { name, value } => {
                self.within(MilterStage::Envelope, MilterStage::Header)?;
                self.stage = MilterStage::Header;
                for (own, count) in OWN_FIELDS.iter().zip(&mut self.message.forged) {
                    if name.eq_ignore_ascii_case(own.as_bytes()) {
                        *count = (*count + 1).min(FORGED_MAX);
                    }
                }
                if self.message.subject.is_none() && name.eq_ignore_ascii_case(b"Subject") {
                    self.message.subject = Some(value[..value.len().min(SUBJECT_BYTES_MAX + 1)].to_vec());
                }
                keep_field(name, value, agreed.has(steps::LEADING_BLANKS), keep);
                agreed.go_on(steps::NO_REPLY_HEADER)
            }
            MilterCommand::EndOfHeader => agreed.go_on(steps::NO_REPLY_END_OF_HEADER),
            MilterCommand::Body(bytes) => {
                self.begin_body(keep)?;
                let wants_more = keep(bytes);
                match agreed.go_on(steps::NO_REPLY_BODY) {
                    MilterStep::Reply(_) if !wants_more && agreed.has(steps::SKIP) => {
                        MilterStep::Reply(MilterReply::Skip)
                    }
                    step => step,
                }
            }
            MilterCommand::EndOfMessage(bytes) => {
                self.begin_body(keep)?;
                keep(bytes);
                self.stage = MilterStage::Between;
                MilterStep::Decide
            }
            MilterCommand::Abort => {
                self.reset();
                MilterStep::Silent
            }
            MilterCommand::QuitNewConnection => {
                self.reset();
                self.client = SmtpClient::default();
                MilterStep::Silent
            }
            MilterCommand::UnknownCommand(_) => agreed.go_on(steps::NO_REPLY_UNKNOWN),
        })
    }

    /// Returns the mail server's name for the message, if it has told it.
    pub fn queue_id(&self) -> Option<&str> {
        self.message.queue_id.as_deref()
    }

    /// Returns what is known of the envelope so far.
    pub fn envelope(&self) -> Envelope {
        let MailTransaction { sender, recipients, user, .. } = self.message.clone();
        let SmtpClient { ip, helo, .. } = self.client.clone();
        Envelope { client_ip: ip, helo, sender, recipients, user }
    }

    /// The mail server was told not to take what was known last.
    pub fn refuse(&mut self, known: EnvelopeProgress) {
        match known {
            EnvelopeProgress::Sender | EnvelopeProgress::Whole => self.reset(),
            EnvelopeProgress::Recipient => drop(self.message.recipients.pop()),
        }
    }

    /// Returns what is known of the message whose end has come.
    pub fn finish(&mut self) -> MessageContext {
        let MailTransaction { sender, recipients, user, queue_id, forged, subject } =
            std::mem::take(&mut self.message);
        let SmtpClient { ip, helo, daemon, host } = self.client.clone();
        let envelope = Envelope { client_ip: ip, helo, sender, recipients, user };
        MessageContext { envelope, queue_id, daemon, host, forged, subject }
    }

    fn agree(&mut self, version: u32, actions: u32, steps: u32) -> Result<MilterStep, MilterProtocolError> {
        if version < *VERSIONS.start() {
            return Err(MilterProtocolError::Version(version));
        }
        let version = version.min(*VERSIONS.end());
        let parts = if self.waits.parts { steps::NO_REPLY_MAIL | steps::NO_REPLY_RCPT } else { 0 };
        let whole = if self.waits.whole { steps::NO_REPLY_DATA } else { 0 };
        let agreed = NegotiatedOptions {
            version,
            actions: actions & self.wanted,
            steps: steps & STEPS & !(parts | whole),
        };
        self.agreed = Some(agreed);
        let NegotiatedOptions { version, actions, steps } = agreed;
        Ok(MilterStep::Reply(MilterReply::OptNeg { version, actions, steps }))
    }

    /// Drops the current transaction.
    fn reset(&mut self) {
        self.message = MailTransaction::default();
        self.stage = MilterStage::Between;
    }

    fn within(&self, first: MilterStage, last: MilterStage) -> Result<(), MilterProtocolError> {
        if (first..=last).contains(&self.stage) { Ok(()) } else { Err(MilterProtocolError::Order) }
    }

    /// The empty line between header and body, before the first of the body.
    fn begin_body(&mut self, keep: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), MilterProtocolError> {
        self.within(MilterStage::Envelope, MilterStage::Body)?;
        if self.stage != MilterStage::Body {
            keep(b"\r\n");
            self.stage = MilterStage::Body;
        }
        Ok(())
    }

    fn macros(&mut self, of: u8, mut pairs: NulStringIter<'_>) {
        if of == b'M' {
            self.next = MailTransaction::default();
        }
        while let Some((name, value)) = pairs.next().zip(pairs.next()) {
            let message = if of == b'M' { &mut self.next } else { &mut self.message };
            match name {
                b"i" => message.queue_id = Some(text(value)),
                b"{auth_authen}" => message.user = Some(text(value)),
                b"{client_addr}" => self.client.ip = self.client.ip.or_else(|| address_of(value)),
                b"{daemon_name}" => self.client.daemon = Some(text(value)),
                b"j" => self.client.host = Some(text(value)),
                _ => {}
            }
        }
    }
}

/// A text of a mail server, short enough to be kept.
fn text(bytes: &[u8]) -> String {
    received(&bytes[..bytes.len().min(TEXT_BYTES_MAX)]).into_owned()
}

/// A header field as it was sent by SMTP: lines end with CR and LF, and no line of it could be taken for another field
/// or for the end of the header.
fn keep_field(name: &[u8], value: &[u8], has_blanks: bool, keep: &mut dyn FnMut(&[u8]) -> bool) {
    for part in name.split(|byte| matches!(byte, b'\r' | b'\n')) {
        keep(part);
    }
    keep(if has_blanks { b":" } else { b": " });
    for (line, index) in value.split(|byte| *byte == b'\n').zip(0..) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if index > 0 {
            let is_folded = matches!(line.first(), Some(b' ' | b'\t'));
            keep(if is_folded { b"\r\n" } else { b"\r\n\t" });
        }
        keep(line);
    }
    keep(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::super::codec::{MilterDecoder, actions};
    use super::*;

    const ALL: u32 = u32::MAX;

    fn frame(byte: u8, data: &[u8]) -> Vec<u8> {
        let mut frame = u32::try_from(data.len() + 1).unwrap().to_be_bytes().to_vec();
        frame.push(byte);
        frame.extend_from_slice(data);
        frame
    }

    fn opening(version: u32, actions: u32, steps: u32) -> Vec<u8> {
        let words = [version, actions, steps].map(u32::to_be_bytes).concat();
        frame(b'O', &words)
    }

    /// Returns what comes of these frames: the steps, and the message's bytes.
    fn played(
        session: &mut MilterSession,
        frames: &[Vec<u8>],
    ) -> (Vec<Result<MilterStep, MilterProtocolError>>, String) {
        let mut decoder = MilterDecoder::default();
        decoder.feed(&frames.concat());
        let (mut steps, mut kept) = (Vec::new(), Vec::new());
        while let Some(command) = decoder.next_command().unwrap() {
            let step = session.handle(&command, &mut |bytes| {
                kept.extend_from_slice(bytes);
                kept.len() < 40
            });
            steps.push(step);
        }
        (steps, String::from_utf8(kept).unwrap())
    }

    #[track_caller]
    fn check_agreed(theirs: (u32, u32, u32), ours: (u32, u32, u32)) {
        let mut session =
            MilterSession::new(actions::ADD_FIELDS | actions::QUARANTINE, WaitedEnvelope::default());
        let (steps, _) = played(&mut session, &[opening(theirs.0, theirs.1, theirs.2)]);
        let (version, actions, wanted) = ours;
        assert_eq!(
            steps,
            [Ok(MilterStep::Reply(MilterReply::OptNeg { version, actions, steps: wanted }))],
            "{theirs:?}"
        );
    }

    #[test]
    fn only_what_is_offered_and_needed_is_agreed_on() {
        check_agreed((6, 0x1ff, 0x1f_ffff), (6, 0x21, STEPS));
        check_agreed((7, 0x01, 0x80), (6, 0x01, 0x80));
        check_agreed((2, 0x3f, 0x7f), (2, 0x21, 0));
        check_agreed((4, 0, 0), (4, 0, 0));
        let (steps, _) =
            played(&mut MilterSession::new(ALL, WaitedEnvelope::default()), &[opening(1, 0x0f, 0x3f)]);
        assert_eq!(steps, [Err(MilterProtocolError::Version(1))]);
    }

    #[test]
    fn commands_out_of_order_are_refused() {
        let check = |frames: &[Vec<u8>]| {
            let (steps, _) = played(&mut MilterSession::new(ALL, WaitedEnvelope::default()), frames);
            assert_eq!(steps.last(), Some(&Err(MilterProtocolError::Order)), "{frames:?}");
        };
        let open = opening(6, ALL, ALL);
        let mail = frame(b'M', b"<a@example.org>\0");
        check(std::slice::from_ref(&mail));
        check(&[open.clone(), open.clone()]);
        check(&[open.clone(), frame(b'R', b"<b@example.org>\0")]);
        check(&[open.clone(), frame(b'E', b"")]);
        check(&[open.clone(), frame(b'L', b"A\0b\0")]);
        check(&[open.clone(), mail.clone(), frame(b'B', b"text"), frame(b'L', b"A\0b\0")]);
        check(&[open, mail, frame(b'E', b""), frame(b'B', b"text")]);
    }

    fn message(session: &mut MilterSession, frames: &[Vec<u8>]) -> (String, MessageContext) {
        let (steps, kept) = played(session, frames);
        assert_eq!(steps.last(), Some(&Ok(MilterStep::Decide)));
        (kept, session.finish())
    }

    #[test]
    fn a_message_is_put_together_as_it_was_sent() {
        let fields = |values: [&[u8]; 3]| {
            let field = |(name, value): (&[u8], &[u8])| frame(b'L', &[name, b"\0", value, b"\0"].concat());
            [&b"From"[..], b"Subject", b"DKIM-Signature"]
                .into_iter()
                .zip(values)
                .map(field)
                .collect::<Vec<_>>()
        };
        let play = |steps: u32, fields: Vec<Vec<u8>>| {
            let around = [
                vec![opening(6, ALL, steps), frame(b'M', b"<>\0")],
                fields,
                vec![frame(b'N', b""), frame(b'E', b"text\r\n")],
            ];
            message(&mut MilterSession::new(ALL, WaitedEnvelope::default()), &around.concat()).0
        };
        let sent = "From: a@example.org\r\nSubject:none\r\nDKIM-Signature:  v=1;\r\n\tb=1\r\n\r\ntext\r\n";
        assert_eq!(play(ALL, fields([b" a@example.org", b"none", b"  v=1;\n\tb=1"])), sent);
        let trimmed = "From: a@example.org\r\nSubject: none\r\nDKIM-Signature: v=1;\r\n\tb=1\r\n\r\ntext\r\n";
        assert_eq!(play(0, fields([b"a@example.org", b"none", b"v=1;\n\tb=1"])), trimmed);
        // What no mail server should send makes no field and no end of the header.
        let odd = "From:a\r\n\tX: y\r\nSubject:\r\n\t\r\n\tb\r\nDKIM-Signature:c\r\n\r\ntext\r\n";
        assert_eq!(play(ALL, fields([b"a\nX: y", b"\n\r\nb", b"c"])), odd);
    }

    #[test]
    fn what_is_known_of_a_message_is_its_own() {
        let mut session = MilterSession::new(ALL, WaitedEnvelope::default());
        let (_, first) = message(
            &mut session,
            &[
                opening(6, ALL, ALL),
                frame(b'D', b"Cj\0mx.example.org\0{daemon_name}\0smtp\0{client_addr}\x00198.51.100.1\0"),
                frame(b'C', b"a\x006\0\x19IPv6:2001:db8::1\0"),
                frame(b'H', b"client.example.net\0"),
                frame(b'D', b"M{auth_authen}\0ann\0i\x00Q1\0"),
                frame(b'M', b"<a@example.org>\0SIZE=1\0"),
                frame(b'R', b"<b@example.org>\0"),
                frame(b'R', b"<c@example.org>\0"),
                frame(b'L', b"x-spam\0no\0"),
                frame(b'L', b"X-Spam\0no\0"),
                frame(b'E', b""),
            ],
        );
        let envelope = Envelope {
            client_ip: Some("2001:db8::1".parse().unwrap()),
            helo: Some("client.example.net".to_owned()),
            sender: Some("<a@example.org>".to_owned()),
            recipients: vec!["<b@example.org>".to_owned(), "<c@example.org>".to_owned()],
            user: Some("ann".to_owned()),
        };
        assert_eq!((&first.envelope, first.queue_id.as_deref()), (&envelope, Some("Q1")));
        assert_eq!(
            (first.forged, first.host.as_deref(), first.daemon.as_deref()),
            ([0, 0, 2, 0, 0, 0], Some("mx.example.org"), Some("smtp"))
        );
        // The next of the same client, after one that was given up.
        let (kept, second) = message(
            &mut session,
            &[
                frame(b'M', b"<spam@example.org>\0"),
                frame(b'L', b"X-Spam\0no\0"),
                frame(b'A', b""),
                frame(b'M', b"<>\0"),
                frame(b'D', b"Ei\x00Q2\0"),
                frame(b'E', b""),
            ],
        );
        assert_eq!((second.envelope.user, second.envelope.recipients.len()), (None, 0));
        assert_eq!((second.envelope.sender.as_deref(), second.queue_id.as_deref()), (Some("<>"), Some("Q2")));
        assert_eq!((second.forged, second.envelope.helo.as_deref()), ([0; 6], Some("client.example.net")));
        assert!(kept.ends_with("\r\n\r\n"), "{kept:?}");
        // The next client on the same connection.
        let (_, third) = message(
            &mut session,
            &[frame(b'K', b""), frame(b'C', b"b\0U"), frame(b'M', b"<>\0"), frame(b'E', b"")],
        );
        assert_eq!(third.envelope, Envelope { sender: Some("<>".to_owned()), ..Envelope::default() });
    }

    #[test]
    fn replies_are_left_out_where_they_can_be() {
        let frames = [
            frame(b'C', b"a\0U"),
            frame(b'H', b"a\0"),
            frame(b'U', b"XYZZY\0"),
            frame(b'M', b"<>\0"),
            frame(b'R', b"<b@example.org>\0"),
            frame(b'T', b""),
            frame(b'L', b"A\0b\0"),
            frame(b'N', b""),
            frame(b'B', b"text"),
            frame(b'B', &[b'x'; 100]),
        ];
        let play = |steps: u32| {
            let mut session = MilterSession::new(ALL, WaitedEnvelope::default());
            let opened = played(&mut session, &[opening(6, ALL, steps)]);
            assert!(opened.0[0].is_ok());
            played(&mut session, &frames).0
        };
        assert_eq!(play(ALL), [Ok(MilterStep::Silent); 10]);
        assert_eq!(play(0), [Ok(MilterStep::Reply(MilterReply::Continue)); 10]);
        let skipping = play(steps::SKIP);
        assert_eq!(
            skipping[8..],
            [Ok(MilterStep::Reply(MilterReply::Continue)), Ok(MilterStep::Reply(MilterReply::Skip))]
        );
    }
}

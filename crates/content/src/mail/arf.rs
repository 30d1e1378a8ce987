//! Feedback reports: what mailbox providers send when their users call mail unwanted (ARF: RFC 5965, RFC 6650).
//!
//! A report is a `multipart/report; report-type=feedback-report` of three parts at one level: a text for people, the
//! `message/feedback-report` for programs, and the mail that it is about, whole or its header alone. Parts are told by
//! their media types and not by their order, which some senders have otherwise; the text may be missing.
//!
//! Nothing in a report is true because it says so: anybody can write one.

use std::borrow::Cow;
use std::net::IpAddr;

use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;

use crate::mail::message::Envelope;
use crate::mail::mime::{Defects, MailHeader};

/// Most parts that are looked at.
const PARTS_MAX: usize = 16;
/// Longest boundary (RFC 2046, section 5.1.1).
const BOUNDARY_BYTES_MAX: usize = 70;
/// Most recipients that are taken from a report.
const RECIPIENTS_MAX: usize = 100;

/// The type that a report gives a mail (RFC 5965, section 7.3; RFC 6591; RFC 6650).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedbackType {
    /// Unwanted mail, or mail that abuses otherwise.
    Abuse,
    /// Phishing, or another fraud.
    Fraud,
    /// A virus is in it.
    Virus,
    /// The mail was called unwanted and is not.
    NotSpam,
    /// Anything else: authentication that failed, a wish to be sent no more, what later documents define.
    Other,
}

/// A report.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedbackReport<'x> {
    /// The type of feedback that the report gives.
    pub feedback_type: FeedbackType,
    /// The envelope of the mail, as far as the report tells it.
    pub envelope: Envelope,
    /// The mail.
    pub original: Option<ReportedMail<'x>>,
}

/// The mail that a report is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportedMail<'x> {
    /// All of it.
    Message(Cow<'x, [u8]>),
    /// Its header.
    Header(Cow<'x, [u8]>),
}

impl<'x> ReportedMail<'x> {
    /// Returns the bytes that the mail holds, by value.
    pub fn into_bytes(self) -> Cow<'x, [u8]> {
        match self {
            ReportedMail::Message(bytes) | ReportedMail::Header(bytes) => bytes,
        }
    }

    /// Its bytes, a header and perhaps a body.
    pub fn bytes(&self) -> &[u8] {
        match self {
            ReportedMail::Message(bytes) | ReportedMail::Header(bytes) => bytes,
        }
    }
}

/// The report that a mail is; `None` for any other mail. Goes over the mail once, at one level, and copies only an
/// original that is encoded.
pub fn read(raw: &[u8]) -> Option<FeedbackReport<'_>> {
    let (header, body) = MailHeader::read(raw, &mut Defects::default());
    let of = header.get("Content-Type")?.text();
    let (kind, parameters) = media_type(&of);
    let parameter = |name: &str| parameters.iter().find(|(key, _)| key == name).map(|(_, value)| &**value);
    let is_report = parameter("report-type").is_some_and(|kind| kind.eq_ignore_ascii_case("feedback-report"));
    if kind != "multipart/report" || !is_report {
        return None;
    }
    let boundary = parameter("boundary").filter(|it| (1..=BOUNDARY_BYTES_MAX).contains(&it.len()))?;
    let (mut said, mut original) = (None, None);
    for part in parts(body, boundary.as_bytes()) {
        let (header, content) = MailHeader::read(part, &mut Defects::default());
        let of = header.get("Content-Type").map(|field| field.text()).unwrap_or_default();
        let decoded = || {
            let encoding = header.get("Content-Transfer-Encoding").map(|field| field.text());
            decode(content, encoding.as_deref().unwrap_or_default())
        };
        match &*media_type(&of).0 {
            "message/feedback-report" if said.is_none() => said = Some(report_fields(&decoded())),
            "message/rfc822" | "message/global" if original.is_none() => {
                original = Some(ReportedMail::Message(decoded()));
            }
            "text/rfc822-headers" | "message/rfc822-headers" | "message/global-headers"
                if original.is_none() =>
            {
                original = Some(ReportedMail::Header(decoded()));
            }
            _ => {}
        }
    }
    let (feedback_type, envelope) = said??;
    Some(FeedbackReport { feedback_type, envelope, original })
}

/// The messages that a mail has attached, one level deep: what people forward as an attachment. At most 16.
pub fn attached(raw: &[u8]) -> Vec<Cow<'_, [u8]>> {
    let (header, body) = MailHeader::read(raw, &mut Defects::default());
    let of = header.get("Content-Type").map(|field| field.text()).unwrap_or_default();
    let (kind, parameters) = media_type(&of);
    let boundary = parameters.iter().find(|(key, _)| key == "boundary").map(|(_, value)| &**value);
    let Some(boundary) = boundary.filter(|it| (1..=BOUNDARY_BYTES_MAX).contains(&it.len())) else {
        return Vec::new();
    };
    if !kind.starts_with("multipart/") {
        return Vec::new();
    }
    let messages = parts(body, boundary.as_bytes()).into_iter().filter_map(|part| {
        let (header, content) = MailHeader::read(part, &mut Defects::default());
        let of = header.get("Content-Type")?.text();
        let encoding = header.get("Content-Transfer-Encoding").map(|field| field.text());
        let is_message = matches!(&*media_type(&of).0, "message/rfc822" | "message/global");
        is_message.then(|| decode(content, encoding.as_deref().unwrap_or_default()))
    });
    messages.collect()
}

/// The values of the fields of a name in a mail's header, decoded, at most 16.
pub fn fields(raw: &[u8], name: &str) -> Vec<String> {
    let (header, _) = MailHeader::read(raw, &mut Defects::default());
    header.all(name).take(PARTS_MAX).map(|field| field.unstructured()).collect()
}

/// Reads the part for programs; `None` without a type, which every report has.
fn report_fields(content: &[u8]) -> Option<(FeedbackType, Envelope)> {
    let (header, _) = MailHeader::read(content, &mut Defects::default());
    let value = |name: &str| header.get(name).map(|field| field.text());
    let feedback_type = match value("Feedback-Type")?.to_ascii_lowercase().as_str() {
        "abuse" => FeedbackType::Abuse,
        "fraud" => FeedbackType::Fraud,
        "virus" => FeedbackType::Virus,
        "not-spam" => FeedbackType::NotSpam,
        _ => FeedbackType::Other,
    };
    let recipients = header.all("Original-Rcpt-To").take(RECIPIENTS_MAX);
    let envelope = Envelope {
        // A comment may follow.
        client_ip: value("Source-IP")
            .and_then(|ip| ip.split_ascii_whitespace().next()?.parse::<IpAddr>().ok()),
        sender: value("Original-Mail-From").map(|sender| sender.into_owned()),
        recipients: recipients.map(|field| field.text().into_owned()).collect(),
        ..Envelope::default()
    };
    Some((feedback_type, envelope))
}

/// Type and parameters of a Content-Type, names in lower case (RFC 2045, section 5.1). Comments are not understood.
fn media_type(text: &str) -> (String, Vec<(String, String)>) {
    let mut pieces = Vec::new();
    let (mut piece, mut quoted, mut escaped) = (String::new(), false, false);
    for c in text.chars() {
        match c {
            _ if escaped => {
                piece.push(c);
                escaped = false;
            }
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ';' if !quoted => pieces.push(std::mem::take(&mut piece)),
            '\r' | '\n' => {}
            c => piece.push(c),
        }
    }
    pieces.push(piece);
    let mut pieces = pieces.into_iter();
    let kind = pieces.next().unwrap_or_default().trim().to_ascii_lowercase();
    let parameters = pieces.filter_map(|piece| {
        let (name, value) = piece.split_once('=')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    });
    (kind, parameters.collect())
}

/// Returns the parts between the delimiter lines of a boundary; the last part may be unclosed.
fn parts<'x>(body: &'x [u8], boundary: &[u8]) -> Vec<&'x [u8]> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (None, 0);
    while at < body.len() && parts.len() < PARTS_MAX {
        let end = memchr::memchr(b'\n', &body[at..]).map_or(body.len(), |end| at + end + 1);
        let line = &body[at..end];
        if let Some(rest) = line.strip_prefix(b"--").and_then(|line| line.strip_prefix(boundary)) {
            let is_last = rest.starts_with(b"--");
            let rest = if is_last { &rest[2..] } else { rest };
            if rest.trim_ascii().is_empty() {
                if let Some(start) = start {
                    // The line end before a delimiter belongs to it.
                    let part = &body[start..at.max(start)];
                    let part = part.strip_suffix(b"\n").unwrap_or(part);
                    parts.push(part.strip_suffix(b"\r").unwrap_or(part));
                }
                start = (!is_last).then_some(end);
                if is_last {
                    break;
                }
            }
        }
        at = end;
    }
    if let Some(start) = start.filter(|_| at >= body.len() && parts.len() < PARTS_MAX) {
        parts.push(&body[start..]);
    }
    parts
}

fn decode<'x>(content: &'x [u8], encoding: &str) -> Cow<'x, [u8]> {
    let decoded = match encoding.to_ascii_lowercase().as_str() {
        "base64" => base64_decode(content),
        "quoted-printable" => quoted_printable_decode(content),
        _ => None,
    };
    decoded.map_or(Cow::Borrowed(content), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ORIGINAL: &str = "From: a@example.org\r\nSubject: Buy\r\n\r\nNow!\r\n";

    fn report(kind: &str, third: &str) -> String {
        format!(
            "From: abuse@provider.example\r\nContent-Type: multipart/report;\r\n\tboundary=\"b;1\"; report-type=Feedback-Report\r\n\r\n\
             --b;1\r\nContent-Type: text/plain\r\n\r\nA report.\r\n--b;1\r\nContent-Type: message/feedback-report\r\n\r\n\
             Feedback-Type: {kind}\r\nVersion: 1\r\nOriginal-Mail-From: <a@example.org>\r\nOriginal-Rcpt-To: <b@example.net>\r\n\
             Original-Rcpt-To: <c@example.net>\r\nSource-IP: 192.0.2.7 (a.example.org)\r\n\r\n--b;1\r\n{third}\r\n--b;1--\r\n"
        )
    }

    #[test]
    fn a_report_tells_what_of_which_mail() {
        let text = report("abuse", &format!("Content-Type: message/rfc822\r\n\r\n{ORIGINAL}"));
        let read = read(text.as_bytes()).unwrap();
        assert_eq!(read.feedback_type, FeedbackType::Abuse);
        assert_eq!(read.envelope.client_ip, Some("192.0.2.7".parse().unwrap()));
        assert_eq!(read.envelope.sender.as_deref(), Some("<a@example.org>"));
        assert_eq!(read.envelope.recipients, ["<b@example.net>", "<c@example.net>"]);
        assert_eq!(read.original, Some(ReportedMail::Message(ORIGINAL.as_bytes().into())));
    }

    #[test]
    fn an_original_is_a_header_or_encoded_or_missing() {
        let original = |third: &str| {
            let text = report("Not-Spam", third);
            let read = read(text.as_bytes()).unwrap();
            assert_eq!(read.feedback_type, FeedbackType::NotSpam);
            read.original.map(|original| original.bytes().to_vec())
        };
        assert_eq!(original("Content-Type: text/plain\r\n\r\nx"), None);
        assert_eq!(
            original("Content-Type: text/rfc822-headers\r\n\r\nFrom: a@example.org").unwrap(),
            b"From: a@example.org"
        );
        let encoded = "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\nRnJvbTogYUBleGFtcGxlLm9yZw==";
        assert_eq!(original(encoded).unwrap(), b"From: a@example.org");
    }

    #[test]
    fn other_mail_is_no_report() {
        for text in [
            "",
            "From: a@example.org\n\nhello",
            "Content-Type: multipart/report; report-type=delivery-status; boundary=b\n\n--b\n\n--b--\n",
            "Content-Type: multipart/report; report-type=feedback-report\n\n--b\n",
            "Content-Type: multipart/report; report-type=feedback-report; boundary=b\n\n--b\nContent-Type: message/feedback-report\n\nVersion: 1\n--b--",
        ] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn what_is_attached_is_found() {
        let text = format!(
            "Content-Type: multipart/mixed; boundary=x\n\nHere:\n--x\nContent-Type: text/plain\n\nsee\n--x\n\
             Content-Type: message/rfc822\n\n{ORIGINAL}\n--x\ncontent-type: MESSAGE/RFC822\n\nFrom: b@example.org\n"
        );
        let found = attached(text.as_bytes());
        assert_eq!(found, [ORIGINAL.as_bytes(), b"From: b@example.org\n"], "the last part is not closed");
        assert!(attached(ORIGINAL.as_bytes()).is_empty());
        assert_eq!(fields(ORIGINAL.as_bytes(), "from"), ["a@example.org"]);
    }

    /// The examples of RFC 5965 and RFC 6591, and reports that were sent.
    #[test]
    fn reports_of_others_are_read() {
        let folder = corpora::folder("mail/auth/arf").unwrap();
        let mut read_all = 0;
        for path in
            corpora::files(&folder).iter().filter(|path| path.extension().is_some_and(|it| it == "eml"))
        {
            let raw = std::fs::read(path).unwrap();
            let found = read(&raw).unwrap_or_else(|| panic!("{} is no report", path.display()));
            assert!(found.original.is_some(), "{}", path.display());
            read_all += 1;
        }
        assert!(read_all > 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_makes_it_panic(cut in 0usize..900, at in 0usize..900, with in proptest::collection::vec(any::<u8>(), 0..20)) {
            let mut text = report("abuse", &format!("Content-Type: message/rfc822\r\n\r\n{ORIGINAL}")).into_bytes();
            text.truncate(cut.max(1));
            let at = at.min(text.len());
            text.splice(at..at, with);
            let _ = (read(&text), attached(&text));
            prop_assert!(attached(&text).len() <= PARTS_MAX);
        }
    }
}

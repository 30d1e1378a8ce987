//! The header fingerprint of a message, as marks that a classifier can learn: the shapes of its fields' values, rare
//! fields, and the servers that handed it on. Bulk senders imitate mail programs, and get small things wrong.
//!
//! Fields about delivery, filtering and storage here, and those of mailing lists, are left out: they would be learned at
//! once, and say nothing of the next message. The list is that of SpamAssassin's Bayes (`IGNORED_HDRS` of its
//! `Plugin/Bayes.pm`) and others of the kind. Servers beyond the client are left out, because the client names them
//! itself; so are the names of receiving servers, which are often the recipient's own.

use std::net::IpAddr;

use event::Facts;

use crate::mail::columns::MailColumns;
use crate::mail::mime::MailHeader;
use crate::network::is_public;
use crate::text::character::{is_alphabetic, is_alphanumeric};
use crate::text::truncate;
use crate::web::link;

/// Most servers that are read.
const RELAYS_MAX: usize = 10;
/// Most fields that are read.
const FIELDS_MAX: usize = 64;
/// Most bytes of a field's value that are read.
const VALUE_BYTES_MAX: usize = 200;
/// Most bytes of all such fields together.
const OTHERS_BYTES_MAX: usize = 1_500;
/// Longest mark.
const MARK_BYTES_MAX: usize = 64;

/// Fields that say how a message was delivered, filtered, stored or distributed, lower case.
const IGNORED: [&str; 55] = [
    "arc-authentication-results",
    "authentication-results",
    "auto-submitted",
    "content-class",
    "content-length",
    "delivered-to",
    "delivery-date",
    "dkim-signature",
    "domainkey-signature",
    "envelope-from",
    "envelope-to",
    "errors-to",
    "feedback-id",
    "forwarded",
    "lines",
    "mail-followup-to",
    "mailing-list",
    "precedence",
    "received-spf",
    "replied",
    "return-path",
    "sender",
    "status",
    "thread-index",
    "thread-topic",
    "x-ack",
    "x-acceptable-languages",
    "x-apparently-to",
    "x-authentication-warning",
    "x-been-there",
    "x-beenthere",
    "x-bogosity",
    "x-converted-to-plain-text",
    "x-delivered-to",
    "x-delivery-agent",
    "x-envelope-from",
    "x-envelope-to",
    "x-filtered-by",
    "x-flags",
    "x-imapbase",
    "x-keywords",
    "x-loop",
    "x-mailman-version",
    "x-mass-check-id",
    "x-original-to",
    "x-originalarrivaltime",
    "x-pmflags",
    "x-received",
    "x-return-path",
    "x-sender",
    "x-smtpd",
    "x-status",
    "x-uid",
    "x-uidl",
    "xref",
];
/// Beginnings of the names of such fields.
const IGNORED_STARTS: [&str; 35] = [
    "arc-",
    "list-",
    "old-",
    "original-",
    "resent-",
    "x-antiabuse",
    "x-antispam",
    "x-antivirus",
    "x-ap-spam",
    "x-bugzilla-",
    "x-dcc-",
    "x-egroups-",
    "x-evolution",
    "x-exmh",
    "x-forefront-",
    "x-gm-",
    "x-gnus-",
    "x-google-",
    "x-list",
    "x-mailscanner",
    "x-mdaemon-",
    "x-microsoft-antispam",
    "x-mime-autoconverted",
    "x-mozilla-",
    "x-ms-exchange-",
    "x-old-",
    "x-original-",
    "x-resent-",
    "x-rspamd",
    "x-scann",
    "x-spam",
    "x-unsub",
    "x-virus",
    "x-vm-",
    "x-yahoo-",
];
/// Fields that other facts or shapes are of.
const KNOWN: [&str; 10] = [
    "cc",
    "date",
    "from",
    "in-reply-to",
    "message-id",
    "received",
    "references",
    "reply-to",
    "subject",
    "to",
];

/// Fills the columns; `client` is who handed the message over, if that is known. Linear in the header.
pub(crate) fn fill(
    header: &MailHeader<'_>,
    client: Option<IpAddr>,
    columns: &MailColumns,
    facts: &mut Facts,
) {
    for (slot, marks) in [(columns.shapes, shapes(header)), (columns.relays, relays(header, client))] {
        if !marks.is_empty() {
            facts.set(slot, marks);
        }
    }
    let others = other_fields(header);
    if !others.is_empty() {
        facts.set(columns.other_fields, others);
    }
}

/// Returns true if a field says something of who wrote the message.
fn is_own(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    !IGNORED.contains(&name.as_str())
        && !IGNORED_STARTS.iter().any(|start| name.starts_with(start))
        && !name.contains("mailscanner")
        && !name.contains("spam")
}

/// Fields that few programs write, as `name: value`, one a line, lower case.
fn other_fields(header: &MailHeader<'_>) -> String {
    let mut all = String::new();
    for field in header.fields.iter().take(FIELDS_MAX) {
        let known = KNOWN.iter().any(|known| field.is(known));
        if known || !is_own(field.name) || all.len() >= OTHERS_BYTES_MAX {
            continue;
        }
        all.extend(field.name.chars().map(|c| c.to_ascii_lowercase()));
        all.push_str(": ");
        all.push_str(&value(&field.text()).to_lowercase());
        all.push('\n');
    }
    truncate(&all, OTHERS_BYTES_MAX).trim_end().to_owned()
}

/// The beginning of a value, its folding undone.
fn value(text: &str) -> String {
    let mut value = String::with_capacity(text.len().min(VALUE_BYTES_MAX));
    for word in truncate(text, VALUE_BYTES_MAX).split_ascii_whitespace() {
        if !value.is_empty() {
            value.push(' ');
        }
        value.push_str(word);
    }
    value
}

/// A text with each run of digits, small letters and capitals as one: `Aa9`.
fn shape(text: &str, bytes_max: usize) -> String {
    let mut shape = String::new();
    let mut last = None;
    for c in text.chars() {
        let class = match c {
            '0'..='9' => '9',
            c if c.is_lowercase() => 'a',
            c if c.is_uppercase() => 'A',
            c => c,
        };
        if last.replace(class) == Some(class) && matches!(class, '9' | 'a' | 'A') {
            continue;
        }
        if shape.len() + class.len_utf8() > bytes_max {
            break;
        }
        shape.push(class);
    }
    shape
}

/// A text with each run of characters that `is_word` as one `x`.
fn skeleton(text: &str, is_word: impl Fn(char) -> bool) -> String {
    let mut skeleton = String::new();
    for c in text.chars() {
        let c = if is_word(c) { 'x' } else { c };
        if c == 'x' && skeleton.ends_with('x') {
            continue;
        }
        if skeleton.len() + c.len_utf8() > MARK_BYTES_MAX {
            break;
        }
        skeleton.push(c);
    }
    skeleton
}

/// Collects marks.
struct FingerprintMarks(Vec<String>);

impl FingerprintMarks {
    fn add(&mut self, what: &str, mark: &str) {
        let mut text = format!("{what} {mark}");
        text.truncate(text.floor_char_boundary(MARK_BYTES_MAX));
        if !self.0.contains(&text) {
            self.0.push(text);
        }
    }
}

/// Returns marks of how the values of well-known fields look.
fn shapes(header: &MailHeader<'_>) -> Vec<String> {
    let mut marks = FingerprintMarks(Vec::new());
    for field in header.fields.iter().take(FIELDS_MAX) {
        let text = field.text();
        match field.name.to_ascii_lowercase().as_str() {
            "message-id" => message_id(&value(&text), &mut marks),
            "date" => {
                let date = value(&text);
                marks.add("date", &shape(&date, MARK_BYTES_MAX));
                if let Some((_, zone)) = date.split_once(':').and_then(|(_, rest)| rest.split_once(' ')) {
                    marks.add("zone", zone);
                }
            }
            name @ ("from" | "to" | "cc" | "reply-to") => {
                let first = value(text.split(',').next().unwrap_or_default());
                let is_word = |c: char| is_alphanumeric(c) || matches!(c, '.' | '-' | '_');
                marks.add(name, &skeleton(&first, is_word));
                marks.add(name, &shape(&first, 40));
                let count = text.split(',').take(8).count();
                marks.add(name, &format!("of {count}"));
            }
            "subject" => {
                let end = text.chars().next_back().map_or('-', |end| match end {
                    end if is_alphabetic(end) => 'a',
                    end if end.is_ascii_digit() => '9',
                    end => end,
                });
                marks.add("subject ends", &end.to_string());
                let (gap, coded) = (text.contains("  "), text.contains("=?"));
                marks.add("subject", &format!("gap {gap} coded {coded}"));
            }
            "content-type" => content_type(&text, &mut marks),
            "content-transfer-encoding"
            | "content-disposition"
            | "mime-version"
            | "x-priority"
            | "x-msmail-priority"
            | "x-mimeole"
            | "importance"
            | "priority" => {
                marks.add(field.name, &value(&text));
            }
            _ => {}
        }
    }
    marks.0
}

fn message_id(id: &str, marks: &mut FingerprintMarks) {
    let id = id.trim_matches(['<', '>']);
    let (local, host) = id.rsplit_once('@').unwrap_or((id, ""));
    marks.add("message-id", &shape(local, 40));
    marks.add("message-id", &skeleton(local, char::is_alphanumeric));
    marks.add("message-id", &format!("of {}", local.len()));
    marks.add("message-id host", &skeleton(host, char::is_alphanumeric));
}

fn content_type(text: &str, marks: &mut FingerprintMarks) {
    let text = value(text);
    let mut parts = text.split(';');
    marks.add("type", parts.next().unwrap_or_default().trim());
    for parameter in parts {
        let (name, value) = parameter.trim().split_once('=').unwrap_or((parameter.trim(), ""));
        if name.eq_ignore_ascii_case("boundary") {
            marks.add("boundary", &shape(value, MARK_BYTES_MAX));
            let value = value.trim_matches('"');
            let start = value.chars().take(12).map(|c| if c.is_ascii_digit() { '9' } else { c });
            marks.add("boundary starts", &start.collect::<String>());
            marks.add("boundary", &format!("of {}", value.len()));
        } else if !name.is_empty() {
            marks.add("type", &format!("{name}={value}"));
        }
    }
}

/// One server's note of what it received from whom.
#[derive(Debug, Default, PartialEq, Eq)]
struct ReceivedField<'t> {
    /// The name that the client gave itself.
    helo: Option<&'t str>,
    /// The name of the client in DNS.
    name: Option<&'t str>,
    ip: Option<IpAddr>,
    /// The program that received.
    program: Option<&'t str>,
    protocol: Option<&'t str>,
}

impl<'t> ReceivedField<'t> {
    /// Reads the forms in use: `from HELO (NAME [IP]) by HOST (PROGRAM) with PROTOCOL ...`, and qmail's
    /// `from NAME (HELO HELO) (IP) by ...`.
    fn read(text: &'t str) -> Option<ReceivedField<'t>> {
        let mut hop = ReceivedField::default();
        let mut words = text.split_ascii_whitespace().peekable();
        if !words.next()?.eq_ignore_ascii_case("from") {
            return None;
        }
        hop.helo = words.next();
        hop.ip = hop.helo.and_then(ip);
        let mut by = false;
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case("by") {
                by = true;
                words.next();
                hop.program = words.peek().filter(|next| next.starts_with('(')).map(|next| bare(next));
            } else if word.eq_ignore_ascii_case("with") {
                hop.protocol = words.next().map(bare);
            } else if by {
                continue;
            } else if word.eq_ignore_ascii_case("(HELO") {
                hop.name = hop.helo;
                hop.helo = words.next().map(bare);
            } else if let Some(ip) = ip(word) {
                hop.ip = hop.ip.or(Some(ip));
                // `name[ip])` without a blank between.
                let name = word.split_once('[').map(|(name, _)| bare(name));
                hop.name = hop.name.or(name.filter(|name| !name.is_empty()));
            } else if hop.name.is_none() && hop.ip.is_none() && word.starts_with('(') && word.contains('.') {
                hop.name = Some(bare(word));
            }
        }
        Some(hop)
    }
}

/// A word without brackets around it, and of `user@host` the host.
fn bare(word: &str) -> &str {
    let word = word.trim_matches(|c: char| matches!(c, '(' | ')' | '[' | ']' | ';' | ',' | '"' | '<' | '>'));
    word.rsplit_once('@').map_or(word, |(_, host)| host)
}

/// The address in a word such as `([192.0.2.1])`, `[IPv6:2001:db8::1]` or `host[192.0.2.1]`.
fn ip(word: &str) -> Option<IpAddr> {
    let inner = word.split_once('[').map_or(word, |(_, inner)| inner);
    let inner = bare(inner);
    let inner = inner.get(..5).filter(|tag| tag.eq_ignore_ascii_case("ipv6:")).map_or(inner, |_| &inner[5..]);
    inner.parse().ok()
}

/// Returns who handed the message on before the client did: names, networks, programs.
fn relays(header: &MailHeader<'_>, client: Option<IpAddr>) -> Vec<String> {
    let texts = received(header);
    let relays: Vec<Option<ReceivedField<'_>>> = texts.iter().map(|text| ReceivedField::read(text)).collect();
    let first = received_here(header, client);
    let mut marks = FingerprintMarks(Vec::new());
    if !relays.is_empty() {
        marks.add("hops", &(relays.len() - first).min(9).to_string());
    }
    let before = relays[first..].iter().flatten();
    for hop in before.filter(|hop| hop.ip.is_none_or(is_public)).take(RELAYS_MAX) {
        if let Some(helo) = hop.helo {
            name("helo", helo, &mut marks);
        }
        match hop.name {
            Some(host) => name("name", host, &mut marks),
            None => marks.add("name", "none"),
        }
        match hop.ip {
            Some(IpAddr::V4(ip)) => {
                let [a, b, c, _] = ip.octets();
                marks.add("net", &format!("{a}.{b}.{c}"));
                marks.add("net", &format!("{a}.{b}"));
            }
            Some(IpAddr::V6(ip)) => {
                let [a, b, c, ..] = ip.segments();
                marks.add("net", &format!("{a:x}:{b:x}:{c:x}"));
                marks.add("net", &format!("{a:x}:{b:x}"));
            }
            None => {}
        }
        if let Some(program) = hop.program.filter(|program| !program.is_empty()) {
            marks.add("program", &versionless(program));
        }
        if let Some(protocol) = hop.protocol {
            marks.add("with", truncate(protocol, 16));
        }
    }
    marks.0
}

/// The number of `Received` fields that were added here: down to the one that names the client.
pub(super) fn received_here(header: &MailHeader<'_>, client: Option<IpAddr>) -> usize {
    let is_clients =
        |text: &String| ReceivedField::read(text).is_some_and(|hop| hop.ip.is_some() && hop.ip == client);
    received(header).iter().position(is_clients).map_or(0, |at| at + 1)
}

fn received(header: &MailHeader<'_>) -> Vec<String> {
    header.all("Received").take(FIELDS_MAX).map(|field| unfolded(&field.text())).collect()
}

/// A `Received` field with its folding undone, cut.
fn unfolded(text: &str) -> String {
    truncate(text, 512).split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the name that a program gives itself, its version's digits as nines.
fn versionless(program: &str) -> String {
    let digits = program.chars().take(30).map(|c| if c.is_ascii_digit() { '9' } else { c });
    digits.collect()
}

/// A host's name: whole, its organisation's, and the shape of its first label.
fn name(what: &str, host: &str, marks: &mut FingerprintMarks) {
    let host = bare(host).trim_end_matches('.').to_ascii_lowercase();
    if host.is_empty() {
        return;
    }
    marks.add(what, &host);
    marks.add(what, link::organisation(&host));
    marks.add(&format!("{what} dots"), &host.matches('.').count().min(9).to_string());
    if let Some((label, _)) = host.split_once('.') {
        marks.add(&format!("{what} first"), &shape(label, 20));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mail::mime::Defects;

    fn with_header<T>(raw: &str, look: impl FnOnce(&MailHeader<'_>) -> T) -> T {
        look(&MailHeader::read(raw.as_bytes(), &mut Defects::default()).0)
    }

    #[test]
    fn servers_notes_are_read_in_the_forms_in_use() {
        let ip = |text: &str| Some(text.parse().unwrap());
        for (text, expected) in [
            (
                "from a.example (b.example [192.0.2.7]) by c.example (8.11.6/8.11.6) with ESMTP id x; date",
                ReceivedField {
                    helo: Some("a.example"),
                    name: Some("b.example"),
                    ip: ip("192.0.2.7"),
                    program: Some("8.11.6/8.11.6"),
                    protocol: Some("ESMTP"),
                },
            ),
            (
                "from unknown (HELO a.example) (192.0.2.7) by c.example with SMTP; date",
                ReceivedField {
                    helo: Some("a.example"),
                    name: Some("unknown"),
                    ip: ip("192.0.2.7"),
                    program: None,
                    protocol: Some("SMTP"),
                },
            ),
            (
                "from [IPv6:2001:db8::1] (port=1 helo=x) by c.example (Exim 4) with esmtp",
                ReceivedField {
                    helo: Some("[IPv6:2001:db8::1]"),
                    name: None,
                    ip: ip("2001:db8::1"),
                    program: Some("Exim"),
                    protocol: Some("esmtp"),
                },
            ),
            (
                "from a.example (root@b.example[192.0.2.7]) by c.example",
                ReceivedField {
                    helo: Some("a.example"),
                    name: Some("b.example"),
                    ip: ip("192.0.2.7"),
                    ..ReceivedField::default()
                },
            ),
        ] {
            assert_eq!(ReceivedField::read(text), Some(expected), "{text}");
        }
        assert_eq!(ReceivedField::read("(qmail 1 invoked by uid 2); date"), None);
        assert_eq!(ReceivedField::read(""), None);
    }

    #[test]
    fn only_who_came_before_the_client_is_a_relay() {
        let raw = "Received: from own.example (own.example [10.0.0.1]) by mail.example with SMTP\r\n\
                   Received: from client.example (client.example [81.2.70.1]) by own.example with SMTP\r\n\
                   Received: from a1.origin.example (p7.origin.example [81.2.69.142])\r\n\tby client.example with HTTP\r\n\r\n";
        let marks = |client: &str| with_header(raw, |header| relays(header, client.parse().ok()));
        assert_eq!(
            marks("81.2.70.1"),
            [
                "hops 1",
                "helo a1.origin.example",
                "helo origin.example",
                "helo dots 2",
                "helo first a9",
                "name p7.origin.example",
                "name origin.example",
                "name dots 2",
                "name first a9",
                "net 81.2.69",
                "net 81.2",
                "with HTTP",
            ]
        );
        let all = marks("203.0.113.3");
        assert!(all.contains(&"net 81.2.70".to_owned()), "none of them is the client: {all:?}");
        assert!(!all.iter().any(|mark| mark.contains("own.example") || mark.contains("10.0")), "{all:?}");
    }

    #[test]
    fn values_are_marks_by_their_shape() {
        let raw = "Message-ID: <00a1.Bc@mail.example>\nDate: Thu, 22 Aug 2002 08:52:58 -0400\nSubject: Now!\n\
                   From: \"Ann B\" <ann@a.example>, b@b.example\nMIME-Version: 1.0\n\
                   Content-Type: multipart/mixed; boundary=\"----=_NextPart_000_12AB\"\n\n";
        let marks = with_header(raw, shapes);
        for mark in [
            "message-id 9a9.Aa",
            "message-id of 7",
            "message-id host x.x",
            "date Aa, 9 Aa 9 9:9:9 -9",
            "zone -0400",
            "subject ends !",
            "from \"x x\" <x@x>",
            "from of 2",
            "MIME-Version 1.0",
            "type multipart/mixed",
            "boundary starts ----=_NextPa",
        ] {
            assert!(marks.iter().any(|found| found == mark), "{mark}: {marks:?}");
        }
    }

    #[test]
    fn what_tells_of_delivery_and_lists_is_in_no_fingerprint() {
        let raw = "Organization: Example\n  Ltd\nX-Spam-Status: Yes\nList-Id: <a.b>\nX-Foo-MailScanner: clean\n\
                   Delivered-To: me\nX-Mailer: The Bat!\nDate: x\n\n";
        assert_eq!(with_header(raw, other_fields), "organization: example ltd\nx-mailer: the bat!");
    }

    proptest! {
        #[test]
        fn any_header_gives_bounded_marks(lines in prop::collection::vec(
            "(Received|Message-ID|Date|From|Subject|Content-Type|X-A): (from |by |with |\\(|\\[|[a-z0-9.@<>=;\"é]{1,6}| ){0,40}", 0..20)
        ) {
            let raw = lines.join("\n") + "\n\n";
            let (shapes, relays, others) =
                with_header(&raw, |header| (shapes(header), relays(header, None), other_fields(header)));
            prop_assert!(shapes.iter().chain(&relays).all(|mark| mark.len() <= MARK_BYTES_MAX));
            prop_assert!(shapes.len() <= 8 * 20 + 100 && relays.len() <= 1 + 12 * RELAYS_MAX);
            prop_assert!(others.len() <= OTHERS_BYTES_MAX);
        }
    }
}

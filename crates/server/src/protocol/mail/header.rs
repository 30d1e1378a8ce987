//! The header of a message as it stands: fields found, left out and put in without a change to any other byte.

use std::net::IpAddr;

use content::mail::message::Envelope;

/// A header field with its continuation lines and line ends.
struct RawHeaderField<'m> {
    /// The bytes before the colon; empty for a line that is no field.
    name: &'m [u8],
    bytes: &'m [u8],
}

/// Fields of the header, one after the other; ends before the empty line, or at the end of the message.
struct RawHeaderFieldIter<'m> {
    rest: &'m [u8],
}

impl<'m> Iterator for RawHeaderFieldIter<'m> {
    type Item = RawHeaderField<'m>;

    fn next(&mut self) -> Option<RawHeaderField<'m>> {
        if self.rest.is_empty() || self.rest.starts_with(b"\n") || self.rest.starts_with(b"\r\n") {
            return None;
        }
        let mut end = line_end(self.rest);
        while matches!(self.rest.get(end), Some(b' ' | b'\t')) {
            end += line_end(&self.rest[end..]);
        }
        let (bytes, rest) = self.rest.split_at(end);
        self.rest = rest;
        let colon = bytes.iter().position(|byte| *byte == b':').unwrap_or(0);
        let name = bytes[..colon].trim_ascii_end();
        let is_name = name.iter().all(|byte| byte.is_ascii_graphic());
        Some(RawHeaderField { name: if is_name { name } else { &[] }, bytes })
    }
}

/// Behind the first line, its end included.
fn line_end(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1)
}

/// Most bytes of a field that are read: a thousand addresses, and more.
const VALUE_BYTES_MAX: usize = 512 << 10;

/// The value of a field on one line.
fn value(field: &RawHeaderField<'_>) -> String {
    let after = field.bytes.iter().position(|byte| *byte == b':').map_or(0, |colon| colon + 1);
    let bytes = &field.bytes[after..];
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(VALUE_BYTES_MAX)]);
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// The most bytes that an answer gives of a message's id: without its angle brackets, of printable ASCII only.
const MESSAGE_ID_BYTES_MAX: usize = 256;

/// The id of a message, fit for any answer.
pub fn message_id(message: &[u8]) -> Option<String> {
    let field = fields(message).find(|field| field.name.eq_ignore_ascii_case(b"Message-ID"))?;
    let value = value(&field);
    let id = value.split_once('<').map_or(value.as_str(), |(_, id)| id);
    let id = id.split_once('>').map_or(id, |(id, _)| id);
    let printable = |letter: char| if letter.is_ascii_graphic() { letter } else { '?' };
    let id: String = id.chars().take(MESSAGE_ID_BYTES_MAX).map(printable).collect();
    Some(id).filter(|id| !id.is_empty())
}

fn fields(message: &[u8]) -> RawHeaderFieldIter<'_> {
    RawHeaderFieldIter { rest: &message[mbox_line(message)..] }
}

/// Bytes of the line `From …` by which an mbox begins a message, its end included; 0 if there is none.
fn mbox_line(message: &[u8]) -> usize {
    if message.starts_with(b"From ") { line_end(message) } else { 0 }
}

/// A message as Exim hands it to scanners, behind an mbox line and the envelope as fields `X-Envelope-From` and
/// `X-Envelope-To`: what the envelope says, and the message as it came. Any other message is left as it is, but for an
/// mbox line.
pub fn unwrapped(message: &[u8]) -> (Envelope, &[u8]) {
    let start = mbox_line(message);
    let mut envelope = Envelope::default();
    if start == 0 {
        return (envelope, message);
    }
    // Only fields right behind the line are Exim's: further down they are anybody's.
    let mut fields = RawHeaderFieldIter { rest: &message[start..] };
    let mut rest = fields.rest;
    while let Some(field) = fields.next() {
        if field.name.eq_ignore_ascii_case(b"X-Envelope-From") && envelope.sender.is_none() {
            envelope.sender = Some(value(&field));
        } else if field.name.eq_ignore_ascii_case(b"X-Envelope-To") && envelope.recipients.is_empty() {
            envelope.recipients = addresses(&value(&field));
        } else {
            break;
        }
        rest = fields.rest;
    }
    (envelope, rest)
}

/// Splits at commas, but for those within the quotes of a local part such as `"a,b"@example.org`.
pub(crate) fn addresses(list: &str) -> Vec<String> {
    crate::protocol::input::split_addresses(list)
}

/// An address as clients write it, with or without brackets and an `IPv6:` before it.
pub(crate) fn ip(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches(['[', ']']);
    let text = text.strip_prefix("IPv6:").unwrap_or(text);
    text.parse().ok().map(|ip: IpAddr| ip.to_canonical())
}

/// The message with fields of these names put in on top, behind an mbox line and a `Return-Path`, in lines that end as
/// the message's own do, and without any older field whose name begins with one of `stale`, or is one that ends with a colon. What is put in is folded at
/// spaces and keeps to printable ASCII, whatever the values say.
pub fn marked(message: &[u8], added: &[(&str, String)], stale: &[&str]) -> Vec<u8> {
    let mut marked = Vec::with_capacity(message.len() + 1024);
    let start = mbox_line(message);
    marked.extend_from_slice(&message[..start]);
    let first_line = &message[..line_end(message)];
    // A carriage return at the very end begins a line end that does not come.
    let is_crlf = first_line.ends_with(b"\r\n") || first_line.ends_with(b"\r");
    let line_feed: &[u8] = if is_crlf { b"\r\n" } else { b"\n" };
    let mut fields = RawHeaderFieldIter { rest: &message[start..] };
    let mut first = fields.next();
    // What continues no field stays on top, too: it would continue one that is put before it.
    let on_top = |field: &mut RawHeaderField<'_>| {
        field.name.eq_ignore_ascii_case(b"Return-Path")
            || field.bytes.starts_with(b" ")
            || field.bytes.starts_with(b"\t")
    };
    if let Some(field) = first.take_if(on_top) {
        marked.extend_from_slice(field.bytes);
    }
    if !added.is_empty() && !marked.is_empty() && !marked.ends_with(b"\n") {
        marked.extend_from_slice(if marked.ends_with(b"\r") { b"\n" } else { line_feed });
    }
    for (name, value) in added {
        put(&mut marked, name, value, line_feed);
    }
    for field in first.into_iter().chain(&mut fields) {
        if !is_stale(&field, stale) {
            marked.extend_from_slice(field.bytes);
        }
    }
    marked.extend_from_slice(fields.rest);
    marked
}

/// The message without the fields whose names begin with one of `stale`.
pub fn without(message: &[u8], stale: &[&str]) -> Vec<u8> {
    marked(message, &[], stale)
}

/// The value of the first `Subject`, as it came: what stands between the colon and the line end behind it.
pub(crate) fn subject(message: &[u8]) -> Option<&[u8]> {
    let field = fields(message).find(is_subject)?;
    let colon = field.bytes.iter().position(|byte| *byte == b':')?;
    Some(&field.bytes[colon + 1..])
}

/// The message with another value of its first `Subject`, in lines that end as the message's own do; with the field on top if there
/// is none.
pub(crate) fn with_subject(message: &[u8], value: &[u8]) -> Vec<u8> {
    let mut fields = fields(message);
    let Some(field) = fields.find(is_subject) else {
        let value = String::from_utf8_lossy(value).into_owned();
        return marked(message, &[("Subject", value)], &[]);
    };
    let start = message.len() - fields.rest.len() - field.bytes.len();
    let line_feed: &[u8] = if message[..line_end(message)].ends_with(b"\r\n") { b"\r\n" } else { b"\n" };
    let mut changed = Vec::with_capacity(message.len() + value.len());
    changed.extend_from_slice(&message[..start]);
    changed.extend_from_slice(b"Subject: ");
    changed.extend_from_slice(&value.split(|byte| *byte == b'\n').collect::<Vec<_>>().join(line_feed));
    changed.extend_from_slice(line_feed);
    changed.extend_from_slice(&message[start + field.bytes.len()..]);
    changed
}

fn is_subject(field: &RawHeaderField<'_>) -> bool {
    field.name.eq_ignore_ascii_case(b"Subject")
}

/// The header of a message, with the empty line behind it.
pub fn only_header(message: &[u8]) -> &[u8] {
    let mut fields = fields(message);
    fields.by_ref().for_each(drop);
    let body = fields.rest;
    let end = if body.is_empty() { 0 } else { line_end(body) };
    &message[..message.len() - body.len() + end]
}

fn is_stale(field: &RawHeaderField<'_>, stale: &[&str]) -> bool {
    let is = |stale: &&str| match stale.strip_suffix(':') {
        Some(name) => field.name.eq_ignore_ascii_case(name.as_bytes()),
        None => field.name.get(..stale.len()).is_some_and(|name| name.eq_ignore_ascii_case(stale.as_bytes())),
    };
    stale.iter().any(is)
}

/// Longest line that is written where there is a space to fold at (RFC 5322, 2.1.1).
const FOLD: usize = 78;

fn put(out: &mut Vec<u8>, name: &str, value: &str, line_feed: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.push(b':');
    let mut column = name.len() + 1;
    for (index, line) in value.split('\n').enumerate() {
        if index > 0 {
            out.extend_from_slice(line_feed);
            out.push(b'\t');
            column = 8;
        }
        // A line of its own keeps its first spaces: reports are tables.
        let indent = line.len() - line.trim_start_matches(' ').len();
        for (index, word) in line[indent..].split(' ').enumerate() {
            let before = if index > 0 || name.len() + 1 == column { 1 } else { indent };
            if index > 0 && column + before + word.len() > FOLD {
                out.extend_from_slice(line_feed);
                out.push(b'\t');
                column = 8;
            } else {
                out.resize(out.len() + before, b' ');
                column += before;
            }
            out.extend(word.chars().map(|letter| match letter {
                ' '..='~' => letter as u8,
                _ => b'?',
            }));
            column += word.len();
        }
    }
    out.extend_from_slice(line_feed);
}

#[cfg(test)]
mod tests {
    use content::mail::message::RECIPIENTS_MAX;
    use proptest::prelude::*;

    use super::*;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn ids_are_harmless() {
        let check = |message: &str, expected: Option<&str>| {
            assert_eq!(message_id(message.as_bytes()).as_deref(), expected, "{message:?}");
        };
        check("Message-Id: <1@x.org>\n\n", Some("1@x.org"));
        check("From a\nSubject: x\nMESSAGE-ID:\n\t<1@x.org>\r\n\r\n", Some("1@x.org"));
        check("Message-Id: 1@x.org\n", Some("1@x.org"));
        check("Message-Id: <a\u{e9}\u{7} b>\n\n", Some("a???b"));
        check("Message-Id: <>\n\n", None);
        check("Subject: x\n\nMessage-Id: <1@x.org>\n", None);
    }

    #[test]
    fn exims_envelope_is_taken_off() {
        let message =
            b"From MAILER-DAEMON Sat\nX-Envelope-From: <a@x.org>\nX-Envelope-To: b@y.org, c@y.org\n\
            Received: from [127.0.0.1]\n\tby x\nX-Envelope-From: <forged@x.org>\n\nbody";
        let (envelope, rest) = unwrapped(message);
        assert_eq!(envelope.sender.as_deref(), Some("<a@x.org>"));
        assert_eq!(envelope.recipients, ["b@y.org", "c@y.org"]);
        assert!(text(rest).starts_with("Received: from [127.0.0.1]\n\tby x\nX-Envelope-From: <forged"));
        // Without the line of an mbox nothing is Exim's.
        let message = b"X-Envelope-From: <forged@x.org>\n\nbody";
        assert_eq!(unwrapped(message), (Envelope::default(), &message[..]));
        // However long a list is, as much of it is read as a message may have recipients.
        let message =
            format!("From a\nX-Envelope-From: {0}\nX-Envelope-To: {0}\n\nbody", "a,".repeat(1 << 20));
        let (envelope, rest) = unwrapped(message.as_bytes());
        assert_eq!((envelope.recipients.len(), rest), (RECIPIENTS_MAX, &b"\nbody"[..]));
        assert_eq!(envelope.sender.map(|sender| sender.len()), Some(VALUE_BYTES_MAX - 1));
    }

    #[test]
    fn fields_are_put_in_and_left_out() {
        let added = [("X-Spam-Flag", "YES".to_owned()), ("X-Spam-Report", "\n  1.0 A\n* 2.0 B".to_owned())];
        let check = |message: &str, expected: &str| {
            assert_eq!(text(&marked(message.as_bytes(), &added, &["X-Spam-"])), expected);
        };
        check(
            "Return-Path: <>\nA: b\nX-SPAM-Status: No,\n\tscore=0\nX-Spammer: c\n\nX-Spam-Flag: body",
            "Return-Path: <>\nX-Spam-Flag: YES\nX-Spam-Report: \n\t  1.0 A\n\t* 2.0 B\nA: b\nX-Spammer: c\n\nX-Spam-Flag: body",
        );
        check(
            "From x\r\nA: b\r\n\r\n",
            "From x\r\nX-Spam-Flag: YES\r\nX-Spam-Report: \r\n\t  1.0 A\r\n\t* 2.0 B\r\nA: b\r\n\r\n",
        );
        check("", "X-Spam-Flag: YES\nX-Spam-Report: \n\t  1.0 A\n\t* 2.0 B\n");
        check("\nbody", "X-Spam-Flag: YES\nX-Spam-Report: \n\t  1.0 A\n\t* 2.0 B\n\nbody");
        check(" c\n", " c\nX-Spam-Flag: YES\nX-Spam-Report: \n\t  1.0 A\n\t* 2.0 B\n");
        check("Return-Path: a", "Return-Path: a\nX-Spam-Flag: YES\nX-Spam-Report: \n\t  1.0 A\n\t* 2.0 B\n");
        check(
            "Return-Path: a\r",
            "Return-Path: a\r\nX-Spam-Flag: YES\r\nX-Spam-Report: \r\n\t  1.0 A\r\n\t* 2.0 B\r\n",
        );
    }

    #[test]
    fn subjects_are_changed_where_they_stand() {
        let check = |message: &str, expected: &str| {
            assert_eq!(text(&with_subject(message.as_bytes(), b"[SPAM]\n one")), expected);
        };
        check(
            "A: b\nSUBJECT: one\n two\nSubject: c\n\nbody",
            "A: b\nSubject: [SPAM]\n one\nSubject: c\n\nbody",
        );
        check("A: b\r\nsubject:one\r\n\r\nbody", "A: b\r\nSubject: [SPAM]\r\n one\r\n\r\nbody");
        check("From x\nSubject: one", "From x\nSubject: [SPAM]\n one\n");
        check("A: b\n\nSubject: body", "Subject: [SPAM]\n\t one\nA: b\n\nSubject: body");
        assert_eq!(subject(b"A: b\nSubject: one\n two\n\n"), Some(&b" one\n two\n"[..]));
        assert_eq!(subject(b"A: b\n\nSubject: body"), None);
    }

    #[test]
    fn long_values_are_folded() {
        let names: Vec<String> = (0..20).map(|number| format!("RULE_NUMBER_{number}")).collect();
        let marked = marked(b"A: b\n\n", &[("X-Spam-Status", names.join(" "))], &["X-Spam-"]);
        let header = only_header(&marked);
        assert!(text(header).lines().all(|line| line.len() <= FOLD), "{}", text(header));
        let unfolded = text(header).replace("\n\t", " ");
        assert!(unfolded.starts_with(&format!("X-Spam-Status: {}\n", names.join(" "))), "{unfolded}");
    }

    #[test]
    fn headers_end_at_the_empty_line() {
        let check = |message: &str, header: &str| assert_eq!(text(only_header(message.as_bytes())), header);
        check("A: b\n\nbody\n\n", "A: b\n\n");
        check("A: b\r\n\r\nbody", "A: b\r\n\r\n");
        check("A: b\n", "A: b\n");
        check("A: b", "A: b");
        check("", "");
    }

    proptest! {
        /// However a value reads, it makes no field of its own and ends no header.
        #[test]
        fn nothing_is_injected(value in "(?s).{0,200}", body in "(?s).{0,50}") {
            let message = format!("A: b\r\n\r\n{body}");
            let marked = marked(message.as_bytes(), &[("X-Spam-Status", value)], &["X-Spam-"]);
            let names: Vec<Vec<u8>> = fields(&marked).map(|field| field.name.to_vec()).collect();
            prop_assert_eq!(names, [b"X-Spam-Status".to_vec(), b"A".to_vec()]);
            prop_assert!(marked.ends_with(message.as_bytes()));
        }

        /// All other bytes stay.
        #[test]
        fn without_leaves_the_rest(message in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assume!(!message.to_ascii_lowercase().windows(7).any(|bytes| bytes == b"x-spam-"));
            let left = without(&message, &["X-Spam-"]);
            prop_assert!(left == message || (message.to_ascii_lowercase().starts_with(b"return-path") && left.starts_with(&message)));
        }
    }
}

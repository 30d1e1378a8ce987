//! The beginnings of a message's header and of its texts as they stand, for learners of runs of bytes
//! (`[[classifier]] runs`).
//!
//! What a message's author, its mailing list and the servers before the client wrote stays, and with it much of what tells
//! wanted mail from unwanted on a site. What delivery, filters and mailboxes here have added is left out: it says what was
//! already decided.

use std::fmt::Write;
use std::net::IpAddr;

use super::header_fingerprint::received_here;
use super::mime::MailHeader;
use crate::text::truncate;

/// Most bytes of the header, and of the texts.
pub(super) const START_BYTES_MAX: usize = 2_000;
/// Most bytes of a field.
const FIELD_BYTES_MAX: usize = 256;
/// Most fields that are read.
const FIELDS_MAX: usize = 100;

/// Fields that delivery, filters and mailboxes add, lower case.
const ADDED: [&str; 24] = [
    "authentication-results",
    "content-length",
    "delivered-to",
    "delivery-date",
    "envelope-to",
    "lines",
    "received-spf",
    "replied",
    "return-path",
    "status",
    "x-apparently-to",
    "x-bogosity",
    "x-delivered-to",
    "x-envelope-from",
    "x-envelope-to",
    "x-flags",
    "x-imapbase",
    "x-keywords",
    "x-original-to",
    "x-pmflags",
    "x-received",
    "x-status",
    "x-uid",
    "x-uidl",
];
/// Beginnings of the names of such fields.
const ADDED_STARTS: [&str; 17] = [
    "arc-",
    "x-amavis",
    "x-antispam",
    "x-antivirus",
    "x-dcc-",
    "x-evolution",
    "x-fetchmail",
    "x-gm-",
    "x-gnus-",
    "x-mailscanner",
    "x-mimedefang",
    "x-mozilla-",
    "x-pyzor",
    "x-rspamd",
    "x-scann",
    "x-spam",
    "x-virus",
];

/// The header's beginning as `name:value`, one field a line, behind a line of who handed the message over and as whom, if that is
/// known: the field of the server here that would say so is left out.
pub(super) fn header_start(header: &MailHeader<'_>, client: Option<IpAddr>, helo: Option<&str>) -> String {
    let mut start = String::new();
    if let Some(client) = client {
        // Writing to a string cannot fail.
        let _ = writeln!(start, "client:{client} {}", truncate(helo.unwrap_or_default(), FIELD_BYTES_MAX));
    }
    let mut received = received_here(header, client);
    for field in header.fields.iter().take(FIELDS_MAX) {
        if start.len() >= START_BYTES_MAX {
            break;
        }
        let name = field.name.to_ascii_lowercase();
        if name == "received" && received > 0 {
            received -= 1;
            continue;
        }
        if ADDED.contains(&name.as_str())
            || ADDED_STARTS.iter().any(|added| name.starts_with(added))
            || name.contains("spam")
        {
            continue;
        }
        start.push_str(truncate(field.name, FIELD_BYTES_MAX));
        start.push(':');
        start.push_str(truncate(&field.text(), FIELD_BYTES_MAX));
        start.push('\n');
    }
    truncate(&start, START_BYTES_MAX).to_owned()
}

/// Puts a text behind others, as far as there is room.
pub(super) fn add_text(start: &mut String, text: &str) {
    let room = START_BYTES_MAX.saturating_sub(start.len() + 1);
    if room > 0 && !text.is_empty() {
        if !start.is_empty() {
            start.push('\n');
        }
        start.push_str(truncate(text, room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::mime::Defects;

    fn start(raw: &str, client: Option<&str>) -> String {
        let (header, _) = MailHeader::read(raw.as_bytes(), &mut Defects::default());
        header_start(&header, client.map(|client| client.parse().unwrap()), Some("mail.example.com"))
    }

    #[test]
    fn what_was_added_here_is_left_out() {
        let raw = "Return-Path: <a@example.com>\r\nX-Spam-Status: Yes\r\nX-Spamd-Bar: +++\r\nDelivered-To: bob@example.org\r\n\
            Received: from mx (mx [10.0.0.1]) by store\r\nReceived: from relay.example.com (relay [192.0.2.7]) by mx\r\n\
            Received: from pc (pc [198.51.100.4]) by relay\r\nList-Id: <list.example.com>\r\nTo: bob@example.org\r\n\
            Subject: =?utf-8?q?caf=C3=A9?=\r\n\r\nbody";
        let kept = start(raw, Some("192.0.2.7"));
        assert_eq!(
            kept,
            "client:192.0.2.7 mail.example.com\nReceived:from pc (pc [198.51.100.4]) by relay\nList-Id:<list.example.com>\nTo:bob@example.org\n\
             Subject:=?utf-8?q?caf=C3=A9?=\n"
        );
    }

    #[test]
    fn beginnings_are_bounded() {
        let many: String = (0..300).map(|number| format!("X-{number}: {}\r\n", "ä".repeat(200))).collect();
        let kept = start(&many, None);
        assert!(kept.len() <= START_BYTES_MAX && kept.len() > START_BYTES_MAX - 4, "{}", kept.len());
        assert!(kept.lines().all(|line| line.len() <= FIELD_BYTES_MAX + 8));
        let mut text = String::new();
        add_text(&mut text, "");
        add_text(&mut text, "one");
        add_text(&mut text, &"ß".repeat(3_000));
        assert!(text.starts_with("one\nß") && text.len() <= START_BYTES_MAX, "{}", text.len());
        let before = text.clone();
        add_text(&mut text, "more");
        add_text(&mut text, "more");
        assert!(text.len() <= START_BYTES_MAX && text.starts_with(&before));
    }
}

//! The backup of SpamAssassin's Bayes filter, as `sa-learn --backup` writes it.
//!
//! ```text
//! v  3  db_version # this must be the first line!!!      version, number of spam, number of ham
//! v  120  num_spam
//! v  95  num_nonspam
//! t  2  0  1697462291  00b1f4c3a2                        token: in so much spam, in so much ham, last used, hash
//! s  s  1ca64c…@sa_generated                             message that was learned: as s(pam) or h(am), id
//! ```
//!
//! A token's hash is the end of a SHA-1, which nobody turns back into a word. A message's id is a SHA-1, too, but of the message
//! itself: whoever has the message finds what it was learned as.
//!
//! (Source: `Mail::SpamAssassin::BayesStore` and `Mail::SpamAssassin::Message` of SpamAssassin 4.0.)

use data_encoding::HEXLOWER;
use sha1::{Digest, Sha1};

use crate::mail::mime::encoded_word;

/// The versions of the format that are read.
pub const VERSIONS: std::ops::RangeInclusive<u64> = 2..=3;

/// The content of a line of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupLine<'x> {
    /// The version of the format; it comes first.
    Version(u64),
    /// The number of spam messages that were learned.
    Spam(u64),
    /// The number of wanted messages that were learned.
    Ham(u64),
    /// A token.
    Token,
    /// A message was learned.
    Seen {
        /// True for spam, false for wanted mail.
        spam: bool,
        /// One of its [`message_ids`].
        id: &'x str,
    },
}

/// Reads a line without its end; `None` if it is none of a backup.
pub fn line(text: &str) -> Option<BackupLine<'_>> {
    let mut words = text.split('\t');
    match (words.next()?, words.next()?, words.next()?) {
        ("v", number, what) => {
            let number = number.parse().ok()?;
            match what.split(' ').next()? {
                "db_version" => Some(BackupLine::Version(number)),
                "num_spam" => Some(BackupLine::Spam(number)),
                "num_nonspam" => Some(BackupLine::Ham(number)),
                _ => None,
            }
        }
        ("t", spam, ham) => {
            let numbers = [spam, ham].iter().all(|number| number.parse::<u64>().is_ok());
            numbers.then_some(BackupLine::Token)
        }
        ("s", class @ ("s" | "h"), id) => Some(BackupLine::Seen { spam: class == "s", id }),
        _ => None,
    }
}

/// The ids under which SpamAssassin may have learned a message: the SHA-1 of its last `To`, its last `Date` and the SHA-1 of its
/// body, as hexadecimal digits and `@sa_generated`; and its Message-ID, which old versions kept.
///
/// Of a message whose header is broken SpamAssassin may take another line for the body's first, and keep another id.
pub fn message_ids(raw: &[u8]) -> Vec<String> {
    let raw = match raw.starts_with(b"From ") {
        true => &raw[line_end(raw)..],
        false => raw,
    };
    let (first, last) = (&raw[..line_end(raw)], raw.split_inclusive(|byte| *byte == b'\n').next_back());
    let crlf = first.ends_with(b"\r\n") || last.is_some_and(|line| line.ends_with(b"\r\n"));
    let (mut to, mut date, mut message_id) = (None, None, None);
    let mut rest = raw;
    while !rest.is_empty() {
        let mut end = line_end(rest);
        if matches!(&rest[..end], b"\n" | b"\r\n") {
            rest = &rest[end..];
            break;
        }
        while matches!(rest.get(end), Some(b' ' | b'\t')) {
            end += line_end(&rest[end..]);
        }
        let (field, after) = rest.split_at(end);
        rest = after;
        let Some(colon) = field.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (field[..colon].trim_ascii_end(), &field[colon + 1..]);
        for (wanted, found) in [("To", &mut to), ("Date", &mut date), ("Message-Id", &mut message_id)] {
            if name.eq_ignore_ascii_case(wanted.as_bytes()) {
                *found = Some(value);
            }
        }
    }
    let mut body = Sha1::new();
    let mut lines = rest.split_inclusive(|byte| *byte == b'\n');
    lines.by_ref().for_each(|line| match line.strip_suffix(b"\r\n").filter(|_| crlf) {
        Some(line) => {
            body.update(line);
            body.update(b"\n");
        }
        None => body.update(line),
    });
    let body = HEXLOWER.encode(&body.finalize());
    let text =
        |value: Option<&[u8]>| value.map(|value| [&unfolded(value)[..], b"\n"].concat()).unwrap_or_default();
    let date = text(date);
    // Encoded words are decoded; where that is done otherwise than there, the id is of what stands.
    let decoded = to.map(|to| format!("{}\n", encoded_word::decode(to).trim()).into_bytes());
    let plain = text(to);
    let mut ids = Vec::new();
    for to in [Some(plain), decoded].into_iter().flatten() {
        let mut digest = Sha1::new();
        for part in [&to[..], b"\0", &date[..], b"\0", body.as_bytes()] {
            digest.update(part);
        }
        let id = format!("{}@sa_generated", HEXLOWER.encode(&digest.finalize()));
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let own = message_id.map(unfolded);
    let own = own.as_deref().and_then(|id| id.strip_prefix(b"<")?.strip_suffix(b">"));
    ids.extend(own.and_then(|id| String::from_utf8(id.to_vec()).ok()));
    ids
}

fn line_end(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1)
}

/// A value on one line: each fold with the blanks behind it is one blank.
fn unfolded(value: &[u8]) -> Vec<u8> {
    let mut unfolded = Vec::with_capacity(value.len());
    for (index, line) in value.trim_ascii().split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if index > 0 {
            unfolded.push(b' ');
        }
        unfolded.extend_from_slice(if index > 0 { line.trim_ascii_start() } else { line });
    }
    unfolded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_a_backup_are_read() {
        let check =
            |text: &str, expected: Option<BackupLine<'_>>| assert_eq!(line(text), expected, "{text:?}");
        check("v\t3\tdb_version # this must be the first line!!!", Some(BackupLine::Version(3)));
        check("v\t120\tnum_spam", Some(BackupLine::Spam(120)));
        check("v\t95\tnum_nonspam", Some(BackupLine::Ham(95)));
        check("t\t2\t0\t1697462291\t00b1f4c3a2", Some(BackupLine::Token));
        check("s\ts\tab@sa_generated", Some(BackupLine::Seen { spam: true, id: "ab@sa_generated" }));
        check("s\th\tab", Some(BackupLine::Seen { spam: false, id: "ab" }));
        check("s\tx\tab", None);
        check("t\tmany\t0\t1\tab", None);
        check("v\t3", None);
        check("From: a@example.org", None);
        check("", None);
    }

    #[test]
    fn a_message_has_one_id_however_its_lines_end() {
        let message = "From: a@example.org\nTo: b@example.net,\n\tc@example.net\nDate: Sun, 17 May 2026 09:59:00 +0000\n\
            Message-ID: <1@example.org>\n\nDear Bob,\nall is well.\n";
        let ids = message_ids(message.as_bytes());
        // sha1("b@example.net, c@example.net\n" NUL "Sun, …\n" NUL sha1("Dear Bob,\nall is well.\n"))
        assert_eq!(ids, ["9e16c16b683110ed86490b6fb98d8ed4a6fb7a4f@sa_generated", "1@example.org"]);
        assert_eq!(message_ids(message.replace('\n', "\r\n").as_bytes()), ids);
        assert_eq!(message_ids(format!("From x Sun May 17\n{message}").as_bytes()), ids);
        assert_ne!(message_ids(message.replace("well", "bad").as_bytes())[0], ids[0]);
        assert_eq!(message_ids(b"").len(), 1);
    }

    #[test]
    fn encoded_words_have_both_forms() {
        let ids = message_ids(b"To: =?utf-8?q?B=C3=B6b?= <b@example.net>\n\nHello\n");
        assert_eq!(ids.len(), 2);
    }

    proptest! {
        #[test]
        fn nothing_panics(raw in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(!message_ids(&raw).is_empty());
            let _ = line(&String::from_utf8_lossy(&raw));
        }
    }
}

//! The skeleton of a message: header fields and the leaf parts of its MIME tree (RFC 5322, RFC 2045–2049).
//!
//! The walk over fields and parts has to be linear and flat for any input. A parser of whole messages searches
//! the rest of the message for each boundary that never comes, and nests its result as deep as the sender likes;
//! this one goes over the delimiter lines once, with a stack of at most [`DEPTH_MAX`] open levels, and returns a
//! flat list. Addresses and `Received` fields are read by `mail-parser`; encoded words, parameters and transfer
//! encodings here ([`encoded_word`], [`media_type`], [`decode`]), because hostile mail breaks them where readers mend them.

mod decode;
pub(crate) mod encoded_word;
mod header;
mod media_type;
mod part;
#[cfg(test)]
mod peer;
mod uuencode;

use std::borrow::Cow;

use memchr::memmem;

use crate::budget::Budget;
use header::{split_line, trim_line_end};
use media_type::MediaType;
use uuencode::ExtractedFiles;

pub(crate) use header::{HeaderField, MailHeader};
pub(crate) use part::{MimePart, PartRole, TransferEncoding};

/// Most header fields that are kept of one header; the rest is only counted.
pub(crate) const FIELDS_MAX: usize = 1_000;
/// Most bytes of one field that are parsed.
pub(crate) const FIELD_BYTES_MAX: usize = 8 * 1024;
/// Most leaf parts; the rest of the message is then not looked at.
pub(crate) const PARTS_MAX: usize = 1_000;
/// Most levels of multiparts and attached messages; a deeper one is a leaf.
pub(crate) const DEPTH_MAX: usize = 20;
/// Most bytes, still encoded, of attached messages in an encoding that are decoded and taken apart.
const ENCODED_MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Steps of a byte that is looked over for fields and delimiters.
const STEPS_A_BYTE: u64 = 5;
/// Steps of a line that may delimit, and of each of its bytes: it is compared at each level.
const LINE_STEPS: u64 = 50;
const STEPS_A_LINE_BYTE: u64 = 2;
/// Steps of a part: its fields, type and name.
const PART_STEPS: u64 = 2_000;
/// Steps of a byte that is decoded.
const STEPS_A_DECODED_BYTE: u64 = 3;

/// The faults of a message's form. Each is said once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    BadEncoding,
    DuplicateField,
    MissingBoundary,
    NoBlankLine,
    RawHeader,
    TooDeep,
    TooLarge,
    TooManyFields,
    TooManyParts,
    Unclosed,
}

impl Defect {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Defect::BadEncoding => "bad-encoding",
            Defect::DuplicateField => "duplicate-field",
            Defect::MissingBoundary => "missing-boundary",
            Defect::NoBlankLine => "no-blank-line",
            Defect::RawHeader => "raw-header",
            Defect::TooDeep => "too-deep",
            Defect::TooLarge => "too-large",
            Defect::TooManyFields => "too-many-fields",
            Defect::TooManyParts => "too-many-parts",
            Defect::Unclosed => "unclosed",
        }
    }
}

/// The defects found so far, in order.
#[derive(Debug, Default)]
pub(crate) struct Defects(Vec<Defect>);

impl Defects {
    pub(crate) fn add(&mut self, defect: Defect) {
        if !self.0.contains(&defect) {
            self.0.push(defect);
        }
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.0.iter().map(|defect| defect.name().to_owned()).collect()
    }
}

/// A multipart or an attached message that is open while the walk goes over its content.
struct MimeLevel<'x> {
    /// `None` for an attached message, which ends where the multipart around it goes on.
    boundary: Option<Vec<u8>>,
    alternative: Option<usize>,
    /// Its content, and whether a part was found in it.
    content: &'x [u8],
    found: bool,
    is_digest: bool,
}

/// A message taken apart.
#[derive(Debug)]
pub(crate) struct ParsedMessage<'x> {
    pub(crate) header: MailHeader<'x>,
    pub(crate) parts: Vec<MimePart<'x>>,
    pub(crate) defects: Defects,
}

struct MimeWalker<'x> {
    levels: Vec<MimeLevel<'x>>,
    /// The leaf whose end has not been met yet; its body reaches to the end of the message meanwhile.
    leaf: Option<MimePart<'x>>,
    parts: Vec<MimePart<'x>>,
    alternatives: usize,
    defects: Defects,
}

/// Takes a message apart, with the messages that are attached to it in an encoding and the files that stand in
/// its text.
pub(crate) fn walk<'x>(raw: &'x [u8], budget: &Budget) -> ParsedMessage<'x> {
    let mut skeleton = walk_plain(raw, budget);
    let mut bytes_left = ENCODED_MESSAGE_BYTES_MAX;
    let found = std::mem::take(&mut skeleton.parts);
    let mut still = found.len();
    for part in found {
        still -= 1;
        let parts = opened(part, &mut bytes_left, &mut skeleton.defects, budget);
        let room = PARTS_MAX - still - skeleton.parts.len();
        if parts.len() > room {
            skeleton.defects.add(Defect::TooManyParts);
        }
        skeleton.parts.extend(parts.into_iter().take(room));
    }
    skeleton
}

/// The parts in a part that is a message in an encoding or a text with files in it; else the part itself.
fn opened<'x>(
    part: MimePart<'x>,
    bytes_left: &mut usize,
    defects: &mut Defects,
    budget: &Budget,
) -> Vec<MimePart<'x>> {
    if part.media_type == "message/rfc822" {
        let bytes = budget.afford(part.encoded_len().min(*bytes_left), STEPS_A_DECODED_BYTE);
        let content = part.decode(bytes, defects);
        *bytes_left = bytes_left.saturating_sub(part.encoded_len());
        let inner = walk_plain(&content, budget);
        inner.defects.0.into_iter().for_each(|defect| defects.add(defect));
        return inner.parts.into_iter().map(MimePart::into_owned).collect();
    }
    if part.role == PartRole::Plain
        && part.encoding == TransferEncoding::Identity
        && budget.spend(STEPS_A_DECODED_BYTE * part.encoded_len() as u64)
        && let Some(ExtractedFiles { files, text }) = uuencode::take_out(&part.body)
    {
        let files = files.into_iter().map(|(name, content)| MimePart::file(name, content));
        return std::iter::once(MimePart { body: Cow::Owned(text), ..part }).chain(files).collect();
    }
    vec![part]
}

/// Takes a message apart in one pass.
fn walk_plain<'x>(raw: &'x [u8], budget: &Budget) -> ParsedMessage<'x> {
    let mut defects = Defects::default();
    let raw = budget.cut_bytes(raw, STEPS_A_BYTE);
    let (header, body) = MailHeader::read(raw, &mut defects);
    let mut walk = MimeWalker { levels: Vec::new(), leaf: None, parts: Vec::new(), alternatives: 0, defects };
    walk.open(&header, body);

    // Delimiter lines: at the body's start, and after each line end.
    let start = raw.len() - body.len();
    let first = body.starts_with(b"--").then_some(start);
    let others = memmem::find_iter(body, b"\n--").map(|at| start + at + 1);
    let mut read_to = start;
    for at in first.into_iter().chain(others) {
        // Lines that a nested header has taken cannot be delimiters.
        if walk.levels.is_empty() || at < read_to {
            continue;
        }
        let Some((line, after)) = split_line(&raw[at..]) else { break };
        if !budget.spend(LINE_STEPS + STEPS_A_LINE_BYTE * line.len() as u64) {
            break;
        }
        let Some((level, closes)) = walk.matches(line.trim_ascii_end()) else { continue };
        walk.close(level, at, raw);
        if !budget.spend(PART_STEPS) {
            break;
        }
        if closes {
            walk.finish(level, at, raw);
        } else if walk.parts.len() >= PARTS_MAX {
            walk.defects.add(Defect::TooManyParts);
            walk.levels.clear();
            break;
        } else {
            walk.levels[level].found = true;
            let ends = |line: &[u8]| level_of(&walk.levels, line.trim_ascii_end()).is_some();
            let (header, body) = MailHeader::read_until(after, ends, &mut walk.defects);
            read_to = raw.len() - body.len();
            walk.open(&header, body);
        }
    }
    walk.end(raw);
    ParsedMessage { header, parts: walk.parts, defects: walk.defects }
}

/// The innermost open level that a line delimits, and true if the line closes it.
fn level_of(levels: &[MimeLevel<'_>], line: &[u8]) -> Option<(usize, bool)> {
    let line = line.strip_prefix(b"--")?;
    let closing = line.strip_suffix(b"--");
    levels.iter().enumerate().rev().find_map(|(number, level)| {
        let boundary = level.boundary.as_deref()?;
        match boundary {
            _ if boundary == line => Some((number, false)),
            _ if Some(boundary) == closing => Some((number, true)),
            _ => None,
        }
    })
}

impl<'x> MimeWalker<'x> {
    fn matches(&self, line: &[u8]) -> Option<(usize, bool)> {
        level_of(&self.levels, line)
    }

    /// Begins a part: a level for what contains others, else a leaf.
    fn open(&mut self, header: &MailHeader<'x>, body: &'x [u8]) {
        let mut header = Cow::<MailHeader<'x>>::Borrowed(header);
        let mut body = body;
        loop {
            let mut kind = header.media_type("Content-Type");
            if header.all("Content-Type").nth(1).is_some() {
                self.defects.add(Defect::DuplicateField);
            }
            // What stands in a digest without a type is a message (RFC 2046, 5.1.5).
            if kind.is_none() && self.levels.last().is_some_and(|level| level.is_digest) {
                kind = Some(MediaType::parse(b"message/rfc822"));
            }
            let (main, sub) = kind.as_ref().map_or(("text", "plain"), |kind| (&kind.main, &kind.sub));
            let encoding = TransferEncoding::of(&header);
            let boundary = kind.as_ref().filter(|_| main == "multipart");
            let boundary = boundary.and_then(|kind| kind.parameter("boundary")).map(str::trim_end);
            let boundary = boundary.filter(|boundary| !boundary.is_empty());
            let around = self.levels.last().and_then(|level| level.alternative);
            let is_message = main == "message"
                && matches!(sub, "rfc822" | "global")
                && encoding == TransferEncoding::Identity;
            if main == "multipart" && boundary.is_none() {
                self.defects.add(Defect::MissingBoundary);
            }
            if boundary.is_some() || is_message {
                if self.levels.len() < DEPTH_MAX {
                    let alternative = if sub == "alternative" {
                        self.alternatives += 1;
                        Some(self.alternatives)
                    } else {
                        around
                    };
                    let boundary = boundary.map(|boundary| boundary.as_bytes().to_vec());
                    let is_digest = boundary.is_some() && sub == "digest";
                    self.levels.push(MimeLevel {
                        boundary,
                        alternative,
                        content: body,
                        found: is_message,
                        is_digest,
                    });
                    if !is_message {
                        return;
                    }
                    let ends = |line: &[u8]| level_of(&self.levels, line.trim_ascii_end()).is_some();
                    let (inner, rest) = MailHeader::read_until(body, ends, &mut self.defects);
                    header = Cow::Owned(inner);
                    body = rest;
                    continue;
                }
                self.defects.add(Defect::TooDeep);
            }
            self.leaf = Some(MimePart::new(&header, kind.as_ref(), encoding, around, body));
            return;
        }
    }

    /// A delimiter of `level` stands at `at`: ends the open leaf and all levels within.
    fn close(&mut self, level: usize, at: usize, raw: &'x [u8]) {
        if let Some(mut leaf) = self.leaf.take() {
            if let Cow::Borrowed(body) = leaf.body {
                leaf.body = Cow::Borrowed(until(body, at, raw));
            }
            self.parts.push(leaf);
        }
        while self.levels.len() > level + 1 {
            if self.levels.last().is_some_and(|level| level.boundary.is_some()) {
                self.defects.add(Defect::Unclosed);
            }
            self.finish(self.levels.len() - 1, at, raw);
        }
    }

    /// Takes the innermost level off; if no part was found in it, its content is one, as text.
    fn finish(&mut self, level: usize, at: usize, raw: &'x [u8]) {
        let Some(level) = self.levels.get(level).is_some().then(|| self.levels.pop()).flatten() else {
            return;
        };
        if !level.found && self.parts.len() < PARTS_MAX {
            self.defects.add(Defect::MissingBoundary);
            let body = until(level.content, at, raw);
            self.parts.push(MimePart::new(
                &MailHeader::default(),
                None,
                TransferEncoding::Identity,
                level.alternative,
                body,
            ));
        }
    }

    /// The message ends.
    fn end(&mut self, raw: &'x [u8]) {
        if let Some(leaf) = self.leaf.take() {
            self.parts.push(leaf);
        }
        while let Some(level) = self.levels.len().checked_sub(1) {
            if self.levels[level].boundary.is_some() && self.levels[level].found {
                self.defects.add(Defect::Unclosed);
            }
            self.finish(level, raw.len(), raw);
        }
    }
}

/// The part of `body`, a tail of `raw`, that lies before the delimiter at `at`; its line end belongs to the
/// delimiter.
fn until<'x>(body: &'x [u8], at: usize, raw: &'x [u8]) -> &'x [u8] {
    let start = raw.len() - body.len();
    let body = raw.get(start..at).unwrap_or_default();
    if at == raw.len() { body } else { trim_line_end(body) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &str, parts: &[(&str, &str)], defects: &[&str]) {
        let skeleton = walk(raw.as_bytes(), &Budget::ample());
        let mut all = Defects::default();
        let found: Vec<(String, String)> = skeleton
            .parts
            .iter()
            .map(|part| (part.media_type.clone(), part.text(&part.decode(1_000, &mut all)).into_owned()))
            .collect();
        let expected: Vec<(String, String)> =
            parts.iter().map(|&(kind, text)| (kind.to_owned(), text.to_owned())).collect();
        assert_eq!(found, expected, "{raw:?}");
        assert_eq!(skeleton.defects.names(), defects, "{raw:?}");
    }

    #[test]
    fn messages_come_apart() {
        check("Subject: x\n\nhello\n", &[("text/plain", "hello\n")], &[]);
        check("no header at all\n", &[("text/plain", "no header at all\n")], &["no-blank-line"]);
        check("", &[("text/plain", "")], &[]);
        check(
            "Content-Type: multipart/mixed; boundary=b\r\n\r\npre\r\n--b\r\n\r\none\r\n--b\r\n\
             Content-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\ndHdv\r\n--b--\r\nepilogue",
            &[("text/plain", "one"), ("text/html", "two")],
            &[],
        );
        check(
            "Content-Type: multipart/mixed; boundary=a\n\n--a\nContent-Type: multipart/alternative; boundary=b\n\n\
             --b\n\n1\n--b\n\n2\n--a\n\n3\n",
            &[("text/plain", "1"), ("text/plain", "2"), ("text/plain", "3\n")],
            &["unclosed"],
        );
        check(
            "Content-Type: multipart/mixed; boundary=a\n\n--a\nContent-Type: message/rfc822\n\n\
             Subject: in\nContent-Type: text/html\n\nhi\n--a--\n",
            &[("text/html", "hi")],
            &[],
        );
        check(
            "Content-Type: multipart/mixed; boundary=a\n\nhi\n",
            &[("text/plain", "hi\n")],
            &["missing-boundary"],
        );
        check(
            "Content-Type: multipart/mixed; boundary=\"\"\n\nhi\n-- \nme\n",
            &[("multipart/mixed", "hi\n-- \nme\n")],
            &["missing-boundary"],
        );
        check("Content-Type: multipart/mixed\n\nhi\n", &[("multipart/mixed", "hi\n")], &["missing-boundary"]);
        check(
            "Content-Type: text/plain; charset=koi8-r\nContent-Transfer-Encoding: quoted-printable\n\n=F0=F2=E9",
            &[("text/plain", "ПРИ")],
            &[],
        );
    }

    #[test]
    fn nesting_and_numbers_are_bounded() {
        let deep = "Content-Type: message/rfc822\n\n".repeat(50_000);
        let skeleton = walk(deep.as_bytes(), &Budget::ample());
        assert_eq!((skeleton.parts.len(), skeleton.defects.names()), (1, vec!["too-deep".to_owned()]));

        let many = format!("Content-Type: multipart/mixed; boundary=b\n\n{}", "--b\n\nx\n".repeat(10_000));
        let skeleton = walk(many.as_bytes(), &Budget::ample());
        assert_eq!(
            (skeleton.parts.len(), skeleton.defects.names()),
            (PARTS_MAX, vec!["too-many-parts".to_owned()])
        );

        let lost = "--b\nContent-Type: multipart/mixed; boundary=nowhere\n\n".repeat(900);
        let lost = format!("Content-Type: multipart/mixed; boundary=b\n\n{lost}");
        assert_eq!(walk(lost.as_bytes(), &Budget::ample()).parts.len(), 900);

        let fields = "X: y\n".repeat(2 * FIELDS_MAX);
        let skeleton = walk(fields.as_bytes(), &Budget::ample());
        assert_eq!((skeleton.header.fields.len(), skeleton.header.count), (FIELDS_MAX, 2 * FIELDS_MAX));
    }

    #[test]
    fn fields_unfold_and_decode() {
        let raw = b"From x@y Thu Aug 22 12:36:23 2002\nSubject: =?utf-8?q?h=C3=A9?=\n llo\nX-A : b";
        let mut defects = Defects::default();
        let (header, rest) = MailHeader::read(raw, &mut defects);
        assert_eq!(header.get("subject").map(HeaderField::unstructured).as_deref(), Some("h\u{e9} llo"));
        assert_eq!(header.get("x-a").map(HeaderField::text).as_deref(), Some("b"));
        assert!(header.mbox.is_some() && rest.is_empty() && defects.names().is_empty());
    }
}

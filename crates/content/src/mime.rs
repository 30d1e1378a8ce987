//! The skeleton of a message: header fields and the leaf parts of its MIME tree (RFC 5322, RFC 2045–2049).
//!
//! `mail-parser` reads what is hard to read (addresses, encoded words, parameters, `Received`, transfer encodings
//! and charsets); the walk over fields and parts is here, because it has to be linear and flat for any input.
//! A parser of whole messages searches the rest of the message for each boundary that never comes, and nests its
//! result as deep as the sender likes; this one goes over the delimiter lines once, with a stack of at most
//! [`DEPTH_MAX`] open levels, and returns a flat list.

use std::borrow::Cow;

use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::parsers::MessageStream;
use mail_parser::{ContentType, HeaderValue};
use memchr::{memchr, memmem};

/// Most header fields that are kept of one header; the rest is only counted.
pub(crate) const FIELDS_MAX: usize = 1_000;
/// Most bytes of one field that are parsed.
pub(crate) const FIELD_BYTES_MAX: usize = 8 * 1024;
/// Most leaf parts; the rest of the message is then not looked at.
pub(crate) const PARTS_MAX: usize = 1_000;
/// Most levels of multiparts and attached messages; a deeper one is a leaf.
pub(crate) const DEPTH_MAX: usize = 20;

/// What is wrong with a message's form. Each is said once.
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

/// One header field; the value is as it stands, folded, with its line end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'x> {
    pub(crate) name: &'x str,
    value: &'x [u8],
}

impl<'x> Field<'x> {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// The value as it stands, bounded and trimmed; bytes that are not UTF-8 are replaced.
    pub(crate) fn text(&self) -> Cow<'x, str> {
        String::from_utf8_lossy(self.bounded().trim_ascii())
    }

    /// The value as one of `mail-parser`'s field parsers reads it. Those want a line end, and some of them look
    /// back over the whole field at each encoded word: hence the bound.
    pub(crate) fn parse(
        &self,
        how: for<'y> fn(&mut MessageStream<'y>) -> HeaderValue<'y>,
    ) -> HeaderValue<'static> {
        let bounded = self.bounded();
        if bounded.ends_with(b"\n") {
            return how(&mut MessageStream::new(bounded)).into_owned();
        }
        let mut line = bounded.to_vec();
        line.push(b'\n');
        how(&mut MessageStream::new(&line)).into_owned()
    }

    /// The value with encoded words decoded and folding undone.
    pub(crate) fn unstructured(&self) -> String {
        match self.parse(|stream| stream.parse_unstructured()) {
            HeaderValue::Text(text) => text.into_owned(),
            _ => String::new(),
        }
    }

    pub(crate) fn is_ascii(&self) -> bool {
        self.value.is_ascii()
    }

    fn bounded(&self) -> &'x [u8] {
        &self.value[..self.value.len().min(FIELD_BYTES_MAX)]
    }
}

/// The fields of one header, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Header<'x> {
    pub(crate) fields: Vec<Field<'x>>,
    /// How many there are, those that were not kept included.
    pub(crate) count: usize,
    /// The `From ` line of an mbox that stood before them.
    pub(crate) mbox: Option<&'x [u8]>,
}

impl<'x> Header<'x> {
    /// Reads fields up to an empty line or to a line that is no field; returns them and what follows.
    pub(crate) fn read(raw: &'x [u8], defects: &mut Defects) -> (Header<'x>, &'x [u8]) {
        let mut header = Header::default();
        let mut rest = raw;
        while let Some((line, after)) = split_line(rest) {
            let content = trim_line_end(line);
            if content.is_empty() {
                return (header, after);
            }
            if content.starts_with(b"From ") || content.starts_with(b">From ") {
                header.mbox = header.mbox.or((header.count == 0).then_some(content));
                rest = after;
                continue;
            }
            let Some((name, colon)) = field_name(content) else {
                defects.add(Defect::NoBlankLine);
                return (header, rest);
            };
            let mut length = line.len();
            while rest.get(length).is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
                length += split_line(&rest[length..]).map_or(0, |(line, _)| line.len());
            }
            let (field, after) = rest.split_at(length);
            rest = after;
            header.count += 1;
            if header.fields.len() < FIELDS_MAX {
                header.fields.push(Field { name, value: &field[colon + 1..] });
            } else {
                defects.add(Defect::TooManyFields);
            }
        }
        (header, rest)
    }

    /// The first field of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Field<'x>> {
        self.fields.iter().find(|field| field.is(name))
    }

    /// All fields of this name.
    pub(crate) fn all<'h>(&'h self, name: &'h str) -> impl Iterator<Item = &'h Field<'x>> {
        self.fields.iter().filter(move |field| field.is(name))
    }

    fn content_type(&self, name: &str) -> Option<ContentType<'static>> {
        match self.get(name)?.parse(|stream| stream.parse_content_type()) {
            HeaderValue::ContentType(kind) => Some(kind),
            _ => None,
        }
    }
}

/// Splits off one line with its end.
fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    if bytes.is_empty() {
        return None;
    }
    Some(bytes.split_at(memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1)))
}

fn trim_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The name that a field's line starts with, and where its colon is.
fn field_name(line: &[u8]) -> Option<(&str, usize)> {
    let colon = memchr(b':', &line[..line.len().min(256)])?;
    let name = line[..colon].trim_ascii_end();
    let valid = !name.is_empty() && name.iter().all(|byte| byte.is_ascii_graphic());
    Some((std::str::from_utf8(name).ok().filter(|_| valid)?, colon))
}

/// How a part's bytes are wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    QuotedPrintable,
    Base64,
}

/// What a part is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    Html,
    Attachment,
}

/// A leaf of the MIME tree.
#[derive(Debug)]
pub(crate) struct Part<'x> {
    pub(crate) role: Role,
    /// `type/subtype`, lower case.
    pub(crate) media_type: String,
    pub(crate) charset: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) encoding: Encoding,
    /// The number of the innermost multipart/alternative around it.
    pub(crate) alternative: Option<usize>,
    body: &'x [u8],
}

impl<'x> Part<'x> {
    /// Length of the encoded body.
    pub(crate) fn encoded_len(&self) -> usize {
        self.body.len()
    }

    /// The content of the part's first `bytes_max` encoded bytes. What base64 does not know is skipped.
    pub(crate) fn decode(&self, bytes_max: usize, defects: &mut Defects) -> Cow<'x, [u8]> {
        let body = &self.body[..self.body.len().min(bytes_max)];
        match self.encoding {
            Encoding::Identity => Cow::Borrowed(body),
            Encoding::QuotedPrintable => MessageStream::new(body).decode_quoted_printable_mime(b"").1,
            Encoding::Base64 => match MessageStream::new(body).decode_base64_mime(b"") {
                (usize::MAX, _) => {
                    defects.add(Defect::BadEncoding);
                    let known = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
                    let clean: Vec<u8> = body.iter().copied().filter(known).collect();
                    Cow::Owned(base64_decode(&clean).unwrap_or_default())
                }
                (_, decoded) => decoded,
            },
        }
    }

    /// Decoded bytes as text: by the declared charset, else UTF-8, else Windows-1252, which reads anything.
    pub(crate) fn text<'b>(&self, decoded: &'b [u8]) -> Cow<'b, str> {
        if decoded.is_ascii() && !self.charset.as_deref().is_some_and(is_ascii_incompatible) {
            return String::from_utf8_lossy(decoded);
        }
        if let Some(decode) = self.charset.as_ref().and_then(|charset| charset_decoder(charset.as_bytes())) {
            return Cow::Owned(decode(decoded));
        }
        match (std::str::from_utf8(decoded), charset_decoder(b"windows-1252")) {
            (Ok(text), _) => Cow::Borrowed(text),
            (Err(_), Some(decode)) => Cow::Owned(decode(decoded)),
            (Err(_), None) => String::from_utf8_lossy(decoded),
        }
    }
}

/// Charsets in which ASCII bytes can mean something else.
fn is_ascii_incompatible(charset: &str) -> bool {
    let charset = charset.as_bytes();
    let starts =
        |prefix: &[u8]| charset.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    starts(b"utf-7") || starts(b"utf-16") || starts(b"iso-2022") || starts(b"hz") || starts(b"utf7")
}

/// A multipart or an attached message that is open while the walk goes over its content.
struct Level<'x> {
    /// `None` for an attached message, which ends where the multipart around it goes on.
    boundary: Option<Vec<u8>>,
    alternative: Option<usize>,
    /// Its content, and whether a part was found in it.
    content: &'x [u8],
    found: bool,
}

/// A message taken apart.
#[derive(Debug)]
pub(crate) struct Skeleton<'x> {
    pub(crate) header: Header<'x>,
    pub(crate) parts: Vec<Part<'x>>,
    pub(crate) defects: Defects,
}

struct Walk<'x> {
    levels: Vec<Level<'x>>,
    /// The leaf whose end has not been met yet; its body reaches to the end of the message meanwhile.
    leaf: Option<Part<'x>>,
    parts: Vec<Part<'x>>,
    alternatives: usize,
    defects: Defects,
}

/// Takes a message apart in one pass.
pub(crate) fn walk(raw: &[u8]) -> Skeleton<'_> {
    let mut defects = Defects::default();
    let (header, body) = Header::read(raw, &mut defects);
    let mut walk = Walk { levels: Vec::new(), leaf: None, parts: Vec::new(), alternatives: 0, defects };
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
        let Some((level, closes)) = walk.matches(line.trim_ascii_end()) else { continue };
        walk.close(level, at, raw);
        if closes {
            walk.finish(level, at, raw);
        } else if walk.parts.len() >= PARTS_MAX {
            walk.defects.add(Defect::TooManyParts);
            walk.levels.clear();
            break;
        } else {
            walk.levels[level].found = true;
            let (header, body) = Header::read_part(after, &walk.levels, &mut walk.defects);
            read_to = raw.len() - body.len();
            walk.open(&header, body);
        }
    }
    walk.end(raw);
    Skeleton { header, parts: walk.parts, defects: walk.defects }
}

impl<'x> Header<'x> {
    /// As [`Header::read`], but a delimiter of an open level ends the header too: a part may have no empty line.
    fn read_part(raw: &'x [u8], levels: &[Level<'x>], defects: &mut Defects) -> (Header<'x>, &'x [u8]) {
        if raw.starts_with(b"--")
            && level_of(levels, trim_line_end(split_line(raw).map_or(raw, |(line, _)| line))).is_some()
        {
            return (Header::default(), raw);
        }
        Header::read(raw, defects)
    }
}

/// Which open level a line delimits, innermost first, and whether it closes it.
fn level_of(levels: &[Level<'_>], line: &[u8]) -> Option<(usize, bool)> {
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

impl<'x> Walk<'x> {
    fn matches(&self, line: &[u8]) -> Option<(usize, bool)> {
        level_of(&self.levels, line)
    }

    /// Begins a part: a level for what contains others, else a leaf.
    fn open(&mut self, header: &Header<'x>, body: &'x [u8]) {
        let mut header = Cow::<Header<'x>>::Borrowed(header);
        let mut body = body;
        loop {
            let kind = header.content_type("Content-Type");
            let (main, sub) =
                kind.as_ref().map_or(("text", "plain"), |kind| (kind.ctype(), kind.subtype().unwrap_or("")));
            let encoding =
                match header.get("Content-Transfer-Encoding").map(Field::text).as_deref().map(str::trim) {
                    Some(name) if name.eq_ignore_ascii_case("base64") => Encoding::Base64,
                    Some(name) if name.eq_ignore_ascii_case("quoted-printable") => Encoding::QuotedPrintable,
                    _ => Encoding::Identity,
                };
            let boundary = kind.as_ref().filter(|_| main == "multipart");
            let boundary = boundary.and_then(|kind| kind.attribute("boundary")).map(str::trim_end);
            let boundary = boundary.filter(|boundary| !boundary.is_empty());
            let around = self.levels.last().and_then(|level| level.alternative);
            let is_message =
                main == "message" && matches!(sub, "rfc822" | "global") && encoding == Encoding::Identity;
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
                    self.levels.push(Level { boundary, alternative, content: body, found: is_message });
                    if !is_message {
                        return;
                    }
                    let (inner, rest) = Header::read_part(body, &self.levels, &mut self.defects);
                    header = Cow::Owned(inner);
                    body = rest;
                    continue;
                }
                self.defects.add(Defect::TooDeep);
            }
            self.leaf = Some(leaf(&header, kind.as_ref(), encoding, around, body));
            return;
        }
    }

    /// A delimiter of `level` stands at `at`: ends the open leaf and all levels within.
    fn close(&mut self, level: usize, at: usize, raw: &'x [u8]) {
        if let Some(mut leaf) = self.leaf.take() {
            leaf.body = until(leaf.body, at, raw);
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
            self.parts.push(leaf(&Header::default(), None, Encoding::Identity, level.alternative, body));
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

fn leaf<'x>(
    header: &Header<'x>,
    kind: Option<&ContentType<'static>>,
    encoding: Encoding,
    alternative: Option<usize>,
    body: &'x [u8],
) -> Part<'x> {
    let disposition = header.content_type("Content-Disposition");
    let attribute =
        |of: Option<&ContentType<'static>>, name| of.and_then(|of| of.attribute(name)).map(str::to_owned);
    let name = attribute(disposition.as_ref(), "filename").or_else(|| attribute(kind, "name"));
    let (main, sub) = kind.map_or(("text", "plain"), |kind| (kind.ctype(), kind.subtype().unwrap_or("")));
    let attached = disposition.as_ref().is_some_and(|disposition| disposition.ctype() == "attachment");
    let role = match (main, sub) {
        _ if attached => Role::Attachment,
        ("text", "html") | ("application", "xhtml+xml") => Role::Html,
        ("text", "calendar" | "vcard" | "x-vcard" | "directory") => Role::Attachment,
        ("text" | "message" | "multipart", _) => Role::Plain,
        _ => Role::Attachment,
    };
    let media_type = if sub.is_empty() { main.to_owned() } else { format!("{main}/{sub}") };
    Part { role, media_type, charset: attribute(kind, "charset"), name, encoding, alternative, body }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &str, parts: &[(&str, &str)], defects: &[&str]) {
        let skeleton = walk(raw.as_bytes());
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
        let skeleton = walk(deep.as_bytes());
        assert_eq!((skeleton.parts.len(), skeleton.defects.names()), (1, vec!["too-deep".to_owned()]));

        let many = format!("Content-Type: multipart/mixed; boundary=b\n\n{}", "--b\n\nx\n".repeat(10_000));
        let skeleton = walk(many.as_bytes());
        assert_eq!(
            (skeleton.parts.len(), skeleton.defects.names()),
            (PARTS_MAX, vec!["too-many-parts".to_owned()])
        );

        let lost = "--b\nContent-Type: multipart/mixed; boundary=nowhere\n\n".repeat(900);
        let lost = format!("Content-Type: multipart/mixed; boundary=b\n\n{lost}");
        assert_eq!(walk(lost.as_bytes()).parts.len(), 900);

        let fields = "X: y\n".repeat(2 * FIELDS_MAX);
        let skeleton = walk(fields.as_bytes());
        assert_eq!((skeleton.header.fields.len(), skeleton.header.count), (FIELDS_MAX, 2 * FIELDS_MAX));
    }

    #[test]
    fn fields_unfold_and_decode() {
        let raw = b"From x@y Thu Aug 22 12:36:23 2002\nSubject: =?utf-8?q?h=C3=A9?=\n llo\nX-A : b";
        let mut defects = Defects::default();
        let (header, rest) = Header::read(raw, &mut defects);
        assert_eq!(header.get("subject").map(Field::unstructured).as_deref(), Some("h\u{e9} llo"));
        assert_eq!(header.get("x-a").map(Field::text).as_deref(), Some("b"));
        assert!(header.mbox.is_some() && rest.is_empty() && defects.names().is_empty());
    }
}

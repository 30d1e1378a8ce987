//! Header fields (RFC 5322, 2.2): found, unfolded, and given to those who read values.

use std::borrow::Cow;

use mail_parser::HeaderValue;
use mail_parser::parsers::MessageStream;
use memchr::memchr;

use super::media_type::MediaType;
use super::{Defect, Defects, FIELD_BYTES_MAX, FIELDS_MAX, encoded_word};

/// One header field; the value is as it stands, folded, with its line end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderField<'x> {
    pub(crate) name: &'x str,
    value: &'x [u8],
}

impl<'x> HeaderField<'x> {
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
        let joined = encoded_word::join(self.bounded());
        if joined.ends_with(b"\n") {
            return how(&mut MessageStream::new(&joined)).into_owned();
        }
        let mut line = joined.into_owned();
        line.push(b'\n');
        how(&mut MessageStream::new(&line)).into_owned()
    }

    /// The value with encoded words decoded and folding undone.
    pub(crate) fn unstructured(&self) -> String {
        encoded_word::decode(self.bounded())
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
pub(crate) struct MailHeader<'x> {
    pub(crate) fields: Vec<HeaderField<'x>>,
    /// The number of fields, those that were not kept included.
    pub(crate) count: usize,
    /// The `From ` line of an mbox that stood before them.
    pub(crate) mbox: Option<&'x [u8]>,
}

impl<'x> MailHeader<'x> {
    /// Reads fields up to an empty line or to a line that is no field; returns them and what follows.
    pub(crate) fn read(raw: &'x [u8], defects: &mut Defects) -> (MailHeader<'x>, &'x [u8]) {
        MailHeader::read_until(raw, |_| false, defects)
    }

    /// Reads like [`HeaderField::read`], but a line for which `ends` holds ends the header, too, and is part of the rest.
    pub(super) fn read_until(
        raw: &'x [u8],
        ends: impl Fn(&[u8]) -> bool,
        defects: &mut Defects,
    ) -> (MailHeader<'x>, &'x [u8]) {
        let mut header = MailHeader::default();
        let mut rest = raw;
        while let Some((line, after)) = split_line(rest) {
            let content = trim_line_end(line);
            if content.is_empty() {
                return (header, after);
            }
            if content.starts_with(b"--") && ends(content) {
                return (header, rest);
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
                header.fields.push(HeaderField { name, value: &field[colon + 1..] });
            } else {
                defects.add(Defect::TooManyFields);
            }
        }
        (header, rest)
    }

    /// The first field of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&HeaderField<'x>> {
        self.fields.iter().find(|field| field.is(name))
    }

    /// All fields of this name.
    pub(crate) fn all<'h>(&'h self, name: &'h str) -> impl Iterator<Item = &'h HeaderField<'x>> {
        self.fields.iter().filter(move |field| field.is(name))
    }

    /// The type and parameters in the first field of this name.
    pub(super) fn media_type(&self, name: &str) -> Option<MediaType> {
        self.get(name).map(|field| MediaType::parse(field.bounded()))
    }
}

/// Splits off one line with its end.
pub(super) fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    if bytes.is_empty() {
        return None;
    }
    Some(bytes.split_at(memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1)))
}

pub(super) fn trim_line_end(line: &[u8]) -> &[u8] {
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

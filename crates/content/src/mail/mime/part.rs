//! The leaves of a message's tree, and what is made of their bytes.

use std::borrow::Cow;

use memchr::memmem;

use super::decode::{base64, byte_order_mark, charset_text, quoted_printable};
use super::header::MailHeader;
use super::media_type::MediaType;
use super::{Defect, Defects};

/// The encoding that wraps a part's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferEncoding {
    Identity,
    QuotedPrintable,
    Base64,
    Uuencode,
}

impl TransferEncoding {
    /// The encoding that a part's header names; one that is not known is none.
    pub(super) fn of(header: &MailHeader<'_>) -> TransferEncoding {
        let Some(field) = header.get("Content-Transfer-Encoding") else { return TransferEncoding::Identity };
        let text = field.text();
        let name = text.split(['(', ';', ' ', '\t', '\r', '\n']).find(|word| !word.is_empty());
        let is = |known: &str| name.is_some_and(|name| name.trim_matches('"').eq_ignore_ascii_case(known));
        match () {
            () if is("base64") => TransferEncoding::Base64,
            () if is("quoted-printable") => TransferEncoding::QuotedPrintable,
            () if is("x-uuencode") || is("uuencode") || is("x-uue") => TransferEncoding::Uuencode,
            () => TransferEncoding::Identity,
        }
    }
}

/// The purpose of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartRole {
    Plain,
    Html,
    Attachment,
}

/// A leaf of the MIME tree.
#[derive(Clone, Debug)]
pub(crate) struct MimePart<'x> {
    pub(crate) role: PartRole,
    /// `type/subtype`, lower case.
    pub(crate) media_type: String,
    pub(crate) charset: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) encoding: TransferEncoding,
    /// The number of the innermost multipart/alternative around it.
    pub(crate) alternative: Option<usize>,
    pub(super) body: Cow<'x, [u8]>,
}

impl<'x> MimePart<'x> {
    /// The leaf that a header and the body behind it describe.
    pub(super) fn new(
        header: &MailHeader<'x>,
        kind: Option<&MediaType>,
        encoding: TransferEncoding,
        alternative: Option<usize>,
        body: &'x [u8],
    ) -> MimePart<'x> {
        let disposition = header.media_type("Content-Disposition");
        let parameter =
            |of: Option<&MediaType>, name| of.and_then(|of| of.parameter(name)).map(str::to_owned);
        let name = parameter(disposition.as_ref(), "filename").or_else(|| parameter(kind, "name"));
        let name = name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        // A type that is none is text (RFC 2045, 5.2).
        let known = kind.filter(|kind| !kind.main.is_empty());
        let (main, sub) = known.map_or(("text", "plain"), |kind| (&kind.main, &kind.sub));
        let attached = disposition.as_ref().is_some_and(|disposition| disposition.main == "attachment");
        let role = match (main, sub) {
            _ if attached => PartRole::Attachment,
            ("text", "html") | ("application", "xhtml+xml") => PartRole::Html,
            ("text", "calendar" | "vcard" | "x-vcard" | "directory") => PartRole::Attachment,
            ("text" | "message" | "multipart", _) => PartRole::Plain,
            _ => PartRole::Attachment,
        };
        let media_type = if sub.is_empty() { main.to_owned() } else { format!("{main}/{sub}") };
        let charset = parameter(kind, "charset");
        MimePart { role, media_type, charset, name, encoding, alternative, body: Cow::Borrowed(body) }
    }

    /// A file that was found where no part says that there is one.
    pub(super) fn file(name: String, content: Vec<u8>) -> MimePart<'x> {
        MimePart {
            role: PartRole::Attachment,
            media_type: "application/octet-stream".into(),
            charset: None,
            name: Some(name),
            encoding: TransferEncoding::Identity,
            alternative: None,
            body: Cow::Owned(content),
        }
    }

    /// The part with its bytes copied.
    pub(super) fn into_owned(self) -> MimePart<'static> {
        MimePart { body: Cow::Owned(self.body.into_owned()), ..self }
    }

    /// Length of the encoded body.
    pub(crate) fn encoded_len(&self) -> usize {
        self.body.len()
    }

    /// The content of the part's first `bytes_max` encoded bytes. What an encoding does not know is read over or
    /// stands for itself.
    pub(crate) fn decode(&self, bytes_max: usize, defects: &mut Defects) -> Cow<'_, [u8]> {
        let body = &self.body[..self.body.len().min(bytes_max)];
        let (decoded, bad) = match self.encoding {
            TransferEncoding::Identity => return Cow::Borrowed(body),
            TransferEncoding::QuotedPrintable => quoted_printable(body),
            TransferEncoding::Base64 => base64(body, usize::MAX),
            TransferEncoding::Uuencode => (super::uuencode::first(body), false),
        };
        if bad {
            defects.add(Defect::BadEncoding);
        }
        Cow::Owned(decoded)
    }

    /// Decoded bytes as text. A byte order mark goes before the charset declared, and a page may declare its own.
    pub(crate) fn text<'b>(&self, decoded: &'b [u8]) -> Cow<'b, str> {
        if let Some((charset, mark)) = byte_order_mark(decoded) {
            return charset_text(Some(charset), &decoded[mark..]);
        }
        let declared = self.charset.as_deref();
        match declared.is_none() && self.role == PartRole::Html && !decoded.is_ascii() {
            true => charset_text(meta_charset(decoded), decoded),
            false => charset_text(declared, decoded),
        }
    }
}

/// The charset that a page names in a `<meta>` near its beginning.
fn meta_charset(page: &[u8]) -> Option<&str> {
    let head = &page[..page.len().min(1_024)];
    let at = memmem::find(head, b"charset=")? + b"charset=".len();
    let value = head[at..].trim_ascii_start();
    let value = value.strip_prefix(b"\"").or(value.strip_prefix(b"'")).unwrap_or(value);
    let length =
        value.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"-_:.".contains(byte)).count();
    std::str::from_utf8(&value[..length]).ok().filter(|charset| !charset.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_name_their_charset() {
        let page = b"<meta http-equiv=content-type content=\"text/html; charset=koi8-r\">\xf0";
        let part = MimePart::new(
            &MailHeader::default(),
            Some(&MediaType::parse(b"text/html")),
            TransferEncoding::Identity,
            None,
            page,
        );
        assert!(part.text(page).ends_with('\u{41f}'));
        assert_eq!(part.text(b"\xff\xfea\0b\0"), "ab");
    }
}

//! Forms that a browser sends with a file (`multipart/form-data`, RFC 7578): their parts, as they lie in the body.
//!
//! A part is a name and its bytes. Nothing is copied or decoded; what a browser never sends is refused. The body is bounded by who
//! has read it, and each byte is looked at a few times at most.

/// Most parts of a form.
const PARTS_MAX: usize = 64;
/// Most bytes of a part's header.
const HEADER_BYTES_MAX: usize = 4096;
/// Most bytes of a boundary (RFC 2046, 5.1.1).
const BOUNDARY_BYTES_MAX: usize = 70;

/// A part of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormPart<'b> {
    /// The name of its field.
    pub name: String,
    /// The content.
    pub content: &'b [u8],
}

/// Returns the boundary that a `Content-Type` names; `None` if it is none of such a form.
pub fn boundary(content_type: &str) -> Option<&str> {
    let (media, parameters) = content_type.split_once(';')?;
    if !media.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let pairs = parameters.split(';').filter_map(|parameter| parameter.trim().split_once('='));
    let (_, boundary) = pairs.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"))?;
    let boundary = boundary.trim();
    let boundary = boundary.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(boundary);
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(&byte);
    ((1..=BOUNDARY_BYTES_MAX).contains(&boundary.len()) && boundary.bytes().all(is_sign)).then_some(boundary)
}

/// Returns the parts of a form in their order; `None` if it is none.
pub fn parts<'b>(boundary: &str, body: &'b [u8]) -> Option<Vec<FormPart<'b>>> {
    let delimiter = format!("\r\n--{boundary}");
    let finder = memchr::memmem::Finder::new(delimiter.as_bytes());
    // The first delimiter has no line before it.
    let mut rest = body.strip_prefix(delimiter.as_bytes().get(2..)?)?;
    let mut parts = Vec::new();
    loop {
        if rest.starts_with(b"--") {
            return Some(parts);
        }
        rest = rest.strip_prefix(b"\r\n")?;
        let head = rest.get(..rest.len().min(HEADER_BYTES_MAX))?;
        let end = memchr::memmem::find(head, b"\r\n\r\n")?;
        let name = field_name(std::str::from_utf8(head.get(..end)?).ok()?)?;
        rest = rest.get(end + 4..)?;
        let (content, after) = match rest.strip_prefix(delimiter.as_bytes()) {
            Some(after) => (&rest[..0], after),
            None => {
                let at = finder.find(rest)?;
                (rest.get(..at)?, rest.get(at + delimiter.len()..)?)
            }
        };
        if parts.len() == PARTS_MAX {
            return None;
        }
        parts.push(FormPart { name, content });
        rest = after;
    }
}

/// Returns the name of a field from a part's header.
fn field_name(header: &str) -> Option<String> {
    let mut lines = header.split("\r\n").filter_map(|line| line.split_once(':'));
    let (_, disposition) = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-disposition"))?;
    let (kind, rest) = disposition.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("form-data") {
        return None;
    }
    // A browser writes the name first, in quotes, and escapes quotes in it.
    let name = rest.trim_start().strip_prefix("name=\"")?.split('"').next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: Option<&[(&str, &str)]>) {
        let found = parts("xyz", body.as_bytes());
        let found = found.as_ref().map(|parts| {
            parts
                .iter()
                .map(|part| (part.name.as_str(), std::str::from_utf8(part.content).unwrap()))
                .collect::<Vec<_>>()
        });
        assert_eq!(found.as_deref(), expected, "{body:?}");
    }

    #[test]
    fn parts_are_what_stands_between_delimiters() {
        let part = |name: &str, text: &str| {
            format!("--xyz\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n")
        };
        check("--xyz--\r\n", Some(&[]));
        check(&format!("{}--xyz--\r\n", part("a", "b")), Some(&[("a", "b")]));
        check(
            &format!("{}{}--xyz--", part("a", ""), part("b", "--xyz\r\n-")),
            Some(&[("a", ""), ("b", "--xyz\r\n-")]),
        );
        let file = "--xyz\r\ncontent-disposition: form-data; name=\"f\"; filename=\"m.eml\"\r\nContent-Type: message/rfc822\r\n\r\nA: b\r\n\r\nc\r\n--xyz--\r\n";
        check(file, Some(&[("f", "A: b\r\n\r\nc")]));
        for wrong in ["", "xyz", "--xyz", "--xyz\r\n", "--abc\r\n", &part("a", "b"), &part("", "b")] {
            check(wrong, None);
        }
        check("--xyz\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\nb\r\n--xyz--", None);
        check(&format!("{}--xyz--", part("a", "b").repeat(PARTS_MAX + 1)), None);
        let long = format!(
            "--xyz\r\nX: {}\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--xyz--",
            "y".repeat(5000)
        );
        check(&long, None);
    }

    #[test]
    fn a_boundary_is_named_by_the_media_type() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(boundary(text), expected, "{text}");
        check("multipart/form-data; boundary=----WebKitFormBoundaryX", Some("----WebKitFormBoundaryX"));
        check("Multipart/Form-Data; charset=utf-8; Boundary=\"a b\"", None);
        check("multipart/form-data; boundary=\"a\"", Some("a"));
        check("multipart/form-data", None);
        check("multipart/mixed; boundary=a", None);
        check("multipart/form-data; boundary=", None);
        check(&format!("multipart/form-data; boundary={}", "a".repeat(71)), None);
    }
}

//! A request as its signer saw it, and its header fields.

use super::SignatureRefusal;

/// The header fields of a request.
pub trait FieldSource: Sync {
    /// Returns the values of a field, whose name is in lower case, in the order of the request.
    fn values(&self, name: &str) -> Vec<&[u8]>;
}

/// A request as its signer saw it.
#[derive(Clone, Copy)]
pub struct SignedRequest<'a> {
    /// The method, as sent.
    pub method: &'a str,
    /// The scheme, `https` or `http`.
    pub scheme: &'a str,
    /// The host that was asked, with a port if one was named.
    pub authority: &'a str,
    /// The path, as sent.
    pub path: &'a str,
    /// The query without its question mark, as sent; `None` where there is no question mark.
    pub query: Option<&'a str>,
    /// The header fields.
    pub fields: &'a dyn FieldSource,
}

impl std::fmt::Debug for SignedRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SignedRequest({} {}://{}{})", self.method, self.scheme, self.authority, self.path)
    }
}

/// Returns the lines of a field as one value; `None` if there are none.
///
/// # Errors
/// If it is longer than `bytes_max`, or has other characters than ASCII's visible ones, spaces and tabs: it could say one thing to us and
/// another to its signer.
pub(super) fn joined(lines: &[&[u8]], bytes_max: usize) -> Result<Option<String>, SignatureRefusal> {
    if lines.is_empty() {
        return Ok(None);
    }
    let bytes: usize = lines.iter().map(|line| line.len() + 2).sum();
    if bytes > bytes_max {
        return Err(SignatureRefusal::TooLarge);
    }
    let mut text = String::with_capacity(bytes);
    for (at, line) in lines.iter().enumerate() {
        let line = line.trim_ascii();
        let is_plain = line.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
        let line = std::str::from_utf8(line).ok().filter(|_| is_plain).ok_or(SignatureRefusal::Component)?;
        if at > 0 {
            text += ", ";
        }
        text += line;
    }
    Ok(Some(text))
}

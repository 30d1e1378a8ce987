//! The request line of a log, and what is wrong with a line that has none.

use std::fmt;

use event::{Event, FieldName};
use memchr::{memchr, memrchr};

use crate::text::{received, truncate};
use crate::web::request_target::escaped;

/// Longest field of an event; what follows in a longer one is dropped.
pub const FIELD_BYTES_MAX: usize = 8 * 1024;

/// A line that is no access log's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogError {
    /// The place in the line, in bytes from its start.
    pub at: usize,
    /// The text that should stand there.
    pub expected: &'static str,
}

impl fmt::Display for AccessLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {} at byte {} of the line", self.expected, self.at)
    }
}

impl std::error::Error for AccessLogError {}

pub(crate) fn push(event: &mut Event, name: impl Into<FieldName>, value: &str) {
    if !matches!(value, "" | "-") {
        event.push(name, truncate(value, FIELD_BYTES_MAX));
    }
}

pub(crate) fn read_request(request: &[u8], event: &mut Event) {
    let parts = parts(request);
    event.push("http.malformed", parts.is_none());
    let Some((method, target, protocol)) = parts else {
        push(event, "http.request", &received(request));
        return;
    };
    let target = escaped(target);
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    push(event, "http.method", &received(method));
    push(event, "http.path", path);
    push(event, "http.query", query);
    push(event, "http.protocol", &received(protocol));
}

/// Method, target and protocol of a request line.
fn parts(request: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (first, last) = (memchr(b' ', request)?, memrchr(b' ', request)?);
    let target = request.get(first + 1..last)?;
    let (method, protocol) = (&request[..first], &request[last + 1..]);
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let is_request = !method.is_empty() && method.iter().all(token) && !target.is_empty();
    (is_request && protocol.starts_with(b"HTTP/")).then_some((method, target, protocol))
}

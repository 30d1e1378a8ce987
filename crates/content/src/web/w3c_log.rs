//! Access logs in the extended log format of the W3C, as IIS and CloudFront write it: lines whose fields the last
//! `#Fields:` heading names. It may change on the way.
//!
//! | fact | IIS | CloudFront |
//! |---|---|---|
//! | time | `date`, `time` (UTC) | the same |
//! | client | `c-ip` | `c-ip` |
//! | request | `cs-method`, `cs-uri-stem`, `cs-uri-query`, `cs-version`, `cs-host` | the same, `cs-protocol-version`, `x-host-header` |
//! | answer | `sc-status`, `sc-bytes` | the same |
//! | headers | `cs(User-Agent)`, `cs(Referer)` | the same, percent-encoded |
//! | user | `cs-username` | |

use std::borrow::Cow;
use std::net::IpAddr;

use event::{Event, FieldName, Time};
use percent_encoding::percent_decode_str;

use crate::text::received;
use crate::web::access_log::LINE_BYTES_MAX;
use crate::web::request_line::{AccessLogError, FIELD_BYTES_MAX, push};

/// The beginning of the heading that names fields.
pub const FIELDS: &str = "#Fields:";
/// Most fields of a line.
const FIELDS_MAX: usize = 256;

/// Reads a line whose fields the heading names. Linear in both.
///
/// # Errors
/// If it has no time, no client's address, or fewer fields than are named.
pub fn event(heading: &str, line: &[u8]) -> Result<Event, AccessLogError> {
    let line = line.trim_ascii_end();
    if line.len() > LINE_BYTES_MAX {
        return Err(AccessLogError { at: LINE_BYTES_MAX, expected: "the end of the line" });
    }
    let bytes = line.len();
    let line = received(line);
    let names = heading.strip_prefix(FIELDS).unwrap_or(heading);
    // Tabs are CloudFront's, whose values are encoded; IIS writes a plus for each space.
    let is_tabbed = line.contains('\t');
    let (mut date, mut time, mut client) = (None, None, None);
    let (mut event, mut host) = (Event::default(), None);
    let mut rest = line.as_ref();
    for name in names.split_ascii_whitespace().take(FIELDS_MAX) {
        // Bytes that are no UTF-8 were read as more of them.
        let at = (line.len() - rest.len()).min(bytes);
        let Some(value) = value(&mut rest, is_tabbed) else {
            return Err(AccessLogError { at, expected: "as many fields as `#Fields` names" });
        };
        let value = value.as_ref();
        match name {
            "date" => date = Some(value.to_owned()),
            "time" => time = Some(value.to_owned()),
            "c-ip" => {
                let ip = value.parse::<IpAddr>();
                client = Some(ip.map_err(|_| AccessLogError { at, expected: "the client's address" })?);
            }
            "cs-username" => push(&mut event, "http.user", value),
            "cs-method" => push(&mut event, "http.method", value),
            "cs-uri-stem" => push(&mut event, "http.path", value),
            "cs-uri-query" => push(&mut event, "http.query", value),
            "cs-version" | "cs-protocol-version" => push(&mut event, "http.protocol", value),
            "x-host-header" => host = Some(value.to_owned()),
            "cs-host" | "cs(Host)" => host = host.or_else(|| Some(value.to_owned())),
            "sc-status" => event.fields.extend(number("http.status", value)),
            "sc-bytes" => event.fields.extend(number("http.bytes", value)),
            "cs(Referer)" => push(&mut event, "http.referer", &decoded(value, is_tabbed)),
            "cs(User-Agent)" => match is_tabbed {
                true => push(&mut event, "http.agent", &decoded(value, true)),
                false => push(&mut event, "http.agent", &value.replace('+', " ")),
            },
            _ => {}
        }
    }
    let stamp = date.zip(time).map(|(date, time)| format!("{date}T{time}Z"));
    let stamp = stamp.and_then(|stamp| stamp.parse::<Time>().ok());
    event.time = Some(stamp.ok_or(AccessLogError { at: 0, expected: "fields `date` and `time`" })?);
    let client = client.ok_or(AccessLogError { at: 0, expected: "a field `c-ip`" })?;
    event.push("client.ip", client);
    event.push("http.malformed", false);
    if let Some(host) = host {
        let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        push(&mut event, "http.host", &name.map_or(host.as_str(), |(name, _)| name).to_ascii_lowercase());
    }
    Ok(event)
}

fn number(name: &'static str, value: &str) -> Option<(FieldName, event::Value)> {
    let number = value.parse::<i64>().ok().filter(|number| *number >= 0)?;
    Some((name.into(), event::Value::Integer(number)))
}

fn decoded(value: &str, is_encoded: bool) -> Cow<'_, str> {
    let end = value.floor_char_boundary(FIELD_BYTES_MAX);
    if is_encoded { percent_decode_str(&value[..end]).decode_utf8_lossy() } else { Cow::Borrowed(value) }
}

/// Takes the next value: up to a tab, or up to a space, where quotes hold spaces together.
fn value<'l>(rest: &mut &'l str, is_tabbed: bool) -> Option<Cow<'l, str>> {
    if is_tabbed {
        return match rest.split_once('\t') {
            Some((value, after)) => {
                *rest = after;
                Some(Cow::Borrowed(value))
            }
            None if rest.is_empty() => None,
            None => Some(Cow::Borrowed(std::mem::take(rest))),
        };
    }
    let text = rest.trim_start_matches(' ');
    if text.is_empty() {
        return None;
    }
    if let Some(quoted) = text.strip_prefix('"')
        && let Some(end) = quote_end(quoted)
    {
        *rest = &quoted[end + 1..];
        return Some(Cow::Owned(quoted[..end].replace("\"\"", "\"")));
    }
    let (value, after) = text.split_once(' ').unwrap_or((text, ""));
    *rest = after;
    Some(Cow::Borrowed(value))
}

/// The place of the quote that ends a text: two of them are one of its own.
fn quote_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(found) = bytes.get(at..)?.iter().position(|byte| *byte == b'"') {
        if bytes.get(at + found + 1) != Some(&b'"') {
            return Some(at + found);
        }
        at += found + 2;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(heading: &str, line: &str) -> String {
        match event(heading, line.as_bytes()) {
            Err(error) => error.to_string(),
            Ok(event) => {
                let fields = event.fields.iter().map(|(name, value)| format!("{name}={value}"));
                format!("{} {}", event.time.unwrap(), fields.collect::<Vec<_>>().join(" "))
            }
        }
    }

    #[test]
    fn lines_are_read_by_their_heading() {
        let check = |heading: &str, line: &str, expected: &str| {
            assert_eq!(shown(heading, line), expected, "{line}");
        };
        // Microsoft's documentation of IIS.
        let iis = "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status sc-substatus sc-win32-status time-taken";
        check(
            iis,
            "2012-08-16 00:47:36 fe80::e4e1:1 GET /iisstart.htm - 80 - 192.0.2.4 Mozilla/5.0+(compatible;+MSIE+10.0) - 200 0 0 93",
            "2012-08-16T00:47:36Z http.method=GET http.path=/iisstart.htm http.agent=Mozilla/5.0 (compatible; MSIE 10.0) http.status=200 client.ip=192.0.2.4 http.malformed=false",
        );
        check(
            "#Fields: time date c-ip cs-host cs-uri-query cs-username",
            "00:47:36 2012-08-16 2001:db8::1 Shop.example:443 a=1&b=%20 ann",
            "2012-08-16T00:47:36Z http.query=a=1&b=%20 http.user=ann client.ip=2001:db8::1 http.malformed=false http.host=shop.example",
        );
        // Amazon's documentation of CloudFront's standard logs.
        let cloudfront = "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len sc-range-start sc-range-end";
        check(
            cloudfront,
            "2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td111111abcdef8.cloudfront.net\t/index.html\t200\t-\tMozilla/5.0%20(Windows%20NT%2010.0;%20Win64;%20x64)\t-\t-\tHit\tSOX4xwn4XV6Q4rgb7XiVGOHms_BGlTAC4KyHmureZmBNrjGdRLiNIQ==\td111111abcdef8.cloudfront.net\thttps\t23\t0.001\t-\tTLSv1.2\tECDHE-RSA-AES128-GCM-SHA256\tHit\tHTTP/2.0\t-\t-\t11040\t0.001\tHit\ttext/html\t78\t-\t-",
            "2019-12-04T21:02:31Z http.bytes=392 http.method=GET http.path=/index.html http.status=200 http.agent=Mozilla/5.0 (Windows NT 10.0; Win64; x64) http.protocol=HTTP/2.0 client.ip=192.0.2.100 http.malformed=false http.host=d111111abcdef8.cloudfront.net",
        );
        check(
            "#Fields: date time c-ip cs(User-Agent) sc-status",
            "2012-08-16 00:47:36 192.0.2.4 \"a \"\"b\"\" c\" 200",
            "2012-08-16T00:47:36Z http.agent=a \"b\" c http.status=200 client.ip=192.0.2.4 http.malformed=false",
        );
        check(
            iis,
            "2012-08-16 00:47:36",
            "expected as many fields as `#Fields` names at byte 19 of the line",
        );
        check("#Fields: c-ip", "x", "expected the client's address at byte 0 of the line");
        check("#Fields: c-ip", "192.0.2.1", "expected fields `date` and `time` at byte 0 of the line");
        check("#Fields: date time", "2012-08-16 00:47:36", "expected a field `c-ip` at byte 0 of the line");
        check("#Fields: date time", "\"", "expected as many fields as `#Fields` names at byte 1 of the line");
    }
}

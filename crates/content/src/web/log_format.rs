//! Access logs in a format of one's own, as nginx's `log_format` and Apache's `LogFormat` say it.
//!
//! ```text
//! $remote_addr [$time_local] "$request" $status $request_time      %h %t "%r" %>s %D
//!      │            │             │        │         └► a field of that name, if the pipeline has one, else passed over
//!      ▼            ▼             ▼        ▼
//!  client.ip    the time     http.method  http.status
//! ```
//!
//! A line is its variables with the format's texts between them, so each variable ends where the text behind it begins. In
//! quotes that is the first one that is not escaped: a client cannot end its field. Outside of them what a client sends may have
//! that text in it; servers' own formats quote such values for that reason.

use std::net::IpAddr;

use event::{Event, Time};
use memchr::{memchr2, memmem};

use crate::text::received;
use crate::web::access_log::{LINE_BYTES_MAX, TIME_BYTES, log_time};
use crate::web::line_cursor::unescape;
use crate::web::request_line::{AccessLogError, push, read_request};
use crate::web::request_target::escaped;

/// Longest text between two variables.
const TEXT_BYTES_MAX: usize = 256;
/// Most variables.
const VARIABLES_MAX: usize = 256;

/// A format that is none, or that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}, at byte {at} of the format")]
pub struct AccessLogFormatError {
    /// The place in the format, in bytes.
    pub at: usize,
    /// The reason why it is none.
    pub message: String,
}

/// The meaning of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FormatVariable {
    /// The client's address.
    Client,
    /// The time as `17/May/2015:10:05:03 +0000`, in brackets or not.
    LogTime,
    /// The time as RFC 3339 writes it.
    IsoTime,
    /// The time since 1970 in units of so many microseconds.
    Epoch(u32),
    /// The whole request line.
    Request,
    /// The target with its query.
    Target,
    /// A text of the event.
    Text(&'static str),
    /// The query, perhaps with its question mark.
    Query,
    /// The virtual host, perhaps with a port.
    Host,
    /// A number of the event.
    Number(&'static str),
    /// A field that the pipeline declares.
    Own(Box<str>),
    /// Passed over.
    Ignored,
}

/// A variable, with the text in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FormatPart {
    before: Box<[u8]>,
    variable: FormatVariable,
}

/// A format of access logs, compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogFormat {
    parts: Vec<FormatPart>,
    /// The text behind the last variable.
    end: Box<[u8]>,
    /// The format as it was written.
    text: Box<str>,
}

impl AccessLogFormat {
    /// Compiles a format: nginx's if it has a `$`, else Apache's. A variable that means nothing here becomes the field of its name
    /// that the pipeline declares, and is passed over if there is none: `$request_time` is `request_time`, `%{X-Id}i` is
    /// `http_x_id` as in nginx.
    ///
    /// # Errors
    /// If it is no such format, two variables touch, or the client's address or the time is missing.
    pub fn new(
        format: &str,
        is_declared: impl Fn(&str) -> bool,
    ) -> Result<AccessLogFormat, AccessLogFormatError> {
        let mut compiler = FormatCompiler { format, at: 0, text: Vec::new(), parts: Vec::new() };
        if format.contains('$') {
            compiler.nginx(&is_declared)?;
        } else {
            compiler.apache(&is_declared)?;
        }
        compiler.finish()
    }

    /// The format as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The declared fields that lines bring.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match &part.variable {
            FormatVariable::Own(name) => Some(&**name),
            _ => None,
        })
    }

    /// Reads one line, with or without its end. Linear in the line; what follows the format's end is not read.
    ///
    /// # Errors
    /// If it is not of this format.
    pub fn event(&self, line: &[u8]) -> Result<Event, AccessLogError> {
        let line = line.trim_ascii_end();
        if line.len() > LINE_BYTES_MAX {
            return Err(AccessLogError { at: LINE_BYTES_MAX, expected: "the end of the line" });
        }
        let (mut at, mut time, mut event) = (0, None, Event::default());
        let (mut client, mut has_request) = (None, false);
        for (number, FormatPart { before, variable }) in self.parts.iter().enumerate() {
            let rest = line.get(at..).unwrap_or_default();
            let Some(rest) = rest.strip_prefix(&**before) else {
                return Err(AccessLogError { at, expected: "the text of [access_log] `format`" });
            };
            at += before.len();
            let after = self.parts.get(number + 1).map_or(&*self.end, |next| &*next.before);
            let is_quoted = before.ends_with(b"\"") && after.starts_with(b"\"");
            let Some(length) = length(rest, variable, after, is_quoted) else {
                return Err(AccessLogError { at, expected: "the next text of [access_log] `format`" });
            };
            let value = unescape(&rest[..length]);
            let text = || received(&value);
            match variable {
                FormatVariable::Client => {
                    let text = text();
                    let text = text.trim().trim_start_matches('[').trim_end_matches(']');
                    let ip = text.parse::<IpAddr>();
                    let ip = ip.map_err(|_| AccessLogError { at, expected: "the client's address" })?;
                    client = client.or(Some(ip));
                }
                FormatVariable::LogTime | FormatVariable::IsoTime | FormatVariable::Epoch(_) => {
                    let read = time_of(variable, &value).ok_or(AccessLogError { at, expected: "a time" })?;
                    // Numbers are finer than texts.
                    if time.is_none() || matches!(variable, FormatVariable::Epoch(_)) {
                        time = Some(read);
                    }
                }
                FormatVariable::Request => {
                    read_request(&value, &mut event);
                    has_request = true;
                }
                FormatVariable::Target => {
                    let target = escaped(&value);
                    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
                    push(&mut event, "http.path", path);
                    push(&mut event, "http.query", query);
                }
                FormatVariable::Text("http.path") => push(&mut event, "http.path", &escaped(&value)),
                FormatVariable::Text(name) => push(&mut event, *name, &text()),
                FormatVariable::Query => {
                    let query = escaped(&value);
                    push(&mut event, "http.query", query.strip_prefix('?').unwrap_or(&query));
                }
                FormatVariable::Host => {
                    let text = text();
                    let name = text.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
                    push(
                        &mut event,
                        "http.host",
                        &name.map_or(&*text, |(name, _)| name).to_ascii_lowercase(),
                    );
                }
                FormatVariable::Number(name) => {
                    if let Some(number) = text().parse::<i64>().ok().filter(|number| *number >= 0) {
                        event.push(*name, number);
                    }
                }
                FormatVariable::Own(name) => push(&mut event, String::from(&**name), &text()),
                FormatVariable::Ignored => {}
            }
            at += length;
        }
        if !line.get(at..).unwrap_or_default().starts_with(&self.end) {
            return Err(AccessLogError { at, expected: "the last text of [access_log] `format`" });
        }
        event.time = Some(time.ok_or(AccessLogError { at: 0, expected: "a time" })?);
        event.push("client.ip", client.ok_or(AccessLogError { at: 0, expected: "the client's address" })?);
        if !has_request {
            event.push("http.malformed", false);
        }
        Ok(event)
    }
}

/// Returns the length of a variable's value, behind which a text stands; none is the end of the line.
fn length(rest: &[u8], variable: &FormatVariable, after: &[u8], is_quoted: bool) -> Option<usize> {
    if *variable == FormatVariable::LogTime {
        // It has a blank in it, as the text behind it may be.
        let length = TIME_BYTES + if rest.starts_with(b"[") { 2 } else { 0 };
        return rest.get(length..)?.starts_with(after).then_some(length);
    }
    if after.is_empty() {
        return Some(rest.len());
    }
    if !is_quoted {
        return memmem::find(rest, after);
    }
    let mut from = 0;
    while let Some(found) = memchr2(b'"', b'\\', rest.get(from..)?) {
        let at = from + found;
        if rest[at] == b'"' && rest[at..].starts_with(after) {
            return Some(at);
        }
        // Whatever follows a backslash is escaped.
        from = at + if rest[at] == b'\\' { 2 } else { 1 };
    }
    None
}

fn time_of(variable: &FormatVariable, value: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(value).ok()?;
    match variable {
        FormatVariable::Epoch(micros) => {
            let number: f64 = text.trim().parse().ok()?;
            let micros = number * f64::from(*micros);
            // Up to the year 9999.
            (0.0..253_402_300_800e6).contains(&micros).then(|| Time(micros.round() as i64))
        }
        FormatVariable::IsoTime => text.parse().ok(),
        _ => log_time(text.trim_start_matches('[').trim_end_matches(']').as_bytes()),
    }
}

struct FormatCompiler<'f> {
    format: &'f str,
    at: usize,
    /// The text since the last variable.
    text: Vec<u8>,
    parts: Vec<FormatPart>,
}

impl<'f> FormatCompiler<'f> {
    fn error(at: usize, message: impl Into<String>) -> AccessLogFormatError {
        AccessLogFormatError { at, message: message.into() }
    }

    fn rest(&self) -> &'f str {
        &self.format[self.at..]
    }

    fn add(&mut self, at: usize, variable: FormatVariable) -> Result<(), AccessLogFormatError> {
        // As in `%U%q` and `$uri$is_args$args`: what has no question mark in it is the path.
        if self.text.is_empty()
            && variable == FormatVariable::Query
            && let Some(last) = self.parts.last_mut()
            && matches!(last.variable, FormatVariable::Text("http.path") | FormatVariable::Target)
        {
            last.variable = FormatVariable::Target;
            return Ok(());
        }
        if self.text.is_empty() && !self.parts.is_empty() {
            return Err(FormatCompiler::error(
                at,
                "no text stands between two variables, so nobody knows where the first ends",
            ));
        }
        if self.text.len() > TEXT_BYTES_MAX {
            return Err(FormatCompiler::error(
                at,
                format!("a text between variables has more than {TEXT_BYTES_MAX} bytes"),
            ));
        }
        if self.parts.len() >= VARIABLES_MAX {
            return Err(FormatCompiler::error(at, format!("more than {VARIABLES_MAX} variables")));
        }
        let before = std::mem::take(&mut self.text).into_boxed_slice();
        self.parts.push(FormatPart { before, variable });
        Ok(())
    }

    fn nginx(&mut self, is_declared: &dyn Fn(&str) -> bool) -> Result<(), AccessLogFormatError> {
        while let Some(next) = self.rest().bytes().next() {
            let at = self.at;
            self.at += 1;
            if next != b'$' {
                self.text.push(next);
                continue;
            }
            let braced = self.rest().strip_prefix('{');
            let name = braced.unwrap_or(self.rest());
            let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(name.len());
            let (name, behind) = name.split_at(end);
            if name.is_empty() || (braced.is_some() && !behind.starts_with('}')) {
                return Err(FormatCompiler::error(
                    at,
                    "expected a variable behind `$`, such as `$remote_addr`",
                ));
            }
            self.at += name.len() + if braced.is_some() { 2 } else { 0 };
            self.add(at, nginx_variable(name, is_declared))?;
        }
        Ok(())
    }

    fn apache(&mut self, is_declared: &dyn Fn(&str) -> bool) -> Result<(), AccessLogFormatError> {
        while let Some(next) = self.rest().bytes().next() {
            let at = self.at;
            self.at += 1;
            match (next, self.rest().bytes().next()) {
                (b'\\', Some(escaped @ (b'"' | b'\\' | b't'))) => {
                    self.at += 1;
                    self.text.push(if escaped == b't' { b'\t' } else { escaped });
                }
                (b'%', Some(b'%')) => {
                    self.at += 1;
                    self.text.push(b'%');
                }
                (b'%', _) => {
                    let modifiers =
                        self.rest().trim_start_matches(|c: char| c.is_ascii_digit() || "!,<>".contains(c));
                    self.at = self.format.len() - modifiers.len();
                    let argument = match self.rest().strip_prefix('{') {
                        None => None,
                        Some(inside) => {
                            let end = inside
                                .find('}')
                                .ok_or_else(|| FormatCompiler::error(at, "`{` is not closed"))?;
                            self.at += end + 2;
                            Some(&inside[..end])
                        }
                    };
                    let letter = self.rest().chars().next();
                    self.at += letter.map_or(0, char::len_utf8);
                    let variable = letter.and_then(|letter| apache_variable(letter, argument, is_declared));
                    let known = "expected a variable of Apache's, such as `%h`, `%t`, `%r`, `%>s`, `%b` or `%{Referer}i`";
                    self.add(at, variable.ok_or_else(|| FormatCompiler::error(at, known))?)?;
                }
                _ => self.text.push(next),
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<AccessLogFormat, AccessLogFormatError> {
        if self.text.len() > TEXT_BYTES_MAX {
            return Err(FormatCompiler::error(
                self.at,
                format!("the last text has more than {TEXT_BYTES_MAX} bytes"),
            ));
        }
        let has = |wanted: fn(&FormatVariable) -> bool| self.parts.iter().any(|part| wanted(&part.variable));
        let (has_client, has_time) = (
            has(|it| *it == FormatVariable::Client),
            has(|it| {
                matches!(it, FormatVariable::LogTime | FormatVariable::IsoTime | FormatVariable::Epoch(_))
            }),
        );
        if !has_client {
            return Err(FormatCompiler::error(
                0,
                "the client's address is missing: `$remote_addr`, or `%h` or `%a`",
            ));
        }
        if !has_time {
            return Err(FormatCompiler::error(
                0,
                "the time is missing: `$time_local`, `$time_iso8601`, `$msec` or `%t`",
            ));
        }
        let (has_request, has_target) =
            (has(|it| *it == FormatVariable::Request), has(|it| *it == FormatVariable::Target));
        for part in &mut self.parts {
            let is_said = match part.variable {
                FormatVariable::Target => has_request,
                FormatVariable::Query | FormatVariable::Text("http.path") => has_request || has_target,
                FormatVariable::Text("http.method" | "http.protocol") => has_request,
                _ => false,
            };
            if is_said {
                part.variable = FormatVariable::Ignored;
            }
        }
        Ok(AccessLogFormat { parts: self.parts, end: self.text.into_boxed_slice(), text: self.format.into() })
    }
}

/// The field of a name that the pipeline declares, if it does.
fn own(name: &str, is_declared: &dyn Fn(&str) -> bool) -> FormatVariable {
    if is_declared(name) { FormatVariable::Own(name.into()) } else { FormatVariable::Ignored }
}

fn nginx_variable(name: &str, is_declared: &dyn Fn(&str) -> bool) -> FormatVariable {
    match name {
        "remote_addr" => FormatVariable::Client,
        "remote_user" => FormatVariable::Text("http.user"),
        "time_local" => FormatVariable::LogTime,
        "time_iso8601" => FormatVariable::IsoTime,
        "msec" => FormatVariable::Epoch(1_000_000),
        "request" => FormatVariable::Request,
        "request_method" => FormatVariable::Text("http.method"),
        "request_uri" => FormatVariable::Target,
        "uri" | "document_uri" => FormatVariable::Text("http.path"),
        "args" | "query_string" | "is_args" => FormatVariable::Query,
        "server_protocol" => FormatVariable::Text("http.protocol"),
        "status" => FormatVariable::Number("http.status"),
        "body_bytes_sent" => FormatVariable::Number("http.bytes"),
        "http_referer" => FormatVariable::Text("http.referer"),
        "http_user_agent" => FormatVariable::Text("http.agent"),
        "host" | "http_host" => FormatVariable::Host,
        name => own(name, is_declared),
    }
}

fn apache_variable(
    letter: char,
    argument: Option<&str>,
    is_declared: &dyn Fn(&str) -> bool,
) -> Option<FormatVariable> {
    let named = |before: &str, name: &str| {
        own(&format!("{before}{}", name.to_ascii_lowercase().replace('-', "_")), is_declared)
    };
    Some(match (letter, argument) {
        ('h' | 'a', None) => FormatVariable::Client,
        ('u', None) => FormatVariable::Text("http.user"),
        ('t', None) => FormatVariable::LogTime,
        ('t', Some("sec" | "begin:sec")) => FormatVariable::Epoch(1_000_000),
        ('t', Some("msec" | "begin:msec")) => FormatVariable::Epoch(1_000),
        ('t', Some("usec" | "begin:usec")) => FormatVariable::Epoch(1),
        ('r', None) => FormatVariable::Request,
        ('m', None) => FormatVariable::Text("http.method"),
        ('U', None) => FormatVariable::Text("http.path"),
        ('q', None) => FormatVariable::Query,
        ('H', None) => FormatVariable::Text("http.protocol"),
        ('s', None) => FormatVariable::Number("http.status"),
        ('b' | 'B', None) => FormatVariable::Number("http.bytes"),
        ('v' | 'V', None) => FormatVariable::Host,
        ('i', Some(name)) => match name.to_ascii_lowercase().as_str() {
            "referer" => FormatVariable::Text("http.referer"),
            "user-agent" => FormatVariable::Text("http.agent"),
            "host" => FormatVariable::Host,
            _ => named("http_", name),
        },
        ('o', Some(name)) => named("sent_http_", name),
        ('e' | 'n' | 'C', Some(name)) => named("", name),
        ('l' | 'A' | 'D' | 'T' | 'p' | 'P' | 'k' | 'I' | 'O' | 'S' | 'R' | 'X' | 'f' | 'L', None)
        | ('a' | 'p' | 'P' | 'T' | 'x' | 'c', Some(_)) => FormatVariable::Ignored,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::web::access_log;

    const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";
    /// Apache's own, as its configuration file has it.
    const APACHE: &str = r#"%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\""#;

    fn shown(format: &str, line: &str) -> String {
        let declared = ["request_time", "http_x_id", "sent_http_etag"];
        let format = AccessLogFormat::new(format, |name| declared.contains(&name)).expect(format);
        match format.event(line.as_bytes()) {
            Err(error) => error.to_string(),
            Ok(event) => {
                let fields = event.fields.iter().map(|(name, value)| format!("{name}={value}"));
                format!("{} {}", event.time.unwrap(), fields.collect::<Vec<_>>().join(" "))
            }
        }
    }

    #[test]
    fn the_usual_formats_say_what_the_reader_of_usual_lines_says() {
        for line in [
            r#"203.0.113.7 - ann [17/May/2015:10:05:03 +0000] "GET /a/b.html?x=1&y=2 HTTP/1.1" 200 12 "http://example.com/" "Mozilla/5.0""#,
            r#"203.0.113.7 - - [17/May/2015:10:05:03 +0000] "\x16\x03\x01" 400 5 "-" "-""#,
            r#"2001:db8::7 - - [17/May/2015:10:05:03 +0200] "GET /q?a=\"x\" HTTP/1.1" 200 - "-" "a \"b\" \\""#,
            r#"203.0.113.7 - - [17/May/2015:10:05:03 +0000] "-" 408 0 "-" "-""#,
        ] {
            let sorted = |event: Event| {
                let fields = event.fields.iter().map(|(name, value)| format!("{name}={value}"));
                let mut fields: Vec<String> = fields.collect();
                fields.sort();
                (event.time, fields)
            };
            let expected = sorted(access_log::event(line.as_bytes()).expect(line));
            for format in [COMBINED, APACHE] {
                let format = AccessLogFormat::new(format, |_| false).expect(format);
                assert_eq!(sorted(format.event(line.as_bytes()).expect(line)), expected, "{line}");
            }
        }
    }

    #[test]
    fn formats_of_ones_own_are_read() {
        let check =
            |format: &str, line: &str, expected: &str| assert_eq!(shown(format, line), expected, "{line}");
        check(
            "${host}:$server_port $msec|$remote_addr|$request_method $request_uri $server_protocol|$status|$request_time|$upstream_addr",
            "Shop.example:443 1431857103.250|2001:db8::7|GET /a?b=1 HTTP/2.0|404|0.004|10.0.0.1:80, 10.0.0.2:80",
            "2015-05-17T10:05:03.25Z http.host=shop.example http.method=GET http.path=/a http.query=b=1 http.protocol=HTTP/2.0 http.status=404 request_time=0.004 client.ip=2001:db8::7 http.malformed=false",
        );
        // A client's quote is escaped, and ends nothing.
        check(
            "$time_iso8601 \"$http_user_agent\" $remote_addr \"$http_x_id\"",
            r#"2015-05-17T10:05:03+00:00 "x\x22 192.0.2.66 \" 192.0.2.66 \"" 203.0.113.7 "7""#,
            r#"2015-05-17T10:05:03Z http.agent=x" 192.0.2.66 " 192.0.2.66 " http_x_id=7 client.ip=203.0.113.7 http.malformed=false"#,
        );
        check(
            "%a %{usec}t %m %U%q %s %500,!404{X-Id}i %{ETag}o 100%%",
            "203.0.113.7 1431857103250000 POST /a?b=1 200 x y 100%",
            "2015-05-17T10:05:03.25Z http.method=POST http.path=/a http.query=b=1 http.status=200 http_x_id=x sent_http_etag=y client.ip=203.0.113.7 http.malformed=false",
        );
        check(
            "$remote_addr $uri$is_args$args [$time_local]",
            "203.0.113.7 /a?b=1 [17/May/2015:10:05:03 +0000]",
            "2015-05-17T10:05:03Z http.path=/a http.query=b=1 client.ip=203.0.113.7 http.malformed=false",
        );
        // Nobody reads what stands behind the format's end.
        check(
            "%h %t",
            "203.0.113.7 [17/May/2015:10:05:03 +0000] more",
            "2015-05-17T10:05:03Z client.ip=203.0.113.7 http.malformed=false",
        );
    }

    #[test]
    fn what_is_no_format_is_told_with_its_place() {
        let check = |format: &str, at: usize, message: &str| {
            let error = AccessLogFormat::new(format, |_| false).expect_err(format);
            assert!(error.at == at && error.message.contains(message), "{format}: {error}");
        };
        check("$remote_addr$time_local", 12, "no text stands between");
        check("$remote_addr $", 13, "expected a variable behind `$`");
        check("$remote_addr ${x", 13, "expected a variable behind `$`");
        check("$time_local", 0, "the client's address is missing");
        check("$remote_addr $request", 0, "the time is missing");
        check("%h %t %Z", 6, "expected a variable of Apache's");
        check("%h %t %{x", 6, "is not closed");
        check("%h %t %", 6, "expected a variable of Apache's");
        check("plain", 0, "the client's address is missing");
        check(&format!("$remote_addr{}$time_local", "-".repeat(300)), 312, "more than 256 bytes");
        check(
            &format!("$remote_addr $time_local{}", " $a".repeat(300)),
            24 + 254 * 3 + 1,
            "more than 256 variables",
        );
    }

    #[test]
    fn lines_of_another_format_are_told_with_their_place() {
        let check = |line: &str, expected: &str| {
            assert_eq!(shown("$remote_addr - [$time_local] \"$request\" x", line), expected, "{line}")
        };
        let time = "17/May/2015:10:05:03 +0000";
        check("", "expected the next text of [access_log] `format` at byte 0 of the line");
        check("a - [x", "expected the client's address at byte 0 of the line");
        check("192.0.2.7 - [x", "expected the next text of [access_log] `format` at byte 13 of the line");
        check(
            &format!("192.0.2.7 - [{time}] \"GET"),
            "expected the next text of [access_log] `format` at byte 42 of the line",
        );
        check(
            &format!("192.0.2.7 - [{}] \"GET\" x", time.replace('M', "X")),
            "expected a time at byte 13 of the line",
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        /// Any format and any line are read or refused; a place in an error is one of the line.
        #[test]
        fn anything_is_read_or_refused(
            format in "[$%{}a-z_\" \\\\]{0,40}",
            line in "[ -~]{0,120}",
        ) {
            for format in [format.clone(), format!("{COMBINED} {format}"), format!("{APACHE} {format}")] {
                if let Ok(format) = AccessLogFormat::new(&format, |name| name.len() == 3)
                    && let Err(error) = format.event(line.as_bytes())
                {
                    prop_assert!(error.at <= line.len());
                }
            }
        }
    }
}

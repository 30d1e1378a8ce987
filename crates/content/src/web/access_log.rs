//! Access logs: one line in the common or combined format, or one JSON object (`log_json`) → an event, and what
//! requests give away.
//!
//! The format is that of Apache, nginx and most proxies (`host ident user [time] "request" status bytes
//! "referer" "agent"`), with the virtual host in front or not, behind a syslog prefix or not, and with more fields
//! behind that are not read; HAProxy, Envoy and Amazon's load balancers have formats of their own. What a client sent stays evidence: a request line that is none (TLS on the plain
//! port, binary noise) makes an event with `http.malformed`, not an error.
//!
//! The features judge one request by itself: what it asks for, and what the client says it is, by lists of patterns
//! ([`RequestPatterns`]). Nothing is remembered; how often and how fast is for statistics to say.

use std::net::IpAddr;

use event::{Event, Facts, Slot, Time, Value};
use jiff::tz::TimeZone;
use memchr::{memchr_iter, memmem};

use crate::network::{PrefixLengths, network};
use crate::text::{received, truncate};
use crate::web::access_log_json;
use crate::web::attack;
use crate::web::line_cursor::{LineCursor, is_before_status, unescape};
use crate::web::link;
use crate::web::pattern::{PatternList, RequestPatterns};
use crate::web::proxy_log;
pub use crate::web::request_line::{AccessLogError, FIELD_BYTES_MAX};
use crate::web::request_line::{push, read_request};
use crate::web::request_target::normal_path;
use crate::web::request_traits::{AgentTraits, PathTraits, RefererTraits};

/// Longest line that is read.
pub const LINE_BYTES_MAX: usize = 64 * 1024;
/// Fields that most lines have.
const FIELDS: usize = 12;
/// Most parameter names of a query.
pub const QUERY_NAMES_MAX: usize = 100;

event::columns! {
    /// The columns of what a request says and what follows from it.
    pub struct HttpColumns {
        client_ip: Ip "client.ip" "Client address",
        client_net: String "client.net" "Network of the client's address, in CIDR notation",
        host: String "http.host" "Requested virtual host",
        user: String "http.user" "Authenticated user",
        method: String "http.method" "Method, as sent",
        path: String "http.path" "Path without query, as sent",
        query: String "http.query" "Query without question mark, as sent",
        protocol: String "http.protocol" "Protocol and version, such as `HTTP/1.1`",
        status: Integer "http.status" "Status of the answer",
        bytes: Integer "http.bytes" "Length of the answer's body",
        referer: String "http.referer" "Referer, as sent",
        agent: String "http.agent" "User agent, as sent",
        malformed: Bool "http.malformed" "The request line was malformed",
        request: String "http.request" "Request line, if malformed",

        path_normal: String "http.path_normal" "Normalised path: decoded once, without dot segments, doubled slashes and \
            `;` parameters",
        path_depth: Integer "http.path_depth" "Path segments",
        extension: String "http.extension" "Extension of the last path segment, lower case",
        is_page: Bool "http.is_page" "Requests something other than a style, script, image, font or medium",
        method_odd: Bool "http.method_odd" "Sites and APIs do not use the method",
        proxy_request: Bool "http.proxy_request" "The client takes the server for an open proxy",
        error: Bool "http.error" "Status is 400 or above",
        not_found: Bool "http.not_found" "Status is 404 or 410",
        server_error: Bool "http.server_error" "Status is 500 or above",
        agent_family: String "http.agent_family" "Agent with each version number written as 0",
        agent_empty: Bool "http.agent_empty" "The client sends no agent",
        agent_bot: Bool "http.agent_bot" "The client declares itself a robot",
        agent_tool: Bool "http.agent_tool" "The client is a library, command-line tool or scanner",
        probe: Bool "http.probe" "Scanners look for the path, which may exist here",
        exploit: Bool "http.exploit" "Only exploits and scanners request the path",
        injection: Bool "http.injection" "Path, query, agent or referer carry SQL, script, shell or traversal, decoded",
        interface: Bool "http.interface" "Programs use the path: it is an interface of a known application",
        query_names: List "http.query_names" "Names of query parameters",
        query_length: Integer "http.query_length" "Length of the query in bytes",
        referer_host: String "http.referer_host" "Host of the referer",
        referer_self: Bool "http.referer_self" "The referer is of the requested virtual host",
    }
}

/// Reads one line, with or without its line end.
///
/// The event's fields are named as the first half of [`HttpColumns`]; `-` and empty fields are left out. Escapes
/// (`\"`, `\\`, `\n`, `\xhh`) are undone; a target that is then no UTF-8 is percent-encoded, another text read as ISO 8859-1. Linear in
/// the line.
pub fn event(line: &[u8]) -> Result<Event, AccessLogError> {
    event_in_zone(line, &TimeZone::UTC)
}

/// Reads one line as [`event`] does; a time that names no zone, as HAProxy's, is of this one.
///
/// # Errors
/// If it is no access log's.
pub fn event_in_zone(line: &[u8], zone: &TimeZone) -> Result<Event, AccessLogError> {
    let line = line.trim_ascii_end();
    if line.len() > LINE_BYTES_MAX {
        return Err(AccessLogError { at: LINE_BYTES_MAX, expected: "the end of the line" });
    }
    if line.starts_with(b"{") {
        return access_log_json::event(line);
    }
    if let Some(event) = proxy_log::event(line) {
        return event;
    }
    let mut event = Event::default();
    // The first time counts: what a client sent stands behind it.
    let (bracket, time) =
        memchr_iter(b'[', line).find_map(|at| Some((at, stamp(line, at, zone)?))).ok_or(AccessLogError {
            at: 0,
            expected: "a time such as `[17/May/2015:10:05:03 +0000]` somewhere",
        })?;
    let time = match time {
        LogStamp::Zoned(time) => time,
        LogStamp::OfHaproxy(time) => return proxy_log::haproxy(line, bracket, time),
    };
    event.time = Some(time);
    event.fields.reserve(FIELDS);
    client(&line[..bracket], &mut event)?;

    let mut rest = LineCursor { line, at: bracket + TIME_BYTES + 2 };
    let request = rest
        .quoted(is_before_status)
        .ok_or(AccessLogError { at: rest.at, expected: "the request in quotes" })?;
    let request = unescape(request);
    let status_at = rest.at;
    let status = rest.word();
    let digits =
        std::str::from_utf8(status).ok().filter(|status| status.bytes().all(|byte| byte.is_ascii_digit()));
    let digits = digits.filter(|status| status.len() == 3).and_then(|status| status.parse::<i64>().ok());
    if digits.is_none() && status != b"-" {
        return Err(AccessLogError { at: status_at, expected: "a status of three digits" });
    }
    read_request(&request, &mut event);
    if let Some(status) = digits {
        event.push("http.status", status);
    }
    if let Some(bytes) = std::str::from_utf8(rest.word()).ok().and_then(|bytes| bytes.parse::<i64>().ok()) {
        event.push("http.bytes", bytes.max(0));
    }
    for name in ["http.referer", "http.agent"] {
        let Some(value) = rest.quoted(|_| true) else { break };
        push(&mut event, name, &received(&unescape(value)));
    }
    Ok(event)
}

/// The time in brackets of a line.
enum LogStamp {
    Zoned(Time),
    OfHaproxy(Time),
}

/// The time in the brackets that begin here.
fn stamp(line: &[u8], at: usize, zone: &TimeZone) -> Option<LogStamp> {
    let inside = |length: usize| line.get(at + 1..at + length + 2)?.strip_suffix(b"]");
    let zoned = inside(TIME_BYTES).and_then(log_time).map(LogStamp::Zoned);
    let of_haproxy =
        || inside(proxy_log::HAPROXY_TIME_BYTES).and_then(|text| proxy_log::haproxy_time(text, zone));
    zoned.or_else(|| of_haproxy().map(LogStamp::OfHaproxy))
}

pub(crate) const TIME_BYTES: usize = "17/May/2015:10:05:03 +0000".len();

pub(crate) fn log_time(text: &[u8]) -> Option<Time> {
    // Cheap refusal of the many brackets that begin no time.
    let shape = matches!(text, [_, _, b'/', _, _, _, b'/', _, _, _, _, b':', ..]);
    let text = std::str::from_utf8(text).ok().filter(|_| shape)?;
    usual_time(text.as_bytes()).or_else(|| {
        let timestamp = jiff::Timestamp::strptime("%d/%b/%Y:%H:%M:%S %z", text).ok()?;
        Some(Time(timestamp.as_microsecond()))
    })
}

/// The time of a text that has each part as servers write it. Whatever is unusual about it is left to who knows all of time.
fn usual_time(text: &[u8]) -> Option<Time> {
    const MONTHS: [&[u8]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let number = |at: usize, length: usize| {
        let digits = text.get(at..at + length)?;
        let is_number = digits.iter().all(u8::is_ascii_digit);
        is_number.then(|| digits.iter().fold(0i64, |sum, digit| sum * 10 + i64::from(digit - b'0')))
    };
    let within = |at: usize, length: usize, from: i64, to: i64| {
        number(at, length).filter(|number| (from..=to).contains(number))
    };
    let is_separated = text.len() == TIME_BYTES
        && [(2, b'/'), (6, b'/'), (11, b':'), (14, b':'), (17, b':'), (20, b' ')]
            .into_iter()
            .all(|(at, separator)| text[at] == separator);
    if !is_separated {
        return None;
    }
    // Months end differently from the 29th day on.
    let (day, year) = (within(0, 2, 1, 28)?, within(7, 4, 1970, 9998)?);
    let month = 1 + i64::try_from(MONTHS.iter().position(|name| *name == &text[3..6])?).ok()?;
    let (hours, minutes, seconds) = (within(12, 2, 0, 23)?, within(15, 2, 0, 59)?, within(18, 2, 0, 59)?);
    let offset = within(22, 2, 0, 14)? * 3600 + within(24, 2, 0, 59)? * 60;
    let offset = match text[21] {
        b'+' => offset,
        b'-' => -offset,
        _ => return None,
    };
    // Days since 1970, by years that begin in March (Howard Hinnant, `days_from_civil`).
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year) = (year / 400, year % 400);
    let days = era * 146_097 + year * 365 + year / 4 - year / 100 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(Time::from_seconds(days * 86_400 + hours * 3600 + minutes * 60 + seconds - offset))
}

/// Most words that stand before the client's address: a syslog prefix and a virtual host.
const WORDS_BEFORE_MAX: usize = 8;

/// Reads what stands before the time: perhaps a syslog prefix or a virtual host, then client, ident and user.
fn client(before: &[u8], event: &mut Event) -> Result<(), AccessLogError> {
    let before = received(before);
    let mut rest = before.trim_start();
    let mut previous = "";
    for _ in 0..WORDS_BEFORE_MAX {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = after.trim_start();
        if let Ok(ip) = word.trim_end_matches(',').parse::<IpAddr>() {
            event.push("client.ip", ip);
            // A prefix of syslog ends in `nginx[123]:`, which is no host.
            if !previous.is_empty() && !previous.ends_with(':') {
                let host = previous.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
                push(event, "http.host", &host.map_or(previous, |(host, _)| host).to_ascii_lowercase());
            }
            let user = rest.split_once(' ').map_or("", |(_, user)| user.trim());
            push(event, "http.user", user);
            return Ok(());
        }
        previous = word;
    }
    Err(AccessLogError { at: 0, expected: "the client's address, perhaps behind a virtual host" })
}

/// Fills what follows from a request's fields: the second half of [`HttpColumns`], and the client's network.
/// A fact whose field is missing stays missing, but for `http.agent_empty`. Where path, agent and referer were met of late, most of
/// it is remembered.
pub fn features(
    columns: &HttpColumns,
    prefixes: PrefixLengths,
    patterns: &RequestPatterns,
    facts: &mut Facts,
) {
    if let (Some(Value::Ip(ip)), None) = (facts.get(columns.client_ip), facts.get(columns.client_net)) {
        facts.set(columns.client_net, network(*ip, prefixes));
    }
    if let Some(&Value::Integer(status)) = facts.get(columns.status) {
        facts.set(columns.error, status >= 400);
        facts.set(columns.not_found, matches!(status, 404 | 410));
        facts.set(columns.server_error, status >= 500);
    }
    let recent = &patterns.recent;
    let agent = field(facts, columns.agent).map(|agent| {
        let is_empty = matches!(agent.trim(), "" | "-");
        (is_empty, recent.agents.get(agent, |agent| AgentTraits::of(agent, patterns)))
    });
    let referer = field(facts, columns.referer)
        .map(|referer| recent.referers.get(referer, |referer| RefererTraits::of(referer, patterns)));
    let host = field(facts, columns.host).map(|host| recent.hosts.get(host, link::host));

    facts.set(columns.agent_empty, agent.as_ref().is_none_or(|(is_empty, _)| *is_empty));
    if let Some((false, agent)) = &agent {
        facts.set(columns.agent_bot, agent.is_bot);
        facts.set(columns.agent_tool, agent.is_tool);
        facts.set(columns.agent_family, &*agent.family);
    }
    let has_code = agent.is_some_and(|(_, agent)| agent.has_code)
        || referer.as_ref().is_some_and(|referer| referer.has_code);
    target_features(columns, patterns, has_code, facts);
    if let Some(of) = referer.as_ref().and_then(|referer| referer.host.as_deref()) {
        if let Some(host) = host.as_deref().and_then(Option::as_deref) {
            facts.set(columns.referer_self, of == host);
        }
        facts.set(columns.referer_host, of);
    }
}

/// The text of a fact, bounded; other adapters than this one may have set it.
fn field(facts: &Facts, slot: Slot) -> Option<&str> {
    facts.get(slot)?.as_str().map(|text| truncate(text, FIELD_BYTES_MAX))
}

impl AgentTraits {
    fn of(agent: &str, patterns: &RequestPatterns) -> AgentTraits {
        let lower = agent.to_ascii_lowercase();
        AgentTraits {
            is_bot: patterns.robots.matches(&lower),
            is_tool: patterns.tools.matches(&lower),
            family: mask_versions(agent).into(),
            has_code: has_code(agent, patterns),
        }
    }
}

impl RefererTraits {
    fn of(referer: &str, patterns: &RequestPatterns) -> RefererTraits {
        let link = link::Link::parse(referer);
        RefererTraits {
            host: link.map(|link| link.host.into_boxed_str()),
            has_code: has_code(referer, patterns),
        }
    }
}

fn has_code(text: &str, patterns: &RequestPatterns) -> bool {
    attack::is_injection(&attack::decode(text), &patterns.attacks)
}

/// Each run that begins with a digit and goes on with digits, dots and underscores, as `0`.
fn mask_versions(agent: &str) -> String {
    let mut out = String::with_capacity(agent.len());
    let mut inside = false;
    for c in agent.chars() {
        if c.is_ascii_digit() || inside && matches!(c, '.' | '_') {
            if !std::mem::replace(&mut inside, true) {
                out.push('0');
            }
        } else {
            inside = false;
            out.push(c);
        }
    }
    out
}

/// Endings of what pages load by themselves.
const ASSET_ENDINGS: [&str; 27] = [
    "avi", "avif", "bmp", "css", "eot", "flac", "gif", "ico", "jpeg", "jpg", "js", "map", "mjs", "mov",
    "mp3", "mp4", "ogg", "otf", "png", "svg", "tif", "ttf", "wav", "webm", "webp", "woff", "woff2",
];

/// Methods of RFC 9110, RFC 5789 and WebDAV that a site or an API serves.
const METHODS: [&str; 16] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "PROPFIND",
    "PROPPATCH",
    "REPORT",
    "SEARCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
];

impl PathTraits {
    fn of(path: &str, patterns: &RequestPatterns) -> PathTraits {
        let normal = normal_path(path);
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let depth = segments.clone().count();
        let ending = segments
            .next_back()
            .and_then(|last| last.rsplit_once('.'))
            .map(|(_, ending)| ending.to_ascii_lowercase().into_boxed_str())
            .filter(|ending| (1..=8).contains(&ending.len()))
            .filter(|ending| ending.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        let sent = attack::decode(path);
        let other = (normal != path).then(|| attack::decode(&normal)).filter(|normal| *normal != sent);
        let any = |is_meant: &dyn Fn(&str) -> bool| is_meant(&sent) || other.as_deref().is_some_and(is_meant);
        PathTraits {
            depth,
            ending,
            has_scheme: memmem::find(path.as_bytes(), b"://").is_some(),
            is_probe: any(&|path| patterns.probes.matches(path)),
            is_exploit: any(&|path| patterns.exploits.matches(path)),
            is_interface: is_interface(&normal.to_ascii_lowercase(), &patterns.interfaces),
            has_code: any(&|path| attack::is_injection(path, &patterns.attacks)),
            normal: truncate(&normal, FIELD_BYTES_MAX).into(),
        }
    }
}

/// Endings of scripts that servers run whatever path follows.
const SCRIPTS: [&str; 7] = [".asp/", ".aspx/", ".cgi/", ".jsp/", ".php/", ".php5/", ".phtml/"];

/// Returns whether a path in its normal form, in lower case, is an interface of a known application. `/comment.php/inbox` is
/// `comment.php`'s whatever follows, so behind a script only a pattern counts that names it.
fn is_interface(path: &str, interfaces: &PatternList) -> bool {
    if !interfaces.matches(path) {
        return false;
    }
    let Some(ending) = SCRIPTS.iter().filter_map(|ending| path.find(ending)).min() else { return true };
    let name = path[..ending].rfind('/').map_or(0, |at| at + 1);
    !interfaces.matches(&format!("{}\0{}", &path[..name], &path[ending..]))
}

fn target_features(columns: &HttpColumns, patterns: &RequestPatterns, has_code: bool, facts: &mut Facts) {
    let method = field(facts, columns.method);
    let is_connect = method == Some("CONNECT");
    let is_odd = method.map(|method| !METHODS.contains(&method));
    if let Some(is_odd) = is_odd {
        facts.set(columns.method_odd, is_odd);
    }
    let Some(path) = field(facts, columns.path) else { return };
    let path = patterns.recent.paths.get(path, |path| PathTraits::of(path, patterns));
    let query = field(facts, columns.query).unwrap_or_default();
    let query_length = query.len();
    let (mut names, mut query_has_code) = (Vec::<String>::new(), false);
    if !query.is_empty() {
        query_has_code = self::has_code(query, patterns);
        for (name, _) in url::form_urlencoded::parse(query.as_bytes()).take(QUERY_NAMES_MAX) {
            if !name.is_empty() && !names.iter().any(|known| *known == name) {
                names.push(name.into_owned());
            }
        }
    }
    facts.set(columns.proxy_request, is_connect || path.has_scheme);
    facts.set(columns.path_normal, &*path.normal);
    facts.set(columns.path_depth, path.depth);
    facts.set(columns.is_page, path.ending.as_deref().is_none_or(|ending| !ASSET_ENDINGS.contains(&ending)));
    if let Some(ending) = path.ending.as_deref() {
        facts.set(columns.extension, ending);
    }
    facts.set(columns.probe, path.is_probe);
    facts.set(columns.exploit, path.is_exploit);
    facts.set(columns.interface, path.is_interface);
    facts.set(columns.injection, has_code || path.has_code || query_has_code);
    facts.set(columns.query_length, query_length);
    if !names.is_empty() {
        facts.set(columns.query_names, names);
    }
}

#[cfg(test)]
mod tests {
    use event::SchemaBuilder;

    use super::*;

    /// The fields, printed.
    fn fields(line: &str) -> Vec<String> {
        let event = event(line.as_bytes()).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        event.fields.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn lines_become_events() {
        for (line, expected) in [
            (
                r#"203.0.113.7 - ann [17/May/2015:10:05:03 +0000] "GET /a/b.html?x=1&y=2 HTTP/1.1" 200 12 "http://example.com/" "Mozilla/5.0""#,
                vec![
                    "client.ip=203.0.113.7",
                    "http.user=ann",
                    "http.malformed=false",
                    "http.method=GET",
                    "http.path=/a/b.html",
                    "http.query=x=1&y=2",
                    "http.protocol=HTTP/1.1",
                    "http.status=200",
                    "http.bytes=12",
                    "http.referer=http://example.com/",
                    "http.agent=Mozilla/5.0",
                ],
            ),
            (
                r#"Shop.example:443 ::ffff:203.0.113.7 - - [17/May/2015:10:05:03 +0000] "-" 408 - "-" "-" extra"#,
                vec![
                    "client.ip=203.0.113.7",
                    "http.host=shop.example",
                    "http.malformed=true",
                    "http.status=408",
                ],
            ),
            (
                r#"Jul  8 11:07:07 web nginx[2869]: 203.0.113.7 - - [08/Jul/2021:11:07:07 +0000] "\x16\x03\x01" 400 5"#,
                vec![
                    "client.ip=203.0.113.7",
                    "http.malformed=true",
                    "http.request=\u{16}\u{3}\u{1}",
                    "http.status=400",
                    "http.bytes=5",
                ],
            ),
            (
                r#"203.0.113.7 - a b [17/May/2015:10:05:03 +0000] "GET /q?a=\"x\" y HTTP/1.1" 200 1 "-" "say "hi" bot""#,
                vec![
                    "client.ip=203.0.113.7",
                    "http.user=a b",
                    "http.malformed=false",
                    "http.method=GET",
                    "http.path=/q",
                    "http.query=a=\"x\" y",
                    "http.protocol=HTTP/1.1",
                    "http.status=200",
                    "http.bytes=1",
                    "http.agent=say \"hi",
                ],
            ),
        ] {
            assert_eq!(fields(line), expected, "{line:?}");
        }
        let line = b"203.0.113.7 - - [17/May/2015:12:05:03 +0200] \"GET / HTTP/1.0\" 200 1\r\n";
        assert_eq!(event(line).unwrap().time, Some(Time::from_seconds(1_431_857_103)));
    }

    #[test]
    fn times_are_read_as_by_who_knows_all_of_time() {
        let mut usual = 0;
        let mut check = |text: &str| {
            let expected = jiff::Timestamp::strptime("%d/%b/%Y:%H:%M:%S %z", text).ok();
            let expected = expected.map(|time| Time(time.as_microsecond()));
            assert_eq!(log_time(text.as_bytes()), expected, "{text}");
            usual += usize::from(usual_time(text.as_bytes()).is_some());
        };
        for year in [1970, 1972, 1999, 2000, 2015, 2024, 2026, 2100, 2400, 9998, 9999] {
            for month in [
                "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "may",
                "xyz",
            ] {
                for day in ["00", "01", "28", "29", "30", "31", "32"] {
                    check(&format!("{day}/{month}/{year}:10:05:03 +0000"));
                }
            }
        }
        for rest in [
            "00:00:00 +0000",
            "23:59:59 -1130",
            "24:00:00 +0000",
            "23:59:60 +0000",
            "10:60:00 +0000",
            "10:05:03 +0060",
            "10:05:03 +1400",
            "10:05:03 -2359",
            "10:05:03 +9900",
            "10:05:03 0000+",
            "10:05:03+00000",
            "1a:05:03 +0000",
        ] {
            check(&format!("17/May/2015:{rest}"));
        }
        assert!(usual > 200, "{usual}");
    }

    #[test]
    fn hopeless_lines_say_what_is_wrong() {
        for (line, expected) in [
            ("", "expected a time such as `[17/May/2015:10:05:03 +0000]` somewhere at byte 0 of the line"),
            (
                "192.0.2.1 - - [17/May/2015:10:05:03 +0000",
                "expected a time such as `[17/May/2015:10:05:03 +0000]` somewhere at byte 0 of the line",
            ),
            (
                "example.com - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.0\" 200 1",
                "expected the client's address, perhaps behind a virtual host at byte 0 of the line",
            ),
            (
                "192.0.2.1 - - [17/May/2015:10:05:03 +0000] GET /",
                "expected the request in quotes at byte 43 of the line",
            ),
            (
                "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.0\"",
                "expected a status of three digits at byte 59 of the line",
            ),
        ] {
            assert_eq!(event(line.as_bytes()).unwrap_err().to_string(), expected, "{line:?}");
        }
        assert_eq!(event(&vec![b'['; LINE_BYTES_MAX + 1]).unwrap_err().at, LINE_BYTES_MAX);
    }

    /// The derived facts that are neither false nor missing, printed.
    fn derived(line: &str) -> Vec<String> {
        let mut builder = SchemaBuilder::default();
        let columns = HttpColumns::register(&mut builder).unwrap();
        let schema = builder.finish();
        let mut facts = schema.empty_row();
        for (name, value) in event(line.as_bytes()).unwrap().fields {
            facts.set(schema.slot(&name).unwrap(), value);
        }
        let patterns = RequestPatterns::of_the_presets();
        features(&columns, PrefixLengths::default(), &patterns, &mut facts);
        let first = usize::from(columns.path_normal.0);
        let named = schema.columns().iter().zip(facts.values()).skip(first);
        named
            .filter_map(|(column, value)| Some((column, value.as_ref()?)))
            .filter(|(_, value)| **value != Value::Bool(false))
            .map(|(column, value)| format!("{}={value}", column.name.trim_start_matches("http.")))
            .collect()
    }

    #[test]
    fn a_script_is_no_interface_whatever_follows_it() {
        let interfaces = RequestPatterns::of_the_presets().interfaces;
        for path in [
            "/wp-cron.php",
            "/blog/xmlrpc.php",
            "/index.php/login/v2/poll",
            "/nextcloud/public.php/webdav/a.php/b",
            "/u/r/git-receive-pack",
            "/u/r.git/info/lfs/objects/batch",
            "/u/x/inbox",
            "/_matrix/client/v3/sync",
            "/job/a/job/b/build",
        ] {
            assert!(is_interface(path, &interfaces), "{path}");
        }
        for path in [
            "/",
            "/git-receive-pack.html",
            "/comment.php/git-receive-pack",
            "/comment.php/x/inbox",
            "/a.php/u/r.git/info/refs",
            "/x.php/index.php/login/v2/poll",
            "/inbox/7",
            "/login",
            "/users/ann",
            "/job/a",
            "/blog/2024/hooks-and-lines",
        ] {
            assert!(!is_interface(path, &interfaces), "{path}");
        }
    }

    #[test]
    fn requests_give_themselves_away() {
        for (request, agent, expected) in [
            (
                "GET /a/Page.HTML?b=1&c=2&b=3 HTTP/1.1",
                "Mozilla/5.0 (X11; rv:22.0) Firefox/22.0.1",
                vec![
                    "path_normal=/a/Page.HTML",
                    "path_depth=2",
                    "extension=html",
                    "is_page=true",
                    "agent_family=Mozilla/0 (X0; rv:0) Firefox/0",
                    "query_names=b, c",
                    "query_length=11",
                ],
            ),
            (
                "GET /logo.png HTTP/1.1",
                "Googlebot/2.1 (+http://www.google.com/bot.html)",
                vec![
                    "path_normal=/logo.png",
                    "path_depth=1",
                    "extension=png",
                    "agent_family=Googlebot/0 (+http://www.google.com/bot.html)",
                    "agent_bot=true",
                    "query_length=0",
                ],
            ),
            (
                "POST /cgi-bin/.%2e/%252e%252e/bin/sh HTTP/1.1",
                "-",
                vec![
                    "path_normal=/%252e%252e/bin/sh",
                    "path_depth=5",
                    "is_page=true",
                    "agent_empty=true",
                    "probe=true",
                    "exploit=true",
                    "injection=true",
                    "query_length=0",
                ],
            ),
            (
                "GET /s?q=%3CScRiPt%3Ealert(1) HTTP/1.1",
                "curl/8",
                vec![
                    "path_normal=/s",
                    "path_depth=1",
                    "is_page=true",
                    "agent_family=curl/0",
                    "agent_tool=true",
                    "injection=true",
                    "query_names=q",
                    "query_length=22",
                ],
            ),
            (
                "CONNECT mail.example:25 HTTP/1.1",
                "x",
                vec![
                    "path_normal=/mail.example:25",
                    "path_depth=1",
                    "is_page=true",
                    "method_odd=true",
                    "proxy_request=true",
                    "agent_family=x",
                    "query_length=0",
                ],
            ),
        ] {
            let line =
                format!("192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"{request}\" 200 1 \"-\" \"{agent}\"");
            assert_eq!(derived(&line), expected, "{request}");
        }
        let line = "shop.example 192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"x\" 503 1 \"https://Shop.example/\" \"x\"";
        assert_eq!(
            derived(line),
            [
                "error=true",
                "server_error=true",
                "agent_family=x",
                "referer_host=shop.example",
                "referer_self=true"
            ]
        );
    }
}

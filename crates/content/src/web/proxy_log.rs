//! Access logs of proxies in formats of their own: HAProxy's HTTP log, Envoy's default text (and Istio's), and those of Amazon's
//! application load balancers.
//!
//! ```text
//! 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"
//! [2016-04-15T20:17:00.310Z] "POST /api HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "agent" "id" "host" "tcp://10.0.2.1:80"
//! http 2018-07-02T22:23:00.186641Z app/name/id 192.168.131.39:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 "GET http://host:80/ HTTP/1.1" "agent" …
//! ```
//!
//! A line is told by its beginning, before anything that a client sent.

use std::net::{IpAddr, SocketAddr};

use event::{Event, Time};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::text::received;
use crate::web::line_cursor::{LineCursor, is_before_status, unescape};
use crate::web::request_line::{AccessLogError, push, read_request};

/// Types of requests by which lines of load balancers begin.
const BALANCED: [&[u8]; 6] = [b"http", b"https", b"h2", b"grpcs", b"ws", b"wss"];
/// Bytes of HAProxy's time.
pub(crate) const HAPROXY_TIME_BYTES: usize = "06/Feb/2009:12:14:14.655".len();

/// Reads a line that begins as those of Envoy or of a load balancer do; `None` for one that does not.
pub(crate) fn event(line: &[u8]) -> Option<Result<Event, AccessLogError>> {
    if let Some(rest) = line.strip_prefix(b"[") {
        let end = rest.iter().take(40).position(|byte| *byte == b']')?;
        let time = stamp(&rest[..end])?;
        return rest[end + 1..].starts_with(b" \"").then(|| envoy(line, end + 2, time));
    }
    let mut words = LineCursor { line, at: 0 };
    if !BALANCED.contains(&words.word()) {
        return None;
    }
    let time = stamp(words.word())?;
    Some(balanced(words, time))
}

fn stamp(text: &[u8]) -> Option<Time> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// An address with a port, or without.
fn address(word: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(word).ok()?;
    let with_port = text.parse::<SocketAddr>().map(|address| address.ip());
    // IPv6 addresses stand without brackets in some.
    let plain = || text.trim_matches(['[', ']']).parse();
    let unbracketed = || text.rsplit_once(':').map(|(ip, _)| ip.parse());
    with_port.or_else(|_| plain()).ok().or_else(|| unbracketed()?.ok()).map(|ip: IpAddr| ip.to_canonical())
}

fn integer(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn push_answer(event: &mut Event, status: Option<i64>, bytes: Option<i64>) {
    if let Some(status) = status.filter(|status| (100..1000).contains(status)) {
        event.push("http.status", status);
    }
    if let Some(bytes) = bytes.filter(|bytes| *bytes >= 0) {
        event.push("http.bytes", bytes);
    }
}

fn envoy(line: &[u8], at: usize, time: Time) -> Result<Event, AccessLogError> {
    let mut rest = LineCursor { line, at };
    let mut event = Event { time: Some(time), ..Event::default() };
    let request =
        rest.quoted(is_before_status).ok_or(AccessLogError { at, expected: "the request in quotes" })?;
    read_request(&unescape(request), &mut event);
    let status = integer(rest.word());
    let _flags = rest.word();
    let mut received_bytes = integer(rest.word());
    if received_bytes.is_none() {
        // Istio: details of the answer, of its end, and of failures of transport.
        rest.word();
        rest.quoted(|_| true);
        received_bytes = integer(rest.word());
    }
    let sent = integer(rest.word()).filter(|_| received_bytes.is_some());
    push_answer(&mut event, status, sent);
    rest.word();
    rest.word();
    let at = rest.at;
    let forwarded = rest.quoted(|_| true).map(unescape).unwrap_or_default();
    let agent = rest.quoted(|_| true);
    push(&mut event, "http.agent", &received(&agent.map(unescape).unwrap_or_default()));
    rest.quoted(|_| true);
    let host = rest.quoted(|_| true).map(unescape).unwrap_or_default();
    push_host(&mut event, &received(&host));
    rest.quoted(|_| true);
    // Envoy adds the client's address behind those that the client said.
    let last = forwarded.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
    // Istio: the cluster, its address here, the address that was asked, the client's.
    let peer = || {
        let words = [rest.word(), rest.word(), rest.word(), rest.word()];
        address(words[3])
    };
    let client = address(last).or_else(peer);
    event.push("client.ip", client.ok_or(AccessLogError { at, expected: "the client's address" })?);
    Ok(event)
}

fn balanced(mut rest: LineCursor<'_>, time: Time) -> Result<Event, AccessLogError> {
    let mut event = Event { time: Some(time), ..Event::default() };
    rest.word();
    let at = rest.at;
    let client = address(rest.word()).ok_or(AccessLogError { at, expected: "the client's address" })?;
    event.push("client.ip", client);
    for _ in 0..4 {
        rest.word();
    }
    let status = integer(rest.word());
    rest.word();
    rest.word();
    let sent = integer(rest.word());
    let at = rest.at;
    let request = rest.quoted(|after| after.starts_with(b" \"") || after.is_empty());
    let request = unescape(request.ok_or(AccessLogError { at, expected: "the request in quotes" })?);
    // `GET http://host:80/path HTTP/1.1`, whatever the client sent.
    let target_at = request.iter().position(|byte| *byte == b' ').map_or(0, |at| at + 1);
    let target = &request[target_at..];
    let schemes: [&[u8]; 4] = [b"http://", b"https://", b"ws://", b"wss://"];
    let scheme = schemes.into_iter().find(|scheme| target.starts_with(scheme));
    match scheme {
        Some(scheme) => {
            let host = &target[scheme.len()..];
            let end = host.iter().position(|byte| b"/? ".contains(byte)).unwrap_or(host.len());
            let path = &host[end..];
            let slash: &[u8] = if path.starts_with(b"/") { b"" } else { b"/" };
            read_request(&[&request[..target_at], slash, path].concat(), &mut event);
            push_host(&mut event, &received(&host[..end]));
        }
        None => read_request(&request, &mut event),
    }
    push_answer(&mut event, status, sent);
    let agent = rest.quoted(|_| true);
    push(&mut event, "http.agent", &received(&agent.map(unescape).unwrap_or_default()));
    Ok(event)
}

fn push_host(event: &mut Event, host: &str) {
    let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
    push(event, "http.host", &name.map_or(host, |(name, _)| name).to_ascii_lowercase());
}

/// Reads HAProxy's time, which is of a zone that it does not say.
pub(crate) fn haproxy_time(text: &[u8], zone: &TimeZone) -> Option<Time> {
    let shape =
        matches!(text, [_, _, b'/', _, _, _, b'/', _, _, _, _, b':', _, _, b':', _, _, b':', _, _, b'.', ..]);
    let text = std::str::from_utf8(text).ok().filter(|_| shape)?;
    let civil = DateTime::strptime("%d/%b/%Y:%H:%M:%S%.f", text).ok()?;
    Some(Time(civil.to_zoned(zone.clone()).ok()?.timestamp().as_microsecond()))
}

/// Reads a line of HAProxy, of which the time in brackets was found.
pub(crate) fn haproxy(line: &[u8], bracket: usize, time: Time) -> Result<Event, AccessLogError> {
    let mut event = Event { time: Some(time), ..Event::default() };
    let before = line[..bracket].trim_ascii_end();
    let start = before.iter().rposition(|byte| *byte == b' ').map_or(0, |at| at + 1);
    let client = address(&before[start..])
        .ok_or(AccessLogError { at: start, expected: "the client's address and port" })?;
    event.push("client.ip", client);
    let mut rest = LineCursor { line, at: bracket + HAPROXY_TIME_BYTES + 2 };
    // The frontend, the backend and its server, times.
    for _ in 0..3 {
        rest.word();
    }
    let status = integer(rest.word());
    let bytes = integer(rest.word());
    let expected = AccessLogError { at: rest.at, expected: "the request in quotes" };
    // Captured cookies and headers may have anything in them but quotes, which HAProxy escapes.
    let quote = rest.rest().windows(2).position(|pair| pair == b" \"").ok_or(expected.clone())?;
    rest.at += quote + 1;
    let request = rest.quoted(|_| true).ok_or(expected)?;
    read_request(&haproxy_unescape(request), &mut event);
    push_answer(&mut event, status, bytes);
    Ok(event)
}

/// Undoes HAProxy's `#hh` for what is no printable ASCII, a quote, or one of `{|}`.
fn haproxy_unescape(text: &[u8]) -> Vec<u8> {
    let hex = |byte: &u8| char::from(*byte).to_digit(16);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match after {
            [high, low, after @ ..] if byte == b'#' && hex(high).is_some() && hex(low).is_some() => {
                out.push((hex(high).unwrap_or(0) * 16 + hex(low).unwrap_or(0)) as u8);
                rest = after;
            }
            _ => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::web::access_log::{event, event_in_zone};
    use jiff::tz::{TimeZone, offset};

    #[test]
    fn lines_of_proxies_become_events() {
        let check = |line: &str, expected: &str| {
            let shown = match event(line.as_bytes()) {
                Err(error) => error.to_string(),
                Ok(event) => {
                    let fields = event.fields.iter().map(|(name, value)| format!("{name}={value}"));
                    format!("{} {}", event.time.unwrap(), fields.collect::<Vec<_>>().join(" "))
                }
            };
            assert_eq!(shown, expected, "{line}");
        };
        // HAProxy's configuration manual, 8.2.3.
        check(
            r#"<134>Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1""#,
            "2009-02-06T12:14:14.655Z client.ip=10.0.1.2 http.malformed=false http.method=GET http.path=/index.html http.protocol=HTTP/1.1 http.status=200 http.bytes=2750",
        );
        check(
            r#"haproxy[674]: 127.0.0.1:33318 [15/Oct/2003:08:31:57.130] px-http px-http/<NOSRV> 6559/-1/-1/-1/+50 408 +2750 - - CR-- 200/202/205/0/0 0/0 "<BADREQ>""#,
            "2003-10-15T08:31:57.13Z client.ip=127.0.0.1 http.malformed=true http.request=<BADREQ> http.status=408 http.bytes=2750",
        );
        check(
            r#"2001:db8::1:33320 [15/Oct/2003:08:31:57.130] a b/c 1/1/1/1/1 200 1 - - ---- 1/1/1/1/0 0/0 "GET /a#22b?c HTTP/1.0" 0/0000"#,
            "2003-10-15T08:31:57.13Z client.ip=2001:db8::1 http.malformed=false http.method=GET http.path=/a\"b http.query=c http.protocol=HTTP/1.0 http.status=200 http.bytes=1",
        );
        // Envoy's documentation of its default format.
        check(
            r#"[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80""#,
            "2016-04-15T20:17:00.31Z http.malformed=false http.method=POST http.path=/api/v1/locations http.protocol=HTTP/2 http.status=204 http.bytes=0 http.agent=nsq2http http.host=locations client.ip=10.0.35.28",
        );
        // Istio's documentation.
        check(
            r#"[2020-11-25T21:26:18.409Z] "GET /status/418 HTTP/1.1" 418 - via_upstream - "-" 0 135 3 1 "-" "curl/7.73.0-DEV" "84961386-6d84-929d-98bd-c5aee93b5c88" "httpbin:8000" "127.0.0.1:80" inbound|8000|| 127.0.0.1:41854 10.44.1.27:80 10.44.1.23:37652 outbound_.8000_._.httpbin.foo.svc.cluster.local default"#,
            "2020-11-25T21:26:18.409Z http.malformed=false http.method=GET http.path=/status/418 http.protocol=HTTP/1.1 http.status=418 http.bytes=135 http.agent=curl/7.73.0-DEV http.host=httpbin client.ip=10.44.1.23",
        );
        check(
            r#"[2016-04-15T20:17:00.310Z] "GET / HTTP/2" 204 - 154 0 226 100 "6.6.6.6, 192.0.2.1" "-" "-" "h" "-""#,
            "2016-04-15T20:17:00.31Z http.malformed=false http.method=GET http.path=/ http.protocol=HTTP/2 http.status=204 http.bytes=0 http.host=h client.ip=192.0.2.1",
        );
        check(
            r#"[2016-04-15T20:17:00.310Z] "GET / HTTP/2" 204 - 154 0 226 100 "-" "-" "-" "h" "-""#,
            "expected the client's address at byte 61 of the line",
        );
        // Amazon's documentation of application load balancers.
        check(
            r#"https 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/a?b=c HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337281-1d84f3d73c47ec4e58577259" "www.example.com" "arn:aws:acm:us-east-2:123456789012:certificate/12345678-1234-1234-1234-123456789012" 1 2018-07-02T22:22:48.364000Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-""#,
            "2018-07-02T22:23:00.186641Z client.ip=192.168.131.39 http.malformed=false http.method=GET http.path=/a http.query=b=c http.protocol=HTTP/1.1 http.host=www.example.com http.status=200 http.bytes=57 http.agent=curl/7.46.0",
        );
        check(
            r#"http 2018-11-30T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 - 0.000 0.001 0.000 502 - 34 366 "GET http://www.example.com:80 HTTP/1.1" "curl/7.46.0" - - arn "-" "-""#,
            "2018-11-30T22:23:00.186641Z client.ip=192.168.131.39 http.malformed=false http.method=GET http.path=/ http.protocol=HTTP/1.1 http.host=www.example.com http.status=502 http.bytes=366 http.agent=curl/7.46.0",
        );
        check(
            r#"http 2018-11-30T22:23:00.186641Z app/x"#,
            "expected the client's address at byte 38 of the line",
        );
        // Traefik's common format has more behind.
        check(
            r#"172.17.0.1 - - [08/Dec/2021:13:59:39 +0000] "GET /cgi.cgi/ HTTP/1.1" 200 352 "-" "Nikto" 240 "test@docker" "http://172.17.0.3:80" 0ms"#,
            "2021-12-08T13:59:39Z client.ip=172.17.0.1 http.malformed=false http.method=GET http.path=/cgi.cgi/ http.protocol=HTTP/1.1 http.status=200 http.bytes=352 http.agent=Nikto",
        );
    }

    /// A text that a client sends cannot pose as the time of the line, or as another client.
    #[test]
    fn the_first_time_counts() {
        let address = |line: &str| event(line.as_bytes()).unwrap().get("client.ip").map(ToString::to_string);
        let own = Some("192.0.2.1".to_owned());
        assert_eq!(
            address(
                r#"192.0.2.1 - - [08/Dec/2021:13:59:39 +0000] "GET / HTTP/1.1" 200 352 "-" "6.6.6.6:1 [06/Feb/2009:12:14:14.655] a b/c 1 200 1 \"GET / HTTP/1.1\"""#
            ),
            own
        );
        assert_eq!(
            address(
                r#"192.0.2.1:1 [06/Feb/2009:12:14:14.655] a b/c 1 200 1 - - - - - "GET /6.6.6.6 - - [08/Dec/2021:13:59:39 +0000] HTTP/1.1""#
            ),
            own
        );
    }

    #[test]
    fn zones_of_haproxy_are_passed_in() {
        let line = br#"192.0.2.1:1 [06/Feb/2009:12:14:14.655] a b/c 1 200 1 - - - - - "GET / HTTP/1.1""#;
        let time = event_in_zone(line, &TimeZone::fixed(offset(2))).unwrap().time;
        assert_eq!(time.unwrap().to_string(), "2009-02-06T10:14:14.655Z");
    }
}

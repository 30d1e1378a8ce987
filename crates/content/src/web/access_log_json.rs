//! Access logs as JSON objects, one a line: those of Caddy, Traefik, Envoy and Istio, and nginx's where its `log_format` names
//! members after its variables.
//!
//! | fact | Caddy | Traefik | nginx | Envoy |
//! |---|---|---|---|---|
//! | time | `ts` | `StartUTC`, `time` | `time_iso8601`, `msec` | `start_time` |
//! | client | `request.client_ip`, `request.remote_ip` | `ClientHost` | `remote_addr` | the last of `x_forwarded_for`, `downstream_remote_address` |
//! | request | `request.method`, `.uri`, `.proto`, `.host` | `RequestMethod`, `RequestPath`, `RequestProtocol`, `RequestHost` | `request`, or `request_method`, `request_uri`, `server_protocol`; `host` | `method`, `path`, `protocol`, `authority` |
//! | answer | `status`, `size` | `DownstreamStatus`, `DownstreamContentSize` | `status`, `body_bytes_sent` | `response_code`, `bytes_sent` |
//! | headers | `request.headers` | `request_User-Agent`, `request_Referer` | `http_user_agent`, `http_referer` | `user_agent` |
//! | user | `user_id` | `ClientUsername` | `remote_user` | |
//!
//! What else an object has is passed over; one that names no client's address or no time is no request's, as Caddy logs
//! other things beside them.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use event::{Event, Time, Type, Value};
use serde::Deserialize;

use crate::web::request_line::{AccessLogError, push, read_request};
use crate::web::request_target::escaped;

/// A number, or a text that may be one.
#[derive(Deserialize)]
#[serde(untagged)]
enum JsonScalar<'l> {
    Integer(i64),
    Float(f64),
    #[serde(borrow)]
    Text(Cow<'l, str>),
    Other(serde::de::IgnoredAny),
}

impl JsonScalar<'_> {
    fn value(&self) -> Option<Value> {
        match self {
            JsonScalar::Integer(integer) => Some(Value::Integer(*integer)),
            JsonScalar::Float(float) => Some(Value::Float(*float)),
            JsonScalar::Text(text) => Some(Value::from(text.as_ref())),
            JsonScalar::Other(_) => None,
        }
    }

    fn time(&self) -> Option<Time> {
        match self.value()?.coerce(Type::Time)? {
            Value::Time(time) => Some(time),
            _ => None,
        }
    }

    fn integer(&self) -> Option<i64> {
        match self.value()?.coerce(Type::Integer)? {
            Value::Integer(integer) => Some(integer),
            _ => None,
        }
    }
}

type JsonText<'l> = Option<Cow<'l, str>>;

/// A line of any of them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct JsonLogLine<'l> {
    #[serde(borrow)]
    ts: Option<JsonScalar<'l>>,
    #[serde(borrow, rename = "StartUTC")]
    start_utc: Option<JsonScalar<'l>>,
    #[serde(borrow)]
    time_iso8601: Option<JsonScalar<'l>>,
    #[serde(borrow)]
    msec: Option<JsonScalar<'l>>,
    #[serde(borrow)]
    time: Option<JsonScalar<'l>>,
    #[serde(borrow)]
    request: Option<JsonLogRequest<'l>>,
    #[serde(borrow, alias = "DownstreamStatus")]
    status: Option<JsonScalar<'l>>,
    #[serde(borrow, alias = "DownstreamContentSize", alias = "body_bytes_sent")]
    size: Option<JsonScalar<'l>>,
    #[serde(borrow, alias = "ClientUsername", alias = "remote_user")]
    user_id: JsonText<'l>,
    #[serde(borrow, rename = "ClientHost", alias = "remote_addr")]
    client: JsonText<'l>,
    #[serde(borrow, rename = "RequestMethod", alias = "request_method")]
    method: JsonText<'l>,
    #[serde(borrow, rename = "RequestPath", alias = "request_uri")]
    uri: JsonText<'l>,
    #[serde(borrow, rename = "RequestProtocol", alias = "server_protocol")]
    proto: JsonText<'l>,
    #[serde(borrow, rename = "RequestHost", alias = "host")]
    host: JsonText<'l>,
    #[serde(borrow, rename = "request_User-Agent", alias = "http_user_agent")]
    agent: JsonText<'l>,
    #[serde(borrow, rename = "request_Referer", alias = "http_referer")]
    referer: JsonText<'l>,
    // Members of their own, as logs of nginx may have the same names beside those that are read.
    #[serde(borrow)]
    start_time: Option<JsonScalar<'l>>,
    #[serde(borrow)]
    response_code: Option<JsonScalar<'l>>,
    #[serde(borrow)]
    bytes_sent: Option<JsonScalar<'l>>,
    #[serde(borrow, rename = "method")]
    envoy_method: JsonText<'l>,
    #[serde(borrow, rename = "path", alias = "x-envoy-origin-path")]
    envoy_path: JsonText<'l>,
    #[serde(borrow, rename = "protocol")]
    envoy_protocol: JsonText<'l>,
    #[serde(borrow, alias = ":authority")]
    authority: JsonText<'l>,
    #[serde(borrow, alias = "user-agent")]
    user_agent: JsonText<'l>,
    #[serde(borrow, alias = "x-forwarded-for")]
    x_forwarded_for: JsonText<'l>,
    #[serde(borrow)]
    downstream_remote_address: JsonText<'l>,
}

impl JsonLogLine<'_> {
    /// Puts what Envoy wrote in the place of what others call otherwise.
    fn read_envoy(&mut self) {
        if self.start_time.is_none() {
            return;
        }
        let forwarded = self.x_forwarded_for.take();
        let last = forwarded.as_deref().and_then(|text| text.rsplit(',').next()).map(str::trim);
        let client = last.and_then(|text| text.parse::<IpAddr>().ok()).or_else(|| {
            let address = self.downstream_remote_address.as_deref()?;
            address.parse::<SocketAddr>().map(|address| address.ip()).or_else(|_| address.parse()).ok()
        });
        self.client = client.map(|client| Cow::Owned(client.to_string()));
        self.status = self.response_code.take();
        self.size = self.bytes_sent.take();
        self.method = self.envoy_method.take();
        self.uri = self.envoy_path.take();
        self.proto = self.envoy_protocol.take();
        self.host = self.authority.take();
        self.agent = self.user_agent.take();
    }
}

/// Caddy's request, or nginx's request line.
#[derive(Deserialize)]
#[serde(untagged)]
enum JsonLogRequest<'l> {
    #[serde(borrow)]
    Parts(Box<JsonRequestParts<'l>>),
    Line(Cow<'l, str>),
    Other(serde::de::IgnoredAny),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JsonRequestParts<'l> {
    #[serde(borrow)]
    client_ip: JsonText<'l>,
    #[serde(borrow)]
    remote_ip: JsonText<'l>,
    #[serde(borrow)]
    proto: JsonText<'l>,
    #[serde(borrow)]
    method: JsonText<'l>,
    #[serde(borrow)]
    host: JsonText<'l>,
    #[serde(borrow)]
    uri: JsonText<'l>,
    #[serde(borrow)]
    headers: JsonRequestHeaders<'l>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JsonRequestHeaders<'l> {
    #[serde(borrow, rename = "User-Agent")]
    agent: Vec<Cow<'l, str>>,
    #[serde(borrow, rename = "Referer")]
    referer: Vec<Cow<'l, str>>,
}

/// Reads one line, of a length that the caller has checked.
pub(crate) fn event(line: &[u8]) -> Result<Event, AccessLogError> {
    // nginx writes bytes beyond ASCII as they came, and what is no UTF-8 is no JSON.
    let text = escaped(line);
    let mut line: JsonLogLine<'_> = serde_json::from_str(&text).map_err(|error| AccessLogError {
        at: place(&error, &text, line),
        expected: "a JSON object of an access log",
    })?;
    line.read_envoy();
    let mut event = Event::default();
    let times = [&line.ts, &line.start_time, &line.start_utc, &line.time_iso8601, &line.msec, &line.time];
    event.time = times.into_iter().flatten().find_map(JsonScalar::time);
    if event.time.is_none() {
        return Err(AccessLogError { at: 0, expected: "a member with the time, such as `ts`" });
    }
    let (parts, request) = match line.request {
        Some(JsonLogRequest::Parts(parts)) => (*parts, None),
        Some(JsonLogRequest::Line(request)) => (JsonRequestParts::default(), Some(request)),
        _ => (JsonRequestParts::default(), None),
    };
    let client = [&parts.client_ip, &parts.remote_ip, &line.client];
    let client = client.into_iter().flatten().find_map(|client| client.parse::<IpAddr>().ok());
    let client = client.ok_or(AccessLogError { at: 0, expected: "a member with the client's address" })?;
    event.push("client.ip", client);
    let host = parts.host.or(line.host).unwrap_or_default();
    let host = host
        .rsplit_once(':')
        .filter(|(_, port)| port.parse::<u16>().is_ok())
        .map_or(&*host, |(host, _)| host);
    push(&mut event, "http.host", &host.to_ascii_lowercase());
    push(&mut event, "http.user", &line.user_id.unwrap_or_default());
    match request {
        Some(request) => read_request(request.as_bytes(), &mut event),
        None => {
            let [method, uri, proto] =
                [parts.method.or(line.method), parts.uri.or(line.uri), parts.proto.or(line.proto)]
                    .map(Option::unwrap_or_default);
            read_request(format!("{method} {uri} {proto}").as_bytes(), &mut event);
        }
    }
    if let Some(status) = line.status.and_then(|status| status.integer()).filter(|status| *status > 0) {
        event.push("http.status", status);
    }
    if let Some(bytes) = line.size.and_then(|size| size.integer()) {
        event.push("http.bytes", bytes.max(0));
    }
    let first = |values: Vec<Cow<'_, str>>| values.into_iter().next().map(Cow::into_owned);
    let referer = first(parts.headers.referer).or(line.referer.map(Cow::into_owned));
    push(&mut event, "http.referer", &referer.unwrap_or_default());
    let agent = first(parts.headers.agent).or(line.agent.map(Cow::into_owned));
    push(&mut event, "http.agent", &agent.unwrap_or_default());
    Ok(event)
}

/// The place in a line of an error in what [`escaped`] made of it.
fn place(error: &serde_json::Error, text: &str, line: &[u8]) -> usize {
    let before = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let place = before.map(str::len).sum::<usize>() + error.column();
    if text.len() == line.len() {
        return place.min(line.len());
    }
    let mut read = 0;
    let is_before = |byte: &&u8| {
        read += if byte.is_ascii() { 1 } else { "%FF".len() };
        read <= place
    };
    line.iter().take_while(is_before).count()
}

#[cfg(test)]
mod tests {
    use crate::web::access_log::event;

    fn check(line: &str, expected: &[(&str, &str)]) {
        let event = event(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"));
        for (name, value) in expected {
            let found = if *name == "time" {
                event.time.map(|time| time.to_string())
            } else {
                event.get(name).map(ToString::to_string)
            };
            assert_eq!(found.as_deref(), Some(*value), "{name} of {line}");
        }
    }

    #[test]
    fn each_servers_lines_are_read() {
        check(
            r#"{"level":"info","ts":1711741827.5,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"10.0.0.1","client_ip":"192.0.2.7","proto":"HTTP/2.0","method":"POST","host":"Example.org:8443","uri":"/login?next=%2F","headers":{"User-Agent":["curl/8.0"],"Referer":["https://example.org/"],"Accept":["*/*"]}},"user_id":"ann","duration":0.1,"size":12,"status":401}"#,
            &[
                ("time", "2024-03-29T19:50:27.5Z"),
                ("client.ip", "192.0.2.7"),
                ("http.host", "example.org"),
                ("http.user", "ann"),
                ("http.method", "POST"),
                ("http.path", "/login"),
                ("http.query", "next=%2F"),
                ("http.protocol", "HTTP/2.0"),
                ("http.status", "401"),
                ("http.bytes", "12"),
                ("http.referer", "https://example.org/"),
                ("http.agent", "curl/8.0"),
                ("http.malformed", "false"),
            ],
        );
        check(
            r#"{"ClientHost":"192.0.2.7","ClientUsername":"-","DownstreamStatus":404,"DownstreamContentSize":19,"RequestHost":"a.example","RequestMethod":"GET","RequestPath":"/x?y","RequestProtocol":"HTTP/1.1","StartUTC":"2021-12-08T09:16:05.5Z","request_User-Agent":"x","time":"2021-12-08T09:16:06Z"}"#,
            &[
                ("time", "2021-12-08T09:16:05.5Z"),
                ("http.path", "/x"),
                ("http.status", "404"),
                ("http.agent", "x"),
            ],
        );
        check(
            r#"{"time_iso8601":"2026-05-17T10:00:00+02:00","remote_addr":"192.0.2.7","request":"GET /a HTTP/1.1","status":"200","body_bytes_sent":"5","http_user_agent":"-","host":"a.example"}"#,
            &[
                ("time", "2026-05-17T08:00:00Z"),
                ("http.path", "/a"),
                ("http.status", "200"),
                ("http.bytes", "5"),
            ],
        );
        check(
            r#"{"start_time":"2026-05-17T10:00:00.123Z","method":"GET","path":"/a?b","protocol":"HTTP/2","response_code":404,"bytes_sent":5,"x_forwarded_for":"198.51.100.9, 192.0.2.7","user_agent":"x","authority":"A.example:443","downstream_remote_address":"10.0.0.1:4711","response_flags":"-"}"#,
            &[
                ("time", "2026-05-17T10:00:00.123Z"),
                ("client.ip", "192.0.2.7"),
                ("http.host", "a.example"),
                ("http.path", "/a"),
                ("http.status", "404"),
                ("http.bytes", "5"),
                ("http.agent", "x"),
            ],
        );
        check(
            r#"{"start_time":"2026-05-17T10:00:00Z","method":"GET","path":"/","protocol":"HTTP/1.1","response_code":200,"x_forwarded_for":null,"downstream_remote_address":"[2001:db8::1]:4711"}"#,
            &[("client.ip", "2001:db8::1"), ("http.status", "200")],
        );
        // nginx may name members as Envoy does, beside those that are read.
        check(
            r#"{"msec":"1","remote_addr":"192.0.2.7","request":"GET /a HTTP/1.1","method":"GET","path":"/b","bytes_sent":"9","body_bytes_sent":"5","user_agent":"y","http_user_agent":"x"}"#,
            &[("http.path", "/a"), ("http.bytes", "5"), ("http.agent", "x")],
        );
        check(
            r#"{"ts":1,"request":{"remote_ip":"192.0.2.7","method":"","uri":"","proto":""}}"#,
            &[("http.malformed", "true")],
        );
    }

    #[test]
    fn a_byte_that_is_no_utf_8_hides_no_line() {
        let line = b"{\"msec\":1,\"remote_addr\":\"192.0.2.7\",\"request\":\"GET /a\xff?<script>\xff HTTP/1.1\",\"http_user_agent\":\"nikto\xff\"}";
        let event = event(line).unwrap();
        for (name, value) in
            [("http.path", "/a%FF"), ("http.query", "<script>%FF"), ("http.agent", "nikto%FF")]
        {
            assert_eq!(event.get(name).unwrap().to_string(), value);
        }
    }

    #[test]
    fn an_error_says_where_in_the_line() {
        for (line, at) in [
            (&b"{\"ts\":1,}"[..], 9),
            (b"{\"a\":\"\xff\xff\xff\",}", 12),
            ("{\"a\":\"ä\",}".as_bytes(), 11),
            (b"{\n\"a\":\"\xff\"\n,}", 12),
            (b"{\"a\":\"\xff\xff\xff", 9),
        ] {
            assert_eq!(event(line).unwrap_err().at, at, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "{}",
            "{\"ts\":1}",
            "{\"ts\":\"noon\",\"ClientHost\":\"192.0.2.7\"}",
            r#"{"level":"warn","ts":1700758468.3,"logger":"http.handlers.waf","msg":"[client \"192.0.2.7\"] Coraza"}"#,
            "{\"ts\":1,\"request\":[[[[]]]]}",
            "{nothing}",
        ] {
            assert!(event(line.as_bytes()).is_err(), "{line}");
        }
    }
}

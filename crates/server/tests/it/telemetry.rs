//! Traces and metrics reach a collector, in the encoding that it knows.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response};
use data_encoding::HEXLOWER;
use futures_util::future::ready;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::harness::{JSON_LINES, LOG, MESSAGE, PROBE, directory, start};

/// A message of protocol buffers: the values of each field.
#[derive(Clone, Debug, Default)]
struct Message(BTreeMap<u64, Vec<Field>>);

#[derive(Clone, Debug)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Message {
    fn read(mut bytes: &[u8]) -> Message {
        let mut message = Message::default();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = match key & 7 {
                0 => Field::Number(varint(&mut bytes)),
                1 => Field::Number(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    Field::Bytes(take(&mut bytes, length).to_vec())
                }
                other => panic!("wire type {other}"),
            };
            message.0.entry(key >> 3).or_default().push(value);
        }
        message
    }

    fn bytes(&self, field: u64) -> Vec<Vec<u8>> {
        let fields = self.0.get(&field).cloned().unwrap_or_default();
        let bytes = fields.into_iter().map(|field| match field {
            Field::Bytes(bytes) => bytes,
            Field::Number(number) => panic!("{number}"),
        });
        bytes.collect()
    }

    fn messages(&self, field: u64) -> Vec<Message> {
        self.bytes(field).iter().map(|bytes| Message::read(bytes)).collect()
    }

    fn text(&self, field: u64) -> String {
        self.bytes(field)
            .into_iter()
            .next()
            .map(|bytes| String::from_utf8(bytes).unwrap())
            .unwrap_or_default()
    }

    fn number(&self, field: u64) -> u64 {
        match self.0.get(&field).and_then(|fields| fields.first()) {
            Some(Field::Number(number)) => *number,
            other => panic!("{field}: {other:?}"),
        }
    }

    /// The texts of attributes.
    fn attributes(&self, field: u64) -> BTreeMap<String, String> {
        self.messages(field).iter().map(|pair| (pair.text(1), pair.messages(2)[0].text(1))).collect()
    }
}

/// A request that a collector got: its path, its head, and its body.
type CollectorCall = (String, String, Vec<u8>);

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

/// A collector: its URL, and the requests that it gets, by path.
fn collector() -> (String, Receiver<CollectorCall>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut got = Vec::new();
            let (head, mut body) = loop {
                let mut part = [0; 4096];
                let count = stream.read(&mut part).unwrap();
                if count == 0 {
                    break (String::new(), Vec::new());
                }
                got.extend_from_slice(&part[..count]);
                if let Some(end) = got.windows(4).position(|four| four == b"\r\n\r\n") {
                    break (String::from_utf8(got[..end].to_vec()).unwrap(), got[end + 4..].to_vec());
                }
            };
            if head.is_empty() {
                continue;
            }
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
            let length: usize = length.unwrap().parse().unwrap();
            let mut rest = vec![0; length - body.len()];
            stream.read_exact(&mut rest).unwrap();
            body.append(&mut rest);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
            let path = head.split(' ').nth(1).unwrap().to_owned();
            // The test may be over.
            let _ = sender.send((path, head, body));
        }
    });
    (url, receiver)
}

/// A collector that takes OTLP over gRPC, and answers with this status: its URL, the calls that it gets as those over HTTP are,
/// and the number of connections to it.
fn grpc_collector(status: &'static str) -> (String, Receiver<CollectorCall>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, receiver) = channel();
    let connections = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&connections);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let sender = sender.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let sender = sender.clone();
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await.unwrap().to_bytes();
                        let (frame, message) = body.split_at(5);
                        assert_eq!(frame[0], 0, "not compressed");
                        assert_eq!(
                            u32::from_be_bytes(frame[1..].try_into().unwrap()) as usize,
                            message.len()
                        );
                        assert_eq!(
                            (&head.method, head.headers["te"].as_bytes()),
                            (&Method::POST, &b"trailers"[..])
                        );
                        let path = match head.uri.path() {
                            "/opentelemetry.proto.collector.trace.v1.TraceService/Export" => "/v1/traces",
                            "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export" => {
                                "/v1/metrics"
                            }
                            other => panic!("{other}"),
                        };
                        // The test may be over.
                        let _ =
                            sender.send((path.to_owned(), format!("{:?}", head.headers), message.to_vec()));
                        let mut trailers = HeaderMap::new();
                        trailers.insert("grpc-status", HeaderValue::from_static(status));
                        let body =
                            Full::new(Bytes::from_static(&[0; 5])).with_trailers(ready(Some(Ok(trailers))));
                        let answer =
                            Response::builder().header("content-type", "application/grpc").body(body);
                        Ok::<_, Infallible>(answer.unwrap())
                    }
                });
                let served =
                    http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service);
                tokio::spawn(served);
            }
        });
    });
    (url, receiver, connections)
}

/// The spans of a request to the collector.
fn spans(body: &[u8]) -> Vec<Message> {
    let request = Message::read(body);
    let of_resource = &request.messages(1)[0];
    assert_eq!(of_resource.messages(1)[0].attributes(1)["service.name"], "tollhouse");
    of_resource.messages(2)[0].messages(2)
}

#[test]
fn a_collector_gets_spans_of_what_callers_trace_and_metrics() {
    let (url, got) = collector();
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let settings = [
        ("telemetry.endpoint", url.as_str()),
        ("telemetry.sample", "0.0"),
        ("telemetry.authorization", "Bearer collector"),
        ("telemetry.metrics", "1h"),
    ];
    let server = start(&directory, &settings);
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let decide = |traceparent: &str| {
        let answer = server.post("/v1/decide?pipeline=web", &[LOG, traceparent], PROBE);
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    decide("Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-00");
    decide("Traceparent: nonsense");
    decide(&format!("Traceparent: 00-{trace}-{span}-01"));
    let (mut traces, mut metrics) = (Vec::new(), Vec::new());
    while traces.is_empty() || metrics.is_empty() {
        let (path, head, body) = got.recv_timeout(Duration::from_secs(60)).unwrap();
        let head = head.to_lowercase();
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        assert!(head.contains("authorization: bearer collector"), "{head}");
        match path.as_str() {
            "/v1/traces" => traces.extend(spans(&body)),
            "/v1/metrics" => metrics.push(Message::read(&body)),
            other => panic!("{other}"),
        }
    }
    let bytes = |hex: &str| HEXLOWER.decode(hex.as_bytes()).unwrap();
    assert!(traces.iter().all(|span| span.bytes(1)[0] == bytes(trace)), "others are not sampled");
    let root = traces.iter().find(|span| span.number(6) == 2).unwrap();
    assert_eq!((root.bytes(4)[0].clone(), root.text(5)), (bytes(span), "POST /v1/decide".to_owned()));
    let attributes = root.attributes(9);
    assert_eq!(
        (attributes["http.route"].as_str(), attributes["http.response.status_code"].as_str()),
        ("/v1/decide", "200")
    );
    let id = root.bytes(2)[0].clone();
    let mut stages: Vec<String> = Vec::new();
    for span in traces.iter().filter(|span| span.number(6) == 1) {
        assert_eq!(span.bytes(4)[0], id, "the request is the parent of its stages");
        assert!(span.bytes(2)[0] != id && span.number(7) <= span.number(8), "{span:?}");
        assert!(span.number(7) >= root.number(7) && span.number(8) <= root.number(8), "{span:?}");
        stages.push(span.text(5));
    }
    stages.sort();
    assert_eq!(stages, ["admission", "body", "journal", "judge", "keys", "observe", "read", "settle"]);
    let of_scope = metrics[0].messages(1)[0].messages(2)[0].messages(2);
    let named = |name: &str| {
        of_scope.iter().find(|metric| metric.text(1) == name).unwrap_or_else(|| panic!("{name}"))
    };
    assert_eq!(named("tollhouse_telemetry_spans").messages(7)[0].number(3), 1, "a sum that only goes up");
    assert!(!named("tollhouse_ledger_keys").messages(5)[0].messages(1).is_empty());
    server.stop();
}

#[test]
fn a_collector_that_is_not_there_costs_no_request() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let url = format!("http://{closed}");
    let server = start(&directory, &[("telemetry.endpoint", url.as_str()), ("telemetry.sample", "1.0")]);
    for _ in 0..20 {
        assert_eq!(server.post("/v1/decide?pipeline=web", &[LOG], PROBE).status, 200);
    }
    let begun = std::time::Instant::now();
    while !server.get("/metrics").body.lines().any(|line| {
        line.strip_prefix("tollhouse_telemetry_failures_total ").is_some_and(|count| count != "0")
    }) {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(100));
    }
    server.stop();
}

/// The spans of a trace: the name and attributes of its root, and the names of its stages, sorted.
type TracedWork = (String, BTreeMap<String, String>, Vec<String>);

/// Collects spans until there are so many roots of these names, and returns each with its stages.
fn roots(got: &Receiver<CollectorCall>, names: &[&str]) -> BTreeMap<String, TracedWork> {
    let mut all: Vec<Message> = Vec::new();
    let root_of = |all: &[Message], name: &str| {
        all.iter().find(|span| span.number(6) == 2 && span.text(5) == name).cloned()
    };
    while !names.iter().all(|name| root_of(&all, name).is_some()) {
        let (path, _, body) = got.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| {
            let seen: Vec<String> =
                all.iter().filter(|span| span.number(6) == 2).map(|span| span.text(5)).collect();
            panic!("wanted {names:?}, seen {seen:?}")
        });
        if path == "/v1/traces" {
            all.extend(spans(&body));
        }
    }
    let work = names.iter().map(|name| {
        let root = root_of(&all, name).unwrap();
        let own = |span: &&Message| {
            span.number(6) == 1 && span.bytes(1) == root.bytes(1) && span.bytes(4) == root.bytes(2)
        };
        let mut stages: Vec<String> = all.iter().filter(own).map(|span| span.text(5)).collect();
        stages.sort();
        stages.dedup();
        ((*name).to_owned(), (root.text(5), root.attributes(9), stages))
    });
    work.collect()
}

const ALL_STAGES: [&str; 6] = ["journal", "judge", "keys", "observe", "read", "settle"];

/// Each protocol's work has a span, and one for each stage below it.
#[test]
fn work_on_every_listener_is_traced() {
    let (url, got) = collector();
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let limits = directory.config_path().parent().unwrap().join("limits");
    std::fs::create_dir(&limits).unwrap();
    let shared = "domain: a\ndescriptors:\n  - key: k\n    rate_limit: {unit: day, requests_per_unit: 1}\n";
    std::fs::write(limits.join("a.yaml"), shared).unwrap();
    let mut settings = vec![
        ("telemetry.endpoint".to_owned(), url),
        ("telemetry.sample".to_owned(), "1.0".to_owned()),
        ("telemetry.metrics".to_owned(), "off".to_owned()),
        ("envoy.config".to_owned(), "[\"limits\"]".to_owned()),
        ("listener.grpc.pipeline".to_owned(), "web".to_owned()),
    ];
    for protocol in ["milter", "rspamd", "spamc", "policy", "resp", "grpc", "envoy"] {
        settings.push((format!("listener.{protocol}.protocol"), protocol.to_owned()));
        settings.push((format!("listener.{protocol}.listen"), "127.0.0.1:0".to_owned()));
    }
    let settings: Vec<(&str, &str)> =
        settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let server = start(&directory, &settings);

    let length = MESSAGE.len();
    server.exchange("milter", &crate::milter::one_message());
    let check = format!("POST /checkv2 HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{MESSAGE}");
    server.exchange("rspamd", check.as_bytes());
    let check = format!("CHECK SPAMC/1.5\r\nContent-length: {length}\r\n\r\n{MESSAGE}");
    server.exchange("spamc", check.as_bytes());
    server.exchange("policy", crate::policy::request("i", "ann@example.org", "bob@example.net").as_bytes());
    server.exchange("resp", b"TOLL.DECIDE web client.ip 192.0.2.7\r\nCL.THROTTLE a 9 1 60\r\n");
    let event = "{\"client.ip\": \"192.0.2.7\"}\n";
    for url in ["/v1/batch/decide?pipeline=web", "/v1/batch/observe?pipeline=web"] {
        let answer = server.post(url, &[JSON_LINES], event);
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let answer = server.post("/v1/decide/batch?pipeline=web", &[JSON_LINES], event);
    assert_eq!(answer.status, 200, "{}", answer.body);
    crate::grpc::decide_lines(server.listener("grpc"), event);
    crate::envoy::take_one(server.listener("envoy"), "a", "k");

    let (rpc, rate) = (
        "tollhouse.batch.v1.BatchService/Decide",
        "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
    );
    let names = [
        "message",
        "POST /checkv2",
        "envelope",
        "TOLL.DECIDE",
        "take",
        "POST /v1/batch/decide",
        "POST /v1/batch/observe",
        "POST /v1/decide/batch",
        rpc,
        rate,
    ];
    let seen = roots(&got, &names);
    let stages = |name: &str| seen[name].2.iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(stages("message"), ALL_STAGES);
    assert_eq!(stages("TOLL.DECIDE"), ALL_STAGES);
    assert_eq!(stages("POST /checkv2"), ["body", "journal", "judge", "keys", "observe", "read", "settle"]);
    for name in ["POST /v1/batch/decide", "POST /v1/decide/batch"] {
        let expected = ["admission", "body", "journal", "judge", "observe", "read", "settle"];
        assert_eq!(stages(name), expected, "{name}");
    }
    assert_eq!(stages("POST /v1/batch/observe"), ["admission", "body", "observe", "read"]);
    assert_eq!(stages(rpc), ["journal", "judge", "observe", "read", "settle"]);
    assert_eq!((stages("take"), stages(rate)), (vec!["limits"], vec!["limits"]));
    assert!(stages("envelope").contains(&"keys"), "{:?}", seen["envelope"]);
    assert_eq!(seen[rpc].1["rpc.grpc.status_code"], "0");
    assert_eq!(seen["TOLL.DECIDE"].1["tollhouse.listener"], "resp");
    server.stop();
}

/// A caller without a token cannot have itself traced, nor name the trace that it becomes part of.
#[test]
fn traces_of_strangers_do_not_count() {
    let (known, other) = ("4bf92f3577b34da6a3ce929d0e0e4736", "4bf92f3577b34da6a3ce929d0e0e4737");
    let field = |trace: &str| format!("Traceparent: 00-{trace}-00f067aa0ba902b7-01");
    let bytes = |hex: &str| HEXLOWER.decode(hex.as_bytes()).unwrap();
    let token = "Authorization: Bearer a-token-of-some-length";
    let check = |trusted: &str, sample: &str, of_strangers: bool| {
        let (url, got) = collector();
        let parent = tempfile::tempdir().unwrap();
        let directory = directory(&parent.path().join("data"));
        let settings = [
            ("telemetry.endpoint", url.as_str()),
            ("telemetry.sample", sample),
            ("telemetry.trusted", trusted),
            ("telemetry.metrics", "off"),
            ("server.tokens", "[\"a-token-of-some-length\"]"),
            ("listener.rspamd.protocol", "rspamd"),
            ("listener.rspamd.listen", "127.0.0.1:0"),
        ];
        let server = start(&directory, &settings);
        assert_eq!(server.ask("GET", "/healthz", &[&field(other)], b"").status, 200);
        assert_eq!(server.post("/v1/decide?pipeline=web", &[LOG, &field(other)], PROBE).status, 401);
        let ping = |headers: &str| {
            let answer =
                server.exchange("rspamd", format!("GET /ping HTTP/1.0\r\n{headers}\r\n\r\n").as_bytes());
            assert!(answer.ends_with(b"pong\r\n"));
        };
        ping(&field(other));
        ping(&format!("Password: a-token-of-some-length\r\n{}", field(known)));
        let answer = server.post("/v1/decide?pipeline=web", &[LOG, token, &field(known)], PROBE);
        assert_eq!(answer.status, 200, "{}", answer.body);
        let mut seen: Vec<Message> = Vec::new();
        let is_last = |span: &Message| {
            span.number(6) == 2
                && span.text(5) == "POST /v1/decide"
                && span.attributes(9)["http.response.status_code"] == "200"
        };
        while !seen.iter().any(is_last) {
            let (_, _, body) = got.recv_timeout(Duration::from_secs(60)).unwrap();
            seen.extend(spans(&body));
        }
        // Spans are sent in the order in which requests end.
        let has = |trace: &str, name: &str| {
            seen.iter().any(|span| span.bytes(1)[0] == bytes(trace) && span.text(5) == name)
        };
        assert!(has(known, "POST /v1/decide") && has(known, "GET /ping"), "{seen:?}");
        for name in ["GET /healthz", "GET /ping", "POST /v1/decide"] {
            assert_eq!(has(other, name), of_strangers, "{trusted} {name}: {seen:?}");
        }
        let is_sampled = seen.iter().any(|span| span.text(5) == "GET /healthz");
        assert_eq!(is_sampled, of_strangers || sample == "1.0", "{trusted} {sample}");
        server.stop();
    };
    check("[]", "0.0", false);
    check("[\"192.0.2.0/24\"]", "1.0", false);
    check("[\"127.0.0.0/8\"]", "0.0", true);
}

#[test]
fn a_collector_takes_both_over_grpc() {
    let (url, got, connections) = grpc_collector("0");
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let settings = [
        ("telemetry.endpoint", url.as_str()),
        ("telemetry.protocol", "grpc"),
        ("telemetry.sample", "1.0"),
        ("telemetry.authorization", "Bearer collector"),
        ("telemetry.metrics", "1h"),
    ];
    let server = start(&directory, &settings);
    let (mut traces, mut metrics) = (Vec::new(), Vec::new());
    // Several calls, so that a connection can be seen to be kept.
    while traces.len() < 3 || metrics.is_empty() {
        assert_eq!(server.post("/v1/decide?pipeline=web", &[LOG], PROBE).status, 200);
        let (path, head, body) = got.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(head.contains("application/grpc"), "{head}");
        match path.as_str() {
            "/v1/traces" => traces.push(spans(&body)),
            _ => metrics.push(Message::read(&body)),
        }
    }
    let names: Vec<String> = traces.concat().iter().map(|span| span.text(5)).collect();
    for name in ["POST /v1/decide", "observe", "judge"] {
        assert!(names.iter().any(|own| own == name), "{names:?}");
    }
    let of_scope = metrics[0].messages(1)[0].messages(2)[0].messages(2);
    assert!(of_scope.iter().any(|metric| metric.text(1) == "tollhouse_ledger_keys"));
    assert_eq!(connections.load(Ordering::Relaxed), 1, "one connection is kept");
    // The histograms show a trace that the collector got.
    let page = server.get("/metrics").body;
    let requests = page.lines().filter(|line| line.starts_with("tollhouse_http_request_seconds_bucket"));
    let example = requests.filter_map(|line| line.split_once(" # {trace_id=\"")).next().unwrap().1;
    let id = example.split('"').next().unwrap();
    let has_reported = |spans: &[Message]| spans.iter().any(|span| HEXLOWER.encode(&span.bytes(1)[0]) == id);
    while !has_reported(&traces.concat()) {
        let (path, _, body) = got.recv_timeout(Duration::from_secs(60)).unwrap();
        traces.extend((path == "/v1/traces").then(|| spans(&body)));
    }
    server.stop();
}

#[test]
fn a_collector_that_refuses_over_grpc_costs_no_request() {
    let (url, got, _) = grpc_collector("14");
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let settings = [
        ("telemetry.endpoint", url.as_str()),
        ("telemetry.protocol", "grpc"),
        ("telemetry.sample", "1.0"),
        ("telemetry.metrics", "off"),
    ];
    let server = start(&directory, &settings);
    for _ in 0..2 {
        assert_eq!(server.post("/v1/decide?pipeline=web", &[LOG], PROBE).status, 200);
        got.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    let begun = std::time::Instant::now();
    let count = |name: &str| {
        let page = server.get("/metrics").body;
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        value.unwrap_or_default()
    };
    while count("tollhouse_telemetry_failures_total ") < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(count("tollhouse_telemetry_spans_total "), 0);
    assert!(count("tollhouse_telemetry_dropped_total ") > 0);
    server.stop();
}

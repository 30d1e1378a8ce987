//! Traces and metrics reach a collector, in the encoding that it knows.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::harness::{LOG, PROBE, directory, start};

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
fn collector() -> (String, Receiver<(String, String, Vec<u8>)>) {
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
    let bytes = |hex: &str| data_encoding::HEXLOWER.decode(hex.as_bytes()).unwrap();
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

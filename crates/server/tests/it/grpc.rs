//! Streams of batches over gRPC, by a client that is made of the same description.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use engine::Directory;
use futures_util::Stream;
use plan::preset;
use serde_json::{Value, json};
use server::proto::tollhouse::batch::v1::batch_request::Events;
use server::proto::tollhouse::batch::v1::batch_response::Answers;
use server::proto::tollhouse::batch::v1::batch_service_client::BatchServiceClient;
use server::proto::tollhouse::batch::v1::{BatchRequest, BatchResponse};
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::batch::{SAME, events, objects, records, stream, with_analytics, without_ids};
use crate::harness::{JSON_LINES, TestServer, start};
use crate::python::python;

fn with_grpc(settings: &[(&str, &str)], test: impl AsyncFnOnce(&TestServer, Channel)) {
    let own = [("listener.m.protocol", "grpc"), ("listener.m.listen", "127.0.0.1:0")];
    with_analytics(&[&own[..], settings].concat(), |server| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let endpoint = Endpoint::from_shared(format!("http://{}", server.listener("m"))).unwrap();
            test(server, endpoint.connect().await.unwrap()).await;
        });
    });
}

fn arrow(body: Vec<u8>) -> BatchRequest {
    BatchRequest { events: Some(Events::Arrow(body.into())), ..BatchRequest::default() }
}

fn lines(body: &str) -> BatchRequest {
    BatchRequest { events: Some(Events::Ndjson(body.to_owned().into())), ..BatchRequest::default() }
}

/// Sends one batch of columns; the answer's stream, or why there is none.
pub(crate) fn once(address: &str, decides: bool, body: Vec<u8>) -> Result<Vec<u8>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let mut client = BatchServiceClient::new(endpoint.connect().await.unwrap());
        let batch = futures_util::stream::iter([arrow(body)]);
        let answers = if decides { client.decide(batch).await } else { client.observe(batch).await };
        let answer = match answers {
            Ok(mut answers) => answers.get_mut().message().await,
            Err(status) => Err(status),
        };
        match answer.map_err(|status| status.message().to_owned())?.unwrap().answers.unwrap() {
            Answers::Arrow(body) => Ok(body.to_vec()),
            Answers::Ndjson(_) => panic!("columns are answered in columns"),
        }
    })
}

/// Has lines of JSON decided in one batch.
pub(crate) fn decide_lines(address: &str, events: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let mut client = BatchServiceClient::new(endpoint.connect().await.unwrap());
        let answers = client.decide(futures_util::stream::iter([lines(events)])).await;
        assert!(answers.unwrap().get_mut().message().await.unwrap().is_some());
    });
}

/// Returns what is sent when it is sent.
fn received(receiver: mpsc::Receiver<BatchRequest>) -> impl Stream<Item = BatchRequest> {
    futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|batch| (batch, receiver))
    })
}

/// All answers, and how the stream ended.
async fn all(answers: Result<tonic::Response<Streaming<BatchResponse>>, Status>) -> (Vec<Vec<Value>>, Code) {
    let mut answers = match answers {
        Ok(answers) => answers.into_inner(),
        Err(status) => return (Vec::new(), status.code()),
    };
    let mut all = Vec::new();
    loop {
        match answers.message().await {
            Ok(Some(answer)) => all.push(match answer.answers.unwrap() {
                Answers::Arrow(body) => objects(&records(&body)),
                Answers::Ndjson(body) => {
                    let lines = std::str::from_utf8(&body).unwrap().lines();
                    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
                }
            }),
            Ok(None) => return (all, Code::Ok),
            Err(status) => return (all, status.code()),
        }
    }
}

#[test]
fn batches_are_answered_as_over_http_and_in_their_order() {
    with_grpc(&[], async |server, channel| {
        let mut client = BatchServiceClient::new(channel.clone()).max_decoding_message_size(usize::MAX);
        let of_batch = |id: &str| BatchRequest { id: id.to_owned(), ..lines("{\"user\":\"eve\"}\n") };
        let synced = BatchRequest { sync: true, ..lines(SAME) };
        let batches = vec![arrow(stream(&[events()])), synced, of_batch("one"), of_batch("one")];
        let (answers, end) = all(client.observe(futures_util::stream::iter(batches)).await).await;
        assert_eq!(end, Code::Ok);
        assert_eq!(answers.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 1, 1]);
        let counted = |answer: usize| &answers[answer][2]["user_lately.seen_1h"];
        assert_eq!((counted(0), counted(1)), (&json!(2), &json!(2)), "the second has the ids of the first");
        assert_eq!((&answers[0][0]["duplicate"], &answers[1][0]["duplicate"]), (&json!(false), &json!(true)));
        assert_eq!((&answers[2][0]["duplicate"], &answers[3][0]["duplicate"]), (&json!(false), &json!(true)));
        let anew = SAME.replace("\"id\":\"", "\"id\":\"x");
        let (decided, end) = all(client.decide(futures_util::stream::iter([lines(&anew)])).await).await;
        assert_eq!(end, Code::Ok);
        let over_http = server.post("/v1/batch/decide", &[JSON_LINES], &anew.replace("\"x", "\"y"));
        let over_http: Vec<Value> =
            over_http.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(decided[0][0]["action"], over_http[0]["action"]);
        let names = |objects: &[Value]| {
            without_ids(objects.to_vec())[0].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(names(&decided[0]), names(&over_http));
        let health = HealthClient::new(channel)
            .check(HealthCheckRequest { service: "tollhouse.batch.v1.BatchService".to_owned() })
            .await;
        assert_eq!(health.unwrap().into_inner().status, 1);
    });
}

#[test]
fn what_is_no_batch_ends_the_stream_with_a_status() {
    with_grpc(&[("server.batch_max", "2")], async |_, channel| {
        let mut client = BatchServiceClient::new(channel);
        let good = || lines("{\"user\":\"ann\"}\n");
        let long = "x".repeat(300);
        let bad = [
            (arrow(b"nothing".to_vec()), Code::InvalidArgument),
            (lines(&"{}\n".repeat(3)), Code::ResourceExhausted),
            (BatchRequest { pipeline: "other".to_owned(), ..good() }, Code::InvalidArgument),
            (BatchRequest { id: long, ..good() }, Code::InvalidArgument),
        ];
        for (at, (batch, code)) in bad.into_iter().enumerate() {
            let (answers, end) =
                all(client.observe(futures_util::stream::iter([good(), batch, good()])).await).await;
            assert_eq!(end, code);
            assert_eq!(answers.len(), 1, "what came before it is answered, what follows is not read");
            assert_eq!(answers[0][0]["user_lately.seen_1h"], json!(at + 1));
        }
        let (answers, end) =
            all(client.observe(futures_util::stream::iter([BatchRequest::default()])).await).await;
        assert_eq!((answers, end), (vec![Vec::new()], Code::Ok), "nothing is a batch without events");
    });
}

#[test]
fn streams_carry_a_token_where_there_are_tokens() {
    let token = "a-token-that-is-long-enough-0123456789";
    let tokens = format!("[\"{token}\"]");
    with_grpc(&[("server.tokens", tokens.as_str())], async |_, channel| {
        let mut client = BatchServiceClient::new(channel);
        let batch = || futures_util::stream::iter([lines("{\"user\":\"ann\"}\n")]);
        assert_eq!(all(client.observe(batch()).await).await.1, Code::Unauthenticated);
        for (token, code) in [("wrong", Code::Unauthenticated), (token, Code::Ok)] {
            let mut request = Request::new(batch());
            request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
            assert_eq!(all(client.observe(request).await).await.1, code);
        }
    });
}

#[test]
fn a_token_of_a_stream_needs_a_scope_and_its_pipeline() {
    let tokens: Vec<(String, String)> =
        [("reader", "read", "[]"), ("own", "decide", "[]"), ("other", "decide", "[\"none\"]")]
            .iter()
            .flat_map(|(name, scope, pipelines)| {
                let setting = |key: &str, value: String| (format!("token.{name}.{key}"), value);
                [
                    setting("secret", format!("{name}-of-a-long-secret")),
                    setting("scopes", format!("[\"{scope}\"]")),
                    setting("pipelines", (*pipelines).to_owned()),
                ]
            })
            .collect();
    let settings: Vec<(&str, &str)> =
        tokens.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    with_grpc(&settings, async |_, channel| {
        let mut client = BatchServiceClient::new(channel);
        for (name, code) in
            [("reader", Code::PermissionDenied), ("other", Code::PermissionDenied), ("own", Code::Ok)]
        {
            let batch = futures_util::stream::iter([lines("{\"user\":\"ann\"}\n")]);
            let mut request = Request::new(batch);
            let bearer = format!("Bearer {name}-of-a-long-secret");
            request.metadata_mut().insert("authorization", bearer.parse().unwrap());
            assert_eq!(all(client.observe(request).await).await.1, code, "{name}");
        }
    });
}

/// Checks that a client that reads no answers is read no further, and gets all of them once it does.
#[test]
fn a_client_that_does_not_read_is_held_back() {
    const ROWS: usize = 200;
    with_grpc(&[], async |_, channel| {
        let mut client = BatchServiceClient::new(channel).max_decoding_message_size(usize::MAX);
        let batch = lines(&"{\"user\":\"ann\",\"agent\":\"a\",\"ip\":\"192.0.2.7\"}\n".repeat(ROWS));
        let (sender, receiver) = mpsc::channel(1);
        let mut answers = client.observe(received(receiver)).await.unwrap().into_inner();
        let mut sent = 0;
        while tokio::time::timeout(Duration::from_secs(2), sender.send(batch.clone())).await.is_ok() {
            sent += 1;
            assert!(sent < 10_000, "it takes whatever is sent");
        }
        drop(sender);
        let mut heard = 0;
        while answers.message().await.unwrap().is_some() {
            heard += 1;
        }
        assert_eq!(heard, sent);
    });
}

#[test]
fn a_node_that_ends_says_so() {
    let parent = tempfile::tempdir().unwrap();
    let presets = [preset::find("analytics").unwrap()];
    let directory = Directory::create(&parent.path().join("data"), &presets).unwrap();
    let own = [("listener.m.protocol", "grpc"), ("listener.m.listen", "127.0.0.1:0")];
    let running = start(&directory, &own);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://{}", running.listener("m"))).unwrap();
        let mut client = BatchServiceClient::new(endpoint.connect().await.unwrap());
        let (sender, receiver) = mpsc::channel(1);
        sender.send(lines("{\"user\":\"ann\"}\n")).await.unwrap();
        let mut answers = client.observe(received(receiver)).await.unwrap().into_inner();
        assert!(answers.message().await.unwrap().is_some());
        let ended = tokio::task::spawn_blocking(move || running.stop());
        assert_eq!(answers.message().await.unwrap_err().code(), Code::Unavailable);
        drop((client, answers));
        ended.await.unwrap();
    });
}

/// The example in `examples/` runs as it is printed.
#[test]
fn the_python_example_runs() {
    let packages = ["pyarrow", "grpcio", "grpcio-tools"];
    let Some(python) = python("python-grpc", &packages, "the example of gRPC") else { return };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/batch/batch_grpc.py");
    with_grpc(&[], async |server, _| {
        let ran = Command::new(&python).arg(&example).arg(server.listener("m")).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
        assert!(said.contains("20000 events"), "{said}");
    });
}

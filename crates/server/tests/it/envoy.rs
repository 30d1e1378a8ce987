//! Envoy's rate limit service, asked by a gRPC client over a socket.

use std::path::{Path, PathBuf};

use server::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use server::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use server::proto::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus};
use server::proto::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use server::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::{TestServer, directory, start};

/// Runs a test against a server with these files in its `[envoy]` folder.
pub(crate) fn with_envoy(
    files: &[PathBuf],
    settings: &[(&str, &str)],
    test: impl FnOnce(&TestServer, &Path),
) {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let folder = directory.config_path().parent().unwrap().join("limits");
    std::fs::create_dir(&folder).unwrap();
    for file in files {
        std::fs::copy(file, folder.join(file.file_name().unwrap())).unwrap();
    }
    let own = [
        ("listener.m.protocol", "envoy"),
        ("listener.m.listen", "127.0.0.1:0"),
        ("envoy.config", "[\"limits\"]"),
    ];
    let running = start(&directory, &[&own[..], settings].concat());
    test(&running, &folder);
    running.stop();
}

fn corpus(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpora/limits/envoy").join(file)
}

struct Client {
    runtime: tokio::runtime::Runtime,
    channel: Channel,
}

impl Client {
    fn new(server: &TestServer) -> Client {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let endpoint = Endpoint::from_shared(format!("http://{}", server.listener("m"))).unwrap();
        let channel = runtime.block_on(endpoint.connect()).unwrap();
        Client { runtime, channel }
    }

    fn ask(&self, request: RateLimitRequest) -> Result<RateLimitResponse, tonic::Status> {
        let mut client = RateLimitServiceClient::new(self.channel.clone());
        self.runtime.block_on(client.should_rate_limit(request)).map(tonic::Response::into_inner)
    }

    fn health(&self, service: &str) -> Result<i32, tonic::Code> {
        let mut client = HealthClient::new(self.channel.clone());
        let request = HealthCheckRequest { service: service.to_owned() };
        let answer = self.runtime.block_on(client.check(request));
        answer.map(|answer| answer.into_inner().status).map_err(|status| status.code())
    }
}

/// Takes once from a limit of a domain, whose key has the value `v`.
pub(crate) fn take_one(address: &str, domain: &str, key: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let mut client = RateLimitServiceClient::new(endpoint.connect().await.unwrap());
        client.should_rate_limit(request(domain, vec![descriptor(&[(key, "v")])])).await.unwrap();
    });
}

fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..RateLimitDescriptor::default() }
}

fn request(domain: &str, descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: domain.to_owned(), descriptors, hits_addend: 0 }
}

/// Code, limit and what remains of a status.
fn told(status: &DescriptorStatus) -> (bool, Option<u32>, u32) {
    let limit = status.current_limit.as_ref().map(|limit| limit.requests_per_unit);
    (status.code == i32::from(Code::OverLimit), limit, status.limit_remaining)
}

#[test]
fn descriptors_are_answered_in_their_order() {
    with_envoy(&[corpus("config/basic_config.yaml")], &[], |server, _| {
        let client = Client::new(server);
        let descriptors = vec![
            descriptor(&[("key3", "a")]),
            descriptor(&[("nothing", "known")]),
            descriptor(&[("key6", "any")]),
            descriptor(&[("key1", "value1"), ("subkey1", "x")]),
        ];
        let answer = client.ask(request("test-domain", descriptors.clone())).unwrap();
        let statuses: Vec<_> = answer.statuses.iter().map(told).collect();
        assert_eq!(
            statuses,
            [(false, Some(1), 0), (false, None, 0), (false, None, u32::MAX), (false, Some(5), 4)]
        );
        assert_eq!(answer.overall_code, i32::from(Code::Ok));
        let reset = answer.statuses[0].duration_until_reset.as_ref().unwrap().seconds;
        assert_eq!(reset, 3600, "the tests' time is the first second of an hour");
        let answer = client.ask(request("test-domain", descriptors)).unwrap();
        assert_eq!(answer.overall_code, i32::from(Code::OverLimit));
        assert_eq!(told(&answer.statuses[0]), (true, Some(1), 0));
        assert_eq!(told(&answer.statuses[3]), (false, Some(5), 3));
        assert_eq!(answer.statuses[0].current_limit.as_ref().unwrap().unit, 3);
        let other = client.ask(request("other-domain", vec![descriptor(&[("key3", "a")])])).unwrap();
        assert_eq!(told(&other.statuses[0]), (false, None, 0));
        let named = client.ask(request("test-domain", vec![descriptor(&[("key4", "a")])])).unwrap();
        assert_eq!(named.statuses[0].current_limit.as_ref().unwrap().name, "key4_rate_limit");
        for (domain, descriptors) in [("", vec![descriptor(&[("a", "b")])]), ("test-domain", Vec::new())] {
            let status = client.ask(request(domain, descriptors)).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
        }
        let page = server.get("/metrics").body;
        assert!(
            page.contains("tollhouse_envoy_hits_total{limit=\"test-domain.key3\",result=\"over\"} 1"),
            "{page}"
        );
    });
}

#[test]
fn hits_are_added_and_given_back() {
    with_envoy(&[corpus("config/basic_config.yaml")], &[], |server, _| {
        let client = Client::new(server);
        let ask = |hits_addend: u32, own: Option<u64>, back: bool| {
            let of = RateLimitDescriptor {
                hits_addend: own,
                is_negative_hits: back,
                ..descriptor(&[("key2", "value2")])
            };
            let request = RateLimitRequest { hits_addend, ..request("test-domain", vec![of]) };
            told(&client.ask(request).unwrap().statuses[0])
        };
        assert_eq!(ask(0, None, false), (false, Some(30), 29));
        assert_eq!(ask(5, None, false), (false, Some(30), 24));
        assert_eq!(ask(5, Some(10), false), (false, Some(30), 14), "a descriptor's own number is the one");
        assert_eq!(ask(5, Some(0), false), (false, Some(30), 14), "nothing is a look");
        assert_eq!(ask(0, Some(4), true), (false, Some(30), 18));
        assert_eq!(ask(19, None, false), (true, Some(30), 0));
        let of = RateLimitDescriptor {
            limit: Some(RateLimitOverride { requests_per_unit: 2, unit: 3 }),
            ..descriptor(&[("key2", "value3")])
        };
        let left: Vec<_> = (0..3)
            .map(|_| told(&client.ask(request("test-domain", vec![of.clone()])).unwrap().statuses[0]))
            .collect();
        assert_eq!(left, [(false, Some(2), 1), (false, Some(2), 0), (true, Some(2), 0)]);
    });
}

#[test]
fn limits_can_be_shared_replaced_and_without_effect() {
    let files = [corpus("config/share_threshold.yaml"), corpus("examples/example.yaml")];
    let settings = [("envoy.response_headers", "true"), ("envoy.response_metadata", "true")];
    with_envoy(&files, &settings, |server, _| {
        let client = Client::new(server);
        let one = |domain: &str, entries: &[(&str, &str)]| {
            client.ask(request(domain, vec![descriptor(entries)])).unwrap()
        };
        assert_eq!(told(&one("test-domain", &[("files", "files/a")]).statuses[0]).2, 99);
        assert_eq!(told(&one("test-domain", &[("files", "files/b")]).statuses[0]).2, 98, "they share one");
        assert_eq!(told(&one("rl", &[("foo", "a"), ("bar", "b")]).statuses[0]).2, 2);
        assert_eq!(told(&one("rl", &[("foo", "a"), ("bar", "c")]).statuses[0]).2, 2, "these do not");
        // `category` replaces what is called `bkthomps`, which alone has one a minute.
        let both =
            vec![descriptor(&[("category", "account")]), descriptor(&[("foo", "x"), ("bar", "bkthomps")])];
        for left in [3, 2] {
            let answer = client.ask(request("rl", both.clone())).unwrap();
            let statuses: Vec<_> = answer.statuses.iter().map(told).collect();
            assert_eq!(statuses, [(false, Some(4), left), (false, None, 0)]);
        }
        assert_eq!(told(&one("rl", &[("foo", "x"), ("bar", "banned")]).statuses[0]), (true, Some(0), 0));
        let shady: Vec<_> = (0..4).map(|_| one("rl", &[("foo", "x"), ("baz", "shady")])).collect();
        assert!(shady.iter().all(|answer| answer.overall_code == i32::from(Code::Ok)));
        assert_eq!(told(&shady[3].statuses[0]), (false, Some(3), 0));
        let headers: Vec<(&str, &str)> = shady[0]
            .response_headers_to_add
            .iter()
            .map(|header| (header.key.as_str(), header.value.as_str()))
            .collect();
        assert_eq!(
            headers,
            [("RateLimit-Limit", "3"), ("RateLimit-Remaining", "2"), ("RateLimit-Reset", "60")]
        );
        // One a minute, and two: a request is refused once both are over, and each says so before.
        let [one_quota, other] = ["service_1", "service_2"].map(|name| descriptor(&[("service", name)]));
        let both = || vec![one_quota.clone(), other.clone()];
        let passed = |answer: &RateLimitResponse| {
            let fields = answer.dynamic_metadata.clone().unwrap().fields;
            format!("{:?}", fields.get("metadata"))
                .split('"')
                .find(|text| text.starts_with("service_") && !text.ends_with("quota"))
                .map(str::to_owned)
        };
        for (over, statuses, name) in [
            (false, [(false, Some(1), 0), (false, Some(2), 1)], Some("service_1")),
            (false, [(true, Some(1), 0), (false, Some(2), 0)], Some("service_2")),
            (true, [(true, Some(1), 0), (true, Some(2), 0)], None),
        ] {
            let answer = client.ask(request("rl", both())).unwrap();
            assert_eq!(answer.overall_code == i32::from(Code::OverLimit), over);
            assert_eq!(answer.statuses.iter().map(told).collect::<Vec<_>>(), statuses);
            assert_eq!(passed(&answer).as_deref(), name);
        }
        // One of the limits that are no quota is enough.
        let mixed =
            vec![descriptor(&[("service", "service_2")]), descriptor(&[("foo", "x"), ("bar", "banned")])];
        assert_eq!(client.ask(request("rl", mixed)).unwrap().overall_code, i32::from(Code::OverLimit));
        let alone = one("rl", &[("service", "service_1")]);
        assert_eq!(alone.overall_code, i32::from(Code::OverLimit), "all of one");
        let page = server.get("/metrics").body;
        for line in [
            "{limit=\"rl.foo.baz_shady\",result=\"shadow\"} 1",
            "{limit=\"rl.service_service_1\",result=\"quota\"} 3",
            "{limit=\"test-domain.files_files/*\",result=\"within\"} 2",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
    });
}

#[test]
fn health_is_told() {
    with_envoy(&[], &[], |server, _| {
        let client = Client::new(server);
        for service in ["", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"] {
            assert_eq!(client.health(service), Ok(1), "{service}");
        }
        assert_eq!(client.health("other"), Err(tonic::Code::NotFound));
    });
    with_envoy(&[], &[("server.requests_max", "1")], |server, _| {
        let client = Client::new(server);
        let _at_work = crate::limits::unfinished(server);
        let status = client.ask(request("a", vec![descriptor(&[("a", "b")])])).unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unavailable);
    });
}

#[test]
fn changed_files_are_taken_over() {
    with_envoy(&[corpus("runtime/reload.yaml")], &[], |server, folder| {
        let client = Client::new(server);
        let left = |key: &str| {
            told(&client.ask(request("reload", vec![descriptor(&[(key, "a")])])).unwrap().statuses[0]).1
        };
        assert_eq!((left("key1"), left("one_per_minute")), (Some(50), Some(1)));
        let file = folder.join("reload.yaml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("requests_per_unit: 50", "requests_per_unit: 40")).unwrap();
        assert_eq!(server.post("/v1/rules/reload", &[crate::harness::JSON], "{}").status, 200);
        assert_eq!(left("key1"), Some(40));
        std::fs::write(&file, "domain: reload\ndescriptors:\n  - kee: x\n").unwrap();
        let refused = server.post("/v1/rules/reload", &[crate::harness::JSON], "{}");
        assert_eq!(refused.status, 422, "{}", refused.body);
        assert!(refused.body.contains("unknown key `kee`"), "{}", refused.body);
        assert_eq!(left("key1"), Some(40), "the old ones stay in force");
    });
}

/// A request that says that it has a message of so many bytes, and sends a part of it.
fn unfinished(
    channel: &Channel,
    claimed: u32,
    sent: usize,
) -> impl Future<Output = Option<tonic::Status>> + use<> {
    let mut message = vec![0];
    message.extend_from_slice(&claimed.to_be_bytes());
    message.resize(message.len() + sent, 10);
    let first =
        futures_util::stream::iter([Ok::<_, std::io::Error>(hyper::body::Frame::data(message.into()))]);
    let body = futures_util::StreamExt::chain(first, futures_util::stream::pending());
    let request = hyper::Request::post("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(tonic::body::Body::new(http_body_util::StreamBody::new(body)))
        .unwrap();
    let mut channel = channel.clone();
    async move {
        use tonic::client::GrpcService;
        std::future::poll_fn(|context| GrpcService::<tonic::body::Body>::poll_ready(&mut channel, context))
            .await
            .ok()?;
        let answer = channel.call(request).await.ok()?;
        tonic::Status::from_header_map(answer.headers())
    }
}

#[test]
fn what_is_not_whole_takes_no_more_than_its_share() {
    const CLAIMED: u32 = 200 << 10;
    const SHARE: u64 = 2 << 20;
    with_envoy(&[], &[("server.timeout", "3s")], |server, _| {
        let client = Client::new(server);
        let figure = || {
            let page = server.get("/metrics").body;
            let line = page.lines().find_map(|line| line.strip_prefix("tollhouse_grpc_unfinished_bytes "));
            line.unwrap().parse::<u64>().unwrap()
        };
        let told = client.runtime.block_on(async {
            let all = (0..40).map(|_| tokio::spawn(unfinished(&client.channel, CLAIMED, 150 << 10)));
            let all: Vec<_> = all.collect();
            let mut most = 0;
            let mut told = Vec::new();
            for one in all {
                most = most.max(figure());
                told.push(one.await.unwrap());
            }
            assert!(most <= SHARE, "{most}");
            told
        });
        let count = |code: tonic::Code| told.iter().flatten().filter(|status| status.code() == code).count();
        let (crowded, late) = (count(tonic::Code::ResourceExhausted), count(tonic::Code::DeadlineExceeded));
        assert!(crowded > 0 && late > 0, "{told:?}");
        assert_eq!(figure(), 0, "nothing is held of what has ended");
        // Others are answered.
        assert_eq!(client.health(""), Ok(1));
    });
}

//! Errors of a node about servers that it cannot use, and its work with TLS and the least rights. Where waiting helps
//! nothing it does not wait: these nodes would wait for an hour.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cluster::remote::{
    CellChange, ExactLimitBatch, ExactLimitRequest, MarkClaim, Partition, RemoteCluster, WriteOutcome,
};
use cluster::wire::{ClusterOpenError, ClusterTls, WireClient, WireSettings};
use event::{Span, Time};
use stats::limit::WindowTake;
use stats::{Addition, CellPlan, Measure, StatisticChange};
use tempfile::TempDir;

use crate::servers::{Cluster, Server, are_there};
use crate::support::{WITHIN, WireNode, batch, cell, form, measures, settings};

const CLUSTER_PAGE: &str = include_str!("../../../../docs/operating/cluster.md");

/// Returns the error that opening ends with; not in an hour.
fn refusal(settings: WireSettings) -> String {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let opening = WireClient::open(settings, runtime.handle().clone());
    let opened = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), opening).await });
    let error: ClusterOpenError = opened.expect("it does not wait").expect_err("it is refused");
    error.to_string()
}

fn with_long_deadline(nodes: Vec<String>) -> WireSettings {
    WireSettings { open_within: Duration::from_secs(3600), ..settings(nodes, 1) }
}

fn with_user(settings: &WireSettings, user: &str, password: &str) -> WireSettings {
    WireSettings { username: Some(user.to_owned()), password: Some(password.to_owned()), ..settings.clone() }
}

#[test]
fn servers_that_do_not_answer_are_named() {
    let closed = || {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let (one, other) = (closed(), closed());
    let impatient =
        WireSettings { open_within: Duration::ZERO, ..settings(vec![one.clone(), other.clone()], 1) };
    let said = refusal(impatient);
    for part in [&one, &other, "Connection refused", "Start its servers, or correct `nodes` in [cluster]"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_server_of_no_cluster_is_refused() {
    if !are_there() {
        return;
    }
    let directory = TempDir::new().unwrap();
    let server =
        Server::start(Path::new("redis-server"), directory.path().join("0"), &["--cluster-enabled", "no"]);
    let said = refusal(with_long_deadline(vec![server.address()]));
    assert!(said.contains(&server.address()) && said.contains("cluster support disabled"), "{said}");
    assert!(said.contains("start it with `cluster-enabled yes`"), "{said}");
}

#[test]
fn wrong_credentials_and_missing_rights_are_refused() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let server = &cluster.servers[0];
    let all = with_long_deadline(cluster.addresses());
    let said = refusal(with_user(&all, "nobody", "wrong"));
    assert!(said.contains(&server.address()) && said.contains("authentication failed"), "{said}");
    assert!(said.ends_with("Correct `user` and `password` in [cluster]"), "{said}");
    let rights = [
        ("-hset -cluster", "NOPERM"),
        ("-hset -pexpire", "the user `weak` may not run HSET, PEXPIRE in scripts"),
        ("-evalsha", "the user `weak` may not run EVALSHA"),
        ("-script -wait", "the user `weak` may not run SCRIPT LOAD, nor run WAIT"),
        ("resetkeys ~others:*", "the user `weak` may not use keys of the prefix"),
    ];
    for (right, expected) in rights {
        let set = ["ACL", "SETUSER", "weak", "reset", "on", ">word", "~*", "&*", "+@all"];
        let set: Vec<&str> = set.into_iter().chain(right.split(' ')).collect();
        assert_eq!(server.cli(&set).trim(), "OK");
        let said = refusal(WireSettings { replicas: 1, ..with_user(&all, "weak", "word") });
        assert!(said.contains(expected) && said.contains(&server.address()), "{said}");
        assert!(said.ends_with("Give the user the rights that docs/operating/cluster.md names"), "{said}");
    }
    server.cli(&["CONFIG", "SET", "requirepass", "secret"]);
    let said = refusal(all);
    assert!(
        said.contains("NOAUTH") && said.ends_with("Correct `user` and `password` in [cluster]"),
        "{said}"
    );
}

/// Makes an authority (`authority.pem`), and a key and a certificate of it for this host (`key.pem`, `certificate.pem`).
fn certify(directory: &Path) -> Option<()> {
    std::fs::create_dir_all(directory).unwrap();
    std::fs::write(directory.join("host"), "subjectAltName=IP:127.0.0.1").unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout";
    let steps = [
        format!("req -x509 {key} authority.key -out authority.pem -days 2 -subj /CN=authority"),
        format!("req {key} key.pem -out request.pem -subj /CN=tollhouse"),
        "x509 -req -in request.pem -CA authority.pem -CAkey authority.key -CAcreateserial -days 2 -extfile host -out \
         certificate.pem"
            .to_owned(),
    ];
    for step in steps {
        let made = Command::new("openssl").args(step.split(' ')).current_dir(directory).output();
        match made {
            Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => {
                println!("skipped: TLS to the cluster: openssl: {error}");
                return None;
            }
        }
    }
    Some(())
}

/// A server that speaks with and without TLS, where it speaks TLS, and the authority of its certificate. It announces the
/// one port or the other.
fn encrypted(directory: &Path, announced: &str) -> Option<(Cluster, String, PathBuf)> {
    are_there().then_some(())?;
    certify(directory)?;
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let file = |name: &str| directory.join(name).display().to_string();
    let (key, certificate, authority) = (file("key.pem"), file("certificate.pem"), file("authority.pem"));
    let options = ["--tls-port", &port.to_string(), "--tls-auth-clients", "no", "--tls-key-file", &key];
    let files = ["--tls-cert-file", &certificate, "--tls-ca-cert-file", &authority];
    let options = [&options[..], &files, &["--tls-cluster", announced]].concat();
    let cluster = Cluster::single(&options)?;
    Some((cluster, format!("127.0.0.1:{port}"), directory.join("authority.pem")))
}

#[test]
fn tls_where_there_is_none_and_none_where_there_is_are_told() {
    let directory = TempDir::new().unwrap();
    let Some((cluster, address, own)) = encrypted(&directory.path().join("a"), "no") else { return };
    certify(&directory.path().join("b")).unwrap();
    let other = directory.path().join("b/authority.pem");
    let by = |authorities: &Path, address: &str| WireSettings {
        tls: Some(ClusterTls { authorities: Some(authorities.to_owned()) }),
        ..with_long_deadline(vec![address.to_owned()])
    };
    let said = refusal(with_long_deadline(vec![address.clone()]));
    assert!(said.contains(&address) && said.contains("it speaks TLS, and nothing else"), "{said}");
    assert!(said.contains("Set `tls = true` in [cluster]"), "{said}");
    let plain = cluster.servers[0].address();
    let said = refusal(by(&own, &plain));
    assert!(said.contains(&plain) && said.contains("it speaks no TLS"), "{said}");
    assert!(said.contains("Leave `tls` out of [ledger]"), "{said}");
    // It is asked where it speaks TLS, and says that it is elsewhere.
    let said = refusal(by(&own, &address));
    assert!(said.contains(&plain) && said.contains("`tls-cluster yes`"), "{said}");
    let said = refusal(by(&other, &address));
    assert!(said.contains(&address) && said.contains("Set `tls_ca` in [cluster]"), "{said}");
}

/// With the very rights of the documents.
#[test]
fn a_node_works_with_tls_and_the_least_rights() {
    let directory = TempDir::new().unwrap();
    let Some((cluster, address, authority)) = encrypted(directory.path(), "yes") else { return };
    let rights =
        CLUSTER_PAGE.lines().find(|line| line.starts_with("ACL SETUSER tollhouse ")).expect("the rights");
    let set: Vec<&str> = rights.split(' ').collect();
    assert_eq!(cluster.servers[0].cli(&set).trim(), "OK", "{rights}");
    let password = set.iter().find_map(|word| word.strip_prefix('>')).expect("a password");
    let settings = WireSettings {
        tls: Some(ClusterTls { authorities: Some(authority) }),
        ..with_user(&settings(vec![address], 1), "tollhouse", password)
    };
    // What is waited for replicas is looked at, too.
    let opened = WireNode::open(WireSettings { replicas: 1, ..settings.clone() });
    drop(opened);
    let wired = WireNode::open(settings);
    let at = Time::from_seconds(1_750_000_000);
    for (kind, measure) in measures().into_iter().enumerate() {
        let form = form(kind as u16, measure.clone());
        let one = cell(&form, (kind as u64 + 1) << 54);
        let partition = wired.of(&one);
        if matches!(measure, Measure::Once(_)) {
            let claim = MarkClaim { cell: one, time: at, token: [1; 16] };
            assert_eq!(pollster::block_on(wired.wire.claim(vec![claim], WITHIN)), [Ok(true)]);
            continue;
        }
        let plan = CellPlan::new(&measure).unwrap();
        let mut words = Vec::new();
        match measure {
            Measure::Aggregate(_) => plan.add_value(&mut words, at, Some(i64::MAX)),
            Measure::Evidence(_) => plan.add_evidence(&mut words, at, stats::Evidence::default()),
            Measure::Last(_) => plan.apply(&mut words, &StatisticChange::Last(at, "DE")),
            Measure::Gcra(_) => plan.flow(&mut words, at, &stats::limit::GcraOperation::Set { ahead: 1 }),
            Measure::Approx(_) => plan.add_hash(&mut words, at, 7),
            _ => plan.add(&mut words, at, [(0, u64::MAX)]),
        }
        for (number, later) in [(1, Span::ZERO), (2, Span::days(1))] {
            let change = CellChange::Merge(words.clone());
            let horizon = Time(i64::MIN) + later;
            let written = wired.write_one(batch(partition, number, horizon, vec![(one.clone(), change)]));
            assert!(matches!(written, Ok(WriteOutcome::Now(_))), "{measure:?}: {written:?}");
        }
        assert!(wired.read_one(partition, &[one]).unwrap().images[0].is_some());
    }
    let form = form(40, Measure::limit(Span::minutes(1), 6).unwrap());
    let one = cell(&form, 1 << 60);
    let take = WindowTake { cost: 1, limit: 5, counts_all: false, interpolated: false };
    let ask = ExactLimitRequest {
        cell: one.clone(),
        time: at,
        windows: [Some(Span::minutes(1)), None],
        add: Addition::Take(take),
    };
    let round = ExactLimitBatch {
        partition: wired.of(&one),
        owner: [1; 16],
        number: 1,
        horizon: Time(i64::MIN),
        asks: vec![ask].into(),
    };
    assert!(pollster::block_on(wired.wire.take(vec![round], WITHIN)).remove(0).is_ok());
    assert!(pollster::block_on(wired.wire.numbers(WITHIN)).iter().all(Result::is_ok));
    assert_eq!(pollster::block_on(wired.wire.renew(vec![Partition(1)], WITHIN)), Ok(()));
    let found = pollster::block_on(wired.wire.generations(0, WITHIN)).unwrap();
    assert!(found.is_some_and(|found| found.partitions.contains_key(&Partition(1))));
    let shingles = HashSet::from([one.key.shingle]);
    let erased = wired.wait(async |wire| cluster::erase(wire, &shingles, false, &mut |_| ()).await);
    assert_eq!(erased, Ok(1));
    let counters = wired.wire.counters();
    assert_eq!(counters.damaged.load(std::sync::atomic::Ordering::Relaxed), 0);
}

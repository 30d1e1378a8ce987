//! A stream of NATS, to a server. The broker is Debian's `nats-server`. Users, keys and certificates are those that
//! `nats/fixtures.py` made.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use async_nats::ConnectOptions;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{self, Context, stream};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::follow::{Ends, end, line, seen, survives_kills, wait};
use crate::ports::free_port;
use crate::program::{Data, Ran, Server, command, run, run_with};

const STREAM: &str = "LOGS";
/// The time to wait for what must come.
const PATIENCE: Duration = Duration::from_secs(180);
/// Files of `nats/fixtures.py`.
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/nats");

fn fixture(name: &str) -> String {
    format!("{FIXTURES}/{name}")
}

/// The broker's process on a port.
fn start(storage: &Path, port: u16, options: &[&str]) -> Option<Ends> {
    let started = Command::new("nats-server")
        .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
        .arg(storage)
        .arg("--ports_file_dir")
        .arg(storage)
        .args(options)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = started else {
        println!("skipped: a stream of NATS is consumed: nats-server is not installed");
        return None;
    };
    let mut broker = Ends(child);
    let ports = storage.join(format!("nats-server_{}.ports", broker.0.id()));
    let began = Instant::now();
    // It writes this file when it listens.
    while !ports.exists() {
        assert!(broker.0.try_wait().unwrap().is_none(), "nats-server has ended");
        assert!(began.elapsed() < PATIENCE, "nats-server does not listen");
        thread::sleep(Duration::from_millis(20));
    }
    Some(broker)
}

/// A broker, and somebody who may do everything there.
pub(crate) struct Broker {
    process: Option<Ends>,
    storage: TempDir,
    port: u16,
    jetstream: Context,
    runtime: Runtime,
}

impl Broker {
    /// Without users.
    pub(crate) fn open() -> Option<Broker> {
        Broker::start(&[], ConnectOptions::new())
    }

    fn start(options: &[&str], connect: ConnectOptions) -> Option<Broker> {
        let storage = tempfile::tempdir().unwrap();
        let port = free_port();
        let process = start(storage.path(), port, options)?;
        let runtime = Runtime::new().unwrap();
        let jetstream = runtime.block_on(async {
            jetstream::new(connect.connect(format!("nats://127.0.0.1:{port}")).await.unwrap())
        });
        Some(Broker { process: Some(process), storage, port, jetstream, runtime })
    }

    /// Kills the process.
    pub(crate) fn end(&mut self) {
        end(self.process.take().unwrap(), Signal::KILL);
    }

    /// Starts the process again, with what it has stored.
    pub(crate) fn begin_again(&mut self) {
        self.process = start(self.storage.path(), self.port, &[]);
    }

    /// The ids and contents of all messages that the stream has; none while it cannot be asked.
    pub(crate) fn stored(&self) -> Vec<(String, Vec<u8>)> {
        let stored = async {
            let stream = self.jetstream.get_stream(STREAM).await.ok()?;
            let mut all = Vec::new();
            for sequence in 1..=stream.cached_info().state.last_sequence {
                let message = stream.get_raw_message(sequence).await.ok()?;
                let id = message.headers.get("Nats-Msg-Id")?.to_string();
                all.push((id, message.payload.to_vec()));
            }
            Some(all)
        };
        self.runtime.block_on(stored).unwrap_or_default()
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(crate) fn make_stream(&self) {
        let config = stream::Config {
            name: STREAM.to_owned(),
            subjects: vec!["logs.*".to_owned()],
            ..stream::Config::default()
        };
        self.runtime.block_on(self.jetstream.create_stream(config)).unwrap();
    }

    /// Publishes and waits for the stream's answer, so that the message is kept.
    fn publish(&self, text: impl Into<Vec<u8>>) {
        let text = text.into().into();
        self.runtime.block_on(async {
            let kept = self.jetstream.publish("logs.a", text).await.unwrap();
            kept.await.unwrap();
        });
    }

    /// Messages of a consumer that were handed out and not acknowledged, and those that were not handed out.
    fn open_messages(&self, consumer: &str) -> (usize, u64) {
        self.runtime.block_on(async {
            let stream = self.jetstream.get_stream(STREAM).await.unwrap();
            let info = stream.consumer_info(consumer).await.unwrap();
            (info.num_ack_pending, info.num_pending)
        })
    }
}

fn follow(server: &Server, url: &str, options: &[&str]) -> Command {
    let args = ["follow", "--server", &server.url, "--stream", STREAM, "--nats", url].map(OsStr::new);
    let mut command = command(&args);
    command.args(options).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    command
}

fn start_follower(server: &Server, url: &str, options: &[&str]) -> Ends {
    Ends(follow(server, url, options).spawn().unwrap())
}

/// Runs a follower that cannot begin, and returns what it says.
fn refused(url: &str, options: &[&str]) -> String {
    let follow = ["follow", "--server", "http://127.0.0.1:1", "--stream", STREAM, "--nats", url];
    run([&follow[..], options].concat(), "").expect(2).stderr
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Several batches are decided at once, in any order.
const IN_FLIGHT: [&str; 2] = ["--in-flight", "3"];

#[test]
fn a_stream_of_nats_is_taken_whole_though_the_server_is_killed() {
    is_taken_whole(&[]);
}

#[test]
fn a_stream_of_nats_of_which_batches_are_in_flight_is_taken_whole_though_the_server_is_killed() {
    is_taken_whole(&IN_FLIGHT);
}

fn is_taken_whole(options: &[&str]) {
    let Some(broker) = Broker::open() else { return };
    broker.make_stream();
    let data = Data::new(&["web"]);
    survives_kills(
        &data,
        |server| start_follower(server, &broker.url(), options),
        |at| broker.publish(line(at % 60, &at.to_string())),
    );
}

/// Followers are killed while several of their batches are decided: what was not acknowledged comes again, and counts once.
#[test]
fn a_stream_of_nats_of_which_batches_are_in_flight_is_consumed_once() {
    let Some(broker) = Broker::open() else { return };
    broker.make_stream();
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let mut sent = 0;
    for round in 0..2 {
        for at in 0..150 {
            broker.publish(line(at % 60, &format!("{round}-{at}")));
        }
        sent += 150;
        let before = seen(&server);
        let child = start_follower(&server, &broker.url(), &IN_FLIGHT);
        wait_until("nothing is taken", || seen(&server) > before);
        end(child, Signal::KILL);
    }
    let child = start_follower(&server, &broker.url(), &IN_FLIGHT);
    wait(&server, sent);
    end(child, Signal::TERM);
    assert_eq!(seen(&server), sent);
}

#[test]
fn a_stream_of_nats_that_was_made_anew_is_another() {
    let Some(broker) = Broker::open() else { return };
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    broker.make_stream();
    let child = start_follower(&server, &broker.url(), &[]);
    for round in 1..4 {
        broker.publish(line(1, "a"));
        wait(&server, round);
        // Under the feet of the follower, which goes on with the new one.
        broker.runtime.block_on(broker.jetstream.delete_stream(STREAM)).unwrap();
        broker.make_stream();
    }
    end(child, Signal::TERM);
}

#[test]
fn a_stream_of_nats_is_consumed_once() {
    let Some(broker) = Broker::open() else { return };
    broker.make_stream();
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let follow = |consumer: &str| start_follower(&server, &broker.url(), &["--consumer", consumer]);
    broker.publish(line(1, "a"));
    broker.publish(line(1, "a"));
    let child = follow("first");
    wait(&server, 2);
    broker.publish(line(2, "b"));
    wait(&server, 3);
    // Killed; what came meanwhile is taken by the next one, and nothing twice.
    end(child, Signal::KILL);
    broker.publish(line(3, "c"));
    let child = follow("first");
    wait(&server, 4);
    wait_until("messages are not acknowledged", || broker.open_messages("first") == (0, 0));
    end(child, Signal::TERM);
    // Another consumer gets everything from the beginning: it has the same names.
    let child = follow("second");
    broker.publish(line(4, "d"));
    wait(&server, 5);
    wait_until("messages are not acknowledged", || broker.open_messages("second") == (0, 0));
    end(child, Signal::TERM);
    assert_eq!(seen(&server), 5);
}

#[test]
fn a_broker_of_nats_that_was_killed_is_asked_again() {
    let Some(mut broker) = Broker::open() else { return };
    broker.make_stream();
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let said = broker.storage.path().join("said");
    let stderr = File::create(&said).unwrap();
    let child = Ends(follow(&server, &broker.url(), &[]).stderr(stderr).spawn().unwrap());
    let says = |text: &str| fs::read_to_string(&said).unwrap().contains(text);
    for round in 0..3 {
        broker.publish(line(2 * round, "a"));
        wait(&server, 2 * round.cast_unsigned() + 1);
        broker.end();
        wait_until("no end of the connection is told", || says("it is asked again until it answers"));
        broker.begin_again();
        broker.publish(line(2 * round + 1, "b"));
        wait(&server, 2 * round.cast_unsigned() + 2);
        wait_until("no new beginning is told", || says("NATS answers again"));
        File::create(&said).unwrap();
    }
    end(child, Signal::TERM);
}

#[test]
fn messages_of_nats_of_any_size_are_taken() {
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), "max_payload: 12MB").unwrap();
    let config = config.path().to_str().unwrap();
    let Some(broker) = Broker::start(&["-c", config], ConnectOptions::new()) else { return };
    broker.make_stream();
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let said = broker.storage.path().join("said");
    let stderr = File::create(&said).unwrap();
    // More than a batch together, more than a batch alone, and what comes behind it.
    for megabytes in [0, 3, 3, 3, 3, 0, 9, 0, 11] {
        broker.publish(match megabytes {
            0 => line(1, "a").into_bytes(),
            megabytes => vec![b'x'; megabytes << 20],
        });
    }
    let child = Ends(follow(&server, &broker.url(), &[]).stderr(stderr).spawn().unwrap());
    wait_until("not all is acknowledged", || {
        seen(&server) == 3 && broker.open_messages("tollhouse") == (0, 0)
    });
    end(child, Signal::TERM);
    let said = fs::read_to_string(said).unwrap();
    assert!(said.contains("3 events, 6 lines that were none"), "{said}");
    assert!(said.contains(":7: longer than 65536 bytes"), "{said}");
}

#[test]
fn a_stream_of_nats_is_followed_by_those_who_may() {
    let logins = [
        (
            &["--user", "toll", "--pass", "p@ss"][..],
            ConnectOptions::with_user_and_password("toll".into(), "p@ss".into()),
            "toll:p%40ss",
            &["--user", "toll", "--password", "p@ss"][..],
        ),
        (&["--auth", "secret"], ConnectOptions::with_token("secret".into()), "secret", &["--user", "secret"]),
    ];
    for (options, connect, login, flags) in logins {
        let Some(broker) = Broker::start(options, connect) else { return };
        broker.make_stream();
        let data = Data::new(&["web"]);
        let server = Server::start(&data.path(), &[]);
        for login in ["", "other@", "toll:other@"] {
            let said = refused(&format!("nats://{login}127.0.0.1:{}", broker.port), &[]);
            let place = format!("NATS: 127.0.0.1:{}: authorization violation", broker.port);
            assert!(said.contains(&place) && said.contains("say who asks"), "{said}");
        }
        let url = format!("nats://{login}@127.0.0.1:{}", broker.port);
        let mut by_variables = follow(&server, &broker.url(), &[]);
        by_variables.env("NATS_USER", flags[1]);
        if let Some(password) = flags.get(3) {
            by_variables.env("NATS_PASSWORD", password);
        }
        let ways = [follow(&server, &url, &[]), follow(&server, &broker.url(), flags), by_variables];
        for (count, mut way) in (1..).zip(ways) {
            let child = Ends(way.spawn().unwrap());
            broker.publish(line(1, "a"));
            wait(&server, count);
            end(child, Signal::TERM);
        }
    }
}

/// A broker that takes TLS alone, and users by their keys.
fn broker_with_tls(more: &[&str]) -> Option<Broker> {
    let [config, certificate, key, authority] =
        ["accounts.conf", "certificate.pem", "key.pem", "authority.pem"].map(fixture);
    let options = ["-c", &config, "--tls", "--tlscert", &certificate, "--tlskey", &key];
    let creds = fs::read_to_string(fixture("user.creds")).unwrap();
    let connect = ConnectOptions::with_credentials(&creds)
        .unwrap()
        .add_root_certificates(authority.into())
        .add_client_certificate(certificate.clone().into(), key.clone().into());
    Broker::start(&[&options, more].concat(), connect)
}

#[test]
fn a_stream_of_nats_is_followed_with_credentials_and_tls() {
    let Some(broker) = broker_with_tls(&[]) else { return };
    broker.make_stream();
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let [creds, ca] = ["user.creds", "authority.pem"].map(fixture);
    let url = format!("tls://127.0.0.1:{}", broker.port);
    let said = refused(&url, &["--creds", &creds]);
    assert!(
        said.contains("invalid peer certificate: UnknownIssuer") && said.contains("--tlsca FILE"),
        "{said}"
    );
    let said = refused(&url, &["--tlsca", &ca]);
    assert!(said.contains("authorization violation") && said.contains("--creds FILE"), "{said}");
    // Where the broker asks for TLS it is spoken, whatever the address says.
    let mut by_variables = follow(&server, &broker.url(), &[]);
    by_variables.env("NATS_CREDS", &creds).env("NATS_CA", &ca);
    let ways = [follow(&server, &url, &["--creds", &creds, "--tlsca", &ca]), by_variables];
    for (count, mut way) in (1..).zip(ways) {
        let child = Ends(way.spawn().unwrap());
        broker.publish(line(1, "a"));
        wait(&server, count);
        end(child, Signal::TERM);
    }
}

#[test]
fn a_stream_of_nats_is_followed_with_a_certificate() {
    let [creds, ca, certificate, key] =
        ["user.creds", "authority.pem", "certificate.pem", "key.pem"].map(fixture);
    let Some(broker) = broker_with_tls(&["--tlsverify", "--tlscacert", &ca]) else { return };
    broker.make_stream();
    broker.publish(line(1, "a"));
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let said = refused(&broker.url(), &["--creds", &creds, "--tlsca", &ca]);
    assert!(said.contains("does the server offer TLS?"), "{said}");
    let all = ["--creds", &creds, "--tlsca", &ca, "--tlscert", &certificate, "--tlskey", &key];
    let child = start_follower(&server, &broker.url(), &all);
    wait(&server, 1);
    end(child, Signal::TERM);
}

#[test]
fn a_broker_of_nats_without_tls_gets_no_password() {
    let Some(broker) = Broker::open() else { return };
    broker.make_stream();
    let ca = fixture("authority.pem");
    for (url, options) in [
        (format!("tls://toll:secret@127.0.0.1:{}", broker.port), &[][..]),
        (broker.url(), &["--user", "toll", "--password", "secret", "--tlsca", &ca]),
    ] {
        let said = refused(&url, options);
        assert!(said.contains("does the server offer TLS?") && !said.contains("secret"), "{said}");
    }
}

#[test]
fn what_is_wrong_with_a_stream_of_nats_is_told() {
    let Some(broker) = Broker::open() else { return };
    let (url, port) = (broker.url(), broker.port);
    let check = |url: &str, options: &[&str], expected: &[&str]| {
        let said = refused(url, options);
        assert!(expected.iter().all(|text| said.contains(text)), "{said}");
    };
    check(&url, &[], &[&format!("NATS: 127.0.0.1:{port}: stream `LOGS`: "), "stream not found"]);
    broker.make_stream();
    let config = pull::Config {
        durable_name: Some("deaf".to_owned()),
        ack_policy: AckPolicy::None,
        ..pull::Config::default()
    };
    let stream = broker.runtime.block_on(broker.jetstream.get_stream(STREAM)).unwrap();
    broker.runtime.block_on(stream.create_consumer(config)).unwrap();
    check(&url, &["--consumer", "deaf"], &["consumer `deaf`", "--consumer"]);
    check(&url, &["--consumer", "a.b"], &["letters, digits"]);
    check("nats://127.0.0.1:1", &[], &["NATS: 127.0.0.1:1: ", "does it run there?"]);
    check("http://127.0.0.1:1", &[], &["no address of a server", "nats://"]);
    let empty = tempfile::NamedTempFile::new().unwrap();
    let empty = empty.path().to_str().unwrap();
    check(&url, &["--creds", "/none"], &["NATS: /none: No such file"]);
    check(&url, &["--creds", empty], &[empty, "credentials file"]);
    check(&url, &["--tlsca", "/none"], &["NATS: /none: No such file"]);
    check(&url, &["--tlsca", empty], &[empty, "no certificate in PEM"]);
    let certificate = fixture("certificate.pem");
    check(&url, &["--tlscert", &certificate, "--tlskey", &certificate], &["no private key in PEM"]);
    check(&url, &["--tlscert", &certificate], &["--tlskey"]);
    let half = [("NATS_CERT".to_owned(), certificate)];
    let Ran { stderr, .. } =
        run_with(&half, &["follow", "--server", "http://127.0.0.1:1", "--stream", STREAM, "--nats", &url]);
    assert!(stderr.contains("NATS_CERT and NATS_KEY belong together"), "{stderr}");
}

#[test]
fn what_a_user_of_nats_may_not_do_is_told() {
    let config = tempfile::NamedTempFile::new().unwrap();
    let users = r#"authorization {
        users: [
            { user: all, password: a }
            { user: few, password: b, permissions: { publish: ["$JS.API.STREAM.INFO.LOGS"] } }
        ]
    }"#;
    fs::write(config.path(), users).unwrap();
    let all = ConnectOptions::with_user_and_password("all".into(), "a".into());
    let Some(broker) = Broker::start(&["-c", config.path().to_str().unwrap()], all) else { return };
    broker.make_stream();
    let said = refused(&broker.url(), &["--user", "few", "--password", "b"]);
    assert!(said.contains("consumer `tollhouse`"), "{said}");
    assert!(said.contains("Permissions Violation for Publish to"), "{said}");
    assert!(said.contains("$JS.API.CONSUMER.INFO.LOGS.tollhouse"), "{said}");
}

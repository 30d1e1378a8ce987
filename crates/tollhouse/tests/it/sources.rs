//! Sources that a server reads by itself: files, the journal, senders of syslog.

use std::fs::{self, File};
use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::follow::{LAZY, line, seen, stand_in_journal, wait};
use crate::program::{Data, Server};

fn append(path: &Path, text: &str) {
    File::options().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// A data directory with a source.
fn data_with(source: &str) -> Data {
    let data = Data::new(&["web"]);
    append(&data.path().join("tollhouse.toml"), &format!("\n[[source]]\nname = \"s\"\n{source}\n"));
    data
}

fn get(server: &Server, path: &str) -> String {
    ureq::get(format!("{}{path}", server.url)).call().unwrap().body_mut().read_to_string().unwrap()
}

/// The first source, as the server tells it.
fn status(server: &Server) -> Value {
    let all: Value = serde_json::from_str(&get(server, "/v1/sources")).unwrap();
    all["sources"][0].clone()
}

#[track_caller]
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(180), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn files_are_read_whole_though_the_server_is_killed() {
    let parent = tempfile::tempdir().unwrap();
    let log = |name: &str| parent.path().join(name);
    let data = data_with(&format!("files = ['{}/*.log']", parent.path().display()));
    append(&log("a.log"), &(line(1, "a") + "no request\n" + &line(2, "b")));
    let mut server = Server::start(&data.path(), &LAZY);
    wait(&server, 2);
    wait_until("the bad line", || status(&server)["bad"] == 1);
    let mut sent = 2;
    // Which file of a name it is has to be known before that is rotated away.
    let is_kept = || {
        let kept = fs::read_to_string(data.path().join("sources.json")).unwrap_or_default();
        let kept: Value = serde_json::from_str(kept.lines().next().unwrap_or_default()).unwrap_or_default();
        let offset = kept["s"]["files"][log("a.log").to_str().unwrap()]["offset"].as_u64();
        offset == Some(fs::metadata(log("a.log")).unwrap().len())
    };
    for kill in 0..3i64 {
        wait_until("the position", is_kept);
        for at in 0..20 {
            append(&log("a.log"), &line(at, &format!("a{kill}/{at}")));
            append(&log("b.log"), &line(at, &format!("b{kill}/{at}")));
        }
        fs::rename(log("a.log"), log("a.log.1")).unwrap();
        append(&log("a.log.1"), &line(3, &format!("late{kill}")));
        append(&log("a.log"), &line(4, &format!("new{kill}")));
        sent += 42;
        if kill != 1 {
            while seen(&server) + 5 < sent {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let url = server.url.clone();
        server.end(Signal::KILL);
        server = Server::start_again(&data.path(), &url, &LAZY);
        wait(&server, sent);
    }
    assert_eq!(server.end(Signal::TERM), Some(0));
    // What was read is known after a graceful end, and is not read again.
    let server = Server::start(&data.path(), &[]);
    append(&log("b.log"), &line(5, "last"));
    wait(&server, sent + 1);
    wait_until("one line", || status(&server)["lines"] == 1);
    let told = status(&server);
    assert_eq!((&told["state"], &told["kind"]), (&"reading".into(), &"files".into()), "{told}");
    assert!(told["fault"].is_null() && told["last_line"].is_string(), "{told}");
    let metrics = get(&server, "/metrics");
    assert!(metrics.contains("tollhouse_source_lines_total{source=\"s\"} 1"), "{metrics}");
    assert_eq!(server.end(Signal::TERM), Some(0));
    // Without positions all is read again, and counts once.
    fs::remove_file(data.path().join("sources.json")).unwrap();
    let server = Server::start(&data.path(), &[]);
    wait_until("all lines", || status(&server)["lines"].as_u64() > Some(40));
    assert_eq!(seen(&server), sent + 1);
}

/// Containers are known by their names, also those that start later; nobody else's lines are read.
#[test]
fn logs_of_containers_are_read_by_name() {
    let parent = tempfile::tempdir().unwrap();
    let write = |id: &str, name: &str, text: &str| {
        let folder = parent.path().join(id);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.v2.json"), format!("{{\"Name\":\"/{name}\"}}")).unwrap();
        let entry = serde_json::json!({"log": text, "stream": "stdout", "time": "2026-05-17T09:00:00Z"});
        append(&folder.join(format!("{id}-json.log")), &format!("{entry}\n"));
    };
    write("a1", "web-1", &line(1, "a"));
    write("b2", "database", &line(2, "b"));
    let docker = format!("docker = {{ containers = ['web-*'], directory = '{}' }}", parent.path().display());
    let data = data_with(&docker);
    let server = Server::start(&data.path(), &[]);
    wait(&server, 1);
    write("c3", "web-2", &line(3, "c"));
    write("a1", "web-1", &line(4, "d"));
    wait(&server, 3);
    let told = status(&server);
    assert_eq!(
        (&told["kind"], &told["lines"], &told["bad"]),
        (&"docker".into(), &3.into(), &0.into()),
        "{told}"
    );
    assert_eq!(server.end(Signal::TERM), Some(0));
    write("a1", "web-1", &line(5, "e"));
    let server = Server::start(&data.path(), &[]);
    wait(&server, 4);
    wait_until("one line", || status(&server)["lines"] == 1);
}

#[test]
fn a_source_that_cannot_be_read_says_so_and_goes_on_later() {
    let parent = tempfile::tempdir().unwrap();
    let log = parent.path().join("access.log");
    let data = data_with(&format!("files = ['{}']", log.display()));
    fs::create_dir(&log).unwrap();
    let server = Server::start(&data.path(), &[]);
    wait_until("the fault", || status(&server)["state"] == "failing");
    let reason = status(&server)["fault"]["reason"].to_string();
    assert!(reason.contains("access.log: it is no regular file"), "{reason}");
    wait_until("the condition", || get(&server, "/readyz").contains("sources-failing"));
    fs::remove_dir(&log).unwrap();
    append(&log, &line(1, "a"));
    wait(&server, 1);
    wait_until("the end of it", || !get(&server, "/readyz").contains("sources-failing"));
    // Positions that are damaged are put aside, and told.
    assert_eq!(server.end(Signal::TERM), Some(0));
    fs::write(data.path().join("sources.json"), "nothing").unwrap();
    let server = Server::start(&data.path(), &[]);
    let is_reported = || get(&server, "/readyz").contains("sources.json is damaged");
    assert!(is_reported(), "{}", get(&server, "/readyz"));
    assert!(data.path().join("sources.json.damaged").exists());
    wait_until("all lines", || status(&server)["lines"] == 1);
    // That they were lost stays true once they are written anew.
    wait_until("the positions", || data.path().join("sources.json").exists());
    assert!(is_reported(), "{}", get(&server, "/readyz"));
    assert_eq!(seen(&server), 1);
}

#[test]
fn the_journal_is_read_from_its_cursor() {
    let parent = tempfile::tempdir().unwrap();
    let (environment, entries) = stand_in_journal(parent.path());
    let entry = |number: i64| {
        let message = line(number, &number.to_string());
        let entry = serde_json::json!({"__CURSOR": format!("c{number}"), "MESSAGE": message.trim_end()});
        format!("{entry}\n")
    };
    append(&entries, &(entry(1) + &entry(2)));
    let data = data_with("journald = { units = ['caddy'] }");
    let server = Server::start_in(&data.path(), &environment, &LAZY);
    wait(&server, 2);
    append(&entries, &entry(3));
    wait(&server, 3);
    server.end(Signal::KILL);
    append(&entries, &entry(4));
    let server = Server::start_in(&data.path(), &environment, &LAZY);
    wait(&server, 4);
    assert_eq!(server.end(Signal::TERM), Some(0));
    let server = Server::start_in(&data.path(), &environment, &[]);
    append(&entries, &entry(5));
    wait(&server, 5);
    wait_until("one line", || status(&server)["lines"] == 1);
    let units = fs::read_to_string(parent.path().join("entries.units")).unwrap();
    assert!(units.lines().all(|unit| unit == "--unit=caddy"), "{units}");
}

/// The address at which a server takes syslog.
fn syslog_address(server: &Server) -> String {
    wait_until("the address", || server.said().contains(" for syslog"));
    let said = server.said();
    let words = said.lines().find_map(|line| line.strip_suffix(" for syslog"));
    words.unwrap().split_whitespace().last().unwrap().to_owned()
}

#[test]
fn datagrams_of_syslog_are_judged() {
    let data = data_with("syslog = 'udp://127.0.0.1:0'");
    let server = Server::start(&data.path(), &[]);
    let address = syslog_address(&server);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |bytes: &[u8]| assert_eq!(socket.send_to(bytes, &address).unwrap(), bytes.len());
    send(format!("<190>Nov 26 12:00:00 host nginx: {}", line(1, "a")).as_bytes());
    send(format!("<190>1 2026-11-26T12:00:00Z host nginx 7 - - {}", line(2, "b")).as_bytes());
    for wrong in [&b""[..], b"\n", b"<", b"<1>1 ", &[0xff; 9000], b"<190>no request"] {
        send(wrong);
    }
    send(format!("<190>host nginx: {}", line(3, "c")).as_bytes());
    wait(&server, 3);
    wait_until("the wrong ones", || status(&server)["bad"] == 4);
    // What was taken is decided before a server ends.
    for at in 0..50 {
        send(format!("<190>nginx: {}", line(at % 60, &format!("d{at}"))).as_bytes());
    }
    wait_until("all lines", || status(&server)["lines"] == 57);
    assert_eq!(server.end(Signal::TERM), Some(0));
    let server = Server::start(&data.path(), &[]);
    assert_eq!(seen(&server), 53);
}

#[test]
fn streams_of_syslog_are_judged_whatever_their_framing() {
    let data = data_with("syslog = 'tcp://127.0.0.1:0'\nclient_connections_max = 2\nrate_max = 40");
    let server = Server::start(&data.path(), &LAZY);
    let address = syslog_address(&server);
    let message = |at: i64| format!("<190>host nginx: {}", line(at, &at.to_string()).trim_end());
    let mut lines = TcpStream::connect(&address).unwrap();
    lines.write_all(format!("{}\n{}\n\n\0{}", message(1), message(2), &message(3)[..20]).as_bytes()).unwrap();
    let mut counted = TcpStream::connect(&address).unwrap();
    let (first, second) = (message(4), message(5));
    counted.write_all(format!("{} {first}{} {second}", first.len(), second.len()).as_bytes()).unwrap();
    wait(&server, 4);
    // One that is too long, and bytes that are nothing, spoil no other.
    lines.write_all(&message(3).as_bytes()[20..]).unwrap();
    lines.write_all(format!("\n{}\n", "x".repeat(200_000)).as_bytes()).unwrap();
    lines.write_all(&[b"\xff\x00 9 <\n".as_slice(), message(6).as_bytes(), b"\n"].concat()).unwrap();
    wait(&server, 6);
    // A third connection of this address is closed, and those that are open go on.
    let mut third = TcpStream::connect(&address).unwrap();
    let mut byte = [0];
    let closed = std::io::Read::read(&mut third, &mut byte);
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    // The last line of a connection need not end.
    counted.write_all(message(7).as_bytes()).unwrap();
    drop(counted);
    wait(&server, 7);
    // More than one address may send in a second is dropped, and counted.
    let flood: String = (0..500).map(|at| format!("{}\n", message(at % 60))).collect();
    lines.write_all(flood.as_bytes()).unwrap();
    wait_until("those that are dropped", || status(&server)["dropped"].as_u64() > Some(100));
    let told = status(&server);
    assert_eq!((&told["kind"], &told["pipeline"]), (&"syslog".into(), &"web".into()), "{told}");
}

/// A pipeline of patterns, sent lines by syslog and written to files in a zone of their own.
#[test]
fn patterns_read_what_sources_bring() {
    let data = Data::new(&["web"]);
    let door = "name = 'door'\nspace = 7\ninput = 'log'\n[log]\npatterns = ['^ ?\\S+ doord\\[\\d+\\]: wrong code from <HOST>']\n\
        [[kind]]\nname = 'ip'\nof = 'log.ip'\n[[statistic]]\nname = 'ip'\nkeys = ['ip']\ncounts = ['seen']\nwindows = ['1d x 400']\n";
    fs::write(data.path().join("door.toml"), door).unwrap();
    let config = data.path().join("tollhouse.toml");
    let parent = tempfile::tempdir().unwrap();
    let sources = format!(
        "\n[[source]]\nname = 'net'\nsyslog = 'udp://127.0.0.1:0'\npipeline = 'door'\n\
         [[source]]\nname = 'file'\nfiles = ['{}/*']\npipeline = 'door'\nzone = 'UTC+0200'\n",
        parent.path().display()
    );
    append(&config, &format!("\n[node]\npipelines = ['door.toml']\n{sources}"));
    let server = Server::start(&data.path(), &[]);
    let address = syslog_address(&server);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let now = event::Time::from_seconds(
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().cast_signed(),
    );
    for message in [
        format!("<34>1 {now} host doord 7 - - wrong code from 192.0.2.7"),
        format!("<34>{now} host doord[7]: wrong code from 192.0.2.7"),
        "<34>host doord[7]: wrong code from 192.0.2.7".to_owned(),
        "<34>host doord[7]: opened".to_owned(),
    ] {
        socket.send_to(message.as_bytes(), &address).unwrap();
    }
    wait_until("three events", || status(&server)["events"] == 3);
    wait_until("one unread", || status(&server)["unread"] == 1);
    // An hour ago in a zone two hours ahead.
    let local = (now - event::Span::hours(1) + event::Span::hours(2)).to_string();
    append(
        &parent.path().join("door.log"),
        &format!("{} host doord[7]: wrong code from 192.0.2.8\n", &local[..19]),
    );
    let decisions = || {
        let found: Value = serde_json::from_str(&get(&server, "/v1/decisions?pipeline=door")).unwrap();
        found["decisions"].as_array().cloned().unwrap_or_default()
    };
    wait_until("four decisions", || decisions().len() == 4);
    let expected = (now - event::Span::hours(1)).to_string();
    let times: Vec<String> =
        decisions().iter().map(|one| one["time"].as_str().unwrap_or_default().to_owned()).collect();
    assert!(times.iter().any(|time| time[..19] == expected[..19]), "{times:?} {expected}");
}

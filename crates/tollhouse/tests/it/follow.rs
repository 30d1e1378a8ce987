//! A log that grows, is rotated and truncated, to a server that may be away.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{Data, Server, run};

/// A line of some seconds after the test began: a server lets go of what is older than it keeps.
pub(crate) fn line(second: i64, path: &str) -> String {
    static BEGAN: OnceLock<i64> = OnceLock::new();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed() - 60;
    let time = event::Time::from_seconds(BEGAN.get_or_init(now) + second).to_string();
    let [year, month, day, clock] = [&time[..4], &time[5..7], &time[8..10], &time[11..19]];
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months[month.parse::<usize>().unwrap() - 1];
    format!(
        "192.0.2.7 - - [{day}/{month}/{year}:{clock} +0000] \"GET /{path} HTTP/1.1\" 200 1 \"-\" \"Mozilla/5.0\"\n"
    )
}

fn append(path: &Path, text: &str) {
    File::options().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// Returns the number of times that the address was seen on that day.
pub(crate) fn seen(server: &Server) -> u64 {
    let ran = run(["stats", "--json", "ip", "192.0.2.7", "--server", &server.url], "");
    let known = ran.expect(0).json();
    let tiers = known[0]["tiers"].as_array().cloned().unwrap_or_default();
    let buckets = tiers.iter().flat_map(|tier| tier["buckets"].as_array().cloned().unwrap_or_default());
    buckets.map(|bucket| bucket["counts"]["seen"].as_u64().unwrap_or(0)).sum()
}

#[track_caller]
pub(crate) fn wait(server: &Server, count: u64) {
    let started = Instant::now();
    loop {
        let found = seen(server);
        if found == count {
            return;
        }
        // What was sent to a consumer that was killed comes again after a minute.
        assert!(
            started.elapsed() < Duration::from_secs(180) && found < count,
            "{found} were seen, not {count}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until all of a log is taken and its follower has kept that.
fn wait_for_position(position: &Path, log: &Path) {
    let started = Instant::now();
    let kept = || -> Option<u64> {
        let kept: serde_json::Value = serde_json::from_slice(&fs::read(position).ok()?).ok()?;
        kept["files"][log.to_str()?]["offset"].as_u64()
    };
    while kept() != Some(fs::metadata(log).unwrap().len()) {
        assert!(started.elapsed() < Duration::from_secs(180), "{:?}", kept());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A server that writes nothing by itself for as long as a test runs, so that being killed it loses all that nobody asked it
/// to keep.
pub(crate) const LAZY: [&str; 2] = ["--set", "ledger.durability=1h"];

/// Kills a server, and starts it anew on the same data and port.
fn restarted(server: Server, data: &Data) -> Server {
    let url = server.url.clone();
    server.end(Signal::KILL);
    Server::start_again(&data.path(), &url, &LAZY)
}

/// Has events come before each of some kills of the server, so many in all that it then knows.
pub(crate) fn survives_kills(data: &Data, follow: impl Fn(&Server) -> Ends, mut append: impl FnMut(i64)) {
    let mut server = Server::start(&data.path(), &LAZY);
    append(1);
    let child = follow(&server);
    let mut sent = 1u64;
    for kill in 1..4i64 {
        // Something of what came last was answered; the rest is on its way while the server dies.
        let before = sent - 1;
        while seen(&server) <= before {
            std::thread::sleep(Duration::from_millis(5));
        }
        (sent.cast_signed() + 1..=40 * kill).for_each(&mut append);
        sent = 40 * kill.cast_unsigned();
        while seen(&server) <= before + 1 {
            std::thread::sleep(Duration::from_millis(5));
        }
        server = restarted(server, data);
        wait(&server, sent);
    }
    end(child, Signal::TERM);
    // Acknowledged is what a killed server still has.
    let server = restarted(server, data);
    assert_eq!(seen(&server), sent);
}

/// A process that ends with the test.
pub(crate) struct Ends(pub(crate) Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn follow(server: &Server, log: &Path, position: &Path) -> Ends {
    let child = Command::new(env!("CARGO_BIN_EXE_tollhouse"))
        .args(["follow", "--server", &server.url, "--position"])
        .args([position, log])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Ends(child.unwrap())
}

pub(crate) fn end(mut child: Ends, signal: Signal) {
    kill_process(Pid::from_child(&child.0), signal).unwrap();
    child.0.wait().unwrap();
}

#[test]
fn rotations_and_restarts_lose_and_repeat_nothing() {
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let parent = tempfile::tempdir().unwrap();
    let (log, position) = (parent.path().join("access.log"), parent.path().join("position"));
    append(&log, &(line(1, "a") + &line(2, "b")));
    let child = follow(&server, &log, &position);
    wait(&server, 2);
    append(&log, &line(3, "c"));
    wait(&server, 3);
    // Renamed away, with a last line that comes late.
    let rotated = parent.path().join("access.log.1");
    fs::rename(&log, &rotated).unwrap();
    append(&rotated, &line(4, "d"));
    append(&log, &line(5, "e"));
    wait(&server, 5);
    // Killed, and rotated while nobody looks: once, or the position would be in a file that is gone.
    wait_for_position(&position, &log);
    end(child, Signal::KILL);
    append(&log, &line(6, "f"));
    fs::rename(&log, &rotated).unwrap();
    append(&log, &line(7, "g"));
    let child = follow(&server, &log, &position);
    wait(&server, 7);
    // Truncated, as `copytruncate` does it.
    fs::write(&log, line(8, "h")).unwrap();
    wait(&server, 8);
    end(child, Signal::TERM);
    // A position that was lost: all that is in the file is sent again, and counts once.
    fs::remove_file(&position).unwrap();
    let position = position.to_str().unwrap();
    let log = log.to_str().unwrap();
    run(["follow", "--once", "--server", &server.url, "--position", position, log], "").expect(0);
    assert_eq!(seen(&server), 8);
}

#[test]
fn a_log_is_taken_whole_though_the_server_is_killed() {
    let data = Data::new(&["web"]);
    let parent = tempfile::tempdir().unwrap();
    let (log, position) = (parent.path().join("access.log"), parent.path().join("position"));
    survives_kills(
        &data,
        |server| follow(server, &log, &position),
        |at| append(&log, &line(at % 60, &at.to_string())),
    );
    let ran = data.run(&["export", "--format", "ndjson"], "").expect(0);
    let mut ids: Vec<String> = ran.json().iter().map(|row| row["event_id"].to_string()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 120, "each decision is in the journal");
}

#[test]
fn logs_that_begin_alike_are_different_logs() {
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let parent = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        let log = parent.path().join(name);
        append(&log, &(line(1, "same") + &line(2, name)));
        let log = log.to_str().unwrap();
        run(["follow", "--once", "--server", &server.url, log], "").expect(0);
    }
    // The first line is one event, as that of a copy is.
    assert_eq!(seen(&server), 3);
}

#[test]
fn pipes_and_json_logs_are_followed() {
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let caddy = r#"{"ts":NOW.5,"request":{"client_ip":"192.0.2.7","proto":"HTTP/2.0","method":"GET","host":"a.example","uri":"/.env","headers":{"User-Agent":["curl/8.0"]}},"size":1,"status":404}"#;
    let caddy = caddy.replace("NOW", &now.to_string());
    let ran = run(["follow", "--json", "--server", &server.url, "-"], &format!("{caddy}\nnothing\n"));
    let ran = ran.expect(0);
    let decisions = ran.json();
    assert_eq!(decisions.len(), 1, "{}", ran.stdout);
    assert!(decisions[0]["reasons"].to_string().contains("PROBE"), "{}", ran.stdout);
    assert!(ran.stderr.contains("1 events, 1 lines that were none"), "{}", ran.stderr);
    assert_eq!(seen(&server), 1);
}

#[test]
fn several_logs_and_new_ones_are_followed_each_with_its_position() {
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let parent = tempfile::tempdir().unwrap();
    let log = |name: &str| parent.path().join(name);
    let (position, pattern, other) = (log("position"), log("*.log"), log("other"));
    append(&log("a.log"), &line(1, "a"));
    append(&log("b.log"), &(line(2, "b") + &line(3, "b")));
    append(&log("a.log.1.gz"), &line(4, "no"));
    let follow = || {
        let child = Command::new(env!("CARGO_BIN_EXE_tollhouse"))
            .args(["follow", "--server", &server.url, "--position"])
            .args([&position, &pattern, &other])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Ends(child.unwrap())
    };
    let child = follow();
    wait(&server, 3);
    append(&log("c.log"), &line(5, "c"));
    append(&other, &line(6, "other"));
    wait(&server, 5);
    // One is rotated while another grows.
    fs::rename(log("a.log"), log("a.log.1")).unwrap();
    append(&log("a.log.1"), &line(7, "a"));
    append(&log("a.log"), &line(8, "a"));
    append(&log("b.log"), &line(9, "b"));
    wait(&server, 8);
    wait_for_position(&position, &log("b.log"));
    wait_for_position(&position, &log("a.log"));
    end(child, Signal::KILL);
    append(&log("c.log"), &line(10, "c"));
    append(&log("a.log"), &line(11, "a"));
    fs::rename(log("a.log"), log("a.log.1")).unwrap();
    append(&log("a.log"), &line(12, "a"));
    let child = follow();
    wait(&server, 11);
    end(child, Signal::TERM);
    // All of it is taken: nothing is sent again.
    let (position, pattern) = (position.display().to_string(), pattern.display().to_string());
    let once = ["follow", "--once", "--server", &server.url, "--position", &position, &pattern];
    let ran = run(once, "").expect(0);
    assert!(ran.stderr.contains("0 events"), "{}", ran.stderr);
}

/// A `journalctl` that has the entries of a file, each with a cursor `c` and its number.
const JOURNALCTL: &str = r#"#!/bin/sh
after=0 follow= tail=
for flag in "$@"; do
    case "$flag" in
        --after-cursor=c*) after="${flag#--after-cursor=c}" ;;
        --follow) follow=yes ;;
        --unit=*) echo "$flag" >> "$ENTRIES.units" ;;
    esac
done
tail -n "+$((after + 1))" ${follow:+-f} "$ENTRIES"
"#;

/// Makes a `journalctl` of a folder, and says how a process finds it: the environment, and the file of its entries.
pub(crate) fn stand_in_journal(folder: &Path) -> (Vec<(String, String)>, PathBuf) {
    let (entries, program) = (folder.join("entries"), folder.join("journalctl"));
    fs::write(&program, JOURNALCTL).unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let environment = vec![("PATH".to_owned(), path), ("ENTRIES".to_owned(), entries.display().to_string())];
    (environment, entries)
}

#[test]
fn units_of_the_journal_are_followed_from_a_cursor() {
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let parent = tempfile::tempdir().unwrap();
    let (environment, entries) = stand_in_journal(parent.path());
    let position = parent.path().join("position");
    // What `journalctl -o json` writes of a service that logs requests.
    let entry = |number: i64| {
        let message = line(number, &number.to_string());
        let micros = 1_700_000_000_000_000 + number;
        let entry = serde_json::json!({
            "__CURSOR": format!("c{number}"), "__REALTIME_TIMESTAMP": micros.to_string(), "_HOSTNAME": "h",
            "SYSLOG_IDENTIFIER": "caddy", "_PID": "7", "PRIORITY": "6", "MESSAGE": message.trim_end(),
        });
        format!("{entry}\n")
    };
    let follow = |more: &[&str]| {
        let child = Command::new(env!("CARGO_BIN_EXE_tollhouse"))
            .args([
                "follow",
                "--server",
                &server.url,
                "--journald",
                "--unit",
                "caddy",
                "--unit=a b",
                "--position",
            ])
            .arg(&position)
            .args(more)
            .envs(environment.iter().cloned())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Ends(child.unwrap())
    };
    append(&entries, &(entry(1) + &entry(2)));
    let child = follow(&[]);
    wait(&server, 2);
    append(&entries, &(entry(3) + "no entry\n" + &entry(5)));
    wait(&server, 4);
    let started = Instant::now();
    while !fs::read_to_string(&position).unwrap().contains("\"cursor\":\"c5\"") {
        assert!(started.elapsed() < Duration::from_secs(180));
        std::thread::sleep(Duration::from_millis(5));
    }
    end(child, Signal::KILL);
    append(&entries, &entry(6));
    let mut child = follow(&["--once"]);
    assert!(child.0.wait().unwrap().success());
    assert_eq!(seen(&server), 5);
    assert!(fs::read_to_string(&position).unwrap().contains("\"cursor\":\"c6\""));
    let units = fs::read_to_string(parent.path().join("entries.units")).unwrap();
    assert!(units.starts_with("--unit=caddy\n--unit=a b\n"), "{units}");
}

/// Attacks that the log shows are answered at the next question of the proxy.
#[test]
fn an_attack_in_the_log_is_answered_by_the_gate() {
    let data = Data::new(&["site"]);
    let server = Server::start(&data.path(), &["--set", "dns.resolvers=[]"]);
    let parent = tempfile::tempdir().unwrap();
    let (log, position) = (parent.path().join("access.log"), parent.path().join("position"));
    append(&log, &line(1, "page"));
    let child = follow(&server, &log, &position);
    let client: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let status = |ip: &str| {
        let asked = client
            .get(format!("{}/v1/auth/site", server.url))
            .header("x-forwarded-for", ip)
            .header("x-forwarded-uri", "/")
            .header("x-forwarded-host", "example.org")
            .header("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
            .header("accept-language", "en");
        asked.call().unwrap().status().as_u16()
    };
    wait(&server, 1);
    assert_eq!(status("192.0.2.7"), 200);
    append(&log, &line(2, "?q=%3Cscript%3Ealert(1)"));
    let appended = Instant::now();
    while status("192.0.2.7") != 401 {
        assert!(appended.elapsed() < Duration::from_secs(180), "the gate is never told");
        // Less than the limit of requests a minute.
        std::thread::sleep(Duration::from_millis(60));
    }
    println!("from the log's line to the gate's answer: {:?}", appended.elapsed());
    assert_eq!(status("192.0.2.8"), 200, "its neighbour goes on");
    end(child, Signal::TERM);
}

/// The order in which a proxy answers batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProxyMode {
    /// Four together, the last one first.
    Reversed,
    /// All but the one with this in it, whose answer is kept back.
    Held(&'static str),
    /// Each, but so many are refused before.
    Refusing(u32),
}

#[derive(Debug)]
struct ProxyState {
    mode: ProxyMode,
    /// Batches since the mode was set, and those of them that were answered.
    arrived: usize,
    answered: usize,
}

/// A proxy before a server that answers batches in an order of its own.
struct BatchProxy {
    url: String,
    server: String,
    state: Mutex<ProxyState>,
    changed: Condvar,
}

impl BatchProxy {
    fn start(server: &Server, mode: ProxyMode) -> Arc<BatchProxy> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Arc::new(BatchProxy {
            url: format!("http://{}", listener.local_addr().unwrap()),
            server: server.url.clone(),
            state: Mutex::new(ProxyState { mode, arrived: 0, answered: 0 }),
            changed: Condvar::new(),
        });
        let accepting = Arc::clone(&proxy);
        // It ends with the tests' process.
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let proxy = Arc::clone(&accepting);
                std::thread::spawn(move || proxy.answer(connection.unwrap()));
            }
        });
        proxy
    }

    fn set(&self, mode: ProxyMode) {
        *self.state.lock().unwrap() = ProxyState { mode, arrived: 0, answered: 0 };
        self.changed.notify_all();
    }

    /// Waits until its state is like that.
    fn wait(&self, until: impl Fn(&ProxyState) -> bool) {
        let state = self.state.lock().unwrap();
        let limit = Duration::from_secs(180);
        let (state, waited) = self.changed.wait_timeout_while(state, limit, |state| !until(state)).unwrap();
        assert!(!waited.timed_out(), "{state:?}");
    }

    /// Answers the one request of a connection; a follower that is gone is none to answer.
    fn answer(&self, mut connection: TcpStream) {
        let mut reader = BufReader::new(connection.try_clone().unwrap());
        let (mut target, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            match line.split_once(':') {
                _ if line.trim().is_empty() => break,
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().unwrap();
                }
                _ if target.is_empty() => target = line.split(' ').nth(1).unwrap().to_owned(),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let mut state = self.state.lock().unwrap();
        let (mode, place) = (state.mode, state.arrived);
        state.arrived += 1;
        self.changed.notify_all();
        drop(state);
        if let ProxyMode::Refusing(refused) = mode
            && place < refused as usize
        {
            let status = ["429 Too Many Requests", "503 Service Unavailable"][place % 2];
            let answer = format!(
                "HTTP/1.1 {status}\r\nretry-after: 0\r\nconnection: close\r\ncontent-length: 4\r\n\r\nbusy"
            );
            let _ = connection.write_all(answer.as_bytes());
            return;
        }
        if mode == ProxyMode::Reversed {
            // Those of the group that came later were answered, and all of the groups before.
            let group = place - place % 4;
            self.wait(|state| state.arrived >= group + 4 && state.answered == group + 3 - place % 4);
        }
        let request = ureq::post(format!("{}{target}", self.server));
        let mut answer = request.content_type("application/x-ndjson").send(&body[..]).unwrap();
        let text = answer.body_mut().read_to_vec().unwrap();
        if let ProxyMode::Held(part) = mode
            && body.windows(part.len()).any(|window| window == part.as_bytes())
        {
            self.wait(|state| state.mode != mode);
            return;
        }
        let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", text.len());
        let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(&text));
        // The follower may have gone on, and the test with it, before this thread does.
        let mut state = self.state.lock().unwrap();
        if state.mode == mode {
            state.answered += 1;
        }
        drop(state);
        self.changed.notify_all();
    }
}

#[test]
fn several_batches_under_way_lose_and_repeat_nothing() {
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let proxy = BatchProxy::start(&server, ProxyMode::Reversed);
    let parent = tempfile::tempdir().unwrap();
    let (log, position) = (parent.path().join("access.log"), parent.path().join("position"));
    let follow = |once: &[&str]| {
        let child = Command::new(env!("CARGO_BIN_EXE_tollhouse"))
            .args(["follow", "--in-flight", "4", "--server", &proxy.url, "--position"])
            .args([&position, &log])
            .args(once)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Ends(child.unwrap())
    };
    let lines = |numbers: std::ops::Range<i64>| -> String {
        numbers.map(|number| line(number % 60, &number.to_string())).collect()
    };
    // Eight batches of the follower.
    append(&log, &lines(0..2048));
    let child = follow(&[]);
    wait(&server, 2048);
    wait_for_position(&position, &log);
    let kept = fs::read(&position).unwrap();
    // Six more: of the first four all are counted, and the oldest has no answer.
    // Not that which arrives first: four come at once, in any order.
    proxy.set(ProxyMode::Held("/2048\""));
    append(&log, &lines(2048..3584));
    proxy.wait(|state| state.answered == 3);
    wait(&server, 2048 + 4 * 256);
    assert_eq!(fs::read(&position).unwrap(), kept, "nothing is passed over");
    end(child, Signal::KILL);
    // Another process sends them again, to a server that first has too much to do.
    proxy.set(ProxyMode::Refusing(3));
    let mut child = follow(&["--once"]);
    assert!(child.0.wait().unwrap().success());
    assert_eq!(seen(&server), 3584);
    wait_for_position(&position, &log);
    server.end(Signal::TERM);
    let ran = data.run(&["export", "--format", "ndjson"], "").expect(0);
    let rows = ran.json();
    let counted = rows.iter().filter(|row| row["duplicate"] == false);
    let mut ids: Vec<String> = counted.map(|row| row["event_id"].to_string()).collect();
    assert_eq!((ids.len(), rows.len()), (3584, 3584 + 4 * 256), "what was sent again is a duplicate");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3584, "each line counts once");
}

#[test]
fn a_pipe_is_sent_in_several_batches() {
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    let lines: String = (0..3000).map(|number| line(number % 60, &number.to_string())).collect();
    let args = ["follow", "--in-flight", "3", "--batch-lines", "600", "--server", &server.url, "-"];
    let ran = run(args, &lines).expect(0);
    assert!(ran.stderr.contains("3000 events, 0 lines that were none"), "{}", ran.stderr);
    assert_eq!(seen(&server), 3000);
    let ran = run(["follow", "--batch-lines", "255", "--server", &server.url, "-"], "").expect(2);
    assert!(ran.stderr.contains("expected 256 to 10000 lines"), "{}", ran.stderr);
}

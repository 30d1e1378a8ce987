//! A running server and a client that speaks HTTP/1.1 byte by byte, so that it can also speak it badly.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::{Directory, Engine};
use event::Time;
use plan::{Config, Overrides, Plan, preset};
use serde_json::Value;
use server::{CertificateStore, Clock, ServeError, Server};
use tokio::sync::oneshot;

/// The time that every test runs at: 2026-05-17T10:00:00Z.
pub(crate) const NOW: Time = Time::from_seconds(1_779_012_000);

pub(crate) const MAIL: &str = "Content-Type: message/rfc822";
pub(crate) const LOG: &str = "Content-Type: text/plain";
pub(crate) const JSON: &str = "Content-Type: application/json";
pub(crate) const JSON_LINES: &str = "Content-Type: application/x-ndjson";

/// A message that nothing is wrong with.
pub(crate) const MESSAGE: &str = "From: Ann <ann@example.org>\r\nTo: bob@example.net\r\nSubject: The minutes of Monday\r\n\
    Date: Sun, 17 May 2026 09:59:00 +0000\r\nMessage-ID: <1@example.org>\r\n\r\nDear Bob,\r\nhere they are: https://example.org/minutes\r\n";

/// Returns [`MESSAGE`], made longer than the smallest `body_max`.
pub(crate) fn long_message() -> String {
    format!("{MESSAGE}{}", "They are long.\r\n".repeat(100))
}

/// A message that nobody reads within a millisecond: 8 MiB in base64.
pub(crate) fn slow_message() -> String {
    let content = format!("{}\r\n", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldY".repeat(2)).repeat(128 << 10);
    let part = "Content-Type: application/x; name=a.bin\r\nContent-Transfer-Encoding: base64\r\n\r\n";
    let (head, _) = MESSAGE.split_once("\r\n\r\n").unwrap();
    format!("{head}\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n{part}{content}--b--\r\n")
}

/// Long enough never to matter where the server answers; a hanging test ends.
const PATIENCE: Duration = Duration::from_secs(150);

/// A request that nobody but a scanner sends.
pub(crate) const PROBE: &str =
    r#"192.0.2.7 - - [17/May/2026:09:59:30 +0000] "GET /.env HTTP/1.1" 404 10 "-" "curl/8.0""#;

/// The user that mail is delivered as by mail servers of tests: `nobody`.
pub(crate) const NOBODY: u32 = 65_534;

/// Returns true if tests may start servers that change to other users.
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// A data directory with both presets.
pub(crate) fn directory(path: &Path) -> Directory {
    let presets: Vec<_> = ["mail", "web"].into_iter().filter_map(preset::find).collect();
    Directory::create(path, &presets).unwrap()
}

/// Adds lines to the configuration of a data directory.
pub(crate) fn configure(directory: &Directory, more: &str) {
    let path = directory.config_path();
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, config + more).unwrap();
}

/// Switches on modules of the default pipeline of a data directory.
pub(crate) fn switch_on(directory: &Directory, modules: &[&str]) {
    let path = directory.config_path();
    let config = std::fs::read_to_string(&path).unwrap();
    let (before, after) = config.split_once("preset = \"mail\"\n").unwrap();
    std::fs::write(&path, format!("{before}preset = \"mail\"\nmodules = {modules:?}\n{after}")).unwrap();
}

/// A clock that a test sets, to seconds after [`NOW`].
#[derive(Clone, Default)]
pub(crate) struct SetClock(Arc<AtomicI64>);

impl SetClock {
    pub(crate) fn set(&self, seconds: i64) {
        self.0.store(seconds * 1_000_000, Ordering::Relaxed);
    }

    pub(crate) fn clock(&self) -> Clock {
        let passed = Arc::clone(&self.0);
        Clock::driven(move || Time(NOW.0 + passed.load(Ordering::Relaxed)))
    }
}

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    /// The addresses of mail servers' listeners, by name.
    pub(crate) listeners: Vec<(String, String)>,
    /// The certificates of its listeners.
    pub(crate) certificates: Arc<CertificateStore>,
    /// The link for the first visit, where nobody may log in.
    pub(crate) first_visit: Option<String>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<(), ServeError>>,
}

/// Starts a server on a data directory, with some settings changed.
pub(crate) fn start(directory: &Directory, settings: &[(&str, &str)]) -> TestServer {
    start_by(directory, settings, |_| Clock::driven(|| NOW))
}

/// Starts one that goes by a clock, which may ask the engine for what is on disk.
pub(crate) fn start_by(
    directory: &Directory,
    settings: &[(&str, &str)],
    clock: impl FnOnce(&Engine) -> Clock,
) -> TestServer {
    // Costly calls give way to all else that runs, here to other tests: only a test of the time limit waits for it.
    let own = [("server.listen", "127.0.0.1:0"), ("server.timeout", "2m")];
    let flags = own.iter().chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let overrides = Overrides { flags: flags.collect(), ..Overrides::default() };
    let config = Config::load(&directory.config_path(), &overrides);
    let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
    let engine = Arc::new(Engine::open(directory, plan).unwrap());
    let clock = clock(&engine);
    let server = Server::bind(engine, clock).unwrap();
    let (address, certificates) = (server.local_addr(), server.certificates());
    let listeners =
        server.listeners().map(|(name, _, endpoint)| (name.to_owned(), endpoint.to_string())).collect();
    let first_visit = server.first_visit_url();
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(server.serve(async {
            let _ = stopped.await;
        }))
    });
    TestServer { address, listeners, certificates, first_visit, stop, thread }
}

/// Rules by which a message's subject, or its sender, says what is to become of it.
const ORDERS: &str = "
[[rule]]
name = \"ORDERED_TAG\"
when = \"mail.subject == 'please tag' || mail.sender == 'tag@example.org'\"
score = 5.5
effects = [\"set tag\"]
[[rule]]
name = \"ORDERED_QUARANTINE\"
when = \"mail.subject == 'please quarantine'\"
score = 0
effects = [\"set quarantine\"]
[[rule]]
name = \"ORDERED_REJECT\"
when = \"mail.subject == 'please reject' || mail.sender == 'reject@example.org'\"
score = 0
effects = [\"set reject\"]
[[rule]]
name = \"ORDERED_THROTTLE\"
when = \"mail.subject == 'please throttle' || mail.sender == 'throttle@example.org'\"
score = 0
effects = [\"set throttle\"]
[[rule]]
name = \"ORDERED_SHADOW\"
when = \"mail.subject == 'please shadow'\"
score = 0
effects = [\"set shadow\"]
";

/// A data directory whose default pipeline does what messages ask for.
pub(crate) fn obedient(path: &Path) -> Directory {
    let directory = directory(path);
    configure(&directory, ORDERS);
    directory
}

/// Runs a test against a server of its own that has a listener `m` of a protocol on a free port.
pub(crate) fn with_listener(protocol: &str, settings: &[(&str, &str)], test: impl FnOnce(&TestServer)) {
    let parent = tempfile::tempdir().unwrap();
    let directory = obedient(&parent.path().join("data"));
    let own = [("listener.m.protocol", protocol), ("listener.m.listen", "127.0.0.1:0")];
    let running = start(&directory, &[&own[..], settings].concat());
    test(&running);
    running.stop();
}

/// Runs a test against a server of its own.
pub(crate) fn with_server(settings: &[(&str, &str)], test: impl FnOnce(&TestServer)) {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let running = start(&directory, settings);
    test(&running);
    running.stop();
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The word that tells a problem's type, after a check that this is a whole one.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.body);
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
        problem["type"].as_str().unwrap().strip_prefix("urn:tollhouse:problem:").unwrap().to_owned()
    }
}

impl TestServer {
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The address of a listener.
    pub(crate) fn listener(&self, name: &str) -> &str {
        let found = self.listeners.iter().find(|(own, _)| own == name);
        &found.unwrap_or_else(|| panic!("no listener {name}")).1
    }

    /// Connects to a listener.
    pub(crate) fn connect_to(&self, name: &str) -> TcpStream {
        let stream = TcpStream::connect(self.listener(name)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Sends bytes to a listener, ends this side, and reads all that comes back.
    pub(crate) fn exchange(&self, listener: &str, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.listener(listener)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    /// Sends a request and reads the answer. Headers are whole lines; the body's length is added.
    pub(crate) fn ask(&self, method: &str, url: &str, headers: &[&str], body: &[u8]) -> Answer {
        let mut stream = self.connect();
        let mut head = format!("{method} {url} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|header| header.starts_with("Host:")) {
            head += &format!("Host: {}\r\n", self.address);
        }
        for header in headers {
            head += &format!("{header}\r\n");
        }
        if !body.is_empty() {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        answer(&mut stream)
    }

    pub(crate) fn get(&self, url: &str) -> Answer {
        self.ask("GET", url, &[], b"")
    }

    pub(crate) fn post(&self, url: &str, headers: &[&str], body: &str) -> Answer {
        self.ask("POST", url, headers, body.as_bytes())
    }

    /// Stops the server and waits for its end, which must be a good one.
    pub(crate) fn stop(self) {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap().unwrap();
    }
}

/// Reads an answer up to the connection's end.
pub(crate) fn answer(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Answer {
        status: status.unwrap_or_else(|| panic!("no status: {head}")),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

/// Asks and checks that the answer is this problem, and that it speaks of this.
pub(crate) fn check_problem(answer: &Answer, status: u16, word: &str, detail: &str) {
    assert_eq!((answer.status, answer.problem().as_str()), (status, word), "{}", answer.body);
    let text = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(text.contains(detail), "{text} does not contain {detail}");
}

/// Bytes of one side of an exchange that was recorded between other programs.
pub(crate) fn capture(name: &str) -> Vec<u8> {
    let path = corpora::folder("captures").expect("captures are shipped").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

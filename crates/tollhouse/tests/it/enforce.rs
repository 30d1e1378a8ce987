//! Bans carried out: sets of a real nftables and ipset in a network namespace, files of proxies, programs.

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::program::{Data, PROGRAM, Server, run};

const CONFIG: &str = r#"
name = "site"
input = "json"

[allow]
networks = ["203.0.113.7"]

[[field]]
name = "client.ip"
type = "ip"

[[field]]
name = "user"
type = "string"

[[kind]]
name = "ip"
of = "client.ip"

[[kind]]
name = "user"
of = "user"

[[label]]
name = "abuser"
of = "ip"
keep = "30d"
decision = "ban"

[[label]]
name = "doubtful"
of = "ip"
keep = "30d"
decision = "captcha"

[[label]]
name = "thief"
of = "user"
keep = "30d"
decision = "ban"

[[rule]]
name = "BAD"
when = "user == 'bad'"
score = 1
effects = ["mark ip as abuser for 1h"]
"#;

/// A server with that configuration.
fn serve(data: &Data) -> Server {
    let config = data.file("site.toml", CONFIG);
    Server::start(&data.path(), &["--config", &config])
}

fn ban(server: &Server, kind: &str, label: &str, value: &str, lasts: &str) {
    let body = json!({"kind": kind, "label": label, "value": value, "for": lasts}).to_string();
    let url = format!("{}/v1/bans", server.url);
    let sent = ureq::post(&url).header("content-type", "application/json").send(body);
    assert_eq!(sent.unwrap().status(), 200);
}

fn abuser(server: &Server, value: &str) {
    ban(server, "ip", "abuser", value, "1h");
}

fn lift(server: &Server, value: &str) {
    let value = value.replace('/', "%2F");
    let answer = ureq::delete(format!("{}/v1/bans?value={value}", server.url)).call();
    assert_eq!(answer.unwrap().status(), 200);
}

/// A program that is ended with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn enforce(arguments: &[&str], server: &Server) -> Ends {
    let target = arguments.iter().take_while(|argument| **argument != "--").copied();
    let program = arguments.iter().skip_while(|argument| **argument != "--").copied();
    let all = target.chain(["--server", &server.url]).chain(program);
    let mut command = Command::new(PROGRAM);
    command.arg("enforce").args(all).stdin(Stdio::null()).stdout(Stdio::null());
    Ends(command.spawn().unwrap())
}

#[track_caller]
fn wait<T: PartialEq + std::fmt::Debug>(expected: &T, found: impl Fn() -> T) {
    let started = Instant::now();
    loop {
        let found = found();
        if found == *expected {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{found:?}, not {expected:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Set in the process that runs in a network namespace of its own.
const NAMESPACE: &str = "TOLLHOUSE_TEST_NAMESPACE";
/// Gives the namespace its loopback interface and two addresses beside it.
const INTERFACES: &str = "ip link set lo up && ip address add 192.0.2.9/32 dev lo && \
                          ip address add 192.0.2.10/32 dev lo && exec \"$0\" \"$@\"";

/// Runs a test in a new network namespace: sets of the firewall belong to one. `probe` shows that the program works there.
fn in_namespace(test: &str, probe: &[&str], work: impl FnOnce()) {
    if std::env::var_os(NAMESPACE).is_some() {
        return work();
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--net", "sh", "-c", INTERFACES]);
        command
    };
    match unshare().args(probe).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return println!("skipped: no {} in a network namespace: {why}", probe[0]);
        }
        Err(error) => return println!("skipped: no network namespace: unshare: {error}"),
    }
    let mut command = unshare();
    command.arg(std::env::current_exe().unwrap()).args([test, "--exact", "--nocapture"]).env(NAMESPACE, "1");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    let is_reported = |line: &&str| line.starts_with("skipped: ") || line.starts_with("from a line");
    for line in text(&output.stdout).lines().filter(is_reported) {
        println!("{line}");
    }
}

fn nft(arguments: &[&str]) -> String {
    let output = Command::new("nft").args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The elements of a set of nftables, and the seconds that are left of each.
fn elements(set: &str) -> Vec<(String, u64)> {
    let output = Command::new("nft").args(["-j", "list", "set", "inet", "tollhouse", set]).output().unwrap();
    let Ok(told) = serde_json::from_slice::<Value>(&output.stdout) else { return Vec::new() };
    let set = told["nftables"].as_array().unwrap().iter().find_map(|it| it.get("set")).cloned();
    let elements = set.and_then(|set| set["elem"].as_array().cloned()).unwrap_or_default();
    let mut found: Vec<(String, u64)> = elements
        .iter()
        .map(|element| {
            let value = element.get("elem").map_or(element, |element| &element["val"]);
            let value = match value["prefix"].as_object() {
                Some(prefix) => format!("{}/{}", prefix["addr"].as_str().unwrap(), prefix["len"]),
                None => value.as_str().unwrap_or_else(|| panic!("{element}")).to_owned(),
            };
            (value, element["elem"]["expires"].as_u64().unwrap_or_default())
        })
        .collect();
    found.sort();
    found
}

fn values(set: &str) -> Vec<String> {
    elements(set).into_iter().map(|(value, _)| value).collect()
}

fn listed(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

#[test]
fn sets_of_nftables_are_in_step() {
    in_namespace("enforce::sets_of_nftables_are_in_step", &["nft", "list", "ruleset"], || {
        let data = Data::new(&["web"]);
        let server = serve(&data);
        abuser(&server, "192.0.2.9");
        abuser(&server, "2001:db8:7::/48");
        ban(&server, "ip", "doubtful", "192.0.2.11", "1h");
        ban(&server, "user", "thief", "192; flush ruleset", "1h");
        // What somebody has left there goes.
        nft(&["add", "table", "inet", "tollhouse"]);
        let set = "{ type ipv4_addr; flags interval, timeout; }";
        nft(&["add", "set", "inet", "tollhouse", "banned4", set]);
        nft(&["add", "element", "inet", "tollhouse", "banned4", "{ 192.0.2.99, 192.0.2.0/28 }"]);
        let enforcer = enforce(&["nftables", "--drop"], &server);
        wait(&listed(&["192.0.2.9"]), || values("banned4"));
        wait(&listed(&["2001:db8:7::/48"]), || values("banned6"));
        let left = elements("banned4")[0].1;
        assert!((3400..=3600).contains(&left), "{left}");

        // Packets are dropped.
        let [receiver, banned, other] =
            ["127.0.0.1:0", "192.0.2.9:0", "192.0.2.10:0"].map(|address| UdpSocket::bind(address).unwrap());
        receiver.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let to = receiver.local_addr().unwrap();
        // A packet of the other address comes behind it, so nothing waits for one that was dropped.
        let passes = || {
            let from = || receiver.recv_from(&mut [0; 8]).unwrap().1.ip();
            banned.send_to(b"packet", to).unwrap();
            other.send_to(b"packet", to).unwrap();
            from() == banned.local_addr().unwrap().ip() && from() == other.local_addr().unwrap().ip()
        };
        assert!(!passes());

        // A rule's ban, a longer one, a network around others, and lifts.
        let event = r#"{"client.ip": "198.51.100.1", "user": "bad"}"#;
        let url = format!("{}/v1/decide", server.url);
        ureq::post(&url).header("content-type", "application/json").send(event).unwrap();
        wait(&listed(&["192.0.2.9", "198.51.100.1"]), || values("banned4"));
        ban(&server, "ip", "abuser", "192.0.2.9", "10d");
        wait(&true, || elements("banned4")[0].1 > 9 * 86400);
        abuser(&server, "198.51.100.0/24");
        wait(&listed(&["192.0.2.9", "198.51.100.0/24"]), || values("banned4"));
        lift(&server, "198.51.100.0/24");
        wait(&listed(&["192.0.2.9", "198.51.100.1"]), || values("banned4"));
        lift(&server, "192.0.2.9");
        wait(&listed(&["198.51.100.1"]), || values("banned4"));
        assert!(passes());

        // A ban that ends leaves by itself, also while the server is away; and what was lifted meanwhile goes with its return.
        ban(&server, "ip", "abuser", "192.0.2.77", "5s");
        wait(&listed(&["192.0.2.77", "198.51.100.1"]), || values("banned4"));
        let url = server.url.clone();
        server.end(Signal::TERM);
        wait(&listed(&["198.51.100.1"]), || values("banned4"));
        nft(&["flush", "set", "inet", "tollhouse", "banned4"]);
        let config = data.file("site.toml", CONFIG);
        let server = Server::start_again(&data.path(), &url, &["--config", &config]);
        lift(&server, "2001:db8:7::/48");
        abuser(&server, "203.0.113.8/29");
        wait(&listed(&["198.51.100.1", "203.0.113.8/29"]), || values("banned4"));
        wait(&listed(&[]), || values("banned6"));
        drop(enforcer);

        // Again and again it comes to the same.
        for _ in 0..2 {
            run(["enforce", "nftables", "--once", "--server", &server.url], "").expect(0);
            assert_eq!(values("banned4"), ["198.51.100.1", "203.0.113.8/29"]);
        }
        let only = ["enforce", "nftables", "--once", "--allow", "203.0.113.0/24", "--server", &server.url];
        run(only, "").expect(0);
        assert_eq!(values("banned4"), ["198.51.100.1"]);
        // Many at once are one transaction.
        for number in 0..300 {
            abuser(&server, &format!("198.18.{}.{}", number / 200, number % 200));
        }
        run(["enforce", "nftables", "--once", "--server", &server.url], "").expect(0);
        assert_eq!(values("banned4").len(), 302);
    });
}

/// A pipeline of lines such as `2026-11-26T10:00:00Z host doord: wrong code from 192.0.2.7`, the second of which bans.
const DOOR: &str = r#"
name = "door"
input = "log"

[log]
patterns = ['^ \S+ doord: wrong code from <HOST>$']

[[kind]]
name = "ip"
of = "log.ip"

[[statistic]]
name = "ip"
keys = ["ip"]
counts = ["seen"]
windows = ["10s x 61"]

[[label]]
name = "banned"
of = "ip"
keep = "1h"
decision = "ban"

[[rule]]
name = "WRONG_CODES"
when = "ip.seen('10m') >= 1"
score = 0
effects = ["mark ip as 'banned' for 1h", "set reject"]
"#;

/// Each address is in the set once its second line is in the log, and none before. `--nocapture` says how long that takes.
#[test]
fn a_line_of_a_log_is_in_the_set() {
    in_namespace("enforce::a_line_of_a_log_is_in_the_set", &["nft", "list", "ruleset"], || {
        let data = Data::new(&["web"]);
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("auth.log");
        let source = format!("[[source]]\nname = \"door\"\nfiles = ['{}']\n", log.display());
        let config = data.file("door.toml", &format!("{DOOR}\n{source}"));
        let server = Server::start(&data.path(), &["--config", &config]);
        let _enforcer = enforce(&["nftables"], &server);
        let mut file = std::fs::File::options().create(true).append(true).open(&log).unwrap();
        let mut write = |address: &str| {
            // Dates in logs have six digits behind the second at most.
            let now = jiff::Timestamp::from_microsecond(jiff::Timestamp::now().as_microsecond()).unwrap();
            let line = format!("{now} host doord: wrong code from {address}\n");
            std::io::Write::write_all(&mut file, line.as_bytes()).unwrap();
        };
        let addresses: Vec<String> = (10..20).map(|last| format!("192.0.2.{last}")).collect();
        // The first lines: who has one is not banned.
        addresses.iter().for_each(|address| write(address));
        let url = format!("{}/v1/sources", server.url);
        wait(&json!(addresses.len()), || {
            let text = ureq::get(&url).call().unwrap().body_mut().read_to_string().unwrap();
            serde_json::from_str::<Value>(&text).unwrap()["sources"][0]["events"].clone()
        });
        assert_eq!(values("banned4"), listed(&[]));
        let (mut known, mut took) = (Vec::new(), Vec::new());
        for (at, address) in addresses.iter().enumerate() {
            let started = Instant::now();
            write(address);
            known.push(address.clone());
            known.sort();
            let found = loop {
                let found = values("banned4");
                if found.len() >= known.len() || started.elapsed() > Duration::from_secs(60) {
                    break found;
                }
            };
            took.push(started.elapsed());
            assert_eq!(found, known, "{address}");
            // Not in step with the looks at the log.
            std::thread::sleep(Duration::from_millis(60 + 7 * at as u64));
        }
        took.sort();
        println!("from a line to the set: {:?}, at most {:?}", took[took.len() / 2], took[took.len() - 1]);
    });
}

#[test]
fn sets_of_ipset_are_in_step() {
    in_namespace("enforce::sets_of_ipset_are_in_step", &["ipset", "list"], || {
        let data = Data::new(&["web"]);
        let server = serve(&data);
        let members = |set: &str| {
            let output = Command::new("ipset").args(["save", set]).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let members = text.lines().filter_map(|line| line.strip_prefix("add "));
            let mut members: Vec<String> =
                members.filter_map(|line| Some(line.split(' ').nth(1)?.to_owned())).collect();
            members.sort();
            members
        };
        abuser(&server, "192.0.2.9");
        abuser(&server, "2001:db8:7::/48");
        let _enforcer = enforce(&["ipset"], &server);
        wait(&listed(&["192.0.2.9"]), || members("tollhouse4"));
        wait(&listed(&["2001:db8:7::/48"]), || members("tollhouse6"));
        abuser(&server, "198.51.100.0/24");
        lift(&server, "192.0.2.9");
        wait(&listed(&["198.51.100.0/24"]), || members("tollhouse4"));
        run(["enforce", "ipset", "--once", "--server", &server.url], "").expect(0);
        assert_eq!(members("tollhouse4"), ["198.51.100.0/24"]);
    });
}

#[test]
fn a_dry_run_shows_what_would_be_done() {
    let data = Data::new(&["web"]);
    let server = serve(&data);
    abuser(&server, "192.0.2.9");
    ban(&server, "user", "thief", "x } ; flush ruleset", "1h");
    let ran = run(["enforce", "nftables", "--dry-run", "--nft", "/nonexistent", "--server", &server.url], "");
    let lines: Vec<String> = ran.expect(0).stdout.lines().map(str::to_owned).collect();
    assert_eq!(
        lines[..5],
        [
            "add table inet tollhouse",
            "add set inet tollhouse banned4 { type ipv4_addr; flags interval, timeout; }",
            "add set inet tollhouse banned6 { type ipv6_addr; flags interval, timeout; }",
            "flush set inet tollhouse banned4",
            "flush set inet tollhouse banned6",
        ]
    );
    assert!(lines[5].starts_with("add element inet tollhouse banned4 { 192.0.2.9 timeout 3"), "{}", lines[5]);
    assert_eq!(lines.len(), 6);
    let failed = run(["enforce", "nftables", "--once", "--nft", "/nonexistent", "--server", &server.url], "");
    assert!(failed.expect(2).stderr.contains("/nonexistent: No such file"));
    run(["enforce", "nftables", "--table", "a b", "--dry-run", "--server", &server.url], "").expect(2);
    // A server that answers something else, or not at all.
    run(["enforce", "nftables", "--dry-run", "--server", "http://127.0.0.1:1"], "").expect(2);
}

#[test]
fn files_of_proxies_are_replaced_whole() {
    let data = Data::new(&["web"]);
    let server = serve(&data);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let once = |format: &str| {
        let output = file(format);
        let server = server.url.as_str();
        let args = ["enforce", "file", "--format", format, "--output", &output, "--once", "--server", server];
        run(args, "").expect(0);
        std::fs::read_to_string(&output).unwrap()
    };
    assert_eq!(once("caddy"), "remote_ip 255.255.255.255\n", "nobody, rather than everybody");
    abuser(&server, "192.0.2.9");
    abuser(&server, "2001:db8:7::/48");
    ban(&server, "user", "thief", "0 1; include /etc/passwd", "1h");
    for (format, expected) in [
        ("nginx-geo", "192.0.2.9 1;\n2001:db8:7::/48 1;\n"),
        ("nginx-deny", "deny 192.0.2.9;\ndeny 2001:db8:7::/48;\n"),
        ("haproxy", "192.0.2.9\n2001:db8:7::/48\n"),
        ("caddy", "remote_ip 192.0.2.9\nremote_ip 2001:db8:7::/48\n"),
        ("plain", "192.0.2.9\n2001:db8:7::/48\n"),
    ] {
        assert_eq!(once(format), expected, "{format}");
    }
    check_by_proxies(folder.path());

    let (output, reloaded) = (file("live"), file("reloaded"));
    let args =
        ["file", "--format", "plain", "--output", &output, "--pause", "0", "--", "cp", &output, &reloaded];
    let enforcer = enforce(&args, &server);
    let read = || std::fs::read_to_string(&reloaded).unwrap_or_default();
    wait(&"192.0.2.9\n2001:db8:7::/48\n".to_owned(), read);
    lift(&server, "192.0.2.9");
    wait(&"2001:db8:7::/48\n".to_owned(), read);
    drop(enforcer);
}

/// nginx and HAProxy read the files as they were meant.
fn check_by_proxies(folder: &Path) {
    let path = |name: &str| folder.join(name).display().to_string();
    let check = |program: &str, config: &str, args: &[&str]| {
        let file = path(&format!("{program}.conf"));
        std::fs::write(&file, config).unwrap();
        match Command::new(program).args(args).arg(&file).output() {
            Err(_) => println!("skipped: {program} is not installed"),
            Ok(output) => {
                let said = [output.stdout, output.stderr].concat();
                assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&said));
            }
        }
    };
    let nginx = format!(
        "pid {0}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{ access_log off; client_body_temp_path {0}/body; proxy_temp_path {0}/proxy; \
         fastcgi_temp_path {0}/fast; uwsgi_temp_path {0}/uwsgi; scgi_temp_path {0}/scgi;\n\
         geo $banned {{ default 0; include {0}/nginx-geo; }}\nserver {{ listen 127.0.0.1:8; include {0}/nginx-deny;\n\
         if ($banned) {{ return 403; }} }} }}\n",
        folder.display()
    );
    // `-t` binds what is listened on: it is root's, or refused for its port alone.
    let file = path("nginx.conf");
    std::fs::write(&file, nginx.replace("127.0.0.1:8;", &format!("unix:{}/socket;", folder.display())))
        .unwrap();
    match Command::new("nginx").args(["-e", "stderr", "-t", "-c", &file]).output() {
        Err(_) => println!("skipped: nginx is not installed"),
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
    }
    let haproxy = format!(
        "defaults\n mode http\n timeout client 1s\n timeout server 1s\n timeout connect 1s\nfrontend f\n \
         bind unix@{}/proxy.socket\n http-request deny if {{ src -f {} }}\n",
        folder.display(),
        path("haproxy")
    );
    check("haproxy", &haproxy, &["-c", "-f"]);
}

#[test]
fn lists_are_imported() {
    let data = Data::new(&["web"]);
    let server = serve(&data);
    let list = data.file("bad.txt", "192.0.2.9\nnobody\n203.0.113.0/24\n198.51.100.0/24 # bad\n");
    let import = ["import", "bans", "--label", "abuser", "--for", "1h", "--server", &server.url];
    let ran = run(import.iter().chain(&["--dry-run", &list]), "").expect(1);
    assert_eq!(ran.stdout, "192.0.2.9\n203.0.113.0/24\n198.51.100.0/24\n");
    let ran = run(import.iter().chain(&[list.as_str()]), "").expect(1);
    for expected in
        ["bad.txt:2: `nobody`", "`203.0.113.0/24` is on the allow list", "2 addresses", "1 were refused"]
    {
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
    }
    run(import.iter().chain(&["-"]), "add bad 192.0.2.10 timeout 60\n").expect(0);
    let ran = run(["enforce", "command", "--dry-run", "--server", &server.url, "--", "x"], "").expect(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[1].starts_with("ban\t192.0.2.10\t4\t6") || lines[1].starts_with("ban\t192.0.2.10\t4\t5"));
    assert_eq!(lines.len(), 3);
    // A label that is none ends it at once.
    run(
        import.iter().map(|word| if *word == "abuser" { "nothing" } else { word }).chain(["-"]),
        "192.0.2.1\n",
    )
    .expect(2);
}

#[test]
fn a_program_is_told_of_each_change() {
    let data = Data::new(&["web"]);
    let server = serve(&data);
    abuser(&server, "192.0.2.9");
    let folder = tempfile::tempdir().unwrap();
    let told = |action: &str, address: &str| folder.path().join(format!("{action}-{address}")).exists();
    let script = folder.path().join("told");
    std::fs::write(&script, format!("cd {}; : > \"$1-$2\"\n", folder.path().display())).unwrap();
    let script = script.display().to_string();
    let _enforcer = enforce(&["command", "--", "sh", &script, "{action}", "{address}"], &server);
    wait(&true, || told("ban", "192.0.2.9"));
    abuser(&server, "192.0.2.10");
    wait(&true, || told("ban", "192.0.2.10"));
    lift(&server, "192.0.2.9");
    wait(&true, || told("lift", "192.0.2.9"));
    assert!(!told("lift", "192.0.2.10"));
}

//! Jails of fail2ban become pipelines, logs are followed by their patterns, and who fails is banned.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;

use crate::program::{Data, Server, run};
use crate::sources::wait_until;

const JAIL: &str = "[DEFAULT]\nmaxretry = 3\nfindtime = 10m\nbantime = 1h\nignoreip = 198.51.100.0/24\n\
    [sshd]\nenabled = true\nlogpath = /var/log/auth.log\n[web]\nenabled = true\nlogpath = /var/log/web.log\nmaxretry = 1\n";
const SSHD: &str = "[Definition]\nprefregex = ^<F-MLFID>\\s*\\S+ sshd\\[\\d+\\]: </F-MLFID><F-CONTENT>.+</F-CONTENT>$\n\
    failregex = ^Failed password for <F-USER>\\S+</F-USER> from <HOST>(?: port \\d+)?$\n    ^<F-NOFAIL>Connection from</F-NOFAIL> <HOST>\n";
const WEB: &str = "[Definition]\nfailregex = ^\\s*denied (?!local)<HOST>$\n    ^broken ( <HOST>$\n";

/// A folder with a configuration of fail2ban.
fn configuration(folder: &Path) -> PathBuf {
    let etc = folder.join("fail2ban");
    fs::create_dir_all(etc.join("filter.d")).unwrap();
    let logs = folder.join("log").display().to_string();
    fs::write(etc.join("jail.conf"), JAIL.replace("/var/log", &logs)).unwrap();
    fs::write(etc.join("filter.d/sshd.conf"), SSHD).unwrap();
    fs::write(etc.join("filter.d/web.conf"), WEB).unwrap();
    etc
}

/// Imports a configuration; returns what was said and the path of the main file.
fn import(etc: &Path, folder: &Path) -> (String, String) {
    let bans = folder.join("bans");
    let (etc, to) = (etc.display().to_string(), bans.display().to_string());
    let ran = run(["import", "fail2ban", "--output", &to, &etc], "").expect(0);
    (ran.stderr, bans.join("tollhouse.toml").display().to_string())
}

/// The values that are banned now.
fn banned(server: &Server) -> Vec<String> {
    let mut answer = ureq::get(format!("{}/v1/bans/stream?startup=true", server.url)).call().unwrap();
    let answer: Value = serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap();
    let new = answer["new"].as_array().cloned().unwrap_or_default();
    let mut values: Vec<String> =
        new.iter().map(|ban| ban["value"].as_str().unwrap_or_default().to_owned()).collect();
    values.sort();
    values
}

/// The time as logs write it, in UTC.
fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    event::Time::from_seconds(seconds.cast_signed()).to_string()
}

/// A line of now.
fn line(rest: &str) -> String {
    format!("{} host {rest}\n", now())
}

#[test]
fn who_fails_too_often_is_banned() {
    let folder = tempfile::tempdir().unwrap();
    let (told, config) = import(&configuration(folder.path()), folder.path());
    assert!(told.contains("2 jails with 3 patterns"), "{told}");
    assert!(told.contains("not taken: filter.d/web.conf:2: a group that is not closed"), "{told}");
    assert!(told.contains("2 sources, which `tollhouse serve` reads"), "{told}");
    run(["config", "check", "--strict", "--config", &config], "").expect(0);

    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &["--config", &config]);
    let failed = |ip: &str| line(&format!("sshd[7]: Failed password for root from {ip} port 22"));
    let log: String = [
        failed("192.0.2.1"),
        line("sshd[8]: Connection from 192.0.2.3"),
        failed("192.0.2.2"),
        line("sshd[9]: something else"),
        "no date, and nothing known\n".to_owned(),
        failed("192.0.2.1"),
        failed("192.0.2.2"),
        failed("192.0.2.1"),
        failed("198.51.100.1").repeat(9),
    ]
    .concat();
    let file = folder.path().join("auth.log");
    fs::write(&file, log).unwrap();
    let file = file.display().to_string();
    let follow = ["follow", "--server", &server.url, "--pipeline", "sshd", "--once", "--unparsed", &file];
    let ran = run(follow, "").expect(0);
    assert!(
        ran.stderr.contains("14 events, 2 lines that no pattern reads, 0 that were refused"),
        "{}",
        ran.stderr
    );
    assert!(ran.stdout.contains("something else") && ran.stdout.contains("nothing known"), "{}", ran.stdout);
    assert_eq!(ran.stdout.matches("reject").count(), 1, "{}", ran.stdout);
    assert_eq!(banned(&server), ["192.0.2.1"]);

    // Nothing counts twice.
    run(follow, "").expect(0);
    assert_eq!(banned(&server), ["192.0.2.1"]);
    // The other jail asks for one failure, and its pattern looks ahead.
    let web = format!("{} denied 192.0.2.9\n", now());
    let follow = ["follow", "--server", &server.url, "--pipeline", "web", "-"];
    let ran = run(follow, &web).expect(0);
    assert!(ran.stderr.contains("1 events"), "{}", ran.stderr);
    assert_eq!(banned(&server), ["192.0.2.1", "192.0.2.9"]);

    // The server follows the jails' logs itself. Who failed long ago is not banned today.
    let logs = folder.path().join("log");
    fs::create_dir(&logs).unwrap();
    let old =
        "2026-01-05T10:00:00Z host sshd[7]: Failed password for root from 192.0.2.6 port 22\n".repeat(5);
    // Who has a /64 goes from address to address, and is one all the same.
    let addresses: String = ["1", "2", "3"].map(|host| failed(&format!("2001:db8:0:7::{host}"))).concat();
    fs::write(logs.join("auth.log"), old + &failed("192.0.2.4").repeat(3) + &addresses).unwrap();
    let old = "2026-01-05T10:00:00Z denied 192.0.2.8\n";
    fs::write(logs.join("web.log"), format!("{old}{} denied 192.0.2.5\n", now())).unwrap();
    wait_until("bans of both logs", || {
        banned(&server) == ["192.0.2.1", "192.0.2.4", "192.0.2.5", "192.0.2.9", "2001:db8:0:7::/64"]
    });
}

/// Bans become longer with each, and five of them ban for a week: a burst that is read at once is one ban all the same.
#[test]
fn a_burst_in_one_chunk_is_one_ban() {
    let folder = tempfile::tempdir().unwrap();
    let etc = configuration(folder.path());
    let growing = "[DEFAULT]\nbantime.increment = true\nbantime.maxtime = 1w\n\
        [web]\nenabled = false\n[recidive]\nenabled = true\nfindtime = 1d\nbantime = 1w\nlogpath = /dev/null\n";
    fs::write(etc.join("jail.local"), growing).unwrap();
    fs::write(etc.join("filter.d/recidive.conf"), "[Definition]\nfailregex = Ban <HOST>\n").unwrap();
    let (_, config) = import(&etc, folder.path());
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &["--config", &config]);
    let failed = |ip: &str| line(&format!("sshd[7]: Failed password for root from {ip} port 22"));
    let logs = folder.path().join("log");
    fs::create_dir(&logs).unwrap();
    let bursts =
        failed("192.0.2.1").repeat(20) + &failed("192.0.2.2").repeat(100) + &failed("192.0.2.3").repeat(3);
    fs::write(logs.join("auth.log"), bursts).unwrap();
    wait_until("the last ban", || banned(&server).contains(&"192.0.2.3".to_owned()));
    let mut answer = ureq::get(format!("{}/v1/bans/stream?startup=true", server.url)).call().unwrap();
    let answer: Value = serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap();
    let mut by: Vec<String> =
        answer["new"].as_array().unwrap().iter().map(|ban| ban["by"].to_string()).collect();
    by.sort();
    assert_eq!(by, ["\"SSHD_1\""; 3], "{answer}");
}

#[test]
fn presets_of_programs_ban_whom_their_logs_report() {
    let data = Data::new(&["sshd,nginx-error"]);
    let config = data.path().join("tollhouse.toml");
    let text = fs::read_to_string(&config).unwrap();
    let (ssh, web) = (data.path().join("auth.log"), data.path().join("error.log"));
    let written = text
        .replace("journald = { units = [\"ssh\", \"sshd\"] }", &format!("files = [\"{}\"]", ssh.display()))
        .replace("/var/log/nginx/*error.log", &web.display().to_string())
        .replace("pipeline = \"nginx-error\"", "pipeline = \"nginx-error\"\nzone = \"UTC\"");
    assert_eq!(written.matches(&data.path().display().to_string()).count(), 2, "{text}");
    fs::write(&config, written).unwrap();
    data.run(&["config", "check", "--strict"], "").expect(0);
    // A file is open once there is something in it.
    fs::write(&ssh, line("cron[7]: earlier")).unwrap();
    fs::write(&web, "2026/01/01 00:00:00 [notice] 7#7: earlier\n").unwrap();
    let server = Server::start(&data.path(), &[]);
    let append = |path: &Path, text: &str| {
        fs::OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    };
    let failed =
        |user: &str, ip: &str| line(&format!("sshd[7]: Failed password for {user} from {ip} port 22 ssh2"));
    let source = |name: &str| {
        let mut answer = ureq::get(format!("{}/v1/sources", server.url)).call().unwrap();
        let answer: Value = serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap();
        let mut sources = answer["sources"].as_array().unwrap().iter();
        sources.find(|source| source["name"] == name).unwrap().clone()
    };
    let lines = |name: &str| source(name)["lines"].as_u64().unwrap();
    // They begin with what comes after they have opened their files.
    wait_until("the sources", || ["sshd", "nginx-error"].iter().all(|name| source(name)["files"] == 1));
    append(&ssh, &line("sshd[7]: Accepted password for ann from 192.0.2.2 port 22 ssh2"));
    wait_until("the log-in", || lines("sshd") == 1);
    append(
        &ssh,
        &[
            failed("root", "192.0.2.1").repeat(4),
            // Somebody logged in from there before.
            failed("ann", "192.0.2.2").repeat(9),
            // Each address of a /64 is the same client's.
            (1..=5).map(|number| failed("root", &format!("2001:db8:0:7::{number}"))).collect(),
            failed("x from 192.0.2.9 port 1 ssh2", "192.0.2.3").repeat(4),
            // What is long over bans nobody.
            "2020-01-01T00:00:00Z host sshd[7]: Failed password for root from 192.0.2.4 port 22 ssh2\n"
                .repeat(9),
        ]
        .concat(),
    );
    wait_until("the failures", || lines("sshd") == 32);
    wait_until("the first ban", || banned(&server) == ["2001:db8:0:7::/64"]);
    append(&ssh, &failed("root", "192.0.2.1"));
    wait_until("the second ban", || banned(&server) == ["192.0.2.1", "2001:db8:0:7::/64"]);
    let date = now()[..19].replace('-', "/").replace('T', " ");
    let refused = format!(
        "{date} [error] 7#7: *1 limiting requests, excess: 5.1 by zone \"one\", client: 192.0.2.5, server: x, request: \"GET / HTTP/1.1\"\n"
    );
    append(&web, &refused.repeat(10));
    wait_until("the third ban", || banned(&server).contains(&"192.0.2.5".to_owned()));
}

#[test]
fn debians_jails_become_pipelines_that_are_taken() {
    let unpacked = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("mail-clients/etc/fail2ban");
    let candidates = [unpacked, PathBuf::from("/etc/fail2ban")];
    let Some(etc) = candidates.into_iter().find(|etc| etc.join("filter.d/sshd.conf").exists()) else {
        println!(
            "skipped: Debian's jails: fail2ban is not installed, and scripts/mail-clients has not unpacked it"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("fail2ban");
    for part in ["", "filter.d", "jail.d"] {
        fs::create_dir_all(copy.join(part)).unwrap();
        let Ok(entries) = fs::read_dir(etc.join(part)) else { continue };
        for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
            fs::copy(entry.path(), copy.join(part).join(entry.file_name())).unwrap();
        }
    }
    let jails = [
        "sshd",
        "apache-auth",
        "nginx-http-auth",
        "postfix",
        "dovecot",
        "mysqld-auth",
        "asterisk",
        "recidive",
    ];
    let local: String = jails.iter().map(|jail| format!("[{jail}]\nenabled = true\n")).collect();
    fs::write(copy.join("jail.local"), format!("[DEFAULT]\nbantime.increment = true\n{local}")).unwrap();
    let (told, config) = import(&copy, folder.path());
    assert!(told.contains("7 jails"), "{told}");
    run(["config", "check", "--strict", "--config", &config], "").expect(0);
}

const PARSER: &str = "onsuccess: next_stage\nname: me/door\nfilter: \"evt.Line.Labels.type == 'door'\"\n\
    pattern_syntax:\n  WRONG: 'wrong code of %{USER:user} from %{IP:ip}'\n\
    nodes:\n  - grok:\n      pattern: '^%{TIMESTAMP_ISO8601:time} %{WRONG}$'\n      apply_on: Line.Raw\n\
    statics:\n  - meta: log_type\n    value: wrong\n  - meta: source_ip\n    expression: evt.Parsed.ip\n";
const SCENARIO: &str = "type: leaky\nname: me/door-bf\ndescription: Wrong codes\nfilter: evt.Meta.log_type == 'wrong'\n\
    groupby: evt.Meta.source_ip\ndistinct: evt.Parsed.user\ncapacity: 2\nleakspeed: 1h\nblackhole: 1m\nlabels:\n  remediation: true\n";
const WHITELIST: &str = "name: me/known\nwhitelist:\n  reason: known\n  cidr: ['198.51.100.0/24']\n";

#[test]
fn who_overflows_a_scenario_of_crowdsec_is_banned() {
    let folder = tempfile::tempdir().unwrap();
    let etc = folder.path().join("crowdsec");
    let log_file = folder.path().join("served.log");
    let acquisition = format!("filename: {}\nlabels:\n  type: door\n", log_file.display());
    let files = [
        ("parsers/s00-raw/door.yaml", PARSER),
        ("parsers/s02-enrich/known.yaml", WHITELIST),
        ("parsers/s01-parse/pass.yaml", "onsuccess: next_stage\nname: me/pass\n"),
        ("scenarios/door-bf.yaml", SCENARIO),
        ("scenarios/other.yaml", "type: leaky\nname: me/other\nfilter: nobody(evt)\nleakspeed: 1s\n"),
        ("acquis.yaml", &acquisition),
    ];
    for (path, text) in files {
        let path = etc.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let bans = folder.path().join("bans");
    let (etc, to) = (etc.display().to_string(), bans.display().to_string());
    let told = run(["import", "crowdsec", "--output", &to, &etc], "").expect(0).stderr;
    assert!(told.contains("1 scenarios"), "{told}");
    assert!(told.contains("scenarios/other.yaml:3: the function `nobody` is not known"), "{told}");
    assert!(told.contains("1 sources, which `tollhouse serve` reads"), "{told}");
    let config = bans.join("tollhouse.toml").display().to_string();
    run(["config", "check", "--strict", "--config", &config], "").expect(0);

    // What a log has before it is followed is not read.
    let old = ["a", "b", "c"].map(|user| format!("{} wrong code of {user} from 192.0.2.9\n", now()));
    fs::write(&log_file, old.concat()).unwrap();
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &["--config", &config]);
    let wrong = |user: &str, ip: &str| format!("{} wrong code of {user} from {ip}\n", now());
    let log: String = [
        wrong("a", "192.0.2.1"),
        wrong("a", "192.0.2.2").repeat(5),
        wrong("b", "192.0.2.1"),
        "no parser reads this\n".to_owned(),
        wrong("c", "192.0.2.1"),
        ["a", "b", "c", "d"].map(|user| wrong(user, "198.51.100.1")).concat(),
        // Each address of a /64 is the same client's.
        ["a", "b", "c"].map(|user| wrong(user, &format!("2001:db8:0:7::{user}"))).concat(),
    ]
    .concat();
    let url = server.url.as_str();
    let follow =
        ["follow", "--server", url, "--pipeline", "crowdsec", "--crowdsec", &etc, "--log-type", "door", "-"];
    let ran = run(follow, &log).expect(0);
    assert!(
        ran.stderr.contains("2 events, 1 lines that no pattern reads, 0 that were refused"),
        "{}",
        ran.stderr
    );
    assert!(ran.stdout.contains("reject") && ran.stdout.contains("DOOR_BF"), "{}", ran.stdout);
    assert_eq!(banned(&server), ["192.0.2.1", "2001:db8:0:7::/64"]);

    // Buckets survive a restart: a user at a time, and the third overflows.
    let (file, position) = (folder.path().join("door.log"), folder.path().join("position"));
    let (path, position) = (file.display().to_string(), position.display().to_string());
    let follow =
        ["follow", "--server", url, "--pipeline", "crowdsec", "--crowdsec", &etc, "--log-type", "door"];
    for (user, events) in [("a", "0 events"), ("b", "0 events"), ("c", "1 events"), ("d", "0 events")] {
        let text = fs::read_to_string(&file).unwrap_or_default() + &wrong(user, "192.0.2.3");
        fs::write(&file, text).unwrap();
        let ran = run(follow.iter().chain(&["--once", "--position", &position, &path]), "").expect(0);
        assert!(ran.stderr.contains(events), "{user}: {}", ran.stderr);
    }
    assert_eq!(banned(&server), ["192.0.2.1", "192.0.2.3", "2001:db8:0:7::/64"]);

    // So they do in a server, which reads the log of the acquisition itself.
    let append = |text: &str| {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&log_file).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    let taken = |server: &Server| {
        let mut answer = ureq::get(format!("{}/v1/sources", server.url)).call().unwrap();
        let answer: Value = serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap();
        let source = &answer["sources"][0];
        let number = |name: &str| source[name].as_u64().unwrap_or(0);
        (number("files"), number("lines"), number("unread"))
    };
    wait_until("the log is open", || taken(&server) == (1, 0, 0));
    append(&[wrong("a", "192.0.2.7"), wrong("b", "192.0.2.7"), "no parser reads this\n".to_owned()].concat());
    wait_until("three lines", || taken(&server) == (1, 3, 1));
    server.end(Signal::TERM);
    let server = Server::start(&data.path(), &["--config", &config]);
    append(&wrong("c", "192.0.2.7"));
    wait_until("the ban of the third", || {
        banned(&server) == ["192.0.2.1", "192.0.2.3", "192.0.2.7", "2001:db8:0:7::/64"]
    });
    assert_eq!(taken(&server), (1, 1, 0));
}

#[test]
fn tests_of_crowdsecs_hub_are_run_as_it_runs_them() {
    let hub = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpora/peers/web/crowdsec-hub");
    let ran = run(["test", "crowdsec", "--only", "vsftpd-bf", "--only", "amavis-logs", hub], "").expect(0);
    assert_eq!(
        ran.stdout,
        "passed  amavis-logs\npassed  vsftpd-bf\n1 of 1 tests of parsers passed, 1 of 1 of scenarios\n"
    );
}

#[test]
fn lines_that_no_pattern_reads_are_told_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let (_, config) = import(&configuration(folder.path()), folder.path());
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &["--config", &config]);
    let failed = line("sshd[7]: Failed password for root from 192.0.2.1 port 22");
    for (name, text) in [("a.log", failed.clone() + "odd\n"), ("b.log", "odder\n".repeat(2) + &failed)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let files = format!("{}/*.log", folder.path().display());
    let ran =
        run(["follow", "--server", &server.url, "--pipeline", "sshd", "--once", "--unparsed", &files], "");
    let ran = ran.expect(0);
    assert!(
        ran.stderr.contains("2 events, 3 lines that no pattern reads, 0 that were refused"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("a.log: 1 lines") && ran.stderr.contains("b.log: 2 lines"), "{}", ran.stderr);
    assert!(ran.stdout.contains("a.log: odd\n") && ran.stdout.contains("b.log: odder\n"), "{}", ran.stdout);
}

/// An entry of the journal's export that is half written when `follow` ends is whole after its next start.
#[test]
fn an_entry_that_is_half_read_is_kept_with_the_position() {
    let data = Data::new(&["web"]);
    let door = "name = 'door'\nspace = 7\ninput = 'log'\n[log]\nenvelope = 'journal-export'\npatterns = ['wrong code from <HOST>$']\n";
    fs::write(data.path().join("door.toml"), door).unwrap();
    let config = data.path().join("tollhouse.toml");
    let text = fs::read_to_string(&config).unwrap() + "\n[node]\npipelines = ['door.toml']\n";
    fs::write(&config, text).unwrap();
    let server = Server::start(&data.path(), &[]);
    let (file, position) = (data.file("export", ""), data.file("position", "{\"files\":{}}"));
    let follow =
        ["follow", "--server", &server.url, "--pipeline", "door", "--once", "--position", &position, &file];
    let entry = "__CURSOR=s=1\n_HOSTNAME=h\nMESSAGE=wrong code from 192.0.2.7\n\n";
    let mut written = 0;
    for (number, events) in [(13, 0), (entry.len() - 1, 0), (entry.len(), 1)] {
        let mut log = fs::OpenOptions::new().append(true).open(&file).unwrap();
        log.write_all(&entry.as_bytes()[written..number]).unwrap();
        written = number;
        let ran = run(follow, "").expect(0);
        assert!(ran.stderr.contains(&format!("{events} events, 0 lines")), "{number}: {}", ran.stderr);
    }
}

#[test]
fn columns_and_zones_are_said_on_the_command_line() {
    let data = Data::new(&["web"]);
    let config = data.path().join("tollhouse.toml");
    let orders = "name = 'orders'\nspace = 9\ninput = 'json'\n[time]\nfield = 'at'\n[[field]]\nname = 'user'\ntype = 'string'\n\
        [[field]]\nname = 'amount'\ntype = 'float'\n[[field]]\nname = 'at'\ntype = 'time'\n";
    fs::write(data.path().join("orders.toml"), orders).unwrap();
    let text = fs::read_to_string(&config).unwrap() + "\n[node]\npipelines = ['orders.toml']\n";
    fs::write(&config, text).unwrap();
    let server = Server::start(&data.path(), &[]);
    let decisions = || {
        let url = format!("{}/v1/decisions?pipeline=orders", server.url);
        let answer = ureq::get(url).call().unwrap().body_mut().read_to_string().unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["decisions"].as_array().map_or(0, Vec::len)
    };
    let file = data.file("orders.csv", "user,amount\nann,12.5\n\"bob, jr\",7\nnobody,much\na,b,c\n");
    let csv = ["follow", "--server", &server.url, "--pipeline", "orders", "--once", "--format", "csv"];
    let ran = run(csv.iter().chain(&[file.as_str()]), "").expect(0);
    assert!(ran.stderr.contains("2 events, 2 lines that were none"), "{}", ran.stderr);
    let file = data.file("named.csv", "ann;1\n");
    let ran = run(csv.iter().chain(&["--columns", "user,amount", "--separator", ";", &file]), "").expect(0);
    assert!(ran.stderr.contains("1 events, 0 lines"), "{}", ran.stderr);
    let started = std::time::Instant::now();
    while decisions() != 3 {
        assert!(started.elapsed() < std::time::Duration::from_secs(120), "{}", decisions());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let refused = run(csv.iter().chain(&["--zone", "Nowhere/Else", &file]), "");
    assert!(refused.code != 0 && refused.stderr.contains("there is no time zone"), "{}", refused.stderr);
    let refused = run(["follow", "--server", &server.url, "--columns", "a", &file], "");
    assert!(
        refused.code != 0 && refused.stderr.contains("--columns are for --format csv"),
        "{}",
        refused.stderr
    );
}

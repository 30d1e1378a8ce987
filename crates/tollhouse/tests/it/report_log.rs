//! The report of an access log: its lists, its HTML, and what strangers wrote in the log.

use crate::program::{Data, Server, run};

/// Requests of a visitor and a scanner, with a path and an agent that would command a terminal or a browser.
fn log() -> String {
    let line = |ip: &str, minute: u32, path: &str, status: u16, agent: &str| {
        format!(
            "{ip} - - [17/May/2026:09:{minute:02}:00 +0000] \"GET {path} HTTP/1.1\" {status} 100 \"-\" \"{agent}\"\n"
        )
    };
    let visits = (0..20).map(|minute| line("198.51.100.7", minute, "/page", 200, "Mozilla/5.0"));
    let scans = (20..50).map(|minute| line("192.0.2.7", minute, "/.env", 404, "sqlmap/1.7"));
    let strange = line("192.0.2.7", 51, "/<script>alert(1)</script>", 404, r"\x1b[2Jevil<b>");
    visits.chain(scans).chain([strange, "no request\n".to_owned()]).collect()
}

#[test]
fn a_log_is_summed_up() {
    let data = Data::new(&["web"]);
    let (file, html) = (data.file("access.log", &log()), data.file("report.html", ""));
    let ran = run(["report-log", "--html", &html, &file], "").expect(1);
    for expected in
        ["51 requests", "1 lines are no requests", "Flagged addresses", "192.0.2.7", "404 /.env", "█"]
    {
        assert!(ran.stdout.contains(expected), "{expected}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains('\u{1b}'), "{}", ran.stdout);
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for expected in ["/&lt;script&gt;alert(1)&lt;/script&gt;", "evil&lt;b&gt;", "default-src 'none'"] {
        assert!(page.contains(expected), "{expected}");
    }
    for hostile in ["<script", "<b>evil", "evil<b>", "\u{1b}", "http://", "https://"] {
        assert!(!page.contains(hostile), "{hostile}");
    }

    let told = run(["report-log", "--json", "--top", "1", "-"], &log()).expect(1).json();
    let told = &told[0];
    assert_eq!((&told["requests"], &told["bad"], &told["failed"]), (&51.into(), &1.into(), &31.into()));
    let source = &told["sources"][0];
    assert_eq!(source["address"], "192.0.2.7");
    assert_eq!(source["events"], told["flagged"]);
    assert!(source["rules"].as_object().unwrap().len() > 1, "{source}");
    assert_eq!(told["addresses"][0]["name"], "192.0.2.7");
    assert_eq!(told["addresses"][0]["requests"], 31);
    assert_eq!(told["paths"].as_array().unwrap().len(), 1);
    let sum: u64 =
        told["timeline"].as_array().unwrap().iter().map(|it| it["requests"].as_u64().unwrap()).sum();
    assert_eq!(sum, 51);
    run(["report-log", "/nonexistent"], "").expect(2);
}

#[test]
fn a_replay_is_summed_up_by_source() {
    let ran = run(["replay", "-"], &log()).expect(1);
    assert!(
        ran.stdout.starts_with("Flagged addresses") && ran.stdout.contains("192.0.2.7"),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains("198.51.100.7"), "{}", ran.stdout);
    assert_eq!(ran.stdout.lines().count(), 3, "{}", ran.stdout);
    let flagged: usize = {
        let row = ran.stdout.lines().nth(2).unwrap();
        row.split_whitespace().next().unwrap().parse().unwrap()
    };
    // One by one for people, and for programs.
    let ran = run(["replay", "--decisions", "-"], &log()).expect(1);
    assert_eq!(ran.stdout.lines().count(), flagged, "{}", ran.stdout);
    assert!(!ran.stdout.contains("192.0.2.7"), "{}", ran.stdout);
    assert_eq!(run(["replay", "--json", "-"], &log()).expect(1).json().len(), flagged);
    assert_eq!(run(["replay", "--json", "--all", "-"], &log()).expect(1).json().len(), 51);
    assert_eq!(run(["replay", "--all", "-"], &log()).expect(1).stdout.lines().count(), 51);
}

/// Events of an application name their address as its pipeline does.
#[test]
fn events_are_summed_up_by_the_first_address_that_their_pipeline_declares() {
    let event = |ip: &str, name: usize, result: &str| {
        format!(
            "{{\"time\":\"2026-05-17T09:00:{:02}Z\",\"user\":\"u{name}\",\"ip\":\"{ip}\",\"result\":\"{result}\"}}\n",
            name % 60
        )
    };
    let guesses = (0..40).map(|name| event("192.0.2.7", name, "unknown_user"));
    let events: String = guesses.chain([event("198.51.100.7", 50, "success")]).collect();
    let ran = run(["replay", "--preset", "login", "--batch", "1", "-"], &events).expect(0);
    assert!(ran.stdout.contains("192.0.2.7") && !ran.stdout.contains("198.51.100.7"), "{}", ran.stdout);
}

/// Failures of an address, and what else is in the log of sshd.
fn log_of_sshd() -> String {
    let line = |ip: &str, second: u32, text: &str| {
        format!("2026-05-17T09:00:{second:02}+00:00 host sshd[7]: {text} from {ip} port 22 ssh2\n")
    };
    let failures = (0..9).map(|second| line("192.0.2.7", second, "Failed password for root"));
    let others = [
        line("198.51.100.7", 20, "Failed password for ann"),
        line("198.51.100.7", 21, "Accepted password for ann"),
        "2026-05-17T09:00:30+00:00 host cron[8]: nothing of interest\n".to_owned(),
    ];
    failures.chain(others).collect()
}

/// Lines as Docker and Kubernetes keep them.
fn in_containers(log: &str) -> [String; 2] {
    let docker =
        |line: &str| serde_json::json!({"log": format!("{line}\n"), "stream": "stdout"}).to_string() + "\n";
    [
        log.lines().map(docker).collect(),
        log.lines().map(|line| format!("2026-05-17T09:00:00.1Z stdout F {line}\n")).collect(),
    ]
}

/// Requests of one address that looks for what is not there, by a heading.
fn by_heading() -> String {
    "#Fields: date time c-ip cs-method cs-uri-stem sc-status\n".to_owned()
        + &"2026-05-17 09:00:00 192.0.2.7 GET /.env 404\n".repeat(30)
}

/// A jail is tried on yesterday's log before it bans anybody.
#[test]
fn the_log_of_a_program_is_replayed_by_the_patterns_of_its_pipeline() {
    let log = log_of_sshd();
    let [docker, runtime] = in_containers(&log);
    for log in [&log, &docker, &runtime] {
        let ran = run(["replay", "--preset", "sshd", "-"], log).expect(0);
        assert!(ran.stdout.contains("192.0.2.7") && ran.stdout.contains("FAILS_TOO_OFTEN"), "{}", ran.stdout);
        assert!(!ran.stdout.contains("198.51.100.7"), "{}", ran.stdout);
        assert!(ran.stderr.contains("11 events in"), "{}", ran.stderr);
        assert!(ran.stderr.contains("1  lines are read by no pattern"), "{}", ran.stderr);
        let told = run(["report-log", "--preset", "sshd", "--json", "-"], log).expect(0).json();
        let told = &told[0];
        assert_eq!((&told["requests"], &told["unread"], &told["bad"]), (&11.into(), &1.into(), &0.into()));
        assert_eq!(
            (&told["sources"][0]["address"], &told["accounts"][0]["name"]),
            (&"192.0.2.7".into(), &"root".into())
        );
        assert_eq!(told["paths"].as_array().unwrap().len(), 0, "a program serves no pages");
    }
    let shown = run(["report-log", "--preset", "sshd", "-"], &log).expect(0).stdout;
    assert!(shown.contains("11 events, 5 flagged") && shown.contains("Accounts"), "{shown}");
    // The first four are none too many.
    let ran = run(["replay", "--preset", "sshd", "--json", "--format", "log", "-"], &log).expect(0);
    let lines: Vec<u64> = ran.json().iter().map(|object| object["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [5, 6, 7, 8, 9]);
    let refused = run(["replay", "--format", "log", "-"], &log).expect(2);
    assert!(refused.stderr.contains("not logs of programs"), "{}", refused.stderr);
    let refused = run(["report-log", "--preset", "login", "-"], &log).expect(2);
    assert!(refused.stderr.contains("reads json"), "{}", refused.stderr);
}

/// Moves a log to the last hour: a server counts nothing for long ago.
fn of_today(log: &str) -> String {
    let begin = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(55);
    (0..60).fold(log.to_owned(), |log, minute: i64| {
        let time = begin + jiff::SignedDuration::from_mins(minute);
        let day = time.strftime("%Y-%m-%d");
        let at = time.strftime("%H:%M:");
        log.replace(&format!("17/May/2026:09:{minute:02}:"), &time.strftime("%d/%b/%Y:%H:%M:").to_string())
            .replace(&format!("2026-05-17T09:{minute:02}:"), &format!("{day}T{at}"))
            .replace(&format!("2026-05-17 09:{minute:02}:"), &format!("{day} {at}"))
    })
}

/// A server is asked what its pipeline reads, and gets the events of lines that it could not read by themselves.
#[test]
fn a_server_decides_on_whatever_is_replayed_in_memory() {
    let data = Data::new(&["web"]);
    let both = "preset = \"web\"\n[node]\npipelines = [\"sshd.toml\"]\n";
    std::fs::write(data.path().join("tollhouse.toml"), both).unwrap();
    std::fs::write(data.path().join("sshd.toml"), "preset = \"sshd\"\n").unwrap();
    let server = Server::start(&data.path(), &[]);
    let check = |pipeline: &str, log: &str, code: i32, events: &str| {
        let args = ["replay", "--pipeline", pipeline, "--server", &server.url, "-"];
        let ran = run(args, &of_today(log)).expect(code);
        let is_flagged = ran.stdout.contains("Flagged addresses") && ran.stdout.contains("192.0.2.7");
        assert!(is_flagged && ran.stderr.contains(events), "{}{}", ran.stdout, ran.stderr);
        ran
    };
    let [docker, runtime] = in_containers(&log());
    for log in [log(), docker, runtime] {
        check("web", &log, 1, "51 events in");
    }
    check("web", &by_heading(), 0, "30 events in");
    let ran = check("sshd", &log_of_sshd(), 0, "11 events in");
    assert!(ran.stderr.contains("1  lines are read by no pattern"), "{}", ran.stderr);
    let by_format =
        run(["replay", "--format", "log", "--json", "--all", "--server", &server.url, "-"], &log_of_sshd());
    assert_eq!(by_format.expect(0).json()[0]["pipeline"], "sshd");
    let refused = ["replay", "--format", "log", "--pipeline", "web", "--server", &server.url, "-"];
    let refused = run(refused, &log()).expect(2);
    assert!(refused.stderr.contains("not logs of programs"), "{}", refused.stderr);
}

#[test]
fn an_access_log_is_replayed_from_a_containers_file_and_by_its_heading() {
    let [docker, runtime] = in_containers(&log());
    for (log, code, requests) in [(docker, 1, 51), (runtime, 1, 51), (by_heading(), 0, 30)] {
        let ran = run(["replay", "-"], &log).expect(code);
        assert!(ran.stdout.contains("192.0.2.7"), "{}", ran.stdout);
        assert!(!ran.stdout.contains("198.51.100.7"), "{}", ran.stdout);
        let told = run(["report-log", "--json", "-"], &log).expect(code).json();
        assert_eq!(told[0]["requests"], requests);
        assert_eq!(told[0]["sources"][0]["address"], "192.0.2.7");
    }
}

#[test]
fn an_access_log_of_ones_own_format_is_replayed_and_summed_up() {
    let data = Data::new(&["web"]);
    let own = "[access_log]\nformat = '$msec \"$request\" $status $remote_addr $request_time'\n\
               [[field]]\nname = \"request_time\"\ntype = \"float\"\n\
               [[rule]]\nname = \"SLOW\"\nwhen = \"request_time > 1\"\nscore = 9\n";
    let config = data.file("own.toml", &format!("preset = \"web\"\n{own}"));
    let log: String = (0..30)
        .map(|at| format!("{}.5 \"GET /.env HTTP/1.1\" 404 192.0.2.7 2.5\n", 1_779_012_000 + at))
        .collect();
    let ran = run(["report-log", "--config", &config, "--json", "-"], &log).expect(0).json();
    assert_eq!((&ran[0]["requests"], &ran[0]["bad"]), (&30.into(), &0.into()));
    assert_eq!(ran[0]["sources"][0]["address"], "192.0.2.7");
    let ran = run(["replay", "--config", &config, "-"], &log).expect(0);
    assert!(ran.stdout.contains("192.0.2.7"), "{}", ran.stdout);
    std::fs::write(data.path().join("tollhouse.toml"), format!("preset = \"web\"\n{own}")).unwrap();
    let server = Server::start(&data.path(), &[]);
    let [docker, _] = in_containers(&log);
    for log in [&log, &docker] {
        let ran = run(["replay", "--server", &server.url, "-"], log).expect(0);
        assert!(ran.stdout.contains("192.0.2.7") && ran.stdout.contains("SLOW 30"), "{}", ran.stdout);
    }
    // `follow` reads what the server's pipeline reads.
    let file = data.file("own.log", &log);
    let follow = ["follow", "--server", &server.url, "--pipeline", "web", "--once", &file];
    let ran = run(follow, "").expect(0);
    assert!(ran.stdout.contains("SLOW") && ran.stderr.contains("30 events"), "{}{}", ran.stdout, ran.stderr);
}

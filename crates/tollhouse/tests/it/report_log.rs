//! The report of an access log: its lists, its HTML, and what strangers wrote in the log.

use crate::program::{Data, run};

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
    let ran = run(["replay", "--by-source", "-"], &log()).expect(1);
    assert!(ran.stdout.contains("Flagged addresses") && ran.stdout.contains("192.0.2.7"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("198.51.100.7"), "{}", ran.stdout);
    assert!(ran.stdout.lines().count() < 6, "{}", ran.stdout);
}

/// A jail is tried on yesterday's log before it bans anybody.
#[test]
fn the_log_of_a_program_is_replayed_by_the_patterns_of_its_pipeline() {
    let line = |ip: &str, second: u32, text: &str| {
        format!("2026-05-17T09:00:{second:02}+00:00 host sshd[7]: {text} from {ip} port 22 ssh2\n")
    };
    let failures = (0..9).map(|second| line("192.0.2.7", second, "Failed password for root"));
    let others = [
        line("198.51.100.7", 20, "Failed password for ann"),
        line("198.51.100.7", 21, "Accepted password for ann"),
        "2026-05-17T09:00:30+00:00 host cron[8]: nothing of interest\n".to_owned(),
    ];
    let log: String = failures.chain(others).collect();
    let by_source = ["replay", "--preset", "sshd", "--by-source", "-"];
    let ran = run(by_source, &log).expect(0);
    assert!(ran.stdout.contains("192.0.2.7") && ran.stdout.contains("FAILS_TOO_OFTEN"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("198.51.100.7"), "{}", ran.stdout);
    assert!(ran.stderr.contains("11 events in"), "{}", ran.stderr);
    assert!(ran.stderr.contains("1  lines are read by no pattern"), "{}", ran.stderr);
    // The first four are none too many.
    let ran = run(["replay", "--preset", "sshd", "--json", "--format", "log", "-"], &log).expect(0);
    let lines: Vec<u64> = ran.json().iter().map(|object| object["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [5, 6, 7, 8, 9]);
    let refused = run(["replay", "--format", "log", "-"], &log).expect(2);
    assert!(refused.stderr.contains("not logs of programs"), "{}", refused.stderr);
}

#[test]
fn an_access_log_is_replayed_from_a_containers_file_and_by_its_heading() {
    let wrapped: String = log()
        .lines()
        .map(|line| serde_json::json!({"log": format!("{line}\n"), "stream": "stdout"}).to_string() + "\n")
        .collect();
    let of_runtime: String =
        log().lines().map(|line| format!("2026-05-17T09:00:00.1Z stdout F {line}\n")).collect();
    let by_heading = "#Fields: date time c-ip cs-method cs-uri-stem sc-status\n".to_owned()
        + &"2026-05-17 09:00:00 192.0.2.7 GET /.env 404\n".repeat(30);
    for (log, code) in [(wrapped, 1), (of_runtime, 1), (by_heading, 0)] {
        let ran = run(["replay", "--by-source", "-"], &log).expect(code);
        assert!(ran.stdout.contains("192.0.2.7"), "{}", ran.stdout);
        assert!(!ran.stdout.contains("198.51.100.7"), "{}", ran.stdout);
    }
}

#[test]
fn an_access_log_of_ones_own_format_is_replayed_and_summed_up() {
    let data = Data::new(&["web"]);
    let config = "preset = \"web\"\n[access_log]\nformat = '$msec \"$request\" $status $remote_addr'\n";
    let config = data.file("own.toml", config);
    let log: String = (0..30)
        .map(|at| format!("{}.5 \"GET /.env HTTP/1.1\" 404 192.0.2.7\n", 1_779_012_000 + at))
        .collect();
    let ran = run(["report-log", "--config", &config, "--json", "-"], &log).expect(0).json();
    assert_eq!((&ran[0]["requests"], &ran[0]["bad"]), (&30.into(), &0.into()));
    assert_eq!(ran[0]["sources"][0]["address"], "192.0.2.7");
    let ran = run(["replay", "--config", &config, "--by-source", "-"], &log).expect(0);
    assert!(ran.stdout.contains("192.0.2.7"), "{}", ran.stdout);
}

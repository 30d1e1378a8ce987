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

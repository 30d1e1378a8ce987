//! Commands beside a server that runs on the same data directory.

use std::collections::HashSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::Signal;

use crate::program::{Data, Ran, Server, run};

/// A server that goes on deciding, with a segment closed every moment.
struct Busy {
    data: Data,
    server: Server,
    /// Decisions that were answered, and so are on disk.
    answered: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    client: thread::JoinHandle<()>,
}

impl Busy {
    fn start() -> Busy {
        let data = Data::new(&["web"]);
        let settings = ["ledger.durability=sync", "journal.segment=4KiB"];
        let args: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        let server = Server::start(&data.path(), &args);
        let (answered, stop): (Arc<Mutex<Vec<String>>>, Arc<AtomicBool>) = Default::default();
        let (url, ids, end) =
            (format!("{}/v1/decide?pipeline=web", server.url), Arc::clone(&answered), Arc::clone(&stop));
        let client = thread::spawn(move || {
            let agent = ureq::Agent::new_with_defaults();
            for number in 0.. {
                if end.load(Ordering::Relaxed) {
                    return;
                }
                let path = format!("/page/{number}/{}", "x".repeat(number % 300));
                let body = serde_json::json!({
                    "client.ip": format!("192.0.2.{}", number % 250),
                    "http.path": path, "http.method": "GET", "http.status": 200,
                });
                let answer =
                    agent.post(&url).header("Content-Type", "application/json").send(body.to_string());
                let text = answer.unwrap().into_body().read_to_string().unwrap();
                let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
                ids.lock().unwrap().push(answer["id"].as_str().unwrap().to_owned());
            }
        });
        let busy = Busy { data, server, answered, stop, client };
        busy.wait_for(20);
        busy
    }

    fn answered(&self) -> Vec<String> {
        self.answered.lock().unwrap().clone()
    }

    /// Waits until so many more are decided.
    fn wait_for(&self, more: usize) {
        let before = self.answered().len();
        while self.answered().len() < before + more {
            assert!(!self.client.is_finished(), "{}", self.server.said());
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    fn closed_segments(&self) -> usize {
        let files = fs::read_dir(self.data.path().join("journal")).unwrap();
        files
            .filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|it| it == "parquet"))
            .count()
    }

    fn end(self) -> Data {
        self.stop.store(true, Ordering::Relaxed);
        self.client.join().unwrap();
        assert_eq!(self.server.end(Signal::TERM), Some(0));
        self.data
    }
}

fn ids(ran: &Ran) -> HashSet<String> {
    let rows = ran.json();
    let ids: HashSet<String> = rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), rows.len(), "one is there twice");
    ids
}

#[test]
fn past_decisions_of_a_busy_server_are_read() {
    let busy = Busy::start();
    let closed = busy.closed_segments();
    for _ in 0..4 {
        let before = busy.answered();
        let ran = busy.data.run(&["export"], "").expect(0);
        assert!(!ran.stderr.contains("damaged") && !ran.stderr.contains("missing"), "{}", ran.stderr);
        let there = ids(&ran);
        let lost: Vec<&String> = before.iter().filter(|id| !there.contains(*id)).collect();
        assert!(lost.is_empty(), "{} of {} are not listed: {lost:?}", lost.len(), before.len());

        for id in [&before[0], &before[before.len() / 2], &before[before.len() - 1]] {
            let explained = busy.data.run(&["explain", "--json", id], "").expect(0).json().remove(0);
            assert_eq!(explained["id"].as_str(), Some(id.as_str()));
            assert!(explained["facts"]["http.path"].is_string(), "{explained}");
        }
        let judged = busy.data.run(&["backtest", "--json"], "").expect(0).json().remove(0);
        assert!(judged["rows"].as_u64().unwrap() >= before.len() as u64, "{judged}");
        busy.data.run(&["rules", "coverage", "--json"], "").expect(0);
        busy.wait_for(20);
    }
    // The thread that makes them columnar has a low priority, and the server is busy.
    let are_more = (0..1000).any(|_| {
        busy.wait_for(5);
        busy.closed_segments() > closed
    });
    assert!(are_more, "segments were closed meanwhile");
    let answered = busy.answered.clone();
    let data = busy.end();
    let there = ids(&data.run(&["export"], "").expect(0));
    assert_eq!(there, answered.lock().unwrap().iter().cloned().collect());
    data.run(&["verify"], "").expect(0);
}

/// The flags that a text names, each with the command that it names before it in the same quotation, if any.
fn flags(text: &str) -> Vec<(Option<Vec<String>>, String)> {
    let mut flags = Vec::new();
    for (part, quoted) in text.split('`').zip([false, true].into_iter().cycle()) {
        let words: Vec<&str> = part.split_whitespace().collect();
        let is_name = |word: &&&str| word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
        let command: Vec<String> = match words.split_first() {
            Some((&"tollhouse", rest)) if quoted => rest
                .iter()
                .take_while(is_name)
                .filter(|word| !word.starts_with('-'))
                .map(|it| (*it).to_owned())
                .collect(),
            _ => Vec::new(),
        };
        for word in words.iter().filter(|word| word.starts_with("--")) {
            let flag = word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
            let flag = flag.split('=').next().unwrap_or(flag);
            flags.push(((!command.is_empty()).then(|| command.clone()), flag.to_owned()));
        }
    }
    flags
}

#[test]
fn what_needs_the_directory_alone_says_what_to_do() {
    let data = Data::new(&["mail"]);
    let (events, backup) =
        (data.file("events", "{}\n"), data.file("backup", "v\t3\tdb_version\ns\ts\tab@sa_generated\n"));
    let statistics = data.file("statistics.ndjson", "");
    let target = data.path().with_file_name("copy").display().to_string();
    let server = Server::start(&data.path(), &[]);
    let refused: [&[&str]; 15] = [
        &["serve", "--listen", "127.0.0.1:0"],
        &["check", "-"],
        &["learn", "--class", "spam", "-"],
        &["feedback", "0000000000000", "spam"],
        &["replay", &events],
        &["stats", "from", "a@example.org"],
        &["top", "from"],
        &["export", "--ledger"],
        &["import", &statistics],
        &["import", "bayes", &backup, &events],
        &["erase", "--key", "from=a@example.org"],
        &["verify"],
        &["verify", "--repair"],
        &["snapshot", &target],
        &["rules", "versions"],
    ];
    for args in refused {
        let ran = data.run(args, "");
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("in use by another process"), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("stop the server"), "{args:?}: {}", ran.stderr);
        let words = if args[0] == "rules" || args.get(1) == Some(&"bayes") { 2 } else { 1 };
        let own: Vec<String> = args.iter().take(words).map(|it| (*it).to_owned()).collect();
        for (command, flag) in flags(&ran.stderr) {
            let command = command.unwrap_or_else(|| own.clone());
            let help = run(command.iter().map(String::as_str).chain(["--help"]), "").expect(0).stdout;
            let has = help.split_whitespace().any(|word| word.trim_end_matches(',') == flag);
            assert!(has, "{args:?} advises {flag}, which {command:?} does not have: {}", ran.stderr);
        }
    }
    assert_eq!(server.end(Signal::TERM), Some(0));
}

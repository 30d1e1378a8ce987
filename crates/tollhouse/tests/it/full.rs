//! A disk that is full while rows of the journal are to become columns. A limit on the size of the server's files stands for
//! it: as a full disk does, it lets a part of a file be written. The columns of even one row are longer than it, and all
//! else that is written meanwhile is shorter.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, prlimit};

use crate::program::{Data, MESSAGE, Server, run};

const FILE_BYTES_MAX: u64 = 64 << 10;
/// Room is looked for each minute.
const PATIENCE: Duration = Duration::from_secs(180);

fn limit(server: &Server, bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    prlimit(Some(server.pid()), Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(20));
    }
}

/// A figure of `/metrics`.
fn figure(server: &Server, name: &str) -> u64 {
    let page = ureq::get(format!("{}/metrics", server.url)).call().unwrap();
    let page = page.into_body().read_to_string().unwrap();
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name}: {page}")).parse().unwrap()
}

#[test]
fn rows_that_have_no_room_as_columns_become_them_once_there_is() {
    let data = Data::new(&["mail"]);
    let tiny = ["--set", "journal.segment=1KiB", "--set", "ledger.durability=sync"];
    let server = Server::start_limitable(&data.path(), &tiny);
    let mut ids = Vec::new();
    let mut decide = |times: usize| {
        for _ in 0..times {
            let decided = run(["check", "--json", "-", "--server", &server.url], MESSAGE).expect(0).json();
            ids.push(decided[0]["id"].as_str().unwrap().to_owned());
        }
        ids.clone()
    };
    let all_are_found = |ids: &[String]| {
        for id in ids {
            run(["explain", id, "--server", &server.url], "").expect(0);
        }
    };
    let files = |form: &str| {
        let entries = fs::read_dir(data.path().join("journal")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(form)).collect::<Vec<_>>()
    };

    limit(&server, Some(FILE_BYTES_MAX));
    decide(4);
    wait("it was never tried", || server.said().contains("File too large"));
    // It serves on, and nothing is left of what did not fit.
    all_are_found(&decide(2));
    wait("half a file stays", || files(".half").is_empty());
    assert_eq!(files(".parquet"), [""; 0]);
    assert_eq!(
        (figure(&server, "tollhouse_journal_columnar"), figure(&server, "tollhouse_journal_full")),
        (0, 0)
    );

    limit(&server, None);
    let newest_alone = || {
        let segments = figure(&server, "tollhouse_journal_segments");
        segments > 1 && figure(&server, "tollhouse_journal_columnar") == segments - 1
    };
    wait("it was not tried again", newest_alone);
    let ids = decide(1);
    all_are_found(&ids);
    assert_eq!(server.end(Signal::TERM), Some(0));
    let found = data.run(&["verify", "--json"], "").expect(0).json().remove(0);
    assert_eq!((&found["sound"], &found["records"]), (&true.into(), &ids.len().into()), "{found}");
}

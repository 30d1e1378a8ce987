//! Tables outlive files, replicas and moves.

use std::time::{Duration, Instant};

use redis::cmd;

use crate::servers::wait;
use crate::support::{Random, TABLES, connect, digest, fill, server, work};

#[test]
fn tables_outlive_a_restart_from_a_snapshot() {
    let Some((mut server, _directory)) = server(&[]) else { return };
    let mut connection = connect(&server);
    work(&mut connection, &mut Random(1), 1..40);
    let before = digest(&mut connection);
    cmd("DEBUG").arg("RELOAD").exec(&mut connection).unwrap();
    assert_eq!(digest(&mut connection), before);
    cmd("SAVE").exec(&mut connection).unwrap();
    server.signal("KILL");
    server.again();
    let mut connection = connect(&server);
    assert_eq!(digest(&mut connection), before);
    // They go on as if nothing had been.
    work(&mut connection, &mut Random(2), 40..60);
}

/// A server that takes a second for each key that it loads, and is killed in the course of it.
#[test]
fn a_server_that_is_killed_while_it_loads_has_lost_nothing() {
    let Some((mut server, _directory)) = server(&["--key-load-delay", "1000000"]) else { return };
    let mut connection = connect(&server);
    work(&mut connection, &mut Random(6), 1..40);
    let before = digest(&mut connection);
    cmd("SAVE").exec(&mut connection).unwrap();
    let keys: u64 = cmd("DBSIZE").query(&mut connection).unwrap();
    let mut killed = 0;
    for round in 1..4 {
        server.signal("KILL");
        let begun = Instant::now();
        server.begin();
        std::thread::sleep(Duration::from_millis(700 * round));
        server.signal("KILL");
        killed += u32::from(begun.elapsed() < Duration::from_secs(keys));
    }
    assert!(killed > 0, "it had the time for all {keys} keys each time");
    server.again();
    let mut connection = connect(&server);
    assert_eq!(digest(&mut connection), before);
    work(&mut connection, &mut Random(7), 40..60);
}

#[test]
fn tables_outlive_a_restart_from_the_log_of_commands() {
    for preamble in ["no", "yes"] {
        let options = ["--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", preamble];
        let Some((mut server, _directory)) = server(&options) else { return };
        let mut connection = connect(&server);
        work(&mut connection, &mut Random(1), 1..40);
        for is_rewritten in [false, true] {
            if is_rewritten {
                cmd("BGREWRITEAOF").exec(&mut connection).unwrap();
                let is_done = || {
                    let info = server.cli(&["INFO", "persistence"]);
                    info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
                };
                wait("the log is rewritten", is_done);
                work(&mut connection, &mut Random(3), 40..50);
            }
            let before = digest(&mut connection);
            server.signal("KILL");
            server.again();
            connection = connect(&server);
            assert_eq!(digest(&mut connection), before, "{preamble} {is_rewritten}");
        }
    }
}

#[test]
fn a_replica_has_the_same_tables() {
    let Some((master, _directory)) = server(&[]) else { return };
    let mut connection = connect(&master);
    let mut random = Random(5);
    work(&mut connection, &mut random, 1..20);
    let port = master.port.to_string();
    let Some((replica, _other)) = server(&["--replicaof", &format!("127.0.0.1 {port}")]) else { return };
    wait("the replica follows", || replica.cli(&["INFO", "replication"]).contains("master_link_status:up"));
    work(&mut connection, &mut random, 20..60);
    let confirmed: u64 = cmd("WAIT").arg(1).arg(20_000).query(&mut connection).unwrap();
    assert_eq!(confirmed, 1);
    assert_eq!(digest(&mut connect(&replica)), digest(&mut connection));
}

#[test]
fn tables_are_moved_copied_measured_and_let_go() {
    let Some((server, _directory)) = server(&[]) else { return };
    let mut connection = connect(&server);
    work(&mut connection, &mut Random(4), 1..80);
    let of = |connection: &mut redis::Connection, key: &str| -> String {
        let mut all: Vec<String> = cmd("DEBUG").arg("DIGEST-VALUE").arg(key).query(connection).unwrap();
        all.remove(0)
    };
    let table = TABLES[0];
    let before = of(&mut connection, table);
    let payload: Vec<u8> = cmd("DUMP").arg(table).query(&mut connection).unwrap();
    cmd("RESTORE").arg("restored").arg(0).arg(payload).exec(&mut connection).unwrap();
    cmd("COPY").arg(table).arg("copied").exec(&mut connection).unwrap();
    assert_eq!([of(&mut connection, "restored"), of(&mut connection, "copied")], [before.clone(), before]);
    let bytes: u64 = cmd("MEMORY").arg("USAGE").arg(table).query(&mut connection).unwrap();
    assert!((1000..1_000_000).contains(&bytes), "{bytes}");
    // A copy is one of its own.
    work(&mut connection, &mut Random(6), 80..90);
    assert_ne!(of(&mut connection, "copied"), of(&mut connection, table));
    let kind: String = cmd("TYPE").arg(table).query(&mut connection).unwrap();
    assert_eq!(kind, "tollcells");
    let memory = |connection: &mut redis::Connection| -> u64 {
        let info: String = cmd("INFO").arg("memory").query(connection).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        line.trim().parse().unwrap()
    };
    let held = memory(&mut connection);
    cmd("UNLINK").arg("restored").arg("copied").exec(&mut connection).unwrap();
    wait("memory is the server's again", || memory(&mut connection) + bytes < held);
}

/// Half of what lay in memory is let go, so that what stays lies scattered. Another server does the same and moves nothing.
#[test]
fn tables_are_moved_in_memory_while_they_are_used() {
    // It looks at one database after another.
    let Some((server, _directory)) = server(&["--databases", "1"]) else { return };
    let mut connection = connect(&server);
    let set = |connection: &mut redis::Connection, name: &str, value: &str| -> redis::RedisResult<()> {
        cmd("CONFIG").arg("SET").arg(name).arg(value).exec(connection)
    };
    if let Err(error) = set(&mut connection, "activedefrag", "yes") {
        println!(
            "skipped: tables are moved in memory: {error} (scripts/module-checks builds a server that can)"
        );
        return;
    }
    set(&mut connection, "activedefrag", "no").unwrap();
    let Some((still, _other)) = crate::support::server(&[]) else { return };
    let mut other = connect(&still);
    let both = |connection: &mut redis::Connection, numbers: std::ops::Range<u64>| {
        work(connection, &mut Random(numbers.start), numbers);
    };
    for connection in [&mut connection, &mut other] {
        fill(connection, &mut Random(8), 1..120);
        both(connection, 120..160);
        cmd("UNLINK").arg("let go 1").arg("let go 2").exec(connection).unwrap();
    }
    for (name, value) in [
        ("active-defrag-ignore-bytes", "1"),
        ("active-defrag-threshold-lower", "1"),
        // So little time that a table is gone through in parts.
        ("active-defrag-cycle-min", "1"),
        ("active-defrag-cycle-max", "2"),
        ("activedefrag", "yes"),
    ] {
        set(&mut connection, name, value).unwrap();
    }
    let figure = |section: &str, name: &str| -> u64 {
        let info = server.cli(&["INFO", section]);
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
    };
    let mut next = 160;
    wait("much was moved", || {
        for connection in [&mut connection, &mut other] {
            both(connection, next..next + 5);
        }
        next += 5;
        figure("stats", "active_defrag_hits") > 1000
    });
    println!(
        "{} pieces were moved, {} were not",
        figure("stats", "active_defrag_hits"),
        figure("stats", "active_defrag_misses")
    );
    assert_eq!(digest(&mut connection), digest(&mut other));
}

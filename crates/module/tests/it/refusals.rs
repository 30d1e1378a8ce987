//! Requests and tables from outside: what is none is refused, and never ends the server.

use redis::{Value, cmd};

use crate::support::{Random, TABLES, call, connect, digest, server, work};

/// The checksum of dumps: CRC-64 with Jones' polynomial, reflected.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0u64, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { 0x95ac_9329_ac4b_c9b5 } else { 0 }
        })
    })
}

fn signed(mut body: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&body);
    body.extend_from_slice(&sum.to_le_bytes());
    body
}

#[test]
fn a_torn_table_is_refused() {
    assert_eq!(checksum(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    let Some((server, _directory)) = server(&["--rdbcompression", "no"]) else { return };
    let mut connection = connect(&server);
    work(&mut connection, &mut Random(1), 1..30);
    let mut payload: Vec<u8> = cmd("DUMP").arg(TABLES[0]).query(&mut connection).unwrap();
    payload.truncate(payload.len() - 8);
    let mut restore = |body: Vec<u8>| -> Result<(), redis::RedisError> {
        cmd("RESTORE").arg("torn").arg(0).arg(signed(body)).arg("REPLACE").exec(&mut connection)
    };
    restore(payload.clone()).unwrap();
    let mut random = Random(2);
    let mut refused = 0;
    for round in 0..1500 {
        let mut body = payload.clone();
        // The version of dumps stays at the end.
        let end = body.len() - 2;
        match round % 4 {
            0 => drop(body.drain(random.below(end as u64) as usize..end)),
            1 => body[random.below(200) as usize] ^= 1 << random.below(8),
            2 => {
                let at = random.below(end as u64) as usize;
                body[at] = random.below(256) as u8;
            }
            _ => {
                let (from, to) = (random.below(end as u64) as usize, random.below(end as u64) as usize);
                body.copy_within(from.min(to)..from.max(to), from.min(end - from.abs_diff(to)));
            }
        }
        refused += usize::from(restore(body).is_err());
    }
    assert!(refused > 500, "{refused}");
    // Whatever was taken can be used.
    let _: Value = cmd("DEBUG").arg("DIGEST").query(&mut connection).unwrap();
    work(&mut connection, &mut random, 30..40);
}

#[test]
fn a_bad_request_changes_nothing() {
    let Some((server, _directory)) = server(&[]) else { return };
    let mut connection = connect(&server);
    work(&mut connection, &mut Random(1), 1..20);
    cmd("SET").arg("text").arg("value").exec(&mut connection).unwrap();
    cmd("LPUSH").arg("list").arg("value").exec(&mut connection).unwrap();
    let before = digest(&mut connection);
    let mut refused = |name: &str, keys: &[&str], request: &[u8], expected: &str| {
        let answer: Result<Value, _> = call(name, keys, request).query(&mut connection);
        let said = answer.expect_err(name).to_string();
        assert!(said.contains(expected), "{name} {keys:?}: {said}");
    };
    let names = ["READ", "CELLS", "WRITE", "CLAIM", "TAKE", "SWEEP", "SCAN", "REMOVE", "LOAD"];
    for name in names.map(|name| format!("TOLLHOUSE.{name}")) {
        let keys = [&["number", "writer"][..], &TABLES].concat();
        refused(&name, &keys, b"", "torn");
        refused(&name, &keys, b"\x02", "of another version");
        refused(&name, &["a", "b", "a"], b"\x01", "names a key twice");
        refused(&name, &[], b"\x01", "too few or too many keys");
        let mut random = Random(3);
        for length in 1..300u64 {
            let mut request: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
            request[0] = 1;
            // Most are refused; what is not does nothing, as it names no form.
            let _: Result<Value, _> = call(&name, &keys[2..], &request).query(&mut connection_of(&server));
        }
    }
    refused("TOLLHOUSE.SCAN", &["text"], &cells::request::scan(&[], 5), "WRONGTYPE");
    refused("TOLLHOUSE.SCAN", &["list"], &cells::request::scan(&[], 5), "WRONGTYPE");
    let empty = cells::request::RequestWriter::default().finish();
    refused("TOLLHOUSE.READ", &["list", "writer"], &empty, "WRONGTYPE");
    refused("TOLLHOUSE.READ", &[TABLES[0], "writer"], &empty, "WRONGTYPE");
    assert_eq!(digest(&mut connection), before);
}

fn connection_of(server: &crate::servers::Server) -> redis::Connection {
    connect(server)
}

#[test]
fn a_server_without_memory_takes_no_more_and_answers() {
    let Some((server, _directory)) = server(&[]) else { return };
    let mut connection = connect(&server);
    work(&mut connection, &mut Random(1), 1..20);
    cmd("CONFIG").arg("SET").arg("maxmemory").arg(1).exec(&mut connection).unwrap();
    for name in ["WRITE", "CLAIM", "TAKE", "LOAD"] {
        let answer: Result<Value, _> =
            call(&format!("TOLLHOUSE.{name}"), &["a", "b"], b"").query(&mut connection);
        assert_eq!(answer.unwrap_err().code(), Some("OOM"), "{name}");
    }
    let empty = cells::request::RequestWriter::default().finish();
    let _: Value = call("TOLLHOUSE.READ", &["number", "writer"], &empty).query(&mut connection).unwrap();
    let swept: Vec<i64> =
        call("TOLLHOUSE.SWEEP", &[TABLES[0]], &cells::request::sweep(event::Time(i64::MAX - 1), 9999))
            .query(&mut connection)
            .unwrap();
    assert!(swept[1] > 0, "{swept:?}: all has expired by the server's clock");
}

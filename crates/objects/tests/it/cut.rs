//! Uploads and reads over connections that break off.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use event::{Slot, Span, Value};
use journal::{Options, Record};
use objects::{BucketFilter, BucketJournal, ObjectBucket, ObjectError};

use crate::moto_server::Moto;
use crate::support::*;

/// Connections to a server of which every third ends after some bytes, in whichever direction they go.
struct CuttingProxy {
    port: u16,
    /// The number of connections that were cut while something was on its way.
    cuts: Arc<AtomicU64>,
}

impl CuttingProxy {
    fn start(server: u16) -> CuttingProxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (port, cuts) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&cuts);
        std::thread::spawn(move || {
            for (number, client) in (0u64..).zip(listener.incoming()) {
                let Ok(client) = client else { return };
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { return };
                // From within the head of a request to behind the first part of a large file.
                let drawn = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                let allowed = if number % 3 == 1 { 1 << (drawn % 24) } else { u64::MAX };
                let budget = Arc::new(AtomicU64::new(allowed));
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (budget, cuts) = (Arc::clone(&budget), Arc::clone(&counted));
                    std::thread::spawn(move || pass(from, to, &budget, &cuts));
                }
            }
        });
        CuttingProxy { port, cuts }
    }
}

/// Hands on what comes, as long as the connection may.
fn pass(mut from: TcpStream, mut to: TcpStream, budget: &AtomicU64, cuts: &AtomicU64) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let before = budget.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
            (left > 0).then(|| left.saturating_sub(count as u64))
        });
        let sent = before.map_or(0, |left| count.min(left as usize));
        if to.write_all(&bytes[..sent]).is_err() {
            break;
        }
        if sent < count {
            cuts.fetch_add(1, Ordering::Relaxed);
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[test]
fn connections_that_break_off_lose_and_double_nothing() {
    const INSIDE: &str = "TOLLHOUSE_TEST_CUT";
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let Some(moto) = Moto::start() else { return };
    let proxy = CuttingProxy::start(moto.port);
    moto.run_again_through(proxy.port, "cut::connections_that_break_off_lose_and_double_nothing", INSIDE);
    let cuts = proxy.cuts.load(Ordering::Relaxed);
    println!("{cuts} connections were cut");
    assert!(cuts >= 20, "{cuts}");
}

/// Appends decisions that a segment of them does not fit in one part of an upload.
fn fill_with_large(journal: &journal::Journal, node: u64, count: u64) {
    let mut random = node;
    let mut letter = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + (random >> 58) as u8)
    };
    for number in 0..count {
        let (id, time, mut record) = decision(node, number, "mail");
        let Record::Decision(row) = &mut record else { unreachable!() };
        let text: String = (0..20_000).map(|_| letter()).collect();
        row.facts.set(Slot(0), Value::from(text));
        pollster::block_on(journal.append(&[(id, time, record)])).unwrap();
    }
}

/// The number of records that a read finds.
fn records_found(bucket: &ObjectBucket) -> Result<u64, ObjectError> {
    let mut count = 0;
    let journal = BucketJournal::open(bucket, &BucketFilter::default())?;
    let skipped = journal.archive().scan(|_, _| {
        count += 1;
        true
    })?;
    assert!(skipped.is_empty(), "{skipped}");
    Ok(count)
}

fn inside() {
    const SMALL: u64 = 3000;
    const LARGE: u64 = 1200;
    let parent = tempfile::tempdir().unwrap();
    let to = ObjectBucket::open("s3://tollhouse/cut").unwrap();
    let small = open(&parent.path().join("small"));
    fill(&small, 1, 0..SMALL);
    let large = Options { segment: 1 << 26, rotate: Span::hours(2), ..options() };
    let large = open_with(&parent.path().join("large"), large);
    fill_with_large(&large, 2, LARGE);
    let now = START + Span::hours(6);
    let uploaders = [upload(&small, &to, "small", now), upload(&large, &to, "large", now)];
    wait_for_uploads(&small);
    wait_for_uploads(&large);
    drop(uploaders);
    // Who reads gets all of it or an error, and never what is between.
    let (mut whole, mut failed) = (0, 0);
    while whole < 20 {
        match records_found(&to) {
            Ok(count) => {
                assert_eq!(count, SMALL + LARGE);
                whole += 1;
            }
            Err(error) => {
                failed += 1;
                assert!(failed < 400, "{error}");
            }
        }
    }
    println!("{failed} of {} reads failed", failed + whole);
    assert_all(&to, &[(1, SMALL), (2, LARGE)]);
}

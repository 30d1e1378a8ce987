//! Tokens that are used once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::{Engine, UseResult};
use event::{Span, Time};
use pollster::block_on;

use crate::limits::{START, engine};

fn at(seconds: i64) -> Time {
    START + Span::seconds(seconds)
}

#[test]
fn a_token_is_used_once_for_each_purpose_until_it_expires() {
    let engine = engine("");
    let check = |purpose: &str, token: &[u8], expires: i64, now: i64, result: UseResult| {
        let told = block_on(engine.use_once(purpose, token, at(expires), at(now)));
        assert_eq!(told, result, "{purpose} {token:?} until {expires} at {now}");
    };
    check("nonce", b"one", 60, 0, UseResult::First);
    check("nonce", b"one", 60, 0, UseResult::Again);
    check("nonce", b"one", 60, 59, UseResult::Again);
    // A clock that was put back, or another node's, gives nobody a second use; nor does another time of expiry.
    check("nonce", b"one", 60, -600, UseResult::Again);
    check("nonce", b"one", 120, 1, UseResult::Again);
    check("nonce", b"two", 60, 1, UseResult::First);
    check("challenge", b"one", 60, 1, UseResult::First);
    // No two pairs of purpose and token are the same bytes.
    check("challengeo", b"ne", 60, 1, UseResult::First);
    check("challenge", b"", 60, 1, UseResult::First);
    check("", b"challenge", 60, 1, UseResult::First);
    // What has expired was used, whether it was or not, and so was what is to be remembered for longer than anything is.
    check("nonce", b"late", 60, 60, UseResult::Again);
    check("nonce", b"late", 60, 61, UseResult::Again);
    check("nonce", b"far", i64::MAX / 1_000_000, 0, UseResult::Again);
    // Expired long ago and signed anew, it is another token of the same bytes.
    check("nonce", b"one", 10_060, 10_000, UseResult::First);
}

#[test]
fn of_many_uses_at_the_same_time_one_is_the_first() {
    const THREADS: usize = 8;
    let engine: Engine = engine("");
    let (firsts, start) = (AtomicUsize::new(0), Barrier::new(THREADS));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                for token in 0..500u32 {
                    let told = block_on(engine.use_once("nonce", &token.to_le_bytes(), at(60), at(0)));
                    firsts.fetch_add(usize::from(told == UseResult::First), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(firsts.into_inner(), 500);
}

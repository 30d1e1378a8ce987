//! The cost of a challenge that comes back, in microseconds: to open it, to verify it, and what verifying takes beside the
//! derivation of the key.
//!
//! `cargo bench -p tollhouse-gate --bench challenge`
//!
//! Derivations of 1,000 and of 7,500 iterations tell what an iteration costs, and so what is left without any.

use std::hint::black_box;
use std::time::Instant;

use altcha::{Challenge, Payload, SolveChallengeOptions, solve_challenge};
use data_encoding::BASE64;
use event::{Secret, Span, Time};
use gate::challenge::{ChallengeAlgorithm, ChallengeTerms, issue, open};
use gate::keyring::Keyring;

const NOON: Time = Time(1_790_000_000_000_000);

/// The solution of a challenge that takes one try, as a client sends it.
fn solved(keys: &Keyring, units: f64) -> Vec<u8> {
    let terms = ChallengeTerms {
        algorithm: ChallengeAlgorithm::Pbkdf2,
        cost: units,
        purpose: "site",
        visitor: 42,
        decision: "1m84jxhe40000",
        reason: 3,
        issued: NOON,
        lifetime: Span::minutes(10),
    };
    let challenge: Challenge =
        serde_json::from_str(&issue(keys, &terms).expect("short terms")).expect("JSON");
    let solution = solve_challenge(SolveChallengeOptions::new(&challenge)).expect("a hash").expect("in time");
    BASE64.encode(&serde_json::to_vec(&Payload { challenge, solution }).expect("JSON")).into_bytes()
}

/// Microseconds of one of many rounds: the least of five tries, which other work on the machine has disturbed least.
fn timed(rounds: u32, work: impl Fn()) -> f64 {
    let tries = (0..5).map(|_| {
        let begun = Instant::now();
        (0..rounds).for_each(|_| work());
        begun.elapsed().as_secs_f64() * 1e6 / f64::from(rounds)
    });
    tries.fold(f64::INFINITY, f64::min)
}

fn main() {
    // As a test it only shows that it runs.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let rounds = if is_bench { 4000 } else { 2 };
    let keys = Keyring::new(Secret::new([7; Secret::BYTES]));
    let [light, heavy] = [1.0, 7.5].map(|units| solved(&keys, units));
    let opened = timed(rounds, || assert!(open(&keys, black_box(&light), NOON).is_ok()));
    let [light, heavy] = [light, heavy].map(|payload| {
        let opened = open(&keys, &payload, NOON).expect("issued here");
        timed(rounds, || assert!(black_box(&opened).is_solved()))
    });
    let thousand = (heavy - light) / 6.5;
    println!("opened: {opened:.2} us");
    println!("verified, 1,000 iterations: {light:.2} us, of which the derivation {thousand:.2}");
    println!("both beside the derivation: {:.2} us", opened + light - thousand);
}

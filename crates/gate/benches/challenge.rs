//! The cost of a challenge that comes back, in microseconds: to open it, to verify it, and what verifying takes beside the
//! derivation of the key.
//!
//! `cargo bench -p tollhouse-gate --bench challenge`
//!
//! The derivation is one try of a client: the time to solve the challenge, which is one of the least work, over its tries.

use std::hint::black_box;
use std::time::Instant;

use altcha::{Challenge, Payload, SolveChallengeOptions, solve_challenge};
use data_encoding::BASE64;
use event::{Secret, Span, Time};
use gate::challenge::{ChallengeAlgorithm, ChallengeTerms, issue, open};
use gate::keyring::Keyring;

const NOON: Time = Time(1_790_000_000_000_000);

/// The solution of a challenge of the least work, as a client sends it.
fn solved(keys: &Keyring) -> Vec<u8> {
    let terms = ChallengeTerms {
        algorithm: ChallengeAlgorithm::Pbkdf2,
        cost: 1.0,
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

/// Microseconds of each of some works: the least of many tries, which other work on the machine has disturbed least. The works take
/// turns, so that all are tried while the machine is as fast.
fn timed<const N: usize>(rounds: u32, works: [&dyn Fn(); N]) -> [f64; N] {
    let mut least = [f64::INFINITY; N];
    for _ in 0..40 {
        for (least, work) in least.iter_mut().zip(works) {
            let begun = Instant::now();
            (0..rounds).for_each(|_| work());
            *least = least.min(begun.elapsed().as_secs_f64() * 1e6 / f64::from(rounds));
        }
    }
    least
}

fn main() {
    // As a test it only shows that it runs.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let rounds = if is_bench { 200 } else { 1 };
    let keys = Keyring::new(Secret::new([7; Secret::BYTES]));
    let solved = solved(&keys);
    let payload: Payload = serde_json::from_slice(&BASE64.decode(&solved).expect("base64")).expect("JSON");
    let first_opened = open(&keys, &solved, NOON).expect("issued here");
    let [opened, verified, solved] = timed(
        rounds,
        [
            &|| assert!(open(&keys, black_box(&solved), NOON).is_ok()),
            &|| assert!(black_box(&first_opened).is_solved()),
            &|| {
                let options = SolveChallengeOptions::new(black_box(&payload.challenge));
                assert!(solve_challenge(options).is_ok_and(|solution| solution.is_some()));
            },
        ],
    );
    let derived = solved / (payload.solution.counter + 1) as f64;
    println!("opened: {opened:.1} us");
    let iterations = payload.challenge.parameters.cost;
    println!("verified, {iterations} iterations: {verified:.1} us, of which the derivation {derived:.1}");
    println!("both beside the derivation: {:.1} us", opened + verified - derived);
}

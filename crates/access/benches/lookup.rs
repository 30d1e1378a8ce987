//! The cost of finding a token among 10,000: nanoseconds for one that is known, and for one that is not.
//!
//! `cargo bench -p tollhouse-access --bench lookup`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use access::{ScopeSet, TokenGrant, TokenSecret, TokenTable};
use event::Time;

fn tokens(count: u32) -> Vec<TokenSecret> {
    let token = |number: u32| {
        let mut bytes = [7; 32];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        TokenSecret::of_bytes(bytes)
    };
    (0..count).map(token).collect()
}

fn main() {
    // As a test it only shows that it runs.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (count, rounds) = if is_bench { (10_000, 50) } else { (100, 1) };
    let secrets = tokens(2 * count);
    let (known, unknown) = secrets.split_at(count as usize);
    let mut table = TokenTable::default();
    for (secret, number) in known.iter().zip(0..) {
        let grant = TokenGrant::new(format!("token-{number}"), ScopeSet::ALL, Vec::new());
        table.add(secret.digest(), Some(Time(i64::MAX)), &Arc::new(grant));
    }
    for (name, asked, is_known) in [("known", known, true), ("unknown", unknown, false)] {
        let begun = Instant::now();
        for _ in 0..rounds {
            for secret in asked {
                let found = black_box(table.find(black_box(secret.text().as_bytes()), Time(0)));
                assert_eq!(found.is_ok(), is_known);
            }
        }
        let each = begun.elapsed().as_nanos() / u128::from(rounds * count);
        println!("{name} among {count}: {each} ns");
    }
}

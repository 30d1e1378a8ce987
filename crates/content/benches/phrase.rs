//! Cost of sets of phrases: compiling, memory, searching.
//!
//! `cargo bench -p tollhouse-content --bench phrase`

use std::time::Instant;

use content::text::obfuscation::normalise;
use content::text::phrase::{PhraseSet, parse};
use event::Time;

/// Words that nobody has, as long as words are.
fn word(mut number: u64) -> String {
    number = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let letters = 3 + number % 7;
    let letter = |place: u64| char::from(b'a' + ((number >> (8 + 5 * place)) % 26) as u8);
    (0..letters).map(letter).collect()
}

fn main() {
    // Under test, only whether it runs.
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let (sizes, rounds): (&[u64], u32) = if is_bench { (&[1_000, 10_000, 100_000], 40) } else { (&[100], 1) };
    let classes = ["a".to_owned()];
    let text: String = (0..50_000).map(|i| word(i * 7) + " ").collect();
    let text = normalise(&text);
    println!("{:>9} {:>12} {:>10} {:>10} {:>8}", "phrases", "compiled in", "automaton", "searched", "found");
    for &size in sizes {
        let phrase = |i: u64| format!("a\t1\t{} {}\n", word(i * 3), word(i * 5 + 1));
        let single = |i: u64| format!("a\t1\t{}\n", word(i));
        let file: String = (0..size).map(|i| if i % 4 == 0 { single(i) } else { phrase(i) }).collect();
        let start = Instant::now();
        let set = PhraseSet::new(parse(&file, &classes).expect("entries"), 1, true).expect("a set");
        let compiled = start.elapsed();
        let start = Instant::now();
        let found = (0..rounds).map(|_| set.search([text.as_str()], Time::EPOCH).count()).max();
        let seconds = start.elapsed().as_secs_f64() / f64::from(rounds);
        println!(
            "{:>9} {:>9.0} ms {:>6.1} MB {:>5.0} MB/s {:>8}",
            set.len(),
            compiled.as_secs_f64() * 1e3,
            set.heap_bytes() as f64 / 1e6,
            text.len() as f64 / seconds / 1e6,
            found.unwrap_or_default(),
        );
    }
}

//! Cost of a look-up in a large table: nanoseconds, and seconds to read the table.
//!
//! `cargo bench -p tollhouse-judge --bench lookup`. Ten million entries and random keys, so that hardly a line of the
//! processor's caches helps. Under `cargo test --benches` it runs small.

use std::fmt::Write;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use judge::{LookupTable, SetType};

/// The next number of a sequence that is spread evenly (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// An address in the space that is given out for the public Internet.
fn v6(random: u64, low: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(
        (0x2000 | u128::from(random & 0x1fff)) << 112 | u128::from(random >> 16) << 64 | u128::from(low),
    )
}

/// Lines of a table, each of which `key` begins; those of equal keys have equal values.
fn text(entries: u64, key: impl Fn(&mut String, u64)) -> String {
    let mut text = String::new();
    let mut state = 1;
    for _ in 0..entries {
        let random = next(&mut state);
        let start = text.len();
        key(&mut text, random);
        let value = text[start..].bytes().map(u32::from).sum::<u32>() % 200;
        writeln!(text, "\tvalue {value}").expect("a text can be written to");
    }
    text
}

fn measure<K: Copy>(
    what: &str,
    kind: SetType,
    text: &str,
    keys: &[K],
    find: impl Fn(&LookupTable, K) -> bool,
) {
    let start = Instant::now();
    let table = LookupTable::read(kind, '\t', text).unwrap_or_else(|errors| panic!("{what}: {errors:?}"));
    let read = start.elapsed().as_secs_f64();
    let round = || {
        let start = Instant::now();
        let found = keys.iter().filter(|key| black_box(find(&table, **key))).count();
        (start.elapsed().as_secs_f64() / keys.len() as f64, found)
    };
    let rounds: Vec<(f64, usize)> = (0..5).map(|_| round()).collect();
    let best = rounds.iter().map(|(seconds, _)| *seconds).fold(f64::INFINITY, f64::min);
    println!(
        "{:>9.1} ns  {what}: {} entries read in {read:.1} s, {} % found",
        best * 1e9,
        table.len(),
        rounds[0].1 * 100 / keys.len()
    );
}

fn main() {
    let small = !std::env::args().any(|arg| arg == "--bench");
    let (entries, lookups) = if small { (1_000, 1_000) } else { (10_000_000, 1_000_000) };
    let mut state = 2;
    let keys: Vec<u64> = (0..lookups).map(|_| next(&mut state)).collect();

    let networks = text(entries, |text, random| {
        let (address, prefix) = (Ipv4Addr::from_bits(random as u32), 20 + (random >> 32) % 13);
        let mask = u32::MAX << (32 - prefix);
        write!(text, "{}/{prefix}", Ipv4Addr::from_bits(address.to_bits() & mask))
            .expect("a text can be written to");
    });
    measure("IPv4 networks", SetType::Ip, &networks, &keys, |table, key| {
        table.find_ip(IpAddr::V4(Ipv4Addr::from_bits(key as u32))).is_some()
    });

    let networks = text(entries, |text, random| {
        let prefix = 32 + (random >> 59);
        let mask = u128::MAX << (128 - prefix);
        let network = Ipv6Addr::from_bits(v6(random, 0).to_bits() & mask);
        write!(text, "{network}/{prefix}").expect("a text can be written to");
    });
    measure("IPv6 networks", SetType::Ip, &networks, &keys, |table, key| {
        table.find_ip(IpAddr::V6(v6(key, key))).is_some()
    });

    let names = text(entries, |text, random| {
        write!(text, "{:x}.{}.example", random >> 40, random % 5_000).expect("a text can be written to");
    });
    let asked: Vec<String> =
        keys.iter().map(|key| format!("www.{:x}.{}.example", key >> 40, key % 5_000)).collect();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    measure("domain names", SetType::Domain, &names, &asked, |table, name| table.find_str(name).is_some());

    let texts = text(entries, |text, random| {
        write!(text, "{random}").expect("a text can be written to");
    });
    let mut state = 1;
    let asked: Vec<String> = keys.iter().map(|key| (next(&mut state) ^ (key & 1)).to_string()).collect();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    measure("texts", SetType::String, &texts, &asked, |table, text| table.find_str(text).is_some());
}

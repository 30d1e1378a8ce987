//! The cost of a key: of one field, of two fields by themselves, and of both together.
//!
//! `cargo bench -p tollhouse-content --bench piece`

use std::hint::black_box;
use std::time::Instant;

use content::composite;
use content::piece::{self, Normalisation};
use event::{Secret, Value};

fn main() {
    // Under test, only whether it runs.
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let rounds: u32 = if is_bench { 2_000_000 } else { 100 };
    let secret = Secret::new([7; Secret::BYTES]);
    let (user, device) =
        (Value::from("ann@example.com"), Value::from("4f0c2a77-5b1e-4d7e-9a53-0f6f5c1f2f11"));
    let address = Value::Ip([198, 51, 100, 7].into());
    let measure = |name: &str, work: &dyn Fn() -> u64| {
        let started = Instant::now();
        let sum = (0..rounds).fold(0, |sum: u64, _| sum.wrapping_add(black_box(work())));
        black_box(sum);
        println!("{name:<28} {:>7.1} ns", started.elapsed().as_secs_f64() * 1e9 / f64::from(rounds));
    };
    let single = |value: &Value| {
        let mut shingle = 0;
        piece::pieces(black_box(value), Normalisation::Exact, &mut |piece| {
            shingle ^= secret.shingle(piece.as_bytes()).0;
        });
        shingle
    };
    let together = |values: &[&Value]| {
        let mut shingle = 0;
        let values = values.iter().map(|value| (Some(black_box(*value)), Normalisation::Exact));
        composite::pieces(values, &mut |piece| shingle ^= secret.shingle(piece.as_bytes()).0);
        shingle
    };
    measure("user", &|| single(&user));
    measure("device", &|| single(&device));
    measure("address", &|| single(&address));
    measure("user, device: two keys", &|| single(&user) ^ single(&device));
    measure("user, device: one key", &|| together(&[&user, &device]));
    measure("user, address: two keys", &|| single(&user) ^ single(&address));
    measure("user, address: one key", &|| together(&[&user, &address]));
}

//! Any bytes are a unit that a family of messages repeats: reading one costs no more than a message of its size may, and the
//! search is led to units that cost more for each byte.
//!
//! The first byte chooses the family. How many steps a byte cost, in powers of the fourth root of two, is told to the fuzzer as
//! coverage: a unit that reaches more is kept and built on.
#![no_main]

use std::sync::LazyLock;

use content::budget::{Budget, Cancellation, STEPS_A_BYTE, STEPS_MIN};
use content::mail::message::{self, EnvelopeColumns, MailColumns};
use content::worst_case::FAMILIES;
use event::{Schema, SchemaBuilder};
use libfuzzer_sys::fuzz_target;

static COLUMNS: LazyLock<(Schema, EnvelopeColumns, MailColumns)> = LazyLock::new(|| {
    let mut builder = SchemaBuilder::default();
    let envelope = EnvelopeColumns::register(&mut builder).unwrap();
    let mail = MailColumns::register(&mut builder).unwrap();
    (builder.finish(), envelope, mail)
});

const BYTES: usize = 8 * 1024;
const LEVELS: usize = 128;

/// Counters that libFuzzer reads as it reads those of branches (`__libfuzzer_extra_counters`).
#[unsafe(link_section = "__libfuzzer_extra_counters")]
static mut REACHED: [u8; LEVELS] = [0; LEVELS];

/// Notes that a reading cost so much.
fn reach(steps_a_byte: f64) {
    let level = ((steps_a_byte.max(1.0).log2() * 4.0) as usize).min(LEVELS - 1);
    // Safety: the fuzzer runs one input at a time and looks at the counters between two; a byte is written whole.
    unsafe { (&raw mut REACHED).cast::<u8>().add(level).write(1) };
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&family, unit)) = bytes.split_first() else { return };
    if unit.is_empty() {
        return;
    }
    let (schema, envelope, mail) = &*COLUMNS;
    let raw = FAMILIES[usize::from(family) % FAMILIES.len()].message(unit, BYTES);
    let read = |budget: Budget| {
        message::features(&raw, &budget, envelope, mail, &mut schema.empty_row());
        budget.spent()
    };
    reach(read(Budget::of_steps(u64::MAX / 2, &Cancellation::default())) as f64 / raw.len() as f64);
    let most = STEPS_MIN + STEPS_A_BYTE * raw.len() as u64;
    assert!(read(Budget::of_message(raw.len(), &Cancellation::default())) <= most);
});

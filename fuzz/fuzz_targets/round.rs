//! Any answer of a cluster to a round of takes is what each cell had before, or is refused; nothing panics.
#![no_main]

use cluster::wire::exact_limit;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((asks, answer)) = bytes.split_first() else { return };
    let asks = usize::from(*asks);
    if let Ok(befores) = exact_limit::decode(answer, 7, asks) {
        assert_eq!(befores.len(), asks);
    }
});

//! Any bytes are a sketch's image, also with a checksum that fits: it is read and usable, or refused.
#![no_main]

use event::{Span, Time};
use libfuzzer_sys::fuzz_target;
use stats::{Sketch, SketchOptions};

fuzz_target!(|bytes: &[u8]| {
    let options = SketchOptions { shards: 2, bytes: 512, rotate: Span(1000) };
    let mut sealed = bytes.to_vec();
    sealed.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    for image in [bytes, &sealed] {
        let Ok(sketch) = Sketch::restore(options, &mut &*image) else { continue };
        let mut again = Vec::new();
        sketch.write_to(&mut again).unwrap();
        assert_eq!(again, image[..again.len()]);
        for (number, time) in [0, i64::MAX, i64::MIN, 499, 500, -1].into_iter().enumerate() {
            let hash = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let before = sketch.estimate(number % 3, hash, Time(time));
            assert_eq!(sketch.see(number % 3, hash, Time(time)), before);
            let after = sketch.estimate(number % 3, hash, Time(time));
            assert!(after >= before.max(1) && after <= Sketch::COUNT_MAX);
        }
    }
});

//! Any words are a sketch's image: it is usable afterwards, whether they were taken or not.
#![no_main]

use event::{Span, Time};
use libfuzzer_sys::fuzz_target;
use stats::{Sketch, SketchOptions};

fuzz_target!(|bytes: &[u8]| {
    let options = SketchOptions { shards: 2, bytes: 512, rotate: Span(1000) };
    let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    // As they are, and behind a header that fits.
    let mut image = Sketch::new(options).image(0).expect("it is new");
    image.truncate(3);
    image.extend_from_slice(&words);
    for image in [words, image] {
        let sketch = Sketch::new(options);
        if sketch.restore(0, &image) {
            sketch.set_changed(0);
            assert!(sketch.image(0).expect("it has changed").starts_with(&image));
        }
        for (number, time) in [0, i64::MAX, i64::MIN, 499, 500, -1].into_iter().enumerate() {
            let hash = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let before = sketch.estimate(number % 3, hash, Time(time));
            assert_eq!(sketch.see(number % 3, hash, Time(time)), before);
            let after = sketch.estimate(number % 3, hash, Time(time));
            assert!(after >= before.max(1) && after <= Sketch::COUNT_MAX);
            sketch.is_complete(number % 3, Time(time));
        }
    }
});

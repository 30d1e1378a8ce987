//! CityHash64, version 1.0: how CatBoost names a category.
//!
//! G. Pike, J. Alakuijala, 2011; the version of `util/digest/city.cpp` in CatBoost's sources. Later versions of
//! CityHash give other values for texts above 64 bytes.

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;
const K3: u64 = 0xc949_d7c7_509e_6557;

/// The number by which models know a category: the low half of the CityHash64 of its text.
///
/// A category that is an integer is the text that prints it: `category(b"42")`.
pub fn category(text: &[u8]) -> u32 {
    city64(text) as u32
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes).into()
}

fn mix(value: u64) -> u64 {
    value ^ (value >> 47)
}

/// `Hash128to64`.
fn join(low: u64, high: u64) -> u64 {
    const MULTIPLIER: u64 = 0x9ddf_ea08_eb38_2d69;
    let a = mix((low ^ high).wrapping_mul(MULTIPLIER));
    mix((high ^ a).wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER)
}

fn to_16(text: &[u8]) -> u64 {
    let length = text.len();
    match length {
        0 => K2,
        1..=3 => {
            let y = u64::from(text[0]) + (u64::from(text[length / 2]) << 8);
            let z = length as u64 + (u64::from(text[length - 1]) << 2);
            mix(y.wrapping_mul(K2) ^ z.wrapping_mul(K3)).wrapping_mul(K2)
        }
        4..=8 => join(length as u64 + (half(text, 0) << 3), half(text, length - 4)),
        _ => {
            let (a, b) = (word(text, 0), word(text, length - 8));
            join(a, b.wrapping_add(length as u64).rotate_right(length as u32)) ^ b
        }
    }
}

fn to_32(text: &[u8]) -> u64 {
    let length = text.len();
    let a = word(text, 0).wrapping_mul(K1);
    let b = word(text, 8);
    let c = word(text, length - 8).wrapping_mul(K2);
    let d = word(text, length - 16).wrapping_mul(K0);
    join(
        a.wrapping_sub(b).rotate_right(43).wrapping_add(c.rotate_right(30)).wrapping_add(d),
        a.wrapping_add((b ^ K3).rotate_right(20)).wrapping_sub(c).wrapping_add(length as u64),
    )
}

/// One half of a text of 33 to 64 bytes: `seed` and the words from `at`, the last of which is `last`.
fn weak_half(text: &[u8], seed: u64, at: usize, last: u64) -> (u64, u64) {
    let z = last;
    let mut a = seed;
    let b = a.wrapping_add(z).rotate_right(52);
    let mut c = a.rotate_right(37);
    a = a.wrapping_add(word(text, at + 8));
    c = c.wrapping_add(a.rotate_right(7));
    a = a.wrapping_add(word(text, at + 16));
    (a.wrapping_add(z), b.wrapping_add(a.rotate_right(31)).wrapping_add(c))
}

fn to_64(text: &[u8]) -> u64 {
    let length = text.len();
    let seed = (length as u64).wrapping_add(word(text, length - 16)).wrapping_mul(K0);
    let (v_first, v_second) = weak_half(text, word(text, 0).wrapping_add(seed), 0, word(text, 24));
    let seed = word(text, 16).wrapping_add(word(text, length - 32));
    let (w_first, w_second) = weak_half(text, seed, length - 32, word(text, length - 8));
    let v = v_first.wrapping_add(w_second).wrapping_mul(K2);
    let r = mix(v.wrapping_add(w_first.wrapping_add(v_second).wrapping_mul(K0)));
    mix(r.wrapping_mul(K0).wrapping_add(v_second)).wrapping_mul(K2)
}

/// `WeakHashLen32WithSeeds`, over the 32 bytes from `at`.
fn weak(text: &[u8], at: usize, a: u64, b: u64) -> (u64, u64) {
    let last = word(text, at + 24);
    let a = a.wrapping_add(word(text, at));
    let b = b.wrapping_add(a).wrapping_add(last).rotate_right(21);
    let c = a.wrapping_add(word(text, at + 8)).wrapping_add(word(text, at + 16));
    (c.wrapping_add(last), b.wrapping_add(c.rotate_right(44)).wrapping_add(a))
}

fn city64(text: &[u8]) -> u64 {
    let length = text.len();
    match length {
        0..=16 => return to_16(text),
        17..=32 => return to_32(text),
        33..=64 => return to_64(text),
        _ => {}
    }
    let mut x = word(text, 0);
    let mut y = word(text, length - 16) ^ K1;
    let mut z = word(text, length - 56) ^ K0;
    let mut v = weak(text, length - 64, length as u64, y);
    let mut w = weak(text, length - 32, (length as u64).wrapping_mul(K1), K0);
    z = z.wrapping_add(mix(v.1).wrapping_mul(K1));
    x = z.wrapping_add(x).rotate_right(39).wrapping_mul(K1);
    y = y.rotate_right(33).wrapping_mul(K1);
    for at in (0..(length - 1) / 64 * 64).step_by(64) {
        x = x.wrapping_add(y).wrapping_add(v.0).wrapping_add(word(text, at + 16));
        x = x.rotate_right(37).wrapping_mul(K1);
        y = y.wrapping_add(v.1).wrapping_add(word(text, at + 48)).rotate_right(42).wrapping_mul(K1);
        x ^= w.1;
        y ^= v.0;
        z = (z ^ w.0).rotate_right(33);
        v = weak(text, at, v.1.wrapping_mul(K1), x.wrapping_add(w.0));
        w = weak(text, at + 32, z.wrapping_add(w.1), y);
        std::mem::swap(&mut z, &mut x);
    }
    join(join(v.0, w.0).wrapping_add(mix(y).wrapping_mul(K1)).wrapping_add(z), join(v.1, w.1).wrapping_add(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_catboosts() {
        // The first two stand in the JSON exports of the shared models; the others are held by the scores of
        // `corpora/model`, whose categories have every length class.
        assert_eq!(category(b"unseen6960"), 2_433_284_416);
        assert_eq!(category(b"40"), 1_435_255_456);
        assert_eq!(city64(b""), K2);
    }
}

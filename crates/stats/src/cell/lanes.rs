//! Numbers of 1, 2, 4 or 8 bytes packed in words, least significant first. A code says the size: 0 for no bytes, where
//! all numbers are zero, then 1 to 4.

/// The least size that holds a number.
#[inline]
pub(crate) fn code(number: u64) -> usize {
    match number {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 3,
        _ => 4,
    }
}

/// Returns the number of numbers that these words hold.
pub(crate) fn capacity(words: &[u64], code: usize) -> usize {
    if code == 0 { 0 } else { words.len() << (4 - code) }
}

/// Index of the word, shift in it, and mask.
#[inline]
fn place(code: usize, at: usize) -> (usize, usize, u64) {
    let bits = 4 << code;
    let log = 4 - code;
    (at >> log, (at & ((1 << log) - 1)) * bits, u64::MAX >> (64 - bits))
}

/// The index of the word that holds a number, and the number's shift in it; `None` where numbers have no bytes.
#[inline]
pub(crate) fn word_of(code: usize, at: usize) -> Option<(usize, usize)> {
    let (word, shift, _) = (code > 0).then(|| place(code, at))?;
    Some((word, shift))
}

/// A number; zero where the words end before it.
#[inline]
pub(crate) fn get(words: &[u64], code: usize, at: usize) -> u64 {
    if code == 0 {
        return 0;
    }
    let (word, shift, mask) = place(code, at);
    words.get(word).map_or(0, |word| word >> shift & mask)
}

/// Sets a number, which must fit.
#[inline]
pub(crate) fn set(words: &mut [u64], code: usize, at: usize, number: u64) {
    if code == 0 {
        return;
    }
    let (word, shift, mask) = place(code, at);
    words[word] = words[word] & !(mask << shift) | number << shift;
}

#[inline]
pub(crate) fn clear(words: &mut [u64], code: usize, at: usize) {
    set(words, code, at, 0);
}

/// The sum of the numbers from `from` to before `to`. Words that are not there are zero.
#[inline]
pub(crate) fn sum(words: &[u64], code: usize, from: usize, to: usize) -> u64 {
    if from >= to {
        return 0;
    }
    match code {
        1 => packed::<8>(words, from, to),
        2 => packed::<16>(words, from, to),
        3 => packed::<32>(words, from, to),
        4 => {
            let there = |at: usize| at.min(words.len());
            words[there(from)..there(to)].iter().fold(0, |sum, word| sum.saturating_add(*word))
        }
        _ => 0,
    }
}

/// Adds up lanes of `BITS` bits, all lanes of a word at a time.
#[inline]
fn packed<const BITS: usize>(words: &[u64], from: usize, to: usize) -> u64 {
    let lanes = 64 / BITS;
    let (first, last) = (from / lanes, (to - 1) / lanes);
    let low = u64::MAX << (from % lanes * BITS);
    let high = u64::MAX >> (63 - ((to - 1) % lanes * BITS + BITS - 1));
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    if first == last {
        return across::<BITS>(pairs::<BITS>(word(first) & low & high));
    }
    let ends = across::<BITS>(pairs::<BITS>(word(first) & low) + pairs::<BITS>(word(last) & high));
    let there = |at: usize| at.min(words.len());
    let whole = &words[there(first + 1)..there(last)];
    // Lanes twice as wide hold so many sums of two, at least.
    whole.chunks(96).fold(ends, |sum, words| {
        let sums = words.iter().fold(0u64, |sums, word| sums.wrapping_add(pairs::<BITS>(*word)));
        sum + across::<BITS>(sums)
    })
}

/// The sums of neighbours, in lanes twice as wide.
#[inline]
fn pairs<const BITS: usize>(word: u64) -> u64 {
    let mask = match BITS {
        8 => 0x00ff_00ff_00ff_00ff,
        16 => 0x0000_ffff_0000_ffff,
        _ => 0x0000_0000_ffff_ffff,
    };
    (word & mask) + (word >> BITS & mask)
}

/// The sum of those wider lanes.
#[inline]
fn across<const BITS: usize>(sums: u64) -> u64 {
    match BITS {
        8 => (sums & 0xffff) + (sums >> 16 & 0xffff) + (sums >> 32 & 0xffff) + (sums >> 48),
        16 => (sums & 0xffff_ffff) + (sums >> 32),
        _ => sums,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn sums_are_those_of_the_numbers(
            numbers in proptest::collection::vec(any::<u64>(), 1..1700), full in any::<bool>(),
            from in 0usize..1700, to in 0usize..1700, cut in 0usize..200,
        ) {
            for code in 1..=4usize {
                let bits = 4 << code;
                let mut words = vec![0; numbers.len().div_ceil(64 / bits)];
                let number = |at: usize| if full { u64::MAX } else { numbers[at] } >> (64 - bits);
                for at in 0..numbers.len() {
                    set(&mut words, code, at, number(at));
                }
                for at in 0..numbers.len() {
                    prop_assert_eq!(get(&words, code, at), number(at));
                }
                let expected = (from.min(numbers.len())..to.min(numbers.len())).fold(0u64, |sum, at| sum.saturating_add(number(at)));
                prop_assert_eq!(sum(&words, code, from, to), expected);
                words.truncate(words.len().saturating_sub(cut));
                let there = words.len() * (64 / bits);
                let expected = (from..to).filter(|at| *at < numbers.len().min(there)).fold(0u64, |sum, at| sum.saturating_add(number(at)));
                prop_assert_eq!(sum(&words, code, from, to), expected);
            }
        }
    }
}

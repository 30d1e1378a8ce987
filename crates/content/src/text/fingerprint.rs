//! Near-duplicate fingerprints: texts that share most of their wording share at least one of a few short hashes.
//!
//! A text is the set of its 3-word shingles. Min-wise hashing (Broder, *On the resemblance and containment of
//! documents*, 1997) keeps, for each of 16 permutations, the smallest hash in the set; two texts agree in one
//! minimum with probability *J*, the Jaccard similarity of their sets. The minima are grouped into 4 bands of 4,
//! and two texts share a given band with probability *J*⁴, at least one of the four with 1 − (1 − *J*⁴)⁴:
//!
//! | J | 0.3 | 0.5 | 0.7 | 0.8 | 0.9 | 0.95 |
//! |---|---|---|---|---|---|---|
//! | a band matches | 3 % | 23 % | 67 % | 88 % | 98.6 % | 99.9 % |
//!
//! So a counter kept per band finds campaigns whose texts differ in a name or a link, and hardly ever joins
//! texts that merely share phrases. The hashes are not keyed and stable for ever: they are pieces, and become
//! keyed shingles when they are counted.
//!
//! Short texts, and those of scripts without blanks, have too few words. [`short_fingerprints`] takes the runs of characters of a
//! text's [`skeleton`]: what is left without links, numbers, names in messengers, signs and blanks, which is what senders of
//! copies change. [`template`] is the hash of the skeleton as a whole: two texts that differ by a link or a number alone share it.

use std::hash::Hasher;

use crate::text::character::{is_alphabetic, is_alphanumeric};
use siphasher::sip::SipHasher13;

use crate::text::han::is_ideograph;

/// Number of bands, and of fingerprints of a text.
pub const BANDS: usize = 4;
/// Minima per band.
pub const ROWS: usize = 4;
/// Words to a shingle.
pub const SHINGLE_WORDS: usize = 3;
/// Fewest words for which a fingerprint says anything: "thank you for your order" is no campaign.
pub const WORDS_MIN: usize = 20;
/// Most words that are looked at.
pub const WORDS_MAX: usize = 5_000;

/// Bands of a short text.
pub const SHORT_BANDS: usize = 10;
/// Minima per band of a short text.
pub const SHORT_ROWS: usize = 3;
/// Characters to a shingle of a short text, and of one of ideographs.
pub const SHORT_SHINGLE: (usize, usize) = (5, 2);
/// Fewest letters of a skeleton that tell one text from others, an ideograph counting as [`IDEOGRAPH_LETTERS`].
pub const SHORT_LETTERS_MIN: usize = 30;
/// Most characters of a skeleton of which short fingerprints are made: longer texts have others.
pub const SHORT_CHARS_MAX: usize = 1_000;
/// Fewest letters of a skeleton that is a template.
pub const TEMPLATE_LETTERS_MIN: usize = 20;
/// The number of letters that say as much as an ideograph.
pub const IDEOGRAPH_LETTERS: usize = 3;

/// Odd multipliers and addends of the permutations `x → a·x + b (mod 2⁶⁴)`.
const PERMUTATIONS: [(u64, u64); BANDS * ROWS] = permutations();
const SHORT_PERMUTATIONS: [(u64, u64); SHORT_BANDS * SHORT_ROWS] = permutations();

const fn permutations<const N: usize>() -> [(u64, u64); N] {
    let mut permutations = [(0, 0); N];
    let mut seed = 0;
    let mut i = 0;
    while i < permutations.len() {
        permutations[i] = (mix(seed + 1) | 1, mix(seed + 2));
        seed += 2;
        i += 1;
    }
    permutations
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, 2014).
const fn mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The [`BANDS`] fingerprints of a normalised text, each the band's number and 16 hexadecimal digits such as
/// `0:9ae16a3b2f90404f`; nothing for a text of fewer than [`WORDS_MIN`] words. Linear in the text.
pub fn fingerprints(normalised: &str) -> Vec<String> {
    let words: Vec<u64> = normalised
        .split(|c: char| !is_alphanumeric(c))
        .filter(|word| !word.is_empty())
        .take(WORDS_MAX)
        .map(|word| hash(word.as_bytes()))
        .collect();
    if words.len() < WORDS_MIN {
        return Vec::new();
    }
    let shingles =
        words.windows(SHINGLE_WORDS).map(|shingle| shingle.iter().fold(0, |hash, word| mix(hash ^ word)));
    let minima = minima(shingles, &PERMUTATIONS);
    bands(&minima, ROWS).map(|(number, hash)| format!("{number}:{hash:016x}")).collect()
}

/// The least of some hashes under each permutation.
fn minima<const N: usize>(shingles: impl Iterator<Item = u64>, permutations: &[(u64, u64); N]) -> [u64; N] {
    let mut minima = [u64::MAX; N];
    for shingle in shingles {
        for (minimum, (a, b)) in minima.iter_mut().zip(permutations) {
            *minimum = (*minimum).min(shingle.wrapping_mul(*a).wrapping_add(*b));
        }
    }
    minima
}

/// Bands of so many minima, each with its number and hash.
fn bands(minima: &[u64], rows: usize) -> impl Iterator<Item = (usize, u64)> {
    let hash = |(number, rows): (usize, &[u64])| {
        (number, rows.iter().fold(number as u64, |hash, row| mix(hash ^ row)))
    };
    minima.chunks_exact(rows).enumerate().map(hash)
}

/// The letters of a text in their order, and no more than so many: without blanks, signs and emoji, and without words that are
/// links, addresses, names in messengers or have a number in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSkeleton {
    chars: Vec<char>,
    letters: usize,
    is_whole: bool,
}

impl TextSkeleton {
    /// The number of its letters, an ideograph counting as [`IDEOGRAPH_LETTERS`].
    pub fn letters(&self) -> usize {
        self.letters
    }
}

/// Returns the skeleton of a normalised text. Linear.
pub fn skeleton(normalised: &str) -> TextSkeleton {
    let mut skeleton = TextSkeleton { chars: Vec::new(), letters: 0, is_whole: true };
    let mut rest = normalised;
    while let Some(first) = rest.chars().next() {
        if skeleton.chars.len() > SHORT_CHARS_MAX {
            skeleton.is_whole = false;
            break;
        }
        if is_ideograph(first) {
            skeleton.chars.push(first);
            skeleton.letters += IDEOGRAPH_LETTERS;
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let end = rest.find(|c: char| c.is_whitespace() || is_ideograph(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind.trim_start();
        if !is_variable(word) {
            let before = skeleton.chars.len();
            let left = SHORT_CHARS_MAX + 1 - before;
            skeleton.chars.extend(word.chars().filter(|c| is_alphabetic(*c)).take(left));
            skeleton.letters += skeleton.chars.len() - before;
        }
    }
    skeleton
}

/// Returns true if a word is what differs between copies of a text.
fn is_variable(word: &str) -> bool {
    let bytes = word.as_bytes();
    let is_dot_inside = |triple: &[u8]| {
        triple[1] == b'.' && triple[0].is_ascii_alphanumeric() && triple[2].is_ascii_alphanumeric()
    };
    bytes.iter().any(|byte| matches!(byte, b'@' | b'0'..=b'9'))
        || word.contains("://")
        || bytes.windows(3).any(is_dot_inside)
}

/// The [`SHORT_BANDS`] fingerprints of a short text, such as `s0:9ae16a3b2f90404f`; nothing for one of fewer than
/// [`SHORT_LETTERS_MIN`] letters or more than [`SHORT_CHARS_MAX`]. Linear in the text.
pub fn short_fingerprints(skeleton: &TextSkeleton) -> Vec<String> {
    let chars = skeleton.chars.as_slice();
    if skeleton.letters < SHORT_LETTERS_MIN || !skeleton.is_whole || chars.len() > SHORT_CHARS_MAX {
        return Vec::new();
    }
    let shingle = |start: usize| {
        let length = if is_ideograph(chars[start]) { SHORT_SHINGLE.1 } else { SHORT_SHINGLE.0 };
        let shingle = chars.get(start..start + length)?;
        Some(shingle.iter().fold(0, |hash, c| mix(hash ^ u64::from(*c))))
    };
    let minima = minima((0..chars.len()).filter_map(shingle), &SHORT_PERMUTATIONS);
    bands(&minima, SHORT_ROWS).map(|(number, hash)| format!("s{number}:{hash:016x}")).collect()
}

/// The hash of a skeleton, or of the beginning of a long one, of at least [`TEMPLATE_LETTERS_MIN`] letters, in 16 hexadecimal
/// digits: what texts share that differ by links, numbers, emoji, signs and blanks alone.
pub fn template(skeleton: &TextSkeleton) -> Option<String> {
    if skeleton.letters < TEMPLATE_LETTERS_MIN {
        return None;
    }
    let mut hasher = SipHasher13::new();
    skeleton.chars.iter().for_each(|c| hasher.write_u32(u32::from(*c)));
    Some(format!("{:016x}", hasher.finish()))
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(seed: u64, words: u64) -> String {
        (0..words).map(|i| format!("w{:x} ", mix(seed * 1_000_003 + i) % 5_000)).collect()
    }

    fn shared(a: &str, b: &str) -> usize {
        let b = fingerprints(b);
        fingerprints(a).iter().filter(|band| b.contains(band)).count()
    }

    #[test]
    fn near_duplicates_meet_and_others_do_not() {
        let mut met = 0;
        let mut strangers = 0;
        for seed in 0..100 {
            let original = text(seed, 200);
            let edited = original.replacen(original.split(' ').nth(100).unwrap(), "changed", 1);
            assert_eq!(shared(&original, &original), BANDS);
            met += usize::from(shared(&original, &edited) > 0);
            strangers += shared(&original, &text(seed + 1_000, 200));
        }
        assert!(met >= 97, "J is about 0.97 after one changed word of 200, but only {met} of 100 met");
        assert_eq!(strangers, 0);
    }

    #[test]
    fn short_texts_have_none() {
        assert!(fingerprints(&text(1, WORDS_MIN as u64 - 1)).is_empty());
        assert_eq!(fingerprints(&text(1, WORDS_MIN as u64)).len(), BANDS);
    }

    #[test]
    fn the_form_is_for_ever() {
        let text = "the quick brown fox jumps over the lazy dog and then the dog chases the fox around the old barn twice";
        assert_eq!(
            fingerprints(text),
            ["0:c737472dd28d2f11", "1:c372187366749b73", "2:a9a4230cb0a2f576", "3:c9280559b66ce9da"]
        );
    }

    /// A letter of a few sentences to somebody, with a code of their own.
    fn letter(seed: u64, name: &str, code: u64) -> String {
        let body = text(seed, 150);
        let (first, rest) = body.split_at(body.len() / 2);
        crate::text::obfuscation::normalise(&format!(
            "Dear {name}, {first} your code {code} {rest} yours, the team"
        ))
    }

    #[test]
    fn letters_to_others_meet() {
        let met = (0..200).filter(|seed| {
            let other = letter(*seed, ["Bo", "Maximiliane", "Kpp"][*seed as usize % 3], 100 + seed * 4_999);
            shared(&letter(*seed, "Ann", 12_345), &other) > 0
        });
        let met = met.count();
        assert!(met >= 180, "only {met} of 200 met");
    }

    fn short(written: &str) -> (Vec<String>, Option<String>) {
        let skeleton = skeleton(&crate::text::obfuscation::normalise(written));
        (short_fingerprints(&skeleton), template(&skeleton))
    }

    #[test]
    fn copies_of_a_short_text_share_a_template() {
        for [one, other] in [
            [
                "Cheap watches, see www.a.example/x now! 50 % off",
                "cheap watches - see b.example/y?q=1 now!! 70% off \u{1F600}",
            ],
            ["代开发票，电话13800138000，诚信经营", "代開 發票 电话 139-1234-5678 诚信经营!!"],
            [
                "Earn money, write @some_name in Telegram today",
                "Earn  money, write @other_name in Telegram today",
            ],
        ] {
            assert!(short(one).1.is_some() && short(one).1 == short(other).1, "{one} / {other}");
        }
        assert_ne!(short("Cheap watches, see them now!").1, short("Cheap watches, buy them now!").1);
        assert_eq!(short("call 13800138000 now").1, None);
    }

    #[test]
    fn copies_of_a_short_text_share_fingerprints() {
        for [one, other] in [
            [
                "Dear Ann, you have won a prize of 900 pounds in the draw of this week, call 09061701461 to claim it today",
                "Dear Robert, you have won a prize of 250 pounds in the draw of this week, call 08712300220 to claim it today \u{1F600}",
            ],
            [
                "专业代开发票，诚信经营，电话13800138000，欢迎来电咨询",
                "欢迎来电咨询，专业代開發票，诚信经营 139-1234-5678",
            ],
        ] {
            let (one, other) = (short(one).0, short(other).0);
            assert!(
                one.len() == SHORT_BANDS && one.iter().any(|band| other.contains(band)),
                "{one:?} {other:?}"
            );
        }
        assert!(short("see you at the station").0.is_empty());
        assert!(short(&"so many different words ".repeat(60)).0.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn others_do_not_meet(a in 0..10_000u64, b in 0..10_000u64) {
            prop_assume!(a.abs_diff(b) > 1);
            prop_assert_eq!(shared(&letter(a, "Ann", 1), &letter(b, "Ann", 1)), 0);
        }
    }

    /// The percentage of edited texts that meet the original.
    fn recall(edit: impl Fn(&str, u64) -> String) -> usize {
        let meets = |seed: &u64| {
            let original = text(*seed, 200);
            shared(&original, &edit(&original, *seed)) > 0
        };
        (0..100).filter(meets).count()
    }

    #[test]
    fn edits_are_met_as_the_resemblance_says() {
        let every = |n: usize| {
            move |text: &str, seed: u64| {
                let words = text.split(' ').zip(0..);
                words
                    .map(|(word, i)| if i % n == 0 { format!("x{seed}y{i} ") } else { format!("{word} ") })
                    .collect()
            }
        };
        // Every 50th word changed leaves a J of about 0.89, every 20th one of 0.74, every 6th one of 0.33.
        let (few, some, many) = (recall(every(50)), recall(every(20)), recall(every(6)));
        assert!(few >= 92 && (50..97).contains(&some) && many <= 20, "{few} {some} {many}");
        // A tenth as much of random words behind the text, and a quarter.
        let salad = |share: u64| {
            move |text: &str, seed: u64| text.to_owned() + &self::text(seed + 50_000, 200 / share)
        };
        let (tenth, quarter) = (recall(salad(10)), recall(salad(4)));
        assert!(tenth >= 92 && quarter >= 75, "{tenth} {quarter}");
        // An opening paragraph cut away, a tenth of the text.
        let cut = recall(|text, _| text.split_inclusive(' ').skip(20).collect());
        assert!(cut >= 92, "{cut}");
    }
}

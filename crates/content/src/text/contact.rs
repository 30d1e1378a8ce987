//! Contact data of a whole text: what [`crate::text::phone`] finds, told apart by how it was written, and numbers of payment
//! cards.

use std::collections::HashSet;

use unicode_script::Script;

use crate::text::character::{is_alphabetic, script};
use crate::text::digit;
use crate::text::phone;

/// Digits of a payment card's number (ISO/IEC 7812).
const CARD_DIGITS: std::ops::RangeInclusive<usize> = 13..=19;

/// Hands on the telephone numbers of a text, as it is written and as [`crate::text::plain`] reads it. How many of them
/// were obfuscated: by words or letters, or by odd forms of digits. Full-width digits and those of another script are
/// odd only in a text whose letters are all Latin.
pub(crate) fn phones(written: &str, plain: &str, mut emit: impl FnMut(String)) -> usize {
    let odd = written.chars().any(|c| !c.is_ascii() && digit(c).is_some());
    let usual: HashSet<String> = if odd { usual_phones(written) } else { HashSet::new() };
    let mut obfuscated = 0;
    phone::find(plain, |phone| {
        obfuscated += usize::from(phone.is_obfuscated || odd && !usual.contains(&phone.digits));
        emit(phone.digits);
    });
    obfuscated
}

/// The numbers that are found without undoing an obfuscation.
fn usual_phones(written: &str) -> HashSet<String> {
    let is_foreign = |c: char| is_alphabetic(c) && !matches!(script(c), Script::Latin | Script::Common);
    let folds = written.chars().any(|c| !c.is_ascii() && is_foreign(c));
    let folded: String = written
        .chars()
        .map(|c| match digit(c) {
            Some(value)
                if folds
                    && (c.is_numeric()
                        && !matches!(c, '\u{2070}'..='\u{2793}' | '\u{1D7CE}'..='\u{1FBF9}')) =>
            {
                char::from(b'0' + value)
            }
            _ => c.to_ascii_lowercase(),
        })
        .collect();
    let mut usual = HashSet::new();
    phone::find(&folded, |phone| _ = usual.insert(phone.digits));
    usual
}

/// Returns the number of digit strings of a text of [`crate::text::plain`] that are like numbers of payment cards: 13 to 19
/// digits in one group, or in groups as they are printed, with the first digits of a card and the right check digit (Luhn).
/// The numbers themselves are not kept.
pub(crate) fn card_numbers(plain: &str) -> usize {
    let bytes = plain.as_bytes();
    let (mut count, mut at) = (0, 0);
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let (mut digits, mut groups, mut end) = ([0u8; 20], [0usize; 6], at);
        let (mut length, mut group) = (0, 0);
        while let Some(&byte) = bytes.get(end) {
            let parts = matches!(byte, b' ' | b'-') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
            if byte.is_ascii_digit() && length < digits.len() {
                digits[length] = byte - b'0';
                length += 1;
                groups[group] += 1;
            } else if parts && group + 1 < groups.len() {
                group += 1;
            } else {
                break;
            }
            end += 1;
        }
        let is_inside = |byte: Option<&u8>| {
            byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_=/.".contains(byte))
        };
        let inside = at > 0 && is_inside(bytes.get(at - 1))
            || is_inside(bytes.get(end)) && bytes.get(end) != Some(&b'.');
        let printed =
            matches!(groups[..=group], [_] | [4, 4, 4, 4] | [4, 6, 5] | [4, 4, 4, 1..=4] | [4, 4, 4, 4, 3]);
        count +=
            usize::from(!inside && printed && CARD_DIGITS.contains(&length) && is_card(&digits[..length]));
        // What is too long for a card is passed by as a whole.
        at = end.max(at + 1);
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
    }
    count
}

fn is_card(digits: &[u8]) -> bool {
    let brand = match digits {
        [4, ..] => matches!(digits.len(), 13 | 16 | 19),
        [5, 1..=5, ..] | [2, 2..=7, ..] => digits.len() == 16,
        [3, 4 | 7, ..] => digits.len() == 15,
        [6, 0 | 5, ..] => digits.len() == 16,
        _ => false,
    };
    let sum: u32 = digits
        .iter()
        .rev()
        .zip(0..)
        .map(|(&digit, place)| match (place % 2, u32::from(digit) * 2) {
            (0, _) => u32::from(digit),
            (_, twice) => twice / 10 + twice % 10,
        })
        .sum();
    brand && sum.is_multiple_of(10) && digits.iter().any(|&digit| digit != digits[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::plain;

    fn obfuscated(written: &str) -> (Vec<String>, usize) {
        let mut all = Vec::new();
        let count = phones(written, &plain(written), |digits| all.push(digits));
        (all, count)
    }

    #[test]
    fn odd_digits_are_obfuscations_and_those_of_the_script_are_not() {
        assert_eq!(obfuscated("call 800-555-1239"), (vec!["8005551239".into()], 0));
        assert_eq!(obfuscated("call ⑧⓪⓪-555-1239"), (vec!["8005551239".into()], 1));
        assert_eq!(obfuscated("call ８００-５５５-１２３９"), (vec!["8005551239".into()], 1));
        assert_eq!(obfuscated("電話 ８００-５５５-１２３９"), (vec!["8005551239".into()], 0));
        assert_eq!(obfuscated("هاتف ٨٠٠-٥٥٥-١٢٣٩"), (vec!["8005551239".into()], 0));
    }

    #[test]
    fn cards_are_told_by_their_check_digit() {
        for (text, expected) in [
            ("4111 1111 1111 1111 and 5500-0000-0000-0004", 2),
            ("378282246310005", 1),
            ("4111 1111 1111 1112", 0),
            ("id4111111111111111 4111111111111111x", 0),
            ("41111 11111 111111", 0),
            ("0000 0000 0000 0000", 0),
            ("", 0),
        ] {
            assert_eq!(card_numbers(text), expected, "{text:?}");
        }
        assert_eq!(card_numbers(&"4".repeat(10_000)), 0);
    }
}

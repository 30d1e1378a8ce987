//! Telephone numbers in text, through what hides them: other digits, words for digits, letters that look like digits.
//!
//! Mail is full of digits that are no telephone numbers: dates, versions, prices, identifiers, tables. A string of
//! digits counts only if its form says what it is: a leading `+`, groups as numbers are written in groups, a word
//! such as `call` right before it, or an effort to hide it.

use std::ops::RangeInclusive;

use crate::text::character::{is_alphabetic, is_alphanumeric};
use crate::text::truncate;

/// Fewest and most digits of a telephone number (ITU-T E.164 allows 15).
pub const DIGITS: RangeInclusive<usize> = 7..=15;
/// Most groups of digits that are read as one number.
const GROUPS_MAX: usize = 16;
/// Longest word for a digit or a sign in bytes, and a little more.
const WORD_BYTES_MAX: usize = 16;
/// Bytes before a number in which a word may say that it is one.
const HINT_BYTES: usize = 24;

/// A telephone number that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhoneNumber {
    /// Its digits, without separators, `+` and international prefix `00`.
    pub digits: String,
    /// True if digits were written as words or as letters, or spaced out one by one.
    pub is_obfuscated: bool,
}

/// Hands on the telephone numbers of a text of [`crate::text::plain`], in order. Linear.
pub fn find(plain: &str, mut emit: impl FnMut(PhoneNumber)) {
    let bytes = plain.as_bytes();
    let mut at = 0;
    let mut before = b' ';
    while let Some(&byte) = bytes.get(at) {
        let is_open = !is_inside(before);
        let opens = is_open
            && (byte.is_ascii_digit()
                || (byte.is_ascii_lowercase() || byte >= 0x80) && word_digit(plain, at).is_some());
        if !opens {
            if byte.is_ascii_lowercase() {
                // The rest of the word holds no number.
                let is_of_word = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
                at += bytes[at..].iter().take_while(is_of_word).count();
                before = b'a';
            } else if byte < 0x80 {
                at += 1;
                before = byte;
            } else {
                let c = plain[at..].chars().next().unwrap_or_default();
                at += c.len_utf8();
                before = if is_alphabetic(c) && !is_unspaced(c) { b'a' } else { b' ' };
            }
            continue;
        }
        let number = DigitString::read(plain, at);
        let end = number.end;
        if number.is_phone(&plain[..at]) {
            emit(PhoneNumber { is_obfuscated: number.is_obfuscated(), digits: number.finish() });
        }
        at = end.max(at + 1);
        before = bytes[at - 1];
        // A digit right behind is of what was read already.
        while before.is_ascii_digit() && bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
    }
}

/// The telephone number that a text of [`crate::text::plain`] is said to be: its first digits, whatever their form.
pub fn number(plain: &str) -> Option<PhoneNumber> {
    let start = plain.char_indices().map(|(at, _)| at).find(|&at| {
        let is_first = !plain[..at].ends_with(is_alphabetic);
        plain.as_bytes()[at].is_ascii_digit() || is_first && word_digit(plain, at).is_some()
    })?;
    let number = DigitString::read(plain, start);
    let is_number = DIGITS.contains(&number.digits.len());
    is_number.then(|| PhoneNumber { is_obfuscated: number.is_obfuscated(), digits: number.finish() })
}

/// The telephone number that a text begins with, what stands before it having said that it is one.
pub(crate) fn announced(text: &str) -> Option<String> {
    let (before, digits) = match text.strip_prefix('+') {
        Some(digits) => ("tel +", digits),
        None => ("tel ", text),
    };
    let start = digits.find(|c: char| !matches!(c, ' ' | '('))?;
    let number = DigitString::of(digits, start)?;
    (number.digits.len() >= 8 && number.is_phone(before)).then(|| number.finish())
}

/// The digits that a text begins with, whatever they are.
pub(crate) fn leading(text: &str) -> Option<String> {
    DigitString::of(text, 0).filter(|number| !number.goes_on).map(|number| number.digits)
}

/// Returns true if numbers follow letters of this script without a blank: Han, kana, hangul, Thai.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{E00}'..='\u{E7F}' | '\u{3000}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}')
}

/// Returns true if the byte right before a digit makes it part of something else.
fn is_inside(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'_' | b'/' | b'=' | b'&' | b'#' | b'%' | b'@' | b'$' | b'\\')
}

/// The digit that a word stands for, and the end of the word. English, German, Spanish, French, Portuguese, Italian and
/// Russian without accents, and ideographs.
fn word_digit(plain: &str, at: usize) -> Option<(u8, usize)> {
    let rest = &plain[at..];
    let first = rest.chars().next()?;
    let of_ideograph = match first {
        '〇' | '零' => Some(0),
        '一' | '幺' => Some(1),
        '二' => Some(2),
        '三' => Some(3),
        '四' => Some(4),
        '五' => Some(5),
        '六' => Some(6),
        '七' => Some(7),
        '八' => Some(8),
        '九' => Some(9),
        // No word below begins with another letter.
        _ if !matches!(first, 'a'..='z' | 'а'..='я') => return None,
        _ => None,
    };
    if let Some(value) = of_ideograph {
        return Some((value, at + first.len_utf8()));
    }
    let word = word_of(rest)?;
    let value = match word {
        "zero" | "cero" | "null" | "ноль" | "нуль" | "oh" => 0,
        "one" | "uno" | "eins" | "un" | "um" | "один" => 1,
        "two" | "dos" | "zwei" | "zwo" | "deux" | "dois" | "due" | "два" => 2,
        "three" | "tres" | "drei" | "trois" | "tre" | "три" => 3,
        "four" | "cuatro" | "vier" | "quatre" | "quatro" | "quattro" | "четыре" => 4,
        "five" | "cinco" | "funf" | "cinq" | "cinque" | "пять" => 5,
        "six" | "seis" | "sechs" | "sei" | "шесть" => 6,
        "seven" | "siete" | "sieben" | "sept" | "sete" | "sette" | "семь" => 7,
        "eight" | "ocho" | "acht" | "huit" | "oito" | "otto" | "восемь" => 8,
        "nine" | "nueve" | "neun" | "neuf" | "nove" | "девять" => 9,
        _ => return None,
    };
    Some((value, at + word.len()))
}

/// The word at the beginning of a text; `None` for one longer than words for digits are, or of one letter.
fn word_of(text: &str) -> Option<&str> {
    let start = truncate(text, WORD_BYTES_MAX + 1);
    let end = start.find(|c: char| !is_alphabetic(c)).unwrap_or(start.len());
    (2..=WORD_BYTES_MAX).contains(&end).then(|| &start[..end])
}

/// Words that say where a number has a sign.
fn is_filler(word: &str) -> bool {
    matches!(
        word,
        "dash" | "hyphen" | "minus" | "dot" | "point" | "plus" | "тире" | "дефис" | "точка" | "плюс"
    )
}

/// The digit that a letter looks like, beside digits.
fn look_alike(c: char) -> Option<u8> {
    Some(match c {
        'o' | 'о' => 0,
        'l' | 'i' | '|' => 1,
        'з' => 3,
        'б' => 6,
        _ => return None,
    })
}

/// A string of digits with what stands between them.
#[derive(Debug, Default)]
struct DigitString {
    digits: String,
    groups: Vec<usize>,
    words: usize,
    letters: usize,
    dots: usize,
    blanks: usize,
    other: usize,
    /// The end of the number.
    end: usize,
    /// A letter, sign or digit right behind makes it something else.
    goes_on: bool,
}

impl DigitString {
    /// The one that begins at a place, if one does.
    fn of(plain: &str, start: usize) -> Option<DigitString> {
        let opens =
            plain.as_bytes().get(start).is_some_and(u8::is_ascii_digit) || word_digit(plain, start).is_some();
        opens.then(|| DigitString::read(plain, start))
    }

    fn read(plain: &str, start: usize) -> DigitString {
        let mut number = DigitString { end: start, ..DigitString::default() };
        // What stands between the last digit and here.
        let (mut gap, mut blanks, mut dots) = (0, 0, 0);
        let mut at = start;
        while let Some(c) = plain[at..].chars().next() {
            if number.digits.len() > *DIGITS.end() + 4 || number.groups.len() > GROUPS_MAX {
                number.goes_on = true;
                break;
            }
            let after = at + c.len_utf8();
            let close = gap == 0 && !number.digits.is_empty();
            if c.is_ascii_digit() {
                number.push(c as u8 - b'0', gap > 0, blanks, dots, after);
            } else if let Some(value) = look_alike(c).filter(|_| close && stands_for_digit(plain, after)) {
                number.push(value, false, 0, 0, after);
                number.letters += 1;
            } else if matches!(c, ' ' | '.' | '-' | '(' | ')') && !number.digits.is_empty() && gap < 3 {
                (blanks, dots) = (blanks + usize::from(c == ' '), dots + usize::from(c == '.'));
                if blanks > 2 || c == ' ' && plain[..at].ends_with(' ') {
                    break;
                }
                gap += 1;
                at = after;
                continue;
            } else if let Some((value, end)) =
                word_digit(plain, at).filter(|_| !close || number.words > 0 || !c.is_ascii())
            {
                number.push(value, true, blanks, dots, end);
                number.words += 1;
                (gap, blanks, dots) = (0, 0, 0);
                at = end;
                continue;
            } else {
                if gap > 0
                    && let Some(word) = word_of(&plain[at..]).filter(|word| is_filler(word))
                {
                    (gap, blanks) = (1, 0);
                    at += word.len();
                    continue;
                }
                number.goes_on = close
                    && (is_alphanumeric(c) || matches!(c, '_' | '%' | '@' | '€' | '$' | '£' | '/' | '='));
                break;
            }
            (gap, blanks, dots) = (0, 0, 0);
            at = after;
        }
        number
    }

    fn push(&mut self, value: u8, is_apart: bool, blanks: usize, dots: usize, end: usize) {
        match self.groups.last_mut().filter(|_| !is_apart) {
            Some(group) => *group += 1,
            None => self.groups.push(1),
        }
        if is_apart && self.groups.len() > 1 {
            match (blanks, dots) {
                (_, 1..) => self.dots += 1,
                (1.., 0) => self.blanks += 1,
                _ => self.other += 1,
            }
        }
        self.digits.push(char::from(b'0' + value));
        self.end = end;
    }

    fn is_obfuscated(&self) -> bool {
        self.words > 0 || self.letters > 0 || self.is_spaced_out()
    }

    fn is_spaced_out(&self) -> bool {
        self.groups.len() > 6 && self.groups.iter().all(|&digits| digits == 1)
    }

    fn is_phone(&self, before: &str) -> bool {
        let count = self.digits.len();
        let digits = self.digits.as_bytes();
        let says_plus = before.trim_end_matches(['(', ' ']).ends_with('+');
        if !DIGITS.contains(&count) || self.goes_on || before.ends_with(['€', '£', '¥', '₽', '₴', '₹'])
        {
            return false;
        }
        let ascends = digits.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let distinct = (b'0'..=b'9').filter(|digit| digits.contains(digit)).count();
        if ascends || distinct < 3 {
            return false;
        }
        let groups = self.groups.as_slice();
        let year = |from: usize| digits[from..].starts_with(b"19") || digits[from..].starts_with(b"20");
        let is_date = match groups {
            [4, 1 | 2, 1 | 2, ..] => year(0),
            [1 | 2, 1 | 2, 4, ..] => year(groups[0] + groups[1]),
            [4, 4] => year(0) && year(4),
            _ => false,
        };
        let is_address = groups.len() == 4 && self.dots == 3 && groups.iter().all(|&digits| digits <= 3);
        let is_version = self.dots > 0 && self.dots + 1 == groups.len() && groups.contains(&1);
        let is_price = self.dots + 1 == groups.len()
            && groups.len() > 1
            && groups[1..].iter().all(|&digits| digits == 3);
        if is_date || is_address || is_version || is_price && !says_plus {
            return false;
        }
        if says_plus {
            return count >= 8;
        }
        if self.words + self.letters > 0 {
            // Two words may be a count of something; letters beside digits are said to be digits by the digits.
            return (self.words >= 2 || self.letters > 0) && count >= if self.words > 0 { 7 } else { 9 };
        }
        let hint = is_announced(before);
        if self.is_spaced_out() {
            return count >= 9;
        }
        match groups {
            [_] if hint => true,
            [10] => (b'2'..=b'9').contains(&digits[0]) && !(year(0) && is_day(&digits[4..8])),
            [11] => matches!(digits[0], b'0' | b'1' | b'7' | b'8'),
            [_] => false,
            // A number of the United States with its extension to the postal code.
            [5, 4] => hint,
            [3, 4] => hint || self.blanks == 0,
            _ => {
                let last = groups[groups.len() - 1];
                let pairs = count == 10 && digits[0] == b'0' && groups.iter().all(|&digits| digits == 2);
                let usual = groups.len() <= 6
                    && groups[0] <= 4
                    && last >= 2
                    && count >= 8
                    && groups[1..].iter().all(|&digits| (2..=8).contains(&digits))
                    && groups.iter().any(|&digits| digits >= 3);
                pairs || usual && (hint || self.other + self.dots > 0 || is_dialled(digits))
            }
        }
    }

    fn finish(self) -> String {
        match self.digits.strip_prefix("00") {
            Some(rest) if rest.len() >= 9 => rest.to_owned(),
            _ => self.digits,
        }
    }
}

/// Returns true if four digits are a month and a day.
fn is_day(digits: &[u8]) -> bool {
    (b"01"..=b"12").contains(&&[digits[0], digits[1]]) && (b"01"..=b"31").contains(&&[digits[2], digits[3]])
}

/// Returns true if digits begin with a trunk or international prefix, as they are dialled.
fn is_dialled(digits: &[u8]) -> bool {
    let prefix = digits.iter().take_while(|&&digit| digit == b'0').count();
    prefix == 1 && digits.len() <= 11 || prefix == 2
}

/// Returns true if a letter that looks like a digit has a digit, or another such letter and a digit, behind it.
fn stands_for_digit(plain: &str, at: usize) -> bool {
    let mut chars = plain[at..].chars();
    let next = chars.next();
    next.is_some_and(|c| c.is_ascii_digit())
        || next.is_some_and(|c| look_alike(c).is_some()) && chars.next().is_some_and(|c| c.is_ascii_digit())
}

/// Returns true if the words before a number say that it is a telephone number.
fn is_announced(before: &str) -> bool {
    const HINTS: [&str; 18] = [
        "tel", "phone", "call", "fax", "mobil", "cell", "whatsapp", "sms", "text", "dial", "ring ", "viber",
        "hotline", "тел", "звон", "моб", "电话", "電話",
    ];
    let from = before.ceil_char_boundary(before.len().saturating_sub(HINT_BYTES));
    HINTS.iter().any(|hint| before[from..].contains(hint))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(written: &str) -> Vec<(String, bool)> {
        let mut all = Vec::new();
        find(&crate::text::plain(written), |phone| all.push((phone.digits, phone.is_obfuscated)));
        all
    }

    fn check(written: &str, digits: &str, is_obfuscated: bool) {
        assert_eq!(found(written), [(digits.to_owned(), is_obfuscated)], "{written:?}");
    }

    #[test]
    fn numbers_are_found_as_they_are_written() {
        check("call +1 (800) 555-1234 now", "18005551234", false);
        check("Tel. 030 1234567", "0301234567", false);
        check("(212) 555-0199", "2125550199", false);
        check("8 (916) 123-45-67", "89161234567", false);
        check("01 42 68 53 01", "0142685301", false);
        check("txt to 09061701461", "09061701461", false);
        check("0049 30 1234567", "49301234567", false);
        check("тел: 9161234567", "9161234567", false);
        check("555-1239", "5551239", false);
        check("phone 5551239", "5551239", false);
        check("\u{1F4DE}8005551239\u{1F4DE}", "8005551239", false);
        check("电话13800138000", "13800138000", false);
    }

    #[test]
    fn what_is_said_to_be_a_number_is_read_whatever_its_form() {
        for (written, digits, is_obfuscated) in [
            ("1234567", Some("1234567"), false),
            ("+49 (30) 123-45-67", Some("49301234567"), false),
            ("0049 30 1234567", Some("49301234567"), false),
            ("tel. 555 12 39", Some("5551239"), false),
            ("five five five 1239", Some("5551239"), true),
            ("123", None, false),
            ("none", None, false),
            ("", None, false),
        ] {
            let read = number(&crate::text::plain(written));
            let expected = digits.map(|digits| PhoneNumber { digits: digits.into(), is_obfuscated });
            assert_eq!(read, expected, "{written:?}");
        }
    }

    #[test]
    fn numbers_are_found_through_obfuscations() {
        check("+４９ ３０ １２３４５６７", "49301234567", false);
        check("☎ ⑧⓪⓪-⑤⑤⑤-①②③④", "8005551234", false);
        check("8\u{FE0F}\u{20E3}0\u{FE0F}\u{20E3}0\u{FE0F}\u{20E3}-555-1239", "8005551239", false);
        check("8\u{336}0\u{336}0\u{336}-555-1239", "8005551239", false);
        check("call ٨٠٠-٥٥٥-١٢٣٩", "8005551239", false);
        check("eight zero zero five 5 five 1239", "8005551239", true);
        check("восемь девять один шесть 123 45 67", "89161234567", true);
        check("acht null null dash funf 5 5 1 2 3 9", "8005551239", true);
        check("8О0-555-12З9", "8005551239", true);
        check("8 0 0 5 5 5 1 2 3 9", "8005551239", true);
        check("加一三八零零一三八零零零", "13800138000", true);
    }

    #[test]
    fn other_digits_are_no_numbers() {
        for text in [
            "2002-08-22 12:36:23",
            "22.08.2002",
            "on 1999 - 2002",
            "192.168.10.20",
            "linux-2.4.18.1024",
            "$1.250.000",
            "order #123456789",
            "12345678",
            "1033123456",
            "90210-1234",
            "id=8005551234",
            "/8005551234/x",
            "1234567890",
            "0000000000",
            "100 200 300 400",
            "one two three",
            "sha1 8005551234abc",
            "10 20 30 40 50",
            "3.14159265",
            "ISBN 0-13-110362-8x",
            "x8005551234",
            "1,000,000,000",
            "7 of 9",
            "2002082212",
            "5 million or 10",
        ] {
            assert_eq!(found(text), [], "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_read(text in "[0-9a-zа-я一二.() +-]{0,80}|\\PC{0,60}") {
            for (digits, _) in found(&text) {
                prop_assert!(digits.bytes().all(|byte| byte.is_ascii_digit()) && DIGITS.contains(&digits.len()));
            }
        }
    }
}

//! Obfuscation of a text: its extent, and spaced-out or digit-written words put right.
//!
//! [`ObfuscationCounts::count`] looks at a text as it was written. [`deobfuscate`] takes what [`crate::text::plain`] made of it:
//! what is left there is no matter of Unicode but of reading, so it is done only where hardly anything else can be
//! meant: `v i a g r a`, `v.i.a.g.r.a`, `v1agra`, `c@sino`.

use std::borrow::Cow;

use unicode_script::Script;

use crate::text::character::{
    CharProperties, is_alphabetic, is_alphanumeric, is_emoji, is_mark, is_styled, script,
};
use crate::text::han::is_ideograph;
use crate::text::{
    AsciiLookalike, fold, is_enclosing, is_invisible, is_of_one_other_script, is_ornament, plain,
};

/// Marks on one letter beyond which they are stacked for show. Vietnamese and Hebrew have two.
const MARKS_MAX: usize = 2;
/// Fewest letters of a spaced-out word with a blank, and with another sign, between them.
const SPACED_LETTERS_MIN: (usize, usize) = (4, 5);
/// Most signs in a row between two ideographs that are read over.
const GAP_CHARS_MAX: usize = 3;
/// Longest word that is read with digits for letters; what is longer is code, a sum or an identifier.
const LEET_BYTES_MAX: usize = 24;

/// The number of times that each means of obfuscation was met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObfuscationCounts {
    /// Words that mix Latin letters with Cyrillic or Greek ones that imitate Latin letters.
    pub mixed_words: usize,
    /// Letters of other scripts that stand for a Latin letter in such words.
    pub look_alikes: usize,
    /// Full-width, circled, mathematical and other styled forms of ASCII letters and digits. Where there are ideographs,
    /// kana or hangul, full width is nothing odd.
    pub styled: usize,
    /// Characters that take no room, those below left out.
    pub invisible: usize,
    /// Controls that turn the direction of writing around.
    pub bidi: usize,
    /// Invisible tag characters that belong to no flag.
    pub tags: usize,
    /// Combining marks stacked on a letter that has two already or on one of another script, strokes through letters and signs
    /// around them.
    pub stacked: usize,
    /// Pictures.
    pub emoji: usize,
    /// Words with digits or signs for letters.
    pub leet_words: usize,
    /// Words whose letters are spaced out.
    pub spaced_words: usize,
}

impl ObfuscationCounts {
    /// Counts what is written in a text, all but [`ObfuscationCounts::leet_words`] and [`ObfuscationCounts::spaced_words`]. One
    /// pass; ASCII has nothing of it.
    pub fn count(&mut self, written: &str) {
        if written.is_ascii() {
            return;
        }
        let is_wide = |c: char| matches!(c, '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}');
        let has_wide = written.chars().any(is_wide);
        let (mut marks, mut base, mut in_flag, mut has_joiners) = (0, ' ', false, false);
        for c in written.chars() {
            if c.is_ascii() || CharProperties::of(c).is_usual() {
                (marks, base, in_flag) = (0, c, false);
                continue;
            }
            has_joiners |= matches!(c, '\u{200C}' | '\u{200D}');
            let is_mark = is_mark(c);
            marks = if is_mark { marks + 1 } else { 0 };
            if !is_mark {
                base = c;
            }
            let is_tag = matches!(c, '\u{E0000}'..='\u{E007F}');
            match c {
                _ if is_tag && in_flag => {}
                _ if is_tag => self.tags += 1,
                '\u{200E}' | '\u{200F}' | '\u{61C}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => {
                    self.bidi += 1;
                }
                // They belong to emoji and to the scripts that join letters.
                '\u{FE0E}' | '\u{FE0F}' | '\u{200D}' | '\u{200C}' => {}
                _ if is_invisible(c) => self.invisible += 1,
                // Strokes through letters hide them, even one by one.
                '\u{334}'..='\u{338}' => self.stacked += 1,
                _ if is_enclosing(c) => self.stacked += 1,
                _ if is_mark => {
                    let has_script = !matches!(script(c), Script::Inherited | Script::Common);
                    self.stacked += usize::from(marks > MARKS_MAX || has_script && is_ornament(c, base));
                }
                _ if is_emoji(c) => self.emoji += 1,
                '\u{FF10}'..='\u{FF5A}' if has_wide => {}
                _ => self.styled += usize::from(is_styled(c)),
            }
            in_flag = c == '\u{1F3F4}' || is_tag && in_flag;
        }
        if has_joiners {
            self.joiners(written);
        }
        for word in written.split(|c: char| !is_alphabetic(c)).filter(|word| !word.is_ascii()) {
            if is_of_one_other_script(word) || !word.chars().any(|c| script(c) == Script::Latin) {
                continue;
            }
            let imitates = |c: &char| {
                matches!(script(*c), Script::Cyrillic | Script::Greek) && AsciiLookalike::letter(*c).is_some()
            };
            let look_alikes = word.chars().filter(imitates).count();
            self.mixed_words += usize::from(look_alikes > 0);
            self.look_alikes += look_alikes;
        }
    }

    /// Joiners between ASCII letters join nothing.
    fn joiners(&mut self, written: &str) {
        let mut before = ' ';
        let mut pending = 0;
        for c in written.chars() {
            if matches!(c, '\u{200C}' | '\u{200D}') {
                pending += usize::from(before.is_ascii_alphanumeric());
                continue;
            }
            if c.is_ascii_alphanumeric() {
                self.invisible += pending;
            }
            pending = 0;
            before = c;
        }
    }

    /// Characters that are not what they seem to be, of all kinds.
    pub fn characters(&self) -> usize {
        self.look_alikes + self.styled + self.invisible + self.bidi + self.tags + self.stacked
    }
}

/// A text with its words put together again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeobfuscatedText<'t> {
    /// The text; borrowed where nothing was to do.
    pub text: Cow<'t, str>,
    /// Words that had digits or signs for letters.
    pub leet_words: usize,
    /// Words whose letters were spaced out.
    pub spaced_words: usize,
    /// Gaps between ideographs that were closed.
    pub closed_gaps: usize,
}

/// Joins letters that are spaced out, closes gaps between ideographs and reads digits for letters in a text of [`plain`].
/// Three passes.
pub fn deobfuscate(plain: &str) -> DeobfuscatedText<'_> {
    let (text, spaced_words) = join(plain);
    let (closed, closed_gaps) = close_gaps(&text);
    let text = closed.map_or(text, Cow::Owned);
    let (read, leet_words) = read_leet(&text);
    let text = read.map_or(text, Cow::Owned);
    DeobfuscatedText { text, leet_words, spaced_words, closed_gaps }
}

/// Takes blanks and signs out from between ideographs, whose scripts need none, and counts the gaps; no text where there are none.
/// Signs that end a sentence or a clause are taken only where an ideograph stands alone before or behind them. What is closed so
/// is not taken for obfuscation: wanted texts have such gaps, too.
fn close_gaps(plain: &str) -> (Option<String>, usize) {
    // Han and kana begin with these bytes in UTF-8.
    if !plain.bytes().any(|byte| matches!(byte, 0xE3..=0xE9 | 0xF0)) {
        return (None, 0);
    }
    let (mut out, mut copied, mut gaps) = (String::new(), 0, 0);
    // Ideographs in a row, up to where they end; signs behind them, ends of lines, and whether one ends a sentence.
    let (mut run, mut end, mut signs, mut lines, mut ends_sentence) = (0usize, 0, 0usize, 0usize, false);
    let mut chars = plain.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if is_ideograph(c) {
            let is_alone = !chars.peek().is_some_and(|&(_, next)| is_ideograph(next));
            if run > 0 && signs > 0 && lines < 2 && (!ends_sentence || run == 1 || is_alone) {
                out.push_str(&plain[copied..end]);
                copied = at;
                gaps += 1;
            }
            run = if signs > 0 { 1 } else { run + 1 };
            (end, signs, lines, ends_sentence) = (at + c.len_utf8(), 0, 0, false);
        } else if run > 0 && !is_alphanumeric(c) && signs < GAP_CHARS_MAX {
            signs += 1;
            lines += usize::from(c == '\n');
            ends_sentence |= matches!(c, ',' | '.' | '!' | '?' | ';' | ':' | '、' | '。' | '…');
        } else {
            (run, signs, lines, ends_sentence) = (0, 0, 0, false);
        }
    }
    if gaps > 0 {
        out.push_str(&plain[copied..]);
    }
    ((gaps > 0).then_some(out), gaps)
}

/// The form of a text in which phrases are looked for and texts are compared: [`crate::text::normalise`] with words put
/// together by [`deobfuscate`] before. Not idempotent: a digit that stays becomes `0`, and might be a letter the next time.
pub fn normalise(written: &str) -> String {
    fold(&deobfuscate(&plain(written)).text)
}

/// Joins what is spaced out: single letters with one same sign between them, at least [`SPACED_LETTERS_MIN`], that
/// are not merely a piece of the alphabet.
fn join(plain: &str) -> (Cow<'_, str>, usize) {
    let bytes = plain.as_bytes();
    let (mut out, mut copied, mut words) = (String::new(), 0, 0);
    let mut at = 0;
    // The end of the last letter or digit, behind which no word begins.
    let mut behind = usize::MAX;
    while let Some(&byte) = bytes.get(at) {
        // Most letters have another one behind them: two looks tell.
        if byte.is_ascii() {
            let is_alone = byte.is_ascii_lowercase()
                && behind != at
                && bytes.get(at + 1).copied().is_some_and(is_separator);
            if !is_alone {
                at += 1;
                if byte.is_ascii_alphanumeric() {
                    behind = at;
                }
                continue;
            }
        } else if behind == at || !plain[at..].starts_with(char::is_lowercase) {
            let length = plain[at..].chars().next().map_or(1, char::len_utf8);
            if plain[at..].starts_with(is_alphanumeric) {
                behind = at + length;
            }
            at += length;
            continue;
        }
        let (end, letters) = spaced(plain, at);
        if letters > 0 {
            out.push_str(&plain[copied..at]);
            let separator = plain[at..].chars().nth(1);
            out.extend(plain[at..end].chars().filter(|c| Some(*c) != separator));
            words += 1;
            copied = end;
            at = end;
        } else {
            at += plain[at..].chars().next().map_or(1, char::len_utf8);
        }
        behind = at;
    }
    if words == 0 {
        return (Cow::Borrowed(plain), 0);
    }
    out.push_str(&plain[copied..]);
    (Cow::Owned(out), words)
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b' ' | b'.' | b'-' | b'_' | b'*' | b'~' | b'+' | b'|' | b'/' | b',')
}

/// The end of a spaced-out word that begins at `start`, and its number of letters; 0 if there is none.
fn spaced(plain: &str, start: usize) -> (usize, usize) {
    let none = (start, 0);
    let mut chars = plain[start..].char_indices();
    let Some((_, mut last)) = chars.next() else { return none };
    let Some((_, separator)) = chars.next() else { return none };
    if !separator.is_ascii() || !is_separator(separator as u8) {
        return none;
    }
    let (mut letters, mut end, mut ascending) = (1, start + last.len_utf8(), true);
    while let Some((at, c)) = chars.next() {
        if !c.is_lowercase() {
            break;
        }
        match chars.next() {
            Some((_, next)) if next == separator => {}
            // A letter that is followed by another is the beginning of a word.
            Some((_, next)) if is_alphanumeric(next) => break,
            _ => {
                letters += 1;
                ascending &= u32::from(c) == u32::from(last) + 1;
                end = start + at + c.len_utf8();
                break;
            }
        }
        letters += 1;
        ascending &= u32::from(c) == u32::from(last) + 1;
        last = c;
        end = start + at + c.len_utf8();
    }
    let least = if separator == ' ' { SPACED_LETTERS_MIN.0 } else { SPACED_LETTERS_MIN.1 };
    if letters >= least && !ascending { (end, letters) } else { none }
}

/// Reads digits and signs for letters, word by word; `None` where no word has any.
fn read_leet(plain: &str) -> (Option<String>, usize) {
    let bytes = plain.as_bytes();
    let (mut out, mut copied, mut words) = (String::new(), 0, 0);
    let mut from = 0;
    while from < bytes.len() {
        // A digit or sign right between letters is rare, so it is what is looked for.
        let is_between = |at: &usize| {
            is_leet(bytes[*at])
                && at.checked_sub(1).is_some_and(|before| is_letter_byte(bytes[before]))
                && bytes[*at + 1..].iter().take(2).any(|&after| is_letter_byte(after))
        };
        let Some(at) = (from..bytes.len()).find(is_between) else { break };
        let is_inside = |byte: &u8| !byte.is_ascii_whitespace();
        let start = bytes[copied..at]
            .iter()
            .rposition(|byte| !is_inside(byte))
            .map_or(copied, |blank| copied + blank + 1);
        let end =
            bytes[at..].iter().position(|byte| !is_inside(byte)).map_or(bytes.len(), |blank| at + blank);
        if let Some(word) = leet_word(&plain[start..end]) {
            out.push_str(&plain[copied..start]);
            out.push_str(&word);
            copied = end;
            words += 1;
        }
        from = end;
    }
    if words == 0 {
        return (None, 0);
    }
    out.push_str(&plain[copied..]);
    (Some(out), words)
}

fn is_leet(byte: u8) -> bool {
    matches!(byte, b'0' | b'1' | b'3' | b'4' | b'5' | b'6' | b'7' | b'@' | b'$' | b'!' | b'|')
}

/// A lower-case ASCII letter, or a byte of any other character.
fn is_letter_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte >= 0x80
}

/// Reads a word with digits or signs for letters: at least three letters, at least twice as many as what stands for letters,
/// or as many as of signs, of which numbers are not made; nothing else in it, and not a number in base sixteen.
fn leet_word(word: &str) -> Option<String> {
    let is_edge =
        |c: char| matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | '"' | '\'' | '(' | ')' | '*' | '-');
    let core = word.trim_matches(is_edge);
    if core.len() > LEET_BYTES_MAX {
        return None;
    }
    let cyrillic = core.chars().any(|c| matches!(c, 'а'..='я'));
    let (mut letters, mut signs, mut digits, mut is_hex) = (0, 0, 0, true);
    let mut read = String::with_capacity(word.len());
    let mut inside = false;
    let start = word.find(core)?;
    read.push_str(&word[..start]);
    let mut chars = core.chars().peekable();
    let mut run = 0;
    while let Some(c) = chars.next() {
        let is_letter =
            if cyrillic { matches!(c, 'а'..='я' | 'і' | 'ї' | 'є') } else { c.is_ascii_lowercase() };
        if is_letter {
            letters += 1;
            is_hex &= c.is_ascii_hexdigit();
            run = 0;
            read.push(c);
            continue;
        }
        let stands_for = match (c, cyrillic) {
            ('0', false) => 'o',
            ('1' | '!' | '|', false) => 'i',
            ('3', false) => 'e',
            ('4' | '@', false) => 'a',
            ('5' | '$', false) => 's',
            ('7', false) => 't',
            ('0', true) => 'о',
            ('3', true) => 'з',
            ('4', true) => 'ч',
            ('6', true) => 'б',
            ('@', true) => 'а',
            _ => return None,
        };
        signs += 1;
        digits += usize::from(c.is_ascii_digit());
        run += 1;
        inside |= run <= 2 && letters > 0 && chars.peek().is_some_and(|c| is_alphabetic(*c));
        read.push(stands_for);
    }
    read.push_str(&word[start + core.len()..]);
    let is_word = letters >= 2 * signs || digits == 0 && letters >= signs;
    (inside && letters >= 3 && is_word && !is_hex).then_some(read)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(written: &str, expected: &str, leet_words: usize, spaced_words: usize) {
        let plain = plain(written);
        let undone = deobfuscate(&plain);
        assert_eq!(
            (undone.text.as_ref(), undone.leet_words, undone.spaced_words),
            (expected, leet_words, spaced_words),
            "{written:?}"
        );
    }

    #[test]
    fn letters_are_put_together() {
        check("buy V I A G R A now", "buy viagra now", 0, 1);
        check("F R E E  M O N E Y", "free  money", 0, 2);
        check("v.i.a.g.r.a!", "viagra!", 0, 1);
        check("c-i-a-l-i-s, l*o*a*n*s", "cialis, loans", 0, 2);
        check("з а р а б о т о к", "заработок", 0, 1);
        check("the U.S.A. and e.g. a b c d e f", "the u.s.a. and e.g. a b c d e f", 0, 0);
        check("a/b and x - y", "a/b and x - y", 0, 0);
        check("i a m here", "i a m here", 0, 0);
        check("T h i s", "this", 0, 1);
    }

    #[test]
    fn gaps_between_ideographs_are_closed() {
        check("代开 发票", "代开发票", 0, 0);
        check("開 發 票", "开发票", 0, 0);
        check("开*发-票, 电话 139", "开发票电话 139", 0, 0);
        check("开\u{1F600}发\n票", "开发票", 0, 0);
        check("开，发、票。", "开发票。", 0, 0);
        check("今天开会，发票明天再说。", "今天开会,发票明天再说。", 0, 0);
        check("开 --- 发 a 票", "开 --- 发 a 票", 0, 0);
        check("第一\n\n第二", "第一\n\n第二", 0, 0);
        check("カ・メ・ラ の 夏", "カメラの夏", 0, 0);
        check("한국 어 로", "한국 어 로", 0, 0);
        let undone = deobfuscate("开 发 票");
        assert_eq!((undone.closed_gaps, undone.spaced_words), (2, 0));
    }

    #[test]
    fn digits_are_read_as_letters() {
        check("V1AGRA and pr0f1t", "viagra and profit", 2, 0);
        check("c@sino, ca$h!", "casino, cash!", 2, 0);
        check("buy v!@gr@ now", "buy viagra now", 1, 0);
        check("зараб0ток и 3аработок", "заработок и 3аработок", 1, 0);
        check("ｖ１ａｇｒａ", "viagra", 1, 0);
        for text in [
            "h264 b2b 3d 1st",
            "joe@example.com",
            "deadbeef00d",
            "http://a.example/pr0fit",
            "a1b2c3",
            "2nd 4you",
        ] {
            check(text, text, 0, 0);
        }
        assert_eq!(normalise("l0ans  pr1zes 25"), "loans prizes 0");
    }

    #[test]
    fn obfuscations_are_counted() {
        let of = |text: &str| {
            let mut obfuscation = ObfuscationCounts::default();
            obfuscation.count(text);
            obfuscation
        };
        let none = ObfuscationCounts::default();
        assert_eq!(of("plain text, 100 %"), none);
        assert_eq!(
            of("Z\u{FC}rich, \u{43F}\u{440}\u{438}\u{432}\u{435}\u{442} world, 10 \u{B5}m, k\u{3A9}"),
            none
        );
        assert_eq!(
            of("p\u{430}ypal and p\u{430}yp\u{430}l"),
            ObfuscationCounts { mixed_words: 2, look_alikes: 3, ..none }
        );
        assert_eq!(of("ＦＲＥＥ ① \u{1D400}\u{1F130}"), ObfuscationCounts { styled: 7, ..none });
        assert_eq!(of("\u{4EF7}\u{683C} １００"), none);
        assert_eq!(of("vi\u{200B}ag\u{AD}ra"), ObfuscationCounts { invisible: 2, ..none });
        assert_eq!(
            of("a\u{200D}b \u{1F468}\u{200D}\u{1F469}"),
            ObfuscationCounts { invisible: 1, emoji: 2, ..none }
        );
        assert_eq!(of("\u{202E}txt.exe\u{202C}"), ObfuscationCounts { bidi: 2, ..none });
        assert_eq!(of("hi\u{E0041}\u{E0042}"), ObfuscationCounts { tags: 2, ..none });
        assert_eq!(of("\u{1F3F4}\u{E0067}\u{E0062}\u{E007F} ok"), ObfuscationCounts { emoji: 1, ..none });
        assert_eq!(of("Z\u{334}\u{31B}\u{351}\u{300}algo"), ObfuscationCounts { stacked: 3, ..none });
        assert_eq!(of("1\u{489}3\u{489}8\u{20DD} 2\u{E38}"), ObfuscationCounts { stacked: 4, ..none });
        assert_eq!(of("\u{299}\u{1D1C}\u{28F} \u{1F185}\u{1F151}"), ObfuscationCounts { styled: 5, ..none });
        assert_eq!(of("a\u{302}\u{301}a\u{323}\u{302}"), none);
    }

    proptest! {
        #[test]
        fn undoing_loses_no_other_character(text in "[a-z0-9 .,!@$а-я-]{0,60}") {
            let text = plain(&text);
            let undone = deobfuscate(&text);
            prop_assert!(undone.text.len() <= text.len() + 2 * text.chars().filter(char::is_ascii_digit).count() + text.len());
            if undone.leet_words + undone.spaced_words == 0 {
                prop_assert_eq!(undone.text.as_ref(), text.as_str());
            }
        }
    }
}

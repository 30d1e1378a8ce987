//! Text in the one form in which two writings of the same thing are equal.
//!
//! Senders who must not be recognised write words with look-alike letters, full-width or circled digits,
//! invisible characters and stacked accents. [`plain`] undoes what Unicode lets one undo, and [`normalise`] makes of
//! it the form whose hash does not change with the obfuscation; both are for hashing and matching, not for showing.
//! What takes guessing, letters that are spaced out or written as digits, is undone by [`crate::text::obfuscation`]. Plain
//! ASCII takes paths of its own that look at every byte once.

pub(crate) mod character;
pub mod classifier;
pub(crate) mod contact;
pub mod fingerprint;
pub(crate) mod han;
pub mod language;
pub(crate) mod name;
pub mod obfuscation;
pub mod phone;
pub mod phrase;
pub mod tokenizer;
pub mod wallet;

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{decompose_compatible, is_combining_mark};
use unicode_script::{Script, UnicodeScript};

use character::{CharProperties, ImitatedAscii, is_alphabetic, is_alphanumeric, is_mark, script};

/// Most bytes of a text that are normalised; what follows is not looked at.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;

/// The leading bytes of a text, at most `bytes_max`, cut between characters.
pub fn truncate(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// The text of bytes that a stranger sent: as UTF-8, or where they are none, byte for byte as ISO 8859-1. So no value is lost for one
/// byte in it, and different bytes are not taken for the same.
pub fn received(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.iter().map(|byte| char::from(*byte)).collect()),
    }
}

/// The form for hashing: what [`plain`] gives, with every run of digits folded to `0` and white space collapsed to
/// single spaces and trimmed. Idempotent; reads at most [`TEXT_BYTES_MAX`] bytes.
pub fn normalise(text: &str) -> String {
    fold(&plain(text))
}

/// The text without what Unicode has to obfuscate it by: compatibility forms resolved (NFKD: width, circles,
/// ligatures), lower case, accents, invisible and control characters dropped, look-alikes replaced by the letters
/// they imitate, digits of all scripts written in ASCII. White space stays. Reads at most [`TEXT_BYTES_MAX`] bytes.
///
/// Look-alikes are those of UTS #39 whose prototype is ASCII. A word written wholly in one other script is left
/// as it is: Russian stays readable to rules, while a Latin word with one Cyrillic `о` in it becomes Latin. In a
/// word that has Cyrillic letters which imitate nothing, and no Latin ones but such as look Cyrillic, it is the Latin
/// letters that imitate. Accents that belong to a script of their own (Devanagari, Thai, ...) are letters there and
/// stay; on a digit or on a letter of another script they are ornaments and go, as signs that enclose a character do.
/// Traditional Chinese characters become simplified ones.
pub fn plain(text: &str) -> String {
    let text = truncate(text, TEXT_BYTES_MAX);
    if !text.is_ascii() {
        return plain_unicode(text);
    }
    let mut plain = text.to_ascii_lowercase();
    if plain.bytes().any(is_dropped_control) {
        plain.retain(|c| !c.is_ascii() || !is_dropped_control(c as u8));
    }
    plain
}

/// Returns true if an ASCII character shows nothing and is no white space.
fn is_dropped_control(byte: u8) -> bool {
    byte.is_ascii_control() && !matches!(byte, b'\t'..=b'\r')
}

/// Most characters that one is taken apart into. Beyond it are U+FDFA, a phrase of eighteen, and some thirty words in a
/// square: nobody obfuscates a word by them, and a text of nothing else would grow eleven times.
const DECOMPOSITION_MAX: usize = 4;

/// Most accents in a row that are kept, as in the stream-safe form of UAX #15: no language has as many, and putting them in
/// order costs more for each the more they are.
const ACCENTS_MAX: usize = 30;

/// Takes a character apart and drops what is no letter of it. Hangul stays in syllables: they would only be put together
/// again.
fn take_apart(c: char, mut emit: impl FnMut(char)) {
    let mut parts = [c; DECOMPOSITION_MAX];
    let mut count = 0;
    if !matches!(c, '\u{AC00}'..='\u{D7A3}') {
        decompose_compatible(c, |part| {
            if let Some(place) = parts.get_mut(count) {
                *place = part;
            }
            count += 1;
        });
    }
    // One that does not come apart, or into too many, is what it is.
    let parts = if (1..=DECOMPOSITION_MAX).contains(&count) { &parts[..count] } else { &[c] };
    parts
        .iter()
        .filter(|part| !is_dropped(**part))
        .for_each(|part| emit(styled_ascii(*part).unwrap_or(*part)));
}

/// The ASCII letter or digit that a character is a styled form of, where Unicode does not say so: letters in black squares
/// and circles, small capitals.
pub(crate) fn styled_ascii(c: char) -> Option<char> {
    const SMALL_CAPITALS: [(char, char); 25] = [
        ('\u{1D00}', 'a'),
        ('\u{299}', 'b'),
        ('\u{1D04}', 'c'),
        ('\u{1D05}', 'd'),
        ('\u{1D07}', 'e'),
        ('\u{A730}', 'f'),
        ('\u{262}', 'g'),
        ('\u{29C}', 'h'),
        ('\u{26A}', 'i'),
        ('\u{1D0A}', 'j'),
        ('\u{1D0B}', 'k'),
        ('\u{29F}', 'l'),
        ('\u{1D0D}', 'm'),
        ('\u{274}', 'n'),
        ('\u{1D0F}', 'o'),
        ('\u{1D18}', 'p'),
        ('\u{A7AF}', 'q'),
        ('\u{280}', 'r'),
        ('\u{A731}', 's'),
        ('\u{1D1B}', 't'),
        ('\u{1D1C}', 'u'),
        ('\u{1D20}', 'v'),
        ('\u{1D21}', 'w'),
        ('\u{28F}', 'y'),
        ('\u{1D22}', 'z'),
    ];
    let of_alphabet =
        |first: u32| u8::try_from(u32::from(c) - first).ok().map(|place| char::from(b'a' + place));
    match c {
        '\u{1F150}'..='\u{1F169}' => of_alphabet(0x1F150),
        '\u{1F170}'..='\u{1F189}' => of_alphabet(0x1F170),
        '\u{1F10B}' | '\u{1F10C}' => Some('0'),
        '\u{262}'..='\u{29F}' | '\u{1D00}'..='\u{1D22}' | '\u{A730}'..='\u{A7AF}' => {
            SMALL_CAPITALS.iter().find(|(small, _)| *small == c).map(|(_, ascii)| *ascii)
        }
        _ => None,
    }
}

/// Returns true if an accent does not belong on the character before it: it is an ornament there.
pub(crate) fn is_ornament(accent: char, base: char) -> bool {
    is_alphanumeric(base) && (digit(base).is_some() || script(base) != script(accent))
}

/// Text in lower case and taken apart, without what is dropped.
fn lower_parts(text: &str) -> String {
    let mut lower = String::with_capacity(text.len());
    let (mut accents, mut base) = (0, ' ');
    let mut push = |c: char| {
        if !is_mark(c) {
            (accents, base) = (0, c);
        } else if is_ornament(c, base) {
            return;
        } else {
            accents += 1;
        }
        if accents <= ACCENTS_MAX {
            lower.push(c);
        }
    };
    for c in text.chars() {
        if c.is_ascii() {
            if !is_dropped_control(c as u8) {
                push(c.to_ascii_lowercase());
            }
            continue;
        }
        if CharProperties::of(c).is_plain() {
            push(c);
        } else {
            lower_parts_of(c, &mut push);
        }
    }
    lower
}

/// Hands on what a character is in lower case and taken apart, without what is dropped.
fn lower_parts_of(c: char, mut emit: impl FnMut(char)) {
    take_apart(c, |part| {
        let mut small = part.to_lowercase();
        if part.is_ascii() {
            emit(part.to_ascii_lowercase());
        } else if small.len() == 1 && small.next() == Some(part) {
            emit(part);
        } else {
            // Lower case may decompose anew (`ẞ`, `İ`), and so may bring accents of its own.
            part.to_lowercase().for_each(|c| take_apart(c, &mut emit));
        }
    });
}

fn plain_unicode(text: &str) -> String {
    let lower = lower_parts(text);
    let mut out = String::with_capacity(lower.len());
    let mut has_lookalikes = false;
    let mut rest = lower.as_str();
    while let Some(first) = rest.chars().next() {
        let in_word = is_alphabetic(first);
        let end = rest.find(|c: char| is_alphabetic(c) != in_word).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        if run.is_ascii() {
            out.push_str(run);
            continue;
        }
        if in_word && is_cyrillic_with_latin(run) {
            has_lookalikes = true;
            for c in run.chars() {
                if script(c) == Script::Cyrillic || !as_cyrillic(c, |c| out.push(c)) {
                    out.push(c);
                }
            }
            continue;
        }
        let imitates = in_word && !is_of_one_other_script(run);
        for c in run.chars() {
            if matches!(c, '\u{3400}'..='\u{9FFF}') {
                out.push(han::simplified(c));
                continue;
            }
            if let Some(value) = digit(c) {
                out.push(char::from(b'0' + value));
                continue;
            }
            // Outside words: typographic quotes and dashes, but not the Devanagari danda that looks like an `l`.
            let imitated = match in_word {
                true if imitates && !c.is_ascii() => AsciiLookalike::letter(c),
                false if !c.is_ascii() => AsciiLookalike::by(c).filter(AsciiLookalike::is_punctuation),
                _ => None,
            };
            match imitated {
                Some(imitated) => {
                    has_lookalikes = true;
                    out.extend(imitated.chars());
                }
                None => out.push(c),
            }
        }
    }
    if has_lookalikes {
        // An accent of the script that a look-alike came from is an ornament on the letter that it imitated.
        let mut base = ' ';
        out.retain(|c| match is_mark(c) {
            true => !is_ornament(c, base),
            false => {
                base = c;
                true
            }
        });
    }
    // Composes again what was taken apart and is no accent: Indic vowels.
    if out.chars().all(|c| CharProperties::of(c).stays_composed()) { out } else { out.nfc().collect() }
}

/// The Cyrillic letter that looks like a lower-case Latin one, upright or as a capital.
fn cyrillic_of(latin: char) -> Option<char> {
    Some(match latin {
        'a' => 'а',
        'b' => 'в',
        'c' => 'с',
        'e' => 'е',
        'h' => 'н',
        'i' => 'і',
        'k' => 'к',
        'm' => 'м',
        'o' => 'о',
        'p' => 'р',
        's' => 'ѕ',
        't' => 'т',
        'x' => 'х',
        'y' => 'у',
        _ => return None,
    })
}

/// Hands on the Cyrillic letters that a letter of another script looks like; false, and nothing, where it looks like
/// none.
fn as_cyrillic(c: char, mut emit: impl FnMut(char)) -> bool {
    let latin = match u8::try_from(c).ok().filter(u8::is_ascii) {
        Some(byte) => Some(AsciiLookalike { ascii: [byte; 8], length: 1 }),
        None => AsciiLookalike::letter(c),
    };
    let Some(latin) = latin else { return false };
    let looks = latin.chars().all(|c| cyrillic_of(c).is_some());
    if looks {
        latin.chars().filter_map(cyrillic_of).for_each(&mut emit);
    }
    looks
}

/// Returns true if a word of Latin and Cyrillic letters is obfuscated Cyrillic.
fn is_cyrillic_with_latin(word: &str) -> bool {
    let (mut latin, mut own) = (false, false);
    for c in word.chars() {
        if script(c) == Script::Cyrillic {
            own |= matches!(c, 'а'..='я') && AsciiLookalike::letter(c).is_none();
        } else if as_cyrillic(c, |_| {}) {
            latin = true;
        } else {
            return false;
        }
    }
    latin && own
}

/// Collapses white space and runs of digits, and drops control characters.
pub(crate) fn fold(plain: &str) -> String {
    let mut out = String::with_capacity(plain.len());
    let mut folder = TextFolder::default();
    if plain.is_ascii() {
        plain.bytes().for_each(|byte| folder.push(byte.into(), &mut out));
    } else {
        plain.chars().for_each(|c| folder.push(c, &mut out));
    }
    out
}

/// Collapses white space and digit runs while characters are pushed.
#[derive(Default)]
struct TextFolder {
    space: bool,
    digits: bool,
}

impl TextFolder {
    fn push(&mut self, c: char, out: &mut String) {
        if c.is_whitespace() {
            self.space = true;
            return;
        }
        if c.is_control() {
            return;
        }
        let digit = c.is_ascii_digit();
        if std::mem::take(&mut self.space) && !out.is_empty() {
            out.push(' ');
            self.digits = false;
        }
        if !digit {
            out.push(c);
        } else if !self.digits {
            out.push('0');
        }
        self.digits = digit;
    }
}

/// Signs that enclose the character before them (Unicode general category Me), but for that of keys, which emoji have.
pub(crate) fn is_enclosing(c: char) -> bool {
    matches!(c, '\u{488}' | '\u{489}' | '\u{1ABE}' | '\u{20DD}'..='\u{20E0}' | '\u{20E2}' | '\u{20E4}'
        | '\u{A670}'..='\u{A672}')
}

/// Accents that belong to no script of their own, signs around characters, and characters that show nothing.
fn is_dropped(c: char) -> bool {
    is_invisible(c)
        || is_enclosing(c)
        || c.is_control() && !c.is_whitespace()
        || is_combining_mark(c) && matches!(c.script(), Script::Inherited | Script::Common)
}

/// Characters that take no room or turn the direction of writing: zero-width spaces and joiners, soft hyphen,
/// bidirectional controls, variation selectors, fillers and tags (UAX #44 Default_Ignorable_Code_Point, the
/// ones that are assigned).
pub fn is_invisible(c: char) -> bool {
    match c {
        '\0'..='\u{AC}' => false,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{3164}' => {
            true
        }
        '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' => true,
        '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' => true,
        '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}' => true,
        _ => false,
    }
}

/// Returns true if all letters are of one script and that is not Latin.
pub(crate) fn is_of_one_other_script(word: &str) -> bool {
    let mut scripts = word.chars().map(script).filter(|s| !matches!(s, Script::Common | Script::Inherited));
    match scripts.next() {
        Some(Script::Latin) | None => false,
        Some(first) => scripts.all(|script| script == first),
    }
}

/// The ASCII that a character imitates, lower case.
pub(crate) struct AsciiLookalike {
    ascii: [u8; 8],
    length: usize,
}

impl AsciiLookalike {
    /// The character's prototype (UTS #39, skeleton), if that is ASCII.
    pub(crate) fn by(c: char) -> Option<AsciiLookalike> {
        match CharProperties::of(c).imitated() {
            ImitatedAscii::Nothing => None,
            ImitatedAscii::One(byte) => Some(AsciiLookalike { ascii: [byte; 8], length: 1 }),
            ImitatedAscii::Several => AsciiLookalike::find(c),
        }
    }

    fn find(c: char) -> Option<AsciiLookalike> {
        let mut buffer = [0; 4];
        let mut imitated = AsciiLookalike { ascii: [0; 8], length: 0 };
        for part in unicode_security::skeleton(c.encode_utf8(&mut buffer)) {
            *imitated.ascii.get_mut(imitated.length).filter(|_| part.is_ascii())? =
                part.to_ascii_lowercase() as u8;
            imitated.length += 1;
        }
        // UTS #39 gives `m` the prototype `rn`; ASCII is kept as it is here, so what imitates `m` must be one.
        if imitated.ascii[..imitated.length] == *b"rn" {
            imitated = AsciiLookalike { ascii: [b'm'; 8], length: 1 };
        }
        Some(imitated).filter(|imitated| imitated.length > 0)
    }

    /// The letters that a letter looks like. One that looks like a digit, as `б` does, is left as it is: words would
    /// fall apart.
    pub(crate) fn letter(c: char) -> Option<AsciiLookalike> {
        AsciiLookalike::by(c).filter(|imitated| imitated.chars().all(|c| c.is_ascii_alphabetic()))
    }

    fn bytes(&self) -> &[u8] {
        &self.ascii[..self.length]
    }

    pub(crate) fn chars(&self) -> impl Iterator<Item = char> {
        self.bytes().iter().map(|&byte| char::from(byte))
    }

    fn is_punctuation(&self) -> bool {
        self.chars().all(|c| c.is_ascii_punctuation())
    }
}

/// Zeros of the blocks of ten decimal digits (Unicode general category Nd) beyond ASCII.
const ZEROS: [u32; 65] = [
    0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66, 0x0DE6,
    0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0,
    0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10, 0x104A0, 0x10D30,
    0x11066, 0x110F0, 0x11136, 0x111D0, 0x112F0, 0x11450, 0x114D0, 0x11650, 0x116C0, 0x11730, 0x118E0,
    0x11950, 0x11C50, 0x11D50, 0x11DA0, 0x16A60, 0x16AC0, 0x16B50, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC,
    0x1D7F6, 0x1E140, 0x1E2F0, 0x1E950, 0x1FBF0,
];

/// The value of a digit of any script, full-width, mathematical, superscript or circled included.
#[inline]
pub fn digit(c: char) -> Option<u8> {
    match c {
        '0'..='9' => Some(c as u8 - b'0'),
        '\0'..='\u{B1}' => None,
        _ => CharProperties::of(c).digit(),
    }
}

/// See [`digit`].
fn find_digit(c: char) -> Option<u8> {
    let code = u32::from(c);
    let value = match c {
        '0'..='9' => code - 0x30,
        '\0'..='\u{B1}' => return None,
        '²' | '³' => code - 0xB0,
        '¹' => 1,
        '⁰' => 0,
        '⁴'..='⁹' => code - 0x2070,
        '₀'..='₉' => code - 0x2080,
        '①'..='⑨' => code - 0x245F,
        '⑴'..='⑼' => code - 0x2473,
        '⒈'..='⒐' => code - 0x2487,
        '⓪' | '⓿' => 0,
        '⓵'..='⓽' => code - 0x24F4,
        '❶'..='❾' => code - 0x2775,
        '➀'..='➈' => code - 0x277F,
        '➊'..='➒' => code - 0x2789,
        _ => {
            let block = ZEROS.partition_point(|&zero| zero <= code).checked_sub(1)?;
            code - ZEROS[block]
        }
    };
    u8::try_from(value).ok().filter(|&value| value <= 9)
}

/// The text with every run of ASCII digits written as one `0`: names of programs without their versions.
pub fn mask_digits(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('0') {
            out.push('0');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(normalise(text), expected, "{text:?}");
    }

    #[test]
    fn no_byte_empties_a_text() {
        assert_eq!(received("nikto ä".as_bytes()), "nikto ä");
        assert_eq!(received(b"nikto\xff"), "niktoÿ");
        assert_eq!(received(b"\xc3\x28"), "Ã(");
    }

    #[test]
    fn obfuscations_come_off() {
        check("  Buy\r\n NOW\t 100 % ", "buy now 0 %");
        check("order 12,345 or 99", "order 0,0 or 0");
        check("a1b22", "a0b0");
        check("ＶＩＡＧＲＡ ４２", "viagra 0");
        check("vi\u{200B}ag\u{AD}ra", "viagra");
        check("V\u{EF}\u{E0}gr\u{E2}", "viagra");
        check("Z\u{334}\u{31B}\u{351}algo", "zalgo");
        check("p\u{430}yp\u{430}l", "paypal");
        check("\u{421}\u{43E}\u{43B}\u{43E} \u{432} \u{43F}\u{43E}\u{43B}\u{435}", "соло в поле");
        check("①②③ ٤٥", "0 0");
        assert_eq!(plain("1\u{489}3\u{489}8\u{488}0\u{20DD}0\u{A670} 1\u{483}2\u{E38}"), "13800 12");
        check("\u{432}\u{483}", "\u{432}\u{483}");
        check(
            "\u{1D04}\u{1D00}\u{A731}\u{26A}\u{274}\u{1D0F} \u{299}\u{1D0F}\u{274}\u{1D1C}\u{A731}",
            "casino bonus",
        );
        check(
            "\u{1F185}\u{1F178}\u{1F170}\u{1F176}\u{1F181}\u{1F170} \u{1F151}\u{1F164}\u{1F168}",
            "viagra buy",
        );
        check("開發票", "开发票");
        check("\u{10784}\u{1A6}", "br");
        check("⑩", "0");
        check("한국어", "한국어");
        check("हिन्दी", "हिन्दी");
        check("\u{1D400}\u{1D401}", "ab");
        check("\u{A8CF}", "\u{A8CF}");
        check("\u{2018}a\u{2011}b\u{2019} \u{964}", "'a-b' \u{964}");
        check("", "");
        check("\u{200B}", "");
    }

    #[test]
    fn no_text_grows_by_being_normalised() {
        for unit in [
            "\u{FDFA}",
            "\u{FDFB}",
            "\u{3316}",
            "\u{337F}",
            "\u{1E9E}",
            "\u{130}",
            "\u{D55C}",
            "\u{E38}\u{E48}",
        ] {
            let text = unit.repeat(1_000);
            let plain = plain(&text);
            assert!(plain.len() <= DECOMPOSITION_MAX * text.len(), "{unit:?}: {} bytes", plain.len());
        }
        // What stands behind such signs is read all the same.
        assert!(normalise(&("\u{FDFA}".repeat(80_000) + " V\u{456}agra")).ends_with(" viagra"));
        assert_eq!(plain(&"\u{E38}\u{E48}".repeat(1_000)).chars().count(), ACCENTS_MAX);
    }

    #[test]
    fn digits_of_all_scripts_have_values() {
        for (text, expected) in [
            ("０１２９", "0129"),
            ("٠١٩", "019"),
            ("१२३", "123"),
            ("①❷➌", "123"),
            ("⁷₈", "78"),
            ("Ⅷ", "viii"),
        ] {
            assert_eq!(plain(text), expected);
        }
        assert_eq!(digit('\u{66A}'), None, "the Arabic per cent sign follows the digits");
        assert_eq!(mask_digits("Outlook 16.0.4266"), "Outlook 0.0.0");
    }

    #[test]
    fn accents_go_with_the_letter_that_imitated() {
        // An Arabic letter, and a Hebrew one with a dagesh that looks like an `o`.
        check("\u{1EE61}\u{FB41}", "\u{628}o");
        check("\u{627}\u{5E1}\u{5BC}\u{5BC}b", "lob");
    }

    #[test]
    fn words_are_of_the_script_of_what_imitates_nothing() {
        // `пpивeт` with Latin p and e, `зaрaбoток` with a and o.
        check("\u{43F}p\u{438}\u{432}e\u{442}", "\u{43F}\u{440}\u{438}\u{432}\u{435}\u{442}");
        check("\u{437}a\u{440}a\u{431}o\u{442}", "\u{437}\u{430}\u{440}\u{430}\u{431}\u{43E}\u{442}");
        check("p\u{430}yp\u{430}l", "paypal");
        check("\u{437}\u{A733}", "\u{437}\u{430}\u{430}");
        // Neither all Cyrillic nor all Latin.
        check("\u{437}a\u{440}\u{430}\u{431}R", "\u{437}apa\u{431}r");
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(text in "\\PC{0,40}|[a-zа-яα-ω\u{300}-\u{310}\u{200b}0-9٠-٩ ]{0,30}|[ -~]{0,60}") {
            let once = normalise(&text);
            prop_assert_eq!(normalise(&once), once);
        }
    }
}

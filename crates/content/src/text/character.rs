//! Properties of characters, answered by one look.
//!
//! Scripts, look-alikes and decompositions lie in tables of thousands of ranges, and a text asks several of them for each of its
//! characters. The answers for 256 characters in a row are found when the first of them is met, and kept.

use std::sync::OnceLock;

use unicode_normalization::char::{canonical_combining_class, is_combining_mark};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};
use unicode_script::{Script, UnicodeScript};

use crate::text::{AsciiLookalike, find_digit, is_invisible, lower_parts_of, styled_ascii};

/// Characters of a block.
const BLOCK: usize = 256;
/// Blocks of the first two planes, in which nearly all that is written lies. To find the answers for all of them costs some 40 ms,
/// once.
const BLOCKS: usize = 2 * 0x10000 / BLOCK;

static PROPERTIES: [OnceLock<Box<[CharProperties; BLOCK]>>; BLOCKS] = [const { OnceLock::new() }; BLOCKS];

/// The ASCII that a character looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImitatedAscii {
    Nothing,
    One(u8),
    /// Several characters, which are found anew.
    Several,
}

/// The properties of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CharProperties {
    script: Script,
    /// The value of one that is a digit.
    digit: Option<u8>,
    is_alphabetic: bool,
    is_alphanumeric: bool,
    is_mark: bool,
    is_plain: bool,
    is_usual: bool,
    stays_composed: bool,
    imitated: ImitatedAscii,
}

impl CharProperties {
    /// The properties of a character, kept from when its block was first asked for.
    #[inline]
    pub(crate) fn of(c: char) -> CharProperties {
        let code = c as usize;
        match PROPERTIES.get(code / BLOCK) {
            Some(block) => block.get_or_init(|| CharProperties::of_block(code / BLOCK))[code % BLOCK],
            None => CharProperties::find(c),
        }
    }

    #[cold]
    fn of_block(block: usize) -> Box<[CharProperties; BLOCK]> {
        let at = |place: usize| u32::try_from(block * BLOCK + place).ok().and_then(char::from_u32);
        Box::new(std::array::from_fn(|place| CharProperties::find(at(place).unwrap_or('\u{FFFD}'))))
    }

    /// The properties as the tables of Unicode have them.
    fn find(c: char) -> CharProperties {
        let mut parts = String::new();
        lower_parts_of(c, |part| parts.push(part));
        CharProperties {
            script: c.script(),
            digit: find_digit(c),
            is_alphabetic: c.is_alphabetic(),
            is_alphanumeric: c.is_alphanumeric(),
            is_mark: is_combining_mark(c),
            is_plain: !is_combining_mark(c) && parts.chars().eq([c]),
            is_usual: !(is_combining_mark(c) || is_invisible(c) || is_emoji(c) || is_styled(c)),
            stays_composed: canonical_combining_class(c) == 0
                && is_nfc_quick(std::iter::once(c)) == IsNormalized::Yes,
            imitated: ImitatedAscii::of(AsciiLookalike::find(c)),
        }
    }

    /// See [`crate::text::digit`].
    pub(crate) fn digit(self) -> Option<u8> {
        self.digit
    }

    /// Returns true if the character is in lower case, comes not apart, is shown, and is no accent.
    pub(crate) fn is_plain(self) -> bool {
        self.is_plain
    }

    /// Returns true if the character is no accent, picture or other form of an ASCII letter or digit, and takes room.
    pub(crate) fn is_usual(self) -> bool {
        self.is_usual
    }

    /// Returns true if a text of nothing but such characters is in NFC.
    pub(crate) fn stays_composed(self) -> bool {
        self.stays_composed
    }

    /// See [`AsciiLookalike::by`].
    pub(crate) fn imitated(self) -> ImitatedAscii {
        self.imitated
    }
}

impl ImitatedAscii {
    fn of(lookalike: Option<AsciiLookalike>) -> ImitatedAscii {
        match lookalike.as_ref().map(AsciiLookalike::bytes) {
            None => ImitatedAscii::Nothing,
            Some(&[byte]) => ImitatedAscii::One(byte),
            Some(_) => ImitatedAscii::Several,
        }
    }
}

/// The script that a character belongs to.
#[inline]
pub(crate) fn script(c: char) -> Script {
    CharProperties::of(c).script
}

/// Returns true for a letter, as [`char::is_alphabetic`] does.
#[inline]
pub(crate) fn is_alphabetic(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphabetic() } else { CharProperties::of(c).is_alphabetic }
}

/// Returns true for an accent, as [`is_combining_mark`] does.
#[inline]
pub(crate) fn is_mark(c: char) -> bool {
    !c.is_ascii() && CharProperties::of(c).is_mark
}

/// Returns true for a letter or a numeral, as [`char::is_alphanumeric`] does.
#[inline]
pub(crate) fn is_alphanumeric(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphanumeric() } else { CharProperties::of(c).is_alphanumeric }
}

/// Returns true if a character is an ASCII letter or digit in another form. Superscripts, ordinals, ligatures and letters
/// with accents are not: texts have them.
pub(super) fn is_styled(c: char) -> bool {
    match c {
        '\u{FF10}'..='\u{FF5A}' | '\u{1D400}'..='\u{1D7FF}' | '\u{24B6}'..='\u{24EA}' => {
            std::iter::once(c).nfkd().all(|c| c.is_ascii_alphanumeric())
        }
        '\u{2460}'..='\u{249B}' | '\u{249C}'..='\u{24B5}' | '\u{2776}'..='\u{2793}' => true,
        '\u{1F110}'..='\u{1F189}' | '\u{1FBF0}'..='\u{1FBF9}' => true,
        '\u{1D00}'..='\u{1D22}' => true,
        _ => styled_ascii(c).is_some(),
    }
}

/// Pictures, of the blocks that have next to nothing else (UTS #51).
pub(super) fn is_emoji(c: char) -> bool {
    matches!(c,
        '\u{2600}'..='\u{2775}' | '\u{2794}'..='\u{27BF}' | '\u{2B05}'..='\u{2B07}' | '\u{2B1B}' | '\u{2B1C}'
        | '\u{2B50}' | '\u{2B55}' | '\u{231A}' | '\u{231B}' | '\u{23E9}'..='\u{23FA}'
        | '\u{1F000}'..='\u{1F0FF}' | '\u{1F18E}'..='\u{1F1FF}' | '\u{1F200}'..='\u{1F251}'
        | '\u{1F300}'..='\u{1FAFF}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::digit;

    #[test]
    fn properties_are_those_of_unicode() {
        for c in '\0'..=char::MAX {
            // Each block once, and all of the first, whose ASCII has a way of its own.
            if !(c as usize).is_multiple_of(97) && c >= '\u{3000}' {
                continue;
            }
            assert_eq!(CharProperties::of(c), CharProperties::find(c), "{c:?}");
            assert_eq!((script(c), digit(c)), (c.script(), find_digit(c)), "{c:?}");
            let letters = (c.is_alphabetic(), c.is_alphanumeric());
            assert_eq!((is_alphabetic(c), is_alphanumeric(c)), letters, "{c:?}");
            assert_eq!(is_mark(c), is_combining_mark(c), "{c:?}");
        }
    }
}

//! Chinese characters: traditional ones folded to simplified ones, so that a word is found in either writing.
//!
//! The table is OpenCC's (`han_variants.txt`, written by `scripts/han-variants`). The fold takes characters one by one and some
//! simplified ones stand for several traditional ones: it is for matching, not for showing.

use std::sync::LazyLock;

/// The first character that has a variant, and the number of those behind it that are looked up.
const FIRST: u32 = 0x3400;
const COUNT: usize = 0x6C00;

static SIMPLIFIED: LazyLock<Box<[u16]>> = LazyLock::new(|| {
    let mut table: Box<[u16]> = (FIRST..).map(|code| code as u16).take(COUNT).collect();
    let lines = include_str!("han_variants.txt").lines().filter(|line| !line.starts_with('#'));
    for pair in lines.flat_map(|line| line.split(' ')) {
        let mut chars = pair.chars();
        let (Some(traditional), Some(simplified)) = (chars.next().and_then(place), chars.next()) else {
            continue;
        };
        table[traditional] = u32::from(simplified) as u16;
    }
    table
});

fn place(c: char) -> Option<usize> {
    let place = u32::from(c).checked_sub(FIRST)? as usize;
    (place < COUNT).then_some(place)
}

/// The simplified form of a character; of any other the character itself.
pub(crate) fn simplified(c: char) -> char {
    let Some(place) = place(c) else { return c };
    char::from_u32(SIMPLIFIED[place].into()).unwrap_or(c)
}

/// Returns true if a character is of a script that is written without blanks between words: Han, kana, bopomofo.
pub(crate) fn is_ideograph(c: char) -> bool {
    matches!(c,
        '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{3096}' | '\u{309D}'..='\u{309F}' | '\u{30A1}'..='\u{30FA}'
        | '\u{30FC}'..='\u{30FF}' | '\u{3105}'..='\u{312F}' | '\u{3400}'..='\u{9FFF}' | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traditional_characters_become_simplified_ones() {
        let fold = |text: &str| text.chars().map(simplified).collect::<String>();
        assert_eq!(fold("開發票，臺灣電話"), "开发票，台湾电话");
        assert_eq!(fold("开发票 abc ひらがな 한국어 \u{20000}"), "开发票 abc ひらがな 한국어 \u{20000}");
        assert_eq!(place('\u{33FF}').or(place('\u{A000}')), None);
    }

    #[test]
    fn folding_twice_changes_nothing() {
        for c in (FIRST..).take(COUNT).filter_map(char::from_u32) {
            let once = simplified(c);
            assert_eq!(simplified(once), once, "{c}");
        }
    }
}

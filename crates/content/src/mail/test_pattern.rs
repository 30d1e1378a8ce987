//! Texts that mean nothing and are there to test filters: GTUBE, the generic test for unsolicited bulk email, which
//! SpamAssassin began, and the variants of it that Rspamd knows.
//!
//! (Source: <https://spamassassin.apache.org/gtube/>, <https://docs.rspamd.com/other/gtube_patterns/>.)

use memchr::memmem;

/// All of a test text but its first letter, which says what is asked for. A file with the whole would be refused on its way.
const TAIL: &[u8] = b"JS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
/// Most places that are looked at.
const PLACES_MAX: usize = 64;

/// The action that a test text asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TestPattern {
    /// To be marked: Rspamd's texts for `add header` and `rewrite subject`.
    Tag,
    /// To be refused: GTUBE itself.
    Reject,
}

impl TestPattern {
    /// The severest that a text holds. Rspamd's text that asks for no action is none: anybody could write it.
    pub fn find(text: &str) -> Option<TestPattern> {
        let text = text.as_bytes();
        let starts = memmem::find_iter(text, TAIL).take(PLACES_MAX);
        starts.filter_map(|at| TestPattern::of(*text.get(at.checked_sub(1)?)?)).max()
    }

    fn of(letter: u8) -> Option<TestPattern> {
        match letter {
            b'X' => Some(TestPattern::Reject),
            b'Y' | b'Z' => Some(TestPattern::Tag),
            _ => None,
        }
    }

    /// Returns the name that rules use for the pattern.
    pub fn name(self) -> &'static str {
        match self {
            TestPattern::Tag => "tag",
            TestPattern::Reject => "reject",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(letter: char) -> String {
        format!("{letter}{}", std::str::from_utf8(TAIL).unwrap())
    }

    #[test]
    fn the_first_letter_says_what_is_asked_for() {
        let check = |text: &str, expected: Option<TestPattern>| {
            assert_eq!(TestPattern::find(text), expected, "{text}")
        };
        check(&pattern('X'), Some(TestPattern::Reject));
        check(&format!("<html>\n{}\n", pattern('Y')), Some(TestPattern::Tag));
        check(&pattern('Z'), Some(TestPattern::Tag));
        check(&format!("{} and {}", pattern('Y'), pattern('X')), Some(TestPattern::Reject));
        check(&pattern('A'), None);
        check(&pattern('X')[1..], None);
        check(&pattern('X').to_lowercase(), None);
        check(&pattern('X').replace('-', "- "), None);
        check("", None);
    }
}

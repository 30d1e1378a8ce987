//! Addresses and links that are written so that programs do not see them: `joe (at) example (dot) com`,
//! `hxxp://evil[.]example`, `example dot com`.

use memchr::memmem;

use crate::text::truncate;
use crate::web::link::{self, TextReference};

/// Most signs that are read in one text.
const MARKS_MAX: usize = 256;
/// Longest word in brackets that stands for a sign.
const WORD_BYTES_MAX: usize = 16;
/// Longest piece of text around signs that is read.
const TOKEN_BYTES_MAX: usize = 256;

/// The reference that was hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObfuscatedReference {
    /// A URL, perhaps without its scheme.
    Url(String),
    /// An e-mail address.
    Address(String),
}

/// Words that stand for `@`, in brackets.
const AT: [&str; 8] = ["at", "@", "ät", "arroba", "собака", "собачка", "chiocciola", "arobase"];
/// Words that stand for a dot, in brackets.
const DOT: [&str; 8] = ["dot", ".", "punkt", "punto", "точка", "тчк", "point", "ponto"];
/// Endings of names before which ` dot ` is meant for a dot although it stands alone.
const ENDINGS: [&str; 24] = [
    "com", "net", "org", "info", "biz", "ru", "io", "co", "xyz", "top", "shop", "online", "site", "club",
    "de", "uk", "fr", "nl", "pl", "cn", "edu", "gov", "store", "live",
];

/// A place in the text and the sign that it stands for.
struct SpelledSign {
    start: usize,
    end: usize,
    sign: &'static str,
}

/// Hands on what is hidden in a text of [`crate::text::plain`], in order. Linear; reads [`MARKS_MAX`] signs.
pub fn find(plain: &str, mut emit: impl FnMut(ObfuscatedReference)) {
    let marks = marks(plain);
    let mut copy = String::new();
    let mut index = 0;
    while let Some(mark) = marks.get(index) {
        // All marks of one token, which runs from blank to blank once they are replaced.
        let from = plain[..mark.start]
            .rfind(char::is_whitespace)
            .map_or(0, |blank| blank + plain[blank..].chars().next().map_or(1, char::len_utf8));
        let from = from.max(plain.ceil_char_boundary(mark.start.saturating_sub(TOKEN_BYTES_MAX)));
        copy.clear();
        copy.push_str(&plain[from..mark.start]);
        let mut end = mark.start;
        while let Some(mark) = marks
            .get(index)
            .filter(|mark| plain[end.min(mark.start)..mark.start].find(char::is_whitespace).is_none())
        {
            copy.push_str(&plain[end.min(mark.start)..mark.start]);
            copy.push_str(mark.sign);
            end = mark.end;
            index += 1;
        }
        let rest = plain[end..].split(char::is_whitespace).next().unwrap_or_default();
        copy.push_str(truncate(rest, TOKEN_BYTES_MAX));
        link::find(&copy, |found| {
            emit(match found {
                TextReference::Url(url) => ObfuscatedReference::Url(url.to_owned()),
                TextReference::Address(address) => ObfuscatedReference::Address(address.to_owned()),
            });
            true
        });
    }
}

/// The signs in a text, in order, none in another.
fn marks(plain: &str) -> Vec<SpelledSign> {
    let bytes = plain.as_bytes();
    let mut marks = Vec::new();
    for open in memchr::memchr3_iter(b'(', b'[', b'{', bytes).take(16 * MARKS_MAX) {
        let inner = truncate(&plain[open + 1..], WORD_BYTES_MAX);
        let Some(close) = inner.find([')', ']', '}']) else { continue };
        let word = inner[..close].trim();
        let sign = if AT.contains(&word) {
            "@"
        } else if DOT.contains(&word) {
            "."
        } else {
            continue;
        };
        let blanks = |at: &&u8| **at == b' ';
        let start = open - bytes[..open].iter().rev().take(2).take_while(blanks).count();
        let end = open + 1 + close + 1;
        let end = end + bytes[end..].iter().take(2).take_while(blanks).count();
        marks.push(SpelledSign { start, end, sign });
        if marks.len() >= MARKS_MAX {
            break;
        }
    }
    for start in memmem::find_iter(bytes, b"hxxp").take(MARKS_MAX) {
        if bytes[start + 4..].starts_with(b"://") || bytes[start + 4..].starts_with(b"s://") {
            marks.push(SpelledSign { start, end: start + 4, sign: "http" });
        }
    }
    for (word, length) in [(" dot ", 5), (" точка ", " точка ".len())] {
        for start in memmem::find_iter(bytes, word.as_bytes()).take(MARKS_MAX) {
            let end = start + length;
            let ending = plain[end..].find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(plain.len() - end);
            if !ENDINGS.contains(&&plain[end..end + ending]) {
                continue;
            }
            marks.push(SpelledSign { start, end, sign: "." });
            // `joe at example dot com`: the name before the dot may be the host of an address.
            let host = plain[..start].rfind(' ').unwrap_or(0);
            if start - host <= 64 && plain[..host].ends_with(" at") {
                marks.push(SpelledSign { start: host - 3, end: host + 1, sign: "@" });
            }
        }
    }
    marks.sort_by_key(|mark| mark.start);
    let mut end = 0;
    marks.retain(|mark| {
        let apart = mark.start >= end;
        if apart {
            end = mark.end;
        }
        apart
    });
    marks.truncate(MARKS_MAX);
    marks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(written: &str) -> Vec<String> {
        let mut all = Vec::new();
        find(&crate::text::plain(written), |found| {
            all.push(match found {
                ObfuscatedReference::Url(url) => format!("url {url}"),
                ObfuscatedReference::Address(address) => format!("address {address}"),
            });
        });
        all
    }

    #[test]
    fn signs_in_words_are_read() {
        for (text, expected) in [
            ("write joe (at) example (dot) com today", vec!["address joe@example.com"]),
            ("JOE[AT]example.com", vec!["address joe@example.com"]),
            ("joe{at}mail{dot}example{dot}com", vec!["address joe@mail.example.com"]),
            ("joe at example dot com", vec!["address joe@example.com"]),
            (
                "see hxxp://evil.example/x, hxxps://evil[.]com/y",
                vec!["url http://evil.example/x", "url https://evil.com/y"],
            ),
            ("go to cheap-pills (dot) com", vec!["url cheap-pills.com"]),
            ("go to cheap-pills dot com now", vec!["url cheap-pills.com"]),
            ("ivan (собака) example(точка)com", vec!["address ivan@example.com"]),
            ("look at the dot on the i (at home) [.] {x}", vec![]),
            ("a[0].b (see) [at]", vec![]),
        ] {
            assert_eq!(found(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_read(text in "[a-z.()\\[\\]{}@ ]{0,60}( dot | at |\\(at\\)|hxxp://|\\[.\\]|com|точка){0,6}[a-z. ]{0,10}") {
            for found in found(&text) {
                prop_assert!(!found.trim_start_matches("url ").trim_start_matches("address ").contains(' '));
            }
        }
    }
}

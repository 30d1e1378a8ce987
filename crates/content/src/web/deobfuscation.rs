//! Addresses and links that are written so that programs do not see them: `joe (at) example (dot) com`,
//! `hxxp://evil[.]example`, `example dot com`. And names in messengers.

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

/// Messengers, and the words, as [`crate::text::plain`] reads them, by which texts announce a name in one.
const SERVICES: [(&str, &[&str]); 9] = [
    ("telegram", &["telegram", "telega", "телеграм", "телега", "тг", "tg"]),
    ("whatsapp", &["whatsapp", "ватсап"]),
    ("skype", &["skype", "скаип"]),
    ("instagram", &["instagram", "insta", "инстаграм"]),
    ("discord", &["discord"]),
    ("snapchat", &["snapchat", "snap"]),
    ("wechat", &["wechat", "weixin", "微信"]),
    ("kik", &["kik"]),
    ("line", &["line id"]),
];
/// Bytes before a name in which a messenger may be named.
const ANNOUNCED_BYTES: usize = 24;

/// Hands on names in messengers that a text of [`crate::text::plain`] announces, such as `telegram:some_name` of
/// `write me in Telegram: @some_name`. Linear.
pub fn handles(plain: &str, mut emit: impl FnMut(String)) {
    let bytes = plain.as_bytes();
    for at in memchr::memchr_iter(b'@', bytes).take(4 * MARKS_MAX) {
        if at > 0
            && (bytes[at - 1].is_ascii_alphanumeric()
                || bytes[at - 1] >= 0x80
                || b"._-/".contains(&bytes[at - 1]))
        {
            continue;
        }
        let length = bytes[at + 1..]
            .iter()
            .take(33)
            .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
            .count();
        let end = at + 1 + length;
        let goes_on = bytes.get(end).is_some_and(|&byte| byte == b'@' || byte >= 0x80)
            || bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_alphanumeric);
        if !(4..=32).contains(&length) || goes_on {
            continue;
        }
        let from = plain.ceil_char_boundary(at.saturating_sub(ANNOUNCED_BYTES));
        let before = &plain[from..at];
        // The one that is named last.
        let named = |words: &[&str]| words.iter().filter_map(|word| place_of(before, word)).max();
        let services = SERVICES.iter().filter_map(|(service, words)| Some((named(words)?, service)));
        if let Some((_, service)) = services.max() {
            emit(format!("{service}:{}", &plain[at + 1..end]));
        }
    }
}

/// Where a text has a word last; a short one only by itself.
fn place_of(text: &str, word: &str) -> Option<usize> {
    let is_word = |at: &usize| {
        let rest = &text[at + word.len()..];
        !text[..*at].ends_with(char::is_alphanumeric)
            && (word.len() > 4 || !rest.starts_with(char::is_alphanumeric))
    };
    text.rmatch_indices(word).map(|(at, _)| at).find(is_word)
}

/// The name in a messenger that a target without a host names, such as `skype:some.name?chat`.
pub fn handle_of_uri(target: &str) -> Option<String> {
    let (scheme, rest) = truncate(target, TOKEN_BYTES_MAX).split_once(':')?;
    let value = |name: &str| {
        let query = rest.split_once('?')?.1;
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    };
    let (service, name) = match scheme.to_ascii_lowercase().as_str() {
        "skype" => ("skype", rest.split('?').next()?),
        "tg" => ("telegram", value("domain")?),
        "whatsapp" => ("whatsapp", value("phone")?),
        "viber" => ("viber", value("number")?),
        _ => return None,
    };
    let name = name.trim_start_matches("%2B").trim_start_matches(['+', '/']);
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    ((3..=64).contains(&name.len()) && name.chars().all(is_name))
        .then(|| format!("{service}:{}", name.to_lowercase()))
}

/// The name in a messenger that a link leads to, such as `telegram:some_name` of `https://t.me/some_name`.
pub fn handle_of(host: &str, url: &str) -> Option<String> {
    let host = host.strip_prefix("www.").unwrap_or(host);
    let path = url.split_once("://")?.1.split_once('/')?.1;
    let name = |path: &str| {
        let end = path
            .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '+' | '-' | '.'))
            .unwrap_or(path.len());
        Some(path[..end].to_owned()).filter(|name| (3..=64).contains(&name.len()))
    };
    let number = |text: &str| {
        let text = text.strip_prefix("%2B").or_else(|| text.strip_prefix("%2b")).unwrap_or(text);
        let digits: String = text.chars().take(32).filter(char::is_ascii_digit).collect();
        Some(digits).filter(|digits| crate::text::phone::DIGITS.contains(&digits.len()))
    };
    Some(match host {
        "t.me" | "telegram.me" | "telegram.dog" => {
            let path =
                ["s/", "joinchat/"].iter().find_map(|prefix| path.strip_prefix(prefix)).unwrap_or(path);
            // Invitations tell the case of letters apart, names do not.
            let name = name(path)?;
            format!("telegram:{}", if name.starts_with('+') { name } else { name.to_lowercase() })
        }
        "wa.me" => format!("whatsapp:{}", number(path)?),
        "api.whatsapp.com" | "web.whatsapp.com" => {
            format!("whatsapp:{}", number(path.split_once("phone=")?.1)?)
        }
        "chat.whatsapp.com" => format!("whatsapp:{}", name(path)?),
        "m.me" => format!("messenger:{}", name(path)?.to_lowercase()),
        "discord.gg" => format!("discord:{}", name(path)?),
        _ => return None,
    })
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

    #[test]
    fn names_in_messengers_are_found() {
        let found = |text: &str| {
            let mut all = Vec::new();
            handles(&crate::text::plain(text), |handle| all.push(handle));
            all
        };
        assert_eq!(found("write me on Telegram: @Some_Name!"), ["telegram:some_name"]);
        assert_eq!(found("мой телеграм @name12, скайп @other"), ["telegram:name12", "skype:other"]);
        for text in ["telegram joe@example.com", "@param x", "the @media rule", "telegram @joe.example.com"] {
            assert_eq!(found(text), [] as [&str; 0], "{text}");
        }
        for (target, expected) in [
            ("skype:Some.Name?chat", Some("skype:some.name")),
            ("tg://resolve?domain=Some_Name", Some("telegram:some_name")),
            ("whatsapp://send?text=x&phone=%2B491701234567", Some("whatsapp:491701234567")),
            ("skype:a b", None),
            ("mailto:joe@example.com", None),
            ("nothing", None),
        ] {
            assert_eq!(handle_of_uri(target).as_deref(), expected, "{target}");
        }
        for (host, url, expected) in [
            ("t.me", "https://t.me/Some_Name?start=1", Some("telegram:some_name")),
            ("t.me", "https://t.me/+a2CESJk", Some("telegram:+a2CESJk")),
            ("t.me", "https://t.me/s/some_name", Some("telegram:some_name")),
            ("wa.me", "https://wa.me/491701234567", Some("whatsapp:491701234567")),
            (
                "api.whatsapp.com",
                "https://api.whatsapp.com/send?phone=%2B491701234567&text=x",
                Some("whatsapp:491701234567"),
            ),
            ("t.me", "https://t.me/", None),
            ("example.com", "https://example.com/joe", None),
        ] {
            assert_eq!(handle_of(host, url).as_deref(), expected, "{url}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_read(text in "[a-z.()\\[\\]{}@ ]{0,60}( dot | at |\\(at\\)|hxxp://|\\[.\\]|com|точка){0,6}[a-z. ]{0,10}") {
            for found in found(&text) {
                prop_assert!(!found.trim_start_matches("url ").trim_start_matches("address ").contains(' '));
            }
            handles(&text, |handle| assert!(handle.contains(':')));
        }
    }
}

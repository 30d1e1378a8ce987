//! Names and numbers in messengers: announced in a text, linked to, or called by a URI.
//!
//! A name without `@` looks like any other word. It counts where a messenger is named right before it and its form says that it
//! is a name: it has a digit or a `_`, or is what a colon announces and nothing follows.

use std::sync::LazyLock;

use daachorse::DoubleArrayAhoCorasick;

use crate::text::character::is_alphanumeric;
use crate::text::han::is_ideograph;
use crate::text::phone;
use crate::text::truncate;

/// Most `@` that are looked at in one text.
const MENTIONS_MAX: usize = 1_024;
/// Longest URI that is read.
const URI_BYTES_MAX: usize = 256;
/// Bytes before a name with `@` in which a messenger may be named.
const ANNOUNCED_BYTES: usize = 24;
/// Most signs in a row between a messenger and a name, and most words.
const SIGNS_MAX: usize = 8;
const FILLERS_MAX: usize = 3;
/// Most letters by which a messenger's name is inflected.
const ENDING_CHARS_MAX: usize = 4;
/// Bytes of a text that are looked at behind a messenger's name.
const NAME_BYTES_MAX: usize = 160;

/// Messengers, and the words, as [`crate::text::plain`] reads them, by which texts announce a name or number in one.
const SERVICES: [(&str, &[&str]); 11] = [
    ("telegram", &["telegram", "telega", "телеграм", "телега", "тг", "tg", "电报", "纸飞机"]),
    ("whatsapp", &["whatsapp", "whats app", "watsapp", "ватсап", "вотсап", "вацап"]),
    ("viber", &["viber", "вибер", "ваибер"]),
    ("skype", &["skype", "скаип"]),
    ("instagram", &["instagram", "insta", "инстаграм"]),
    ("discord", &["discord"]),
    ("snapchat", &["snapchat", "snap"]),
    (
        "wechat",
        &[
            "wechat", "we chat", "weixin", "微信", "薇信", "威信", "徽信", "溦信", "微芯", "v信", "vx",
            "v x", "wx", "w x", "加微", "加薇", "加v", "+v", "+微",
        ],
    ),
    ("qq", &["qq", "q q", "扣扣", "抠抠", "叩叩", "秋秋", "企鹅", "加q", "+q", "q号", "q群"]),
    ("kik", &["kik"]),
    ("line", &["line id"]),
];

/// Words between a messenger and a name, and whether they say that a name follows.
const FILLERS: [(&str, bool); 36] = [
    ("id", true),
    ("username", true),
    ("user", false),
    ("nick", true),
    ("nickname", true),
    ("name", true),
    ("account", true),
    ("handle", true),
    ("number", false),
    ("no", false),
    ("num", false),
    ("me", false),
    ("us", false),
    ("at", false),
    ("on", false),
    ("is", false),
    ("add", false),
    ("contact", false),
    ("ник", true),
    ("логин", true),
    ("номер", false),
    ("канал", false),
    ("мне", false),
    ("пишите", false),
    ("пиши", false),
    ("по", false),
    ("号码", true),
    ("账号", true),
    ("帐号", true),
    ("号", true),
    ("群", true),
    ("同号", false),
    ("客服", false),
    ("咨询", false),
    ("联系", false),
    ("是", false),
];

static WORDS: LazyLock<Option<DoubleArrayAhoCorasick<u8>>> = LazyLock::new(|| {
    let words = (0u8..)
        .zip(&SERVICES)
        .flat_map(|(service, (_, words))| words.iter().map(move |word| (*word, service)));
    DoubleArrayAhoCorasick::with_values(words).ok()
});

/// Hands on names and numbers in messengers that a text of [`crate::text::plain`] announces, such as `telegram:some_name` of
/// `write me in Telegram: @some_name`, or `qq:123456789` of `加QQ群 123456789`. Linear.
pub fn find(plain: &str, mut emit: impl FnMut(String)) {
    mentions(plain, &mut emit);
    let Some(words) = &*WORDS else { return };
    for hit in words.find_overlapping_iter(plain) {
        let service = SERVICES[usize::from(hit.value())].0;
        if let Some(name) = announced(plain, hit.start(), hit.end(), service) {
            emit(format!("{service}:{name}"));
        }
    }
}

/// Hands on names with `@` before which a messenger is named.
fn mentions(plain: &str, emit: &mut impl FnMut(String)) {
    let bytes = plain.as_bytes();
    for at in memchr::memchr_iter(b'@', bytes).take(MENTIONS_MAX) {
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

/// The last place of a word in a text; a short one only by itself.
fn place_of(text: &str, word: &str) -> Option<usize> {
    let is_word = |at: &usize| {
        let rest = &text[at + word.len()..];
        !text[..*at].ends_with(char::is_alphanumeric)
            && (word.len() > 4 || !rest.starts_with(char::is_alphanumeric))
    };
    text.rmatch_indices(word).map(|(at, _)| at).find(is_word)
}

/// The name or number that a messenger's name at a place announces.
fn announced(plain: &str, start: usize, end: usize, service: &str) -> Option<String> {
    let word = &plain[start..end];
    let is_letter = |c: char| is_alphanumeric(c) && !is_ideograph(c);
    let stands_alone =
        !plain[..start].ends_with(|c: char| is_letter(c) || matches!(c, '@' | '.' | '/' | '_'));
    if word.starts_with(is_letter) && !stands_alone {
        return None;
    }
    let mut rest = truncate(&plain[end..], NAME_BYTES_MAX);
    let takes_digits = matches!(service, "wechat" | "qq");
    if word.ends_with(is_letter) && !(takes_digits && rest.starts_with(|c: char| c.is_ascii_digit())) {
        let ending = if word.len() > 4 { ENDING_CHARS_MAX } else { 0 };
        let letters = rest.chars().take(ending + 1).take_while(|c| is_letter(*c) || *c == '_').count();
        if letters > ending {
            return None;
        }
        rest = &rest[rest.char_indices().nth(letters).map_or(rest.len(), |(at, _)| at)..];
    }
    let mut is_stated = false;
    for _ in 0..=FILLERS_MAX {
        let is_sign = |c: char| !is_alphanumeric(c) && !matches!(c, '@' | '+');
        let signs = rest.chars().take(SIGNS_MAX + 1).take_while(|c| is_sign(*c)).count();
        if signs > SIGNS_MAX {
            return None;
        }
        let (between, behind) =
            rest.split_at(rest.char_indices().nth(signs).map_or(rest.len(), |(at, _)| at));
        is_stated |= between.contains([':', '=']);
        rest = behind;
        let filler = FILLERS.iter().find(|(filler, _)| {
            rest.strip_prefix(filler).is_some_and(|after| {
                filler.starts_with(is_ideograph) || !after.starts_with(|c: char| is_letter(c) || c == '_')
            })
        });
        let Some((filler, says)) = filler else { break };
        is_stated |= says;
        rest = &rest[filler.len()..];
    }
    name(rest, service, is_stated)
}

/// The name or number at the beginning of a text.
fn name(text: &str, service: &str, is_stated: bool) -> Option<String> {
    match service {
        "qq" => return phone::leading(text).filter(|digits| (5..=12).contains(&digits.len())),
        "whatsapp" | "viber" => return phone::announced(text),
        "telegram" | "wechat" => {
            if let Some(number) = phone::announced(text) {
                return Some(number);
            }
        }
        _ => {}
    }
    let is_of_name =
        |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'-' && service == "wechat";
    let length = text.bytes().take(33).take_while(is_of_name).count();
    let (name, behind) = text.split_at(length);
    let mut next = behind.chars();
    let goes_on = match next.next() {
        Some('@') => true,
        Some('.') => next.next().is_some_and(|c| c.is_ascii_alphanumeric()),
        Some(c) => is_alphanumeric(c) && !is_ideograph(c),
        None => false,
    };
    let starts_right = name.starts_with(|c: char| c.is_ascii_lowercase());
    if goes_on || !starts_right || !(4..=32).contains(&length) {
        return None;
    }
    let is_marked = name.contains(|c: char| c.is_ascii_digit() || c == '_');
    let is_last =
        behind.trim_start_matches(' ').starts_with(|c: char| !is_alphanumeric(c) || is_ideograph(c))
            || behind.trim().is_empty();
    (is_marked || is_stated && is_last).then(|| name.to_owned())
}

/// The name in a messenger that a target without a host names, such as `skype:some.name?chat`.
pub fn of_uri(target: &str) -> Option<String> {
    let (scheme, rest) = truncate(target, URI_BYTES_MAX).split_once(':')?;
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
pub fn of_link(host: &str, url: &str) -> Option<String> {
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
        Some(digits).filter(|digits| phone::DIGITS.contains(&digits.len()))
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

    fn found(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        find(&crate::text::plain(text), |handle| all.push(handle));
        all
    }

    #[test]
    fn names_are_found_by_what_announces_them() {
        for (text, expected) in [
            ("WeChat: abc_123", "wechat:abc_123"),
            ("微信号：abc123，欢迎咨询", "wechat:abc123"),
            ("加微信 ａｂｃ１２３", "wechat:abc123"),
            ("薇信：laowang88咨询", "wechat:laowang88"),
            ("加V: abc12345", "wechat:abc12345"),
            ("VX13800138000", "wechat:13800138000"),
            ("QQ群号: 123456789", "qq:123456789"),
            ("QQ 1\u{489}2\u{489}3\u{489}4\u{489}5\u{489}6\u{489}", "qq:123456"),
            ("扣扣 12 345 678", "qq:12345678"),
            ("WhatsApp me on +1 (202) 555-0143!", "whatsapp:12025550143"),
            ("ватсап 8 916 123-45-67", "whatsapp:89161234567"),
            ("telegram: somename", "telegram:somename"),
            ("в телеграме ник some_name", "telegram:some_name"),
            ("\u{1F163}\u{1F156} some_name99", "telegram:some_name99"),
        ] {
            assert_eq!(found(text), [expected], "{text}");
        }
        for text in [
            "telegram channel of the town",
            "Telegram: download it now",
            "WhatsApp group, 2023-10-12 10:00",
            "pay by WeChat or 微信支付",
            "mail 123456@qq.com, 13800138000",
            "the qq plot of 12 values",
            "discord v2.0 is out",
            "加VIP 2024",
            "tgz 123456",
            "instagram joe@example.com",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn names_in_messengers_are_found() {
        let found = |text: &str| {
            let mut all = Vec::new();
            find(&crate::text::plain(text), |handle| all.push(handle));
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
            assert_eq!(of_uri(target).as_deref(), expected, "{target}");
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
            assert_eq!(of_link(host, url).as_deref(), expected, "{url}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_read(text in "(telegram|tg|微信|qq|v x|[a-z@:.+_ ]{0,3}|[0-9]{0,4}|\\PC){0,20}") {
            find(&text, |handle| assert!(handle.contains(':')));
        }
    }
}

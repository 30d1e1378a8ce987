//! Bait: names of fields and links that people do not see, and that rotate by a key.
//!
//! ```text
//! (pipeline, day, kind, number) ─► tag ─► two words and six signs ─► further_remarks_k7dxqw, further-remarks-k7dxqw
//! ```
//!
//! A name is new each day and holds until the end of the next, for pages that stay open and stores that keep pages. Its six last
//! signs follow from the key, so that nobody takes the bait who has not seen the page, and no field of an application has the name
//! by chance. The words are none that browsers and password managers fill in: not names, addresses, numbers of telephones and cards,
//! dates, companies, sites, user names or codes. The signs have no vowel and none of `c`, `m`, `p` and `y`, so they are no such word
//! either.

use event::{Span, Time};

use crate::keyring::{Keyring, SigningPurpose, TAG_BYTES};

/// Fields of a day.
pub const FIELDS: usize = 2;
/// Links of a day.
pub const LINKS: usize = 2;
/// Longest name that is looked at.
const NAME_BYTES_MAX: usize = 32;
/// Signs at the end of a name.
const SIGNS: usize = 6;
const DAY: Span = Span::days(1);
/// The time by which the clocks of nodes may differ.
const SKEW: Span = Span::seconds(60);

const FIRST: [&str; 8] =
    ["preferred", "further", "general", "usual", "likely", "latest", "former", "favourite"];
const SECOND: [&str; 8] =
    ["subject", "topic", "reason", "remarks", "feedback", "interests", "thoughts", "wishes"];
const ALPHABET: &[u8; 16] = b"bdfghjkqrtvwxz47";

/// The names of a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaitNames {
    /// Names of fields.
    pub fields: [String; FIELDS],
    /// Names of links: the path's last segment.
    pub links: [String; LINKS],
    /// The class of what hides a field.
    pub class: String,
}

impl BaitNames {
    /// Returns the names of a pipeline on the day of a time.
    pub fn of(keys: &Keyring, pipeline: &str, time: Time) -> BaitNames {
        let name = |kind: &str, number: usize, between: &str| {
            let tag =
                keys.tag(SigningPurpose::Bait, time, format!("{kind}\0{number}\0{pipeline}").as_bytes());
            named(&tag, between)
        };
        BaitNames {
            fields: std::array::from_fn(|number| name("field", number, "_")),
            links: std::array::from_fn(|number| name("link", number, "-")),
            class: name("class", 0, "-"),
        }
    }

    /// Returns the time for which the names of now stay those of the day.
    pub fn remaining(now: Time) -> Span {
        Span(DAY.0 - now.0.rem_euclid(DAY.0))
    }
}

/// A name that follows from a tag.
fn named(tag: &[u8; TAG_BYTES], between: &str) -> String {
    let word = |words: &[&'static str; 8], byte: u8| words[usize::from(byte) % words.len()];
    let signs = tag[2..].iter().take(SIGNS).map(|byte| char::from(ALPHABET[usize::from(byte % 16)]));
    let signs: String = signs.collect();
    format!("{}{between}{}{between}{signs}", word(&FIRST, tag[0]), word(&SECOND, tag[1]))
}

/// The names that hold at a time.
#[derive(Clone, Debug)]
pub struct HeldBait(Vec<BaitNames>);

impl HeldBait {
    /// Returns the names of today and yesterday; shortly before midnight also those of tomorrow, which another node's clock may
    /// have reached.
    pub fn at(keys: &Keyring, pipeline: &str, now: Time) -> HeldBait {
        let mut days: Vec<BaitNames> = Vec::with_capacity(3);
        for time in [now, Time(now.0.saturating_sub(DAY.0)), now + SKEW] {
            let names = BaitNames::of(keys, pipeline, time);
            if !days.contains(&names) {
                days.push(names);
            }
        }
        HeldBait(days)
    }

    /// Returns true if it is the name of a field.
    pub fn has_field(&self, name: &str) -> bool {
        self.0.iter().any(|names| names.fields.iter().any(|own| own == name))
    }

    /// Returns true if it is the name of a link.
    pub fn has_link(&self, name: &str) -> bool {
        self.0.iter().any(|names| names.links.iter().any(|own| own == name))
    }
}

/// Returns true if a name has the form of bait, which says little: whoever wants to know asks [`HeldBait`].
pub fn is_like_bait(name: &str) -> bool {
    let bytes = name.as_bytes();
    let end = bytes.split_last_chunk::<SIGNS>().map(|(before, signs)| (before.last(), signs));
    bytes.len() <= NAME_BYTES_MAX
        && end.is_some_and(|(between, signs)| {
            between.is_some_and(|between| b"_-".contains(between))
                && signs.iter().all(|sign| ALPHABET.contains(sign))
        })
}

#[cfg(test)]
mod tests {
    use event::Secret;

    use super::*;

    const NOON: Time = Time(20_000 * DAY.0 + DAY.0 / 2);

    /// Parts of names by which browsers and password managers take a field for one that they fill in.
    const FILLED: &[&str] = &[
        "name", "mail", "phone", "tel", "mobile", "fax", "ext", "address", "addr", "street", "strasse",
        "rua", "house", "apt", "suite", "unit", "city", "town", "ort", "suburb", "state", "county", "region",
        "province", "country", "location", "zip", "postal", "postcode", "code", "plz", "cep", "company",
        "business", "organi", "firma", "user", "login", "logon", "account", "pass", "pwd", "pin", "otp",
        "token", "card", "cc", "cvc", "cvv", "csc", "exp", "iban", "bic", "number", "num", "birth", "bday",
        "day", "month", "year", "mm", "yy", "sex", "gender", "title", "prefix", "suffix", "url", "web",
        "site", "home", "search", "captcha", "price", "flight", "promo", "coupon", "loyalty", "contact",
        "attn", "other", "job", "first", "last_", "middle", "language",
    ];

    fn keys(byte: u8) -> Keyring {
        Keyring::new(Secret::new([byte; Secret::BYTES]))
    }

    #[test]
    fn names_hold_today_and_tomorrow() {
        let names = BaitNames::of(&keys(7), "site", NOON);
        assert_eq!(names, BaitNames::of(&keys(7), "site", Time(NOON.0 - DAY.0 / 2)));
        let all: Vec<&String> = names.fields.iter().chain(&names.links).collect();
        for (at, name) in all.iter().enumerate() {
            assert!(is_like_bait(name) && !all[..at].contains(name), "{name}");
        }
        let check = |keys: &Keyring, pipeline: &str, now: Time, holds: bool| {
            let held = HeldBait::at(keys, pipeline, now);
            for (field, link) in names.fields.iter().zip(&names.links) {
                assert_eq!(
                    (held.has_field(field), held.has_link(link)),
                    (holds, holds),
                    "{pipeline} {now:?}"
                );
                assert!(!held.has_field(link) && !held.has_link(field));
            }
        };
        let midnight = Time(NOON.0 - DAY.0 / 2);
        check(&keys(7), "site", NOON, true);
        check(&keys(7), "site", NOON + DAY, true);
        check(&keys(7), "site", Time(midnight.0 + 2 * DAY.0 - 1), true);
        check(&keys(7), "site", Time(midnight.0 + 2 * DAY.0), false);
        check(&keys(7), "site", Time(midnight.0 - 30_000_000), true);
        check(&keys(7), "site", Time(midnight.0 - 90_000_000), false);
        check(&keys(7), "other", NOON, false);
        check(&keys(8), "site", NOON, false);
        assert_eq!(BaitNames::remaining(NOON), Span::hours(12));
    }

    #[test]
    fn nothing_fills_them_in() {
        for first in FIRST {
            for second in SECOND {
                let name = format!("{first}_{second}_");
                assert!(name.len() + SIGNS <= NAME_BYTES_MAX);
                let filled = FILLED.iter().find(|part| name.contains(*part));
                assert_eq!(filled, None, "{name}");
            }
        }
        // What the signs could spell has none of these.
        let spelt = |part: &&&str| part.bytes().all(|byte| ALPHABET.contains(&byte));
        assert_eq!(FILLED.iter().find(spelt), None);
    }

    #[test]
    fn what_is_no_bait_does_not_look_like_it() {
        for name in
            ["", "subject", "k7dxqw", "further_remarks_abcdef", "é_k7dxqw\u{e9}", &"_k7dxqw".repeat(9)]
        {
            assert!(!is_like_bait(name), "{name}");
        }
    }
}

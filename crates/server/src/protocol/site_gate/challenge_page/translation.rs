//! Texts of the page, a file a language, and the language that a visitor reads.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Most bytes that are read of a list of languages.
const LIST_BYTES_MAX: usize = 512;
/// Most languages that are read of it.
const RANGES_MAX: usize = 32;

/// Texts of the page in one language. Where `{site}`, `{seconds}`, `{contact}` or `{reference}` stands, it is filled in.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Translation {
    #[serde(skip)]
    language: &'static str,
    /// `ltr` or `rtl`.
    pub(super) direction: String,
    pub(super) title: String,
    pub(super) intro: String,
    pub(super) reason_new: String,
    pub(super) reason_busy: String,
    pub(super) reason_suspicious: String,
    pub(super) reason_failures: String,
    pub(super) reason_expired: String,
    pub(super) form_waits: String,
    working: String,
    slow: String,
    done: String,
    pub(super) form_done: String,
    back: String,
    pub(super) retry: String,
    refused: String,
    expired: String,
    repeated: String,
    pub(super) cookies: String,
    offline: String,
    pub(super) unsupported: String,
    pub(super) plain_wait: String,
    pub(super) plain_link: String,
    pub(super) plain_none: String,
    pub(super) privacy: String,
    pub(super) contact: String,
    pub(super) contact_none: String,
    pub(super) reference: String,
    pub(super) progress: String,
}

macro_rules! languages {
    ($($language:literal)*) => {
        /// Languages with their files.
        pub(super) const FILES: &[(&str, &str)] =
            &[$(($language, include_str!(concat!("../../../../../../presets/challenge/", $language, ".toml")))),*];
    };
}

// The first is for visitors who read none of them.
languages!("en" "ar" "de" "es" "fr" "it" "ja" "pt" "ru" "zh");

// Tests read each file, so that none is left empty here.
static TRANSLATIONS: LazyLock<Vec<Translation>> = LazyLock::new(|| {
    FILES.iter().map(|(language, file)| Translation { language, ..read(file).unwrap_or_default() }).collect()
});

/// Reads a file of texts, and says what it lacks or has too much.
pub(super) fn read(file: &str) -> Result<Translation, String> {
    let table = DeTable::parse(file).map_err(|error| error.to_string())?.into_inner();
    let text = |(key, value): (Spanned<_>, Spanned<DeValue>)| {
        let key: Cow<str> = key.into_inner();
        (key.into_owned(), Value::from(value.into_inner().as_str().unwrap_or_default()))
    };
    let texts: Map<String, Value> = table.into_iter().map(text).collect();
    serde_json::from_value(Value::Object(texts)).map_err(|error| error.to_string())
}

impl Translation {
    /// Returns all languages.
    #[cfg(test)]
    pub(super) fn all() -> &'static [Translation] {
        &TRANSLATIONS
    }

    /// Returns the language that a visitor likes best, by the field `Accept-Language`; English if there is none of theirs.
    ///
    /// Of equal weights (RFC 9110, 12.4.2) the first counts. `pt-BR` finds `pt` (lookup of RFC 4647).
    pub(crate) fn negotiated(accept_language: &str) -> &'static Translation {
        let mut end = accept_language.len().min(LIST_BYTES_MAX);
        while !accept_language.is_char_boundary(end) {
            end -= 1;
        }
        let mut best: Option<(u16, &'static Translation)> = None;
        for range in accept_language[..end].split(',').take(RANGES_MAX) {
            let mut parts = range.split(';').map(str::trim);
            let tag = parts.next().unwrap_or_default();
            let Some(weight) = parts.next().map_or(Some(1000), weight) else { continue };
            let primary = tag.split('-').next().unwrap_or_default();
            let known = match primary {
                "*" => TRANSLATIONS.first(),
                _ => TRANSLATIONS.iter().find(|known| known.language.eq_ignore_ascii_case(primary)),
            };
            if let Some(known) = known
                && weight > best.map_or(0, |(weight, _)| weight)
            {
                best = Some((weight, known));
            }
        }
        best.map_or(&TRANSLATIONS[0], |(_, known)| known)
    }

    /// Returns its name, as BCP 47 has it.
    pub(crate) fn language(&self) -> &'static str {
        self.language
    }

    /// Returns the texts that the script shows.
    pub(super) fn of_script(&self) -> Value {
        json!({
            "working": self.working,
            "slow": self.slow,
            "done": self.done,
            "form_done": self.form_done,
            "back": self.back,
            "retry": self.retry,
            "refused": self.refused,
            "expired": self.expired,
            "repeated": self.repeated,
            "cookies": self.cookies,
            "offline": self.offline,
            "unsupported": self.unsupported,
        })
    }
}

/// A weight in thousandths: `q=0.8`. `None` for what is not one.
fn weight(parameter: &str) -> Option<u16> {
    let (name, value) = parameter.split_once('=')?;
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let digits = fraction.len() <= 3 && fraction.bytes().all(|digit| digit.is_ascii_digit());
    if !name.eq_ignore_ascii_case("q") || !digits {
        return None;
    }
    let thousandths =
        fraction.bytes().chain(*b"000").take(3).fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    match (whole, thousandths) {
        ("0", _) => Some(thousandths),
        ("1", 0) => Some(1000),
        _ => None,
    }
}

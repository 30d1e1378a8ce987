//! Tokens of forms: what a page puts into a form, so that it is known of what comes back when it was rendered, and for whom.
//!
//! ```text
//! version 1 · id 8 · issued 8 · visitor 8 · name 1–32 · tag 16   as base64url: 56 to 98 characters
//! ```
//!
//! A token is signed for a pipeline. It is no secret from its visitor, and holds none: a random id, a time, and a keyed hash of
//! what tells the visitor. A form may be sent more than once, so it is not used up: its id is what a pipeline counts by.

use data_encoding::BASE64URL_NOPAD;
use event::{Span, Time};

use crate::keyring::{Keyring, SigningPurpose, TAG_BYTES};

/// The first byte of each token.
const VERSION: u8 = 1;
/// The part of a token before the name.
const HEAD_BYTES: usize = 1 + 8 + 8 + 8;
/// Longest name of a form.
pub const NAME_BYTES_MAX: usize = 32;
/// Longest text of a token, in characters.
pub const TOKEN_CHARS_MAX: usize = (HEAD_BYTES + NAME_BYTES_MAX + TAG_BYTES).div_ceil(3) * 4;
/// The longest time for which a token can hold.
pub const LIFETIME_MAX: Span = Span::days(7);
/// The time by which the clocks of nodes may differ.
const SKEW: Span = Span::seconds(60);

/// The token of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormToken {
    /// The number that tells it from others.
    pub id: u64,
    /// The time at which the form was rendered.
    pub issued: Time,
    /// A keyed hash of what tells the visitor.
    pub visitor: u64,
    /// The name of the form.
    pub name: String,
}

/// The conditions under which a token holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormTerms<'a> {
    /// The name of the form that was sent, if it is known.
    pub expected: Option<&'a str>,
    /// A keyed hash of what tells the visitor who sent it.
    pub visitor: u64,
    /// The time for which a token holds.
    pub lifetime: Span,
}

/// Reasons to refuse a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FormRefusal {
    /// Text that is no token, or was not issued here for this pipeline.
    #[error("this is no token of a form of this site")]
    Forged,
    /// A token whose time is over.
    #[error("the form was rendered too long ago")]
    Expired,
    /// A token of another form.
    #[error("the token is for another form")]
    OtherForm,
    /// A token of another visitor.
    #[error("the form was rendered for somebody else")]
    OtherVisitor,
}

impl FormRefusal {
    /// Returns the word for it in metrics and facts.
    pub fn word(self) -> &'static str {
        match self {
            FormRefusal::Forged => "forged",
            FormRefusal::Expired => "expired",
            FormRefusal::OtherForm => "other_form",
            FormRefusal::OtherVisitor => "other_visitor",
        }
    }
}

/// Returns true if a form can have this name: letters, digits, `_`, `-` and `.`.
pub fn is_form_name(name: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_sign)
}

/// The bytes that are signed: a token is none of another pipeline.
fn message(pipeline: &str, body: &[u8]) -> Vec<u8> {
    [&(pipeline.len() as u64).to_le_bytes(), pipeline.as_bytes(), body].concat()
}

impl FormToken {
    /// Returns the text that goes into the form; `None` where no form can have the name.
    pub fn sign(&self, keys: &Keyring, pipeline: &str) -> Option<String> {
        if !is_form_name(&self.name) {
            return None;
        }
        let mut bytes = Vec::with_capacity(HEAD_BYTES + NAME_BYTES_MAX + TAG_BYTES);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.id.to_be_bytes());
        bytes.extend_from_slice(&self.issued.0.to_be_bytes());
        bytes.extend_from_slice(&self.visitor.to_be_bytes());
        bytes.extend_from_slice(self.name.as_bytes());
        let tag = keys.tag(SigningPurpose::Form, self.issued, &message(pipeline, &bytes));
        bytes.extend_from_slice(&tag);
        Some(BASE64URL_NOPAD.encode(&bytes))
    }

    /// Reads a token that came with a form. One that was issued here may still be refused: see [`FormToken::check`].
    ///
    /// # Errors
    /// [`FormRefusal::Forged`], or [`FormRefusal::Expired`] of one that is older than any may be, whoever has written it.
    pub fn open(keys: &Keyring, pipeline: &str, text: &[u8], now: Time) -> Result<FormToken, FormRefusal> {
        if text.len() > TOKEN_CHARS_MAX {
            return Err(FormRefusal::Forged);
        }
        let bytes = BASE64URL_NOPAD.decode(text).map_err(|_| FormRefusal::Forged)?;
        let (body, tag) = bytes.split_last_chunk::<TAG_BYTES>().ok_or(FormRefusal::Forged)?;
        let (head, name) = body.split_first_chunk::<HEAD_BYTES>().ok_or(FormRefusal::Forged)?;
        let field = |at: usize| head[at..].first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let name = std::str::from_utf8(name).ok().filter(|name| head[0] == VERSION && is_form_name(name));
        let name = name.ok_or(FormRefusal::Forged)?;
        let issued = Time(field(9).cast_signed());
        if issued > now + SKEW {
            return Err(FormRefusal::Forged);
        }
        if issued + LIFETIME_MAX <= now {
            return Err(FormRefusal::Expired);
        }
        if !keys.is_tag(SigningPurpose::Form, issued, &message(pipeline, body), tag) {
            return Err(FormRefusal::Forged);
        }
        Ok(FormToken { id: field(1), issued, visitor: field(17), name: name.to_owned() })
    }

    /// Checks that the token holds now, for this form and this visitor.
    ///
    /// # Errors
    /// If it does not.
    pub fn check(&self, terms: &FormTerms<'_>, now: Time) -> Result<(), FormRefusal> {
        if self.issued + terms.lifetime <= now {
            return Err(FormRefusal::Expired);
        }
        if terms.expected.is_some_and(|expected| *expected != *self.name) {
            return Err(FormRefusal::OtherForm);
        }
        if self.visitor != terms.visitor {
            return Err(FormRefusal::OtherVisitor);
        }
        Ok(())
    }

    /// The seconds from the rendering of the form until now.
    pub fn age(&self, now: Time) -> f64 {
        now.0.saturating_sub(self.issued.0).max(0) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use event::Secret;
    use proptest::prelude::*;

    use super::*;

    const NOON: Time = Time(1_790_000_000_000_000);

    fn keys(byte: u8) -> Keyring {
        Keyring::new(Secret::new([byte; Secret::BYTES]))
    }

    fn read(
        keys: &Keyring,
        pipeline: &str,
        text: &[u8],
        terms: &FormTerms<'_>,
        now: Time,
    ) -> Result<FormToken, FormRefusal> {
        let token = FormToken::open(keys, pipeline, text, now)?;
        token.check(terms, now).map(|()| token)
    }

    #[test]
    fn tokens_hold_where_and_while_they_should() {
        let token = FormToken { id: 9, issued: NOON, visitor: 5, name: "sign-up".to_owned() };
        let text = token.sign(&keys(7), "site").unwrap();
        let terms = FormTerms { expected: None, visitor: 5, lifetime: Span::hours(12) };
        let check = |keys: &Keyring,
                     pipeline: &str,
                     text: &str,
                     terms: FormTerms<'_>,
                     now: Time,
                     expected: Result<&FormToken, FormRefusal>| {
            let found = read(keys, pipeline, text.as_bytes(), &terms, now);
            assert_eq!(found.as_ref().map_err(|refusal| *refusal), expected, "{pipeline} {text} {now:?}");
        };
        let (forged, hours) = (Err(FormRefusal::Forged), |hours| NOON + Span::hours(hours));
        let named = |expected| FormTerms { expected: Some(expected), ..terms };
        check(&keys(7), "site", &text, terms, NOON, Ok(&token));
        check(&keys(7), "site", &text, named("sign-up"), hours(11), Ok(&token));
        check(&keys(7), "site", &text, terms, hours(12), Err(FormRefusal::Expired));
        check(&keys(7), "site", &text, terms, hours(24 * 30), Err(FormRefusal::Expired));
        check(&keys(7), "site", &text, named("sign-up2"), NOON, Err(FormRefusal::OtherForm));
        check(
            &keys(7),
            "site",
            &text,
            FormTerms { visitor: 6, ..terms },
            NOON,
            Err(FormRefusal::OtherVisitor),
        );
        check(&keys(7), "sites", &text, terms, NOON, forged);
        check(&keys(8), "site", &text, terms, NOON, forged);
        check(&keys(7), "site", &text, terms, Time(NOON.0 - Span::hours(1).0), forged);
        check(&keys(7), "site", &text[1..], terms, NOON, forged);
        check(&keys(7), "site", &format!("{text}A"), terms, NOON, forged);
        check(&keys(7), "site", &format!("{text}="), terms, NOON, forged);
        for (at, _) in text.char_indices() {
            let other = if text.as_bytes()[at] == b'A' { "B" } else { "A" };
            let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            let refused = read(&keys(7), "site", changed.as_bytes(), &terms, NOON);
            // One that claims an older time is over, and not looked at.
            assert!(matches!(refused, Err(FormRefusal::Forged | FormRefusal::Expired)), "{changed}");
        }
        for name in ["", "a b", "ä", "a/b", &"a".repeat(33)] {
            let unnamed = FormToken { name: name.to_owned(), ..token.clone() };
            assert_eq!(unnamed.sign(&keys(7), "site"), None, "{name}");
        }
        let longest = FormToken { name: "a".repeat(NAME_BYTES_MAX), ..token };
        let text = longest.sign(&keys(7), "site").unwrap();
        assert!(text.len() <= TOKEN_CHARS_MAX);
        check(&keys(7), "site", &text, terms, NOON, Ok(&longest));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..150)) {
            prop_assert!(FormToken::open(&keys(7), "site", &bytes, NOON).is_err());
        }

        #[test]
        fn any_signed_token_reads_back(id: u64, visitor: u64, name in "[a-zA-Z0-9_.-]{1,32}") {
            let token = FormToken { id, issued: NOON, visitor, name };
            let text = token.sign(&keys(7), "site").unwrap();
            prop_assert_eq!(FormToken::open(&keys(7), "site", text.as_bytes(), NOON), Ok(token));
        }
    }
}

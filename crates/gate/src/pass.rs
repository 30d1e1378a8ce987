//! Passes: what a visitor who has solved a challenge shows, so as not to be asked again.
//!
//! ```text
//! version 1 · way 1 · id 8 · issued 8 · lifetime 4 · bound 8 · tag 16   as base64url: 62 characters
//! ```
//!
//! A place among those who wait without scripts, and the sign that they have loaded what a page shows, have the same form and
//! are signed for their own purposes.
//!
//! A pass is signed, not encrypted: it holds a random id, times, and a keyed hash of what it is bound to. It is not bound to an
//! address unless the site says so, so it holds in the visitor's other networks, too. Its id is what a pipeline counts by: a
//! pass that is shared or sold is seen in many networks.

use data_encoding::BASE64URL_NOPAD;
use event::{Span, Time};

use crate::keyring::{Keyring, SigningPurpose, TAG_BYTES};

/// The first byte of each pass.
const VERSION: u8 = 1;
const BODY_BYTES: usize = 1 + 1 + 8 + 8 + 4 + 8;
/// The length of a pass as it is shown, in characters.
pub const PASS_CHARS: usize = (BODY_BYTES + TAG_BYTES).div_ceil(3) * 4 - 2;
/// The longest time for which a pass can hold.
pub const LIFETIME_MAX: Span = Span::days(30);
/// The time by which the clocks of nodes may differ.
const SKEW: Span = Span::seconds(60);

/// The way in which a pass was earned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassMethod {
    /// Work.
    Work,
    /// Without scripts: waiting, and loading what a page shows.
    Rendered,
    /// Without scripts: waiting alone.
    Waited,
}

impl PassMethod {
    /// All ways, each with the byte that stands for it and its word in facts.
    const ALL: [(PassMethod, u8, &'static str); 3] = [
        (PassMethod::Work, 0, "work"),
        (PassMethod::Rendered, 1, "rendered"),
        (PassMethod::Waited, 2, "waited"),
    ];

    /// Returns the word for it in facts.
    pub fn word(self) -> &'static str {
        PassMethod::ALL.iter().find(|(method, ..)| *method == self).map_or("", |(.., word)| word)
    }
}

/// A pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The way in which it was earned.
    pub method: PassMethod,
    /// The number that tells it from others.
    pub id: u64,
    /// The time at which it was issued.
    pub issued: Time,
    /// The time for which it holds, in whole seconds.
    pub lifetime: Span,
    /// A keyed hash of what it is bound to: its purpose, and what the site chose.
    pub bound: u64,
}

/// Reasons to refuse a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PassRefusal {
    /// Text that is no pass, or was not issued here.
    #[error("this is no pass of this site")]
    Forged,
    /// A pass whose time is over.
    #[error("the pass has expired")]
    Expired,
    /// A pass of another visitor, or for another purpose.
    #[error("the pass is bound to something else")]
    Bound,
}

impl PassRefusal {
    /// Returns the word for it in metrics and facts.
    pub fn word(self) -> &'static str {
        match self {
            PassRefusal::Forged => "forged",
            PassRefusal::Expired => "expired",
            PassRefusal::Bound => "bound",
        }
    }
}

impl Pass {
    fn body(&self) -> [u8; BODY_BYTES] {
        let method = PassMethod::ALL
            .iter()
            .find(|(method, ..)| *method == self.method)
            .map_or(0, |(_, byte, _)| *byte);
        let seconds = u32::try_from(self.lifetime.0 / 1_000_000).unwrap_or(0);
        let mut body = [0; BODY_BYTES];
        body[0] = VERSION;
        body[1] = method;
        body[2..10].copy_from_slice(&self.id.to_be_bytes());
        body[10..18].copy_from_slice(&self.issued.0.to_be_bytes());
        body[18..22].copy_from_slice(&seconds.to_be_bytes());
        body[22..30].copy_from_slice(&self.bound.to_be_bytes());
        body
    }

    /// Returns the text that the visitor is given.
    pub fn sign(&self, keys: &Keyring, purpose: SigningPurpose) -> String {
        let body = self.body();
        let tag = keys.tag(purpose, self.issued, &body);
        BASE64URL_NOPAD.encode(&[body.as_slice(), &tag].concat())
    }

    /// Reads a pass that a visitor shows.
    ///
    /// # Errors
    /// If it was not issued here, is over, or is bound to something else than `bound`.
    pub fn open(
        keys: &Keyring,
        purpose: SigningPurpose,
        text: &[u8],
        bound: u64,
        now: Time,
    ) -> Result<Pass, PassRefusal> {
        if text.len() != PASS_CHARS {
            return Err(PassRefusal::Forged);
        }
        let bytes = BASE64URL_NOPAD.decode(text).map_err(|_| PassRefusal::Forged)?;
        let (body, rest) = bytes.split_first_chunk::<BODY_BYTES>().ok_or(PassRefusal::Forged)?;
        let tag = rest.try_into().map_err(|_| PassRefusal::Forged)?;
        let field = |at: usize| body[at..].first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let method = PassMethod::ALL.iter().find(|(_, byte, _)| *byte == body[1]).map(|(method, ..)| *method);
        let issued = Time(field(10).cast_signed());
        let seconds = body[18..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let lifetime = Span::seconds(i64::from(seconds));
        let Some(method) = method.filter(|_| body[0] == VERSION) else { return Err(PassRefusal::Forged) };
        if !keys.is_tag(purpose, issued, body, tag) || issued > now + SKEW {
            return Err(PassRefusal::Forged);
        }
        if issued + lifetime <= now || issued + LIFETIME_MAX <= now {
            return Err(PassRefusal::Expired);
        }
        let pass = Pass { method, id: field(2), issued, lifetime, bound: field(22) };
        if pass.bound == bound { Ok(pass) } else { Err(PassRefusal::Bound) }
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

    #[test]
    fn passes_hold_where_and_while_they_should() {
        let pass =
            Pass { method: PassMethod::Rendered, id: 9, issued: NOON, lifetime: Span::hours(12), bound: 5 };
        let text = pass.sign(&keys(7), SigningPurpose::Pass);
        assert_eq!(text.len(), PASS_CHARS);
        let check =
            |keys: &Keyring, text: &str, bound: u64, now: Time, expected: Result<Pass, PassRefusal>| {
                assert_eq!(
                    Pass::open(keys, SigningPurpose::Pass, text.as_bytes(), bound, now),
                    expected,
                    "{text} {now:?}"
                );
            };
        let day = Span::days(1);
        check(&keys(7), &text, 5, NOON, Ok(pass));
        check(&keys(7), &text, 5, NOON + Span::hours(11), Ok(pass));
        check(&keys(7), &text, 5, NOON + Span::hours(12), Err(PassRefusal::Expired));
        check(&keys(7), &text, 6, NOON, Err(PassRefusal::Bound));
        check(&keys(8), &text, 5, NOON, Err(PassRefusal::Forged));
        let waiting = pass.sign(&keys(7), SigningPurpose::Waiting);
        check(&keys(7), &waiting, 5, NOON, Err(PassRefusal::Forged));
        check(&keys(7), &text, 5, Time(NOON.0 - day.0), Err(PassRefusal::Forged));
        check(&keys(7), &text[1..], 5, NOON, Err(PassRefusal::Forged));
        check(&keys(7), &format!("{text}A"), 5, NOON, Err(PassRefusal::Forged));
        let endless = Pass { lifetime: Span::days(3650), ..pass }.sign(&keys(7), SigningPurpose::Pass);
        check(&keys(7), &endless, 5, NOON + Span::days(31), Err(PassRefusal::Expired));
        for (at, _) in text.char_indices() {
            let other = if text.as_bytes()[at] == b'A' { "B" } else { "A" };
            let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            let refused = Pass::open(&keys(7), SigningPurpose::Pass, changed.as_bytes(), 5, NOON);
            assert_eq!(refused, Err(PassRefusal::Forged), "{changed}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(Pass::open(&keys(7), SigningPurpose::Pass, &bytes, 5, NOON), Err(PassRefusal::Forged));
        }
    }
}

//! Keys for what is given to visitors and comes back from them.
//!
//! ```text
//! secret ─► HMAC-SHA-256("gate", purpose, day) ─► the key of a purpose on a day ─► HMAC-SHA-256(message) ─► tag
//! ```
//!
//! All nodes that share a secret know all keys, and none is stored. A key signs for one day. Whoever verifies takes the day from the
//! time that is signed with the message, after that time was found to be no older than such a message may be.

use event::{Secret, Span, Time};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Length of a tag in bytes: half of an HMAC-SHA-256, which nobody guesses (RFC 2104, section 5).
pub const TAG_BYTES: usize = 16;

/// The time for which a key signs.
const DAY: Span = Span::days(1);

/// The purpose of a signature: a tag for one says nothing for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningPurpose {
    /// Work that a visitor is asked to do.
    Challenge,
    /// A pass for a visitor who has done it.
    Pass,
    /// A visitor's place among those who wait, as they run no scripts.
    Waiting,
    /// The sign that a client has loaded what a page shows.
    Rendered,
    /// A form that was rendered for a visitor.
    Form,
    /// Names of fields and links that nobody sees.
    Bait,
    /// Messages between nodes.
    Node,
    /// Subjects of changes that nodes share.
    SharedSubject,
    /// Texts of changes that nodes share.
    SharedText,
}

impl SigningPurpose {
    fn name(self) -> &'static [u8] {
        match self {
            SigningPurpose::Challenge => b"challenge",
            SigningPurpose::Pass => b"pass",
            SigningPurpose::Waiting => b"waiting",
            SigningPurpose::Rendered => b"rendered",
            SigningPurpose::Form => b"form",
            SigningPurpose::Bait => b"bait",
            SigningPurpose::Node => b"node",
            SigningPurpose::SharedSubject => b"shared subject",
            SigningPurpose::SharedText => b"shared text",
        }
    }
}

/// The keys of a node, and of all that share its secret.
#[derive(Clone, Debug)]
pub struct Keyring(Secret);

/// The tag of a message.
pub type Tag = [u8; TAG_BYTES];

impl Keyring {
    /// Returns the keys that follow from a secret.
    pub fn new(secret: Secret) -> Keyring {
        Keyring(secret)
    }

    /// Returns the key of a purpose on the day of a time.
    pub fn key(&self, purpose: SigningPurpose, time: Time) -> [u8; 32] {
        let day = time.0.div_euclid(DAY.0);
        let mut mac = mac(self.0.to_hex().as_bytes());
        mac.update(b"gate\0");
        mac.update(purpose.name());
        mac.update(b"\0");
        mac.update(&day.to_le_bytes());
        mac.finalize().into_bytes().into()
    }

    /// Returns the tag of a message that is signed at a time; the message must contain the time.
    pub fn tag(&self, purpose: SigningPurpose, time: Time, message: &[u8]) -> Tag {
        let mut mac = mac(&self.key(purpose, time));
        mac.update(message);
        let whole: [u8; 32] = mac.finalize().into_bytes().into();
        std::array::from_fn(|at| whole[at])
    }

    /// Returns true if a tag is that of the message; compared in constant time.
    pub fn is_tag(&self, purpose: SigningPurpose, time: Time, message: &[u8], tag: &Tag) -> bool {
        let mut mac = mac(&self.key(purpose, time));
        mac.update(message);
        mac.verify_truncated_left(tag).is_ok()
    }
}

/// A MAC under a key; one of any length will do.
fn mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(key).unwrap_or_else(|_| unreachable!("an HMAC takes keys of any length"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_hold_for_their_purpose_day_message_and_secret_alone() {
        let keys = Keyring::new(Secret::new([7; Secret::BYTES]));
        let (noon, message) = (Time(43_200_000_000), b"message".as_slice());
        let tag = keys.tag(SigningPurpose::Pass, noon, message);
        let check = |keys: &Keyring, purpose, time, message: &[u8], tag: &Tag, holds: bool| {
            assert_eq!(keys.is_tag(purpose, time, message, tag), holds, "{purpose:?} {time:?} {message:?}");
        };
        check(&keys, SigningPurpose::Pass, noon, message, &tag, true);
        check(&keys, SigningPurpose::Pass, Time(1), message, &tag, true);
        check(&keys, SigningPurpose::Challenge, noon, message, &tag, false);
        check(&keys, SigningPurpose::Pass, noon + Span::days(1), message, &tag, false);
        check(&keys, SigningPurpose::Pass, Time(-1), message, &tag, false);
        check(&keys, SigningPurpose::Pass, noon, b"massage", &tag, false);
        let others = Keyring::new(Secret::new([8; Secret::BYTES]));
        check(&others, SigningPurpose::Pass, noon, message, &tag, false);
        for bit in 0..8 * TAG_BYTES {
            let mut changed = tag;
            changed[bit / 8] ^= 1 << (bit % 8);
            check(&keys, SigningPurpose::Pass, noon, message, &changed, false);
        }
    }
}

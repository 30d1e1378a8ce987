//! The unit of counting: a [`Key`] is a space, a kind and the keyed hash of a normalised piece.

use std::fmt;
use std::hash::Hasher;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

/// A tenant or stream, so that several services share one ledger without sharing counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Space(pub u16);

/// The number of a configured kind of piece, such as a sender's address or a link's host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Kind(pub u16);

/// The keyed 64-bit hash of a normalised piece. Equal pieces have equal shingles under one secret; without the
/// secret a shingle neither tells its piece nor can be made to collide on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Shingle(pub u64);

/// The key that a statistic is kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The space that the key belongs to.
    pub space: Space,
    /// The kind of the piece.
    pub kind: Kind,
    /// The hash of the piece.
    pub shingle: Shingle,
}

impl Shingle {
    /// Bits that two shingles share when one was [`Secret::pair`]ed under the other: ledgers route by no more
    /// than these, so that a pair lives where its owner lives.
    pub const ROUTE_BITS: u32 = 16;

    /// The leading bits by which a ledger routes.
    pub fn route(self) -> u16 {
        (self.0 >> (64 - Shingle::ROUTE_BITS)) as u16
    }
}

impl fmt::Display for Shingle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The 128-bit secret that keys every shingle (SipHash-1-3, the variant that Rust's and Python's hash tables
/// trust against flooding). It never leaves the node's disk; `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; Secret::BYTES]);

impl Secret {
    /// Length in bytes.
    pub const BYTES: usize = 16;

    /// Takes the bytes as they are; they should come from the operating system's random source.
    pub const fn new(bytes: [u8; Secret::BYTES]) -> Secret {
        Secret(bytes)
    }

    /// Reads the form that [`Secret::to_hex`] prints; surrounding white space is allowed.
    pub fn from_hex(text: &str) -> Option<Secret> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).ok()?;
        bytes.try_into().ok().map(Secret)
    }

    /// 32 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        HEXLOWER.encode(&self.0)
    }

    /// The shingle of a piece.
    #[inline]
    pub fn shingle(&self, piece: &[u8]) -> Shingle {
        Shingle(self.hasher().hash(piece))
    }

    /// A number that tells this secret from others and gives nothing of it away, for data that is of use under no other
    /// secret: a keyed hash of a text that is the same always.
    pub fn fingerprint(&self) -> u64 {
        self.hasher().hash(b"\0fingerprint")
    }

    #[inline]
    fn hasher(&self) -> SipHasher13 {
        let word = |at: usize| {
            let bytes = self.0.as_chunks().0.get(at).copied();
            bytes.map_or(0, u64::from_le_bytes)
        };
        SipHasher13::new_with_keys(word(0), word(1))
    }

    /// The shingle of a value as seen under an owner: what a paired distinct count marks. It starts with the
    /// owner's leading [`Shingle::ROUTE_BITS`] bits, so both live in the same place; the other 48 are a hash of
    /// both.
    #[inline]
    pub fn pair(&self, owner: Shingle, value: Shingle) -> Shingle {
        let mut hasher = self.hasher();
        hasher.write_u64(owner.0);
        hasher.write_u64(value.0);
        let route = owner.0 >> (64 - Shingle::ROUTE_BITS) << (64 - Shingle::ROUTE_BITS);
        Shingle(route | hasher.finish() >> Shingle::ROUTE_BITS)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_reads_back_and_stays_hidden() {
        let secret = Secret::new(*b"0123456789abcdef");
        assert_eq!(Secret::from_hex(&format!("{}\n", secret.to_hex())), Some(secret.clone()));
        assert_eq!(Secret::from_hex("zz"), None);
        assert_eq!(
            Secret::from_hex(&"+1".repeat(16)),
            None,
            "from_str_radix takes a sign, a secret has none"
        );
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }

    #[test]
    fn shingles_depend_on_piece_and_secret() {
        let (a, b) = (Secret::new([1; 16]), Secret::new([2; 16]));
        assert_eq!(a.shingle(b"x"), a.shingle(b"x"));
        assert_ne!(a.shingle(b"x"), a.shingle(b"y"));
        assert_ne!(a.shingle(b"x"), b.shingle(b"x"));
    }

    #[test]
    fn a_fingerprint_tells_secrets_apart_by_every_bit() {
        let prints: std::collections::HashSet<u64> = (0..128)
            .map(|bit| Secret::new((1u128 << bit).to_le_bytes()).fingerprint())
            .chain([Secret::new([0; 16]).fingerprint()])
            .collect();
        assert_eq!(prints.len(), 129);
        assert_eq!(Secret::new([7; 16]).fingerprint(), Secret::new([7; 16]).fingerprint());
    }

    #[test]
    fn a_pair_is_routed_like_its_owner() {
        let secret = Secret::new([7; 16]);
        let (owner, value) = (secret.shingle(b"sender"), secret.shingle(b"recipient"));
        assert_eq!(secret.pair(owner, value).route(), owner.route());
        assert_ne!(secret.pair(owner, value), secret.pair(owner, secret.shingle(b"another")));
        assert_ne!(secret.pair(owner, value), secret.pair(value, owner));
    }
}

//! Conditions under which a signature counts.

use event::{Span, Time};
use sha2::{Digest, Sha256};

use super::base::signature_base;
use super::key::VerificationKey;
use super::{MessageSignature, SignatureRefusal, SignedRequest};

/// The tag of signatures of robots (draft-meunier-web-bot-auth-architecture).
pub const WEB_BOT_AUTH: &str = "web-bot-auth";

/// Conditions of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignaturePolicy {
    /// Components of which each list must have one that is covered.
    pub covered: &'static [&'static [&'static str]],
    /// The longest time from `created` to `expires`. A signature without `expires` holds for so long.
    pub age_max: Span,
    /// True if `expires` must be given.
    pub has_expiry: bool,
    /// True if a nonce must be given.
    pub has_nonce: bool,
    /// The time by which the signer's clock may be ahead.
    pub skew: Span,
}

/// A signature that is of its key and request, and holds now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedSignature {
    /// The bytes that no other signature has, to be used once: a hash of the key's name and the nonce. `None` if there is no nonce.
    pub token: Option<[u8; 32]>,
    /// The end of the signature, from which the token need not be remembered.
    pub expires: Time,
}

impl SignaturePolicy {
    /// Checks all of a signature that needs no key: what it covers, and when it holds. Answers its end.
    ///
    /// # Errors
    /// The first condition that does not hold.
    pub fn admit(&self, signature: &MessageSignature, now: Time) -> Result<Time, SignatureRefusal> {
        let is_covered = |any: &&[&str]| any.iter().any(|name| signature.covers(name));
        if !self.covered.iter().all(is_covered) {
            return Err(SignatureRefusal::Uncovered);
        }
        let created = signature.seconds("created").ok_or(SignatureRefusal::Parameter)?;
        let expires = signature.seconds("expires");
        let lacks_nonce = self.has_nonce && signature.nonce().is_none();
        if signature.key_id().is_none() || (self.has_expiry && expires.is_none()) || lacks_nonce {
            return Err(SignatureRefusal::Parameter);
        }
        // Structured fields have integers of 15 digits: far too few microseconds to overflow.
        let time = |seconds: i64| Time(seconds.saturating_mul(1_000_000));
        let created = time(created);
        let latest = created + self.age_max;
        let expires = expires.map_or(latest, time);
        if created > now + self.skew {
            return Err(SignatureRefusal::Future);
        }
        if expires > latest {
            return Err(SignatureRefusal::Lasting);
        }
        if expires <= now {
            return Err(SignatureRefusal::Expired);
        }
        Ok(expires)
    }

    /// Verifies a signature by its key.
    ///
    /// # Errors
    /// The first condition that does not hold.
    pub fn verify(
        &self,
        request: &SignedRequest<'_>,
        signature: &MessageSignature,
        key: &VerificationKey,
        now: Time,
    ) -> Result<VerifiedSignature, SignatureRefusal> {
        let expires = self.admit(signature, now)?;
        if signature.algorithm().is_some_and(|named| named != key.algorithm().name()) {
            return Err(SignatureRefusal::Algorithm);
        }
        let base = signature_base(request, signature)?;
        if !key.verifies(base.as_bytes(), &signature.bytes) {
            return Err(SignatureRefusal::Forged);
        }
        let token = signature.nonce().map(|nonce| {
            let key = signature.key_id().unwrap_or_default();
            let mut digest = Sha256::new();
            digest.update((key.len() as u64).to_le_bytes());
            digest.update(key);
            digest.update(nonce);
            digest.finalize().into()
        });
        Ok(VerifiedSignature { token, expires })
    }
}

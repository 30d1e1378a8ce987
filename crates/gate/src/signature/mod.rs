//! HTTP message signatures (RFC 9421) of requests: read, rebuilt and verified.
//!
//! ```text
//! Signature-Input, Signature ─► MessageSignature ─┐
//! the request ─► values of the covered components ─┴► signature base ─► key ─► VerifiedSignature, or why not
//! ```
//!
//! Pure: the time is passed in, and whoever calls knows the keys. Fields are structured fields (RFC 9651), read by `sfv`; signatures
//! are verified by `ring`. Sizes and counts are bounded before anything is read. The algorithm is that of the key; what a signature
//! says of it must agree. A signature that holds can still be a replay: whoever calls uses [`VerifiedSignature::token`] once.

mod base;
mod fields;
mod key;
mod key_directory;
mod policy;
mod request;
#[cfg(test)]
mod tests;

pub use fields::{MessageSignature, read_signatures, signature_agent};
pub use key::{SignatureAlgorithm, VerificationKey, VerificationKeyError};
pub use key_directory::{DIRECTORY_BYTES_MAX, DIRECTORY_PATH, KeyDirectory, KeyDirectoryError};
pub use policy::{SignaturePolicy, VerifiedSignature, WEB_BOT_AUTH};
pub use request::{FieldSource, SignedRequest};

/// Reasons for a signature that does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SignatureRefusal {
    /// The fields are no structured fields, or not those of a signature.
    #[error("the signature's fields cannot be read")]
    Malformed,
    /// The fields, or what they cover, are larger than signatures are.
    #[error("the signature is too large")]
    TooLarge,
    /// A component that must be covered is not.
    #[error("the signature does not cover what it must")]
    Uncovered,
    /// A covered component is not in the request, more than once, or of a kind that is not known.
    #[error("a component that the signature covers is not available")]
    Component,
    /// The signature has no `created`, `expires`, `keyid` or `nonce` where it must.
    #[error("the signature lacks a parameter")]
    Parameter,
    /// The signature is for longer than signatures may be.
    #[error("the signature holds for too long")]
    Lasting,
    /// The signature is no longer good.
    #[error("the signature has expired")]
    Expired,
    /// The signature was made later than now.
    #[error("the signature is from the future")]
    Future,
    /// Nobody whom we know has the key.
    #[error("the key is not known")]
    UnknownKey,
    /// The signature names another algorithm than that of the key.
    #[error("the algorithm is not that of the key")]
    Algorithm,
    /// The signature is not of that key, or not of this request.
    #[error("the signature is not of this key and request")]
    Forged,
    /// The signature was used before.
    #[error("the signature was used before")]
    Replayed,
    /// The key has been retired.
    #[error("the key was retired")]
    Retired,
    /// The request is for a host for which signatures do not hold.
    #[error("the host is none of those for which signatures hold")]
    Host,
    /// The ledger cannot say now if the signature was used before.
    #[error("it cannot be known if the signature was used before")]
    Unknown,
}

impl SignatureRefusal {
    /// All refusals.
    pub const ALL: [SignatureRefusal; 15] = [
        SignatureRefusal::Malformed,
        SignatureRefusal::TooLarge,
        SignatureRefusal::Uncovered,
        SignatureRefusal::Component,
        SignatureRefusal::Parameter,
        SignatureRefusal::Lasting,
        SignatureRefusal::Expired,
        SignatureRefusal::Future,
        SignatureRefusal::UnknownKey,
        SignatureRefusal::Algorithm,
        SignatureRefusal::Forged,
        SignatureRefusal::Replayed,
        SignatureRefusal::Retired,
        SignatureRefusal::Host,
        SignatureRefusal::Unknown,
    ];

    /// Returns the word for it in facts and metrics.
    pub fn name(self) -> &'static str {
        match self {
            SignatureRefusal::Malformed => "malformed",
            SignatureRefusal::TooLarge => "too_large",
            SignatureRefusal::Uncovered => "uncovered",
            SignatureRefusal::Component => "component",
            SignatureRefusal::Parameter => "parameter",
            SignatureRefusal::Lasting => "lasting",
            SignatureRefusal::Expired => "expired",
            SignatureRefusal::Future => "future",
            SignatureRefusal::UnknownKey => "unknown_key",
            SignatureRefusal::Algorithm => "algorithm",
            SignatureRefusal::Forged => "forged",
            SignatureRefusal::Replayed => "replayed",
            SignatureRefusal::Retired => "retired",
            SignatureRefusal::Host => "host",
            SignatureRefusal::Unknown => "unknown",
        }
    }
}

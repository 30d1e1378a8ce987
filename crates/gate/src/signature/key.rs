//! Keys by which signatures are verified.

use data_encoding::{BASE64URL_NOPAD, Encoding};
use hmac::{Hmac, KeyInit, Mac};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA512, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// Shortest shared secret.
pub(super) const SECRET_BYTES_MIN: usize = 16;

/// An algorithm of signatures, of IANA's registry for HTTP message signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureAlgorithm {
    /// Edwards curve 25519.
    Ed25519,
    /// NIST's curve P-256 with SHA-256.
    EcdsaP256,
    /// NIST's curve P-384 with SHA-384.
    EcdsaP384,
    /// RSA with the padding PSS and SHA-512.
    RsaPss,
    /// RSA with the padding of PKCS #1 1.5 and SHA-256: for keys that say so.
    RsaPkcs1,
    /// A shared secret with SHA-256.
    Hmac,
}

impl SignatureAlgorithm {
    /// Returns its name in the registry.
    pub fn name(self) -> &'static str {
        match self {
            SignatureAlgorithm::Ed25519 => "ed25519",
            SignatureAlgorithm::EcdsaP256 => "ecdsa-p256-sha256",
            SignatureAlgorithm::EcdsaP384 => "ecdsa-p384-sha384",
            SignatureAlgorithm::RsaPss => "rsa-pss-sha512",
            SignatureAlgorithm::RsaPkcs1 => "rsa-v1_5-sha256",
            SignatureAlgorithm::Hmac => "hmac-sha256",
        }
    }
}

/// A key of one algorithm.
#[derive(Clone, PartialEq, Eq)]
pub struct VerificationKey {
    algorithm: SignatureAlgorithm,
    /// The public key's bytes, the modulus of RSA, or the secret.
    bytes: Vec<u8>,
    /// The exponent of RSA.
    exponent: Vec<u8>,
}

impl std::fmt::Debug for VerificationKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VerificationKey({})", self.algorithm.name())
    }
}

/// Reasons for a text that is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerificationKeyError {
    /// The text is not encoded as keys are.
    #[error("it is no base64url of 32 bytes, as a public key of ed25519 is")]
    Encoding,
    /// The secret is too short to be kept from guessing.
    #[error("a secret has at least {SECRET_BYTES_MIN} bytes")]
    Short,
}

impl VerificationKey {
    /// Reads a public key of ed25519: 32 bytes in base64, of the alphabet of URLs or the other, padded or not.
    ///
    /// # Errors
    /// If it is none.
    pub fn ed25519(text: &str) -> Result<VerificationKey, VerificationKeyError> {
        let text: String = text.trim().trim_end_matches('=').replace('+', "-").replace('/', "_");
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok().filter(|bytes| bytes.len() == 32);
        let bytes = bytes.ok_or(VerificationKeyError::Encoding)?;
        Ok(VerificationKey { algorithm: SignatureAlgorithm::Ed25519, bytes, exponent: Vec::new() })
    }

    /// Returns the key that a shared secret is.
    ///
    /// # Errors
    /// If it is too short.
    pub fn secret(secret: &[u8]) -> Result<VerificationKey, VerificationKeyError> {
        if secret.len() < SECRET_BYTES_MIN {
            return Err(VerificationKeyError::Short);
        }
        let bytes = secret.to_vec();
        Ok(VerificationKey { algorithm: SignatureAlgorithm::Hmac, bytes, exponent: Vec::new() })
    }

    /// Returns its algorithm.
    pub fn algorithm(&self) -> SignatureAlgorithm {
        self.algorithm
    }

    /// Returns true if a signature is of this key and message.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let elliptic =
            |algorithm| UnparsedPublicKey::new(algorithm, &self.bytes).verify(message, signature).is_ok();
        let rsa = |algorithm| {
            RsaPublicKeyComponents { n: &self.bytes, e: &self.exponent }
                .verify(algorithm, message, signature)
                .is_ok()
        };
        match self.algorithm {
            SignatureAlgorithm::Ed25519 => {
                UnparsedPublicKey::new(&ED25519, &self.bytes).verify(message, signature).is_ok()
            }
            SignatureAlgorithm::EcdsaP256 => elliptic(&ECDSA_P256_SHA256_FIXED),
            SignatureAlgorithm::EcdsaP384 => elliptic(&ECDSA_P384_SHA384_FIXED),
            SignatureAlgorithm::RsaPss => rsa(&RSA_PSS_2048_8192_SHA512),
            SignatureAlgorithm::RsaPkcs1 => rsa(&RSA_PKCS1_2048_8192_SHA256),
            SignatureAlgorithm::Hmac => {
                let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.bytes) else { return false };
                mac.update(message);
                mac.verify_slice(signature).is_ok()
            }
        }
    }
}

/// A public key as JSON has it (RFC 7517).
#[derive(Deserialize)]
pub(super) struct JsonWebKey {
    kty: String,
    #[serde(default)]
    crv: Option<String>,
    #[serde(default)]
    alg: Option<String>,
    #[serde(default)]
    x: Option<String>,
    #[serde(default)]
    y: Option<String>,
    #[serde(default)]
    n: Option<String>,
    #[serde(default)]
    e: Option<String>,
    /// The private part, which nobody publishes on purpose.
    #[serde(default)]
    d: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    pub(super) nbf: Option<f64>,
    #[serde(default)]
    pub(super) exp: Option<f64>,
}

impl JsonWebKey {
    /// Returns the key and its thumbprint (RFC 7638); `None` if it is of a kind that is not known, or not sound.
    pub(super) fn key(&self) -> Option<(String, VerificationKey)> {
        if self.d.is_some() {
            return None;
        }
        let [x, y, n, e] = [&self.x, &self.y, &self.n, &self.e].map(|part| part.as_deref().and_then(decoded));
        let (algorithm, bytes, exponent, members) = match (self.kty.as_str(), self.crv.as_deref()) {
            ("OKP", Some("Ed25519")) => {
                let x = x.filter(|x| x.len() == 32)?;
                let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, encoded(&x));
                (SignatureAlgorithm::Ed25519, x, Vec::new(), members)
            }
            ("EC", Some(curve @ ("P-256" | "P-384"))) => {
                let (algorithm, length) = match curve {
                    "P-256" => (SignatureAlgorithm::EcdsaP256, 32),
                    _ => (SignatureAlgorithm::EcdsaP384, 48),
                };
                let (x, y) = x.zip(y).filter(|(x, y)| x.len() == length && y.len() == length)?;
                let members =
                    format!(r#"{{"crv":"{curve}","kty":"EC","x":"{}","y":"{}"}}"#, encoded(&x), encoded(&y));
                // The point without compression (SEC 1, section 2.3.3).
                (algorithm, [&[4][..], &x, &y].concat(), Vec::new(), members)
            }
            ("RSA", _) => {
                let (n, e) = n.zip(e).filter(|(n, e)| n.len() <= 1024 && e.len() <= 8)?;
                let algorithm = match self.alg.as_deref() {
                    Some("RS256" | "rsa-v1_5-sha256") => SignatureAlgorithm::RsaPkcs1,
                    _ => SignatureAlgorithm::RsaPss,
                };
                let members = format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, encoded(&e), encoded(&n));
                (algorithm, n, e, members)
            }
            _ => return None,
        };
        let thumbprint = encoded(&Sha256::digest(members.as_bytes()));
        Some((thumbprint, VerificationKey { algorithm, bytes, exponent }))
    }
}

const JOSE: Encoding = BASE64URL_NOPAD;

fn decoded(text: &str) -> Option<Vec<u8>> {
    JOSE.decode(text.as_bytes()).ok()
}

fn encoded(bytes: &[u8]) -> String {
    JOSE.encode(bytes)
}

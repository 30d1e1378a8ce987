//! Directories of keys (draft-meunier-http-message-signatures-directory): JSON web keys that a signer publishes.

use std::collections::BTreeMap;

use event::Time;
use serde::Deserialize;

use super::key::{JsonWebKey, VerificationKey};

/// Most bytes of a directory.
pub const DIRECTORY_BYTES_MAX: usize = 256 << 10;
/// The path at which a host publishes its directory.
pub const DIRECTORY_PATH: &str = "/.well-known/http-message-signatures-directory";

/// Most keys of a directory.
const KEYS_MAX: usize = 64;
/// Times beyond this are milliseconds: older drafts had these, and seconds come there in the year 5138.
const SECONDS_MAX: f64 = 1e11;

/// The keys of one signer, by their thumbprints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyDirectory(BTreeMap<String, DirectoryKey>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct DirectoryKey {
    key: VerificationKey,
    not_before: Option<Time>,
    expires: Option<Time>,
}

/// Reasons for bytes that are no directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyDirectoryError {
    /// The directory is longer than directories are.
    #[error("a directory of keys has at most {DIRECTORY_BYTES_MAX} bytes and {KEYS_MAX} keys")]
    TooLarge,
    /// The bytes are no set of JSON web keys.
    #[error("it is no set of JSON web keys: {0}")]
    Malformed(String),
    /// The directory has no key of a kind that is known.
    #[error("it has no public key of ed25519, P-256, P-384 or RSA")]
    Empty,
}

#[derive(Deserialize)]
struct JsonWebKeySet {
    keys: Vec<serde_json::Value>,
}

impl KeyDirectory {
    /// Reads a directory. Keys of kinds that are not known are left out, and so are private ones.
    ///
    /// # Errors
    /// If it is none, or none of its keys can be used.
    pub fn read(bytes: &[u8]) -> Result<KeyDirectory, KeyDirectoryError> {
        if bytes.len() > DIRECTORY_BYTES_MAX {
            return Err(KeyDirectoryError::TooLarge);
        }
        let set: JsonWebKeySet =
            serde_json::from_slice(bytes).map_err(|error| KeyDirectoryError::Malformed(error.to_string()))?;
        if set.keys.len() > KEYS_MAX {
            return Err(KeyDirectoryError::TooLarge);
        }
        let keys: BTreeMap<String, DirectoryKey> = set
            .keys
            .into_iter()
            .filter_map(|key| {
                let jwk: JsonWebKey = serde_json::from_value(key).ok()?;
                let (thumbprint, key) = jwk.key()?;
                let (not_before, expires) = (jwk.nbf.map(time), jwk.exp.map(time));
                Some((thumbprint, DirectoryKey { key, not_before, expires }))
            })
            .collect();
        if keys.is_empty() { Err(KeyDirectoryError::Empty) } else { Ok(KeyDirectory(keys)) }
    }

    /// Returns the key of a thumbprint, if it is valid at this time.
    pub fn key(&self, thumbprint: &str, now: Time) -> Option<&VerificationKey> {
        let found = self.0.get(thumbprint)?;
        let is_valid =
            found.not_before.is_none_or(|from| from <= now) && found.expires.is_none_or(|to| now < to);
        is_valid.then_some(&found.key)
    }

    /// Returns the number of its keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if it has no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The time of a JSON web key.
fn time(number: f64) -> Time {
    let seconds = if number > SECONDS_MAX { number / 1000.0 } else { number };
    // A conversion of floats that are out of bounds saturates.
    Time((seconds * 1e6) as i64)
}

//! Tokens as they are stored: a name, what it may do, and hashes of at most two secrets.
//!
//! A secret is 256 random bits, so its SHA-256 is all that needs to be stored: there is no dictionary to try, and no computer
//! that tries 2^256 of them, however fast the hash is. A slow hash such as argon2 protects passwords, which people choose and
//! others guess; here it would add nothing but milliseconds to each request, and a way to make the node busy with wrong tokens.

use std::fmt;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use event::{Span, Time};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::ScopeSet;

/// Most tokens of a file.
pub const TOKENS_MAX: usize = 100_000;
/// Most pipelines that a token is limited to.
const PIPELINES_MAX: usize = 64;
/// Changes that a file remembers, until they are in the audit log.
const CHANGES_MAX: usize = 256;
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 64;

/// Returns true if a text can name a token or a person: letters, digits, `_`, `-` and `.`, at most 64.
pub fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(fits)
}

/// The SHA-256 of a token's text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenDigest(pub [u8; 32]);

impl TokenDigest {
    /// Returns the digest of a token.
    pub fn of(token: &[u8]) -> TokenDigest {
        TokenDigest(Sha256::digest(token).into())
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<TokenDigest> {
        let bytes = HEXLOWER.decode(text.trim().to_ascii_lowercase().as_bytes()).ok()?;
        Some(TokenDigest(bytes.try_into().ok()?))
    }
}

impl fmt::Display for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest(…)")
    }
}

impl Serialize for TokenDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TokenDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TokenDigest, D::Error> {
        let text = String::deserialize(deserializer)?;
        TokenDigest::from_hex(&text).ok_or_else(|| serde::de::Error::custom("expected 64 hexadecimal digits"))
    }
}

/// A token's text. Shown once, and stored nowhere.
pub struct TokenSecret(String);

impl TokenSecret {
    /// The beginning of every token, by which people and scanners know a lost one.
    pub const PREFIX: &'static str = "toll_";

    /// Makes a new one of 256 random bits.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn generate() -> Result<TokenSecret, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(TokenSecret::of_bytes(bytes))
    }

    /// Returns the token of these bits, which must be random.
    pub fn of_bytes(bytes: [u8; 32]) -> TokenSecret {
        TokenSecret(format!("{}{}", TokenSecret::PREFIX, BASE64URL_NOPAD.encode(&bytes)))
    }

    /// Returns the text that a client sends.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns the digest that is stored.
    pub fn digest(&self) -> TokenDigest {
        TokenDigest::of(self.0.as_bytes())
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}

/// A secret of a token, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredDigest {
    /// The hash of the token's text.
    pub sha256: TokenDigest,
    /// The time at which it was made.
    #[serde(with = "crate::time_text")]
    pub created: Time,
    /// The time from which it no longer holds, of one that was rotated out.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::optional_time_text")]
    pub until: Option<Time>,
}

/// A token, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredToken {
    /// Its name, by which the audit log calls it.
    pub name: String,
    /// The operations that it may be used for.
    pub scopes: ScopeSet,
    /// The pipelines that it is limited to; none for no limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pipelines: Vec<String>,
    /// The time at which it was made.
    #[serde(with = "crate::time_text")]
    pub created: Time,
    /// The time from which it no longer holds.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::optional_time_text")]
    pub expires: Option<Time>,
    /// Its secrets, the newest first: one, or two while it is rotated.
    pub secrets: Vec<StoredDigest>,
}

impl StoredToken {
    /// Returns the time from which a secret of it no longer holds; `None` for never.
    pub fn end_of(&self, secret: &StoredDigest) -> Option<Time> {
        match (self.expires, secret.until) {
            (Some(expires), Some(until)) => Some(expires.min(until)),
            (expires, until) => expires.or(until),
        }
    }
}

/// A change of the tokens, or of people, for the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenChange {
    /// Its number: 1, 2, 3 …
    pub number: u64,
    /// The time of it.
    #[serde(with = "crate::time_text")]
    pub time: Time,
    /// The user of the machine who made it.
    pub by: String,
    /// The action, such as `token.add` or `user.remove`.
    pub action: String,
    /// The name of the token or person.
    pub name: String,
    /// The scopes that the token or person then had.
    pub scopes: ScopeSet,
}

/// A token that is to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// Its name.
    pub name: String,
    /// Its scopes.
    pub scopes: ScopeSet,
    /// The pipelines that it is limited to; none for no limit.
    pub pipelines: Vec<String>,
    /// The time from which it no longer holds.
    pub expires: Option<Time>,
}

/// Reasons not to change tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The name cannot be one.
    #[error("`{0}` is no name: expected letters, digits, `_`, `-` and `.`, at most 64")]
    Name(String),
    /// A token has this name.
    #[error("there is a token `{0}` already; `tollhouse token rotate` gives it a new secret")]
    Present(String),
    /// No token has this name.
    #[error("there is no token `{0}`")]
    Absent(String),
    /// The token would be good for nothing.
    #[error("a token without a scope may do nothing")]
    NoScope,
    /// The token would not hold.
    #[error("the token would not hold any more when it is made")]
    Expired,
    /// More are there than may be.
    #[error("there are {TOKENS_MAX} tokens already")]
    Full,
    /// The token is limited to too many pipelines.
    #[error("a token is limited to at most {PIPELINES_MAX} pipelines")]
    Pipelines,
}

/// All tokens of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenStore {
    /// The tokens, in the order in which they were made.
    pub tokens: Vec<StoredToken>,
    /// The latest changes, the oldest first.
    #[serde(default)]
    pub changes: Vec<TokenChange>,
    /// The number of the latest change.
    #[serde(default)]
    pub changed: u64,
}

impl TokenStore {
    /// Adds a token.
    ///
    /// # Errors
    /// [`TokenError`]; nothing has changed then.
    pub fn add(&mut self, new: NewToken, digest: TokenDigest, now: Time, by: &str) -> Result<(), TokenError> {
        if !is_name(&new.name) {
            return Err(TokenError::Name(new.name.chars().take(NAME_BYTES_MAX).collect()));
        }
        if new.scopes.is_empty() {
            return Err(TokenError::NoScope);
        }
        if new.pipelines.len() > PIPELINES_MAX {
            return Err(TokenError::Pipelines);
        }
        if new.expires.is_some_and(|expires| expires <= now) {
            return Err(TokenError::Expired);
        }
        if self.tokens.iter().any(|token| token.name == new.name) {
            return Err(TokenError::Present(new.name));
        }
        if self.tokens.len() >= TOKENS_MAX {
            return Err(TokenError::Full);
        }
        self.note("token.add", &new.name, new.scopes, now, by);
        self.tokens.push(StoredToken {
            name: new.name,
            scopes: new.scopes,
            pipelines: new.pipelines,
            created: now,
            expires: new.expires,
            secrets: vec![StoredDigest { sha256: digest, created: now, until: None }],
        });
        Ok(())
    }

    /// Gives a token a new secret. The latest old one holds for `keep` longer, any other no more: two hold at a time at most.
    /// `expires` is the token's new end, if it gets one.
    ///
    /// # Errors
    /// [`TokenError`]; nothing has changed then.
    pub fn rotate(
        &mut self,
        name: &str,
        digest: TokenDigest,
        keep: Span,
        expires: Option<Time>,
        now: Time,
        by: &str,
    ) -> Result<(), TokenError> {
        let token = self.tokens.iter_mut().find(|token| token.name == name);
        let token = token.ok_or_else(|| TokenError::Absent(name.chars().take(NAME_BYTES_MAX).collect()))?;
        let end = expires.or(token.expires);
        if end.is_some_and(|end| end <= now) {
            return Err(TokenError::Expired);
        }
        token.secrets.truncate(1);
        token.secrets.retain_mut(|old| {
            let until = now + keep;
            old.until = Some(old.until.map_or(until, |earlier| earlier.min(until)));
            until > now
        });
        token.secrets.insert(0, StoredDigest { sha256: digest, created: now, until: None });
        token.expires = end;
        let scopes = token.scopes;
        self.note("token.rotate", name, scopes, now, by);
        Ok(())
    }

    /// Removes a token.
    ///
    /// # Errors
    /// [`TokenError::Absent`] if there is none of this name.
    pub fn remove(&mut self, name: &str, now: Time, by: &str) -> Result<StoredToken, TokenError> {
        let at = self.tokens.iter().position(|token| token.name == name);
        let at = at.ok_or_else(|| TokenError::Absent(name.chars().take(NAME_BYTES_MAX).collect()))?;
        let token = self.tokens.remove(at);
        self.note("token.remove", name, token.scopes, now, by);
        Ok(token)
    }

    /// Returns the changes after this number.
    pub fn changes_after(&self, number: u64) -> impl Iterator<Item = &TokenChange> {
        self.changes.iter().filter(move |change| change.number > number)
    }

    /// Notes a change of people for the audit log, which reads changes here; `action` is `user.add`, `user.change` or `user.remove`.
    pub fn note_user(&mut self, action: &str, name: &str, scopes: ScopeSet, now: Time, by: &str) {
        self.note(action, name, scopes, now, by);
    }

    fn note(&mut self, action: &str, name: &str, scopes: ScopeSet, time: Time, by: &str) {
        self.changed = self.changed.saturating_add(1);
        if self.changes.len() >= CHANGES_MAX {
            self.changes.remove(0);
        }
        self.changes.push(TokenChange {
            number: self.changed,
            time,
            by: by.chars().take(NAME_BYTES_MAX).collect(),
            action: action.to_owned(),
            name: name.to_owned(),
            scopes,
        });
    }
}

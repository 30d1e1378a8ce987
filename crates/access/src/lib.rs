//! Access: who may do what, and who did. Scopes, named tokens, people with roles and their sessions, and the audit log.
//!
//! ```text
//! TokenStore ─► TokenFile (tokens.json) ─► TokenTable ─► TokenGrant: name, scopes, pipelines
//! AuditEntry ─► AuditWriter (a bounded queue, a thread) ─► AuditLog ─► audit/audit.N.ndjson, each line chained to the last
//! ```
//!
//! All files are made by crate `disk`: readable by their owner alone. Nothing here reads the clock or knows a wire.

#![forbid(unsafe_code)]

pub mod audit;
mod id_token;
mod role;
mod scope;
mod sealed_file;
mod session;
mod table;
mod token;
mod token_file;
mod user;

pub use id_token::{IdTokenClaims, IdTokenError, IdTokenPolicy, KeySet};
pub use role::{Role, UnknownRole};
pub use scope::{AccessScope, ScopeSet, UnknownScope};
pub use sealed_file::{AccessFileError, FileStamp, SealedFile};
pub use session::{Session, SessionOptions, SessionTable};
pub use table::{TokenGrant, TokenRefusal, TokenTable};
pub use token::{
    NewToken, StoredDigest, StoredToken, TOKENS_MAX, TokenChange, TokenDigest, TokenError, TokenSecret,
    TokenStore, is_name,
};
pub use token_file::{TokenFile, UserFile};
pub use user::{StoredPassword, StoredUser, USERS_MAX, UserError, UserStore, generated_password};

/// Times in files as RFC 3339, for people who read them.
pub(crate) mod time_text {
    use event::Time;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(time)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Times that may be missing, as [`time_text`] has them.
pub(crate) mod optional_time_text {
    use event::Time;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(time: &Option<Time>, serializer: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serializer.collect_str(time),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
    }
}

//! Mail: messages and their envelopes, what is attached to them, who vouches for them, and what other filters say.

pub mod arf;
pub mod attachment;
pub mod authentication;
mod columns;
mod header_fingerprint;
pub mod message;
pub(crate) mod mime;
pub mod multimap;
pub mod sender_history;
mod source;
pub mod spamassassin;
pub mod test_pattern;

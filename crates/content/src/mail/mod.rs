//! Mail: messages and their envelopes, what is attached to them, who vouches for them, and what other filters say.

pub mod address;
pub mod arf;
pub mod attachment;
pub mod authentication;
mod columns;
mod header_fingerprint;
pub mod message;
pub(crate) mod mime;
pub mod multimap;
mod page_features;
pub mod spamassassin;
pub mod test_pattern;
mod text_features;

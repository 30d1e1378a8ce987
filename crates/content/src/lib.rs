//! Bytes → events and features: mail, access logs and JSON come in, named facts go out.
//!
//! Adapters ([`message`], [`log`], [`json`]) make an [`event::Event`] of what arrived; their feature functions
//! fill columns of an [`event::Facts`] row; [`piece`] cuts a fact into the normalised pieces that are hashed
//! into keys. Beneath them lie the normalisers: [`text`], [`disguise`], [`language`], [`address`], [`link`],
//! [`network`], [`fingerprint`]. [`authentication`] reads who vouches for a message.
//!
//! Everything here is a pure function of its arguments: no clock, no files, no network, no state. All input is
//! taken to be hostile: each function is linear in what it reads, reads a documented number of bytes at most and no
//! more than its [`budget`] pays for, never recurses on the input's nesting, and cannot fail other than by saying so.

pub mod access_log;
mod access_log_json;
pub mod address;
pub mod arf;
pub mod attachment;
mod attack;
pub mod authentication;
pub mod budget;
pub mod classifier;
mod contact;
pub mod deflate;
pub mod deobfuscation;
pub mod fingerprint;
mod header_fingerprint;
mod html;
pub mod impersonation;
pub mod json;
pub mod language;
pub mod link;
pub mod message;
mod mime;
pub mod multimap;
pub mod network;
pub mod obfuscation;
pub mod phone;
pub mod phrase;
pub mod piece;
pub mod redirect;
pub mod request_target;
pub mod spamassassin;
pub mod test_pattern;
pub mod text;
mod text_features;
pub mod tokenizer;
pub mod wallet;
pub mod worst_case;

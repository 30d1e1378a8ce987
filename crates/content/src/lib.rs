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

pub mod address;
pub mod arf;
pub mod attachment;
mod attack;
pub mod authentication;
pub mod budget;
pub mod classifier;
mod contact;
pub mod disguise;
pub mod fingerprint;
mod handwriting;
pub mod hostile;
mod html;
pub mod imitation;
pub mod inflate;
pub mod json;
pub mod language;
pub mod link;
pub mod log;
mod log_json;
pub mod message;
mod mime;
pub mod multimap;
pub mod network;
pub mod pattern;
pub mod phone;
pub mod phrase;
pub mod piece;
mod prose;
pub mod redirect;
pub mod reveal;
pub mod spamassassin;
pub mod target;
pub mod text;
pub mod token;
pub mod wallet;

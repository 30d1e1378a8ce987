//! Bytes → events and features: mail, access logs and JSON come in, named facts go out.
//!
//! | module | what it reads |
//! |---|---|
//! | [`field`] | any event's texts, links, addresses and telephone numbers, a message's body among them |
//! | [`mail`] | messages with their envelopes, attachments, reports, what other filters write |
//! | [`web`] | requests in access logs, links, HTML |
//! | [`text`] | what a text says and how it is written, in whatever field it stands |
//! | [`json`] | events of applications |
//! | [`list_file`] | lists of phrases and patterns |
//!
//! Adapters ([`mail::message`], [`web::access_log`], [`json`]) make an [`event::Event`] of what arrived; their feature
//! functions fill columns of an [`event::Facts`] row; [`piece`] cuts a fact into the normalised pieces that are hashed
//! into keys, and [`composite`] makes one key of several facts. `mail` imports `field`, that `web` and `text`, `web` imports
//! `text`, and `text` none.
//!
//! Everything here is a pure function of its arguments: no clock, no files, no network, no state. All input is
//! taken to be hostile: each function is linear in what it reads, reads a documented number of bytes at most and no
//! more than its [`budget`] pays for, never recurses on the input's nesting, and cannot fail other than by saying so.

#![forbid(unsafe_code)]

pub mod address;
pub mod budget;
pub mod composite;
pub mod deflate;
pub mod field;
pub mod json;
pub mod list_file;
pub mod mail;
pub mod network;
pub mod piece;
pub mod text;
pub mod web;
pub mod worst_case;

/// The last parts of the names of features that near-duplicates share.
pub const NEAR_DUPLICATE_FEATURES: [&str; 5] =
    ["attachment_pieces", "fingerprints", "image_pieces", "short_fingerprints", "template"];

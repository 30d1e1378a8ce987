//! The proofs that a visitor shows at the gate of a site: challenges that were solved, passes, tokens of forms, signatures.
//!
//! Pure and bounded: bytes and a time in, an answer out. What is used once is remembered by the ledger, what is counted is
//! counted by the pipeline; here is only what can be known from the bytes and the [`Keyring`](keyring::Keyring).

#![forbid(unsafe_code)]

pub mod application;
pub mod bait;
pub mod challenge;
pub mod columns;
pub mod form;
pub mod keyring;
pub mod page_template;
pub mod pass;
pub mod robot;
pub mod signature;

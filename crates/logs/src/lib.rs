//! Lines of any log → events: dates, envelopes, patterns with named groups, sessions of several lines; fail2ban's own files.
//!
//! ```text
//! line ─► envelope ─► date ─► prefix ─► patterns ─► event, or counted as unread
//! ```
//!
//! Pure and bounded: a line, the present and a zone in, a reading out. A line is read in time linear in its length;
//! patterns that need steps back have a number of them. Files are read by whoever asks.

#![forbid(unsafe_code)]

pub mod columns;
pub mod crowdsec;
pub mod csv;
pub mod date;
pub mod date_detector;
pub mod date_pattern;
pub mod envelope;
pub mod fail2ban;
pub mod go_regex;
pub mod grok;
pub mod journal_export;
pub mod line_pattern;
pub mod log_reader;
pub mod log_record;
pub mod log_stream;
pub mod logfmt;
pub mod pattern_set;
pub mod python_regex;
mod required_text;

/// The bits of IPv6 that the holder of an address commonly has for himself: what imports count and ban by.
pub const IPV6_PREFIX: u8 = 64;

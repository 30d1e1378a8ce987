//! The nouns that cross crates: [`Time`], [`Value`], [`Key`], [`Event`], [`Schema`] and [`Facts`].
//!
//! Every other crate speaks in these and siblings meet only here: `content` fills columns of a [`Facts`] row
//! that `judge` reads, and neither knows the other. This crate does no I/O, reads no clock and knows no wire
//! format. A [`Table`] is the list whose entries others point at.

#![forbid(unsafe_code)]

mod address;
mod facts;
mod key;
mod table;
mod time;
mod value;

pub use address::dotted;
pub use facts::{Column, ColumnError, Facts, Schema, SchemaBuilder, Slot};
pub use key::{Key, Kind, Secret, Shingle, Space};
pub use table::{Table, TableIndex};
pub use time::{Span, SpanError, Time, TimeError};
pub use value::{Type, Value};

/// The name of a field. Adapters that read one format know all of theirs, and make no copies of them.
pub type FieldName = std::borrow::Cow<'static, str>;

/// An event as an adapter handed it over: named fields and perhaps a raw message.
///
/// Fields are not checked against a schema yet; the pipeline's first stage does that. The two times are kept
/// apart because a replay or a late report happened long before it arrived: statistics live in event time, the
/// arrival bounds how far an event may claim to come from the future.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// The caller's name for this event, at most [`Event::ID_BYTES_MAX`] bytes. The same id within the
    /// pipeline's dedupe window is counted once.
    pub id: Option<String>,
    /// The time of the event, if the adapter could tell; otherwise its arrival counts.
    pub time: Option<Time>,
    /// Named fields, in the order in which they were found. A later field of the same name wins.
    pub fields: Vec<(FieldName, Value)>,
    /// The raw message that content features are read from, e.g. an RFC 5322 message.
    pub raw: Option<std::sync::Arc<[u8]>>,
}

impl Event {
    /// Longest accepted [`Event::id`].
    pub const ID_BYTES_MAX: usize = 256;

    /// Adds a field.
    pub fn push(&mut self, name: impl Into<FieldName>, value: impl Into<Value>) {
        self.fields.push((name.into(), value.into()));
    }

    /// The last field of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().rev().find(|(field, _)| field == name).map(|(_, value)| value)
    }
}

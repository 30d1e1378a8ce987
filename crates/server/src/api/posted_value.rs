//! Posted entries of the allow list, and notes on values, in JSON.

use engine::{AllowEntry, ValueNote};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Length, Timestamp};

/// The posted entries of the allow list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AllowList)]
pub struct AllowListJson {
    /// The entries that were posted, the newest first.
    pub entries: Vec<AllowEntryJson>,
    /// The part of the allow list that the value which was asked for is on, such as `[allow] networks` or `a posted entry`; missing
    /// if it is on none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
}

/// A posted entry of the allow list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AllowEntry)]
pub struct AllowEntryJson {
    /// The address, network, account or other value, as values are compared.
    pub value: String,
    /// The reason.
    pub why: String,
    /// The name of who posted it.
    pub by: String,
    /// The time at which it was posted.
    pub since: Timestamp,
    /// The time of its end; missing if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl From<AllowEntry> for AllowEntryJson {
    fn from(AllowEntry { value, why, by, since, until }: AllowEntry) -> AllowEntryJson {
        AllowEntryJson { value, why, by, since: Timestamp(since), until: until.map(Timestamp) }
    }
}

/// A value that is to be allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AllowRequest)]
pub struct AllowRequest {
    /// The address, network, account or other value.
    #[schema(max_length = 1024)]
    pub value: String,
    /// The reason, for those who come later.
    #[schema(max_length = 1000)]
    pub why: String,
    /// The time for which it is to be allowed, such as `30d`; without an end if none is given.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Length>,
}

/// The outcome of removing an entry or a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Removed)]
pub struct RemovedJson {
    /// True if there was one.
    pub removed: bool,
}

/// The notes on a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ValueNotes)]
pub struct ValueNotesJson {
    /// The notes, the newest first.
    pub notes: Vec<ValueNoteJson>,
}

/// A note on a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ValueNote)]
pub struct ValueNoteJson {
    /// The value, as values are compared.
    pub value: String,
    /// The time of it, by which it can be removed.
    pub time: Timestamp,
    /// The name of who wrote it.
    pub by: String,
    /// The text.
    pub text: String,
}

impl From<ValueNote> for ValueNoteJson {
    fn from(ValueNote { value, time, by, text }: ValueNote) -> ValueNoteJson {
        ValueNoteJson { value, time: Timestamp(time), by, text }
    }
}

/// A note that is to be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NoteRequest)]
pub struct NoteRequest {
    /// The value.
    #[schema(max_length = 1024)]
    pub value: String,
    /// The text.
    #[schema(max_length = 1000)]
    pub text: String,
}

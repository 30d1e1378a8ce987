//! Entries of the ban list, and changes of them.

use std::sync::Arc;

use event::Time;
use journal::RecordId;
use serde::{Deserialize, Serialize};

use super::address_range::AddressRange;
use super::target::BanTarget;

/// A label, and what put it on a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelSource {
    /// The pipeline whose label it is.
    pub pipeline: String,
    /// The kind of the key.
    pub kind: String,
    /// The label.
    pub label: String,
    /// The thing to be done, as the label's `decision` says: `ban`, `captcha`.
    pub decision: String,
    /// The source that put the label on it: a rule's name, or who did.
    pub by: String,
}

/// The ban list's entry of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    /// A number of its own.
    pub id: u64,
    /// The scope of the key: an address, a network, or something else.
    pub scope: BanScope,
    /// The label, and what put it on.
    pub source: Arc<LabelSource>,
    /// The piece, such as an address.
    pub value: Arc<str>,
    /// The time since which it holds without a break.
    pub since: Time,
    /// The end of the ban.
    pub until: Time,
    /// The decision or the words that put it on last; `None` of a block list's.
    pub cause: Option<Arc<BanCause>>,
}

impl Ban {
    /// Returns true if it is of this value, in whatever form an address or a network is written.
    pub fn is_of(&self, value: &str) -> bool {
        BanTarget::of(&self.value) == BanTarget::of(value)
    }
}

/// The decision that put a label on a key, or the words of who did so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanCause {
    /// The decision, of a rule's ban.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<RecordId>,
    /// The reason that was given for a ban by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The sort of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BanScope {
    /// An address.
    Ip,
    /// A network, as `192.0.2.0/24`.
    Range,
    /// Any other subject: a user, a session.
    Other,
}

impl BanScope {
    /// Returns the scope that the value itself shows.
    pub fn of(value: &str) -> BanScope {
        match AddressRange::parse(value) {
            None => BanScope::Other,
            Some(range) if range.length < AddressRange::WHOLE => BanScope::Range,
            Some(_) => BanScope::Ip,
        }
    }
}

/// A label that is put on a key.
#[derive(Clone, Debug)]
pub(crate) struct NewBan {
    pub(crate) pipeline: String,
    pub(crate) kind: String,
    pub(crate) label: String,
    pub(crate) decision: String,
    pub(crate) value: String,
    pub(crate) by: String,
    pub(crate) since: Time,
    pub(crate) until: Time,
    pub(crate) cause: BanCause,
}

/// A change of a ban that nodes share: it is put on a key, or lifted.
#[derive(Clone, Debug)]
pub(crate) struct SharedBan {
    pub(crate) ban: NewBan,
    pub(crate) is_lift: bool,
}

/// A change that other nodes have not heard of.
#[derive(Clone, Debug)]
pub(crate) struct UnsharedBan {
    pub(crate) ban: Ban,
    /// The number of the change; `None` for a lift.
    pub(super) number: Option<u64>,
}

impl UnsharedBan {
    pub(crate) fn is_lift(&self) -> bool {
        self.number.is_none()
    }
}

pub(super) fn is_same_label(one: &LabelSource, other: &LabelSource) -> bool {
    (&one.pipeline, &one.kind, &one.label) == (&other.pipeline, &other.kind, &other.label)
}

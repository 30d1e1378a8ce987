//! Feedback in the journal, and what it makes of its decision's label.

use event::{Shingle, Time};
use serde::{Deserialize, Serialize};

use crate::id::RecordId;

/// Feedback on a decision, and its effects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportRecord {
    /// The decision.
    pub decision: RecordId,
    /// The class of the feedback; `None` took back what was said before.
    pub class: Option<String>,
    /// True if the report tells what was done with the event, and is no judgement of it.
    #[serde(skip)]
    pub signal: bool,
    /// The time of the record.
    pub time: Time,
    /// The hashed name of who said it; `None` for the operator.
    pub by: Option<Shingle>,
    /// The amount by which each counter went up.
    pub weight: u8,
    /// True if the report was more than a reporter may give in a day.
    pub limited: bool,
    /// The counters of the class.
    pub counters: Vec<String>,
    /// The feedback that the same reporter had given before, and that was taken back.
    pub replaced: Option<ReplacedReport>,
}

/// A report in whose place another one stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacedReport {
    /// The class of the feedback.
    pub class: String,
    /// The counters of the class.
    pub counters: Vec<String>,
    /// The time at which it counted.
    pub time: Time,
    /// The amount that it counted.
    pub weight: u8,
}

impl ReportRecord {
    /// A judgement of the operator, which counts one in no counter.
    pub fn judgement(decision: RecordId, class: impl Into<String>, time: Time) -> ReportRecord {
        ReportRecord {
            decision,
            class: Some(class.into()),
            signal: false,
            time,
            by: None,
            weight: 1,
            limited: false,
            counters: Vec::new(),
            replaced: None,
        }
    }

    /// Returns what the report makes of its decision's label: its class, or none in the place of one that it takes back.
    /// `None` if it does not touch the label, being a signal, or counting nothing.
    pub fn label(&self) -> Option<Option<&str>> {
        if self.signal { None } else { self.counted() }
    }

    /// Returns what a signal makes of what is shown of use, which is another value beside the label.
    pub fn signalled(&self) -> Option<Option<&str>> {
        if self.signal { self.counted() } else { None }
    }

    fn counted(&self) -> Option<Option<&str>> {
        counted(self.class.as_deref(), self.weight, self.replaced.is_some())
    }
}

/// The class that stands after a word of this class and weight: none in the place of one that it takes back. `None` if it
/// counts nothing and takes back nothing.
pub(super) fn counted(class: Option<&str>, weight: u8, replaces: bool) -> Option<Option<&str>> {
    let counts = class.filter(|_| weight > 0);
    (counts.is_some() || class.is_none() || replaces).then_some(counts)
}

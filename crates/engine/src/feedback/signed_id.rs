//! Ids of decisions that are sent out, and come back in reports.
//!
//! Whoever can name a decision can report on it, and ids can be guessed: they rise with time. So what is written into a
//! message is a signed id, the id and 64 bits of a keyed hash of it (SipHash-1-3 under the data directory's secret, like every
//! shingle). Nobody without the secret makes one, short of trying some 2^63; one that was given out for a message can be
//! used again by whoever has the message, which is whom it is for.

use journal::RecordId;

use crate::Engine;

/// The header field in which a message carries its signed id.
pub const ID_FIELD: &str = "X-Tollhouse-Id";

impl Engine {
    /// Returns the signed id that a message is to carry in [`ID_FIELD`], so that a report on it finds the decision: 27
    /// characters.
    pub fn signed_id(&self, id: RecordId) -> String {
        format!("{id}-{}", RecordId(self.seal(id)))
    }

    /// The decision of a signed id that this data directory's node has made; `None` for any other text. White space
    /// around it is allowed. Whether the decision is still in the journal is another question.
    pub fn decision_of(&self, signed_id: &str) -> Option<RecordId> {
        let (id, seal) = signed_id.trim().split_once('-')?;
        let (id, seal): (RecordId, RecordId) = (id.parse().ok()?, seal.parse().ok()?);
        (self.seal(id) == seal.0).then_some(id)
    }

    fn seal(&self, id: RecordId) -> u64 {
        // The name keeps it apart from what else is hashed.
        self.secret.shingle(format!("\0ticket\0{id}").as_bytes()).0
    }
}

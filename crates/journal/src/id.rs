//! Names of decisions.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use event::Time;
use serde::{Deserialize, Serialize};

/// The name of a decision or another record of the journal: rising in the order in which records were made, so
/// that a journal finds one by search. Written as 13 characters of Crockford's base 32, which has no letters that
/// look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RecordId(pub u64);

const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The worth of each byte as a digit, in either case; the number of digits if it is none. A look-up, because a
/// search among thousands of ids parses them all.
const WORTH: [u8; 256] = {
    let mut worth = [DIGITS.len() as u8; 256];
    let mut digit = 0;
    while digit < DIGITS.len() {
        worth[DIGITS[digit] as usize] = digit as u8;
        worth[DIGITS[digit].to_ascii_uppercase() as usize] = digit as u8;
        digit += 1;
    }
    worth
};

impl RecordId {
    /// Length of its text.
    pub const TEXT_BYTES: usize = 13;

    /// Its text, in ASCII.
    pub(crate) fn digits(self) -> [u8; RecordId::TEXT_BYTES] {
        let digit = |place: usize| DIGITS[(self.0 >> (5 * (RecordId::TEXT_BYTES - 1 - place)) & 31) as usize];
        std::array::from_fn(digit)
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.digits()).unwrap_or_default())
    }
}

/// A text that names no decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordIdError;

impl fmt::Display for RecordIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "expected a decision id, {} characters such as `{}`",
            RecordId::TEXT_BYTES,
            RecordId(0x0001_9a3c_55d0_7f01)
        )
    }
}

impl std::error::Error for RecordIdError {}

impl FromStr for RecordId {
    type Err = RecordIdError;

    fn from_str(text: &str) -> Result<RecordId, RecordIdError> {
        if text.len() != RecordId::TEXT_BYTES {
            return Err(RecordIdError);
        }
        text.bytes()
            .try_fold(0u64, |number, byte| {
                let digit = u64::from(WORTH[usize::from(byte)]);
                if digit < DIGITS.len() as u64 { number.checked_mul(32)?.checked_add(digit) } else { None }
            })
            .map(RecordId)
            .ok_or(RecordIdError)
    }
}

impl RecordId {
    /// The smallest id of a record that arrived at this time or later, to a millisecond.
    pub fn first_of(time: event::Time) -> RecordId {
        let millis = u64::try_from(time.0.div_euclid(1000)).unwrap_or(0);
        RecordId(millis.min(u64::MAX >> SERIAL_BITS) << SERIAL_BITS)
    }

    /// The time that it begins with, to a millisecond: the arrival, or that of an earlier record that arrived later.
    pub fn time(self) -> event::Time {
        event::Time::from_millis(i64::try_from(self.0 >> SERIAL_BITS).unwrap_or(i64::MAX))
    }
}

/// Ids that are asked for: from one on, up to below another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// The smallest.
    pub from: RecordId,
    /// The one above the greatest.
    pub below: RecordId,
}

impl Default for IdRange {
    /// All ids.
    fn default() -> IdRange {
        IdRange { from: RecordId(0), below: RecordId(u64::MAX) }
    }
}

impl IdRange {
    /// Returns true if the id is in the range.
    pub fn contains(&self, id: RecordId) -> bool {
        self.from <= id && id < self.below
    }

    /// Returns true if there is no id in the range.
    pub fn is_empty(&self) -> bool {
        self.from >= self.below
    }

    pub(crate) fn meets(&self, first: RecordId, last: RecordId) -> bool {
        first <= last && first < self.below && last >= self.from
    }
}

/// The number of a node among those that share their statistics, from 1 to [`NodeNumber::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeNumber(u16);

impl NodeNumber {
    /// The greatest number.
    pub const MAX: u16 = (1 << NODE_BITS) - 1;

    /// Returns a number, if it is one.
    pub fn new(number: u16) -> Option<NodeNumber> {
        (1..=NodeNumber::MAX).contains(&number).then_some(NodeNumber(number))
    }

    /// Returns the number that a hash of a node's name stands for.
    pub fn of_hash(hash: u32) -> NodeNumber {
        NodeNumber((hash % u32::from(NodeNumber::MAX)) as u16 + 1)
    }

    /// Returns the number itself.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl RecordId {
    /// The node that made the record, where nodes share their statistics. Ids of other journals have any number there, or none.
    pub fn node(self) -> Option<NodeNumber> {
        NodeNumber::new((self.0 & ((1 << NODE_BITS) - 1)) as u16)
    }
}

/// Hands out rising ids. The leading bits are the arrival in milliseconds, so ids also sort by time and go on
/// rising after a restart that lost the last of them; where the clock stands still or goes back the next number
/// is taken. Where nodes share their statistics the last bits are the node's number: no two nodes make the same id, and an id
/// says whose journal has the record.
#[derive(Debug, Default)]
pub struct IdSource {
    last: AtomicU64,
    node: Option<NodeNumber>,
}

/// Ids within one millisecond.
const SERIAL_BITS: u32 = 20;
/// The last of these bits, which are the node's number where there are several: it makes a thousand ids a millisecond then, before
/// they run ahead of the clock.
const NODE_BITS: u32 = 10;

impl IdSource {
    /// Goes on above an id that was given before, as a node of this number.
    pub fn after(last: RecordId, node: Option<NodeNumber>) -> IdSource {
        IdSource { last: AtomicU64::new(last.0), node }
    }

    /// The number of the node in all ids.
    pub fn node(&self) -> Option<NodeNumber> {
        self.node
    }

    /// The next id, for a record that arrived at this time.
    pub fn next(&self, arrival: Time) -> RecordId {
        let floor = u64::try_from(arrival.0 / 1000).unwrap_or(0) << SERIAL_BITS;
        let after = |last: u64| match self.node {
            None => floor.max(last.saturating_add(1)),
            Some(NodeNumber(node)) => {
                let above = (last >> NODE_BITS).saturating_add(1).min(u64::MAX >> NODE_BITS) << NODE_BITS;
                floor.max(above) | u64::from(node)
            }
        };
        // Only the number itself is shared: no other memory hangs on its order.
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(after(last)));
        RecordId(after(last.unwrap_or_else(|last| last)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_and_rise() {
        for id in [0, 1, u64::MAX, 0x0001_9a3c_55d0_7f01] {
            assert_eq!(RecordId(id).to_string().parse(), Ok(RecordId(id)));
            assert_eq!(RecordId(id).to_string().to_uppercase().parse(), Ok(RecordId(id)));
        }
        for text in ["", "0", "zzzzzzzzzzzzz", "000000000000u", "0000000000é"] {
            assert_eq!(text.parse::<RecordId>(), Err(RecordIdError), "{text}");
        }
        let source = IdSource::default();
        let times =
            [Time::from_seconds(5), Time::from_seconds(5), Time::from_seconds(4), Time(-1), Time(i64::MAX)];
        let ids: Vec<RecordId> = times.iter().map(|time| source.next(*time)).collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    }
    #[test]
    fn ids_of_nodes_are_apart_and_name_the_node() {
        assert_eq!(
            [0, 1, NodeNumber::MAX, NodeNumber::MAX + 1].map(|number| NodeNumber::new(number).is_some()),
            [false, true, true, false]
        );
        let nodes: Vec<NodeNumber> =
            [1, 2, NodeNumber::MAX].into_iter().filter_map(NodeNumber::new).collect();
        let last = IdSource::default().next(Time::from_seconds(9));
        let sources = nodes.iter().map(|node| (Some(*node), IdSource::after(last, Some(*node))));
        let mut all = std::collections::BTreeSet::new();
        for (node, source) in sources {
            // More than a millisecond has room for, a clock that goes back, and times that no clock has.
            let times = (0..3000).map(|_| Time::from_seconds(10)).chain([
                Time(-1),
                Time::from_seconds(11),
                Time(i64::MAX),
            ]);
            let ids: Vec<RecordId> = times.map(|time| source.next(time)).collect();
            assert!(ids.is_sorted_by(|a, b| a < b) && ids[0] > last);
            assert!(ids.iter().all(|id| id.node() == node && id.time() >= Time::from_seconds(9)));
            assert_eq!(ids[0].time(), Time::from_seconds(10));
            all.extend(ids);
        }
        assert_eq!(all.len(), nodes.len() * 3003);
    }
}

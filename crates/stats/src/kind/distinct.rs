//! The number of different values that an owner had per period, exactly.
//!
//! Each (owner, value) pair is marked in a cell of its own, and the owner's count goes up when the pair's mark for the
//! period was not there yet. Both cells are those of one counter over windows, see [`super::windows`]; a home looks at
//! the two together.

use event::{Key, Span};
use serde::{Deserialize, Serialize};

use super::windows::WindowsPlan;
use super::{Addition, OTHER_ADDITION, StatisticForm};
use crate::bytes::{ByteReader, push_tier};
use crate::layout::{CellShape, LayoutError, Tier, WindowBuckets};

/// Exact numbers of different values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistinctForm {
    /// The period, and how many whole ones are kept beside the current one.
    pub tier: Tier,
    /// The periods that readings sum: one, two, ... periods back from the query's own, which is the first. A value that
    /// came in several of the periods counts once in each. None means the current period alone.
    #[serde(skip)]
    pub windows: Vec<Span>,
}

impl DistinctForm {
    pub(super) fn cells(&self, trails: &[WindowBuckets]) -> Result<WindowsPlan, LayoutError> {
        Ok(WindowsPlan::new(&self.shape()?, Vec::new(), trails, false))
    }
}

/// Checks the pair of a value: it must lie where its owner does.
pub(super) fn accepts(key: &Key, add: &Addition) -> Result<(), &'static str> {
    match add {
        Addition::Nothing => Ok(()),
        Addition::Distinct { pair } if pair.route() == key.shingle.route() => Ok(()),
        Addition::Distinct { .. } => {
            Err("the pair is not routed like its owner: make it with `Secret::pair`")
        }
        _ => Err(OTHER_ADDITION),
    }
}

/// The buckets that answer a window of whole periods.
pub(super) fn trail(tier: Tier, window: Span) -> Result<WindowBuckets, LayoutError> {
    let longest = tier.width.times(i64::from(tier.buckets) + 1);
    if window <= Span::ZERO || window.0 % tier.width.0 != 0 || window > longest {
        let possible = format!("multiples of {} up to {longest}", tier.width);
        return Err(LayoutError::Window { window, possible });
    }
    Ok(WindowBuckets::periods(tier.width, window))
}

/// The buckets of each window; without windows those of the current period.
pub(super) fn trails(tier: Tier, windows: &[Span]) -> Result<Vec<WindowBuckets>, LayoutError> {
    let current = [tier.width];
    let windows = if windows.is_empty() { &current[..] } else { windows };
    windows.iter().map(|window| trail(tier, *window)).collect()
}

impl StatisticForm for DistinctForm {
    const NUMBER: u8 = 1;

    fn name(&self) -> &'static str {
        "distinct"
    }

    fn counters(&self) -> Vec<String> {
        vec!["distinct".to_owned()]
    }

    fn windows(&self) -> &[Span] {
        &self.windows
    }

    fn without_windows(&self) -> DistinctForm {
        DistinctForm { tier: self.tier, windows: Vec::new() }
    }

    fn has_pairs(&self) -> bool {
        true
    }

    fn shape(&self) -> Result<CellShape, LayoutError> {
        CellShape::new(1, &[self.tier], None)
    }

    fn trail(&self, window: Span) -> Result<WindowBuckets, LayoutError> {
        trail(self.tier, window)
    }

    fn trails(&self) -> Result<Vec<WindowBuckets>, LayoutError> {
        trails(self.tier, &self.windows)
    }

    fn slack(&self) -> Span {
        self.tier.width
    }

    fn accepts(&self, key: &Key, add: &Addition) -> Result<(), &'static str> {
        accepts(key, add)
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        push_tier(bytes, self.tier);
    }

    fn decode(reader: &mut ByteReader<'_>) -> Option<DistinctForm> {
        Some(DistinctForm { tier: reader.tier()?, windows: Vec::new() })
    }
}

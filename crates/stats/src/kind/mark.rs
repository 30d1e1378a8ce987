//! Marks of requests that were counted, so that none is counted twice. Their cells are those of one counter over
//! windows, see [`super::windows`].

use event::{Key, Span};
use serde::{Deserialize, Serialize};

use super::windows::WindowsPlan;
use super::{Addition, StatisticForm};
use crate::bytes::{ByteReader, push_span};
use crate::layout::{CellShape, LayoutError, Tier, WindowBuckets};

/// Marks of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkForm {
    /// A mark is heeded by requests whose time lies in the same bucket of this width or in a neighbouring one,
    /// whichever came first.
    pub window: Span,
}

impl MarkForm {
    pub(super) fn cells(&self, trails: &[WindowBuckets]) -> Result<WindowsPlan, LayoutError> {
        Ok(WindowsPlan::new(&self.shape()?, Vec::new(), trails, false))
    }
}

impl StatisticForm for MarkForm {
    const NUMBER: u8 = 2;

    fn name(&self) -> &'static str {
        "once"
    }

    fn counters(&self) -> Vec<String> {
        vec!["once".to_owned()]
    }

    fn without_windows(&self) -> MarkForm {
        *self
    }

    fn shape(&self) -> Result<CellShape, LayoutError> {
        CellShape::new(1, &[Tier { width: self.window, buckets: 1 }], None)
    }

    fn trail(&self, window: Span) -> Result<WindowBuckets, LayoutError> {
        self.shape()?.trail(window)
    }

    fn slack(&self) -> Span {
        self.window
    }

    /// Marks of a run are set before its observations, so a reading could come from after its request.
    fn accepts(&self, _key: &Key, _add: &Addition) -> Result<(), &'static str> {
        Err("marks of requests are not observed")
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        push_span(bytes, self.window);
    }

    fn decode(reader: &mut ByteReader<'_>) -> Option<MarkForm> {
        Some(MarkForm { window: reader.span()? })
    }
}

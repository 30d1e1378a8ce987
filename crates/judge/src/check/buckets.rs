//! Readings of a timeline: the buckets of a counter one by one, rather than their sum.

use event::Span;

use super::*;
use crate::scope::{BucketFunction, CounterSum, ReadingRequest};

impl Checker<'_> {
    /// `max_bucket(from.seen('2h'), '10m')` and its like: what the buckets of a counter within a window are like.
    pub(super) fn buckets(
        &mut self,
        value: BucketFunction,
        count: &SyntaxNode,
        width: &SyntaxNode,
        range: &Range<usize>,
    ) -> Option<TypedExpr> {
        let name = value.name();
        let usage = format!("write it as in `{name}(from.seen('2h'), '10m')`");
        let width_span = self.span(width, &format!("{name}(from.seen('2h'), '10m')"));
        let mut written = Vec::new();
        let (kind, CounterSum { counters, window }) = self.counters(name, count, &mut written)?;
        let [counter] = counters[..] else {
            return self.fail(&count.range, format!("`{name}` takes one counter"), usage);
        };
        let Some(window) = window else {
            return self.fail(&count.range, format!("`{name}` takes a counter over a window"), usage);
        };
        let width_span = width_span?;
        if width_span <= Span::ZERO {
            return self.fail(&width.range, "a bucket is longer than 0", usage);
        }
        if window.0 % width_span.0 != 0 {
            let message = format!("the window {window} is no whole number of buckets of {width_span}");
            return self.fail(&width.range, message, usage);
        }
        let request = ReadingRequest::Buckets { kind, counter, window, width: width_span, value };
        self.reading(&request, range, &written, Some(width))
    }
}

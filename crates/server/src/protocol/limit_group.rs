//! Limits that a request takes from together, and the header fields that tell of them.

use std::fmt::Write;
use std::sync::Arc;

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use engine::Engine;
use engine::limit::{LimitKey, LimitKeyError, Take, TakeResult};
use event::Span;
use plan::Plan;
use plan::limit::LimitPlan;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Limits that are taken together, each with its key of one request.
pub(crate) struct LimitGroup(Vec<(Arc<LimitPlan>, LimitKey)>);

impl LimitGroup {
    /// A limit and those that go with it. `value` gives the fields of the request.
    pub(crate) fn of<'v>(
        engine: &Engine,
        plan: &Plan,
        limit: &LimitPlan,
        value: impl Fn(&str) -> Option<&'v str>,
    ) -> Result<LimitGroup, LimitKeyError> {
        let all = plan.limits_of([&*limit.name]).into_iter();
        let keyed = all.map(|limit| Ok((Arc::clone(limit), engine.limit_key_of(limit, &value)?)));
        Ok(LimitGroup(keyed.collect::<Result<_, _>>()?))
    }

    /// The named limits for whose keys the request has the fields, with those taken along.
    pub(crate) fn of_known<'v>(
        engine: &Engine,
        plan: &Plan,
        names: &[String],
        value: impl Fn(&str) -> Option<&'v str>,
    ) -> LimitGroup {
        let all = plan.limits_of(names.iter().map(String::as_str)).into_iter();
        LimitGroup(
            all.filter_map(|limit| Some((Arc::clone(limit), engine.limit_key_of(limit, &value).ok()?)))
                .collect(),
        )
    }

    /// Returns the limits, each with its key.
    pub(crate) fn members(&self) -> impl Iterator<Item = &(Arc<LimitPlan>, LimitKey)> {
        self.0.iter()
    }

    /// All of them at once, at this cost or at their own.
    pub(crate) fn takes(&self, cost: Option<u64>) -> Vec<Take<'_>> {
        self.0
            .iter()
            .map(|(limit, key)| Take { limit, key: *key, cost: cost.unwrap_or(limit.cost) })
            .collect()
    }
}

/// Seconds, rounded up: a client that comes again after so many is not early.
fn whole_seconds(span: Span) -> u64 {
    let micros = span.0.max(0).unsigned_abs();
    micros.div_ceil(1_000_000)
}

/// The fields of draft-ietf-httpapi-ratelimit-headers-11, and `Retry-After`.
pub(crate) fn limit_fields(taken: &[TakeResult]) -> HeaderMap {
    /// The greatest integer of a structured field.
    const INTEGER_MAX: u64 = 999_999_999_999_999;
    // Names of limits are letters, digits and a few signs that need no escape.
    let (mut policies, mut states) = (String::new(), String::new());
    for taken in taken.iter().filter(|taken| !taken.exempt && taken.quota <= INTEGER_MAX) {
        let TakeResult { limit, quota, .. } = taken;
        let (window, reset) = (whole_seconds(taken.window), whole_seconds(taken.reset_after));
        let remaining = taken.remaining.min(INTEGER_MAX);
        let separator = if policies.is_empty() { "" } else { ", " };
        let _ = write!(policies, "{separator}\"{limit}\";q={quota};w={window}");
        let _ = write!(states, "{separator}\"{limit}\";r={remaining};t={reset}");
    }
    let mut headers = HeaderMap::new();
    for (name, list) in [(POLICY, policies), (LIMIT, states)] {
        if !list.is_empty()
            && let Ok(value) = HeaderValue::try_from(list)
        {
            headers.insert(name, value);
        }
    }
    let refused = taken.iter().filter(|taken| !taken.allowed);
    let waits: Option<Vec<Span>> = refused.map(|taken| taken.retry_after).collect();
    if let Some(longest) = waits.and_then(|waits| waits.into_iter().max()) {
        headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(longest)));
    }
    headers
}

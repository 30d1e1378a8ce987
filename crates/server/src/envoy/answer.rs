//! What came of a request's limits → what Envoy is told.

use engine::EnvoyPlan;
use engine::envoy::Unit;
use engine::limit::Taken;
use event::Span;
use prost_types::value::Kind;
use prost_types::{Duration, ListValue, Struct, Value};
use tonic::{Code as GrpcCode, Status};

use super::asked::{Asked, Limited, Meant};
use crate::grpc::proto::envoy::config::core::v3::HeaderValue;
use crate::grpc::proto::envoy::service::ratelimit::v3::RateLimitResponse;
use crate::grpc::proto::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit, rate_limit,
};

/// The answer: a status for each descriptor, in their order.
pub(super) fn answer(asked: &Asked, taken: &[Option<Taken>], plan: &EnvoyPlan) -> RateLimitResponse {
    let statuses: Vec<DescriptorStatus> =
        asked.meant.iter().zip(taken).map(|(meant, taken)| status(meant, taken.as_ref())).collect();
    let over = statuses.iter().any(|status| status.code == i32::from(Code::OverLimit));
    RateLimitResponse {
        overall_code: if over { Code::OverLimit } else { Code::Ok }.into(),
        response_headers_to_add: if plan.response_headers { headers(&statuses) } else { Vec::new() },
        dynamic_metadata: plan.response_metadata.then(|| metadata(asked, taken)),
        statuses,
        ..RateLimitResponse::default()
    }
}

fn status(meant: &Meant, taken: Option<&Taken>) -> DescriptorStatus {
    let ok = DescriptorStatus { code: Code::Ok.into(), ..DescriptorStatus::default() };
    let (limited, taken) = match (meant, taken) {
        (Meant::Limited(limited), Some(taken)) => (limited, taken),
        (Meant::Unlimited, _) => return DescriptorStatus { limit_remaining: u32::MAX, ..ok },
        _ => return ok,
    };
    let passes = limited.rule.as_ref().is_some_and(|rule| rule.shadow_mode || rule.quota_mode);
    let code = if taken.over && !passes { Code::OverLimit } else { Code::Ok };
    DescriptorStatus {
        code: code.into(),
        current_limit: Some(RateLimit {
            name: limited.rule.as_ref().map(|rule| rule.name.clone()).unwrap_or_default(),
            requests_per_unit: limited.rate.requests,
            unit: unit(limited.rate.unit).into(),
        }),
        limit_remaining: u32::try_from(taken.remaining).unwrap_or(u32::MAX),
        duration_until_reset: Some(Duration { seconds: seconds(taken.reset_after), nanos: 0 }),
    }
}

/// Whole seconds, rounded up: who waits so long does not come too early.
fn seconds(span: Span) -> i64 {
    const SECOND: i64 = 1_000_000;
    span.0.div_euclid(SECOND) + i64::from(span.0.rem_euclid(SECOND) > 0)
}

fn unit(unit: Unit) -> rate_limit::Unit {
    match unit {
        Unit::Second => rate_limit::Unit::Second,
        Unit::Minute => rate_limit::Unit::Minute,
        Unit::Hour => rate_limit::Unit::Hour,
        Unit::Day => rate_limit::Unit::Day,
        Unit::Week => rate_limit::Unit::Week,
        Unit::Month => rate_limit::Unit::Month,
        Unit::Year => rate_limit::Unit::Year,
    }
}

/// The header fields of the limit that has least left, as the peer names them.
fn headers(statuses: &[DescriptorStatus]) -> Vec<HeaderValue> {
    let limits = statuses.iter().filter_map(|status| Some((status, status.current_limit.as_ref()?)));
    let Some((status, limit)) = limits.min_by_key(|(status, _)| status.limit_remaining) else {
        return Vec::new();
    };
    let reset = status.duration_until_reset.as_ref().map_or(0, |duration| duration.seconds);
    let header = |key: &str, value: String| HeaderValue { key: key.to_owned(), value, raw_value: Vec::new() };
    vec![
        header("RateLimit-Limit", limit.requests_per_unit.to_string()),
        header("RateLimit-Remaining", status.limit_remaining.to_string()),
        header("RateLimit-Reset", reset.to_string()),
    ]
}

/// The request's descriptors, which of `quota_mode` are over, and the first metadata of those that are not.
fn metadata(asked: &Asked, taken: &[Option<Taken>]) -> Struct {
    let request = &asked.request;
    let descriptors = request.descriptors.iter().map(|descriptor| {
        let entries =
            descriptor.entries.iter().map(|entry| text(format!("{}={}", entry.key, entry.value))).collect();
        structure([("entries", list(entries))])
    });
    let quotas = || {
        asked.meant.iter().zip(taken).enumerate().filter_map(|(index, (meant, taken))| {
            let rule = meant.limited().and_then(|Limited { rule, .. }| rule.as_ref())?;
            rule.quota_mode.then_some((index, rule, taken.as_ref()?))
        })
    };
    let over: Vec<Value> =
        quotas().filter(|(_, _, taken)| taken.over).map(|(index, ..)| number(index as f64)).collect();
    let mut fields = vec![
        ("domain", text(request.domain.clone())),
        ("descriptors", list(descriptors.map(|fields| value(Kind::StructValue(fields))).collect())),
        ("quotaModeEnabled", value(Kind::BoolValue(quotas().next().is_some()))),
    ];
    if request.hits_addend > 0 {
        fields.push(("hitsAddend", number(f64::from(request.hits_addend))));
    }
    if !over.is_empty() {
        fields.push(("quotaModeViolations", list(over)));
    }
    let within = quotas().filter(|(_, _, taken)| !taken.over);
    if let Some(told) = within.filter_map(|(_, rule, _)| rule.metadata.as_ref()).next() {
        fields.push(("metadata", from_json(told)));
    }
    structure(fields)
}

fn value(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}

fn text(text: String) -> Value {
    value(Kind::StringValue(text))
}

fn number(number: f64) -> Value {
    value(Kind::NumberValue(number))
}

fn list(values: Vec<Value>) -> Value {
    value(Kind::ListValue(ListValue { values }))
}

fn structure<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Struct {
    Struct { fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect() }
}

/// As deep as what the configuration says.
fn from_json(json: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match json {
        Json::Null => value(Kind::NullValue(0)),
        Json::Bool(truth) => value(Kind::BoolValue(*truth)),
        Json::Number(of) => number(of.as_f64().unwrap_or_default()),
        Json::String(of) => text(of.clone()),
        Json::Array(items) => list(items.iter().map(from_json).collect()),
        Json::Object(members) => {
            let fields = members.iter().map(|(name, value)| (name.as_str(), from_json(value)));
            value(Kind::StructValue(structure(fields)))
        }
    }
}

/// What metrics call an answer.
pub(super) fn word(answer: &RateLimitResponse) -> &'static str {
    if answer.overall_code == i32::from(Code::OverLimit) { "over-limit" } else { "ok" }
}

/// And what they call a refusal.
pub(super) fn reason(status: &Status) -> &'static str {
    match status.code() {
        GrpcCode::InvalidArgument => "invalid",
        _ => "unavailable",
    }
}

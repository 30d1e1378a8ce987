//! Results of a request's limits → Envoy's answer.

use engine::limit::TakeResult;
use event::Span;
use plan::EnvoyPlan;
use plan::formats::envoy::RateUnit;
use prost_types::value::Kind;
use prost_types::{Duration, ListValue, Struct, Value};
use tonic::{Code as GrpcCode, Status};

use super::request::{DescriptorLimit, EnvoyRequest, LimitedDescriptor};
use crate::protocol::grpc_transport::proto::envoy::config::core::v3::HeaderValue;
use crate::protocol::grpc_transport::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use crate::protocol::grpc_transport::proto::envoy::service::ratelimit::v3::RateLimitResponse;
use crate::protocol::grpc_transport::proto::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit, rate_limit,
};
use crate::protocol::grpc_transport::proto::envoy::r#type::v3::RateLimitUnit;

/// The answer: a status for each descriptor, in their order.
pub(super) fn answer(
    asked: &EnvoyRequest,
    taken: &[Option<TakeResult>],
    plan: &EnvoyPlan,
) -> RateLimitResponse {
    let statuses: Vec<DescriptorStatus> =
        asked.meant.iter().zip(taken).map(|(meant, taken)| status(meant, taken.as_ref())).collect();
    RateLimitResponse {
        overall_code: overall(asked, &statuses).into(),
        response_headers_to_add: if plan.response_headers { headers(asked, &statuses) } else { Vec::new() },
        dynamic_metadata: plan.response_metadata.then(|| metadata(asked, &statuses)),
        statuses,
        ..RateLimitResponse::default()
    }
}

fn is_over(status: &DescriptorStatus) -> bool {
    status.code == i32::from(Code::OverLimit)
}

/// Over the limit is a request if one of its limits is that is no quota, or if all of its quotas are.
fn overall(asked: &EnvoyRequest, statuses: &[DescriptorStatus]) -> Code {
    let (mut limits_over, mut quotas, mut quotas_over) = (0, 0, 0);
    for (meant, status) in asked.meant.iter().zip(statuses) {
        let is_over = u32::from(is_over(status));
        if meant.is_quota() {
            (quotas, quotas_over) = (quotas + 1, quotas_over + is_over);
        } else {
            limits_over += is_over;
        }
    }
    if limits_over > 0 || (quotas > 0 && quotas == quotas_over) { Code::OverLimit } else { Code::Ok }
}

fn status(meant: &DescriptorLimit, taken: Option<&TakeResult>) -> DescriptorStatus {
    let ok = DescriptorStatus { code: Code::Ok.into(), ..DescriptorStatus::default() };
    let (limited, taken) = match (meant, taken) {
        (DescriptorLimit::Limited(limited), Some(taken)) => (limited, taken),
        (DescriptorLimit::Unlimited, _) => return DescriptorStatus { limit_remaining: u32::MAX, ..ok },
        _ => return ok,
    };
    let passes = limited.rule.as_ref().is_some_and(|rule| rule.shadow_mode);
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

fn unit(unit: RateUnit) -> rate_limit::Unit {
    match unit {
        RateUnit::Second => rate_limit::Unit::Second,
        RateUnit::Minute => rate_limit::Unit::Minute,
        RateUnit::Hour => rate_limit::Unit::Hour,
        RateUnit::Day => rate_limit::Unit::Day,
        RateUnit::Week => rate_limit::Unit::Week,
        RateUnit::Month => rate_limit::Unit::Month,
        RateUnit::Year => rate_limit::Unit::Year,
    }
}

/// The header fields of the last limit that refuses, or else of the one that has least left, as the peer names them.
fn headers(asked: &EnvoyRequest, statuses: &[DescriptorStatus]) -> Vec<HeaderValue> {
    let limits = || {
        let all = asked.meant.iter().zip(statuses);
        all.filter_map(|(meant, status)| Some((meant, status, status.current_limit.as_ref()?)))
    };
    let refusing = limits().rfind(|(meant, status, _)| is_over(status) && !meant.is_quota());
    let reported = refusing.or_else(|| limits().min_by_key(|(_, status, _)| status.limit_remaining));
    let Some((_, status, limit)) = reported else { return Vec::new() };
    let reset = status.duration_until_reset.as_ref().map_or(0, |duration| duration.seconds);
    let header = |key: &str, value: String| HeaderValue { key: key.to_owned(), value, raw_value: Vec::new() };
    vec![
        header("RateLimit-Limit", limit.requests_per_unit.to_string()),
        header("RateLimit-Remaining", status.limit_remaining.to_string()),
        header("RateLimit-Reset", reset.to_string()),
    ]
}

/// The request's descriptors, and all metadata of those that are not over their limits: of two members of a name the first
/// stays, and objects are joined.
fn metadata(asked: &EnvoyRequest, statuses: &[DescriptorStatus]) -> Struct {
    let request = &asked.request;
    let descriptors = request.descriptors.iter().map(|descriptor| {
        let entries =
            descriptor.entries.iter().map(|entry| text(format!("{}={}", entry.key, entry.value))).collect();
        let mut fields = vec![("entries", list(entries))];
        fields.extend(descriptor.limit.as_ref().map(|limit| ("limit", text(shown(limit)))));
        fields.extend(descriptor.hits_addend.map(|hits| ("hitsAddend", number(hits as f64))));
        value(Kind::StructValue(structure(fields)))
    });
    let mut fields =
        vec![("domain", text(request.domain.clone())), ("descriptors", list(descriptors.collect()))];
    if request.hits_addend > 0 {
        fields.push(("hitsAddend", number(f64::from(request.hits_addend))));
    }
    let mut passed = serde_json::Map::new();
    for (meant, _) in asked.meant.iter().zip(statuses).filter(|(_, status)| !is_over(status)) {
        let rule = meant.limited().and_then(|LimitedDescriptor { rule, .. }| rule.as_ref());
        if let Some(serde_json::Value::Object(members)) = rule.and_then(|rule| rule.metadata.as_ref()) {
            join(&mut passed, members);
        }
    }
    if !passed.is_empty() {
        fields.push(("metadata", from_json(&serde_json::Value::Object(passed))));
    }
    structure(fields)
}

/// The limit that a descriptor brings, as the peer writes it.
fn shown(limit: &RateLimitOverride) -> String {
    let unit = RateLimitUnit::try_from(limit.unit).map_or("UNKNOWN", |unit| unit.as_str_name());
    format!("requests_per_unit:{} unit:{unit}", limit.requests_per_unit)
}

/// Adds members that are not there, and those of objects to objects.
fn join(
    to: &mut serde_json::Map<String, serde_json::Value>,
    from: &serde_json::Map<String, serde_json::Value>,
) {
    use serde_json::Value as Json;
    for (name, member) in from {
        match (to.get_mut(name), member) {
            (None, member) => drop(to.insert(name.clone(), member.clone())),
            (Some(Json::Object(to)), Json::Object(from)) => join(to, from),
            (Some(_), _) => {}
        }
    }
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

/// A value of the response, as deep as the configuration's.
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

/// Returns what metrics call an answer.
pub(super) fn result_name(answer: &RateLimitResponse) -> &'static str {
    if answer.overall_code == i32::from(Code::OverLimit) { "over-limit" } else { "ok" }
}

/// The name of a refusal.
pub(super) fn reason(status: &Status) -> &'static str {
    match status.code() {
        GrpcCode::InvalidArgument => "invalid",
        _ => "unavailable",
    }
}

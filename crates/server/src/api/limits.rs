//! Limits in JSON.

use std::collections::BTreeMap;

use event::Span;
use plan::limit::{LimitException, LimitPlan};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Timestamp;

/// The values of a limit's key by the names of its fields. Numbers count as their text.
pub type LimitValues = BTreeMap<String, serde_json::Value>;

/// A take: what is to be taken, or looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitTake {
    /// The values of the key's fields.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub key: LimitValues,
    /// The amount; the limit's own cost where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
}

/// A refund: what is given back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitRefund {
    /// The values of the key's fields.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub key: LimitValues,
    /// The amount that is given back; never more than is used.
    pub amount: u64,
    /// `time` of the answer by which it was taken. Without it the oldest is given back first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<Timestamp>,
}

/// A settlement: what a reservation came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitSettle {
    /// The values of the key's fields.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub key: LimitValues,
    /// The amount that was taken beforehand.
    pub reserved: u64,
    /// The cost that it came to: more is charged, whatever is left, and less given back.
    pub cost: u64,
    /// `time` of the answer by which it was taken.
    pub taken: Timestamp,
}

/// A reset: what a key is to have used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitReset {
    /// The values of the key's fields.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub key: LimitValues,
    /// The amount that it is to have used by now; nothing where it is not given. Its ban is lifted.
    #[serde(default)]
    pub used: u64,
}

/// A key for which a limit is another. Without `count` and `exempt` it takes an earlier one away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitOverride {
    /// The values of the key's fields.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub key: LimitValues,
    /// Most that this key may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// True if this key is not limited.
    #[serde(default)]
    pub exempt: bool,
    /// The end of the exception; left out for a lasting one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The answer of limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LimitAnswer {
    /// True if the caller may be given the answer that it is allowed.
    pub allowed: bool,
    /// True if it is over a limit that bans in the shadow: the application does not do what was asked, and says it did.
    /// Nothing else here tells that apart.
    pub silent: bool,
    /// The time at which this was counted, to be named when it is given back or settled.
    pub time: Timestamp,
    /// Each limit: the one that was named, then those that are taken with it.
    pub limits: Vec<LimitState>,
}

/// The answer of one limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LimitState {
    /// Its name.
    pub limit: String,
    /// True if the limit allows it, in the answer for callers.
    pub allowed: bool,
    /// True if it is over the limit: with `observe` it is allowed all the same.
    pub over: bool,
    /// Most that can be taken at once.
    pub quota: u64,
    /// Its window in seconds.
    pub window: f64,
    /// The amount that is used by now.
    pub used: u64,
    /// The amount that is left.
    pub remaining: u64,
    /// Seconds until all is left again, if nothing more is taken.
    pub reset_after: f64,
    /// Seconds until what was refused can be taken; left out where nothing was refused, or never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<f64>,
    /// Until when the key is banned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub banned_until: Option<Timestamp>,
    /// The key is not limited.
    pub exempt: bool,
    /// The amount that this has counted.
    pub charged: u64,
    /// `exact`; `lagging`, if it may lack what other nodes of a cluster took within `[cluster] stale`; or `missing` where counts
    /// could not be had and `on_error` has decided.
    pub quality: String,
}

/// A limit, as configured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LimitInfo {
    /// Its name.
    pub name: String,
    /// The purpose of the limit.
    pub description: String,
    /// Fields of its key.
    pub key: Vec<String>,
    /// Most that a key may have.
    pub count: u64,
    /// Its window in seconds.
    pub window: f64,
    /// `sliding`, `interpolated`, `calendar` or `gcra`.
    pub mode: String,
    /// `enforce`, `shadow_ban`, `observe` or `off`.
    pub enforcement: String,
    /// The condition under which events take from it; takes by name do not ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Limits that are taken with it.
    pub also: Vec<String>,
    /// The number of overrides that were posted.
    pub overrides: usize,
}

/// A refusal, as draft-ietf-httpapi-ratelimit-headers-11 has it in RFC 9457.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LimitProblem {
    /// `https://iana.org/assignments/http-problem-types#quota-exceeded`, `#abnormal-usage-detected` for a ban, or
    /// `#temporary-reduced-capacity` where counts cannot be had.
    #[serde(rename = "type")]
    pub kind: String,
    /// The title of the problem.
    pub title: String,
    /// The status.
    pub status: u16,
    /// The description of what is wrong.
    pub detail: String,
    /// The limits that refuse.
    #[serde(rename = "violated-policies")]
    pub violated_policies: Vec<String>,
    /// The answer of each limit.
    #[serde(flatten)]
    pub answer: LimitAnswer,
}

/// The overrides of a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LimitOverrides {
    /// The posted ones, in the order in which they were.
    pub overrides: Vec<LimitOverride>,
    /// The ones of the configuration. One that was posted stands over one of the same key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configured: Vec<LimitOverride>,
}

/// A limit, and the keys that have used most of it by now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = FullestKeys)]
pub struct FullestKeysJson {
    /// The limit.
    pub limit: String,
    /// Fields of its key.
    pub fields: Vec<String>,
    /// The keys: those that are banned, and then the others by `share`, the fullest first. Those that are exempt are left out.
    pub keys: Vec<FullKeyJson>,
}

/// A key that has used something of a limit, or is banned by it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = FullKey)]
pub struct FullKeyJson {
    /// The values of the key's fields, if a recent decision or an override shows them: limits keep hashes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    pub key: Option<LimitValues>,
    /// The hash under which it is counted: for a `calendar` limit another one in each period.
    pub shingle: String,
    /// The amount that it has used, rounded up for a bucket.
    pub used: u64,
    /// Most that it could have used.
    pub quota: u64,
    /// `used` by `quota`; more than 1 where what is refused counts.
    pub share: f64,
    /// The end of its ban.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub banned_until: Option<Timestamp>,
    /// True if an override says how much it may use. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overridden: bool,
}

impl FullestKeysJson {
    /// Describes the fullest keys of a limit.
    pub fn new(fill: &engine::LimitFill) -> FullestKeysJson {
        let fields: Vec<String> = fill.limit.key.iter().map(|field| field.name.clone()).collect();
        let key = |key: &engine::FullestKey| FullKeyJson {
            key: key.values.as_ref().map(|values| {
                let values = values.iter().map(|value| serde_json::Value::from(value.as_str()));
                fields.iter().cloned().zip(values).collect()
            }),
            shingle: key.shingle.to_string(),
            used: key.state.used,
            quota: key.state.quota,
            share: key.share(),
            banned_until: key.state.banned_until.map(Timestamp),
            overridden: key.has_exception,
        };
        let keys = fill.keys.iter().map(key).collect();
        FullestKeysJson { limit: fill.limit.name.to_string(), fields, keys }
    }

    /// Returns it without the values of keys for a reader who may not read what events say.
    pub(crate) fn of_reader(mut self, may_read_content: bool) -> FullestKeysJson {
        if !may_read_content {
            self.keys.iter_mut().for_each(|key| key.key = None);
        }
        self
    }
}

fn seconds(span: Span) -> f64 {
    span.as_seconds_f64()
}

impl LimitAnswer {
    /// Returns the answer of takes or looks, of which there is at least one.
    pub fn new(taken: &[engine::limit::TakeResult]) -> LimitAnswer {
        let time = taken.iter().map(|taken| taken.time).max().unwrap_or(event::Time::EPOCH);
        LimitAnswer {
            allowed: taken.iter().all(|taken| taken.allowed),
            silent: taken.iter().any(|taken| taken.silent),
            time: time.into(),
            limits: taken.iter().map(LimitState::from).collect(),
        }
    }
}

impl From<&engine::limit::TakeResult> for LimitState {
    fn from(taken: &engine::limit::TakeResult) -> LimitState {
        LimitState {
            limit: taken.limit.to_string(),
            allowed: taken.allowed,
            over: taken.over,
            quota: taken.quota,
            window: seconds(taken.window),
            used: taken.used,
            remaining: taken.remaining,
            reset_after: seconds(taken.reset_after),
            retry_after: taken.retry_after.map(seconds),
            banned_until: taken.banned_until.map(Timestamp),
            exempt: taken.exempt,
            charged: taken.charged,
            quality: taken.quality.to_string(),
        }
    }
}

impl LimitInfo {
    /// A limit, and how many overrides of it were posted.
    pub fn new(limit: &LimitPlan, overrides: usize) -> LimitInfo {
        LimitInfo {
            name: limit.name.to_string(),
            description: limit.description.clone(),
            key: limit.key.iter().map(|field| field.name.clone()).collect(),
            count: limit.count,
            window: seconds(limit.window()),
            mode: limit.mode().to_owned(),
            enforcement: limit.enforcement.name().to_owned(),
            when: limit.when.clone(),
            also: limit.also.clone(),
            overrides,
        }
    }
}

impl LimitOverride {
    /// Describes an exception of a limit.
    pub fn new(limit: &LimitPlan, exception: LimitException) -> LimitOverride {
        let names = limit.key.iter().map(|field| field.name.clone());
        let values = exception.key.into_iter().map(serde_json::Value::from);
        LimitOverride {
            key: names.zip(values).collect(),
            count: exception.count,
            exempt: exception.exempt,
            until: exception.until.map(Timestamp),
        }
    }
}

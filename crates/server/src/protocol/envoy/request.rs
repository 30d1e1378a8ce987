//! A request's descriptors, each with the limit it means and the amount to take.

use std::collections::HashSet;
use std::sync::Arc;

use engine::Engine;
use engine::limit::{LimitKey, Take, TakeResult};
use event::Time;
use plan::EnvoyPlan;
use plan::formats::envoy::{EnvoyRule, Rate, RateUnit};
use plan::limit::LimitPlan;
use stats::Quality;
use tonic::Status;

use crate::core::grpc::{EnvoyResult, GrpcResources};
use crate::protocol::grpc_transport::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::protocol::grpc_transport::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use crate::protocol::grpc_transport::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use crate::protocol::grpc_transport::proto::envoy::r#type::v3::RateLimitUnit;

/// Most descriptors of a request.
const DESCRIPTORS_MAX: usize = 256;
/// Most entries of a descriptor.
const ENTRIES_MAX: usize = 64;

/// A request.
#[derive(Debug)]
pub(super) struct EnvoyRequest {
    pub(super) request: RateLimitRequest,
    /// One for each descriptor.
    pub(super) meant: Vec<DescriptorLimit>,
}

/// The meaning of a descriptor.
#[derive(Debug)]
pub(super) enum DescriptorLimit {
    /// Nothing: it has no limit, or another one replaces it.
    Nothing,
    /// A limit that everything is within.
    Unlimited,
    /// A limit.
    Limited(LimitedDescriptor),
}

#[derive(Debug)]
pub(super) struct LimitedDescriptor {
    /// Its rule; none where the request itself says the limit.
    pub(super) rule: Option<Arc<EnvoyRule>>,
    pub(super) rate: Rate,
    plan: Arc<LimitPlan>,
    key: LimitKey,
    cost: u64,
    /// True if it is given back instead of taken.
    back: bool,
    /// The name that metrics use for it.
    metric: String,
    detailed: bool,
}

impl EnvoyRequest {
    /// Finds what a request's descriptors mean.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, as the peer refuses it, or where there is too much of something.
    pub(super) fn new(
        engine: &Engine,
        plan: &EnvoyPlan,
        request: RateLimitRequest,
    ) -> Result<EnvoyRequest, Status> {
        let refused = |message: &str| Err(Status::invalid_argument(message));
        if request.domain.is_empty() {
            return refused("rate limit domain must not be empty");
        }
        if request.descriptors.is_empty() {
            return refused("rate limit descriptor list must not be empty");
        }
        if request.descriptors.len() > DESCRIPTORS_MAX {
            return refused("too many descriptors");
        }
        let mut meant = Vec::with_capacity(request.descriptors.len());
        for descriptor in &request.descriptors {
            if descriptor.entries.len() > ENTRIES_MAX {
                return refused("a descriptor has too many entries");
            }
            meant.push(of(engine, plan, &request, descriptor)?);
        }
        let rules = || meant.iter().filter_map(DescriptorLimit::rule);
        let replaced: HashSet<&str> = rules().flat_map(|rule| &rule.replaces).map(String::as_str).collect();
        let is_replaced = |meant: &DescriptorLimit| match meant {
            DescriptorLimit::Limited(limited) => {
                limited.rule.as_ref().is_some_and(|rule| replaced.contains(rule.name.as_str()))
            }
            _ => false,
        };
        let dropped: Vec<bool> = meant.iter().map(is_replaced).collect();
        for (meant, dropped) in meant.iter_mut().zip(dropped) {
            if dropped {
                *meant = DescriptorLimit::Nothing;
            }
        }
        let meant = meant.into_iter().map(DescriptorLimit::without_rule_if_unlimited).collect();
        Ok(EnvoyRequest { request, meant })
    }

    /// Takes what is asked. One for each descriptor that has a limit; none if counts cannot be had.
    pub(super) async fn take(&self, engine: &Engine, now: Time) -> Option<Vec<Option<TakeResult>>> {
        let limited = || self.meant.iter().filter_map(DescriptorLimit::limited);
        for limited in limited().filter(|limited| limited.back && limited.cost > 0) {
            let take = Take { limit: &limited.plan, key: limited.key, cost: limited.cost };
            engine.refund(take, None, now).await.ok()?;
        }
        let takes: Vec<Take<'_>> = limited()
            .map(|limited| {
                let cost = if limited.back { 0 } else { limited.cost };
                Take { limit: &limited.plan, key: limited.key, cost }
            })
            .collect();
        let mut taken = engine.take_each(&takes, now).await.into_iter();
        let taken: Vec<Option<TakeResult>> =
            self.meant.iter().map(|meant| meant.limited().and_then(|_| taken.next())).collect();
        let known = taken.iter().flatten().all(|taken| taken.quality != Quality::Missing);
        known.then_some(taken)
    }

    /// Counts what came of it.
    pub(super) fn count(&self, taken: &[Option<TakeResult>], grpc: &GrpcResources) {
        for (meant, taken) in self.meant.iter().zip(taken) {
            let (Some(limited), Some(taken)) = (meant.limited(), taken) else { continue };
            let result = match (&limited.rule, taken.over) {
                (_, false) => EnvoyResult::Within,
                (Some(rule), true) if rule.shadow_mode => EnvoyResult::Shadow,
                (Some(rule), true) if rule.quota_mode => EnvoyResult::Quota,
                (_, true) => EnvoyResult::Over,
            };
            let rule = limited.rule.as_ref().map_or(limited.metric.as_str(), |rule| rule.path.as_str());
            grpc.envoy_hits(rule, limited.detailed.then_some(limited.metric.as_str()), result, limited.cost);
        }
    }
}

impl DescriptorLimit {
    pub(super) fn limited(&self) -> Option<&LimitedDescriptor> {
        match self {
            DescriptorLimit::Limited(limited) => Some(limited),
            _ => None,
        }
    }

    /// Returns whether it refuses only together with all other quotas of its request.
    pub(super) fn is_quota(&self) -> bool {
        self.rule().is_some_and(|rule| rule.quota_mode)
    }

    fn rule(&self) -> Option<&EnvoyRule> {
        self.limited()?.rule.as_deref()
    }

    /// A limit for any number was one only as long as it could replace others.
    fn without_rule_if_unlimited(self) -> DescriptorLimit {
        match self {
            DescriptorLimit::Limited(limited)
                if limited.rule.as_ref().is_some_and(|rule| rule.rate.is_none()) =>
            {
                DescriptorLimit::Unlimited
            }
            other => other,
        }
    }
}

/// Returns what one descriptor means.
fn of(
    engine: &Engine,
    plan: &EnvoyPlan,
    request: &RateLimitRequest,
    descriptor: &RateLimitDescriptor,
) -> Result<DescriptorLimit, Status> {
    let domain = request.domain.as_str();
    if !plan.domains.has(domain) {
        return Ok(DescriptorLimit::Nothing);
    }
    let entries = || descriptor.entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str()));
    // Its own number may be none, and then nothing is taken; that of the request is one where it is not said.
    let cost = descriptor.hits_addend.unwrap_or_else(|| u64::from(request.hits_addend.max(1)));
    let back = descriptor.is_negative_hits;
    if let Some(given) = descriptor.limit {
        let rate = rate(given)?;
        let metric = format!("{domain}.override");
        let values: Vec<&str> = entries().flat_map(|(key, value)| [key, value]).collect();
        let plan = Arc::new(rate.limit(&metric));
        let key = engine.limit_key(&plan, &values);
        return Ok(DescriptorLimit::Limited(LimitedDescriptor {
            rule: None,
            rate,
            plan,
            key,
            cost,
            back,
            metric,
            detailed: false,
        }));
    }
    let Some(found) = plan.domains.find(domain, entries()) else { return Ok(DescriptorLimit::Nothing) };
    let rule = Arc::clone(found.rule);
    let mut values = Vec::with_capacity(2 * descriptor.entries.len());
    for ((key, value), shared) in entries().zip(&found.shared) {
        values.extend([key, shared.unwrap_or(value)]);
    }
    let detailed = rule.detailed_metric || found.shown.contains(&true);
    let mut metric = String::new();
    if detailed {
        metric.push_str(domain);
        for (((key, value), shared), shown) in entries().zip(&found.shared).zip(&found.shown) {
            let value = shared.unwrap_or(value);
            metric.push('.');
            metric.push_str(key);
            if (rule.detailed_metric || *shown) && !value.is_empty() {
                metric.push('_');
                metric.push_str(value);
            }
        }
    }
    let rate = rule.rate.unwrap_or(Rate { requests: u32::MAX, unit: RateUnit::Second });
    let plan = Arc::clone(&rule.limit);
    let key = engine.limit_key(&plan, &values);
    Ok(DescriptorLimit::Limited(LimitedDescriptor {
        rule: Some(rule),
        rate,
        plan,
        key,
        cost,
        back,
        metric,
        detailed,
    }))
}

/// The limit that a request brings.
fn rate(given: RateLimitOverride) -> Result<Rate, Status> {
    let unit = match RateLimitUnit::try_from(given.unit) {
        Ok(RateLimitUnit::Second) => RateUnit::Second,
        Ok(RateLimitUnit::Minute) => RateUnit::Minute,
        Ok(RateLimitUnit::Hour) => RateUnit::Hour,
        Ok(RateLimitUnit::Day) => RateUnit::Day,
        Ok(RateLimitUnit::Week) => RateUnit::Week,
        Ok(RateLimitUnit::Month) => RateUnit::Month,
        Ok(RateLimitUnit::Year) => RateUnit::Year,
        Ok(RateLimitUnit::Unknown) | Err(_) => {
            return Err(Status::invalid_argument("a descriptor's limit has no unit"));
        }
    };
    Ok(Rate { requests: given.requests_per_unit, unit })
}

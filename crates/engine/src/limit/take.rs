//! Operations on limits: take, peek, give back, set, and settle a reservation.

use std::borrow::Cow;

use event::Time;
use smallvec::SmallVec;
use stats::limit::GcraOperation;
use stats::{Addition, LedgerError, Observation, ObserveRequest, ReadingView};

use super::decision::{PendingTake, TakeDecision};
use super::key::{LimitKeyBuilder, key};
use super::{LimitKey, LimitKeyError, Take, TakeResult};
use crate::Engine;
use crate::metrics::LimitLabel;
use plan::limit::LimitPlan;

impl Engine {
    /// The key of these values, in the order of the limit's fields, as they are: what is to be normalised was.
    pub fn limit_key(&self, limit: &LimitPlan, values: &[&str]) -> LimitKey {
        let key = key(&self.secret, limit, values.iter().map(|value| value.as_bytes()));
        key.checked(limit, &self.ban_list, values.iter().copied())
    }

    /// Returns the key of a value of any bytes.
    pub fn limit_key_of_bytes(&self, limit: &LimitPlan, value: &[u8]) -> LimitKey {
        let key = key(&self.secret, limit, std::iter::once(value));
        key.checked(limit, &self.ban_list, std::str::from_utf8(value).into_iter())
    }

    /// The key of a request: `value` gives those of the fields, which are normalised as the limit says.
    ///
    /// # Errors
    /// [`LimitKeyError`], if a field is missing or gives nothing.
    pub fn limit_key_of<'v>(
        &self,
        limit: &LimitPlan,
        value: impl Fn(&str) -> Option<&'v str>,
    ) -> Result<LimitKey, LimitKeyError> {
        let mut values = LimitKeyBuilder::of(limit);
        let mut normals = SmallVec::<[Cow<'_, str>; 2]>::new();
        for field in &limit.key {
            let given = value(&field.name).ok_or_else(|| LimitKeyError::Missing {
                limit: limit.name.to_string(),
                field: field.name.clone(),
            })?;
            let normal = field.how.normal(given).ok_or_else(|| LimitKeyError::Unfit {
                field: field.name.clone(),
                value: given.chars().take(100).collect(),
            })?;
            values.push(normal.as_bytes());
            if limit.ban.is_some() {
                normals.push(normal);
            }
        }
        let key = values.key(&self.secret);
        Ok(key.checked(limit, &self.ban_list, normals.iter().map(|normal| &**normal)))
    }

    /// Takes from limits that stand together: the request is allowed if each of them allows it. A limit that counts only
    /// what is allowed is given back if another one refuses. Answers one a take, in their order, once the configured
    /// durability holds.
    ///
    /// It never fails: where counts cannot be had the limit's `on_error` decides, and the quality says so.
    pub async fn take(&self, takes: &[Take<'_>], now: Time) -> Vec<TakeResult> {
        self.run(takes, now, true, true).await
    }

    /// Takes from limits each for itself: what one says changes nothing for the others. Takes of the same key are one after
    /// the other, in their order. For batches and for protocols that answer limit by limit.
    pub async fn take_each(&self, takes: &[Take<'_>], now: Time) -> Vec<TakeResult> {
        self.run(takes, now, true, false).await
    }

    /// Returns what a take would be answered; takes nothing and makes nothing. Of a limit that bans in the shadow it tells
    /// the truth: it is not for callers.
    pub async fn peek_limits(&self, takes: &[Take<'_>], now: Time) -> Vec<TakeResult> {
        self.run(takes, now, false, false).await
    }

    /// Returns what `on_error` of limits says of takes for which there was no place or no time: nothing is taken.
    pub fn untaken(&self, takes: &[Take<'_>], now: Time) -> Vec<TakeResult> {
        let exceptions = self.exceptions();
        let asked = takes.iter().map(|take| PendingTake::new(take, now, &exceptions, &self.secret));
        let told: Vec<TakeResult> = asked.map(|asked| asked.unread().result(&asked)).collect();
        self.count_taken(&told);
        told
    }

    async fn run(&self, takes: &[Take<'_>], now: Time, adds: bool, together: bool) -> Vec<TakeResult> {
        let exceptions = self.exceptions();
        let asked: Vec<PendingTake<'_>> =
            takes.iter().map(|take| PendingTake::new(take, now, &exceptions, &self.secret)).collect();
        // All in one request, which costs less than one each; additions to a key come one after the other either way.
        let mut observations = Vec::with_capacity(asked.len());
        asked.iter().for_each(|asked| observations.extend(asked.observations(adds)));
        let outcomes = match self
            .ledger
            .observe(&[ObserveRequest { observations, ..ObserveRequest::default() }])
            .await
        {
            Ok(outcomes) => Some(outcomes),
            Err(error) => {
                tracing::error!(%error, "limits cannot be counted");
                None
            }
        };
        let mut views = outcomes.iter().flat_map(|outcomes| outcomes.all());
        let mut decided: Vec<TakeDecision> =
            asked.iter().map(|asked| asked.decided(&mut views, adds)).collect();
        if adds {
            self.follow(&asked, &mut decided, together, now).await;
        }
        for (asked, decided) in asked.iter().zip(&mut decided).filter(|(_, decided)| decided.wants_retry) {
            if let Ok(Some(timeline)) = self.ledger.timeline(asked.key).await {
                decided.taken.retry_after = asked.retry(&timeline.buckets, decided.taken.time);
            }
        }
        let told = asked.iter().zip(decided).map(|(asked, decided)| {
            if !adds {
                return decided.looked();
            }
            decided.result(asked)
        });
        let told: Vec<TakeResult> = told.collect();
        if adds {
            self.count_taken(&told);
        }
        told
    }

    /// Counts what was told. Takes of one limit stand together in a batch, and finding its counter costs more than the take.
    fn count_taken(&self, told: &[TakeResult]) {
        let same =
            |one: &TakeResult, other: &TakeResult| one.limit == other.limit && result(one) == result(other);
        for run in told.chunk_by(same) {
            let Some(first) = run.first() else { continue };
            let label = LimitLabel { limit: first.limit.to_string(), result: result(first).to_owned() };
            self.metrics.limits_taken.get_or_create(&label).inc_by(run.len() as u64);
        }
    }

    /// Gives back what was taken in vain, and counts refusals.
    async fn follow(
        &self,
        asked: &[PendingTake<'_>],
        decided: &mut [TakeDecision],
        together: bool,
        now: Time,
    ) {
        let is_refused = |asked: &PendingTake<'_>, decided: &TakeDecision| {
            decided.refused && asked.limit.enforcement == super::Enforcement::Enforce
        };
        let refused =
            together && asked.iter().zip(decided.iter()).any(|(asked, decided)| is_refused(asked, decided));
        let mut observations = Vec::new();
        let mut refusals = Vec::new();
        for (at, (asked, decided)) in asked.iter().zip(decided.iter_mut()).enumerate() {
            let banned = decided.taken.banned_until.is_some();
            if decided.taken.charged > 0 && !asked.limit.counts_all && (refused || banned) {
                observations.push(asked.back(decided.taken.charged, Some(decided.taken.time)));
                decided.give_back();
            }
            if decided.by_limit && asked.ban.is_some() {
                refusals.push((at, observations.len()));
                observations.push(asked.refusal());
            }
        }
        if observations.is_empty() {
            return;
        }
        let outcomes = match self
            .ledger
            .observe(&[ObserveRequest { observations, ..ObserveRequest::default() }])
            .await
        {
            Ok(outcomes) => outcomes,
            Err(error) => return tracing::error!(%error, "refusals cannot be counted"),
        };
        let views: Vec<ReadingView<'_>> = outcomes.all().collect();
        let mut bans = Vec::new();
        for (at, place) in refusals {
            let (Some(asked), Some(decided), Some(view)) =
                (asked.get(at), decided.get_mut(at), views.get(place))
            else {
                continue;
            };
            let Some(ban) = asked.ban else { continue };
            if view.sum(0, 0).saturating_add(1) >= ban.after {
                let until = now + ban.lasts;
                decided.taken.banned_until = Some(until);
                decided.taken.remaining = 0;
                decided.taken.retry_after = Some(ban.lasts);
                decided.wants_retry = false;
                let ahead = ban.lasts.0.saturating_mul(1000);
                let add = Addition::Flow(GcraOperation::Set { ahead });
                bans.push(Observation { key: asked.ban_key(), time: now, add });
            }
        }
        if !bans.is_empty()
            && let Err(error) = self
                .ledger
                .observe(&[ObserveRequest { observations: bans, ..ObserveRequest::default() }])
                .await
        {
            tracing::error!(%error, "a ban cannot be kept");
        }
    }

    /// Gives back to a limit. `taken` is when it was taken, if that is known: see [`TakeResult::time`](super::TakeResult::time).
    /// Never more than was used.
    ///
    /// # Errors
    /// The ledger's.
    pub async fn refund(&self, take: Take<'_>, taken: Option<Time>, now: Time) -> Result<(), LedgerError> {
        let asked = self.asked(&take, taken, now);
        // What lies in the past is given back to where it was counted.
        self.add_all(vec![asked.back(take.cost, taken)]).await
    }

    /// Settles what was reserved: `reserved` was charged at `taken`, and `take.cost` is what it came to. The difference is
    /// charged, whether or not it is within the limit, or given back.
    ///
    /// # Errors
    /// The ledger's.
    pub async fn settle(
        &self,
        take: Take<'_>,
        reserved: u64,
        taken: Time,
        now: Time,
    ) -> Result<(), LedgerError> {
        let asked = self.asked(&take, Some(taken), now);
        let observation = match take.cost.checked_sub(reserved) {
            Some(0) => return Ok(()),
            Some(more) => asked.charge(more),
            None => asked.back(reserved - take.cost, Some(taken)),
        };
        self.add_all(vec![observation]).await
    }

    /// Makes a key as if it had used `take.cost` right now, and lifts its ban.
    ///
    /// # Errors
    /// The ledger's.
    pub async fn set_used(&self, take: Take<'_>, now: Time) -> Result<(), LedgerError> {
        let asked = self.asked(&take, None, now);
        let mut observations = asked.set(take.cost);
        if take.limit.ban.is_some() {
            let all = Addition::GiveBack { amount: u64::MAX, taken: None };
            observations.push(Observation { key: asked.refusals_key(), time: now, add: all });
            let lifted = Addition::Flow(GcraOperation::Set { ahead: 0 });
            observations.push(Observation { key: asked.ban_key(), time: now, add: lifted });
        }
        self.add_all(observations).await
    }

    /// Makes a key as if it had used nothing, and lifts its ban.
    ///
    /// # Errors
    /// The ledger's.
    pub async fn reset_limit(&self, limit: &LimitPlan, key: LimitKey, now: Time) -> Result<(), LedgerError> {
        self.set_used(Take { limit, key, cost: 0 }, now).await
    }

    /// A take as of when it was charged where that tells its period.
    fn asked<'a>(&self, take: &Take<'a>, taken: Option<Time>, now: Time) -> PendingTake<'a> {
        let by_period = matches!(
            take.limit.pace,
            super::LimitAlgorithm::Calendar { .. } | super::LimitAlgorithm::Fixed { .. }
        );
        let as_of = taken.filter(|_| by_period).unwrap_or(now);
        PendingTake::new(take, as_of, &self.exceptions(), &self.secret)
    }

    async fn add_all(&self, observations: Vec<Observation>) -> Result<(), LedgerError> {
        self.ledger.observe(&[ObserveRequest { observations, ..ObserveRequest::default() }]).await?;
        Ok(())
    }
}

/// Returns the name that metrics have for an outcome.
fn result(taken: &TakeResult) -> &'static str {
    match taken {
        TakeResult { quality: stats::Quality::Missing, .. } => "unknown",
        TakeResult { silent: true, .. } => "silent",
        TakeResult { allowed: false, .. } => "refused",
        TakeResult { over: true, .. } => "would_refuse",
        TakeResult { exempt: true, .. } => "exempt",
        _ => "allowed",
    }
}

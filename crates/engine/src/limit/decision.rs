//! Meaning of a limit's reading: a pure function, shared by a take, a look and a peek.

use event::{Key, Secret, Shingle, Span, Time};
use stats::limit::{GcraOperation, WindowTake, interpolated, nanoseconds};
use stats::{Addition, Observation, Quality, ReadingView, TimelineBucket};

use super::{LimitExceptions, LimitKey, Take, TakeResult};
use plan::FailureMode;
use plan::limit::interval;
use plan::limit::{BanPlan, Enforcement, LIMITS, LimitAlgorithm, LimitPlan};

/// The part of a reading that decisions go by.
#[derive(Clone, Copy)]
pub(crate) struct LimitReading {
    last: Option<Time>,
    quality: Quality,
    /// Its first value over two windows.
    sums: [u64; 2],
}

impl LimitReading {
    /// The reading of a key with this latest event, by its first value over two windows.
    pub(super) fn new(last: Option<Time>, sums: [u64; 2]) -> LimitReading {
        LimitReading { last, quality: Quality::Exact, sums }
    }
}

impl From<ReadingView<'_>> for LimitReading {
    #[inline]
    fn from(view: ReadingView<'_>) -> LimitReading {
        LimitReading { last: view.last(), quality: view.quality(), sums: [view.sum(0, 0), view.sum(1, 0)] }
    }
}

/// A take on its way to the ledger.
pub(crate) struct PendingTake<'a> {
    pub(super) limit: &'a LimitPlan,
    /// The limit's ban, but of what is on the allow list.
    pub(super) ban: Option<BanPlan>,
    pub(super) base: Shingle,
    pub(super) cost: u64,
    /// The limit with its exception.
    count: u64,
    burst: u64,
    pub(crate) has_exception: bool,
    exempt: bool,
    /// The key it counts on, and the end of a calendar's period.
    pub(crate) key: Key,
    end: Option<Time>,
    now: Time,
}

/// The decision, and what is still to be done.
pub(crate) struct TakeDecision {
    pub(crate) taken: TakeResult,
    /// Refused, whoever hears of it.
    pub(crate) refused: bool,
    /// True if the limit refuses, not a ban.
    pub(super) by_limit: bool,
    /// The buckets of a window are wanted, to find the time of a retry.
    pub(super) wants_retry: bool,
}

pub(super) fn times(interval: i64, count: u64) -> i64 {
    interval.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Nanoseconds as a span, rounded up.
fn span(nanoseconds: i64) -> Span {
    let whole = nanoseconds.max(0);
    Span(whole / 1000 + i64::from(whole % 1000 > 0))
}

/// Returns the addition that is counted in sub-windows whatever they hold.
fn counted(cost: u64) -> Addition {
    Addition::Take(WindowTake { cost, limit: u64::MAX, counts_all: true, interpolated: false })
}

/// The period that a limit counts in, from its start to its end; `None` where it counts in windows that slide, or in a bucket.
pub(crate) fn period_at(limit: &LimitPlan, now: Time) -> Option<(Time, Time)> {
    match &limit.pace {
        LimitAlgorithm::Sliding { .. } | LimitAlgorithm::Bucket { .. } => None,
        LimitAlgorithm::Calendar { period, zone } => Some(period.bounds(zone, now)),
        LimitAlgorithm::Fixed { window } => {
            let start = Time(now.bucket(*window).saturating_mul(window.0));
            Some((start, start + *window))
        }
    }
}

/// Returns what the ledger counts a key under: in each period it is another.
pub(crate) fn counted_as(base: Shingle, period: Option<(Time, Time)>, secret: &Secret) -> Shingle {
    period.map_or(base, |(start, _)| secret.pair(base, Shingle(start.0.cast_unsigned())))
}

impl<'a> PendingTake<'a> {
    pub(crate) fn new(
        take: &Take<'a>,
        now: Time,
        exceptions: &LimitExceptions,
        secret: &Secret,
    ) -> PendingTake<'a> {
        let limit = take.limit;
        let exception = exceptions.of(&limit.name, take.key, now);
        let count = exception.and_then(|exception| exception.count).unwrap_or(limit.count);
        let burst = match limit.pace {
            // An exception of a bucket changes what it holds and how fast it fills alike.
            LimitAlgorithm::Bucket { burst, .. } if count != limit.count => {
                let scaled = u128::from(burst) * u128::from(count) / u128::from(limit.count.max(1));
                u64::try_from(scaled).unwrap_or(u64::MAX).max(u64::from(count > 0))
            }
            LimitAlgorithm::Bucket { burst, .. } => burst,
            _ => count,
        };
        let base = take.key.shingle;
        let period = period_at(limit, now);
        let shingle = counted_as(base, period, secret);
        let end = period.map(|(_, end)| end);
        PendingTake {
            limit,
            ban: limit.ban.filter(|_| !take.key.is_allowed),
            base,
            cost: take.cost,
            count,
            burst,
            has_exception: exception.is_some(),
            exempt: exception.is_some_and(|exception| exception.exempt),
            key: Key { space: LIMITS, kind: limit.kind, shingle },
            end,
            now,
        }
    }

    /// A look at a key that is known only by what the ledger counts it under. Of a limit of periods that tells of no ban.
    pub(crate) fn of_counted(
        limit: &'a LimitPlan,
        counted: Shingle,
        now: Time,
        exceptions: &LimitExceptions,
        secret: &Secret,
    ) -> PendingTake<'a> {
        let look = Take { limit, key: LimitKey::new(counted), cost: 0 };
        let pending = PendingTake::new(&look, now, exceptions, secret);
        PendingTake { key: Key { shingle: counted, ..pending.key }, ..pending }
    }

    /// Returns true if the ledger is not asked.
    pub(crate) fn is_idle(&self) -> bool {
        self.exempt || self.limit.is_idle()
    }

    pub(super) fn ban_key(&self) -> Key {
        Key { space: LIMITS, kind: self.limit.bans(), shingle: self.base }
    }

    pub(super) fn refusals_key(&self) -> Key {
        Key { space: LIMITS, kind: self.limit.refusals(), shingle: self.base }
    }

    fn window_take(&self) -> WindowTake {
        let interpolated =
            matches!(self.limit.pace, LimitAlgorithm::Sliding { interpolated: true, parts: 2.., .. });
        WindowTake { cost: self.cost, limit: self.count, counts_all: self.limit.counts_all, interpolated }
    }

    fn interval(&self) -> i64 {
        match self.limit.pace {
            LimitAlgorithm::Bucket { interval, .. } if self.count == self.limit.count => interval,
            LimitAlgorithm::Bucket { per, .. } => interval(self.count, per).max(1),
            _ => 1,
        }
    }

    fn flow(&self) -> GcraOperation {
        let interval = self.interval();
        GcraOperation::Take {
            cost: times(interval, self.cost),
            burst: if self.count == 0 { 0 } else { times(interval, self.burst) },
            counts_all: self.limit.counts_all,
        }
    }

    pub(crate) fn observations(&self, adds: bool) -> impl Iterator<Item = Observation> {
        let add = match self.limit.pace {
            LimitAlgorithm::Bucket { .. } => Addition::Flow(self.flow()),
            _ => Addition::Take(self.window_take()),
        };
        let own = Observation { key: self.key, time: self.now, add: if adds { add } else { add.look() } };
        let ban =
            self.ban.map(|_| Observation { key: self.ban_key(), time: self.now, add: Addition::Nothing });
        let all = (!self.is_idle()).then(|| std::iter::once(own).chain(ban));
        all.into_iter().flatten()
    }

    /// Returns the observation that gives back what was charged.
    pub(super) fn back(&self, amount: u64, taken: Option<Time>) -> Observation {
        let add = match self.limit.pace {
            LimitAlgorithm::Bucket { .. } => {
                Addition::Flow(GcraOperation::Back { cost: times(self.interval(), amount) })
            }
            _ => Addition::GiveBack { amount, taken },
        };
        Observation { key: self.key, time: self.now, add }
    }

    /// Returns the observation that charges whether or not it is allowed.
    pub(super) fn charge(&self, amount: u64) -> Observation {
        let add = match self.limit.pace {
            LimitAlgorithm::Bucket { .. } => {
                Addition::Flow(GcraOperation::Add { cost: times(self.interval(), amount) })
            }
            _ => counted(amount),
        };
        Observation { key: self.key, time: self.now, add }
    }

    /// Returns the observation that counts a refusal.
    pub(super) fn refusal(&self) -> Observation {
        Observation { key: self.refusals_key(), time: self.now, add: counted(1) }
    }

    /// Returns the observations that make a key as if it had used so much now.
    pub(super) fn set(&self, used: u64) -> Vec<Observation> {
        match self.limit.pace {
            LimitAlgorithm::Bucket { .. } => {
                let ahead = times(self.interval(), used);
                vec![Observation {
                    key: self.key,
                    time: self.now,
                    add: Addition::Flow(GcraOperation::Set { ahead }),
                }]
            }
            _ => vec![self.back(u64::MAX, None), self.charge(used)],
        }
    }

    fn blank(&self) -> TakeResult {
        TakeResult {
            limit: self.limit.name.clone(),
            allowed: true,
            silent: false,
            over: false,
            quota: if matches!(self.limit.pace, LimitAlgorithm::Bucket { .. }) {
                self.burst
            } else {
                self.count
            },
            window: self.limit.window(),
            used: 0,
            remaining: 0,
            reset_after: Span::ZERO,
            retry_after: None,
            banned_until: None,
            exempt: self.exempt,
            quality: Quality::Exact,
            charged: 0,
            time: self.now,
        }
    }

    /// Returns the decision of a limit that was not asked, or could not be.
    pub(super) fn unread(&self) -> TakeDecision {
        let mut taken = self.blank();
        taken.remaining = taken.quota;
        if !self.is_idle() {
            taken.quality = Quality::Missing;
            taken.over = self.limit.on_error == FailureMode::Closed;
        }
        let refused = taken.over;
        TakeDecision { taken, refused, by_limit: false, wants_retry: false }
    }

    /// Returns what the next readings say, in the order of [`PendingTake::observations`].
    pub(crate) fn decided<S: Into<LimitReading>>(
        &self,
        readings: &mut impl Iterator<Item = S>,
        adds: bool,
    ) -> TakeDecision {
        if self.is_idle() {
            return self.unread();
        }
        let Some(own) = readings.next() else { return self.unread() };
        let ban = self.ban.and_then(|_| readings.next());
        self.decide(own.into(), ban.map(Into::into), adds)
    }

    /// Decides by the readings: that of the limit's key, and that of its ban. `adds` is whether something was taken.
    pub(super) fn decide(&self, own: LimitReading, ban: Option<LimitReading>, adds: bool) -> TakeDecision {
        let mut taken = self.blank();
        taken.quality = own.quality;
        // Whether it was counted only the cluster knows; what was not must not be given back.
        let adds = adds && !(self.limit.exact && own.quality == Quality::Missing);
        let (within, charged) = match self.limit.pace {
            LimitAlgorithm::Bucket { .. } => self.bucket(&own, adds, &mut taken),
            _ => self.window(&own, adds, &mut taken),
        };
        taken.charged = charged;
        taken.over =
            !within || (taken.quality == Quality::Missing && self.limit.on_error == FailureMode::Closed);
        if let Some(until) = ban.and_then(|ban| ban.last)
            && until > self.now
        {
            taken.banned_until = Some(until);
            taken.over = true;
            taken.remaining = 0;
            taken.retry_after = Some((until - self.now).max(taken.retry_after.unwrap_or(Span::ZERO)));
        }
        let refused = taken.over;
        let by_limit = refused && taken.banned_until.is_none();
        let slides = matches!(self.limit.pace, LimitAlgorithm::Sliding { .. });
        let wants_retry =
            by_limit && slides && self.cost <= self.count && self.limit.enforcement == Enforcement::Enforce;
        TakeDecision { taken, refused, by_limit, wants_retry }
    }

    /// Fills in what a window's reading says; answers whether the take is within, and what it has charged.
    fn window(&self, own: &LimitReading, adds: bool, taken: &mut TakeResult) -> (bool, u64) {
        let take = self.window_take();
        let as_of = own.last.map_or(self.now, |last| self.now.max(last));
        taken.time = as_of;
        let width = self.width();
        let used = match self.limit.pace {
            LimitAlgorithm::Sliding { window, .. } if take.interpolated => {
                interpolated(own.sums[0], own.sums[1], as_of, window, width)
            }
            _ => own.sums[0],
        };
        let within = take.is_within(used);
        let after = if adds { take.after(used) } else { used };
        taken.used = after;
        taken.remaining = self.count.saturating_sub(after);
        let charged = after.saturating_sub(used);
        taken.reset_after = match (self.end, &self.limit.pace) {
            _ if after == 0 => Span::ZERO,
            (Some(end), _) => end - self.now,
            (None, LimitAlgorithm::Sliding { window, .. }) => {
                // The newest sub-window that holds anything.
                let newest = if charged > 0 { as_of } else { own.last.unwrap_or(self.now) };
                leaves(newest.bucket(width), width, *window) - self.now
            }
            (None, _) => Span::ZERO,
        };
        if !within && self.cost <= self.count {
            taken.retry_after = self.end.map(|end| end - self.now);
        }
        (within, charged)
    }

    /// Fills in what a bucket's reading says, and answers as for a window.
    fn bucket(&self, own: &LimitReading, adds: bool, taken: &mut TakeResult) -> (bool, u64) {
        let before = own.last.map(|_| own.sums[0].cast_signed());
        let (flow, interval, now) = (self.flow(), self.interval(), nanoseconds(self.now));
        let GcraOperation::Take { cost, burst, .. } = flow else { return (true, 0) };
        let within = self.cost <= self.burst && flow.is_within(before, self.now);
        let changed = if adds { flow.after(before, self.now) } else { None };
        let base = before.unwrap_or(now).max(now);
        let after = changed.unwrap_or(base);
        let ahead = after.saturating_sub(now);
        taken.remaining = u64::try_from(burst.saturating_sub(ahead).max(0) / interval).unwrap_or(0);
        taken.used = self.burst.saturating_sub(taken.remaining);
        taken.reset_after = span(ahead);
        if !within && cost <= burst {
            taken.retry_after =
                Some(span(base.max(after).saturating_add(cost).saturating_sub(now).saturating_sub(burst)));
        }
        (within, if within && changed.is_some() { self.cost } else { 0 })
    }

    /// The length of a sub-window.
    fn width(&self) -> Span {
        match self.limit.pace {
            LimitAlgorithm::Sliding { window, parts, .. } => {
                let parts = i64::from(parts.max(1));
                Span(window.0.div_euclid(parts) + i64::from(window.0.rem_euclid(parts) > 0))
            }
            _ => self.limit.window(),
        }
    }

    /// The time at which enough has left the window for the cost to fit, by its sub-windows, oldest first. `as_of` is the
    /// time of the refusal.
    pub(super) fn retry(&self, buckets: &[TimelineBucket], as_of: Time) -> Option<Span> {
        let LimitAlgorithm::Sliding { window, .. } = self.limit.pace else { return None };
        let (width, is_shared) = (self.width(), self.window_take().interpolated);
        let oldest = (as_of - window).bucket(width);
        let held = |bucket: &&TimelineBucket| bucket.start.bucket(width) >= oldest;
        let counts = || {
            buckets
                .iter()
                .filter(held)
                .map(|bucket| (bucket.start.bucket(width), bucket.counts.first().copied().unwrap_or(0)))
        };
        let free = self.count.checked_sub(self.cost)?;
        let mut rest = counts().fold(0u64, |sum, (_, count)| sum.saturating_add(count));
        for (bucket, count) in counts().filter(|(_, count)| *count > 0) {
            let newer = rest.saturating_sub(count);
            if newer <= free {
                let gone = leaves(bucket, width, window);
                if !is_shared {
                    return Some((gone - self.now).max(Span::ZERO));
                }
                // While it is the oldest its share shrinks: enough is gone once at most `free - newer` are left of it.
                let left = u128::from(free - newer) * width.0.unsigned_abs() as u128 / u128::from(count);
                let left = i64::try_from(left).unwrap_or(i64::MAX).min(width.0);
                return Some(((gone - Span(left)) - self.now).max(Span::ZERO));
            }
            rest = newer;
        }
        None
    }
}

/// The first moment at which a sub-window does not lie in the window any more.
fn leaves(bucket: i64, width: Span, window: Span) -> Time {
    Time(bucket.saturating_add(1).saturating_mul(width.0)) + window
}

impl TakeDecision {
    /// Takes what was charged back out of the result.
    pub(super) fn give_back(&mut self) {
        let TakeResult { used, remaining, charged, quota, banned_until, .. } = &mut self.taken;
        *used = used.saturating_sub(*charged);
        if banned_until.is_none() {
            *remaining = remaining.saturating_add(*charged).min(*quota);
        }
        *charged = 0;
    }

    /// Returns the result of a look: the truth.
    pub(crate) fn looked(mut self) -> TakeResult {
        self.taken.allowed = !self.taken.over;
        self.taken
    }

    /// Turns what was decided into what is told.
    pub(super) fn result(mut self, asked: &PendingTake<'_>) -> TakeResult {
        match asked.limit.enforcement {
            Enforcement::Enforce => self.taken.allowed = !self.taken.over,
            Enforcement::Observe | Enforcement::Off => {
                self.taken.allowed = true;
                self.taken.retry_after = None;
            }
            Enforcement::ShadowBan => {
                // What a caller hears who has used nothing yet: no answer tells a banned one from another.
                let blank = asked.blank();
                self.taken = TakeResult {
                    silent: self.refused,
                    used: asked.cost.min(blank.quota),
                    remaining: blank.quota.saturating_sub(asked.cost),
                    reset_after: asked.limit.window(),
                    charged: asked.cost,
                    ..blank
                };
            }
        }
        self.taken
    }
}

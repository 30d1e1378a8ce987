//! Commands on limits: words → what is taken, and what came of it → an answer.

use std::sync::Arc;

use engine::Engine;
use engine::limit::{LimitKey, Take, TakeResult};
use event::Span;
use plan::Plan;
use plan::limit::{BucketError, FIELDS_MAX, LimitPlan};

use super::answer::{ReplyBuffer, quoted};
use super::codec::{RespCommand, integer};

/// The take that is to be made, until it is.
#[derive(Debug)]
pub(super) struct TakeRequest {
    limit: Arc<LimitPlan>,
    key: LimitKey,
    cost: u64,
    form: TakeReplyForm,
}

/// The form of the answer to a take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TakeReplyForm {
    /// The answer of redis-cell: five numbers.
    Cell,
    /// The numbers of redis-cell and three more.
    Toll,
}

/// The arguments of a command on a configured limit.
#[derive(Debug)]
pub(super) struct TakeArguments {
    pub(super) limit: Arc<LimitPlan>,
    pub(super) key: LimitKey,
    pub(super) amount: u64,
    /// True if the amount was given, and is not the limit's own cost.
    pub(super) given: bool,
    pub(super) peek: bool,
    /// Limits that are taken with it, and their keys.
    pub(super) also: Vec<(Arc<LimitPlan>, LimitKey)>,
}

/// Limits of `CL.THROTTLE`, the latest first: most calls have the same numbers as one before.
#[derive(Debug, Default)]
pub(super) struct BucketCache(Vec<(BucketParameters, Arc<LimitPlan>)>);

/// The parameters that a call gives of its limit: burst, count, seconds.
type BucketParameters = (i64, i64, i64);

/// Limits that a connection keeps.
const BUCKETS_MAX: usize = 16;
/// The name of all limits of `CL.THROTTLE`, in metrics and among the keys.
const CELL: &str = "cl.throttle";
/// A second, in microseconds.
const SECOND: i64 = 1_000_000;
const NO_NUMBER: &str = "ERR value is not an integer or out of range";

impl BucketCache {
    fn limit(&mut self, numbers: BucketParameters) -> Result<Arc<LimitPlan>, BucketError> {
        if let Some(at) = self.0.iter().position(|(known, _)| *known == numbers) {
            return Ok(Arc::clone(&self.0[at].1));
        }
        let (burst, count, period) = numbers;
        let of = |number: i64| u64::try_from(number).unwrap_or(0);
        let per = Span(period.saturating_mul(SECOND));
        // redis-cell's burst is what may come beyond the one that always may.
        let limit = Arc::new(LimitPlan::bucket(CELL, of(count), per, of(burst).saturating_add(1))?);
        self.0.truncate(BUCKETS_MAX - 1);
        self.0.insert(0, (numbers, Arc::clone(&limit)));
        Ok(limit)
    }
}

impl TakeRequest {
    /// `CL.THROTTLE key max_burst count period [quantity]`.
    ///
    /// # Errors
    /// What is wrong with the words, for an answer.
    pub(super) fn cell(
        command: RespCommand<'_>,
        buckets: &mut BucketCache,
        engine: &Engine,
    ) -> Result<TakeRequest, String> {
        let number = |index| match command.get(index).map(integer) {
            None => Ok(1),
            Some(Some(number)) if number >= 0 => Ok(number),
            Some(_) => Err(NO_NUMBER.to_owned()),
        };
        let (burst, count, period, quantity) = (number(2)?, number(3)?, number(4)?, number(5)?);
        if command.len() > 6 {
            return Err("ERR wrong number of arguments for 'cl.throttle' command".to_owned());
        }
        let limit = buckets.limit((burst, count, period)).map_err(|error| match error {
            BucketError::Rate => "ERR Zero rates are not supported".to_owned(),
            BucketError::Fill => format!("ERR {error}"),
        })?;
        let key = engine.limit_key_of_bytes(&limit, command.get(1).unwrap_or_default());
        let cost = u64::try_from(quantity).unwrap_or(0);
        Ok(TakeRequest { limit, key, cost, form: TakeReplyForm::Cell })
    }

    /// Returns what a `TOLL.TAKE` asks that takes nothing else with it.
    pub(super) fn toll(words: TakeArguments) -> TakeRequest {
        let TakeArguments { limit, key, amount, .. } = words;
        TakeRequest { limit, key, cost: amount, form: TakeReplyForm::Toll }
    }

    pub(super) fn take(&self) -> Take<'_> {
        Take { limit: &self.limit, key: self.key, cost: self.cost }
    }

    /// Answers what came of it.
    pub(super) fn answer(&self, taken: &TakeResult, answers: &mut ReplyBuffer) {
        match self.form {
            TakeReplyForm::Cell => {
                answers.array(5);
                five(taken, answers);
            }
            TakeReplyForm::Toll => toll(taken, answers),
        }
    }
}

/// The answer of `TOLL.TAKE` and `TOLL.PEEK`: the numbers of redis-cell, whether it is silently refused, whether it is over the
/// limit whatever is told, and what was charged.
pub(super) fn toll(taken: &TakeResult, answers: &mut ReplyBuffer) {
    answers.array(8);
    five(taken, answers);
    answers.integer(i64::from(taken.silent));
    answers.integer(i64::from(taken.over));
    answers.integer(whole(taken.charged));
}

/// 1 for limited, the most that can be taken at once, what is left, seconds until it can be tried again (-1 if it was allowed,
/// or never can be), and seconds until all is left.
fn five(taken: &TakeResult, answers: &mut ReplyBuffer) {
    answers.integer(i64::from(!taken.allowed));
    answers.integer(whole(taken.quota));
    answers.integer(whole(taken.remaining));
    answers.integer(taken.retry_after.map_or(-1, seconds));
    answers.integer(seconds(taken.reset_after));
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Whole seconds, rounded up as redis-cell does: who waits so long does not come too early.
fn seconds(span: Span) -> i64 {
    span.0.div_euclid(SECOND) + i64::from(span.0.rem_euclid(SECOND) > 0)
}

fn text(word: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(word).map_err(|_| format!("ERR '{}': expected UTF-8", quoted(word)))
}

impl TakeArguments {
    /// Reads `limit key... [COST n] [PEEK]`: as many words of key as the limit has fields. `amount` is what the number is
    /// called.
    ///
    /// # Errors
    /// What is wrong with the words, for an answer.
    pub(super) fn read(
        command: RespCommand<'_>,
        amount: &str,
        engine: &Engine,
        plan: &Plan,
    ) -> Result<TakeArguments, String> {
        let name = text(command.get(1).unwrap_or_default())?;
        let Some(limit) = plan.limit(name) else {
            let known: Vec<&str> = plan.limits.iter().take(20).map(|limit| &*limit.name).collect();
            let known = if known.is_empty() { "none is configured".to_owned() } else { known.join(", ") };
            return Err(format!("ERR there is no limit '{}'; there are: {known}", quoted(name.as_bytes())));
        };
        let mut values = [""; FIELDS_MAX];
        for (value, word) in values.iter_mut().zip(command.from(2).take(limit.key.len())) {
            *value = text(word)?;
        }
        if command.len() < 2 + limit.key.len() {
            let fields: Vec<&str> = limit.key.iter().map(|field| field.name.as_str()).collect();
            return Err(format!("ERR the key of '{name}' has {} words: {}", fields.len(), fields.join(", ")));
        }
        let value = |field: &str| {
            let at = limit.key.iter().position(|known| known.name == field)?;
            values.get(at).copied()
        };
        let key =
            |limit: &LimitPlan| engine.limit_key_of(limit, value).map_err(|error| format!("ERR {error}"));
        let mut also = Vec::new();
        for name in &limit.also {
            let Some(other) = plan.limit(name) else { continue };
            also.push((Arc::clone(other), key(other)?));
        }
        let own = key(limit)?;
        let mut words = TakeArguments {
            limit: Arc::clone(limit),
            key: own,
            amount: limit.cost,
            given: false,
            peek: false,
            also,
        };
        let mut at = 2 + limit.key.len();
        while let Some(option) = command.get(at) {
            match command.get(at + 1).map(integer) {
                _ if option.eq_ignore_ascii_case(b"peek") => {
                    words.peek = true;
                    at += 1;
                }
                Some(number) if option.eq_ignore_ascii_case(amount.as_bytes()) => {
                    let number = number.and_then(|number| u64::try_from(number).ok());
                    words.amount = number.ok_or_else(|| NO_NUMBER.to_owned())?;
                    words.given = true;
                    at += 2;
                }
                _ => return Err("ERR syntax error".to_owned()),
            }
        }
        Ok(words)
    }

    /// All that is taken, itself first.
    pub(super) fn takes(&self) -> Vec<Take<'_>> {
        let own = Take { limit: &self.limit, key: self.key, cost: self.amount };
        let also = self.also.iter().map(|(limit, key)| Take { limit, key: *key, cost: self.amount });
        std::iter::once(own).chain(also).collect()
    }
}

//! The keys that have used most of a limit by now, and those that it has banned.
//!
//! The ledger keeps hashes, and goes through its cells for those with the largest counts. They are then looked at as a caller would be
//! answered, with their exceptions. A key of a limit of periods is counted under another hash in each period, which does not
//! lead back to it: of such keys a ban and an exception are known because these are looked at, too.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use event::{Facts, Secret, Shingle, Slot, Span, Time};
use journal::{
    DecisionHead, DecisionOutcome, DecisionSource, IdRange, JournalError, RecordVisitor, SkippedData,
};
use plan::Pipeline;
use plan::limit::{LIMITS, LimitException, LimitPlan};
use stats::{CancellationCheck, HottestQuery, LedgerError, ObserveRequest};

use crate::Engine;
use crate::key_timeline::{KeyStatisticsError, ROWS_NAMED};
use crate::limit::decision::{PendingTake, counted_as, period_at};
use crate::limit::{LimitExceptions, LimitKey, Take, TakeResult, key, overrides, rules};

/// Keys of one request to the ledger, each of which may look at its ban, too.
const LOOKS: usize = ObserveRequest::OBSERVATIONS_MAX / 2;

/// A limit, and its keys that are fullest.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitFill {
    /// The limit.
    pub limit: Arc<LimitPlan>,
    /// The banned ones, and then the others by the share that they have used, the fullest first.
    pub keys: Vec<FullestKey>,
}

/// A key that has used something of a limit, or is banned by it.
#[derive(Clone, Debug, PartialEq)]
pub struct FullestKey {
    /// The values of the limit's fields, if a recent row of the journal or an exception has them.
    pub values: Option<Vec<String>>,
    /// The hash under which it is counted.
    pub shingle: Shingle,
    /// The answer to a look at it.
    pub state: TakeResult,
    /// True if an exception says how much it may use.
    pub has_exception: bool,
}

impl FullestKey {
    /// Returns the share that it has used of what it may.
    pub fn share(&self) -> f64 {
        if self.state.quota == 0 { 1.0 } else { self.state.used as f64 / self.state.quota as f64 }
    }
}

/// A limit at a time.
struct LimitLook<'a> {
    limit: &'a Arc<LimitPlan>,
    period: Option<(Time, Time)>,
}

impl Engine {
    /// The keys that have used most of limits by now, so many of each, and those that are banned. See
    /// [`stats::Ledger::hottest`] for what it costs. Keys that are exempt are left out, and so is a limit that is off.
    ///
    /// # Errors
    /// The ledger's and the journal's.
    pub async fn fullest(
        &self,
        limits: &[Arc<LimitPlan>],
        count: usize,
        now: Time,
        is_over: CancellationCheck<'_>,
    ) -> Result<Vec<LimitFill>, KeyStatisticsError> {
        let proposed = count.saturating_mul(2);
        let counts = limits.iter().filter(|limit| !limit.is_idle());
        let looks: Vec<LimitLook<'_>> =
            counts.map(|limit| LimitLook { limit, period: period_at(limit, now) }).collect();
        let mut queries = Vec::new();
        for look in &looks {
            let measure = look.limit.measure().map_err(LedgerError::from)?;
            let query = HottestQuery {
                space: LIMITS,
                kind: look.limit.kind,
                counter: 0,
                window: measure.windows().first().copied().unwrap_or(Span::ZERO),
                since: look.period.map(|(start, _)| start),
                limit: proposed,
            };
            queries.push(query);
            let bans = HottestQuery { kind: look.limit.bans(), window: Span::ZERO, since: None, ..query };
            queries.extend(look.limit.ban.map(|_| bans));
        }
        let mut found = self.ledger.hottest(&queries, now, is_over).await?.into_iter();
        let mut fills = Vec::new();
        for look in &looks {
            let mut next = || found.next().unwrap_or_default().into_iter().map(|(key, _)| key.shingle);
            let used: Vec<Shingle> = next().collect();
            let banned: Vec<Shingle> = if look.limit.ban.is_some() { next().collect() } else { Vec::new() };
            let mut keys = self.look_at_limit(look, &used, &banned, proposed, now).await?;
            keys.truncate(count);
            fills.push(LimitFill { limit: Arc::clone(look.limit), keys });
        }
        self.name_keys(&looks, &mut fills, is_over)?;
        Ok(fills)
    }

    /// Looks at keys that are counted, that are banned, and whose exception lets them have less than others; the fullest come first.
    async fn look_at_limit(
        &self,
        look: &LimitLook<'_>,
        used: &[Shingle],
        banned: &[Shingle],
        proposed: usize,
        now: Time,
    ) -> Result<Vec<FullestKey>, LedgerError> {
        let (limit, exceptions) = (look.limit, self.exceptions());
        let stricter = exceptions_of(&exceptions, limit)
            .filter(|exception| exception.count.is_some_and(|count| count < limit.count))
            .filter_map(|exception| overrides::key(limit, &exception.key, &self.secret).ok())
            .take(proposed);
        let known = banned.iter().copied().map(LimitKey::new).chain(stricter);
        let mut asked: Vec<PendingTake<'_>> = known
            .map(|key| PendingTake::new(&Take { limit, key, cost: 0 }, now, &exceptions, &self.secret))
            .collect();
        let counted =
            |shingle: &Shingle| PendingTake::of_counted(limit, *shingle, now, &exceptions, &self.secret);
        asked.extend(used.iter().map(counted));
        let mut seen = HashSet::new();
        asked.retain(|asked| seen.insert(asked.key));
        let mut keys = Vec::new();
        for asked in asked.chunks(LOOKS) {
            let observations = asked.iter().flat_map(|asked| asked.observations(false)).collect();
            let request = ObserveRequest { observations, ..ObserveRequest::default() };
            let outcomes = self.ledger.observe(&[request]).await?;
            let mut views = outcomes.all();
            for asked in asked {
                let state = asked.decided(&mut views, false).looked();
                let is_wanted = !state.exempt && (state.used > 0 || state.banned_until.is_some());
                let (shingle, has_exception) = (asked.key.shingle, asked.has_exception);
                keys.extend(is_wanted.then_some(FullestKey { values: None, shingle, state, has_exception }));
            }
        }
        keys.sort_by(|one, other| {
            let is_banned = |key: &FullestKey| key.state.banned_until.is_some();
            let by_ban = is_banned(other).cmp(&is_banned(one));
            let by_share = other.share().total_cmp(&one.share());
            by_ban
                .then(by_share)
                .then(other.state.used.cmp(&one.state.used))
                .then(one.shingle.cmp(&other.shingle))
        });
        Ok(keys)
    }

    /// Fills in the values of keys that exceptions or recent rows of the journal have.
    fn name_keys(
        &self,
        looks: &[LimitLook<'_>],
        fills: &mut [LimitFill],
        is_over: CancellationCheck<'_>,
    ) -> Result<(), JournalError> {
        let (plan, exceptions) = (self.plan(), self.exceptions());
        let pipelines: Vec<LimitedPipeline<'_>> =
            plan.pipelines.iter().filter_map(|pipeline| LimitedPipeline::new(pipeline, looks)).collect();
        let mut finder = KeyValuesFinder::new(looks, fills, &pipelines, &self.secret);
        for (at, look) in looks.iter().enumerate() {
            for exception in exceptions_of(&exceptions, look.limit) {
                if let Ok(key) = overrides::key(look.limit, &exception.key, &self.secret) {
                    finder.meet(at, key, &exception.key);
                }
            }
        }
        if let Some(journal) = self.journal.as_ref().filter(|_| !pipelines.is_empty()) {
            let (mut blocks, mut skipped, mut rows) =
                (journal.ranked(IdRange::default())?, SkippedData::default(), 0);
            while rows < ROWS_NAMED && finder.unnamed > 0 && !is_over() {
                let Some(block) = blocks.next_block()? else { break };
                rows += block.head.count as usize;
                skipped.pass(block.look(&mut finder).map_err(|error| block.error(error)))?;
            }
        }
        for (fill, named) in fills.iter_mut().zip(finder.wanted) {
            for key in &mut fill.keys {
                key.values = named.get(&key.shingle).cloned().flatten();
            }
        }
        Ok(())
    }
}

/// The exceptions of a limit: posted ones, and those of the configuration.
fn exceptions_of<'a>(
    exceptions: &'a LimitExceptions,
    limit: &'a LimitPlan,
) -> impl Iterator<Item = &'a LimitException> {
    let posted = exceptions.posted().iter().filter(|exception| *exception.limit == *limit.name);
    posted.chain(&limit.exceptions)
}

/// A pipeline whose rows have the fields of some limits.
struct LimitedPipeline<'a> {
    pipeline: &'a Pipeline,
    /// The facts that are fields, each in its own slot.
    slots: Vec<Option<Slot>>,
    /// The numbers of the limits, and the slots of their fields.
    limits: Vec<(usize, Vec<Slot>)>,
}

impl<'a> LimitedPipeline<'a> {
    fn new(pipeline: &'a Pipeline, looks: &[LimitLook<'_>]) -> Option<LimitedPipeline<'a>> {
        let schema = &pipeline.schema;
        let mut slots = vec![None; schema.columns().len()];
        let mut limits = Vec::new();
        for (at, look) in looks.iter().enumerate() {
            let fields = look.limit.key.iter().map(|field| schema.slot(&field.name));
            let Some(fields) = fields.collect::<Option<Vec<Slot>>>() else { continue };
            for slot in &fields {
                if let Some(place) = slots.get_mut(usize::from(slot.0)) {
                    *place = Some(*slot);
                }
            }
            limits.push((at, fields));
        }
        (!limits.is_empty()).then_some(LimitedPipeline { pipeline, slots, limits })
    }
}

/// Finds the values of which some keys of limits are made, in rows that have all of their fields.
struct KeyValuesFinder<'a> {
    secret: &'a Secret,
    looks: &'a [LimitLook<'a>],
    pipelines: &'a [LimitedPipeline<'a>],
    /// A row of each pipeline, and the pipeline of the row that is read.
    rows: Vec<Facts>,
    current: usize,
    /// The keys of each limit, by what they are counted under.
    wanted: Vec<HashMap<Shingle, Option<Vec<String>>>>,
    unnamed: usize,
}

impl<'a> KeyValuesFinder<'a> {
    fn new(
        looks: &'a [LimitLook<'a>],
        fills: &[LimitFill],
        pipelines: &'a [LimitedPipeline<'a>],
        secret: &'a Secret,
    ) -> KeyValuesFinder<'a> {
        let keys = |fill: &LimitFill| fill.keys.iter().map(|key| (key.shingle, None)).collect();
        let wanted: Vec<HashMap<_, _>> = fills.iter().map(keys).collect();
        let unnamed = wanted.iter().map(HashMap::len).sum();
        let rows = pipelines.iter().map(|of| of.pipeline.schema.empty_row()).collect();
        KeyValuesFinder { secret, looks, pipelines, rows, current: 0, wanted, unnamed }
    }

    /// Takes the values of a key, if it is one that is wanted.
    fn meet(&mut self, limit: usize, key: LimitKey, values: &[String]) {
        let period = self.looks.get(limit).and_then(|look| look.period);
        let counted = counted_as(key.shingle, period, self.secret);
        let wanted = self.wanted.get_mut(limit).and_then(|wanted| wanted.get_mut(&counted));
        if let Some(named) = wanted.filter(|named| named.is_none()) {
            *named = Some(values.to_vec());
            self.unnamed -= 1;
        }
    }
}

impl<'a> RecordVisitor<'a> for KeyValuesFinder<'a> {
    fn version(&mut self, pipeline: &str, version: &str) -> Option<&'a [Option<Slot>]> {
        // Rows of another version may have their facts in other slots.
        let is_of =
            |of: &&LimitedPipeline<'_>| of.pipeline.name == pipeline && of.pipeline.version == version;
        self.pipelines.iter().find(is_of).map(|of| of.slots.as_slice())
    }

    fn decision(&mut self, head: &DecisionHead<'_>) -> Option<&mut Facts> {
        if self.unnamed == 0 {
            return None;
        }
        let is_of = |of: &LimitedPipeline<'_>| {
            of.pipeline.name == head.pipeline && of.pipeline.version == head.version
        };
        self.current = self.pipelines.iter().position(is_of)?;
        let facts = self.rows.get_mut(self.current)?;
        self.pipelines.get(self.current)?.slots.iter().flatten().for_each(|slot| {
            facts.clear(*slot);
        });
        Some(facts)
    }

    fn decided(&mut self, _decided: DecisionOutcome) {
        let Some(of) = self.pipelines.get(self.current).filter(|_| self.unnamed > 0) else { return };
        for (at, slots) in &of.limits {
            let Some((look, facts)) = self.looks.get(*at).zip(self.rows.get(self.current)) else { continue };
            for values in rules::keys(look.limit, slots, facts) {
                let key = key::key(self.secret, look.limit, values.iter().map(String::as_bytes));
                self.meet(*at, key, &values);
            }
        }
    }
}

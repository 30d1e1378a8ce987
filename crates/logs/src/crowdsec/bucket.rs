//! Buckets of scenarios: records are poured in, and an overflow names their sources.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use crate::crowdsec::data_files::CrowdsecDataFiles;
use crate::crowdsec::evaluator::{ExprEnvironment, ExprMemory};
use crate::crowdsec::expression::CrowdsecExpression;
use crate::crowdsec::kept_buckets::{
    KEPT_BYTES_MAX, KEPT_LINES_MAX, KeptBlackhole, KeptBucket, KeptBuckets, KeptLine, KeptScenario,
};
use crate::crowdsec::record::{CrowdsecOverflow, CrowdsecRecord, OverflowSource};
use crate::crowdsec::scenario::{CrowdsecScenario, ScenarioKind};
use crate::crowdsec::value::{ExprObject, ExprValue};

/// Most buckets of a scenario; one that is over leaves first, else the one that was poured into longest ago.
const BUCKETS_MAX: usize = 20_000;
/// Records after which buckets that are over leave.
const SWEEP: u64 = 4_096;
/// Most records that a bucket keeps.
const RECORDS_MAX: usize = 2_000;
/// Most distinct texts that a bucket knows.
const DISTINCT_MAX: usize = 10_000;
/// Most bytes of a group.
const GROUP_BYTES_MAX: usize = 4_096;

#[derive(Clone, Debug, Default)]
struct CrowdsecBucket {
    first: Option<i64>,
    last: i64,
    count: u64,
    /// The room that is left, and since when; none before the first record.
    room: Option<(f64, i64)>,
    records: VecDeque<Arc<CrowdsecRecord>>,
    distinct: HashSet<Arc<str>>,
    guillotines: Vec<bool>,
    /// The number of the scenario that made it.
    scenario: usize,
}

impl CrowdsecBucket {
    fn keep(&mut self, record: &Arc<CrowdsecRecord>, scenario: &CrowdsecScenario) {
        let most = match (scenario.cache_size, scenario.capacity) {
            (Some(size), Some(capacity)) if size <= capacity => size,
            (Some(size), None) => size,
            (_, Some(capacity)) => capacity,
            (None, None) => RECORDS_MAX,
        };
        // One more than fits is kept.
        while self.records.len() > most.min(RECORDS_MAX) {
            self.records.pop_front();
        }
        self.records.push_back(Arc::clone(record));
    }

    /// Takes room for one record at a time. Returns false if there is none.
    fn has_room(&mut self, at: i64, scenario: &CrowdsecScenario) -> bool {
        let Some(capacity) = scenario.capacity else { return true };
        let capacity = capacity as f64;
        let (room, since) = self.room.unwrap_or((capacity, at));
        let leaked = at.saturating_sub(since).max(0) as f64 / scenario.leak_speed.max(1) as f64;
        let left = (room + leaked).min(capacity) - 1.0;
        // Less than a nanosecond is no wait.
        if -left * scenario.leak_speed as f64 >= 1.0 {
            return false;
        }
        self.room = Some((left, at));
        true
    }
}

/// The records of a bucket as conditions see them.
#[derive(Debug)]
struct BucketQueue(Vec<Arc<CrowdsecRecord>>);

impl ExprObject for BucketQueue {
    fn member(&self, name: &str) -> Option<ExprValue> {
        match name {
            "Queue" => Some(ExprValue::List(Arc::new(self.0.iter().cloned().map(ExprValue::from).collect()))),
            "L" => Some(ExprValue::Int(self.0.len() as i64)),
            _ => None,
        }
    }

    fn call(&self, name: &str, _arguments: &[ExprValue]) -> Option<ExprValue> {
        (name == "GetQueue").then(|| ExprValue::Object(Arc::new(BucketQueue(self.0.clone()))))
    }
}

/// A bucket as conditions see it.
#[derive(Debug)]
struct BucketState {
    count: u64,
    first: i64,
    last: i64,
    records: Vec<Arc<CrowdsecRecord>>,
}

impl ExprObject for BucketState {
    fn member(&self, name: &str) -> Option<ExprValue> {
        Some(match name {
            "Total_count" => ExprValue::Int(i64::try_from(self.count).unwrap_or(i64::MAX)),
            "First_ts" => ExprValue::Moment(self.first),
            "Last_ts" => ExprValue::Moment(self.last),
            "Queue" => ExprValue::Object(Arc::new(BucketQueue(self.records.clone()))),
            _ => return None,
        })
    }
}

/// Scenarios with their buckets.
#[derive(Debug, Default)]
pub struct CrowdsecBuckets {
    scenarios: Vec<Arc<CrowdsecScenario>>,
    /// The family of each scenario, by its number: scenarios of one name and filter share their buckets, as in CrowdSec.
    families: Vec<usize>,
    /// Buckets of each family, by their group.
    buckets: Vec<HashMap<Arc<str>, CrowdsecBucket>>,
    /// The times until which overflows of a group are hidden, of each scenario.
    hidden: Vec<HashMap<Arc<str>, i64>>,
    /// The number of records that were poured.
    poured: u64,
    /// The number of overflows whose sources could not be told.
    pub without_source: u64,
    /// The bits by which addresses of IPv6 are one in groups; each is its own where there is no number.
    ipv6_prefix: Option<u8>,
}

/// Returns the network of an address of IPv6; of any other text there is none.
fn ipv6_network(text: &str, prefix: u8) -> Option<String> {
    let IpAddr::V6(address) = text.parse::<IpAddr>().ok()?.to_canonical() else { return None };
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
    Some(format!("{}/{prefix}", Ipv6Addr::from_bits(address.to_bits() & mask)))
}

/// Returns true if an address between two texts is a whole one, and not the beginning of a network.
fn is_apart(before: &str, after: &str) -> bool {
    let is_of_address = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.');
    let is_length = after.strip_prefix('/').is_some_and(|rest| {
        let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        behind.len() < rest.len() && !behind.starts_with(|c: char| c.is_alphanumeric() || c == '.')
    });
    !before.ends_with(is_of_address) && !after.starts_with(is_of_address) && !is_length
}

/// Returns a group in which the source's address, alone or among other texts, stands as its network.
fn group_of_network(group: Arc<str>, source: Option<&str>, prefix: u8) -> Arc<str> {
    if let Some(network) = ipv6_network(&group, prefix) {
        return Arc::from(network);
    }
    let Some((source, network)) = source.and_then(|text| Some((text, ipv6_network(text, prefix)?))) else {
        return group;
    };
    let found =
        group.match_indices(source).find(|(at, _)| is_apart(&group[..*at], &group[at + source.len()..]));
    match found {
        Some((at, _)) => Arc::from([&group[..at], network.as_str(), &group[at + source.len()..]].concat()),
        None => group,
    }
}

/// The environment that scenarios are run in.
pub(crate) struct PourContext<'c> {
    pub(crate) data: &'c CrowdsecDataFiles,
    pub(crate) memory: &'c mut ExprMemory,
    pub(crate) now: i64,
}

impl PourContext<'_> {
    fn evaluate(
        &mut self,
        expression: &CrowdsecExpression,
        record: &mut CrowdsecRecord,
        names: &[(&str, ExprValue)],
    ) -> Option<ExprValue> {
        let mut environment = ExprEnvironment {
            record: Some(record),
            names,
            data: self.data,
            memory: self.memory,
            now: self.now,
        };
        expression.evaluate(&mut environment).ok()
    }
}

impl CrowdsecBuckets {
    /// Makes empty buckets.
    pub fn new(scenarios: Vec<CrowdsecScenario>) -> CrowdsecBuckets {
        let mut known: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        let mut families = Vec::with_capacity(scenarios.len());
        for scenario in &scenarios {
            let key = (Arc::clone(&scenario.name), Arc::clone(&scenario.filter_text));
            let family = known.iter().position(|other| *other == key).unwrap_or_else(|| {
                known.push(key);
                known.len() - 1
            });
            families.push(family);
        }
        CrowdsecBuckets {
            buckets: known.iter().map(|_| HashMap::new()).collect(),
            hidden: scenarios.iter().map(|_| HashMap::new()).collect(),
            scenarios: scenarios.into_iter().map(Arc::new).collect(),
            families,
            poured: 0,
            without_source: 0,
            ipv6_prefix: None,
        }
    }

    /// Has addresses of IPv6 with so many common bits be one in groups: who holds a network could take another address each time.
    pub(crate) fn group_networks(&mut self, ipv6_prefix: u8) {
        self.ipv6_prefix = Some(ipv6_prefix).filter(|prefix| *prefix < 128);
    }

    /// The scenarios.
    pub fn scenarios(&self) -> impl Iterator<Item = &CrowdsecScenario> {
        self.scenarios.iter().map(AsRef::as_ref)
    }

    /// The scenario of a number, as it is known after a restart.
    fn kept_scenario(&self, index: usize) -> KeptScenario {
        let CrowdsecScenario { name, filter_text, .. } = self.scenarios[index].as_ref();
        let number = self.families[..index].iter().filter(|family| **family == self.families[index]).count();
        KeptScenario { name: name.to_string(), filter: filter_text.to_string(), number }
    }

    /// The number of a scenario that was known before a restart.
    fn found_scenario(&self, kept: &KeptScenario) -> Option<usize> {
        let same =
            self.scenarios.iter().enumerate().filter(|(_, scenario)| {
                *scenario.name == *kept.name && *scenario.filter_text == *kept.filter
            });
        same.map(|(index, _)| index).nth(kept.number)
    }

    /// The buckets as they are kept over a restart.
    pub(crate) fn kept(&self) -> KeptBuckets {
        let mut all: Vec<_> = self.buckets.iter().flatten().collect();
        all.sort_by(|(group, one), (other_group, other)| {
            other.last.cmp(&one.last).then_with(|| group.cmp(other_group))
        });
        let (mut kept, mut known, mut bytes) = (KeptBuckets::default(), HashMap::new(), 0);
        for (group, bucket) in all {
            let own = bucket.records.iter().filter(|record| record.overflow.is_none());
            let own: Vec<&Arc<CrowdsecRecord>> = own.collect();
            bytes += own.iter().map(|record| record.line.raw.len()).sum::<usize>();
            if kept.lines.len() + own.len() > KEPT_LINES_MAX || bytes > KEPT_BYTES_MAX {
                break;
            }
            let mut lines = Vec::with_capacity(own.len());
            for record in own {
                // Scenarios share what a line was read to.
                let at = known.entry((Arc::as_ptr(&record.line), record.time)).or_insert_with(|| {
                    let line = record.line.as_ref();
                    kept.lines.push(KeptLine {
                        raw: line.raw.to_string(),
                        source: line.source.to_string(),
                        module: line.module.to_string(),
                        labels: line
                            .labels
                            .iter()
                            .map(|(name, label)| (name.to_string(), label.to_string()))
                            .collect(),
                        time: record.time,
                        marshaled: record.marshaled_time.to_string(),
                    });
                    kept.lines.len() - 1
                });
                lines.push(*at);
            }
            let mut distinct: Vec<_> = bucket.distinct.iter().map(|text| text.to_string()).collect();
            distinct.sort_unstable();
            kept.buckets.push(KeptBucket {
                scenario: self.kept_scenario(bucket.scenario),
                group: group.to_string(),
                first: bucket.first,
                last: bucket.last,
                count: bucket.count,
                room: bucket.room,
                lines,
                distinct,
                guillotines: bucket.guillotines.clone(),
            });
        }
        for (index, hidden) in self.hidden.iter().enumerate() {
            let mut hidden: Vec<_> = hidden.iter().collect();
            hidden.sort_unstable();
            for (group, until) in hidden.into_iter().take(BUCKETS_MAX) {
                let scenario = self.kept_scenario(index);
                kept.hidden.push(KeptBlackhole { scenario, group: group.to_string(), until: *until });
            }
        }
        kept
    }

    /// Fills the buckets with what was kept. Of each kept line the record is passed in, if a parser still reads it.
    pub(crate) fn restore(&mut self, kept: KeptBuckets, records: &[Option<Arc<CrowdsecRecord>>]) {
        for bucket in kept.buckets {
            let Some(scenario) = self.found_scenario(&bucket.scenario) else { continue };
            let buckets = &mut self.buckets[self.families[scenario]];
            if buckets.len() >= BUCKETS_MAX || bucket.group.len() > GROUP_BYTES_MAX {
                continue;
            }
            let records = bucket.lines.iter().filter_map(|line| records.get(*line).cloned().flatten());
            let fresh = CrowdsecBucket {
                first: bucket.first,
                last: bucket.last,
                count: bucket.count,
                room: bucket.room.filter(|(room, _)| room.is_finite()),
                records: records.take(RECORDS_MAX).collect(),
                distinct: bucket.distinct.into_iter().take(DISTINCT_MAX).map(Arc::from).collect(),
                guillotines: bucket.guillotines,
                scenario,
            };
            buckets.insert(Arc::from(bucket.group), fresh);
        }
        for hidden in kept.hidden {
            if let Some(scenario) = self.found_scenario(&hidden.scenario) {
                self.hidden[scenario].insert(Arc::from(hidden.group), hidden.until);
            }
        }
    }

    /// Lets buckets go that are over at a time. Counters stay: their end is an overflow.
    fn sweep(&mut self, now: i64) {
        let scenarios = &self.scenarios;
        for buckets in &mut self.buckets {
            buckets.retain(|_, bucket| {
                let scenario = &scenarios[bucket.scenario];
                scenario.kind == ScenarioKind::Counter
                    || bucket.last.saturating_add(scenario.lifetime()) >= now
            });
        }
    }

    /// Pours a record, whose time is in nanoseconds since 1970, into the buckets of all scenarios that want it.
    pub(crate) fn pour(
        &mut self,
        record: &mut CrowdsecRecord,
        at: Option<i64>,
        context: &mut PourContext<'_>,
    ) -> Vec<CrowdsecOverflow> {
        let mut overflows = Vec::new();
        self.poured += 1;
        if self.poured.is_multiple_of(SWEEP)
            && let Some(at) = at
        {
            self.sweep(at);
        }
        for index in 0..self.scenarios.len() {
            let scenario = &self.scenarios[index];
            if !matches!(context.evaluate(&scenario.filter, record, &[]), Some(ExprValue::Bool(true))) {
                continue;
            }
            let group = match &scenario.group_by {
                None => Arc::default(),
                Some(group_by) => match context.evaluate(group_by, record, &[]) {
                    Some(ExprValue::Text(group)) if group.len() <= GROUP_BYTES_MAX => group,
                    _ => continue,
                },
            };
            let group = match self.ipv6_prefix {
                Some(prefix) => group_of_network(group, record.meta("source_ip"), prefix),
                None => group,
            };
            let kept = Arc::new(record.clone());
            let pour = ScenarioPour {
                scenarios: &self.scenarios,
                index,
                buckets: &mut self.buckets[self.families[index]],
                hidden: &mut self.hidden,
                group,
                record: &kept,
                context,
            };
            if let Some(bucket) = pour.run(at) {
                match overflow(&self.scenarios[bucket.scenario], &bucket, context) {
                    Some(overflow) => overflows.push(overflow),
                    None => self.without_source += 1,
                }
            }
        }
        overflows
    }
}

/// One record on its way into one bucket.
struct ScenarioPour<'p, 'c> {
    scenarios: &'p [Arc<CrowdsecScenario>],
    /// The number of the scenario that wants the record.
    index: usize,
    buckets: &'p mut HashMap<Arc<str>, CrowdsecBucket>,
    hidden: &'p mut [HashMap<Arc<str>, i64>],
    group: Arc<str>,
    record: &'p Arc<CrowdsecRecord>,
    context: &'p mut PourContext<'c>,
}

impl<'p> ScenarioPour<'p, '_> {
    /// The scenario of a bucket: the one that made it.
    fn scenario(&self, bucket: &CrowdsecBucket) -> &'p CrowdsecScenario {
        &self.scenarios[bucket.scenario]
    }

    /// Pours the record. Returns the bucket if it overflows.
    fn run(mut self, at: Option<i64>) -> Option<CrowdsecBucket> {
        let fresh = CrowdsecBucket { scenario: self.index, ..CrowdsecBucket::default() };
        if self.scenarios[self.index].kind == ScenarioKind::Trigger {
            let at = at.unwrap_or(self.context.now);
            let records = VecDeque::from([Arc::clone(self.record)]);
            return self.finish(CrowdsecBucket { first: Some(at), last: at, count: 1, records, ..fresh });
        }
        let mut bucket = self.buckets.remove(&self.group).unwrap_or_else(|| fresh.clone());
        let mut timed = None;
        if let (Some(first), Some(at)) = (bucket.first, at) {
            let scenario = self.scenario(&bucket);
            let is_counter = scenario.kind == ScenarioKind::Counter;
            let start = if is_counter { first } else { bucket.last };
            if at > start.saturating_add(scenario.lifetime()) {
                let over = std::mem::replace(&mut bucket, fresh);
                if is_counter {
                    timed = self.finish(over);
                }
            }
        }
        let scenario = self.scenario(&bucket);
        if let Some(distinct) = &scenario.distinct {
            let mut record = CrowdsecRecord::clone(self.record);
            let text = match self.context.evaluate(distinct, &mut record, &[]) {
                Some(ExprValue::Text(text)) => Some(text),
                _ => None,
            };
            match text.filter(|text| bucket.distinct.len() < DISTINCT_MAX && !bucket.distinct.contains(text))
            {
                Some(text) => bucket.distinct.insert(text),
                None => {
                    self.put_back(bucket);
                    return timed;
                }
            };
        }
        if let Some(cancel_on) = &scenario.cancel_on {
            let mut record = CrowdsecRecord::clone(self.record);
            if matches!(self.context.evaluate(cancel_on, &mut record, &[]), Some(ExprValue::Bool(true))) {
                return timed;
            }
        }
        let Some(at) = at else {
            self.put_back(bucket);
            return timed;
        };
        bucket.count += 1;
        bucket.first.get_or_insert(at);
        bucket.last = at;
        let is_full = !bucket.has_room(at, scenario) && scenario.kind != ScenarioKind::Conditional;
        bucket.keep(self.record, scenario);
        if is_full || self.is_over(&mut bucket) {
            return self.finish(bucket);
        }
        self.put_back(bucket);
        timed
    }

    fn put_back(&mut self, bucket: CrowdsecBucket) {
        let scenario = self.scenario(&bucket);
        let buckets = &mut *self.buckets;
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(&self.group) {
            let (lifetime, now) = (scenario.lifetime(), bucket.last);
            buckets.retain(|_, bucket| bucket.last.saturating_add(lifetime) >= now);
            if buckets.len() >= BUCKETS_MAX {
                let oldest =
                    buckets.iter().min_by_key(|(_, bucket)| bucket.last).map(|(group, _)| Arc::clone(group));
                oldest.map(|oldest| buckets.remove(&oldest));
            }
        }
        buckets.insert(Arc::clone(&self.group), bucket);
    }

    fn names(&self, bucket: &CrowdsecBucket) -> [(&'static str, ExprValue); 2] {
        let records: Vec<_> = bucket.records.iter().cloned().collect();
        let state = BucketState {
            count: bucket.count,
            first: bucket.first.unwrap_or_default(),
            last: bucket.last,
            records: records.clone(),
        };
        [
            ("queue", ExprValue::Object(Arc::new(BucketQueue(records)))),
            ("leaky", ExprValue::Object(Arc::new(state))),
        ]
    }

    /// Returns true if a condition lets the bucket overflow.
    fn is_over(&mut self, bucket: &mut CrowdsecBucket) -> bool {
        let scenario = self.scenario(bucket);
        let mut record = CrowdsecRecord::clone(self.record);
        if let Some(condition) = &scenario.condition {
            let names = self.names(bucket);
            if matches!(self.context.evaluate(condition, &mut record, &names), Some(ExprValue::Bool(true))) {
                return true;
            }
        }
        if scenario.kind != ScenarioKind::Bayesian {
            return false;
        }
        let names = self.names(bucket);
        bucket.guillotines.resize(scenario.bayesian.len(), false);
        let mut probability = scenario.prior;
        for (condition, has_fallen) in scenario.bayesian.iter().zip(&mut bucket.guillotines) {
            let is_true = if condition.is_guillotine && *has_fallen {
                true
            } else {
                match self.context.evaluate(&condition.condition, &mut record, &names) {
                    Some(ExprValue::Bool(truth)) => truth,
                    _ => continue,
                }
            };
            *has_fallen |= is_true;
            let (evil, benign) = match is_true {
                true => (condition.given_evil, condition.given_benign),
                false => (1.0 - condition.given_evil, 1.0 - condition.given_benign),
            };
            let evil = evil * probability;
            let all = evil + benign * (1.0 - probability);
            probability = if all > 0.0 { evil / all } else { probability };
        }
        probability > scenario.threshold
    }

    /// Lets a bucket overflow, unless a filter or an overflow before it hides this one.
    fn finish(&mut self, bucket: CrowdsecBucket) -> Option<CrowdsecBucket> {
        let scenario = self.scenario(&bucket);
        if let Some(filter) = &scenario.overflow_filter {
            let names = self.names(&bucket);
            let mut record = CrowdsecRecord::clone(self.record);
            if matches!(self.context.evaluate(filter, &mut record, &names), Some(ExprValue::Bool(false))) {
                return None;
            }
        }
        if scenario.blackhole > 0 {
            let hidden = &mut self.hidden[bucket.scenario];
            if hidden.get(&self.group).is_some_and(|until| *until > bucket.last) {
                return None;
            }
            if hidden.len() >= BUCKETS_MAX {
                hidden.retain(|_, until| *until > bucket.last);
            }
            if hidden.len() < BUCKETS_MAX {
                hidden.insert(Arc::clone(&self.group), bucket.last.saturating_add(scenario.blackhole));
            }
        }
        Some(bucket)
    }
}

/// Makes the overflow of a bucket; none if a record does not tell its source.
fn overflow(
    scenario: &CrowdsecScenario,
    bucket: &CrowdsecBucket,
    context: &mut PourContext<'_>,
) -> Option<CrowdsecOverflow> {
    let mut sources = BTreeMap::new();
    for record in &bucket.records {
        sources.extend(record_sources(scenario, record, context)?);
    }
    Some(CrowdsecOverflow {
        scenario: Arc::clone(&scenario.name),
        sources,
        records: bucket.records.iter().cloned().collect(),
        count: bucket.count,
        remediation: scenario.remediation,
        reprocess: scenario.reprocess,
        first: bucket.first.unwrap_or(bucket.last),
        last: bucket.last,
        changed_source: None,
        is_whitelisted: false,
    })
}

fn record_sources(
    scenario: &CrowdsecScenario,
    record: &CrowdsecRecord,
    context: &mut PourContext<'_>,
) -> Option<BTreeMap<Arc<str>, Arc<OverflowSource>>> {
    let mut sources = BTreeMap::new();
    let mut by_expression = |record: &CrowdsecRecord| {
        let expression = scenario.scope_expression.as_ref()?;
        match context.evaluate(expression, &mut record.clone(), &[])? {
            ExprValue::Text(text) => Some(text),
            _ => Some(Arc::default()),
        }
    };
    if let Some(inner) = &record.overflow {
        for (name, source) in &inner.sources {
            if source.scope == scenario.scope {
                sources.insert(Arc::clone(name), Arc::clone(source));
            } else if scenario.scope.as_ref() == "Range" && source.scope.as_ref() == "Ip" {
                let value = match scenario.scope_expression {
                    Some(_) => by_expression(record)?,
                    None => Arc::clone(&source.range),
                };
                if !value.is_empty() {
                    let source = OverflowSource {
                        scope: Arc::clone(&scenario.scope),
                        value: Arc::clone(&value),
                        ip: Arc::default(),
                        ..OverflowSource::clone(source)
                    };
                    sources.insert(value, Arc::new(source));
                }
            }
        }
        return Some(sources);
    }
    let mut source = OverflowSource { scope: Arc::clone(&scenario.scope), ..OverflowSource::default() };
    if matches!(scenario.scope.as_ref(), "Ip" | "Range") {
        let ip = record.meta.get("source_ip")?;
        ip.parse::<IpAddr>().ok()?;
        source.ip = Arc::clone(ip);
        let enriched = |names: [&str; 2]| {
            let found = names.iter().find_map(|name| record.enriched.get(*name));
            found.map(Arc::clone).unwrap_or_default()
        };
        source.as_number = enriched(["ASNumber", "ASNNumber"]);
        source.as_name = enriched(["ASNOrg", "ASNOrg"]);
        source.country = enriched(["IsoCode", "IsoCode"]);
        source.range = record.meta.get("SourceRange").map(Arc::clone).unwrap_or_default();
        source.value = match scenario.scope.as_ref() {
            "Ip" => Arc::clone(ip),
            _ if scenario.scope_expression.is_some() => by_expression(record)?,
            _ => Arc::clone(&source.range),
        };
    } else {
        source.value = by_expression(record)?;
    }
    sources.insert(Arc::clone(&source.value), Arc::new(source));
    Some(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_network_are_one_group() {
        let check = |group: &str, source: &str, expected: &str| {
            let found = group_of_network(Arc::from(group), Some(source), 64);
            assert_eq!(&*found, expected, "{group}");
        };
        let (one, net) = ("2001:db8:0:7::1", "2001:db8:0:7::/64");
        check(one, one, net);
        check("2001:DB8:0:7::2", "", net);
        check(&format!("{one}/shop.example"), one, &format!("{net}/shop.example"));
        check(&format!("{one}/shop.example"), "", &format!("{one}/shop.example"));
        check(&format!("{one}/24.example"), one, &format!("{net}/24.example"));
        check(&format!("{one}--root"), one, &format!("{net}--root"));
        check(&format!("root@{one}"), one, &format!("root@{net}"));
        // Another address that has this one's text in it, and a network.
        check(&format!("{one}2--root"), one, &format!("{one}2--root"));
        check(&format!("{one}/48"), one, &format!("{one}/48"));
        for plain in ["192.0.2.7", "::ffff:192.0.2.7", "root", ""] {
            check(plain, plain, plain);
        }
    }
}

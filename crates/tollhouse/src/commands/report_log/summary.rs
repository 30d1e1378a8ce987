//! The summary of a log, in bounded memory, however long the log is.
//!
//! Of each sort of thing (addresses, paths, ...) some thousands are counted. Beyond that those with the smallest counts are let go of;
//! what comes again begins at one. So a count may be too low by as much as was let go of, and the summary says so: what leads a
//! list by more than that is right.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use content::network::{PrefixLengths, network};
use event::{Event, Time, Value};
use serde::Serialize;

/// Things of a sort that are kept once there are too many.
const KEPT: usize = 5_000;
/// Things of a sort at which the smallest are let go of.
const KEPT_MAX: usize = 2 * KEPT;
/// Longest text that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 256;
/// Most rules that are kept of an address.
const RULES_MAX: usize = 16;
/// Intervals of time at which they are made twice as long.
const INTERVALS_MAX: usize = 1024;
/// First length of an interval, in seconds.
const INTERVAL: i64 = 60;

/// A request as it stands in a log, or what the log of a program says of somebody.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoggedRequest {
    pub(crate) time: Option<Time>,
    address: Option<IpAddr>,
    account: String,
    /// True if it has what requests have.
    is_request: bool,
    method: String,
    path: String,
    agent: String,
    status: i64,
    bytes: u64,
}

impl LoggedRequest {
    /// Takes what is counted out of an event, whose address is in a field.
    pub(crate) fn of(event: &Event, address: Option<&str>) -> LoggedRequest {
        let text = |name: &str| match event.get(name) {
            Some(Value::String(text)) => cut(text).to_owned(),
            _ => String::new(),
        };
        let number = |name: &str| match event.get(name) {
            Some(Value::Integer(number)) => *number,
            _ => 0,
        };
        let address = match address.and_then(|name| event.get(name)) {
            Some(Value::Ip(address)) => Some(*address),
            _ => None,
        };
        let (of_log, of_request) = (text("log.user"), text("http.user"));
        LoggedRequest {
            time: event.time,
            address,
            account: if of_log.is_empty() { of_request } else { of_log },
            is_request: event.fields.iter().any(|(name, _)| name.starts_with("http.")),
            method: text("http.method"),
            path: text("http.path"),
            agent: text("http.agent"),
            status: number("http.status"),
            bytes: number("http.bytes").unsigned_abs(),
        }
    }
}

/// The beginning of a text.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// The counts of one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RequestCounts {
    pub(crate) requests: u64,
    /// Requests answered with a status of 400 or above.
    pub(crate) failed: u64,
    /// Requests on which the decision was not `accept`.
    pub(crate) flagged: u64,
    pub(crate) bytes: u64,
}

impl RequestCounts {
    fn add(&mut self, other: &RequestCounts) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.flagged += other.flagged;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// The counts of things of one sort.
#[derive(Debug, Default)]
pub(crate) struct TopCounter {
    counts: HashMap<Box<str>, RequestCounts>,
    /// The most that a count may be too low by.
    pub(crate) missed: u64,
}

impl TopCounter {
    fn add(&mut self, name: &str, counts: &RequestCounts) {
        if let Some(known) = self.counts.get_mut(name) {
            known.add(counts);
            return;
        }
        if self.counts.len() >= KEPT_MAX {
            let mut all: Vec<u64> = self.counts.values().map(|counts| counts.requests).collect();
            let (_, line, _) = all.select_nth_unstable(KEPT_MAX - KEPT);
            let line = *line;
            // Of as many as there are on the line itself none stays, or memory would not be bounded.
            self.counts.retain(|_, counts| counts.requests > line);
            self.missed += line;
        }
        self.counts.insert(name.into(), counts.clone());
    }

    /// The things with the most of something, the first first.
    pub(crate) fn top(&self, most: usize, by: impl Fn(&RequestCounts) -> u64) -> Vec<TopEntry> {
        let mut all: Vec<_> = self.counts.iter().filter(|(_, counts)| by(counts) > 0).collect();
        all.sort_by(|(a, x), (b, y)| by(y).cmp(&by(x)).then_with(|| a.cmp(b)));
        let all = all.into_iter().take(most);
        all.map(|(name, counts)| TopEntry { name: name.to_string(), counts: counts.clone() }).collect()
    }
}

/// A thing of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TopEntry {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) counts: RequestCounts,
}

/// An address that was flagged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FlaggedSource {
    pub(crate) address: String,
    /// Events that were flagged.
    pub(crate) events: u64,
    /// The rules that fired, with their counts.
    pub(crate) rules: BTreeMap<String, u64>,
    /// The actions, with their counts.
    pub(crate) actions: BTreeMap<String, u64>,
    pub(crate) first: String,
    pub(crate) last: String,
}

#[derive(Debug, Default)]
struct SourceRecord {
    events: u64,
    rules: BTreeMap<String, u64>,
    actions: BTreeMap<String, u64>,
    span: Option<(Time, Time)>,
}

/// The sources of flagged events, by address.
#[derive(Debug, Default)]
pub(crate) struct FlaggedSources {
    sources: HashMap<Box<str>, SourceRecord>,
    pub(crate) missed: u64,
}

impl FlaggedSources {
    /// Counts a flagged event.
    pub(crate) fn add<'r>(
        &mut self,
        source: &str,
        action: &str,
        rules: impl Iterator<Item = &'r str>,
        time: Option<Time>,
    ) {
        if self.sources.len() >= KEPT_MAX && !self.sources.contains_key(source) {
            let mut all: Vec<u64> = self.sources.values().map(|source| source.events).collect();
            let (_, line, _) = all.select_nth_unstable(KEPT_MAX - KEPT);
            let line = *line;
            self.sources.retain(|_, source| source.events > line);
            self.missed += line;
        }
        let record = self.sources.entry(cut(source).into()).or_default();
        record.events += 1;
        *record.actions.entry(action.to_owned()).or_default() += 1;
        for rule in rules {
            if record.rules.len() < RULES_MAX || record.rules.contains_key(rule) {
                *record.rules.entry(rule.to_owned()).or_default() += 1;
            }
        }
        if let Some(time) = time {
            record.span = Some(record.span.map_or((time, time), |(a, b)| (a.min(time), b.max(time))));
        }
    }

    /// The number of sources that are kept.
    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }

    /// The sources with the most flagged events, the first first.
    pub(crate) fn top(&self, most: usize) -> Vec<FlaggedSource> {
        let mut all: Vec<_> = self.sources.iter().collect();
        all.sort_by(|(a, x), (b, y)| y.events.cmp(&x.events).then_with(|| a.cmp(b)));
        let text = |time: Option<Time>| time.map(|time| time.to_string()).unwrap_or_default();
        let all = all.into_iter().take(most);
        all.map(|(address, record)| FlaggedSource {
            address: address.to_string(),
            events: record.events,
            rules: record.rules.clone(),
            actions: record.actions.clone(),
            first: text(record.span.map(|(first, _)| first)),
            last: text(record.span.map(|(_, last)| last)),
        })
        .collect()
    }
}

/// Requests over time: intervals grow twice as long when there are too many.
#[derive(Debug)]
pub(crate) struct RequestTimeline {
    pub(crate) seconds: i64,
    pub(crate) intervals: BTreeMap<i64, RequestCounts>,
}

impl Default for RequestTimeline {
    fn default() -> RequestTimeline {
        RequestTimeline { seconds: INTERVAL, intervals: BTreeMap::new() }
    }
}

impl RequestTimeline {
    fn add(&mut self, time: Time, counts: &RequestCounts) {
        let at = time.seconds().div_euclid(self.seconds);
        self.intervals.entry(at).or_default().add(counts);
        while self.intervals.len() > INTERVALS_MAX {
            self.double();
        }
    }

    fn double(&mut self) {
        self.seconds = self.seconds.saturating_mul(2);
        for (at, counts) in std::mem::take(&mut self.intervals) {
            self.intervals.entry(at.div_euclid(2)).or_default().add(&counts);
        }
    }

    /// Returns equal intervals without gaps from the first to the last, so many at most, each with its start.
    pub(crate) fn bars(&self, most: i64) -> Vec<(Time, RequestCounts)> {
        let (Some((first, _)), Some((last, _))) =
            (self.intervals.first_key_value(), self.intervals.last_key_value())
        else {
            return Vec::new();
        };
        let length = (last.saturating_sub(*first)).div_euclid(most.max(1)).saturating_add(1);
        let mut bars: Vec<(Time, RequestCounts)> = Vec::new();
        let mut start = first.div_euclid(length).saturating_mul(length);
        while start <= *last {
            let end = start.saturating_add(length);
            let mut counts = RequestCounts::default();
            self.intervals.range(start..end).for_each(|(_, part)| counts.add(part));
            bars.push((Time::from_seconds(start.saturating_mul(self.seconds)), counts));
            if end == start {
                break;
            }
            start = end;
        }
        bars
    }
}

/// The summary of a log.
#[derive(Debug, Default)]
pub(crate) struct LogSummary {
    /// The name of the things that are counted: requests, or events of a program's log.
    pub(crate) unit: &'static str,
    pub(crate) all: RequestCounts,
    /// Lines that are none of these.
    pub(crate) bad: u64,
    /// Lines that no pattern reads.
    pub(crate) unread: u64,
    pub(crate) span: Option<(Time, Time)>,
    pub(crate) addresses: TopCounter,
    pub(crate) networks: TopCounter,
    pub(crate) accounts: TopCounter,
    pub(crate) paths: TopCounter,
    pub(crate) failing: TopCounter,
    pub(crate) agents: TopCounter,
    pub(crate) methods: TopCounter,
    pub(crate) statuses: TopCounter,
    pub(crate) rules: TopCounter,
    pub(crate) sources: FlaggedSources,
    pub(crate) timeline: RequestTimeline,
}

impl LogSummary {
    /// The summary of nothing yet, in which things have this name.
    pub(crate) fn new(unit: &'static str) -> LogSummary {
        LogSummary { unit, ..LogSummary::default() }
    }

    /// Counts a request, the action that was decided on, and the rules that fired.
    pub(crate) fn add<'r>(
        &mut self,
        request: &LoggedRequest,
        flagged: Option<&str>,
        rules: impl Iterator<Item = &'r str> + Clone,
    ) {
        let counts = RequestCounts {
            requests: 1,
            failed: u64::from(request.status >= 400),
            flagged: u64::from(flagged.is_some()),
            bytes: request.bytes,
        };
        self.all.add(&counts);
        let address = request.address.map(|address| address.to_string());
        if let (Some(text), Some(address)) = (&address, request.address) {
            self.addresses.add(text, &counts);
            self.networks.add(&network(address, PrefixLengths::default()), &counts);
        }
        if !request.account.is_empty() {
            self.accounts.add(&request.account, &counts);
        }
        if request.is_request {
            self.add_request(request, &counts);
        }
        if let Some(action) = flagged {
            rules.clone().for_each(|rule| self.rules.add(rule, &counts));
            self.sources.add(address.as_deref().unwrap_or("-"), action, rules, request.time);
        }
        if let Some(time) = request.time {
            self.span = Some(self.span.map_or((time, time), |(a, b)| (a.min(time), b.max(time))));
            self.timeline.add(time, &counts);
        }
    }

    fn add_request(&mut self, request: &LoggedRequest, counts: &RequestCounts) {
        let or_none = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        self.paths.add(&or_none(&request.path), counts);
        if counts.failed > 0 {
            self.failing.add(&format!("{} {}", request.status, or_none(&request.path)), counts);
        }
        self.agents.add(&or_none(&request.agent), counts);
        self.methods.add(&or_none(&request.method), counts);
        self.statuses.add(&request.status.to_string(), counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_what_leads_stays() {
        let mut counter = TopCounter::default();
        let one = RequestCounts { requests: 1, ..RequestCounts::default() };
        for number in 0..100_000 {
            counter.add(&format!("/{number}"), &one);
            counter.add(if number % 2 == 0 { "/often" } else { "/too" }, &one);
            assert!(counter.counts.len() <= KEPT_MAX);
        }
        let top = counter.top(2, |counts| counts.requests);
        assert_eq!([&*top[0].name, &*top[1].name], ["/often", "/too"]);
        assert!(top[0].counts.requests + counter.missed >= 50_000 && top[0].counts.requests <= 50_000);
        assert!(counter.missed > 0 && counter.missed < 100, "{}", counter.missed);
    }

    #[test]
    fn intervals_grow_with_the_log() {
        let mut timeline = RequestTimeline::default();
        let one = RequestCounts { requests: 1, ..RequestCounts::default() };
        for minute in 0..100_000 {
            timeline.add(Time::from_seconds(1_779_012_000 + 60 * minute), &one);
        }
        assert!(timeline.intervals.len() <= INTERVALS_MAX);
        let bars = timeline.bars(60);
        assert!(bars.len() <= 61 && bars.len() > 30, "{}", bars.len());
        assert_eq!(bars.iter().map(|(_, counts)| counts.requests).sum::<u64>(), 100_000);
        // A line that is dated to the end of time costs no memory and no time.
        timeline.add(Time(i64::MAX), &one);
        timeline.add(Time(i64::MIN), &one);
        assert!(timeline.bars(60).len() <= 62);
        assert_eq!(RequestTimeline::default().bars(60), []);
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let long = "ä".repeat(TEXT_BYTES_MAX);
        assert_eq!(cut(&long).len(), TEXT_BYTES_MAX);
        assert_eq!(cut(&format!("a{long}")).len(), TEXT_BYTES_MAX - 1);
    }
}

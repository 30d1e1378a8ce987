//! Statistics of keys in JSON.

use std::collections::BTreeMap;

use event::Span;
use plan::Pipeline;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::explanation::values;
use super::{Length, ReputationJson, Timestamp};

/// All that is kept of one key. A key that was never seen, or is forgotten, has no times and no tiers; neither has one
/// that is not admitted yet, whose quality is `estimated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Timeline)]
pub struct TimelineJson {
    /// The pipeline.
    pub pipeline: String,
    /// The kind, or the distinct count.
    pub kind: String,
    /// The piece that was asked for, as it is hashed.
    pub piece: String,
    /// Its hash.
    pub shingle: String,
    /// `exact`; `lagging`, if it may lack what other nodes of a cluster added within `[cluster] stale`; `estimated` or
    /// `missing`.
    #[serde(default = "exact")]
    pub quality: String,
    /// The time of the first count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Timestamp>,
    /// The time of the latest count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// The values that an aggregate knows of it: `count`, `sum`, `min`, `max` and, by half-life, `decayed_1h`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, serde_json::Value>,
    /// The reputations of the key, without those of what belongs to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reputations: Vec<ReputationJson>,
    /// The counters, in the order of the configuration.
    pub counters: Vec<String>,
    /// The counts in the trailing windows that rules read, up to now.
    pub windows: Vec<WindowJson>,
    /// Its buckets by width, the coarse ones first. No count is in two.
    pub tiers: Vec<TierJson>,
}

fn exact() -> String {
    stats::Quality::Exact.to_string()
}

/// The counts in a trailing window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Window)]
pub struct WindowJson {
    /// The length of the window.
    pub window: Length,
    /// Counts that are not zero, by counter.
    pub counts: BTreeMap<String, u64>,
}

/// The buckets of one width.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Tier)]
pub struct TierJson {
    /// The length of each bucket.
    pub width: Length,
    /// The buckets that are not empty, oldest first.
    pub buckets: Vec<BucketJson>,
}

/// The counts in a stretch of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Bucket)]
pub struct BucketJson {
    /// The start of the bucket.
    pub start: Timestamp,
    /// Counts that are not zero, by counter.
    pub counts: BTreeMap<String, u64>,
}

impl TimelineJson {
    /// Gives the engine's answer its form.
    pub fn new(pipeline: &str, kind: &str, known: &engine::KeyTimeline) -> TimelineJson {
        let named = |counts: &[u64]| named(&known.counters, counts);
        let mut tiers: Vec<TierJson> = Vec::new();
        for bucket in known.timeline.iter().flat_map(|timeline| &timeline.buckets) {
            let entry = BucketJson { start: Timestamp(bucket.start), counts: named(&bucket.counts) };
            match tiers.iter_mut().find(|tier| tier.width.0 == bucket.width) {
                Some(tier) => tier.buckets.push(entry),
                None => tiers.push(TierJson { width: Length(bucket.width), buckets: vec![entry] }),
            }
        }
        TimelineJson {
            pipeline: pipeline.to_owned(),
            kind: kind.to_owned(),
            piece: known.piece.clone(),
            shingle: known.shingle.to_string(),
            quality: known.quality.to_string(),
            values: values(&known.values),
            reputations: known.reputations.iter().map(ReputationJson::from).collect(),
            first: known.timeline.as_ref().map(|timeline| Timestamp(timeline.first)),
            last: known.timeline.as_ref().map(|timeline| Timestamp(timeline.last)),
            counters: known.counters.clone(),
            windows: windows(&known.counters, &known.windows),
            tiers,
        }
    }
}

/// The keys that are asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReadingsRequest)]
pub struct ReadingsRequest {
    /// The pipeline; the first of the configuration if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// The keys, at most 1000.
    pub keys: Vec<KeyNameJson>,
}

/// A key that is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = KeyName)]
pub struct KeyNameJson {
    /// The kind, or the distinct count.
    pub kind: String,
    /// The value, as it stands in events; of a key of several fields the JSON array of theirs, as a text.
    pub value: String,
}

/// The counts of many keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Readings)]
pub struct ReadingsJson {
    /// The pipeline.
    pub pipeline: String,
    /// The keys, in the order in which they were asked for.
    pub keys: Vec<KeyStatisticsJson>,
}

/// The keys that a value has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = KnownKeys)]
pub struct KnownKeysJson {
    /// The value that was asked for.
    pub value: String,
    /// Its keys of which something is counted, by pipeline.
    pub pipelines: Vec<ReadingsJson>,
}

/// The counts of a key. One that was never seen, or is forgotten, has no times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = KeyStatistics)]
pub struct KeyStatisticsJson {
    /// The kind, or the distinct count.
    pub kind: String,
    /// The piece that was asked for, as it is hashed.
    pub piece: String,
    /// Its hash.
    pub shingle: String,
    /// `exact`; `lagging`, if it may lack what other nodes of a cluster added within `[cluster] stale`; `estimated` or
    /// `missing`.
    pub quality: String,
    /// The time of its first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Timestamp>,
    /// The time of its newest event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// The values that an aggregate knows of it: `count`, `sum`, `min`, `max` and, by half-life, `decayed_1h`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, serde_json::Value>,
    /// The counts in the trailing windows that rules read, up to now.
    pub windows: Vec<WindowJson>,
}

impl KeyStatisticsJson {
    /// Gives the engine's answer its form.
    pub fn new(kind: &str, known: &engine::KeyStatistics) -> KeyStatisticsJson {
        KeyStatisticsJson {
            kind: kind.to_owned(),
            piece: known.piece.clone(),
            shingle: known.shingle.to_string(),
            quality: known.quality.to_string(),
            first: known.first.map(Timestamp),
            last: known.last.map(Timestamp),
            values: values(&known.values),
            windows: windows(&known.counters, &known.windows),
        }
    }
}

/// Counts that are not zero, by counter.
fn named(counters: &[String], counts: &[u64]) -> BTreeMap<String, u64> {
    let counts = counters.iter().zip(counts).filter(|(_, count)| **count > 0);
    counts.map(|(counter, count)| (counter.clone(), *count)).collect()
}

/// Trailing windows with their counts by name.
fn windows(counters: &[String], windows: &[(Span, Vec<u64>)]) -> Vec<WindowJson> {
    let window = |(window, sums): &(Span, Vec<u64>)| WindowJson {
        window: Length(*window),
        counts: named(counters, sums),
    };
    windows.iter().map(window).collect()
}

/// The keys of a kind that are hottest now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = TopKeys)]
pub struct TopKeysJson {
    /// The pipeline.
    pub pipeline: String,
    /// The kind.
    pub kind: String,
    /// The counter that is read.
    pub counter: String,
    /// Over which trailing window.
    pub window: Length,
    /// The keys, the hottest first.
    pub keys: Vec<HotKeyJson>,
}

/// A hot key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = HotKey)]
pub struct HotKeyJson {
    /// Its piece, if a recent decision shows it: statistics keep hashes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piece: Option<String>,
    /// Its hash.
    pub shingle: String,
    /// Its count.
    pub count: u64,
}

impl HotKeyJson {
    /// Returns it without the piece for a reader who may not read what events say.
    pub(crate) fn of_reader(mut self, may_read_content: bool) -> HotKeyJson {
        self.piece = self.piece.filter(|_| may_read_content);
        self
    }
}

impl From<&engine::HotKey> for HotKeyJson {
    fn from(hot: &engine::HotKey) -> HotKeyJson {
        HotKeyJson { piece: hot.piece.clone(), shingle: hot.shingle.to_string(), count: hot.count }
    }
}

/// The keys that share decisions with a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RelatedKeys)]
pub struct RelatedKeysJson {
    /// The pipeline.
    pub pipeline: String,
    /// The kind.
    pub kind: String,
    /// The piece that was asked for, as it is hashed.
    pub piece: String,
    /// Decisions on it that were looked at, the latest.
    pub decisions: u64,
    /// True if older ones were not looked at. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The others, by kind, those first with which it shares most; ten of a kind at most. Of each node the hundred of a kind
    /// that share most are added.
    pub keys: Vec<RelatedKeyJson>,
    /// The nodes whose decisions are missing, as they do not answer: `3 (mail-3)`. Absent where all do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
}

/// A key that shares decisions with another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RelatedKey)]
pub struct RelatedKeyJson {
    /// Its kind.
    pub kind: String,
    /// Its piece.
    pub piece: String,
    /// Decisions that both are in.
    pub decisions: u64,
    /// The number of them that were last judged good.
    pub good: u64,
    /// The number of them that were last judged bad.
    pub bad: u64,
    /// The time of the oldest of them.
    pub first: Timestamp,
    /// The time of the latest of them.
    pub last: Timestamp,
}

impl RelatedKeysJson {
    /// Describes the keys that share decisions with one of this kind.
    pub fn new(pipeline: &str, kind: &str, related: &engine::RelatedKeys) -> RelatedKeysJson {
        let keys = related.keys.iter().map(|key| RelatedKeyJson {
            kind: key.kind.clone(),
            piece: key.piece.clone(),
            decisions: key.decisions,
            good: key.good,
            bad: key.bad,
            first: Timestamp(key.first),
            last: Timestamp(key.last),
        });
        RelatedKeysJson {
            pipeline: pipeline.to_owned(),
            kind: kind.to_owned(),
            piece: related.piece.clone(),
            decisions: related.decisions,
            partial: related.is_partial,
            keys: keys.collect(),
            absent: Vec::new(),
        }
    }

    /// Returns it with the keys that are shown, in their order.
    #[must_use]
    pub fn shown(mut self, pipeline: &Pipeline) -> RelatedKeysJson {
        /// Keys of one kind that are shown.
        const PER_KIND: usize = 10;
        let place = |kind: &str| pipeline.kinds.iter().position(|plan| plan.name == kind);
        self.keys.sort_by(|one, other| {
            let by_kind = place(&one.kind).cmp(&place(&other.kind)).then_with(|| one.kind.cmp(&other.kind));
            let by_decisions = by_kind.then(other.decisions.cmp(&one.decisions));
            by_decisions.then(other.last.0.cmp(&one.last.0)).then_with(|| one.piece.cmp(&other.piece))
        });
        let (mut kind, mut count) = (String::new(), 0);
        self.keys.retain(|key| {
            if key.kind != kind {
                kind.clone_from(&key.kind);
                count = 0;
            }
            count += 1;
            count <= PER_KIND
        });
        self
    }
}

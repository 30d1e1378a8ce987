//! What a decision was made of, with names instead of numbers and slots.

use std::collections::HashMap;

use event::{Facts, Kind, Schema, Secret, Shingle, Span, Time, Value};
use judge::Verdict;
use stats::{Quality, Reading};

use crate::id::RecordId;
use crate::journal::{Description, KeyReading, Row};
use crate::stage::observe::Observed;
use crate::track;

/// A decision, or an event that was only counted, laid open.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The decision; `None` for an event that was not judged.
    pub id: Option<RecordId>,
    /// The pipeline.
    pub pipeline: String,
    /// Its version.
    pub version: String,
    /// The caller's name for the event.
    pub event_id: Option<String>,
    /// When it happened.
    pub time: Time,
    /// When it arrived.
    pub arrival: Time,
    /// An event of this id had been counted before.
    pub duplicate: bool,
    /// Every fact that has a value, readings included, in the order in which the stages fill them.
    pub facts: Vec<(String, Value)>,
    /// The keys with what was known of them before the event.
    pub keys: Vec<ExplainedKey>,
    /// What was decided; `None` for an event that was not judged.
    pub verdict: Option<Verdict>,
    /// The description of each rule that the verdict names.
    pub descriptions: HashMap<String, String>,
}

/// A key and its reading.
#[derive(Clone, Debug)]
pub struct ExplainedKey {
    /// The kind, or the distinct count.
    pub kind: String,
    /// The hashed piece, unless its fact is not journalled.
    pub piece: Option<String>,
    /// Its hash.
    pub shingle: Shingle,
    /// Whether the reading can be relied on.
    pub quality: Quality,
    /// First and last time anything was counted.
    pub first: Option<Time>,
    /// See `first`.
    pub last: Option<Time>,
    /// Counts that are not zero: counter, window, count.
    pub counts: Vec<(String, Span, u64)>,
    /// What a track knows of it beside first and last time: `count`, `sum`, `min`, `max`, `decayed_1h`.
    pub values: Vec<(String, Value)>,
}

impl Explanation {
    pub(crate) fn of_row(id: RecordId, row: Row, description: &Description, secret: &Secret) -> Explanation {
        let names: HashMap<&str, &str> =
            description.rules.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let reasons = row.verdict.reasons.iter().chain(&row.verdict.shadow);
        let descriptions = reasons
            .filter_map(|reason| Some((reason.rule.clone(), (*names.get(reason.rule.as_str())?).to_owned())))
            .collect();
        Explanation {
            id: Some(id),
            keys: explain_keys(row.keys, &row.facts, description, secret),
            facts: named(&Schema::from_columns(description.columns.clone()), &row.facts),
            pipeline: row.pipeline,
            version: row.version,
            event_id: row.event_id,
            time: row.time,
            arrival: row.arrival,
            duplicate: row.duplicate,
            verdict: Some(row.verdict),
            descriptions,
        }
    }

    pub(crate) fn of_observed(observed: &Observed, secret: &Secret) -> Explanation {
        let prepared = &observed.prepared;
        let keys = observed.known().map(|(key, reading)| KeyReading::new(key, reading));
        let pipeline = &prepared.row.pipeline;
        Explanation {
            id: None,
            pipeline: pipeline.name.clone(),
            version: pipeline.version.clone(),
            event_id: prepared.row.event_id.clone(),
            time: prepared.row.time,
            arrival: prepared.row.arrival,
            duplicate: observed.duplicate,
            facts: named(&pipeline.schema, &prepared.row.facts),
            keys: explain_keys(keys.collect(), &prepared.row.facts, &Description::of(pipeline), secret),
            verdict: None,
            descriptions: HashMap::new(),
        }
    }
}

fn named(schema: &Schema, facts: &Facts) -> Vec<(String, Value)> {
    let values = schema.columns().iter().zip(facts.values());
    values.filter_map(|(column, value)| Some((column.name.clone(), value.clone()?))).collect()
}

fn explain_keys(
    keys: Vec<KeyReading>,
    facts: &Facts,
    description: &Description,
    secret: &Secret,
) -> Vec<ExplainedKey> {
    let mut pieces: HashMap<(Kind, Shingle), String> = HashMap::new();
    let kinds: HashMap<Kind, _> = description.kinds.iter().map(|kind| (kind.kind, kind)).collect();
    for kind in &description.kinds {
        let Some((slot, normalise)) = &kind.piece else { continue };
        let (Some(value), Ok(normalise)) = (facts.get(*slot), normalise.parse()) else { continue };
        content::piece::pieces(value, normalise, &mut |piece| {
            pieces.insert((kind.kind, secret.shingle(piece.as_bytes())), piece.to_owned());
        });
    }
    let mut explained: Vec<ExplainedKey> = Vec::with_capacity(keys.len());
    for KeyReading { kind, shingle, reading } in keys {
        let Some(description) = kinds.get(&kind) else { continue };
        let key = ExplainedKey {
            kind: description.name.clone(),
            piece: pieces.get(&(kind, shingle)).cloned(),
            shingle,
            quality: reading.quality,
            first: reading.first,
            last: reading.last,
            counts: counts(&reading, &description.counters, &description.windows),
            values: track::values(&description.track, &reading),
        };
        explained.push(key);
    }
    explained
}

fn counts(reading: &Reading, counters: &[String], windows: &[Span]) -> Vec<(String, Span, u64)> {
    let mut counts = Vec::new();
    for (counter, name) in counters.iter().enumerate() {
        for (index, window) in windows.iter().enumerate() {
            let count = reading.sum(index, counter);
            if count > 0 {
                counts.push((name.clone(), *window, count));
            }
        }
    }
    counts
}

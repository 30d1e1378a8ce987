//! A journal's record, and its bytes: those of `postcard`, a compact encoding whose format is published and stable, but
//! for a decision's keys. Behind its id a record's first byte tells its variant; new variants are added at the end.

use event::{Column, Facts, Key, Kind, Slot, Span, Time};
use judge::Verdict;
use serde::{Deserialize, Serialize};
use stats::ReadingView;

use super::encoding::{self, RecordReader, RecordStart, RecordWrite};
use super::keys::{self, KeyReading};
use super::report::ReportRecord;
use crate::id::RecordId;

/// A decision, or feedback.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A decision.
    Decision(Box<DecisionRow>),
    /// Feedback on a decision.
    Report(ReportRecord),
}

/// A decision: everything that it was made of.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionRow {
    /// The pipeline.
    pub pipeline: String,
    /// Its version: which rules, which configuration, which columns.
    pub version: String,
    /// The caller's name for the event.
    pub event_id: Option<String>,
    /// The time of the event, and that of its arrival.
    pub time: Time,
    /// See `time`.
    pub arrival: Time,
    /// True if an event of this id had been counted before, so that this one was not.
    pub duplicate: bool,
    /// The facts as the rules saw them, without those that are not journalled.
    pub facts: Facts,
    /// The keys with their readings from before the event.
    pub keys: Vec<KeyReading>,
    /// The decision that was made.
    pub verdict: Verdict,
}

/// The meaning of the rows of one version of a pipeline: kept beside the segments, so that a row can be read long after its
/// configuration is gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VersionDescription {
    /// The columns of the facts.
    pub columns: Vec<Column>,
    /// Kinds and distinct counts.
    pub kinds: Vec<KindDescription>,
    /// Name and description of every rule.
    pub rules: Vec<(String, String)>,
    /// The version of the set of rules, `None` as far as nobody wrote it down.
    #[serde(default)]
    pub rules_version: Option<String>,
    /// Name and version of the preset, if there was one.
    #[serde(default)]
    pub preset: Option<(String, String)>,
    /// Name and version of every model: the hash of its file.
    #[serde(default)]
    pub models: Vec<(String, String)>,
}

/// The meaning of the keys and readings of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindDescription {
    /// Its number.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Column of the facts that its pieces were taken from, and how they were normalised; `None` for a distinct
    /// count.
    pub piece: Option<(Slot, String)>,
    /// The counters that the kind's readings count, in order.
    pub counters: Vec<String>,
    /// Over which trailing windows, in order.
    pub windows: Vec<Span>,
    /// The values that an aggregate's readings hold instead, in order: `first`, `last`, `count`, `sum`, `min`, `max`, or
    /// `decayed_` and a half-life.
    #[serde(default)]
    pub aggregate: Vec<String>,
    /// The columns of further fields of the same keys, in order, and how they were normalised.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<(Slot, String)>,
}

impl KindDescription {
    /// Returns the columns of the fields of its keys, in order, and how they were normalised.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = &(Slot, String)> {
        let fields: Vec<_> = self.piece.iter().chain(&self.further).collect();
        fields.into_iter()
    }
}

impl VersionDescription {
    /// The slot of a column, if there is one of this name; of two the later.
    pub fn slot(&self, name: &str) -> Option<Slot> {
        let place = self.columns.iter().rposition(|column| column.name == name)?;
        u16::try_from(place).ok().map(Slot)
    }

    /// The models and their versions as one text; `None` if there are none.
    pub(super) fn models_text(&self) -> Option<String> {
        let versions = self.models.iter().map(|(name, version)| (name.clone(), version.as_str().into()));
        let versions: serde_json::Map<String, serde_json::Value> = versions.collect();
        (!versions.is_empty()).then(|| serde_json::Value::Object(versions).to_string())
    }
}

/// A decision to be logged, whose parts lie anywhere.
pub struct PendingDecision<'a> {
    /// Its name.
    pub id: RecordId,
    /// The pipeline.
    pub pipeline: &'a str,
    /// Its version.
    pub version: &'a str,
    /// The caller's name for the event.
    pub event_id: Option<&'a str>,
    /// The time of the event.
    pub time: Time,
    /// The time of its arrival.
    pub arrival: Time,
    /// An event of this id had been counted before.
    pub duplicate: bool,
    /// Facts without those that are not journalled.
    pub facts: &'a Facts,
    /// The decision that was made.
    pub verdict: &'a Verdict,
}

impl PendingDecision<'_> {
    /// Puts its bytes behind others, with its keys as [`keys`] has them.
    fn put(&self, keys: &[u8], into: &mut Vec<u8>) {
        into.put_varint(self.id.0);
        into.put_varint(encoding::DECISION);
        into.put_content(self.pipeline.as_bytes());
        into.put_content(self.version.as_bytes());
        into.push(u8::from(self.event_id.is_some()));
        self.event_id.iter().for_each(|name| into.put_content(name.as_bytes()));
        into.put_signed(self.time.0);
        into.put_signed(self.arrival.0);
        into.push(u8::from(self.duplicate));
        into.put_facts(self.facts);
        into.put_content(keys);
        into.put_made(self.verdict);
        into.put_made(&self.verdict.effects);
    }
}

/// Records on their way to the journal, encoded one behind the other.
#[derive(Debug, Default)]
pub struct EncodedRecords {
    bytes: Vec<u8>,
    /// Each with the end of its bytes.
    ends: Vec<(RecordId, Time, usize)>,
    /// Versions of pipelines that made decisions among them.
    versions: Vec<String>,
    /// The keys of the one that is being added.
    keys: Vec<u8>,
}

impl EncodedRecords {
    /// Memory that is kept for the next records.
    const KEPT_BYTES_MAX: usize = 1 << 20;

    /// Makes room for so many, each about as long as the first of them.
    pub fn expect(&mut self, count: usize) {
        if self.ends.len() == 1 {
            self.bytes.reserve(self.bytes.len() * count);
            self.ends.reserve(count);
        }
    }

    /// None any more, but the memory is kept unless it is much.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(EncodedRecords::KEPT_BYTES_MAX);
        self.ends.clear();
        self.versions.clear();
        self.keys.shrink_to(EncodedRecords::KEPT_BYTES_MAX);
    }

    /// The number of them.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// The records from this one on, with their arrivals and bytes.
    pub(super) fn from(&self, first: usize) -> impl Iterator<Item = (RecordId, Time, &[u8])> {
        let mut start = first.checked_sub(1).and_then(|last| self.ends.get(last)).map_or(0, |(.., end)| *end);
        self.ends.iter().skip(first).map(move |(id, arrival, end)| {
            let bytes = &self.bytes[start..*end];
            start = *end;
            (*id, *arrival, bytes)
        })
    }

    /// Versions of pipelines that made decisions among them.
    pub(super) fn versions(&self) -> &[String] {
        &self.versions
    }

    fn of_version(&mut self, version: &str) {
        if !self.versions.iter().any(|known| known == version) {
            self.versions.push(version.to_owned());
        }
    }

    /// The greatest id.
    pub(super) fn newest(&self) -> Option<RecordId> {
        self.ends.iter().map(|(id, ..)| *id).max()
    }

    pub(super) fn push(&mut self, id: RecordId, arrival: Time, record: &Record) {
        if let Record::Decision(row) = record {
            self.of_version(&row.version);
        }
        record.encode_into(id, &mut self.bytes);
        self.ends.push((id, arrival, self.bytes.len()));
    }

    /// Adds a decision, on an event with these keys.
    pub fn push_decision<'k>(
        &mut self,
        decided: &PendingDecision<'_>,
        keys: impl Iterator<Item = (&'k Key, ReadingView<'k>)>,
    ) {
        self.keys.clear();
        keys.for_each(|(key, reading)| {
            keys::put(&mut self.keys, decided.time, (key.kind, key.shingle), reading.into())
        });
        decided.put(&self.keys, &mut self.bytes);
        self.of_version(decided.version);
        self.ends.push((decided.id, decided.arrival, self.bytes.len()));
    }
}

impl Record {
    /// The record's bytes, its id first.
    pub(super) fn encode(&self, id: RecordId) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode_into(id, &mut bytes);
        bytes
    }

    /// Puts them behind others.
    pub(super) fn encode_into(&self, id: RecordId, into: &mut Vec<u8>) {
        match self {
            Record::Decision(row) => {
                let mut known = Vec::new();
                for KeyReading { kind, shingle, reading } in &row.keys {
                    keys::put(&mut known, row.time, (*kind, *shingle), reading.into());
                }
                let decision = PendingDecision {
                    id,
                    pipeline: &row.pipeline,
                    version: &row.version,
                    event_id: row.event_id.as_deref(),
                    time: row.time,
                    arrival: row.arrival,
                    duplicate: row.duplicate,
                    facts: &row.facts,
                    verdict: &row.verdict,
                };
                decision.put(&known, into);
            }
            Record::Report(report) => {
                into.put_varint(id.0);
                into.put_varint(if report.signal { encoding::SIGNAL } else { encoding::REPORT });
                into.put_made(report);
            }
        }
    }

    /// Every record of a block's content, up to the first that cannot be read.
    pub(super) fn decode_all(bytes: &[u8]) -> Vec<(RecordId, Record)> {
        let (mut reader, mut records) = (RecordReader::new(bytes), Vec::new());
        while !reader.is_at_end() {
            let Ok(record) = Record::decode(&mut reader) else { break };
            records.push(record);
        }
        records
    }

    /// Returns the ids of so many records, and where each begins. Nothing is made of them.
    pub(super) fn starts(bytes: &[u8], count: u32) -> encoding::Result<Vec<(RecordId, usize)>> {
        let (mut reader, mut starts) = (RecordReader::new(bytes), Vec::new());
        for _ in 0..count {
            let start = bytes.len() - reader.bytes_left();
            starts.push((reader.pass_record()?, start));
        }
        if reader.is_at_end() { Ok(starts) } else { Err(encoding::RecordFormatError) }
    }

    /// The record that begins here.
    pub(super) fn decode_at(bytes: &[u8], start: usize) -> encoding::Result<(RecordId, Record)> {
        Record::decode(&mut RecordReader::new(bytes.get(start..).ok_or(encoding::RecordFormatError)?))
    }

    fn decode(reader: &mut RecordReader<'_>) -> encoding::Result<(RecordId, Record)> {
        let (id, start) = reader.start()?;
        let (head, arrived) = match start {
            RecordStart::Decision { head, arrived } => (head, arrived),
            RecordStart::Report(report) => return Ok((id, Record::Report(*report))),
        };
        let facts = reader.made()?;
        let keys = keys::read(reader.content()?, head.time)?;
        let mut verdict: Verdict = reader.made()?;
        verdict.effects = reader.made()?;
        let row = DecisionRow {
            pipeline: head.pipeline.to_owned(),
            version: head.version.to_owned(),
            event_id: arrived.event_id.map(str::to_owned),
            time: head.time,
            arrival: arrived.arrival,
            duplicate: arrived.duplicate,
            facts,
            keys,
            verdict,
        };
        Ok((id, Record::Decision(Box::new(row))))
    }
}

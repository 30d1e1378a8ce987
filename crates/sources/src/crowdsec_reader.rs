//! Lines of a log through CrowdSec's parsers and scenarios: each overflow is an event.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use content::network::{PrefixLengths, network};
use event::Time;
use logs::crowdsec::kept_buckets::KeptBuckets;
use logs::crowdsec::pipeline::{CrowdsecPipeline, CrowdsecSelection};
use logs::crowdsec::record::{CrowdsecLine, CrowdsecRecord};
use logs::crowdsec::value::TextMap;
use logs::envelope::{docker, journal};
use serde_json::{Map, Value};

use crate::crowdsec_files;
use crate::journal_follower::JOURNAL_ORIGIN;
use crate::line_reader::LinePlace;
use crate::reverse_names::DnsNames;

/// Most bytes of a line that an event keeps.
const TEXT_BYTES_MAX: usize = 1024;
/// Nanoseconds of a microsecond.
const NANOSECONDS: i64 = 1_000;

/// A source of lines, with parsers, scenarios and their buckets.
pub struct CrowdsecReader {
    pipeline: CrowdsecPipeline,
    labels: Arc<TextMap>,
    /// The bits by which addresses are one.
    prefixes: PrefixLengths,
    /// True if lines are those of Docker's `json-file`.
    is_of_containers: bool,
}

impl CrowdsecReader {
    /// Reads the files of a folder. Addresses of IPv6 with so many common bits fill one bucket. What cannot be taken is told.
    ///
    /// # Errors
    /// If the folder cannot be read, or has no parsers.
    pub fn open(
        directory: &Path,
        data_files: Option<&Path>,
        kind: &str,
        ipv6_prefix: u8,
        told: &mut Vec<String>,
    ) -> Result<CrowdsecReader, String> {
        let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", directory.display());
        let files = crowdsec_files::read(directory, told).map_err(|error| failed(&error))?;
        let mut data = crowdsec_files::data(directory, data_files, told);
        if let Some(names) = DnsNames::of_system() {
            data.enrichment.set_names(Arc::new(names));
        }
        let mut problems = Vec::new();
        let selection = CrowdsecSelection::all(&files);
        let pipeline = CrowdsecPipeline::live(&files, &selection, data, ipv6_prefix, &mut problems);
        told.extend(problems.iter().map(ToString::to_string));
        if pipeline.parsers.is_empty() {
            return Err(failed(&"there are no parsers; name the folder that has `parsers` and `scenarios`"));
        }
        let labels = TextMap::from([(Arc::from("type"), Arc::from(kind))]);
        let prefixes = PrefixLengths { v4: 32, v6: ipv6_prefix };
        Ok(CrowdsecReader { pipeline, labels: Arc::new(labels), prefixes, is_of_containers: false })
    }

    /// Returns the reader for lines of Docker's `json-file`.
    #[must_use]
    pub fn of_containers(self, is_of_containers: bool) -> CrowdsecReader {
        CrowdsecReader { is_of_containers, ..self }
    }

    /// The buckets as they are kept over a restart.
    pub fn kept_buckets(&self) -> KeptBuckets {
        self.pipeline.kept_buckets()
    }

    /// Goes on with buckets that were kept.
    pub fn restore(&mut self, kept: KeptBuckets, now: Time) {
        self.pipeline.restore_buckets(kept, now.0.saturating_mul(NANOSECONDS));
    }

    /// Reads a line: events of its overflows; none if no parser reads it.
    pub fn read(&mut self, line: &[u8], place: LinePlace<'_>, now: Time) -> Option<Vec<Value>> {
        let is_journal = place.origin.as_ref() == JOURNAL_ORIGIN;
        let text = String::from_utf8_lossy(line);
        let unwrapped = self.is_of_containers.then(|| docker(&text)).flatten();
        let text = unwrapped.map_or(text, |line| line.text);
        let entry = is_journal.then(|| journal(&text)).flatten();
        // CrowdSec has the journal written as syslog.
        let raw = entry.map_or_else(
            || Arc::from(text.as_ref()),
            |entry| Arc::from(format!("{} {}", entry.time.unwrap_or(now), entry.as_short())),
        );
        let line = CrowdsecLine {
            raw,
            source: Arc::clone(place.origin),
            module: Arc::from(match (is_journal, self.is_of_containers) {
                (true, _) => "journalctl",
                (false, true) => "docker",
                (false, false) => "file",
            }),
            labels: Arc::clone(&self.labels),
        };
        let reading = self.pipeline.read(line, now.0.saturating_mul(NANOSECONDS));
        reading.record?;
        let overflows = reading.overflows.iter().filter(|record| !record.is_whitelisted);
        let of = |(number, record)| events(record, place.name, number, self.prefixes);
        Some(overflows.enumerate().flat_map(of).collect())
    }
}

/// The events of an overflow: one a source. Addresses of one network are one.
fn events(record: &CrowdsecRecord, name: Option<&str>, number: usize, prefixes: PrefixLengths) -> Vec<Value> {
    let Some(overflow) = &record.overflow else { return Vec::new() };
    let mut events = Vec::with_capacity(overflow.sources.len());
    let mut networks = HashSet::new();
    for (index, source) in overflow.sources.values().enumerate() {
        let source = if index == 0 { overflow.source().unwrap_or(source) } else { source };
        let address = source.value.parse::<IpAddr>().ok();
        if address.is_some_and(|address| !networks.insert(network(address, prefixes))) {
            continue;
        }
        let mut event = Map::new();
        if let Some(name) = name {
            event.insert("id".to_owned(), format!("{name}-{number}-{index}").into());
        }
        event.insert("time".to_owned(), Time(record.time / NANOSECONDS).to_string().into());
        event.insert("scenario".to_owned(), overflow.scenario.as_ref().into());
        event.insert("source".to_owned(), source.value.as_ref().into());
        event.insert("scope".to_owned(), source.scope.as_ref().into());
        if source.ip.parse::<IpAddr>().is_ok() {
            event.insert("source_ip".to_owned(), source.ip.as_ref().into());
        }
        event.insert("events".to_owned(), overflow.count.into());
        if let Some(last) = overflow.records.last() {
            let text = last.line.raw.as_ref();
            event.insert("text".to_owned(), text[..text.floor_char_boundary(TEXT_BYTES_MAX)].into());
        }
        events.push(Value::Object(event));
    }
    events
}

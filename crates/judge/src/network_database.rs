//! Network databases in MaxMind's format: a record of named values for each network.

use std::fmt;
use std::net::IpAddr;

use maxminddb::{PathElement, Reader};
use serde::de::{Deserialize, Deserializer, Visitor};

/// Records in which a path is looked for before it is said that there is none.
const RECORDS_SOUGHT: usize = 10_000;

/// A database in memory, whose structure was verified.
pub(crate) struct NetworkDatabase(Reader<Vec<u8>>);

impl fmt::Debug for NetworkDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NetworkDatabase").finish_non_exhaustive()
    }
}

impl NetworkDatabase {
    /// Reads and verifies a database.
    pub(crate) fn read(bytes: Vec<u8>) -> Result<NetworkDatabase, String> {
        let reader = Reader::from_source(bytes).map_err(|error| error.to_string())?;
        reader.verify().map_err(|error| error.to_string())?;
        Ok(NetworkDatabase(reader))
    }

    /// The number of nodes of its tree.
    pub(crate) fn len(&self) -> usize {
        self.0.metadata().node_count as usize
    }

    /// Returns whether there is a record of an address.
    pub(crate) fn has(&self, ip: IpAddr) -> bool {
        self.0.lookup(ip.to_canonical()).is_ok_and(|found| found.has_data())
    }

    /// The value at a path of an address's record, if it is a text, a number or a truth.
    pub(crate) fn find(&self, ip: IpAddr, path: &RecordPath) -> Option<String> {
        let found = self.0.lookup(ip.to_canonical()).ok()?;
        found.decode_path::<RecordValue>(&path.elements()).ok()?.map(|value| value.0)
    }

    /// Returns whether one of the first records has a value at a path.
    pub(crate) fn has_path(&self, path: &RecordPath) -> bool {
        let Ok(networks) = self.0.networks(Default::default()) else { return false };
        let elements = path.elements();
        let mut records = networks.take(RECORDS_SOUGHT).filter_map(Result::ok);
        records.any(|record| matches!(record.decode_path::<RecordValue>(&elements), Ok(Some(_))))
    }
}

/// A way through a record: names of maps' entries, and places in lists.
#[derive(Clone, Debug)]
pub(crate) struct RecordPath(Box<[RecordStep]>);

#[derive(Clone, Debug)]
enum RecordStep {
    Key(Box<str>),
    Index(usize),
}

impl RecordPath {
    /// Most steps of a path.
    pub(crate) const STEPS_MAX: usize = 8;

    /// Reads `country.iso_code` or `subdivisions.0.iso_code`; `None` for what is no path.
    pub(crate) fn parse(text: &str) -> Option<RecordPath> {
        let steps: Vec<RecordStep> = text
            .split('.')
            .map(|step| match step.parse() {
                Ok(index) => RecordStep::Index(index),
                Err(_) => RecordStep::Key(step.into()),
            })
            .collect();
        let is_empty = |step: &RecordStep| matches!(step, RecordStep::Key(key) if key.is_empty());
        (steps.len() <= RecordPath::STEPS_MAX && !steps.iter().any(is_empty))
            .then(|| RecordPath(steps.into()))
    }

    fn elements(&self) -> Vec<PathElement<'_>> {
        let steps = self.0.iter().map(|step| match step {
            RecordStep::Index(index) => PathElement::Index(*index),
            RecordStep::Key(key) => PathElement::Key(key),
        });
        steps.collect()
    }
}

/// A value of a record as it is printed.
struct RecordValue(String);

impl<'de> Deserialize<'de> for RecordValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RecordValue, D::Error> {
        deserializer.deserialize_any(RecordValueVisitor)
    }
}

struct RecordValueVisitor;

impl Visitor<'_> for RecordValueVisitor {
    type Value = RecordValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number or a truth")
    }

    fn visit_bool<E>(self, truth: bool) -> Result<RecordValue, E> {
        Ok(RecordValue(truth.to_string()))
    }

    fn visit_i64<E>(self, integer: i64) -> Result<RecordValue, E> {
        Ok(RecordValue(integer.to_string()))
    }

    fn visit_u64<E>(self, integer: u64) -> Result<RecordValue, E> {
        Ok(RecordValue(integer.to_string()))
    }

    fn visit_u128<E>(self, integer: u128) -> Result<RecordValue, E> {
        Ok(RecordValue(integer.to_string()))
    }

    fn visit_f32<E>(self, float: f32) -> Result<RecordValue, E> {
        Ok(RecordValue(float.to_string()))
    }

    fn visit_f64<E>(self, float: f64) -> Result<RecordValue, E> {
        Ok(RecordValue(float.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<RecordValue, E> {
        Ok(RecordValue(text.to_owned()))
    }
}

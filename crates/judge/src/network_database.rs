//! Network databases in MaxMind's format: a record of named values for each network.

use std::fmt;
use std::net::IpAddr;

use maxminddb::{PathElement, Reader};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Records in which a path is looked for before it is said that there is none.
const RECORDS_SOUGHT: usize = 10_000;

/// Records whose values are named to whom names none.
const RECORDS_NAMED: usize = 100;

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

    /// The paths of the values of the first records, short ones first.
    pub(crate) fn paths(&self) -> Vec<String> {
        let Ok(networks) = self.0.networks(Default::default()) else { return Vec::new() };
        let records = networks.take(RECORDS_NAMED).filter_map(Result::ok);
        let mut paths: Vec<String> = records
            .filter_map(|record| record.decode::<RecordShape>().ok()?)
            .flat_map(|shape| shape.0)
            .collect();
        paths.sort_unstable();
        paths.dedup();
        paths.sort_by_key(|path| path.matches('.').count());
        paths
    }

    /// Returns whether one of the first records has a value at a path.
    pub(crate) fn has_path(&self, path: &RecordPath) -> bool {
        let Ok(networks) = self.0.networks(Default::default()) else { return false };
        let elements = path.elements();
        let mut records = networks.take(RECORDS_SOUGHT).filter_map(Result::ok);
        records.any(|record| matches!(record.decode_path::<RecordValue>(&elements), Ok(Some(_))))
    }
}

/// The paths of a record's values, each after its parts.
#[derive(Default)]
struct RecordShape(Vec<String>);

impl<'de> Deserialize<'de> for RecordShape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RecordShape, D::Error> {
        deserializer.deserialize_any(RecordShapeVisitor)
    }
}

struct RecordShapeVisitor;

impl RecordShapeVisitor {
    fn value<E>() -> Result<RecordShape, E> {
        Ok(RecordShape(vec![String::new()]))
    }
}

impl RecordShape {
    /// Adds the paths of what is under a name.
    fn put(&mut self, name: &str, below: RecordShape) {
        self.0.extend(below.0.into_iter().map(|path| match path.is_empty() {
            true => name.to_owned(),
            false => format!("{name}.{path}"),
        }));
    }
}

impl<'de> Visitor<'de> for RecordShapeVisitor {
    type Value = RecordShape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_bool<E>(self, _: bool) -> Result<RecordShape, E> {
        Self::value()
    }

    fn visit_i64<E>(self, _: i64) -> Result<RecordShape, E> {
        Self::value()
    }

    fn visit_u64<E>(self, _: u64) -> Result<RecordShape, E> {
        Self::value()
    }

    fn visit_u128<E>(self, _: u128) -> Result<RecordShape, E> {
        Self::value()
    }

    fn visit_f32<E>(self, _: f32) -> Result<RecordShape, E> {
        Self::value()
    }

    fn visit_f64<E>(self, _: f64) -> Result<RecordShape, E> {
        Self::value()
    }

    fn visit_str<E>(self, _: &str) -> Result<RecordShape, E> {
        Self::value()
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<RecordShape, E> {
        Ok(RecordShape::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RecordShape, A::Error> {
        let mut shape = RecordShape::default();
        while let Some((name, below)) = map.next_entry::<String, RecordShape>()? {
            shape.put(&name, below);
        }
        Ok(shape)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<RecordShape, A::Error> {
        let mut shape = RecordShape::default();
        if let Some(first) = items.next_element::<RecordShape>()? {
            shape.put("0", first);
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(shape)
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

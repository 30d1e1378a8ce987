//! What a stored cell's bytes mean: a [`Definition`] is written once, cells name it by number.
//!
//! The number is a hash of what it names, so that it can never come to mean anything else, not even when the record
//! of it is lost. After a change of configuration a cell is read with the definition that it was written with and
//! then [`translated`].

use std::sync::Arc;

use event::{Key, Kind, Shingle, Space, Span};
use hashbrown::HashMap;

use crate::bytes::{Reader, push_text, push_varint};
use crate::catalog::{CatalogError, Measure, Statistic};
use crate::cell::Cell;
use crate::layout::{Shape, Tier};

/// Set in a pair's kind.
pub(crate) const PAIR: u16 = 0x8000;

/// Space and kind of the records that hold definitions; no pair can have them, see [`crate::Catalog::KINDS`].
pub(crate) const DEFINITIONS: (Space, Kind) = (Space(u16::MAX), Kind(u16::MAX));

const FORMAT: u8 = 1;

/// One statistic of one kind, as far as the bytes of its cells depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) space: Space,
    pub(crate) kind: Kind,
    pub(crate) statistic: String,
    pub(crate) kind_name: String,
    pub(crate) form: Form,
    pub(crate) counters: Vec<String>,
    pub(crate) shape: Shape,
}

/// The kinds of statistic, as numbered on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Windows = 0,
    Distinct = 1,
    Once = 2,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Form::Windows => "windows",
            Form::Distinct => "distinct",
            Form::Once => "once",
        }
    }
}

impl Definition {
    pub(crate) fn new(space: Space, kind: Kind, statistic: &Statistic) -> Result<Definition, CatalogError> {
        let shape = statistic
            .measure
            .shape()
            .map_err(|error| CatalogError::Layout { name: statistic.name.clone(), error })?;
        Ok(Definition {
            space,
            kind,
            statistic: statistic.name.clone(),
            kind_name: statistic.kind_name.clone(),
            form: match statistic.measure {
                Measure::Windows(_) => Form::Windows,
                Measure::Distinct { .. } => Form::Distinct,
                Measure::Once { .. } => Form::Once,
            },
            counters: statistic.measure.counters(),
            shape,
        })
    }

    fn meaning(&self) -> String {
        format!("{} `{}` of `{}`", self.form.name(), self.statistic, self.kind_name)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT, self.form as u8];
        bytes.extend_from_slice(&self.space.0.to_le_bytes());
        bytes.extend_from_slice(&self.kind.0.to_le_bytes());
        push_text(&mut bytes, &self.statistic);
        push_text(&mut bytes, &self.kind_name);
        push_varint(&mut bytes, self.shape.keep().0.cast_unsigned());
        push_varint(&mut bytes, 1 + u64::from(self.shape.coarse().is_some()));
        for tier in [Some(self.shape.fine()), self.shape.coarse()].into_iter().flatten() {
            push_varint(&mut bytes, tier.width.0.cast_unsigned());
            push_varint(&mut bytes, u64::from(tier.buckets));
        }
        push_varint(&mut bytes, self.counters.len() as u64);
        for counter in &self.counters {
            push_text(&mut bytes, counter);
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Definition> {
        let mut reader = Reader(bytes);
        let [FORMAT, form] = reader.array()? else { return None };
        let form =
            [Form::Windows, Form::Distinct, Form::Once].into_iter().find(|known| *known as u8 == form)?;
        let space = Space(u16::from_le_bytes(reader.array()?));
        let kind = Kind(u16::from_le_bytes(reader.array()?));
        let statistic = reader.text()?.to_owned();
        let kind_name = reader.text()?.to_owned();
        let span = |value: u64| i64::try_from(value).ok().map(Span);
        let keep = span(reader.varint()?)?;
        let mut tiers = Vec::new();
        for _ in 0..reader.varint()?.min(3) {
            let width = span(reader.varint()?)?;
            tiers.push(Tier { width, buckets: u32::try_from(reader.varint()?).ok()? });
        }
        let mut counters = Vec::new();
        for _ in 0..reader.varint()? {
            counters.push(reader.text()?.to_owned());
        }
        let shape = Shape::new(counters.len(), &tiers, Some(keep)).ok()?;
        reader.0.is_empty().then_some(Definition { space, kind, statistic, kind_name, form, counters, shape })
    }
}

/// All definitions that cells in memory or on disk may name.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    /// By the index that cells in memory name.
    all: Vec<(u32, Arc<Definition>)>,
    by_number: HashMap<u32, u16>,
}

impl Registry {
    /// Number of definitions: indices are below it.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Takes in a definition that was stored under this number.
    pub(crate) fn restore(&mut self, number: u32, bytes: &[u8]) -> Result<(), CatalogError> {
        let definition = Definition::decode(bytes)
            .ok_or_else(|| CatalogError::Stored(format!("definition {number:08x} has an unknown form")))?;
        self.insert(number, definition).map(|_| ())
    }

    /// The index of a definition, and its number if it is new and must be stored.
    pub(crate) fn define(&mut self, definition: Definition) -> Result<(u16, Option<u32>), CatalogError> {
        for (index, (_, known)) in self.all.iter().enumerate() {
            if (known.space, known.kind) != (definition.space, definition.kind) {
                continue;
            }
            if **known == definition {
                return Ok((index as u16, None));
            }
            if known.meaning() != definition.meaning() {
                return Err(CatalogError::Meaning {
                    space: known.space,
                    kind: known.kind,
                    stored: known.meaning(),
                    configured: definition.meaning(),
                });
            }
        }
        let mut number = fnv(&definition.encode());
        while self.by_number.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        Ok((self.insert(number, definition)?, Some(number)))
    }

    fn insert(&mut self, number: u32, definition: Definition) -> Result<u16, CatalogError> {
        let index = u16::try_from(self.all.len())
            .map_err(|_| CatalogError::Stored("there are too many of them: 65,536".to_owned()))?;
        self.all.push((number, Arc::new(definition)));
        self.by_number.insert(number, index);
        Ok(index)
    }

    pub(crate) fn get(&self, index: u16) -> &Definition {
        &self.all[usize::from(index)].1
    }

    /// Appends a cell's image: the definition's number and the packed cell.
    pub(crate) fn encode(&self, index: u16, cell: &Cell, bytes: &mut Vec<u8>) {
        let (number, definition) = &self.all[usize::from(index)];
        bytes.extend_from_slice(&number.to_le_bytes());
        cell.encode(&definition.shape, bytes);
    }

    /// Reads a cell's image; `None` if it is damaged or was written for another kind.
    pub(crate) fn decode(&self, key: &Key, image: &[u8]) -> Option<(u16, Cell)> {
        let (number, packed) = image.split_first_chunk()?;
        let index = *self.by_number.get(&u32::from_le_bytes(*number))?;
        let definition = self.get(index);
        let fits = (definition.space, definition.kind.0) == (key.space, key.kind.0 & !PAIR);
        let cell = Cell::decode(&definition.shape, packed).ok()?;
        fits.then_some((index, cell))
    }
}

/// The key of the record that holds a definition.
pub(crate) fn definition_key(number: u32) -> Key {
    Key { space: DEFINITIONS.0, kind: DEFINITIONS.1, shingle: Shingle(u64::from(number)) }
}

/// FNV-1a (Fowler, Noll and Vo), 32 bits.
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// A cell of `old` as one of `new`: counters go by name, a bucket goes into the finest tier whose width is a multiple
/// of its own, and what fits nowhere is dropped. Distinct counts and marks only go into buckets of equal width: a
/// value that was counted in two short periods would be counted twice in a long one.
pub(crate) fn translated(cell: &Cell, old: &Definition, new: &Definition) -> Cell {
    let (Some(first), Some(last)) = (cell.first(), cell.last()) else { return Cell::new() };
    let sources: Vec<Option<usize>> =
        new.counters.iter().map(|name| old.counters.iter().position(|counter| counter == name)).collect();
    let mut made = Cell::new();
    made.see(&new.shape, first, last);
    let mut moved = vec![0; new.counters.len()];
    for (tier, bucket, counts) in cell.rows(&old.shape) {
        let Some(width) = [Some(old.shape.fine()), old.shape.coarse()][tier].map(|tier| tier.width.0) else {
            continue;
        };
        let targets =
            [Some(new.shape.fine()), new.shape.coarse()].into_iter().flatten().map(|tier| tier.width.0);
        let fits = |to: i64| if new.form == Form::Windows { to % width == 0 } else { to == width };
        let Some((target, to)) = targets.enumerate().find(|(_, to)| fits(*to)) else { continue };
        for (moved, source) in moved.iter_mut().zip(&sources) {
            *moved = source.and_then(|source| counts.get(source)).copied().unwrap_or(0);
        }
        made.put(&new.shape, target, bucket.div_euclid(to / width), &moved);
    }
    made
}

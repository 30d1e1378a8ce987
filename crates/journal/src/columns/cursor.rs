//! Ways through decoded columns, row by row.

use std::borrow::Borrow;
use std::net::IpAddr;

use event::{Time, Type, Value};

use super::pages::{self, DecodedChunk, DecodedValues};
use crate::encoding::{RecordWrite, variant};
use crate::visitor::StoredFact;

/// Goes through a column row by row.
#[derive(Clone, Debug)]
pub(super) struct ColumnCursor<C = DecodedChunk> {
    kind: Type,
    chunk: C,
    entry: usize,
    value: usize,
}

/// The part of a column that belongs to a row.
#[derive(Clone, Copy)]
pub(super) struct ColumnEntry<'c> {
    kind: Type,
    pub(super) chunk: &'c DecodedChunk,
    /// 0 for a missing value.
    level: u8,
    /// Its first value and the one behind its last.
    pub(super) values: (usize, usize),
}

impl<C: Borrow<DecodedChunk>> ColumnCursor<C> {
    /// From the first row on that was wanted.
    pub(super) fn of(kind: Type, chunk: C) -> ColumnCursor<C> {
        let (entry, value) = chunk.borrow().begin;
        ColumnCursor { kind, chunk, entry, value }
    }

    #[inline]
    pub(super) fn next(&mut self) -> ColumnEntry<'_> {
        let before = self.value;
        let level = self.chunk.borrow().levels.get(self.entry).copied().unwrap_or(0);
        if self.kind == Type::List {
            self.pass(1);
        } else {
            self.entry += 1;
            self.value += usize::from(level);
        }
        ColumnEntry { kind: self.kind, chunk: self.chunk.borrow(), level, values: (before, self.value) }
    }

    /// Passes over so many rows.
    #[inline]
    pub(super) fn pass(&mut self, rows: usize) {
        let chunk: &DecodedChunk = self.chunk.borrow();
        let from = self.entry;
        if self.kind == Type::List {
            for _ in 0..rows {
                self.entry += 1;
                while chunk.repeats.get(self.entry) == Some(&1) {
                    self.entry += 1;
                }
            }
        } else {
            self.entry += rows;
        }
        self.value += chunk.values_among(from..self.entry, self.kind);
    }

    /// Returns true if all rows have the same value, as far as that is seen from where it lies.
    pub(super) fn is_uniform(&self) -> bool {
        self.chunk.borrow().is_uniform()
    }

    /// The type of the column.
    pub(super) fn kind(&self) -> Type {
        self.kind
    }

    /// The bytes in which the texts of the column lie.
    pub(super) fn texts(&self) -> &[u8] {
        self.chunk.borrow().texts()
    }

    /// Hands on the rows that have this text, of a column whose rows are all here.
    pub(super) fn rows_with(&self, text: &[u8], each: &mut dyn FnMut(usize)) {
        self.chunk.borrow().rows_with(text, each);
    }

    /// The rows that have a text in which one of these places, rising, lies, of a column whose rows are all here. `None` where one of
    /// lists is to be gone through.
    pub(super) fn rows_around(&self, places: &[usize]) -> Option<Vec<usize>> {
        (self.kind != Type::List).then(|| self.chunk.borrow().rows_around(places))
    }

    /// Returns the number of rows that are still to come, at most.
    pub(super) fn rows_left(&self) -> usize {
        self.chunk.borrow().levels.len().saturating_sub(self.entry)
    }
}

impl StoredFact for ColumnEntry<'_> {
    fn kind(&self) -> Type {
        self.kind
    }

    fn bytes(&self) -> Option<&[u8]> {
        ColumnEntry::bytes(self).filter(|_| self.kind != Type::List)
    }

    fn text(&self, number: usize) -> Option<&[u8]> {
        let (first, end) = if self.is_missing() { (0, 0) } else { self.values };
        (first..end).nth(number).and_then(|value| self.chunk.bytes(value))
    }

    fn value(&self) -> Option<Option<Value>> {
        ColumnEntry::value(self)
    }
}

/// The content of a column that there is not.
static NO_CHUNK: DecodedChunk = DecodedChunk::none();

impl<'c> ColumnEntry<'c> {
    /// The entry of a column that there is not.
    pub(super) fn missing() -> ColumnEntry<'static> {
        ColumnEntry { kind: Type::String, chunk: &NO_CHUNK, level: 0, values: (0, 0) }
    }

    pub(super) fn is_missing(&self) -> bool {
        self.level == 0
    }

    /// A number that two entries of one column share only if they have the same value: for a text the place where it lies.
    /// `None` for what is missing, and for lists.
    pub(super) fn place(&self) -> Option<u64> {
        if self.is_missing() || self.kind == Type::List {
            return None;
        }
        match &self.chunk.values {
            DecodedValues::Bools(values) => values.get(self.values.0).map(|value| u64::from(*value)),
            DecodedValues::Integers(values) => values.get(self.values.0).map(|value| value.cast_unsigned()),
            DecodedValues::Floats(values) => values.get(self.values.0).map(|value| value.to_bits()),
            DecodedValues::Texts(values) => values.get(self.values.0).map(|(start, _)| u64::from(*start)),
        }
    }

    /// Returns true if one of these places, rising, lies in a text of the entry.
    pub(super) fn has_any_place(&self, places: &[usize]) -> bool {
        let DecodedValues::Texts(texts) = &self.chunk.values else { return false };
        let (first, end) = if self.is_missing() { (0, 0) } else { self.values };
        texts.get(first..end).unwrap_or_default().iter().any(|text| pages::has_place(places, *text))
    }

    /// Returns true if [`ColumnEntry::place`] is the place of a text.
    pub(super) fn is_text(&self) -> bool {
        matches!(self.chunk.values, DecodedValues::Texts(_))
    }

    pub(super) fn bytes(&self) -> Option<&'c [u8]> {
        if self.is_missing() { None } else { self.chunk.bytes(self.values.0) }
    }

    pub(super) fn text(&self) -> Option<&'c str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    pub(super) fn integer(&self) -> Option<i64> {
        match &self.chunk.values {
            DecodedValues::Integers(values) if !self.is_missing() => values.get(self.values.0).copied(),
            _ => None,
        }
    }

    pub(super) fn float(&self) -> Option<f64> {
        match &self.chunk.values {
            DecodedValues::Floats(values) if !self.is_missing() => values.get(self.values.0).copied(),
            _ => None,
        }
    }

    pub(super) fn truth(&self) -> Option<bool> {
        match &self.chunk.values {
            DecodedValues::Bools(values) if !self.is_missing() => values.get(self.values.0).copied(),
            _ => None,
        }
    }

    /// A list's items; `None` for one that is no text.
    pub(super) fn items(&self) -> impl Iterator<Item = Option<&'c str>> + use<'c> {
        let chunk = self.chunk;
        (self.values.0..self.values.1)
            .map(move |value| chunk.bytes(value).and_then(|item| std::str::from_utf8(item).ok()))
    }

    /// Puts the bytes of the value there, which may be missing. `None` if it is none of its type.
    pub(super) fn put(&self, into: &mut Vec<u8>) -> Option<()> {
        if self.is_missing() {
            into.push(0);
            return Some(());
        }
        let mut begin = |variant| into.extend_from_slice(&[1, variant]);
        match self.kind {
            Type::String => {
                begin(variant::STRING);
                into.put_content(self.bytes()?);
            }
            Type::Integer => {
                begin(variant::INTEGER);
                into.put_signed(self.integer()?);
            }
            Type::Float => {
                begin(variant::FLOAT);
                into.extend_from_slice(&self.float()?.to_le_bytes());
            }
            Type::Bool => {
                begin(variant::BOOL);
                into.push(u8::from(self.truth()?));
            }
            Type::Time => {
                begin(variant::TIME);
                into.put_signed(self.integer()?);
            }
            Type::Ip => {
                begin(variant::IP);
                into.put_made(&self.text()?.parse::<IpAddr>().ok()?);
            }
            Type::Bytes => {
                begin(variant::BYTES);
                into.put_content(self.bytes()?);
            }
            Type::List => {
                begin(variant::LIST);
                into.put_varint((self.values.1 - self.values.0) as u64);
                for item in self.values.0..self.values.1 {
                    into.put_content(self.chunk.bytes(item)?);
                }
            }
        }
        Some(())
    }

    /// The value, which may be missing. `None` if it is none of its type.
    pub(super) fn value(&self) -> Option<Option<Value>> {
        if self.is_missing() {
            return Some(None);
        }
        let value = match self.kind {
            Type::String => Value::from(self.text()?),
            Type::Integer => Value::Integer(self.integer()?),
            Type::Float => Value::Float(self.float()?),
            Type::Bool => Value::Bool(self.truth()?),
            Type::Time => Value::Time(Time(self.integer()?)),
            Type::Ip => Value::Ip(self.text()?.parse::<IpAddr>().ok()?),
            Type::Bytes => Value::Bytes(self.bytes()?.into()),
            Type::List => {
                let items = self.items().map(|item| Some(Box::from(item?)));
                Value::List(items.collect::<Option<_>>()?)
            }
        };
        Some(Some(value))
    }
}

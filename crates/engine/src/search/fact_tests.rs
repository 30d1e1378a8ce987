//! Tests of single facts, by which a search passes over rows before it makes anything of them.
//!
//! A test only tells that a row does not fit; one that passes is looked at whole.

use std::cell::RefCell;

use content::piece::{self, Normalisation};
use event::{Facts, Slot, Type, Value};
use journal::{FactTest, StoredFact, VersionDescription};
use judge::Condition;

use super::logged_scope;
use super::matcher::contains;

/// The tests of the parts of a condition between its `&&`: all of them have to be true.
pub(super) fn of_condition(
    source: &str,
    description: &VersionDescription,
) -> impl Iterator<Item = Box<dyn FactTest>> {
    let mut parts: Vec<String> = judge::conjuncts(source).into_iter().map(|part| part.source).collect();
    if parts.is_empty() {
        parts.push(source.to_owned());
    }
    parts.into_iter().filter_map(|part| {
        // One that is no condition by itself is left to the whole.
        let condition = logged_scope::compile(&part, description).ok()?;
        let [read] = condition.reads() else { return None };
        let facts = [read.slot];
        let row = RefCell::new(Facts::from_values(vec![None; description.columns.len()]));
        Some(Box::new(ConditionTest { facts, condition, row }) as Box<dyn FactTest>)
    })
}

/// A condition on one fact.
#[derive(Debug)]
struct ConditionTest {
    facts: [Slot; 1],
    condition: Condition,
    /// A row of which nothing but the fact is filled in.
    row: RefCell<Facts>,
}

impl FactTest for ConditionTest {
    fn facts(&self) -> &[Slot] {
        &self.facts
    }

    fn passes(&self, value: &dyn StoredFact) -> Option<bool> {
        let (value, mut row) = (value.value()?, self.row.borrow_mut());
        row.clear(self.facts[0]);
        if let Some(value) = value {
            row.set(self.facts[0], value);
        }
        Some(self.condition.fires(&row))
    }
}

/// A text that one of some facts contains, in capitals or not.
#[derive(Debug)]
pub(super) struct TextTest {
    pub(super) facts: Vec<Slot>,
    /// In lower case.
    pub(super) text: String,
}

impl FactTest for TextTest {
    fn facts(&self) -> &[Slot] {
        &self.facts
    }

    fn passes(&self, value: &dyn StoredFact) -> Option<bool> {
        if !matches!(value.kind(), Type::String | Type::List) {
            return Some(false);
        }
        for text in (0..).map_while(|number| value.text(number)) {
            if contains(std::str::from_utf8(text).ok()?, &self.text) {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// A piece that is made of a fact.
#[derive(Debug)]
pub(super) struct PieceTest {
    pub(super) facts: [Slot; 1],
    pub(super) normalise: Normalisation,
    pub(super) piece: String,
}

impl FactTest for PieceTest {
    fn facts(&self) -> &[Slot] {
        &self.facts
    }

    fn passes(&self, value: &dyn StoredFact) -> Option<bool> {
        let Some(bytes) = value.bytes() else { return self.is_made_of(value) };
        match (value.kind(), self.normalise) {
            // Only one text of four numbers is read as an address, and its piece is that text.
            (Type::Ip, Normalisation::Exact) if !bytes.contains(&b':') => {
                Some(bytes == self.piece.as_bytes())
            }
            (Type::String, Normalisation::Exact) if bytes.len() <= piece::PIECE_BYTES_MAX => {
                Some(bytes == self.piece.as_bytes())
            }
            _ => self.is_made_of(value),
        }
    }
}

impl PieceTest {
    fn is_made_of(&self, value: &dyn StoredFact) -> Option<bool> {
        Some(value.value()?.is_some_and(|value: Value| {
            let mut is_made = false;
            piece::pieces(&value, self.normalise, &mut |made| is_made |= made == self.piece);
            is_made
        }))
    }
}

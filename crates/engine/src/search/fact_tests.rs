//! Tests of single facts, by which a search passes over rows before it makes anything of them.
//!
//! A test only tells that a row does not fit; one that passes is looked at whole.

use std::cell::RefCell;

use content::piece::{self, Normalisation};
use event::{Facts, Slot, Type, Value};
use journal::{FactTest, StoredFact, VersionDescription};
use judge::Condition;
use memchr::memmem::{self, Finder};

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
    facts: Vec<Slot>,
    /// In lower case.
    text: String,
    /// Finds the text if it is of ASCII alone.
    finder: Option<Finder<'static>>,
}

/// All characters but those of ASCII that have one of these in lower case: the capital I with a dot, and the Kelvin sign.
const CAPITALS_OF_ASCII: [&str; 2] = ["\u{130}", "\u{212a}"];

impl TextTest {
    /// Looks for a text that is in lower case.
    pub(super) fn new(facts: Vec<Slot>, text: &str) -> TextTest {
        let finder = text.is_ascii().then(|| Finder::new(text).into_owned());
        TextTest { facts, text: text.to_owned(), finder }
    }
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

    fn may_pass_among(&self, texts: &[u8]) -> bool {
        self.finder.as_ref().is_none_or(|finder| {
            CAPITALS_OF_ASCII.iter().any(|capital| memmem::find(texts, capital.as_bytes()).is_some())
                || finder.find(&texts.to_ascii_lowercase()).is_some()
        })
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn capitals_of_ascii_are_all_there_are() {
        let all = (char::MIN..=char::MAX).filter(|one| !one.is_ascii());
        let found: Vec<String> =
            all.filter(|one| one.to_lowercase().any(|one| one.is_ascii())).map(String::from).collect();
        assert_eq!(found, CAPITALS_OF_ASCII);
    }

    proptest! {
        /// A text that contains another is never passed over, whatever lies beside it.
        #[test]
        fn texts_that_pass_may_pass(
            value in "[a-zA-Z\u{130}\u{212a}ßÄé ]{0,12}",
            beside in prop::collection::vec(any::<u8>(), 0..9),
            part in any::<(prop::sample::Index, prop::sample::Index)>(),
        ) {
            let lower: Vec<char> = value.to_lowercase().chars().collect();
            let (from, to) = (part.0.index(lower.len() + 1), part.1.index(lower.len() + 1));
            let text: String = lower[from.min(to)..from.max(to)].iter().collect();
            let test = TextTest::new(Vec::new(), &text);
            prop_assert!(contains(&value, &text));
            prop_assert!(test.may_pass_among(&[&beside, value.as_bytes(), &beside].concat()));
        }
    }
}

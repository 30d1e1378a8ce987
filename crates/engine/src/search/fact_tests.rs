//! Tests of single facts, by which a search passes over rows before it makes anything of them.
//!
//! A test only tells that a row does not fit; one that passes is looked at whole.

use std::cell::RefCell;

use content::piece::{self, Normalisation};
use event::{Facts, Slot, Type, Value};
use journal::{FactTest, StoredFact, VersionDescription, lower_case};
use judge::Condition;
use memchr::memmem::{self, Finder};

use super::logged_scope;

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

/// Places of a text at most: of one that lies nearly everywhere they tell nothing.
const PLACES_MAX: usize = 1024;

/// The places at which something begins; `None` if they are too many, or it is empty.
fn places(finder: &Finder<'_>, texts: &[u8]) -> Option<Vec<usize>> {
    if finder.needle().is_empty() {
        return None;
    }
    let (mut places, mut from) = (Vec::new(), 0);
    // They may overlap.
    while let Some(next) = finder.find(texts.get(from..)?) {
        if places.len() == PLACES_MAX {
            return None;
        }
        places.push(from + next);
        from += next + 1;
    }
    Some(places)
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

    fn places_among(&self, _kind: Type, texts: &[u8]) -> Option<Vec<usize>> {
        let finder = self.finder.as_ref()?;
        if CAPITALS_OF_ASCII.iter().any(|capital| memmem::find(texts, capital.as_bytes()).is_some()) {
            return None;
        }
        places(finder, &texts.to_ascii_lowercase())
    }
}

/// Bytes of a piece that is certain to be a whole text: one that was cut, at a character, is longer.
const PIECE_BYTES_CERTAIN: usize = piece::PIECE_BYTES_MAX - 4;

/// A piece that is made of a fact.
#[derive(Debug)]
pub(super) struct PieceTest {
    facts: [Slot; 1],
    normalise: Normalisation,
    piece: String,
    finder: Finder<'static>,
}

impl FactTest for PieceTest {
    fn facts(&self) -> &[Slot] {
        &self.facts
    }

    fn passes(&self, value: &dyn StoredFact) -> Option<bool> {
        let Some(bytes) = value.bytes() else { return self.is_made_of(value) };
        self.only(value.kind()).map_or_else(|| self.is_made_of(value), |only| Some(bytes == only))
    }

    fn only(&self, kind: Type) -> Option<&[u8]> {
        let is_only = match (kind, self.normalise) {
            // An address is stored as its piece is.
            (Type::Ip, Normalisation::Exact) => true,
            // Of a longer text the piece is the beginning.
            (Type::String, Normalisation::Exact) => self.piece.len() < PIECE_BYTES_CERTAIN,
            _ => false,
        };
        is_only.then_some(self.piece.as_bytes())
    }

    fn places_among(&self, kind: Type, texts: &[u8]) -> Option<Vec<usize>> {
        match (kind, self.normalise) {
            // A piece of a text is the text, or its beginning.
            (Type::String | Type::List | Type::Ip, Normalisation::Exact) => places(&self.finder, texts),
            _ => None,
        }
    }
}

impl PieceTest {
    /// Looks for a piece of this fact.
    pub(super) fn new(fact: Slot, normalise: Normalisation, piece: &str) -> PieceTest {
        let finder = Finder::new(piece).into_owned();
        PieceTest { facts: [fact], normalise, piece: piece.to_owned(), finder }
    }

    fn is_made_of(&self, value: &dyn StoredFact) -> Option<bool> {
        Some(value.value()?.is_some_and(|value: Value| {
            let mut is_made = false;
            piece::pieces(&value, self.normalise, &mut |made| is_made |= made == self.piece);
            is_made
        }))
    }
}

/// Returns true if a text contains another one that is in lower case, in capitals or not.
pub(super) fn contains(value: &str, text: &str) -> bool {
    lower_case(value).contains(text)
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

    #[test]
    fn the_only_value_of_a_piece_is_as_it_is_stored() {
        let check = |value: Value, stored: &str, is_only: bool| {
            let mut pieces = Vec::new();
            piece::pieces(&value, Normalisation::Exact, &mut |piece| pieces.push(piece.to_owned()));
            let [piece] = &pieces[..] else { panic!("{value:?}: {pieces:?}") };
            let test = PieceTest::new(Slot(0), Normalisation::Exact, piece);
            assert_eq!(test.only(value.type_of()), is_only.then_some(stored.as_bytes()), "{value:?}");
            let among = format!("x{stored}x");
            assert_eq!(test.places_among(value.type_of(), among.as_bytes()), Some(vec![1]), "{value:?}");
            assert_eq!(
                test.places_among(value.type_of(), &stored.as_bytes()[1..]),
                Some(vec![]),
                "{value:?}"
            );
            let by_host = PieceTest::new(Slot(0), Normalisation::Host, piece);
            assert!(by_host.only(value.type_of()).is_none());
            assert_eq!(by_host.places_among(value.type_of(), b""), None);
        };
        // Addresses are stored as they are displayed.
        for address in ["192.0.2.7", "2001:db8::7", "::ffff:192.0.2.7", "::"] {
            check(Value::Ip(address.parse().unwrap()), address, true);
        }
        check(Value::from("Zebra quilt"), "Zebra quilt", true);
        let long = format!("x{}", "ä".repeat(piece::PIECE_BYTES_MAX));
        check(Value::from(long.as_str()), &long, false);
        let list = Value::List(["zebra".into()].into());
        check(list, "zebra", false);
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
            let among = test.places_among(Type::String, &[&beside, value.as_bytes(), &beside].concat());
            let own = beside.len()..beside.len() + value.len();
            prop_assert!(among.is_none_or(|places| places.iter().any(|place| own.contains(place))), "{text:?}");
        }
    }
}

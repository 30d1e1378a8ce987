//! Pieces of several values: what is hashed into a key of several fields.
//!
//! Such a piece is the JSON array of its parts, as `serde_json` writes one without spaces: `["ann","192.0.2.7"]`. So it is
//! ordered, no two lists look alike, and the text that is hashed is also the one that people read, that the ban list keeps, and
//! that is given to look a key up.

use std::cell::Cell;

use event::Value;

use crate::piece::{self, Normalisation, PIECES_MAX};

/// Most values that a piece is made of.
pub const VALUES_MAX: usize = 8;
/// Most bytes that a thread keeps for the next piece: to ask for memory would cost as much as all else.
const BUFFER_BYTES: usize = 4 << 10;
/// Bytes of the pieces of one row after which there are no more of them.
const BYTES_MAX: usize = 1 << 20;

thread_local! {
    /// Memory for the next piece.
    static BUFFER: Cell<String> = const { Cell::new(String::new()) };
}

/// Parts, quoted as they stand in a piece, one behind the other.
#[derive(Clone, Debug, Default)]
pub struct QuotedParts {
    text: String,
    ends: Vec<usize>,
}

impl QuotedParts {
    /// Adds a part. An empty one stands for a value that gives none.
    pub fn push(&mut self, part: &str) {
        if !part.is_empty() {
            quote(part, &mut self.text);
        }
        self.ends.push(self.text.len());
    }

    /// The number of parts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A part as it stands in a piece; `None` for an empty one.
    pub fn get(&self, at: usize) -> Option<&str> {
        let start = at.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.text.get(start..*self.ends.get(at)?).filter(|part| !part.is_empty())
    }
}

/// Puts a part behind a text as a JSON string.
#[inline]
fn quote(part: &str, text: &mut String) {
    let is_special = |byte: u8| byte == b'"' || byte == b'\\' || byte < b' ';
    // Without an early end, many bytes are looked at together.
    if part.bytes().fold(false, |found, byte| found | is_special(byte)) {
        // A text can always be written as JSON.
        text.push_str(&serde_json::to_string(part).unwrap_or_default());
    } else {
        text.push('"');
        text.push_str(part);
        text.push('"');
    }
}

/// A piece in the making.
#[derive(Clone, Debug, Default)]
pub struct CompositePiece(String);

impl CompositePiece {
    /// Makes the piece of these parts, in the place of the one before; `None` if one is missing.
    pub fn of<'p>(&mut self, parts: impl IntoIterator<Item = Option<&'p str>>) -> Option<&str> {
        self.0.clear();
        for part in parts {
            self.0.push(if self.0.is_empty() { '[' } else { ',' });
            self.0.push_str(part?);
        }
        self.0.push(']');
        Some(&self.0)
    }
}

/// Hands on the pieces of several values: each combination of a piece of every value, in the order of the values, the last of
/// which changes first. A value that gives none leaves none at all; there are at most [`PIECES_MAX`], and fewer where they are
/// long.
pub fn pieces<'v>(
    values: impl IntoIterator<Item = (Option<&'v Value>, Normalisation), IntoIter: Clone>,
    out: &mut dyn FnMut(&str),
) {
    let values = values.into_iter();
    let mut only = BUFFER.take();
    match only_piece(values.clone(), &mut only) {
        OnlyPiece::Missing => {}
        OnlyPiece::Made => out(&only),
        OnlyPiece::Several => combinations(values, out),
    }
    only.clear();
    only.shrink_to(BUFFER_BYTES);
    BUFFER.set(only);
}

/// The outcome of making the one piece of several values.
enum OnlyPiece {
    /// A value gives none.
    Missing,
    /// Each value gives one.
    Made,
    /// A value gives several.
    Several,
}

/// Writes the piece of values of which each gives one.
fn only_piece<'v>(
    values: impl Iterator<Item = (Option<&'v Value>, Normalisation)>,
    only: &mut String,
) -> OnlyPiece {
    for (value, how) in values {
        let mut count = 0;
        if let Some(value) = value {
            piece::pieces(value, how, &mut |part| {
                if count == 0 {
                    only.push(if only.is_empty() { '[' } else { ',' });
                    quote(part, only);
                }
                count += 1;
            });
        }
        match count {
            0 => return OnlyPiece::Missing,
            1 => {}
            _ => return OnlyPiece::Several,
        }
    }
    only.push(']');
    OnlyPiece::Made
}

/// Hands on the pieces of values of which one gives several.
fn combinations<'v>(
    values: impl Iterator<Item = (Option<&'v Value>, Normalisation)>,
    out: &mut dyn FnMut(&str),
) {
    let (mut parts, mut ends) = (QuotedParts::default(), Vec::with_capacity(VALUES_MAX));
    for (value, how) in values {
        let start = parts.len();
        if let Some(value) = value {
            piece::pieces(value, how, &mut |part| parts.push(part));
        }
        if parts.len() == start {
            return;
        }
        ends.push(parts.len());
    }
    let start = |ends: &[usize], value: usize| value.checked_sub(1).map_or(0, |before| ends[before]);
    let mut places: Vec<usize> = (0..ends.len()).map(|value| start(&ends, value)).collect();
    let (mut piece, mut bytes) = (CompositePiece::default(), 0);
    for _ in 0..PIECES_MAX {
        if let Some(piece) = piece.of(places.iter().map(|place| parts.get(*place))) {
            out(piece);
            bytes += piece.len();
        }
        if bytes > BYTES_MAX {
            return;
        }
        let Some(next) = (0..places.len()).rev().find(|value| places[*value] + 1 < ends[*value]) else {
            return;
        };
        places[next] += 1;
        for (later, place) in places.iter_mut().enumerate().skip(next + 1) {
            *place = start(&ends, later);
        }
    }
}

/// The text of a piece of these values, as they are.
pub fn text<T: AsRef<str>>(values: &[T]) -> String {
    let mut parts = QuotedParts::default();
    // Here an empty value is one.
    values.iter().for_each(|value| parts.push(value.as_ref()));
    let quoted = (0..parts.len()).map(|at| Some(parts.get(at).unwrap_or("\"\"")));
    CompositePiece::default().of(quoted).unwrap_or_default().to_owned()
}

/// The values of a text such as `["ann","192.0.2.7"]`, if it is one of so many.
pub fn values(text: &str, count: usize) -> Option<Vec<String>> {
    let values: Vec<String> = serde_json::from_str(text).ok()?;
    (values.len() == count).then_some(values)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use event::{Secret, Shingle};
    use proptest::prelude::*;

    use super::*;

    fn collect(values: &[(Value, Normalisation)]) -> Vec<String> {
        let mut all = Vec::new();
        pieces(values.iter().map(|(value, how)| (Some(value), *how)), &mut |piece| {
            all.push(piece.to_owned())
        });
        all
    }

    fn list(items: &[&str]) -> Value {
        Value::List(items.iter().map(|item| (*item).into()).collect())
    }

    #[test]
    fn values_give_each_combination_in_their_order() {
        use Normalisation::{Address, Exact, Text};
        assert_eq!(collect(&[("ann".into(), Exact), (7i64.into(), Exact)]), [r#"["ann","7"]"#]);
        assert_eq!(
            collect(&[(list(&["a", "b"]), Exact), ("x".into(), Exact), (list(&["1", "2"]), Exact)]),
            [r#"["a","x","1"]"#, r#"["a","x","2"]"#, r#"["b","x","1"]"#, r#"["b","x","2"]"#]
        );
        assert_eq!(
            collect(&[("Ann+a@Example.com".into(), Address), ("Order  77".into(), Text)]),
            [r#"["ann+a@example.com","order 0"]"#, r#"["ann@example.com","order 0"]"#]
        );
        assert_eq!(collect(&[("ann".into(), Exact), ("".into(), Exact)]), [""; 0]);
        assert_eq!(collect(&[("no address".into(), Address), ("x".into(), Exact)]), [""; 0]);
        let mut missing = 0;
        pieces([(Some(&Value::from("a")), Exact), (None, Exact)], &mut |_| missing += 1);
        assert_eq!(missing, 0);
        let many = list(&["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]);
        assert_eq!(collect(&vec![(many.clone(), Exact); VALUES_MAX]).len(), PIECES_MAX);
        let long = Value::from("x".repeat(BYTES_MAX / 20));
        let pieces = collect(&[(many.clone(), Exact), (many, Exact), (long, Exact)]);
        assert_eq!(pieces.len(), 20, "the costliest lists give no more than some megabyte");
    }

    #[test]
    fn a_piece_reads_back() {
        for values in [vec!["ann", "192.0.2.7"], vec![r#"","#, r"\", "\n\u{1}\u{7f}é"], vec!["", "x"]] {
            let text = text(&values);
            assert_eq!(text, serde_json::to_string(&values).unwrap());
            let read = super::values(&text, values.len()).unwrap();
            assert_eq!(read, values);
        }
        assert_eq!(values(r#"["a","b"]"#, 3), None);
        assert_eq!(values("a,b", 2), None);
    }

    proptest! {
        #[test]
        fn no_two_lists_have_one_piece(
            one in proptest::collection::vec("[a-c\",\\\\\\[\\]\u{0}]{1,3}", 2..4),
            other in proptest::collection::vec("[a-c\",\\\\\\[\\]\u{0}]{1,3}", 2..4),
        ) {
            let piece = |values: &[String]| {
                let values: Vec<_> = values.iter().map(|value| (value.as_str().into(), Normalisation::Exact)).collect();
                collect(&values)
            };
            prop_assert_eq!(piece(&one), [serde_json::to_string(&one).unwrap()]);
            prop_assert_eq!(piece(&one) == piece(&other), one == other);
        }

        #[test]
        fn combinations_are_distinct_and_bounded(
            values in proptest::collection::vec(proptest::collection::vec("[a-d]{0,2}", 1..20), 1..4),
        ) {
            let secret = Secret::new([5; 16]);
            let count = values.iter().map(|items| items.iter().filter(|item| !item.is_empty()).collect::<HashSet<_>>().len());
            let count: usize = count.product();
            let values: Vec<_> = values
                .iter()
                .map(|items| (list(&items.iter().map(String::as_str).collect::<Vec<_>>()), Normalisation::Exact))
                .collect();
            let all = collect(&values);
            prop_assert_eq!(all.len(), count.min(PIECES_MAX));
            let distinct: HashSet<Shingle> = all.iter().map(|piece| secret.shingle(piece.as_bytes())).collect();
            prop_assert_eq!(distinct.len(), all.len());
        }
    }
}

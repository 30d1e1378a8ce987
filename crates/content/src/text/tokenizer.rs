//! A fact cut into the tokens that a classifier learns: words, pairs of neighbouring words, and overlapping runs of four
//! characters.
//!
//! Words and pairs are the orthogonal sparse bigrams of Siefkes, Assis, Chhabra and Yerazunis ("Combining Winnow and
//! Orthogonal Sparse Bigrams for Incremental Spam Filtering", 2004) with a window of two: wider windows cost a token a
//! word and told no more. Runs of four characters (Goodman and Yih, "Online Discriminative Spam Filter Training", 2006;
//! Sculley and Wachman, "Relaxed Online SVMs for Spam Filtering", 2007) see through spellings that words do not.
//! Both are of the text as [`text::normalise`] writes it; what the text looked like before, capitals above all, is seen
//! by runs of its own.
//!
//! Words, runs, and what is known beside the text are three views of an event. A text has hundreds of tokens and what
//! is beside it a few dozen, so each view is judged for itself ([`crate::text::classifier`]).

use event::Value;

use crate::text;
use crate::text::character::is_alphanumeric;

/// Most different tokens of each view of an event that a classifier takes: whoever collects them leaves the others out.
pub const TOKENS_MAX: [usize; VIEWS] = [800, 600, 400];
/// Number of views.
pub const VIEWS: usize = 3;
/// Most words and pairs of one fact.
pub const WORDS_MAX: usize = 1_000;
/// Most runs of characters of one fact, normalised.
pub const RUNS_MAX: usize = 400;
/// Most runs of characters of one fact as it was written.
pub const RAW_RUNS_MAX: usize = 200;
/// Bytes of a fact, or of each item of a list, that are looked at.
pub const TEXT_BYTES_MAX: usize = 8 * 1024;
/// Items of a list that are looked at.
pub const ITEMS_MAX: usize = 50;
/// Bytes of a word beyond which it is cut.
const WORD_BYTES_MAX: usize = 40;
/// Bytes of a whole value that is a token of its own.
const WHOLE_BYTES_MAX: usize = 64;
/// Characters of a run.
const RUN: usize = 4;

/// The way in which a fact is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokenization {
    /// Into words and runs.
    Text,
    /// Into words; the items of a list are taken as they stand. For what is known beside the text.
    Trait,
}

/// The view that a token belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenView {
    /// The words of texts.
    Words,
    /// The runs of characters of texts.
    Runs,
    /// The traits that are known beside the texts.
    Traits,
}

/// Hands on the tokens of a fact, in the order in which they are found; the same may come several times. A fact that
/// is missing is a token, too. Floats, times and bytes give none: they are hardly ever the same twice.
///
/// A token is a text: what it is of, how it was cut, and what was cut.
pub fn tokens(fact: &str, value: Option<&Value>, cut: Tokenization, each: &mut dyn FnMut(TokenView, &str)) {
    let left = TokenAllowance { words: WORDS_MAX, runs: RUNS_MAX, raw_runs: RAW_RUNS_MAX };
    let mut cutter = Tokenizer { fact, cut, token: String::new(), left, each };
    match value {
        None => cutter.give("missing", &[]),
        Some(Value::String(text)) => cutter.text(text),
        Some(Value::List(items)) => {
            for item in items.iter().take(ITEMS_MAX) {
                match cut {
                    Tokenization::Text => cutter.text(item),
                    Tokenization::Trait => cutter.give("whole", &[text::truncate(item, WHOLE_BYTES_MAX)]),
                }
            }
        }
        Some(value @ (Value::Integer(_) | Value::Bool(_) | Value::Ip(_))) => {
            cutter.give("whole", &[&value.to_string()]);
        }
        Some(Value::Float(_) | Value::Time(_) | Value::Bytes(_)) => {}
    }
}

struct Tokenizer<'a> {
    fact: &'a str,
    cut: Tokenization,
    token: String,
    left: TokenAllowance,
    each: &'a mut dyn FnMut(TokenView, &str),
}

impl Tokenizer<'_> {
    fn text(&mut self, written: &str) {
        let written = text::truncate(written, TEXT_BYTES_MAX);
        let normalised = text::normalise(written);
        if normalised.len() <= WHOLE_BYTES_MAX {
            self.give("whole", &[&normalised]);
        }
        let mut before = None;
        for word in words(&normalised) {
            if self.left.words < 2 {
                break;
            }
            self.left.words -= 2;
            self.give("word", &[word]);
            if let Some(before) = before.replace(word) {
                self.give("word", &[before, " ", word]);
            }
        }
        if self.cut == Tokenization::Trait {
            return;
        }
        self.left.runs = self.runs("run", &normalised, self.left.runs);
        if written != normalised {
            self.left.raw_runs = self.runs("raw", written, self.left.raw_runs);
        }
    }

    /// Gives at most so many runs of a text; answers how many may still come.
    fn runs(&mut self, how: &str, text: &str, left: usize) -> usize {
        let fixed = self.begin(how);
        let mut starts = [0; RUN + 1];
        let mut given = 0;
        let ends = text.char_indices().map(|(at, _)| at).skip(1).chain([text.len()]);
        for (number, end) in ends.enumerate() {
            starts.rotate_left(1);
            starts[RUN] = end;
            if number + 1 < RUN {
                continue;
            }
            if given == left {
                return 0;
            }
            given += 1;
            self.token.truncate(fixed);
            self.token.push_str(&text[starts[0]..end]);
            (self.each)(TokenView::Runs, &self.token);
        }
        left - given
    }

    fn give(&mut self, how: &str, parts: &[&str]) {
        self.begin(how);
        parts.iter().for_each(|part| self.token.push_str(part));
        let view = if self.cut == Tokenization::Text { TokenView::Words } else { TokenView::Traits };
        (self.each)(view, &self.token);
    }

    /// Begins a token with what it is of; answers how long that is.
    fn begin(&mut self, how: &str) -> usize {
        self.token.clear();
        for part in [self.fact, " ", how, " "] {
            self.token.push_str(part);
        }
        self.token.len()
    }
}

/// The numbers of words and runs that may still be taken of a fact.
struct TokenAllowance {
    words: usize,
    runs: usize,
    raw_runs: usize,
}

/// Runs of letters, digits and the signs that spam puts between or beside them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part =
        |c: char| is_alphanumeric(c) || matches!(c, '$' | '!' | '\'' | '-' | '_' | '%' | '#' | '@' | '.');
    text.split(move |c: char| !is_part(c))
        .map(|word| text::truncate(word.trim_matches(['.', '\'', '-']), WORD_BYTES_MAX))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(value: impl Into<Value>) -> Vec<String> {
        let mut list = Vec::new();
        tokens("f", Some(&value.into()), Tokenization::Text, &mut |_, token| list.push(token.to_owned()));
        list
    }

    #[test]
    fn a_text_is_cut_into_words_pairs_and_runs() {
        assert_eq!(
            cut("Buy it"),
            [
                "f whole buy it",
                "f word buy",
                "f word it",
                "f word buy it",
                "f run buy ",
                "f run uy i",
                "f run y it",
                "f raw Buy ",
                "f raw uy i",
                "f raw y it",
            ]
        );
        assert_eq!(cut("no"), ["f whole no", "f word no"]);
        assert_eq!(cut(7i64), ["f whole 7"]);
        assert_eq!(cut(0.5), [""; 0]);
    }

    #[test]
    fn obfuscations_share_the_tokens_of_what_they_hide() {
        let plain = cut("viagra");
        let hidden = cut("vi\u{200B}\u{430}gra");
        assert!(plain.iter().all(|token| hidden.contains(token)), "{hidden:?}");
    }

    #[test]
    fn a_missing_fact_is_a_token() {
        let mut list = Vec::new();
        tokens("a", None, Tokenization::Text, &mut |view, token| list.push((view, token.to_owned())));
        assert_eq!(list, [(TokenView::Words, "a missing ".to_owned())]);
    }

    #[test]
    fn a_trait_has_words_and_no_runs_and_the_items_of_a_list_stand_as_they_are() {
        let mut list = Vec::new();
        let mut each = |view, token: &str| {
            assert_eq!(view, TokenView::Traits);
            list.push(token.to_owned());
        };
        tokens("a", Some(&"The Bat!".into()), Tokenization::Trait, &mut each);
        tokens("b", Some(&vec!["Date Aa, 0".to_owned()].into()), Tokenization::Trait, &mut each);
        assert_eq!(
            list,
            ["a whole the bat!", "a word the", "a word bat!", "a word the bat!", "b whole Date Aa, 0"]
        );
    }

    #[test]
    fn words_and_runs_are_views_of_their_own() {
        let mut each = |view, token: &str| {
            let is_run = token.starts_with("f run ") || token.starts_with("f raw ");
            assert_eq!(view, if is_run { TokenView::Runs } else { TokenView::Words }, "{token}");
        };
        tokens("f", Some(&"Buy it now".into()), Tokenization::Text, &mut each);
    }

    proptest! {
        #[test]
        fn a_fact_gives_no_more_than_its_bounds(texts in prop::collection::vec("\\PC{0,400}", 0..40)) {
            let list = cut(Value::from(texts));
            let count = |cut: &str| list.iter().filter(|token| token.starts_with(&format!("f {cut} "))).count();
            prop_assert!(count("word") <= WORDS_MAX && count("run") <= RUNS_MAX && count("raw") <= RAW_RUNS_MAX);
            prop_assert!(count("whole") <= ITEMS_MAX);
        }

        #[test]
        fn every_run_has_as_many_characters(text in "\\PC{0,60}") {
            for token in cut(text.as_str()) {
                if let Some(run) = token.strip_prefix("f run ").or_else(|| token.strip_prefix("f raw ")) {
                    prop_assert_eq!(run.chars().count(), RUN);
                }
            }
        }
    }
}

//! Many patterns over one line: one pass finds those that can match, by the texts that they need.

use aho_corasick::{AhoCorasick, MatchKind};

use crate::line_pattern::{LinePattern, MatchedGroups, StepLimitError};

/// Patterns in an order, searched as one.
#[derive(Default)]
pub struct PatternSet {
    patterns: Vec<LinePattern>,
    /// Needed texts of all patterns.
    words: Option<AhoCorasick>,
    /// The patterns that need each text.
    patterns_of_word: Vec<Vec<usize>>,
    /// Patterns that need no text, one bit each.
    always: Vec<u64>,
    /// True if a needed text has a line's end in it.
    is_by_line_ends: bool,
}

/// The patterns of a set that may match in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidatePatterns(Vec<u64>);

impl CandidatePatterns {
    /// The numbers of the patterns, in the set's order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest.checked_sub(1)?;
                Some(index * 64 + bit)
            })
        })
    }

    /// Returns true if no pattern can match.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
}

impl PatternSet {
    /// Builds a set of patterns.
    pub fn new(patterns: Vec<LinePattern>) -> PatternSet {
        let mut words: Vec<(&[u8], Vec<usize>)> = Vec::new();
        let mut always = vec![0u64; patterns.len().div_ceil(64)];
        let mut pairs: Vec<(&[u8], usize)> = Vec::new();
        for (index, pattern) in patterns.iter().enumerate() {
            pairs.extend(pattern.required().iter().map(|word| (word.as_slice(), index)));
            if pattern.required().is_empty() {
                always[index / 64] |= 1 << (index % 64);
            }
        }
        pairs.sort_unstable();
        for (word, index) in pairs {
            match words.last_mut() {
                Some((last, indices)) if *last == word => indices.push(index),
                _ => words.push((word, vec![index])),
            }
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .ascii_case_insensitive(true)
            .build(words.iter().map(|(word, _)| word));
        let is_by_line_ends = words.iter().any(|(word, _)| word.contains(&b'\n'));
        let patterns_of_word = words.into_iter().map(|(_, indices)| indices).collect::<Vec<_>>();
        match automaton {
            Ok(automaton) if !patterns_of_word.is_empty() => {
                PatternSet { words: Some(automaton), patterns_of_word, always, patterns, is_by_line_ends }
            }
            // Without the pass all of them are tried.
            _ => {
                for index in 0..patterns.len() {
                    always[index / 64] |= 1 << (index % 64);
                }
                PatternSet { words: None, patterns_of_word: Vec::new(), always, patterns, is_by_line_ends }
            }
        }
    }

    /// The patterns.
    pub fn patterns(&self) -> &[LinePattern] {
        &self.patterns
    }

    /// Returns true if a pattern may match in a text, or in a part of it with a line's end behind.
    pub fn may_match(&self, text: &str) -> bool {
        let Some(words) = self.words.as_ref().filter(|_| self.always.iter().all(|&word| word == 0)) else {
            return true;
        };
        self.is_by_line_ends || words.is_match(text)
    }

    /// Returns the patterns that may match in a text.
    pub fn candidates(&self, text: &str) -> CandidatePatterns {
        let mut candidates = self.always.clone();
        if let Some(words) = &self.words {
            for found in words.find_overlapping_iter(text) {
                for &index in &self.patterns_of_word[found.pattern().as_usize()] {
                    candidates[index / 64] |= 1 << (index % 64);
                }
            }
        }
        CandidatePatterns(candidates)
    }

    /// Returns the first pattern of the set's order that matches, with its groups. Patterns that took too many steps
    /// back are passed over; `exceeded` says how many.
    pub fn first_match(&self, text: &str, exceeded: &mut u64) -> Option<(usize, MatchedGroups)> {
        self.candidates(text).iter().find_map(|index| match self.patterns[index].search(text) {
            Ok(groups) => groups.map(|groups| (index, groups)),
            Err(StepLimitError) => {
                *exceeded += 1;
                None
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::python_regex::LineAnchors;

    #[test]
    fn the_first_pattern_in_order_matches() {
        let patterns = ["^refused by (?P<a>\\S+)$", "(?i)REFUSED", "\\d+", "^x(?!y)refused"];
        let patterns = patterns
            .iter()
            .map(|pattern| LinePattern::new(pattern, LineAnchors::Text).expect("pattern"))
            .collect();
        let set = PatternSet::new(patterns);
        let check = |text: &str, candidates: &[usize], first: Option<usize>| {
            assert_eq!(set.candidates(text).iter().collect::<Vec<_>>(), candidates, "{text}");
            assert_eq!(set.first_match(text, &mut 0).map(|(index, _)| index), first, "{text}");
        };
        check("refused by me\n", &[0, 1, 2], Some(0));
        check("was Refused by me\n", &[0, 1, 2], Some(1));
        check("12\n", &[2], Some(2));
        check("xrefused\n", &[1, 2, 3], Some(1));
        check("nothing\n", &[2], None);
        assert!(PatternSet::default().candidates("x").is_empty());
    }

    #[test]
    fn what_cannot_match_is_told_by_one_pass() {
        let check = |patterns: &[&str], text: &str, expected: bool| {
            let patterns = patterns.iter().map(|pattern| LinePattern::new(pattern, LineAnchors::Text));
            let set = PatternSet::new(patterns.map(|pattern| pattern.expect("pattern")).collect());
            assert_eq!(set.may_match(text), expected, "{text}");
        };
        check(&["^refused by", "denied"], "was Refused by me\n", true);
        check(&["^refused by", "denied"], "accepted\n", false);
        // One that needs no text may always match, and one that needs a line's end where a part of the text ends.
        check(&["^refused by", "\\d+"], "accepted\n", true);
        check(&["^refused\\n"], "refused by me\n", true);
        check(&[], "x\n", true);
    }

    #[test]
    fn a_set_of_thousands_finds_each_of_its_patterns() {
        let pattern = |index: usize| LinePattern::new(&format!("^user word{index}x from"), LineAnchors::Text);
        let set = PatternSet::new((0..2000).map(|index| pattern(index).expect("pattern")).collect());
        for index in [0, 63, 64, 1999] {
            let text = format!("user word{index}x from\n");
            assert_eq!(set.first_match(&text, &mut 0).map(|(found, _)| found), Some(index));
        }
    }
}

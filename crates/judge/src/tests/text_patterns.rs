//! Sets whose entries are found in texts.

use proptest::prelude::*;

use crate::{Set, SetMatch, SetType};

fn set(how: SetMatch, entries: &[&str]) -> Result<Set, String> {
    Set::matching(SetType::String, how, entries.iter().copied())
        .map_err(|error| format!("{}: {error}", error.entry))
}

#[test]
fn entries_are_found_where_they_stand() {
    let check = |how: SetMatch, entries: &[&str], found: &[&str], passed_over: &[&str]| {
        let set = set(how, entries).expect("set");
        assert_eq!((set.how(), set.len(), set.kind()), (how, entries.len(), SetType::String));
        for text in found {
            assert!(set.has(text), "{how:?} {text}");
        }
        for text in passed_over {
            assert!(!set.has(text), "{how:?} {text}");
        }
    };
    check(SetMatch::Equal, &["ab"], &["ab"], &["abc", "xab", ""]);
    check(SetMatch::Prefix, &["ab", "é"], &["ab", "abc", "éa"], &["xab", "a", ""]);
    check(SetMatch::Suffix, &["ab", "é"], &["ab", "xab", "aé"], &["abc", "b", ""]);
    check(SetMatch::Contains, &["ab", "é"], &["xabx", "aéb"], &["axb", ""]);
    check(
        SetMatch::Word,
        &["ab", "c d"],
        &["ab", "x ab.", "(ab)", "x c d"],
        &["abc", "éab", "ab1", "c  d", ""],
    );
    // The first place of a word is none, the second is.
    check(SetMatch::Word, &["ab"], &["abab ab"], &["abab"]);
    check(SetMatch::Regex, &["^a+b$", "(?i)spam"], &["aab", "more SPAM"], &["xab", "sp am", ""]);
    check(SetMatch::Contains, &[], &[], &["", "a"]);
    let long = "x".repeat(2 * Set::ENTRY_BYTES_MAX);
    let longest = "x".repeat(Set::ENTRY_BYTES_MAX);
    check(SetMatch::Suffix, &[&longest], &[&long, &longest], &[&long[..Set::ENTRY_BYTES_MAX - 1]]);
}

#[test]
fn what_is_too_much_is_told_with_its_entry() {
    let many: Vec<String> = (0..=1000).map(|at| format!("a{at}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (how, entries, expected) in [
        (SetMatch::Word, &["a", ""][..], "1: an empty entry"),
        (SetMatch::Regex, &["a", "("][..], "1: `(` is no regular expression"),
        (SetMatch::Regex, &many[..], "1000: a set has at most 1000 regular expressions"),
        (SetMatch::Regex, &[r"\w{500}{500}"][..], "0: `"),
    ] {
        let error = set(how, entries).expect_err(expected);
        assert!(error.starts_with(expected), "{error}");
    }
    let large = "y".repeat(Set::ENTRY_BYTES_MAX);
    let all = std::iter::repeat_n(large.as_str(), (8 << 20) / Set::ENTRY_BYTES_MAX + 1);
    let error = Set::matching(SetType::String, SetMatch::Contains, all).expect_err("too large");
    assert!(error.message.contains("at most 8 MiB"), "{error}");
}

#[test]
fn sets_that_find_otherwise_are_others() {
    let digests: std::collections::BTreeSet<[u8; 32]> =
        SetMatch::ALL.into_iter().map(|how| *set(how, &["a", "b"]).expect("set").digest()).collect();
    assert_eq!(digests.len(), SetMatch::ALL.len());
    let [one, other] = [["a", "b"], ["b", "a"]].map(|entries| set(SetMatch::Word, &entries).expect("set"));
    assert_eq!(one, other);
    assert_eq!(one.entries_from(1).collect::<Vec<_>>(), ["b"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Beside the functions of texts, asked entry by entry.
    #[test]
    fn one_pass_finds_what_is_found_entry_by_entry(
        entries in prop::collection::vec("[abé ]{1,3}", 1..6),
        text in "[abé .]{0,10}",
    ) {
        let is_of_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let is_word = |text: &str, start: usize, end: usize| {
            !is_of_word(text[..start].chars().next_back()) && !is_of_word(text[end..].chars().next())
        };
        let stands = |entry: &str| {
            let mut places = text.char_indices().map(|(at, _)| at);
            places.any(|at| text[at..].starts_with(entry) && is_word(&text, at, at + entry.len()))
        };
        for (how, expected) in [
            (SetMatch::Prefix, entries.iter().any(|entry| text.starts_with(entry))),
            (SetMatch::Suffix, entries.iter().any(|entry| text.ends_with(entry))),
            (SetMatch::Contains, entries.iter().any(|entry| text.contains(entry))),
            (SetMatch::Word, entries.iter().any(|entry| stands(entry))),
        ] {
            let set = Set::matching(SetType::String, how, entries.iter().map(String::as_str)).expect("set");
            prop_assert_eq!(set.has(&text), expected, "{:?}", how);
        }
    }
}

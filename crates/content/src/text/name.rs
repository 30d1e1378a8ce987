//! The names that a short text gives: of whom it says to be.
//!
//! A name is a word, or two or three that stand in a row, without what is between them: `wells`, `fargo` and `wellsfargo` of
//! `WeIIs Fargo`, letters being read as people read them. Which of them are worth imitating is for a list to say.

use crate::text::obfuscation::deobfuscate;
use crate::text::{plain, truncate};

/// Most bytes of a text that are looked at.
const TEXT_BYTES_MAX: usize = 256;
/// Most words of a text.
const WORDS_MAX: usize = 24;
/// Most words that make one name.
const JOINED_MAX: usize = 3;
/// Longest name.
const NAME_BYTES_MAX: usize = 64;

/// Gives each name of a text.
pub(crate) fn find(text: &str, mut found: impl FnMut(String)) {
    let plain = plain(truncate(text, TEXT_BYTES_MAX));
    let read = deobfuscate(&plain);
    let words = read.text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.take(WORDS_MAX).collect();
    for first in 0..words.len() {
        for count in 1..=JOINED_MAX.min(words.len() - first) {
            let name = words[first..first + count].concat();
            if name.len() <= NAME_BYTES_MAX {
                found(name);
            }
        }
    }
}

/// Returns true if a registrable domain is one of a name's own: if its first label is the name, has it in it
/// (`facebookmail.com`) or is it with hyphens between. One that has it beside a hyphen (`paypal-secure.com`) is not, as that is
/// how others write it.
pub(crate) fn is_own_domain(name: &str, registrable: &str) -> bool {
    let label = registrable.split('.').next().unwrap_or_default();
    match label.contains('-') {
        true => label.replace('-', "") == name,
        false => label.contains(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_and_what_they_make_together() {
        let names = |text: &str| {
            let mut names = Vec::new();
            find(text, |name| names.push(name));
            names
        };
        assert_eq!(
            names("Wells-Fargo Bank"),
            ["wells", "wellsfargo", "wellsfargobank", "fargo", "fargobank", "bank"]
        );
        assert_eq!(names("P\u{430}yPal"), ["paypal"]);
        assert_eq!(names("P a y P a l"), ["paypal"]);
        assert!(names(" \u{2014} ").is_empty());
        assert!(names(&"ab ".repeat(10_000)).len() < WORDS_MAX * JOINED_MAX);
    }

    #[test]
    fn domains_are_of_whom_they_name() {
        for (name, domain, is_own) in [
            ("paypal", "paypal.com", true),
            ("facebook", "facebookmail.com", true),
            ("creditagricole", "credit-agricole.fr", true),
            ("paypal", "paypal-secure.com", false),
            ("paypal", "example.com", false),
        ] {
            assert_eq!(is_own_domain(name, domain), is_own, "{name} {domain}");
        }
    }
}

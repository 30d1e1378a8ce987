//! Sets of words and phrases, looked for all at once.
//!
//! Phrases and texts are both brought into the form of [`crate::text::obfuscation::normalise`], so a phrase is found whatever
//! it is obfuscated by. All phrases of a set make one automaton (Aho and Corasick, *Efficient string matching*, 1975,
//! as a double array: Kanda, Akabe, Oda, *Engineering faster double-array Aho–Corasick automata*, 2023), which reads
//! each byte of a text once, however many phrases there are.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;

use daachorse::DoubleArrayAhoCorasick;
use event::Time;
use unicode_script::Script;

use crate::list_file::{self, ListError};
use crate::text::character::{is_alphabetic, is_alphanumeric, script};
use crate::text::obfuscation::normalise;

/// Most entries of a set.
pub const ENTRIES_MAX: usize = 200_000;
/// Longest phrase, normalised, in bytes.
pub const PHRASE_BYTES_MAX: usize = 256;
/// Largest weight of an entry, and the least with a minus sign.
pub const WEIGHT_MAX: f64 = 1_000.0;
/// Most classes of a set.
pub const CLASSES_MAX: usize = 64;
/// Most entries that [`PhraseMatches::matched`] names.
pub const MATCHED_MAX: usize = 20;

/// One line of a file: `class`, `weight`, `phrase` and, if it is not to count for ever, `expires`, with tabs between.
#[derive(Clone, Debug, PartialEq)]
pub struct PhraseEntry {
    /// Index of its class.
    pub class: usize,
    /// The weight that the entry adds to its class and its set.
    pub weight: f64,
    /// The phrase, normalised.
    pub phrase: String,
    /// From when on it does not count.
    pub expires: Option<Time>,
}

/// Reads a file: one entry a line, empty lines and such as begin with `#` left out.
///
/// # Errors
/// The first line that is no entry, or is one of a class that is not among `classes`.
pub fn parse(text: &str, classes: &[String]) -> Result<Vec<PhraseEntry>, ListError> {
    let mut entries = Vec::new();
    for (from, line) in list_file::entries(text) {
        let whole = from..from + line.len();
        if entries.len() >= ENTRIES_MAX {
            let message = format!("a set of phrases has at most {ENTRIES_MAX} entries");
            return Err(ListError { range: whole, message, help: None });
        }
        entries.push(entry(line, from, classes)?);
    }
    Ok(entries)
}

fn entry(line: &str, from: usize, classes: &[String]) -> Result<PhraseEntry, ListError> {
    let fields: Vec<&str> = line.split('\t').collect();
    let ([class, weight, phrase] | [class, weight, phrase, _]) = fields[..] else {
        let fields = fields.len();
        return Err(ListError {
            range: from..from + line.len(),
            message: format!("the line has {fields} field{}", if fields == 1 { "" } else { "s" }),
            help: Some("write class, weight, phrase and perhaps a date, with tabs between".to_owned()),
        });
    };
    let wrong = |field: &str, message: String, help: Option<String>| {
        // A field is a piece of the line, so its place is the distance of their beginnings.
        let start = from + (field.as_ptr() as usize - line.as_ptr() as usize);
        ListError { range: start..start + field.len(), message, help }
    };
    let Some(class) = classes.iter().position(|known| known == class.trim()) else {
        let known = format!("there is {}", classes.join(", "));
        return Err(wrong(class, format!("there is no class `{}`", shown(class)), Some(known)));
    };
    let number = weight.trim().parse().ok().filter(|number: &f64| number.abs() <= WEIGHT_MAX);
    let Some(number) = number else {
        let help = format!("write a number from -{WEIGHT_MAX} to {WEIGHT_MAX}");
        return Err(wrong(weight, format!("the weight cannot be `{}`", shown(weight)), Some(help)));
    };
    let normalised = normalise(phrase);
    if normalised.len() > PHRASE_BYTES_MAX {
        return Err(wrong(phrase, format!("a phrase has at most {PHRASE_BYTES_MAX} bytes"), None));
    }
    if !normalised.contains(is_alphabetic) {
        let help =
            "every number is the same to a search, so a phrase of nothing else would be found everywhere";
        return Err(wrong(phrase, "the phrase has no letter".to_owned(), Some(help.to_owned())));
    }
    let expires = match fields.get(3).map(|field| field.trim()).filter(|field| !field.is_empty()) {
        None => None,
        Some(field) => {
            let day = if field.len() == 10 { format!("{field}T00:00:00Z") } else { field.to_owned() };
            match day.parse() {
                Ok(time) => Some(time),
                Err(_) => {
                    let help = "write a date such as 2026-12-01".to_owned();
                    return Err(wrong(field, format!("`{}` is no date", shown(field)), Some(help)));
                }
            }
        }
    };
    Ok(PhraseEntry { class, weight: number, phrase: normalised, expires })
}

/// The beginning of a text that may be anything.
fn shown(text: &str) -> String {
    text.chars().take(40).collect::<String>().escape_debug().to_string()
}

/// Phrases, compiled.
pub struct PhraseSet {
    automaton: Option<DoubleArrayAhoCorasick<u32>>,
    /// The entries, those of one phrase side by side.
    entries: Vec<PhraseEntry>,
    /// The entries of each phrase of the automaton.
    of_phrase: Vec<Range<u32>>,
    classes: usize,
    words: bool,
}

impl fmt::Debug for PhraseSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PhraseSet").field("entries", &self.entries.len()).field("words", &self.words).finish()
    }
}

/// The matches that were found of a set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhraseMatches {
    /// The sum of weights, and the number, of the entries found in each class. Each entry counts once.
    pub classes: Vec<(f64, usize)>,
    /// Class and phrase of the first [`MATCHED_MAX`] entries that were found, by their order in the text.
    pub matched: Vec<(usize, String)>,
}

impl PhraseMatches {
    /// The sum of all weights.
    pub fn weight(&self) -> f64 {
        self.classes.iter().map(|(weight, _)| weight).sum()
    }

    /// The number of entries.
    pub fn count(&self) -> usize {
        self.classes.iter().map(|(_, count)| count).sum()
    }
}

impl PhraseSet {
    /// Compiles entries of `classes` classes. Where a class has a phrase twice, the later one counts. With `words`, a
    /// phrase is only found where no letter or digit goes on before or behind it; scripts that are written without
    /// blanks have no such places, and there it is found anywhere.
    ///
    /// 100,000 phrases take about a second and some 30 MB.
    ///
    /// # Errors
    /// More phrases than the automaton can hold.
    pub fn new(mut entries: Vec<PhraseEntry>, classes: usize, words: bool) -> Result<PhraseSet, String> {
        let mut latest: HashMap<(usize, &str), usize> = HashMap::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            latest.insert((entry.class, entry.phrase.as_str()), index);
        }
        let mut keep = vec![false; entries.len()];
        latest.into_values().for_each(|index| keep[index] = true);
        let mut keep = keep.into_iter();
        entries.retain(|_| keep.next().unwrap_or(false));
        entries.sort_by(|a, b| a.phrase.cmp(&b.phrase).then(a.class.cmp(&b.class)));
        let mut of_phrase: Vec<Range<u32>> = Vec::new();
        for (index, entry) in (0u32..).zip(&entries) {
            let same =
                index.checked_sub(1).is_some_and(|before| entries[before as usize].phrase == entry.phrase);
            match of_phrase.last_mut().filter(|_| same) {
                Some(range) => range.end = index + 1,
                None => of_phrase.push(index..index + 1),
            }
        }
        let phrases = of_phrase.iter().map(|range| entries[range.start as usize].phrase.as_str());
        let automaton = match of_phrase.is_empty() {
            true => None,
            false => Some(DoubleArrayAhoCorasick::new(phrases).map_err(|error| error.to_string())?),
        };
        Ok(PhraseSet { automaton, entries, of_phrase, classes, words })
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of the automaton.
    pub fn heap_bytes(&self) -> usize {
        self.automaton.as_ref().map_or(0, DoubleArrayAhoCorasick::heap_bytes)
    }

    /// Finds entries that have not expired at `now` in texts that are normalised as phrases are
    /// ([`crate::text::obfuscation::normalise`]). One pass over each text.
    pub fn search<'t>(&self, texts: impl IntoIterator<Item = &'t str>, now: Time) -> PhraseMatches {
        let mut found = PhraseMatches { classes: vec![(0.0, 0); self.classes], matched: Vec::new() };
        let Some(automaton) = &self.automaton else { return found };
        let mut seen: HashSet<u32> = HashSet::new();
        for text in texts {
            for hit in automaton.find_overlapping_iter(text) {
                if self.words && !is_whole(text, hit.start(), hit.end()) || !seen.insert(hit.value()) {
                    continue;
                }
                let range = self.of_phrase.get(hit.value() as usize).cloned().unwrap_or_default();
                for entry in &self.entries[range.start as usize..range.end as usize] {
                    if entry.expires.is_some_and(|expires| expires <= now) {
                        continue;
                    }
                    if let Some((weight, count)) = found.classes.get_mut(entry.class) {
                        *weight += entry.weight;
                        *count += 1;
                    }
                    if found.matched.len() < MATCHED_MAX {
                        found.matched.push((entry.class, entry.phrase.clone()));
                    }
                }
            }
        }
        found
    }
}

/// Returns true if a place in a text begins and ends where words do.
fn is_whole(text: &str, start: usize, end: usize) -> bool {
    let goes_on = |inside: Option<char>, outside: Option<char>| match (inside, outside) {
        (Some(inside), Some(outside)) => is_of_word(inside) && is_of_word(outside),
        _ => false,
    };
    !goes_on(text[start..].chars().next(), text[..start].chars().next_back())
        && !goes_on(text[..end].chars().next_back(), text[end..].chars().next())
}

/// Returns true if a character is of a word that ends somewhere: a letter or digit of a script with blanks between words.
fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || !c.is_ascii()
            && is_alphanumeric(c)
            && !matches!(
                script(c),
                Script::Han
                    | Script::Hiragana
                    | Script::Katakana
                    | Script::Thai
                    | Script::Lao
                    | Script::Khmer
                    | Script::Myanmar
            )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn classes() -> Vec<String> {
        vec!["pharma".to_owned(), "money".to_owned()]
    }

    fn set(text: &str, words: bool) -> PhraseSet {
        PhraseSet::new(parse(text, &classes()).unwrap(), 2, words).unwrap()
    }

    fn search(set: &PhraseSet, text: &str) -> (Vec<(f64, usize)>, Vec<String>) {
        let found = set.search([normalise(text).as_str()], Time::EPOCH);
        let matched = found.matched.iter().map(|(class, phrase)| format!("{class} {phrase}")).collect();
        (found.classes, matched)
    }

    #[test]
    fn phrases_are_found_through_obfuscations() {
        let set = set(
            "# comment\n\npharma\t2\tViagra\nmoney\t1.5\tearn  money\nmoney\t-1\tinvoice\r\npharma\t1\t便宜药\nmoney\t1\tзаработок\n",
            true,
        );
        assert_eq!(set.len(), 5);
        assert_eq!(search(&set, "V I A G R A, v1agra"), (vec![(2.0, 1), (0.0, 0)], vec!["0 viagra".into()]));
        assert_eq!(search(&set, "ＥＡＲＮ\nmoney").0, [(0.0, 0), (1.5, 1)]);
        assert_eq!(search(&set, "viagras earn moneys").0, [(0.0, 0), (0.0, 0)]);
        assert_eq!(search(&set, "买便宜药吧").0, [(1.0, 1), (0.0, 0)]);
        assert_eq!(search(&set, "зaрaб0ток").0, [(0.0, 0), (1.0, 1)]);
        assert_eq!(search(&set, "earn money by invoice").0[1], (0.5, 2));
    }

    #[test]
    fn parts_of_words_are_found_when_asked_for() {
        let set = set("pharma\t1\tagra\nmoney\t1\tagra\nmoney\t3\tagra\nmoney\t1\tviagra", false);
        let (found, matched) = search(&set, "viagra");
        assert_eq!(found, [(1.0, 1), (4.0, 2)], "the later of two lines counts, and phrases may overlap");
        assert_eq!(matched.len(), 3);
    }

    #[test]
    fn entries_expire() {
        let set = set("money\t1\tspring sale\t2026-05-01\nmoney\t1\tsale\t2026-05-02T12:00:00Z", true);
        let at = |time: &str| set.search(["spring sale"], time.parse().unwrap()).count();
        assert_eq!(
            (at("2026-04-30T23:59:59Z"), at("2026-05-01T00:00:00Z"), at("2026-05-03T00:00:00Z")),
            (2, 1, 0)
        );
    }

    #[test]
    fn what_is_no_entry_is_refused_with_its_place() {
        for (line, place, message) in [
            ("money 1 cash", "money 1 cash", "the line has 1 field"),
            ("cash\t1\tcash", "cash", "there is no class `cash`"),
            ("money\tmuch\tcash", "much", "the weight cannot be `much`"),
            ("money\tNaN\tcash", "NaN", "the weight cannot be `NaN`"),
            ("money\t1001\tcash", "1001", "the weight cannot be `1001`"),
            ("money\t1\t419", "419", "the phrase has no letter"),
            ("money\t1\t\u{200B}", "\u{200B}", "the phrase has no letter"),
            ("money\t1\tcash\tsoon", "soon", "`soon` is no date"),
            ("money\t1\tcash\t2026-05-01\tx", "money\t1\tcash\t2026-05-01\tx", "the line has 5 fields"),
        ] {
            let text = format!("# first\nmoney\t1\tfine\n{line}\n");
            let error = parse(&text, &classes()).unwrap_err();
            assert_eq!((&text[error.range.clone()], error.message.as_str()), (place, message), "{line:?}");
        }
        let long = format!("money\t1\t{}", "ab ".repeat(100));
        assert!(parse(&long, &classes()).unwrap_err().message.contains("at most 256 bytes"));
    }

    #[test]
    fn nothing_is_found_of_nothing() {
        let set = set("# nothing\n", true);
        assert!(set.is_empty());
        assert_eq!(search(&set, "anything"), (vec![(0.0, 0), (0.0, 0)], vec![]));
    }

    proptest! {
        #[test]
        fn what_is_found_is_there(phrases in proptest::collection::vec("[a-c ]{1,5}[a-c]", 1..12), text in "[a-c ]{0,60}", words: bool) {
            let file: String = phrases.iter().map(|phrase| format!("money\t1\t{phrase}\n")).collect();
            let entries = parse(&file, &classes()).unwrap();
            let text = normalise(&text);
            let mut expected: Vec<String> = entries
                .iter()
                .map(|entry| entry.phrase.clone())
                .filter(|phrase| {
                    let is_at = |at: usize| text[at..].starts_with(phrase.as_str());
                    (0..text.len()).any(|at| is_at(at) && (!words || is_whole(&text, at, at + phrase.len())))
                })
                .collect();
            expected.sort();
            expected.dedup();
            let set = PhraseSet::new(entries, 2, words).unwrap();
            let found = set.search([text.as_str()], Time::EPOCH);
            prop_assert_eq!(found.count(), expected.len());
            prop_assert_eq!(found.weight(), expected.len() as f64);
        }
    }
}

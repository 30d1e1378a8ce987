//! Language and scripts of a text.

use unicode_script::Script;

use crate::text::character::{is_alphabetic, script};
use crate::text::truncate;

/// Most bytes of a text whose language is asked for; a few sentences tell.
pub const SAMPLE_BYTES_MAX: usize = 640;
/// Fewest letters of a sample that tell a language.
const SAMPLE_LETTERS_MIN: usize = 24;
/// Most bytes of a text whose scripts are counted.
pub const SCRIPT_BYTES_MAX: usize = 16 * 1024;

/// The language of a text, an ISO 639-3 code such as `eng`; `None` for one too short or too mixed to tell. Addresses,
/// links and what else has digits or signs inside is not looked at.
///
/// By its most frequent words where they tell, by letters that one language alone has, else by the frequencies of its 3-letter
/// pieces among those of 70 languages (`whatlang`, after Cavnar and Trenkle, *N-gram-based text categorization*, 1994), on at most
/// [`SAMPLE_BYTES_MAX`] bytes.
pub fn language(text: &str) -> Option<&'static str> {
    let mut sample = String::with_capacity(SAMPLE_BYTES_MAX);
    let mut letters = 0;
    for word in truncate(text, 8 * SAMPLE_BYTES_MAX).split_whitespace() {
        let word = word.trim_matches(|c: char| !is_alphabetic(c));
        let is_word =
            |c: char| is_alphabetic(c) || matches!(c, '\'' | '’' | '-') || !c.is_ascii() && !c.is_numeric();
        if word.is_empty() || !word.chars().all(is_word) {
            continue;
        }
        let word = truncate(word, SAMPLE_BYTES_MAX - sample.len());
        letters += word.chars().count();
        sample.push_str(word);
        if sample.len() + 1 >= SAMPLE_BYTES_MAX {
            break;
        }
        sample.push(' ');
    }
    // A character of Chinese or Japanese says as much as a word.
    if letters < SAMPLE_LETTERS_MIN && (sample.is_ascii() || letters < SAMPLE_LETTERS_MIN / 3) {
        return None;
    }
    by_words(&sample).or_else(|| by_own_letters(&sample)).or_else(|| by_trigrams(&sample))
}

/// Words that nearly every text of a language has, and few texts of another.
const FREQUENT: [(&str, &[&str]); 6] = [
    (
        "eng",
        &[
            "the", "and", "of", "that", "for", "with", "you", "this", "are", "have", "from", "not", "your",
            "it", "they", "which", "would", "there", "been", "their",
        ],
    ),
    (
        "deu",
        &[
            "der", "und", "das", "ist", "nicht", "ein", "eine", "mit", "sich", "auf", "von", "auch", "ich",
            "wir", "sind", "zum",
        ],
    ),
    (
        "fra",
        &[
            "les", "est", "une", "dans", "pour", "pas", "vous", "avec", "sont", "nous", "votre", "cette",
            "mais", "aux",
        ],
    ),
    ("spa", &["el", "los", "las", "del", "su", "pero", "sus", "muy", "esta", "como", "por", "con", "una"]),
    (
        "ita",
        &["il", "che", "non", "per", "sono", "della", "anche", "gli", "nel", "di", "questo", "una", "con"],
    ),
    ("nld", &["het", "een", "van", "niet", "dat", "zijn", "voor", "met", "aan", "ook", "naar", "wordt"]),
];

/// The language whose frequent words a sample has by far most of; a hundred times cheaper than looking at its letters.
fn by_words(sample: &str) -> Option<&'static str> {
    let mut hits = [0usize; FREQUENT.len()];
    let mut words = 0;
    for word in sample.split(' ') {
        words += 1;
        if !(2..=6).contains(&word.len()) || !word.is_ascii() {
            continue;
        }
        for (hits, (_, frequent)) in hits.iter_mut().zip(&FREQUENT) {
            *hits += usize::from(frequent.iter().any(|known| known.eq_ignore_ascii_case(word)));
        }
    }
    let (index, &most) = hits.iter().enumerate().max_by_key(|(_, hits)| **hits)?;
    let others: usize = hits.iter().sum::<usize>() - most;
    (most >= 4 && most >= 4 * others && most * 8 >= words).then(|| FREQUENT[index].0)
}

/// The language that alone has such letters: Chinese, Japanese, Korean, Greek, Thai, Russian, Ukrainian. A fiftieth of what it costs to
/// count pieces, for texts of which each letter takes long.
fn by_own_letters(sample: &str) -> Option<&'static str> {
    if sample.is_ascii() {
        return None;
    }
    let (mut letters, mut han, mut kana, mut hangul, mut greek, mut thai, mut cyrillic) =
        (0, 0, 0, 0, 0, 0, 0);
    // Letters that of the languages in Cyrillic Russian has, but neither Ukrainian nor the southern ones; that Ukrainian alone has;
    // and that neither of both has.
    let (mut russian, mut ukrainian, mut others) = (0, 0, 0);
    for c in sample.chars() {
        letters += usize::from(is_alphabetic(c));
        match c {
            'а'..='я' | 'А'..='Я' | 'ё' | 'Ё' => {
                cyrillic += 1;
                russian += usize::from(matches!(c, 'ы' | 'э' | 'ё' | 'Ы' | 'Э' | 'Ё'));
            }
            'і' | 'ї' | 'є' | 'ґ' | 'І' | 'Ї' | 'Є' | 'Ґ' => ukrainian += 1,
            '\u{400}'..='\u{52F}' => others += 1,
            '\u{3040}'..='\u{30FF}' => kana += 1,
            '\u{3400}'..='\u{9FFF}' => han += 1,
            '\u{AC00}'..='\u{D7A3}' => hangul += 1,
            '\u{370}'..='\u{3FF}' | '\u{1F00}'..='\u{1FFF}' => greek += 1,
            '\u{E01}'..='\u{E4E}' => thai += 1,
            _ => {}
        }
    }
    let is_most = |count: usize| count > 0 && count * 10 >= letters * 9;
    // A Japanese text of a few dozen characters has kana, which are half of most.
    if is_most(han + kana) {
        return if kana * 20 >= letters { Some("jpn") } else { (kana == 0).then_some("cmn") };
    }
    let of_cyrillic = match (russian, ukrainian) {
        (1.., 0) if is_most(cyrillic) && russian * 100 >= cyrillic => Some("rus"),
        (0, 1..) if is_most(cyrillic + ukrainian) && ukrainian * 50 >= cyrillic => Some("ukr"),
        _ => None,
    };
    let of_script = [(hangul, "kor"), (greek, "ell"), (thai, "tha")];
    let of_script = of_script.into_iter().find(|(count, _)| is_most(*count)).map(|(_, language)| language);
    of_cyrillic.filter(|_| others == 0).or(of_script)
}

fn by_trigrams(sample: &str) -> Option<&'static str> {
    whatlang::detect(sample).filter(whatlang::Info::is_reliable).map(|info| info.lang().code())
}

/// The number of letters of each script that a text has, the most frequent first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptCounts {
    counts: Vec<(Script, usize)>,
}

impl ScriptCounts {
    /// Counts the letters of the leading [`SCRIPT_BYTES_MAX`] bytes.
    pub fn of(text: &str) -> ScriptCounts {
        let text = truncate(text, SCRIPT_BYTES_MAX);
        let latin = text.bytes().filter(u8::is_ascii_alphabetic).count();
        let mut counts: Vec<(Script, usize)> = Vec::new();
        if latin > 0 {
            counts.push((Script::Latin, latin));
        }
        if !text.is_ascii() {
            for c in text.chars().filter(|c| !c.is_ascii() && is_alphabetic(*c)) {
                let script = script(c);
                if matches!(script, Script::Common | Script::Inherited | Script::Unknown) {
                    continue;
                }
                match counts.iter_mut().find(|(of, _)| *of == script) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((script, 1)),
                }
            }
        }
        counts.sort_by_key(|&(script, count)| (std::cmp::Reverse(count), script as u8));
        ScriptCounts { counts }
    }

    /// The full names of the scripts that at least one letter in a hundred is of, such as `Latin`, the most frequent
    /// first.
    pub fn names(&self) -> Vec<String> {
        let all = self.total();
        let met = self.counts.iter().filter(|(_, count)| count * 100 >= all);
        met.map(|(script, _)| script.full_name().to_owned()).collect()
    }

    /// The share of letters that are not of the most frequent script; `None` where there are no letters. Han and the
    /// Japanese and Korean scripts are one here: texts mix them.
    pub fn foreign_share(&self) -> Option<f64> {
        let (main, _) = *self.counts.first()?;
        let family = |script| match script {
            Script::Han | Script::Hiragana | Script::Katakana | Script::Hangul | Script::Bopomofo => {
                Script::Han
            }
            other => other,
        };
        let own = self.counts.iter().filter(|(script, _)| family(*script) == family(main));
        let own: usize = own.map(|(_, count)| count).sum();
        Some(1.0 - own as f64 / self.total() as f64)
    }

    fn total(&self) -> usize {
        self.counts.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_told() {
        for (text, expected) in [
            (
                "This is a letter about the house that we have seen last week, and what it would cost.",
                Some("eng"),
            ),
            (
                "Dies ist ein Brief über das Haus, das wir letzte Woche gesehen haben, und was es kosten würde.",
                Some("deu"),
            ),
            (
                "Это письмо о доме, который мы видели на прошлой неделе, и о том, сколько он стоит.",
                Some("rus"),
            ),
            ("这是一封关于我们上周看到的房子的信以及它的价格", Some("cmn")),
            ("ok", None),
            ("http://www.example.com/this/is/no/language ann@example.com 12345", None),
            ("", None),
        ] {
            assert_eq!(language(text), expected, "{text:?}");
        }
    }

    #[test]
    fn scripts_are_counted() {
        let scripts = ScriptCounts::of("Привет, world! 123");
        assert_eq!(scripts.names(), ["Cyrillic", "Latin"]);
        assert_eq!(scripts.foreign_share(), Some(1.0 - 6.0 / 11.0));
        assert_eq!(ScriptCounts::of("東京タワーと한국").foreign_share(), Some(0.0));
        assert_eq!(ScriptCounts::of("123 !?").foreign_share(), None);
        assert_eq!(ScriptCounts::of("plain").names(), ["Latin"]);
    }
}

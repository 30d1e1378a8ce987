//! Texts of the console. All of them are in `console/en.toml`, for translation.

use std::collections::HashMap;
use std::sync::LazyLock;

use toml::de::{DeTable, DeValue};

static ENGLISH: &str = include_str!("../../console/en.toml");

static TEXTS: LazyLock<HashMap<String, String>> = LazyLock::new(|| read(ENGLISH));

/// Returns the texts of a file by `section.name`. A test reads the file, so nothing is wrong with it.
fn read(file: &str) -> HashMap<String, String> {
    let (table, _) = DeTable::parse_recoverable(file);
    let mut texts = HashMap::new();
    for (section, entries) in table.into_inner() {
        let DeValue::Table(entries) = entries.into_inner() else { continue };
        for (name, text) in entries {
            if let DeValue::String(text) = text.into_inner() {
                texts.insert(format!("{}.{}", section.get_ref(), name.get_ref()), text.into_owned());
            }
        }
    }
    texts
}

/// Returns a text, or its key where the file has none.
pub(super) fn t(key: &'static str) -> &'static str {
    TEXTS.get(key).map_or(key, String::as_str)
}

/// Returns a text with values in the places that it names in braces.
pub(super) fn fill(key: &'static str, values: &[(&str, &dyn std::fmt::Display)]) -> String {
    let mut text = String::new();
    let mut rest = t(key);
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let Some((name, after)) = after.split_once('}') else { break };
        if let Some((_, value)) = values.iter().find(|(known, _)| *known == name) {
            text.push_str(&value.to_string());
        }
        rest = after;
    }
    text.push_str(rest);
    text
}

/// Returns the text for a word of the interface, such as an action; the word itself where there is none.
pub(super) fn word(section: &str, word: &str) -> String {
    TEXTS.get(&format!("{section}.{word}")).cloned().unwrap_or_else(|| word.replace('_', " "))
}

/// Returns the text for one or for several, with `{n}` filled in.
pub(super) fn counted(one: &'static str, several: &'static str, n: u64) -> String {
    fill(if n == 1 { one } else { several }, &[("n", &super::digits::number(n))])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// Sections whose texts are found by a word of the interface.
    const WORDS: [&str; 16] = [
        "action",
        "anomaly",
        "acted",
        "flow_state",
        "grade",
        "mode",
        "node_state",
        "origin",
        "part",
        "quality",
        "relearn_state",
        "review_order",
        "review_state",
        "done",
        "trial",
        "verdict",
    ];

    /// Every text that a page asks for is there, and every text is asked for.
    #[test]
    fn texts_and_pages_agree() {
        let mut asked = BTreeSet::new();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console");
        let mut folders = vec![folder];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() { folders.push(entry) } else { files.push(entry) }
            }
        }
        for file in files {
            let source = std::fs::read_to_string(file).unwrap();
            for part in source.split('"') {
                let is_word = |word: &str| {
                    !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
                };
                if part.split_once('.').is_some_and(|(section, name)| is_word(section) && is_word(name)) {
                    asked.insert(part.to_owned());
                }
            }
        }
        let texts = read(ENGLISH);
        assert!(texts.len() > 100, "{} texts", texts.len());
        let sections: BTreeSet<&str> = texts.keys().filter_map(|key| Some(key.split_once('.')?.0)).collect();
        let is_text =
            |key: &&String| key.split_once('.').is_some_and(|(section, _)| sections.contains(section));
        let missing: Vec<_> = asked.iter().filter(is_text).filter(|key| !texts.contains_key(*key)).collect();
        assert!(missing.is_empty(), "texts that pages ask for are not in en.toml: {missing:?}");
        let is_word = |key: &str| key.split_once('.').is_some_and(|(section, _)| WORDS.contains(&section));
        let unused: Vec<_> = texts.keys().filter(|key| !asked.contains(*key) && !is_word(key)).collect();
        assert!(unused.is_empty(), "no page asks for these: {unused:?}");
    }

    #[test]
    fn values_are_filled_in_once() {
        assert_eq!(fill("test.none", &[]), "test.none");
        assert_eq!(fill("time.ago", &[("length", &"{length}")]), "{length} ago");
    }
}

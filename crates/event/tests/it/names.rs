//! Names of types: one meaning each in the whole workspace, and nouns.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use syn::Item;

use crate::sources;

/// A type and the file that defines it.
struct NamedType {
    name: String,
    path: String,
    is_public: bool,
}

fn types() -> Vec<NamedType> {
    fn add(items: &[Item], path: &str, types: &mut Vec<NamedType>) {
        for item in items {
            let (name, visibility) = match item {
                Item::Struct(item) => (&item.ident, &item.vis),
                Item::Enum(item) => (&item.ident, &item.vis),
                Item::Trait(item) => (&item.ident, &item.vis),
                Item::Union(item) => (&item.ident, &item.vis),
                Item::Mod(item) => {
                    let inside = item.content.as_ref().map(|(_, items)| items.as_slice());
                    add(inside.unwrap_or_default(), path, types);
                    continue;
                }
                _ => continue,
            };
            let is_public = !matches!(visibility, syn::Visibility::Inherited);
            types.push(NamedType { name: name.to_string(), path: path.to_owned(), is_public });
        }
    }
    let mut types = Vec::new();
    for source in sources::all() {
        add(&source.items, &source.path, &mut types);
    }
    types
}

/// A crate's own error and options are known by their path.
const SHARED: [&str; 2] = ["Error", "Options"];

#[test]
fn no_two_public_types_share_a_name() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for named in types().into_iter().filter(|named| named.is_public && !SHARED.contains(&named.name.as_str()))
    {
        places.entry(named.name).or_default().push(named.path);
    }
    let shared: Vec<String> = places
        .iter()
        .filter(|(_, paths)| paths.len() > 1)
        .map(|(name, paths)| format!("{name}: {}", paths.join(", ")))
        .collect();
    let list = shared.join("\n");
    assert!(shared.is_empty(), "names have several meanings:\n{list}");
}

/// Words that end like a participle and are nouns.
const NOUNS: [&str; 6] = ["Bed", "Feed", "Need", "Seed", "Speed", "Shed"];

/// Irregular participles, adverbs, prepositions, pronouns and verbs that were or could be taken for a type's name.
const NO_NOUNS: [&str; 64] = [
    "About", "Above", "After", "Again", "All", "Alone", "Along", "Anew", "Any", "Apart", "Around", "As",
    "Ask", "At", "Away", "Be", "Before", "Begun", "Behind", "Below", "Beside", "Between", "Bound", "Broken",
    "Brought", "By", "Chosen", "Done", "Drawn", "Due", "Each", "Else", "Found", "From", "Given", "Gone",
    "Held", "Here", "Hidden", "How", "In", "Kept", "Known", "Laid", "Left", "Lost", "Made", "Meant", "Of",
    "On", "Over", "Said", "Seen", "Sent", "Shown", "Spent", "Taken", "Than", "Then", "To", "Told", "What",
    "Who", "Written",
];

#[test]
fn types_are_named_by_nouns() {
    let mut others = Vec::new();
    for named in types() {
        let last = last_word(&named.name);
        let is_participle = last.ends_with("ed") && !NOUNS.contains(&last);
        if is_participle || NO_NOUNS.contains(&last) {
            others.push(format!("{}: {}", named.path, named.name));
        }
    }
    let list = others.join("\n");
    assert!(others.is_empty(), "types are not named by a noun:\n{list}");
}

/// The last word of a name in camel case.
fn last_word(name: &str) -> &str {
    name.rfind(|letter: char| letter.is_ascii_uppercase()).map_or(name, |start| &name[start..])
}

#[test]
fn words_of_names_are_told_apart() {
    assert_eq!(last_word("BanList"), "List");
    assert_eq!(last_word("Told"), "Told");
}

/// Words that name nothing when a comment begins with them.
const NO_SUBJECTS: &[&str] = &[
    "And",
    "As",
    "But",
    "By",
    "For",
    "How",
    "If",
    "It",
    "Of",
    "So",
    "Something",
    "That",
    "The same",
    "Their",
    "Then",
    "There",
    "These",
    "They",
    "This",
    "Those",
    "What",
    "Whatever",
    "When",
    "Where",
    "Whether",
    "Which",
    "Who",
    "Whose",
    "Why",
];

/// First lines of doc comments, of items and of modules, that begin with a word that names nothing, with their numbers.
fn without_subject(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for (number, line) in (1..).zip(text.lines().map(str::trim_start)) {
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start);
        if let Some(doc) = doc.filter(|_| !is_inside) {
            let begins_with = |word: &&str| {
                let rest = doc.strip_prefix(*word);
                rest.is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_alphanumeric()))
            };
            if NO_SUBJECTS.iter().any(begins_with) {
                found.push((number, line));
            }
        }
        is_inside = doc.is_some();
    }
    found
}

#[test]
fn doc_comments_name_their_subject() {
    let text = "//! What.\n\n/// Items.\n/// What they are.\nstruct Item;\n    /// Whether.\n    it: bool,\n";
    assert_eq!(without_subject(text), [(1, "//! What."), (6, "/// Whether.")]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    for folder in ["bench", "crates", "examples", "fuzz"] {
        sources::rust_files(&root.join(folder), &mut paths);
    }
    let mut all = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(&root).unwrap().display();
        let lines = without_subject(&text).into_iter();
        all.extend(lines.map(|(number, line)| format!("{name}:{number}: {line}")));
    }
    assert!(all.is_empty(), "doc comments begin with a word that names nothing:\n{}", all.join("\n"));
}

//! Names of types: one meaning each in the whole workspace, and nouns.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::Item;
use syn::visit::{self, Visit};

use crate::sources;

/// A type and the file that defines it.
struct NamedType {
    name: String,
    path: String,
    is_public: bool,
}

/// The types of the product, without those of its tests.
fn types() -> Vec<NamedType> {
    fn add(items: &[Item], path: &str, types: &mut Vec<NamedType>) {
        for item in items {
            let (name, visibility) = match item {
                Item::Struct(item) => (&item.ident, &item.vis),
                Item::Enum(item) => (&item.ident, &item.vis),
                Item::Trait(item) => (&item.ident, &item.vis),
                Item::Type(item) => (&item.ident, &item.vis),
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

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every Rust file of the repository, tests, benchmarks and examples included, by its path.
fn all_files() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    for folder in ["bench", "crates", "examples", "fuzz"] {
        sources::rust_files(&root().join(folder), &mut paths);
    }
    let named = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path.strip_prefix(root()).unwrap().display().to_string(), text)
    };
    paths.into_iter().map(named).collect()
}

/// The names that one file gives or uses: those of its types, wherever they are defined, and all others.
#[derive(Default)]
struct FileNames {
    types: Vec<String>,
    all: Vec<String>,
}

impl FileNames {
    fn of(path: &str, text: &str) -> FileNames {
        let mut names = FileNames::default();
        names.visit_file(&syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}")));
        names
    }
}

impl<'ast> Visit<'ast> for FileNames {
    fn visit_ident(&mut self, name: &'ast syn::Ident) {
        self.all.push(name.to_string());
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.types.push(item.ident.to_string());
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.types.push(item.ident.to_string());
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.types.push(item.ident.to_string());
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.types.push(item.ident.to_string());
        visit::visit_item_type(self, item);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.types.push(item.ident.to_string());
        visit::visit_item_union(self, item);
    }
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
const NOUNS: [&str; 18] = [
    "Bed", "Encoding", "Feed", "Framing", "Keyring", "Mapping", "Meaning", "Need", "Ranking", "Reading",
    "Ring", "Seed", "Sharing", "Shed", "Sizing", "Speed", "Standing", "String",
];

/// Irregular participles, adverbs, prepositions, pronouns, adjectives and verbs that were or could be taken for a type's name.
const NO_NOUNS: [&str; 70] = [
    "About", "Above", "After", "Again", "All", "Alone", "Along", "Anew", "Any", "Apart", "Around", "As",
    "Ask", "At", "Away", "Be", "Before", "Begun", "Behind", "Below", "Beside", "Between", "Bound", "Broken",
    "Brought", "By", "Chosen", "Done", "Drawn", "Due", "Each", "Else", "Found", "From", "Full", "Given",
    "Gone", "Held", "Here", "Hidden", "How", "In", "Kept", "Known", "Laid", "Left", "Lost", "Made", "Meant",
    "Of", "On", "Opaque", "Over", "Plain", "Ready", "Said", "Seen", "Sent", "Shown", "Spent", "Taken",
    "Than", "Then", "To", "Told", "Unknown", "What", "Who", "Whole", "Written",
];

fn is_noun(name: &str) -> bool {
    let last = last_word(name);
    let is_participle = (last.ends_with("ed") || last.ends_with("ing")) && !NOUNS.contains(&last);
    !is_participle && !NO_NOUNS.contains(&last)
}

#[test]
fn types_are_named_by_nouns() {
    for (name, expected) in
        [("PackedReading", true), ("Reading", true), ("Learning", false), ("Ready", false)]
    {
        assert_eq!(is_noun(name), expected, "{name}");
    }
    let mut others = Vec::new();
    for (path, text) in all_files() {
        let names = FileNames::of(&path, &text);
        others.extend(names.types.iter().filter(|name| !is_noun(name)).map(|name| format!("{path}: {name}")));
    }
    let list = others.join("\n");
    assert!(others.is_empty(), "types are not named by a noun:\n{list}");
}

/// Words of this house for what has a name in the field, and that name. Each stands for its plural, too.
const GLOSSARY: [(&str, &str); 21] = [
    ("desk", "request queue"),
    ("disguise", "obfuscation"),
    ("disguised", "obfuscated"),
    ("errand", "routed command"),
    ("face", "protocol or listener"),
    ("handwriting", "header fingerprint"),
    ("hops", "trusted proxies or relays"),
    ("imitation", "impersonation"),
    ("lesson", "training example"),
    ("packing", "content encoding"),
    ("patient", "deadline"),
    ("reveal", "deobfuscation"),
    ("revealed", "deobfuscated"),
    ("school", "trainer"),
    ("seat", "slot"),
    ("shelf", "version history"),
    ("surroundings", "environment"),
    ("ticket", "signed id"),
    ("track", "aggregate"),
    ("trouble", "failure"),
    ("world", "catalog or environment"),
];

/// Words of the glossary that are verbs and nouns of everyday English, too. They may stand in what a function does and in the names
/// of values; types, facts, settings and metrics are not named by them.
const COMMON: [(&str, &str); 3] =
    [("said", "feedback, answer"), ("told", "ban list, notification"), ("way", "route")];

/// Names that others have chosen.
const FOREIGN: [&str; 1] = ["track_caller"];

/// The words of a name in snake or camel case, in small letters.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || letter.is_uppercase() && was_small {
            words.push(String::new());
        }
        was_small = letter.is_lowercase() || letter.is_ascii_digit();
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
    }
    words
}

/// A word of the list that a name has, and the word that is to take its place.
fn dialect<'l>(name: &str, list: &'l [(&str, &str)]) -> Option<&'l (&'l str, &'l str)> {
    let words = words_of(name);
    let is_meant = |word: &String, of: &str| word == of || word.strip_suffix('s') == Some(of);
    list.iter().find(|(of, _)| words.iter().any(|word| is_meant(word, of)))
}

#[test]
fn names_are_those_of_the_field() {
    assert_eq!(words_of("is_reusableHTTPGet"), ["is", "reusable", "httpget"]);
    assert!(
        dialect("LessonRegister", &GLOSSARY).is_some() && dialect("STREAM_LESSONS_MAX", &GLOSSARY).is_some()
    );
    assert!(dialect("interface_tracker", &GLOSSARY).is_none());
    let mut others = std::collections::BTreeSet::new();
    for (path, text) in all_files() {
        let names = FileNames::of(&path, &text);
        let all = names.all.iter().filter(|name| !FOREIGN.contains(&name.as_str()));
        let found = all.filter_map(|name| Some((name, dialect(name, &GLOSSARY)?)));
        let found = found.chain(names.types.iter().filter_map(|name| Some((name, dialect(name, &COMMON)?))));
        others.extend(
            found.map(|(name, (word, instead))| format!("{path}: {name}: not {word}, but {instead}")),
        );
    }
    let list = others.into_iter().collect::<Vec<_>>().join("\n");
    assert!(list.is_empty(), "names are of no field:\n{list}");
}

/// Settings, facts, members of requests and metrics, as the generated references have them, and the keys of the console's texts.
#[test]
fn what_users_name_is_named_by_the_field() {
    let mut others = Vec::new();
    let mut known = 0;
    for page in ["configuration", "http", "metrics"] {
        let path = format!("docs/reference/{page}.md");
        let text = fs::read_to_string(root().join(&path)).unwrap();
        let rows =
            text.lines().filter_map(|line| line.strip_prefix("| ")).filter_map(|row| row.split(" |").next());
        for name in rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
            known += 1;
            let found = dialect(name, &GLOSSARY).or_else(|| dialect(name, &COMMON));
            others.extend(found.map(|(word, instead)| format!("{path}: {name}: not {word}, but {instead}")));
        }
    }
    assert!(known > 1000, "{known} names are not all");
    let path = "crates/server/console/en.toml";
    let texts = fs::read_to_string(root().join(path)).unwrap();
    for name in texts.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name) {
        let found = dialect(name, &GLOSSARY);
        others.extend(found.map(|(word, instead)| format!("{path}: {name}: not {word}, but {instead}")));
    }
    assert!(others.is_empty(), "users meet names of no field:\n{}", others.join("\n"));
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
    let mut all = Vec::new();
    for (path, text) in all_files() {
        let lines = without_subject(&text).into_iter();
        all.extend(lines.map(|(number, line)| format!("{path}:{number}: {line}")));
    }
    assert!(all.is_empty(), "doc comments begin with a word that names nothing:\n{}", all.join("\n"));
}

//! Sets of phrases: their files and lists, compiled, and the columns of what is found.

use std::borrow::Cow;
use std::sync::Arc;

use content::budget::Budget;
use content::text::phrase::{self, PhraseSet};
use data_encoding::HEXLOWER;
use event::{Column, Facts, SchemaBuilder, Slot, Time, Type, Value};
use sha2::{Digest, Sha256};

use super::InputColumns;
use super::columns::fact;
use crate::config::{ConfigOrigin, ConfigProblems, ConfigSource, Document, list_key};
use crate::{entries, preset};

/// Steps of a byte of a text that is normalised, and of one beyond ASCII.
const STEPS_A_BYTE: [u64; 2] = [15, 150];

/// A set of phrases that is looked for in some facts.
#[derive(Clone, Debug)]
pub struct PhrasePlan {
    /// Its name.
    pub name: String,
    /// The phrases.
    pub set: Arc<PhraseSet>,
    /// Its classes, in the order of the configuration.
    pub classes: Vec<String>,
    /// The facts in which it looks, and whether their texts are normalised already.
    of: Vec<(Slot, bool)>,
    weight: Slot,
    count: Slot,
    matched: Slot,
    of_class: Vec<(Slot, Slot)>,
}

impl PhrasePlan {
    /// Fills the columns of what is found in a row.
    pub fn fill(&self, facts: &mut Facts, now: Time, budget: &Budget) {
        let mut texts: Vec<Cow<'_, str>> = Vec::new();
        let normalised = |text: &str| {
            let steps = STEPS_A_BYTE[usize::from(!text.is_ascii())];
            content::text::obfuscation::normalise(budget.cut(text, steps))
        };
        for &(slot, is_normalised) in &self.of {
            match facts.get(slot) {
                Some(Value::String(text)) if is_normalised => texts.push(Cow::Borrowed(text)),
                Some(Value::String(text)) => texts.push(Cow::Owned(normalised(text))),
                Some(Value::List(items)) => {
                    texts.extend(items.iter().map(|item| Cow::Owned(normalised(item))));
                }
                _ => {}
            }
        }
        let found = self.set.search(texts.iter().map(AsRef::as_ref), now);
        facts.set(self.weight, found.weight());
        facts.set(self.count, found.count());
        for (&(weight, count), (of_weight, of_count)) in self.of_class.iter().zip(&found.classes) {
            facts.set(weight, *of_weight);
            facts.set(count, *of_count);
        }
        if !found.matched.is_empty() {
            let name = |class: usize| &self.classes[class];
            let matched = found.matched.iter().map(|(class, phrase)| format!("{}: {phrase}", name(*class)));
            facts.set(self.matched, matched.collect::<Vec<_>>());
        }
    }
}

/// Returns the part of a pipeline's version that comes from the files and lists of its sets of phrases, one line each.
pub(crate) fn canonical(document: &Document) -> String {
    let mut text = String::new();
    for view in document.list("phrases") {
        let Some(name) = view.str("name") else { continue };
        let files = view
            .strings("files")
            .into_iter()
            .filter_map(|(file, _)| Some((file, document.list_file(&list_key(name, file))?.text.as_str())));
        let lists =
            view.strings("lists").into_iter().filter_map(|(list, _)| Some((list, preset::list(list)?.text)));
        for (from, entries) in files.chain(lists) {
            let digest: String = HEXLOWER.encode(&Sha256::digest(entries.as_bytes()));
            text += &format!("phrases.{name}.digest = \"{from} {digest}\"\n");
        }
    }
    text
}

/// Compiles the sets of phrases of a pipeline and adds their columns.
pub(crate) fn compile(
    document: &Document,
    columns: &InputColumns,
    builder: &mut SchemaBuilder,
    problems: &mut ConfigProblems,
) -> Vec<PhrasePlan> {
    let mut plans: Vec<PhrasePlan> = Vec::new();
    for view in entries(document, "phrases", problems) {
        let Some(name) = view.str("name") else { continue };
        let mut classes: Vec<String> = Vec::new();
        let mut sound = true;
        for (class, origin) in view.strings("classes").into_iter().chain([(name, view.origin("name"))]) {
            let mut bytes = class.bytes();
            let starts = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
            if !starts || !bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                let help = "letters, digits and `_`, so that rules can name its facts".to_owned();
                problems.add(origin, format!("`{class}` is no name for a fact"), Some(help));
                sound = false;
            }
            classes.push(class.to_owned());
        }
        classes.pop();
        if classes.is_empty() || classes.len() > phrase::CLASSES_MAX {
            let message = format!("the phrases `{name}` have {} classes", classes.len());
            let help = format!("from 1 to {} are possible", phrase::CLASSES_MAX);
            problems.add(view.origin("classes"), message, Some(help));
            sound = false;
        }
        let mut of = Vec::new();
        for (name, origin) in view.strings("of") {
            let slot = fact(builder.schema(), name, origin, problems);
            if slot == Slot(u16::MAX) {
                continue;
            }
            let kind = builder.schema().column(slot).kind;
            if !matches!(kind, Type::String | Type::List) {
                let help = "phrases are looked for in texts and lists of texts".to_owned();
                problems.add(origin, format!("`{name}` is of type {kind}"), Some(help));
            }
            of.push((slot, columns.is_normalised(slot)));
        }
        let mut all = Vec::new();
        for (file, _) in view.strings("files") {
            // One that could not be read was told of.
            let Some(source) = document.list_file(&list_key(name, file)) else { continue };
            match phrase::parse(&source.text, &classes) {
                Ok(entries) => all.extend(entries),
                Err(error) => {
                    let origin = place(source, error.range);
                    problems.add(&origin, error.message, error.help);
                    sound = false;
                }
            }
        }
        // One that is not known was told of.
        for (list, origin) in view.strings("lists") {
            let Some(list) = preset::list(list) else { continue };
            match phrase::parse(list.text, &classes) {
                Ok(entries) => all.extend(entries),
                Err(error) => {
                    problems.add(origin, format!("the list `{}`: {}", list.name, error.message), error.help);
                    sound = false;
                }
            }
        }
        if view.strings("files").is_empty() && view.strings("lists").is_empty() {
            let help = "name `files` of your own, or `lists` that come with Tollhouse".to_owned();
            problems.add(view.origin("name"), format!("the phrases `{name}` have no entries"), Some(help));
            sound = false;
        }
        if !sound {
            continue;
        }
        if all.len() > phrase::ENTRIES_MAX {
            let message = format!("the phrases `{name}` have {} entries", all.len());
            let help = format!("at most {} are possible", phrase::ENTRIES_MAX);
            problems.add(view.origin("files"), message, Some(help));
            continue;
        }
        let words = view.bool("words").unwrap_or(true);
        let set = match PhraseSet::new(all, classes.len(), words) {
            Ok(set) => Arc::new(set),
            Err(error) => {
                problems.add(view.origin("files"), format!("the phrases `{name}`: {error}"), None);
                continue;
            }
        };
        let mut add = |path: String, kind: Type, doc: String| {
            let column = Column { name: format!("phrases.{path}"), kind, doc, journalled: true };
            let added = builder.add(column);
            added
                .map_err(|error| {
                    problems.add(view.origin("name"), format!("`phrases.{path}`: {error}"), None)
                })
                .ok()
        };
        let own = |what: &str| format!("{what} of the phrases `{name}` that were found");
        let columns = (
            add(format!("{name}.weight"), Type::Float, own("Sum of the weights")),
            add(format!("{name}.count"), Type::Integer, own("Number")),
            add(format!("{name}.matched"), Type::List, own("Class and text")),
        );
        let of_class: Vec<_> = classes
            .iter()
            .filter_map(|class| {
                let own =
                    |what: &str| format!("{what} of the phrases `{name}` of class `{class}` that were found");
                let weight = add(format!("{name}.{class}.weight"), Type::Float, own("Sum of the weights"))?;
                Some((weight, add(format!("{name}.{class}.count"), Type::Integer, own("Number"))?))
            })
            .collect();
        let (Some(weight), Some(count), Some(matched)) = columns else { continue };
        plans.push(PhrasePlan { name: name.to_owned(), set, classes, of, weight, count, matched, of_class });
    }
    plans
}

fn place(source: &Arc<ConfigSource>, range: std::ops::Range<usize>) -> ConfigOrigin {
    ConfigOrigin { source: Arc::clone(source), range }
}

//! Searches in past decisions that the console offers by name: `[[search]]` of the main file.
//!
//! They are settings: reviewed and versioned as all settings are, and the same on all nodes. Beside them a node keeps those that people
//! save in its console.

use event::Span;
use judge::Action;

use crate::config::{Config, ConfigProblems};
use crate::entries;

/// Most searches.
const SEARCHES_MAX: usize = 100;

/// A search in past decisions.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedSearch {
    /// Its name.
    pub name: String,
    /// The description of what it finds.
    pub description: String,
    /// The conditions that it asks for, by the names of the settings.
    pub asks: Vec<(&'static str, String)>,
}

/// Compiles the searches.
pub(crate) fn searches(config: &Config, problems: &mut ConfigProblems) -> Vec<SavedSearch> {
    let mut searches = Vec::new();
    for view in entries(config.main(), "search", problems) {
        let Some(name) = view.str("name") else { continue };
        let texts = ["pipeline", "text", "action", "rule", "kind", "value", "where", "label"];
        let mut asks: Vec<(&'static str, String)> =
            texts.into_iter().filter_map(|key| Some((key, view.str(key)?.to_owned()))).collect();
        for key in ["score_from", "score_below"] {
            asks.extend(view.float(key).map(|score| (key, score.to_string())));
        }
        asks.extend(view.span("last").map(|last: Span| ("last", last.to_string())));
        let facts: Vec<&str> = view.strings("facts").into_iter().map(|(fact, _)| fact).collect();
        asks.extend((!facts.is_empty()).then(|| ("facts", facts.join(","))));
        let asked = |key: &str| asks.iter().find(|(name, _)| *name == key).map(|(_, text)| text.as_str());
        if let Some(pipeline) = asked("pipeline")
            && !config.documents().iter().any(|document| document.name() == pipeline)
        {
            let names = config.documents().iter().map(|document| document.name());
            let help = crate::expected(pipeline, names);
            problems.add(view.origin("pipeline"), format!("there is no pipeline `{pipeline}`"), Some(help));
        }
        for action in asked("action").into_iter().flat_map(|list| list.split(',')).map(str::trim) {
            if let Err(error) = action.parse::<Action>() {
                problems.add(view.origin("action"), error.to_string(), None);
            }
        }
        if asked("kind").is_some() != asked("value").is_some() {
            problems.add(view.origin("name"), "`kind` and `value` go together", None);
        }
        if searches.len() == SEARCHES_MAX {
            problems.add(view.origin("name"), format!("more than {SEARCHES_MAX} searches"), None);
            break;
        }
        let description = view.str("description").unwrap_or(name).to_owned();
        searches.push(SavedSearch { name: name.to_owned(), description, asks });
    }
    searches
}

#[cfg(test)]
mod tests {
    use crate::{Config, Overrides, Plan};

    #[test]
    fn searches_are_what_the_console_asks_for() {
        let check = |text: &str, expected: Result<&[(&str, &str)], &str>| {
            let text = format!("preset = \"web\"\n[[search]]\nname = \"a\"\n{text}");
            let config = Config::from_text("t.toml", &text, &Overrides::default());
            match (Plan::compile(&config), expected) {
                (Ok(plan), Ok(expected)) => {
                    let asks = plan.searches[0].asks.iter();
                    let asks: Vec<(&str, &str)> = asks.map(|(name, text)| (*name, text.as_str())).collect();
                    assert_eq!(asks, expected, "{text}");
                }
                (Err(problems), Err(expected)) => {
                    let found = problems.to_string();
                    assert!(found.contains(expected), "{text}: {found}");
                }
                (found, _) => panic!("{text}: {:?}", found.map(|plan| plan.searches)),
            }
        };
        check("", Ok(&[]));
        check(
            "pipeline = \"web\"\naction = \"reject, tag\"\nlast = \"1d\"\nscore_from = 2.5\nfacts = [\"http.path\"]",
            Ok(&[
                ("pipeline", "web"),
                ("action", "reject, tag"),
                ("score_from", "2.5"),
                ("last", "1d"),
                ("facts", "http.path"),
            ]),
        );
        check("pipeline = \"wbe\"", Err("there is no pipeline `wbe`"));
        check("action = \"refuse\"", Err("refuse"));
        check("kind = \"ip\"", Err("`kind` and `value` go together"));
        check("rul = \"A\"", Err("rul"));
    }
}

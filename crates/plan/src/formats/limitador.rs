//! Limits as Limitador's limits file has them → `[[limit]]` of the configuration.
//!
//! Limitador takes from every limit of a request's namespace whose conditions hold; here whoever asks names the limit. So
//! conditions cannot be written down in one: they are told, for whoever asks to heed them.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

use event::Span;

use crate::config::{ConfigProblems, ConfigSource, SourceKind, expected};
use crate::formats::envoy::yaml::{self, YamlNode, YamlValue};
use crate::limit::{FIELDS_MAX, WINDOW_MAX};

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitadorImport {
    /// `[[limit]]` entries, with what has to be known about each as comments.
    pub text: String,
    /// The number of `[[limit]]` entries.
    pub limits: usize,
    /// The parts that cannot be written down in a limit, for people: one line each.
    pub left: Vec<String>,
}

const KNOWN: &[&str] = &["id", "namespace", "name", "max_value", "seconds", "conditions", "variables"];
/// Longest name of a limit.
const NAME_BYTES_MAX: usize = 64;

struct LimitadorLimit {
    name: String,
    namespace: String,
    count: i64,
    per: Span,
    conditions: Vec<String>,
    key: Vec<String>,
}

/// Reads a limits file.
///
/// # Errors
/// All that is wrong with it, each with place and mend.
pub fn read(name: &str, text: &str) -> Result<LimitadorImport, ConfigProblems> {
    let source =
        Arc::new(ConfigSource { kind: SourceKind::File, name: name.to_owned(), text: text.to_owned() });
    let mut problems = ConfigProblems::default();
    let mut limits: Vec<LimitadorLimit> = Vec::new();
    let mut names = HashSet::new();
    if let Some(root) = yaml::parse(&source, &mut problems) {
        match &root.value {
            YamlValue::Null => {}
            YamlValue::List(items) => {
                for (item, index) in items.iter().zip(1..) {
                    if let Some(mut limit) = limit(&source, item, index, &mut problems) {
                        // Limitador's names need not be unique, and ours must be.
                        while !names.insert(limit.name.clone()) {
                            limit.name = fitting(&format!("{}-{index}", limit.name));
                        }
                        limits.push(limit);
                    }
                }
            }
            _ => {
                let help = "expected a list of limits, each behind a dash".to_owned();
                problems.add(&root.origin(&source), format!("this is {}", root.kind()), Some(help));
            }
        }
    }
    problems.refuse()?;
    Ok(written(name, &limits))
}

fn limit(
    source: &Arc<ConfigSource>,
    item: &YamlNode,
    index: usize,
    problems: &mut ConfigProblems,
) -> Option<LimitadorLimit> {
    let YamlValue::Map(members) = &item.value else {
        let help = format!("expected a mapping with {}", KNOWN.join(", "));
        problems.add(&item.origin(source), format!("this is {}", item.kind()), Some(help));
        return None;
    };
    let mut fields = std::collections::HashMap::new();
    for (key, value) in members {
        let name = key.text(source).unwrap_or_default();
        match KNOWN.iter().find(|known| **known == name) {
            Some(known) => {
                fields.insert(*known, value);
            }
            None => {
                let help = expected(&name, KNOWN.iter().copied());
                problems.add(&key.origin(source), format!("unknown key `{name}`"), Some(help));
            }
        }
    }
    let mut number = |name: &str, min: i64, max: i64| {
        let node = fields.get(name).copied();
        let number = node.and_then(|node| match node.value {
            YamlValue::Integer(number) if (min..=max).contains(&number) => Some(number),
            _ => None,
        });
        if number.is_none() {
            let what = node.map_or("absent", YamlNode::kind);
            let what = if what == "a number" { "out of range" } else { what };
            let help = format!("expected a whole number from {min} to {max}");
            let origin = node.unwrap_or(item).origin(source);
            problems.add(&origin, format!("`{name}` is {what}"), Some(help));
        }
        number
    };
    let count = number("max_value", 0, i64::MAX);
    let seconds = number("seconds", 1, WINDOW_MAX.0 / 1_000_000);
    let mut texts = |name: &str| {
        let node = fields.get(name).copied()?;
        let items = match &node.value {
            YamlValue::Null => Some(Vec::new()),
            YamlValue::List(items) => items.iter().map(|item| item.text(source)).collect(),
            _ => None,
        };
        if items.is_none() {
            let help = "expected a list of texts".to_owned();
            problems.add(&node.origin(source), format!("`{name}` is {}", node.kind()), Some(help));
        }
        items
    };
    let conditions = texts("conditions").unwrap_or_default();
    let key: Vec<String> = texts("variables").unwrap_or_default().iter().map(|it| field(it)).collect();
    if key.len() > FIELDS_MAX {
        let help = format!("a key has at most {FIELDS_MAX} fields");
        problems.add(&fields["variables"].origin(source), "there are too many variables", Some(help));
    }
    let text = |name: &str| fields.get(name).and_then(|node| node.text(source)).unwrap_or_default();
    let namespace = text("namespace");
    if namespace.is_empty() {
        let help = "add `namespace:` with the domain that requests have".to_owned();
        problems.add(&item.origin(source), "the limit has no namespace", Some(help));
    }
    let name = text("name");
    let name = if name.is_empty() { format!("{namespace}-{index}") } else { name };
    Some(LimitadorLimit {
        name: fitting(&name),
        namespace,
        count: count?,
        per: Span::seconds(seconds?),
        conditions,
        key,
    })
}

/// A name as limits may have them.
fn fitting(name: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
    name.chars().map(fit).take(NAME_BYTES_MAX).collect()
}

/// The field that a variable means: `descriptors[0]['user_id']` and `descriptors[0].user_id` are those called `user_id`.
fn field(variable: &str) -> String {
    let rest = variable.trim();
    let entry = rest.strip_prefix("descriptors[").and_then(|rest| rest.split_once(']')).map(|(_, rest)| rest);
    let Some(entry) = entry else { return rest.to_owned() };
    let quoted =
        |quote: char| entry.strip_prefix('[')?.strip_prefix(quote)?.strip_suffix(']')?.strip_suffix(quote);
    let name = quoted('\'').or_else(|| quoted('"')).or_else(|| entry.strip_prefix('.'));
    name.unwrap_or(rest).to_owned()
}

fn written(file: &str, limits: &[LimitadorLimit]) -> LimitadorImport {
    let mut text = format!(
        "# Made of the limits of Limitador in {}. Limitador counts in windows that begin with a first request; these\n\
         # slide, so that there never is more than the count in any of them.\n",
        one_line(file)
    );
    let mut left = Vec::new();
    let mut namespaces: Vec<&str> = Vec::new();
    for limit in limits {
        if !namespaces.contains(&limit.namespace.as_str()) {
            namespaces.push(&limit.namespace);
        }
    }
    for namespace in namespaces {
        let of = || limits.iter().filter(|limit| limit.namespace == namespace);
        if of().nth(1).is_some() {
            let names: Vec<String> = of().map(|limit| format!("`{}`", limit.name)).collect();
            let line = format!(
                "namespace `{}`: a request takes from each of {} whose conditions hold; `also` takes several at once",
                one_line(namespace),
                names.join(", ")
            );
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\n# {line}");
            left.push(line);
        }
    }
    for limit in limits {
        let _ = writeln!(text);
        for condition in &limit.conditions {
            let condition = one_line(condition);
            let _ = writeln!(text, "# Only where {condition}");
            left.push(format!("`{}`: take from it only where {condition}", limit.name));
        }
        let key: Vec<String> = limit.key.iter().map(|field| quote(field)).collect();
        let _ = writeln!(
            text,
            "[[limit]]\nname = {}\ndescription = {}\nkey = [{}]\ncount = {}\nper = \"{}\"",
            quote(&limit.name),
            quote(&format!("Limitador: {}", limit.namespace)),
            key.join(", "),
            limit.count,
            limit.per
        );
    }
    LimitadorImport { text, limits: limits.len(), left }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A text as TOML writes it, which is as JSON does where there are no control characters.
fn quote(text: &str) -> String {
    serde_json::Value::from(one_line(text)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Overrides, Plan};

    const FILE: &str = include_str!("../../../../corpora/limits/limitador/limits.yaml");

    #[test]
    fn the_peers_example_is_read() {
        let read = read("limits.yaml", FILE).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(read.limits, 2);
        assert_eq!(read.left.len(), 2, "{:?}", read.left);
        assert!(
            read.left[1].ends_with("only where descriptors[0]['req.method'] == 'POST'"),
            "{:?}",
            read.left
        );
        let config =
            Config::from_text("made", &format!("preset = \"web\"\n{}", read.text), &Overrides::default());
        let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}\n{}", read.text));
        let limit = plan.limit("test_namespace-2").unwrap();
        assert_eq!((limit.count, limit.window(), limit.kind.0), (5, Span::minutes(1), 2));
        assert_eq!(limit.key[0].name, "user_id");
    }

    #[test]
    fn variables_are_fields() {
        for (variable, expected) in [
            ("descriptors[0]['user_id']", "user_id"),
            ("descriptors[0][\"user_id\"]", "user_id"),
            ("descriptors[1].user_id", "user_id"),
            ("user_id", "user_id"),
            ("descriptors[0]", "descriptors[0]"),
        ] {
            assert_eq!(field(variable), expected);
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_place_and_mend() {
        for (text, expected) in [
            ("namespace: a\n", "a.yaml:1:1: error: this is a mapping"),
            ("- a\n", "a.yaml:1:3: error: this is text"),
            ("- {namespace: a, max_value: 1, seconds: 0}\n", "a.yaml:1:41: error: `seconds` is out of range"),
            ("- {namespace: a, seconds: 1}\n", "`max_value` is absent"),
            ("- {max_value: 1, seconds: 1}\n", "the limit has no namespace"),
            ("- {namespace: a, maxvalue: 1, seconds: 1}\n", "did you mean `max_value`?"),
            ("- {namespace: a, max_value: 1, seconds: 1, conditions: x}\n", "`conditions` is text"),
        ] {
            let problems = read("a.yaml", text).unwrap_err().to_string();
            assert!(problems.contains(expected), "{text}: {problems}");
        }
    }
}

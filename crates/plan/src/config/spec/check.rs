//! Check of a text against the list of sections and keys.

use event::Span;

use super::value::{fact_value, file_mode, parse_percentage, parse_size, print_size, time};
use super::{SECTIONS, Section, SectionForm, SettingSpec, SettingType, section};
use crate::config::endpoint::Endpoint;
use crate::config::problem::{ConfigOrigin, ConfigProblems, SourceKind, expected};
use crate::config::tree::{TomlNode, TomlTable, TomlValue};

/// Checks a whole document against [`SECTIONS`]. `main` allows the node's sections.
pub(in crate::config) fn check(root: &TomlTable, main: bool, problems: &mut ConfigProblems) {
    let top = &SECTIONS[0];
    for entry in &root.entries {
        if let Some(setting) = top.setting(&entry.key) {
            check_value(&entry.key, &entry.node, setting.shape, problems);
            continue;
        }
        let Some(section) = section(&entry.key).filter(|section| !section.name.is_empty()) else {
            let names = SECTIONS.iter().filter(|section| main || !section.node).map(|section| section.name);
            let names =
                top.settings.iter().map(|setting| setting.key).chain(names.filter(|name| !name.is_empty()));
            problems.add(
                &entry.key_origin,
                format!("unknown key `{}`", entry.key),
                Some(expected(&entry.key, names)),
            );
            continue;
        };
        if section.node && !main {
            let message = format!("{} belongs to the node, not to a pipeline", section.heading());
            problems.add(&entry.key_origin, message, Some("move it to the main file".to_owned()));
            continue;
        }
        match (section.form, &entry.node.value) {
            (SectionForm::List(_), TomlValue::List(items)) => {
                for item in items {
                    match &item.value {
                        TomlValue::Table(table) => check_table(section, table, problems),
                        other => wrong_type(&entry.key, &item.origin, other, "a table", problems),
                    }
                }
            }
            (SectionForm::List(_), other) => {
                let wanted = format!("a list of tables, written {}", section.heading());
                wrong_type(&entry.key, &entry.node.origin, other, &wanted, problems);
            }
            (_, TomlValue::Table(table)) => check_table(section, table, problems),
            (_, other) => {
                let wanted = format!("a table, written {}", section.heading());
                wrong_type(&entry.key, &entry.node.origin, other, &wanted, problems);
            }
        }
    }
}

/// The kind of a text that is laid over a pipeline's file at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum OverlayKind {
    /// The text may change all but what the pipeline is.
    Posted,
    /// The text may change what is judged, and nothing that is counted.
    Candidate,
}

/// The sections that judging alone depends on.
const JUDGING: [&str; 7] = ["constants", "expressions", "set", "model", "group", "rule", "band"];

/// Checks a text that came from outside: what it may speak of, and that it names no files of this machine.
pub(in crate::config) fn check_layer(root: &TomlTable, layer: OverlayKind, problems: &mut ConfigProblems) {
    check(root, false, problems);
    for entry in &root.entries {
        let Some(section) = section(&entry.key) else {
            if SECTIONS[0].setting(&entry.key).is_some() {
                let message = format!("`{}` says what the pipeline is", entry.key);
                let help = "it stands in the pipeline's file, over which this text is laid";
                problems.add(&entry.key_origin, message, Some(help.to_owned()));
            }
            continue;
        };
        if layer == OverlayKind::Candidate && !section.node && !JUDGING.contains(&section.name) {
            let message = format!("{} changes what is counted", section.heading());
            let help = "a candidate judges what the enforced rules judge: change the pipeline's file first";
            problems.add(&entry.key_origin, message, Some(help.to_owned()));
        }
        if section.name == "patterns" {
            let help = "name it in the pipeline's file";
            let message = format!("{} of this text cannot name a file", section.heading());
            problems.add(&entry.key_origin, message, Some(help.to_owned()));
        }
        let TomlValue::List(items) = &entry.node.value else { continue };
        for item in items {
            let TomlValue::Table(table) = &item.value else { continue };
            if let Some(file) =
                table.entries.iter().find(|entry| matches!(entry.key.as_str(), "file" | "files"))
            {
                let message = format!("{} of this text cannot name a file", section.heading());
                let help = "name it in the pipeline's file; this text may change the rest of its entry";
                problems.add(&file.key_origin, message, Some(help.to_owned()));
            }
        }
    }
}

fn check_table(section: &Section, table: &TomlTable, problems: &mut ConfigProblems) {
    let of = |key: &str| section.setting(key);
    check_entries(&section.heading(), section.settings, of, table, problems);
}

fn check_entries(
    heading: &str,
    settings: &[SettingSpec],
    of: impl Fn(&str) -> Option<&'static SettingSpec>,
    table: &TomlTable,
    problems: &mut ConfigProblems,
) {
    for entry in &table.entries {
        match of(&entry.key) {
            Some(setting) => check_value(&entry.key, &entry.node, setting.shape, problems),
            None if entry.key == "number" && is_numbered(heading) => {
                let message = format!("the number of {heading} is allotted when its name is first used");
                let help =
                    "take the line out: a name keeps its number, and `tollhouse ledger names` tells it";
                problems.add(&entry.key_origin, message, Some(help.to_owned()));
            }
            None => {
                let message = format!("unknown key `{}` in {heading}", entry.key);
                let names = settings.iter().map(|setting| setting.key);
                problems.add(&entry.key_origin, message, Some(expected(&entry.key, names)));
            }
        }
    }
}

/// Returns true if the entries of a section are stored under a number.
fn is_numbered(heading: &str) -> bool {
    ["[[kind]]", "[[distinct]]", "[[last]]", "[[label]]", "[[classifier]]", "[[limit]]"].contains(&heading)
}

/// Checks that nothing is missing from an entry of a list section, once all layers are merged.
pub(in crate::config) fn check_complete(
    section: &Section,
    table: &TomlTable,
    origin: &ConfigOrigin,
    problems: &mut ConfigProblems,
) {
    complete(&section.heading(), section.settings, table, origin, problems);
}

/// Checks that a merged table has no setting that does nothing beside what else it says.
pub(in crate::config) fn check_applies(section: &Section, table: &TomlTable, problems: &mut ConfigProblems) {
    for setting in section.settings {
        let Some((only, entry)) =
            setting.only.zip(table.entries.iter().find(|entry| entry.key == setting.key))
        else {
            continue;
        };
        let Some(TomlNode { value: TomlValue::String(word), .. }) = table.get(only.key) else { continue };
        if entry.node.origin.source.kind != SourceKind::Default && !only.values.contains(&word.as_str()) {
            let message = format!("`{}` does nothing where `{}` is `{word}`", setting.key, only.key);
            let words = only.values.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
            let help = format!("it applies to {words} alone: take it out");
            problems.add(&entry.key_origin, message, Some(help));
        }
    }
}

fn complete(
    heading: &str,
    settings: &[SettingSpec],
    table: &TomlTable,
    origin: &ConfigOrigin,
    problems: &mut ConfigProblems,
) {
    for setting in settings {
        match (setting.shape, table.get(setting.key)) {
            (_, None) if setting.required => {
                let message = format!("{heading} has no `{}`", setting.key);
                problems.add(origin, message, Some(format!("add `{} = ...`: {}", setting.key, setting.doc)));
            }
            (SettingType::Table(settings), Some(TomlNode { value: TomlValue::Table(inner), origin })) => {
                complete(&format!("`{}`", setting.key), settings, inner, origin, problems);
            }
            (
                SettingType::List(SettingType::Table(settings)),
                Some(TomlNode { value: TomlValue::List(items), .. }),
            ) => {
                for item in items {
                    let TomlValue::Table(inner) = &item.value else { continue };
                    complete(&format!("`{}`", setting.key), settings, inner, &item.origin, problems);
                }
            }
            _ => {}
        }
    }
}

fn wrong_type(
    key: &str,
    origin: &ConfigOrigin,
    found: &TomlValue,
    wanted: &str,
    problems: &mut ConfigProblems,
) {
    let message = format!("`{key}` is {}", found.type_name());
    problems.add(origin, message, Some(format!("expected {wanted}")));
}

fn check_value(key: &str, node: &TomlNode, shape: SettingType, problems: &mut ConfigProblems) {
    if let (SettingType::Table(settings), TomlValue::Table(table)) = (shape, &node.value) {
        let of = |key: &str| settings.iter().find(|setting| setting.key == key);
        check_entries(&format!("`{key}`"), settings, of, table, problems);
        return;
    }
    let wanted = match fit(&node.value, shape) {
        Ok(()) => return,
        Err(wanted) => wanted,
    };
    if let (SettingType::List(inner) | SettingType::OneOrMore(inner), TomlValue::List(items)) =
        (shape, &node.value)
        && !items.is_empty()
    {
        for item in items {
            check_value(key, item, *inner, problems);
        }
        return;
    }
    match &node.value {
        TomlValue::String(_) if matches!(shape, SettingType::Secret(_)) => {
            problems.add(&node.origin, format!("`{key}` is too short"), Some(wanted))
        }
        TomlValue::String(text) => {
            let message = format!("`{key}` cannot be {}", excerpt(text));
            problems.add(&node.origin, message, Some(wanted));
        }
        TomlValue::Integer(number) => {
            problems.add(&node.origin, format!("`{key}` cannot be {number}"), Some(wanted))
        }
        other => problems.add(&node.origin, format!("`{key}` is {}", other.type_name()), Some(wanted)),
    }
}

fn excerpt(text: &str) -> String {
    const SHOWN_MAX: usize = 40;
    let cut: String = text.chars().take(SHOWN_MAX).collect();
    if cut.len() < text.len() { format!("{cut:?}...") } else { format!("{cut:?}") }
}

/// Checks that a value has a shape; if not, returns what was expected.
fn fit(value: &TomlValue, shape: SettingType) -> Result<(), String> {
    let text = match value {
        TomlValue::String(text) => Some(text.as_str()),
        _ => None,
    };
    let (fits, wanted) = match shape {
        SettingType::Text => (text.is_some(), "expected a string".to_owned()),
        SettingType::Name => {
            let fits = text.is_some_and(|text| {
                (1..=64).contains(&text.len())
                    && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
            });
            (fits, "expected a name of letters, digits, `_`, `-` and `.`, at most 64 bytes".to_owned())
        }
        SettingType::Secret(least) => (
            text.is_some_and(|text| text.len() >= least),
            format!("expected a string of at least {least} bytes"),
        ),
        SettingType::Choice(words) => (
            text.is_some_and(|text| words.contains(&text)),
            expected(text.unwrap_or_default(), words.iter().copied()),
        ),
        SettingType::Integer(min, max) => (
            matches!(value, TomlValue::Integer(number) if (min..=max).contains(number)),
            format!("expected an integer from {min} to {max}"),
        ),
        SettingType::Float => (matches!(value, TomlValue::Float(_) | TomlValue::Integer(_)), "expected a number".to_owned()),
        SettingType::Span => (
            text.is_some_and(|text| text.parse::<Span>().is_ok_and(|span| span > Span::ZERO)),
            "expected a length of time such as \"90s\", \"10m\" or \"14d\"".to_owned(),
        ),
        SettingType::Durability => (
            text.is_some_and(|text| {
                matches!(text, "sync" | "none") || text.parse::<Span>().is_ok_and(|span| span > Span::ZERO)
            }),
            "expected \"sync\", \"none\" or a length of time such as \"1s\"".to_owned(),
        ),
        SettingType::Interval => (
            text.is_some_and(|text| {
                text == "off" || text.parse::<Span>().is_ok_and(|span| span >= Span(100_000))
            }),
            "expected \"off\", or a length of time such as \"2s\", at least \"100ms\"".to_owned(),
        ),
        SettingType::Size(max) => (
            text.is_some_and(|text| parse_size(text).is_some_and(|bytes| (1024..=max).contains(&bytes))),
            format!("expected a number of bytes such as \"64MiB\", from 1KiB to {}", print_size(max)),
        ),
        SettingType::Socket => (
            text.is_some_and(|text| text.parse::<std::net::SocketAddr>().is_ok()),
            "expected an IP address and a port such as \"127.0.0.1:8377\" or \"[::1]:8377\"".to_owned(),
        ),
        SettingType::Endpoint => (
            text.is_some_and(|text| text.parse::<Endpoint>().is_ok()),
            "expected an address and a port such as \"127.0.0.1:11332\", or a path such as \"unix:/run/tollhouse/milter.sock\"".to_owned(),
        ),
        SettingType::Percentage => (
            text.is_some_and(|text| parse_percentage(text).is_some()),
            "expected a percentage such as \"0.5 %\", above 0 and at most 50".to_owned(),
        ),
        SettingType::FileMode => (
            text.is_some_and(|text| file_mode(text).is_some()),
            "expected permissions of a file as octal digits such as \"0660\"".to_owned(),
        ),
        SettingType::Network => (
            text.is_some_and(|text| text.parse::<judge::Network>().is_ok()),
            "expected an address or a network such as \"10.0.0.0/8\" or \"2001:db8::/32\"".to_owned(),
        ),
        SettingType::Sightings => {
            let (least, most) = (*stats::Admission::AFTER.start(), *stats::Admission::AFTER.end());
            (
                matches!(value, TomlValue::Integer(number) if (i64::from(least)..=i64::from(most)).contains(number)),
                format!("counters have four bits: write an integer from {least} to {most}"),
            )
        }
        SettingType::Entry => (
            matches!(value, TomlValue::String(_) | TomlValue::Integer(_)),
            "expected a string or an integer".to_owned(),
        ),
        SettingType::Bool => (matches!(value, TomlValue::Bool(_)), "expected true or false".to_owned()),
        SettingType::Time => (time(value).is_some(), "expected a time such as \"2026-12-01T00:00:00Z\"".to_owned()),
        SettingType::Constant => (
            match value {
                TomlValue::List(items) => items
                    .iter()
                    .all(|item| matches!(item.value, TomlValue::String(_) | TomlValue::Integer(_) | TomlValue::Float(_))),
                other => matches!(other, TomlValue::String(_) | TomlValue::Integer(_) | TomlValue::Float(_) | TomlValue::Bool(_)),
            },
            "expected a number, a string, true or false, or a list of numbers and strings".to_owned(),
        ),
        SettingType::Facts => match value {
            TomlValue::Table(table) => (
                table.entries.iter().all(|entry| fact_value(&entry.node.value).is_some()),
                "expected numbers, strings, true, false, times and lists of strings".to_owned(),
            ),
            _ => (false, "expected a table, written { \"mail.size\" = 7 }".to_owned()),
        },
        SettingType::Table(settings) => {
            let needed = settings.iter().filter(|setting| setting.required);
            let needed: Vec<String> = needed.map(|setting| format!("{} = ...", setting.key)).collect();
            (false, format!("expected a table, written {{ {} }}", needed.join(", ")))
        }
        SettingType::List(inner) => match value {
            TomlValue::List(items) if items.iter().all(|item| fit(&item.value, *inner).is_ok()) => {
                (true, String::new())
            }
            TomlValue::List(_) => (false, String::new()),
            _ => (false, "expected a list, written [...]".to_owned()),
        },
        SettingType::OneOrMore(inner) => match value {
            TomlValue::List(items) if items.is_empty() => (false, "expected at least one".to_owned()),
            TomlValue::List(items) => (items.iter().all(|item| fit(&item.value, *inner).is_ok()), String::new()),
            value => match fit(value, *inner) {
                Ok(()) => (true, String::new()),
                Err(wanted) => (false, format!("{wanted}, or a list of them")),
            },
        },
    };
    if fits { Ok(()) } else { Err(wanted) }
}

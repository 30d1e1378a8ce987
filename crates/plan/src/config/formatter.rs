//! Lays out configuration files in the one form that everybody's has, with their comments.

use std::sync::Arc;

use toml_edit::{Array, Decor, DocumentMut, Formatted, InlineTable, Item, KeyMut, RawString, Table, Value};

use super::problem::{ConfigOrigin, ConfigProblems, ConfigSource, SourceKind, inside};
use super::spec;
use super::tree::{self, TomlValue};

/// Longest line, in characters, where it can be broken.
const WIDTH: usize = 110;
/// The indent of the items of a list that needs several lines, in characters.
const INDENT: usize = 4;

/// Returns true if a key's value is a condition or an expression of the rule language.
pub(super) fn is_condition(section: &str, key: &str) -> bool {
    matches!(
        (section, key),
        ("rule" | "kind" | "limit", "when") | ("rule", "share") | ("field", "value") | ("expressions", _)
    )
}

/// The text of a configuration file, laid out: conditions as [`judge::format`] does it; one blank around signs; lists on
/// one line, or on several within their brackets, with comments one item a line; the keys of a rule in the order of the reference, unless comments stand between them;
/// one empty line before a table, and nowhere two. Comments stay where they are, and so does the order of tables.
///
/// What it means is the same, and so is the version of the pipeline. The same again changes nothing.
///
/// # Errors
/// What cannot be read of the file, called `name`, or of its conditions. That names and types are right is not looked at.
pub fn format(name: &str, text: &str) -> Result<String, ConfigProblems> {
    let source =
        Arc::new(ConfigSource { kind: SourceKind::File, name: name.to_owned(), text: text.to_owned() });
    let mut problems = ConfigProblems::default();
    let tree = tree::parse(&source, &mut problems);
    for (condition, origin) in conditions(&tree) {
        for diagnostic in judge::format(condition, WIDTH).err().unwrap_or_default() {
            let place = inside(origin, condition, diagnostic.range);
            problems.add(&place, diagnostic.message, diagnostic.help);
        }
    }
    let start = ConfigOrigin { source: Arc::clone(&source), range: 0..0 };
    let document = text.parse::<DocumentMut>();
    let document = document.map_err(|error| problems.add(&start, error.message(), None));
    let (true, Ok(mut document)) = (problems.is_empty(), document) else { return Err(problems.sorted()) };
    table(document.as_table_mut(), "", "");
    let trailing = lines(&format!("{}\n", document.trailing().as_str().unwrap_or_default()), true);
    document.set_trailing(trailing);
    let mut laid_out = document.to_string().trim_matches('\n').to_owned();
    if !laid_out.is_empty() {
        laid_out.push('\n');
    }

    // Files are written over with this: that it says the same is not taken on trust.
    let again =
        Arc::new(ConfigSource { kind: SourceKind::File, name: name.to_owned(), text: laid_out.clone() });
    if meaning(&tree::parse(&again, &mut problems)) != meaning(&tree) || !problems.is_empty() {
        problems.add(&start, "the file cannot be laid out without changing what it says", None);
        return Err(problems);
    }
    Ok(laid_out)
}

/// The conditions and expressions of a file and where they stand.
fn conditions(file: &tree::TomlTable) -> Vec<(&str, &ConfigOrigin)> {
    let mut found = Vec::new();
    for entry in &file.entries {
        let tables: Vec<&tree::TomlTable> = match &entry.node.value {
            TomlValue::Table(table) => vec![table],
            TomlValue::List(items) => {
                let tables = items.iter().filter_map(|item| match &item.value {
                    TomlValue::Table(table) => Some(table),
                    _ => None,
                });
                tables.collect()
            }
            _ => Vec::new(),
        };
        for inner in tables.into_iter().flat_map(|table| &table.entries) {
            if let (true, TomlValue::String(text)) = (is_condition(&entry.key, &inner.key), &inner.node.value)
            {
                found.push((text.as_str(), &inner.node.origin));
            }
        }
    }
    found
}

/// Returns the meaning of a file, without its layout and the order of keys.
fn meaning(file: &tree::TomlTable) -> String {
    fn value(tree: &TomlValue, section: &str, key: &str) -> String {
        match tree {
            TomlValue::String(text) if is_condition(section, key) => judge::canonical(text),
            TomlValue::Table(table) => {
                let entry = |entry: &tree::TomlEntry| {
                    let section = if section.is_empty() { key } else { section };
                    format!("{:?} = {}", entry.key, value(&entry.node.value, section, &entry.key))
                };
                let mut entries: Vec<String> = table.entries.iter().map(entry).collect();
                entries.sort_unstable();
                format!("{{{}}}", entries.join(", "))
            }
            TomlValue::List(items) => {
                let items: Vec<String> = items.iter().map(|item| value(&item.value, section, key)).collect();
                format!("[{}]", items.join(", "))
            }
            other => other.to_toml(),
        }
    }
    value(&TomlValue::Table(file.clone()), "", "")
}

/// Lays out a table and those in it. `section` is the name of the outermost around it.
fn table(table: &mut Table, section: &str, name: &str) {
    let mut first = true;
    for (key, item) in table.iter_mut() {
        let inner = key.get().to_owned();
        let section = if section.is_empty() { inner.as_str() } else { section };
        match item {
            Item::Value(value) => {
                assignment(key, value, if name == section { section } else { "" }, &inner, first);
                first = false;
            }
            Item::Table(inner_table) if inner_table.is_dotted() => self::table(inner_table, section, &inner),
            Item::Table(inner_table) => {
                header(inner_table.decor_mut());
                self::table(inner_table, section, &inner);
            }
            Item::ArrayOfTables(tables) => {
                for inner_table in tables.iter_mut() {
                    header(inner_table.decor_mut());
                    self::table(inner_table, section, &inner);
                }
            }
            Item::None => {}
        }
    }
    if section == "rule" && name == "rule" {
        in_order(table);
    }
}

/// Sorts the keys of a rule as the reference has them, unless a comment stands before one: it may be about several.
fn in_order(table: &mut Table) {
    let is_commented =
        |name: &str| table.key(name).is_some_and(|key| text(key.leaf_decor().prefix()).contains('#'));
    let commented = table.iter().any(|(name, _)| is_commented(name));
    let Some(section) = spec::section("rule").filter(|_| !commented) else { return };
    let place = |key: &toml_edit::Key| section.settings.iter().position(|one| one.key == key.get());
    table.sort_values_by(|one, _, other, _| place(one).cmp(&place(other)));
}

/// Lays out what stands before a table: an empty line, and the comments as they are.
fn header(decor: &mut Decor) {
    let prefix = format!("\n{}", lines(text(decor.prefix()), true).trim_start_matches('\n'));
    decor.set_prefix(prefix);
    let suffix = behind(text(decor.suffix()));
    decor.set_suffix(suffix);
}

fn assignment(mut key: KeyMut<'_>, value: &mut Value, section: &str, name: &str, first: bool) {
    let decor = key.leaf_decor_mut();
    let prefix = lines(text(decor.prefix()), !first);
    decor.set_prefix(prefix);
    decor.set_suffix(" ");
    key.dotted_decor_mut().clear();
    let taken = key.display_repr().chars().count() + 3;
    let comment = behind(text(value.decor().suffix()));
    if is_condition(section, name)
        && let Value::String(text) = value
        && let Some(laid_out) = condition(text, WIDTH.saturating_sub(taken + 2))
    {
        *value = laid_out;
    }
    lay_out(value, taken, 0);
    let decor = value.decor_mut();
    decor.set_prefix(" ");
    decor.set_suffix(comment);
}

/// A condition as it is written in TOML: in the quotes that need no escapes.
fn condition(source: &Formatted<String>, width: usize) -> Option<Value> {
    // What cannot be read was told of.
    let one_line = judge::format(source.value(), width).ok()?;
    let several = one_line.contains('\n');
    let text = if several { judge::format(source.value(), WIDTH).ok()? } else { one_line };
    let (plain, raw) = (!text.contains(['"', '\\']), !text.contains("'''") && !text.ends_with('\''));
    let written = match several {
        true if raw => format!("'''\n{text}\n'''"),
        true => format!("\"\"\"\n{}\n\"\"\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        false if plain => format!("\"{text}\""),
        false if !text.contains('\'') => format!("'{text}'"),
        false if raw => format!("'''{text}'''"),
        false => TomlValue::String(text.clone()).to_toml(),
    };
    // Control characters need escapes.
    let written = if text.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
        TomlValue::String(text.clone()).to_toml()
    } else {
        written
    };
    written.parse().ok()
}

/// Lays out lists and inline tables; `taken` characters of the line are used already.
fn lay_out(value: &mut Value, taken: usize, indent: usize) {
    match value {
        Value::Array(array) => list(array, taken, indent),
        Value::InlineTable(table) => inline(table),
        _ => {}
    }
}

fn list(array: &mut Array, taken: usize, indent: usize) {
    for item in array.iter_mut() {
        lay_out(item, indent + INDENT, indent + INDENT);
    }
    let shown: Vec<String> = array.iter().map(|item| item.clone().decorated("", "").to_string()).collect();
    let length = shown.iter().map(|item| item.chars().count() + 2).sum::<usize>();
    let of_item = |decor: &Decor| text(decor.prefix()).contains('#') || text(decor.suffix()).contains('#');
    let has_comments =
        text(Some(array.trailing())).contains('#') || array.iter().any(|item| of_item(item.decor()));
    if !has_comments && taken + length <= WIDTH && shown.iter().all(|item| !item.contains('\n')) {
        for (index, item) in array.iter_mut().enumerate() {
            let decor = item.decor_mut();
            decor.set_prefix(if index == 0 { "" } else { " " });
            decor.set_suffix("");
        }
        array.set_trailing("");
        array.set_trailing_comma(false);
        return;
    }
    let last = array.len().saturating_sub(1);
    let mut behind_last = text(Some(array.trailing())).to_owned();
    let mut column = usize::MAX;
    for (index, (item, shown)) in array.iter_mut().zip(&shown).enumerate() {
        let length = shown.chars().count() + 1;
        let decor = item.decor_mut();
        // Without comments as many stand on a line as fit.
        let fits = !has_comments && !shown.contains('\n') && column.saturating_add(1 + length) <= WIDTH;
        column = if fits { column + 1 + length } else { indent + INDENT + length };
        let prefix = match fits {
            true => " ".to_owned(),
            false => before_item(text(decor.prefix()), indent + INDENT),
        };
        decor.set_prefix(prefix);
        let suffix = text(decor.suffix()).to_owned();
        // A comment between an item and its comma needs the line break behind it.
        let is_comment = suffix.contains('#');
        if is_comment && index == last {
            behind_last = format!("{suffix}\n{behind_last}");
        }
        decor.set_suffix(if is_comment && index < last {
            before_item(&suffix, indent + INDENT)
        } else {
            String::new()
        });
    }
    let trailing = before_item(&behind_last, indent + INDENT);
    let trailing = trailing.trim_end_matches(' ');
    array.set_trailing(format!("{trailing}{:indent$}", ""));
    array.set_trailing_comma(!array.is_empty());
}

/// Lays out what stands between a comma and an item on a line of its own.
fn before_item(between: &str, indent: usize) -> String {
    let mut pieces = between.split('\n');
    let mut laid_out = behind(pieces.next().unwrap_or_default());
    for comment in pieces.map(str::trim).filter(|piece| !piece.is_empty()) {
        laid_out += &format!("\n{:indent$}{comment}", "");
    }
    format!("{laid_out}\n{:indent$}", "")
}

fn inline(table: &mut InlineTable) {
    // Comments and several lines are possible in it: such a table has a layout of its own.
    let own = Value::InlineTable(table.clone()).decorated("", "").to_string();
    if own.contains(['#', '\n']) {
        return;
    }
    let last = table.len().saturating_sub(1);
    for (index, (mut key, value)) in table.iter_mut().enumerate() {
        key.leaf_decor_mut().set_prefix(" ");
        key.leaf_decor_mut().set_suffix(" ");
        key.dotted_decor_mut().clear();
        match value {
            // On the one line of the table.
            Value::Array(array) => list(array, 0, 0),
            Value::InlineTable(inner) => inline(inner),
            _ => {}
        }
        let decor = value.decor_mut();
        decor.set_prefix(" ");
        decor.set_suffix(if index == last { " " } else { "" });
    }
    table.set_trailing("");
    table.set_trailing_comma(false);
}

fn text(raw: Option<&RawString>) -> &str {
    raw.and_then(RawString::as_str).unwrap_or_default()
}

/// Comments on lines of their own, with at most one empty line between two and, if wanted, before and after them.
fn lines(raw: &str, edges: bool) -> String {
    let mut laid_out = String::new();
    let mut empty = false;
    let mut pieces: Vec<&str> = raw.split('\n').map(str::trim).collect();
    // What stands on the line of the key itself.
    pieces.pop();
    for piece in pieces {
        if piece.is_empty() {
            empty = true;
            continue;
        }
        if empty && (edges || !laid_out.is_empty()) {
            laid_out.push('\n');
        }
        empty = false;
        laid_out.push_str(piece);
        laid_out.push('\n');
    }
    if empty && (edges || !laid_out.is_empty()) {
        laid_out.push('\n');
    }
    laid_out
}

/// A comment at the end of a line.
fn behind(raw: &str) -> String {
    let comment = raw.trim();
    if comment.is_empty() { String::new() } else { format!("  {comment}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Overrides, Plan, preset};

    fn check(text: &str, expected: &str) {
        let laid_out = format("test", text).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(laid_out, expected);
        assert_eq!(format("test", &laid_out).unwrap(), expected, "the same again");
    }

    #[test]
    fn files_are_laid_out() {
        check(
            "\n\n# About this file.\npreset='mail'   # extends it\n\n\n\nname = \"mail\"\n[constants]\nbulk=1000\n\
             free = [ 'a.example',\n 'b.example' ]\n[expressions]\n  is_bulk='from.seen(\"1h\")>bulk'\n# Floods.\n\n\n\
             # Of one sender.\n[[rule]]\n\n  score=3.0\nname=\"FLOOD\"\nwhen = \"is_bulk&&! mail.has_list_headers\"\n\n\
             [[rule.test]]\nfires=true\nfacts={\"from.seen('1h')\"=1001,'mail.has_list_headers'=false}\n\
             [[rule]]\nscore = 1 # why\n# here\nname = 'COMMENTED'\nwhen = 'mail.subject.matches(r\"^a\\d\")'\n# the end",
            "# About this file.\npreset = 'mail'  # extends it\n\nname = \"mail\"\n\n[constants]\nbulk = 1000\n\
             free = ['a.example', 'b.example']\n\n[expressions]\nis_bulk = \"from.seen('1h') > bulk\"\n\n# Floods.\n\n\
             # Of one sender.\n[[rule]]\nname = \"FLOOD\"\nwhen = \"is_bulk && !mail.has_list_headers\"\nscore = 3.0\n\n\
             [[rule.test]]\nfires = true\nfacts = { \"from.seen('1h')\" = 1001, 'mail.has_list_headers' = false }\n\n\
             [[rule]]\nscore = 1  # why\n# here\nname = 'COMMENTED'\nwhen = 'mail.subject.matches(r\"^a\\d\")'\n# the end\n",
        );
    }

    #[test]
    fn what_is_long_takes_several_lines() {
        check(
            "[[set]]\nname = 's'\ntype = 'string'\nvalues = ['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', # one\n\
             'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', 'ccccccccccccccccccccccccccccc'\n# last\n]\n\n[[rule]]\nname = 'A'\n\
             when = \"from.seen('1h') > 1000 && !mail.has_list_headers || subject.seen('1d') > 500 && subject.first_age() < duration('1d')\"\n",
            "[[set]]\nname = 's'\ntype = 'string'\nvalues = [\n    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',  # one\n    \
             'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',\n    'ccccccccccccccccccccccccccccc',\n    # last\n]\n\n[[rule]]\nname = 'A'\n\
             when = '''\nfrom.seen('1h') > 1000 && !mail.has_list_headers\n|| subject.seen('1d') > 500 && subject.first_age() < duration('1d')\n'''\n",
        );
    }

    #[test]
    fn tables_in_a_list_are_laid_out_wherever_they_stand() {
        check(
            "[[reputation]]\nname = 'r'\nof = 'ip'\nparts = [\n  {counter='complaint',weight=-5.0},\n  { counter = 'likes' , weight = 1.0 },\n\n\
             {counter='shares',weight=0.5}, {counter='refusals',weight=-0.25} ]\n",
            "[[reputation]]\nname = 'r'\nof = 'ip'\nparts = [\n    { counter = 'complaint', weight = -5.0 }, { counter = 'likes', weight = 1.0 },\n    \
             { counter = 'shares', weight = 0.5 }, { counter = 'refusals', weight = -0.25 },\n]\n",
        );
    }

    #[test]
    fn comments_within_conditions_stay() {
        check(
            "[[rule]]\nname = 'A'\nwhen = '''\na>1   // many\n  && \"it's\" in b'''\n",
            "[[rule]]\nname = 'A'\nwhen = '''\na > 1  // many\n&& \"it's\" in b\n'''\n",
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_place() {
        let problems = format("f", "[[rule]]\nname = 'A'\nwhen = 'a &&'\n").unwrap_err().to_string();
        assert!(problems.starts_with("f:3:13: error: the condition ends too early"), "{problems}");
        let problems = format("f", "a = \nb = 1\n").unwrap_err().to_string();
        assert!(problems.starts_with("f:1:"), "{problems}");
    }

    #[test]
    fn presets_are_laid_out_and_their_versions_do_not_depend_on_it() {
        for preset in preset::pipelines() {
            let version = |text: &str| {
                let config = Config::from_text("test", text, &Overrides::default());
                Plan::compile(&config).unwrap().pipelines[0].version.clone()
            };
            // Comments stay as they are.
            let spread = |line: &str| match line.starts_with('#') {
                true => format!("{line}\n"),
                false => line.replace(" && ", "\t&&  ").replace(" = ", "=") + "\n",
            };
            let spread: String = preset.text.lines().map(spread).collect();
            assert_eq!(version(&spread), version(preset.text), "{}", preset.name);
            let laid_out = format(preset.name, &spread).unwrap();
            assert_eq!(version(&laid_out), version(preset.text), "{}", preset.name);
            assert_eq!(laid_out, format(preset.name, preset.text).unwrap());
            assert_eq!(laid_out, preset.text, "`tollhouse rules fmt` lays it out");
        }
    }

    #[test]
    fn modules_are_laid_out_and_fit_the_presets_that_they_are_for() {
        for module in preset::MODULES {
            assert_eq!(
                format(module.name, module.text).unwrap(),
                module.text,
                "`tollhouse rules fmt` lays it out"
            );
        }
        let compiled = |preset: &str, modules: &[&str]| {
            let text = format!("preset = {preset:?}\nmodules = {modules:?}\n");
            let plan = Plan::compile(&Config::from_text("test", &text, &Overrides::default()));
            plan.unwrap_or_else(|problems| panic!("{text}{problems}"))
        };
        let (robots, forms) = ("declared-robots", "forms");
        assert!(compiled("web", &[robots]).pipelines[0].robots.is_some());
        for preset in ["signup", "comments"] {
            let pipeline = &compiled(preset, &[forms]).pipelines[0];
            assert!(pipeline.form.is_some() && pipeline.bait.is_some(), "{preset}");
        }
        let of_mail = preset::MODULES.iter().map(|module| module.name);
        let of_mail: Vec<&str> = of_mail.filter(|name| ![robots, forms].contains(name)).collect();
        for preset in ["mail", "mail-incoming"] {
            for modules in [&of_mail[..], &of_mail[..1], &of_mail[1..2]] {
                compiled(preset, modules);
            }
        }
    }

    #[test]
    fn files_change_modules_as_they_change_presets() {
        let text = "preset = 'mail'\nmodules = ['dns-lists']\n[[dnsbl]]\nname = 'psbl'\nof = []\n\
                    [[dnsbl]]\nname = 'spamhaus_zen'\nzone = 'key.zen.dq.spamhaus.net'\n";
        let plan = Plan::compile(&Config::from_text("test", text, &Overrides::default())).unwrap();
        let list = |name: &str| plan.pipelines[0].lists.iter().find(|list| list.name == name).unwrap();
        assert!(list("psbl").of.is_empty() && !list("spamcop").of.is_empty());
        let zen = list("spamhaus_zen");
        assert_eq!(
            (zen.zone.as_str(), zen.meanings([127, 0, 0, 4].into())),
            ("key.zen.dq.spamhaus.net", vec!["xbl"])
        );
        let wrong =
            Config::from_text("t", "preset = 'mail'\nmodules = ['greylisted']\n", &Overrides::default());
        let problems = wrong.problems().0.to_string();
        assert!(
            problems.contains("t:2:12") && problems.contains("there is no module `greylisted`"),
            "{problems}"
        );
        assert!(problems.contains("did you mean `greylisting`?"), "{problems}");
    }

    #[test]
    fn the_order_of_keys_has_no_meaning() {
        let version = |text: &str| {
            let config = Config::from_text("test", text, &Overrides::default());
            Plan::compile(&config).unwrap().pipelines[0].version.clone()
        };
        let one = "preset = 'web'\n[[rule]]\nname = 'A'\nwhen = 'http.probe'\nscore = 1\n";
        let other = "preset = 'web'\n[[rule]]\nscore = 1\nwhen = ' http.probe'\nname = 'A'\n";
        assert_eq!(version(one), version(other));
        assert_ne!(version(one), version(&one.replace("score = 1", "score = 2")));
        assert_ne!(version(one), version(&one.replace("http.probe", "http.probe || false || http.probe")));
    }
}

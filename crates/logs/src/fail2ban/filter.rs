//! A file of `filter.d`: the patterns of one kind of log.

use std::collections::BTreeMap;

use super::merged::MergedConfig;
use super::{Fail2banFiles, Fail2banProblem, tag};
use crate::line_pattern::LinePattern;
use crate::log_reader::{LINES_MAX, LogPatterns};
use crate::python_regex::LineAnchors;

/// Most patterns of a filter.
const PATTERNS_MAX: usize = 2_000;
/// The section of a filter that says what it reads.
const DEFINITION: &str = "Definition";
/// The section of options that a jail may give.
const INIT: &str = "Init";

/// A filter, with all that stands in it.
#[derive(Clone, Debug, Default)]
pub struct Fail2banFilter {
    /// The name of its file without `.conf`.
    pub name: String,
    /// The patterns, tags replaced by groups.
    pub patterns: LogPatterns,
    /// Patterns with their tags, as people read them.
    pub written: LogPatterns,
    /// Conditions for entries of the journal.
    pub journal_matches: Vec<String>,
    /// The file and line of these conditions, if the filter's file says them.
    pub journal_place: Option<(String, usize)>,
    /// Patterns and files that were not taken.
    pub problems: Vec<Fail2banProblem>,
}

impl Fail2banFilter {
    /// Reads a filter with the options that a jail gives it: those in brackets behind its name, and the jail's own,
    /// which come before the filter's. Errors say why there is no such filter.
    pub fn read(
        files: &Fail2banFiles,
        name: &str,
        options: &BTreeMap<String, String>,
        of_jail: &BTreeMap<String, String>,
    ) -> Result<Fail2banFilter, Fail2banProblem> {
        let path = format!("filter.d/{name}");
        let Some(config) = MergedConfig::read(files, &path) else {
            let message = "there is no such filter".to_owned();
            return Err(Fail2banProblem { file: format!("{path}.conf"), line: 0, message });
        };
        let mut filter = Fail2banFilter {
            name: name.to_owned(),
            problems: config.problems.clone(),
            ..Fail2banFilter::default()
        };
        let mut given = of_jail.clone();
        given.extend(options.clone());
        let mut tags = options.clone();
        for option in config.own_options(INIT) {
            if let Some(Ok(text)) = config.get(INIT, option, &given) {
                tags.entry(option.to_owned()).or_insert_with(|| text.clone());
                tags.insert(format!("known/{option}"), text);
            }
        }
        let values = FilterValues { config: &config, given: &given, tags: &tags };
        let mut take = |name: &str| -> Option<String> {
            match values.value(name)? {
                Ok(text) => Some(text),
                Err(problem) => {
                    filter.problems.push(problem);
                    None
                }
            }
        };
        let prefix = take("prefregex").filter(|text| !text.trim().is_empty());
        let patterns = take("failregex").unwrap_or_default();
        let ignored = take("ignoreregex").unwrap_or_default();
        let dates = take("datepattern").unwrap_or_default();
        let lines = take("maxlines").unwrap_or_default();
        let matches = take("journalmatch").unwrap_or_default();

        let place = |option: &str| match config.raw(DEFINITION, option) {
            Some(value) => (value.file.clone(), value.line),
            None => (format!("{path}.conf"), 0),
        };
        let mut refuse = |option: &str, message: String| {
            let (file, line) = place(option);
            filter.problems.push(Fail2banProblem { file, line, message });
        };
        filter.patterns.lines = match lines.trim() {
            "" => 1,
            text => match text.parse() {
                Ok(lines @ 1..=LINES_MAX) => lines,
                _ => {
                    refuse("maxlines", format!("`maxlines = {text}` is not within 1 and {LINES_MAX}"));
                    1
                }
            },
        };
        let anchors = if filter.patterns.lines > 1 { LineAnchors::Lines } else { LineAnchors::Text };
        let mut has_id = false;
        if let Some(written) = prefix {
            let prefix = tag::groups(&written);
            match LinePattern::new(&prefix, LineAnchors::Text) {
                Ok(pattern) => {
                    has_id = identifies(&pattern);
                    filter.patterns.prefix = Some(prefix);
                    filter.written.prefix = Some(written);
                }
                Err(error) => refuse("prefregex", format!("`prefregex`: {error}")),
            }
        }
        for (option, text, are_events) in [("failregex", &patterns, true), ("ignoreregex", &ignored, false)] {
            let (mut taken, mut written) = (Vec::new(), Vec::new());
            for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
                if taken.len() >= PATTERNS_MAX {
                    refuse(option, format!("more than {PATTERNS_MAX} patterns"));
                    break;
                }
                let regex = tag::groups(line);
                match LinePattern::new(&regex, anchors) {
                    Ok(pattern) if are_events && !has_id && !identifies(&pattern) => {
                        refuse(option, format!("no group says who it was in `{line}`"));
                    }
                    Ok(_) => {
                        taken.push(regex);
                        written.push(line.to_owned());
                    }
                    Err(error) => refuse(option, format!("{error} in `{line}`")),
                }
            }
            if are_events {
                (filter.patterns.patterns, filter.written.patterns) = (taken, written);
            } else {
                (filter.patterns.ignored, filter.written.ignored) = (taken, written);
            }
        }
        for date in dates.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match crate::date_detector::DateDetector::new(&[date]) {
                Ok(_) => filter.patterns.dates.push(date.to_owned()),
                Err(error) => refuse("datepattern", format!("`datepattern`: {error} in `{date}`")),
            }
        }
        filter.journal_place =
            config.raw(DEFINITION, "journalmatch").map(|origin| (origin.file.clone(), origin.line));
        filter.journal_matches =
            matches.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
        filter.problems.sort();
        filter.problems.dedup();
        Ok(filter)
    }
}

/// Returns true if a group of a pattern says who it was, or which session.
fn identifies(pattern: &LinePattern) -> bool {
    ["fid", "ip4", "ip6", "dns", "mlfid"].iter().any(|name| pattern.has_group(name))
}

/// Sources of a filter's values.
struct FilterValues<'c> {
    config: &'c MergedConfig,
    /// Values for `%(name)s`.
    given: &'c BTreeMap<String, String>,
    /// Values for `<name>`, before options.
    tags: &'c BTreeMap<String, String>,
}

impl FilterValues<'_> {
    /// An option with all that stands in it.
    fn value(&self, name: &str) -> Option<Result<String, Fail2banProblem>> {
        let text = match self.tags.get(name) {
            Some(text) => text.clone(),
            None => match self.config.get(DEFINITION, name, self.given)? {
                Ok(text) => text,
                Err(problem) => return Some(Err(problem)),
            },
        };
        let replaced = tag::replace(&text, name, |tag| self.tag(tag));
        Some(replaced.map_err(|message| {
            let origin = self.config.raw(DEFINITION, name);
            Fail2banProblem {
                file: origin.map_or_else(String::new, |origin| origin.file.clone()),
                line: origin.map_or(0, |origin| origin.line),
                message: format!("`{name}`: {message}"),
            }
        }))
    }

    /// The text that a tag stands for.
    fn tag(&self, tag: &str) -> Option<String> {
        if let Some(text) = self.tags.get(tag) {
            return Some(text.clone());
        }
        if let Some((section, option)) = tag.split_once('/')
            && let Some(Ok(text)) = self.config.get_in(section, option)
        {
            return Some(text);
        }
        self.config.get(DEFINITION, tag, self.given)?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str, options: &[(&str, &str)]) -> Fail2banFilter {
        let files = Fail2banFiles(
            [
                ("filter.d/a.conf".to_owned(), text.to_owned()),
                (
                    "filter.d/common.conf".to_owned(),
                    "[DEFAULT]\nlogtype = file\npre = <lt_<logtype>/pre>\n[lt_file]\npre = file\n[lt_journal]\npre = %(lt_file/pre)s 2\n".to_owned(),
                ),
            ]
            .into(),
        );
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Fail2banFilter::read(&files, "a", &options, &BTreeMap::new()).expect("filter")
    }

    #[test]
    fn modes_includes_and_conditions() {
        let text = "[INCLUDES]\nbefore = common.conf\n[Definition]\nmode = one\nre-one = ^1 <pre> <IP4>\nre-two = ^2 <IP4>\n     ^3 <x> <IP4>\nfailregex = <re-<mode>>\nignoreregex =\n[Init]\nx = y\n";
        let check = |options: &[(&str, &str)], starts: &[&str]| {
            let filter = filter(text, options);
            assert_eq!(filter.problems, []);
            let found: Vec<&str> = filter.patterns.patterns.iter().map(String::as_str).collect();
            assert_eq!(found.len(), starts.len(), "{found:?}");
            assert!(found.iter().zip(starts).all(|(found, start)| found.starts_with(start)), "{found:?}");
        };
        check(&[], &["^1 file "]);
        check(&[("logtype", "journal")], &["^1 file 2 "]);
        check(&[("mode", "two")], &["^2 ", "^3 y "]);
        check(&[("mode", "two"), ("x", "z")], &["^2 ", "^3 z "]);
    }

    #[test]
    fn what_is_not_taken_is_named_with_its_place() {
        let text =
            "[Definition]\n\nfailregex = ^a <HOST>\n   ^b\n   ^c( <HOST>\nmaxlines = 0\ndatepattern = %%Q(\n";
        let filter = filter(text, &[]);
        assert_eq!(filter.patterns.patterns.len(), 1);
        let problems: Vec<String> = filter.problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "filter.d/a.conf:3: a group that is not closed at character 155 in `^c( <HOST>`",
                "filter.d/a.conf:3: no group says who it was in `^b`",
                "filter.d/a.conf:6: `maxlines = 0` is not within 1 and 100",
                "filter.d/a.conf:7: `datepattern`: a group that is not closed at character 5 in `%Q(`",
            ]
        );
    }
}

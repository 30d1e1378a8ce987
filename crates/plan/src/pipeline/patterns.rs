//! Lists of patterns that are looked for in requests: those of the presets, or the files that replace them.

use std::convert::Infallible;

use content::web::pattern::{PatternList, RequestPatterns};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::config::{ConfigOrigin, ConfigProblems, Document, PATTERN_LISTS, pattern_list_key};
use crate::preset;

/// Returns the part of a pipeline's version that comes from the files that replace lists, one line each.
pub(crate) fn canonical(document: &Document) -> String {
    let mut text = String::new();
    for name in PATTERN_LISTS {
        if let Some(source) = document.list_file(&pattern_list_key(name)) {
            let digest = Sha256::digest(source.text.as_bytes());
            let digest: String = HEXLOWER.encode(&digest);
            text += &format!("patterns.{name}.digest = \"{digest}\"\n");
        }
    }
    text
}

/// Compiles the lists of a pipeline. One that is wrong is told of and has no patterns.
pub(crate) fn compile(document: &Document, problems: &mut ConfigProblems) -> RequestPatterns {
    let view = document.section("patterns");
    let compiled: Result<_, Infallible> = RequestPatterns::compile(|name| {
        let is_replaced = view.as_ref().is_some_and(|view| view.str(name).is_some());
        let source = document.list_file(&pattern_list_key(name));
        let text = match source {
            Some(source) => source.text.as_str(),
            // A file that could not be read was told of.
            None if is_replaced => "",
            None => preset::list(name).map_or("", |list| list.text),
        };
        Ok(PatternList::parse(text).unwrap_or_else(|error| {
            match source {
                Some(source) => {
                    let origin = ConfigOrigin { source: source.clone(), range: error.range };
                    problems.add(&origin, error.message, error.help);
                }
                None => unreachable!("the built-in {name}: {error}"),
            }
            PatternList::default()
        }))
    });
    let Ok(patterns) = compiled;
    patterns
}

/// Refuses files for a pipeline that reads no requests: whoever names one believes that it does something.
pub(crate) fn refuse(document: &Document, problems: &mut ConfigProblems) {
    let Some(view) = document.section("patterns") else { return };
    for name in PATTERN_LISTS.into_iter().filter(|name| view.str(name).is_some()) {
        let help = "leave it out, or write `input = \"access-log\"` at the top";
        problems.add(view.origin(name), "patterns are looked for in access logs only", Some(help.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_lists_are_lists_by_their_names() {
        let mut asked = Vec::new();
        let compiled = RequestPatterns::compile(|name| {
            asked.push(name);
            PatternList::parse(preset::list(name).unwrap().text)
        });
        assert!(compiled.is_ok_and(|patterns| patterns.robots.matches("googlebot/2.1")));
        assert_eq!(asked, PATTERN_LISTS);
    }
}

//! `[[block_list]]`, checked: lists of addresses that others publish.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use event::Span;

use crate::config::{ConfigProblems, Document};
use crate::entries;
use crate::formats::block_list::BlockListFormat;
use crate::signers::is_protected_url;

/// Most block lists.
pub(crate) const LISTS_MAX: usize = 64;

/// A block list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockListPlan {
    /// Its name: `block_list.NAME` is the fact.
    pub name: Arc<str>,
    /// The place where it is.
    pub source: BlockListSource,
    /// The format; `None` where it is to be seen from the list.
    pub format: Option<BlockListFormat>,
    /// The interval at which it is read anew.
    pub refresh: Span,
    /// The time for which what was read counts.
    pub expires: Span,
    /// The thing to be done about what is on it, as a label's `decision`; `None` where it is for rules alone.
    pub action: Option<String>,
}

/// The place of a block list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockListSource {
    /// A file.
    File(PathBuf),
    /// A URL.
    Url(String),
}

/// Compiles the block lists of the main file.
pub(crate) fn compile(document: &Document, problems: &mut ConfigProblems) -> Vec<BlockListPlan> {
    let mut plans: Vec<BlockListPlan> = Vec::new();
    for view in entries(document, "block_list", problems) {
        let Some(name) = view.str("name") else { continue };
        if !is_word(name) {
            let help = "expected lower-case letters, digits and `_`: it is part of a fact's name".to_owned();
            problems.add(view.origin("name"), format!("`{name}` is no name of a block list"), Some(help));
        }
        let source = match (view.str("file"), view.str("url")) {
            (Some(file), None) => {
                let main = Path::new(&view.origin("file").source.name).parent().unwrap_or(Path::new(""));
                BlockListSource::File(main.join(file))
            }
            (None, Some(url)) => {
                if !is_protected_url(url) {
                    let help =
                        "expected `https://...`, or `http://` with a loopback address such as 127.0.0.1"
                            .to_owned();
                    problems.add(view.origin("url"), format!("no list is fetched from `{url}`"), Some(help));
                }
                BlockListSource::Url(url.to_owned())
            }
            _ => {
                let help = "add one of `file` and `url`".to_owned();
                problems.add(view.origin("name"), format!("`{name}` has not one source"), Some(help));
                continue;
            }
        };
        let span = |key: &str, default: Span| view.span(key).unwrap_or(default).max(Span::seconds(1));
        plans.push(BlockListPlan {
            name: Arc::from(name),
            source,
            format: view.str("format").and_then(BlockListFormat::named),
            refresh: span("refresh", Span::hours(1)),
            expires: span("expires", Span::days(7)),
            action: view.str("action").map(str::to_owned),
        });
        if plans.len() == LISTS_MAX + 1 {
            problems.add(
                view.origin("name"),
                format!("there are more than {LISTS_MAX} [[block_list]]"),
                None,
            );
        }
    }
    plans
}

/// Returns true if a name can be a part of a fact's name.
pub(crate) fn is_word(name: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.bytes().all(is_sign) && name.starts_with(|first: char| first.is_ascii_lowercase())
}

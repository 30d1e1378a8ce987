//! `[form]` and `[bait]`, checked: tokens of forms, and what nobody takes who sees the page.

use std::sync::Arc;

use event::{Facts, Schema, SchemaBuilder, Secret, Slot, Span};
use gate::columns::{BaitColumns, FormColumns};

use super::PipelineInput;
use super::challenge::{bound, slots};
use super::draft::PipelineDraft;
use crate::config::{ConfigProblems, ConfigView, Document};

/// Most parameters that are bait.
const PARAMETERS_MAX: usize = 100;
/// Longest prefix of links.
const PREFIX_BYTES_MAX: usize = 100;

/// Tokens of a pipeline's forms.
#[derive(Debug)]
pub struct FormPlan {
    /// The columns of a form's life.
    pub columns: FormColumns,
    /// The time for which a token holds.
    pub expires: Span,
    visitor: Vec<Slot>,
}

impl FormPlan {
    /// A keyed hash of the facts that tell the visitor.
    pub fn visitor(&self, secret: &Secret, facts: &Facts) -> u64 {
        bound(secret, "form", &self.visitor, facts)
    }
}

/// Bait in the pages of a pipeline.
#[derive(Debug)]
pub struct BaitPlan {
    /// The columns of bait.
    pub columns: BaitColumns,
    /// The beginning of the paths of links.
    pub prefix: String,
    /// Names of parameters and fields that only old or copied clients send.
    pub parameters: Vec<String>,
    /// The column of the path that was asked for, in its normal form.
    pub path: Slot,
    /// The column of the names of the query's parameters, if there is one.
    pub query_names: Option<Slot>,
}

/// Adds the columns of a form's life, where `[form]` is written.
pub(super) fn form_columns(
    document: &Document,
    builder: &mut SchemaBuilder,
    problems: &mut ConfigProblems,
) -> Option<FormColumns> {
    let view = document.section("form").filter(ConfigView::is_written)?;
    let columns = FormColumns::register(builder);
    columns.map_err(|error| problems.add(view.origin(""), format!("[form]: {error}"), None)).ok()
}

/// Adds the columns of bait, where `[bait]` is written.
pub(super) fn bait_columns(
    document: &Document,
    builder: &mut SchemaBuilder,
    problems: &mut ConfigProblems,
) -> Option<BaitColumns> {
    let view = document.section("bait").filter(ConfigView::is_written)?;
    let columns = BaitColumns::register(builder);
    columns.map_err(|error| problems.add(view.origin(""), format!("[bait]: {error}"), None)).ok()
}

impl PipelineDraft<'_> {
    /// Compiles `[form]`.
    pub(super) fn form(
        &mut self,
        columns: Option<FormColumns>,
        schema: &Schema,
        problems: &mut ConfigProblems,
    ) {
        let Some((view, columns)) = self.document.section("form").zip(columns) else { return };
        if self.is_mail(&view, "mail has no forms", problems) {
            return;
        }
        let is_web = self.pipeline.input == PipelineInput::AccessLog;
        let visitor = slots(&view, "visitor", &["client.net", "http.host"], is_web, schema, problems);
        let most = gate::form::LIFETIME_MAX;
        let expires = view.span("expires").unwrap_or(most).min(most);
        self.pipeline.form = Some(Arc::new(FormPlan { columns, expires, visitor }));
    }

    /// Compiles `[bait]`.
    pub(super) fn bait(
        &mut self,
        columns: Option<BaitColumns>,
        schema: &Schema,
        problems: &mut ConfigProblems,
    ) {
        let Some((view, columns)) = self.document.section("bait").zip(columns) else { return };
        if self.is_mail(&view, "mail has no bait", problems) {
            return;
        }
        let prefix = view.str("prefix").unwrap_or_default().to_owned();
        if !is_prefix(&prefix) {
            let help = "it begins and ends in `/` and has lower-case letters, digits, `-` and `_` between, such as `/more/`";
            problems.add(view.origin("prefix"), format!("`{prefix}` is no folder"), Some(help.to_owned()));
        }
        let parameters = view.strings("parameters");
        if let Some((_, origin)) = parameters.get(PARAMETERS_MAX) {
            let help = format!("at most {PARAMETERS_MAX} are possible");
            problems.add(origin, format!("{} parameters are bait", parameters.len()), Some(help));
        }
        self.pipeline.bait = Some(Arc::new(BaitPlan {
            path: schema.slot("http.path_normal").unwrap_or(columns.path),
            query_names: schema.slot("http.query_names"),
            parameters: parameters.iter().map(|(name, _)| (*name).to_owned()).collect(),
            columns,
            prefix,
        }));
    }

    /// Returns true of a pipeline of messages, and says what it cannot have.
    fn is_mail(&self, view: &ConfigView<'_>, what: &str, problems: &mut ConfigProblems) -> bool {
        let is_mail = self.pipeline.input == PipelineInput::Message;
        if is_mail {
            problems.add(view.origin(""), what, Some("take it out: it is for sites".to_owned()));
        }
        is_mail
    }
}

/// Returns true of a folder below the root. The root itself is none: `robots.txt` would forbid the whole site.
fn is_prefix(prefix: &str) -> bool {
    let inner = prefix.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
    let is_segment = |segment: &str| {
        !segment.is_empty()
            && segment
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
    };
    prefix.len() <= PREFIX_BYTES_MAX && inner.is_some_and(|inner| inner.split('/').all(is_segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lie_in_a_folder_of_their_own() {
        let check = |prefix: &str, is: bool| assert_eq!(is_prefix(prefix), is, "{prefix}");
        check("/more/", true);
        check("/a-1/b_2/", true);
        for prefix in [
            "",
            "/",
            "//",
            "more/",
            "/more",
            "/More/",
            "/a//b/",
            "/../",
            "/a b/",
            &format!("/{}/", "a".repeat(99)),
        ] {
            check(prefix, false);
        }
    }
}

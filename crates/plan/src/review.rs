//! Settings of the queue of reviews: `[review]`.

use event::{Span, Type};

use crate::config::{ConfigProblems, Document, expected};
use crate::pipeline::draft::PipelineDraft;
use crate::pipeline::reports::reporter;

/// Settings of the queue of reviews.
#[derive(Clone, Debug, PartialEq)]
pub struct ReviewPlan {
    /// Most items that are kept; 0 for no queue.
    pub items: usize,
    /// The time for which an item is a reviewer's who has claimed it.
    pub claim: Span,
    /// The time within which an item is to be decided.
    pub within: Span,
    /// The time for which an item is kept after it is decided.
    pub keep: Span,
    /// The number of reviewers who have to say the same.
    pub agreement: usize,
    /// The fact that is the exposure; `None` for the score.
    pub exposure: Option<String>,
    /// Reviewers who decide what is escalated, as their names are compared. Empty for everybody.
    pub leads: Vec<String>,
}

impl ReviewPlan {
    pub(super) fn compile(document: &Document, problems: &mut ConfigProblems) -> ReviewPlan {
        let view = document.section("review");
        // As in all of the node, a value that is absent failed its check.
        let count = |key: &str| view.and_then(|view| usize::try_from(view.integer(key)?).ok());
        let span = |key: &str| view.and_then(|view| view.span(key)).unwrap_or(Span::days(1));
        if let Some(view) = view {
            for key in ["claim", "within", "keep"].into_iter().filter(|key| span(key) <= Span::ZERO) {
                let help = "write a length of time such as `10m`".to_owned();
                problems.add(view.origin(key), format!("`{key}` is no time at all"), Some(help));
            }
        }
        let leads = view.map(|view| view.strings("leads")).unwrap_or_default();
        ReviewPlan {
            items: count("items").unwrap_or_default(),
            claim: span("claim"),
            within: span("within"),
            keep: span("keep"),
            agreement: count("agreement").unwrap_or(1),
            exposure: view.and_then(|view| view.str("exposure")).map(str::to_owned),
            leads: leads.into_iter().map(|(lead, _)| reporter(lead)).collect(),
        }
    }
}

/// Checks that some pipeline has the fact that is the exposure, and that it is a number.
pub(super) fn check_exposure(main: &Document, drafts: &[PipelineDraft<'_>], problems: &mut ConfigProblems) {
    let Some((view, name)) = main.section("review").and_then(|view| Some((view, view.str("exposure")?)))
    else {
        return;
    };
    let columns = || drafts.iter().flat_map(|draft| draft.pipeline.schema.columns());
    let found = columns().find(|column| column.name == name);
    let message = match found {
        Some(column) if matches!(column.kind, Type::Integer | Type::Float) => return,
        Some(_) => format!("`{name}` is no number"),
        None => format!("no pipeline has the fact `{name}`"),
    };
    let numbers = columns().filter(|column| matches!(column.kind, Type::Integer | Type::Float));
    let help = expected(name, numbers.map(|column| column.name.as_str()));
    problems.add(view.origin("exposure"), message, Some(help));
}

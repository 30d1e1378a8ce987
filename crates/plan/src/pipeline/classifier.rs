//! Classifiers: the facts whose tokens they learn, what feedback teaches them, and the columns that they fill.

use content::text::tokenizer::Tokenization;
use event::{Column, Kind, SchemaBuilder, Slot, Span, TableIndex, Type};
use stats::{Measure, NumberedSection};

use super::KindPlan;
use super::columns::fact;
use super::draft::PipelineDraft;
use crate::config::{ConfigProblems, ConfigView, expected};
use crate::entries;

/// A classifier.
#[derive(Clone, Debug)]
pub struct ClassifierPlan {
    /// The stored number of its tokens.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// The facts whose tokens it learns, and how each is cut.
    pub of: Vec<(String, Slot, Tokenization)>,
    /// Its linear models.
    pub linear: Vec<LinearPlan>,
    /// The kind each of whose keys has a classifier of its own.
    pub per: Option<TableIndex<KindPlan>>,
    /// Feedback classes that teach it that an event is bad, or good, or to forget what it was taught of it.
    pub classes: [Vec<String>; 3],
    /// The time for which a token is kept after it was last learned.
    pub keep: Span,
    /// The conditions of learning from verdicts.
    pub auto: Option<AutoPlan>,
    /// The columns that hold what it says.
    pub columns: ClassifierColumns,
}

/// The part of an event that a linear model learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinearView {
    /// Its contents, which mean the same wherever it happens.
    Content,
    /// Its place on this site: lists, recipients, servers.
    Site,
}

/// A linear model.
#[derive(Clone, Debug)]
pub struct LinearPlan {
    /// The part of an event that it learns.
    pub view: LinearView,
    /// The facts of whose bytes it learns runs.
    pub runs: Vec<(String, Slot)>,
    /// The column that holds what it says.
    pub column: Slot,
}

/// The conditions of learning from other rules.
#[derive(Clone, Debug, PartialEq)]
pub struct AutoPlan {
    /// The score of other rules from which an event is bad.
    pub bad_at: f64,
    /// The score of other rules down to which an event is good.
    pub good_at: f64,
    /// The number of other rules that must say so.
    pub rules: usize,
    /// Most events in an hour.
    pub per_hour: u64,
    /// Names of the rules that are not asked: they go by what it says itself.
    pub partial: Vec<String>,
}

/// The columns of a classifier's result for an event.
#[derive(Clone, Copy, Debug)]
pub struct ClassifierColumns {
    pub probability: Slot,
    pub score: Slot,
    pub tokens: Slot,
    pub known: Slot,
    pub bad: Slot,
    pub good: Slot,
}

/// The label that a classifier is given for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainingLabel {
    /// The event is bad.
    Bad,
    /// The event is good.
    Good,
    /// Nothing is known of it.
    Forget,
}

impl ClassifierPlan {
    /// Returns the label that a feedback class teaches the classifier.
    pub fn training_label(&self, class: &str) -> Option<TrainingLabel> {
        let examples = [TrainingLabel::Bad, TrainingLabel::Good, TrainingLabel::Forget];
        let taught =
            self.classes.iter().zip(examples).find(|(classes, _)| classes.iter().any(|own| own == class));
        taught.map(|(_, example)| example)
    }

    /// Returns the columns of all that it says.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        let ClassifierColumns { probability, score, tokens, known, bad, good } = self.columns;
        let linear = self.linear.iter().map(|plan| plan.column);
        [probability, score, tokens, known, bad, good].into_iter().chain(linear)
    }

    pub(crate) fn measure(&self) -> Measure {
        Measure::evidence(self.keep)
    }
}

impl PipelineDraft<'_> {
    /// Compiles the classifiers and gives them their columns.
    pub(crate) fn classifiers(&mut self, builder: &mut SchemaBuilder, problems: &mut ConfigProblems) {
        for view in entries(self.document, "classifier", problems) {
            let Some(name) = view.str("name") else { continue };
            let Some(kind) = self.claim(view, name, NumberedSection::Classifier, problems) else { continue };
            let mut of: Vec<(String, Slot, Tokenization)> = Vec::new();
            for (key, cut) in [("of", Tokenization::Text), ("traits", Tokenization::Trait)] {
                for (name, origin) in view.strings(key) {
                    of.push((name.to_owned(), fact(builder.schema(), name, origin, problems), cut));
                }
            }
            let per = view.str("per").and_then(|per| self.counted_kind(per, &view, problems));
            let classes = ["bad", "good", "forget"].map(|key| self.classes(&view, key, problems));
            let Some(columns) = columns(name, &view, builder, problems) else { continue };
            let linear = LinearView::ALL.into_iter();
            let linear =
                linear.filter_map(|part| linear_plan(part, &view, name, builder, problems)).collect();
            let keep = view.span("keep").unwrap_or(Span::days(180));
            let auto = auto(&view, problems);
            let name = name.to_owned();
            self.pipeline.classifiers.push(ClassifierPlan {
                kind,
                name,
                of,
                linear,
                per,
                classes,
                keep,
                auto,
                columns,
            });
        }
    }

    fn counted_kind(
        &self,
        name: &str,
        view: &ConfigView<'_>,
        problems: &mut ConfigProblems,
    ) -> Option<TableIndex<KindPlan>> {
        let index = self.kind(name, view.origin("per"), problems)?;
        if !self.pipeline.kinds[index].is_counted() {
            let message = format!("nothing is counted for the kind `{name}`");
            let help =
                "name it in the `keys` of a [[statistic]]: a decision's row keeps the keys of such kinds";
            problems.add(view.origin("per"), message, Some(help.to_owned()));
            return None;
        }
        Some(index)
    }

    fn classes(&self, view: &ConfigView<'_>, key: &str, problems: &mut ConfigProblems) -> Vec<String> {
        let known = &self.pipeline.feedback;
        let mut classes = Vec::new();
        for (class, origin) in view.strings(key) {
            if known.contains_key(class) {
                classes.push(class.to_owned());
            } else if view.is_given(key) {
                let help = expected(class, known.keys().map(String::as_str));
                problems.add(origin, format!("[feedback] has no class `{class}`"), Some(help));
            }
        }
        classes
    }

    /// Finds the rules that go by what classifiers say, or by models, which may.
    pub(crate) fn partial_rules(&mut self) {
        let models: Vec<Slot> = self.pipeline.models.iter().flat_map(super::ModelPlan::slots).collect();
        for classifier in &mut self.pipeline.classifiers {
            let own: Vec<Slot> = classifier.slots().collect();
            let is_partial = |slot: Slot| own.contains(&slot) || models.contains(&slot);
            if let Some(auto) = &mut classifier.auto {
                let rules = self.pipeline.rules.rules().iter();
                auto.partial = rules
                    .filter(|rule| rule.condition.reads().iter().any(|read| is_partial(read.slot)))
                    .map(|rule| rule.name.clone())
                    .collect();
            }
        }
    }
}

impl LinearView {
    const ALL: [LinearView; 2] = [LinearView::Content, LinearView::Site];

    /// The setting that names its texts.
    fn setting(self) -> &'static str {
        match self {
            LinearView::Content => "runs",
            LinearView::Site => "site_runs",
        }
    }
}

/// Compiles a linear model, if it has texts to learn.
fn linear_plan(
    part: LinearView,
    view: &ConfigView<'_>,
    name: &str,
    builder: &mut SchemaBuilder,
    problems: &mut ConfigProblems,
) -> Option<LinearPlan> {
    let texts = view.strings(part.setting()).into_iter();
    let runs: Vec<(String, Slot)> = texts
        .map(|(name, origin)| (name.to_owned(), fact(builder.schema(), name, origin, problems)))
        .collect();
    if runs.is_empty() {
        return None;
    }
    let (what, doc) = match part {
        LinearView::Content => {
            ("linear", "Log-odds that the event is bad by the linear model of `runs`, between -9 and 9")
        }
        LinearView::Site => {
            ("site", "Log-odds that the event is bad by the linear model of `site_runs`, between -9 and 9")
        }
    };
    let column = column(name, view, what, Type::Float, doc, builder, problems)?;
    Some(LinearPlan { view: part, runs, column })
}

fn column(
    name: &str,
    view: &ConfigView<'_>,
    what: &str,
    kind: Type,
    doc: &str,
    builder: &mut SchemaBuilder,
    problems: &mut ConfigProblems,
) -> Option<Slot> {
    let column = Column { name: format!("{name}.{what}"), kind, doc: doc.to_owned(), journalled: true };
    let message = |error| format!("`{name}.{what}`: {error}");
    builder.add(column).map_err(|error| problems.add(view.origin("name"), message(error), None)).ok()
}

fn columns(
    name: &str,
    view: &ConfigView<'_>,
    builder: &mut SchemaBuilder,
    problems: &mut ConfigProblems,
) -> Option<ClassifierColumns> {
    let mut add = |what: &str, kind, doc: &str| column(name, view, what, kind, doc, builder, problems);
    Some(ClassifierColumns {
        probability: add(
            "probability",
            Type::Float,
            "Probability that the event is bad, as far as was learned",
        )?,
        score: add("score", Type::Float, "The same as log-odds: 0 for an even chance")?,
        tokens: add("tokens", Type::Integer, "Number of different tokens of the event")?,
        known: add("known", Type::Integer, "Number of its tokens that were learned before")?,
        bad: add("bad", Type::Integer, "Events that were learned as bad")?,
        good: add("good", Type::Integer, "Events that were learned as good")?,
    })
}

fn auto(view: &ConfigView<'_>, problems: &mut ConfigProblems) -> Option<AutoPlan> {
    if !view.is_given("auto_bad_at") && !view.is_given("auto_good_at") {
        return None;
    }
    let count = |key: &str| view.integer(key).and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
    let plan = AutoPlan {
        bad_at: view.float("auto_bad_at").unwrap_or(f64::INFINITY),
        good_at: view.float("auto_good_at").unwrap_or(f64::NEG_INFINITY),
        rules: usize::try_from(count("auto_rules")).unwrap_or(usize::MAX),
        per_hour: count("auto_per_hour"),
        partial: Vec::new(),
    };
    if plan.good_at >= plan.bad_at {
        let help = "make `auto_good_at` less than `auto_bad_at`".to_owned();
        problems.add(view.origin("auto_good_at"), "what is good would be bad, too", Some(help));
    }
    Some(plan)
}

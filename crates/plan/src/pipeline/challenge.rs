//! `[challenge]`, checked: the work that is asked for, and the pass that it earns.

use std::sync::Arc;

use event::{Column, Facts, Schema, SchemaBuilder, Secret, Slot, Span, Type, Value};
use gate::challenge::{COST_MAX, COST_MIN, ChallengeAlgorithm};
use gate::columns::ChallengeColumns;
use judge::{Action, Expression};

use super::PipelineInput;
use super::columns::fact;
use super::draft::PipelineDraft;
use super::scope::{PlanScope, report};
use crate::config::{ConfigProblems, ConfigView, Document};

/// The fact with the work that a challenge asked for.
pub const CHALLENGE_COST: &str = "challenge.cost";

/// Most doublings of the work.
const DOUBLINGS_MAX: f64 = 16.0;
/// Settings that do nothing without a cost, and their defaults.
const DEFAULTS: [(&str, &str); 7] = [
    ("doublings", "0"),
    ("algorithm", "pbkdf2"),
    ("expires", "10m"),
    ("pass", "12h"),
    ("without_scripts", "rendered"),
    ("wait", "6s"),
    ("pass_without_scripts", "2h"),
];

/// Most facts that a challenge or a pass is bound to.
const FACTS_MAX: usize = 8;

/// The way in front of a site for visitors who run no scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptlessMethod {
    /// To wait, and to load what a page shows.
    Rendered,
    /// To wait.
    Waited,
}

/// Challenges of a pipeline.
#[derive(Debug)]
pub struct ChallengePlan {
    /// The columns of what visitors show.
    pub columns: ChallengeColumns,
    /// The column of the work that was asked for.
    pub cost: Slot,
    /// The function of the work.
    pub algorithm: ChallengeAlgorithm,
    /// The time in which a challenge must be solved.
    pub expires: Span,
    /// The time for which a pass holds.
    pub pass: Span,
    /// The way without scripts, if there is one.
    pub without_scripts: Option<ScriptlessMethod>,
    /// The time that it takes.
    pub wait: Span,
    /// The time for which a pass holds that was earned by it.
    pub pass_without_scripts: Span,
    visitor: Vec<Slot>,
    pass_bound_to: Vec<Slot>,
    cost_expression: Option<Expression>,
    doublings: Option<Expression>,
}

impl ChallengePlan {
    /// Returns true if events of an action are given a challenge.
    pub fn is_for(action: Action) -> bool {
        matches!(action, Action::Challenge | Action::Throttle)
    }

    /// The work for an event, in units, and how often it is doubled in that; what depends on something missing is the least, and
    /// no doubling.
    pub fn units(&self, facts: &Facts) -> (f64, f64) {
        let number = |expression: &Option<Expression>| match expression.as_ref()?.evaluate(facts)? {
            Value::Float(number) => Some(number),
            Value::Integer(number) => Some(number as f64),
            _ => None,
        };
        let doublings = number(&self.doublings).unwrap_or(0.0).clamp(0.0, DOUBLINGS_MAX);
        let units = number(&self.cost_expression).unwrap_or(COST_MIN) * doublings.exp2();
        let units = if units.is_finite() { units.clamp(COST_MIN, COST_MAX) } else { COST_MIN };
        (units, doublings)
    }

    /// A keyed hash of the facts that tell the visitor.
    pub fn visitor(&self, secret: &Secret, facts: &Facts) -> u64 {
        bound(secret, "visitor", &self.visitor, facts)
    }

    /// A keyed hash of what a pass of a pipeline is bound to.
    pub fn pass_bound(&self, pipeline: &str, secret: &Secret, facts: &Facts) -> u64 {
        bound(secret, &format!("pass\0{pipeline}"), &self.pass_bound_to, facts)
    }
}

/// A keyed hash of facts, in order and unambiguous; what is missing counts as empty.
pub(super) fn bound(secret: &Secret, what: &str, slots: &[Slot], facts: &Facts) -> u64 {
    let mut text = format!("\0gate\0{what}\0");
    for slot in slots {
        let value = facts.get(*slot).map(ToString::to_string).unwrap_or_default();
        text += &format!("{}:{value}", value.len());
    }
    secret.shingle(text.as_bytes()).0
}

/// Adds the columns of what visitors show, where challenges are configured.
pub(crate) fn columns(
    document: &Document,
    builder: &mut SchemaBuilder,
    problems: &mut ConfigProblems,
) -> Option<ChallengeColumns> {
    let view = document.section("challenge")?;
    if view.str("cost").is_none() {
        // A kept version has all settings that have a default.
        let differs = |(key, default): &(&str, &str)| view.str(key).is_some_and(|text| text != *default);
        if DEFAULTS.iter().any(differs) || view.is_given("visitor") || view.is_given("pass_bound_to") {
            let help = "add `cost = \"500\"`, thousands of iterations of a hash".to_owned();
            problems.add(view.first_origin(), "[challenge] has no `cost`", Some(help));
        }
        return None;
    }
    let columns = ChallengeColumns::register(builder);
    columns.map_err(|error| problems.add(view.origin(""), format!("[challenge]: {error}"), None)).ok()
}

impl PipelineDraft<'_> {
    /// Compiles `[challenge]`; its expressions see what rules see.
    pub(crate) fn challenge(
        &mut self,
        columns: Option<ChallengeColumns>,
        builder: &mut SchemaBuilder,
        problems: &mut ConfigProblems,
    ) {
        let Some((view, columns)) = self.document.section("challenge").zip(columns) else { return };
        if self.pipeline.input == PipelineInput::Message {
            let help = "take it out: a mail server has nobody to ask".to_owned();
            problems.add(view.origin(""), "mail is not challenged", Some(help));
            return;
        }
        let is_web = self.pipeline.input == PipelineInput::AccessLog;
        let schema = builder.schema();
        let visitor = slots(&view, "visitor", &["client.net", "http.host"], is_web, schema, problems);
        let pass_bound_to =
            slots(&view, "pass_bound_to", &["http.host", "http.agent_family"], is_web, schema, problems);
        let doc = "Work of the challenge that was given, in thousands of iterations".to_owned();
        let column = Column { name: CHALLENGE_COST.to_owned(), kind: Type::Float, doc, journalled: true };
        let cost = match builder.add(column) {
            Ok(slot) => slot,
            Err(error) => return problems.add(view.origin(""), format!("[challenge]: {error}"), None),
        };
        let mut expression = |key: &str| {
            let source = view.str(key)?;
            let library = self.library.clone();
            let mut scope = PlanScope { draft: self, builder };
            let compiled = judge::compile_expression(source, Type::Float, &library, &mut scope);
            if let Ok(expression) = &compiled {
                report(expression.warnings().to_vec(), view.origin(key), source, key, problems);
            }
            compiled.map_err(|found| report(found, view.origin(key), source, key, problems)).ok()
        };
        let (cost_expression, doublings) = (expression("cost"), expression("doublings"));
        let span = |key: &str, most: Span| view.span(key).unwrap_or(most).min(most);
        let plan = ChallengePlan {
            columns,
            cost,
            algorithm: view.str("algorithm").and_then(ChallengeAlgorithm::of_word).unwrap_or_default(),
            expires: span("expires", gate::challenge::LIFETIME_MAX),
            pass: span("pass", gate::pass::LIFETIME_MAX),
            without_scripts: match view.str("without_scripts") {
                Some("rendered") => Some(ScriptlessMethod::Rendered),
                Some("waited") => Some(ScriptlessMethod::Waited),
                _ => None,
            },
            wait: span("wait", Span::minutes(5)),
            pass_without_scripts: span("pass_without_scripts", gate::pass::LIFETIME_MAX),
            visitor,
            pass_bound_to,
            cost_expression,
            doublings,
        };
        self.pipeline.challenge = Some(Arc::new(plan));
    }
}

/// The facts that a setting names, or those that an access log has unless it is given.
pub(super) fn slots(
    view: &ConfigView<'_>,
    key: &str,
    usual: &[&str],
    is_web: bool,
    schema: &Schema,
    problems: &mut ConfigProblems,
) -> Vec<Slot> {
    if !view.is_given(key) {
        return usual.iter().filter(|_| is_web).filter_map(|name| schema.slot(name)).collect();
    }
    let names = view.strings(key);
    if let Some((_, origin)) = names.get(FACTS_MAX) {
        let help = format!("at most {FACTS_MAX} are possible");
        problems.add(origin, format!("`{key}` names {} facts", names.len()), Some(help));
    }
    names.iter().map(|(name, origin)| fact(schema, name, origin, problems)).collect()
}

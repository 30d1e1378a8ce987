//! Forms and bait on their way through the pipeline: the token that came with a form is looked at with the event's content, and
//! so is what nobody fills in or asks for who sees the page.

use data_encoding::HEXLOWER;
use event::{Facts, Slot, Time, Value};
use gate::bait::{BaitNames, HeldBait, is_like_bait};
use gate::form::{FormRefusal, FormTerms, FormToken};
use plan::{BaitPlan, Pipeline};

use super::fields::RowDraft;
use crate::Engine;
use crate::metrics::label;

/// Most names of a form's fields that are looked at.
const FIELDS_MAX: usize = 1000;

/// The bait that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BaitKind {
    Link,
    Field,
    Parameter,
}

impl BaitKind {
    fn word(self) -> &'static str {
        match self {
            BaitKind::Link => "link",
            BaitKind::Field => "field",
            BaitKind::Parameter => "parameter",
        }
    }
}

impl Engine {
    /// Issues the token of a form that is rendered for the visitor of an event. Nothing is counted but that. `None` where the pipeline has no
    /// forms, no form can have the name, or the system has no random numbers.
    pub fn issue_form(&self, pipeline: &Pipeline, facts: &Facts, form: &str, now: Time) -> Option<String> {
        let plan = pipeline.form.as_ref()?;
        let mut id = [0; 8];
        getrandom::fill(&mut id).ok()?;
        let token = FormToken {
            id: u64::from_be_bytes(id),
            issued: now,
            visitor: plan.visitor(&self.secret, facts),
            name: form.to_owned(),
        };
        let text = token.sign(&self.keyring, &pipeline.name)?;
        self.metrics.forms.issued.get_or_create(&label(pipeline)).inc();
        Some(text)
    }

    /// Returns the names of a pipeline's bait now.
    pub fn bait_names(&self, pipeline: &Pipeline, now: Time) -> BaitNames {
        BaitNames::of(&self.keyring, &pipeline.name, now)
    }

    /// Fills the facts of a form's life. What was sent is taken out of the row, and nobody else can bring what was found.
    pub(crate) fn read_form(&self, row: &mut RowDraft) {
        let Some(plan) = &row.pipeline.form else { return };
        let (columns, facts, now) = (&plan.columns, &mut row.facts, row.arrival);
        for slot in [columns.refused, columns.name, columns.id, columns.age] {
            facts.clear(slot);
        }
        let (sent, expected) = (facts.clear(columns.token), text(facts.clear(columns.expected)));
        let Some(sent) = text(sent) else { return facts.set(columns.opened, false) };
        let opened = FormToken::open(&self.keyring, &row.pipeline.name, sent.as_bytes(), now);
        let visitor = plan.visitor(&self.secret, facts);
        let terms = FormTerms { expected: expected.as_deref(), visitor, lifetime: plan.expires };
        let checked: Result<(), FormRefusal> = match opened {
            Ok(token) => {
                facts.set(columns.age, token.age(now));
                facts.set(columns.id, HEXLOWER.encode(&token.id.to_be_bytes()));
                facts.set(columns.name, token.name.as_str());
                token.check(&terms, now)
            }
            Err(refusal) => Err(refusal),
        };
        facts.set(columns.opened, checked.is_ok());
        if let Err(refusal) = checked {
            facts.set(columns.refused, refusal.word());
        }
    }

    /// Fills the facts of bait that was taken. What was looked through is taken out of the row.
    pub(crate) fn read_bait(&self, row: &mut RowDraft) {
        let Some(plan) = &row.pipeline.bait else { return };
        let (columns, facts) = (&plan.columns, &mut row.facts);
        facts.clear(columns.taken);
        facts.clear(columns.name);
        let found =
            Bait { plan, facts }.taken(|| HeldBait::at(&self.keyring, &row.pipeline.name, row.arrival));
        facts.clear(columns.fields);
        facts.clear(columns.path);
        if let Some((kind, name)) = found {
            facts.set(columns.taken, kind.word());
            facts.set(columns.name, name);
        }
    }
}

/// A text that is not empty: an empty field of a form is as good as none.
fn text(value: Option<Value>) -> Option<Box<str>> {
    match value {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// The bait that an event may have taken.
struct Bait<'a> {
    plan: &'a BaitPlan,
    facts: &'a Facts,
}

impl Bait<'_> {
    fn names(&self, slot: Slot) -> impl Iterator<Item = &str> {
        let items = self.facts.get(slot).and_then(Value::as_list).unwrap_or_default();
        items.iter().take(FIELDS_MAX).map(|item| &**item)
    }

    /// The bait that was taken, and its name: a link before a field, and that before a parameter. The names that hold are asked for
    /// only where something looks like one.
    fn taken(&self, held: impl Fn() -> HeldBait) -> Option<(BaitKind, String)> {
        let path = match self.facts.get(self.plan.path) {
            Some(Value::String(path)) => path.strip_prefix(self.plan.prefix.as_str()),
            _ => None,
        };
        let link = path.map(|rest| rest.split('/').next().unwrap_or(rest)).filter(|name| is_like_bait(name));
        let sent = || {
            let query = self.plan.query_names.into_iter().flat_map(move |slot| self.names(slot));
            self.names(self.plan.columns.fields).chain(query)
        };
        let parameter = || {
            let found = sent().find(|name| self.plan.parameters.iter().any(|own| own == name));
            found.map(|name| (BaitKind::Parameter, name.to_owned()))
        };
        if link.is_none() && !sent().any(is_like_bait) {
            return parameter();
        }
        let held = held();
        let link = link.filter(|name| held.has_link(name)).map(|name| (BaitKind::Link, name.to_owned()));
        let field = || {
            let found = sent().find(|name| held.has_field(name));
            found.map(|name| (BaitKind::Field, name.to_owned()))
        };
        link.or_else(field).or_else(parameter)
    }
}

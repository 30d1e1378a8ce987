//! Fields that are derived from others, by expressions of the rule language.

use std::sync::Arc;

use content::network::{PrefixLengths, network};
use event::{Facts, SchemaBuilder, Slot, Type, Value};
use judge::Expression;

use super::draft::PipelineDraft;
use super::scope::{EarlyScope, report};
use crate::config::ConfigProblems;
use crate::entries;

/// Most derived fields of a pipeline.
const FIELDS_MAX: usize = 256;
/// Most that all derived fields of a pipeline cost together, in the unit of [`judge::Condition::cost`].
const COST_MAX: u32 = 50_000;

/// A field that is derived from others.
#[derive(Clone, Debug)]
pub struct DerivedField {
    /// Its column.
    pub slot: Slot,
    /// The expression that its value is computed by.
    pub expression: Arc<Expression>,
    /// True if it reads what the content shows, so that it is not known before that is read.
    pub is_late: bool,
    /// The column of its network, if it is an address.
    network: Option<Slot>,
}

impl DerivedField {
    /// Computes the field of a row. Whatever was there is replaced.
    pub fn fill(&self, facts: &mut Facts, prefixes: PrefixLengths) {
        match self.expression.evaluate(facts) {
            Some(value) => {
                if let (Some(slot), Value::Ip(ip)) = (self.network, &value) {
                    facts.set(slot, network(*ip, prefixes));
                }
                facts.set(self.slot, value);
            }
            None => {
                facts.clear(self.slot);
                if let Some(network) = self.network {
                    facts.clear(network);
                }
            }
        }
    }

    /// The columns that it fills.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        std::iter::once(self.slot).chain(self.network)
    }
}

impl PipelineDraft<'_> {
    /// Compiles the expressions of fields. Constants and sets are known, and nothing that is counted.
    pub(crate) fn derived_fields(&mut self, builder: &mut SchemaBuilder, problems: &mut ConfigProblems) {
        let mut cost = 0u32;
        let views: Vec<_> = entries(self.document, "field", problems)
            .into_iter()
            .filter_map(|view| Some((view, view.str("name")?, view.str("value")?)))
            .filter_map(|(view, name, source)| Some((view, name, source, builder.schema().slot(name)?)))
            .collect();
        let all: Vec<Slot> = views.iter().map(|(.., slot)| *slot).collect();
        for (index, (view, name, source, slot)) in views.into_iter().enumerate() {
            let origin = view.origin("value");
            if index >= FIELDS_MAX {
                let help = format!("at most {FIELDS_MAX} are possible");
                problems.add(origin, "there are too many derived fields", Some(help));
                return;
            }
            let wanted = builder.schema().column(slot).kind;
            if wanted == Type::Bytes {
                let help = "give it another type".to_owned();
                problems.add(view.origin("type"), format!("`{name}`: bytes are not derived"), Some(help));
                continue;
            }
            let library = self.library.clone();
            let compiled =
                judge::compile_expression(source, wanted, &library, &mut EarlyScope::new(self, builder));
            let expression = match compiled {
                Ok(expression) => expression,
                Err(found) => {
                    report(found, origin, source, name, problems);
                    continue;
                }
            };
            report(expression.warnings().to_vec(), origin, source, name, problems);
            let later = expression.reads().iter().find(|read| all[index..].contains(&read.slot));
            if let Some(read) = later {
                let (message, help) = if read.slot == slot {
                    (format!("`{name}` is derived from itself"), "give it another name".to_owned())
                } else {
                    let help = format!("put the [[field]] `{}` before it", read.text);
                    (format!("`{name}` is derived before `{}` is", read.text), help)
                };
                problems.add(origin, message, Some(help));
                continue;
            }
            cost = cost.saturating_add(expression.cost());
            let columns = &self.pipeline.columns;
            let is_late = expression.reads().iter().any(|read| {
                let event = [columns.event.time, columns.event.arrival];
                let derived = columns.derived.iter().find(|field| field.slot == read.slot);
                match derived {
                    Some(field) => field.is_late,
                    None => {
                        !event.contains(&read.slot)
                            && (!columns.declared.contains(&usize::from(read.slot.0))
                                || columns.is_content(read.slot))
                    }
                }
            });
            if is_late && columns.fields.iter().any(|field| field.slot == slot) {
                let message = format!("the content of `{name}` is read before it is derived");
                let help = "leave `content` out, or derive it from fields alone, not from what content shows"
                    .to_owned();
                problems.add(view.origin("content"), message, Some(help));
                continue;
            }
            let network = columns.network_of(slot);
            let expression = Arc::new(expression);
            self.pipeline.columns.derived.push(DerivedField { slot, expression, is_late, network });
            if cost > COST_MAX {
                let message = format!("the derived fields cost more than {COST_MAX} together");
                let help = "derive less: a regular expression costs 64, a `domain` 128".to_owned();
                problems.add(origin, message, Some(help));
                return;
            }
        }
        self.late_phrases(builder, problems);
    }

    /// Refuses phrases that are looked for in what is not derived yet then.
    fn late_phrases(&self, builder: &SchemaBuilder, problems: &mut ConfigProblems) {
        for view in entries(self.document, "phrases", problems) {
            for (name, origin) in view.strings("of") {
                let slot = builder.schema().slot(name);
                let is_late = |field: &&super::DerivedField| field.is_late && Some(field.slot) == slot;
                let Some(field) = self.pipeline.columns.derived.iter().find(is_late) else { continue };
                let read = field.expression.reads().first().map_or("", |read| read.text.as_str());
                let message = format!("phrases are looked for before `{name}` is derived");
                let help = format!("name what it is derived from: `{read}`");
                problems.add(origin, message, Some(help));
            }
        }
    }
}

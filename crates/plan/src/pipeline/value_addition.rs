//! Values that verdicts and feedback add to aggregates, written as in effects: `karma by -20`.

use event::TableIndex;

use super::KindPlan;
use super::draft::PipelineDraft;
use crate::aggregate;
use crate::config::{ConfigOrigin, ConfigProblems};

/// A value that is added to the aggregate of an event's keys of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueAddition<'a> {
    /// The name of the kind.
    pub kind: &'a str,
    /// The value as it is written.
    value: &'a str,
}

/// The greatest value that is added at once, as by effects.
const VALUE_MAX: u64 = 1_000_000;

impl<'a> ValueAddition<'a> {
    /// Reads one; `None` for a counter's name and for what is neither.
    pub fn parse(text: &'a str) -> Option<ValueAddition<'a>> {
        let mut words = text.split_whitespace();
        let (Some(kind), Some("by"), Some(value), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return None;
        };
        Some(ValueAddition { kind, value })
    }

    /// The value in units of so many decimals, which is not zero; `None` where it is none.
    pub fn units(&self, decimals: u8) -> Option<i64> {
        judge::decimal_units(self.value, decimals, VALUE_MAX).filter(|units| *units != 0)
    }
}

impl PipelineDraft<'_> {
    /// The kind and the value of what `[settle]` or `[feedback]` adds to an aggregate. What can be taken back is a sum.
    pub(crate) fn value_addition(
        &self,
        text: &str,
        origin: &ConfigOrigin,
        is_taken_back: bool,
        problems: &mut ConfigProblems,
    ) -> Option<(TableIndex<KindPlan>, i64)> {
        let Some(addition) = ValueAddition::parse(text) else {
            let message = format!("`{text}` is neither a counter nor a value for an aggregate");
            problems.add(origin, message, Some("write a value as in `karma by -20`".to_owned()));
            return None;
        };
        let kind = addition.kind;
        let index = self.kind(kind, origin, problems)?;
        let plan = &self.pipeline.kinds[index];
        if plan.takes_events {
            let help = "values are added to an aggregate with `observe = false`".to_owned();
            problems.add(origin, format!("events alone are added to `{kind}`"), Some(help));
            return None;
        }
        let names = || plan.aggregate.iter().map(aggregate::name);
        if let Some(extreme) = names().find(|name| is_taken_back && matches!(name.as_str(), "min" | "max")) {
            let message = format!("`{kind}` keeps `{extreme}`, and feedback can be taken back");
            let help =
                "sums forget what is taken back, extremes do not: leave it out of `aggregate`".to_owned();
            problems.add(origin, message, Some(help));
            return None;
        }
        let Some(value) = addition.units(plan.decimals) else {
            let number = match plan.decimals {
                0 => "a whole number".to_owned(),
                decimals => format!("a number with at most {decimals} decimals"),
            };
            let help = format!("write {number} from -{VALUE_MAX} to {VALUE_MAX}, but 0");
            problems.add(origin, format!("`{}` cannot be added to `{kind}`", addition.value), Some(help));
            return None;
        };
        Some((index, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additions_are_read_as_effects_write_them() {
        let read = |text, decimals| ValueAddition::parse(text)?.units(decimals);
        assert_eq!(ValueAddition::parse("karma by -20").unwrap().kind, "karma");
        assert_eq!(read("karma by -20", 0), Some(-20));
        assert_eq!(read(" karma  by 1000000 ", 0), Some(1_000_000));
        assert_eq!(read("karma by -0.5", 2), Some(-50));
        for text in
            ["karma", "karma by", "karma by 0", "karma by 1000001", "karma by 1.5", "karma by 1 2", ""]
        {
            assert_eq!(read(text, 0), None, "{text:?}");
        }
    }
}

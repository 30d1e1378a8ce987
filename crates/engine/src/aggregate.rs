//! An aggregate's values, as they are shown.

use event::Value;
use plan::aggregate::{LAST_VALUE, column};
use stats::{AggregateColumn, LastValueForm, Quality, Reading};

/// Returns what a reading of columns of these names says, by name. First and last are left out: every reading has them. So is
/// what is not known: the least of no values; all but the count of a key that is not admitted yet; and everything of one that
/// was never seen, or that could not be read.
pub(crate) fn values(names: &[String], reading: &Reading) -> Vec<(String, Value)> {
    let value = |(index, name): (usize, &String)| {
        let column = column(name)?;
        if reading.first.is_none() && column != AggregateColumn::Count {
            return None;
        }
        let value = match column.value(reading.sum(0, index)) {
            stats::AggregateValue::Time(_)
            | stats::AggregateValue::Integer(None)
            | stats::AggregateValue::Count(0) => return None,
            stats::AggregateValue::Count(count) => Value::Integer(i64::try_from(count).unwrap_or(i64::MAX)),
            stats::AggregateValue::Integer(Some(integer)) => Value::Integer(integer),
            stats::AggregateValue::Real(float) => Value::Float(float),
        };
        Some((name.clone(), value))
    };
    match reading.quality {
        Quality::Missing => Vec::new(),
        _ if names == [LAST_VALUE] => {
            let value = LastValueForm::text(reading.sums()).map(Value::from);
            value.map(|value| (LAST_VALUE.to_owned(), value)).into_iter().collect()
        }
        Quality::Exact | Quality::Lagging | Quality::Estimated => {
            names.iter().enumerate().filter_map(value).collect()
        }
    }
}

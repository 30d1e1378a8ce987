//! A track's values, as they are called outside of rules and as they are shown.

use event::Value;
use stats::{Column, Quality, Reading, Weight};

/// `count`, `max`, `decayed_1h`.
pub(crate) fn name(column: &Column) -> String {
    match column {
        Column::First => "first".to_owned(),
        Column::Last => "last".to_owned(),
        Column::Count => "count".to_owned(),
        Column::Sum => "sum".to_owned(),
        Column::Min => "min".to_owned(),
        Column::Max => "max".to_owned(),
        Column::Decayed { half_life, .. } => format!("decayed_{half_life}"),
    }
}

/// The column of this name. What a decayed sum is over is not told by its name, nor needed to read it.
pub(crate) fn column(name: &str) -> Option<Column> {
    Some(match name {
        "first" => Column::First,
        "last" => Column::Last,
        "count" => Column::Count,
        "sum" => Column::Sum,
        "min" => Column::Min,
        "max" => Column::Max,
        _ => {
            let half_life = name.strip_prefix("decayed_")?.parse().ok()?;
            Column::Decayed { half_life, weight: Weight::One }
        }
    })
}

/// What a reading of columns of these names says, by name. First and last are left out: every reading has them. So is
/// what is not known: the least of no values; all but the count of a key that is not admitted yet; and everything of
/// one that was never seen, or that could not be read.
pub(crate) fn values(names: &[String], reading: &Reading) -> Vec<(String, Value)> {
    let value = |(index, name): (usize, &String)| {
        let column = column(name)?;
        if reading.first.is_none() && column != Column::Count {
            return None;
        }
        let value = match column.value(reading.sum(0, index)) {
            stats::Value::Time(_) | stats::Value::Integer(None) | stats::Value::Count(0) => return None,
            stats::Value::Count(count) => Value::Integer(i64::try_from(count).unwrap_or(i64::MAX)),
            stats::Value::Integer(Some(integer)) => Value::Integer(integer),
            stats::Value::Real(float) => Value::Float(float),
        };
        Some((name.clone(), value))
    };
    match reading.quality {
        Quality::Missing => Vec::new(),
        Quality::Exact | Quality::Estimated => names.iter().enumerate().filter_map(value).collect(),
    }
}

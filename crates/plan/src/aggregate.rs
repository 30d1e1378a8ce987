//! An aggregate's values, as they are called outside of rules.

use stats::{AggregateColumn, DecayWeight};

/// The name of the last value of a field, which is no column of an aggregate.
pub const LAST_VALUE: &str = "value";

/// Returns the name of a column: `count`, `max`, `decayed_1h`.
pub fn name(column: &AggregateColumn) -> String {
    match column {
        AggregateColumn::First => "first".to_owned(),
        AggregateColumn::Last => "last".to_owned(),
        AggregateColumn::Count => "count".to_owned(),
        AggregateColumn::Sum => "sum".to_owned(),
        AggregateColumn::Min => "min".to_owned(),
        AggregateColumn::Max => "max".to_owned(),
        AggregateColumn::Decayed { half_life, .. } => format!("decayed_{half_life}"),
    }
}

/// Returns the column of this name. What a decayed sum is over is not told by its name, nor needed to read it.
pub fn column(name: &str) -> Option<AggregateColumn> {
    Some(match name {
        "first" => AggregateColumn::First,
        "last" => AggregateColumn::Last,
        "count" => AggregateColumn::Count,
        "sum" => AggregateColumn::Sum,
        "min" => AggregateColumn::Min,
        "max" => AggregateColumn::Max,
        _ => {
            let half_life = name.strip_prefix("decayed_")?.parse().ok()?;
            AggregateColumn::Decayed { half_life, weight: DecayWeight::One }
        }
    })
}

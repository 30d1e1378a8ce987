//! The names of objects.
//!
//! ```text
//! decisions/pipeline=NAME/date=DAY/NODE-SEGMENT.parquet
//! feedback/date=DAY/NODE-SEGMENT.parquet
//! _tollhouse/versions/VERSION.rows.json          what the rows of a version mean, and its settings beside
//! _tollhouse/segments/NODE/DAY/SEGMENT.index     filters of ids and keys
//! _tollhouse/segments/NODE/DAY/SEGMENT.manifest  what is there of the segment, the last of it
//! ```
//!
//! Days are those of arrivals, in UTC; the day of a segment is that of its first id, by which it is named. Programs that look
//! for tables pass over names that begin with `_`.

use event::{Span, Time};
use journal::{RecordId, SplitTable};

/// The folder of versions.
pub(crate) const VERSIONS: &str = "_tollhouse/versions";
/// The folder of segments.
pub(crate) const SEGMENTS: &str = "_tollhouse/segments";
pub(crate) const MANIFEST: &str = "manifest";
pub(crate) const INDEX: &str = "index";

/// Returns a date, as `2026-11-26`, of a day counted from 1970.
pub(crate) fn date(day: i64) -> String {
    let text = Time(day.saturating_mul(Span::days(1).0)).to_string();
    text.split('T').next().unwrap_or_default().to_owned()
}

/// The day on which a record arrived.
pub(crate) fn day_of(id: RecordId) -> i64 {
    id.time().0.div_euclid(Span::days(1).0)
}

/// Returns the name of a file with rows.
pub(crate) fn file(table: &SplitTable, day: i64, node: &str, segment: RecordId) -> String {
    let date = date(day);
    match table {
        SplitTable::Decisions(pipeline) => {
            format!("decisions/pipeline={}/date={date}/{node}-{segment}.parquet", escaped(pipeline))
        }
        SplitTable::Feedback => format!("feedback/date={date}/{node}-{segment}.parquet"),
    }
}

/// Returns the name of a segment's manifest or index.
pub(crate) fn segment(node: &str, segment: RecordId, ending: &str) -> String {
    format!("{SEGMENTS}/{node}/{}/{segment}.{ending}", date(day_of(segment)))
}

/// The value of a partition as it stands in a name: other bytes than plain ones as Hive writes them.
fn escaped(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let mut text = String::new();
    for byte in value.bytes() {
        match plain(byte) {
            true => text.push(char::from(byte)),
            false => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_the_segment() {
        let id: RecordId = RecordId(1_764_150_000_000 << 20);
        assert_eq!(date(day_of(id)), "2025-11-26");
        let table = SplitTable::Decisions("sign up/é".to_owned());
        let name = file(&table, day_of(id), "a1", id);
        assert_eq!(name, format!("decisions/pipeline=sign%20up%2F%C3%A9/date=2025-11-26/a1-{id}.parquet"));
        assert_eq!(
            file(&SplitTable::Feedback, 0, "a1", id),
            format!("feedback/date=1970-01-01/a1-{id}.parquet")
        );
        assert_eq!(segment("a1", id, MANIFEST), format!("_tollhouse/segments/a1/2025-11-26/{id}.manifest"));
    }
}

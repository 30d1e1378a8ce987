//! Records of the journal as messages: JSON objects, whose members are a promise of `docs/reference/sinks.md`.

use event::Time;
use journal::{DecisionRow, Record, RecordId, ReportRecord, VersionDescription, json_value};
use plan::SinkPlan;
use serde::Serialize;
use serde_json::{Map, Value};

/// The number of the form of messages. It rises if a member changes its meaning or goes; new ones may come.
pub(super) const SCHEMA: u32 = 1;

/// A message to a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SinkMessage {
    /// The id of the record: no two messages of another content have it.
    pub(super) id: RecordId,
    /// The id of the decision that it is of.
    pub(super) decision: RecordId,
    /// `decision` or `feedback`.
    pub(super) kind: &'static str,
    /// The JSON object.
    pub(super) body: Vec<u8>,
    /// True if facts were left out, as the message were too long.
    pub(super) is_shortened: bool,
}

#[derive(Serialize)]
struct DecisionMessage<'a> {
    r#type: &'static str,
    schema: u32,
    id: String,
    pipeline: &'a str,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<&'a str>,
    time: String,
    arrival: String,
    duplicate: bool,
    action: &'static str,
    score: f64,
    probability: f64,
    rules: Vec<FiredRule<'a>>,
    effects: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    facts: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shortened: bool,
}

#[derive(Serialize)]
struct FiredRule<'a> {
    name: &'a str,
    score: f64,
}

#[derive(Serialize)]
struct FeedbackMessage<'a> {
    r#type: &'static str,
    schema: u32,
    id: String,
    decision: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<&'a str>,
    signal: bool,
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    weight: u8,
    limited: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<&'a str>,
}

/// The message of a record; `None` if the sink does not want it. It is no longer than `bytes_max` if leaving out facts makes it so.
pub(super) fn encode(
    plan: &SinkPlan,
    id: RecordId,
    record: &Record,
    description: Option<&VersionDescription>,
    bytes_max: usize,
) -> Option<SinkMessage> {
    match record {
        Record::Decision(row) if plan.decisions => {
            let facts = description.filter(|_| plan.facts).map(|description| facts(row, description));
            let (mut body, mut is_shortened) = (decision(id, row, facts, false), false);
            if body.len() > bytes_max && plan.facts {
                (body, is_shortened) = (decision(id, row, None, true), true);
            }
            Some(SinkMessage { id, decision: id, kind: "decision", body, is_shortened })
        }
        Record::Report(report) if plan.feedback => Some(SinkMessage {
            id,
            decision: report.decision,
            kind: "feedback",
            body: feedback(id, report),
            is_shortened: false,
        }),
        _ => None,
    }
}

fn facts(row: &DecisionRow, description: &VersionDescription) -> Map<String, Value> {
    let values = description.columns.iter().zip(row.facts.values());
    let present = values.filter_map(|(column, value)| Some((column, value.as_ref()?)));
    present.map(|(column, value)| (column.name.clone(), json_value(value))).collect()
}

fn decision(id: RecordId, row: &DecisionRow, facts: Option<Map<String, Value>>, shortened: bool) -> Vec<u8> {
    let reasons = row.verdict.reasons.iter();
    json(&DecisionMessage {
        r#type: "decision",
        schema: SCHEMA,
        id: id.to_string(),
        pipeline: &row.pipeline,
        version: &row.version,
        event_id: row.event_id.as_deref(),
        time: text(row.time),
        arrival: text(row.arrival),
        duplicate: row.duplicate,
        action: row.verdict.action.name(),
        score: row.verdict.score,
        probability: row.verdict.probability,
        rules: reasons.map(|reason| FiredRule { name: &reason.rule, score: reason.score }).collect(),
        effects: row.verdict.effects.iter().map(|due| due.effect.to_string()).collect(),
        facts,
        shortened,
    })
}

fn feedback(id: RecordId, report: &ReportRecord) -> Vec<u8> {
    json(&FeedbackMessage {
        r#type: "feedback",
        schema: SCHEMA,
        id: id.to_string(),
        decision: report.decision.to_string(),
        class: report.class.as_deref(),
        signal: report.signal,
        time: text(report.time),
        by: report.by.map(|by| format!("{:016x}", by.0)),
        weight: report.weight,
        limited: report.limited,
        replaced: report.replaced.as_ref().map(|replaced| replaced.class.as_str()),
    })
}

/// Times as RFC 3339, in UTC.
fn text(time: Time) -> String {
    time.to_string()
}

fn json(message: &impl Serialize) -> Vec<u8> {
    // Texts and numbers only: nothing of it can be refused.
    serde_json::to_vec(message).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use event::{Column, Schema, Shingle, Slot, Span, Type};
    use judge::{Action, Reason, Verdict};
    use plan::{BrokerSecurity, SinkTarget};

    use super::*;

    const NOW: Time = Time::from_seconds(1_779_012_000);

    fn plan() -> SinkPlan {
        let target = SinkTarget::Kafka {
            brokers: String::new(),
            topic: String::new(),
            security: BrokerSecurity::default(),
        };
        SinkPlan {
            name: "s".to_owned(),
            target,
            decisions: true,
            feedback: true,
            facts: true,
            from_oldest: false,
        }
    }

    #[test]
    fn records_are_json_as_the_reference_says() {
        let column =
            |name: &str, kind| Column { name: name.to_owned(), kind, doc: String::new(), journalled: true };
        let columns = vec![
            column("user", Type::String),
            column("missing", Type::Integer),
            column("size", Type::Integer),
        ];
        let mut facts = Schema::from_columns(columns.clone()).empty_row();
        facts.set(Slot(0), "a\"b");
        facts.set(Slot(2), 7i64);
        let description = VersionDescription {
            columns,
            kinds: Vec::new(),
            rules: Vec::new(),
            rules_version: None,
            preset: None,
            models: Vec::new(),
        };
        let reason = Reason { rule: "r".to_owned(), score: 1.5, detail: String::new(), values: Vec::new() };
        let row = DecisionRow {
            pipeline: "posts".to_owned(),
            version: "v".to_owned(),
            event_id: Some("e".to_owned()),
            time: NOW,
            arrival: NOW + Span::seconds(1),
            duplicate: false,
            facts,
            keys: Vec::new(),
            verdict: Verdict {
                score: 1.5,
                probability: f64::NAN,
                action: Action::Reject,
                reasons: vec![reason],
                shadow: Vec::new(),
                next: None,
                effects: Vec::new(),
            },
        };
        let (id, decision) = (RecordId(7), Record::Decision(Box::new(row)));
        let check = |plan: &SinkPlan, record: &Record, bytes_max: usize, expected: Option<&str>| {
            let found = encode(plan, id, record, Some(&description), bytes_max);
            let found = found.map(|found| String::from_utf8(found.body).unwrap());
            found.iter().for_each(|message| crate::sinks::schema::check(message));
            assert_eq!(found.as_deref(), expected);
        };
        let beginning = r#"{"type":"decision","schema":1,"id":"0000000000007","pipeline":"posts","version":"v","event_id":"e","time":"2026-05-17T10:00:00Z","arrival":"2026-05-17T10:00:01Z","duplicate":false,"action":"reject","score":1.5,"probability":null,"rules":[{"name":"r","score":1.5}],"effects":[]"#;
        let whole = format!(r#"{beginning},"facts":{{"size":7,"user":"a\"b"}}}}"#);
        check(&plan(), &decision, whole.len(), Some(&whole));
        check(&plan(), &decision, whole.len() - 1, Some(&format!(r#"{beginning},"shortened":true}}"#)));
        let bare = SinkPlan { facts: false, ..plan() };
        check(&bare, &decision, 0, Some(&format!("{beginning}}}")));
        check(&SinkPlan { decisions: false, ..plan() }, &decision, 0, None);
        let report =
            ReportRecord { by: Some(Shingle(10)), ..ReportRecord::judgement(RecordId(3), "spam", NOW) };
        let report = Record::Report(report);
        let said = r#"{"type":"feedback","schema":1,"id":"0000000000007","decision":"0000000000003","class":"spam","signal":false,"time":"2026-05-17T10:00:00Z","by":"000000000000000a","weight":1,"limited":false}"#;
        check(&plan(), &report, 0, Some(said));
        check(&SinkPlan { feedback: false, ..plan() }, &report, 0, None);
    }
}

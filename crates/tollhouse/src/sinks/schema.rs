//! Members of messages, from which `docs/reference/sinks.md` and the JSON Schema beside it are made. Tests hold messages to them.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::message::SCHEMA;

/// The type of a member.
#[derive(Clone, Copy)]
enum MemberType {
    /// Always the same text.
    Word(&'static str),
    /// The number of the form.
    Form,
    Text,
    Time,
    Integer,
    Number,
    Probability,
    Boolean,
    Rules,
    Texts,
    Facts,
}

impl MemberType {
    /// The type in words, for people.
    fn words(self) -> &'static str {
        match self {
            MemberType::Word(_) | MemberType::Text | MemberType::Time => "string",
            MemberType::Form | MemberType::Integer => "integer",
            MemberType::Number => "number",
            MemberType::Probability => "number or null",
            MemberType::Boolean => "boolean",
            MemberType::Rules => "array",
            MemberType::Texts => "array of strings",
            MemberType::Facts => "object",
        }
    }

    fn schema(self) -> Value {
        match self {
            MemberType::Word(word) => json!({"const": word}),
            MemberType::Form => json!({"const": SCHEMA}),
            MemberType::Text => json!({"type": "string"}),
            MemberType::Time => json!({"type": "string", "format": "date-time"}),
            MemberType::Integer => json!({"type": "integer", "minimum": 0}),
            MemberType::Number => json!({"type": "number"}),
            MemberType::Probability => json!({"type": ["number", "null"], "minimum": 0, "maximum": 1}),
            MemberType::Boolean => json!({"type": "boolean"}),
            MemberType::Rules => json!({
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "score": {"type": "number"}},
                    "required": ["name", "score"],
                },
            }),
            MemberType::Texts => json!({"type": "array", "items": {"type": "string"}}),
            MemberType::Facts => json!({"type": "object"}),
        }
    }
}

/// Members of one type and meaning.
struct SinkMember {
    names: &'static [&'static str],
    of: MemberType,
    /// True if every message has it.
    is_always: bool,
    meaning: &'static str,
}

const fn always(names: &'static [&'static str], of: MemberType, meaning: &'static str) -> SinkMember {
    SinkMember { names, of, is_always: true, meaning }
}

const fn maybe(names: &'static [&'static str], of: MemberType, meaning: &'static str) -> SinkMember {
    SinkMember { names, of, is_always: false, meaning }
}

/// A kind of message: its name, and its members in their order.
struct MessageKind {
    name: &'static str,
    members: &'static [SinkMember],
}

const KINDS: [MessageKind; 2] = [
    MessageKind {
        name: "decision",
        members: &[
            always(&["type"], MemberType::Word("decision"), "`decision`"),
            always(&["schema"], MemberType::Form, "1"),
            always(
                &["id"],
                MemberType::Text,
                "id of the decision, 13 characters, unique across nodes that share statistics",
            ),
            always(&["pipeline"], MemberType::Text, "the pipeline"),
            always(&["version"], MemberType::Text, "version of its rules and settings"),
            maybe(&["event_id"], MemberType::Text, "your name for the event"),
            always(
                &["time", "arrival"],
                MemberType::Time,
                "time of the event and of its arrival, RFC 3339 in UTC",
            ),
            always(&["duplicate"], MemberType::Boolean, "an event of this `event_id` was counted before"),
            always(&["action"], MemberType::Text, "the action"),
            always(&["score"], MemberType::Number, "sum of the rules"),
            always(&["probability"], MemberType::Probability, "that the event is bad"),
            always(
                &["rules"],
                MemberType::Rules,
                "enforced rules that fired, highest weight first: `name` (string), `score` (number)",
            ),
            always(&["effects"], MemberType::Texts, "effects of rules"),
            maybe(
                &["facts"],
                MemberType::Facts,
                "journalled facts by name: strings, numbers, booleans, arrays; times RFC 3339, bytes hexadecimal",
            ),
            maybe(
                &["shortened"],
                MemberType::Boolean,
                "true if facts were left out because the message was too long",
            ),
        ],
    },
    MessageKind {
        name: "feedback",
        members: &[
            always(&["type"], MemberType::Word("feedback"), "`feedback`"),
            always(&["schema"], MemberType::Form, "1"),
            always(&["id"], MemberType::Text, "id of the feedback"),
            always(&["decision"], MemberType::Text, "id of the decision"),
            maybe(&["class"], MemberType::Text, "the class; absent if it undoes earlier feedback"),
            always(&["signal"], MemberType::Boolean, "true if it reports use of the event, not a judgement"),
            always(&["time"], MemberType::Time, "RFC 3339 in UTC"),
            maybe(
                &["by"],
                MemberType::Text,
                "hashed name of the reporter, 16 hexadecimal digits; absent for the operator",
            ),
            always(&["weight"], MemberType::Integer, "how much it counts"),
            always(&["limited"], MemberType::Boolean, "true if over the reporter's daily limit"),
            maybe(&["replaced"], MemberType::Text, "the reporter's earlier class"),
        ],
    },
];

/// The tables of the page, by the name of their part.
pub(crate) fn tables() -> Vec<(String, String)> {
    let table = |kind: &MessageKind| {
        let mut text = "| member | type | meaning |\n|---|---|---|\n".to_owned();
        for SinkMember { names, of, meaning, .. } in kind.members {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| {} | {} | {meaning} |", names.join(", "), of.words());
        }
        (kind.name.to_owned(), text)
    };
    KINDS.iter().map(table).collect()
}

/// The JSON Schema of all messages. Members that it does not name may come with any release.
pub(crate) fn schema() -> Value {
    let kind = |kind: &MessageKind| {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for SinkMember { names, of, is_always, meaning } in kind.members {
            for name in *names {
                let mut property = of.schema();
                property["description"] = (*meaning).into();
                properties.insert((*name).to_owned(), property);
                required.extend(is_always.then_some(*name));
            }
        }
        json!({"title": kind.name, "type": "object", "properties": properties, "required": required})
    };
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Messages of Tollhouse's sinks",
        "oneOf": KINDS.iter().map(kind).collect::<Vec<_>>(),
    })
}

/// Checks that a message is as the schema says, and has no member that it does not name.
pub(super) fn check(message: &str) {
    let message: Map<String, Value> = serde_json::from_str(message).unwrap();
    let kind = KINDS.iter().find(|kind| message["type"] == kind.name).expect("a kind of message");
    let members =
        || kind.members.iter().flat_map(|member| member.names.iter().map(move |name| (*name, member)));
    for (name, member) in members() {
        let Some(value) = message.get(name) else {
            assert!(!member.is_always, "{name} is missing: {message:?}");
            continue;
        };
        let fits = match member.of {
            MemberType::Word(word) => value == word,
            MemberType::Form => value == SCHEMA,
            MemberType::Text | MemberType::Time => value.is_string(),
            MemberType::Integer => value.is_u64(),
            MemberType::Number => value.is_number(),
            MemberType::Probability => value.is_number() || value.is_null(),
            MemberType::Boolean => value.is_boolean(),
            MemberType::Rules | MemberType::Texts => value.is_array(),
            MemberType::Facts => value.is_object(),
        };
        assert!(fits, "{name}: {value}");
    }
    for name in message.keys() {
        assert!(members().any(|(known, _)| known == name), "the table lacks {name}");
    }
}

//! Examples in the description of the interface: of each operation a request, and the answer of a node to it.
//!
//! They are in a file beside this one, in an order in which a node can be asked them. A test plays them, and writes the answers
//! (`UPDATE=1 cargo test -p tollhouse-server --test it openapi`).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::protocol::input::JSON_LINES;

const EXAMPLES: &str = include_str!("examples.json");

/// A request, and the answer to it.
#[derive(Debug, Deserialize)]
struct OperationExample {
    /// The id of the operation.
    operation: String,
    #[serde(default)]
    path: BTreeMap<String, Value>,
    #[serde(default)]
    query: BTreeMap<String, Value>,
    #[serde(default)]
    headers: BTreeMap<String, Value>,
    /// The media type of the request's body.
    media: Option<String>,
    /// The body: an object, a text, or a list of lines.
    body: Option<Value>,
    /// The media type of the answer.
    kind: Option<String>,
    answer: Option<Value>,
}

/// Adds the examples to a description.
pub(super) fn add(description: &mut Value) {
    // A test reads the file.
    let examples: Vec<OperationExample> = serde_json::from_str(EXAMPLES).unwrap_or_default();
    let paths = description.get_mut("paths").and_then(Value::as_object_mut);
    let methods = paths.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut);
    for operation in methods.flat_map(Map::values_mut) {
        let id = operation.get("operationId").and_then(Value::as_str);
        if let Some(example) = examples.iter().find(|example| Some(example.operation.as_str()) == id) {
            example.add(operation);
        }
    }
}

impl OperationExample {
    fn add(&self, operation: &mut Value) {
        let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten().filter_map(Value::as_object_mut) {
            let name = parameter.get("name").and_then(Value::as_str).unwrap_or_default();
            let given =
                [&self.path, &self.query, &self.headers].into_iter().find_map(|given| given.get(name));
            if let Some(given) = given.cloned() {
                parameter.insert("example".to_owned(), given);
            }
        }
        if let (Some(media), Some(body)) = (&self.media, &self.body) {
            show(operation.get_mut("requestBody"), media, body);
        }
        if let (Some(kind), Some(answer)) = (&self.kind, &self.answer) {
            let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
            let good = responses.into_iter().flatten().find(|(status, _)| status.starts_with('2'));
            show(good.map(|(_, response)| response), kind, answer);
        }
    }
}

/// Sets the example of a body of a media type.
fn show(body: Option<&mut Value>, media: &str, example: &Value) {
    let contents = body.and_then(|body| body.get_mut("content"));
    let Some(content) = contents.and_then(|contents| contents.get_mut(media)).and_then(Value::as_object_mut)
    else {
        return;
    };
    let is_text = content.get("schema").is_some_and(|schema| schema["type"] == "string");
    let shown = match example {
        Value::Array(lines) if media == JSON_LINES && is_text => {
            lines.iter().map(|line| format!("{line}\n")).collect::<String>().into()
        }
        // The schema is that of a line.
        Value::Array(lines) if media == JSON_LINES => lines.first().cloned().unwrap_or_default(),
        example => example.clone(),
    };
    content.insert("example".to_owned(), shown);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_can_be_read() {
        let examples: Vec<OperationExample> = serde_json::from_str(EXAMPLES).unwrap();
        assert!(!examples.is_empty());
        assert!(examples.iter().all(|example| example.media.is_some() == example.body.is_some()));
    }
}

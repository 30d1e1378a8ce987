//! Events as words: `field value` pairs → the event that the same JSON object would be.

use std::sync::Arc;

use engine::Engine;
use event::{Event, Time};
use plan::Pipeline;
use serde_json::{Map, Value};

use super::answer::quoted;
use crate::core::problem::HttpFailure;

/// A member whose value may be any bytes: the message itself.
const RAW: &[u8] = b"raw";

/// The event of pairs, and what its answer has to warn of. A field that stands several times is a list. Values are text, and
/// read as what the pipeline's field is; `id`, `time` and `raw` mean what they do in JSON.
///
/// # Errors
/// What is wrong with them, for an answer.
pub(super) fn event<'a>(
    engine: &Engine,
    pipeline: &Arc<Pipeline>,
    arrival: Time,
    mut words: impl Iterator<Item = &'a [u8]>,
) -> Result<(Event, Vec<String>), String> {
    let mut members: Map<String, Value> = Map::new();
    let mut raw = None;
    while let Some(name) = words.next() {
        let Some(value) = words.next() else {
            return Err(format!("ERR field '{}' has no value", quoted(name)));
        };
        if name == RAW {
            if value.len() > content::mail::message::MESSAGE_BYTES_MAX {
                let max = content::mail::message::MESSAGE_BYTES_MAX;
                return Err(format!("ERR a message has at most {max} bytes"));
            }
            raw = Some(value);
            continue;
        }
        let text = |bytes: &'a [u8]| {
            std::str::from_utf8(bytes).map_err(|_| format!("ERR field '{}': expected UTF-8", quoted(name)))
        };
        let (name, value) = (text(name)?, Value::from(text(value)?));
        match members.get_mut(name) {
            None => {
                members.insert(name.to_owned(), value);
            }
            Some(Value::Array(items)) => items.push(value),
            Some(first) => *first = Value::Array(vec![first.take(), value]),
        }
    }
    // Through JSON, so that limits, types and errors are the same as there.
    let json = Value::Object(members).to_string();
    // Its message is no member here: without any other field it is an event all the same.
    let read = match raw {
        Some(_) if json == "{}" => Ok((Event::default(), Vec::new())),
        _ => engine.read_json(pipeline, json.as_bytes(), arrival),
    };
    let (mut event, warnings) = read.map_err(|error| format!("ERR {error}"))?;
    if let Some(raw) = raw {
        event.raw = Some(raw.into());
    }
    Ok((event, warnings))
}

/// A failure as an error: its kind and all that HTTP tells of it.
pub(super) fn failed(failure: &HttpFailure) -> String {
    let problem = failure.problem();
    let word = if problem.status == 503 { "TRYAGAIN" } else { "ERR" };
    let help = problem.help.map(|help| format!("; {help}")).unwrap_or_default();
    format!("{word} {}{help}", problem.detail)
}

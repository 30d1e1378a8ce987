//! A notice: something that happened, in fields and as a sentence.

use event::Time;
use plan::NotificationOccasion;
use serde_json::{Map, Value};

use super::text::line;

/// Most characters of a sentence.
const SUMMARY_CHARS_MAX: usize = 500;

/// A thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Notice {
    /// A text that tells it from others, the same on all nodes that saw the same happen.
    pub(crate) key: String,
    pub(crate) occasion: NotificationOccasion,
    pub(crate) at: Time,
    pub(crate) pipeline: Option<String>,
    /// The sentence for people, of one line.
    pub(crate) summary: String,
    /// The fields, by their names in JSON.
    pub(crate) fields: Map<String, Value>,
}

impl Notice {
    pub(crate) fn new(occasion: NotificationOccasion, at: Time, key: String, summary: &str) -> Notice {
        let summary = line(summary, SUMMARY_CHARS_MAX);
        Notice { key, occasion, at, pipeline: None, summary, fields: Map::new() }
    }

    pub(crate) fn of_pipeline(self, pipeline: &str) -> Notice {
        Notice { pipeline: Some(pipeline.to_owned()), ..self }
    }

    /// The notice with another field.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Notice {
        let value = value.into();
        if !value.is_null() {
            self.fields.insert(name.to_owned(), value);
        }
        self
    }

    /// Returns a field as text; empty where it has none.
    pub(crate) fn text(&self, name: &str) -> String {
        match (name, self.fields.get(name)) {
            ("kind", _) => self.occasion.name().to_owned(),
            ("summary", _) => self.summary.clone(),
            ("time", _) => self.at.to_string(),
            ("pipeline", _) => self.pipeline.clone().unwrap_or_default(),
            (_, Some(Value::String(text))) => text.clone(),
            (_, Some(value)) => value.to_string(),
            (_, None) => String::new(),
        }
    }

    /// The notice in JSON, in the shape of Standard Webhooks.
    pub(crate) fn json(&self, summary: &str) -> Value {
        let mut data = self.fields.clone();
        data.insert("summary".to_owned(), Value::from(summary));
        if let Some(pipeline) = &self.pipeline {
            data.insert("pipeline".to_owned(), Value::from(pipeline.as_str()));
        }
        serde_json::json!({ "type": self.occasion.name(), "timestamp": self.at.to_string(), "data": data })
    }
}

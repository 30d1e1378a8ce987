//! A record on its way through parsers and scenarios: a line of a log, or an overflow of a scenario.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::crowdsec::overflow::CrowdsecOverflow;
use crate::crowdsec::value::{ExprObject, ExprValue, TextMap};

/// The line that a record came from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CrowdsecLine {
    /// The text.
    pub raw: Arc<str>,
    /// The file or other source.
    pub source: Arc<str>,
    /// The kind of the source, such as `file`.
    pub module: Arc<str>,
    /// Labels of the source, such as its `type`.
    pub labels: Arc<TextMap>,
}

/// A line, or an overflow, with all that parsers found in it.
#[derive(Clone, Debug, Default)]
pub struct CrowdsecRecord {
    /// The line.
    pub line: Arc<CrowdsecLine>,
    /// Fields that patterns found.
    pub parsed: Arc<TextMap>,
    /// Facts that scenarios ask for.
    pub meta: Arc<TextMap>,
    /// Facts that enrichment added.
    pub enriched: Arc<TextMap>,
    /// Values of JSON, XML and other structures.
    pub values: Arc<BTreeMap<Arc<str>, ExprValue>>,
    /// The stage of parsers that the record is in.
    pub stage: Arc<str>,
    /// The date as the line has it.
    pub date: Arc<str>,
    /// The form of the date, as Go writes it.
    pub date_form: Arc<str>,
    /// The date in RFC 3339.
    pub marshaled_time: Arc<str>,
    /// The time in nanoseconds since 1970.
    pub time: i64,
    /// True if a whitelist has taken it.
    pub is_whitelisted: bool,
    /// The reason of the whitelist.
    pub whitelist_reason: Arc<str>,
    /// The overflow that it is about, if it is not of a line.
    pub overflow: Option<Arc<CrowdsecOverflow>>,
}

impl CrowdsecRecord {
    /// The value of a name in what scenarios ask for.
    pub fn meta(&self, name: &str) -> Option<&str> {
        self.meta.get(name).map(AsRef::as_ref)
    }

    /// Addresses that the record comes from.
    pub fn sources(&self) -> Vec<Arc<str>> {
        match &self.overflow {
            Some(overflow) => overflow.sources.keys().map(Arc::clone).collect(),
            None => self.meta.get("source_ip").map(Arc::clone).into_iter().collect(),
        }
    }

    /// Sets a part by the path that a configuration names it with. Returns false if there is no such part.
    pub fn set(&mut self, path: &str, value: &str) -> bool {
        let path = path.strip_prefix("evt.").unwrap_or(path);
        let value: Arc<str> = Arc::from(value);
        let (part, name) = path.split_once('.').unwrap_or((path, ""));
        match (part, name) {
            ("Parsed", name) if !name.is_empty() => {
                Arc::make_mut(&mut self.parsed).insert(Arc::from(name), value);
            }
            ("Meta", name) if !name.is_empty() => {
                Arc::make_mut(&mut self.meta).insert(Arc::from(name), value);
            }
            ("Enriched", name) if !name.is_empty() => {
                Arc::make_mut(&mut self.enriched).insert(Arc::from(name), value);
            }
            ("Unmarshaled", name) if !name.is_empty() => {
                Arc::make_mut(&mut self.values).insert(Arc::from(name), ExprValue::Text(value));
            }
            ("StrTime", "") => self.date = value,
            ("StrTimeFormat", "") => self.date_form = value,
            ("MarshaledTime", "") => self.marshaled_time = value,
            ("WhitelistReason", "") => self.whitelist_reason = value,
            ("Line", "Raw") => Arc::make_mut(&mut self.line).raw = value,
            ("Line", "Src") => Arc::make_mut(&mut self.line).source = value,
            ("Line", "Module") => Arc::make_mut(&mut self.line).module = value,
            ("Line", name) if name.starts_with("Labels.") => {
                let line = Arc::make_mut(&mut self.line);
                Arc::make_mut(&mut line.labels).insert(Arc::from(&name["Labels.".len()..]), value);
            }
            ("Overflow", name) => {
                let (Some(part), Some(overflow)) = (name.strip_prefix("Alert.Source."), &mut self.overflow)
                else {
                    return false;
                };
                return Arc::make_mut(overflow).set_source(part, &value);
            }
            _ => return false,
        }
        true
    }
}

impl ExprObject for CrowdsecRecord {
    fn member(&self, name: &str) -> Option<ExprValue> {
        Some(match name {
            "Parsed" => ExprValue::Texts(Arc::clone(&self.parsed)),
            "Meta" => ExprValue::Texts(Arc::clone(&self.meta)),
            "Enriched" => ExprValue::Texts(Arc::clone(&self.enriched)),
            "Unmarshaled" => ExprValue::Map(Arc::clone(&self.values)),
            "Line" => ExprValue::Object(Arc::clone(&self.line) as Arc<dyn ExprObject>),
            "Stage" => ExprValue::Text(Arc::clone(&self.stage)),
            "StrTime" => ExprValue::Text(Arc::clone(&self.date)),
            "StrTimeFormat" => ExprValue::Text(Arc::clone(&self.date_form)),
            "MarshaledTime" => ExprValue::Text(Arc::clone(&self.marshaled_time)),
            "Time" => ExprValue::Moment(self.time),
            "Whitelisted" => ExprValue::Bool(self.is_whitelisted),
            "WhitelistReason" => ExprValue::Text(Arc::clone(&self.whitelist_reason)),
            "Process" => ExprValue::Bool(true),
            "Overflow" => ExprValue::Object(match &self.overflow {
                Some(overflow) => Arc::clone(overflow) as Arc<dyn ExprObject>,
                None => Arc::new(CrowdsecOverflow::default()),
            }),
            // Findings of CrowdSec's firewall for applications are not in logs.
            "Appsec" => ExprValue::Map(Arc::default()),
            _ => return None,
        })
    }

    fn call(&self, name: &str, arguments: &[ExprValue]) -> Option<ExprValue> {
        let texts = |texts: &TextMap| {
            let found = arguments.first().and_then(ExprValue::as_text).and_then(|name| texts.get(name));
            ExprValue::Text(found.map(Arc::clone).unwrap_or_default())
        };
        match name {
            "GetType" => Some(ExprValue::from(if self.overflow.is_some() { "overflow" } else { "log" })),
            "GetMeta" => Some(texts(&self.meta)),
            "GetParsed" => Some(texts(&self.parsed)),
            _ => None,
        }
    }
}

impl ExprObject for CrowdsecLine {
    fn member(&self, name: &str) -> Option<ExprValue> {
        Some(match name {
            "Raw" => ExprValue::Text(Arc::clone(&self.raw)),
            "Src" => ExprValue::Text(Arc::clone(&self.source)),
            "Module" => ExprValue::Text(Arc::clone(&self.module)),
            "Labels" => ExprValue::Texts(Arc::clone(&self.labels)),
            "Process" => ExprValue::Bool(true),
            _ => return None,
        })
    }
}

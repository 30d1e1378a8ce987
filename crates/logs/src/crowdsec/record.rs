//! A record on its way through parsers and scenarios: a line of a log, or an overflow of a scenario, which says who did what, and
//! keeps records by which that was found.

use std::collections::BTreeMap;
use std::sync::Arc;

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

impl From<Arc<CrowdsecRecord>> for ExprValue {
    fn from(record: Arc<CrowdsecRecord>) -> ExprValue {
        ExprValue::Object(record)
    }
}

/// A source of an overflow: an address, a range, an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverflowSource {
    /// The kind of the source, such as `Ip`.
    pub scope: Arc<str>,
    /// The source itself.
    pub value: Arc<str>,
    /// The address, if it is known.
    pub ip: Arc<str>,
    /// The network of the address, if it is known.
    pub range: Arc<str>,
    /// The number of the AS, if it is known.
    pub as_number: Arc<str>,
    /// The name of the AS, if it is known.
    pub as_name: Arc<str>,
    /// The country, if it is known.
    pub country: Arc<str>,
}

impl ExprObject for OverflowSource {
    fn member(&self, name: &str) -> Option<ExprValue> {
        let value = match name {
            "Scope" => &self.scope,
            "Value" => &self.value,
            "IP" => &self.ip,
            "Range" => &self.range,
            "AsNumber" => &self.as_number,
            "AsName" => &self.as_name,
            "Cn" => &self.country,
            _ => return None,
        };
        Some(ExprValue::Text(Arc::clone(value)))
    }

    fn call(&self, name: &str, _arguments: &[ExprValue]) -> Option<ExprValue> {
        match name {
            "GetScope" => self.member("Scope"),
            "GetValue" => self.member("Value"),
            "GetAsNumberName" => Some(ExprValue::from(format!("{} {}", self.as_number, self.as_name))),
            _ => None,
        }
    }
}

/// An overflow of a scenario; without a scenario, there is none.
#[derive(Clone, Debug, Default)]
pub struct CrowdsecOverflow {
    /// The name of the scenario.
    pub scenario: Arc<str>,
    /// Sources by their values.
    pub sources: BTreeMap<Arc<str>, Arc<OverflowSource>>,
    /// Records that are kept of the bucket.
    pub records: Vec<Arc<CrowdsecRecord>>,
    /// The number of records that were poured.
    pub count: u64,
    /// True if something is to be done about the sources.
    pub remediation: bool,
    /// True if scenarios are to see it, too.
    pub reprocess: bool,
    /// The time of the first record, in nanoseconds since 1970.
    pub first: i64,
    /// The time of the last record.
    pub last: i64,
    /// The source as postoverflows changed it, if one did.
    pub changed_source: Option<Arc<OverflowSource>>,
    /// True if a whitelist took it afterwards.
    pub is_whitelisted: bool,
}

impl CrowdsecOverflow {
    /// The source that expressions know: the first one, as postoverflows changed it.
    pub fn source(&self) -> Option<&Arc<OverflowSource>> {
        self.changed_source.as_ref().or_else(|| self.sources.values().next())
    }

    /// Changes a part of the source. Returns false if there is no such part.
    pub(crate) fn set_source(&mut self, part: &str, value: &Arc<str>) -> bool {
        let mut source = self.source().map(|source| OverflowSource::clone(source)).unwrap_or_default();
        let part = match part {
            "Value" => &mut source.value,
            "Scope" => &mut source.scope,
            "Range" => &mut source.range,
            "IP" => &mut source.ip,
            _ => return false,
        };
        *part = Arc::clone(value);
        self.changed_source = Some(Arc::new(source));
        true
    }

    /// Sources in the order of their values.
    pub fn source_names(&self) -> Vec<Arc<str>> {
        self.sources.keys().map(Arc::clone).collect()
    }
}

impl ExprObject for CrowdsecOverflow {
    fn member(&self, name: &str) -> Option<ExprValue> {
        Some(match name {
            "Alert" if self.scenario.is_empty() => ExprValue::Nil,
            "Alert" => ExprValue::Object(Arc::new(OverflowAlert(self.clone()))),
            "APIAlerts" => ExprValue::List(Arc::new(vec![self.member("Alert")?])),
            "Sources" => ExprValue::Map(Arc::new(
                self.sources
                    .iter()
                    .map(|(name, source)| {
                        (Arc::clone(name), ExprValue::Object(Arc::clone(source) as Arc<dyn ExprObject>))
                    })
                    .collect(),
            )),
            "Whitelisted" => ExprValue::Bool(self.is_whitelisted),
            "Reprocess" => ExprValue::Bool(self.reprocess),
            _ => return None,
        })
    }

    fn call(&self, name: &str, _arguments: &[ExprValue]) -> Option<ExprValue> {
        match name {
            "GetSources" => Some(ExprValue::List(Arc::new(
                self.source_names().into_iter().map(ExprValue::Text).collect(),
            ))),
            _ => None,
        }
    }
}

/// An overflow as expressions see it under `Alert`.
#[derive(Debug)]
struct OverflowAlert(CrowdsecOverflow);

impl ExprObject for OverflowAlert {
    fn member(&self, name: &str) -> Option<ExprValue> {
        Some(match name {
            "Remediation" => ExprValue::Bool(self.0.remediation),
            "Scenario" => ExprValue::Text(Arc::clone(&self.0.scenario)),
            "EventsCount" => ExprValue::Int(i64::try_from(self.0.count).unwrap_or(i64::MAX)),
            "Source" => match self.0.source() {
                Some(source) => ExprValue::Object(Arc::clone(source) as Arc<dyn ExprObject>),
                None => ExprValue::Nil,
            },
            "Events" => ExprValue::List(Arc::new(
                self.0
                    .records
                    .iter()
                    .map(|record| ExprValue::Object(Arc::new(AlertEvent(Arc::clone(record)))))
                    .collect(),
            )),
            _ => return None,
        })
    }

    fn call(&self, name: &str, _arguments: &[ExprValue]) -> Option<ExprValue> {
        let source = || self.0.source();
        Some(match name {
            "GetScenario" => ExprValue::Text(Arc::clone(&self.0.scenario)),
            "GetEventsCount" => self.member("EventsCount")?,
            "GetScope" => {
                ExprValue::Text(source().map(|source| Arc::clone(&source.scope)).unwrap_or_default())
            }
            "GetValue" => {
                ExprValue::Text(source().map(|source| Arc::clone(&source.value)).unwrap_or_default())
            }
            "HasRemediation" => ExprValue::Bool(self.0.remediation),
            _ => return None,
        })
    }
}

/// A record as expressions see it under `Alert.Events`.
#[derive(Debug)]
struct AlertEvent(Arc<CrowdsecRecord>);

impl ExprObject for AlertEvent {
    fn member(&self, name: &str) -> Option<ExprValue> {
        match name {
            "Meta" => Some(ExprValue::List(Arc::new(
                self.0
                    .meta
                    .iter()
                    .map(|(key, value)| {
                        let pair = [("Key", key), ("Value", value)];
                        ExprValue::Texts(Arc::new(
                            pair.map(|(name, text)| (Arc::from(name), Arc::clone(text))).into(),
                        ))
                    })
                    .collect(),
            ))),
            "Timestamp" => Some(ExprValue::Text(Arc::clone(&self.0.marshaled_time))),
            _ => None,
        }
    }

    fn call(&self, name: &str, arguments: &[ExprValue]) -> Option<ExprValue> {
        self.0.call(name, arguments).filter(|_| name == "GetMeta")
    }
}

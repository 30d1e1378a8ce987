//! An overflow of a scenario: who did what, and by which records it was found.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::crowdsec::record::CrowdsecRecord;
use crate::crowdsec::value::{ExprObject, ExprValue};

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

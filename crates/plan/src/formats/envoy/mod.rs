//! Limits as `envoyproxy/ratelimit` configures them: domains, trees of descriptors in YAML, and which limit a request's
//! descriptor means. The files are read unchanged; `docs/guides/envoy.md` says what of them is heeded.

mod reader;
pub(crate) mod yaml;

use std::collections::HashMap;
use std::sync::Arc;

use event::Span;

use crate::config::{ConfigProblems, ConfigSource, SourceKind};
use crate::limit::{LimitAlgorithm, LimitPlan, Period, Zone};

/// A unit of time, as these files name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RateUnit {
    /// A second.
    Second,
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    Hour,
    /// A day of UTC.
    Day,
    /// Seven days from a Thursday on, the day of the week on which Unix time began.
    Week,
    /// A month of the calendar of UTC.
    Month,
    /// 365 days.
    Year,
}

impl RateUnit {
    /// All units, from the shortest to the longest.
    pub const ALL: [RateUnit; 7] = [
        RateUnit::Second,
        RateUnit::Minute,
        RateUnit::Hour,
        RateUnit::Day,
        RateUnit::Week,
        RateUnit::Month,
        RateUnit::Year,
    ];

    /// The unit's name in files.
    pub fn name(self) -> &'static str {
        match self {
            RateUnit::Second => "second",
            RateUnit::Minute => "minute",
            RateUnit::Hour => "hour",
            RateUnit::Day => "day",
            RateUnit::Week => "week",
            RateUnit::Month => "month",
            RateUnit::Year => "year",
        }
    }
}

/// A number of requests in each unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The requests.
    pub requests: u32,
    /// The unit.
    pub unit: RateUnit,
}

impl Rate {
    /// Returns the limit that counts the rate: a window that begins where the unit does, in which what is refused counts,
    /// too.
    pub fn limit(self, name: &str) -> LimitPlan {
        let count = u64::from(self.requests);
        let fixed = |window| LimitPlan::fixed(name, count, window);
        match self.unit {
            RateUnit::Second => fixed(Span::seconds(1)),
            RateUnit::Minute => fixed(Span::minutes(1)),
            RateUnit::Hour => fixed(Span::hours(1)),
            RateUnit::Day => fixed(Span::days(1)),
            RateUnit::Week => fixed(Span::days(7)),
            RateUnit::Month => {
                let pace = LimitAlgorithm::Calendar { period: Period::Month, zone: Zone::utc() };
                LimitPlan { pace, ..fixed(Period::Month.longest()) }
            }
            RateUnit::Year => fixed(Span::days(365)),
        }
    }
}

/// The limit of a descriptor.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvoyRule {
    /// Domain, keys and values of the descriptors down to it, as the peer names it in metrics: `domain.key_value.subkey`.
    pub path: String,
    /// The rate that is allowed; `None` for any number.
    pub rate: Option<Rate>,
    /// The limit that counts it.
    pub limit: Arc<LimitPlan>,
    /// Its name, in answers and for others to replace it.
    pub name: String,
    /// Names of limits that do not count where this one is among a request's limits.
    pub replaces: Vec<String>,
    /// True if the limit counts, and refuses nothing.
    pub shadow_mode: bool,
    /// True if the limit is a quota: it refuses only where all quotas of a request are over.
    pub quota_mode: bool,
    /// True if metrics tell each value apart.
    pub detailed_metric: bool,
    /// The metadata of the limit in the answer where it is not over.
    pub metadata: Option<serde_json::Value>,
}

/// The meaning of a descriptor of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct DescriptorMatch<'a> {
    /// Its limit.
    pub rule: &'a Arc<EnvoyRule>,
    /// The pattern that stands for an entry's value in the counter's key, if many values share one counter.
    pub shared: Vec<Option<&'a str>>,
    /// True for each entry whose value metrics show where the configuration does not name it.
    pub shown: Vec<bool>,
}

/// All domains.
#[derive(Debug, Default, PartialEq)]
pub struct Domains {
    domains: HashMap<String, DescriptorLevel>,
}

/// Descriptors next to each other.
#[derive(Debug, Default, PartialEq)]
struct DescriptorLevel {
    /// The descriptors by `key`, or `key_value`.
    exact: HashMap<String, EnvoyDescriptor>,
    /// The entries whose `key_value` has a `*` in it, in the order of the file: its parts, and its name in `exact`.
    wild: Vec<(Vec<String>, String)>,
}

#[derive(Debug, PartialEq)]
struct EnvoyDescriptor {
    rule: Option<Arc<EnvoyRule>>,
    below: DescriptorLevel,
    value_to_metric: bool,
    /// The value's pattern, where all values that match it share one counter.
    shared: Option<String>,
}

impl Domains {
    /// Reads files, each with its name. Domains of several files are merged only if that is wanted.
    ///
    /// # Errors
    /// All that is wrong with them, each with file, place and mend.
    pub fn read(files: &[(String, String)], merge: bool) -> Result<Domains, ConfigProblems> {
        let sources: Vec<Arc<ConfigSource>> = files
            .iter()
            .map(|(name, text)| {
                Arc::new(ConfigSource { kind: SourceKind::File, name: name.clone(), text: text.clone() })
            })
            .collect();
        let mut problems = ConfigProblems::default();
        let domains = Domains::compile(&sources, merge, &mut problems);
        problems.refuse().map(|_| domains)
    }

    /// Compiles the texts of files; problems are added to those that are known.
    pub fn compile(sources: &[Arc<ConfigSource>], merge: bool, problems: &mut ConfigProblems) -> Domains {
        let mut domains = Domains::default();
        for source in sources {
            reader::file(source, merge, &mut domains.domains, problems);
        }
        domains
    }

    /// Returns true if there is a domain of this name.
    pub fn has(&self, domain: &str) -> bool {
        self.domains.contains_key(domain)
    }

    /// Returns true if there is no domain.
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    /// All limits, in no order.
    pub fn rules(&self) -> impl Iterator<Item = &Arc<EnvoyRule>> {
        let mut levels: Vec<&DescriptorLevel> = self.domains.values().collect();
        let mut rules = Vec::new();
        while let Some(level) = levels.pop() {
            for descriptor in level.exact.values() {
                rules.extend(&descriptor.rule);
                levels.push(&descriptor.below);
            }
        }
        rules.into_iter()
    }

    /// The limit of a request's descriptor: the one at the end of a path as long as the descriptor, each step taken by key
    /// and value, else by a value's pattern, else by key. Linear in the entries, the patterns beside each, and their bytes.
    pub fn find<'e>(
        &self,
        domain: &str,
        entries: impl Iterator<Item = (&'e str, &'e str)>,
    ) -> Option<DescriptorMatch<'_>> {
        let mut level = self.domains.get(domain)?;
        let (mut shared, mut shown) = (Vec::new(), Vec::new());
        let mut rule = None;
        for (key, value) in entries {
            let (descriptor, by_pattern) = level.step(key, value)?;
            shared.push(descriptor.shared.as_deref().filter(|_| by_pattern));
            shown.push(descriptor.value_to_metric);
            rule = descriptor.rule.as_ref();
            level = &descriptor.below;
        }
        Some(DescriptorMatch { rule: rule?, shared, shown })
    }
}

impl DescriptorLevel {
    /// The descriptor for an entry, and whether its pattern led there.
    fn step(&self, key: &str, value: &str) -> Option<(&EnvoyDescriptor, bool)> {
        let whole = format!("{key}_{value}");
        if let Some(descriptor) = self.exact.get(&whole) {
            return Some((descriptor, false));
        }
        for (parts, place) in &self.wild {
            if matches(parts, &whole) {
                return self.exact.get(place).map(|descriptor| (descriptor, true));
            }
        }
        self.exact.get(key).map(|descriptor| (descriptor, false))
    }
}

/// Returns true if a text is made of these parts, with anything between them.
fn matches(parts: &[String], text: &str) -> bool {
    let [first, middle @ .., last] = parts else { return parts.iter().any(|part| part == text) };
    let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
    for part in middle {
        let Some(at) = rest.find(part.as_str()) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap() {
        let check = |pattern: &str, text: &str, expected: bool| {
            let parts: Vec<String> = pattern.split('*').map(str::to_owned).collect();
            assert_eq!(matches(&parts, text), expected, "{pattern} {text}");
        };
        check("wild_foo*", "wild_foo", true);
        check("wild_foo*", "wild_foobar", true);
        check("wild_foo*", "wild_fo", false);
        check("k_bar*b", "k_barb", true);
        check("k_bar*b", "k_bar", false);
        check("k_ab*ba", "k_aba", false);
        check("k_foo*bar*baz", "k_fooXbarYbaz", true);
        check("k_foo*bar*baz", "k_foobaz", false);
        check("k_foo*bar*baz", "k_foobarbarbaz", true);
        check("k", "k", true);
    }
}

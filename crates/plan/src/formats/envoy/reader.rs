//! Files → [`Domains`](super::Domains). What the peer refuses is refused, with the place and the mend.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use event::Span;
use serde_json::{Map, Value as Json};

use super::yaml::{self, YamlNode, YamlValue};
use super::{DescriptorLevel, EnvoyDescriptor, EnvoyRule, Rate, RateUnit};
use crate::config::{ConfigProblems, ConfigSource, expected};
use crate::limit::LimitPlan;

/// The keys that a file, a descriptor, a limit and an item of `replaces` may have.
const ROOT: &[&str] = &["domain", "descriptors"];
const DESCRIPTOR: &[&str] = &[
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];
const RATE_LIMIT: &[&str] = &["unit", "requests_per_unit", "unlimited", "name", "replaces"];
const REPLACES: &[&str] = &["name"];

/// A mapping whose keys are known.
struct YamlMapping<'a> {
    source: &'a Arc<ConfigSource>,
    node: &'a YamlNode,
    fields: HashMap<&'a str, &'a YamlNode>,
}

/// Reads a file into the domains that are there.
pub(super) fn file(
    source: &Arc<ConfigSource>,
    merge: bool,
    domains: &mut HashMap<String, DescriptorLevel>,
    problems: &mut ConfigProblems,
) {
    let Some(node) = yaml::parse(source, problems) else { return };
    let Some(root) = YamlMapping::of(source, &node, ROOT, problems) else { return };
    let domain = root.text("domain", problems).unwrap_or_default();
    if domain.is_empty() {
        let help = "add `domain:` with the name that Envoy's filter has as its `domain`".to_owned();
        problems.add(&node.origin(source), "the file has no domain", Some(help));
        return;
    }
    let at = root.fields.get("domain").copied().unwrap_or(&node);
    let level = match domains.entry(domain.clone()) {
        Entry::Occupied(_) if !merge => {
            let help = "put its descriptors into one file, or set `merge_domains = true`".to_owned();
            problems.add(
                &at.origin(source),
                format!("domain `{domain}` is in another file, too"),
                Some(help),
            );
            return;
        }
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => new.insert(DescriptorLevel::default()),
    };
    descriptors(&root, &domain, level, problems);
}

/// Reads the descriptors next to each other.
fn descriptors(of: &YamlMapping<'_>, path: &str, level: &mut DescriptorLevel, problems: &mut ConfigProblems) {
    let source = of.source;
    for item in of.list("descriptors", problems) {
        let Some(fields) = YamlMapping::of(source, item, DESCRIPTOR, problems) else { continue };
        let key = fields.text("key", problems).unwrap_or_default();
        if key.is_empty() {
            let help = "add `key:` with the name that Envoy sends as the entry's key".to_owned();
            problems.add(&item.origin(source), "the descriptor has no key", Some(help));
            continue;
        }
        let value = fields.text("value", problems).filter(|value| !value.is_empty());
        let whole = value.as_ref().map_or_else(|| key.clone(), |value| format!("{key}_{value}"));
        let path = format!("{path}.{whole}");
        let is_wild = whole.contains('*');
        let shared = fields.flag("share_threshold", problems);
        if shared && !is_wild {
            let message = "`share_threshold` is for values with `*`".to_owned();
            let help = "leave it out, or end the value with `*`".to_owned();
            problems.add(&fields.at("share_threshold").origin(source), message, Some(help));
        }
        let mut descriptor = EnvoyDescriptor {
            rule: rule(&fields, &path, problems).map(Arc::new),
            below: DescriptorLevel::default(),
            value_to_metric: fields.flag("value_to_metric", problems),
            shared: value.filter(|_| shared),
        };
        descriptors(&fields, &path, &mut descriptor.below, problems);
        match level.exact.entry(whole.clone()) {
            Entry::Occupied(_) => {
                let help = "a key, or a key with one value, stands once on its level".to_owned();
                let origin = fields.at("key").origin(source);
                problems.add(&origin, format!("descriptor `{path}` is defined twice"), Some(help));
            }
            Entry::Vacant(new) => {
                new.insert(descriptor);
                if is_wild {
                    level.wild.push((whole.split('*').map(str::to_owned).collect(), whole));
                }
            }
        }
    }
}

/// The limit of a descriptor, if it has one.
fn rule(descriptor: &YamlMapping<'_>, path: &str, problems: &mut ConfigProblems) -> Option<EnvoyRule> {
    let source = descriptor.source;
    let limit = descriptor.fields.get("rate_limit").copied().filter(|node| node.value != YamlValue::Null);
    let shadow_mode = descriptor.flag("shadow_mode", problems);
    let quota_mode = descriptor.flag("quota_mode", problems);
    let detailed_metric = descriptor.flag("detailed_metric", problems);
    let metadata = descriptor.fields.get("metadata").and_then(|node| json(node, source));
    let limit = YamlMapping::of(source, limit?, RATE_LIMIT, problems)?;
    let name = limit.text("name", problems).unwrap_or_default();
    let mut replaces = Vec::new();
    for item in limit.list("replaces", problems) {
        let Some(replaced) = YamlMapping::of(source, item, REPLACES, problems) else { continue };
        let replaced = replaced.text("name", problems).unwrap_or_default();
        let wrong = if replaced.is_empty() {
            Some(("`replaces` names nothing", "add the `name:` of another limit"))
        } else if replaced == name {
            Some(("a limit cannot replace itself", "name another limit, or leave `replaces` out"))
        } else {
            None
        };
        match wrong {
            Some((message, help)) => problems.add(&item.origin(source), message, Some(help.to_owned())),
            None => replaces.push(replaced),
        }
    }
    let rate = rate(&limit, problems)?;
    let limit = Arc::new(match rate {
        Some(rate) => rate.limit(path),
        None => LimitPlan { count: u64::MAX, ..LimitPlan::fixed(path, 0, Span::days(1)) },
    });
    Some(EnvoyRule {
        path: path.to_owned(),
        rate,
        limit,
        name,
        replaces,
        shadow_mode,
        quota_mode,
        detailed_metric,
        metadata,
    })
}

/// Reads how much a limit allows: outer `None` for what is wrong, inner for any number.
fn rate(limit: &YamlMapping<'_>, problems: &mut ConfigProblems) -> Option<Option<Rate>> {
    let source = limit.source;
    let unlimited = limit.flag("unlimited", problems);
    let word = limit.text("unit", problems).unwrap_or_default();
    let unit = RateUnit::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(&word));
    match (unlimited, unit) {
        (true, None) => Some(None),
        (true, Some(_)) => {
            let help = "leave out `unit`, or `unlimited`".to_owned();
            problems.add(&limit.at("unit").origin(source), "an unlimited limit has no unit", Some(help));
            None
        }
        (false, None) => {
            let help = expected(&word, RateUnit::ALL.map(RateUnit::name));
            let message = if word.is_empty() {
                "the limit has no unit".to_owned()
            } else {
                format!("`{word}` is no unit")
            };
            problems.add(&limit.at("unit").origin(source), message, Some(help));
            None
        }
        (false, Some(unit)) => {
            // Without a number it is none, as with the peer.
            let requests = limit.fields.get("requests_per_unit").filter(|node| node.value != YamlValue::Null);
            let Some(node) = requests else { return Some(Some(Rate { requests: 0, unit })) };
            let number = match node.value {
                YamlValue::Integer(number) => u32::try_from(number).ok(),
                _ => None,
            };
            if number.is_none() {
                let message = format!("`requests_per_unit` is {}", node.kind());
                let help = format!("expected a whole number from 0 to {}", u32::MAX);
                problems.add(&node.origin(source), message, Some(help));
            }
            Some(Some(Rate { requests: number?, unit }))
        }
    }
}

impl<'a> YamlMapping<'a> {
    /// A node's fields; what else it has is a problem.
    fn of(
        source: &'a Arc<ConfigSource>,
        node: &'a YamlNode,
        known: &'static [&'static str],
        problems: &mut ConfigProblems,
    ) -> Option<YamlMapping<'a>> {
        let members = match &node.value {
            YamlValue::Map(members) => members.as_slice(),
            // An empty file, or a descriptor of which only the dash is written.
            YamlValue::Null => &[],
            _ => {
                let help = format!("expected a mapping with {}", known.join(", "));
                problems.add(&node.origin(source), format!("this is {}", node.kind()), Some(help));
                return None;
            }
        };
        let mut fields = HashMap::new();
        for (key, value) in members {
            match &key.value {
                YamlValue::Text(name) => match known.iter().find(|known| *known == name) {
                    Some(_) => {
                        fields.insert(name.as_str(), value);
                    }
                    None => {
                        let help = expected(name, known.iter().copied());
                        problems.add(&key.origin(source), format!("unknown key `{name}`"), Some(help));
                    }
                },
                _ => {
                    let help = expected("", known.iter().copied());
                    problems.add(
                        &key.origin(source),
                        format!("a key is {}, not text", key.kind()),
                        Some(help),
                    );
                }
            }
        }
        Some(YamlMapping { source, node, fields })
    }

    /// A field's node, or the whole where it is absent.
    fn at(&self, name: &str) -> &'a YamlNode {
        self.fields.get(name).copied().unwrap_or(self.node)
    }

    fn text(&self, name: &str, problems: &mut ConfigProblems) -> Option<String> {
        let node = self.fields.get(name).filter(|node| node.value != YamlValue::Null)?;
        let text = node.text(self.source);
        if text.is_none() {
            let message = format!("`{name}` is {}", node.kind());
            problems.add(&node.origin(self.source), message, Some("expected text".to_owned()));
        }
        text
    }

    fn flag(&self, name: &str, problems: &mut ConfigProblems) -> bool {
        match self.fields.get(name) {
            None => false,
            Some(YamlNode { value: YamlValue::Null, .. }) => false,
            Some(YamlNode { value: YamlValue::Bool(truth), .. }) => *truth,
            Some(node) => {
                let help = Some("expected `true` or `false`".to_owned());
                problems.add(&node.origin(self.source), format!("`{name}` is {}", node.kind()), help);
                false
            }
        }
    }

    fn list(&self, name: &str, problems: &mut ConfigProblems) -> &'a [YamlNode] {
        match self.fields.get(name) {
            None | Some(YamlNode { value: YamlValue::Null, .. }) => &[],
            Some(YamlNode { value: YamlValue::List(items), .. }) => items,
            Some(node) => {
                let help = Some("expected a list, each item behind a dash".to_owned());
                problems.add(&node.origin(self.source), format!("`{name}` is {}", node.kind()), help);
                &[]
            }
        }
    }
}

/// Metadata, whatever their form. Numbers with a fraction stay text.
fn json(node: &YamlNode, source: &ConfigSource) -> Option<Json> {
    Some(match &node.value {
        YamlValue::Null => return None,
        YamlValue::Bool(truth) => Json::from(*truth),
        YamlValue::Integer(number) => Json::from(*number),
        YamlValue::Float | YamlValue::Text(_) => Json::from(node.text(source)?),
        YamlValue::List(items) => items.iter().map(|item| json(item, source).unwrap_or(Json::Null)).collect(),
        YamlValue::Map(members) => {
            let members = members.iter().filter_map(|(key, value)| {
                Some((key.text(source)?, json(value, source).unwrap_or(Json::Null)))
            });
            Json::Object(members.collect::<Map<_, _>>())
        }
    })
}

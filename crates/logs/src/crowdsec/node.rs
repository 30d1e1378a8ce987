//! A node of a parser: a filter, a whitelist, a pattern, values that are set, and nodes inside.

use std::net::IpAddr;
use std::sync::Arc;

use crate::crowdsec::data_files::CrowdsecDataFiles;
use crate::crowdsec::enrichment::{CrowdsecEnrichment, EnrichmentMethod};
use crate::crowdsec::evaluator::{ExprEnvironment, ExprMemory};
use crate::crowdsec::expression::CrowdsecExpression;
use crate::crowdsec::helpers::{self, masked};
use crate::crowdsec::record::CrowdsecRecord;
use crate::crowdsec::value::{ExprValue, rfc3339};
use crate::crowdsec::yaml::DocumentNode;
use crate::crowdsec::{CrowdsecProblem, duration, go_date};
use crate::grok::{GrokLibrary, GrokPattern};

/// Most nodes inside of one another.
const DEPTH_MAX: usize = 16;

/// The part of a record that a static sets.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StaticTarget {
    Parsed(Arc<str>),
    Meta(Arc<str>),
    Enriched(Arc<str>),
    Path(String),
    Date,
    Enrichment(EnrichmentMethod),
}

#[derive(Debug)]
enum StaticValue {
    Text(Arc<str>),
    Expression(CrowdsecExpression),
}

#[derive(Debug)]
pub(crate) struct ParserStatic {
    target: StaticTarget,
    value: StaticValue,
}

#[derive(Debug)]
enum GrokInput {
    Raw,
    Parsed(String),
    Expression(CrowdsecExpression),
}

#[derive(Debug)]
struct GrokRule {
    pattern: GrokPattern,
    input: GrokInput,
    statics: Vec<ParserStatic>,
}

#[derive(Debug, Default)]
struct Whitelist {
    reason: Arc<str>,
    networks: Vec<(IpAddr, u8)>,
    expressions: Vec<CrowdsecExpression>,
}

impl Whitelist {
    fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.expressions.is_empty()
    }
}

#[derive(Debug)]
struct StashRule {
    cache: Arc<str>,
    key: CrowdsecExpression,
    value: CrowdsecExpression,
    keep: i64,
    most: usize,
}

/// A node of a parser.
#[derive(Debug)]
pub struct ParserNode {
    /// The name; empty for most nodes inside of others.
    pub name: Arc<str>,
    filter: Option<CrowdsecExpression>,
    /// True if a success ends the stage.
    pub(crate) ends_stage: bool,
    whitelist: Whitelist,
    grok: Option<GrokRule>,
    stash: Vec<StashRule>,
    nodes: Vec<ParserNode>,
    statics: Vec<ParserStatic>,
}

/// The environment that nodes are run in.
pub(crate) struct NodeContext<'c> {
    pub(crate) data: &'c CrowdsecDataFiles,
    pub(crate) memory: &'c mut ExprMemory,
    pub(crate) now: i64,
    /// The stage that follows, for nodes that end theirs.
    pub(crate) next_stage: Option<Arc<str>>,
}

/// Reads nodes, and collects what cannot be taken.
pub(crate) struct NodeReader<'r> {
    pub(crate) file: &'r str,
    pub(crate) library: &'r mut GrokLibrary,
    /// The knowledge of addresses that methods ask; none where there are no statics.
    pub(crate) enrichment: Option<&'r CrowdsecEnrichment>,
    pub(crate) problems: &'r mut Vec<CrowdsecProblem>,
}

impl NodeReader<'_> {
    fn problem(&mut self, line: usize, message: impl Into<String>) {
        self.problems.push(CrowdsecProblem { file: self.file.to_owned(), line, message: message.into() });
    }

    pub(crate) fn expression(&mut self, node: &DocumentNode) -> Option<CrowdsecExpression> {
        let text = node.text()?;
        match CrowdsecExpression::parse(text) {
            Ok(expression) => {
                for function in expression.functions() {
                    if !helpers::FUNCTIONS.contains(&function.as_ref()) {
                        self.problem(node.line, format!("the function `{function}` is not known"));
                        return None;
                    }
                }
                Some(expression)
            }
            Err(error) => {
                self.problem(node.line, format!("this expression is not taken: {error}"));
                None
            }
        }
    }

    fn statics(&mut self, nodes: &[DocumentNode]) -> Vec<ParserStatic> {
        nodes.iter().filter_map(|node| self.one_static(node)).collect()
    }

    fn one_static(&mut self, node: &DocumentNode) -> Option<ParserStatic> {
        let target = if let Some(method) = node.text_of("method") {
            match EnrichmentMethod::of(method) {
                Some(known) => {
                    if let Some(why) = self.enrichment.and_then(|enrichment| enrichment.lacks(known)) {
                        self.problem(node.line, format!("`{method}` is not asked: {why}"));
                        return None;
                    }
                    StaticTarget::Enrichment(known)
                }
                None if method == "ParseDate" => StaticTarget::Date,
                None => {
                    self.problem(node.line, format!("the method `{method}` is not known"));
                    return None;
                }
            }
        } else if let Some(name) = node.text_of("parsed") {
            StaticTarget::Parsed(Arc::from(name))
        } else if let Some(name) = node.text_of("meta") {
            StaticTarget::Meta(Arc::from(name))
        } else if let Some(name) = node.text_of("enriched") {
            StaticTarget::Enriched(Arc::from(name))
        } else if let Some(path) = node.text_of("target") {
            let mut any = CrowdsecRecord { overflow: Some(Arc::default()), ..CrowdsecRecord::default() };
            if !any.set(path, "") {
                self.problem(node.line, format!("`{path}` cannot be set"));
                return None;
            }
            StaticTarget::Path(path.to_owned())
        } else {
            self.problem(node.line, "a static without `meta`, `parsed`, `target` or `method`");
            return None;
        };
        let value = match (node.text_of("value"), node.get("expression")) {
            (Some(text), _) => StaticValue::Text(Arc::from(text)),
            (None, Some(expression)) => StaticValue::Expression(self.expression(expression)?),
            (None, None) => {
                self.problem(node.line, "a static without a value");
                return None;
            }
        };
        Some(ParserStatic { target, value })
    }

    /// Reads a node; none if a part that decides is not taken.
    pub(crate) fn node(&mut self, document: &DocumentNode, depth: usize) -> Option<ParserNode> {
        if depth > DEPTH_MAX {
            self.problem(document.line, "nodes are nested too deeply");
            return None;
        }
        let filter = match document
            .get("filter")
            .filter(|filter| filter.text().is_some_and(|text| !text.is_empty()))
        {
            Some(filter) => Some(self.expression(filter)?),
            None => None,
        };
        for (name, pattern) in document.get("pattern_syntax").map_or(&[][..], DocumentNode::members) {
            if let Some(pattern) = pattern.text() {
                self.library.add(name, pattern);
            }
        }
        let grok = match document.get("grok").filter(|grok| !grok.members().is_empty()) {
            Some(grok) => self.grok(grok)?,
            None => None,
        };
        let whitelist = match document.get("whitelist") {
            Some(whitelist) => self.whitelist(whitelist),
            None => Whitelist::default(),
        };
        let mut stash = Vec::new();
        for item in document.items_of("stash") {
            stash.extend(self.stash(item));
        }
        // A node inside that is not taken leaves the others as they are.
        let nodes = document.items_of("nodes").iter().filter_map(|node| self.node(node, depth + 1)).collect();
        Some(ParserNode {
            name: Arc::from(document.text_of("name").unwrap_or_default()),
            filter,
            ends_stage: document.text_of("onsuccess") == Some("next_stage"),
            whitelist,
            grok,
            stash,
            nodes,
            statics: self.statics(document.items_of("statics")),
        })
    }

    /// Reads a pattern; none if it is not taken, nothing inside if there is none.
    #[expect(clippy::option_option, reason = "a pattern that is not taken is not one that is missing")]
    fn grok(&mut self, document: &DocumentNode) -> Option<Option<GrokRule>> {
        let text = match (document.text_of("name"), document.text_of("pattern")) {
            (Some(name), _) => match self.library.get(name) {
                Some(pattern) => pattern.to_owned(),
                None => {
                    self.problem(document.line, format!("there is no pattern `{name}`"));
                    return None;
                }
            },
            (None, Some(pattern)) => pattern.to_owned(),
            (None, None) => return Some(None),
        };
        let pattern = match self.library.compile(&text) {
            Ok(pattern) => pattern,
            Err(error) => {
                self.problem(document.line, format!("this pattern is not taken: {error}"));
                return None;
            }
        };
        let input = match (document.text_of("apply_on"), document.get("expression")) {
            (Some("Line.Raw"), _) => GrokInput::Raw,
            (Some(name), _) => GrokInput::Parsed(name.to_owned()),
            (None, Some(expression)) => GrokInput::Expression(self.expression(expression)?),
            (None, None) => {
                self.problem(document.line, "a pattern without `apply_on` or `expression`");
                return None;
            }
        };
        Some(Some(GrokRule { pattern, input, statics: self.statics(document.items_of("statics")) }))
    }

    fn whitelist(&mut self, document: &DocumentNode) -> Whitelist {
        let mut whitelist = Whitelist {
            reason: Arc::from(document.text_of("reason").unwrap_or_default()),
            ..Whitelist::default()
        };
        for item in document.items_of("ip").iter().chain(document.items_of("cidr")) {
            let text = item.text().unwrap_or_default();
            let network = match text.parse::<IpAddr>() {
                Ok(ip) => Some((ip, if ip.is_ipv4() { 32 } else { 128 })),
                Err(_) => helpers::network(text),
            };
            match network {
                Some(network) => whitelist.networks.push(network),
                None => self.problem(item.line, format!("`{text}` is no address and no network")),
            }
        }
        for item in document.items_of("expression") {
            whitelist.expressions.extend(self.expression(item));
        }
        whitelist
    }

    fn stash(&mut self, document: &DocumentNode) -> Option<StashRule> {
        let keep = document.text_of("ttl").and_then(duration::parse);
        let (Some(cache), Some(key), Some(value), Some(keep)) =
            (document.text_of("name"), document.get("key"), document.get("value"), keep)
        else {
            self.problem(document.line, "a stash wants `name`, `key`, `value` and `ttl`");
            return None;
        };
        let most = document.text_of("size").and_then(|size| size.parse().ok()).unwrap_or(100);
        Some(StashRule {
            cache: Arc::from(cache),
            key: self.expression(key)?,
            value: self.expression(value)?,
            keep,
            most,
        })
    }

    /// Reads statics that stand by themselves, as a node.
    pub(crate) fn overrides(&mut self, statics: &[DocumentNode]) -> ParserNode {
        ParserNode {
            name: Arc::from("overrides"),
            filter: None,
            ends_stage: false,
            whitelist: Whitelist::default(),
            grok: None,
            stash: Vec::new(),
            nodes: Vec::new(),
            statics: self.statics(statics),
        }
    }
}

fn evaluate(
    expression: &CrowdsecExpression,
    record: &mut CrowdsecRecord,
    context: &mut NodeContext<'_>,
) -> Option<ExprValue> {
    let mut environment = ExprEnvironment {
        record: Some(record),
        names: &[],
        data: context.data,
        memory: context.memory,
        now: context.now,
    };
    expression.evaluate(&mut environment).ok()
}

/// The text that a value becomes where a text is wanted; numbers are written as CrowdSec does.
fn as_text(value: Option<ExprValue>) -> Option<Arc<str>> {
    match value? {
        ExprValue::Text(text) => Some(text),
        ExprValue::Int(number) => Some(Arc::from(number.to_string())),
        ExprValue::Float(number) => Some(Arc::from(format!("{number:.6}"))),
        _ => None,
    }
}

impl ParserStatic {
    fn apply(&self, record: &mut CrowdsecRecord, context: &mut NodeContext<'_>) {
        let value = match &self.value {
            StaticValue::Text(text) => Arc::clone(text),
            StaticValue::Expression(expression) => {
                as_text(evaluate(expression, record, context)).unwrap_or_default()
            }
        };
        let is_date = matches!(self.target, StaticTarget::Date);
        if value.is_empty() && !is_date {
            return;
        }
        match &self.target {
            StaticTarget::Parsed(name) => {
                Arc::make_mut(&mut record.parsed).insert(Arc::clone(name), value);
            }
            StaticTarget::Meta(name) => {
                Arc::make_mut(&mut record.meta).insert(Arc::clone(name), value);
            }
            StaticTarget::Enriched(name) => {
                Arc::make_mut(&mut record.enriched).insert(Arc::clone(name), value);
            }
            StaticTarget::Path(path) => {
                record.set(path, &value);
            }
            StaticTarget::Date => parse_date(record, &value, context.now),
            StaticTarget::Enrichment(method) => {
                let facts = context.data.enrichment.facts(*method, &value);
                Arc::make_mut(&mut record.enriched).extend(facts);
            }
        }
    }
}

/// Reads the date of a record; one that cannot be read is the present.
fn parse_date(record: &mut CrowdsecRecord, text: &str, now: i64) {
    let mut date = None;
    if !record.date_form.is_empty() {
        date = go_date::parse(&record.date_form, text, now);
    }
    let date =
        date.or_else(|| go_date::parse_usual(text, now)).unwrap_or(go_date::GoDate { time: now, offset: 0 });
    record.time = date.time;
    let marshaled: Arc<str> = Arc::from(rfc3339(date.time, date.offset));
    Arc::make_mut(&mut record.enriched).insert(Arc::from("MarshaledTime"), marshaled);
}

impl ParserNode {
    /// Runs the node on a record. Returns true for a success.
    pub(crate) fn run(&self, record: &mut CrowdsecRecord, context: &mut NodeContext<'_>) -> bool {
        if let Some(filter) = &self.filter
            && !matches!(evaluate(filter, record, context), Some(ExprValue::Bool(true)))
        {
            return false;
        }
        let is_whitelisted = self.is_whitelisted(record, context);
        if is_whitelisted && !record.is_whitelisted {
            record.is_whitelisted = true;
            record.whitelist_reason = Arc::clone(&self.whitelist.reason);
        }
        let has_matched = self.run_grok(record, context);
        let mut is_success = has_matched != Some(false);
        if is_success {
            for stash in &self.stash {
                let key = evaluate(&stash.key, record, context);
                let value = evaluate(&stash.value, record, context);
                if let (Some(ExprValue::Text(key)), Some(ExprValue::Text(value))) = (key, value) {
                    let until = context.now.saturating_add(stash.keep);
                    context.memory.stash.put(&stash.cache, &key, &value, until, stash.most);
                }
            }
        }
        for node in &self.nodes {
            if node.run(record, context) {
                is_success = true;
                if self.ends_stage {
                    break;
                }
            } else if has_matched != Some(true) {
                is_success = false;
            }
        }
        if !is_success {
            return false;
        }
        if is_whitelisted || self.whitelist.is_empty() {
            for one in &self.statics {
                one.apply(record, context);
            }
        }
        if self.ends_stage
            && let Some(next) = &context.next_stage
        {
            record.stage = Arc::clone(next);
        }
        true
    }

    fn is_whitelisted(&self, record: &mut CrowdsecRecord, context: &mut NodeContext<'_>) -> bool {
        let is_known = !self.whitelist.networks.is_empty()
            && record.sources().iter().filter_map(|source| source.parse::<IpAddr>().ok()).any(|ip| {
                let ip = ip.to_canonical();
                self.whitelist.networks.iter().any(|(base, bits)| masked(ip, *bits) == Some(*base))
            });
        is_known
            || self.whitelist.expressions.iter().any(|expression| {
                matches!(evaluate(expression, record, context), Some(ExprValue::Bool(true)))
            })
    }

    /// Runs the pattern: none if there is none, else whether it matched.
    fn run_grok(&self, record: &mut CrowdsecRecord, context: &mut NodeContext<'_>) -> Option<bool> {
        let grok = self.grok.as_ref()?;
        let text = match &grok.input {
            GrokInput::Raw => Arc::clone(&record.line.raw),
            GrokInput::Parsed(name) => match record.parsed.get(name.as_str()) {
                Some(text) => Arc::clone(text),
                None => return Some(false),
            },
            GrokInput::Expression(expression) => match evaluate(expression, record, context) {
                None => return Some(false),
                value => as_text(value).unwrap_or_default(),
            },
        };
        let Some(fields) = grok.pattern.read(&text) else { return Some(false) };
        let parsed = Arc::make_mut(&mut record.parsed);
        for (name, value) in fields {
            parsed.insert(name, Arc::from(value));
        }
        for one in &grok.statics {
            one.apply(record, context);
        }
        Some(true)
    }
}

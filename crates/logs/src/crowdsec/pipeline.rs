//! Parsers and scenarios together: a line in, overflows out.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::crowdsec::bucket::{CrowdsecBuckets, PourContext};
use crate::crowdsec::data_files::CrowdsecDataFiles;
use crate::crowdsec::evaluation::ExprMemory;
use crate::crowdsec::node::{NodeContext, NodeReader, ParserNode};
use crate::crowdsec::overflow::CrowdsecOverflow;
use crate::crowdsec::record::{CrowdsecLine, CrowdsecRecord};
use crate::crowdsec::scenario::{self, CrowdsecScenario};
use crate::crowdsec::value::rfc3339;
use crate::crowdsec::{CrowdsecFiles, CrowdsecProblem, go_date, yaml};
use crate::grok::GrokLibrary;

/// Most overflows that are poured again, of one line.
const REPROCESSED_MAX: usize = 16;

/// Nodes of parsers in their stages, in order.
#[derive(Debug, Default)]
pub struct CrowdsecParsers {
    stages: Vec<(Arc<str>, Vec<ParserNode>)>,
}

/// What a node made of a record: its stage, its name, whether it was a success, and the record after it.
pub type NodeOutcome<'o> = (&'o Arc<str>, &'o Arc<str>, bool, &'o CrowdsecRecord);

impl CrowdsecParsers {
    /// Reads parsers from files, in the order in which CrowdSec loads them: by stage and name.
    pub fn read(
        files: &CrowdsecFiles,
        paths: &[&str],
        library: &mut GrokLibrary,
        problems: &mut Vec<CrowdsecProblem>,
    ) -> CrowdsecParsers {
        let mut by_name: Vec<(&str, &str, &str)> = Vec::new();
        for path in paths {
            let mut parts = path.rsplit('/');
            let name = parts.next().unwrap_or_default();
            let stage = path.split('/').find(|part| is_stage(part));
            match stage {
                Some(stage) => by_name.push((stage, name, path)),
                None => problems.push(CrowdsecProblem {
                    file: (*path).to_owned(),
                    line: 0,
                    message: "its folder names no stage, such as `s01-parse`".to_owned(),
                }),
            }
        }
        by_name.sort_unstable();
        by_name.dedup_by_key(|(stage, name, _)| (*stage, *name));
        let mut stages: BTreeMap<&str, Vec<ParserNode>> = BTreeMap::new();
        for (stage, _, path) in by_name {
            let documents = match yaml::documents(path, files.get(path).unwrap_or_default()) {
                Ok(documents) => documents,
                Err(problem) => {
                    problems.push(problem);
                    continue;
                }
            };
            let mut reader = NodeReader { file: path, library, problems };
            let nodes = documents.iter().filter_map(|document| reader.node(document, 0));
            let nodes: Vec<ParserNode> = nodes.collect();
            stages.entry(stage).or_default().extend(nodes);
        }
        CrowdsecParsers {
            stages: stages.into_iter().map(|(stage, nodes)| (Arc::from(stage), nodes)).collect(),
        }
    }

    /// Puts a node before all others of the first stage.
    pub(crate) fn put_first(&mut self, node: ParserNode) {
        match self.stages.first_mut() {
            Some((stage, nodes)) if stage.as_ref() == "s00-raw" => nodes.insert(0, node),
            _ => self.stages.insert(0, (Arc::from("s00-raw"), vec![node])),
        }
    }

    /// Returns true if there is no parser.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Runs a record through the stages. Returns true if it came through all of them.
    pub(crate) fn run(
        &self,
        record: &mut CrowdsecRecord,
        context: &mut PourContext<'_>,
        see: &mut dyn FnMut(NodeOutcome<'_>),
        see_stage: &mut dyn FnMut(&Arc<str>),
    ) -> bool {
        if let Some((first, _)) = self.stages.first() {
            record.stage = Arc::clone(first);
        }
        for (index, (stage, nodes)) in self.stages.iter().enumerate() {
            see_stage(stage);
            if record.stage != *stage {
                return false;
            }
            let next_stage = self.stages.get(index + 1).map(|(stage, _)| Arc::clone(stage));
            let mut is_done = false;
            for node in nodes {
                let mut context = NodeContext {
                    data: context.data,
                    memory: context.memory,
                    now: context.now,
                    next_stage: next_stage.clone(),
                };
                let is_success = node.run(record, &mut context);
                see((stage, &node.name, is_success, record));
                is_done |= is_success;
                if (is_success && node.ends_stage) || record.stage != *stage {
                    break;
                }
            }
            if !is_done {
                return false;
            }
        }
        true
    }
}

fn is_stage(part: &str) -> bool {
    let bytes = part.as_bytes();
    bytes.len() > 4
        && bytes[0] == b's'
        && bytes[1].is_ascii_digit()
        && bytes[2].is_ascii_digit()
        && bytes[3] == b'-'
}

/// Reads scenarios from files.
pub fn read_scenarios(
    files: &CrowdsecFiles,
    paths: &[&str],
    problems: &mut Vec<CrowdsecProblem>,
) -> Vec<CrowdsecScenario> {
    let mut scenarios = Vec::new();
    for path in paths {
        match yaml::documents(path, files.get(path).unwrap_or_default()) {
            Ok(documents) => {
                scenarios
                    .extend(documents.iter().filter_map(|document| scenario::read(path, document, problems)));
            }
            Err(problem) => problems.push(problem),
        }
    }
    scenarios
}

/// Parsers, scenarios and what comes after them.
#[derive(Debug, Default)]
pub struct CrowdsecPipeline {
    /// Parsers of lines.
    pub parsers: CrowdsecParsers,
    /// Parsers of overflows.
    pub postoverflows: CrowdsecParsers,
    /// Scenarios with their buckets.
    pub buckets: CrowdsecBuckets,
    /// Files that expressions look into.
    pub data: CrowdsecDataFiles,
    pub(crate) memory: ExprMemory,
}

/// What became of a line.
#[derive(Debug, Default)]
pub struct PipelineReading {
    /// The record, if it came through all parsers.
    pub record: Option<CrowdsecRecord>,
    /// Overflows, also those that a whitelist took.
    pub overflows: Vec<CrowdsecRecord>,
}

impl CrowdsecPipeline {
    /// Reads a line, at a present in nanoseconds since 1970.
    pub fn read(&mut self, line: CrowdsecLine, now: i64) -> PipelineReading {
        self.read_and_see(line, now, &mut |_| {}, &mut |_| {})
    }

    pub(crate) fn read_and_see(
        &mut self,
        line: CrowdsecLine,
        now: i64,
        see: &mut dyn FnMut(NodeOutcome<'_>),
        see_stage: &mut dyn FnMut(&Arc<str>),
    ) -> PipelineReading {
        let mut record = CrowdsecRecord { line: Arc::new(line), time: now, ..CrowdsecRecord::default() };
        let mut context = PourContext { data: &self.data, memory: &mut self.memory, now };
        if !self.parsers.run(&mut record, &mut context, see, see_stage) {
            return PipelineReading::default();
        }
        let mut reading = PipelineReading::default();
        if !record.is_whitelisted {
            let at = go_date::parse("2006-01-02T15:04:05Z07:00", &record.marshaled_time, now)
                .map(|date| date.time);
            let mut overflows = self.buckets.pour(&mut record, at, &mut context);
            let mut poured_again = 0;
            while !overflows.is_empty() {
                let mut next = Vec::new();
                for overflow in overflows {
                    let mut record = self.after_overflow(overflow, now);
                    let is_again = record.overflow.as_ref().is_some_and(|overflow| overflow.reprocess);
                    if is_again && !record.is_whitelisted && poured_again < REPROCESSED_MAX {
                        poured_again += 1;
                        let mut context = PourContext { data: &self.data, memory: &mut self.memory, now };
                        let at = Some(record.time);
                        next.extend(self.buckets.pour(&mut record, at, &mut context));
                    }
                    reading.overflows.push(record);
                }
                overflows = next;
            }
        }
        reading.record = Some(record);
        reading
    }

    /// Runs an overflow through what comes after it.
    fn after_overflow(&mut self, overflow: CrowdsecOverflow, now: i64) -> CrowdsecRecord {
        let last = overflow.last;
        let mut record = CrowdsecRecord {
            time: last,
            marshaled_time: Arc::from(rfc3339(last, 0)),
            overflow: Some(Arc::new(overflow)),
            ..CrowdsecRecord::default()
        };
        let mut context = PourContext { data: &self.data, memory: &mut self.memory, now };
        self.postoverflows.run(&mut record, &mut context, &mut |_| {}, &mut |_| {});
        if record.is_whitelisted
            && let Some(overflow) = &mut record.overflow
        {
            Arc::make_mut(overflow).is_whitelisted = true;
        }
        record
    }
}

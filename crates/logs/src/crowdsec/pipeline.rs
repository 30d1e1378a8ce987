//! Parsers and scenarios together: a line in, overflows out.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::crowdsec::bucket::{CrowdsecBuckets, PourContext};
use crate::crowdsec::data_files::CrowdsecDataFiles;
use crate::crowdsec::enrichment::CrowdsecEnrichment;
use crate::crowdsec::evaluator::ExprMemory;
use crate::crowdsec::kept_buckets::{KEPT_LINES_MAX, KeptBuckets};
use crate::crowdsec::node::{NodeContext, NodeReader, ParserNode};
use crate::crowdsec::record::{CrowdsecLine, CrowdsecOverflow, CrowdsecRecord};
use crate::crowdsec::scenario::{self, CrowdsecScenario};
use crate::crowdsec::value::rfc3339;
use crate::crowdsec::yaml::{self, DocumentNode};
use crate::crowdsec::{CrowdsecFiles, CrowdsecProblem, go_date};
use crate::grok::GrokLibrary;

/// Most overflows that are poured again, of one line.
const REPROCESSED_MAX: usize = 16;

/// Nodes of parsers in their stages, in order.
#[derive(Debug, Default)]
pub struct CrowdsecParsers {
    stages: Vec<(Arc<str>, Vec<ParserNode>)>,
}

/// The outcome of a node: its stage, its name, whether it was a success, and the record after it.
pub type NodeOutcome<'o> = (&'o Arc<str>, &'o Arc<str>, bool, &'o CrowdsecRecord);

impl CrowdsecParsers {
    /// Reads parsers from files, in the order in which CrowdSec loads them: by stage and name.
    pub fn read(
        files: &CrowdsecFiles,
        paths: &[String],
        library: &mut GrokLibrary,
        enrichment: &CrowdsecEnrichment,
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
                    file: path.clone(),
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
            let mut reader = NodeReader { file: path, library, enrichment: Some(enrichment), problems };
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
    paths: &[String],
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

/// Paths of files that are used together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrowdsecSelection {
    /// Parsers of lines.
    pub parsers: Vec<String>,
    /// Scenarios.
    pub scenarios: Vec<String>,
    /// Parsers of overflows.
    pub postoverflows: Vec<String>,
}

impl CrowdsecSelection {
    /// All files of a folder.
    pub fn all(files: &CrowdsecFiles) -> CrowdsecSelection {
        let of = |folder: &str| files.yaml(folder).map(str::to_owned).collect();
        CrowdsecSelection {
            parsers: of("parsers"),
            scenarios: of("scenarios"),
            postoverflows: of("postoverflows"),
        }
    }
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
    memory: ExprMemory,
    /// True if a record without a date is poured at its arrival.
    takes_arrival: bool,
}

/// The outcome of a line.
#[derive(Debug, Default)]
pub struct PipelineReading {
    /// The record, if it came through all parsers.
    pub record: Option<CrowdsecRecord>,
    /// Overflows, also those that a whitelist took.
    pub overflows: Vec<CrowdsecRecord>,
}

impl CrowdsecPipeline {
    /// Reads files for logs as they are written: a record without a date counts at its arrival, and addresses of IPv6 that have
    /// so many bits in common count as one, in whichever buckets there are.
    pub fn live(
        files: &CrowdsecFiles,
        selection: &CrowdsecSelection,
        data: CrowdsecDataFiles,
        ipv6_prefix: u8,
        problems: &mut Vec<CrowdsecProblem>,
    ) -> CrowdsecPipeline {
        let mut pipeline = CrowdsecPipeline::of(files, selection, data, &[], problems);
        pipeline.takes_arrival = true;
        pipeline.buckets.group_networks(ipv6_prefix);
        pipeline
    }

    /// Reads files, with statics that stand before all parsers.
    pub(crate) fn of(
        files: &CrowdsecFiles,
        selection: &CrowdsecSelection,
        data: CrowdsecDataFiles,
        overrides: &[DocumentNode],
        problems: &mut Vec<CrowdsecProblem>,
    ) -> CrowdsecPipeline {
        let mut library = GrokLibrary::new();
        let patterns =
            files.0.iter().filter(|(path, _)| path.starts_with("patterns/") && !path.contains('.'));
        patterns.for_each(|(_, text)| library.add_file(text));
        let mut overflow_library = library.clone();
        let mut parsers =
            CrowdsecParsers::read(files, &selection.parsers, &mut library, &data.enrichment, problems);
        if !overrides.is_empty() {
            let mut reader = NodeReader {
                file: "config.yaml",
                library: &mut library,
                enrichment: Some(&data.enrichment),
                problems,
            };
            parsers.put_first(reader.overrides(overrides));
        }
        let postoverflows = CrowdsecParsers::read(
            files,
            &selection.postoverflows,
            &mut overflow_library,
            &data.enrichment,
            problems,
        );
        let scenarios = read_scenarios(files, &selection.scenarios, problems);
        for scenario in &scenarios {
            for file in scenario.data.iter().filter(|file| !data.has(file)) {
                problems.push(CrowdsecProblem {
                    file: scenario.file.to_string(),
                    line: 0,
                    message: format!("its data file `{file}` is not there"),
                });
            }
        }
        let buckets = CrowdsecBuckets::new(scenarios);
        CrowdsecPipeline { parsers, postoverflows, buckets, data, ..CrowdsecPipeline::default() }
    }

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
                .map(|date| date.time)
                .or(self.takes_arrival.then_some(now));
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

    /// The buckets as they are kept over a restart.
    pub fn kept_buckets(&self) -> KeptBuckets {
        self.buckets.kept()
    }

    /// Goes on with buckets that were kept: their lines are read again, and are poured into nothing else.
    pub fn restore_buckets(&mut self, kept: KeptBuckets, now: i64) {
        let mut records = Vec::with_capacity(kept.lines.len());
        for line in kept.lines.iter().take(KEPT_LINES_MAX) {
            let labels = line.labels.iter();
            let labels = labels.map(|(name, label)| (Arc::from(name.as_str()), Arc::from(label.as_str())));
            let mut record = CrowdsecRecord {
                line: Arc::new(CrowdsecLine {
                    raw: Arc::from(line.raw.as_str()),
                    source: Arc::from(line.source.as_str()),
                    module: Arc::from(line.module.as_str()),
                    labels: Arc::new(labels.collect()),
                }),
                time: line.time,
                ..CrowdsecRecord::default()
            };
            let mut context = PourContext { data: &self.data, memory: &mut self.memory, now };
            let is_read = self.parsers.run(&mut record, &mut context, &mut |_| {}, &mut |_| {});
            // A date without a year may mean another one by now.
            record.time = line.time;
            record.marshaled_time = Arc::from(line.marshaled.as_str());
            records.push(is_read.then(|| Arc::new(record)));
        }
        self.buckets.restore(kept, &records);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IPV6_PREFIX;

    const PARSER: &str = "onsuccess: next_stage\nname: a\nnodes:\n  - grok:\n      pattern: '^%{INT:at} %{WORD:kind} %{WORD:user} %{IP:ip}$'\n      apply_on: Line.Raw\n\
        statics:\n  - meta: source_ip\n    expression: evt.Parsed.ip\n  - meta: kind\n    expression: evt.Parsed.kind\n\
        \x20 - method: ParseDate\n    expression: evt.Parsed.at\n  - target: MarshaledTime\n    expression: evt.Enriched.MarshaledTime\n";

    /// The overflows of a scenario: its lines' seconds, kinds and users are given. They are the same with a restart after
    /// each line.
    fn overflows(scenario: &str, lines: &[(i64, &str, &str)]) -> Vec<String> {
        let found = overflows_of(scenario, lines, false);
        assert_eq!(overflows_of(scenario, lines, true), found, "{scenario}");
        found
    }

    fn overflows_of(scenario: &str, lines: &[(i64, &str, &str)], restarts: bool) -> Vec<String> {
        let scenario = format!("name: me/s\nfilter: 'true'\ngroupby: evt.Meta.source_ip\n{scenario}");
        let files = [("parsers/s00-raw/a.yaml", PARSER), ("scenarios/s.yaml", &scenario)];
        let files = CrowdsecFiles(files.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
        let mut problems = Vec::new();
        let selection = CrowdsecSelection::all(&files);
        let mut pipeline = CrowdsecPipeline::live(
            &files,
            &selection,
            CrowdsecDataFiles::default(),
            IPV6_PREFIX,
            &mut problems,
        );
        assert_eq!(problems, []);
        let mut found = Vec::new();
        for (at, kind, user) in lines {
            if restarts {
                let kept = serde_json::to_string(&pipeline.kept_buckets()).expect("text");
                let data = CrowdsecDataFiles::default();
                pipeline = CrowdsecPipeline::live(&files, &selection, data, IPV6_PREFIX, &mut problems);
                pipeline.restore_buckets(serde_json::from_str(&kept).expect("buckets"), 0);
            }
            let raw = Arc::from(format!("{} {kind} {user} 192.0.2.1", 1_700_000_000 + at));
            let reading = pipeline.read(CrowdsecLine { raw, ..CrowdsecLine::default() }, 0);
            for record in reading.overflows {
                let overflow = record.overflow.expect("an overflow");
                found.push(format!("{at}: {} of {}", overflow.records.len(), overflow.count));
            }
        }
        found
    }

    #[test]
    fn who_holds_a_network_fills_one_bucket() {
        let scenario = "type: leaky\nname: me/s\nfilter: 'true'\ngroupby: evt.Meta.source_ip\ncapacity: 2\nleakspeed: 10s\n";
        let files = [("parsers/s00-raw/a.yaml", PARSER), ("scenarios/s.yaml", scenario)];
        let files = CrowdsecFiles(files.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
        let count = |prefix: u8, network: &str| {
            let (selection, data) = (CrowdsecSelection::all(&files), CrowdsecDataFiles::default());
            let mut pipeline = CrowdsecPipeline::live(&files, &selection, data, prefix, &mut Vec::new());
            let lines = (0..6).map(|at| Arc::from(format!("{} fail u {network}{at}", 1_700_000_000 + at)));
            lines
                .map(|raw| pipeline.read(CrowdsecLine { raw, ..CrowdsecLine::default() }, 0).overflows.len())
                .sum::<usize>()
        };
        assert_eq!(count(64, "2001:db8:0:7::"), 2);
        assert_eq!(count(128, "2001:db8:0:7::"), 0);
        assert_eq!(count(64, "192.0.2.1"), 0);
    }

    #[test]
    fn buckets_overflow_when_crowdsecs_do() {
        let each = |seconds: i64, count: i64| -> Vec<(i64, &'static str, &'static str)> {
            (0..count).map(|number| (number * seconds, "fail", "u")).collect()
        };
        let check = |scenario: &str, lines: &[(i64, &str, &str)], expected: &[&str]| {
            assert_eq!(overflows(scenario, lines), expected, "{scenario}");
        };
        let leaky = "type: leaky\ncapacity: 2\nleakspeed: 10s\n";
        check(leaky, &each(1, 7), &["2: 3 of 3", "5: 3 of 3"]);
        check(leaky, &each(10, 9), &[]);
        check(leaky, &each(31, 9), &[]);
        check(&format!("{leaky}blackhole: 3s\n"), &each(1, 7), &["2: 3 of 3", "5: 3 of 3"]);
        check(&format!("{leaky}blackhole: 4s\n"), &each(1, 7), &["2: 3 of 3"]);
        check(&format!("{leaky}cache_size: 1\n"), &each(1, 3), &["2: 2 of 3"]);
        check(&format!("{leaky}distinct: evt.Parsed.user\n"), &each(1, 9), &[]);
        check(
            &format!("{leaky}overflow_filter: any(queue.Queue, {{.Meta.kind == 'x'}})\n"),
            &each(1, 3),
            &[],
        );
        let success =
            [(0, "fail", "u"), (1, "fail", "u"), (2, "ok", "u"), (3, "fail", "u"), (4, "fail", "u")];
        check(&format!("{leaky}cancel_on: evt.Meta.kind == 'ok'\n"), &success, &[]);
        check("type: trigger\n", &each(1, 2), &["0: 1 of 1", "1: 1 of 1"]);
        check("type: counter\ncapacity: -1\nduration: 5s\n", &each(2, 4), &["6: 3 of 3"]);
        let condition = "type: conditional\ncapacity: -1\nleakspeed: 1h\ncondition: |\n  len(queue.Queue) >= 3 and MedianInterval(map(queue.Queue, {.Time})) >= duration('20s')\n";
        check(condition, &each(20, 4), &["40: 3 of 3"]);
        check(condition, &each(19, 4), &[]);
        let bayesian = "type: bayesian\ncapacity: -1\nleakspeed: 1h\nbayesian_prior: 0.5\nbayesian_threshold: 0.8\nbayesian_conditions:\n\
            - condition: len(queue.Queue) >= 2\n  prob_given_evil: 0.9\n  prob_given_benign: 0.2\n";
        check(bayesian, &each(1, 2), &["1: 2 of 2"]);
    }

    #[test]
    fn scenarios_that_lack_a_part_are_told() {
        let check = |text: &str, expected: &str| {
            let files = CrowdsecFiles([("scenarios/s.yaml".to_owned(), text.to_owned())].into());
            let mut problems = Vec::new();
            let scenarios = read_scenarios(&files, &["scenarios/s.yaml".to_owned()], &mut problems);
            assert!(scenarios.is_empty(), "{text}");
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            assert_eq!(told, [expected], "{text}");
        };
        check("type: leaky", "scenarios/s.yaml:1: a scenario without a name");
        check("name: a\ntype: new", "scenarios/s.yaml:1: `new` is no type of scenarios");
        check(
            "name: a\ntype: leaky\nfilter: 'true'",
            "scenarios/s.yaml:1: a leaky bucket wants a `leakspeed`",
        );
        check(
            "name: a\ntype: trigger\nfilter: 'evt.'",
            "scenarios/s.yaml:3: this expression is not taken: a name is missing at byte 4",
        );
        check(
            "name: a\ntype: trigger\nblackhole: never\nfilter: 'true'",
            "scenarios/s.yaml:3: this is no duration",
        );
    }
}

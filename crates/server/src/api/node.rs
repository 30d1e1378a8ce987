//! The node and its pipelines in JSON.

use std::collections::BTreeMap;

use content::web::log_format::{AccessLogFormat, AccessLogFormatError};
use judge::Action;
use logs::log_reader::LogPatterns;
use logs::log_record::{LogFieldMap, LogLineFormat};
use logs::log_stream::{LogEnvelope, LogSettings};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Length, Timestamp, action_schema};

/// A copy of the data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Snapshot)]
pub struct SnapshotJson {
    /// Its name in the `snapshots` of the data directory, made of the time.
    pub name: String,
}

/// The copies of the data directory that lie in its `snapshots`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Snapshots)]
pub struct SnapshotsJson {
    /// The copies, the newest first.
    pub snapshots: Vec<KeptSnapshotJson>,
}

/// A copy of the data directory that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = KeptSnapshot)]
pub struct KeptSnapshotJson {
    /// Its name in the `snapshots` of the data directory.
    pub name: String,
    /// The time at which it was made, if the name says that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// The bytes of its files. Those that the data directory still has take up room once; left out if there are too many files
    /// to count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl From<engine::KeptSnapshot> for KeptSnapshotJson {
    fn from(kept: engine::KeptSnapshot) -> KeptSnapshotJson {
        let engine::KeptSnapshot { name, time, bytes } = kept;
        KeptSnapshotJson { name, time: time.map(Timestamp), bytes }
    }
}

/// The state of the node: whether it is alive or ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Health)]
pub struct HealthJson {
    /// `ok`, or `degraded` if the node answers although something is wrong; a node that does not answer says so by a
    /// [`ProblemJson`](super::ProblemJson).
    pub status: String,
    /// Version of the program.
    pub version: String,
    /// The conditions that are wrong now, by name; only `/readyz` gives them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionJson>,
}

/// A fault of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Condition)]
pub struct ConditionJson {
    /// Its name, as the metric `tollhouse_condition` has it.
    pub name: String,
    /// The description of what is wrong, where, and the mend.
    pub detail: String,
}

impl HealthJson {
    /// The state of a node that answers, with these conditions.
    pub(crate) fn of(conditions: Vec<engine::NodeCondition>) -> HealthJson {
        let status = if conditions.is_empty() { "ok" } else { "degraded" };
        HealthJson {
            status: status.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            conditions: conditions.into_iter().map(ConditionJson::from).collect(),
        }
    }
}

impl From<engine::NodeCondition> for ConditionJson {
    fn from(condition: engine::NodeCondition) -> ConditionJson {
        ConditionJson { name: condition.name.to_owned(), detail: condition.detail }
    }
}

/// The settings of a node and its pipelines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Settings)]
pub struct SettingsJson {
    /// The settings, in the order of the configuration.
    pub settings: Vec<SettingJson>,
}

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Setting)]
pub struct SettingJson {
    /// The pipeline, or `node`.
    pub scope: String,
    /// `section.key`, for lists `section.NAME.key`.
    pub path: String,
    /// Its value in TOML; `"***"` for a secret.
    pub value: String,
    /// Its origin: `default`, a preset, a file with its line, the environment or a flag.
    pub origin: String,
}

impl From<plan::EffectiveValue> for SettingJson {
    fn from(value: plan::EffectiveValue) -> SettingJson {
        let plan::EffectiveValue { scope, path, value, origin } = value;
        SettingJson { scope, path, value, origin }
    }
}

/// The pipelines that the node runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Pipelines)]
pub struct PipelinesJson {
    /// The pipelines; the first answers where none is named.
    pub pipelines: Vec<PipelineJson>,
}

/// One stream's way from event to verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Pipeline)]
pub struct PipelineJson {
    /// Its name.
    pub name: String,
    /// Changes whenever something changes that verdicts depend on.
    pub version: String,
    /// The input that it reads: `message`, `access-log`, `log` or `json`.
    pub input: String,
    /// The way in which lines become its events, if it reads a log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogInputJson>,
    /// The format of access logs that it reads, if that is one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_log: Option<AccessLogInputJson>,
    /// The field with the address that an event is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The kinds of pieces that it counts.
    pub kinds: Vec<KindJson>,
    /// The things of which it counts distinct values.
    pub distincts: Vec<DistinctJson>,
    /// The bands of the score, ascending. Below the first is `accept`.
    pub bands: Vec<BandJson>,
    /// The curve from its scores to probabilities.
    pub calibration: CalibrationJson,
    /// Its rules.
    pub rules: Vec<RuleJson>,
    /// The classes of feedback that it takes.
    pub feedback: Vec<String>,
}

impl PipelineJson {
    /// Describes a pipeline of an engine.
    pub fn new(pipeline: &plan::Pipeline, engine: &engine::Engine) -> PipelineJson {
        let kinds = pipeline.kinds.iter().map(|plan| KindJson {
            name: plan.name.clone(),
            number: plan.kind.0,
            of: TextsJson::of(plan.fields.as_slice(), |field| {
                pipeline.schema.column(field.slot).name.clone()
            }),
            normalise: TextsJson::of(plan.fields.as_slice(), |field| field.normalise.to_string()),
            counters: plan.counters.as_slice().to_vec(),
            windows: plan.windows.iter().copied().map(Length).collect(),
            aggregate: plan.aggregate_names(),
        });
        let distincts = pipeline.distincts.iter();
        let rules = pipeline.rules.rules().iter().map(|rule| RuleJson {
            name: rule.name.clone(),
            score: rule.score,
            mode: rule.mode.name().to_owned(),
            description: rule.description.clone(),
            when: rule.when.clone(),
            effects: rule.effects.iter().map(ToString::to_string).collect(),
            owner: rule.owner.clone(),
            expires: rule.expires.map(Timestamp),
            cost: rule.cost(),
            fired: engine.fired(pipeline, rule),
        });
        PipelineJson {
            name: pipeline.name.clone(),
            version: pipeline.version.clone(),
            input: pipeline.input.name().to_owned(),
            log: pipeline.log().map(LogInputJson::from),
            access_log: pipeline.access_log_format().map(|format| AccessLogInputJson {
                format: format.text().to_owned(),
                fields: format.fields().map(str::to_owned).collect(),
            }),
            address: pipeline.address_field().map(str::to_owned),
            kinds: kinds.collect(),
            distincts: distincts
                .map(|plan| DistinctJson {
                    name: plan.name.clone(),
                    number: plan.kind.0,
                    precision: plan.precision,
                })
                .collect(),
            bands: BandJson::of(pipeline, engine),
            calibration: CalibrationJson::from(engine.calibration(pipeline)),
            rules: rules.collect(),
            feedback: pipeline.feedback.keys().cloned().collect(),
        }
    }
}

/// A format of access logs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = AccessLogInput)]
pub struct AccessLogInputJson {
    /// The format, as `log_format` of nginx or `LogFormat` of Apache.
    pub format: String,
    /// The variables that are fields of events.
    pub fields: Vec<String>,
}

impl TryFrom<&AccessLogInputJson> for AccessLogFormat {
    type Error = AccessLogFormatError;

    fn try_from(input: &AccessLogInputJson) -> Result<AccessLogFormat, AccessLogFormatError> {
        AccessLogFormat::new(&input.format, |name| input.fields.iter().any(|field| field == name))
    }
}

/// The way in which lines of a log become events, for whoever follows the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LogInput)]
pub struct LogInputJson {
    /// The pattern that a line must match first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Patterns of lines that are events.
    pub patterns: Vec<String>,
    /// Grok patterns of lines that are events, searched after `patterns`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grok: Vec<String>,
    /// Texts of files with named grok patterns, beside the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grok_files: Vec<String>,
    /// Patterns of lines that are none though one of `patterns` matches.
    pub ignored: Vec<String>,
    /// Patterns of dates.
    pub dates: Vec<String>,
    /// Most lines that a pattern spans.
    pub lines: usize,
    /// The form in which lines are handed over: `lines`, `journal`, `journal-export`, `docker`, `cri` or `syslog`.
    pub envelope: String,
    /// The format of lines: `text`, `logfmt` or `json`.
    #[serde(default)]
    pub format: String,
    /// The names of the fields of records that mean something, by their meanings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub map: BTreeMap<String, String>,
    /// The zone of dates that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Named groups, or fields of records, that are fields of events.
    pub fields: Vec<String>,
}

impl From<&LogSettings> for LogInputJson {
    fn from(settings: &LogSettings) -> LogInputJson {
        let LogPatterns { prefix, patterns, grok, grok_files, ignored, dates, lines } =
            settings.patterns.clone();
        let (envelope, format) = (settings.envelope.name().to_owned(), settings.format.name().to_owned());
        let map =
            settings.map.names().into_iter().map(|(meaning, name)| (meaning.to_owned(), name)).collect();
        let (zone, fields) = (settings.zone.clone(), settings.fields.clone());
        LogInputJson {
            prefix,
            patterns,
            grok,
            grok_files,
            ignored,
            dates,
            lines,
            envelope,
            format,
            map,
            zone,
            fields,
        }
    }
}

impl From<LogInputJson> for LogSettings {
    fn from(input: LogInputJson) -> LogSettings {
        let LogInputJson { prefix, patterns, grok, grok_files, ignored, dates, lines, .. } = input;
        LogSettings {
            patterns: LogPatterns { prefix, patterns, grok, grok_files, ignored, dates, lines },
            envelope: LogEnvelope::named(&input.envelope).unwrap_or_default(),
            format: LogLineFormat::named(&input.format).unwrap_or_default(),
            map: LogFieldMap::new(input.map.iter().map(|(meaning, name)| (meaning.as_str(), name.as_str()))),
            zone: input.zone,
            fields: input.fields,
        }
    }
}

/// A kind of piece.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Kind)]
pub struct KindJson {
    /// Its name.
    pub name: String,
    /// The number that is stored with its keys.
    pub number: u16,
    /// The fact that its pieces are taken from; a list of facts for keys of several.
    pub of: TextsJson,
    /// The normalisation of pieces before they are hashed, as a list where `of` is one. Networks are `network/16/48`, by the
    /// lengths of their prefixes.
    pub normalise: TextsJson,
    /// The counters of each piece; empty if nothing is counted, or if it has an aggregate.
    pub counters: Vec<String>,
    /// The trailing windows that its readings carry.
    pub windows: Vec<Length>,
    /// The values that its aggregate keeps: `first`, `last`, `count`, `sum`, `min`, `max` and, by half-life, `decayed_1h`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregate: Vec<String>,
}

/// A text, or a list of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Texts)]
pub enum TextsJson {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl TextsJson {
    fn of<T>(items: &[T], text: impl Fn(&T) -> String) -> TextsJson {
        match items {
            [item] => TextsJson::One(text(item)),
            items => TextsJson::Several(items.iter().map(text).collect()),
        }
    }
}

/// A distinct count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Distinct)]
pub struct DistinctJson {
    /// Its name.
    pub name: String,
    /// The number that is stored with its keys.
    pub number: u16,
    /// The precision of an approximate count; an exact one has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<u8>,
}

/// From a score of `at` on, `action` is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Band)]
pub struct BandJson {
    /// The lowest score of the band, as it is now.
    pub at: f64,
    /// The action that is asked for.
    #[schema(schema_with = action_schema)]
    pub action: Action,
    /// The promise of the band, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<PromiseJson>,
}

impl BandJson {
    /// Describes the bands of a pipeline as they are now.
    pub(crate) fn of(pipeline: &plan::Pipeline, engine: &engine::Engine) -> Vec<BandJson> {
        let lines = engine.promised_lines(pipeline);
        let bands = pipeline.rules.bands().as_slice().iter();
        let described = bands.map(|band| match lines.iter().find(|line| line.action == band.action) {
            None => BandJson { at: band.at, action: band.action, promise: None },
            Some(line) => BandJson::from(line),
        });
        described.collect()
    }
}

impl From<&engine::PromisedLine> for BandJson {
    fn from(line: &engine::PromisedLine) -> BandJson {
        BandJson { at: line.at, action: line.action, promise: Some(PromiseJson::from(line)) }
    }
}

/// A band's promise that at most a share of good events reaches it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Promise)]
pub struct PromiseJson {
    /// The promised share of good events.
    pub false_positives: f64,
    /// True if enough good events are known to hold it; else the band begins at its configured score.
    pub held: bool,
    /// Events judged good that its line is drawn from, at most 9,999, the latest.
    pub good: usize,
    /// Events judged good that are left out, as they score like bad ones and their labels look wrong.
    #[serde(default, skip_serializing_if = "is_none")]
    pub mislabelled: usize,
    /// Events that were ever judged good.
    pub judged: u64,
    /// Events judged good that the promise needs: where a classifier learns, twice those that its line is drawn from.
    pub needed: u64,
    /// The share of the latest events judged bad that reach the band.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recall: Option<f64>,
    /// The share of the latest good events that reached the band, as it began before each of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<f64>,
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

impl From<&engine::PromisedLine> for PromiseJson {
    fn from(line: &engine::PromisedLine) -> PromiseJson {
        let engine::PromisedLine { false_positives, good, mislabelled, judged, needed, recall, .. } = *line;
        let (held, reached) = (line.line.is_some(), line.drift.share());
        PromiseJson { false_positives, held, good, mislabelled, judged, needed, recall, reached }
    }
}

/// The curve from scores to probabilities: log-odds = `slope` · score + `offset`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Calibration)]
pub struct CalibrationJson {
    /// The log-odds of a point of score.
    pub slope: f64,
    /// The log-odds at a score of 0.
    pub offset: f64,
    /// True if the curve was drawn through judged events; else it is even where the lowest band begins, with a slope of 1.
    pub drawn: bool,
    /// Events judged good that its line is drawn from, at most 9,999, the latest.
    pub good: usize,
    /// Events judged bad, likewise.
    pub bad: usize,
    /// The mean squared error of the latest probabilities (Brier's score), each from before its event was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brier: Option<f64>,
}

impl From<engine::PipelineCalibration> for CalibrationJson {
    fn from(calibration: engine::PipelineCalibration) -> CalibrationJson {
        let engine::PipelineCalibration { curve, is_drawn, judged: [good, bad], drift } = calibration;
        CalibrationJson {
            slope: curve.slope,
            offset: curve.offset,
            drawn: is_drawn,
            good,
            bad,
            brier: drift.brier(),
        }
    }
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Rule)]
pub struct RuleJson {
    /// Its name.
    pub name: String,
    /// The score that is added where it fires.
    pub score: f64,
    /// `enforce`, `shadow` or `off`.
    pub mode: String,
    /// The description of what it is about.
    pub description: String,
    /// The condition on which it fires.
    #[serde(default)]
    pub when: String,
    /// Its effects beside the score, as rules write them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<String>,
    /// The owner who answers for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// The time of events from which on it is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// The most that judging it costs, in steps.
    #[serde(default)]
    pub cost: u32,
    /// The number of events for which it has fired since the node was started.
    #[serde(default)]
    pub fired: u64,
}

/// The nodes that share statistics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Nodes)]
pub struct NodesJson {
    /// The nodes by number.
    pub nodes: Vec<NodeJson>,
}

/// A node, as the one that was asked sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Node)]
pub struct NodeJson {
    /// Its number, which the ids of its decisions end with; none for a node whose statistics are its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u16>,
    /// The name of its machine.
    pub name: String,
    /// The URL at which other nodes reach it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Its release.
    pub release: String,
    /// The time of its start.
    pub started: Timestamp,
    /// `here` for the one that was asked; `ready`, `unready`, or `away` where nothing was heard of it for ten seconds.
    pub state: String,
    /// Seconds since its last sign of life, for another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent: Option<f64>,
    /// The reason why it takes no requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unready: Option<String>,
    /// The names of the conditions that are wrong there, as its `/readyz` lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
    /// The number of the state of posted rules that is in force there; 0 where none was ever posted.
    #[serde(default)]
    pub rules: u64,
    /// The version of each of its pipelines.
    pub pipelines: BTreeMap<String, String>,
    /// The linear models that nodes share, by pipeline and fact, such as `mail/learned.linear`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, SharedModelJson>,
}

/// A linear model that nodes share, as a node has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = SharedModel)]
pub struct SharedModelJson {
    /// The training example of the stream that nodes share up to which it has learned: nodes with the same version have the same model.
    pub version: u64,
    /// Training examples of the stream that it has still to learn, as far as the node knows.
    pub lag: u64,
    /// Training examples that were taught to the node and are not in the stream yet.
    pub waiting: u64,
}

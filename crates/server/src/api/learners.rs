//! The state of what learns in JSON.

use engine::{ClassifierState, Engine, LinearState, ModelCheck, ModelState, RelearnReport, TrainingCounts};
use plan::Pipeline;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{BandJson, CalibrationJson, Timestamp};

/// The learners of a pipeline: lines and probabilities, classifiers, models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Learners)]
pub struct LearnersJson {
    /// The pipeline.
    pub pipeline: String,
    /// The bands of the score, ascending, with what they promise and what came of it.
    pub bands: Vec<BandJson>,
    /// The curve from scores to probabilities.
    pub calibration: CalibrationJson,
    /// Sentences about what does not come true any more. Absent where all does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<String>,
    /// The classifiers.
    pub classifiers: Vec<ClassifierJson>,
    /// The models that were trained elsewhere.
    pub models: Vec<ModelJson>,
}

/// Events that something was taught.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = TrainingCounts)]
pub struct TrainingCountsJson {
    /// Good events.
    pub good: u64,
    /// Bad events.
    pub bad: u64,
}

impl From<TrainingCounts> for TrainingCountsJson {
    fn from(TrainingCounts { good, bad }: TrainingCounts) -> TrainingCountsJson {
        TrainingCountsJson { good, bad }
    }
}

/// A classifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Classifier)]
pub struct ClassifierJson {
    /// Its name.
    pub name: String,
    /// The facts that it learns.
    pub of: Vec<String>,
    /// The kind each of whose keys has a classifier of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<String>,
    /// The events that it was taught; absent where each key has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<TrainingCountsJson>,
    /// Feedback classes that teach it that an event is bad.
    pub bad: Vec<String>,
    /// Feedback classes that teach it that an event is good.
    pub good: Vec<String>,
    /// Feedback classes after which it forgets an event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forget: Vec<String>,
    /// True if it also learns from verdicts. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auto: bool,
    /// Its linear models.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub linear: Vec<LinearJson>,
}

/// A linear model of a classifier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LinearModel)]
pub struct LinearJson {
    /// The fact that holds its output.
    pub fact: String,
    /// `content`, or `site` for the one that learns the place of events on this site.
    pub view: String,
    /// The events that it was taught.
    pub learned: TrainingCountsJson,
}

/// A model that was trained elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Model)]
pub struct ModelJson {
    /// Its name.
    pub name: String,
    /// The description of what it says.
    pub description: String,
    /// `enforce`, `shadow` or `off`.
    pub mode: String,
    /// The number of its trees.
    pub trees: usize,
    /// The features that its trees look at.
    pub used: Vec<String>,
    /// The features that it was trained on and does not look at: training dropped them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<String>,
}

/// Linear models that are made anew from the journal, beside those in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Relearning)]
pub struct RelearningJson {
    /// `running`, `ready` (they wait for who uses them, for an hour at most), `adopting`, `adopted`, `discarded` or `failed`.
    pub state: String,
    /// The pipeline.
    pub pipeline: String,
    /// The name of who began it.
    pub by: String,
    /// The time at which it was begun.
    pub begun: Timestamp,
    /// The time at which it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Blocks of the journal that were read; it is read twice.
    pub blocks: u64,
    /// The reason for which it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// A report on what they were made of and how good they are, once they are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<RelearnReportJson>,
}

/// A report on what linear models were made of, and how good they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RelearnReport)]
pub struct RelearnReportJson {
    /// The training examples of all new models of the pipeline.
    pub examples: TrainingCountsJson,
    /// The training examples of those in use.
    pub known: TrainingCountsJson,
    /// The word of the new ones on each judged decision of the later half, before they learned it.
    pub check: ModelCheckJson,
    /// The word of those in use on the same decisions, which they may have learned: that speaks for them.
    pub known_check: ModelCheckJson,
    /// Judged decisions that were passed over, as nobody described their version's facts.
    pub undescribed: u64,
    /// Bytes of the journal that were passed over as they are damaged.
    pub damaged: u64,
}

/// The outcome of holding models against judged decisions, by the side that their log-odds are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ModelCheck)]
pub struct ModelCheckJson {
    /// Good decisions.
    pub good: u64,
    /// Good decisions that were taken for bad.
    pub good_wrong: u64,
    /// Bad decisions.
    pub bad: u64,
    /// Bad decisions that were taken for good.
    pub bad_wrong: u64,
}

impl From<&RelearnReport> for RelearnReportJson {
    fn from(report: &RelearnReport) -> RelearnReportJson {
        RelearnReportJson {
            examples: report.examples.into(),
            known: report.known.into(),
            check: report.check.into(),
            known_check: report.known_check.into(),
            undescribed: report.undescribed,
            damaged: report.skipped.bytes,
        }
    }
}

impl From<ModelCheck> for ModelCheckJson {
    fn from(check: ModelCheck) -> ModelCheckJson {
        let ModelCheck { good, good_wrong, bad, bad_wrong } = check;
        ModelCheckJson { good, good_wrong, bad, bad_wrong }
    }
}

impl LearnersJson {
    /// Describes what learns in a pipeline, given its classifiers.
    pub fn new(pipeline: &Pipeline, engine: &Engine, classifiers: &[ClassifierState]) -> LearnersJson {
        LearnersJson {
            pipeline: pipeline.name.clone(),
            bands: BandJson::of(pipeline, engine),
            calibration: CalibrationJson::from(engine.calibration(pipeline)),
            drift: engine.drift_warnings(pipeline),
            classifiers: classifiers.iter().map(ClassifierJson::from).collect(),
            models: engine.model_states(pipeline).into_iter().map(ModelJson::from).collect(),
        }
    }
}

impl From<&ClassifierState> for ClassifierJson {
    fn from(state: &ClassifierState) -> ClassifierJson {
        let [bad, good, forget] = state.classes.clone();
        ClassifierJson {
            name: state.name.clone(),
            of: state.facts.clone(),
            per: state.per.clone(),
            learned: state.learned.map(TrainingCountsJson::from),
            bad,
            good,
            forget,
            auto: state.is_auto,
            linear: state.linear.iter().map(LinearJson::from).collect(),
        }
    }
}

impl From<&LinearState> for LinearJson {
    fn from(state: &LinearState) -> LinearJson {
        let view = if state.is_of_site { "site" } else { "content" };
        LinearJson { fact: state.fact.clone(), view: view.to_owned(), learned: state.learned.into() }
    }
}

impl From<ModelState> for ModelJson {
    fn from(ModelState { name, description, mode, trees, features }: ModelState) -> ModelJson {
        let (used, unused): (Vec<_>, Vec<_>) = features.into_iter().partition(|(_, is_used)| *is_used);
        let names = |of: Vec<(String, bool)>| of.into_iter().map(|(name, _)| name).collect();
        let mode = mode.name().to_owned();
        ModelJson { name, description, mode, trees, used: names(used), unused: names(unused) }
    }
}

//! The state of what learns in JSON.

use engine::{ClassifierState, Engine, LessonCounts, LinearState, ModelState};
use plan::Pipeline;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{BandJson, CalibrationJson};

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
#[schema(as = LessonCounts)]
pub struct LessonCountsJson {
    /// Good events.
    pub good: u64,
    /// Bad events.
    pub bad: u64,
}

impl From<LessonCounts> for LessonCountsJson {
    fn from(LessonCounts { good, bad }: LessonCounts) -> LessonCountsJson {
        LessonCountsJson { good, bad }
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
    pub learned: Option<LessonCountsJson>,
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
    pub learned: LessonCountsJson,
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
            learned: state.learned.map(LessonCountsJson::from),
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

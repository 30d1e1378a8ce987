//! The state of what learns: classifiers with what they were taught, models with what they look at, and what does not come
//! true any more.

use event::Time;
use judge::Mode;
use plan::{LinearView, Pipeline};
use stats::{Addition, Evidence, LedgerError, Observation, ObserveRequest};

use crate::Engine;
use crate::learners::TrainingCounts;
use crate::pipeline::classifiers;

/// The state of a classifier.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassifierState {
    /// Its name.
    pub name: String,
    /// The facts that it learns.
    pub facts: Vec<String>,
    /// The kind each of whose keys has a classifier of its own.
    pub per: Option<String>,
    /// The events that it was taught; `None` where each key has its own.
    pub learned: Option<TrainingCounts>,
    /// Feedback classes that teach it that an event is bad, or good, or to forget.
    pub classes: [Vec<String>; 3],
    /// True if it also learns from verdicts.
    pub is_auto: bool,
    /// Its linear models.
    pub linear: Vec<LinearState>,
}

/// The state of a linear model.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearState {
    /// The fact that holds its output.
    pub fact: String,
    /// True for the one that learns the place of events on this site, and not their contents.
    pub is_of_site: bool,
    /// The events that it was taught.
    pub learned: TrainingCounts,
}

/// The state of a model that was trained elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelState {
    /// Its name.
    pub name: String,
    /// The description of what it says.
    pub description: String,
    /// The mode.
    pub mode: Mode,
    /// The number of its trees.
    pub trees: usize,
    /// The features, each with whether any tree looks at it.
    pub features: Vec<(String, bool)>,
}

impl Engine {
    /// The classifiers of a pipeline, with what they have learned as of a time, in one request to the ledger. Nothing is counted.
    ///
    /// # Errors
    /// The ledger's.
    pub async fn classifier_states(
        &self,
        pipeline: &Pipeline,
        at: Time,
    ) -> Result<Vec<ClassifierState>, LedgerError> {
        let shared = pipeline.classifiers.iter().filter(|plan| plan.per.is_none());
        let look = |plan| Observation {
            key: classifiers::all(pipeline, plan, &self.secret),
            time: at,
            add: Addition::Nothing,
        };
        let observations: Vec<Observation> = shared.map(look).collect();
        let mut known = Vec::with_capacity(observations.len());
        if !observations.is_empty() {
            let request = ObserveRequest { observations, ..ObserveRequest::default() };
            let outcomes = self.ledger.observe(&[request]).await?;
            known.extend(outcomes.readings(0).iter().map(|view| {
                let Evidence { bad, good, .. } = Evidence::of(|window, column| view.sum(window, column));
                let count = |count: i64| u64::try_from(count).unwrap_or(0);
                TrainingCounts { good: count(good), bad: count(bad) }
            }));
        }
        let mut known = known.into_iter();
        let states = pipeline.classifiers.iter().map(|plan| ClassifierState {
            name: plan.name.clone(),
            facts: plan.of.iter().map(|(fact, ..)| fact.clone()).collect(),
            per: plan.per.map(|kind| pipeline.kinds[kind].name.clone()),
            learned: plan.per.is_none().then(|| known.next()).flatten(),
            classes: plan.classes.clone(),
            is_auto: plan.auto.is_some(),
            linear: plan
                .linear
                .iter()
                .map(|linear| LinearState {
                    fact: pipeline.schema.column(linear.column).name.clone(),
                    is_of_site: linear.view == LinearView::Site,
                    learned: self.learners.learned(pipeline, plan, linear.view),
                })
                .collect(),
        });
        Ok(states.collect())
    }

    /// The models of a pipeline that were trained elsewhere.
    pub fn model_states(&self, pipeline: &Pipeline) -> Vec<ModelState> {
        let states = pipeline.models.iter().map(|plan| ModelState {
            name: plan.name.clone(),
            description: plan.description.clone(),
            mode: plan.mode,
            trees: plan.model().tree_count(),
            features: plan.model().features().iter().map(|of| (of.name.clone(), of.used)).collect(),
        });
        states.collect()
    }

    /// Returns the sentences for people about what does not come true any more of what a pipeline promises and of its
    /// probabilities.
    pub fn drift_warnings(&self, pipeline: &Pipeline) -> Vec<String> {
        let lines = self.promised_lines(pipeline);
        let mut warnings = Vec::new();
        if let Some(line) = lines.first().filter(|line| line.mislabelled > 0) {
            warnings.push(format!(
                "{} events that were judged good in `{}` score like bad ones: their labels look wrong, so bands leave them out",
                line.mislabelled, pipeline.name
            ));
        }
        for line in lines {
            warnings.extend(line.drift.warning(&pipeline.name, line.action.name(), line.false_positives));
        }
        warnings.extend(self.calibration(pipeline).drift.warning(&pipeline.name, None));
        let learners = self.learner_drifts(pipeline).into_iter();
        warnings.extend(learners.filter_map(|(fact, drift)| drift.warning(&pipeline.name, Some(&fact))));
        warnings
    }
}

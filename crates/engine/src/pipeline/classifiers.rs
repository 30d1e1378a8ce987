//! Classifiers within the stages: an event's tokens are keys, read with its others in stage 4; what was learned of them
//! becomes columns of the row before any model or rule sees it.

use std::collections::HashMap;

use content::text::classifier::{ClassifierScore, TokenEvidence, of_each, step};
use content::text::tokenizer::{TOKENS_MAX, VIEWS, tokens};
use event::{Facts, Key, Secret, Shingle, TableIndex, Time, Value};
use stats::{Addition, Evidence, Observation, ObserveRequest, Quality, ReadingView};

use judge::{FeatureBuilder, FeatureSet};
use plan::{ClassifierPlan, KindPlan, LinearView, Pipeline, TrainingLabel};

/// The worth of one unit of a stored weight: a narrow cell holds weights up to 128.
const UNIT: f64 = 1.0 / 65_536.0;

/// The name of what was learned of all events.
const ALL: &[u8] = b"all";

/// The knowledge of a classifier on a token.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedToken {
    /// The subject of the token, how it was cut, and what was cut.
    pub token: String,
    /// Bad events that had it.
    pub bad: i64,
    /// Good events that had it.
    pub good: i64,
    /// The amount that it adds to the log-odds.
    pub adds: f64,
}

/// The key of what a classifier, which all keys share, has learned of all events.
pub(crate) fn all(pipeline: &Pipeline, plan: &ClassifierPlan, secret: &Secret) -> Key {
    Key { space: pipeline.space, kind: plan.kind, shingle: secret.shingle(ALL) }
}

/// An event's keys for one classifier.
#[derive(Clone, Debug)]
pub(crate) struct TokenKeys {
    /// The key of what was learned of all events.
    all: Key,
    /// The key of what was learned of this very event: of whatever has the same tokens.
    pub(crate) event: Key,
    /// View after view, each in the order of the keys.
    tokens: Vec<Key>,
    /// The number of tokens of each view.
    counts: [usize; VIEWS],
    /// The runs of bytes for each of its linear models that there is anything for.
    pub(crate) features: Vec<(LinearView, FeatureSet)>,
    /// The key that it is learned for, where each key of a kind has a classifier.
    pub(crate) owner: Option<Shingle>,
    /// The knowledge of the classifier when the event was observed, once it was.
    pub(crate) known: Option<ClassifierReading>,
}

impl TokenKeys {
    /// Cuts and hashes; `owner` is that of a classifier that each key of a kind has for itself.
    pub(crate) fn of<'f>(
        pipeline: &Pipeline,
        plan: &ClassifierPlan,
        secret: &Secret,
        owner: Option<Shingle>,
        value: impl Fn(&str, event::Slot) -> Option<&'f Value>,
    ) -> TokenKeys {
        let mut views: [Vec<Shingle>; VIEWS] = Default::default();
        for (fact, slot, cut) in &plan.of {
            let each = &mut |view, token: &str| views[view as usize].push(secret.shingle(token.as_bytes()));
            tokens(fact, value(fact, *slot), *cut, each);
        }
        for (shingles, most) in views.iter_mut().zip(TOKENS_MAX) {
            shingles.sort_unstable();
            shingles.dedup();
            // As good as any choice: which ones these are nobody can foresee who does not know the secret.
            shingles.truncate(most);
        }
        let mut runs = FeatureBuilder::default();
        let mut features = Vec::with_capacity(plan.linear.len());
        for plan in &plan.linear {
            for (fact, slot) in &plan.runs {
                // What a fact is called, and not its place: that changes with the configuration.
                let source = secret.shingle(fact.as_bytes());
                let text = value(fact, *slot).and_then(Value::as_str).unwrap_or_default();
                runs.add_runs(source.0, text);
                if let Some(owner) = owner {
                    // Once more for this key alone, among the same weights (Weinberger, Dasgupta, Langford, Smola and Attenberg,
                    // "Feature Hashing for Large Scale Multitask Learning", 2009): it has in common with others what it does
                    // not judge otherwise, and takes no memory of its own.
                    runs.add_runs(secret.pair(owner, source).0, text);
                }
            }
            features.push((plan.view, runs.finish()));
        }
        features.retain(|(_, features)| !features.is_empty());
        let mut name = b"event".to_vec();
        views.iter().flatten().for_each(|shingle| name.extend_from_slice(&shingle.0.to_le_bytes()));
        let key = |shingle: Shingle| {
            let shingle = owner.map_or(shingle, |owner| secret.pair(owner, shingle));
            Key { space: pipeline.space, kind: plan.kind, shingle }
        };
        TokenKeys {
            all: key(secret.shingle(ALL)),
            event: key(secret.shingle(&name)),
            tokens: views.iter().flatten().map(|shingle| key(*shingle)).collect(),
            counts: views.map(|shingles| shingles.len()),
            features,
            owner,
            known: None,
        }
    }

    /// The keys for each classifier of a row that has none yet. A classifier for each key of a kind has none where the
    /// event has not exactly one such key.
    pub(crate) fn derive<'k>(
        pipeline: &Pipeline,
        facts: &Facts,
        secret: &Secret,
        of_kind: impl Fn(TableIndex<KindPlan>) -> &'k [Key],
    ) -> Vec<Option<TokenKeys>> {
        let of = |plan: &ClassifierPlan| {
            let owner = match plan.per {
                None => None,
                Some(kind) => match of_kind(kind) {
                    [owner] => Some(owner.shingle),
                    _ => return None,
                },
            };
            Some(TokenKeys::of(pipeline, plan, secret, owner, |_, slot| facts.get(slot)))
        };
        pipeline.classifiers.iter().map(of).collect()
    }

    /// Looks at what was learned: of all, of the event, of each token.
    pub(crate) fn look(&self, time: Time) -> ObserveRequest {
        let keys = [self.all, self.event].into_iter().chain(self.tokens.iter().copied());
        let observations = keys.map(|key| Observation { key, time, add: Addition::Nothing }).collect();
        ObserveRequest { observations, ..ObserveRequest::default() }
    }

    /// Returns what is to be added so that the event counts as its training label says, given the answer to [`TokenKeys::look`];
    /// `None` if it does already. All of it is one request: kept or lost together in a crash.
    ///
    /// What the event has taught before is taken back to the last bit: its own key keeps the step that it was, and what
    /// a token's weight was changed by follows from that.
    pub(crate) fn training_request(
        &self,
        known: &ClassifierReading,
        label: TrainingLabel,
        time: Time,
    ) -> Option<ObserveRequest> {
        if known.taught() == label {
            return None;
        }
        let before = known.event;
        let all = known.all.plus(before.opposite());
        let mut now = Evidence::default();
        if label != TrainingLabel::Forget {
            let is_bad = label == TrainingLabel::Bad;
            let views = self.counts.iter().filter(|count| **count > 0).count();
            let linear = known.judgement.linear - before.weight as f64 * UNIT * views as f64;
            let weight = (step(linear, is_bad, all.weight as f64 * UNIT) / UNIT).round() as i64;
            now = Evidence { bad: i64::from(is_bad), good: i64::from(!is_bad), weight };
        }
        let change = now.plus(before.opposite());
        let observed = |key: Key, add: Evidence| Observation { key, time, add: Addition::Evidence(add) };
        let mut observations = Vec::with_capacity(self.tokens.len() + 2);
        observations.extend([observed(self.all, change), observed(self.event, change)]);
        let mut tokens = self.tokens.iter();
        for count in self.counts {
            let of_one = |event: Evidence| {
                let weight = of_each(event.weight as f64, count).round() as i64;
                Evidence { weight, ..event }
            };
            let change = of_one(now).plus(of_one(before).opposite());
            observations.extend(tokens.by_ref().take(count).map(|key| observed(*key, change)));
        }
        Some(ObserveRequest { observations, ..ObserveRequest::default() })
    }

    /// Each token with what is known of it and what that adds, given the answer to [`TokenKeys::look`]. Their texts come
    /// from the same facts.
    pub(crate) fn shares<'f, 'v>(
        &self,
        plan: &ClassifierPlan,
        secret: &Secret,
        mut views: impl Iterator<Item = ReadingView<'v>>,
        value: impl Fn(&str) -> Option<&'f Value>,
    ) -> Vec<ExplainedToken> {
        let mut texts: HashMap<Key, String> = HashMap::new();
        for (fact, _, cut) in &plan.of {
            tokens(fact, value(fact), *cut, &mut |_, token| {
                texts.insert(self.key(secret, secret.shingle(token.as_bytes())), token.to_owned());
            });
        }
        let mut next = || views.next().map(|view| Evidence::of(|window, column| view.sum(window, column)));
        let (all, _) = (next().unwrap_or_default(), next());
        let known: Vec<Evidence> = std::iter::from_fn(next).collect();
        let parts: Vec<TokenEvidence> = known.iter().map(|evidence| learned(*evidence)).collect();
        let shares = ClassifierScore::shares(learned(all), by_view(&parts, self.counts));
        let each = self.tokens.iter().zip(&known).zip(shares);
        each.filter_map(|((key, Evidence { bad, good, .. }), adds)| {
            Some(ExplainedToken { token: texts.remove(key)?, bad: *bad, good: *good, adds })
        })
        .collect()
    }

    fn key(&self, secret: &Secret, shingle: Shingle) -> Key {
        let shingle = self.owner.map_or(shingle, |owner| secret.pair(owner, shingle));
        Key { shingle, ..self.all }
    }

    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }
}

/// Splits what was learned of tokens, view after view, apart.
fn by_view(mut all: &[TokenEvidence], counts: [usize; VIEWS]) -> [&[TokenEvidence]; VIEWS] {
    counts.map(|count| {
        let (view, rest) = all.split_at(count.min(all.len()));
        all = rest;
        view
    })
}

/// The knowledge of a classifier on an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassifierReading {
    pub(crate) judgement: ClassifierScore,
    all: Evidence,
    event: Evidence,
}

impl ClassifierReading {
    /// The facts of the answer to [`TokenKeys::look`]; `None` if it could not be read.
    pub(crate) fn of<'v>(
        asked: &TokenKeys,
        mut views: impl Iterator<Item = ReadingView<'v>>,
    ) -> Option<ClassifierReading> {
        let mut next = || {
            let view = views.next().filter(|view| view.quality() != Quality::Missing)?;
            Some(Evidence::of(|window, column| view.sum(window, column)))
        };
        let (all, event) = (next()?, next()?);
        // A token that cannot be read is as good as one that was never learned.
        let tokens: Vec<TokenEvidence> =
            views.map(|view| learned(Evidence::of(|window, column| view.sum(window, column)))).collect();
        Some(ClassifierReading {
            judgement: ClassifierScore::of(learned(all), by_view(&tokens, asked.counts)),
            all,
            event,
        })
    }

    /// Returns the latest training label of the event.
    pub(crate) fn taught(&self) -> TrainingLabel {
        match self.event {
            Evidence { bad: 1.., .. } => TrainingLabel::Bad,
            Evidence { good: 1.., .. } => TrainingLabel::Good,
            _ => TrainingLabel::Forget,
        }
    }

    /// Returns how many events were learned of a label.
    pub(crate) fn count(&self, label: TrainingLabel) -> i64 {
        match label {
            TrainingLabel::Bad => self.all.bad,
            TrainingLabel::Good => self.all.good,
            TrainingLabel::Forget => 0,
        }
    }

    /// Returns true if the event was taught anything.
    pub(crate) fn is_taught(&self) -> bool {
        self.taught() != TrainingLabel::Forget
    }

    /// Returns true if one class, after another example of it, would not outnumber the other by far.
    pub(crate) fn is_balanced(&self, label: TrainingLabel) -> bool {
        const START: i64 = 50;
        const TIMES: i64 = 3;
        let Evidence { bad, good, .. } = self.all;
        match label {
            TrainingLabel::Bad => bad < TIMES.saturating_mul(good).saturating_add(START),
            TrainingLabel::Good => good < TIMES.saturating_mul(bad).saturating_add(START),
            TrainingLabel::Forget => true,
        }
    }
}

fn learned(Evidence { bad, good, weight }: Evidence) -> TokenEvidence {
    TokenEvidence { bad: bad as f64, good: good as f64, weight: weight as f64 * UNIT }
}

/// Puts what is known into a row.
pub(crate) fn fill(plan: &ClassifierPlan, tokens: &TokenKeys, known: &ClassifierReading, facts: &mut Facts) {
    let columns = &plan.columns;
    facts.set(columns.probability, known.judgement.probability());
    facts.set(columns.score, known.judgement.score);
    facts.set(columns.tokens, tokens.len());
    facts.set(columns.known, known.judgement.known);
    facts.set(columns.bad, Value::Integer(known.all.bad.max(0)));
    facts.set(columns.good, Value::Integer(known.all.good.max(0)));
}

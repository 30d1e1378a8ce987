//! Changing what events are judged by while they are judged.
//!
//! ```text
//! files ◄─ posted text      what the configuration says, read again
//!   ▼
//! plan ─► compiled beside the one in force; refused whole if anything is wrong
//!   ▼
//! kept in the version history ─► described in the journal ─► new statistics in the ledger ─► in force
//! ```
//!
//! An event is judged by the pipeline that it was prepared for, to its end. Whoever changes something waits for others
//! that do; who decides waits for nobody: a change is one exchange of a pointer, after everything that takes time.

mod version_history;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use event::Time;
use journal::JournalError;
use stats::{CancellationCheck, LedgerError, NumberRegistry};

use crate::directory::{Directory, DirectoryError, or_put_aside};
use crate::fleet::{RulesRegistry, SharedState};
use crate::metrics::ReloadLabel;
use crate::pipeline::log;
use crate::{CandidateComparison, Engine, EngineOpenError, NumberError};
use plan::{CanaryScope, Config, ConfigProblems, Document, EffectiveValue, FileStamps, PipelineOverlays};
use plan::{NodePlan, Pipeline, Plan};
use version_history::{PinnedVersion, SharedRules};
pub(crate) use version_history::{RulesState, VersionHistory};

/// The longest name of who made a change that is kept.
const WHO_CHARS_MAX: usize = 128;
/// The name by which a version is asked for that is the candidate's.
const CANDIDATE: &str = "candidate";

/// Versions of which it is told since when rules are as they are, the newest.
const VERSIONS_LOOKED_AT: usize = 20;

/// The change that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposal<'a> {
    /// The present content of the files.
    Files,
    /// A text is laid over a pipeline's file, instead of what was posted before; an empty one takes that away.
    Post {
        /// The pipeline.
        pipeline: &'a str,
        /// Its rules and whatever else differs from the file.
        text: &'a str,
    },
    /// A text whose rules are judged beside the enforced ones, instead of any other; an empty one takes that away.
    Candidate {
        /// The pipeline.
        pipeline: &'a str,
        /// Its rules and whatever else is judged otherwise.
        text: &'a str,
    },
    /// The candidate that was posted decides for some events, or for none again.
    Canary {
        /// The pipeline.
        pipeline: &'a str,
        /// The events.
        scope: Option<&'a CanaryScope>,
    },
    /// The candidate that was posted is posted as the rules.
    Promote {
        /// The pipeline.
        pipeline: &'a str,
    },
    /// A kept version.
    Back {
        /// The pipeline.
        pipeline: &'a str,
        /// The version, or as much of its beginning as no other has.
        version: &'a str,
    },
    /// A state that another node has posted for all.
    Shared {
        /// The state.
        state: &'a SharedState,
        /// Its text.
        text: &'a str,
    },
}

/// The effect of a change, done or tried.
#[derive(Clone, Debug)]
pub struct ReloadOutcome {
    /// The pipelines that are judged otherwise.
    pub changes: Vec<PipelineChange>,
    /// The suspicious things about the configuration.
    pub warnings: ConfigProblems,
    /// Sections of the node whose settings have changed, and are heeded by a restart only.
    pub restart: Vec<&'static str>,
}

/// The change in how a pipeline is judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipelineChange {
    /// The pipeline.
    pub pipeline: String,
    /// The version before; `None` for a pipeline that is new.
    pub before: Option<String>,
    /// The version now; `None` for a pipeline that is gone.
    pub after: Option<String>,
    /// The candidate's version now.
    pub candidate: Option<String>,
    /// The events for which the candidate decides.
    pub canary: Option<CanaryScope>,
    /// Entries that are new, as `rule.NAME`.
    pub added: Vec<String>,
    /// Entries that are gone.
    pub removed: Vec<String>,
    /// Entries that say something else.
    pub changed: Vec<String>,
    /// Kinds of keys that are counted from now on.
    pub counted: Vec<String>,
}

/// A version that can be gone back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionInfo {
    /// The version.
    pub version: String,
    /// The time at which it was last put in force; `None` if that was at a start.
    pub since: Option<Time>,
    /// The origin of the change: `start`, `files`, `post`, `canary`, `promote`, `back`.
    pub by: String,
    /// The name of who made it, where that is known.
    pub who: Option<String>,
}

/// A version with all its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionText {
    /// The version, and how it came about; of a candidate the version that it would have.
    pub info: VersionInfo,
    /// Its settings, with those of its preset, as TOML; sets and models by the names of their files.
    pub text: String,
}

/// The overlays of a pipeline's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesInfo {
    /// The pipeline.
    pub pipeline: String,
    /// The version in force.
    pub version: String,
    /// The candidate's version.
    pub candidate: Option<String>,
    /// The events for which the candidate decides.
    pub canary: Option<CanaryScope>,
    /// The text that is laid over the file.
    pub posted: Option<String>,
    /// True if a kept version is in force, and neither file nor posted text.
    pub back: bool,
    /// The versions that were in force, the newest first.
    pub versions: Vec<VersionInfo>,
}

/// Reasons for a reload that changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The configuration has errors; all are told.
    #[error("{0}")]
    Problems(ConfigProblems),
    /// The pipeline does not exist.
    #[error("there is no pipeline `{0}`")]
    Pipeline(String),
    /// No such version is kept.
    #[error("`{version}` is no version of `{pipeline}` that is kept: {help}")]
    Version {
        /// The pipeline.
        pipeline: String,
        /// The version that was asked for.
        version: String,
        /// The versions that there are.
        help: String,
    },
    /// Nobody waited for it any more.
    #[error("the change was ended, as its time was over or its caller had gone; nothing has changed")]
    Stopped,
    /// The pipeline has no candidate to promote.
    #[error("`{0}` has no candidate that was posted")]
    NoCandidate(String),
    /// An engine in memory keeps nothing.
    #[error("no versions are kept: this engine was started without a data directory")]
    NoDirectory,
    /// The data directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// Other nodes cannot be told, or what they say cannot be taken over.
    #[error("what nodes share of posted rules: {0}")]
    Shared(String),
    /// Another node has posted meanwhile.
    #[error("another node has posted rules at the same time; nothing has changed")]
    Conflict,
    /// New names have got no numbers.
    #[error(transparent)]
    Numbers(#[from] NumberError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl From<ConfigProblems> for ReloadError {
    fn from(problems: ConfigProblems) -> ReloadError {
        ReloadError::Problems(problems)
    }
}

impl Proposal<'_> {
    fn pipeline(&self) -> Option<&str> {
        match self {
            Proposal::Files | Proposal::Shared { .. } => None,
            Proposal::Post { pipeline, .. }
            | Proposal::Candidate { pipeline, .. }
            | Proposal::Canary { pipeline, .. }
            | Proposal::Promote { pipeline }
            | Proposal::Back { pipeline, .. } => Some(pipeline),
        }
    }

    /// Returns the name that the list of versions has for it.
    fn by(&self) -> &'static str {
        match self {
            Proposal::Files => "files",
            Proposal::Post { .. } | Proposal::Candidate { .. } => "post",
            Proposal::Canary { .. } => "canary",
            Proposal::Promote { .. } => "promote",
            Proposal::Back { .. } => "back",
            Proposal::Shared { .. } => "node",
        }
    }

    /// Puts it over the files. `over` is what those say.
    fn alter(
        &self,
        state: &mut RulesState,
        has: impl Fn(&str) -> bool,
        over: impl FnOnce(&str) -> String,
    ) -> Result<(), ReloadError> {
        if let Proposal::Shared { state: of, text } = *self {
            let shared: SharedRules =
                serde_json::from_str(text).map_err(|error| ReloadError::Shared(error.to_string()))?;
            state.adopt(of, &shared, has);
        }
        let Some(pipeline) = self.pipeline() else { return Ok(()) };
        let standing = state.pipelines.entry(pipeline.to_owned()).or_default();
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.trim().is_empty());
        match *self {
            Proposal::Files | Proposal::Shared { .. } => {}
            Proposal::Post { text: posted, .. } => (standing.posted, standing.back) = (text(posted), None),
            Proposal::Candidate { text: posted, .. } => {
                // Whoever posts another one sees first what it would do.
                (standing.candidate, standing.canary) = (text(posted), None);
            }
            Proposal::Canary { scope, .. } => {
                if standing.candidate.is_none() {
                    return Err(ReloadError::NoCandidate(pipeline.to_owned()));
                }
                standing.canary = scope.cloned();
            }
            Proposal::Promote { .. } => {
                let candidate = standing.candidate.take();
                let candidate = candidate.ok_or_else(|| ReloadError::NoCandidate(pipeline.to_owned()))?;
                (standing.posted, standing.back, standing.canary) = (Some(candidate), None, None);
            }
            Proposal::Back { version, .. } => {
                let known: Vec<&str> = standing.versions.iter().map(|it| it.version.as_str()).collect();
                let meant: Vec<&str> =
                    known.iter().copied().filter(|known| known.starts_with(version)).collect();
                let [meant] = meant[..] else {
                    let help = match (meant.len(), known.is_empty()) {
                        (0, true) => "none is kept yet".to_owned(),
                        (0, false) => format!("there is {}", known.join(", ")),
                        _ => format!("several begin so: {}", meant.join(", ")),
                    };
                    let (pipeline, version) = (pipeline.to_owned(), version.to_owned());
                    return Err(ReloadError::Version { pipeline, version, help });
                };
                standing.back = Some(PinnedVersion { version: meant.to_owned(), over: over(pipeline) });
            }
        }
        Ok(())
    }
}

/// Puts what a node's overlays are to be where all nodes find it.
fn share(registry: &dyn RulesRegistry, state: &mut RulesState) -> Result<(), ReloadError> {
    let text = shared_text(state)?;
    let next = state.shared.behind(&text);
    if !registry.put(&next, text).map_err(ReloadError::Shared)? {
        return Err(ReloadError::Conflict);
    }
    state.shared = next;
    Ok(())
}

/// The text of what nodes share of these overlays.
fn shared_text(state: &RulesState) -> Result<String, ReloadError> {
    serde_json::to_string(&SharedRules::of(state)).map_err(|error| ReloadError::Shared(error.to_string()))
}

/// A configuration with what stands over it.
struct LoadedConfig {
    config: Config,
    plan: Plan,
}

/// Compiles what the files and what stands over them say. A version that was gone back to gives way to files that
/// have changed since. The files that were read are told however it ends.
fn load(
    now: &Plan,
    state: &mut RulesState,
    history: Option<&VersionHistory>,
    running: Option<CancellationCheck<'_>>,
    read: &mut FileStamps,
) -> Result<LoadedConfig, ReloadError> {
    let files = now.read_again(&state.layers::<ReloadError>(|_, _| Ok(None))?);
    *read = files.files().clone();
    for document in files.documents() {
        if let Some(standing) = state.pipelines.get_mut(document.name()) {
            standing.back.take_if(|back| back.over != document.fingerprint());
        }
    }
    let mut config = files;
    if state.pipelines.values().any(|standing| standing.back.is_some()) {
        let mut layers = kept_layers(state, history)?;
        layers.files_may_be_broken = running.is_some();
        // The files are still those to be watched.
        let watched = config.files().clone();
        config = now.read_again(&layers);
        config.watch(watched);
    }
    let plan =
        Plan::compile_beside(&config, &now.numbers, running.map(|_| now), running.unwrap_or(&|| false))?;
    Ok(LoadedConfig { config, plan })
}

/// Returns the overlays of the files, with the versions that were gone back to.
fn kept_layers(
    state: &RulesState,
    history: Option<&VersionHistory>,
) -> Result<PipelineOverlays, ReloadError> {
    state.layers(|pipeline, back| {
        let standing = state.standing(pipeline);
        let kept = standing.and_then(|it| it.versions.iter().find(|it| it.version == back.version));
        match (history, kept) {
            (Some(history), Some(version)) => history.read(version).map(Some).map_err(ReloadError::from),
            _ => Err(ReloadError::NoDirectory),
        }
    })
}

impl Directory {
    /// Returns the plan that an engine of this directory would begin with: with what was posted there, or gone back to, over
    /// this one.
    ///
    /// # Errors
    /// [`EngineOpenError`] if what was posted cannot be read, or does not fit the configuration any more.
    pub fn plan_in_force(&self, plan: Plan) -> Result<Plan, EngineOpenError> {
        let mut told = Vec::new();
        let resumed = resume(self, plan, &mut told);
        told.iter().for_each(|told| tracing::warn!("{told}"));
        resumed.map(|(plan, ..)| plan)
    }
}

/// The damaged overlay files over the configuration, each with its consequence.
pub(crate) fn check_history(path: &Path) -> Vec<(PathBuf, String)> {
    VersionHistory::new(path.to_path_buf()).check()
}

/// Puts what stands over the configuration's files in force again. A damaged list of it is put aside, and a version that was
/// gone back to and cannot be read gives way to what it stood over; both are told.
pub(crate) fn resume(
    directory: &Directory,
    plan: Plan,
    told: &mut Vec<String>,
) -> Result<(Plan, RulesState, VersionHistory, Config), EngineOpenError> {
    let history = VersionHistory::new(directory.rules_path());
    let mut state = or_put_aside(history.state(), told)?;
    let stands = |it: &version_history::PipelineRulesState| {
        it.posted.is_some() || it.candidate.is_some() || it.back.is_some()
    };
    if !state.pipelines.values().any(stands) {
        let config = plan.read_again(&PipelineOverlays::default());
        return Ok((plan, state, history, config));
    }
    told.extend(state.let_go_of_unreadable(&history));
    let loaded = load(&plan, &mut state, Some(&history), None, &mut FileStamps::default());
    let LoadedConfig { config, plan } = loaded.map_err(|error| match error {
        ReloadError::Problems(problems) => EngineOpenError::Rules(problems),
        ReloadError::Directory(error) => EngineOpenError::Directory(error),
        other => EngineOpenError::Resume(other.to_string()),
    })?;
    Ok((plan, state, history, config))
}

/// Returns a plan whose names have numbers for good. Where these are others than it was compiled with, it is compiled again,
/// beside the one that is at work now.
pub(crate) fn numbered<E: From<NumberError> + From<ConfigProblems>>(
    mut plan: Plan,
    config: &Config,
    now: Option<(&Plan, CancellationCheck<'_>)>,
    allot: impl FnOnce(&NumberRegistry) -> Result<NumberRegistry, NumberError>,
) -> Result<Plan, E> {
    let numbers = allot(&plan.numbers)?;
    if numbers.includes(&plan.numbers) {
        plan.numbers = numbers;
        return Ok(plan);
    }
    let is_over = now.map_or(&(|| false) as CancellationCheck<'_>, |(_, is_over)| is_over);
    let mut again = Plan::compile_beside(config, &numbers, now.map(|(now, _)| now), is_over)?;
    again.node = plan.node;
    Ok(again)
}

/// Keeps the versions that are in force at a start.
pub(crate) fn keep_first(
    plan: &Plan,
    config: &Config,
    state: &mut RulesState,
    history: &VersionHistory,
) -> Result<(), DirectoryError> {
    let before = state.clone();
    for (pipeline, document) in plan.pipelines.iter().zip(config.documents()) {
        let newest = state.standing(&pipeline.name).and_then(|standing| standing.versions.last());
        if newest.is_none_or(|newest| newest.version != pipeline.version) {
            let version = history.keep(&pipeline.version, document.keep(), None, "start")?;
            state.note(&pipeline.name, version, plan.node.versions);
        }
    }
    if *state != before { history.save(state) } else { Ok(()) }
}

/// The pipeline of a version that a data directory keeps; `None` where it does not, or it cannot be compiled any more.
pub(crate) fn kept_pipeline(
    directory: &Directory,
    plan: &Plan,
    name: &str,
    version: &str,
) -> Option<Arc<Pipeline>> {
    let history = VersionHistory::new(directory.rules_path());
    compiled_again(plan, history.state().ok()?, &history, name, version)
}

fn compiled_again(
    plan: &Plan,
    mut state: RulesState,
    history: &VersionHistory,
    name: &str,
    version: &str,
) -> Option<Arc<Pipeline>> {
    let of_pipeline = state.pipelines.get_mut(name)?;
    of_pipeline.back = Some(PinnedVersion { version: version.to_owned(), over: String::new() });
    let mut layers = kept_layers(&state, Some(history)).ok()?;
    layers.files_may_be_broken = true;
    let config = plan.read_again(&layers);
    let kept = Plan::compile_with(&config, &plan.numbers).ok()?;
    kept.pipelines.iter().find(|pipeline| pipeline.name == name && pipeline.version == version).cloned()
}

impl Engine {
    /// The pipeline of a version that is in force or kept; the latter is compiled again. `None` where it is neither, or
    /// cannot be compiled any more. Blocks.
    pub(crate) fn pipeline_of(&self, name: &str, version: &str) -> Option<Arc<Pipeline>> {
        let plan = self.plan();
        let is_it = |pipeline: &&Arc<Pipeline>| pipeline.name == name && pipeline.version == version;
        if let Some(pipeline) = plan.deciding().find(is_it) {
            return Some(Arc::clone(pipeline));
        }
        compiled_again(
            &plan,
            RulesState::clone(&self.standing()),
            self.version_history.as_ref()?,
            name,
            version,
        )
    }

    /// Returns a pipeline as it would be by a proposal, compiled beside the one in force. Nothing changes. Blocks.
    ///
    /// # Errors
    /// [`ReloadError`], as for the change itself; [`ReloadError::Stopped`] once `is_over`.
    pub fn proposed_pipeline(
        &self,
        name: &str,
        proposal: Proposal<'_>,
        is_over: CancellationCheck<'_>,
    ) -> Result<Arc<Pipeline>, ReloadError> {
        let proposed = self.proposed(name, proposal, is_over)?;
        let pipeline = proposed.plan.pipeline(Some(name)).map(Arc::clone);
        pipeline.ok_or_else(|| ReloadError::Pipeline(name.to_owned()))
    }

    /// Loads the configuration as it would be by a proposal.
    fn proposed(
        &self,
        name: &str,
        proposal: Proposal<'_>,
        is_over: CancellationCheck<'_>,
    ) -> Result<LoadedConfig, ReloadError> {
        let plan = self.plan();
        plan.pipeline(Some(name)).ok_or_else(|| ReloadError::Pipeline(name.to_owned()))?;
        if matches!(proposal, Proposal::Back { .. }) && self.version_history.is_none() {
            return Err(ReloadError::NoDirectory);
        }
        let mut state = RulesState::clone(&self.standing());
        proposal.alter(
            &mut state,
            |name| plan.pipeline(Some(name)).is_some(),
            |pipeline| self.files_fingerprint(&plan, pipeline),
        )?;
        let history = self.version_history.as_ref();
        let loaded = load(&plan, &mut state, history, Some(is_over), &mut FileStamps::default());
        if is_over() {
            return Err(ReloadError::Stopped);
        }
        loaded
    }

    /// Returns a version of a pipeline with its text: one that is kept, by as much of its beginning as no other has, or the
    /// posted one of `candidate`. Without a data directory there is only that in force. Blocks.
    ///
    /// # Errors
    /// [`ReloadError`] if there is no such version, or it cannot be read.
    pub fn version_text(
        &self,
        name: &str,
        version: &str,
        is_over: CancellationCheck<'_>,
    ) -> Result<VersionText, ReloadError> {
        if version == CANDIDATE {
            let LoadedConfig { config, plan } =
                self.proposed(name, Proposal::Promote { pipeline: name }, is_over)?;
            let document = config.documents().iter().find(|document| document.name() == name);
            let pipeline = plan.pipeline(Some(name));
            let (Some(document), Some(pipeline)) = (document, pipeline) else {
                return Err(ReloadError::Pipeline(name.to_owned()));
            };
            let (version, by) = (pipeline.version.clone(), CANDIDATE.to_owned());
            let info = VersionInfo { version, since: None, by, who: None };
            return Ok(VersionText { info, text: document.keep().text });
        }
        let state = self.standing();
        let versions = state.standing(name).map(|standing| &standing.versions[..]).unwrap_or_default();
        let meant: Vec<_> = versions.iter().filter(|known| known.version.starts_with(version)).collect();
        let history = self.version_history.as_ref().ok_or(ReloadError::NoDirectory)?;
        let [meant] = meant[..] else {
            let known: Vec<&str> = versions.iter().map(|known| known.version.as_str()).collect();
            let help = match known.is_empty() {
                true => "none is kept yet".to_owned(),
                false => format!("there is {}", known.join(", ")),
            };
            let (pipeline, version) = (name.to_owned(), version.to_owned());
            return Err(ReloadError::Version { pipeline, version, help });
        };
        let info = VersionInfo {
            version: meant.version.clone(),
            since: meant.since(),
            by: meant.by.clone(),
            who: meant.who.clone(),
        };
        Ok(VersionText { info, text: history.read(meant)?.text })
    }

    /// Returns for each rule of a pipeline the time since which it is as it is, by the newest versions that are kept; rules that are
    /// as they were in the oldest of these, or since a start, are left out. Blocks.
    ///
    /// # Errors
    /// If the settings of a version cannot be read.
    pub fn rule_ages(
        &self,
        name: &str,
        is_over: CancellationCheck<'_>,
    ) -> Result<BTreeMap<String, Time>, JournalError> {
        let state = self.standing();
        let versions = state.standing(name).map(|standing| &standing.versions[..]).unwrap_or_default();
        let Some(journal) = &self.journal else { return Ok(BTreeMap::new()) };
        let (mut ages, mut before) = (BTreeMap::new(), None::<BTreeMap<String, String>>);
        for version in versions.iter().rev().take(VERSIONS_LOOKED_AT).rev() {
            if is_over() {
                break;
            }
            let Some(settings) = journal.configuration(&version.version)? else { continue };
            let entries = entries(&settings).into_iter();
            let rules =
                entries.filter_map(|(path, lines)| Some((path.strip_prefix("rule.")?.to_owned(), lines)));
            let rules: BTreeMap<String, String> = rules.collect();
            if let (Some(before), Some(since)) = (&before, version.since()) {
                for (rule, _) in rules.iter().filter(|(rule, own)| before.get(*rule) != Some(own)) {
                    ages.insert(rule.clone(), since);
                }
            }
            ages.retain(|rule, _| rules.contains_key(rule));
            before = Some(rules);
        }
        Ok(ages)
    }

    /// Tells apart what the files say of a pipeline under what was posted.
    fn files_fingerprint(&self, plan: &Plan, pipeline: &str) -> String {
        let none: Result<_, std::convert::Infallible> = self.standing().layers(|_, _| Ok(None));
        let files = none.map(|layers| plan.read_again(&layers)).ok();
        let document = files.iter().flat_map(Config::documents).find(|it| it.name() == pipeline);
        document.map(Document::fingerprint).unwrap_or_default()
    }

    /// Changes what events are judged by, or with `dry` only says what would change. Everything is read, checked and
    /// kept first; then the new rules are in force at once, for all events that are prepared from then on. Blocks.
    ///
    /// # Errors
    /// [`ReloadError`]; then nothing has changed.
    pub fn change(&self, proposal: Proposal<'_>, now: Time, dry: bool) -> Result<ReloadOutcome, ReloadError> {
        self.change_unless(proposal, None, now, dry, &|| false)
    }

    /// Changes the rules as [`Engine::change`] does, by the hand of `who`, but nothing changes once it is over: `is_over` is asked before each rule
    /// and each regular expression is compiled, and before anything is kept.
    ///
    /// # Errors
    /// [`ReloadError`]; then nothing has changed.
    pub fn change_unless(
        &self,
        proposal: Proposal<'_>,
        who: Option<&str>,
        now: Time,
        dry: bool,
        is_over: CancellationCheck<'_>,
    ) -> Result<ReloadOutcome, ReloadError> {
        let _only = self.changing.lock();
        let changed = self.changed(proposal, who, now, dry, is_over);
        if !dry {
            let result = match &changed {
                Ok(reloaded) if reloaded.changes.is_empty() => "unchanged",
                Ok(_) => "ok",
                Err(_) => "refused",
            };
            let label = ReloadLabel { result: result.to_owned() };
            self.metrics.rules_reloads.get_or_create(&label).inc();
        }
        changed
    }

    fn changed(
        &self,
        proposal: Proposal<'_>,
        who: Option<&str>,
        now: Time,
        dry: bool,
        is_over: CancellationCheck<'_>,
    ) -> Result<ReloadOutcome, ReloadError> {
        let plan = self.plan();
        if let Some(name) = proposal.pipeline().filter(|name| plan.pipeline(Some(name)).is_none()) {
            return Err(ReloadError::Pipeline(name.to_owned()));
        }
        let mut state = RulesState::clone(&self.standing());
        let over = |pipeline: &str| self.files_fingerprint(&plan, pipeline);
        if matches!(proposal, Proposal::Back { .. }) && self.version_history.is_none() {
            return Err(ReloadError::NoDirectory);
        }
        proposal.alter(&mut state, |name| plan.pipeline(Some(name)).is_some(), over)?;
        let mut read = FileStamps::default();
        let loaded = load(&plan, &mut state, self.version_history.as_ref(), Some(is_over), &mut read);
        if is_over() {
            return Err(ReloadError::Stopped);
        }
        if loaded.is_err() && proposal == Proposal::Files && !dry {
            // What is wrong with them is told once, not at every look.
            self.set_watched(read);
        }
        let LoadedConfig { config, plan: mut new } = loaded?;
        if let Some(directory) =
            self.directory.as_ref().filter(|_| !dry && !plan.numbers.includes(&new.numbers))
        {
            let allot = |wanted: &NumberRegistry| {
                directory.allot_numbers(self.shared.as_ref().map(|shared| &*shared.numbers), wanted)
            };
            new = numbered::<ReloadError>(new, &config, Some((&plan, is_over)), allot)?;
        }
        let changes = changes(&plan, &new);
        let restart = restart(&plan.node, &new.node);
        new.node = plan.node.clone();
        let reloaded = ReloadOutcome { changes, warnings: new.warnings.clone(), restart };
        if dry {
            return Ok(reloaded);
        }
        if let (Some(registries), Some(_)) = (&self.shared, proposal.pipeline()) {
            share(&*registries.rules, &mut state)?;
        }
        for pipeline in &mut new.pipelines {
            let same = |old: &&Arc<Pipeline>| {
                old.name == pipeline.name
                    && old.version == pipeline.version
                    && candidate(old) == candidate(pipeline)
                    && canary(old) == canary(pipeline)
            };
            // What a candidate was compared with goes on.
            if let Some(old) = plan.pipelines.iter().find(same) {
                *pipeline = Arc::clone(old);
            }
        }
        if let Some(history) = &self.version_history {
            for (pipeline, document) in new.pipelines.iter().zip(config.documents()) {
                let newest = state.standing(&pipeline.name).and_then(|standing| standing.versions.last());
                if newest.is_none_or(|newest| newest.version != pipeline.version) {
                    let by = proposal.by();
                    let mut version = history.keep(&pipeline.version, document.keep(), Some(now), by)?;
                    version.who = who.map(|who| who.chars().take(WHO_CHARS_MAX).collect());
                    state.note(&pipeline.name, version, new.node.versions);
                }
                // What decided for some events is read, explained and corrected by its own rules.
                let standing = state.standing(&pipeline.name);
                let is_kept = |version: &str| {
                    let mut kept = standing.iter().flat_map(|standing| &standing.versions);
                    kept.any(|known| known.version == version)
                };
                let decides = pipeline.canary().map(|canary| &canary.pipeline.version);
                if let Some(version) = decides.filter(|version| !is_kept(version))
                    && let Some(snapshot) = document.keep_candidate()
                {
                    let mut version = history.keep(version, snapshot, Some(now), "canary")?;
                    version.who = who.map(|who| who.chars().take(WHO_CHARS_MAX).collect());
                    state.note_canary(&pipeline.name, version, new.node.versions);
                }
            }
        }
        if let Err(error) = self.content_keys.ensure(new.pipelines.iter(), Some(now)) {
            // Content is left out until housekeeping has made one.
            tracing::error!(%error, "no key for content could be made");
        }
        if let Some(journal) = &self.journal {
            for pipeline in new.deciding() {
                log::describe(journal, pipeline)?;
            }
        }
        if new.catalog != plan.catalog {
            self.ledger.set_catalog(new.catalog.clone())?;
        }
        if let Some(history) = self.version_history.as_ref().filter(|_| state != *self.standing()) {
            history.save(&state)?;
        }
        self.set_watched(new.files.clone());
        self.take_over_exceptions(&new);
        self.take_over_allow_list(&new);
        *self.standing.write() = Arc::new(state);
        *self.plan.write() = Arc::new(new);
        Ok(reloaded)
    }

    /// Takes over what other nodes have posted since this one last looked; `None` if that is nothing. Blocks.
    ///
    /// # Errors
    /// [`ReloadError`] if the registry cannot be asked, or what was posted does not fit here: then the old rules stay in force.
    pub fn adopt_posted(&self, now: Time) -> Result<Option<ReloadOutcome>, ReloadError> {
        let Some(registries) = &self.shared else { return Ok(None) };
        let known = self.standing().shared.clone();
        let last = registries.rules.last().map_err(ReloadError::Shared)?;
        if last == known {
            return Ok(None);
        }
        if last.number < known.number {
            // A failover has forgotten what was posted last: this node still has it, and says it again.
            let _only = self.changing.lock();
            let text = shared_text(&self.standing())?;
            registries.rules.put(&last.behind(&text), text).map_err(ReloadError::Shared)?;
            return Ok(None);
        }
        let text = registries.rules.text(&last).map_err(ReloadError::Shared)?;
        self.change(Proposal::Shared { state: &last, text: &text }, now, false).map(Some)
    }

    /// The number of the state of posted rules that nodes share on which this node stands; 0 before the first, and for a node of its
    /// own.
    pub fn shared_rules(&self) -> u64 {
        self.standing().shared.number
    }

    fn standing(&self) -> Arc<RulesState> {
        Arc::clone(&self.standing.read())
    }

    fn set_watched(&self, files: FileStamps) {
        *self.watched.lock() = files;
    }

    /// The files that the configuration was read from, as they were when they were last read, whatever came of it.
    pub fn watched(&self) -> FileStamps {
        self.watched.lock().clone()
    }

    /// Returns what stands over the files of a pipeline, and what can be gone back to.
    pub fn rules_info(&self, pipeline: &Pipeline) -> RulesInfo {
        let state = self.standing();
        let standing = state.standing(&pipeline.name).cloned().unwrap_or_default();
        let versions = standing.versions.iter().rev().map(|version| VersionInfo {
            version: version.version.clone(),
            since: version.since(),
            by: version.by.clone(),
            who: version.who.clone(),
        });
        RulesInfo {
            pipeline: pipeline.name.clone(),
            version: pipeline.version.clone(),
            candidate: pipeline.candidate.as_ref().map(|candidate| candidate.version.clone()),
            canary: canary(pipeline).cloned(),
            versions: versions.collect(),
            posted: standing.posted,
            back: standing.back.is_some(),
        }
    }

    /// Returns the text of the candidate that was posted.
    pub fn posted_candidate(&self, pipeline: &str) -> Option<String> {
        self.standing().standing(pipeline)?.candidate.clone()
    }

    /// Every value of the configuration as its files have it now, under what was posted or gone back to, with its origin. Secrets
    /// are not shown. Blocks.
    ///
    /// # Errors
    /// If a version that was gone back to cannot be read.
    pub fn settings(&self) -> Result<Vec<EffectiveValue>, ReloadError> {
        let layers = kept_layers(&self.standing(), self.version_history.as_ref())?;
        Ok(self.plan().read_again(&layers).effective())
    }

    /// Returns the comparison of a pipeline's candidate with what is enforced; `None` if it has none.
    pub fn comparison(&self, pipeline: &Pipeline) -> Option<CandidateComparison> {
        let candidate = pipeline.candidate.as_ref()?;
        Some(self.candidates.of(candidate).comparison(candidate, pipeline))
    }
}

fn candidate(pipeline: &Pipeline) -> Option<&str> {
    pipeline.candidate.as_ref().map(|candidate| candidate.version.as_str())
}

fn canary(pipeline: &Pipeline) -> Option<&CanaryScope> {
    pipeline.canary().map(|canary| &canary.scope)
}

fn changes(old: &Plan, new: &Plan) -> Vec<PipelineChange> {
    let mut changes = Vec::new();
    for after in &new.pipelines {
        let before = old.pipeline(Some(&after.name));
        let same = |before: &Pipeline| {
            before.version == after.version
                && candidate(before) == candidate(after)
                && canary(before) == canary(after)
        };
        if before.is_some_and(|before| same(before)) {
            continue;
        }
        let was = before.map(|before| entries(&before.canonical)).unwrap_or_default();
        let is = entries(&after.canonical);
        let keys = |of: &BTreeMap<&str, String>, wanted: &dyn Fn(&str) -> bool| {
            of.keys().filter(|key| wanted(key)).map(|key| (*key).to_owned()).collect::<Vec<_>>()
        };
        let counted = after.kinds.iter().map(|kind| (kind.kind, &kind.name));
        let counted = counted.chain(after.distincts.iter().map(|distinct| (distinct.kind, &distinct.name)));
        let new_here = |kind| {
            new.catalog.get(after.space, kind).is_some() && old.catalog.get(after.space, kind).is_none()
        };
        changes.push(PipelineChange {
            pipeline: after.name.clone(),
            before: before.map(|before| before.version.clone()),
            after: Some(after.version.clone()),
            candidate: candidate(after).map(str::to_owned),
            canary: canary(after).cloned(),
            added: keys(&is, &|key| !was.contains_key(key)),
            removed: keys(&was, &|key| !is.contains_key(key)),
            changed: keys(&is, &|key| was.get(key).is_some_and(|text| *text != is[key])),
            counted: counted.filter(|(kind, _)| new_here(*kind)).map(|(_, name)| name.clone()).collect(),
        });
    }
    for before in old.pipelines.iter().filter(|before| new.pipeline(Some(&before.name)).is_none()) {
        changes.push(PipelineChange {
            pipeline: before.name.clone(),
            before: Some(before.version.clone()),
            ..PipelineChange::default()
        });
    }
    changes
}

/// The lines of each entry: `rule.NAME`, or a key of a table.
fn entries(canonical: &str) -> BTreeMap<&str, String> {
    let mut entries: BTreeMap<&str, String> = BTreeMap::new();
    for line in canonical.lines() {
        let path = line.split(" = ").next().unwrap_or_default();
        let listed = [
            "dnsbl",
            "field",
            "phrases",
            "kind",
            "statistic",
            "distinct",
            "last",
            "label",
            "classifier",
            "set",
            "model",
            "group",
            "rule",
            "band",
        ];
        let is_listed = path.split('.').next().is_some_and(|section| listed.contains(&section));
        let entry = match path.rsplit_once('.') {
            Some((entry, _)) if is_listed => entry,
            _ => path,
        };
        let lines = entries.entry(entry).or_default();
        lines.push_str(line);
        lines.push('\n');
    }
    entries
}

/// The sections whose settings are heeded at a start only, and have changed.
fn restart(old: &NodePlan, new: &NodePlan) -> Vec<&'static str> {
    let ledger = |plan: &NodePlan| (plan.durability, plan.ledger_configured, plan.ledger_segment);
    let changed = [
        (
            "[node]",
            (old.watch, old.versions, old.decision_log) != (new.watch, new.versions, new.decision_log),
        ),
        ("[ledger]", ledger(old) != ledger(new)),
        ("[cluster]", old.cluster != new.cluster),
        ("[journal]", old.journal != new.journal),
        ("[dns]", old.dns != new.dns),
        ("[server]", old.server != new.server),
        ("[audit]", old.audit != new.audit),
        ("[[listener]]", old.listeners != new.listeners),
    ];
    changed.into_iter().filter(|(_, changed)| *changed).map(|(section, _)| section).collect()
}

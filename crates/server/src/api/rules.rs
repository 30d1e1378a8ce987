//! Changes of rules, and candidates, in JSON.

use std::collections::BTreeMap;

use judge::Action;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{DiagnosticJson, Timestamp, action_schema};

/// The text that stands over the file of a pipeline, and the versions that can be gone back to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Rules)]
pub struct RulesJson {
    /// The pipeline.
    pub pipeline: String,
    /// The version in force, which every decision names.
    pub version: String,
    /// True if a kept version is in force that was gone back to, and not what file and posted text say.
    pub back: bool,
    /// The text that is laid over the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posted: Option<String>,
    /// The version that the pipeline would have with its candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// The events for which the candidate decides; left out if it decides for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryJson>,
    /// The versions that were in force, the newest first, each once.
    pub versions: Vec<VersionJson>,
    /// The time since which each rule is as it is, by the newest 20 versions; rules that are as they were in the oldest of these,
    /// or since a start, are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ages: BTreeMap<String, Timestamp>,
}

/// A version that can be gone back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Version)]
pub struct VersionJson {
    /// Its name.
    pub version: String,
    /// The time at which it was last put in force; left out if that was at a start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The origin of the change: `start`, `files`, `post`, `canary`, `promote`, `back` or `node`; of the candidate `candidate`.
    pub by: String,
    /// The name of the token or person that made it; left out where nobody did, or another node has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
}

impl From<&engine::VersionInfo> for VersionJson {
    fn from(version: &engine::VersionInfo) -> VersionJson {
        VersionJson {
            version: version.version.clone(),
            since: version.since.map(Timestamp),
            by: version.by.clone(),
            who: version.who.clone(),
        }
    }
}

/// A version with its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = VersionText)]
pub struct VersionTextJson {
    /// The pipeline.
    pub pipeline: String,
    /// The version, and who put it in force.
    #[serde(flatten)]
    pub version: VersionJson,
    /// Every setting, with those of its preset, as TOML; sets and models by the names of their files.
    pub text: String,
    /// The difference from another version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<VersionDifferenceJson>,
}

/// The difference between two versions, line by line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = VersionDifference)]
pub struct VersionDifferenceJson {
    /// The version that it is the difference from.
    pub against: VersionJson,
    /// Lines that are there now and were not.
    pub added: usize,
    /// Lines that were there and are not now.
    pub removed: usize,
    /// The lines that differ, with three lines around each: `+` new, `-` gone, ` ` the same, `@` where lines are left out, then
    /// the text. Of an entry its first line is among them.
    pub lines: Vec<String>,
}

impl VersionTextJson {
    /// Returns a version as it is shown, with the difference from another.
    pub fn new(
        pipeline: String,
        of: &engine::VersionText,
        against: Option<&engine::VersionText>,
    ) -> VersionTextJson {
        let difference = against.map(|against| {
            let lines = difference(&against.text, &of.text);
            VersionDifferenceJson {
                against: VersionJson::from(&against.info),
                added: lines.iter().filter(|line| line.starts_with('+')).count(),
                removed: lines.iter().filter(|line| line.starts_with('-')).count(),
                lines,
            }
        });
        VersionTextJson { pipeline, version: VersionJson::from(&of.info), text: of.text.clone(), difference }
    }
}

/// Lines around those that differ.
const CONTEXT: usize = 3;
/// Most comparisons of lines; of texts that differ in more places the whole middle is told as changed.
const COMPARISONS_MAX: usize = 4_000_000;

/// The lines that differ between two texts, by their longest common part.
fn difference(before: &str, after: &str) -> Vec<String> {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same = |one: &[&str], other: &[&str]| one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let head = same(&before, &after);
    let (old, new) = (&before[head..], &after[head..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    let mut lines: Vec<(char, &str)> = before[..head].iter().map(|line| (' ', *line)).collect();
    lines.extend(middle(old, new));
    lines.extend(after[after.len() - tail..].iter().map(|line| (' ', *line)));
    let differs: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].0 != ' ').collect();
    let mut shown = vec![false; lines.len()];
    for at in differs {
        let end = (at + CONTEXT + 1).min(lines.len());
        shown[at.saturating_sub(CONTEXT)..end].fill(true);
        // The line that says of which entry this is.
        let head = (0..=at).rev().find(|at| lines[*at].1.starts_with('['));
        for at in head.into_iter().flat_map(|head| head..(head + 2).min(at)) {
            shown[at] = true;
        }
    }
    let mut told = Vec::new();
    let mut is_left_out = false;
    for ((sign, line), is_shown) in lines.into_iter().zip(shown) {
        if is_shown {
            if is_left_out {
                told.push("@".to_owned());
            }
            told.push(format!("{sign}{line}"));
        }
        is_left_out = !is_shown;
    }
    told
}

/// The lines of two texts that begin and end differently.
fn middle<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(char, &'t str)> {
    let mut lines = Vec::new();
    let (mut left, mut right) = (0, 0);
    if old.len().saturating_mul(new.len()) <= COMPARISONS_MAX {
        let width = new.len() + 1;
        // The length of the longest common part of what is left of each.
        let mut common = vec![0u32; (old.len() + 1) * width];
        for one in (0..old.len()).rev() {
            for other in (0..new.len()).rev() {
                common[one * width + other] = match old[one] == new[other] {
                    true => common[(one + 1) * width + other + 1] + 1,
                    false => common[(one + 1) * width + other].max(common[one * width + other + 1]),
                };
            }
        }
        while left < old.len() && right < new.len() {
            if old[left] == new[right] {
                lines.push((' ', old[left]));
                (left, right) = (left + 1, right + 1);
            } else if common[(left + 1) * width + right] >= common[left * width + right + 1] {
                lines.push(('-', old[left]));
                left += 1;
            } else {
                lines.push(('+', new[right]));
                right += 1;
            }
        }
    }
    lines.extend(old[left..].iter().map(|line| ('-', *line)));
    lines.extend(new[right..].iter().map(|line| ('+', *line)));
    lines
}

/// The names that conditions may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RuleNames)]
pub struct RuleNamesJson {
    /// The pipeline.
    pub pipeline: String,
    /// The names, by what they are.
    pub names: Vec<RuleNameJson>,
}

/// A name that conditions may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RuleName)]
pub struct RuleNameJson {
    /// The name as it is written: `mail.size`, `from.seen('1h')`.
    pub name: String,
    /// The sort: `fact`, `reading`, `label`, `set` or `rule`.
    pub of: String,
    /// The type of its values: `string`, `integer`, ...; left out where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    /// The description.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

impl RuleNamesJson {
    /// The names of a pipeline.
    pub fn of(pipeline: &plan::Pipeline) -> RuleNamesJson {
        let name = |name: String, of: &str, kind: Option<String>, description: &str| RuleNameJson {
            name,
            of: of.to_owned(),
            r#type: kind,
            description: description.to_owned(),
        };
        let columns = pipeline.schema.columns();
        let is_reading: Vec<bool> = {
            let mut is_reading = vec![false; columns.len()];
            for reading in &pipeline.readings {
                is_reading[usize::from(reading.slot.0)] = true;
            }
            is_reading
        };
        let of = |reading: bool| if reading { "reading" } else { "fact" };
        let mut names: Vec<RuleNameJson> = columns
            .iter()
            .zip(&is_reading)
            .map(|(column, reading)| {
                name(column.name.clone(), of(*reading), Some(column.kind.to_string()), &column.doc)
            })
            .collect();
        for kind in &pipeline.kinds {
            for counter in kind.counters.iter() {
                let text = format!("{}.{counter}('1h')", kind.name);
                if !names.iter().any(|known| known.name == text) {
                    names.push(name(text, "reading", Some("integer".to_owned()), ""));
                }
            }
        }
        for label in pipeline.labels.iter() {
            let text = format!("{}.marked('{}')", pipeline.kinds[label.of].name, label.name);
            if !names.iter().any(|known| known.name == text) {
                names.push(name(text, "label", Some("boolean".to_owned()), ""));
            }
        }
        for rule in pipeline.rules.rules() {
            names.push(name(rule.name.clone(), "rule", None, &rule.description));
        }
        RuleNamesJson { pipeline: pipeline.name.clone(), names }
    }
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn differing_lines_stand_with_their_entry() {
        let check = |before: &str, after: &str, expected: &[&str]| {
            assert_eq!(difference(before, after), expected, "{before:?} {after:?}");
        };
        check("", "", &[]);
        check("a\nb", "a\nb", &[]);
        check("a\nb\nc", "a\nx\nc", &[" a", "-b", "+x", " c"]);
        check("", "a", &["+a"]);
        check("a", "", &["-a"]);
        let entry = "[[rule]]\nname = A\n1\n2\n3\n4\n5\n6";
        check(
            entry,
            &entry.replace('6', "7"),
            &[" [[rule]]", " name = A", "@", " 3", " 4", " 5", "-6", "+7"],
        );
        let (one, other) = ("a\n".repeat(3000) + "x", "b\n".repeat(3000) + "y");
        assert_eq!(difference(&one, &other).len(), 6002);
    }
}

impl From<&engine::RulesInfo> for RulesJson {
    fn from(info: &engine::RulesInfo) -> RulesJson {
        let versions = info.versions.iter().map(VersionJson::from);
        RulesJson {
            pipeline: info.pipeline.clone(),
            version: info.version.clone(),
            back: info.back,
            posted: info.posted.clone(),
            candidate: info.candidate.clone(),
            canary: info.canary.as_ref().map(CanaryJson::from),
            versions: versions.collect(),
            ages: BTreeMap::new(),
        }
    }
}

/// The effect that a change of rules had, or would have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReloadOutcome)]
pub struct ReloadOutcomeJson {
    /// A trial run: nothing was changed.
    pub dry_run: bool,
    /// The pipelines that are judged otherwise; none if all is as it was.
    pub changes: Vec<PipelineChangeJson>,
    /// The warnings of what is suspicious about the configuration.
    pub warnings: Vec<DiagnosticJson>,
    /// Sections of the node whose settings have changed, and are heeded by a restart only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart: Vec<String>,
    /// Other nodes of the cluster, by number and name, on which what was posted is not in force yet: they are away, or their
    /// conditions say why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub behind: Vec<String>,
}

/// The change in how a pipeline is judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = PipelineChange)]
pub struct PipelineChangeJson {
    /// The pipeline.
    pub pipeline: String,
    /// Its version before; left out for a pipeline that is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Its version now; left out for a pipeline that is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The version that it would have with its candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// The events for which the candidate decides; left out if it decides for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryJson>,
    /// Entries that are new, such as `rule.NAME` or `constants.bulk`.
    pub added: Vec<String>,
    /// Entries that are gone.
    pub removed: Vec<String>,
    /// Entries that say something else.
    pub changed: Vec<String>,
    /// Kinds that are counted from now on.
    pub counted: Vec<String>,
}

impl ReloadOutcomeJson {
    /// Returns the outcome that the engine gives of a change.
    pub fn new(reloaded: &engine::ReloadOutcome, dry_run: bool) -> ReloadOutcomeJson {
        let changes = reloaded.changes.iter().cloned().map(|change| PipelineChangeJson {
            pipeline: change.pipeline,
            before: change.before,
            after: change.after,
            candidate: change.candidate,
            canary: change.canary.as_ref().map(CanaryJson::from),
            added: change.added,
            removed: change.removed,
            changed: change.changed,
            counted: change.counted,
        });
        ReloadOutcomeJson {
            dry_run,
            changes: changes.collect(),
            warnings: reloaded.warnings.list().iter().map(DiagnosticJson::from).collect(),
            restart: reloaded.restart.iter().map(|section| (*section).to_owned()).collect(),
            behind: Vec::new(),
        }
    }
}

/// The events for which a candidate decides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Canary)]
pub struct CanaryJson {
    /// The share of the events, above 0 and up to 1.
    pub share: f64,
    /// The numbers of the nodes; left out for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<u16>,
}

impl From<&plan::CanaryScope> for CanaryJson {
    fn from(scope: &plan::CanaryScope) -> CanaryJson {
        CanaryJson { share: scope.share(), nodes: scope.nodes.clone() }
    }
}

/// The events for which the candidate is to decide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CanaryRequest {
    /// The share of the events, from 0, none, to 1, all; all if only nodes are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// The numbers of the nodes, as `GET /v1/nodes` has them; all if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<u16>,
    /// The pipeline; the first of the configuration if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
}

/// The number of events on whose keys rules put a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LabelComparison)]
pub struct LabelComparisonJson {
    /// Events on whose keys the enforced rules put it, or would where the candidate decided.
    pub enforced: u64,
    /// Events on whose keys the candidate puts it, or would.
    pub candidate: u64,
}

/// The version to go back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// The version, or as much of its beginning as no other has.
    pub version: String,
    /// The pipeline; the first of the configuration if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
}

/// The comparison of a candidate with what is enforced, since either was changed or the node was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Comparison)]
pub struct ComparisonJson {
    /// The pipeline.
    pub pipeline: String,
    /// The version that is enforced.
    pub version: String,
    /// The version that it would have with the candidate.
    pub candidate: String,
    /// Events that both judged.
    pub events: u64,
    /// Events for which they ask for different actions.
    pub disagreements: u64,
    /// `disagreements / events`; 0 without events.
    pub rate: f64,
    /// Events for which they ask for the same action by different scores.
    pub rescored: u64,
    /// The events for which the candidate decides; left out if it decides for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryJson>,
    /// Events for which the candidate has decided.
    #[serde(default)]
    pub decided: u64,
    /// The labels that either puts on keys.
    #[serde(default)]
    pub labels: BTreeMap<String, LabelComparisonJson>,
    /// The number of times for each pair of actions, one of the enforced rules and one of the candidate, whichever decided: by
    /// the enforced action, then the candidate's.
    pub actions: BTreeMap<String, BTreeMap<String, u64>>,
    /// The latest events for which they disagree, the newest first.
    pub examples: Vec<DisagreementJson>,
    /// The nodes that are not in it: they do not answer, or compare other versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
}

impl ComparisonJson {
    /// Most examples of several nodes together.
    const EXAMPLES_MAX: usize = 32;

    /// Adds what another node has compared. Returns false, and adds nothing, if that are other versions.
    pub(crate) fn add(&mut self, other: ComparisonJson) -> bool {
        let of = |all: &ComparisonJson| (all.pipeline.clone(), all.version.clone(), all.candidate.clone());
        if of(self) != of(&other) {
            return false;
        }
        let sum = |own: &mut u64, more: u64| *own = own.saturating_add(more);
        sum(&mut self.events, other.events);
        sum(&mut self.disagreements, other.disagreements);
        sum(&mut self.rescored, other.rescored);
        sum(&mut self.decided, other.decided);
        self.rate = self.disagreements as f64 / self.events.max(1) as f64;
        for (label, more) in other.labels {
            let own = self.labels.entry(label).or_insert(LabelComparisonJson { enforced: 0, candidate: 0 });
            sum(&mut own.enforced, more.enforced);
            sum(&mut own.candidate, more.candidate);
        }
        for (enforced, more) in other.actions {
            let own = self.actions.entry(enforced).or_default();
            more.into_iter().for_each(|(action, count)| sum(own.entry(action).or_default(), count));
        }
        self.examples.extend(other.examples);
        self.examples.sort_by_key(|example| std::cmp::Reverse(example.time.0));
        self.examples.truncate(ComparisonJson::EXAMPLES_MAX);
        true
    }
}

/// An event for which enforced rules and candidate ask for different actions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Disagreement)]
pub struct DisagreementJson {
    /// The decision's name, for `GET /v1/decisions/{id}`.
    pub id: String,
    /// The caller's name for the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The time of the event.
    pub time: Timestamp,
    /// The verdict that was enforced.
    pub enforced: ComparedVerdictJson,
    /// The verdict of the candidate.
    pub candidate: ComparedVerdictJson,
}

/// The verdict of rules on an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ComparedVerdict)]
pub struct ComparedVerdictJson {
    /// The action.
    #[schema(schema_with = action_schema)]
    pub action: Action,
    /// The score.
    pub score: f64,
    /// Rules that fired, at most 32.
    pub rules: Vec<String>,
}

impl From<&engine::ComparedVerdict> for ComparedVerdictJson {
    fn from(judged: &engine::ComparedVerdict) -> ComparedVerdictJson {
        ComparedVerdictJson { action: judged.action, score: judged.score, rules: judged.rules.clone() }
    }
}

impl From<&engine::CandidateComparison> for ComparisonJson {
    fn from(comparison: &engine::CandidateComparison) -> ComparisonJson {
        let mut actions: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for (enforced, candidate, count) in &comparison.actions {
            actions.entry(enforced.to_string()).or_default().insert(candidate.to_string(), *count);
        }
        let examples = comparison.examples.iter().map(|example| DisagreementJson {
            id: example.id.to_string(),
            event_id: example.event_id.clone(),
            time: Timestamp(example.time),
            enforced: ComparedVerdictJson::from(&example.enforced),
            candidate: ComparedVerdictJson::from(&example.candidate),
        });
        let labels = comparison.labels.iter().map(|(name, enforced, candidate)| {
            (name.clone(), LabelComparisonJson { enforced: *enforced, candidate: *candidate })
        });
        ComparisonJson {
            pipeline: comparison.pipeline.clone(),
            version: comparison.version.clone(),
            candidate: comparison.candidate.clone(),
            events: comparison.events,
            disagreements: comparison.disagreements,
            rate: comparison.disagreements as f64 / comparison.events.max(1) as f64,
            rescored: comparison.rescored,
            canary: comparison.canary.as_ref().map(CanaryJson::from),
            decided: comparison.decided,
            labels: labels.collect(),
            actions,
            examples: examples.collect(),
            absent: Vec::new(),
        }
    }
}

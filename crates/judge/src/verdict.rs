//! Judging a row: the score, what it asks for, and why.

use std::fmt::Write;

use event::{Facts, Span, Table, TableIndex, Value};
use serde::{Deserialize, Serialize};

use crate::action::{Action, BandsInForce, Mode, NextBand};
use crate::condition::ColumnRead;
use crate::effect::Effect;
use crate::expr::{EvalEnv, ResultView, RuleResults};
use crate::rule::{Rule, RuleGroup, RuleSelection, RuleSet};
use crate::score::{rounded, sum};
use crate::score_fit::{FitRule, FitRules};

/// The verdict on one event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The sum of the scores of the enforced rules that fired, those of a group within its bounds, rounded to a
    /// millionth; always finite.
    pub score: f64,
    /// The probability that the event is bad, as far as its score tells: by the curve through the scores of judged events, or
    /// where too few are judged by an assumed one ([`crate::Bands::assumed_calibration`]).
    pub probability: f64,
    /// The action that is asked for: by the score, unless a rule's effect says otherwise.
    pub action: Action,
    /// The enforced rules that fired, the weightiest first, then by name.
    pub reasons: Vec<Reason>,
    /// The rules in shadow that fired, in the same order. They have no influence.
    pub shadow: Vec<Reason>,
    /// The next band above the score.
    pub next: Option<NextBand>,
    /// Effects that the enforced rules that fired ask for beside their scores, in the order of the rules. Not part of a
    /// verdict's own encoding: journals keep it beside.
    #[serde(skip)]
    pub effects: Vec<Consequence>,
}

/// An effect that a rule asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consequence {
    /// The rule's name.
    pub rule: String,
    /// The effect. Actions that are set or lifted are in [`Verdict::action`] already.
    pub effect: Effect,
}

/// A rule that fired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// The rule's name.
    pub rule: String,
    /// The score that the rule adds, but for the bounds of its group.
    pub score: f64,
    /// The values and effects as one line, e.g. `from.seen('1h') = 2310, mail.subject = "Cheap"; set reject`; empty
    /// until [`RuleSet::explain`].
    pub detail: String,
    /// The columns that the rule reads with the values seen, `None` where missing: ages and the number of bytes as text,
    /// long texts and lists cut.
    /// Empty until [`RuleSet::explain`].
    pub values: Vec<(String, Option<Value>)>,
}

/// The outcome of the rules of a set for a row, and the room for it: used again for the next row, it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Evaluation {
    pub(crate) results: RuleResults,
    /// The sums that the rules of each group add without its bounds, in either view.
    sums: Vec<[f64; 2]>,
    fired: Vec<TableIndex<Rule>>,
    shadow: Vec<TableIndex<Rule>>,
    /// The addition of each rule that has fired.
    added: Vec<f64>,
    /// The share of each rule that has fired.
    shares: Vec<f64>,
    score: f64,
    bands: BandsInForce,
    action: Option<Action>,
    lifted: u16,
}

impl Evaluation {
    /// An evaluation with these enforced rules, ascending, and a score; the action is still to be found.
    pub(crate) fn of(fired: Vec<TableIndex<Rule>>, score: f64, bands: BandsInForce) -> Evaluation {
        Evaluation { fired, score, bands, ..Evaluation::default() }
    }

    /// The enforced rules that fired, in the order of the set.
    pub fn fired(&self) -> &[TableIndex<Rule>] {
        &self.fired
    }

    /// The rules in shadow that fired, in the order of the set.
    pub fn shadow(&self) -> &[TableIndex<Rule>] {
        &self.shadow
    }

    /// The share of a rule that fired, from 0 to 1: 1 where it has none.
    pub fn share(&self, rule: TableIndex<Rule>) -> f64 {
        self.shares.get(rule.get()).copied().unwrap_or(1.0)
    }

    /// See [`Verdict::score`].
    pub fn score(&self) -> f64 {
        self.score
    }

    /// See [`Verdict::action`].
    pub fn action(&self) -> Action {
        self.action.unwrap_or(Action::Accept)
    }

    /// The bands that the score was held against.
    pub fn bands(&self) -> &BandsInForce {
        &self.bands
    }
}

impl RuleSet {
    /// Judges a row into `outcome`, without an allocation once that has seen a row of this set. (A regular
    /// expression allocates when it is first used on a thread.)
    pub fn evaluate(&self, row: &Facts, outcome: &mut Evaluation) {
        self.evaluate_in_order(&self.order, row, outcome);
    }

    /// Evaluates a part of the rules: those that are left out do not fire. The selection is one of this set.
    pub fn evaluate_selected(&self, selection: &RuleSelection, row: &Facts, outcome: &mut Evaluation) {
        self.evaluate_in_order(&selection.order, row, outcome);
    }

    fn evaluate_in_order(&self, order: &[TableIndex<Rule>], row: &Facts, outcome: &mut Evaluation) {
        let Evaluation { results, sums, fired, shadow, added, shares, .. } = outcome;
        added.resize(self.rules.len(), 0.0);
        shares.resize(self.rules.len(), 1.0);
        results.fired.clear();
        results.fired.resize(self.rules.len(), 0);
        results.groups.clear();
        results.groups.resize(self.groups.len(), [0.0; 2]);
        sums.clear();
        sums.resize(self.groups.len(), [0.0; 2]);
        for list in [&mut *fired, &mut *shadow] {
            list.clear();
            list.reserve(self.rules.len());
        }
        let mut score = 0.0f64;
        for index in order {
            let rule = &self.rules[*index];
            if !rule.condition.fires_in(&EvalEnv::new(row, results)) || self.has_expired(rule, row) {
                continue;
            }
            let live = rule.mode == Mode::Enforce;
            results.fired[index.get()] =
                if live { ResultView::Live.bit() | ResultView::Trial.bit() } else { ResultView::Trial.bit() };
            if live { &mut *fired } else { &mut *shadow }.push(*index);
            let (share, adds) = rule.adds(&EvalEnv::new(row, results));
            (shares[index.get()], added[index.get()]) = (share, adds);
            match rule.group {
                None if live => score = sum(score, adds),
                None => {}
                Some(group) => {
                    let RuleGroup { floor, cap, .. } = &self.groups[group];
                    let views: &[ResultView] =
                        if live { &[ResultView::Live, ResultView::Trial] } else { &[ResultView::Trial] };
                    for view in views {
                        let raw = &mut sums[group.get()][*view as usize];
                        *raw = sum(*raw, adds);
                        results.groups[group.get()][*view as usize] = rounded(*raw).clamp(*floor, *cap);
                    }
                }
            }
        }
        for group in &results.groups {
            score = sum(score, group[ResultView::Live as usize]);
        }
        fired.sort_unstable();
        shadow.sort_unstable();
        outcome.score = rounded(score);
        outcome.bands = self.bands_in_force(row, &outcome.results);
        self.act(outcome);
    }

    /// Returns the bands as they begin for an event. Of groups with a `default_share` only that share of what they add above 0
    /// counts towards the `at` of bands that promise: the good events that a line is drawn from say little of those that are
    /// unlike them. What they add below 0 is held against the line, and not once more against `at`.
    pub(crate) fn bands_in_force(&self, row: &Facts, results: &RuleResults) -> BandsInForce {
        let mut least: Option<f64> = None;
        for (group, added) in self.groups.iter().zip(&results.groups) {
            if let Some(share) = group.default_share {
                let added = added[ResultView::Live as usize];
                let beyond = if added > 0.0 { (1.0 - share) * added } else { added };
                least = Some(least.unwrap_or(0.0) + beyond);
            }
        }
        self.bands.in_force_above(row, least.map(rounded))
    }

    /// Sets the action that the score and the effects of the rules that fired ask for.
    pub(crate) fn act(&self, outcome: &mut Evaluation) {
        outcome.lifted = 0;
        for index in &outcome.fired {
            for effect in &self.rules[*index].effects {
                if let Effect::Lift(action) = effect {
                    outcome.lifted |= bit(*action);
                }
            }
        }
        let lifted = outcome.lifted;
        let mut action = outcome.bands.action(outcome.score, |action| lifted & bit(action) != 0);
        for effect in outcome.fired.iter().flat_map(|index| &self.rules[*index].effects) {
            let set = match effect {
                Effect::Set(set) => *set,
                Effect::SetUnless { action: set, unless } if action != *unless => *set,
                _ => continue,
            };
            if lifted & bit(set) == 0 {
                action = set;
            }
        }
        outcome.action = Some(action);
    }

    /// Returns the enforced rules that fired, each with the share of its own score that it added, for a fit of scores
    /// ([`crate::fit_scores`]). Those without a score are left out.
    pub fn shares<'a>(
        &'a self,
        outcome: &'a Evaluation,
    ) -> impl Iterator<Item = (TableIndex<Rule>, f64)> + 'a {
        outcome.fired.iter().filter_map(|index| self.share_of(*index, outcome.added[index.get()]))
    }

    /// Returns what [`RuleSet::shares`] does of an outcome, of a verdict of this set.
    pub fn verdict_shares<'a>(
        &'a self,
        verdict: &'a Verdict,
    ) -> impl Iterator<Item = (TableIndex<Rule>, f64)> + 'a {
        verdict.reasons.iter().filter_map(|reason| self.share_of(self.index(&reason.rule)?, reason.score))
    }

    fn share_of(&self, index: TableIndex<Rule>, added: f64) -> Option<(TableIndex<Rule>, f64)> {
        let score = self.rules[index].score;
        (score != 0.0).then(|| (index, added / score))
    }

    /// Returns the rules as a fit of scores sees them: it moves those that are enforced but for the ones that stay.
    pub fn fit_rules(&self, stays: impl Fn(&Rule) -> bool) -> FitRules {
        let rule = |rule: &Rule| FitRule {
            score: rule.score,
            is_fitted: rule.mode == Mode::Enforce && !stays(rule),
            has_share: rule.share.is_some(),
            group: rule.group.map(TableIndex::get),
        };
        FitRules {
            rules: self.rules.iter().map(rule).collect(),
            bounds: self.groups.iter().map(|group| (group.floor, group.cap)).collect(),
        }
    }

    pub(crate) fn has_expired(&self, rule: &Rule, row: &Facts) -> bool {
        let (Some(expires), Some(time)) = (rule.expires, self.time) else { return false };
        matches!(row.get(time), Some(Value::Time(time)) if *time >= expires)
    }

    /// An outcome of this set with names instead of indices; the reasons' details are left to [`RuleSet::explain`].
    pub fn verdict(&self, outcome: &Evaluation) -> Verdict {
        let reasons = |fired: &[TableIndex<Rule>]| {
            let rules = fired.iter().map(|index| (&self.rules[*index], outcome.added[index.get()]));
            let mut reasons: Vec<Reason> = rules
                .map(|(rule, added)| Reason {
                    rule: rule.name.clone(),
                    score: added,
                    detail: String::new(),
                    values: Vec::new(),
                })
                .collect();
            reasons.sort_by(|a, b| b.score.abs().total_cmp(&a.score.abs()).then_with(|| a.rule.cmp(&b.rule)));
            reasons
        };
        let mut effects = Vec::new();
        for rule in outcome.fired.iter().map(|index| &self.rules[*index]) {
            let due = rule.effects.iter();
            effects.extend(due.map(|effect| Consequence { rule: rule.name.clone(), effect: effect.clone() }));
        }
        let lifted = |action| outcome.lifted & bit(action) != 0;
        Verdict {
            score: outcome.score,
            probability: outcome.bands.probability(outcome.score),
            action: outcome.action(),
            reasons: reasons(&outcome.fired),
            shadow: reasons(&outcome.shadow),
            next: outcome.bands.next(outcome.score, lifted),
            effects,
        }
    }

    /// Fills in the reasons' details with the values that `row` holds, with what each rule does beside its score,
    /// and with what a group's bounds leave of it. The set and the row are those that [`judge`] was given; a
    /// reason whose rule is not in the set stays as it is.
    pub fn explain(&self, verdict: &mut Verdict, row: &Facts) {
        let mut sums: Table<RuleGroup, f64> = self.groups.map(|_| 0.0);
        for reason in verdict.reasons.iter().filter(|_| !self.groups.is_empty()) {
            if let Some(group) = self.rule(&reason.rule).and_then(|rule| rule.group) {
                sums[group] = sum(sums[group], reason.score);
            }
        }
        for (enforced, reason) in verdict
            .reasons
            .iter_mut()
            .map(|reason| (true, reason))
            .chain(verdict.shadow.iter_mut().map(|reason| (false, reason)))
        {
            let Some(rule) = self.rule(&reason.rule) else { continue };
            (reason.values, reason.detail) = detail(rule, row);
            let mut separator = if reason.detail.is_empty() { "" } else { "; " };
            for effect in &rule.effects {
                // Writing to a string cannot fail.
                let _ = write!(reason.detail, "{separator}{effect}");
                separator = ", ";
            }
            if let Some(group) = rule.group.filter(|_| enforced) {
                let (RuleGroup { name, floor, cap, .. }, total) = (&self.groups[group], rounded(sums[group]));
                if total < *floor || total > *cap {
                    let separator = if reason.detail.is_empty() { "" } else { "; " };
                    let kept = total.clamp(*floor, *cap);
                    let _ = write!(reason.detail, "{separator}group {name} counts {kept} of {total}");
                }
            }
        }
    }
}

/// Judges a row.
///
/// Pure: the same set and row give the same verdict. The reasons' details are left to [`RuleSet::explain`]. Whoever
/// judges many rows and looks at few verdicts takes [`RuleSet::evaluate`].
pub fn judge(set: &RuleSet, row: &Facts) -> Verdict {
    let mut outcome = Evaluation::default();
    set.evaluate(row, &mut outcome);
    set.verdict(&outcome)
}

fn bit(action: Action) -> u16 {
    1 << action as u16
}

/// Returns what a rule reads with the values seen, and as one line.
pub(crate) fn detail(rule: &Rule, row: &Facts) -> (Vec<(String, Option<Value>)>, String) {
    let mut line = String::new();
    let mut add = |read: &ColumnRead| {
        let (separator, name, value) = (if line.is_empty() { "" } else { ", " }, &read.text, seen(read, row));
        // Writing to a string cannot fail.
        let _ = match &value {
            None => write!(line, "{separator}{name} is missing"),
            // Quoted and escaped: the sender chose it.
            Some(Value::String(text)) if matches!(row.get(read.slot), Some(Value::String(_))) => {
                write!(line, "{separator}{name} = {text:?}")
            }
            Some(Value::List(items)) => write!(line, "{separator}{name} = {items:?}"),
            Some(other) => write!(line, "{separator}{name} = {other}"),
        };
        (name.clone(), value)
    };
    let values = rule.reads().map(&mut add).collect();
    (values, line)
}

/// Longest text of a value in a reason, in characters.
const TEXT_CHARS_MAX: usize = 80;
/// Most items of a list in a reason.
const ITEMS_MAX: usize = 4;

/// A value as a reason keeps it.
fn seen(read: &ColumnRead, row: &Facts) -> Option<Value> {
    Some(match row.get(read.slot)? {
        Value::String(text) => Value::from(cut(text)),
        Value::List(items) => {
            let mut shown: Vec<String> = items.iter().take(ITEMS_MAX).map(|item| cut(item)).collect();
            if items.len() > ITEMS_MAX {
                shown.push(format!("… {} more", items.len() - ITEMS_MAX));
            }
            Value::from(shown)
        }
        Value::Bytes(bytes) => Value::from(format!("{} bytes", bytes.len())),
        Value::Integer(micros) if read.is_age => Value::from(Span(*micros).to_string()),
        other => other.clone(),
    })
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

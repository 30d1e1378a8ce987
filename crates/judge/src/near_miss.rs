//! Rules that nearly fired, and what of a score is whose.

use event::{Facts, TableIndex, Value};

use crate::action::{Action, BandsInForce, Mode};
use crate::expr::{EvalEnv, ResultView, RuleResults};
use crate::outline::{OutlinePart, UnmetPart};
use crate::rule::{Rule, RuleGroup, RuleSet};
use crate::score::rounded;
use crate::verdict::{Evaluation, Reason, Verdict, detail};

/// A rule that did not fire, and what was missing to it.
#[derive(Clone, Debug, PartialEq)]
pub struct NearMiss {
    /// The rule, of its set.
    pub rule: TableIndex<Rule>,
    /// The fewest parts of its condition that would have to be otherwise.
    pub parts: Vec<UnmetPart>,
    /// The values that it reads, as [`Reason::detail`](crate::Reason::detail) tells it.
    pub detail: String,
    /// The values that it reads, as [`Reason::values`](crate::Reason::values) has it.
    pub values: Vec<(String, Option<Value>)>,
    /// The score had it fired and all else been the same: unchanged for a rule in shadow.
    pub score: f64,
    /// The action had it fired.
    pub action: Action,
}

/// The distance of parts from being otherwise: 1 for each, less for a number the nearer it is to its bound.
fn distance(parts: &[OutlinePart<'_>]) -> f64 {
    parts.iter().map(|part| 1.0 - part.reached.unwrap_or(0.0)).sum()
}

impl RuleSet {
    /// The rules that came closest to firing, closest first, at most `limit`.
    ///
    /// A rule is the closer the fewer parts of its condition would have to be otherwise, and the nearer compared numbers are: of
    /// comparisons, functions and facts between `&&`, `||`, `!` and `?`, each taken to be free of the others, each counts 1, and
    /// a number that is near its bound less ([`UnmetPart::reached`]). Of rules equally close, those whose score is the larger
    /// come first, then by name. Rules that are off or have expired are left out, and so is what
    /// `is_known` refuses: rules that read what `row` no longer has.
    ///
    /// `verdict` says which rules fired; it is that of this set, and `row` is what it was judged by.
    pub fn nearest(
        &self,
        verdict: &Verdict,
        row: &Facts,
        limit: usize,
        is_known: impl Fn(&Rule) -> bool,
    ) -> Vec<NearMiss> {
        let results = self.results(verdict);
        let mut close: Vec<(f64, TableIndex<Rule>)> = Vec::new();
        for (index, rule) in self.rules.entries() {
            let fired = results.fired[index.get()] != 0;
            if rule.mode == Mode::Off || fired || self.has_expired(rule, row) || !is_known(rule) {
                continue;
            }
            let changes = rule.condition.changes(&EvalEnv::new(row, &results));
            // A condition that holds although its rule did not fire was judged by another set or row.
            if !changes.is_empty() {
                close.push((distance(&changes), index));
            }
        }
        close.sort_by(|(a, x), (b, y)| {
            let (x, y) = (&self.rules[*x], &self.rules[*y]);
            a.total_cmp(b)
                .then_with(|| y.score.abs().total_cmp(&x.score.abs()))
                .then_with(|| x.name.cmp(&y.name))
        });
        close.truncate(limit);
        let miss = |(_, index): (f64, TableIndex<Rule>)| {
            let rule = &self.rules[index];
            let mut parts: Vec<UnmetPart> = Vec::new();
            for part in rule.condition.changes(&EvalEnv::new(row, &results)) {
                // What stands for a name has the name's place.
                if !parts.iter().any(|other| other.part == part.source) {
                    parts.push(UnmetPart::from(part));
                }
            }
            let (values, detail) = detail(rule, row);
            let (_, adds) = rule.adds(&EvalEnv::new(row, &results));
            let (score, action) = self.had_it_fired(index, adds, verdict, row);
            NearMiss { rule: index, parts, detail, values, score, action }
        };
        close.into_iter().map(miss).collect()
    }

    /// Returns what each reason of a verdict of this set adds to its score, in their order: where a group's bounds keep less
    /// than its rules have together, the same share of each. All of them together are the score, but for rounding.
    pub fn counted(&self, verdict: &Verdict) -> Vec<f64> {
        let rules: Vec<Option<&Rule>> =
            verdict.reasons.iter().map(|reason| self.rule(&reason.rule)).collect();
        let share = |rule: &&Rule| {
            let Some(group) = rule.group else { return 1.0 };
            let RuleGroup { floor, cap, .. } = &self.groups[group];
            let is_of_group = |other: &Option<&Rule>| other.is_some_and(|other| other.group == rule.group);
            let all = verdict.reasons.iter().zip(&rules);
            let total: f64 =
                all.filter(|(_, other)| is_of_group(other)).map(|(reason, _)| reason.score).sum();
            if total == 0.0 { 1.0 } else { total.clamp(*floor, *cap) / total }
        };
        let counted = verdict.reasons.iter().zip(&rules);
        counted.map(|(reason, rule)| reason.score * rule.as_ref().map_or(1.0, share)).collect()
    }

    /// Returns the bands as they begin for an event with this verdict of the set.
    pub fn bands_for(&self, row: &Facts, verdict: &Verdict) -> BandsInForce {
        match self.groups.iter().any(|group| group.default_share.is_some()) {
            true => self.bands_in_force(row, &self.results(verdict)),
            false => self.bands.in_force(row),
        }
    }

    /// The results of the rules and groups, as a verdict reports them.
    fn results(&self, verdict: &Verdict) -> RuleResults {
        let mut results =
            RuleResults { fired: vec![0; self.rules.len()], groups: vec![[0.0; 2]; self.groups.len()] };
        let mut sums = vec![[0.0f64; 2]; self.groups.len()];
        for (live, reason) in verdict
            .reasons
            .iter()
            .map(|reason| (true, reason))
            .chain(verdict.shadow.iter().map(|reason| (false, reason)))
        {
            let Some(index) = self.index(&reason.rule) else { continue };
            let views: &[ResultView] =
                if live { &[ResultView::Live, ResultView::Trial] } else { &[ResultView::Trial] };
            for view in views {
                results.fired[index.get()] |= view.bit();
                if let Some(group) = self.rules[index].group {
                    sums[group.get()][*view as usize] += reason.score;
                }
            }
        }
        for ((scores, sums), RuleGroup { floor, cap, .. }) in
            results.groups.iter_mut().zip(&sums).zip(&self.groups)
        {
            for (score, sum) in scores.iter_mut().zip(sums) {
                *score = rounded(*sum).clamp(*floor, *cap);
            }
        }
        results
    }

    fn had_it_fired(
        &self,
        index: TableIndex<Rule>,
        adds: f64,
        verdict: &Verdict,
        row: &Facts,
    ) -> (f64, Action) {
        let rule = &self.rules[index];
        if rule.mode != Mode::Enforce {
            return (verdict.score, verdict.action);
        }
        let fired = verdict.reasons.iter().filter_map(|reason| self.index(&reason.rule));
        let mut fired: Vec<TableIndex<Rule>> = fired.collect();
        fired.push(index);
        fired.sort_unstable();
        let is_of_group =
            |reason: &&Reason| self.rule(&reason.rule).is_some_and(|other| other.group == rule.group);
        let added = match rule.group.map(|group| &self.groups[group]) {
            None => adds,
            Some(RuleGroup { floor, cap, .. }) => {
                let without: f64 =
                    verdict.reasons.iter().filter(is_of_group).map(|reason| reason.score).sum();
                rounded(without + adds).clamp(*floor, *cap) - rounded(without).clamp(*floor, *cap)
            }
        };
        let mut results = self.results(verdict);
        if let Some(group) = rule.group {
            results.groups[group.get()][ResultView::Live as usize] += added;
        }
        let bands = self.bands_in_force(row, &results);
        let mut outcome = Evaluation::of(fired, rounded(verdict.score + added), bands);
        self.act(&mut outcome);
        (outcome.score(), outcome.action())
    }
}

//! Rules, and the sets in which they are checked and judged together.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

use data_encoding::HEXLOWER;
use event::{Slot, Span, Table, TableIndex, Time, Type, Value};
use sha2::{Digest, Sha256};

use crate::action::{Bands, Mode};
use crate::bounds::Interval;
use crate::check::{ConditionContext, Siblings, compile_in, compile_share, operand};
use crate::condition::{ColumnRead, Condition, RuleReference, ScoreShare};
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::effect::{self, Effect};
use crate::expr::{EvalEnv, ResultView};
use crate::library::Library;
use crate::scope::Scope;
use crate::score::rounded;

/// A rule as its file has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleSource {
    /// The name that reasons give, unique in its set.
    pub name: String,
    /// The condition.
    pub when: String,
    /// The score that is added where the condition holds; may be negative.
    pub score: f64,
    /// A number: the part of the score that is added, cut to 0 to 1.
    pub share: Option<String>,
    /// A description for people.
    pub description: String,
    /// The owner who answers for it, for people.
    pub owner: String,
    /// The mode: how seriously it is taken.
    pub mode: Mode,
    /// The group that it belongs to.
    pub group: Option<String>,
    /// From this time of events on it is off.
    pub expires: Option<Time>,
    /// Effects beside the score, see [`Effect`].
    pub effects: Vec<String>,
    /// Rows for which it is to fire, or not.
    pub tests: Vec<RuleTest>,
}

/// A row that a rule is tried on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleTest {
    /// Facts and readings as rules name them, and their values: ages as text such as `2h`, all else as a
    /// [`Value::coerce`] takes it. What is not named is missing.
    pub facts: Vec<(String, Value)>,
    /// True if the rule is to fire.
    pub fires: bool,
}

/// A group as its file has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupSource {
    /// Its name, unique in its set.
    pub name: String,
    /// A description for people.
    pub description: String,
    /// The most that its rules add together; at least 0.
    pub cap: Option<f64>,
    /// The least that its rules add together; at most 0.
    pub floor: Option<f64>,
    /// The share of what its rules add that counts towards the `at` of bands that promise, from 0 to 1; `None`: they do not
    /// ask for it.
    pub default_share: Option<f64>,
}

/// The parts of a set.
#[derive(Clone, Debug, Default)]
pub struct RuleSetSource {
    /// The rules, in the order in which the last one's `set` has the say.
    pub rules: Vec<RuleSource>,
    /// The groups.
    pub groups: Vec<GroupSource>,
    /// The bands that the score falls into.
    pub bands: Bands,
    /// Definitions that conditions may name beside facts and readings.
    pub library: Library,
}

/// A fault of a set, or something suspicious about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleProblem {
    /// The part that it is about.
    pub part: RuleSetPart,
    /// The fault; its range is in the source of a condition or an effect, and empty for all else.
    pub diagnostic: Diagnostic,
}

/// A part of a [`RuleSetSource`]. Rules and groups are told by their index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSetPart {
    /// The set as a whole.
    Set,
    /// A group.
    Group(usize),
    /// A rule's name.
    Name(usize),
    /// A rule's condition.
    When(usize),
    /// A rule's score.
    Score(usize),
    /// The share of its score that a rule adds.
    Share(usize),
    /// The group that a rule names.
    GroupOf(usize),
    /// One of a rule's effects, by its index.
    Effect(usize, usize),
    /// One of a rule's tests, by its index.
    Test(usize, usize),
}

/// A rule that was checked and compiled.
#[derive(Debug)]
pub struct Rule {
    /// The name that reasons give, unique in its set.
    pub name: String,
    /// A description for people.
    pub description: String,
    /// The owner who answers for it, for people.
    pub owner: String,
    /// The score that is added where the condition holds; may be negative.
    pub score: f64,
    /// The part of it that is added; `None` for all of it.
    pub share: Option<ScoreShare>,
    /// The mode: how seriously it is taken.
    pub mode: Mode,
    /// Its group, of [`RuleSet::groups`].
    pub group: Option<TableIndex<RuleGroup>>,
    /// From this time of events on it is off.
    pub expires: Option<Time>,
    /// The condition on which it fires.
    pub condition: Condition,
    /// The source of the condition.
    pub when: String,
    /// Effects beside the score.
    pub effects: Vec<Effect>,
    pub(crate) tests: Vec<CompiledTest>,
}

/// A compiled [`RuleTest`].
#[derive(Debug)]
pub(crate) struct CompiledTest {
    pub(crate) facts: Vec<(Slot, Value)>,
    pub(crate) fires: bool,
}

/// Rules that add to the score together, within bounds.
#[derive(Clone, Debug)]
pub struct RuleGroup {
    /// Its name.
    pub name: String,
    /// A description for people.
    pub description: String,
    /// The least that its rules add together, not above 0; may be infinite.
    pub floor: f64,
    /// The most that its rules add together, not below 0; may be infinite.
    pub cap: f64,
    /// The share of what its rules add above 0 with which an event must reach the `at` of a band that promises, see
    /// [`RuleSet::evaluate`].
    pub default_share: Option<f64>,
}

/// Rules that are judged together, and the bands that their score falls into.
#[derive(Debug, Default)]
pub struct RuleSet {
    pub(crate) rules: Table<Rule>,
    pub(crate) groups: Table<RuleGroup>,
    pub(crate) bands: Bands,
    /// The rules that are judged, each behind those that it refers to.
    pub(crate) order: Vec<TableIndex<Rule>>,
    /// The column of the event's time, by which rules expire.
    pub(crate) time: Option<Slot>,
    by_name: HashMap<String, TableIndex<Rule>>,
    version: String,
    warnings: Vec<RuleProblem>,
}

/// The rules of a set that can be judged of rows in which not every column is known, see [`RuleSet::select`].
#[derive(Clone, Debug)]
pub struct RuleSelection {
    pub(crate) order: Vec<TableIndex<Rule>>,
    left_out: Vec<TableIndex<Rule>>,
}

impl RuleSelection {
    /// The rules that cannot be judged, in the order of the set. Rules that are off are not among them.
    pub fn left_out(&self) -> &[TableIndex<Rule>] {
        &self.left_out
    }

    /// Returns the selection without one more rule, which then is one that does not fire.
    pub fn without(&self, rule: TableIndex<Rule>) -> RuleSelection {
        let mut fewer = self.clone();
        fewer.order.retain(|index| *index != rule);
        fewer
    }
}

impl RuleSet {
    /// Most rules of a set.
    pub const RULES_MAX: usize = 10_000;
    /// Most groups of a set.
    pub const GROUPS_MAX: usize = 1_000;
    /// Longest name of a rule or a group, in bytes.
    pub const NAME_BYTES_MAX: usize = 128;
    /// Most effects of a rule.
    pub const EFFECTS_MAX: usize = 16;
    /// Dearest accepted set: the sum of [`Condition::cost`] over its rules that are not off.
    pub const COST_MAX: u32 = 500_000;

    /// Checks rules, compiles them, and finds an order in which each comes after what it refers to.
    ///
    /// # Errors
    /// All that is wrong with any of them, and what is suspicious, in the order of the source; at least one is an
    /// error, unless all that is wrong is in a definition of the library, which was told when that was compiled.
    pub fn compile(source: RuleSetSource, scope: &mut dyn Scope) -> Result<RuleSet, Vec<RuleProblem>> {
        let version = version(&source);
        let RuleSetSource { rules: sources, groups, bands, library } = source;
        let mut found = ProblemCollector(Vec::new());
        if sources.len() > RuleSet::RULES_MAX || groups.len() > RuleSet::GROUPS_MAX {
            let message =
                format!("a set has at most {} rules and {} groups", RuleSet::RULES_MAX, RuleSet::GROUPS_MAX);
            found.add(RuleSetPart::Set, Diagnostic::new(message, 0..0));
            return Err(found.0);
        }
        let mut siblings = Siblings::default();
        let groups = found.groups(groups, &mut siblings);
        found.names(&sources, &mut siblings);
        siblings.bounds = bounds(&groups, &sources, &siblings);

        let time = scope.fact("event.time").filter(|(_, kind)| *kind == Type::Time).map(|(slot, _)| slot);
        let mut rules = Vec::with_capacity(sources.len());
        let mut cost = 0u32;
        for (index, source) in sources.into_iter().enumerate() {
            let view = if source.mode == Mode::Enforce { ResultView::Live } else { ResultView::Trial };
            let context = ConditionContext { library: &library, siblings: Some((&siblings, view)) };
            let rule = found.rule(index, source, &groups, context, scope);
            if let Some(rule) = &rule
                && rule.mode != Mode::Off
            {
                cost = cost.saturating_add(rule.cost());
            }
            rules.push(rule);
            if scope.is_over() || cost > RuleSet::COST_MAX {
                break;
            }
        }
        if scope.is_over() {
            found.add(RuleSetPart::Set, Diagnostic::new("compiling was ended", 0..0));
        }
        if cost > RuleSet::COST_MAX {
            let message = format!(
                "the rules cost more than {} together, which is the most accepted",
                RuleSet::COST_MAX
            );
            let help = "turn off what is not needed, or look for what is dear: a regular expression, a search in a list";
            found.add(RuleSetPart::Set, Diagnostic::new(message, 0..0).help(help));
        }
        let order = found.order(&rules, groups.len());
        let rules: Option<Table<Rule>> = rules.into_iter().collect();
        match rules {
            Some(rules) if !found.has_errors() => {
                let by_name = rules.entries().map(|(index, rule)| (rule.name.clone(), index)).collect();
                let order = order.into_iter().filter_map(|number| rules.index(number));
                let order = order.filter(|index| rules[*index].mode != Mode::Off).collect();
                Ok(RuleSet { rules, groups, bands, order, time, by_name, version, warnings: found.0 })
            }
            _ => Err(found.0),
        }
    }

    /// The rules, in the order given.
    pub fn rules(&self) -> &Table<Rule> {
        &self.rules
    }

    /// The rule of this name.
    pub fn rule(&self, name: &str) -> Option<&Rule> {
        self.index(name).map(|index| &self.rules[index])
    }

    /// Returns the place of the rule of a name.
    pub fn index(&self, name: &str) -> Option<TableIndex<Rule>> {
        self.by_name.get(name).copied()
    }

    /// The groups, in the order given.
    pub fn groups(&self) -> &Table<RuleGroup> {
        &self.groups
    }

    /// The bands.
    pub fn bands(&self) -> &Bands {
        &self.bands
    }

    /// A hash of everything that it was made of but for how conditions are laid out, 16 hexadecimal digits: sets of one
    /// version judge alike, if their scopes gave them the same columns.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns what is legal and suspicious about it, in the order of its source.
    pub fn warnings(&self) -> &[RuleProblem] {
        &self.warnings
    }

    /// Returns what judging a row costs at most, in the unit of [`Condition::cost`].
    pub fn cost(&self) -> u32 {
        self.order.iter().map(|index| self.rules[*index].cost()).sum()
    }

    /// The rules that can be judged where not every column is known: all but those that read one that is not `known`, or refers to a rule or a group of which that is true.
    pub fn select(&self, known: impl Fn(&ColumnRead) -> bool) -> RuleSelection {
        let mut rules = vec![false; self.rules.len()];
        let mut groups = vec![false; self.groups.len()];
        let mut selection =
            RuleSelection { order: Vec::with_capacity(self.order.len()), left_out: Vec::new() };
        // Each comes behind what it refers to.
        for index in &self.order {
            let rule = &self.rules[*index];
            let refers_to_left_out = rule.refers().any(|(reference, _)| match reference {
                RuleReference::Rule(other) => rules[*other as usize],
                RuleReference::Group(group) => groups[*group as usize],
            });
            if !refers_to_left_out && rule.reads().all(&known) {
                selection.order.push(*index);
                continue;
            }
            rules[index.get()] = true;
            if let Some(group) = rule.group {
                groups[group.get()] = true;
            }
            selection.left_out.push(*index);
        }
        selection.left_out.sort_unstable();
        selection
    }
}

impl Rule {
    /// The columns that its condition and its share read, each once, in the order in which they name them.
    pub fn reads(&self) -> impl Iterator<Item = &ColumnRead> {
        let reads = self.condition.reads();
        let share = self.share.as_ref().map(ScoreShare::reads).unwrap_or_default();
        let further = share.iter().filter(|read| reads.iter().all(|other| other.slot != read.slot));
        reads.iter().chain(further)
    }

    /// Returns the work that it is, see [`Condition::cost`].
    pub fn cost(&self) -> u32 {
        self.condition.cost().saturating_add(self.share.as_ref().map_or(0, ScoreShare::cost))
    }

    /// Returns the references to its set, and where in the source of condition or share.
    fn refers(&self) -> impl Iterator<Item = &(RuleReference, Range<usize>)> {
        let share = self.share.as_ref().map(ScoreShare::refers).unwrap_or_default();
        self.condition.refers().iter().chain(share)
    }

    /// Returns its share, which is the whole without one, and what it then adds to the score where it fires.
    pub(crate) fn adds(&self, env: &EvalEnv<'_>) -> (f64, f64) {
        match &self.share {
            None => (1.0, self.score),
            Some(share) => {
                let share = share.evaluate_in(env);
                (share, rounded(self.score * share))
            }
        }
    }

    /// Returns for each of its tests whether it is to fire.
    pub fn tests(&self) -> impl ExactSizeIterator<Item = bool> + '_ {
        self.tests.iter().map(|test| test.fires)
    }
}

/// Collects what is wrong.
struct ProblemCollector(Vec<RuleProblem>);

impl ProblemCollector {
    fn add(&mut self, part: RuleSetPart, diagnostic: Diagnostic) {
        self.0.push(RuleProblem { part, diagnostic });
    }

    fn has_errors(&self) -> bool {
        self.0.iter().any(|problem| problem.diagnostic.severity == crate::Severity::Error)
    }

    fn groups(&mut self, sources: Vec<GroupSource>, siblings: &mut Siblings) -> Table<RuleGroup> {
        let mut groups = Table::default();
        for (index, GroupSource { name, description, cap, floor, default_share }) in
            sources.into_iter().enumerate()
        {
            if let Some(message) = unnameable("group", &name) {
                self.add(RuleSetPart::Group(index), Diagnostic::new(message, 0..0));
            }
            let (low, high) = (floor.unwrap_or(f64::NEG_INFINITY), cap.unwrap_or(f64::INFINITY));
            let finite = [cap, floor].into_iter().flatten().all(f64::is_finite);
            if !(finite && low <= 0.0 && high >= 0.0) {
                let message = format!("the bounds of group `{name}` do not have 0 between them");
                let help =
                    "a group of which no rule fires adds 0: give a `cap` from 0 up and a `floor` from 0 down";
                self.add(RuleSetPart::Group(index), Diagnostic::new(message, 0..0).help(help));
            }
            if default_share.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
                let message = format!("the `default_share` of group `{name}` is not between 0 and 1");
                self.add(RuleSetPart::Group(index), Diagnostic::new(message, 0..0));
            }
            if siblings.groups.insert(name.clone(), index as u32).is_some() {
                let message = format!("two groups are named `{name}`");
                self.add(RuleSetPart::Group(index), Diagnostic::new(message, 0..0));
            }
            groups.push(RuleGroup { name, description, floor: low, cap: high, default_share });
        }
        groups
    }

    fn names(&mut self, sources: &[RuleSource], siblings: &mut Siblings) {
        for (index, source) in sources.iter().enumerate() {
            let name = &source.name;
            if let Some(message) = unnameable("rule", name) {
                self.add(RuleSetPart::Name(index), Diagnostic::new(message, 0..0));
            }
            if siblings.rules.contains_key(name) {
                self.add(
                    RuleSetPart::Name(index),
                    Diagnostic::new(format!("two rules are named `{name}`"), 0..0),
                );
            } else {
                siblings.rules.insert(name.clone(), (index as u32, source.mode));
            }
            if !source.score.is_finite() {
                let message = format!("the score of rule `{name}` is no finite number");
                self.add(RuleSetPart::Score(index), Diagnostic::new(message, 0..0));
            }
        }
    }

    fn rule(
        &mut self,
        index: usize,
        source: RuleSource,
        groups: &Table<RuleGroup>,
        context: ConditionContext<'_>,
        scope: &mut dyn Scope,
    ) -> Option<Rule> {
        let condition = match compile_in(&source.when, context, scope) {
            Ok(condition) => {
                for warning in condition.warnings() {
                    self.add(RuleSetPart::When(index), warning.clone());
                }
                Some(condition)
            }
            Err(found) => {
                found.into_iter().for_each(|diagnostic| self.add(RuleSetPart::When(index), diagnostic));
                None
            }
        };
        let share = match source.share.as_ref().map(|source| compile_share(source, context, scope)) {
            None => Some(None),
            Some(Ok(share)) => {
                for warning in share.warnings() {
                    self.add(RuleSetPart::Share(index), warning.clone());
                }
                Some(Some(share))
            }
            Some(Err(found)) => {
                found.into_iter().for_each(|diagnostic| self.add(RuleSetPart::Share(index), diagnostic));
                None
            }
        };
        let group = source.group.as_ref().and_then(|name| {
            let siblings = context.siblings.map(|(siblings, _)| &siblings.groups)?;
            let number = siblings.get(name);
            if number.is_none() {
                let help = did_you_mean(name, siblings.keys());
                let help = help.unwrap_or_else(|| "define it with [[group]]".to_owned());
                let message = format!("there is no group `{name}`");
                self.add(RuleSetPart::GroupOf(index), Diagnostic::new(message, 0..0).help(help));
            }
            groups.index(*number? as usize)
        });
        if source.effects.len() > RuleSet::EFFECTS_MAX {
            let message = format!("a rule has at most {} effects", RuleSet::EFFECTS_MAX);
            self.add(RuleSetPart::Effect(index, RuleSet::EFFECTS_MAX), Diagnostic::new(message, 0..0));
        }
        let mut effects = Vec::new();
        for (number, text) in source.effects.iter().enumerate().take(RuleSet::EFFECTS_MAX) {
            match effect::compile(text, scope) {
                Ok(Effect::AddShare { .. }) if source.share.is_none() => {
                    let help = "add `share = \"...\"`, a number from 0 to 1, or leave `times share` out";
                    let diagnostic = Diagnostic::new("the rule has no share", 0..0).help(help);
                    self.add(RuleSetPart::Effect(index, number), diagnostic);
                }
                Ok(effect) => effects.push(effect),
                Err(diagnostic) => self.add(RuleSetPart::Effect(index, number), diagnostic),
            }
        }
        let mut tests = Vec::new();
        for (number, test) in source.tests.into_iter().enumerate() {
            let mut facts = Vec::with_capacity(test.facts.len());
            for (name, value) in test.facts {
                match fact(&name, value, context, scope) {
                    Ok(fact) => facts.push(fact),
                    Err(diagnostic) => self.add(RuleSetPart::Test(index, number), diagnostic),
                }
            }
            tests.push(CompiledTest { facts, fires: test.fires });
        }
        let RuleSource { name, when, score, description, owner, mode, expires, .. } = source;
        Some(Rule {
            name,
            description,
            owner,
            score,
            share: share?,
            mode,
            group,
            expires,
            condition: condition?,
            when,
            effects,
            tests,
        })
    }

    /// An order in which each rule comes after those that it refers to, else in the order given. Rules that refer
    /// to each other in a circle are told of, and left out.
    fn order(&mut self, rules: &[Option<Rule>], groups: usize) -> Vec<usize> {
        // A group is a node of its own, behind its rules, or else large groups would make many edges.
        let count = rules.len();
        let mut needs: Vec<Vec<usize>> = vec![Vec::new(); count + groups];
        for (index, rule) in rules.iter().enumerate() {
            let Some(rule) = rule else { continue };
            needs[index].extend(rule.refers().map(|(reference, _)| match reference {
                RuleReference::Rule(other) => *other as usize,
                RuleReference::Group(group) => count + *group as usize,
            }));
            if let Some(group) = rule.group {
                needs[count + group.get()].push(index);
            }
        }
        let mut wanted_by: Vec<Vec<usize>> = vec![Vec::new(); needs.len()];
        let mut open: Vec<usize> = needs.iter().map(Vec::len).collect();
        for (node, needs) in needs.iter().enumerate() {
            needs.iter().for_each(|needed| wanted_by[*needed].push(node));
        }
        let free = open.iter().enumerate().filter(|(_, open)| **open == 0).map(|(node, _)| Reverse(node));
        let mut ready: BinaryHeap<Reverse<usize>> = free.collect();
        let mut order = Vec::with_capacity(count);
        while let Some(Reverse(node)) = ready.pop() {
            if node < count {
                order.push(node);
            }
            for wanting in &wanted_by[node] {
                open[*wanting] -= 1;
                if open[*wanting] == 0 {
                    ready.push(Reverse(*wanting));
                }
            }
        }
        if let Some(start) = (0..count).find(|node| open[*node] > 0) {
            self.circle(start, rules, &needs, &open);
        }
        order
    }

    /// Tells of a circle that is reached from a rule.
    fn circle(&mut self, start: usize, rules: &[Option<Rule>], needs: &[Vec<usize>], open: &[usize]) {
        let mut path = vec![start];
        let circle = loop {
            let last = path[path.len() - 1];
            // What is still open needs something that is still open.
            let Some(next) = needs[last].iter().copied().find(|node| open[*node] > 0) else { return };
            if let Some(at) = path.iter().position(|node| *node == next) {
                break path.split_off(at);
            }
            path.push(next);
        };
        // A group refers to nothing by itself, so there is a rule in every circle.
        let Some(first) = circle.iter().position(|node| *node < rules.len()) else { return };
        let steps = circle.iter().cycle().skip(first).take(circle.len() + 1);
        let names: Vec<&str> =
            steps.filter_map(|node| rules.get(*node)?.as_ref().map(|rule| rule.name.as_str())).collect();
        let next = circle[(first + 1) % circle.len()];
        let rule = circle[first];
        let to_next = |(reference, range): &(RuleReference, Range<usize>)| {
            let node = match reference {
                RuleReference::Rule(other) => *other as usize,
                RuleReference::Group(group) => rules.len() + *group as usize,
            };
            (node == next).then(|| range.clone())
        };
        let of_condition = rules[rule].iter().flat_map(|rule| rule.condition.refers()).find_map(to_next);
        let of_share = || {
            rules[rule]
                .iter()
                .filter_map(|rule| rule.share.as_ref())
                .flat_map(ScoreShare::refers)
                .find_map(to_next)
        };
        let (part, range) = match (of_condition, of_share) {
            (Some(range), _) => (RuleSetPart::When(rule), range),
            (None, of_share) => match of_share() {
                Some(range) => (RuleSetPart::Share(rule), range),
                None => (RuleSetPart::When(rule), 0..0),
            },
        };
        let message = format!("rules refer to each other in a circle: {}", names.join(" → "));
        let help = "a rule sees the results of those that do not depend on its own";
        self.add(part, Diagnostic::new(message, range).help(help));
    }
}

fn unnameable(what: &str, name: &str) -> Option<String> {
    let bad = name.is_empty() || name.len() > RuleSet::NAME_BYTES_MAX;
    let shown: String = name.chars().take(40).collect();
    bad.then(|| format!("a {what}'s name has 1 to {} bytes: `{shown}`", RuleSet::NAME_BYTES_MAX))
}

/// Between what the score of each group lies.
fn bounds(groups: &Table<RuleGroup>, sources: &[RuleSource], siblings: &Siblings) -> Vec<Interval> {
    /// Sums are rounded to a millionth, and in any order.
    const SLACK: f64 = 1e-3;
    let mut sums = vec![(0.0f64, 0.0f64); groups.len()];
    for rule in sources.iter().filter(|rule| rule.mode != Mode::Off) {
        let group = rule.group.as_ref().and_then(|name| siblings.groups.get(name));
        if let Some((low, high)) = group.and_then(|group| sums.get_mut(*group as usize)) {
            *low += rule.score.min(0.0);
            *high += rule.score.max(0.0);
        }
    }
    let within = |(group, (low, high)): (&RuleGroup, (f64, f64))| {
        Interval::new((low - SLACK).max(group.floor), (high + SLACK).min(group.cap))
    };
    groups.iter().zip(sums).map(within).collect()
}

/// The column and the value of a test's fact.
fn fact(
    name: &str,
    value: Value,
    context: ConditionContext<'_>,
    scope: &mut dyn Scope,
) -> Result<(Slot, Value), Diagnostic> {
    let (slot, kind, is_age) = operand(name, context, scope).map_err(|found| {
        let first = found.into_iter().next();
        let Diagnostic { message, help, .. } =
            first.unwrap_or_else(|| Diagnostic::new(format!("`{name}` is no fact and no reading"), 0..0));
        Diagnostic::new(format!("`{name}`: {message}"), 0..0).maybe_help(help)
    })?;
    let shown = value.to_string();
    let taken = match value {
        Value::String(text) if is_age => text.parse::<Span>().ok().map(|span| Value::Integer(span.0)),
        _ if is_age => None,
        value => value.coerce(kind),
    };
    taken.map(|value| (slot, value)).ok_or_else(|| {
        let shown: String = shown.chars().take(40).collect();
        let help = match is_age {
            true => "expected a length of time such as \"2h\"".to_owned(),
            false => format!("expected a value of type {kind}"),
        };
        Diagnostic::new(format!("`{name}` cannot be `{}`", shown.escape_debug()), 0..0).help(help)
    })
}

fn version(source: &RuleSetSource) -> String {
    let mut digest = Sha256::new();
    let mut part = |text: String| {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    };
    for rule in &source.rules {
        let share = rule.share.as_deref().map(crate::canonical);
        part(format!("{:?}", RuleSource { when: crate::canonical(&rule.when), share, ..rule.clone() }));
    }
    source.groups.iter().for_each(|group| part(format!("{group:?}")));
    part(format!("{:?}", source.bands));
    part(format!("{:?}", source.library.digest()));
    HEXLOWER.encode(&digest.finalize()[..8])
}

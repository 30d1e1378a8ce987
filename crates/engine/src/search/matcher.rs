//! The rows of a block that fit a filter, with nothing read of them that the filter does not need.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;

use content::piece::Normalisation;
use event::{Facts, Kind, Shingle, Slot, Type, Value};
use journal::{
    Block, DecisionHead, DecisionOutcome, DecisionSource, FactTest, IdRange, RecordId, RecordVisitor,
    RowQuery, SearchProbe, SegmentError, VersionDescription,
};
use judge::{Action, Condition};

use super::DecisionFilter;
use super::fact_tests::{self, PieceTest, TextTest, contains};
use super::logged_scope;

/// A key that is looked for in a pipeline.
#[derive(Debug)]
pub(super) struct KeyMatch {
    pub(super) pipeline: String,
    pub(super) kind: Kind,
    pub(super) shingle: Shingle,
    /// The piece that is hashed.
    pub(super) piece: String,
}

/// The use of a key in a version's rows.
#[derive(Debug)]
enum KeyTest {
    /// No key is looked for.
    Any,
    /// Compared as it is in the row's keys.
    Hashed(Kind, Shingle),
    /// Made of facts, which is less to read.
    Made(String, Vec<(Slot, Normalisation)>),
}

/// A filter as it goes for the rows of a version.
#[derive(Debug)]
pub(super) struct VersionMatcher {
    pipeline: String,
    version: String,
    /// No row of the version fits.
    fits_none: bool,
    /// The facts that are read, each in its own slot.
    wanted: Vec<Option<Slot>>,
    slots: Vec<Slot>,
    condition: Option<Condition>,
    /// The columns in which a text is looked for.
    texts: Vec<Slot>,
    key: KeyTest,
    /// Tests of single facts that each row which fits passes.
    tests: Vec<Box<dyn FactTest>>,
}

/// Versions that were met, to which references are handed out while others are added.
#[derive(Default)]
pub(super) struct VersionArena {
    first: OnceCell<Box<ArenaNode>>,
}

struct ArenaNode {
    version: VersionMatcher,
    next: OnceCell<Box<ArenaNode>>,
}

impl VersionArena {
    fn get(
        &self,
        (pipeline, version): (&str, &str),
        make: impl FnOnce() -> VersionMatcher,
    ) -> &VersionMatcher {
        let mut place = &self.first;
        while let Some(node) = place.get() {
            if node.version.is_of(pipeline, version) {
                return &node.version;
            }
            place = &node.next;
        }
        &place.get_or_init(|| Box::new(ArenaNode { version: make(), next: OnceCell::new() })).version
    }
}

impl DecisionFilter {
    /// The part that is asked of decisions of any version, whose ids are in a range.
    pub(super) fn row_query(&self, ids: IdRange) -> RowQuery<'_> {
        RowQuery {
            ids,
            actions: &self.actions,
            score_from: self.score_from,
            score_below: self.score_below,
            rule: self.rule.as_deref(),
            event_id: self.event_id.as_deref(),
        }
    }
}

/// A filter at work.
pub(super) struct RowMatcher<'a, S: ?Sized> {
    filter: &'a DecisionFilter,
    /// The text that is looked for, in lower case.
    text: Option<String>,
    keys: &'a [KeyMatch],
    source: &'a S,
    arena: &'a VersionArena,
}

impl<'a, S: DecisionSource + ?Sized> RowMatcher<'a, S> {
    pub(super) fn new(
        filter: &'a DecisionFilter,
        keys: &'a [KeyMatch],
        source: &'a S,
        arena: &'a VersionArena,
    ) -> RowMatcher<'a, S> {
        let text = filter.text.as_ref().map(|text| text.to_lowercase());
        RowMatcher { filter, text, keys, source, arena }
    }

    /// Returns what tells of blocks that nothing in them fits.
    pub(super) fn probe(&self) -> SearchProbe {
        let DecisionFilter { pipeline, actions, score_from, score_below, rule, event_id, text, .. } =
            self.filter;
        let mut probe = SearchProbe::default();
        probe.actions(actions);
        probe.scores(*score_from, *score_below);
        pipeline.iter().for_each(|name| probe.pipeline(name));
        rule.iter().for_each(|name| probe.rule(name));
        event_id.iter().for_each(|name| probe.event_id(name));
        text.iter().for_each(|text| probe.text(text));
        self.keys.iter().for_each(|key| probe.key(&key.pipeline, key.kind, key.shingle));
        probe
    }

    /// The decisions of a block with ids of a range that fit, but for their labels.
    ///
    /// # Errors
    /// If the block is damaged.
    pub(super) fn matches(&self, block: &Block, ids: IdRange) -> Result<Vec<RecordId>, SegmentError> {
        self.look(block, ids, None)
    }

    fn reads_facts(&self) -> bool {
        self.filter.condition.is_some() || self.text.is_some() || self.filter.key.is_some()
    }

    fn look(
        &self,
        block: &Block,
        ids: IdRange,
        fired: Option<&mut FiredRows>,
    ) -> Result<Vec<RecordId>, SegmentError> {
        let mut visitor = MatchVisitor {
            matcher: self,
            query: self.filter.row_query(ids),
            needs_keys: false,
            version: None,
            facts: Facts::default(),
            row: None,
            found: Vec::new(),
            fired,
        };
        block.look(&mut visitor)?;
        Ok(visitor.found)
    }

    /// Puts the decisions of a block that fit, but for their labels, behind others with the rules that fired.
    ///
    /// # Errors
    /// If the block is damaged.
    pub(super) fn fired(
        &self,
        block: &Block,
        ids: IdRange,
        into: &mut FiredRows,
    ) -> Result<(), SegmentError> {
        self.look(block, ids, Some(into)).map(drop)
    }

    fn version(&self, pipeline: &str, version: &str) -> &'a VersionMatcher {
        self.arena.get((pipeline, version), || self.compiled(pipeline, version))
    }

    fn compiled(&self, pipeline: &str, version: &str) -> VersionMatcher {
        let mut made = VersionMatcher::new(pipeline, version);
        made.fits_none = self.filter.pipeline.as_ref().is_some_and(|wanted| wanted != pipeline);
        if made.fits_none || !self.reads_facts() {
            return made;
        }
        match self.source.version(version) {
            Ok(description) => {
                made.compile(self.filter, self.keys, &description);
                made.compile_tests(self.filter.condition.as_deref(), self.text.as_deref(), &description);
            }
            // Nothing says which its facts are.
            Err(_) => made.fits_none = true,
        }
        made
    }
}

/// The way to find a key in the rows of a version: by the facts that make it, if all of them are logged.
fn key_test(key: &KeyMatch, description: &VersionDescription) -> KeyTest {
    let hashed = KeyTest::Hashed(key.kind, key.shingle);
    let Some(kind) = description.kinds.iter().find(|kind| kind.kind == key.kind) else { return hashed };
    let fields = kind.fields().map(|(slot, normalise)| {
        let is_logged = description.columns.get(usize::from(slot.0))?.journalled;
        is_logged.then_some((*slot, normalise.parse().ok()?))
    });
    match fields.collect::<Option<Vec<_>>>() {
        Some(fields) if !fields.is_empty() => KeyTest::Made(key.piece.clone(), fields),
        _ => hashed,
    }
}

impl VersionMatcher {
    /// A matcher that every row of the version fits.
    pub(super) fn new(pipeline: &str, version: &str) -> VersionMatcher {
        VersionMatcher {
            pipeline: pipeline.to_owned(),
            version: version.to_owned(),
            fits_none: false,
            wanted: Vec::new(),
            slots: Vec::new(),
            condition: None,
            texts: Vec::new(),
            key: KeyTest::Any,
            tests: Vec::new(),
        }
    }

    /// Takes in what a filter asks of the facts and keys of the version's rows.
    pub(super) fn compile(
        &mut self,
        filter: &DecisionFilter,
        keys: &[KeyMatch],
        description: &VersionDescription,
    ) {
        if let Some(source) = &filter.condition {
            match logged_scope::compile(source, description) {
                Ok(condition) => {
                    self.slots.extend(condition.reads().iter().map(|read| read.slot));
                    self.condition = Some(condition);
                }
                // It has not logged what is asked for.
                Err(_) => self.fits_none = true,
            }
        }
        if filter.text.is_some() {
            let columns = description.columns.iter().zip((0..).map(Slot));
            let texts = columns
                .filter(|(column, _)| column.journalled && matches!(column.kind, Type::String | Type::List));
            self.texts = texts.map(|(_, slot)| slot).collect();
            self.slots.extend(&self.texts);
        }
        if filter.key.is_some() {
            match keys.iter().find(|key| key.pipeline == self.pipeline) {
                None => self.fits_none = true,
                Some(key) => {
                    self.key = key_test(key, description);
                    if let KeyTest::Made(_, fields) = &self.key {
                        self.slots.extend(fields.iter().map(|(slot, _)| *slot));
                    }
                }
            }
        }
        self.slots.sort_unstable();
        self.slots.dedup();
        self.wanted = vec![None; description.columns.len()];
        for slot in &self.slots {
            if let Some(wanted) = self.wanted.get_mut(usize::from(slot.0)) {
                *wanted = Some(*slot);
            }
        }
    }

    /// Makes the tests of single facts, those first that pass over most for the least work.
    fn compile_tests(
        &mut self,
        condition: Option<&str>,
        text: Option<&str>,
        description: &VersionDescription,
    ) {
        if let KeyTest::Made(piece, fields) = &self.key
            && let [(slot, normalise)] = fields[..]
        {
            self.tests.push(Box::new(PieceTest::new(slot, normalise, piece)));
        }
        self.tests
            .extend(condition.into_iter().flat_map(|source| fact_tests::of_condition(source, description)));
        if let Some(text) = text {
            self.tests.push(Box::new(TextTest::new(self.texts.clone(), text)));
        }
    }

    /// Returns true if it is for this version.
    pub(super) fn is_of(&self, pipeline: &str, version: &str) -> bool {
        self.version == version && self.pipeline == pipeline
    }

    /// Returns true if a row with these keys fits, of which all facts are at hand.
    pub(super) fn fits_whole(&self, facts: &Facts, text: Option<&str>, keys: &[(Kind, Shingle)]) -> bool {
        let has_key = match &self.key {
            KeyTest::Hashed(kind, shingle) => keys.contains(&(*kind, *shingle)),
            KeyTest::Any | KeyTest::Made(..) => false,
        };
        !self.fits_none && self.fits(facts, text, has_key)
    }

    /// Returns true if the facts fit; `has_key` says whether the key was among those of the row.
    fn fits(&self, facts: &Facts, text: Option<&str>, has_key: bool) -> bool {
        let has_key = match &self.key {
            KeyTest::Any => true,
            KeyTest::Hashed(..) => has_key,
            KeyTest::Made(piece, fields) => makes(facts, fields, piece),
        };
        has_key
            && self.condition.as_ref().is_none_or(|condition| condition.fires(facts))
            && text.is_none_or(|text| {
                self.texts.iter().any(|slot| facts.get(*slot).is_some_and(|value| has_text(value, text)))
            })
    }
}

/// Returns true if one of the pieces of these facts is this.
fn makes(facts: &Facts, fields: &[(Slot, Normalisation)], piece: &str) -> bool {
    let mut is_made = false;
    let mut compare = |made: &str| is_made |= made == piece;
    match fields {
        [(slot, normalise)] => {
            if let Some(value) = facts.get(*slot) {
                content::piece::pieces(value, *normalise, &mut compare);
            }
        }
        _ => {
            let values: Vec<_> =
                fields.iter().map(|(slot, normalise)| (facts.get(*slot), *normalise)).collect();
            content::composite::pieces(values, &mut compare);
        }
    }
    is_made
}

/// Returns true if a value contains a text that is in lower case.
fn has_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(value) => contains(value, text),
        Value::List(items) => items.iter().any(|item| contains(item, text)),
        _ => false,
    }
}

/// A decision that fits, and what fired.
#[derive(Clone, Debug)]
pub(super) struct FiredRow {
    pub(super) id: RecordId,
    pub(super) score: f64,
    pub(super) probability: Option<f64>,
    pub(super) action: Action,
    /// The place of its rules among all.
    rules: Range<usize>,
}

/// The decisions of a block that fit, with the rules that fired, by their numbers.
#[derive(Debug, Default)]
pub(super) struct FiredRows {
    numbers: HashMap<Box<str>, usize>,
    names: Vec<Box<str>>,
    rows: Vec<FiredRow>,
    /// The rules of all rows, each with whether it was in shadow.
    fired: Vec<(usize, bool)>,
}

/// Most rules that are told apart: more than a pipeline has over all its versions.
const RULES_MAX: usize = 1 << 16;

impl FiredRows {
    /// Forgets the rows, and keeps the numbers.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.fired.clear();
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &FiredRow> {
        self.rows.iter()
    }

    /// The rules of a row, each with whether it was in shadow.
    pub(super) fn of(&self, row: &FiredRow) -> &[(usize, bool)] {
        self.fired.get(row.rules.clone()).unwrap_or_default()
    }

    /// The name of a rule.
    pub(super) fn name(&self, number: usize) -> &str {
        self.names.get(number).map_or("", |name| name)
    }

    fn add(&mut self, rule: &str, is_shadow: bool) {
        let number = match self.numbers.get(rule) {
            Some(number) => *number,
            None if self.names.len() >= RULES_MAX => return,
            None => {
                self.names.push(rule.into());
                self.numbers.insert(rule.into(), self.names.len() - 1);
                self.names.len() - 1
            }
        };
        self.fired.push((number, is_shadow));
    }
}

/// A row whose facts are being read.
struct MatchedRow<'a> {
    id: RecordId,
    version: &'a VersionMatcher,
    has_key: bool,
    has_rule: bool,
    /// The number of rules that had fired for rows before it.
    fired: usize,
}

/// Looks at the rows of a block.
struct MatchVisitor<'m, 'a, S: ?Sized> {
    matcher: &'m RowMatcher<'a, S>,
    query: RowQuery<'a>,
    /// A version was met whose rows do not log what the key is made of.
    needs_keys: bool,
    /// The version that was met last.
    version: Option<&'a VersionMatcher>,
    facts: Facts,
    row: Option<MatchedRow<'a>>,
    found: Vec<RecordId>,
    /// The place where rows are put with their rules, if these are wanted.
    fired: Option<&'m mut FiredRows>,
}

impl<'a, S: DecisionSource + ?Sized> MatchVisitor<'_, 'a, S> {
    fn meet(&mut self, pipeline: &str, version: &str) -> &'a VersionMatcher {
        match self.version {
            Some(met) if met.is_of(pipeline, version) => met,
            _ => {
                let met = self.matcher.version(pipeline, version);
                self.facts = Facts::from_values(vec![None; met.wanted.len()]);
                self.needs_keys |= matches!(met.key, KeyTest::Hashed(..));
                self.version = Some(met);
                met
            }
        }
    }
}

impl<'a, S: DecisionSource + ?Sized> RecordVisitor<'a> for MatchVisitor<'_, 'a, S> {
    fn version(&mut self, pipeline: &str, version: &str) -> Option<&'a [Option<Slot>]> {
        let met = self.meet(pipeline, version);
        (!met.fits_none).then_some(&met.wanted[..])
    }

    fn query(&self) -> Option<RowQuery<'a>> {
        Some(self.query)
    }

    fn tests(&self, pipeline: &str, version: &str) -> &'a [Box<dyn FactTest>] {
        &self.matcher.version(pipeline, version).tests
    }

    fn decision(&mut self, head: &DecisionHead<'_>) -> Option<&mut Facts> {
        let met = self.meet(head.pipeline, head.version);
        if met.fits_none || !self.query.ids.contains(head.id) || !self.query.has_event_id(head.event_id) {
            return None;
        }
        for slot in &met.slots {
            self.facts.clear(*slot);
        }
        self.row = Some(MatchedRow {
            id: head.id,
            version: met,
            has_key: false,
            has_rule: self.query.rule.is_none(),
            fired: self.fired.as_ref().map_or(0, |fired| fired.fired.len()),
        });
        Some(&mut self.facts)
    }

    fn wants_event_ids(&self) -> bool {
        self.query.event_id.is_some()
    }

    fn wants_probabilities(&self) -> bool {
        self.fired.is_some()
    }

    fn wants_keys(&self) -> bool {
        // Versions are met before keys are read.
        self.needs_keys
    }

    fn key(&mut self, kind: Kind, shingle: Shingle) {
        if let Some(row) = &mut self.row
            && let KeyTest::Hashed(wanted, of) = &row.version.key
        {
            row.has_key |= (*wanted, *of) == (kind, shingle);
        }
    }

    fn fired(&mut self, rule: &str, is_shadow: bool) {
        if let Some(fired) = &mut self.fired {
            fired.add(rule, is_shadow);
        }
        if let Some(row) = &mut self.row {
            row.has_rule |= self.query.has_rule(rule);
        }
    }

    fn decided(&mut self, DecisionOutcome { score, probability, action }: DecisionOutcome) {
        let Some(MatchedRow { id, version, has_key, has_rule, fired }) = self.row.take() else { return };
        let fits = has_rule && self.query.has_score(score) && self.query.has_action(action);
        let fits = fits && version.fits(&self.facts, self.matcher.text.as_deref(), has_key);
        match &mut self.fired {
            Some(rows) if fits => {
                let rules = fired..rows.fired.len();
                rows.rows.push(FiredRow { id, score, probability, action, rules });
            }
            Some(rows) => rows.fired.truncate(fired),
            None if fits => self.found.push(id),
            None => {}
        }
    }
}

//! Stage 3, keys: the facts that are counted are cut into pieces and hashed with the secret.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use event::{Facts, Key, Secret, Shingle, Table, TableIndex, Time};
use smallvec::SmallVec;

use super::classifiers::TokenKeys;
use super::fields::RowDraft;
use plan::{DistinctPlan, KeyField, KeyFields, KindPlan, LabelPlan, ONCE, Pipeline};

/// Most pairs of one event, over all distinct counts.
const PAIRS_MAX: usize = 1024;
/// Most labels of keys that are looked up for one event.
const MARKS_MAX: usize = 256;
/// Most keys of one event. An event that would have more is counted by its first ones.
pub const KEYS_MAX: usize =
    stats::ObserveRequest::OBSERVATIONS_MAX - PAIRS_MAX - MARKS_MAX - crate::limit::OBSERVATIONS_MAX;

/// An event whose facts and keys are known: all that can be done without statistics.
#[derive(Debug)]
pub struct PreparedEvent {
    pub(crate) row: RowDraft,
    /// The keys of all kinds that have a statistic, kind by kind.
    pub(crate) keys: Vec<Key>,
    /// The keys of the others: they only own distinct values and labels.
    uncounted: Vec<Key>,
    /// The part of `keys`, or of the others', of each kind.
    by_kind: KeyRanges<KindPlan>,
    /// Owner and pair, distinct count by distinct count and owner by owner.
    pub(crate) pairs: Vec<DistinctPair>,
    /// The part of `pairs` of each distinct count.
    by_distinct: KeyRanges<DistinctPlan>,
    /// Keys of marks, label by label of those that anything asks for.
    pub(crate) marks: Vec<Key>,
    /// The part of `marks` of each label.
    by_label: KeyRanges<LabelPlan>,
    /// The tokens for each classifier.
    pub(crate) tokens: Vec<Option<TokenKeys>>,
    /// The mark by which the event is counted once.
    pub(crate) once: Option<Key>,
    /// The pipeline in force, where its canary decides instead.
    pub(crate) canary_of: Option<Arc<Pipeline>>,
}

/// The part of a list of keys for each `T` of a pipeline. Those of a few kinds lie beside the rest: events have many.
#[derive(Debug)]
struct KeyRanges<T> {
    parts: SmallVec<[Range<u16>; 16]>,
    of: PhantomData<fn() -> T>,
}

const _: () = assert!(
    stats::ObserveRequest::OBSERVATIONS_MAX <= u16::MAX as usize,
    "all keys of an event are counted in 16 bits"
);

impl<T> KeyRanges<T> {
    /// Ranges with room for `count` entries.
    fn with_capacity(count: usize) -> KeyRanges<T> {
        KeyRanges { parts: SmallVec::with_capacity(count), of: PhantomData }
    }

    fn push(&mut self, part: Range<usize>) {
        self.parts.push(part.start as u16..part.end as u16);
    }

    /// The part of one of them.
    #[inline]
    fn get(&self, index: TableIndex<T>) -> Range<usize> {
        let part = &self.parts[index.get()];
        usize::from(part.start)..usize::from(part.end)
    }
}

/// A value of a distinct count, under its owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DistinctPair {
    pub(crate) owner: Key,
    pub(crate) pair: Shingle,
}

impl PreparedEvent {
    /// The facts so far.
    pub fn facts(&self) -> &Facts {
        &self.row.facts
    }

    /// The pipeline it is prepared for.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.row.pipeline
    }

    /// The range in `keys` of a kind that has a statistic; empty for others.
    pub(crate) fn counted(&self, kind: TableIndex<KindPlan>) -> Range<usize> {
        let is_counted = self.row.pipeline.kinds[kind].is_counted();
        if is_counted { self.by_kind.get(kind) } else { 0..0 }
    }

    /// The keys of a kind that has a statistic; none of another.
    pub(crate) fn counted_keys(&self, kind: TableIndex<KindPlan>) -> &[Key] {
        &self.keys[self.counted(kind)]
    }

    /// The range in `pairs` of a distinct count.
    pub(crate) fn of_distinct(&self, distinct: TableIndex<DistinctPlan>) -> Range<usize> {
        self.by_distinct.get(distinct)
    }

    /// The range in `marks` of a label.
    pub(crate) fn of_label(&self, label: TableIndex<LabelPlan>) -> Range<usize> {
        self.by_label.get(label)
    }

    /// The keys of a kind.
    pub(crate) fn of_kind(&self, kind: TableIndex<KindPlan>) -> &[Key] {
        of_kind(&self.row.pipeline, &self.keys, &self.uncounted, &self.by_kind, kind)
    }

    /// The first key, in the order of the pipeline's kinds.
    pub(crate) fn first_key(&self) -> Option<&Key> {
        self.row.pipeline.kinds.indices().find_map(|kind| self.of_kind(kind).first())
    }

    /// The time of the event.
    pub fn time(&self) -> Time {
        self.row.time
    }
}

fn of_kind<'a>(
    pipeline: &Pipeline,
    keys: &'a [Key],
    uncounted: &'a [Key],
    by_kind: &KeyRanges<KindPlan>,
    kind: TableIndex<KindPlan>,
) -> &'a [Key] {
    let all = if pipeline.kinds[kind].is_counted() { keys } else { uncounted };
    &all[by_kind.get(kind)]
}

impl PreparedEvent {
    /// Prepares, as [`derive`] does, an event each of whose kinds has at most one key: what `key`, `pair` and `label` give
    /// for a kind, a distinct count and a label.
    pub(crate) fn of_columns(
        row: RowDraft,
        key: impl Fn(TableIndex<KindPlan>) -> Option<Key>,
        pair: impl Fn(TableIndex<DistinctPlan>) -> Option<DistinctPair>,
        label: impl Fn(TableIndex<LabelPlan>) -> Option<Key>,
        once: Option<Key>,
    ) -> PreparedEvent {
        let pipeline = &row.pipeline;
        let (mut keys, mut uncounted) = (Vec::with_capacity(pipeline.kinds.len()), Vec::new());
        let mut by_kind = KeyRanges::with_capacity(pipeline.kinds.len());
        for (index, plan) in pipeline.kinds.entries() {
            let keys = if plan.is_counted() { &mut keys } else { &mut uncounted };
            let start = keys.len();
            keys.extend(key(index));
            by_kind.push(start..keys.len());
        }
        fn each<T, K>(table: &Table<T>, of: impl Fn(TableIndex<T>) -> Option<K>) -> (Vec<K>, KeyRanges<T>) {
            let (mut all, mut parts) =
                (Vec::with_capacity(table.len()), KeyRanges::with_capacity(table.len()));
            for index in table.indices() {
                let start = all.len();
                all.extend(of(index));
                parts.push(start..all.len());
            }
            (all, parts)
        }
        let (pairs, by_distinct) = each(&pipeline.distincts, pair);
        let is_read = |index| pipeline.labels[index].is_read;
        let (marks, by_label) = each(&pipeline.labels, |index| label(index).filter(|_| is_read(index)));
        PreparedEvent {
            keys,
            uncounted,
            by_kind,
            pairs,
            by_distinct,
            marks,
            by_label,
            tokens: Vec::new(),
            once,
            canary_of: None,
            row,
        }
    }
}

/// Cuts and hashes.
pub(crate) fn derive(row: RowDraft, secret: &Secret) -> PreparedEvent {
    derive_with(row, secret, |_| None)
}

/// Cuts and hashes as [`derive`] does, but of the kinds for which `logged` has an answer the keys are those.
pub(crate) fn derive_with(
    row: RowDraft,
    secret: &Secret,
    logged: impl Fn(TableIndex<KindPlan>) -> Option<Vec<Shingle>>,
) -> PreparedEvent {
    let pipeline = &row.pipeline;
    let mut hashed = HashedFacts { facts: &row.facts, secret, known: SmallVec::new() };
    // Of most kinds an event has one key.
    let (mut keys, mut uncounted) = (Vec::with_capacity(pipeline.kinds.len()), Vec::new());
    let mut by_kind = KeyRanges::with_capacity(pipeline.kinds.len());
    for (index, plan) in pipeline.kinds.entries() {
        let keys = if plan.is_counted() { &mut keys } else { &mut uncounted };
        let start = keys.len();
        let mut add = |shingle| {
            if keys.len() < KEYS_MAX {
                keys.push(Key { space: pipeline.space, kind: plan.kind, shingle });
            }
        };
        match logged(index) {
            Some(shingles) => shingles.into_iter().for_each(add),
            None if plan.when.as_ref().is_none_or(|when| when.fires(&row.facts)) => {
                hashed.each(&plan.fields, &mut add);
            }
            None => {}
        }
        by_kind.push(start..keys.len());
    }
    let mut pairs = Vec::with_capacity(pipeline.distincts.len());
    let mut by_distinct = KeyRanges::with_capacity(pipeline.distincts.len());
    for distinct in &pipeline.distincts {
        let start = pairs.len();
        let owners = of_kind(pipeline, &keys, &uncounted, &by_kind, distinct.per);
        if owners.is_empty() {
            by_distinct.push(start..start);
            continue;
        }
        if distinct.members.is_some() {
            // The event adds no value: its owners are looked at.
            let looks = owners.iter().map(|owner| DistinctPair {
                owner: Key { kind: distinct.kind, ..*owner },
                pair: Shingle::default(),
            });
            pairs.extend(looks.take(PAIRS_MAX.saturating_sub(start)));
            by_distinct.push(start..pairs.len());
            continue;
        }
        let mut values = SmallVec::<[Shingle; 8]>::new();
        hashed.each(&distinct.of, &mut |shingle| values.push(shingle));
        for owner in owners {
            for value in values.iter().take(PAIRS_MAX.saturating_sub(pairs.len())) {
                let pair = secret.pair(owner.shingle, *value);
                pairs.push(DistinctPair { owner: Key { kind: distinct.kind, ..*owner }, pair });
            }
        }
        by_distinct.push(start..pairs.len());
    }
    let mut marks = Vec::new();
    let mut by_label = KeyRanges::with_capacity(pipeline.labels.len());
    for label in &pipeline.labels {
        let start = marks.len();
        let owners = of_kind(pipeline, &keys, &uncounted, &by_kind, label.of);
        let room = if label.is_read { MARKS_MAX - start } else { 0 };
        marks.extend(owners.iter().take(room).map(|owner| Key { kind: label.kind, ..*owner }));
        by_label.push(start..marks.len());
    }
    let owners = |kind| of_kind(pipeline, &keys, &uncounted, &by_kind, kind);
    let tokens = TokenKeys::derive(pipeline, &row.facts, secret, owners);
    let once = row.event_id.as_deref().map(|id| once(pipeline, secret, "event", id));
    let canary_of = None;
    PreparedEvent {
        keys,
        uncounted,
        by_kind,
        pairs,
        by_distinct,
        marks,
        by_label,
        tokens,
        once,
        canary_of,
        row,
    }
}

/// The hashes of facts: several kinds and distinct counts are of one fact, which is cut and hashed once.
struct HashedFacts<'r> {
    facts: &'r Facts,
    secret: &'r Secret,
    known: SmallVec<[(KeyField, SmallVec<[Shingle; 1]>); 12]>,
}

impl HashedFacts<'_> {
    /// Hands on the hashes of the pieces of some fields.
    fn each(&mut self, fields: &KeyFields, out: &mut dyn FnMut(Shingle)) {
        let Some(field) = fields.single() else {
            return fields.pieces(self.facts, &mut |piece| out(self.secret.shingle(piece.as_bytes())));
        };
        if let Some((_, shingles)) = self.known.iter().find(|(known, _)| *known == field) {
            return shingles.iter().for_each(|shingle| out(*shingle));
        }
        let mut shingles = SmallVec::<[Shingle; 1]>::new();
        fields.pieces(self.facts, &mut |piece| shingles.push(self.secret.shingle(piece.as_bytes())));
        shingles.iter().for_each(|shingle| out(*shingle));
        self.known.push((field, shingles));
    }
}

/// The pieces of a kind in a row, normalised as they are hashed.
pub(crate) fn pieces(plan: &KindPlan, facts: &Facts, mut each: impl FnMut(&str)) {
    if plan.when.as_ref().is_some_and(|when| !when.fires(facts)) {
        return;
    }
    plan.fields.pieces(facts, &mut each);
}

/// The key of a mark by which something is counted once. What it names and whose it is are hashed, too, so that an
/// event's id never marks feedback.
pub(crate) fn once(pipeline: &Pipeline, secret: &Secret, what: &str, id: &str) -> Key {
    let name = format!("{what}\0{}\0{id}", pipeline.name);
    Key { space: pipeline.space, kind: ONCE, shingle: secret.shingle(name.as_bytes()) }
}

//! Search in past decisions: those that fit a filter, newest first, page by page.
//!
//! ```text
//! ids of a time ─► blocks, greatest ids first ─► rows that fit, by what a version logged ─► labels ─► a page, and where the next begins
//! ```
//!
//! A page is cut where it is full or where its [`ReadBudget`] is spent; either way the next one begins where it ended, so that
//! each decision is on one page, whatever is appended or turned into columns meanwhile. Decisions that were made
//! after the first page was asked for are not on later ones.

pub(crate) mod common;
mod fact_tests;
pub(crate) mod live;
mod logged_scope;
mod matcher;
pub(crate) mod statistics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use event::{Column, Facts, Secret, Time, Value};
use journal::{
    Block, BlockAnswer, DecisionLabels, DecisionRow, DecisionSource, FactChoice, IdRange, JournalArchive,
    JournalError, ReadBudget, Record, RecordId, SkippedData, VersionDescription,
};
use judge::{Action, Diagnostic};
use plan::Plan;

use crate::directory::{Directory, DirectoryError};
use crate::error::{PieceError, UnknownName};
use crate::pipeline::log;
use crate::{Engine, find_kind, key_timeline};
use matcher::{KeyMatch, RowMatcher, VersionArena};

/// Most decisions of a page.
const PAGE_MAX: usize = 1000;
/// Bytes of a page in memory, about, above which it has fewer decisions.
const PAGE_BYTES: usize = 8 << 20;
/// The longest text of a listed fact, in bytes; of a longer one the beginning is shown.
const TEXT_BYTES_MAX: usize = 1000;
/// Records that are looked at to tell the labels of decisions that are shown.
const LABEL_RECORDS: u64 = 100_000;

/// Records of a block that nothing fits, which cost as much as one that is read, at most.
const PASSED_RECORDS: u32 = 64;
/// Blocks that are passed over before the clock is asked again.
const CLOCK_BLOCKS: u32 = 16;

/// The decisions that are looked for: those that have all that is said here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecisionFilter {
    /// Decided at this time or later, to a millisecond.
    pub from: Option<Time>,
    /// Decided before this time.
    pub to: Option<Time>,
    /// Decisions of this pipeline.
    pub pipeline: Option<String>,
    /// With one of these actions; all if it is empty.
    pub actions: Vec<Action>,
    /// With this score or a greater one.
    pub score_from: Option<f64>,
    /// With a lower score than this.
    pub score_below: Option<f64>,
    /// Decisions for which this rule fired, enforced or in shadow.
    pub rule: Option<String>,
    /// On the event that its caller calls so.
    pub event_id: Option<String>,
    /// On an event that has this key.
    pub key: Option<KeyChoice>,
    /// On an event of which a logged text contains this, in capitals or not.
    pub text: Option<String>,
    /// Decisions of whose facts and readings this condition is true, in the language of rules.
    pub condition: Option<String>,
    /// Decisions that people have judged so.
    pub label: Option<LabelFilter>,
}

/// A key by the value that makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChoice {
    /// The kind.
    pub kind: String,
    /// The value, as it stands in events.
    pub value: String,
}

/// A choice of decisions by their last judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelFilter {
    /// Decisions that have this class.
    Class(String),
    /// Decisions that have any.
    Labelled,
    /// Decisions that have none.
    Unlabelled,
}

/// The facts that are shown of each decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FactSelection {
    /// No facts.
    #[default]
    None,
    /// The facts of these names, in this order.
    Named(Vec<String>),
    /// All that have a value.
    All,
}

impl FactSelection {
    /// The facts that have to be read.
    fn read(&self) -> FactChoice<'_> {
        match self {
            FactSelection::None => FactChoice::Named(&[]),
            FactSelection::Named(names) => FactChoice::Named(names),
            FactSelection::All => FactChoice::All,
        }
    }
}

/// A page of decisions that is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecisionQuery {
    /// The decisions that are looked for.
    pub filter: DecisionFilter,
    /// The facts that are shown.
    pub facts: FactSelection,
    /// [`DecisionPage::next`] of the page before: only decisions with smaller ids.
    pub below: Option<RecordId>,
    /// Only decisions with greater ids: those that are newer than what somebody has.
    pub above: Option<RecordId>,
    /// Most decisions of the page, up to 1000.
    pub limit: usize,
}

/// A decision as it is listed.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedDecision {
    /// Its id.
    pub id: RecordId,
    /// The pipeline.
    pub pipeline: String,
    /// Its version.
    pub version: String,
    /// The caller's name for the event.
    pub event_id: Option<String>,
    /// The time of the event.
    pub time: Time,
    /// The time of its arrival.
    pub arrival: Time,
    /// An event of this id had been counted before.
    pub duplicate: bool,
    /// The action.
    pub action: Action,
    /// The score.
    pub score: f64,
    /// The probability that the event is bad.
    pub probability: f64,
    /// The enforced rules that fired, with their scores, the weightiest first.
    pub rules: Vec<(String, f64)>,
    /// The rules in shadow that fired.
    pub shadow: Vec<String>,
    /// The class of the last judgement, and when it was said.
    pub label: Option<(Arc<str>, Time)>,
    /// The facts that were asked for and have a value. Long texts are cut.
    pub facts: Vec<(String, Value)>,
}

/// A page of decisions, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecisionPage {
    /// The decisions.
    pub decisions: Vec<ListedDecision>,
    /// The id below which the next page goes on; `None` if there is none.
    pub next: Option<RecordId>,
    /// True if not all that the page could have had was looked at: it may have fewer decisions than were asked for, and
    /// the next page goes on.
    pub is_partial: bool,
    /// The smallest id from which on labels are known, if those of shown decisions are not all known.
    pub labels_from: Option<RecordId>,
    /// Records that were looked at, or of which it was known that they do not fit.
    pub looked_at: u64,
    /// The data that was passed over because it is damaged.
    pub skipped: SkippedData,
}

/// Reasons for a search that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum DecisionSearchError {
    /// An engine without a data directory keeps no journal.
    #[error("there is no journal: this engine was started without a data directory")]
    NoJournal,
    /// A kind or pipeline that there is not.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// The value makes no key.
    #[error(transparent)]
    Piece(#[from] PieceError),
    /// The condition is wrong for every pipeline that is searched.
    #[error("{}", texts(.0))]
    Condition(Vec<Diagnostic>),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The data directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

fn texts(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("; ")
}

impl DecisionFilter {
    /// The ids that decisions of its time have.
    fn ids(&self) -> IdRange {
        let first = |time: Option<Time>| time.map(RecordId::first_of);
        let all = IdRange::default();
        IdRange { from: first(self.from).unwrap_or(all.from), below: first(self.to).unwrap_or(all.below) }
    }
}

impl DecisionFilter {
    /// Returns true if the label of a decision, as far as it is known, is among those that are looked for.
    fn fits_label(&self, labels: &DecisionLabels, id: RecordId) -> bool {
        let Some(filter) = &self.label else { return true };
        let label = labels.of(id);
        match filter {
            LabelFilter::Class(class) => label.is_some_and(|(label, _)| *label == **class),
            LabelFilter::Labelled => label.is_some(),
            LabelFilter::Unlabelled => label.is_none(),
        }
    }
}

impl DecisionQuery {
    fn ids(&self) -> IdRange {
        let IdRange { from, below } = self.filter.ids();
        let above = self.above.map_or(RecordId(0), |id| RecordId(id.0.saturating_add(1)));
        IdRange { from: from.max(above), below: self.below.map_or(below, |next| next.min(below)) }
    }
}

impl Engine {
    /// Past decisions that fit a filter, newest first, those among them that are not written yet. Blocks.
    ///
    /// # Errors
    /// If the filter cannot be searched for, or the journal cannot be read.
    pub fn search_decisions(
        &self,
        query: &DecisionQuery,
        budget: &mut ReadBudget<'_>,
    ) -> Result<DecisionPage, DecisionSearchError> {
        let journal = self.journal.as_ref().ok_or(DecisionSearchError::NoJournal)?;
        list(&**journal, &self.plan(), &self.secret, query, budget)
    }

    /// The rows of past decisions, as [`Engine::search_decisions`] finds them.
    pub(crate) fn find_rows(
        &self,
        query: &DecisionQuery,
        budget: &mut ReadBudget<'_>,
    ) -> Result<FoundDecisions<DecisionRow>, DecisionSearchError> {
        let journal = self.journal.as_ref().ok_or(DecisionSearchError::NoJournal)?;
        let facts = FactChoice::All;
        search(&**journal, (&self.plan(), &self.secret), (query, facts), budget, &mut |_, row| {
            let bytes = bytes_of_row(&row);
            (row, bytes)
        })
    }
}

impl Directory {
    /// Opens the journal's files for [`search_archive`](Directory::search_archive). Nothing is locked.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn decisions(&self) -> Result<JournalArchive, DecisionSearchError> {
        Ok(JournalArchive::open(&self.journal_path())?)
    }

    /// Past decisions in the files of a journal, as [`Engine::search_decisions`] finds them. What a server has not written
    /// yet is not among them.
    ///
    /// # Errors
    /// If the filter cannot be searched for, or the journal cannot be read.
    pub fn search_archive(
        &self,
        archive: &JournalArchive,
        plan: &Plan,
        query: &DecisionQuery,
        budget: &mut ReadBudget<'_>,
    ) -> Result<DecisionPage, DecisionSearchError> {
        list(archive, plan, &self.secret()?, query, budget)
    }
}

/// Finds out what of a filter needs names: the keys of each pipeline, and whether its condition can be right.
fn check(
    filter: &DecisionFilter,
    plan: &Plan,
    secret: &Secret,
) -> Result<Vec<KeyMatch>, DecisionSearchError> {
    let names = plan.pipelines.iter().map(|pipeline| pipeline.name.as_str());
    let searched: Vec<_> = match &filter.pipeline {
        None => plan.pipelines.iter().collect(),
        // Its decisions are kept though the plan does not have it any more; then nothing is known of its keys.
        Some(name) => plan.pipeline(Some(name)).into_iter().collect(),
    };
    if let (Some(name), true) = (&filter.pipeline, searched.is_empty() && filter.key.is_some()) {
        let help = plan::expected(name, names);
        return Err(UnknownName { what: "pipeline", name: name.clone(), help }.into());
    }
    let mut keys = Vec::new();
    if let Some(KeyChoice { kind, value }) = &filter.key {
        let mut failure = None;
        for pipeline in &searched {
            let found = find_kind(pipeline, kind).map_err(DecisionSearchError::from);
            let found = found.and_then(|kind| {
                let (piece, shingle) = key_timeline::piece(kind, value, secret)?;
                Ok(KeyMatch { pipeline: pipeline.name.clone(), kind: kind.kind, shingle, piece })
            });
            match found {
                Ok(key) => keys.push(key),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if let (Some(error), true) = (failure, keys.is_empty()) {
            return Err(error);
        }
    }
    if let Some(condition) = &filter.condition {
        let compiled = searched
            .iter()
            .map(|pipeline| logged_scope::compile(condition, &log::description(pipeline)).map(|_| ()));
        let outcomes: Vec<Result<(), Vec<Diagnostic>>> = compiled.collect();
        if outcomes.iter().all(Result::is_err)
            && let Some(Err(diagnostics)) = outcomes.into_iter().next()
        {
            return Err(DecisionSearchError::Condition(diagnostics));
        }
    }
    Ok(keys)
}

/// Decisions that fit, newest first, as far as they were looked for.
#[derive(Debug)]
pub(crate) struct FoundDecisions<T> {
    /// The decisions, in the form that was asked for.
    pub(crate) decisions: Vec<(RecordId, T)>,
    /// See [`DecisionPage::next`].
    pub(crate) next: Option<RecordId>,
    is_partial: bool,
    looked_at: u64,
    skipped: SkippedData,
}

/// Makes a page of decisions as they are listed.
fn list(
    source: &(impl DecisionSource + ?Sized),
    plan: &Plan,
    secret: &Secret,
    query: &DecisionQuery,
    budget: &mut ReadBudget<'_>,
) -> Result<DecisionPage, DecisionSearchError> {
    let mut descriptions = BTreeMap::new();
    let mut make = |id, row| {
        let listed = listed(source, &mut descriptions, &query.facts, (id, row));
        let bytes = bytes_of_listed(&listed);
        (listed, bytes)
    };
    let facts = query.facts.read();
    let found = search(source, (plan, secret), (query, facts), budget, &mut make)?;
    let mut page = DecisionPage {
        decisions: found.decisions.into_iter().map(|(_, decision)| decision).collect(),
        next: found.next,
        is_partial: found.is_partial,
        labels_from: None,
        looked_at: found.looked_at,
        skipped: found.skipped,
    };
    if let Some(last) = page.decisions.last() {
        let mut budget = ReadBudget { records: LABEL_RECORDS, is_over: budget.is_over };
        let labels = source.labels();
        if !source.read_labels(last.id, &mut budget)? {
            page.labels_from = Some(labels.known_from());
        }
        for decision in &mut page.decisions {
            decision.label = labels.of(decision.id);
        }
    }
    Ok(page)
}

/// Makes what is wanted of a decision that fits, and says how many bytes that takes up, about.
type RowMaker<'m, T> = dyn FnMut(RecordId, DecisionRow) -> (T, usize) + 'm;

fn search<T>(
    source: &(impl DecisionSource + ?Sized),
    (plan, secret): (&Plan, &Secret),
    (query, facts): (&DecisionQuery, FactChoice<'_>),
    budget: &mut ReadBudget<'_>,
    make: &mut RowMaker<'_, T>,
) -> Result<FoundDecisions<T>, DecisionSearchError> {
    let keys = check(&query.filter, plan, secret)?;
    let arena = VersionArena::default();
    let matcher = RowMatcher::new(&query.filter, &keys, source, &arena);
    let probe = matcher.probe();
    let mut page = PageBuilder::new((query, facts), source, make);
    let ids = query.ids();
    let mut blocks = source.ranked(ids)?;
    let (mut below, mut passed) = (ids.below, 0u32);
    while let Some(head) = blocks.next_head()? {
        if !page.knows_labels(head.first.max(ids.from), budget)? {
            page.stop_at(below);
            break;
        }
        let answer = match page.may_have(&head) {
            true => blocks.ask(source.summaries(), &probe)?,
            false => BlockAnswer::FitsNone,
        };
        let block = match answer {
            BlockAnswer::MayFit(block) => Some(block),
            BlockAnswer::FitsNone => None,
            BlockAnswer::Damaged => continue,
        };
        page.page.looked_at += u64::from(head.count);
        budget.take(if block.is_some() { head.count } else { head.count.div_ceil(PASSED_RECORDS) });
        let block_is_read = block.is_some();
        if let Some(block) = block {
            let found = matcher.matches(&block, ids).map_err(|error| block.error(error));
            if let Some(found) = page.page.skipped.pass(found)? {
                page.add(&block, found)?;
            }
        }
        let greatest = blocks.greatest()?;
        if page.settle(greatest) {
            break;
        }
        let Some(greatest) = greatest else { break };
        let next = RecordId(greatest.0.saturating_add(1)).min(below);
        let is_further = next < below;
        below = next;
        passed = if block_is_read { 0 } else { passed + 1 };
        // One that overlaps with the one before is read in any case: the next page has to begin further down.
        let is_spent = || budget.records == 0 || passed.is_multiple_of(CLOCK_BLOCKS) && budget.is_spent();
        if is_further && is_spent() {
            page.stop_at(below);
            break;
        }
    }
    let skipped = blocks.skipped();
    page.page.skipped.stretches += skipped.stretches;
    page.page.skipped.bytes += skipped.bytes;
    page.page.skipped.records += skipped.records;
    Ok(page.finish())
}

/// A page that is being filled.
struct PageBuilder<'q, 'm, S: ?Sized, T> {
    query: &'q DecisionQuery,
    /// The facts of decisions that are needed.
    facts: FactChoice<'q>,
    source: &'q S,
    make: &'q mut RowMaker<'m, T>,
    limit: usize,
    page: FoundDecisions<T>,
    bytes: usize,
    /// Decisions that fit, above which there may be others, each with the bytes that it takes up.
    ready: BTreeMap<RecordId, (T, usize)>,
    /// Decisions that fit were left out, as a page has no room for so many.
    has_more: bool,
}

impl<'q, 'm, S: DecisionSource + ?Sized, T> PageBuilder<'q, 'm, S, T> {
    fn new(
        (query, facts): (&'q DecisionQuery, FactChoice<'q>),
        source: &'q S,
        make: &'q mut RowMaker<'m, T>,
    ) -> PageBuilder<'q, 'm, S, T> {
        let (decisions, next, is_partial, looked_at, skipped) = Default::default();
        let page = FoundDecisions { decisions, next, is_partial, looked_at, skipped };
        let limit = query.limit.clamp(1, PAGE_MAX);
        PageBuilder {
            query,
            facts,
            source,
            make,
            limit,
            page,
            bytes: 0,
            ready: BTreeMap::new(),
            has_more: false,
        }
    }

    /// Makes sure that the labels of decisions from this id on are known, if they are chosen by them. False if the budget is
    /// spent before.
    fn knows_labels(&self, from: RecordId, budget: &mut ReadBudget<'_>) -> Result<bool, JournalError> {
        if self.query.filter.label.is_none() {
            return Ok(true);
        }
        Ok(self.source.read_labels(from, budget)? || !budget.is_spent())
    }

    /// Returns false if no decision of a block fits, by what is known before it is read.
    fn may_have(&self, head: &journal::BlockInfo) -> bool {
        match &self.query.filter.label {
            Some(LabelFilter::Class(_) | LabelFilter::Labelled) => {
                self.source.labels().any(head.first, head.last)
            }
            Some(LabelFilter::Unlabelled) | None => true,
        }
    }

    /// Adds the decisions of a block that fit, as many as there may be room for.
    fn add(&mut self, block: &Block, mut found: Vec<RecordId>) -> Result<(), JournalError> {
        let (filter, labels) = (&self.query.filter, self.source.labels());
        found.retain(|id| filter.fits_label(labels, *id) && !self.ready.contains_key(id));
        found.sort_unstable_by(|one, other| other.cmp(one));
        let room = self.limit - self.page.decisions.len();
        if found.len() > room {
            found.truncate(room);
            self.has_more = true;
        }
        if found.is_empty() {
            return Ok(());
        }
        let wanted: BTreeSet<RecordId> = found.into_iter().collect();
        let read = block.find_all(&wanted, self.facts).map_err(|error| block.error(error));
        for (id, record) in self.page.skipped.pass(read)?.unwrap_or_default() {
            if let Record::Decision(row) = record {
                self.ready.insert(id, (self.make)(id, *row));
            }
        }
        Ok(())
    }

    /// Puts those on the page above which nothing is to come, and returns true if it is full.
    fn settle(&mut self, greatest: Option<RecordId>) -> bool {
        while let Some((id, _)) = self.ready.last_key_value()
            && greatest.is_none_or(|greatest| greatest < *id)
        {
            if self.page.decisions.len() >= self.limit || self.bytes >= PAGE_BYTES {
                self.has_more = true;
                return true;
            }
            let Some((id, (decision, bytes))) = self.ready.pop_last() else { break };
            self.bytes += bytes;
            self.page.decisions.push((id, decision));
        }
        let is_full = self.page.decisions.len() >= self.limit || self.bytes >= PAGE_BYTES;
        self.has_more |= is_full && (greatest.is_some() || !self.ready.is_empty());
        is_full
    }

    /// The next page is to go on below this id, though this one is not full.
    fn stop_at(&mut self, below: RecordId) {
        self.page.is_partial = true;
        self.page.next = Some(below);
    }

    /// Says where the next page begins.
    fn finish(mut self) -> FoundDecisions<T> {
        if let Some((last, _)) = self.page.decisions.last()
            && self.has_more
            && !self.page.is_partial
        {
            self.page.next = Some(*last);
        }
        self.page
    }
}

/// The descriptions of versions that were met, those that are not known among them.
type KnownDescriptions = BTreeMap<String, Option<Arc<VersionDescription>>>;

/// Returns a decision as it is listed, whose label is not known yet.
fn listed(
    source: &(impl DecisionSource + ?Sized),
    descriptions: &mut KnownDescriptions,
    selection: &FactSelection,
    (id, row): (RecordId, DecisionRow),
) -> ListedDecision {
    let facts = match selection {
        FactSelection::None => Vec::new(),
        selection => {
            let known = descriptions.entry(row.version.clone());
            let description = known.or_insert_with(|| source.version(&row.version).ok());
            description
                .as_deref()
                .map_or_else(Vec::new, |known| chosen(selection, &known.columns, &row.facts))
        }
    };
    let verdict = row.verdict;
    ListedDecision {
        id,
        pipeline: row.pipeline,
        version: row.version,
        event_id: row.event_id,
        time: row.time,
        arrival: row.arrival,
        duplicate: row.duplicate,
        action: verdict.action,
        score: verdict.score,
        probability: verdict.probability,
        rules: verdict.reasons.into_iter().map(|reason| (reason.rule, reason.score)).collect(),
        shadow: verdict.shadow.into_iter().map(|reason| reason.rule).collect(),
        label: None,
        facts,
    }
}

/// Bytes that a listed decision takes up in memory, about.
fn bytes_of_listed(decision: &ListedDecision) -> usize {
    let facts = decision.facts.iter().map(|(name, value)| name.len() + bytes_of(value));
    let rules = decision.rules.iter().map(|(rule, _)| rule).chain(&decision.shadow);
    512 + facts.sum::<usize>() + rules.map(|rule| rule.len() + 32).sum::<usize>()
}

/// Bytes that a row takes up in memory, about.
fn bytes_of_row(row: &DecisionRow) -> usize {
    let facts = row.facts.values().iter().map(|value| value.as_ref().map_or(size_of::<Value>(), bytes_of));
    1024 + facts.sum::<usize>() + row.keys.iter().map(|key| size_of_val(key) + 32).sum::<usize>()
}

fn bytes_of(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::List(items) => items.iter().map(|item| item.len() + size_of::<Box<str>>()).sum(),
            _ => 0,
        }
}

/// The facts of a row that are to be shown.
fn chosen(selection: &FactSelection, columns: &[Column], facts: &Facts) -> Vec<(String, Value)> {
    let values = columns.iter().zip(facts.values());
    match selection {
        FactSelection::None => Vec::new(),
        FactSelection::Named(names) => {
            // Of two columns of one name the later.
            let value = |name: &String| values.clone().rfind(|(column, _)| column.name == *name)?.1.as_ref();
            names.iter().filter_map(|name| Some((name.clone(), shortened(value(name)?)))).collect()
        }
        FactSelection::All => values
            .filter_map(|(column, value)| Some((column.name.clone(), shortened(value.as_ref()?))))
            .collect(),
    }
}

/// The value, or the beginning of a long one.
fn shortened(value: &Value) -> Value {
    let cut = |text: &str| -> Box<str> {
        if text.len() <= TEXT_BYTES_MAX {
            return text.into();
        }
        format!("{}…", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]).into()
    };
    match value {
        Value::String(text) => Value::String(cut(text)),
        Value::Bytes(bytes) => Value::Bytes(bytes[..bytes.len().min(TEXT_BYTES_MAX)].into()),
        Value::List(items) => {
            let mut left = TEXT_BYTES_MAX;
            let mut fits = |item: &str| {
                let fits = left > 0;
                left = left.saturating_sub(item.len().max(1));
                fits
            };
            Value::List(items.iter().take_while(|item| fits(item)).map(|item| cut(item)).collect())
        }
        other => other.clone(),
    }
}

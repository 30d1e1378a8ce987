//! The summary of some records that lie together: which of them may fit what somebody looks for, told without reading them.
//!
//! A summary has the actions and the range of scores of its decisions, and two Bloom filters: one of names (the pipelines, rules and
//! events of its decisions, and their keys), and one of the pieces of four bytes of their texts in lower case, as a text that contains
//! another has all of its pieces. Where a summary says that nothing fits, nothing does; where it says that something may, the records
//! are read.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher, RandomState};

use event::{Kind, Shingle};
use judge::Action;
use serde::{Deserialize, Serialize};

use super::bloom::{BLOCK_WORDS, BloomFilter, VALUE_BITS, place};
use super::encoding::{RecordReader, RecordStart, Result, ValueRef};
use super::keys;

/// Names and keys for which there is room while a summary is made. Of more, more others pass.
const NAMES_ROOM: usize = 1 << 16;
/// Pieces of texts for which there is room while a summary is made.
const PIECES_ROOM: usize = 1 << 16;
/// Bits for each name and each piece of rows, whose summaries lie in memory alone: to read a block of rows for nothing takes a
/// hundred times as long as to ask its filter, and these let less than one in a thousand others pass.
const ROWS_VALUE_BITS: usize = 2 * VALUE_BITS;
/// Bytes of a piece of a text.
const PIECE_BYTES: usize = 4;
/// Bytes of a text that are looked at. A record with a longer one may contain anything.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Bytes of a block of a filter as it is stored: its words, and their checksum.
pub(super) const STORED_BLOCK_BYTES: usize = 4 * BLOCK_WORDS + 4;
/// Most pieces of a text that are asked for: more of them say hardly more.
const ASKED_MAX: usize = 32;

/// Returns a text as it is compared with others: in lower case.
pub fn lower_case(text: &str) -> Cow<'_, str> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii()) {
        Cow::Owned(text.to_lowercase())
    } else {
        Cow::Borrowed(text)
    }
}

/// The sort of a name, so that a rule and a pipeline of one name are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameSort {
    Pipeline,
    Rule,
    Event,
    /// A kind of which decisions of a pipeline have keys.
    Kind,
    /// A kind of which those of one version have keys, and those of another have none: it may be that it was not counted then.
    LackedKind,
}

/// The number that stands for a name (FNV-1a).
fn of_name(sort: NameSort, name: &str) -> u64 {
    of_bytes([sort as u8].into_iter().chain(name.bytes()))
}

/// The number that stands for a kind of a pipeline.
fn of_kind(sort: NameSort, pipeline: &str, kind: Kind) -> u64 {
    of_bytes([sort as u8].into_iter().chain(kind.0.to_be_bytes()).chain(pipeline.bytes()))
}

fn of_bytes(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn of_key(kind: Kind, shingle: Shingle) -> u64 {
    shingle.0 ^ u64::from(kind.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The numbers that stand for the pieces of a text in lower case.
fn pieces(text: &str) -> impl Iterator<Item = u64> {
    let (mut bytes, mut piece) = (text.bytes(), 0u32);
    bytes.by_ref().take(PIECE_BYTES - 1).for_each(|byte| piece = piece << 8 | u32::from(byte));
    let begins = text.len() >= PIECE_BYTES;
    bytes.filter(move |_| begins).map(move |byte| {
        piece = piece << 8 | u32::from(byte);
        u64::from(piece)
    })
}

/// The filters of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SummaryFilter {
    Names,
    Pieces,
}

/// The part of a summary that is known without its filters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SummaryHead {
    /// A bit for each action, in their order.
    actions: u16,
    /// The least and the greatest score.
    scores: (f64, f64),
    /// Feedback is among them.
    pub(super) has_reports: bool,
    /// The number of blocks of each filter. A filter without any may hold anything.
    pub(super) blocks: [u32; 2],
}

impl SummaryHead {
    /// Returns the number of blocks of both filters.
    pub(super) fn blocks_count(&self) -> u64 {
        self.blocks.iter().map(|count| u64::from(*count)).sum()
    }
}

/// Summary of records.
#[derive(Debug)]
pub(super) struct RecordSummary {
    pub(super) head: SummaryHead,
    filters: [Option<BloomFilter>; 2],
}

impl RecordSummary {
    /// Returns false if nothing fits.
    pub(super) fn may_hold(&self, probe: &SearchProbe) -> bool {
        let has = |filter: SummaryFilter, value| {
            self.filters[filter as usize].as_ref().is_none_or(|filter| filter.may_hold(value))
        };
        probe.may_fit(&self.head, has)
    }

    /// Returns the bytes that it takes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        size_of::<RecordSummary>() + self.filters.iter().flatten().map(BloomFilter::bytes).sum::<usize>()
    }

    /// Reads a summary whose filters are stored; a damaged block of one holds anything.
    pub(super) fn of_stored(head: &SummaryHead, stored: &[u8], is_checked: bool) -> RecordSummary {
        let mut blocks = stored.as_chunks::<STORED_BLOCK_BYTES>().0.iter();
        let filters = head.blocks.map(|count| {
            let own = blocks.by_ref().take(count as usize);
            let own = own.map(|bytes| stored_block(bytes, is_checked).unwrap_or([u32::MAX; BLOCK_WORDS]));
            (count > 0).then(|| BloomFilter::of_blocks(own.collect()))
        });
        RecordSummary { head: head.clone(), filters }
    }

    /// Returns the filters as they are stored: block by block, each with its checksum, so that one can be read alone.
    pub(super) fn stored(&self) -> Vec<u8> {
        let mut stored = Vec::new();
        for filter in self.filters.iter().flatten() {
            for block in filter.to_bytes().chunks(4 * BLOCK_WORDS) {
                stored.extend_from_slice(block);
                stored.extend_from_slice(&crc32fast::hash(block).to_le_bytes());
            }
        }
        stored
    }
}

/// Returns the words of a block as it is stored; `None` for what is damaged.
pub(super) fn stored_block(bytes: &[u8; STORED_BLOCK_BYTES], is_checked: bool) -> Option<[u32; BLOCK_WORDS]> {
    let (content, crc) = bytes.split_first_chunk::<{ 4 * BLOCK_WORDS }>()?;
    if is_checked && crc32fast::hash(content).to_le_bytes() != crc {
        return None;
    }
    let words = content.as_chunks::<4>().0;
    let mut block = [0; BLOCK_WORDS];
    block.iter_mut().zip(words).for_each(|(word, bytes)| *word = u32::from_le_bytes(*bytes));
    Some(block)
}

/// The kinds of which decisions of a version have keys.
#[derive(Debug)]
struct VersionKinds {
    pipeline: Box<str>,
    version: Box<str>,
    kinds: BTreeSet<Kind>,
}

/// A summary that is being made.
#[derive(Debug)]
pub(super) struct SummaryBuilder {
    actions: u16,
    scores: (f64, f64),
    has_reports: bool,
    names: BloomFilter,
    pieces: BloomFilter,
    /// Different names and pieces, about.
    different: [usize; 2],
    /// Texts whose pieces are known, by a hash that nobody can foresee.
    known: HashSet<u64>,
    hasher: RandomState,
    /// The kinds of keys of each pipeline's versions.
    kinds: Vec<VersionKinds>,
    /// The filters that lack something: keys that are none, a text that is too long.
    lacks: [bool; 2],
}

impl Default for SummaryBuilder {
    fn default() -> SummaryBuilder {
        SummaryBuilder {
            actions: 0,
            scores: (f64::INFINITY, f64::NEG_INFINITY),
            has_reports: false,
            names: BloomFilter::with_room(NAMES_ROOM),
            pieces: BloomFilter::with_room(PIECES_ROOM),
            different: [0; 2],
            known: HashSet::new(),
            hasher: RandomState::new(),
            kinds: Vec::new(),
            lacks: [false; 2],
        }
    }
}

impl SummaryBuilder {
    fn name(&mut self, value: u64) {
        self.different[0] += usize::from(self.names.insert(value));
    }

    fn text(&mut self, text: &str) {
        // One letter is no piece in lower case either.
        if text.len() < 2 || !self.known.insert(self.hasher.hash_one(text)) {
            return;
        }
        if text.len() > TEXT_BYTES_MAX {
            self.lacks[1] = true;
            return;
        }
        for piece in pieces(&lower_case(text)) {
            self.different[1] += usize::from(self.pieces.insert(piece));
        }
    }

    /// The place of a version among those that were met.
    fn version(&mut self, pipeline: &str, version: &str) -> usize {
        let is_it = |of: &VersionKinds| &*of.version == version && &*of.pipeline == pipeline;
        self.kinds.iter().position(is_it).unwrap_or_else(|| {
            let kinds = BTreeSet::new();
            self.kinds.push(VersionKinds { pipeline: pipeline.into(), version: version.into(), kinds });
            self.kinds.len() - 1
        })
    }

    /// Adds which kinds there are keys of.
    fn kinds(&mut self) {
        let versions = std::mem::take(&mut self.kinds);
        for of in &versions {
            for kind in &of.kinds {
                self.name(of_kind(NameSort::Kind, &of.pipeline, *kind));
                let is_lacked =
                    |other: &VersionKinds| other.pipeline == of.pipeline && !other.kinds.contains(kind);
                if versions.iter().any(is_lacked) {
                    self.name(of_kind(NameSort::LackedKind, &of.pipeline, *kind));
                }
            }
        }
    }

    /// Takes in the next record, as rows have it, and passes over it.
    pub(super) fn add(&mut self, reader: &mut RecordReader<'_>) -> Result<()> {
        let (_, start) = reader.start()?;
        let RecordStart::Decision { head, arrived } = start else {
            self.has_reports = true;
            return Ok(());
        };
        self.name(of_name(NameSort::Pipeline, head.pipeline));
        if let Some(event_id) = arrived.event_id {
            self.name(of_name(NameSort::Event, event_id));
        }
        for _ in 0..reader.varint()? {
            if !reader.flag()? {
                continue;
            }
            match reader.value()? {
                ValueRef::Text(text) => self.text(text),
                ValueRef::List(count, mut items) => {
                    for _ in 0..count {
                        self.text(items.text()?);
                    }
                }
                _ => {}
            }
        }
        let of = self.version(head.pipeline, head.version);
        let keys = keys::names(reader.content()?, |kind, shingle| {
            self.name(of_key(kind, shingle));
            self.kinds[of].kinds.insert(kind);
        });
        self.lacks[0] |= keys.is_err();
        let score = reader.float()?;
        // What is no number fits no range.
        self.scores = (self.scores.0.min(score), self.scores.1.max(score));
        reader.float()?;
        self.actions |= bit(reader.made::<Action>()?);
        for _ in 0..2 {
            for _ in 0..reader.varint()? {
                self.name(of_name(NameSort::Rule, reader.text()?));
                reader.pass_reason()?;
            }
        }
        reader.pass_next()?;
        reader.effects()
    }

    /// Returns the summary of what was taken in, with so many bits for each name and each piece.
    pub(super) fn finish(mut self, value_bits: usize) -> RecordSummary {
        self.kinds();
        let SummaryBuilder { actions, scores, has_reports, mut names, mut pieces, different, lacks, .. } =
            self;
        names.fold(different[0], value_bits);
        pieces.fold(different[1], value_bits);
        let filters = [(!lacks[0]).then_some(names), (!lacks[1]).then_some(pieces)];
        let count = |filter: &Option<BloomFilter>| filter.as_ref().map_or(0, BloomFilter::blocks_count);
        let blocks = [count(&filters[0]), count(&filters[1])];
        RecordSummary { head: SummaryHead { actions, scores, has_reports, blocks }, filters }
    }

    /// Returns the summary of so many rows; `None` if they cannot be read.
    pub(super) fn of(bytes: &[u8], count: u32) -> Option<RecordSummary> {
        let (mut builder, mut reader) = (SummaryBuilder::default(), RecordReader::new(bytes));
        for _ in 0..count {
            builder.add(&mut reader).ok()?;
        }
        Some(builder.finish(ROWS_VALUE_BITS))
    }
}

fn bit(action: Action) -> u16 {
    1 << action as u16
}

/// A key that somebody looks for, as names of a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
struct KeyProbe {
    pipeline: u64,
    key: u64,
    kind: u64,
    lacked: u64,
}

/// The properties of decisions that somebody looks for, as far as a summary may tell that there are none. A decision has to have
/// all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchProbe {
    /// A bit for each action; none if any will do.
    actions: u16,
    score_from: Option<f64>,
    score_below: Option<f64>,
    /// All of them.
    names: Vec<u64>,
    /// One of them, if there are any.
    keys: Vec<KeyProbe>,
    /// All of them.
    pieces: Vec<u64>,
}

impl SearchProbe {
    /// Asks for one of these actions; for any if there are none.
    pub fn actions(&mut self, actions: &[Action]) {
        self.actions = actions.iter().fold(0, |bits, action| bits | bit(*action));
    }

    /// Asks for a score from one on, and below another.
    pub fn scores(&mut self, from: Option<f64>, below: Option<f64>) {
        (self.score_from, self.score_below) = (from, below);
    }

    /// Asks for decisions of a pipeline.
    pub fn pipeline(&mut self, name: &str) {
        self.names.push(of_name(NameSort::Pipeline, name));
    }

    /// Asks for a rule that fired.
    pub fn rule(&mut self, name: &str) {
        self.names.push(of_name(NameSort::Rule, name));
    }

    /// Asks for the caller's name of an event.
    pub fn event_id(&mut self, name: &str) {
        self.names.push(of_name(NameSort::Event, name));
    }

    /// Asks for this key of a decision of a pipeline, or one of others that are asked for. Without any key none is asked for.
    pub fn key(&mut self, pipeline: &str, kind: Kind, shingle: Shingle) {
        self.keys.push(KeyProbe {
            pipeline: of_name(NameSort::Pipeline, pipeline),
            key: of_key(kind, shingle),
            kind: of_kind(NameSort::Kind, pipeline, kind),
            lacked: of_kind(NameSort::LackedKind, pipeline, kind),
        });
    }

    /// Asks for a text that contains this one.
    pub fn text(&mut self, text: &str) {
        let text = lower_case(text);
        let count = text.len().saturating_sub(PIECE_BYTES - 1);
        // Those of a long text lie near each other: some of all of it say more.
        self.pieces.extend(pieces(&text).step_by(count.div_ceil(ASKED_MAX).max(1)));
    }

    /// Returns true if a decision may have all that is asked for, of what a summary says of its records.
    pub(super) fn may_fit(
        &self,
        head: &SummaryHead,
        mut has: impl FnMut(SummaryFilter, u64) -> bool,
    ) -> bool {
        let (least, greatest) = head.scores;
        (self.actions == 0 || self.actions & head.actions != 0)
            && self.score_from.is_none_or(|from| greatest >= from)
            && self.score_below.is_none_or(|below| least < below)
            && self.names.iter().all(|name| has(SummaryFilter::Names, *name))
            && (self.keys.is_empty()
                || self.keys.iter().any(|of| {
                    let mut has = |name| has(SummaryFilter::Names, name);
                    // Keys of a kind that is not counted are in no row, and are told by facts. What is mostly denied is asked first.
                    (has(of.key) || !has(of.kind) || has(of.lacked)) && has(of.pipeline)
                }))
            && self.pieces.iter().all(|piece| has(SummaryFilter::Pieces, *piece))
    }
}

/// Returns the block of a filter of so many that a value is in, and its bits there.
pub(super) fn asked(blocks: u32, value: u64) -> (u64, [u32; BLOCK_WORDS]) {
    let (block, mask) = place(blocks as usize, value);
    (block as u64, mask)
}

#[cfg(test)]
mod tests {
    use event::{Slot, Value};
    use proptest::prelude::*;

    use super::*;
    use crate::id::RecordId;
    use crate::{DecisionRow, Record, samples};

    #[test]
    fn a_text_has_the_pieces_of_all_that_it_contains() {
        let check = |text: &str, part: &str, expected: bool| {
            let all: HashSet<u64> = pieces(&lower_case(text)).collect();
            let mut probe = SearchProbe::default();
            probe.text(part);
            assert_eq!(
                probe.pieces.iter().all(|piece| all.contains(piece)),
                expected,
                "{part:?} of {text:?}"
            );
        };
        check("GET /wp-login.php", "wp-LOGIN", true);
        check("GET /wp-login.php", "wp_login", false);
        // What is shorter than a piece is found only by reading.
        check("GET /wp-login.php", "xyz", true);
        check("", "", true);
        check("Straße ÄÖÜ", "äöü", true);
        check(&"abcdefghij".repeat(1000), &"abcdefghij".repeat(900), true);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn nothing_that_is_there_is_denied(
            values in prop::collection::vec(prop::collection::vec(prop::option::of(samples::value()), 0..6), 1..20),
            keys in prop::collection::vec(samples::key(), 0..9),
        ) {
            let rows: Vec<_> = values.into_iter().enumerate().map(|(number, values)| {
                let mut row = samples::row(values);
                row.keys = keys.iter().skip(number % 3).cloned().collect();
                row.event_id = Some(format!("event-{number}"));
                row.verdict.score = number as f64 * 1.5;
                row
            }).collect();
            let count = rows.len() as u32;
            let encoded = |row: &DecisionRow| Record::Decision(Box::new(row.clone())).encode(RecordId(7));
            let bytes: Vec<u8> = rows.iter().flat_map(encoded).collect();
            let summary = SummaryBuilder::of(&bytes, count).unwrap();
            let probed = |ask: &dyn Fn(&mut SearchProbe)| {
                let mut probe = SearchProbe::default();
                ask(&mut probe);
                summary.may_hold(&probe)
            };
            for row in &rows {
                prop_assert!(probed(&|probe| probe.actions(&[row.verdict.action])));
                prop_assert!(probed(&|probe| probe.pipeline(&row.pipeline)));
                prop_assert!(probed(&|probe| probe.scores(Some(row.verdict.score), Some(row.verdict.score + 1.0))));
                prop_assert!(row.event_id.iter().all(|name| probed(&|probe| probe.event_id(name))));
                for key in &row.keys {
                    prop_assert!(probed(&|probe| probe.key(&row.pipeline, key.kind, key.shingle)));
                }
                for reason in row.verdict.reasons.iter().chain(&row.verdict.shadow) {
                    prop_assert!(probed(&|probe| probe.rule(&reason.rule)));
                }
                for slot in (0..6).map(Slot) {
                    match row.facts.get(slot) {
                        Some(Value::String(text)) => prop_assert!(probed(&|probe| probe.text(text))),
                        Some(Value::List(items)) => {
                            prop_assert!(items.iter().all(|text| probed(&|probe| probe.text(text))));
                        }
                        _ => {}
                    }
                }
            }
            prop_assert!(!probed(&|probe| probe.scores(Some(1e9), None)));
            prop_assert!(!probed(&|probe| probe.scores(None, Some(0.0))));
        }
    }

    #[test]
    fn stored_summaries_say_what_they_said_before() {
        let text = |number: u64| format!("/shop/{number}/Item");
        let rows = (0..500).map(|number| samples::row(vec![Some(Value::from(text(number)))]));
        let bytes: Vec<u8> =
            rows.flat_map(|row| Record::Decision(Box::new(row)).encode(RecordId(7))).collect();
        let made = SummaryBuilder::of(&bytes, 500).unwrap();
        let mut stored = made.stored();
        let read = RecordSummary::of_stored(&made.head, &stored, true);
        stored.iter_mut().step_by(STORED_BLOCK_BYTES).for_each(|byte| *byte ^= 1);
        let damaged = RecordSummary::of_stored(&made.head, &stored, true);
        let mut denied = 0;
        for number in 0..1000 {
            let mut probe = SearchProbe::default();
            probe.text(&text(number));
            assert_eq!(read.may_hold(&probe), made.may_hold(&probe), "{number}");
            assert!(damaged.may_hold(&probe), "{number}");
            denied += usize::from(!read.may_hold(&probe));
        }
        assert!(denied > 400, "{denied}");
    }

    #[test]
    fn most_of_what_is_not_there_is_denied() {
        let texts = |number: u64| format!("/shop/{number}/Item?page={}", number % 7);
        let rows = (0..2000).map(|number| samples::row(vec![Some(Value::from(texts(number)))]));
        let bytes: Vec<u8> =
            rows.flat_map(|row| Record::Decision(Box::new(row)).encode(RecordId(7))).collect();
        let summary = SummaryBuilder::of(&bytes, 2000).unwrap();
        let passes = |ask: &dyn Fn(&mut SearchProbe, u64)| {
            let probes = (0..1000u64).map(|number| {
                let mut probe = SearchProbe::default();
                ask(&mut probe, number);
                summary.may_hold(&probe)
            });
            probes.filter(|passes| *passes).count()
        };
        assert!(passes(&|probe, number| probe.text(&format!("wp-{number}-login"))) <= 3);
        assert!(passes(&|probe, number| probe.rule(&format!("R{number}"))) <= 3);
        let row = samples::row(Vec::new());
        let kind = row.keys[0].kind;
        assert!(passes(&|probe, number| probe.key(&row.pipeline, kind, Shingle(number + 77))) <= 3);
        // Of a kind that no row has a key of nothing is known.
        assert_eq!(passes(&|probe, number| probe.key(&row.pipeline, Kind(900), Shingle(number))), 1000);
        assert!(passes(&|probe, number| probe.key(&format!("p{number}"), Kind(900), Shingle(number))) <= 3);
        assert_eq!(passes(&|probe, number| probe.text(&texts(number))), 1000);
    }
}

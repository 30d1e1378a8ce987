//! A table of cells: those of one part of a partition, of all its forms.
//!
//! Records lie in leaves of about a kilobyte, in the order of their keys: so a cell costs little more than its bytes, a change
//! moves a few hundred of them, a pass through the table can be broken off anywhere, and a replica's table is the same byte
//! for byte, whatever came before.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use event::Time;

use crate::form::TableForm;
use crate::leaf::{LeafRecords, TableKey, make_record, push_words, seek};

/// A leaf that is longer is divided.
const LEAF_BYTES: usize = 1024;
/// Bytes of a leaf in the directory of leaves, about.
const LEAF_COST: usize = size_of::<TableKey>() + size_of::<Vec<u8>>() + 8;

/// Memory that changes of cells use one after the other.
#[derive(Debug, Default)]
pub struct TableScratch {
    pub(crate) words: Vec<u64>,
    record: Vec<u8>,
}

/// A form, and how many records have it. Where there are none its number is free.
#[derive(Clone, Debug)]
struct FormPlace {
    form: Arc<TableForm>,
    records: u64,
}

/// Cells by shingle and form.
#[derive(Clone, Debug, Default)]
pub struct CellTable {
    forms: Vec<FormPlace>,
    leaves: BTreeMap<TableKey, Vec<u8>>,
    records: u64,
    /// Memory of the leaves.
    bytes: usize,
    /// The key from which on the next sweep looks.
    pub(crate) cursor: TableKey,
}

/// The room that is asked for so many bytes: as allocators divide it, so that none of it lies idle.
fn room_for(bytes: usize) -> usize {
    let step = (bytes.max(64).next_power_of_two() / 8).max(16);
    bytes.next_multiple_of(step)
}

/// Puts a record in the place of a range.
fn replace(leaf: &mut Vec<u8>, at: std::ops::Range<usize>, record: &[u8]) {
    let (old, new) = (at.len(), record.len());
    let length = leaf.len();
    let to = length - old + new;
    if to > leaf.capacity() {
        leaf.reserve_exact(room_for(to) - length);
    }
    if new > old {
        leaf.resize(to, 0);
    }
    leaf.copy_within(at.end..length, at.start + new);
    leaf.truncate(to);
    if room_for(to) * 2 <= leaf.capacity() {
        leaf.shrink_to(room_for(to));
    }
    leaf[at.start..at.start + new].copy_from_slice(record);
}

impl CellTable {
    /// Records: cells, and tokens of marks.
    pub fn len(&self) -> u64 {
        self.records
    }

    /// Returns true if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The memory that it takes, about.
    pub fn memory_bytes(&self) -> usize {
        size_of::<CellTable>()
            + self.bytes
            + self.leaves.len() * LEAF_COST
            + self.forms.capacity() * size_of::<FormPlace>()
    }

    /// The number of allocations that letting go of it takes, about.
    pub fn leaf_count(&self) -> usize {
        self.leaves.len()
    }

    /// The leaves in their order, from one key on; the server may move them in memory.
    pub fn leaves_mut(&mut self, from: TableKey) -> impl Iterator<Item = (&TableKey, &mut Vec<u8>)> {
        self.leaves.range_mut(from..)
    }

    /// The forms that records have, by number.
    pub fn forms(&self) -> impl Iterator<Item = (u16, &Arc<TableForm>)> {
        let used = self.forms.iter().zip(0..).filter(|(place, _)| place.records > 0);
        used.map(|(place, number)| (number, &place.form))
    }

    /// The form of a number.
    pub fn form(&self, number: u16) -> Option<&Arc<TableForm>> {
        self.forms.get(usize::from(number)).map(|place| &place.form)
    }

    /// The number of a form, if cells have it.
    pub(crate) fn number_of(&self, form: &Arc<TableForm>) -> Option<u16> {
        let is_it = |place: &FormPlace| Arc::ptr_eq(&place.form, form) || place.form.field() == form.field();
        self.forms.iter().position(is_it).map(|at| at as u16)
    }

    /// Finds the numbers of forms, or gives them some. Which have no record keep theirs until this is called again.
    ///
    /// # Errors
    /// If there are too many.
    pub fn give_numbers<'f>(
        &mut self,
        forms: impl Iterator<Item = &'f Arc<TableForm>>,
    ) -> Result<Vec<u16>, &'static str> {
        let mut numbers = Vec::new();
        for form in forms {
            if let Some(number) = self.number_of(form) {
                numbers.push(number);
                continue;
            }
            let place = FormPlace { form: form.clone(), records: 0 };
            let is_free = |at: &usize| {
                let is_given = numbers.iter().any(|given| usize::from(*given) == *at);
                !is_given && self.forms.get(*at).is_some_and(|place| place.records == 0)
            };
            let at = (0..self.forms.len()).find(is_free).unwrap_or(self.forms.len());
            if at >= usize::from(TableKey::FORMS_MAX) {
                return Err("a table has cells of too many definitions");
            }
            match self.forms.get_mut(at) {
                Some(free) => *free = place,
                None => self.forms.push(place),
            }
            numbers.push(at as u16);
        }
        Ok(numbers)
    }

    /// The content of a record.
    pub(crate) fn content(&self, key: TableKey) -> Option<&[u8]> {
        let (_, leaf) = self.leaves.range(..=key).next_back()?;
        seek(leaf, key).1
    }

    /// Reads the words of a record; true if it is there.
    pub fn read(&self, key: TableKey, words: &mut Vec<u64>) -> bool {
        words.clear();
        let content = self.content(key);
        content.iter().for_each(|content| push_words(content, words));
        content.is_some()
    }

    /// Changes the words of a record, which are none where it is not there. One whose words say nothing afterwards is removed.
    pub fn update<T>(
        &mut self,
        key: TableKey,
        scratch: &mut TableScratch,
        change: impl FnOnce(&mut Vec<u64>) -> T,
    ) -> T {
        let TableScratch { words, record } = scratch;
        if self.leaves.is_empty() {
            self.leaves.insert(TableKey::default(), Vec::new());
        }
        // The first leaf begins with the least key there is.
        let Some((&first, leaf)) = self.leaves.range_mut(..=key).next_back() else {
            words.clear();
            return change(words);
        };
        words.clear();
        let (at, content) = seek(leaf, key);
        let was_there = content.is_some();
        content.iter().for_each(|content| push_words(content, words));
        let answer = change(words);
        make_record(key, words, record);
        let is_there = !record.is_empty();
        if !was_there && !is_there {
            if self.records == 0 {
                self.leaves.clear();
                self.bytes = 0;
            }
            return answer;
        }
        let before = leaf.capacity();
        let is_last = at.end == leaf.len();
        let start = at.start;
        replace(leaf, at, record);
        let length = leaf.len();
        self.bytes = self.bytes + leaf.capacity() - before;
        if was_there != is_there
            && let Some(place) = self.forms.get_mut(usize::from(key.form()))
        {
            let count = |count: u64| if is_there { count + 1 } else { count.saturating_sub(1) };
            place.records = count(place.records);
            self.records = count(self.records);
        }
        if length > LEAF_BYTES {
            self.divide(first, is_last.then_some(start));
        } else if !is_there {
            self.unite(first);
        }
        answer
    }

    /// Divides a leaf that has become too long: in the middle, or where it is the last, and grew at its end, before what is
    /// new there, as it will go on so.
    fn divide(&mut self, first: TableKey, grown: Option<usize>) {
        let is_last = self.leaves.range((Bound::Excluded(first), Bound::Unbounded)).next().is_none();
        let Some(leaf) = self.leaves.get_mut(&first) else { return };
        let mut records = LeafRecords::new(leaf);
        let wanted = match grown {
            Some(at) if is_last => at,
            _ => leaf.len() / 2,
        };
        let mut at = 0;
        while at == 0 || at < wanted {
            if records.next().is_none() {
                return;
            }
            at = records.at();
        }
        let Some(middle) = LeafRecords::new(&leaf[at..]).next().map(|record| record.key) else { return };
        let before = leaf.capacity();
        let mut second = Vec::with_capacity(room_for(leaf.len() - at));
        second.extend_from_slice(&leaf[at..]);
        leaf.truncate(at);
        leaf.shrink_to(room_for(at));
        self.bytes = self.bytes + leaf.capacity() + second.capacity() - before;
        self.leaves.insert(middle, second);
    }

    /// Unites a leaf from which something went with the one after it, if both are short.
    fn unite(&mut self, first: TableKey) {
        let after = self.leaves.range((Bound::Excluded(first), Bound::Unbounded)).next();
        let after = after.map(|(key, leaf)| (*key, leaf.len()));
        let length = self.leaves.get(&first).map_or(0, Vec::len);
        if let Some((after, more)) = after
            && length + more <= LEAF_BYTES / 2
            && let Some(second) = self.leaves.remove(&after)
            && let Some(leaf) = self.leaves.get_mut(&first)
        {
            let before = leaf.capacity() + second.capacity();
            replace(leaf, length..length, &second);
            self.bytes = self.bytes + leaf.capacity() - before;
        }
        if self.records == 0 {
            self.leaves.clear();
            self.bytes = 0;
        }
        // The first begins with the least key, and stays.
        if length == 0
            && self.leaves.get(&first).is_some_and(Vec::is_empty)
            && first != TableKey::default()
            && let Some(leaf) = self.leaves.remove(&first)
        {
            self.bytes -= leaf.capacity();
        }
    }

    /// Removes a cell with its tokens; true if it was there.
    pub(crate) fn remove(&mut self, key: TableKey, scratch: &mut TableScratch) -> bool {
        let was_there = self.update(key, scratch, |words| {
            let was_there = !words.is_empty();
            words.clear();
            was_there
        });
        self.update(key.tokens(), scratch, Vec::clear);
        was_there
    }

    /// The records from a key on, in order.
    pub(crate) fn records_from(&self, from: TableKey) -> impl Iterator<Item = (TableKey, &[u8])> {
        let start = self.leaves.range(..=from).next_back().map_or(from, |(key, _)| *key);
        let records = self.leaves.range(start..).flat_map(|(_, leaf)| LeafRecords::new(leaf));
        let records = records.map(|record| (record.key, record.content));
        records.skip_while(move |(key, _)| *key < from)
    }

    /// Returns true if it is sound: records are in order and counted, and cells are those of their definitions. Looks at all.
    pub fn verify(&self) -> bool {
        let mut words = Vec::new();
        let (mut last, mut records, mut bytes) = (None, vec![0u64; self.forms.len()], 0);
        for (first, leaf) in &self.leaves {
            bytes += leaf.capacity();
            let mut all = LeafRecords::new(leaf);
            for record in all.by_ref() {
                let is_next = last.is_none_or(|last| last < record.key) && *first <= record.key;
                let form = self.form(record.key.form());
                words.clear();
                push_words(record.content, &mut words);
                let is_cell = |form: &Arc<TableForm>| record.key.is_tokens() || form.plan.check(&words);
                if !is_next || !form.is_some_and(is_cell) {
                    return false;
                }
                last = Some(record.key);
                records[usize::from(record.key.form())] += 1;
            }
            if all.at() != leaf.len() {
                return false;
            }
        }
        let counted = self.forms.iter().map(|place| place.records);
        bytes == self.bytes && records.iter().sum::<u64>() == self.records && counted.eq(records)
    }

    /// Tells all records in order, with their forms.
    pub fn each(&self, mut tell: impl FnMut(&TableForm, TableKey, &[u8])) {
        for (key, content) in self.records_from(TableKey::default()) {
            if let Some(form) = self.form(key.form()) {
                tell(form, key, content);
            }
        }
    }

    /// Looks at so many records at most, from where the last such look ended, and removes the cells that have expired at the
    /// horizon. Answers how many it has looked at and removed, and whether it has come to the end.
    pub fn sweep(&mut self, horizon: Time, steps: usize, scratch: &mut TableScratch) -> TableSweep {
        let mut swept = TableSweep::default();
        let mut expired = Vec::new();
        let mut words = std::mem::take(&mut scratch.words);
        let mut cursor = None;
        for (key, content) in self.records_from(self.cursor) {
            if swept.looked >= steps as u64 {
                cursor = Some(key);
                break;
            }
            // A large cell is as much work as many small ones.
            swept.looked += 1 + content.len() as u64 / 256;
            if let Some(form) = self.form(key.form()).filter(|_| !key.is_tokens()) {
                words.clear();
                push_words(content, &mut words);
                if form.plan.expires(&words) <= horizon {
                    expired.push(key);
                }
            }
        }
        scratch.words = words;
        for key in expired {
            swept.removed += u64::from(self.remove(key, scratch));
        }
        swept.is_over = cursor.is_none();
        self.cursor = cursor.unwrap_or_default();
        swept
    }
}

/// The outcome of a look for what has expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSweep {
    /// Records that were looked at; a large one counts as several.
    pub looked: u64,
    /// Cells that were removed.
    pub removed: u64,
    /// True if the look came to the end of the table.
    pub is_over: bool,
}

//! A table as bytes and back: for the server's files, for replicas that begin, and for slots that move.
//!
//! ```text
//! head    version (1 byte) count of forms, then of each its number in the table and its field; where a sweep goes on
//! piece   records, see `leaf.rs`
//! ```
//!
//! The bytes may come from anywhere: every definition and every cell is checked.

use stats::bytes::{ByteReader, push_varint};

use crate::form::FormRegistry;
use crate::leaf::{LeafRecords, TableKey, push_words};
use crate::table::{CellTable, TableScratch};

/// The version of snapshots that is written, and the latest that is read.
pub const VERSION: u8 = 1;
/// Bytes of a piece, about.
const PIECE_BYTES: usize = 32 << 10;
/// Most tokens beside a mark's cell, and their words: a bucket and two words of the token each.
pub(crate) const TOKENS_MAX: usize = 4;
pub(crate) const TOKEN_WORDS: usize = 3;

/// The head of a table's snapshot.
pub fn head(table: &CellTable) -> Vec<u8> {
    let mut head = vec![VERSION];
    push_varint(&mut head, table.forms().count() as u64);
    for (number, form) in table.forms() {
        push_varint(&mut head, u64::from(number));
        push_varint(&mut head, form.field().len() as u64);
        head.extend_from_slice(form.field());
    }
    table.cursor.push(&mut head);
    head
}

/// The pieces of a table's snapshot, one after the other; none of them is empty.
pub fn pieces(table: &CellTable, mut each: impl FnMut(&[u8])) {
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    for (key, content) in table.records_from(TableKey::default()) {
        key.push(&mut piece);
        push_varint(&mut piece, content.len() as u64);
        piece.extend_from_slice(content);
        if piece.len() >= PIECE_BYTES {
            each(&piece);
            piece.clear();
        }
    }
    if !piece.is_empty() {
        each(&piece);
    }
}

/// Puts the pieces of snapshots into a table.
#[derive(Debug)]
pub struct SnapshotReader {
    /// The number that a form has in the table, by its number in the snapshot.
    numbers: Vec<Option<u16>>,
    scratch: TableScratch,
    words: Vec<u64>,
}

impl SnapshotReader {
    /// Reads a head, and gives the table its forms. Takes anything.
    ///
    /// # Errors
    /// Says what it cannot be.
    pub fn begin(
        head: &[u8],
        table: &mut CellTable,
        registry: &mut FormRegistry,
    ) -> Result<SnapshotReader, &'static str> {
        const TORN: &str = "the head of a table is torn";
        let mut reader = ByteReader(head);
        let [version] = reader.array().ok_or(TORN)?;
        if version != VERSION {
            return Err("a table is of another version than this module's");
        }
        let count = reader.varint().ok_or(TORN)?;
        if count > u64::from(TableKey::FORMS_MAX) {
            return Err("a table has too many definitions");
        }
        let mut forms = Vec::new();
        for _ in 0..count {
            let number =
                reader.varint().filter(|number| *number < u64::from(TableKey::FORMS_MAX)).ok_or(TORN)?;
            let length = reader.varint().and_then(|length| usize::try_from(length).ok()).ok_or(TORN)?;
            let form = registry.find(reader.take(length).ok_or(TORN)?)?;
            forms.push((number as usize, form));
        }
        let cursor = TableKey::read(&mut reader).filter(|_| reader.0.is_empty()).ok_or(TORN)?;
        // Each has a number of its own as long as none of them has records: one with a record holds its place.
        let mut numbers = vec![None; forms.iter().map(|(number, _)| number + 1).max().unwrap_or(0)];
        for (at, number) in table.give_numbers(forms.iter().map(|(_, form)| form))?.into_iter().enumerate() {
            if let Some(place) = forms.get(at).and_then(|(old, _)| numbers.get_mut(*old)) {
                *place = Some(number);
            }
        }
        if table.is_empty() {
            table.cursor = cursor;
        }
        Ok(SnapshotReader { numbers, scratch: TableScratch::default(), words: Vec::new() })
    }

    /// Puts the records of a piece into the table, in the place of what it has of them. Takes anything; what comes before the
    /// first that is none is there afterwards.
    ///
    /// # Errors
    /// Says what it cannot be.
    pub fn piece(&mut self, piece: &[u8], table: &mut CellTable) -> Result<(), &'static str> {
        let mut records = LeafRecords::new(piece);
        for record in records.by_ref() {
            let number = self.numbers.get(usize::from(record.key.form())).copied().flatten();
            let number = number.ok_or("a cell has a definition that its table has not")?;
            let form = table.form(number).ok_or("a cell has no definition")?.clone();
            let key = TableKey::of(record.key.shingle, number, record.key.is_pair());
            let key = if record.key.is_tokens() { key.tokens() } else { key };
            self.words.clear();
            push_words(record.content, &mut self.words);
            let is_sound = match record.key.is_tokens() {
                true => self.words.len() <= TOKENS_MAX * TOKEN_WORDS,
                false => form.plan.check(&self.words) && form.plan.times(&self.words).is_some(),
            };
            if record.content.last().is_none_or(|last| *last == 0) || !is_sound {
                return Err("a cell is none of its definition");
            }
            let SnapshotReader { scratch, words, .. } = self;
            table.update(key, scratch, |cell| std::mem::swap(cell, words));
        }
        if records.at() == piece.len() { Ok(()) } else { Err("a piece of a table is torn") }
    }
}

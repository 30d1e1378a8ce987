//! Leaves of a table: some records, one behind the other in the order of their keys.
//!
//! ```text
//! record   shingle (8 bytes) tag (2) length (varint) content
//! content  the cell's words, each with the least byte first, without the zero bytes at the end
//! ```

use stats::bytes::{ByteReader, push_varint};

/// The key of a record, by which records are ordered: the shingle, and the form with two flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableKey {
    /// The shingle.
    pub shingle: u64,
    pub(crate) tag: u16,
}

impl TableKey {
    const PAIR: u16 = 2;
    const TOKENS: u16 = 1;
    /// Forms of a table are numbered below this.
    pub(crate) const FORMS_MAX: u16 = 1 << 12;

    /// The key of a cell under the table's form of this number; of a pair's mark, if it is one.
    pub fn of(shingle: u64, form: u16, is_pair: bool) -> TableKey {
        let pair = if is_pair { TableKey::PAIR } else { 0 };
        TableKey { shingle, tag: (form % TableKey::FORMS_MAX) << 2 | pair }
    }

    /// The key of the tokens beside a cell.
    pub(crate) fn tokens(self) -> TableKey {
        TableKey { tag: self.tag | TableKey::TOKENS, ..self }
    }

    /// The number of the form.
    pub fn form(self) -> u16 {
        self.tag >> 2
    }

    /// The two flags: the mark of a pair, and tokens.
    pub fn flags(self) -> u16 {
        self.tag & (TableKey::PAIR | TableKey::TOKENS)
    }

    /// True for the mark of a pair.
    pub fn is_pair(self) -> bool {
        self.tag & TableKey::PAIR != 0
    }

    /// True for tokens, which are no cell.
    pub(crate) fn is_tokens(self) -> bool {
        self.tag & TableKey::TOKENS != 0
    }

    /// The key after this one; `None` after the last.
    pub(crate) fn next(self) -> Option<TableKey> {
        match self.tag.checked_add(1) {
            Some(tag) => Some(TableKey { tag, ..self }),
            None => Some(TableKey { shingle: self.shingle.checked_add(1)?, tag: 0 }),
        }
    }

    /// Appends it.
    pub(crate) fn push(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.shingle.to_le_bytes());
        bytes.extend_from_slice(&self.tag.to_le_bytes());
    }

    /// Reads what [`TableKey::push`] has appended.
    pub(crate) fn read(reader: &mut ByteReader<'_>) -> Option<TableKey> {
        let shingle = u64::from_le_bytes(reader.array()?);
        Some(TableKey { shingle, tag: u16::from_le_bytes(reader.array()?) })
    }
}

/// A record in a leaf.
pub(crate) struct LeafRecord<'a> {
    pub(crate) key: TableKey,
    pub(crate) content: &'a [u8],
}

/// The records of a leaf, with the place at which each begins. Ends where bytes are none.
#[derive(Clone)]
pub(crate) struct LeafRecords<'a> {
    all: usize,
    rest: ByteReader<'a>,
}

impl<'a> LeafRecords<'a> {
    pub(crate) fn new(leaf: &'a [u8]) -> LeafRecords<'a> {
        LeafRecords { all: leaf.len(), rest: ByteReader(leaf) }
    }

    /// Returns where the next one begins, or where the bytes end that are records.
    pub(crate) fn at(&self) -> usize {
        self.all - self.rest.0.len()
    }
}

impl<'a> Iterator for LeafRecords<'a> {
    type Item = LeafRecord<'a>;

    #[inline]
    fn next(&mut self) -> Option<LeafRecord<'a>> {
        let mut reader = self.rest;
        let key = TableKey::read(&mut reader)?;
        let length = usize::try_from(reader.varint()?).ok()?;
        let content = reader.take(length)?;
        self.rest = reader;
        Some(LeafRecord { key, content })
    }
}

/// The place of a key in a leaf: its bytes, and the content if it is there.
pub(crate) fn seek(leaf: &[u8], key: TableKey) -> (std::ops::Range<usize>, Option<&[u8]>) {
    let mut records = LeafRecords::new(leaf);
    loop {
        let at = records.at();
        match records.next() {
            Some(record) if record.key < key => {}
            Some(record) if record.key == key => return (at..records.at(), Some(record.content)),
            _ => return (at..at, None),
        }
    }
}

/// Puts the words of a content behind what is there.
#[inline]
pub(crate) fn push_words(content: &[u8], words: &mut Vec<u64>) {
    let (whole, rest) = content.as_chunks::<8>();
    words.extend(whole.iter().map(|word| u64::from_le_bytes(*word)));
    if !rest.is_empty() {
        words.push(rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    }
}

/// The number of bytes of words without the zeros at their end.
pub(crate) fn content_bytes(words: &[u64]) -> usize {
    let last = words.iter().rposition(|word| *word != 0);
    last.map_or(0, |last| last * 8 + 8 - words[last].leading_zeros() as usize / 8)
}

/// Appends the content of words.
pub(crate) fn push_content(words: &[u64], bytes: &mut Vec<u8>) {
    let length = content_bytes(words);
    let to = bytes.len() + length;
    bytes.extend(words.iter().take(length.div_ceil(8)).flat_map(|word| word.to_le_bytes()));
    bytes.truncate(to);
}

/// Makes a record of a key and words; of words that say nothing it makes none.
pub(crate) fn make_record(key: TableKey, words: &[u64], record: &mut Vec<u8>) {
    record.clear();
    let length = content_bytes(words);
    if length > 0 {
        key.push(record);
        push_varint(record, length as u64);
        push_content(words, record);
    }
}

//! The pages of one column of one row group, decoded.
//!
//! Reads what [`super::write`] makes: data pages of version 1, plain or by dictionary, compressed with zstd. The
//! `parquet` crate's own column readers do not promise to return on any bytes (a page by dictionary without one makes
//! them panic, and pages allocate what they state), so the few encodings that we write are read here, within a budget.
//! The encodings are those of <https://parquet.apache.org/docs/file-format/data-pages/encodings/>.

use std::ops::Range;
use std::sync::Arc;

use event::Type;
use memchr::memmem;

use super::kept_pages::{KeptPage, PageMemory};
use super::page_head::{PageHead, PageKind, varint};
use super::{ColumnsFormat, PAGE_ROWS};
use crate::compression::decompress;

/// Most entries of a column in a group: items of lists, mostly.
pub(super) const ENTRIES_MAX: usize = 4 << 20;
/// Bytes of memory that an entry is counted as, beside its content.
const ENTRY_BYTES: usize = 16;
/// Most items of a list that are read one by one.
const FEW_ITEMS: usize = 16;

/// A decoded column of a group.
#[derive(Debug, Default)]
pub(super) struct DecodedChunk {
    /// A level for each entry: whether it has a value. A row has one entry; one with a list has one for each item, or one
    /// for none.
    pub(super) levels: Vec<u8>,
    /// Zero for each entry of a list at which a row begins; empty for other columns.
    pub(super) repeats: Vec<u8>,
    pub(super) values: DecodedValues,
    /// The entry and the value at which the first wanted row begins.
    pub(super) begin: (usize, usize),
    /// The bytes in which texts lie.
    arena: Vec<u8>,
    /// All entries have one level, and all values are one that lies in one place.
    is_uniform: bool,
}

/// The values of a column, without the missing ones.
#[derive(Debug)]
pub(super) enum DecodedValues {
    Bools(Vec<bool>),
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    /// The starts of texts in the arena, and their lengths.
    Texts(Vec<(u32, u32)>),
}

impl Default for DecodedValues {
    fn default() -> DecodedValues {
        DecodedValues::Bools(Vec::new())
    }
}

/// The level of an entry that has a value: 1, or 2 for an item of a list.
pub(super) fn full(kind: Type) -> u8 {
    if kind == Type::List { 2 } else { 1 }
}

impl DecodedChunk {
    /// Returns the content of a column that there is not.
    pub(super) const fn none() -> DecodedChunk {
        DecodedChunk {
            levels: Vec::new(),
            repeats: Vec::new(),
            values: DecodedValues::Bools(Vec::new()),
            begin: (0, 0),
            arena: Vec::new(),
            is_uniform: false,
        }
    }

    /// Bytes that it takes up in memory, about.
    pub(super) fn memory(&self) -> usize {
        let values = match &self.values {
            DecodedValues::Bools(values) => values.len(),
            DecodedValues::Integers(values) => size_of_val(values.as_slice()),
            DecodedValues::Floats(values) => size_of_val(values.as_slice()),
            DecodedValues::Texts(texts) => size_of_val(texts.as_slice()),
        };
        self.levels.len() + self.repeats.len() + values + self.arena.len()
    }

    /// Returns true if all entries have one level, and all values are one that lies in one place, as far as that was noticed.
    pub(super) fn is_uniform(&self) -> bool {
        self.is_uniform
    }

    /// Returns how many of these entries have a value.
    pub(super) fn values_among(&self, entries: Range<usize>, kind: Type) -> usize {
        let levels = self.levels.get(entries.start..entries.end.min(self.levels.len())).unwrap_or_default();
        // In most columns all entries have one, or none.
        match self.values.len() {
            0 => 0,
            all if all == self.levels.len() => levels.len(),
            _ => levels.iter().filter(|level| **level == full(kind)).count(),
        }
    }

    /// The bytes in which texts lie: each begins behind the four bytes of its length, or some bytes further on.
    pub(super) fn texts(&self) -> &[u8] {
        &self.arena
    }

    /// Hands on the rows that have this text, of a column without lists.
    pub(super) fn rows_with(&self, text: &[u8], each: &mut dyn FnMut(usize)) {
        let DecodedValues::Texts(texts) = &self.values else { return };
        // Most columns that are looked through do not have it.
        if memmem::find(&self.arena, text).is_none() {
            return;
        }
        self.each_text(texts, |row, (start, length)| {
            let is_long = length as usize == text.len();
            if is_long && self.arena.get(start as usize..).is_some_and(|rest| rest.starts_with(text)) {
                each(row);
            }
        });
    }

    /// The rows that have a text in which one of these places, rising, lies, of a column without lists.
    pub(super) fn rows_around(&self, places: &[usize]) -> Vec<usize> {
        let mut rows = Vec::new();
        let (DecodedValues::Texts(texts), [first, .., last] | [first @ last]) = (&self.values, places) else {
            return rows;
        };
        self.each_text(texts, |row, (start, length)| {
            // Most lie before the first, or behind the last.
            if start as usize <= *last
                && (start + length) as usize > *first
                && has_place(places, (start, length))
            {
                rows.push(row);
            }
        });
        rows
    }

    /// Hands on each row that has a text, of a column without lists, and where that lies.
    #[inline]
    fn each_text(&self, texts: &[(u32, u32)], mut each: impl FnMut(usize, (u32, u32))) {
        if texts.len() == self.levels.len() {
            texts.iter().enumerate().for_each(|(row, text)| each(row, *text));
            return;
        }
        let rows = self.levels.iter().enumerate().filter(|(_, level)| **level > 0);
        rows.zip(texts).for_each(|((row, _), text)| each(row, *text));
    }

    /// The bytes of a text or of bytes.
    pub(super) fn bytes(&self, index: usize) -> Option<&[u8]> {
        let DecodedValues::Texts(texts) = &self.values else { return None };
        let (start, length) = *texts.get(index)?;
        self.arena.get(start as usize..start as usize + length as usize)
    }
}

/// Returns true if one of these places, rising, lies in a text.
pub(super) fn has_place(places: &[usize], (start, length): (u32, u32)) -> bool {
    let (start, length) = (start as usize, length as usize);
    let next = places.get(places.partition_point(|place| *place < start));
    next.is_some_and(|place| place - start < length)
}

/// Decodes what a column of a group with so many rows has of some of them. `None` if the bytes are none, or need more memory
/// than is left of the budget.
pub(super) fn decode(
    bytes: &[u8],
    form: ColumnsFormat,
    kind: Type,
    (rows, wanted): (usize, Range<usize>),
    memory: &mut PageMemory<'_>,
) -> Option<DecodedChunk> {
    let pages = Page::all(bytes)?;
    if wanted.len() == 1 {
        let row = (rows, wanted.start);
        let alone = match kind {
            Type::List => decode_list_row(&pages, form, row, memory),
            _ => decode_row(&pages, form, kind, row, memory),
        };
        if alone.is_some() {
            return alone;
        }
    }
    let is_part = wanted.start > 0 || wanted.end < rows;
    if is_part && let Some(page_rows) = Page::rows(&pages, kind, rows) {
        let skipped = wanted.start / page_rows;
        let data = |page: &&Page<'_>| matches!(page.head.kind, PageKind::Data { .. });
        let needed: Vec<&Page<'_>> =
            pages.iter().filter(data).skip(skipped).take(wanted.end.div_ceil(page_rows) - skipped).collect();
        let has_dictionary =
            |page: &&Page<'_>| matches!(page.head.kind, PageKind::Data { by_dictionary: true, .. });
        // Only where one of them asks for it.
        let dictionary = pages.first().filter(|page| !data(page) && needed.iter().any(has_dictionary));
        let from = skipped * page_rows;
        let to = wanted.end.next_multiple_of(page_rows).min(rows);
        let some = dictionary.into_iter().chain(needed);
        if let Some(mut chunk) = decode_pages(some, form, kind, to - from, memory.budget) {
            chunk.pass(wanted.start - from, kind);
            return Some(chunk);
        }
    }
    let mut chunk = decode_pages(&pages, form, kind, rows, memory.budget)?;
    chunk.pass(wanted.start, kind);
    Some(chunk)
}

/// Rows of each page of a column but the last, where so many rows are to be on about so many pages: [`PAGE_ROWS`] times a power
/// of two, so that the number of pages tells it.
pub(super) fn rows_of_page(rows: usize, pages: usize) -> usize {
    let mut each = PAGE_ROWS;
    while rows.div_ceil(each) > pages {
        each *= 2;
    }
    each
}

/// A page as it is stored.
struct Page<'b> {
    /// The place among the bytes of its column at which its content ends.
    end: usize,
    head: PageHead,
    content: &'b [u8],
}

impl Page<'_> {
    /// The pages of a column, the dictionary first if there is one.
    fn all(mut bytes: &[u8]) -> Option<Vec<Page<'_>>> {
        let (mut pages, length) = (Vec::new(), bytes.len());
        while !bytes.is_empty() {
            let head = PageHead::read(&mut bytes)?;
            let (content, rest) = bytes.split_at_checked(head.compressed)?;
            bytes = rest;
            pages.push(Page { end: length - rest.len(), head, content });
        }
        Some(pages)
    }

    /// Its content, decompressed.
    fn raw(&self, form: ColumnsFormat, budget: &mut usize) -> Option<Vec<u8>> {
        *budget = budget.checked_sub(self.head.raw)?;
        let raw = match self.content {
            [] if self.head.raw == 0 => Vec::new(),
            content if form == ColumnsFormat::Bare => content.to_vec(),
            content => decompress(content, self.head.raw).ok()?,
        };
        (raw.len() == self.head.raw).then_some(raw)
    }

    /// Its content, decompressed once for all of its rows that are read one by one.
    fn kept(&self, form: ColumnsFormat, memory: &mut PageMemory<'_>) -> Option<Arc<KeptPage>> {
        if let Some(kept) = memory.kept.get(self.end) {
            return Some(Arc::clone(kept));
        }
        let bytes = self.raw(form, memory.budget)?;
        Some(memory.kept.keep(self.end, bytes))
    }

    /// Appends the value with this number of a dictionary.
    fn read_known(
        &self,
        form: ColumnsFormat,
        number: u32,
        chunk: &mut DecodedChunk,
        memory: &mut PageMemory<'_>,
    ) -> Option<()> {
        let PageKind::Dictionary { values } = self.head.kind else { return None };
        let number = usize::try_from(number).ok().filter(|number| *number < values)?;
        let kept = self.kept(form, memory)?;
        match &mut chunk.values {
            DecodedValues::Texts(_) => {
                chunk.values.read_plain_at(kept.rest_from_text(number, values)?, 0, &mut chunk.arena)
            }
            values => values.read_plain_at(&kept.bytes, number, &mut chunk.arena),
        }
    }

    /// Returns the number of rows that each page has but the last, as far as their heads tell: not how many of a list's
    /// entries are items of one row. `None` if they are not as [`super::write`] makes them.
    fn rows(pages: &[Page<'_>], kind: Type, rows: usize) -> Option<usize> {
        let entries = pages.iter().filter_map(|page| match page.head.kind {
            PageKind::Data { entries, .. } => Some(entries),
            PageKind::Dictionary { .. } => None,
        });
        let count = entries.clone().count();
        let each = rows_of_page(rows, count.max(1));
        let is_usual = |(number, entries): (usize, usize)| entries == each.min(rows - number * each);
        let are_even =
            count == rows.div_ceil(each) && (kind == Type::List || entries.enumerate().all(is_usual));
        are_even.then_some(each)
    }
}

/// Decodes one of so many rows of a column without lists: other rows are passed over by the run, so that it costs little more
/// than to decompress the page. `None` where the pages do not tell in which of them it is, or are none.
fn decode_row(
    pages: &[Page<'_>],
    form: ColumnsFormat,
    kind: Type,
    (rows, row): (usize, usize),
    memory: &mut PageMemory<'_>,
) -> Option<DecodedChunk> {
    let page_rows = Page::rows(pages, kind, rows)?;
    let mut data = pages.iter().filter_map(|page| match page.head.kind {
        PageKind::Data { entries, by_dictionary } => Some((page, entries, by_dictionary)),
        PageKind::Dictionary { .. } => None,
    });
    let (page, entries, by_dictionary) = data.nth(row / page_rows)?;
    let row = row % page_rows;
    if row >= entries {
        return None;
    }
    let raw = page.kept(form, memory)?;
    let (length, rest) = raw.bytes.split_first_chunk::<4>()?;
    let (levels, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let (level, values_before) = number_at(levels, 1, row)?;
    let mut chunk = DecodedChunk { values: DecodedValues::of(kind), ..DecodedChunk::default() };
    chunk.levels.push(u8::try_from(level).ok().filter(|level| *level <= full(kind))?);
    if level == 0 {
        return Some(chunk);
    }
    if by_dictionary {
        let (width, indices) = rest.split_first()?;
        let (number, _) = number_at(indices, *width, values_before)?;
        pages.first()?.read_known(form, number, &mut chunk, memory)?;
    } else {
        chunk.values.read_plain_at(rest, values_before, &mut chunk.arena)?;
    }
    Some(chunk)
}

/// Decodes one of so many rows of a column of lists, as [`decode_row`] does. `None` also where it has more than [`FEW_ITEMS`].
fn decode_list_row(
    pages: &[Page<'_>],
    form: ColumnsFormat,
    (rows, row): (usize, usize),
    memory: &mut PageMemory<'_>,
) -> Option<DecodedChunk> {
    let page_rows = Page::rows(pages, Type::List, rows)?;
    let mut data = pages.iter().filter_map(|page| match page.head.kind {
        PageKind::Data { entries, by_dictionary } => Some((page, entries, by_dictionary)),
        PageKind::Dictionary { .. } => None,
    });
    let (page, entries, by_dictionary) = data.nth(row / page_rows)?;
    let raw = page.kept(form, memory)?;
    let mut rest = raw.bytes.as_slice();
    let (repeats, levels) = (counted_bytes(&mut rest)?, counted_bytes(&mut rest)?);
    let range = entries_of_row(repeats, entries, row % page_rows)?;
    let mut chunk = DecodedChunk { values: DecodedValues::of(Type::List), ..DecodedChunk::default() };
    let values_before = levels_of(levels, &range, &mut chunk.levels)?;
    chunk.repeats = std::iter::once(0).chain(std::iter::repeat(1)).take(range.len()).collect();
    let full = full(Type::List);
    let items = chunk.levels.iter().filter(|level| **level == full).count();
    if items > FEW_ITEMS {
        return None;
    }
    let values = values_before..values_before + items;
    if by_dictionary && items > 0 {
        let (width, indices) = rest.split_first()?;
        for value in values {
            let (number, _) = number_at(indices, *width, value)?;
            pages.first()?.read_known(form, number, &mut chunk, memory)?;
        }
    } else {
        for value in values {
            chunk.values.read_plain_at(rest, value, &mut chunk.arena)?;
        }
    }
    Some(chunk)
}

/// Takes the bytes that stand behind their length.
fn counted_bytes<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, behind) = rest.split_first_chunk::<4>()?;
    let (bytes, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = behind;
    Some(bytes)
}

/// The entries of a row among those of a page: a zero among repeats begins each row.
fn entries_of_row(repeats: &[u8], entries: usize, row: usize) -> Option<Range<usize>> {
    let (mut begun, mut at, mut first, mut end) = (0, 0, None, entries);
    let read = runs(repeats, 1, entries, |repeat, times| {
        if repeat == 0 {
            match first {
                // The next row.
                Some(_) => {
                    end = at;
                    return None;
                }
                None if row < begun + times => {
                    let begins = at + row - begun;
                    first = Some(begins);
                    if row + 1 < begun + times {
                        end = begins + 1;
                        return None;
                    }
                }
                None => {}
            }
            begun += times;
        }
        at += times;
        Some(())
    });
    // Of the last row all has to be read.
    let range = first?..end;
    (read.is_some() || end < entries).then_some(range)
}

/// Appends the levels of some entries, and returns the number of values before them.
fn levels_of(levels: &[u8], range: &Range<usize>, out: &mut Vec<u8>) -> Option<usize> {
    let full = full(Type::List);
    let (mut at, mut before) = (0, 0);
    runs(levels, 2, range.end, |level, times| {
        let level = u8::try_from(level).ok().filter(|level| *level <= full)?;
        let passed = range.start.saturating_sub(at).min(times);
        before += if level == full { passed } else { 0 };
        out.extend(std::iter::repeat_n(level, times - passed));
        at += times;
        Some(())
    })?;
    Some(before)
}

/// The first row that has this text, of a column of texts without a dictionary in which none is missing: pages are searched from
/// the one outwards that has the guessed row. `None` where it is no such column; `Some(None)` where no row has the text.
pub(super) fn find_text(
    bytes: &[u8],
    form: ColumnsFormat,
    (rows, guess): (usize, usize),
    text: &[u8],
    memory: &mut PageMemory<'_>,
) -> Option<Option<usize>> {
    let pages = Page::all(bytes)?;
    let page_rows = Page::rows(&pages, Type::String, rows)?;
    // Without a dictionary they are data, one as the other.
    let mut numbers: Vec<usize> = (0..pages.len()).collect();
    numbers.sort_by_key(|number| number.abs_diff(guess / page_rows));
    for number in numbers {
        let page = &pages[number];
        let PageKind::Data { entries, by_dictionary: false } = page.head.kind else { return None };
        let raw = page.kept(form, memory)?;
        let (length, rest) = raw.bytes.split_first_chunk::<4>()?;
        let (levels, mut rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let last = entries.checked_sub(1)?;
        if number_at(levels, 1, last)? != (1, last) {
            return None;
        }
        for row in 0..entries {
            let (length, behind) = rest.split_first_chunk::<4>()?;
            let (found, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            if found == text {
                return Some(Some(number * page_rows + row));
            }
            rest = behind;
        }
    }
    Some(None)
}

/// Decodes these pages, which have so many rows.
fn decode_pages<'p>(
    pages: impl IntoIterator<Item = &'p Page<'p>>,
    form: ColumnsFormat,
    kind: Type,
    rows: usize,
    budget: &mut usize,
) -> Option<DecodedChunk> {
    let mut chunk = DecodedChunk { values: DecodedValues::of(kind), ..DecodedChunk::default() };
    let mut dictionary: Option<DecodedValues> = None;
    for page in pages {
        let head = &page.head;
        let raw = page.raw(form, budget)?;
        match head.kind {
            PageKind::Dictionary { values } if dictionary.is_none() => {
                let mut known = DecodedValues::of(kind);
                *budget = budget.checked_sub(values.min(raw.len()).checked_mul(ENTRY_BYTES)?)?;
                known.read_plain(&raw, kind, values, &mut chunk.arena)?;
                dictionary = Some(known);
            }
            PageKind::Data { entries, by_dictionary } => {
                *budget = budget.checked_sub(entries.checked_mul(ENTRY_BYTES)?)?;
                chunk.read_page(&raw, kind, entries, by_dictionary, dictionary.as_ref())?;
            }
            PageKind::Dictionary { .. } => return None,
        }
    }
    let found = match kind {
        Type::List => chunk.repeats.iter().filter(|repeat| **repeat == 0).count(),
        _ => chunk.levels.len(),
    };
    let begins = chunk.repeats.first().is_none_or(|repeat| *repeat == 0);
    chunk.is_uniform = match &chunk.values {
        DecodedValues::Texts(texts) => are_alike(&chunk.levels) && are_alike(texts),
        _ => false,
    };
    (found == rows && begins).then_some(chunk)
}

fn are_alike<T: PartialEq>(items: &[T]) -> bool {
    items.windows(2).all(|pair| pair[0] == pair[1])
}

impl DecodedChunk {
    /// Moves the start some rows on: to the first entry and the first value of that row.
    fn pass(&mut self, rows: usize, kind: Type) {
        let entries = match kind {
            Type::List => {
                let mut begins = self.repeats.iter().enumerate().filter(|(_, repeat)| **repeat == 0);
                begins.nth(rows).map_or(self.repeats.len(), |(entry, _)| entry)
            }
            _ => rows.min(self.levels.len()),
        };
        self.begin = (entries, self.values_among(0..entries, kind));
    }

    fn read_page(
        &mut self,
        mut raw: &[u8],
        kind: Type,
        entries: usize,
        by_dictionary: bool,
        dictionary: Option<&DecodedValues>,
    ) -> Option<()> {
        if self.levels.len().checked_add(entries)? > ENTRIES_MAX {
            return None;
        }
        let full = full(kind);
        if kind == Type::List {
            levels(&mut raw, 1, entries, &mut self.repeats)?;
        }
        let before = self.levels.len();
        levels(&mut raw, full, entries, &mut self.levels)?;
        let values = self.levels[before..].iter().filter(|level| **level == full).count();
        if !by_dictionary {
            return self.values.read_plain(raw, kind, values, &mut self.arena);
        }
        let (known, (width, indices)) = (dictionary?, raw.split_first()?);
        self.values.read_indices(indices, *width, values, known)
    }
}

impl DecodedValues {
    fn len(&self) -> usize {
        match self {
            DecodedValues::Bools(values) => values.len(),
            DecodedValues::Integers(values) => values.len(),
            DecodedValues::Floats(values) => values.len(),
            DecodedValues::Texts(texts) => texts.len(),
        }
    }

    fn of(kind: Type) -> DecodedValues {
        match kind {
            Type::Bool => DecodedValues::Bools(Vec::new()),
            Type::Integer | Type::Time => DecodedValues::Integers(Vec::new()),
            Type::Float => DecodedValues::Floats(Vec::new()),
            Type::String | Type::Ip | Type::Bytes | Type::List => DecodedValues::Texts(Vec::new()),
        }
    }

    /// Appends so many values, one behind the other.
    fn read_plain(&mut self, mut raw: &[u8], kind: Type, count: usize, arena: &mut Vec<u8>) -> Option<()> {
        match self {
            DecodedValues::Bools(values) => {
                if kind != Type::Bool || raw.len() < count.div_ceil(8) {
                    return None;
                }
                values.extend((0..count).map(|bit| raw[bit / 8] >> (bit % 8) & 1 == 1));
            }
            DecodedValues::Integers(values) => {
                let words = raw.get(..count.checked_mul(8)?)?.as_chunks::<8>().0;
                values.extend(words.iter().map(|word| i64::from_le_bytes(*word)));
            }
            DecodedValues::Floats(values) => {
                let words = raw.get(..count.checked_mul(8)?)?.as_chunks::<8>().0;
                values.extend(words.iter().map(|word| f64::from_le_bytes(*word)));
            }
            DecodedValues::Texts(values) => {
                let mut at = arena.len();
                u32::try_from(at.checked_add(raw.len())?).ok()?;
                arena.extend_from_slice(raw);
                for _ in 0..count {
                    let (length, rest) = raw.split_first_chunk::<4>()?;
                    let length = u32::from_le_bytes(*length);
                    raw = rest.get(length as usize..)?;
                    // Fits: the whole arena does.
                    values.push(((at + 4) as u32, length));
                    at += 4 + length as usize;
                }
            }
        }
        Some(())
    }

    /// Appends the value behind so many others.
    fn read_plain_at(&mut self, mut raw: &[u8], before: usize, arena: &mut Vec<u8>) -> Option<()> {
        let word = || Some(*raw.get(before.checked_mul(8)?..)?.first_chunk::<8>()?);
        match self {
            DecodedValues::Bools(values) => values.push(raw.get(before / 8)? >> (before % 8) & 1 == 1),
            DecodedValues::Integers(values) => values.push(i64::from_le_bytes(word()?)),
            DecodedValues::Floats(values) => values.push(f64::from_le_bytes(word()?)),
            DecodedValues::Texts(values) => {
                let mut text = &raw[..0];
                for _ in 0..=before {
                    let (length, rest) = raw.split_first_chunk::<4>()?;
                    (text, raw) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
                }
                let place = (u32::try_from(arena.len()).ok()?, u32::try_from(text.len()).ok()?);
                arena.extend_from_slice(text);
                values.push(place);
            }
        }
        Some(())
    }

    /// Appends so many values of a dictionary.
    fn read_indices(&mut self, indices: &[u8], width: u8, count: usize, known: &DecodedValues) -> Option<()> {
        fn copy<T: Copy>(
            (to, from): (&mut Vec<T>, &[T]),
            indices: &[u8],
            width: u8,
            count: usize,
        ) -> Option<()> {
            to.reserve(count);
            runs(indices, width, count, |index, times| {
                let value = *from.get(index as usize)?;
                to.extend(std::iter::repeat_n(value, times));
                Some(())
            })
        }
        match (self, known) {
            (DecodedValues::Bools(to), DecodedValues::Bools(from)) => copy((to, from), indices, width, count),
            (DecodedValues::Integers(to), DecodedValues::Integers(from)) => {
                copy((to, from), indices, width, count)
            }
            (DecodedValues::Floats(to), DecodedValues::Floats(from)) => {
                copy((to, from), indices, width, count)
            }
            (DecodedValues::Texts(to), DecodedValues::Texts(from)) => copy((to, from), indices, width, count),
            _ => None,
        }
    }
}

/// Appends the levels that come next, behind their length in bytes.
fn levels(raw: &mut &[u8], most: u8, count: usize, out: &mut Vec<u8>) -> Option<()> {
    let (length, rest) = raw.split_first_chunk::<4>()?;
    let (runs_of, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *raw = rest;
    out.reserve(count);
    runs(runs_of, (u8::BITS - most.leading_zeros()) as u8, count, |level, times| {
        let level = u8::try_from(level).ok().filter(|level| *level <= most)?;
        out.extend(std::iter::repeat_n(level, times));
        Some(())
    })
}

/// Reads so many numbers of so many bits, run-length encoded or packed: a value and how often it comes.
fn runs(
    mut bytes: &[u8],
    width: u8,
    count: usize,
    mut each: impl FnMut(u32, usize) -> Option<()>,
) -> Option<()> {
    if u32::from(width) > u32::BITS {
        return None;
    }
    let mut left = count;
    while left > 0 {
        let head = usize::try_from(varint(&mut bytes)?).ok()?;
        if head & 1 == 0 {
            let (value, rest) = bytes.split_at_checked(usize::from(width).div_ceil(8))?;
            bytes = rest;
            let value = value.iter().rev().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
            let times = (head >> 1).min(left);
            if times == 0 {
                return None;
            }
            each(value, times)?;
            left -= times;
        } else {
            let (packed, rest) = bytes.split_at_checked((head >> 1).checked_mul(usize::from(width))?)?;
            bytes = rest;
            let numbers = (head >> 1).checked_mul(8)?.min(left);
            if numbers == 0 {
                return None;
            }
            let (mut bits, mut have, mut from) = (0u64, 0, packed.iter());
            let mask = (1u64 << width) - 1;
            for _ in 0..numbers {
                while have < width {
                    bits |= u64::from(*from.next()?) << have;
                    have += 8;
                }
                each((bits & mask) as u32, 1)?;
                bits >>= width;
                have -= width;
            }
            left -= numbers;
        }
    }
    Some(())
}

/// Reads the number behind so many of so many bits each, run-length encoded or packed; of numbers of one bit also how many ones
/// come before it.
fn number_at(mut bytes: &[u8], width: u8, mut before: usize) -> Option<(u32, usize)> {
    if u32::from(width) > u32::BITS {
        return None;
    }
    let is_bit = width == 1;
    let mut ones = 0;
    loop {
        let head = usize::try_from(varint(&mut bytes)?).ok()?;
        if head < 2 {
            return None;
        }
        if head & 1 == 0 {
            let (value, rest) = bytes.split_at_checked(usize::from(width).div_ceil(8))?;
            bytes = rest;
            let value = value.iter().rev().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
            let times = head >> 1;
            if is_bit && value == 1 {
                ones += times.min(before);
            }
            if before < times {
                return Some((value, ones));
            }
            before -= times;
        } else {
            let (packed, rest) = bytes.split_at_checked((head >> 1).checked_mul(usize::from(width))?)?;
            bytes = rest;
            let numbers = (head >> 1).checked_mul(8)?;
            let passed = before.min(numbers);
            if is_bit {
                let whole = packed[..passed / 8].iter().map(|byte| byte.count_ones() as usize).sum::<usize>();
                let part = packed.get(passed / 8).map_or(0, |byte| byte & !(u8::MAX << (passed % 8)));
                ones += whole + part.count_ones() as usize;
            }
            if before < numbers {
                let first = before * usize::from(width);
                let mut word = [0; 8];
                let from = packed.get(first / 8..).unwrap_or_default();
                let length = from.len().min(word.len());
                word[..length].copy_from_slice(&from[..length]);
                let mask = (1u64 << width) - 1;
                return Some(((u64::from_le_bytes(word) >> (first % 8) & mask) as u32, ones));
            }
            before -= numbers;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::kept_pages::KeptPages;
    use super::*;

    fn memory<'m>(budget: &'m mut usize, kept: &'m mut KeptPages) -> PageMemory<'m> {
        PageMemory { budget, kept }
    }

    #[test]
    fn runs_and_packed_numbers_are_read() {
        let read = |bytes: &[u8], width, count| {
            let mut numbers = Vec::new();
            runs(bytes, width, count, |number, times| {
                numbers.extend(std::iter::repeat_n(number, times));
                Some(())
            })
            .map(|()| numbers)
        };
        // The example of the format's documentation: 0 to 7 in three bits each; then 4 four times.
        assert_eq!(
            read(&[3, 0b1000_1000, 0b1100_0110, 0b1111_1010, 8, 4], 3, 12).unwrap(),
            [0, 1, 2, 3, 4, 5, 6, 7, 4, 4, 4, 4]
        );
        assert_eq!(read(&[6], 0, 3).unwrap(), [0, 0, 0], "a dictionary of one");
        assert_eq!(read(&[4, 1], 1, 3), None, "too few");
        assert_eq!(read(&[0, 0], 1, 3), None, "a run of none");
        assert_eq!(read(&[4, 1], 33, 1), None);
        let most = [8, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(read(&most, 32, 4).unwrap(), [u32::MAX; 4]);
    }

    #[test]
    fn a_page_states_more_than_there_may_be() {
        // A data page of 2^31 - 1 entries without content.
        let head = [
            0x15, 0, 0x15, 0, 0x15, 0, 0x2c, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, 0, 0x15, 6, 0x15, 6,
            0, 0,
        ];
        let mut rest = head.as_slice();
        let read = PageHead::read(&mut rest).unwrap();
        assert_eq!(read.kind, PageKind::Data { entries: i32::MAX as usize, by_dictionary: false });
        let rows = i32::MAX as usize;
        assert!(
            decode(
                &head,
                ColumnsFormat::Sealed,
                Type::Bool,
                (rows, 0..rows),
                &mut memory(&mut (1 << 30), &mut KeptPages::default())
            )
            .is_none()
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            kind in prop::sample::select(Type::ALL.to_vec()),
            rows in 0usize..20,
            part in any::<prop::sample::Index>(),
        ) {
            for form in [ColumnsFormat::Sealed, ColumnsFormat::Bare] {
                let (mut budget, mut kept) = (1 << 21, KeptPages::default());
                if let Some(chunk) = decode(&bytes, form, kind, (rows, 0..rows), &mut memory(&mut budget, &mut kept)) {
                    prop_assert!(chunk.levels.len() >= rows);
                }
                let first = part.index(rows + 1);
                let _ = decode(&bytes, form, kind, (rows, first..rows), &mut memory(&mut budget, &mut kept));
            }
        }
    }
}

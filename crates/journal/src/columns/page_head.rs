//! The head of a page, in Thrift's compact protocol: <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>.

/// Nesting above which a head is not believed.
const NESTING_MAX: usize = 8;

pub(super) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// The content of a page's head, as far as it is needed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageHead {
    /// Length of the content, decompressed.
    pub(super) raw: usize,
    pub(super) compressed: usize,
    pub(super) kind: PageKind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PageKind {
    Dictionary { values: usize },
    Data { entries: usize, by_dictionary: bool },
}

/// Numbers of `parquet.thrift`: types of pages, encodings, and types of the compact protocol.
mod number {
    pub(super) const DATA_PAGE: i64 = 0;
    pub(super) const DICTIONARY_PAGE: i64 = 2;
    pub(super) const PLAIN: i64 = 0;
    pub(super) const PLAIN_DICTIONARY: i64 = 2;
    pub(super) const RLE: i64 = 3;
    pub(super) const RLE_DICTIONARY: i64 = 8;
    pub(super) const STRUCT: u8 = 12;
}

impl PageHead {
    pub(super) fn read(bytes: &mut &[u8]) -> Option<PageHead> {
        let (mut kind, mut raw, mut compressed) = (None, None, None);
        let (mut data, mut dictionary) = (None, None);
        fields(bytes, &mut |bytes, field, form| {
            match (field, form) {
                (1, _) => kind = Some(integer(bytes, form)?),
                (2, _) => raw = Some(size(bytes, form)?),
                (3, _) => compressed = Some(size(bytes, form)?),
                (5, number::STRUCT) => data = Some(counted(bytes)?),
                (7, number::STRUCT) => dictionary = Some(counted(bytes)?),
                _ => skip(bytes, form, 0)?,
            }
            Some(())
        })?;
        let kind = match (kind?, data, dictionary) {
            (number::DATA_PAGE, Some((entries, encoding, true)), _) => {
                let by_dictionary = match encoding {
                    number::PLAIN => false,
                    number::PLAIN_DICTIONARY | number::RLE_DICTIONARY => true,
                    _ => return None,
                };
                PageKind::Data { entries, by_dictionary }
            }
            (number::DICTIONARY_PAGE, _, Some((values, number::PLAIN | number::PLAIN_DICTIONARY, _))) => {
                PageKind::Dictionary { values }
            }
            _ => return None,
        };
        Some(PageHead { raw: raw?, compressed: compressed?, kind })
    }
}

/// Reads a data page's and a dictionary page's own head: number of values, their encoding, and whether levels are encoded in
/// the only way that there still is.
fn counted(bytes: &mut &[u8]) -> Option<(usize, i64, bool)> {
    let (mut count, mut encoding, mut usual) = (None, None, true);
    fields(bytes, &mut |bytes, field, form| {
        match field {
            1 => count = Some(size(bytes, form)?),
            2 => encoding = Some(integer(bytes, form)?),
            // In a dictionary's head, whether it is sorted.
            3 | 4 if form == 5 => usual &= integer(bytes, form)? == number::RLE,
            _ => skip(bytes, form, 0)?,
        }
        Some(())
    })?;
    Some((count?, encoding?, usual))
}

/// Gets what is left, a field's number and its type.
type FieldVisitor<'f> = dyn FnMut(&mut &[u8], i64, u8) -> Option<()> + 'f;

/// Goes through the fields of a struct up to its end.
fn fields(bytes: &mut &[u8], each: &mut FieldVisitor<'_>) -> Option<()> {
    let mut field = 0i64;
    loop {
        let (head, rest) = bytes.split_first()?;
        *bytes = rest;
        if *head == 0 {
            return Some(());
        }
        field = match head >> 4 {
            0 => zigzag(varint(bytes)?),
            delta => field.checked_add(i64::from(delta))?,
        };
        each(bytes, field, head & 0x0f)?;
    }
}

fn zigzag(folded: u64) -> i64 {
    (folded >> 1) as i64 ^ -((folded & 1) as i64)
}

/// An integer of 16, 32 or 64 bits.
fn integer(bytes: &mut &[u8], form: u8) -> Option<i64> {
    matches!(form, 4..=6).then(|| varint(bytes).map(zigzag))?
}

fn size(bytes: &mut &[u8], form: u8) -> Option<usize> {
    usize::try_from(i32::try_from(integer(bytes, form)?).ok()?).ok()
}

/// Passes over a value of the compact protocol.
fn skip(bytes: &mut &[u8], form: u8, depth: usize) -> Option<()> {
    if depth > NESTING_MAX {
        return None;
    }
    let mut pass = |length: usize| {
        *bytes = bytes.get(length..)?;
        Some(())
    };
    match form {
        // A truth is in its field's head.
        1 | 2 => Some(()),
        3 => pass(1),
        4..=6 => varint(bytes).map(drop),
        7 => pass(8),
        8 => {
            let length = usize::try_from(varint(bytes)?).ok()?;
            *bytes = bytes.get(length..)?;
            Some(())
        }
        number::STRUCT => fields(bytes, &mut |bytes, _, form| skip(bytes, form, depth + 1)),
        // No list, set or map is in a page's head.
        _ => None,
    }
}

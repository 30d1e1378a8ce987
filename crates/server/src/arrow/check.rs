//! Check of a stream's metadata against its bytes, before anything is read by it.

use std::collections::HashMap;

use arrow_ipc::{Endianness, Field, MessageHeader, Precision, RecordBatch, Schema, Type};

use super::{ArrowError, ArrowLimits, broken};

/// The word before the length of each message since format 0.15.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The buffers of a column, in their order: how many bytes an element of each has.
#[derive(Clone, Copy)]
struct ColumnBuffers {
    widths: &'static [usize],
    /// True if as many buffers of values follow as the batch says.
    is_variadic: bool,
}

/// The buffers of batches, as a schema describes them.
struct SchemaBuffers {
    columns: Vec<ColumnBuffers>,
    /// The buffers of dictionaries' values, by the dictionary's number.
    dictionaries: HashMap<i64, ColumnBuffers>,
}

/// Goes through all messages of a stream.
///
/// # Errors
/// What is wrong with it, is not read here, or is too much.
pub(super) fn check(stream: &[u8], limits: ArrowLimits) -> Result<(), ArrowError> {
    let (mut rest, mut messages, mut rows) = (stream, 0, 0usize);
    let mut columns = None;
    while let Some(message) = next(&mut rest)? {
        messages += 1;
        if messages > ArrowLimits::MESSAGES_MAX {
            return Err(ArrowError::Limit { what: "messages", max: ArrowLimits::MESSAGES_MAX });
        }
        let length = usize::try_from(message.bodyLength()).map_err(|_| broken("a negative length"))?;
        let body = rest.get(..length).ok_or_else(|| broken("a body ends early"))?;
        rest = &rest[length..];
        match (message.header_type(), &columns) {
            (MessageHeader::Schema, None) => {
                let schema = message.header_as_schema().ok_or_else(|| broken("a schema is empty"))?;
                columns = Some(check_schema(&schema)?);
            }
            (MessageHeader::Schema, Some(_)) => return Err(broken("a second schema")),
            (_, None) => return Err(broken("the schema does not come first")),
            (MessageHeader::DictionaryBatch, Some(SchemaBuffers { dictionaries, .. })) => {
                let batch = message.header_as_dictionary_batch();
                let batch = batch.ok_or_else(|| broken("a dictionary is empty"))?;
                if batch.isDelta() {
                    // Each would copy all values before it.
                    return Err(ArrowError::Unread("dictionaries are not read in parts: send each whole"));
                }
                let data = batch.data().ok_or_else(|| broken("a dictionary is empty"))?;
                let values = dictionaries.get(&batch.id());
                let values = values.ok_or_else(|| broken("a dictionary of no column"))?;
                let values = check_batch(&data, std::slice::from_ref(values), body)?;
                if values > ArrowLimits::DICTIONARY_MAX {
                    let what = "values in a dictionary";
                    return Err(ArrowError::Limit { what, max: ArrowLimits::DICTIONARY_MAX });
                }
            }
            (MessageHeader::RecordBatch, Some(SchemaBuffers { columns, .. })) => {
                let batch = message.header_as_record_batch();
                let batch = batch.ok_or_else(|| broken("a record batch is empty"))?;
                rows = rows.saturating_add(check_batch(&batch, columns, body)?);
                if rows > limits.rows_max {
                    return Err(ArrowError::Limit { what: "rows", max: limits.rows_max });
                }
            }
            _ => return Err(broken("a message of another kind")),
        }
    }
    match columns {
        Some(_) => Ok(()),
        None => Err(broken("there is no schema")),
    }
}

/// The next message's metadata; `None` at the end.
fn next<'a>(rest: &mut &'a [u8]) -> Result<Option<arrow_ipc::Message<'a>>, ArrowError> {
    if rest.is_empty() {
        return Ok(None);
    }
    let early = || broken("it ends early");
    let mut word = || {
        let (word, behind) = rest.split_first_chunk::<4>().ok_or_else(early)?;
        *rest = behind;
        Ok(*word)
    };
    let first = word()?;
    let length = if first == CONTINUATION { word()? } else { first };
    let length = u32::from_le_bytes(length) as usize;
    if length == 0 {
        return if rest.is_empty() { Ok(None) } else { Err(broken("something follows its end")) };
    }
    let metadata = rest.get(..length).ok_or_else(early)?;
    *rest = &rest[length..];
    arrow_ipc::root_as_message(metadata).map(Some).map_err(|error| broken(format!("metadata: {error}")))
}

fn check_schema(schema: &Schema<'_>) -> Result<SchemaBuffers, ArrowError> {
    if schema.endianness() != Endianness::Little {
        return Err(ArrowError::Unread("big-endian streams are not read"));
    }
    let fields = schema.fields().ok_or_else(|| broken("a schema without fields"))?;
    if fields.len() > ArrowLimits::COLUMNS_MAX {
        return Err(ArrowError::Limit { what: "columns", max: ArrowLimits::COLUMNS_MAX });
    }
    let mut all = SchemaBuffers { columns: Vec::with_capacity(fields.len()), dictionaries: HashMap::new() };
    for field in fields {
        let values = check_field(&field)?;
        match field.dictionary() {
            Some(dictionary) => {
                // Without a type of its own an index has 32 bits.
                let bits = dictionary.indexType().map_or(32, |index| index.bitWidth());
                all.columns.push(fixed(bits).ok_or_else(|| broken("a dictionary with indices of no width"))?);
                all.dictionaries.insert(dictionary.id(), values);
            }
            None => all.columns.push(values),
        }
    }
    Ok(all)
}

/// A column of numbers with so many bits.
fn fixed(bits: i32) -> Option<ColumnBuffers> {
    let widths: &[usize] = match bits {
        8 => &[1, 1],
        16 => &[1, 2],
        32 => &[1, 4],
        64 => &[1, 8],
        _ => return None,
    };
    Some(ColumnBuffers { widths, is_variadic: false })
}

/// The buffers that a column of the field's type has.
fn buffers(field: &Field<'_>) -> Option<ColumnBuffers> {
    let widths: &[usize] = match field.type_type() {
        Type::Null => &[],
        Type::Int => return fixed(field.type_as_int()?.bitWidth()),
        Type::FloatingPoint => match field.type_as_floating_point()?.precision() {
            Precision::HALF => &[1, 2],
            Precision::SINGLE => &[1, 4],
            _ => &[1, 8],
        },
        Type::Timestamp => &[1, 8],
        Type::Bool | Type::FixedSizeBinary => &[1, 1],
        Type::Utf8 => &[1, 4, 1],
        Type::LargeUtf8 => &[1, 8, 1],
        Type::Utf8View => return Some(ColumnBuffers { widths: &[1, 16], is_variadic: true }),
        _ => return None,
    };
    Some(ColumnBuffers { widths, is_variadic: false })
}

fn check_field(field: &Field<'_>) -> Result<ColumnBuffers, ArrowError> {
    let column = crate::core::problem::shown(field.name().unwrap_or_default());
    let refused = || {
        let found = field.type_type().variant_name().unwrap_or("an unknown type").to_owned();
        ArrowError::Type { column: column.clone(), found }
    };
    let is_read = match field.type_type() {
        Type::Int | Type::FloatingPoint | Type::Utf8 | Type::LargeUtf8 | Type::Utf8View => true,
        Type::Bool | Type::Timestamp | Type::Null => true,
        Type::FixedSizeBinary => {
            field.type_as_fixed_size_binary().is_some_and(|binary| matches!(binary.byteWidth(), 4 | 16))
        }
        _ => false,
    };
    let is_flat = field.children().is_none_or(|children| children.is_empty());
    // A dictionary of views would have other buffers than one of texts.
    let is_plain = field.dictionary().is_none() || field.type_type() != Type::Utf8View;
    match buffers(field) {
        Some(buffers) if is_read && is_flat && is_plain => Ok(buffers),
        _ => Err(refused()),
    }
}

/// Answers the number of rows.
fn check_batch(batch: &RecordBatch<'_>, columns: &[ColumnBuffers], body: &[u8]) -> Result<usize, ArrowError> {
    if batch.compression().is_some() {
        return Err(ArrowError::Unread("compressed batches are not read: send them as they are"));
    }
    let rows = usize::try_from(batch.length()).map_err(|_| broken("a negative number of rows"))?;
    let nodes = batch.nodes().ok_or_else(|| broken("a batch without columns"))?;
    if nodes.len() != columns.len() {
        return Err(broken("a batch has other columns than its schema"));
    }
    for node in nodes {
        if node.length() != batch.length() || !(0..=node.length()).contains(&node.null_count()) {
            return Err(broken("columns of different lengths"));
        }
    }
    let buffers = batch.buffers().ok_or_else(|| broken("a batch without buffers"))?;
    for buffer in buffers {
        let range = usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let end = range.and_then(|(start, length)| start.checked_add(length));
        if end.is_none_or(|end| end > body.len()) {
            return Err(broken("a buffer lies outside of its body"));
        }
    }
    // The reader takes buffers by elements, and does not look whether the last one is whole.
    let mut lengths = buffers.iter().map(|buffer| usize::try_from(buffer.length()).unwrap_or(0));
    let mut variadic = batch.variadicBufferCounts().into_iter().flatten();
    for column in columns {
        for width in column.widths {
            let length = lengths.next().ok_or_else(|| broken("there are fewer buffers"))?;
            if length % width != 0 {
                return Err(broken("a buffer ends within an element"));
            }
        }
        // A view's values may lie in as many buffers as it says: no more than there are.
        let more = if column.is_variadic { variadic.next().unwrap_or(0) } else { 0 };
        let more = usize::try_from(more).ok().filter(|more| *more <= lengths.len());
        let more = more.ok_or_else(|| broken("there are fewer buffers"))?;
        lengths.by_ref().take(more).for_each(|_| ());
    }
    Ok(rows)
}

//! What a stream says of itself, held against what is there, before anything is read by it.

use arrow_ipc::{Endianness, Field, MessageHeader, RecordBatch, Schema, Type};

use super::{ArrowError, Limits, broken};

/// The word before the length of each message since format 0.15.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Goes through all messages of a stream.
///
/// # Errors
/// What is wrong with it, is not read here, or is too much.
pub(super) fn check(stream: &[u8], limits: Limits) -> Result<(), ArrowError> {
    let (mut rest, mut messages, mut rows) = (stream, 0, 0usize);
    let mut columns = None;
    while let Some(message) = next(&mut rest)? {
        messages += 1;
        if messages > Limits::MESSAGES_MAX {
            return Err(ArrowError::Limit { what: "messages", max: Limits::MESSAGES_MAX });
        }
        let length = usize::try_from(message.bodyLength()).map_err(|_| broken("a negative length"))?;
        let body = rest.get(..length).ok_or_else(|| broken("a body ends early"))?;
        rest = &rest[length..];
        match (message.header_type(), columns) {
            (MessageHeader::Schema, None) => {
                let schema = message.header_as_schema().ok_or_else(|| broken("a schema is empty"))?;
                columns = Some(check_schema(&schema)?);
            }
            (MessageHeader::Schema, Some(_)) => return Err(broken("a second schema")),
            (_, None) => return Err(broken("the schema does not come first")),
            (MessageHeader::DictionaryBatch, Some(_)) => {
                let batch = message.header_as_dictionary_batch();
                let batch = batch.ok_or_else(|| broken("a dictionary is empty"))?;
                if batch.isDelta() {
                    // Each would copy all values before it.
                    return Err(ArrowError::Unread("dictionaries are not read in parts: send each whole"));
                }
                let data = batch.data().ok_or_else(|| broken("a dictionary is empty"))?;
                let values = check_batch(&data, 1, body)?;
                if values > Limits::DICTIONARY_MAX {
                    let what = "values in a dictionary";
                    return Err(ArrowError::Limit { what, max: Limits::DICTIONARY_MAX });
                }
            }
            (MessageHeader::RecordBatch, Some(columns)) => {
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

/// Answers the number of columns.
fn check_schema(schema: &Schema<'_>) -> Result<usize, ArrowError> {
    if schema.endianness() != Endianness::Little {
        return Err(ArrowError::Unread("big-endian streams are not read"));
    }
    let fields = schema.fields().ok_or_else(|| broken("a schema without fields"))?;
    if fields.len() > Limits::COLUMNS_MAX {
        return Err(ArrowError::Limit { what: "columns", max: Limits::COLUMNS_MAX });
    }
    fields.iter().try_for_each(|field| check_field(&field))?;
    Ok(fields.len())
}

fn check_field(field: &Field<'_>) -> Result<(), ArrowError> {
    let column = crate::problem::shown(field.name().unwrap_or_default());
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
    if is_read && is_flat && is_plain { Ok(()) } else { Err(refused()) }
}

/// Answers the number of rows.
fn check_batch(batch: &RecordBatch<'_>, columns: usize, body: &[u8]) -> Result<usize, ArrowError> {
    if batch.compression().is_some() {
        return Err(ArrowError::Unread("compressed batches are not read: send them as they are"));
    }
    let rows = usize::try_from(batch.length()).map_err(|_| broken("a negative number of rows"))?;
    let nodes = batch.nodes().ok_or_else(|| broken("a batch without columns"))?;
    if nodes.len() != columns {
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
    // A view's values may lie in as many buffers as it says: no more than there are.
    let mut variadic = batch.variadicBufferCounts().into_iter().flatten();
    if variadic.any(|count| usize::try_from(count).is_ok_and(|count| count > buffers.len()) || count < 0) {
        return Err(broken("there are fewer buffers"));
    }
    Ok(rows)
}

//! A stream's record batches, and the engine's columns over them.

use std::borrow::Cow;
use std::net::IpAddr;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::{DataType, TimeUnit};
use axum::body::Bytes;
use engine::batch::{BatchCells, BatchColumn, EventBatch};

use super::check::check;
use super::{ArrowError, ArrowLimits, broken};

/// Reads a stream. Arrays share the memory of the body; linear in it.
///
/// # Errors
/// See [`ArrowError`].
pub fn read(body: Bytes, limits: ArrowLimits) -> Result<Vec<RecordBatch>, ArrowError> {
    check(&body, limits)?;
    let mut decoder = StreamDecoder::new();
    let mut rest = Buffer::from(body);
    let mut batches = Vec::new();
    while !rest.is_empty() {
        batches.extend(decoder.decode(&mut rest).map_err(broken)?);
    }
    decoder.finish().map_err(broken)?;
    if let Some(schema) = decoder.schema() {
        for field in schema.fields() {
            if !is_read(field.data_type()) {
                let column = crate::core::problem::shown(field.name());
                return Err(ArrowError::Type { column, found: field.data_type().to_string() });
            }
        }
    }
    Ok(batches)
}

fn is_read(kind: &DataType) -> bool {
    use DataType as T;
    match kind {
        T::Null | T::Boolean | T::Float32 | T::Float64 | T::Utf8 | T::LargeUtf8 | T::Utf8View => true,
        T::Timestamp(..) | T::FixedSizeBinary(4 | 16) => true,
        T::Dictionary(codes, values) => {
            codes.is_integer() && !matches!(**values, T::Dictionary(..)) && is_read(values)
        }
        kind => kind.is_integer(),
    }
}

/// The columns of a record batch. What is not there, or is of a type that [`read`] refuses, has no values.
pub fn batch(record: &RecordBatch) -> EventBatch<'_> {
    let columns = record.schema_ref().fields().iter().zip(record.columns());
    let columns = columns.map(|(field, array)| (Cow::Owned(field.name().clone()), column(array)));
    EventBatch { rows: record.num_rows(), columns: columns.collect(), id: None }
}

fn column(array: &dyn Array) -> BatchColumn<'_> {
    let present = array.nulls().map(|nulls| nulls.iter().collect::<Vec<bool>>());
    let Some(dictionary) = array.as_any_dictionary_opt() else {
        return BatchColumn { cells: cells(array), codes: None, present };
    };
    let values = dictionary.values();
    let codes: Vec<u32> = match dictionary.keys().data_type() {
        DataType::Int8 => codes::<Int8Type>(dictionary.keys()),
        DataType::Int16 => codes::<Int16Type>(dictionary.keys()),
        DataType::Int32 => codes::<Int32Type>(dictionary.keys()),
        DataType::Int64 => codes::<Int64Type>(dictionary.keys()),
        DataType::UInt8 => codes::<UInt8Type>(dictionary.keys()),
        DataType::UInt16 => codes::<UInt16Type>(dictionary.keys()),
        DataType::UInt32 => codes::<UInt32Type>(dictionary.keys()),
        _ => codes::<UInt64Type>(dictionary.keys()),
    };
    let mut present = present;
    if let Some(nulls) = values.nulls() {
        let present = present.get_or_insert_with(|| vec![true; codes.len()]);
        for (present, code) in present.iter_mut().zip(&codes) {
            let code = *code as usize;
            *present &= code >= nulls.len() || nulls.is_valid(code);
        }
    }
    BatchColumn { cells: cells(values), codes: Some(codes), present }
}

/// A dictionary has fewer values than codes that do not fit, so these stand for none.
fn codes<K: ArrowPrimitiveType>(keys: &dyn Array) -> Vec<u32>
where
    K::Native: TryInto<u32>,
{
    let keys = keys.as_primitive::<K>().values();
    keys.iter().map(|code| (*code).try_into().unwrap_or(u32::MAX)).collect()
}

fn cells(array: &dyn Array) -> BatchCells<'_> {
    use DataType as T;
    match array.data_type() {
        T::Int8 => integers::<Int8Type>(array),
        T::Int16 => integers::<Int16Type>(array),
        T::Int32 => integers::<Int32Type>(array),
        T::Int64 => BatchCells::Integers(Cow::Borrowed(array.as_primitive::<Int64Type>().values())),
        T::UInt8 => integers::<UInt8Type>(array),
        T::UInt16 => integers::<UInt16Type>(array),
        T::UInt32 => integers::<UInt32Type>(array),
        T::UInt64 => BatchCells::Unsigned(Cow::Borrowed(array.as_primitive::<UInt64Type>().values())),
        T::Float32 => {
            let values = array.as_primitive::<Float32Type>().values();
            BatchCells::Floats(values.iter().map(|float| f64::from(*float)).collect())
        }
        T::Float64 => BatchCells::Floats(Cow::Borrowed(array.as_primitive::<Float64Type>().values())),
        T::Boolean => BatchCells::Bools(array.as_boolean().values().iter().collect()),
        T::Utf8 => {
            BatchCells::Texts((0..array.len()).map(|row| array.as_string::<i32>().value(row)).collect())
        }
        T::LargeUtf8 => {
            BatchCells::Texts((0..array.len()).map(|row| array.as_string::<i64>().value(row)).collect())
        }
        T::Utf8View => {
            BatchCells::Texts((0..array.len()).map(|row| array.as_string_view().value(row)).collect())
        }
        T::Timestamp(TimeUnit::Second, _) => {
            times::<TimestampSecondType>(array, |time| time.saturating_mul(1_000_000))
        }
        T::Timestamp(TimeUnit::Millisecond, _) => {
            times::<TimestampMillisecondType>(array, |time| time.saturating_mul(1_000))
        }
        T::Timestamp(TimeUnit::Microsecond, _) => {
            BatchCells::Times(Cow::Borrowed(array.as_primitive::<TimestampMicrosecondType>().values()))
        }
        T::Timestamp(TimeUnit::Nanosecond, _) => {
            times::<TimestampNanosecondType>(array, |time| time.div_euclid(1_000))
        }
        T::FixedSizeBinary(_) => {
            let binary = array.as_fixed_size_binary();
            let ip = |row| {
                let bytes: &[u8] = binary.value(row);
                let v6 = <[u8; 16]>::try_from(bytes).map(IpAddr::from);
                v6.or_else(|_| <[u8; 4]>::try_from(bytes).map(IpAddr::from))
            };
            let ips: Result<Vec<IpAddr>, _> = (0..array.len()).map(ip).collect();
            BatchCells::Ips(ips.unwrap_or_default())
        }
        _ => BatchCells::Values(Vec::new()),
    }
}

fn integers<T: ArrowPrimitiveType>(array: &dyn Array) -> BatchCells<'_>
where
    T::Native: Into<i64>,
{
    let values = array.as_primitive::<T>().values();
    BatchCells::Integers(values.iter().map(|integer| (*integer).into()).collect())
}

fn times<T: ArrowPrimitiveType<Native = i64>>(array: &dyn Array, micros: fn(i64) -> i64) -> BatchCells<'_> {
    let values = array.as_primitive::<T>().values();
    BatchCells::Times(values.iter().map(|time| micros(*time)).collect())
}

//! Events of a measurement as columns.

use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeBinaryArray, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;

use super::drawn_keys::{ADDRESS, KEYS, TEXTS};
use crate::exit::CommandError;

/// Rows of key numbers as a stream of columns. A number is another key in each column.
pub(super) fn encode(rows: &[[u64; KEYS]]) -> Result<Arc<Vec<u8>>, CommandError> {
    let column = |at: usize| -> Result<ArrayRef, CommandError> {
        let numbers = rows.iter().map(|row| row[at]);
        Ok(match at {
            ADDRESS => {
                let bytes = numbers.map(|number| (number as u32 | 0x0a00_0000).to_be_bytes());
                Arc::new(FixedSizeBinaryArray::try_from_iter(bytes).map_err(CommandError::new)?)
            }
            at if TEXTS.contains(&at) => {
                Arc::new(StringArray::from_iter_values(numbers.map(|number| format!("{number:016x}"))))
            }
            _ => Arc::new(Int64Array::from_iter_values(numbers.map(|number| number as i64))),
        })
    };
    let columns =
        (0..KEYS).map(|at| Ok((format!("k{at}"), column(at)?))).collect::<Result<Vec<_>, CommandError>>()?;
    let batch = RecordBatch::try_from_iter(columns).map_err(CommandError::new)?;
    let mut stream = Vec::new();
    let mut writer = StreamWriter::try_new(&mut stream, &batch.schema()).map_err(CommandError::new)?;
    writer.write(&batch).and_then(|()| writer.finish()).map_err(CommandError::new)?;
    drop(writer);
    Ok(Arc::new(stream))
}

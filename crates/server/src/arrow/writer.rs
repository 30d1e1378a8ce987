//! Answers as a stream. Its columns are sent from where they were made: nothing of them is copied before.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int8Array, Int64Array, ListArray, RecordBatch,
    StringArray, TimestampMicrosecondArray, UInt8Array, UInt64Array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow_ipc::writer::StreamEncoder;
use arrow_schema::{DataType, Field, Schema};
use axum::body::Bytes;
use engine::Decision;
use engine::batch::{AnswerCells, BatchAnswer};
use journal::RecordId;
use judge::Action;

/// The answer to one record batch: what was decided, if it was, and what is known.
pub type BatchOutcome = (Option<Vec<Decision>>, BatchAnswer);

/// The time zone of all times.
const UTC: &str = "UTC";

/// Parts of a stream that are shorter are put together: sending each would cost more than copying it.
const PART_BYTES: usize = 4096;

/// The key of warnings in the metadata of an answer's schema: an array of texts as JSON, absent without warnings.
/// (Columns of their own would be in the way of who hands the answer to a model.)
const WARNINGS: &str = "tollhouse.warnings";

/// Writes a stream with a record batch for each answer, in parts that follow one another. All answers are of one pipeline,
/// so that they have the same columns; there is at least one.
///
/// # Errors
/// The library's, which has none for what is written here.
pub fn write(
    answers: Vec<BatchOutcome>,
    warnings: &[String],
) -> Result<Vec<Bytes>, arrow_schema::ArrowError> {
    // All batches of a stream have the same columns.
    let has_uncounted = answers.iter().any(|(_, answer)| !answer.uncounted.is_empty());
    let record = |answer| record(answer, has_uncounted);
    let batches: Vec<RecordBatch> = answers.into_iter().map(record).collect::<Result<_, _>>()?;
    let empty = Arc::new(Schema::empty());
    let mut schema = batches.first().map_or(empty, RecordBatch::schema);
    if !warnings.is_empty() {
        let metadata = HashMap::from([(WARNINGS.to_owned(), serde_json::json!(warnings).to_string())]);
        schema = Arc::new(Schema::clone(&schema).with_metadata(metadata));
    }
    let mut encoder = StreamEncoder::try_new(&schema)?;
    let (mut parts, mut short) = (Vec::new(), Vec::new());
    let mut add = |buffers: Vec<Buffer>| {
        for buffer in buffers {
            if buffer.len() < PART_BYTES {
                short.extend_from_slice(&buffer);
                continue;
            }
            if !short.is_empty() {
                parts.push(Bytes::from(std::mem::take(&mut short)));
            }
            parts.push(Bytes::from_owner(buffer));
        }
    };
    for batch in &batches {
        add(encoder.encode(batch)?);
    }
    add(encoder.finish()?);
    parts.extend((!short.is_empty()).then(|| Bytes::from(short)));
    Ok(parts)
}

/// One batch, with a column that says which events are not known to be counted where some are not.
fn record(
    (decisions, answer): BatchOutcome,
    has_uncounted: bool,
) -> Result<RecordBatch, arrow_schema::ArrowError> {
    let (mut fields, mut arrays): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    let mut add = |name: &str, array: ArrayRef, nullable: bool| {
        fields.push(Field::new(name, array.data_type().clone(), nullable));
        arrays.push(array);
    };
    if let Some(decisions) = &decisions {
        add("id", Arc::new(ids(decisions)), false);
        let scores = decisions.iter().map(|decision| decision.verdict.score);
        add("score", Arc::new(Float64Array::from_iter_values(scores)), false);
        let probabilities = decisions.iter().map(|decision| decision.verdict.probability);
        add("probability", Arc::new(Float64Array::from_iter_values(probabilities)), false);
        add("action", Arc::new(actions(decisions)?), false);
        add("reasons", Arc::new(reasons(decisions)?), false);
    }
    add("duplicate", Arc::new(BooleanArray::from(answer.duplicate)), false);
    if has_uncounted {
        let mut uncounted = vec![false; answer.rows];
        for row in answer.uncounted {
            if let Some(cell) = uncounted.get_mut(row) {
                *cell = true;
            }
        }
        add("uncounted", Arc::new(BooleanArray::from(uncounted)), false);
    }
    for column in answer.columns {
        let nulls = column.present.map(|present| NullBuffer::new(BooleanBuffer::from(present)));
        add(&column.name, cells(column.cells, nulls)?, true);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

fn ids(decisions: &[Decision]) -> StringArray {
    let mut ids = StringBuilder::with_capacity(decisions.len(), decisions.len() * RecordId::TEXT_BYTES);
    for decision in decisions {
        // Writing to memory cannot fail.
        let _ = write!(ids, "{}", decision.id);
        ids.append_value("");
    }
    ids.finish()
}

/// The actions, whose names are said once, in the order in which they come.
fn actions(decisions: &[Decision]) -> Result<DictionaryArray<Int8Type>, arrow_schema::ArrowError> {
    let (mut names, mut codes) = (Vec::new(), [None; Action::ALL.len()]);
    let code = |decision: &Decision| {
        let action = decision.verdict.action;
        *codes[action as usize].get_or_insert_with(|| {
            names.push(action.name());
            (names.len() - 1) as i8
        })
    };
    let codes = Int8Array::from_iter_values(decisions.iter().map(code));
    DictionaryArray::try_new(codes, Arc::new(StringArray::from_iter_values(names)))
}

/// The names of the rules that fired.
fn reasons(decisions: &[Decision]) -> Result<ListArray, arrow_schema::ArrowError> {
    let names = |decision: &Decision| decision.verdict.reasons.len();
    let offsets = OffsetBuffer::from_lengths(decisions.iter().map(names));
    let all = decisions.iter().flat_map(|decision| &decision.verdict.reasons);
    let values = StringArray::from_iter_values(all.map(|reason| reason.rule.as_str()));
    let item = Arc::new(Field::new("item", DataType::Utf8, false));
    ListArray::try_new(item, offsets, Arc::new(values), None)
}

fn cells(cells: AnswerCells, nulls: Option<NullBuffer>) -> Result<ArrayRef, arrow_schema::ArrowError> {
    Ok(match cells {
        AnswerCells::Counts(cells) => Arc::new(UInt64Array::new(cells.into(), nulls)),
        AnswerCells::Integers(cells) => Arc::new(Int64Array::new(cells.into(), nulls)),
        AnswerCells::Reals(cells) => Arc::new(Float64Array::new(cells.into(), nulls)),
        AnswerCells::Times(cells) => {
            Arc::new(TimestampMicrosecondArray::new(cells.into(), nulls).with_timezone(UTC))
        }
        AnswerCells::Bools(cells) => Arc::new(BooleanArray::new(BooleanBuffer::from(cells), nulls)),
        AnswerCells::Qualities(cells) => {
            let codes = UInt8Array::new(cells.into(), nulls);
            let names = StringArray::from_iter_values(AnswerCells::QUALITIES);
            Arc::new(DictionaryArray::try_new(codes, Arc::new(names))?)
        }
    })
}

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, FixedSizeBinaryArray, Float32Array, Int16Array, Int64Array,
    LargeStringArray, ListArray, RecordBatch, StringArray, StringViewArray, TimestampMillisecondArray,
    UInt64Array,
};
use arrow_ipc::writer::StreamWriter;
use axum::body::Bytes;
use engine::batch::BatchCells;
use proptest::prelude::*;

use super::*;

const LIMITS: ArrowLimits = ArrowLimits { rows_max: 100 };

fn record(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut writer = StreamWriter::try_new(&mut stream, &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    drop(writer);
    stream
}

fn every_type() -> RecordBatch {
    let dictionary: DictionaryArray<Int32Type> = [Some("a"), None, Some("a")].into_iter().collect();
    record(vec![
        ("dictionary", Arc::new(dictionary)),
        ("text", Arc::new(StringArray::from(vec![Some("x"), None, Some("")]))),
        ("large", Arc::new(LargeStringArray::from(vec!["x", "y", "z"]))),
        ("view", Arc::new(StringViewArray::from(vec!["short", "one that is longer than twelve bytes", "z"]))),
        ("small", Arc::new(Int16Array::from(vec![Some(-3), None, Some(7)]))),
        ("integer", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("unsigned", Arc::new(UInt64Array::from(vec![1, u64::MAX, 3]))),
        ("float", Arc::new(Float32Array::from(vec![0.5, 1.5, 2.5]))),
        ("bool", Arc::new(BooleanArray::from(vec![true, false, true]))),
        ("time", Arc::new(TimestampMillisecondArray::from(vec![5, 6, 7]))),
        ("ip", Arc::new(FixedSizeBinaryArray::try_from_iter([[192u8, 0, 2, 7]; 3].into_iter()).unwrap())),
    ])
}

#[test]
fn every_type_is_read() {
    let batches = read(Bytes::from(stream(&[every_type(), every_type()])), LIMITS).unwrap();
    assert_eq!(batches.len(), 2);
    let batch = batch(&batches[1]);
    assert_eq!(batch.rows, 3);
    let column = |name: &str| &batch.columns.iter().find(|(own, _)| own == name).unwrap().1;
    let dictionary = column("dictionary");
    assert_eq!(dictionary.present, Some(vec![true, false, true]));
    assert!(matches!(&dictionary.cells, BatchCells::Texts(texts) if texts == &["a"]), "{dictionary:?}");
    assert_eq!(dictionary.codes.as_ref().map(|codes| (codes[0], codes[2])), Some((0, 0)));
    assert_eq!(column("text").present, Some(vec![true, false, true]));
    assert!(matches!(&column("view").cells, BatchCells::Texts(texts) if texts[1].ends_with("twelve bytes")));
    assert!(matches!(&column("large").cells, BatchCells::Texts(texts) if texts == &["x", "y", "z"]));
    assert!(matches!(&column("small").cells, BatchCells::Integers(integers) if integers[2] == 7));
    assert!(matches!(&column("integer").cells, BatchCells::Integers(std::borrow::Cow::Borrowed([1, 2, 3]))));
    assert!(matches!(&column("unsigned").cells, BatchCells::Unsigned(integers) if integers[1] == u64::MAX));
    assert!(matches!(&column("float").cells, BatchCells::Floats(floats) if floats[1] == 1.5));
    assert!(matches!(&column("bool").cells, BatchCells::Bools(bools) if bools == &[true, false, true]));
    assert!(matches!(&column("time").cells, BatchCells::Times(times) if times[0] == 5_000));
    assert!(matches!(&column("ip").cells, BatchCells::Ips(ips) if ips[0].to_string() == "192.0.2.7"));
}

/// Arrays lie in the body: nothing is copied.
#[test]
fn columns_share_the_memory_of_the_body() {
    let values: Vec<i64> = (0..100).collect();
    let body = Bytes::from(stream(&[record(vec![("integer", Arc::new(Int64Array::from(values)))])]));
    let range = body.as_ptr_range();
    let batches = read(body.clone(), LIMITS).unwrap();
    let batch = batch(&batches[0]);
    let BatchCells::Integers(integers) = &batch.columns[0].1.cells else { panic!("{batch:?}") };
    assert!(range.contains(&integers.as_ptr().cast::<u8>()) || body.as_ptr().align_offset(8) != 0);
}

#[track_caller]
fn refused(body: Vec<u8>, expected: &str) {
    let error = read(Bytes::from(body), LIMITS).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn what_is_not_read_is_told() {
    refused(Vec::new(), "there is no schema");
    refused(b"{\"user\":1}".to_vec(), "expected an Arrow IPC stream");
    let long = record(vec![("integer", Arc::new(Int64Array::from(vec![1; 101])))]);
    refused(stream(&[long]), "at most 100 rows");
    let half = record(vec![("integer", Arc::new(Int64Array::from(vec![1; 60])))]);
    refused(stream(&[half.clone(), half]), "at most 100 rows");
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]);
    refused(stream(&[record(vec![("items", Arc::new(list))])]), "column `items`: List is not read");
    let wide = FixedSizeBinaryArray::try_from_iter([[0u8; 5]].into_iter()).unwrap();
    refused(stream(&[record(vec![("ip", Arc::new(wide))])]), "column `ip`: FixedSizeBinary is not read");
    let many: Vec<(String, ArrayRef)> =
        (0..513).map(|at| (at.to_string(), Arc::new(Int64Array::from(vec![1])) as ArrayRef)).collect();
    refused(stream(&[RecordBatch::try_from_iter(many).unwrap()]), "at most 512 columns");
    let mut trailing = stream(&[every_type()]);
    trailing.extend_from_slice(b"more");
    refused(trailing, "something follows its end");
    let whole = stream(&[every_type()]);
    refused(whole[..whole.len() / 2].to_vec(), "ends early");
}

/// Found by fuzzing: the reader took such a buffer by elements, and panicked.
#[test]
fn a_buffer_that_ends_within_an_element_is_refused() {
    let stream = include_bytes!("../../../../fuzz/seeds/arrow/half-an-offset");
    refused(stream.to_vec(), "a buffer ends within an element");
}

#[test]
fn a_stream_without_its_end_mark_is_whole() {
    let mut stream = stream(&[every_type()]);
    stream.truncate(stream.len() - 8);
    assert_eq!(read(Bytes::from(stream), LIMITS).unwrap().len(), 1);
}

proptest! {
    /// Streams with any bytes changed are read or refused.
    #[test]
    fn broken_streams_are_refused(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = stream(&[every_type()]);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(batches) = read(Bytes::from(bytes), LIMITS) {
            for record in &batches {
                prop_assert!(batch(record).rows <= LIMITS.rows_max);
            }
        }
    }
}

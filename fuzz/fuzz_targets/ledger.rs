//! Any bytes are a segment, and its hint or the list of segments: the log opens, or says why not, every record that it names can be asked for,
//! and what is appended then is found again.
#![no_main]

use std::sync::Arc;

use disk::{Device, MemoryDevice};
use libfuzzer_sys::fuzz_target;
use store::log::{Log, LogOptions, Position, RecordKey, VisitedRecord};

// The first two bytes say how much of the rest is the segment; what follows is the hint.
fuzz_target!(|bytes: &[u8]| {
    let Some((head, rest)) = bytes.split_first_chunk::<2>() else { return };
    let (segment, hint) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*head))));
    let device = MemoryDevice::new();
    device.write("00000000.seg", segment);
    if !hint.is_empty() {
        device.write("00000000.hint", hint);
        device.write("segments", hint);
    }
    let shared: Arc<dyn Device> = Arc::new(device.clone());
    let mut wanted: Vec<(Position, usize)> = Vec::new();
    let mut visit = |visit: &VisitedRecord| wanted.push((visit.position, visit.words));
    let Ok((log, _)) = Log::open(shared.clone(), LogOptions::default(), &mut visit) else { return };
    log.verify(&mut |_, _| {}, &mut |_| {}).expect("the device does not fail");
    for segment in log.segments() {
        log.scan(segment.slot, &mut |_, _| {}).expect("the device does not fail");
    }
    for (position, words) in wanted {
        let _ = log.read(position, words);
    }
    let key = RecordKey { space: 7, kind: 7, shingle: 7 };
    let mut writer = log.begin().expect("nothing has failed");
    writer.push(key, 7, i64::MAX, &[7]).expect("there is room");
    writer.commit(true).expect("the device does not fail");
    drop(writer);
    drop(log);
    let mut last = None;
    let (log, _) = Log::open(shared, LogOptions::default(), &mut |visit| last = Some(*visit))
        .expect("it has opened before");
    let last = last.expect("there is a record");
    assert_eq!(last.key, key);
    assert_eq!(log.read(last.position, 1).expect("it was synced").words, [7]);
});

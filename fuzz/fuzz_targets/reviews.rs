//! Any bytes are the files of a queue of reviews, images before the first empty line and a log behind it, and so are lines in the
//! frames of a log: what can be read is in the queue, and there again when it is opened once more, with what was changed.
#![no_main]

use disk::MemoryDevice;
use disk::log::FrameHead;
use engine::{ReviewFilter, ReviewOrder, ReviewQueue};
use event::Time;
use libfuzzer_sys::fuzz_target;

const NOW: Time = Time::from_seconds(1_779_012_000);

fn open(device: &MemoryDevice) -> ReviewQueue {
    ReviewQueue::open(Box::new(device.clone())).unwrap()
}

/// Each line as the content of a frame, which a checksum would hardly ever let through.
fn framed(lines: &[u8]) -> Vec<u8> {
    let mut log = Vec::new();
    for content in lines.split(|byte| *byte == b'\n') {
        log.extend(FrameHead::<0>::of(log.len() as u64, [], content).write(*b"thrv"));
        log.extend(content);
    }
    log
}

fn check(device: &MemoryDevice) {
    let queue = open(device);
    let page = queue.page(&ReviewFilter::default(), ReviewOrder::Exposed, None, usize::MAX, NOW);
    for item in &page.items {
        let changed = pollster::block_on(queue.comment(item.id, "ann", "seen", NOW));
        let known = queue.get(item.id).unwrap();
        assert!(changed.is_err() || known.comments.len() == item.comments.len() + 1);
    }
    let again = open(device);
    for item in &page.items {
        assert_eq!(*again.get(item.id).unwrap(), *queue.get(item.id).unwrap());
    }
}

fuzz_target!(|bytes: &[u8]| {
    let at = bytes.windows(2).position(|pair| pair == b"\n\n").unwrap_or(bytes.len());
    let (images, log) = bytes.split_at(at);
    let device = MemoryDevice::new();
    device.write("reviews.bin", images);
    device.write("reviews.0.log", log.get(2..).unwrap_or_default());
    check(&device);
    let device = MemoryDevice::new();
    device.write("reviews.0.log", &framed(bytes));
    check(&device);
});

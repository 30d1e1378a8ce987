//! Frames behind damage, and what is kept of it.

use disk::log::{
    FrameFormat, FrameHead, FramePiece, FrameReader, SegmentWriter, forget_tails, keep_damaged, keep_tail,
};
use disk::{Device, MemoryDevice};

const FORMAT: FrameFormat<3> =
    FrameFormat { mark: *b"mark", is_plausible: |frame| frame.length < 1000, window: 64 };

/// Frames of contents of many lengths, with the same bytes in their heads.
fn written() -> (MemoryDevice, Vec<(FrameHead<3>, Vec<u8>)>) {
    let device = MemoryDevice::new();
    let mut writer = SegmentWriter::new(device.create("log").unwrap()).unwrap();
    let mut frames = Vec::new();
    for length in [0_u8, 5, 60, 200, 1, 17] {
        let content = vec![length; length.into()];
        let head = FrameHead::of(writer.size(), *b"own", &content);
        writer.append(&[&head.write(FORMAT.mark), &content]).unwrap();
        frames.push((head, content));
    }
    (device, frames)
}

/// The sound frames, and whether the pieces lie one behind the other up to the end.
fn read(device: &MemoryDevice) -> Vec<(FrameHead<3>, Vec<u8>)> {
    let blob = device.open("log").unwrap();
    let length = blob.size().unwrap();
    let mut reader = FrameReader::new(blob, 0, length, &FORMAT);
    let (mut sound, mut end) = (Vec::new(), 0);
    while let Some(piece) = reader.next_frame().unwrap() {
        match piece {
            FramePiece::Sound(frame) => {
                assert_eq!(frame.0.at, end);
                end = frame.0.end();
                sound.push(frame);
            }
            FramePiece::Damaged(damage) => {
                assert!(damage.from == end && damage.to > end && damage.is_tail == (damage.to == length));
                end = damage.to;
            }
        }
    }
    assert_eq!(end, length);
    sound
}

#[test]
fn a_flipped_bit_costs_the_frame_that_it_is_in() {
    let (device, frames) = written();
    assert_eq!(read(&device), frames);
    let length = device.read("log").unwrap().len();
    for at in 0..length {
        let (device, frames) = written();
        device.flip("log", at, 1 << (at % 8));
        let intact = frames.iter().filter(|(head, _)| !(head.at..head.end()).contains(&(at as u64)));
        assert!(read(&device).iter().eq(intact), "byte {at}");
    }
    for kept in 0..length {
        let (device, frames) = written();
        device.open("log").unwrap().truncate(kept as u64).unwrap();
        let whole = frames.iter().filter(|(head, _)| head.end() <= kept as u64);
        assert!(read(&device).iter().eq(whole), "cut at {kept}");
    }
}

#[test]
fn torn_ends_and_damaged_files_are_kept() {
    let device = MemoryDevice::new();
    for number in 10..40_u64 {
        let name = format!("{number}.log");
        device.write(&name, b"what is torn");
        let kept = keep_tail(&device, &name, &*device.open(&name).unwrap(), 8..12).unwrap();
        assert_eq!(
            (kept.as_str(), device.read(&kept)),
            (&*format!("{number}.00000008.torn"), Some(b"torn".to_vec()))
        );
    }
    forget_tails(&device);
    let torn: Vec<String> =
        device.list().unwrap().into_iter().filter(|name| name.ends_with(".torn")).collect();
    assert_eq!((torn.len(), torn[0].as_str()), (16, "24.00000008.torn"));

    assert_eq!(keep_damaged(&device, "10.log").unwrap(), "10.log.damaged");
    assert_eq!(keep_damaged(&device, "10.log").unwrap(), "10.log.2.damaged");
    // Without room nothing is left of an end.
    device.set_capacity(Some(device.used() + 2));
    assert!(keep_tail(&device, "11.log", &*device.open("11.log").unwrap(), 0..12).is_err());
    assert_eq!(device.read("11.00000000.torn"), None);
}

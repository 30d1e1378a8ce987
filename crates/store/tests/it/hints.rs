//! Hints are a short cut: with them, without them and whatever they say, the same is found.

use disk::MemoryDevice;
use store::log::VisitedRecord;

use crate::support::{append, hint, name, numbers, open};

/// Several segments, groups across them, and a clean close.
fn filled() -> MemoryDevice {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 700);
    for group in 0..6u64 {
        append(&log, &(10 * group..10 * group + 3 * group).collect::<Vec<u64>>(), true).unwrap();
    }
    log.close().unwrap();
    device
}

fn without_hints(device: &MemoryDevice) -> MemoryDevice {
    let bare = MemoryDevice::new();
    for id in 0..100 {
        if let Some(bytes) = device.read(&name(id)) {
            bare.write(&name(id), &bytes);
        }
    }
    bare
}

fn copied(device: &MemoryDevice) -> MemoryDevice {
    let copy = without_hints(device);
    for id in 0..100 {
        if let Some(bytes) = device.read(&hint(id)) {
            copy.write(&hint(id), &bytes);
        }
    }
    copy
}

fn visits_of(device: &MemoryDevice) -> Vec<VisitedRecord> {
    open(device, 700).2
}

#[test]
fn the_same_is_visited_with_hints_and_without() {
    let device = filled();
    let bare = without_hints(&device);
    let (log, recovery, visits) = open(&device, 700);
    assert_eq!((recovery.hints, recovery.hints_ignored.len()), (recovery.segments, 0));
    assert_eq!(numbers(&log, &visits).len(), 45);
    let (bare_log, read, found) = open(&bare, 700);
    assert_eq!((read.hints, &found), (0, &visits));
    assert_eq!((read.records, read.groups, read.floor), (recovery.records, recovery.groups, recovery.floor));
    assert_eq!(bare_log.segments(), log.segments());
    // Reading has written them again, but for the active segment's end.
    for id in 0..recovery.segments as u32 - 1 {
        assert_eq!(bare.read(&hint(id)), device.read(&hint(id)), "segment {id}");
    }
    bare_log.close().unwrap();
    drop((log, bare_log));
    let (_, again, found) = open(&bare, 700);
    assert_eq!((again.hints, found), (again.segments, visits));
}

#[test]
fn appending_goes_on_behind_a_hint() {
    let device = filled();
    let mut expected = visits_of(&without_hints(&device)).len();
    for round in 0..30 {
        let (log, recovery, visits) = open(&device, 700);
        assert_eq!((visits.len(), recovery.losses.is_empty()), (expected, true));
        // What was not closed may have left a hint that was only begun.
        assert!(recovery.hints_ignored.len() <= usize::from(round % 3 == 1), "{round}: {recovery:?}");
        append(&log, &[round, round + 1], true).unwrap();
        expected += 2;
        if round % 3 != 0 {
            log.close().unwrap();
        }
    }
    assert_eq!(visits_of(&device), visits_of(&without_hints(&device)));
}

#[test]
fn a_hint_damaged_anywhere_changes_nothing() {
    let device = filled();
    let expected = visits_of(&without_hints(&device));
    for id in 0..100 {
        let Some(bytes) = device.read(&hint(id)) else { break };
        for at in 0..bytes.len() {
            let damaged = copied(&device);
            damaged.flip(&hint(id), at, 0x20);
            let (log, recovery, visits) = open(&damaged, 700);
            assert_eq!(visits, expected, "byte {at} of hint {id}");
            assert_eq!(recovery.hints_ignored, [hint(id)], "byte {at}");
            assert!(recovery.losses.is_empty() && recovery.truncated_bytes == 0);
            log.close().unwrap();
            drop(log);
            let again = open(&damaged, 700).1;
            assert!(again.hints_ignored.is_empty(), "byte {at}: it was not written again: {again:?}");
        }
        for length in 0..bytes.len() {
            let torn = copied(&device);
            torn.write(&hint(id), &bytes[..length]);
            let (_, recovery, visits) = open(&torn, 700);
            assert_eq!((visits.len(), recovery.hints_ignored.len()), (expected.len(), 1), "{length} bytes");
        }
    }
}

#[test]
fn a_stale_hint_does_not_count() {
    let device = filled();
    let expected = visits_of(&without_hints(&device));
    let mut stale = 0;
    for id in 0..100 {
        let Some(bytes) = device.read(&hint(id)) else { break };
        // The hint of another segment, and that of another log.
        for other in 0..8 {
            let swapped = copied(&device);
            if other != id && device.read(&hint(other)).is_some() {
                swapped.write(&hint(other), &bytes);
                let (_, recovery, visits) = open(&swapped, 700);
                assert_eq!((visits, recovery.hints_ignored), (expected.clone(), vec![hint(other)]));
                stale += 1;
            }
        }
    }
    assert!(stale > 5);
    let other = MemoryDevice::new();
    let (log, ..) = open(&other, 700);
    append(&log, &(500..560).collect::<Vec<u64>>(), true).unwrap();
    log.close().unwrap();
    let swapped = copied(&device);
    swapped.write(&hint(0), &other.read(&hint(0)).unwrap());
    let (_, recovery, visits) = open(&swapped, 700);
    assert_eq!((visits, recovery.hints_ignored), (expected, vec![hint(0)]));
}

#[test]
fn a_hint_without_a_segment_is_removed() {
    let device = filled();
    let bytes = device.read(&hint(0)).unwrap();
    device.write(&hint(77), &bytes);
    let (_, recovery, _) = open(&device, 700);
    assert_eq!((device.read(&hint(77)), recovery.hints_ignored.len()), (None, 0));
}

#[test]
fn a_damaged_segment_gets_no_hint() {
    let device = without_hints(&filled());
    device.flip(&name(0), 150, 1);
    let (log, recovery, _) = open(&device, 700);
    assert!(!recovery.losses.is_empty());
    assert_eq!((device.read(&hint(0)), device.read(&hint(1)).is_some()), (None, true));
    let verified = log.verify(&mut |_, _| {}, &mut |_| {}).unwrap();
    assert_eq!((verified.losses.records, verified.hints_ignored), (recovery.losses.records, vec![hint(0)]));
    drop(log);
    assert_eq!(open(&device, 700).1.losses, recovery.losses, "it is said again");
}

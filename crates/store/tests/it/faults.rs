//! Full disks, failed syncs, short reads, stale positions, and directories of the operating system.

use std::sync::Arc;

use disk::{FileDevice, MemoryDevice};
use store::log::{Log, LogOptions, Position, RecordKey, StoreError, WORDS_MAX};

use crate::support::{append, key, name, numbers, open, words};

#[test]
fn a_full_disk_costs_the_group_and_no_more() {
    for room in (0..3_000).step_by(13) {
        for segment_bytes in [500, 1 << 20] {
            let device = MemoryDevice::new();
            let (log, ..) = open(&device, segment_bytes);
            append(&log, &[1, 2, 3], false).unwrap();
            let usage = log.usage().record_bytes;
            device.set_capacity(Some(device.used() + room));
            let wide: Vec<u64> = (100..140).collect();
            let full = append(&log, &wide, true);
            let written: &[u64] = match &full {
                Ok(()) => &wide,
                Err(StoreError::Full { .. }) => {
                    assert_eq!(log.usage().record_bytes, usage);
                    &[]
                }
                Err(error) => panic!("{error}"),
            };
            device.set_capacity(None);
            append(&log, &[4], true).unwrap();
            let expected = [&[1, 2, 3], written, &[4]].concat();
            for device in [device.torn(0), device] {
                let (log, recovery, visits) = open(&device, segment_bytes);
                assert_eq!(numbers(&log, &visits), expected, "room for {room}");
                assert!(recovery.losses.is_empty() && recovery.truncated_bytes == 0, "{room}: {recovery:?}");
                assert!(log.verify(&mut |_, _| {}, &mut |_| {}).unwrap().losses.is_empty());
            }
        }
    }
}

#[test]
fn a_full_disk_recovers_when_a_segment_is_removed() {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 600);
    for number in 0..20 {
        append(&log, &[number], true).unwrap();
    }
    device.set_capacity(Some(device.used() + 100));
    let full = append(&log, &(100..120).collect::<Vec<u64>>(), true).unwrap_err();
    assert!(matches!(full, StoreError::Full { .. }), "{full}");
    // There is not even room to say that a floor was raised, but for what the removal itself frees.
    device.set_capacity(Some(device.used()));
    log.raise_floor(1);
    let first = log.segments()[0].slot;
    assert!(log.remove(first).unwrap());
    append(&log, &[100, 101], true).unwrap();
    drop(log);
    let (log, recovery, visits) = open(&device, 600);
    assert_eq!((recovery.floor, recovery.losses.is_empty()), (1, true));
    assert!(numbers(&log, &visits).ends_with(&[19, 100, 101]));
}

#[test]
fn a_failed_write_or_sync_stops_all_writing_and_no_reading() {
    for successes in 0..6 {
        let device = MemoryDevice::new();
        let (log, ..) = open(&device, 300);
        append(&log, &[1], true).unwrap();
        let position = log.begin().unwrap().push(key(1), 0, 0, &[]).unwrap();
        device.fail_after(successes);
        let failed = (0..5).any(|_| append(&log, &[2, 3, 4], true).is_err());
        assert!(failed);
        device.heal();
        assert!(matches!(append(&log, &[5], true), Err(StoreError::Failed(_))));
        assert!(matches!(log.remove(position.slot()), Err(StoreError::Failed(_))));
        assert_eq!(log.read(Position::from_bits(13), 9).unwrap().words, words(1));
        drop(log);
        let (log, _, visits) = open(&device, 300);
        assert_eq!(numbers(&log, &visits)[0], 1);
    }
}

#[test]
fn a_failed_sync_of_a_commit_is_said_and_remembered() {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 1 << 20);
    append(&log, &[1], false).unwrap();
    device.set_sync_fails(true);
    append(&log, &[2], false).unwrap();
    assert!(matches!(append(&log, &[3], true), Err(StoreError::Io { .. })));
    device.set_sync_fails(false);
    let refused = append(&log, &[4], true).unwrap_err();
    assert!(matches!(refused, StoreError::Failed(_)), "{refused}");
    assert!(refused.to_string().contains("injected failure of a sync"), "{refused}");
}

#[test]
fn a_group_that_is_dropped_was_never_there() {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 900);
    append(&log, &[1], false).unwrap();
    let before = log.usage();
    {
        let mut writer = log.begin().unwrap();
        for number in 0..50 {
            writer.push(key(number), 0, i64::MAX, &words(number)).unwrap();
        }
    }
    assert_eq!(log.usage().record_bytes, before.record_bytes);
    append(&log, &[2], true).unwrap();
    drop(log);
    let (log, recovery, visits) = open(&device, 900);
    assert_eq!(numbers(&log, &visits), [1, 2]);
    assert!(recovery.losses.is_empty(), "{recovery:?}");
}

#[test]
fn short_reads_are_continued() {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 500);
    let all: Vec<u64> = (0..30).collect();
    append(&log, &all, true).unwrap();
    log.close().unwrap();
    drop(log);
    for most in [1, 3, 7, 100] {
        device.set_read_bytes_max(Some(most));
        let (log, recovery, visits) = open(&device, 500);
        assert_eq!(numbers(&log, &visits), all);
        assert!(recovery.losses.is_empty());
        log.close().unwrap();
    }
}

#[test]
fn many_records_are_read_as_one_by_one() {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 40_000);
    let mut wanted = Vec::new();
    for group in 0..40u64 {
        let mut writer = log.begin().unwrap();
        for number in 0..50 {
            let number = 100 * group + number;
            let padding = vec![1; if number % 10 == 3 { 900 } else { 1 }];
            writer.push(key(0), 0, i64::MAX, &padding).unwrap();
            wanted
                .push((writer.push(key(number), 3, i64::MAX, &words(number)).unwrap(), number as usize % 4));
        }
        writer.commit(false).unwrap();
    }
    wanted.push((Position::NONE, 1));
    wanted.reverse();
    let mut found: Vec<Option<Result<_, _>>> = (0..wanted.len()).map(|_| None).collect();
    log.read_many(&wanted, &mut |index, record| assert!(found[index].replace(record).is_none()));
    for (found, (position, _)) in found.into_iter().zip(&wanted) {
        match (found.unwrap(), log.read(*position, 0)) {
            (Ok(found), Ok(one)) => {
                assert_eq!((&found, &found.words), (&one, &words(found.words[0] - 1)));
            }
            (found, one) => {
                assert!(matches!(found, Err(StoreError::Missing { .. })));
                assert!(matches!(one, Err(StoreError::Missing { .. })));
            }
        }
    }
}

#[test]
fn reading_goes_on_beside_writing_and_removing() {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 4_000);
    let places = std::sync::Mutex::new(Vec::new());
    let done = std::sync::atomic::AtomicBool::new(false);
    let check = |found: Result<store::log::LogRecord, StoreError>, number: u64| match found {
        Ok(record) => assert_eq!((record.key, record.words), (key(number), words(number))),
        Err(StoreError::Missing { .. }) => {}
        Err(error) => panic!("{error}"),
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let known: Vec<(u64, Position)> = places.lock().unwrap().clone();
                    let wanted: Vec<(Position, usize)> =
                        known.iter().map(|(_, position)| (*position, 3)).collect();
                    let mut answers = 0;
                    log.read_many(&wanted, &mut |index, found| {
                        answers += 1;
                        check(found, known[index].0);
                    });
                    assert_eq!(answers, known.len());
                    known
                        .iter()
                        .take(5)
                        .for_each(|(number, position)| check(log.read(*position, 3), *number));
                }
            });
        }
        for number in 0..600 {
            let mut writer = log.begin().unwrap();
            let position = writer.push(key(number), 3, i64::MAX, &words(number)).unwrap();
            writer.commit(false).unwrap();
            drop(writer);
            places.lock().unwrap().push((number, position));
            if number % 30 == 29 {
                let oldest = log.segments()[0].slot;
                log.remove(oldest).unwrap();
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let kept = places.lock().unwrap().iter().filter(|(_, position)| log.read(*position, 9).is_ok()).count();
    assert!((1..600).contains(&kept), "{kept}");
}

#[test]
fn a_record_can_be_read_once_it_is_written() {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 1 << 20);
    let mut writer = log.begin().unwrap();
    let position = writer.push(key(1), 0, i64::MAX, &[4]).unwrap();
    assert!(!log.is_written(position));
    assert!(matches!(log.read(position, 1), Err(StoreError::Missing { .. })));
    writer.commit(false).unwrap();
    assert!(log.is_written(position));
    assert_eq!(log.read(position, 0).unwrap().words, [4]);
    assert_eq!(log.read(position, 70_000).unwrap().words, [4]);
    let later = writer.push(key(1), 0, i64::MAX, &[5]).unwrap();
    assert!(log.address(later) > log.address(position));
}

#[test]
fn values_may_be_as_long_as_the_format_says() {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 2_000);
    let long = vec![u64::MAX; WORDS_MAX];
    let mut longer = long.clone();
    longer.push(0);
    let mut writer = log.begin().unwrap();
    let position = writer.push(key(1), 0, i64::MAX, &longer).unwrap();
    writer.push(key(2), 0, i64::MAX, &long).unwrap();
    let empty = writer.push(key(3), 0, i64::MAX, &[0, 0]).unwrap();
    longer.push(1);
    assert!(matches!(writer.push(key(3), 0, 0, &longer), Err(StoreError::TooLarge(_))));
    writer.commit(true).unwrap();
    assert_eq!(log.read(position, WORDS_MAX).unwrap().words, long);
    assert!(log.read(empty, 0).unwrap().words.is_empty());
    drop(writer);
    drop(log);
    assert_eq!(
        open(&device, 2_000).2.iter().map(|visit| visit.words).collect::<Vec<_>>(),
        [WORDS_MAX, WORDS_MAX, 0]
    );
}

#[test]
fn slots_are_given_out_again_after_the_others() {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 100);
    let mut writer = log.begin().unwrap();
    for number in 0..5 {
        writer.push(key(number), 0, i64::MAX, &[1]).unwrap();
    }
    writer.commit(true).unwrap();
    drop(writer);
    assert!(log.remove(1).unwrap() && log.remove(3).unwrap());
    assert!(!log.remove(1).unwrap(), "there is none any more");
    assert!(!log.remove(4).unwrap(), "it is the active one");
    append(&log, &[6], true).unwrap();
    assert_eq!(log.segments().iter().map(|segment| segment.slot).collect::<Vec<_>>(), [0, 2, 4, 5]);
    drop(log);
    let (log, recovery, visits) = open(&device, 100);
    assert_eq!((recovery.segments, recovery.losses.is_empty()), (4, true));
    assert_eq!(visits.iter().map(|visit| visit.position.slot()).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let ids: Vec<u32> = log.segments().iter().map(|segment| segment.id).collect();
    assert_eq!(ids, [0, 2, 4, 5]);
}

#[test]
fn the_end_of_the_log_is_found_without_the_segment_in_which_a_group_ended() {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 200);
    append(&log, &[1, 2, 3, 4, 5, 6], true).unwrap();
    log.begin().unwrap().seal().unwrap();
    let slots: Vec<u16> = log.segments().iter().map(|segment| segment.slot).collect();
    assert!(slots.len() > 3, "the group lies in several segments, and the active one is empty");
    assert!(log.remove(slots[slots.len() - 2]).unwrap());
    let kept: Vec<u64> = numbers(&log, &open(&device.torn(0), 200).2);
    assert!(kept.starts_with(&[1, 2]), "{kept:?}");
}

#[test]
fn the_floor_is_durable_before_a_segment_is_removed() {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 100);
    append(&log, &[1, 2, 3], true).unwrap();
    log.raise_floor(5_000_000_000);
    log.raise_floor(4_000_000_000);
    assert!(log.remove(0).unwrap());
    for seed in 0..20 {
        let (log, recovery, _) = open(&device.crash(seed), 100);
        assert_eq!((recovery.floor, log.floor()), (5_000_000_000, 5_000_000_000));
        let mut writer = log.begin().unwrap();
        let position = writer.push(key(1), 0, 7, &[1]).unwrap();
        writer.commit(false).unwrap();
        let record = log.read(position, 1).unwrap();
        assert_eq!(record.expires_minutes, 84, "it outlives the floor of its frame");
    }
}

#[test]
fn a_directory_serves_one_process_and_its_snapshot_goes_its_own_way() {
    let directory = tempfile::tempdir().unwrap();
    let (path, copy) = (directory.path().join("ledger"), directory.path().join("copy"));
    let open = |path: &std::path::Path| {
        let device = Arc::new(FileDevice::open(path).unwrap());
        let mut found = Vec::new();
        let (log, recovery) =
            Log::open(device, LogOptions { segment_bytes: 300 }, &mut |visit| found.push(*visit)).unwrap();
        assert!(recovery.losses.is_empty() && recovery.truncated_bytes == 0, "{recovery:?}");
        let numbers = numbers(&log, &found);
        (log, recovery, numbers)
    };
    let (log, ..) = open(&path);
    let refused = FileDevice::open(&path).err().unwrap();
    assert!(refused.to_string().contains(&path.display().to_string()), "{refused}");
    append(&log, &[1, 2, 3, 4, 5, 6, 7], false).unwrap();
    log.snapshot(&copy).unwrap();
    let again = log.snapshot(&copy).unwrap_err();
    assert!(again.to_string().contains("not empty"), "{again}");
    append(&log, &[8], true).unwrap();
    let (of_copy, recovery, found) = open(&copy);
    assert_eq!(found, [1, 2, 3, 4, 5, 6, 7]);
    assert!(recovery.hints > 1 && recovery.hints_ignored.is_empty(), "{recovery:?}");
    append(&of_copy, &[9], true).unwrap();
    assert!(of_copy.remove(0).unwrap());
    log.close().unwrap();
    drop(log);
    let (log, recovery, found) = open(&path);
    assert_eq!(found, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!((recovery.hints, recovery.hints_ignored.len()), (recovery.segments, 0), "{recovery:?}");
    let verified = log.verify(&mut |_, _| {}, &mut |_| {}).unwrap();
    assert!(verified.losses.is_empty() && verified.hints_ignored.is_empty(), "{verified:?}");
    drop(of_copy);
    let (_, _, found) = open(&copy);
    assert_eq!(found.last(), Some(&9));
}

#[test]
fn keys_are_kept_as_they_are() {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 1 << 20);
    let key = RecordKey { space: u16::MAX, kind: u16::MAX, shingle: u64::MAX };
    let mut writer = log.begin().unwrap();
    writer.push(key, u16::MAX, i64::MIN, &[]).unwrap();
    writer.commit(true).unwrap();
    let (_, _, visits) = open(&device.torn(0), 1 << 20);
    let visit = visits[0];
    assert_eq!((visit.key, visit.tag, visit.words, visit.expires_minutes), (key, u16::MAX, 0, 0));
    assert!(device.read(&name(0)).is_some());
}

/// Error numbers of an interrupted call, no memory, and too many open files, in the system and in the process.
const LACKS: [i32; 4] = [4, 12, 23, 24];

#[test]
fn a_lack_costs_the_group_and_no_more() {
    for number in LACKS {
        let device = MemoryDevice::new();
        let (log, ..) = open(&device, 500);
        append(&log, &[1, 2, 3], true).unwrap();
        device.set_lack(Some(number));
        let wide: Vec<u64> = (100..140).collect();
        // Again and again: the log goes on as soon as a segment can be made.
        for _ in 0..3 {
            let refused = append(&log, &wide, true).unwrap_err();
            assert!(matches!(refused, StoreError::Full { .. }), "{number}: {refused}");
        }
        device.set_lack(None);
        append(&log, &wide, true).unwrap();
        drop(log);
        let (log, recovery, visits) = open(&device, 500);
        assert_eq!(numbers(&log, &visits), [&[1, 2, 3], &wide[..]].concat(), "{number}");
        assert!(recovery.losses.is_empty() && recovery.truncated_bytes == 0, "{number}: {recovery:?}");
    }
}

#[test]
fn only_what_passes_is_a_lack() {
    let lacks = |number: i32| disk::is_lack(&std::io::Error::from_raw_os_error(number));
    assert!(LACKS.into_iter().all(lacks));
    // No room, a file too large, no quota; and then a failed medium, a bad descriptor, no rights, a read-only file system.
    assert!([28, 27, 122].into_iter().all(lacks));
    assert!(![5, 9, 13, 30].into_iter().any(lacks));
    assert!(!disk::is_lack(&disk::sync_error(std::io::Error::from_raw_os_error(28))));
}

//! Rotten, torn, foreign and future files.

use disk::MemoryDevice;
use proptest::prelude::*;
use store::StoreError;
use store::log::{RecordKey, micros};

use crate::support::{Random, append, hint, key, name, numbers, open, try_open};

/// Groups of 1 to 3 records in one segment, and whether the log was closed or merely synced.
fn filled(close: bool) -> MemoryDevice {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 1 << 20);
    for group in 0..12u64 {
        let numbers: Vec<u64> = (0..1 + group % 3).map(|record| 10 * group + record).collect();
        append(&log, &numbers, true).unwrap();
    }
    if close {
        log.close().unwrap();
    }
    device
}

#[test]
fn segments_are_as_drawn() {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 1 << 20);
    let mut writer = log.begin().unwrap();
    let key = RecordKey { space: 0x1122, kind: 0x3344, shingle: 0x0102_0304_0506_0708 };
    let position = writer.push(key, 0x5566, 60_000_001, &[9, 0, 7, 0, 0]).unwrap();
    writer.commit(true).unwrap();
    let bytes = device.read(&name(0)).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let floor = i64::MIN.cast_unsigned();
    assert_eq!(bytes[..12], *b"TOLLSEG\n\x02\0\0\0");
    assert_eq!([long(16), long(24), long(32)], [0, floor, 0]);
    assert_eq!(number(12), crc32fast::hash(&[&bytes[..12], &bytes[16..40]].concat()));
    assert_eq!(bytes[40..44], [0xf5, b'T', b'H', 0x9a]);
    assert_eq!(number(44), crc32fast::hash(&bytes[48..104]));
    assert_eq!(long(48), 0, "group");
    assert_eq!([56, 60, 64, 68].map(number), [0, 1, 1, 48], "index, last, records, bytes");
    assert_eq!(
        [long(72), long(80), long(88), long(96)],
        [0, floor, 5, 5],
        "sequence, floor, durable, address"
    );
    assert_eq!(number(104), crc32fast::hash(&bytes[108..]));
    assert_eq!(bytes[108..116], [3, 0, 0x66, 0x55, 0x22, 0x11, 0x44, 0x33]);
    assert_eq!((number(116), long(120)), (2, key.shingle));
    assert_eq!([long(128), long(136), long(144), bytes.len() as u64], [9, 0, 7, 152]);
    assert_eq!((position.slot(), position.offset(), log.address(position)), (0, 104, Some(13)));
    let record = log.read(position, 3).unwrap();
    assert_eq!((record.key, record.tag, record.words), (key, 0x5566, vec![9, 0, 7]));
    assert_eq!(micros(record.expires_minutes), 120_000_000);
}

#[test]
fn a_flipped_bit_costs_what_it_hits() {
    // Not closed: what is behind the last sync that a frame speaks of could have been torn.
    let original = filled(false).read(&name(0)).unwrap();
    let (log, _, all) = open(&filled(false), 1 << 20);
    let all = numbers(&log, &all);
    for at in 0..original.len() {
        for mask in [1, 0x10, 0x80] {
            let device = MemoryDevice::new();
            device.write(&name(0), &original);
            device.flip(&name(0), at, mask);
            let (log, recovery, visits) = open(&device, 1 << 20);
            let found = numbers(&log, &visits);
            let context = format!("byte {at}: {recovery:?}");
            assert!(!recovery.losses.is_empty() || recovery.truncated_bytes > 0, "{context}");
            assert!(found.iter().all(|number| all.contains(number)), "{context}");
            // At most a group of three, where a frame's header is hit.
            let lost = all.len() - found.len();
            assert!(lost <= 3, "{lost} lost, {context}");
            let losses = &recovery.losses;
            if recovery.truncated_bytes == 0 && at >= 40 {
                assert_eq!(losses.records, lost as u64, "{context}");
            }
            if recovery.truncated_bytes == 0 {
                let verified = log.verify(&mut |_, _| {}, &mut |_| {}).unwrap();
                assert_eq!((verified.records, &verified.losses), (found.len() as u64, losses), "{context}");
            }
            append(&log, &[1000], true).unwrap();
            drop(log);
            let (log, again, visits) = open(&device, 1 << 20);
            assert_eq!(again.truncated_bytes, 0);
            assert_eq!(numbers(&log, &visits), [&found[..], &[1000]].concat(), "{context}");
        }
    }
}

#[test]
fn a_flipped_bit_in_a_record_costs_that_record() {
    let original = filled(false).read(&name(0)).unwrap();
    let (_, _, all) = open(&filled(false), 1 << 20);
    // All but the last group, which a frame behind it would have to call durable.
    for visit in &all[..all.len() - 3] {
        let from = visit.position.offset() as usize;
        for at in from..from + 24 + 8 * visit.words {
            let device = MemoryDevice::new();
            device.write(&name(0), &original);
            device.flip(&name(0), at, 4);
            let (_, recovery, visits) = open(&device, 1 << 20);
            let rest: Vec<_> = all.iter().filter(|other| other != &visit).copied().collect();
            assert_eq!((visits, recovery.losses.records), (rest, 1), "byte {at}");
            assert_eq!((recovery.truncated_bytes, recovery.losses.ranges.len()), (0, 1), "byte {at}");
        }
    }
}

#[test]
fn rot_in_a_closed_log_is_found_by_verify_and_by_reading() {
    let device = filled(true);
    let (log, recovery, visits) = open(&device, 1 << 20);
    assert_eq!((recovery.hints, recovery.hints_ignored.len()), (1, 0));
    append(&log, &[500], false).unwrap();
    let last = visits.last().unwrap();
    device.flip(&name(0), last.position.offset() as usize + 20, 1);
    assert!(matches!(log.read(last.position, last.words), Err(StoreError::Damaged { .. })));
    drop(log);
    let (log, recovery, again) = open(&device, 1 << 20);
    assert_eq!((again.len(), recovery.losses.records), (visits.len() + 1, 0), "the hint is still good");
    let verified = log.verify(&mut |_, _| {}, &mut |_| {}).unwrap();
    assert_eq!((verified.losses.records, verified.losses.ranges.len()), (1, 1));
    drop(log);
    // A hint whose end is intact says that all before it was durable: rot there is not taken for a torn tail.
    device.flip(&hint(0), 30, 1);
    let (_, recovery, again) = open(&device, 1 << 20);
    assert_eq!((again.len(), recovery.losses.records), (visits.len(), 1), "{recovery:?}");
    assert_eq!((recovery.truncated_bytes, recovery.hints_ignored), (0, vec![hint(0)]));
}

#[test]
fn a_garbled_stretch_costs_what_lay_in_it() {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 64 << 20);
    let many: Vec<u64> = (0..60_000).collect();
    append(&log, &many, true).unwrap();
    append(&log, &[1], true).unwrap();
    let (_, _, all) = open(&device, 64 << 20);
    let mut random = Random(1);
    for (segment, from, length) in
        [(0, 1000, 5_000), (0, 100_000, 300_000), (1, 1_000, 600_000), (1, 900_000, 10_000), (1, 40, 3)]
    {
        let device = device.torn(usize::MAX);
        let mut garbled = device.read(&name(segment)).unwrap();
        garbled[from..from + length].fill_with(|| random.below(256) as u8);
        device.write(&name(segment), &garbled);
        device.write(&hint(segment), b"");
        let (log, recovery, visits) = open(&device, 64 << 20);
        let found = numbers(&log, &visits);
        let lost = all.len() - found.len();
        assert_eq!(recovery.losses.records, lost as u64, "{from}: {recovery:?}");
        assert!(recovery.losses.bytes as usize >= length);
        // A frame holds some 20,000 records, which are lost if its header is.
        let headers = usize::from(from < 104);
        assert!(lost <= length / 32 + 2 + 22_000 * headers, "{from}: {lost}");
    }
}

#[test]
fn a_torn_tail_is_cut_at_every_byte() {
    for groups in [1, 2] {
        let device = MemoryDevice::new();
        let (log, ..) = open(&device, 1 << 20);
        append(&log, &[1, 2], true).unwrap();
        let synced = device.read(&name(0)).unwrap().len();
        for group in 0..groups {
            append(&log, &[10 * group, 10 * group + 1, 10 * group + 2], false).unwrap();
        }
        let whole = device.read(&name(0)).unwrap().len();
        let group_bytes = (whole - synced) / groups as usize;
        for kept in 0..=whole - synced {
            let device = device.torn(kept);
            let (log, recovery, visits) = open(&device, 1 << 20);
            let kept_groups = if kept == whole - synced { groups as usize } else { kept / group_bytes };
            assert_eq!(numbers(&log, &visits).len(), 2 + 3 * kept_groups, "{kept} bytes kept");
            assert!(recovery.losses.is_empty());
            assert_eq!(recovery.truncated_bytes as usize + kept_groups * group_bytes, kept);
            // What was cut off is beside, byte by byte.
            let aside: Vec<u8> =
                recovery.torn.iter().flat_map(|(name, _)| device.read(name).unwrap()).collect();
            assert_eq!(aside.len() as u64, recovery.truncated_bytes, "{:?}", recovery.torn);
            append(&log, &[99], false).unwrap();
            drop(log);
        }
    }
}

#[test]
fn blank_stretches_of_the_unsynced_tail_cost_whole_groups() {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 1 << 20);
    append(&log, &[0, 1, 2], true).unwrap();
    let synced = device.read(&name(0)).unwrap().len();
    for group in 1..4 {
        append(&log, &[10 * group, 10 * group + 1, 10 * group + 2], false).unwrap();
    }
    let bytes = device.read(&name(0)).unwrap();
    for from in (synced..bytes.len()).step_by(8) {
        for length in [8, 40, 100] {
            let mut blanked = bytes.clone();
            blanked[from..(from + length).min(bytes.len())].fill(0);
            let device = MemoryDevice::new();
            device.write(&name(0), &blanked);
            let (log, recovery, visits) = open(&device, 1 << 20);
            let found = numbers(&log, &visits);
            for group in 1..4 {
                let of_group = found.iter().filter(|number| *number / 10 == group).count();
                assert!(of_group == 0 || of_group == 3, "{from}: {found:?}");
            }
            let before: Vec<u64> = found.iter().map(|number| number / 10).collect();
            assert!(
                before.is_sorted() && before.iter().zip(0..).all(|(group, at)| *group == at / 3),
                "{found:?}"
            );
            append(&log, &[40], true).unwrap();
            drop(log);
            let (log, again, visits) = open(&device, 1 << 20);
            assert_eq!(numbers(&log, &visits), [&found[..], &[40]].concat(), "what was torn stays away");
            assert!(again.losses.is_empty());
            assert!(recovery.truncated_bytes > 0 || !recovery.losses.is_empty());
        }
    }
}

#[test]
fn groups_across_segments_are_whole_or_gone() {
    let device = MemoryDevice::new();
    let (log, ..) = open(&device, 400);
    append(&log, &[1000, 1001], true).unwrap();
    let numbers_of: Vec<u64> = (0..40).collect();
    append(&log, &numbers_of, false).unwrap();
    assert!(log.segments().len() > 4);
    let mut seen = [0; 2];
    for seed in 0..200 {
        let crashed = device.crash(seed);
        let (log, _, visits) = open(&crashed, 400);
        let found = numbers(&log, &visits);
        assert!(found.len() == 2 || found.len() == 42, "seed {seed}: {found:?}");
        seen[usize::from(found.len() == 42)] += 1;
        append(&log, &[7], true).unwrap();
        drop(log);
        let (log, recovery, visits) = open(&crashed, 400);
        assert_eq!(numbers(&log, &visits).len(), found.len() + 1);
        assert!(recovery.losses.is_empty() && recovery.truncated_bytes == 0, "{recovery:?}");
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    for kept in 0..400 {
        let found = open(&device.torn(kept), 400).2.len();
        assert!(found == 2 || found == 42);
    }
}

#[test]
fn another_format_is_refused_by_name() {
    let device = filled(false);
    let mut bytes = device.read(&name(0)).unwrap();
    bytes[8] = 3;
    bytes[12] ^= 0xff;
    device.write(&name(0), &bytes);
    let refused = try_open(&device, 1 << 20).err().unwrap();
    assert!(matches!(&refused, StoreError::Format { found: 3, supported: 2, .. }));
    assert!(refused.to_string().contains(&name(0)), "{refused}");
    bytes[8] = 1;
    device.write(&name(0), &bytes);
    let refused = try_open(&device, 1 << 20).err().unwrap();
    assert!(matches!(&refused, StoreError::Format { found: 1, .. }), "{refused}");
}

#[test]
fn a_segment_torn_while_it_was_created_is_nothing() {
    for length in [0, 7, 39, 40] {
        let device = filled(true);
        device.write(&name(1), &vec![0; length]);
        let (log, recovery, visits) = open(&device, 1 << 20);
        assert_eq!((recovery.truncated_bytes, recovery.losses.is_empty()), (length as u64, true));
        assert_eq!((visits.len(), device.read(&name(1))), (24, None));
        append(&log, &[5], true).unwrap();
    }
}

/// The place of a checksum, and the bytes it covers.
type Sum = (usize, [std::ops::Range<usize>; 2]);

/// The checksums of a segment and of its hint.
fn sums(segment: &[u8], hint: &[u8]) -> [Vec<Sum>; 2] {
    let number = |at: usize| u32::from_le_bytes(segment[at..at + 4].try_into().unwrap()) as usize;
    let mut of_segment: Vec<Sum> = vec![(12, [0..12, 16..40])];
    let mut of_hint: Vec<Sum> = vec![(12, [0..12, 16..24])];
    let (mut at, mut hint_at) = (40, 24);
    while at < segment.len() {
        let (count, length) = (number(at + 24), number(at + 28));
        of_segment.push((at + 4, [0..0, at + 8..at + 64]));
        of_hint.push((hint_at + 4, [0..0, hint_at + 8..hint_at + 64]));
        of_hint.push((hint_at + 64, [0..0, hint_at + 68..hint_at + 68 + 20 * count]));
        let mut record = at + 64;
        while record < at + 64 + length {
            let words = number(record + 4) & 0xffff;
            of_segment.push((record, [0..0, record + 4..record + 24 + 8 * words]));
            record += 24 + 8 * words;
        }
        (at, hint_at) = (at + 64 + length, hint_at + 68 + 20 * count);
    }
    of_hint.push((hint_at + 4, [0..0, hint_at + 8..hint_at + 40]));
    assert_eq!(hint_at + 40, hint.len());
    [of_segment, of_hint]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        header in any::<bool>(),
        id in 0u32..2,
    ) {
        let device = filled(false);
        let mut file = if header { device.read(&name(0)).unwrap()[..40].to_vec() } else { Vec::new() };
        file.extend_from_slice(&bytes);
        device.write(&name(id), &file);
        if let Ok((log, ..)) = try_open(&device, 1 << 20) {
            append(&log, &[5], true).unwrap();
            drop(log);
            let (log, _, visits) = open(&device, 1 << 20);
            prop_assert_eq!(numbers(&log, &visits[visits.len() - 1..]), [5]);
        }
    }

    #[test]
    fn mangled_segments_never_panic(
        cuts in proptest::collection::vec((any::<u16>(), any::<u16>(), any::<u8>()), 1..6),
        of_hint in any::<bool>(),
    ) {
        let device = filled(true);
        let name = if of_hint { hint(0) } else { name(0) };
        let mut file = device.read(&name).unwrap();
        for (at, length, byte) in cuts {
            let from = usize::from(at) % file.len();
            let to = (from + usize::from(length) % 200).min(file.len());
            match byte % 3 {
                0 => file[from..to].fill(byte),
                1 => file.extend_from_within(from..to),
                _ => drop(file.drain(from..to.min(from + 60))),
            }
            if file.is_empty() {
                break;
            }
        }
        device.write(&name, &file);
        if let Ok((log, recovery, visits)) = try_open(&device, 1 << 20) {
            prop_assert!(recovery.records <= 24);
            for visit in visits {
                if let Ok(record) = log.read(visit.position, visit.words) {
                    prop_assert_eq!(record.key, key(record.words[0] - 1));
                }
            }
            log.verify(&mut |_, _| {}, &mut |_| {}).unwrap();
            append(&log, &[5], true).unwrap();
        }
    }

    #[test]
    fn lies_under_a_fitting_checksum_never_panic(
        lies in proptest::collection::vec(
            (any::<bool>(), any::<u16>(), any::<u8>(), 1usize..9, prop_oneof![
                Just(0), Just(u64::MAX), Just(1 << 63), 0u64..300, any::<u64>(),
            ]),
            1..6,
        ),
    ) {
        let device = filled(true);
        let mut files = [name(0), hint(0)].map(|name| device.read(&name).unwrap());
        let sums = sums(&files[0], &files[1]);
        for (of_hint, which, at, length, value) in lies {
            let (file, sums) = (&mut files[usize::from(of_hint)], &sums[usize::from(of_hint)]);
            let covered = sums[usize::from(which) % sums.len()].1[1].clone();
            let at = covered.start + usize::from(at) % covered.len();
            let end = covered.end.min(at + length);
            file[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
        }
        for (file, sums) in files.iter_mut().zip(&sums) {
            for (at, covered) in sums {
                let bytes: Vec<u8> = covered.iter().flat_map(|range| file[range.clone()].to_vec()).collect();
                file[*at..at + 4].copy_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
            }
        }
        device.write(&name(0), &files[0]);
        device.write(&hint(0), &files[1]);
        let opened = try_open(&device, 1 << 20);
        let opened = opened.or_else(|_| {
            device.write(&hint(0), b"");
            try_open(&device, 1 << 20)
        });
        if let Ok((log, _, visits)) = opened {
            for visit in visits {
                let _ = log.read(visit.position, visit.words);
            }
            log.verify(&mut |_, _| {}, &mut |_| {}).unwrap();
            append(&log, &[5], true).unwrap();
            drop(log);
            prop_assert!(try_open(&device, 1 << 20).is_ok());
        }
    }
}

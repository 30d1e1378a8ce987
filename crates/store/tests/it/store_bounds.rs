//! Bounds of memory and files.

use disk::MemoryDevice;
use store::{Options, Store};

use crate::support::Random;
use crate::toy::{Toy, key, open, transact};

/// Keys in all shards.
fn spread(number: u64) -> store::RecordKey {
    store::RecordKey { shingle: (key(number).shingle << 9) | (number % 512), ..key(number) }
}

fn write(store: &Store, number: u64, words: usize, value: u64) {
    transact(store, &[spread(number)], 0, |_, cell| {
        cell.clear();
        cell.resize(words, value + 1);
        cell[0] = i64::MAX.cast_unsigned();
    })
    .unwrap();
}

#[test]
fn files_hold_at_most_three_times_what_is_live_and_two_segments() {
    for (skewed, sizes, each, memory_bytes) in
        [(false, 1, 64, 1 << 20), (true, 1, 64, 1 << 17), (true, 60, 1, 1 << 17), (false, 60, 64, 1 << 20)]
    {
        let device = MemoryDevice::new();
        let options = Options { memory_bytes, segment_bytes: 30_000 };
        let (store, _) = open(&device, options);
        let mut random = Random(each);
        for round in 0..20_000 / each {
            for _ in 0..each {
                // Four fifths of the changes are to a fifth of the keys.
                let most = if skewed && random.below(5) > 0 { 200 } else { 1_000 };
                write(&store, random.below(most), 4 + random.below(sizes) as usize, round);
            }
            store.flush(false, || Toy).unwrap();
            if round % 8 == 0 {
                store.merge(0, u64::MAX, || Toy).unwrap();
            }
            if round % 64 == 0 {
                store.merge(0, u64::MAX, || Toy).unwrap();
                let usage = store.usage();
                let context = format!("{skewed} {sizes} {each}, round {round}: {usage:?}");
                assert!(usage.disk_bytes <= 3 * usage.live_bytes + 2 * 30_000, "{context}");
                // What counts as live is what a fresh start finds, but for the rounding to size classes.
                let (again, _) = open(&device, options);
                let (counted, found) = (usage.live_bytes as f64, again.usage().live_bytes as f64);
                assert!((0.99..1.3).contains(&(counted / found)), "{found}, {context}");
            }
        }
        let usage = store.usage();
        assert!((usage.rewritten_bytes > 0) == (usage.evictions > 0) && usage.segments > 2, "{usage:?}");
    }
}

#[test]
fn keys_that_come_again_outlast_a_flood_of_others() {
    for durable in [true, false] {
        let device = MemoryDevice::new();
        let options = Options::new(4 << 20);
        let store = if durable { open(&device, options).0 } else { Store::in_memory(options) };
        let hot = 2_000;
        for number in 0..hot {
            write(&store, number, 8, 0);
        }
        let mut most = 0;
        for number in hot..60_000 {
            write(&store, number, 8, 0);
            // Each of the hot ones comes again a few times while memory is filled once.
            write(&store, number % hot, 8, number);
            if number % 1_000 == 0 {
                store.flush(false, || Toy).unwrap();
                most = most.max(store.usage().memory_bytes);
            }
        }
        let usage = store.usage();
        assert!(usage.evictions > 10_000 && usage.hot < 50_000, "{usage:?}");
        // So little memory is a good part lists, and room in pages that are not full.
        assert!(most < 6 << 20, "{most}: {usage:?}");
        let run = store.run();
        let kept = (0..hot).filter(|number| {
            let key = spread(*number);
            let (shard, hash) = store::KeyHash::of(key.space, key.kind, key.shingle);
            matches!(run.shard(shard).find(hash), store::KeyLookup::Hot(_))
        });
        let kept = kept.count() as u64;
        assert!(kept * 100 >= hot * 99, "{kept} of {hot} are in memory, durable {durable}");
    }
}

/// Most keys live for a day, and a few for half a year: they lie in the same segments.
#[test]
fn what_has_expired_goes_though_what_lives_longer_lies_beside_it() {
    const DAY: i64 = 86_400_000_000;
    let device = MemoryDevice::new();
    let options = Options { memory_bytes: 1 << 20, segment_bytes: 32_000 };
    let (mut store, _) = open(&device, options);
    let (each, days) = (1_000, 250);
    for day in 0..days {
        let now = day * DAY;
        for number in 0..each {
            let key = spread((day * each + number).cast_unsigned());
            let keep = if number % 500 == 0 { 180 } else { 1 };
            transact(&store, &[key], now, |_, cell| {
                *cell = vec![(now + keep * DAY).cast_unsigned(), 7];
            })
            .unwrap();
            if number % 100 == 0 {
                store.flush(false, || Toy).unwrap();
            }
        }
        store.forget_expired(now, 0, 1, &Toy);
        store.flush(true, || Toy).unwrap();
        store.merge(now, u64::MAX, || Toy).unwrap();
        if day % 100 == 99 {
            drop(store);
            store = open(&device, options).0;
        }
        let usage = store.usage();
        // Alive are those of two days, and two for each of 180 days.
        assert!(usage.keys < 6_000, "day {day}: {usage:?}");
        assert!(usage.disk_bytes < 4 * 6_000 * 48 + 3 * 32_000, "day {day}: {usage:?}");
    }
    let usage = store.usage();
    assert!(usage.keys >= 2 * 180 + each.cast_unsigned() && usage.rewritten_bytes > 0, "{usage:?}");
}

#[test]
fn memory_is_bounded_where_new_keys_heed_vacancies() {
    let device = MemoryDevice::new();
    let memory_bytes = 6 << 20;
    let (store, _) = open(&device, Options { memory_bytes, segment_bytes: 1 << 20 });
    let (mut refused, mut most) = (0, 0);
    for number in 0..350_000 {
        let key = spread(number);
        let (shard, hash) = store::KeyHash::of(key.space, key.kind, key.shingle);
        let run = store.run();
        let mut keys = run.shard(shard);
        match keys.vacancy(hash, false) {
            store::Vacancy::Free => {
                let place = keys.create(hash, key.kind, 2);
                keys.words_mut(place, hash)[..2].fill(i64::MAX.cast_unsigned());
            }
            _ => refused += 1,
        }
        drop(keys);
        drop(run);
        if number % 10_000 == 0 {
            store.flush(false, || Toy).unwrap();
            store.merge(0, 1 << 20, || Toy).unwrap();
            most = most.max(store.usage().memory_bytes);
        }
    }
    let usage = store.usage();
    assert!(refused > 100_000 && usage.keys + refused == 350_000, "{refused}: {usage:?}");
    // Lists and pages that no shard can be without are some two MiB.
    assert!(most < memory_bytes as u64 * 5 / 4, "{most}: {usage:?}");
    assert!(usage.index_bytes <= usage.index_bytes_max && usage.hot > 10_000, "{usage:?}");
}

#[test]
fn memory_follows_cells_that_change_their_size() {
    // Without a disk, where nothing is dirty and so all of it can go.
    let memory_bytes = 8 << 20;
    let store = Store::in_memory(Options { memory_bytes, segment_bytes: 0 });
    let mut random = Random(5);
    // Each size fills the budget some times over, and leaves its pages to the next.
    for words in [4, 12, 20, 9, 5] {
        let keys = memory_bytes as u64 / (words as u64 * 8);
        for number in 0..keys {
            write(&store, (words as u64) << 32 | number, words, random.below(1000));
        }
        let usage = store.usage();
        // An eighth for pages in part empty, and pages and lists that no shard can be without.
        let bound = memory_bytes as u64 * 5 / 4 + (5 << 20);
        assert!(usage.memory_bytes <= bound && usage.hot > keys / 8, "{words}: {usage:?}");
    }
}

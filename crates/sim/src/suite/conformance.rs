//! Conformance of every home of statistics.

use event::{Kind, Shingle, Span};
use stats::{
    Addition, BucketSummary, CounterAmounts, HottestQuery, LastValueForm, Ledger, LedgerError, Observation,
    ObserveRequest, Origin, Reading, TimelineBucket,
};

use super::*;

/// The suite. The ledger has the [`catalog`](super::catalog) and is empty; `most` is the least that its counters
/// saturate at.
///
/// # Panics
/// If it does not conform.
pub fn check(ledger: &dyn Ledger, most: u64) {
    readings_are_from_before_their_own_addition(ledger);
    a_peek_creates_nothing(ledger);
    a_marked_request_counts_once(ledger);
    distinct_values_count_once_a_period(ledger);
    the_last_value_is_that_of_the_latest_event(ledger);
    windows_are_strict_and_fold(ledger);
    buckets_are_read_one_by_one(ledger);
    late_events_land_where_they_would_be(ledger);
    what_does_not_fit_is_refused_whole(ledger);
    large_batches_are_applied_in_order(ledger);
    the_hottest_come_first(ledger);
    sums_saturate(ledger, most);
    what_has_expired_is_gone(ledger);
    a_closed_ledger_only_reads(ledger);
}

fn sums(reading: &Reading) -> Vec<u64> {
    (0..3).map(|window| reading.sum(window, 0)).collect()
}

fn readings_are_from_before_their_own_addition(ledger: &dyn Ledger) {
    let key = key(MASS, 100);
    let outcome = observe_one(
        ledger,
        request(vec![add(key, at(1000), [(0, 2)]), add(key, at(1001), [(0, 3), (1, 1)])]),
    );
    let [first, second] = outcome.readings.as_slice() else { panic!("{outcome:?}") };
    assert_eq!(
        (first.quality.is_counted(), first.first, first.last, sums(first)),
        (true, None, None, vec![0, 0, 0])
    );
    assert_eq!((second.first, second.last, sums(second)), (Some(at(1000)), Some(at(1000)), vec![2, 2, 2]));
    let reading = &observe_one(ledger, request(vec![peek(key, at(1001))])).readings[0];
    assert_eq!((reading.first, reading.last, sums(reading)), (Some(at(1000)), Some(at(1001)), vec![5, 5, 5]));
    assert_eq!((reading.sum(0, 1), reading.sum(9, 0), reading.sum(0, 9)), (1, 0, 0));
}

fn a_peek_creates_nothing(ledger: &dyn Ledger) {
    let before = ledger.census().cells;
    for kind in [MASS, VISITS, DISTINCT, ONCE, LAST] {
        if kind != ONCE {
            let outcome = observe_one(ledger, request(vec![peek(key(kind, 200), at(1000))]));
            assert_eq!(outcome.readings, [Reading::default()]);
        }
        assert_eq!(pollster::block_on(ledger.timeline(key(kind, 200))).unwrap(), None);
    }
    assert_eq!(ledger.census().cells, before);
}

fn a_marked_request_counts_once(ledger: &dyn Ledger) {
    let key = key(MASS, 300);
    let send = |id, seconds| {
        let outcome = observe_one(ledger, once(id, at(seconds), vec![add(key, at(seconds), [(0, 1)])]));
        (outcome.duplicate, outcome.readings[0].sum(2, 0))
    };
    assert_eq!(send(301, 1000), (false, 0));
    assert_eq!(send(301, 1000), (true, 1), "a duplicate is answered and not counted");
    assert_eq!(send(302, 1000), (false, 1));
    assert_eq!(send(301, 1070), (true, 2), "the bucket after");
    assert_eq!(send(301, 930), (true, 0), "the bucket before: which came first makes no difference");
    assert_eq!(send(301, 1090), (false, 2), "two buckets after, the mark is over");
    let twice = [once(303, at(1100), vec![]), once(303, at(1100), vec![add(key, at(1100), [(0, 50)])])];
    let duplicates: Vec<bool> = observe(ledger, &twice).iter().map(|outcome| outcome.duplicate).collect();
    assert_eq!(duplicates, [false, true], "within one batch");
    assert_eq!(observe_one(ledger, request(vec![peek(key, at(1100))])).readings[0].sum(2, 0), 3);
}

fn distinct_values_count_once_a_period(ledger: &dyn Ledger) {
    let owner = key(DISTINCT, 400);
    let send = |seconds, value| {
        let reading =
            observe_one(ledger, request(vec![distinct(owner, at(seconds), value)])).readings.remove(0);
        (reading.fresh, reading.sum(0, 0), reading.sum(1, 0))
    };
    assert_eq!(send(1200, 1), (true, 0, 0));
    assert_eq!(send(1210, 1), (false, 1, 1));
    assert_eq!(send(1220, 2), (true, 1, 1));
    assert_eq!(
        send(1260, 1),
        (true, 0, 2),
        "a new minute: the value is fresh, the sum counts it once per period"
    );
    assert_eq!(send(1265, 3), (true, 1, 3));
    assert_eq!(send(1225, 2), (false, 2, 2), "late, and seen then");
    assert_eq!(send(1225, 3), (true, 2, 2), "late, and not seen then");
    assert_eq!(send(1380, 9), (true, 0, 2), "only the periods that are kept");
    assert_eq!(
        send(1200, 8),
        (true, 0, 0),
        "the pair's period is kept, the owner's is not: nothing is counted"
    );
    assert_eq!(send(1100, 9), (false, 0, 0), "a period that the pair has forgotten");
    let reading = observe_one(ledger, request(vec![peek(owner, at(1390))])).readings.remove(0);
    assert_eq!((reading.fresh, reading.sum(0, 0), reading.last), (false, 1, Some(at(1380))));
    let same = request(vec![distinct(owner, at(1400), 70), distinct(owner, at(1400), 70)]);
    let fresh: Vec<bool> = observe_one(ledger, same).readings.iter().map(|reading| reading.fresh).collect();
    assert_eq!(fresh, [true, false]);
    for _ in 0..2 {
        let values = [70, 71].map(|value| distinct(owner, at(1410), value));
        let look = ObserveRequest { origin: Origin::Look, ..request(values.to_vec()) };
        let fresh: Vec<bool> =
            observe_one(ledger, look).readings.iter().map(|reading| reading.fresh).collect();
        assert_eq!(fresh, [false, true], "a look says what is new, and makes nothing");
    }
}

fn the_last_value_is_that_of_the_latest_event(ledger: &dyn Ledger) {
    let user = key(LAST, 450);
    let send = |seconds, value: &str| {
        let reading = observe_one(ledger, request(vec![last(user, at(seconds), value)])).readings.remove(0);
        (LastValueForm::text(reading.sums()), reading.last)
    };
    let known = |value: &str, seconds| (Some(value.to_owned()), Some(at(seconds)));
    assert_eq!(send(1200, "DE"), (None, None));
    assert_eq!(send(1210, "AT"), known("DE", 1200));
    assert_eq!(send(1205, "FR"), known("AT", 1210), "a reading has the last, also as of an earlier time");
    assert_eq!(send(1210, "AU"), known("AT", 1210), "late ones change nothing");
    assert_eq!(send(1210, "\u{ff}"), known("AU", 1210), "of two at one time the greater stays");
    assert_eq!(send(1210, "Z"), known("\u{ff}", 1210), "by its bytes");
    assert_eq!(send(1220, &"x".repeat(64)), known("\u{ff}", 1210));
    assert_eq!(send(1230, "DE"), (None, Some(at(1220))), "too long a value is not known");
    let both = request(vec![last(user, at(1240), "IT"), last(user, at(1239), "ES"), peek(user, at(1240))]);
    let readings = observe_one(ledger, both).readings;
    let values: Vec<_> = readings.iter().map(|reading| LastValueForm::text(reading.sums())).collect();
    assert_eq!(values, ["DE", "IT", "IT"].map(|value| Some(value.to_owned())));
    let timeline = pollster::block_on(ledger.timeline(user)).unwrap().unwrap();
    assert_eq!((timeline.last, timeline.buckets), (at(1240), vec![]));
}

fn windows_are_strict_and_fold(ledger: &dyn Ledger) {
    let key = key(MASS, 500);
    observe(ledger, &[request(vec![add(key, at(1201), [(0, 1)])])]);
    let read = |seconds| sums(&observe_one(ledger, request(vec![peek(key, at(seconds))])).readings[0]);
    assert_eq!(read(1201), [1, 1, 1]);
    assert_eq!(read(1229), [1, 1, 1], "the partly elapsed oldest bucket counts in full");
    assert_eq!(read(1230), [0, 1, 1]);
    assert_eq!(read(1199), [0, 0, 0], "buckets after the time are not counted");
    assert_eq!(read(1559), [0, 0, 1]);
    assert_eq!(read(1560), [0, 0, 0]);
    observe(ledger, &[request(vec![add(key, at(1290), [(1, 4)])])]);
    assert_eq!(read(1290), [0, 0, 1], "folded into its minute");
    let timeline = pollster::block_on(ledger.timeline(key)).unwrap().unwrap();
    assert_eq!((timeline.first, timeline.last), (at(1201), at(1290)));
    assert_eq!(timeline.counters, ["seen", "spam"]);
    let bucket =
        |start, width, counts: [u64; 2]| TimelineBucket { start: at(start), width, counts: counts.to_vec() };
    let expected = [bucket(1200, Span::minutes(1), [1, 0]), bucket(1290, Span::seconds(10), [0, 4])];
    assert_eq!(timeline.buckets, expected);
}

fn buckets_are_read_one_by_one(ledger: &dyn Ledger) {
    let key = key(SPREAD, 550);
    let summary = |max, filled, dispersion, median_halves, variation| BucketSummary {
        max,
        filled,
        dispersion,
        median_halves,
        variation,
    };
    let check = |seconds, fine, coarse| {
        let outcomes = pollster::block_on(ledger.observe(&[request(vec![peek(key, at(seconds))])])).unwrap();
        let reading = outcomes.reading(0).unwrap();
        assert_eq!([reading.series(0), reading.series(1)], [fine, coarse], "at {seconds}");
    };
    check(1239, summary(0, 0, None, None, None), summary(0, 0, None, None, None));
    for (seconds, amount) in [(1205, 2), (1215, 2), (1225, 2), (1239, 6)] {
        observe(ledger, &[request(vec![add(key, at(seconds), [(0, amount)])])]);
    }
    // Of twelve events three follow one bucket behind the one before, and eight at once.
    let one_minute = summary(12, 0, None, Some(0), None);
    check(1239, summary(6, 3, Some(1.0), Some(0), Some(1.633)), one_minute);
    check(1204, summary(2, 0, None, Some(0), None), one_minute);
    check(1259, summary(6, 4, Some(2.0), Some(0), Some(1.633)), one_minute);
    check(1265, summary(6, 4, Some(2.0), Some(0), Some(1.633)), summary(12, 1, Some(9.0), Some(0), None));
    // Those of the first minute are folded by now.
    observe(ledger, &[request(vec![add(key, at(1290), [(0, 6)])])]);
    check(1325, summary(6, 1, Some(5.0), Some(0), None), summary(12, 2, Some(5.5), Some(0), Some(4.0)));
}

fn late_events_land_where_they_would_be(ledger: &dyn Ledger) {
    let times = [2000, 1995, 1930, 1700, 1600, 2010, 1650];
    let timelines: Vec<_> = [0, 3, 5]
        .into_iter()
        .map(|turn| {
            let key = key(MASS, 600 + turn as u64);
            for index in 0..times.len() {
                let time = at(times[(index + turn) % times.len()]);
                observe(ledger, &[request(vec![add(key, time, [(0, 1)])])]);
            }
            pollster::block_on(ledger.timeline(key)).unwrap().unwrap()
        })
        .collect();
    assert_eq!(timelines[0].first, at(1600), "also of what is dropped");
    assert_eq!(timelines[0].buckets.iter().map(|bucket| bucket.counts[0]).sum::<u64>(), 5);
    assert!(timelines.iter().all(|timeline| *timeline == timelines[0]), "{timelines:?}");
}

fn what_does_not_fit_is_refused_whole(ledger: &dyn Ledger) {
    let good = add(key(MASS, 700), at(1000), [(0, 1)]);
    let owner = key(DISTINCT, 701);
    let strange = Shingle(!pair(owner, 1).0);
    let mut unknown = good.clone();
    unknown.key.kind = Kind(77);
    let counters = Addition::Counters(CounterAmounts::default());
    let bad = [
        (unknown, "no statistic is configured for kind 77 of space 3"),
        (add(key(MASS, 700), at(1000), [(2, 1)]), "statistic `mass`: there are fewer counters"),
        (
            Observation { key: owner, time: at(1000), add: Addition::Distinct { pair: strange } },
            "statistic `rcpts`: the pair is not routed like its owner: make it with `Secret::pair`",
        ),
        (
            Observation { key: owner, time: at(1000), add: counters },
            "statistic `rcpts`: it takes another kind of addition",
        ),
        (distinct(key(MASS, 700), at(1000), 1), "statistic `mass`: it takes another kind of addition"),
        (peek(key(ONCE, 700), at(1000)), "statistic `once`: marks of requests are not observed"),
    ];
    for (observation, message) in bad {
        let requests = [request(vec![good.clone()]), request(vec![observation])];
        let refused = pollster::block_on(ledger.observe(&requests)).unwrap_err();
        assert_eq!(refused.to_string(), message);
    }
    let mut marked = once(1, at(1000), vec![good.clone()]);
    marked.once.as_mut().unwrap().key.kind = MASS;
    let refused = pollster::block_on(ledger.observe(&[marked])).unwrap_err();
    assert_eq!(refused.to_string(), "statistic `mass`: it holds no marks of requests");
    let huge = request(vec![good.clone(); ObserveRequest::OBSERVATIONS_MAX + 1]);
    let refused = pollster::block_on(ledger.observe(&[huge])).unwrap_err();
    assert!(matches!(refused, LedgerError::TooLarge(_)), "{refused}");
    assert_eq!(pollster::block_on(ledger.timeline(good.key)).unwrap(), None, "nothing of it was added");
}

fn large_batches_are_applied_in_order(ledger: &dyn Ledger) {
    let hot = key(MASS, 800);
    let requests: Vec<ObserveRequest> = (0..3000)
        .map(|number| {
            request(vec![add(hot, at(1000), [(0, 1)]), add(key(VISITS, 10_000 + number), at(1000), [(0, 1)])])
        })
        .collect();
    let outcomes = observe(ledger, &requests);
    for (number, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.readings[0].sum(0, 0), number as u64);
        assert_eq!(outcome.readings[1].sum(0, 0), 0);
    }
}

fn the_hottest_come_first(ledger: &dyn Ledger) {
    let requests: Vec<ObserveRequest> = (0..20)
        .map(|number| request(vec![add(key(MASS, 900 + number), at(50_000), [(1, 100 + number)])]))
        .collect();
    observe(ledger, &requests);
    let query = |kind, counter, window, limit| HottestQuery {
        space: SPACE,
        kind,
        counter,
        window: Span::seconds(window),
        since: None,
        limit,
    };
    let all = |queries: &[HottestQuery]| pollster::block_on(ledger.hottest(queries, at(50_000), &|| false));
    let hottest = |window, limit| {
        let found = all(&[query(MASS, 1, window, limit)]);
        found.map(|found| found.into_iter().next().unwrap())
    };
    let stopped = [query(MASS, 1, 20, 3)];
    let stopped = ledger.hottest(&stopped, at(50_000), &|| true);
    assert!(matches!(pollster::block_on(stopped), Err(LedgerError::Stopped)));
    let expected: Vec<_> = (17..20).rev().map(|number| (key(MASS, 900 + number), 100 + number)).collect();
    assert_eq!(hottest(20, 3).unwrap(), expected);
    // Others take their place in memory.
    let others = (0..400).map(|number| request(vec![add(key(VISITS, number), at(50_000), [(0, 1)])]));
    observe(ledger, &others.collect::<Vec<_>>());
    assert_eq!(hottest(20, 3).unwrap(), expected);
    assert_eq!(hottest(20, 0).unwrap(), []);
    assert_eq!(hottest(20, usize::MAX).unwrap().len(), 20);
    assert!(matches!(hottest(5, 3), Err(LedgerError::Window(_))));
    // Several are asked for at once, each as if it were alone.
    let several =
        [query(MASS, 1, 20, 3), query(VISITS, 0, 120, 2), query(MASS, 1, 20, 1), query(MASS, 0, 20, 3)];
    let alone: Vec<_> = several.iter().map(|query| all(&[*query]).unwrap().remove(0)).collect();
    assert_eq!(alone[0], expected);
    assert_eq!(alone.iter().map(Vec::len).collect::<Vec<_>>()[..3], [3, 2, 1]);
    assert_eq!(all(&several).unwrap(), alone);
    let from = |since| HottestQuery { since: Some(since), ..query(MASS, 1, 20, 3) };
    assert_eq!(all(&[from(at(50_000)), from(at(50_001))]).unwrap(), [expected, Vec::new()]);
    assert_eq!(all(&[]).unwrap(), Vec::<Vec<_>>::new());
}

fn sums_saturate(ledger: &dyn Ledger, most: u64) {
    let key = key(MASS, 1000);
    observe(
        ledger,
        &[request(vec![add(key, at(1000), [(0, u64::MAX), (0, 5)]), add(key, at(1010), [(0, u64::MAX)])])],
    );
    let found = sums(&observe_one(ledger, request(vec![peek(key, at(1010))])).readings[0]);
    assert!(found.iter().all(|sum| *sum >= most), "{found:?}");
}

fn what_has_expired_is_gone(ledger: &dyn Ledger) {
    let key = key(VISITS, 1100);
    observe(ledger, &[request(vec![add(key, at(100_000), [(0, 1)])])]);
    ledger.maintain(at(100_599)).unwrap();
    assert!(pollster::block_on(ledger.timeline(key)).unwrap().is_some());
    ledger.maintain(at(100_600)).unwrap();
    ledger.maintain(at(0)).unwrap();
    assert_eq!(pollster::block_on(ledger.timeline(key)).unwrap(), None);
    let reading = observe_one(ledger, request(vec![add(key, at(100_700), [(0, 1)])])).readings.remove(0);
    assert_eq!(reading, Reading::default());
    assert_eq!(ledger.census().cells, 1, "all others have expired too");
}

fn a_closed_ledger_only_reads(ledger: &dyn Ledger) {
    let key = key(VISITS, 1200);
    observe(ledger, &[request(vec![add(key, at(100_700), [(0, 1)])])]);
    ledger.close().unwrap();
    ledger.close().unwrap();
    let refused = pollster::block_on(ledger.observe(&[request(vec![add(key, at(100_700), [(0, 1)])])]));
    assert!(matches!(refused, Err(LedgerError::Closed)), "{refused:?}");
    assert_eq!(observe_one(ledger, request(vec![peek(key, at(100_700))])).readings[0].sum(0, 0), 1);
}

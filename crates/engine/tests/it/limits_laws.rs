//! Limits against a log of every request, over random arrivals.

use engine::Engine;
use engine::limit::{Take, TakeResult};
use event::{Span, Time};
use plan::limit::{LimitAlgorithm, LimitPlan, Period, Zone};
use pollster::block_on;
use proptest::prelude::*;

use crate::limits::{START, engine};

/// Arrivals: pauses before each, in microseconds, and costs. Bursts, streams and long pauses, by a clock that now and then
/// jumps either way.
fn arrivals() -> impl Strategy<Value = Vec<(Time, u64)>> {
    let pause = prop_oneof![
        2 => -5_000_000i64..0,
        1 => -90_000_000i64..-50_000_000,
        1 => prop_oneof![Just(-3_600_000_000i64), Just(3_600_000_000)],
        3 => Just(0i64),
        6 => 0i64..2_000_000,
        3 => 0i64..20_000_000,
        1 => 50_000_000i64..90_000_000,
    ];
    let cost = prop_oneof![4 => Just(1u64), 1 => 1u64..4];
    proptest::collection::vec((pause, cost), 1..150).prop_map(|arrivals| {
        let mut now = START;
        arrivals
            .into_iter()
            .map(|(pause, cost)| {
                now = now + Span(pause);
                (now, cost)
            })
            .collect()
    })
}

fn sliding(count: u64, parts: u32, interpolated: bool, counts_all: bool) -> String {
    let mode = if interpolated { "interpolated" } else { "sliding" };
    let counts = if counts_all { "all" } else { "allowed" };
    format!(
        "[[limit]]\nname = \"it\"\nkey = []\ncount = {count}\nper = \"1m\"\nwindows = {parts}\nmode = \"{mode}\"\ncounts = \"{counts}\"\n"
    )
}

struct TriedLimit {
    engine: Engine,
    limit: LimitPlan,
}

impl TriedLimit {
    fn new(text: &str) -> TriedLimit {
        let engine = engine(text);
        let limit = LimitPlan::clone(engine.plan().limit("it").unwrap());
        TriedLimit { engine, limit }
    }

    fn take(&self, now: Time, cost: u64) -> TakeResult {
        let key = self.engine.limit_key(&self.limit, &[]);
        block_on(self.engine.take(&[Take { limit: &self.limit, key, cost }], now)).remove(0)
    }

    fn peek(&self, now: Time, cost: u64) -> TakeResult {
        let key = self.engine.limit_key(&self.limit, &[]);
        block_on(self.engine.peek_limits(&[Take { limit: &self.limit, key, cost }], now)).remove(0)
    }
}

const WINDOW: Span = Span::minutes(1);

/// The length of a sub-window.
fn width(parts: u32) -> Span {
    Span((WINDOW.0 + i64::from(parts) - 1) / i64::from(parts))
}

/// The time at which a take counts: now, or that of the latest take, if that is later.
fn counted(log: &[(Time, u64)], now: Time) -> Time {
    log.iter().map(|(time, _)| *time).max().map_or(now, |latest| latest.max(now))
}

/// Returns the part of a log that lies after a moment.
fn since(log: &[(Time, u64)], moment: Time) -> u64 {
    log.iter().filter(|(time, _)| *time > moment).map(|(_, cost)| cost).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 48, ..ProptestConfig::default() })]

    /// Never more than the count in any window that ends now; and refused only what would be too much in a window that
    /// is longer by one sub-window.
    #[test]
    fn a_sliding_window_is_never_lenient_and_strict_by_a_sub_window_at_most(
        arrivals in arrivals(), count in 1u64..30, parts in prop_oneof![Just(1u32), Just(7), Just(60)],
    ) {
        let tried = TriedLimit::new(&sliding(count, parts, false, false));
        let width = width(parts);
        let mut log = Vec::new();
        for (now, cost) in arrivals {
            let taken = tried.take(now, cost);
            let now = counted(&log, now);
            let before = since(&log, Time(now.0 - WINDOW.0));
            let longer = since(&log, Time(now.0 - WINDOW.0 - width.0));
            if taken.allowed {
                prop_assert!(before + cost <= count, "lenient at {now}");
                log.push((now, cost));
            } else {
                prop_assert!(longer + cost > count, "too strict at {now}");
            }
            prop_assert_eq!(taken.time, now);
            prop_assert!(taken.used >= since(&log, Time(now.0 - WINDOW.0)));
            prop_assert!(taken.used <= since(&log, Time(now.0 - WINDOW.0 - width.0)));
        }
    }

    /// With all counted it is a function of the log of all requests, by whole sub-windows.
    #[test]
    fn where_all_counts_each_answer_follows_from_the_log(
        arrivals in arrivals(), count in 1u64..30, parts in prop_oneof![Just(1u32), Just(7), Just(60)],
    ) {
        let tried = TriedLimit::new(&sliding(count, parts, false, true));
        let width = width(parts);
        let mut log: Vec<(Time, u64)> = Vec::new();
        for (now, cost) in arrivals {
            let taken = tried.take(now, cost);
            let now = counted(&log, now);
            let oldest = (now - WINDOW).bucket(width);
            let used: u64 =
                log.iter().filter(|(time, _)| time.bucket(width) >= oldest).map(|(_, cost)| cost).sum();
            prop_assert_eq!(taken.allowed, used + cost <= count);
            prop_assert_eq!(taken.used, used + cost);
            log.push((now, cost));
        }
    }

    /// The interpolated window lies between its sub-windows with and without the oldest.
    #[test]
    fn an_interpolated_window_counts_the_oldest_by_its_share(
        arrivals in arrivals(), parts in prop_oneof![Just(2u32), Just(7), Just(60)],
    ) {
        let tried = TriedLimit::new(&sliding(1_000_000, parts, true, true));
        let width = width(parts);
        let mut log: Vec<(Time, u64)> = Vec::new();
        for (now, cost) in arrivals {
            let used = tried.take(now, cost).used;
            let now = counted(&log, now);
            log.push((now, cost));
            let oldest = (now - WINDOW).bucket(width);
            let from = |bucket: i64| log.iter().filter(|(time, _)| time.bucket(width) >= bucket).map(|(_, cost)| cost).sum::<u64>();
            let whole = from(oldest);
            let newer = from(oldest + 1);
            let gone = (now - WINDOW).0.rem_euclid(width.0) as f64 / width.0 as f64;
            let expected = newer as f64 + (whole - newer) as f64 * (1.0 - gone);
            prop_assert!((used as f64 - expected).abs() <= 1.0, "{used} instead of {expected}");
        }
    }

    /// A calendar's window starts anew with each period.
    #[test]
    fn a_calendar_is_exact(arrivals in arrivals(), count in 1u64..30, counts_all in any::<bool>()) {
        let counts = if counts_all { "all" } else { "allowed" };
        let tried = TriedLimit::new(&format!(
            "[[limit]]\nname = \"it\"\nkey = []\ncount = {count}\nper = \"minute\"\ncounts = \"{counts}\"\n"
        ));
        let zone = Zone::utc();
        let mut log: Vec<(Time, u64)> = Vec::new();
        for (now, cost) in arrivals {
            let (start, next) = Period::Minute.bounds(&zone, now);
            let used: u64 = log.iter().filter(|(time, _)| (start..next).contains(time)).map(|(_, cost)| cost).sum();
            let taken = tried.take(now, cost);
            prop_assert_eq!(taken.allowed, used + cost <= count);
            if taken.allowed || counts_all {
                log.push((now, cost));
            }
            if !taken.allowed && cost <= count {
                prop_assert_eq!(taken.retry_after, Some(next - now));
            }
        }
    }

    /// The generic cell rate algorithm, as ITU-T I.371 has it (virtual scheduling), in nanoseconds.
    #[test]
    fn a_bucket_is_the_published_algorithm(
        arrivals in arrivals(), count in 1u64..100, burst in 1u64..20,
    ) {
        let tried = TriedLimit::new(&format!(
            "[[limit]]\nname = \"it\"\nkey = []\ncount = {count}\nper = \"1m\"\nmode = \"gcra\"\nburst = {burst}\n"
        ));
        let increment = (60_000_000_000i128 + i128::from(count) - 1) / i128::from(count);
        let mut arrival_expected: Option<i128> = None;
        for (now, cost) in arrivals {
            let at = i128::from(now.0) * 1000;
            // A take of several is that of each, all or nothing.
            let mut expected = arrival_expected;
            let mut conforms = true;
            for _ in 0..cost {
                let earliest = expected.unwrap_or(at);
                let tolerance = increment * i128::from(burst - 1);
                if at < earliest - tolerance {
                    conforms = false;
                    break;
                }
                expected = Some(earliest.max(at) + increment);
            }
            if conforms {
                arrival_expected = expected;
            }
            let taken = tried.take(now, cost);
            prop_assert_eq!(taken.allowed, conforms, "at {}", now);
        }
    }

    /// A refused take fits at the moment that was told, and not a microsecond before.
    #[test]
    fn the_time_to_come_again_is_right(
        arrivals in arrivals(), count in 1u64..20, which in 0usize..7,
    ) {
        let text = match which {
            0 => sliding(count, 60, false, false),
            1 => sliding(count, 60, false, true),
            2 => sliding(count, 7, true, false),
            3 => sliding(count, 60, true, true),
            4 => sliding(count, 1, false, true),
            other => format!(
                "[[limit]]\nname = \"it\"\nkey = []\ncount = {count}\nper = \"1m\"\nmode = \"gcra\"\nburst = 5\ncounts = \"{}\"\n",
                if other == 5 { "all" } else { "allowed" }
            ),
        };
        let tried = TriedLimit::new(&text);
        let burst = if let LimitAlgorithm::Bucket { burst, .. } = tried.limit.pace { burst } else { count };
        for (now, cost) in arrivals {
            let taken = tried.take(now, cost);
            let free = taken.reset_after;
            prop_assert_eq!(tried.peek(now + free, 0).used, 0, "all is left again");
            match taken.retry_after {
                Some(after) => {
                    prop_assert!(!taken.allowed);
                    prop_assert!(after > Span::ZERO);
                    prop_assert!(tried.peek(now + after, cost).allowed, "after {after} at {now}");
                    prop_assert!(!tried.peek(Time(now.0 + after.0 - 1), cost).allowed, "before {after} at {now}");
                }
                None => prop_assert!(taken.allowed || cost > burst),
            }
        }
    }
}

/// Each way of counting is off from a log, on the mean, for arrivals that are evenly spread: the strict window by half a
/// sub-window, the interpolated by next to nothing.
#[test]
fn the_interpolated_mean_is_right_and_the_strict_one_high_by_half_a_sub_window() {
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut off = |interpolated: bool| {
        let tried = TriedLimit::new(&sliding(1_000_000, 20, interpolated, true));
        let (mut now, mut log, mut sum, mut seen) = (START, Vec::new(), 0.0, 0.0);
        for number in 0..6000usize {
            now = now + Span((next() % 100_000) as i64);
            let used = tried.take(now, 1).used;
            log.push((now, 1));
            // Once a window is full.
            if number > 1500 {
                let exact = since(&log[number.saturating_sub(2000)..], Time(now.0 - WINDOW.0));
                sum += used as f64 / exact as f64 - 1.0;
                seen += 1.0;
            }
        }
        sum / seen
    };
    let (strict, interpolated) = (off(false), off(true));
    // Half a sub-window of twenty is 2.5 percent.
    assert!((0.022..0.028).contains(&strict), "{strict}");
    assert!(interpolated.abs() < 0.002, "{interpolated}");
}

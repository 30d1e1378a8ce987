//! The time of a server. It goes on as time passes, by the machine's monotonic clock, and not as the wall clock says: that
//! one can be set, by hand, by a time server that is wrong, by a battery that is empty.
//!
//! ```text
//! time told = time that has passed + offset          look, each second: wall clock - time that has passed = offset?
//!
//!          about the same: the offset follows slowly ◄─── look ───► more than `STEP_MAX` apart: doubt
//!                                                                     └ the same for `STEADY` ─► the wall clock is believed
//!                                                                     └ about the same again ─► all is as before
//! ```
//!
//! **Doubt.** A wall clock that jumps changes no time that is told: events go on to be counted where they would be. While
//! there is doubt nothing expires and nothing is deleted by age; `/readyz`, `/metrics` and the log say so. It ends when the
//! wall clock agrees again, or when it has run evenly for [`STEADY`]: then the time told is the wall clock's, which may be
//! earlier.
//!
//! **Start.** Nothing has passed yet, so the wall clock is compared with the newest decision on disk. One that is behind
//! it, or ahead by more than [`ABSENCE_MAX`], is gone by, in doubt.

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use event::{Span, Time};
use rustix::time::{ClockId, clock_gettime};

/// Most by which the wall clock may be off: so much is made up for little by little.
const STEP_MAX: Span = Span::seconds(10);
/// The time for which a wall clock has to run evenly to be believed.
pub const STEADY: Span = Span::minutes(10);
/// Most by which the wall clock may be ahead of the newest decision on disk when a server starts.
const ABSENCE_MAX: Span = Span::days(1);
/// One part in so many of the time that passes is what the offset may follow by.
const SLEW: i64 = 10;

/// The two clocks of a machine.
pub trait ClockSource: Send + Sync {
    /// The time of day, as somebody has set it.
    fn wall(&self) -> Time;

    /// The time that has passed since some moment. It never goes back.
    fn passed(&self) -> Span;

    /// Both, of the same moment.
    fn both(&self) -> (Time, Span) {
        (self.wall(), self.passed())
    }
}

/// The clocks of this machine. Time goes on while it sleeps.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl ClockSource for SystemClock {
    fn wall(&self) -> Time {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => Time(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)),
            Err(before) => {
                Time(i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros))
            }
        }
    }

    fn passed(&self) -> Span {
        #[cfg(target_os = "linux")]
        const CLOCK: ClockId = ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        const CLOCK: ClockId = ClockId::Monotonic;
        let at = clock_gettime(CLOCK);
        Span(at.tv_sec.saturating_mul(1_000_000).saturating_add(at.tv_nsec / 1000))
    }
}

/// The reason of a doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DoubtReason {
    /// The wall clock was set while the server ran.
    Jump,
    /// The wall clock is not near the newest decision on disk: that is at so much, were it counted in time that has passed.
    Start { newest: i64 },
}

/// A wall clock that is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockDoubt {
    reason: DoubtReason,
    /// The offset that it would give.
    offset: i64,
    /// The span by which it is ahead of the believed time.
    ahead: Span,
    /// The time that had passed when it began to run evenly.
    since: i64,
}

impl fmt::Display for ClockDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let apart = rough(self.ahead);
        let direction = if self.ahead.0 < 0 { "behind" } else { "ahead of" };
        let (than, goes) = match self.reason {
            DoubtReason::Jump => ("the time that has passed", "time goes on as it passes"),
            DoubtReason::Start { .. } => ("the newest decision on disk", "the clock is gone by"),
        };
        write!(
            f,
            "the system's clock is {apart} {direction} {than}: {goes}, and nothing expires, until it is right or has run \
             evenly for {STEADY}; see to what sets it (NTP)"
        )
    }
}

/// A length of time in its greatest unit.
fn rough(span: Span) -> Span {
    let micros = span.0.saturating_abs();
    let units = [Span::days(1), Span::hours(1), Span::minutes(1), Span::seconds(1)];
    let unit = units.into_iter().find(|unit| micros >= 2 * unit.0).unwrap_or(Span::seconds(1));
    unit.times(micros / unit.0)
}

/// The offset that is added to the time that has passed. Pure: it is told what the clocks say.
#[derive(Clone, Debug)]
pub(crate) struct ClockDiscipline {
    offset: i64,
    /// The time that had passed at the last look.
    looked: i64,
    doubt: Option<ClockDoubt>,
}

impl ClockDiscipline {
    /// Begins at what the wall clock says. `newest` is the time of the newest decision on disk.
    pub(crate) fn new(wall: Time, passed: Span, newest: Option<Time>) -> ClockDiscipline {
        let offset = wall.0.saturating_sub(passed.0);
        let newest = newest.map(|newest| newest.0.saturating_sub(passed.0));
        let doubt = newest.filter(|newest| !is_near_start(offset, *newest)).map(|newest| ClockDoubt {
            reason: DoubtReason::Start { newest },
            offset,
            ahead: Span(offset.saturating_sub(newest)),
            since: passed.0,
        });
        ClockDiscipline { offset, looked: passed.0, doubt }
    }

    /// Hears what the clocks say. Answers whether the wall clock is now believed after a doubt: time may then go back.
    pub(crate) fn look(&mut self, wall: Time, passed: Span) -> bool {
        let offset = wall.0.saturating_sub(passed.0);
        let since_last = passed.0.saturating_sub(self.looked).max(0);
        self.looked = self.looked.max(passed.0);
        let Some(doubt) = self.doubt else {
            if is_near(offset, self.offset) {
                self.follow(offset, since_last);
            } else {
                self.doubt = Some(self.jump(offset, passed));
            }
            return false;
        };
        let is_right = match doubt.reason {
            DoubtReason::Jump => is_near(offset, self.offset),
            DoubtReason::Start { newest } => is_near_start(offset, newest),
        };
        if is_right && doubt.reason == DoubtReason::Jump {
            self.doubt = None;
            self.follow(offset, since_last);
            return false;
        }
        if is_right || (is_near(offset, doubt.offset) && passed.0.saturating_sub(doubt.since) >= STEADY.0) {
            (self.doubt, self.offset) = (None, offset);
            return true;
        }
        if !is_near(offset, doubt.offset) {
            let ahead = match doubt.reason {
                DoubtReason::Jump => Span(offset.saturating_sub(self.offset)),
                DoubtReason::Start { newest } => Span(offset.saturating_sub(newest)),
            };
            self.doubt = Some(ClockDoubt { offset, ahead, since: passed.0, ..doubt });
        }
        false
    }

    fn jump(&self, offset: i64, passed: Span) -> ClockDoubt {
        let ahead = Span(offset.saturating_sub(self.offset));
        ClockDoubt { reason: DoubtReason::Jump, offset, ahead, since: passed.0 }
    }

    fn follow(&mut self, offset: i64, since_last: i64) {
        let most = since_last / SLEW;
        self.offset = self.offset.saturating_add(offset.saturating_sub(self.offset).clamp(-most, most));
    }
}

fn is_near(one: i64, other: i64) -> bool {
    one.abs_diff(other) <= STEP_MAX.0.unsigned_abs()
}

/// Returns whether a server may have been away for what lies between the newest decision and now.
fn is_near_start(offset: i64, newest: i64) -> bool {
    (-STEP_MAX.0..=ABSENCE_MAX.0).contains(&offset.saturating_sub(newest))
}

/// A function that says the time.
type TimeFunction = dyn Fn() -> Time + Send + Sync;

/// The source of time: cheap to share, and to ask.
#[derive(Clone)]
pub struct Clock(Arc<ClockKind>);

enum ClockKind {
    /// Somebody else says it.
    Driven(Box<TimeFunction>),
    Kept(DisciplinedClock),
}

/// A time that is kept by a source.
struct DisciplinedClock {
    source: Box<dyn ClockSource>,
    offset: AtomicI64,
    /// The latest time that was told.
    latest: AtomicI64,
    discipline: Mutex<ClockDiscipline>,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

impl Clock {
    /// Goes by a source. `newest` is the time of the newest decision on disk.
    pub fn of(source: impl ClockSource + 'static, newest: Option<Time>) -> Clock {
        let (wall, passed) = source.both();
        let discipline = ClockDiscipline::new(wall, passed, newest);
        Clock(Arc::new(ClockKind::Kept(DisciplinedClock {
            offset: AtomicI64::new(discipline.offset),
            latest: AtomicI64::new(i64::MIN),
            discipline: Mutex::new(discipline),
            source: Box::new(source),
        })))
    }

    /// Says what a function says, and never doubts it: where events drive the time.
    pub fn driven(now: impl Fn() -> Time + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(ClockKind::Driven(Box::new(now))))
    }

    /// The time. It goes back only where a wall clock that says so is believed.
    pub fn now(&self) -> Time {
        match &*self.0 {
            ClockKind::Driven(now) => now(),
            ClockKind::Kept(DisciplinedClock { source, offset, latest: told, .. }) => {
                let now = source.passed().0.saturating_add(offset.load(Ordering::Acquire));
                Time(told.fetch_max(now, Ordering::AcqRel).max(now))
            }
        }
    }

    /// Returns the time, unless the wall clock is not believed.
    pub fn certain_now(&self) -> Option<Time> {
        match &*self.0 {
            ClockKind::Kept(kept) if kept.discipline.lock().doubt.is_some() => None,
            _ => Some(self.now()),
        }
    }

    /// Compares the clocks, which is to be done each second. Answers what is wrong with the wall clock while it is not
    /// believed.
    pub fn look(&self) -> Option<String> {
        let ClockKind::Kept(DisciplinedClock { source, offset, latest: told, discipline }) = &*self.0 else {
            return None;
        };
        let mut discipline = discipline.lock();
        let (wall, passed) = source.both();
        let is_believed = discipline.look(wall, passed);
        offset.store(discipline.offset, Ordering::Release);
        if is_believed {
            told.store(i64::MIN, Ordering::Release);
        }
        discipline.doubt.map(|doubt| doubt.to_string())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: i64 = 1_790_000_000_000_000;
    const DAY: i64 = Span::days(1).0;

    /// The behaviour of a wall clock in the time until the next look, which is in seconds.
    #[derive(Clone, Debug)]
    enum ClockEvent {
        /// The clock goes on, a little too fast or too slow, in millionths.
        Runs(i64, i64),
        /// Somebody sets it: so much off the truth.
        Set(i64),
        /// The clock is right again.
        Right,
    }

    fn happenings() -> impl Strategy<Value = Vec<ClockEvent>> {
        let off = prop_oneof![
            -9_000_000i64..9_000_000,
            Just(-20_000_000_000_000i64),
            Just(400 * DAY),
            Just(-400 * DAY),
            Just(-START - DAY),
            -DAY..DAY,
        ];
        proptest::collection::vec(
            prop_oneof![
                12 => (1i64..900, -200i64..200).prop_map(|(seconds, drift)| ClockEvent::Runs(seconds, drift)),
                2 => off.prop_map(ClockEvent::Set),
                2 => Just(ClockEvent::Right),
            ],
            1..80,
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The model: the time told is the truth, give or take what is made up for, until a wall clock that is off has run
        /// evenly for long enough; and from then on it is that clock's.
        #[test]
        fn the_time_told_is_right_unless_a_wrong_clock_was_steady(happenings in happenings()) {
            let (mut passed, mut off) = (0i64, 0i64);
            let mut discipline = ClockDiscipline::new(Time(START), Span(0), None);
            // How far the time told may be off, and how long the wall clock has been where it is.
            let (mut believed, mut even, mut seen) = (0i64, 0i64, 0i64);
            let near = |one: i64, other: i64| one.abs_diff(other) <= 2 * STEP_MAX.0.unsigned_abs();
            for happening in happenings {
                match happening {
                    ClockEvent::Runs(seconds, drift) => {
                        // A look each second.
                        for _ in 0..seconds {
                            passed += 1_000_000;
                            off += drift;
                            even = if near(off, seen) { even + 1_000_000 } else { 0 };
                            seen = off;
                            let before = discipline.offset;
                            let is_believed = discipline.look(Time(START + passed + off), Span(passed));
                            let step = discipline.offset - before;
                            if is_believed {
                                prop_assert!(even >= STEADY.0, "believed after {even}");
                                believed = off;
                            } else {
                                prop_assert!(step.abs() <= 100_000, "a step of {step}");
                            }
                            if discipline.doubt.is_none() {
                                believed = off;
                            }
                            let error = discipline.offset - START - believed;
                            prop_assert!(error.abs() <= STEP_MAX.0 + 1_000_000, "off by {error}");
                            let apart = (off - (discipline.offset - START)).abs();
                            prop_assert_eq!(discipline.doubt.is_some(), apart > STEP_MAX.0);
                        }
                    }
                    ClockEvent::Set(to) => off = to,
                    ClockEvent::Right => off = 0,
                }
            }
            // In the end whatever the wall clock says is believed.
            for _ in 0..2 * STEADY.0 / 1_000_000 {
                passed += 1_000_000;
                discipline.look(Time(START + passed + off), Span(passed));
            }
            prop_assert_eq!(discipline.doubt, None);
            prop_assert!((discipline.offset - START - off).abs() <= STEP_MAX.0);
        }

        /// No clock makes it panic.
        #[test]
        fn any_clocks_will_do(looks in proptest::collection::vec((any::<i64>(), any::<i64>()), 1..20), newest in any::<Option<i64>>()) {
            let mut looks = looks.into_iter();
            let (wall, passed) = looks.next().unwrap();
            let mut discipline = ClockDiscipline::new(Time(wall), Span(passed), newest.map(Time));
            for (wall, passed) in looks {
                discipline.look(Time(wall), Span(passed));
                discipline.doubt.map(|doubt| doubt.to_string());
            }
        }
    }

    #[test]
    fn at_the_start_the_newest_decision_is_asked() {
        let at = |days: i64| Some(Time(START + days * DAY));
        let start = |newest| ClockDiscipline::new(Time(START), Span(7), newest);
        for newest in [None, at(0), Some(Time(START - DAY)), Some(Time(START + 9_000_000))] {
            assert_eq!(start(newest).doubt, None);
        }
        for (newest, text) in [(at(-400), "400d ahead of the newest"), (at(400), "400d behind the newest")] {
            let mut discipline = start(newest);
            let doubt = discipline.doubt.unwrap().to_string();
            assert!(doubt.contains(text), "{doubt}");
            // It is gone by all the same, and believed if it stays.
            for second in 0..STEADY.0 / 1_000_000 {
                assert!(discipline.doubt.is_some());
                discipline.look(Time(START + second * 1_000_000), Span(7 + second * 1_000_000));
                assert_eq!(discipline.offset, START - 7);
            }
            assert!(discipline.look(Time(START + STEADY.0), Span(7 + STEADY.0)));
            // Somebody may set it right before.
            let mut discipline = start(newest);
            let right = newest.unwrap().0 + 60_000_000;
            assert!(discipline.look(Time(right), Span(1_000_007)));
            assert_eq!((discipline.doubt, discipline.offset), (None, right - 1_000_007));
        }
    }

    #[test]
    fn time_never_goes_back_unless_a_clock_is_believed() {
        #[derive(Clone, Default)]
        struct Fake(Arc<(AtomicI64, AtomicI64)>);
        impl ClockSource for Fake {
            fn wall(&self) -> Time {
                Time(self.0.0.load(Ordering::Relaxed))
            }
            fn passed(&self) -> Span {
                Span(self.0.1.load(Ordering::Relaxed))
            }
        }
        let fake = Fake::default();
        let set = |wall: i64, passed: i64| {
            fake.0.0.store(wall, Ordering::Relaxed);
            fake.0.1.store(passed, Ordering::Relaxed);
        };
        set(START, 0);
        let clock = Clock::of(fake.clone(), None);
        let mut last = clock.now();
        for second in 1..400 {
            // Five seconds too slow, from then on.
            set(START + second * 1_000_000 - 5_000_000, second * 1_000_000);
            assert_eq!(clock.look(), None);
            assert!(clock.now() >= last, "{second}");
            last = clock.now();
        }
        assert_eq!(last, Time(START + 394_000_000), "it has made up for them");
        for second in 400..=400 + STEADY.0 / 1_000_000 {
            set(START - DAY, second * 1_000_000);
            // It stands still, too, so it is never steady.
            assert!(clock.look().is_some());
        }
        assert_eq!(clock.now(), Time(START + 995_000_000));
        let now = 1_001_000_000;
        for second in 0..=STEADY.0 / 1_000_000 {
            set(START - DAY + second * 1_000_000, now + second * 1_000_000);
            clock.look();
        }
        assert_eq!((clock.look(), clock.now()), (None, Time(START - DAY + STEADY.0)));
    }
}

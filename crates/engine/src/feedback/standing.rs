//! The standing of a reporter: how often others agreed, and contradicted.

use event::{Key, Shingle};
use stats::{CounterAmounts, Reading};

use super::greatest;
use plan::{FeedbackClass, FeedbackSide, Grade, ReportsPlan};

// Places among the counters of a reporter.
const REPORTS: u8 = 0;
const OTHERS: u8 = 1;
const LIMITED: u8 = 2;
const AGREED: u8 = 3;
const CONTRADICTED: u8 = 4;
const REVERSED: u8 = 5;

/// Reporters of a thing and side that are remembered.
const NAMED: usize = 8;

/// The degree to which a reporter is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReporterStanding {
    /// The node's operator, who named no reporter.
    Operator,
    /// The grade of a reporter's reputation. What a bad one says counts nothing.
    Reporter(Grade),
}

impl ReporterStanding {
    /// The name that answers give it.
    pub fn name(self) -> &'static str {
        match self {
            ReporterStanding::Operator => "operator",
            ReporterStanding::Reporter(grade) => grade.name(),
        }
    }

    pub(super) fn weight(self, plan: &ReportsPlan) -> u8 {
        match self {
            ReporterStanding::Operator => 1,
            ReporterStanding::Reporter(Grade::Bad) => 0,
            ReporterStanding::Reporter(Grade::Suspicious | Grade::Unknown | Grade::Known) => plan.new,
            ReporterStanding::Reporter(Grade::Trusted) => plan.trusted,
        }
    }

    /// Returns true if others are judged by agreeing.
    pub(super) fn counts(self) -> bool {
        self != ReporterStanding::Reporter(Grade::Bad)
    }

    /// Returns true if others are judged by disagreeing, too. Not everybody may do that: a crowd of new names could talk down
    /// whoever reports its mail.
    pub(super) fn decides(self) -> bool {
        matches!(self, ReporterStanding::Operator | ReporterStanding::Reporter(Grade::Trusted))
    }
}

/// Returns what a report adds to its reporter's key.
pub(super) fn counts(class: Option<&FeedbackClass>, limited: bool, reversed: bool) -> CounterAmounts {
    let said = class.map(|class| if class.side.is_some() { REPORTS } else { OTHERS });
    let limited = limited.then_some(LIMITED);
    let reversed = reversed.then_some(REVERSED);
    said.into_iter().chain(limited).chain(reversed).map(|counter| (counter, 1)).collect()
}

/// Returns what being agreed with or contradicted adds.
pub(super) fn judged(agreed: bool) -> CounterAmounts {
    [(if agreed { AGREED } else { CONTRADICTED }, 1)].into()
}

/// Returns the number of times that a reporter has said something of this sort in the last day.
pub(super) fn votes_today(plan: &ReportsPlan, reading: &Reading, side: Option<FeedbackSide>) -> u64 {
    let counter = usize::from(if side.is_some() { REPORTS } else { OTHERS });
    plan.day.map_or(0, |day| reading.sum(day.get(), counter))
}

/// The keys that keep the voters on a thing: this reporter's own vote, then for its side and the other the number of
/// voters and the first of them.
pub(super) struct VoterKeys {
    pub(super) keys: Vec<Key>,
}

/// The change that a vote makes.
pub(super) enum VoteEffect {
    /// A value at a key of votes.
    Voice(Option<i64>),
    /// A reporter, of whom another thinks the same or the contrary. Its key is not that given.
    Judged { who: Shingle, agreed: bool },
}

impl VoterKeys {
    pub(super) fn new(side: FeedbackSide, thing: &str, by: &str, key: impl Fn(&str) -> Key) -> VoterKeys {
        let mut keys = vec![key(&format!("voice\0{thing}\0{by}"))];
        for side in [side, side.other()] {
            let side = side.name();
            keys.push(key(&format!("voices\0{thing}\0{side}")));
            keys.extend((0..NAMED).map(|number| key(&format!("named\0{thing}\0{side}\0{number}"))));
        }
        VoterKeys { keys }
    }

    /// Adds a voice, once for each reporter and thing. The second voice of a side confirms the first, and a later one
    /// those before it; one that decides contradicts those named on the other side, if it is the first to decide. Each
    /// voice so is agreed with once at most by others, whatever their number.
    pub(super) fn speak(
        &self,
        known: &[Reading],
        by: Option<Shingle>,
        decides: bool,
        mut heard: impl FnMut(Key, VoteEffect),
    ) {
        let ([voice, own @ ..], [spoken, known @ ..]) = (&self.keys[..], known) else { return };
        if greatest(spoken).is_some() || known.len() < 2 * (1 + NAMED) {
            return;
        }
        let (known_own, known_others) = known.split_at(1 + NAMED);
        let named = |reading: &Reading| greatest(reading).map(|who| Shingle(who.cast_unsigned()));
        let is_decided = |reading: &Reading| greatest(reading) == Some(1);
        let (Some(count_at), Some(before)) = (own.first(), known_own.first()) else { return };
        let Some(contrary) = known_others.first() else { return };
        let number = usize::try_from(before.sum(0, 0)).unwrap_or(usize::MAX);
        heard(*voice, VoteEffect::Voice(Some(1)));
        heard(*count_at, VoteEffect::Voice(Some(i64::from(decides))));
        if let (Some(who), Some(key)) =
            (by, own.get(..=NAMED).and_then(|own| own.get(number.saturating_add(1))))
        {
            heard(*key, VoteEffect::Voice(Some(who.0.cast_signed())));
        }
        let mut judge = |who: Option<Shingle>, agreed| {
            if let Some(who) = who {
                heard(*voice, VoteEffect::Judged { who, agreed });
            }
        };
        if number >= 1 {
            judge(by, true);
        }
        if number == 1 {
            judge(known_own.get(1).and_then(named), true);
        }
        if decides && !is_decided(before) {
            known_others.iter().skip(1).take(NAMED).for_each(|reading| judge(named(reading), false));
        }
        if is_decided(contrary) {
            judge(by, false);
        }
    }
}

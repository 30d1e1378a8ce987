//! Limits as they are configured: how much of something a key may have in a time.
//!
//! A [`LimitPlan`] is made of a `[[limit]]` of the configuration, or by whoever reads the limits of other programs.

mod period;

use std::borrow::Cow;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use content::network::PrefixLengths;
use content::piece::Normalisation;
use event::{Kind, Space, Span, Time};
use serde::{Deserialize, Serialize};
use stats::{CellShape, LayoutError, Measure, NumberedSection};

use crate::config::SPACE_MAX;
use crate::failure_mode::FailureMode;
pub use period::{Period, Zone};

/// The space in which limits count.
pub const LIMITS: Space = Space(SPACE_MAX + 1);
/// Most fields of a key.
pub const FIELDS_MAX: usize = 8;

/// Kinds of refusals and of bans lie above the numbers of configured limits.
const REFUSALS: u16 = NumberedSection::Limit.number_max() + 1;
const BANS: u16 = 0x4000;
/// Kinds that limits share which have no number of their own.
const BUCKETS: Kind = Kind(0x7000);
const FIXED: u16 = 0x7001;
/// Lengths of fixed windows; a window counts in the shortest that is not shorter.
const FIXED_WIDTHS: [Span; 7] = [
    Span::seconds(1),
    Span::minutes(1),
    Span::hours(1),
    Span::days(1),
    Span::days(7),
    Span::days(31),
    Span::days(366),
];
/// Tokens that are used once: the moment of a bucket is that from which nobody would accept the token any more.
pub const USED_ONCE: Kind = Kind(0x7010);
const _: () = assert!(FIXED as usize + FIXED_WIDTHS.len() <= USED_ONCE.0 as usize);
/// Sub-windows in which refusals are counted.
const REFUSAL_WINDOWS: u32 = 10;

/// The way in which a limit is counted.
#[derive(Clone, Debug, PartialEq)]
pub enum LimitAlgorithm {
    /// Over the window before now, by sub-windows. The oldest, of which only a part still lies in the window, counts in
    /// full, so that never more than the limit is let through in any such window; or interpolated, by that part.
    Sliding {
        /// The window.
        window: Span,
        /// The number of sub-windows that the window has.
        parts: u32,
        /// True if the oldest sub-window counts by its part.
        interpolated: bool,
    },
    /// From one start of a period to the next.
    Calendar {
        /// The period.
        period: Period,
        /// The time zone of its start.
        zone: Zone,
    },
    /// Windows of equal length one after the other since 1970.
    Fixed {
        /// The length of the window.
        window: Span,
    },
    /// A bucket that fills evenly: the generic cell rate algorithm.
    Bucket {
        /// The time in which as much comes in as the limit's count.
        per: Span,
        /// The capacity of the bucket: so much can be taken at once.
        burst: u64,
        /// Nanoseconds between two at that rate.
        interval: i64,
    },
}

/// The information that a caller gets about a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// All of it.
    Enforce,
    /// The take is allowed, whatever is used; only [`TakeResult::silent`](crate::limit::TakeResult::silent) tells the
    /// application.
    ShadowBan,
    /// The take is allowed; [`TakeResult::over`](crate::limit::TakeResult::over) tells if it would have been refused.
    Observe,
    /// The take is allowed. Nothing is counted.
    Off,
}

impl Enforcement {
    /// All, each with the word of configurations for it.
    pub const WORDS: [(Enforcement, &str); 4] = [
        (Enforcement::Enforce, "enforce"),
        (Enforcement::ShadowBan, "shadow_ban"),
        (Enforcement::Observe, "observe"),
        (Enforcement::Off, "off"),
    ];

    /// Returns the name in configurations.
    pub fn name(self) -> &'static str {
        Enforcement::WORDS.iter().find(|(known, _)| *known == self).map_or("", |(_, word)| word)
    }
}

/// Conditions of a ban: a key is refused whatever it has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BanPlan {
    /// After so many refusals.
    pub after: u64,
    /// Within this time.
    pub within: Span,
    /// The length of the ban.
    pub lasts: Span,
}

/// A part of a limit's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitField {
    /// The name of the field in requests.
    pub name: String,
    /// The form in which the field's value is made the same for what is meant to be counted together.
    pub how: FieldForm,
}

/// The form in which a value of a key is normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldForm {
    /// The value as a piece of statistics.
    Piece(Normalisation),
    /// An address of the internet: one of IPv6 by its network of 64 bits, which is what one customer has. Other text as it is.
    Network,
}

const NETWORK: &str = "network";
/// The networks of [`FieldForm::Network`].
const PREFIXES: PrefixLengths = PrefixLengths { v4: 32, v6: 64 };

impl FieldForm {
    /// Returns the names of the forms in configurations.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        Normalisation::ALL.into_iter().map(Normalisation::name).chain([NETWORK])
    }

    /// A value as it is counted; `None` if nothing is left of it. Of an address that has a tag the one without it.
    pub fn normal(self, value: &str) -> Option<Cow<'_, str>> {
        match self {
            FieldForm::Piece(how) => content::piece::last(value, how),
            FieldForm::Network => {
                let network = content::network::network_of(value.trim(), PREFIXES);
                Some(network.map_or(Cow::Borrowed(value), Cow::Owned)).filter(|text| !text.is_empty())
            }
        }
    }
}

impl FromStr for FieldForm {
    type Err = ();

    fn from_str(text: &str) -> Result<FieldForm, ()> {
        let named = Normalisation::ALL.into_iter().find(|how| how.name() == text).map(FieldForm::Piece);
        if text == NETWORK { Ok(FieldForm::Network) } else { named.ok_or(()) }
    }
}

/// An address of IPv4, also one that is written as IPv6, as it is; one of IPv6 as its network of 64 bits.
pub fn network(address: IpAddr) -> String {
    content::network::network(address, PREFIXES)
}

/// A limit.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitPlan {
    /// Its name.
    pub name: Arc<str>,
    /// The purpose of the limit, for people.
    pub description: String,
    /// The number of the kind under which it counts.
    pub kind: Kind,
    /// True if other limits count under this kind, too: then its name is part of each key.
    pub shares_kind: bool,
    /// The fields that its keys are made of; for limits of other formats it says nothing.
    pub key: Vec<LimitField>,
    /// Most that is allowed. `u64::MAX` is no limit: nothing is counted.
    pub count: u64,
    /// The way in which the limit is counted.
    pub pace: LimitAlgorithm,
    /// The cost of a take that does not say its own.
    pub cost: u64,
    /// True if what is refused counts, too.
    pub counts_all: bool,
    /// The information that callers get about the limit.
    pub enforcement: Enforcement,
    /// The answer when its counts cannot be had: allow, or refuse.
    pub on_error: FailureMode,
    /// True if nodes that share the limit in a cluster decide together.
    pub exact: bool,
    /// The condition of a ban.
    pub ban: Option<BanPlan>,
    /// The condition under which events take from it, as configured; takes by name do not ask for it.
    pub when: Option<String>,
    /// Names of limits that are taken with it.
    pub also: Vec<String>,
    /// Exceptions of the configuration.
    pub exceptions: Vec<LimitException>,
}

/// The longest time in which a bucket may fill.
pub(crate) const FILL_MAX: Span = Span::days(100 * 365);

/// A bucket that cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BucketError {
    /// More than one in a nanosecond, or none at all.
    #[error("the rate is zero, or more than one in a nanosecond")]
    Rate,
    /// The bucket fills too slowly.
    #[error("the bucket takes more than {FILL_MAX} to fill")]
    Fill,
}

impl BucketError {
    /// An interval in nanoseconds that a bucket can have.
    pub fn check(interval: i64, burst: u64) -> Result<i64, BucketError> {
        let fill = i128::from(interval) * i128::from(burst);
        match interval {
            ..1 => Err(BucketError::Rate),
            _ if fill > i128::from(FILL_MAX.0) * 1000 => Err(BucketError::Fill),
            _ => Ok(interval),
        }
    }
}

impl LimitPlan {
    fn shared(name: &str, kind: Kind, count: u64, pace: LimitAlgorithm, counts_all: bool) -> LimitPlan {
        LimitPlan {
            name: name.into(),
            description: String::new(),
            kind,
            shares_kind: true,
            key: Vec::new(),
            count,
            pace,
            cost: 1,
            counts_all,
            enforcement: Enforcement::Enforce,
            on_error: FailureMode::Open,
            exact: false,
            ban: None,
            when: None,
            also: Vec::new(),
            exceptions: Vec::new(),
        }
    }

    /// A limit over windows of equal length one after the other since 1970, as Envoy's rate limit service has them. What is
    /// refused counts. The window has at most 366 days. All such limits may have the same keys: the name tells them
    /// apart.
    pub fn fixed(name: &str, count: u64, window: Span) -> LimitPlan {
        let index = FIXED_WIDTHS.iter().position(|width| window <= *width).unwrap_or(FIXED_WIDTHS.len() - 1);
        let kind = Kind(FIXED + index as u16);
        LimitPlan::shared(name, kind, count, LimitAlgorithm::Fixed { window }, true)
    }

    /// A bucket by the generic cell rate algorithm, as redis-cell has it: `burst` can be taken at once, and `count` come in
    /// evenly within each `per`. What is refused does not count. Everything but name and key may differ from take to
    /// take. The interval between two is that of redis-cell, which rounds a part of a nanosecond down.
    ///
    /// # Errors
    /// If the rate or the bucket is beyond what nanoseconds of 64 bits can count.
    pub fn bucket(name: &str, count: u64, per: Span, burst: u64) -> Result<LimitPlan, BucketError> {
        let nanoseconds = i128::from(per.0) * 1000;
        let interval = if count == 0 { 0 } else { (nanoseconds as f64 / count as f64) as i64 };
        let pace = LimitAlgorithm::Bucket { per, burst, interval: BucketError::check(interval, burst)? };
        Ok(LimitPlan::shared(name, BUCKETS, count, pace, false))
    }

    /// Returns the measure that the limit keeps of a key.
    ///
    /// # Errors
    /// If its window cannot be divided so.
    pub fn measure(&self) -> Result<Measure, LayoutError> {
        match &self.pace {
            LimitAlgorithm::Sliding { window, parts, .. } => Measure::limit(*window, *parts),
            LimitAlgorithm::Calendar { period, .. } => Measure::limit(period.longest(), 1),
            LimitAlgorithm::Fixed { window } => Measure::limit(*window, 1),
            LimitAlgorithm::Bucket { .. } => Ok(Measure::gcra()),
        }
    }

    /// Every statistic that it has.
    pub(crate) fn measures(&self) -> Result<Vec<(Kind, &'static str, Measure)>, LayoutError> {
        let mut all = vec![(self.kind, "limit", self.measure()?)];
        if let Some(ban) = self.ban {
            let refusals = Measure::limit(ban.within, REFUSAL_WINDOWS)?;
            all.push((self.refusals(), "limit.refusals", refusals));
            // The moment of a bucket is that of the ban's end: it can be set and lifted.
            all.push((self.bans(), "limit.bans", Measure::gcra()));
        }
        Ok(all)
    }

    /// The statistics of limits that have no number; true for those that nodes of a cluster decide together.
    pub(crate) fn shared_measures() -> Result<Vec<(Kind, String, Measure, bool)>, LayoutError> {
        let fixed = FIXED_WIDTHS.iter().zip(FIXED..).map(|(width, kind)| {
            Ok((Kind(kind), format!("fixed.{width}"), Measure::limit(*width, 1)?, false))
        });
        let buckets = [
            Ok((BUCKETS, "bucket".to_owned(), Measure::gcra(), false)),
            Ok((USED_ONCE, "used_once".to_owned(), Measure::gcra(), true)),
        ];
        buckets.into_iter().chain(fixed).collect()
    }

    /// Returns the kind whose keys count what it refused.
    pub fn refusals(&self) -> Kind {
        Kind(self.kind.0 | REFUSALS)
    }

    /// Returns the kind whose keys hold until when somebody is banned.
    pub fn bans(&self) -> Kind {
        Kind(self.kind.0 | BANS)
    }

    /// Returns the length of the limit's window; of a month the longest. For a bucket the time in which an empty one is full
    /// again.
    pub fn window(&self) -> Span {
        match &self.pace {
            LimitAlgorithm::Sliding { window, .. } | LimitAlgorithm::Fixed { window } => *window,
            LimitAlgorithm::Calendar { period: Period::Hour, .. } => Span::hours(1),
            LimitAlgorithm::Calendar { period: Period::Day, .. } => Span::days(1),
            LimitAlgorithm::Calendar { period: Period::Month, .. } => Span::days(31),
            LimitAlgorithm::Calendar { period: Period::Minute, .. } => Span::minutes(1),
            LimitAlgorithm::Bucket { per, .. } => *per,
        }
    }

    /// Most that can be taken at once.
    pub fn quota(&self) -> u64 {
        match self.pace {
            LimitAlgorithm::Bucket { burst, .. } => burst,
            _ => self.count,
        }
    }

    /// Returns the name of the limit's algorithm in configurations.
    pub fn mode(&self) -> &'static str {
        match self.pace {
            LimitAlgorithm::Sliding { interpolated: false, .. } => "sliding",
            LimitAlgorithm::Sliding { interpolated: true, .. } => "interpolated",
            LimitAlgorithm::Calendar { .. } => "calendar",
            LimitAlgorithm::Fixed { .. } => "fixed",
            LimitAlgorithm::Bucket { .. } => "gcra",
        }
    }

    /// Returns true if nothing is counted.
    pub fn is_idle(&self) -> bool {
        self.enforcement == Enforcement::Off || self.count == u64::MAX
    }
}

/// Returns the number that was allotted for a kind, and the bits that a kind which belongs to a limit has beside it; `None` for
/// a kind whose number is the same everywhere.
pub fn allotted_number(space: Space, kind: Kind) -> Option<(Kind, u16)> {
    let own = if space == LIMITS { NumberedSection::Limit } else { NumberedSection::Kind }.number_max();
    match space {
        LIMITS if kind >= BUCKETS => None,
        LIMITS => Some((Kind(kind.0 & own), kind.0 & !own)),
        _ => (1..=own).contains(&kind.0).then_some((kind, 0)),
    }
}

/// Longest window of a limit.
pub(crate) const WINDOW_MAX: Span = Span::days(366);
const _: () = assert!(WINDOW_MAX.0 < CellShape::SPAN_MAX.0);

/// A key for which a limit is another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitException {
    /// The limit.
    pub limit: String,
    /// The key's values in the order of the limit's fields.
    pub key: Vec<String>,
    /// Most that is allowed, instead of the limit's count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// True if the key is not limited at all.
    #[serde(default)]
    pub exempt: bool,
    /// The end of the exception; none for a lasting one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// Nanoseconds between two cells at so many within a time, rounded up: a limit is not exceeded.
pub fn interval(count: u64, per: Span) -> i64 {
    let per = i128::from(per.0) * 1000;
    let interval =
        per.div_euclid(i128::from(count.max(1))) + i128::from(per.rem_euclid(i128::from(count.max(1))) > 0);
    i64::try_from(interval).unwrap_or(i64::MAX)
}

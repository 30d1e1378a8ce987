//! Actions that callers are asked to take, and the score bands that decide on them.

use std::fmt;
use std::str::FromStr;

use event::{Facts, Slot, Value};
use serde::{Deserialize, Serialize};

use crate::calibration::Calibration;
use crate::diagnostic::did_you_mean;
use crate::score::rounded;

/// Declares an enum whose variants are known by one word in lower case, in text and in serde alike.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All of them, in the order in which they are documented.
            pub const ALL: [$name; [$($name::$variant),*].len()] = [$($name::$variant),*];

            /// The word by which configurations, answers and journals call it.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $name {
            type Err = UnknownKeyword;

            fn from_str(text: &str) -> Result<$name, UnknownKeyword> {
                let known = $name::ALL.into_iter().find(|word| word.name() == text);
                known.ok_or_else(|| UnknownKeyword::new(text, &$name::ALL.map($name::name)))
            }
        }
    };
}

words! {
    /// An action that the caller is asked to take with an event. How it is carried out is the caller's, or an adapter's.
    pub enum Action {
        /// Let it through.
        Accept = "accept",
        /// Let it through, marked as suspicious.
        Tag = "tag",
        /// Keep it where only its addressee or a moderator looks.
        Quarantine = "quarantine",
        /// Refuse it and say so.
        Reject = "reject",
        /// Refuse it for now; it may be tried again later.
        Throttle = "throttle",
        /// Answer as if all were well and do nothing.
        Shadow = "shadow",
        /// Let it through once its sender has solved something, such as a proof of work.
        Challenge = "challenge",
        /// Hold it until a person has decided.
        ReviewBefore = "review_before",
        /// Let it through, and have a person look at it then.
        ReviewAfter = "review_after",
    }
}

words! {
    /// The mode of a rule: how seriously it is taken.
    pub enum Mode {
        /// Its score counts.
        Enforce = "enforce",
        /// Judged and reported beside the verdict, on which it has no influence.
        Shadow = "shadow",
        /// Checked when loaded, and never judged.
        Off = "off",
    }
}

/// A word that names none of a fixed set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKeyword(String);

impl UnknownKeyword {
    fn new(text: &str, known: &[&str]) -> UnknownKeyword {
        let help =
            did_you_mean(text, known).unwrap_or_else(|| format!("expected one of {}", known.join(", ")));
        let shown: String = text.chars().take(40).collect();
        UnknownKeyword(format!("unknown word `{}`: {help}", shown.escape_debug()))
    }
}

impl fmt::Display for UnknownKeyword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnknownKeyword {}

impl Default for Mode {
    /// A rule that says nothing of it is enforced.
    fn default() -> Mode {
        Mode::Enforce
    }
}

/// From a score of `at` on, `action` is asked for, until the next band begins.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// The lowest score of the band.
    pub at: f64,
    /// The action that its scores ask for.
    pub action: Action,
}

/// A promise of a band: the share of good events that may reach it. The score at which it then begins is in a column of the
/// row, and where that has none, the band begins at [`Band::at`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BandPromise {
    /// The action of the band.
    pub action: Action,
    /// The promised share of good events, above 0 and below 1.
    pub false_positives: f64,
    /// The column of the score from which the promise holds.
    pub line: Slot,
    /// True if that score alone decides, whatever the `default_share` of groups asks for.
    pub line_alone: bool,
}

/// The bands of a pipeline, from the lowest to the highest. Below the lowest, events are accepted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bands {
    bands: Vec<Band>,
    promises: Vec<BandPromise>,
    calibration: Option<CalibrationColumns>,
}

/// The columns of a row that have the curve from its score to a probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalibrationColumns {
    /// The column of [`Calibration::slope`].
    pub slope: Slot,
    /// The column of [`Calibration::offset`].
    pub offset: Slot,
}

/// The bands as they begin for one event, ascending.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BandsInForce {
    bands: [Band; Bands::COUNT_MAX],
    count: usize,
    calibration: Calibration,
}

/// Reasons to refuse bands.
#[derive(Clone, Debug, PartialEq)]
pub enum BandsError {
    /// The band begins at infinity, or at no number.
    NotFinite(Band),
    /// The band does not begin above the one before it.
    NotAscending(Band),
    /// Another band asks for the same.
    Duplicate(Band),
    /// The list has more than [`Bands::COUNT_MAX`] bands.
    TooMany,
}

impl fmt::Display for BandsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BandsError::NotFinite(Band { at, action }) => {
                write!(f, "the band of `{action}` begins at {at}, which is no finite number")
            }
            BandsError::NotAscending(Band { at, action }) => {
                write!(f, "the band of `{action}` begins at {at}, which is not above the band before it")
            }
            BandsError::Duplicate(Band { at, action }) => {
                write!(f, "the band at {at} asks for `{action}`, which another band does already")
            }
            BandsError::TooMany => write!(f, "there are at most {} bands", Bands::COUNT_MAX),
        }
    }
}

impl std::error::Error for BandsError {}

/// The next band above a score.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NextBand {
    /// The action that it asks for.
    pub action: Action,
    /// The distance to it, above 0.
    pub distance: f64,
}

impl Bands {
    /// Most bands: each asks for something else.
    pub const COUNT_MAX: usize = Action::ALL.len();

    /// Checks that the bands ascend, are finite and each ask for something else.
    pub fn new(bands: Vec<Band>) -> Result<Bands, BandsError> {
        if bands.len() > Bands::COUNT_MAX {
            return Err(BandsError::TooMany);
        }
        let mut before: Vec<Band> = Vec::with_capacity(bands.len());
        for band in bands {
            if !band.at.is_finite() {
                return Err(BandsError::NotFinite(band));
            }
            if before.last().is_some_and(|last| last.at >= band.at) {
                return Err(BandsError::NotAscending(band));
            }
            if before.iter().any(|other| other.action == band.action) {
                return Err(BandsError::Duplicate(band));
            }
            before.push(band);
        }
        Ok(Bands { bands: before, ..Bands::default() })
    }

    /// Returns the bands with promises, of actions that they ask for.
    pub fn with_promises(self, promises: Vec<BandPromise>) -> Bands {
        Bands { promises, ..self }
    }

    /// Returns the bands with the columns of a curve through judged scores.
    pub fn with_calibration(self, columns: CalibrationColumns) -> Bands {
        Bands { calibration: Some(columns), ..self }
    }

    /// The columns of the curve from scores to probabilities.
    pub fn calibration(&self) -> Option<CalibrationColumns> {
        self.calibration
    }

    /// Returns the curve that holds as long as too few events are judged: even odds where the lowest band begins.
    pub fn assumed_calibration(&self) -> Calibration {
        Calibration::assumed(self.bands.first().map_or(0.0, |band| band.at))
    }

    /// The bands, ascending, as they begin where no promise holds.
    pub fn as_slice(&self) -> &[Band] {
        &self.bands
    }

    /// The promises of the bands that have one.
    pub fn promises(&self) -> &[BandPromise] {
        &self.promises
    }

    /// Returns the bands and the probabilities as they are for an event. A band that asks for more never begins below one that asks for less.
    pub fn in_force(&self, row: &Facts) -> BandsInForce {
        self.in_force_above(row, None)
    }

    /// Returns the bands as they are for an event of whose score so much does not count towards `at`: a band that promises,
    /// and whose line does not decide alone, begins no lower than so far above its `at`, or below it where that is negative. `None` if all of the score counts.
    pub(crate) fn in_force_above(&self, row: &Facts, discount: Option<f64>) -> BandsInForce {
        let mut in_force = BandsInForce::default();
        let mut lowest = f64::NEG_INFINITY;
        for (place, band) in in_force.bands.iter_mut().zip(&self.bands) {
            let promise = self.promises.iter().find(|promise| promise.action == band.action);
            let line = promise.and_then(|promise| match row.get(promise.line) {
                Some(Value::Float(line)) => Some(*line),
                _ => None,
            });
            let asks_more = promise.is_some_and(|promise| !promise.line_alone);
            let least = discount.filter(|_| asks_more).map(|discount| band.at + discount);
            lowest = line.unwrap_or(band.at).max(lowest).max(least.unwrap_or(f64::NEG_INFINITY));
            *place = Band { at: lowest, action: band.action };
        }
        in_force.count = self.bands.len().min(Bands::COUNT_MAX);
        let float = |slot| match row.get(slot) {
            Some(Value::Float(value)) => Some(*value),
            _ => None,
        };
        let judged = self.calibration.and_then(|CalibrationColumns { slope, offset }| {
            Some(Calibration { slope: float(slope)?, offset: float(offset)? })
        });
        in_force.calibration = judged.unwrap_or_else(|| self.assumed_calibration());
        in_force
    }
}

impl Default for BandsInForce {
    fn default() -> BandsInForce {
        BandsInForce {
            bands: [Band { at: 0.0, action: Action::Accept }; Bands::COUNT_MAX],
            count: 0,
            calibration: Calibration::assumed(0.0),
        }
    }
}

impl BandsInForce {
    /// The bands, ascending.
    pub fn as_slice(&self) -> &[Band] {
        &self.bands[..self.count]
    }

    /// Returns the probability that an event of this score is bad.
    pub fn probability(&self, score: f64) -> f64 {
        self.calibration.probability(score)
    }

    /// Returns the action that a score asks for where some actions are lifted: then a lower band's.
    pub fn action(&self, score: f64, lifted: impl Fn(Action) -> bool) -> Action {
        let mut bands = self.as_slice().iter().rev().filter(|band| !lifted(band.action));
        bands.find(|band| band.at <= score).map_or(Action::Accept, |band| band.action)
    }

    /// Returns the next band above a score, of the actions that are not lifted.
    pub fn next(&self, score: f64, lifted: impl Fn(Action) -> bool) -> Option<NextBand> {
        let band = self.as_slice().iter().find(|band| band.at > score && !lifted(band.action))?;
        Some(NextBand { action: band.action, distance: rounded((band.at - score).min(f64::MAX)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn band(at: f64, action: Action) -> Band {
        Band { at, action }
    }

    #[test]
    fn words_read_back() {
        for action in Action::ALL {
            assert_eq!(action.to_string().parse(), Ok(action));
            assert_eq!(serde_json::to_string(&action).unwrap(), format!("\"{action}\""));
        }
        for mode in Mode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        let error = "rejct".parse::<Action>().unwrap_err();
        assert_eq!(error.to_string(), "unknown word `rejct`: did you mean `reject`?");
        let error = "".parse::<Mode>().unwrap_err();
        assert_eq!(error.to_string(), "unknown word ``: expected one of enforce, shadow, off");
    }

    #[test]
    fn bands_ascend_and_differ() {
        let check = |bands: &[(f64, Action)], expected: &str| {
            let error =
                Bands::new(bands.iter().map(|(at, action)| band(*at, *action)).collect()).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(&[(f64::NAN, Action::Tag)], "the band of `tag` begins at NaN, which is no finite number");
        check(
            &[(5.0, Action::Tag), (5.0, Action::Reject)],
            "the band of `reject` begins at 5, which is not above the band before it",
        );
        check(
            &[(5.0, Action::Tag), (9.0, Action::Tag)],
            "the band at 9 asks for `tag`, which another band does already",
        );
        check(&[(0.0, Action::Tag); 10], "there are at most 9 bands");
    }

    #[test]
    fn a_band_begins_at_its_score() {
        let bands = Bands::new(vec![band(4.0, Action::Tag), band(8.0, Action::Reject)]).unwrap();
        let in_force = bands.in_force(&Facts::default());
        assert_eq!(in_force.as_slice(), bands.as_slice());
        let check = |score: f64, action: Action, next: Option<(Action, f64)>| {
            assert_eq!(in_force.action(score, |_| false), action, "{score}");
            let found = in_force.next(score, |_| false);
            assert_eq!(found.map(|next| (next.action, next.distance)), next, "{score}");
        };
        check(-1.0, Action::Accept, Some((Action::Tag, 5.0)));
        check(4.0, Action::Tag, Some((Action::Reject, 4.0)));
        check(8.0, Action::Reject, None);
        check(f64::MIN, Action::Accept, Some((Action::Tag, f64::MAX)));
        assert_eq!(BandsInForce::default().action(f64::MAX, |_| false), Action::Accept);
    }

    #[test]
    fn a_promise_moves_its_band() {
        let mut builder = event::SchemaBuilder::default();
        let mut column = |name: &str| {
            let column = event::Column {
                name: name.to_owned(),
                kind: event::Type::Float,
                doc: String::new(),
                journalled: true,
            };
            builder.add(column).unwrap()
        };
        let (tag, reject) = (column("line.tag"), column("line.reject"));
        let promise = |action, line| BandPromise { action, false_positives: 0.01, line, line_alone: false };
        let bands = Bands::new(vec![band(4.0, Action::Tag), band(8.0, Action::Reject)]).unwrap();
        let bands = bands.with_promises(vec![promise(Action::Tag, tag), promise(Action::Reject, reject)]);
        let schema = builder.finish();
        let begin = |lines: &[(Slot, f64)]| {
            let mut row = schema.empty_row();
            lines.iter().for_each(|(slot, line)| row.set(*slot, *line));
            let in_force = bands.in_force(&row);
            [in_force.as_slice()[0].at, in_force.as_slice()[1].at]
        };
        assert_eq!(begin(&[]), [4.0, 8.0], "the defaults");
        assert_eq!(begin(&[(tag, -3.5)]), [-3.5, 8.0]);
        assert_eq!(begin(&[(tag, 1.0), (reject, 5.25)]), [1.0, 5.25]);
        assert_eq!(begin(&[(tag, 9.5)]), [9.5, 9.5], "who is refused would have been tagged");
    }

    #[test]
    fn a_probability_goes_by_the_curve_of_the_row() {
        let mut builder = event::SchemaBuilder::default();
        let mut column = |name: &str| {
            let (name, doc) = (name.to_owned(), String::new());
            builder.add(event::Column { name, kind: event::Type::Float, doc, journalled: true }).unwrap()
        };
        let columns = CalibrationColumns { slope: column("slope"), offset: column("offset") };
        let bands = Bands::new(vec![band(4.0, Action::Tag)]).unwrap().with_calibration(columns);
        let mut row = builder.finish().empty_row();
        assert_eq!(bands.in_force(&row).probability(4.0), 0.5, "even where the lowest band begins");
        row.set(columns.slope, 0.5);
        assert_eq!(bands.in_force(&row).probability(4.0), 0.5, "half a curve is none");
        row.set(columns.offset, -1.0);
        let in_force = bands.in_force(&row);
        assert_eq!((in_force.probability(2.0), in_force.probability(0.0)), (0.5, 0.268_941));
        assert_eq!(Bands::default().in_force(&row).probability(0.0), 0.5, "without bands");
    }
}

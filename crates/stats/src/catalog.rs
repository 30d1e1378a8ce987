//! Which statistic is kept under which space and kind.

use std::sync::Arc;

use event::{Kind, Space, Span};

use crate::cell::HyperLogLogPlan;
use crate::definition::fnv;
use crate::layout::{AggregateColumn, AggregateLayout, CellShape, Layout, LayoutError, Tier, WindowBuckets};
use crate::ledger::{Addition, LedgerError, Observation};
use crate::sketch::SketchOptions;

/// A configured statistic for one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistic {
    /// Its name, such as `mass`.
    pub name: String,
    /// The name of the kind of piece it is kept for, such as `from`. A kind number that comes back under another
    /// name is refused, or else stored counts would change their meaning.
    pub kind_name: String,
    /// The statistic that is kept.
    pub measure: Measure,
    /// The sightings after which a key gets a cell: whether it must be seen several times before it gets a cell.
    pub admit: Option<Admission>,
    /// Of a limit: whether nodes that share it decide together, each take where the counts are. Where one ledger has all
    /// counts it is always so.
    pub exact: bool,
}

impl Statistic {
    /// Checks that an observation fits it.
    ///
    /// # Errors
    /// [`LedgerError::Unfit`] says what does not.
    #[inline]
    pub fn check(&self, Observation { key, add, .. }: &Observation) -> Result<(), LedgerError> {
        match (add, &self.measure) {
            // Marks of a run are set before its observations, so a reading could come from after its request.
            (_, Measure::Once { .. }) => self.unfit("marks of requests are not observed"),
            (Addition::Nothing, _) | (Addition::Value(_), Measure::Aggregate(_)) => Ok(()),
            (Addition::Lower(_), Measure::Aggregate(track)) => {
                match track.columns().contains(&AggregateColumn::Max) {
                    true => Ok(()),
                    false => self.unfit("it keeps no greatest value"),
                }
            }
            (Addition::Evidence(_), Measure::Evidence { .. }) | (Addition::Flow(_), Measure::Gcra) => Ok(()),
            (Addition::Take(take), Measure::Windows(layout)) if layout.is_limit() => {
                if take.interpolated && layout.windows().len() < 2 {
                    return self.unfit("one sub-window has no share");
                }
                Ok(())
            }
            (Addition::GiveBack { .. }, Measure::Windows(layout)) if layout.is_limit() => Ok(()),
            (Addition::Counters(amounts), Measure::Windows(layout)) => {
                // Those that hold what was taken back are in no reading, and can be added to.
                let counters = layout.counters().len();
                if amounts.iter().any(|(counter, _)| usize::from(counter) >= counters) {
                    return self.unfit("there are fewer counters");
                }
                Ok(())
            }
            (Addition::Distinct { pair }, Measure::Distinct { .. } | Measure::Approx { .. }) => {
                if pair.route() != key.shingle.route() {
                    return self.unfit("the pair is not routed like its owner: make it with `Secret::pair`");
                }
                Ok(())
            }
            _ => self.unfit("it takes another kind of addition"),
        }
    }

    /// Checks that its cells are marks of requests.
    ///
    /// # Errors
    /// [`LedgerError::Unfit`] if not.
    pub fn check_mark(&self) -> Result<(), LedgerError> {
        match self.measure {
            Measure::Once { .. } => Ok(()),
            _ => self.unfit("it holds no marks of requests"),
        }
    }

    fn unfit<T>(&self, why: &str) -> Result<T, LedgerError> {
        Err(LedgerError::Unfit { statistic: self.name.clone(), why: why.to_owned() })
    }
}

/// A sketch in front of a statistic: a key gets a cell once it was seen so often. Until then its readings are
/// estimates; a track's count goes on from the estimate, other counts begin with the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Which sketch it is: see [`Admit::sketch_of`]. Kinds that name the same one share it.
    pub sketch: u32,
    /// The sighting that makes a cell, 2 to 16: the counters reach 15.
    pub after: u8,
    /// The longest time for which a sighting counts; half as long it always does.
    pub rotate: Span,
    /// Memory of the sketch, see [`crate::Sketch::bytes_for`].
    pub bytes: usize,
}

impl Admission {
    /// The least and the greatest [`Admit::after`].
    pub const AFTER: std::ops::RangeInclusive<u8> = 2..=16;

    /// The number of the sketch of a statistic of this name, under which its images are stored.
    pub fn sketch_of(statistic: &str) -> u32 {
        fnv(statistic.as_bytes())
    }

    pub(crate) fn options(&self) -> SketchOptions {
        SketchOptions { shards: store::Store::PARTS, bytes: self.bytes, rotate: self.rotate }
    }
}

/// The measure of a statistic: what it keeps per key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Counters over windows.
    Windows(Layout),
    /// The number of different values that an owner had per period, exactly: each (owner, value) pair is marked in a cell of
    /// its own, and the owner's count goes up when the pair's mark for the period was not there yet.
    Distinct {
        /// The period, and how many whole ones are kept beside the current one.
        tier: Tier,
        /// The periods that readings sum: one, two, ... periods back from the query's own, which is the first. A value that
        /// came in several of the periods counts once in each. None means the current period alone.
        windows: Vec<Span>,
    },
    /// First and last event, their number, and sums over their values, in a few fixed words.
    Aggregate(AggregateLayout),
    /// The number of different values that an owner had per period, about: one HyperLogLog a period.
    Approx {
        /// The period, and how many whole ones are kept beside the current one.
        tier: Tier,
        /// The periods that readings estimate, as for [`Measure::Distinct`], but a value that came in several periods of a window
        /// counts once.
        windows: Vec<Span>,
        /// The standard error is `1.04 / sqrt(2^precision)`: 1.6% for the usual 12, for at most 3.3 KiB a period.
        precision: u8,
    },
    /// Evidence that a classifier has learned of each key: messages of either class that had it, and a weight. A reading's
    /// columns are these three, see [`crate::Evidence::of`].
    Evidence {
        /// The time for which a key is kept after it was last learned.
        keep: Span,
    },
    /// The bucket of the generic cell rate algorithm: the moment at which the key will have used nothing. Its readings
    /// have one value, the moment in nanoseconds since 1970; a key never seen has none. Two cells that are merged give
    /// the later moment.
    Gcra,
    /// Marks of requests that were counted, so that none is counted twice.
    Once {
        /// A mark is heeded by requests whose time lies in the same bucket of this width or in a neighbouring one,
        /// whichever came first.
        window: Span,
    },
}

impl Measure {
    /// Least precision of an approximate count.
    pub const PRECISION_MIN: u8 = 10;
    /// Greatest precision of an approximate count.
    pub const PRECISION_MAX: u8 = 14;

    /// The names of the counters that its readings have: without those of what was taken back.
    pub fn shown(&self) -> Vec<String> {
        match self {
            Measure::Windows(layout) => layout.shown().to_vec(),
            other => other.counters(),
        }
    }

    /// Returns whether something is decided by what is there, so that new keys have places where others find none: limits, buckets,
    /// and tracks of nothing but a greatest value, such as until when a label is on a key.
    pub(crate) fn decides(&self) -> bool {
        match self {
            Measure::Windows(layout) => layout.is_limit(),
            Measure::Gcra => true,
            Measure::Aggregate(track) => track.columns() == [AggregateColumn::Max],
            _ => false,
        }
    }

    /// For each counter of what was taken back the one of which it was.
    pub(crate) fn taken(&self) -> Vec<u8> {
        match self {
            Measure::Windows(layout) => layout.taken(),
            _ => Vec::new(),
        }
    }

    /// The names of the counters of its cells. A track has none, it has [`Track::columns`].
    pub fn counters(&self) -> Vec<String> {
        match self {
            Measure::Windows(layout) => layout.counters().to_vec(),
            Measure::Aggregate(_) => Vec::new(),
            Measure::Evidence { .. } => ["bad", "good", "weight"].map(str::to_owned).to_vec(),
            Measure::Distinct { .. } | Measure::Approx { .. } => vec!["distinct".to_owned()],
            Measure::Gcra => vec!["moment".to_owned()],
            Measure::Once { .. } => vec!["once".to_owned()],
        }
    }

    /// Returns the windows that its readings are over, in their order. None for a distinct count means the current period alone.
    pub fn windows(&self) -> &[Span] {
        match self {
            Measure::Windows(layout) => layout.windows(),
            Measure::Distinct { windows, .. } | Measure::Approx { windows, .. } => windows,
            Measure::Aggregate(_) | Measure::Evidence { .. } | Measure::Gcra | Measure::Once { .. } => &[],
        }
    }

    /// Returns whether cells of the other hold the same: they may differ in the windows that are asked for.
    pub fn keeps_what(&self, other: &Measure) -> bool {
        match (self, other) {
            (Measure::Windows(own), Measure::Windows(other)) => {
                own.counters() == other.counters() && own.shape() == other.shape()
            }
            (Measure::Distinct { tier: own, .. }, Measure::Distinct { tier: other, .. }) => own == other,
            (
                Measure::Approx { tier: own, precision: own_precision, .. },
                Measure::Approx { tier: other, precision: other_precision, .. },
            ) => own == other && own_precision == other_precision,
            (own, other) => own == other,
        }
    }

    /// Checks that it can be kept, and its windows answered.
    ///
    /// # Errors
    /// Says what does not fit and what would.
    pub fn check(&self) -> Result<(), LayoutError> {
        self.shape()?;
        self.trails().map(|_| ())
    }

    /// Returns how the time of its cells is divided; pairs have the cells of their owner. A track's time is not: its shape
    /// says only how long a cell is kept.
    pub(crate) fn shape(&self) -> Result<CellShape, LayoutError> {
        match self {
            Measure::Windows(layout) => Ok(layout.shape().clone()),
            Measure::Aggregate(track) => CellShape::new(1, &[Tier { width: track.keep(), buckets: 1 }], None),
            Measure::Distinct { tier, .. } => CellShape::new(1, &[*tier], None),
            Measure::Approx { tier, precision, .. } => {
                if !(Measure::PRECISION_MIN..=Measure::PRECISION_MAX).contains(precision) {
                    return Err(LayoutError::Precision(*precision));
                }
                let shape = CellShape::new(1, &[*tier], None)?;
                let words = HyperLogLogPlan::words_max(*tier, *precision);
                if words > CellShape::WORDS_MAX as u64 {
                    return Err(LayoutError::Tiers(format!(
                        "{tier}: with a precision of {precision} a cell could have {words} words, of at most {}",
                        CellShape::WORDS_MAX
                    )));
                }
                Ok(shape)
            }
            // Its time is not divided, and it is kept until its moment.
            Measure::Gcra => CellShape::new(1, &[Tier { width: Span(1), buckets: 1 }], None),
            Measure::Evidence { keep: width } | Measure::Once { window: width } => {
                CellShape::new(1, &[Tier { width: *width, buckets: 1 }], None)
            }
        }
    }

    /// Returns the windows that a reading is over.
    pub(crate) fn trails(&self) -> Result<Vec<WindowBuckets>, LayoutError> {
        match self {
            Measure::Windows(layout) => Ok(layout.trails().to_vec()),
            Measure::Distinct { tier, windows } | Measure::Approx { tier, windows, .. } => {
                let current = [tier.width];
                let windows = if windows.is_empty() { &current[..] } else { windows };
                windows.iter().map(|window| self.trail(*window)).collect()
            }
            Measure::Aggregate(_) | Measure::Evidence { .. } | Measure::Gcra | Measure::Once { .. } => {
                Ok(Vec::new())
            }
        }
    }

    /// The buckets that answer a window.
    pub(crate) fn trail(&self, window: Span) -> Result<WindowBuckets, LayoutError> {
        match self {
            Measure::Distinct { tier, .. } | Measure::Approx { tier, .. } => {
                let longest = tier.width.times(i64::from(tier.buckets) + 1);
                if window <= Span::ZERO || window.0 % tier.width.0 != 0 || window > longest {
                    let possible = format!("multiples of {} up to {longest}", tier.width);
                    return Err(LayoutError::Window { window, possible });
                }
                Ok(WindowBuckets::periods(tier.width, window))
            }
            Measure::Windows(_) | Measure::Once { .. } => self.shape()?.trail(window),
            Measure::Aggregate(_) | Measure::Evidence { .. } | Measure::Gcra => {
                Err(LayoutError::Window { window, possible: "none".to_owned() })
            }
        }
    }
}

/// Why a catalog cannot be, or cannot be used with what is stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// Two statistics for one kind.
    #[error("kind {} of space {} is `{first}` already and cannot be `{second}` too", kind.0, space.0)]
    Twice {
        /// Whose.
        space: Space,
        /// Of which kind.
        kind: Kind,
        /// The statistic that was added first.
        first: String,
        /// The one refused.
        second: String,
    },
    /// A kind number that is kept for the ledger's own use.
    #[error("kind {} is out of range: kinds are numbered below {}", .0.0, Catalog::KINDS)]
    Reserved(Kind),
    /// A name that is empty or too long.
    #[error("the name `{0}` must have 1 to {max} bytes", max = Layout::NAME_BYTES_MAX)]
    Name(String),
    /// The statistic's layout does not fit.
    #[error("statistic `{name}`: {error}")]
    Layout {
        /// Its name.
        name: String,
        /// Why.
        error: LayoutError,
    },
    /// Something is to be exact that is no limit without a sketch.
    #[error(
        "`{0}` cannot be exact: only what is taken from limits is decided, and without a sketch before it"
    )]
    Exact(String),
    /// The store holds something else under this kind.
    #[error(
        "kind {} of space {} is stored as {stored} and now configured as {configured}: \
         give the new one a number of its own",
        kind.0, space.0
    )]
    Meaning {
        /// Whose.
        space: Space,
        /// Of which kind.
        kind: Kind,
        /// The meaning that the store says.
        stored: String,
        /// The meaning that was configured.
        configured: String,
    },
    /// The store's records of its layouts cannot be read.
    #[error("a stored layout cannot be read: {0}")]
    Stored(String),
}

/// The statistics of every space and kind. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog(Arc<Vec<CatalogEntry>>);

type CatalogEntry = ((Space, Kind), Arc<Statistic>);

impl Catalog {
    /// Kinds are numbered below this; the numbers above are for pairs and for the ledger's own records.
    pub const KINDS: u16 = 0x7ffd;

    /// An empty builder.
    pub fn builder() -> CatalogBuilder {
        CatalogBuilder::default()
    }

    /// The statistic of a kind.
    pub fn get(&self, space: Space, kind: Kind) -> Option<&Arc<Statistic>> {
        let at = self.0.binary_search_by_key(&(space, kind), |(id, _)| *id).ok()?;
        self.0.get(at).map(|(_, statistic)| statistic)
    }

    /// All of them, in the order of space and kind.
    pub fn iter(&self) -> impl Iterator<Item = (Space, Kind, &Arc<Statistic>)> {
        self.0.iter().map(|((space, kind), statistic)| (*space, *kind, statistic))
    }
}

/// Collects a [`Catalog`].
#[derive(Debug, Default)]
pub struct CatalogBuilder(std::collections::BTreeMap<(Space, Kind), Arc<Statistic>>);

impl CatalogBuilder {
    /// Adds a statistic. Adding an equal one again changes nothing.
    ///
    /// # Errors
    /// If the kind has another statistic, the number is reserved, or names or layout do not fit.
    pub fn add(
        &mut self,
        space: Space,
        kind: Kind,
        statistic: Statistic,
    ) -> Result<&mut CatalogBuilder, CatalogError> {
        if kind.0 >= Catalog::KINDS {
            return Err(CatalogError::Reserved(kind));
        }
        for name in [&statistic.name, &statistic.kind_name] {
            if name.is_empty() || name.len() > Layout::NAME_BYTES_MAX {
                return Err(CatalogError::Name(name.clone()));
            }
        }
        if let Err(error) = statistic.measure.check() {
            return Err(CatalogError::Layout { name: statistic.name, error });
        }
        if statistic.exact && (!statistic.measure.is_limit() || statistic.admit.is_some()) {
            return Err(CatalogError::Exact(statistic.name));
        }
        match self.0.get(&(space, kind)) {
            Some(first) if **first == statistic => {}
            Some(first) => {
                let (first, second) = (first.name.clone(), statistic.name);
                return Err(CatalogError::Twice { space, kind, first, second });
            }
            None => {
                self.0.insert((space, kind), Arc::new(statistic));
            }
        }
        Ok(self)
    }

    /// Adds a statistic of another catalog unless the kind has one.
    pub fn keep(&mut self, space: Space, kind: Kind, statistic: &Arc<Statistic>) -> &mut CatalogBuilder {
        self.0.entry((space, kind)).or_insert_with(|| Arc::clone(statistic));
        self
    }

    /// The catalog.
    pub fn build(self) -> Catalog {
        Catalog(Arc::new(self.0.into_iter().collect()))
    }
}

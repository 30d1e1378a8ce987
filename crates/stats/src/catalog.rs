//! Which statistic is kept under which space and kind.

use std::sync::Arc;

use event::{Kind, Space, Span};

use crate::layout::{Layout, LayoutError, Shape, Tier, Trail};

/// A configured statistic for one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistic {
    /// Its name, such as `mass`.
    pub name: String,
    /// The name of the kind of piece it is kept for, such as `from`. A kind number that comes back under another
    /// name is refused, or else stored counts would change their meaning.
    pub kind_name: String,
    /// What is kept.
    pub measure: Measure,
}

/// What a statistic keeps per key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Counters over windows.
    Windows(Layout),
    /// How many different values an owner had per period, exactly: each (owner, value) pair is marked in a cell of
    /// its own, and the owner's count goes up when the pair's mark for the period was not there yet.
    Distinct {
        /// The period, and how many whole ones are kept beside the current one.
        tier: Tier,
        /// What readings sum: one, two, ... periods back from the query's own, which is the first. A value that
        /// came in several of the periods counts once in each. None means the current period alone.
        windows: Vec<Span>,
    },
    /// Marks of requests that were counted, so that none is counted twice.
    Once {
        /// A mark is heeded by requests whose time lies in the same bucket of this width or in a neighbouring one,
        /// whichever came first.
        window: Span,
    },
}

impl Measure {
    /// The names of the counters of its cells.
    pub fn counters(&self) -> Vec<String> {
        match self {
            Measure::Windows(layout) => layout.counters().to_vec(),
            Measure::Distinct { .. } => vec!["distinct".to_owned()],
            Measure::Once { .. } => vec!["once".to_owned()],
        }
    }

    /// Whether it can be kept, and its windows answered.
    ///
    /// # Errors
    /// Says what does not fit and what would.
    pub fn check(&self) -> Result<(), LayoutError> {
        self.shape()?;
        self.trails().map(|_| ())
    }

    /// The dimensions of its cells; pairs have those of their owner.
    pub(crate) fn shape(&self) -> Result<Shape, LayoutError> {
        match self {
            Measure::Windows(layout) => Ok(layout.shape().clone()),
            Measure::Distinct { tier, .. } => Shape::new(1, &[*tier], None),
            Measure::Once { window } => Shape::new(1, &[Tier { width: *window, buckets: 1 }], None),
        }
    }

    /// The sums of a reading.
    pub(crate) fn trails(&self) -> Result<Vec<Trail>, LayoutError> {
        match self {
            Measure::Windows(layout) => Ok(layout.trails().to_vec()),
            Measure::Distinct { tier, windows } if windows.is_empty() => {
                Ok(vec![Trail::periods(tier.width, tier.width)])
            }
            Measure::Distinct { tier, windows } => {
                let longest = tier.width.times(i64::from(tier.buckets) + 1);
                let whole = |window: &Span| {
                    *window > Span::ZERO && window.0 % tier.width.0 == 0 && *window <= longest
                };
                if let Some(window) = windows.iter().find(|window| !whole(window)) {
                    let possible = format!("multiples of {} up to {longest}", tier.width);
                    return Err(LayoutError::Window { window: *window, possible });
                }
                Ok(windows.iter().map(|window| Trail::periods(tier.width, *window)).collect())
            }
            Measure::Once { .. } => Ok(Vec::new()),
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
        /// What the store says.
        stored: String,
        /// What was configured.
        configured: String,
    },
    /// The store's records of its layouts cannot be read.
    #[error("a stored layout cannot be read: {0}")]
    Stored(String),
}

/// The statistics of every space and kind. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog(Arc<Vec<Entry>>);

type Entry = ((Space, Kind), Arc<Statistic>);

impl Catalog {
    /// Kinds are numbered below this; the numbers above are for pairs and for the ledger's own records.
    pub const KINDS: u16 = 0x7fff;

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

    /// The catalog.
    pub fn build(self) -> Catalog {
        Catalog(Arc::new(self.0.into_iter().collect()))
    }
}

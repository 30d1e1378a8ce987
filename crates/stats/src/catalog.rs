//! The statistics kept under each space and kind.

use std::sync::Arc;

use event::{Kind, Space, Span};

use crate::bytes::fnv;
use crate::kind::Measure;
use crate::kind::windows::Layout;
use crate::layout::LayoutError;
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
    /// True for a limit that nodes share exactly: each take is decided where the counts are. Where one ledger has all
    /// counts it is always so.
    pub exact: bool,
}

/// A sketch in front of a statistic: a key gets a cell once it was seen so often. Until then its readings are
/// estimates; an aggregate's count goes on from the estimate, other counts begin with the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The number of the sketch: see [`Admission::sketch_of`]. Kinds that name one number share it.
    pub sketch: u32,
    /// The sighting that makes a cell, 2 to 16: the counters reach 15.
    pub after: u8,
    /// The longest time for which a sighting counts; half as long it always does.
    pub rotate: Span,
    /// Memory of the sketch, see [`crate::Sketch::bytes_for`].
    pub bytes: usize,
}

impl Admission {
    /// The least and the greatest [`Admission::after`].
    pub const AFTER: std::ops::RangeInclusive<u8> = 2..=16;

    /// The number of the sketch of a statistic of this name, under which its images are stored.
    pub fn sketch_of(statistic: &str) -> u32 {
        fnv(statistic.as_bytes())
    }

    pub(crate) fn options(&self) -> SketchOptions {
        SketchOptions { shards: store::Store::PARTS, bytes: self.bytes, rotate: self.rotate }
    }
}

/// Reasons for a catalog that cannot be, or does not fit the stored data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// Two statistics for one kind.
    #[error("kind {} of space {} is `{first}` already and cannot be `{second}` too", kind.0, space.0)]
    Twice {
        /// The space of the kind.
        space: Space,
        /// The kind of the statistic.
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
        /// The cause.
        error: LayoutError,
    },
    /// A statistic cannot be exact: it is no limit without a sketch.
    #[error(
        "`{0}` cannot be exact: only what is taken from limits is decided, and without a sketch before it"
    )]
    Exact(String),
    /// The store holds something else under this kind.
    #[error(
        "kind {} of space {} is stored as {stored} and now configured as {configured}: \
         give the new one another name, or let go of the stored one with `tollhouse ledger names --drop`",
        kind.0, space.0
    )]
    Meaning {
        /// The space of the kind.
        space: Space,
        /// The kind of the statistic.
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

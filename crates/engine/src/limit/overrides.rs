//! Exceptions: keys for which a limit is another, or none, for a while.
//!
//! Those of the configuration stand in `[[limit.override]]`. Those that were posted are kept in `limits.json` of the data
//! directory, in the clear: whoever set one wants to read it. A posted one stands over one of the configuration.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use content::network::without_full_length;
use event::{Secret, Shingle, Time};

use super::{LimitKey, LimitKeyError};
use crate::Engine;
use crate::directory::{DirectoryError, io_error, read_sealed};
use plan::Plan;
use plan::limit::{LimitException, LimitPlan};

/// Most exceptions that can be posted.
pub const EXCEPTIONS_MAX: usize = 100_000;
/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 28;

/// Reasons to refuse an exception.
#[derive(Debug, thiserror::Error)]
pub enum LimitExceptionError {
    /// The exception does not fit the limit.
    #[error("{0}")]
    Unfit(String),
    /// The key cannot be made.
    #[error(transparent)]
    Key(#[from] LimitKeyError),
    /// The list of exceptions is full.
    #[error("there are {EXCEPTIONS_MAX} already: remove some first")]
    Full,
    /// Other nodes cannot be told of it.
    #[error("it cannot be shared with the other nodes: {0}")]
    Shared(String),
    /// The exceptions could not be written.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

/// The exception that stands for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ActiveException {
    pub(crate) count: Option<u64>,
    pub(crate) exempt: bool,
    until: Option<Time>,
}

/// Exceptions by limit and key.
#[derive(Debug, Default)]
pub(crate) struct LimitExceptions {
    /// Posted, then configured.
    by_limit: HashMap<String, HashMap<Shingle, [Option<ActiveException>; 2]>>,
    posted: Vec<LimitException>,
}

impl LimitExceptions {
    /// The posted exceptions and those of the plan.
    pub(crate) fn new(plan: &Plan, posted: Vec<LimitException>, secret: &Secret) -> LimitExceptions {
        let mut all = LimitExceptions { posted, ..LimitExceptions::default() };
        for limit in &plan.limits {
            let configured = limit.exceptions.iter().map(|exception| (1, exception));
            let posted = all.posted.iter().filter(|exception| *exception.limit == *limit.name);
            let mut by_key: HashMap<Shingle, [Option<ActiveException>; 2]> = HashMap::new();
            for (place, exception) in posted.map(|exception| (0, exception)).chain(configured) {
                // One that does not fit any more, because the limit has changed, stands for nothing.
                let Ok(key) = key(limit, &exception.key, secret) else { continue };
                let LimitException { count, exempt, until, .. } = *exception;
                by_key.entry(key.shingle).or_default()[place] =
                    Some(ActiveException { count, exempt, until });
            }
            if !by_key.is_empty() {
                all.by_limit.insert(limit.name.to_string(), by_key);
            }
        }
        all
    }

    /// Returns the exception that stands for a key now.
    #[inline]
    pub(super) fn of(&self, limit: &str, key: LimitKey, now: Time) -> Option<ActiveException> {
        if self.by_limit.is_empty() {
            return None;
        }
        let standing = self.by_limit.get(limit)?.get(&key.shingle)?;
        standing.iter().flatten().find(|standing| standing.until.is_none_or(|until| now < until)).copied()
    }

    /// The posted exceptions.
    pub(crate) fn posted(&self) -> &[LimitException] {
        &self.posted
    }
}

/// The key of an exception's values.
pub(crate) fn key(
    limit: &LimitPlan,
    values: &[String],
    secret: &Secret,
) -> Result<LimitKey, LimitExceptionError> {
    if values.len() != limit.key.len() {
        let (wanted, given) = (limit.key.len(), values.len());
        let why = format!("the key of `{}` has {wanted} values, and {given} were given", limit.name);
        return Err(LimitExceptionError::Unfit(why));
    }
    let mut normal = Vec::with_capacity(values.len());
    for (field, value) in limit.key.iter().zip(values) {
        let given = without_full_length(value);
        let piece = field.how.normal(&given).ok_or_else(|| LimitKeyError::Unfit {
            field: field.name.clone(),
            value: value.chars().take(100).collect(),
        })?;
        normal.push(piece.into_owned());
    }
    Ok(super::key::key(secret, limit, normal.iter().map(|value| value.as_bytes())))
}

/// Reads what was posted; nothing was yet in a new directory.
pub(crate) fn read(path: &Path) -> Result<Vec<LimitException>, DirectoryError> {
    let bytes = read_sealed(path, FILE_BYTES_MAX, "no posted exception then stands")?;
    let exceptions = bytes.map_or(Ok(Vec::new()), |bytes| serde_json::from_slice(&bytes));
    exceptions.map_err(|error| DirectoryError::Damaged { path: path.into(), why: error.to_string() })
}

fn write(path: &Path, exceptions: &[LimitException]) -> io::Result<()> {
    disk::replace(path, &disk::seal(&serde_json::to_vec_pretty(exceptions)?))
}

impl Engine {
    pub(crate) fn exceptions(&self) -> Arc<LimitExceptions> {
        Arc::clone(&self.exceptions.read())
    }

    /// Puts the plan's exceptions in force.
    pub(crate) fn take_over_exceptions(&self, plan: &Plan) {
        let posted = self.exceptions().posted().to_vec();
        let new = Arc::new(LimitExceptions::new(plan, posted, &self.secret));
        *self.exceptions.write() = new;
    }

    /// The exceptions of a limit that were posted, in the order in which they were.
    pub fn posted_exceptions(&self, limit: &str) -> Vec<LimitException> {
        let exceptions = self.exceptions();
        exceptions.posted().iter().filter(|exception| exception.limit == limit).cloned().collect()
    }

    /// Posts an exception, instead of any other of the same key; one that has ended, or that says nothing, takes the
    /// other away. What has ended by now is forgotten. Kept in the data directory, if there is one. Of nodes that share their
    /// statistics all hear of it, or none. Blocks.
    ///
    /// # Errors
    /// [`LimitExceptionError`]; then nothing has changed, unless it could not be written: other nodes have it by then. Where the cluster did
    /// not answer it may come into force later, on all nodes.
    pub fn post_exception(&self, exception: LimitException, now: Time) -> Result<(), LimitExceptionError> {
        let plan = self.plan();
        self.exception_key(&plan, &exception)?;
        let stands = exception.exempt || exception.count.is_some();
        if stands && self.exceptions().posted().len() >= EXCEPTIONS_MAX {
            // One that has ended makes room.
            self.take_over_posted_exceptions(Vec::new(), now)?;
            if self.exceptions().posted().len() >= EXCEPTIONS_MAX {
                return Err(LimitExceptionError::Full);
            }
        }
        self.share_exception(&plan, &exception, now).map_err(LimitExceptionError::Shared)?;
        Ok(self.take_over_posted_exceptions(vec![exception], now)?)
    }

    /// Returns what the key of an exception is counted by.
    pub(crate) fn exception_key(
        &self,
        plan: &Plan,
        exception: &LimitException,
    ) -> Result<Shingle, LimitExceptionError> {
        let limit = plan
            .limit(&exception.limit)
            .ok_or_else(|| LimitExceptionError::Unfit(format!("there is no limit `{}`", exception.limit)))?;
        key(limit, &exception.key, &self.secret).map(|key| key.shingle)
    }

    /// Puts exceptions in force that were posted, here or to another node, each instead of the one of the same key. One whose limit is
    /// not known here is kept, for when it is. Blocks.
    pub(crate) fn take_over_posted_exceptions(
        &self,
        exceptions: Vec<LimitException>,
        now: Time,
    ) -> Result<(), DirectoryError> {
        let _only = self.changing.lock();
        let plan = self.plan();
        let named = |exception: &LimitException| {
            (exception.limit.clone(), self.exception_key(&plan, exception).map_err(|_| exception.key.clone()))
        };
        let new: HashSet<_> = exceptions.iter().map(named).collect();
        let mut posted = self.exceptions().posted().to_vec();
        posted.retain(|other| !(new.contains(&named(other))) && other.until.is_none_or(|until| now < until));
        // Of a subject that comes twice, the later stands.
        let mut last: HashMap<_, LimitException> = HashMap::new();
        let mut order = Vec::new();
        for exception in exceptions {
            let name = named(&exception);
            if last.insert(name.clone(), exception).is_none() {
                order.push(name);
            }
        }
        for exception in order.iter().filter_map(|name| last.remove(name)) {
            let stands = exception.exempt || exception.count.is_some();
            let is_over = exception.until.is_some_and(|until| until <= now);
            if stands && !is_over && posted.len() < EXCEPTIONS_MAX {
                posted.push(exception);
            }
        }
        if let Some(directory) = &self.directory {
            let path = directory.limits_path();
            write(&path, &posted).map_err(io_error(&path))?;
            directory.note_contents()?;
        }
        let new = Arc::new(LimitExceptions::new(&plan, posted, &self.secret));
        *self.exceptions.write() = new;
        Ok(())
    }
}

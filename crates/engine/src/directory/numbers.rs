//! The registry of numbers: `numbers.txt`, and the same once more beside it. It is written before a number is first used, and
//! without it nobody would know what is counted under which.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use plan::limit::allotted_number;
use plan::{PipelineOverlays, Plan};
use stats::cell_export::CellDefinition;
use stats::{Ledger, NumberRegistry, NumberedSection};

use super::{Directory, DirectoryError, io_error, read_sealed};
use crate::{EngineOpenError, NumberError};

/// The registry's own name, and that of its copy.
pub(super) const NAMES: [&str; 2] = ["numbers.txt", "numbers.copy"];
/// Largest registry that is read: more than all numbers of a hundred spaces with long names.
const BYTES_MAX: u64 = 256 << 20;

/// A place that several nodes share, where names get their numbers.
pub trait NumberAllotment: Send + Sync {
    /// Gives each of these names that has none there a number, for good: what is `known` here from before the one that it
    /// has, if that is free. Returns all names that have one there.
    ///
    /// # Errors
    /// Says why the place cannot be asked.
    fn allot(&self, known: &NumberRegistry, wanted: &NumberRegistry) -> Result<NumberRegistry, String>;
}

/// The registry as the files have it.
#[derive(Default)]
pub(crate) struct StoredNumbers {
    /// `None` where there is none.
    pub(crate) registry: Option<NumberRegistry>,
    /// Files that are not as they were written, or missing beside the other, and why.
    pub(crate) faults: Vec<(PathBuf, String)>,
    /// True if one was written and the other not yet: nothing has been counted by it.
    is_uneven: bool,
}

impl Directory {
    /// The numbers of all names.
    ///
    /// # Errors
    /// [`DirectoryError::Damaged`] if the registry and its copy are, or what the system says.
    pub fn numbers(&self) -> Result<NumberRegistry, DirectoryError> {
        Ok(self.stored_numbers()?.registry.unwrap_or_default())
    }

    pub(crate) fn stored_numbers(&self) -> Result<StoredNumbers, DirectoryError> {
        let mut stored = StoredNumbers::default();
        let mut damage = None;
        for name in NAMES {
            match self.read_numbers(name) {
                Ok(Some(registry)) => match &stored.registry {
                    Some(first) => stored.is_uneven = *first != registry,
                    None => stored.registry = Some(registry),
                },
                Ok(None) => stored.faults.push((self.path.join(name), "missing".to_owned())),
                Err(error @ DirectoryError::Damaged { .. }) => {
                    stored.faults.push((self.path.join(name), "damaged".to_owned()));
                    damage = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match (&stored.registry, damage) {
            (None, Some(damage)) => return Err(damage),
            (None, None) => stored.faults.clear(),
            _ => {}
        }
        for (_, why) in &mut stored.faults {
            why.push_str(
                ": the other of the two registries of numbers says the same, and the next start makes it anew",
            );
        }
        Ok(stored)
    }

    fn read_numbers(&self, name: &str) -> Result<Option<NumberRegistry>, DirectoryError> {
        let path = self.path.join(name);
        let instead = "the next start makes it anew of the other registry of numbers, if that is sound";
        let Some(bytes) = read_sealed(&path, BYTES_MAX, instead)? else { return Ok(None) };
        let registry = String::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
        let why = || "it is no registry of numbers; restore it from a backup".to_owned();
        registry.map(Some).ok_or_else(|| DirectoryError::Damaged { path, why: why() })
    }

    /// Sees to it that all of these names have a number for good, and returns all that have one: those of the place that is
    /// shared, if there is one. To be called with the directory locked.
    pub(crate) fn allot_numbers(
        &self,
        shared: Option<&dyn NumberAllotment>,
        wanted: &NumberRegistry,
    ) -> Result<NumberRegistry, NumberError> {
        let StoredNumbers { registry, faults, is_uneven } = self.stored_numbers()?;
        let known = registry.clone().unwrap_or_default();
        let all = match shared {
            None => known.with(wanted)?,
            Some(shared) => shared.allot(&known, wanted).map_err(NumberError::Shared)?,
        };
        let changed = known.iter().find(|(number, name)| {
            name.section != NumberedSection::Dropped && all.number(name) != Some(*number)
        });
        if let Some((number, name)) = changed {
            return Err(NumberError::Changed { name: name.clone(), number });
        }
        if registry.as_ref() != Some(&all) || !faults.is_empty() || is_uneven {
            self.write_numbers(&all)?;
        }
        Ok(all)
    }

    /// Refuses a directory whose registry is gone with its copy: without a registry there must be no statistics.
    ///
    /// # Errors
    /// [`DirectoryError::Damaged`]; the ledger's.
    pub(crate) fn check_no_loss(&self, device: &Arc<disk::FileDevice>) -> Result<(), EngineOpenError> {
        let path = self.ledger_path();
        let is_segment =
            |entry: &fs::DirEntry| entry.path().extension().is_some_and(|extension| extension == "seg");
        let is_new = !fs::read_dir(&path).map_err(io_error(&path))?.flatten().any(|entry| is_segment(&entry));
        let is_missed = self.missing().is_ok_and(|missing| missing.iter().any(|it| it.file == NAMES[0]));
        if self.stored_numbers()?.registry.is_some() || is_new && !is_missed {
            return Ok(());
        }
        let (ledger, _) = self.open_ledger_of(Arc::clone(device), None)?;
        let has_number = |known: &CellDefinition| allotted_number(known.space, known.kind).is_some();
        let is_lost = is_missed || ledger.definitions().iter().any(has_number);
        ledger.close()?;
        if is_lost {
            let why = "missing, and so is its copy: nobody knows which names the stored numbers stand for; restore one from a \
                       backup";
            return Err(
                DirectoryError::Damaged { path: self.path.join(NAMES[0]), why: why.to_owned() }.into()
            );
        }
        Ok(())
    }

    /// Returns a plan whose names have the numbers of the place that several nodes share, for a command that works beside them.
    ///
    /// # Errors
    /// [`EngineOpenError::Numbers`].
    pub fn numbered(&self, mut plan: Plan, shared: &dyn NumberAllotment) -> Result<Plan, EngineOpenError> {
        let numbers = self.allot_numbers(Some(shared), &plan.numbers)?;
        if numbers.includes(&plan.numbers) {
            plan.numbers = numbers;
            return Ok(plan);
        }
        let config = plan.read_again(&PipelineOverlays::default());
        self.plan_in_force(Plan::compile_with(&config, &numbers)?)
    }

    /// Keeps the numbers of a plan that was compiled with those that are here.
    pub(crate) fn keep_numbers(&self, wanted: &NumberRegistry) -> Result<NumberRegistry, NumberError> {
        let all = self.allot_numbers(None, wanted)?;
        if all.includes(wanted) { Ok(all) } else { Err(NumberError::Others) }
    }

    /// Changes the registry of a directory that no process has open.
    ///
    /// # Errors
    /// [`EngineOpenError::Device`] of the kind `WouldBlock` if it is in use; what `change` says, and what cannot be read or
    /// written.
    pub fn change_numbers<T>(
        &self,
        change: impl FnOnce(&mut NumberRegistry) -> Result<T, stats::NumberRegistryError>,
    ) -> Result<T, EngineOpenError> {
        let _lock = self.lock_ledger()?;
        let mut registry = self.numbers()?;
        let changed = change(&mut registry).map_err(NumberError::Registry)?;
        self.write_numbers(&registry)?;
        Ok(changed)
    }

    fn write_numbers(&self, registry: &NumberRegistry) -> Result<(), DirectoryError> {
        let bytes = disk::seal(registry.to_string().trim_end().as_bytes());
        NAMES.into_iter().try_for_each(|name| {
            let path = self.path.join(name);
            disk::replace(&path, &bytes).map_err(io_error(&path))
        })
    }
}

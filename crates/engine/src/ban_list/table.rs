//! The ban list in memory: the bans by number, value and end, and what is remembered of removals.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use event::Time;
use plan::AllowPlan;

use super::address_range::AddressRange;
use super::entry::{Ban, LabelSource, is_same_label};
use super::log::{BanLogEntry, BanLogLine, read_line};
use super::sharing::{BanSharing, LiftedBan, PAGE};
use super::target::{BanTarget, TargetIndex, listed};

/// Most keys at once, some 420 bytes each. Beyond it the one whose label ends first makes room.
pub(crate) const KEYS_MAX: usize = 6_000_000;

/// Most removals that are remembered.
pub(super) const REMOVED_MAX: usize = 100_000;

/// Sources beyond which those that nothing has any more are let go of.
pub(super) const SOURCES: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct BanTable {
    /// The bans by the number of their last change.
    pub(super) held: BTreeMap<u64, Ban>,
    pub(super) targets: TargetIndex,
    /// The number of ranges of each length of prefix.
    pub(super) lengths: BTreeMap<u8, usize>,
    /// The bans by their end.
    pub(super) ends: BTreeSet<(Time, u64)>,
    pub(super) sources: BTreeSet<Arc<LabelSource>>,
    pub(super) removed: VecDeque<(u64, Ban)>,
    /// The number of the last change that is not remembered any more.
    pub(super) forgotten: u64,
    /// The number of the last change.
    pub(super) last: u64,
    pub(super) ids: u64,
    /// The number of keys that had to make room.
    pub(super) crowded_out: u64,
    /// `None` for a node of its own.
    pub(super) sharing: Option<BanSharing>,
    /// The allow list in force.
    pub(super) allow: Arc<AllowPlan>,
}

impl BanTable {
    pub(super) fn read(path: &Path, shares: bool) -> io::Result<BanTable> {
        let mut table = BanTable { sharing: shares.then(BanSharing::default), ..BanTable::default() };
        let mut through = 0;
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(table),
            Err(error) => return Err(error),
        };
        for line in BufReader::new(file).split(b'\n') {
            match read_line(&line?) {
                Some(BanLogLine::Put(entry)) => {
                    let shared = entry.shared;
                    let ban = table.ban(entry);
                    let before = table.find(&ban.source, &ban.value);
                    before.map(|(number, _)| table.forget(number));
                    table.put_as(ban, shared);
                }
                Some(BanLogLine::Lift(entry)) => {
                    let shared = entry.shared;
                    let ban = table.ban(entry);
                    let before = table.find(&ban.source, &ban.value);
                    let is_acknowledged = shared
                        && table.sharing.as_mut().is_some_and(|sharing| sharing.acknowledge_lift(&ban));
                    if is_acknowledged {
                        continue;
                    }
                    before.map(|(number, _)| table.remove(number));
                    if let Some(sharing) = &mut table.sharing {
                        sharing.lift(ban, !shared);
                    }
                }
                Some(BanLogLine::End(entry)) => {
                    let ban = table.ban(entry);
                    let before = table.find(&ban.source, &ban.value);
                    before.map(|(number, _)| table.remove(number));
                }
                Some(BanLogLine::Shared { through: up_to }) => through = up_to.max(through),
                None => tracing::warn!(path = %path.display(), "a damaged label is passed over"),
            }
        }
        let BanTable { held, sharing, .. } = &mut table;
        if let Some(sharing) = sharing {
            sharing.unshared.retain(|number| held.get(number).is_some_and(|ban| ban.id > through));
        }
        Ok(table)
    }

    /// Puts a ban there, of which others have heard or not.
    pub(super) fn put_as(&mut self, ban: Ban, shared: bool) {
        let (source, value) = (Arc::clone(&ban.source), Arc::clone(&ban.value));
        self.put(ban);
        let number = self.last;
        if let Some(sharing) = &mut self.sharing {
            sharing.unlift(&source, &value, false);
            if !shared {
                sharing.unshared.insert(number);
            }
        }
    }

    /// Returns true if others are known to have heard of a ban.
    pub(super) fn knows_shared(&self, ban: &Ban) -> bool {
        let Some(sharing) = &self.sharing else { return false };
        let held = self.find(&ban.source, &ban.value);
        held.is_some_and(|(number, _)| !sharing.unshared.contains(&number))
    }

    /// The lift of a label, if it is remembered.
    pub(super) fn lift_of(&self, ban: &Ban) -> Option<&LiftedBan> {
        let lifted = self.sharing.as_ref()?.lifted.get(&ban.value)?;
        lifted.iter().find(|lifted| is_same_label(&lifted.ban.source, &ban.source))
    }

    /// All lifts that are remembered, and whether others have heard of them.
    pub(super) fn lifted(&self) -> Vec<(Ban, bool)> {
        let all = self.sharing.iter().flat_map(|sharing| sharing.lifted.values().flatten());
        all.map(|lifted| (lifted.ban.clone(), !lifted.is_unshared)).collect()
    }

    pub(super) fn ban(&mut self, entry: BanLogEntry<'_>) -> Ban {
        let BanLogEntry {
            id, pipeline, kind, scope, label, decision, value, by, since, until, cause, ..
        } = entry;
        let [pipeline, kind, label, decision, by] =
            [pipeline, kind, label, decision, by].map(Cow::into_owned);
        let source = self.source(LabelSource { pipeline, kind, label, decision, by });
        let cause = cause.map(|cause| Arc::new(cause.into_owned()));
        Ban { id, scope, source, value: listed(&value), since, until, cause }
    }

    /// Returns the source that others share.
    pub(super) fn source(&mut self, source: LabelSource) -> Arc<LabelSource> {
        if let Some(known) = self.sources.get(&source) {
            return Arc::clone(known);
        }
        if self.sources.len() >= SOURCES {
            self.sources.retain(|source| Arc::strong_count(source) > 1);
        }
        let source = Arc::new(source);
        self.sources.insert(Arc::clone(&source));
        source
    }

    pub(super) fn has_ranges(&self) -> bool {
        self.lengths.keys().any(|length| *length < AddressRange::WHOLE)
    }

    pub(super) fn at(&self, target: &BanTarget) -> impl Iterator<Item = (u64, &Ban)> + use<'_> {
        let all = self.targets.numbers(target).iter();
        all.filter_map(|number| Some((*number, self.held.get(number)?)))
    }

    /// Returns the bans on a value, in whatever form an address or a network is written.
    pub(super) fn of_value(&self, value: &str) -> impl Iterator<Item = (u64, &Ban)> {
        self.at(&BanTarget::of(value))
    }

    /// Returns the entries of the networks that some addresses are in, whose prefix is no longer than so much.
    pub(super) fn around(&self, addresses: AddressRange, length: u8) -> impl Iterator<Item = &Ban> {
        let lengths = self.lengths.range(..=length).map(|(length, _)| *length);
        lengths
            .flat_map(move |length| self.at(&BanTarget::Addresses(addresses.cut(length))))
            .map(|(_, ban)| ban)
    }

    /// The number and the end of a label that a key has.
    pub(super) fn find(&self, source: &LabelSource, value: &Arc<str>) -> Option<(u64, Time)> {
        let name = |source: &LabelSource| [&source.pipeline, &source.kind, &source.label].map(String::clone);
        let wanted = name(source);
        let mut all = self.of_value(value).filter(|(_, ban)| ban.value == *value);
        all.find(|(_, ban)| name(&ban.source) == wanted).map(|(number, ban)| (number, ban.until))
    }

    pub(super) fn put(&mut self, ban: Ban) {
        self.put_within(ban, KEYS_MAX);
    }

    pub(super) fn put_within(&mut self, ban: Ban, keys_max: usize) {
        self.ids = self.ids.max(ban.id);
        while self.held.len() >= keys_max {
            let Some((_, first)) = self.ends.first().copied() else { break };
            self.remove(first);
            self.crowded_out += 1;
        }
        self.last += 1;
        let target = BanTarget::of(&ban.value);
        if let BanTarget::Addresses(range) = target {
            *self.lengths.entry(range.length).or_default() += 1;
        }
        self.targets.add(target, self.last);
        self.ends.insert((ban.until, self.last));
        self.held.insert(self.last, ban);
    }

    /// Takes an entry out without a word.
    pub(super) fn forget(&mut self, number: u64) -> Option<Ban> {
        let ban = self.held.remove(&number)?;
        let target = BanTarget::of(&ban.value);
        if let BanTarget::Addresses(range) = target
            && let Some(count) = self.lengths.get_mut(&range.length)
        {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&range.length);
            }
        }
        self.targets.remove(&target, number);
        self.ends.remove(&(ban.until, number));
        if let Some(sharing) = &mut self.sharing {
            sharing.unshared.remove(&number);
        }
        Some(ban)
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Ban> {
        let ban = self.forget(number)?;
        self.last += 1;
        self.removed.push_back((self.last, ban.clone()));
        while self.removed.len() > REMOVED_MAX {
            if let Some((number, _)) = self.removed.pop_front() {
                self.forgotten = number;
            }
        }
        Some(ban)
    }

    /// Lets go of some of those that have ended; answers whether there may be more.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        if let Some(sharing) = &mut self.sharing {
            sharing.expire(now);
        }
        for _ in 0..PAGE {
            match self.ends.first().copied() {
                Some((until, number)) if until <= now => _ = self.remove(number),
                _ => return false,
            }
        }
        true
    }

    /// The changes since one, in order; whether each takes a label off.
    pub(super) fn changes_since(&self, number: u64) -> io::Result<Vec<(Ban, bool)>> {
        if number < self.forgotten {
            return Err(io::Error::other("more labels ended meanwhile than are remembered"));
        }
        let later = self.removed.partition_point(|(removed, _)| *removed <= number);
        let removed = self.removed.range(later..).map(|(number, ban)| (*number, ban.clone(), true));
        let put = self.held.range(number + 1..).map(|(number, ban)| (*number, ban.clone(), false));
        let mut changes: Vec<(u64, Ban, bool)> = removed.chain(put).collect();
        changes.sort_unstable_by_key(|(number, ..)| *number);
        Ok(changes.into_iter().map(|(_, ban, lifts)| (ban, lifts)).collect())
    }
}

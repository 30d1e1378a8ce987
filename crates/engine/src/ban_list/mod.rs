//! The ban list for enforcement points: keys that have a label now, by the name of their subject.
//!
//! The ledger keeps only hashes of keys, which no firewall can use. So of labels that say so (`decision`), the piece is kept
//! beside the mark, until the label ends:
//!
//! ```text
//! rules, or somebody, mark a key ─► the ledger's mark, by hash           rules read it
//!                                └► this table, by piece, and its file   bouncers poll it, rules ask it for networks
//! ```
//!
//! Every change has a number. Who polls says the number that was told last, and is told the changes since, some at a time: no
//! list is copied whole. A value is found by an index, an address also by the networks that it is in: one look for each
//! length of prefix that there is. The table and what it remembers of removals are bounded; who comes too late for a removal is
//! told everything anew.
//!
//! The file is a line of JSON a change, written when the change is made and synced with the housekeeping: a killed process
//! loses nothing, a crash of the machine the last seconds. It is written anew when most of it is out of date.
//!
//! Nothing in the table is on the allow list: what is, is neither put there nor taken over, and leaves it when the list changes. So
//! whoever asks or polls is never told of it, wherever it came from.
//!
//! Where nodes share their bans, the table knows also which of them others have not heard of, and what was lifted and has not ended:
//! what statistics say of a key cannot be taken back in a cluster, so rules are told here that it does not hold.

mod address_range;
mod entry;
mod log;
mod sharing;
mod table;
mod target;

use std::collections::HashSet;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use disk::AtomicFile;
use event::Time;
use event_listener::Event as Signal;
use parking_lot::{Mutex, RwLock};
use plan::AllowPlan;

pub use self::address_range::AddressRange;
pub use self::entry::{Ban, BanCause, BanScope, LabelSource};
pub(crate) use self::entry::{NewBan, SharedBan, UnsharedBan};
pub(crate) use self::log::damaged_lines;
use self::log::{BanLineKind, BanLog, BanLogLine, seal_line, write_line};
use self::sharing::{LiftedBan, PAGE};
use self::table::BanTable;
pub(crate) use self::table::KEYS_MAX;
use self::target::listed;

/// The kind and the origin of what a block list bans.
const BLOCK_LIST: &str = "block_list";
/// Longest value that is kept.
const VALUE_BYTES_MAX: usize = 1024;
/// Lines beyond twice those in use at which the file is written anew.
const SLACK: usize = 10_000;

/// The changes since somebody asked. What is new is read by [`BanList::page`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BanChanges {
    /// The numbers of the changes whose labels hold and were put on, or made longer.
    pub new: Option<RangeInclusive<u64>>,
    /// Labels that have ended, or were taken off.
    pub deleted: Vec<Ban>,
    /// The number to ask with the next time.
    pub next: u64,
}

impl BanChanges {
    /// Returns true if nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.new.is_none() && self.deleted.is_empty()
    }
}

/// The table.
#[derive(Debug, Default)]
pub struct BanList {
    table: Mutex<BanTable>,
    /// Some value is a network.
    has_ranges: AtomicBool,
    /// Some label was lifted, and rules may see it in the statistics.
    has_lifted: AtomicBool,
    file: Option<Mutex<BanLog>>,
    /// Wakes whoever waits for a change.
    changed: Signal,
    /// The table's allow list, for who does not want to wait for the table.
    allow: RwLock<Arc<AllowPlan>>,
}

impl BanList {
    /// Reads the table of a data directory, of a node that shares its bans or keeps them to itself. A torn last line, as a crash
    /// leaves it, is passed over.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn open(path: &Path, shares: bool) -> io::Result<BanList> {
        let table = BanTable::read(path, shares)?;
        let list = BanList::default();
        list.note(&table);
        let list = BanList { table: Mutex::new(table), ..list };
        let log = list.write(path)?;
        Ok(BanList { file: Some(Mutex::new(log)), ..list })
    }

    /// Writes the table of a data directory anew without some pieces.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn erase(path: &Path, is_meant: impl Fn(&str) -> bool) -> io::Result<()> {
        if !path.exists() {
            return Ok(());
        }
        let mut table = BanTable::read(path, true)?;
        if let Some(sharing) = &mut table.sharing {
            let meant: Vec<Arc<str>> =
                sharing.lifted.keys().filter(|value| is_meant(value)).cloned().collect();
            meant.iter().for_each(|value| sharing.forget_value(value));
        }
        let meant = table.held.iter().filter(|(_, ban)| is_meant(&ban.value));
        let meant: Vec<u64> = meant.map(|(number, _)| *number).collect();
        meant.into_iter().for_each(|number| _ = table.forget(number));
        BanList { table: Mutex::new(table), ..BanList::default() }.write(path).map(drop)
    }

    /// Puts labels on keys. One that the key has already is made longer, if it is. What is of this machine itself, as behind a
    /// proxy that does not say for whom it asks, no firewall is told.
    pub(crate) fn put(&self, puts: Vec<NewBan>) {
        let mut lines = Vec::new();
        {
            let mut table = self.table.lock();
            for put in puts.into_iter().filter(|put| put.value.len() <= VALUE_BYTES_MAX) {
                let NewBan { pipeline, kind, label, decision, value, by, since, until, cause } = put;
                if AddressRange::parse(&value).is_some_and(AddressRange::is_of_this_machine) {
                    tracing::debug!(pipeline, label, by, "a label of this machine itself is told nobody");
                    continue;
                }
                if table.allow.find(&value).is_some() {
                    continue;
                }
                let source = table.source(LabelSource { pipeline, kind, label, decision, by });
                let value = listed(&value);
                let before = table.find(&source, &value);
                if before.is_some_and(|(_, end)| end >= until) {
                    continue;
                }
                let longer = before.and_then(|(number, _)| table.forget(number));
                let since = longer.filter(|ban| ban.until > since).map_or(since, |ban| ban.since);
                table.ids += 1;
                let (id, scope, cause) = (table.ids, BanScope::of(&value), Some(Arc::new(cause)));
                let ban = Ban { id, scope, source, value, since, until, cause };
                // Writing to a vector cannot fail, and no type here refuses to be written.
                let _ = write_line(&mut lines, &ban, BanLineKind::Put, false);
                table.put_as(ban, false);
            }
            self.note(&table);
        }
        self.append(&lines);
    }

    /// Returns the allow list.
    pub(crate) fn allow(&self) -> Arc<AllowPlan> {
        Arc::clone(&self.allow.read())
    }

    /// Puts an allow list in force. What is on it leaves the table, and who polls is told so; answers how many that are. Other nodes
    /// go by their own list.
    pub(crate) fn set_allow(&self, allow: Arc<AllowPlan>) -> usize {
        {
            let mut table = self.table.lock();
            if table.allow == allow {
                return 0;
            }
            table.allow = Arc::clone(&allow);
            *self.allow.write() = Arc::clone(&allow);
        }
        // What comes from now on is held against the new list.
        self.end_all(|ban| allow.find(&ban.value).is_some())
    }

    /// Makes a block list's bans these values, each with its end, and no others; none without an action. Nodes do not share them, as each
    /// reads the list. One that holds for more than half of its time is left as it is, so that what is read again and again costs little.
    pub(crate) fn replace_list(
        &self,
        list: &str,
        action: Option<&str>,
        values: Vec<(String, Time)>,
        now: Time,
    ) {
        let name = |decision: &str| LabelSource {
            pipeline: String::new(),
            kind: BLOCK_LIST.to_owned(),
            label: list.to_owned(),
            decision: decision.to_owned(),
            by: BLOCK_LIST.to_owned(),
        };
        let mut new = HashSet::with_capacity(values.len());
        for page in values.chunks(PAGE) {
            let mut lines = Vec::new();
            {
                let mut table = self.table.lock();
                let source = table.source(name(action.unwrap_or_default()));
                for (value, until) in page {
                    let is_own = AddressRange::parse(value).is_none_or(AddressRange::is_of_this_machine);
                    if is_own || table.allow.find(value).is_some() || *until <= now {
                        continue;
                    }
                    let value = listed(value);
                    new.insert(Arc::clone(&value));
                    let before = table.find(&source, &value);
                    if before.is_some_and(|(_, end)| end.0 - now.0 > (until.0 - now.0) / 2) {
                        continue;
                    }
                    let longer = before.and_then(|(number, _)| table.forget(number));
                    let since = longer.filter(|ban| ban.until > now).map_or(now, |ban| ban.since);
                    table.ids += 1;
                    let (id, scope, source) = (table.ids, BanScope::of(&value), Arc::clone(&source));
                    let ban = Ban { id, scope, source, value, since, until: *until, cause: None };
                    let _ = write_line(&mut lines, &ban, BanLineKind::Put, true);
                    table.put_as(ban, true);
                }
                self.note(&table);
            }
            self.append(&lines);
        }
        let is_gone = |ban: &Ban| {
            let source = &ban.source;
            source.pipeline.is_empty()
                && source.kind == BLOCK_LIST
                && source.label == list
                && (Some(source.decision.as_str()) != action || !new.contains(&ban.value))
        };
        self.end_all(is_gone);
    }

    /// Ends the bans that are meant, and tells who polls; answers how many.
    fn end_all(&self, is_meant: impl Fn(&Ban) -> bool) -> usize {
        let (mut rest, mut ended) = (Some(0..=self.table.lock().last), 0);
        while rest.is_some() {
            let page = self.page(&mut rest, Time(i64::MIN));
            let meant: Vec<&Ban> = page.iter().filter(|ban| is_meant(ban)).collect();
            if meant.is_empty() {
                continue;
            }
            let mut lines = Vec::new();
            {
                let mut table = self.table.lock();
                for ban in meant {
                    let Some((number, _)) = table.find(&ban.source, &ban.value) else { continue };
                    let Some(removed) = table.remove(number) else { continue };
                    let _ = write_line(&mut lines, &removed, BanLineKind::End, false);
                    ended += 1;
                }
                self.note(&table);
            }
            self.append(&lines);
        }
        ended
    }

    /// Notes what look-ups ask before they take the lock, and wakes who waits for a change.
    fn note(&self, table: &BanTable) {
        self.changed.notify(usize::MAX);
        self.has_ranges.store(table.has_ranges(), Ordering::Release);
        let has_lifted = table.sharing.as_ref().is_some_and(|sharing| !sharing.lifted.is_empty());
        self.has_lifted.store(has_lifted, Ordering::Release);
    }

    /// Returns each label that keys of a value have, with what put it on and the piece.
    pub(crate) fn labels_of(&self, value: &str) -> Vec<(Arc<LabelSource>, Arc<str>)> {
        let table = self.table.lock();
        table.of_value(value).map(|(_, ban)| (Arc::clone(&ban.source), Arc::clone(&ban.value))).collect()
    }

    /// Takes labels off all keys of a value; answers how many.
    pub(crate) fn lift(&self, value: &str) -> usize {
        let (mut lines, mut lifted) = (Vec::new(), 0);
        {
            let mut table = self.table.lock();
            let numbers: Vec<u64> = table.of_value(value).map(|(number, _)| number).collect();
            for number in numbers {
                let Some(ban) = table.remove(number) else { continue };
                let _ = write_line(&mut lines, &ban, BanLineKind::Lift, false);
                if let Some(sharing) = &mut table.sharing {
                    sharing.lift(ban, true);
                }
                lifted += 1;
            }
            self.note(&table);
        }
        self.append(&lines);
        lifted
    }

    /// Takes one label off a value, if it is still of this source; answers whether it was.
    pub(crate) fn lift_label(&self, value: &str, source: &LabelSource) -> bool {
        let mut lines = Vec::new();
        let is_lifted = {
            let mut table = self.table.lock();
            let is_it = |ban: &Ban| *ban.value == *value && *ban.source == *source;
            let number = table.of_value(value).find(|(_, ban)| is_it(ban)).map(|(number, _)| number);
            let ban = number.and_then(|number| table.remove(number));
            if let Some(ban) = &ban {
                let _ = write_line(&mut lines, ban, BanLineKind::Lift, false);
            }
            let is_lifted = ban.is_some();
            if let (Some(ban), Some(sharing)) = (ban, &mut table.sharing) {
                sharing.lift(ban, true);
            }
            self.note(&table);
            is_lifted
        };
        self.append(&lines);
        is_lifted
    }

    /// Returns the numbers of all that hold now, for [`BanList::page`].
    pub(crate) fn all(&self) -> Option<RangeInclusive<u64>> {
        Some(0..=self.table.lock().last)
    }

    /// Returns the number of labels on values that are meant.
    pub(crate) fn count_values(&self, is_meant: impl Fn(&str) -> bool) -> u64 {
        let (mut count, mut rest) = (0, Some(0..=self.table.lock().last));
        while rest.is_some() {
            let page = self.page(&mut rest, Time(i64::MIN));
            count += page.iter().filter(|ban| is_meant(&ban.value)).count() as u64;
        }
        count
    }

    /// Takes labels off all values that are meant, and writes the file anew without them; answers how many. Who polls is told that
    /// they are gone.
    ///
    /// # Errors
    /// What the system says. The labels are off all the same.
    pub(crate) fn erase_values(&self, is_meant: impl Fn(&str) -> bool) -> io::Result<usize> {
        let (mut erased, mut rest) = (0, Some(0..=self.table.lock().last));
        while rest.is_some() {
            for ban in self.page(&mut rest, Time(i64::MIN)) {
                erased += if is_meant(&ban.value) { self.lift(&ban.value) } else { 0 };
            }
        }
        if erased > 0
            && let Some(log) = &self.file
        {
            let path = log.lock().path.clone();
            let new = self.write(&path)?;
            *log.lock() = new;
        }
        Ok(erased)
    }

    /// The first changes that other nodes have not heard of and that have not ended: lifts, then bans in the order in which they were
    /// made.
    pub(crate) fn unshared(&self, most: usize, now: Time) -> Vec<UnsharedBan> {
        let mut table = self.table.lock();
        table.expire(now);
        let Some(sharing) = &table.sharing else { return Vec::new() };
        let lifts = sharing.unshared_lifts.iter().filter_map(|value| sharing.lifted.get(value)).flatten();
        let lifts = lifts.filter(|lifted| lifted.is_unshared);
        let lifts = lifts.map(|lifted| UnsharedBan { ban: lifted.ban.clone(), number: None });
        let put = sharing.unshared.iter().filter_map(|number| {
            let ban = table.held.get(number)?.clone();
            Some(UnsharedBan { ban, number: Some(*number) })
        });
        lifts.chain(put).filter(|change| change.ban.until > now).take(most).collect()
    }

    /// The number of changes that other nodes have not heard of.
    pub(crate) fn unshared_count(&self) -> usize {
        let table = self.table.lock();
        table.sharing.as_ref().map_or(0, |sharing| sharing.unshared.len() + sharing.unshared_lifts.len())
    }

    /// Returns true if other nodes have heard of all that was done about a value.
    pub fn is_shared(&self, value: &str) -> bool {
        let table = self.table.lock();
        let Some(sharing) = &table.sharing else { return true };
        !sharing.unshared_lifts.contains(value)
            && !sharing.unshared_lifts.contains(&listed(value))
            && table.of_value(value).all(|(number, _)| !sharing.unshared.contains(&number))
    }

    /// Notes that other nodes have heard of changes. What was changed again since then is still to be told.
    pub(crate) fn acknowledge(&self, sent: &[UnsharedBan]) {
        let mut lines = Vec::new();
        {
            let mut table = self.table.lock();
            let Some(sharing) = &mut table.sharing else { return };
            let mut through = 0;
            for UnsharedBan { ban, number } in sent {
                match number {
                    Some(number) => {
                        sharing.unshared.remove(number);
                        through = through.max(ban.id);
                    }
                    None if sharing.acknowledge_lift(ban) => {
                        let _ = write_line(&mut lines, ban, BanLineKind::Lift, true);
                    }
                    None => {}
                }
            }
            if through > 0 {
                let _ = seal_line(&mut lines, &BanLogLine::Shared { through });
            }
        }
        self.append(&lines);
    }

    /// Takes over what nodes share, this one's own changes among it. What was changed here and others have not heard of yet stays:
    /// it comes later in the order that all follow, unless it has ended: then others never hear of it.
    pub(crate) fn apply(&self, changes: Vec<SharedBan>, now: Time) {
        let mut lines = Vec::new();
        {
            let mut table = self.table.lock();
            for SharedBan { ban, is_lift } in changes {
                let NewBan { pipeline, kind, label, decision, value, by, since, until, cause } = ban;
                let is_own = AddressRange::parse(&value).is_some_and(AddressRange::is_of_this_machine);
                if is_own || value.len() > VALUE_BYTES_MAX || table.allow.find(&value).is_some() {
                    continue;
                }
                let source = table.source(LabelSource { pipeline, kind, label, decision, by });
                let value = listed(&value);
                let before = table.find(&source, &value);
                let Some(sharing) = &table.sharing else { return };
                let is_unshared =
                    before.is_some_and(|(number, end)| end > now && sharing.unshared.contains(&number));
                let is_lifted = sharing.is_unshared_lift(&source, &value, now);
                let end = before.map(|(_, end)| end);
                let stays = if is_lift {
                    is_unshared
                } else {
                    is_lifted || end == Some(until) || (is_unshared && end.is_some_and(|end| end > until))
                };
                if stays {
                    continue;
                }
                if is_lift {
                    let lifted = before.and_then(|(number, _)| table.remove(number));
                    let (scope, cause) = (BanScope::of(&value), Some(Arc::new(cause)));
                    let ban = lifted.unwrap_or(Ban { id: 0, scope, source, value, since, until, cause });
                    let _ = write_line(&mut lines, &ban, BanLineKind::Lift, true);
                    if let Some(sharing) = &mut table.sharing {
                        sharing.lift(ban, false);
                    }
                    continue;
                }
                before.map(|(number, _)| table.forget(number));
                table.ids += 1;
                let (id, scope, cause) = (table.ids, BanScope::of(&value), Some(Arc::new(cause)));
                let ban = Ban { id, scope, source, value, since, until, cause };
                let _ = write_line(&mut lines, &ban, BanLineKind::Put, true);
                table.put_as(ban, true);
            }
            self.note(&table);
        }
        self.append(&lines);
    }

    /// Has all bans and lifts told again that other nodes have heard of once, and that are not there any more where they are shared.
    pub(crate) fn share_again(&self, is_there: impl Fn(&Ban) -> bool) {
        let mut next = Some(0);
        while let Some(from) = next {
            let mut table = self.table.lock();
            let page: Vec<(u64, bool)> =
                table.held.range(from..).take(PAGE).map(|(number, ban)| (*number, is_there(ban))).collect();
            next = page.last().filter(|_| page.len() == PAGE).map(|(number, _)| number + 1);
            let Some(sharing) = &mut table.sharing else { return };
            sharing.unshared.extend(page.iter().filter(|(_, there)| !there).map(|(number, _)| *number));
        }
        let mut table = self.table.lock();
        let Some(sharing) = &mut table.sharing else { return };
        for (value, lifted) in &mut sharing.lifted {
            for lifted in lifted.iter_mut().filter(|lifted| lifted.hides && !is_there(&lifted.ban)) {
                lifted.is_unshared = true;
                sharing.unshared_lifts.insert(Arc::clone(value));
            }
        }
    }

    /// Returns true if a label was lifted from a key before its end, and not put on it again.
    pub(crate) fn is_lifted(
        &self,
        (pipeline, kind, label): (&str, &str, &str),
        value: &str,
        time: Time,
    ) -> bool {
        let table = self.table.lock();
        let lifted = table.sharing.as_ref().and_then(|sharing| sharing.lifted.get(&listed(value)));
        let Some(lifted) = lifted else { return false };
        lifted.iter().any(|LiftedBan { ban, hides, .. }| {
            let source = &ban.source;
            let is_it = (&*source.pipeline, &*source.kind, &*source.label) == (pipeline, kind, label);
            *hides && ban.until > time && is_it
        })
    }

    /// Returns true if any label was lifted before its end.
    pub(crate) fn has_lifted(&self) -> bool {
        self.has_lifted.load(Ordering::Acquire)
    }

    /// Returns what holds of a value, in the order in which it was put on. An address or a network may be written in any form:
    /// `192.0.2.7/32` is `192.0.2.7`.
    pub fn of_value(&self, value: &str, now: Time) -> Vec<Ban> {
        let table = self.table.lock();
        table.of_value(value).filter(|(_, ban)| ban.until > now).map(|(_, ban)| ban.clone()).collect()
    }

    /// Returns what holds of an address, and of the networks that it is in.
    pub fn of_address(&self, address: IpAddr, now: Time) -> Vec<Ban> {
        let table = self.table.lock();
        let all = table.around(AddressRange::of(address), AddressRange::WHOLE);
        all.filter(|ban| ban.until > now).cloned().collect()
    }

    /// Returns true if a network that an address is in has a label at a time.
    pub(crate) fn is_in_range(
        &self,
        (pipeline, kind, label): (&str, &str, &str),
        address: IpAddr,
        time: Time,
    ) -> bool {
        let table = self.table.lock();
        table.around(AddressRange::of(address), AddressRange::WHOLE - 1).any(|ban| {
            let source = &ban.source;
            ban.until > time && (&*source.pipeline, &*source.kind, &*source.label) == (pipeline, kind, label)
        })
    }

    /// Returns true if any value is a network.
    pub(crate) fn has_ranges(&self) -> bool {
        self.has_ranges.load(Ordering::Acquire)
    }

    /// Returns the number of keys that there are, and the number of those that had to make room since the start.
    pub fn size(&self) -> (usize, u64) {
        let table = self.table.lock();
        (table.held.len(), table.crowded_out)
    }

    /// All that holds at a time.
    pub fn held(&self, now: Time) -> BanChanges {
        let mut table = self.table.lock();
        table.expire(now);
        BanChanges { new: Some(0..=table.last), deleted: Vec::new(), next: table.last }
    }

    /// Waits for the next change from here on; what ends by itself is none. Nothing may have changed all the same.
    pub fn changed(&self) -> impl Future<Output = ()> + Send + Unpin + use<> {
        self.changed.listen()
    }

    /// Returns what has changed since a number that was answered before; all that holds, where that is too long ago or not a
    /// number of this table.
    pub fn since(&self, number: u64, now: Time) -> BanChanges {
        {
            let mut table = self.table.lock();
            table.expire(now);
            if number >= table.forgotten && number <= table.last {
                let later = table.removed.partition_point(|(removed, _)| *removed <= number);
                let deleted = table.removed.range(later..).map(|(_, ban)| ban.clone()).collect();
                let new = (number < table.last).then(|| number + 1..=table.last);
                return BanChanges { new, deleted, next: table.last };
            }
        }
        self.held(now)
    }

    /// The next of those that hold, in the order in which they were put on; `rest` is what is left of
    /// [`BanChanges::new`], `None` once all are told. What has changed again since then is told with the next changes.
    pub fn page(&self, rest: &mut Option<RangeInclusive<u64>>, now: Time) -> Vec<Ban> {
        let Some(range) = rest.take() else { return Vec::new() };
        let table = self.table.lock();
        let page: Vec<(&u64, &Ban)> = table.held.range(range.clone()).take(PAGE).collect();
        if let (PAGE.., Some((last, _))) = (page.len(), page.last())
            && *last < range.end()
        {
            *rest = Some(*last + 1..=*range.end());
        }
        page.into_iter().filter(|(_, ban)| ban.until > now).map(|(_, ban)| ban.clone()).collect()
    }

    /// Some of those that hold and were put on before a number, the newest first, and the number for the next; `None` once all are
    /// told.
    pub fn page_before(&self, before: u64, now: Time) -> (Vec<Ban>, Option<u64>) {
        let table = self.table.lock();
        let page: Vec<(&u64, &Ban)> = table.held.range(..before).rev().take(PAGE).collect();
        let next = page.last().filter(|_| page.len() == PAGE).map(|(number, _)| **number);
        (page.into_iter().filter(|(_, ban)| ban.until > now).map(|(_, ban)| ban.clone()).collect(), next)
    }

    /// Lets go of what has ended, and syncs the file or writes it anew.
    pub(crate) fn maintain(&self, now: Time) -> io::Result<()> {
        while self.table.lock().expire(now) {}
        let held = self.size().0;
        let Some(log) = &self.file else { return Ok(()) };
        let (file, path, lines) = {
            let log = log.lock();
            (Arc::clone(&log.file), log.path.clone(), log.lines)
        };
        if lines <= held.saturating_mul(2) + SLACK {
            return file.sync_data();
        }
        let new = self.write(&path)?;
        *log.lock() = new;
        Ok(())
    }

    /// Writes the file anew. Most of it while others change the table; they only wait for what they have changed since.
    fn write(&self, path: &Path) -> io::Result<BanLog> {
        let mut out = BufWriter::new(AtomicFile::of(path)?);
        let mut lines = 0;
        let (last, lifted) = {
            let table = self.table.lock();
            (table.last, table.lifted())
        };
        for (ban, shared) in &lifted {
            write_line(&mut out, ban, BanLineKind::Lift, *shared)?;
        }
        let mut rest = Some(0..=last);
        while rest.is_some() {
            for ban in self.page(&mut rest, Time(i64::MIN)) {
                let shared = self.table.lock().knows_shared(&ban);
                write_line(&mut out, &ban, BanLineKind::Put, shared)?;
                lines += 1;
            }
        }
        out.flush()?;
        out.get_ref().file().sync_data()?;
        let _others_wait = self.file.as_ref().map(Mutex::lock);
        let since = {
            let table = self.table.lock();
            let changes = table.changes_since(last)?.into_iter();
            let line = |(ban, is_gone): (Ban, bool)| match (is_gone, table.lift_of(&ban)) {
                (false, _) => (table.knows_shared(&ban), BanLineKind::Put, ban),
                (true, None) => (true, BanLineKind::End, ban),
                (true, Some(lifted)) => (!lifted.is_unshared, BanLineKind::Lift, ban),
            };
            changes.map(line).collect::<Vec<_>>()
        };
        for (shared, kind, ban) in &since {
            write_line(&mut out, ban, *kind, *shared)?;
        }
        let lines = lines + lifted.len();
        let draft = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let (path, file) = (path.to_path_buf(), Arc::new(draft.commit()?));
        Ok(BanLog { path, file, lines: lines + since.len() })
    }

    fn append(&self, lines: &[u8]) {
        let (Some(file), false) = (&self.file, lines.is_empty()) else { return };
        let mut log = file.lock();
        log.lines += lines.iter().filter(|byte| **byte == b'\n').count();
        if let Err(error) = (&*log.file).write_all(lines) {
            tracing::error!(path = %log.path.display(), %error, "labels hold, but would be lost by a restart");
        }
    }
}

#[cfg(test)]
mod tests;

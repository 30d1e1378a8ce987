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

use parking_lot::{Mutex, RwLock};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use disk::AtomicFile;
use event::Time;
use plan::AllowPlan;
use serde::{Deserialize, Serialize};

/// Most keys at once, some 200 bytes each. Beyond it the one whose label ends first makes room.
pub(crate) const KEYS_MAX: usize = 4_000_000;
/// Most removals that are remembered.
const REMOVED_MAX: usize = 100_000;
/// Most lifted labels that are remembered until they would have ended. Beyond it the one that ends first is forgotten.
const LIFTED_MAX: usize = 100_000;
/// The kind and the origin of what a block list bans.
const BLOCK_LIST: &str = "block_list";
/// Longest value that is kept.
const VALUE_BYTES_MAX: usize = 1024;
/// Lines beyond twice those in use at which the file is written anew.
const SLACK: usize = 10_000;
/// Keys that are told, written or let go of before others get a turn.
const PAGE: usize = 1000;
/// Sources beyond which those that nothing has any more are let go of.
const SOURCES: usize = 10_000;

/// A label, and what put it on a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelSource {
    /// The pipeline whose label it is.
    pub pipeline: String,
    /// The kind of the key.
    pub kind: String,
    /// The label.
    pub label: String,
    /// The thing to be done, as the label's `decision` says: `ban`, `captcha`.
    pub decision: String,
    /// The source that put the label on it: a rule's name, or who did.
    pub by: String,
}

/// The ban list's entry of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    /// A number of its own.
    pub id: u64,
    /// The scope of the key: an address, a network, or something else.
    pub scope: BanScope,
    /// The label, and what put it on.
    pub source: Arc<LabelSource>,
    /// The piece, such as an address.
    pub value: Arc<str>,
    /// The end of the ban.
    pub until: Time,
}

/// The sort of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BanScope {
    /// An address.
    Ip,
    /// A network, as `192.0.2.0/24`.
    Range,
    /// Any other subject: a user, a session.
    Other,
}

impl BanScope {
    /// Returns the scope that the value itself shows.
    pub fn of(value: &str) -> BanScope {
        match AddressRange::parse(value) {
            None => BanScope::Other,
            Some(_) if value.contains('/') => BanScope::Range,
            Some(_) => BanScope::Ip,
        }
    }
}

/// Addresses that begin with the same bits. Those of IPv4 are taken as they are mapped into IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressRange {
    bits: u128,
    length: u8,
}

impl AddressRange {
    /// The number of bits that IPv4 has less.
    const V4: u8 = 96;
    const WHOLE: u8 = 128;

    /// Reads an address, or a network as `192.0.2.0/24`; bits behind the prefix are let go of.
    pub fn parse(text: &str) -> Option<AddressRange> {
        let Some((address, bits)) = text.split_once('/') else {
            return Some(AddressRange::of(text.parse().ok()?));
        };
        let address: IpAddr = address.parse().ok()?;
        let whole = AddressRange::of(address);
        let bits: u8 = bits.parse().ok()?;
        let length = if address.is_ipv4() { bits.checked_add(AddressRange::V4)? } else { bits };
        (length <= AddressRange::WHOLE).then(|| whole.cut(length))
    }

    /// One address.
    pub fn of(address: IpAddr) -> AddressRange {
        let bits = match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        AddressRange { bits, length: AddressRange::WHOLE }
    }

    fn cut(self, length: u8) -> AddressRange {
        let mask = u128::MAX.checked_shl(u32::from(AddressRange::WHOLE - length)).unwrap_or(0);
        AddressRange { bits: self.bits & mask, length }
    }

    /// Returns true if all addresses of another are in it.
    pub fn contains(self, other: AddressRange) -> bool {
        self.length <= other.length && other.cut(self.length) == self
    }

    /// Returns true if it has an address at which this machine itself is, or none: nobody outside is met there.
    pub fn is_of_this_machine(self) -> bool {
        let own = ["127.0.0.0/8", "0.0.0.0", "::1", "::"].into_iter().filter_map(AddressRange::parse);
        own.into_iter().any(|own| self.contains(own) || own.contains(self))
    }
}

impl std::fmt::Display for AddressRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let address = std::net::Ipv6Addr::from_bits(self.bits);
        let (address, whole, length) = match address.to_ipv4_mapped() {
            Some(v4) if self.length >= AddressRange::V4 => {
                (IpAddr::V4(v4), 32, self.length - AddressRange::V4)
            }
            _ => (IpAddr::V6(address), AddressRange::WHOLE, self.length),
        };
        if length == whole { write!(f, "{address}") } else { write!(f, "{address}/{length}") }
    }
}

/// The changes since somebody asked. What is new is read by [`Register::page`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BanChanges {
    /// The numbers of the changes whose labels hold and were put on, or made longer.
    pub new: Option<RangeInclusive<u64>>,
    /// Labels that have ended, or were taken off.
    pub deleted: Vec<Ban>,
    /// The number to ask with the next time.
    pub next: u64,
}

/// A label that is put on a key.
#[derive(Clone, Debug)]
pub(crate) struct NewBan {
    pub(crate) pipeline: String,
    pub(crate) kind: String,
    pub(crate) label: String,
    pub(crate) decision: String,
    pub(crate) value: String,
    pub(crate) by: String,
    pub(crate) until: Time,
}

/// A change of a ban that nodes share: it is put on a key, or lifted.
#[derive(Clone, Debug)]
pub(crate) struct SharedBan {
    pub(crate) ban: NewBan,
    pub(crate) is_lift: bool,
}

/// A change that other nodes have not heard of.
#[derive(Clone, Debug)]
pub(crate) struct UnsharedBan {
    pub(crate) ban: Ban,
    /// The number of the change; `None` for a lift.
    number: Option<u64>,
}

impl UnsharedBan {
    pub(crate) fn is_lift(&self) -> bool {
        self.number.is_none()
    }
}

/// A label that was lifted before its end.
#[derive(Debug)]
struct LiftedBan {
    ban: Ban,
    is_unshared: bool,
    /// True until it is put on the key again: rules do not see it until its end.
    hides: bool,
}

/// The part of the table that nodes share.
#[derive(Debug, Default)]
struct BanSharing {
    /// The numbers of the bans that other nodes have not heard of.
    unshared: BTreeSet<u64>,
    /// The lifted labels by value, and their ends.
    lifted: HashMap<Arc<str>, Vec<LiftedBan>>,
    ends: BTreeSet<(Time, Arc<str>)>,
    /// The values of lifts that other nodes have not heard of.
    unshared_lifts: BTreeSet<Arc<str>>,
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
    /// The table's allow list, for who does not want to wait for the table.
    allow: RwLock<Arc<AllowPlan>>,
}

/// The fields that hold a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BanTarget {
    Addresses(AddressRange),
    Text(Arc<str>),
}

impl BanTarget {
    fn of(value: &Arc<str>) -> BanTarget {
        match AddressRange::parse(value) {
            Some(range) => BanTarget::Addresses(range),
            None => BanTarget::Text(Arc::clone(value)),
        }
    }
}

#[derive(Debug, Default)]
struct BanTable {
    /// The bans by the number of their last change.
    held: BTreeMap<u64, Ban>,
    places: BTreeSet<(BanTarget, u64)>,
    /// The number of ranges of each length of prefix.
    lengths: BTreeMap<u8, usize>,
    /// The bans by their end.
    ends: BTreeSet<(Time, u64)>,
    sources: BTreeSet<Arc<LabelSource>>,
    removed: VecDeque<(u64, Ban)>,
    /// The number of the last change that is not remembered any more.
    forgotten: u64,
    /// The number of the last change.
    last: u64,
    ids: u64,
    /// The number of keys that had to make room.
    crowded_out: u64,
    /// `None` for a node of its own.
    sharing: Option<BanSharing>,
    /// The allow list in force.
    allow: Arc<AllowPlan>,
}

#[derive(Debug)]
struct BanLog {
    path: PathBuf,
    file: Arc<File>,
    lines: usize,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum BanLogLine<'a> {
    Put(BanLogEntry<'a>),
    Lift(BanLogEntry<'a>),
    /// An end by itself, or to make room.
    End(BanLogEntry<'a>),
    /// Other nodes have heard of all bans up to an id.
    Shared {
        through: u64,
    },
}

/// The sort of a line on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BanLineKind {
    Put,
    Lift,
    End,
}

/// The content of a line on a key.
#[derive(Serialize, Deserialize)]
struct BanLogEntry<'a> {
    id: u64,
    pipeline: Cow<'a, str>,
    kind: Cow<'a, str>,
    scope: BanScope,
    label: Cow<'a, str>,
    decision: Cow<'a, str>,
    value: Cow<'a, str>,
    by: Cow<'a, str>,
    until: Time,
    /// True if other nodes have heard of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    shared: bool,
}

impl<'a> BanLogEntry<'a> {
    fn of(told: &'a Ban, shared: bool) -> BanLogEntry<'a> {
        let LabelSource { pipeline, kind, label, decision, by } = &*told.source;
        let [pipeline, kind, label, decision, by] =
            [pipeline, kind, label, decision, by].map(|text| Cow::Borrowed(text.as_str()));
        let value = Cow::Borrowed(&*told.value);
        BanLogEntry {
            id: told.id,
            pipeline,
            kind,
            scope: told.scope,
            label,
            decision,
            value,
            by,
            until: told.until,
            shared,
        }
    }
}

/// A change as a line of the file.
fn write_line(out: &mut impl Write, told: &Ban, kind: BanLineKind, shared: bool) -> io::Result<()> {
    let entry = BanLogEntry::of(told, shared);
    seal_line(
        out,
        &match kind {
            BanLineKind::Put => BanLogLine::Put(entry),
            BanLineKind::Lift => BanLogLine::Lift(entry),
            BanLineKind::End => BanLogLine::End(entry),
        },
    )
}

/// A line with its checksum behind a tab.
fn seal_line(out: &mut impl Write, line: &BanLogLine<'_>) -> io::Result<()> {
    let text = serde_json::to_vec(line)?;
    out.write_all(&text)?;
    writeln!(out, "\t{:08x}", crc32fast::hash(&text))
}

/// Reads a line without its end; `None` if it is not as it was written.
fn read_line(line: &[u8]) -> Option<BanLogLine<'_>> {
    let (text, crc) = line.split_at_checked(line.len().checked_sub(9)?)?;
    let is_sound = crc == format!("\t{:08x}", crc32fast::hash(text)).as_bytes();
    is_sound.then(|| serde_json::from_slice(text).ok()).flatten()
}

/// Returns the number of lines of a file of labels that cannot be read, but for a torn last one, as a crash leaves it.
pub(crate) fn damaged_lines(path: &Path) -> io::Result<u64> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        file => BufReader::new(file?),
    };
    let (mut damaged, mut line) = (0, Vec::new());
    while file.read_until(b'\n', &mut line)? > 0 {
        let whole = line.strip_suffix(b"\n");
        damaged += u64::from(whole.is_some_and(|whole| read_line(whole).is_none()));
        line.clear();
    }
    Ok(damaged)
}

impl BanList {
    /// Reads the table of a data directory, of a node that shares its bans or keeps them to itself. A torn last line, as a crash
    /// leaves it, is passed over.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn open(path: &Path, shares: bool) -> io::Result<BanList> {
        let table = BanTable::read(path, shares)?;
        let register = BanList::default();
        register.note(&table);
        let register = BanList { table: Mutex::new(table), ..register };
        let log = register.write(path)?;
        Ok(BanList { file: Some(Mutex::new(log)), ..register })
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
        let meant = table.held.iter().filter(|(_, told)| is_meant(&told.value));
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
                let NewBan { pipeline, kind, label, decision, value, by, until } = put;
                if AddressRange::parse(&value).is_some_and(AddressRange::is_of_this_machine) {
                    tracing::debug!(pipeline, label, by, "a label of this machine itself is told nobody");
                    continue;
                }
                if table.allow.find(&value).is_some() {
                    continue;
                }
                let source = table.source(LabelSource { pipeline, kind, label, decision, by });
                let value = Arc::from(value);
                let before = table.find(&source, &value);
                if before.is_some_and(|(_, end)| end >= until) {
                    continue;
                }
                before.map(|(number, _)| table.forget(number));
                table.ids += 1;
                let told = Ban { id: table.ids, scope: BanScope::of(&value), source, value, until };
                // Writing to a vector cannot fail, and no type here refuses to be written.
                let _ = write_line(&mut lines, &told, BanLineKind::Put, false);
                table.put_as(told, false);
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
                    let value: Arc<str> = Arc::from(value.as_str());
                    new.insert(Arc::clone(&value));
                    let before = table.find(&source, &value);
                    if before.is_some_and(|(_, end)| end.0 - now.0 > (until.0 - now.0) / 2) {
                        continue;
                    }
                    before.map(|(number, _)| table.forget(number));
                    table.ids += 1;
                    let scope = BanScope::of(&value);
                    let told =
                        Ban { id: table.ids, scope, source: Arc::clone(&source), value, until: *until };
                    let _ = write_line(&mut lines, &told, BanLineKind::Put, true);
                    table.put_as(told, true);
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
                    let Some(told) = table.remove(number) else { continue };
                    let _ = write_line(&mut lines, &told, BanLineKind::End, false);
                    ended += 1;
                }
                self.note(&table);
            }
            self.append(&lines);
        }
        ended
    }

    /// Notes what look-ups ask before they take the lock.
    fn note(&self, table: &BanTable) {
        self.has_ranges.store(table.has_ranges(), Ordering::Release);
        let has_lifted = table.sharing.as_ref().is_some_and(|sharing| !sharing.lifted.is_empty());
        self.has_lifted.store(has_lifted, Ordering::Release);
    }

    /// The label, and what put it on, of each that keys of a value have.
    pub(crate) fn labels_of(&self, value: &str) -> Vec<Arc<LabelSource>> {
        self.table.lock().of_value(value).map(|(_, told)| Arc::clone(&told.source)).collect()
    }

    /// Takes labels off all keys of a value; answers how many.
    pub(crate) fn lift(&self, value: &str) -> usize {
        let (mut lines, mut lifted) = (Vec::new(), 0);
        {
            let mut table = self.table.lock();
            let numbers: Vec<u64> = table.of_value(value).map(|(number, _)| number).collect();
            for number in numbers {
                let Some(told) = table.remove(number) else { continue };
                let _ = write_line(&mut lines, &told, BanLineKind::Lift, false);
                if let Some(sharing) = &mut table.sharing {
                    sharing.lift(told, true);
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
            let number =
                table.of_value(value).find(|(_, told)| *told.source == *source).map(|(number, _)| number);
            let told = number.and_then(|number| table.remove(number));
            if let Some(told) = &told {
                let _ = write_line(&mut lines, told, BanLineKind::Lift, false);
            }
            let is_lifted = told.is_some();
            if let (Some(told), Some(sharing)) = (told, &mut table.sharing) {
                sharing.lift(told, true);
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
            count += page.iter().filter(|told| is_meant(&told.value)).count() as u64;
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
            for told in self.page(&mut rest, Time(i64::MIN)) {
                erased += if is_meant(&told.value) { self.lift(&told.value) } else { 0 };
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
                let NewBan { pipeline, kind, label, decision, value, by, until } = ban;
                let is_own = AddressRange::parse(&value).is_some_and(AddressRange::is_of_this_machine);
                if is_own || value.len() > VALUE_BYTES_MAX || table.allow.find(&value).is_some() {
                    continue;
                }
                let source = table.source(LabelSource { pipeline, kind, label, decision, by });
                let value = Arc::from(value);
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
                    let scope = BanScope::of(&value);
                    let told = lifted.unwrap_or(Ban { id: 0, scope, source, value, until });
                    let _ = write_line(&mut lines, &told, BanLineKind::Lift, true);
                    if let Some(sharing) = &mut table.sharing {
                        sharing.lift(told, false);
                    }
                    continue;
                }
                before.map(|(number, _)| table.forget(number));
                table.ids += 1;
                let told = Ban { id: table.ids, scope: BanScope::of(&value), source, value, until };
                let _ = write_line(&mut lines, &told, BanLineKind::Put, true);
                table.put_as(told, true);
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
        let Some(lifted) = table.sharing.as_ref().and_then(|sharing| sharing.lifted.get(value)) else {
            return false;
        };
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

    /// Returns what holds of a value, in the order in which it was put on.
    pub fn of_value(&self, value: &str, now: Time) -> Vec<Ban> {
        let table = self.table.lock();
        table.of_value(value).filter(|(_, told)| told.until > now).map(|(_, told)| told.clone()).collect()
    }

    /// Returns what holds of an address, and of the networks that it is in.
    pub fn of_address(&self, address: IpAddr, now: Time) -> Vec<Ban> {
        let table = self.table.lock();
        let all = table.around(AddressRange::of(address), AddressRange::WHOLE);
        all.filter(|told| told.until > now).cloned().collect()
    }

    /// Returns true if a network that an address is in has a label at a time.
    pub(crate) fn is_in_range(
        &self,
        (pipeline, kind, label): (&str, &str, &str),
        address: IpAddr,
        time: Time,
    ) -> bool {
        let table = self.table.lock();
        table.around(AddressRange::of(address), AddressRange::WHOLE - 1).any(|told| {
            let source = &told.source;
            told.until > time && (&*source.pipeline, &*source.kind, &*source.label) == (pipeline, kind, label)
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

    /// Returns what has changed since a number that was answered before; all that holds, where that is too long ago or not a
    /// number of this table.
    pub fn since(&self, number: u64, now: Time) -> BanChanges {
        {
            let mut table = self.table.lock();
            table.expire(now);
            if number >= table.forgotten && number <= table.last {
                let later = table.removed.partition_point(|(removed, _)| *removed <= number);
                let deleted = table.removed.range(later..).map(|(_, told)| told.clone()).collect();
                let new = (number < table.last).then(|| number + 1..=table.last);
                return BanChanges { new, deleted, next: table.last };
            }
        }
        self.held(now)
    }

    /// The next of those that hold, in the order in which they were put on; `rest` is what is left of
    /// [`Changes::new`], `None` once all are told. What has changed again since then is told with the next changes.
    pub fn page(&self, rest: &mut Option<RangeInclusive<u64>>, now: Time) -> Vec<Ban> {
        let Some(range) = rest.take() else { return Vec::new() };
        let table = self.table.lock();
        let page: Vec<(&u64, &Ban)> = table.held.range(range.clone()).take(PAGE).collect();
        if let (PAGE.., Some((last, _))) = (page.len(), page.last())
            && *last < range.end()
        {
            *rest = Some(*last + 1..=*range.end());
        }
        page.into_iter().filter(|(_, told)| told.until > now).map(|(_, told)| told.clone()).collect()
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
        for (told, shared) in &lifted {
            write_line(&mut out, told, BanLineKind::Lift, *shared)?;
        }
        let mut rest = Some(0..=last);
        while rest.is_some() {
            for told in self.page(&mut rest, Time(i64::MIN)) {
                let shared = self.table.lock().knows_shared(&told);
                write_line(&mut out, &told, BanLineKind::Put, shared)?;
                lines += 1;
            }
        }
        out.flush()?;
        out.get_ref().file().sync_data()?;
        let _others_wait = self.file.as_ref().map(Mutex::lock);
        let since = {
            let table = self.table.lock();
            let changes = table.changes_since(last)?.into_iter();
            let line = |(told, is_gone): (Ban, bool)| match (is_gone, table.lift_of(&told)) {
                (false, _) => (table.knows_shared(&told), BanLineKind::Put, told),
                (true, None) => (true, BanLineKind::End, told),
                (true, Some(lifted)) => (!lifted.is_unshared, BanLineKind::Lift, told),
            };
            changes.map(line).collect::<Vec<_>>()
        };
        for (shared, kind, told) in &since {
            write_line(&mut out, told, *kind, *shared)?;
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

impl BanSharing {
    /// Notes that a label was lifted.
    fn lift(&mut self, ban: Ban, is_unshared: bool) {
        let value = Arc::clone(&ban.value);
        self.unlift(&ban.source, &value, true);
        self.ends.insert((ban.until, Arc::clone(&value)));
        if is_unshared {
            self.unshared_lifts.insert(Arc::clone(&value));
        }
        self.lifted.entry(value).or_default().push(LiftedBan { ban, is_unshared, hides: true });
        if self.ends.len() > LIFTED_MAX
            && let Some((end, value)) = self.ends.first().cloned()
        {
            self.forget(end, &value);
        }
    }

    /// Notes that a label is put on a key again. A lift that others have not heard of is still to be told, before that.
    fn unlift(&mut self, source: &LabelSource, value: &Arc<str>, with_unshared: bool) {
        let Some(lifted) = self.lifted.get_mut(value) else { return };
        let is_it = |lifted: &LiftedBan| is_same_label(&lifted.ban.source, source);
        lifted.iter_mut().filter(|lifted| is_it(lifted)).for_each(|lifted| lifted.hides = false);
        lifted.retain(|lifted| !is_it(lifted) || (lifted.is_unshared && !with_unshared));
        self.tidy(value);
    }

    /// Keeps what is known of a value's lifts in step with what is left of them.
    fn tidy(&mut self, value: &Arc<str>) {
        let left = self.lifted.get(value).map(Vec::as_slice).unwrap_or_default();
        if !left.iter().any(|lifted| lifted.is_unshared) {
            self.unshared_lifts.remove(value);
        }
        if left.is_empty() {
            self.lifted.remove(value);
        }
    }

    /// Forgets the lifts of a value that end by a time.
    fn forget(&mut self, end: Time, value: &Arc<str>) {
        self.ends.remove(&(end, Arc::clone(value)));
        if let Some(lifted) = self.lifted.get_mut(value) {
            lifted.retain(|lifted| lifted.ban.until > end);
        }
        self.tidy(value);
    }

    /// Forgets all lifts of a value.
    fn forget_value(&mut self, value: &Arc<str>) {
        self.lifted.remove(value);
        self.tidy(value);
    }

    fn is_unshared_lift(&self, source: &LabelSource, value: &str, now: Time) -> bool {
        let lifted = self.lifted.get(value).into_iter().flatten();
        let mut lifted = lifted.filter(|lifted| lifted.is_unshared && lifted.ban.until > now);
        lifted.any(|lifted| is_same_label(&lifted.ban.source, source))
    }

    /// Notes that others have heard of a lift; returns false if there is none that is still to be told.
    fn acknowledge_lift(&mut self, ban: &Ban) -> bool {
        let Some(lifted) = self.lifted.get_mut(&ban.value) else { return false };
        let sent = lifted.iter_mut().find(|lifted| {
            lifted.is_unshared && lifted.ban.id == ban.id && is_same_label(&lifted.ban.source, &ban.source)
        });
        let Some(sent) = sent else { return false };
        sent.is_unshared = false;
        lifted.retain(|lifted| lifted.is_unshared || lifted.hides);
        self.tidy(&ban.value);
        true
    }

    /// Lets go of some of what would have ended by now.
    fn expire(&mut self, now: Time) {
        for _ in 0..PAGE {
            match self.ends.first().cloned() {
                Some((end, value)) if end <= now => self.forget(end, &value),
                _ => return,
            }
        }
    }
}

fn is_same_label(one: &LabelSource, other: &LabelSource) -> bool {
    (&one.pipeline, &one.kind, &one.label) == (&other.pipeline, &other.kind, &other.label)
}

impl BanTable {
    fn read(path: &Path, shares: bool) -> io::Result<BanTable> {
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
                    let told = table.ban(entry);
                    let before = table.find(&told.source, &told.value);
                    before.map(|(number, _)| table.forget(number));
                    table.put_as(told, shared);
                }
                Some(BanLogLine::Lift(entry)) => {
                    let shared = entry.shared;
                    let told = table.ban(entry);
                    let before = table.find(&told.source, &told.value);
                    let is_acknowledged = shared
                        && table.sharing.as_mut().is_some_and(|sharing| sharing.acknowledge_lift(&told));
                    if is_acknowledged {
                        continue;
                    }
                    before.map(|(number, _)| table.remove(number));
                    if let Some(sharing) = &mut table.sharing {
                        sharing.lift(told, !shared);
                    }
                }
                Some(BanLogLine::End(entry)) => {
                    let told = table.ban(entry);
                    let before = table.find(&told.source, &told.value);
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
    fn put_as(&mut self, told: Ban, shared: bool) {
        let (source, value) = (Arc::clone(&told.source), Arc::clone(&told.value));
        self.put(told);
        let number = self.last;
        if let Some(sharing) = &mut self.sharing {
            sharing.unlift(&source, &value, false);
            if !shared {
                sharing.unshared.insert(number);
            }
        }
    }

    /// Returns true if others are known to have heard of a ban.
    fn knows_shared(&self, told: &Ban) -> bool {
        let Some(sharing) = &self.sharing else { return false };
        let held = self.find(&told.source, &told.value);
        held.is_some_and(|(number, _)| !sharing.unshared.contains(&number))
    }

    /// The lift of a label, if it is remembered.
    fn lift_of(&self, told: &Ban) -> Option<&LiftedBan> {
        let lifted = self.sharing.as_ref()?.lifted.get(&told.value)?;
        lifted.iter().find(|lifted| is_same_label(&lifted.ban.source, &told.source))
    }

    /// All lifts that are remembered, and whether others have heard of them.
    fn lifted(&self) -> Vec<(Ban, bool)> {
        let all = self.sharing.iter().flat_map(|sharing| sharing.lifted.values().flatten());
        all.map(|lifted| (lifted.ban.clone(), !lifted.is_unshared)).collect()
    }

    fn ban(&mut self, entry: BanLogEntry<'_>) -> Ban {
        let BanLogEntry { id, pipeline, kind, scope, label, decision, value, by, until, .. } = entry;
        let [pipeline, kind, label, decision, by] =
            [pipeline, kind, label, decision, by].map(Cow::into_owned);
        let source = self.source(LabelSource { pipeline, kind, label, decision, by });
        Ban { id, scope, source, value: value.into(), until }
    }

    /// Returns the source that others share.
    fn source(&mut self, source: LabelSource) -> Arc<LabelSource> {
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

    fn has_ranges(&self) -> bool {
        self.lengths.keys().any(|length| *length < AddressRange::WHOLE)
    }

    fn at(&self, place: BanTarget) -> impl Iterator<Item = (u64, &Ban)> {
        let all = self.places.range((place.clone(), 0)..=(place, u64::MAX));
        all.filter_map(|(_, number)| Some((*number, self.held.get(number)?)))
    }

    fn of_value(&self, value: &str) -> impl Iterator<Item = (u64, &Ban)> {
        self.at(BanTarget::of(&Arc::from(value))).filter(move |(_, told)| *told.value == *value)
    }

    /// Returns the entries of the networks that some addresses are in, whose prefix is no longer than so much.
    fn around(&self, addresses: AddressRange, length: u8) -> impl Iterator<Item = &Ban> {
        let lengths = self.lengths.range(..=length).map(|(length, _)| *length);
        lengths
            .flat_map(move |length| self.at(BanTarget::Addresses(addresses.cut(length))))
            .map(|(_, told)| told)
    }

    /// The number and the end of a label that a key has.
    fn find(&self, source: &LabelSource, value: &Arc<str>) -> Option<(u64, Time)> {
        let name = |source: &LabelSource| [&source.pipeline, &source.kind, &source.label].map(String::clone);
        let wanted = name(source);
        let mut all = self.of_value(value);
        all.find(|(_, told)| name(&told.source) == wanted).map(|(number, told)| (number, told.until))
    }

    fn put(&mut self, told: Ban) {
        self.put_within(told, KEYS_MAX);
    }

    fn put_within(&mut self, told: Ban, keys_max: usize) {
        self.ids = self.ids.max(told.id);
        while self.held.len() >= keys_max {
            let Some((_, first)) = self.ends.first().copied() else { break };
            self.remove(first);
            self.crowded_out += 1;
        }
        self.last += 1;
        let place = BanTarget::of(&told.value);
        if let BanTarget::Addresses(range) = place {
            *self.lengths.entry(range.length).or_default() += 1;
        }
        self.places.insert((place, self.last));
        self.ends.insert((told.until, self.last));
        self.held.insert(self.last, told);
    }

    /// Takes an entry out without a word.
    fn forget(&mut self, number: u64) -> Option<Ban> {
        let told = self.held.remove(&number)?;
        let place = BanTarget::of(&told.value);
        if let BanTarget::Addresses(range) = place
            && let Some(count) = self.lengths.get_mut(&range.length)
        {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&range.length);
            }
        }
        self.places.remove(&(place, number));
        self.ends.remove(&(told.until, number));
        if let Some(sharing) = &mut self.sharing {
            sharing.unshared.remove(&number);
        }
        Some(told)
    }

    fn remove(&mut self, number: u64) -> Option<Ban> {
        let told = self.forget(number)?;
        self.last += 1;
        self.removed.push_back((self.last, told.clone()));
        while self.removed.len() > REMOVED_MAX {
            if let Some((number, _)) = self.removed.pop_front() {
                self.forgotten = number;
            }
        }
        Some(told)
    }

    /// Lets go of some of those that have ended; answers whether there may be more.
    fn expire(&mut self, now: Time) -> bool {
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
    fn changes_since(&self, number: u64) -> io::Result<Vec<(Ban, bool)>> {
        if number < self.forgotten {
            return Err(io::Error::other("more labels ended meanwhile than are remembered"));
        }
        let later = self.removed.partition_point(|(removed, _)| *removed <= number);
        let removed = self.removed.range(later..).map(|(number, told)| (*number, told.clone(), true));
        let put = self.held.range(number + 1..).map(|(number, told)| (*number, told.clone(), false));
        let mut changes: Vec<(u64, Ban, bool)> = removed.chain(put).collect();
        changes.sort_unstable_by_key(|(number, ..)| *number);
        Ok(changes.into_iter().map(|(_, told, lifts)| (told, lifts)).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use event::Span;

    use super::*;

    const NOW: Time = Time::from_seconds(1_779_012_000);

    fn put(value: &str, seconds: i64) -> NewBan {
        NewBan {
            pipeline: "web".into(),
            kind: "ip".into(),
            label: "scanner".into(),
            decision: "ban".into(),
            value: value.into(),
            by: "PROBE".into(),
            until: NOW + Span::seconds(seconds),
        }
    }

    fn values(told: &[Ban]) -> Vec<&str> {
        told.iter().map(|told| &*told.value).collect()
    }

    /// All of what is new, page by page.
    fn new(register: &BanList, changes: &BanChanges, now: Time) -> Vec<Ban> {
        let (mut rest, mut all) = (changes.new.clone(), Vec::new());
        while rest.is_some() {
            all.extend(register.page(&mut rest, now));
        }
        all
    }

    #[test]
    fn who_polls_is_told_what_has_changed() {
        let register = BanList::default();
        register.put(vec![put("192.0.2.1", 60), put("192.0.2.2", 600)]);
        let first = register.held(NOW);
        assert_eq!(values(&new(&register, &first, NOW)), ["192.0.2.1", "192.0.2.2"]);
        assert_eq!(register.since(first.next, NOW), BanChanges { next: first.next, ..BanChanges::default() });
        // The same again says nothing new, a longer one does.
        register.put(vec![put("192.0.2.2", 500), put("192.0.2.3", 600), put("192.0.2.1", 90)]);
        let second = register.since(first.next, NOW);
        assert_eq!(values(&new(&register, &second, NOW)), ["192.0.2.3", "192.0.2.1"]);
        let later = NOW + Span::seconds(90);
        let third = register.since(second.next, later);
        let told = (new(&register, &third, later), values(&third.deleted));
        assert_eq!(told, (vec![], vec!["192.0.2.1"]));
        assert_eq!(register.lift("192.0.2.3"), 1);
        let fourth = register.since(third.next, later);
        assert_eq!(values(&fourth.deleted), ["192.0.2.3"]);
        assert_eq!(values(&new(&register, &register.held(later), later)), ["192.0.2.2"]);
        // A number of another table's.
        assert_eq!(values(&new(&register, &register.since(u64::MAX, later), later)), ["192.0.2.2"]);
    }

    #[test]
    fn a_restart_forgets_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("labels.ndjson");
        let register = BanList::open(&path, false).unwrap();
        register.put(vec![put("192.0.2.1", 60), put("192.0.2.2", 600), put("192.0.2.2", 700)]);
        register.lift("192.0.2.1");
        register.maintain(NOW).unwrap();
        let before = new(&register, &register.held(NOW), NOW);
        drop(register);
        // A crash in the middle of a line.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"put\":{\"id\"").unwrap();
        let register = BanList::open(&path, false).unwrap();
        assert_eq!(new(&register, &register.held(NOW), NOW), before);
        register.put(vec![put("192.0.2.9", 60)]);
        let after = new(&register, &register.held(NOW), NOW);
        assert!(after[1].id > before[0].id, "numbers are not given twice");
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
    }

    /// Puts, ends and lifts in any order: look-ups, polls and the file say what a plain list says.
    #[test]
    fn the_table_says_what_a_list_says() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("labels.ndjson");
        let mut register = BanList::open(&path, false).unwrap();
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let value = |number: u64| match number {
            0..20 => format!("192.0.2.{number}"),
            20..30 => format!("192.0.2.{}/{}", (number - 20) * 16, 28),
            30..33 => format!("192.0.{}.0/16", number - 30),
            33..38 => format!("2001:db8::{number:x}"),
            38 => "2001:db8::/64".to_owned(),
            _ => format!("user{number}"),
        };
        let (mut list, mut now): (BTreeMap<String, Time>, Time) = (BTreeMap::new(), NOW);
        let (mut seen, mut place): (BTreeSet<String>, Option<u64>) = (BTreeSet::new(), None);
        for step in 0..2000 {
            match random(10) {
                0..6 => {
                    let (value, seconds) = (value(random(45)), 1 + random(100) as i64);
                    let until = now + Span::seconds(seconds);
                    register.put(vec![NewBan { until, ..put(&value, 0) }]);
                    list.entry(value).and_modify(|end| *end = until.max(*end)).or_insert(until);
                }
                6 => {
                    let value = value(random(45));
                    register.lift(&value);
                    list.remove(&value);
                }
                7 => now = now + Span::seconds(random(20) as i64),
                8 => register.maintain(now).unwrap(),
                _ if random(20) == 0 => {
                    (register, place) = (BanList::open(&path, false).unwrap(), None);
                }
                _ => {}
            }
            list.retain(|_, until| *until > now);
            if step % 7 == 0 {
                let address: IpAddr = value(random(20)).parse().unwrap();
                let mut found: Vec<String> =
                    register.of_address(address, now).iter().map(|told| told.value.to_string()).collect();
                let covers = |value: &str| {
                    AddressRange::parse(value).is_some_and(|range| range.contains(AddressRange::of(address)))
                };
                found.sort();
                let expected: Vec<&String> = list.keys().filter(|value| covers(value)).collect();
                assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{address}");
                let in_range = register.is_in_range(("web", "ip", "scanner"), address, now);
                assert_eq!(in_range, expected.iter().any(|value| value.contains('/')));
            }
            if step % 5 == 0 {
                let changes = place.map_or_else(|| register.held(now), |place| register.since(place, now));
                if place.is_none() {
                    seen.clear();
                }
                for told in &changes.deleted {
                    seen.remove(&*told.value);
                }
                seen.extend(new(&register, &changes, now).iter().map(|told| told.value.to_string()));
                place = Some(changes.next);
                assert_eq!(seen.iter().collect::<Vec<_>>(), list.keys().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn ranges_are_read_and_shown() {
        let shown = |text: &str| AddressRange::parse(text).map(|range| range.to_string());
        let check =
            |text: &str, expected: Option<&str>| assert_eq!(shown(text).as_deref(), expected, "{text}");
        check("192.0.2.7", Some("192.0.2.7"));
        check("192.0.2.7/24", Some("192.0.2.0/24"));
        check("192.0.2.7/32", Some("192.0.2.7"));
        check("::ffff:192.0.2.7", Some("192.0.2.7"));
        check("2001:db8::7/64", Some("2001:db8::/64"));
        check("0.0.0.0/0", Some("0.0.0.0/0"));
        check("::/0", Some("::/0"));
        check("192.0.2.0/33", None);
        check("not an address", None);
        for own in ["127.0.0.1", "127.8.0.0/16", "0.0.0.0", "0.0.0.0/0", "::1", "::/0", "::ffff:127.0.0.1"] {
            assert!(AddressRange::parse(own).unwrap().is_of_this_machine(), "{own}");
        }
        assert!(!AddressRange::parse("10.0.0.0/8").unwrap().is_of_this_machine());
    }

    #[test]
    fn this_machine_itself_is_told_nobody() {
        let register = BanList::default();
        register.put(vec![put("127.0.0.1", 60), put("::1", 60), put("192.0.2.1", 60)]);
        assert_eq!(values(&new(&register, &register.held(NOW), NOW)), ["192.0.2.1"]);
    }

    /// Nothing on the allow list is put there, and what was leaves when the list changes; who polls hears of it, and so does the file.
    #[test]
    fn what_is_allowed_is_not_banned() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("labels.ndjson");
        let register = BanList::open(&path, false).unwrap();
        register.put(vec![put("192.0.2.1", 60), put("192.0.2.0/28", 60), put("192.0.2.99", 60)]);
        let first = register.held(NOW);
        let text = "[allow]\nnetworks = [\"192.0.2.1\", \"198.51.100.0/24\"]\naccounts = [\"ann\"]\n";
        let config = plan::Config::from_text("allow.toml", text, &plan::Overrides::default());
        let allow = plan::Plan::compile(&config).unwrap().allow;
        assert_eq!(register.set_allow(Arc::clone(&allow)), 2);
        assert!(register.of_address("192.0.2.1".parse().unwrap(), NOW).is_empty());
        assert!(!register.has_ranges());
        let second = register.since(first.next, NOW);
        assert_eq!(values(&second.deleted), ["192.0.2.1", "192.0.2.0/28"]);
        register.put(vec![
            put("192.0.2.1", 600),
            put("198.51.100.7", 60),
            put("ann", 60),
            put("10.1.1.1", 60),
        ]);
        assert_eq!(values(&new(&register, &register.held(NOW), NOW)), ["192.0.2.99"]);
        drop(register);
        let register = BanList::open(&path, false).unwrap();
        assert_eq!(values(&new(&register, &register.held(NOW), NOW)), ["192.0.2.99"]);
        assert_eq!(register.set_allow(allow), 0);
    }

    #[test]
    fn values_show_what_they_are() {
        for (value, scope) in [
            ("192.0.2.1", BanScope::Ip),
            ("2001:db8::1", BanScope::Ip),
            ("192.0.2.0/24", BanScope::Range),
            ("2001:db8::/64", BanScope::Range),
            ("192.0.2.0/99", BanScope::Other),
            ("ann", BanScope::Other),
        ] {
            assert_eq!(BanScope::of(value), scope, "{value}");
        }
    }

    #[test]
    fn a_flipped_bit_costs_one_label() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("labels.ndjson");
        let register = BanList::open(&path, false).unwrap();
        register.put((0..3).map(|number| put(&format!("192.0.2.{number}"), 60)).collect());
        drop(register);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() - 1 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&path, flipped).unwrap();
            assert!(damaged_lines(&path).unwrap() > 0, "byte {at}");
            let left = BanList::open(&path, false).unwrap().size().0;
            // An end of line that is gone costs the line behind it, too.
            assert!(left == 2 || (left == 1 && whole[at] == b'\n'), "byte {at}: {left}");
        }
    }

    /// A look-up goes by the index: however many keys there are, it looks at as many. With `TOLLHOUSE_KEYS=4000000` it says
    /// how long that takes.
    #[test]
    fn a_look_up_looks_at_what_it_finds() {
        let register = BanList::default();
        let wanted = std::env::var("TOLLHOUSE_KEYS").ok().and_then(|keys| keys.parse::<u32>().ok());
        let keys = wanted.unwrap_or(20_000);
        let address = |at: u32| std::net::Ipv4Addr::from(0x0a00_0000 + at);
        for first in (0..keys).step_by(1000) {
            register
                .put((first..(first + 1000).min(keys)).map(|at| put(&address(at).to_string(), 60)).collect());
        }
        if wanted.is_some() {
            let started = std::time::Instant::now();
            let found: usize =
                (0..10_000).map(|at| register.of_address(address(at * 397 % keys).into(), NOW).len()).sum();
            println!("{keys} keys: {:?} a look-up, {found} of 10,000 found", started.elapsed() / 10_000);
        }
        register.put(vec![put("10.0.0.0/16", 60), put("10.0.0.0/24", 60)]);
        let table = register.table.lock();
        let address = AddressRange::parse("10.0.0.7").unwrap();
        assert_eq!(table.lengths.len(), 3, "as many looks as there are lengths");
        assert_eq!(table.around(address, AddressRange::WHOLE).count(), 3);
        assert_eq!(table.of_value("10.0.0.7").count(), 1);
    }

    #[test]
    fn the_table_is_bounded() {
        let mut table = BanTable::default();
        let [pipeline, kind, label, decision, by] = ["web", "user", "abuser", "ban", "R"].map(str::to_owned);
        let source = table.source(LabelSource { pipeline, kind, label, decision, by });
        let told = |at: usize| Ban {
            id: at as u64,
            scope: BanScope::Other,
            source: Arc::clone(&source),
            value: format!("user{at}").into(),
            until: NOW + Span::seconds(60 + at as i64),
        };
        let max = 1000;
        (0..max + 5).for_each(|at| table.put_within(told(at), max));
        assert_eq!((table.held.len(), table.crowded_out), (max, 5));
        assert_eq!(table.of_value("user4").count() + table.of_value("user5").count(), 1);
    }
}

//! What enforcement points are told: keys that have a label now, by what they are called.
//!
//! The ledger keeps only hashes of keys, which no firewall can use. So of labels that say so (`decision`), the piece is kept
//! beside the mark, until the label ends:
//!
//! ```text
//! rules, or somebody, mark a key ─► the ledger's mark, by hash           rules read it
//!                                └► this table, by piece, and its file   bouncers poll it
//! ```
//!
//! Every change has a number. Who polls says the number that was told last, and is told the changes since. The table and what
//! it remembers of removals are bounded; who comes too late for a removal is told everything anew.
//!
//! The file is a line of JSON a change, written when the change is made and synced with the housekeeping: a killed process
//! loses nothing, a crash of the machine the last seconds. It is written anew when most of it is out of date.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use disk::Draft;
use event::Time;
use serde::{Deserialize, Serialize};

/// Most keys at once. Beyond it the one whose label ends first makes room.
const KEYS_MAX: usize = 200_000;
/// Most removals that are remembered.
const REMOVED_MAX: usize = 100_000;
/// Longest value that is kept.
const VALUE_BYTES_MAX: usize = 1024;
/// Lines beyond those in use at which the file is written anew.
const SLACK: usize = 10_000;

/// What is told of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// A number of its own.
    pub id: u64,
    /// The pipeline whose label it is.
    pub pipeline: String,
    /// The kind of the key.
    pub kind: String,
    /// What the key is of: an address, a network, or something else.
    pub scope: Scope,
    /// The label.
    pub label: String,
    /// What is to be done, as the label's `decision` says: `ban`, `captcha`.
    pub decision: String,
    /// The piece, such as an address.
    pub value: String,
    /// What put the label on it: a rule's name, or who did.
    pub by: String,
    /// When it ends.
    pub until: Time,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// An address.
    Ip,
    /// A network, as `192.0.2.0/24`.
    Range,
    /// Something else: a user, a session.
    Other,
}

impl Scope {
    /// What the value itself shows.
    pub fn of(value: &str) -> Scope {
        if value.parse::<std::net::IpAddr>().is_ok() {
            return Scope::Ip;
        }
        let is_network = value.split_once('/').is_some_and(|(address, bits)| {
            let most = match address.parse::<std::net::IpAddr>() {
                Ok(address) if address.is_ipv4() => 32,
                Ok(_) => 128,
                Err(_) => return false,
            };
            bits.parse::<u8>().is_ok_and(|bits| bits <= most)
        });
        if is_network { Scope::Range } else { Scope::Other }
    }
}

/// What has changed since somebody asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Labels that hold and were put on, or made longer, since.
    pub new: Vec<Told>,
    /// Labels that have ended, or were taken off, since.
    pub deleted: Vec<Told>,
    /// What to ask with the next time.
    pub next: u64,
}

/// A label that is put on a key.
#[derive(Clone, Debug)]
pub(crate) struct Put {
    pub(crate) pipeline: String,
    pub(crate) kind: String,
    pub(crate) label: String,
    pub(crate) decision: String,
    pub(crate) value: String,
    pub(crate) by: String,
    pub(crate) until: Time,
}

/// The table.
#[derive(Debug, Default)]
pub struct Register {
    table: Mutex<Table>,
    file: Option<Mutex<Log>>,
}

/// Pipeline, kind, label and value.
type Name = (String, String, String, String);

#[derive(Debug, Default)]
struct Table {
    held: HashMap<Name, (u64, Told)>,
    /// By the number of the change.
    changes: BTreeMap<u64, Name>,
    /// By their end.
    ends: BTreeMap<(Time, u64), Name>,
    removed: VecDeque<(u64, Told)>,
    /// The number of the last change that is not remembered any more.
    forgotten: u64,
    /// The number of the last change.
    last: u64,
    ids: u64,
}

#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: File,
    lines: usize,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Put(Told),
    Lift(Told),
}

impl Register {
    /// Reads the table of a data directory. A torn last line, as a crash leaves it, is passed over.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn open(path: &Path) -> io::Result<Register> {
        let mut table = Table::default();
        match File::open(path) {
            Ok(file) => {
                for line in BufReader::new(file).split(b'\n') {
                    match serde_json::from_slice(&line?) {
                        Ok(Line::Put(told)) => table.put(told),
                        Ok(Line::Lift(told)) => _ = table.remove(&name(&told)),
                        Err(error) => {
                            tracing::warn!(path = %path.display(), %error, "a label is passed over")
                        }
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let log = Log::write(path, &table)?;
        Ok(Register { table: Mutex::new(table), file: Some(Mutex::new(log)) })
    }

    /// Writes the table of a data directory anew without some pieces.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn erase(path: &Path, is_meant: impl Fn(&str) -> bool) -> io::Result<()> {
        if !path.exists() {
            return Ok(());
        }
        let mut table = Register::open(path)?.table.into_inner().unwrap_or_else(PoisonError::into_inner);
        let names: Vec<Name> = table.held.keys().filter(|name| is_meant(&name.3)).cloned().collect();
        names.iter().for_each(|name| _ = table.remove(name));
        Log::write(path, &table).map(drop)
    }

    /// Puts labels on keys. One that the key has already is made longer, if it is.
    pub(crate) fn put(&self, puts: Vec<Put>) {
        let mut lines = Vec::new();
        {
            let mut table = lock(&self.table);
            for put in puts.into_iter().filter(|put| put.value.len() <= VALUE_BYTES_MAX) {
                let name = (put.pipeline.clone(), put.kind.clone(), put.label.clone(), put.value.clone());
                if table.held.get(&name).is_some_and(|(_, held)| held.until >= put.until) {
                    continue;
                }
                table.ids += 1;
                let told = Told {
                    id: table.ids,
                    scope: Scope::of(&put.value),
                    pipeline: put.pipeline,
                    kind: put.kind,
                    label: put.label,
                    decision: put.decision,
                    value: put.value,
                    by: put.by,
                    until: put.until,
                };
                lines.push(Line::Put(told.clone()));
                table.put(told);
            }
        }
        self.append(&lines);
    }

    /// Pipeline, kind and name of the labels that keys of a value have.
    pub(crate) fn labels_of(&self, value: &str) -> Vec<(String, String, String)> {
        let table = lock(&self.table);
        let names = table.held.keys().filter(|name| name.3 == value).cloned();
        names.map(|(pipeline, kind, label, _)| (pipeline, kind, label)).collect()
    }

    /// Takes labels off all keys of a value; answers how many.
    pub(crate) fn lift(&self, value: &str) -> usize {
        let mut lines = Vec::new();
        {
            let mut table = lock(&self.table);
            let names: Vec<Name> = table.held.keys().filter(|name| name.3 == value).cloned().collect();
            for name in names {
                lines.extend(table.remove(&name).map(Line::Lift));
            }
        }
        self.append(&lines);
        lines.len()
    }

    /// All that holds at a time, in the order in which it was put on.
    pub fn held(&self, now: Time) -> Changes {
        let mut table = lock(&self.table);
        table.expire(now);
        let new = table.changes.values().filter_map(|name| Some(table.held.get(name)?.1.clone())).collect();
        Changes { new, deleted: Vec::new(), next: table.last }
    }

    /// What has changed since a number that was answered before; all that holds, where that is too long ago or not a number
    /// of this table.
    pub fn since(&self, number: u64, now: Time) -> Changes {
        {
            let mut table = lock(&self.table);
            table.expire(now);
            if number >= table.forgotten && number <= table.last {
                let new = table.changes.range(number + 1..).map(|(_, name)| name);
                let new = new.filter_map(|name| Some(table.held.get(name)?.1.clone())).collect();
                let later = table.removed.partition_point(|(removed, _)| *removed <= number);
                let deleted = table.removed.range(later..).map(|(_, told)| told.clone()).collect();
                return Changes { new, deleted, next: table.last };
            }
        }
        self.held(now)
    }

    /// Lets go of what has ended, and syncs the file or writes it anew.
    pub(crate) fn maintain(&self, now: Time) -> io::Result<()> {
        let held = {
            let mut table = lock(&self.table);
            table.expire(now);
            table.held.len()
        };
        let Some(file) = &self.file else { return Ok(()) };
        let mut log = lock(file);
        if log.lines > held + SLACK {
            let path = log.path.clone();
            let table = lock(&self.table);
            let lines = table.lines()?;
            let count = table.held.len();
            drop(table);
            *log = Log::replace(&path, &lines, count)?;
            return Ok(());
        }
        log.file.sync_data()
    }

    fn append(&self, lines: &[Line]) {
        let (Some(file), false) = (&self.file, lines.is_empty()) else { return };
        let mut bytes = Vec::new();
        for line in lines {
            // Writing to a vector cannot fail, and no type here refuses to be written.
            if serde_json::to_writer(&mut bytes, line).is_ok() {
                bytes.push(b'\n');
            }
        }
        let mut log = lock(file);
        log.lines += lines.len();
        if let Err(error) = log.file.write_all(&bytes) {
            tracing::error!(path = %log.path.display(), %error, "labels hold, but would be lost by a restart");
        }
    }
}

impl Table {
    fn put(&mut self, told: Told) {
        self.ids = self.ids.max(told.id);
        let name = name(&told);
        self.forget(&name);
        while self.held.len() >= KEYS_MAX {
            let Some(first) = self.ends.values().next().cloned() else { break };
            self.remove(&first);
        }
        self.last += 1;
        self.changes.insert(self.last, name.clone());
        self.ends.insert((told.until, told.id), name.clone());
        self.held.insert(name, (self.last, told));
    }

    /// Takes an entry out without a word.
    fn forget(&mut self, name: &Name) -> Option<Told> {
        let (number, told) = self.held.remove(name)?;
        self.changes.remove(&number);
        self.ends.remove(&(told.until, told.id));
        Some(told)
    }

    fn remove(&mut self, name: &Name) -> Option<Told> {
        let told = self.forget(name)?;
        self.last += 1;
        self.removed.push_back((self.last, told.clone()));
        while self.removed.len() > REMOVED_MAX {
            if let Some((number, _)) = self.removed.pop_front() {
                self.forgotten = number;
            }
        }
        Some(told)
    }

    fn expire(&mut self, now: Time) {
        while let Some(((until, _), name)) = self.ends.first_key_value() {
            if *until > now {
                break;
            }
            let name = name.clone();
            self.remove(&name);
        }
    }

    fn lines(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for name in self.changes.values() {
            if let Some((_, told)) = self.held.get(name) {
                serde_json::to_writer(&mut bytes, &Line::Put(told.clone()))?;
                bytes.push(b'\n');
            }
        }
        Ok(bytes)
    }
}

impl Log {
    fn write(path: &Path, table: &Table) -> io::Result<Log> {
        Log::replace(path, &table.lines()?, table.held.len())
    }

    fn replace(path: &Path, bytes: &[u8], lines: usize) -> io::Result<Log> {
        let mut draft = Draft::of(path)?;
        draft.write_all(bytes)?;
        Ok(Log { path: path.to_path_buf(), file: draft.place()?, lines })
    }
}

fn name(told: &Told) -> Name {
    (told.pipeline.clone(), told.kind.clone(), told.label.clone(), told.value.clone())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use event::Span;

    use super::*;

    const NOW: Time = Time::from_seconds(1_779_012_000);

    fn put(value: &str, seconds: i64) -> Put {
        Put {
            pipeline: "web".into(),
            kind: "ip".into(),
            label: "scanner".into(),
            decision: "ban".into(),
            value: value.into(),
            by: "PROBE".into(),
            until: NOW + Span::seconds(seconds),
        }
    }

    fn values(told: &[Told]) -> Vec<&str> {
        told.iter().map(|told| told.value.as_str()).collect()
    }

    #[test]
    fn who_polls_is_told_what_has_changed() {
        let register = Register::default();
        register.put(vec![put("192.0.2.1", 60), put("192.0.2.2", 600)]);
        let first = register.held(NOW);
        assert_eq!(values(&first.new), ["192.0.2.1", "192.0.2.2"]);
        assert_eq!(register.since(first.next, NOW), Changes { next: first.next, ..Changes::default() });
        // The same again says nothing new, a longer one does.
        register.put(vec![put("192.0.2.2", 500), put("192.0.2.3", 600), put("192.0.2.1", 90)]);
        let second = register.since(first.next, NOW);
        assert_eq!(values(&second.new), ["192.0.2.3", "192.0.2.1"]);
        let later = NOW + Span::seconds(90);
        let third = register.since(second.next, later);
        assert_eq!((values(&third.new), values(&third.deleted)), (vec![], vec!["192.0.2.1"]));
        assert_eq!(register.lift("192.0.2.3"), 1);
        let fourth = register.since(third.next, later);
        assert_eq!(values(&fourth.deleted), ["192.0.2.3"]);
        assert_eq!(values(&register.held(later).new), ["192.0.2.2"]);
        // A number of another table's.
        assert_eq!(values(&register.since(u64::MAX, later).new), ["192.0.2.2"]);
    }

    #[test]
    fn a_restart_forgets_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("labels.ndjson");
        let register = Register::open(&path).unwrap();
        register.put(vec![put("192.0.2.1", 60), put("192.0.2.2", 600), put("192.0.2.2", 700)]);
        register.lift("192.0.2.1");
        register.maintain(NOW).unwrap();
        let before = register.held(NOW).new;
        drop(register);
        // A crash in the middle of a line.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"put\":{\"id\"").unwrap();
        let register = Register::open(&path).unwrap();
        assert_eq!(register.held(NOW).new, before);
        register.put(vec![put("192.0.2.9", 60)]);
        assert!(register.held(NOW).new[1].id > before[0].id, "numbers are not given twice");
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
    }

    #[test]
    fn values_show_what_they_are() {
        for (value, scope) in [
            ("192.0.2.1", Scope::Ip),
            ("2001:db8::1", Scope::Ip),
            ("192.0.2.0/24", Scope::Range),
            ("2001:db8::/64", Scope::Range),
            ("192.0.2.0/99", Scope::Other),
            ("ann", Scope::Other),
        ] {
            assert_eq!(Scope::of(value), scope, "{value}");
        }
    }

    #[test]
    fn the_table_is_bounded() {
        let register = Register::default();
        let many = (0..KEYS_MAX + 5).map(|at| put(&format!("user{at}"), 60 + at as i64));
        register.put(many.collect());
        let held = register.held(NOW);
        assert_eq!(held.new.len(), KEYS_MAX);
        assert_eq!(held.new[0].value, "user5", "those that end first made room");
    }
}

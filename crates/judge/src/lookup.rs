//! Tables in which conditions and derived fields look values up.
//!
//! A table is made once, when rules are loaded, and holds millions of entries: texts and domain names by hash, networks by
//! the longest that an address is in. Equal values are kept once. A network database has a record of values instead.

use std::fmt;
use std::net::IpAddr;
use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::network_database::{NetworkDatabase, RecordPath};
use crate::network_index::{NetworkConflict, NetworkIndex, NetworkIndexBuilder};
use crate::set::{Network, Set, SetType, domain_name};
use crate::text_index::TextIndex;

/// Keys with a value each. Cheap to look up in, dear to make.
#[derive(Debug)]
pub struct LookupTable {
    keys: LookupKeys,
    values: TextIndex,
    kind: SetType,
    is_database: bool,
    count: usize,
    digest: [u8; 32],
}

#[derive(Debug)]
enum LookupKeys {
    /// Texts, or domain names, and the number of the value of each.
    Texts(TextIndex, Vec<u32>),
    Networks(NetworkIndex),
    Database(NetworkDatabase),
}

/// A fault of a line of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupTableError {
    /// The line, in bytes of the text.
    pub range: Range<usize>,
    /// The fault, without a full stop.
    pub message: String,
}

impl fmt::Display for LookupTableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LookupTableError {}

impl LookupTable {
    /// Most entries of a table.
    pub const ENTRIES_MAX: usize = 20_000_000;
    /// Most bytes of the file that a table is read from.
    pub const FILE_BYTES_MAX: usize = 512 << 20;
    /// Most faults that are told of one table.
    pub const ERRORS_MAX: usize = 10;

    /// A table of keys of a type, or a network database, without entries.
    pub fn empty(kind: SetType, is_database: bool) -> LookupTable {
        let (keys, values) = (LookupKeys::Texts(TextIndex::default(), Vec::new()), TextIndex::default());
        let digest = LookupTable::digest_of(kind, '\t', &[]);
        LookupTable { keys, values, kind, is_database, count: 0, digest }
    }

    /// Reads a table whose lines have a key, a separator and a value, and blanks around either that mean nothing. Empty
    /// lines are skipped, and so are those that begin with `#`. A key that is there twice has the same value.
    ///
    /// Takes time in the order of the text, and memory of some 30 bytes an entry beside different keys and values.
    ///
    /// # Errors
    /// The lines that cannot be read, at most [`LookupTable::ERRORS_MAX`] of them.
    pub fn read(kind: SetType, separator: char, text: &str) -> Result<LookupTable, Vec<LookupTableError>> {
        let mut reader = LookupReader {
            kind,
            keys: TextIndex::default(),
            of_keys: Vec::new(),
            networks: NetworkIndexBuilder::default(),
            values: TextIndex::default(),
        };
        let mut errors = Vec::new();
        let mut lines: u32 = 0;
        let place = |line: &str| {
            // A line is a piece of the text, so its place is the distance of their beginnings.
            let start = line.as_ptr() as usize - text.as_ptr() as usize;
            start..start + line.len()
        };
        if text.len() > LookupTable::FILE_BYTES_MAX {
            let message = format!("a table has at most {} MiB", LookupTable::FILE_BYTES_MAX >> 20);
            return Err(vec![LookupTableError { range: 0..0, message }]);
        }
        for line in text.lines() {
            lines += 1;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Err(message) = reader.line(line, separator, lines) {
                errors.push(LookupTableError { range: place(line), message });
                if errors.len() >= LookupTable::ERRORS_MAX {
                    return Err(errors);
                }
            }
        }
        let LookupReader { mut keys, mut of_keys, networks, mut values, .. } = reader;
        let count = keys.len() + networks.len();
        let keys = match networks.finish() {
            Ok(networks) if kind == SetType::Ip => LookupKeys::Networks(networks),
            Ok(_) => {
                keys.shrink();
                of_keys.shrink_to_fit();
                LookupKeys::Texts(keys, of_keys)
            }
            Err(NetworkConflict(later, earlier)) => {
                let line = text.lines().nth(later as usize - 1).unwrap_or_default().trim();
                let message = format!("the network has another value in line {earlier}");
                errors.push(LookupTableError { range: place(line), message });
                return Err(errors);
            }
        };
        if !errors.is_empty() {
            return Err(errors);
        }
        values.freeze();
        let digest = LookupTable::digest_of(kind, separator, text.as_bytes());
        Ok(LookupTable { keys, values, kind, is_database: false, count, digest })
    }

    /// Reads a network database in MaxMind's format and verifies its structure, in time in the order of its bytes.
    ///
    /// # Errors
    /// What is wrong with it, without a full stop.
    pub fn read_database(bytes: Vec<u8>) -> Result<LookupTable, String> {
        let digest = LookupTable::digest_of(SetType::Ip, LookupTable::DATABASE, &bytes);
        let database = NetworkDatabase::read(bytes)?;
        let count = database.len();
        let keys = LookupKeys::Database(database);
        let (kind, values) = (SetType::Ip, TextIndex::default());
        Ok(LookupTable { keys, values, kind, is_database: true, count, digest })
    }

    /// The separator that stands for a network database in [`LookupTable::digest_of`].
    pub const DATABASE: char = '\0';

    /// Returns whether it is a network database, whose values have a path.
    pub fn is_database(&self) -> bool {
        self.is_database
    }

    /// SHA-256 of all that a table is made of: tables of equal digest find the same.
    pub fn digest_of(kind: SetType, separator: char, bytes: &[u8]) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(format!("{} {}\n", kind.name(), u32::from(separator)));
        digest.update(bytes);
        digest.finalize().into()
    }

    /// [`LookupTable::digest_of`] what it was made of.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Returns the type of its keys.
    pub fn kind(&self) -> SetType {
        self.kind
    }

    /// Returns the number of its entries; of a network database, of the nodes of its tree.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The value of a text, or of a domain name or the nearest above it; none in a table of networks.
    pub fn find_str(&self, text: &str) -> Option<&str> {
        let LookupKeys::Texts(keys, values) = &self.keys else { return None };
        let key = if self.kind == SetType::Domain { keys.find_domain(text) } else { keys.find(text) };
        Some(self.values.get(*values.get(key? as usize)?))
    }

    /// Returns whether there is an entry, or a record, for an address.
    pub(crate) fn has_ip(&self, ip: IpAddr) -> bool {
        match &self.keys {
            LookupKeys::Texts(..) => false,
            LookupKeys::Networks(networks) => networks.find(ip).is_some(),
            LookupKeys::Database(database) => database.has(ip),
        }
    }

    /// The paths of values in a network database, as far as the first records have them; none in any other table.
    pub(crate) fn record_paths(&self) -> Vec<String> {
        match &self.keys {
            LookupKeys::Database(database) => database.paths(),
            _ => Vec::new(),
        }
    }

    /// The value at a path of an address's record; none in a table that is no network database.
    pub(crate) fn find_in_record(&self, ip: IpAddr, path: &RecordPath) -> Option<String> {
        match &self.keys {
            LookupKeys::Database(database) => database.find(ip, path),
            _ => None,
        }
    }

    /// Returns whether records of a network database have a path.
    pub(crate) fn has_path(&self, path: &RecordPath) -> bool {
        matches!(&self.keys, LookupKeys::Database(database) if database.has_path(path))
    }

    /// The value of the longest network that an address is in; none in a table of texts.
    pub fn find_ip(&self, ip: IpAddr) -> Option<&str> {
        let LookupKeys::Networks(networks) = &self.keys else { return None };
        Some(self.values.get(networks.find(ip)?))
    }
}

/// A table in the making.
struct LookupReader {
    kind: SetType,
    keys: TextIndex,
    of_keys: Vec<u32>,
    networks: NetworkIndexBuilder,
    values: TextIndex,
}

impl LookupReader {
    fn line(&mut self, line: &str, separator: char, number: u32) -> Result<(), String> {
        let (key, value) = line.split_once(separator).unwrap_or((line, ""));
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() || value.is_empty() {
            let name = match separator {
                '\t' => "a tab",
                ' ' => "a blank",
                ',' => "a comma",
                _ => "a semicolon",
            };
            return Err(format!("a line has a key, {name} and a value"));
        }
        if key.len() > Set::ENTRY_BYTES_MAX || value.len() > Set::ENTRY_BYTES_MAX {
            return Err(format!("a key and a value have at most {} bytes each", Set::ENTRY_BYTES_MAX));
        }
        if self.keys.len() + self.networks.len() >= LookupTable::ENTRIES_MAX {
            return Err(format!("a table has at most {} entries", LookupTable::ENTRIES_MAX));
        }
        let value = self.values.insert(value).unwrap_or_else(|known| known);
        let shown = || key.chars().take(40).collect::<String>().escape_debug().to_string();
        let added = match self.kind {
            SetType::Ip => {
                let network = key
                    .parse::<Network>()
                    .map_err(|_| format!("`{}` is no address and no network", shown()))?;
                self.networks.push(network, value, number);
                return Ok(());
            }
            SetType::Domain => {
                let name = domain_name(key).ok_or_else(|| format!("`{}` is no domain name", shown()))?;
                self.keys.insert(&name)
            }
            SetType::String | SetType::Integer => self.keys.insert(key),
        };
        match added {
            Ok(_) => self.of_keys.push(value),
            Err(known) if self.of_keys.get(known as usize) == Some(&value) => {}
            Err(_) => return Err(format!("`{}` has another value before", shown())),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn table(kind: SetType, text: &str) -> LookupTable {
        LookupTable::read(kind, '\t', text).unwrap_or_else(|found| panic!("{found:?}"))
    }

    #[test]
    fn values_are_found_by_their_keys() {
        let texts = table(SetType::String, "# cards\n411111\tbank one\n 5 5 \t  b \r\n\n411111\tbank one\n");
        assert_eq!(
            (texts.len(), texts.find_str("411111"), texts.find_str("5 5")),
            (2, Some("bank one"), Some("b"))
        );
        assert_eq!(
            (texts.find_str("4"), texts.find_str(""), texts.find_ip([192, 0, 2, 1].into())),
            (None, None, None)
        );

        let domains = table(SetType::Domain, "Example.ORG\tmail\nsub.example.org.\tsub\n*.test\tlocal\n");
        for (name, value) in [
            ("example.org", Some("mail")),
            ("a.Example.org.", Some("mail")),
            ("a.sub.example.org", Some("sub")),
            ("x.test", Some("local")),
            ("org", None),
            ("notexample.org", None),
        ] {
            assert_eq!(domains.find_str(name), value, "{name}");
        }

        let networks =
            table(SetType::Ip, "192.0.2.0/24\thosting\n192.0.2.7\tproxy\n2001:db8::/32\thosting\n");
        let find = |ip: &str| networks.find_ip(ip.parse().unwrap());
        assert_eq!(
            (find("192.0.2.7"), find("192.0.2.8"), find("192.0.3.1")),
            (Some("proxy"), Some("hosting"), None)
        );
        assert_eq!((find("2001:db8::9"), networks.len(), networks.is_empty()), (Some("hosting"), 3, false));
        assert_eq!(networks.find_str("192.0.2.7"), None);
        assert_eq!(table(SetType::String, "").len(), 0);
        let comma = LookupTable::read(SetType::String, ',', "a,b,c\n").unwrap();
        assert_eq!(comma.find_str("a"), Some("b,c"));
        assert_ne!(comma.digest(), table(SetType::String, "a\tb,c\n").digest());
    }

    #[test]
    fn damaged_lines_are_named() {
        let check = |kind: SetType, text: &str, expected: &[(&str, &str)]| {
            let found = LookupTable::read(kind, '\t', text).unwrap_err();
            let found: Vec<(&str, &str)> =
                found.iter().map(|error| (&text[error.range.clone()], error.message.as_str())).collect();
            assert_eq!(found, expected);
        };
        check(
            SetType::String,
            "a\t1\nb 2\n\tc\nd\t\na\t2\n",
            &[
                ("b 2", "a line has a key, a tab and a value"),
                ("c", "a line has a key, a tab and a value"),
                ("d", "a line has a key, a tab and a value"),
                ("a\t2", "`a` has another value before"),
            ],
        );
        check(
            SetType::Ip,
            "192.0.2.0/24\ta\n192.0.2.0/33\tb\n",
            &[("192.0.2.0/33\tb", "`192.0.2.0/33` is no address and no network")],
        );
        check(
            SetType::Ip,
            "# a\n192.0.2.0/24\ta\n192.0.2.9/24\tb\n",
            &[("192.0.2.9/24\tb", "the network has another value in line 2")],
        );
        check(SetType::Domain, "a b\tc\n", &[("a b\tc", "`a b` is no domain name")]);
        let many = "x\n".repeat(100);
        assert_eq!(
            LookupTable::read(SetType::String, '\t', &many).unwrap_err().len(),
            LookupTable::ERRORS_MAX
        );
        let long = format!("{}\tx", "a".repeat(1025));
        assert_eq!(LookupTable::read(SetType::String, '\t', &long).unwrap_err().len(), 1);
    }
}

//! Texts by which entries of sets and tables are found: one run of bytes and a hash table, some ten bytes a text beside
//! its own.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Texts, each once, numbered in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextIndex {
    bytes: String,
    /// The end of each text in the bytes.
    ends: Vec<u32>,
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl TextIndex {
    /// Most bytes of all texts together.
    pub(crate) const BYTES_MAX: usize = u32::MAX as usize;

    /// Adds a text; `Err` is the number of one that was there. The caller sees to it that there is room.
    pub(crate) fn insert(&mut self, text: &str) -> Result<u32, u32> {
        if let Some(known) = self.find(text) {
            return Err(known);
        }
        assert!(
            self.bytes.len() + text.len() <= TextIndex::BYTES_MAX,
            "texts are bounded before they are indexed"
        );
        let number = self.ends.len() as u32;
        self.bytes.push_str(text);
        self.ends.push(self.bytes.len() as u32);
        let TextIndex { bytes, ends, places, hasher } = self;
        let hash = |place: &u32| hasher.hash_one(at(bytes, ends, *place));
        places.insert_unique(hasher.hash_one(text), number, hash);
        Ok(number)
    }

    /// The number of a text.
    pub(crate) fn find(&self, text: &str) -> Option<u32> {
        self.places.find(self.hasher.hash_one(text), |place| self.get(*place) == text).copied()
    }

    /// The number of a domain name among domain names in lower case: of the name itself, or else of the nearest above it.
    pub(crate) fn find_domain(&self, name: &str) -> Option<u32> {
        let text = name.strip_suffix('.').unwrap_or(name);
        if text.is_empty() || text.len() > DOMAIN_BYTES_MAX {
            return None;
        }
        let mut lower = [0; DOMAIN_BYTES_MAX];
        let lower = &mut lower[..text.len()];
        lower.copy_from_slice(text.as_bytes());
        lower.make_ascii_lowercase();
        // Lowering ASCII letters leaves UTF-8 as it is.
        let mut name = std::str::from_utf8(lower).ok()?;
        for _ in 0..LABELS_MAX {
            match (self.find(name), name.split_once('.')) {
                (Some(found), _) => return Some(found),
                (None, Some((_, above))) => name = above,
                (None, None) => return None,
            }
        }
        None
    }

    /// The text of a number that was given out.
    pub(crate) fn get(&self, number: u32) -> &str {
        at(&self.bytes, &self.ends, number)
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Lets go of what texts are found by, and of room for more: from now on they are asked for by number.
    pub(crate) fn freeze(&mut self) {
        self.places = HashTable::new();
        self.shrink();
    }

    /// Lets go of room for more.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

fn at<'a>(bytes: &'a str, ends: &[u32], number: u32) -> &'a str {
    let number = number as usize;
    let start = number.checked_sub(1).map_or(0, |before| ends[before]);
    &bytes[start as usize..ends[number] as usize]
}

/// Longest name that can be found among domains: longer ones are none (RFC 1035).
const DOMAIN_BYTES_MAX: usize = 254;
/// Most labels of a name that are looked at, from the right.
const LABELS_MAX: usize = 127;

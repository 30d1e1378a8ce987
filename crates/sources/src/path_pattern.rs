//! Paths of files to follow, with the wildcards of shells: `/var/log/nginx/*.log`.
//!
//! `*` and `?` stand for characters of one name, `[a-z]` and `[!a-z]` for one of them; names that begin with a dot are
//! matched by patterns that do. Compressed files are what rotation left behind, and never match a wildcard.

use std::fs;
use std::path::{Path, PathBuf};

/// Endings of compressed files.
const COMPRESSED: [&str; 8] = ["gz", "bz2", "xz", "zst", "lz4", "lzma", "Z", "zip"];
/// Most entries of directories that one expansion looks at.
const ENTRIES_MAX: usize = 100_000;
/// Most bytes of a pattern.
const PATTERN_BYTES_MAX: usize = 4096;

/// A path that may have wildcards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    text: String,
}

/// A text that is no pattern of paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPatternError(String);

impl std::fmt::Display for PathPatternError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PathPatternError {}

impl PathPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// If it is empty or too long, has a bracket that is not closed, or `**`.
    pub fn new(text: &str) -> Result<PathPattern, PathPatternError> {
        let wrong = |why: String| Err(PathPatternError(why));
        if text.is_empty() || text.len() > PATTERN_BYTES_MAX || text.contains('\0') {
            return wrong(format!("a path has 1 to {PATTERN_BYTES_MAX} bytes"));
        }
        if text.contains("**") {
            return wrong(format!("`{text}`: `**` is not known: name the folders, as in `/var/log/*/*.log`"));
        }
        let is_open = |part: &str| {
            part.split_once('[')
                .is_some_and(|(_, rest)| !rest.get(1..).is_some_and(|rest| rest.contains(']')))
        };
        if text.split('/').any(is_open) {
            return wrong(format!("`{text}`: a `[` is not closed"));
        }
        Ok(PathPattern { text: text.to_owned() })
    }

    /// Reads a pattern of a single name.
    ///
    /// # Errors
    /// If it has a slash, or is no pattern for [`PathPattern::new`].
    pub fn of_name(text: &str) -> Result<PathPattern, PathPatternError> {
        match text.contains('/') {
            true => Err(PathPatternError(format!("`{text}` is a path, and no name"))),
            false => PathPattern::new(text),
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns true if it has wildcards.
    pub fn is_glob(&self) -> bool {
        has_wildcard(&self.text)
    }

    /// Returns the paths of files that match, sorted, at most so many. One without wildcards is itself, whether it is there
    /// or not.
    pub fn expand(&self, max: usize) -> Vec<PathBuf> {
        if !self.is_glob() {
            return vec![PathBuf::from(&self.text)];
        }
        let parts: Vec<&str> = self.text.split('/').filter(|part| !part.is_empty()).collect();
        let root = if self.text.starts_with('/') { "/" } else { "" };
        let (mut places, mut budget) = (vec![PathBuf::from(root)], ENTRIES_MAX);
        for (index, part) in parts.iter().enumerate() {
            let is_last = index + 1 == parts.len();
            let mut next = Vec::new();
            for place in places {
                if has_wildcard(part) {
                    next.extend(matching(&place, part, is_last, &mut budget));
                } else {
                    next.push(place.join(part));
                }
            }
            places = next;
        }
        places.retain(|path| path.is_file());
        places.sort_unstable();
        places.truncate(max);
        places
    }
}

fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Entries of a directory whose names match.
fn matching(place: &Path, part: &str, is_last: bool, budget: &mut usize) -> Vec<PathBuf> {
    let own = if place.as_os_str().is_empty() { Path::new(".") } else { place };
    let Ok(entries) = fs::read_dir(own) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        if *budget == 0 {
            break;
        }
        *budget -= 1;
        let name = entry.file_name();
        let Some(text) = name.to_str() else { continue };
        let path = place.join(&name);
        if is_match(part.as_bytes(), text.as_bytes()) && !(is_last && is_compressed(&path)) {
            found.push(path);
        }
    }
    found
}

/// Returns true if the name is that of a compressed file.
pub(crate) fn is_compressed(path: &Path) -> bool {
    path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| COMPRESSED.contains(&ending))
}

/// Returns true if a name matches. A star that matched too little is the only place to come back to, so the cost is at most
/// the product of both lengths.
pub(crate) fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    if name.starts_with(b".") && !pattern.starts_with(b".") {
        return false;
    }
    let (mut at, mut of, mut star) = (0, 0, None);
    while of < name.len() {
        match single(&pattern[at..], name[of]) {
            Some(length) => (at, of) = (at + length, of + 1),
            None if pattern.get(at) == Some(&b'*') => {
                star = Some((at + 1, of));
                at += 1;
            }
            None => match star {
                Some((behind, from)) => {
                    (at, of) = (behind, from + 1);
                    star = Some((behind, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Returns the length of the pattern's part that matches this byte: all but a star.
fn single(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern.first()? {
        b'*' => None,
        b'?' => Some(1),
        b'[' => {
            let inside = &pattern[1..];
            let is_negated = matches!(inside.first(), Some(b'!' | b'^'));
            let inside = &inside[usize::from(is_negated)..];
            // A bracket that stands first is one of the characters.
            let end = inside.iter().skip(1).position(|byte| *byte == b']')? + 1;
            let (mut set, mut is_in) = (&inside[..end], false);
            while let Some((&first, rest)) = set.split_first() {
                match rest {
                    [b'-', last, after @ ..] => {
                        is_in |= (first..=*last).contains(&byte);
                        set = after;
                    }
                    _ => {
                        is_in |= first == byte;
                        set = rest;
                    }
                }
            }
            (is_in != is_negated).then_some(1 + usize::from(is_negated) + end + 1)
        }
        own => (*own == byte).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_in_shells() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(is_match(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        };
        check("*.log", "access.log", true);
        check("*.log", ".log", false);
        check(".*", ".log", true);
        check("*.log", "access.log.1", false);
        check("a*b*c", "aXbYbZc", true);
        check("a*b*c", "aXbYbZ", false);
        check("a?c", "abc", true);
        check("a?c", "ac", false);
        check("[a-c]x", "bx", true);
        check("[!a-c]x", "bx", false);
        check("[^a-c]x", "dx", true);
        check("[]a]x", "]x", true);
        check("[a-]x", "-x", true);
        check("a[", "a[", false);
        check(&"*a".repeat(40), &"a".repeat(200), true);
        check(&("*a".repeat(40) + "b"), &"a".repeat(2000), false);
    }

    #[test]
    fn patterns_find_files_and_no_leftovers() {
        let parent = tempfile::tempdir().unwrap();
        for name in
            ["a/access.log", "a/error.log", "a/access.log.1", "a/access.log.2.gz", "b/access.log", "c"]
        {
            let path = parent.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        fs::create_dir(parent.path().join("a/folder.log")).unwrap();
        let check = |pattern: &str, expected: &[&str]| {
            let pattern = format!("{}/{pattern}", parent.path().display());
            let found = PathPattern::new(&pattern).unwrap().expand(9);
            let expected: Vec<_> = expected.iter().map(|name| parent.path().join(name)).collect();
            assert_eq!(found, expected, "{pattern}");
        };
        check("a/*.log", &["a/access.log", "a/error.log"]);
        check("*/access*", &["a/access.log", "a/access.log.1", "b/access.log"]);
        check("?", &["c"]);
        check("none", &["none"]);
        check("none/*", &[]);
        assert_eq!(PathPattern::new(&format!("{}/*/*", parent.path().display())).unwrap().expand(2).len(), 2);
        for wrong in ["", "/a/**/b", "/a/[b", "/a/[]"] {
            assert!(PathPattern::new(wrong).is_err(), "{wrong}");
        }
    }
}

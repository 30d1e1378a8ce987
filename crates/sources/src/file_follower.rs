//! Growing files under paths and wildcards: new ones that appear, rotation, truncation, each with its own position.
//!
//! A file is known by its first line and by the bytes before the place up to which it was taken. Under a path there may be
//! several in turn: what was rotated away is read to its end first, whether that happened while it was read (its
//! descriptor is kept) or while nobody looked (it is searched for beside the path, as `logrotate` names it). A file that
//! appears under another path and is one that was read before (renamed, or copied by `copytruncate`) goes on where that one
//! was.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::SourceChunk;
use crate::container_logs::{ContainerLogs, ContainerSelection};
use crate::followed_file::{FollowedFile, identity};
use crate::growth_watch::GrowthWatch;
use crate::path_pattern::{PathPattern, is_compressed};
use crate::positions::{FilePosition, SourcePositions};

/// Most files that are open at once.
pub const FILES_MAX: usize = 1_000;
/// The number of polls without lines, and of those with lines, after which new files are looked for.
const SCAN_IDLE: u32 = 16;
const SCAN_BUSY: u32 = 256;
/// The time between two looks at few files that do not grow, and at many.
const LOOK: Duration = Duration::from_millis(50);
const LOOK_MANY: Duration = Duration::from_millis(250);
/// The time between the word that a file has grown and a look at it.
const GATHER: Duration = Duration::from_millis(5);
/// Files that are few.
const FEW: usize = 50;
/// The number of scans after which a renamed file whose path stays empty is let go.
const SCANS_WITHOUT_PATH: u32 = 600;
/// Most entries beside a path among which rotated files are searched for.
const SIBLINGS_MAX: usize = 10_000;

/// The place at which files begin that have no position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileStart {
    /// The beginning.
    #[default]
    Beginning,
    /// The end of those that are there at first. Those that appear later begin at their beginning.
    End,
}

/// Files that are followed.
pub struct FileFollower {
    patterns: Vec<PathPattern>,
    containers: Option<ContainerLogs>,
    start: FileStart,
    /// True if the first line of each file is a heading.
    is_headed: bool,
    positions: SourcePositions,
    open: BTreeMap<PathBuf, FollowedPath>,
    /// The path whose turn was last.
    turn: PathBuf,
    /// The place behind the lines that were handed out last.
    pending: Option<(PathBuf, FilePosition)>,
    buffer: Vec<u8>,
    problems: BTreeMap<PathBuf, String>,
    polls: u32,
    is_first_scan: bool,
    /// Word from the system, where it gives any.
    growth: Option<GrowthWatch>,
    /// The streams under the paths when positions were last said to be known.
    known: BTreeMap<String, String>,
}

/// A path, and the files to be read under it in turn: the last is the one that is there now.
#[derive(Default)]
struct FollowedPath {
    files: VecDeque<FollowedFile>,
    scans_without: u32,
}

impl FileFollower {
    /// Begins to follow files from kept positions.
    pub fn new(patterns: Vec<PathPattern>, start: FileStart, positions: SourcePositions) -> FileFollower {
        FileFollower {
            patterns,
            containers: None,
            start,
            is_headed: false,
            positions,
            open: BTreeMap::new(),
            turn: PathBuf::new(),
            pending: None,
            buffer: Vec::new(),
            problems: BTreeMap::new(),
            polls: 0,
            is_first_scan: true,
            growth: GrowthWatch::new(),
            known: BTreeMap::new(),
        }
    }

    /// Returns the follower for files whose first line is a heading.
    #[must_use]
    pub fn of_headed(self, is_headed: bool) -> FileFollower {
        FileFollower { is_headed, ..self }
    }

    /// Returns the follower that also follows the logs of containers.
    #[must_use]
    pub fn of_containers(self, selection: ContainerSelection) -> FileFollower {
        FileFollower { containers: Some(ContainerLogs::new(selection)), ..self }
    }

    /// The positions, as far as what was handed out is safe.
    pub fn positions(&self) -> &SourcePositions {
        &self.positions
    }

    /// Returns true if a file began since this was asked last. Its position is to be kept before its lines are decided: should
    /// the file be rotated away before a crash, nobody else knows that it is to be read to its end.
    pub fn has_begun(&mut self) -> bool {
        let files = &self.positions.files;
        let is_known = |(path, position): (&String, &FilePosition)| {
            self.known.get(path).is_some_and(|stream| *stream == position.stream)
        };
        if files.iter().all(is_known) {
            return false;
        }
        let streams = files.iter().map(|(path, position)| (path.clone(), position.stream.clone()));
        self.known = streams.collect();
        true
    }

    /// Files that cannot be read, with the reason.
    pub fn problems(&self) -> &BTreeMap<PathBuf, String> {
        &self.problems
    }

    /// The number of files that are open.
    pub fn file_count(&self) -> usize {
        self.open.values().map(|path| path.files.len()).sum()
    }

    /// The time until the next look, where there were no lines and nobody says that a file has grown.
    pub fn pause(&self) -> Duration {
        if self.file_count() <= FEW { LOOK } else { LOOK_MANY }
    }

    /// Waits for the time of [`FileFollower::pause`], but only until a file grows, where the system says so. Lines that are
    /// written one by one are not read one by one: a moment later there are more.
    pub fn wait(&mut self) {
        let pause = self.pause();
        let Some(growth) = &mut self.growth else { return thread::sleep(pause) };
        let files = self.open.iter();
        let files = files.filter_map(|(path, followed)| Some((path.as_path(), followed.files.back()?.id)));
        // What was written before a file was watched nobody tells of.
        if growth.watch(files) == 0 && growth.wait(pause) {
            thread::sleep(GATHER);
        }
    }

    /// Returns true if something is read from this origin.
    pub fn is_open(&self, origin: &str) -> bool {
        self.open.contains_key(Path::new(origin))
    }

    /// Bytes that are there and not yet taken.
    pub fn lag(&self) -> u64 {
        let mut lag = 0;
        for (path, followed) in &self.open {
            let taken = self.positions.files.get(&key(path));
            for (index, file) in followed.files.iter().enumerate() {
                let taken = taken.filter(|_| index == 0).map_or(0, |position| position.offset);
                lag += file.length().unwrap_or(taken).saturating_sub(taken);
            }
        }
        lag
    }

    /// The next lines of one of the files; `None` if there are none now. Until they are committed, they come again.
    pub fn poll(&mut self) -> Option<SourceChunk> {
        self.pending = None;
        let is_due = self.is_first_scan || self.polls >= SCAN_BUSY;
        if is_due {
            self.scan();
        }
        let paths: Vec<PathBuf> = {
            let after = self.open.keys().filter(|path| **path > self.turn);
            after.chain(self.open.keys().filter(|path| **path <= self.turn)).cloned().collect()
        };
        for path in paths {
            let mut followed = self.open.remove(&path).unwrap_or_default();
            let read = self.step(&path, &mut followed);
            if !followed.files.is_empty() {
                self.open.insert(path.clone(), followed);
            }
            match read {
                Ok(Some(chunk)) => {
                    self.problems.remove(&path);
                    self.turn = path;
                    self.polls += 1;
                    return Some(chunk);
                }
                Ok(None) => {}
                Err(error) => {
                    self.problems.insert(path, error.to_string());
                }
            }
        }
        self.polls += SCAN_BUSY / SCAN_IDLE;
        None
    }

    /// Moves the position behind the lines that were handed out last, with the heading that holds there.
    pub fn commit(&mut self, head: Option<String>) {
        let Some((path, next)) = self.pending.take() else { return };
        self.positions.files.insert(key(&path), FilePosition { head, ..next });
    }

    /// Reads on under a path.
    fn step(&mut self, path: &Path, followed: &mut FollowedPath) -> io::Result<Option<SourceChunk>> {
        // Each round ends a file, of which there are few.
        for _ in 0..64 {
            let is_last = followed.files.len() == 1;
            let Some(file) = followed.files.front_mut() else {
                match self.first(path)? {
                    Some(file) => followed.files.push_back(file),
                    None => return Ok(None),
                }
                continue;
            };
            let position = self.positions.files.entry(key(path)).or_default();
            if position.stream != file.stream || !file.is_same(position)? {
                // Truncated and written anew, perhaps to the same length: another stream in the same file.
                let old = std::mem::take(position);
                self.positions.retire(old);
                followed.files.pop_front();
                if let Some(next) = followed.files.front() {
                    let begin = self.begin(next)?;
                    self.positions.files.insert(key(path), begin);
                }
                continue;
            }
            let position = position.clone();
            let mut read = file.lines(&position, &mut self.buffer)?;
            if read.lines.is_empty() && is_last {
                let now = fs::metadata(path);
                let is_replaced = now.as_ref().is_ok_and(|now| identity(now) != file.id);
                let is_gone = now.is_err() && file.is_deleted()?;
                if !is_replaced && !is_gone {
                    if read.next != position {
                        // The rest of a line that is too long.
                        self.positions.files.insert(key(path), read.next);
                    }
                    followed.scans_without = if now.is_err() { followed.scans_without } else { 0 };
                    return Ok(None);
                }
                // Written after the last look, before it was rotated.
                read = file.lines(&position, &mut self.buffer)?;
            }
            if !read.lines.is_empty() {
                // Written anew while it was read: nobody knows which of both the lines are.
                if !file.has(&position)? {
                    file.forget();
                    continue;
                }
                let chunk = SourceChunk {
                    origin: Arc::from(key(path)),
                    head: position.head.clone(),
                    lines: read.lines,
                };
                self.pending = Some((path.to_owned(), read.next));
                return Ok(Some(chunk));
            }
            // At the end of one that was rotated away.
            self.positions.files.remove(&key(path));
            self.positions.retire(position);
            followed.files.pop_front();
            if let Some(next) = followed.files.front() {
                let begin = self.begin(next)?;
                self.positions.files.insert(key(path), begin);
            }
        }
        Ok(None)
    }

    /// Opens the file that is now under a path, and says where it begins.
    fn first(&mut self, path: &Path) -> io::Result<Option<FollowedFile>> {
        let opened = match FollowedFile::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let Some(file) = opened else { return Ok(None) };
        let begin = self.begin(&file)?;
        self.positions.files.insert(key(path), begin);
        Ok(Some(file))
    }

    /// The place at which a file begins: where one was that it is a copy of, or its beginning.
    fn begin(&self, file: &FollowedFile) -> io::Result<FilePosition> {
        let known = self.positions.files.values().chain(self.positions.retired.iter().rev());
        for position in known.filter(|position| position.offset > 0 && position.stream == file.stream) {
            if file.has(position)? {
                return Ok(position.clone());
            }
        }
        Ok(FilePosition { stream: file.stream.clone(), ..FilePosition::default() })
    }

    /// Looks for files that are new under the paths.
    fn scan(&mut self) {
        self.polls = 0;
        let mut wanted = Vec::new();
        for pattern in &self.patterns {
            let left = FILES_MAX.saturating_sub(wanted.len());
            let found = pattern.expand(left + 1);
            if found.len() > left {
                let why = format!("there are more than {FILES_MAX} files: the others are not read");
                self.problems.insert(PathBuf::from(pattern.as_str()), why);
            }
            wanted.extend(found.into_iter().take(left));
        }
        self.scan_containers(&mut wanted);
        for path in wanted {
            match self.open.get_mut(&path) {
                Some(followed) if path.exists() => followed.scans_without = 0,
                Some(_) => {}
                None => match self.appear(&path) {
                    Ok(Some(followed)) => {
                        self.problems.remove(&path);
                        self.open.insert(path, followed);
                    }
                    Ok(None) => {
                        self.problems.remove(&path);
                    }
                    Err(error) => {
                        self.problems.insert(path, error.to_string());
                    }
                },
            }
        }
        self.open.retain(|path, followed| {
            followed.scans_without = if path.exists() { 0 } else { followed.scans_without + 1 };
            followed.scans_without < SCANS_WITHOUT_PATH
        });
        self.forget();
        self.is_first_scan = false;
    }

    /// Looks for logs of containers. Those of one that is now called otherwise are let go, and go on where they were if it comes back.
    fn scan_containers(&mut self, wanted: &mut Vec<PathBuf>) {
        let Some(containers) = &mut self.containers else { return };
        let folder = containers.folder().to_owned();
        let left = FILES_MAX.saturating_sub(wanted.len());
        let (logs, problem) = match containers.expand(left + 1) {
            Ok(found) => found,
            Err(error) => {
                self.problems.insert(folder, error.to_string());
                return;
            }
        };
        let too_many = || format!("there are more than {FILES_MAX} files: the others are not read");
        match problem.or_else(|| (logs.len() > left).then(too_many)) {
            Some(why) => _ = self.problems.insert(folder.clone(), why),
            None => _ = self.problems.remove(&folder),
        }
        self.open.retain(|path, _| !path.starts_with(&folder) || logs.contains(path) || !path.exists());
        wanted.extend(logs.into_iter().take(left));
    }

    /// Positions of files that have been gone for long are dropped when there are too many.
    fn forget(&mut self) {
        if self.positions.files.len() > 4 * FILES_MAX {
            let open = &self.open;
            self.positions.files.retain(|path, _| {
                let path = Path::new(path);
                open.contains_key(path) || path.exists()
            });
        }
    }

    /// The files to read under a path that is new, or new since the last start.
    fn appear(&mut self, path: &Path) -> io::Result<Option<FollowedPath>> {
        let kept = self.positions.files.get(&key(path)).cloned();
        let current = match FollowedFile::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => opened?,
        };
        if let Some(file) = &current {
            // Under another path already: a link, or a renamed file whose last lines may still come.
            let ids = self.open.values().flat_map(|followed| &followed.files).map(|file| file.id);
            if ids.into_iter().any(|id| id == file.id) {
                return Ok(None);
            }
        }
        let mut files = VecDeque::new();
        match (kept, &current) {
            (Some(kept), Some(file)) if file.has(&kept)? => {}
            (Some(kept), _) if !kept.stream.is_empty() => {
                files.extend(rotated(path, &kept, current.as_ref())?);
                if files.is_empty() {
                    self.positions.files.remove(&key(path));
                    self.positions.retire(kept);
                    if let Some(file) = &current {
                        let begin = self.begin(file)?;
                        self.positions.files.insert(key(path), begin);
                    }
                }
            }
            (_, Some(file)) => {
                let is_end = self.is_first_scan && self.start == FileStart::End;
                let begin = if is_end { file.end(self.is_headed)? } else { self.begin(file)? };
                self.positions.files.insert(key(path), begin);
            }
            (_, None) => {}
        }
        files.extend(current);
        Ok((!files.is_empty()).then_some(FollowedPath { files, scans_without: 0 }))
    }
}

fn key(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Files that were rotated away from a path, oldest first: the one that a position is in, and those after it. Their names
/// begin with the path's, as `access.log.1` and `access.log-20260102` do.
fn rotated(
    path: &Path,
    kept: &FilePosition,
    current: Option<&FollowedFile>,
) -> io::Result<Vec<FollowedFile>> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(Vec::new()) };
    let Ok(entries) = fs::read_dir(parent) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in entries.flatten().take(SIBLINGS_MAX) {
        let sibling = entry.file_name();
        let rest = sibling.to_str().and_then(|sibling| sibling.strip_prefix(name));
        let is_rotated = rest.is_some_and(|rest| {
            rest.starts_with(['.', '-', '_']) && rest[1..].starts_with(|first: char| first.is_ascii_digit())
        });
        if !is_rotated || is_compressed(&entry.path()) {
            continue;
        }
        // One that cannot be read is none that was read before.
        if let (Ok(metadata), Ok(Some(file))) = (entry.metadata(), FollowedFile::open(&entry.path())) {
            found.push((metadata.modified().ok(), file));
        }
    }
    found.sort_by_key(|(modified, _)| *modified);
    let mut at = None;
    for (index, (_, file)) in found.iter().enumerate() {
        if file.has(kept)? {
            at = Some(index);
        }
    }
    let Some(at) = at else { return Ok(Vec::new()) };
    let files = found.into_iter().skip(at).map(|(_, file)| file);
    Ok(files.filter(|file| current.is_none_or(|current| current.id != file.id)).collect())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    /// A folder, and what a follower took of it so far.
    struct FollowedFolder {
        parent: tempfile::TempDir,
        follower: FileFollower,
        patterns: Vec<PathPattern>,
    }

    impl FollowedFolder {
        fn new(patterns: &[&str]) -> FollowedFolder {
            let parent = tempfile::tempdir().unwrap();
            let of = |pattern: &&str| PathPattern::new(&format!("{}/{pattern}", parent.path().display()));
            let patterns: Vec<_> = patterns.iter().map(|pattern| of(pattern).unwrap()).collect();
            let follower =
                FileFollower::new(patterns.clone(), FileStart::Beginning, SourcePositions::default());
            FollowedFolder { parent, follower, patterns }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.parent.path().join(name)
        }

        fn append(&self, name: &str, text: &str) {
            let file = File::options().append(true).create(true).open(self.path(name));
            file.unwrap().write_all(text.as_bytes()).unwrap();
        }

        fn rename(&self, from: &str, to: &str) {
            fs::rename(self.path(from), self.path(to)).unwrap();
        }

        /// Starts anew from what is kept, as after a crash.
        fn restart(&mut self) {
            let kept = serde_json::to_vec(self.follower.positions()).unwrap();
            let kept = serde_json::from_slice(&kept).unwrap();
            self.follower = FileFollower::new(self.patterns.clone(), FileStart::Beginning, kept);
        }

        /// All lines that come, sorted as several files have no order.
        #[track_caller]
        fn check(&mut self, expected: &[&str]) {
            let mut taken = Vec::new();
            let mut idle = 0;
            while idle <= 2 * SCAN_IDLE {
                let Some(chunk) = self.follower.poll() else {
                    idle += 1;
                    continue;
                };
                let lines = chunk.lines.iter();
                taken.extend(lines.map(|(_, line)| String::from_utf8_lossy(line).trim().to_owned()));
                self.follower.commit(None);
            }
            taken.sort();
            assert_eq!(taken, expected);
            // The beginning of a line at most.
            assert!(self.follower.lag() <= 1, "{}", self.follower.lag());
        }
    }

    #[test]
    fn several_files_and_new_ones_are_followed() {
        let mut of = FollowedFolder::new(&["*.log", "other"]);
        of.append("a.log", "a1\na2\n");
        of.append("b.log", "b1\n");
        of.append("b.txt", "t1\n");
        of.check(&["a1", "a2", "b1"]);
        of.append("other", "o1\n");
        of.append("c.log", "c1\n");
        of.append("a.log", "a3\na");
        of.check(&["a3", "c1", "o1"]);
        of.append("a.log", "4\n");
        of.restart();
        of.append("c.log", "c2\n");
        of.check(&["a4", "c2"]);
        of.restart();
        of.check(&[]);
    }

    #[test]
    fn logs_of_containers_are_followed_by_name() {
        let mut of = FollowedFolder::new(&[]);
        let describe = |of: &FollowedFolder, id: &str, name: &str| {
            fs::create_dir_all(of.path(id)).unwrap();
            fs::write(of.path(&format!("{id}/config.v2.json")), format!("{{\"Name\":\"/{name}\"}}")).unwrap();
        };
        let follow = |of: &FollowedFolder| {
            let kept = of.follower.positions().clone();
            let selection = ContainerSelection::new(of.parent.path(), &["web*"]).unwrap();
            FileFollower::new(Vec::new(), FileStart::Beginning, kept).of_containers(selection)
        };
        describe(&of, "a", "web-1");
        describe(&of, "b", "db-1");
        of.append("a/a-json.log", "a1\n");
        of.append("b/b-json.log", "b1\n");
        of.follower = follow(&of);
        of.check(&["a1"]);
        // Another comes, a rotation, and a container under another name.
        describe(&of, "c", "web-2");
        of.append("c/c-json.log", "c1\n");
        of.append("a/a-json.log", "a2\n");
        of.rename("a/a-json.log", "a/a-json.log.1");
        of.append("a/a-json.log", "a3\n");
        describe(&of, "b", "web-renamed");
        of.check(&["a2", "a3", "b1", "c1"]);
        // What is called otherwise is let go, and goes on where it was.
        describe(&of, "b", "db-once-more");
        of.check(&[]);
        of.append("b/b-json.log", "b2\n");
        of.check(&[]);
        describe(&of, "b", "web-3");
        fs::remove_dir_all(of.path("c")).unwrap();
        of.check(&["b2"]);
        of.append("a/a-json.log", "a4\n");
        of.follower = follow(&of);
        of.check(&["a4"]);
        assert!(of.follower.problems().is_empty(), "{:?}", of.follower.problems());
        fs::remove_dir_all(of.parent.path()).unwrap();
        of.check(&[]);
        assert!(!of.follower.problems().is_empty());
    }

    #[test]
    fn what_is_not_committed_comes_again() {
        let mut of = FollowedFolder::new(&["a"]);
        of.append("a", "1\n");
        assert_eq!(of.follower.poll().map(|chunk| chunk.lines.len()), Some(1));
        assert_eq!(of.follower.poll().map(|chunk| chunk.lines.len()), Some(1));
        of.restart();
        of.check(&["1"]);
    }

    #[test]
    fn rotation_by_renaming() {
        let mut of = FollowedFolder::new(&["a"]);
        of.append("a", "1\n2\n");
        of.check(&["1", "2"]);
        of.rename("a", "a.1");
        of.check(&[]);
        of.append("a.1", "3\n");
        of.append("a", "4\n");
        of.check(&["3", "4"]);
        // Twice while nobody looks, with dates in names, and one that is compressed.
        of.append("a", "5\n");
        of.rename("a", "a-20260101");
        of.append("a", "6\n");
        of.rename("a", "a-20260102");
        of.append("a-20260103.gz", "no\n");
        of.append("a.old", "no\n");
        of.append("a", "7\n");
        of.restart();
        of.check(&["5", "6", "7"]);
        of.restart();
        of.check(&[]);
        // Gone for good, and later there again.
        fs::remove_file(of.path("a")).unwrap();
        of.check(&[]);
        of.append("a", "8\n");
        of.check(&["8"]);
    }

    #[test]
    fn a_file_that_was_not_read_yet_is_known() {
        let mut of = FollowedFolder::new(&["a"]);
        of.append("a", "1\n");
        assert!(of.follower.poll().is_some() && of.follower.has_begun() && !of.follower.has_begun());
        of.append("a", "2\n");
        of.rename("a", "a.1");
        of.append("a", "3\n");
        of.restart();
        of.check(&["1", "2", "3"]);
        assert!(of.follower.has_begun());
    }

    #[test]
    fn rotation_within_the_pattern() {
        let mut of = FollowedFolder::new(&["a*"]);
        of.append("a", "1\n");
        of.check(&["1"]);
        of.rename("a", "a.1");
        of.check(&[]);
        of.append("a.1", "2\n");
        of.check(&["2"]);
        of.append("a", "3\n");
        of.check(&["3"]);
        of.rename("a", "a.2");
        of.append("a", "4\n");
        of.restart();
        of.check(&["4"]);
    }

    #[test]
    fn copied_and_truncated() {
        let mut of = FollowedFolder::new(&["a*"]);
        of.append("a", "same\n1\n");
        of.check(&["1", "same"]);
        fs::copy(of.path("a"), of.path("a.1")).unwrap();
        fs::write(of.path("a"), "").unwrap();
        of.check(&[]);
        // Begins alike, and grows beyond the old place.
        of.append("a", "same\n2\n3\n");
        of.check(&["2", "3", "same"]);
        fs::write(of.path("a"), "same\n4\n5\n").unwrap();
        of.check(&["4", "5", "same"]);
        fs::copy(of.path("a"), of.path("a.2")).unwrap();
        fs::write(of.path("a"), "6\n").unwrap();
        of.restart();
        of.check(&["6"]);
    }

    #[test]
    fn files_begin_at_their_end_if_that_is_wanted() {
        let mut of = FollowedFolder::new(&["*"]);
        of.append("a", "1\n2");
        of.follower = FileFollower::new(of.patterns.clone(), FileStart::End, SourcePositions::default());
        of.check(&[]);
        of.append("a", "2\n3\n");
        of.append("b", "4\n");
        of.check(&["3", "4"]);
    }

    #[test]
    fn headings_are_kept_with_the_place() {
        let mut of = FollowedFolder::new(&["a"]);
        of.append("a", "#Fields: x\n1\n");
        let chunk = of.follower.poll().unwrap();
        assert_eq!(chunk.head, None);
        of.follower.commit(Some("#Fields: x".to_owned()));
        of.restart();
        of.append("a", "2\n");
        assert_eq!(of.follower.poll().unwrap().head.as_deref(), Some("#Fields: x"));
    }

    #[test]
    fn files_that_cannot_be_read_are_named_and_spoil_no_others() {
        let mut of = FollowedFolder::new(&["a", "b"]);
        fs::create_dir(of.path("a")).unwrap();
        of.append("b", "1\n");
        of.check(&["1"]);
        assert_eq!(of.follower.problems().keys().collect::<Vec<_>>(), [&of.path("a")]);
    }
}

//! Word from the system that files have grown, so that a line is read when it is written and not at the next look.
//!
//! Only growth is told. Files that are new, rotated or truncated are found by looking, as are all where the
//! system tells nothing (file systems of other machines, too many watches).

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::{Errno, read};

/// Reads of what has happened before others have a turn.
const READS_MAX: usize = 16;

/// A watch over files.
#[derive(Debug)]
pub(crate) struct GrowthWatch {
    inotify: OwnedFd,
    /// The watch of each path, and the file that it is of.
    watches: BTreeMap<PathBuf, ((u64, u64), i32)>,
}

impl GrowthWatch {
    /// A watch over nothing; `None` where the system has none to give.
    pub(crate) fn new() -> Option<GrowthWatch> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        Some(GrowthWatch { inotify, watches: BTreeMap::new() })
    }

    /// Watches these files, each with device and inode, and no others; answers how many are new. What cannot be watched is not.
    pub(crate) fn watch<'p>(&mut self, files: impl Iterator<Item = (&'p Path, (u64, u64))>) -> usize {
        let mut before = std::mem::take(&mut self.watches);
        let mut new = 0;
        for (path, id) in files {
            let kept = match before.remove_entry(path) {
                Some((path, (known, watch))) if known == id => Some((path, watch)),
                other => {
                    if let Some((_, (_, watch))) = other {
                        let _ = inotify::remove_watch(&self.inotify, watch);
                    }
                    let watch = inotify::add_watch(&self.inotify, path, WatchFlags::MODIFY);
                    new += usize::from(watch.is_ok());
                    watch.ok().map(|watch| (path.to_owned(), watch))
                }
            };
            if let Some((path, watch)) = kept {
                self.watches.insert(path, (id, watch));
            }
        }
        for (_, watch) in before.into_values() {
            // A file that is gone has taken its watch with it.
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
        new
    }

    /// Waits until one of the files has grown since this was asked last, but for so long at most. Returns true if one has, or if
    /// a watch has ended.
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let Ok(timeout) = Timespec::try_from(at_most) else { return false };
        let mut waited = [PollFd::new(&self.inotify, PollFlags::IN)];
        let has_grown = poll(&mut waited, Some(&timeout)).is_ok_and(|count| count > 0);
        if has_grown {
            self.clear();
        }
        has_grown
    }

    /// Takes what was told.
    fn clear(&self) {
        let mut told = [MaybeUninit::<u8>::uninit(); 4096];
        for _ in 0..READS_MAX {
            match read(&self.inotify, &mut told) {
                Ok((told, _)) if !told.is_empty() => {}
                Err(Errno::INTR) => {}
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;

    use super::*;
    use crate::followed_file::identity;

    #[test]
    fn growth_is_told_of_files_that_are_watched() {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut watch) = GrowthWatch::new() else { return println!("skipped: no inotify") };
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str| {
            let mut file = File::options().create(true).append(true).open(path(name)).unwrap();
            file.write_all(b"a line\n").unwrap();
        };
        let id = |name: &str| identity(&fs::metadata(path(name)).unwrap());
        write("a");
        write("b");
        let (a, b) = (path("a"), path("b"));
        assert_eq!(watch.watch([(a.as_path(), id("a"))].into_iter()), 1);
        assert_eq!(watch.watch([(a.as_path(), id("a"))].into_iter()), 0);
        let (soon, long) = (Duration::from_millis(1), Duration::from_secs(60));
        assert!(!watch.wait(soon));
        write("b");
        assert!(!watch.wait(soon));
        write("a");
        write("a");
        assert!(watch.wait(long));
        assert!(!watch.wait(soon), "it is told once");
        // Another file under the path, and one more.
        fs::rename(&a, path("a.1")).unwrap();
        write("a");
        assert_eq!(watch.watch([(a.as_path(), id("a")), (b.as_path(), id("b"))].into_iter()), 2);
        watch.wait(soon);
        write("a.1");
        assert!(!watch.wait(soon));
        write("b");
        assert!(watch.wait(long));
        // What is not there cannot be watched, and harms none.
        assert_eq!(watch.watch([(path("c").as_path(), (0, 0))].into_iter()), 0);
        watch.wait(soon);
        write("a");
        assert!(!watch.wait(soon));
    }
}

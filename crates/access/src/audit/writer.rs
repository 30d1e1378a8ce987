//! The thread that writes the log: a bounded queue before it, so that no lock is held over the disk and no queue grows.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use event::Time;

use super::entry::AuditEntry;
use super::log::{AuditError, AuditHead, AuditLog};

/// Entries that may wait.
const QUEUE_MAX: usize = 4096;
/// Entries that are written at once.
const BATCH_MAX: usize = 256;
/// Time after which what was written is synced.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// The call by which the writer says that an entry is in the file, or why it is not.
pub type AuditReceipt = Box<dyn FnOnce(Result<(), AuditError>) + Send>;

enum AuditJob {
    Entry(Box<AuditEntry>, AuditReceipt),
    Forget(Time),
    Stop,
}

/// The log with its thread. Dropped, it writes what waits and ends.
#[derive(Debug)]
pub struct AuditWriter {
    sender: SyncSender<AuditJob>,
    is_failing: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl AuditWriter {
    /// Starts the thread. `tell` is called there with the head when the log begins and ends, and with what fails.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(
        log: AuditLog,
        tell: impl Fn(Result<AuditHead, &io::Error>) + Send + 'static,
    ) -> io::Result<AuditWriter> {
        let (sender, receiver) = sync_channel(QUEUE_MAX);
        let (is_failing, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let state = (Arc::clone(&is_failing), Arc::clone(&written));
        let work = move || AuditThread { log, tell, is_failing: state.0, written: state.1 }.run(&receiver);
        let thread = std::thread::Builder::new().name("audit".to_owned()).spawn(work)?;
        Ok(AuditWriter { sender, is_failing, written, thread: Some(thread) })
    }

    /// Hands an entry over. `receipt` is called once it is in the file, or will not be. Never waits.
    pub fn write(&self, entry: AuditEntry, receipt: AuditReceipt) {
        match self.sender.try_send(AuditJob::Entry(Box::new(entry), receipt)) {
            Ok(()) => {}
            Err(TrySendError::Full(AuditJob::Entry(_, receipt))) => receipt(Err(AuditError::Busy)),
            Err(TrySendError::Disconnected(AuditJob::Entry(_, receipt))) => {
                receipt(Err(AuditError::Failed("its thread has ended".to_owned())));
            }
            Err(_) => {}
        }
    }

    /// Has what is too old forgotten, as of now. Never waits.
    pub fn forget(&self, now: Time) {
        // If the queue is full, the next time will do.
        let _ = self.sender.try_send(AuditJob::Forget(now));
    }

    /// Returns true if the latest write has failed.
    pub fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// The number of entries written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

impl Drop for AuditWriter {
    fn drop(&mut self) {
        // What waits before it is written.
        let _ = self.sender.send(AuditJob::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic there was told by its message.
            let _ = thread.join();
        }
    }
}

struct AuditThread<F> {
    log: AuditLog,
    tell: F,
    is_failing: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
}

impl<F: Fn(Result<AuditHead, &io::Error>)> AuditThread<F> {
    fn run(mut self, jobs: &Receiver<AuditJob>) {
        (self.tell)(Ok(self.log.head()));
        let mut is_over = false;
        while !is_over {
            let first = match jobs.recv_timeout(SYNC_EVERY) {
                Ok(job) => Some(job),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let is_idle = first.is_none();
            let (mut entries, mut receipts) = (Vec::new(), Vec::new());
            let mut forget = None;
            for job in first.into_iter().chain(std::iter::from_fn(|| jobs.try_recv().ok()).take(BATCH_MAX)) {
                match job {
                    AuditJob::Entry(entry, receipt) => {
                        entries.push(*entry);
                        receipts.push(receipt);
                    }
                    AuditJob::Forget(now) => forget = Some(now),
                    AuditJob::Stop => is_over = true,
                }
            }
            let count = entries.len() as u64;
            let appended = self.log.append(entries);
            let done = self.noted(appended);
            if done.is_ok() {
                self.written.fetch_add(count, Ordering::Relaxed);
            }
            receipts.into_iter().for_each(|receipt| receipt(done.clone()));
            if let Some(now) = forget {
                let forgotten = self.log.forget(now);
                // What could not be removed is tried again.
                let _ = self.noted(forgotten);
            }
            if is_idle || is_over || forget.is_some() {
                let synced = self.log.sync();
                // The next one tells again.
                let _ = self.noted(synced);
            }
        }
        (self.tell)(Ok(self.log.head()));
    }

    /// Notes whether the log can be written, and says so once it cannot.
    fn noted(&self, done: io::Result<()>) -> Result<(), AuditError> {
        let was_failing = self.is_failing.swap(done.is_err(), Ordering::Relaxed);
        done.map_err(|error| {
            if !was_failing {
                (self.tell)(Err(&error));
            }
            AuditError::Failed(error.to_string())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::mpsc::channel;

    use disk::{Device, FileDevice, MemoryDevice};
    use event::Span;

    use super::super::{AuditOptions, AuditQuery, ChainHash, read, verify};
    use super::*;

    fn entry(number: u64) -> AuditEntry {
        AuditEntry {
            time: Time::from_seconds(1_779_012_000 + number as i64),
            by: "ann".to_owned(),
            from: None,
            action: "rules.post".to_owned(),
            status: 200,
            detail: BTreeMap::from([("pipeline".to_owned(), format!("mail{number}"))]),
        }
    }

    fn options() -> AuditOptions {
        AuditOptions { segment_bytes: 1200, ..AuditOptions::default() }
    }

    fn written(directory: &std::path::Path, count: u64) {
        let mut log = AuditLog::open(Box::new(FileDevice::unlocked(directory).unwrap()), options()).unwrap();
        log.append((0..count).map(entry)).unwrap();
        log.sync().unwrap();
    }

    fn files(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
        let mut files: Vec<_> = std::fs::read_dir(directory)
            .unwrap()
            .map(|file| file.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "ndjson"))
            .collect();
        files.sort();
        files
    }

    /// Changes the files of a log, and checks what the verification says.
    fn check(spoil: impl FnOnce(&std::path::Path), fault: Option<&str>) {
        let directory = tempfile::tempdir().unwrap();
        written(directory.path(), 20);
        spoil(directory.path());
        let found = verify(&FileDevice::read_only(directory.path()), None, &|| true).unwrap();
        match fault {
            None => assert!(found.faults.is_empty(), "{found:?}"),
            Some(why) => {
                assert!(found.faults.iter().any(|fault| fault.why.contains(why)), "{why}: {found:?}")
            }
        }
    }

    fn edit(path: &std::path::Path, change: impl FnOnce(Vec<String>) -> Vec<String>) {
        let text = std::fs::read_to_string(path).unwrap();
        let lines = change(text.lines().map(str::to_owned).collect());
        std::fs::write(path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    }

    #[test]
    fn changes_of_files_are_found() {
        check(|_| {}, None);
        let changed = "changed, or a line before it";
        check(
            |path| {
                edit(&files(path)[1], |lines| lines.iter().map(|line| line.replace("ann", "bob")).collect())
            },
            Some(changed),
        );
        check(
            |path| {
                edit(&files(path)[1], |mut lines| {
                    lines.remove(1);
                    lines
                });
            },
            Some("lines are missing or were put in"),
        );
        check(
            |path| {
                edit(&files(path)[1], |mut lines| {
                    lines.swap(1, 2);
                    lines
                })
            },
            Some("lines are missing"),
        );
        check(
            |path| {
                edit(files(path).last().unwrap(), |mut lines| {
                    lines.pop();
                    lines
                })
            },
            Some("1 lines are missing at the end"),
        );
        check(|path| std::fs::remove_file(files(path).last().unwrap()).unwrap(), Some("missing at the end"));
        check(
            |path| std::fs::remove_file(&files(path)[1]).unwrap(),
            Some("lines are missing or were put in"),
        );
        // A file at the front may have been forgotten.
        check(|path| std::fs::remove_file(&files(path)[0]).unwrap(), None);
        check(
            |path| {
                edit(&files(path)[0], |mut lines| {
                    lines.push("nonsense".to_owned());
                    lines
                })
            },
            Some("does not end with its hash"),
        );
    }

    #[test]
    fn a_log_that_is_rewritten_is_found_by_a_line_noted_elsewhere() {
        let directory = tempfile::tempdir().unwrap();
        written(directory.path(), 20);
        let device = FileDevice::read_only(directory.path());
        let noted = verify(&device, None, &|| true).unwrap().head;
        assert!(verify(&device, Some(noted), &|| true).unwrap().faults.is_empty());
        let other = tempfile::tempdir().unwrap();
        let mut log =
            AuditLog::open(Box::new(FileDevice::unlocked(other.path()).unwrap()), options()).unwrap();
        log.append((1..22).map(entry)).unwrap();
        log.sync().unwrap();
        let other = FileDevice::read_only(other.path());
        assert!(verify(&other, None, &|| true).unwrap().faults.is_empty(), "the chain itself holds");
        let found = verify(&other, Some(noted), &|| true).unwrap();
        assert!(found.faults[0].why.contains("lines were rewritten"), "{found:?}");
        let ahead = AuditHead { number: 999, chain: ChainHash::START };
        let found = verify(&device, Some(ahead), &|| true).unwrap();
        assert!(found.faults[0].why.contains("missing at the end"), "{found:?}");
    }

    #[test]
    fn a_torn_end_is_put_aside_and_the_chain_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        written(directory.path(), 20);
        let last = files(directory.path()).pop().unwrap();
        let whole = std::fs::read(&last).unwrap();
        let line = whole.iter().position(|byte| *byte == b'\n').unwrap();
        for cut in [1, 40, line] {
            let mut bytes = whole.clone();
            bytes.extend_from_slice(&whole[..cut]);
            std::fs::write(&last, &bytes).unwrap();
            let torn = verify(&FileDevice::read_only(directory.path()), None, &|| true).unwrap();
            assert!(torn.is_torn && torn.faults.is_empty(), "{torn:?}");
            written(directory.path(), 1);
            let mended = verify(&FileDevice::read_only(directory.path()), None, &|| true).unwrap();
            assert!(
                !mended.is_torn && mended.faults.is_empty() && mended.head.number > torn.head.number,
                "{mended:?}"
            );
            let aside = last.with_extension("ndjson.torn");
            assert!(!std::fs::read(aside).unwrap().is_empty());
            std::fs::remove_dir_all(directory.path()).unwrap();
            written(directory.path(), 20);
        }
    }

    #[test]
    fn pages_follow_each_other_over_files() {
        let directory = tempfile::tempdir().unwrap();
        written(directory.path(), 20);
        assert!(files(directory.path()).len() > 2);
        let device = FileDevice::read_only(directory.path());
        let (mut after, mut seen) = (0, Vec::new());
        loop {
            let query =
                AuditQuery { after, action: Some("rules".to_owned()), limit: 3, ..AuditQuery::default() };
            let page = read(&device, &query, &|| true).unwrap();
            seen.extend(page.records.iter().map(|record| record.entry.detail["pipeline"].clone()));
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
        assert_eq!(seen, (0..20).map(|number| format!("mail{number}")).collect::<Vec<_>>());
        let since = Some(Time::from_seconds(1_779_012_000 + 18));
        let query = AuditQuery { since, by: Some("ann".to_owned()), limit: 100, ..AuditQuery::default() };
        assert_eq!(read(&device, &query, &|| true).unwrap().records.len(), 2);
        let query = AuditQuery { action: Some("rule".to_owned()), limit: 100, ..AuditQuery::default() };
        assert!(
            read(&device, &query, &|| true).unwrap().records.is_empty(),
            "an action is no prefix of letters"
        );
    }

    #[test]
    fn old_files_are_forgotten_and_the_rest_proves_itself() {
        let directory = tempfile::tempdir().unwrap();
        written(directory.path(), 40);
        let before = files(directory.path()).len();
        let bounds = AuditOptions { segment_bytes: 1200, keep: Span::days(400), keep_bytes: 4000 };
        let device = || Box::new(FileDevice::unlocked(directory.path()).unwrap());
        let mut log = AuditLog::open(device(), bounds).unwrap();
        log.forget(Time::from_seconds(1_779_012_100)).unwrap();
        log.sync().unwrap();
        let after = files(directory.path()).len();
        assert!(after < before && after > 1, "{before} {after}");
        let found = verify(&FileDevice::read_only(directory.path()), None, &|| true).unwrap();
        assert!(found.faults.is_empty() && found.first > 1, "{found:?}");
        let all = AuditOptions { keep: Span::seconds(1), ..bounds };
        let mut log = AuditLog::open(device(), all).unwrap();
        log.forget(Time::from_seconds(1_800_000_000)).unwrap();
        log.sync().unwrap();
        let found = verify(&FileDevice::read_only(directory.path()), None, &|| true).unwrap();
        assert!(found.faults.is_empty() && files(directory.path()).len() <= 2, "{found:?}");
        let query = AuditQuery { action: Some("audit.forget".to_owned()), limit: 9, ..AuditQuery::default() };
        assert!(
            !read(&FileDevice::read_only(directory.path()), &query, &|| true).unwrap().records.is_empty()
        );
    }

    #[test]
    fn changes_of_tokens_are_counted_over_files() {
        let directory = tempfile::tempdir().unwrap();
        written(directory.path(), 1);
        let device = || Box::new(FileDevice::unlocked(directory.path()).unwrap());
        let mut log = AuditLog::open(device(), options()).unwrap();
        let mut change = entry(0);
        change.detail.insert("change".to_owned(), "7".to_owned());
        log.append([change]).unwrap();
        log.append((0..20).map(entry)).unwrap();
        assert_eq!(AuditLog::open(device(), options()).unwrap().changes(), 7);
    }

    #[test]
    fn the_thread_answers_each_entry_once_it_is_written() {
        let device = MemoryDevice::new();
        let log = AuditLog::open(Box::new(device.clone()), AuditOptions::default()).unwrap();
        let writer = AuditWriter::start(log, |_| {}).unwrap();
        let (sender, receiver) = channel();
        for number in 0..100 {
            let sender = sender.clone();
            writer.write(entry(number), Box::new(move |done| sender.send(done).unwrap()));
        }
        for _ in 0..100 {
            assert_eq!(receiver.recv().unwrap(), Ok(()));
        }
        let query = AuditQuery { limit: 1000, ..AuditQuery::default() };
        assert_eq!(read(&device as &dyn Device, &query, &|| true).unwrap().records.len(), 101);
        assert!(!writer.is_failing() && writer.written() == 100);
        drop(writer);
        assert!(verify(&device, None, &|| true).unwrap().faults.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_damage_is_survived(at in 0..3000_usize, with in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40), cut in 0..60_usize) {
            let device = MemoryDevice::new();
            let mut log = AuditLog::open(Box::new(device.clone()), options()).unwrap();
            log.append((0..12).map(entry)).unwrap();
            log.sync().unwrap();
            let names: Vec<String> = device.list().unwrap().into_iter().filter(|name| name.ends_with("ndjson")).collect();
            let name = &names[at % names.len()];
            let mut bytes = device.read(name).unwrap();
            let from = at.min(bytes.len());
            let to = (from + cut).min(bytes.len());
            let is_same = bytes[from..to] == with[..];
            bytes.splice(from..to, with);
            device.write(name, &bytes);
            let before = verify(&device, None, &|| true).unwrap();
            let is_found = before.fault_count > 0 || before.is_torn;
            proptest::prop_assert!(is_same || is_found, "{before:?}");
            let mut log = AuditLog::open(Box::new(device.clone()), options()).unwrap();
            log.append([AuditEntry { action: "later".to_owned(), ..entry(99) }]).unwrap();
            log.sync().unwrap();
            let query = AuditQuery { action: Some("later".to_owned()), limit: 9, ..AuditQuery::default() };
            proptest::prop_assert_eq!(read(&device, &query, &|| true).unwrap().records.len(), 1);
            let after = verify(&device, None, &|| true).unwrap();
            proptest::prop_assert!(before.fault_count == 0 || after.fault_count > 0, "damage stays to be seen: {:?}", after);
        }
    }
}

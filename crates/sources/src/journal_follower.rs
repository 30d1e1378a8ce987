//! Entries of the journal, by `journalctl -o json`: from a cursor on, and again from there if that program ends.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use crate::file_follower::FileStart;
use crate::{CHUNK_LINES_MAX, LINE_BYTES_MAX, NamedLine, SourceChunk, digest};

/// The origin of chunks of entries.
pub const JOURNAL_ORIGIN: &str = "journal";
/// Bytes of a chunk, and chunks that are read ahead.
const CHUNK_BYTES_MAX: usize = 1 << 20;
const CHUNKS_AHEAD: usize = 4;
/// Bytes that are kept of what the program says of itself.
const NOTE_BYTES_MAX: usize = 1024;
/// Most polls that pass before a program that ended is started again.
const PAUSE_MAX: u32 = 120;
/// Most bytes of a unit's name, and units.
pub const UNIT_BYTES_MAX: usize = 256;
/// Most units of a source.
pub const UNITS_MAX: usize = 100;

/// The choice of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalSelection {
    /// The units whose entries are read; all, if none is named.
    pub units: Vec<String>,
    /// The beginning, where no cursor is known.
    pub start: FileStart,
    /// True if the end of what is there is the end.
    pub is_once: bool,
}

/// The journal of this machine, followed.
pub struct JournalFollower {
    selection: JournalSelection,
    cursor: Option<String>,
    running: Option<JournalProcess>,
    /// The lines that were handed out and are not safe yet, and the cursor behind them.
    held: Option<(SourceChunk, Option<String>)>,
    problem: Option<String>,
    /// Polls until the program is started again, and how many it will be next time.
    pause: u32,
    next_pause: u32,
    is_at_end: bool,
}

/// A program that is running, and what it writes.
struct JournalProcess {
    child: Child,
    lines: Receiver<Vec<Vec<u8>>>,
    note: Receiver<String>,
}

impl Drop for JournalProcess {
    fn drop(&mut self) {
        // One that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The part of an entry that says where it is.
#[derive(Deserialize)]
struct EntryPlace {
    #[serde(rename = "__CURSOR")]
    cursor: String,
}

impl JournalFollower {
    /// Begins behind a cursor.
    pub fn new(selection: JournalSelection, cursor: Option<String>) -> JournalFollower {
        JournalFollower {
            selection,
            cursor,
            running: None,
            held: None,
            problem: None,
            pause: 0,
            next_pause: 1,
            is_at_end: false,
        }
    }

    /// The cursor of the last entry that is safe.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// The reason why nothing can be read, if there is one.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Returns true if all was read that there was, and no more is wanted.
    pub fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// The next entries, for which it waits so long at most. Until they are committed, they come again.
    pub fn poll(&mut self, wait: Duration) -> Option<SourceChunk> {
        if let Some((chunk, _)) = &self.held {
            return Some(chunk.clone());
        }
        if self.is_at_end {
            return None;
        }
        if self.running.is_none() {
            if self.pause > 0 {
                self.pause -= 1;
                thread::sleep(wait);
                return None;
            }
            match start(&self.selection, self.cursor.as_deref()) {
                Ok(running) => self.running = Some(running),
                Err(error) => {
                    self.fail(format!("journalctl cannot be started: {error}"));
                    return None;
                }
            }
        }
        let running = self.running.as_ref()?;
        match running.lines.recv_timeout(wait) {
            Ok(lines) => {
                (self.problem, self.next_pause) = (None, 1);
                let chunk = self.chunk(lines);
                Some(chunk)
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                self.ended();
                None
            }
        }
    }

    /// Moves the cursor behind the entries that were handed out last.
    pub fn commit(&mut self) {
        if let Some((_, Some(cursor))) = self.held.take() {
            self.cursor = Some(cursor);
        }
    }

    fn chunk(&mut self, lines: Vec<Vec<u8>>) -> SourceChunk {
        let mut last = None;
        let mut named = Vec::with_capacity(lines.len());
        for line in lines {
            let place = serde_json::from_slice::<EntryPlace>(&line).ok();
            let name =
                place.as_ref().map(|place| format!("{JOURNAL_ORIGIN}:{}", digest(place.cursor.as_bytes())));
            last = place.map(|place| place.cursor).or(last);
            named.push((name, line) as NamedLine);
        }
        let chunk = SourceChunk { origin: Arc::from(JOURNAL_ORIGIN), head: None, lines: named };
        self.held = Some((chunk.clone(), last));
        chunk
    }

    /// Says why the program ended, and has it started again later.
    fn ended(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let status = running.child.wait();
        let note = running.note.recv_timeout(Duration::from_millis(100)).unwrap_or_default();
        if self.selection.is_once && status.as_ref().is_ok_and(std::process::ExitStatus::success) {
            self.is_at_end = true;
            return;
        }
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        self.fail(format!("journalctl ended ({status}): {}", note.trim()));
    }

    fn fail(&mut self, why: String) {
        self.problem = Some(why);
        self.pause = self.next_pause;
        self.next_pause = (self.next_pause * 2).min(PAUSE_MAX);
    }
}

/// Starts the program and the threads that read what it writes.
fn start(selection: &JournalSelection, cursor: Option<&str>) -> std::io::Result<JournalProcess> {
    let mut command = Command::new("journalctl");
    command.args(["--output=json", "--all", "--quiet", "--no-pager"]);
    if !selection.is_once {
        command.arg("--follow");
    }
    match (cursor, selection.start) {
        (Some(cursor), _) => {
            command.arg(format!("--after-cursor={cursor}"));
            if !selection.is_once {
                command.arg("--no-tail");
            }
        }
        (None, FileStart::End) => {
            command.arg("--lines=0");
        }
        (None, FileStart::Beginning) if !selection.is_once => {
            command.arg("--no-tail");
        }
        (None, FileStart::Beginning) => {}
    }
    command.args(selection.units.iter().map(|unit| format!("--unit={unit}")));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (to_lines, lines) = sync_channel(CHUNKS_AHEAD);
    let (to_note, note) = sync_channel(1);
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let process = JournalProcess { child, lines, note };
    if let Some(out) = out {
        thread::Builder::new().name("journal".to_owned()).spawn(move || read(out, &to_lines))?;
    }
    if let Some(mut err) = err {
        thread::Builder::new().name("journal-errors".to_owned()).spawn(move || {
            let mut note = Vec::new();
            let _ = err.by_ref().take(NOTE_BYTES_MAX as u64).read_to_end(&mut note);
            let _ = to_note.send(String::from_utf8_lossy(&note).into_owned());
            // A full pipe would stop it.
            let _ = std::io::copy(&mut err, &mut std::io::sink());
        })?;
    }
    Ok(process)
}

/// Hands over lines until nobody wants them: those that are there already together, a single one without waiting for others.
fn read(out: impl Read, to: &SyncSender<Vec<Vec<u8>>>) {
    let mut reader = BufReader::with_capacity(256 << 10, out);
    let (mut lines, mut bytes) = (Vec::new(), 0);
    loop {
        let mut line = Vec::new();
        let read = reader.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line);
        let is_end = !matches!(read, Ok(1..));
        if !is_end {
            if !line.ends_with(b"\n") && line.len() > LINE_BYTES_MAX {
                let _ = reader.skip_until(b'\n');
            }
            bytes += line.len();
            lines.push(line);
        }
        let is_full = lines.len() == CHUNK_LINES_MAX || bytes >= CHUNK_BYTES_MAX;
        if is_full || is_end || !reader.buffer().contains(&b'\n') {
            bytes = 0;
            let chunk = std::mem::take(&mut lines);
            if !chunk.is_empty() && to.send(chunk).is_err() || is_end {
                return;
            }
        }
    }
}

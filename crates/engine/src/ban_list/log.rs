//! The ban list's file: a line of JSON a change, with its checksum.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use event::Time;
use serde::{Deserialize, Serialize};

use super::entry::{Ban, BanCause, BanScope, LabelSource};

#[derive(Debug)]
pub(super) struct BanLog {
    pub(super) path: PathBuf,
    pub(super) file: Arc<File>,
    pub(super) lines: usize,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum BanLogLine<'a> {
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
pub(super) enum BanLineKind {
    Put,
    Lift,
    End,
}

/// The content of a line on a key.
#[derive(Serialize, Deserialize)]
pub(super) struct BanLogEntry<'a> {
    pub(super) id: u64,
    pub(super) pipeline: Cow<'a, str>,
    pub(super) kind: Cow<'a, str>,
    pub(super) scope: BanScope,
    pub(super) label: Cow<'a, str>,
    pub(super) decision: Cow<'a, str>,
    pub(super) value: Cow<'a, str>,
    pub(super) by: Cow<'a, str>,
    pub(super) since: Time,
    pub(super) until: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<Cow<'a, BanCause>>,
    /// True if other nodes have heard of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) shared: bool,
}

impl<'a> BanLogEntry<'a> {
    pub(super) fn of(ban: &'a Ban, shared: bool) -> BanLogEntry<'a> {
        let LabelSource { pipeline, kind, label, decision, by } = &*ban.source;
        let [pipeline, kind, label, decision, by] =
            [pipeline, kind, label, decision, by].map(|text| Cow::Borrowed(text.as_str()));
        let value = Cow::Borrowed(&*ban.value);
        BanLogEntry {
            id: ban.id,
            pipeline,
            kind,
            scope: ban.scope,
            label,
            decision,
            value,
            by,
            since: ban.since,
            until: ban.until,
            cause: ban.cause.as_deref().map(Cow::Borrowed),
            shared,
        }
    }
}

/// A change as a line of the file.
pub(super) fn write_line(out: &mut impl Write, ban: &Ban, kind: BanLineKind, shared: bool) -> io::Result<()> {
    let entry = BanLogEntry::of(ban, shared);
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
pub(super) fn seal_line(out: &mut impl Write, line: &BanLogLine<'_>) -> io::Result<()> {
    let text = serde_json::to_vec(line)?;
    out.write_all(&text)?;
    writeln!(out, "\t{:08x}", crc32fast::hash(&text))
}

/// Reads a line without its end; `None` if it is not as it was written.
pub(super) fn read_line(line: &[u8]) -> Option<BanLogLine<'_>> {
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

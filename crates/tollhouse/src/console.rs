//! Output for people and programs. Results go to standard output, everything said beside them to standard error.
//!
//! Text that events brought is never written raw: its control characters could command the terminal
//! ([`printable`]). Colours and progress appear on a terminal only, and `NO_COLOR` turns the colours off.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::io::{self, IsTerminal, StdoutLock, Write};
use std::time::Duration;

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};
use judge::Action;
use serde::Serialize;

use crate::exit::CommandError;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const PLAIN: Style = Style::new();
pub(crate) const RED: Style = AnsiColor::Red.on_default();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();

/// Says something on standard error.
pub(crate) fn say(message: impl Display) {
    // With standard error gone there is nobody to tell.
    let _ = writeln!(anstream::stderr(), "{message}");
}

/// Says on standard error that something is wrong.
pub(crate) fn error(message: impl Display) {
    let style = RED.bold();
    say(format_args!("{style}error{style:#}: {message}"));
}

/// Says on standard error what to do about it.
pub(crate) fn help(message: impl Display) {
    let style = GREEN.bold();
    say(format_args!("{style} help{style:#}: {message}"));
}

/// Says on standard error why a command cannot do its work, and what to do about it.
pub(crate) fn report(failure: &CommandError) {
    if let CommandError::Because { message, help: advice } = failure {
        error(message);
        advice.iter().for_each(help);
    }
}

/// The colour in which an action is shown.
pub(crate) fn colour(action: Action) -> Style {
    match action {
        Action::Accept => GREEN,
        Action::Tag | Action::ReviewAfter | Action::Challenge | Action::Shadow => YELLOW,
        Action::Quarantine | Action::ReviewBefore | Action::Throttle | Action::Reject => RED,
    }
}

/// Text from outside as it may be shown: control characters and those that turn the direction of writing are
/// escaped, so nothing in it commands the terminal or hides what is there.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let hostile = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    if !text.contains(hostile) {
        return Cow::Borrowed(text);
    }
    let escaped =
        text.chars().map(|c| if hostile(c) { c.escape_default().to_string() } else { c.to_string() });
    Cow::Owned(escaped.collect())
}

/// [`printable`] text, cut to so many characters.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    let text = printable(text);
    match text.char_indices().nth(chars_max) {
        None => text.into_owned(),
        Some(_) => text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Columns of the terminal that standard output is. Without one nothing is cut: a file or another program takes lines of any
/// length.
pub(crate) fn width() -> usize {
    match terminal_size::terminal_size() {
        Some((terminal_size::Width(columns), _)) if io::stdout().is_terminal() => {
            usize::from(columns).max(40)
        }
        _ => usize::MAX,
    }
}

/// Standard output. A line at a time on a terminal, buffered into a pipe or file.
pub(crate) struct Output {
    stream: AutoStream<StdoutLock<'static>>,
    buffer: Vec<u8>,
    terminal: bool,
    json: bool,
}

/// Bytes that are gathered before they are written to a pipe or file.
const BUFFER_BYTES: usize = 64 << 10;

impl Output {
    /// Standard output, for JSON lines or for people.
    pub(crate) fn new(json: bool) -> Output {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let stream = AutoStream::auto(stdout.lock());
        Output { stream, buffer: Vec::new(), terminal, json }
    }

    /// Returns true if programs read the output.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Writes one object as a line.
    pub(crate) fn json(&mut self, object: &impl Serialize) -> Result<(), CommandError> {
        serde_json::to_writer(&mut self.buffer, object)
            .map_err(|error| CommandError::output(error.into()))?;
        self.buffer.push(b'\n');
        self.drain()
    }

    /// Writes a line for people.
    pub(crate) fn line(&mut self, line: impl Display) -> Result<(), CommandError> {
        writeln!(self.buffer, "{line}").map_err(CommandError::output)?;
        self.drain()
    }

    /// Writes a text as it is, for programs.
    pub(crate) fn raw(&mut self, text: &str) -> Result<(), CommandError> {
        self.buffer.extend_from_slice(text.as_bytes());
        self.drain()
    }

    fn drain(&mut self) -> Result<(), CommandError> {
        if self.terminal || self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes what is gathered. To be called before the command ends well.
    pub(crate) fn flush(&mut self) -> Result<(), CommandError> {
        let written = self.stream.write_all(&self.buffer).and_then(|()| self.stream.flush());
        self.buffer.clear();
        written.map_err(CommandError::output)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // A command that failed still shows what it had; whether that works is beside the failure.
        let _ = self.flush();
    }
}

/// A cell of a [`TextTable`].
pub(crate) struct TableCell {
    text: String,
    style: Style,
    right: bool,
}

impl TableCell {
    /// Text.
    pub(crate) fn text(text: impl Into<String>, style: Style) -> TableCell {
        TableCell { text: text.into(), style, right: false }
    }

    /// A number, or the head of a column of them.
    pub(crate) fn number(number: impl Display, style: Style) -> TableCell {
        TableCell { text: number.to_string(), style, right: true }
    }
}

/// A table for people: columns as wide as their widest cell, numbers to the right.
#[derive(Default)]
pub(crate) struct TextTable {
    rows: Vec<Vec<TableCell>>,
}

impl TextTable {
    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = TableCell>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = |cell: &TableCell| cell.text.chars().count();
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| self.rows.iter().filter_map(|row| row.get(column)).map(length).max().unwrap_or(0))
            .collect();
        for (index, row) in self.rows.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let TableCell { text, style, right } = cell;
                let pad = " ".repeat(width - length(cell));
                let gap = if column == 0 { "" } else { "  " };
                let last = column + 1 == row.len();
                match (right, last) {
                    (true, _) => write!(f, "{gap}{pad}{style}{text}{style:#}")?,
                    (false, true) => write!(f, "{gap}{style}{text}{style:#}")?,
                    (false, false) => write!(f, "{gap}{style}{text}{style:#}{pad}")?,
                }
            }
        }
        Ok(())
    }
}

/// The progress of a command, shown on standard error while that is a terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A progress of a known number of steps, or of an unknown one. A bar's styles are fixed texts, checked by a test.
    pub(crate) fn new(what: &'static str, total: Option<u64>) -> Progress {
        if !io::stderr().is_terminal() {
            return Progress::hidden();
        }
        let bar = match total {
            Some(total) => ProgressBar::new(total).with_style(style(BAR)),
            None => ProgressBar::new_spinner().with_style(style(SPINNER)),
        };
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar.with_message(what))
    }

    /// Nothing is shown.
    pub(crate) fn hidden() -> Progress {
        Progress(ProgressBar::hidden())
    }

    /// Moves the progress on by some steps.
    pub(crate) fn add(&self, steps: u64) {
        self.0.inc(steps);
    }

    /// Sets the progress: the steps done, of all.
    pub(crate) fn set(&self, done: u64, all: u64) {
        self.0.set_length(all);
        self.0.set_position(done);
    }

    /// Says something on standard error without tearing the bar.
    pub(crate) fn say(&self, message: impl Display) {
        self.0.suspend(|| say(message));
    }

    /// Runs something that writes to the terminal without tearing the bar.
    pub(crate) fn suspend<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.suspend(work)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

const BAR: &str = "{msg} [{bar:32}] {human_pos}/{human_len} {per_sec}, {eta} left";
const SPINNER: &str = "{spinner} {human_pos} {msg} {per_sec}";

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("█▉▊▋▌▍▎▏ ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_styles_of_bars_can_be_read() {
        for template in [BAR, SPINNER] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn what_events_bring_does_not_command_the_terminal() {
        let check = |text: &str, shown: &str| assert_eq!(printable(text), shown);
        check("plain, größer", "plain, größer");
        check("\u{1b}[2J", "\\u{1b}[2J");
        check("a\nb\tc", "a\\nb\\tc");
        check("\u{202e}gpj.exe", "\\u{202e}gpj.exe");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abcd", 4), "abcd");
    }

    #[test]
    fn tables_line_up() {
        let mut table = TextTable::default();
        for (name, count, note) in [("name", "count", "note"), ("größe", "7", "7 x"), ("a", "1234567", "")]
        {
            let plain = Style::new();
            table.row([
                TableCell::text(name, plain),
                TableCell::number(count, plain),
                TableCell::text(note, plain),
            ]);
        }
        assert_eq!(table.to_string(), "name     count  note\ngröße        7  7 x\na      1234567  ");
    }
}

//! Mailboxes: one file, many messages (mbox, RFC 4155), each behind a line `From sender date`.
//!
//! Lines that a message itself begins with `From ` are quoted by `>`, and quoted ones once more (the variant called
//! mboxrd), so that taking one `>` away gives back what was stored. Writers that did not quote are met by looking
//! closer: a line parts messages only behind an empty one and with a time and a year in it.

use std::io::{self, BufRead, Read};

use content::mail::message::MESSAGE_BYTES_MAX;

/// Bytes of a line that are read at once; a longer line comes in several pieces.
const PIECE_BYTES_MAX: u64 = 64 << 10;
/// Bytes of the first line that are kept.
const ENVELOPE_BYTES_MAX: usize = 1024;

/// A message as it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredMessage {
    /// The bytes: the mailbox's own line, where there is one, and the message.
    pub(crate) bytes: Vec<u8>,
    /// Length of that line.
    pub(crate) envelope: usize,
}

impl StoredMessage {
    /// A message without a mailbox around it.
    pub(crate) fn bare(bytes: Vec<u8>) -> StoredMessage {
        StoredMessage { bytes, envelope: 0 }
    }

    /// The message alone.
    pub(crate) fn message(&self) -> &[u8] {
        self.bytes.get(self.envelope..).unwrap_or_default()
    }

    /// Returns the sender of the message and where it was stored, as its mailbox says: the second word of the line.
    pub(crate) fn origin(&self) -> Option<&str> {
        std::str::from_utf8(self.bytes.get(..self.envelope)?).ok()?.split_whitespace().nth(1)
    }

    /// The message with the mailbox's line if that names an address, else without: mail programs also write names
    /// of folders there, which nobody ever sent from.
    pub(crate) fn with_sender(&self) -> &[u8] {
        if self.origin().is_some_and(|origin| origin.contains('@')) { &self.bytes } else { self.message() }
    }
}

/// Returns true if a file of these first bytes is a mailbox.
pub(crate) fn is_mbox(start: &[u8]) -> bool {
    start.starts_with(b"From ")
}

/// The messages of a mailbox, each no longer than content looks at; the rest of a longer one is passed over.
pub(crate) struct MboxIter<R> {
    reader: R,
    /// The line that parts the last message from the next.
    envelope: Vec<u8>,
    done: bool,
}

impl<R: BufRead> MboxIter<R> {
    /// Reads a mailbox from its start.
    pub(crate) fn new(reader: R) -> MboxIter<R> {
        MboxIter { reader, envelope: Vec::new(), done: false }
    }

    fn read(&mut self) -> io::Result<Option<StoredMessage>> {
        let mut bytes = std::mem::take(&mut self.envelope);
        let mut envelope = bytes.len();
        let (mut piece, mut starts_line, mut after_empty) = (Vec::new(), true, envelope == 0);
        loop {
            piece.clear();
            if self.reader.by_ref().take(PIECE_BYTES_MAX).read_until(b'\n', &mut piece)? == 0 {
                self.done = true;
                break;
            }
            let mut line = piece.as_slice();
            if starts_line && after_empty && is_envelope(line) {
                let kept = line.get(..ENVELOPE_BYTES_MAX).unwrap_or(line);
                if bytes.is_empty() {
                    bytes.extend_from_slice(kept);
                    envelope = bytes.len();
                    after_empty = false;
                    starts_line = line.ends_with(b"\n");
                    continue;
                }
                self.envelope = kept.to_vec();
                break;
            }
            after_empty = starts_line && matches!(line, b"\n" | b"\r\n");
            if starts_line && is_quoted(line) {
                line = line.get(1..).unwrap_or_default();
            }
            starts_line = line.ends_with(b"\n");
            let room = (envelope + MESSAGE_BYTES_MAX).saturating_sub(bytes.len());
            bytes.extend_from_slice(line.get(..room).unwrap_or(line));
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        // The empty line behind a message belongs to the mailbox.
        for end in [b"\n\r\n".as_slice(), b"\n\n"] {
            if bytes.get(envelope..).is_some_and(|message| message.ends_with(end)) {
                bytes.truncate(bytes.len() - end.len() + 1);
                break;
            }
        }
        Ok(Some(StoredMessage { bytes, envelope }))
    }
}

impl<R: BufRead> Iterator for MboxIter<R> {
    type Item = io::Result<StoredMessage>;

    fn next(&mut self) -> Option<io::Result<StoredMessage>> {
        if self.done {
            return None;
        }
        let read = self.read().transpose();
        self.done |= !matches!(read, Some(Ok(_)));
        read
    }
}

/// Returns true if a line parts two messages: `From`, somebody, and a date with a time and a year.
fn is_envelope(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"From ") else { return false };
    let digits = |word: &[u8]| word.iter().all(u8::is_ascii_digit);
    let mut time = false;
    rest.split(u8::is_ascii_whitespace).skip(1).any(|word| {
        time |= matches!(word, [a, b, b':', c, d, ..] if digits(&[*a, *b, *c, *d]));
        time && word.len() == 4 && digits(word)
    })
}

fn is_quoted(line: &[u8]) -> bool {
    let quotes = line.iter().take_while(|byte| **byte == b'>').count();
    quotes > 0 && line.get(quotes..).is_some_and(|rest| rest.starts_with(b"From "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "From a@example.com Thu Oct  3 20:04:09 1991\n";

    fn check(text: &str, messages: &[&str]) {
        let read: Vec<String> = MboxIter::new(text.as_bytes())
            .map(|stored| String::from_utf8(stored.unwrap().message().to_vec()).unwrap())
            .collect();
        assert_eq!(read, messages, "{text:?}");
    }

    #[test]
    fn a_mailbox_is_split() {
        check(&format!("{LINE}A: 1\n\nx\n\n{LINE}B: 2\n\ny\n"), &["A: 1\n\nx\n", "B: 2\n\ny\n"]);
        check(&format!("{LINE}A: 1\r\n\r\nx\r\n\r\n{LINE}B: 2\n"), &["A: 1\r\n\r\nx\r\n", "B: 2\n"]);
        check(LINE, &[""]);
        check("", &[]);
    }

    #[test]
    fn only_its_own_lines_part_it() {
        let body = "A: 1\n\nFrom now on\nthis is one message\n\nFrom here, too\nFrom b@example.com Thu Oct  3 20:04:09 1991\n";
        check(&format!("{LINE}{body}"), &[body]);
        check(
            &format!("{LINE}A: 1\n\n>From x\n>>From y\n> From z\n"),
            &["A: 1\n\nFrom x\n>From y\n> From z\n"],
        );
    }

    #[test]
    fn a_line_without_end_is_cut_and_the_next_message_found() {
        let mut text = LINE.as_bytes().to_vec();
        text.resize(MESSAGE_BYTES_MAX + 100_000, b'x');
        text.extend_from_slice(format!("\n\n{LINE}B: 2\n").as_bytes());
        let messages: Vec<StoredMessage> = MboxIter::new(text.as_slice()).collect::<io::Result<_>>().unwrap();
        assert_eq!(
            messages.iter().map(|stored| stored.message().len()).collect::<Vec<_>>(),
            [MESSAGE_BYTES_MAX, 5]
        );
    }

    #[test]
    fn a_folder_is_no_sender() {
        let stored = |line: &str| MboxIter::new(format!("{line}A: 1\n").as_bytes()).next().unwrap().unwrap();
        assert_eq!(stored(LINE).with_sender(), format!("{LINE}A: 1\n").as_bytes());
        let folder = stored("From archive/spam Thu Oct  3 20:04:09 1991\n");
        assert_eq!((folder.origin(), folder.with_sender()), (Some("archive/spam"), b"A: 1\n".as_slice()));
    }
}

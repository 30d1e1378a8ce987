//! Requests of the Redis serialization protocol (RESP): arrays of bulk strings, or lines of words for people with a
//! terminal (<https://redis.io/docs/latest/develop/reference/protocol-spec/>). Requests are the same in RESP2 and RESP3.
//!
//! Bytes are taken as they come. Nothing is allocated by a length that the peer states: a bulk string's bytes are kept as
//! they arrive, up to [`RespLimits::command_bytes_max`] for the whole command. What was read of a command is never read again,
//! however it is cut.

/// Longest line of words, as in Redis.
pub const INLINE_BYTES_MAX: usize = 64 << 10;
/// Most arguments of a command.
pub const ARGUMENTS_MAX: usize = 8192;
/// Most arguments of a client that has not said its password, as in Redis.
pub const STRANGER_ARGUMENTS_MAX: usize = 10;
/// Longest argument of such a client, as in Redis.
pub const STRANGER_BULK_BYTES_MAX: usize = 16 << 10;
/// Longest line that states a length: a sign, digits, and the line's end.
const LENGTH_BYTES_MAX: usize = 24;
/// An empty buffer above this is given back.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// The limits of what a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RespLimits {
    /// Bytes of one command, its framing included.
    pub command_bytes_max: usize,
    /// True if the client has given its password, or needs none.
    pub known: bool,
}

/// Reasons to refuse bytes as a command, worded as Redis does. The next command cannot be found then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RespProtocolError {
    /// An array's length is no number, or above [`ARGUMENTS_MAX`].
    #[error("Protocol error: invalid multibulk length")]
    ArrayLength,
    /// More arguments than a stranger may send.
    #[error("Protocol error: unauthenticated multibulk length")]
    StrangerArrayLength,
    /// An array's element that is not a bulk string.
    #[error("Protocol error: expected '$', got '{}'", shown(*.0))]
    NoBulk(u8),
    /// A bulk string's length is no number, or it would make the command too long.
    #[error("Protocol error: invalid bulk length")]
    BulkLength,
    /// A longer argument than a stranger may send.
    #[error("Protocol error: unauthenticated bulk length")]
    StrangerBulkLength,
    /// No line's end where one has to be.
    #[error("Protocol error: expected a line's end")]
    LineEnd,
    /// Quotes that are not closed, or that a word follows at once.
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
    /// A line of more than [`INLINE_BYTES_MAX`].
    #[error("Protocol error: too big inline request")]
    InlineLength,
}

fn shown(byte: u8) -> char {
    if byte.is_ascii_graphic() { char::from(byte) } else { '?' }
}

/// A command's name and arguments. Never empty.
#[derive(Clone, Copy, Debug)]
pub struct RespCommand<'a> {
    bytes: &'a [u8],
    places: &'a [(u32, u32)],
}

impl<'a> RespCommand<'a> {
    /// Returns how many words it has, its name included.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether it has no words, which it never has.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// A word; the name is the first.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        let (from, to) = *self.places.get(index)?;
        self.bytes.get(from as usize..to as usize)
    }

    /// The words from one on.
    pub fn from(&self, index: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        let places = self.places.get(index..).unwrap_or_default();
        places.iter().map(move |(from, to)| &bytes[*from as usize..*to as usize])
    }
}

/// Bytes of one connection on their way to becoming commands.
#[derive(Debug, Default)]
pub struct RespDecoder {
    buffer: Vec<u8>,
    /// The start of the command that is being read.
    start: usize,
    /// The position up to which it was read.
    at: usize,
    /// Words that are still to come; none while no array is being read.
    missing: Option<usize>,
    /// A bulk string's length was read, and not yet its bytes.
    bulk: Option<usize>,
    /// Words that are there, as places from `start` on, or in `words`.
    places: Vec<(u32, u32)>,
    /// Words of a line, whose quotes are gone.
    words: Vec<u8>,
    /// A whole command was returned, and is to be forgotten.
    is_returned: bool,
}

impl RespDecoder {
    /// The buffer for bytes from the connection.
    pub fn room(&mut self) -> &mut Vec<u8> {
        self.forget();
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.at -= self.start;
            self.start = 0;
        }
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BYTES_MAX {
            self.buffer.shrink_to(KEPT_BYTES_MAX);
        }
        &mut self.buffer
    }

    /// Returns how many bytes wait for the rest of their command.
    pub fn waiting(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// The next command that is whole. Linear in the bytes that were not read before.
    ///
    /// # Errors
    /// [`RespProtocolError`]: nothing after it can be read.
    pub fn next_command(&mut self, limits: RespLimits) -> Result<Option<RespCommand<'_>>, RespProtocolError> {
        self.forget();
        loop {
            let whole = match self.missing {
                Some(_) => self.array(limits)?,
                None => match self.buffer.get(self.start) {
                    None => return Ok(None),
                    Some(b'*') => {
                        let Some((count, next)) = self.length(RespProtocolError::ArrayLength)? else {
                            return Ok(None);
                        };
                        if count > ARGUMENTS_MAX as i64 {
                            return Err(RespProtocolError::ArrayLength);
                        }
                        if !limits.known && count > STRANGER_ARGUMENTS_MAX as i64 {
                            return Err(RespProtocolError::StrangerArrayLength);
                        }
                        self.at = next;
                        // Redis takes an empty array, or none, for nothing at all.
                        if count <= 0 {
                            self.start = next;
                        } else {
                            self.missing = usize::try_from(count).ok();
                        }
                        continue;
                    }
                    Some(_) => self.line(limits)?,
                },
            };
            if !whole {
                return Ok(None);
            }
            self.is_returned = true;
            if self.places.is_empty() {
                self.forget();
                continue;
            }
            let inline = self.missing.is_none();
            let bytes = if inline { &self.words[..] } else { &self.buffer[self.start..self.at] };
            return Ok(Some(RespCommand { bytes, places: &self.places }));
        }
    }

    fn forget(&mut self) {
        if std::mem::take(&mut self.is_returned) {
            self.start = self.at;
            self.missing = None;
            self.places.clear();
            self.words.clear();
        }
    }

    /// Reads on in an array; whether it is whole.
    fn array(&mut self, limits: RespLimits) -> Result<bool, RespProtocolError> {
        while let Some(missing) = self.missing.filter(|missing| *missing > 0) {
            let length = match self.bulk {
                Some(length) => length,
                None => {
                    match self.buffer.get(self.at) {
                        None => return Ok(false),
                        Some(b'$') => {}
                        Some(other) => return Err(RespProtocolError::NoBulk(*other)),
                    }
                    let Some((length, next)) = self.length(RespProtocolError::BulkLength)? else {
                        return Ok(false);
                    };
                    let length = usize::try_from(length).map_err(|_| RespProtocolError::BulkLength)?;
                    let before = next - self.start;
                    if length > limits.command_bytes_max.saturating_sub(before) {
                        return Err(RespProtocolError::BulkLength);
                    }
                    if !limits.known && length > STRANGER_BULK_BYTES_MAX {
                        return Err(RespProtocolError::StrangerBulkLength);
                    }
                    self.at = next;
                    self.bulk = Some(length);
                    length
                }
            };
            let end = self.at + length;
            match self.buffer.get(end..end + 2) {
                None => return Ok(false),
                Some(b"\r\n") => {}
                Some(_) => return Err(RespProtocolError::LineEnd),
            }
            let place = |at: usize| u32::try_from(at - self.start).map_err(|_| RespProtocolError::BulkLength);
            self.places.push((place(self.at)?, place(end)?));
            self.at = end + 2;
            self.bulk = None;
            self.missing = Some(missing - 1);
        }
        Ok(true)
    }

    /// The number after the sign at `at`, and what stands after its line; none while the line is not whole.
    fn length(&self, wrong: RespProtocolError) -> Result<Option<(i64, usize)>, RespProtocolError> {
        let line = &self.buffer[self.at + 1..];
        let (negative, from) = match line.first() {
            Some(b'-') => (true, 1),
            _ => (false, 0),
        };
        let mut number: i64 = 0;
        for (index, byte) in line.iter().enumerate().take(LENGTH_BYTES_MAX).skip(from) {
            match byte {
                b'0'..=b'9' => {
                    let digit = i64::from(byte - b'0');
                    number =
                        number.checked_mul(10).and_then(|number| number.checked_add(digit)).ok_or(wrong)?;
                }
                b'\r' if index > from => {
                    return match line.get(index + 1) {
                        None => Ok(None),
                        Some(b'\n') => {
                            let number = if negative { -number } else { number };
                            Ok(Some((number, self.at + 1 + index + 2)))
                        }
                        Some(_) => Err(wrong),
                    };
                }
                _ => return Err(wrong),
            }
        }
        if line.len() >= LENGTH_BYTES_MAX { Err(wrong) } else { Ok(None) }
    }

    /// Reads a line of words; whether it is whole.
    fn line(&mut self, limits: RespLimits) -> Result<bool, RespProtocolError> {
        let max = INLINE_BYTES_MAX.min(limits.command_bytes_max);
        let from = self.at.max(self.start);
        let Some(length) = self.buffer[from..].iter().position(|byte| *byte == b'\n') else {
            self.at = self.buffer.len();
            return if self.waiting() > max { Err(RespProtocolError::InlineLength) } else { Ok(false) };
        };
        let end = from + length;
        if end - self.start > max {
            return Err(RespProtocolError::InlineLength);
        }
        let line = &self.buffer[self.start..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        split(line, &mut self.words, &mut self.places)?;
        let count = self.places.len();
        if count > ARGUMENTS_MAX {
            return Err(RespProtocolError::ArrayLength);
        }
        if !limits.known && count > STRANGER_ARGUMENTS_MAX {
            return Err(RespProtocolError::StrangerArrayLength);
        }
        self.at = end + 1;
        Ok(true)
    }
}

/// Cuts a line into words: `"..."` with the escapes of C, `'...'` with `\'`.
fn split(line: &[u8], words: &mut Vec<u8>, places: &mut Vec<(u32, u32)>) -> Result<(), RespProtocolError> {
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        let Some(first) = rest.first() else { return Ok(()) };
        let from = words.len();
        match first {
            quote @ (b'"' | b'\'') => {
                rest = quoted(&rest[1..], *quote, words)?;
                if rest.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
                    return Err(RespProtocolError::Quotes);
                }
            }
            _ => {
                let end =
                    rest.iter().position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\''));
                let end = end.unwrap_or(rest.len());
                if rest.get(end).is_some_and(|byte| !byte.is_ascii_whitespace()) {
                    return Err(RespProtocolError::Quotes);
                }
                words.extend_from_slice(&rest[..end]);
                rest = &rest[end..];
            }
        }
        // A line has at most 64 KiB, and a word is never longer than what it was written as.
        places.push((from as u32, words.len() as u32));
    }
}

/// Appends what stands before the closing quote, and gives what follows it.
fn quoted<'a>(mut rest: &'a [u8], quote: u8, words: &mut Vec<u8>) -> Result<&'a [u8], RespProtocolError> {
    let hex = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    loop {
        let (&byte, after) = rest.split_first().ok_or(RespProtocolError::Quotes)?;
        rest = after;
        match byte {
            _ if byte == quote => return Ok(rest),
            b'\\' if quote == b'"' => {
                let (&escaped, after) = rest.split_first().ok_or(RespProtocolError::Quotes)?;
                rest = after;
                let code = (hex(rest.first()), hex(rest.get(1)));
                words.push(match (escaped, code) {
                    (b'x', (Some(high), Some(low))) => {
                        rest = &rest[2..];
                        (high * 16 + low) as u8
                    }
                    (b'n', _) => b'\n',
                    (b'r', _) => b'\r',
                    (b't', _) => b'\t',
                    (b'b', _) => 8,
                    (b'a', _) => 7,
                    (other, _) => other,
                });
            }
            b'\\' if rest.first() == Some(&b'\'') => {
                words.push(b'\'');
                rest = &rest[1..];
            }
            other => words.push(other),
        }
    }
}

/// A whole number, as Redis reads it: a sign for those below zero, and digits.
pub(super) fn integer(word: &[u8]) -> Option<i64> {
    let (negative, digits) = match word {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    // Below zero, as there is one number more than above.
    let mut number: i64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative { Some(number) } else { number.checked_neg() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: RespLimits = RespLimits { command_bytes_max: 1 << 20, known: true };
    const STRANGER: RespLimits = RespLimits { known: false, ..LIMITS };

    type Read = Result<Vec<Vec<Vec<u8>>>, RespProtocolError>;

    fn read(bytes: &[u8], piece: usize, limits: RespLimits) -> Read {
        let mut decoder = RespDecoder::default();
        let mut commands = Vec::new();
        for piece in bytes.chunks(piece) {
            decoder.room().extend_from_slice(piece);
            while let Some(command) = decoder.next_command(limits)? {
                assert!(!command.is_empty());
                commands.push(command.from(0).map(<[u8]>::to_vec).collect());
            }
        }
        Ok(commands)
    }

    fn check(bytes: &[u8], limits: RespLimits, expected: Result<&[&[&str]], RespProtocolError>) {
        let expected = expected.map(|commands| {
            let words = |words: &&[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
            commands.iter().map(words).collect::<Vec<Vec<Vec<u8>>>>()
        });
        for piece in [1, 2, 7, usize::MAX] {
            assert_eq!(
                read(bytes, piece, limits),
                expected,
                "{:?} by {piece}",
                String::from_utf8_lossy(bytes)
            );
        }
    }

    #[test]
    fn arrays_and_lines_are_commands() {
        check(b"*1\r\n$4\r\nPING\r\n", LIMITS, Ok(&[&["PING"]]));
        check(
            b"*2\r\n$4\r\nECHO\r\n$4\r\na\r\nb\r\n*1\r\n$0\r\n\r\n",
            LIMITS,
            Ok(&[&["ECHO", "a\r\nb"], &[""]]),
        );
        check(b"*0\r\n*-1\r\nPING\r\n", LIMITS, Ok(&[&["PING"]]));
        check(b"PING\n\r\n  \r\nECHO  a\tb \r\n", LIMITS, Ok(&[&["PING"], &["ECHO", "a", "b"]]));
        check(br#"ECHO "a b\x41\n\"" 'it\'s' "" "#, LIMITS, Ok(&[]));
        check(
            b"ECHO \"a b\\x41\\n\\\"\\xzz\" 'it\\'s\\n' \"\"\n",
            LIMITS,
            Ok(&[&["ECHO", "a bA\n\"xzz", "it's\\n", ""]]),
        );
        check(b"*2\r\n$4\r\nPING", LIMITS, Ok(&[]));
    }

    #[test]
    fn what_is_no_command_is_told() {
        use RespProtocolError::*;
        for (bytes, limits, error) in [
            (&b"*x\r\n"[..], LIMITS, ArrayLength),
            (b"*\r\n", LIMITS, ArrayLength),
            (b"*8193\r\n", LIMITS, ArrayLength),
            (b"*99999999999999999999999\r\n", LIMITS, ArrayLength),
            (b"*1\r\n+OK\r\n", LIMITS, NoBulk(b'+')),
            (b"*1\r\n*1\r\n$1\r\na\r\n", LIMITS, NoBulk(b'*')),
            (b"*-00000000000000000000000\r\n", LIMITS, ArrayLength),
            (b"*1\r\n$-1\r\n", LIMITS, BulkLength),
            (b"*1\r\n$1048576\r\n", LIMITS, BulkLength),
            (b"*1\r\n$1\r\nab\r\n", LIMITS, LineEnd),
            (b"*11\r\n", STRANGER, StrangerArrayLength),
            (b"*1\r\n$16385\r\n", STRANGER, StrangerBulkLength),
            (b"ECHO \"a\n", LIMITS, Quotes),
            (b"ECHO \"a\"b\n", LIMITS, Quotes),
            (b"ECHO a\"b\"\n", LIMITS, Quotes),
            (b"ECHO 'a\\'\n", LIMITS, Quotes),
        ] {
            check(bytes, limits, Err(error));
        }
        check(&[b'a'; INLINE_BYTES_MAX + 1], LIMITS, Err(InlineLength));
        assert_eq!(NoBulk(0).to_string(), "Protocol error: expected '$', got '?'");
    }

    #[test]
    fn a_stated_length_takes_no_memory() {
        let mut decoder = RespDecoder::default();
        decoder.room().extend_from_slice(b"*8000\r\n$1000000\r\nab");
        assert_eq!(decoder.next_command(LIMITS).map(|command| command.is_some()), Ok(false));
        assert!(decoder.buffer.capacity() + 8 * decoder.places.capacity() < 1024);
        assert_eq!(decoder.waiting(), 19);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            commands in proptest::collection::vec(proptest::collection::vec(any::<Vec<u8>>(), 1..6), 0..6),
            piece in 1usize..40,
        ) {
            let mut bytes = Vec::new();
            for command in &commands {
                bytes.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
                for word in command {
                    bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                    bytes.extend_from_slice(word);
                    bytes.extend_from_slice(b"\r\n");
                }
            }
            prop_assert_eq!(read(&bytes, piece, LIMITS), Ok(commands));
        }

        #[test]
        fn bytes_are_read_the_same_however_they_are_cut(bytes: Vec<u8>, piece in 1usize..9) {
            prop_assert_eq!(read(&bytes, piece, LIMITS), read(&bytes, usize::MAX, LIMITS));
        }
    }

    #[test]
    fn numbers_are_read_as_redis_does() {
        for number in [0, 7, -7, 1_234_567_890, i64::MAX, i64::MIN] {
            assert_eq!(integer(number.to_string().as_bytes()), Some(number));
        }
        for wrong in ["", "-", "+1", " 1", "1 ", "1.0", "x", "9223372036854775808", "-9223372036854775809"] {
            assert_eq!(integer(wrong.as_bytes()), None, "{wrong:?}");
        }
    }
}

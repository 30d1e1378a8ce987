//! Frames of the milter protocol, as Sendmail's libmilter describes it (`mfdef.h`, versions 2 to 6): commands in,
//! replies out. Nothing here knows what they mean.
//!
//! A frame is four bytes of length, most significant first, one byte that says what it is, and what belongs to it.
//! Texts end with a zero byte.

use std::net::IpAddr;

/// Longest frame that is read. Body chunks have at most 64 KiB; a header field can be longer: 100 KiB for Postfix as
/// it comes.
pub const FRAME_BYTES_MAX: usize = 256 << 10;

/// Reasons to refuse bytes as a frame, or a frame as a command. The next frame cannot be found then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Longer than [`FRAME_BYTES_MAX`].
    #[error("a frame of {0} bytes")]
    TooLong(u32),
    /// Without a byte that says what it is.
    #[error("an empty frame")]
    Empty,
    /// No command has this byte.
    #[error("an unknown command, byte {0}")]
    Unknown(u8),
    /// The content that belongs to the command of this byte is not as it should be.
    #[error("a malformed frame of the command {}", char::from(*.0))]
    Malformed(u8),
}

/// A command of a mail server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MilterCommand<'a> {
    /// The abilities of the mail server.
    OptNeg {
        /// Version of the protocol.
        version: u32,
        /// The actions that a filter may take on messages, bits of [`actions`].
        actions: u32,
        /// The steps that can be left out, bits of [`steps`].
        steps: u32,
    },
    /// Values of macros, for the command that follows.
    Macros {
        /// The byte of that command.
        of: u8,
        /// Names and values in turn.
        pairs: NulStringIter<'a>,
    },
    /// A client has connected.
    Connect {
        /// Its name, or its address in brackets.
        host: &'a [u8],
        /// Its address, if it is one of IP.
        ip: Option<IpAddr>,
    },
    /// HELO or EHLO, with the name that the client gave.
    Helo(&'a [u8]),
    /// MAIL, with the sender and parameters.
    Mail(NulStringIter<'a>),
    /// RCPT, with the recipient and parameters.
    Rcpt(NulStringIter<'a>),
    /// DATA.
    Data,
    /// A header field.
    Header {
        /// Its name.
        name: &'a [u8],
        /// Its value; folded lines end with a line feed alone.
        value: &'a [u8],
    },
    /// The end of the header.
    EndOfHeader,
    /// A part of the body.
    Body(&'a [u8]),
    /// The end of the message, perhaps with the last part of the body.
    EndOfMessage(&'a [u8]),
    /// The message is given up, not the connection.
    Abort,
    /// The end of the connection.
    Quit,
    /// The end of the SMTP connection: another follows on this one.
    QuitNewConnection,
    /// A command of SMTP that the mail server does not know.
    UnknownCommand(&'a [u8]),
}

/// Texts that end with a zero byte each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NulStringIter<'a>(&'a [u8]);

impl<'a> NulStringIter<'a> {
    fn new(bytes: &'a [u8]) -> Option<NulStringIter<'a>> {
        (bytes.is_empty() || bytes.ends_with(b"\0")).then_some(NulStringIter(bytes))
    }
}

impl<'a> Iterator for NulStringIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (text, rest) = split(self.0)?;
        self.0 = rest;
        Some(text)
    }
}

/// The text up to the first zero byte, and what comes after it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Cuts what comes in into commands. Holds at most one frame and what was fed in with its end.
#[derive(Debug, Default)]
pub struct MilterDecoder {
    buffer: Vec<u8>,
    /// The position in the buffer up to which it was read.
    at: usize,
}

impl MilterDecoder {
    /// Takes in what has come.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.at > 0 {
            self.buffer.drain(..self.at);
            self.at = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next command, if all of it is there.
    ///
    /// # Errors
    /// If there is none to come of what was fed in. The next call says the same.
    pub fn next_command(&mut self) -> Result<Option<MilterCommand<'_>>, FrameError> {
        let Some(length) = number(&self.buffer, self.at) else { return Ok(None) };
        let fits = usize::try_from(length).ok().filter(|length| *length <= FRAME_BYTES_MAX);
        let bytes = fits.ok_or(FrameError::TooLong(length))?;
        let start = self.at + 4;
        let Some(frame) = self.buffer.get(start..start + bytes) else { return Ok(None) };
        let (byte, data) = frame.split_first().ok_or(FrameError::Empty)?;
        let command = command(*byte, data)?;
        self.at = start + bytes;
        Ok(Some(command))
    }
}

fn command(byte: u8, data: &[u8]) -> Result<MilterCommand<'_>, FrameError> {
    let text = || split(data).filter(|(_, rest)| rest.is_empty()).map(|(text, _)| text);
    let strings = || NulStringIter::new(data).filter(|strings| strings.clone().next().is_some());
    let command = match byte {
        b'O' => number(data, 0)
            .zip(number(data, 4))
            .zip(number(data, 8))
            .map(|((version, actions), steps)| MilterCommand::OptNeg { version, actions, steps }),
        b'D' => data.split_first().and_then(|(of, rest)| {
            let pairs = NulStringIter::new(rest).filter(|pairs| pairs.count() % 2 == 0)?;
            Some(MilterCommand::Macros { of: *of, pairs })
        }),
        b'C' => connect(data),
        b'H' => text().map(MilterCommand::Helo),
        b'M' => strings().map(MilterCommand::Mail),
        b'R' => strings().map(MilterCommand::Rcpt),
        b'T' => Some(MilterCommand::Data),
        b'L' => split(data).and_then(|(name, rest)| {
            let (value, _) = split(rest).filter(|(_, rest)| rest.is_empty())?;
            Some(MilterCommand::Header { name, value })
        }),
        b'N' => Some(MilterCommand::EndOfHeader),
        b'B' => Some(MilterCommand::Body(data)),
        b'E' => Some(MilterCommand::EndOfMessage(data)),
        b'A' => Some(MilterCommand::Abort),
        b'Q' => Some(MilterCommand::Quit),
        b'K' => Some(MilterCommand::QuitNewConnection),
        b'U' => text().map(MilterCommand::UnknownCommand),
        unknown => return Err(FrameError::Unknown(unknown)),
    };
    command.ok_or(FrameError::Malformed(byte))
}

/// Host, family, and for all families but the unknown a port and an address.
fn connect(data: &[u8]) -> Option<MilterCommand<'_>> {
    let (host, rest) = split(data)?;
    let (family, rest) = rest.split_first()?;
    let ip = match family {
        b'U' => None,
        b'L' | b'4' | b'6' => {
            let (address, rest) = split(rest.get(2..)?)?;
            if !rest.is_empty() {
                return None;
            }
            address_of(address).filter(|_| *family != b'L')
        }
        _ => return None,
    };
    Some(MilterCommand::Connect { host, ip })
}

/// An address as mail servers write it; Sendmail puts `IPv6:` before one of IPv6.
pub fn address_of(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let literal =
        text.get(..5).filter(|prefix| prefix.eq_ignore_ascii_case("ipv6:")).map_or(text, |_| &text[5..]);
    literal.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

/// The actions that a filter may take on a message.
pub mod actions {
    /// Add and insert header fields.
    pub const ADD_FIELDS: u32 = 0x01;
    /// Add recipients.
    pub const ADD_RECIPIENTS: u32 = 0x04;
    /// Remove recipients.
    pub const REMOVE_RECIPIENTS: u32 = 0x08;
    /// Change and remove header fields.
    pub const CHANGE_FIELDS: u32 = 0x10;
    /// Hold the message.
    pub const QUARANTINE: u32 = 0x20;
}

/// The steps that mail server and filter can leave out or do otherwise.
pub mod steps {
    /// No reply to a header field.
    pub const NO_REPLY_HEADER: u32 = 0x80;
    /// The filter may say that it has seen enough of the body.
    pub const SKIP: u32 = 0x400;
    /// No reply to CONNECT.
    pub const NO_REPLY_CONNECT: u32 = 0x1000;
    /// No reply to HELO.
    pub const NO_REPLY_HELO: u32 = 0x2000;
    /// No reply to MAIL.
    pub const NO_REPLY_MAIL: u32 = 0x4000;
    /// No reply to RCPT.
    pub const NO_REPLY_RCPT: u32 = 0x8000;
    /// No reply to DATA.
    pub const NO_REPLY_DATA: u32 = 0x1_0000;
    /// No reply to an unknown command of SMTP.
    pub const NO_REPLY_UNKNOWN: u32 = 0x2_0000;
    /// No reply to the end of the header.
    pub const NO_REPLY_END_OF_HEADER: u32 = 0x4_0000;
    /// No reply to a part of the body.
    pub const NO_REPLY_BODY: u32 = 0x8_0000;
    /// Values of header fields begin with the blanks that follow the colon, in both directions.
    pub const LEADING_BLANKS: u32 = 0x10_0000;
}

/// A reply of a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MilterReply<'a> {
    /// The abilities of the mail server that the filter wants.
    OptNeg {
        /// Version of the protocol.
        version: u32,
        /// Bits of [`actions`].
        actions: u32,
        /// Bits of [`steps`].
        steps: u32,
    },
    /// Go on.
    Continue,
    /// Deliver it, and ask no more about it.
    Accept,
    /// Take it and deliver it to nobody.
    Discard,
    /// Send no more of the body.
    Skip,
    /// A decision takes a while yet.
    Progress,
    /// Answer the client with this: three digits, an enhanced status and a text.
    Code(&'a str),
    /// Add a field before the one of this number.
    InsertField {
        /// The number, from 0.
        at: u32,
        /// The field's name.
        name: &'a str,
        /// Its value.
        value: &'a str,
    },
    /// Add a field at the end.
    AddField {
        /// The field's name.
        name: &'a str,
        /// Its value.
        value: &'a str,
    },
    /// Give a field another value: the one of this number among those of its name.
    ChangeField {
        /// The number, from 1.
        at: u32,
        /// The field's name.
        name: &'a str,
        /// Its value, which is not empty.
        value: &'a [u8],
    },
    /// Remove a field: the one of this number among those of its name.
    RemoveField {
        /// The number, from 1.
        at: u32,
        /// The field's name.
        name: &'a str,
    },
    /// Hold the message, for this reason.
    Quarantine(&'a str),
    /// Deliver it to this recipient, too.
    AddRecipient(&'a str),
    /// Do not deliver it to this recipient.
    RemoveRecipient(&'a str),
}

impl MilterReply<'_> {
    /// Writes the frame. Zero bytes, which would end a text early, are left out, and so are carriage returns: a line
    /// is folded with a line feed alone.
    pub fn encode(&self, frames: &mut Vec<u8>) {
        let start = frames.len();
        frames.extend_from_slice(&[0; 4]);
        let bytes = |frames: &mut Vec<u8>, bytes: &[u8]| {
            frames.extend(bytes.iter().filter(|byte| !matches!(byte, 0 | b'\r')));
            frames.push(0);
        };
        let text = |frames: &mut Vec<u8>, text: &str| bytes(frames, text.as_bytes());
        match *self {
            MilterReply::OptNeg { version, actions, steps } => {
                frames.push(b'O');
                for word in [version, actions, steps] {
                    frames.extend_from_slice(&word.to_be_bytes());
                }
            }
            MilterReply::Continue => frames.push(b'c'),
            MilterReply::Accept => frames.push(b'a'),
            MilterReply::Discard => frames.push(b'd'),
            MilterReply::Skip => frames.push(b's'),
            MilterReply::Progress => frames.push(b'p'),
            MilterReply::Code(code) => {
                frames.push(b'y');
                text(frames, code);
            }
            MilterReply::InsertField { at, name, value } => {
                frames.push(b'i');
                frames.extend_from_slice(&at.to_be_bytes());
                text(frames, name);
                text(frames, value);
            }
            MilterReply::AddField { name, value } => {
                frames.push(b'h');
                text(frames, name);
                text(frames, value);
            }
            MilterReply::ChangeField { at, name, value } => {
                frames.push(b'm');
                frames.extend_from_slice(&at.to_be_bytes());
                text(frames, name);
                bytes(frames, value);
            }
            MilterReply::RemoveField { at, name } => {
                // A field that is changed to nothing goes away.
                frames.push(b'm');
                frames.extend_from_slice(&at.to_be_bytes());
                text(frames, name);
                frames.push(0);
            }
            MilterReply::Quarantine(reason) => {
                frames.push(b'q');
                text(frames, reason);
            }
            MilterReply::AddRecipient(recipient) => {
                frames.push(b'+');
                text(frames, recipient);
            }
            MilterReply::RemoveRecipient(recipient) => {
                frames.push(b'-');
                text(frames, recipient);
            }
        }
        let length = u32::try_from(frames.len() - start - 4).unwrap_or(u32::MAX);
        frames[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(byte: u8, data: &[u8]) -> Vec<u8> {
        let mut frame = u32::try_from(data.len() + 1).unwrap().to_be_bytes().to_vec();
        frame.push(byte);
        frame.extend_from_slice(data);
        frame
    }

    /// Returns what is shown of all commands in these bytes, fed in pieces of these lengths, and of the error behind them.
    fn shown(bytes: &[u8], pieces: &[usize]) -> Vec<String> {
        let mut decoder = MilterDecoder::default();
        let mut shown = Vec::new();
        let mut rest = bytes;
        for piece in pieces.iter().copied().chain(std::iter::repeat(usize::MAX)) {
            let (now, later) = rest.split_at(piece.min(rest.len()));
            decoder.feed(now);
            loop {
                match decoder.next_command() {
                    Ok(Some(command)) => shown.push(format!("{command:?}")),
                    Ok(None) => break,
                    Err(error) => {
                        shown.push(error.to_string());
                        return shown;
                    }
                }
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        shown
    }

    #[track_caller]
    fn check(frame: &[u8], expected: Result<MilterCommand<'_>, FrameError>) {
        let mut decoder = MilterDecoder::default();
        decoder.feed(frame);
        assert_eq!(decoder.next_command().map(|command| command.unwrap()), expected);
    }

    #[test]
    fn commands_are_read() {
        let numbers = [0, 0, 0, 6, 0, 0, 1, 0xff, 0, 0x1f, 0xff, 0xff];
        check(
            &frame(b'O', &numbers),
            Ok(MilterCommand::OptNeg { version: 6, actions: 0x1ff, steps: 0x1f_ffff }),
        );
        check(&frame(b'O', &numbers[1..]), Err(FrameError::Malformed(b'O')));
        let ip = Some("192.0.2.1".parse().unwrap());
        check(
            &frame(b'C', b"a.example\x004\x1f\x90192.0.2.1\0"),
            Ok(MilterCommand::Connect { host: b"a.example", ip }),
        );
        let ip = Some("2001:db8::1".parse().unwrap());
        check(&frame(b'C', b"a\x006\0\x19IPv6:2001:db8::1\0"), Ok(MilterCommand::Connect { host: b"a", ip }));
        check(&frame(b'C', b"a\x006\0\x192001:db8::1\0"), Ok(MilterCommand::Connect { host: b"a", ip }));
        check(
            &frame(b'C', b"local\0L\0\0/run/socket\0"),
            Ok(MilterCommand::Connect { host: b"local", ip: None }),
        );
        check(&frame(b'C', b"local\0U"), Ok(MilterCommand::Connect { host: b"local", ip: None }));
        check(&frame(b'C', b"local\x004\0"), Err(FrameError::Malformed(b'C')));
        check(&frame(b'C', b"local"), Err(FrameError::Malformed(b'C')));
        check(&frame(b'H', b"mail.example.org\0"), Ok(MilterCommand::Helo(b"mail.example.org")));
        check(&frame(b'H', b"mail.example.org"), Err(FrameError::Malformed(b'H')));
        check(
            &frame(b'L', b"Subject\0a\n b\0"),
            Ok(MilterCommand::Header { name: b"Subject", value: b"a\n b" }),
        );
        check(&frame(b'L', b"Subject\0a\0b\0"), Err(FrameError::Malformed(b'L')));
        check(&frame(b'M', b""), Err(FrameError::Malformed(b'M')));
        check(&frame(b'D', b"Mi\0"), Err(FrameError::Malformed(b'D')));
        check(&frame(b'B', b"a\0b"), Ok(MilterCommand::Body(b"a\0b")));
        check(&frame(b'Z', b""), Err(FrameError::Unknown(b'Z')));
        check(&[0, 0, 0, 0], Err(FrameError::Empty));
        check(&[0xff; 4], Err(FrameError::TooLong(u32::MAX)));
        let mut decoder = MilterDecoder::default();
        decoder.feed(&frame(b'D', b"M{auth_authen}\0ann\0i\x004A\0"));
        let Ok(Some(MilterCommand::Macros { of: b'M', pairs })) = decoder.next_command() else { panic!() };
        assert_eq!(pairs.collect::<Vec<_>>(), [&b"{auth_authen}"[..], b"ann", b"i", b"4A"]);
        assert_eq!(decoder.next_command(), Ok(None));
    }

    #[test]
    fn no_text_of_a_reply_ends_early() {
        let mut frames = Vec::new();
        MilterReply::AddField { name: "X", value: "a\0b\r\nc" }.encode(&mut frames);
        assert_eq!(frames, frame(b'h', b"X\0ab\nc\0"));
        frames.clear();
        MilterReply::RemoveField { at: 2, name: "X-Spam" }.encode(&mut frames);
        assert_eq!(frames, frame(b'm', b"\0\0\0\x02X-Spam\0\0"));
    }

    fn any_frame() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![proptest::sample::select(b"ODCHMRTLNBEAQKU".to_vec()), any::<u8>()];
        let text = proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..40);
        (byte, text).prop_map(|(byte, data)| frame(byte, &data))
    }

    proptest! {
        /// However the bytes are cut, the commands are the same.
        #[test]
        fn chunking_changes_nothing(
            frames in proptest::collection::vec(any_frame(), 0..8),
            garbage in proptest::collection::vec(any::<u8>(), 0..8),
            pieces in proptest::collection::vec(0usize..12, 0..60),
        ) {
            let bytes = [frames.concat(), garbage].concat();
            prop_assert_eq!(shown(&bytes, &[]), shown(&bytes, &pieces));
        }

        /// Texts come out as they went in.
        #[test]
        fn texts_are_kept(texts in proptest::collection::vec("[^\0]{0,20}", 1..6)) {
            let data: Vec<u8> = texts.iter().flat_map(|text| [text.as_bytes(), b"\0"].concat()).collect();
            let mut decoder = MilterDecoder::default();
            decoder.feed(&frame(b'R', &data));
            let Ok(Some(MilterCommand::Rcpt(strings))) = decoder.next_command() else { panic!() };
            prop_assert_eq!(strings.collect::<Vec<_>>(), texts.iter().map(|text| text.as_bytes()).collect::<Vec<_>>());
        }
    }
}

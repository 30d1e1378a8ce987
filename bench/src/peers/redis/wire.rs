//! The part of the Redis protocol (RESP2) that the benchmarks need. It copies as little as possible, so that the client
//! is not what is measured.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::engine::Error;

/// Bytes sent at once while a pipeline is still being written, so that the server begins early.
const SEND_BYTES: usize = 32 << 10;
const READ_BYTES: usize = 256 << 10;

pub(super) struct Connection {
    stream: TcpStream,
    out: Vec<u8>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// An answer; of an array only its length, the elements follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Text,
    Number(u64),
    Bytes(&'a [u8]),
    Array(usize),
    Nothing,
    /// The server is still loading.
    Loading,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Result<Connection, Error> {
        Ok(Connection { stream, out: Vec::new(), buffer: vec![0; READ_BYTES], start: 0, end: 0 })
    }

    /// Begins a command of so many parts, for [`Connection::bytes`].
    pub(super) fn array(&mut self, parts: usize) {
        self.header(b'*', parts);
    }

    pub(super) fn bytes(&mut self, part: &[u8]) {
        self.header(b'$', part.len());
        self.out.extend_from_slice(part);
        self.out.extend_from_slice(b"\r\n");
    }

    pub(super) fn command(&mut self, parts: &[&[u8]]) {
        self.array(parts.len());
        parts.iter().for_each(|part| self.bytes(part));
    }

    fn header(&mut self, kind: u8, length: usize) {
        self.out.push(kind);
        if length < 10 {
            self.out.push(b'0' + length as u8);
        } else {
            self.out.extend_from_slice(super::Decimal::new(length as u64).text());
        }
        self.out.extend_from_slice(b"\r\n");
    }

    pub(super) fn send(&mut self) -> Result<(), Error> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    pub(super) fn send_if_full(&mut self) -> Result<(), Error> {
        if self.out.len() >= SEND_BYTES { self.send() } else { Ok(()) }
    }

    /// The next answer; what was not yet sent is sent first.
    pub(super) fn answer(&mut self) -> Result<Value<'_>, Error> {
        if !self.out.is_empty() {
            self.send()?;
        }
        let line = self.line()?;
        let (kind, rest) = self.buffer[line.0..line.1].split_first().ok_or("an empty answer")?;
        match kind {
            b'+' => Ok(Value::Text),
            b':' => Ok(Value::Number(number(rest)?)),
            b'*' => Ok(Value::Array(number(rest)? as usize)),
            b'$' if rest == b"-1" => Ok(Value::Nothing),
            b'$' => {
                let length = number(rest)? as usize;
                while self.end - self.start < length + 2 {
                    self.more()?;
                }
                let start = self.start;
                self.start += length + 2;
                Ok(Value::Bytes(&self.buffer[start..start + length]))
            }
            b'-' if rest.starts_with(b"LOADING") => Ok(Value::Loading),
            _ => Err(format!("Redis: {}", String::from_utf8_lossy(&self.buffer[line.0..line.1])).into()),
        }
    }

    pub(super) fn array_answer(&mut self) -> Result<usize, Error> {
        match self.answer()? {
            Value::Array(length) => Ok(length),
            other => Err(format!("an array was expected, not {other:?}").into()),
        }
    }

    /// A number, written in any way; 0 for nothing.
    pub(super) fn number_answer(&mut self) -> Result<u64, Error> {
        match self.answer()? {
            Value::Number(number) => Ok(number),
            Value::Bytes(digits) => number(digits),
            Value::Nothing => Ok(0),
            other => Err(format!("a number was expected, not {other:?}").into()),
        }
    }

    /// The range of the next line, without its end.
    fn line(&mut self) -> Result<(usize, usize), Error> {
        let mut from = 0;
        loop {
            let waiting = &self.buffer[self.start..self.end];
            if let Some(at) = waiting[from..].iter().position(|byte| *byte == b'\n') {
                let line = (self.start, self.start + from + at - usize::from(from + at > 0));
                self.start += from + at + 1;
                return Ok(line);
            }
            from = waiting.len();
            self.more()?;
        }
    }

    /// Reads on; what is not yet taken is kept.
    fn more(&mut self) -> Result<(), Error> {
        if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.end == self.buffer.len() {
                self.buffer.resize(self.end * 2, 0);
            }
        }
        match self.stream.read(&mut self.buffer[self.end..])? {
            0 => Err("Redis has closed the connection".into()),
            length => {
                self.end += length;
                Ok(())
            }
        }
    }
}

fn number(digits: &[u8]) -> Result<u64, Error> {
    digits.iter().try_fold(0u64, |number, digit| match digit {
        b'0'..=b'9' => Ok(number * 10 + u64::from(digit - b'0')),
        _ => Err(format!("not a number: {:?}", String::from_utf8_lossy(digits)).into()),
    })
}

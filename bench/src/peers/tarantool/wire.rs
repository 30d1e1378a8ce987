//! The part of Tarantool's binary protocol and of MessagePack that the benchmarks need. It copies as little as possible,
//! so that the client is not what is measured.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::engine::Error;
use crate::peers::message_pack::Reader;

const GREETING_BYTES: usize = 128;
/// Bytes sent at once while calls are still being written, so that the server begins early.
const SEND_BYTES: usize = 32 << 10;
const READ_BYTES: usize = 256 << 10;

const REQUEST_TYPE: u8 = 0x00;
const SYNC: u8 = 0x01;
const TUPLE: u8 = 0x21;
const FUNCTION_NAME: u8 = 0x22;
const CALL: u8 = 0x0a;

pub(super) struct Connection {
    stream: TcpStream,
    out: Vec<u8>,
    /// The place of the length of the call that is being written.
    call: usize,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    sent: u64,
}

impl Connection {
    /// Reads the greeting.
    pub(super) fn new(mut stream: TcpStream) -> Result<Connection, Error> {
        stream.read_exact(&mut [0; GREETING_BYTES])?;
        let buffer = vec![0; READ_BYTES];
        Ok(Connection { stream, out: Vec::new(), call: 0, buffer, start: 0, end: 0, sent: 0 })
    }

    /// Begins a call of a function with so many arguments, which the caller writes next.
    pub(super) fn begin(&mut self, function: &str, arguments: usize) {
        self.call = self.out.len();
        // The length, filled in by `finish`; then header and body.
        self.out.extend_from_slice(&[0xce, 0, 0, 0, 0]);
        self.out.extend_from_slice(&[0x82, REQUEST_TYPE, CALL, SYNC]);
        self.number(self.sent);
        self.sent += 1;
        self.out.extend_from_slice(&[0x82, FUNCTION_NAME]);
        self.out.extend_from_slice(&[0xd9, function.len() as u8]);
        self.out.extend_from_slice(function.as_bytes());
        self.out.push(TUPLE);
        self.array(arguments);
    }

    pub(super) fn number(&mut self, number: u64) {
        if number < 0x80 {
            self.out.push(number as u8);
        } else {
            self.out.push(0xcf);
            self.out.extend_from_slice(&number.to_be_bytes());
        }
    }

    pub(super) fn array(&mut self, length: usize) {
        self.out.push(0xdd);
        self.out.extend_from_slice(&(length as u32).to_be_bytes());
    }

    /// Ends a call.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        let length = (self.out.len() - self.call - 5) as u32;
        self.out[self.call + 1..self.call + 5].copy_from_slice(&length.to_be_bytes());
        if self.out.len() >= SEND_BYTES { self.send() } else { Ok(()) }
    }

    pub(super) fn send(&mut self) -> Result<(), Error> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// The next answer: what the function returned, an array. Calls run side by side, so answers may come in any
    /// order; here it does not matter which is whose.
    pub(super) fn answer(&mut self) -> Result<Reader<'_>, Error> {
        self.fill(5)?;
        let length = Reader::new(&self.buffer[self.start..self.start + 5]).number()? as usize;
        self.start += 5;
        self.fill(length)?;
        let mut reader = Reader::new(&self.buffer[self.start..self.start + length]);
        self.start += length;
        let mut status = 0;
        for _ in 0..reader.map()? {
            let (field, value) = (reader.number()?, reader.number()?);
            if field == u64::from(REQUEST_TYPE) {
                status = value;
            }
        }
        if status != 0 {
            return Err(format!("Tarantool: {}", String::from_utf8_lossy(reader.rest())).into());
        }
        // One entry: the data.
        reader.map()?;
        reader.number()?;
        Ok(reader)
    }

    /// Waits until so many bytes are there.
    fn fill(&mut self, length: usize) -> Result<(), Error> {
        if self.buffer.len() - self.start < length {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.buffer.len() < length {
                self.buffer.resize(length, 0);
            }
        }
        while self.end - self.start < length {
            match self.stream.read(&mut self.buffer[self.end..])? {
                0 => return Err("Tarantool has closed the connection".into()),
                read => self.end += read,
            }
        }
        Ok(())
    }
}

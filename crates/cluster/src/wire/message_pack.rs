//! Arguments of scripts, in MessagePack: one text to be read by the server instead of thousands.

use event::Time;

use crate::remote::TIME_MAX;

/// Integers from here on are not exact in the scripts, and are written as decimal text.
const EXACT: i64 = 1 << 53;

/// Writes MessagePack. Only what Redis' `cmsgpack` reads: texts are raw strings.
#[derive(Debug, Default)]
pub(crate) struct MessagePackWriter(Vec<u8>);

impl MessagePackWriter {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Begins an array of so many values.
    pub(crate) fn array(&mut self, length: usize) {
        match length {
            0..16 => self.0.push(0x90 | length as u8),
            16..0x1_0000 => {
                self.0.push(0xdc);
                self.0.extend_from_slice(&(length as u16).to_be_bytes());
            }
            _ => {
                self.0.push(0xdd);
                self.0.extend_from_slice(&(length.min(u32::MAX as usize) as u32).to_be_bytes());
            }
        }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        match bytes.len() {
            0..32 => self.0.push(0xa0 | bytes.len() as u8),
            32..0x1_0000 => {
                self.0.push(0xda);
                self.0.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
            }
            _ => {
                self.0.push(0xdb);
                self.0.extend_from_slice(&(bytes.len().min(u32::MAX as usize) as u32).to_be_bytes());
            }
        }
        self.0.extend_from_slice(bytes);
    }

    /// A number where scripts can count with it, or else its digits.
    pub(crate) fn integer(&mut self, integer: i64) {
        match integer {
            0..128 => self.0.push(integer as u8),
            -32..0 => self.0.push(integer as i8 as u8),
            _ if integer.unsigned_abs() >= EXACT.unsigned_abs() => self.text(integer),
            _ => match i32::try_from(integer) {
                Ok(integer) => match i16::try_from(integer) {
                    Ok(integer) => {
                        self.0.push(0xd1);
                        self.0.extend_from_slice(&integer.to_be_bytes());
                    }
                    Err(_) => {
                        self.0.push(0xd2);
                        self.0.extend_from_slice(&integer.to_be_bytes());
                    }
                },
                Err(_) => {
                    self.0.push(0xd3);
                    self.0.extend_from_slice(&integer.to_be_bytes());
                }
            },
        }
    }

    /// A count; at most 2^63 - 1 of it, as everywhere in a cluster.
    pub(crate) fn count(&mut self, count: u64) {
        self.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Its digits, for what scripts compare or take apart themselves.
    pub(crate) fn text(&mut self, integer: i64) {
        self.bytes(integer.to_string().as_bytes());
    }

    /// A time, within what scripts can count.
    pub(crate) fn time(&mut self, time: Time) {
        self.integer(clamped(time).0);
    }

    pub(crate) fn float(&mut self, float: f64) {
        self.0.push(0xcb);
        self.0.extend_from_slice(&float.to_be_bytes());
    }

    /// Writes the value that stands for nothing.
    pub(crate) fn none(&mut self) {
        self.0.push(0xc2);
    }

    pub(crate) fn yes_or_no(&mut self, yes: bool) {
        self.0.push(if yes { 0xc3 } else { 0xc2 });
    }
}

/// The nearest time that the cluster keeps.
pub(crate) fn clamped(time: Time) -> Time {
    Time(time.0.clamp(-TIME_MAX.0, TIME_MAX.0))
}

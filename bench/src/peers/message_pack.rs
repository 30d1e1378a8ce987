//! The part of MessagePack that the servers' answers need.

use crate::engine::Error;

/// The rest of an answer.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.0.split_first_chunk().ok_or("MessagePack: cut off")?;
        self.0 = rest;
        Ok(*taken)
    }

    /// A number that is not negative.
    pub(crate) fn number(&mut self) -> Result<u64, Error> {
        match self.take::<1>()?[0] {
            small @ ..0x80 => Ok(u64::from(small)),
            0xcc => Ok(u64::from(self.take::<1>()?[0])),
            0xcd => Ok(u64::from(u16::from_be_bytes(self.take()?))),
            0xce => Ok(u64::from(u32::from_be_bytes(self.take()?))),
            0xcf => Ok(u64::from_be_bytes(self.take()?)),
            other => Err(format!("MessagePack: a number was expected, not {other:#x}").into()),
        }
    }

    /// The length of an array; `None` for nil.
    pub(crate) fn array(&mut self) -> Result<Option<usize>, Error> {
        match self.take::<1>()?[0] {
            small @ 0x90..=0x9f => Ok(Some(usize::from(small & 15))),
            0xdc => Ok(Some(usize::from(u16::from_be_bytes(self.take()?)))),
            0xdd => Ok(Some(u32::from_be_bytes(self.take()?) as usize)),
            0xc0 => Ok(None),
            other => Err(format!("MessagePack: an array was expected, not {other:#x}").into()),
        }
    }

    /// A text, which need not be one.
    pub(crate) fn text(&mut self) -> Result<&'a [u8], Error> {
        let length = match self.take::<1>()?[0] {
            small @ 0xa0..=0xbf => usize::from(small & 31),
            0xd9 => usize::from(self.take::<1>()?[0]),
            0xda => usize::from(u16::from_be_bytes(self.take()?)),
            0xdb => u32::from_be_bytes(self.take()?) as usize,
            other => return Err(format!("MessagePack: a text was expected, not {other:#x}").into()),
        };
        let (text, rest) = self.0.split_at_checked(length).ok_or("MessagePack: cut off")?;
        self.0 = rest;
        Ok(text)
    }

    /// The length of a map of at most 15 entries.
    pub(crate) fn map(&mut self) -> Result<usize, Error> {
        match self.take::<1>()?[0] {
            small @ 0x80..=0x8f => Ok(usize::from(small & 15)),
            other => Err(format!("MessagePack: a small map was expected, not {other:#x}").into()),
        }
    }
}

//! Reads FlatBuffers without trusting a byte of them.
//!
//! The `flatbuffers` crate would want its verifier driven by generated code for three schemas, and still would not
//! bound what a file makes its reader copy: a thousand vectors may all point at the same megabyte. This reader is
//! smaller than that code: every access is checked where it happens, and all that is copied out of a file is
//! counted against a budget in proportion to its length.

use std::cell::Cell;

/// The fault of some bytes, without a full stop.
pub(crate) type FlatFault = &'static str;

/// The number of bytes that may be read out of a buffer for each byte that it has. Written files repeat little.
const READ_PER_BYTE: usize = 8;

const OUTSIDE: FlatFault = "a value lies outside of the file";

pub(crate) struct FlatBuffer<'a> {
    bytes: &'a [u8],
    budget: Cell<usize>,
}

#[derive(Clone, Copy)]
pub(crate) struct FlatTable<'b> {
    buffer: &'b FlatBuffer<'b>,
    at: usize,
    vtable: usize,
    vtable_bytes: usize,
}

impl<'a> FlatBuffer<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> FlatBuffer<'a> {
        FlatBuffer { bytes, budget: Cell::new(bytes.len().saturating_mul(READ_PER_BYTE)) }
    }

    pub(crate) fn root(&self) -> Result<FlatTable<'_>, FlatFault> {
        self.table(self.follow(0)?)
    }

    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], FlatFault> {
        let end = at.checked_add(N).ok_or(OUTSIDE)?;
        self.bytes.get(at..end).and_then(|bytes| bytes.try_into().ok()).ok_or(OUTSIDE)
    }

    fn u32(&self, at: usize) -> Result<u32, FlatFault> {
        self.array(at).map(u32::from_le_bytes)
    }

    /// The place that the offset at `at` points to.
    fn follow(&self, at: usize) -> Result<usize, FlatFault> {
        at.checked_add(self.u32(at)? as usize).ok_or(OUTSIDE)
    }

    fn spend(&self, bytes: usize) -> Result<(), FlatFault> {
        let left = self.budget.get().checked_sub(bytes).ok_or("the same bytes are read over and over")?;
        self.budget.set(left);
        Ok(())
    }

    fn table(&self, at: usize) -> Result<FlatTable<'_>, FlatFault> {
        let back = i64::from(self.u32(at)? as i32);
        let vtable = usize::try_from(at as i64 - back).map_err(|_| OUTSIDE)?;
        let vtable_bytes = usize::from(u16::from_le_bytes(self.array(vtable)?));
        self.spend(4)?;
        Ok(FlatTable { buffer: self, at, vtable, vtable_bytes })
    }

    /// The `count` elements of `size` bytes of the vector at `at`.
    fn vector(&self, at: usize, size: usize) -> Result<&[u8], FlatFault> {
        let bytes = (self.u32(at)? as usize).checked_mul(size).ok_or(OUTSIDE)?;
        self.spend(bytes)?;
        let start = at + 4;
        let end = start.checked_add(bytes).ok_or(OUTSIDE)?;
        self.bytes.get(start..end).ok_or(OUTSIDE)
    }
}

impl<'b> FlatTable<'b> {
    /// The offset of the field with this number in its schema; `None` where it has its default.
    fn field(&self, number: usize) -> Result<Option<usize>, FlatFault> {
        let entry = 4 + 2 * number;
        if entry + 2 > self.vtable_bytes {
            return Ok(None);
        }
        let offset = usize::from(u16::from_le_bytes(self.buffer.array(self.vtable + entry)?));
        Ok((offset > 0).then_some(self.at + offset))
    }

    fn scalar<const N: usize>(&self, number: usize) -> Result<Option<[u8; N]>, FlatFault> {
        self.field(number)?.map(|at| self.buffer.array(at)).transpose()
    }

    pub(crate) fn u8(&self, number: usize, default: u8) -> Result<u8, FlatFault> {
        Ok(self.scalar::<1>(number)?.map_or(default, |[byte]| byte))
    }

    pub(crate) fn i32(&self, number: usize, default: i32) -> Result<i32, FlatFault> {
        Ok(self.scalar(number)?.map_or(default, i32::from_le_bytes))
    }

    pub(crate) fn f32(&self, number: usize, default: f32) -> Result<f32, FlatFault> {
        Ok(self.scalar(number)?.map_or(default, f32::from_le_bytes))
    }

    pub(crate) fn f64(&self, number: usize, default: f64) -> Result<f64, FlatFault> {
        Ok(self.scalar(number)?.map_or(default, f64::from_le_bytes))
    }

    pub(crate) fn table(&self, number: usize) -> Result<Option<FlatTable<'b>>, FlatFault> {
        self.field(number)?.map(|at| self.buffer.table(self.buffer.follow(at)?)).transpose()
    }

    /// A vector of elements of `N` bytes; none where the field is absent.
    pub(crate) fn elements<const N: usize>(&self, number: usize) -> Result<&'b [[u8; N]], FlatFault> {
        let Some(at) = self.field(number)? else { return Ok(&[]) };
        let bytes = self.buffer.vector(self.buffer.follow(at)?, N)?;
        Ok(bytes.as_chunks().0)
    }

    pub(crate) fn i32s(&self, number: usize) -> Result<Vec<i32>, FlatFault> {
        Ok(self.elements(number)?.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect())
    }

    pub(crate) fn f32s(&self, number: usize) -> Result<Vec<f32>, FlatFault> {
        Ok(self.elements(number)?.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    pub(crate) fn f64s(&self, number: usize) -> Result<Vec<f64>, FlatFault> {
        Ok(self.elements(number)?.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
    }

    pub(crate) fn text(&self, number: usize) -> Result<&'b str, FlatFault> {
        str::from_utf8(self.elements::<1>(number)?.as_flattened()).map_err(|_| "a text is not UTF-8")
    }

    pub(crate) fn tables(
        &self,
        number: usize,
    ) -> Result<impl Iterator<Item = Result<FlatTable<'b>, FlatFault>> + use<'b>, FlatFault> {
        let buffer = self.buffer;
        let start = self.field(number)?.map(|at| buffer.follow(at)).transpose()?;
        let count = start.map_or(Ok(0), |at| buffer.vector(at, 4).map(|offsets| offsets.len() / 4))?;
        let first = start.unwrap_or(0) + 4;
        Ok((0..count).map(move |index| buffer.table(buffer.follow(first + 4 * index)?)))
    }

    /// The texts of a vector of strings.
    pub(crate) fn texts(&self, number: usize) -> Result<Vec<&'b str>, FlatFault> {
        let buffer = self.buffer;
        let Some(at) = self.field(number)? else { return Ok(Vec::new()) };
        let start = buffer.follow(at)?;
        let count = buffer.vector(start, 4)?.len() / 4;
        let text = |index: usize| {
            let bytes = buffer.vector(buffer.follow(start + 4 + 4 * index)?, 1)?;
            str::from_utf8(bytes).map_err(|_| "a text is not UTF-8")
        };
        (0..count).map(text).collect()
    }
}

//! Compression of blocks of rows and of pages of columns, with a context for each thread.

use std::cell::RefCell;
use std::io;

use zstd::bulk::{Compressor, Decompressor};

/// Returns the content of one zstd frame, at most so many bytes. A page is decompressed in less time than a context is made,
/// so each thread keeps its own.
pub(super) fn decompress(frame: &[u8], bytes: usize) -> io::Result<Vec<u8>> {
    thread_local! {
        static CONTEXT: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }
    CONTEXT.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            none => none.insert(Decompressor::new()?),
        };
        context.decompress(frame, bytes)
    })
}

/// The level for what is kept. zstd's own default of 3 makes columns a tenth smaller, in half as much time again. Of
/// columns, zstd's own default of 3 makes a tenth less, in half as much time again: the longest part of what a logged
/// decision takes.
pub(super) const LEVEL: i32 = 1;
/// The level for rows, which become columns before long: the strongest of zstd's fast levels, for a tenth more bytes than
/// level 1 in two thirds of its time.
pub(super) const LEVEL_ROWS: i32 = -1;

/// One zstd frame of these bytes. Here, too, each thread keeps its context: clearing the memory of a new one costs more
/// than to compress a block.
pub(super) fn compress(raw: &[u8], level: i32) -> io::Result<Vec<u8>> {
    thread_local! {
        static CONTEXT: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    }
    CONTEXT.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            none => none.insert(Compressor::new(level)?),
        };
        context.set_compression_level(level)?;
        context.compress(raw)
    })
}

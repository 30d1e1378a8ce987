//! Pages that were decompressed for one of their rows, for those who want others.

use std::sync::{Arc, OnceLock};

/// A page that was decompressed.
#[derive(Debug)]
pub(super) struct KeptPage {
    pub(super) bytes: Vec<u8>,
    /// The places where the texts of a dictionary begin, once one was asked for.
    starts: OnceLock<Vec<u32>>,
}

impl KeptPage {
    /// Bytes that it takes up in memory, about.
    fn memory(&self) -> usize {
        self.bytes.len() + self.starts.get().map_or(0, |starts| size_of_val(starts.as_slice()))
    }

    /// The bytes from the text with this number on, of a page of so many texts.
    pub(super) fn rest_from_text(&self, number: usize, count: usize) -> Option<&[u8]> {
        let starts = self.starts.get_or_init(|| {
            let mut at = 0usize;
            let next = || {
                let start = u32::try_from(at).ok()?;
                let length = self.bytes.get(at..)?.first_chunk::<4>()?;
                at = at.checked_add(4)?.checked_add(u32::from_le_bytes(*length) as usize)?;
                Some(start)
            };
            std::iter::from_fn(next).take(count).collect()
        });
        self.bytes.get(*starts.get(number)? as usize..)
    }
}

/// The pages of a column that were decompressed for one of their rows, by the places where they end: others of their rows may be
/// wanted next.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptPages(Vec<(usize, Arc<KeptPage>)>);

impl KeptPages {
    /// Returns the page that ends here.
    pub(super) fn get(&self, end: usize) -> Option<&Arc<KeptPage>> {
        self.0.iter().find(|(of, _)| *of == end).map(|(_, page)| page)
    }

    /// Keeps the bytes of a page that ends here.
    pub(super) fn keep(&mut self, end: usize, bytes: Vec<u8>) -> Arc<KeptPage> {
        let kept = Arc::new(KeptPage { bytes, starts: OnceLock::new() });
        self.0.push((end, Arc::clone(&kept)));
        kept
    }

    /// Bytes that they take up in memory, about.
    pub(super) fn memory(&self) -> usize {
        self.0.iter().map(|(_, page)| page.memory()).sum()
    }

    /// Adds those of others that are not here.
    pub(super) fn add(&mut self, others: KeptPages) {
        for (end, page) in others.0 {
            if self.get(end).is_none() {
                self.0.push((end, page));
            }
        }
    }
}

/// The memory with which a column is decoded.
#[derive(Debug)]
pub(super) struct PageMemory<'m> {
    /// Bytes that may still be taken, about.
    pub(super) budget: &'m mut usize,
    pub(super) kept: &'m mut KeptPages,
}

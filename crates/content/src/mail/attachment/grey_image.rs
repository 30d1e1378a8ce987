//! Pictures as QR codes are looked for in them: grey, and no larger than needed.
//!
//! A picture's size and what its pixels cost are looked at before anything is unpacked: one that claims more than [`PIXELS_MAX`]
//! pixels, or more than the budget has left, costs nothing.

use crate::budget::Budget;

/// Most pixels of a picture.
pub(super) const PIXELS_MAX: usize = 4 * 1024 * 1024;
/// Longest side of a picture.
pub(super) const SIDE_MAX: usize = 8_192;
/// Most pixels that a picture keeps: a larger one is made smaller.
const KEPT_PIXELS: usize = 512 * 1024;

/// Steps of a picture: what its reader allocates before it reads.
const PICTURE_STEPS: u64 = 20_000;
/// Steps of a byte of a picture's rows that is unpacked, and of a pixel that becomes grey.
pub(super) const STEPS_A_ROW_BYTE: u64 = 4;
const STEPS_A_GREY_PIXEL: u64 = 1;
/// Steps of a pixel in which codes are looked for: told dark from light, and passed by.
pub(super) const STEPS_A_SEARCHED_PIXEL: u64 = 8;

/// A picture in shades of grey, row by row; 0 is black.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GreyImage {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) pixels: Vec<u8>,
}

/// The reason for which there is no picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnreadImage {
    /// The picture is larger than is looked at, or dearer than can be paid for.
    TooLarge,
    /// The picture is damaged, or of a form that is not known.
    Unknown,
}

/// Rows of grey pixels that become a picture, each square of some made one.
pub(super) struct GreyRows {
    image: GreyImage,
    row_pixels: usize,
    scale: usize,
    sums: Vec<u16>,
    rows: usize,
}

impl GreyRows {
    /// Begins a picture of a size, of which less may come.
    pub(super) fn new(width: usize, height: usize) -> GreyRows {
        let scale = (1..8).find(|scale| width * height / (scale * scale) <= KEPT_PIXELS).unwrap_or(8);
        let kept = width / scale;
        let image = GreyImage { width: kept, height: 0, pixels: Vec::new() };
        GreyRows { image, row_pixels: width, scale, sums: vec![0; kept], rows: 0 }
    }

    pub(super) fn push(&mut self, row: &[u8]) {
        debug_assert_eq!(row.len(), self.row_pixels);
        if self.scale == 1 {
            self.image.pixels.extend_from_slice(row);
            self.image.height += 1;
            return;
        }
        for (sum, pixels) in self.sums.iter_mut().zip(row.chunks_exact(self.scale)) {
            *sum += pixels.iter().map(|pixel| u16::from(*pixel)).sum::<u16>();
        }
        self.rows += 1;
        if self.rows == self.scale {
            let count = (self.scale * self.scale) as u16;
            self.image.pixels.extend(self.sums.iter().map(|sum| (sum / count) as u8));
            self.image.height += 1;
            self.sums.fill(0);
            self.rows = 0;
        }
    }

    pub(super) fn finish(self) -> GreyImage {
        self.image
    }
}

/// Returns the brightness of a colour (ITU-R BT.601).
pub(super) fn grey(red: u8, green: u8, blue: u8) -> u8 {
    ((77 * u32::from(red) + 150 * u32::from(green) + 29 * u32::from(blue)) >> 8) as u8
}

/// Returns whether a picture of this size is looked at.
pub(super) fn is_readable(width: usize, height: usize) -> bool {
    width.max(height) <= SIDE_MAX && width * height <= PIXELS_MAX
}

/// Fails if a picture is too large, or the budget has not what it costs: so much to unpack it, and its pixels to be looked at.
/// The cost of making them grey is spent, if all of it is there.
pub(super) fn afford(
    width: usize,
    height: usize,
    unpacking: u64,
    budget: &Budget,
) -> Result<(), UnreadImage> {
    if width.min(height) == 0 {
        return Err(UnreadImage::Unknown);
    }
    if !is_readable(width, height) {
        return Err(UnreadImage::TooLarge);
    }
    let pixels = (width * height) as u64;
    let steps = pixels * STEPS_A_GREY_PIXEL + pixels.min(KEPT_PIXELS as u64) * STEPS_A_SEARCHED_PIXEL;
    if !budget.has(PICTURE_STEPS + unpacking + steps) {
        return Err(UnreadImage::TooLarge);
    }
    pay(PICTURE_STEPS + pixels * STEPS_A_GREY_PIXEL, budget)
}

/// Spends steps if they are there, and fails if not, so that nothing else is cut short.
pub(super) fn pay(steps: u64, budget: &Budget) -> Result<(), UnreadImage> {
    if budget.has(steps) && budget.spend(steps) { Ok(()) } else { Err(UnreadImage::TooLarge) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pictures_are_made_smaller() {
        for (width, height, kept) in
            [(100, 50, (100, 50)), (2_000, 1_000, (1_000, 500)), (2_001, 1_001, (1_000, 500))]
        {
            let mut rows = GreyRows::new(width, height);
            (0..height).for_each(|_| rows.push(&vec![100; width]));
            let image = rows.finish();
            assert_eq!((image.width, image.height), kept);
            assert!(image.pixels.len() == kept.0 * kept.1 && image.pixels.iter().all(|pixel| *pixel == 100));
        }
    }
}

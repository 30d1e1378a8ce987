//! PNG files (ISO/IEC 15948), as far as their shades of grey go.
//!
//! Read here rather than by a library, since what is inflated has to be charged block by block, which [`crate::deflate`] does
//! and no library for PNG can; and since the filters of its rows are those of pictures in PDFs.

use super::grey_image::{self, GreyImage, GreyRows, STEPS_A_ROW_BYTE, UnreadImage, grey};
use crate::budget::Budget;
use crate::deflate::{DeflateFormat, inflate};

/// The passes of an interlaced picture (Adam7): where its pixels begin, and how far they are apart.
const PASSES: [[usize; 4]; 7] =
    [[0, 0, 8, 8], [4, 0, 8, 8], [0, 4, 4, 8], [2, 0, 4, 4], [0, 2, 2, 4], [1, 0, 2, 2], [0, 1, 1, 2]];
/// Most chunks that are looked at.
const CHUNKS_MAX: usize = 10_000;
/// Steps of a chunk.
const CHUNK_STEPS: u64 = 20;

/// The header of a picture, and its palette as shades of grey.
struct PngLayout {
    width: usize,
    height: usize,
    /// Bits of a sample.
    depth: usize,
    colour: PngColour,
    is_interlaced: bool,
    shades: [u8; 256],
}

/// The samples of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PngColour {
    Grey,
    Colour,
    Palette,
    GreyAlpha,
    ColourAlpha,
}

/// Reads a file.
pub(super) fn read(content: &[u8], budget: &Budget) -> Result<GreyImage, UnreadImage> {
    let (layout, packed) = chunks(content, budget).ok_or(UnreadImage::Unknown)?;
    let (width, height) = (layout.width, layout.height);
    if !grey_image::is_readable(width, height) {
        return Err(UnreadImage::TooLarge);
    }
    let bytes = layout.passes().map(|(wide, high, _)| (layout.row_bytes(wide) + 1) * high).sum::<usize>();
    grey_image::afford(width, height, bytes as u64 * STEPS_A_ROW_BYTE, budget)?;
    let data = inflate(&packed, DeflateFormat::Zlib, bytes, budget).bytes;
    grey_image::pay(data.len() as u64 * STEPS_A_ROW_BYTE, budget)?;
    let mut rows = GreyRows::new(width, height);
    if !layout.is_interlaced {
        let mut grey_row = vec![0; width];
        layout.rows(&data, width, height, &mut grey_row, |_, row| rows.push(row));
        return Ok(rows.finish());
    }
    // Of an interlaced picture that is cut off nothing is seen that could be read.
    if data.len() < bytes {
        return Err(UnreadImage::Unknown);
    }
    let mut whole = vec![0; width * height];
    let mut rest = data.as_slice();
    for (wide, high, [left, top, across, down]) in layout.passes() {
        let (pass, after) = rest.split_at((layout.row_bytes(wide) + 1) * high);
        rest = after;
        let mut grey_row = vec![0; wide];
        layout.rows(pass, wide, high, &mut grey_row, |y, row| {
            let line = &mut whole[(top + y * down) * width..][..width];
            line[left..].iter_mut().step_by(across).zip(row).for_each(|(pixel, grey)| *pixel = *grey);
        });
    }
    whole.chunks_exact(width).for_each(|row| rows.push(row));
    Ok(rows.finish())
}

/// The header, and the data of all chunks that have some.
fn chunks(content: &[u8], budget: &Budget) -> Option<(PngLayout, Vec<u8>)> {
    let mut rest = content.get(8..)?;
    let mut layout: Option<PngLayout> = None;
    let mut packed = Vec::new();
    for _ in 0..CHUNKS_MAX {
        let Some((head, after)) = rest.split_at_checked(8).filter(|_| budget.spend(CHUNK_STEPS)) else {
            break;
        };
        let length = usize::try_from(u32::from_be_bytes(*head.first_chunk()?)).ok()?;
        let data = &after[..length.min(after.len())];
        match (&head[4..], &mut layout) {
            (b"IHDR", None) => layout = Some(PngLayout::of(data)?),
            (b"PLTE", Some(layout)) => {
                let shades = data.chunks_exact(3).map(|rgb| grey(rgb[0], rgb[1], rgb[2]));
                layout.shades.iter_mut().zip(shades).for_each(|(shade, grey)| *shade = grey);
            }
            // What is seen through is white.
            (b"tRNS", Some(layout)) if layout.colour == PngColour::Palette => {
                layout
                    .shades
                    .iter_mut()
                    .zip(data)
                    .for_each(|(shade, alpha)| *shade = over_white(*shade, *alpha));
            }
            (b"IDAT", Some(_)) => {
                if !budget.spend(data.len() as u64 / 8) {
                    break;
                }
                packed.extend_from_slice(data);
            }
            (b"IEND", _) => break,
            _ => {}
        }
        rest = after.get(length.checked_add(4)?..).unwrap_or_default();
    }
    layout.map(|layout| (layout, packed))
}

fn over_white(shade: u8, alpha: u8) -> u8 {
    let (shade, alpha) = (u32::from(shade), u32::from(alpha));
    ((shade * alpha + 255 * (255 - alpha)) / 255) as u8
}

impl PngLayout {
    fn of(header: &[u8]) -> Option<PngLayout> {
        let side = |at: usize| usize::try_from(u32::from_be_bytes(*header.get(at..)?.first_chunk()?)).ok();
        let (width, height) = (side(0)?, side(4)?);
        let depth = usize::from(*header.get(8)?);
        let colour = match header.get(9)? {
            0 => PngColour::Grey,
            2 => PngColour::Colour,
            3 => PngColour::Palette,
            4 => PngColour::GreyAlpha,
            6 => PngColour::ColourAlpha,
            _ => return None,
        };
        let is_known = match colour {
            PngColour::Grey => matches!(depth, 1 | 2 | 4 | 8 | 16),
            PngColour::Palette => matches!(depth, 1 | 2 | 4 | 8),
            _ => matches!(depth, 8 | 16),
        };
        let is_interlaced = *header.get(12)? == 1;
        is_known.then_some(PngLayout { width, height, depth, colour, is_interlaced, shades: [0; 256] })
    }

    fn pixel_bits(&self) -> usize {
        let samples = match self.colour {
            PngColour::Grey | PngColour::Palette => 1,
            PngColour::GreyAlpha => 2,
            PngColour::Colour => 3,
            PngColour::ColourAlpha => 4,
        };
        samples * self.depth
    }

    fn row_bytes(&self, width: usize) -> usize {
        (width * self.pixel_bits()).div_ceil(8)
    }

    /// The width and height of each pass that has pixels, and where these lie.
    fn passes(&self) -> impl Iterator<Item = (usize, usize, [usize; 4])> {
        let passes: &[_] = if self.is_interlaced { &PASSES } else { &[[0, 0, 1, 1]] };
        passes
            .iter()
            .map(|&[left, top, across, down]| {
                let wide = self.width.saturating_sub(left).div_ceil(across);
                (wide, self.height.saturating_sub(top).div_ceil(down), [left, top, across, down])
            })
            .filter(|(wide, high, _)| wide.min(high) > &0)
    }

    /// Gives each row of a pass, with its number, in shades of grey.
    fn rows(
        &self,
        data: &[u8],
        width: usize,
        height: usize,
        grey_row: &mut [u8],
        mut give: impl FnMut(usize, &[u8]),
    ) {
        let row_bytes = self.row_bytes(width);
        let mut filter = RowFilter::new(row_bytes, self.pixel_bits().div_ceil(8));
        for (y, row) in data.chunks_exact(row_bytes + 1).take(height).enumerate() {
            self.grey(filter.undo(row), grey_row);
            give(y, grey_row);
        }
    }

    fn grey(&self, row: &[u8], grey_row: &mut [u8]) {
        // Of sixteen bits the first eight are what is seen.
        let step = self.depth.max(8) / 8;
        let pixels = row.chunks_exact((self.pixel_bits() / 8).max(1)).zip(grey_row.iter_mut());
        match self.colour {
            PngColour::Grey if self.depth < 16 => unpack(row, self.depth, true, grey_row),
            PngColour::Palette => {
                unpack(row, self.depth, false, grey_row);
                grey_row.iter_mut().for_each(|pixel| *pixel = self.shades[usize::from(*pixel)]);
            }
            PngColour::Grey => pixels.for_each(|(pixel, shade)| *shade = pixel[0]),
            PngColour::GreyAlpha => {
                pixels.for_each(|(pixel, shade)| *shade = over_white(pixel[0], pixel[step]));
            }
            PngColour::Colour => {
                pixels.for_each(|(pixel, shade)| *shade = grey(pixel[0], pixel[step], pixel[2 * step]));
            }
            PngColour::ColourAlpha => pixels.for_each(|(pixel, shade)| {
                *shade = over_white(grey(pixel[0], pixel[step], pixel[2 * step]), pixel[3 * step]);
            }),
        }
    }
}

/// Samples of a few bits as bytes, spread over all shades where they are shades.
pub(super) fn unpack(row: &[u8], depth: usize, are_shades: bool, pixels: &mut [u8]) {
    if depth == 8 {
        let length = pixels.len().min(row.len());
        pixels[..length].copy_from_slice(&row[..length]);
        return;
    }
    let most = (1u8 << depth) - 1;
    let times = if are_shades { 255 / most } else { 1 };
    for (x, pixel) in pixels.iter_mut().enumerate() {
        let bit = x * depth;
        let Some(byte) = row.get(bit / 8) else { break };
        *pixel = (byte >> (8 - depth - bit % 8) & most) * times;
    }
}

/// The filters by which each byte of a row is told from those before it.
pub(super) struct RowFilter {
    row: Vec<u8>,
    above: Vec<u8>,
    /// Bytes of a pixel.
    pixel: usize,
}

impl RowFilter {
    pub(super) fn new(row_bytes: usize, pixel: usize) -> RowFilter {
        RowFilter { row: vec![0; row_bytes], above: vec![0; row_bytes], pixel: pixel.max(1).min(row_bytes) }
    }

    /// Returns a row, which begins with its filter's number, as it was before.
    pub(super) fn undo(&mut self, filtered: &[u8]) -> &[u8] {
        std::mem::swap(&mut self.row, &mut self.above);
        let Some((filter, filtered)) = filtered.split_first() else { return &self.row };
        let length = filtered.len().min(self.row.len());
        let (row, above, pixel) = (&mut self.row[..length], &self.above[..length], self.pixel.min(length));
        row.copy_from_slice(&filtered[..length]);
        match filter {
            1 => (pixel..length).for_each(|x| row[x] = row[x].wrapping_add(row[x - pixel])),
            2 => row.iter_mut().zip(above).for_each(|(byte, above)| *byte = byte.wrapping_add(*above)),
            3 => {
                (0..pixel).for_each(|x| row[x] = row[x].wrapping_add(above[x] / 2));
                for x in pixel..length {
                    row[x] = row[x].wrapping_add(u8::midpoint(row[x - pixel], above[x]));
                }
            }
            4 => {
                (0..pixel).for_each(|x| row[x] = row[x].wrapping_add(above[x]));
                for x in pixel..length {
                    row[x] = row[x].wrapping_add(paeth(row[x - pixel], above[x], above[x - pixel]));
                }
            }
            _ => {}
        }
        &self.row
    }
}

/// The nearest to their plane of three bytes beside and above; without branches, which no processor could foretell.
fn paeth(left: u8, above: u8, corner: u8) -> u8 {
    let (a, b, c) = (i16::from(left), i16::from(above), i16::from(corner));
    let (far_left, far_above, far_corner) = ((b - c).abs(), (a - c).abs(), (a + b - 2 * c).abs());
    let (nearest, far) = if far_above < far_left { (above, far_above) } else { (left, far_left) };
    if far_corner < far { corner } else { nearest }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn zlib(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn file(width: u32, height: u32, form: [u8; 3], others: &[(&[u8], &[u8])], data: &[u8]) -> Vec<u8> {
        let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &form[..2], &[0, 0, form[2]]].concat();
        let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
        let packed = zlib(data);
        let first = [(b"IHDR".as_slice(), header.as_slice())];
        for (kind, data) in first.iter().chain(others).chain(&[(b"IDAT".as_slice(), packed.as_slice())]) {
            file.extend([&(data.len() as u32).to_be_bytes(), *kind, data, &[0; 4]].concat());
        }
        file
    }

    fn check(file: &[u8], width: usize, pixels: &[u8]) {
        let expected = GreyImage { width, height: pixels.len() / width, pixels: pixels.to_vec() };
        assert_eq!(read(file, &Budget::ample()), Ok(expected));
    }

    #[test]
    fn pictures_are_read_in_all_forms() {
        check(&file(3, 2, [8, 0, 0], &[], &[0, 1, 2, 3, 0, 4, 5, 6]), 3, &[1, 2, 3, 4, 5, 6]);
        check(&file(3, 1, [1, 0, 0], &[], &[0, 0b1010_0000]), 3, &[255, 0, 255]);
        check(&file(2, 1, [4, 0, 0], &[], &[0, 0x1F]), 2, &[17, 255]);
        check(&file(2, 1, [16, 0, 0], &[], &[0, 9, 200, 7, 0]), 2, &[9, 7]);
        check(&file(2, 1, [8, 2, 0], &[], &[0, 255, 255, 255, 0, 0, 0]), 2, &[255, 0]);
        check(&file(2, 1, [8, 6, 0], &[], &[0, 0, 0, 0, 255, 0, 0, 0, 0]), 2, &[0, 255]);
        check(&file(2, 1, [8, 4, 0], &[], &[0, 0, 255, 0, 0]), 2, &[0, 255]);
        let palette = [(b"PLTE".as_slice(), [9, 9, 9, 0, 0, 0].as_slice()), (b"tRNS", &[255, 0])];
        check(&file(2, 1, [1, 3, 0], &palette, &[0, 0b0100_0000]), 2, &[9, 255]);
        // Cut off, it is what came.
        check(&file(2, 5, [8, 0, 0], &[], &[0, 1, 2]), 2, &[1, 2]);
        // Adam7: of a picture of four by two, the passes 1, 4, 6 and 7 have pixels.
        check(
            &file(4, 2, [8, 0, 1], &[], &[0, 1, 0, 3, 0, 2, 4, 0, 5, 6, 7, 8]),
            4,
            &[1, 2, 3, 4, 5, 6, 7, 8],
        );
    }

    #[test]
    fn filters_are_undone() {
        let rows = [0, 10, 20, 30, 1, 10, 10, 10, 2, 1, 1, 1, 3, 5, 5, 5, 4, 1, 1, 1];
        check(
            &file(3, 5, [8, 0, 0], &[], &rows),
            3,
            &[10, 20, 30, 10, 20, 30, 11, 21, 31, 10, 20, 30, 11, 21, 31],
        );
    }

    #[test]
    fn what_is_no_picture_is_none() {
        for file in [
            b"\x89PNG".as_slice(),
            b"\x89PNG\r\n\x1a\n",
            &file(0, 5, [8, 0, 0], &[], &[]),
            &file(1, 1, [3, 0, 0], &[], &[0, 0]),
        ] {
            assert_eq!(read(file, &Budget::ample()), Err(UnreadImage::Unknown));
        }
    }
}

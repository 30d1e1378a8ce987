//! Readers of pictures: PNG, JPEG and GIF files, and the samples of a picture in a PDF.

use std::io::Cursor;
use std::num::NonZeroU64;

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::file_type::FileType;
use super::grey_image::{
    GreyImage, GreyRows, PIXELS_MAX, SIDE_MAX, STEPS_A_ROW_BYTE, UnreadImage, afford, grey, is_readable, pay,
};
use super::png;
use crate::budget::Budget;
use crate::deflate::{DeflateFormat, inflate};

/// Steps of a byte of a JPEG, of a pixel, for each of its samples and each time that it is gone over, and of a table of its codes.
const STEPS_A_JPEG_BYTE: u64 = 20;
const STEPS_A_JPEG_SAMPLE: u64 = 3;
const STEPS_A_SCANNED_PIXEL: u64 = 4;
const JPEG_TABLE_STEPS: u64 = 10_000;
/// Steps of a byte of a GIF, and of a pixel.
const STEPS_A_GIF_BYTE: u64 = 350;
const STEPS_A_GIF_PIXEL: u64 = 6;

/// A picture in a PDF, as its dictionary says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PdfImage {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Bits of a sample.
    pub(super) depth: usize,
    /// True if each row begins with the filter of a PNG.
    pub(super) is_filtered: bool,
    pub(super) is_deflated: bool,
    pub(super) is_jpeg: bool,
}

/// Returns what a file shows.
pub(super) fn of_file(kind: FileType, content: &[u8], budget: &Budget) -> Result<GreyImage, UnreadImage> {
    match kind {
        FileType::Png => png::read(content, budget),
        FileType::Jpeg => jpeg(content, budget),
        FileType::Gif => gif(content, budget),
        _ => Err(UnreadImage::Unknown),
    }
}

/// Returns what a picture in a PDF shows. How many samples a pixel has follows from how many bytes there are: where a dictionary
/// says it, it is often by reference.
pub(super) fn of_pdf(image: PdfImage, data: &[u8], budget: &Budget) -> Result<GreyImage, UnreadImage> {
    let (width, height) = (image.width, image.height);
    if image.is_jpeg && !image.is_deflated {
        return jpeg(data, budget);
    }
    if !is_readable(width, height) {
        return Err(UnreadImage::TooLarge);
    }
    if !matches!(image.depth, 1 | 2 | 4 | 8) {
        return Err(UnreadImage::Unknown);
    }
    let head = usize::from(image.is_filtered);
    let row_bytes = |samples: usize| (width * samples * image.depth).div_ceil(8);
    let all = |samples: usize| (row_bytes(samples) + head) * height;
    // What a picture of one sample a pixel costs, the least.
    afford(width, height, all(1) as u64 * STEPS_A_ROW_BYTE, budget)?;
    let inflated;
    let data = if image.is_deflated {
        let most = if image.is_jpeg { data.len() * 2 + 1_024 } else { all(4) };
        inflated = inflate(data, DeflateFormat::Zlib, most, budget).bytes;
        inflated.as_slice()
    } else {
        data
    };
    if image.is_jpeg {
        return jpeg(data, budget);
    }
    // What follows the rows, or is missing of the last ones, is less than a sample of each pixel.
    let samples = [4, 3, 1].into_iter().find(|samples| data.len() >= all(*samples)).unwrap_or(1);
    let row_bytes = row_bytes(samples);
    let bytes = data.len().min(all(samples)) as u64;
    pay(bytes * STEPS_A_ROW_BYTE, budget)?;
    let mut rows = GreyRows::new(width, height);
    let mut filter = png::RowFilter::new(row_bytes, (samples * image.depth).div_ceil(8));
    let mut grey_row = vec![0; width];
    for row in data.chunks_exact(row_bytes + head).take(height) {
        let row = if image.is_filtered { filter.undo(row) } else { row };
        let light = |ink: u8, black: u8| (u32::from(255 - ink) * u32::from(255 - black) / 255) as u8;
        match samples {
            3 if image.depth == 8 => {
                fill(&mut grey_row, row.chunks_exact(3).map(|rgb| grey(rgb[0], rgb[1], rgb[2])));
            }
            4 if image.depth == 8 => {
                let of_ink =
                    |ink: &[u8]| grey(light(ink[0], ink[3]), light(ink[1], ink[3]), light(ink[2], ink[3]));
                fill(&mut grey_row, row.chunks_exact(4).map(of_ink));
            }
            _ => png::unpack(row, image.depth, true, &mut grey_row),
        }
        rows.push(&grey_row);
    }
    Ok(rows.finish())
}

fn fill(row: &mut [u8], pixels: impl Iterator<Item = u8>) {
    row.iter_mut().zip(pixels).for_each(|(pixel, grey)| *pixel = grey);
}

/// A JPEG may go over its pixels again and again, in scans, and make new tables of codes between two: both are counted before.
fn jpeg(content: &[u8], budget: &Budget) -> Result<GreyImage, UnreadImage> {
    const SCANS_MAX: usize = 64;
    pay(content.len() as u64, budget)?;
    let (mut scans, mut tables) = (0, 0);
    for at in memchr::memchr_iter(0xFF, content) {
        scans += u64::from(content.get(at + 1) == Some(&0xDA));
        tables += u64::from(content.get(at + 1) == Some(&0xC4));
    }
    if scans > SCANS_MAX as u64 {
        return Err(UnreadImage::TooLarge);
    }
    let reading = content.len() as u64 * STEPS_A_JPEG_BYTE + tables * JPEG_TABLE_STEPS;
    pay(reading, budget)?;
    let options = DecoderOptions::new_safe()
        .set_strict_mode(true)
        .set_max_width(SIDE_MAX)
        .set_max_height(SIDE_MAX)
        .jpeg_set_max_scans(SCANS_MAX)
        .jpeg_set_out_colorspace(ColorSpace::Luma);
    let mut header = JpegDecoder::new_with_options(ZCursor::new(content), options);
    header.decode_headers().map_err(|_| UnreadImage::Unknown)?;
    let (width, height) = header.dimensions().ok_or(UnreadImage::Unknown)?;
    let samples = header.info().map_or(4, |info| u64::from(info.components));
    let steps = (width * height) as u64 * (STEPS_A_JPEG_SAMPLE * samples + STEPS_A_SCANNED_PIXEL * scans);
    afford(width, height, steps, budget)?;
    pay(steps, budget)?;
    // A frame that comes later can be no larger than what was paid for.
    let options = options.set_max_width(width).set_max_height(height);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(content), options);
    let pixels = decoder.decode().map_err(|_| UnreadImage::Unknown)?;
    if pixels.len() != width * height {
        return Err(UnreadImage::Unknown);
    }
    let mut rows = GreyRows::new(width, height);
    pixels.chunks_exact(width).for_each(|row| rows.push(row));
    Ok(rows.finish())
}

/// The first picture of a GIF.
fn gif(content: &[u8], budget: &Budget) -> Result<GreyImage, UnreadImage> {
    pay(content.len() as u64 * STEPS_A_GIF_BYTE, budget)?;
    let mut options = gif::DecodeOptions::new();
    if let Some(most) = NonZeroU64::new(PIXELS_MAX as u64) {
        options.set_memory_limit(gif::MemoryLimit::Bytes(most));
    }
    options.set_color_output(gif::ColorOutput::Indexed);
    let mut decoder = options.read_info(Cursor::new(content)).map_err(|_| UnreadImage::Unknown)?;
    let frame = decoder.next_frame_info().ok().flatten().ok_or(UnreadImage::Unknown)?;
    let (width, height) = (usize::from(frame.width), usize::from(frame.height));
    let transparent = frame.transparent;
    let steps = (width * height) as u64 * STEPS_A_GIF_PIXEL;
    afford(width, height, steps, budget)?;
    pay(steps, budget)?;
    let mut shades = [255u8; 256];
    let palette = decoder.palette().map_err(|_| UnreadImage::Unknown)?;
    fill(&mut shades, palette.chunks_exact(3).map(|rgb| grey(rgb[0], rgb[1], rgb[2])));
    if let Some(transparent) = transparent {
        shades[usize::from(transparent)] = 255;
    }
    let mut pixels = vec![0; width * height];
    decoder.read_into_buffer(&mut pixels).map_err(|_| UnreadImage::Unknown)?;
    pixels.iter_mut().for_each(|pixel| *pixel = shades[usize::from(*pixel)]);
    let mut rows = GreyRows::new(width, height);
    pixels.chunks_exact(width).for_each(|row| rows.push(row));
    Ok(rows.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Cancellation;

    /// A picture in a PDF, of two rows of three pixels.
    fn check_pdf(depth: usize, data: &[u8], pixels: &[u8]) {
        let image = PdfImage { width: 3, height: 2, depth, ..PdfImage::default() };
        let expected = GreyImage { width: 3, height: 2, pixels: pixels.to_vec() };
        assert_eq!(of_pdf(image, data, &Budget::ample()), Ok(expected));
    }

    #[test]
    fn samples_of_documents_are_told_by_their_number() {
        check_pdf(8, &[1, 2, 3, 4, 5, 6], &[1, 2, 3, 4, 5, 6]);
        check_pdf(1, &[0b1010_0000, 0b0100_0000], &[255, 0, 255, 0, 255, 0]);
        check_pdf(
            8,
            &[[255; 3], [0; 3], [255; 3], [0; 3], [255; 3], [0; 3]].concat(),
            &[255, 0, 255, 0, 255, 0],
        );
        let (white, black) = ([0; 4], [0, 0, 0, 255]);
        check_pdf(8, &[white, black, white, black, white, black].concat(), &[255, 0, 255, 0, 255, 0]);
    }

    #[test]
    fn what_claims_too_much_costs_nothing() {
        let png = |width: u32, height: u32| {
            let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 0, 0, 0, 0]].concat();
            [b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".as_slice(), &header, &[0; 4], b"\0\0\0\0IDAT\0\0\0\0"]
                .concat()
        };
        let jpeg =
            b"\xff\xd8\xff\xc0\0\x0b\x08\x75\x30\x75\x30\x01\x01\x11\0\xff\xda\0\x08\x01\x01\0\0\x3f\0";
        let gif = b"GIF89a\x30\x75\x30\x75\0\0\0,\0\0\0\0\x30\x75\x30\x75\0\x02\x02L\x01\0;";
        for (kind, content) in [
            (FileType::Png, png(30_000, 30_000).as_slice()),
            (FileType::Png, &png(u32::MAX, u32::MAX)),
            (FileType::Png, &png(2_000, 2_000)),
            (FileType::Jpeg, jpeg),
            (FileType::Gif, gif),
        ] {
            let budget = Budget::of_message(content.len(), &Cancellation::default());
            assert!(of_file(kind, content, &budget).is_err(), "{kind:?}");
            assert!(budget.spent() < 50_000 && !budget.is_short(), "{kind:?}: {}", budget.spent());
        }
    }
}

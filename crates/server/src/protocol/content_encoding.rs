//! Messages that clients compressed: what is unpacked is bounded, whatever the packed bytes claim, and so is what it
//! costs, by what came in.

use std::io::{self, Read};

use content::budget::{Budget, Cancellation};
use content::deflate::{self, DeflateFormat, StreamEnd, inflate_pieces};

/// The content encoding of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageEncoding {
    /// RFC 1950, as SPAMC's `Compress: zlib`.
    Zlib,
    /// RFC 8878, as Rspamd's `Compression: zstd`.
    Zstd,
}

/// Reasons for a failed decompression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    /// The bytes have another encoding, or are damaged or cut off.
    #[error("the compressed message cannot be unpacked")]
    Damaged,
    /// The content is larger than is allowed.
    #[error("the message is too large when it is unpacked")]
    TooLarge,
    /// The unpacking took too long.
    #[error("the message could not be unpacked in time")]
    Slow,
    /// Unpacking them takes more work than a message of that size may cost: they were made for that.
    #[error("the compressed message costs too much to unpack; send it uncompressed")]
    TooCostly,
}

/// The largest window that a sender may ask for, as a power of two: 8 MiB, which is what every decoder must support.
const WINDOW_LOG_MAX: u32 = 23;

/// Steps of a frame of zstd, whose context is made anew, and of a block, whose tables are.
const FRAME_STEPS: u64 = 2_000;
const BLOCK_STEPS: u64 = 5_000;
/// Bytes of zstd that come out at once.
const PIECE_BYTES: usize = 64 << 10;
/// Most bytes that one packed byte may become, beyond the first MiB. Mail becomes a fifth or a tenth of itself.
const RATIO_MAX: usize = 32;

/// Unpacks at most `max` bytes. Costs memory by what comes out, at most `max` and the decoder's window of 8 MiB, and no more
/// work than a message as long as the packed bytes may, beside that of bringing forth what comes out.
///
/// # Errors
/// If there is more in them, they are not in this encoding, or they cost too much.
pub fn decompress(
    packed: &[u8],
    how: MessageEncoding,
    max: usize,
    cancellation: &Cancellation,
) -> Result<Vec<u8>, DecompressError> {
    let budget = Budget::of_message(packed.len(), cancellation);
    let limit = max.min(packed.len().saturating_mul(RATIO_MAX).saturating_add(1 << 20));
    let mut unpacked = Vec::new();
    let push = |piece: &[u8]| {
        if piece.len() <= limit - unpacked.len() {
            unpacked.extend_from_slice(piece);
            Ok(())
        } else if limit < max {
            Err(DecompressError::TooCostly)
        } else {
            Err(DecompressError::TooLarge)
        }
    };
    match how {
        MessageEncoding::Zlib => zlib(packed, &budget, push)?,
        MessageEncoding::Zstd => zstd_pieces(packed, Frames::All, &budget, push)?,
    }
    Ok(unpacked)
}

fn zlib(
    packed: &[u8],
    budget: &Budget,
    mut push: impl FnMut(&[u8]) -> Result<(), DecompressError>,
) -> Result<(), DecompressError> {
    let mut refused = Ok(());
    let (_, end) = inflate_pieces(packed, DeflateFormat::Zlib, budget, |piece| {
        budget.grant(piece.len() as u64 * deflate::STEPS_A_BYTE);
        refused = push(piece);
        refused.is_ok()
    });
    refused?;
    match end {
        StreamEnd::Whole => Ok(()),
        StreamEnd::TooCostly => Err(DecompressError::TooCostly),
        StreamEnd::Damaged | StreamEnd::TooLarge => Err(DecompressError::Damaged),
    }
}

/// The number of frames of zstd that are unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frames {
    /// One, with nothing behind it.
    One,
    /// The bytes, however many there are.
    All,
}

/// Unpacks zstd piece by piece. All blocks are paid for before the first is unpacked, and what comes out pays for itself; who
/// cancels the budget ends it within a piece.
pub(crate) fn zstd_pieces<E: From<DecompressError>>(
    packed: &[u8],
    frames: Frames,
    budget: &Budget,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    charge_blocks(packed, budget)?;
    let mut rest = packed;
    let damaged = |_| DecompressError::Damaged;
    let mut decoder = zstd::stream::read::Decoder::with_buffer(&mut rest).map_err(damaged)?;
    decoder.window_log_max(WINDOW_LOG_MAX).map_err(damaged)?;
    if frames == Frames::One {
        decoder = decoder.single_frame();
    }
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = decoder.read(&mut piece).map_err(damaged)?;
        if length == 0 {
            break;
        }
        if !budget.spend(0) {
            return Err(DecompressError::TooCostly.into());
        }
        take(&piece[..length])?;
    }
    drop(decoder);
    if rest.is_empty() { Ok(()) } else { Err(DecompressError::Damaged.into()) }
}

/// Charges the frames and blocks of zstd (RFC 8878, 3.1.1), of which the least are three bytes and yield nothing. Only heads
/// are read; what is damaged ends the count, as it ends the decoder.
fn charge_blocks(packed: &[u8], budget: &Budget) -> Result<(), DecompressError> {
    const FRAME: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
    let mut rest = packed;
    let pay = |steps| if budget.spend(steps) { Ok(()) } else { Err(DecompressError::TooCostly) };
    while let Some((magic, after)) = rest.split_first_chunk::<4>() {
        pay(FRAME_STEPS)?;
        if *magic != FRAME {
            // What is to be skipped says how long it is; anything else ends the decoder.
            let length = after.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
            let is_skipped = matches!(magic, [0x50..=0x5F, 0x2A, 0x4D, 0x18]);
            rest =
                length.filter(|_| is_skipped).and_then(|length| after.get(4 + length..)).unwrap_or_default();
            continue;
        }
        let Some((&descriptor, after)) = after.split_first() else { return Ok(()) };
        let is_single = descriptor & 0x20 != 0;
        let window = usize::from(!is_single);
        let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let size = [usize::from(is_single), 2, 4, 8][usize::from(descriptor >> 6)];
        rest = after.get(window + dictionary + size..).unwrap_or_default();
        while let Some((head, after)) = rest.split_first_chunk::<3>() {
            pay(BLOCK_STEPS)?;
            let [low, middle, high] = head.map(u32::from);
            let head = low | middle << 8 | high << 16;
            // A block of one byte repeated is that byte.
            let length = if head >> 1 & 3 == 1 { 1 } else { (head >> 3) as usize };
            rest = after.get(length..).unwrap_or_default();
            if head & 1 != 0 {
                break;
            }
        }
        let checksum = if descriptor & 4 != 0 { 4 } else { 0 };
        rest = rest.get(checksum..).unwrap_or_default();
    }
    Ok(())
}

/// Packs an answer with zstd.
///
/// # Errors
/// If the library has no memory.
pub fn zstd_compressed(plain: &[u8]) -> io::Result<Vec<u8>> {
    zstd::stream::encode_all(plain, 1)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn unpack(packed: &[u8], how: MessageEncoding, max: usize) -> Result<Vec<u8>, DecompressError> {
        super::decompress(packed, how, max, &Cancellation::default())
    }

    fn packed(plain: &[u8], how: MessageEncoding) -> Vec<u8> {
        match how {
            MessageEncoding::Zlib => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            MessageEncoding::Zstd => zstd_compressed(plain).unwrap(),
        }
    }

    #[test]
    fn bombs_are_stopped() {
        for how in [MessageEncoding::Zlib, MessageEncoding::Zstd] {
            let bomb = packed(&vec![0; 50 << 20], how);
            assert!(bomb.len() < 512 << 10, "{how:?}: {}", bomb.len());
            assert_eq!(unpack(&bomb, how, 1 << 20), Err(DecompressError::TooLarge), "{how:?}");
        }
    }

    #[test]
    fn blocks_that_yield_nothing_cost() {
        let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0, 0];
        frame.extend([0, 0, 0].repeat(300_000));
        frame.extend([1, 0, 0]);
        let skipped = [0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0].repeat(300_000);
        let deflated = [b"\x78\x9c".as_slice(), &b"\x02\x08\x20\x80\0".repeat(100_000)].concat();
        for (packed, how) in [
            (frame, MessageEncoding::Zstd),
            (skipped, MessageEncoding::Zstd),
            (deflated, MessageEncoding::Zlib),
        ] {
            assert_eq!(unpack(&packed, how, 1 << 20), Err(DecompressError::TooCostly), "{how:?}");
        }
    }

    /// However much a listener takes, a short message costs no more than a short one.
    #[test]
    fn costs_go_by_what_came_in() {
        const MAX: usize = 32 << 20;
        let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0, 0];
        frame.extend([0, 0, 0].repeat(50_000));
        frame.extend([1, 0, 0]);
        let deflated = [b"\x78\x9c".as_slice(), &b"\x02\x08\x20\x80\0".repeat(20_000)].concat();
        for (packed, how) in [(frame, MessageEncoding::Zstd), (deflated, MessageEncoding::Zlib)] {
            assert_eq!(unpack(&packed, how, MAX), Err(DecompressError::TooCostly), "{how:?}");
        }
        for how in [MessageEncoding::Zlib, MessageEncoding::Zstd] {
            let bomb = packed(&vec![0; MAX], how);
            assert_eq!(unpack(&bomb, how, MAX), Err(DecompressError::TooCostly), "{how:?}");
            let line = |number: u32| format!("{} and on\r\n", number.wrapping_mul(0x9E37_79B1));
            let plain = (0..400_000).map(line).collect::<String>().into_bytes();
            assert!(
                unpack(&packed(&plain, how), how, MAX).is_ok_and(|unpacked| unpacked == plain),
                "{how:?}"
            );
        }
    }

    /// Checks that a caller that stops waiting while pieces come out ends the unpacking at the next one, in either encoding.
    #[test]
    fn unpacking_ends_where_nobody_waits() {
        let plain = vec![7; 8 << 20];
        let (zstd, zlib) = (packed(&plain, MessageEncoding::Zstd), packed(&plain, MessageEncoding::Zlib));
        let (mut pieces, mut bytes) = (0, 0);
        let cancellation = Cancellation::new();
        let budget = Budget::of_message(plain.len(), &cancellation);
        let ended: Result<(), DecompressError> = zstd_pieces(&zstd, Frames::All, &budget, |_| {
            pieces += 1;
            cancellation.cancel();
            Ok(())
        });
        assert_eq!((ended, pieces), (Err(DecompressError::TooCostly), 1));
        let cancellation = Cancellation::new();
        let budget = Budget::of_message(plain.len(), &cancellation);
        let (_, end) = content::deflate::inflate_pieces(&zlib, DeflateFormat::Zlib, &budget, |piece| {
            bytes += piece.len();
            cancellation.cancel();
            true
        });
        assert!(end == StreamEnd::TooCostly && bytes < plain.len() / 8, "{end:?} after {bytes}");
    }

    #[test]
    fn frames_are_read_one_behind_the_other() {
        let two = [zstd_compressed(b"one, ").unwrap(), zstd_compressed(b"two").unwrap()].concat();
        assert_eq!(unpack(&two, MessageEncoding::Zstd, 100).as_deref(), Ok(b"one, two".as_slice()));
    }

    #[test]
    fn what_is_cut_off_is_damaged() {
        let plain: Vec<u8> = (0..2000u32).flat_map(|number| number.to_le_bytes()).collect();
        for how in [MessageEncoding::Zlib, MessageEncoding::Zstd] {
            let packed = packed(&plain, how);
            for end in [0, 1, packed.len() / 2, packed.len() - 1] {
                let unpacked = unpack(&packed[..end], how, 1 << 20);
                assert_eq!(unpacked, Err(DecompressError::Damaged), "{how:?} {end}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_was_packed_comes_out(plain in prop::collection::vec(any::<u8>(), 0..5000), room in 0usize..10) {
            for how in [MessageEncoding::Zlib, MessageEncoding::Zstd] {
                prop_assert_eq!(unpack(&packed(&plain, how), how, plain.len() + room), Ok(plain.clone()));
            }
        }

        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for how in [MessageEncoding::Zlib, MessageEncoding::Zstd] {
                let unpacked = unpack(&bytes, how, 1000);
                prop_assert!(unpacked.is_err() || unpacked.is_ok_and(|unpacked| unpacked.len() <= 1000));
            }
        }
    }
}

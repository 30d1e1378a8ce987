//! Messages that clients compressed: what is unpacked is bounded, whatever the packed bytes claim.

use std::io::{self, Read};

/// How a message is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// RFC 1950, as SPAMC's `Compress: zlib`.
    Zlib,
    /// RFC 8878, as Rspamd's `Compression: zstd`.
    Zstd,
}

/// Why bytes could not be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnpackError {
    /// They are not of this packing, damaged, or cut off.
    #[error("the compressed message cannot be unpacked")]
    Damaged,
    /// There is more in them than is allowed.
    #[error("the message is too large when it is unpacked")]
    TooLarge,
    /// It took too long.
    #[error("the message could not be unpacked in time")]
    Slow,
}

/// The largest window that a sender may ask for, as a power of two: 8 MiB, which is what every decoder must support.
const WINDOW_LOG_MAX: u32 = 23;

/// Unpacks at most `max` bytes. Costs time and memory by what comes out, at most `max` and the decoder's window of
/// 8 MiB.
///
/// # Errors
/// If there is more in them, or they are not of this packing.
pub fn unpack(packed: &[u8], how: Packing, max: usize) -> Result<Vec<u8>, UnpackError> {
    let mut unpacked = Vec::new();
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    let read = match how {
        Packing::Zlib => flate2::read::ZlibDecoder::new(packed).take(limit).read_to_end(&mut unpacked),
        Packing::Zstd => zstd(packed, limit, &mut unpacked),
    };
    read.map_err(|_| UnpackError::Damaged)?;
    if unpacked.len() > max { Err(UnpackError::TooLarge) } else { Ok(unpacked) }
}

fn zstd(packed: &[u8], limit: u64, unpacked: &mut Vec<u8>) -> io::Result<usize> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(packed)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    decoder.take(limit).read_to_end(unpacked)
}

/// Packs an answer with zstd.
///
/// # Errors
/// If the library has no memory.
pub fn zstd_packed(plain: &[u8]) -> io::Result<Vec<u8>> {
    zstd::stream::encode_all(plain, 1)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn packed(plain: &[u8], how: Packing) -> Vec<u8> {
        match how {
            Packing::Zlib => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            Packing::Zstd => zstd_packed(plain).unwrap(),
        }
    }

    #[test]
    fn bombs_are_stopped() {
        for how in [Packing::Zlib, Packing::Zstd] {
            let bomb = packed(&vec![0; 50 << 20], how);
            assert!(bomb.len() < 512 << 10, "{how:?}: {}", bomb.len());
            assert_eq!(unpack(&bomb, how, 1 << 20), Err(UnpackError::TooLarge), "{how:?}");
        }
    }

    #[test]
    fn what_is_cut_off_is_damaged() {
        let plain: Vec<u8> = (0..2000u32).flat_map(|number| number.to_le_bytes()).collect();
        for how in [Packing::Zlib, Packing::Zstd] {
            let packed = packed(&plain, how);
            for end in [0, 1, packed.len() / 2, packed.len() - 1] {
                let unpacked = unpack(&packed[..end], how, 1 << 20);
                assert_eq!(unpacked, Err(UnpackError::Damaged), "{how:?} {end}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_was_packed_comes_out(plain in prop::collection::vec(any::<u8>(), 0..5000), room in 0usize..10) {
            for how in [Packing::Zlib, Packing::Zstd] {
                prop_assert_eq!(unpack(&packed(&plain, how), how, plain.len() + room), Ok(plain.clone()));
            }
        }

        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for how in [Packing::Zlib, Packing::Zstd] {
                let unpacked = unpack(&bytes, how, 1000);
                prop_assert!(unpacked.is_err() || unpacked.is_ok_and(|unpacked| unpacked.len() <= 1000));
            }
        }
    }
}

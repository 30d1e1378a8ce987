//! Test data of others: peers' test suites, real mail, real logs, and QR codes. Used by tests and benchmarks alone.
//!
//! ```
//! let Some(folder) = corpora::folder("mail/auth/spf") else { return };
//! assert!(!corpora::files(&folder).is_empty());
//! ```
//!
//! A set is looked for under `TOLLHOUSE_TEST_DATA` and in `test-data/`, where `scripts/test-data` puts the complete sets. The
//! small cases that may ship lie in `corpora/peers/`, and stand in for a set that was not fetched.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

/// The path of a set, such as `mail/mime` or `text/sms.tsv`: the complete one, or else the cases of it that ship.
/// Prints that the test is skipped where neither is there.
pub fn folder(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let places = [
        std::env::var_os("TOLLHOUSE_TEST_DATA").map(PathBuf::from),
        Some(root.join("test-data")),
        Some(root.join("corpora/peers")),
    ];
    let found = places.into_iter().flatten().map(|place| place.join(name)).find(|path| path.exists());
    if found.is_none() {
        println!("skipped: {name} is absent (scripts/test-data fetches what is public)");
    }
    found
}

/// All files beneath a folder, in order.
///
/// # Panics
///
/// Panics if a folder cannot be read.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for path in entries.map(|entry| entry.expect("an entry of a folder can be read").path()) {
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// The modules of a QR code that says a text, row by row, dark ones true, and how many a side has; with the four light ones
/// around it.
///
/// # Panics
///
/// Panics if the text is longer than a code holds.
pub fn qr_modules(text: &str) -> (usize, Vec<bool>) {
    let code = qrcode::QrCode::new(text).expect("a code holds the text");
    let side = code.width() + 8;
    let is_dark = |place: usize| {
        let (x, y) = ((place % side).wrapping_sub(4), (place / side).wrapping_sub(4));
        x < code.width() && y < code.width() && code[(x, y)] == qrcode::Color::Dark
    };
    (side, (0..side * side).map(is_dark).collect())
}

/// A PNG file of a QR code that says a text: grey, four pixels a module, not packed and without checksums, at which readers
/// of mail do not look.
///
/// # Panics
///
/// Panics if the text is longer than a code holds, or the picture longer than a block that is not packed.
pub fn qr_png(text: &str) -> Vec<u8> {
    const SCALE: usize = 4;
    let (side, dark) = qr_modules(text);
    let pixels = side * SCALE;
    let row_bytes = pixels.div_ceil(8);
    let mut rows = Vec::new();
    for y in 0..pixels {
        rows.push(0);
        let is_dark = |x: usize| x < pixels && dark[y / SCALE * side + x / SCALE];
        let byte = |at: usize| (0..8).fold(0, |byte, bit| byte << 1 | u8::from(!is_dark(at * 8 + bit)));
        rows.extend((0..row_bytes).map(byte));
    }
    let length = u16::try_from(rows.len()).expect("a block holds the picture").to_le_bytes();
    let stored = [&[0x78, 0x01, 1], &length[..], &length.map(|byte| !byte), &rows].concat();
    let size = u32::try_from(pixels).expect("a code has few modules").to_be_bytes();
    let header = [&size[..], &size, &[1, 0, 0, 0, 0]].concat();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, data) in [(b"IHDR", &header), (b"IDAT", &stored), (b"IEND", &Vec::new())] {
        let length = u32::try_from(data.len()).expect("a chunk is short").to_be_bytes();
        file.extend([&length[..], kind, data, &[0; 4]].concat());
    }
    file
}

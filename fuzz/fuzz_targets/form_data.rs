//! Any body of a form has parts that lie in it in their order, and a part that is written is read as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::form_data::{boundary, parts};

fuzz_target!(|bytes: &[u8]| {
    if let Some(found) = parts("xyz", bytes) {
        let mut at = bytes.as_ptr() as usize;
        for part in &found {
            let start = part.content.as_ptr() as usize;
            assert!(start >= at && start + part.content.len() <= bytes.as_ptr() as usize + bytes.len());
            assert!(!part.name.is_empty());
            at = start + part.content.len();
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let named = boundary(text);
        assert!(named.is_none_or(|named| (1..=70).contains(&named.len())));
    }
    if !bytes.windows(7).any(|part| part == b"\r\n--xyz") && !bytes.starts_with(b"--xyz") {
        let head = b"--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
        let body = [&head[..], bytes, b"\r\n--xyz--\r\n"].concat();
        let found = parts("xyz", &body).unwrap();
        assert_eq!((found.len(), found[0].content), (1, bytes));
    }
});

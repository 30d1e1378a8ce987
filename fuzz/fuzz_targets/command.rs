//! Any bytes are a request in the form of SPAMC and RSPAMC: a head, or an error; and a part of them never says anything
//! else than the whole, so that it does not matter how they are cut on their way.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::protocol::mail::command::{headers, line};

fuzz_target!(|bytes: &[u8]| {
    let read = line(bytes);
    let head = match &read {
        Ok(Some((_, used))) => &bytes[*used..],
        _ => bytes,
    };
    let fields = headers(head);
    if let Ok(Some((fields, used))) = &fields {
        assert!(head[..*used].ends_with(b"\n"));
        let _ = fields.content_length();
        assert!(fields.iter().all(|(name, value)| !name.is_empty() && !value.contains(['\r', '\n', '\0'])));
    }
    // A cut anywhere: not whole yet, or the same.
    let step = 1 + bytes.len() / 16;
    for end in (0..bytes.len()).step_by(step) {
        let part = line(&bytes[..end]);
        assert!(part == Ok(None) || part == read, "{part:?}");
    }
    for end in (0..head.len()).step_by(step) {
        let part = headers(&head[..end]);
        assert!(part == Ok(None) || part == fields, "{part:?}");
    }
});

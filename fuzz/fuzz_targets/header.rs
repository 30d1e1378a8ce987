//! Any bytes are a message whose header is found, marked and cleaned: nothing but the fields that are named comes or
//! goes, and no value makes a field of its own.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::protocol::mail::header::{marked, message_id, only_header, unwrapped, without};

fuzz_target!(|input: (&[u8], &str)| {
    let (message, value) = input;
    let header = only_header(message);
    assert!(message.starts_with(header));
    let body = &message[header.len()..];
    if let Some(id) = message_id(message) {
        assert!(!id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic()));
    }
    let (_, inner) = unwrapped(message);
    assert!(message.ends_with(inner));

    let clean = without(message, &["X-Spam-"]);
    assert!(clean.ends_with(body));
    assert!(
        !only_header(&clean)
            .split(|byte| *byte == b'\n')
            .any(|line| line.to_ascii_lowercase().starts_with(b"x-spam-a:"))
    );
    let marks = [("X-Spam-A", value.to_owned())];
    let once = marked(message, &marks, &["X-Spam-"]);
    assert!(once.ends_with(body));
    let again = marked(&once, &marks, &["X-Spam-"]);
    assert_eq!(again, once, "marks replace marks");
});

//! Any bytes are a conversation of Postfix's policy delegation: requests are the same however the bytes are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::protocol::policy::request::{PolicyDecoder, PolicyRequest, PolicyRequestError};

fn read(bytes: &[u8], piece: usize) -> Vec<Result<PolicyRequest, PolicyRequestError>> {
    let mut decoder = PolicyDecoder::default();
    let mut requests = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.feed(piece);
        while let Some(request) = decoder.next_request().transpose() {
            let failed = request.is_err();
            requests.push(request);
            if failed {
                return requests;
            }
        }
    }
    requests
}

fuzz_target!(|bytes: &[u8]| {
    let Some((piece, bytes)) = bytes.split_first() else { return };
    let whole = read(bytes, usize::MAX);
    assert_eq!(read(bytes, usize::from(*piece).max(1)), whole);
    for request in whole.iter().flatten() {
        assert!(request.envelope.recipients.len() <= 1 && request.instance.len() <= 3 * 1024);
    }
});

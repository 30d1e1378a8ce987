//! Any bytes are a milter conversation: commands are the same however the bytes are cut, and the session takes them or
//! refuses them, with a message's header that no field can end early.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::protocol::milter::codec::MilterDecoder;
use server::protocol::milter::session::{MilterSession, MilterStep, WaitedEnvelope};

/// The outcome of the bytes, fed in pieces: the steps and the messages that were kept.
fn played(bytes: &[u8], piece: usize) -> (Vec<String>, Vec<u8>) {
    let (mut decoder, mut session) =
        (MilterDecoder::default(), MilterSession::new(u32::MAX, WaitedEnvelope::default()));
    let (mut steps, mut kept) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        decoder.feed(piece);
        loop {
            let command = match decoder.next_command() {
                Ok(Some(command)) => command,
                Ok(None) => break,
                Err(error) => {
                    steps.push(error.to_string());
                    return (steps, kept);
                }
            };
            let step = session.handle(&command, &mut |bytes| {
                kept.extend_from_slice(bytes);
                kept.len() < 1 << 16
            });
            match step {
                Ok(MilterStep::Decide) => {
                    let received = session.finish();
                    assert!(received.envelope.recipients.len() <= content::mail::message::RECIPIENTS_MAX);
                    steps.push(format!("{received:?}"));
                }
                Ok(step) => steps.push(format!("{step:?}")),
                Err(misuse) => {
                    steps.push(misuse.to_string());
                    return (steps, kept);
                }
            }
        }
    }
    (steps, kept)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((piece, bytes)) = bytes.split_first() else { return };
    let whole = played(bytes, usize::MAX);
    assert_eq!(played(bytes, usize::from(*piece).max(1)), whole);
    // No more is kept than came, but for ends of lines, colons and blanks.
    assert!(whole.1.len() <= 3 * bytes.len());
});

//! Any bytes are a conversation of a client of Redis: commands are the same however the bytes are cut, and have words.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::protocol::resp::codec::{
    ARGUMENTS_MAX, RespDecoder, RespLimits, RespProtocolError, STRANGER_ARGUMENTS_MAX,
};

type Command = Vec<Vec<u8>>;

fn read(bytes: &[u8], piece: usize, limits: RespLimits) -> Vec<Result<Command, RespProtocolError>> {
    let mut decoder = RespDecoder::default();
    let mut commands = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.room().extend_from_slice(piece);
        loop {
            match decoder.next_command(limits) {
                Ok(Some(command)) => {
                    let words: Command = command.from(0).map(<[u8]>::to_vec).collect();
                    assert!(words.len() == command.len() && !command.is_empty());
                    commands.push(Ok(words));
                }
                Ok(None) => break,
                Err(error) => {
                    commands.push(Err(error));
                    return commands;
                }
            }
        }
        assert!(decoder.waiting() <= bytes.len());
    }
    commands
}

fuzz_target!(|bytes: &[u8]| {
    let Some((head, bytes)) = bytes.split_first() else { return };
    let limits = RespLimits { command_bytes_max: 4096, known: head & 1 == 0 };
    let whole = read(bytes, usize::MAX, limits);
    assert_eq!(read(bytes, usize::from(head >> 1).max(1), limits), whole);
    let max = if limits.known { ARGUMENTS_MAX } else { STRANGER_ARGUMENTS_MAX };
    for command in whole.iter().flatten() {
        assert!(command.len() <= max && command.iter().map(Vec::len).sum::<usize>() <= 4096);
    }
});

//! Ports of the loopback address for servers that tests start.

use std::net::TcpListener;
use std::ops::Range;
use std::sync::Mutex;

/// The ports that a process gives to its tests.
struct Block {
    rest: Range<u16>,
    /// Keeps other processes of tests away: it listens on the block's first port until this process ends.
    _claim: TcpListener,
}

/// Ports of a block.
const SIZE: u16 = 64;

/// The first ports of the blocks. All lie below those that Linux gives to whoever asks for any port (32768 and above), which
/// another socket could have got before the server is up.
const BLOCKS: Range<u16> = 160..500;

/// Returns a port that nobody listens on and that no other test is given.
pub(crate) fn free_port() -> u16 {
    static BLOCK: Mutex<Option<Block>> = Mutex::new(None);
    let mut block = BLOCK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    loop {
        if let Some(port) = block.as_mut().and_then(|block| block.rest.find(|port| is_free(*port))) {
            return port;
        }
        *block = Some(claimed());
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// A block that no process has. Processes start looking at different places.
fn claimed() -> Block {
    let own = u16::try_from(std::process::id() % u32::from(BLOCKS.end - BLOCKS.start)).unwrap();
    let first = BLOCKS.start + own;
    let (port, claim) = (first..BLOCKS.end)
        .chain(BLOCKS.start..first)
        .find_map(|block| Some((block * SIZE, TcpListener::bind(("127.0.0.1", block * SIZE)).ok()?)))
        .expect("a block of ports is free");
    Block { rest: port + 1..port + SIZE, _claim: claim }
}

//! A network that can be cut: passes bytes on between a client and a server, or does not.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// The fate of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Network {
    /// All bytes arrive.
    Whole = 0,
    /// The server's answers are lost.
    Deaf = 1,
    /// Connections end.
    Cut = 2,
    /// All bytes arrive, but servers say that their modules take other requests, as newer ones may.
    Newer = 3,
}

/// The versions of requests that modules take, as servers answer them: what they say, and what a newer one would say.
const VERSIONS: [&[u8; 12]; 2] = [b"*2\r\n:1\r\n:1\r\n", b"*2\r\n:2\r\n:3\r\n"];

/// A proxy before one server. Its threads end with the process.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    network: Arc<AtomicU8>,
}

impl Proxy {
    pub(crate) fn start(server: String) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let network = Arc::new(AtomicU8::new(Network::Whole as u8));
        let state = network.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(upstream) = TcpStream::connect(&server) else { continue };
                for (from, to, is_answer) in [(&client, &upstream, false), (&upstream, &client, true)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let state = state.clone();
                    std::thread::spawn(move || pass(from, to, is_answer, &state));
                }
            }
        });
        Proxy { address, network }
    }

    pub(crate) fn set(&self, network: Network) {
        self.network.store(network as u8, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, is_answer: bool, network: &AtomicU8) {
    from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut bytes = [0; 1 << 16];
    let mut has_lost = false;
    loop {
        let read = from.read(&mut bytes);
        let state = network.load(Ordering::SeqCst);
        // A stream that has lost bytes ends: what comes later would be taken for them.
        if state == Network::Cut as u8 || (has_lost && state == Network::Whole as u8) {
            break;
        }
        match read {
            Ok(0) => break,
            Ok(_) if is_answer && state == Network::Deaf as u8 => has_lost = true,
            Ok(length) => {
                if is_answer && state == Network::Newer as u8 {
                    let [said, newer] = VERSIONS;
                    let at = bytes[..length].windows(said.len()).position(|window| window == said);
                    at.iter().for_each(|at| bytes[*at..][..newer.len()].copy_from_slice(newer));
                }
                if to.write_all(&bytes[..length]).is_err() {
                    break;
                }
            }
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    let _ = from.shutdown(std::net::Shutdown::Both);
    let _ = to.shutdown(std::net::Shutdown::Both);
}

//! Threads of handshakes: signing and checking certificates is dear, and a stranger can ask for it with a few bytes. So it is
//! done apart from the threads that answer requests.

use std::io;
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Runtime};

/// One thread for so many processors.
const PROCESSORS: usize = 4;

/// The threads on which handshakes are done.
#[derive(Debug)]
pub(crate) struct HandshakeThreads(Option<Runtime>);

impl HandshakeThreads {
    /// Starts the threads.
    ///
    /// # Errors
    /// If the system has none left.
    pub(crate) fn start() -> io::Result<HandshakeThreads> {
        let threads = available_parallelism().map_or(1, usize::from).div_ceil(PROCESSORS);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("tls-handshake")
            .enable_time()
            .build()?;
        Ok(HandshakeThreads(Some(runtime)))
    }

    /// Does a handshake on them, and waits for its end; `None` if it has panicked.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        handshake: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.0.as_ref()?.spawn(handshake).await.ok()
    }
}

impl Drop for HandshakeThreads {
    fn drop(&mut self) {
        // The last owner may be a task, which must not wait.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

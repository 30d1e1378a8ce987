//! Work that blocks, apart from the threads that serve connections.

use tokio::task::{JoinHandle, spawn_blocking};

/// Does what blocks, or takes long, away from the threads that serve connections. A panic in it goes on in the
/// caller.
pub(crate) fn blocking<T, F>(work: F) -> impl Future<Output = T> + Send + use<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    result_of(spawn_blocking(work))
}

/// The result of a task on another thread, whose panic goes on here.
pub(crate) async fn result_of<T>(task: JoinHandle<T>) -> T {
    match task.await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is going away and nobody waits for this.
            Err(_) => std::future::pending().await,
        },
    }
}

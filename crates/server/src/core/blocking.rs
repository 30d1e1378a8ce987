//! Work that blocks, apart from the threads that serve connections.

/// Does what blocks, or takes long, away from the threads that serve connections. A panic in it goes on in the
/// caller.
pub(crate) fn blocking<T, F>(work: F) -> impl Future<Output = T> + Send + use<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let task = tokio::task::spawn_blocking(work);
    async {
        match task.await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is going away and nobody waits for this.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

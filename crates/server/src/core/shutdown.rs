//! The word that the node is ending.

use tokio::sync::watch;

/// Says that the node is ending.
#[derive(Clone, Debug)]
pub(crate) struct ShutdownSignal(watch::Receiver<bool>);

impl ShutdownSignal {
    /// The word, and who listens for it.
    pub(crate) fn new() -> (watch::Sender<bool>, ShutdownSignal) {
        let (sender, receiver) = watch::channel(false);
        (sender, ShutdownSignal(receiver))
    }

    /// Ready once the node is ending.
    pub(crate) async fn wanted(&mut self) {
        // Without a sender nobody could ask for it any more: that is an end, too.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

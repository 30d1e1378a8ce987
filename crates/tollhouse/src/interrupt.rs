//! Ctrl-C and SIGTERM: a command stops between two events and closes what it has open.
//!
//! A command that is stuck, say in reading a terminal, is not waited for: after a moment, or at a second signal, the
//! engine is closed, or what is temporary removed, from here and the process ends.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use engine::Engine;
use tokio::signal::unix::{SignalKind, signal};

/// Time for a command to end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// The user's wish that the command stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on, and closes the engine if the command does not.
    pub(crate) fn watch(engine: Option<Arc<Engine>>) -> Interrupt {
        Interrupt::watch_or(move || {
            if let Some(Err(error)) = engine.map(|engine| engine.close()) {
                crate::console::error(error);
            }
        })
    }

    /// Listens from now on, and does this if the command does not end by itself.
    pub(crate) fn watch_or(clean_up: impl FnOnce() + Send + 'static) -> Interrupt {
        let interrupt = Interrupt::default();
        let flag = Arc::clone(&interrupt.0);
        // Without the thread Ctrl-C ends the process at once, as it does any other.
        let _ = thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
                return;
            };
            runtime.block_on(async {
                let (Ok(mut int), Ok(mut term)) =
                    (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
                else {
                    return;
                };
                tokio::select! { _ = int.recv() => {}, _ = term.recv() => {} }
                flag.store(true, Ordering::Relaxed);
                tokio::select! {
                    _ = int.recv() => {}
                    _ = term.recv() => {}
                    () = tokio::time::sleep(GRACE) => {}
                }
                clean_up();
                process::exit(130);
            });
        });
        interrupt
    }

    /// Returns true if the user wants the command to stop.
    pub(crate) fn raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

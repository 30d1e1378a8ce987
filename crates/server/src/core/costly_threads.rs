//! Threads for costly calls, which the scheduler runs where no other thread has anything to do: whoever searches in past decisions
//! must not make decisions wait.

use std::sync::Arc;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::core::blocking::result_of;

/// The threads on which costly calls are worked on. They start when they are needed, and end when they are not.
#[derive(Debug)]
pub(crate) struct CostlyThreads(Option<Runtime>);

impl CostlyThreads {
    /// Makes room for the threads. Where the system has none, costly calls share the threads of others.
    pub(crate) fn new() -> Arc<CostlyThreads> {
        let runtime = Builder::new_current_thread()
            .thread_name("costly-call")
            .on_thread_start(journal::lower_priority)
            .build();
        let runtime = runtime.inspect_err(|error| {
            tracing::warn!("costly calls have no threads of their own, and slow decisions down: {error}");
        });
        Arc::new(CostlyThreads(runtime.ok()))
    }

    /// Does costly work on one of the threads. A panic in it goes on in the caller.
    pub(crate) fn run<T, F>(&self, work: F) -> impl Future<Output = T> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let caller = Handle::current();
        let threads = self.0.as_ref().map_or(&caller, Runtime::handle);
        let of = caller.clone();
        let task = threads.spawn_blocking(move || {
            // What it waits for, such as statistics on other servers, is driven by the threads of the caller.
            let _caller = of.enter();
            work()
        });
        result_of(task)
    }
}

impl Drop for CostlyThreads {
    fn drop(&mut self) {
        // The last owner may be a task, which must not wait.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn costly_work_has_a_low_priority_and_its_callers_runtime() {
        let own = || rustix::process::nice(0).unwrap();
        let (threads, before) = (CostlyThreads::new(), own());
        let waits = move || {
            Handle::current().block_on(tokio::time::sleep(std::time::Duration::from_millis(1)));
            own()
        };
        assert_eq!(threads.run(waits).await, (before + journal::NICER).min(19));
        assert_eq!(own(), before, "the caller's thread is as it was");
        assert_eq!(crate::core::blocking::blocking(own).await, before);
    }

    #[tokio::test]
    #[should_panic(expected = "as it must")]
    async fn a_panic_goes_on_in_the_caller() {
        CostlyThreads::new().run(|| panic!("as it must")).await
    }
}

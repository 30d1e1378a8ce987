//! The priority of work on what is past: who decides now comes first.

/// The steps by which a thread for such work is nicer than others: one that competes for a processor gets about a tenth of it.
pub const NICER: i32 = 10;

/// Lets others have the processor for a moment, if any want it: between two blocks, say. A scheduler may leave it to a thread that
/// stays out of the system until the next tick, 4 ms later, however much nicer it is than who waits. Costs a call of the system.
pub fn give_way() {
    std::thread::yield_now();
}

/// Lowers the priority of the current thread, which cannot be raised again without rights.
///
/// Only on Linux: elsewhere this would be the priority of the whole process.
pub fn lower_priority() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICER) {
        tracing::debug!("a thread for work on the past has the priority of others: {error}");
    }
}

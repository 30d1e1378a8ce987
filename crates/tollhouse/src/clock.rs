//! The time, where a command needs it: the server's clock, so that both faces tell the same. All below is told.

use std::sync::LazyLock;

use event::Time;
use server::{Clock, system_clock};

/// Now.
pub(crate) fn now() -> Time {
    static CLOCK: LazyLock<Clock> = LazyLock::new(system_clock);
    CLOCK()
}

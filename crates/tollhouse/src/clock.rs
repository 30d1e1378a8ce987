//! The time, where a command needs it: the server's clock, so that both faces tell the same. All below is told.

use event::Time;
use server::{ClockSource, SystemClock};

/// Now.
pub(crate) fn now() -> Time {
    SystemClock.wall()
}

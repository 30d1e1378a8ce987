//! The wires against real servers, which the tests start and stop.

mod faults;
mod forms;
mod memory;
mod proxy;
mod servers;
mod support;

//! The wires against real servers, which the tests start and stop.

mod faults;
mod figures;
mod forms;

mod proxy;
mod servers;
mod support;

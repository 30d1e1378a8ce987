//! The wires against real servers, which the tests start and stop.

mod forms;
mod servers;
mod support;

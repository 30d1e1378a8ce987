//! A node over a model of a cluster: what every ledger must do, and what is promised after which fault. And the wires
//! against real servers, which the tests start and stop.

mod cloud;
mod faults;
mod figures;
mod forms;
mod homes;
mod promises;
mod proxy;
mod servers;
mod simulated;
mod simulation;
mod support;

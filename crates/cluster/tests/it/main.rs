//! A node over a model of a cluster, and the wires against real servers, which the tests start and stop: what every
//! ledger must do, and what is promised after which fault.

mod cloud;
mod faults;
mod figures;
mod forms;
mod homes;
mod nodes;
mod promises;
mod proxy;
mod servers;
mod simulated;
mod simulation;
mod support;
mod traffic;

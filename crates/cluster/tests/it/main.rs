//! A node over a model of a cluster, and the wires against real servers, which the tests start and stop: what every
//! ledger must do, and what is promised after which fault.

mod cloud;
mod exact;
mod faults;
mod figures;
mod forms;
mod homes;
#[path = "../../../server/tests/it/installing.rs"]
mod installing;
mod module;
mod new_keys;
mod nodes;
mod numbers;
mod opening;
#[path = "../../../server/tests/it/ports.rs"]
mod ports;
mod promises;
mod proxy;
#[expect(dead_code, reason = "only what a package brings is run")]
#[path = "../../../server/tests/it/python.rs"]
mod python;
mod reshard;
mod servers;
mod sightings;
mod simulated;
mod simulation;
mod support;
mod sweep;
mod traffic;
mod training_streams;
mod transfers;
mod valkey;

/// The program's allocator, so that figures are the program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

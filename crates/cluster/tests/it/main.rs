//! A node over a model of a cluster: what every ledger must do, and what is promised after which fault.

mod cloud;
mod homes;
mod promises;
mod simulated;
mod simulation;

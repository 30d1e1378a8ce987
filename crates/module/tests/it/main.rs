//! The module in a real server: what its tables outlive, and what is refused.

#[path = "../../../server/tests/it/ports.rs"]
mod ports;
#[expect(dead_code, reason = "only what single servers need is used")]
#[path = "../../../cluster/tests/it/servers.rs"]
mod servers;

mod persistence;
mod refusals;
mod support;

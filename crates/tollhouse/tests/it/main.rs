//! The program as its users run it: every test starts the built binary.

mod access;
mod applications;
mod backtest;
mod beside;
mod check;
mod clients;
mod clock;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "cluster")]
mod cluster_once;
mod cluster_shards;
mod compare;
mod data;
mod decisions;
mod descriptors;
mod documents;
mod enforce;
mod explain;
mod features;
mod feedback;
mod fit;
mod follow;
mod full;
mod import;
#[path = "../../../server/tests/it/installing.rs"]
mod installing;
#[cfg(feature = "kafka")]
mod kafka;
mod keeping;
mod kills;
mod learners;
mod ledger_names;
mod limits;
mod live;
mod logs;
#[cfg(feature = "object-store")]
#[path = "../../../objects/tests/it/moto_server.rs"]
mod moto_server;
mod nats;
#[path = "../../../server/tests/it/npm.rs"]
mod npm;
mod objects;
mod packages;
#[path = "../../../server/tests/it/ports.rs"]
mod ports;
mod program;
#[path = "../../../server/tests/it/python.rs"]
mod python;
mod report_log;
mod reputation;
mod reviews;
mod rules;
mod serve;
mod server_commands;
#[cfg(feature = "cluster")]
#[expect(dead_code, reason = "the cluster's own tests use all of it")]
#[path = "../../../cluster/tests/it/servers.rs"]
mod servers;
#[cfg(all(feature = "cluster", feature = "object-store"))]
mod shared_faults;
mod sinks;
mod site;
mod sources;
mod start;
#[cfg(feature = "arrow")]
mod systems;
mod tls;
mod usage;

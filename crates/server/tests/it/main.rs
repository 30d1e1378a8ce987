//! A real server on a free port of the loopback address, with a data directory of its own, asked by a plain client.

mod auth;
mod batch;
mod clients;
mod decide;
mod decisions;
mod envoy;
mod forward;
mod grpc;
mod harness;
mod limits;
mod milter;
mod name_server;
mod node;
mod overload;
mod policy;
mod postfix;
mod proxies;
mod python;
mod quotas;
mod resp;
mod rspamd;
mod rules;
mod said;
mod spamc;
mod statistics;
mod strangers;

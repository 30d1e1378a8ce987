//! Files that other programs read, too: limits, jails, block lists.

pub mod block_list;
pub mod crowdsec;
pub mod envoy;
pub mod fail2ban;
pub mod limitador;

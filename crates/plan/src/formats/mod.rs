//! Files that other programs read, too: limits, jails.

pub mod crowdsec;
pub mod envoy;
pub mod fail2ban;
pub mod limitador;

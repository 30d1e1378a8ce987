//! Files of limits that other programs read, too.

pub mod envoy;
pub mod limitador;

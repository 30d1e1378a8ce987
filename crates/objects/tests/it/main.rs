//! Uploads and reads, from outside.

mod moto;
mod support;
mod uploads;

//! Uploads and reads, from outside.

mod moto;
#[path = "../../../server/tests/it/python.rs"]
mod python;
mod support;
mod uploads;

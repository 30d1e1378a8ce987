//! Uploads and reads, from outside.

mod cut;
#[path = "../../../server/tests/it/installing.rs"]
mod installing;
mod moto;
mod moto_server;
#[path = "../../../server/tests/it/python.rs"]
mod python;
mod support;
mod uploads;

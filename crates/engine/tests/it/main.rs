//! Integration tests of the engine, one module a concern.

mod config;
mod corpora;
mod journal;
mod pipeline;

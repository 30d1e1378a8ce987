//! Integration tests of models, through what the crate shows to others.

mod models;

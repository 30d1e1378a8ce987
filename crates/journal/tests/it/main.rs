//! Integration tests of the journal, one module a concern.

mod full;
mod rewriting;
mod simulated;
mod tail;

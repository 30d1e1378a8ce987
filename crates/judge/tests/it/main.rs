//! Integration tests of judging, through what the crate shows to others.

mod allocation;

//! Rules for the sources of the whole workspace. They stand here because this crate knows nobody, so they are built in seconds.

mod arrows;
mod dependencies;
mod first_reading;
mod names;
mod publishable;
mod sources;
mod unsafe_code;
mod workflow;

//! Presets against what they are for.

mod log_presets;
mod log_presets_of_others;

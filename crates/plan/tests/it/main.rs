//! Presets and imports against what they are for.

#[path = "../../../engine/tests/it/crowds.rs"]
mod crowds;
mod crowdsec_crowds;
mod log_presets;
mod log_presets_of_others;

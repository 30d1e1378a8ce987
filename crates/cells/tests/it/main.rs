//! Tables against a plain map, and commands against whatever comes.

mod commands;
mod tables;

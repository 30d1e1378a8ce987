//! The program as its users run it: every test starts the built binary.

mod backtest;
mod check;
mod compare;
mod data;
mod documents;
mod explain;
mod follow;
mod import;
mod keeping;
mod limits;
mod live;
mod program;
mod rules;
mod serve;
mod usage;

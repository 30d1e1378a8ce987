//! Integration tests of the engine, one module a concern.

mod backtest;
mod classifier;
mod columns;
mod config;
mod corpora;
mod envoy;
mod erase;
mod fixtures;
mod full;
mod honest;
mod journal;
mod limits;
mod limits_laws;
mod models;
mod phrases;
mod pipeline;
mod reload;
mod reports;
mod rule_messages;
mod rules;
mod scenarios;
mod sweep;
mod tables;
mod tracks;
mod train;
mod year;

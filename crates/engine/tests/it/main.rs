//! Integration tests of the engine, one module a concern.

mod backtest;
mod classifier;
mod columns;
mod config;
mod corpora;
mod erase;
mod fixtures;
mod full;
mod journal;
mod models;
mod phrases;
mod pipeline;
mod reload;
mod reports;
mod rules;
mod scenarios;
mod tables;
mod tracks;
mod train;

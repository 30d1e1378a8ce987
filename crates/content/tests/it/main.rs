//! The crate over real data and over damaged data.

mod corpus;
mod cost;
mod files;
mod hostile;
mod story;
mod words;

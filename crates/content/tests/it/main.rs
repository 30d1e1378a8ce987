//! The crate over real data and over damaged data.

mod corpus;
mod files;
mod hostile;
mod shared;
mod story;
mod words;

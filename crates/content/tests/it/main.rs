//! The crate over real data and over damaged data.

mod corpus;
mod cost;
mod fields;
mod files;
mod hostile;
mod phishing;
mod story;
mod words;

//! What only shows from outside.

mod models;

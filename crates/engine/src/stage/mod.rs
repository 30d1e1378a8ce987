//! The numbered stages of the flow, one module each. `judge`, the fifth, is a crate of its own, and what models
//! say comes before it; the seventh is the journal.

pub(crate) mod classifiers;
pub(crate) mod features;
pub(crate) mod fields;
pub(crate) mod keys;
pub(crate) mod log;
pub(crate) mod observe;
pub(crate) mod ranges;
pub(crate) mod score;
pub(crate) mod settle;

//! Every home of the statistics against one conformance suite and a plain model; and what is promised after a crash.

mod bounds;
mod catalogs;
mod conformance;
mod faults;
mod kill;
mod measures;
mod model;
mod portable;
mod support;

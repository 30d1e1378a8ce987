//! The promises of the log and of the store, checked from outside over crash images, injected faults and arbitrary bytes.

mod damage;
mod faults;
mod hints;
mod model;
mod store_bounds;
mod store_model;
mod store_threads;
mod support;
mod sweep;
mod toy;

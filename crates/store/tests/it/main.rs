//! The log's promises, checked from outside over crash images, injected faults and arbitrary bytes.

mod damage;
mod faults;
mod hints;
mod model;
mod support;
mod upgrade;

//! The store's promises, checked from outside over crash images, injected faults and arbitrary bytes.

mod damage;
mod model;

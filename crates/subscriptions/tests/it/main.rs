//! Subscriptions as a whole, against a naive model.

mod fixed;
mod memory;
mod model;

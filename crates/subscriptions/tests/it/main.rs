//! Subscriptions as a whole, against a naive model.

mod delivery;
mod examples;
mod fixed;
mod memory;
mod model;
mod tracked_addresses;

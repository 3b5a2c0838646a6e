//! The model of kaspad over its sockets, read with the codec of `kaspa`.

mod chain;
mod faults;
mod notifications;
mod shapes;
mod world;

//! The server over real loopback sockets, on a ledger made by hand: one binary, linked once.
//!
//! `world` makes a node and serves it; `wire` speaks raw HTTP to it.

mod accounts;
mod bad_input;
mod batches;
mod cached;
mod fairness;
mod heads;
mod health;
mod http;
mod indexed;
mod metrics;
mod overload;
mod pages;
mod programs;
mod pubsub;
mod racing;
mod shared;
mod slices;
mod streams;
mod supply;
mod tokens;
mod wire;
mod world;

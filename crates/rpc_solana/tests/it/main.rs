//! The server over real loopback sockets, on a hand-made ledger: one binary, linked once.
//!
//! `world` builds and serves a node; `wire` is a raw HTTP client.

mod accounts;
mod bad_input;
mod batches;
mod cached;
mod fairness;
mod forks;
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

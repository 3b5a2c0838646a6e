//! The server over real loopback sockets, on a hand-made ledger: one binary, linked once.
//!
//! `testkit` builds and serves the node (`solana_node`), and has a raw HTTP client.

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
mod min_slot;
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

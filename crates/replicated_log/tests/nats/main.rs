//! The log in NATS JetStream, on real servers: alone, behind a proxy, and as a cluster of three.
//!
//! `cargo xtask tools` builds nats-server. Each test has servers of its own, in a temporary directory. The tests are
//! ignored by default; `cargo xtask test` and CI run them where the program is.
//! Bounds: a minute for each wait.

mod cluster;
mod faults;
#[path = "../../../../xtask/src/foreign_programs.rs"]
mod foreign_programs;
mod retention;
mod single_server;
mod world;

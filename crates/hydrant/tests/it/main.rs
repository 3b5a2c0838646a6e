//! The binary, from outside: real `hydrant dev` processes, tested with unmodified clients.
//!
//! One test binary, which links once. Nodes are started by `node.rs`; helpers for a ledger are in `world.rs`.
//! Bounds: a node has 30 s to respond, a step of a flow 60 s. Ports are always free ones.

mod bench;
mod cheatcodes;
mod clients;
mod clone;
mod crash;
mod disk;
mod drop_in;
mod entry_chain;
mod faults;
mod flags;
mod follow_crash;
mod follow_joins;
mod follow_of_follow;
mod followed_ledger;
mod followed_methods;
mod follower;
mod from_snapshot;
mod genesis;
mod grpc;
mod memory;
mod methods;
mod node;
mod observability;
mod programs;
mod recorded_validator;
mod resuming_subscriber;
mod rust_client;
mod signals;
mod snapshots;
mod socket;
mod storms;
mod tpu_client;
mod web_console;
mod world;
mod yellowstone_client;

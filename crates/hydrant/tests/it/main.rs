//! The binary, from outside: real `hydrant dev` processes, tested with unmodified clients.
//!
//! One test binary, which links once. Nodes are started by `node.rs`; helpers for a ledger are in `world.rs`.
//! Bounds: a node has 30 s to respond, a step of a flow 60 s. Ports are always free ones.

mod admin;
mod announced_address;
mod api_keys;
mod bench;
mod cheatcodes;
mod clients;
mod clone;
mod crash;
mod disk;
mod draining;
mod drop_in;
mod entry_chain;
mod examples;
mod faucet;
mod faults;
mod flags;
mod follow_crash;
mod follow_joins;
mod follow_of_follow;
mod follow_settings;
mod follow_sources;
mod follow_trust;
mod followed_ledger;
mod followed_methods;
mod follower;
#[path = "../../../../xtask/src/foreign_programs.rs"]
mod foreign_programs;
mod fork_shares;
mod fork_upstream;
mod forks;
mod free_ports;
mod from_snapshot;
mod genesis;
mod grpc;
mod grpc_tls;
mod hostile_upstream;
mod kaspa_clients;
mod kaspa_node;
mod kaspa_positions;
mod launch_lines;
mod memory;
mod memory_of_ports;
mod methods;
mod monitoring_files;
mod node;
mod observability;
mod packaged_settings;
mod programs;
mod raw_http;
mod recorded_cluster;
mod recorded_validator;
mod recording;
mod refused_archives;
mod replay_after_restart;
#[cfg(feature = "cluster")]
mod replicas;
mod resuming_subscriber;
mod runtime_limits;
mod rust_client;
mod service_manager;
mod signals;
mod snapshots;
mod socket;
mod storms;
mod time;
mod tls;
mod tools;
mod tpu_client;
mod traces;
mod web_console;
mod web_pages;
mod world;
mod yellowstone_client;

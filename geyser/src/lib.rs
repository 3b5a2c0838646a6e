//! `hydrant-geyser`: Yellowstone gRPC out of a validator (Agave 4.2.2), as a Geyser plugin.
//!
//! In: the callbacks of the validator's threads. Out: the gRPC server of `hydrant` (crate `grpc`), inside the validator.
//! Shape: a callback copies what it gets (`replica`) into a bounded queue (`update_queue`); one thread puts the updates
//! into the order that clients rely on (`sequencer`) and gives them to the server's publisher as events of a ledger.
//! Bounds: `Config`: the queue, and the server's own. A full queue drops updates; then all clients are closed.
//! Invariant: no callback waits. A callback that panics ends nothing but the clients' streams.
//! Invariant: every thread has ended when `on_unload` returns, because the validator then unmaps the library.
//! Not here: transactions before execution, the accounts of a snapshot (docs/geyser.md).

mod chain_tips;
mod config;
mod counters;
mod metrics_server;
mod plugin;
mod plugin_metrics;
mod replica;
mod sequencer;
mod update_queue;

use agave_geyser_plugin_interface::geyser_plugin_interface::GeyserPlugin;

pub use crate::config::{Config, ConfigError};
pub use crate::plugin::HydrantGeyser;

/// Makes the plugin. The validator finds this function by its name, and frees what it returns with its own allocator:
/// a validator with jemalloc exports `malloc` to libraries, so both have the same one.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "the validator finds the function by its name")]
#[expect(improper_ctypes_definitions, reason = "the interface is this type")]
pub extern "C" fn _create_plugin() -> *mut dyn GeyserPlugin {
    Box::into_raw(Box::<HydrantGeyser>::default())
}

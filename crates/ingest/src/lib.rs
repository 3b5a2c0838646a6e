//! Appends the blocks of a ledger to a replicated log, alone or as one of several ingesters of a chain.
//!
//! Input: the ledger's events ([`IngestSink`]) and the records of the log. Output: appended records: each block of the
//! chain once, after its parent; marks once, after their block; roots in order.
//! Shape: the sink queues events and returns at once. A thread encodes blocks (`encoder`). A task runs the plan
//! (`plan`), which has no I/O and no clock: it takes events and messages, and returns operations on the log.
//! Invariant: the fence of the log decides who appends, so any number of ingesters may believe to lead.
//! Bounds: [`IngestConfig::queue_bytes_max`] for events that are not encoded, and again for encoded blocks. A log that
//! is down costs no more: above the bound old blocks are dropped, and a new epoch is opened once the log is back.
//! Not here: the log (`log`), its records (`chain_solana::wire`), snapshots (`cluster_snapshot`), readers (`replica`).
#![forbid(unsafe_code)]

mod batch;
mod catch_up;
mod config;
mod driver;
mod encoder;
mod epoch_snapshot;
mod ingest;
mod log_chain;
#[cfg(test)]
mod model;
mod own_chain;
mod plan;
mod record_stream;
mod sink;
mod status;

pub use config::{ChainFacts, IngestConfig, IngestError, check_durability};
pub use ingest::Ingest;
pub use plan::unlogged_block_digest;
pub use sink::IngestSink;

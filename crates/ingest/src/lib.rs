//! Appends the blocks of a ledger to a replicated log, alone or as one of several ingesters of a chain.
//!
//! Input: the ledger's events ([`IngestSink`]) and the records of the log. Output: appended records: each block of the
//! chain once, after its parent; marks once, after their block; roots in order.
//! Shape: the sink queues events and returns at once. A thread encodes blocks (`encoder`). A task runs the plan
//! (`plan`), which has no I/O and no clock: it takes events and messages, and returns operations on the log.
//! The leader also removes old generations, checks the faults that replicas report, and writes a snapshot if no replica
//! does, or if readers need one behind a damage (`upkeep`).
//! Invariant: the fence of the log decides which ingester appends, so any number may believe that they lead.
//! Bounds: [`IngestConfig::queue_bytes_max`] for events that are not encoded, and again for encoded blocks. A log that
//! is down costs no more: above the bound old blocks are dropped, and a new generation is opened once the log is back.
//! Not here: the log (`replicated_log`), its records (`chain_solana::wire`), the format of snapshots
//! (`cluster_snapshot`), readers (`replica`).
#![forbid(unsafe_code)]

mod batch;
mod config;
mod driver;
mod encoder;
mod fill_batch;
mod ingest;
mod ledger_snapshots;
mod log_chain;
#[cfg(test)]
mod model;
mod notices;
mod old_generations;
mod own_chain;
mod plan;
mod record_stream;
mod report_search;
mod round_pace;
mod scan;
mod sink;
mod snapshot_pace;
mod status;
mod time_limit;
mod upkeep;

pub use config::{ChainFacts, IngestConfig, IngestError, check_durability};
pub use ingest::Ingest;
pub use sink::IngestSink;

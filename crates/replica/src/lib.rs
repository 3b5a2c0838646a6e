//! A ledger that is fed by a replicated log: from a snapshot in an object store and the records of the log to a state
//! that servers read.
//!
//! Shape: [`Replica::load`] loads the newest snapshot from which the log can be read on. [`Replica::start`] runs two
//! threads. One reads the log, decodes its records and checks their chain (`log_follower`). The other one is the
//! ledger's one writer (`writer`). It writes accounts through `query` and blocks through `chain_solana`, with
//! [`follow::bank`].
//! Invariant: a block is shown only after the lattice sum over all accounts and its bank hash were computed from its
//! writes, and are those of its record. docs/design/ledgers.md, section 5, lists the promises of a producer.
//! [`LoggedBlocks`] reads final blocks from a log without a ledger, for an archive that lacks them.
//! Behaviour on damage: each kind of it has a name ([`Fault`]). The replica is not ready, shows nothing of the damaged
//! record, and jumps to a newer snapshot in the running ledger. Until then it serves the state that it has, and after
//! some time without such a snapshot it reports the fault to the ingesters ([`cluster_snapshot::fault_reports`]).
//! Bounds: [`ReplicaConfig`], without the largest block: a record is unpacked and decoded as a whole, so that a block
//! of 100 MB takes 300 MB for a moment. Its sections are at most 512 MiB.
//! Not here: the log (`replicated_log`), its records (`chain_solana::wire`), the format of snapshots
//! (`cluster_snapshot`), sockets of servers, flags (`hydrant`).
#![forbid(unsafe_code)]

mod clock;
mod config;
mod error;
mod fault;
mod fault_kind;
mod first_record;
mod generation_spans;
mod input_queue;
mod known_blocks;
mod log_follower;
mod log_position;
mod logged_blocks;
mod newest_generations;
mod proof;
mod replica;
mod snapshot_bank;
mod snapshot_cache;
mod snapshot_task;
mod snapshots;
mod span_reader;
mod status;
mod stuck_time;
mod unrooted_blocks;
mod writer;

pub use config::ReplicaConfig;
pub use error::ReplicaError;
pub use fault::Fault;
pub use fault_kind::FaultKind;
pub use logged_blocks::LoggedBlocks;
pub use newest_generations::find_newest_generation;
pub use proof::{BankWord, ReplicaProof};
pub use replica::{Replica, ReplicaHandle};
pub use status::{ReplicaState, ReplicaStatus};

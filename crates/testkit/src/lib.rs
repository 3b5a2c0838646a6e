//! What tests of several crates share: seeded random steps, a fork injector, and a plain model that
//! says what a forked ledger must answer; a synthetic Solana ledger of mainnet's shape; and snapshot
//! archives, made and read the plain way.
//!
//! Shape: a [`ForkInjector`] chooses steps, a [`ForkHarness`] does them to a real `query::Ledger`
//! and to a [`Model`] of plain maps at once, and compares the two.
//! Bounds: the run's length and the injector's limits. The same seed gives the same steps.
//! A whole node under clients, as a child process, is in [`scenario`] (feature `scenario`).
//! Not here: real clients' flows (`clients/`), the ledger that executes (`localnet`).
#![forbid(unsafe_code)]

pub mod archive;
mod fork_harness;
mod fork_injector;
mod model;
#[cfg(feature = "scenario")]
pub mod scenario;
pub mod synthetic;
mod test_record;

pub use fork_harness::{ForkHarness, PinnedView};
pub use fork_injector::{ForkEvent, ForkInjector};
pub use model::{BlockMeta, Model};
pub use test_record::{TestRecord, TestRecordGenerator};

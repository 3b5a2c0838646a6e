//! Executes Solana transactions on accounts in memory: a VM, its working set, and simulation.
//!
//! Shape: a [`WorkingSet`] loads the accounts that a transaction names from an [`AccountSource`] and runs it on its
//! [`Vm`]. The [`ExecutionOutcome`] has the changes; the caller writes them back. A [`SimulationPool`] does the same
//! for a reader's view and writes nothing. [`sysvars`] and [`nonce`] are the parts of a block that are not
//! transactions, and [`status_meta`] is the record of an execution.
//! Bounds: the accounts and programs of a working set are bounded (`working_set`).
//! Not here: the transactions of a block, their order, and the rules of blocks (`localnet`).
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::Arc;
//!
//! use solana::Account;
//! use solana_feature_set::FeatureSet;
//! use solana_pubkey::Pubkey;
//! use svm::{AccountSource, Vm, WorkingSet};
//!
//! struct Accounts(HashMap<Pubkey, Arc<Account>>);
//!
//! impl AccountSource for Accounts {
//!     fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
//!         self.0.get(key).cloned()
//!     }
//! }
//!
//! // The accounts of builtin programs and sysvars, as a new ledger has them.
//! let features = FeatureSet::all_enabled();
//! let vm = Vm::new(features.clone());
//! let accounts = vm.accounts().map(|(key, account)| (*key, Arc::new(Account(account.clone()))));
//! let set = WorkingSet::new(&Accounts(accounts.collect()), features);
//! assert_eq!(set.vm().slot(), vm.slot());
//! ```

mod clock_cache;
pub mod features;
mod loading;
pub mod nonce;
mod precompiles;
mod program_account;
mod runtime_limits;
mod signature_fee;
mod simulation_pool;
pub mod status_meta;
pub mod sysvars;
mod vm;
mod working_set;

pub use runtime_limits::RuntimeLimits;
pub use signature_fee::LAMPORTS_PER_SIGNATURE;
pub use simulation_pool::{SimulatedBlock, SimulationPool};
pub use vm::{AccountKeys, ExecutionOutcome, ReadyTransaction, Vm, is_same};
pub use working_set::{AccountSource, CODE_BYTES_MAX, CodeUsage, Overlay, WorkingSet};

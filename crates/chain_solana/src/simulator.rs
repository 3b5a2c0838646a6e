//! Running a transaction without applying its effects: the request, its result, and its errors.

use ledger::Slot;
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_message::v0::LoadedAddresses;
use solana_pubkey::Pubkey;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_context::transaction::TransactionReturnData;
use solana_transaction_error::TransactionError;
use solana_transaction_status::{InnerInstructions, TransactionTokenBalance};

use crate::{View, WrittenAccounts};

/// A request to run a transaction without applying its effects.
#[derive(Clone, Debug)]
pub struct SimulationRequest {
    /// The transaction. Its signatures are not checked.
    pub transaction: VersionedTransaction,
    /// Whether to run it with the newest blockhash.
    pub replace_recent_blockhash: bool,
    /// Whether to return inner instructions.
    pub inner_instructions: bool,
}

/// The effects that a transaction would have.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The slot of the state it ran on.
    pub slot: Slot,
    /// The error, if the transaction failed.
    pub err: Option<TransactionError>,
    /// The log lines of the programs.
    pub logs: Vec<String>,
    /// Compute units that the transaction consumed.
    pub units_consumed: u64,
    /// The return data of the last program that set some.
    pub return_data: Option<TransactionReturnData>,
    /// Inner instructions, if requested.
    pub inner_instructions: Option<Vec<InnerInstructions>>,
    /// All accounts of the transaction afterwards, in the order of its keys; unchanged if it failed.
    pub post_accounts: Vec<(Pubkey, AccountSharedData)>,
    /// The fee of the transaction in lamports.
    pub fee: u64,
    /// Lamports of each key before the transaction.
    pub pre_balances: Vec<u64>,
    /// Lamports of each key after the transaction.
    pub post_balances: Vec<u64>,
    /// Token balances before the transaction.
    pub pre_token_balances: Vec<TransactionTokenBalance>,
    /// Token balances after the transaction.
    pub post_token_balances: Vec<TransactionTokenBalance>,
    /// Addresses that were loaded from lookup tables.
    pub loaded_addresses: LoadedAddresses,
    /// Bytes of all loaded accounts.
    pub loaded_accounts_data_size: u32,
    /// The replacement blockhash and its last valid block height. `None` if it was not replaced.
    pub replacement_blockhash: Option<(Hash, u64)>,
}

/// Why a transaction could not be simulated at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The transaction contradicts itself or its lookup tables.
    #[error("invalid transaction: {0}")]
    Sanitize(String),
    /// The VM panicked. That is a bug of this program, and ends only this request.
    #[error("the VM panicked while running this transaction")]
    Panicked,
}

/// Runs transactions on a reader's view. It changes nothing.
pub trait Simulator: Send + Sync + 'static {
    /// Runs a transaction on the state of `view`, on the calling thread. This is expensive: call it on the CPU pool.
    fn simulate(
        &self,
        view: &View,
        request: SimulationRequest,
    ) -> Result<Simulation, SimulationError> {
        self.simulate_after(view, &WrittenAccounts::default(), request)
    }

    /// Runs a transaction like [`Self::simulate`], after other transactions that wrote `written`.
    fn simulate_after(
        &self,
        view: &View,
        written: &WrittenAccounts,
        request: SimulationRequest,
    ) -> Result<Simulation, SimulationError>;
}

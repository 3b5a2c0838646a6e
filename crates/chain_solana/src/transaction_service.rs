//! The interface for transactions: what a ledger accepts, and why it refuses.

use ledger::Slot;
use pool::ClientId;
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_message::VersionedMessage;
use solana_message::v0::LoadedAddresses;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_context::transaction::TransactionReturnData;
use solana_transaction_error::TransactionError;
use solana_transaction_status::{InnerInstructions, TransactionTokenBalance};

use crate::{View, signatures};

/// A well-formed transaction with valid signatures: a ledger accepts no other. The verification is
/// expensive (about 50 us a signature) and belongs on the CPU pool.
#[derive(Clone, Debug)]
pub struct VerifiedTransaction {
    transaction: VersionedTransaction,
    message_hash: Hash,
    message_bytes: usize,
}

/// Why a transaction is refused before execution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// It contradicts itself: counts, indices, duplicate accounts.
    #[error("invalid transaction: {0}")]
    Sanitize(String),
    /// A signature is not valid for its key and message.
    #[error("Transaction signature verification failure")]
    Signature,
}

impl VerifiedTransaction {
    /// Checks shape and signatures.
    pub fn verify(transaction: VersionedTransaction) -> Result<Self, VerifyError> {
        transaction.sanitize().map_err(|err| VerifyError::Sanitize(err.to_string()))?;
        let message = transaction.message.serialize();
        if !signatures::verify(&transaction, &message) {
            return Err(VerifyError::Signature);
        }
        let message_hash = VersionedMessage::hash_raw_message(&message);
        Ok(Self { transaction, message_hash, message_bytes: message.len() })
    }

    /// The transaction.
    pub fn transaction(&self) -> &VersionedTransaction {
        &self.transaction
    }

    /// The hash of its message. It identifies duplicates whatever their signatures.
    pub fn message_hash(&self) -> Hash {
        self.message_hash
    }

    /// The transaction, to be executed.
    pub fn into_transaction(self) -> VersionedTransaction {
        self.transaction
    }

    /// The first signature, which identifies it.
    pub fn signature(&self) -> Signature {
        self.transaction.signatures.first().copied().unwrap_or_default()
    }

    /// The key that pays its fee: the first one.
    pub fn fee_payer(&self) -> Pubkey {
        self.transaction.message.static_account_keys().first().copied().unwrap_or_default()
    }

    /// Estimated bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.message_bytes + self.transaction.signatures.len() * SIGNATURE_BYTES
    }
}

/// Bytes of a signature.
const SIGNATURE_BYTES: usize = 64;

/// The client that sent a transaction: the ledger shares its queue among clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The client.
    pub client: ClientId,
    /// Its weight: it gets this many times the share of a client of weight 1.
    pub weight: u32,
}

impl From<ClientId> for Sender {
    /// A client of weight 1.
    fn from(client: ClientId) -> Self {
        Self { client, weight: 1 }
    }
}

/// A bound of the transaction queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueBound {
    /// Transactions of all clients.
    Transactions,
    /// Compute units that all transactions request.
    ComputeUnits,
    /// Transactions of one client: as many as are left.
    ClientTransactions,
    /// Compute units that the transactions of one client request: as many as are left.
    ClientComputeUnits,
    /// Transactions of one fee payer of one client.
    PayerTransactions,
    /// Compute units that the transactions of one fee payer of one client request.
    PayerComputeUnits,
}

impl QueueBound {
    /// Every bound, in the order of the variants.
    pub const ALL: [Self; 6] = [
        Self::Transactions,
        Self::ComputeUnits,
        Self::ClientTransactions,
        Self::ClientComputeUnits,
        Self::PayerTransactions,
        Self::PayerComputeUnits,
    ];

    /// Name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Transactions => "transactions",
            Self::ComputeUnits => "compute_units",
            Self::ClientTransactions => "client_transactions",
            Self::ClientComputeUnits => "client_compute_units",
            Self::PayerTransactions => "payer_transactions",
            Self::PayerComputeUnits => "payer_compute_units",
        }
    }

    /// Whether it is the bound of one client or fee payer. The queue still accepts transactions of
    /// others.
    pub fn is_share(self) -> bool {
        !matches!(self, Self::Transactions | Self::ComputeUnits)
    }

    fn quantity(self) -> &'static str {
        match self {
            Self::Transactions => "waiting",
            Self::ComputeUnits => "compute units waiting",
            Self::ClientTransactions => "of this client waiting",
            Self::ClientComputeUnits => "compute units of this client waiting",
            Self::PayerTransactions => "of this fee payer waiting",
            Self::PayerComputeUnits => "compute units of this fee payer waiting",
        }
    }

    fn knob(self) -> &'static str {
        match self {
            Self::Transactions | Self::ClientTransactions | Self::PayerTransactions => {
                "--queue-max"
            }
            Self::ComputeUnits | Self::ClientComputeUnits | Self::PayerComputeUnits => {
                "--queue-compute-units-max"
            }
        }
    }
}

/// Why a transaction was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The queue, or the client's share of it, is full. Fix: send again later.
    #[error(
        "transaction queue is full: {queued} {}, at most {limit} ({})",
        .bound.quantity(),
        .bound.knob()
    )]
    QueueFull {
        /// Which bound was reached.
        bound: QueueBound,
        /// The amount that is queued.
        queued: u64,
        /// The limit.
        limit: u64,
    },
    /// The node is shutting down.
    #[error("the ledger is shutting down")]
    Closed,
}

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

/// The result of a simulation.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The slot of the state it ran on.
    pub slot: Slot,
    /// Why it failed, if it did.
    pub err: Option<TransactionError>,
    /// What the programs logged.
    pub logs: Vec<String>,
    /// Compute units.
    pub units_consumed: u64,
    /// What the last program returned.
    pub return_data: Option<TransactionReturnData>,
    /// Inner instructions, if requested.
    pub inner_instructions: Option<Vec<InnerInstructions>>,
    /// All accounts of the transaction afterwards, in the order of its keys; unchanged if it
    /// failed.
    pub post_accounts: Vec<(Pubkey, AccountSharedData)>,
    /// Fee in lamports.
    pub fee: u64,
    /// Lamports of each key before.
    pub pre_balances: Vec<u64>,
    /// Lamports of each key after.
    pub post_balances: Vec<u64>,
    /// Token balances before.
    pub pre_token_balances: Vec<TransactionTokenBalance>,
    /// Token balances after.
    pub post_token_balances: Vec<TransactionTokenBalance>,
    /// Addresses from lookup tables.
    pub loaded_addresses: LoadedAddresses,
    /// Bytes of all loaded accounts.
    pub loaded_accounts_data_size: u32,
    /// The replacement blockhash and its last valid block height, if it was replaced.
    pub replacement_blockhash: Option<(Hash, u64)>,
}

/// Why a transaction could not be simulated at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// It contradicts itself or its lookup tables.
    #[error("invalid transaction: {0}")]
    Sanitize(String),
    /// The VM panicked. That is a bug of ours, and ends only this request.
    #[error("the VM panicked while running this transaction")]
    Panicked,
}

/// Why an airdrop was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AirdropError {
    /// More than the faucet's limit.
    #[error(
        "airdrop of {lamports} lamports exceeds the limit of {limit} (--faucet-per-request-sol-cap)"
    )]
    TooMuch {
        /// The requested lamports.
        lamports: u64,
        /// The limit.
        limit: u64,
    },
    /// The faucet's balance is too low. Fix: start with a higher `--faucet-sol`.
    #[error("the faucet holds {balance} lamports, {lamports} were requested (--faucet-sol)")]
    FaucetEmpty {
        /// The requested lamports.
        lamports: u64,
        /// The faucet's balance.
        balance: u64,
    },
    /// The transfer was not accepted.
    #[error(transparent)]
    Send(#[from] SendError),
}

/// Sends transactions to a ledger. Never blocks on the executing thread.
pub trait TransactionService: Send + Sync + 'static {
    /// Queues a transaction for execution. Transactions of one client and fee payer are executed in
    /// the order of arrival. Clients, and the fee payers of a client, are served round-robin.
    fn send(&self, sender: Sender, transaction: VerifiedTransaction) -> Result<(), SendError>;

    /// Runs a transaction on the state of `view`, on the calling thread. This is expensive: call it
    /// on the CPU pool.
    fn simulate(
        &self,
        view: &View,
        request: SimulationRequest,
    ) -> Result<Simulation, SimulationError>;

    /// Queues a transfer from the faucet with `blockhash`. Returns its signature. It is executed
    /// before transactions that `sender` sends later with `to` as their fee payer.
    fn airdrop(
        &self,
        sender: Sender,
        to: Pubkey,
        lamports: u64,
        blockhash: Hash,
    ) -> Result<Signature, AirdropError>;
}

//! The door for transactions: what a ledger accepts, and how it says no.

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

/// A transaction that is well-formed and whose signatures are right: the only kind that a ledger
/// takes. Making one is the expensive part (about 50 us a signature) and belongs on the CPU pool.
#[derive(Clone, Debug)]
pub struct VerifiedTransaction {
    transaction: VersionedTransaction,
    message_hash: Hash,
    message_bytes: usize,
}

/// Why a transaction is not even tried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// It contradicts itself: counts, indices, duplicate accounts.
    #[error("invalid transaction: {0}")]
    Sanitize(String),
    /// A signature is not of its key over this message.
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

    /// The hash of its message, by which a repetition is known whatever its signatures.
    pub fn message_hash(&self) -> Hash {
        self.message_hash
    }

    /// The transaction, to be executed.
    pub fn into_transaction(self) -> VersionedTransaction {
        self.transaction
    }

    /// The signature that names it.
    pub fn signature(&self) -> Signature {
        self.transaction.signatures.first().copied().unwrap_or_default()
    }

    /// The key that pays its fee: the first one.
    pub fn fee_payer(&self) -> Pubkey {
        self.transaction.message.static_account_keys().first().copied().unwrap_or_default()
    }

    /// About how many bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.message_bytes + self.transaction.signatures.len() * SIGNATURE_BYTES
    }
}

/// Bytes of a signature.
const SIGNATURE_BYTES: usize = 64;

/// The client that a transaction came from: the ledger shares its queue among clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Which client.
    pub client: ClientId,
    /// How many times the share of a client of weight 1 it gets.
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
    /// Compute units that all of them ask for.
    ComputeUnits,
    /// Transactions of one client: as many as are left.
    ClientTransactions,
    /// Compute units that those of one client ask for: as many as are left.
    ClientComputeUnits,
    /// Transactions of one fee payer of one client.
    PayerTransactions,
    /// Compute units that those of one fee payer of one client ask for.
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

    /// As metrics name it.
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

    /// Whether it is the bound of one client or fee payer, while the queue has room for others.
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

/// Why a transaction was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The ledger executes as fast as it can, and the queue, or the client's share of it, is full. Fix: send again
    /// later.
    #[error(
        "transaction queue is full: {queued} {}, at most {limit} ({})",
        .bound.quantity(),
        .bound.knob()
    )]
    QueueFull {
        /// Which bound was reached.
        bound: QueueBound,
        /// How much waits of it.
        queued: u64,
        /// How much may.
        limit: u64,
    },
    /// The node is shutting down.
    #[error("the ledger is shutting down")]
    Closed,
}

/// A transaction to be run without keeping what it does.
#[derive(Clone, Debug)]
pub struct SimulationRequest {
    /// The transaction. Its signatures are not looked at.
    pub transaction: VersionedTransaction,
    /// Run it as if it named the newest blockhash.
    pub replace_recent_blockhash: bool,
    /// Whether the caller wants inner instructions told.
    pub inner_instructions: bool,
}

/// What a transaction would have done.
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
    /// Calls between programs, if they were asked for.
    pub inner_instructions: Option<Vec<InnerInstructions>>,
    /// Every account of the transaction as it would be, in the order of its keys; as it was before
    /// for a failed one.
    pub post_accounts: Vec<(Pubkey, AccountSharedData)>,
    /// Lamports that it would cost.
    pub fee: u64,
    /// Lamports of each key before.
    pub pre_balances: Vec<u64>,
    /// Lamports of each key after.
    pub post_balances: Vec<u64>,
    /// Token balances before.
    pub pre_token_balances: Vec<TransactionTokenBalance>,
    /// Token balances after.
    pub post_token_balances: Vec<TransactionTokenBalance>,
    /// What the lookup tables gave.
    pub loaded_addresses: LoadedAddresses,
    /// Bytes of all accounts that it loaded.
    pub loaded_accounts_data_size: u32,
    /// The blockhash it ran with and that hash's last valid block height, if it was replaced.
    pub replacement_blockhash: Option<(Hash, u64)>,
}

/// Why a transaction could not be simulated at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// It contradicts itself or its lookup tables.
    #[error("invalid transaction: {0}")]
    Sanitize(String),
    /// The VM gave up on it; that is our bug, and it ends this request only.
    #[error("the VM panicked while running this transaction")]
    Panicked,
}

/// Why there was no airdrop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AirdropError {
    /// More than the faucet gives at once.
    #[error(
        "airdrop of {lamports} lamports exceeds the limit of {limit} (--faucet-per-request-sol-cap)"
    )]
    TooMuch {
        /// What was asked.
        lamports: u64,
        /// What is given at most.
        limit: u64,
    },
    /// The faucet does not hold as much. Fix: start with a higher `--faucet-sol`.
    #[error("the faucet holds {balance} lamports, {lamports} were asked (--faucet-sol)")]
    FaucetEmpty {
        /// What was asked.
        lamports: u64,
        /// What is left.
        balance: u64,
    },
    /// The transfer was not taken.
    #[error(transparent)]
    Send(#[from] SendError),
}

/// A ledger's way in. Never blocks on the executing thread.
pub trait TransactionService: Send + Sync + 'static {
    /// Queues a transaction for execution. Those of one client and fee payer are executed in the order of arrival;
    /// clients, and the fee payers of a client, are served in a circle.
    fn send(&self, sender: Sender, transaction: VerifiedTransaction) -> Result<(), SendError>;

    /// Runs a transaction on the state of `view`, on the calling thread: heavy, so call it from the
    /// CPU pool.
    fn simulate(
        &self,
        view: &View,
        request: SimulationRequest,
    ) -> Result<Simulation, SimulationError>;

    /// Queues a transfer from the faucet, naming `blockhash`. Returns its signature. It is executed before what
    /// `sender` sends later with `to` as its fee payer.
    fn airdrop(
        &self,
        sender: Sender,
        to: Pubkey,
        lamports: u64,
        blockhash: Hash,
    ) -> Result<Signature, AirdropError>;
}

//! Sending a transaction to a ledger: the client that sends it, and the reasons of a refusal.

use clients::ClientId;

use crate::VerifiedTransaction;

/// The client that sent a transaction: the ledger shares its queue among clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The client that sent the transaction.
    pub client: ClientId,
    /// The weight of the client: it gets this many times the share of a client of weight 1.
    pub weight: u32,
}

impl From<ClientId> for Sender {
    /// Creates the sender of a client of weight 1.
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

    /// Returns the name of the bound in metrics.
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

    /// Whether the bound is that of one client or fee payer. The queue still accepts transactions of others.
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

    fn setting(self) -> &'static str {
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
        .bound.setting()
    )]
    QueueFull {
        /// The bound that was reached.
        bound: QueueBound,
        /// The queued amount, in the unit of the bound.
        queued: u64,
        /// The limit, in the unit of the bound.
        limit: u64,
    },
    /// Accounts of the transaction come from another cluster, and too many requests wait for them, in total or of this
    /// client. Fix: send again later.
    #[error("{waiting} requests wait for the upstream, at most {limit}, half of it for one client")]
    UpstreamBusy {
        /// Number of requests that wait.
        waiting: u64,
        /// Maximum number of requests that wait.
        limit: u64,
    },
    /// No node of the cluster has an address that can be dialled, and no upstream is set. Fix: set `--upstream`.
    #[error(
        "no leader can be reached: the source names no address of a validator that can be dialled \
         (--upstream forwards transactions, --advertised-ip sets the address of a node)"
    )]
    NoLeader,
    /// The node sends no transactions. Fix: set `--upstream`.
    #[error("transactions are not accepted: the node has no upstream to send them to (--upstream)")]
    NoUpstream,
    /// The node is shutting down.
    #[error("the ledger is shutting down")]
    Closed,
}

/// Accepts transactions for a ledger. Never blocks on the executing thread.
pub trait TransactionSender: Send + Sync + 'static {
    /// Queues a transaction for execution. Transactions of one client and fee payer are executed in the order of
    /// arrival. Clients, and the fee payers of a client, are served round-robin.
    fn send(&self, sender: Sender, transaction: VerifiedTransaction) -> Result<(), SendError>;
}

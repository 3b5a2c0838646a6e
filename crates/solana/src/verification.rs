//! Results of verifying the hash of a bank: the level that it reached, the stake that decided, or a mismatch.
//!
//! Not here: how banks are verified (`verify`), and how far a ledger is proven (`chain_solana`).

use std::sync::Arc;

use ledger::Slot;
use solana_hash::Hash;
use solana_pubkey::Pubkey;

/// How far the hash of a bank is proven, the weakest level first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VerificationLevel {
    /// This node computed the hash from the bank's writes and transactions. It was not compared with another one.
    Computed,
    /// A child on the same chain lists the hash. Shows that nothing was lost or altered on the way; a source that lies
    /// consistently is not detected.
    Sequence,
    /// As many independent sources as configured list the hash.
    Agreed,
    /// Validators with more than two thirds of the stake signed the hash, or that of a descendant.
    Voted,
}

impl VerificationLevel {
    /// All levels, the weakest first.
    pub const ALL: [Self; 4] = [Self::Computed, Self::Sequence, Self::Agreed, Self::Voted];

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Computed => "computed",
            Self::Sequence => "consistent",
            Self::Agreed => "agreed",
            Self::Voted => "voted",
        }
    }

    /// The word for a slot whose bank has the level. A chain that only agrees with itself is consistent: a source that
    /// lies consistently is not detected, so its slots are not called verified.
    pub fn slot_word(self) -> &'static str {
        match self {
            Self::Sequence => "consistent",
            Self::Computed | Self::Agreed | Self::Voted => "verified",
        }
    }
}

/// The stake that voted for a hash when its votes were enough. Later votes are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VotedStake {
    /// The slot that the votes are for: the bank's own, or that of a descendant.
    pub slot: Slot,
    /// Lamports of the voters.
    pub voted: u64,
    /// Lamports of all vote accounts of the epoch.
    pub total: u64,
}

/// Where a reported hash comes from that differs from the computed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashReporter {
    /// A child on the same chain.
    Child,
    /// As many independent sources as configured.
    Sources,
    /// Validators with more than two thirds of the stake.
    Votes,
    /// The bank's own transactions: the reported hash is the computed one, and [`BankMismatch::fault`] names the
    /// contradiction.
    Transactions,
}

impl HashReporter {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Child => "child",
            Self::Sources => "sources",
            Self::Votes => "votes",
            Self::Transactions => "transactions",
        }
    }
}

/// How far it is proven which transactions a bank executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransactionProof {
    /// The transactions were not checked.
    #[default]
    Unproven,
    /// All signatures are valid, and the bank hash covers their number. A source may still replace a transaction by
    /// another signed one, or reorder them.
    Counted,
    /// The entries lead from the parent's blockhash through exactly these signatures, in this order, to the blockhash,
    /// which the bank hash covers. All signatures are valid.
    Proven,
}

impl TransactionProof {
    /// All values, the weakest first.
    pub const ALL: [Self; 3] = [Self::Unproven, Self::Counted, Self::Proven];

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unproven => "unproven",
            Self::Counted => "counted",
            Self::Proven => "proven",
        }
    }
}

/// A check of a bank's transactions, the most telling one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransactionCheck {
    /// Each signature is valid for its key and message.
    Signature,
    /// The entries lead from the parent's blockhash to the bank's.
    Entries,
    /// The source has sent all entries of the bank.
    MissingEntries,
    /// The balances before and after a transaction agree with its fee, with the transactions around it and with the
    /// accounts of the bank.
    Balance,
    /// A successful transaction that only transfers lamports has changed the balances by them.
    Transfer,
    /// A failed transaction writes only its fee payer and its nonce.
    FailedWrite,
}

impl TransactionCheck {
    /// All checks, in their order.
    pub const ALL: [Self; 6] = [
        Self::Signature,
        Self::Entries,
        Self::MissingEntries,
        Self::Balance,
        Self::Transfer,
        Self::FailedWrite,
    ];

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Signature => "signature",
            Self::Entries => "entries",
            Self::MissingEntries => "missing_entries",
            Self::Balance => "balance",
            Self::Transfer => "transfer",
            Self::FailedWrite => "failed_write",
        }
    }
}

/// A contradiction that a check of a bank's transactions found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionFault {
    /// The check that failed.
    pub check: TransactionCheck,
    /// Index of the transaction in its block; that of the first one of an entry. `None` if it is not known.
    pub index: Option<u32>,
    /// The account whose state contradicts the transaction.
    pub account: Option<Pubkey>,
}

/// A bank whose computed hash differs from the reported one, or whose transactions contradict it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BankMismatch {
    /// Slot of the bank.
    pub slot: Slot,
    /// The hash computed from the bank's writes.
    pub computed: Hash,
    /// The reported hash.
    pub reported: Hash,
    /// Where the reported hash comes from.
    pub reporter: HashReporter,
    /// The first accounts that the bank wrote, sorted: the error is in one of them, or one is missing. The maker of the
    /// value limits their number.
    pub accounts_written: Arc<[Pubkey]>,
    /// Number of all accounts that the bank wrote.
    pub accounts_written_len: usize,
    /// The contradiction, if the reporter is [`HashReporter::Transactions`].
    pub fault: Option<TransactionFault>,
}

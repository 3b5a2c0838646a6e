//! The execution of a followed chain's transactions: which results are compared with the source's word, and the first
//! difference.
//!
//! Bounds: a summary has counters and one difference.
//! Not here: the execution and the comparison (`follow`).

use ledger::Slot;
use solana_pubkey::Pubkey;
use solana_signature::Signature;

/// A result of a transaction or a bank that an execution compares with the source's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultField {
    /// Whether a block may contain the transaction at all.
    Inclusion,
    /// Success, or the error.
    Status,
    /// The fee.
    Fee,
    /// Lamports of each account before and after.
    Balances,
    /// Addresses from lookup tables.
    LoadedAddresses,
    /// Compute units that were consumed.
    ComputeUnits,
    /// The log lines.
    Logs,
    /// Instructions that programs called.
    InnerInstructions,
    /// The return data.
    ReturnData,
    /// Token balances before and after.
    TokenBalances,
    /// Rewards of the transaction, which it never has.
    TransactionRewards,
    /// An account after the bank.
    Account,
    /// The time of the block.
    BlockTime,
    /// The height of the block.
    BlockHeight,
}

impl ResultField {
    /// All fields, in their order.
    pub const ALL: [Self; 14] = [
        Self::Inclusion,
        Self::Status,
        Self::Fee,
        Self::Balances,
        Self::LoadedAddresses,
        Self::ComputeUnits,
        Self::Logs,
        Self::InnerInstructions,
        Self::ReturnData,
        Self::TokenBalances,
        Self::TransactionRewards,
        Self::Account,
        Self::BlockTime,
        Self::BlockHeight,
    ];

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inclusion => "inclusion",
            Self::Status => "status",
            Self::Fee => "fee",
            Self::Balances => "balances",
            Self::LoadedAddresses => "loaded_addresses",
            Self::ComputeUnits => "compute_units",
            Self::Logs => "logs",
            Self::InnerInstructions => "inner_instructions",
            Self::ReturnData => "return_data",
            Self::TokenBalances => "token_balances",
            Self::TransactionRewards => "transaction_rewards",
            Self::Account => "account",
            Self::BlockTime => "block_time",
            Self::BlockHeight => "block_height",
        }
    }
}

/// A result of an execution that is not the one that the source reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutionDifference {
    /// The slot of the bank.
    pub slot: Slot,
    /// The field that differs.
    pub field: ResultField,
    /// Index of the transaction in its block. `None` if the field is the bank's.
    pub index: Option<u32>,
    /// The first signature of the transaction.
    pub signature: Option<Signature>,
    /// The account that differs, if the field is [`ResultField::Account`].
    pub account: Option<Pubkey>,
}

/// The execution of a followed chain so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutionSummary {
    /// Transactions that are executed in a second, at most in the long run. `None` for all transactions.
    pub transactions_per_s: Option<u64>,
    /// Number of banks that were executed to the last transaction, with the results that the source reported.
    pub equal_banks: u64,
    /// Number of banks with a result that differs.
    pub differing_banks: u64,
    /// Number of banks with equal results, except for some transactions that were not executed.
    pub partial_banks: u64,
    /// Number of banks that were not executed.
    pub skipped_banks: u64,
    /// Number of transactions whose results were compared.
    pub executed_transactions: u64,
    /// Number of transactions of executed banks that were not executed.
    pub skipped_transactions: u64,
    /// The first difference.
    pub first_difference: Option<ExecutionDifference>,
    /// Why the newest transaction that was not executed could not be, as a sentence.
    pub last_skip: Option<String>,
}

//! Why a block of the source is refused.

use kaspa::{Hash, Outpoint, TotalsError};

/// Why a block of the source is refused: it contradicts itself, its parent, or the UTXO set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The header does not have the hash that the source has for it.
    #[error("the header has the hash {computed}")]
    WrongHash {
        /// The hash of the header.
        computed: Hash,
    },
    /// The first parent is not the chain block before.
    #[error("the first parent is {parent:?}, not the chain block {expected}")]
    WrongParent {
        /// The first parent, if the header has one.
        parent: Option<Hash>,
        /// The chain block before.
        expected: Hash,
    },
    /// The DAA score does not exceed that of the chain block before.
    #[error("the DAA score is {daa_score}, not above {parent}, that of the chain block before")]
    DaaScoreNotIncreasing {
        /// The score of the block.
        daa_score: u64,
        /// The score of the chain block before.
        parent: u64,
    },
    /// The blue score does not exceed that of the chain block before.
    #[error("the blue score is {blue_score}, not above {parent}, that of the chain block before")]
    BlueScoreNotIncreasing {
        /// The score of the block.
        blue_score: u64,
        /// The score of the chain block before.
        parent: u64,
    },
    /// A score is further above that of the chain block before than one block can raise it.
    #[error("the {name} score is {score}, too far above {parent}, that of the chain block before")]
    ScoreTooHigh {
        /// Which score: `DAA` or `blue`.
        name: &'static str,
        /// The score of the refused block.
        score: u64,
        /// The score of the chain block before.
        parent: u64,
    },
    /// A transaction does not have the id that the source has for it.
    #[error("the transaction {claimed} has the id {computed}")]
    WrongTransactionId {
        /// The id of the source.
        claimed: Hash,
        /// The id of the transaction.
        computed: Hash,
    },
    /// The source does not have one spent output for each input.
    #[error("the transaction {transaction} has {inputs} inputs and {entries} spent outputs")]
    WrongEntryCount {
        /// The id of the transaction.
        transaction: Hash,
        /// The number of inputs.
        inputs: usize,
        /// The number of spent outputs.
        entries: usize,
    },
    /// A change of the UTXO set is impossible.
    #[error(transparent)]
    Utxo(#[from] UtxoError),
    /// The UTXO set after the block is not the one to which the header commits.
    #[error("the UTXO set has the hash {computed}, and the header commits to {committed}")]
    WrongCommitment {
        /// The computed hash of the UTXO set.
        computed: Hash,
        /// The commitment of the header.
        committed: Hash,
    },
}

/// Why a UTXO is neither added to the set nor removed from it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UtxoError {
    /// The set does not have the UTXO: it never existed, or it was spent before.
    #[error("the output {} of {} is not in the UTXO set", .outpoint.index, .outpoint.transaction_id)]
    Missing {
        /// The transaction and the index of the output.
        outpoint: Outpoint,
    },
    /// The set has the output with another amount, DAA score, covenant, or origin.
    #[error(
        "the output {} of {} is different in the UTXO set",
        .outpoint.index,
        .outpoint.transaction_id
    )]
    Different {
        /// The transaction and the index of the output.
        outpoint: Outpoint,
    },
    /// The set has the output already.
    #[error(
        "the output {} of {} is in the UTXO set already",
        .outpoint.index,
        .outpoint.transaction_id
    )]
    Doubled {
        /// The transaction and the index of the output.
        outpoint: Outpoint,
    },
    /// The amount does not fit into the totals of its script.
    #[error(transparent)]
    Totals(#[from] TotalsError),
    /// The amount does not fit into the sum of all amounts.
    #[error("{sompi} sompi do not fit into the sum of all amounts")]
    Supply {
        /// The amount in sompi.
        sompi: u64,
    },
}

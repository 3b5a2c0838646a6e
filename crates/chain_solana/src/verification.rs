//! The proof of a ledger: the facts that every ledger reports about the hashes of its banks.
//!
//! A ledger that makes its blocks has computed their hashes ([`ComputedVerification`]). A follower compares the hashes
//! that it computed with the reported ones, and each bank has the level that it reached.
//! Bounds: a call returns copies of small values and of at most [`MISMATCH_ACCOUNTS_MAX`] addresses. It does not block.
//! Not here: the verification of banks (`verify`), the levels and mismatches themselves (`solana`).

use std::sync::Arc;

use ledger::{BlockId, Commitment, Slot};
use solana::{BankMismatch, TransactionProof, VerificationLevel, VotedStake};
use solana_hash::Hash;

use crate::{ExecutionSummary, History, Reader};

/// Maximum number of accounts that the [`BankMismatch`] of a [`VerificationSummary`] lists.
pub const MISMATCH_ACCOUNTS_MAX: usize = 64;

/// The proof of one bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankProof {
    /// The highest level that the bank reached.
    pub level: VerificationLevel,
    /// The deciding stake, if the level is [`VerificationLevel::Voted`] and this node has counted the votes.
    pub votes: Option<VotedStake>,
}

/// What is known of the content of a bank besides its hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BankContent {
    /// How far the set of transactions and their order are proven.
    pub transactions: TransactionProof,
    /// The origin of their statuses, logs, balances and rewards.
    pub results: ResultOrigin,
}

/// The origin of what a block says of its transactions besides their signed content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultOrigin {
    /// A source sent it, and nothing was compared.
    #[default]
    Source,
    /// A source sent it. Balances and statuses do not contradict the accounts of the bank; logs and rewards were not
    /// compared.
    Compared,
    /// This node executed the transactions. On a followed chain the source reported the same results, and rewards of
    /// the block are its word.
    Executed,
}

impl ResultOrigin {
    /// All origins, in their order.
    pub const ALL: [Self; 3] = [Self::Source, Self::Compared, Self::Executed];
}

/// An independent source, and whether it agrees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgreementSource {
    /// Scheme, host and port of the source. The rest of its URL may be a secret.
    pub url: String,
    /// Whether the stream of the source is open.
    pub is_connected: bool,
    /// The newest slot with a hash from the source.
    pub newest_slot: Option<Slot>,
    /// Number of slots at which the source lists another hash than this node.
    pub disagreements: u64,
    /// The first disagreement: the slot, and the hash that the source lists.
    pub first_disagreement: Option<(Slot, Hash)>,
}

/// The verification of a ledger as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerificationSummary {
    /// The level that a bank needs before it is shown as confirmed. `None` if banks are not verified.
    pub required: Option<VerificationLevel>,
    /// The newest slot whose bank has that level. `None` before the first one.
    pub verified_slot: Option<Slot>,
    /// Number of banks with another hash than the reported one, after a repair if there was one.
    pub mismatched_banks: u64,
    /// Number of banks that were requested again because their hash was not the reported one.
    pub repairs: u64,
    /// The first bank that had another hash than the reported one.
    pub first_mismatch: Option<BankMismatch>,
    /// The independent sources that are compared.
    pub sources: Vec<AgreementSource>,
    /// Why no newer bank can have the level, as a sentence. `None` if nothing prevents it.
    pub limitation: Option<String>,
    /// The start of the proof, and whose word it is, as a sentence. `None` if banks are not verified, or are made here.
    pub trust_root: Option<String>,
    /// The execution of a followed chain's transactions. `None` if they are not executed.
    pub execution: Option<ExecutionSummary>,
}

/// Reports the verification of a ledger.
pub trait Verification: Send + Sync {
    /// Returns the verification of the ledger as a whole.
    fn summary(&self) -> VerificationSummary;

    /// Returns the newest slot whose bank has the required level. `None` before the first one, or if banks are not
    /// verified.
    fn verified_slot(&self) -> Option<Slot> {
        self.summary().verified_slot
    }

    /// Returns the level that a bank needs before it is shown as confirmed. `None` if banks are not verified.
    fn required_level(&self) -> Option<VerificationLevel> {
        self.summary().required
    }

    /// Returns the proof of a bank; `None` if its hash is not known, or no longer retained.
    fn proof(&self, bank: BlockId) -> Option<BankProof>;

    /// Returns what is known of the content of a bank. Default: nothing is.
    fn content(&self, _bank: BlockId) -> BankContent {
        BankContent::default()
    }
}

/// The verification of a ledger that makes its own blocks: their hashes are computed when they are complete.
pub struct ComputedVerification {
    reader: Reader,
    history: Arc<History>,
}

impl ComputedVerification {
    /// Creates the verification of the ledger with this state and history.
    pub fn new(reader: Reader, history: Arc<History>) -> Self {
        Self { reader, history }
    }
}

impl Verification for ComputedVerification {
    fn summary(&self) -> VerificationSummary {
        VerificationSummary {
            required: Some(VerificationLevel::Computed),
            verified_slot: self.verified_slot(),
            ..VerificationSummary::default()
        }
    }

    fn verified_slot(&self) -> Option<Slot> {
        let (_, block) = self.reader.version_and_block(Commitment::Confirmed);
        Some(block.slot)
    }

    fn required_level(&self) -> Option<VerificationLevel> {
        Some(VerificationLevel::Computed)
    }

    fn proof(&self, bank: BlockId) -> Option<BankProof> {
        let history = self.history.snapshot();
        let block = history.block(bank.slot, Commitment::Processed);
        let is_computed = block.is_some_and(|block| block.id == bank && block.has_bank_hash());
        is_computed.then_some(BankProof { level: VerificationLevel::Computed, votes: None })
    }

    fn content(&self, _bank: BlockId) -> BankContent {
        let results = ResultOrigin::Executed;
        BankContent { transactions: TransactionProof::Proven, results }
    }
}

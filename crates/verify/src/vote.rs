//! The vote in a transaction, before and after its signatures are verified.
//!
//! Cost: some microseconds to parse one, and about 50 us to verify a signature, so that belongs on a thread of its own.
//! Bounds: [`SIGNATURES_MAX`], [`KEYS_MAX`] and [`DATA_BYTES_MAX`]. A longer transaction is not a vote.

use ledger::Slot;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_transaction::versioned::VersionedTransaction;
use solana_vote::vote_parser::parse_vote_transaction;

/// Signatures of a vote: those of the fee payer and of the voter.
const SIGNATURES_MAX: usize = 4;
/// Addresses in a vote. Older votes name two sysvars.
const KEYS_MAX: usize = 16;
/// Bytes of the instructions of a vote: those of a packet.
const DATA_BYTES_MAX: usize = 1_232;

/// What a transaction votes for, if its signatures are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnverifiedVote {
    vote_account: Pubkey,
    slot: Slot,
    slots: Vec<Slot>,
    hash: Hash,
    timestamp: Option<i64>,
    signers: Vec<Pubkey>,
}

/// A vote whose signatures are valid. Whether a signer may vote for the account depends on the epoch's stakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedVote(UnverifiedVote);

/// The reason why a transaction is not a signed vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VoteError {
    /// The first instruction is not a vote for a slot.
    #[error("the transaction is no vote")]
    NoVote,
    /// It is malformed, or a signature is not valid for its key and message.
    #[error("the vote has no valid signatures")]
    Signature,
}

impl UnverifiedVote {
    /// Reads the vote of a transaction.
    pub fn parse(transaction: &VersionedTransaction) -> Result<Self, VoteError> {
        let message = &transaction.message;
        let keys = message.static_account_keys();
        let data_bytes: usize = message.instructions().iter().map(|it| it.data.len()).sum();
        if transaction.signatures.len() > SIGNATURES_MAX
            || keys.len() > KEYS_MAX
            || message.instructions().len() > KEYS_MAX
            || data_bytes > DATA_BYTES_MAX
        {
            return Err(VoteError::NoVote);
        }
        let required = usize::from(message.header().num_required_signatures);
        let signers = keys.iter().take(required).copied().collect();
        let legacy = transaction.clone().into_legacy_transaction().ok_or(VoteError::NoVote)?;
        let (vote_account, vote, ..) = parse_vote_transaction(&legacy).ok_or(VoteError::NoVote)?;
        let slot = vote.last_voted_slot().ok_or(VoteError::NoVote)?;
        let slots = vote.slots();
        let hash = vote.hash();
        let timestamp = vote.timestamp();
        Ok(Self { vote_account, slot, slots, hash, timestamp, signers })
    }

    /// Verifies the signatures of the transaction that it was read from.
    pub fn verify(self, transaction: &VersionedTransaction) -> Result<SignedVote, VoteError> {
        let is_valid = transaction.sanitize().is_ok()
            && transaction.verify_with_results().into_iter().all(|is_valid| is_valid);
        if is_valid { Ok(SignedVote(self)) } else { Err(VoteError::Signature) }
    }

    /// Returns it as a signed vote: the caller has verified all signatures of the transaction that it was read from.
    pub fn with_verified_signatures(self) -> SignedVote {
        SignedVote(self)
    }

    /// The vote account.
    pub fn vote_account(&self) -> &Pubkey {
        &self.vote_account
    }

    /// The newest slot that it votes for.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// The slots that it votes for, the oldest first.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The bank hash of the newest slot.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// Seconds since 1970, if the vote has a timestamp.
    pub fn timestamp(&self) -> Option<i64> {
        self.timestamp
    }
}

impl SignedVote {
    /// Reads the vote of a transaction and verifies its signatures.
    pub fn verify(transaction: &VersionedTransaction) -> Result<Self, VoteError> {
        UnverifiedVote::parse(transaction)?.verify(transaction)
    }

    /// What it votes for.
    pub fn vote(&self) -> &UnverifiedVote {
        &self.0
    }

    pub(crate) fn is_signed_by(&self, key: &Pubkey) -> bool {
        self.0.signers.contains(key)
    }
}

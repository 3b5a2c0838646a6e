//! The vote in a transaction, with its signatures verified.
//!
//! Cost: about 50 us a signature, so a vote belongs on the threads that verify transactions.

use ledger::Slot;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_transaction::versioned::VersionedTransaction;
use solana_vote::vote_parser::parse_vote_transaction;

/// A vote whose signatures are valid. Whether a signer may vote for the account depends on the epoch's stakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedVote {
    vote_account: Pubkey,
    slot: Slot,
    hash: Hash,
    signers: Vec<Pubkey>,
}

/// Why a transaction is no signed vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VoteError {
    /// Its first instruction is no vote for a slot.
    #[error("the transaction is no vote")]
    NoVote,
    /// It is malformed, or a signature is not valid for its key and message.
    #[error("the vote has no valid signatures")]
    Signature,
}

impl SignedVote {
    /// Reads the vote of a transaction and verifies its signatures.
    pub fn verify(transaction: &VersionedTransaction) -> Result<Self, VoteError> {
        let vote = Self::parse(transaction)?;
        let is_valid = transaction.sanitize().is_ok()
            && transaction.verify_with_results().into_iter().all(|is_valid| is_valid);
        if is_valid { Ok(vote) } else { Err(VoteError::Signature) }
    }

    fn parse(transaction: &VersionedTransaction) -> Result<Self, VoteError> {
        let header = transaction.message.header();
        let signers = transaction
            .message
            .static_account_keys()
            .iter()
            .take(usize::from(header.num_required_signatures))
            .copied()
            .collect();
        let legacy = transaction.clone().into_legacy_transaction().ok_or(VoteError::NoVote)?;
        let (vote_account, vote, ..) = parse_vote_transaction(&legacy).ok_or(VoteError::NoVote)?;
        let slot = vote.last_voted_slot().ok_or(VoteError::NoVote)?;
        Ok(Self { vote_account, slot, hash: vote.hash(), signers })
    }

    /// The vote account.
    pub fn vote_account(&self) -> &Pubkey {
        &self.vote_account
    }

    /// The newest slot that it votes for.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// The bank hash of that slot.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// Whether a key signed it.
    pub(crate) fn is_signed_by(&self, key: &Pubkey) -> bool {
        self.signers.contains(key)
    }
}

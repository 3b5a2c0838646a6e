//! The votes in transactions: those that prove banks, and those that landed, for subscribers.
//!
//! In: transactions whose signatures were verified (`transaction_checks`), and the stakes of epochs. Out: the votes of
//! accounts with stake for slots that are not decided. To parse a vote takes about a microsecond, and its signatures were
//! verified for the proof of its bank.
//! Bounds: [`VOTES_MAX`] landed votes of a bank.
//! Not here: the eligible voters, and the sum of stakes (`verify`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use chain_solana::{ExecutedTransaction, Vote};
use ledger::Slot;
use solana_pubkey::Pubkey;
use verify::{SignedVote, StakedVoters, UnverifiedVote};

/// Votes of a bank: mainnet has about 1,000 voters.
const VOTES_MAX: usize = 8_192;
/// Bytes of the slots that a vote names: a tower has 31.
const SLOTS_BYTES: usize = 31 * size_of::<Slot>();

/// The stakes of the epochs that are known, the oldest first.
pub(crate) type StakeTables = Vec<Arc<StakedVoters>>;

/// Selects the votes that may prove a bank. The writer sets the state, and the threads that check transactions read it.
#[derive(Default)]
pub(crate) struct VoteFilter {
    stakes: ArcSwap<StakeTables>,
    /// The newest slot for which enough stake voted.
    decided: AtomicU64,
}

impl VoteFilter {
    pub(crate) fn set_stakes(&self, stakes: StakeTables) {
        self.stakes.store(Arc::new(stakes));
    }

    /// Marks the votes up to a slot as no longer needed.
    pub(crate) fn decide(&self, slot: Slot) {
        self.decided.fetch_max(slot, Ordering::Relaxed);
    }

    /// Returns the vote of a transaction whose signatures were verified. `None` if its account has no stake, if its slot
    /// is decided, or if it is not a vote.
    pub(crate) fn find_vote(&self, executed: &ExecutedTransaction) -> Option<SignedVote> {
        if !executed.is_vote {
            return None;
        }
        let vote = UnverifiedVote::parse(&executed.transaction).ok()?;
        let is_needed = vote.slot() > self.decided.load(Ordering::Relaxed)
            && find_stake(&self.stakes.load(), vote.slot(), vote.vote_account()) > 0;
        is_needed.then(|| vote.with_verified_signatures())
    }
}

/// The votes of a bank that were executed, for subscribers. They are read while the bank is open, about a microsecond
/// each.
#[derive(Debug, Default)]
pub struct LandedVotes {
    /// Transactions that were read.
    read: usize,
    votes: Vec<Vote>,
}

impl LandedVotes {
    /// Reads those of the bank's transactions that were not read yet. They are in order, and `from` is how many are
    /// before them. If some of these were not read, nothing is read now.
    pub fn read(&mut self, from: usize, transactions: &[Arc<ExecutedTransaction>]) {
        let Some(known) = self.read.checked_sub(from) else { return };
        for executed in transactions.iter().skip(known) {
            if executed.is_vote && executed.meta.status.is_ok() && self.votes.len() < VOTES_MAX {
                self.votes.extend(landed_vote(executed));
            }
        }
        self.read = self.read.max(from + transactions.len());
    }

    pub(crate) fn bytes(&self) -> usize {
        self.votes.capacity() * (size_of::<Vote>() + SLOTS_BYTES)
    }

    /// Returns the votes, in the order of their transactions.
    pub fn into_votes(self) -> Arc<[Vote]> {
        self.votes.into()
    }
}

fn landed_vote(executed: &ExecutedTransaction) -> Option<Vote> {
    let vote = UnverifiedVote::parse(&executed.transaction).ok()?;
    Some(Vote {
        vote_pubkey: *vote.vote_account(),
        slots: vote.slots().to_vec(),
        hash: vote.hash(),
        timestamp: vote.timestamp(),
        signature: executed.signature(),
    })
}

fn find_stake(stakes: &StakeTables, slot: Slot, vote_account: &Pubkey) -> u64 {
    let table = stakes.iter().find(|stakes| stakes.slots().contains(&slot));
    table.map_or(0, |stakes| stakes.stake(vote_account))
}

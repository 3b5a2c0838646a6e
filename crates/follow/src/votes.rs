//! Verifies the signatures of landed votes, on a thread of its own.
//!
//! In: the vote transactions of each bank. Out: votes with valid signatures, as messages to the writer, those with the
//! most stake first. A vote costs about 50 us, so those for slots that are decided already are skipped.
//! Bounds: [`BATCHES_MAX`] banks with [`VOTES_MAX`] votes each; the transactions are those of history. Votes beyond are
//! not counted, which only delays a decision: a vote for a descendant verifies its ancestors.
//! Not here: the eligible voters, and the sum of stakes (`verify`).

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use arc_swap::ArcSwap;
use chain_solana::{ExecutedTransaction, Vote};
use ledger::Slot;
use solana_pubkey::Pubkey;
use tokio::sync::mpsc::WeakSender;
use verify::{SignedVote, StakedVoters, UnverifiedVote};

use crate::error::FollowError;
use crate::stream::Message;

/// Maximum number of banks with queued votes.
const BATCHES_MAX: usize = 64;
/// Votes of a bank: mainnet has about 1,000 voters.
const VOTES_MAX: usize = 8_192;
/// Bytes of the slots that a vote names: a tower has 31.
const SLOTS_BYTES: usize = 31 * size_of::<Slot>();
/// Votes that are sent to the writer at once: about two milliseconds of signatures.
const CHUNK_MAX: usize = 32;

/// The stakes of the epochs that are known, the oldest first.
pub(crate) type StakeTables = Vec<Arc<StakedVoters>>;

/// The state that the writer and the thread share.
#[derive(Default)]
pub(crate) struct VotesShared {
    stakes: ArcSwap<StakeTables>,
    /// The newest slot for which enough stake voted.
    decided: AtomicU64,
}

/// The writer's end of the thread.
pub(crate) struct VoteThread {
    batches: SyncSender<Vec<Arc<ExecutedTransaction>>>,
    shared: Arc<VotesShared>,
}

impl VoteThread {
    /// Starts the thread, which ends when this value is dropped.
    pub(crate) fn start(messages: WeakSender<Message>) -> Result<Self, FollowError> {
        let (batches, receiver) = sync_channel(BATCHES_MAX);
        let shared = Arc::new(VotesShared::default());
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("follow-votes".into());
        let started = thread.spawn(move || run(&receiver, &of_thread, &messages));
        started.map_err(FollowError::Thread)?;
        Ok(Self { batches, shared })
    }

    /// Sends the votes of a bank. False if too many banks wait.
    pub(crate) fn send(&self, transactions: &[Arc<ExecutedTransaction>]) -> bool {
        let votes = transactions.iter().filter(|executed| executed.is_vote);
        let votes: Vec<_> = votes.take(VOTES_MAX).cloned().collect();
        votes.is_empty() || self.batches.try_send(votes).is_ok()
    }

    pub(crate) fn set_stakes(&self, stakes: StakeTables) {
        self.shared.stakes.store(Arc::new(stakes));
    }

    /// Marks the votes up to a slot as no longer needed.
    pub(crate) fn decide(&self, slot: Slot) {
        self.shared.decided.fetch_max(slot, Ordering::Relaxed);
    }
}

/// The votes of a bank that were executed, for subscribers. They are read while the bank is open, about a microsecond
/// each.
#[derive(Default)]
pub(crate) struct LandedVotes {
    /// Transactions that were read.
    read: usize,
    votes: Vec<Vote>,
}

impl LandedVotes {
    /// Reads those of the bank's transactions that were not read yet. They are in order, and `from` is how many are
    /// before them. If some of these were not read, nothing is read now.
    pub(crate) fn read(&mut self, from: usize, transactions: &[Arc<ExecutedTransaction>]) {
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

    pub(crate) fn into_votes(self) -> Arc<[Vote]> {
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

fn run(
    batches: &Receiver<Vec<Arc<ExecutedTransaction>>>,
    shared: &VotesShared,
    messages: &WeakSender<Message>,
) {
    while let Ok(batch) = batches.recv() {
        let stakes = shared.stakes.load_full();
        let votes = with_most_stake_first(&batch, &stakes);
        let mut chunk = Vec::with_capacity(CHUNK_MAX);
        let mut votes = votes.into_iter().peekable();
        while let Some((vote, transaction)) = votes.next() {
            if vote.slot() > shared.decided.load(Ordering::Relaxed)
                && let Ok(vote) = vote.verify(&transaction.transaction)
            {
                chunk.push(vote);
            }
            let is_due = chunk.len() == CHUNK_MAX || votes.peek().is_none();
            if is_due && !chunk.is_empty() && !send(messages, std::mem::take(&mut chunk)) {
                return;
            }
        }
    }
}

/// False if the writer has ended.
fn send(messages: &WeakSender<Message>, votes: Vec<SignedVote>) -> bool {
    let sender = messages.upgrade();
    sender.is_some_and(|sender| sender.blocking_send(Message::Votes(votes)).is_ok())
}

/// The votes of accounts with stake.
fn with_most_stake_first<'a>(
    batch: &'a [Arc<ExecutedTransaction>],
    stakes: &StakeTables,
) -> Vec<(UnverifiedVote, &'a ExecutedTransaction)> {
    let vote = |executed: &'a Arc<ExecutedTransaction>| {
        let vote = UnverifiedVote::parse(&executed.transaction).ok()?;
        let stake = find_stake(stakes, vote.slot(), vote.vote_account());
        (stake > 0).then_some((stake, vote, &**executed))
    };
    let mut votes: Vec<_> = batch.iter().filter_map(vote).collect();
    votes.sort_by_key(|(stake, ..)| Reverse(*stake));
    votes.into_iter().map(|(_, vote, executed)| (vote, executed)).collect()
}

fn find_stake(stakes: &StakeTables, slot: Slot, vote_account: &Pubkey) -> u64 {
    let table = stakes.iter().find(|stakes| stakes.slots().contains(&slot));
    table.map_or(0, |stakes| stakes.stake(vote_account))
}

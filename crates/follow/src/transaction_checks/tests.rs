//! Tasks that wait, and the votes among verified transactions. The tests run the tasks themselves.

use chain_solana::StatusVisibility;
use solana::EpochVoter;
use solana_keypair::Keypair;
use solana_message::{Message as SolanaMessage, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::TransactionStatusMeta;
use solana_vote_interface::instruction::tower_sync;
use solana_vote_interface::state::TowerSync;
use tokio::sync::mpsc;
use verify::StakedVoters;

use super::*;

const BANK: BlockId = BlockId { slot: 103, version: 1 };
/// The slot that the votes are for.
const VOTED: u64 = 102;

/// The queue without a thread, and the messages to the writer.
struct World {
    checks: TransactionChecks,
    metrics: Arc<CheckMetrics>,
    votes: Arc<VoteFilter>,
    messages: mpsc::Receiver<Message>,
    _sender: mpsc::Sender<Message>,
}

impl World {
    /// With the stake of the first vote account alone.
    fn new() -> Self {
        let (sender, messages) = mpsc::channel(16);
        let metrics = Arc::<CheckMetrics>::default();
        let votes = Arc::<VoteFilter>::default();
        let voter = EpochVoter {
            vote_account: vote_account(0),
            node: Pubkey::default(),
            authorized_voter: None,
            stake: 100,
        };
        votes.set_stakes(vec![Arc::new(StakedVoters::new(0..=1_000, vec![voter]))]);
        let filter = Some(Arc::clone(&votes));
        let checks =
            TransactionChecks::new(sender.downgrade(), false, filter, Arc::clone(&metrics));
        Self { checks, metrics, votes, messages, _sender: sender }
    }

    /// Banks, tasks and bytes of tasks.
    fn counters(&self) -> [u64; 3] {
        let CheckMetrics { open_banks, queued_tasks, task_bytes, .. } = &*self.metrics;
        [open_banks, queued_tasks, task_bytes].map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Runs the queued tasks, and returns the vote accounts whose votes they sent.
    fn run_tasks(&mut self) -> Vec<Pubkey> {
        while self.counters()[1] > 0 {
            let task = self.checks.shared.pop().expect("it is not closed");
            assert!(self.checks.shared.run_task(task), "the writer has not ended");
        }
        let mut voted = Vec::new();
        while let Ok(message) = self.messages.try_recv() {
            let Message::Votes(votes) = message else { panic!("the bank is not whole") };
            voted.extend(votes.iter().map(|vote| *vote.vote().vote_account()));
        }
        voted
    }
}

fn vote_account(n: u8) -> Pubkey {
    Pubkey::new_from_array([200 + n; 32])
}

/// The vote of the n-th account, as the transaction of this index.
fn vote(n: u8, index: u32) -> ExecutedTransaction {
    let key = Keypair::new();
    let sync = TowerSync::from(vec![(VOTED, 1)]);
    let instruction = tower_sync(&vote_account(n), &key.pubkey(), sync);
    let message = SolanaMessage::new(&[instruction], Some(&key.pubkey()));
    let account_keys = message.account_keys.clone();
    let message = VersionedMessage::Legacy(message);
    ExecutedTransaction {
        slot: BANK.slot,
        index,
        block_time: 0,
        transaction: VersionedTransaction::try_new(message, &[&key]).expect("the key signs"),
        meta: TransactionStatusMeta::default(),
        account_keys,
        is_vote: true,
        visibility: StatusVisibility::default(),
    }
}

fn share_transactions(transactions: Vec<ExecutedTransaction>) -> Vec<Arc<ExecutedTransaction>> {
    transactions.into_iter().map(Arc::new).collect()
}

#[test]
fn votes_with_stake_and_valid_signatures_are_sent_while_the_bank_is_open() {
    let mut world = World::new();
    let first = share_transactions(vec![vote(1, 0), vote(0, 1)]);
    world.checks.add_transactions(BANK, 0, &first);
    assert_eq!(world.run_tasks(), [vote_account(0)], "the other account has no stake");
    let mut forged = vote(0, 2);
    forged.transaction.signatures[0] = Keypair::new().sign_message(b"another message");
    let mut other = vote(0, 3);
    other.is_vote = false;
    for transaction in [forged, other] {
        let next = share_transactions(vec![transaction]);
        world.checks.add_transactions(BANK, world.checks.banks[&BANK].queued, &next);
        assert_eq!(world.run_tasks(), []);
    }
    world.votes.decide(VOTED);
    world.checks.add_transactions(BANK, 4, &share_transactions(vec![vote(0, 4)]));
    assert_eq!(world.run_tasks(), [], "it is for a slot that is decided");
}

#[test]
fn checks_are_counted_until_they_are_done_or_removed() {
    let mut world = World::new();
    assert_eq!(world.counters(), [0, 0, 0]);
    let transactions: Vec<_> = (0..CHUNK_MAX as u32 + 1).map(|index| vote(1, index)).collect();
    let transactions = share_transactions(transactions);
    let other = BlockId { version: 2, ..BANK };
    world.checks.add_transactions(BANK, 0, &transactions);
    world.checks.add_transactions(other, 0, &transactions);
    let list_bytes = transactions.len() * size_of::<Arc<ExecutedTransaction>>();
    let bytes = (2 * size_of::<Task>() + list_bytes) as u64;
    assert_eq!(world.counters(), [2, 4, 2 * bytes]);
    world.checks.remove(other);
    assert_eq!(world.counters(), [1, 2, bytes]);
    let task = world.checks.shared.pop().expect("it is not closed");
    assert_eq!(world.counters(), [1, 1, bytes], "it is not done");
    assert!(world.checks.shared.run_task(task));
    assert_eq!(world.run_tasks(), []);
    assert_eq!(world.counters(), [1, 0, 0], "the end of the bank is awaited");
    world.checks.add_transactions(other, 0, &transactions);
    let metrics = Arc::clone(&world.metrics);
    drop(world);
    let CheckMetrics { open_banks, queued_tasks, task_bytes, .. } = &*metrics;
    let counters = [open_banks, queued_tasks, task_bytes];
    assert_eq!(counters.map(|counter| counter.load(Ordering::Relaxed)), [0, 0, 0]);
}

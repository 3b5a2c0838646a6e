//! Random transfers, blocks, snapshots, reverts and reorganizations, compared with a plain model of balances and signatures.

use std::collections::{BTreeMap, BTreeSet};

use chain_solana::{ForkControlError, ForkTransactions};
use fastrand::Rng;
use ledger::Commitment;
use localnet::Config;
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_signer::Signer;

use super::{SOL, check_sums, pay};
use crate::fixture::{CLIENT, Node, on_demand};

const WALLETS: usize = 6;
const FEE: u64 = 5_000;

/// The state after a block.
#[derive(Clone)]
struct State {
    balances: BTreeMap<Pubkey, u64>,
    signatures: BTreeSet<Signature>,
}

/// The chain as it should be.
struct Model {
    /// The blocks from the first final one that counts.
    blocks: Vec<State>,
    finalized: usize,
    finalize_after: usize,
    /// Ids, each with the index of its block.
    snapshots: Vec<(u64, usize)>,
    /// Every signature of any fork.
    known: BTreeSet<Signature>,
}

impl Model {
    fn newest(&self) -> &State {
        self.blocks.last().expect("never empty")
    }

    fn push(&mut self, state: State) {
        self.blocks.push(state);
        self.finalized =
            self.finalized.max((self.blocks.len() - 1).saturating_sub(self.finalize_after));
    }

    fn push_copies(&mut self, count: usize) {
        (0..count).for_each(|_| self.push(self.newest().clone()));
    }

    /// Leaves the blocks above an index, and returns them.
    fn leave(&mut self, index: usize) -> Vec<State> {
        self.finalized = self.finalized.min(index);
        self.snapshots.retain(|(_, block)| *block <= index);
        self.blocks.split_off(index + 1)
    }

    fn transfer(&mut self, from: &Pubkey, to: &Pubkey, lamports: u64, signature: Signature) {
        let mut state = self.newest().clone();
        for (key, less, more) in [(from, lamports + FEE, 0), (to, 0, lamports)] {
            let balance = state.balances.get_mut(key).expect("a wallet");
            *balance = *balance + more - less;
        }
        state.signatures.insert(signature);
        self.known.insert(signature);
        self.push(state);
    }
}

fn compare(node: &Node, model: &Model, context: &str) {
    let newest = model.newest();
    for (key, balance) in &newest.balances {
        assert_eq!(node.lamports(key), *balance, "{context}: {key}");
    }
    let finalized = &model.blocks[model.finalized].balances;
    for (key, balance) in finalized {
        use solana_account::ReadableAccount;
        let account = node.account_at(Commitment::Finalized, key);
        let lamports = account.map_or(0, |account| account.0.lamports());
        assert_eq!(lamports, *balance, "{context}: {key} at finalized");
    }
    let history = node.history.snapshot();
    for signature in &model.known {
        let found = history.transaction(signature, Commitment::Confirmed).is_some();
        assert_eq!(found, newest.signatures.contains(signature), "{context}: {signature}");
    }
    for key in newest.balances.keys() {
        let listed = history.signatures_for_address(key).into_iter().flatten();
        let listed = listed.filter_map(|position| history.transaction_at(*position));
        let listed: BTreeSet<_> = listed.map(|executed| executed.signature()).collect();
        let unknown = listed.intersection(&model.known).find(|it| !newest.signatures.contains(it));
        assert_eq!(unknown, None, "{context}: {key} lists a transaction that was left");
    }
}

/// Returns the number of reverts and of reorganizations.
fn run(seed: u64) -> (usize, usize) {
    let mut rng = Rng::with_seed(seed);
    let finalize_after = [0, 2, 5, 31][rng.usize(..4)];
    let config = Config { finalize_after: finalize_after as u64, ..on_demand() };
    let node = Node::start(&config);
    let wallets: Vec<Keypair> = (0..WALLETS).map(|_| Keypair::new()).collect();
    for wallet in &wallets {
        node.airdrop(&wallet.pubkey(), SOL);
    }
    // The blocks of the airdrops are final.
    node.forks.mine(CLIENT, finalize_after as u64 + 1).wait().expect("blocks");
    let balances = wallets.iter().map(|wallet| (wallet.pubkey(), SOL)).collect();
    let first = State { balances, signatures: BTreeSet::new() };
    let mut model = Model {
        blocks: vec![first; finalize_after + 1],
        finalized: 0,
        finalize_after,
        snapshots: Vec::new(),
        known: BTreeSet::new(),
    };
    let height = |node: &Node| node.reader.view(Commitment::Confirmed).meta().block_height;
    let base_height = height(&node) + 1 - model.blocks.len() as u64;
    let mut newest_slot = 0;
    let mut reverts = 0;
    let mut reorgs = 0;
    for round in 0..60_u64 {
        let context = format!("seed {seed}, round {round}");
        match rng.u8(..10) {
            0..4 => {
                let [from, to] = [rng.usize(..WALLETS), rng.usize(..WALLETS)];
                let from = &wallets[from];
                let to = wallets[to].pubkey();
                // Distinct lamports make distinct transactions.
                let lamports = 1_000 * (round + 1) + rng.u64(..1_000);
                let transaction = pay(&node, from, &to, lamports);
                let executed = node.send(transaction);
                node.settle();
                assert_eq!(executed.meta.status, Ok(()), "{context}");
                model.transfer(&from.pubkey(), &to, lamports, executed.signature());
            }
            4 => {
                let blocks = rng.u64(1..4);
                node.forks.mine(CLIENT, blocks).wait().expect("blocks");
                model.push_copies(blocks as usize);
            }
            5 | 6 => {
                let id = node.forks.snapshot(CLIENT).wait().expect("a snapshot");
                model.snapshots.push((id, model.blocks.len() - 1));
            }
            7 | 8 => {
                let Some(at) = (0..model.snapshots.len()).nth(rng.usize(..4)) else {
                    let refused = node.forks.revert(CLIENT, 1_000_000 + round).wait();
                    assert!(
                        matches!(refused, Err(ForkControlError::UnknownSnapshot { .. })),
                        "{context}"
                    );
                    continue;
                };
                let (id, block) = model.snapshots[at];
                assert_eq!(node.forks.revert(CLIENT, id).wait(), Ok(()), "{context}");
                model.snapshots.truncate(at);
                if block + 1 < model.blocks.len() {
                    model.leave(block);
                    model.push_copies(1);
                }
                reverts += 1;
            }
            _ => {
                let unfinalized = model.blocks.len() - 1 - model.finalized;
                if unfinalized == 0 {
                    continue;
                }
                let depth = rng.usize(1..=unfinalized.min(6));
                let keeps = rng.bool();
                let transactions =
                    if keeps { ForkTransactions::Reexecute } else { ForkTransactions::Drop };
                let done =
                    node.forks.reorg(CLIENT, depth as u64, transactions).wait().expect("allowed");
                assert_eq!((done.dropped, done.entered.len()), (0, depth + 1), "{context}");
                let left = model.leave(model.blocks.len() - 1 - depth);
                if keeps {
                    left.into_iter().for_each(|state| model.push(state));
                    model.push_copies(1);
                } else {
                    model.push_copies(depth + 1);
                }
                reorgs += 1;
            }
        }
        compare(&node, &model, &context);
        let slot = super::slot(&node, Commitment::Confirmed);
        assert!(slot >= newest_slot, "{context}: slots do not go back");
        newest_slot = slot;
        assert_eq!(height(&node), base_height + model.blocks.len() as u64 - 1, "{context}");
        assert_eq!(node.forks.usage().snapshots, model.snapshots.len() as u64, "{context}");
    }
    check_sums(&node);
    node.stop();
    (reverts, reorgs)
}

#[test]
fn random_forks_are_those_of_a_plain_model() {
    let seeds = std::env::var("HYDRANT_FORK_SEEDS").ok().and_then(|count| count.parse().ok());
    let counts = (0..seeds.unwrap_or(30)).map(run);
    let (reverts, reorgs) =
        counts.fold((0, 0), |sum, of_seed| (sum.0 + of_seed.0, sum.1 + of_seed.1));
    assert!(reverts > 100 && reorgs > 100, "{reverts} reverts, {reorgs} reorganizations");
}

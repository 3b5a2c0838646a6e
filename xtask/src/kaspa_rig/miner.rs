//! Blocks with transactions, siblings and reorganizations, on two kaspads that have no connection to each other.
//!
//! The main node is the one that is followed. The branch node mines blocks that the main node does not have yet, and
//! each block is submitted to both in the end. So a reorganization of any depth is made by submitting a longer branch.
//! Shape: the nodes have the same blocks before and after each call, except while the main node does not run.

use std::collections::VecDeque;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use kaspa::{AddressUtxo, KaspaAddress};
use serde_json::Value;

use crate::kaspa_rig::kaspad::{Kaspad, KaspadPorts, Submission};
use crate::kaspa_rig::wallet::{
    INPUTS_MAX, KEY_ADDRESSES, OUTPUTS_MAX, SPENDABLE_ADDRESSES, Wallet, to_json,
};
use crate::rig::ports::free_ports;
use crate::rig::random::Random;

/// Every block of this number has a sibling.
const SIBLING_INTERVAL: usize = 3;
/// The most transactions that are sent before a block.
const LOAD_MAX: usize = 4;
/// The most blocks that a branch gets beyond the depth that should suffice: the difficulty, and so the work of a block,
/// may differ between branches.
const EXTRA_BLOCKS_MAX: usize = 10;
/// Blocks that are submitted again after a kill of the main node.
const RECENT_BLOCKS: usize = 50;

/// Two nodes, and the blocks that only the main node has.
pub(crate) struct Miner {
    pub(crate) main: Kaspad,
    branch: Kaspad,
    wallet: Wallet,
    random: Random,
    unshared: Vec<Value>,
    recent: VecDeque<Value>,
    pub(crate) counters: MinerCounters,
}

/// Counters of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MinerCounters {
    pub(crate) blocks: u64,
    pub(crate) siblings: u64,
    pub(crate) transactions: u64,
    /// Transactions that a node refused, for example because another branch had spent their inputs.
    pub(crate) refused_transactions: u64,
}

impl Miner {
    /// Starts both nodes with empty databases in `dir`.
    pub(crate) fn start(program: &Path, dir: &Path, seed: u64) -> Result<Self> {
        let [p2p, grpc, borsh, json, branch_p2p, branch_grpc, branch_borsh, branch_json] =
            free_ports()?;
        let ports = KaspadPorts { p2p, grpc, borsh, json };
        let main = Kaspad::start("kaspad", program, dir, ports)?;
        let ports = KaspadPorts {
            p2p: branch_p2p,
            grpc: branch_grpc,
            borsh: branch_borsh,
            json: branch_json,
        };
        let branch = Kaspad::start("kaspad-branch", program, dir, ports)?;
        Ok(Self {
            main,
            branch,
            wallet: Wallet::new(),
            random: Random::with_seed(seed),
            unshared: Vec::new(),
            recent: VecDeque::new(),
            counters: MinerCounters::default(),
        })
    }

    /// Returns all addresses of the network.
    pub(crate) fn addresses(&self) -> &[KaspaAddress] {
        self.wallet.addresses()
    }

    /// Sets the UTXOs that the load may spend, from all UTXOs of the network.
    pub(crate) fn set_utxos(&mut self, utxos: &[AddressUtxo], daa_score: u64) {
        self.wallet.set_utxos(utxos, daa_score);
    }

    /// Returns an error if a node has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.main.check()?;
        self.branch.check()
    }

    /// Mines blocks with transactions on the main node, at least one. Some have siblings, the first and the last one
    /// have none. Returns the submission of the first one.
    pub(crate) fn mine(&mut self, count: usize) -> Result<Submission> {
        let mut first = None;
        for nth in 1..=count {
            for _ in 0..self.random.next_below(LOAD_MAX + 1) {
                self.send_transaction()?;
            }
            let has_sibling = nth % SIBLING_INTERVAL == 0 && nth < count;
            let block = self.build_block()?;
            // A template of the same virtual block, with another reward.
            let sibling = if has_sibling { Some(self.build_block()?) } else { None };
            let submission = self.submit_to_main(block)?;
            first = first.or(Some(submission));
            if let Some(sibling) = sibling {
                self.submit_to_main(sibling)?;
                self.counters.siblings += 1;
            }
        }
        first.context("no block to mine")
    }

    /// Makes the main node leave `depth` chain blocks for a longer branch. Both branches have transactions that spend
    /// the same UTXOs. Returns the number of chain blocks that the main node has removed.
    pub(crate) fn reorganize(&mut self, depth: usize) -> Result<usize> {
        self.share()?;
        for nth in 0..depth {
            if nth % SIBLING_INTERVAL == 0 {
                self.send_conflict()?;
            }
            let block = self.build_block()?;
            self.submit_to_main(block)?;
        }
        let old_sink = self.main.sink()?;
        let withheld = self.mine_branch(depth + 1)?;
        self.publish_branch(withheld)?;
        Ok(self.main.chain_change(old_sink)?.removed.len())
    }

    /// Mines blocks on the branch node that the main node does not get.
    pub(crate) fn mine_branch(&mut self, count: usize) -> Result<Vec<Value>> {
        (0..count).map(|_| self.mine_branch_block()).collect()
    }

    /// Submits the blocks of the branch node to the main node, until it prefers them.
    pub(crate) fn publish_branch(&mut self, withheld: Vec<Value>) -> Result<()> {
        for block in withheld {
            self.main.submit_block(&block)?;
            self.add_recent(block);
        }
        let branch_sink = self.branch.sink()?;
        let mut extra = 0;
        let mut is_preferred = self.main.sink()? == branch_sink;
        while !is_preferred {
            ensure!(extra < EXTRA_BLOCKS_MAX, "the main node does not prefer a longer branch");
            extra += 1;
            let block = self.mine_branch_block()?;
            self.main.submit_block(&block)?;
            self.add_recent(block);
            is_preferred = self.main.sink()? == self.branch.sink()?;
        }
        self.share()
    }

    /// Kills the main node. The branch node has all of its blocks.
    pub(crate) fn kill_main(&mut self) -> Result<()> {
        self.share()?;
        self.main.kill()
    }

    /// Starts the main node again, and submits the newest blocks again in case that it has lost them.
    pub(crate) fn restart_main(&mut self) -> Result<()> {
        self.main.restart()?;
        for block in &self.recent {
            // A node refuses a block that it has.
            let _ = self.main.submit_block(block);
        }
        Ok(())
    }

    fn build_block(&mut self) -> Result<Value> {
        let reward = self.wallet.random_reward_address(&mut self.random);
        self.main.build_block(&reward)
    }

    fn mine_branch_block(&mut self) -> Result<Value> {
        let reward = self.wallet.random_reward_address(&mut self.random);
        let block = self.branch.build_block(&reward)?;
        self.branch.submit_block(&block)?;
        self.counters.blocks += 1;
        Ok(block)
    }

    fn submit_to_main(&mut self, block: Value) -> Result<Submission> {
        let submission = self.main.submit_block(&block)?;
        self.counters.blocks += 1;
        self.unshared.push(block.clone());
        self.add_recent(block);
        Ok(submission)
    }

    fn add_recent(&mut self, block: Value) {
        self.recent.push_back(block);
        if self.recent.len() > RECENT_BLOCKS {
            self.recent.pop_front();
        }
    }

    /// Submits to the branch node what only the main node has.
    fn share(&mut self) -> Result<()> {
        for block in self.unshared.drain(..) {
            self.branch.submit_block(&block)?;
        }
        Ok(())
    }

    fn send_transaction(&mut self) -> Result<()> {
        let transaction = self.wallet.next_transaction(&mut self.random);
        let Some(transaction) = transaction else { return Ok(()) };
        let is_accepted = self.main.submit_transaction(to_json(&transaction))?;
        self.counters.count_transaction(is_accepted);
        Ok(())
    }

    /// Sends one transaction to each node. At most one of the two can be accepted in the end.
    fn send_conflict(&mut self) -> Result<()> {
        let pair = self.wallet.next_conflict(&mut self.random, 2).unwrap_or_default();
        let nodes = [&mut self.main, &mut self.branch];
        for (transaction, node) in pair.iter().zip(nodes) {
            let is_accepted = node.submit_transaction(to_json(transaction))?;
            self.counters.count_transaction(is_accepted);
        }
        Ok(())
    }
}

/// Describes the load of a run, for its report.
pub(crate) fn describe_load() -> String {
    let addresses = SPENDABLE_ADDRESSES + KEY_ADDRESSES;
    format!(
        "Load: up to {LOAD_MAX} transactions before each block, with at most {INPUTS_MAX} inputs and {OUTPUTS_MAX} \
         outputs, to {addresses} addresses; in each reorganization pairs that spend the same UTXOs, one on each \
         branch. The rig makes them itself, without signatures. rothschild is not used: it pays one address at a \
         rate of its own, and makes no such pairs (docs/kaspa_rig.md)."
    )
}

impl MinerCounters {
    fn count_transaction(&mut self, is_accepted: bool) {
        self.transactions += u64::from(is_accepted);
        self.refused_transactions += u64::from(!is_accepted);
    }
}

//! A run of a chain that follows a model of a node, with messages that come late, in another order, twice, or not at
//! all.
//!
//! Each publication is compared with the model: the selected chain always, the virtual state whenever all messages were
//! delivered and none was lost. The chain compares the hash over its UTXO set with the commitment of each block, and
//! the model every sixteenth of its own with the whole set.

use std::collections::VecDeque;

use chain_kaspa::{
    ChainConfig, ChainCounters, HistoryLimits, TemplateCheck, TransactionPosition, VirtualLimits,
    VirtualMode,
};
use kaspa::UtxoChanges;
use ledger::Commitment;

use super::checked_follower::{CheckedFollower, assert_same};
use super::model_node::ModelNode;

/// Steps after which all messages are delivered.
const SETTLE_STEPS: u64 = 8;
/// Comparisons with a template in which the virtual state becomes exact after a loss.
const RECOVERY_CHECKS_MAX: u32 = 60;
const DEPTH: usize = 20;
const HISTORY_BLOCKS: usize = 40;

/// The faults of the link that delivers messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// It delivers each once, in order.
    Good,
    /// It swaps some.
    Swaps,
    /// It swaps some, delivers some twice, and loses some.
    Loses,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug)]
pub struct ModelReport {
    /// The counters of the chain. A block whose commitment differs from the chain's own sum counts as refused.
    pub counters: ChainCounters,
    /// Number of times that the chain found that a message was lost or doubled.
    pub losses: u64,
    /// Comparisons of the virtual UTXO set in which all of it was equal.
    pub virtual_comparisons: u64,
}

struct World {
    node: ModelNode,
    follower: CheckedFollower,
    link: Link,
    queue: VecDeque<UtxoChanges>,
    /// Comparisons since a message was lost or doubled.
    damaged_for: Option<u32>,
    losses: u32,
    virtual_comparisons: u64,
}

fn config() -> ChainConfig {
    ChainConfig {
        depth_max: DEPTH,
        history: HistoryLimits { blocks_max: HISTORY_BLOCKS, bytes_max: usize::MAX },
        virtual_limits: VirtualLimits {
            differences_max: 100_000,
            contradiction_messages_max: 2 * SETTLE_STEPS,
            difference_steps_max: 4 * SETTLE_STEPS,
        },
        ..ChainConfig::new(100_000)
    }
}

impl World {
    fn new(seed: u64, link: Link) -> Self {
        let node = ModelNode::new(seed, DEPTH);
        let mut follower = CheckedFollower::new(config(), node.sink().accepting.header.clone());
        follower.chain.join_virtual();
        assert_eq!(follower.chain.check_template(&node.template()), TemplateCheck::Matched);
        Self {
            node,
            follower,
            link,
            queue: VecDeque::new(),
            damaged_for: None,
            losses: 0,
            virtual_comparisons: 0,
        }
    }

    fn step(&mut self) {
        let reorganization_max = self.node.reorganization_max();
        let message = match self.node.rng.u8(..20) {
            0..11 => self.node.mine(),
            11..15 => self.node.merge(),
            15..17 if reorganization_max > 0 => self.node.reorganize(1, 1),
            17 if reorganization_max > 0 => {
                let removed = self.node.rng.usize(1..=reorganization_max);
                let added = removed + self.node.rng.usize(..2);
                self.node.reorganize(removed, added)
            }
            _ => UtxoChanges::default(),
        };
        if message != UtxoChanges::default() {
            self.send(message);
        }
        let delivered = self.node.rng.usize(..=self.queue.len());
        self.deliver(delivered);
        if self.node.rng.u8(..10) < 6 {
            self.poll();
        }
        if self.node.rng.u8(..10) < 7 {
            self.publish();
        }
    }

    fn send(&mut self, message: UtxoChanges) {
        let fault = self.node.rng.u8(..40);
        if self.link == Link::Loses && fault == 0 {
            self.damage();
            return;
        }
        if self.link == Link::Loses && fault == 1 {
            self.damage();
            self.queue.push_back(message.clone());
        }
        self.queue.push_back(message);
        let newest = self.queue.len() - 1;
        if self.link != Link::Good && newest > 0 && self.node.rng.u8(..3) == 0 {
            self.queue.swap(newest, newest - 1);
        }
    }

    fn damage(&mut self) {
        self.damaged_for = Some(0);
        self.losses += 1;
    }

    fn deliver(&mut self, messages: usize) {
        for message in self.queue.drain(..messages) {
            self.follower.chain.apply_utxos_changed(&message);
        }
    }

    /// A reorganization may reach further than one of the node's: several of them are between two replies.
    fn poll(&mut self) {
        let sink = self.follower.chain.sink().hash;
        let (removed, added) = self.node.chain_from(sink).expect("the node has our sink");
        self.follower.apply(&removed, added).expect("an honest node");
    }

    fn publish(&mut self) {
        self.follower.publish();
        let status = self.follower.reader.status();
        let model = self.node.block(&status.sink.hash).expect("the node has our sink");
        let sink = self.follower.read(Commitment::Confirmed);
        assert_same(&model.utxos, &sink, "the selected chain");
        let root = self.node.block(&status.root.hash);
        if let Some(root) = root {
            assert_same(&root.utxos, &self.follower.read(Commitment::Finalized), "the root");
        }
        self.follower.read(Commitment::Processed);
    }

    /// Delivers everything, and compares the virtual state.
    fn settle(&mut self) {
        self.deliver(self.queue.len());
        self.poll();
        self.publish();
        self.check_history();
        let check = self.follower.chain.check_template(&self.node.template());
        if let Some(checks) = &mut self.damaged_for {
            *checks += 1;
            assert!(*checks <= RECOVERY_CHECKS_MAX, "the virtual state does not recover");
            if check != TemplateCheck::Matched {
                return;
            }
            self.damaged_for = None;
        }
        assert_eq!(check, TemplateCheck::Matched);
        assert_eq!(self.follower.chain.virtual_mode(), VirtualMode::Exact);
        let status = self.follower.reader.status();
        assert_eq!(status.virtual_daa_score, self.node.virtual_daa_score());
        assert_eq!(status.sink.hash, self.node.sink().accepting.hash);
        let processed = self.follower.read(Commitment::Processed);
        assert_same(self.node.virtual_utxos(), &processed, "the virtual state");
        self.virtual_comparisons += 1;
        if self.losses == 0 {
            assert_eq!(status.virtual_state.losses, 0, "no message was lost");
        }
    }

    /// The history has the transactions of the newest blocks, and no others.
    fn check_history(&self) {
        let history = self.follower.reader.history();
        let sink = self.node.sink().accepting.header.blue_score;
        let mut transactions = 0;
        let mut newest = None;
        for block in self.node.newest_blocks(history.blocks_len()) {
            let block = &block.accepting;
            for accepted in &block.transactions {
                transactions += 1;
                let found = history.transaction(&accepted.id).expect("a recent transaction");
                assert_eq!(found.accepted, accepted);
                assert_eq!(found.accepting_block, block.hash);
                assert_eq!(found.confirmations, sink - block.header.blue_score);
                newest = Some(found.position);
            }
        }
        assert_eq!(history.transactions_len(), transactions);
        let Some(newest) = newest.and_then(|position| history.transaction_at(position)) else {
            return;
        };
        // All of them are found by the script of one of the newest transaction's outputs.
        let script = newest.accepted.transaction.outputs[0].script_public_key.ledger_address();
        let mut found = Vec::new();
        let mut before: Option<TransactionPosition> = None;
        loop {
            let page = history.script_transactions(&script, before, 7);
            found.extend(page.transactions.iter().map(|found| found.accepted.id));
            before = page.next_before;
            if before.is_none() {
                break;
            }
        }
        let mut expected = Vec::new();
        for block in self.node.newest_blocks(history.blocks_len()) {
            for accepted in &block.accepting.transactions {
                let outputs = accepted.transaction.outputs.iter();
                let spent = accepted.spent.iter().map(|entry| &entry.script_public_key);
                let mut scripts = outputs.map(|output| &output.script_public_key).chain(spent);
                if scripts.any(|own| own.ledger_address() == script) {
                    expected.push(accepted.id);
                }
            }
        }
        expected.reverse();
        assert_eq!(found, expected);
    }
}

/// Runs a number of steps with one kind of link.
///
/// Panics at the first difference between the chain and the model.
pub fn run_model(seed: u64, link: Link, steps: u64) -> ModelReport {
    let mut world = World::new(seed, link);
    for step in 1..=steps {
        world.step();
        if step.is_multiple_of(SETTLE_STEPS) {
            world.settle();
        }
    }
    let status = world.follower.reader.status();
    ModelReport {
        counters: status.counters,
        losses: status.virtual_state.losses,
        virtual_comparisons: world.virtual_comparisons,
    }
}

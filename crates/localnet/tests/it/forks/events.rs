//! The events of forks: every frozen block ends once, reverted blocks come newest first and before what replaces them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use chain_solana::{EventSink, ForkTransactions, LedgerEvent, RevertReason};
use ledger::BlockId;
use localnet::Config;
use solana_keypair::Keypair;
use solana_signer::Signer;

use super::{SOL, manual, pay};
use crate::fixture::{CLIENT, Node, on_demand};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<LedgerEvent>>>);

impl EventSink for Log {
    fn send(&mut self, event: &LedgerEvent) {
        self.0.lock().expect("no panic").push(event.clone());
    }

    fn needs_account_updates(&self) -> bool {
        true
    }
}

impl Log {
    /// A line for each event about a whole block.
    fn lines(&self) -> Vec<(&'static str, BlockId)> {
        let line = |event: &LedgerEvent| match event {
            LedgerEvent::BankCreated { block, .. } => Some(("created", *block)),
            LedgerEvent::Frozen { block, .. } => Some(("frozen", block.id)),
            LedgerEvent::TipMoved { block } => Some(("tip", *block)),
            LedgerEvent::Confirmed { block, .. } => Some(("confirmed", block.id)),
            LedgerEvent::Rooted { block, .. } => Some(("rooted", block.id)),
            LedgerEvent::Reverted { block, reason, .. } => {
                assert!(matches!(reason, RevertReason::Dead { .. }));
                Some(("reverted", block.id))
            }
            _ => None,
        };
        self.0.lock().expect("no panic").iter().filter_map(line).collect()
    }

    fn clear(&self) {
        self.0.lock().expect("no panic").clear();
    }
}

fn start(config: &Config) -> (Node, Log) {
    let log = Log::default();
    let localnet = localnet::open(config).expect("the ledger opens");
    let node = Node::run_with(localnet, vec![Box::new(log.clone())]);
    (node, log)
}

#[test]
fn left_blocks_are_reverted_newest_first_before_the_new_fork() {
    let (node, log) = start(&Config { finalize_after: 9, ..manual() });
    node.forks.mine(CLIENT, 12).wait().expect("blocks");
    log.clear();
    node.forks.reorg(CLIENT, 2, ForkTransactions::Reexecute).wait().expect("not too deep");
    let lines: Vec<(&str, u64)> =
        log.lines().into_iter().map(|(name, block)| (name, block.slot)).collect();
    let block = |slot| [("frozen", slot), ("tip", slot), ("confirmed", slot)];
    let mut expected = vec![("frozen", 13), ("reverted", 13), ("reverted", 12), ("reverted", 11)];
    expected.push(("created", 14));
    expected.extend(block(14));
    expected.push(("created", 15));
    expected.extend(block(15));
    expected.push(("created", 16));
    expected.extend(block(16));
    expected.extend([("rooted", 4), ("created", 17)]);
    assert_eq!(lines, expected);
    node.stop();
}

#[test]
fn every_block_ends_once_and_every_id_is_given_once() {
    let (node, log) = start(&Config { finalize_after: 2, ..on_demand() });
    let alice = Keypair::new();
    let bob = Keypair::new().pubkey();
    node.airdrop(&alice.pubkey(), SOL);
    for n in 1..=6 {
        let id = node.forks.snapshot(CLIENT).wait().expect("a snapshot");
        node.send(pay(&node, &alice, &bob, n * 1_000_000));
        node.forks.mine(CLIENT, n).wait().expect("blocks");
        node.forks.reorg(CLIENT, 1, ForkTransactions::Reexecute).wait().expect("not too deep");
        if n % 2 == 0 {
            node.forks.revert(CLIENT, id).wait().expect("it exists");
        }
    }
    let mut created = BTreeSet::new();
    let mut frozen = BTreeSet::new();
    let mut ended = BTreeSet::new();
    for (name, block) in log.lines() {
        match name {
            "created" => {
                assert!(created.last().is_none_or(|last: &BlockId| last.slot < block.slot));
                assert!(created.insert(block));
            }
            "frozen" => assert!(created.contains(&block) && frozen.insert(block)),
            // A block that was final may be reverted, and then nothing more is heard of it.
            "reverted" => assert!(frozen.contains(&block) && ended.insert(block)),
            _ => assert!(frozen.contains(&block) && !ended.contains(&block), "{name} {block:?}"),
        }
    }
    assert!(ended.len() > 12);
    node.stop();
}

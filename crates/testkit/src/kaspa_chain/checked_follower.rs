//! A chain that follows a model of a node, and a copy of its virtual UTXO set that is made of events only.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chain_kaspa::{
    Chain, ChainConfig, ChainEvent, ChainLoader, ChainReader, LedgerBlock, NetChanges, StepError,
    Tips, View, all_utxos, script_totals,
};
use kaspa::{AcceptingBlock, Hash, Header, Totals};
use ledger::{Address, BlockId, Commitment};

use super::model_node::{ModelNode, Utxos};

/// A chain, and a copy of its virtual UTXO set that is made of events only.
///
/// Panics: a comparison finds a difference.
pub struct CheckedFollower {
    /// The chain.
    pub chain: Chain,
    /// The readers' access to it.
    pub reader: ChainReader,
    blocks: HashMap<BlockId, Arc<LedgerBlock>>,
    processed: BlockId,
    /// The processed UTXO set, by the net changes of each publication.
    mirror: Utxos,
}

impl CheckedFollower {
    /// Follows from a first block without UTXOs.
    pub fn new(config: ChainConfig, header: Header) -> Self {
        let processed = BlockId { slot: header.daa_score, version: 0 };
        let chain = ChainLoader::new(config, header).finish().expect("an empty set");
        let reader = chain.reader();
        Self { chain, reader, blocks: HashMap::new(), processed, mirror: Utxos::new() }
    }

    /// Applies a reply to getVirtualChainFromBlockV2.
    pub fn apply(&mut self, removed: &[Hash], added: Vec<AcceptingBlock>) -> Result<(), StepError> {
        let mut step = self.chain.start_step(removed)?;
        for block in added {
            step.add_block(block)?;
        }
        step.commit();
        Ok(())
    }

    /// Asks a node for the chain from our sink.
    pub fn poll(&mut self, node: &ModelNode) -> Result<(), StepError> {
        let sink = self.chain.sink().hash;
        let (removed, added) = node.chain_from(sink).expect("the node has our sink");
        self.apply(&removed, added)
    }

    /// Publishes, and applies the events to the copy.
    pub fn publish(&mut self) {
        let publication = self.chain.publish().expect("a publication");
        for event in &publication.events {
            match event {
                ChainEvent::BlockAdded(block) => {
                    self.blocks.insert(block.id, Arc::clone(block));
                }
                ChainEvent::TipsMoved(tips) => self.move_mirror(*tips),
                ChainEvent::BlockDropped(block) => {
                    assert_ne!(*block, self.processed);
                }
                _ => {}
            }
        }
        drop(publication);
        self.chain.reclaim();
        let view = self.reader.utxos.view(Commitment::Processed);
        assert_eq!(view.block(), self.processed);
        assert_same(&self.mirror, &read_set(&view), "events and state");
    }

    fn move_mirror(&mut self, tips: Tips) {
        let mut left = self.processed;
        let mut entered = tips.processed;
        let mut net = NetChanges::default();
        let mut applied = Vec::new();
        while left != entered {
            if left.slot > entered.slot || (left.slot == entered.slot && left > entered) {
                let block = &self.blocks[&left];
                net.revert(&block.changes);
                left = block.parent;
            } else {
                let block = &self.blocks[&entered];
                applied.push(block);
                entered = block.parent;
            }
        }
        applied.into_iter().rev().for_each(|block| net.apply(&block.changes));
        let addresses = self.reader.utxos.addresses();
        for removed in net.removed_utxos() {
            let utxo = &removed.utxo;
            assert_eq!(addresses.address(removed.script_id).as_ref(), Some(utxo.script()));
            assert_eq!(self.mirror.remove(&utxo.outpoint()), Some(utxo.to_entry()));
        }
        for added in net.added_utxos() {
            let utxo = &added.utxo;
            assert_eq!(addresses.address(added.script_id).as_ref(), Some(utxo.script()));
            assert_eq!(self.mirror.insert(utxo.outpoint(), utxo.to_entry()), None);
        }
        self.processed = tips.processed;
        self.blocks.retain(|id, _| id.slot >= tips.finalized.slot);
    }

    /// Reads a UTXO set and checks the totals of each script.
    pub fn read(&self, commitment: Commitment) -> Utxos {
        let view = self.reader.utxos.view(commitment);
        let set = read_set(&view);
        let mut totals: BTreeMap<Address, Totals> = BTreeMap::new();
        for entry in set.values() {
            let sums = totals.entry(entry.script_public_key.ledger_address()).or_default();
            sums.amount += entry.amount;
            sums.count += 1;
            sums.with_covenant += u64::from(entry.covenant_id.is_some());
        }
        for (script, sums) in &totals {
            assert_eq!(script_totals(&view, script), *sums);
        }
        let supply = view.meta().supply;
        assert_eq!(supply.utxos, set.len() as u64);
        assert_eq!(supply.sompi, totals.values().map(|sums| sums.amount).sum::<u64>());
        set
    }
}

/// Reads the UTXO set of a view. Panics if an outpoint is in it twice.
fn read_set(view: &View) -> Utxos {
    let mut set = Utxos::new();
    for (outpoint, entry) in all_utxos(view) {
        assert_eq!(set.insert(outpoint, entry), None, "{outpoint:?} is there twice");
    }
    set
}

/// Compares two sets, and prints only what differs.
pub fn assert_same(expected: &Utxos, found: &Utxos, what: &str) {
    if expected == found {
        return;
    }
    let missing: Vec<_> =
        expected.iter().filter(|(at, utxo)| found.get(*at) != Some(*utxo)).collect();
    let extra: Vec<_> =
        found.iter().filter(|(at, utxo)| expected.get(*at) != Some(*utxo)).collect();
    panic!("{what}: missing {missing:#?}, extra {extra:#?}");
}

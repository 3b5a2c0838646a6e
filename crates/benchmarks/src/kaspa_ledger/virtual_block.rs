//! The transactions that the virtual block accepts, and the messages of a kaspad about them.
//!
//! Shape: a message is the difference between two virtual UTXO sets. A chain block that accepts the same transactions
//! leaves no difference between the virtual set and the sink's.

use anyhow::{Result, bail};
use kaspa::{
    AcceptedTransaction, AcceptingBlock, AddressUtxo, BorshServerMessage, Notification, Outpoint,
    Prefix, UtxoChanges, UtxoEntry,
};
use testkit::kaspa_chain::{BlockBuilder, PooledTransaction, UtxoPool};

/// Inputs and outputs of a transaction.
const INPUTS: usize = 2;
const OUTPUTS: usize = 2;

/// The blocks above a UTXO set, and the transactions of the virtual block.
pub(crate) struct VirtualBlock {
    pub(crate) builder: BlockBuilder,
    pool: UtxoPool,
    accepted: Vec<PooledTransaction>,
}

impl VirtualBlock {
    /// Creates a virtual block that accepts nothing.
    pub(crate) fn new(builder: BlockBuilder, pool: UtxoPool) -> Self {
        Self { builder, pool, accepted: Vec::new() }
    }

    /// Replaces the transactions by `count` others, but for those at the retained positions. Returns the message.
    pub(crate) fn replace(
        &mut self,
        count: usize,
        is_retained: impl Fn(usize) -> bool,
    ) -> UtxoChanges {
        let daa_score = self.builder.next_daa_score();
        let before = std::mem::take(&mut self.accepted);
        let mut changes = UtxoChanges::default();
        let mut dropped = Vec::new();
        for (at, transaction) in before.into_iter().enumerate() {
            if at < count && is_retained(at) {
                self.accepted.push(transaction);
            } else {
                dropped.push(transaction);
            }
        }
        while self.accepted.len() < count {
            let transaction = self.pool.make_transaction(INPUTS, OUTPUTS);
            changes.added.extend(created_utxos(&transaction.accepted, daa_score));
            changes.removed.extend(spent_utxos(&transaction.accepted));
            self.accepted.push(transaction);
        }
        // They are not spent by the new ones, so that no UTXO is in both lists.
        for transaction in dropped {
            changes.removed.extend(created_utxos(&transaction.accepted, daa_score));
            changes.added.extend(spent_utxos(&transaction.accepted));
            self.pool.restore_inputs(&transaction);
        }
        changes
    }

    /// Makes the chain block that accepts the transactions. The virtual block above it accepts nothing.
    pub(crate) fn build_chain_block(&mut self) -> AcceptingBlock {
        let daa_score = self.builder.next_daa_score();
        let accepted = std::mem::take(&mut self.accepted);
        accepted.iter().for_each(|transaction| self.pool.add_outputs(transaction, daa_score));
        let accepted = accepted.into_iter().map(|transaction| transaction.accepted);
        self.builder.build_block(accepted.collect())
    }
}

/// Decodes a message about the virtual block, as a kaspad sends it and as clients get it.
pub(crate) fn decode_utxos_changed(frame: &[u8]) -> Result<UtxoChanges> {
    match BorshServerMessage::parse(frame)? {
        BorshServerMessage::Notification { event, payload } => {
            match Notification::decode_borsh(event, payload)? {
                Notification::UtxosChanged(changes) => Ok(changes),
                other => bail!("a notification of {:?}", other.event()),
            }
        }
        BorshServerMessage::Reply(reply) => bail!("a reply to request {}", reply.id),
    }
}

fn created_utxos(
    accepted: &AcceptedTransaction,
    daa_score: u64,
) -> impl Iterator<Item = AddressUtxo> {
    (0..).zip(&accepted.transaction.outputs).map(move |(index, output)| {
        let outpoint = Outpoint { transaction_id: accepted.id, index };
        to_address_utxo(outpoint, output.to_utxo(daa_score, false))
    })
}

fn spent_utxos(accepted: &AcceptedTransaction) -> impl Iterator<Item = AddressUtxo> {
    let inputs = accepted.transaction.inputs.iter().zip(&accepted.spent);
    inputs.map(|(input, entry)| to_address_utxo(input.previous_outpoint, entry.clone()))
}

fn to_address_utxo(outpoint: Outpoint, entry: UtxoEntry) -> AddressUtxo {
    AddressUtxo { address: entry.script_public_key.address(Prefix::Simnet), outpoint, entry }
}

//! Acceptance of merged transactions by a chain block, or by the virtual block.
//!
//! The checks are a subset of those of kaspad: spent outputs exist and are spent once, coinbases are mature, and
//! amounts add up. Scripts, locks and mass are not checked.

use std::collections::HashSet;

use kaspa::{Hash, Outpoint, Transaction, UtxoEntry};
use muhash::MuHash;

use super::blocks::{Accepted, Blocks, ChainState, Ghostdag, Reward};
use super::coinbase::CoinbasePayload;
use super::utxo_diff::UtxoDiff;
use super::utxo_set::{UtxoSet, UtxoView};

/// Why a transaction cannot be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidSpend {
    /// An output does not exist, or is spent.
    Missing(Outpoint),
    /// Two inputs spend the same output.
    Repeated,
    /// The output of a coinbase is too young.
    Immature(Outpoint),
    /// The outputs exceed the inputs.
    Overspent,
}

/// Returns the outputs that a transaction spends. `daa_score` is that of the accepting block.
pub(crate) fn check_spend<'a>(
    transaction: &Transaction,
    daa_score: u64,
    coinbase_maturity: u64,
    find: impl Fn(&Outpoint) -> Option<&'a UtxoEntry>,
) -> Result<Vec<UtxoEntry>, InvalidSpend> {
    let mut spent = Vec::with_capacity(transaction.inputs.len());
    let mut outpoints = HashSet::with_capacity(transaction.inputs.len());
    for input in &transaction.inputs {
        let outpoint = input.previous_outpoint;
        if !outpoints.insert(outpoint) {
            return Err(InvalidSpend::Repeated);
        }
        let entry = find(&outpoint).ok_or(InvalidSpend::Missing(outpoint))?;
        if entry.is_coinbase && entry.block_daa_score + coinbase_maturity > daa_score {
            return Err(InvalidSpend::Immature(outpoint));
        }
        spent.push(entry.clone());
    }
    if fee(transaction, &spent).is_some() { Ok(spent) } else { Err(InvalidSpend::Overspent) }
}

/// Returns the fee of a transaction in sompi. `None` if its outputs exceed its inputs.
pub(crate) fn fee(transaction: &Transaction, spent: &[UtxoEntry]) -> Option<u64> {
    let inputs: u64 = spent.iter().map(|entry| entry.amount).sum();
    let outputs: u64 = transaction.outputs.iter().map(|output| output.amount).sum();
    inputs.checked_sub(outputs)
}

/// Accepts the transactions of the merged blocks. `set` is at the selected parent.
pub(crate) fn accept_merged(
    blocks: &Blocks,
    set: &UtxoSet,
    ghostdag: &Ghostdag,
    coinbase_maturity: u64,
) -> ChainState {
    let mut mu_hash = selected_product(blocks, ghostdag);
    let mut diff = UtxoDiff::default();
    let mut accepted = Vec::new();
    let mut rewards = Vec::new();
    for (order, hash) in ghostdag.merge_order.iter().enumerate() {
        let block = blocks.expect_block(hash);
        let view = UtxoView { set, diff: &diff };
        let mut valid = Vec::new();
        let mut fees = 0;
        for (index, transaction) in block.transactions.iter().enumerate() {
            if transaction.is_coinbase() {
                // Only that of the selected parent.
                if order == 0 {
                    valid.push(Accepted { block: *hash, index, spent: Vec::new() });
                }
                continue;
            }
            let find = |outpoint: &Outpoint| view.find(outpoint);
            let checked = check_spend(transaction, ghostdag.daa_score, coinbase_maturity, find);
            if let Ok(spent) = checked {
                fees += fee(transaction, &spent).unwrap_or(0);
                valid.push(Accepted { block: *hash, index, spent });
            }
        }
        for accepted in &valid {
            let id = block.transaction_ids[accepted.index];
            let transaction = &block.transactions[accepted.index];
            apply_transaction(&mut diff, transaction, id, &accepted.spent, ghostdag.daa_score);
        }
        accepted.append(&mut valid);
        let payload = CoinbasePayload::parse(&block.transactions[0].payload);
        let amount = payload.subsidy + fees;
        rewards.push(Reward { block: *hash, amount, script: payload.script });
    }
    // An output that is created and spent here has cancelled out.
    diff.added.iter().for_each(|(outpoint, entry)| mu_hash.add(&entry.element(outpoint)));
    diff.removed.iter().for_each(|(outpoint, entry)| mu_hash.remove(&entry.element(outpoint)));
    mu_hash.normalize();
    ChainState { accepted, rewards, diff, mu_hash }
}

fn selected_product(blocks: &Blocks, ghostdag: &Ghostdag) -> MuHash {
    let selected = ghostdag.selected_parent.map(|hash| blocks.expect_block(&hash));
    let state = selected.and_then(|block| block.state.as_ref());
    state.map_or(MuHash::EMPTY, |state| state.mu_hash.clone())
}

fn apply_transaction(
    diff: &mut UtxoDiff,
    transaction: &Transaction,
    id: Hash,
    spent: &[UtxoEntry],
    daa_score: u64,
) {
    for (input, entry) in transaction.inputs.iter().zip(spent) {
        diff.remove(input.previous_outpoint, entry.clone());
    }
    for (index, output) in (0..).zip(&transaction.outputs) {
        let outpoint = Outpoint { transaction_id: id, index };
        diff.add(outpoint, output.to_utxo(daa_score, transaction.is_coinbase()));
    }
}

//! The outputs that a block spends, if it was requested in pieces: a block in its own encoding does not have them.
//!
//! In: a block, and the published state of the chain. Out: the block with one output for each input.
//! Shape: an output is searched in the block itself, among those that blocks spend which leave the chain, in the history,
//! and in the whole UTXO set. The last two may have outputs of blocks that leave.
//! Cost: a lookup for each input. If the history lacks an output, one pass over all UTXOs: some 0.2 s for each million.
//! Not here: whether the outputs are true: the chain compares each with its set.

use chain_kaspa::{ChainReader, HistorySnapshot, all_utxos};
use foldhash::{HashMap, HashMapExt, HashSet};
use kaspa::{AcceptingBlock, Outpoint, UtxoEntry};
use ledger::Commitment;

use crate::source_error::SourceError;

/// Adds the spent outputs to a block. `restored` are those that are spent by blocks that leave the chain.
pub(crate) fn fill_spent(
    block: &mut AcceptingBlock,
    reader: &ChainReader,
    restored: &HashMap<Outpoint, UtxoEntry>,
) -> Result<(), SourceError> {
    let history = reader.history();
    let mut created = HashMap::new();
    let mut found = HashMap::new();
    let mut missing = HashSet::default();
    for accepted in &block.transactions {
        let transaction = &accepted.transaction;
        for input in &transaction.inputs {
            let outpoint = input.previous_outpoint;
            let entry = created.remove(&outpoint).or_else(|| restored.get(&outpoint).cloned());
            let entry = entry.or_else(|| find_output(&history, outpoint));
            if let Some(entry) = entry {
                found.insert(outpoint, entry);
            } else {
                missing.insert(outpoint);
            }
        }
        let is_coinbase = transaction.is_coinbase();
        for (index, output) in (0..).zip(&transaction.outputs) {
            let outpoint = Outpoint { transaction_id: accepted.id, index };
            created.insert(outpoint, output.to_utxo(block.header.daa_score, is_coinbase));
        }
    }
    find_in_set(reader, &mut missing, &mut found);
    for accepted in &mut block.transactions {
        for input in &accepted.transaction.inputs {
            let outpoint = input.previous_outpoint;
            let entry = found.get(&outpoint).cloned();
            accepted.spent.push(entry.ok_or(SourceError::UnknownOutput { outpoint })?);
        }
    }
    Ok(())
}

/// Returns an output of a recent transaction.
fn find_output(history: &HistorySnapshot, outpoint: Outpoint) -> Option<UtxoEntry> {
    let found = history.transaction(&outpoint.transaction_id)?;
    let transaction = &found.accepted.transaction;
    let output = transaction.outputs.get(usize::try_from(outpoint.index).ok()?)?;
    Some(output.to_utxo(found.accepting_daa_score, transaction.is_coinbase()))
}

/// Moves outputs that the UTXO set has from `missing` to `found`.
fn find_in_set(
    reader: &ChainReader,
    missing: &mut HashSet<Outpoint>,
    found: &mut HashMap<Outpoint, UtxoEntry>,
) {
    if missing.is_empty() {
        return;
    }
    let view = reader.utxos.view(Commitment::Confirmed);
    for (outpoint, entry) in all_utxos(&view) {
        if missing.remove(&outpoint) {
            found.insert(outpoint, entry);
            if missing.is_empty() {
                return;
            }
        }
    }
}

//! Messages of the source about its virtual block.

use foldhash::{HashMap, HashSet};
use kaspa::{Block, BlockTemplate, Outpoint, StoredUtxo, Transaction, UtxoChanges};

use crate::chain::Chain;
use crate::history::HistorySnapshot;
use crate::overlay::Differences;
use crate::records::find_utxo;
use crate::script_utxo::ScriptUtxo;
use crate::virtual_state::{TemplateCheck, VirtualMode};

/// The effect of the transactions that the virtual block accepts, as far as it is known.
struct AcceptedEffects {
    differences: Differences,
    /// Outpoints of the removed UTXOs.
    spent: HashSet<Outpoint>,
    /// Outputs that one of the transactions made, and none spent.
    created: HashMap<Outpoint, ScriptUtxo>,
    /// Transactions with an input that is not known.
    unknown: usize,
}

impl Chain {
    /// Starts to apply messages about the virtual state. Call it once the source has confirmed the subscription to all
    /// changes of UTXOs, and before its first message is applied. Nothing happens after a refused block.
    pub fn join_virtual(&mut self) {
        if self.refused.is_none() {
            self.virtual_state.restart(VirtualMode::Joining);
        }
    }

    /// Applies a message about the virtual UTXO set. Messages may come before or after the chain blocks that they are
    /// about. Nothing happens unless the virtual state was joined.
    ///
    /// Cost: two lookups for each UTXO.
    pub fn apply_utxos_changed(&mut self, changes: &UtxoChanges) {
        let Self { ledger, virtual_state, window, .. } = self;
        let sink = window.sink().block.id;
        let in_chain = |utxo: &ScriptUtxo| find_utxo(ledger, sink, utxo);
        virtual_state.apply_message(changes, &in_chain);
    }

    /// Sets the DAA score that the source announced for its virtual block. It is shown once a message with that score was
    /// applied, so that a client that is notified of it and then reads finds it. Nothing happens after a refused block.
    pub fn announce_virtual_daa_score(&mut self, daa_score: u64) {
        if self.refused.is_none() {
            self.virtual_state.announce_daa_score(daa_score);
        }
    }

    /// Shows the announced score in any case: a virtual block that accepts nothing has no message. Nothing happens after
    /// a refused block.
    pub fn release_virtual_daa_score(&mut self) {
        if self.refused.is_none() {
            self.virtual_state.release_daa_score();
        }
    }

    /// Compares the virtual UTXO set with the commitment of a block template. Once they are equal the virtual state is
    /// exact.
    ///
    /// Cost: 5 µs for each UTXO in which it differs from the sink's, and a division.
    pub fn check_template(&mut self, template: &BlockTemplate) -> TemplateCheck {
        let Self { ledger, virtual_state, window, .. } = self;
        let sink = window.sink();
        let sink_id = sink.block.id;
        let in_chain = |utxo: &ScriptUtxo| find_utxo(ledger, sink_id, utxo);
        virtual_state.check_template(template, sink, &in_chain)
    }

    /// Sets the virtual state to the effect of the blocks that the virtual block merges, if it is joining: the sink, which
    /// comes first, and the others in the order of acceptance. A block template shows whether that is all of it. Messages
    /// continue from there.
    ///
    /// A transaction is left out if an earlier one spends the same output, or if the history does not have an output that
    /// it spends: a block in its own encoding does not say which script an input spends. Returns their number. `None` if
    /// the first block is not the sink.
    pub fn seed_virtual(&mut self, merged: &[Block], virtual_daa_score: u64) -> Option<usize> {
        let sink = self.window.sink();
        let sink_block = merged.first()?;
        if sink_block.hash != sink.block.info.hash || sink_block.header.hash() != sink_block.hash {
            return None;
        }
        let mut effects = AcceptedEffects {
            differences: Differences { removed: Vec::new(), added: Vec::new() },
            spent: HashSet::default(),
            created: HashMap::default(),
            unknown: 0,
        };
        let sink_id = sink.block.id;
        let Self { ledger, virtual_state, history, .. } = self;
        let in_chain = |utxo: &ScriptUtxo| find_utxo(ledger, sink_id, utxo);
        for block in merged {
            // Of the rewards only that of the sink is accepted.
            let is_sink = block.hash == sink_block.hash;
            let transactions = block.transactions.iter();
            for transaction in transactions.filter(|it| is_sink || !it.is_coinbase()) {
                effects.accept(transaction, virtual_daa_score, history.newest(), &in_chain);
            }
        }
        let AcceptedEffects { mut differences, created, unknown, .. } = effects;
        differences.added.extend(created.into_values());
        virtual_state.set_differences(&differences, virtual_daa_score, &in_chain);
        Some(unknown)
    }

    /// Handles that the source replaced its whole UTXO set: clients are notified, and the virtual state is joined again.
    /// The chain continues if the source still has our sink, and otherwise starts from a snapshot. Nothing happens after
    /// a refused block.
    pub fn handle_utxo_set_override(&mut self) {
        if self.refused.is_some() {
            return;
        }
        self.pending.is_replaced = true;
        if self.virtual_state.mode() != VirtualMode::Off {
            self.virtual_state.restart(VirtualMode::Joining);
        }
    }
}

impl AcceptedEffects {
    fn accept(
        &mut self,
        transaction: &Transaction,
        daa_score: u64,
        history: &HistorySnapshot,
        in_chain: &dyn Fn(&ScriptUtxo) -> Option<StoredUtxo>,
    ) {
        let outpoints = transaction.inputs.iter().map(|input| input.previous_outpoint);
        let mut spent = Vec::with_capacity(transaction.inputs.len());
        for outpoint in outpoints {
            if self.created.contains_key(&outpoint) {
                continue;
            }
            let is_unspent = |utxo: &ScriptUtxo| {
                !self.spent.contains(&outpoint) && in_chain(utxo) == Some(utxo.utxo())
            };
            let Some(utxo) = find_output(history, outpoint).filter(is_unspent) else {
                self.unknown += 1;
                return;
            };
            spent.push(utxo);
        }
        for input in &transaction.inputs {
            self.created.remove(&input.previous_outpoint);
        }
        self.spent.extend(spent.iter().map(ScriptUtxo::outpoint));
        self.differences.removed.extend(spent);
        let transaction_id = transaction.id();
        for (index, output) in (0..).zip(&transaction.outputs) {
            let outpoint = Outpoint { transaction_id, index };
            let entry = output.to_utxo(daa_score, transaction.is_coinbase());
            self.created.insert(outpoint, ScriptUtxo::new(outpoint, &entry));
        }
    }
}

/// Returns an output of a recent transaction.
fn find_output(history: &HistorySnapshot, outpoint: Outpoint) -> Option<ScriptUtxo> {
    let found = history.transaction(&outpoint.transaction_id)?;
    let transaction = &found.accepted.transaction;
    let output = transaction.outputs.get(usize::try_from(outpoint.index).ok()?)?;
    let entry = output.to_utxo(found.accepting_daa_score, transaction.is_coinbase());
    Some(ScriptUtxo::new(outpoint, &entry))
}

//! Messages of the source about its virtual block.

use foldhash::{HashMap, HashSet};
use kaspa::{Block, BlockTemplate, Hash, Outpoint, StoredUtxo, Transaction, UtxoChanges};
use ledger::Commitment;

use crate::chain::Chain;
use crate::history::HistorySnapshot;
use crate::overlay::Differences;
use crate::records::find_utxo;
use crate::script_utxo::ScriptUtxo;
use crate::script_utxos::all_utxos;
use crate::virtual_state::{TemplateCheck, VirtualMode};

/// The most UTXOs of a set that is read for outputs that the history does not have: some 0.2 s of the writer. On a larger
/// network blocks follow each other, and the next ones complete the virtual state.
const READ_UTXOS_MAX: u64 = 1_000_000;

/// The outputs that transactions of the virtual block may spend.
struct KnownOutputs<'a> {
    history: &'a HistorySnapshot,
    /// Outputs of the sink's set that are older than the history.
    older: HashMap<Outpoint, ScriptUtxo>,
}

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
    /// A transaction is left out if an earlier one spends the same output, or if an output that it spends is not known: a
    /// block in its own encoding does not say which script an input spends. Outputs are searched in the history, and in
    /// the published set if it has at most a million UTXOs. Returns the number of transactions that are left out. `None`
    /// if the first block is not the sink.
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
        let older = self.find_older_outputs(merged);
        let Self { ledger, virtual_state, history, .. } = self;
        let outputs = KnownOutputs { history: history.newest(), older };
        let in_chain = |utxo: &ScriptUtxo| find_utxo(ledger, sink_id, utxo);
        for block in merged {
            // Of the rewards only that of the sink is accepted.
            let is_sink = block.hash == sink_block.hash;
            let transactions = block.transactions.iter();
            for transaction in transactions.filter(|it| is_sink || !it.is_coinbase()) {
                effects.accept(transaction, virtual_daa_score, &outputs, &in_chain);
            }
        }
        let AcceptedEffects { mut differences, created, unknown, .. } = effects;
        differences.added.extend(created.into_values());
        virtual_state.set_differences(&differences, virtual_daa_score, &in_chain);
        Some(unknown)
    }

    /// Finds the outputs that these blocks spend and that the history does not have: after a start from a snapshot it has
    /// only newer transactions. Cost: a pass over the sink's set, if there is such an output.
    fn find_older_outputs(&self, merged: &[Block]) -> HashMap<Outpoint, ScriptUtxo> {
        let mut found = HashMap::default();
        let sink = &self.window.sink().block.info;
        let history = self.history.newest();
        let transactions = || merged.iter().flat_map(|block| &block.transactions);
        let own_ids: HashSet<Hash> = transactions().map(Transaction::id).collect();
        let inputs = transactions().flat_map(|transaction| &transaction.inputs);
        let outpoints = inputs.map(|input| input.previous_outpoint);
        let is_older = |outpoint: &Outpoint| {
            let id = &outpoint.transaction_id;
            !own_ids.contains(id) && history.transaction(id).is_none()
        };
        let mut missing: HashSet<Outpoint> = outpoints.filter(is_older).collect();
        let view = self.reader.view(Commitment::Confirmed);
        let can_read = sink.supply.utxos <= READ_UTXOS_MAX && view.meta().hash == sink.hash;
        if missing.is_empty() || !can_read {
            return found;
        }
        for (outpoint, entry) in all_utxos(&view) {
            if missing.remove(&outpoint) {
                found.insert(outpoint, ScriptUtxo::new(outpoint, &entry));
                if missing.is_empty() {
                    break;
                }
            }
        }
        found
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
        outputs: &KnownOutputs<'_>,
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
            let Some(utxo) = outputs.find(outpoint).filter(is_unspent) else {
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

impl KnownOutputs<'_> {
    fn find(&self, outpoint: Outpoint) -> Option<ScriptUtxo> {
        if let Some(older) = self.older.get(&outpoint) {
            return Some(older.clone());
        }
        let found = self.history.transaction(&outpoint.transaction_id)?;
        let transaction = &found.accepted.transaction;
        let output = transaction.outputs.get(usize::try_from(outpoint.index).ok()?)?;
        let entry = output.to_utxo(found.accepting_daa_score, transaction.is_coinbase());
        Some(ScriptUtxo::new(outpoint, &entry))
    }
}

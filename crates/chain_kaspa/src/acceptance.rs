//! The acceptance of a chain block: its checks, and the change that its transactions make to the UTXO set.
//!
//! Input: a chain block of getVirtualChainFromBlockV2, and the block below it. Output: the UTXOs that it creates and
//! spends, and their product.
//! Checked: the hash of the header, its first parent, its scores; the id of each transaction; each spent output, against
//! the UTXO set; the commitment, against the product. Since Toccata kaspad requires that the first parent of a chain
//! block is the chain block before it. A block from before Toccata that has it at another position is refused.
//! Not checked: proof of work, signatures, and which transactions a block should accept. So a source can forge a chain
//! without any work. The checks prove that headers, transactions and the UTXO set fit together, not that the network
//! has them.

use std::collections::hash_map::Entry;

use foldhash::HashMap;
use kaspa::{AcceptedTransaction, AcceptingBlock, Hash, Header, Outpoint, UtxoEntry};
use muhash::MuHash;

use crate::block_info::Supply;
use crate::records::RecordChanges;
use crate::refusal::{Refusal, UtxoError};
use crate::script_utxo::ScriptUtxo;

/// The most that a score grows with one chain block. kaspad limits the blocks that one block merges: to 248 on mainnet,
/// to at most 512 on any network. A larger step is a lie that could leave no scores for later blocks.
const SCORE_STEP_MAX: u64 = 513;

/// The chain block below the one that is accepted.
pub(crate) struct ParentBlock<'a> {
    pub(crate) hash: Hash,
    pub(crate) header: &'a Header,
    /// The lowest DAA score of a block above it.
    pub(crate) next_daa_score_min: u64,
    pub(crate) product: &'a MuHash,
    pub(crate) supply: Supply,
}

/// The effect of a chain block on the UTXO set.
pub(crate) struct Acceptance {
    /// Created outputs that the block itself does not spend.
    pub(crate) created: Vec<ScriptUtxo>,
    /// Spent outputs of earlier blocks.
    pub(crate) spent: Vec<ScriptUtxo>,
    /// The product over the UTXO set after the block.
    pub(crate) product: MuHash,
    pub(crate) supply: Supply,
}

/// Checks a block and writes its UTXOs into the records. If it is refused, the records are of no further use.
pub(crate) fn accept_block(
    block: &AcceptingBlock,
    parent: &ParentBlock<'_>,
    records: &mut RecordChanges<'_>,
) -> Result<Acceptance, Refusal> {
    check_header(block, parent)?;
    let mut set = BlockSet {
        records,
        created: CreatedUtxos::default(),
        spent: Vec::new(),
        product: parent.product.clone(),
        supply: parent.supply,
    };
    for accepted in &block.transactions {
        set.accept(accepted, block.header.daa_score)?;
    }
    let acceptance = set.finish()?;
    let computed = Hash(acceptance.product.finalize());
    let committed = block.header.utxo_commitment;
    if computed != committed {
        return Err(Refusal::WrongCommitment { computed, committed });
    }
    Ok(acceptance)
}

fn check_header(block: &AcceptingBlock, parent: &ParentBlock<'_>) -> Result<(), Refusal> {
    let header = &block.header;
    let computed = header.hash();
    if computed != block.hash {
        return Err(Refusal::WrongHash { computed });
    }
    let first_parent = header.parents.direct().first().copied();
    if first_parent != Some(parent.hash) {
        return Err(Refusal::WrongParent { parent: first_parent, expected: parent.hash });
    }
    let daa_score = header.daa_score;
    if daa_score < parent.next_daa_score_min {
        let parent = parent.header.daa_score;
        return Err(Refusal::DaaScoreNotIncreasing { daa_score, parent });
    }
    let blue_score = header.blue_score;
    if blue_score <= parent.header.blue_score {
        let parent = parent.header.blue_score;
        return Err(Refusal::BlueScoreNotIncreasing { blue_score, parent });
    }
    check_score_step("DAA", daa_score, parent.header.daa_score)?;
    check_score_step("blue", blue_score, parent.header.blue_score)
}

/// Checks that a score is not too far above that of the chain block before. The ledger needs a slot above it.
fn check_score_step(name: &'static str, score: u64, parent: u64) -> Result<(), Refusal> {
    let step = score.saturating_sub(parent);
    if step > SCORE_STEP_MAX || score == u64::MAX {
        return Err(Refusal::ScoreTooHigh { name, score, parent });
    }
    Ok(())
}

/// The UTXO set while the transactions of a block are accepted.
struct BlockSet<'r, 'l> {
    records: &'r mut RecordChanges<'l>,
    created: CreatedUtxos,
    spent: Vec<ScriptUtxo>,
    product: MuHash,
    supply: Supply,
}

/// The outputs that the block creates, in order. One that it spends again is `None`.
#[derive(Default)]
struct CreatedUtxos {
    utxos: Vec<Option<(Outpoint, UtxoEntry)>>,
    index: HashMap<Outpoint, usize>,
}

impl BlockSet<'_, '_> {
    fn accept(&mut self, accepted: &AcceptedTransaction, daa_score: u64) -> Result<(), Refusal> {
        let AcceptedTransaction { id, transaction, spent, .. } = accepted;
        let computed = transaction.id();
        if computed != *id {
            return Err(Refusal::WrongTransactionId { claimed: *id, computed });
        }
        let inputs = transaction.inputs.len();
        if inputs != spent.len() {
            let entries = spent.len();
            return Err(Refusal::WrongEntryCount { transaction: *id, inputs, entries });
        }
        for (input, entry) in transaction.inputs.iter().zip(spent) {
            self.spend(input.previous_outpoint, entry)?;
        }
        let is_coinbase = transaction.is_coinbase();
        for (index, output) in (0..).zip(&transaction.outputs) {
            let outpoint = Outpoint { transaction_id: *id, index };
            self.created.insert(outpoint, output.to_utxo(daa_score, is_coinbase))?;
        }
        Ok(())
    }

    fn spend(&mut self, outpoint: Outpoint, entry: &UtxoEntry) -> Result<(), UtxoError> {
        if let Some(created) = self.created.remove(&outpoint) {
            let is_same = created == *entry;
            return if is_same { Ok(()) } else { Err(UtxoError::Different { outpoint }) };
        }
        let utxo = ScriptUtxo::new(outpoint, entry);
        self.records.remove(&utxo)?;
        self.product.remove(&entry.element(&outpoint));
        let sompi = entry.amount;
        let supply = self.supply.with_removed(sompi);
        self.supply = supply.ok_or(UtxoError::Supply { sompi })?;
        self.spent.push(utxo);
        Ok(())
    }

    fn finish(self) -> Result<Acceptance, UtxoError> {
        let Self { records, created, spent, mut product, mut supply } = self;
        let mut created_utxos = Vec::with_capacity(created.utxos.len());
        for (outpoint, entry) in created.utxos.into_iter().flatten() {
            let utxo = ScriptUtxo::new(outpoint, &entry);
            records.insert(&utxo)?;
            product.add(&entry.element(&outpoint));
            let sompi = entry.amount;
            supply = supply.with_added(sompi).ok_or(UtxoError::Supply { sompi })?;
            created_utxos.push(utxo);
        }
        product.normalize();
        Ok(Acceptance { created: created_utxos, spent, product, supply })
    }
}

impl CreatedUtxos {
    fn insert(&mut self, outpoint: Outpoint, entry: UtxoEntry) -> Result<(), UtxoError> {
        match self.index.entry(outpoint) {
            Entry::Occupied(_) => Err(UtxoError::Doubled { outpoint }),
            Entry::Vacant(vacant) => {
                vacant.insert(self.utxos.len());
                self.utxos.push(Some((outpoint, entry)));
                Ok(())
            }
        }
    }

    /// Removes an output that the block spends again. `None` if the block did not create it.
    fn remove(&mut self, outpoint: &Outpoint) -> Option<UtxoEntry> {
        let at = self.index.remove(outpoint)?;
        self.utxos[at].take().map(|(_, entry)| entry)
    }
}

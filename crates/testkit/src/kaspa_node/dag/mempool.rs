//! Transactions that are not in a block yet.
//!
//! Duplicates, double spends, orphans and immature inputs are refused with the texts of kaspad. Minimum fees, mass, an
//! orphan pool, replacement and expiry are not modelled.

use kaspa::{Hash, Outpoint, Transaction, UtxoEntry};

use super::acceptance::{InvalidSpend, check_spend, fee};
use super::utxo_set::UtxoView;

/// The DAA score of an output that is not accepted yet.
const UNACCEPTED_DAA_SCORE: u64 = u64::MAX;

/// A transaction of the mempool.
#[derive(Clone, Debug)]
pub struct MempoolEntry {
    /// The id of the transaction.
    pub id: Hash,
    /// The transaction.
    pub transaction: Transaction,
    /// The outputs that it spends, one for each input.
    pub spent: Vec<UtxoEntry>,
    /// The fee in sompi.
    pub fee: u64,
}

/// The pool, in order of arrival.
#[derive(Default)]
pub(crate) struct Mempool {
    entries: Vec<MempoolEntry>,
}

/// The state on which the next block is built.
#[derive(Clone, Copy)]
pub(crate) struct NextBlock<'a> {
    pub(crate) view: UtxoView<'a>,
    pub(crate) daa_score: u64,
    pub(crate) coinbase_maturity: u64,
}

impl Mempool {
    pub(crate) fn entries(&self) -> &[MempoolEntry] {
        &self.entries
    }

    pub(crate) fn find(&self, id: &Hash) -> Option<&MempoolEntry> {
        self.entries.iter().find(|entry| entry.id == *id)
    }

    /// Whether a transaction spends the output.
    pub(crate) fn spends(&self, outpoint: &Outpoint) -> bool {
        self.find_spender(outpoint).is_some()
    }

    fn find_spender(&self, outpoint: &Outpoint) -> Option<&MempoolEntry> {
        let spends = |entry: &&MempoolEntry| {
            let mut inputs = entry.transaction.inputs.iter();
            inputs.any(|input| input.previous_outpoint == *outpoint)
        };
        self.entries.iter().find(spends)
    }

    /// Adds a transaction and returns its id. The error is the text that kaspad sends.
    pub(crate) fn insert(
        &mut self,
        transaction: Transaction,
        next: NextBlock<'_>,
    ) -> Result<Hash, String> {
        let id = transaction.id();
        if self.find(&id).is_some() {
            return Err(format!("transaction {id} is already in the mempool"));
        }
        for input in &transaction.inputs {
            let Outpoint { transaction_id, index } = &input.previous_outpoint;
            if let Some(spender) = self.find_spender(&input.previous_outpoint) {
                let spender = spender.id;
                return Err(format!(
                    "output ({transaction_id}, {index}) already spent by transaction {spender} in the mempool"
                ));
            }
        }
        let outputs = self.outputs();
        let find = |outpoint: &Outpoint| {
            let own = outputs.iter().find(|(own, _)| own == outpoint).map(|(_, entry)| entry);
            next.view.find(outpoint).or(own)
        };
        let spent = check_spend(&transaction, next.daa_score, next.coinbase_maturity, find);
        let spent = spent.map_err(|error| match error {
            InvalidSpend::Missing(_) => {
                format!("transaction {id} is an orphan where orphan is disallowed")
            }
            InvalidSpend::Repeated => "transaction has duplicate inputs".to_owned(),
            InvalidSpend::Immature(Outpoint { transaction_id, index }) => format!(
                "one of the transaction inputs spends an immature UTXO: ({transaction_id}, {index})"
            ),
            InvalidSpend::Overspent => {
                "transaction tries to spend more than its inputs have".to_owned()
            }
        })?;
        let fee = fee(&transaction, &spent).unwrap_or(0);
        self.entries.push(MempoolEntry { id, transaction, spent, fee });
        Ok(id)
    }

    /// Returns the outputs of all transactions in the pool.
    fn outputs(&self) -> Vec<(Outpoint, UtxoEntry)> {
        let outputs = self.entries.iter().flat_map(|entry| {
            (0..).zip(&entry.transaction.outputs).map(|(index, output)| {
                let outpoint = Outpoint { transaction_id: entry.id, index };
                (outpoint, output.to_utxo(UNACCEPTED_DAA_SCORE, false))
            })
        });
        outputs.collect()
    }

    /// Returns the transactions with all inputs in the UTXO set.
    pub(crate) fn select_ready(&self, next: NextBlock<'_>) -> Vec<Transaction> {
        let is_ready = |entry: &&MempoolEntry| {
            let find = |outpoint: &Outpoint| next.view.find(outpoint);
            check_spend(&entry.transaction, next.daa_score, next.coinbase_maturity, find).is_ok()
        };
        self.entries.iter().filter(is_ready).map(|entry| entry.transaction.clone()).collect()
    }

    /// Removes the transactions of a new block, and those that conflict with them.
    pub(crate) fn remove_block(&mut self, transactions: &[Transaction], ids: &[Hash]) {
        let spent: Vec<Outpoint> = transactions
            .iter()
            .flat_map(|transaction| &transaction.inputs)
            .map(|input| input.previous_outpoint)
            .collect();
        self.entries.retain(|entry| {
            let mut inputs = entry.transaction.inputs.iter();
            !ids.contains(&entry.id)
                && !inputs.any(|input| spent.contains(&input.previous_outpoint))
        });
    }
}

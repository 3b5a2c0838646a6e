//! The block that is being made: what it was built on and what is in it so far.

use std::collections::HashMap;
use std::sync::Arc;

use chain::{AccountWrite, Bank, Block, Executed};
use ledger::BlockId;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_sha256_hasher::hashv;

/// The block that transactions are executed into.
pub(crate) struct OpenBlock {
    /// Its facts so far.
    pub(crate) bank: Bank,
    /// The hash of the bank it was built on.
    pub(crate) parent_bank_hash: Hash,
    /// In the order of execution.
    pub(crate) transactions: Vec<Arc<Executed>>,
    writes: HashMap<Pubkey, AccountWrite>,
}

impl OpenBlock {
    /// A block with nothing in it.
    pub(crate) fn new(bank: Bank, parent_bank_hash: Hash) -> Self {
        Self { bank, parent_bank_hash, transactions: Vec::new(), writes: HashMap::new() }
    }

    pub(crate) fn id(&self) -> BlockId {
        self.bank.block
    }

    /// Notes accounts that changed; the last change of each counts.
    pub(crate) fn wrote(&mut self, writes: impl IntoIterator<Item = AccountWrite>) {
        self.writes.extend(writes.into_iter().map(|write| (write.pubkey, write)));
    }

    /// The block with all that is in it, and its bank as it is once complete.
    pub(crate) fn complete(self) -> (Block, Bank) {
        let previous_blockhash = self.bank.last_blockhash();
        let blockhash = self.blockhash(&previous_blockhash);
        let bank_hash = hashv(&[
            self.parent_bank_hash.as_ref(),
            blockhash.as_ref(),
            &self.bank.capitalization.to_le_bytes(),
        ]);
        let mut writes: Vec<AccountWrite> = self.writes.into_values().collect();
        writes.sort_unstable_by_key(|write| write.pubkey);
        let block = Block {
            id: self.bank.block,
            parent_slot: self.bank.parent_slot,
            block_height: self.bank.block_height,
            blockhash,
            previous_blockhash,
            bank_hash,
            block_time: self.bank.unix_timestamp,
            transaction_count: self.bank.transaction_count,
            transactions: self.transactions,
            writes,
        };
        let bank = Bank {
            blockhashes: Arc::new(self.bank.blockhashes.with(blockhash)),
            complete: true,
            ..self.bank
        };
        (block, bank)
    }

    /// Follows from the parent's, the slot, and every signature in order.
    fn blockhash(&self, previous: &Hash) -> Hash {
        let slot = self.bank.block.slot.to_le_bytes();
        let mut parts: Vec<&[u8]> = vec![previous.as_ref(), &slot];
        let signatures = self.transactions.iter().flat_map(|tx| &tx.transaction.signatures);
        parts.extend(signatures.map(|signature| -> &[u8] { signature.as_ref() }));
        hashv(&parts)
    }
}

//! The block that is being built: its parent and its contents so far.

use std::collections::HashMap;
use std::sync::Arc;

use chain_solana::{
    AccountWrite, BankHashComponents, Block, BlockInfo, BlockhashQueue, ExecutedTransaction,
};
use foldhash::quality::RandomState;
use lattice::{BankHashInputs, LtHash};
use ledger::{Address, BlockId, KeyKind, Record};
use solana::{Account, Entry};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_transaction_status::Reward;
use svm::is_same;

use crate::fees::Fees;
use crate::proof_of_history::ProofOfHistory;

/// The block that transactions are executed into.
pub(crate) struct BlockBuilder {
    /// Its metadata so far.
    pub(crate) bank: BlockInfo,
    pub(crate) transactions: Vec<Arc<ExecutedTransaction>>,
    /// The rewards paid so far.
    pub(crate) rewards: Vec<Reward>,
    /// How many blocks pay the stake accounts, if this block starts an epoch.
    pub(crate) reward_partitions: Option<u64>,
    /// The fees of the transactions so far.
    pub(crate) fees: Fees,
    proof_of_history: ProofOfHistory,
    writes: HashMap<Pubkey, AccountWrite, RandomState>,
    /// Index keys of accounts before the block, for accounts that lost some of their keys or are new.
    found_by: HashMap<Pubkey, Vec<(KeyKind, Address)>, RandomState>,
}

impl BlockBuilder {
    pub(crate) fn new(bank: BlockInfo) -> Self {
        let writes = HashMap::default();
        let found_by = HashMap::default();
        Self {
            proof_of_history: ProofOfHistory::new(bank.last_blockhash()),
            bank,
            transactions: Vec::new(),
            rewards: Vec::new(),
            reward_partitions: None,
            fees: Fees::default(),
            writes,
            found_by,
        }
    }

    pub(crate) fn id(&self) -> BlockId {
        self.bank.block
    }

    /// Makes entries of the transactions that are in none yet.
    pub(crate) fn record_entries(&mut self) {
        let first = self.proof_of_history.transaction_count();
        let new = self.transactions.get(first..).unwrap_or_default();
        self.proof_of_history.record(new);
    }

    /// Records accounts that changed. The last change of each counts.
    pub(crate) fn record_writes(&mut self, writes: impl IntoIterator<Item = AccountWrite>) {
        self.writes.extend(writes.into_iter().map(|write| (write.pubkey, write)));
    }

    /// Each account that changed, with its last state.
    pub(crate) fn writes(&self) -> impl Iterator<Item = &AccountWrite> {
        self.writes.values()
    }

    /// Whether an account changed in this block.
    pub(crate) fn has_written(&self, pubkey: &Pubkey) -> bool {
        self.writes.contains_key(pubkey)
    }

    /// Records the index keys before a change, for accounts that lose keys by it or are new.
    pub(crate) fn record_key_changes<'a>(
        &mut self,
        changes: impl Iterator<Item = (&'a Pubkey, &'a AccountSharedData, &'a AccountSharedData)>,
    ) {
        for (pubkey, before, after) in changes {
            // The only index key of a wallet is its program.
            let is_wallet = before.owner() == after.owner()
                && after.lamports() > 0
                && before.data().is_empty()
                && after.data().is_empty();
            if is_wallet || is_same(before, after) {
                continue;
            }
            let keys_before = keys(before);
            let keys_after = keys(after);
            if keys_before.is_empty() || keys_before.iter().any(|key| !keys_after.contains(key)) {
                // Until the first such change its keys were those before the block.
                self.found_by.entry(*pubkey).or_insert(keys_before);
            }
        }
    }

    /// The finished block, and the bank of the complete block. `lt_hash` is over all accounts after the block.
    pub(crate) fn complete(mut self, lt_hash: &LtHash) -> (Block, BlockInfo) {
        self.record_entries();
        let slots = self.bank.block.slot.saturating_sub(self.bank.parent.slot);
        let (entries, blockhash) = self.proof_of_history.complete(slots);
        let blockhashes = self.bank.blockhashes.with(blockhash);
        self.complete_as(entries, blockhash, blockhashes, lt_hash)
    }

    /// The block of genesis, and its bank. It has the genesis hash as its blockhash, as on a cluster, and
    /// no entries.
    pub(crate) fn complete_genesis(self, lt_hash: &LtHash) -> (Block, BlockInfo) {
        let blockhash = self.bank.last_blockhash();
        self.complete_as(Vec::new(), blockhash, BlockhashQueue::new(blockhash), lt_hash)
    }

    fn complete_as(
        self,
        entries: Vec<Entry>,
        blockhash: Hash,
        blockhashes: BlockhashQueue,
        lt_hash: &LtHash,
    ) -> (Block, BlockInfo) {
        let previous_blockhash = self.bank.last_blockhash();
        let open = self.bank.hash_components;
        let inputs = BankHashInputs {
            parent_hash: open.parent_hash.to_bytes(),
            signature_count: open.signature_count,
            last_blockhash: blockhash.to_bytes(),
            lt_hash,
            hard_forks: 0,
        };
        let bank_hash = Hash::new_from_array(inputs.hash());
        let lt_checksum = Hash::new_from_array(lt_hash.checksum());
        let hash_components = BankHashComponents { last_blockhash: blockhash, lt_checksum, ..open };
        let mut writes: Vec<AccountWrite> = self.writes.into_values().collect();
        writes.sort_unstable_by_key(|write| write.pubkey);
        for write in &mut writes {
            let Some(keys_before) = self.found_by.get(&write.pubkey) else { continue };
            let keys_after = write.after().map(|account| keys(&account.0)).unwrap_or_default();
            write.removed_keys =
                keys_before.iter().filter(|key| !keys_after.contains(key)).copied().collect();
        }
        let block = Block {
            id: self.bank.block,
            parent: self.bank.parent,
            block_height: self.bank.block_height,
            blockhash,
            previous_blockhash,
            bank_hash,
            hash_components,
            block_time: self.bank.unix_timestamp,
            transaction_count: self.bank.transaction_count,
            transactions: self.transactions,
            rewards: self.rewards,
            reward_partitions: self.reward_partitions,
            entries,
            writes,
        };
        let bank = BlockInfo {
            blockhashes: Arc::new(blockhashes),
            bank_hash,
            hash_components,
            complete: true,
            ..self.bank
        };
        (block, bank)
    }
}

/// The index keys of an account. Empty if it has no lamports.
fn keys(account: &AccountSharedData) -> Vec<(KeyKind, Address)> {
    let mut keys = Vec::new();
    if account.lamports() > 0 {
        Account(account.clone()).keys(&mut |facet, address| keys.push((facet, address)));
    }
    keys
}

#[cfg(test)]
mod tests {
    use ledger::{AddressId, StoredRecord};

    use super::*;

    fn account(owner: u8) -> AccountSharedData {
        let lamports = u64::from(owner > 0);
        AccountSharedData::new(lamports, 1, &Pubkey::from([owner; 32]))
    }

    /// Checks the removed keys. `owners` are the owners before each change and after the last one; 0 is a closed
    /// account. `expected` are the removed keys.
    fn check(owners: &[u8], expected: &[u8]) {
        let bank = BlockInfo {
            block: BlockId { slot: 1, version: 1 },
            parent: BlockId { slot: 0, version: 0 },
            block_height: 1,
            blockhashes: Arc::new(BlockhashQueue::new(Hash::default())),
            transaction_count: 0,
            unix_timestamp: 0,
            capitalization: 0,
            bank_hash: Hash::default(),
            hash_components: BankHashComponents::default(),
            complete: false,
        };
        let mut builder = BlockBuilder::new(bank);
        let pubkey = Pubkey::from([9; 32]);
        for change in owners.windows(2) {
            let before = account(change[0]);
            let after = account(change[1]);
            builder.record_key_changes(std::iter::once((&pubkey, &before, &after)));
            let account = Account(after).into_record().map(StoredRecord::from);
            builder.record_writes([AccountWrite {
                pubkey,
                id: AddressId(0),
                account,
                removed_keys: Vec::new(),
            }]);
        }
        let (block, _) = builder.complete(&LtHash::EMPTY);
        let removed: Vec<u8> =
            block.writes[0].removed_keys.iter().map(|(_, key)| key.as_bytes()[0]).collect();
        assert_eq!(removed, expected, "{owners:?}");
    }

    #[test]
    fn removed_keys_are_those_before_the_block_that_are_missing_after_it() {
        check(&[1, 1], &[]);
        check(&[0, 1], &[]);
        check(&[1, 2], &[1]);
        check(&[1, 0], &[1]);
        check(&[1, 2, 3], &[1]);
        check(&[1, 2, 1], &[]);
        check(&[1, 1, 0, 2], &[1]);
        check(&[0, 1, 2], &[]);
        check(&[0, 1, 0], &[]);
    }
}

//! The block that is being made: what it was built on and what is in it so far.

use std::collections::HashMap;
use std::sync::Arc;

use chain_solana::{AccountWrite, Block, BlockInfo, ExecutedTransaction};
use foldhash::quality::RandomState;
use ledger::{Address, BlockId, KeyKind, Record};
use solana::Account;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_sha256_hasher::hashv;
use solana_transaction_status::Reward;

use crate::fees::Fees;
use crate::vm::is_same;

/// The block that transactions are executed into.
pub(crate) struct BlockBuilder {
    /// Its facts so far.
    pub(crate) bank: BlockInfo,
    /// The hash of the bank it was built on.
    pub(crate) parent_bank_hash: Hash,
    /// In the order of execution.
    pub(crate) transactions: Vec<Arc<ExecutedTransaction>>,
    /// What was paid out so far.
    pub(crate) rewards: Vec<Reward>,
    /// How many blocks pay the stake accounts, if this block begins that.
    pub(crate) reward_partitions: Option<u64>,
    /// What the transactions paid so far.
    pub(crate) fees: Fees,
    writes: HashMap<Pubkey, AccountWrite, RandomState>,
    /// What accounts were found by before the block, of those that lost some of it or are new.
    found_by: HashMap<Pubkey, Vec<(KeyKind, Address)>, RandomState>,
}

impl BlockBuilder {
    /// A block with nothing in it.
    pub(crate) fn new(bank: BlockInfo, parent_bank_hash: Hash) -> Self {
        let (writes, found_by) = (HashMap::default(), HashMap::default());
        Self {
            bank,
            parent_bank_hash,
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

    /// Notes accounts that changed; the last change of each counts.
    pub(crate) fn record_writes(&mut self, writes: impl IntoIterator<Item = AccountWrite>) {
        self.writes.extend(writes.into_iter().map(|write| (write.pubkey, write)));
    }

    /// Whether an account changed in this block.
    pub(crate) fn has_written(&self, pubkey: &Pubkey) -> bool {
        self.writes.contains_key(pubkey)
    }

    /// Notes accounts before and after a change, for those that are not found as before any more.
    pub(crate) fn record_key_changes<'a>(
        &mut self,
        changes: impl Iterator<Item = (&'a Pubkey, &'a AccountSharedData, &'a AccountSharedData)>,
    ) {
        for (pubkey, before, after) in changes {
            // A wallet is found by its program alone.
            let is_wallet = before.owner() == after.owner()
                && after.lamports() > 0
                && before.data().is_empty()
                && after.data().is_empty();
            if is_wallet || is_same(before, after) {
                continue;
            }
            let (had, has) = (keys(before), keys(after));
            if had.is_empty() || had.iter().any(|key| !has.contains(key)) {
                // Until the first such change it was found as before the block.
                self.found_by.entry(*pubkey).or_insert(had);
            }
        }
    }

    /// The block with all that is in it, and its bank as it is once complete.
    pub(crate) fn complete(self) -> (Block, BlockInfo) {
        let previous_blockhash = self.bank.last_blockhash();
        let blockhash = self.blockhash(&previous_blockhash);
        let bank_hash = hashv(&[
            self.parent_bank_hash.as_ref(),
            blockhash.as_ref(),
            &self.bank.capitalization.to_le_bytes(),
        ]);
        let mut writes: Vec<AccountWrite> = self.writes.into_values().collect();
        writes.sort_unstable_by_key(|write| write.pubkey);
        for write in &mut writes {
            let Some(had) = self.found_by.get(&write.pubkey) else { continue };
            let has = write.account.as_deref().map(|account| keys(&account.0)).unwrap_or_default();
            write.removed_keys = had.iter().filter(|key| !has.contains(key)).copied().collect();
        }
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
            rewards: self.rewards,
            reward_partitions: self.reward_partitions,
            writes,
        };
        let bank = BlockInfo {
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

/// What an account is found by; nothing once its lamports are gone.
fn keys(account: &AccountSharedData) -> Vec<(KeyKind, Address)> {
    let mut keys = Vec::new();
    if account.lamports() > 0 {
        Account(account.clone()).keys(&mut |facet, address| keys.push((facet, address)));
    }
    keys
}

#[cfg(test)]
mod tests {
    use chain_solana::BlockhashQueue;
    use ledger::AddressId;

    use super::*;

    fn account(owner: u8) -> AccountSharedData {
        let lamports = u64::from(owner > 0);
        AccountSharedData::new(lamports, 1, &Pubkey::from([owner; 32]))
    }

    /// Owners before each change and after the last, 0 for a closed account; whose it is told to have
    /// left.
    fn check(owners: &[u8], left: &[u8]) {
        let bank = BlockInfo {
            block: BlockId { slot: 1, bank: 1 },
            parent_slot: 0,
            block_height: 1,
            blockhashes: Arc::new(BlockhashQueue::new(Hash::default())),
            transaction_count: 0,
            unix_timestamp: 0,
            capitalization: 0,
            complete: false,
        };
        let mut open = BlockBuilder::new(bank, Hash::default());
        let pubkey = Pubkey::from([9; 32]);
        for change in owners.windows(2) {
            let (before, after) = (account(change[0]), account(change[1]));
            open.record_key_changes(std::iter::once((&pubkey, &before, &after)));
            let account = Account(after).into_record();
            open.record_writes([AccountWrite {
                pubkey,
                id: AddressId(0),
                account,
                removed_keys: Vec::new(),
            }]);
        }
        let (block, _) = open.complete();
        let told: Vec<u8> =
            block.writes[0].removed_keys.iter().map(|(_, key)| key.as_bytes()[0]).collect();
        assert_eq!(told, left, "{owners:?}");
    }

    #[test]
    fn an_account_leaves_what_it_was_found_by_before_the_block_and_not_after() {
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

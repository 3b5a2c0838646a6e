//! A complete block and the transactions in it, as history and subscribers get them.

use std::sync::Arc;

use ledger::{Address, AddressId, BlockId, KeyKind, Slot, StoredRecord};
use solana::{Account, Entry};
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::{Reward, TransactionStatusMeta};

use crate::block_info::BankHashComponents;
use crate::status_visibility::StatusVisibility;

/// An executed transaction with its results.
#[derive(Clone, Debug)]
pub struct ExecutedTransaction {
    /// The slot of the block that contains it.
    pub slot: Slot,
    /// The index in the block, in the order of execution.
    pub index: u32,
    /// Seconds since 1970 of its block.
    pub block_time: i64,
    /// The transaction as it was sent.
    pub transaction: VersionedTransaction,
    /// Status, fee, balances, logs, inner instructions, return data, loaded addresses.
    pub meta: TransactionStatusMeta,
    /// All its accounts: static keys, then loaded writable, then loaded read-only.
    pub account_keys: Vec<Pubkey>,
    /// Whether it is only one validator's vote.
    pub is_vote: bool,
    /// Whether clients that request its status get one.
    pub visibility: StatusVisibility,
}

impl ExecutedTransaction {
    /// Returns the first signature, which identifies the transaction.
    pub fn signature(&self) -> Signature {
        self.transaction.signatures.first().copied().unwrap_or_default()
    }

    /// Whether the transaction has a status for clients.
    pub fn has_status(&self) -> bool {
        self.visibility.is_shown()
    }

    /// Makes the status visible to clients. Call this before a client is notified of the transaction.
    pub fn show_status(&self) {
        self.visibility.show();
    }

    /// Estimates the bytes of its signatures, instructions, logs, inner instructions and token balances, from measured
    /// sizes. Not included: the record itself, its keys and its balances.
    pub fn lists_bytes(&self) -> usize {
        let meta = &self.meta;
        let instructions: usize = self
            .transaction
            .message
            .instructions()
            .iter()
            .map(|instruction| 48 + instruction.data.len() + instruction.accounts.len())
            .sum();
        let logs: usize = meta.log_messages.iter().flatten().map(|line| 24 + line.len()).sum();
        let inner: usize = meta
            .inner_instructions
            .iter()
            .flatten()
            .flat_map(|list| &list.instructions)
            .map(|inner| 64 + inner.instruction.data.len() + inner.instruction.accounts.len())
            .sum();
        let tokens = meta.pre_token_balances.iter().flatten().count()
            + meta.post_token_balances.iter().flatten().count();
        self.transaction.signatures.len() * 64 + instructions + logs + inner + tokens * 300
    }

    /// Estimates the bytes of the transaction, with its entries in a history.
    pub fn bytes(&self) -> u64 {
        transaction_bytes(self)
    }
}

/// The last write of a block to one account.
#[derive(Clone, Debug)]
pub struct AccountWrite {
    /// The account's address.
    pub pubkey: Pubkey,
    /// The address's id; valid while the block's subscribers are notified.
    pub id: AddressId,
    /// The account after the block, as the ledger holds it; `None` if it was closed.
    pub account: Option<StoredRecord<Account>>,
    /// The keys under which the account was indexed before the block but no longer is: it was closed, or has another
    /// program, owner, mint or delegate. Usually empty. Not written to the store.
    pub removed_keys: Vec<(KeyKind, Address)>,
}

impl AccountWrite {
    /// Returns the complete account after the block.
    pub fn after(&self) -> Option<Arc<Account>> {
        self.account.as_ref().map(StoredRecord::record)
    }

    /// Returns the account that the one after the block is a patch of, at no cost. Both have the same owner and length.
    pub fn base_account(&self) -> Option<&Account> {
        self.account.as_ref().map(|account| &**account.base())
    }
}

/// A complete block with all its transactions and writes.
#[derive(Clone, Debug)]
pub struct Block {
    /// The slot and the version of the block.
    pub id: BlockId,
    /// The block it was built on; itself at genesis.
    pub parent: BlockId,
    /// Number of blocks before this one on its chain.
    pub block_height: u64,
    /// The blockhash, which transactions may use from the next block on.
    pub blockhash: Hash,
    /// The blockhash of the parent.
    pub previous_blockhash: Hash,
    /// The bank hash, as in Agave. Votes for the block sign it, and the SlotHashes sysvar lists it.
    pub bank_hash: Hash,
    /// The values that the bank hash covers.
    pub hash_components: BankHashComponents,
    /// Seconds since 1970: the Clock of a local block, and the time that the source of a followed one reports.
    pub block_time: i64,
    /// Transactions since genesis, this block's included.
    pub transaction_count: u64,
    /// The transactions in the order of execution.
    pub transactions: Vec<Arc<ExecutedTransaction>>,
    /// Rewards paid: commissions and stake rewards of the previous epoch, then the leader's fees.
    pub rewards: Vec<Reward>,
    /// In the first block of an epoch that pays rewards: the number of blocks that pay stake
    /// accounts.
    pub reward_partitions: Option<u64>,
    /// The links of Proof of History from the parent's blockhash to its own; empty if they are unknown. Neither history
    /// nor the store retains them.
    pub entries: Vec<Entry>,
    /// Each account that the block changed, once, with its last state.
    pub writes: Vec<AccountWrite>,
}

impl Block {
    /// Whether the bank hash is known. It is unknown in a followed chain without verification of its banks.
    pub fn has_bank_hash(&self) -> bool {
        self.bank_hash != Hash::default()
    }

    /// Returns a copy without transactions, rewards, entries and writes.
    #[must_use]
    pub fn without_content(&self) -> Self {
        let Self {
            id,
            parent,
            block_height,
            blockhash,
            previous_blockhash,
            bank_hash,
            hash_components,
            block_time,
            transaction_count,
            transactions: _,
            rewards: _,
            reward_partitions,
            entries: _,
            writes: _,
        } = *self;
        Self {
            id,
            parent,
            block_height,
            blockhash,
            previous_blockhash,
            bank_hash,
            hash_components,
            block_time,
            transaction_count,
            transactions: Vec::new(),
            rewards: Vec::new(),
            reward_partitions,
            entries: Vec::new(),
            writes: Vec::new(),
        }
    }

    /// Makes the statuses of its transactions visible ([`ExecutedTransaction::show_status`]).
    pub fn show_statuses(&self) {
        self.transactions.iter().for_each(|executed| executed.show_status());
    }

    /// Bytes of the rewards, including the text of the addresses.
    pub(crate) fn rewards_bytes(&self) -> u64 {
        let text = |reward: &Reward| (size_of::<Reward>() + reward.pubkey.len()) as u64;
        self.rewards.iter().map(text).sum()
    }

    /// Estimates the bytes of the block; shared data is counted completely. Cost: O(block).
    pub fn bytes(&self) -> u64 {
        let written = |write: &AccountWrite| {
            let held = |account: &StoredRecord<Account>| account.weight() + account.base_weight();
            (size_of::<AccountWrite>() + write.account.as_ref().map_or(0, held)) as u64
        };
        let transactions =
            self.transactions.iter().map(|transaction| transaction_bytes(transaction));
        size_of::<Self>() as u64
            + transactions.sum::<u64>()
            + self.rewards_bytes()
            + size_of_val(&self.entries[..]) as u64
            + self.writes.iter().map(written).sum::<u64>()
    }
}

/// Estimates the bytes of one transaction in history, including its map entries there, from measured sizes.
pub(crate) fn transaction_bytes(transaction: &ExecutedTransaction) -> u64 {
    (size_of::<ExecutedTransaction>()
        + transaction.lists_bytes()
        + transaction.transaction.message.static_account_keys().len() * 32
        + transaction.account_keys.len() * (32 + 16 + 24)
        + transaction.meta.pre_balances.len() * 16
        + 128) as u64
}

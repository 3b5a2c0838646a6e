//! A complete block and the transactions in it, as history and subscribers get them.

use std::sync::Arc;

use ledger::{Address, AddressId, BlockId, KeyKind, Slot};
use solana::Account;
use solana_account::ReadableAccount;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::{Reward, TransactionStatusMeta};

use crate::history::transaction_bytes;

/// A transaction that was executed, and all that came of it.
#[derive(Clone, Debug)]
pub struct ExecutedTransaction {
    /// Which block holds it.
    pub slot: Slot,
    /// Its place within the block.
    pub index: u32,
    /// Seconds since 1970 of its block.
    pub block_time: i64,
    /// The transaction as it was sent.
    pub transaction: VersionedTransaction,
    /// Status, fee, balances, logs, inner instructions, return data, loaded addresses.
    pub meta: TransactionStatusMeta,
    /// Every account it names: static keys, then loaded writable, then loaded read-only.
    pub account_keys: Vec<Pubkey>,
    /// Whether it is one validator's vote and nothing else.
    pub is_vote: bool,
}

impl ExecutedTransaction {
    /// The first signature, which names the transaction.
    pub fn signature(&self) -> Signature {
        self.transaction.signatures.first().copied().unwrap_or_default()
    }
}

/// An account as a block left it.
#[derive(Clone, Debug)]
pub struct AccountWrite {
    /// The account's address.
    pub pubkey: Pubkey,
    /// The same as a number; valid while the block's subscribers are told of it.
    pub id: AddressId,
    /// What it is now; `None` if it was closed.
    pub account: Option<Arc<Account>>,
    /// The keys that it was found by before the block and is not found by any more: it was closed, or
    /// has another program, owner, mint or delegate now. Mostly none. Not kept in the store.
    pub removed_keys: Vec<(KeyKind, Address)>,
}

/// A complete block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Which block this is.
    pub id: BlockId,
    /// The slot it was built on.
    pub parent_slot: Slot,
    /// How many blocks precede it.
    pub block_height: u64,
    /// Its own hash, which transactions may name from the next block on.
    pub blockhash: Hash,
    /// Its parent's hash.
    pub previous_blockhash: Hash,
    /// The hash of its parent's bank and its transactions, as votes name it.
    pub bank_hash: Hash,
    /// Seconds since 1970.
    pub block_time: i64,
    /// Transactions since genesis, this block's included.
    pub transaction_count: u64,
    /// In the order of execution.
    pub transactions: Vec<Arc<ExecutedTransaction>>,
    /// What was paid out: commissions and stake rewards of the epoch before, then the leader's fees.
    pub rewards: Vec<Reward>,
    /// In the first block of an epoch that pays rewards: how many blocks pay the stake accounts.
    pub reward_partitions: Option<u64>,
    /// Each account that the block changed, once, as the block left it.
    pub writes: Vec<AccountWrite>,
}

impl Block {
    /// Bytes of the rewards, the text of the addresses included.
    pub(crate) fn rewards_bytes(&self) -> u64 {
        let text = |reward: &Reward| (size_of::<Reward>() + reward.pubkey.len()) as u64;
        self.rewards.iter().map(text).sum()
    }

    /// Bytes of all that it holds, estimated from its sizes: what others hold too is counted whole.
    /// Cost: O(block).
    pub fn bytes(&self) -> u64 {
        let written = |write: &AccountWrite| {
            let data = write.account.as_ref().map_or(0, |account| account.0.data().len());
            (size_of::<AccountWrite>() + size_of::<Account>() + data) as u64
        };
        let transactions = self.transactions.iter().map(|executed| transaction_bytes(executed));
        size_of::<Self>() as u64
            + transactions.sum::<u64>()
            + self.rewards_bytes()
            + self.writes.iter().map(written).sum::<u64>()
    }
}

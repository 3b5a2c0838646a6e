//! The state that a followed ledger starts from.
//!
//! Input: the loaded archives of a snapshot, or a stored ledger. Output: [`Base`]: a ledger with one block as its root,
//! that block, and the fields of its bank that no account has.
//! Invariant: accounts, block and fields are of the same bank.
//! Not here: how the ledger continues (`follower`), reading archives (`snapshot_ledger`) and directories
//! (`stored_ledger`).

use std::sync::Arc;
use std::time::Duration;

use chain_solana::{Block, BlockInfo, BlockhashQueue, Reader};
use ledger_store::{LedgerStore, NewLedger};
use query::Ledger;
use snapshot_ledger::{BulkLoader, LoadedSnapshot, block_of};
use snapshot_solana::stored_rows::JumpRow;
use snapshot_solana::{BankFields, Snapshot};
use solana::Account;
use solana_account::ReadableAccount;
use solana_clock::Clock;
use solana_sdk_ids::sysvar;

use crate::error::FollowError;

/// The state that a followed ledger starts from: all accounts after one block, which is the root.
pub struct Base {
    pub(crate) ledger: Ledger<Account, BlockInfo>,
    pub(crate) reader: Reader,
    pub(crate) block: Arc<Block>,
    pub(crate) info: BlockInfo,
    /// The blocks below the root that are known, the oldest first.
    pub(crate) older: Vec<Arc<Block>>,
    /// The last jump below the root.
    pub(crate) jump: Option<JumpRow>,
    /// The fields of the root's bank.
    pub(crate) fields: BankFields,
    /// The store of the chain above the root.
    pub(crate) store: Option<BaseStore>,
}

pub(crate) struct BaseStore {
    pub(crate) ledger: BaseLedger,
    /// Maximum time between the finality of a bank and its commit to disk.
    pub(crate) delay: Duration,
}

/// The ledger in the directory of a base.
pub(crate) enum BaseLedger {
    /// It has the state of the base.
    Open(LedgerStore),
    /// It has nothing but the block.
    New(NewLedger),
}

impl Base {
    /// Creates a base from the bank of a loaded snapshot.
    pub fn from_snapshot(loaded: LoadedSnapshot) -> Result<Self, FollowError> {
        let (Snapshot { bank: fields, lamports, .. }, loader) = loaded.into_parts();
        let (block, info) = new_root_block(&fields, loader.account(&sysvar::clock::ID), lamports)?;
        let (ledger, reader) = loader.finish(info.clone()).map_err(FollowError::Snapshot)?;
        let block = Arc::new(block);
        let older = Vec::new();
        let jump = None;
        Ok(Self { ledger, reader, block, info, older, jump, fields, store: None })
    }

    /// The bank of a stored block, with the blocks before it.
    pub(crate) fn from_stored(
        fields: BankFields,
        loader: BulkLoader,
        block: Arc<Block>,
        older: Vec<Arc<Block>>,
        store: BaseStore,
    ) -> Result<Self, FollowError> {
        let clock = loader.account(&sysvar::clock::ID);
        let (_, info) = new_root_block(&fields, clock, fields.capitalization)?;
        let stored = stored_info(&fields, &block);
        let blockhashes = info.blockhashes;
        let unix_timestamp = info.unix_timestamp;
        let capitalization = fields.capitalization;
        let info = BlockInfo { blockhashes, unix_timestamp, capitalization, ..stored };
        let (ledger, reader) = loader.finish(info.clone()).map_err(FollowError::Snapshot)?;
        let jump = None;
        let store = Some(store);
        Ok(Self { ledger, reader, block, info, older, jump, fields, store })
    }

    /// Returns the slot of the base's root.
    pub fn slot(&self) -> u64 {
        self.fields.slot
    }
}

/// The bank of a stored block, without what only its accounts say.
pub(crate) fn stored_info(fields: &BankFields, block: &Block) -> BlockInfo {
    let (_, info) = block_of(fields, block.block_time, 0);
    let Block { id, parent, bank_hash, hash_components, .. } = *block;
    BlockInfo { block: id, parent, bank_hash, hash_components, ..info }
}

/// The block of a snapshot, with the time in its Clock sysvar and the blockhashes that it has.
pub(crate) fn new_root_block(
    fields: &BankFields,
    clock: Option<Arc<Account>>,
    lamports: u64,
) -> Result<(Block, BlockInfo), FollowError> {
    let clock = clock.and_then(|it| bincode::deserialize::<Clock>(it.0.data()).ok());
    let clock = clock.filter(|clock| clock.slot == fields.slot);
    let clock = clock.ok_or(FollowError::Incomplete("clock sysvar"))?;
    let (block, info) = block_of(fields, clock.unix_timestamp, lamports);
    let blockhashes = BlockhashQueue::restore(fields.blockhashes.iter().copied());
    let blockhashes = blockhashes.map_or_else(|| Arc::clone(&info.blockhashes), Arc::new);
    Ok((block, BlockInfo { blockhashes, ..info }))
}

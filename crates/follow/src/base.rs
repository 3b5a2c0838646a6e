//! The state that a followed ledger starts from.
//!
//! In: the archives of a snapshot, loaded, or a stored ledger, read back. Out: [`Base`]: a ledger whose root is one block,
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
use snapshot_solana::{BankFields, Snapshot};
use solana::Account;
use solana_account::ReadableAccount;
use solana_clock::Clock;
use solana_sdk_ids::sysvar;

use crate::error::FollowError;
use crate::stored_rows::JumpRow;

/// The state that a followed ledger starts from: all accounts after one block, which is the root.
pub struct Base {
    /// The ledger, published.
    pub(crate) ledger: Ledger<Account, BlockInfo>,
    pub(crate) reader: Reader,
    /// The root.
    pub(crate) block: Arc<Block>,
    pub(crate) info: BlockInfo,
    /// The blocks below the root that are known, the oldest first.
    pub(crate) older: Vec<Arc<Block>>,
    /// The last jump before it.
    pub(crate) jump: Option<JumpRow>,
    /// The fields of the root's bank.
    pub(crate) fields: BankFields,
    /// Where the chain is stored from the root on.
    pub(crate) store: Option<BaseStore>,
}

/// The directory of a base.
pub(crate) struct BaseStore {
    pub(crate) ledger: BaseLedger,
    /// How long a final bank is not stored.
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
    /// The bank of a snapshot.
    pub fn from_snapshot(loaded: LoadedSnapshot) -> Result<Self, FollowError> {
        let (Snapshot { bank: fields, lamports, .. }, loader) = loaded.into_parts();
        let (block, info) = block_of_bank(&fields, loader.account(&sysvar::clock::ID), lamports)?;
        let (ledger, reader) = loader.finish(info.clone()).map_err(FollowError::Snapshot)?;
        let (block, older) = (Arc::new(block), Vec::new());
        let jump = None;
        Ok(Self { ledger, reader, block, info, older, jump, fields, store: None })
    }

    /// The bank of a stored block, with the blocks before it.
    pub(crate) fn from_stored(
        fields: BankFields,
        loader: BulkLoader,
        (block, older): (Arc<Block>, Vec<Arc<Block>>),
        store: BaseStore,
    ) -> Result<Self, FollowError> {
        let clock = loader.account(&sysvar::clock::ID);
        let (_, info) = block_of_bank(&fields, clock, fields.capitalization)?;
        let stored = stored_info(&fields, &block);
        let (blockhashes, unix_timestamp) = (info.blockhashes, info.unix_timestamp);
        let capitalization = fields.capitalization;
        let info = BlockInfo { blockhashes, unix_timestamp, capitalization, ..stored };
        let (ledger, reader) = loader.finish(info.clone()).map_err(FollowError::Snapshot)?;
        let (jump, store) = (None, Some(store));
        Ok(Self { ledger, reader, block, info, older, jump, fields, store })
    }

    /// The slot of the root.
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
pub(crate) fn block_of_bank(
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

//! The state that a followed ledger starts from.
//!
//! In: the archives of a snapshot, loaded. Out: [`Base`]: a ledger whose root is one block, that block, and the fields
//! of its bank that no account has.
//! Invariant: accounts, block and fields are of the same bank.
//! Not here: how the ledger continues (`follower`), reading archives (`snapshot_ledger`).

use std::sync::Arc;

use chain_solana::{Block, BlockInfo, BlockhashQueue, Reader};
use query::Ledger;
use snapshot_ledger::{BulkLoader, LoadedSnapshot, block_of};
use snapshot_solana::{BankFields, Snapshot};
use solana::Account;
use solana_account::ReadableAccount;
use solana_clock::Clock;
use solana_sdk_ids::sysvar;

use crate::error::FollowError;

/// The state that a followed ledger starts from: all accounts after one block, which is the root.
pub struct Base {
    /// The ledger, published.
    pub(crate) ledger: Ledger<Account, BlockInfo>,
    pub(crate) reader: Reader,
    /// The root.
    pub(crate) block: Arc<Block>,
    pub(crate) info: BlockInfo,
    /// The fields of the root's bank.
    pub(crate) fields: BankFields,
}

impl Base {
    /// The bank of a snapshot.
    pub fn from_snapshot(loaded: LoadedSnapshot) -> Result<Self, FollowError> {
        let (Snapshot { bank: fields, lamports, .. }, loader) = loaded.into_parts();
        let (block, info) = root_of(&fields, &loader, lamports)?;
        let (ledger, reader) = loader.finish(info.clone()).map_err(FollowError::Snapshot)?;
        Ok(Self { ledger, reader, block: Arc::new(block), info, fields })
    }

    /// The slot of the root.
    pub fn slot(&self) -> u64 {
        self.fields.slot
    }
}

/// The block of a snapshot, with the time and the blockhashes that it has.
fn root_of(
    fields: &BankFields,
    loader: &BulkLoader,
    lamports: u64,
) -> Result<(Block, BlockInfo), FollowError> {
    let clock = loader.account(&sysvar::clock::ID);
    let clock = clock.and_then(|it| bincode::deserialize::<Clock>(it.0.data()).ok());
    let clock = clock.filter(|clock| clock.slot == fields.slot);
    let clock = clock.ok_or(FollowError::Incomplete("clock sysvar"))?;
    let (block, info) = block_of(fields, clock.unix_timestamp, lamports);
    let blockhashes = BlockhashQueue::restore(fields.blockhashes.iter().copied());
    let blockhashes = blockhashes.map_or_else(|| Arc::clone(&info.blockhashes), Arc::new);
    Ok((block, BlockInfo { blockhashes, ..info }))
}

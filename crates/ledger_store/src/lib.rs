//! The ledger on disk: every complete block, and every account as of the newest block.
//!
//! In: complete blocks in order, from the one writer. Each is on disk before it is reported as confirmed. Out:
//! everything, once, when the ledger is opened; accounts as a stream.
//! Invariant: a block with its transactions and account writes is one atomic batch. After `kill -9` the newest block is
//! the last one for which [`LedgerStore::append`] returned, or the whole of the next one.
//! Invariant: damage is reported when the ledger is opened, and damaged data is never served.
//! Bounds: history is pruned by [`LedgerStore::prune_below`]. There are as many accounts as the ledger has.
//! Why this engine, with measurements: docs/ledger-on-disk.md.
//! Not here: files, locks and checksums (`store`), and what a ledger does with its own rows (`localnet`, `follow`).
#![forbid(unsafe_code)]

mod codec;
mod key;
mod restore;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use chain_solana::Block;
use ledger::Slot;
use solana::Account;
use solana_pubkey::Pubkey;
use store::{
    Batch, Directory, DirectoryContents, Engine, Fjall, Row, RowCodec, StoreError, fingerprint,
};

use codec::Head;
use key::Key;
pub use restore::Restored;
use restore::RestoredBlocks;

/// Accounts of a new ledger in one write, and their bytes. The last account may exceed the bytes.
const BULK_INSERT_ROWS_MAX: usize = 16_384;
const BULK_INSERT_BYTES_MAX: usize = 4 << 20;

/// An open ledger on disk. Owned by the one writer, closed when dropped.
pub struct LedgerStore<E: Engine = Fjall> {
    engine: E,
    directory: Directory,
    row_codec: RowCodec,
    head: Head,
    /// The stored blocks, the oldest first. 8 bytes a block.
    slots: VecDeque<Slot>,
    /// Blocks below this slot are removed with the next append.
    retain_from: Slot,
    /// Written with the next append.
    epochs: Option<Vec<u8>>,
}

impl<E: Engine> LedgerStore<E> {
    /// Creates a ledger with its first block and the accounts as of that block, each once, as a stream. `genesis` is
    /// stored as it is. `dir` is created if needed, and must be empty.
    pub fn create(
        dir: &Path,
        genesis: &[u8],
        accounts: impl IntoIterator<Item = (Pubkey, Arc<Account>)>,
        first_block: &Block,
    ) -> Result<Self, StoreError> {
        if Directory::inspect(dir, E::PATH)? == DirectoryContents::Ledger {
            return Err(StoreError::Exists { dir: dir.into() });
        }
        let directory = Directory::lock(dir)?;
        directory.clear(E::PATH)?;
        let engine = directory.open_engine(&key::TABLES)?;
        let slot = first_block.id.slot;
        let mut store = Self {
            engine,
            row_codec: directory.row_codec()?,
            directory,
            head: Head { slot, first_slot: slot, accounts: 0, fingerprints: 0 },
            slots: VecDeque::from([slot]),
            retain_from: 0,
            epochs: None,
        };
        store.bulk_insert(slot, accounts.into_iter())?;
        let mut rows = store.block_rows(first_block);
        rows.push(store.row_codec.encode_row(Key::Genesis, genesis));
        store.commit(rows, slot, slot)?;
        store.directory.set_newest(slot)?;
        store.directory.sync()?;
        // Only now it is a ledger: a creation that was interrupted before is started again.
        store.directory.mark()?;
        store.directory.sync()?;
        Ok(store)
    }

    /// Writes the accounts of a new ledger in chunks.
    fn bulk_insert(
        &mut self,
        slot: Slot,
        accounts: impl Iterator<Item = (Pubkey, Arc<Account>)>,
    ) -> Result<(), StoreError> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let mut accounts = accounts.peekable();
        while let Some((pubkey, account)) = accounts.next() {
            let row = self
                .row_codec
                .encode_row(Key::Account(pubkey), &codec::write_account(slot, &account));
            let value = row.value.as_deref().unwrap_or_default();
            self.head.accounts += 1;
            self.head.fingerprints = self.head.fingerprints.wrapping_add(fingerprint(value));
            bytes += value.len();
            rows.push(row);
            if rows.len() == BULK_INSERT_ROWS_MAX
                || bytes >= BULK_INSERT_BYTES_MAX
                || accounts.peek().is_none()
            {
                self.engine
                    .bulk_insert(&rows)
                    .map_err(|source| self.directory.write_failed(source))?;
                rows.clear();
                bytes = 0;
            }
        }
        Ok(())
    }

    /// Whether there is a ledger in `dir`. Fails if the directory contains foreign files.
    pub fn is_in(dir: &Path) -> Result<bool, StoreError> {
        Ok(Directory::inspect(dir, E::PATH)? != DirectoryContents::Nothing)
    }

    /// Opens the ledger in `dir` and reads everything except its accounts, which [`Opened::read`] reads. `None` if
    /// there is no ledger.
    pub fn open(dir: &Path) -> Result<Option<Opened<E>>, StoreError> {
        if Directory::inspect(dir, E::PATH)? == DirectoryContents::Nothing {
            return Ok(None);
        }
        let directory = Directory::lock(dir)?;
        directory.check_mark()?;
        let engine: E = directory.open_engine(&key::TABLES)?;
        let read = directory.catch_panic(|| restore::read_restored_blocks(&directory, &engine));
        let RestoredBlocks { head, genesis, epochs, blocks } = read?;
        let row_codec = directory.row_codec()?;
        let slots = blocks.iter().map(|block| block.id.slot).collect();
        let store =
            Self { engine, directory, row_codec, head, slots, retain_from: 0, epochs: None };
        Ok(Some(Opened { genesis, epochs, blocks, store }))
    }

    /// Opens the ledger in `dir` and reads it into memory. For small ledgers.
    pub fn open_whole(dir: &Path) -> Result<Option<(Self, Restored)>, StoreError> {
        let Some(mut opened) = Self::open(dir)? else { return Ok(None) };
        let genesis = std::mem::take(&mut opened.genesis);
        let blocks = std::mem::take(&mut opened.blocks);
        let mut accounts = Vec::new();
        let store = opened.read(|pubkey, account| accounts.push((pubkey, Arc::new(account))))?;
        Ok(Some((store, Restored { genesis, blocks, accounts })))
    }

    /// Removes the ledger in `dir`, if there is one. Other files stay. Fails if there is no ledger but foreign files.
    pub fn remove(dir: &Path) -> Result<(), StoreError> {
        Directory::remove(dir, E::PATH)
    }

    /// Appends a block. When this returns, it is on disk with its transactions and account writes. After an error no
    /// block can be appended any more; earlier blocks stay.
    pub fn append(&mut self, block: &Block) -> Result<(), StoreError> {
        let (slot, parent) = (block.id.slot, block.parent.slot);
        if parent != self.head.slot || slot <= parent {
            return Err(StoreError::NotNext { slot, parent, head: self.head.slot });
        }
        let mut rows = self.block_rows(block);
        if let Some(epochs) = self.epochs.take() {
            rows.push(self.row_codec.encode_row(Key::Epochs, &epochs));
        }
        let dropped = self.slots.partition_point(|stored| *stored < self.retain_from);
        rows.extend(
            self.slots.iter().take(dropped).map(|old| Row { key: Key::Block(*old), value: None }),
        );
        let first_slot = self.slots.get(dropped).copied().unwrap_or(slot);
        self.commit(rows, slot, first_slot)?;
        self.slots.drain(..dropped);
        self.slots.push_back(slot);
        self.directory.set_newest(slot)
    }

    /// Removes the blocks below `slot` with the next append. Accounts stay.
    pub fn prune_below(&mut self, slot: Slot) {
        self.retain_from = self.retain_from.max(slot);
    }

    /// Stores the caller's state of epochs with the next append.
    pub fn set_epochs(&mut self, epochs: Vec<u8>) {
        self.epochs = Some(epochs);
    }

    /// The newest stored block.
    pub fn newest_slot(&self) -> Slot {
        self.head.slot
    }

    /// The rows of a block, each key once. The last write of an account counts.
    fn block_rows(&mut self, block: &Block) -> Vec<Row<Key>> {
        let slot = block.id.slot;
        let writes = block.writes.iter().map(|write| (write.pubkey, write.account.as_ref()));
        let accounts: BTreeMap<_, _> = writes.collect();
        let mut rows = Vec::with_capacity(accounts.len() + 2);
        rows.push(self.row_codec.encode_row(Key::Block(slot), &codec::write_block(block)));
        for (pubkey, account) in accounts {
            let key = Key::Account(pubkey);
            rows.push(match account {
                Some(account) => {
                    self.row_codec.encode_row(key, &codec::write_account(slot, account))
                }
                None => Row { key, value: None },
            });
        }
        rows
    }

    fn commit(
        &mut self,
        rows: Vec<Row<Key>>,
        slot: Slot,
        first_slot: Slot,
    ) -> Result<(), StoreError> {
        let head = Head { slot, first_slot, ..self.head };
        let mut batch = BlockBatch { rows, head, row_codec: &mut self.row_codec };
        self.engine.commit(&mut batch).map_err(|source| self.directory.write_failed(source))?;
        self.head = batch.head;
        Ok(())
    }
}

/// An open ledger on disk whose accounts were not read yet.
pub struct Opened<E: Engine = Fjall> {
    /// The caller's bytes from the creation of the ledger.
    pub genesis: Vec<u8>,
    /// The caller's last stored state of epochs.
    pub epochs: Option<Vec<u8>>,
    /// The stored blocks, the oldest first, without their account writes. Never empty.
    pub blocks: Vec<Arc<Block>>,
    store: LedgerStore<E>,
}

impl<E: Engine> Opened<E> {
    /// Calls `visit` with every account as of the newest block, in the order of pubkeys, and returns the ledger to
    /// append to. The accounts are valid only if this succeeds.
    pub fn read(
        self,
        mut visit: impl FnMut(Pubkey, Account),
    ) -> Result<LedgerStore<E>, StoreError> {
        let LedgerStore { engine, directory, head, .. } = &self.store;
        directory.catch_panic(|| restore::read_accounts(directory, engine, head, &mut visit))?;
        Ok(self.store)
    }
}

/// The rows of a block, and the head, which is updated by the replaced values.
struct BlockBatch<'a> {
    rows: Vec<Row<Key>>,
    head: Head,
    row_codec: &'a mut RowCodec,
}

impl Batch for BlockBatch<'_> {
    type Key = Key;

    fn rows(&self) -> &[Row<Key>] {
        &self.rows
    }

    fn replaces(&mut self, row: usize, old: Option<&[u8]>) {
        let new = self.rows[row].value.as_deref();
        let fingerprint = |value: Option<&[u8]>| value.map_or(0, fingerprint);
        let head = &mut self.head;
        head.accounts = head.accounts.wrapping_add(u64::from(new.is_some()));
        head.accounts = head.accounts.wrapping_sub(u64::from(old.is_some()));
        head.fingerprints =
            head.fingerprints.wrapping_add(fingerprint(new)).wrapping_sub(fingerprint(old));
    }

    fn last(&mut self) -> Row<Key> {
        self.row_codec.encode_row(Key::Head, &codec::write_head(&self.head))
    }
}

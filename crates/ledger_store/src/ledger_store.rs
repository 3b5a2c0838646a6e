//! The open ledger on disk: blocks are appended to it.
//!
//! In: complete blocks in order, from the one writer. Out: rows of the engine, a batch for each append.
//! Not here: the creation of a ledger (`new_ledger`), reading it back (`restore`).

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::path::Path;
use std::sync::Arc;

use chain_solana::Block;
use chain_solana::wire::codec;
use ledger::Slot;
use solana::Account;
use solana_pubkey::Pubkey;
use store::{
    Batch, Directory, DirectoryContents, Engine, Fjall, Row, RowCodec, StoreError, fingerprint,
};

use crate::head::Head;
use crate::key::{self, Key};
use crate::restore::{self, Restored, RestoredBlocks};
use crate::rows::CallerRows;

/// An open ledger on disk. Owned by the one writer, closed when dropped.
pub struct LedgerStore<E: Engine = Fjall> {
    pub(crate) engine: E,
    pub(crate) directory: Directory,
    pub(crate) row_codec: RowCodec,
    pub(crate) head: Head,
    /// The stored blocks, the oldest first. 8 bytes a block.
    pub(crate) slots: VecDeque<Slot>,
    /// Blocks below this slot are removed with the next append.
    pub(crate) retain_from: Slot,
    /// Written with the next append.
    pub(crate) unwritten: UnwrittenRows,
}

/// The caller's rows that the next append writes.
#[derive(Default)]
pub(crate) struct UnwrittenRows {
    pub(crate) epochs: Option<Vec<u8>>,
    pub(crate) bank: Option<Vec<u8>>,
}

impl<E: Engine> LedgerStore<E> {
    /// Returns whether there is a ledger in `dir`. Fails if the directory contains foreign files.
    pub fn is_in(dir: &Path) -> Result<bool, StoreError> {
        Ok(Directory::inspect(dir, E::PATH)? != DirectoryContents::Nothing)
    }

    /// Opens the ledger in `dir` and reads everything except its accounts, which [`Opened::read`] reads. Returns `None`
    /// if `dir` does not contain a ledger.
    pub fn open(dir: &Path) -> Result<Option<Opened<E>>, StoreError> {
        if Directory::inspect(dir, E::PATH)? == DirectoryContents::Nothing {
            return Ok(None);
        }
        let directory = Directory::lock(dir)?;
        directory.check_mark()?;
        let engine: E = directory.open_engine(&key::TABLES)?;
        let read = directory.catch_panic(|| restore::read_restored_blocks(&directory, &engine));
        let RestoredBlocks { head, rows, blocks } = read?;
        let row_codec = directory.row_codec()?;
        let slots = blocks.iter().map(|block| block.id.slot).collect();
        let unwritten = UnwrittenRows::default();
        let store = Self { engine, directory, row_codec, head, slots, retain_from: 0, unwritten };
        Ok(Some(Opened { rows, blocks, store }))
    }

    /// Opens the ledger in `dir` and reads it into memory. For small ledgers.
    pub fn open_whole(dir: &Path) -> Result<Option<(Self, Restored)>, StoreError> {
        let Some(mut opened) = Self::open(dir)? else { return Ok(None) };
        let genesis = mem::take(&mut opened.rows.genesis);
        let blocks = mem::take(&mut opened.blocks);
        let mut accounts = Vec::new();
        let store = opened.read(|pubkey, account| accounts.push((pubkey, Arc::new(account))))?;
        Ok(Some((store, Restored { genesis, blocks, accounts })))
    }

    /// Removes the ledger in `dir`, if it contains one. Other files stay. Fails if it contains only foreign files.
    pub fn remove(dir: &Path) -> Result<(), StoreError> {
        Directory::remove(dir, E::PATH)
    }

    /// Appends a block. When this returns, it is on disk with its transactions and account writes. After an error no
    /// further block can be appended; earlier blocks stay.
    pub fn append(&mut self, block: &Block) -> Result<(), StoreError> {
        self.append_all(&[block])
    }

    /// Appends blocks in one atomic batch, each the child of the one before. An empty list changes nothing.
    pub fn append_all(&mut self, blocks: &[&Block]) -> Result<(), StoreError> {
        let (Some(oldest), Some(newest)) = (blocks.first(), blocks.last()) else { return Ok(()) };
        let mut head = self.head.slot;
        for block in blocks {
            let slot = block.id.slot;
            let parent = block.parent.slot;
            if parent != head || slot <= parent {
                return Err(StoreError::NotNext { slot, parent, head });
            }
            head = slot;
        }
        let mut rows = self.block_rows(blocks);
        let UnwrittenRows { epochs, bank } = mem::take(&mut self.unwritten);
        for (key, row) in [(Key::Epochs, epochs), (Key::Bank, bank)] {
            rows.extend(row.map(|row| self.row_codec.encode_row(key, &row)));
        }
        let dropped = self.slots.partition_point(|stored| *stored < self.retain_from);
        rows.extend(
            self.slots.iter().take(dropped).map(|old| Row { key: Key::Block(*old), value: None }),
        );
        let first_slot = self.slots.get(dropped).copied().unwrap_or(oldest.id.slot);
        self.commit(rows, newest.id.slot, first_slot)?;
        self.slots.drain(..dropped);
        self.slots.extend(blocks.iter().map(|block| block.id.slot));
        self.directory.set_newest(newest.id.slot)
    }

    /// Removes the newest blocks, in one atomic batch: the block of `head`, which must be stored, is the newest again.
    /// `accounts` are those that the removed blocks wrote, as they were at `head`.
    pub fn revert_to(
        &mut self,
        head: Slot,
        accounts: impl Iterator<Item = (Pubkey, Option<Arc<Account>>)>,
    ) -> Result<(), StoreError> {
        let retained = self.slots.partition_point(|slot| *slot <= head);
        let is_stored = retained.checked_sub(1).and_then(|at| self.slots.get(at)) == Some(&head);
        if !is_stored {
            let newest = self.head.slot;
            return Err(StoreError::NotNext { slot: newest, parent: head, head: newest });
        }
        let mut rows: Vec<Row<Key>> = accounts
            .map(|(pubkey, account)| {
                let key = Key::Account(pubkey);
                match account {
                    // The slot of the write is unknown. It is not above the head.
                    Some(account) => {
                        self.row_codec.encode_row(key, &codec::write_account(head, &account))
                    }
                    None => Row { key, value: None },
                }
            })
            .collect();
        let removed = self.slots.range(retained..);
        rows.extend(removed.map(|slot| Row { key: Key::Block(*slot), value: None }));
        let UnwrittenRows { epochs, bank } = mem::take(&mut self.unwritten);
        for (key, row) in [(Key::Epochs, epochs), (Key::Bank, bank)] {
            rows.extend(row.map(|row| self.row_codec.encode_row(key, &row)));
        }
        // Before the batch: a head below this slot would be reported as damage.
        self.directory.set_newest(head)?;
        self.commit(rows, head, self.head.first_slot)?;
        self.slots.truncate(retained);
        Ok(())
    }

    /// Removes the blocks below `slot` with the next append. Accounts stay.
    pub fn prune_below(&mut self, slot: Slot) {
        self.retain_from = self.retain_from.max(slot);
    }

    /// Stores the caller's state of epochs with the next append.
    pub fn set_epochs(&mut self, epochs: Vec<u8>) {
        self.unwritten.epochs = Some(epochs);
    }

    /// Stores the caller's state of the newest block with the next append.
    pub fn set_bank(&mut self, bank: Vec<u8>) {
        self.unwritten.bank = Some(bank);
    }

    /// Returns the slot of the newest stored block.
    pub fn newest_slot(&self) -> Slot {
        self.head.slot
    }

    /// Returns the rows of blocks, each key once. The last write of an account counts.
    pub(crate) fn block_rows(&mut self, blocks: &[&Block]) -> Vec<Row<Key>> {
        let mut accounts = BTreeMap::new();
        for block in blocks {
            let writes = block.writes.iter();
            accounts.extend(writes.map(|write| (write.pubkey, (block.id.slot, write))));
        }
        let mut rows = Vec::with_capacity(accounts.len() + blocks.len() + 3);
        for block in blocks {
            let key = Key::Block(block.id.slot);
            rows.push(self.row_codec.encode_row(key, &codec::write_block(block)));
        }
        for (pubkey, (slot, write)) in accounts {
            let key = Key::Account(pubkey);
            rows.push(match write.after() {
                Some(account) => {
                    self.row_codec.encode_row(key, &codec::write_account(slot, &account))
                }
                None => Row { key, value: None },
            });
        }
        rows
    }

    pub(crate) fn commit(
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

/// An open ledger on disk, before its accounts are read.
pub struct Opened<E: Engine = Fjall> {
    /// The caller's rows as they were stored last.
    pub rows: CallerRows,
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
        self.row_codec.encode_row(Key::Head, &self.head.to_bytes())
    }
}

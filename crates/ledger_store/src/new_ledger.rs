//! The creation of a ledger on disk, while blocks are appended to it.
//!
//! In: the first block, the accounts as of that block as a stream, in chunks, and between two chunks the next blocks.
//! Shape: an account that a block wrote is newer than that of the stream, which is then skipped.
//! Invariant: the directory is a ledger only after [`NewLedger::finish`]. A creation that was interrupted starts again.
//! Bounds: [`BULK_INSERT_ROWS_MAX`] accounts and [`BULK_INSERT_BYTES_MAX`] in memory, and the address of each account
//! that a block wrote.

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use chain_solana::Block;
use chain_solana::wire::codec;
use solana::Account;
use solana_pubkey::Pubkey;
use store::{Directory, DirectoryContents, Engine, Fjall, StoreError, fingerprint};

use crate::head::Head;
use crate::key::{self, Key};
use crate::ledger_store::{LedgerStore, UnwrittenRows};
use crate::rows::CallerRows;

/// Accounts of a new ledger in one write, and their bytes. The last account may exceed the bytes.
const BULK_INSERT_ROWS_MAX: usize = 16_384;
const BULK_INSERT_BYTES_MAX: usize = 4 << 20;

/// A ledger on disk that lacks accounts.
pub struct NewLedger<E: Engine = Fjall> {
    store: LedgerStore<E>,
    /// The slot of the first block: that of the accounts.
    first_slot: u64,
    /// The accounts that blocks wrote.
    written: HashSet<Pubkey>,
}

impl<E: Engine> LedgerStore<E> {
    /// Creates a ledger with its first block and a stream of the accounts as of its parent, each once. `genesis` is
    /// stored unchanged. `dir` is created if needed, and must be empty.
    pub fn create(
        dir: &Path,
        genesis: &[u8],
        accounts: impl IntoIterator<Item = (Pubkey, Arc<Account>)>,
        first_block: &Block,
    ) -> Result<Self, StoreError> {
        let rows = CallerRows { genesis: genesis.to_vec(), ..CallerRows::default() };
        let mut new = NewLedger::start(dir, &rows, first_block)?;
        let mut accounts = accounts.into_iter();
        while new.insert_chunk(&mut accounts)? {}
        new.finish()
    }
}

impl<E: Engine> NewLedger<E> {
    /// Starts with the first block and the caller's rows. `dir` is created if needed, and must be empty.
    pub fn start(dir: &Path, rows: &CallerRows, first_block: &Block) -> Result<Self, StoreError> {
        if Directory::inspect(dir, E::PATH)? == DirectoryContents::Ledger {
            return Err(StoreError::Exists { dir: dir.into() });
        }
        let directory = Directory::lock(dir)?;
        directory.clear(E::PATH)?;
        let engine = directory.open_engine(&key::TABLES)?;
        let slot = first_block.id.slot;
        let mut store = LedgerStore {
            engine,
            row_codec: directory.row_codec()?,
            directory,
            head: Head { slot, first_slot: slot, accounts: 0, fingerprints: 0 },
            slots: VecDeque::from([slot]),
            retain_from: 0,
            unwritten: UnwrittenRows::default(),
        };
        let mut first = store.block_rows(&[first_block]);
        first.push(store.row_codec.encode_row(Key::Genesis, &rows.genesis));
        for (key, row) in [(Key::Epochs, &rows.epochs), (Key::Bank, &rows.bank)] {
            first.extend(row.as_ref().map(|row| store.row_codec.encode_row(key, row)));
        }
        store.commit(first, slot, slot)?;
        store.directory.set_newest(slot)?;
        let written = first_block.writes.iter().map(|write| write.pubkey).collect();
        Ok(Self { store, first_slot: slot, written })
    }

    /// Writes the next accounts of the stream. Returns whether there may be more.
    pub fn insert_chunk(
        &mut self,
        accounts: &mut impl Iterator<Item = (Pubkey, Arc<Account>)>,
    ) -> Result<bool, StoreError> {
        let Self { store, first_slot, written } = self;
        let mut rows = Vec::new();
        let mut bytes = 0;
        let mut is_end = false;
        while rows.len() < BULK_INSERT_ROWS_MAX && bytes < BULK_INSERT_BYTES_MAX {
            let Some((pubkey, account)) = accounts.next() else {
                is_end = true;
                break;
            };
            if written.contains(&pubkey) {
                continue;
            }
            let account = codec::write_account(*first_slot, &account);
            let row = store.row_codec.encode_row(Key::Account(pubkey), &account);
            let value = row.value.as_deref().unwrap_or_default();
            store.head.accounts += 1;
            store.head.fingerprints = store.head.fingerprints.wrapping_add(fingerprint(value));
            bytes += value.len();
            rows.push(row);
        }
        let inserted = store.engine.bulk_insert(&rows);
        inserted.map_err(|source| store.directory.write_failed(source))?;
        Ok(!is_end)
    }

    /// Appends blocks. Accounts that the ledger lacks may be inserted afterwards.
    pub fn append_all(&mut self, blocks: &[&Block]) -> Result<(), StoreError> {
        self.store.append_all(blocks)?;
        let writes = blocks.iter().flat_map(|block| &block.writes);
        self.written.extend(writes.map(|write| write.pubkey));
        Ok(())
    }

    /// Changes the rows and the pruning of the next append.
    pub fn store(&mut self) -> &mut LedgerStore<E> {
        &mut self.store
    }

    /// Makes the directory a ledger. All accounts of the stream are inserted.
    pub fn finish(mut self) -> Result<LedgerStore<E>, StoreError> {
        let Head { slot, first_slot, .. } = self.store.head;
        self.store.commit(Vec::new(), slot, first_slot)?;
        self.store.directory.sync()?;
        // The directory becomes a ledger only now. A creation that is interrupted earlier starts again.
        self.store.directory.mark()?;
        self.store.directory.sync()?;
        Ok(self.store)
    }
}

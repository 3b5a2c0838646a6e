//! The interface of a storage engine, and the one in use: fjall.
//!
//! An engine is a few sorted tables with atomic, durable batches. The layers above check that rows are valid, undamaged
//! and complete, and do not rely on the engine for it.
//! Why fjall and not redb: docs/ledger-on-disk.md. The benchmark `store` runs both through this trait.

use std::io;
use std::path::Path;

use fjall::{
    Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode, Readable,
};

use crate::table::{Key, Row, Table, ValueLayout};

/// Why an operation of an engine failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Another process, or another handle of this one, has the engine open.
    #[error("another handle has the ledger open")]
    Busy,
    /// The files of the engine are damaged.
    #[error("{0}")]
    Damaged(String),
    /// Any other error, usually an IO error.
    #[error(transparent)]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

/// A batch that is being written: it receives the value that each of its rows replaces, and then returns the last row.
pub trait Batch {
    /// The type of the keys of the rows.
    type Key: Key;

    /// Returns the rows to write, each key once.
    fn rows(&self) -> &[Row<Self::Key>];
    /// Receives the value that a row replaces. Called for the tables that report it ([`Table::reports_replaced`]).
    fn replaces(&mut self, row: usize, value: Option<&[u8]>);
    /// Returns the row to write after all others.
    fn last(&mut self) -> Row<Self::Key>;
}

/// A few sorted tables with atomic, durable batches. Owned by the one writer.
pub trait Engine: Sized + Send {
    /// Its file or directory within the ledger's directory.
    const PATH: &'static str;

    /// Opens `tables` at `path`, or creates them. Every other call names one of them.
    fn open(path: &Path, tables: &[Table]) -> Result<Self, EngineError>;

    /// Writes a batch. When this returns, all of it is on disk. After a crash, all or nothing is.
    fn commit(&mut self, batch: &mut impl Batch) -> Result<(), EngineError>;

    /// Writes rows with new keys. They are on disk once a later batch is.
    fn bulk_insert(&mut self, rows: &[Row<impl Key>]) -> Result<(), EngineError>;

    /// Calls `row` with each key and value of a table, in the order of keys, until it returns `false`.
    fn scan(
        &self,
        table: Table,
        row: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), EngineError>;
}

/// Bytes of fjall's cache of tables.
const CACHE_BYTES: u64 = 32 << 20;

/// Bytes of journals: fjall's minimum. Its default of 512 MiB would be most of a local ledger's files.
const JOURNAL_BYTES: u64 = 64 << 20;
/// Written bytes that a table buffers in memory before they are flushed to files. Each table has one active and one
/// flushing buffer: at most 96 MiB for the three tables of a local ledger.
const MEMTABLE_BYTES: u64 = 16 << 20;

/// The engine in use: a log-structured merge tree in a directory.
pub struct Fjall {
    database: Database,
    /// The tables that it was opened with.
    keyspaces: Vec<(Table, Keyspace)>,
}

impl Engine for Fjall {
    const PATH: &'static str = "fjall";

    fn open(path: &Path, tables: &[Table]) -> Result<Self, EngineError> {
        let database = Database::builder(path)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNAL_BYTES)
            .open()
            .map_err(engine_error)?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        let keyspace = |table: &Table| {
            let opened = database.keyspace(table.name, || match table.layout {
                ValueLayout::Separate => {
                    options().with_kv_separation(Some(KvSeparationOptions::default()))
                }
                ValueLayout::Inline => options(),
            });
            opened.map(|keyspace| (*table, keyspace)).map_err(engine_error)
        };
        let keyspaces = tables.iter().map(keyspace).collect::<Result<_, _>>()?;
        Ok(Self { database, keyspaces })
    }

    fn commit(&mut self, batch: &mut impl Batch) -> Result<(), EngineError> {
        let mut writes = self.database.batch().durability(Some(PersistMode::SyncData));
        for index in 0..batch.rows().len() {
            let row = &batch.rows()[index];
            let table = row.key.table();
            let keyspace = self.keyspace(table);
            row.key.with_bytes(|key| match &row.value {
                Some(value) => writes.insert(keyspace, key, value.as_slice()),
                None => writes.remove(keyspace, key),
            });
            if table.reports_replaced {
                let replaced = row.key.with_bytes(|key| keyspace.get(key)).map_err(engine_error)?;
                batch.replaces(index, replaced.as_deref());
            }
        }
        let last = batch.last();
        let value = last.value.unwrap_or_default();
        last.key.with_bytes(|key| writes.insert(self.keyspace(last.key.table()), key, value));
        writes.commit().map_err(engine_error)
    }

    fn bulk_insert(&mut self, rows: &[Row<impl Key>]) -> Result<(), EngineError> {
        let mut writes = self.database.batch();
        for row in rows {
            let keyspace = self.keyspace(row.key.table());
            let value = row.value.as_deref();
            row.key.with_bytes(|key| writes.insert(keyspace, key, value.unwrap_or_default()));
        }
        writes.commit().map_err(engine_error)
    }

    fn scan(
        &self,
        table: Table,
        row: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), EngineError> {
        for entry in self.database.snapshot().iter(self.keyspace(table)) {
            let (key, value) = entry.into_inner().map_err(engine_error)?;
            if !row(&key, &value) {
                break;
            }
        }
        Ok(())
    }
}

impl Fjall {
    fn keyspace(&self, table: Table) -> &Keyspace {
        let opened = self.keyspaces.iter().find(|(opened, _)| *opened == table);
        let Some((_, keyspace)) = opened else {
            unreachable!("table {} was not opened", table.name)
        };
        keyspace
    }
}

fn engine_error(err: fjall::Error) -> EngineError {
    match err {
        fjall::Error::Locked => EngineError::Busy,
        fjall::Error::Io(err) | fjall::Error::Storage(fjall::LsmError::Io(err)) => io_error(err),
        err @ (fjall::Error::Poisoned | fjall::Error::KeyspaceDeleted) => {
            EngineError::Failed(Box::new(err))
        }
        err => EngineError::Damaged(err.to_string()),
    }
}

/// Classifies an IO error. Unexpected contents or lengths of files are damage; other errors are the system's.
fn io_error(err: io::Error) -> EngineError {
    match err.kind() {
        // `InvalidInput` is an offset before the start of a file, computed from its contents.
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::InvalidData
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::NotFound => EngineError::Damaged(err.to_string()),
        _ => EngineError::Failed(Box::new(err)),
    }
}

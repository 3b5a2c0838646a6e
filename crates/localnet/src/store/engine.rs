//! What a storage engine must do for the ledger, and the one we use: redb.
//!
//! An engine is little more than three sorted tables with atomic, durable batches. What the rows mean,
//! and whether they are undamaged and complete, is checked above it and does not rest on the engine.
//! Why redb and not fjall: docs/ledger-on-disk.md; `cargo xtask bench store` runs both through this trait.

use std::path::Path;

use redb::{ReadableDatabase, ReadableTable, TableDefinition};

use super::row::{Row, Table};

/// Why an engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Another process, or another handle of this one, has it open.
    #[error("another handle has the ledger open")]
    Busy,
    /// Its files are not what it wrote.
    #[error("{0}")]
    Damaged(String),
    /// Anything else, an IO error as a rule.
    #[error(transparent)]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

/// One batch on its way to disk: it is told what each of its rows replaces, and then gives the last row.
pub trait Batch {
    /// The rows to write.
    fn rows(&self) -> &[Row];
    /// The value of an account that a row takes the place of. Not told of other tables' rows.
    fn replaces(&mut self, row: usize, value: Option<&[u8]>);
    /// The row to write after all others.
    fn last(&mut self) -> Row;
}

/// Three sorted tables with atomic, durable batches. Owned by the one writer.
pub trait Engine: Sized + Send {
    /// Its file or folder within the ledger's directory.
    const PATH: &'static str;

    /// Opens what is at `path`, or makes it.
    fn open(path: &Path) -> Result<Self, EngineError>;

    /// Writes a batch. When this returns, all of it is on disk; if it never returns, all or nothing is.
    fn commit(&mut self, batch: &mut dyn Batch) -> Result<(), EngineError>;

    /// Calls `row` with each key and value of a table, in the order of keys, until it says `false`.
    fn scan(
        &self,
        table: Table,
        row: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), EngineError>;
}

/// Pages that redb keeps in memory. Each block rewrites a few sysvars and the accounts of its
/// transactions; 32 MiB hold the inner pages of a million accounts.
const CACHE_BYTES: usize = 32 << 20;

/// The engine in use: a copy-on-write B-tree in one file.
pub struct Redb(redb::Database);

impl Engine for Redb {
    const PATH: &'static str = "ledger.redb";

    fn open(path: &Path) -> Result<Self, EngineError> {
        let database = redb::Builder::new().set_cache_size(CACHE_BYTES).create(path);
        let database = database.map_err(redb::Error::from)?;
        let tx = database.begin_write().map_err(redb::Error::from)?;
        for table in Table::ALL {
            tx.open_table(definition(table)).map_err(redb::Error::from)?;
        }
        tx.commit().map_err(redb::Error::from)?;
        Ok(Self(database))
    }

    fn commit(&mut self, batch: &mut dyn Batch) -> Result<(), EngineError> {
        commit(&self.0, batch).map_err(EngineError::from)
    }

    fn scan(
        &self,
        table: Table,
        row: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), EngineError> {
        scan(&self.0, table, row).map_err(EngineError::from)
    }
}

fn commit(database: &redb::Database, batch: &mut dyn Batch) -> Result<(), redb::Error> {
    let tx = database.begin_write()?;
    {
        let [mut meta, mut blocks, mut accounts] = [
            tx.open_table(definition(Table::Meta))?,
            tx.open_table(definition(Table::Blocks))?,
            tx.open_table(definition(Table::Accounts))?,
        ];
        for index in 0..batch.rows().len() {
            let row = &batch.rows()[index];
            let is_account = row.key.table() == Table::Accounts;
            let table = match row.key.table() {
                Table::Meta => &mut meta,
                Table::Blocks => &mut blocks,
                Table::Accounts => &mut accounts,
            };
            let replaced = row.key.with_bytes(|key| match &row.value {
                Some(value) => table.insert(key, value.as_slice()),
                None => table.remove(key),
            })?;
            if is_account {
                batch.replaces(index, replaced.as_ref().map(|value| value.value()));
            }
        }
        let last = batch.last();
        last.key.with_bytes(|key| meta.insert(key, last.value.as_deref().unwrap_or_default()))?;
    }
    tx.commit()?;
    Ok(())
}

fn scan(
    database: &redb::Database,
    table: Table,
    row: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<(), redb::Error> {
    let table = database.begin_read()?.open_table(definition(table))?;
    for entry in table.iter()? {
        let (key, value) = entry?;
        if !row(key.value(), value.value()) {
            break;
        }
    }
    Ok(())
}

fn definition(table: Table) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(table.name())
}

impl From<redb::Error> for EngineError {
    fn from(err: redb::Error) -> Self {
        match err {
            redb::Error::DatabaseAlreadyOpen => Self::Busy,
            redb::Error::Io(err) if err.kind() != std::io::ErrorKind::InvalidData => {
                Self::Failed(Box::new(err))
            }
            err @ (redb::Error::PreviousIo | redb::Error::ValueTooLarge(_)) => {
                Self::Failed(Box::new(err))
            }
            err => Self::Damaged(err.to_string()),
        }
    }
}

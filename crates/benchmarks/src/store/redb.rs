//! The rival storage engine: redb, a copy-on-write B-tree in one file, behind the same trait as ours.

use std::path::Path;

use localnet::store::{Batch, Engine, EngineError, Row, Table};
use redb::{Database, Error, ReadableDatabase, ReadableTable, TableDefinition};

/// Cache size in bytes: the same as for our engine.
const CACHE_BYTES: usize = 32 << 20;

/// redb as a ledger's engine.
pub(super) struct Redb(Database);

impl Engine for Redb {
    const PATH: &'static str = "ledger.redb";

    fn open(path: &Path) -> Result<Self, EngineError> {
        let database = redb::Builder::new().set_cache_size(CACHE_BYTES).create(path);
        let database = database.map_err(|err| engine_error(err.into()))?;
        make_tables(&database).map_err(engine_error)?;
        Ok(Self(database))
    }

    fn commit(&mut self, batch: &mut dyn Batch) -> Result<(), EngineError> {
        commit(&self.0, batch).map_err(engine_error)
    }

    fn bulk_insert(&mut self, rows: &[Row]) -> Result<(), EngineError> {
        fill(&self.0, rows).map_err(engine_error)
    }

    fn scan(
        &self,
        table: Table,
        row: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), EngineError> {
        scan(&self.0, table, row).map_err(engine_error)
    }
}

fn make_tables(database: &Database) -> Result<(), Error> {
    let tx = database.begin_write()?;
    for table in Table::ALL {
        tx.open_table(definition(table))?;
    }
    Ok(tx.commit()?)
}

fn commit(database: &Database, batch: &mut dyn Batch) -> Result<(), Error> {
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

fn fill(database: &Database, rows: &[Row]) -> Result<(), Error> {
    let tx = database.begin_write()?;
    for row in rows {
        let mut table = tx.open_table(definition(row.key.table()))?;
        let value = row.value.as_deref().unwrap_or_default();
        row.key.with_bytes(|key| table.insert(key, value).map(|_| ()))?;
    }
    Ok(tx.commit()?)
}

fn scan(
    database: &Database,
    table: Table,
    row: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<(), Error> {
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

fn engine_error(err: Error) -> EngineError {
    match err {
        Error::DatabaseAlreadyOpen => EngineError::Busy,
        err @ (Error::Io(_) | Error::PreviousIo | Error::ValueTooLarge(_)) => {
            EngineError::Failed(Box::new(err))
        }
        err => EngineError::Damaged(err.to_string()),
    }
}

//! The rival storage engine: redb, a copy-on-write B-tree in one file, behind the same trait as ours.

use std::path::Path;

use redb::{Database, Error, ReadableDatabase, ReadableTable, TableDefinition};
use store::{Batch, Engine, EngineError, Key, Row, Table};

/// Cache size in bytes: the same as for our engine.
const CACHE_BYTES: usize = 32 << 20;

/// redb as a ledger's engine, and the tables that it was opened with.
pub(super) struct Redb {
    database: Database,
    tables: Vec<Table>,
}

impl Engine for Redb {
    const PATH: &'static str = "ledger.redb";

    fn open(path: &Path, tables: &[Table]) -> Result<Self, EngineError> {
        let database = redb::Builder::new().set_cache_size(CACHE_BYTES).create(path);
        let database = database.map_err(|err| engine_error(err.into()))?;
        make_tables(&database, tables).map_err(engine_error)?;
        Ok(Self { database, tables: tables.to_vec() })
    }

    fn commit(&mut self, batch: &mut impl Batch) -> Result<(), EngineError> {
        commit(&self.database, &self.tables, batch).map_err(engine_error)
    }

    fn bulk_insert(&mut self, rows: &[Row<impl Key>]) -> Result<(), EngineError> {
        fill(&self.database, rows).map_err(engine_error)
    }

    fn scan(
        &self,
        table: Table,
        row: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), EngineError> {
        scan(&self.database, table, row).map_err(engine_error)
    }
}

fn make_tables(database: &Database, tables: &[Table]) -> Result<(), Error> {
    let tx = database.begin_write()?;
    for table in tables {
        tx.open_table(definition(*table))?;
    }
    Ok(tx.commit()?)
}

fn commit(database: &Database, tables: &[Table], batch: &mut impl Batch) -> Result<(), Error> {
    let tx = database.begin_write()?;
    {
        let opened = tables.iter().map(|table| tx.open_table(definition(*table)));
        let mut opened = opened.collect::<Result<Vec<_>, _>>()?;
        // Every row is in one of the tables.
        let position = |table: Table| tables.iter().position(|it| *it == table).expect("opened");
        for index in 0..batch.rows().len() {
            let row = &batch.rows()[index];
            let reports_replaced = row.key.table().reports_replaced;
            let table = &mut opened[position(row.key.table())];
            let replaced = row.key.with_bytes(|key| match &row.value {
                Some(value) => table.insert(key, value.as_slice()),
                None => table.remove(key),
            })?;
            if reports_replaced {
                batch.replaces(index, replaced.as_ref().map(|value| value.value()));
            }
        }
        let last = batch.last();
        let table = &mut opened[position(last.key.table())];
        last.key.with_bytes(|key| table.insert(key, last.value.as_deref().unwrap_or_default()))?;
    }
    tx.commit()?;
    Ok(())
}

fn fill(database: &Database, rows: &[Row<impl Key>]) -> Result<(), Error> {
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
    TableDefinition::new(table.name)
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

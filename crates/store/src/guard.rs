//! The errors and panics of an engine, as errors of the directory that it is in.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::directory::Directory;
use crate::disk;
use crate::engine::{Engine, EngineError};
use crate::error::StoreError;
use crate::row::RowCodec;
use crate::table::Table;

impl Directory {
    /// Opens the engine of this directory, or creates it. Fails if the disk has too little free space.
    pub fn open_engine<E: Engine>(&self, tables: &[Table]) -> Result<E, StoreError> {
        let path = self.path().join(E::PATH);
        disk::require_free_space(self.path(), &path)?;
        let opened = catch_unwind(|| E::open(&path, tables));
        let opened =
            opened.unwrap_or_else(|panic| Err(EngineError::Damaged(panic_text(panic.as_ref()))));
        opened.map_err(|err| {
            let explained = disk::explain(self.path(), &err);
            explained.unwrap_or_else(|| self.read_failed(err, E::PATH))
        })
    }

    /// Creates the encoder of the directory's rows.
    pub fn row_codec(&self) -> Result<RowCodec, StoreError> {
        RowCodec::new().map_err(|source| StoreError::Io {
            doing: "prepare to compress for",
            path: self.path().into(),
            source,
        })
    }

    /// Runs `read` and reports a panic as an error: an engine may panic on damaged files.
    pub fn catch_panic<T>(
        &self,
        read: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let read = catch_unwind(AssertUnwindSafe(read));
        read.unwrap_or_else(|panic| Err(self.damage_error(panic_text(panic.as_ref()))))
    }

    /// Converts an engine's error while `what` was read.
    pub fn read_failed(&self, err: EngineError, what: &str) -> StoreError {
        match err {
            EngineError::Busy => {
                StoreError::InUse { dir: self.path().into(), user: "another process".to_owned() }
            }
            EngineError::Damaged(how) => self.damage_error(format!("{what}: {how}")),
            EngineError::Failed(source) => StoreError::Engine { dir: self.path().into(), source },
        }
    }

    /// Converts an engine's error while writing. The message names a full disk as the cause.
    pub fn write_failed(&self, source: EngineError) -> StoreError {
        let explained = disk::explain(self.path(), &source);
        explained.unwrap_or_else(|| StoreError::Engine {
            dir: self.path().into(),
            source: Box::new(source),
        })
    }
}

/// Returns the error text of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the storage engine panicked: {}", text.unwrap_or("no reason given"))
}

//! The contents of an engine: tables, keys and rows. The caller declares its own tables and keys.

use std::fmt;

/// A sorted table of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Name of the table in the engine, unique in a directory.
    pub name: &'static str,
    /// Storage layout of the values.
    pub layout: ValueLayout,
    /// Whether a batch receives the values that its rows of this table replace.
    pub reports_replaced: bool,
}

/// Storage layout of the values of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueLayout {
    /// Values are stored with their keys: for small values, and for values that are rewritten often.
    Inline,
    /// Values are stored separately from their keys: for large values that are written once.
    Separate,
}

/// The key of a row. Its text names the row in errors.
pub trait Key: Copy + fmt::Display {
    /// Returns the table of the row.
    fn table(&self) -> Table;

    /// Calls `f` with the key's bytes.
    fn with_bytes<T>(&self, f: impl FnOnce(&[u8]) -> T) -> T;
}

/// A row to be written: an encoded value, or `None` to remove the row.
#[derive(Debug)]
pub struct Row<K> {
    /// Key, which also names the table.
    pub key: K,
    /// Encoded value of the row, with its header.
    pub value: Option<Vec<u8>>,
}

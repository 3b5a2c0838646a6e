//! Tables, keys and rows: what an engine holds. The caller declares its own tables and keys.

use std::fmt;

/// A sorted table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name in the engine, unique in a directory.
    pub name: &'static str,
    /// How its values are stored.
    pub layout: ValueLayout,
    /// Whether a batch receives the values that its rows of this table replace.
    pub reports_replaced: bool,
}

/// How the values of a table are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueLayout {
    /// With their keys: for small values, and for values that are rewritten often.
    Inline,
    /// Separately from their keys: for large values that are written once.
    Separate,
}

/// The key of a row. Its text names the row in errors.
pub trait Key: Copy + fmt::Display {
    /// The table it is in.
    fn table(&self) -> Table;

    /// Calls `f` with the key's bytes.
    fn with_bytes<T>(&self, f: impl FnOnce(&[u8]) -> T) -> T;
}

/// A row to be written: an encoded value, or `None` to remove the row.
#[derive(Debug)]
pub struct Row<K> {
    /// Its key.
    pub key: K,
    /// Its value.
    pub value: Option<Vec<u8>>,
}

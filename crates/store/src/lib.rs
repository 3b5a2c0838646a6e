//! A ledger's directory on disk: a key-value engine, a lock, values with checksums, and durable files. Independent of
//! any chain.
//!
//! Shape: a [`Directory`] is locked and opens an [`Engine`], which holds sorted tables. The caller declares each
//! [`Table`] and its [`Key`]s, writes its records with a [`ByteWriter`], and seals each as a [`Row`] with a
//! [`RowCodec`].
//! Invariant: a value is read back as it was written, or its damage is reported ([`decode_row`]).
//! Not here: the records of a ledger, their order, and the meaning of a damaged one (`ledger_store`).
//! Why this engine, with measurements: docs/ledger-on-disk.md.
//!
//! ```
//! use store::{ByteReader, ByteWriter, Key, RowCodec, Table, ValueLayout, decode_row};
//!
//! const BLOCKS: Table =
//!     Table { name: "blocks", layout: ValueLayout::Separate, reports_replaced: false };
//!
//! #[derive(Clone, Copy)]
//! struct BlockKey(u64);
//!
//! impl std::fmt::Display for BlockKey {
//!     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
//!         write!(f, "block {}", self.0)
//!     }
//! }
//!
//! impl Key for BlockKey {
//!     fn table(&self) -> Table {
//!         BLOCKS
//!     }
//!
//!     fn with_bytes<T>(&self, f: impl FnOnce(&[u8]) -> T) -> T {
//!         f(&self.0.to_be_bytes())
//!     }
//! }
//!
//! let mut record = ByteWriter::default();
//! record.u64(7);
//! let row = RowCodec::new()?.encode_row(BlockKey(1), &record.0);
//! let value = row.value.expect("a row to be written");
//! let body = decode_row(BlockKey(1), &value)?;
//! assert_eq!(ByteReader::new(&body).u64("the number")?, 7);
//! // A value under the key of another one is damage.
//! assert!(decode_row(BlockKey(2), &value).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod byte_codec;
mod directory;
mod disk;
pub mod durable_file;
mod engine;
mod error;
mod guard;
mod row;
mod table;

pub use byte_codec::{ByteReader, ByteWriter, DecodeError};
pub use directory::{Directory, DirectoryContents};
pub use engine::{Batch, Engine, EngineError, Fjall};
pub use error::StoreError;
pub use row::{RowCodec, RowError, decode_row, fingerprint};
pub use table::{Key, Row, Table, ValueLayout};

//! The secondary indices: from a key to the records that are found by it.
//!
//! Shape: [`Index`] is the writer's side, [`Postings`] the part that readers share: from a [`ledger::Key`]
//! (kind and address id) to a sorted set of record ids. A key takes 8 bytes in a table: its id, and a
//! word. The word is the id of the only record, or refers to a block with exactly the ids of a small set, or to a
//! large set. A large set is divided into leaves: sorted ids, sorted halves of ids of one range of 65,536, or
//! a bitmap of such a range where the set is dense.
//!
//! Readers share the sets with the writer and take no lock. They may read a set that is newer than their
//! snapshot, never older: an entry is visible as soon as it is inserted; a removed entry stays
//! until no reader's snapshot can need it, by the epochs. So a reader checks each record
//! that it finds against the version that its snapshot sees.
//!
//! Bounds: ids below 2^31 ([`ID_MAX`]); 2^30 words of small sets, four million large sets. Entries
//! are bounded by the address table on both sides.
//! Not here: when entries are inserted and removed (`query`, which knows the versions), the meaning of key kinds,
//! how long readers pin an epoch (`address`, which numbers the epochs).
#![forbid(unsafe_code)]

mod chunked_array;
mod index;
mod key_table;
mod large_set;
mod large_set_leaf;
mod postings;
mod small_sets;
mod sync;

pub use index::Index;
pub use postings::{ID_MAX, KeyKindUsage, Postings, Records};

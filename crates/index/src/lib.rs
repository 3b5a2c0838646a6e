//! The secondary indices: from a key to the records that are found by it.
//!
//! Shape: [`Index`] is the writer's, [`Postings`] what readers share with it: from a [`ledger::Key`]
//! (facet and address id) to a sorted set of record ids. A key is 8 bytes in a table: its id, and a
//! word that is the only record's id, or leads to a block of exactly the ids of a small set, or to a
//! large set, which is cut into leaves: sorted ids, sorted halves of ids of one range of 65,536, or
//! a bitmap of such a range where the set is dense.
//!
//! Readers share the sets with the writer and take no lock. What they read may be newer than their
//! snapshot, never older: an entry is there from the moment it is inserted; one that is removed stays
//! until the epochs say that no reader's snapshot can need it. So whoever reads checks each record
//! that he finds against the version his snapshot sees.
//!
//! Bounds: ids below 2^31 ([`ID_MAX`]); 2^30 words of small sets, four million large sets. Entries
//! are bounded by the address table on both sides.
//! Not here: when an entry comes and goes (`query`, which knows the versions), what a facet means,
//! how long readers hold what (`address`, which numbers the epochs).
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

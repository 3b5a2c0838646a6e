//! A chain of Kaspa without sockets: a model that a chain follows, and blocks over UTXO sets of any size.
//!
//! [`ModelNode`] is a naive kaspad: each block has a copy of its UTXO set. [`run_model`] lets a [`CheckedFollower`]
//! follow it over a faulty link, and compares the two. [`BlockBuilder`] makes blocks over a large set from the
//! transactions of a [`UtxoPool`]. A [`TestChain`] is written block by block by a test.
//! Not here: a model with sockets and messages ([`crate::kaspa_node`], feature `kaspa-node`).

mod block_builder;
mod checked_follower;
mod model_node;
mod model_run;
mod test_chain;
mod utxo_pool;

pub use self::block_builder::BlockBuilder;
pub use self::checked_follower::{CheckedFollower, assert_same};
pub use self::model_node::{ModelNode, NodeBlock, Utxos, difference};
pub use self::model_run::{Link, ModelReport, run_model};
pub use self::test_chain::{DEPTH, Payment, TestChain, address, pay, to_address_utxo};
pub use self::utxo_pool::{PooledTransaction, UtxoPool, dust_utxo, numbered_payload};

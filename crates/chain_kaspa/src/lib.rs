//! A selected chain of Kaspa and the virtual state above it: UTXOs by script, checks, events and recent history.
//!
//! Shape: [`ChainLoader`] takes the UTXO set of a first block. [`Chain`] is the one writer: it takes the replies of
//! getVirtualChainFromBlockV2 ([`Chain::start_step`]), the source's messages about its virtual state
//! ([`Chain::apply_utxos_changed`]) and its block templates ([`Chain::check_template`]). [`Chain::publish`] shows the
//! result to readers ([`ChainReader`]) and returns the events ([`ChainEvent`]).
//! Proven: the UTXO set of each chain block, from the first one on, by the commitment of its header. Not proven: the
//! work of the headers, that the source's chain is the heaviest, and the virtual state.
//! Bounds: [`ChainConfig`].
//! Not here: records and hashes (`kaspa`), sockets and files (`follow_kaspa`). No clock.
#![forbid(unsafe_code)]

mod acceptance;
mod block_changes;
mod block_info;
mod chain;
mod chain_reader;
mod config;
mod event;
mod history;
mod ledger_block;
mod loader;
mod overlay;
mod records;
mod refusal;
mod script_utxo;
mod script_utxos;
mod status;
mod step;
mod virtual_messages;
mod virtual_state;

pub use block_changes::{BlockChanges, ChangedUtxo, NetChanges};
pub use block_info::{BlockInfo, Reader, Supply, View};
pub use chain::{Chain, Publication};
pub use chain_reader::ChainReader;
pub use config::{ChainConfig, DEPTH_DEFAULT, DEPTH_LIMIT, VirtualLimits};
pub use event::{ChainEvent, Tips};
pub use history::{
    HistoryLimits, HistoryPage, HistorySnapshot, HistoryTransaction, NewestBlock,
    TransactionPosition,
};
pub use ledger_block::LedgerBlock;
pub use loader::{ChainLoader, LoadError, hash_utxos};
pub use refusal::{Refusal, UtxoError};
pub use script_utxo::ScriptUtxo;
pub use script_utxos::{
    PAGE_UTXOS_MIN, UtxoCursor, UtxoPage, UtxoScan, all_utxos, page_script_utxos, script_totals,
};
pub use status::{ChainCounters, ChainPoint, ChainStatus, RefusedBlock};
pub use step::{ChainStep, StepError};
pub use virtual_state::{TemplateCheck, VirtualMode, VirtualStatus};

//! The sizes of the measurements of `kaspa-ledger`.

use crate::client_sets::{self, ClientSets};

/// The sizes of the measurements.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    /// Whether the sizes are too small for figures, and only show that the measurements run.
    pub(crate) is_toy: bool,
    /// Steps of the model run.
    pub(crate) model_steps: u64,
    /// UTXOs of the ledger at rest.
    pub(crate) utxos: u32,
    /// UTXOs of one script.
    pub(crate) account_utxos: u32,
    /// Calls for the balance of that script.
    pub(crate) balance_calls: u32,
    /// Requests of its list.
    pub(crate) list_calls: u32,
    /// Scripts of the ledgers that blocks are added to.
    pub(crate) scripts: u32,
    /// Transactions of a block with two inputs and two outputs each, for `depth`.
    pub(crate) deep_transactions: usize,
    /// Blocks above the root.
    pub(crate) depths: [usize; 2],
    /// Chain blocks that are measured at each depth.
    pub(crate) rounds: usize,
    /// Chain blocks that are verified, and the transactions of each.
    pub(crate) verified_blocks: usize,
    pub(crate) verified_transactions: usize,
    /// Listeners of the publishing measurement, and the addresses of each.
    pub(crate) listeners: [u32; 2],
    pub(crate) listener_addresses: u32,
    /// Blocks that are published to each number of listeners.
    pub(crate) published_blocks: usize,
    pub(crate) sets: ClientSets,
    pub(crate) cycles: u32,
    /// Addresses of one large client, and how often it subscribes.
    pub(crate) million: u32,
    pub(crate) million_rounds: usize,
    /// Clients that get the notifications of a frame, and the addresses that they watch together.
    pub(crate) fanout_sets: ClientSets,
    /// Transactions of a frame with two inputs and two outputs each, and the frames that are measured.
    pub(crate) fanout_transactions: usize,
    pub(crate) fanout_frames: u32,
    /// UTXOs that are imported.
    pub(crate) imported_utxos: u32,
}

pub(crate) const FULL: Size = Size {
    is_toy: false,
    model_steps: 1_000_000,
    utxos: 10_000_000,
    account_utxos: 1_000_000,
    balance_calls: 20_000,
    list_calls: 50,
    scripts: 1_000_000,
    deep_transactions: 375,
    depths: [100, 1_000],
    rounds: 100,
    verified_blocks: 600,
    verified_transactions: 200,
    listeners: [100, 10_000],
    listener_addresses: 800,
    published_blocks: 300,
    sets: client_sets::FULL,
    cycles: 83,
    million: 1_000_000,
    million_rounds: 5,
    fanout_sets: client_sets::FULL,
    fanout_transactions: 175,
    fanout_frames: 300,
    imported_utxos: 2_000_000,
};

pub(crate) const TOY: Size = Size {
    is_toy: true,
    model_steps: 600,
    utxos: 20_000,
    account_utxos: 20_000,
    balance_calls: 100,
    list_calls: 3,
    scripts: 3_000,
    deep_transactions: 20,
    depths: [5, 20],
    rounds: 4,
    verified_blocks: 10,
    verified_transactions: 20,
    listeners: [100, 200],
    listener_addresses: 20,
    published_blocks: 10,
    sets: client_sets::TOY,
    cycles: 2,
    million: 5_000,
    million_rounds: 1,
    fanout_sets: client_sets::TOY,
    fanout_transactions: 20,
    fanout_frames: 5,
    imported_utxos: 20_000,
};

//! The readers' access to a chain.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::block_info::Reader;
use crate::history::HistorySnapshot;
use crate::status::ChainStatus;

/// The readers' access to a chain. Cheap to clone, usable from any thread, never waits for the writer.
#[derive(Clone)]
pub struct ChainReader {
    /// The UTXO set at each commitment: the virtual block, the sink, the newest final block.
    pub utxos: Reader,
    history: Arc<ArcSwap<HistorySnapshot>>,
    status: Arc<ArcSwap<ChainStatus>>,
}

impl ChainReader {
    pub(crate) fn new(
        utxos: Reader,
        history: Arc<ArcSwap<HistorySnapshot>>,
        status: Arc<ArcSwap<ChainStatus>>,
    ) -> Self {
        Self { utxos, history, status }
    }

    /// Returns a reader that stays at the UTXO sets, the history and the status that are the newest now: for several reads
    /// of one version. The history and the status may be those of the publication before or after that of the UTXO sets.
    #[must_use]
    pub fn pin(&self) -> Self {
        Self {
            utxos: self.utxos.pin(),
            history: Arc::new(ArcSwap::new(self.history.load_full())),
            status: Arc::new(ArcSwap::new(self.status.load_full())),
        }
    }

    /// Returns the recent transactions of the selected chain. Cost: a reference count.
    pub fn history(&self) -> Arc<HistorySnapshot> {
        self.history.load_full()
    }

    /// Returns the state of the chain and its counters as of the last publication. Cost: a reference count.
    pub fn status(&self) -> Arc<ChainStatus> {
        self.status.load_full()
    }
}

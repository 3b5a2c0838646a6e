//! The readers' access to a chain.

use std::sync::Arc;

use arc_swap::ArcSwap;
use ledger::Commitment;

use crate::block_info::Reader;
use crate::history::HistorySnapshot;
use crate::status::ChainStatus;

/// Attempts to load parts of one publication: the writer may be between two of its stores, which takes microseconds.
const PIN_ATTEMPTS_MAX: usize = 8;

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
    /// of one version. All have the same sink, unless the writer publishes one sink after another meanwhile.
    #[must_use]
    pub fn pin(&self) -> Self {
        let mut pinned = self.load();
        for _ in 1..PIN_ATTEMPTS_MAX {
            if pinned.has_one_sink() {
                break;
            }
            pinned = self.load();
        }
        pinned
    }

    fn load(&self) -> Self {
        Self {
            utxos: self.utxos.pin(),
            history: Arc::new(ArcSwap::new(self.history.load_full())),
            status: Arc::new(ArcSwap::new(self.status.load_full())),
        }
    }

    /// Whether the UTXO sets, the history and the status have the same sink. They are published one after the other.
    fn has_one_sink(&self) -> bool {
        let sink = self.utxos.view(Commitment::Confirmed).meta().hash;
        // The history is empty before the first block after the start.
        let newest = self.history().newest_block().map(|block| block.hash);
        newest.is_none_or(|hash| hash == sink) && self.status().sink.hash == sink
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

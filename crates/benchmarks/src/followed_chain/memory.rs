//! The memory of a follower above the rooted state.
//!
//! Shape: unrooted versions of accounts are what the ledger's unpacked part grows by, because the accounts of the root
//! have the sizes that they have at the start. Updates that wait, open banks, what is prepared of them, and the verifier's
//! sums are as the follower reports them. Not counted: history, which has bounds of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use chain_solana::Reader;
use follow::FollowStatus;
use ledger::Commitment;
use metrics::Collector;

/// Between two observations.
pub(super) const INTERVAL: Duration = Duration::from_millis(20);
/// Parts of the follower's memory that are above the root.
const PARTS: [&str; 5] = [
    "follow_open_banks",
    "follow_prepared_banks",
    "follow_queue",
    "follow_verifier",
    "follow_checks",
];

/// The most that was observed.
pub(super) struct AboveRoot {
    reader: Reader,
    /// Bytes of unpacked accounts in the rooted state.
    rooted: usize,
    most: BTreeMap<&'static str, u64>,
}

impl AboveRoot {
    /// Of a ledger that has its root only.
    pub(super) fn new(reader: &Reader) -> Self {
        let rooted = reader.view(Commitment::Processed).bytes().unpacked;
        Self { reader: reader.clone(), rooted, most: BTreeMap::new() }
    }

    pub(super) fn observe(&mut self, status: &FollowStatus) {
        let unpacked = self.reader.view(Commitment::Processed).bytes().unpacked;
        let parts = status.memory().into_iter().filter(|(part, _)| PARTS.contains(part));
        let mut now: BTreeMap<_, _> = parts.collect();
        now.insert("unrooted versions", unpacked.saturating_sub(self.rooted) as u64);
        if now.values().sum::<u64>() > self.bytes() {
            self.most = now;
        }
    }

    fn bytes(&self) -> u64 {
        self.most.values().sum()
    }

    pub(super) fn megabytes(&self) -> f64 {
        self.bytes() as f64 / 1e6
    }
}

impl fmt::Display for AboveRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MB", self.megabytes())?;
        self.most
            .iter()
            .try_for_each(|(part, bytes)| write!(f, ", {part} {:.1}", *bytes as f64 / 1e6))
    }
}

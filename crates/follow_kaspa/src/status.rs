//! The progress of a follower, for health checks and metrics: the newest proven block, the source, and errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use chain_kaspa::{ChainPoint, ChainReader, ChainStatus, Refusal, VirtualMode};
use kaspa::Hash;
use metrics::{Collector, Exposition, MetricKind};
use parking_lot::Mutex;

use crate::agreement::Agreement;
use crate::writer_queue::QueueUsage;

/// A block of a source that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The source, as it may be shown.
    pub server: String,
    /// The hash that the source has for the block.
    pub block: Hash,
    /// The rule that the block breaks.
    pub reason: Refusal,
}

/// The progress of a follower. Threads share it.
pub struct FollowStatus {
    chain: ChainReader,
    queue: Arc<QueueUsage>,
    is_connected: AtomicBool,
    is_caught_up: AtomicBool,
    is_source_synced: AtomicBool,
    counters: FollowCounters,
    texts: Mutex<StatusTexts>,
}

/// Counters since the start.
#[derive(Debug, Default)]
struct FollowCounters {
    sessions: AtomicU64,
    too_deep: AtomicU64,
    pages: AtomicU64,
    piece_blocks: AtomicU64,
    notifications: AtomicU64,
    templates: AtomicU64,
    snapshots: AtomicU64,
    /// The DAA score of the newest snapshot file, or 0.
    snapshot_daa_score: AtomicU64,
}

/// The texts of a status.
#[derive(Debug, Default)]
struct StatusTexts {
    source: Option<String>,
    last_session_end: Option<String>,
    /// Why no source continues our chain, while that is so.
    halt: Option<String>,
    mismatch: Option<Mismatch>,
    last_snapshot_error: Option<String>,
    agreements: Vec<(String, Agreement)>,
}

impl FollowStatus {
    pub(crate) fn new(chain: ChainReader, queue: Arc<QueueUsage>) -> Self {
        Self {
            chain,
            queue,
            is_connected: AtomicBool::new(false),
            is_caught_up: AtomicBool::new(false),
            is_source_synced: AtomicBool::new(false),
            counters: FollowCounters::default(),
            texts: Mutex::default(),
        }
    }

    /// Whether a session with a source is open.
    pub fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed)
    }

    /// Whether the chain reached the sink of the source in the current session.
    pub fn is_caught_up(&self) -> bool {
        self.is_caught_up.load(Ordering::Relaxed)
    }

    /// Whether the source said at the start of the session that it is in sync with its network.
    pub fn is_source_synced(&self) -> bool {
        self.is_source_synced.load(Ordering::Relaxed)
    }

    /// Returns the newest chain block. Its UTXO set is proven.
    pub fn proven(&self) -> ChainPoint {
        self.chain.status().sink
    }

    /// Returns the state of the chain at its last publication.
    pub fn chain(&self) -> Arc<ChainStatus> {
        self.chain.status()
    }

    /// Returns the block that was refused last, until a source has continued the chain since then.
    pub fn mismatch(&self) -> Option<Mismatch> {
        self.texts.lock().mismatch.clone()
    }

    /// Returns why nothing newer than [`Self::proven`] is served, as anyone may read it: without the addresses of sources,
    /// and without the errors of their connections. `None` while a source is followed.
    pub fn problem(&self) -> Option<String> {
        let texts = self.texts.lock();
        if let Some(Mismatch { block, reason, .. }) = &texts.mismatch {
            return Some(format!("block {block} of a source is refused: {reason}"));
        }
        if let Some(halt) = &texts.halt {
            return Some(halt.clone());
        }
        if !self.is_connected() {
            return Some("no source is connected".to_owned());
        }
        (!self.is_caught_up())
            .then(|| "the chain has not reached the sink of its source".to_owned())
    }

    /// Returns the source of the current session.
    pub fn source(&self) -> Option<String> {
        self.texts.lock().source.clone()
    }

    /// Returns the source of the last session that ended, and why it did.
    pub fn last_session_end(&self) -> Option<String> {
        self.texts.lock().last_session_end.clone()
    }

    /// Returns the number of sessions so far.
    pub fn sessions(&self) -> u64 {
        self.counters.sessions.load(Ordering::Relaxed)
    }

    /// Returns the number of blocks that were requested in pieces so far.
    pub fn piece_blocks(&self) -> u64 {
        self.counters.piece_blocks.load(Ordering::Relaxed)
    }

    /// Returns the number of snapshot files that were written so far.
    pub fn snapshots(&self) -> u64 {
        self.counters.snapshots.load(Ordering::Relaxed)
    }

    /// Returns why the last snapshot file could not be written.
    pub fn last_snapshot_error(&self) -> Option<String> {
        self.texts.lock().last_snapshot_error.clone()
    }

    /// Returns the relation of each source's chain to ours, at the last comparison. Empty if there is only one source.
    pub fn agreements(&self) -> Vec<(String, Agreement)> {
        self.texts.lock().agreements.clone()
    }

    pub(crate) fn set_agreements(&self, agreements: Vec<(String, Agreement)>) {
        self.texts.lock().agreements = agreements;
    }

    pub(crate) fn open_session(&self, source: String, is_synced: bool) {
        self.counters.sessions.fetch_add(1, Ordering::Relaxed);
        self.is_source_synced.store(is_synced, Ordering::Relaxed);
        self.texts.lock().source = Some(source);
        self.is_connected.store(true, Ordering::Relaxed);
    }

    pub(crate) fn set_caught_up(&self) {
        self.texts.lock().halt = None;
        self.is_caught_up.store(true, Ordering::Relaxed);
    }

    /// Records that a source left our chain, and the reason as anyone may read it. A source that continues the chain ends
    /// the halt.
    pub(crate) fn set_halt(&self, reason: String) {
        self.texts.lock().halt = Some(reason);
    }

    /// Whether a source left our chain, and no source has continued it since then.
    pub(crate) fn is_halted(&self) -> bool {
        self.texts.lock().halt.is_some()
    }

    /// Records the end of a session.
    pub(crate) fn close_session(&self, end: String) {
        self.is_connected.store(false, Ordering::Relaxed);
        self.is_caught_up.store(false, Ordering::Relaxed);
        let mut texts = self.texts.lock();
        texts.source = None;
        texts.last_session_end = Some(end);
    }

    pub(crate) fn set_mismatch(&self, mismatch: Mismatch) {
        self.texts.lock().mismatch = Some(mismatch);
    }

    pub(crate) fn clear_mismatch(&self) {
        self.texts.lock().mismatch = None;
    }

    pub(crate) fn count_too_deep(&self) {
        self.counters.too_deep.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_page(&self) {
        self.counters.pages.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_piece_block(&self) {
        self.counters.piece_blocks.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_notification(&self) {
        self.counters.notifications.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_template(&self) {
        self.counters.templates.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn record_snapshot(&self, daa_score: u64) {
        self.counters.snapshots.fetch_add(1, Ordering::Relaxed);
        self.counters.snapshot_daa_score.store(daa_score, Ordering::Relaxed);
        self.texts.lock().last_snapshot_error = None;
    }

    pub(crate) fn set_snapshot_error(&self, error: String) {
        self.texts.lock().last_snapshot_error = Some(error);
    }
}

impl Collector for FollowStatus {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("kaspa_history", self.chain.history().bytes() as u64),
            ("kaspa_writer_queue", self.queue.queue_bytes() as u64),
            ("kaspa_page", self.queue.page_bytes() as u64),
            ("kaspa_merged_blocks", self.queue.merged_bytes() as u64),
        ]
    }

    fn write(&self, out: &mut Exposition) {
        let chain = self.chain.status();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let help = "Whether a session with a source is open, whether its sink was reached, and whether it is in sync.";
        let mut family = out.family("hydrant_kaspa_source", MetricKind::Gauge, help);
        for (state, value) in [
            ("connected", self.is_connected()),
            ("caught_up", self.is_caught_up()),
            ("synced", self.is_source_synced()),
        ] {
            family.put(&[("state", state)], u64::from(value));
        }
        let help = "DAA scores: of the virtual block, of the newest block with a proven UTXO set, of the newest final \
                    block, and of the snapshot file.";
        let mut family = out.family("hydrant_kaspa_daa_score", MetricKind::Gauge, help);
        for (at, score) in [
            ("virtual", chain.virtual_daa_score),
            ("proven", chain.sink.daa_score),
            ("final", chain.root.daa_score),
            ("snapshot", count(&self.counters.snapshot_daa_score)),
        ] {
            family.put(&[("at", at)], score);
        }
        let help = "Whether a block was refused and no source has continued the chain since then.";
        let is_refused = u64::from(self.mismatch().is_some());
        out.single("hydrant_kaspa_refused", MetricKind::Gauge, help, is_refused);
        let help = "Whether the virtual UTXO set was compared with the source's and is the same.";
        let is_exact = u64::from(chain.virtual_state.mode == VirtualMode::Exact);
        out.single("hydrant_kaspa_virtual_exact", MetricKind::Gauge, help, is_exact);
        let help = "UTXOs in which the virtual set differs from the newest chain block's, and contradictions.";
        let mut family = out.family("hydrant_kaspa_virtual_differences", MetricKind::Gauge, help);
        for (kind, value) in [
            ("difference", chain.virtual_state.differences),
            ("contradiction", chain.virtual_state.contradictions),
        ] {
            family.put(&[("kind", kind)], value);
        }
        let help = "The UTXOs of the newest chain block, and their sum in sompi.";
        let mut family = out.family("hydrant_kaspa_supply", MetricKind::Gauge, help);
        family.put(&[("of", "utxos")], chain.supply.utxos);
        family.put(&[("of", "sompi")], chain.supply.sompi);
        let help = "Sources by the relation of their selected chains to ours.";
        let mut family = out.family("hydrant_kaspa_sources", MetricKind::Gauge, help);
        let agreements = self.agreements();
        for label in Agreement::LABELS {
            let has_label = |(_, agreement): &&(String, Agreement)| agreement.label() == label;
            family.put(&[("chain", label)], agreements.iter().filter(has_label).count());
        }
        let help = "What was followed: sessions, pages, blocks, and what was wrong with them.";
        let mut family = out.family("hydrant_kaspa_events_total", MetricKind::Counter, help);
        let FollowCounters { sessions, too_deep, pages, piece_blocks, notifications, .. } =
            &self.counters;
        for (event, value) in [
            ("session", count(sessions)),
            ("page", count(pages)),
            ("block_in_pieces", count(piece_blocks)),
            ("notification", count(notifications)),
            ("template", count(&self.counters.templates)),
            ("snapshot", count(&self.counters.snapshots)),
            ("proven_block", chain.counters.blocks),
            ("transaction", chain.counters.transactions),
            ("refused_block", chain.counters.refused),
            ("reorganization", chain.counters.reorganizations),
            ("removed_block", chain.counters.removed_blocks),
            ("too_deep_reorganization", count(too_deep)),
            ("template_match", chain.virtual_state.matches),
            ("template_mismatch", chain.virtual_state.mismatches),
            ("template_incomplete", chain.virtual_state.incomplete),
            ("lost_message", chain.virtual_state.losses),
        ] {
            family.put(&[("event", event)], value);
        }
    }
}

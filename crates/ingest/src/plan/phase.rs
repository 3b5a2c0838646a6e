//! The phases of an ingester, and the state of each.
//!
//! Not here: the actions and the inputs of a phase (`recovering`, `following`, `opening`).

use std::sync::Arc;
use std::time::Duration;

use chain_solana::wire::{BlockKey, RecordDigest};
use ledger::BlockId;
use replicated_log::Tail;

use crate::batch::Batch;
use crate::log_chain::LogChain;
use crate::record_stream::RecordStream;

/// Records of an append, unless a batch was refused.
pub(super) const RECORDS_MAX: usize = 256;

/// The step that an ingester has reached.
pub(super) enum Phase {
    /// The log is checked: it must not lose acknowledged messages.
    CheckingLog,
    /// The chain of the newest snapshot is compared with the own one.
    CheckingChain,
    /// The newest generation is not known.
    Seeking,
    /// The newest generation is not open.
    Connecting { generation: u64 },
    /// The extent of the generation is not known.
    Measuring { generation: u64 },
    /// The blocks above the log's root are read.
    Recovering(Box<Recovering>),
    /// The log is followed, and appended to if this ingester leads.
    Following(Box<Following>),
    /// A new generation is made.
    Opening(Box<Opening>),
    /// The ingester appends no more records.
    Stopped,
}

/// A log whose end is being read.
pub(super) struct Recovering {
    pub(super) generation: u64,
    pub(super) tail: Tail,
    pub(super) window: u64,
    /// Messages up to this one are not read: they are damaged, or before a damage.
    pub(super) after: u64,
    pub(super) chain: LogChain,
    pub(super) stream: RecordStream,
    /// Time of the last message, or of the reader's opening. `None` before the reader is open.
    pub(super) read_since: Option<Duration>,
}

impl Recovering {
    pub(super) fn new(generation: u64, tail: Tail, window: u64, after: u64) -> Self {
        let oldest = tail.first.saturating_sub(1).max(after);
        let start = tail.last.saturating_sub(window).max(oldest);
        Self {
            generation,
            tail,
            window,
            after,
            chain: LogChain::default(),
            stream: RecordStream::after_message(start),
            read_since: None,
        }
    }

    /// Whether the window has all messages that can be read.
    pub(super) fn is_whole(&self) -> bool {
        let oldest = self.tail.first.max(self.after + 1);
        self.tail.last.saturating_sub(self.window) < oldest
    }

    /// Reads again from the last whole record on.
    pub(super) fn reopen_reader(&mut self) {
        self.read_since = None;
        self.stream = RecordStream::after_record(self.chain.position());
    }
}

/// A generation that is recovered again from behind a damage, while another ingester appends to it.
pub(super) struct GenerationRejoin {
    pub(super) generation: u64,
    /// The damaged message.
    pub(super) damaged: u64,
    /// The last message that the log is known to have.
    pub(super) last: u64,
    pub(super) times: u32,
    /// Whether the next extent of the log decides if another ingester appends.
    pub(super) needs_growth: bool,
    /// The reason of a new generation.
    pub(super) reason: Arc<str>,
}

/// A followed log.
pub(super) struct Following {
    pub(super) generation: u64,
    pub(super) chain: LogChain,
    pub(super) stream: RecordStream,
    pub(super) has_reader: bool,
    /// Whether the extent of the log is unknown after an append without a reply.
    pub(super) needs_tail: bool,
    /// Position at the time of the request for the extent. Others may append before the reply is handled.
    pub(super) tail_requested_at: u64,
    /// Time since which the log says that it ends before messages that it has confirmed.
    pub(super) shorter_since: Option<Duration>,
    /// Sequence of the newest message that is known to exist.
    pub(super) known_last: u64,
    /// Time of the last message, or of the step that expects one.
    pub(super) read_since: Duration,
    /// Time at which the log got its newest record.
    pub(super) advanced_at: Duration,
    pub(super) searched_at: Duration,
    pub(super) records_max: usize,
    /// The batch that is being appended.
    pub(super) append: Option<Batch>,
}

impl Following {
    /// Follows a log that was read so far.
    pub(super) fn new(
        generation: u64,
        chain: LogChain,
        stream: RecordStream,
        now: Duration,
    ) -> Self {
        Self {
            generation,
            known_last: chain.position(),
            chain,
            stream,
            has_reader: true,
            needs_tail: false,
            tail_requested_at: 0,
            shorter_since: None,
            read_since: now,
            advanced_at: now,
            searched_at: now,
            records_max: RECORDS_MAX,
            append: None,
        }
    }

    /// Follows a log whose first record this ingester has appended.
    pub(super) fn from_first_record(generation: u64, chain: LogChain, now: Duration) -> Self {
        let stream = RecordStream::after_record(chain.position());
        Self { has_reader: false, ..Self::new(generation, chain, stream, now) }
    }

    pub(super) fn note_search(&mut self, now: Duration) {
        self.searched_at = now;
    }

    pub(super) fn note_tail(&mut self, last: u64, now: Duration) {
        self.needs_tail = false;
        self.shorter_since = None;
        self.known_last = self.chain.position().max(last);
        self.read_since = now;
    }

    /// Whether the log ends before messages that it has confirmed.
    pub(super) fn is_longer_than(&self, last: u64) -> bool {
        last < self.tail_requested_at
    }

    /// Returns how long the log has been shorter than it was. A server that is about to step down, or that still
    /// applies its last messages, says so for a while.
    pub(super) fn note_shorter_tail(&mut self, now: Duration) -> Duration {
        now - *self.shorter_since.get_or_insert(now)
    }

    pub(super) fn note_reader(&mut self, now: Duration) {
        self.has_reader = true;
        self.read_since = now;
    }

    /// Reads again from the last whole record on. The reader of a leader may be behind the chain.
    pub(super) fn reopen_reader(&mut self) {
        self.has_reader = false;
        self.stream = RecordStream::after_record(self.stream.record_end());
    }

    /// Reads from the end of the known chain on. A leader does not need the messages before it.
    pub(super) fn skip_to_end(&mut self) {
        self.has_reader = false;
        self.stream = RecordStream::after_record(self.chain.position());
    }

    /// Requests the extent of the log, and reads again.
    pub(super) fn measure_again(&mut self) {
        self.reopen_reader();
        self.needs_tail = true;
    }

    /// Whether messages that exist do not arrive, although the log says that it has them.
    pub(super) fn is_stuck(&self) -> bool {
        self.is_behind() && self.has_reader && !self.needs_tail
    }

    pub(super) fn is_behind(&self) -> bool {
        self.chain.position() < self.known_last
    }
}

/// A generation that is being made.
pub(super) struct Opening {
    pub(super) generation: u64,
    pub(super) reason: Arc<str>,
    pub(super) step: OpeningStep,
    /// Whether the generation exists and is empty.
    pub(super) exists: bool,
    /// The previous generation, if it was followed. The new one continues from a block of it.
    pub(super) earlier: Option<LogChain>,
}

/// The next step of an opening.
pub(super) enum OpeningStep {
    /// Another ingester may open it before this time.
    Waiting { until: Duration },
    /// The newest generation, or the tail of an empty one, is requested.
    Searching,
    /// The final view is retained, once all blocks above the root are known.
    Viewing,
    /// The own events reach the block of the retained view.
    Reaching(ViewBlock),
    /// The snapshot is written since this time.
    Writing { request: SnapshotRequest, since: Duration },
    /// The generation is created.
    Creating(OpenedSnapshot),
    /// The generation is opened.
    Opening(OpenedSnapshot),
    /// The first record is appended.
    Appending(Batch),
    /// The extent of the generation is requested, after an append without a reply.
    Checking(Batch),
}

/// A snapshot that the first record names.
#[derive(Clone, Debug)]
pub(super) struct OpenedSnapshot {
    pub(super) request: SnapshotRequest,
    pub(super) written: WrittenSnapshot,
}

/// The block of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ViewBlock {
    /// The block in this process.
    pub(crate) id: BlockId,
    /// The block at every ingester.
    pub(crate) key: BlockKey,
}

/// A snapshot that a new generation starts with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotRequest {
    pub(crate) generation: u64,
    /// The block in this process.
    pub(crate) block: BlockId,
    /// The number that the block has in the new generation.
    pub(crate) number: u64,
    /// The digest of its record.
    pub(crate) block_digest: RecordDigest,
}

/// A snapshot that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenSnapshot {
    /// Number and digest as in the request, unless another ingester wrote a snapshot of this block first.
    pub(crate) number: u64,
    pub(crate) block_digest: RecordDigest,
    pub(crate) manifest_key: String,
    pub(crate) manifest_digest: [u8; 32],
}

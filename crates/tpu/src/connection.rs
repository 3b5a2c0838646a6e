//! One connection: it reads streams, sets windows and counts broken streams.
//!
//! Shape: each stream is read as far as its bytes have arrived. An incomplete transaction is stored
//! separately, so that a stalled stream delays no other stream.
//! Bounds: an unfinished stream is stopped after `stream_timeout_ms`. A connection is closed after
//! `broken_streams_max` broken streams in a minute.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use chain_solana::Sender;
use foldhash::fast::RandomState;
use quinn_proto::{Dir, ReadError, StreamId, VarInt};

use crate::config::Config;
use crate::counters::DropReason;
use crate::driver_stats::DriverStats;
use crate::reassembly::{PartialTransaction, Reassembler};
use crate::stream_demand::{OpenedStreams, StreamDemand};
use crate::stream_window::{self, PeerLoad};
use crate::transaction::{PeerId, ReceivedTransaction};

/// Why a connection is closed, as sent to its peer: the codes of Agave's servers, and `Slow`, which
/// is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseCode {
    /// The connection was idle, or the node is stopping.
    Dropped = 1,
    /// There are too many connections.
    TooMany = 4,
    /// The connection broke too many streams.
    InvalidStream = 5,
    /// The handshake took too long.
    Slow = 6,
}

/// Error code of our STOP_SENDING frames.
const STOP_SENDING_CODE: u32 = 5;
/// Broken streams are counted over this interval.
const BROKEN_STREAMS_INTERVAL: Duration = Duration::from_secs(60);
/// A connection that sends more stream frames for each stream than this only causes work: a
/// transaction fits into four datagrams.
const FRAMES_PER_STREAM_MAX: u64 = 64;
/// Frames that a connection may send before that limit applies.
const FRAMES_FREE: u64 = 16_384;

/// Stage of the life of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    Handshake,
    Open(PeerId),
    /// Closed by one side; only its last packets are still handled.
    Closed,
}

/// A connection, and the streams that it has open.
pub(crate) struct Connection {
    pub(crate) inner: quinn_proto::Connection,
    /// The address under which it is counted. The client may have moved afterwards.
    pub(crate) address: IpAddr,
    pub(crate) state: ConnectionState,
    pub(crate) since: Instant,
    /// Time at which its last datagram arrived.
    pub(crate) last_datagram_at: Instant,
    /// Time at which its last transaction arrived.
    pub(crate) last_transaction_at: Instant,
    /// Streams that may be open at once: the smaller one of `share` and the demand.
    window: u32,
    /// Streams that may be open at once if the connection needs them.
    share: u32,
    demand: StreamDemand,
    /// The largest window so far.
    window_max: u32,
    /// Streams that were opened so far.
    opened: u64,
    /// States of streams. They are used again, and freed when the connection ends.
    stream_states: u64,
    pub(crate) needs_processing: bool,
    /// Whether the peer has closed it: nothing may be sent after that.
    pub(crate) is_closed_by_peer: bool,
    /// The first deadline in `Timers` for this connection.
    pub(crate) deadline: Option<Instant>,
    /// The peer that was just admitted and is not yet reported to the sink.
    pub(crate) unreported_peer: Option<(PeerId, Sender)>,
    unfinished: HashMap<StreamId, UnfinishedStream, RandomState>,
    /// Capacity of their buffers in bytes.
    unfinished_bytes: usize,
    /// Streams that have ended or been stopped.
    ended: u64,
    broken: u32,
    broken_since: Instant,
}

/// A stream that has not ended yet.
struct UnfinishedStream {
    partial: PartialTransaction,
    since: Instant,
}

/// Result of one read of a stream.
enum ReadOutcome {
    Whole,
    Incomplete,
    Refused(DropReason),
}

/// The parts of a driver that a connection needs to read its streams.
pub(crate) struct StreamReader<'a> {
    pub(crate) peer: PeerId,
    pub(crate) now: Instant,
    pub(crate) reassembler: &'a mut Reassembler,
    /// The transactions that were received.
    pub(crate) out: &'a mut Vec<ReceivedTransaction>,
    pub(crate) stats: &'a mut DriverStats,
}

impl Connection {
    pub(crate) fn new(
        inner: quinn_proto::Connection,
        address: IpAddr,
        config: &Config,
        now: Instant,
    ) -> Self {
        Self {
            inner,
            address,
            state: ConnectionState::Handshake,
            since: now,
            last_datagram_at: now,
            last_transaction_at: now,
            window: 0,
            share: 0,
            demand: StreamDemand::new(config, now),
            window_max: 0,
            opened: 0,
            stream_states: 0,
            needs_processing: false,
            is_closed_by_peer: false,
            deadline: None,
            unreported_peer: None,
            unfinished: HashMap::default(),
            unfinished_bytes: 0,
            ended: 0,
            broken: 0,
            broken_since: now,
        }
    }

    /// Reads all streams that were opened since the last call, and adapts the window to their number. Returns the number
    /// of states that were allocated for them.
    pub(crate) fn accept_streams(&mut self, mut reader: StreamReader<'_>) -> u64 {
        let mut count = 0;
        while let Some(id) = self.inner.streams().accept(Dir::Uni) {
            let since = reader.now;
            let fresh = UnfinishedStream { partial: PartialTransaction::Nothing, since };
            self.read_stream(id, fresh, &mut reader);
            count += 1;
        }
        let allocated = self.count_states(count);
        let opened = OpenedStreams { count, min_rtt: self.inner.min_rtt(), share: self.share };
        self.demand.record(opened, reader.now);
        // A MAX_STREAMS frame is sent with this round's packets.
        self.update_window();
        allocated
    }

    /// Counts the states that `count` more streams need. Returns the number of new ones: a stream has its own until all
    /// streams of the largest window have one.
    fn count_states(&mut self, count: u32) -> u64 {
        self.opened += u64::from(count);
        let states = self.opened.min(self.window_max.into());
        let allocated = states - self.stream_states;
        self.stream_states = states;
        allocated
    }

    /// Returns the number of states of streams that it has.
    pub(crate) fn stream_states(&self) -> u64 {
        self.stream_states
    }

    /// Continues to read an unfinished stream.
    pub(crate) fn resume_stream(&mut self, id: StreamId, mut reader: StreamReader<'_>) {
        // A stream that is not in the map was stopped, or was read to its end.
        let Some(unfinished) = self.unfinished.remove(&id) else { return };
        reader.reassembler.resume_partial(&unfinished.partial, &mut self.unfinished_bytes);
        self.read_stream(id, unfinished, &mut reader);
    }

    fn read_stream(
        &mut self,
        id: StreamId,
        unfinished: UnfinishedStream,
        reader: &mut StreamReader<'_>,
    ) {
        let StreamReader { peer, now, reassembler, out, stats } = reader;
        let now = *now;
        let UnfinishedStream { mut partial, since } = unfinished;
        let outcome = {
            let mut stream = self.inner.recv_stream(id);
            let Ok(mut chunks) = stream.read(true) else { return reassembler.discard(partial) };
            let outcome = loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) if chunk.bytes.is_empty() => {}
                    Ok(Some(chunk)) => {
                        if let Err(cause) = partial.add(chunk.bytes, reassembler) {
                            break ReadOutcome::Refused(cause);
                        }
                    }
                    Ok(None) => break ReadOutcome::Whole,
                    Err(ReadError::Blocked) => break ReadOutcome::Incomplete,
                    Err(ReadError::Reset(_)) => break ReadOutcome::Refused(DropReason::Reset),
                }
            };
            // Flow-control frames are sent with this round's packets.
            let _ = chunks.finalize();
            outcome
        };
        match outcome {
            ReadOutcome::Whole => {
                self.ended += 1;
                self.last_transaction_at = now;
                match reassembler.finish(partial) {
                    Some(bytes) => deliver(bytes, *peer, since, out, stats),
                    None => self.record_broken_stream(DropReason::Empty, now, stats),
                }
            }
            ReadOutcome::Incomplete => {
                match reassembler.store_partial(partial, &mut self.unfinished_bytes) {
                    Ok(partial) => {
                        self.unfinished.insert(id, UnfinishedStream { partial, since });
                    }
                    Err(cause) => self.stop_stream(id, cause, now, stats),
                }
            }
            ReadOutcome::Refused(cause) => {
                reassembler.discard(partial);
                self.stop_stream(id, cause, now, stats);
            }
        }
    }

    /// Stops a stream, and counts it by cause.
    fn stop_stream(
        &mut self,
        id: StreamId,
        cause: DropReason,
        now: Instant,
        stats: &mut DriverStats,
    ) {
        // A stream that has ended meanwhile needs no stop.
        let _ = self.inner.recv_stream(id).stop(VarInt::from_u32(STOP_SENDING_CODE));
        self.ended += 1;
        self.record_broken_stream(cause, now, stats);
    }

    fn record_broken_stream(&mut self, cause: DropReason, now: Instant, stats: &mut DriverStats) {
        stats.refuse(cause);
        if now.saturating_duration_since(self.broken_since) > BROKEN_STREAMS_INTERVAL {
            (self.broken, self.broken_since) = (0, now);
        }
        self.broken += 1;
    }

    /// Stops the streams that have exceeded their time. Returns whether there were any.
    pub(crate) fn stop_stalled(
        &mut self,
        config: &Config,
        now: Instant,
        reassembler: &mut Reassembler,
        stats: &mut DriverStats,
    ) -> bool {
        let timeout = config.stream_timeout();
        let is_late =
            |stream: &UnfinishedStream| now.saturating_duration_since(stream.since) >= timeout;
        if !self.unfinished.values().any(is_late) {
            return false;
        }
        let late: Vec<(StreamId, UnfinishedStream)> =
            self.unfinished.extract_if(|_, stream| is_late(stream)).collect();
        for (id, stream) in late {
            reassembler.resume_partial(&stream.partial, &mut self.unfinished_bytes);
            reassembler.discard(stream.partial);
            self.stop_stream(id, DropReason::Stalled, now, stats);
        }
        true
    }

    /// Returns whether it has broken more streams than `config` allows.
    pub(crate) fn breaks_too_much(&self, config: &Config) -> bool {
        self.broken > config.broken_streams_max
    }

    /// Returns whether it sends far more frames than its streams need. Reading the statistics has a cost.
    pub(crate) fn wastes_frames(&self) -> bool {
        self.inner.stats().frame_rx.stream
            > FRAMES_FREE + FRAMES_PER_STREAM_MAX * (self.ended + u64::from(self.window))
    }

    /// Grants the first streams to a connection that was admitted.
    pub(crate) fn grant_initial(&mut self, config: &Config, load: PeerLoad) {
        let share = stream_window::share(config, load);
        self.demand.set_initial(config, load, share);
        self.set_share(share);
    }

    /// Sets the number of streams that may be open at once if the connection needs them. Returns whether its
    /// window has changed.
    pub(crate) fn set_share(&mut self, share: u32) -> bool {
        self.share = share;
        self.update_window()
    }

    fn update_window(&mut self) -> bool {
        let window = self.share.min(self.demand.streams());
        let changes = self.window != window;
        if changes {
            self.window = window;
            self.window_max = self.window_max.max(window);
            self.inner.set_max_concurrent_streams(Dir::Uni, VarInt::from_u32(window));
        }
        changes
    }

    /// Closes the connection with a code and a reason.
    pub(crate) fn close(&mut self, code: CloseCode, reason: &'static str, now: Instant) {
        let reason = Bytes::from_static(reason.as_bytes());
        self.inner.close(now, VarInt::from_u32(code as u32), reason);
    }

    /// Discards unfinished transactions and counts each.
    pub(crate) fn discard_unfinished(
        &mut self,
        reassembler: &mut Reassembler,
        stats: &mut DriverStats,
    ) {
        for (_, stream) in std::mem::take(&mut self.unfinished) {
            reassembler.resume_partial(&stream.partial, &mut self.unfinished_bytes);
            reassembler.discard(stream.partial);
            stats.refuse(DropReason::CutOff);
        }
    }
}

fn deliver(
    bytes: Bytes,
    peer: PeerId,
    since: Instant,
    out: &mut Vec<ReceivedTransaction>,
    stats: &mut DriverStats,
) {
    stats.received += 1;
    stats.received_bytes += bytes.len() as u64;
    out.push(ReceivedTransaction { bytes, peer, since });
}

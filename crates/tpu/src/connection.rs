//! One connection: its streams read, its windows set, its bad habits counted.
//!
//! Shape: streams are read as far as they are there; what is not complete waits beside the others, so
//! that one stream that stalls holds up nothing else.
//! Bounds: an unfinished stream has `stream_timeout_ms`, then it is stopped; a connection has
//! `broken_streams_max` a minute, then it is closed.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use chain_solana::Sender;
use foldhash::fast::RandomState;
use quinn_proto::{Dir, ReadError, StreamId, VarInt};

use crate::config::Config;
use crate::counters::DropReason;
use crate::driver::DriverStats;
use crate::reassembly::{PartialTransaction, Reassembler};
use crate::transaction::{PeerId, ReceivedTransaction};

/// Why a connection is closed, as its peer is told: the numbers of Agave's servers, and one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseCode {
    /// It was idle, or the node is going.
    Dropped = 1,
    /// There are too many.
    TooMany = 4,
    /// It broke too many streams.
    InvalidStream = 5,
    /// Its handshake took too long.
    Slow = 6,
}

/// What a stream that is stopped is told.
const STOP_SENDING_CODE: u32 = 5;
/// Bad habits are forgotten after so long.
const BROKEN_STREAMS_INTERVAL: Duration = Duration::from_secs(60);
/// Stream frames for each stream beyond which a connection only makes work: a transaction fits into
/// four datagrams.
const FRAMES_PER_STREAM_MAX: u64 = 64;
/// Frames below which that is not looked at.
const FRAMES_FREE: u64 = 16_384;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    Handshake,
    Open(PeerId),
    /// Closed by one side; only its last packets are still of interest.
    Closed,
}

/// One connection.
pub(crate) struct Connection {
    pub(crate) inner: quinn_proto::Connection,
    /// The address that it was counted under; it may have moved since.
    pub(crate) address: IpAddr,
    pub(crate) state: ConnectionState,
    pub(crate) since: Instant,
    /// When a datagram of it came last.
    pub(crate) last_datagram_at: Instant,
    /// When a transaction of it came last.
    pub(crate) last_transaction_at: Instant,
    /// Streams that may be open at once.
    pub(crate) window: u32,
    pub(crate) needs_processing: bool,
    /// The peer has closed it: there is nothing more to say.
    pub(crate) is_closed_by_peer: bool,
    /// The first deadline that the timers know of it.
    pub(crate) deadline: Option<Instant>,
    /// The peer that was just admitted, and what it counts for.
    pub(crate) unreported_peer: Option<(PeerId, Sender)>,
    unfinished: HashMap<StreamId, UnfinishedStream, RandomState>,
    /// What their buffers hold.
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

/// How reading a stream went.
enum ReadOutcome {
    Whole,
    Incomplete,
    Refused(DropReason),
}

impl Connection {
    pub(crate) fn new(inner: quinn_proto::Connection, address: IpAddr, now: Instant) -> Self {
        Self {
            inner,
            address,
            state: ConnectionState::Handshake,
            since: now,
            last_datagram_at: now,
            last_transaction_at: now,
            window: 0,
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

    /// Reads every stream that has been opened since the last call.
    pub(crate) fn accept_streams(
        &mut self,
        peer: PeerId,
        now: Instant,
        bench: &mut Reassembler,
        out: &mut Vec<ReceivedTransaction>,
        tally: &mut DriverStats,
    ) {
        while let Some(id) = self.inner.streams().accept(Dir::Uni) {
            let fresh = UnfinishedStream { partial: PartialTransaction::Nothing, since: now };
            self.read_stream(id, fresh, peer, now, bench, out, tally);
        }
    }

    /// Goes on reading a stream.
    pub(crate) fn resume_stream(
        &mut self,
        id: StreamId,
        peer: PeerId,
        now: Instant,
        bench: &mut Reassembler,
        out: &mut Vec<ReceivedTransaction>,
        tally: &mut DriverStats,
    ) {
        // What is not waited for has been stopped, or read to its end already.
        let Some(unfinished) = self.unfinished.remove(&id) else { return };
        bench.resume_partial(&unfinished.partial, &mut self.unfinished_bytes);
        self.read_stream(id, unfinished, peer, now, bench, out, tally);
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a driver, borrowed apart")]
    fn read_stream(
        &mut self,
        id: StreamId,
        unfinished: UnfinishedStream,
        peer: PeerId,
        now: Instant,
        bench: &mut Reassembler,
        out: &mut Vec<ReceivedTransaction>,
        tally: &mut DriverStats,
    ) {
        let UnfinishedStream { partial: mut held, since } = unfinished;
        let outcome = {
            let mut stream = self.inner.recv_stream(id);
            let Ok(mut chunks) = stream.read(true) else { return bench.discard(held) };
            let outcome = loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) if chunk.bytes.is_empty() => {}
                    Ok(Some(chunk)) => {
                        if let Err(cause) = held.add(chunk.bytes, bench) {
                            break ReadOutcome::Refused(cause);
                        }
                    }
                    Ok(None) => break ReadOutcome::Whole,
                    Err(ReadError::Blocked) => break ReadOutcome::Incomplete,
                    Err(ReadError::Reset(_)) => break ReadOutcome::Refused(DropReason::Reset),
                }
            };
            // What has to be told the peer goes out with this round's packets.
            let _ = chunks.finalize();
            outcome
        };
        match outcome {
            ReadOutcome::Whole => {
                self.ended += 1;
                self.last_transaction_at = now;
                match bench.finish(held) {
                    Some(bytes) => deliver(bytes, peer, since, out, tally),
                    None => self.record_broken_stream(DropReason::Empty, now, tally),
                }
            }
            ReadOutcome::Incomplete => {
                match bench.store_partial(held, &mut self.unfinished_bytes) {
                    Ok(held) => {
                        self.unfinished.insert(id, UnfinishedStream { partial: held, since });
                    }
                    Err(cause) => self.stop_stream(id, cause, now, tally),
                }
            }
            ReadOutcome::Refused(cause) => {
                bench.discard(held);
                self.stop_stream(id, cause, now, tally);
            }
        }
    }

    /// Wants nothing more of a stream.
    fn stop_stream(
        &mut self,
        id: StreamId,
        cause: DropReason,
        now: Instant,
        tally: &mut DriverStats,
    ) {
        // A stream that has ended meanwhile needs no stopping.
        let _ = self.inner.recv_stream(id).stop(VarInt::from_u32(STOP_SENDING_CODE));
        self.ended += 1;
        self.record_broken_stream(cause, now, tally);
    }

    fn record_broken_stream(&mut self, cause: DropReason, now: Instant, tally: &mut DriverStats) {
        tally.refuse(cause);
        if now.saturating_duration_since(self.broken_since) > BROKEN_STREAMS_INTERVAL {
            (self.broken, self.broken_since) = (0, now);
        }
        self.broken += 1;
    }

    /// Stops streams that have taken too long; whether there were any.
    pub(crate) fn stop_stalled(
        &mut self,
        config: &Config,
        now: Instant,
        bench: &mut Reassembler,
        tally: &mut DriverStats,
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
            bench.resume_partial(&stream.partial, &mut self.unfinished_bytes);
            bench.discard(stream.partial);
            self.stop_stream(id, DropReason::Stalled, now, tally);
        }
        true
    }

    /// Whether it has broken more streams than it may.
    pub(crate) fn breaks_too_much(&self, config: &Config) -> bool {
        self.broken > config.broken_streams_max
    }

    /// Whether it makes work without end; not for free to find out.
    pub(crate) fn wastes_frames(&self) -> bool {
        self.inner.stats().frame_rx.stream
            > FRAMES_FREE + FRAMES_PER_STREAM_MAX * (self.ended + u64::from(self.window))
    }

    /// Sets how many streams may be open at once; whether that is something new.
    pub(crate) fn set_window(&mut self, window: u32) -> bool {
        let changes = self.window != window;
        if changes {
            self.window = window;
            self.inner.set_max_concurrent_streams(Dir::Uni, VarInt::from_u32(window));
        }
        changes
    }

    /// Says good-bye.
    pub(crate) fn close(&mut self, code: CloseCode, reason: &'static str, now: Instant) {
        let reason = Bytes::from_static(reason.as_bytes());
        self.inner.close(now, VarInt::from_u32(code as u32), reason);
    }

    /// Lets go of what was begun; each unfinished transaction is counted.
    pub(crate) fn discard_unfinished(&mut self, bench: &mut Reassembler, tally: &mut DriverStats) {
        for (_, stream) in std::mem::take(&mut self.unfinished) {
            bench.resume_partial(&stream.partial, &mut self.unfinished_bytes);
            bench.discard(stream.partial);
            tally.refuse(DropReason::CutOff);
        }
    }
}

fn deliver(
    bytes: Bytes,
    peer: PeerId,
    since: Instant,
    out: &mut Vec<ReceivedTransaction>,
    tally: &mut DriverStats,
) {
    tally.received += 1;
    tally.received_bytes += bytes.len() as u64;
    out.push(ReceivedTransaction { bytes, peer, since });
}

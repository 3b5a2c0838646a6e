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
use chain::Sender;
use foldhash::fast::RandomState;
use quinn_proto::{Dir, ReadError, StreamId, VarInt};

use crate::assembly::{Held, Workbench};
use crate::config::Config;
use crate::counters::Cause;
use crate::driver::Tally;
use crate::received::{PeerId, Received};

/// Why a connection is closed, as its peer is told: the numbers of Agave's servers, and one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
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
const STOPPED: u32 = 5;
/// Bad habits are forgotten after so long.
const FORGIVEN_AFTER: Duration = Duration::from_secs(60);
/// Stream frames for each stream beyond which a connection only makes work: a transaction fits into
/// four datagrams.
const FRAMES_PER_STREAM_MAX: u64 = 64;
/// Frames below which that is not looked at.
const FRAMES_FREE: u64 = 16_384;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Handshake,
    Open(PeerId),
    /// Closed by one side; only its last packets are still of interest.
    Over,
}

/// One connection.
pub(crate) struct Connection {
    pub(crate) inner: quinn_proto::Connection,
    /// The address that it was counted under; it may have moved since.
    pub(crate) address: IpAddr,
    pub(crate) stage: Stage,
    pub(crate) since: Instant,
    /// When a datagram of it came last.
    pub(crate) heard: Instant,
    /// When a transaction of it came last.
    pub(crate) busy: Instant,
    /// Streams that may be open at once.
    pub(crate) window: u32,
    pub(crate) is_dirty: bool,
    /// The peer has closed it: there is nothing more to say.
    pub(crate) has_left: bool,
    /// The first deadline that the timers know of it.
    pub(crate) deadline: Option<Instant>,
    /// The peer that was just admitted, and what it counts for.
    pub(crate) to_announce: Option<(PeerId, Sender)>,
    unfinished: HashMap<StreamId, Unfinished, RandomState>,
    /// What their buffers hold.
    unfinished_bytes: usize,
    /// Streams that have ended or been stopped.
    ended: u64,
    broken: u32,
    broken_since: Instant,
}

/// A stream that has not ended yet.
struct Unfinished {
    held: Held,
    since: Instant,
}

/// How reading a stream went.
enum Outcome {
    Whole,
    Waits,
    Refused(Cause),
}

impl Connection {
    pub(crate) fn new(inner: quinn_proto::Connection, address: IpAddr, now: Instant) -> Self {
        Self {
            inner,
            address,
            stage: Stage::Handshake,
            since: now,
            heard: now,
            busy: now,
            window: 0,
            is_dirty: false,
            has_left: false,
            deadline: None,
            to_announce: None,
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
        bench: &mut Workbench,
        out: &mut Vec<Received>,
        tally: &mut Tally,
    ) {
        while let Some(id) = self.inner.streams().accept(Dir::Uni) {
            let fresh = Unfinished { held: Held::Nothing, since: now };
            self.read(id, fresh, peer, now, bench, out, tally);
        }
    }

    /// Goes on reading a stream.
    pub(crate) fn read_on(
        &mut self,
        id: StreamId,
        peer: PeerId,
        now: Instant,
        bench: &mut Workbench,
        out: &mut Vec<Received>,
        tally: &mut Tally,
    ) {
        // What is not waited for has been stopped, or read to its end already.
        let Some(unfinished) = self.unfinished.remove(&id) else { return };
        bench.go_on(&unfinished.held, &mut self.unfinished_bytes);
        self.read(id, unfinished, peer, now, bench, out, tally);
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a driver, borrowed apart")]
    fn read(
        &mut self,
        id: StreamId,
        unfinished: Unfinished,
        peer: PeerId,
        now: Instant,
        bench: &mut Workbench,
        out: &mut Vec<Received>,
        tally: &mut Tally,
    ) {
        let Unfinished { mut held, since } = unfinished;
        let outcome = {
            let mut stream = self.inner.recv_stream(id);
            let Ok(mut chunks) = stream.read(true) else { return bench.discard(held) };
            let outcome = loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) if chunk.bytes.is_empty() => {}
                    Ok(Some(chunk)) => {
                        if let Err(cause) = held.add(chunk.bytes, bench) {
                            break Outcome::Refused(cause);
                        }
                    }
                    Ok(None) => break Outcome::Whole,
                    Err(ReadError::Blocked) => break Outcome::Waits,
                    Err(ReadError::Reset(_)) => break Outcome::Refused(Cause::Reset),
                }
            };
            // What has to be told the peer goes out with this round's packets.
            let _ = chunks.finalize();
            outcome
        };
        match outcome {
            Outcome::Whole => {
                self.ended += 1;
                self.busy = now;
                match bench.finish(held) {
                    Some(bytes) => deliver(bytes, peer, since, out, tally),
                    None => self.refuse(Cause::Empty, now, tally),
                }
            }
            Outcome::Waits => match bench.keep(held, &mut self.unfinished_bytes) {
                Ok(held) => {
                    self.unfinished.insert(id, Unfinished { held, since });
                }
                Err(cause) => self.stop(id, cause, now, tally),
            },
            Outcome::Refused(cause) => {
                bench.discard(held);
                self.stop(id, cause, now, tally);
            }
        }
    }

    /// Wants nothing more of a stream.
    fn stop(&mut self, id: StreamId, cause: Cause, now: Instant, tally: &mut Tally) {
        // A stream that has ended meanwhile needs no stopping.
        let _ = self.inner.recv_stream(id).stop(VarInt::from_u32(STOPPED));
        self.ended += 1;
        self.refuse(cause, now, tally);
    }

    fn refuse(&mut self, cause: Cause, now: Instant, tally: &mut Tally) {
        tally.refuse(cause);
        if now.saturating_duration_since(self.broken_since) > FORGIVEN_AFTER {
            (self.broken, self.broken_since) = (0, now);
        }
        self.broken += 1;
    }

    /// Stops streams that have taken too long; whether there were any.
    pub(crate) fn stop_stalled(
        &mut self,
        config: &Config,
        now: Instant,
        bench: &mut Workbench,
        tally: &mut Tally,
    ) -> bool {
        let timeout = config.stream_timeout();
        let is_late = |stream: &Unfinished| now.saturating_duration_since(stream.since) >= timeout;
        if !self.unfinished.values().any(is_late) {
            return false;
        }
        let late: Vec<(StreamId, Unfinished)> =
            self.unfinished.extract_if(|_, stream| is_late(stream)).collect();
        for (id, stream) in late {
            bench.go_on(&stream.held, &mut self.unfinished_bytes);
            bench.discard(stream.held);
            self.stop(id, Cause::Stalled, now, tally);
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
    pub(crate) fn close(&mut self, code: Code, reason: &'static str, now: Instant) {
        let reason = Bytes::from_static(reason.as_bytes());
        self.inner.close(now, VarInt::from_u32(code as u32), reason);
    }

    /// Lets go of what was begun; each unfinished transaction is counted.
    pub(crate) fn cut_off(&mut self, bench: &mut Workbench, tally: &mut Tally) {
        for (_, stream) in std::mem::take(&mut self.unfinished) {
            bench.go_on(&stream.held, &mut self.unfinished_bytes);
            bench.discard(stream.held);
            tally.refuse(Cause::CutOff);
        }
    }
}

fn deliver(bytes: Bytes, peer: PeerId, since: Instant, out: &mut Vec<Received>, tally: &mut Tally) {
    tally.received += 1;
    tally.received_bytes += bytes.len() as u64;
    out.push(Received { bytes, peer, since });
}

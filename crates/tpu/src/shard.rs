//! One thread, one socket, one driver.
//!
//! Shape: read until nothing is there or the round is large enough, drive, and if the round was small
//! let datagrams gather for a moment; idle, it blocks. The first datagram after idleness is not delayed.
//! A datagram of another shard's connection (its client moved, and the kernel took it for ours) goes to
//! that shard's inbox.
//! Bounds: 1,024 datagrams a round; 1,024 in the inbox, more are lost as on any way.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use quinn_proto::EcnCodepoint;

use crate::clock;
use crate::connection_id::shard_of;
use crate::counters::Counters;
use crate::driver::Driver;
use crate::socket::{Socket, Unsent, wait_for_waker};
use crate::transaction::TransactionSink;

/// Datagrams of a round, at most.
const ROUND_MAX: usize = 1_024;
/// Datagrams of a round from which on it is large enough not to wait for more.
const ROUND_MIN: usize = 64;
/// Datagrams after which what came is handed on, though the round goes on.
const DATAGRAMS_PER_STREAM_READ: usize = 64;
/// The longest it blocks.
const POLL_TIMEOUT: Duration = Duration::from_millis(500);
/// Datagrams that may wait in an inbox.
const INBOX_MAX: usize = 1_024;

/// Where other shards leave what is not theirs.
pub(crate) struct Inbox {
    misrouted: Mutex<Vec<MisroutedDatagram>>,
    waker: UnixStream,
    is_ending: AtomicBool,
}

/// A datagram that came to another socket.
struct MisroutedDatagram {
    remote: SocketAddr,
    local_ip: Option<IpAddr>,
    ecn: Option<EcnCodepoint>,
    datagram: Vec<u8>,
}

impl Inbox {
    /// An inbox, and the end of its waker that the shard waits on.
    pub(crate) fn new() -> io::Result<(Arc<Self>, UnixStream)> {
        let (waker, wakes) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        wakes.set_nonblocking(true)?;
        let inbox = Self { misrouted: Mutex::default(), waker, is_ending: AtomicBool::new(false) };
        Ok((Arc::new(inbox), wakes))
    }

    fn push_datagram(&self, stray: MisroutedDatagram) {
        let mut inbox = self.misrouted.lock();
        if inbox.len() < INBOX_MAX {
            inbox.push(stray);
            drop(inbox);
            self.wake();
        }
    }

    /// Ends the shard.
    pub(crate) fn stop(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        // Full of wakes, it wakes as well.
        let _ = (&self.waker).write(&[1]);
    }
}

/// Everything that a shard's thread has.
pub(crate) struct Shard {
    pub(crate) number: u8,
    pub(crate) driver: Driver,
    pub(crate) socket: Socket,
    pub(crate) wakes: UnixStream,
    pub(crate) inboxes: Arc<[Arc<Inbox>]>,
    pub(crate) sink: Arc<dyn TransactionSink>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) gather: Duration,
}

impl Shard {
    /// Runs until its inbox says that it is over, or the socket fails.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut unsent = Unsent::default();
        let own = Arc::clone(&self.inboxes[usize::from(self.number)]);
        while !own.is_ending.load(Ordering::Relaxed) {
            let read = self.read_round(&own, &mut unsent)?;
            let now = clock::now();
            self.driver.drive(now, &mut self.socket.sender(&mut unsent), &*self.sink);
            self.driver.publish(&self.counters);
            if read >= ROUND_MIN {
                continue;
            }
            if read > 0 && !self.gather.is_zero() {
                wait_for_waker(&self.wakes, self.gather)?;
                continue;
            }
            let until = self.driver.next_timeout();
            let timeout = until.map_or(POLL_TIMEOUT, |until| until.saturating_duration_since(now));
            self.socket.wait(&self.wakes, timeout.min(POLL_TIMEOUT))?;
        }
        self.driver.close(clock::now(), &mut self.socket.sender(&mut unsent));
        self.driver.publish(&self.counters);
        Ok(())
    }

    /// Reads what is there. How many datagrams that were.
    fn read_round(&mut self, own: &Inbox, unsent: &mut Unsent) -> io::Result<usize> {
        let Self { driver, socket, inboxes, number, sink: outlet, .. } = self;
        let (mut count, mut settled) = (0, 0);
        while count < ROUND_MAX {
            let now = clock::now();
            let read = socket.receive(unsent, |remote, local_ip, ecn, datagram, out| {
                let to = shard_of(datagram).filter(|to| to != number);
                match to.and_then(|to| inboxes.get(usize::from(to))) {
                    Some(inbox) => {
                        let datagram = datagram.to_vec();
                        inbox.push_datagram(MisroutedDatagram { remote, local_ip, ecn, datagram });
                    }
                    None => driver.handle_datagram(now, remote, local_ip, ecn, datagram, out),
                }
            })?;
            count += read;
            if read == 0 {
                break;
            }
            if count - settled >= DATAGRAMS_PER_STREAM_READ {
                settled = count;
                driver.read_streams(now, &**outlet);
            }
        }
        if inboxes.len() > 1 {
            let strays = std::mem::take(&mut *own.misrouted.lock());
            let now = clock::now();
            let mut out = socket.sender(unsent);
            for stray in &strays {
                let MisroutedDatagram { remote, local_ip, ecn, datagram } = stray;
                driver.handle_datagram(now, *remote, *local_ip, *ecn, datagram, &mut out);
            }
            count += strays.len();
        }
        self.drain_wakes();
        Ok(count)
    }

    fn drain_wakes(&mut self) {
        use std::io::Read;
        if self.inboxes.len() > 1 {
            // Nothing to read is the usual case.
            let _ = self.wakes.read(&mut [0; 64]);
        }
    }
}

//! One thread, one socket, one driver.
//!
//! Shape: the thread reads until no datagram is left or the round is large enough, then drives the
//! connections. After a small round it waits until more datagrams have gathered. While idle it
//! blocks. The first datagram after idleness is not delayed. A datagram that belongs to a
//! connection of another shard goes to that shard's inbox. (Its client moved, and the kernel
//! delivered it to our socket.)
//! Bounds: 1,024 datagrams a round; 1,024 in the inbox. More are lost, as on any network.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use quinn_proto::EcnCodepoint;

use crate::clock;
use crate::connection_id::parse_shard;
use crate::counters::Counters;
use crate::driver::Driver;
use crate::socket::{Socket, Unsent, wait_for_waker};
use crate::transaction::TransactionSink;

/// Maximum number of datagrams of a round.
const ROUND_MAX: usize = 1_024;
/// A round with at least this many datagrams does not wait for more.
const ROUND_MIN: usize = 64;
/// Streams are read after this many datagrams, also in the middle of a round.
const DATAGRAMS_PER_STREAM_READ: usize = 64;
/// Maximum time that the thread blocks.
const POLL_TIMEOUT: Duration = Duration::from_millis(500);
/// Datagrams that may wait in an inbox.
const INBOX_MAX: usize = 1_024;

/// Datagrams that other shards received for this one.
pub(crate) struct Inbox {
    misrouted: Mutex<Vec<MisroutedDatagram>>,
    waker: UnixStream,
    is_ending: AtomicBool,
}

/// A datagram that another shard's socket received.
struct MisroutedDatagram {
    remote: SocketAddr,
    local_ip: Option<IpAddr>,
    ecn: Option<EcnCodepoint>,
    datagram: Vec<u8>,
}

impl Inbox {
    /// Creates an inbox, and the end of its waker on which the shard waits.
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

    /// Stops the thread of the shard.
    pub(crate) fn stop(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        // A full pipe wakes the thread, too.
        let _ = (&self.waker).write(&[1]);
    }
}

/// State of the thread of a shard.
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
    /// Runs until `Inbox::stop`, or until the socket fails.
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

    /// Reads the available datagrams. Returns their number.
    fn read_round(&mut self, own: &Inbox, unsent: &mut Unsent) -> io::Result<usize> {
        let Self { driver, socket, inboxes, number, sink, .. } = self;
        let mut count = 0;
        let mut count_at_last_read = 0;
        while count < ROUND_MAX {
            let now = clock::now();
            let read = socket.receive(unsent, |remote, local_ip, ecn, datagram, out| {
                let to = parse_shard(datagram).filter(|to| to != number);
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
            if count - count_at_last_read >= DATAGRAMS_PER_STREAM_READ {
                count_at_last_read = count;
                driver.read_streams(now, &**sink);
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

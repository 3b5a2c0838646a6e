//! A UDP socket of one shard: many datagrams a call, with the kernel's offload if it has one.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket as RawSocket, Type};

use crate::driver::DatagramSender;

/// Maximum bytes of a message that offload may have joined.
const OFFLOADED_BYTES: usize = 65_536;
/// Distance of two messages with offload, in bytes. It is not a power of two: otherwise all messages
/// would share the same few sets of the processor's cache.
const OFFLOADED_STRIDE: usize = OFFLOADED_BYTES + 14_912;
/// Messages a call if they consist of many datagrams each: about 80.
const OFFLOADED_MESSAGES: usize = 8;
/// Bytes of a message without offload: more than the longest datagram that we agree to.
const PLAIN_BYTES: usize = 2_048;

/// A bound socket and its receive buffer.
pub(crate) struct Socket {
    inner: UdpSocket,
    state: UdpSocketState,
    /// Buffer of one read: [`BATCH_SIZE`] messages.
    scratch: Vec<u8>,
    message_bytes: usize,
    /// Number of messages to request in the next call.
    messages: usize,
    metas: [RecvMeta; BATCH_SIZE],
}

/// Binds `count` sockets to one address. With port 0 all use the port that the first one got.
pub(crate) fn bind(address: SocketAddr, count: usize, bytes: usize) -> io::Result<Vec<UdpSocket>> {
    let mut sockets = Vec::new();
    let mut address = address;
    for _ in 0..count {
        let socket =
            RawSocket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if count > 1 {
            socket.set_reuse_port(true)?;
        }
        // The system may grant less; then a burst loses more datagrams.
        socket.set_recv_buffer_size(bytes)?;
        socket.bind(&address.into())?;
        let socket = UdpSocket::from(socket);
        address = socket.local_addr()?;
        sockets.push(socket);
    }
    Ok(sockets)
}

impl Socket {
    pub(crate) fn new(inner: UdpSocket, offload: bool) -> io::Result<Self> {
        let state = UdpSocketState::new((&inner).into())?;
        let message_bytes = if offload { OFFLOADED_STRIDE } else { PLAIN_BYTES };
        Ok(Self {
            state,
            scratch: vec![0; message_bytes * BATCH_SIZE],
            message_bytes,
            messages: BATCH_SIZE,
            metas: [RecvMeta::default(); BATCH_SIZE],
            inner,
        })
    }

    /// Calls `each` with the datagrams that one system call returns. Returns their number; 0 if
    /// there are none.
    pub(crate) fn receive(
        &mut self,
        out: &mut Unsent,
        mut each: impl FnMut(
            SocketAddr,
            Option<IpAddr>,
            Option<EcnCodepoint>,
            &[u8],
            &mut dyn DatagramSender,
        ),
    ) -> io::Result<usize> {
        let mut parts = self.scratch.chunks_exact_mut(self.message_bytes);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
        let len = self.messages;
        let slices = &mut slices[..len];
        let metas = &mut self.metas[..len];
        let messages = match self.state.recv((&self.inner).into(), slices, metas) {
            Ok(messages) => messages,
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            // A peer refused an earlier datagram; this does not matter here.
            Err(err) if err.kind() == io::ErrorKind::ConnectionReset => return Ok(0),
            Err(err) => return Err(err),
        };
        let mut count = 0;
        let mut sender = SocketSender { socket: &self.inner, state: &self.state, out };
        for (meta, message) in
            self.metas.iter().take(messages).zip(self.scratch.chunks_exact(self.message_bytes))
        {
            let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
            for datagram in message[..meta.len].chunks(meta.stride.max(1)) {
                count += 1;
                each(meta.addr, meta.dst_ip, ecn, datagram, &mut sender);
            }
        }
        let is_offloaded = count >= 4 * messages && messages > 0;
        self.messages = if is_offloaded { OFFLOADED_MESSAGES } else { BATCH_SIZE };
        Ok(count)
    }

    /// Returns a sender for this socket.
    pub(crate) fn sender<'a>(&'a self, out: &'a mut Unsent) -> SocketSender<'a> {
        SocketSender { socket: &self.inner, state: &self.state, out }
    }

    /// Waits for a datagram, for the waker, or for `timeout`.
    pub(crate) fn wait(&self, waker: &UnixStream, timeout: Duration) -> io::Result<()> {
        wait(
            &mut [PollFd::new(&self.inner, PollFlags::IN), PollFd::new(waker, PollFlags::IN)],
            timeout,
        )
    }
}

/// Waits for the waker only, so that datagrams may gather.
pub(crate) fn wait_for_waker(waker: &impl AsFd, timeout: Duration) -> io::Result<()> {
    wait(&mut [PollFd::new(waker, PollFlags::IN)], timeout)
}

fn wait(fds: &mut [PollFd<'_>], timeout: Duration) -> io::Result<()> {
    let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    match poll(fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(err) => Err(err.into()),
    }
}

/// Number of datagrams that could not be sent. QUIC retransmits them, as any lost packet.
#[derive(Default)]
pub(crate) struct Unsent(pub(crate) u64);

/// Sends one datagram in each call.
pub(crate) struct SocketSender<'a> {
    socket: &'a UdpSocket,
    state: &'a UdpSocketState,
    out: &'a mut Unsent,
}

impl DatagramSender for SocketSender<'_> {
    fn send(&mut self, transmit: &Transmit, datagram: &[u8]) {
        let ecn = transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8));
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn,
            contents: datagram,
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        if self.state.try_send(self.socket.into(), &transmit).is_err() {
            self.out.0 += 1;
        }
    }
}

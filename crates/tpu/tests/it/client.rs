//! A client without I/O: opens connections, sends transactions one to a stream, or misbehaves.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, StreamEvent, StreamId, TransportConfig, VarInt, WriteError,
};
use solana_keypair::Keypair;
use solana_signer::Signer;
use tpu::{TlsIdentity, client_config};

/// The end of a stream after a client has written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Ends the stream, as a client should.
    Finish,
    /// Resets the stream before its end.
    Reset,
    /// Leaves the stream open.
    Nothing,
}

/// One connection of a client, with its transactions to send.
pub(crate) struct Client {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(crate) connection: Connection,
    pub(crate) to_send: VecDeque<(Vec<u8>, End)>,
    writing: VecDeque<(StreamId, Bytes, End)>,
    pub(crate) is_connected: bool,
    /// Streams that were acknowledged completely.
    pub(crate) finished: usize,
    /// Streams that the server has stopped.
    pub(crate) stopped: usize,
    pub(crate) lost: Option<String>,
    scratch: Vec<u8>,
}

pub(crate) fn identity(keypair: &Keypair) -> TlsIdentity {
    TlsIdentity::new(*keypair.secret_bytes(), keypair.pubkey())
}

impl Client {
    pub(crate) fn connect(server: SocketAddr, keypair: &Keypair, now: Instant) -> Self {
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let tls = client_config(&identity(keypair)).expect("TLS");
        let mut config = ClientConfig::new(Arc::new(tls));
        let mut transport = TransportConfig::default();
        transport.keep_alive_interval(Some(Duration::from_secs(1)));
        config.transport_config(Arc::new(transport));
        let (handle, connection) =
            endpoint.connect(now, config, server, "localhost").expect("a connection");
        Self {
            endpoint,
            handle,
            connection,
            to_send: VecDeque::new(),
            writing: VecDeque::new(),
            is_connected: false,
            finished: 0,
            stopped: 0,
            lost: None,
            scratch: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, transactions: impl IntoIterator<Item = Vec<u8>>) {
        self.to_send.extend(transactions.into_iter().map(|bytes| (bytes, End::Finish)));
    }

    pub(crate) fn datagram(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
        self.scratch.clear();
        let event = self.endpoint.handle(
            now,
            from,
            None,
            None,
            BytesMut::from(datagram),
            &mut self.scratch,
        );
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
    }

    /// Processes all events. Adds the datagrams to send to `out`.
    pub(crate) fn drive(&mut self, now: Instant, out: &mut Vec<Vec<u8>>) {
        if self.connection.poll_timeout().is_some_and(|timeout| timeout <= now) {
            self.connection.handle_timeout(now);
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => self.lost = Some(reason.to_string()),
                Event::Stream(StreamEvent::Finished { .. }) => self.finished += 1,
                Event::Stream(StreamEvent::Stopped { id, .. }) => {
                    self.stopped += 1;
                    // A well-behaved client resets the stream, which frees its slot.
                    let _ = self.connection.send_stream(id).reset(VarInt::from_u32(0));
                }
                _ => {}
            }
        }
        if self.is_connected && self.lost.is_none() {
            self.write();
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        self.scratch.clear();
        while let Some(transmit) = self.connection.poll_transmit(now, 1, &mut self.scratch) {
            out.push(self.scratch[..transmit.size].to_vec());
            self.scratch.clear();
        }
    }

    fn write(&mut self) {
        loop {
            if self.writing.is_empty() {
                let Some((bytes, end)) = self.to_send.pop_front() else { return };
                let Some(id) = self.connection.streams().open(Dir::Uni) else {
                    return self.to_send.push_front((bytes, end));
                };
                self.writing.push_back((id, Bytes::from(bytes), end));
            }
            let Some((id, mut bytes, end)) = self.writing.pop_front() else { return };
            let mut stream = self.connection.send_stream(id);
            let mut chunks = [bytes.clone()];
            match stream.write_chunks(&mut chunks) {
                Ok(written) => {
                    let _ = bytes.split_to(written.bytes);
                    if !bytes.is_empty() {
                        self.writing.push_front((id, bytes, end));
                        return;
                    }
                }
                Err(WriteError::Blocked) => return self.writing.push_front((id, bytes, end)),
                Err(_) => continue,
            }
            // A stream that was stopped meanwhile has ended anyway.
            match end {
                End::Finish => drop(stream.finish()),
                End::Reset => drop(stream.reset(VarInt::from_u32(7))),
                End::Nothing => {}
            }
        }
    }

    /// Opens all streams that the server's limit permits. Returns their number.
    pub(crate) fn open_all(&mut self) -> usize {
        std::iter::from_fn(|| self.connection.streams().open(Dir::Uni)).count()
    }

    pub(crate) fn next_timeout(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    pub(crate) fn close(&mut self, now: Instant) {
        self.connection.close(now, VarInt::from_u32(0), Bytes::new());
    }
}

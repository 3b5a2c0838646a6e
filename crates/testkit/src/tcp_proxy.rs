//! A TCP proxy between two addresses that holds, slows and cuts each direction.
//!
//! Shape: connections to [`TcpProxy::address`] are passed on to the server. The flow of each direction applies to all
//! connections, to those that come later too. A partition holds: neither side notices anything but silence.
//! Bounds: 4 KiB of a connection and direction wait in the proxy, and more in the buffers of the sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Bytes that are read at once. A slow direction delays each of these chunks.
const CHUNK_BYTES: usize = 4_096;

/// A direction of the proxy's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// Treatment of the bytes of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The bytes are passed on.
    Pass,
    /// They wait until the flow changes. Connections stay open.
    Hold,
    /// They are passed on at this rate, for each connection.
    Slow {
        /// Rate in bytes per second.
        bytes_per_s: u32,
    },
    /// They are dropped, and their receiver reads the end of the stream.
    Cut,
}

/// A running proxy. It ends, with its connections, when the value is dropped.
pub struct TcpProxy {
    address: SocketAddr,
    controls: Arc<Controls>,
    listener: JoinHandle<()>,
}

/// The flows of all connections.
struct Controls {
    to_server: Pipe,
    to_client: Pipe,
    /// Rises when all connections are closed.
    closes: watch::Sender<u64>,
}

/// One direction of all connections.
struct Pipe {
    flow: watch::Sender<Flow>,
    waiting_bytes: AtomicUsize,
}

impl Pipe {
    fn new() -> Self {
        Self { flow: watch::Sender::new(Flow::Pass), waiting_bytes: AtomicUsize::new(0) }
    }
}

impl TcpProxy {
    /// Starts a proxy of a server on a free port of the loopback.
    pub async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let closes = watch::Sender::new(0);
        let controls = Controls { to_server: Pipe::new(), to_client: Pipe::new(), closes };
        let controls = Arc::new(controls);
        let listener = tokio::spawn(accept(listener, server, Arc::clone(&controls)));
        Self { address, controls, listener }
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the flow of a direction.
    pub fn set_flow(&self, direction: Direction, flow: Flow) {
        self.controls.pipe(direction).flow.send_replace(flow);
    }

    /// Sets the flow of both directions.
    pub fn set_flows(&self, flow: Flow) {
        self.set_flow(Direction::ToServer, flow);
        self.set_flow(Direction::ToClient, flow);
    }

    /// Closes all open connections. New ones are accepted.
    pub fn close_connections(&self) {
        self.controls.closes.send_modify(|closes| *closes += 1);
    }

    /// Returns the number of bytes that the proxy has read and does not pass on.
    pub fn waiting_bytes(&self, direction: Direction) -> usize {
        self.controls.pipe(direction).waiting_bytes.load(Ordering::SeqCst)
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Controls {
    fn pipe(&self, direction: Direction) -> &Pipe {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        }
    }
}

/// Accepts connections. They end with this task.
async fn accept(listener: TcpListener, server: SocketAddr, controls: Arc<Controls>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        connections.spawn(serve(client, server, Arc::clone(&controls)));
    }
}

async fn serve(client: TcpStream, server: SocketAddr, controls: Arc<Controls>) {
    let mut closes = controls.closes.subscribe();
    let Ok(server) = TcpStream::connect(server).await else { return };
    // As both ends do. Otherwise a short message would wait for an acknowledgement, some 40 ms.
    for socket in [&client, &server] {
        if socket.set_nodelay(true).is_err() {
            return;
        }
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let pumps = async {
        tokio::join!(
            pump(from_client, to_server, &controls.to_server),
            pump(from_server, to_client, &controls.to_client),
        )
    };
    tokio::select! {
        _ = pumps => {}
        _ = closes.changed() => {}
    }
}

/// Passes the bytes of a direction on until one side ends it.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, pipe: &Pipe) {
    let mut flow = pipe.flow.subscribe();
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read.unwrap_or(0),
            _ = flow.wait_for(|flow| *flow == Flow::Cut) => 0,
        };
        if read == 0 || !wait_for_passage(&mut flow, read, pipe).await {
            break;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    // The other side may have gone.
    let _ = to.shutdown().await;
}

/// Waits until bytes may be passed on. Returns `false` if they are dropped.
async fn wait_for_passage(flow: &mut watch::Receiver<Flow>, bytes: usize, pipe: &Pipe) -> bool {
    let waiting = WaitingBytes::new(pipe, bytes);
    let Ok(current) = flow.wait_for(|flow| *flow != Flow::Hold).await.map(|flow| *flow) else {
        return false;
    };
    drop(waiting);
    match current {
        Flow::Slow { bytes_per_s } => {
            let seconds = bytes as f64 / f64::from(bytes_per_s.max(1));
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            true
        }
        Flow::Pass | Flow::Hold => true,
        Flow::Cut => false,
    }
}

/// Bytes that are counted while the value lives: a connection may be closed while its bytes wait.
struct WaitingBytes<'a> {
    pipe: &'a Pipe,
    bytes: usize,
}

impl<'a> WaitingBytes<'a> {
    fn new(pipe: &'a Pipe, bytes: usize) -> Self {
        pipe.waiting_bytes.fetch_add(bytes, Ordering::SeqCst);
        Self { pipe, bytes }
    }
}

impl Drop for WaitingBytes<'_> {
    fn drop(&mut self) {
        self.pipe.waiting_bytes.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::eventually::eventually;

    /// A server that counts the bytes that it reads, and sends them back.
    struct Echo {
        address: SocketAddr,
        read_bytes: Arc<AtomicUsize>,
    }

    async fn start_echo() -> Echo {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let read_bytes = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&read_bytes);
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let counter = Arc::clone(&counter);
                tokio::spawn(async move {
                    let mut buffer = vec![0; CHUNK_BYTES];
                    while let Ok(read @ 1..) = socket.read(&mut buffer).await {
                        counter.fetch_add(read, Ordering::SeqCst);
                        if socket.write_all(&buffer[..read]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Echo { address, read_bytes }
    }

    async fn read(socket: &mut TcpStream, bytes: usize) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        socket.read_exact(&mut buffer).await.expect("bytes");
        buffer
    }

    async fn wait_for_bytes(proxy: &TcpProxy, direction: Direction, bytes: usize) {
        let is_waiting = || proxy.waiting_bytes(direction) == bytes;
        eventually(is_waiting, || format!("{bytes} waiting bytes")).await;
    }

    #[tokio::test]
    async fn waiting_bytes_arrive_when_they_are_released() {
        let echo = start_echo().await;
        let proxy = TcpProxy::start(echo.address).await;
        let mut client = TcpStream::connect(proxy.address()).await.expect("a connection");
        client.write_all(b"one").await.expect("written");
        assert_eq!(read(&mut client, 3).await, b"one");
        proxy.set_flow(Direction::ToServer, Flow::Hold);
        client.write_all(b"three").await.expect("written");
        wait_for_bytes(&proxy, Direction::ToServer, 5).await;
        assert_eq!(echo.read_bytes.load(Ordering::SeqCst), 3);
        proxy.set_flow(Direction::ToClient, Flow::Hold);
        proxy.set_flow(Direction::ToServer, Flow::Pass);
        wait_for_bytes(&proxy, Direction::ToClient, 5).await;
        assert_eq!(echo.read_bytes.load(Ordering::SeqCst), 8);
        proxy.set_flows(Flow::Pass);
        assert_eq!(read(&mut client, 5).await, b"three");
    }

    #[tokio::test]
    async fn a_slow_direction_takes_its_time() {
        let echo = start_echo().await;
        let proxy = TcpProxy::start(echo.address).await;
        proxy.set_flow(Direction::ToClient, Flow::Slow { bytes_per_s: 200_000 });
        let mut client = TcpStream::connect(proxy.address()).await.expect("a connection");
        let started = Instant::now();
        client.write_all(&[7; 20_000]).await.expect("written");
        assert_eq!(read(&mut client, 20_000).await, [7; 20_000]);
        assert!(started.elapsed() >= Duration::from_millis(95), "{:?}", started.elapsed());
    }

    #[tokio::test]
    async fn a_cut_direction_ends_for_its_receiver() {
        let echo = start_echo().await;
        let proxy = TcpProxy::start(echo.address).await;
        let mut client = TcpStream::connect(proxy.address()).await.expect("a connection");
        client.write_all(b"one").await.expect("written");
        assert_eq!(read(&mut client, 3).await, b"one");
        proxy.set_flow(Direction::ToClient, Flow::Cut);
        assert_eq!(client.read(&mut [0]).await.expect("the end"), 0);
        client.write_all(b"two").await.expect("the other direction is open");
        let is_read = || echo.read_bytes.load(Ordering::SeqCst) == 6;
        eventually(is_read, || "6 bytes at the server".to_owned()).await;
    }

    #[tokio::test]
    async fn closed_connections_do_not_close_the_proxy() {
        let echo = start_echo().await;
        let proxy = TcpProxy::start(echo.address).await;
        let mut client = TcpStream::connect(proxy.address()).await.expect("a connection");
        proxy.set_flow(Direction::ToServer, Flow::Hold);
        client.write_all(b"lost").await.expect("written");
        wait_for_bytes(&proxy, Direction::ToServer, 4).await;
        proxy.close_connections();
        assert!(matches!(client.read(&mut [0]).await, Ok(0) | Err(_)));
        wait_for_bytes(&proxy, Direction::ToServer, 0).await;
        proxy.set_flows(Flow::Pass);
        let mut client = TcpStream::connect(proxy.address()).await.expect("a connection");
        client.write_all(b"new").await.expect("written");
        assert_eq!(read(&mut client, 3).await, b"new");
        assert_eq!(echo.read_bytes.load(Ordering::SeqCst), 3);
    }
}

//! A network of some milliseconds in front of a node's port.
//!
//! rpc-websockets, which web3.js uses, knows a call only after the callback of its write. Over TLS Node.js calls that back
//! after it has read what came meanwhile, so on loopback a response can come first, and is lost. Over a network it cannot.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// How late the node's bytes reach the client.
const DELAY: Duration = Duration::from_millis(30);

/// The link. It ends with its value.
pub(crate) struct SlowLink {
    pub(crate) address: SocketAddr,
    _runtime: Runtime,
}

impl SlowLink {
    /// Starts a link to a port on a free port.
    pub(crate) fn start(node: SocketAddr) -> Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, node));
            }
        });
        Ok(Self { address, _runtime: runtime })
    }
}

/// Connects a client until either side ends.
async fn connect(client: TcpStream, node: SocketAddr) -> std::io::Result<()> {
    let server = TcpStream::connect(node).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((mut from_client, to_client), (from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    tokio::select! {
        sent = copy(&mut from_client, &mut to_server) => sent.map(|_| ()),
        received = copy_late(from_server, to_client) => received,
    }
}

async fn copy_late(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let len = from.read(&mut buffer).await?;
        if len == 0 {
            return to.shutdown().await;
        }
        tokio::time::sleep(DELAY).await;
        to.write_all(&buffer[..len]).await?;
    }
}

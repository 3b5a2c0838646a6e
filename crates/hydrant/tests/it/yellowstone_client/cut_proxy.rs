//! A proxy in front of the node that cuts its connections on request.

use std::net::SocketAddr;

use anyhow::Result;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The proxy. It ends with the runtime that it was started on.
pub(crate) struct CutProxy {
    pub(crate) address: SocketAddr,
    cuts: watch::Sender<u32>,
}

impl CutProxy {
    /// Starts a proxy on a free port.
    pub(crate) async fn start(node: SocketAddr) -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        Self::serve(listener, node).await
    }

    /// Starts a proxy on a port that connections may wait for.
    pub(crate) async fn serve(listener: std::net::TcpListener, node: SocketAddr) -> Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let (cuts, is_cut) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut is_cut = is_cut.clone();
                is_cut.mark_unchanged();
                tokio::spawn(async move {
                    let Ok(mut server) = TcpStream::connect(node).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => {}
                        _ = is_cut.changed() => {}
                    }
                });
            }
        });
        Ok(Self { address, cuts })
    }

    /// Cuts all connections that are open.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

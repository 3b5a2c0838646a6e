//! A server on `quinn`, as its users write one for many small streams: a task for each connection, streams
//! accepted in order, read in chunks until their end, and dropped. Built twice, for two ages of quinn.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use quinn::{Connection, Endpoint, ServerConfig, TransportConfig, VarInt};

use crate::metrics::{self, Received};

/// Chunks read at once: a transaction comes in one or two.
const CHUNKS: usize = 4;

/// Serves until standard input ends.
pub(crate) fn serve(
    window: usize,
    bytes: usize,
    allocations: impl Fn() -> (u64, u64, u64),
) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let received = Arc::<Received>::default();
    let counts = Arc::clone(&received);
    let endpoint = runtime.block_on(async {
        let socket = std::net::UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        socket2::SockRef::from(&socket).set_recv_buffer_size(8 << 20)?;
        let runtime = quinn::default_runtime().context("no runtime")?;
        let config = server_config(window, bytes)?;
        anyhow::Ok(Endpoint::new(Default::default(), Some(config), socket, runtime)?)
    })?;
    let port = endpoint.local_addr()?.port();
    runtime.spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let counts = Arc::clone(&counts);
            tokio::spawn(async move {
                if let Ok(connection) = incoming.await {
                    read(&connection, &counts).await;
                }
            });
        }
    });
    metrics::write_reports(port, &received, allocations, String::new);
    Ok(())
}

/// Reads every stream of a connection, one after the other.
async fn read(connection: &Connection, received: &Received) {
    while let Ok(mut stream) = connection.accept_uni().await {
        let mut chunks: [bytes::Bytes; CHUNKS] = Default::default();
        let mut bytes = 0;
        while let Ok(Some(count)) = stream.read_chunks(&mut chunks).await {
            bytes += chunks.iter().take(count).map(|chunk| chunk.len() as u64).sum::<u64>();
        }
        received.add(1, bytes);
    }
}

fn server_config(window: usize, bytes: usize) -> Result<ServerConfig> {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let der = rustls::pki_types::PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.into()], der.into())?;
    tls.alpn_protocols = vec![b"solana-tpu".to_vec()];
    let tls = quinn::crypto::rustls::QuicServerConfig::try_from(tls)?;
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    let mut transport = TransportConfig::default();
    // As Agave's servers set it.
    transport
        .max_concurrent_uni_streams(VarInt::try_from(window as u64)?)
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::try_from(bytes.max(1_232) as u64)?)
        .receive_window(VarInt::from_u32(8 << 20))
        .datagram_receive_buffer_size(None)
        .enable_segmentation_offload(false);
    config.transport_config(Arc::new(transport));
    Ok(config)
}

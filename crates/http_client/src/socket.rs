//! The byte stream to a server, with or without TLS.
//!
//! Shape: connecting is the TCP handshake, and the TLS handshake if the URL has https. After that
//! both are read and written alike.
//! Bounds: each handshake has a time limit ([`ConnectTimeouts`]).
//! Not here: trust (`tls`), acknowledgements (`quick_ack_socket`).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::quick_ack_socket::QuickAckSocket;
use crate::tls::Tls;
use crate::{Endpoint, HttpClientError};

/// Time limits of a connection attempt: some servers never answer, or accept and never answer.
#[derive(Clone, Copy)]
pub(crate) struct ConnectTimeouts {
    /// Of the TCP handshake with an address after which there is another one.
    pub(crate) next_address: Duration,
    /// Of the TCP handshake with the last address. The system's own limit is some two minutes.
    pub(crate) last_address: Duration,
    /// Of the TLS handshake.
    pub(crate) tls: Duration,
}

impl Default for ConnectTimeouts {
    fn default() -> Self {
        Self {
            next_address: Duration::from_secs(3),
            last_address: Duration::from_secs(10),
            tls: Duration::from_secs(10),
        }
    }
}

/// A byte stream, with or without TLS.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// Connects to a server for a protocol that starts with a request of HTTP/1.1, such as WebSocket. Each handshake has a
/// time limit of some seconds. On Linux, received bytes are acknowledged at once: some servers send the next message
/// only then.
pub async fn connect_stream(endpoint: &Endpoint) -> Result<Box<dyn ByteStream>, HttpClientError> {
    let timeouts = ConnectTimeouts::default();
    Ok(match Socket::connect_through(endpoint, timeouts, QuickAckSocket::new).await? {
        Socket::Plain(socket) => Box::new(socket),
        Socket::Tls(socket) => socket,
    })
}

/// A connection's bytes.
pub(crate) enum Socket<S = TcpStream> {
    Plain(S),
    // Boxed, as its buffers and keys are much larger than the other variant.
    Tls(Box<TlsStream<S>>),
}

impl<S: ByteStream> Socket<S> {
    /// Connects. All bytes are read and written through the result of `wrap`.
    async fn connect_through(
        endpoint: &Endpoint,
        timeouts: ConnectTimeouts,
        wrap: impl FnOnce(TcpStream) -> S,
    ) -> Result<Self, HttpClientError> {
        let (address, socket) = connect_any(endpoint, timeouts).await?;
        socket.set_nodelay(true).map_err(HttpClientError::Broken)?;
        let socket = wrap(socket);
        let Some(Tls { config, name }) = endpoint.tls() else { return Ok(Self::Plain(socket)) };
        let handshake = TlsConnector::from(Arc::clone(config)).connect(name.clone(), socket);
        let session = with_timeout("TLS handshake", timeouts.tls, handshake).await;
        Ok(Self::Tls(Box::new(session.map_err(|err| HttpClientError::Tls { address, err })?)))
    }
}

impl Socket {
    pub(crate) async fn connect(
        endpoint: &Endpoint,
        timeouts: ConnectTimeouts,
    ) -> Result<Self, HttpClientError> {
        Self::connect_through(endpoint, timeouts, |socket| socket).await
    }

    /// Writes all bytes and flushes the buffers.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes).await,
            Self::Tls(socket) => {
                socket.write_all(bytes).await?;
                socket.flush().await
            }
        }
    }

    /// Reads available bytes into the buffer's capacity. Returns 0 at the end.
    pub(crate) async fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read_buf(buffer).await,
            Self::Tls(socket) => socket.read_buf(buffer).await,
        }
    }
}

/// Connects to the first of a server's addresses that accepts a connection. Returns the last
/// address's error if none does.
async fn connect_any(
    endpoint: &Endpoint,
    timeouts: ConnectTimeouts,
) -> Result<(SocketAddr, TcpStream), HttpClientError> {
    // There is at least one address, so this error is never returned.
    let mut error = HttpClientError::NoAddress;
    let mut addresses = endpoint.addresses();
    while let Some((index, address)) = addresses.next() {
        let is_last = addresses.len() == 0;
        let timeout = if is_last { timeouts.last_address } else { timeouts.next_address };
        match with_timeout("TCP handshake", timeout, TcpStream::connect(address)).await {
            Ok(socket) => {
                endpoint.prefer(index);
                return Ok((address, socket));
            }
            Err(err) => error = HttpClientError::Connect { address, err },
        }
    }
    Err(error)
}

/// Returns the result of a handshake, or an error that names its time limit.
async fn with_timeout<T>(
    handshake: &str,
    timeout: Duration,
    connecting: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let connected = tokio::time::timeout(timeout, connecting).await;
    connected.unwrap_or_else(|_| {
        let why = format!("the server did not complete the {handshake} within {timeout:?}");
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::path::PathBuf;

    use base64::Engine;
    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;
    use serde_json::json;

    use super::*;
    use crate::Client;
    use crate::testing::{block_on, respond_to};

    /// A server with a certificate for 127.0.0.1, and the file of this certificate, which drop
    /// deletes.
    struct Server {
        address: SocketAddr,
        ca: PathBuf,
    }

    impl Server {
        fn start(name: &str) -> Self {
            let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("made");
            let file = format!("hydrant-ca-{name}-{}.pem", std::process::id());
            let ca = std::env::temp_dir().join(file);
            let base64 = base64::engine::general_purpose::STANDARD.encode(made.cert.der());
            let pem = format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n");
            std::fs::write(&ca, pem).expect("it is written");
            let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("the provider has them")
                .with_no_client_auth()
                .with_single_cert(vec![made.cert.der().clone()], key)
                .expect("the key is the certificate's");
            let config = Arc::new(config);
            let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
            let address = listener.local_addr().expect("it is bound");
            std::thread::spawn(move || {
                for socket in listener.incoming() {
                    let config = Arc::clone(&config);
                    let socket = socket.expect("a connection");
                    std::thread::spawn(move || {
                        let session = rustls::ServerConnection::new(config).expect("a config");
                        // Ends with the client, or at once if the client does not trust it.
                        respond_to(&mut rustls::StreamOwned::new(session, socket), |text| {
                            assert!(text.starts_with("POST /rpc "), "{text}");
                            r#"{"jsonrpc":"2.0","result":7,"id":1}"#.to_owned()
                        });
                    });
                }
            });
            Self { address, ca }
        }

        fn url(&self) -> String {
            format!("https://{}/rpc", self.address)
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            // It is a temporary file anyway.
            let _ = std::fs::remove_file(&self.ca);
        }
    }

    #[test]
    fn calls_go_over_tls_to_a_trusted_server() {
        let server = Server::start("trusted");
        let endpoint = Endpoint::parse_trusting(&server.url(), Some(&server.ca)).expect("a URL");
        let mut client = Client::open(endpoint).expect("it is trusted");
        for _ in 0..2 {
            assert_eq!(client.call("height", &json!([])).expect("a response"), 7);
        }
    }

    #[test]
    fn an_untrusted_certificate_is_refused() {
        let server = Server::start("stranger");
        let other = Server::start("other");
        let endpoint = Endpoint::parse_trusting(&server.url(), Some(&other.ca)).expect("a URL");
        match Client::open(endpoint).err().expect("it is a stranger") {
            HttpClientError::Tls { address, err } => {
                assert_eq!(address, server.address);
                assert!(err.to_string().contains("certificate"), "{err}");
            }
            err => panic!("{err}"),
        }
    }

    #[test]
    fn a_server_that_accepts_and_never_answers_ends_the_tls_handshake() {
        // The system accepts the connection, and no program reads it.
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let trusted = Server::start("silent");
        let url = format!("https://{address}/rpc");
        let endpoint = Endpoint::parse_trusting(&url, Some(&trusted.ca)).expect("a URL");
        let tls = Duration::from_millis(20);
        let timeouts = ConnectTimeouts { tls, ..ConnectTimeouts::default() };
        let connecting = async { Socket::connect(&endpoint, timeouts).await.err() };
        match block_on(connecting).expect("the server is silent") {
            HttpClientError::Tls { address: silent, err } => {
                assert_eq!(silent, address);
                assert_eq!(err.kind(), io::ErrorKind::TimedOut);
                let text = err.to_string();
                assert!(text.contains("the TLS handshake within 20ms"), "{text}");
            }
            err => panic!("{err}"),
        }
    }

    #[test]
    fn an_address_that_never_answers_ends_the_tcp_handshake() {
        let never = std::future::pending::<io::Result<()>>();
        let timeout = Duration::from_millis(20);
        let err = block_on(with_timeout("TCP handshake", timeout, never)).expect_err("too long");
        assert_eq!(err.kind(), io::ErrorKind::TimedOut);
        assert!(err.to_string().contains("the TCP handshake within 20ms"), "{err}");
    }

    #[test]
    fn a_file_without_a_certificate_is_named() {
        let file = std::env::temp_dir().join(format!("hydrant-ca-none-{}", std::process::id()));
        std::fs::write(&file, "none").expect("it is written");
        let err = Endpoint::parse_trusting("https://127.0.0.1", Some(&file)).expect_err("none");
        std::fs::remove_file(&file).expect("it was written");
        assert!(err.to_string().contains("hydrant-ca-none"), "{err}");
    }
}

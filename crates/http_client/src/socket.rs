//! The byte stream to a server, with or without TLS.
//!
//! Shape: connecting is the TCP handshake, and the TLS handshake if the URL has https. After that
//! both are read and written alike.
//! Not here: trust (`tls`).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::tls::Tls;
use crate::{Endpoint, HttpClientError};

/// Timeout of a connection attempt if there are more addresses: some never answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A connection's bytes.
pub(crate) enum Socket {
    Plain(TcpStream),
    // Boxed, as its buffers and keys are much larger than the other variant.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    pub(crate) async fn connect(endpoint: &Endpoint) -> Result<Self, HttpClientError> {
        let (address, socket) = connect_any(endpoint).await?;
        socket.set_nodelay(true).map_err(HttpClientError::Broken)?;
        let Some(Tls { config, name }) = endpoint.tls() else { return Ok(Self::Plain(socket)) };
        let session = TlsConnector::from(Arc::clone(config)).connect(name.clone(), socket).await;
        Ok(Self::Tls(Box::new(session.map_err(|err| HttpClientError::Tls { address, err })?)))
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
async fn connect_any(endpoint: &Endpoint) -> Result<(SocketAddr, TcpStream), HttpClientError> {
    // There is at least one address, so this error is never returned.
    let mut error = HttpClientError::NoAddress;
    let mut addresses = endpoint.addresses();
    while let Some((index, address)) = addresses.next() {
        let connecting = TcpStream::connect(address);
        let connected = match addresses.len() {
            0 => connecting.await,
            _ => tokio::time::timeout(CONNECT_TIMEOUT, connecting)
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        };
        match connected {
            Ok(socket) => {
                endpoint.prefer(index);
                return Ok((address, socket));
            }
            Err(err) => error = HttpClientError::Connect { address, err },
        }
    }
    Err(error)
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
    use crate::testing::respond_to;

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
    fn a_file_without_a_certificate_is_named() {
        let file = std::env::temp_dir().join(format!("hydrant-ca-none-{}", std::process::id()));
        std::fs::write(&file, "none").expect("it is written");
        let err = Endpoint::parse_trusting("https://127.0.0.1", Some(&file)).expect_err("none");
        std::fs::remove_file(&file).expect("it was written");
        assert!(err.to_string().contains("hydrant-ca-none"), "{err}");
    }
}
